"""Scaling keeps the degrees where that is best, and says what the network costs."""

from __future__ import annotations

import pytest

import railweave
from railweave.catalog import default_catalog
from railweave.errors import InputError, SizingError
from railweave.predict._training_types import TrainingPlan
from railweave.predict.scaling import (
    compare_networks,
    network_case,
    oversubscribed,
    resized,
    scale_plan,
    scaling_counts,
    scaling_curve,
    without_network,
)
from railweave.predict.step import estimate_step
from railweave.predict.training_costs import ClusterLinks, costs_of_links, group_spread
from railweave.workload.groups import Degrees

CATALOG = default_catalog()
H100 = CATALOG.gpu("h100")
LLAMA = CATALOG.model("llama3-8b")
FAST = ClusterLinks(8, 360e9, 47e9)
SLOW = ClusterLinks(8, 360e9, 4e9)
PLAN = TrainingPlan(LLAMA, Degrees(tensor=2, data=8, pipeline=1, expert=1), 1, 4)


def costs_at(gpus, degrees, links=FAST):
    return costs_of_links(degrees, links)


def test_without_a_network_only_groups_within_domains_take_time():
    costs = costs_of_links(Degrees(2, 8, 2, 1), FAST)
    free = without_network(costs)
    assert set(costs.groups) == {"tensor", "data", "pipeline", "expert-data"}
    assert set(free.groups) == {"tensor"}


@pytest.mark.parametrize(
    ("degrees", "domain", "kind", "spread"),
    [
        (Degrees(1, 48, 3, 16), 72, "expert", (16, 8)),  # ranks 64…79 stand in two racks
        (Degrees(1, 48, 3, 8), 72, "expert", (8, 8)),
        (Degrees(1, 96, 1, 1), 72, "data", (96, 24)),
        (Degrees(8, 4, 1, 1), 8, "data", (4, 1)),
        (Degrees(4, 3, 1, 1), 8, "data", (3, 1)),
        (Degrees(2, 8, 1, 1), 8, "data", (8, 4)),
    ],
)
def test_groups_that_do_not_nest_in_domains_are_split(degrees, domain, kind, spread):
    assert group_spread(degrees, domain)[kind] == spread


def test_the_share_lost_is_what_the_step_would_gain():
    costs = costs_of_links(PLAN.degrees, SLOW)
    case = network_case("slow", PLAN, H100, costs)
    free = estimate_step(PLAN, H100, without_network(costs)).step_s
    assert case.lost_share == pytest.approx(1 - free / case.step_s)
    assert case.lost_share > 0.05
    assert network_case("fast", PLAN, H100, costs_of_links(PLAN.degrees, FAST)).lost_share < (
        case.lost_share
    )


def test_a_job_in_one_domain_loses_nothing_to_the_network():
    plan = TrainingPlan(LLAMA, Degrees(4, 2, 1, 1), 1, 4)
    case = network_case("one server", plan, H100, costs_of_links(plan.degrees, SLOW))
    assert case.lost_share == 0.0
    assert case.estimate.network_share > 0  # waiting inside the server is not the network's


def test_networks_keep_their_order():
    networks = {
        "fast": costs_of_links(PLAN.degrees, FAST),
        "slow": costs_of_links(PLAN.degrees, SLOW),
    }
    fast, slow = compare_networks(PLAN, H100, networks)
    assert (fast.name, slow.name) == ("fast", "slow")
    assert fast.step_s < slow.step_s
    assert fast.free_s == pytest.approx(slow.free_s)


# ---------------------------------------------------------------- plans at other counts


def test_a_scaled_plan_has_more_data_ranks():
    scaled = scale_plan(PLAN, 64, 128)
    assert scaled.degrees == Degrees(2, 32, 1, 1)
    assert scaled.sequences_per_step == 128
    assert scaled.micro_batches == 4


@pytest.mark.parametrize(("gpus", "batch"), [(1, 32), (3, 32), (64, 33), (16, 4)])
def test_what_is_not_whole_is_not_scaled(gpus, batch):
    assert scale_plan(PLAN, gpus, batch) is None


def test_one_data_rank_has_nothing_to_shard_over():
    assert scale_plan(PLAN, 2, 4).zero == 0


@pytest.mark.parametrize(
    ("gpus", "counts"),
    [
        (64, (8, 16, 32, 64, 128, 256, 512)),
        (1016, (120, 248, 504, 1016, 2032, 4064, 8128)),
        (4, (4, 8, 16, 32)),
    ],
)
def test_counts_round_a_number_are_whole_domains(gpus, counts):
    assert scaling_counts(gpus, 8) == counts
    assert max(scaling_counts(gpus, 8, most=gpus)) == gpus


# ---------------------------------------------------------------- curves


def test_weak_scaling_keeps_the_work_of_a_gpu():
    curve = scaling_curve(PLAN, H100, (64, 16, 32), costs_at, 8, fixed={"tensor": 2, "data": 8})
    assert [point.gpus for point in curve.points] == [16, 32, 64]
    per_gpu = {point.estimate.plan.sequences_per_step / point.gpus for point in curve.points}
    assert per_gpu == {2.0}
    assert curve.efficiency(curve.points[0]) == 1.0
    assert all(0 < curve.efficiency(point) < 1.3 for point in curve.points)


def test_points_are_priced_on_a_fabric_where_there_is_one():
    def exact_at(gpus, degrees):
        if gpus > 16:
            raise SizingError("too many for these switches")
        return costs_at(gpus, degrees, SLOW)

    curve = scaling_curve(PLAN, H100, (16, 32), costs_at, 8, exact_at=exact_at)
    first, second = curve.points
    assert first.case.lost_share > second.case.lost_share
    assert curve.by_closed_forms == ((32, "too many for these switches"),)


def test_strong_scaling_keeps_the_batch_and_loses_efficiency():
    curve = scaling_curve(PLAN, H100, (16, 32), lambda n, d: costs_at(n, d, SLOW), 8, mode="strong")
    assert {point.estimate.plan.sequences_per_step for point in curve.points} == {32}
    assert curve.efficiency(curve.points[1]) < 1
    assert curve.points[1].case.lost_share > curve.points[0].case.lost_share


def test_a_plan_that_is_clearly_quicker_takes_the_place_of_the_scaled_one():
    bad = TrainingPlan(LLAMA, Degrees(8, 2, 1, 1), 1, 16)
    curve = scaling_curve(bad, H100, (32,), costs_at, 8)
    (point,) = curve.points
    assert not point.kept
    assert point.estimate.plan.degrees.tensor < 8
    fixed = scaling_curve(bad, H100, (32,), costs_at, 8, fixed={"tensor": 8})
    assert fixed.points[0].estimate.plan.degrees.tensor == 8
    assert fixed.points[0].estimate.step_s > point.estimate.step_s


def test_counts_without_a_plan_are_skipped_with_the_reason():
    curve = scaling_curve(PLAN, H100, (1, 16), costs_at, 8)
    assert [point.gpus for point in curve.points] == [16]
    ((gpus, reason),) = curve.skipped
    assert gpus == 1
    assert "memory" in reason


@pytest.mark.parametrize(
    ("counts", "mode", "words"),
    [((16,), "sideways", "weak, strong"), ((0, 16), "weak", "1 or more"), ((1,), "weak", "memory")],
)
def test_curves_that_mean_nothing_are_refused(counts, mode, words):
    with pytest.raises(InputError, match=words):
        scaling_curve(PLAN, H100, counts, costs_at, 8, mode=mode)


# ---------------------------------------------------------------- other fabrics

DESIGN = """\
railweave: 1
name: small
cluster:
  servers: {count: 8, inline: {gpus: 2, nics: 2, nic_speed: 100 Gb/s, scale_up_bandwidth: 1 Tb/s}}
planes:
  backend: {transport: rocev2, topology: leaf-spine, switch: {radix: 8, speed: 100 Gb/s}}
"""


def test_a_fabric_is_built_again_with_another_oversubscription():
    built = railweave.parse(DESIGN).build()
    other = oversubscribed(built, 3.0)
    assert other.design.planes.backend.oversubscription == 3.0
    before, after = (one.summary().backend.capacity.bisection_bps for one in (built, other))
    assert after < before
    assert len(other.fabric.gpus) == len(built.fabric.gpus)


def test_a_fabric_is_built_again_with_more_servers():
    built = railweave.parse(DESIGN).build()
    assert len(resized(built, 32).fabric.gpus) == 32
    with pytest.raises(InputError, match="multiple of 2"):
        resized(built, 31)


def test_the_spines_keep_their_own_oversubscription():
    text = DESIGN.replace(
        "topology: leaf-spine,",
        "topology: rail-optimized, tiers: 3, oversubscription: {leaf: 1, spine: 3},",
    )
    other = oversubscribed(railweave.parse(text).build(), 2.0)
    assert other.design.planes.backend.oversubscription.leaf == 2.0
    assert other.design.planes.backend.oversubscription.spine == 3.0


def test_a_star_has_nothing_to_oversubscribe():
    text = DESIGN.replace("leaf-spine", "star").replace("radix: 8", "radix: 32")
    with pytest.raises(InputError, match="topology star has no leaves"):
        oversubscribed(railweave.parse(text).build(), 2.0)


def test_fabrics_that_cannot_be_are_refused():
    built = railweave.parse(DESIGN).build()
    with pytest.raises(InputError, match="1 or more"):
        oversubscribed(built, 0.5)
    with pytest.raises(SizingError):
        resized(built, 200_000)
