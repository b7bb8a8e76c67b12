"""A queue pair: its state and attributes, posting to its two queues, and where completions go."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from railweave.transport.packets import IbPacket, Service
from railweave.transport.verbs._completions import CompletionQueue
from railweave.transport.verbs._memory import ProtectionDomain, ScatterList
from railweave.transport.verbs._requester import Requester
from railweave.transport.verbs._responder import Responder
from railweave.transport.verbs._segments import RESPONSES
from railweave.transport.verbs._states import Attr, QpAttributes, check_transition
from railweave.transport.verbs._types import (
    Access,
    Actor,
    Part,
    Phase,
    QpState,
    ReceiveRequest,
    SendOpcode,
    SendRequest,
    Sge,
    VerbsError,
    WcOpcode,
    WcStatus,
    WorkCompletion,
)

if TYPE_CHECKING:
    from railweave.transport.verbs._host import Host

__all__ = ["SUPPORTED", "QpCapabilities", "QueuePair"]

_SENDS = frozenset((SendOpcode.SEND, SendOpcode.SEND_WITH_IMM))
_WRITES = frozenset((SendOpcode.RDMA_WRITE, SendOpcode.RDMA_WRITE_WITH_IMM))
#: operations that each service has (specification, section 9.4)
SUPPORTED: dict[Service, frozenset[SendOpcode]] = {
    Service.RC: frozenset(SendOpcode),
    Service.UC: _SENDS | _WRITES,
    Service.UD: _SENDS,
}
_INLINE = _SENDS | _WRITES | {SendOpcode.SEND_WITH_INV}
_COMPLETES_AS = {
    SendOpcode.SEND: WcOpcode.SEND,
    SendOpcode.SEND_WITH_IMM: WcOpcode.SEND,
    SendOpcode.SEND_WITH_INV: WcOpcode.SEND,
    SendOpcode.RDMA_WRITE: WcOpcode.RDMA_WRITE,
    SendOpcode.RDMA_WRITE_WITH_IMM: WcOpcode.RDMA_WRITE,
    SendOpcode.RDMA_READ: WcOpcode.RDMA_READ,
    SendOpcode.ATOMIC_CMP_AND_SWP: WcOpcode.COMP_SWAP,
    SendOpcode.ATOMIC_FETCH_AND_ADD: WcOpcode.FETCH_ADD,
}


@dataclass(frozen=True, slots=True)
class QpCapabilities:
    """Sizes of a queue pair, and what a user of it may rely on.

    ``signal_all`` completes every send request, whatever its ``signaled`` says. ``ack_every`` is
    after how many packets within a message the adapter asks for an acknowledgement; it always
    asks with the last one.
    """

    max_send_wr: int = 128
    max_recv_wr: int = 128
    max_send_sge: int = 16
    max_recv_sge: int = 16
    max_inline_data: int = 220
    signal_all: bool = False
    ack_every: int = 64


def _with_values(attributes: QpAttributes, given: Attr) -> str:
    """Write the attributes of a change, rights left out, for the trace."""
    texts = []
    for name in ((each.name or "").lower() for each in given):
        if name in ("state", "cur_state", "access_flags"):
            continue
        value = getattr(attributes, name)
        shown = f"{value:#x}" if name in ("dest_qpn", "qkey") else str(value)
        texts.append(f"{name} {'host ' if name == 'av' else ''}{shown}")
    return f" with {', '.join(texts)}" if texts else ""


class QueuePair:
    """A pair of work queues and the state machine around them."""

    def __init__(
        self,
        host: Host,
        service: Service,
        pd: ProtectionDomain,
        send_cq: CompletionQueue,
        recv_cq: CompletionQueue,
        *,
        capabilities: QpCapabilities,
        number: int,
    ) -> None:
        self.host = host
        self.service = service
        self.pd = pd
        self.send_cq = send_cq
        self.recv_cq = recv_cq
        self.capabilities = capabilities
        self.number = number
        self.state = QpState.RESET
        self.attributes = QpAttributes()
        self.requester = Requester(self)
        self.responder = Responder(self)

    # -- what the attributes mean ---------------------------------------------------------------

    @property
    def pkey(self) -> int:
        """The partition it is in."""
        return self.host.pkeys[self.attributes.pkey_index or 0]

    @property
    def mtu_bytes(self) -> int:
        """Longest payload of its packets: the path's MTU, for UD the port's."""
        if self.service is Service.UD:
            return self.host.port_mtu_bytes
        return self.attributes.path_mtu or self.host.port_mtu_bytes

    @property
    def access(self) -> Access:
        """Remote operations that it lets in."""
        return self.attributes.access_flags or Access.NONE

    # -- verbs ----------------------------------------------------------------------------------

    def modify(self, attributes: QpAttributes) -> None:
        """Change state and attributes (``ibv_modify_qp``).

        Raises:
            VerbsError: EINVAL; nothing has changed then.
        """
        new, given = check_transition(self.service, self.state, attributes)
        self._check_values(attributes)
        self.host.trace.note(
            self.host.number,
            Actor.LIBRARY,
            Part.QUEUE_PAIR,
            Phase.CONNECT,
            f"Queue pair {self.number:#x} goes from {self.state} to {new} (ibv_modify_qp"
            f"{_with_values(attributes, given)}).",
        )
        if new is QpState.RESET:
            self._reset()
            return
        changed = {
            each.name: getattr(attributes, each.name)
            for each in fields(attributes)
            if Attr[each.name.upper()] in given and each.name not in ("state", "cur_state")
        }
        self.attributes = replace(self.attributes, **changed)
        self._enter(new, given)

    def _check_values(self, attributes: QpAttributes) -> None:
        if attributes.pkey_index is not None and attributes.pkey_index >= len(self.host.pkeys):
            raise VerbsError(
                f"PKEY_INDEX {attributes.pkey_index}; the table has {len(self.host.pkeys)} entries"
            )
        if attributes.av is not None and attributes.av != 1 - self.host.number:
            raise VerbsError(f"AV {attributes.av}; allowed: {1 - self.host.number}, the other host")
        mtu = attributes.path_mtu
        if mtu is not None and mtu > self.host.port_mtu_bytes:
            raise VerbsError(f"PATH_MTU {mtu} is above the port's {self.host.port_mtu_bytes}")

    def _enter(self, new: QpState, given: Attr) -> None:
        if new is QpState.ERR:
            self.enter_error(keep_answers=False)
            return
        self.state = new
        if Attr.RQ_PSN in given:
            self.responder.expected = self.attributes.rq_psn or 0
        if Attr.SQ_PSN in given:
            self.requester.start_at(self.attributes.sq_psn or 0)
        self.requester.attributes_changed()
        if new in (QpState.RTS, QpState.SQD):
            self.host.port.wake(self.requester, self.host.port.timing.processing_s)

    def _reset(self) -> None:
        self.state = QpState.RESET
        self.attributes = QpAttributes()
        self.requester.reset()
        self.responder.reset()
        self.send_cq.forget(self.number)
        self.recv_cq.forget(self.number)

    def post_send(self, request: SendRequest) -> None:
        """Append to the send queue and ring the doorbell (``ibv_post_send``).

        Raises:
            VerbsError: EINVAL: wrong state, an operation that the service does not have, too many
                elements, not fit for inline; ENOMEM: the queue is full. Faults of keys, bounds and
                lengths are found later by the adapter and end as a completion.
        """
        if self.state in (QpState.RESET, QpState.INIT, QpState.RTR):
            raise VerbsError(
                f"queue pair {self.number:#x} is in {self.state}; sends can be posted from RTS on"
            )
        caps = self.capabilities
        if request.opcode not in SUPPORTED[self.service]:
            raise VerbsError(
                f"{self.service.name} has no {request.opcode}; "
                f"allowed: {', '.join(sorted(SUPPORTED[self.service]))}"
            )
        if len(request.sges) > caps.max_send_sge:
            raise VerbsError(f"{len(request.sges)} elements; allowed: {caps.max_send_sge}")
        if len(self.requester.queue) >= caps.max_send_wr:
            raise VerbsError(f"the send queue holds {caps.max_send_wr} requests", "ENOMEM")
        data = self._inline(request) if request.inline else None
        size = len(data) if data is not None else sum(each.length for each in request.sges)
        copied = " with its data inline" if request.inline else ""
        self.host.trace.note(
            self.host.number,
            Actor.LIBRARY,
            Part.QUEUE_PAIR,
            Phase.POST,
            f"The library writes a work request ({request.opcode}, {size} B) into the send "
            f"queue{copied} and rings the adapter's doorbell (ibv_post_send).",
        )
        self.requester.post(request, data)
        if self.state in (QpState.ERR, QpState.SQE):
            self.requester.flush()

    def _inline(self, request: SendRequest) -> bytes:
        if request.opcode not in _INLINE:
            raise VerbsError(f"{request.opcode} cannot be inline; allowed: SEND and RDMA WRITE")
        size = sum(each.length for each in request.sges)
        if size > self.capabilities.max_inline_data:
            raise VerbsError(f"{size} B inline; allowed: {self.capabilities.max_inline_data}")
        # The processor copies, with no key: that is why inline needs no registered memory.
        return b"".join(self.host.memory.read(each.address, each.length) for each in request.sges)

    def post_recv(self, request: ReceiveRequest) -> None:
        """Append to the receive queue (``ibv_post_recv``).

        Raises:
            VerbsError: EINVAL in RESET or with too many elements; ENOMEM where the queue is full.
        """
        caps = self.capabilities
        if self.state is QpState.RESET:
            raise VerbsError(f"queue pair {self.number:#x} is in RESET; receives need INIT")
        if len(request.sges) > caps.max_recv_sge:
            raise VerbsError(f"{len(request.sges)} elements; allowed: {caps.max_recv_sge}")
        if len(self.responder.queue) >= caps.max_recv_wr:
            raise VerbsError(f"the receive queue holds {caps.max_recv_wr} requests", "ENOMEM")
        size = sum(each.length for each in request.sges)
        self.host.trace.note(
            self.host.number,
            Actor.LIBRARY,
            Part.QUEUE_PAIR,
            Phase.POST,
            f"The library writes a work request for {size} B into the receive queue "
            "(ibv_post_recv).",
        )
        self.responder.queue.append(request)
        if self.state is QpState.ERR:
            self.responder.flush()

    def scatter_list(self, sges: tuple[Sge, ...]) -> ScatterList:
        """Take the elements of a request under this queue pair's protection domain."""
        return ScatterList(self.host.regions, self.pd, sges)

    # -- what the adapter does ------------------------------------------------------------------

    def receive(self, packet: IbPacket, index: int) -> None:
        """Take a packet that arrived for this queue pair."""
        opcode = packet.operation
        if opcode is None or packet.service is not self.service:
            self.drop("its opcode is not of this queue pair's service", index)
        elif opcode in RESPONSES:
            self.requester.receive(packet, opcode, index)
        elif self.state in (QpState.RESET, QpState.INIT, QpState.ERR):
            self.drop(f"queue pair {self.number:#x} is in {self.state} and takes no request", index)
        else:
            self.responder.receive(packet, opcode, index)

    def note(self, part: Part, what: str, index: int | None = None) -> None:
        """Write down a step of the adapter."""
        self.host.trace.adapter(self.host.number, part, what, index)

    def drop(self, why: str, index: int) -> None:
        """Write down that a packet was dropped without an answer."""
        self.note(Part.NIC, f"The adapter drops the packet: {why}.", index)

    def complete_send(self, request: SendRequest, status: WcStatus, byte_length: int = 0) -> None:
        """Report the end of a send request, unless it went well and nobody asked."""
        if not status and not (request.signaled or self.capabilities.signal_all):
            return
        self._push(
            self.send_cq,
            WorkCompletion(
                self.host.number,
                self.host.trace.loop.now_s,
                request.wr_id,
                status,
                _COMPLETES_AS[request.opcode],
                self.number,
                byte_length,
            ),
        )

    def complete_receive(self, completion: WorkCompletion) -> None:
        """Report the end of a receive request."""
        self._push(self.recv_cq, completion)

    def _push(self, queue: CompletionQueue, completion: WorkCompletion) -> None:
        if not queue.full:
            status = completion.status
            self.host.trace.note(
                self.host.number,
                Actor.ADAPTER,
                Part.COMPLETION_QUEUE,
                Phase.COMPLETE,
                f"The adapter writes a completion: {completion.opcode}, wr_id {completion.wr_id}, "
                f"{status.name} ({status.value}).",
            )
        was_overrun = queue.overrun
        if queue.push(completion) or was_overrun:
            return
        self.host.raise_event("IBV_EVENT_CQ_ERR", None, "the completion queue is full and overrun")
        for pair in self.host.queue_pairs.values():
            if queue in (pair.send_cq, pair.recv_cq) and pair.state is not QpState.RESET:
                pair.enter_error(keep_answers=False)

    def enter_error(self, *, keep_answers: bool) -> None:
        """Go to ERR and flush both queues; answers already queued (a NAK) may still leave."""
        if self.state is QpState.ERR:
            return
        self.state = QpState.ERR
        self.note(
            Part.QUEUE_PAIR,
            f"Queue pair {self.number:#x} goes to ERR: what is still posted is flushed.",
        )
        if not keep_answers:
            self.responder.answers.silence()
        self.requester.flush()
        self.responder.flush()

    def sqd_notified(self) -> None:
        """Forget that software asked to be told of the drained send queue: it was."""
        self.attributes = replace(self.attributes, en_sqd_async_notify=None)

    def enter_send_error(self) -> None:
        """Go to SQE (UC and UD) and flush the send queue; receiving goes on."""
        self.state = QpState.SQE
        self.note(
            Part.QUEUE_PAIR,
            f"Queue pair {self.number:#x} goes to SQE: its send queue is flushed, "
            "receiving goes on.",
        )
        self.requester.flush()
