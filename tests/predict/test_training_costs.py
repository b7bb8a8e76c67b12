import numpy as np
import pytest
from training import hopper

import railweave
from railweave.design.models import Collective
from railweave.errors import InputError
from railweave.predict.training_costs import (
    NETWORK_SHARE,
    SCALE_UP_SHARE,
    ClusterLinks,
    TimeCurve,
    costs_of_links,
    costs_of_system,
    costs_on_fabric,
    group_spread,
    links_of,
)
from railweave.workload import Degrees, parallel_groups

GIB = float(1 << 30)
REDUCE, GATHER = Collective.ALL_REDUCE, Collective.ALL_GATHER


def test_curves_are_straight_between_points_and_beyond():
    curve = TimeCurve((0.0, 10.0, 20.0), (1.0, 2.0, 5.0))
    assert [curve.time_s(size) for size in (0, 5, 10, 15, 30)] == [0, 1.5, 2, 3.5, 8]


@pytest.mark.parametrize(
    "degrees",
    [
        Degrees(8, 16, 4, 1),
        Degrees(2, 16, 2, 8),
        Degrees(2, 8, 2, 2, 2),
        Degrees(1, 32, 1, 4, 2),
        Degrees(4, 4, 1, 1, 4),
    ],
)
def test_spread_counts_members_of_a_domain(degrees):
    domain = np.arange(degrees.ranks) // 8
    for kind, table in parallel_groups(degrees).items():
        members, inside = group_spread(degrees, 8)[kind]
        assert members == table.shape[1]
        most = max(np.bincount(row).max() for row in domain[table])
        assert inside == most, kind


def test_closed_forms_by_hand():
    links = ClusterLinks(8, 400e9, 50e9, scale_up_latency_s=0, network_latency_s=0)
    costs = costs_of_links(Degrees(8, 16, 4, 1), links)
    assert costs.time_s("tensor", REDUCE, GIB) == pytest.approx(2 * 7 / 8 * GIB / 400e9)
    assert costs.time_s("data", REDUCE, GIB) == pytest.approx(2 * 15 / 16 * GIB / 50e9)
    assert costs.time_s("data", GATHER, GIB) == pytest.approx(15 / 16 * GIB / 50e9)
    assert costs.time_s("pipeline", Collective.SEND_RECV, GIB) == pytest.approx(GIB / 50e9)
    assert costs.time_s("expert", Collective.ALL_TO_ALL, GIB) == 0
    spread = costs_of_links(Degrees(2, 16, 1, 1), links)
    # four of a ring's members in a server lend it their four NICs
    assert spread.time_s("data", REDUCE, GIB) == pytest.approx(2 * 15 / 16 * GIB / 200e9)
    mixture = costs_of_links(Degrees(1, 16, 1, 16), links)
    assert mixture.time_s("expert", Collective.ALL_TO_ALL, GIB) == pytest.approx(
        8 / 16 * GIB / 50e9, rel=2e-3
    )


def test_several_domains_need_a_network():
    with pytest.raises(InputError, match="need a network"):
        costs_of_links(Degrees(8, 2, 1, 1), ClusterLinks(8, 400e9, 0.0))
    assert costs_of_links(Degrees(8, 1, 1, 1), ClusterLinks(8, 400e9, 0.0)).groups


def test_links_of_a_system():
    links = links_of(hopper(64))
    assert links.domain_gpus == 8
    assert links.scale_up_Bps == pytest.approx(450e9 * SCALE_UP_SHARE)
    assert links.network_Bps == pytest.approx(50e9 * NETWORK_SHARE)


@pytest.mark.parametrize(
    "degrees", [Degrees(8, 16, 4, 1), Degrees(2, 32, 2, 8), Degrees(4, 8, 1, 1, 4)]
)
def test_library_model_is_near_the_links(degrees):
    """Large sizes are bound by the links, whatever the algorithm."""
    system = hopper(degrees.ranks)
    library, plain = costs_of_system(system, degrees), costs_of_links(degrees, links_of(system))
    assert set(library.groups) == set(plain.groups)
    for kind, group in plain.groups.items():
        for op in group.curves:
            ratio = library.time_s(kind, op, 4 * GIB) / plain.time_s(kind, op, 4 * GIB)
            assert 0.5 < ratio < 2, (kind, op)


DESIGN = """
railweave: 1
name: small
cluster: {servers: {model: dgx-h100, count: 8}}
planes:
  backend:
    transport: rocev2
    topology: rail-optimized
    switch: {radix: 16, speed: 400 Gb/s}
    oversubscription: RATIO
"""


def built(ratio=1):
    return railweave.parse(DESIGN.replace("RATIO", str(ratio))).build()


@pytest.fixture(scope="module")
def whole():
    return built()


def test_fabric_agrees_with_closed_forms(whole):
    degrees = Degrees(8, 8, 1, 1)
    costs = costs_on_fabric(whole.fabric, whole.routing(), degrees)
    links = ClusterLinks(8, 450e9 * SCALE_UP_SHARE, 50e9)
    plain = costs_of_links(degrees, links)
    for kind in ("tensor", "data"):
        for op in (REDUCE, GATHER):
            ratio = costs.time_s(kind, op, GIB) / plain.time_s(kind, op, GIB)
            assert 0.98 < ratio < 1.05, (kind, op)  # latency against packet headers
    assert costs.places("tensor").server == 1
    assert costs.places("data").leaf + costs.places("data").spine == pytest.approx(1)


def test_rank_order_puts_groups_on_rails(whole):
    costs = costs_on_fabric(whole.fabric, whole.routing(), Degrees(8, 4, 2, 1))
    assert costs.places("pipeline").leaf == 1  # same rail, same leaf
    shuffled = np.random.default_rng(1).permutation(whole.fabric.gpus)
    worse = costs_on_fabric(whole.fabric, whole.routing(), Degrees(8, 4, 2, 1), shuffled)
    assert worse.places("tensor").server < 0.5
    assert worse.time_s("tensor", REDUCE, GIB) > 3 * costs.time_s("tensor", REDUCE, GIB)


def test_oversubscription_costs_all_to_all_time_and_rings_on_rails_none(whole):
    tight = built(3)
    op, mixture, dense = Collective.ALL_TO_ALL, Degrees(1, 64, 1, 64), Degrees(8, 8, 1, 1)

    def taken(of, degrees, kind, what):
        return costs_on_fabric(of.fabric, of.routing(), degrees).time_s(kind, what, GIB)

    assert taken(tight, mixture, "expert", op) > 1.5 * taken(whole, mixture, "expert", op)
    rings = taken(tight, dense, "data", REDUCE), taken(whole, dense, "data", REDUCE)
    assert rings[0] == pytest.approx(rings[1])


def test_a_dead_nic_halves_the_rate_of_the_ring_that_shares_another(whole):
    degrees = Degrees(8, 8, 1, 1)
    broken = whole.fail(["node001/nic0"])
    before = costs_on_fabric(whole.fabric, whole.routing(), degrees)
    after = costs_on_fabric(broken.fabric, broken.routing(), degrees)
    ratio = after.time_s("data", REDUCE, GIB) / before.time_s("data", REDUCE, GIB)
    assert ratio == pytest.approx(2, rel=0.01)
    assert after.time_s("tensor", REDUCE, GIB) == before.time_s("tensor", REDUCE, GIB)


def test_too_few_gpus(whole):
    with pytest.raises(InputError, match="64 GPUs for 128 ranks"):
        costs_on_fabric(whole.fabric, whole.routing(), Degrees(8, 16, 1, 1))


def test_long_rings_keep_the_librarys_latency_on_a_fabric(whole):
    """Cables and switches alone take a tenth of it."""
    degrees = Degrees(1, len(whole.fabric.gpus), 1, 1)
    fabric = costs_on_fabric(whole.fabric, whole.routing(), degrees)
    links = costs_of_links(degrees, ClusterLinks(8, 360e9, 47e9))
    for what in (REDUCE, GATHER):
        small = fabric.time_s("data", what, 65536.0)
        assert small >= links.time_s("data", what, 1.0) * (1 - 1e-6)
        assert small == pytest.approx(links.time_s("data", what, 65536.0), rel=0.1)
