"""One RDMA operation between two hosts, from registration to completion, with a fault if wanted.

:func:`run_operation` sets two hosts up (register, connect), posts the operation, lets the packets
run over a wire, and gives back every step, every packet, the completions of both sides and the
memory before and after. It is what the packet journey, the command line and lab 4 show.
"""

from __future__ import annotations

from dataclasses import dataclass

from railweave.transport.packets import CNP_OPCODE, Opcode
from railweave.transport.verbs import (
    Actor,
    AdapterTiming,
    Arrival,
    DirectWire,
    Part,
    Phase,
    SentPacket,
    VerbsEvent,
    WcStatus,
    Wire,
    WorkCompletion,
)
from railweave.transport.verbs._operation_case import (
    ATOMIC_BYTES,
    MAX_INLINE_BYTES,
    MAX_OPERATION_BYTES,
    MAX_PACKETS,
    Fault,
    Operation,
    OperationCase,
    applicable_faults,
    expected_packets,
)
from railweave.transport.verbs._operation_run import FaultyWire, Stage
from railweave.transport.verbs._segments import RESPONSES, packet_count, psn_add

__all__ = [
    "ATOMIC_BYTES",
    "MAX_INLINE_BYTES",
    "MAX_OPERATION_BYTES",
    "MAX_PACKETS",
    "Actor",
    "Arrival",
    "Fault",
    "Operation",
    "OperationCase",
    "OperationRun",
    "Part",
    "Phase",
    "SentPacket",
    "VerbsEvent",
    "Wire",
    "WorkCompletion",
    "applicable_faults",
    "expected_packets",
    "run_operation",
]


@dataclass(frozen=True, slots=True)
class OperationRun:
    """What happened.

    Attributes:
        case: what was asked for.
        events: every step, in the order of time.
        completions: what both applications found in their completion queues.
        sent: every packet that left a host, lost ones too.
        before, after: the buffers of host 0 and host 1 (for UD the peer's begins with the 40 bytes
            of the GRH).
        intact: no byte of either host outside these buffers has changed.
    """

    case: OperationCase
    events: tuple[VerbsEvent, ...]
    completions: tuple[WorkCompletion, ...]
    sent: tuple[SentPacket, ...]
    before: tuple[bytes, bytes]
    after: tuple[bytes, bytes]
    intact: bool

    def status(self, host: int) -> WcStatus | None:
        """Give the status of a host's first completion, None where it had none."""
        return next((each.status for each in self.completions if each.host == host), None)

    @property
    def repeated(self) -> tuple[bool, ...]:
        """Which of ``sent`` are requests for something that the same host had sent or asked for.

        A READ takes the PSNs of all its responses, so what asks for the rest of it is a repeat.
        """
        seen: set[tuple[int, int]] = set()
        again = []
        for each in self.sent:
            bth, reth = each.packet.bth, each.packet.reth
            if each.packet.operation in RESPONSES or bth.opcode == CNP_OPCODE:
                again.append(False)
                continue
            again.append((each.source, bth.psn) in seen)
            read = reth is not None and each.packet.operation is Opcode.READ_REQUEST
            count = packet_count(reth.length, self.case.mtu_bytes) if read and reth else 1
            seen.update((each.source, psn_add(bth.psn, k)) for k in range(count))
        return tuple(again)

    @property
    def retransmitted(self) -> int:
        """How many packets are ``repeated``; answers are left out."""
        return sum(self.repeated)

    @property
    def end_s(self) -> float:
        """Time of the last step, seconds."""
        return self.events[-1].time_s


def run_operation(
    case: OperationCase, wire: Wire | None = None, *, timing: AdapterTiming | None = None
) -> OperationRun:
    """Run an operation from registration to completion.

    Args:
        case: what to run.
        wire: what is between the hosts; a cable of 1 µs where none is given.
        timing: speed of the adapters; 400 Gb/s where none is given.
    """
    timing = timing or AdapterTiming()
    stage = Stage(case, FaultyWire(case, wire or DirectWire(timing=timing)), timing)
    stage.register()
    stage.connect()
    before = stage.buffers()
    untouched = stage.surroundings()
    stage.post()
    stage.network.run()
    return OperationRun(
        case=case,
        events=tuple(stage.network.events),
        completions=tuple(stage.completions),
        sent=tuple(stage.network.sent),
        before=before,
        after=stage.buffers(),
        intact=untouched == stage.surroundings(),
    )
