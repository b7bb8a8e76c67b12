"""Lab 4 in words: the names of its choices, what a run says, and how to make it elsewhere."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from typing import Final

from railweave.studio.lab import Number, Reproduce
from railweave.studio.labs._rdma import (
    Network,
    PlaneName,
    Played,
    ServiceName,
    State,
    Where,
    ends_of,
    operation_case,
    services_of,
)
from railweave.transport.codec.headers import opcode_name
from railweave.transport.packets import MTU_BYTES, Service
from railweave.transport.verbs import RNR_TIMER_MS, WcStatus, ack_timeout_s
from railweave.transport.verbs.operation import Fault, Operation, OperationCase, applicable_faults
from railweave.units import format_bytes, format_seconds

__all__ = [
    "DESIGN_NETWORKS",
    "FAULTS",
    "MTUS",
    "NETWORKS",
    "OPERATIONS",
    "PLACES",
    "PLANES",
    "RNR_TIMERS",
    "SERVICES",
    "SIZES",
    "TIMEOUTS",
    "fault_choices",
    "numbers_of",
    "reproduce",
    "sentences",
    "service_choices",
]

OPERATIONS: Final[Mapping[str, str]] = {
    Operation.SEND.value: "SEND",
    Operation.SEND_IMMEDIATE.value: "SEND with immediate",
    Operation.WRITE.value: "RDMA WRITE",
    Operation.WRITE_IMMEDIATE.value: "RDMA WRITE with immediate",
    Operation.READ.value: "RDMA READ",
    Operation.COMPARE_SWAP.value: "Atomic compare-and-swap",
    Operation.FETCH_ADD.value: "Atomic fetch-and-add",
}
FAULTS: Final[Mapping[str, str]] = {
    Fault.NONE.value: "none",
    Fault.BAD_RKEY.value: "bad rkey",
    Fault.NO_RIGHT.value: "missing right",
    Fault.OUT_OF_BOUNDS.value: "out of the region's bounds",
    Fault.LOST_PACKET.value: "lost packet",
    Fault.LOST_ACK.value: "lost ACK",
    Fault.NO_RECEIVE.value: "no receive posted (RNR)",
    Fault.SHORT_RECEIVE.value: "receive too short",
    Fault.WRONG_STATE.value: "wrong state of the queue pair",
    Fault.BAD_LKEY.value: "bad lkey",
    Fault.WRONG_PD.value: "wrong protection domain",
    Fault.DEAD_PEER.value: "dead peer",
}
SERVICES: Final[Mapping[str, str]] = {
    ServiceName.RC.value: "RC, reliable connection",
    ServiceName.UC.value: "UC, unreliable connection",
    ServiceName.UD.value: "UD, unreliable datagram",
}
NETWORKS: Final[Mapping[str, str]] = {
    Network.IPV4.value: "RoCEv2 over IPv4",
    Network.IPV6.value: "RoCEv2 over IPv6",
    Network.INFINIBAND.value: "InfiniBand",
}
#: on a design its plane decides what carries the packets
DESIGN_NETWORKS: Final[Mapping[str, str]] = {
    Network.IPV4.value: "as the plane has them; RoCEv2 over IPv4",
    Network.IPV6.value: "as the plane has them; RoCEv2 over IPv6",
}
PLACES: Final[Mapping[str, str]] = {
    Where.WIRE.value: "two hosts on a wire",
    Where.DESIGN.value: "the loaded design",
}
PLANES: Final[Mapping[str, str]] = {name.value: name.value for name in PlaneName}
MTUS: Final[Mapping[str, str]] = {str(size): f"{size:,} B" for size in MTU_BYTES}
SIZES: Final = (
    "0 B", "8 B", "256 B", "1 KiB", "4 KiB", "16 KiB", "64 KiB", "256 KiB", "1 MiB", "4 MiB",
)  # fmt: skip
TIMEOUTS: Final[Mapping[str, str]] = {
    str(code): f"{code}: never" if wait_s is None else f"{code}: {format_seconds(wait_s)}"
    for code, wait_s in ((code, ack_timeout_s(code)) for code in range(32))
}
RNR_TIMERS: Final[Mapping[str, str]] = {
    str(code): f"{code}: {format_seconds(1e-3 * wait)}" for code, wait in enumerate(RNR_TIMER_MS)
}

_MEANS: Final[Mapping[WcStatus, str]] = {
    WcStatus.SUCCESS: "what was asked for has been done",
    WcStatus.LOC_LEN_ERR: "the buffer of its own request does not fit the message",
    WcStatus.LOC_QP_OP_ERR: "its own queue pair could not carry the request out",
    WcStatus.LOC_PROT_ERR: "its own lkey, bounds or rights do not cover the buffer",
    WcStatus.WR_FLUSH_ERR: "the queue pair was in error before the request came to its turn",
    WcStatus.REM_INV_REQ_ERR: "the peer's adapter cannot make sense of the request",
    WcStatus.REM_ACCESS_ERR: "the peer's rkey, bounds or rights do not allow the access",
    WcStatus.REM_OP_ERR: "the peer's adapter failed to do what was asked",
    WcStatus.RETRY_EXC_ERR: "no answer came, and all retries are used up",
    WcStatus.RNR_RETRY_EXC_ERR: "the peer posted no receive, and all RNR retries are used up",
}


def service_choices(operation: Operation) -> Mapping[str, str]:
    """Return the services that have an operation."""
    served = services_of()
    return {name.value: SERVICES[name.value] for name in ServiceName if operation in served[name]}


def fault_choices(operation: Operation, service: ServiceName) -> Mapping[str, str]:
    """Return the faults that mean something."""
    faults = applicable_faults(operation, Service[service.name])
    return {fault.value: FAULTS[fault.value] for fault in faults}


# ---------------------------------------------------------------- numbers


def _completed_s(run: Played) -> float:
    """Return when the requester knew how it ended; NaN where it was never told."""
    own = [one.time_s for one in run.run.completions if one.host == 0]
    return max(own, default=math.nan)


def _status(run: Played, host: int) -> str:
    status = run.run.status(host)
    return "none" if status is None else status.name


def numbers_of(run: Played) -> tuple[Number, ...]:
    """Return a run's quantities."""
    done = _completed_s(run)
    total = sum(run.wire_bytes)
    return (
        Number(
            "completion_time",
            "Time to completion",
            "never" if math.isnan(done) else format_seconds(done),
            done,
        ),
        Number("rdma_packets", "Packets", f"{len(run.packets):,}", len(run.packets)),
        Number("rdma_wire_bytes", "Bytes on the wire", format_bytes(total), total),
        Number("rdma_repeated", "Sent again", f"{run.run.retransmitted:,}", run.run.retransmitted),
        # a status is a name: NaN says that it has no size to be compared
        Number("requester_status", f"Completion, {run.names[0]}", _status(run, 0), math.nan),
        Number("responder_status", f"Completion, {run.names[1]}", _status(run, 1), math.nan),
    )


# ---------------------------------------------------------------- sentences


def sentences(run: Played) -> tuple[str, ...]:
    """Say what a run shows."""
    told = [_ending(run), _memory(run), _reachable(run), _repeats(run)]
    return tuple(text for text in told if text)


def _ending(run: Played) -> str:
    case = run.run.case
    what = OPERATIONS[case.operation.value]
    status = run.run.status(0)
    if status is None:
        return (
            f"{what}: {run.names[0]} has no completion. The library refused the request when it "
            "was posted, so the adapter never saw it; the trace has the error that the call gave."
        )
    after = format_seconds(_completed_s(run))
    first = opcode_name(run.packets[0].bth.opcode) if run.packets else "no packet at all"
    text = (
        f"{what} of {format_bytes(case.size_bytes)}: {run.names[0]} finds {status.name} after "
        f"{after}, that is, {_MEANS.get(status, 'see the trace')}."
    )
    if not run.packets:
        return f"{text} Its adapter found the fault before it sent anything."
    if status is WcStatus.SUCCESS and case.service is not Service.RC:
        return (
            f"{text} {case.service.name} has no acknowledgements: this says only that the packets "
            "have left."
        )
    return f"{text} The first packet is {first}."


def _memory(run: Played) -> str:
    """Compare what is in the target's buffer with what was to come there."""
    case, before, after = run.run.case, run.run.before, run.run.after
    if case.operation in (Operation.COMPARE_SWAP, Operation.FETCH_ADD):
        old, new = (int.from_bytes(held[1], "little") for held in (before, after))
        change = "is still" if old == new else f"went from {old} to"
        brought = int.from_bytes(after[0][:8], "little")
        return (
            f"The number in {run.names[1]}'s memory {change} {new}; {run.names[0]} has {brought}."
        )
    source, target = (1, 0) if case.operation is Operation.READ else (0, 1)
    size = case.size_bytes
    if not size:
        return ""
    skip = len(after[target]) - size
    if after[target][skip:] == before[source][:size]:
        held = f"holds exactly the {format_bytes(size)} that {run.names[source]} had"
    elif after[target] == before[target]:
        held = "is untouched"
    else:
        held = "has been written to in part only"
    return f"The buffer in {run.names[target]}'s memory {held}."


def _reachable(run: Played) -> str:
    """Say that packets came through although the operation failed: the network is not at fault."""
    status = run.run.status(0)
    there = {one.source for one in run.run.sent if one.arrival_s is not None}
    if status in (None, WcStatus.SUCCESS) or there != {0, 1}:
        return ""
    return (
        "Packets arrived in both directions, so a ping between the two would be answered: what is "
        "missing is a matter of the two programs, not of the network."
    )


def _repeats(run: Played) -> str:
    case, again = run.run.case, run.run.retransmitted
    if case.fault is Fault.NO_RECEIVE and case.rnr_retry == 7 and run.run.status(0) == 0:
        return (
            "With 7 RNR retries the sender waits without end, and here the receive came late. "
            "With fewer, and without a receive, it gives up."
        )
    if not again:
        return ""
    return (
        f"{again:,} packet{'s were' if again > 1 else ' was'} sent again. An adapter goes back to "
        "the first packet that is missing, and repeats all after it."
    )


# ---------------------------------------------------------------- elsewhere


def reproduce(state: State, text: str, name: str) -> Reproduce:
    """Return the command and the Python that make a run.

    Args:
        state: the inputs.
        text: the design.
        name: what its file is called.
    """
    case = operation_case(state)
    if state.where is Where.WIRE:
        through = _command(state, case, ("FROM", "TO"), name)
        return Reproduce(f"{_WIRE}\n{through}", _wire_python(state, case))
    ends = ends_of(state, text)
    return Reproduce(_command(state, case, ends, name), _design_python(state, case, ends, name))


_WIRE: Final = (
    "# Two hosts on a wire: the Python below. The same through a design, with its own times:"
)


#: a case with every default
_USUAL: Final = OperationCase(Operation.WRITE, 8)


def _case_python(case: OperationCase) -> str:
    """Write a case, without what is its default."""
    parts = [
        f"Operation.{case.operation.name}",
        str(case.size_bytes),
        f"mtu_bytes={case.mtu_bytes}",
    ]
    if case.service is not _USUAL.service:
        parts.append(f"service=Service.{case.service.name}")
    if case.fault is not _USUAL.fault:
        parts.append(f"fault=Fault.{case.fault.name}")
    for name in ("lost_packet", "retry_count", "timeout", "rnr_retry", "min_rnr_timer"):
        if getattr(case, name) != getattr(_USUAL, name):
            parts.append(f"{name}={getattr(case, name)}")
    return f"OperationCase({', '.join(parts)})"


def _imports(case: OperationCase, also: str) -> list[str]:
    names = ["Fault"] * (case.fault is not Fault.NONE) + ["Operation", "OperationCase"]
    lines = [f"from railweave.transport.verbs.operation import {', '.join(names)}{also}"]
    if case.service is not Service.RC:
        lines.append("from railweave.transport.packets import Service")
    return lines


def _wire_python(state: State, case: OperationCase) -> str:
    from railweave.studio.labs._rdma import timing_of
    from railweave.transport.verbs import AdapterTiming

    timing = timing_of(state.network)
    lines, given = _imports(case, ", run_operation"), ""
    if timing != AdapterTiming():
        lines.append("from railweave.transport.verbs import AdapterTiming")
        other = timing.least_bytes != AdapterTiming().least_bytes
        least = f", least_bytes={timing.least_bytes}" if other else ""
        given = f", timing=AdapterTiming(overhead_bytes={timing.overhead_bytes}{least})"
    lines += [
        "",
        f"run = run_operation({_case_python(case)}{given})",
        "print(run.status(0), run.status(1), run.end_s, len(run.sent), run.retransmitted)",
        "for event in run.events:",
        "    print(event.time_s, event.host, event.actor, event.what)",
    ]
    return "\n".join(lines)


def _design_python(state: State, case: OperationCase, ends: tuple[str, str], name: str) -> str:
    more = f", plane=PlaneId.{state.plane.name}" if state.plane is not PlaneName.BACKEND else ""
    more += f", mtu_bytes={state.mtu}"
    more += ", ip_version=6" if state.network is Network.IPV6 else ""
    lines = ["import railweave"]
    if state.plane is not PlaneName.BACKEND:
        lines.append("from railweave.fabric import PlaneId")
    lines += [
        "from railweave.transport.journey import JourneyCase, packet_journey",
        *_imports(case, ""),
        "",
        f"operation = {_case_python(case)}",
        f'case = JourneyCase(operation, "{ends[0]}", "{ends[1]}"{more})',
        f'journey = packet_journey(case, railweave.load("{name}").build())',
        "print(journey.completed_s, journey.times.wire_bytes.sum(), *journey.run.completions)",
    ]
    return "\n".join(lines)


def _command(state: State, case: OperationCase, ends: tuple[str, str], name: str) -> str:
    words = ["railweave", "packet", "journey", "--op", case.operation.value]
    words += ["--size", f"{case.size_bytes} B", "--mtu", str(case.mtu_bytes), "--design", name]
    words += ["--from", ends[0], "--to", ends[1]]
    waits = case.fault is Fault.NO_RECEIVE  # else it changes no number
    options = (
        ("--plane", state.plane.value, PlaneName.BACKEND.value),
        ("--service", state.service.value, ServiceName.RC.value),
        ("--ip-version", "6" if state.network is Network.IPV6 else "4", "4"),
        ("--fault", case.fault.value, Fault.NONE.value),
        ("--lost-packet", str(case.lost_packet), "0"),
        ("--retries", str(case.retry_count), "7"),
        ("--timeout", str(case.timeout), "14"),
        ("--rnr-retries", str(case.rnr_retry), "7" if waits else str(case.rnr_retry)),
    )
    for option, value, usual in options:
        if value != usual:
            words += [option, value]
    if state.at:
        words += ["--at", state.at]
    words += ["--pcap", "journey.pcap"]
    line = shlex.join(words)
    if case.fault is Fault.NO_RECEIVE and case.min_rnr_timer != _USUAL.min_rnr_timer:
        return f"# The RNR timer is set in Python only; with code {_USUAL.min_rnr_timer}:\n{line}"
    return line
