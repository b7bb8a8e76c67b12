"""The native core. Arrays are one-dimensional and contiguous, of exactly the types named."""

from typing import Literal

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
    def add_paths(self, ptr: NDArray[np.int64], link: NDArray[np.int32]) -> None:
        """Whole paths, as ``RouteTable.walk`` gives them."""
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
