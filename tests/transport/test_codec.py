"""Encoder and decoder: round trips, places of bytes and bits, refused packets, speed."""

import time
from dataclasses import replace

import pytest
from hypothesis import given, settings

from railweave.errors import InputError
from railweave.transport.codec import (
    Carrier,
    Envelope,
    LinkType,
    cnp,
    decode,
    encode,
    encode_tcp,
)
from railweave.transport.codec.headers import extended_headers
from railweave.transport.packets import CNP_OPCODE, Bth, IbPacket, Opcode, Reth
from rdma_packets import ENVELOPES, OPCODES, envelopes, packets, with_opcode

WRITE = IbPacket(
    Bth(Opcode.WRITE_ONLY, 17, 5, pad=1), reth=Reth(0x1000, 0x77, 7), payload=b"hello12"
)


def link_of(envelope):
    infiniband = envelope.carrier is Carrier.INFINIBAND
    return LinkType.INFINIBAND if infiniband else LinkType.ETHERNET


def names(frame):
    return [layer.name for layer in frame.layers]


def field(frame, layer, name):
    (found,) = [x for x in frame.layers if x.name == layer]
    (view,) = [x for x in found.fields if x.name == name]
    return view


def covers(frame):
    """Tell whether layers and fields lie one behind the other and leave out nothing."""
    at = 0
    for layer in frame.layers:
        if layer.start != at:
            return False
        bit = at * 8
        for view in layer.fields:
            if view.first_bit != bit:
                return False
            bit += view.bits
        at = layer.end
        if bit != at * 8:
            return False
    return at == len(frame.data)


@given(packets(), envelopes())
@settings(deadline=None)
def test_round_trip(packet, envelope):
    frame = decode(encode(packet, envelope), link=link_of(envelope))
    assert frame.problems == ()
    assert frame.packet == packet
    assert frame.envelope == envelope
    assert frame.icrc.ok
    assert covers(frame)


@pytest.mark.parametrize("name", ENVELOPES)
@pytest.mark.parametrize("opcode", OPCODES, ids=lambda opcode: f"{opcode:#04x}")
def test_layers_of_every_opcode(name, opcode):
    packet, envelope = with_opcode(opcode, b"abcdef"), ENVELOPES[name]
    frame = decode(encode(packet, envelope), link=link_of(envelope))
    lower = {
        "rocev2-ipv4": ["Ethernet", "IPv4", "UDP"],
        "rocev2-ipv4-vlan": ["Ethernet", "VLAN", "IPv4", "UDP"],
        "rocev2-ipv6": ["Ethernet", "IPv6", "UDP"],
        "rocev2-ipv6-vlan": ["Ethernet", "VLAN", "IPv6", "UDP"],
        "rocev1": ["Ethernet", "GRH"],
        "rocev1-mapped-vlan": ["Ethernet", "VLAN", "GRH"],
        "infiniband": ["LRH"],
        "infiniband-global": ["LRH", "GRH"],
    }[name]
    payload = ["Payload"] if packet.payload else []
    tail = ["VCRC"] if envelope.carrier is Carrier.INFINIBAND else []
    wanted = [*lower, "BTH", *extended_headers(opcode), *payload, "ICRC", *tail]
    assert names(frame) == wanted
    assert frame.packet == packet
    assert covers(frame)
    assert frame.packet.payload == packet.payload


def test_the_bytes_of_a_write():
    data = encode(WRITE, Envelope(), fcs=True)
    assert data.hex() == (
        "020000000002" "020000000001" "0800"
        "45" "6a" "0044" "0000" "4000" "40" "11" "263d" "0a000001" "0a000002"
        "c000" "12b7" "0030" "0000"
        "0a" "50" "ffff" "00" "000011" "00" "000005"
        "0000000000001000" "00000077" "00000007"
        "68656c6c6f3132" "00"
    ) + data[-8:].hex()  # fmt: skip
    assert int(data[24:26].hex(), 16) == 0x263D


def test_field_views_say_where_what_and_whether_masked():
    frame = decode(encode(WRITE, Envelope(ecn=3)))
    ecn = field(frame, "IPv4", "ECN")
    assert (ecn.first_bit, ecn.bits, ecn.value) == (14 * 8 + 14, 2, 3)
    assert ecn.text == "3 (CE: congestion experienced)"
    assert ecn.masked
    assert field(frame, "IPv4", "DSCP").text == "26 (AF31)"
    psn = field(frame, "BTH", "PSN")
    assert (psn.first_bit, psn.bits, psn.value, psn.masked) == ((42 + 9) * 8, 24, 5, False)
    assert field(frame, "BTH", "OpCode").text == "0x0a (RC WRITE_ONLY)"
    assert field(frame, "Ethernet", "Source").text == "02:00:00:00:00:01"
    assert field(frame, "IPv4", "Source").text == "10.0.0.1"
    assert field(frame, "IPv4", "DF").text == "set"
    assert field(frame, "RETH", "VA").text == "0x0000000000001000"
    assert field(frame, "Payload", "Payload").value == b"hello12"
    assert field(frame, "Payload", "Pad").value == b"\x00"
    assert field(frame, "Payload", "Payload").text == "7 bytes: 68 65 6c 6c 6f 31 32"
    assert all(view.meaning for layer in frame.layers for view in layer.fields)


def test_with_a_grh_the_icrc_leaves_out_the_whole_lrh():
    local = decode(encode(WRITE, ENVELOPES["infiniband"]), link=LinkType.INFINIBAND)
    routed = decode(encode(WRITE, ENVELOPES["infiniband-global"]), link=LinkType.INFINIBAND)
    assert [view.name for view in local.layers[0].fields if view.masked] == ["VL"]
    assert all(view.masked for view in routed.layers[0].fields)


@pytest.mark.parametrize(
    ("syndrome", "text"),
    [
        (0x1F, "0x1f (ACK, no credits)"),
        (0x03, "0x03 (ACK, credit code 3)"),
        (0x20, "0x20 (RNR NAK, wait 655.36 ms)"),
        (0x2C, "0x2c (RNR NAK, wait 0.64 ms)"),
        (0x60, "0x60 (NAK: PSN sequence error)"),
        (0x62, "0x62 (NAK: remote access error)"),
        (0x64, "0x64 (NAK: invalid RD request)"),
        (0x7F, "0x7f (NAK with reserved code 31)"),
        (0x40, "0x40 (reserved)"),
    ],
)
def test_syndromes_in_words(syndrome, text):
    ack = with_opcode(Opcode.ACKNOWLEDGE)
    ack = replace(ack, aeth=replace(ack.aeth, syndrome=syndrome))
    assert field(decode(encode(ack, Envelope())), "AETH", "Syndrome").text == text


def test_a_cnp_is_as_annex_17_has_it():
    data = encode(cnp(0xD2), Envelope(dscp=48, ecn=1))
    assert data[42:-4].hex() == "8100ffff400000d200000000" + "00" * 16
    frame = decode(data)
    assert frame.packet == cnp(0xD2)
    assert frame.packet.bth.becn
    assert frame.packet.bth.opcode == CNP_OPCODE


def test_short_frames_are_filled_to_sixty_bytes():
    empty = IbPacket(Bth(Opcode.SEND_ONLY, 17, 5))
    data = encode(empty, Envelope())
    assert len(data) == 60
    assert len(encode(empty, Envelope(), fcs=True)) == 64
    frame = decode(data)
    assert names(frame)[-2:] == ["ICRC", "Padding"]
    assert frame.problems == ()
    assert frame.packet == empty
    checked = decode(encode(empty, Envelope(), fcs=True), fcs=True)
    assert names(checked)[-2:] == ["Padding", "FCS"]
    assert checked.problems == ()
    assert covers(checked)


def test_the_pad_may_be_left_to_the_encoder():
    open_pad = replace(WRITE, bth=replace(WRITE.bth, pad=0))
    assert encode(open_pad, Envelope()) == encode(WRITE, Envelope())
    with pytest.raises(InputError, match="pad 2 does not fill a payload of 7 bytes"):
        encode(replace(WRITE, bth=replace(WRITE.bth, pad=2)), Envelope())


def test_udp_checksums():
    assert encode(WRITE, Envelope())[40:42] == b"\0\0"
    summed = decode(encode(WRITE, Envelope(udp_checksum=True)))
    assert field(summed, "UDP", "Checksum").value
    assert summed.problems == ()
    assert summed.envelope.udp_checksum
    six = ENVELOPES["rocev2-ipv6"]
    assert field(decode(encode(WRITE, six)), "UDP", "Checksum").value
    unsummed = decode(encode(WRITE, replace(six, udp_checksum=False)))
    assert field(unsummed, "UDP", "Checksum").value == 0
    assert unsummed.problems == ()


@pytest.mark.parametrize(
    ("packet", "message"),
    [
        (
            IbPacket(Bth(Opcode.WRITE_ONLY, 1, 1)),
            "has the headers none after its BTH; allowed: exactly RETH",
        ),
        (replace(WRITE, immediate=1), "RETH, ImmDt after its BTH; allowed: exactly RETH"),
        (IbPacket(Bth(0x15, 1, 1)), "unknown opcode 0x15"),
        (IbPacket(Bth(0x2C, 1, 1), reth=Reth(1, 2, 3)), "UC READ_REQUEST"),
        (IbPacket(Bth(-1, 1, 1)), "unknown opcode"),
        (
            replace(with_opcode(Opcode.READ_REQUEST), payload=b"x"),
            "carries no payload, but 1 bytes",
        ),
        (replace(WRITE, payload=bytes(4097)), "4,097 bytes is more than the largest path MTU"),
        (
            replace(WRITE, bth=replace(WRITE.bth, psn=1 << 24)),
            "BTH PSN 16777216 does not fit its 24 bits",
        ),
        (replace(WRITE, reth=Reth(1, 1 << 32, 1)), "RETH R_Key 4294967296"),
    ],
)
def test_packets_that_cannot_be_are_refused(packet, message):
    with pytest.raises(InputError, match=message):
        encode(packet, Envelope())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"source_ip": "10.0.0"}, "allowed: such as 10.0.0.1 or fd00::1"),
        ({"source_ip": "fd00::1"}, "of different versions"),
        ({"source_mac": "02:00"}, "'02:00' is no MAC address"),
        ({"source_mac": "02:00:00:00:00:zz"}, "is no MAC address"),
        ({"dscp": 64}, "IPv4 DSCP 64 does not fit its 6 bits"),
        ({"ttl": 256}, "IPv4 TTL 256"),
        ({"vlan": 4096}, "VLAN VID 4096"),
        ({"source_port": 65536}, "UDP Source Port 65536"),
        ({"carrier": Carrier.INFINIBAND, "source_lid": 65536}, "LRH SLID 65536"),
    ],
)
def test_envelopes_that_cannot_be_are_refused(change, message):
    with pytest.raises(InputError, match=message):
        encode(WRITE, replace(Envelope(), **change))


# ---------------------------------------------------------------- TCP


@pytest.mark.parametrize("name", ["rocev2-ipv4", "rocev2-ipv4-vlan", "rocev2-ipv6"])
def test_tcp_to_compare_with(name):
    data = encode_tcp(bytes(range(100)), ENVELOPES[name], sequence=7, acknowledgment=9, fcs=True)
    frame = decode(data, fcs=True)
    assert frame.problems == ()  # the checksum, too, is right
    assert frame.packet is None
    assert frame.envelope is None
    assert names(frame)[-4:] == ["TCP", "TCP options", "Payload", "FCS"]
    assert field(frame, "TCP", "Sequence Number").value == 7
    assert field(frame, "TCP", "ACK").value == 1
    assert field(frame, "TCP", "Data Offset").value == 8
    assert not any(view.masked for layer in frame.layers for view in layer.fields)
    assert covers(frame)


def test_tcp_costs_what_the_framing_says():
    from railweave.design.models import Transport
    from railweave.fabric.wire import framing

    payload = bytes(1000)
    gap = 8 + 12  # preamble and gap are no bytes of the frame
    tcp = encode_tcp(payload, Envelope(), fcs=True)
    assert len(tcp) - len(payload) + gap == framing(Transport.TCP).overhead_bytes
    middle = IbPacket(Bth(Opcode.WRITE_MIDDLE, 1, 1), payload=payload)
    roce = encode(middle, Envelope(), fcs=True)
    assert len(roce) - len(payload) + gap == framing(Transport.ROCEV2).overhead_bytes
    infiniband = encode(middle, Envelope(Carrier.INFINIBAND))
    assert len(infiniband) - len(payload) == framing(Transport.INFINIBAND).overhead_bytes


def test_tcp_that_cannot_be_is_refused():
    with pytest.raises(InputError, match="no TCP flag 'XXX'; allowed: CWR, ECE"):
        encode_tcp(b"", Envelope(), flags=("XXX",))
    with pytest.raises(InputError, match="TCP Sequence Number"):
        encode_tcp(b"", Envelope(), sequence=1 << 32)
    with pytest.raises(InputError, match="IPv4 Total Length"):
        encode_tcp(bytes(65536), Envelope())
    with pytest.raises(InputError):
        encode_tcp(b"", Envelope(), timestamps=(-1, 0))
    bare = decode(encode_tcp(b"", Envelope(), timestamps=None, flags=("SYN",)))
    assert names(bare) == ["Ethernet", "IPv4", "TCP", "Padding"]


# ---------------------------------------------------------------- speed


@pytest.mark.parametrize("name", ["rocev2-ipv4", "rocev2-ipv6", "rocev1", "infiniband"])
def test_four_mebibytes_at_the_smallest_mtu_are_written_in_well_under_a_second(name):
    envelope, payload = ENVELOPES[name], bytes(range(256))
    middle = [IbPacket(Bth(0x07, 17, psn), payload=payload) for psn in range(16384)]
    encode(middle[0], envelope)  # the first packet fills tables
    began = time.process_time()
    written = sum(len(encode(packet, envelope)) for packet in middle)
    assert time.process_time() - began < 0.8
    assert written > 4 << 20
