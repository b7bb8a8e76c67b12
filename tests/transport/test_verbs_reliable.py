"""RC: acknowledgements, go-back-N, timers, READs and atomics answered once and again."""

from __future__ import annotations

import itertools

import pytest
from verbs_pair import ALL, LossyWire, Pair, outside

from railweave.transport.packets import AckSyndrome, IbPacket, Opcode, Service
from railweave.transport.verbs import (
    AdapterTiming,
    Connection,
    DirectWire,
    Network,
    QpAttributes,
    QpCapabilities,
    QpState,
    SendOpcode,
    SendRequest,
    WcOpcode,
    WcStatus,
    ack_timeout_s,
    connect,
    rnr_timer_s,
)

OK = WcStatus.SUCCESS
DATA = bytes(range(256)) * 16


def _losing(*opcodes: Opcode, source: int | None = None, times: int = 1) -> LossyWire:
    """A wire that loses the first ``times`` packets of these kinds."""

    def lose(_: int, packet: IbPacket, sender: int) -> bool:
        return packet.operation in opcodes and source in (None, sender) and len(wire.lost) < times

    wire = LossyWire(lose)
    return wire


def test_one_ack_stands_for_many() -> None:
    pair = Pair(capabilities=QpCapabilities(ack_every=4))
    pair.fill(0, DATA)
    pair.send(SendOpcode.RDMA_WRITE, 0, 10 * 256)
    assert pair.ended()[0] == [OK]
    asked = [each.packet.bth.ack_request for each in pair.network.sent if not each.source]
    assert asked == [False, False, False, True] * 2 + [False, True]
    acks = [each.packet for each in pair.network.sent if each.source]
    # Those for packets 4 and 8 still wait in the adapter when packet 10 comes.
    assert len(acks) == 1
    assert acks[-1].bth.psn == 9
    assert acks[-1].aeth is not None
    assert acks[-1].aeth.kind is AckSyndrome.ACK
    assert acks[-1].aeth.msn == 1


def test_messages_of_no_bytes_go_through() -> None:
    pair = Pair()
    pair.receive(0, 0)
    for number, opcode in enumerate((SendOpcode.SEND, SendOpcode.RDMA_WRITE, SendOpcode.RDMA_READ)):
        pair.send(opcode, 0, 0, wr_id=number, remote_address=0, rkey=0)  # no key is looked at
    one, two = pair.run()
    assert [(each.wr_id, each.status) for each in one] == [(0, OK), (1, OK), (2, OK)]
    assert [each.byte_length for each in two] == [0]


def test_completions_name_what_ended() -> None:
    pair = Pair()
    pair.fill(1, (41).to_bytes(8, "little"))
    for wr_id in (100, 101, 102):
        pair.receive(512, 256, wr_id=wr_id)
    pair.send(SendOpcode.SEND_WITH_IMM, 0, 5, wr_id=1, immediate=77)
    pair.send(SendOpcode.RDMA_WRITE_WITH_IMM, 0, 9, 1024, wr_id=2, immediate=78)
    pair.send(SendOpcode.RDMA_READ, 0, 300, 1024, wr_id=3)
    pair.send(SendOpcode.ATOMIC_FETCH_AND_ADD, 512, 8, 0, wr_id=4, compare_add=1)
    pair.send(SendOpcode.ATOMIC_CMP_AND_SWP, 520, 8, 0, wr_id=5, compare_add=42, swap=7)
    pair.send(SendOpcode.ATOMIC_CMP_AND_SWP, 528, 8, 0, wr_id=6, compare_add=42, swap=9)
    pair.send(SendOpcode.SEND, 0, 3, wr_id=7)
    one, two = pair.run()
    assert [(each.wr_id, each.opcode.value, each.byte_length) for each in one] == [
        (1, "send", 0), (2, "rdma-write", 0), (3, "rdma-read", 300), (4, "fetch-add", 8),
        (5, "comp-swap", 8), (6, "comp-swap", 8), (7, "send", 0),
    ]  # fmt: skip
    assert [(each.wr_id, each.opcode, each.byte_length, each.immediate) for each in two] == [
        (100, WcOpcode.RECV, 5, 77),
        (101, WcOpcode.RECV_RDMA_WITH_IMM, 9, 78),
        (102, WcOpcode.RECV, 3, None),
    ]
    before = [int.from_bytes(pair.data(0, at, 8), "little") for at in (512, 520, 528)]
    assert before == [41, 42, 7]
    assert pair.data(1, 0, 8) == (7).to_bytes(8, "little")  # the last comparison failed
    assert [each.time_s for each in one] == sorted(each.time_s for each in one)


def test_fetch_and_add_wraps_at_64_bits() -> None:
    pair = Pair()
    pair.fill(1, (2**64 - 1).to_bytes(8, "little"))
    pair.send(SendOpcode.ATOMIC_FETCH_AND_ADD, 0, 8, compare_add=3)
    assert pair.ended()[0] == [OK]
    assert pair.data(1, 0, 8) == (2).to_bytes(8, "little")


def test_unsignaled_requests_are_silent_unless_all_are_asked_for() -> None:
    for signal_all, count in ((False, 1), (True, 3)):
        pair = Pair(capabilities=QpCapabilities(signal_all=signal_all))
        for wr_id in range(3):
            pair.send(SendOpcode.RDMA_WRITE, 0, 8, wr_id=wr_id, signaled=wr_id == 2)
        assert pair.ended()[0] == [OK] * count


@pytest.mark.parametrize("lost", [0, 3, 9])
def test_a_lost_packet_is_sent_again_from_there_on(lost: int) -> None:
    wire = LossyWire(lambda number, packet, source: number == lost)
    pair = Pair(wire=wire)
    pair.fill(0, DATA)
    pair.receive(0, 4096)
    pair.send(SendOpcode.SEND, 0, 2560)
    one, two = pair.run()
    assert [each.status for each in (*one, *two)] == [OK, OK]
    assert pair.data(1, 0, 2560) == DATA[:2560]
    psns = [each.packet.bth.psn for each in pair.network.sent if not each.source]
    # A NAK acknowledges what is before it; a time-out says nothing, so all is sent again.
    assert psns == [*range(10), *range(lost if lost < 9 else 0, 10)]
    naks = [each.packet for each in pair.network.sent if each.source and each.packet.aeth
            and each.packet.aeth.kind is AckSyndrome.NAK]  # fmt: skip
    if lost < 9:
        assert [nak.bth.psn for nak in naks] == [lost]  # one NAK, whatever comes after the gap
        assert one[0].time_s < 1e-4
    else:  # nothing comes after the last one, so only the timer can tell
        assert naks == []
        assert one[0].time_s > (ack_timeout_s(14) or 0)


def test_a_lost_ack_makes_a_duplicate_which_is_not_delivered_twice() -> None:
    wire = _losing(Opcode.ACKNOWLEDGE)
    pair = Pair(wire=wire)
    pair.fill(0, b"first")
    pair.receive(0, 64, wr_id=100)
    pair.receive(64, 64, wr_id=101)
    pair.send(SendOpcode.SEND, 0, 5)
    # The application may not touch the buffer yet; if it does, the duplicate must not be written.
    pair.network.run(1e-3)
    pair.fill(0, b"other")
    one, two = pair.run()
    assert [each.status for each in one] == [OK]
    assert [each.wr_id for each in two] == [100]
    assert pair.data(1, 0, 5) == b"first"
    assert pair.opcodes(0) == ["SEND_ONLY"] * 2


def test_an_atomic_is_done_once_and_answered_twice() -> None:
    wire = _losing(Opcode.ATOMIC_ACKNOWLEDGE)
    pair = Pair(wire=wire)
    pair.fill(1, (10).to_bytes(8, "little"))
    pair.send(SendOpcode.ATOMIC_FETCH_AND_ADD, 0, 8, compare_add=5)
    pair.send(SendOpcode.ATOMIC_FETCH_AND_ADD, 8, 8, compare_add=5)
    assert pair.ended()[0] == [OK, OK]
    assert pair.data(1, 0, 8) == (20 - 0).to_bytes(8, "little")
    assert pair.data(0, 0, 16) == (10).to_bytes(8, "little") + (15).to_bytes(8, "little")
    # The second answer showed the gap, so the timer was not needed.
    assert pair.network.now_s < 0.1
    assert pair.says("answers with the value it kept")


@pytest.mark.parametrize("lost", [0, 1, 5, 9])
def test_a_read_goes_on_where_a_response_is_missing(lost: int) -> None:
    def lose(_: int, packet: IbPacket, source: int) -> bool:
        return source == 1 and packet.bth.psn == lost and not wire.lost

    wire = LossyWire(lose)
    pair = Pair(wire=wire)
    pair.fill(1, DATA)
    pair.send(SendOpcode.RDMA_READ, 0, 2560 - 7)
    assert pair.ended()[0] == [OK]
    assert pair.data(0, 0, 2553) == DATA[:2553]
    assert pair.data(0, 2553, 7) == bytes(7)
    requests = [each.packet for each in pair.network.sent if not each.source]
    assert [each.bth.psn for each in requests] == [0, lost]
    again = requests[1].reth
    assert again is not None
    assert again.va == pair.regions[1].address + lost * 256
    assert again.length == 2553 - lost * 256


def test_a_read_whose_data_is_overtaken_by_an_ack_is_asked_for_again() -> None:
    wire = _losing(Opcode.READ_RESPONSE_ONLY)
    pair = Pair(wire=wire)
    pair.fill(1, b"wanted", 512)
    pair.send(SendOpcode.RDMA_READ, 0, 6, 512, wr_id=1)
    pair.send(SendOpcode.RDMA_WRITE, 600, 8, 1024, wr_id=2)
    one, _ = pair.run()
    assert [(each.wr_id, each.status) for each in one] == [(1, OK), (2, OK)]
    assert pair.data(0, 0, 6) == b"wanted"
    assert one[0].time_s < 1e-3  # implied by the ACK, not by the timer
    assert pair.says("The response with PSN 0 was lost")


def test_retries_end_with_status_12() -> None:
    for retry, timeout in ((0, 5), (2, 8), (7, 3)):
        connection = Connection(mtu_bytes=256, retry_cnt=retry, timeout=timeout)
        pair = Pair(wire=LossyWire(lambda *_: True), connection=connection)
        pair.send(SendOpcode.RDMA_WRITE, 0, 8, wr_id=1)
        pair.send(SendOpcode.RDMA_WRITE, 0, 8, wr_id=2)
        one, _ = pair.run()
        assert [each.status for each in one] == [WcStatus.RETRY_EXC_ERR, WcStatus.WR_FLUSH_ERR]
        assert len(pair.network.sent) == 2 * (retry + 1)
        wait_s = (ack_timeout_s(timeout) or 0) * (retry + 1)
        assert one[0].time_s == pytest.approx(wait_s, rel=0.1)
        assert pair.qps[0].state is QpState.ERR


def test_progress_gives_retries_back() -> None:
    # More losses than retries, but each third packet of the sender only: there is progress between.
    sent = itertools.count()
    wire = LossyWire(lambda number, packet, source: source == 0 and next(sent) % 3 == 2)
    connection = Connection(mtu_bytes=256, retry_cnt=2, timeout=8)
    caps = QpCapabilities(ack_every=1)
    pair = Pair(wire=wire, connection=connection, capabilities=caps)
    pair.fill(0, DATA)
    pair.send(SendOpcode.RDMA_WRITE, 0, 4096)
    assert pair.ended()[0] == [OK]
    assert len(wire.lost) > 2
    assert pair.data(1, 0, 4096) == DATA


def test_timeout_zero_waits_for_ever() -> None:
    connection = Connection(mtu_bytes=256, timeout=0)
    pair = Pair(wire=LossyWire(lambda *_: True), connection=connection)
    pair.send(SendOpcode.RDMA_WRITE, 0, 8)
    assert pair.ended() == ([], [])
    assert pair.qps[0].state is QpState.RTS


def test_rnr_waits_as_long_as_the_peer_says() -> None:
    pair = Pair(connection=Connection(mtu_bytes=256, min_rnr_timer=14, rnr_retry=3))
    pair.fill(0, DATA)
    pair.send(SendOpcode.SEND, 0, 1000)
    pair.network.run(1e-3)
    pair.receive(0, 1000)
    one, two = pair.run()
    assert [each.status for each in (*one, *two)] == [OK, OK]
    assert pair.data(1, 0, 1000) == DATA[:1000]
    naks = [each.packet.aeth for each in pair.network.sent if each.source][:-1]
    assert [(nak.kind, nak.value) for nak in naks if nak] == [(AckSyndrome.RNR_NAK, 14)]
    assert two[0].time_s == pytest.approx(rnr_timer_s(14), rel=0.01)


@pytest.mark.parametrize("rnr_retry", [0, 1, 6])
def test_rnr_retries_end_with_status_13(rnr_retry: int) -> None:
    pair = Pair(connection=Connection(mtu_bytes=256, min_rnr_timer=1, rnr_retry=rnr_retry))
    pair.send(SendOpcode.SEND, 0, 8, wr_id=1)
    pair.send(SendOpcode.SEND, 0, 8, wr_id=2)
    assert pair.ended() == ([WcStatus.RNR_RETRY_EXC_ERR, WcStatus.WR_FLUSH_ERR], [])
    assert pair.opcodes(1).count("ACKNOWLEDGE") == rnr_retry + 1
    assert pair.qps[0].state is QpState.ERR
    assert pair.qps[1].state is QpState.RTS  # the receiver has done nothing wrong


def test_seven_rnr_retries_are_without_end() -> None:
    pair = Pair(connection=Connection(mtu_bytes=256, min_rnr_timer=1, rnr_retry=7))
    pair.send(SendOpcode.RDMA_WRITE_WITH_IMM, 0, 8, immediate=1)
    pair.network.run(3e-3)
    assert pair.opcodes(1).count("ACKNOWLEDGE") > 100
    pair.receive(0, 0)
    assert pair.ended() == ([OK], [OK])


def test_reads_on_the_way_are_limited_by_the_requester() -> None:
    wire = DirectWire(delay_s=20e-6)
    pair = Pair(wire=wire, connection=Connection(mtu_bytes=256, max_rd_atomic=2))
    pair.fill(1, DATA)
    for number in range(5):
        pair.send(SendOpcode.RDMA_READ, number * 100, 100, number * 100)
    pair.network.run(30e-6)
    assert pair.opcodes(0) == ["READ_REQUEST"] * 2
    assert pair.ended()[0] == [OK] * 5
    assert pair.data(0, 0, 500) == DATA[:500]


@pytest.mark.parametrize("limit", [0, 1])
def test_the_responder_refuses_more_reads_than_it_has_resources(limit: int) -> None:
    pair = Pair(connection=Connection(mtu_bytes=256, max_rd_atomic=8, max_dest_rd_atomic=limit))
    for number in range(4):
        pair.send(SendOpcode.RDMA_READ, 0, 2560, wr_id=number)
    one, two = pair.ended()
    assert two == []
    assert one.count(WcStatus.REM_INV_REQ_ERR) == 1
    assert one[:limit] == [OK] * limit
    assert set(one[limit + 1 :]) == {WcStatus.WR_FLUSH_ERR}
    assert pair.hosts[1].async_events[0].name == "IBV_EVENT_QP_REQ_ERR"


@pytest.mark.parametrize("opcode", [SendOpcode.RDMA_READ, SendOpcode.ATOMIC_CMP_AND_SWP])
def test_without_resources_at_the_requester_nothing_is_asked(opcode: SendOpcode) -> None:
    pair = Pair(connection=Connection(mtu_bytes=256, max_rd_atomic=0))
    pair.send(opcode, 0, 8)
    assert pair.ended()[0] == [WcStatus.LOC_QP_OP_ERR]
    assert pair.network.sent == []


def test_a_fence_waits_for_reads() -> None:
    for fence in (False, True):
        pair = Pair(wire=DirectWire(delay_s=10e-6))
        pair.fill(1, b"new", 100)
        pair.fill(0, b"old")
        pair.send(SendOpcode.RDMA_READ, 0, 3, 100)
        pair.send(SendOpcode.RDMA_WRITE, 0, 3, 200, fence=fence)
        assert pair.ended()[0] == [OK, OK]
        # Without the fence the WRITE leaves before the READ has brought its bytes.
        assert pair.data(1, 200, 3) == (b"new" if fence else b"old")


def test_a_region_that_goes_away_ends_in_errors_on_the_right_side() -> None:
    before = Pair()
    guard = outside(before.network, *before.regions)
    for opcode, host, when_s, status in (
        (SendOpcode.RDMA_WRITE, 0, 0.4e-6, WcStatus.LOC_PROT_ERR),
        (SendOpcode.RDMA_WRITE, 1, 1.4e-6, WcStatus.REM_ACCESS_ERR),
        (SendOpcode.RDMA_READ, 1, 1.7e-6, WcStatus.REM_ACCESS_ERR),
        (SendOpcode.RDMA_READ, 0, 2.7e-6, WcStatus.LOC_PROT_ERR),
    ):
        pair = Pair()
        pair.send(opcode, 0, 16384)
        pair.fill(0 if opcode is SendOpcode.RDMA_WRITE else 1, DATA * 4)
        pair.network.run(when_s)  # in the middle of the message
        pair.hosts[host].dereg_mr(pair.regions[host])
        pair.fill(host, bytes(16384))
        assert pair.ended()[0] == [status]
        assert pair.data(host) == bytes(16384)
        assert outside(pair.network, *pair.regions) == guard


def test_duplicates_of_a_read_are_refused_where_the_bytes_differ() -> None:
    # A foreign requester that repeats a PSN with another address gets nothing.
    class Twisting:
        def __init__(self) -> None:
            self.below = DirectWire()
            self.seen = 0

        def carry(self, packet: IbPacket, source: int, now_s: float) -> object:
            arrival = self.below.carry(packet, source, now_s)
            if packet.reth and source == 0:
                self.seen += 1
                if self.seen == 2:
                    reth = type(packet.reth)(
                        packet.reth.va + 8, packet.reth.rkey, packet.reth.length
                    )
                    twisted = IbPacket(packet.bth, reth=reth)
                    return type(arrival)(arrival.time_s, twisted)
            return (
                None if packet.operation is Opcode.READ_RESPONSE_ONLY and self.seen < 3 else arrival
            )

    pair = Pair(wire=Twisting(), connection=Connection(mtu_bytes=256, timeout=4))  # type: ignore[arg-type]
    pair.fill(1, b"abcdefgh")
    pair.send(SendOpcode.RDMA_READ, 0, 8)
    assert pair.ended()[0] == [OK]
    assert pair.says("asks for other bytes")


def test_both_hosts_can_send_at_once() -> None:
    pair = Pair()
    pair.fill(0, DATA, 0)
    pair.fill(1, DATA[::-1], 8192)
    pair.send(SendOpcode.RDMA_WRITE, 0, 4096, 0)
    region = pair.regions[0]
    pair.qps[1].post_send(
        SendRequest(9, SendOpcode.RDMA_WRITE, (pair.regions[1].sge(8192, 4096),),
                    remote_address=region.address + 8192, rkey=region.rkey)
    )  # fmt: skip
    assert pair.ended() == ([OK], [OK])
    assert pair.data(1, 0, 4096) == DATA
    assert pair.data(0, 8192, 4096) == DATA[::-1]


def test_two_queue_pairs_share_a_port_in_turn() -> None:
    network = Network(timing=AdapterTiming(rate_bps=100e9))
    pds = [host.alloc_pd() for host in network.hosts]
    cqs = [host.create_cq(16) for host in network.hosts]
    buffers = [host.allocate(4096) for host in network.hosts]
    regions = [
        host.reg_mr(pd, buffer, ALL)
        for host, pd, buffer in zip(network.hosts, pds, buffers, strict=True)
    ]
    for _ in range(2):
        first, second = (
            host.create_qp(Service.RC, pd, cq)
            for host, pd, cq in zip(network.hosts, pds, cqs, strict=True)
        )
        connect(first, second, Connection(mtu_bytes=256))
        first.post_send(
            SendRequest(first.number, SendOpcode.RDMA_WRITE, (regions[0].sge(),),
                        remote_address=regions[1].address, rkey=regions[1].rkey)
        )  # fmt: skip
    network.run()
    one, two = network.hosts[1].queue_pairs
    took_turns = [each.packet.bth.dest_qp for each in network.sent if not each.source]
    assert took_turns[1:21] == [one, two] * 10
    assert [each.status for each in cqs[0].poll(9)] == [OK, OK]
    gaps = [b.time_s - a.time_s for a, b in zip(network.sent, network.sent[1:], strict=False)
            if not a.source and not b.source]  # fmt: skip
    assert min(gaps) >= (256 + 16 + 66) * 8 / 100e9 * 0.999  # one after the other, at line rate


def test_draining_ends_what_has_begun() -> None:
    pair = Pair(wire=DirectWire(delay_s=20e-6))
    qp = pair.qps[0]
    pair.send(SendOpcode.RDMA_WRITE, 0, 4096, wr_id=1)
    pair.network.run(0.3e-6)
    qp.modify(QpAttributes(state=QpState.SQD, en_sqd_async_notify=True))
    pair.send(SendOpcode.RDMA_WRITE, 0, 8, wr_id=2)
    one, _ = pair.run()
    assert [each.wr_id for each in one] == [1]
    assert [event.name for event in pair.hosts[0].async_events] == ["IBV_EVENT_SQ_DRAINED"]
    assert pair.hosts[0].async_events[0].time_s == one[0].time_s
    qp.modify(QpAttributes(state=QpState.SQD, retry_cnt=1))
    qp.modify(QpAttributes(state=QpState.RTS))
    one, _ = pair.run()
    assert [each.wr_id for each in one] == [2]


def test_the_run_is_the_same_each_time() -> None:
    def play() -> tuple[object, ...]:
        wire = LossyWire(lambda number, packet, source: number % 5 == 3)
        pair = Pair(wire=wire)
        pair.fill(0, DATA)
        pair.receive(0, 4096)
        pair.send(SendOpcode.SEND, 0, 3000)
        pair.send(SendOpcode.RDMA_READ, 4096, 3000)
        pair.run()
        return tuple(pair.network.events), tuple(pair.network.sent)

    assert play() == play()


@pytest.mark.parametrize(
    ("opcode", "flags"),
    [
        (SendOpcode.SEND, [False, True]),
        (SendOpcode.RDMA_WRITE_WITH_IMM, [False, True]),
        (SendOpcode.RDMA_WRITE, [False, False]),  # completes nothing at the peer
    ],
)
def test_only_what_completes_a_receive_asks_for_an_event(
    opcode: SendOpcode, flags: list[bool]
) -> None:
    pair = Pair()
    pair.receive(0, 512)
    pair.send(opcode, 0, 512, solicited=True)
    assert pair.ended()[0] == [OK]
    assert [each.packet.bth.solicited for each in pair.network.sent if not each.source] == flags
