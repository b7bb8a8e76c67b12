"""tshark dissects what the encoder writes: nothing malformed, every field as it was meant."""

import os
import shutil
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from railweave.formats.pcap import CapturedPacket, LinkType, write_pcap
from railweave.transport.codec import Carrier, Envelope, cnp, decode, encode, encode_tcp, erf_record
from railweave.transport.codec.headers import opcode_name
from railweave.transport.packets import MTU_BYTES, Service
from railweave.transport.verbs.operation import Fault, Operation, OperationCase, run_operation
from rdma_packets import ENVELOPES, OPCODES, with_opcode

pytestmark = pytest.mark.real

CHECKS = ["ip.check_checksum:TRUE", "udp.check_checksum:TRUE", "tcp.check_checksum:TRUE"]
#: To guess whether a SEND carries RPC over RDMA, or a datagram EoIB, tshark 4.0 reads up to 16
#: bytes of the payload before it looks how long that is, and calls shorter ones malformed
NO_GUESS = ["--disable-protocol", "rpcordma", "--disable-protocol", "infiniband.eoib"]


def _below(prefix, names):
    return [f"{prefix}.{name}" for name in names.split()]


FIELDS = [
    *_below("_ws", "malformed expert.message"),
    *_below("eth", "src dst"),
    *_below("vlan", "id priority"),
    *_below("ip", "dsfield.dscp dsfield.ecn ttl id src dst checksum.status"),
    *_below("ipv6", "tclass.dscp tclass.ecn hlim flow src dst"),
    *_below("udp", "srcport dstport checksum.status"),
    *_below("infiniband.lrh", "vl sl lnh dlid slid pktlen"),
    *_below("infiniband.grh", "tclass flowlabel hoplmt sgid dgid"),
    *_below("infiniband.bth", "opcode se m padcnt p_key destqp a psn"),
    *_below("infiniband.deth", "q_key srcqp"),
    *_below("infiniband.reth", "va r_key dmalen"),
    *_below("infiniband.atomiceth", "swapdt cmpdt"),
    *_below("infiniband.aeth", "syndrome msn"),
    *_below("infiniband", "atomicacketh.origremdt immdt ieth invariant.crc variant.crc"),
    "data.data",
]
#: shown as text
TEXTS = {
    *_below("infiniband.grh", "sgid dgid"),
    *(f"{layer}.{end}" for layer in ("eth", "ip", "ipv6") for end in ("src", "dst")),
}
#: shown as bytes
BYTES = {"infiniband.immdt", "infiniband.ieth"}


@pytest.fixture(autouse=True, scope="module")
def program():
    if shutil.which("tshark"):
        return
    if os.environ.get("RAILWEAVE_REQUIRE_REAL") == "1":
        pytest.fail("tshark is not installed; tools/system-packages installs it")
    pytest.skip("tshark is not installed")


def dissect(path: Path, frames, link, *, options=NO_GUESS, fields=FIELDS):
    """Return what tshark says about each frame, as text by field; empty where it has none."""
    stamped = [
        CapturedPacket(1_700_000_000_000_000_000 + i * 1000, link, 0, data)
        for i, data in enumerate(frames)
    ]
    write_pcap(path, stamped, link_type=link)
    command = ["tshark", "-r", str(path), "-T", "fields", "-E", "separator=|"]
    command += ["-E", "occurrence=f", *options]
    for preference in CHECKS:
        command += ["-o", preference]
    for field in fields:
        command += ["-e", field]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [line.split("|") for line in done.stdout.splitlines()]
    assert len(rows) == len(frames)
    return [dict(zip(fields, row, strict=True)) for row in rows]


def reverse(envelope):
    """Return the envelope of the other direction."""
    return replace(
        envelope,
        source_mac=envelope.target_mac, target_mac=envelope.source_mac,
        source_ip=envelope.target_ip, target_ip=envelope.source_ip,
        source_lid=envelope.target_lid, target_lid=envelope.source_lid,
    )  # fmt: skip


def sizes(mtu):
    return sorted({0, 1, 2, 3, 4, 12, 13, 255, mtu - 1, mtu, mtu + 1, 3 * mtu + 5, 4 * mtu})


def cases(mtu):
    """Every operation of every service at sizes around the MTU, and every way to go wrong."""
    writes = (Operation.WRITE, Operation.WRITE_IMMEDIATE)
    sends = (Operation.SEND, Operation.SEND_IMMEDIATE)
    for operation in (*sends, *writes, Operation.READ):
        for size in sizes(mtu):
            yield OperationCase(operation, size, mtu)
            if operation is not Operation.READ:
                yield OperationCase(operation, size, mtu, Service.UC)
            if operation in sends and size <= mtu:
                yield OperationCase(operation, size, mtu, Service.UD)
    for operation in (Operation.COMPARE_SWAP, Operation.FETCH_ADD):
        yield OperationCase(operation, 8, mtu)
    yield OperationCase(Operation.WRITE, 100, mtu, fault=Fault.BAD_RKEY)
    yield OperationCase(Operation.READ, 100, mtu, fault=Fault.OUT_OF_BOUNDS)
    yield OperationCase(Operation.SEND, 100, mtu, fault=Fault.NO_RECEIVE)
    yield OperationCase(Operation.WRITE, 4 * mtu, mtu, fault=Fault.LOST_PACKET, lost_packet=1)
    yield OperationCase(Operation.SEND, 100, mtu, fault=Fault.SHORT_RECEIVE)


@cache
def exchanged(mtu):
    """Return the packets of all cases of an MTU with the host that sends each."""
    return [(sent.packet, sent.source) for case in cases(mtu) for sent in run_operation(case).sent]


def transport_fields(packet):
    """Return what tshark must show from the BTH on."""
    bth = packet.bth
    wanted = {
        "infiniband.bth.opcode": bth.opcode, "infiniband.bth.se": bth.solicited,
        "infiniband.bth.m": bth.migrated, "infiniband.bth.padcnt": -len(packet.payload) % 4,
        "infiniband.bth.p_key": bth.pkey, "infiniband.bth.destqp": bth.dest_qp,
        "infiniband.bth.a": bth.ack_request, "infiniband.bth.psn": bth.psn,
    }  # fmt: skip
    if deth := packet.deth:
        wanted |= {"infiniband.deth.q_key": deth.qkey, "infiniband.deth.srcqp": deth.source_qp}
    if reth := packet.reth:
        wanted |= {"infiniband.reth.va": reth.va, "infiniband.reth.r_key": reth.rkey}
        wanted |= {"infiniband.reth.dmalen": reth.length}
    if atomic := packet.atomic:
        wanted |= {"infiniband.reth.va": atomic.va, "infiniband.reth.r_key": atomic.rkey}
        wanted |= {"infiniband.atomiceth.swapdt": atomic.swap}
        wanted |= {"infiniband.atomiceth.cmpdt": atomic.compare}
    if aeth := packet.aeth:
        wanted |= {"infiniband.aeth.syndrome": aeth.syndrome, "infiniband.aeth.msn": aeth.msn}
    if ack := packet.atomic_ack:
        wanted["infiniband.atomicacketh.origremdt"] = ack.original
    if packet.immediate is not None:
        wanted["infiniband.immdt"] = packet.immediate
    if packet.invalidate_rkey is not None:
        wanted["infiniband.ieth"] = packet.invalidate_rkey
    return wanted


def network_fields(e):
    """Return what tshark must show of an envelope's IP, UDP or GRH."""
    if e.carrier is Carrier.INFINIBAND and not e.global_route:
        return {}
    if e.carrier is not Carrier.ROCEV2:
        gids = {} if ":" not in e.source_ip else {
            "infiniband.grh.sgid": e.source_ip, "infiniband.grh.dgid": e.target_ip,
        }  # fmt: skip
        return gids | {
            "infiniband.grh.tclass": e.dscp << 2 | e.ecn, "infiniband.grh.hoplmt": e.ttl,
            "infiniband.grh.flowlabel": e.flow_label,
        }  # fmt: skip
    ports = {"udp.srcport": e.source_port, "udp.dstport": 4791}
    if ":" in e.source_ip:
        return ports | {
            "ipv6.tclass.dscp": e.dscp, "ipv6.tclass.ecn": e.ecn, "ipv6.hlim": e.ttl,
            "ipv6.flow": e.flow_label, "ipv6.src": e.source_ip, "ipv6.dst": e.target_ip,
            "udp.checksum.status": 1,  # good
        }  # fmt: skip
    return ports | {
        "ip.dsfield.dscp": e.dscp, "ip.dsfield.ecn": e.ecn, "ip.ttl": e.ttl,
        "ip.id": e.identification, "ip.src": e.source_ip, "ip.dst": e.target_ip,
        "ip.checksum.status": 1, "udp.checksum.status": 3,  # good; not present
    }  # fmt: skip


def link_fields(data, e):
    """Return what tshark must show of an envelope's link header, and of the CRCs."""
    if e.carrier is Carrier.INFINIBAND:
        return {
            "infiniband.lrh.vl": e.virtual_lane, "infiniband.lrh.sl": e.service_level,
            "infiniband.lrh.lnh": 3 if e.global_route else 2, "infiniband.lrh.dlid": e.target_lid,
            "infiniband.lrh.slid": e.source_lid, "infiniband.lrh.pktlen": len(data) // 4,
            "infiniband.variant.crc": int.from_bytes(data[-2:], "big"),
            "infiniband.invariant.crc": int.from_bytes(data[-6:-2], "big"),
        }  # fmt: skip
    tag = {} if e.vlan is None else {"vlan.id": e.vlan, "vlan.priority": e.vlan_priority}
    ends = {"eth.src": e.source_mac, "eth.dst": e.target_mac}
    filled = len(data) == 60  # up to Ethernet's least size, so the ICRC is not the end
    icrc = decode(data).icrc.found if filled else int.from_bytes(data[-4:], "big")
    return tag | ends | {"infiniband.invariant.crc": icrc}


def shown(field, text):
    """Return the value of a field as tshark writes it."""
    if field in TEXTS:
        return text
    if field in BYTES:
        return int(text, 16)
    return {"True": 1, "False": 0}[text] if text in ("True", "False") else int(text, 0)


def hold_against(packet, envelope, seen):
    """Compare each field that tshark shows with what was encoded."""
    data = encode(packet, envelope)
    wanted = transport_fields(packet) | network_fields(envelope) | link_fields(data, envelope)
    name = opcode_name(packet.bth.opcode)
    for field, value in wanted.items():
        assert shown(field, seen[field]) == value, (name, field)
    absent = {field for field in FIELDS if field.startswith("infiniband.")} - set(wanted)
    gids = {"infiniband.grh.sgid", "infiniband.grh.dgid"}
    assert not [field for field in absent - gids if seen[field]], name
    if seen["data.data"]:
        pad = bytes(-len(packet.payload) % 4)
        assert bytes.fromhex(seen["data.data"]) == packet.payload + pad


def clean(seen):
    """Assert that tshark has nothing to complain about."""
    for row in seen:
        assert row["_ws.malformed"] == "", row
        assert row["_ws.expert.message"] == "", row


def captured(data, envelope):
    return erf_record(data) if envelope.carrier is Carrier.INFINIBAND else data


def link_of(envelope):
    return LinkType.ERF if envelope.carrier is Carrier.INFINIBAND else LinkType.ETHERNET


def compare(tmp_path, packets, envelope):
    """Encode packets that two hosts send to each other, and hold tshark's view against them."""
    ways = (envelope, reverse(envelope))
    frames = [captured(encode(packet, ways[source]), envelope) for packet, source in packets]
    seen = dissect(tmp_path / "case.pcap", frames, link_of(envelope))
    clean(seen)
    for (packet, source), row in zip(packets, seen, strict=True):
        hold_against(packet, ways[source], row)
    return seen


#: every MTU over IPv4 and IPv6; the smallest and the largest over all that can carry packets
MTU_AND_CARRIER = [
    (mtu, name)
    for mtu in MTU_BYTES
    for name in ENVELOPES
    if mtu in (MTU_BYTES[0], MTU_BYTES[-1]) or name in ("rocev2-ipv4", "rocev2-ipv6")
]


@pytest.mark.parametrize(("mtu", "name"), MTU_AND_CARRIER)
def test_every_operation_and_size_around_every_mtu(tmp_path, mtu, name):
    packets = exchanged(mtu)
    kinds = {packet.bth.opcode for packet, _ in packets}
    assert len(kinds) >= 35  # all of RC but the two with invalidate, UC and UD
    compare(tmp_path, packets, ENVELOPES[name])


@pytest.mark.parametrize("name", ENVELOPES)
def test_every_opcode(tmp_path, name):
    packets = [
        (with_opcode(opcode, bytes(range(n))), 0) for opcode in OPCODES[:-1] for n in (5, 64)
    ]
    compare(tmp_path, packets, ENVELOPES[name])


@pytest.mark.parametrize(
    ("operation", "mtu", "name"),
    [
        (Operation.WRITE, 256, "rocev2-ipv4"),
        (Operation.SEND, 4096, "rocev2-ipv6-vlan"),
        (Operation.READ, 1024, "rocev2-ipv4-vlan"),
        (Operation.WRITE_IMMEDIATE, 2048, "infiniband"),
        (Operation.SEND_IMMEDIATE, 512, "rocev1"),
    ],
)
def test_four_mebibytes(tmp_path, operation, mtu, name):
    run = run_operation(OperationCase(operation, 4 << 20, mtu, ack_every=256))
    packets = [(sent.packet, sent.source) for sent in run.sent]
    assert len(packets) > (4 << 20) // mtu
    compare(tmp_path, packets, ENVELOPES[name])


def test_marks_of_congestion(tmp_path):
    marked = with_opcode(0x07, bytes(64))
    envelope = Envelope(ecn=3)
    frames = [encode(marked, envelope), encode(cnp(0xD2), Envelope(dscp=48))]
    seen = dissect(tmp_path / "marks.pcap", frames, LinkType.ETHERNET)
    assert [row["ip.dsfield.ecn"] for row in seen] == ["3", "2"]
    assert seen[1]["ip.dsfield.dscp"] == "48"
    assert int(seen[1]["infiniband.bth.opcode"], 0) == 0x81
    assert int(seen[1]["infiniband.bth.destqp"], 0) == 0xD2
    assert seen[1]["_ws.malformed"] == ""


@pytest.mark.parametrize("name", ["rocev2-ipv4", "rocev2-ipv6", "rocev2-ipv4-vlan"])
def test_tcp(tmp_path, name):
    fields = ["_ws.malformed", "_ws.expert.message", "tcp.checksum.status", "tcp.seq_raw",
              "tcp.ack_raw", "tcp.len", "tcp.flags", "tcp.options.timestamp.tsval"]  # fmt: skip
    frames = [
        encode_tcp(
            bytes(size), ENVELOPES[name], sequence=0x1000 + at, acknowledgment=0x2000,
            timestamps=(7, 9),
        )
        for at, size in ((0, 1), (1, 100), (101, 1447), (1548, 8948))
    ]  # fmt: skip
    seen = dissect(tmp_path / "tcp.pcap", frames, LinkType.ETHERNET, fields=fields)
    assert [row["tcp.checksum.status"] for row in seen] == ["1"] * 4
    assert [row["_ws.malformed"] + row["_ws.expert.message"] for row in seen] == [""] * 4
    assert [int(row["tcp.seq_raw"]) for row in seen] == [0x1000, 0x1001, 0x1065, 0x160C]
    assert {row["tcp.flags"] for row in seen} == {"0x0018"}
    assert {row["tcp.options.timestamp.tsval"] for row in seen} == {"7"}
    assert [int(row["tcp.len"]) for row in seen] == [1, 100, 1447, 8948]


def test_fcs_is_good(tmp_path):
    envelopes = [e for e in ENVELOPES.values() if e.carrier is not Carrier.INFINIBAND]
    frames = [
        encode(with_opcode(code, bytes(n)), e, fcs=True)
        for e in envelopes
        for code in (0x04, 0x0A, 0x11)
        for n in (0, 1, 100)
    ]
    fields = ["eth.fcs.status", "_ws.malformed"]
    options = [*NO_GUESS, "-o", "eth.fcs:Always", "-o", "eth.check_fcs:TRUE"]
    seen = dissect(tmp_path / "fcs.pcap", frames, LinkType.ETHERNET, options=options, fields=fields)
    assert {row["eth.fcs.status"] for row in seen} == {"1"}
    assert {row["_ws.malformed"] for row in seen} == {""}


def test_as_tshark_comes_it_stumbles_over_short_sends_only(tmp_path):
    packets = [
        with_opcode(opcode, bytes(i % 251 for i in range(size)))
        for opcode in OPCODES
        for size in (0, 1, 12, 13, 100, 256)
    ]
    frames = [encode(packet, Envelope()) for packet in packets]
    seen = dissect(tmp_path / "all.pcap", frames, LinkType.ETHERNET, options=[])
    wrong = {i for i, row in enumerate(seen) if row["_ws.malformed"]}
    short = {
        i
        for i, packet in enumerate(packets)
        if (packet.bth.opcode in (0x02, 0x04, 0x16, 0x17) and len(packet.payload) <= 12)
        or (packet.service is Service.UD and not packet.payload)
    }
    assert wrong <= short  # a later tshark may have mended it
    said = {seen[i]["_ws.malformed"].split(",")[0] for i in wrong}
    assert said <= {"[Malformed Packet: RPCoRDMA]", "[Malformed Packet: Mellanox EoIB]"}
