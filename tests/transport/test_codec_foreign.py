"""Decoding what is foreign, damaged or cut off: sentences, never an error."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_codec import covers, field, link_of, names

from railweave.errors import InputError
from railweave.transport.codec import Envelope, LinkType, decode, encode, encode_tcp, erf_record
from railweave.transport.codec.headers import HEADERS
from railweave.transport.packets import Bth, IbPacket, Opcode, Reth
from rdma_packets import ENVELOPES, envelopes, packets, with_opcode

LINKS = [*LinkType, 0, 127, 105]
SEND = with_opcode(Opcode.SEND_ONLY, b"0123456789")


def sound(frame):
    """Tell whether a frame holds together, whatever is in it."""
    sentences = all(text[0].isupper() and text.endswith(".") for text in frame.problems)
    return covers(frame) and sentences


@given(st.binary(max_size=160), st.sampled_from(LINKS), st.booleans())
@settings(deadline=None)
def test_any_bytes(data, link, fcs):
    assert sound(decode(data, link=link, fcs=fcs))


@given(packets(), envelopes(), st.data())
@settings(deadline=None)
def test_cut_off_frames(packet, envelope, data):
    whole = encode(packet, envelope)
    size = data.draw(st.integers(0, len(whole) - 1))
    frame = decode(whole[:size], link=link_of(envelope))
    assert sound(frame)
    padding = decode(whole, link=link_of(envelope)).layers[-1].name == "Padding"
    assert frame.problems or padding
    if frame.packet is not None:
        assert packet.payload.startswith(frame.packet.payload)
        assert replace(frame.packet, payload=packet.payload) == packet


@given(packets(), envelopes(), st.data())
@settings(deadline=None)
def test_damaged_frames(packet, envelope, data):
    whole = bytearray(encode(packet, envelope, fcs=True))
    for _ in range(data.draw(st.integers(1, 4))):
        bit = data.draw(st.integers(0, len(whole) * 8 - 1))
        whole[bit // 8] ^= 0x80 >> bit % 8
    fcs = link_of(envelope) is LinkType.ETHERNET
    frame = decode(bytes(whole), link=link_of(envelope), fcs=fcs)
    assert sound(frame)
    if frame.data != encode(packet, envelope, fcs=True):
        assert frame.problems  # FCS and VCRC see every flip


@given(packets(), envelopes(), st.binary(min_size=1, max_size=60), st.integers(0, 80))
@settings(deadline=None)
def test_bytes_written_over(packet, envelope, junk, at):
    whole = bytearray(encode(packet, envelope))
    whole[at : at + len(junk)] = junk
    for link in LinkType:
        assert sound(decode(bytes(whole), link=link))


# ---------------------------------------------------------------- what is said


def said(data, **options):
    return " ".join(decode(data, **options).problems)


def patched(at, new, envelope=None, packet=SEND):
    data = bytearray(encode(packet, envelope or Envelope()))
    data[at : at + len(new)] = new
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "The frame ends within the Ethernet: 0 of 14 bytes are there."),
        (patched(12, b"\x08\x06"), "EtherType 0x0806 is neither IP nor RoCEv1; it holds no RDMA."),
        (patched(12, b"\x00\x40"), "The frame is of IEEE 802.3 with length 64; it holds no RDMA."),
        (patched(36, b"\x00\x35"), "UDP port 53 is not that of RoCEv2, 4791."),
        (patched(38, b"\x00\x09"), "The UDP header says 9 bytes, IP 36."),
        (patched(23, b"\x01"), "Protocol 1 over IPv4 is neither UDP nor TCP; it holds no RDMA."),
        (patched(24, b"\x00\x00"), "The checksum of the IPv4 header is wrong."),
        (patched(14, b"\x44"), "The IPv4 header has version 4 and 4 words; 4 and 5 or more."),
        (patched(14, b"\x4f"), "The frame ends within the options of the IPv4 header."),
        (patched(16, b"\x00\x00"), "The IPv4 header is shorter than its headers."),
        (patched(20, b"\x20"), "The packet is a fragment; fragments are not put together."),
        (patched(20, b"\x00\x05"), "The packet is a fragment; fragments are not put together."),
        (patched(42, b"\x15"), "The headers after the BTH are not known: unknown opcode 0x15."),
        (patched(42, b"\x2c"), "The headers after the BTH are not known: UC READ_REQUEST."),
        (patched(43, b"\x63"), "Transport version 3 is not known; 0 is the only one."),
        (patched(42, b"\x11"), "RC ACKNOWLEDGE carries no payload, but 8 bytes follow."),
        (patched(60, b"\xff"), "The ICRC is"),
        (patched(42, b"\x81"), "The frame ends within the CNP: 12 of 16 bytes are there."),
        (patched(60, b"\x01", packet=with_opcode(0x81)), "The reserved bytes of the CNP are not"),
        (patched(40, b"\x12\x34"), "The checksum of UDP is wrong; receivers of RoCEv2 ignore it."),
        (patched(14, b"\x75", ENVELOPES["rocev2-ipv6"]), "The IPv6 header has version 7."),
        (patched(14, b"\x50", ENVELOPES["rocev1"]), "The GRH is of version 5, not 6."),
        (patched(20, b"\x11", ENVELOPES["rocev1"]), "The GRH says that 0x11 follows,"),
        (patched(18, b"\x00\x0c", ENVELOPES["rocev1"]), "There is no room for an ICRC."),
    ],
)  # fmt: skip
def test_problems_in_sentences(data, sentence):
    assert sentence in said(data)
    assert sound(decode(data))


def test_problems_of_infiniband():
    good, link = ENVELOPES["infiniband"], LinkType.INFINIBAND
    assert "Link version 3 is not known" in said(patched(0, b"\x73", good), link=link)
    assert "The packet is raw" in said(patched(1, b"\x10", good), link=link)
    assert "The VCRC is" in said(patched(9, b"\x00", good), link=link)
    assert "The LRH is shorter than its headers." in said(patched(4, b"\0\1", good), link=link)
    data = encode(SEND, good)
    for cut in (1, 2):
        assert said(data[:-cut], link=link) == "The capture holds no VCRC."
        assert sound(decode(data[:-cut], link=link))
    assert "There is no room for an ICRC." in said(patched(4, b"\0\5", good), link=link)
    routed = patched(12, b"\0\1", ENVELOPES["infiniband-global"])
    assert "GRH and LRH do not agree on the length of the packet." in said(routed, link=link)
    assert names(decode(data + b"\0\0", link=link))[-2:] == ["VCRC", "Padding"]


def test_padding_that_is_not_there():
    data = patched(43, b"\x70", packet=IbPacket(Bth(Opcode.SEND_ONLY, 1, 1)))
    assert "The BTH says 3 bytes of padding, but only 0 are there." in said(data)
    data = bytearray(encode(SEND, Envelope()))
    data[17] -= 1
    assert "Payload and padding are not a multiple of four bytes." in said(bytes(data))


def test_a_capture_with_short_frames_still_gives_the_headers():
    packet = replace(with_opcode(Opcode.WRITE_FIRST, bytes(4096)), reth=Reth(0x7000, 9, 8192))
    frame = decode(encode(packet, Envelope())[:96])
    assert frame.packet.reth == packet.reth
    assert frame.packet.bth == packet.bth
    assert frame.packet.payload == bytes(96 - 70)
    assert frame.icrc is None
    assert frame.problems == (
        "The frame was cut off: 62 of the 4,136 bytes that the IPv4 header announces are there.",
    )


def test_vlan_tags_stack():
    data = encode(SEND, Envelope())
    tagged = data[:12] + bytes.fromhex("88a8600a81000014") + data[12:]
    frame = decode(tagged)
    assert names(frame)[:3] == ["Ethernet", "VLAN", "VLAN"]
    assert (frame.envelope.vlan, frame.envelope.vlan_priority) == (10, 3)
    assert frame.packet == SEND
    assert frame.problems == ("The frame has 2 VLAN tags; the envelope holds the first.",)


def test_ip_options_count_in_the_icrc_as_they_are():
    data = bytearray(encode(SEND, Envelope()))
    data[14], data[17] = 0x46, data[17] + 4
    data[34:34] = b"\x01\x01\x01\x00"
    frame = decode(bytes(data))
    assert names(frame)[1:4] == ["IPv4", "IPv4 options", "UDP"]
    assert frame.packet == SEND
    # the reference: ones for LRH and masked fields, options as they are
    import zlib

    ip = bytearray(data[14:38])
    ip[1] = ip[8] = ip[10] = ip[11] = 0xFF
    udp, bth = bytearray(data[38:46]), bytearray(data[46:58])
    udp[6:8], bth[4] = b"\xff\xff", 0xFF
    rest = bytes(data[58 : 34 + data[17] + data[16] * 256 - 4 - 20])
    total = zlib.crc32(b"\xff" * 8 + bytes(ip + udp + bth) + rest)
    assert frame.icrc.expected == int.from_bytes(total.to_bytes(4, "little"), "big")


@pytest.mark.parametrize(
    ("link", "head", "from_byte"),
    [
        (LinkType.RAW_IP, "", 14),
        (228, "", 14),
        (LinkType.LINUX_SLL, "0000000100060200000000010000" "0800", 14),
        (LinkType.LINUX_SLL2, "08000000" "00000002" "0001" "00" "06" "0200000000010000", 14),
        (LinkType.ERF, "00" * 8 + "02" "00" "0060" "0000" "0040" "0000", 0),
        (LinkType.ERF, "00" * 8 + "82" "00" "0060" "0000" "0040" + "80" + "00" * 15 + "0000", 0),
    ],
)  # fmt: skip
def test_other_link_types(link, head, from_byte):
    frame = decode(bytes.fromhex(head) + encode(SEND, Envelope())[from_byte:], link=link)
    assert frame.problems == ()
    assert frame.packet == SEND
    assert frame.icrc.ok
    assert covers(frame)


def test_infiniband_in_erf_records():
    data = encode(SEND, ENVELOPES["infiniband"])
    record = erf_record(data, 1_700_000_000_500_000_000)
    # seconds and their fraction of 2**32, least significant byte first
    assert record[:8] == (0x80000000).to_bytes(4, "little") + (1_700_000_000).to_bytes(4, "little")
    with pytest.raises(InputError):
        erf_record(data, -1)
    frame = decode(record, link=LinkType.ERF)
    assert frame.problems == ()
    assert frame.packet == SEND
    assert covers(frame)
    other = HEADERS["ERF"].pack(0, 0, 3, 4, 16 + len(data), 0, len(data))
    assert "Records of ERF type 3 are not decoded." in said(other + data, link=LinkType.ERF)


def test_unknown_link_types_and_empty_packets():
    assert "Link type 127 is not decoded; those that are: 1 (ETHERNET)" in said(b"abc", link=127)
    assert said(b"", link=LinkType.RAW_IP) == "The frame is empty."


def test_tcp_with_a_wrong_checksum_or_header():
    data = bytearray(encode_tcp(b"abc", Envelope()))
    data[50] ^= 1
    assert "was left to the adapter" in said(bytes(data))
    data[46] = 0xF0
    assert "A TCP header of 15 words does not fit the frame." in said(bytes(data))


def test_a_wrong_fcs_is_told():
    data = bytearray(encode(SEND, Envelope(), fcs=True))
    data[-1] ^= 1
    assert "The FCS is" in said(bytes(data), fcs=True)
    assert field(decode(bytes(data), fcs=True), "FCS", "FCS").value == int(data[-4:].hex(), 16)
