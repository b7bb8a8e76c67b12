"""Scores, weights, what is out, and where the answer turns."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from compare_designs import measured
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.errors import InputError
from railweave.provenance import Certainty
from railweave.transport.compare import (
    Measurements,
    Requirements,
    Technology,
    judge,
    technology_facts,
    weights_of,
)

CRITERIA = tuple(technology_facts().criteria)
#: nothing counts but what a test names
NOTHING = dict.fromkeys(CRITERIA, 0.0)


def only(**weights: float) -> Requirements:
    return Requirements(weights={**NOTHING, **weights})


# ---------------------------------------------------------------- stated facts


def test_every_row_of_the_comparison_is_there():
    rows = {row.key for row in technology_facts().rows}
    assert rows >= {
        "rdma", "forwarding", "congestion", "ecosystem", "interoperability", "difficulty", "use",
        "vendors", "supply", "familiarity", "integration", "automation", "troubleshooting",
        "tenancy", "security", "routing", "cost",
    }  # fmt: skip
    for technology in Technology:
        text = technology_facts().technologies[technology]
        assert len(text.stack) == 5


def test_every_statement_has_a_source_and_a_certainty():
    facts = technology_facts()
    for row in facts.rows:
        for cell in row.cells.values():
            assert cell.text
            assert cell.source.title
            assert isinstance(cell.source.certainty, Certainty)
            assert (cell.rank is None) == (not row.criterion)
    for own in facts.host.values():
        assert len(own.sources) == 4
        assert all(source.title for source, _ in own.sources.values())
    assert all(source.title for source, _ in facts.machine.sources.values())


def test_every_criterion_is_measured_or_stated():
    stated = {row.criterion for row in technology_facts().rows} | {"familiarity"}
    for key, criterion in technology_facts().criteria.items():
        assert criterion.measured != (key in stated), key


# ---------------------------------------------------------------- no option wins for all weights

#: weights → who wins; the same measurements for all
WINNERS = {
    Technology.TCP: only(cost=5, operations=3, ecosystem=3, bandwidth=2),
    Technology.ROCEV2: only(latency=5, cost=4, vendors=3),
    Technology.INFINIBAND: only(latency=8, bandwidth=4, operations=3),
    Technology.ADAPTIVE: only(congestion=6, resilience=4, automation=2),
}


@pytest.mark.parametrize("technology", WINNERS)
def test_no_option_wins_for_all_weights(technology):
    found = judge(WINNERS[technology], measured())
    assert found.winner is technology
    assert not found.excluded


# ---------------------------------------------------------------- arithmetic


def test_totals_are_weighted_means():
    found = judge(only(cost=3, latency=1), measured())
    for technology in Technology:
        scores = {score.criterion: score.value for score in found.scores[technology]}
        assert found.totals[technology] == pytest.approx(
            (3 * scores["cost"] + scores["latency"]) / 4
        )


def test_scores_are_what_their_arithmetic_says():
    found = judge(Requirements(), measured())
    given_ = measured().measured
    best = [min(one.large[at].time_s for one in given_.values()) for at in (0, 1)]
    for technology in Technology:
        scores = {score.criterion: score for score in found.scores[technology]}
        one = given_[technology]
        mean = 0.6 * best[0] / one.large[0].time_s + 0.4 * best[1] / one.large[1].time_s
        assert scores["bandwidth"].value == pytest.approx(mean)
        ratios = (one.permutation_ratio, one.incast_ratio, one.bystander_ratio)
        assert scores["congestion"].value == pytest.approx(
            sum(min(1, 1 / ratio) for ratio in ratios) / 3
        )
        assert scores["cpu"].value == max(0, 1 - one.cores_needed / measured().cores)
        assert scores["cost"].arithmetic.startswith(f"{round(4 * scores['cost'].value)} / 4")
        for score in scores.values():
            assert 0 <= score.value <= 1
            assert score.arithmetic


def test_a_quicker_network_scores_higher():
    one = measured().measured[Technology.TCP]
    faster = replace(one, large=tuple(replace(part, time_s=part.time_s / 3) for part in one.large))
    changed = replace(measured(), measured={**measured().measured, Technology.TCP: faster})
    before, after = (judge(only(bandwidth=1), found) for found in (measured(), changed))
    assert after.totals[Technology.TCP] > before.totals[Technology.TCP]


@pytest.mark.parametrize(
    ("asked", "criterion", "weight"),
    [
        ({"vendors": "preferred"}, "vendors", 3),
        ({"tenancy": "required"}, "tenancy", 5),
        ({"encryption": "preferred"}, "security", 3),
        ({"reach": "campus"}, "reach", 3),
        ({"automation": True}, "automation", 3),
        ({"budget": "low"}, "cost", 5),
        ({"budget": "high"}, "cost", 1),
        ({"max_power_w": 1e9}, "power", 3),
        ({"budget": "low", "weights": {"cost": 2.0}}, "cost", 2),
    ],
)
def test_requirements_set_weights(asked, criterion, weight):
    plain = {term.criterion: term for term in judge(Requirements(), measured()).weights}
    found = {term.criterion: term for term in judge(Requirements(**asked), measured()).weights}
    assert found[criterion].weight == weight
    assert found[criterion].reason != plain[criterion].reason
    others = set(CRITERIA) - {criterion}
    assert all(found[key] == plain[key] for key in others)


def test_the_team_sets_familiarity():
    def familiar(team: str, technology: Technology) -> float:
        found = judge(Requirements(team=team), measured())
        return {s.criterion: s.value for s in found.scores[technology]}["familiarity"]

    assert familiar("infiniband", Technology.INFINIBAND) == 1
    assert familiar("ethernet", Technology.INFINIBAND) == 0
    assert familiar("both", Technology.ROCEV2) > familiar("ethernet", Technology.ROCEV2)
    assert familiar("neither", Technology.TCP) < familiar("ethernet", Technology.TCP)


# ---------------------------------------------------------------- what is out


def out_of(asked: Requirements, found: Measurements | None = None) -> dict[Technology, str]:
    return {one.technology: one.reason for one in judge(asked, found or measured()).excluded}


def test_tls_leaves_tcp():
    out = out_of(Requirements(encryption="tls"))
    assert set(out) == set(Technology) - {Technology.TCP}
    assert all("socket" in reason for reason in out.values())


def test_required_encryption_is_not_for_infiniband():
    assert set(out_of(Requirements(encryption="required"))) == {Technology.INFINIBAND}
    assert not out_of(Requirements(encryption="preferred"))


def test_required_vendors_count_the_catalogs_makers():
    out = out_of(Requirements(vendors="required"))
    assert set(out) == {Technology.INFINIBAND}
    assert "1 of switches" in out[Technology.INFINIBAND]
    many = dict.fromkeys(Technology, (9, 9))
    assert not out_of(Requirements(vendors="required"), replace(measured(), makers=many))


def test_routing_over_ip_is_not_for_infiniband():
    assert set(out_of(Requirements(reach="routed"))) == {Technology.INFINIBAND}


def test_adapters_decide():
    unable = {"infiniband": ("an adapter of server x",)}
    out = out_of(Requirements(), replace(measured(), unable=unable))
    assert set(out) == {Technology.INFINIBAND}
    assert "an adapter of server x" in out[Technology.INFINIBAND]


def test_power_is_bounded():
    power = {t: one.power_w for t, one in measured().measured.items()}
    bound = max(power.values()) - 0.5
    out = out_of(Requirements(max_power_w=bound))
    assert set(out) == {t for t, value in power.items() if value > bound}
    assert out


def test_what_is_out_is_not_ranked_even_where_it_scores_best():
    found = judge(replace(WINNERS[Technology.INFINIBAND], encryption="required"), measured())
    assert found.winner is not Technology.INFINIBAND
    assert max(found.totals, key=found.totals.__getitem__) is Technology.INFINIBAND
    assert Technology.INFINIBAND not in found.ranking
    assert any("InfiniBand is out" in line for line in found.reasons)


def test_nothing_left_is_said():
    found = judge(Requirements(encryption="tls", max_power_w=1.0), measured())
    assert found.winner is None
    assert not found.flips
    assert not found.benchmarks
    assert "None of the four" in found.reasons[0]


# ---------------------------------------------------------------- where it turns

#: two or more count, so that one of them can be moved to 0
weights = st.dictionaries(
    st.sampled_from(CRITERIA), st.integers(0, 100).map(lambda tenth: tenth / 10), min_size=2
).filter(lambda given: sum(weight > 0 for weight in given.values()) > 1)


@settings(max_examples=60, deadline=None)
@given(weights)
def test_break_even_weights_are_exact(given_weights):
    base = {**NOTHING, **given_weights}
    found = judge(Requirements(weights=base), measured())
    for flip in found.flips:
        if not 0 <= flip.at <= 10:
            continue
        tied = judge(Requirements(weights={**base, flip.criterion: flip.at}), measured())
        whole = sum(term.weight for term in tied.weights) or 1.0
        gap = tied.totals[flip.winner] - tied.totals[flip.to]
        assert abs(gap) * whole < 1e-9
        assert (max(tied.totals.values()) - tied.totals[flip.to]) * whole < 1e-9
        further = flip.at + math.copysign(1e-3, flip.at - flip.now)
        if flip.at == flip.now or not 0 <= further <= 10:
            continue
        beyond = judge(Requirements(weights={**base, flip.criterion: further}), measured())
        assert beyond.totals[flip.to] > beyond.totals[flip.winner]


@settings(max_examples=60, deadline=None)
@given(weights, st.sampled_from(CRITERIA), st.floats(0, 10))
def test_between_the_flips_the_answer_stands(given_weights, criterion, weight):
    base = {**NOTHING, **given_weights}
    found = judge(Requirements(weights=base), measured())
    mine = [flip for flip in found.flips if flip.criterion == criterion]
    now = base[criterion]
    low = max([0.0, *(flip.at for flip in mine if flip.at <= now)])
    high = min([10.0, *(flip.at for flip in mine if flip.at >= now)])
    if not low + 1e-6 < weight < high - 1e-6:
        return
    moved = judge(Requirements(weights={**base, criterion: weight}), measured())
    best = max(moved.totals.values())
    assert moved.totals[found.winner] == pytest.approx(best, abs=1e-12)


def test_benchmarks_start_with_what_decides():
    found = judge(only(congestion=5, bandwidth=1, cpu=1, cost=1), measured())
    assert "permutation" in found.benchmarks[0] or found.flips
    assert "job itself" in found.benchmarks[-1]
    assert not any("ib_write_lat" in line for line in found.benchmarks)  # latency counts nothing


# ---------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ({"team": "ethernt"}, "did you mean 'ethernet'"),
        ({"workload": "games"}, "allowed: training"),
        ({"weights": {"latncy": 1.0}}, "did you mean 'latency'"),
        ({"weights": {"latency": 11.0}}, "0 to 10"),
        ({"weights": {"latency": math.nan}}, "0 to 10"),
        ({"max_power_w": 0.0}, "above 0"),
    ],
)
def test_wrong_requirements_are_refused(field, said):
    with pytest.raises(InputError, match=said):
        Requirements(**field)


def test_no_weight_at_all_is_refused():
    none = Requirements(weights=dict.fromkeys(technology_facts().criteria, 0.0))
    with pytest.raises(InputError, match="weights: all are 0"):
        weights_of(none)


# ---------------------------------------------------------------- the lesson


def test_the_lesson_holds_and_can_fail(monkeypatch):
    from railweave.transport import _lessons_technology as lesson
    from railweave.transport.lessons import TRANSPORT_LESSONS

    outcome = TRANSPORT_LESSONS["transport"].run()
    assert outcome.holds
    assert outcome.values["winners"] >= 3
    assert all(title in outcome.reading for title in ("InfiniBand", "Ethernet, TCP"))
    monkeypatch.setattr(lesson, "_READERS", {"one": {"cost": 5}, "two": {"cost": 1}})
    assert not lesson.choices().holds
