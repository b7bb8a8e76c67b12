"""scapy's view of our frames: equal fields, and an ICRC that scapy computes by itself."""

import sys
from dataclasses import asdict

import pytest
from hypothesis import given, settings
from test_codec import link_of

from railweave.errors import InputError, MissingProgramError
from railweave.transport.codec import Carrier, Envelope, LinkType, decode, encode
from railweave.transport.codec.headers import HEADERS, extended_headers
from railweave.transport.codec.scapy_layers import field_name, layer, to_scapy
from rdma_packets import ENVELOPES, OPCODES, envelopes, packets, with_opcode

roce = pytest.importorskip("scapy.contrib.roce")
inet = pytest.importorskip("scapy.layers.inet")
inet6 = pytest.importorskip("scapy.layers.inet6")
l2 = pytest.importorskip("scapy.layers.l2")
base = pytest.importorskip("scapy.packet")


def ours(packet):
    """Return what scapy calls the fields of a BTH, from our packet."""
    bth = packet.bth
    return {
        "opcode": bth.opcode,
        "solicited": bth.solicited,
        "migreq": bth.migrated,
        "padcount": -len(packet.payload) % 4,
        "version": 0,
        "pkey": bth.pkey,
        "fecn": bth.fecn,
        "becn": bth.becn,
        "dqpn": bth.dest_qp,
        "ackreq": bth.ack_request,
        "psn": bth.psn,
    }


def parts(seen):
    """Return the layers of a scapy packet."""
    while seen:
        yield seen
        seen = seen.payload


def added(packet):
    """Return the values of the extended headers of our packet, by header and field."""
    named = {
        "DETH": (packet.deth, {"qkey": "Q_Key", "source_qp": "SrcQP"}),
        "RETH": (packet.reth, {"va": "VA", "rkey": "R_Key", "length": "DMALen"}),
        "AETH": (packet.aeth, {"syndrome": "Syndrome", "msn": "MSN"}),
        "AtomicETH": (
            packet.atomic,
            {"va": "VA", "rkey": "R_Key", "swap": "SwapDt", "compare": "CmpDt"},
        ),
        "AtomicAckETH": (packet.atomic_ack, {"original": "OrigRemDt"}),
    }
    found = {
        name: {fields[key]: value for key, value in asdict(header).items()}
        for name, (header, fields) in named.items()
        if header is not None
    }
    if packet.immediate is not None:
        found["ImmDt"] = {"Immediate": packet.immediate}
    if packet.invalidate_rkey is not None:
        found["IETH"] = {"R_Key": packet.invalidate_rkey}
    if packet.bth.opcode == roce.CNP_OPCODE:
        found["CNP"] = {"Reserved": 0}
    return found


@given(packets(), envelopes())
@settings(deadline=None, max_examples=60)
def test_scapy_reads_the_same_fields(packet, envelope):
    data = encode(packet, envelope)
    seen = to_scapy(data, link=link_of(envelope))
    for name, value in ours(packet).items():
        assert getattr(seen[roce.BTH], name) == value, name
    for header, fields in added(packet).items():
        for name, value in fields.items():
            assert getattr(seen[header], field_name(name)) == value, (header, name)
    pad = bytes(-len(packet.payload) % 4)
    loads = [part.load for part in parts(seen) if type(part) is base.Raw]
    assert b"".join(loads) == packet.payload + pad
    assert seen[roce.BTH].icrc == decode(data, link=link_of(envelope)).icrc.found


@pytest.mark.parametrize("name", [n for n in ENVELOPES if n.startswith("rocev2")])
@pytest.mark.parametrize("opcode", OPCODES, ids=hex)
def test_scapy_computes_the_same_icrc(name, opcode):
    data = encode(with_opcode(opcode, b"some payload"), ENVELOPES[name])
    seen = l2.Ether(data)
    ip = seen.getlayer(inet.IP) or seen.getlayer(inet6.IPv6)
    found = seen[roce.BTH].icrc
    del seen[roce.BTH].icrc
    again = l2.Ether(bytes(seen))
    assert again[roce.BTH].icrc == found
    assert bytes(again)[14:] == bytes(seen)[14:]
    assert ip.dst == ENVELOPES[name].target_ip


@given(packets(), envelopes().filter(lambda e: e.carrier is Carrier.ROCEV2))
@settings(deadline=None, max_examples=60)
def test_scapy_computes_the_same_icrc_of_any_packet(packet, envelope):
    data = encode(packet, envelope)
    filled = [layer.start for layer in decode(data).layers if layer.name == "Padding"]
    seen = l2.Ether(data[: filled[0]] if filled else data)  # scapy would put its ICRC behind it
    found = seen[roce.BTH].icrc
    del seen[roce.BTH].icrc
    assert l2.Ether(bytes(seen))[roce.BTH].icrc == found


@pytest.mark.parametrize("opcode", OPCODES, ids=hex)
def test_layers_follow_the_opcode(opcode):
    seen = to_scapy(encode(with_opcode(opcode, b"abcd"), Envelope()))
    names = [kind.__name__ for kind in seen.layers()]
    wanted = list(extended_headers(opcode))
    assert names[4 : 4 + len(wanted)] == wanted
    assert bytes(seen) == encode(with_opcode(opcode, b"abcd"), Envelope())


def test_added_layers_have_the_bits_of_the_table():
    for name, form in HEADERS.items():
        made = layer(name)()
        assert len(made) == form.size_bytes
        assert [f.size for f in made.fields_desc] == [spec.bits for spec in form.fields]
    assert field_name("R_Key") == "r_key"
    assert field_name("Header Checksum") == "header_checksum"


def test_infiniband_with_lrh_grh_and_vcrc():
    envelope = ENVELOPES["infiniband-global"]
    data = encode(with_opcode(0x06, b"abcd"), envelope)
    seen = to_scapy(data, link=LinkType.INFINIBAND)
    assert [kind.__name__ for kind in seen.layers()] == [
        "LRH", "GRH", "BTH", "RETH", "Raw", "Padding",
    ]  # fmt: skip
    assert seen.dlid == envelope.target_lid
    assert seen["Padding"].load == data[-2:]
    assert to_scapy(b"abc", link=LinkType.INFINIBAND).load == b"abc"


def test_what_is_no_rdma_stays_what_scapy_makes_of_it():
    arp = bytes.fromhex("ffffffffffff0200000000010806") + bytes(46)
    assert "ARP" in to_scapy(arp)
    cut = encode(with_opcode(0x0A, b"abcd"), Envelope())[:60]
    assert to_scapy(cut)[roce.BTH].opcode == 0x0A


def test_what_cannot_be_is_refused():
    with pytest.raises(InputError, match="link type 101; allowed"):
        to_scapy(b"", link=LinkType.RAW_IP)
    with pytest.raises(InputError, match="no header 'XETH'; allowed: Ethernet"):
        layer("XETH")


def test_without_scapy_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "scapy.contrib.roce", None)
    with pytest.raises(MissingProgramError, match=r"pip install 'railweave\[packets\]'"):
        to_scapy(b"")
