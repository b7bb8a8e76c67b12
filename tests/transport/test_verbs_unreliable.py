"""UC and UD: nothing is repeated, nobody is told, and no byte is written where it may not be."""

from __future__ import annotations

import pytest
from verbs_pair import ALL, LossyWire, Pair, outside, state_of

from railweave.transport.packets import Service
from railweave.transport.verbs import (
    GRH_BYTES,
    Connection,
    QpAttributes,
    QpState,
    SendOpcode,
    Sge,
    VerbsError,
    WcOpcode,
    WcStatus,
)

OK, FLUSH = WcStatus.SUCCESS, WcStatus.WR_FLUSH_ERR
DATA = bytes(range(1, 251)) * 8


@pytest.mark.parametrize("opcode", [SendOpcode.SEND, SendOpcode.SEND_WITH_IMM])
@pytest.mark.parametrize("size", [0, 1, 256, 257, 1999])
def test_uc_sends(opcode: SendOpcode, size: int) -> None:
    pair = Pair(Service.UC)
    pair.fill(0, DATA)
    pair.receive(0, 2048)
    pair.send(opcode, 0, size, immediate=5)
    one, two = pair.run()
    assert [each.status for each in one] == [OK]
    assert [(each.status, each.byte_length) for each in two] == [(OK, size)]
    assert two[0].immediate == (5 if opcode is SendOpcode.SEND_WITH_IMM else None)
    assert pair.data(1, 0, 2048) == DATA[:size] + bytes(2048 - size)
    assert pair.opcodes(1) == []  # UC has no answers
    assert one[0].time_s < two[0].time_s  # the sender is done when the last bit has left


@pytest.mark.parametrize("lost", range(4))
def test_uc_loses_a_message_with_any_of_its_packets(lost: int) -> None:
    pair = Pair(Service.UC, wire=LossyWire(lambda number, packet, source: number == lost))
    pair.fill(0, DATA)
    pair.receive(0, 1024, wr_id=100)
    pair.receive(1024, 1024, wr_id=101)
    pair.send(SendOpcode.SEND, 0, 1000, wr_id=1)
    pair.send(SendOpcode.SEND, 1000, 900, wr_id=2)
    one, two = pair.run()
    assert [each.status for each in one] == [OK, OK]
    # The second message goes into the receive that the lost one did not use up.
    assert [(each.wr_id, each.byte_length) for each in two] == [(100, 900)]
    assert pair.data(1, 0, 900) == DATA[1000:1900]
    assert pair.data(1, 1024) == bytes(16384 - 1024)


def test_uc_writes_and_refuses_in_silence() -> None:
    pair = Pair(Service.UC)
    pair.fill(0, DATA)
    pair.receive(8192, 0)
    pair.send(SendOpcode.RDMA_WRITE, 0, 700, 64)
    pair.send(SendOpcode.RDMA_WRITE_WITH_IMM, 0, 700, 1024, immediate=9)
    one, two = pair.run()
    assert [each.status for each in one] == [OK, OK]
    assert [(each.opcode, each.immediate) for each in two] == [(WcOpcode.RECV_RDMA_WITH_IMM, 9)]
    assert pair.data(1, 64, 700) == pair.data(1, 1024, 700) == DATA[:700]
    guard = outside(pair.network)
    for values in ({"rkey": 1}, {"remote_address": pair.regions[1].address + 16000}):
        pair.send(SendOpcode.RDMA_WRITE, 0, 700, **values)
    pair.send(SendOpcode.RDMA_WRITE_WITH_IMM, 0, 1, 2048)  # no receive
    assert pair.ended() == ([OK, OK, OK], [])
    assert state_of(pair) == (QpState.RTS, QpState.RTS)
    assert outside(pair.network) == guard


@pytest.mark.parametrize("service", [Service.UC, Service.UD])
def test_a_receive_too_small_ends_the_receiver(service: Service) -> None:
    pair = Pair(service)
    pair.fill(0, b"\xff" * 100)
    pair.receive(64, 99 + (GRH_BYTES if service is Service.UD else 0), wr_id=100)
    pair.receive(512, 512, wr_id=101)
    pair.send(SendOpcode.SEND, 0, 100)
    one, two = pair.run()
    assert [each.status for each in one] == [OK]  # the sender never learns of it
    assert [(each.wr_id, each.status) for each in two] == [
        (100, WcStatus.LOC_LEN_ERR),
        (101, FLUSH),
    ]
    assert pair.data(1) == bytes(16384)
    assert pair.qps[1].state is QpState.ERR


@pytest.mark.parametrize("service", [Service.UC, Service.UD])
def test_a_local_error_stops_the_send_queue_only(service: Service) -> None:
    pair = Pair(service)
    region = pair.regions[0]
    pair.send(SendOpcode.SEND, 0, 8, wr_id=1)
    pair.send(SendOpcode.SEND, 0, 8, wr_id=2, sges=(Sge(region.address, 8, 1),))
    pair.send(SendOpcode.SEND, 0, 8, wr_id=3)
    one, _ = pair.run()
    assert [(each.wr_id, each.status) for each in one] == [
        (1, OK),
        (2, WcStatus.LOC_PROT_ERR),
        (3, FLUSH),
    ]
    assert state_of(pair) == (QpState.SQE, QpState.RTS)
    pair.send(SendOpcode.SEND, 0, 8, wr_id=4)
    assert pair.ended()[0] == [FLUSH]
    # Receiving goes on in SQE.
    pair.qps[0].post_recv(_receive(pair, 0))
    _send_back(pair)
    assert [each.status for each in pair.run()[0]] == [OK]
    pair.qps[0].modify(QpAttributes(state=QpState.RTS))
    pair.fill(0, b"afresh!!")
    pair.receive(0, 64)
    pair.send(SendOpcode.SEND, 0, 8, wr_id=5)
    one, two = pair.ended()
    assert (one, two) == ([OK], [OK])
    at = GRH_BYTES if service is Service.UD else 0
    assert pair.data(1, at, 8) == b"afresh!!"


def _receive(pair: Pair, host: int) -> object:
    from railweave.transport.verbs import ReceiveRequest

    return ReceiveRequest(50, (pair.regions[host].sge(4096, 512),))


def _send_back(pair: Pair) -> None:
    from railweave.transport.verbs import SendRequest

    pair.qps[1].post_send(
        SendRequest(
            51,
            SendOpcode.SEND,
            (pair.regions[1].sge(0, 16),),
            signaled=False,
            remote_qpn=pair.qps[0].number,
            remote_qkey=0x1111_1111,
        )
    )


def test_a_datagram_comes_behind_forty_bytes() -> None:
    pair = Pair(Service.UD)
    pair.fill(0, DATA)
    pair.fill(1, b"\xee" * 512)
    pair.receive(0, 512)
    pair.send(SendOpcode.SEND_WITH_IMM, 0, 200, immediate=3)
    one, two = pair.run()
    assert [each.status for each in one] == [OK]
    assert (two[0].byte_length, two[0].immediate, two[0].has_grh) == (240, 3, True)
    assert two[0].source_qp == pair.qps[0].number
    got = pair.data(1, 0, 512)
    assert got[40:240] == DATA[:200]
    assert got[240:] == b"\xee" * (512 - 240)
    grh = got[:40]
    assert grh[0] >> 4 == 6  # IP version
    assert int.from_bytes(grh[4:6], "big") == 12 + 8 + 4 + 200 + 4  # BTH to ICRC
    assert grh[6] == 0x1B  # the next header is InfiniBand's transport
    assert grh[8:24] == pair.hosts[0].gid
    assert grh[24:] == pair.hosts[1].gid


@pytest.mark.parametrize("size", [256, 257])
def test_a_datagram_is_one_packet(size: int) -> None:
    pair = Pair(Service.UD)
    pair.receive(0, 1024)
    pair.send(SendOpcode.SEND, 0, size)
    one, two = pair.ended()
    assert one == ([OK] if size == 256 else [WcStatus.LOC_LEN_ERR])
    assert two == ([OK] if size == 256 else [])
    assert pair.qps[0].state is (QpState.RTS if size == 256 else QpState.SQE)


def test_a_datagram_needs_the_key_and_a_receive() -> None:
    pair = Pair(Service.UD)
    pair.fill(0, b"\xff" * 64)
    pair.send(SendOpcode.SEND, 0, 8)  # no receive
    assert pair.ended() == ([OK], [])
    pair.receive(0, 512)
    pair.send(SendOpcode.SEND, 0, 8, remote_qkey=2)
    pair.send(SendOpcode.SEND, 0, 8, remote_qpn=0x777)
    assert pair.ended() == ([OK, OK], [])
    assert pair.data(1) == bytes(16384)
    pair.send(SendOpcode.SEND, 0, 8, remote_qkey=0x8000_0000)  # the sender's own Q_Key
    assert pair.ended() == ([OK], [OK])


def test_a_lost_datagram_is_not_missed() -> None:
    pair = Pair(Service.UD, wire=LossyWire(lambda number, packet, source: number == 0))
    pair.fill(0, DATA)
    pair.receive(0, 512)
    for wr_id in range(2):
        pair.send(SendOpcode.SEND, wr_id * 100, 100, wr_id=wr_id)
    assert pair.ended() == ([OK, OK], [OK])
    assert pair.data(1, 40, 100) == DATA[100:200]


def test_a_datagram_pair_has_no_path() -> None:
    pair = Pair(Service.UD, up=False, connection=Connection(mtu_bytes=1024))
    qp = pair.qps[0]
    qp.modify(QpAttributes(state=QpState.INIT, pkey_index=0, port=1, qkey=7))
    with pytest.raises(VerbsError, match="takes no AV, DEST_QPN"):
        qp.modify(QpAttributes(state=QpState.RTR, av=1, dest_qpn=4))
    qp.modify(QpAttributes(state=QpState.RTR, qkey=9))
    assert (qp.attributes.qkey, qp.mtu_bytes) == (9, 1024)


@pytest.mark.parametrize("service", [Service.UC, Service.UD])
def test_a_dead_wire_does_not_matter_to_the_sender(service: Service) -> None:
    pair = Pair(service, wire=LossyWire(lambda *_: True))
    pair.receive(0, 4096)
    for wr_id in range(3):
        pair.send(SendOpcode.SEND, 0, 200, wr_id=wr_id)
    assert pair.ended() == ([OK] * 3, [])
    assert pair.data(1) == bytes(16384)
    assert ALL
