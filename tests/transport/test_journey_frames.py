"""The frames of journeys: what each hop rewrites, what it leaves, and captures read back."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from _journey_designs import infiniband, roce

from railweave.errors import InputError
from railweave.formats.pcap import CaptureReader
from railweave.transport.codec import Carrier, LinkType, decode
from railweave.transport.journey import JourneyCase, packet_journey
from railweave.transport.journey._capture import CAPTURE_START_NS
from railweave.transport.packets import CNP_OPCODE, Service
from railweave.transport.verbs.operation import Fault, Operation, OperationCase

ENDS = ("node001/gpu0", "node002/gpu3")
SIZE = 10_000
EACH = [
    (Operation.SEND, SIZE),
    (Operation.SEND_IMMEDIATE, SIZE),
    (Operation.WRITE, SIZE),
    (Operation.WRITE_IMMEDIATE, 1),
    (Operation.READ, SIZE),
    (Operation.COMPARE_SWAP, 8),
    (Operation.FETCH_ADD, 8),
]


def journey(design, op=Operation.WRITE, size=SIZE, *, ends=ENDS, service=Service.RC, **more):
    case = OperationCase(op, size, service=service, fault=more.pop("fault", Fault.NONE))
    return packet_journey(JourneyCase(case, *ends, **more), design)


def hop_frames(found, packet):
    """Return a packet's frame on every link that it crosses, in order."""
    frames = [f for point in found.viewpoints() for f in found.frames(point.name)]
    mine = [f for f in frames if f.packet == packet and f.sent]
    return [f.data for f in sorted(mine, key=lambda f: f.place)]


@pytest.mark.parametrize(("op", "size"), EACH, ids=[op.value for op, _ in EACH])
@pytest.mark.parametrize("version", [4, 6, 0], ids=["ipv4", "ipv6", "infiniband"])
def test_frames_decode_to_the_packets_that_were_sent(op, size, version):
    found = journey(
        roce() if version else infiniband(),
        op,
        size,
        **({"ip_version": version} if version else {}),
    )
    link = LinkType.ETHERNET if version else LinkType.INFINIBAND
    seen = list(found.frames())
    assert sorted(f.packet for f in seen) == list(range(len(found.packets)))
    for frame in seen:
        read = decode(frame.data, link=link)
        assert read.problems == ()
        assert read.icrc.ok
        sent = found.packets[frame.packet]
        assert replace(read.packet, bth=replace(read.packet.bth, pad=sent.bth.pad)) == sent
        carrier = Carrier.ROCEV2 if version else Carrier.INFINIBAND
        assert read.envelope.carrier is carrier


@pytest.mark.parametrize("version", [4, 6])
def test_hops_rewrite_macs_and_ttl_and_leave_the_icrc(version):
    found = journey(roce(), ip_version=version)
    way = found.ways[0]
    frames = hop_frames(found, 0)
    assert len(frames) == len(way.network)
    reads = [decode(data) for data in frames]
    for read, place in zip(reads, way.network, strict=True):
        hop = way.hops[place]
        envelope = read.envelope
        assert (envelope.source_mac, envelope.target_mac) == (hop.source_mac, hop.target_mac)
        assert envelope.ttl == hop.ttl
        assert (envelope.source_ip, envelope.target_ip) == (way.source_ip, way.target_ip)
        assert (envelope.dscp, envelope.ecn) == (26, 0b10)
        assert envelope.source_port == way.source_port
    assert len({data[-4:] for data in frames}) == 1  # the ICRC, at every hop
    assert len(set(frames)) == len(frames)
    header = 14 + (20 if version == 4 else 40)
    assert len({data[header:] for data in frames}) == 1


def test_a_mark_shows_from_its_hop_on_and_leaves_the_icrc():
    found = journey(roce(), congested="spine-1")
    place = found.congestion.place
    reads = [decode(data) for data in hop_frames(found, 0)]
    ecn = [read.envelope.ecn for read in reads]
    first = place - found.ways[0].network[0]
    assert ecn == [0b10] * first + [0b11] * (len(ecn) - first)
    assert len({read.data[-4:] for read in reads}) == 1
    assert not any(read.packet.bth.fecn for read in reads)
    cnp = next(n for n, p in enumerate(found.packets) if p.bth.opcode == CNP_OPCODE)
    for data in hop_frames(found, cnp):
        read = decode(data)
        assert (read.envelope.dscp, read.envelope.ecn) == (48, 0)
        assert (read.packet.bth.becn, read.packet.bth.dest_qp) == (True, found.queue_pairs[0])
        assert read.icrc.ok


def test_infiniband_hops_leave_all_but_a_mark():
    plain = journey(infiniband())
    assert len(set(hop_frames(plain, 0))) == 1
    marked = journey(infiniband(), congested="leaf-1")
    frames = hop_frames(marked, 0)
    reads = [decode(data, link=LinkType.INFINIBAND) for data in frames]
    assert [read.packet.bth.fecn for read in reads] == [False, True, True, True]
    assert all(read.icrc.ok and not read.problems for read in reads)  # the VCRC among them
    assert len({data[-6:-2] for data in frames}) == 1
    assert len({data[-2:] for data in frames}) == 2
    lids = {(read.envelope.source_lid, read.envelope.target_lid) for read in reads}
    assert lids == {(marked.ways[0].source_lid, marked.ways[0].target_lid)}


def test_a_port_sees_what_it_sends_and_what_comes_in():
    found = journey(roce())
    way = found.ways[0]
    sender = list(found.frames())
    assert [f.sent for f in sender] == [True] * 3 + [False]
    assert {f.port for f in sender} == {way.hops[1].port}
    target = list(found.frames(ENDS[1]))
    assert [f.sent for f in target] == [False] * 3 + [True]
    hop = way.hops[way.network[-1]]
    assert target[0].time_s == found.times.start_s[0, way.network[-1]] + hop.propagation_s
    assert sender[0].time_s == found.times.start_s[0, 1]
    for at in ("node001", "node001/nic0", way.hops[1].port):
        assert [f.data for f in found.frames(at)] == [f.data for f in sender]
    with pytest.raises(InputError, match="no packet of this journey passes 'leaf-1'; allowed: "):
        list(found.frames("leaf-1"))


def test_a_lost_packet_is_seen_before_its_loss_only():
    found = journey(roce(), fault=Fault.LOST_PACKET, lost_at="spine-1")
    way = found.ways[0]
    place = int(found.times.lost_at[0])
    seen = {
        point.name: [f.packet for f in found.frames(point.name)] for point in found.viewpoints()
    }
    assert 0 in seen[way.hops[place].port]
    assert 0 not in seen[way.hops[place].port_in]
    assert 0 not in seen[way.hops[place + 1].port]
    assert 0 in seen[way.hops[place - 1].port_in]


@pytest.mark.parametrize("design", [roce(), infiniband()], ids=["rocev2", "infiniband"])
def test_a_pcap_file_holds_one_port(design, tmp_path):
    found = journey(design)
    path = tmp_path / "one.pcap"
    count, ports = found.write(path)
    frames = list(found.frames())
    assert (count, ports) == (len(frames), (found.ways[0].hops[1].port,))
    with CaptureReader(path) as reader:
        packets = list(reader.packets())
        assert reader.notes == []
    skip = 16 if found.transport.value == "infiniband" else 0  # of an ERF record
    assert [p.data[skip:] for p in packets] == [f.data for f in frames]
    read = [decode(p.data, link=p.link_type) for p in packets]
    assert [r.packet.bth.psn for r in read] == [found.packets[f.packet].bth.psn for f in frames]
    assert all(r.icrc.ok and not r.problems for r in read)
    times = [CAPTURE_START_NS + round(f.time_s * 1e9) for f in frames]
    assert [p.time_ns for p in packets] == times


def test_a_pcapng_file_holds_every_hop_as_an_interface(tmp_path):
    found = journey(roce(), Operation.READ)
    path = tmp_path / "all.pcapng"
    count, ports = found.write(path)
    with CaptureReader(path) as reader:
        packets = list(reader.packets())
        names = tuple(interface.name for interface in reader.interfaces)
    assert names == ports
    expected = {way.hops[place].port for way in found.ways for place in way.network}
    assert set(names) == expected
    back = int(np.sum(found.times.direction == 1))
    assert count == len(packets) == 4 * (1 + back)
    assert all(a.time_ns <= b.time_ns for a, b in pairwise(packets))
    for point in found.viewpoints():
        if point.sends:
            mine = [p.data for p in packets if names[p.interface] == point.name]
            assert mine == [f.data for f in found.frames(point.name) if f.sent]
    one = tmp_path / "one.pcapng"
    assert found.write(one, "node002")[0] == 1 + back


def test_a_capture_that_cannot_be_leaves_no_file(tmp_path):
    found = journey(roce())
    for name, at, says in (
        ("a.txt", "", "allowed: a name that ends in .pcap"),
        ("a.pcap", "spine-9", "no packet of this journey passes 'spine-9'"),
    ):
        with pytest.raises(InputError, match=says):
            found.write(tmp_path / name, at)
    inside = journey(roce(), ends=("node001/gpu0", "node001/gpu1"))
    with pytest.raises(InputError, match="no packet is to be seen"):
        inside.write(tmp_path / "a.pcapng")
    assert list(tmp_path.iterdir()) == []


def test_the_document_lists_what_is_shown():
    found = journey(roce(), congested="spine-1")
    document = found.to_json()
    assert document["packets"] == len(document["packet_list"]) == len(found.packets)
    assert document["marked"] == 3
    assert document["packet_list"][0]["marked_at"] == found.congestion.name
    assert document["hop_times"][0]["from"] == ENDS[0]
    total = sum(hop["total_s"] for hop in document["hop_times"])
    assert total == pytest.approx(document["packet_list"][0]["landed_s"])
    assert {event["step"] for event in document["events"]} == {
        "register", "connect", "post", "transport", "complete",
    }  # fmt: skip
    assert document["completions"][0]["status"] == "SUCCESS"
    assert found.to_json(2)["shown_packet"] == 2
