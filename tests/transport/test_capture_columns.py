"""The decoder of whole columns says the same as the one that takes packets one by one."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.contrib.roce import AETH, BTH
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.packet import Raw, raw

from railweave.formats.pcap import (
    CapturedPacket,
    CaptureReader,
    Interface,
    LinkType,
    write_pcapng,
)
from railweave.transport.capture._columns import IcrcState, Kind, decode_chunk
from railweave.transport.capture._opcodes import EXTENDED, HAS_AETH, HAS_RETH, ROLE
from railweave.transport.codec import Carrier, cnp, decode, encode
from railweave.transport.codec.headers import extended_headers
from railweave.transport.packets import CNP_OPCODE
from rdma_packets import ENVELOPES, OPCODES, envelopes, packets, with_opcode

LINKS = (Interface(), Interface(link_type=LinkType.INFINIBAND), Interface(link_type=LinkType.ERF))
LENGTH = {
    "DETH": 8, "RETH": 16, "AtomicETH": 28, "AETH": 4, "AtomicAckETH": 8, "ImmDt": 4, "IETH": 4,
}  # fmt: skip


def columns_of(path: Path, frames, interfaces=LINKS):
    """Return the chunk and the columns of frames (interface, bytes)."""
    captured = [CapturedPacket(i, interfaces[at].link_type, at, data) for i, (at, data) in frames]
    write_pcapng(path, interfaces, captured)
    with CaptureReader(path) as reader:
        (chunk,) = reader.chunks()
        before = bytes(chunk.buffer)
        columns = decode_chunk(chunk)
        assert bytes(chunk.buffer) == before, "the packets are as they were"
    return chunk, columns


def address(halves, row):
    return int(halves[0][row]) << 64 | int(halves[1][row])


def same_address(text, number):
    """Whether a number is the address; GIDs hold IPv4 addresses mapped."""
    return number in {int(ipaddress.ip_address(text)), int(ipaddress.IPv6Address("::ffff:0:0"))
                      | int(ipaddress.ip_address(text))}  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(packets(), envelopes(), st.booleans()), min_size=1, max_size=12))
def test_columns_agree_with_the_codec(tmp_path_factory, cases):
    frames = []
    for i, (packet, envelope, damaged) in enumerate(cases):
        infiniband = envelope.carrier is Carrier.INFINIBAND
        data = bytearray(encode(packet, envelope))
        if damaged:
            data[-7 if infiniband else -5] ^= 1
        frames.append((i, (int(infiniband), bytes(data))))
    chunk, columns = columns_of(tmp_path_factory.mktemp("columns") / "a.pcapng", frames)
    assert columns.row.tolist() == list(range(len(cases)))
    for row, (_, envelope, _) in enumerate(cases):
        frame = decode(chunk.data(row), link=int(chunk.link_types[row]))
        packet = frame.packet
        assert columns.opcode[row] == packet.bth.opcode
        assert columns.psn[row] == packet.bth.psn
        assert columns.dest_qp[row] == packet.bth.dest_qp
        assert columns.ack_request[row] == packet.bth.ack_request
        assert columns.reth_length[row] == (packet.reth.length if packet.reth else -1)
        assert columns.syndrome[row] == (packet.aeth.syndrome if packet.aeth else -1)
        assert columns.source_qp[row] == (packet.deth.source_qp if packet.deth else -1)
        if packet.bth.opcode != CNP_OPCODE:
            assert columns.payload_bytes[row] == len(packet.payload)
        assert frame.icrc is not None
        right = columns.icrc[row] == IcrcState.RIGHT
        assert right == frame.icrc.ok
        assert int(columns.icrc_found[row]).to_bytes(4, "little") == frame.icrc.found.to_bytes(4)
        assert int(columns.icrc_expected[row]).to_bytes(4, "little") == (
            frame.icrc.expected.to_bytes(4)
        )
        assert columns.vlan[row] == (envelope.vlan or 0)
        if envelope.carrier is Carrier.INFINIBAND and not envelope.global_route:
            assert address(columns.source, row) == envelope.source_lid
            assert address(columns.target, row) == envelope.target_lid
            assert columns.traffic_class[row] == envelope.service_level
        else:
            assert same_address(envelope.source_ip, address(columns.source, row))
            assert same_address(envelope.target_ip, address(columns.target, row))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(packets(), envelopes(), st.integers(0, 200)), min_size=1, max_size=8))
def test_cut_packets_are_never_called_wrong(tmp_path_factory, cases):
    frames, whole = [], []
    for i, (packet, envelope, keep) in enumerate(cases):
        infiniband = envelope.carrier is Carrier.INFINIBAND
        data = encode(packet, envelope)
        frames.append(CapturedPacket(i, 247 if infiniband else 1, int(infiniband), data[:keep],
                                     len(data)))  # fmt: skip
        # InfiniBand's variant CRC stands behind the ICRC; short frames are padded.
        whole.append(keep >= len(data))
    path = tmp_path_factory.mktemp("cut") / "a.pcapng"
    write_pcapng(path, LINKS, frames)
    with CaptureReader(path) as reader:
        (chunk,) = reader.chunks()
        columns = decode_chunk(chunk)
    assert not (columns.icrc == IcrcState.WRONG).any()
    assert not (columns.kind == Kind.MALFORMED).any()
    for row in range(len(cases)):
        if whole[row]:
            assert columns.icrc[columns.row == row] == IcrcState.RIGHT


def test_tables_agree_with_the_headers():
    for code in range(256):
        names = extended_headers(code)
        if names is None:
            # XRC is counted here and not taken apart there.
            assert not ROLE[code] or code >> 5 == 0b101
            continue
        assert ROLE[code]
        if code != CNP_OPCODE:
            assert EXTENDED[code] == sum(LENGTH[name] for name in names)
        assert HAS_RETH[code] == ("RETH" in names)
        assert HAS_AETH[code] == ("AETH" in names)
    assert (ROLE[0xA0 | 0x0A], EXTENDED[0xA0 | 0x0A], EXTENDED[0xA0 | 0x10]) == (1, 20, 4)


@pytest.mark.parametrize("name", ENVELOPES)
def test_every_opcode_on_every_carrier(tmp_path, name):
    envelope = ENVELOPES[name]
    link = int(envelope.carrier is Carrier.INFINIBAND)
    made = [
        cnp(5) if opcode == CNP_OPCODE else with_opcode(opcode, b"abcdefg") for opcode in OPCODES
    ]
    frames = [(i, (link, encode(packet, envelope))) for i, packet in enumerate(made)]
    _, columns = columns_of(tmp_path / "a.pcapng", frames)
    assert columns.opcode.tolist() == OPCODES
    assert (columns.icrc == IcrcState.RIGHT).all()


def test_erf_records_are_looked_into(tmp_path):
    packet = with_opcode(0x04, b"abcd")
    infiniband = encode(packet, ENVELOPES["infiniband"])
    ethernet = encode(packet, ENVELOPES["rocev2-ipv4"])

    def record(kind, data, extensions=b""):
        size = (16 + len(extensions) + len(data)).to_bytes(2)
        head = bytes(8) + bytes([kind, 4]) + size + bytes(2) + len(data).to_bytes(2)
        return head + extensions + data

    more = bytes([0x80, *bytes(7), 0, *bytes(7)])
    frames = [
        record(21, infiniband),
        record(0x80 | 21, infiniband, more),
        record(2, bytes(2) + ethernet),
        record(99, infiniband),
        record(21, infiniband)[:10],
    ]
    _, columns = columns_of(tmp_path / "a.pcapng", [(i, (2, f)) for i, f in enumerate(frames)])
    assert columns.kind.tolist() == [
        Kind.INFINIBAND, Kind.INFINIBAND, Kind.ROCEV2, Kind.OTHER_LINK, Kind.OTHER_LINK,
    ]  # fmt: skip
    assert (columns.icrc == IcrcState.RIGHT).all()


# ---------------------------------------------------------------- packets that others made


@pytest.fixture
def foreign(tmp_path):
    """Return a function that decodes frames made by scapy."""
    return lambda *frames, link=1: columns_of(
        tmp_path / "scapy.pcapng",
        [(i, (0, raw(frame))) for i, frame in enumerate(frames)],
        (Interface(link_type=link),),
    )[1]


ENDS = {"src": "02:00:00:00:00:01", "dst": "02:00:00:00:00:02"}
ROCE = UDP(sport=50000, dport=4791, chksum=0) / BTH(opcode=4, dqpn=17, psn=9, padcount=2)


def test_scapys_icrc_is_right(foreign):
    frames = [
        Ether(**ENDS) / IP(src="10.0.0.1", dst="10.0.0.2", tos=0x6A) / ROCE / Raw(b"x" * 62),
        Ether(**ENDS) / Dot1Q(vlan=7, prio=3) / IPv6(src="fd00::1", dst="fd00::2", tc=0x6B) / ROCE
        / Raw(b"x" * 62),
        Ether(**ENDS) / IP(src="10.0.0.2", dst="10.0.0.1") / UDP(sport=1, dport=4791)
        / BTH(opcode=0x11, dqpn=18, psn=9) / AETH(syndrome=0x60, msn=3),
    ]  # fmt: skip
    columns = foreign(*frames)
    assert columns.kind.tolist() == [Kind.ROCEV2, Kind.ROCEV2_IPV6, Kind.ROCEV2]
    assert (columns.icrc == IcrcState.RIGHT).all()
    assert columns.payload_bytes.tolist() == [60, 60, 0]
    assert columns.traffic_class.tolist() == [0x6A, 0x6B, 0]
    assert (columns.vlan.tolist(), columns.vlan_priority.tolist()) == ([0, 7, 0], [-1, 3, -1])
    assert columns.syndrome.tolist() == [-1, -1, 0x60]


def test_what_changes_on_the_way_does_not_change_the_icrc(foreign):
    frame = bytearray(raw(Ether(**ENDS) / IP(src="1.2.3.4", dst="5.6.7.8") / ROCE / Raw(b"x" * 6)))
    for at in (15, 22, 24, 25, 40, 41, 46):  # class, TTL, checksums, the reserved byte of BTH
        frame[at] ^= 0xFF
    assert (foreign(Raw(bytes(frame))).icrc == IcrcState.RIGHT).all()
    frame[26] ^= 1  # the source address
    assert (foreign(Raw(bytes(frame))).icrc == IcrcState.WRONG).all()


def test_other_traffic_is_counted_by_kind(foreign):
    ip = IP(src="10.0.0.1", dst="10.0.0.2")
    pause = bytes.fromhex("0180c2000001020000000001") + b"\x88\x08\x01\x01" + bytes(44)
    lldp = bytes.fromhex("0180c200000e020000000001") + b"\x88\xcc" + bytes(20)
    frames = [
        Ether(**ENDS) / ip / TCP(dport=22),
        Ether(**ENDS) / ip / UDP(dport=53),
        Ether(**ENDS) / ARP(),
        Raw(pause),
        Raw(lldp),
        Ether(**ENDS) / IP(src="10.0.0.1", dst="10.0.0.2", flags="MF") / ROCE,
        Ether(**ENDS) / IP(src="10.0.0.1", dst="10.0.0.2", proto=89) / Raw(b"ospf"),
        Ether(**ENDS, type=0x9999) / Raw(b"x" * 20),
        Ether(**ENDS) / IPv6() / TCP(),
        Raw(b"\x02"),
    ]
    assert [Kind(kind) for kind in foreign(*frames).kind] == [
        Kind.TCP, Kind.UDP, Kind.ARP, Kind.PAUSE, Kind.LLDP, Kind.FRAGMENT, Kind.IP_OTHER,
        Kind.OTHER, Kind.TCP, Kind.CUT,
    ]  # fmt: skip


def test_options_and_stacked_tags(foreign):
    ip = IP(src="1.2.3.4", dst="5.6.7.8", options=b"\x01" * 4)
    columns = foreign(
        Ether(**ENDS) / Dot1Q(vlan=1) / Dot1Q(vlan=2, prio=4) / ip / ROCE / Raw(b"x" * 6),
        Ether(**ENDS) / ip / ROCE,  # two bytes of padding, and nothing to pad
    )
    assert columns.kind.tolist() == [Kind.ROCEV2, Kind.MALFORMED]
    assert (columns.vlan.tolist(), columns.vlan_priority.tolist()) == ([2], [4])
    assert columns.icrc.tolist() == [IcrcState.RIGHT]


def test_extension_headers_are_walked_over(tmp_path):
    frame = encode(with_opcode(0x04, b"abcd"), ENVELOPES["rocev2-ipv6"])
    options = bytes([17, 0, 1, 4, 0, 0, 0, 0])
    longer = bytearray(frame[:54] + options + frame[54:])
    longer[20] = 60
    longer[18:20] = (int.from_bytes(frame[18:20]) + len(options)).to_bytes(2)
    endless = bytearray(longer)
    endless[54:56] = b"\x3c\xff"  # leads far behind the packet
    _, columns = columns_of(tmp_path / "a.pcapng", [(0, (0, longer)), (1, (0, endless))])
    assert columns.kind.tolist() == [Kind.ROCEV2_IPV6, Kind.IP_OTHER]
    assert columns.opcode.tolist() == [4]


@pytest.mark.parametrize(
    ("link", "before"),
    [
        (LinkType.RAW_IP, b""),
        (LinkType.LINUX_SLL, bytes(14) + b"\x08\x00"),
        (LinkType.LINUX_SLL2, b"\x08\x00" + bytes(18)),
    ],
)
def test_other_links(foreign, link, before):
    packet = IP(src="10.0.0.1", dst="10.0.0.2") / ROCE / Raw(b"x" * 6)
    columns = foreign(Raw(before + raw(packet)), link=link)
    assert columns.kind.tolist() == [Kind.ROCEV2]
    assert (columns.icrc == IcrcState.RIGHT).all()


def test_link_that_is_not_known(foreign):
    assert foreign(Raw(b"x" * 80), link=228 + 900).kind.tolist() == [Kind.OTHER_LINK]


def test_ethernet_padding_and_fcs_do_not_matter(foreign):
    frame = raw(Ether(**ENDS) / IP(src="1.2.3.4", dst="5.6.7.8") / ROCE / Raw(b"x" * 6))
    columns = foreign(Raw(frame + bytes(30)))
    assert (columns.icrc == IcrcState.RIGHT).all()
    assert columns.payload_bytes.tolist() == [4]
