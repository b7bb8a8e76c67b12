"""The requester: the adapter's half that sends requests and sees to it that they are answered."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from railweave.transport.packets import (
    AckSyndrome,
    Aeth,
    Bth,
    IbPacket,
    NakCode,
    Opcode,
    Service,
)
from railweave.transport.verbs._request_packets import (
    ATOMICS,
    SendWqe,
    atomic_request,
    data_packet,
    data_payload,
    read_request,
)
from railweave.transport.verbs._segments import (
    PSN_HALF,
    PSN_MASK,
    packet_count,
    psn_add,
    psn_distance,
)
from railweave.transport.verbs._states import ack_timeout_s, rnr_timer_s
from railweave.transport.verbs._types import (
    MAX_MESSAGE_BYTES,
    Access,
    Part,
    QpState,
    SendOpcode,
    SendRequest,
    WcStatus,
    nak_name,
)

if TYPE_CHECKING:
    from railweave.transport.verbs._queue_pair import QueuePair

__all__ = ["Requester"]

_NAK_STATUS: Final = {
    NakCode.INVALID_REQUEST: WcStatus.REM_INV_REQ_ERR,
    NakCode.REMOTE_ACCESS_ERROR: WcStatus.REM_ACCESS_ERR,
    NakCode.REMOTE_OPERATIONAL_ERROR: WcStatus.REM_OP_ERR,
    NakCode.INVALID_RD_REQUEST: WcStatus.REM_INV_RD_REQ_ERR,
}
_NAK_MEANING: Final = {
    NakCode.INVALID_REQUEST: "the peer holds the request to be invalid",
    NakCode.REMOTE_ACCESS_ERROR: "the peer refuses access to that memory",
    NakCode.REMOTE_OPERATIONAL_ERROR: "the peer cannot do it for a fault of its own",
    NakCode.INVALID_RD_REQUEST: "the peer holds the reliable datagram request to be invalid",
}


class Requester:
    """The send queue of one queue pair and its transport state.

    ``psn`` is the next new sequence number, ``unacked`` the oldest one without an answer, and
    ``sent_until`` the one behind the highest that was ever sent. For RC everything from
    ``unacked`` on is sent again where an answer tells of a gap, or none comes (go-back-N).
    """

    def __init__(self, qp: QueuePair) -> None:
        self.qp = qp
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self.queue: deque[SendWqe] = deque()
        self.cursor = 0
        self.outstanding = 0  # READs and atomics begun and not answered
        self.waiting = False  # for an RNR timer
        self.generation = getattr(self, "generation", 0) + 1
        self._timer_asked = False
        self.start_at(0)
        self.retries_left = self.rnr_left = 0

    def start_at(self, psn: int) -> None:
        """Number packets from here on."""
        self.psn = self.unacked = self.sent_until = psn
        self._asked: int | None = None  # last PSN that asked for an answer
        self._gap: int | None = None  # PSN for which a gap was answered already
        self._deadline_s: float | None = None

    def attributes_changed(self) -> None:
        """Take new retry counts."""
        self.retries_left = self.qp.attributes.retry_cnt or 0
        self.rnr_left = self.qp.attributes.rnr_retry or 0

    def post(self, request: SendRequest, data: bytes | None) -> None:
        """Append a request; the adapter looks at it once it has processed the doorbell."""
        qp = self.qp
        self.queue.append(SendWqe(request, data, qp.scatter_list(request.sges)))
        qp.host.port.wake(self, qp.host.port.timing.processing_s)

    def flush(self) -> None:
        """End everything in the queue with WR_FLUSH_ERR."""
        self._deadline_s = None
        self.waiting = False
        self.generation += 1
        self.outstanding = self.cursor = 0
        flushed, self.queue = self.queue, deque()
        # What was sent is void: after SQE the next request begins with a number not used before.
        self.unacked = self.sent_until = self.psn
        for wqe in flushed:
            self.qp.complete_send(wqe.request, WcStatus.WR_FLUSH_ERR)

    # -- sending --------------------------------------------------------------------------------

    def next_packet(self) -> tuple[IbPacket, str] | None:
        """Give the next packet to send, None where there is none or it has to wait."""
        if self.qp.state not in (QpState.RTS, QpState.SQD) or self.waiting:
            return None
        while self.cursor < len(self.queue):
            wqe = self.queue[self.cursor]
            if wqe.next >= wqe.packets:
                self.cursor += 1
                continue
            if not wqe.started and not self._start(wqe):
                return None
            return self._send(wqe)
        self._report_drained()
        return None

    def _local_error(self, status: WcStatus, problem: str) -> None:
        """Fail the request at the cursor once all before it have ended."""
        if self.cursor == 0:
            self.fail(status, f"The adapter cannot carry out the request: {problem}.")

    def _must_wait(self, wqe: SendWqe) -> bool:
        if self.qp.state is QpState.SQD:
            self._report_drained()
            return True
        wqe.packets = 1 if wqe.opcode in ATOMICS else packet_count(wqe.length, self.qp.mtu_bytes)
        if self.qp.service is not Service.RC:
            return False
        if wqe.request.fence and self.outstanding:
            return True
        limit = self.qp.attributes.max_qp_rd_atomic or 0
        if wqe.answered and self.outstanding >= limit > 0:
            return True
        # Half of the numbers at most may be on the way, or old and new could not be told apart.
        return (self.psn - self.unacked & PSN_MASK) + wqe.packets > PSN_HALF and bool(self.cursor)

    def _report_drained(self) -> None:
        qp = self.qp
        begun = self.queue and self.queue[0].started
        if qp.state is QpState.SQD and not begun and qp.attributes.en_sqd_async_notify:
            qp.host.raise_event("IBV_EVENT_SQ_DRAINED", qp.number, "nothing begun is left")
            qp.sqd_notified()

    def _start(self, wqe: SendWqe) -> bool:
        """Check a request when its turn comes, and give it sequence numbers; False: not now."""
        if self._must_wait(wqe):
            return False
        status, problem = self._check(wqe)
        if status:
            self._local_error(status, problem)
            return False
        wqe.first_psn = self.psn
        wqe.started = True
        self.psn = psn_add(self.psn, wqe.packets)
        self.outstanding += wqe.answered
        return True

    def _check(self, wqe: SendWqe) -> tuple[WcStatus, str]:
        qp = self.qp
        if wqe.length > MAX_MESSAGE_BYTES:
            return (
                WcStatus.LOC_LEN_ERR,
                f"{wqe.length} B are more than the {MAX_MESSAGE_BYTES} B allowed",
            )
        if qp.service is Service.UD and wqe.length > qp.mtu_bytes:
            return WcStatus.LOC_LEN_ERR, (
                f"a datagram of {wqe.length} B does not fit into one packet of {qp.mtu_bytes} B"
            )
        if wqe.opcode in ATOMICS and wqe.length != 8:
            return WcStatus.LOC_LEN_ERR, f"an atomic brings 8 B, the buffer has {wqe.length} B"
        if wqe.answered and not qp.attributes.max_qp_rd_atomic:
            return WcStatus.LOC_QP_OP_ERR, "max_rd_atomic is 0: no READ and no atomic may be sent"
        if wqe.data is None:
            problem = wqe.sges.check(Access.LOCAL_WRITE if wqe.answered else Access.NONE)
            if problem:
                return WcStatus.LOC_PROT_ERR, problem
        return WcStatus.SUCCESS, ""

    def _send(self, wqe: SendWqe) -> tuple[IbPacket, str] | None:
        """Send the next packet of a request that has begun."""
        qp = self.qp
        psn = psn_add(wqe.first_psn, wqe.next)
        again = "again " if psn_distance(self.sent_until, psn) < 0 else ""
        if wqe.opcode is SendOpcode.RDMA_READ:
            item = read_request(qp, wqe, again)
            count = wqe.packets - wqe.next
        elif wqe.answered:
            item, count = atomic_request(qp, wqe, again), 1
        else:
            payload, problem = data_payload(wqe, qp.mtu_bytes)
            if problem:
                self._local_error(WcStatus.LOC_PROT_ERR, problem)
                return None
            item, count = data_packet(qp, wqe, payload, again), 1
        wqe.next += count
        self._went_out(item[0].bth, count)
        if qp.service is not Service.RC and wqe.next == wqe.packets:
            loop = qp.host.trace.loop
            left_s = loop.now_s + qp.host.port.timing.duration_s(item[0])
            loop.at(left_s, self._left, wqe, self.generation)
        return item

    def _went_out(self, bth: Bth, count: int = 1) -> None:
        behind = psn_add(bth.psn, count)
        if psn_distance(self.sent_until, behind) > 0:
            self.sent_until = behind
        if not bth.ack_request:
            return
        last = psn_add(behind, -1)
        if self._asked is None or psn_distance(self._asked, last) > 0:
            self._asked = last
        if self._deadline_s is None:
            self._start_timer()

    def _left(self, wqe: SendWqe, generation: int) -> None:
        """End a request of UC or UD: its last bit has left, which is all that it promises."""
        if generation != self.generation or not self.queue or self.queue[0] is not wqe:
            return
        self.queue.popleft()
        self.cursor = max(0, self.cursor - 1)
        self.unacked = psn_add(wqe.last_psn, 1)
        self.qp.complete_send(wqe.request, WcStatus.SUCCESS)
        self.qp.host.port.wake(self)

    # -- answers --------------------------------------------------------------------------------

    def receive(self, packet: IbPacket, opcode: Opcode, index: int) -> None:
        """Take an ACK, a NAK or a response."""
        qp = self.qp
        psn = packet.bth.psn
        if qp.service is not Service.RC or qp.state not in (QpState.RTS, QpState.SQD):
            qp.drop(f"queue pair {qp.number:#x} ({qp.state}) waits for no answer", index)
            return
        old = psn_distance(self.unacked, psn) < 0
        if old or psn_distance(psn, self.sent_until) <= 0:
            qp.note(Part.NIC, f"An answer to PSN {psn} arrives that nothing waits for.", index)
            return
        if opcode is not Opcode.ACKNOWLEDGE:
            self._response(packet, opcode, index)
        elif packet.aeth is None or packet.aeth.kind is None:
            qp.drop("an acknowledgement without a known meaning", index)
        elif packet.aeth.kind is AckSyndrome.ACK:
            qp.note(
                Part.NIC, f"An ACK arrives: everything up to PSN {psn} has been received.", index
            )
            self._acknowledge(psn)
        else:
            self._negative(packet.aeth, psn, index)
        qp.host.port.wake(self)

    def _acknowledge(self, psn: int) -> bool:
        """End what an answer to ``psn`` covers; False where a response before it is missing."""
        while self.queue and self.queue[0].started:
            wqe = self.queue[0]
            if wqe.answered:
                expected = psn_add(wqe.first_psn, wqe.done)
                if psn_distance(expected, psn) >= 0:
                    self._advance(expected)
                    self._missing(expected)
                    return False
                break
            if psn_distance(wqe.last_psn, psn) < 0:
                break
            self._advance(psn_add(wqe.last_psn, 1))
            self._end_first()
        self._advance(psn_add(psn, 1))
        if self.queue and self.queue[0].started:
            first = self.queue[0]
            first.next = max(first.next, self.unacked - first.first_psn & PSN_MASK)
        return True

    def _end_first(self, byte_length: int = 0) -> None:
        wqe = self.queue.popleft()
        self.cursor = max(0, self.cursor - 1)
        if wqe.answered:
            self.outstanding -= 1
        self.qp.complete_send(wqe.request, WcStatus.SUCCESS, byte_length)

    def _advance(self, psn: int) -> None:
        """Move the oldest unanswered number on: progress gives all retries back."""
        if psn_distance(self.unacked, psn) <= 0:
            return
        self.unacked = psn
        self._gap = None
        self.attributes_changed()
        asked = self._asked is not None and psn_distance(psn, self._asked) >= 0
        self._deadline_s = None
        if asked:
            self._start_timer()

    def _response(self, packet: IbPacket, opcode: Opcode, index: int) -> None:
        """Put a READ response or an atomic's answer into local memory."""
        qp = self.qp
        psn = packet.bth.psn
        wqe = next((each for each in self.queue if each.answered and each.started), None)
        if wqe is None:
            qp.drop("a response to no READ or atomic", index)
            return
        expected = psn_add(wqe.first_psn, wqe.done)
        ahead = psn_distance(expected, psn)
        if ahead < 0:
            qp.drop("a response that nothing waits for", index)
            return
        if not self._acknowledge(psn_add(expected, -1)):
            return
        if ahead:
            qp.note(
                Part.NIC, f"A response with PSN {psn} arrives, but {expected} is missing.", index
            )
            self._missing(expected)
            return
        data = self._response_bytes(wqe, packet, opcode)
        if data is None:
            qp.note(Part.NIC, f"{opcode.name} with PSN {psn} does not fit the request.", index)
            self.fail(WcStatus.BAD_RESP_ERR, "The response is not one to this request.")
            return
        status, problem = wqe.sges.scatter(wqe.done * qp.mtu_bytes, data)
        if status:
            self.fail(status, f"The response cannot be written: {problem}.")
            return
        qp.note(
            Part.MEMORY,
            f"{opcode.name} arrives, PSN {psn}: the adapter writes {len(data)} B into its host's "
            "memory.",
            index,
        )
        wqe.done += 1
        self._advance(psn_add(psn, 1))
        if wqe.done == wqe.packets:
            self._end_first(wqe.length)

    def _response_bytes(self, wqe: SendWqe, packet: IbPacket, opcode: Opcode) -> bytes | None:
        """Give the bytes of a response that has the right kind and length, else None."""
        if wqe.opcode in ATOMICS:
            if opcode is not Opcode.ATOMIC_ACKNOWLEDGE or packet.atomic_ack is None:
                return None
            return packet.atomic_ack.original.to_bytes(8, "little")
        mtu = self.qp.mtu_bytes
        last = wqe.done == wqe.packets - 1
        ends = opcode in (Opcode.READ_RESPONSE_LAST, Opcode.READ_RESPONSE_ONLY)
        size = min(mtu, wqe.length - wqe.done * mtu)
        right = opcode is not Opcode.ATOMIC_ACKNOWLEDGE and ends == last
        return packet.payload if right and len(packet.payload) == size else None

    def _missing(self, expected: int) -> None:
        """Ask again for a response that was skipped: once, then the timer sees to it."""
        if self._gap == expected:
            return
        self._gap = expected
        self._retry(f"The response with PSN {expected} was lost")

    def _negative(self, aeth: Aeth, psn: int, index: int) -> None:
        """Take a NAK: it acknowledges what is before its PSN."""
        qp = self.qp
        rnr = aeth.kind is AckSyndrome.RNR_NAK
        if rnr:
            name = f"An RNR NAK (timer {aeth.value}, {rnr_timer_s(aeth.value) * 1e3:g} ms)"
        else:
            name = f"A NAK ({nak_name(aeth.value)})"
        qp.note(Part.NIC, f"{name} for PSN {psn} arrives.", index)
        if not self._acknowledge(psn_add(psn, -1)) or self.unacked != psn or not self.queue:
            return
        if rnr:
            self._not_ready(aeth.value)
        elif aeth.value == NakCode.PSN_SEQUENCE_ERROR:
            self._retry(f"The peer misses PSN {psn}")
        elif aeth.value in set(NakCode):
            code = NakCode(aeth.value)
            self.fail(_NAK_STATUS[code], f"The request has failed: {_NAK_MEANING[code]}.")
        else:
            self.fail(WcStatus.BAD_RESP_ERR, "The NAK code is not known.")

    # -- recovery -------------------------------------------------------------------------------

    def _not_ready(self, code: int) -> None:
        """Wait as an RNR NAK asks, then send again."""
        limit = self.qp.attributes.rnr_retry or 0
        if limit != 7 and self.rnr_left == 0:
            self.fail(
                WcStatus.RNR_RETRY_EXC_ERR,
                f"The peer posted no receive in time: {limit} RNR retries are used up.",
            )
            return
        self.rnr_left -= limit != 7
        self.waiting = True
        self._deadline_s = None
        loop = self.qp.host.trace.loop
        wait_s = rnr_timer_s(code)
        left = "without end" if limit == 7 else f"{self.rnr_left} left"
        self.qp.note(
            Part.NIC,
            f"The peer has no receive posted: the adapter waits {wait_s * 1e3:g} ms and then tries "
            f"again ({left}).",
        )
        loop.at(loop.now_s + wait_s, self._rnr_over, self.generation)

    def _rnr_over(self, generation: int) -> None:
        if generation == self.generation and self.waiting:
            self.waiting = False
            self._go_back()

    def _retry(self, why: str) -> None:
        """Send again from the oldest unanswered packet, if a retry is left."""
        limit = self.qp.attributes.retry_cnt or 0
        if self.retries_left == 0:
            self.fail(WcStatus.RETRY_EXC_ERR, f"{why}; {limit} retries are used up.")
            return
        self.retries_left -= 1
        self.qp.note(
            Part.NIC,
            f"{why}: the adapter goes back to PSN {self.unacked} ({self.retries_left} of {limit} "
            "retries left).",
        )
        self._go_back()

    def _go_back(self) -> None:
        for number, wqe in enumerate(self.queue):
            if not wqe.started:
                break
            wqe.next = (self.unacked - wqe.first_psn & PSN_MASK) if number == 0 else 0
        self.cursor = 0
        self._deadline_s = None
        self.qp.host.port.wake(self)

    def _start_timer(self) -> None:
        timeout_s = ack_timeout_s(self.qp.attributes.timeout or 0)
        if timeout_s is None or self.qp.service is not Service.RC:
            return
        loop = self.qp.host.trace.loop
        self._deadline_s = loop.now_s + timeout_s
        if not self._timer_asked:
            self._timer_asked = True
            loop.at(self._deadline_s, self._timer)

    def _timer(self) -> None:
        """Look at the deadline; it may have moved on since this call was asked for."""
        self._timer_asked = False
        if self._deadline_s is None:
            return
        loop = self.qp.host.trace.loop
        if loop.now_s < self._deadline_s:
            self._timer_asked = True
            loop.at(self._deadline_s, self._timer)
            return
        self._deadline_s = None
        timeout_s = ack_timeout_s(self.qp.attributes.timeout or 0) or 0.0
        self._retry(f"No answer came within {timeout_s * 1e3:.3g} ms")

    def fail(self, status: WcStatus, why: str) -> None:
        """End the oldest request with an error, and with it the queue pair's sending."""
        qp = self.qp
        qp.note(Part.NIC, why)
        wqe = self.queue.popleft()
        self.generation += 1
        qp.complete_send(wqe.request, status)
        if qp.service is Service.RC:
            qp.enter_error(keep_answers=True)
        elif qp.state is not QpState.ERR:
            qp.enter_send_error()
