"""The native core. Arrays are one-dimensional and contiguous, of exactly the types named."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

_HashFunction = Literal["crc16", "crc32", "xor"]

# Routing

FIELD_SRC_IP: int
FIELD_DST_IP: int
FIELD_PROTOCOL: int
FIELD_SRC_PORT: int
FIELD_DST_PORT: int
FIELD_QP: int

def hash_bytes(function: _HashFunction, data: bytes, seed: int = 0) -> int:
    """CRC-16/CCITT-FALSE, CRC-32 (equals ``zlib.crc32(data, seed)``) or a 16-bit XOR fold."""

def hash_tuple(
    function: _HashFunction,
    src_ip: int,
    dst_ip: int,
    protocol: int,
    src_port: int,
    dst_port: int,
    qp: int = 0,
    field_mask: int = 31,
    seed: int = 0,
) -> int:
    """Hash the fields of the mask, packed big-endian in the order of the ``FIELD_`` bits."""

def pick_member(hash: int, seed: int, members: int) -> int:
    """Which of so many members a device of this seed takes for a hash made with its seed."""

def count_by_link(
    ptr: NDArray[np.int64], link: NDArray[np.int32], n_links: int
) -> NDArray[np.int64]:
    """How many of the paths cross each link."""

class RouteTable:
    """Next-hop sets of a fabric, for every switch and every switch with endpoints.

    Tiered graphs route up-down: a switch with a way down takes its shortest ways down, otherwise
    the shortest ways up. A tier of -1 at any switch means plain shortest paths throughout.
    """

    def __init__(
        self,
        n_nodes: int,
        link_src: NDArray[np.int32],
        link_dst: NDArray[np.int32],
        link_up: NDArray[np.bool_],
        is_switch: NDArray[np.uint8],
        tier: NDArray[np.int8],
        threads: int = 1,
    ) -> None: ...
    @property
    def edge_switches(self) -> NDArray[np.int32]:
        """Switches with endpoints, live or not, in node order."""
    @property
    def n_nodes(self) -> int: ...
    @property
    def n_links(self) -> int: ...
    @property
    def n_sets(self) -> int:
        """Different non-empty sets, counted switch by switch."""
    @property
    def tiered(self) -> bool:
        """Whether up-down routing is used."""
    @property
    def ignored_links(self) -> int:
        """Links between switches of one tier, which up-down routing never uses."""
    @property
    def memory_bytes(self) -> int: ...
    def next_hops(self, switch: int, dst_edge: int) -> NDArray[np.int32]:
        """Next nodes towards an edge switch, one for each member link, in member order."""
    def next_links(self, switch: int, dst_edge: int) -> NDArray[np.int32]:
        """Member links: one to each peer in node order, then the second of each bundle, and on."""
    def distance(self, a: int, b: int) -> int:
        """Hops between two switches; -1 without a path."""
    def path_count(self, src: int, dst: int) -> float:
        """Shortest link-level paths between two endpoints, over all their attachments."""
    def farthest(self) -> tuple[int, int, int]:
        """Source, destination and links of a pair at the diameter; -1 each without any pair."""
    def hop_histogram(self) -> dict[int, int]:
        """Ordered pairs of different edge switches by hops; -1 counts pairs without a path."""
    def walk(
        self,
        src: NDArray[np.int32],
        dst: NDArray[np.int32],
        *,
        scheme: Literal["ecmp", "dmodk", "table", "adaptive", "spray", "pinned"] = "ecmp",
        hash_function: _HashFunction = "crc32",
        field_mask: int = 31,
        src_ip: NDArray[np.uint32] | None = None,
        dst_ip: NDArray[np.uint32] | None = None,
        src_port: NDArray[np.uint16] | None = None,
        dst_port: NDArray[np.uint16] | None = None,
        protocol: int = 17,
        qp: NDArray[np.uint32] | None = None,
        seeds: NDArray[np.uint32],
        size_bytes: NDArray[np.float64] | None = None,
        capacity_bps: NDArray[np.float64] | None = None,
        prefix_link: NDArray[np.int32] | None = None,
        suffix_link: NDArray[np.int32] | None = None,
        port_choice: NDArray[np.int32] | None = None,
        pin: NDArray[np.int32] | None = None,
        table_ptr: NDArray[np.int64] | None = None,
        table_dst: NDArray[np.int32] | None = None,
        table_link: NDArray[np.int32] | None = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64] | None, NDArray[np.uint8]]:
        """Paths as (ptr, link, weight, status): flow i crosses ``link[ptr[i]:ptr[i + 1]]``.

        Status is 0 ok, 1 unreachable, 2 no table entry, 3 loop; only 0 has links. ``weight`` is
        the share of a flow on each link, for ``spray`` alone. ``table`` reads, for node v, the
        rising destinations ``table_dst[table_ptr[v]:table_ptr[v + 1]]`` and their links.
        """

class LinkDependencies:
    """Which link between switches waits for which, as long as packets wait and are not dropped.

    Link a waits for link b where some packet may come over a and leave by b. The table says what
    is there; what may be taken is added by the ``add_`` methods.
    """

    def __init__(self, table: RouteTable) -> None: ...
    def add_next_hops(self) -> None:
        """All members of the next-hop sets, towards every edge switch, from every live port."""
    def add_entries(
        self,
        node: NDArray[np.int32],
        destination: NDArray[np.int32],
        link: NDArray[np.int32],
    ) -> None:
        """Forwarding tables: one entry for each switch and destination."""
    def add_destinations(self) -> None:
        """What d-mod-k picks in a graph without tiers, from every live port."""
    def waits(self, a: int, b: int) -> bool: ...
    def watch(self, cycle: NDArray[np.int32]) -> None:
        """Note why each link of a cycle waits for the next; say it before anything is added."""
    @property
    def reasons(self) -> NDArray[np.int32]:
        """For each watched link the edge switch or endpoint which that traffic goes to, or -1."""
    def shortest_cycle(self, max_steps: int = 1 << 30) -> tuple[NDArray[np.int32], bool]:
        """Links that wait for each other in a circle, none where there is no circle.

        The second value is False where a shorter one may exist: the search took too many steps.
        """
    @property
    def channels(self) -> int:
        """Links between switches that some packet may cross."""
    @property
    def dependencies(self) -> int: ...

# Flow engine

def max_min_rates(
    capacity_Bps: NDArray[np.float64],
    row_ptr: NDArray[np.int64],
    row_link: NDArray[np.int32],
    row_weight: NDArray[np.float64] | None = None,
    cap_Bps: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Weighted max-min fair rates: one row of links (and weights) a variable, optional caps."""

def busiest_link_s(
    capacity_Bps: NDArray[np.float64],
    row_ptr: NDArray[np.int64],
    row_link: NDArray[np.int32],
    row_weight: NDArray[np.float64] | None,
    row_bytes: NDArray[np.float64],
    message_ptr: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Seconds that the busiest link of each message (its rows together) is busy with it."""

class FlowSim:
    """Max-min fair, event-driven simulation of a task DAG.

    A task owns the flows ``[task_flow_ptr[t], task_flow_ptr[t + 1])``, one row of links each.
    ``dep_kind`` 0 waits for the delivery of the predecessor, 1 for its last byte sent. A task with
    ``task_rounds`` above 1 is coupled: its flows are streams of that many chunks of ``flow_bytes``,
    and chunk k of a stream waits for chunk ``k - pred_lag`` of its ``pred_flow`` to be delivered.
    Coupled tasks that share links are simulated chunk by chunk if they have at most
    ``exact_chunks`` chunks in all; otherwise they share links by average rates.
    """

    def __init__(
        self,
        capacity_Bps: NDArray[np.float64],
        row_ptr: NDArray[np.int64],
        row_link: NDArray[np.int32],
        row_weight: NDArray[np.float64] | None,
        flow_bytes: NDArray[np.float64],
        flow_latency_s: NDArray[np.float64],
        task_flow_ptr: NDArray[np.int64],
        task_start_s: NDArray[np.float64],
        task_delay_s: NDArray[np.float64],
        dep_ptr: NDArray[np.int64],
        dep_task: NDArray[np.int32],
        dep_kind: NDArray[np.uint8],
        task_rounds: NDArray[np.int32],
        flow_chunk_delay_s: NDArray[np.float64] | None = None,
        pred_ptr: NDArray[np.int64] | None = None,
        pred_flow: NDArray[np.int32] | None = None,
        pred_lag: NDArray[np.int32] | None = None,
        tolerance: float = 0.0,
        exact_chunks: int = 0,
    ) -> None: ...
    def advance(self, until_s: float = ..., max_events: int = -1) -> bool:
        """Run until then; True when every task is delivered. Call again to go on."""

    @property
    def now_s(self) -> float: ...
    @property
    def events(self) -> int:
        """Task starts and flow completions so far."""

    @property
    def solves(self) -> int: ...
    @property
    def full_solves(self) -> int:
        """Solves done from scratch, because much changed at once."""

    @property
    def flows_touched(self) -> int:
        """Times a flow was given a (new) bottleneck link."""

    @property
    def links_visited(self) -> int: ...
    @property
    def crossings_scanned(self) -> int: ...
    @property
    def task_start_s(self) -> NDArray[np.float64]:
        """NaN while it lies in the future, as for all times."""

    @property
    def task_sent_s(self) -> NDArray[np.float64]: ...
    @property
    def task_finish_s(self) -> NDArray[np.float64]: ...
    @property
    def flow_finish_s(self) -> NDArray[np.float64]: ...
    @property
    def flow_rate_Bps(self) -> NDArray[np.float64]:
        """Present rates; of a coupled task, at its first flow, that of the largest chunk."""

    @property
    def link_bytes(self) -> NDArray[np.float64]: ...
    @property
    def link_peak_fraction(self) -> NDArray[np.float64]: ...
    @property
    def bytes_delivered(self) -> float:
        """Bytes sent so far, by integration of the rates."""

    @property
    def bytes_in_flight(self) -> float:
        """Bytes still to be sent, from the state of each flow."""

    @property
    def exact_tasks(self) -> int:
        """Coupled tasks that are simulated chunk by chunk."""

    @property
    def averaged_tasks(self) -> int:
        """Coupled tasks that share links by average rates."""

    @property
    def bytes_total(self) -> float: ...

# Packet engine. Times are integer picoseconds, sizes wire bytes; a port is a directed link of the
# fabric: its egress queues stand at the source, its ingress priority groups at the destination.
# Links 2k and 2k + 1 are the two directions of one cable. 0xFFFFFFFF stands for none.

_U8 = NDArray[np.uint8]
_U32 = NDArray[np.uint32]
_U64 = NDArray[np.uint64]
_F64 = NDArray[np.float64]

PACKET_TRACE_KINDS: tuple[str, ...]
"""Names of ``kind`` in :meth:`PacketSim.trace`, by number."""
PACKET_DROP_REASONS: tuple[str, ...]
"""Why a packet was lost; columns ``dropped_...`` are named after it."""
PACKET_FAULT_KINDS: tuple[str, ...]
"""Names of ``kind`` in :meth:`PacketSim.set_faults`, by number."""
PACKET_CHOICES: tuple[str, ...]
"""How a flow's paths are found, by number: ``path`` is a fixed one."""

class PacketLinks:
    """One entry a directed link."""

    source: _U32
    target: _U32
    rate_kbps: _U64
    """0: down."""
    delay_ps: _U64
    """End of the wire time to the buffer at the destination: propagation, forwarding latency."""
    propagation_ps: _U64
    response_ps: _U64
    """How late its source obeys a pause."""
    headroom_bytes: _U32
    kmin_bytes: _U32
    kmax_bytes: _U32
    """ECN thresholds of its queues; 0, 0: no marking."""
    pause_mask: _U8
    """A bit for each priority that its destination may pause."""
    credit_bytes: _U32
    """Buffer of each virtual lane at its destination; 0: no credits."""

class PacketFlows:
    """One entry a queue pair; flows of one stream follow each other."""

    stream: _U32
    nic: _U32
    """Number of its settings."""
    path_ptr: _U64
    path_link: _U32
    """Network links in order; where ``choice`` is not 0, only the first and the last."""
    message_bytes: _U64
    payload_bytes: _U32
    overhead_bytes: _U32
    tx_pipe: _U32
    rx_pipe: _U32
    rx_latency_ps: _U64
    line_rate_Bps: _F64  # noqa: N815
    base_rtt_ps: _F64
    choice: _U8
    """Number in ``PACKET_CHOICES``."""
    source_nic: _U32
    target_nic: _U32
    table: _U32
    """Number that ``PacketSim.add_table`` gave."""
    entropy: _U32
    """What switches hash of a flow whose paths are chosen on the way, and of its replies."""

class PacketTasks:
    """Tasks own the streams ``[task_stream[t], task_stream[t + 1])`` of ``rounds`` chunks each."""

    task_stream: _U64
    rounds: _U32
    start_ps: _U64
    delay_ps: _U64
    chunk_delay_ps: _U64
    """By stream."""
    dep_ptr: _U64
    dep_task: _U32
    dep_kind: _U8
    """0 waits for the delivery of the other task, 1 for its last byte sent."""
    pred_ptr: _U64
    pred_stream: _U32
    pred_lag: _U32

class PacketEpoch:
    """What a reroute replaces: paths of the flows listed, and tables by other tables."""

    def __init__(self) -> None: ...
    flow: _U32
    path_ptr: _U64
    path_link: _U32
    table_from: _U32
    table_to: _U32

class PacketSwitchConfig:
    """Settings of switches. Masks have a bit for each priority; flags are 0 or 1."""

    cell_bytes: int
    shared_cells: int
    headroom_pool_cells: int
    reserved_cells: int
    queue_reserved_cells: int
    pg_limit_cells: int
    """Fixed threshold of a lossless priority group; 0: dynamic, ``pg_alpha`` times what is free."""
    pg_alpha: float
    queue_alpha: float
    xon_offset_cells: int
    lossless: int
    strict: int
    ecn: int
    priority_map: list[int]
    quantum_bytes: list[int]
    pmax: float
    ecn_weight: float
    """Of a new sample in the average that marking goes by; 0: the queue as it is."""
    shift_ps: int
    hold_ps: int
    """How long before admission the pause logic saw a packet."""
    mtu_bytes: int
    cut_through: int
    trimming: int
    credits: int
    watchdog_detect_ps: int
    """0: no watchdog."""
    watchdog_restore_ps: int
    watchdog_forwards: int

class PacketNicConfig:
    """Settings of an adapter for a class of queue pairs."""

    def set_congestion_control(self, kind: str, parameters: dict[str, float]) -> None: ...
    data_priority: int
    ack_priority: int
    cnp_priority: int
    request_priority: int
    ecn_capable: int
    sends_cnp: int
    ignores_cnp: int
    selective_repeat: int
    ack_every: int
    """Packets that an acknowledgement stands for."""
    reorder_packets: int
    """Selective repeat: how far overtaken counts as lost."""
    reorder_window_packets: int
    """Selective repeat: how far ahead of its turn a packet is kept."""
    ack_bytes: int
    cnp_bytes: int
    cnp_interval_ps: int
    timeout_ps: int
    """0: no retry timer."""
    retries: int
    rnr_timer_ps: int
    rnr_retries: int
    """7: for ever."""
    max_in_flight_bytes: float
    receiver_grant_bytes: int
    """Receiver-driven: what one grant lets through; 0: not receiver-driven."""
    receiver_window_bytes: int

class PacketPipe:
    """A way between adapter and memory, a server of one rate."""

    rate_kbps: int
    buffer_bytes: int
    xoff_bytes: int
    xon_bytes: int
    nic_link: int
    """Link over which the adapter receives, and whose source it pauses."""
    frozen: int
    priority: int

class PacketOptions:
    seed: int
    flowlet_gap_ps: int
    spray_paths: int
    """Different entropies that a sprayed flow uses; 0: any."""
    stuck_ps: int
    """The run looks this often whether anything moves, to end a deadlock; 0: never."""

class PacketSim:
    """Simulation of every packet. Settings first, then ``set_work``, ``set_faults``, ``watch``.

    The tables that it gives are dictionaries of columns of one length. Those by priority and link
    have 8 times as many rows as there are links, priority 0 first: ``column.reshape(8, -1)``.
    """

    def __init__(self, is_switch: _U8, links: PacketLinks, options: PacketOptions) -> None: ...
    def add_switch_config(self, config: PacketSwitchConfig, /) -> int: ...
    def use_switch_config(self, node: int, number: int, /) -> None: ...
    def add_nic_config(self, config: PacketNicConfig, /) -> int: ...
    def add_pipe(self, pipe: PacketPipe, /) -> int: ...
    def add_table(self, table: RouteTable, seeds: _U32) -> int:
        """Next-hop sets by which paths are chosen on the way, and the hash seed of each node."""
    def set_work(self, flows: PacketFlows, tasks: PacketTasks, /) -> None: ...
    def set_faults(
        self,
        time_ps: _U64,
        kind: _U8,
        index: _U32,
        value: _U64,
        epochs: list[PacketEpoch] = ...,
    ) -> None:
        """What changes at a time; kinds are those of ``PACKET_FAULT_KINDS``.

        ``link_down``, ``link_up``: the cable of link ``index``; what ports send into a dead cable
        is lost, at the pace of the wire. ``link_rate`` (kb/s), ``link_loss`` (chance times 2**32):
        that direction. ``switch_config``: node, number; cell_bytes, reserved_cells and credits must
        stay. ``pause_mask``: link, mask. ``reroute``: number in ``epochs``. ``freeze``: pipe, 1 or
        0. ``pipe_rate``: pipe, kb/s. ``nic_config``: flow, number. ``not_ready``: flow, 1 or 0.
        ``chunk_delay``: stream, ps. ``flush``: node; all that waits there is lost. A switch reboots
        by ``link_down`` of its links, ``flush``, and ``link_up``.
        """
    def watch(
        self,
        period_ps: int,
        link: _U32,
        flow: _U32,
        trace_limit: int = 0,
        trace_kinds: int = 0xFFFFFFFF,
    ) -> None:
        """Sample these links and flows each period (0: never); trace at most so many events.

        ``trace_kinds`` has a bit for each kind to trace. Watching changes no result and keeps no
        run alive.
        """
    def advance(self, until_s: float = ..., max_events: int = -1) -> bool:
        """Run until then; True once the run has ended. Call again to go on."""
    def audit(self) -> None:
        """Count every byte; ``RuntimeError`` if any went astray."""
    def set_not_ready(self, flow: int, on: bool) -> None: ...
    def freeze_pipe(self, pipe: int, on: bool) -> None: ...
    def port_samples(self) -> dict[str, NDArray[Any]]:
        """Columns time_s, link, queue_bytes, group_bytes, headroom_bytes, shared_bytes, tx_bytes,
        marked, dropped, paused (a mask); bytes are those of all priorities. The group stands at the
        link's destination; the shared pool is that of its source, or of the switch a host sends to.
        """
    def flow_samples(self) -> dict[str, NDArray[Any]]:
        """Columns time_s, flow, rate_Bps, window_bytes, in_flight_bytes, acked_packets,
        next_packet."""
    def pauses(self) -> dict[str, NDArray[Any]]:
        """Columns from_s, until_s, link, priority, in_force; felt by the link's source.

        Those in force (1) come last and end now.
        """
    def trace(self) -> dict[str, NDArray[Any]]:
        """Columns time_s, kind (number in ``PACKET_TRACE_KINDS``), priority, link, flow, value.

        The value is a PSN (mark, nak, timeout, retransmit, failed, trimmed), a number in
        ``PACKET_DROP_REASONS`` (drop), that of the change (fault), a count of chunks (message_...).
        """
    def port_counters(self) -> dict[str, NDArray[Any]]:
        """By link: tx_bytes, tx_packets, down, downs, dropped_<reason>."""
    def pause_counters(self) -> dict[str, NDArray[Any]]:
        """By priority and link: pauses_sent, resumes_sent (by its destination), pauses_felt,
        paused_s (by its source), storms, restores (of the watchdog)."""
    def flow_counters(self) -> dict[str, NDArray[Any]]:
        """By flow: stream, sent, sent_bytes, retransmitted, acked_packets, expected_packet,
        messages_delivered, marked, cnp_sent, cnp_handled, cnp_ignored, acks_sent, naks_sent,
        naks_received, rnr_naks, timeouts, out_of_order, duplicates, trimmed, discarded, failed."""
    def ledger(self) -> dict[str, NDArray[Any]]:
        """Row 0 data, row 1 replies: sent_, delivered_, in_flight_ packets and bytes, and
        dropped_packets_<reason>, dropped_bytes_<reason>. Sent = delivered + in flight + dropped."""
    def queue_counters(self) -> dict[str, NDArray[Any]]:
        """By priority and link: bytes, packets, peak_bytes, marked, dropped."""
    def group_counters(self) -> dict[str, NDArray[Any]]:
        """By priority and link: bytes, headroom_bytes, headroom_limit_bytes, peak_bytes,
        peak_headroom_bytes, dropped, xoff; of the group at the link's destination."""
    def switch_counters(self) -> dict[str, NDArray[Any]]:
        """By switch: node, shared_bytes, headroom_bytes, peak_shared_bytes, peak_headroom_bytes."""
    def pipe_counters(self) -> dict[str, NDArray[Any]]:
        """By pipe: bytes, peak_bytes, dropped."""
    @property
    def trace_lost(self) -> int:
        """Events that were not traced because the limit was reached."""
    @property
    def end(self) -> int:
        """0 running, 1 finished, 2 stuck, 3 deadlock, 4 finished but for failed flows."""
    @property
    def cycle(self) -> _U32:
        """Of a deadlock: the links that wait for each other."""
    @property
    def failed_flows(self) -> _U32:
        """In the order of their failing."""
    @property
    def now_s(self) -> float: ...
    @property
    def events(self) -> int: ...
    @property
    def link_bytes(self) -> _F64: ...
    @property
    def flow_sent_bytes(self) -> _F64: ...
    @property
    def bytes_sent(self) -> int:
        """Of data, as the three below."""
    @property
    def bytes_delivered(self) -> int: ...
    @property
    def bytes_dropped(self) -> int: ...
    @property
    def bytes_in_flight(self) -> int: ...
    @property
    def task_start_s(self) -> _F64:
        """NaN while it lies in the future, as for all times."""
    @property
    def task_finish_s(self) -> _F64: ...
    @property
    def stream_start_s(self) -> _F64: ...
    @property
    def stream_finish_s(self) -> _F64: ...
    @property
    def flow_finish_s(self) -> _F64: ...
    @property
    def message_start_s(self) -> _F64: ...
    @property
    def message_finish_s(self) -> _F64: ...

# Packet engine: congestion control

_HopTelemetry = tuple[int, int, float, int, int]

class CcProbe:
    """Congestion control of one sending queue pair, driven by hand.

    ``parameters`` holds exactly those of the algorithm (``ValueError`` otherwise), in SI units;
    ``hops`` are the switches on the way. Times are in ps, absolute, and never go back.
    """

    def __init__(
        self,
        kind: str,
        parameters: dict[str, float],
        line_rate_Bps: float,
        base_rtt_ps: float,
        packet_bytes: float,
        hops: int = 0,
    ) -> None: ...
    def start(self, now_ps: int) -> None:
        """Begin anew, at line rate."""

    def ack(
        self,
        now_ps: int,
        rtt_ps: int,
        acked_psn: int,
        next_psn: int,
        acked_bytes: int,
        acked_packets: int = 1,
        marked_packets: int = 0,
        in_flight_bytes: float = 0.0,
        hops: list[_HopTelemetry] = ...,
    ) -> None:
        """One acknowledgement; a hop is (time ps, bytes sent, rate B/s, queue bytes, link)."""

    def cnp(self, now_ps: int) -> None: ...
    def loss(self, now_ps: int, timeout: bool = False) -> None: ...
    def timer(self, now_ps: int) -> None: ...
    def sent(self, now_ps: int, bytes: int) -> None: ...
    @property
    def rate_Bps(self) -> float: ...
    @property
    def window_bytes(self) -> float:
        """Most that may be in flight; infinity without a window."""

    @property
    def timer_ps(self) -> int | None:
        """When ``timer`` is due."""
