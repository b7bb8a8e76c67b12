"""Sequence numbers around their end, and how messages are cut into packets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from verbs_pair import Pair

from railweave.transport.packets import (
    CNP_OPCODE,
    MTU_BYTES,
    Aeth,
    AtomicAckEth,
    AtomicEth,
    Bth,
    Deth,
    IbPacket,
    Opcode,
    Reth,
    Service,
)
from railweave.transport.verbs import Connection, SendOpcode, WcStatus
from railweave.transport.verbs._segments import (
    MESSAGE_OPCODES,
    PSN_HALF,
    READ_RESPONSES,
    SHAPES,
    packet_count,
    psn_add,
    psn_distance,
    segment,
)

PSNS = st.integers(0, 2**24 - 1)


@given(PSNS, st.integers(-PSN_HALF, PSN_HALF - 1))
def test_distance_undoes_add(psn: int, count: int) -> None:
    assert 0 <= psn_add(psn, count) < 2**24
    assert psn_distance(psn, psn_add(psn, count)) == count


@given(PSNS, PSNS)
def test_one_of_two_is_older(one: int, two: int) -> None:
    ahead = psn_distance(one, two)
    assert -PSN_HALF <= ahead < PSN_HALF
    if abs(ahead) != PSN_HALF:
        assert psn_distance(two, one) == -ahead


@given(st.integers(0, 10**7), st.sampled_from(MTU_BYTES), st.sampled_from(list(MESSAGE_OPCODES)))
def test_a_message_is_first_middles_last_or_only(size: int, mtu: int, kind: str) -> None:
    count = packet_count(size, mtu)
    assert (count - 1) * mtu < size <= count * mtu or (size == 0 and count == 1)
    family = MESSAGE_OPCODES[kind]
    places = [segment(family, index, count) for index in (0, count // 2, count - 1)]
    if count == 1:
        assert set(places) == {family.only}
    else:
        assert (places[0], places[-1]) == (family.first, family.last)
        assert places[1] == (family.last if count == 2 else family.middle)
    for opcode in family:
        assert SHAPES[opcode].write == ("write" in kind)


def test_shapes_know_the_extra_headers() -> None:
    assert {op for op, shape in SHAPES.items() if shape.immediate} == {
        Opcode.SEND_LAST_IMMEDIATE,
        Opcode.SEND_ONLY_IMMEDIATE,
        Opcode.WRITE_LAST_IMMEDIATE,
        Opcode.WRITE_ONLY_IMMEDIATE,
    }
    assert {op for op, shape in SHAPES.items() if shape.invalidates} == {
        Opcode.SEND_LAST_INVALIDATE,
        Opcode.SEND_ONLY_INVALIDATE,
    }
    assert not set(SHAPES) & set(READ_RESPONSES)


@pytest.mark.parametrize(
    ("packet", "size"),
    [
        (IbPacket(Bth(0, 0, 0)), 16),
        (IbPacket(Bth(0, 0, 0, pad=1), payload=b"abc"), 20),
        (IbPacket(Bth(0, 0, 0), reth=Reth(0, 0, 0), immediate=0), 36),
        (IbPacket(Bth(0, 0, 0), deth=Deth(0, 0)), 24),
        (IbPacket(Bth(0, 0, 0), aeth=Aeth(0, 0), atomic_ack=AtomicAckEth(0)), 28),
        (IbPacket(Bth(0, 0, 0), atomic=AtomicEth(0, 0, 0, 0)), 44),
        (IbPacket(Bth(0, 0, 0), invalidate_rkey=7), 20),
        (IbPacket(Bth(CNP_OPCODE, 0, 0)), 32),  # 16 reserved bytes
    ],
)
def test_transport_bytes_are_the_headers(packet: IbPacket, size: int) -> None:
    assert packet.transport_bytes == size


@pytest.mark.parametrize("opcode", [SendOpcode.SEND, SendOpcode.RDMA_WRITE, SendOpcode.RDMA_READ])
def test_a_message_runs_over_the_end_of_the_numbers(opcode: SendOpcode) -> None:
    start = 2**24 - 3
    pair = Pair(connection=Connection(mtu_bytes=256, first_psn=(start, start)))
    data = bytes(range(250)) * 10
    pair.fill(1 if opcode is SendOpcode.RDMA_READ else 0, data)
    pair.receive(0, len(data))
    pair.send(opcode, 0, len(data))
    assert pair.ended()[0] == [WcStatus.SUCCESS]
    assert pair.data(0, 0, len(data)) == pair.data(1, 0, len(data)) == data
    asked = [each.packet.bth.psn for each in pair.network.sent if not each.source]
    if opcode is not SendOpcode.RDMA_READ:
        assert asked == [(start + n) % 2**24 for n in range(10)]
    else:
        answers = [each.packet.bth.psn for each in pair.network.sent if each.source]
        assert answers == [(start + n) % 2**24 for n in range(10)]


@given(st.sampled_from([0, 1, 3, 255, 256, 257, 1000, 4096]), st.sampled_from(MTU_BYTES))
def test_packets_of_a_write_are_right_each(size: int, mtu: int) -> None:
    pair = Pair(connection=Connection(mtu_bytes=mtu))
    pair.fill(0, bytes(range(256)) * 16)
    pair.send(SendOpcode.RDMA_WRITE, 0, size)
    assert pair.ended()[0] == [WcStatus.SUCCESS]
    packets = [each.packet for each in pair.network.sent if not each.source]
    assert b"".join(each.payload for each in packets) == pair.data(0, 0, size)
    for number, packet in enumerate(packets):
        assert packet.service is Service.RC
        assert packet.bth.psn == number
        assert packet.bth.pad == -len(packet.payload) % 4
        assert (packet.reth is not None) == (number == 0)
        assert packet.bth.ack_request == (number == len(packets) - 1)
        assert packet.bth.dest_qp == pair.qps[1].number
    assert packets[0].reth == Reth(pair.regions[1].address, pair.regions[1].rkey, size)
