"""The times of journeys: hops add up, and the packet engine says the same of a lone message."""

import math
from itertools import pairwise

import numpy as np
import pytest
from _journey_designs import built, infiniband, roce

from railweave.engine.packet import simulate_packet
from railweave.errors import InputError
from railweave.fabric.names import find_node
from railweave.fabric.wire import wire_bytes
from railweave.transport.journey import JourneyCase, packet_journey
from railweave.transport.packets import CNP_OPCODE, Service
from railweave.transport.verbs.operation import Fault, Operation, OperationCase
from railweave.workload import TrafficBuilder

KIB = 1024
DESIGNS = {
    "stored": roce(),
    "cut-through": infiniband(),
    "one-leaf": built(topology="star", switch="sn4700"),
    "slow-pcie": built(servers=", pcie_bandwidth: 150 Gb/s"),
    "macsec": built(more="encryption: macsec"),
}


def journey(design, size=64 * KIB, *, ends=("node001/gpu0", "node002/gpu3"), **more):
    """Run a journey; what is not of the operation is of the journey."""
    names = {"op": "operation", "lost": "lost_packet", "fault": "fault", "service": "service"}
    names["ack_every"] = "ack_every"
    operation = {names[key]: more.pop(key) for key in list(more) if key in names}
    mtu = more.get("mtu_bytes") or 4096
    case = OperationCase(
        **{"operation": Operation.WRITE, **operation}, size_bytes=size, mtu_bytes=mtu
    )
    return packet_journey(JourneyCase(case, *ends, **more), design)


def engine_s(design, size, ends=("node001/gpu0", "node002/gpu3")):
    """Return when the packet engine delivers one message on the idle fabric."""
    builder = TrafficBuilder()
    nodes = [np.array([find_node(design.fabric, name)]) for name in ends]
    builder.plain(*nodes, np.array([float(size)]), label="message")
    result = simulate_packet(
        design.fabric, builder.build(), design.routing(), settings=design.packet_settings()
    )
    return result.makespan_s


@pytest.mark.parametrize("name", DESIGNS)
@pytest.mark.parametrize("size", [1, 4096, 4097, 64 * KIB, 1_000_000])
def test_a_send_is_delivered_when_the_packet_engine_says(name, size):
    """To a picosecond of rounding a hop and a packet; a last one that is padded, by its pad."""
    design = DESIGNS[name]
    found = journey(design, size, op=Operation.SEND)
    hops = len(found.ways[0].hops)
    rounding = (hops + len(found.packets)) * 1e-12
    pad = -size % 4
    slowest = min(hop.rate_bps for hop in found.ways[0].hops)
    difference = found.delivered_s - engine_s(design, size)
    assert -rounding <= difference <= hops * 8 * pad / slowest + rounding


@pytest.mark.parametrize("name", ["stored", "cut-through"])
def test_a_write_is_later_by_its_reth(name):
    """The engine counts no RETH: 16 bytes that hold all up on each link that is waited for."""
    design = DESIGNS[name]
    found = journey(design, 64 * KIB)
    waited = [hop for hop in found.ways[0].hops if hop.on_network and not hop.cut_through]
    assert len(waited) == {"stored": 4, "cut-through": 1}[name]
    assert found.delivered_s - engine_s(design, 64 * KIB) == pytest.approx(
        len(waited) * 8 * 16 / 400e9, abs=6e-12
    )


@pytest.mark.parametrize("name", DESIGNS)
def test_hops_add_up_to_the_packets_time(name):
    found = journey(DESIGNS[name], 40 * KIB, ip_version=6 if name == "stored" else 4)
    times = found.times
    for packet in range(len(times)):
        hops = found.hop_times(packet)
        assert len(hops) == len(found.ways[int(times.direction[packet])].hops)
        total = sum(hop.total_s for hop in hops)
        assert times.sent_s[packet] + total == pytest.approx(times.landed_s[packet], abs=1e-15)
        assert all(
            later.begin_s == pytest.approx(hop.begin_s + hop.total_s, abs=1e-15)
            for hop, later in pairwise(hops)
        )
        parts = [(h.queueing_s, h.behind_own_s, h.serialisation_s, h.propagation_s, h.device_s)
                 for h in hops]  # fmt: skip
        assert np.min(parts) >= 0.0
        assert all(queueing == 0.0 for queueing, *_ in parts)


def test_wire_bytes_are_those_of_the_wire_module():
    for design, transport_extra in ((DESIGNS["stored"], 16), (DESIGNS["cut-through"], 16),
                                    (DESIGNS["macsec"], 16)):  # fmt: skip
        found = journey(design, 64 * KIB)
        there = found.times.wire_bytes[found.times.direction == 0].sum()
        assert there == wire_bytes(64 * KIB, found.framing) + transport_extra
    six, four = (journey(roce(), 64 * KIB, ip_version=version).times for version in (6, 4))
    assert (six.wire_bytes - four.wire_bytes).tolist() == [20] * len(four)


def test_ports_send_one_packet_after_the_other():
    found = journey(roce(), 64 * KIB)
    times, way = found.times, found.ways[0]
    there = np.flatnonzero(times.direction == 0)
    for place in way.network:
        start = times.start_s[there, place]
        busy = 8 * times.wire_bytes[there] / way.hops[place].rate_bps
        assert np.all(np.diff(start) >= busy[:-1] - 1e-15)


def test_a_slow_pcie_spaces_what_the_adapter_sends():
    """What it has read ahead goes at the port's pace, the rest at that of PCIe."""
    found = journey(DESIGNS["slow-pcie"])
    there = np.flatnonzero(found.times.direction == 0)
    gaps = np.diff(found.times.start_s[there, 1])
    assert gaps[0] < gaps[1]
    assert gaps[2:-1] == pytest.approx(8 * found.times.wire_bytes[there][3:-1] / 150e9)


def test_cut_through_reads_64_bytes_and_stores_nothing():
    cut, stored = journey(DESIGNS["cut-through"]), journey(DESIGNS["stored"])
    reads = [hop.serialisation_s for hop in cut.hop_times(0) if hop.hop.is_switch]
    assert reads == pytest.approx([8 * 64 / 400e9] * 3)
    holds = [hop.serialisation_s for hop in stored.hop_times(0) if hop.hop.is_switch]
    assert holds == pytest.approx([8 * int(stored.times.wire_bytes[0]) / 400e9] * 3)


def test_acknowledgements_begin_and_end_in_the_adapters():
    found = journey(roce())
    answer = int(np.flatnonzero(found.times.direction == 1)[0])
    hops = found.hop_times(answer)
    assert [hop.total_s for hop in hops if not hop.hop.on_network] == [0.0, 0.0]
    assert found.completed_s == pytest.approx(float(found.times.at_nic_s[answer]))


def test_a_read_comes_back_over_the_way_back():
    found = journey(roce(), op=Operation.READ)
    back = found.times.direction == 1
    assert (found.data_direction, int(back.sum())) == (1, 16)
    assert found.payload_bytes[back].sum() == 64 * KIB
    assert found.delivered_s == pytest.approx(found.completed_s, abs=1e-12)
    assert found.run.after[0] == found.run.before[1]


@pytest.mark.parametrize("op", [Operation.COMPARE_SWAP, Operation.FETCH_ADD])
def test_atomics(op):
    found = journey(roce(), 8, op=op)
    assert len(found.packets) == 2
    assert 0 < found.delivered_s < found.completed_s


@pytest.mark.parametrize("service", [Service.UC, Service.UD])
def test_unacknowledged_services(service):
    found = journey(roce(), 4000, op=Operation.SEND, service=service)
    assert (len(found.packets), set(found.times.direction.tolist())) == (1, {0})
    assert found.delivered_s > found.completed_s


def test_nothing_of_no_bytes():
    found = journey(roce(), 0)
    assert len(found.packets) == 2
    assert found.times.wire_bytes.tolist() == [82 + 16, 82 + 4]
    assert found.delivered_s > 0


def test_ethernet_has_a_shortest_frame():
    found = journey(roce(), 0, op=Operation.SEND)
    assert found.times.wire_bytes.tolist() == [84, 82 + 4]
    assert [len(frame.data) for frame in found.frames()] == [60, 62]


# ---------------------------------------------------------------- faults


def test_a_packet_lost_at_a_hop_is_sent_again():
    found = journey(roce(), fault=Fault.LOST_PACKET, lost=3, lost_at="spine-1")
    times = found.times
    lost = np.flatnonzero(times.lost_at >= 0)
    assert lost.tolist() == [3]
    place = int(times.lost_at[3])
    assert found.ways[0].hops[place].source == "spine-1"
    assert not np.isnan(times.start_s[3, place])
    assert np.all(np.isnan(times.enter_s[3, place + 1 :]))
    assert math.isnan(times.landed_s[3])
    assert len(found.hop_times(3)) == place + 1
    assert found.delivered_s > journey(roce()).delivered_s
    assert found.run.after[1] == found.run.before[0]
    repeated = [n for n, p in enumerate(found.packets) if p.bth.psn == found.packets[3].bth.psn]
    assert len(repeated) >= 2


def test_delivery_waits_for_the_packets_sent_again():
    """Those that came behind the gap were thrown away, so the last copy of the last one counts."""
    found = journey(roce(), fault=Fault.LOST_PACKET, lost=3)
    last = max(packet.bth.psn for packet in found.packets if packet.operation.name != "ACKNOWLEDGE")
    copies = [n for n, packet in enumerate(found.packets)
              if packet.bth.psn == last and found.times.direction[n] == 0]  # fmt: skip
    assert len(copies) == 2
    assert found.delivered_s == found.times.landed_s[copies[1]]


def test_delivery_counts_the_first_good_copy():
    """A lost ACK delivers nothing later, though everything is sent again after the time-out."""
    plain, lost = journey(roce()), journey(roce(), fault=Fault.LOST_ACK)
    assert lost.delivered_s == plain.delivered_s
    assert lost.completed_s > 0.06 > plain.completed_s
    late = journey(roce(), op=Operation.SEND, fault=Fault.NO_RECEIVE)
    assert late.delivered_s > 1e-3


@pytest.mark.parametrize("fault", [Fault.BAD_RKEY, Fault.NO_RIGHT, Fault.WRONG_STATE,
                                   Fault.BAD_LKEY, Fault.DEAD_PEER])  # fmt: skip
def test_what_fails_is_never_delivered(fault):
    found = journey(roce(), 8 * KIB, fault=fault)
    assert math.isnan(found.delivered_s)
    assert found.run.after[1] == found.run.before[1]
    if fault is Fault.WRONG_STATE:
        assert len(found.times) == 0
        assert math.isnan(found.posted_s)
        assert list(found.frames()) == []
    if fault is Fault.DEAD_PEER:
        assert np.all(found.times.lost_at >= 0)


def test_where_it_is_lost_must_be_on_the_way():
    spine = journey(roce()).ways[1].nodes[4]
    for fault, at, says in (
        (Fault.NONE, "spine-1", "no packet is lost; choose one of the faults lost-packet"),
        (Fault.LOST_PACKET, "leaf-9", "no packet leaves by it; allowed: node001/nic0:port-1"),
        (Fault.LOST_ACK, "node001/nic0", "lost at 'node001/nic0': no packet leaves by it"),
    ):
        with pytest.raises(InputError, match=says):
            journey(roce(), fault=fault, lost_at=at)
    found = journey(roce(), fault=Fault.LOST_ACK, lost_at=spine)
    lost = int(np.flatnonzero(found.times.lost_at >= 0)[0])
    assert found.ways[1].hops[int(found.times.lost_at[lost])].source == spine


# ---------------------------------------------------------------- marks


def test_a_queue_marks_holds_up_and_brings_a_cnp():
    plain = journey(roce())
    found = journey(roce(), congested="spine-1")
    there = found.congestion
    assert there.queue_bytes == there.thresholds.kmax_bytes + 1
    assert there.probability == 1.0
    data = (found.times.direction == 0) & (found.payload_bytes > 0)
    assert np.all(found.times.marked_at[data] == there.place)
    wait = 8 * there.queue_bytes / 400e9
    assert found.delivered_s - plain.delivered_s == pytest.approx(wait, rel=1e-6)
    (hop,) = [hop for hop in found.hop_times(0) if hop.queueing_s]
    assert (hop.hop.port, hop.queueing_s) == (there.name, pytest.approx(wait))
    cnp = [n for n, packet in enumerate(found.packets) if packet.bth.opcode == CNP_OPCODE]
    assert cnp
    assert found.times.direction[cnp[0]] == 1
    assert found.times.sent_s[cnp[0]] == found.times.at_nic_s[0]
    assert found.times.marked_at[cnp[0]] == -1
    assert any("CNP" in event.what for event in found.events if event.packet == cnp[0])


def test_marks_follow_kmin_kmax_and_pmax():
    def marked(queue, seed=0):
        design = roce()
        found = journey(design, 1_000_000, congested="spine-1", queue_bytes=queue, seed=seed)
        there = found.congestion
        share = np.mean(found.times.marked_at[found.times.direction == 0] >= 0)
        return share, there.probability, found

    thresholds = marked(0)[2].congestion.thresholds
    assert marked(thresholds.kmin_bytes)[0] == 0.0
    assert marked(thresholds.kmax_bytes + 1)[0] == 1.0
    middle = (thresholds.kmin_bytes + thresholds.kmax_bytes) // 2
    share, chance, found = marked(middle)
    assert chance == pytest.approx(thresholds.pmax / 2, rel=1e-3)
    assert share == pytest.approx(chance, abs=0.06)  # three deviations of 245 draws
    again = marked(middle)[2]
    assert np.array_equal(found.times.marked_at, again.times.marked_at)


def test_marks_change_with_the_seed():
    ends = ("node001/gpu1", "node002/gpu1")  # one leaf: the way is the same for every seed
    found = [
        journey(roce(), 1_000_000, ends=ends, congested="leaf-2", queue_bytes=900_000, seed=seed)
        for seed in (1, 2)
    ]
    assert found[0].ways[0].nodes == found[1].ways[0].nodes
    assert not np.array_equal(found[0].times.marked_at, found[1].times.marked_at)


def test_infiniband_answers_marks_by_becn():
    found = journey(infiniband(), congested="leaf-1")
    assert np.all(found.times.marked_at[found.times.direction == 0] >= 0)
    assert [p.bth.becn for p in found.packets if p.operation.name == "ACKNOWLEDGE"] == [True]
    assert not any(p.bth.opcode == CNP_OPCODE for p in found.packets)


def test_an_ack_tells_of_the_marks_since_the_last_one():
    """With an ACK for every packet, those of marked packets have the bit and no others."""
    kmax = journey(infiniband(), congested="leaf-1").congestion.thresholds.kmax_bytes
    found = journey(
        infiniband(), 400_000, congested="leaf-1", queue_bytes=kmax, ack_every=1, seed=4
    )
    there = found.times.direction == 0
    marked = (found.times.marked_at[there] >= 0).tolist()
    told = [packet.bth.becn for packet in found.packets if packet.operation.name == "ACKNOWLEDGE"]
    assert told == marked
    assert 0 < sum(marked) < len(marked)


def test_congestion_that_cannot_be():
    with pytest.raises(InputError, match="adapters mark nothing; allowed: leaf-1"):
        journey(roce(), congested="node001/nic0")
    with pytest.raises(InputError, match="schemes that mark on infiniband: credits\\+cc"):
        journey(infiniband("credits"), congested="leaf-1")
    with pytest.raises(InputError, match="from 0 to the switch's buffer"):
        journey(roce(), congested="leaf-1", queue_bytes=1e12)
    with pytest.raises(InputError, match="say where it stands"):
        journey(roce(), queue_bytes=1e5)


# ---------------------------------------------------------------- sizes, other ways


@pytest.mark.parametrize(
    ("size", "mtu", "says"),
    [
        (8 << 20, 256, "more packets than a journey lists \\(16,384\\); allowed: up to 4 MiB"),
        (KIB, 1500, "allowed: 256, 512, 1,024, 2,048, 4,096"),
    ],
)
def test_sizes_that_cannot_be(size, mtu, says):
    case = OperationCase(Operation.WRITE, size)
    with pytest.raises(InputError, match=says):
        packet_journey(JourneyCase(case, "node001/gpu0", "node002/gpu3", mtu_bytes=mtu), roce())


def test_the_planes_mtu_bounds_the_queue_pairs():
    design = built(more="mtu: 1024 B")
    assert journey(design).case.mtu_bytes == 1024
    assert len(journey(design).packets) == 64 + 1
    with pytest.raises(InputError, match="switches drop what is longer; allowed: 256, 512, 1,024"):
        journey(design, mtu_bytes=2048)


def test_one_domain_has_no_packets():
    found = journey(roce(), 1 << 20, ends=("node001/gpu0", "node001/gpu2"))
    assert found.inside
    assert found.packets == ()
    assert found.delivered_s == pytest.approx(
        engine_s(roce(), 1 << 20, ("node001/gpu0", "node001/gpu2")), abs=1e-11
    )
    with pytest.raises(InputError, match="no packet is to be seen"):
        list(found.frames())
    for more in ({"congested": "leaf-1"}, {"fault": Fault.LOST_PACKET}):
        with pytest.raises(InputError, match="share a server or scale-up domain"):
            journey(roce(), ends=("node001/gpu0", "node001/gpu2"), **more)


def test_packets_that_are_not_there():
    with pytest.raises(InputError, match="no packet 99; allowed: 0 to 16"):
        journey(roce()).hop_times(99)


def test_the_same_case_gives_the_same_journey():
    one, two = (journey(roce(), congested="leaf-1", queue_bytes=900_000) for _ in range(2))
    assert one.to_json() == two.to_json()
    assert one.packets == two.packets
