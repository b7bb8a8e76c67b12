"""What a responder sends back: ACKs, NAKs, the data of READs, the answers to atomics."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from railweave.transport.packets import (
    AckSyndrome,
    Aeth,
    AtomicAckEth,
    Bth,
    IbPacket,
    NakCode,
    Opcode,
    Reth,
)
from railweave.transport.verbs._segments import (
    READ_RESPONSES,
    opcode_byte,
    packet_count,
    psn_add,
    segment,
)
from railweave.transport.verbs._types import Access, WcStatus, nak_name

if TYPE_CHECKING:
    from railweave.transport.verbs._queue_pair import QueuePair

__all__ = ["AnswerQueue", "Refused", "Resource", "invalid_request"]

#: credit field of an ACK that counts no credits
_NO_CREDITS: Final = 31


class Refused(Exception):  # noqa: N818
    """A request that is not carried out: the NAK for the peer, and what becomes of a receive.

    ``nak`` is None where the receiver is not ready. ``local`` marks a fault of the receiver's own
    request, which also ends services without acknowledgements.
    """

    def __init__(
        self, nak: NakCode | None, status: WcStatus, why: str, *, local: bool = False
    ) -> None:
        self.nak = nak
        self.status = status
        self.why = why
        self.local = local
        super().__init__(why)


def invalid_request(why: str) -> Refused:
    return Refused(NakCode.INVALID_REQUEST, WcStatus.REM_INV_REQ_ERR, why)


@dataclass(slots=True)
class Resource:
    """A READ or atomic that was carried out, kept to answer it again."""

    psn: int
    packets: int
    reth: Reth | None = None
    original: int = 0


@dataclass(slots=True)
class _ReadJob:
    """Responses of a READ that are still to be sent; ``fresh`` is not a repeated one."""

    psn: int
    reth: Reth
    count: int
    msn: int
    fresh: bool
    resource: Resource
    sent: int = 0


@dataclass(slots=True)
class _Answer:
    """An ACK, NAK or atomic's answer in the queue."""

    packet: IbPacket
    what: str
    plain: bool = False  #: an ACK, which a later one can stand for
    fresh: bool = False  #: holds one of the responder's resources until it has left


class AnswerQueue:
    """Answers of one queue pair, sent in the order of the requests.

    ``msn`` counts the messages that were carried out; ``active`` are the READs and atomics whose
    answers have not left. ``refuse`` is called where a READ's memory went away under it.
    """

    def __init__(self, qp: QueuePair, refuse: Callable[[Refused, int], None]) -> None:
        self._qp = qp
        self._refuse = refuse
        self.msn = 0
        self.active = 0
        self._out: deque[_Answer | _ReadJob] = deque()

    def count_message(self) -> None:
        """Count a message that was carried out (24 bits)."""
        self.msn = self.msn + 1 & 0xFFFFFF

    def silence(self) -> None:
        """Send no more answers."""
        self._out.clear()
        self.active = 0

    def next_packet(self) -> tuple[IbPacket, str] | None:
        """Give the next answer to send."""
        while self._out:
            item = self._out[0]
            if isinstance(item, _Answer):
                self._out.popleft()
                self.active -= item.fresh
                return item.packet, item.what
            answer = self._read_response(item)
            if answer is not None:
                return answer
        return None

    def _queue(self, item: _Answer | _ReadJob) -> None:
        last = self._out[-1] if self._out else None
        if isinstance(item, _Answer) and item.plain and isinstance(last, _Answer) and last.plain:
            self._out.pop()  # coalesced: the later ACK says all that the earlier one does
        self._out.append(item)
        port = self._qp.host.port
        port.wake(self, port.timing.processing_s)

    def _bth(self, opcode: Opcode, psn: int, size: int = 0) -> Bth:
        qp = self._qp
        return Bth(
            opcode_byte(qp.service, opcode),
            qp.attributes.dest_qpn or 0,
            psn,
            pad=-size & 3,
            pkey=qp.pkey,
        )

    def ack(self, psn: int) -> None:
        """Acknowledge everything up to a PSN."""
        packet = IbPacket(self._bth(Opcode.ACKNOWLEDGE, psn), aeth=Aeth(_NO_CREDITS, self.msn))
        what = f"The adapter sends an ACK for everything up to PSN {psn}."
        self._queue(_Answer(packet, what, plain=True))

    def nak(self, code: NakCode, psn: int) -> None:
        """Refuse the request with a PSN; what is before it is acknowledged."""
        self._negative(AckSyndrome.NAK << 5 | code, psn, f"a NAK ({nak_name(code)})")

    def rnr_nak(self, timer: int, psn: int) -> None:
        """Ask the peer to send a request again after a time."""
        self._negative(AckSyndrome.RNR_NAK << 5 | timer, psn, f"an RNR NAK with timer {timer}")

    def _negative(self, syndrome: int, psn: int, name: str) -> None:
        packet = IbPacket(self._bth(Opcode.ACKNOWLEDGE, psn), aeth=Aeth(syndrome, self.msn))
        self._queue(_Answer(packet, f"The adapter sends {name} for PSN {psn}."))

    def atomic(self, psn: int, original: int, *, fresh: bool) -> None:
        """Answer an atomic with the value that was there before."""
        packet = IbPacket(
            self._bth(Opcode.ATOMIC_ACKNOWLEDGE, psn),
            aeth=Aeth(_NO_CREDITS, self.msn),
            atomic_ack=AtomicAckEth(original),
        )
        what = f"The adapter sends ATOMIC_ACKNOWLEDGE with the value before, {original}, PSN {psn}."
        self._queue(_Answer(packet, what, fresh=fresh))

    def read(self, psn: int, reth: Reth, resource: Resource, *, fresh: bool) -> None:
        """Answer a READ; a repeated one takes the place of what is left of the first."""
        for job in [each for each in self._out if isinstance(each, _ReadJob)]:
            if job.resource is resource:
                self._out.remove(job)
                self.active -= job.fresh
        count = packet_count(reth.length, self._qp.mtu_bytes)
        self._queue(_ReadJob(psn, reth, count, self.msn, fresh, resource))

    def _read_response(self, job: _ReadJob) -> tuple[IbPacket, str] | None:
        """Read the next part of a READ out of memory; None where that is not possible any more."""
        qp = self._qp
        offset = job.sent * qp.mtu_bytes
        size = min(qp.mtu_bytes, job.reth.length - offset)
        psn = psn_add(job.psn, job.sent)
        va = job.reth.va + offset
        payload = b""
        if size > 0:
            region, problem = qp.host.regions.remote(
                qp.pd, job.reth.rkey, va, size, Access.REMOTE_READ
            )
            if region is None:
                self.silence()
                status = WcStatus.REM_ACCESS_ERR
                self._refuse(Refused(NakCode.REMOTE_ACCESS_ERROR, status, problem), psn)
                return None
            payload = qp.host.memory.read(va, size)
        opcode = segment(READ_RESPONSES, job.sent, job.count)
        aeth = None if opcode is Opcode.READ_RESPONSE_MIDDLE else Aeth(_NO_CREDITS, job.msn)
        job.sent += 1
        if job.sent == job.count:
            self._out.popleft()
            self.active -= job.fresh
        what = (
            f"The adapter reads {size} B from its host's memory, whose processor does nothing, and "
            f"sends {opcode.name}, PSN {psn}, packet {job.sent} of {job.count}."
        )
        return IbPacket(self._bth(opcode, psn, size), aeth=aeth, payload=payload), what
