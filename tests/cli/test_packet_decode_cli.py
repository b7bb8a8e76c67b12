"""``railweave packet decode``: what it prints, what it refuses, Ctrl-C, closed pipes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from capture_files import O, Talk, every_kind
from golden_text import is_as_kept
from railweave.formats.pcap import CapturedPacket, Interface, write_pcap, write_pcapng
from rdma_packets import ENVELOPES

GOLDEN = Path(__file__).parents[1] / "golden"
MIXED = "tests/golden/mixed.pcap"
MARKED = "tests/golden/marked.pcap"


def make_kept(folder):
    """Write the captures that are kept in the folder of golden files."""
    every_kind(folder / "mixed.pcap")
    Talk().write(1, 3, ecn=3).ack(3).save(folder / "marked.pcap")


@pytest.fixture
def capture(tmp_path):
    """Return a function that saves a talk."""
    return lambda talk: str(talk.save(tmp_path / "talk.pcap"))


def test_kept_captures_are_those_that_the_tests_make(tmp_path):
    folder = GOLDEN if os.environ.get("RAILWEAVE_UPDATE_GOLDEN") else tmp_path
    make_kept(folder)
    for name in ("mixed.pcap", "marked.pcap"):
        assert (folder / name).read_bytes() == (GOLDEN / name).read_bytes()


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("packet-decode", ()),
        ("packet-decode-list", ("--packets", "--limit", "40")),
        ("packet-decode-one", ("--packet", "22")),
    ],
)
def test_printed_output_is_as_kept(cli, name, more):
    outcome = cli("packet", "decode", MIXED, *more)
    assert outcome.code == (0 if more else 1), outcome.err
    assert is_as_kept(outcome.out, GOLDEN / f"{name}.txt")


@pytest.mark.parametrize("more", [(), ("--packets",), ("--packet", "1")])
@pytest.mark.parametrize("name", ENVELOPES)
def test_lines_fit_80_columns(cli, capture, name, more):
    talk = Talk(ENVELOPES[name], qps=(0xFFFFFE, 0xABCDEF))
    talk.write(0xFFFFF0, 30, mtu=4096, lost=(3,)).ack(5, 0x62)
    outcome = cli("packet", "decode", capture(talk), *more)
    assert max(len(line) for line in outcome.out.splitlines()) <= 80


def test_errors_exit_1_and_warnings_only_with_strict(cli):
    assert cli("packet", "decode", MIXED).code == 1
    assert cli("packet", "decode", MARKED).code == 0
    assert cli("packet", "decode", MARKED, "--strict").code == 1


def test_json_is_the_explanation(cli):
    document = json.loads(cli("packet", "decode", MIXED, "--json").out)
    assert document["packets"] == 25
    assert document["icrc_wrong"] == 1
    assert [m["operation"] for m in document["messages"]][:2] == ["write", "read"]
    assert {f["id"] for f in document["findings"]} >= {"packet-loss-seen", "qp-error"}
    assert document["queue_pairs"][0]["source_qp"] == 0x11


def test_json_of_a_list_and_of_a_packet(cli):
    lines = json.loads(cli("packet", "decode", MIXED, "--packets", "--json").out)
    assert [line["number"] for line in lines] == list(range(1, 26))
    one = json.loads(cli("packet", "decode", MIXED, "--packet", "22", "--json").out)
    assert [layer["name"] for layer in one["layers"]][:4] == ["Ethernet", "IPv4", "UDP", "BTH"]
    assert one["icrc"]["ok"] is False
    assert bytes.fromhex(one["data"])[12:14] == b"\x08\x00"


@pytest.mark.parametrize("qp", ["17", "0x11"])
def test_one_queue_pair(cli, qp):
    document = json.loads(cli("packet", "decode", MIXED, "--qp", qp, "--json").out)
    assert [p["target_qp"] for p in document["queue_pairs"]] == [0x22, 0x11]
    lines = cli("packet", "decode", MIXED, "--packets", "--qp", qp).out.splitlines()
    assert lines
    assert all("qp 0x11" in line for line in lines if line[:7].strip())


def test_times_have_the_digits_of_the_file(cli, tmp_path):
    packets = Talk(step_ns=84).write(1, 3).packets
    for name, nanoseconds, times in (
        ("ns.pcap", True, ["0.000000000", "0.000000084", "0.000000168"]),
        ("us.pcap", False, ["0.000000"] * 3),
    ):
        write_pcap(tmp_path / name, packets, nanoseconds=nanoseconds)
        lines = cli("packet", "decode", str(tmp_path / name), "--packets").out.splitlines()
        assert [line.split()[1] for line in lines if line[:7].strip()] == times


def test_message_says_what_answered_it(cli, capture):
    talk = Talk().write(1, 2).request(O.FETCH_ADD, 3).atomic_ack(3)
    talk.request(O.SEND_ONLY, 4, 64).ack(4, 0x61).request(O.SEND_ONLY, 5, 64)
    out = cli("packet", "decode", capture(talk)).out
    rows = [line.split() for line in out.splitlines() if line.startswith("0.0")]
    assert [(row[2], row[-2], row[-1]) for row in rows] == [
        ("write", "yes", "ACK"), ("faa", "yes", "ACK"), ("send", "yes", "NAK"),
        ("send", "yes", "none"),
    ]  # fmt: skip
    assert rows[1][3:5] == ["8", "B"]
    assert "all seen: each packet is in the capture" in out


def test_dead_peer_is_an_error(cli, capture):
    talk = Talk(step_ns=131_000)
    for _ in range(4):
        talk.request(O.SEND_ONLY, 5, 64)
    outcome = cli("packet", "decode", capture(talk))
    assert outcome.code == 1
    assert "error peer-silent" in outcome.out


def test_throughput_tells_no_more_than_the_link_carries(cli, capture):
    talk = Talk(step_ns=84)
    for psn in range(0, 400, 40):
        talk.write(psn, 40, mtu=4096)
    out = " ".join(cli("packet", "decode", capture(talk)).out.split())
    most = float(out.split("most ")[1].split(" Gb/s")[0])
    assert 380 <= most <= 400


def test_list_says_how_it_goes_on(cli):
    out = cli("packet", "decode", MIXED, "--packets", "--limit", "3").out
    assert out.splitlines()[-1] == "From packet 4 on there are more: --start 4 goes on."
    assert cli("packet", "decode", MIXED, "--packets", "--start", "99").out == (
        "No packet is listed.\n"
    )


def test_packet_shows_comment_interface_and_what_was_cut(cli, tmp_path):
    path = tmp_path / "a.pcapng"
    packet = Talk().write(1, 1).packets[0]
    cut = CapturedPacket(0, 1, 0, packet.data[:90], len(packet.data), "hop 2")
    write_pcapng(path, [Interface("leaf-1:port-3")], [cut])
    out = cli("packet", "decode", str(path), "--packet", "1").out
    assert "90 of them kept" in out.replace("\n", " ")
    assert "interface: leaf-1:port-3" in out
    assert "comment: hop 2" in out


def test_cut_and_damaged_files_say_so(cli, tmp_path):
    path = tmp_path / "cut.pcap"
    path.write_bytes((GOLDEN / "marked.pcap").read_bytes()[:-20])
    outcome = cli("packet", "decode", str(path))
    assert outcome.code == 0
    assert "note: the file ends in the middle of packet 4" in outcome.out


def test_capture_without_rdma(cli, capture):
    outcome = cli("packet", "decode", capture(Talk().tcp().tcp()))
    assert outcome.code == 0
    assert "TCP 2" in outcome.out
    assert "Queue pairs" not in outcome.out


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("none.pcap", "none.pcap: No such file or directory"),
        ("tests", "tests: Is a directory"),
        ("pyproject.toml", "so it is no capture; allowed: a pcap or pcapng file"),
        (f"{MIXED} --packet 26", "has no packet 26; allowed: 1 to 25"),
        (f"{MIXED} --packet 0", "--packet"),
        (f"{MIXED} --packet 2 --packets", "--packets and --packet: that prints one packet"),
        (f"{MIXED} --packet 2 --qp 5", "--qp and --packet: that prints one packet"),
        (f"{MIXED} --packet 2 --limit 5 --strict", "--limit, --strict and --packet"),
        (f"{MIXED} --start 5", "--start speaks of the list of packets; add --packets"),
        (f"{MIXED} --packets --strict", "--strict speaks of findings"),
        (f"{MIXED} --qp twelve", "--qp twelve: is no queue pair number; allowed: 0 to 16,777,215"),
        (f"{MIXED} --qp 0x1000000", "is no queue pair number"),
        (f"{MIXED} --qp 5", "no packet of tests/golden/mixed.pcap goes to queue pair 0x5"),
        (f"{MIXED} --limit -1", "--limit"),
    ],
)
def test_refused(cli, line, said):
    outcome = cli("packet", "decode", *line.split())
    assert outcome.code == 2
    assert said in outcome.err
    assert outcome.out == ""
    assert "Traceback" not in outcome.err


def test_empty_capture(cli, tmp_path):
    write_pcap(tmp_path / "a.pcap", [])
    outcome = cli("packet", "decode", str(tmp_path / "a.pcap"))
    assert (outcome.code, outcome.out) == (2, "")
    assert "holds no packet" in outcome.err


def test_interruption_ends_with_a_sentence(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    running = subprocess.Popen(
        [sys.executable, "-m", "railweave", "packet", "decode", str(pipe)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with pipe.open("wb") as feed:  # Opening waits until the program reads.
        feed.write((GOLDEN / "marked.pcap").read_bytes())
        feed.flush()
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
    assert (running.returncode, out) == (130, "")
    assert "interrupted" in err
    assert "Traceback" not in err


def test_closed_pipe_is_no_error(capture):
    talk = Talk()
    for psn in range(3000):
        talk.request(O.SEND_ONLY, psn, 4)
    command = f"{sys.executable} -m railweave packet decode {capture(talk)} --packets --limit 3000"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command} | head -2"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 2
