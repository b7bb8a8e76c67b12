"""The responder: the adapter's half that carries out what the peer asks, or refuses it."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from railweave.transport.packets import AtomicEth, IbPacket, NakCode, Opcode, Reth, Service
from railweave.transport.verbs._answers import AnswerQueue, Refused, Resource, invalid_request
from railweave.transport.verbs._memory import MemoryRegion, ScatterList
from railweave.transport.verbs._segments import (
    SHAPES,
    Shape,
    packet_count,
    psn_add,
    psn_distance,
)
from railweave.transport.verbs._types import (
    GRH_BYTES,
    MAX_MESSAGE_BYTES,
    Access,
    Part,
    QpState,
    ReceiveRequest,
    WcOpcode,
    WcStatus,
    WorkCompletion,
)

if TYPE_CHECKING:
    from railweave.transport.verbs._queue_pair import QueuePair

__all__ = ["Responder"]

_WORD: Final = 2**64


class _Message:
    """A SEND or WRITE of which more packets will come."""

    __slots__ = ("offset", "region", "request", "sges", "total", "va", "write")

    def __init__(self, write: bool) -> None:
        self.write = write
        self.offset = 0
        self.request: ReceiveRequest | None = None
        self.sges: ScatterList | None = None
        self.region: MemoryRegion | None = None
        self.va = 0
        self.total = 0


class Responder:
    """The receive queue of one queue pair and its transport state.

    ``expected`` is the next PSN (ePSN).
    """

    def __init__(self, qp: QueuePair) -> None:
        self.qp = qp
        self.answers = AnswerQueue(qp, self._fatal)
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self.queue: deque[ReceiveRequest] = deque()
        self.expected = 0
        self.answers.silence()
        self.answers.msn = 0
        self._message: _Message | None = None
        self._nak_sent = False
        self._resources: deque[Resource] = deque()

    def flush(self) -> None:
        """End every receive with WR_FLUSH_ERR."""
        message, self._message = self._message, None
        flushed, self.queue = self.queue, deque()
        if message and message.request:
            flushed.appendleft(message.request)
        for request in flushed:
            self._complete(request, WcStatus.WR_FLUSH_ERR)

    # -- requests -------------------------------------------------------------------------------

    def receive(self, packet: IbPacket, opcode: Opcode, index: int) -> None:
        """Take a request packet."""
        service = self.qp.service
        if service is Service.RC:
            self._reliable(packet, opcode, index)
        elif service is Service.UC:
            self._unreliable(packet, opcode, index)
        else:
            self._datagram(packet, opcode, index)

    def _reliable(self, packet: IbPacket, opcode: Opcode, index: int) -> None:
        qp = self.qp
        psn = packet.bth.psn
        ahead = psn_distance(self.expected, psn)
        if ahead > 0:
            text = f"PSN {psn} arrives, but {self.expected} is missing"
            if self._nak_sent:
                qp.drop(f"{text}, and a NAK says so already", index)
                return
            self._nak_sent = True
            qp.drop(text, index)
            self.answers.nak(NakCode.PSN_SEQUENCE_ERROR, self.expected)
            return
        if ahead < 0:
            self._duplicate(packet, opcode, index)
            return
        self._nak_sent = False
        try:
            count = self._carry_out(packet, opcode, index)
        except Refused as refused:
            if refused.nak is None:
                self._not_ready(refused, psn, index)
            else:
                self._fatal(refused, psn, index)
            return
        self.expected = psn_add(psn, count)
        if packet.bth.ack_request and opcode in SHAPES and self.qp.state is not QpState.ERR:
            self.answers.ack(psn)

    def _not_ready(self, refused: Refused, psn: int, index: int) -> None:
        qp = self.qp
        self._nak_sent = True  # what follows is dropped in silence until this one comes again
        qp.drop(refused.why, index)
        self.answers.rnr_nak(qp.attributes.min_rnr_timer or 0, psn)

    def _fatal(self, refused: Refused, psn: int, index: int | None = None) -> None:
        """Refuse for good: NAK, the receive in progress ends in error, and the pair with it."""
        qp = self.qp
        qp.note(Part.NIC, f"The adapter refuses the request: {refused.why}.", index)
        assert refused.nak is not None
        self.answers.nak(refused.nak, psn)
        self._end_in_error(refused)

    def _end_in_error(self, refused: Refused) -> None:
        qp = self.qp
        message, self._message = self._message, None
        if message and message.request:
            self._complete(message.request, refused.status)
        elif not refused.local:
            access = refused.nak is NakCode.REMOTE_ACCESS_ERROR
            qp.host.raise_event(
                "IBV_EVENT_QP_ACCESS_ERR" if access else "IBV_EVENT_QP_REQ_ERR",
                qp.number,
                refused.why,
            )
        qp.enter_error(keep_answers=True)

    def _duplicate(self, packet: IbPacket, opcode: Opcode, index: int) -> None:
        """Answer a request again without carrying it out again."""
        qp = self.qp
        psn = packet.bth.psn
        held = [r for r in self._resources if 0 <= psn_distance(r.psn, psn) < r.packets]
        text = f"PSN {psn} arrives again"
        if opcode in SHAPES:
            qp.drop(f"{text}; it was carried out before, so nothing is written", index)
            # The ACK may stand for what came later, but not for a READ: only its data does that.
            later = [r.psn for r in self._resources if psn_distance(psn, r.psn) > 0]
            first = min(later, key=lambda each: psn_distance(psn, each), default=self.expected)
            self.answers.ack(psn_add(first, -1))
        elif not held:
            qp.drop(f"{text}; no resource is left to answer it from", index)
        elif opcode is Opcode.READ_REQUEST and packet.reth and held[0].reth:
            self._read_again(packet, packet.reth, held[0], index)
        elif packet.atomic and held[0].reth is None:
            qp.note(Part.NIC, f"{text}: the adapter answers with the value it kept.", index)
            self.answers.atomic(psn, held[0].original, fresh=False)
        else:
            qp.drop(f"{text} as another operation", index)

    def _read_again(self, packet: IbPacket, reth: Reth, held: Resource, index: int) -> None:
        qp = self.qp
        psn = packet.bth.psn
        kept = held.reth
        assert kept is not None
        offset = psn_distance(held.psn, psn) * qp.mtu_bytes
        same = (reth.va, reth.rkey, reth.length) == (
            kept.va + offset,
            kept.rkey,
            kept.length - offset,
        )
        if not same:
            qp.drop(f"PSN {psn} arrives again, but asks for other bytes", index)
            return
        qp.note(Part.NIC, f"PSN {psn} arrives again: the adapter reads and answers again.", index)
        self.answers.read(psn, reth, held, fresh=False)

    def _carry_out(self, packet: IbPacket, opcode: Opcode, index: int) -> int:
        """Do what a request in order asks; gives how many PSNs it takes. Raises Refused."""
        shape = SHAPES.get(opcode)
        if shape is not None:
            self._data(packet, shape, opcode, index)
            return 1
        if self._message is not None:
            raise invalid_request(f"{opcode.name} comes in the middle of a message")
        if opcode is Opcode.READ_REQUEST and packet.reth:
            return self._read(packet.bth.psn, packet.reth, index)
        if packet.atomic and opcode in (Opcode.COMPARE_SWAP, Opcode.FETCH_ADD):
            self._atomic(packet.bth.psn, packet.atomic, opcode, index)
            return 1
        raise invalid_request(f"{opcode.name} lacks its header")

    # -- SEND and WRITE -------------------------------------------------------------------------

    def _data(self, packet: IbPacket, shape: Shape, opcode: Opcode, index: int) -> None:
        size = len(packet.payload)
        message = self._begin(packet, shape) if shape.starts else self._message
        if message is None or message.write != shape.write:
            raise invalid_request(f"{opcode.name} comes without the beginning of its message")
        mtu = self.qp.mtu_bytes
        if (size > mtu or (size == 0 and not shape.starts)) if shape.ends else size != mtu:
            raise invalid_request(f"{opcode.name} has {size} B at an MTU of {mtu} B")
        if message.write:
            self._check_write(message, packet, shape, size)
            if size:
                self.qp.host.memory.write(message.va + message.offset, packet.payload)
        else:
            self._scatter(message, packet, shape)
        self._message = None if shape.ends else message
        message.offset += size
        goal = "the peer named" if message.write else "of the posted receive"
        self.qp.note(
            Part.MEMORY,
            f"{opcode.name} arrives, PSN {packet.bth.psn}: the adapter writes {size} B into the "
            f"memory {goal}; its host's processor does nothing.",
            index,
        )
        if shape.ends:
            self._end(message, packet, shape)

    def _begin(self, packet: IbPacket, shape: Shape) -> _Message:
        if self._message is not None:
            raise invalid_request("a message begins before the last one has ended")
        message = _Message(shape.write)
        if not shape.write:
            return message
        reth = packet.reth
        if reth is None:
            raise invalid_request("a WRITE lacks its RETH")
        if Access.REMOTE_WRITE not in self.qp.access:
            raise invalid_request("RDMA WRITE is not enabled on this queue pair")
        if reth.length > MAX_MESSAGE_BYTES:
            raise invalid_request(f"{reth.length} B are longer than a message may be")
        message.va, message.total = reth.va, reth.length
        if reth.length:
            message.region = self._reach(reth, Access.REMOTE_WRITE)
        return message

    def _reach(self, reth: Reth, access: Access) -> MemoryRegion:
        qp = self.qp
        region, problem = qp.host.regions.remote(qp.pd, reth.rkey, reth.va, reth.length, access)
        if region is None:
            raise Refused(NakCode.REMOTE_ACCESS_ERROR, WcStatus.REM_ACCESS_ERR, problem)
        return region

    def _check_write(self, message: _Message, packet: IbPacket, shape: Shape, size: int) -> None:
        end = message.offset + size
        if end > message.total or (shape.ends and end != message.total):
            raise invalid_request(f"{end} B came of a WRITE announced with {message.total} B")
        region = message.region
        if region is not None and not region.valid:
            raise Refused(
                NakCode.REMOTE_ACCESS_ERROR,
                WcStatus.REM_ACCESS_ERR,
                f"rkey {region.rkey:#x} names no region any more",
            )
        if shape.immediate:
            message.request = self._take_receive("an RDMA WRITE with immediate")

    def _take_receive(self, what: str) -> ReceiveRequest:
        if not self.queue:
            raise Refused(
                None, WcStatus.SUCCESS, f"{what} needs a posted receive, and there is none"
            )
        return self.queue.popleft()

    def _scatter(self, message: _Message, packet: IbPacket, shape: Shape) -> None:
        if message.request is None:
            message.request = self._take_receive("a SEND")
            message.sges = self.qp.scatter_list(message.request.sges)
        self._message = message  # a refusal from here on ends this receive
        assert message.sges is not None
        self._put(message.sges, message.offset, packet.payload)

    def _put(self, sges: ScatterList, offset: int, data: bytes) -> None:
        status, problem = sges.scatter(offset, data)
        if status is WcStatus.LOC_LEN_ERR:
            raise Refused(NakCode.INVALID_REQUEST, status, problem, local=True)
        if status:
            raise Refused(NakCode.REMOTE_OPERATIONAL_ERROR, status, problem, local=True)

    def _end(self, message: _Message, packet: IbPacket, shape: Shape) -> None:
        self.answers.count_message()
        request = message.request
        if request is None:
            return
        invalidated = packet.invalidate_rkey if shape.invalidates else None
        if invalidated is not None and not self._invalidate(invalidated):
            self._message = message
            # The data is in place and the packet in order: the peer learns of it by silence.
            self._end_in_error(invalid_request(f"rkey {invalidated:#x} cannot be invalidated"))
            return
        self._complete(
            request,
            WcStatus.SUCCESS,
            WcOpcode.RECV_RDMA_WITH_IMM if message.write else WcOpcode.RECV,
            size=message.offset,
            packet=packet,
            invalidated=invalidated,
        )

    def _invalidate(self, rkey: int) -> bool:
        region = self.qp.host.regions.by_rkey.get(rkey)
        if region is None or not region.valid or region.pd != self.qp.pd:
            return False
        region.valid = False
        self.qp.note(
            Part.MEMORY, f"The adapter invalidates rkey {rkey:#x}: it names no memory any more."
        )
        return True

    def _complete(
        self,
        request: ReceiveRequest,
        status: WcStatus,
        opcode: WcOpcode = WcOpcode.RECV,
        *,
        size: int = 0,
        packet: IbPacket | None = None,
        invalidated: int | None = None,
    ) -> None:
        qp = self.qp
        deth = packet.deth if packet else None
        qp.complete_receive(
            WorkCompletion(
                qp.host.number,
                qp.host.trace.loop.now_s,
                request.wr_id,
                status,
                opcode,
                qp.number,
                size,
                packet.immediate if packet else None,
                invalidated,
                deth.source_qp if deth else None,
                deth is not None,
            )
        )

    # -- READ and atomics -----------------------------------------------------------------------

    def _hold(self, resource: Resource) -> None:
        """Keep a READ or atomic for a repetition; refuse where too many are being answered."""
        limit = self.qp.attributes.max_dest_rd_atomic or 0
        if self.answers.active >= limit:
            raise invalid_request(
                f"more READs and atomics at once than the {limit} that max_dest_rd_atomic allows"
            )
        self.answers.active += 1
        self._resources.append(resource)
        while len(self._resources) > limit:
            self._resources.popleft()

    def _read(self, psn: int, reth: Reth, index: int) -> int:
        qp = self.qp
        if Access.REMOTE_READ not in qp.access:
            raise invalid_request("RDMA READ is not enabled on this queue pair")
        if reth.length > MAX_MESSAGE_BYTES:
            raise invalid_request(f"{reth.length} B are longer than a message may be")
        if reth.length:
            self._reach(reth, Access.REMOTE_READ)
        count = packet_count(reth.length, qp.mtu_bytes)
        resource = Resource(psn, count, reth)
        self._hold(resource)
        self.answers.count_message()
        qp.note(
            Part.NIC,
            f"READ_REQUEST arrives, PSN {psn}: rkey, bounds and right are in order, the adapter "
            f"will answer with {count} packet{'s' if count > 1 else ''}.",
            index,
        )
        self.answers.read(psn, reth, resource, fresh=True)
        return count

    def _atomic(self, psn: int, atomic: AtomicEth, opcode: Opcode, index: int) -> None:
        qp = self.qp
        if Access.REMOTE_ATOMIC not in qp.access:
            raise invalid_request("atomics are not enabled on this queue pair")
        if atomic.va % 8:
            raise invalid_request(f"{atomic.va:#x} is not a multiple of 8")
        self._reach(Reth(atomic.va, atomic.rkey, 8), Access.REMOTE_ATOMIC)
        resource = Resource(psn, 1)
        self._hold(resource)
        memory = qp.host.memory
        original = int.from_bytes(memory.read(atomic.va, 8), "little")
        resource.original = original
        if opcode is Opcode.FETCH_ADD:
            new = (original + atomic.swap) % _WORD
            text = f"adds {atomic.swap} to {original}"
        elif original == atomic.compare:
            new = atomic.swap
            text = f"finds {original} as compared and swaps in {new}"
        else:
            new = original
            text = f"finds {original}, not {atomic.compare}, and changes nothing"
        memory.write(atomic.va, new.to_bytes(8, "little"))
        self.answers.count_message()
        qp.note(
            Part.MEMORY,
            f"{opcode.name} arrives, PSN {psn}: the adapter {text}, in one step.",
            index,
        )
        self.answers.atomic(psn, original, fresh=True)

    # -- services without acknowledgements ------------------------------------------------------

    def _unreliable(self, packet: IbPacket, opcode: Opcode, index: int) -> None:
        """Take a UC packet: a gap loses the message it is in, and nobody is told."""
        qp = self.qp
        psn = packet.bth.psn
        if psn != self.expected and self._message is not None:
            self._abandon()
            qp.note(
                Part.NIC,
                f"PSN {psn} arrives, {self.expected} is missing: the message in progress is lost.",
                index,
            )
        self.expected = psn_add(psn, 1)
        shape = SHAPES.get(opcode)
        if shape is None or shape.invalidates:
            qp.drop(f"UC has no {opcode.name}", index)
            return
        if shape.starts and self._message is not None:
            self._abandon()
        try:
            self._data(packet, shape, opcode, index)
        except Refused as refused:
            qp.drop(refused.why, index)
            if refused.local:
                self._end_in_error(refused)
            else:
                self._abandon()

    def _abandon(self) -> None:
        """Give up the message in progress; its receive request serves the next one."""
        message, self._message = self._message, None
        if message and message.request:
            self.queue.appendleft(message.request)

    def _datagram(self, packet: IbPacket, opcode: Opcode, index: int) -> None:
        qp = self.qp
        shape = SHAPES.get(opcode)
        deth = packet.deth
        size = len(packet.payload)
        if opcode not in (Opcode.SEND_ONLY, Opcode.SEND_ONLY_IMMEDIATE) or shape is None:
            qp.drop(f"UD has no {opcode.name}", index)
        elif deth is None or deth.qkey != (qp.attributes.qkey or 0):
            qp.drop("its Q_Key is not the queue pair's", index)
        elif size > qp.mtu_bytes:
            qp.drop(f"{size} B are more than the port's {qp.mtu_bytes} B", index)
        elif not self.queue:
            qp.drop("no receive is posted, and UD tells nobody", index)
        else:
            self._take_datagram(packet, shape, index)

    def _take_datagram(self, packet: IbPacket, shape: Shape, index: int) -> None:
        """Write the 40 bytes of the GRH and the payload into the next receive."""
        qp = self.qp
        message = _Message(write=False)
        message.request = self.queue.popleft()
        data = qp.host.route_header(packet) + packet.payload
        self._message = message
        try:
            self._put(qp.scatter_list(message.request.sges), 0, data)
        except Refused as refused:
            qp.drop(refused.why, index)
            self._end_in_error(refused)
            return
        self._message = None
        message.offset = len(data)
        qp.note(
            Part.MEMORY,
            f"A datagram arrives: the adapter writes {GRH_BYTES} B of route header and "
            f"{len(packet.payload)} B of payload into the posted receive.",
            index,
        )
        self._end(message, packet, shape)
