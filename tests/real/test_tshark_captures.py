"""Wireshark's programs read the captures written here; theirs are read here, packet for packet."""

import os
import shutil
import subprocess
from collections import Counter

import pytest

from capture_files import every_kind
from railweave.formats.pcap import (
    CapturedPacket,
    CaptureFormat,
    CaptureReader,
    Interface,
    read_packets,
    write_pcap,
    write_pcapng,
)
from railweave.transport.capture import explain_capture, list_packets

pytestmark = pytest.mark.real

PROGRAMS = ("tshark", "capinfos", "editcap", "mergecap")
TIME = 1_700_000_000_123_456_789


@pytest.fixture(autouse=True, scope="module")
def programs():
    """Skip where one of the programs is missing, or fail where they must be there."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        said = f"not installed: {', '.join(missing)}"
        if os.environ.get("RAILWEAVE_REQUIRE_REAL"):
            pytest.fail(said)
        pytest.skip(said)


def run(*command):
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout


def fields(path, *names):
    """Return a row a packet of what tshark shows of these fields."""
    more = [part for name in names for part in ("-e", name)]
    text = run("tshark", "-n", "-r", path, "-T", "fields", "-E", "occurrence=f", *more)
    return [line.split("\t") for line in text.splitlines()]


@pytest.fixture
def mixed(tmp_path):
    return every_kind(tmp_path / "mixed.pcap")


@pytest.fixture
def packets(mixed):
    return list(read_packets(mixed))


def same(path, packets, unit=1):
    """Whether tshark shows the packets with their times, to a unit of ns, and lengths."""
    rows = fields(path, "frame.time_epoch", "frame.len", "frame.cap_len")
    shown = [(int(t.replace(".", "")) // unit, int(a), int(b)) for t, a, b in rows]
    return shown == [(p.time_ns // unit, p.original_bytes, len(p.data)) for p in packets]


@pytest.mark.parametrize("big_endian", [False, True])
@pytest.mark.parametrize("nanoseconds", [False, True])
def test_tshark_reads_pcap(tmp_path, packets, big_endian, nanoseconds):
    path = tmp_path / "a.pcap"
    write_pcap(path, packets, big_endian=big_endian, nanoseconds=nanoseconds)
    assert same(path, packets, 1 if nanoseconds else 1000)


@pytest.mark.parametrize("big_endian", [False, True])
def test_tshark_reads_pcapng_with_interfaces_and_comments(tmp_path, big_endian):
    path = tmp_path / "a.pcapng"
    interfaces = [
        Interface("leaf-1:port-3", description="towards spine-2"),
        Interface("micro", ticks_per_second=10**6),
        Interface("binary", ticks_per_second=2**20, snap_length=30),
    ]
    packets = [
        CapturedPacket(TIME + i * 10**9, 1, i % 3, bytes(40 + i), 40 + i, f"hop {i}")
        for i in range(9)
    ]
    write_pcapng(path, interfaces, packets, big_endian=big_endian, comment="all of it")
    rows = fields(path, "frame.interface_name", "frame.comment", "frame.len", "frame.cap_len")
    assert [row[:3] for row in rows] == [
        [interfaces[p.interface].name, p.comment, str(len(p.data))] for p in packets
    ]
    assert [row[3] for row in rows] == [
        "30" if p.interface == 2 else str(len(p.data)) for p in packets
    ]
    told = run("capinfos", path)
    assert "Capture application: railweave" in told
    assert "all of it" in told
    assert "towards spine-2" in told


def test_capinfos_counts_the_same(mixed):
    study = explain_capture(mixed)
    header, row = run("capinfos", "-T", "-M", "-c", "-d", "-u", "-a", "-e", mixed).splitlines()
    found = dict(zip(header.split("\t"), row.split("\t"), strict=True))
    assert int(found["Number of packets"]) == study.packets
    assert int(found["Data size (bytes)"]) == study.wire_bytes
    assert float(found["Capture duration (seconds)"]) == pytest.approx(study.duration_s, abs=1e-9)


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        ("pcapng", CaptureFormat.PCAPNG),
        ("pcap", CaptureFormat.PCAP),
        ("nsecpcap", CaptureFormat.PCAP),
        ("modpcap", CaptureFormat.PCAP),
    ],
)
def test_what_editcap_makes_is_read(tmp_path, mixed, packets, kind, form):
    path = tmp_path / "made"
    run("editcap", "-F", kind, mixed, path)
    with CaptureReader(path) as reader:
        found = list(reader.packets())
        assert reader.format is form
        assert reader.notes == []
    assert [(p.data, p.original_bytes) for p in found] == [
        (p.data, p.original_bytes) for p in packets
    ]
    unit = 1 if kind in {"pcapng", "nsecpcap"} else 1000
    assert [p.time_ns // unit for p in found] == [p.time_ns // unit for p in packets]


def test_what_editcap_cuts_cannot_be_checked_and_is_not_called_wrong(tmp_path, mixed):
    whole = explain_capture(mixed)
    run("editcap", "-s", "60", mixed, tmp_path / "cut.pcapng")
    cut = explain_capture(tmp_path / "cut.pcapng")
    assert cut.icrc_wrong == 0
    assert cut.icrc_unchecked == whole.rdma_packets
    assert [(m.operation, m.bytes, m.packets) for m in cut.messages] == [
        (m.operation, m.bytes, m.packets) for m in whole.messages
    ]


def test_what_mergecap_joins_is_read(tmp_path, mixed, packets):
    write_pcap(tmp_path / "b.pcap", packets, nanoseconds=False)
    run("mergecap", "-F", "pcapng", "-w", tmp_path / "both.pcapng", mixed, tmp_path / "b.pcap")
    study = explain_capture(tmp_path / "both.pcapng")
    assert study.packets == 2 * len(packets)
    assert len(study.interfaces) == 2
    assert {p.interface for p in study.queue_pairs} == {0, 1}


def test_tshark_and_the_explanation_count_the_same_packets(mixed):
    rows = fields(
        mixed, "frame.number", "infiniband.bth.opcode", "infiniband.bth.destqp",
        "infiniband.bth.psn", "tcp.port",
    )  # fmt: skip
    lines = list(list_packets(mixed))
    for (number, opcode, qp, psn, tcp), line in zip(rows, lines, strict=True):
        assert int(number) == line.number
        assert bool(opcode) == (line.qp >= 0)
        assert bool(tcp) == (line.kind == "TCP")
        if opcode:
            assert int(qp, 0) == line.qp
            assert f"PSN {int(psn)}" in line.info
    study = explain_capture(mixed)
    opcodes = Counter(int(row[1]) for row in rows if row[1])
    assert sum(p.acknowledgements for p in study.queue_pairs) == opcodes[17] + opcodes[18]
    assert sum(p.cnps for p in study.queue_pairs) == opcodes[129]
    syndromes = [int(row[0]) for row in fields(mixed, "infiniband.aeth.syndrome") if row[0]]
    naks = sum(syndrome >> 5 == 3 for syndrome in syndromes)
    assert sum(sum(p.naks.values()) for p in study.queue_pairs) == naks
    assert sum(p.rnr for p in study.queue_pairs) == sum(s >> 5 == 1 for s in syndromes)
