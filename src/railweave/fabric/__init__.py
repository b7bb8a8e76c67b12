"""The fabric: sizing, builders, arrays, capacity, failures and routing."""

from railweave.fabric._arrays import TIER_NAMES, Fabric, LinkLayer, NodeKind, PlaneId
from railweave.fabric.build import BuiltFabric, build_fabric
from railweave.fabric.names import find_duplex, find_node, find_port, node_name, port_name
from railweave.fabric.plan import Counts, Growth, PlanePlan, growth, plan_plane
from railweave.fabric.ports import PortMap, port_map
from railweave.fabric.sizing import Demand, NetworkSize, size_network

__all__ = [
    "TIER_NAMES",
    "BuiltFabric",
    "Counts",
    "Demand",
    "Fabric",
    "Growth",
    "LinkLayer",
    "NetworkSize",
    "NodeKind",
    "PlaneId",
    "PlanePlan",
    "PortMap",
    "build_fabric",
    "find_duplex",
    "find_node",
    "find_port",
    "growth",
    "node_name",
    "plan_plane",
    "port_map",
    "port_name",
    "size_network",
]
