"""`build_fabric`: from a design to one `Fabric` that holds all its planes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from railweave.design.models import Design, Topology
from railweave.fabric._arrays import Fabric, PlaneId
from railweave.fabric._assembly import Ints, RackDistance
from railweave.fabric._builder import Builder
from railweave.fabric._plane_input import cluster_of, network_of, plane_input
from railweave.fabric._servers import ServerNodes
from railweave.fabric.plan import PlanePlan
from railweave.fabric.sizing import size_network
from railweave.findings import Finding

if TYPE_CHECKING:
    from railweave.catalog import Catalog

__all__ = ["BuiltFabric", "build_fabric"]


@dataclass(frozen=True, eq=False)
class BuiltFabric:
    """A design built: the fabric, the plan of each plane, findings, and where servers' nodes are.

    ``network`` maps each plane of the design to the plane whose network carries it (itself, or the
    one it shares). ``nodes.gpu_nic`` (G,) is each GPU's back-end NIC. ``other_nodes`` names extra
    hosts, storage servers and services. ``rack_places`` gives row and column of each rack.
    """

    fabric: Fabric
    plans: Mapping[PlaneId, PlanePlan]
    findings: tuple[Finding, ...]
    nodes: ServerNodes
    network: Mapping[PlaneId, PlaneId]
    other_nodes: Mapping[str, int]
    rack_places: RackDistance
    servers_per_rack: int

    def server_nics(self, server: int, plane: PlaneId) -> Ints:
        """Return the NIC nodes that a server uses for a plane, the network it shares included."""
        carrier = self.network[plane]
        first = int(self.nodes.nic_first[carrier][server])
        nics: Ints = np.arange(first, first + int(self.nodes.nic_count[carrier][server]))
        return nics

    def server_gpus(self, server: int) -> Ints:
        """Return the GPU nodes of a server."""
        first = int(self.nodes.gpu_first[server])
        gpus: Ints = np.arange(first, first + int(self.nodes.gpu_count[server]))
        return gpus


def build_fabric(design: Design, catalog: Catalog, folder: Path = Path()) -> BuiltFabric:
    """Size and build every plane of a design.

    Args:
        design: the design.
        catalog: parts, those of the design's own catalog files included.
        folder: where graph files are, unless their paths are absolute: the design file's folder.

    Raises:
        SizingError: a plane cannot be built as asked.
        CatalogError: a part the catalog does not have.
        DesignError: a graph file with problems.
        MissingProgramError: a GraphML file without networkx.
    """
    cluster = cluster_of(design, catalog)
    network = {
        plane: carrier for plane in PlaneId if (carrier := network_of(design, plane)) is not None
    }
    owners = sorted(set(network.values()))
    inputs = {plane: plane_input(design, catalog, cluster, plane) for plane in owners}
    sizes = {
        plane: size_network(given.demand)
        for plane, given in inputs.items()
        if given.topology is not Topology.GRAPH
    }
    builder = Builder(
        design, catalog, cluster, folder=folder, network=network, inputs=inputs, sizes=sizes
    )
    fabric, places, plans = builder.build()
    findings = tuple(finding for plan in plans.values() for finding in plan.findings)
    return BuiltFabric(
        fabric=fabric,
        plans=plans,
        findings=findings + tuple(builder.say_services()),
        nodes=builder.nodes,
        network=network,
        other_nodes=builder.other_nodes,
        rack_places=places,
        servers_per_rack=cluster.servers_per_rack,
    )
