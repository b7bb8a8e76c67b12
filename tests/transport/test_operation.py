"""One operation from registration to completion: bytes, packets, statuses, the trace."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from railweave.errors import InputError
from railweave.transport.packets import MTU_BYTES, IbPacket, Opcode, Service
from railweave.transport.verbs import AdapterTiming, DirectWire, WcStatus
from railweave.transport.verbs.operation import (
    Actor,
    Arrival,
    Fault,
    Operation,
    OperationCase,
    OperationRun,
    Part,
    Phase,
    applicable_faults,
    expected_packets,
    run_operation,
)

ATOMICS = (Operation.COMPARE_SWAP, Operation.FETCH_ADD)
SENDS = (Operation.SEND, Operation.SEND_IMMEDIATE)
WRITES = (Operation.WRITE, Operation.WRITE_IMMEDIATE)
RECEIVING = (*SENDS, Operation.WRITE_IMMEDIATE)
SERVED = {
    Service.RC: tuple(Operation),
    Service.UC: (*SENDS, *WRITES),
    Service.UD: SENDS,
}
_OK, _NONE = WcStatus.SUCCESS, None


def _moved(run: OperationRun) -> bool:
    """Tell whether the operation did to memory what it is there for."""
    case, size = run.case, run.case.size_bytes
    if case.operation in ATOMICS:
        new = 42
        return run.after[1] == new.to_bytes(8, "little") and run.after[0] == run.before[1]
    if case.operation is Operation.READ:
        return run.after[0][:size] == run.before[1][:size] and run.after[1] == run.before[1]
    at = 40 if case.service is Service.UD else 0
    return run.after[1][at : at + size] == run.before[0][:size] and run.after[0] == run.before[0]


def _cases() -> list[OperationCase]:
    return [
        OperationCase(operation, 8 if operation in ATOMICS else 700, 1024 if datagram else 256,
                      service, fault)
        for service, operations in SERVED.items()
        for datagram in (service is Service.UD,)
        for operation in operations
        for fault in applicable_faults(operation, service)
    ]  # fmt: skip


def _named(case: OperationCase) -> str:
    return f"{case.service.name}-{case.operation}-{case.fault}"


def _statuses(case: OperationCase) -> tuple[WcStatus | None, WcStatus | None, bool]:
    """Say what must come: the status of both hosts (None: no completion), do bytes move."""
    receives = case.operation in RECEIVING
    peer = _OK if receives else _NONE
    flushed = WcStatus.WR_FLUSH_ERR if receives else _NONE
    rows: dict[Fault, tuple[WcStatus | None, WcStatus | None, bool]]
    if case.service is Service.RC:
        refused = (WcStatus.REM_ACCESS_ERR, flushed, False)
        if case.operation in SENDS:  # it is the peer's receive that may not be written
            refused = (WcStatus.REM_OP_ERR, WcStatus.LOC_PROT_ERR, False)
        rows = {
            Fault.BAD_RKEY: refused,
            Fault.NO_RIGHT: refused,
            Fault.OUT_OF_BOUNDS: refused,
            Fault.WRONG_PD: refused,
            Fault.SHORT_RECEIVE: (WcStatus.REM_INV_REQ_ERR, WcStatus.LOC_LEN_ERR, False),
            Fault.DEAD_PEER: (WcStatus.RETRY_EXC_ERR, _NONE, False),
        }
    else:  # the sender never learns of anything
        rows = {fault: (_OK, _NONE, False) for fault in Fault if fault is not Fault.NONE}
        rows[Fault.SHORT_RECEIVE] = (_OK, WcStatus.LOC_LEN_ERR, False)
        if case.operation in SENDS:
            rows[Fault.NO_RIGHT] = rows[Fault.WRONG_PD] = (_OK, WcStatus.LOC_PROT_ERR, False)
    rows[Fault.WRONG_STATE] = (_NONE, _NONE, False)
    rows[Fault.BAD_LKEY] = (WcStatus.LOC_PROT_ERR, _NONE, False)
    return rows.get(case.fault, (_OK, peer, True))


@pytest.mark.parametrize("case", _cases(), ids=_named)
def test_every_fault_ends_as_it_must(case: OperationCase) -> None:
    run = run_operation(case)
    own, peer, moved = _statuses(case)
    assert (run.status(0), run.status(1), _moved(run)) == (own, peer, moved)
    assert run.intact
    assert [event.time_s for event in run.events] == sorted(event.time_s for event in run.events)
    if own is WcStatus.REM_ACCESS_ERR:
        assert run.after == run.before


@pytest.mark.parametrize("mtu", MTU_BYTES)
@pytest.mark.parametrize("operation", Operation)
def test_sizes_from_nothing_to_many_packets(operation: Operation, mtu: int) -> None:
    sizes = [8] if operation in ATOMICS else [0, 1, 2, 3, mtu - 1, mtu, mtu + 1, 3 * mtu, 20_000]
    for size in sizes:
        run = run_operation(OperationCase(operation, size, mtu))
        assert (run.status(0), _moved(run), run.intact) == (WcStatus.SUCCESS, True, True)
        assert run.retransmitted == 0
        data = [each for each in run.sent if each.packet.operation is not Opcode.ACKNOWLEDGE]
        assert len(data) == expected_packets(run.case)
        assert all(len(each.packet.payload) <= mtu for each in run.sent)


@pytest.mark.parametrize("lost", range(4))
@pytest.mark.parametrize("operation", [*SENDS, *WRITES, Operation.READ, *ATOMICS])
def test_each_packet_may_be_lost(operation: Operation, lost: int) -> None:
    case = OperationCase(operation, 8 if operation in ATOMICS else 1000, 256)
    if lost >= expected_packets(case):
        return
    run = run_operation(replace(case, fault=Fault.LOST_PACKET, lost_packet=lost))
    assert (run.status(0), _moved(run)) == (WcStatus.SUCCESS, True)
    gone = [each for each in run.sent if each.arrival_s is None]
    assert len(gone) == 1
    again = [each for each in run.sent if each.packet.bth.psn == gone[0].packet.bth.psn
             and each.source == gone[0].source and each.arrival_s is not None]  # fmt: skip
    assert again
    assert any("loses the packet" in event.what for event in run.events)


def test_the_trace_goes_through_the_five_steps() -> None:
    run = run_operation(OperationCase(Operation.WRITE, 64 * 1024))
    phases = [event.phase for event in run.events]
    firsts = [phases.index(phase) for phase in Phase]
    assert firsts == sorted(firsts)
    assert {event.actor for event in run.events} == set(Actor) - {Actor.FABRIC}
    assert {event.part for event in run.events} == set(Part) - {Part.FABRIC}
    about = {event.packet for event in run.events if event.packet is not None}
    assert about == set(range(len(run.sent)))
    assert all(event.what.endswith(".") and event.what[0].isupper() for event in run.events)
    text = "\n".join(event.what for event in run.events)
    for word in ("ibv_reg_mr", "ibv_modify_qp", "ibv_post_send", "ibv_poll_cq", "rkey", "doorbell"):
        assert word in text


def test_every_sentence_is_plain() -> None:
    for case in _cases():
        for event in run_operation(case).events:
            assert event.what.endswith("."), event.what
            assert "None" not in event.what, event.what
            assert "  " not in event.what, event.what
            assert len(event.what) < 260, event.what


def test_the_wire_is_a_seam() -> None:
    class Counting:
        def __init__(self) -> None:
            self.calls: list[tuple[IbPacket, int, float]] = []

        def carry(self, packet: IbPacket, source: int, now_s: float) -> Arrival | None:
            self.calls.append((packet, source, now_s))
            return Arrival(now_s + 5e-6, packet)

    wire = Counting()
    case = OperationCase(Operation.SEND, 5000, 1024, fault=Fault.LOST_PACKET, lost_packet=2)
    run = run_operation(case, wire)
    assert [(each.packet, each.source, each.time_s) for each in run.sent] == wire.calls
    assert all(each.arrival_s in (None, each.time_s + 5e-6) for each in run.sent)
    assert sum(each.arrival_s is None for each in run.sent) == 1
    slow = run_operation(replace(case, fault=Fault.NONE), timing=AdapterTiming(rate_bps=10e9))
    quick = run_operation(replace(case, fault=Fault.NONE))
    assert slow.end_s > quick.end_s
    far = run_operation(replace(case, fault=Fault.NONE), DirectWire(delay_s=1e-3))
    assert far.end_s == pytest.approx(2e-3, rel=0.01)


def test_numbers_are_those_asked_for() -> None:
    case = OperationCase(
        Operation.SEND, 3000, 1024, first_psn=(2**24 - 1, 77), queue_pairs=(5, 9), ack_every=1
    )
    run = run_operation(case)
    asked = [each.packet.bth for each in run.sent if not each.source]
    assert [bth.psn for bth in asked] == [2**24 - 1, 0, 1]
    assert {bth.dest_qp for bth in asked} == {9}
    assert all(bth.ack_request for bth in asked)
    assert {each.packet.bth.dest_qp for each in run.sent if each.source} == {5}


def test_immediates_and_lengths_reach_the_peer() -> None:
    for operation in (Operation.SEND_IMMEDIATE, Operation.WRITE_IMMEDIATE):
        run = run_operation(OperationCase(operation, 300))
        peer = next(each for each in run.completions if each.host == 1)
        assert (peer.immediate, peer.byte_length) == (0x12345678, 300)
    run = run_operation(OperationCase(Operation.SEND, 300, service=Service.UD))
    assert next(each for each in run.completions if each.host == 1).byte_length == 340


def test_inline_ignores_the_lkey() -> None:
    case = OperationCase(Operation.WRITE, 100, fault=Fault.BAD_LKEY)
    assert run_operation(case).status(0) is WcStatus.LOC_PROT_ERR
    run = run_operation(replace(case, inline=True))
    assert (run.status(0), _moved(run)) == (WcStatus.SUCCESS, True)


def test_a_read_that_asks_again_for_the_rest_counts_as_sent_again() -> None:
    case = OperationCase(Operation.READ, 10_000, 1024, fault=Fault.LOST_PACKET, lost_packet=5)
    run = run_operation(case)
    asked = [at for at, one in enumerate(run.sent) if one.packet.reth]
    assert len(asked) == 2
    assert (run.retransmitted, [at for at, again in enumerate(run.repeated) if again]) == (
        1,
        asked[1:],
    )
    none = run_operation(replace(case, fault=Fault.NONE, lost_packet=0))
    assert none.retransmitted == 0


def test_rnr_and_retry_counts_are_used() -> None:
    case = OperationCase(Operation.SEND, 100, fault=Fault.NO_RECEIVE, rnr_retry=3, min_rnr_timer=5)
    run = run_operation(case)
    assert run.status(0) is WcStatus.RNR_RETRY_EXC_ERR
    assert len(run.sent) == 8
    assert run.end_s == pytest.approx(3 * 0.06e-3, rel=0.1)
    late = run_operation(replace(case, receive_delay_s=0.1e-3))
    assert (late.status(0), _moved(late)) == (WcStatus.SUCCESS, True)
    endless = run_operation(replace(case, rnr_retry=7))
    assert (endless.status(0), _moved(endless)) == (WcStatus.SUCCESS, True)
    dead = OperationCase(Operation.SEND, 100, fault=Fault.DEAD_PEER, retry_count=2, timeout=10)
    run = run_operation(dead)
    assert (len(run.sent), run.retransmitted) == (3, 2)
    assert run.end_s == pytest.approx(3 * 4.096e-6 * 1024, rel=0.01)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"operation": Operation.READ, "service": Service.UC}, "UC has no operation read; allowed"),
        ({"operation": Operation.FETCH_ADD}, "moves 8 B, not 64 B"),
        ({"mtu_bytes": 1500}, "mtu_bytes 1500 is out of range; allowed: 256, 512"),
        ({"size_bytes": -1}, "allowed: 0 B to 64 MiB"),
        ({"size_bytes": 2**27}, "allowed: 0 B to 64 MiB"),
        ({"retry_count": 8}, "retry_count 8"),
        ({"timeout": 32}, "timeout 32"),
        ({"min_rnr_timer": -1}, "min_rnr_timer -1"),
        ({"first_psn": (0, 2**24)}, "first_psn"),
        ({"queue_pairs": (0, 5)}, "queue_pairs 0"),
        ({"ack_every": 0}, "ack_every 0"),
        ({"receive_delay_s": -1.0}, "receive_delay_s"),
        ({"receive_delay_s": 0.2}, "receive_delay_s 0.2 is out of range; allowed: 0 to 0.128"),
        ({"size_bytes": 2**26, "mtu_bytes": 256}, "would send 262144 packets; allowed: 150000"),
        ({"size_bytes": 2**26, "mtu_bytes": 1024, "fault": Fault.DEAD_PEER}, "fewer retries"),
        ({"fault": Fault.BAD_RKEY}, "does not apply to send on RC; allowed: none, no-right"),
        ({"fault": Fault.LOST_ACK, "service": Service.UC}, "does not apply to send on UC"),
        ({"fault": Fault.LOST_PACKET, "lost_packet": 1}, "has 1 packets; allowed: 0 to 0"),
        ({"fault": Fault.SHORT_RECEIVE, "size_bytes": 0}, "fits into any receive"),
        ({"inline": True, "size_bytes": 221}, "cannot be inline"),
        ({"inline": True, "operation": Operation.READ}, "cannot be inline"),
    ],
)
def test_bad_cases_say_what_is_allowed(values: dict[str, object], text: str) -> None:
    with pytest.raises(InputError, match=text):
        OperationCase(**({"operation": Operation.SEND, "size_bytes": 64} | values))  # type: ignore[arg-type]


def test_a_dead_peer_gets_requests_only() -> None:
    case = OperationCase(
        Operation.READ, 2**26, 2048, fault=Fault.DEAD_PEER, retry_count=7, timeout=1
    )
    assert len(run_operation(case).sent) == 8


def test_faults_that_mean_nothing_are_not_offered() -> None:
    assert Fault.BAD_RKEY not in applicable_faults(Operation.SEND)
    assert Fault.LOST_ACK in applicable_faults(Operation.SEND)
    assert Fault.LOST_ACK not in applicable_faults(Operation.SEND, Service.UD)
    assert Fault.NO_RECEIVE not in applicable_faults(Operation.READ)
    assert all(Fault.NONE in applicable_faults(each) for each in Operation)


@pytest.mark.parametrize("operation", [Operation.WRITE, Operation.READ])
def test_four_mebibytes_in_small_packets_take_about_a_second(operation: Operation) -> None:
    start_s = time.process_time()
    run = run_operation(OperationCase(operation, 4 * 1024**2, 256))
    assert time.process_time() - start_s < 4  # 0.7 s on an idle core
    assert (run.status(0), _moved(run), run.intact) == (WcStatus.SUCCESS, True, True)
    assert len(run.sent) > 16384


def test_the_same_case_gives_the_same_run() -> None:
    case = OperationCase(Operation.SEND, 9000, 512, fault=Fault.LOST_PACKET, lost_packet=3)
    assert run_operation(case) == run_operation(case)


def test_the_example_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    page = Path(__file__).parents[2] / "docs" / "model" / "verbs.md"
    code = page.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    exec(compile(code, str(page), "exec"), {})
    assert "The fabric loses the packet" in capsys.readouterr().out
