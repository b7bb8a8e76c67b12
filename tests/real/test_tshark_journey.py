"""tshark reads the captures of journeys: no malformed packet, the same packets, the same fields."""

import os
import shutil
import subprocess

import pytest

import railweave
from railweave.transport.codec import decode
from railweave.transport.journey import JourneyCase, packet_journey
from railweave.transport.journey._frames import link_type
from railweave.transport.packets import CNP_OPCODE, MTU_BYTES
from railweave.transport.verbs.operation import Fault, Operation, OperationCase

pytestmark = pytest.mark.real

DESIGN = """
railweave: 1
name: captures
cluster:
  servers:
    count: 4
    inline: {{gpus: 2, nics: 2, nic_speed: 400 Gb/s, scale_up_bandwidth: 1 Tb/s}}
planes:
  backend:
    transport: {transport}
    topology: rail-optimized
    switch: {{radix: 8, speed: 400 Gb/s}}
    congestion: {{scheme: {scheme}}}
  frontend: {{transport: tcp, topology: star, switch: sn4700}}
"""
#: tshark 4.0 guesses that a SEND carries RPC over RDMA, and calls short ones malformed
NO_GUESS = ("--disable-protocol", "rpcordma", "--disable-protocol", "infiniband.eoib")
ENDS = ("node001/gpu0", "node002/gpu1")
FABRICS = {"ipv4": 4, "ipv6": 6, "infiniband": 0}
#: sizes of the issue: nothing, less than a word, whole packets and one more byte
SIZES = (0, 1, 3, 4097, 65_536)


@pytest.fixture(autouse=True, scope="module")
def programs():
    if shutil.which("tshark"):
        return
    if os.environ.get("RAILWEAVE_REQUIRE_REAL") == "1":
        pytest.fail("not installed: tshark; tools/system-packages installs it")
    pytest.skip("not installed: tshark")


@pytest.fixture(scope="module")
def designs():
    found = {}
    for name, transport, scheme in (
        ("roce", "rocev2", "pfc+dcqcn"),
        ("infiniband", "infiniband", "credits+cc"),
    ):
        found[name] = railweave.parse(DESIGN.format(transport=transport, scheme=scheme)).build()
    return found


def run(designs, fabric, op=Operation.WRITE, size=65_536, mtu=4096, **more):
    version = FABRICS[fabric]
    case = OperationCase(op, size, mtu_bytes=mtu, fault=more.pop("fault", Fault.NONE))
    given = JourneyCase(case, *ENDS, mtu_bytes=mtu, ip_version=version or 4, **more)
    return packet_journey(given, designs["roce" if version else "infiniband"])


def tshark(path, *fields):
    """Return the fields of every packet, and the packets that tshark calls malformed."""
    words = [word for field in (*fields, "_ws.malformed") for word in ("-e", field)]
    rows = [row.split("\t") for row in _call(path, "-T", "fields", *words)]
    return [row[:-1] for row in rows], [row for row in rows if row[-1]]


def _call(path, *words):
    done = subprocess.run(
        ["tshark", "-n", "-r", str(path), *NO_GUESS, *words],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


BTH = ("infiniband.bth.opcode", "infiniband.bth.destqp", "infiniband.bth.psn")


def agrees(found, path):
    """Hold a capture against the journey: every packet, its opcode, queue pair and PSN."""
    rows, bad = tshark(path, *BTH, "infiniband.invariant.crc")
    assert bad == []
    frames = list(found.frames())
    assert len(rows) == len(frames)
    link = link_type(found)
    for row, frame in zip(rows, frames, strict=True):
        bth = found.packets[frame.packet].bth
        assert [int(value, 0) for value in row[:3]] == [bth.opcode, bth.dest_qp, bth.psn]
        if bth.opcode != CNP_OPCODE:  # tshark 4.0 takes a CNP for an unknown opcode
            assert int(row[3], 0) == decode(frame.data, link=link).icrc.found
    return True


@pytest.mark.parametrize("fabric", FABRICS)
@pytest.mark.parametrize("op", [op for op in Operation if op.value not in ("cas", "faa")])
@pytest.mark.parametrize("size", SIZES)
def test_every_operation_of_every_size(designs, tmp_path, fabric, op, size):
    found = run(designs, fabric, op, size)
    found.write(tmp_path / "a.pcap")
    assert agrees(found, tmp_path / "a.pcap")


@pytest.mark.parametrize("fabric", FABRICS)
@pytest.mark.parametrize("op", [Operation.SEND, Operation.WRITE, Operation.READ])
def test_four_mebibytes(designs, tmp_path, fabric, op):
    found = run(designs, fabric, op, 4 << 20)
    found.write(tmp_path / "a.pcap")
    assert agrees(found, tmp_path / "a.pcap")


@pytest.mark.parametrize("fabric", FABRICS)
@pytest.mark.parametrize("op", [Operation.COMPARE_SWAP, Operation.FETCH_ADD])
def test_atomics(designs, tmp_path, fabric, op):
    found = run(designs, fabric, op, 8)
    found.write(tmp_path / "a.pcap")
    assert agrees(found, tmp_path / "a.pcap")


@pytest.mark.parametrize("fabric", FABRICS)
@pytest.mark.parametrize("mtu", MTU_BYTES)
def test_every_mtu(designs, tmp_path, fabric, mtu):
    found = run(designs, fabric, size=50_001, mtu=mtu)
    found.write(tmp_path / "a.pcap")
    assert agrees(found, tmp_path / "a.pcap")


@pytest.mark.parametrize("fabric", FABRICS)
@pytest.mark.parametrize("fault", [Fault.BAD_RKEY, Fault.LOST_PACKET, Fault.LOST_ACK])
def test_faults(designs, tmp_path, fabric, fault):
    found = run(designs, fabric, fault=fault)
    found.write(tmp_path / "a.pcap")
    assert agrees(found, tmp_path / "a.pcap")


@pytest.mark.parametrize("fabric", FABRICS)
def test_every_hop_is_an_interface(designs, tmp_path, fabric):
    found = run(designs, fabric, size=20_000)
    path = tmp_path / "a.pcapng"
    count, ports = found.write(path)
    rows, bad = tshark(path, "frame.interface_name")
    assert bad == []
    assert len(rows) == count
    assert {row[0] for row in rows} == set(ports)
    hops = len(found.ways[0].network)
    assert count == hops * len(found.packets)


@pytest.mark.parametrize("fabric", ["ipv4", "ipv6"])
def test_what_a_hop_rewrites(designs, tmp_path, fabric):
    found = run(designs, fabric, size=1000, congested="leaf-1")
    path = tmp_path / "a.pcapng"
    found.write(path)
    at = "ip.ttl" if fabric == "ipv4" else "ipv6.hlim"
    ecn = "ip.dsfield.ecn" if fabric == "ipv4" else "ipv6.tclass.ecn"
    rows, bad = tshark(path, "frame.interface_name", BTH[0], at, ecn, "eth.src", "eth.dst")
    assert bad == []
    way = found.ways[0]
    data = {row[0]: row[2:] for row in rows if int(row[1], 0) == found.packets[0].bth.opcode}
    for place in way.network:
        hop = way.hops[place]
        mark = 3 if place >= found.congestion.place else 2
        ttl, seen, *macs = data[hop.port]
        assert (int(ttl), int(seen, 0), macs) == (hop.ttl, mark, [hop.source_mac, hop.target_mac])
    cnp = [row for row in rows if int(row[1], 0) == CNP_OPCODE]
    assert len(cnp) == len(found.ways[1].network)


def test_lids(designs, tmp_path):
    found = run(designs, "infiniband", Operation.READ, 10_000)
    found.write(tmp_path / "a.pcap")
    rows, bad = tshark(tmp_path / "a.pcap", "infiniband.lrh.slid", "infiniband.lrh.dlid")
    assert bad == []
    way = found.ways[0]
    assert [int(v, 0) for v in rows[0]] == [way.source_lid, way.target_lid]
    assert [int(v, 0) for v in rows[-1]] == [way.target_lid, way.source_lid]


def test_tcp(designs, tmp_path):
    case = OperationCase(Operation.WRITE, 500_000)
    plane = railweave.fabric.PlaneId.FRONTEND
    found = packet_journey(JourneyCase(case, "node001", "node002", plane=plane), designs["roce"])
    path = tmp_path / "a.pcap"
    found.write(path)
    rows, bad = tshark(path, "tcp.flags.str", "tcp.len", "tcp.analysis.flags")
    assert bad == []
    assert len(rows) == len(found.run.segments)
    assert sum(int(row[1]) for row in rows) == 500_000
    assert all(row[2:] in ([], [""]) for row in rows)  # nothing lost, repeated or out of order
    bad_sums = _call(path, "-o", "tcp.check_checksum:TRUE", "-Y", "tcp.checksum.status == 0")
    assert bad_sums == []
