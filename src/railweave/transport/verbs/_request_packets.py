"""Send requests in their queue, and the packets they turn into."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from railweave.transport.packets import AtomicEth, Bth, Deth, IbPacket, Opcode, Reth, Service
from railweave.transport.verbs._memory import ScatterList
from railweave.transport.verbs._segments import (
    MESSAGE_OPCODES,
    opcode_byte,
    psn_add,
    segment,
)
from railweave.transport.verbs._types import SendOpcode, SendRequest

if TYPE_CHECKING:
    from railweave.transport.verbs._queue_pair import QueuePair

__all__ = ["ATOMICS", "SendWqe", "atomic_request", "data_packet", "data_payload", "read_request"]

ATOMICS: Final = {
    SendOpcode.ATOMIC_CMP_AND_SWP: Opcode.COMPARE_SWAP,
    SendOpcode.ATOMIC_FETCH_AND_ADD: Opcode.FETCH_ADD,
}
_WRITES: Final = (SendOpcode.RDMA_WRITE, SendOpcode.RDMA_WRITE_WITH_IMM)
_IMMEDIATES: Final = (SendOpcode.SEND_WITH_IMM, SendOpcode.RDMA_WRITE_WITH_IMM)


class SendWqe:
    """A send request in the queue, with how far it has come.

    ``next`` is the next packet to send; ``done`` counts the responses of a READ or atomic.
    """

    __slots__ = (
        "answered",
        "data",
        "done",
        "first_psn",
        "length",
        "next",
        "opcode",
        "packets",
        "request",
        "sges",
        "started",
    )

    def __init__(self, request: SendRequest, data: bytes | None, sges: ScatterList) -> None:
        self.request = request
        self.opcode = request.opcode
        self.data = data
        self.sges = sges
        self.length = len(data) if data is not None else sges.length
        #: a READ or atomic, which brings something back
        self.answered = self.opcode is SendOpcode.RDMA_READ or self.opcode in ATOMICS
        self.packets = 1
        self.first_psn = 0
        self.started = False
        self.next = 0
        self.done = 0

    @property
    def last_psn(self) -> int:
        """PSN of its last packet, or of its last response."""
        return psn_add(self.first_psn, self.packets - 1)


def data_payload(wqe: SendWqe, mtu_bytes: int) -> tuple[bytes, str]:
    """Take the part of the message that the next packet carries, or say what is wrong."""
    offset = wqe.next * mtu_bytes
    size = min(mtu_bytes, wqe.length - offset)
    if wqe.data is not None:
        return wqe.data[offset : offset + size], ""
    return wqe.sges.gather(offset, size) if size > 0 else (b"", "")


def data_packet(qp: QueuePair, wqe: SendWqe, payload: bytes, again: str) -> tuple[IbPacket, str]:
    """Build the next packet of a SEND or WRITE."""
    request = wqe.request
    opcode = segment(MESSAGE_OPCODES[wqe.opcode.value], wqe.next, wqe.packets)
    last = wqe.next == wqe.packets - 1
    ask = last or (wqe.next + 1) % max(1, qp.capabilities.ack_every) == 0
    # A WRITE without immediate completes nothing at the peer that could raise an event.
    solicited = request.solicited and last and wqe.opcode is not SendOpcode.RDMA_WRITE
    bth = _bth(qp, wqe, opcode, len(payload), ask, solicited=solicited)
    deth = None
    if qp.service is Service.UD:
        # The highest bit asks for the queue pair's own Q_Key.
        own = request.remote_qkey & 0x8000_0000
        deth = Deth((qp.attributes.qkey or 0) if own else request.remote_qkey, qp.number)
    packet = IbPacket(
        bth,
        deth=deth,
        reth=Reth(request.remote_address, request.rkey, wqe.length)
        if wqe.next == 0 and wqe.opcode in _WRITES
        else None,
        immediate=request.immediate if last and wqe.opcode in _IMMEDIATES else None,
        invalidate_rkey=request.invalidate_rkey
        if last and wqe.opcode is SendOpcode.SEND_WITH_INV
        else None,
        payload=payload,
    )
    what = (
        f"The adapter {again}sends {opcode.name} with {len(payload)} B, PSN {bth.psn}, packet "
        f"{wqe.next + 1} of {wqe.packets}{', asking for an ACK' if bth.ack_request else ''}."
    )
    return packet, what


def _bth(
    qp: QueuePair,
    wqe: SendWqe,
    opcode: Opcode,
    size: int = 0,
    ask: bool = True,
    *,
    solicited: bool = False,
) -> Bth:
    datagram = qp.service is Service.UD
    return Bth(
        opcode_byte(qp.service, opcode),
        wqe.request.remote_qpn if datagram else qp.attributes.dest_qpn or 0,
        psn_add(wqe.first_psn, wqe.next),
        ask and qp.service is Service.RC,
        solicited,
        pad=-size & 3,
        pkey=qp.pkey,
    )


def read_request(qp: QueuePair, wqe: SendWqe, again: str) -> tuple[IbPacket, str]:
    """Ask for all of a READ, or for what of it is still missing."""
    offset = wqe.next * qp.mtu_bytes
    length = wqe.length - offset
    bth = _bth(qp, wqe, Opcode.READ_REQUEST)
    reth = Reth(wqe.request.remote_address + offset, wqe.request.rkey, length)
    responses = wqe.packets - wqe.next
    what = (
        f"The adapter {again}sends READ_REQUEST for {length} B at {reth.va:#x} under rkey "
        f"{reth.rkey:#x}, PSN {bth.psn}; {responses} response{'s' if responses > 1 else ''} "
        "will come."
    )
    return IbPacket(bth, reth=reth), what


def atomic_request(qp: QueuePair, wqe: SendWqe, again: str) -> tuple[IbPacket, str]:
    """Ask for a compare-and-swap or fetch-and-add."""
    request = wqe.request
    opcode = ATOMICS[wqe.opcode]
    bth = _bth(qp, wqe, opcode)
    add = opcode is Opcode.FETCH_ADD
    atomic = AtomicEth(
        request.remote_address,
        request.rkey,
        request.compare_add if add else request.swap,
        0 if add else request.compare_add,
    )
    what = (
        f"The adapter {again}sends {opcode.name} for the 8 B at {atomic.va:#x} under rkey "
        f"{atomic.rkey:#x}, PSN {bth.psn}."
    )
    return IbPacket(bth, atomic=atomic), what
