"""Capacity by switch, rack and tier against hand-worked examples."""

import numpy as np
import pytest
from _tiny import G, clos, random_graph, three_tier

from railweave.design.models import Transport
from railweave.fabric._arrays import PlaneId
from railweave.fabric.capacity import (
    TierProvision,
    plane_capacity,
    rack_capacities,
    ratio,
    switch_capacities,
)
from railweave.fabric.wire import framing, payload_efficiency

FRAME = framing(Transport.ROCEV2)
BACK = PlaneId.BACKEND
T = 1e12


def leaf_of(fabric, **kw):
    capacity = plane_capacity(fabric, BACK, FRAME, **kw)
    tier = capacity.tier("leaf")
    assert tier is not None
    return capacity, tier


def test_one_leaf_of_32_by_400g_down_and_16_up_is_two_to_one():
    fabric = clos(servers=4, gpus=8, per_leaf=4, spines=16, uplinks=1)
    _, leaf = leaf_of(fabric)
    assert (leaf.down_links, leaf.up_links) == (32, 16)
    assert leaf.down_bps == 12.8 * T
    assert leaf.up_bps == 6.4 * T
    assert leaf.oversubscription == 2.0


def test_sixteen_servers_of_eight_400g_nics_offer_51_2_terabit():
    fabric = clos(servers=16, gpus=8, per_leaf=16, rails=True, spines=2)
    capacity, _ = leaf_of(fabric)
    assert capacity.host_links == len(fabric.gpus) == 128
    assert capacity.host_bps == 51.2 * T
    assert capacity.effective_host_bps == 51.2 * T * payload_efficiency(FRAME)


@pytest.mark.parametrize(
    ("servers", "up_bps", "down", "up", "ratio_"),
    [
        (4, 400 * G, 12.8 * T, 25.6 * T, 0.5),
        (8, 400 * G, 25.6 * T, 25.6 * T, 1.0),
        (8, 200 * G, 25.6 * T, 12.8 * T, 2.0),
    ],
)
def test_juniper_sixteen_leaves(servers, up_bps, down, up, ratio_):
    fabric = clos(
        servers=servers, gpus=8, per_leaf=servers // 2, rails=True, spines=4, up_bps=up_bps
    )
    capacity, leaf = leaf_of(fabric)
    assert leaf.switches == 16
    assert (capacity.host_bps, leaf.populated_up_bps) == (down, up)
    assert leaf.oversubscription_populated == ratio_


def test_provisioned_ports_and_target_come_from_the_plan():
    fabric = clos(servers=31, gpus=8, per_leaf=32, rails=True, spines=4, uplinks=8)
    plan = TierProvision("leaf", 8 * 32, 8 * 32, 8 * 32 * 400 * G, 8 * 32 * 400 * G, 1.0)
    _, leaf = leaf_of(fabric, provisions=(plan,))
    assert leaf.oversubscription == 1.0
    assert leaf.target == 1.0
    assert leaf.down_bps == 102.4 * T
    assert leaf.populated_down_bps == 99.2 * T
    assert leaf.oversubscription_populated == 248 / 256


def test_failed_links_are_not_populated():
    fabric = clos(servers=4, gpus=1, per_leaf=2, spines=2)
    narrowed = fabric.without(nodes=fabric.switches(BACK, 2)[:1])
    _, before = leaf_of(fabric)
    _, after = leaf_of(narrowed)
    assert after.populated_up_bps == before.populated_up_bps / 2
    assert plane_capacity(narrowed, BACK, FRAME).host_bps == 4 * 400 * G


def test_tiers_run_from_the_leaf_up_and_a_star_has_no_way_up():
    fabric = three_tier(pods=2, leaves=2, spines=2, cores=2, per_leaf=2)
    tiers = plane_capacity(fabric, BACK, FRAME).tiers
    assert [t.tier for t in tiers] == ["leaf", "spine", "core"]
    assert tiers[1].down_bps == tiers[0].up_bps
    assert tiers[1].up_bps == tiers[2].down_bps
    assert tiers[2].oversubscription is None
    star = clos(servers=4, per_leaf=4, spines=0)
    assert plane_capacity(star, BACK, FRAME).tiers[0].oversubscription is None
    assert ratio(1.0, 0.0) is None


def test_every_switch_has_its_own_row():
    fabric = clos(servers=3, gpus=2, per_leaf=2, rails=True, spines=3, uplinks=2)
    rows = switch_capacities(fabric, BACK, FRAME)
    leaf = np.array(rows.tier) == "leaf"
    assert sorted(rows.down_links[leaf].tolist()) == [1, 1, 2, 2]
    assert set(rows.up_links[leaf].tolist()) == {6}
    assert rows.down_bps[~leaf].tolist() == [4 * 2 * 400 * G] * 3
    assert np.isinf(rows.oversubscription[~leaf]).all()
    assert rows.by_tier()[0] == ("leaf", 6 * 400 * G, 24 * 400 * G)


def test_graph_of_unknown_tiers_has_hosts_below_and_switches_beside():
    fabric = random_graph(np.random.default_rng(1), switches=4, servers=6, extra=3)
    fabric.node_tier[fabric.switches(BACK)] = -1
    capacity = plane_capacity(fabric, BACK, FRAME)
    (row,) = capacity.tiers
    assert (row.tier, row.switches) == ("switch", 4)
    assert row.populated_down_bps == capacity.host_bps
    assert row.peer_bps > 0
    assert row.oversubscription is None


def test_rack_with_its_own_leaf_is_bound_by_the_uplinks():
    own = clos(servers=8, gpus=1, per_leaf=4, spines=2, tor=True)
    racks = rack_capacities(own, BACK, FRAME)
    assert [r.servers for r in racks] == [4, 4]
    assert all(r.host_bps == 1.6 * T and r.leaving_bps == 0.8 * T for r in racks)
    assert all(r.oversubscription == 2.0 for r in racks)
    apart = rack_capacities(clos(servers=8, gpus=1, per_leaf=4, spines=2), BACK, FRAME)
    assert all(r.leaving_links == r.host_links == 4 for r in apart)
    assert apart[0].effective_host_bps == 1.6 * T * payload_efficiency(FRAME)
