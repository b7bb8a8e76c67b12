"""The words of RDMA verbs: states, rights, work requests, completions and trace events.

Names and numbers are those of libibverbs (``ibv_*`` manual pages) without the prefix, so that what
is read here is found again in a program and in its log.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, IntFlag, StrEnum
from typing import Final

from railweave.errors import InputError
from railweave.transport.packets import NakCode

__all__ = [
    "GRH_BYTES",
    "MAX_MESSAGE_BYTES",
    "Access",
    "Actor",
    "Part",
    "Phase",
    "QpState",
    "ReceiveRequest",
    "SendOpcode",
    "SendRequest",
    "Sge",
    "VerbsError",
    "VerbsEvent",
    "WcOpcode",
    "WcStatus",
    "WorkCompletion",
    "nak_name",
]

#: room for the global route header before a datagram's payload in the receive buffer
GRH_BYTES: Final = 40
#: longest message of the InfiniBand transport
MAX_MESSAGE_BYTES: Final = 2**31


class VerbsError(InputError):
    """A verb refused at the call; ``errno`` is what the library returns ("EINVAL", "ENOMEM")."""

    def __init__(self, message: str, errno: str = "EINVAL") -> None:
        self.errno = errno
        super().__init__(f"{errno}: {message}")


def nak_name(code: int) -> str:
    """Write a NAK code in words."""
    if code not in set(NakCode):
        return f"code {code}"
    return NakCode(code).name.lower().replace("_", " ").replace("psn", "PSN")


class QpState(StrEnum):
    """State of a queue pair."""

    RESET = "RESET"  #: made, nothing set
    INIT = "INIT"  #: receives can be posted
    RTR = "RTR"  #: ready to receive: the adapter answers requests
    RTS = "RTS"  #: ready to send
    SQD = "SQD"  #: send queue drains: what was begun ends, nothing new begins
    SQE = "SQE"  #: send queue in error (UC and UD only); receiving goes on
    ERR = "ERR"  #: everything posted is flushed


class Access(IntFlag):
    """Rights on a memory region, and remote operations that a queue pair lets in."""

    NONE = 0
    LOCAL_WRITE = 1
    REMOTE_WRITE = 2
    REMOTE_READ = 4
    REMOTE_ATOMIC = 8


class WcStatus(IntEnum):
    """Status of a work completion, numbered as ``ibv_wc_status``."""

    SUCCESS = 0
    LOC_LEN_ERR = 1
    LOC_QP_OP_ERR = 2
    LOC_EEC_OP_ERR = 3
    LOC_PROT_ERR = 4
    WR_FLUSH_ERR = 5
    MW_BIND_ERR = 6
    BAD_RESP_ERR = 7
    LOC_ACCESS_ERR = 8
    REM_INV_REQ_ERR = 9
    REM_ACCESS_ERR = 10
    REM_OP_ERR = 11
    RETRY_EXC_ERR = 12
    RNR_RETRY_EXC_ERR = 13
    LOC_RDD_VIOL_ERR = 14
    REM_INV_RD_REQ_ERR = 15
    REM_ABORT_ERR = 16
    INV_EECN_ERR = 17
    INV_EEC_STATE_ERR = 18
    FATAL_ERR = 19
    RESP_TIMEOUT_ERR = 20
    GENERAL_ERR = 21


class WcOpcode(StrEnum):
    """What completed."""

    SEND = "send"
    RDMA_WRITE = "rdma-write"
    RDMA_READ = "rdma-read"
    COMP_SWAP = "comp-swap"
    FETCH_ADD = "fetch-add"
    RECV = "recv"
    RECV_RDMA_WITH_IMM = "recv-rdma-with-imm"


class SendOpcode(StrEnum):
    """Operation of a send work request."""

    SEND = "send"
    SEND_WITH_IMM = "send-with-imm"
    SEND_WITH_INV = "send-with-inv"
    RDMA_WRITE = "rdma-write"
    RDMA_WRITE_WITH_IMM = "rdma-write-with-imm"
    RDMA_READ = "rdma-read"
    ATOMIC_CMP_AND_SWP = "atomic-cmp-and-swp"
    ATOMIC_FETCH_AND_ADD = "atomic-fetch-and-add"


@dataclass(frozen=True, slots=True)
class Sge:
    """Scatter/gather element: ``length`` bytes of local memory at ``address``, under ``lkey``."""

    address: int
    length: int
    lkey: int


@dataclass(frozen=True, slots=True)
class SendRequest:
    """A work request for the send queue.

    ``remote_address`` and ``rkey`` are for RDMA and atomics, ``compare_add`` and ``swap`` for
    atomics, ``immediate`` for the operations that carry one, ``invalidate_rkey`` for send with
    invalidate, ``remote_qpn`` and ``remote_qkey`` for UD. ``fence`` waits for earlier READs and
    atomics. An ``inline`` request is copied when it is posted: its lkeys are not looked at.
    """

    wr_id: int
    opcode: SendOpcode
    sges: tuple[Sge, ...] = ()
    signaled: bool = True
    solicited: bool = False
    fence: bool = False
    inline: bool = False
    immediate: int = 0
    invalidate_rkey: int = 0
    remote_address: int = 0
    rkey: int = 0
    compare_add: int = 0
    swap: int = 0
    remote_qpn: int = 0
    remote_qkey: int = 0


@dataclass(frozen=True, slots=True)
class ReceiveRequest:
    """A work request for the receive queue: where the next message may go."""

    wr_id: int
    sges: tuple[Sge, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkCompletion:
    """An entry of a completion queue; after an error only ``wr_id``, ``status`` and ``qp`` count.

    ``byte_length`` counts what was received (for UD with the 40 bytes of the GRH) or what a READ
    or atomic brought. ``host`` and ``time_s`` say where and when it was written.
    """

    host: int
    time_s: float
    wr_id: int
    status: WcStatus
    opcode: WcOpcode
    qp: int
    byte_length: int = 0
    immediate: int | None = None
    invalidated_rkey: int | None = None
    source_qp: int | None = None
    has_grh: bool = False


class Actor(StrEnum):
    """Who did a step."""

    APPLICATION = "application"
    LIBRARY = "library"  #: verbs library and driver: software on the host's processor
    ADAPTER = "adapter"
    FABRIC = "fabric"


class Part(StrEnum):
    """What a step touches, for a drawing of the two hosts."""

    APPLICATION = "application"
    MEMORY = "memory"
    QUEUE_PAIR = "queue pair"
    COMPLETION_QUEUE = "completion queue"
    NIC = "NIC"
    FABRIC = "fabric"


class Phase(StrEnum):
    """The five steps of an operation."""

    REGISTER = "register"
    CONNECT = "connect"
    POST = "post"
    TRANSPORT = "transport"
    COMPLETE = "complete"


@dataclass(frozen=True, slots=True)
class VerbsEvent:
    """One step of the trace; ``packet`` is the number of the sent packet that it is about."""

    time_s: float
    host: int
    actor: Actor
    part: Part
    phase: Phase
    what: str
    packet: int | None = None
