"""What a packet's place in its message allows: length, padding, and what its RETH says."""

import pytest

from railweave.transport.codec import Envelope, decode, encode
from railweave.transport.packets import MTU_BYTES, Bth, IbPacket, Opcode, Reth, Service


def problems(opcode, size, length=None, *, service=Service.RC, pad=None, keep=None):
    """Return what is said of a packet with so many bytes of payload."""
    bth = Bth(service << 5 | opcode, 5, 6, pad=-size % 4 if pad is None else pad)
    reth = None if length is None else Reth(0x7000, 9, length)
    frame = encode(IbPacket(bth, reth=reth, payload=bytes(size)), Envelope())
    return [p for p in decode(frame[:keep]).problems if "cut off" not in p]


@pytest.mark.parametrize("keep", [None, 72])
@pytest.mark.parametrize("service", [Service.RC, Service.UC])
def test_write_whose_length_is_not_its_payload(keep, service):
    (said,) = problems(Opcode.WRITE_ONLY, 8, 100, service=service, keep=keep)
    assert said == ("The RETH says 100 bytes, but the only packet of the message carries 8.")
    assert problems(Opcode.WRITE_ONLY, 8, 8, keep=keep, service=service) == []
    assert problems(Opcode.WRITE_ONLY, 0, 0, service=service) == []


@pytest.mark.parametrize("opcode", [Opcode.SEND_FIRST, Opcode.SEND_MIDDLE, Opcode.WRITE_MIDDLE,
                                    Opcode.READ_RESPONSE_MIDDLE])  # fmt: skip
def test_packets_before_the_last_are_full(opcode):
    for mtu in MTU_BYTES:
        assert problems(opcode, mtu) == []
    (said,) = problems(opcode, 1000)
    assert f"{opcode.name} carries 1,000 bytes, which is no path MTU (256, 512," in said
    padded = problems(opcode, 1021)
    assert f"{opcode.name} has 3 bytes of padding; only a last packet may." in padded[0]
    assert "1,021 bytes, which is no path MTU" in padded[1]


def test_first_of_a_write_that_is_the_whole_of_it():
    (said,) = problems(Opcode.WRITE_FIRST, 1024, 1024)
    assert said == "The RETH says 1,024 bytes, but more packets follow a first one of 1,024."
    assert problems(Opcode.WRITE_FIRST, 1024, 1025) == []


def as_opcode(opcode, size):
    """Return what is said of a write of one packet whose opcode was changed."""
    packet = IbPacket(Bth(Opcode.WRITE_ONLY, 5, 6), reth=Reth(1, 2, size), payload=bytes(size))
    frame = bytearray(encode(packet, Envelope()))
    frame[42] = opcode
    return [p for p in decode(bytes(frame)).problems if "ICRC" not in p]


def test_packet_beyond_the_largest_mtu():
    # The sixteen bytes of the RETH count as payload now.
    assert as_opcode(Opcode.SEND_ONLY, 4096) == [
        "RC SEND_ONLY carries 4,112 bytes, more than the largest path MTU, 4,096."
    ]
    assert as_opcode(Opcode.SEND_ONLY, 4080) == []


def test_what_is_not_certain_is_not_said():
    assert problems(Opcode.READ_REQUEST, 0, 1 << 31) == []
    (unknown,) = as_opcode(0xC0, 4096)
    assert "not known" in unknown
