"""What can be run as one operation, with which fault, and in which ranges."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from railweave.errors import InputError
from railweave.transport.packets import MTU_BYTES, Service
from railweave.transport.verbs._segments import packet_count
from railweave.transport.verbs._states import rnr_timer_s

__all__ = [
    "ATOMIC_BYTES",
    "MAX_INLINE_BYTES",
    "MAX_OPERATION_BYTES",
    "MAX_PACKETS",
    "Fault",
    "Operation",
    "OperationCase",
    "applicable_faults",
    "expected_packets",
]

#: an atomic reads and writes this much
ATOMIC_BYTES: Final = 8
#: most that a request of this model carries inline
MAX_INLINE_BYTES: Final = 220
#: longest message that is run as one operation
MAX_OPERATION_BYTES: Final = 64 * 1024**2
#: every packet of a run is kept, so there may not be more
MAX_PACKETS: Final = 150_000
#: a late receive may come after so many RNR waits
_MAX_RNR_WAITS: Final = 200


class Operation(StrEnum):
    """What the initiator asks for."""

    SEND = "send"
    SEND_IMMEDIATE = "send-imm"
    WRITE = "write"
    WRITE_IMMEDIATE = "write-imm"
    READ = "read"
    COMPARE_SWAP = "cas"
    FETCH_ADD = "faa"


class Fault(StrEnum):
    """What goes wrong."""

    NONE = "none"
    BAD_RKEY = "bad-rkey"  #: the request names a remote key that nobody has
    NO_RIGHT = "no-right"  #: the peer's region lacks the right that is needed
    OUT_OF_BOUNDS = "out-of-bounds"  #: the request reaches beyond the peer's region
    LOST_PACKET = "lost-packet"  #: packet ``lost_packet`` of the operation is lost once
    LOST_ACK = "lost-ack"  #: the first acknowledgement is lost
    NO_RECEIVE = "no-receive"  #: the peer has posted no receive
    SHORT_RECEIVE = "short-receive"  #: the posted receive is one byte too small
    WRONG_STATE = "wrong-state"  #: the initiator's queue pair was never taken to RTS
    BAD_LKEY = "bad-lkey"  #: the request names its own memory with a key that nobody has
    WRONG_PD = "wrong-pd"  #: the peer's region is in another protection domain than its queue pair
    DEAD_PEER = "dead-peer"  #: no packet reaches the peer


_SENDS: Final = frozenset((Operation.SEND, Operation.SEND_IMMEDIATE))
_WRITES: Final = frozenset((Operation.WRITE, Operation.WRITE_IMMEDIATE))
_ATOMICS: Final = frozenset((Operation.COMPARE_SWAP, Operation.FETCH_ADD))
_ANSWERED: Final = _ATOMICS | {Operation.READ}
_RECEIVING: Final = _SENDS | {Operation.WRITE_IMMEDIATE}
_SERVED: Final = {
    Service.RC: frozenset(Operation),
    Service.UC: _SENDS | _WRITES,
    Service.UD: _SENDS,
}
_FAULTS: Final[dict[Fault, frozenset[Operation]]] = {
    Fault.BAD_RKEY: _WRITES | _ANSWERED,
    Fault.OUT_OF_BOUNDS: _WRITES | _ANSWERED,
    Fault.LOST_ACK: _SENDS | _WRITES | _ATOMICS,
    Fault.NO_RECEIVE: _RECEIVING,
    Fault.SHORT_RECEIVE: _SENDS,
}


def applicable_faults(operation: Operation, service: Service = Service.RC) -> tuple[Fault, ...]:
    """Give the faults that mean something for an operation: a SEND, say, names no rkey."""
    return tuple(
        fault
        for fault in Fault
        if operation in _FAULTS.get(fault, frozenset(Operation))
        and not (fault is Fault.LOST_ACK and service is not Service.RC)
    )


@dataclass(frozen=True, slots=True)
class OperationCase:
    """What to run. Host 0 initiates, host 1 is the peer.

    Attributes:
        operation: what is asked for.
        size_bytes: length of the message; 8 for atomics.
        mtu_bytes: path MTU (for UD the port's).
        service: RC, UC or UD.
        fault: what goes wrong.
        lost_packet: for LOST_PACKET, which of the packets that carry the operation, from 0: those
            of a SEND or WRITE; of a READ or atomic the request (0) and its answers (1, 2, …).
        retry_count, rnr_retry: retries after a time-out or sequence error, and after an RNR NAK;
            ``rnr_retry`` 7 is without end.
        timeout: code of the local ACK timeout, 4.096 µs · 2^code (14: 67 ms; 0: never).
        min_rnr_timer: code of the wait that the peer asks for in an RNR NAK (12: 0.64 ms).
        inline: the data travels in the work request.
        first_psn: PSNs that the two hosts begin with.
        ack_every: the adapter asks for an ACK after so many packets, and with the last.
        queue_pairs: numbers of the two queue pairs.
        receive_delay_s: for NO_RECEIVE, when the peer posts a receive after all. None is never,
            but with endless RNR retries after two and a half waits, so that the run ends.

    Raises:
        InputError: the service has no such operation, the fault does not apply to it, or a number
            is out of its range.
    """

    operation: Operation
    size_bytes: int
    mtu_bytes: int = 4096
    service: Service = Service.RC
    fault: Fault = Fault.NONE
    lost_packet: int = 0
    retry_count: int = 7
    rnr_retry: int = 7
    timeout: int = 14
    min_rnr_timer: int = 12
    inline: bool = False
    first_psn: tuple[int, int] = (0x00A1B2, 0x00C3D4)
    ack_every: int = 64
    queue_pairs: tuple[int, int] = (0x0000D2, 0x0000D7)
    receive_delay_s: float | None = None

    def __post_init__(self) -> None:
        _check_numbers(self)
        _check_case(self)


def _check_numbers(case: OperationCase) -> None:
    rows: tuple[tuple[str, int, range | tuple[int, ...], str], ...] = (
        ("size_bytes", case.size_bytes, range(MAX_OPERATION_BYTES + 1), "0 B to 64 MiB"),
        ("mtu_bytes", case.mtu_bytes, MTU_BYTES, "256, 512, 1024, 2048 or 4096"),
        ("retry_count", case.retry_count, range(8), "0 to 7"),
        ("rnr_retry", case.rnr_retry, range(8), "0 to 6, or 7 for without end"),
        ("timeout", case.timeout, range(32), "0 (never) to 31"),
        ("min_rnr_timer", case.min_rnr_timer, range(32), "0 to 31"),
        ("first_psn", case.first_psn[0], range(2**24), "24 bits"),
        ("first_psn", case.first_psn[1], range(2**24), "24 bits"),
        ("queue_pairs", case.queue_pairs[0], range(2, 2**24 - 1), "2 to 2^24 - 2"),
        ("queue_pairs", case.queue_pairs[1], range(2, 2**24 - 1), "2 to 2^24 - 2"),
        ("ack_every", case.ack_every, range(1, 2**23), "1 or more"),
    )
    for name, value, allowed, text in rows:
        if value not in allowed:
            raise InputError(f"{name} {value} is out of range; allowed: {text}")
    longest_s = _MAX_RNR_WAITS * rnr_timer_s(case.min_rnr_timer)
    if case.receive_delay_s is not None and not 0 <= case.receive_delay_s <= longest_s:
        raise InputError(
            f"receive_delay_s {case.receive_delay_s} is out of range; allowed: 0 to "
            f"{longest_s:g}, {_MAX_RNR_WAITS} waits of min_rnr_timer {case.min_rnr_timer}"
        )


def _check_case(case: OperationCase) -> None:
    operation, service = case.operation, case.service
    if operation not in _SERVED[service]:
        allowed = ", ".join(each for each in Operation if each in _SERVED[service])
        raise InputError(f"{service.name} has no operation {operation}; allowed: {allowed}")
    if operation in _ATOMICS and case.size_bytes != ATOMIC_BYTES:
        raise InputError(f"{operation} moves 8 B, not {case.size_bytes} B; allowed: a size of 8 B")
    if case.inline and (operation in _ANSWERED or case.size_bytes > MAX_INLINE_BYTES):
        raise InputError(
            f"{operation} of {case.size_bytes} B cannot be inline; allowed: SEND and WRITE up to "
            f"{MAX_INLINE_BYTES} B"
        )
    faults = applicable_faults(operation, service)
    if case.fault not in faults:
        raise InputError(
            f"fault {case.fault} does not apply to {operation} on {service.name}; "
            f"allowed: {', '.join(faults)}"
        )
    count = expected_packets(case)
    if case.fault is Fault.LOST_PACKET and not 0 <= case.lost_packet < count:
        raise InputError(
            f"lost_packet {case.lost_packet}: {operation} of {case.size_bytes} B at an MTU of "
            f"{case.mtu_bytes} B has {count} packets; allowed: 0 to {count - 1}"
        )
    times = {Fault.DEAD_PEER: case.retry_count + 1, Fault.LOST_ACK: 2}.get(case.fault, 1)
    if case.fault is Fault.DEAD_PEER and case.operation is Operation.READ:
        count = 1  # nobody answers the request
    if count * times > MAX_PACKETS:
        raise InputError(
            f"{operation} of {case.size_bytes} B at an MTU of {case.mtu_bytes} B would send "
            f"{count * times} packets; allowed: {MAX_PACKETS}: take a larger MTU, a smaller "
            "message or fewer retries"
        )
    if case.fault is Fault.SHORT_RECEIVE and not case.size_bytes:
        raise InputError("a message of 0 B fits into any receive; allowed: a size of 1 B or more")


def expected_packets(case: OperationCase) -> int:
    """Count the packets that carry an operation where nothing is lost, ACKs left out."""
    if case.operation in _ATOMICS:
        return 2
    parts = packet_count(case.size_bytes, case.mtu_bytes)
    return parts + 1 if case.operation is Operation.READ else parts
