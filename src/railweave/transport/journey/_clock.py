"""When packets are where: a way's links as clocks, and the packets that passed as arrays.

The rules are those of the packet engine for one connection on an idle fabric: a port sends one
packet after the other; a switch that cuts through goes on once 64 bytes are in, another one when
all is; the devices' latencies and the wires' delays come on top. PCIe limits only where it is
slower than its adapter's ports; the adapter reads one packet ahead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from railweave.fabric import Fabric, LinkLayer
from railweave.transport.journey._hops import JourneyHop, JourneyWay

__all__ = ["PacketTimes", "Passage", "WayClock", "pcie_bps", "reach_s", "times_of"]

F64 = npt.NDArray[np.float64]
I32 = npt.NDArray[np.int32]

#: bytes that a cut-through switch has read when it goes on
HEADER_BYTES: Final = 64


@dataclass(frozen=True, slots=True)
class Passage:
    """One packet on its way: when each hop was ready for it, and when it began to send it.

    ``enter_s`` has one entry more than there are hops: when it is behind the last one. Entries
    behind a loss are NaN. ``at_nic_s`` is when the receiving adapter has it.
    """

    enter_s: tuple[float, ...]
    start_s: tuple[float, ...]
    at_nic_s: float


def pcie_bps(fabric: Fabric, links: Sequence[int]) -> tuple[float, float]:
    """Return the rates of the links into the first and out of the last adapter of a way.

    Infinite where there is none, or where it is no slower than all ports of its adapter.
    """
    wired = [k for k, link in enumerate(links) if fabric.link_layer[link] >= LinkLayer.HOST_LEAF]
    if not wired:
        return math.inf, math.inf
    found = []
    for place, nic in (
        (wired[0] - 1, int(fabric.link_src[links[wired[0]]])),
        (wired[-1] + 1, int(fabric.link_dst[links[wired[-1]]])),
    ):
        own = (fabric.link_src == nic) & (fabric.link_layer >= LinkLayer.HOST_LEAF)
        total = float(fabric.link_capacity_bps[own].sum())
        rate = float(fabric.usable_bps[links[place]]) if 0 <= place < len(links) else math.inf
        found.append(rate if rate < total * (1 - 1e-9) else math.inf)
    return found[0], found[1]


def reach_s(hop: JourneyHop, wire_bytes: float) -> float:
    """Return how long a hop's wire is busy until the device behind it can go on with a packet."""
    wire = 8 * wire_bytes / hop.rate_bps
    return min(wire, 8 * HEADER_BYTES / hop.rate_bps) if hop.cut_through else wire


class WayClock:
    """The links of one way, each busy until it has sent what it was given.

    Args:
        way: the hops.
        fabric: whose links they are.
        queue_bytes: bytes of others that stand before each packet, by place of the hop.
    """

    def __init__(self, way: JourneyWay, fabric: Fabric, queue_bytes: dict[int, float]) -> None:
        self.way = way
        self._free = [0.0] * len(way.hops)
        self._queue_bytes = queue_bytes
        self._out_bps, self._in_bps = pcie_bps(fabric, [hop.link for hop in way.hops])
        self._out_busy = self._in_busy = -math.inf
        wired = way.network
        self.first = wired[0] if wired else 0
        self.last = wired[-1] if wired else len(way.hops) - 1
        self._inside = not wired

    def send(
        self,
        wire_bytes: float,
        now_s: float,
        *,
        memory: bool,
        lost_at: int = -1,
        ahead: bool = False,
    ) -> Passage:
        """Send a packet and return when it is where.

        Args:
            wire_bytes: what it takes on every link.
            now_s: when the sending end has it ready; calls come in the order of their times.
            memory: whether it is read from and written to memory over PCIe; else it begins and
                ends in the adapters, and what lies before and behind them takes no time.
            lost_at: place of the hop on whose link it is lost.
            ahead: whether it goes before all others, in a class of its own: it waits for none.
        """
        hops = self.way.hops
        enter, start = [now_s], []
        for k, hop in enumerate(hops):
            ready = enter[-1]
            inner = not self._inside and not self.first <= k <= self.last
            if inner and not memory:
                begin, end = ready, ready
            elif inner:
                begin, end = self._over_pcie(k, ready, wire_bytes)
            else:
                begin, end = self._over_link(k, ready, wire_bytes, ahead=ahead)
            start.append(begin)
            end += 0.0 if inner and not memory else hop.propagation_s + hop.latency_s
            enter.append(math.nan if k == lost_at else end)
            if k == lost_at:
                enter += [math.nan] * (len(hops) - k - 1)
                start += [math.nan] * (len(hops) - k - 1)
                break
        return Passage(tuple(enter), tuple(start), enter[self.last + 1])

    def _over_pcie(self, place: int, ready: float, wire_bytes: float) -> tuple[float, float]:
        """Return when a packet begins and ends its way between memory and adapter."""
        if place != self.last + 1 or math.isinf(self._in_bps):
            return ready, ready
        begin = max(ready, self._in_busy)
        self._in_busy = begin + 8 * wire_bytes / self._in_bps
        return begin, self._in_busy

    def _over_link(
        self, place: int, ready: float, wire_bytes: float, *, ahead: bool
    ) -> tuple[float, float]:
        """Return when a port begins to send, and when the head may go on with the packet."""
        hop = self.way.hops[place]
        wire = 8 * wire_bytes / hop.rate_bps
        reach = reach_s(hop, wire_bytes)
        if ahead:
            return ready, ready + reach
        begin = max(ready + 8 * self._queue_bytes.get(place, 0.0) / hop.rate_bps, self._free[place])
        if place == self.first and not math.isinf(self._out_bps):
            begin = max(begin, self._out_busy)
            one = 8 * wire_bytes / self._out_bps
            self._out_busy = max(self._out_busy, begin - one) + one
        self._free[place] = begin + wire
        return begin, begin + reach


@dataclass(frozen=True, eq=False)
class PacketTimes:
    """All packets of a journey, P of them, and their hops, H at most; NaN where there is no hop.

    ``direction`` is 0 from the source to the target, 1 back. ``enter_s`` (P, H+1) and ``start_s``
    (P, H) are those of :class:`Passage`. ``wire_bytes`` (P,) count preamble and gap.
    ``marked_at`` and ``lost_at`` (P,) are places of hops in the packet's way, −1 none.
    ``memory`` (P,) tells which are read from and written to memory. ``hops`` are the hops of the
    ways in both directions.
    """

    direction: npt.NDArray[np.int8]
    wire_bytes: I32
    enter_s: F64
    start_s: F64
    at_nic_s: F64
    marked_at: I32
    lost_at: I32
    memory: npt.NDArray[np.bool_]
    hops: tuple[int, int]

    def __len__(self) -> int:
        return len(self.direction)

    @property
    def sent_s(self) -> F64:
        """When the sending end had each packet ready, shape (P,)."""
        return self.enter_s[:, 0]

    @property
    def landed_s(self) -> F64:
        """When each packet was in memory, or in the adapter that it was for; NaN: lost, (P,)."""
        last = np.array(self.hops)[self.direction]
        landed: F64 = self.enter_s[np.arange(len(self)), last]
        return landed


Row = tuple[int, int, Passage, int, int, bool]


def times_of(rows: Sequence[Row], hops: tuple[int, int]) -> PacketTimes:
    """Lay (direction, wire bytes, passage, marked at, lost at, memory) of packets out as arrays."""
    n, width = len(rows), max(hops)
    enter, start = np.full((n, width + 1), np.nan), np.full((n, width), np.nan)
    for k, (_, _, passage, _, _, _) in enumerate(rows):
        enter[k, : len(passage.enter_s)] = passage.enter_s
        start[k, : len(passage.start_s)] = passage.start_s
    return PacketTimes(
        np.array([row[0] for row in rows], dtype=np.int8),
        np.array([row[1] for row in rows], dtype=np.int32),
        enter,
        start,
        np.array([row[2].at_nic_s for row in rows], dtype=np.float64),
        np.array([row[3] for row in rows], dtype=np.int32),
        np.array([row[4] for row in rows], dtype=np.int32),
        np.array([row[5] for row in rows], dtype=bool),
        hops,
    )
