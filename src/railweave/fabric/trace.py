"""One message followed hop by hop: the links it takes, what could be chosen, what was hashed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from railweave.design.models import RoutingScheme, Transport
from railweave.fabric._arrays import Fabric, LinkLayer, NodeKind
from railweave.fabric._headers import Flows, flow_headers, flowlets
from railweave.fabric._paths import PathStatus
from railweave.fabric.addressing import ip_text
from railweave.fabric.names import node_name, port_name
from railweave.fabric.routing import Routing

__all__ = ["HashInput", "Hop", "TracedFlow", "trace_path"]

_HASHING = (RoutingScheme.ECMP, RoutingScheme.E_ECMP, RoutingScheme.FLOWLET)


@dataclass(frozen=True, slots=True)
class Hop:
    """One directed link of a way.

    ``link`` is its number in the fabric; ``port`` and ``port_in`` are the ports at its two ends,
    "" inside a server. ``choices`` is how many links the node where it begins could have taken: 1
    where there is no choice. ``weight`` is the part of the flow that takes it, below 1 only where
    packets are sprayed.
    """

    link: int
    source: str
    target: str
    port: str
    port_in: str
    capacity_bps: float
    delay_s: float
    choices: int
    weight: float


@dataclass(frozen=True, slots=True)
class HashInput:
    """What switches could hash of a flow, and the fields that they do.

    ``queue_pair`` is the destination's; it enters the hash where ``fields`` names it.
    """

    src_ip: str
    dst_ip: str
    protocol: int
    src_port: int
    dst_port: int
    queue_pair: int
    fields: tuple[str, ...]
    function: str

    def describe(self) -> str:
        """Write the hash with its arguments and their values."""
        value = {
            "src-ip": self.src_ip,
            "dst-ip": self.dst_ip,
            "protocol": str(self.protocol),
            "src-port": str(self.src_port),
            "dst-port": str(self.dst_port),
            "queue-pair": str(self.queue_pair),
        }
        named = ", ".join(f"{field} {value[field]}" for field in self.fields)
        return f"{self.function}({named})"


@dataclass(frozen=True, slots=True)
class TracedFlow:
    """One flow of the message: its part of the bytes, its hops, what was hashed of it.

    ``status`` is OK, or says why there is no way; then there are no hops. ``hash_input`` is None
    where nothing is hashed: inside a server, and under schemes that do not hash.
    """

    share: float
    status: PathStatus
    hops: tuple[Hop, ...]
    hash_input: HashInput | None

    @property
    def delay_s(self) -> float:
        """Time of the first bit on the way: wires and switches, without queues."""
        return sum(hop.delay_s * hop.weight for hop in self.hops)


def trace_path(
    routing: Routing,
    source: int,
    target: int,
    *,
    connection: int = 0,
    queue_pairs: int = 1,
    size_bytes: float = 1.0,
) -> tuple[TracedFlow, ...]:
    """Follow one message alone; the arguments are those of :meth:`Routing.paths`.

    Under the scheme adaptive the way is that of a message which meets no other.
    """
    src, dst = np.array([source], dtype=np.int32), np.array([target], dtype=np.int32)
    paths = routing.paths(
        src, dst, queue_pairs=queue_pairs, connection=connection, size_bytes=size_bytes
    )
    one = np.array([queue_pairs], dtype=np.int32), np.array([connection], dtype=np.int32)
    flows = routing._flows_of(src, dst, *one)
    found = []
    for number in range(paths.n_flows):
        at = slice(int(paths.ptr[number]), int(paths.ptr[number + 1]))
        links = [int(link) for link in paths.link[at]]
        weights = [1.0] * len(links)
        if paths.weight is not None:
            weights = [float(weight) for weight in paths.weight[at]]
            links, weights = _in_order(routing.fabric, source, links, weights)
        hops = _hops(routing, links, weights)
        hashed = None
        outside = any(routing.fabric.link_layer[link] >= LinkLayer.HOST_LEAF for link in links)
        if outside and paths.plane[number] >= 0 and routing.scheme in _HASHING:
            hashed = _hash_input(routing, flows, number, links)
        found.append(
            TracedFlow(
                float(paths.share[number]), PathStatus(int(paths.status[number])), hops, hashed
            )
        )
    return tuple(found)


def _in_order(
    fabric: Fabric, source: int, links: list[int], weights: list[float]
) -> tuple[list[int], list[float]]:
    """Sort the links of a sprayed flow by their distance from its source."""
    distance = {source: 0}
    for _ in links:
        for link in links:
            a, b = int(fabric.link_src[link]), int(fabric.link_dst[link])
            if a in distance:
                distance[b] = min(distance.get(b, 1 << 30), distance[a] + 1)
    order = sorted(
        range(len(links)),
        key=lambda k: (distance.get(int(fabric.link_src[links[k]]), 1 << 30), links[k]),
    )
    return [links[k] for k in order], [weights[k] for k in order]


def _hops(routing: Routing, links: list[int], weights: list[float]) -> tuple[Hop, ...]:
    fabric = routing.fabric
    switches = [
        int(fabric.link_src[link])
        for link in links
        if fabric.node_kind[fabric.link_src[link]] == NodeKind.SWITCH
    ]
    edge = switches[-1] if switches else -1
    found = []
    for link, weight in zip(links, weights, strict=True):
        node = int(fabric.link_src[link])
        is_switch = fabric.node_kind[node] == NodeKind.SWITCH
        choices = 1
        if is_switch and node != edge:
            choices = max(1, len(routing.table.next_links(node, edge)))
        wired = bool(fabric.link_src_port[link])
        found.append(
            Hop(
                link,
                node_name(fabric, node),
                node_name(fabric, int(fabric.link_dst[link])),
                port_name(fabric, link) if wired else "",
                port_name(fabric, link, head=True) if wired else "",
                float(fabric.link_capacity_bps[link]),
                float(fabric.link_delay_s[link]),
                choices,
                weight,
            )
        )
    return tuple(found)


def _hash_input(routing: Routing, flows: Flows, number: int, links: list[int]) -> HashInput:
    """Return the headers of a flow; the addresses are those of the NICs that it passes."""
    fabric, spec = routing.fabric, routing.spec
    port, service, pair = flow_headers(
        flows, np.array([number]), routing.transport, flowlets(spec, routing.scheme)
    )
    outside = [link for link in links if fabric.link_layer[link] >= LinkLayer.HOST_LEAF]
    ip = routing.addresses.node_ip
    fields = [field.value for field in spec.fields]
    if routing.scheme is not RoutingScheme.ECMP:
        fields.append("queue-pair")
    return HashInput(
        ip_text(int(ip[fabric.link_src[outside[0]]])),
        ip_text(int(ip[fabric.link_dst[outside[-1]]])),
        6 if routing.transport is Transport.TCP else 17,
        int(port[0]),
        int(service[0]),
        int(pair[0]),
        tuple(fields),
        spec.hash.value,
    )
