"""The stage on which one operation is played: what the two applications do, step by step."""

from __future__ import annotations

from typing import Final

from railweave.transport.packets import IbPacket, Opcode, Service
from railweave.transport.verbs import (
    GRH_BYTES,
    Access,
    Actor,
    AdapterTiming,
    Arrival,
    Buffer,
    CompletionQueue,
    MemoryRegion,
    Network,
    Part,
    Phase,
    ProtectionDomain,
    QpCapabilities,
    QpState,
    ReceiveRequest,
    SendOpcode,
    SendRequest,
    Sge,
    VerbsError,
    Wire,
    WorkCompletion,
    rnr_timer_s,
)
from railweave.transport.verbs._connect import Connection, attributes_to
from railweave.transport.verbs._operation_case import (
    MAX_INLINE_BYTES,
    Fault,
    Operation,
    OperationCase,
)
from railweave.transport.verbs._segments import READ_RESPONSES

__all__ = ["ATOMIC_BEFORE", "FaultyWire", "Stage"]

_OPCODES: Final = {
    Operation.SEND: SendOpcode.SEND,
    Operation.SEND_IMMEDIATE: SendOpcode.SEND_WITH_IMM,
    Operation.WRITE: SendOpcode.RDMA_WRITE,
    Operation.WRITE_IMMEDIATE: SendOpcode.RDMA_WRITE_WITH_IMM,
    Operation.READ: SendOpcode.RDMA_READ,
    Operation.COMPARE_SWAP: SendOpcode.ATOMIC_CMP_AND_SWP,
    Operation.FETCH_ADD: SendOpcode.ATOMIC_FETCH_AND_ADD,
}
_SENDS: Final = (Operation.SEND, Operation.SEND_IMMEDIATE)
_RECEIVING: Final = (*_SENDS, Operation.WRITE_IMMEDIATE)
_RIGHTS: Final = {
    Operation.WRITE: Access.REMOTE_WRITE,
    Operation.WRITE_IMMEDIATE: Access.REMOTE_WRITE,
    Operation.READ: Access.REMOTE_READ,
    Operation.COMPARE_SWAP: Access.REMOTE_ATOMIC,
    Operation.FETCH_ADD: Access.REMOTE_ATOMIC,
}
#: what the peer's 8 bytes hold before an atomic; compare-and-swap compares with it
ATOMIC_BEFORE: Final = 41
_ATOMIC_SWAP: Final = 42
_ATOMIC_ADD: Final = 1
_IMMEDIATE: Final = 0x1234_5678
_QKEY: Final = 0x1111_1111
_SEND_ID, _RECEIVE_ID = 1, 2
#: how far OUT_OF_BOUNDS is off; a multiple of 8, so that an atomic comes as far as the bounds
_SHIFT: Final = 8
_NOBODYS_KEY: Final = 0x00BA_D000


def _pattern(size: int) -> bytes:
    """Bytes in which a shift or a swap of packets shows: no packet's length is a period."""
    period = bytes(range(251))
    return (period * (size // 251 + 1))[:size]


class FaultyWire:
    """A wire that loses what a case says, and hands everything to the wire below.

    The wire below is asked for lost packets too, so that it has seen every packet that was sent.
    """

    __slots__ = ("_below", "_case", "_count")

    def __init__(self, case: OperationCase, below: Wire) -> None:
        self._case = case
        self._below = below
        self._count = 0

    def carry(self, packet: IbPacket, source: int, now_s: float) -> Arrival | None:
        """Carry or lose a packet."""
        arrival = self._below.carry(packet, source, now_s)
        return None if self._loses(packet, source) else arrival

    def _loses(self, packet: IbPacket, source: int) -> bool:
        fault = self._case.fault
        if fault is Fault.DEAD_PEER:
            return True
        opcode = packet.operation
        if fault is Fault.LOST_PACKET:
            answers = (*READ_RESPONSES, Opcode.ATOMIC_ACKNOWLEDGE)
            counts = opcode in answers if source else opcode is not None
            return counts and self._number() == self._case.lost_packet
        if fault is Fault.LOST_ACK:
            acks = (Opcode.ACKNOWLEDGE, Opcode.ATOMIC_ACKNOWLEDGE)
            return source == 1 and opcode in acks and self._number() == 0
        return False

    def _number(self) -> int:
        self._count += 1
        return self._count - 1


class Stage:
    """Two hosts made ready for a case."""

    def __init__(self, case: OperationCase, wire: Wire, timing: AdapterTiming) -> None:
        self.case = case
        datagram = case.service is Service.UD
        self.network = Network(
            wire, timing=timing, port_mtu_bytes=case.mtu_bytes if datagram else 4096
        )
        self.completions: list[WorkCompletion] = []
        self._header = GRH_BYTES if datagram else 0
        self._buffers: list[Buffer] = []
        self._regions: list[MemoryRegion] = []
        self._domains: list[ProtectionDomain] = []

    def _say(self, host: int, part: Part, phase: Phase, what: str) -> None:
        self.network.trace.note(host, Actor.APPLICATION, part, phase, what)

    # -- register -------------------------------------------------------------------------------

    def register(self) -> None:
        """Allocate, fill and register a buffer on both hosts."""
        case = self.case
        for host in self.network.hosts:
            number = host.number
            size = max(1, case.size_bytes) + (self._header if number else 0)
            buffer = host.allocate(size)
            holds = self._fill(number, buffer)
            self._say(
                number,
                Part.MEMORY,
                Phase.REGISTER,
                f"The application allocates {size} B at {buffer.address:#x}{holds}.",
            )
            domain = host.alloc_pd()
            registered = domain
            if number and case.fault is Fault.WRONG_PD:
                registered = host.alloc_pd()
            self._domains.append(domain)
            self._buffers.append(buffer)
            self._regions.append(host.reg_mr(registered, buffer, self._rights(number)))

    def _fill(self, host: int, buffer: Buffer) -> str:
        operation = self.case.operation
        memory = self.network.hosts[host].memory
        if operation in (Operation.COMPARE_SWAP, Operation.FETCH_ADD):
            if not host:
                return " for the answer"
            memory.write(buffer.address, ATOMIC_BEFORE.to_bytes(8, "little"))
            return f" and puts the number {ATOMIC_BEFORE} there"
        if (operation is Operation.READ) != bool(host):
            return " for what will come"
        memory.write(buffer.address, _pattern(self.case.size_bytes))
        return " and fills them with data"

    def _rights(self, host: int) -> Access:
        operation = self.case.operation
        if not host:
            answered = operation in _RIGHTS and Access.REMOTE_WRITE not in _RIGHTS[operation]
            return Access.LOCAL_WRITE if answered else Access.NONE
        if self.case.fault is Fault.NO_RIGHT:
            return Access.NONE if operation in _SENDS else Access.LOCAL_WRITE
        return Access.LOCAL_WRITE | _RIGHTS.get(operation, Access.NONE)

    # -- connect --------------------------------------------------------------------------------

    def connect(self) -> None:
        """Make queues and take both queue pairs to RTS."""
        case = self.case
        self._queues = [host.create_cq(16) for host in self.network.hosts]
        for queue in self._queues:
            queue.listener = self._poll
        caps = QpCapabilities(max_inline_data=MAX_INLINE_BYTES, ack_every=case.ack_every)
        self._pairs = [
            host.create_qp(case.service, domain, queue, capabilities=caps, number=number)
            for host, domain, queue, number in zip(
                self.network.hosts, self._domains, self._queues, case.queue_pairs, strict=True
            )
        ]
        self._exchange()
        values = Connection(
            mtu_bytes=case.mtu_bytes,
            first_psn=case.first_psn,
            qkey=_QKEY,
            timeout=case.timeout,
            retry_cnt=case.retry_count,
            rnr_retry=case.rnr_retry,
            min_rnr_timer=case.min_rnr_timer,
        )
        for state in (QpState.INIT, QpState.RTR, QpState.RTS):
            for pair, peer in (self._pairs, self._pairs[::-1]):
                host = pair.host.number
                if state is QpState.RTS and not host and case.fault is Fault.WRONG_STATE:
                    self._say(
                        0,
                        Part.QUEUE_PAIR,
                        Phase.CONNECT,
                        "The application forgets the step to RTS: its queue pair stays in RTR.",
                    )
                    continue
                pair.modify(attributes_to(state, case.service, host, peer.number, values))

    def _exchange(self) -> None:
        case = self.case
        region = self._regions[1]
        for host in (0, 1):
            tells = f"its queue pair number {case.queue_pairs[host]:#x}"
            if case.service is Service.UD:
                tells += f" and Q_Key {_QKEY:#x}"
            else:
                tells += f" and first PSN {case.first_psn[host]}"
            if host and case.operation in _RIGHTS:
                tells += f", and address {region.address:#x} with rkey {region.rkey:#x}"
            self._say(
                host,
                Part.APPLICATION,
                Phase.CONNECT,
                f"The application tells its peer, over TCP or a connection manager, {tells}.",
            )

    def _poll(self, queue: CompletionQueue) -> None:
        for completion in queue.poll(16):
            self.completions.append(completion)
            status = completion.status
            text = "no data may be trusted" if status else "all is well"
            if not status and completion.byte_length:
                text = f"{completion.byte_length} B have come"
            if completion.immediate is not None:
                text += f", immediate {completion.immediate:#x}"
            self._say(
                queue.host,
                Part.COMPLETION_QUEUE,
                Phase.COMPLETE,
                f"The application polls its completion queue (ibv_poll_cq) and finds wr_id "
                f"{completion.wr_id}, {completion.opcode}: {status.name} ({status.value}), {text}.",
            )

    # -- post -----------------------------------------------------------------------------------

    def post(self) -> None:
        """Post what the case needs: a receive at the peer, then the operation."""
        case = self.case
        if case.operation in _RECEIVING:
            if case.fault is Fault.NO_RECEIVE:
                self._post_late()
            else:
                self._post_receive()
        self._say(0, Part.APPLICATION, Phase.POST, self._wish())
        try:
            self._pairs[0].post_send(self._request())
        except VerbsError as error:
            self._say(
                0,
                Part.APPLICATION,
                Phase.POST,
                f"ibv_post_send fails at once, so no completion will come: {error}.",
            )

    def _wish(self) -> str:
        """Say what the application asks for, with the fault it makes."""
        case = self.case
        operation, size = case.operation, case.size_bytes
        own, peer = f"its {size} B at {self._buffers[0].address:#x}", self._regions[1]
        where = f"{peer.address:#x} of its peer"
        if case.fault is Fault.OUT_OF_BOUNDS:
            where = f"{peer.address + _SHIFT:#x} of its peer, {_SHIFT} B too far"
        elif case.fault is Fault.BAD_RKEY:
            where += ", under a key that is not the peer's"
        text = {
            Operation.SEND: f"to send {own}",
            Operation.SEND_IMMEDIATE: f"to send {own} and an immediate value",
            Operation.WRITE: f"to write {own} to {where}",
            Operation.WRITE_IMMEDIATE: f"to write {own} to {where}, with an immediate value",
            Operation.READ: f"to read {size} B from {where} into its memory",
            Operation.COMPARE_SWAP: f"to put {_ATOMIC_SWAP} in place of {ATOMIC_BEFORE} at {where}",
            Operation.FETCH_ADD: f"to add {_ATOMIC_ADD} at {where}",
        }[operation]
        if case.fault is Fault.BAD_LKEY:
            text += ", and names its own memory by a wrong lkey"
        return f"The application asks its adapter {text}."

    def _post_late(self) -> None:
        case = self.case
        delay_s = case.receive_delay_s
        if delay_s is None and case.service is Service.RC and case.rnr_retry == 7:
            delay_s = 2.5 * rnr_timer_s(case.min_rnr_timer)
        when = "never" if delay_s is None else f"only after {delay_s * 1e3:.4g} ms"
        self._say(
            1, Part.APPLICATION, Phase.POST, f"The peer's application posts a receive {when}."
        )
        if delay_s is not None:
            loop = self.network.loop
            loop.at(loop.now_s + delay_s, self._post_receive)

    def _post_receive(self) -> None:
        size = self.case.size_bytes + self._header
        if self.case.fault is Fault.SHORT_RECEIVE:
            size -= 1
        self._pairs[1].post_recv(
            ReceiveRequest(_RECEIVE_ID, (self._regions[1].sge(0, size),) if size else ())
        )

    def _request(self) -> SendRequest:
        case = self.case
        region = self._regions[1]
        own = self._regions[0].sge(0, case.size_bytes)
        if case.fault is Fault.BAD_LKEY:
            own = Sge(own.address, own.length, _NOBODYS_KEY)
        address = region.address
        if case.fault is Fault.OUT_OF_BOUNDS:
            address += _SHIFT
        cas = case.operation is Operation.COMPARE_SWAP
        datagram = case.service is Service.UD
        named = case.operation in _RIGHTS
        return SendRequest(
            _SEND_ID,
            _OPCODES[case.operation],
            (own,) if own.length else (),
            inline=case.inline,
            immediate=_IMMEDIATE,
            remote_address=address if named else 0,
            rkey=(_NOBODYS_KEY if case.fault is Fault.BAD_RKEY else region.rkey) if named else 0,
            compare_add=ATOMIC_BEFORE if cas else _ATOMIC_ADD,
            swap=_ATOMIC_SWAP,
            remote_qpn=case.queue_pairs[1] if datagram else 0,
            remote_qkey=_QKEY if datagram else 0,
        )

    # -- memory ---------------------------------------------------------------------------------

    def buffers(self) -> tuple[bytes, bytes]:
        """Copy the two buffers."""
        one, two = (
            host.memory.read(buffer.address, buffer.length)
            for host, buffer in zip(self.network.hosts, self._buffers, strict=True)
        )
        return one, two

    def surroundings(self) -> tuple[bytes, ...]:
        """Copy all memory of both hosts but the two buffers."""
        parts: list[bytes] = []
        for host, buffer in zip(self.network.hosts, self._buffers, strict=True):
            memory = host.memory
            behind = buffer.address + buffer.length
            parts.append(memory.read(memory.base, buffer.address - memory.base))
            parts.append(memory.read(behind, memory.base + len(memory) - behind))
        return tuple(parts)
