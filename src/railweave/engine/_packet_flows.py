"""From routed traffic to the queue pairs of the native packet engine."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from railweave._native import PacketFlows, PacketNicConfig, PacketPipe, PacketSim, PacketTasks
from railweave.design.models import RoutingScheme
from railweave.engine._fault_targets import nic_bps, pipe_links, pipe_nodes
from railweave.engine._flow_input import FlowInput, prepare
from railweave.engine._packet_links import PS, Ports
from railweave.engine.packet_settings import PacketSettings
from railweave.errors import EngineError
from railweave.fabric import Fabric, LinkLayer, NodeKind, PlaneId
from railweave.fabric.routing import Routing, RoutingSet
from railweave.fabric.wire import SHORTEST_FRAME_BYTES, Framing
from railweave.qos import CongestionControl, Dcqcn, NicQos, ReceiverDriven, algorithm
from railweave.workload import Traffic

__all__ = [
    "AdapterKind",
    "FlowTable",
    "adapter_kinds",
    "hub_nodes",
    "native_flows",
    "native_tasks",
    "nic_config",
    "route",
]

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U32 = npt.NDArray[np.uint32]
F64 = npt.NDArray[np.float64]

_NONE = 0xFFFFFFFF
#: a transfer inside a scale-up domain moves in so many segments, or in packets of 4 KiB
_SEGMENTS = 64
_LEAST_SEGMENT_BYTES = 4096
#: header of a network packet's reply beyond what frames it; an ACK carries an AETH
_AETH_BYTES = 4
_CNP_BYTES = 16
#: how far ahead of its turn a receiver keeps a packet, at least
_REORDER_WINDOW = 4096

_CHOICE = {"path": 0, "random": 1, "round-robin": 2, "recycle": 3, "flowlet": 4, "adaptive": 5}
_ON_THE_WAY = {
    RoutingScheme.SPRAY: "spray",
    RoutingScheme.FLOWLET: "flowlet",
    RoutingScheme.ADAPTIVE: "adaptive",
}


@dataclass(frozen=True, eq=False)
class FlowTable:
    """Flows (queue pairs) that cross at least one link, F of them.

    ``flow`` are their numbers among ``given.paths``; ``stream`` and ``plane`` what they are of
    (plane −1: inside a scale-up domain). ``path_ptr/path_link`` are the simulated links; ``first``
    and ``last`` their places in ``given.paths.link``. ``out_link`` and ``in_link`` are the links
    between memory and NIC at both ends, −1 where there is none.
    """

    given: FlowInput
    flow: I64
    stream: I64
    plane: I64
    path_ptr: I64
    path_link: I64
    first: I64
    last: I64
    out_link: I64
    in_link: I64
    message_bytes: I64
    choice: npt.NDArray[np.uint8]

    @property
    def n_flows(self) -> int:
        """Number of flows."""
        return len(self.flow)


def _fixed(routing: Routing) -> Routing:
    """Return the routing that gives a flow its ports where packets choose their ways themselves."""
    if routing.scheme not in _ON_THE_WAY:
        return routing
    spec = routing.spec.model_copy(update={"scheme": RoutingScheme.ECMP})
    return routing.under(spec)


def route(
    fabric: Fabric, traffic: Traffic, routing: RoutingSet, settings: PacketSettings, allow: bool
) -> FlowTable:
    """Route the traffic and pick out the links that are simulated packet by packet.

    Raises:
        EngineError: streams have no path and ``allow`` is False.
    """
    fixed = {id(r): _fixed(r) for r in routing.planes.values()}
    ways = replace(routing, planes={p: fixed[id(r)] for p, r in routing.planes.items()})
    given = prepare(fabric, traffic, ways, allow_unroutable=allow)
    paths = given.paths
    length = np.diff(paths.ptr)
    flow = np.flatnonzero(length > 0)
    row = np.repeat(np.arange(len(length)), length)
    network = fabric.link_layer[paths.link] >= LinkLayer.HOST_LEAF
    across = np.bincount(row, weights=network, minlength=len(length)) > 0
    kept = network | ~across[row]
    count = np.bincount(row, weights=kept, minlength=len(length)).astype(np.int64)[flow]
    ptr = np.concatenate(([0], np.cumsum(count)))
    place = np.flatnonzero(kept)
    first, last = place[ptr[:-1]], place[ptr[1:] - 1]
    before = first > paths.ptr[:-1][flow]
    after = last + 1 < paths.ptr[1:][flow]
    link = paths.link.astype(np.int64)
    plane = np.where(across[flow], paths.plane[flow], -1).astype(np.int64)
    kinds = {int(p): _kind(r, settings) for p, r in routing.planes.items()}
    choice = np.array([_CHOICE[kinds.get(int(p), "path")] for p in plane], dtype=np.uint8)
    table = FlowTable(
        given=given,
        flow=flow,
        stream=paths.message[flow],
        plane=plane,
        path_ptr=ptr,
        path_link=link[place],
        first=first,
        last=last,
        out_link=np.where(before, link[np.maximum(first - 1, 0)], -1),
        in_link=np.where(after, link[np.minimum(last + 1, max(len(link) - 1, 0))], -1),
        message_bytes=_whole_bytes(traffic, given)[flow],
        choice=choice,
    )
    return _ends_only(table)


def _kind(routing: Routing, settings: PacketSettings) -> str:
    kind = _ON_THE_WAY.get(routing.scheme, "path")
    if kind != "spray":
        return kind
    return (settings.spraying or routing.spec.spraying).value


def _ends_only(table: FlowTable) -> FlowTable:
    """Leave, of flows whose packets choose their ways, the first and the last link."""
    free = table.choice != _CHOICE["path"]
    count = np.diff(table.path_ptr)
    if not np.any(free & (count > 2)):
        return table
    row = np.repeat(np.arange(len(count)), count)
    place = np.arange(len(row))
    ends = (place == table.path_ptr[:-1][row]) | (place == table.path_ptr[1:][row] - 1)
    keep = ends | ~free[row]
    ptr = np.concatenate(([0], np.cumsum(np.bincount(row[keep], minlength=len(count)))))
    return replace(table, path_ptr=ptr, path_link=table.path_link[keep])


def _whole_bytes(traffic: Traffic, given: FlowInput) -> I64:
    """Return each flow's payload of one chunk in whole bytes; the flows of a stream add up."""
    paths = given.paths
    total = np.ceil(traffic.chunk_bytes - 1e-6).astype(np.int64)
    stream = paths.message
    upto = np.cumsum(paths.share)
    start = np.concatenate(([0.0], upto))[paths.first[:-1]]
    part = upto - start[stream]
    high = np.rint(total[stream] * np.minimum(part, 1.0)).astype(np.int64)
    ends = paths.first[1:] - 1
    filled = np.diff(paths.first) > 0
    high[ends[filled]] = total[filled]
    low = np.concatenate(([0], high[:-1]))
    low[paths.first[:-1][filled]] = 0
    return high - low


def _pipes(fabric: Fabric, ports: Ports, links: I64, incoming: bool, wanted: frozenset[int]) -> I64:
    """Return which of these links into or out of memory can hold their NIC back, (k,) unique."""
    total = np.bincount(
        fabric.link_src[ports.network],
        weights=fabric.link_capacity_bps[ports.network],
        minlength=fabric.n_nodes,
    )
    used = np.unique(links[links >= 0])
    nic = fabric.link_src[used] if incoming else fabric.link_dst[used]
    slow = fabric.usable_bps[used] < total[nic] * (1 - 1e-9)
    return used[slow | np.isin(used, np.fromiter(wanted, dtype=np.int64))]


def native_flows(
    fabric: Fabric,
    routing: RoutingSet,
    settings: PacketSettings,
    *,
    ports: Ports,
    table: FlowTable,
    sim: PacketSim,
) -> PacketFlows:
    """Lay out the queue pairs; adds their pipes, adapters' settings and tables to ``sim``."""
    n = table.n_flows
    frames = routing.frames()
    payload, overhead = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    message = table.message_bytes.copy()
    inside = table.plane < 0
    payload[inside] = np.maximum(_LEAST_SEGMENT_BYTES, -(-message[inside] // _SEGMENTS))
    for plane, frame in frames.items():
        here = table.plane == plane
        payload[here], overhead[here] = frame.mtu_bytes, frame.overhead_bytes
        if frame.record_bytes:
            records = np.maximum(1, -(-message[here] // frame.record_bytes))
            message[here] += records * frame.record_overhead_bytes
    first = table.path_link[table.path_ptr[:-1]]
    last = table.path_link[table.path_ptr[1:] - 1]
    flows = PacketFlows()
    flows.stream = table.stream.astype(np.uint32)
    flows.nic = _adapters(fabric, settings, table, frames, sim)
    flows.path_ptr = table.path_ptr.astype(np.uint64)
    flows.path_link = table.path_link.astype(np.uint32)
    flows.message_bytes = message.astype(np.uint64)
    flows.payload_bytes = payload.astype(np.uint32)
    flows.overhead_bytes = overhead.astype(np.uint32)
    flows.tx_pipe, flows.rx_pipe = _add_pipes(
        fabric, settings, ports, table=table, last=last, sim=sim
    )
    before, after, rtt = _latencies(fabric, table)
    # The sender's own way counts at the end, so that messages follow each other without a gap.
    flows.rx_latency_ps = np.rint((before + after) * PS).astype(np.uint64)
    rate = fabric.usable_bps[first] / 8.0
    flows.line_rate_Bps = rate
    packet = np.minimum(payload, np.maximum(message, 1)) + overhead
    flows.base_rtt_ps = np.rint((rtt + packet / np.maximum(rate, 1.0)) * PS)
    flows.choice = table.choice
    flows.source_nic = fabric.link_src[first].astype(np.uint32)
    flows.target_nic = fabric.link_dst[last].astype(np.uint32)
    flows.table = _tables(routing, table, sim)
    flows.entropy = _entropy(settings, table)
    return flows


def _entropy(settings: PacketSettings, table: FlowTable) -> U32:
    from railweave.fabric._paths import splitmix64

    mixed = splitmix64(table.flow.astype(np.uint64) + np.uint64(1))
    return (mixed >> np.uint64(32)).astype(np.uint32)


def _latencies(fabric: Fabric, table: FlowTable) -> tuple[F64, F64, F64]:
    """Return delays before the first and after the last simulated link, and there and back."""
    paths = table.given.paths
    delay = fabric.link_delay_s[paths.link]
    upto = np.concatenate(([0.0], np.cumsum(delay)))
    start, end = paths.ptr[:-1][table.flow], paths.ptr[1:][table.flow]
    before = upto[table.first] - upto[start]
    after = upto[end] - upto[table.last + 1]
    back = np.concatenate(([0.0], np.cumsum(fabric.link_delay_s[paths.link ^ 1])))
    there = upto[table.last + 1] - upto[table.first]
    return before, after, there + back[table.last + 1] - back[table.first]


def _add_pipes(
    fabric: Fabric,
    settings: PacketSettings,
    ports: Ports,
    *,
    table: FlowTable,
    last: I64,
    sim: PacketSim,
) -> tuple[U32, U32]:
    """Add the ways into and out of memory that limit, and return each flow's."""
    out = np.full(table.n_flows, _NONE, dtype=np.uint32)
    into = out.copy()
    held = pipe_links(fabric, settings.faults)
    for link in _pipes(fabric, ports, table.out_link, False, frozenset()).tolist():
        pipe = PacketPipe()
        pipe.rate_kbps = max(1, round(float(fabric.usable_bps[link]) / 1e3))
        out[table.out_link == link] = sim.add_pipe(pipe)
    for link in _pipes(fabric, ports, table.in_link, True, held).tolist():
        mine = table.in_link == link
        rate = float(fabric.usable_bps[link])
        into[mine] = sim.add_pipe(_into_memory(fabric, settings, int(last[np.argmax(mine)]), rate))
    # a flow that ends at its NIC has a way into memory only where a fault holds it up
    at_nic = np.where((table.in_link < 0) & (table.plane >= 0), fabric.link_dst[last], -1)
    for node in sorted(pipe_nodes(fabric, settings.faults)):
        mine = at_nic == node
        if mine.any():
            rate = nic_bps(fabric, node)
            port = int(last[np.argmax(mine)])
            into[mine] = sim.add_pipe(_into_memory(fabric, settings, port, rate))
    return out, into


def _into_memory(
    fabric: Fabric, settings: PacketSettings, port: int, rate_bps: float
) -> PacketPipe:
    """Return the way into memory behind a NIC that receives over ``port``."""
    pipe = PacketPipe()
    pipe.rate_kbps = max(1, round(rate_bps / 1e3))
    plane = settings.qos[PlaneId(int(fabric.link_plane[port]))]
    nic = plane.nic(float(fabric.link_capacity_bps[port]), float(fabric.link_length_m[port]))
    pipe.buffer_bytes = nic.rx_buffer_bytes
    pipe.xoff_bytes, pipe.xon_bytes = nic.rx_xoff_bytes, nic.rx_xon_bytes
    if plane.scheme.pfc:
        pipe.nic_link = port
    return pipe


def _tables(routing: RoutingSet, table: FlowTable, sim: PacketSim) -> U32:
    """Add the next-hop sets of planes whose packets choose their ways."""
    number = np.zeros(table.n_flows, dtype=np.uint32)
    for plane, routed in routing.planes.items():
        here = (table.plane == plane) & (table.choice != _CHOICE["path"])
        if here.any():
            number[here] = sim.add_table(routed.table, routed.switch_seeds)
    return number


@dataclass(frozen=True, slots=True)
class AdapterKind:
    """Settings of one kind of queue pair: its two adapters, congestion control, framing."""

    mine: NicQos
    theirs: NicQos
    control: CongestionControl
    frame: Framing
    window_bytes: float = math.inf


def adapter_kinds(
    fabric: Fabric, settings: PacketSettings, table: FlowTable, frames: Mapping[int, Framing]
) -> tuple[list[AdapterKind | None], I64]:
    """Return every kind of queue pair (None: inside a scale-up domain), and each flow's, (F,)."""
    first = table.path_link[table.path_ptr[:-1]]
    last = table.path_link[table.path_ptr[1:] - 1]
    source, target = fabric.link_src[first], fabric.link_dst[last]
    speed, length = fabric.link_capacity_bps[first], fabric.link_length_m[first]
    own = np.fromiter(settings.nics, dtype=np.int64)
    names = np.stack(
        (
            table.plane.astype(np.float64),
            speed,
            length,
            np.where(np.isin(source, own), source, -1),
            np.where(np.isin(target, own), target, -1),
        ),
        axis=1,
    )
    rows, which = np.unique(names, axis=0, return_inverse=True)
    which = which.reshape(-1)
    kinds: list[AdapterKind | None] = []
    for k, (plane, rate, cable, sender, receiver) in enumerate(rows.tolist()):
        if plane < 0:
            kinds.append(None)
            continue
        # a plane that shares another's network has that one's settings
        network = PlaneId(int(fabric.link_plane[first[int(np.argmax(which == k))]]))
        common = settings.qos[network].nic(rate, cable)
        mine = settings.nics.get(int(sender), common)
        theirs = settings.nics.get(int(receiver), common)
        control = settings.controls.get(network)
        if isinstance(control, Dcqcn):  # the receiver's part of a set of parameters given by hand
            theirs = replace(theirs, cnp_interval_s=control.cnp_interval_s)
        control = control or algorithm(mine.profile, rate)
        frame, window = frames[int(plane)], settings.window_bytes
        kinds.append(AdapterKind(mine, theirs, control, frame, window))
    return kinds, which


def _adapters(
    fabric: Fabric,
    settings: PacketSettings,
    table: FlowTable,
    frames: Mapping[int, Framing],
    sim: PacketSim,
) -> U32:
    """Add the settings of every kind of queue pair, and return each flow's number."""
    kinds, which = adapter_kinds(fabric, settings, table, frames)
    numbers = np.zeros(len(kinds), dtype=np.uint32)
    for k, kind in enumerate(kinds):
        numbers[k] = sim.add_nic_config(_inside() if kind is None else nic_config(kind))
    return numbers[which]


def _inside() -> PacketNicConfig:
    """Return the settings of transfers inside a scale-up domain: lossless, never held back."""
    c = PacketNicConfig()
    c.set_congestion_control("none", {})
    c.data_priority = c.ack_priority = 0
    c.ecn_capable = c.sends_cnp = 0
    c.ack_every = _NONE
    c.timeout_ps = 0
    return c


def nic_config(kind: AdapterKind) -> PacketNicConfig:
    """Turn the settings of a sending and a receiving adapter into those of their queue pairs."""
    mine, theirs, control, frame = kind.mine, kind.theirs, kind.control, kind.frame
    c = PacketNicConfig()
    c.max_in_flight_bytes = kind.window_bytes
    if isinstance(control, ReceiverDriven):
        c.receiver_grant_bytes = round(control.grant_bytes)
        c.receiver_window_bytes = round(control.window_bytes)
    c.set_congestion_control(control.kind, control.parameters())
    c.data_priority, c.ack_priority = mine.data_priority, mine.ack_priority
    c.cnp_priority = c.request_priority = theirs.cnp_priority
    c.ecn_capable = 1
    c.sends_cnp, c.ignores_cnp = int(theirs.sends_cnp), int(mine.ignores_cnp)
    c.selective_repeat, c.reorder_packets = int(mine.selective_repeat), mine.reorder_packets
    # room for what is overtaken and for as much again, so that a loss is seen within the window
    c.reorder_window_packets = max(_REORDER_WINDOW, 2 * mine.reorder_packets)
    c.ack_every = mine.ack_every
    c.ack_bytes = max(SHORTEST_FRAME_BYTES, frame.overhead_bytes + _AETH_BYTES)
    c.cnp_bytes = max(SHORTEST_FRAME_BYTES, frame.overhead_bytes + _CNP_BYTES)
    c.cnp_interval_ps = round(theirs.cnp_interval_s * PS)
    c.timeout_ps = round(mine.retry.timer_s * PS)
    c.retries = mine.retry.retries
    c.rnr_timer_ps = round(mine.retry.rnr_timer_s * PS)
    c.rnr_retries = mine.retry.rnr_retries
    return c


def native_tasks(traffic: Traffic) -> PacketTasks:
    """Lay out the task graph.

    Raises:
        EngineError: a chunk of more packets than a queue pair can number.
    """
    if np.any(traffic.chunk_bytes < 0):
        raise EngineError("packet engine: a stream sends a negative number of bytes")
    tasks = PacketTasks()
    tasks.task_stream = traffic.task_stream.astype(np.uint64)
    tasks.rounds = traffic.task_rounds.astype(np.uint32)
    tasks.start_ps = np.rint(traffic.task_start_s * PS).astype(np.uint64)
    tasks.delay_ps = np.rint(traffic.task_delay_s * PS).astype(np.uint64)
    tasks.chunk_delay_ps = np.rint(traffic.chunk_delay_s * PS).astype(np.uint64)
    tasks.dep_ptr = traffic.dep_ptr.astype(np.uint64)
    tasks.dep_task = traffic.dep_task.astype(np.uint32)
    tasks.dep_kind = traffic.dep_kind.astype(np.uint8)
    tasks.pred_ptr = traffic.pred_ptr.astype(np.uint64)
    tasks.pred_stream = traffic.pred_stream.astype(np.uint32)
    tasks.pred_lag = traffic.pred_lag.astype(np.uint32)
    return tasks


def hub_nodes(fabric: Fabric, table: FlowTable) -> npt.NDArray[np.uint8]:
    """Return which nodes forward: switches, and the hubs that flows inside a server cross."""
    forwards: npt.NDArray[np.uint8] = (fabric.node_kind == NodeKind.SWITCH).astype(np.uint8)
    inner = np.ones(len(table.path_link), dtype=bool)
    inner[table.path_ptr[1:] - 1] = False
    forwards[fabric.link_dst[table.path_link[inner]]] = 1
    return forwards
