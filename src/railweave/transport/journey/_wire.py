"""The design's ways as the wire between two hosts: what each packet meets there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Final

import numpy as np

from railweave.fabric._headers import random_stream
from railweave.fabric._paths import splitmix64
from railweave.transport.journey._clock import PacketTimes, Passage, WayClock, times_of
from railweave.transport.packets import CNP_OPCODE, IbPacket, Opcode
from railweave.transport.verbs._network import AdapterTiming, Arrival

if TYPE_CHECKING:
    from railweave.qos import EcnThresholds

__all__ = ["Congestion", "Feedback", "Marks", "PathWire", "Sent"]

#: packets that an adapter makes itself: nothing of them is read from memory
_OWN: Final = (Opcode.ACKNOWLEDGE, Opcode.ATOMIC_ACKNOWLEDGE)


@dataclass(frozen=True, slots=True)
class Congestion:
    """A queue of others that stands at one port of a way.

    ``direction`` and ``place`` say which hop; ``name`` is its port. ``thresholds`` are those at
    which that port marks.
    """

    direction: int
    place: int
    name: str
    queue_bytes: float
    thresholds: EcnThresholds

    @property
    def probability(self) -> float:
        """Chance of a packet to be marked there."""
        return self.thresholds.probability(self.queue_bytes)


class Feedback(Enum):
    """How receivers tell senders of marks."""

    CNP = "cnp"  #: packets of their own (RoCEv2)
    BECN = "becn"  #: a bit in the next ACK (InfiniBand)
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Sent:
    """One packet as it was sent, without the marks that it got on its way."""

    direction: int
    packet: IbPacket
    passage: Passage
    wire_bytes: int
    marked_at: int
    lost_at: int
    memory: bool


class Marks:
    """Draws which packets are marked: one number each, from the stream of a seed."""

    def __init__(self, seed: int) -> None:
        self._state = random_stream(seed, "journey/marks")
        self._count = np.uint64(0)

    def unit(self) -> float:
        """Return the next number from 0 to below 1."""
        self._count += np.uint64(1)
        drawn = splitmix64(np.array([self._state ^ self._count], dtype=np.uint64))
        return float(drawn[0] >> np.uint64(11)) * 2.0**-53


class PathWire:
    """Carries packets over both ways of a design; a :class:`railweave.transport.verbs.Wire`.

    Args:
        clocks: of the way there and the way back.
        timing: of the adapters, which says what a packet takes on the wire.
        congestion: a queue of others, None without.
        feedback: what receivers do about marks.
        seed: of the marks.
        lose: says of a packet's direction and itself at which place of its way it is lost, −1 if
            it is not; asked once for each packet.
    """

    def __init__(
        self,
        clocks: tuple[WayClock, WayClock],
        timing: AdapterTiming,
        *,
        congestion: Congestion | None,
        feedback: Feedback,
        seed: int,
        lose: Callable[[int, IbPacket], int],
    ) -> None:
        self.sent: list[Sent] = []
        self._clocks = clocks
        self._timing = timing
        self._congestion = congestion
        self._feedback = feedback
        self._marks = Marks(seed)
        self._lose = lose
        self._becn: list[list[float]] = [[], []]  # arrivals of marks that no ACK has told of

    def carry(self, packet: IbPacket, source: int, now_s: float) -> Arrival | None:
        """Take a packet from host ``source``; None where it is lost.

        A mark that the receiver answers by a CNP comes back as ``bth.fecn``, as the verbs model
        wants it; the frames of RoCEv2 carry it in the IP header.
        """
        due = self._becn[source]
        if packet.operation in _OWN and due and due[0] <= now_s:
            packet = replace(packet, bth=replace(packet.bth, becn=True))
            self._becn[source] = [at_s for at_s in due if at_s > now_s]
        notification = packet.bth.opcode == CNP_OPCODE
        memory = packet.operation not in _OWN and not notification
        lost = self._lose(source, packet)
        size = self._timing.wire_bytes(packet)
        passage = self._clocks[source].send(
            size, now_s, memory=memory, lost_at=lost, ahead=notification
        )
        marked = -1 if notification else self._mark(source, lost)
        self.sent.append(Sent(source, packet, passage, size, marked, lost, memory))
        if lost >= 0:
            return None
        if marked >= 0 and self._feedback is Feedback.CNP:
            packet = replace(packet, bth=replace(packet.bth, fecn=True))
        if marked >= 0 and self._feedback is Feedback.BECN:
            self._becn[1 - source].append(passage.at_nic_s)
        return Arrival(passage.at_nic_s, packet)

    def _mark(self, source: int, lost: int) -> int:
        """Return the place of the hop at which a packet is marked, −1 if it is not."""
        there = self._congestion
        if there is None or there.direction != source:
            return -1
        if 0 <= lost < there.place or self._marks.unit() >= there.probability:
            return -1
        return there.place

    def times(self) -> PacketTimes:
        """Return the times of all packets as arrays."""
        return times_of(
            [
                (row.direction, row.wire_bytes, row.passage, row.marked_at, row.lost_at, row.memory)
                for row in self.sent
            ],
            (len(self._clocks[0].way.hops), len(self._clocks[1].way.hops)),
        )
