"""One RDMA operation followed hop by hop through a design: packets, times, addresses, capture.

The verbs model of :mod:`railweave.transport.verbs.operation` runs between two ends of a built
design; its packets take the way that the plane's routing and hash give their queue pair, there
and back.
Every hop has its time: serialisation, propagation, switching, adapters. On planes of TCP the same
bytes go over a plain connection; within a scale-up domain they are no packets at all.

What it leaves out is in :attr:`PacketJourney.notes` and in the guide: other traffic (but for one
queue that is asked for), the time of software, and what congestion control does about a mark.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from railweave.design.models import Transport
from railweave.errors import InputError
from railweave.fabric import PlaneId
from railweave.fabric.wire import Framing
from railweave.transport.journey._capture import write_journey
from railweave.transport.journey._clock import PacketTimes, reach_s
from railweave.transport.journey._ends import Ends
from railweave.transport.journey._frames import (
    JourneyFrame,
    Viewpoint,
    encoded_frames,
    port_viewpoints,
    viewpoint,
)
from railweave.transport.journey._hops import JourneyHop, JourneyWay
from railweave.transport.journey._run import JourneyRun, run_journey
from railweave.transport.journey._tcp import TcpRun, TcpSegment
from railweave.transport.journey._wire import Congestion
from railweave.transport.packets import IbPacket
from railweave.transport.verbs._types import VerbsEvent
from railweave.transport.verbs.operation import Operation, OperationCase, OperationRun

if TYPE_CHECKING:
    from railweave.api import BuiltDesign

__all__ = [
    "HopTime",
    "JourneyCase",
    "JourneyFrame",
    "JourneyHop",
    "JourneyWay",
    "PacketJourney",
    "PacketTimes",
    "Viewpoint",
    "packet_journey",
]

F64 = npt.NDArray[np.float64]

#: the bytes of a message, over and over: no packet's length is a multiple of it
_PERIOD: Final = bytes(range(251))
#: differences of times below this are rounding
_NOISE_S: Final = 1e-15
_NAME: Final = {
    Operation.SEND: "SEND",
    Operation.SEND_IMMEDIATE: "SEND with immediate",
    Operation.WRITE: "RDMA WRITE",
    Operation.WRITE_IMMEDIATE: "RDMA WRITE with immediate",
    Operation.READ: "RDMA READ",
    Operation.COMPARE_SWAP: "compare-and-swap",
    Operation.FETCH_ADD: "fetch-and-add",
}


@dataclass(frozen=True, slots=True)
class JourneyCase:
    """What travels from where to where.

    Args:
        operation: the operation with its size and faults; its queue pair numbers are replaced by
            those that the design's routing draws.
        source: who posts it: a GPU, host, adapter or storage server by name.
        target: the other end.
        plane: whose network and transport.
        mtu_bytes: most payload of a packet; None takes the operation's, or the plane's where that
            is less or its transport is TCP.
        ip_version: 4 or 6.
        queue_pair: which of the connection's queue pairs, where there are several.
        congested: port (or device) where a queue of others stands: its packets may be marked.
        queue_bytes: how much stands there; None: just above Kmax.
        lost_at: port (or device) on whose link the fault's packet is lost; None: the first link.
        seed: of hashes, queue pair numbers and marks; None takes the design's.
    """

    operation: OperationCase
    source: str
    target: str
    plane: PlaneId = PlaneId.BACKEND
    mtu_bytes: int | None = None
    ip_version: int = 4
    queue_pair: int = 0
    congested: str | None = None
    queue_bytes: float | None = None
    lost_at: str | None = None
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class HopTime:
    """The time of one packet on one hop, in its parts.

    ``begin_s`` is when the tail of the hop had it ready. ``behind_own_s`` is the wait for earlier
    packets of the same journey, ``queueing_s`` that for others (0 but at a congested hop),
    ``serialisation_s`` until the head could go on: all of the packet, or its first 64 bytes.
    ``device_s`` is what the device at the head adds.
    """

    hop: JourneyHop
    begin_s: float
    queueing_s: float
    behind_own_s: float
    serialisation_s: float
    propagation_s: float
    device_s: float

    @property
    def total_s(self) -> float:
        """All of it."""
        waits = self.queueing_s + self.behind_own_s
        return waits + self.serialisation_s + self.propagation_s + self.device_s


@dataclass(frozen=True, eq=False)
class PacketJourney:
    """A finished journey.

    ``ways`` lead there and back. ``packets`` are those of the InfiniBand transport, as they were
    sent; empty for TCP and within a scale-up domain, where ``run`` is a :class:`TcpRun` or None.
    ``times`` has a row for each packet, in the order of sending; the ``packet`` of an event is
    its row. ``priority`` is that of the data; ``marks`` says that packets can carry ECN marks.
    """

    case: JourneyCase
    transport: Transport
    ends: Ends
    ways: tuple[JourneyWay, JourneyWay]
    queue_pairs: tuple[int, int]
    inside: bool
    run: OperationRun | TcpRun | None
    packets: tuple[IbPacket, ...]
    times: PacketTimes
    events: tuple[VerbsEvent, ...]
    framing: Framing
    overhead_bytes: int
    priority: int
    marks: bool
    congestion: Congestion | None
    notes: tuple[str, ...]

    @property
    def title(self) -> str:
        """What travelled from where to where, in a line."""
        from railweave.units import format_bytes

        what = _NAME[self.case.operation.operation]
        size = format_bytes(self.case.operation.size_bytes)
        return f"{what} of {size} from {self.ends.source_name} to {self.ends.target_name}"

    @property
    def data_direction(self) -> int:
        """Direction in which the message's bytes go: 1, back, for a READ."""
        return int(self.case.operation.operation is Operation.READ)

    @cached_property
    def payload_bytes(self) -> npt.NDArray[np.int64]:
        """Payload of each packet, shape (P,)."""
        if isinstance(self.run, TcpRun):
            sizes = [segment.payload_bytes for segment in self.run.segments]
        elif self.run is None:
            sizes = self.times.wire_bytes.tolist()
        else:
            sizes = [len(packet.payload) for packet in self.packets]
        return np.array(sizes, dtype=np.int64)

    @property
    def posted_s(self) -> float:
        """When the first packet was ready to be sent; NaN where none was."""
        return float(self.times.sent_s[0]) if len(self.times) else float("nan")

    @property
    def delivered_s(self) -> float:
        """When the last byte of the message was in memory; NaN where it never was."""
        from railweave.transport.journey._delivery import delivered_s

        return delivered_s(self)

    @property
    def completed_s(self) -> float:
        """When the posting end knew: its last completion, or the last acknowledgement of TCP."""
        if isinstance(self.run, TcpRun):
            return self.run.acknowledged_s
        if self.run is None:
            return self.delivered_s
        own = [done.time_s for done in self.run.completions if done.host == 0]
        return max(own, default=float("nan"))

    # ------------------------------------------------ one packet

    def hop_times(self, packet: int) -> tuple[HopTime, ...]:
        """Return the hops of one packet, as far as it came; they add up to its time on the way.

        Raises:
            InputError: no packet of this number.
        """
        if not 0 <= packet < len(self.times):
            raise InputError(
                f"there is no packet {packet}; allowed: 0 to {len(self.times) - 1}"
                if len(self.times)
                else "this journey has no packets"
            )
        times = self.times
        direction = int(times.direction[packet])
        way, memory = self.ways[direction], bool(times.memory[packet])
        found = []
        for place, hop in enumerate(way.hops):
            begin, start = float(times.enter_s[packet, place]), float(times.start_s[packet, place])
            if np.isnan(start):
                break
            after = float(times.enter_s[packet, place + 1])
            queueing = min(start - begin, self._queue_s(direction, place))
            own = start - begin - queueing
            parts = (0.0, 0.0, 0.0)
            # what the adapter made itself is not on PCIe, and what is lost does not end its hop
            if not np.isnan(after) and (self.inside or hop.on_network or memory):
                fixed = hop.propagation_s + hop.latency_s
                reach = reach_s(hop, float(times.wire_bytes[packet]))
                if not self.inside and not hop.on_network:
                    reach = max(0.0, after - start - fixed)
                parts = (reach if reach > _NOISE_S else 0.0, hop.propagation_s, hop.latency_s)
            found.append(HopTime(hop, begin, queueing, own if own > _NOISE_S else 0.0, *parts))
        return tuple(found)

    def _queue_s(self, direction: int, place: int) -> float:
        there = self.congestion
        if there is None or (there.direction, there.place) != (direction, place):
            return 0.0
        return 8 * there.queue_bytes / self.ways[direction].hops[place].rate_bps

    def packet_name(self, packet: int) -> str:
        """Return what people call a packet: ``WRITE FIRST``, ``ACK``, ``SYN``."""
        if isinstance(self.run, TcpRun):
            segment: TcpSegment = self.run.segments[packet]
            return segment.name
        if self.run is None:
            return f"{int(self.times.wire_bytes[packet]):,} B"
        from railweave.transport.codec.headers import opcode_name

        return opcode_name(self.packets[packet].bth.opcode)

    # ------------------------------------------------ frames

    def viewpoints(self) -> tuple[Viewpoint, ...]:
        """Return every port at which packets can be seen; none within a scale-up domain."""
        return port_viewpoints(self)

    def frames(self, at: str = "") -> Iterator[JourneyFrame]:
        """Yield the frames that one port sends and receives, by time.

        Args:
            at: a port on the ways (``leaf-1:port-3``) or an end; "" is the sender's port.

        Raises:
            InputError: no such port on the ways, or a journey without packets.
        """
        return encoded_frames(self, (viewpoint(self, at),))

    def write(self, path: Path, at: str = "") -> tuple[int, tuple[str, ...]]:
        """Write a capture; see :func:`railweave.transport.journey._capture.write_journey`."""
        return write_journey(self, path, at)

    def content(self, direction: int) -> bytes:
        """Return the bytes that TCP sends in a direction: those of the verbs model's messages."""
        if not isinstance(self.run, TcpRun):
            return b""
        sent = (s for s in self.run.segments if s.direction == direction)
        size = max((s.offset + s.payload_bytes for s in sent), default=0)
        return (_PERIOD * (size // len(_PERIOD) + 1))[:size]

    def to_json(self, packet: int | None = None) -> dict[str, Any]:
        """Return the journey as a document, with the hops of one packet: the first with payload."""
        from railweave.transport.journey._document import journey_document

        return journey_document(self, packet)


def packet_journey(case: JourneyCase, built: BuiltDesign) -> PacketJourney:
    """Follow one operation through a design.

    Args:
        case: what travels from where to where.
        built: the design; links that are down are avoided.

    Returns:
        The journey: both ways, every packet with its times, the trace, and the frames on demand.

    Raises:
        InputError: a name that means nothing, no way, a size or MTU that cannot be, a fault or
            mark that this plane does not have.
    """
    run: JourneyRun = run_journey(case, built)
    setup = run.setup
    operation = run.run.case if isinstance(run.run, OperationRun) else case.operation
    return PacketJourney(
        case=replace(case, mtu_bytes=run.mtu_bytes, operation=operation),
        transport=setup.transport,
        ends=setup.ends,
        ways=(setup.ways.forward, setup.ways.back),
        queue_pairs=(setup.ways.source_qp, setup.ways.target_qp),
        inside=setup.ways.inside,
        run=run.run,
        packets=run.packets,
        times=run.times,
        events=run.events,
        framing=setup.framing,
        overhead_bytes=setup.overhead_bytes,
        priority=setup.nic.data_priority,
        marks=setup.marks,
        congestion=run.congestion,
        notes=run.notes,
    )
