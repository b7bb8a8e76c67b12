"""What the fabric leaves of the line rate, against what can be worked out by hand."""

from __future__ import annotations

import importlib
from dataclasses import replace

import numpy as np
import pytest

import railweave
from railweave.errors import EngineError, InputError
from railweave.predict.network_part import _connections, measure_network, network_part
from railweave.workload import Communicator

RAILS = """\
railweave: 1
name: rails
cluster:
  servers:
    count: {count}
    inline: {{gpus: 2, nics: 2, nic_speed: 400 Gb/s, scale_up_bandwidth: 3.6 Tb/s}}
planes:
  backend:
    transport: rocev2
    topology: {topology}
    switch: {{radix: {radix}, speed: 400 Gb/s}}
    {more}
"""


def built(count=8, topology="leaf-spine", more="routing: spray", radix=8):
    radix = 64 if topology == "star" else radix
    text = RAILS.format(count=count, radix=radix, topology=topology, more=more)
    return railweave.parse(text).build()


def shares(measured):
    return {item.pattern: item.share for item in measured.patterns}


@pytest.mark.parametrize("engine", ["flow", "analytic"])
def test_full_bisection_with_spraying_is_whole(engine):
    part = measure_network(built(), engine=engine).part
    assert (part.ring_share, part.tree_share, part.pairwise_share) == pytest.approx((1, 1, 1))
    assert part.engine == engine
    assert part.source.endswith("no link but the NICs' own binds")
    assert part.failed == ()


def test_oversubscription_shows_in_what_crosses_the_spine():
    # 16 NICs on leaves of 6 down and 2 up: rings leave a leaf by few connections, pairwise by many
    fabric = built(count=9, more="oversubscription: 3\n    routing: spray")
    found = shares(measure_network(fabric))
    assert found["pairwise"] < 0.6
    assert found["pairwise"] < found["ring"]


def test_ring_share_is_that_of_the_fullest_link():
    """With hashes, count the connections on every link by hand."""
    design = built(count=64, more="routing: ecmp", radix=32)
    fabric = design.fabric
    comm = Communicator.from_fabric(fabric, fabric.gpus)
    src, dst, number, size = _connections(comm, "ring", 1000)
    assert len(src) == 64 * 2  # servers × channels
    assert len(set(size.tolist())) == 1
    seen: set[int] = set()
    for seed in range(8):
        routing = design.routing(seed=seed)
        paths = routing.paths(comm.nodes[src], comm.nodes[dst], connection=number)
        most = np.bincount(paths.link, minlength=fabric.n_links).max()
        seen.add(int(most))
        found = shares(measure_network(design, seed=seed))["ring"]
        assert found == pytest.approx(1 / most, rel=1e-4)
    assert len(seen) > 1  # else the seeds show nothing


def test_pairwise_keeps_to_the_rail_where_gpus_can_hand_over():
    fabric = built(count=4).fabric
    comm = Communicator.from_fabric(fabric, fabric.gpus)
    src, dst, _, _ = _connections(comm, "pairwise", 1000)
    assert (comm.rail[src] == comm.rail[dst]).all()
    assert (comm.order[src] != comm.order[dst]).all()
    assert len(src) == len(set(zip(src.tolist(), dst.tolist(), strict=True))) == 8 * 3
    apart = replace(comm, forwards=False)
    src, dst, _, _ = _connections(apart, "pairwise", 1000)
    assert (comm.rail[src] != comm.rail[dst]).any()


def test_fluid_engines_agree_and_the_packet_engine_is_near():
    design = built(count=6, more="routing: ecmp")
    flow, analytic = (measure_network(design, engine=e) for e in ("flow", "analytic"))
    assert shares(flow) == pytest.approx(shares(analytic), rel=1e-4)
    packet = shares(measure_network(design, engine="packet"))
    assert packet["ring"] == pytest.approx(shares(flow)["ring"], rel=0.2)
    # senders that collide do not find their fair shares at once
    assert 0.4 < packet["pairwise"] / shares(flow)["pairwise"] < 1.05


def test_seed_counts_and_is_said():
    design = built(count=16, more="routing: ecmp")
    found = {measure_network(design, seed=s).part.pairwise_share for s in range(6)}
    assert len(found) > 1
    assert "seed 4" in measure_network(design, seed=4).part.source


def test_more_queue_pairs_collide_less():
    design = built(count=16, more="routing: ecmp")
    one = measure_network(design).part
    many = measure_network(design, queue_pairs=16).part
    assert many.ring_share > one.ring_share
    assert "16 queue pairs" in many.assumptions[0].statement


def test_failed_spines_take_their_part():
    whole = built(topology="rail-optimized")
    spines = len(whole.fabric.switches(railweave.fabric.PlaneId.BACKEND, 2))
    half = [f"spine-{k + 1}" for k in range(spines // 2)]
    part = measure_network(whole.fail(half)).part
    assert part.failed == tuple(half)
    assert part.pairwise_share < measure_network(whole).part.pairwise_share
    assert "p" in part.source


def test_a_dead_adapter_halves_the_rings_of_its_server():
    whole = built(count=4, topology="star")
    part = measure_network(whole.fail(["node001/nic0"])).part
    assert part.ring_share == pytest.approx(0.5, rel=1e-3)
    assert "node001/nic1" in part.source


def test_ranks_that_cannot_reach_each_other():
    design = built(count=8)
    with pytest.raises(EngineError, match="cannot be routed"):
        measure_network(design.fail(["node001/nic0", "node001/nic1"]))


def test_one_domain_has_no_network():
    measured = measure_network(built(), built().fabric.gpus[:2])
    assert measured.patterns == ()
    assert measured.part.latency_s is None
    assert measured.part.ring_share == 1
    assert "one scale-up domain" in measured.part.source


def test_placement_counts():
    """Ranks under one leaf do not need the spines."""
    design = built(count=16, more="oversubscription: 3\n    routing: spray")
    near = network_part(design, design.fabric.gpus[:4])
    assert near.pairwise_share == pytest.approx(1)
    assert near.pairwise_share > network_part(design).pairwise_share
    assert near.latency_s < network_part(design).latency_s


def test_latency_is_of_cables_and_switches():
    design = built(count=2, topology="star")
    fabric = design.fabric
    out = fabric.link_layer == 2  # host to leaf
    expected = fabric.link_length_m[out].max() / 1.98e8 * 2 + 600e-9
    assert network_part(design).latency_s == pytest.approx(expected)


def test_no_such_engine():
    with pytest.raises(InputError, match="allowed: analytic, flow, packet"):
        measure_network(built(), engine="guess")


def test_shifts_are_cut_and_said_on_large_clusters(monkeypatch):
    module = importlib.import_module("railweave.predict.network_part")
    monkeypatch.setattr(module, "MOST_FLOWS", 40)
    measured = measure_network(built())
    assert [item.connections for item in measured.patterns if item.pattern == "pairwise"] == [32]
    assert "2 of 7 shifts" in measured.part.assumptions[0].statement


def test_progress_is_told():
    seen = []
    measure_network(built(), progress=lambda step, part: seen.append((step, part)))
    assert seen[0] == ("network: ring", 0.0)
    assert seen[-1] == ("network", 1.0)
