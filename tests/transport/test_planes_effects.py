"""What breaks: what is stated follows from the design, what is measured from the flow engine."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import railweave
from railweave.api import BuiltDesign
from railweave.engine.flow import simulate_flow
from railweave.fabric import find_node
from railweave.report import plane_journeys as tables
from railweave.transport.planes._exchanges import crowd, exchange_of, neighbour, neighbours_of
from railweave.transport.planes.effects import (
    hop_effects,
    measured_effects,
    stated_effects,
    study_journey,
)
from railweave.transport.planes.journeys import JourneyKind, plane_journey

EXAMPLES = Path(__file__).parents[2] / "examples"

_TEXT = """
railweave: 1
name: planes
cluster:
  servers: {{count: 4, inline: {{gpus: 2, nics: {nics}, nic_speed: 100 Gb/s,
            scale_up_bandwidth: 1 Tb/s, frontend_speed: 100 Gb/s}}}}
  storage_servers: {{count: 4, ports: 2, speed: 100 Gb/s}}
planes:
  backend: {{transport: rocev2, topology: star, switch: {{radix: 32, speed: 100 Gb/s}}}}
  frontend: {{transport: tcp, topology: star, switch: {{radix: 32, speed: 100 Gb/s}}}}
  storage: {storage}
  management: {management}
jobs:
  - {{name: gradients, collective: all-reduce, size: 64 MiB}}
storage_traffic:
  - {{name: data, ingest: 1 GB/s, duration: 1 ms}}
"""
_OWN = "{transport: tcp, topology: star, switch: {radix: 32, speed: 100 Gb/s}}"
_SLOW = "{transport: tcp, topology: star, switch: {radix: 32, speed: 1 Gb/s}, speed: 1 Gb/s}"


@cache
def built(storage: str = _OWN, management: str = _SLOW, nics: int = 2) -> BuiltDesign:
    text = _TEXT.format(storage=storage, management=management, nics=nics)
    return railweave.parse(text, files=False).build()


@cache
def example(name: str) -> BuiltDesign:
    return railweave.load(EXAMPLES / f"{name}.yaml").build()


BACKEND, FRONTEND = "{shares: backend}", "{shares: frontend}"


def slowdown(here: BuiltDesign, kind: JourneyKind, words: str, arrangement: str) -> float:
    for one in measured_effects(here, plane_journey(here, kind)):
        if words in one.neighbour and one.arrangement == arrangement:
            assert not one.problem, one.problem
            return one.slowdown
    raise AssertionError(f"nothing like {words!r} was measured")


def test_a_shared_plane_slows_and_a_plane_of_its_own_does_not() -> None:
    for kind in (JourneyKind.GRADIENT, JourneyKind.REQUEST):
        carrier = BACKEND if kind is JourneyKind.GRADIENT else FRONTEND
        said = "back-end" if kind is JourneyKind.GRADIENT else "front-end"
        apart = slowdown(built(), kind, "servers that write", "as designed")
        shared = slowdown(built(carrier), kind, "servers that write", "as designed")
        assert apart == pytest.approx(1.0, abs=1e-9)
        assert shared > 1.2
        # The other arrangement of each is what the other one has as its design.
        asked = f"storage on the {said} network"
        assert slowdown(built(), kind, "servers that write", asked) > 1.2
        moved = slowdown(
            built(carrier), kind, "servers that write", "storage on a network of its own"
        )
        assert moved == pytest.approx(1.0, abs=1e-9)


def test_what_is_measured_is_what_the_engine_gives() -> None:
    here = built(BACKEND)
    way = plane_journey(here, JourneyKind.GRADIENT)
    exchange = exchange_of(here, way.kind, way.ends)
    routing = here.routing()
    found = measured_effects(here, way)
    assert found[0].alone_s == simulate_flow(here.fabric, exchange.traffic, routing).makespan_s
    # A neighbour lasts longer than the exchange.
    other = neighbour(here, "checkpoint")
    assert other.traffic.total_bytes == pytest.approx(4 * 16 * 2**20)
    twice = neighbour(here, "checkpoint", scale=2)
    assert twice.traffic.total_bytes == 2 * other.traffic.total_bytes


def test_neighbours_are_what_the_design_has() -> None:
    assert neighbours_of(built(), JourneyKind.GRADIENT) == ("checkpoint", "dataset", "users")
    assert neighbours_of(built(), JourneyKind.DATASET) == ("checkpoint", "users", "gradient")
    assert neighbours_of(example("hpn-pod-15k"), JourneyKind.GRADIENT) == ()
    users = neighbour(example("star-64-gpus"), "users")
    assert "20%" in users.what
    assert "as the design states" in users.what
    assert "30%" in neighbour(built(), "users").what


def test_a_hop_at_half_speed_and_gone_is_the_exchange_on_that_fabric() -> None:
    here = built()
    way = plane_journey(here, JourneyKind.GRADIENT)
    exchange = exchange_of(here, way.kind, way.ends).traffic
    alone = simulate_flow(here.fabric, exchange, here.routing()).makespan_s
    for one, hop in zip(hop_effects(here, way), way.hops, strict=True):
        assert (one.number, one.alone_s) == (hop.number, alone)
        capacity = here.fabric.link_capacity_bps.copy()
        capacity[hop.link] /= 2
        slow = replace(here.fabric, link_capacity_bps=capacity)
        assert one.half_s == simulate_flow(slow, exchange, here.routing()).makespan_s
        assert (one.half > 1) == bool(hop.port)  # PCIe has twice the adapter's speed here
        assert one.lost > 1  # by the neighbour's adapter, which both then share
    management = plane_journey(here, JourneyKind.MANAGEMENT)
    for one in hop_effects(here, management):
        assert math.isinf(one.lost_s)
        document = one.to_json()
        assert (document["cut_off"], document["lost_s"]) == (True, None)


def test_the_crowd_is_a_permutation_around_the_pair() -> None:
    here = example("superpod-h100-1su")
    ends = plane_journey(here, JourneyKind.GRADIENT).ends
    alone, crowded = crowd(here, JourneyKind.GRADIENT, ends)
    pair = [find_node(here.fabric, end) for end in ends]
    assert [int(alone.src[0]), int(alone.dst[0])] == pair
    assert [int(crowded.src[0]), int(crowded.dst[0])] == pair
    assert len(np.unique(crowded.src)) == len(crowded.src) > 200
    assert len(np.unique(crowded.dst)) == len(crowded.dst)


def test_every_exchange_passes_by_the_journeys_hops() -> None:
    for here in (built(), example("superpod-h100-4su"), example("llama3-70b-training")):
        routing = here.routing()
        for kind in JourneyKind:
            way = plane_journey(here, kind)
            if not way.hops:
                continue
            exchange = exchange_of(here, kind, way.ends)
            sent = simulate_flow(here.fabric, exchange.traffic, routing).link_bytes
            for hop in way.hops:
                # ECMP may spread the flows of an exchange over the equal links beside it.
                assert sent[hop.link] > 0 or hop.choices > 1, (kind, hop)


def causes(here: BuiltDesign, kind: JourneyKind) -> dict[str, str]:
    found = stated_effects(here, plane_journey(here, kind))
    return {one.cause: f"{one.where}: {one.effect}" for one in found}


def test_stated_causes_follow_from_the_design() -> None:
    shared = causes(built(BACKEND), JourneyKind.GRADIENT)
    assert "planes.storage.shares" in shared["shared network"]
    assert "data (" in shared["shared network"]
    assert "priority 3 (DSCP 26), lossless under PFC" in shared["shared network"]
    assert "PFC pauses" in shared["a full queue"]
    own = causes(built(), JourneyKind.GRADIENT)
    assert "shared network" not in own
    assert "own network" in own
    assert "2 GPUs share it" in causes(built(nics=1), JourneyKind.GRADIENT)["shared adapter"]
    inband = causes(built(management=FRONTEND), JourneyKind.MANAGEMENT)
    assert "way in down as well" in inband["in-band management"]
    assert "in-band management" not in causes(built(), JourneyKind.MANAGEMENT)
    assert set(causes(built(), JourneyKind.TENSOR)) == {"scale-up domain"}
    front = causes(example("llama3-70b-training"), JourneyKind.CHECKPOINT)
    assert "2:1 at the leaf" in front["oversubscription"]
    assert "hash picks one of 10 equal links" in front["routing: ecmp"]
    assert "TCP sends again" in front["a full queue"]
    assert "all hosts below send upwards" in front["oversubscription"]
    down = causes(example("llama3-70b-training"), JourneyKind.REQUEST)["oversubscription"]
    assert "all hosts below are sent to from above at once" in down
    infiniband = causes(example("superpod-h100-4su"), JourneyKind.GRADIENT)
    assert "Credits run out" in infiniband["a full queue"]
    assert "32 equal links by destination" in infiniband["routing: destination"]
    assert "one way in" in infiniband
    assert "one way in" not in causes(example("hpn-pod-15k"), JourneyKind.GRADIENT)  # dual ToR


@pytest.mark.parametrize(
    ("scheme", "said"),
    [
        ("spray", "dealt over 4 equal"),
        ("adaptive", "least loaded of 4"),
        ("ecmp", "one of 4 equal"),
    ],
)
def test_what_equal_links_mean_is_the_schemes(scheme: str, said: str) -> None:
    text = f"""
railweave: 1
name: schemes
cluster: {{servers: {{count: 8, inline: {{gpus: 1, nics: 1, nic_speed: 100 Gb/s}}}}}}
planes:
  backend: {{transport: rocev2, topology: leaf-spine, switch: {{radix: 8, speed: 100 Gb/s}},
            routing: {scheme}, counts: {{spine: 4}}}}
"""
    here = railweave.parse(text, files=False).build()
    assert said in causes(here, JourneyKind.GRADIENT)[f"routing: {scheme}"]


def test_what_cannot_be_built_is_said_and_not_measured() -> None:
    text = _TEXT.format(storage=_OWN, management=_SLOW, nics=2)
    full = text.replace("radix: 32", "radix: 8", 1)  # the back-end's one switch is full
    here = railweave.parse(full, files=False).build()
    found = measured_effects(here, plane_journey(here, JourneyKind.GRADIENT))
    last = found[-1]
    assert last.arrangement == "storage on the back-end network"
    assert last.problem.startswith("planes.backend.topology: a star has one switch")
    assert math.isnan(last.slowdown)
    table = tables.measured_table(found)
    assert table.rows[-1][-1] == "not measured"
    assert f"{last.arrangement}: {last.problem}" in table.notes
    # Nor is the other arrangement of a fabric with parts out.
    broken = built().fail(["frontend-leaf-1:port-1"])
    found = measured_effects(broken, plane_journey(broken, JourneyKind.GRADIENT))
    assert "parts have failed" in found[-1].problem


def test_a_study_has_all_of_it_or_what_was_asked_for() -> None:
    here = built()
    way = plane_journey(here, JourneyKind.REQUEST)
    seen: list[float] = []
    whole = study_journey(here, way, progress=lambda step, part: seen.append(part))
    assert seen == sorted(seen)
    assert 0 <= seen[0] < seen[-1] <= 1
    assert len(whole.hops) == len(way.hops)
    assert whole.exchange == "one answer of 1 MiB"
    document = whole.to_json()
    assert [one["slowdown"] for one in document["breaks"]["measured"]] == [
        one.slowdown for one in whole.measured
    ]
    assert document["hops"][0]["time_s"] == way.hops[0].time_s
    quick = study_journey(here, way, measure=False)
    assert (quick.hops, quick.measured, quick.stated) == ((), (), whole.stated)
    nothing = plane_journey(example("hpn-pod-15k"), JourneyKind.REQUEST)
    assert study_journey(example("hpn-pod-15k"), nothing).stated == ()


def test_the_guides_table_is_what_comes_out() -> None:
    guide = (EXAMPLES.parent / "docs" / "guide" / "planes.md").read_text("utf-8")
    text = guide.split("```yaml\n", 1)[1].partition("```")[0]
    here = railweave.parse(text, files=False).build()
    found = measured_effects(here, plane_journey(here, JourneyKind.GRADIENT))
    for verb, said in (("write", "write a checkpoint"), ("read", "read a dataset")):
        shared, own = (
            next(m for m in found if f"servers that {verb}" in m.neighbour and m.shared is share)
            for share in (True, False)
        )
        row = f"| 16 servers that {said} | {shared.slowdown:.2f} × | {own.slowdown:.2f} × |"
        assert row in guide
    request = measured_effects(here, plane_journey(here, JourneyKind.REQUEST))[-1]
    assert request.arrangement == "storage on the front-end network"
    assert f"would take {request.slowdown:.2f} times as long" in " ".join(guide.split())


def test_a_queue_is_a_fabric_switchs_and_no_scale_up_switchs() -> None:
    text = (
        "{railweave: 1, name: rails, cluster: {servers: {model: dgx-h100, count: 4}}, planes:"
        " {backend: {transport: rocev2, topology: rail-only, switch: sn5600}}}"
    )
    here = railweave.parse(text, files=False).build()
    way = plane_journey(here, JourneyKind.EXPERT, source="node001/gpu0", target="node004/gpu7")
    assert way.hops[0].target == "node001/scale-up"
    found = {one.cause: one.where for one in stated_effects(here, way)}
    assert found["a full queue"] == "leaf-8"


def test_tcp_on_a_network_of_rdma_is_said_to_be_so() -> None:
    text = _TEXT.format(storage=BACKEND, management=BACKEND, nics=2)
    here = railweave.parse(text, files=False).build()
    way = plane_journey(here, JourneyKind.MANAGEMENT)
    assert any("TCP on a network of rocev2" in note for note in way.notes)
    # In band it ends in the host by an adapter of the back-end: no management controller.
    assert way.hops[-1].speaks == "the adapter writes host memory"
    own = plane_journey(built(), JourneyKind.MANAGEMENT)
    assert own.hops[-1].speaks == "the management controller's own link to the host"
    found = causes(here, JourneyKind.MANAGEMENT)
    assert "whether TCP has a class of its own" in found["shared network"]
    assert "TCP sends again" in found["a full queue"]
    # Seen from storage: the collectives are in its class, and of management nothing is known.
    beside = causes(here, JourneyKind.CHECKPOINT)["shared network"]
    same, _, unknown = beside.partition("queues. ")
    assert "Back-end traffic is on the same switches" in same
    assert "in the same class" in same
    assert "Management" not in same
    assert unknown.startswith("Management traffic is on the same switches and cables; whether TCP")
