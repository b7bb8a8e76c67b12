"""The plain network that patterns and curves are timed on where no design is given.

Servers of some GPUs with a NIC each under leaves, and one spine for all of them where one leaf is
not enough; its cables carry all that the servers of a leaf can send, so that nothing but the NICs
limits. Messages cost no headers and exactly one latency, so that closed forms can be held against
what the engines say.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from railweave.design.models import RoutingScheme, RoutingSpec, Transport
from railweave.fabric import Fabric, LinkLayer, NodeKind, PlaneId
from railweave.fabric.routing import RoutingSet, compile_routing
from railweave.fabric.wire import DEFAULT_MTU_BYTES, Framing

__all__ = ["PlainNetwork", "plain_network"]

I32 = npt.NDArray[np.int32]
F64 = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PlainNetwork:
    """A fabric and its routing."""

    fabric: Fabric
    routing: RoutingSet


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where the nodes are: GPUs first, then NICs, hubs, leaves and the spine."""

    servers: int
    gpus: int  #: of a server
    leaves: int

    @property
    def n_gpus(self) -> int:
        return self.servers * self.gpus

    @property
    def hubs(self) -> int:
        return self.servers if self.gpus > 1 else 0

    @property
    def first_hub(self) -> int:
        return 2 * self.n_gpus

    @property
    def first_leaf(self) -> int:
        return self.first_hub + self.hubs

    @property
    def spines(self) -> int:
        return int(self.leaves > 1)

    @property
    def n_nodes(self) -> int:
        return self.first_leaf + self.leaves + self.spines


def plain_network(
    servers: int,
    gpus_per_server: int,
    *,
    link_bps: float,
    latency_s: float = 0.0,
    servers_per_leaf: int = 16,
    scale_up_bps: float = 3.6e12,
    scale_up_latency_s: float | None = None,
    name: str = "plain",
) -> PlainNetwork:
    """Return servers under non-blocking leaves and a spine, and their routing.

    Args:
        servers: how many; GPU g of server s is GPU number s · gpus_per_server + g.
        gpus_per_server: GPUs of a server, each with a NIC of its own on the rail of its number;
            more than one share a scale-up network.
        link_bps: of a NIC, one way.
        latency_s: of a message between servers, all of it on the sender's way to its leaf.
        servers_per_leaf: servers under one leaf.
        scale_up_bps: of a GPU within its server, one way.
        scale_up_latency_s: of a message there; None: ``latency_s``.
        name: of the fabric.
    """
    plan = _Layout(servers, gpus_per_server, -(-servers // servers_per_leaf))
    inside = latency_s if scale_up_latency_s is None else scale_up_latency_s
    speeds = link_bps, latency_s, scale_up_bps, inside
    fabric = _fabric(plan, servers_per_leaf, speeds, name)
    spec = RoutingSpec(scheme=RoutingScheme.ECMP)
    routing = compile_routing(fabric, PlaneId.BACKEND, spec, Transport.ROCEV2)
    bare = Framing(Transport.ROCEV2, DEFAULT_MTU_BYTES[Transport.ROCEV2], 0, ())
    return PlainNetwork(fabric, RoutingSet.of(replace(routing, frame=bare)))


@dataclass(frozen=True, eq=False)
class _Links:
    """Duplex links: ends, capacity, layer, and delay from a to b."""

    a: npt.NDArray[np.int64]
    b: npt.NDArray[np.int64]
    capacity: F64
    layer: npt.NDArray[np.uint8]
    delay: F64


def _links(
    plan: _Layout, servers_per_leaf: int, speeds: tuple[float, float, float, float]
) -> _Links:
    """Return GPU – NIC, GPU – hub, NIC – leaf and leaf – spine, in this order."""
    link_bps, latency_s, scale_up_bps, inside_s = speeds
    gpu = np.arange(plan.n_gpus)
    nic = gpu + plan.n_gpus
    server = gpu // plan.gpus
    leaf = plan.first_leaf + server // servers_per_leaf
    up = np.bincount(leaf - plan.first_leaf, minlength=plan.leaves) * link_bps
    rows: list[tuple[object, object, object, LinkLayer, float]] = [
        (gpu, nic, link_bps, LinkLayer.PCIE, 0.0)
    ]
    if plan.hubs:
        rows.append((gpu, plan.first_hub + server, scale_up_bps, LinkLayer.SCALE_UP, inside_s))
    rows.append((nic, leaf, link_bps, LinkLayer.HOST_LEAF, latency_s))
    if plan.spines:
        leaves = plan.first_leaf + np.arange(plan.leaves)
        rows.append((leaves, plan.first_leaf + plan.leaves, up, LinkLayer.LEAF_SPINE, 0.0))
    count = [len(np.atleast_1d(np.asarray(row[0]))) for row in rows]
    parts = [
        np.concatenate([np.broadcast_to(row[i], n) for row, n in zip(rows, count, strict=True)])  # type: ignore[call-overload]
        for i in range(5)
    ]
    return _Links(
        parts[0].astype(np.int64),
        parts[1].astype(np.int64),
        parts[2].astype(np.float64),
        parts[3].astype(np.uint8),
        parts[4].astype(np.float64),
    )


def _fabric(
    plan: _Layout, servers_per_leaf: int, speeds: tuple[float, float, float, float], name: str
) -> Fabric:
    links = _links(plan, servers_per_leaf, speeds)
    g, n = plan.n_gpus, plan.n_nodes
    node = np.arange(n)
    kind = np.full(n, NodeKind.SWITCH, dtype=np.uint8)
    kind[:g], kind[g : 2 * g] = NodeKind.GPU, NodeKind.NIC
    kind[2 * g : plan.first_leaf] = NodeKind.SCALE_UP
    tier = np.where(node < plan.first_leaf, 0, 1).astype(np.int8)
    tier[n - plan.spines :] = 2
    server = np.full(n, -1, dtype=np.int32)
    server[: 2 * g] = np.tile(np.arange(g) // plan.gpus, 2)
    server[2 * g : plan.first_leaf] = np.arange(plan.hubs)
    rail = np.full(n, -1, dtype=np.int32)
    rail[: 2 * g] = np.tile(np.arange(g) % plan.gpus, 2)
    index = np.zeros(n, dtype=np.int32)
    for first, last in ((0, g), (g, 2 * g), (2 * g, plan.first_leaf), (plan.first_leaf, n)):
        index[first:last] = np.arange(last - first)
    index[n - plan.spines :] = 0
    on_network = links.layer >= LinkLayer.HOST_LEAF
    src, dst = (np.stack(ends, axis=1).ravel() for ends in ((links.a, links.b), (links.b, links.a)))
    delay = np.zeros(len(src))
    delay[::2] = links.delay
    port = _ports(src, np.repeat(on_network, 2))
    return Fabric(
        name=name,
        node_kind=kind,
        node_tier=tier,
        node_plane=np.where(
            (kind == NodeKind.NIC) | (kind == NodeKind.SWITCH), PlaneId.BACKEND, -1
        ).astype(np.int8),
        node_subplane=np.zeros(n, dtype=np.int8),
        node_pod=np.full(n, -1, dtype=np.int32),
        node_rail=rail,
        node_server=server,
        node_rack=np.where(server >= 0, server // servers_per_leaf, plan.leaves).astype(np.int32),
        node_index=index,
        link_src=src.astype(np.int32),
        link_dst=dst.astype(np.int32),
        link_capacity_bps=np.repeat(links.capacity, 2),
        link_efficiency=np.ones(len(src)),
        link_delay_s=delay,
        link_layer=np.repeat(links.layer, 2),
        link_plane=np.where(np.repeat(on_network, 2), PlaneId.BACKEND, -1).astype(np.int8),
        link_length_m=np.zeros(len(src)),
        link_src_port=port,
        link_dst_port=port[np.arange(len(src)) ^ 1],
        link_up=np.ones(len(src), dtype=bool),
        duplex_cable=np.where(on_network, np.cumsum(on_network) - 1, -1).astype(np.int32),
        server_names=tuple(f"node{i + 1:03d}" for i in range(plan.servers)),
    )


def _ports(src: npt.NDArray[np.int64], on_network: npt.NDArray[np.bool_]) -> I32:
    """Number the network ports of each node from 1, in the order of the links; 0 elsewhere."""
    port = np.zeros(len(src), dtype=np.int32)
    mine = np.flatnonzero(on_network)
    order = mine[np.argsort(src[mine], kind="stable")]
    first = np.searchsorted(src[order], src[order], side="left")
    port[order] = np.arange(len(order)) - first + 1
    return port
