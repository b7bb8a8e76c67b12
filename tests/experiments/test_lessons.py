"""What each lesson must show, in numbers of its own; and that its claim can be false."""

from __future__ import annotations

import math
from functools import cache

import pytest

from railweave.design.models import PlacementName, RoutingScheme
from railweave.experiments import EXPERIMENTS, Outcome
from railweave.experiments._lessons_hashing import collisions
from railweave.experiments._lessons_planes import shared_plane
from railweave.experiments._lessons_rings import rings
from railweave.experiments._lessons_strategies import strategies
from railweave.experiments._lessons_thresholds import thresholds
from railweave.experiments.lessons import LESSONS
from railweave.report.experiments import draw_chart, value_table

LABS = ("architecture", "traffic", "fabric", "congestion", "collectives")


@cache
def outcome_of(lab: str) -> Outcome:
    return LESSONS[lab].run()


@pytest.mark.parametrize("lab", LABS)
def test_the_claim_holds(lab):
    outcome = outcome_of(lab)
    assert outcome.holds, dict(outcome.values)
    assert all(math.isfinite(value) for value in outcome.values.values())
    assert outcome.reading
    assert " nan" not in outcome.reading


@pytest.mark.parametrize("lab", LABS)
def test_it_can_be_drawn_and_tabled(lab):
    outcome = outcome_of(lab)
    for chart in outcome.charts:
        assert chart.frame.columns == ["series", "x", "y"]
        assert chart.frame["y"].is_finite().all()
        assert len(draw_chart(chart).data) == chart.frame["series"].n_unique()
    table = value_table(LESSONS[lab], outcome)
    assert table.rows


def test_every_lab_has_one_and_names_are_its_own():
    names = [item.name for item in LESSONS.values()]
    assert tuple(LESSONS) == LABS
    assert len({*names, *(item.name for item in EXPERIMENTS)}) == len(names) + len(EXPERIMENTS)


def test_lessons_give_the_same_numbers_each_time():
    assert dict(LESSONS["congestion"].run().values) == dict(outcome_of("congestion").values)
    assert dict(LESSONS["fabric"].run().values) == dict(outcome_of("fabric").values)


# ---------------------------------------------------------------- architecture


def test_storage_on_the_jobs_plane_costs_by_its_load():
    values = outcome_of("architecture").values
    assert 0 <= values["light_longer_share"] < 0.02
    assert values["heavy_longer_share"] > 0.2
    assert values["own_plane_light_s"] == values["own_plane_heavy_s"]


def test_a_light_load_does_no_harm():
    assert not shared_plane(light_gbps=1.0, heavy_gbps=5.0).holds


# ---------------------------------------------------------------- traffic


def test_data_parallelism_takes_what_a_ring_takes():
    values = outcome_of("traffic").values
    assert values["size_second_data_s"] == pytest.approx(30.72e-3 + 6 * 10e-6, rel=1e-9)


def test_each_change_reorders_two_strategies():
    values = outcome_of("traffic").values
    assert values["cases_reordered"] == values["cases"] == 4
    for case, name in (
        ("message_count", "pipeline"),
        ("size", "tensor"),
        ("latency", "expert"),
        ("placement", "tensor"),
    ):
        first, second = (
            values[f"{case}_{state}_{name}_s"] > values[f"{case}_{state}_data_s"]
            for state in ("first", "second")
        )
        assert first != second, case


@pytest.mark.parametrize(
    "altered",
    [
        {"micro_batches": (64, 64)},
        {"gradients_bytes": (256_000_000, 256_000_000)},
        {"latencies_s": (1e-6, 1e-6)},
        {"placements": (PlacementName.PACKED, PlacementName.PACKED)},
    ],
)
def test_without_a_change_nothing_is_reordered(altered):
    outcome = strategies(**altered)
    assert not outcome.holds
    assert outcome.values["cases_reordered"] == 3


# ---------------------------------------------------------------- fabric


def test_hashed_flows_leave_equal_uplinks_idle():
    values = outcome_of("fabric").values
    assert values["oversubscription"] == 1
    assert 0.2 < values["queue_pairs_1_idle_share"] < 0.5  # (7/8)^8 = 34 % are expected
    assert values["queue_pairs_1_mean_s"] > 2 * values["ideal_s"]
    assert values["queue_pairs_16_mean_s"] < values["queue_pairs_4_mean_s"]
    assert values["queue_pairs_4_mean_s"] < values["queue_pairs_1_mean_s"]


def test_packets_spread_one_by_one_do_not_collide():
    outcome = collisions(RoutingScheme.SPRAY, seeds=(0, 1))
    assert not outcome.holds
    assert outcome.values["queue_pairs_1_mean_s"] == pytest.approx(outcome.values["ideal_s"])
    assert outcome.values["queue_pairs_1_idle_share"] == 0


# ---------------------------------------------------------------- congestion


def test_thresholds_are_met_when_the_closed_form_says():
    values = outcome_of("congestion").values
    for name, time in (("first_mark", 2.56e-3), ("first_pause", 5.12e-3), ("first_drop", 6.4e-3)):
        assert values[f"{name}_s"] == pytest.approx(time, rel=1e-3)
        assert values[f"{name}_closed_form_s"] == pytest.approx(time)


def test_one_threshold_moved_alone_silences_the_other():
    values = outcome_of("congestion").values
    assert values["in_order_pauses"] == 0
    assert values["in_order_cnps"] > 100
    for case in ("low_pfc", "high_ecn"):
        assert values[f"{case}_marks"] == values[f"{case}_cnps"] == 0
        assert values[f"{case}_pauses"] > 100


@pytest.mark.parametrize("altered", [{"low_pfc": 0.6}, {"high_ecn": 0.5}])
def test_thresholds_that_stay_in_order_undo_nothing(altered):
    assert not thresholds(**altered).holds


# ---------------------------------------------------------------- collectives


def test_the_ring_of_four():
    values = outcome_of("collectives").values
    assert values["ring_rounds"] == 6
    assert values["ring_bytes_per_gpu_bytes"] == pytest.approx(384e6)
    assert values["ring_closed_form_s"] == pytest.approx(30.72e-3)
    assert values["ring_payload_alone_s"] == pytest.approx(30.72e-3)
    assert values["ring_lower_bound_s"] == pytest.approx(30.72e-3)
    for engine in ("flow", "packet"):
        wire = values[f"ring_{engine}_engine_s"]
        assert wire * values["payload_share"] == pytest.approx(30.72e-3, rel=0.01)


@pytest.mark.parametrize("ranks", [4, 16, 64])
def test_a_tree_is_faster_for_small_messages_and_the_ring_for_large(ranks):
    values = outcome_of("collectives").values
    at = f"ranks_{ranks}"
    assert values[f"{at}_small_tree_s"] < values[f"{at}_small_ring_s"]
    assert values[f"{at}_large_tree_s"] > values[f"{at}_large_ring_s"]
    assert 1024 < values[f"{at}_crossover_bytes"] < 256e6


def test_the_crossover_grows_with_the_ranks():
    values = outcome_of("collectives").values
    sizes = [values[f"ranks_{n}_crossover_bytes"] for n in (4, 16, 64)]
    assert sizes == sorted(sizes)


def test_between_large_sizes_nothing_changes():
    outcome = rings(ranks=(4,), small_bytes=1_000_000)
    assert not outcome.holds
    assert "neither" in outcome.reading
