"""What the explanation of a capture tells, on captures of which the truth is known."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capture_files import NAK_SEQUENCE, RNR, START_NS, A, B, O, Talk, every_kind
from railweave.errors import InputError
from railweave.findings import Severity
from railweave.formats.pcap import CapturedPacket, Interface, write_pcap, write_pcapng
from railweave.transport.capture import Pairing, explain_capture, list_packets, packet_at
from railweave.transport.codec import encode
from railweave.transport.packets import Aeth, Bth, Deth, IbPacket, Service
from rdma_packets import ENVELOPES


@pytest.fixture
def explain(tmp_path):
    """Return a function that explains a talk."""
    return lambda talk, **how: explain_capture(talk.save(tmp_path / "talk.pcap"), **how)


def ids(study):
    return {finding.id: finding for finding in study.findings}


def pair(study, target_qp=B):
    (found,) = [p for p in study.queue_pairs if p.target_qp == target_qp]
    return found


# ---------------------------------------------------------------- messages and queue pairs


def test_write_is_one_message_of_its_packets(explain):
    study = explain(Talk().write(100, 10, mtu=1024).ack(109))
    (message,) = study.messages
    assert (message.operation, message.bytes, message.declared_bytes) == ("write", 10240, 10240)
    assert (message.packets, message.psn, message.packet) == (10, 100, 1)
    assert message.complete
    assert (message.begin_ns, message.end_ns) == (START_NS + 1000, START_NS + 10_000)
    assert message.duration_s == pytest.approx(9e-6)
    there = pair(study)
    assert there.mtu_bytes == 1024
    assert there.payload_bytes == 10240
    assert there.rate_bps == pytest.approx(8 * 10240 / 9e-6)
    assert study.findings == ()
    assert (study.icrc_right, study.icrc_wrong, study.icrc_unchecked) == (11, 0, 0)


def test_directions_are_paired_and_name_both_ends(explain):
    study = explain(Talk().write(100, 3).ack(102))
    there, back = pair(study), pair(study, A)
    assert (there.reverse, back.reverse) == (back.number, there.number)
    assert there.pairing is Pairing.SEQUENCE
    assert there.title == "10.0.0.1 qp 0x11 → 10.0.0.2 qp 0x22"
    assert (there.source_qp, back.source_qp) == (A, B)


def test_operations_are_told_apart(explain):
    talk = Talk()
    talk.request(O.SEND_ONLY, 1, 100).write(2, 1).request(O.COMPARE_SWAP, 3).atomic_ack(3)
    talk.request(O.FETCH_ADD, 4).atomic_ack(4)
    talk.request(O.READ_REQUEST, 5, length=200).response(5, 1, mtu=200)
    study = explain(talk)
    assert [m.operation for m in study.messages] == ["send", "write", "cas", "faa", "read"]
    assert {o.name: o.messages for o in study.operations} == {
        "send": 1, "write": 1, "cas": 1, "faa": 1, "read": 1, "read-response": 1,
    }  # fmt: skip
    assert pair(study).operations == {"send": 1, "write": 1, "cas": 1, "faa": 1, "read": 1}


def test_empty_message_has_no_bytes(explain):
    (message,) = explain(Talk().request(O.SEND_ONLY, 1, 0)).messages
    assert (message.bytes, message.complete) == (0, True)


def test_padding_is_no_payload(explain):
    (message,) = explain(Talk().request(O.SEND_ONLY, 1, 13)).messages
    assert message.bytes == 13


def test_read_lasts_from_request_to_the_end_of_its_response(explain):
    talk = Talk().request(O.READ_REQUEST, 7, length=1000).response(7, 4, mtu=250)
    study = explain(talk)
    (message,) = study.messages
    assert (message.bytes, message.declared_bytes, message.packets) == (1000, 1000, 5)
    assert message.duration_s == pytest.approx(4e-6)
    assert message.complete


def test_read_without_response_is_not_complete(explain):
    (message,) = explain(Talk().request(O.READ_REQUEST, 7, length=1000)).messages
    assert (message.operation, message.bytes, message.complete) == ("read", 0, False)


def test_response_without_request_stands_alone(explain):
    (message,) = explain(Talk().response(7, 4)).messages
    assert (message.operation, message.complete) == ("read-response", True)


def test_response_from_before_its_request_is_of_another_one(explain):
    study = explain(Talk().response(7, 1).request(O.READ_REQUEST, 7, length=256))
    assert pair(study).reverse is not None
    assert [(m.operation, m.complete) for m in study.messages] == [
        ("read-response", True), ("read", False),
    ]  # fmt: skip


def test_requests_after_a_read_are_no_gap(explain):
    # The MTU is known from the write before it: 1,000 bytes are four PSNs.
    talk = Talk().write(1, 2).request(O.READ_REQUEST, 3, length=1000).write(7, 2)
    study = explain(talk)
    assert (pair(study).gaps, pair(study).missing) == (0, 0)


def test_requests_after_a_read_of_unknown_mtu_are_taken_as_they_come(explain):
    talk = Talk().request(O.READ_REQUEST, 3, length=1000).request(O.SEND_ONLY, 7, 8)
    assert pair(explain(talk)).gaps == 0


def test_short_read_takes_one_psn_whatever_the_mtu(explain):
    talk = Talk().request(O.READ_REQUEST, 3, length=256).request(O.SEND_ONLY, 5, 8)
    assert (pair(explain(talk)).gaps, pair(explain(talk)).missing) == (1, 1)


def test_psn_wraps(explain):
    study = explain(Talk().write(0xFFFFFE, 5).ack(2))
    (message,) = study.messages
    assert (message.packets, message.complete) == (5, True)
    assert study.findings == ()


def test_message_that_began_before_the_capture(explain):
    study = explain(Talk().write(1, 5, lost=(0, 1)))
    (message,) = study.messages
    assert (message.packets, message.complete, message.declared_bytes) == (3, False, None)
    assert pair(study).missing == 0


def test_message_that_is_cut_off_by_the_next(explain):
    study = explain(Talk().write(1, 3, lost=(2,)).write(4, 2))
    assert [(m.packets, m.complete) for m in study.messages] == [(2, False), (2, True)]


def test_datagrams_name_both_queue_pairs(explain):
    talk = Talk()
    for back, (to, source) in ((False, (B, A)), (True, (A, B))):
        bth = Bth(Service.UD << 5 | O.SEND_ONLY, to, 9)
        talk.put(IbPacket(bth, deth=Deth(1, source), payload=bytes(64)), back=back)
    study = explain(talk)
    assert [p.pairing for p in study.queue_pairs] == [Pairing.STATED] * 2
    assert [(p.source_qp, p.target_qp) for p in study.queue_pairs] == [(A, B), (B, A)]
    assert [m.operation for m in study.messages] == ["send", "send"]
    assert "one-way-capture" not in ids(study)


def test_several_connections_between_two_hosts_are_paired_by_psn(explain):
    first, second = Talk(), Talk(qps=(0x33, 0x44))
    first.write(100, 3).ack(102)
    second.time_ns = first.time_ns
    second.write(90_000, 3).ack(90_002)
    first.packets += second.packets
    study = explain(first)
    assert {(p.source_qp, p.target_qp) for p in study.queue_pairs} == {
        (A, B), (B, A), (0x33, 0x44), (0x44, 0x33),
    }  # fmt: skip


def test_connections_that_cannot_be_told_apart_are_not_paired(explain):
    first, second = Talk(), Talk(qps=(0x33, 0x44))
    first.write(100, 3)
    second.time_ns = first.time_ns
    second.write(100, 3).ack(102)
    first.packets += second.packets
    first.time_ns = second.time_ns
    first.ack(102)
    study = explain(first)
    assert [p.reverse for p in study.queue_pairs] == [None] * 4
    assert {p.pairing for p in study.queue_pairs} == {Pairing.UNKNOWN}


def test_one_queue_pair_each_way_belongs_together(explain):
    study = explain(Talk().request(O.SEND_ONLY, 5, 8).notify())
    assert {p.pairing for p in study.queue_pairs} == {Pairing.ONLY}


# ---------------------------------------------------------------- losses


def test_loss_before_the_capture_then_go_back(explain):
    talk = Talk().write(1, 6, lost=(2,)).ack(3, NAK_SEQUENCE)
    for psn, opcode in ((3, O.WRITE_MIDDLE), (4, O.WRITE_MIDDLE), (5, O.WRITE_MIDDLE)):
        talk.request(opcode, psn, 256)
    talk.request(O.WRITE_LAST, 6, 256).ack(6)
    study = explain(talk)
    there, back = pair(study), pair(study, A)
    assert (there.gaps, there.missing, there.late, there.again) == (1, 1, 1, 3)
    assert back.naks == {"PSN sequence error": 1}
    (message,) = study.messages
    assert (message.packets, message.bytes, message.again) == (6, 1536, 3)
    assert message.complete
    assert message.end_ns == START_NS + 11_000  # the last packet as it was sent again
    finding = ids(study)["packet-loss-seen"]
    assert finding.severity is Severity.ERROR
    assert "the loss was before this point" in finding.message
    assert "capture-incomplete" not in ids(study)


def test_first_packet_lost_before_the_capture(explain):
    talk = Talk().write(1, 6, lost=(0, 1)).ack(1, NAK_SEQUENCE).write(1, 6).ack(6)
    study = explain(talk)
    there = pair(study)
    assert (there.missing, there.late, there.again) == (2, 2, 4)
    (message,) = study.messages
    assert (message.packets, message.bytes, message.complete) == (6, 1536, True)
    assert "2 PSNs missing here" in ids(study)["packet-loss-seen"].message


def test_loss_behind_the_capture(explain):
    study = explain(Talk().write(1, 4).ack(2, NAK_SEQUENCE).write(1, 4).ack(4))
    assert (pair(study).again, pair(study).missing) == (4, 0)
    assert "behind this point" in ids(study)["packet-loss-seen"].message
    (message,) = study.messages
    assert (message.packets, message.again) == (4, 4)


def test_what_is_never_seen_was_missed_by_the_capture(explain):
    study = explain(Talk().write(1, 6, lost=(2, 3)).ack(6))
    assert pair(study).unfilled == 2
    assert ids(study)["capture-incomplete"].severity is Severity.WARNING
    assert "packet-loss-seen" not in ids(study)
    assert not study.messages[0].complete


def test_late_packets_alone_are_out_of_order(explain):
    talk = Talk().write(1, 5)
    talk.packets[1], talk.packets[2] = talk.packets[2], talk.packets[1]
    study = explain(talk)
    there = pair(study)
    assert (there.gaps, there.missing, there.late, there.again) == (1, 1, 1, 0)
    assert ids(study)["packets-out-of-order"].severity is Severity.INFO
    assert study.messages[0].complete
    assert study.messages[0].packets == 5


def test_packets_that_the_capture_sees_twice(explain):
    talk = Talk().write(1, 8)
    talk.packets = [packet for packet in talk.packets for _ in range(2)]
    study = explain(talk)
    assert (pair(study).again, pair(study).repeated) == (8, 8)
    assert "capture-sees-twice" in ids(study)
    assert "packet-loss-seen" not in ids(study)


def test_lost_read_response(explain):
    talk = Talk().request(O.READ_REQUEST, 7, length=1024).response(7, 4, lost=(1,))
    study = explain(talk)
    assert pair(study, A).missing == 1
    assert not study.messages[0].complete


def test_responses_to_several_reads_leave_no_gap(explain):
    talk = Talk().write(1, 2).request(O.READ_REQUEST, 3, length=512)
    talk.request(O.SEND_ONLY, 5, 8).request(O.READ_REQUEST, 6, length=256)
    study = explain(talk.response(3, 2).response(6, 1))
    assert [p.gaps for p in study.queue_pairs] == [0, 0]


def test_another_connection_with_the_same_number_is_no_loss(explain):
    study = explain(Talk().write(100, 3).write(5_000_000, 3).write(200, 3))
    there = pair(study)
    assert (there.restarts, there.missing, there.again) == (2, 0, 0)
    assert ids(study)["psn-jumps"].severity is Severity.INFO
    assert [m.complete for m in study.messages] == [True] * 3


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=12),
    st.integers(0, 0xFFFFFF),
    st.sets(st.integers(0, 60)),
    st.integers(150, 400),
)
def test_lost_packets_are_counted_whatever_the_chunks(tmp_path_factory, sizes, psn, lost, piece):
    talk, at = Talk(), 0
    total = sum(sizes)
    # The first and the last packet are seen: beyond them nothing can be known to be missing.
    lost = {i for i in lost if 0 < i < total - 1}
    for size in sizes:
        talk.write(psn + at, size, lost={i - at for i in lost})
        at += size
    path = talk.save(tmp_path_factory.mktemp("lost") / "talk.pcap")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("railweave.formats._pcap_classic._PIECE", piece)
        study = explain_capture(path)
    there = pair(study)
    assert there.missing == len(lost)
    assert (there.late, there.again, there.restarts) == (0, 0, 0)
    assert there.packets == total - len(lost)
    assert sum(m.packets for m in study.messages) == total - len(lost)
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    untouched = sum(
        not any(end - size <= i < end for i in lost) for end, size in zip(ends, sizes, strict=True)
    )
    assert sum(m.complete for m in study.messages) == untouched
    assert study == explain_capture(path)  # chunks change nothing


@pytest.mark.parametrize("piece", [400, 900, 1700])
def test_messages_go_on_from_chunk_to_chunk(explain, monkeypatch, piece):
    first, second = Talk(), Talk(qps=(0x33, 0x44))
    for talk, psn in ((first, 0), (second, 70_000)):
        for i in range(20):
            talk.write(psn + 5 * i, 5)
    both = zip(first.packets, second.packets, strict=True)
    first.packets = [packet for pair in both for packet in pair]
    monkeypatch.setattr("railweave.formats._pcap_classic._PIECE", piece)
    study = explain(first)
    assert len(study.messages) == 40
    assert {(m.packets, m.bytes, m.complete) for m in study.messages} == {(5, 1280, True)}


# ---------------------------------------------------------------- refusals, congestion, ICRC


@pytest.mark.parametrize(
    ("syndrome", "reason"),
    [
        (0x61, "invalid request"),
        (0x62, "remote access error"),
        (0x63, "remote operational error"),
        (0x64, "invalid RD request"),
        (0x7F, "reserved code"),
    ],
)
def test_fatal_nak(explain, syndrome, reason):
    study = explain(Talk().request(O.WRITE_ONLY, 5, 64).ack(5, syndrome))
    assert pair(study, A).naks == {reason: 1}
    finding = ids(study)["qp-error"]
    assert finding.severity is Severity.ERROR
    assert reason in finding.message
    assert "packet 2 at 0.000001 s" in finding.evidence
    assert study.refusals[0].what == f"NAK: {reason}"


def test_receiver_not_ready(explain):
    talk = Talk().request(O.SEND_ONLY, 5, 64).ack(5, RNR).request(O.SEND_ONLY, 5, 64).ack(5)
    study = explain(talk)
    assert pair(study, A).rnr == 1
    assert ids(study)["rnr"].severity is Severity.WARNING
    assert "1 packet sent again for it" in ids(study)["rnr"].message
    assert "packet-loss-seen" not in ids(study)  # sent again, but nothing was lost
    assert study.refusals[0].what == "RNR NAK, timer 12"


def test_cnp_tells_who_slows_down(explain):
    study = explain(Talk().write(1, 4, ecn=3).notify().notify())
    there, back = pair(study), pair(study, A)
    assert (there.marked, back.cnps) == (4, 2)
    assert "ecn-marked-without-cnp" not in ids(study)
    told = ids(study)["congestion-notified"]
    assert told.severity is Severity.INFO
    assert "10.0.0.1" in told.evidence
    assert [fault.number for fault in study.notifications] == [5, 6]


def test_marked_and_never_told(explain):
    finding = ids(explain(Talk().write(1, 4, ecn=3).ack(4)))["ecn-marked-without-cnp"]
    assert finding.severity is Severity.WARNING
    assert "4 packets" in finding.message


def test_marked_in_a_one_way_capture_says_nothing_of_cnps(explain):
    found = ids(explain(Talk().write(1, 4, ecn=3)))
    assert "ecn-marked-without-cnp" not in found
    assert "one-way-capture" in found


def test_not_ecn_capable(explain):
    study = explain(Talk().write(1, 4, ecn=0))
    assert "not-ecn-capable" in ids(study)
    assert pair(study).not_markable == 4


def test_wrong_icrc_is_counted_and_named(explain):
    talk = Talk().write(1, 30)
    talk.request(O.SEND_ONLY, 31, 40, wrong=True).request(O.SEND_ONLY, 32, 40)
    study = explain(talk)
    assert (study.icrc_right, study.icrc_wrong) == (31, 1)
    assert pair(study).icrc_wrong == 1
    finding = ids(study)["wrong-icrc"]
    assert finding.severity is Severity.ERROR
    assert "packet 31: ICRC 0x" in finding.evidence
    assert study.wrong_icrc[0].number == 31


def test_icrcs_that_are_all_wrong_are_not_those_of_the_wire(explain):
    talk = Talk()
    for psn in range(20):
        talk.request(O.SEND_ONLY, psn, 40, wrong=True)
    found = ids(explain(talk))
    assert "wrong-icrc" not in found
    assert found["icrc-not-of-the-wire"].severity is Severity.WARNING


def test_cut_packets_are_not_called_wrong(explain):
    study = explain(Talk().write(1, 4, mtu=1024, snap=90))
    assert (study.icrc_unchecked, study.icrc_wrong, study.cut_packets) == (4, 0, 4)
    assert "capture-cut-short" in ids(study)
    assert "wrong-icrc" not in ids(study)
    (message,) = study.messages
    assert (message.bytes, message.complete, message.declared_bytes) == (4096, True, 4096)


def test_packets_cut_inside_their_headers(explain):
    study = explain(
        Talk().request(O.WRITE_ONLY, 1, 64, snap=60).request(O.WRITE_ONLY, 2, 64, snap=50)
    )
    assert {kind.name: kind.packets for kind in study.kinds} == {
        "RoCEv2 over IPv4": 1, "cut before it can be told": 1,
    }  # fmt: skip
    assert study.messages[0].declared_bytes is None


# ---------------------------------------------------------------- classes, kinds, carriers


def test_usual_classes_say_nothing(explain):
    study = explain(Talk().write(1, 2).ack(2).notify().tcp())
    assert not {"cnp-class", "roce-class-not-usual", "tcp-in-roce-class"} & set(ids(study))
    assert [use.dscp for use in study.classes] == [{26: 2}, {26: 1}, {48: 1}, {0: 1}]


@pytest.mark.parametrize(
    ("talk", "found"),
    [
        (Talk().write(1, 2, dscp=0), "roce-in-best-effort"),
        (Talk().write(1, 2, dscp=24), "roce-class-not-usual"),
        (Talk().write(1, 2).notify(dscp=26), "cnp-class"),
        (Talk().write(1, 2).tcp(dscp=26), "tcp-in-roce-class"),
    ],
)
def test_unusual_classes(explain, talk, found):
    assert found in ids(explain(talk))


def test_cnps_behind_the_data_are_said(explain):
    study = explain(Talk().write(1, 2).notify(dscp=26))
    assert "behind which they wait" in ids(study)["cnp-class"].message


def test_tcp_is_counted(explain):
    study = explain(Talk().write(1, 2).tcp().tcp())
    assert {kind.name: kind.packets for kind in study.kinds}["TCP"] == 2
    assert any("TCP is counted" in note for note in study.notes)


@pytest.mark.parametrize("name", ENVELOPES)
def test_every_carrier(explain, name):
    study = explain(Talk(ENVELOPES[name]).write(100, 3).ack(102))
    assert study.icrc_right == 4
    (message,) = study.messages
    assert (message.bytes, message.complete) == (768, True)
    there = pair(study)
    assert there.pairing is Pairing.SEQUENCE
    envelope = ENVELOPES[name]
    assert there.vlan == (envelope.vlan or 0)
    if envelope.vlan is not None:
        assert study.classes[0].vlan_priority == {envelope.vlan_priority: 3}
    if name == "infiniband":
        assert (there.source, there.target) == (f"LID {0x17D2}", f"LID {0x375C}")
    else:
        assert (there.source, there.target) == (envelope.source_ip, envelope.target_ip)


def test_interfaces_are_judged_one_by_one(tmp_path):
    talk = Talk()
    for i in range(4):
        for interface in (0, 1):
            opcode = (O.WRITE_FIRST, O.WRITE_MIDDLE, O.WRITE_MIDDLE, O.WRITE_LAST)[i]
            talk.request(opcode, i, 256, length=1024, interface=interface)
    path = tmp_path / "two.pcapng"
    write_pcapng(path, [Interface("leaf-1"), Interface("leaf-2")], talk.packets)
    study = explain_capture(path)
    assert [(p.interface, p.again) for p in study.queue_pairs] == [(0, 0), (1, 0)]
    assert len(study.messages) == 2
    assert [i.name for i in study.interfaces] == ["leaf-1", "leaf-2"]


def test_directions_at_different_interfaces_belong_together(tmp_path):
    talk = Talk()
    talk.write(1, 3, interface=0).write(1, 3, interface=1)
    talk.ack(3, interface=2, ecn=2)
    path = tmp_path / "hops.pcapng"
    write_pcapng(path, [Interface("host"), Interface("leaf"), Interface()], talk.packets)
    study = explain_capture(path)
    assert [(p.place, p.source_qp, p.reverse) for p in study.queue_pairs] == [
        ("host", A, 2), ("leaf", A, 2), ("interface 2", B, 0),
    ]  # fmt: skip
    assert study.findings == ()
    assert study.queue_pairs[1].named.endswith("qp 0x22 at leaf")


def test_loss_between_two_places(tmp_path):
    talk = Talk()
    for psn, opcode in ((1, O.WRITE_FIRST), (2, O.WRITE_MIDDLE), (3, O.WRITE_LAST)):
        talk.request(opcode, psn, 256, length=768, interface=0)
        talk.request(opcode, psn, 256, length=768, interface=1, lost=psn == 2)
    talk.ack(2, NAK_SEQUENCE, interface=2)
    for psn, opcode in ((2, O.WRITE_MIDDLE), (3, O.WRITE_LAST)):
        for interface in (0, 1):
            talk.request(opcode, psn, 256, interface=interface)
    path = tmp_path / "hops.pcapng"
    write_pcapng(path, [Interface("host"), Interface("leaf"), Interface("back")], talk.packets)
    study = explain_capture(path)
    said = ids(study)["packet-loss-seen"].message
    assert said.startswith("2 packets sent again, 1 NAK ")  # not once for each place
    assert said.endswith("1 PSN lost between host and leaf")
    assert [m.complete for m in study.messages] == [True, True]


def test_unknown_opcode_and_lying_lengths_are_said(tmp_path):
    packet = encode(IbPacket(Bth(O.ACKNOWLEDGE, 5, 6), aeth=Aeth(0, 0)), Talk().there)
    odd, lying = bytearray(packet), bytearray(packet)
    odd[42] = 0xFE
    lying[39] += 4  # UDP's length
    path = tmp_path / "odd.pcap"
    write_pcap(path, [CapturedPacket(0, 1, 0, bytes(data)) for data in (odd, lying)])
    study = explain_capture(path)
    assert any("opcode that is not known" in note for note in study.notes)
    assert any("contradict each other" in note for note in study.notes)


def test_throughput_over_time_adds_up(explain):
    talk = Talk(step_ns=10_000)
    for psn in range(0, 3000, 10):
        talk.write(psn, 10)
    study = explain(talk)
    assert 120 <= len(study.steps) <= 240
    assert sum(step.rdma_bytes for step in study.steps) == study.rdma_bytes == 3000 * 256
    assert sum(step.packets for step in study.steps) == 3000
    assert study.steps[-1].begin_s < study.duration_s <= study.steps[-1].begin_s + study.step_s


def test_frames_have_a_row_each(tmp_path):
    study = explain_capture(every_kind(tmp_path / "all.pcap"))
    frame = study.message_frame()
    assert frame.height == len(study.messages)
    assert frame.filter(pl.col("operation") == "read")["bytes"].to_list() == [768]
    assert study.queue_pair_frame().height == len(study.queue_pairs) == 2
    assert study.queue_pair_frame()["packets"].sum() == study.rdma_packets


def test_something_of_everything(tmp_path):
    study = explain_capture(every_kind(tmp_path / "all.pcap"))
    assert {f.id for f in study.findings} == {
        "packet-loss-seen", "qp-error", "wrong-icrc", "rnr", "congestion-notified",
        "capture-cut-short",
    }  # fmt: skip
    assert study.to_json()["messages"][0]["operation"] == "write"


def test_messages_beyond_the_most_are_counted(explain):
    talk = Talk()
    for psn in range(50):
        talk.request(O.SEND_ONLY, psn, 8)
    study = explain(talk, most_messages=7)
    assert len(study.messages) == 7
    assert study.operations[0].messages == 50
    assert any("first 7" in note for note in study.notes)
    with pytest.raises(InputError, match="allowed: 0 or more"):
        explain(talk, most_messages=-1)


def test_flows_beyond_the_most_are_counted(explain, monkeypatch):
    talk = Talk()
    for qp in range(2, 12):
        talk.request(O.SEND_ONLY, 1, 8, to=qp)
    monkeypatch.setattr("railweave.transport.capture._flows.FlowTable.__init__.__defaults__", (4,))
    study = explain(talk)
    assert len(study.queue_pairs) == 4
    assert study.icrc_right == 10
    assert any("6 packets go to further queue pairs" in note for note in study.notes)


def test_no_packet_at_all(explain):
    with pytest.raises(InputError, match="holds no packet: it is a capture in which nothing"):
        explain(Talk())


def test_list_and_single_packets(tmp_path):
    path = every_kind(tmp_path / "all.pcap")
    lines = list(list_packets(path))
    study = explain_capture(path)
    assert [line.number for line in lines] == list(range(1, study.packets + 1))
    assert lines[0].info == "RC WRITE_FIRST, qp 0x22, PSN 100, 256 B"
    assert any(line.info.endswith("wrong ICRC") for line in lines)
    assert any("NAK: PSN sequence error" in line.info for line in lines)
    (tcp,) = [line for line in lines if line.kind == "TCP"]
    assert (tcp.source, tcp.target, tcp.qp) == ("10.0.0.1", "10.0.0.2", -1)
    assert [line.number for line in list_packets(path, start=5, limit=3)] == [5, 6, 7]
    assert {line.qp for line in list_packets(path, qp=A)} == {A}
    picked = packet_at(path, 5)
    assert picked.since_s == lines[4].time_s
    assert len(picked.packet.data) == lines[4].captured_bytes
    assert picked.interface == Interface(snap_length=0)
    with pytest.raises(InputError, match=f"has no packet 999; allowed: 1 to {study.packets}"):
        packet_at(path, 999)


def test_progress_reaches_the_end(explain):
    told = []
    explain(Talk().write(1, 5), progress=told.append)
    assert told[-1] == 1.0
