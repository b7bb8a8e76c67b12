"""The way of a queue pair's packets through a design, there and back, link by link."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from railweave.design.models import RoutingScheme, Transport
from railweave.errors import InputError
from railweave.fabric import LinkLayer, NodeKind, PlaneId
from railweave.fabric._headers import (
    ROCE_PORT,
    TCP_SERVICE_PORT,
    Flows,
    field_mask,
    flow_headers,
    flowlets,
)
from railweave.fabric._paths import PathStatus, splitmix64
from railweave.fabric.trace import TracedFlow, trace_path
from railweave.transport.journey._ends import Ends
from railweave.transport.journey._hops import ULA_PREFIX, Dresser, JourneyWay, outside

if TYPE_CHECKING:
    from railweave.engine.packet_settings import PacketSettings
    from railweave.fabric.routing import Routing

__all__ = ["Ways", "find_ways"]

_MASK24: Final = np.uint64(0xFFFFFF)
_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)
#: schemes under which every packet or burst may take another way
_UNFIXED: Final = (RoutingScheme.SPRAY, RoutingScheme.FLOWLET)
_HASHED: Final = (RoutingScheme.ECMP, RoutingScheme.E_ECMP)
_WHY: Final = {
    PathStatus.OK: "",
    PathStatus.UNREACHABLE: "no way up and down leads there with the links that are up",
    PathStatus.NO_ENTRY: "a forwarding table has no entry for the destination",
    PathStatus.LOOP: "a forwarding table sends it round in circles",
    PathStatus.NO_NIC: "an end has no adapter in this plane",
}


@dataclass(frozen=True, slots=True)
class Ways:
    """Both ways of a queue pair, its numbers at both ends, and what is to be said of them.

    ``inside`` says that both ways stay in a server or scale-up domain: no packets of the network.
    """

    forward: JourneyWay
    back: JourneyWay
    source_qp: int
    target_qp: int
    inside: bool
    notes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class _Finder:
    """What finding both ways of one queue pair needs."""

    routing: Routing
    plane: PlaneId
    ends: Ends
    queue_pair: int
    connection: int

    @cached_property
    def fixed(self) -> Routing:
        """The routing under which this queue pair keeps one way."""
        if self.routing.scheme not in _UNFIXED:
            return self.routing
        spec = self.routing.spec.model_copy(update={"scheme": RoutingScheme.ECMP})
        return self.routing.under(spec)

    @cached_property
    def flows(self) -> Flows:
        """The flows of the connection, as the routing splits it."""
        src, dst, pairs, number = (
            np.array([value], dtype=np.int32)
            for value in (self.ends.source, self.ends.target, 1, self.connection)
        )
        return self.fixed._flows_of(src, dst, pairs, number)

    def forward(self) -> TracedFlow:
        """Trace the flow of the queue pair asked for.

        Raises:
            InputError: there are not as many, or it has no way.
        """
        flows = trace_path(
            self.fixed, self.ends.source, self.ends.target, connection=self.connection
        )
        between = f"{self.ends.source_name} to {self.ends.target_name}"
        if not 0 <= self.queue_pair < len(flows):
            raise InputError(
                f"queue pair {self.queue_pair} of {between}: allowed: 0 to {len(flows) - 1}, as "
                "many as the connection has (planes: routing: queue_pairs, ports of an adapter)"
            )
        flow = flows[self.queue_pair]
        if flow.status is not PathStatus.OK:
            raise InputError(
                f"no way from {between} in the {self.plane.name.lower()} plane: "
                f"{_WHY[flow.status]}; choose other ends or another plane"
            )
        if not flow.hops:
            raise InputError(
                f"from {between} nothing is crossed: both use one adapter; choose other ends"
            )
        return flow

    def headers(self) -> tuple[int, int, int]:
        """Return source port and queue pair numbers at both ends, as the routing draws them."""
        use = np.array([self.queue_pair])
        per_pair = flowlets(self.fixed.spec, self.fixed.scheme)
        port, _, _ = flow_headers(self.flows, use, self.fixed.transport, per_pair)
        queue = self.flows.number[use].astype(np.uint64) // np.uint64(per_pair)
        drawn = splitmix64(self.flows.connection[use] + queue * _GOLDEN)
        local, remote = (drawn >> np.uint64(8)) & _MASK24, (drawn >> np.uint64(40)) & _MASK24
        return int(port[0]), int(local[0]), int(remote[0])

    def backward(self, forward: list[int], ports: tuple[int, int], pair: int) -> list[int]:
        """Return the links back: through the same adapters, chosen anew by each switch."""
        wired = outside(self.fixed.fabric, forward)
        first, last = forward.index(wired[0]), forward.index(wired[-1])
        before = [link ^ 1 for link in reversed(forward[last + 1 :])]
        after = [link ^ 1 for link in reversed(forward[:first])]
        return [*before, *self._network_back(wired[0], wired[-1], ports, pair), *after]

    def _network_back(self, first: int, last: int, ports: tuple[int, int], pair: int) -> list[int]:
        fabric, routing = self.fixed.fabric, self.fixed
        a, b = int(fabric.link_src[first]), int(fabric.link_dst[last])
        if routing.scheme not in _HASHED:
            flows = trace_path(routing, b, a, connection=self.connection)
            flow = flows[min(self.queue_pair, len(flows) - 1)]
            self._require(flow.status)
            return outside(fabric, [hop.link for hop in flow.hops])
        of_nic = (fabric.link_src == b) & (fabric.link_plane == fabric.link_plane[last])
        own = np.flatnonzero(of_nic & (fabric.link_layer >= LinkLayer.HOST_LEAF))
        # the queue pair answers by the port that it is on
        port = np.array([int(np.searchsorted(own, last ^ 1))], dtype=np.int32)
        ip = routing.addresses.node_ip
        _, links, _, status = routing.table.walk(
            np.array([b], dtype=np.int32),
            np.array([a], dtype=np.int32),
            hash_function=routing.spec.hash.value,
            field_mask=field_mask(routing.spec, routing.scheme),
            protocol=6 if routing.transport is Transport.TCP else 17,
            seeds=routing.switch_seeds,
            src_ip=ip[[b]],
            dst_ip=ip[[a]],
            src_port=np.array([ports[0]], dtype=np.uint16),
            dst_port=np.array([ports[1]], dtype=np.uint16),
            qp=np.array([pair], dtype=np.uint32),
            port_choice=port if len(own) > 1 else None,
        )
        self._require(PathStatus(int(status[0])))
        return [int(link) for link in links]

    def _require(self, status: PathStatus) -> None:
        if status is not PathStatus.OK:
            raise InputError(
                f"{self.ends.target_name} cannot answer {self.ends.source_name}: {_WHY[status]}"
            )

    def choices(self, links: list[int]) -> dict[int, int]:
        """Count the links that each switch of a way could have taken."""
        fabric, table = self.fixed.fabric, self.fixed.table
        tails = ((link, int(fabric.link_src[link])) for link in links)
        switches = [
            (link, node) for link, node in tails if fabric.node_kind[node] == NodeKind.SWITCH
        ]
        edge = switches[-1][1]
        return {
            link: max(1, len(table.next_links(node, edge)))
            for link, node in switches
            if node != edge
        }


def find_ways(
    routing: Routing,
    settings: PacketSettings,
    plane: PlaneId,
    ends: Ends,
    *,
    queue_pair: int = 0,
    connection: int = 0,
    ip_version: int = 4,
) -> Ways:
    """Find the way there and back of one queue pair.

    Args:
        routing: of the plane, or of the plane whose network it shares.
        settings: of the design's switches: which of them cut through.
        plane: as asked for.
        ends: who talks.
        queue_pair: which of the connection's.
        connection: which of several between the same ends.
        ip_version: 4 or 6; which addresses the ways carry. Paths do not depend on it.

    Raises:
        InputError: no such queue pair, or no way.
    """
    finder = _Finder(routing, plane, ends, queue_pair, connection)
    dresser = Dresser(routing, settings, ip_version)
    flow = finder.forward()
    links = [hop.link for hop in flow.hops]
    if not outside(routing.fabric, links):
        there = dresser.way(links, {}, (0, 0), "")
        back = dresser.way([link ^ 1 for link in reversed(links)], {}, (0, 0), "")
        return Ways(there, back, 0, 0, inside=True, notes=ends.notes)
    port, local, remote = finder.headers()
    tcp = routing.transport is Transport.TCP
    ports = (port, TCP_SERVICE_PORT if tcp else ROCE_PORT)
    ports_back = (ports[1], ports[0]) if tcp else ports
    links_back = finder.backward(links, ports_back, local)
    hashed = flow.hash_input
    hashed_back = None
    if hashed is not None:
        hashed_back = replace(
            hashed,
            src_ip=hashed.dst_ip,
            dst_ip=hashed.src_ip,
            src_port=ports_back[0],
            dst_port=ports_back[1],
            queue_pair=local,
        )
    there, back = (
        dresser.way(way, finder.choices(way), used, "" if text is None else text.describe())
        for way, used, text in ((links, ports, hashed), (links_back, ports_back, hashed_back))
    )
    return Ways(there, back, local, remote, inside=False, notes=_notes(finder, ip_version))


def _notes(finder: _Finder, ip_version: int) -> tuple[str, ...]:
    said = list(finder.ends.notes)
    scheme = finder.routing.scheme
    if scheme in _UNFIXED:
        each = "packet" if scheme is RoutingScheme.SPRAY else "burst"
        said.append(
            f"routing {scheme.value}: every {each} may take another of the equal ways; followed "
            "is the one that hashing chooses"
        )
    elif scheme is RoutingScheme.ADAPTIVE:
        said.append("routing adaptive: followed is the way of a message that meets no other")
    if finder.routing.transport is Transport.INFINIBAND:
        said.append(
            "LIDs are numbered as the export for OpenSM numbers them, endpoints from 1; a real "
            "subnet manager may give others"
        )
        return tuple(said)
    said.append("MAC addresses are made up: 02, the node's number, the port's (0 on switches)")
    if ip_version == 6:
        said.append(
            f"IPv6 addresses are {ULA_PREFIX}::/96 with the design's IPv4 address as their last 32 "
            "bits; the ways are those that switches choose by the IPv4 addresses"
        )
    return tuple(said)
