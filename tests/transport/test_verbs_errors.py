"""Illegal requests: the right status on both sides, the right state, and no byte out of place."""

from __future__ import annotations

from dataclasses import replace

import pytest
from verbs_pair import ALL, LossyWire, Pair, outside, state_of

from railweave.transport.codec import cnp
from railweave.transport.packets import CNP_OPCODE, IbPacket, NakCode, Opcode, Service
from railweave.transport.verbs import (
    Access,
    Arrival,
    Connection,
    DirectWire,
    QpAttributes,
    QpState,
    ReceiveRequest,
    SendOpcode,
    Sge,
    VerbsError,
    WcStatus,
)

OK, FLUSH = WcStatus.SUCCESS, WcStatus.WR_FLUSH_ERR
ONE_SIDED = (
    SendOpcode.RDMA_WRITE,
    SendOpcode.RDMA_WRITE_WITH_IMM,
    SendOpcode.RDMA_READ,
    SendOpcode.ATOMIC_CMP_AND_SWP,
    SendOpcode.ATOMIC_FETCH_AND_ADD,
)


def _refused(pair: Pair, status: WcStatus, nak: NakCode, event: str | None) -> None:
    """Run: the first request ends with a status, all else is flushed, nothing has moved."""
    guard = outside(pair.network)
    pair.send(SendOpcode.RDMA_WRITE, 0, 8, wr_id=2)
    one, two = pair.run()
    assert [(each.wr_id, each.status) for each in one] == [(1, status), (2, FLUSH)]
    assert {each.status for each in two} <= {FLUSH}
    assert state_of(pair) == (QpState.ERR, QpState.ERR)
    assert outside(pair.network) == guard
    aeth = next(e.packet.aeth for e in pair.network.sent if e.source and e.packet.aeth)
    assert aeth.value == nak
    names = [each.name for each in pair.hosts[1].async_events]
    assert names == ([event] if event else [])


@pytest.mark.parametrize("opcode", ONE_SIDED)
@pytest.mark.parametrize("wrong", ["key", "lkey as rkey", "low", "high", "far", "domain", "gone"])
def test_remote_access_errors(opcode: SendOpcode, wrong: str) -> None:
    pair = Pair(size=4096)
    pair.fill(0, b"x" * 64)
    region = pair.regions[1]
    values: dict[str, object] = {}
    if wrong == "key":
        values["rkey"] = 0xBAD
    elif wrong == "lkey as rkey":
        values["rkey"] = region.lkey
    elif wrong == "low":
        values["remote_address"] = region.address - 8
    elif wrong == "high":
        values["remote_address"] = region.address + 4096
    elif wrong == "far":
        values["remote_address"] = 2**64 - 8
    elif wrong == "domain":
        other = pair.hosts[1].reg_mr(pair.hosts[1].alloc_pd(), pair.buffers[1], ALL)
        values["rkey"] = other.rkey
    else:
        pair.hosts[1].dereg_mr(region)
    pair.receive(0, 64)
    pair.send(opcode, 0, 8, wr_id=1, **values)
    _refused(
        pair,
        WcStatus.REM_ACCESS_ERR,
        NakCode.REMOTE_ACCESS_ERROR,
        "IBV_EVENT_QP_ACCESS_ERR",
    )


@pytest.mark.parametrize(
    ("opcode", "right"),
    [
        (SendOpcode.RDMA_WRITE, Access.REMOTE_WRITE),
        (SendOpcode.RDMA_READ, Access.REMOTE_READ),
        (SendOpcode.ATOMIC_FETCH_AND_ADD, Access.REMOTE_ATOMIC),
    ],
)
def test_rights_of_the_region_and_of_the_queue_pair(opcode: SendOpcode, right: Access) -> None:
    pair = Pair(access=ALL & ~right)
    pair.send(opcode, 0, 8, wr_id=1)
    _refused(pair, WcStatus.REM_ACCESS_ERR, NakCode.REMOTE_ACCESS_ERROR, "IBV_EVENT_QP_ACCESS_ERR")
    remote = ALL & ~Access.LOCAL_WRITE
    pair = Pair(connection=Connection(mtu_bytes=256, access=remote & ~right))
    pair.send(opcode, 0, 8, wr_id=1)
    _refused(pair, WcStatus.REM_INV_REQ_ERR, NakCode.INVALID_REQUEST, "IBV_EVENT_QP_REQ_ERR")


def test_an_atomic_needs_a_multiple_of_eight() -> None:
    pair = Pair()
    pair.send(SendOpcode.ATOMIC_FETCH_AND_ADD, 0, 8, 12, wr_id=1, compare_add=1)
    _refused(pair, WcStatus.REM_INV_REQ_ERR, NakCode.INVALID_REQUEST, "IBV_EVENT_QP_REQ_ERR")


@pytest.mark.parametrize("opcode", [*ONE_SIDED, SendOpcode.SEND])
@pytest.mark.parametrize("wrong", ["key", "rkey as lkey", "low", "high", "domain"])
def test_local_protection_errors(opcode: SendOpcode, wrong: str) -> None:
    pair = Pair(size=4096)
    region = pair.regions[0]
    sge = {
        "key": Sge(region.address, 8, 0xBAD),
        "rkey as lkey": Sge(region.address, 8, region.rkey),
        "low": Sge(region.address - 1, 8, region.lkey),
        "high": Sge(region.address + 4090, 8, region.lkey),
        "domain": Sge(
            region.address,
            8,
            pair.hosts[0].reg_mr(pair.hosts[0].alloc_pd(), pair.buffers[0], ALL).lkey,
        ),
    }[wrong]
    guard = outside(pair.network)
    pair.send(opcode, 0, 8, wr_id=1, sges=(sge,))
    pair.send(SendOpcode.RDMA_WRITE, 0, 8, wr_id=2)
    assert pair.ended() == ([WcStatus.LOC_PROT_ERR, FLUSH], [])
    assert pair.network.sent == []
    assert outside(pair.network) == guard
    assert state_of(pair) == (QpState.ERR, QpState.RTS)  # the peer knows of nothing


@pytest.mark.parametrize("opcode", [SendOpcode.RDMA_READ, SendOpcode.ATOMIC_CMP_AND_SWP])
def test_what_brings_bytes_needs_local_write(opcode: SendOpcode) -> None:
    pair = Pair()
    readonly = pair.hosts[0].reg_mr(pair.pds[0], pair.buffers[0], Access.NONE)
    pair.send(opcode, 0, 8, sges=(readonly.sge(0, 8),))
    assert pair.ended()[0] == [WcStatus.LOC_PROT_ERR]
    pair = Pair()
    readonly = pair.hosts[0].reg_mr(pair.pds[0], pair.buffers[0], Access.NONE)
    pair.send(SendOpcode.RDMA_WRITE, 0, 8, sges=(readonly.sge(0, 8),))
    assert pair.ended()[0] == [OK]  # reading one's own memory is always allowed


def test_earlier_requests_end_before_a_local_error() -> None:
    pair = Pair(wire=DirectWire(delay_s=20e-6))
    pair.fill(0, b"good")
    pair.send(SendOpcode.RDMA_WRITE, 0, 4, wr_id=1)
    pair.send(SendOpcode.RDMA_WRITE, 0, 4, wr_id=2, sges=(Sge(pair.regions[0].address, 4, 1),))
    pair.send(SendOpcode.RDMA_WRITE, 0, 4, 100, wr_id=3)
    one, _ = pair.run()
    assert [each.status for each in one] == [OK, WcStatus.LOC_PROT_ERR, FLUSH]
    assert pair.data(1, 0, 104) == b"good" + bytes(100)


@pytest.mark.parametrize("length", [0, 4, 12])
def test_an_atomic_brings_eight_bytes(length: int) -> None:
    pair = Pair()
    pair.send(SendOpcode.ATOMIC_FETCH_AND_ADD, 0, length, compare_add=1)
    assert pair.ended()[0] == [WcStatus.LOC_LEN_ERR]
    assert pair.data(1) == bytes(16384)


def test_a_message_has_a_longest() -> None:
    pair = Pair()
    huge = tuple(Sge(pair.regions[0].address, 2**30, pair.regions[0].lkey) for _ in range(3))
    pair.send(SendOpcode.RDMA_WRITE, 0, 0, sges=huge)
    assert pair.ended()[0] == [WcStatus.LOC_LEN_ERR]


@pytest.mark.parametrize("size", [65, 300, 5000])
def test_a_receive_that_is_too_small(size: int) -> None:
    pair = Pair(size=8192)
    pair.fill(0, b"\xff" * size)
    pair.receive(1024, 64, wr_id=100)
    pair.receive(2048, 64, wr_id=101)
    pair.send(SendOpcode.SEND, 0, size, wr_id=1)
    one, two = pair.run()
    assert [each.status for each in one] == [WcStatus.REM_INV_REQ_ERR]
    assert [(each.wr_id, each.status) for each in two] == [
        (100, WcStatus.LOC_LEN_ERR),
        (101, FLUSH),
    ]
    assert state_of(pair) == (QpState.ERR, QpState.ERR)
    data = pair.data(1)
    assert data[:1024] == bytes(1024)
    assert data[1024 + 64 :] == bytes(8192 - 1024 - 64)


@pytest.mark.parametrize("wrong", ["key", "bounds", "right", "domain"])
def test_a_receive_that_may_not_be_written(wrong: str) -> None:
    pair = Pair(size=4096)
    host, region = pair.hosts[1], pair.regions[1]
    sge = {
        "key": Sge(region.address, 64, 0xBAD),
        "bounds": Sge(region.address + 4090, 64, region.lkey),
        "right": host.reg_mr(pair.pds[1], pair.buffers[1], Access.REMOTE_READ).sge(0, 64),
        "domain": host.reg_mr(host.alloc_pd(), pair.buffers[1], ALL).sge(0, 64),
    }[wrong]
    pair.fill(0, b"\xff" * 64)
    guard = outside(pair.network)
    pair.qps[1].post_recv(ReceiveRequest(100, (sge,)))
    pair.send(SendOpcode.SEND, 0, 64)
    assert pair.ended() == ([WcStatus.REM_OP_ERR], [WcStatus.LOC_PROT_ERR])
    assert outside(pair.network) == guard
    assert state_of(pair) == (QpState.ERR, QpState.ERR)


def test_posting_to_a_pair_in_error_flushes() -> None:
    pair = Pair()
    pair.receive(0, 8, wr_id=5)
    for qp in pair.qps:
        qp.modify(QpAttributes(state=QpState.ERR))
    pair.send(SendOpcode.SEND, 0, 8, wr_id=6)
    pair.receive(0, 8, wr_id=7)
    one, two = pair.run()
    assert [(each.wr_id, each.status) for each in one] == [(6, FLUSH)]
    assert [(each.wr_id, each.status) for each in two] == [(5, FLUSH), (7, FLUSH)]
    assert pair.network.sent == []


def test_a_dead_pair_answers_nothing() -> None:
    for state in (QpState.ERR, QpState.RESET):
        pair = Pair(connection=Connection(mtu_bytes=256, timeout=4, retry_cnt=3))
        pair.qps[1].modify(QpAttributes(state=state))
        pair.send(SendOpcode.RDMA_WRITE, 0, 8)
        assert pair.ended() == ([WcStatus.RETRY_EXC_ERR], [])
        assert pair.opcodes(1) == []
        assert pair.data(1) == bytes(16384)


def test_reset_forgets_everything_without_completions() -> None:
    pair = Pair(wire=DirectWire(delay_s=10e-6))
    pair.receive(0, 8)
    pair.send(SendOpcode.SEND, 0, 8, wr_id=1)
    pair.send(SendOpcode.RDMA_READ, 0, 4096, wr_id=2)
    pair.network.run(12e-6)
    for qp in pair.qps:
        qp.modify(QpAttributes(state=QpState.RESET))
    assert pair.ended() == ([], [])
    from railweave.transport.verbs import connect

    connect(pair.qps[0], pair.qps[1], Connection(mtu_bytes=256, first_psn=(900, 50)))
    pair.fill(0, b"again")
    pair.send(SendOpcode.RDMA_WRITE, 0, 5, wr_id=3)
    assert pair.ended() == ([OK], [])
    assert pair.data(1, 0, 5) == b"again"


def test_a_lost_nak_ends_in_retries_exceeded() -> None:
    wire = LossyWire(lambda number, packet, source: source == 1)
    pair = Pair(wire=wire, connection=Connection(mtu_bytes=256, timeout=4, retry_cnt=2))
    pair.send(SendOpcode.RDMA_WRITE, 0, 8, rkey=1)
    assert pair.ended()[0] == [WcStatus.RETRY_EXC_ERR]
    assert state_of(pair) == (QpState.ERR, QpState.ERR)


def test_an_overrun_completion_queue_takes_its_pairs_down() -> None:
    pair = Pair(cq_entries=2)
    for wr_id in range(4):
        pair.send(SendOpcode.RDMA_WRITE, 0, 8, wr_id=wr_id)
    pair.network.run()
    queue = pair.cqs[0]
    assert [each.wr_id for each in queue.poll(9)] == [0, 1]
    assert (queue.overrun, queue.lost) == (True, 2)
    assert [event.name for event in pair.hosts[0].async_events] == ["IBV_EVENT_CQ_ERR"]
    assert state_of(pair) == (QpState.ERR, QpState.RTS)


def test_send_with_invalidate_takes_the_key_away() -> None:
    pair = Pair()
    pair.fill(0, b"hello")
    victim = pair.hosts[1].reg_mr(pair.pds[1], pair.buffers[1], ALL)
    pair.receive(0, 64)
    pair.send(SendOpcode.SEND_WITH_INV, 0, 5, invalidate_rkey=victim.rkey)
    one, two = pair.run()
    assert [each.status for each in one] == [OK]
    assert [(each.status, each.invalidated_rkey) for each in two] == [(OK, victim.rkey)]
    pair.send(SendOpcode.RDMA_WRITE, 0, 5, rkey=victim.rkey)
    assert pair.ended()[0] == [WcStatus.REM_ACCESS_ERR]


def test_a_key_that_cannot_be_invalidated_ends_the_receiver() -> None:
    pair = Pair(connection=Connection(mtu_bytes=256, timeout=4, retry_cnt=1))
    pair.receive(0, 64)
    pair.send(SendOpcode.SEND_WITH_INV, 0, 5, invalidate_rkey=0xBAD)
    one, two = pair.ended()
    assert two == [WcStatus.REM_INV_REQ_ERR]
    assert one == [WcStatus.RETRY_EXC_ERR]
    assert state_of(pair) == (QpState.ERR, QpState.ERR)


def test_another_partition_hears_nothing() -> None:
    pair = Pair(pkeys=(0xFFFF, 0x8001), connection=Connection(mtu_bytes=256, timeout=4))
    pair.qps[1].modify(QpAttributes(state=QpState.SQD))
    pair.qps[1].modify(QpAttributes(state=QpState.SQD, pkey_index=1))
    pair.send(SendOpcode.RDMA_WRITE, 0, 8)
    assert pair.ended() == ([WcStatus.RETRY_EXC_ERR], [])
    assert pair.says("P_Key 0xffff is of another partition")
    limited = Pair(pkeys=(0x7FFF,), connection=Connection(mtu_bytes=256, timeout=4))
    limited.send(SendOpcode.RDMA_WRITE, 0, 8)
    assert limited.ended() == ([WcStatus.RETRY_EXC_ERR], [])  # two limited members may not talk


def test_a_marked_packet_brings_a_cnp_back() -> None:
    pair = Pair(wire=LossyWire(lambda *_: False, mark=range(3)))
    pair.fill(0, b"m" * 2560)
    pair.send(SendOpcode.RDMA_WRITE, 0, 2560)
    assert pair.ended()[0] == [OK]
    cnps = [each for each in pair.network.sent if each.packet.bth.opcode == CNP_OPCODE]
    assert [(each.source, each.packet.bth.becn) for each in cnps] == [(1, True)]  # one in 50 µs
    assert cnps[0].packet == cnp(pair.qps[0].number)  # as the codec has it
    assert pair.says("A CNP for queue pair")
    assert pair.data(1, 0, 2560) == b"m" * 2560


# -- packets that no adapter of this model sends -------------------------------------------------


class _Forging:
    """A cable on which the first packet of host 0 is put in another's place."""

    def __init__(self, forge: dict[str, object], bth: dict[str, object]) -> None:
        self._forge, self._bth = forge, bth
        self._below = DirectWire()
        self._done = False

    def carry(self, packet: IbPacket, source: int, now_s: float) -> Arrival | None:
        arrival = self._below.carry(packet, source, now_s)
        if source or self._done or arrival is None:
            return arrival
        self._done = True
        forged = replace(
            packet,
            bth=replace(packet.bth, **self._bth),  # type: ignore[arg-type]
            **self._forge,  # type: ignore[arg-type]
        )
        return Arrival(arrival.time_s, forged)


@pytest.mark.parametrize(
    ("forge", "bth"),
    [
        ({}, {"opcode": Opcode.WRITE_MIDDLE}),
        ({}, {"opcode": Opcode.SEND_LAST}),
        ({"reth": None}, {}),
        ({"payload": b"\xff" * 7}, {}),
        ({"payload": b"\xff" * 300}, {}),
        ({"payload": b""}, {"opcode": Opcode.WRITE_FIRST}),
        ({"reth": None}, {"opcode": Opcode.READ_REQUEST}),
        ({"reth": None}, {"opcode": Opcode.FETCH_ADD}),
    ],
)
def test_invalid_requests_are_refused(forge: dict[str, object], bth: dict[str, object]) -> None:
    pair = Pair(wire=_Forging(forge, bth))
    pair.fill(0, b"\xff" * 8)
    pair.send(SendOpcode.RDMA_WRITE, 0, 8)
    assert pair.ended()[0] == [WcStatus.REM_INV_REQ_ERR]
    assert pair.data(1) == bytes(16384)
    assert state_of(pair) == (QpState.ERR, QpState.ERR)


@pytest.mark.parametrize(
    "bth", [{"opcode": 0x1F}, {"opcode": 0x2A}, {"opcode": 0xFF}, {"dest_qp": 0x999}, {"pkey": 1}]
)
def test_foreign_packets_are_dropped_and_the_request_comes_again(bth: dict[str, object]) -> None:
    pair = Pair(wire=_Forging({}, bth), connection=Connection(mtu_bytes=256, timeout=4))
    pair.fill(0, b"\xff" * 8)
    pair.send(SendOpcode.RDMA_WRITE, 0, 8)
    assert pair.ended()[0] == [OK]
    assert pair.data(1, 0, 8) == b"\xff" * 8
    assert pair.says("The adapter drops the packet")


class _ForgingAnswers(_Forging):
    def carry(self, packet: IbPacket, source: int, now_s: float) -> Arrival | None:
        return super().carry(packet, 1 - source, now_s)


@pytest.mark.parametrize(
    ("opcode", "forge", "bth", "status"),
    [
        (SendOpcode.RDMA_READ, {"payload": b"toolong.."}, {}, WcStatus.BAD_RESP_ERR),
        (SendOpcode.RDMA_READ, {}, {"opcode": Opcode.READ_RESPONSE_FIRST}, WcStatus.BAD_RESP_ERR),
        (SendOpcode.RDMA_READ, {}, {"opcode": Opcode.ATOMIC_ACKNOWLEDGE}, WcStatus.BAD_RESP_ERR),
        (SendOpcode.RDMA_READ, {}, {"psn": 4000}, OK),
        (SendOpcode.RDMA_WRITE, {"aeth": None}, {}, OK),
        (SendOpcode.RDMA_WRITE, {}, {"psn": 1}, OK),
        (SendOpcode.ATOMIC_FETCH_AND_ADD, {"atomic_ack": None}, {}, WcStatus.BAD_RESP_ERR),
    ],
)
def test_foreign_answers(
    opcode: SendOpcode, forge: dict[str, object], bth: dict[str, object], status: WcStatus
) -> None:
    wire = _ForgingAnswers(forge, bth)
    pair = Pair(wire=wire, connection=Connection(mtu_bytes=256, timeout=4))
    pair.fill(1, b"remote..")
    pair.send(opcode, 0, 8)
    assert pair.ended()[0] == [status]
    expected = b"remote.." if (opcode, status) == (SendOpcode.RDMA_READ, OK) else bytes(8)
    assert pair.data(0, 0, 8) == expected
    assert pair.data(0, 8) == bytes(16376)


def test_errors_speak_plainly() -> None:
    error = VerbsError("text", "ENOMEM")
    assert str(error) == "ENOMEM: text"
    assert error.exit_code == 2
    assert Service.RC.name == "RC"
