"""Journeys: the routing's way, the packet engine's time, protocols as the design says."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import railweave
from railweave.api import BuiltDesign
from railweave.engine.choice import EngineChoice
from railweave.errors import InputError
from railweave.fabric import LinkLayer, PlaneId, find_node
from railweave.fabric.trace import trace_path
from railweave.fabric.wire import framing, wire_bytes
from railweave.report import plane_journeys as tables
from railweave.transport.planes.journeys import (
    PLANE_OF,
    JourneyKind,
    PlaneJourney,
    plane_journey,
    suggested_ends,
)
from railweave.workload import TrafficBuilder
from railweave.workload.step_messages import step_messages

EXAMPLES = Path(__file__).parents[2] / "examples"
LLAMA, POD4, STAR = "llama3-70b-training", "superpod-h100-4su", "star-64-gpus"

#: three tiers, NICs that GPUs share, encryption, everything with a network of its own
DEEP = """
railweave: 1
name: deep
cluster:
  servers: {count: 48, inline: {gpus: 4, nics: 2, nic_speed: 100 Gb/s, scale_up_bandwidth: 1 Tb/s}}
  storage_servers: {count: 2}
planes:
  backend: {transport: rocev2, topology: fat-tree, tiers: 3, switch: {radix: 8, speed: 100 Gb/s},
            encryption: ipsec}
  frontend: {transport: rocev2, topology: leaf-spine, switch: {radix: 32, speed: 200 Gb/s}}
  storage: {transport: rocev2, topology: leaf-spine, switch: {radix: 32, speed: 200 Gb/s},
            encryption: macsec}
  management: {transport: tcp, topology: star, switch: {radix: 64, speed: 1 Gb/s}, speed: 1 Gb/s}
"""
#: no scale-up network
FLAT = """
railweave: 1
name: flat
cluster:
  servers: {count: 2, inline: {gpus: 2, nics: 2, nic_speed: 100 Gb/s}}
planes:
  backend: {transport: tcp, topology: star, switch: {radix: 8, speed: 100 Gb/s}, encryption: tls}
"""


@cache
def built(name: str) -> BuiltDesign:
    text = {"deep": DEEP, "flat": FLAT}.get(name) or (EXAMPLES / f"{name}.yaml").read_text("utf-8")
    return railweave.parse(text, files=False).build()


@cache
def journey(name: str, kind: JourneyKind) -> PlaneJourney:
    return plane_journey(built(name), kind)


def walked(name: str) -> list[PlaneJourney]:
    return [way for kind in JourneyKind if (way := journey(name, kind)).hops]


@pytest.mark.parametrize("name", [LLAMA, POD4, STAR, "deep"])
def test_the_way_is_the_routings(name: str) -> None:
    here = built(name)
    for way in walked(name):
        routing = here.routing().planes[PlaneId[way.network.upper()]]
        ends = [find_node(here.fabric, end) for end in way.ends]
        links = [hop.link for hop in trace_path(routing, *ends)[0].hops]
        if not way.coming_in and routing.scheme.value != "spray":
            assert [hop.link for hop in way.hops] == links
        assert way.hops[-1].target == way.ends[1]
        assert {hop.link for hop in way.hops} <= set(links)
        for a, b in zip(way.hops, way.hops[1:], strict=False):
            assert a.target == b.source
            assert a.target_part == b.source_part
            assert a.end_s == b.start_s


@pytest.mark.parametrize("name", [LLAMA, POD4, STAR, "deep"])
def test_the_parts_add_up_and_are_the_fabrics(name: str) -> None:
    fabric = built(name).fabric
    for way in walked(name):
        assert sum(way.parts.values()) == pytest.approx(way.time_s, rel=1e-12)
        for hop in way.hops:
            delay = hop.propagation_s + hop.switching_s + hop.nic_s
            assert delay == pytest.approx(fabric.link_delay_s[hop.link], rel=1e-12, abs=1e-18)
            assert hop.propagation_s == pytest.approx(fabric.link_length_m[hop.link] / 1.98e8)
            full = 8 * hop.size_bytes / fabric.usable_bps[hop.link]
            assert 0 <= hop.serialisation_s <= full * (1 + 1e-12)
            assert bool(hop.port) == (fabric.link_layer[hop.link] >= LinkLayer.HOST_LEAF)
            assert hop.capacity_bps == fabric.link_capacity_bps[hop.link]


@pytest.mark.parametrize("name", [LLAMA, POD4, STAR, "deep", "ring-of-switches", "flat"])
def test_one_packet_takes_as_long_as_in_the_packet_engine(name: str) -> None:
    if name == "ring-of-switches":
        here = railweave.load(EXAMPLES / "ring-of-switches.yaml").build()
        ways = [plane_journey(here, kind) for kind in JourneyKind]
    else:
        here, ways = built(name), walked(name)
    checked = 0
    for way in ways:
        if not way.hops or way.coming_in or way.flows > 1:
            continue
        plane = PlaneId[way.plane.upper()]
        frame = here.routing().frames()[plane]
        builder = TrafficBuilder(plane=int(plane))
        ends = [np.array([find_node(here.fabric, end)], dtype=np.int32) for end in way.ends]
        # What TLS adds to a record is part of the packet here.
        payload = frame.mtu_bytes - frame.record_overhead_bytes
        builder.plain(ends[0], ends[1], float(payload), label="one")
        choice = EngineChoice("packet", 0.0, here.packet_settings(), 0)
        result = choice.simulate(here.fabric, builder.build(), here.routing())
        if frame.record_overhead_bytes == 0:
            assert result.makespan_s == pytest.approx(way.time_s, abs=5e-12)
            checked += 1
    assert checked >= 2 or name == "flat"


def test_a_gradient_goes_over_leaf_and_spine_to_the_same_rail() -> None:
    way = journey(POD4, JourneyKind.GRADIENT)
    assert way.stations == (
        "gpu", "backend-nic", "backend-leaf", "backend-spine", "backend-leaf", "backend-nic", "gpu",
    )  # fmt: skip
    assert "2,032 pairs" in way.why
    assert way.hops[1].port == f"{way.hops[1].source}:port-1"
    assert way.hops[1].port_in.startswith("leaf-")
    assert way.hops[2].choices == 32
    # In one scalable unit the rail's leaf has both ends, and that is said.
    short = journey(LLAMA, JourneyKind.GRADIENT)
    assert short.stations == ("gpu", "backend-nic", "backend-leaf", "backend-nic", "gpu")
    assert "Both ends are under one leaf: no spine is on this way." in short.notes


def test_ends_are_those_between_which_jobs_send() -> None:
    here = built(LLAMA)
    by_name = {plan.name: plan for plan in here.workload().jobs}
    for kind, groups, job in (
        (JourneyKind.GRADIENT, ("data", "expert-data"), "llama3-70b"),
        (JourneyKind.TENSOR, ("tensor",), "llama3-70b"),
        (JourneyKind.EXPERT, ("expert",), "mixtral"),
    ):
        way = journey(LLAMA, kind)
        assert f"job {job}" in way.why
        plan = by_name[job]
        assert plan.step is not None
        sent = step_messages(plan.step)
        ends = tuple(find_node(here.fabric, end) for end in way.ends)
        pairs = {
            (int(plan.nodes[a]), int(plan.nodes[b]))
            for group in groups
            if group in sent
            for a, b in zip(sent[group].src, sent[group].dst, strict=True)
        }
        assert ends in pairs
    assert journey(LLAMA, JourneyKind.TENSOR).stations == ("gpu", "scale-up", "gpu")


def test_protocols_follow_from_the_design() -> None:
    spoken = {kind: [hop.protocol for hop in journey(LLAMA, kind).hops] for kind in JourneyKind}
    gradient = spoken[JourneyKind.GRADIENT]
    assert gradient[0] == "PCIe 5.0 ×16 / the adapter reads GPU memory (GPUDirect)"
    assert gradient[1].startswith("InfiniBand link (LRH) / BTH / RDMA WRITE")
    assert gradient[-1] == "PCIe 5.0 ×16 / the adapter writes GPU memory (GPUDirect)"
    assert all(one.startswith("NVLink") for one in spoken[JourneyKind.TENSOR])
    assert "Ethernet / IPv4 / TCP / NFS (2049) or NVMe over TCP (4420)" in spoken[
        JourneyKind.CHECKPOINT
    ]  # fmt: skip
    assert "HTTP or gRPC over TLS (443)" in spoken[JourneyKind.REQUEST][0]
    assert "Redfish (443)" in spoken[JourneyKind.MANAGEMENT][0]
    deep = {kind: journey("deep", kind).hops for kind in JourneyKind}
    assert deep[JourneyKind.GRADIENT][1].layers == ("Ethernet", "IPv4", "ESP", "UDP 4791", "BTH")
    assert deep[JourneyKind.CHECKPOINT][1].layers == (
        "Ethernet", "MACsec", "IPv4", "UDP 4791", "BTH",
    )  # fmt: skip
    assert deep[JourneyKind.CHECKPOINT][1].speaks.startswith("NFS over RDMA (20049)")
    # Users speak TCP whatever the network's own transport is.
    assert deep[JourneyKind.REQUEST][0].layers == ("Ethernet", "IPv4", "TCP")
    flat = journey("flat", JourneyKind.GRADIENT)
    assert flat.hops[1].layers == ("Ethernet", "IPv4", "TCP", "TLS")
    assert any("host's memory and processors" in note for note in flat.notes)


def test_packets_weigh_what_the_engines_count() -> None:
    here = built("deep")
    frame = here.routing().frames()[PlaneId.STORAGE]
    assert frame == framing(frame.transport, frame.mtu_bytes, ("macsec",))
    way = journey("deep", JourneyKind.CHECKPOINT)
    assert way.packet_bytes == float(wire_bytes(frame.mtu_bytes, frame))
    assert all(hop.size_bytes == way.packet_bytes for hop in way.hops)
    inside = plane_journey(here, JourneyKind.TENSOR)
    assert inside.packet_bytes == here.routing().frames()[PlaneId.BACKEND].mtu_bytes


def test_switches_that_cut_through_wait_for_the_header_only() -> None:
    way = journey(POD4, JourneyKind.CHECKPOINT)
    leaf, spine = way.hops[1], way.hops[2]
    rate = built(POD4).fabric.usable_bps
    # 200G in, 400G out: the leaf takes it whole; the spine does not.
    assert leaf.serialisation_s == pytest.approx(8 * way.packet_bytes / rate[leaf.link])
    assert spine.serialisation_s == pytest.approx(8 * 64 / rate[spine.link])


def test_ends_can_be_given() -> None:
    here = built(LLAMA)
    way = plane_journey(here, JourneyKind.GRADIENT, source="node001/gpu0", target="node031/gpu3")
    assert (way.ends, way.why) == (("node001/gpu0", "node031/gpu3"), "as asked")
    assert "backend-spine" in way.stations
    one = journey(LLAMA, JourneyKind.GRADIENT)
    turned = plane_journey(here, JourneyKind.GRADIENT, source=one.ends[1])
    assert turned.ends == one.ends[::-1]
    request = plane_journey(here, JourneyKind.REQUEST, source="node004")
    assert request.hops[0].source == "node004"  # the whole way, nothing left out
    for said, a, b in suggested_ends(here, JourneyKind.EXPERT):
        assert said
        assert plane_journey(here, JourneyKind.EXPERT, source=a, target=b).hops
    ((_, store, host),) = suggested_ends(here, JourneyKind.DATASET)
    assert (store, host) == ("storage001", "node031")


@pytest.mark.parametrize(
    ("kind", "source", "target", "said"),
    [
        (JourneyKind.GRADIENT, "node001", "", "needs a GPU such as node001/gpu0"),
        (JourneyKind.GRADIENT, "node001/gpu9", "", "no 'node001/gpu9'"),
        (JourneyKind.CHECKPOINT, "storage001", "", "needs a server such as node001"),
        (JourneyKind.DATASET, "", "storage001", "needs a server such as node001"),
        (JourneyKind.REQUEST, "", "frontend-leaf-1", "needs a server"),
        (JourneyKind.MANAGEMENT, "node002", "node002", "both node002"),
    ],
)
def test_ends_that_cannot_be_are_refused(
    kind: JourneyKind, source: str, target: str, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        plane_journey(built(LLAMA), kind, source=source, target=target)


def test_what_is_not_there_has_no_journey_and_a_sentence() -> None:
    for kind in JourneyKind:
        way = plane_journey(built("flat"), kind)
        if PLANE_OF[kind] != "backend":
            assert way.hops == ()
            assert "nothing of this kind travels here" in way.sentence
            assert way.time_s == 0.0
    cut = built("flat").fail(["leaf-1"])
    way = plane_journey(cut, JourneyKind.GRADIENT, source="node001/gpu0", target="node002/gpu0")
    assert way.sentence == "node001/gpu0 has no way to node002/gpu0."
    alone = OWN_GPU.replace("gpus: 2", "gpus: 1").replace("nics: 2", "nics: 1")
    one = railweave.parse(alone, files=False).build()
    assert "one GPU" in plane_journey(one, JourneyKind.GRADIENT).sentence


OWN_GPU = FLAT.replace("count: 2", "count: 1")


def test_traffic_that_cannot_be_worked_out_leaves_the_ends_to_the_places() -> None:
    endless = "background:\n  - {name: web, load: 0.5, duration: 10 h, plane: backend}\n"
    here = railweave.parse(FLAT + endless, files=False).build()
    way = plane_journey(here, JourneyKind.GRADIENT)
    assert "what the design sends cannot be worked out (background web" in way.why
    assert way.hops


def test_a_failed_adapter_is_gone_round() -> None:
    here = built(LLAMA)
    way = plane_journey(here.fail(["node001/nic0"]), JourneyKind.GRADIENT,
                        source="node001/gpu0", target="node002/gpu0")  # fmt: skip
    assert way.hops[0].place == "scale-up link"
    assert "node001/nic0" not in [hop.target for hop in way.hops]


def test_numbers_come_with_where_they_come_from() -> None:
    way = journey(LLAMA, JourneyKind.CHECKPOINT)
    said = {(one.subject, one.certainty.value): one.statement for one in way.basis}
    assert "425 ns for sn4700" in said["switching", "estimated"]
    assert "storage004 has no adapter of its own" in said["adapter", "assumed"]
    assert any(one.subject == "cables" for one in way.basis)
    stated = journey("deep", JourneyKind.GRADIENT).basis
    assert any("as the design states its switch" in one.statement for one in stated)
    assert any("adapter that the catalog does not" in one.statement for one in stated)
    assert way.sources[0].startswith("RFC 8881")


def test_tables_have_a_row_a_hop_and_the_trace_one_more() -> None:
    way = journey(POD4, JourneyKind.GRADIENT)
    assert [row[1] for row in tables.way_table(way).rows][1] == way.hops[1].port
    assert len(tables.time_table(way).rows) == len(way.hops)
    spoken = tables.protocol_table(way).rows
    assert [row[0] for row in spoken] == ["1", "2 to 5", "6"]
    trace = tables.journey_trace(way)
    assert [row[0] for row in trace] == [*(hop.start_s for hop in way.hops), way.time_s]
    assert tables.parts_sentence(way).startswith("2.004 us in all: serialisation")
