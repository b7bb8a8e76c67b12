"""ICRC, VCRC and checksums against published packets and against the definitions, bit by bit."""

import zlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railweave.transport.codec import Carrier, Envelope, LinkType, decode, encode
from railweave.transport.codec.icrc import _distance_table, fcs, icrc, internet_checksum, mask, vcrc
from railweave.transport.packets import Aeth, Bth, IbPacket, Opcode, Reth
from rdma_packets import ENVELOPES, with_opcode

#: InfiniBand Architecture Specification, volume 1, section 7.8, the sample of a local packet: an
#: RDMA WRITE of 14 bytes. The specification prints it with the masked bits as ones, and its ICRC
#: 0x9625B75A (table 29 as quoted on the linux-rdma list, January 2025, "RDMA/rxe: handle ICRC
#: correctly on big endian systems").
SPEC_LOCAL = bytes.fromhex(
    "7012375c000e17d2"
    "0a2024870087b1b3000dec2a"
    "01710a1c015d400238f27a050000000e"
    "bb884d85fd5cfba4728bc0690ed40000"
)
SPEC_ICRC = bytes.fromhex("9625b75a")

#: whole frames from public sources
PUBLISHED = {
    # CNP captured on a ConnectX-4 Lx, from scapy's test/contrib/roce.uts
    "cnp-connectx4lx": (
        "e41d2dab2bc27cfe90643b32080045c2003c718c400040119161"
        "0a0011010a001201000012b7002800008100ffff40000118"
        "0000000000000000000000000000000000000000"
        "82fd002a"
    ),
    # UC SEND of 18 bytes captured with soft-RoCE, from scapy's test/contrib/roce.uts
    "uc-send": (
        "248a07a8fa22248a07a8fa2208004501004004784000401"
        "1b4d5c0a80007c0a80007c00012b7002caca2"
        "2460ffff000000d300cf1710"
        "4630818be28935d90e9a95505401be885e50000078f353f3"
    ),
    # RDMA WRITE and READ request of an FPGA's driver, from the packet codec tests of the public
    # repository RoomSoC
    "write-driver": (
        "123456789abc7cb27d62c1ef08004500004c000100004011f54cc0a80201c0a80202"
        "01f412b70038ffa60a00ffff0000000200000000"
        "00000000000012300000000000000010000102030405060708090a0b0c0d0e0fca47470e"
    ),
    "read-driver": (
        "123456789abc7cb27d62c1ef08004500003c000100004011f55cc0a80201c0a80202"
        "01f412b7002867630c00ffff0000000200000000000000000000123000000000000000106e0f71ea"
    ),
    # RDMA WRITE of 128 bytes, from the unit tests of DatenLord's open-rdma-driver
    "write-datenlord": (
        "0200000000020200000000010800"
        "450000bc000100004011f8dac0a80002c0a8000312b712b700a80000"
        "0a8000000000000280000000"
        "00007f7e9100000001709a3300000080" + "ff" * 128 + "c6872298"
    ),
}


def _bitwise(data, polynomial, bits):
    """Return a CRC as the standards write it down: bit by bit, least significant bit first."""
    ones = (1 << bits) - 1
    flipped = int(f"{polynomial:0{bits}b}"[::-1], 2)
    register = ones
    for byte in data:
        for bit in range(8):
            out = (register ^ byte >> bit) & 1
            register = register >> 1 ^ (flipped if out else 0)
    return (register ^ ones).to_bytes(bits // 8, "little")


@pytest.mark.parametrize("name", PUBLISHED)
def test_icrc_of_published_frames_agrees(name):
    frame = decode(bytes.fromhex(PUBLISHED[name]))
    assert frame.icrc is not None
    assert frame.icrc.ok
    assert frame.icrc.found == int(PUBLISHED[name][-8:], 16)
    assert frame.problems == ()


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_frames_are_written_byte_for_byte(name):
    data = bytes.fromhex(PUBLISHED[name])
    read = decode(data)
    assert encode(read.packet, read.envelope) == data


def test_icrc_of_the_specifications_sample():
    head = mask("LRH", SPEC_LOCAL[:8]) + mask("BTH", SPEC_LOCAL[8:20])
    assert head == bytes.fromhex("f012375c000e17d20a202487ff87b1b3000dec2a")
    assert icrc(head, SPEC_LOCAL[20:], local=True) == SPEC_ICRC


def test_the_specifications_sample_is_what_the_encoder_writes():
    packet = IbPacket(
        Bth(Opcode.WRITE_ONLY, 0x87B1B3, 0x0DEC2A, migrated=False, pkey=0x2487),
        reth=Reth(0x01710A1C015D4002, 0x38F27A05, 14),
        payload=SPEC_LOCAL[36:50],
    )
    envelope = ENVELOPES["infiniband"]
    data = encode(packet, envelope)
    assert data[:-6] == SPEC_LOCAL
    assert data[-6:-2] == SPEC_ICRC
    assert data[-2:] == _bitwise(data[:-2], 0x100B, 16)
    frame = decode(data, link=LinkType.INFINIBAND)
    assert frame.problems == ()
    assert frame.envelope == envelope


@given(st.binary(min_size=2, max_size=300))
def test_crcs_follow_their_polynomials(data):
    assert vcrc(data) == _bitwise(data, 0x100B, 16)
    assert fcs(data) == _bitwise(data, 0x04C11DB7, 32)
    assert icrc(data, b"") == _bitwise(b"\xff" * 8 + data, 0x04C11DB7, 32)
    assert icrc(data[:1], data[1:], local=True) == _bitwise(data, 0x04C11DB7, 32)


def test_vcrc_has_the_published_table():
    # the table for 0x100B in Mellanox's user access library (Linux-OpenIB licence), some rows of it
    table = _distance_table(2)[0]
    assert [int(table[i]) for i in (0, 1, 2, 127)] == [0x0000, 0x1BA1, 0x3742, 0xD968]
    assert [int(table[i]) for i in (128, 192, 254, 255)] == [0xD008, 0xB80C, 0x12C1, 0x0960]


def test_vcrc_of_a_full_packet():
    data = bytes(i * 7 & 0xFF for i in range(4182))
    assert vcrc(data) == _bitwise(data, 0x100B, 16)
    with pytest.raises(ValueError, match="two bytes"):
        vcrc(b"1")


def test_fcs_leaves_the_known_residue():
    frame = encode(with_opcode(0x04, b"abc"), Envelope(), fcs=True)
    assert zlib.crc32(frame) == 0x2144DF1C  # IEEE 802.3: CRC-32 over a frame with its FCS


@given(st.binary(max_size=99))
def test_internet_checksum_is_the_sum_of_rfc_1071(data):
    even = data + bytes(len(data) % 2)
    total = sum(int.from_bytes(even[i : i + 2], "big") for i in range(0, len(even), 2))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    assert internet_checksum(data) == 0xFFFF - total


def test_internet_checksum_of_rfc_1071s_example():
    assert internet_checksum(bytes.fromhex("0001f203f4f5f6f7")) == 0xFFFF - 0xDDF2


# ---------------------------------------------------------------- what the ICRC does not see

_ROUTED = {"dscp": 0, "ecn": 3, "ttl": 9}
MASKED = {
    "rocev2-ipv4": _ROUTED | {"udp_checksum": True, "target_mac": "2:0:0:0:0:9"},
    "rocev2-ipv6": _ROUTED | {"flow_label": 7, "udp_checksum": False, "vlan": 9},
    "rocev1": _ROUTED | {"flow_label": 7, "vlan": 9},
    "infiniband": {"virtual_lane": 0},
    "infiniband-global": _ROUTED
    | {"virtual_lane": 3, "service_level": 4, "source_lid": 9, "target_lid": 8},
}
COUNTED = {
    "rocev2-ipv4": {"identification": 7, "source_ip": "10.0.0.9", "source_port": 9},
    "rocev2-ipv6": {"source_ip": "fd00::9", "target_ip": "fd00::8", "source_port": 9},
    "rocev1": {"source_ip": "fd00::9", "target_ip": "fd00::8"},
    "infiniband": {"service_level": 3, "source_lid": 9, "target_lid": 9},
    "infiniband-global": {"source_ip": "fd00::9", "target_ip": "fd00::8"},
}


def _icrc_of(packet, envelope):
    link = LinkType.INFINIBAND if envelope.carrier is Carrier.INFINIBAND else LinkType.ETHERNET
    frame = decode(encode(packet, envelope), link=link)
    assert frame.icrc.ok
    return frame.icrc.found


@pytest.mark.parametrize("name", MASKED)
def test_icrc_holds_where_the_network_may_rewrite(name):
    packet, envelope = with_opcode(Opcode.WRITE_ONLY, b"payload"), ENVELOPES[name]
    first = _icrc_of(packet, envelope)
    for field, value in MASKED[name].items():
        assert _icrc_of(packet, replace(envelope, **{field: value})) == first, field
    for field, value in COUNTED[name].items():
        assert _icrc_of(packet, replace(envelope, **{field: value})) != first, field
    marked = replace(packet, bth=replace(packet.bth, fecn=True, becn=True))
    assert _icrc_of(marked, envelope) == first
    other = replace(packet, bth=replace(packet.bth, psn=1))
    assert _icrc_of(other, envelope) != first


def test_a_damaged_packet_is_told():
    data = bytearray(encode(IbPacket(Bth(0x11, 7, 9), aeth=Aeth(0x1F, 1)), Envelope()))
    data[54] ^= 0x40  # in the AETH
    frame = decode(bytes(data))
    assert not frame.icrc.ok
    assert any("ICRC" in problem for problem in frame.problems)
