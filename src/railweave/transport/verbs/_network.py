"""Simulated time, the wire between two hosts, and the trace of what happened."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Final, Protocol

from railweave.errors import EngineError
from railweave.fabric.wire import SHORTEST_FRAME_BYTES
from railweave.transport.packets import CNP_OPCODE, IbPacket
from railweave.transport.verbs._types import Actor, Part, Phase, VerbsEvent

__all__ = ["AdapterTiming", "Arrival", "DirectWire", "EventLoop", "Port", "SentPacket", "Wire"]

#: RoCEv2 over IPv4: preamble, gap, Ethernet header and FCS (38), IPv4 (20), UDP (8)
ROCEV2_OVERHEAD_BYTES: Final = 66


@dataclass(frozen=True, slots=True)
class Arrival:
    """A packet that reached the other adapter: when its last bit came in, and what came.

    A wire that marks a packet gives it back with ``bth.fecn`` set.
    """

    time_s: float
    packet: IbPacket


class Wire(Protocol):
    """What is between the two adapters: the seam where a design's path is put in."""

    def carry(self, packet: IbPacket, source: int, now_s: float) -> Arrival | None:
        """Take a packet whose first bit leaves host ``source`` now; None where it is lost."""


@dataclass(frozen=True, slots=True)
class AdapterTiming:
    """How quick an adapter is.

    ``rate_bps``, ``overhead_bytes`` (what stands around the transport's bytes) and ``least_bytes``
    (of the shortest frame) space the packets it sends. ``processing_s`` passes between the doorbell
    and the first packet, and between a request's arrival and its answer; 0.25 µs is an assumption.
    """

    rate_bps: float = 400e9
    overhead_bytes: int = ROCEV2_OVERHEAD_BYTES
    processing_s: float = 250e-9
    least_bytes: int = SHORTEST_FRAME_BYTES

    def wire_bytes(self, packet: IbPacket) -> int:
        """Bytes that a packet takes on the wire."""
        return max(packet.transport_bytes + self.overhead_bytes, self.least_bytes)

    def duration_s(self, packet: IbPacket) -> float:
        """Time that a packet's bits take to leave."""
        return self.wire_bytes(packet) * 8 / self.rate_bps


class DirectWire:
    """A cable: ``delay_s`` after the last bit left, less the packets named in ``lost``.

    ``lost`` counts all packets that both hosts send, from 0.
    """

    __slots__ = ("_count", "_delay_s", "_lost", "_timing")

    def __init__(
        self,
        delay_s: float = 1e-6,
        lost: Collection[int] = (),
        timing: AdapterTiming | None = None,
    ) -> None:
        self._delay_s = delay_s
        self._lost = frozenset(lost)
        self._timing = timing or AdapterTiming()
        self._count = 0

    def carry(self, packet: IbPacket, source: int, now_s: float) -> Arrival | None:
        """Deliver or lose a packet."""
        number = self._count
        self._count += 1
        if number in self._lost:
            return None
        return Arrival(now_s + self._timing.duration_s(packet) + self._delay_s, packet)


@dataclass(frozen=True, slots=True)
class SentPacket:
    """A packet as it left a host; ``arrival_s`` is None where it was lost."""

    time_s: float
    source: int
    packet: IbPacket
    arrival_s: float | None


class EventLoop:
    """Calls in the order of their time; calls of one time in the order they were asked for."""

    __slots__ = ("_count", "_heap", "now_s")

    def __init__(self) -> None:
        self.now_s = 0.0
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._count = 0

    def at(self, time_s: float, call: Callable[..., None], *arguments: Any) -> None:  # noqa: ANN401
        """Call at a time that is not before now."""
        self._count += 1
        heapq.heappush(self._heap, (max(time_s, self.now_s), self._count, call, arguments))

    def run(self, until_s: float) -> None:
        """Make every call up to a time; calls after it stay."""
        heap = self._heap
        while heap and heap[0][0] <= until_s:
            self.now_s, _, call, arguments = heapq.heappop(heap)
            call(*arguments)


class Trace:
    """Events and packets of one run, in the order they came about."""

    __slots__ = ("events", "loop", "sent")

    def __init__(self, loop: EventLoop) -> None:
        self.loop = loop
        self.events: list[VerbsEvent] = []
        self.sent: list[SentPacket] = []

    def note(
        self,
        host: int,
        actor: Actor,
        part: Part,
        phase: Phase,
        what: str,
        *,
        packet: int | None = None,
    ) -> None:
        """Write a step down."""
        self.events.append(VerbsEvent(self.loop.now_s, host, actor, part, phase, what, packet))

    def adapter(self, host: int, part: Part, what: str, packet: int | None = None) -> None:
        """Write down what an adapter did on the way."""
        self.events.append(
            VerbsEvent(self.loop.now_s, host, Actor.ADAPTER, part, Phase.TRANSPORT, what, packet)
        )


class Sender(Protocol):
    """One half of a queue pair that may have packets to send."""

    def next_packet(self) -> tuple[IbPacket, str] | None:
        """Give the next packet with the sentence for the trace; None where there is none now."""


class Port:
    """An adapter's port: sends what is ready one packet after the other, in turn."""

    __slots__ = (
        "_busy",
        "_deliver",
        "_host",
        "_ready",
        "_trace",
        "_urgent",
        "_waiting",
        "_wire",
        "timing",
    )

    def __init__(
        self,
        host: int,
        trace: Trace,
        wire: Wire,
        timing: AdapterTiming,
        deliver: Callable[[int, IbPacket, int], None],
    ) -> None:
        self._host = host
        self._trace = trace
        self._wire = wire
        self._deliver = deliver
        self.timing = timing
        self._ready: deque[Sender] = deque()
        self._urgent: deque[tuple[IbPacket, str]] = deque()
        self._waiting: set[int] = set()
        self._busy = False

    def wake(self, sender: Sender, delay_s: float = 0.0) -> None:
        """Ask a sender for packets, after a delay."""
        if delay_s:
            loop = self._trace.loop
            loop.at(loop.now_s + delay_s, self.wake, sender)
            return
        if id(sender) not in self._waiting:
            self._waiting.add(id(sender))
            self._ready.append(sender)
        if not self._busy:
            self._transmit()

    def send_first(self, packet: IbPacket, what: str) -> None:
        """Send a packet before all that wait, once the one on its way has left."""
        self._urgent.append((packet, what))
        if not self._busy:
            self._transmit()

    def _transmit(self) -> None:
        self._busy = False
        if self._urgent:
            self._send(*self._urgent.popleft())
            return
        while self._ready:
            sender = self._ready.popleft()
            self._waiting.discard(id(sender))
            self._busy = True  # what the sender wakes now waits for its turn
            item = sender.next_packet()
            self._busy = False
            if item is None:
                continue
            if id(sender) not in self._waiting:
                self._waiting.add(id(sender))
                self._ready.append(sender)
            self._send(*item)
            return

    def _send(self, packet: IbPacket, what: str) -> None:
        """Put a packet on the wire now, and come back when its last bit has left."""
        self._busy = True
        trace = self._trace
        now_s = trace.loop.now_s
        index = len(trace.sent)
        arrival = self._wire.carry(packet, self._host, now_s)
        time_s = arrival.time_s if arrival else None
        if time_s is not None and not time_s >= now_s:
            raise EngineError(f"the wire delivers packet {index} at {time_s} s, before {now_s} s")
        trace.sent.append(SentPacket(now_s, self._host, packet, time_s))
        trace.adapter(self._host, Part.NIC, what, index)
        if arrival is None:
            name = "CNP" if packet.bth.opcode == CNP_OPCODE else f"PSN {packet.bth.psn}"
            trace.note(
                self._host,
                Actor.FABRIC,
                Part.FABRIC,
                Phase.TRANSPORT,
                f"The fabric loses the packet ({name}); neither side is told.",
                packet=index,
            )
        else:
            trace.loop.at(arrival.time_s, self._deliver, 1 - self._host, arrival.packet, index)
        trace.loop.at(now_s + self.timing.duration_s(packet), self._transmit)
