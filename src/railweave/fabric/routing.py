"""Routing: which links the messages between endpoints take, in every plane.

`compile_routing` gives the immutable `Routing` of one plane; `RoutingSet` bundles the planes. The
next-hop sets are compiled once, by the native core, when the first path is asked for. What a
switch does with several equal next hops is the scheme's affair:

========================  ==========================================================================
ecmp                      hash of the chosen 5-tuple fields with the switch's seed
e-ecmp                    the destination queue pair enters the hash too
flowlet                   a message breaks into flowlets, each hashed anew
static                    pinned by the sender's port number on its leaf, round-robin over members
adaptive                  flow by flow to the least loaded member
spray                     every packet on its own: an equal split over all members
destination               InfiniBand forwarding tables, d-mod-k
table                     forwarding tables read from a file
========================  ==========================================================================

A message has at least one flow for each port that the NICs of both ends share alive, as software
opens at least one queue pair a port: in a dual-plane or twin-planar network it fills both planes.
The NIC deals its flows over these ports in turn, and each flow hashes on its own; a port whose way
is lost leaves its flows to the others. With several ports on one plane, which of the receiver's
ports delivers is the network's choice. Spraying uses all ports with one flow.

Headers are modelled as real hosts fill them: RoCEv2 source ports follow from the two queue pair
numbers by the rule of the RDMA stack of Linux, queue pairs stay with their connection, and their
numbers, which a NIC hands out in an order nobody controls, are drawn from the design's seed.
InfiniBand switches which hash are taken to see equivalent fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from railweave._native import RouteTable
from railweave.design.models import RoutingScheme, RoutingSpec, Transport
from railweave.errors import InputError
from railweave.fabric._arrays import Fabric, NodeKind, PlaneId
from railweave.fabric._attach import Attachments, ScaleUp, attachments, plane_links, scale_up
from railweave.fabric._headers import Flows, field_mask, flow_headers, flowlets, random_stream
from railweave.fabric._nic_ports import NicPorts, nic_ports
from railweave.fabric._paths import Paths, PathStatus, merge_paths, splitmix64
from railweave.fabric._rows import Rows
from railweave.fabric.addressing import Addresses, plane_addresses
from railweave.fabric.forwarding import ForwardingTable
from railweave.fabric.wire import Framing, framing

__all__ = ["PathStatus", "Paths", "Routing", "RoutingSet", "compile_routing"]

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U32 = npt.NDArray[np.uint32]
F64 = npt.NDArray[np.float64]

_NATIVE_SCHEME = {
    RoutingScheme.ECMP: "ecmp",
    RoutingScheme.E_ECMP: "ecmp",
    RoutingScheme.FLOWLET: "ecmp",
    RoutingScheme.STATIC: "pinned",
    RoutingScheme.ADAPTIVE: "adaptive",
    RoutingScheme.SPRAY: "spray",
    RoutingScheme.DESTINATION: "dmodk",
    RoutingScheme.TABLE: "table",
}


@dataclass(frozen=True, eq=False)
class Routing:
    """Routing of one plane over one fabric. Made by :func:`compile_routing`."""

    fabric: Fabric
    plane: PlaneId
    spec: RoutingSpec
    transport: Transport
    seed: int
    frame: Framing
    forwarding: ForwardingTable | None = None
    threads: int = 2

    @property
    def scheme(self) -> RoutingScheme:
        """The scheme in force: the one given, or destination on InfiniBand and ecmp elsewhere."""
        if self.spec.scheme is not None:
            return self.spec.scheme
        if self.transport is Transport.INFINIBAND:
            return RoutingScheme.DESTINATION
        return RoutingScheme.ECMP

    @cached_property
    def table(self) -> RouteTable:
        """Next-hop sets of all switches of the plane; compiled on first use."""
        fabric = self.fabric
        switch = (fabric.node_kind == NodeKind.SWITCH) & (fabric.node_plane == self.plane)
        return RouteTable(
            fabric.n_nodes,
            fabric.link_src,
            fabric.link_dst,
            plane_links(fabric, self.plane),
            switch.astype(np.uint8),
            fabric.node_tier,
            self.threads,
        )

    @cached_property
    def addresses(self) -> Addresses:
        """IPv4 addresses of the plane's host ports."""
        return plane_addresses(self.fabric, self.plane)

    @cached_property
    def scale_up(self) -> ScaleUp:
        """Scale-up hub of every node."""
        return scale_up(self.fabric)

    @cached_property
    def attachments(self) -> Attachments:
        """Ways of every endpoint to its NICs in this plane."""
        return attachments(self.fabric, self.plane, self.scale_up)

    @cached_property
    def _ports(self) -> NicPorts | None:
        """Ports of all NICs, where flows are dealt over them: spraying uses all at once."""
        ports = None if self.scheme is RoutingScheme.SPRAY else nic_ports(self.fabric, self.plane)
        return ports if ports is not None and ports.most > 1 else None

    @cached_property
    def switch_seeds(self) -> U32:
        """Hash seed of every node, shape (N,): its own, or the same for all."""
        start = random_stream(self.seed, f"hash-seed/{int(self.plane)}")
        node = np.arange(self.fabric.n_nodes, dtype=np.uint64)
        if self.spec.seeds == "equal":
            node = np.zeros_like(node)
        seeds: U32 = (splitmix64(node ^ start) >> np.uint64(32)).astype(np.uint32)
        return seeds

    @cached_property
    def _pin(self) -> I32:
        """Place of every node's first port among the host ports of its leaf, shape (N,)."""
        at = self.addresses
        order = np.lexsort((at.ip, at.leaf))
        leaf = at.leaf[order]
        start = np.searchsorted(leaf, leaf, side="left")
        pin = np.zeros(self.fabric.n_nodes, dtype=np.int32)
        pin[at.node[order][::-1]] = (np.arange(len(leaf)) - start)[::-1]
        return pin

    @cached_property
    def _rail_way(self) -> dict[tuple[int, int], int]:
        """Way of the GPU of each (server, rail), by which its neighbours reach that rail."""
        ways = self.attachments
        node = np.repeat(np.arange(self.fabric.n_nodes), np.diff(ways.ptr))
        gpu = np.flatnonzero(
            (self.fabric.node_kind[node] == NodeKind.GPU)
            & ~ways.borrowed[node]
            & (ways.out[:, -1] >= 0)
        )
        server = self.fabric.node_server[node[gpu]].tolist()
        rail = self.fabric.node_rail[ways.nic[gpu]].tolist()
        return {(s, r): k for s, r, k in zip(server, rail, gpu.tolist(), strict=True)}

    def on(self, fabric: Fabric) -> Routing:
        """Return this routing over another state of the fabric: failed links, changed speeds."""
        if fabric is self.fabric:
            return self
        other = replace(self, fabric=fabric)
        if np.array_equal(fabric.link_up, self.fabric.link_up) and "table" in self.__dict__:
            other.__dict__["table"] = self.table  # speeds do not enter next-hop sets
        return other

    def under(self, spec: RoutingSpec) -> Routing:
        """Return this routing with another scheme, hash or number of queue pairs."""
        other = replace(self, spec=spec)
        other.__dict__["table"] = self.table
        return other

    def paths(
        self,
        src: I32,
        dst: I32,
        *,
        queue_pairs: I32 | int = 1,
        connection: I32 | int = 0,
        size_bytes: F64 | float = 1.0,
    ) -> Paths:
        """Route M messages.

        Args:
            src, dst: node numbers of GPUs, hosts, storage servers or NICs, shape (M,).
            queue_pairs: of each message's connection; the plane's own number where that is higher.
            connection: tells apart connections between the same two ends; messages of one
                connection share its queue pairs, and so its hash.
            size_bytes: wire bytes, which the adaptive scheme balances.

        Returns:
            Paths with one flow for each queue pair (and flowlet) of a message, and at least one for
            each port both ends share; the status of a flow that cannot be routed says why.
        """
        src, dst = np.asarray(src, dtype=np.int32), np.asarray(dst, dtype=np.int32)
        n = len(src)
        hub = self.scale_up.hub
        local = (hub[src] >= 0) & (hub[src] == hub[dst]) | (src == dst)
        parts: list[tuple[I64, Paths]] = []
        if local.any():
            ids = np.flatnonzero(local)
            parts.append((ids, self._local_paths(src[ids], dst[ids])))
        if not local.all():
            ids = np.flatnonzero(~local)
            pairs, number, size = (
                np.broadcast_to(np.asarray(v), n)[ids]
                for v in (queue_pairs, connection, size_bytes)
            )
            parts.append((ids, self._network_paths(src[ids], dst[ids], pairs, number, size)))
        if not parts:
            parts.append((np.zeros(0, dtype=np.int64), self._local_paths(src, dst)))
        return merge_paths(n, parts)

    def _local_paths(self, src: I32, dst: I32) -> Paths:
        """Give the way over the scale-up hub; a message to itself needs no link."""
        n = len(src)
        apart = src != dst
        ptr = np.concatenate(([0], np.cumsum(2 * apart))).astype(np.int64)
        link = np.stack((self.scale_up.out[src], self.scale_up.back[dst]), axis=1)[apart]
        return Paths(
            np.arange(n + 1, dtype=np.int64),
            np.ones(n),
            ptr,
            link.ravel().astype(np.int32),
            None,
            np.full(n, -1, dtype=np.int8),
            np.zeros(n, dtype=np.uint8),
        )

    def _flows_of(self, src: I32, dst: I32, pairs: I32, number: I32) -> Flows:
        """Split messages into flows and choose the NICs: in turn over the queue pairs."""
        per_pair = flowlets(self.spec, self.scheme)
        ends = (src.astype(np.uint64) << np.uint64(32)) | dst.astype(np.uint64)
        start = random_stream(self.seed, f"connection/{int(self.plane)}")
        connection = splitmix64(splitmix64(ends ^ start) + number.astype(np.uint64))
        ways = self.attachments
        n_src, n_dst = ways.count(src), ways.count(dst)
        # Both ends count from one start, so that a pair of NICs of the same number meets.
        offset = (connection >> np.uint64(33)).astype(np.int64)
        pairs = np.maximum(pairs, self.spec.queue_pairs).astype(np.int64)
        nics = np.minimum(pairs, np.maximum(1, np.maximum(n_src, n_dst)))
        lanes = self._lanes(self._way(src, offset), self._way(dst, offset))
        # A queue pair for each shared port of each NIC in use.
        flows = np.maximum(pairs, np.where(lanes > 1, nics * lanes, 1)) * per_pair
        first = np.concatenate(([0], np.cumsum(flows)))
        message = np.repeat(np.arange(len(src), dtype=np.int64), flows)
        turn = np.arange(int(first[-1])) - first[:-1][message]
        queue, nics = turn // per_pair, nics[message]
        lane = np.where(lanes[message] > 1, queue // nics, -1)
        offset = offset[message] + np.where(lane < 0, queue, queue % nics)
        src, dst = src[message], dst[message]
        src_way, dst_way = self._way(src, offset), self._way(dst, offset)
        return Flows(first, message, turn, src, dst, src_way, dst_way, connection[message], lane)

    def _way(self, node: I32, turn: I64) -> I64:
        """Return each node's way to its NIC of this turn, −1 where it has none."""
        count = self.attachments.count(node)
        way: I64 = self.attachments.ptr[node] + turn % np.maximum(1, count)
        return np.where(count > 0, way, -1)

    def _lanes(self, src_way: I64, dst_way: I64) -> I64:
        """Return how many ports the two NICs of each message share."""
        lanes = np.ones(len(src_way), dtype=np.int64)
        both = np.flatnonzero((src_way >= 0) & (dst_way >= 0))
        if self._ports is not None and both.size:
            nic = self.attachments.nic
            lanes[both] = self._ports.shared(nic[src_way[both]], nic[dst_way[both]])[0]
        return lanes

    def _port(self, flows: Flows, use: I64) -> I32 | None:
        """Return the port of its NIC that each flow is dealt, −1 where the NIC hashes."""
        if self._ports is None or flows.lane.max(initial=-1) < 0:
            return None
        nic = self.attachments.nic
        source, target = nic[flows.src_way[use]], nic[flows.dst_way[use]]
        usable = self._ports.shared(source, target)[1]
        # Messages with fewer flows than ports do not all begin at the first.
        few = np.diff(flows.first)[flows.message[use]] < usable.sum(axis=1)
        start = np.where(few, (flows.connection[use] >> np.uint64(13)).astype(np.int64), 0)
        port = self._ports.choose(usable & (flows.lane[use] >= 0)[:, None], flows.lane[use], start)
        return port

    def _network_paths(self, src: I32, dst: I32, pairs: I32, number: I32, size: F64) -> Paths:
        """Route messages over the network, by another GPU's NIC where their own has no way."""
        flows = self._flows_of(src, dst, pairs, number)
        share = 1.0 / np.diff(flows.first)[flows.message]
        size = size[flows.message] * share
        missing = (flows.src_way < 0) | (flows.dst_way < 0)
        use = np.flatnonzero(~missing)
        rows = self._walk(flows, use, size)
        indirect = 0
        if rows.weight is None and np.any(rows.status == PathStatus.UNREACHABLE):
            rows, indirect = self._retry(flows, use, rows, size)
        if missing.any():
            length = np.zeros(len(missing), dtype=np.int64)
            length[use] = np.diff(rows.ptr)
            status = np.full(len(missing), PathStatus.NO_NIC, dtype=np.uint8)
            status[use] = rows.status
            rows = replace(rows, ptr=np.concatenate(([0], np.cumsum(length))), status=status)
        rows = rows.without_stubs()
        plane = np.full(len(share), int(self.plane), dtype=np.int8)
        return Paths(
            flows.first, share, rows.ptr, rows.link, rows.weight, plane, rows.status, indirect
        )

    def _options(self, flows: Flows, use: I64, size: F64) -> dict[str, Any]:
        """Return what the native walk needs for this scheme."""
        scheme = _NATIVE_SCHEME[self.scheme]
        options: dict[str, Any] = {"scheme": scheme}
        if scheme in ("ecmp", "adaptive", "table"):
            ip, nic = self.addresses.node_ip, self.attachments.nic
            source, target, pair = flow_headers(
                flows, use, self.transport, flowlets(self.spec, self.scheme)
            )
            options.update(
                src_ip=ip[nic[flows.src_way[use]]],
                dst_ip=ip[nic[flows.dst_way[use]]],
                src_port=source,
                dst_port=target,
                qp=pair,
            )
        if scheme == "pinned":
            pin = self._pin[self.attachments.nic[flows.src_way[use]]]
            options["pin"] = pin + flows.number[use].astype(np.int32)
        if scheme == "adaptive":
            options["size_bytes"] = size[use]
            options["capacity_bps"] = self.fabric.link_capacity_bps
        if scheme == "table":
            if self.forwarding is None:
                raise InputError(
                    f"planes.{self.plane.name.lower()}.routing: scheme 'table' needs a "
                    "forwarding-table file; set 'table' to its path, or choose another scheme"
                )
            ptr, dst, link = self.forwarding.rows(self.fabric.n_nodes)
            options.update(table_ptr=ptr, table_dst=dst, table_link=link)
        return options

    def _walk(self, flows: Flows, use: I64, size: F64) -> Rows:
        """Walk flows ``use``; those whose port has no way take another port of their NIC."""
        port = self._port(flows, use)
        rows = self._walk_from(flows, use, size, port)
        if port is None:
            return rows
        stuck = (rows.status == PathStatus.UNREACHABLE) | (rows.status == PathStatus.NO_ENTRY)
        lost = np.flatnonzero(stuck & (port >= 0))
        if not lost.size:
            return rows
        return rows.replaced(lost, self._walk_from(flows, use[lost], size, None))

    def _walk_from(self, flows: Flows, use: I64, size: F64, port: I32 | None) -> Rows:
        """Walk flows from these ports through the network, with the links inside both servers."""
        ways = self.attachments
        src_way, dst_way = flows.src_way[use], flows.dst_way[use]
        out, back = ways.out[src_way], ways.back[dst_way]
        ptr, link, weight, status = self.table.walk(
            ways.nic[src_way],
            ways.nic[dst_way],
            hash_function=self.spec.hash.value,
            field_mask=field_mask(self.spec, self.scheme),
            protocol=6 if self.transport is Transport.TCP else 17,
            seeds=self.switch_seeds,
            prefix_link=np.ascontiguousarray(out[:, -1]),
            suffix_link=np.ascontiguousarray(back[:, 0]),
            port_choice=port,
            **self._options(flows, use, size),
        )
        rows = Rows(ptr, link, weight, status)
        if out[:, :-1].max(initial=-1) >= 0 or back[:, 1:].max(initial=-1) >= 0:
            rows = rows.extended(out[:, :-1], back[:, 1:])
        return rows

    def _retry(self, flows: Flows, use: I64, rows: Rows, size: F64) -> tuple[Rows, int]:
        """Send flows without a way over the GPU of the sender's server on the receiver's rail."""
        lost = np.flatnonzero(rows.status == PathStatus.UNREACHABLE)
        fabric, ways, hub = self.fabric, self.attachments, self.scale_up
        src = flows.src[use[lost]]
        target = ways.nic[flows.dst_way[use[lost]]]
        key = zip(fabric.node_server[src].tolist(), fabric.node_rail[target].tolist(), strict=True)
        way = np.array([self._rail_way.get(pair, -1) for pair in key], dtype=np.int64)
        owner = np.repeat(np.arange(fabric.n_nodes), np.diff(ways.ptr))[np.maximum(way, 0)]
        can = (way >= 0) & (hub.hub[src] >= 0) & (hub.hub[src] == hub.hub[owner]) & (owner != src)
        if not can.any():
            return rows, 0
        lost, way, owner, src = lost[can], way[can], owner[can], src[can]
        moved = flows.src_way.copy()
        moved[use[lost]] = way
        detour = np.stack((hub.out[src], hub.back[owner]), axis=1)
        again = self._walk(replace(flows, src_way=moved), use[lost], size)
        again = again.extended(detour, detour[:, :0])
        found = use[lost[again.status == PathStatus.OK]]
        return rows.replaced(lost, again), int(np.unique(flows.message[found]).size)


def compile_routing(
    fabric: Fabric,
    plane: PlaneId,
    spec: RoutingSpec | None = None,
    transport: Transport = Transport.ROCEV2,
    seed: int = 0,
    *,
    mtu_bytes: int | None = None,
    forwarding: ForwardingTable | None = None,
    threads: int = 2,
) -> Routing:
    """Make the routing of one plane.

    Args:
        fabric: what is routed over; links that are down are avoided.
        plane: whose network; a plane that shares another is routed over that one.
        spec: scheme, hash and queue pairs; None takes the defaults.
        transport: decides framing, headers and the default scheme.
        seed: the design's seed; hash seeds and queue pair numbers follow from it.
        mtu_bytes: largest payload of a packet; None takes the transport's default.
        forwarding: the tables for scheme ``table``.
        threads: used while compiling and walking; results do not depend on it.
    """
    return Routing(
        fabric,
        PlaneId(plane),
        spec or RoutingSpec(),
        transport,
        seed,
        framing(transport, mtu_bytes),
        forwarding,
        threads,
    )


@dataclass(frozen=True, eq=False)
class RoutingSet:
    """Routing of all planes; a plane which shares another's network has the same `Routing`.

    ``framings`` holds the framing of planes whose packets are not framed as their `Routing` says.
    """

    planes: Mapping[PlaneId, Routing]
    framings: Mapping[PlaneId, Framing] = field(default_factory=dict)

    @classmethod
    def of(cls, routing: Routing | RoutingSet) -> RoutingSet:
        """Return a set as it is, or a set of this one plane."""
        return routing if isinstance(routing, RoutingSet) else cls({routing.plane: routing})

    def on(self, fabric: Fabric) -> RoutingSet:
        """Return these routings over another state of the fabric."""
        moved = {id(r): r.on(fabric) for r in self.planes.values()}
        return replace(self, planes={plane: moved[id(r)] for plane, r in self.planes.items()})

    def frames(self) -> dict[int, Framing]:
        """Return the framing by number of the plane that a flow is of."""
        return {int(plane): self.framings.get(plane, r.frame) for plane, r in self.planes.items()}

    def paths(
        self,
        src: I32,
        dst: I32,
        plane: npt.NDArray[np.int8] | int = 0,
        *,
        queue_pairs: I32 | int = 1,
        connection: I32 | int = 0,
        size_bytes: F64 | float = 1.0,
    ) -> Paths:
        """Route messages of several planes; see :meth:`Routing.paths`.

        Raises:
            InputError: messages of a plane which this set does not know.
        """
        src, dst = np.asarray(src, dtype=np.int32), np.asarray(dst, dtype=np.int32)
        n = len(src)
        which, pairs, number, size = (
            np.broadcast_to(np.asarray(v), n) for v in (plane, queue_pairs, connection, size_bytes)
        )
        parts: list[tuple[I64, Paths]] = []
        for value in np.unique(which).tolist() if n else [int(next(iter(self.planes)))]:
            routing = self.planes.get(PlaneId(value))
            if routing is None:
                known = ", ".join(p.name.lower() for p in self.planes)
                raise InputError(
                    f"{int(np.sum(which == value))} streams use the {PlaneId(value).name.lower()} "
                    f"plane, which the design does not have; it has: {known}; add "
                    f"'planes.{PlaneId(value).name.lower()}' to the design"
                )
            ids = np.flatnonzero(which == value)
            found = routing.paths(
                src[ids],
                dst[ids],
                queue_pairs=pairs[ids],
                connection=number[ids],
                size_bytes=size[ids],
            )
            parts.append((ids, found.of_plane(value)))
        return merge_paths(n, parts)
