"""``railweave packet journey``: what people read, what machines read, and how wrong input ends.

``RAILWEAVE_UPDATE_GOLDEN=1`` writes the golden files anew.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from golden_text import is_as_kept
from railweave.formats.pcap import read_packets
from railweave.transport.codec import decode
from railweave.units import parse_seconds

DESIGN = "tests/golden/small.yaml"
GOLDEN = Path(__file__).parents[1] / "golden"
ENDS = ("--design", DESIGN, "--from", "node001/gpu0", "--to", "node003/gpu3")


def journey(cli, *words, ends=ENDS):
    return cli("packet", "journey", *ends, *words)


def found(cli, *words, ends=ENDS):
    outcome = journey(cli, *words, "--json", ends=ends)
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)


def test_what_people_read(cli):
    outcome = journey(cli, "--op", "write", "--size", "64KiB", "--mtu", "4096", "--events", "6")
    assert outcome.code == 0, outcome.err
    assert outcome.err == ""
    assert is_as_kept(outcome.out, GOLDEN / "packet-journey.txt")
    assert max(map(len, outcome.out.splitlines())) <= 80


def test_the_line_of_the_issue(cli, tmp_path):
    """Names of two digits are found, the five steps are told, the capture is written."""
    path = tmp_path / "out.pcap"
    outcome = cli(
        "packet", "journey", "--op", "write", "--size", "64KiB", "--mtu", "4096", "--design",
        DESIGN, "--from", "node01/gpu0", "--to", "node02/gpu3", "--pcap", str(path),
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    lines = outcome.out.splitlines()
    steps = ["register", "connect", "post", "transport", "complete"]
    assert [line for line in lines if line in steps] == steps
    assert "- node01/gpu0 is taken for node001/gpu0" in lines
    packets = list(read_packets(path))
    assert len(packets) == 17
    read = [decode(packet.data) for packet in packets]
    assert all(frame.icrc.ok and not frame.problems for frame in read)
    assert f"17 packets at node001/nic0:port-1 written to {path}" in lines


def test_the_columns_of_the_hops_add_up(cli):
    text = journey(cli, "--size", "4KiB").out
    table = text[text.index("Hops of packet 0") :].splitlines()[2:]
    rows = [line for line in table[: table.index("")] if line.endswith("s")][:6]
    sizes = []
    for row in rows:
        cells = row[27:].split("  ")
        times = [parse_seconds(cell) for cell in cells if cell.strip()[:1].isdigit()]
        sizes.append((sum(times[:-1]), times[-1]))
    assert len(sizes) > 4
    for parts, total in sizes:
        assert parts == pytest.approx(total, rel=1e-3)


def test_what_machines_read(cli):
    document = found(cli, "--size", "10000B", "--op", "read")
    assert document["operation"] == "read"
    assert (document["transport"], document["plane"]) == ("rocev2", "backend")
    assert document["packets"] == 1 + 3
    assert document["capture"] is None
    assert document["there"]["hops"][0]["medium"] == "PCIe"
    assert [hop["device"] for hop in document["there"]["hops"]] == [
        "NIC", "rail leaf", "spine", "rail leaf", "NIC", "GPU",
    ]  # fmt: skip
    total = sum(hop["total_s"] for hop in document["hop_times"])
    shown = document["packet_list"][document["shown_packet"]]
    assert shown["direction"] == "back"
    assert shown["sent_s"] + total == pytest.approx(shown["landed_s"])
    assert document["completions"] == [
        {
            "time_s": pytest.approx(document["completed_s"]),
            "end": "source",
            "status": "SUCCESS",
            "opcode": "rdma-read",
            "bytes": 10_000,
        }
    ]


def test_a_domain_is_answered(cli):
    outcome = journey(cli, ends=(*ENDS[:4], "--to", "node001/gpu5"))
    assert outcome.code == 0
    assert "share a server or scale-up domain: no packets" in " ".join(outcome.out.split())
    assert "Headers of packet" not in outcome.out


def test_a_long_name_of_a_port_keeps_the_table_narrow(cli):
    outcome = journey(
        cli,
        "--plane",
        "frontend",
        ends=("--design", DESIGN, "--from", "node001", "--to", "node002"),
    )
    assert outcome.code == 0, outcome.err
    assert "Wider terminals also show" in outcome.out
    assert max(map(len, outcome.out.splitlines())) <= 80


def test_a_document_of_many_packets_lists_some(cli):
    document = found(cli, "--size", "1MiB", "--mtu", "256")
    assert document["packets"] > len(document["packet_list"]) == 512


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--from", "node009/gpu0"), "there is no 'node009' in this fabric; did you mean 'node00"),
        (("--to", "node003/gpu9"), "did you mean 'node003/gpu"),
        (("--to", "spine-1"), "'spine-1' is a switch and ends no connection"),
        (("--to", "node1/gpu0"), "both ends are node001/gpu0"),
        (("--design", "nothing.yaml"), "nothing.yaml"),
        (("--size", "1GiB"), "allowed: 0 B to 64 MiB"),
        (("--size", "8MiB", "--mtu", "256"), "allowed: up to 4 MiB"),
        (("--size", "64"), "'64' is not a number with a unit"),
        (("--mtu", "1500"), "allowed: 256, 512, 1,024, 2,048, 4,096"),
        (("--op", "put"), "'put' is not one of"),
        (("--op", "cas", "--size", "16B"), "allowed: a size of 8 B"),
        (("--op", "read", "--service", "uc"), "UC has no operation read; allowed: send"),
        (("--op", "send", "--fault", "bad-rkey"), "does not apply to send"),
        (("--plane", "storage"), "no storage plane; it has: backend, frontend"),
        (("--plane", "frontend", "--op", "cas"), "TCP, which has no cas"),
        (("--queue-pair", "3"), "allowed: 0 to 0"),
        (("--pcap", "out.txt"), "ends in .pcap (one port) or .pcapng (every hop)"),
        (("--at", "leaf-1"), "--at says which port the capture is of; add --pcap FILE"),
        (("--lost-packet", "1"), "allowed with --fault lost-packet"),
        (("--fault", "lost-packet", "--lost-packet", "99"), "has 16 packets; allowed: 0 to 15"),
        (("--lost-at", "leaf-1"), "no packet is lost; choose one of the faults"),
        (("--queue", "1MB"), "add --congested PORT"),
        (("--congested", "spine-7"), "no packet leaves by it; allowed: node001/nic0:port-1"),
        (("--congested", "leaf-1", "--queue", "1 s"), "1 s"),
        (("--packet", "40"), "no packet 40; allowed: 0 to 16"),
        (("--seed", "-1"), "--seed"),
        (("--ip-version", "5"), "'5' is not one of"),
    ],
)
def test_wrong_input_ends_with_a_sentence(cli, words, says):
    outcome = journey(cli, *words)
    assert outcome.code == 2
    assert says in " ".join(outcome.err.split())
    assert outcome.out == ""
    assert "Traceback" not in outcome.err


def test_nothing_is_written_where_the_input_is_wrong(cli, tmp_path):
    path = tmp_path / "out.pcap"
    for words in (("--packet", "40"), ("--at", "spine-9"), ("--to", "node001/gpu3")):
        outcome = journey(cli, "--pcap", str(path), *words)
        assert outcome.code == 2
    assert list(tmp_path.iterdir()) == []
