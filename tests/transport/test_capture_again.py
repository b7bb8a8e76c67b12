"""Copies of a packet, and packets that were sent again; what was answered, and at which rate."""

from __future__ import annotations

from itertools import pairwise

import pytest

from capture_files import NAK_SEQUENCE, RNR, START_NS, A, B, O, Talk
from railweave.findings import Severity
from railweave.formats.pcap import CapturedPacket
from railweave.transport.capture import explain_capture

MS = 1_000_000


@pytest.fixture
def explain(tmp_path):
    """Return a function that explains a talk."""
    return lambda talk, **how: explain_capture(talk.save(tmp_path / "talk.pcap"), **how)


def ids(study):
    return {finding.id: finding for finding in study.findings}


def pair(study, target_qp=B):
    (found,) = [p for p in study.queue_pairs if p.target_qp == target_qp]
    return found


def later(talk, wait_ns):
    """Let time pass before the next packet."""
    talk.time_ns += wait_ns - talk.step_ns
    return talk


def seen_twice(talk, delay_ns):
    """Add a copy of each packet, seen at a second place so much later."""
    copies = [
        CapturedPacket(p.time_ns + delay_ns, p.link_type, p.interface, p.data, p.original_bytes)
        for p in talk.packets
    ]
    talk.packets = sorted([*talk.packets, *copies], key=lambda p: p.time_ns)
    return talk


# ---------------------------------------------------------------- copies, and what was sent again


def dead_peer(wait_ns=131_000, sends=4):
    talk = Talk().request(O.SEND_ONLY, 5, 64)
    for _ in range(sends - 1):
        later(talk, wait_ns).request(O.SEND_ONLY, 5, 64)
    return talk


def test_dead_peer_is_no_capture_that_sees_twice(explain):
    study = explain(dead_peer())
    there = pair(study)
    assert (there.again, there.repeated, there.retries) == (3, 0, 3)
    assert there.stuck_ns == START_NS + 1000 + 131_000
    assert "capture-sees-twice" not in ids(study)
    assert ids(study)["packet-loss-seen"].severity is Severity.ERROR
    silent = ids(study)["peer-silent"]
    assert silent.severity is Severity.ERROR
    assert "1 sender began anew up to 3 times" in silent.message
    assert "nothing of it is in the capture" in silent.message
    assert "3 retries" in silent.evidence


@pytest.mark.parametrize("piece", [150, 300, 700])
def test_chunks_change_nothing(explain, monkeypatch, piece):
    talks = (dead_peer(), seen_twice(Talk().write(1, 30), 4500))
    for talk in talks:
        whole = explain(talk)
        with monkeypatch.context() as patch:
            patch.setattr("railweave.formats._pcap_classic._PIECE", piece)
            assert explain(talk) == whole


def test_peer_that_died_meanwhile(explain):
    talk = Talk().write(1, 4).ack(4)
    for _ in range(3):
        later(talk, 4 * MS).write(5, 4)
    study = explain(talk)
    assert pair(study).retries == 2
    assert "it had answered before" in ids(study)["peer-silent"].message


def test_host_that_lives_while_one_of_its_queue_pairs_does_not(explain):
    talk, other = dead_peer(), Talk(qps=(0x33, 0x44))
    other.time_ns = talk.time_ns
    other.write(100, 2).ack(101)
    talk.packets += other.packets
    assert "the host still sends to others" in ids(explain(talk))["peer-silent"].message


def test_peer_that_answers_at_last_is_not_silent(explain):
    talk = later(dead_peer(), 1000).ack(5)
    assert "peer-silent" not in ids(explain(talk))
    assert "packet-loss-seen" in ids(explain(talk))


def test_sender_that_gets_on_is_not_stuck(explain):
    talk = dead_peer().request(O.SEND_ONLY, 6, 64)  # only one direction was captured
    study = explain(talk)
    assert pair(study).retries == 0
    assert "peer-silent" not in ids(study)


def test_atomic_sent_again_after_a_timeout_is_a_loss(explain):
    talk = later(Talk().request(O.FETCH_ADD, 9), 67 * MS).request(O.FETCH_ADD, 9).atomic_ack(9)
    study = explain(talk)
    assert {"packet-loss-seen"} == set(ids(study))
    assert "1 packet sent again" in ids(study)["packet-loss-seen"].message


@pytest.mark.parametrize("delay_ns", [0, 300, 4500, 90_000])
def test_copies_at_two_places_are_no_loss(explain, delay_ns):
    study = explain(seen_twice(Talk().write(1, 200).ack(200), delay_ns))
    assert (pair(study).again, pair(study).repeated) == (200, 200)
    assert set(ids(study)) == {"capture-sees-twice"}


def test_what_is_sent_again_is_found_among_copies(explain):
    talk = Talk().write(1, 200).ack(199)
    later(talk, 4 * MS).request(O.WRITE_LAST, 200, 256).ack(200)
    study = explain(seen_twice(talk, 2300))
    assert (pair(study).again, pair(study).repeated) == (202, 201)
    assert "1 packet sent again" in ids(study)["packet-loss-seen"].message
    assert "capture-sees-twice" in ids(study)


def test_other_bytes_are_no_copy(explain):
    # The identification of IP tells that the adapter sent it anew.
    talk = Talk()
    for psn in range(8):
        for identification in (2 * psn, 2 * psn + 1):
            talk.request(O.SEND_ONLY, psn, 64, identification=identification)
    study = explain(talk)
    assert pair(study).repeated == 0
    assert "packet-loss-seen" in ids(study)


def test_copies_of_cut_packets_are_known_by_their_time(explain):
    talk = seen_twice(Talk().write(1, 8, snap=80), 300)
    assert pair(explain(talk)).repeated == 8


@pytest.mark.parametrize("syndrome", [NAK_SEQUENCE, RNR])
def test_what_a_nak_asked_for_is_no_copy(explain, syndrome):
    talk = Talk().request(O.SEND_ONLY, 5, 64).ack(5, syndrome).request(O.SEND_ONLY, 5, 64).ack(5)
    assert "capture-sees-twice" not in ids(explain(talk))


# ---------------------------------------------------------------- what was answered


def test_answers(explain):
    talk = Talk().write(1, 3).request(O.SEND_ONLY, 4, 64).ack(4)
    talk.request(O.READ_REQUEST, 5, length=256).response(5, 1).request(O.FETCH_ADD, 6).atomic_ack(6)
    talk.write(7, 2).write(9, 3).request(O.SEND_ONLY, 12, 64).ack(10, 0x61)
    study = explain(talk)
    assert [(m.operation, m.answer) for m in study.messages] == [
        ("write", "acknowledged"), ("send", "acknowledged"), ("read", "acknowledged"),
        ("faa", "acknowledged"), ("write", "acknowledged"), ("write", "refused: invalid request"),
        ("send", "none"),
    ]  # fmt: skip
    assert all(m.complete for m in study.messages)  # all of it is in the capture
    assert study.message_frame()["answer"].to_list()[-1] == "none"
    assert "a SEND longer than the posted receive" in ids(study)["qp-error"].fix


def test_refusal_of_access_speaks_of_the_key(explain):
    fix = ids(explain(Talk().write(1, 1).ack(1, 0x62)))["qp-error"].fix
    assert "rkey" in fix
    assert "posted receive" not in fix


def test_receiver_that_never_gets_ready(explain):
    talk = Talk()
    for _ in range(3):
        later(talk, MS).request(O.SEND_ONLY, 5, 64).ack(5, RNR)
    study = explain(talk)
    assert [m.answer for m in study.messages] == ["receiver not ready"]
    assert not {"peer-silent", "packet-loss-seen", "capture-sees-twice"} & set(ids(study))
    assert [m.answer for m in explain(talk.request(O.SEND_ONLY, 5, 64).ack(5)).messages] == [
        "acknowledged"
    ]


def test_answers_that_cannot_be_known(explain):
    one_way = explain(Talk().write(1, 3))
    assert [m.answer for m in one_way.messages] == [""]
    unreliable = explain(Talk().request(O.SEND_ONLY, 1, 64, service=1).notify())
    assert [m.answer for m in unreliable.messages] == [""]
    cut = explain(Talk().write(1, 3).write(4, 1).ack(4, snap=54))
    assert [m.answer for m in cut.messages] == ["acknowledged", ""]


def test_answers_follow_the_psn_around(explain):
    study = explain(Talk().write(0xFFFFFE, 5).ack(2).write(3, 2))
    assert [m.answer for m in study.messages] == ["acknowledged", "none"]


def test_answers_of_another_connection_with_the_same_number(explain):
    talk = Talk().write(9_000_000, 3).ack(9_000_002).write(5, 2).ack(6).write(7, 2)
    assert [m.answer for m in explain(talk).messages] == ["", "acknowledged", "none"]


def test_atomics_have_eight_bytes(explain):
    talk = Talk().request(O.COMPARE_SWAP, 1).atomic_ack(1).request(O.FETCH_ADD, 2).atomic_ack(2)
    assert [m.bytes for m in explain(talk).messages] == [8, 8]


# ---------------------------------------------------------------- the most in a time


def test_peak_is_no_more_than_the_link_carries(explain):
    talk, wire_bps = Talk(step_ns=84), 400e9
    for psn in range(0, 400, 40):
        talk.write(psn, 40, mtu=4096)
    gaps = {b.time_ns - a.time_ns for a, b in pairwise(talk.packets)}
    assert gaps == {84}  # 4,096 bytes each: 390 Gb/s
    study = explain(talk)
    assert max(8 * step.rdma_bytes / study.step_s for step in study.steps) > wire_bps
    assert 385e9 <= study.peak_bps <= wire_bps
    assert study.peak_s >= 64 * 84e-9
    assert study.to_json()["peak_bps"] == study.peak_bps


def test_peak_of_a_burst_is_above_the_mean(explain):
    talk = Talk(step_ns=10_000).write(0, 300, mtu=1024)
    talk.step_ns = 1000
    talk.write(300, 300, mtu=1024)
    study = explain(talk)
    mean = 8 * study.rdma_bytes / study.duration_s
    assert 2 * mean < study.peak_bps <= 8 * 1024 / 1e-6 * 1.02


def test_few_packets_have_no_peak(explain):
    assert explain(Talk().write(1, 60)).peak_bps == 0


def test_notifications_are_no_payload(explain):
    study = explain(Talk().write(1, 3).notify().notify())
    assert sum(step.rdma_bytes for step in study.steps) == study.rdma_bytes == 768
    assert pair(study, A).cnps == 2
