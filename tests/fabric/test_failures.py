"""Failures by name and by lot: what they mean, whom they cut off, what they leave."""

import dataclasses
import json

import numpy as np
import pytest
from _tiny import G, clos, three_tier
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.errors import InputError
from railweave.fabric import LinkLayer, NodeKind, PlaneId, node_name
from railweave.fabric._random import stream
from railweave.fabric._reach import reach
from railweave.fabric.bisection import bisection, halving_model
from railweave.fabric.diversity import path_facts
from railweave.fabric.domains import failure_domains
from railweave.fabric.failures import (
    Distribution,
    Failure,
    monte_carlo,
    parse_failures,
    what_if,
    without_parts,
)

BACK = PlaneId.BACKEND
T = 1e12


def rails():
    return clos(servers=8, gpus=4, per_leaf=4, rails=True, spines=2, uplinks=2)


# ---------------------------------------------------------------- names


def test_names_ports_and_patterns():
    fabric = rails()
    assert parse_failures(fabric, ["spine-2"]).nodes == (int(fabric.switches(BACK, 2)[1]),)
    assert parse_failures(fabric, ["spine-*"]).nodes == tuple(fabric.switches(BACK, 2))
    (duplex,) = parse_failures(fabric, ["leaf-1:port-5"]).duplex
    assert fabric.link_src[2 * duplex] == fabric.switches(BACK, 1)[0]
    assert fabric.link_layer[2 * duplex] == LinkLayer.LEAF_SPINE
    nic = parse_failures(fabric, ["node002/nic1"]).nodes[0]
    assert (fabric.node_kind[nic], fabric.node_server[nic]) == (NodeKind.NIC, 1)
    both = parse_failures(fabric, ["spine-1", "spine-*", "leaf-1:port-5", "leaf-1:port-5"])
    assert len(both.nodes) == 2
    assert len(both.duplex) == 1


def test_parallel_planes_carry_their_number():
    fabric = clos(servers=4, gpus=2, per_leaf=2, rails=True, spines=2, planes=2)
    (node,) = parse_failures(fabric, ["p2-spine-1"]).nodes
    assert (fabric.node_subplane[node], fabric.node_tier[node]) == (1, 2)
    assert node_name(fabric, node) == "p2-spine-1"


def test_a_server_takes_all_that_is_in_it():
    fabric = rails()
    nodes = np.array(parse_failures(fabric, ["node003"]).nodes)
    assert set(fabric.node_server[nodes]) == {2}
    assert len(nodes) == 1 + 4 + 4


@pytest.mark.parametrize("item", ["spine-9", "leaf-1:port-99", "nothing", "core-*", "leaf-1:x"])
def test_names_that_mean_nothing_are_refused(item):
    with pytest.raises(InputError) as caught:
        parse_failures(rails(), [item])
    assert item.split(":")[0].split("*")[0] in str(caught.value)


# ---------------------------------------------------------------- what if


def test_dead_spine_before_and_after():
    fabric = rails()
    found = what_if(fabric, parse_failures(fabric, ["spine-1"]))
    assert (found.links_down, found.switches_down) == (16, 1)
    assert found.before.bisection_bps == 6.4 * T
    assert found.after.bisection_bps == 3.2 * T
    assert found.bisection_left == 0.5
    assert (found.before.ecmp_paths, found.after.ecmp_paths) == (8, 4)
    assert found.gpus_cut_off == found.after.servers_cut_off == 0
    assert found.after.tiers[0] == ("leaf", 12.8 * T, 6.4 * T)
    assert "spine-1" in found.describe()
    assert "50.0%" in found.describe()
    assert json.loads(json.dumps(found.to_json()))["after"]["ecmp_paths"] == 4


def test_dead_leaf_cuts_off_its_gpus_but_no_server():
    fabric = rails()
    found = what_if(fabric, parse_failures(fabric, ["leaf-1"]))
    assert found.gpus_cut_off == 4
    assert found.after.servers_cut_off == 0
    assert found.after.host_bps == 28 * 400 * G


def test_dead_server_and_dead_nic():
    fabric = rails()
    server = what_if(fabric, parse_failures(fabric, ["node001"]))
    assert (server.gpus_cut_off, server.after.servers_cut_off) == (4, 1)
    nic = what_if(fabric, parse_failures(fabric, ["node001/nic2"]))
    assert (nic.gpus_cut_off, nic.after.servers_cut_off, nic.links_down) == (1, 0, 1)


def test_dead_gpu_is_cut_off_though_its_nic_lives():
    fabric = rails()
    found = what_if(fabric, parse_failures(fabric, ["node001/gpu2"]))
    assert (found.gpus_cut_off, found.links_down) == (1, 0)
    assert found.after.bisection_bps == found.before.bisection_bps


def test_nothing_failed_changes_nothing():
    found = what_if(rails(), Failure((), (), ()))
    assert found.before == found.after
    assert found.bisection_left == 1.0


def test_dual_homed_nics_survive_a_leaf_and_separate_planes_a_whole_plane():
    dual = clos(servers=4, gpus=2, per_leaf=2, spines=2, dual=True)
    assert what_if(dual, parse_failures(dual, ["leaf-1"])).gpus_cut_off == 0
    planes = clos(servers=4, gpus=2, per_leaf=2, rails=True, spines=2, planes=2)
    found = what_if(planes, parse_failures(planes, ["p1-*"]))
    assert found.gpus_cut_off == 0
    assert found.bisection_left == 0.5


def test_rail_only_parts_do_not_count_as_cut_off():
    fabric = clos(servers=4, gpus=4, per_leaf=4, rails=True, spines=0)
    assert what_if(fabric, Failure((), (), ())).before.gpus_cut_off == 0
    assert what_if(fabric, parse_failures(fabric, ["leaf-2"])).gpus_cut_off == 4


def test_the_smaller_fragment_is_cut_off():
    fabric = clos(servers=6, per_leaf=2, spines=1)
    trunk = np.flatnonzero(fabric.link_layer[::2] == LinkLayer.LEAF_SPINE)
    lost = reach(fabric, BACK).cut_off(fabric.without(duplex=trunk[:1].tolist()).link_up)
    assert lost.servers.tolist() == [0, 1]
    assert len(lost.gpus) == 2
    assert lost.host_bps_lost == 800 * G
    # With no spine all leaves are alone; the first of equals remains.
    alone = reach(fabric, BACK).cut_off(fabric.without(duplex=trunk.tolist()).link_up)
    assert alone.servers.tolist() == [2, 3, 4, 5]


def test_gpus_without_a_nic_of_their_own_follow_their_server():
    fabric = clos(servers=2, gpus=2, per_leaf=2, spines=0)
    layer = np.where(fabric.link_layer == LinkLayer.PCIE, LinkLayer.SCALE_UP, fabric.link_layer)
    bare = dataclasses.replace(fabric, link_layer=layer.astype(np.uint8))
    nics = bare.nics(BACK)
    assert not len(reach(bare, BACK).cut_off(bare.without(nodes=nics[:1]).link_up).gpus)
    assert len(reach(bare, BACK).cut_off(bare.without(nodes=nics[:2]).link_up).gpus) == 2


# ---------------------------------------------------------------- paths


def test_paths_of_two_and_three_tiers():
    two = path_facts(rails(), BACK)
    assert (two.ecmp_paths, two.diameter) == (8, 4)
    assert two.hop_histogram == ((2, 8 * 7),)
    assert (two.tiers[0].min_uplinks, two.tiers[0].max_neighbours) == (4, 2)
    three = path_facts(three_tier(pods=2, leaves=2, spines=2, cores=4, per_leaf=2), BACK)
    assert (three.ecmp_paths, three.diameter) == (4, 6)
    assert dict(three.hop_histogram) == {2: 4, 4: 8}
    star = path_facts(clos(servers=3, per_leaf=3, spines=0), BACK)
    assert (star.ecmp_paths, star.diameter, star.tiers) == (1, 2, ())


# ---------------------------------------------------------------- domains


def test_failure_domains_of_a_rail_fabric():
    found = {domain.kind: domain for domain in failure_domains(rails())}
    assert list(found) == ["nic", "leaf", "spine", "rack", "switch-rack"]
    assert (found["nic"].gpus_cut_off, found["leaf"].gpus_cut_off) == (1, 4)
    assert found["leaf"].host_share_lost == 1 / 8
    assert (found["spine"].gpus_cut_off, found["spine"].bisection_share_lost) == (0, 0.5)
    assert (found["rack"].servers_cut_off, found["rack"].gpus_cut_off) == (4, 16)
    assert found["spine"].tried == 1
    assert found["spine"].of == 2


@settings(max_examples=8, deadline=None)
@given(servers=st.integers(3, 9), per_leaf=st.integers(1, 4), dual=st.booleans())
def test_the_worst_switch_is_found_among_all(servers, per_leaf, dual):
    fabric = clos(servers=servers, per_leaf=per_leaf, spines=2, dual=dual)
    model, attached = halving_model(fabric), reach(fabric, BACK)
    intact = bisection(fabric, model=model).bps
    for tier, kind in ((1, "leaf"), (2, "spine")):
        every = []
        for node in fabric.switches(BACK, tier):
            up = fabric.without(nodes=[node]).link_up
            lost = 1 - model.worst(up)[0] / intact if intact else 0.0
            every.append((len(attached.cut_off(up).gpus), lost))
        domain = next(d for d in failure_domains(fabric, model=model) if d.kind == kind)
        assert (domain.gpus_cut_off, domain.bisection_share_lost) == max(every)


# ---------------------------------------------------------------- by lot


def test_same_seed_same_draws_and_another_seed_others():
    fabric = rails()
    one = monte_carlo(fabric, failures=3, draws=20, seed=7)
    assert one == monte_carlo(fabric, failures=3, draws=20, seed=7)
    assert one != monte_carlo(fabric, failures=3, draws=20, seed=8)
    assert one.population == len(fabric.switches(BACK)) + 32 + 32


def test_worst_draw_is_named_and_can_be_replayed():
    fabric = rails()
    seen = []
    found = monte_carlo(fabric, failures=2, draws=15, seed=1, on_draw=seen.append)
    assert seen == list(range(1, 16))
    again = what_if(fabric, parse_failures(fabric, found.worst_items))
    assert again.after.bisection_bps == found.worst_bps == found.bisection_bps.min
    assert again.gpus_cut_off == found.worst_gpus_cut_off
    assert found.intact_bps == 6.4 * T
    assert f"worst draw {found.worst_draw}" in found.describe()
    assert json.loads(json.dumps(found.to_json()))["worst"]["failed"] == list(found.worst_items)


def test_every_spine_dead_leaves_nothing_and_links_are_not_switches():
    fabric = clos(servers=4, per_leaf=4, spines=0)
    star = monte_carlo(fabric, failures=1, draws=3, seed=0, kinds="switches")
    assert star.bisection_bps.max == 0.0
    assert star.gpus_cut_off.min == 4
    links = monte_carlo(fabric, failures=4, draws=3, seed=0, kinds="links")
    assert links.population == 4
    assert links.gpus_cut_off.mean == 4


def test_of_equal_bisections_the_one_that_cuts_off_most_is_worst():
    star = clos(servers=1, gpus=4, per_leaf=1, spines=0)
    found = monte_carlo(star, failures=1, draws=30, seed=0)
    assert found.worst_items == ("leaf-1",)
    assert found.worst_gpus_cut_off == found.gpus_cut_off.max == 4


def test_parts_go_in_both_directions():
    fabric = rails()
    up = without_parts(fabric, fabric.switches(BACK)[:1].astype(np.int64), np.array([40, 41]))
    expected = fabric.without(nodes=fabric.switches(BACK)[:1], duplex=[40, 41]).link_up
    assert np.array_equal(up, expected)


@pytest.mark.parametrize(("failures", "draws"), [(0, 5), (1000, 5), (1, 0)])
def test_impossible_draws_are_refused(failures, draws):
    with pytest.raises(InputError, match="cannot be drawn"):
        monte_carlo(rails(), failures=failures, draws=draws, seed=0)


def test_distribution_gives_values_that_occurred():
    found = Distribution.of(np.array([5.0, 1.0, 2.0, 4.0, 3.0]))
    assert (found.min, found.p5, found.p50, found.mean, found.max) == (1.0, 1.0, 3.0, 3.0, 5.0)


def test_streams_have_names():
    assert stream(1, "a").integers(2**40) == stream(1, "a").integers(2**40)
    assert stream(1, "a").integers(2**40) != stream(1, "b").integers(2**40)


def test_a_fabric_in_pieces_keeps_nothing_in_what_if_draws_and_domains():
    fabric = clos(servers=6, per_leaf=2, spines=1, gpus=4)
    found = what_if(fabric, parse_failures(fabric, ["spine-1"]))
    assert found.bisection_left == 0.0
    assert "the fabric is in 3 pieces" in found.describe()
    spine = next(d for d in failure_domains(fabric) if d.kind == "spine")
    assert spine.bisection_share_lost == 1.0
    drawn = monte_carlo(fabric, failures=1, draws=20, seed=0, kinds="switches")
    assert (drawn.worst_items, drawn.worst_bps) == (("spine-1",), 0.0)
