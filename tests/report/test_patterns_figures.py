"""Figures of patterns: who is drawn as one, chords and what reverses the order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.report._chord import chords
from railweave.report.patterns import compare_strategies, study_pattern
from railweave.report.patterns_compare import (
    pattern_variations,
    reversed_pairs,
    turning_payloads,
    what_reorders,
)
from railweave.report.patterns_figures import (
    PLACE_COLOURS,
    draw_chord,
    draw_comparison,
    draw_matrix,
    draw_shares,
)
from railweave.report.patterns_groups import PLACE_NAMES, pair_reach, rank_groups
from railweave.units import parse_bytes
from railweave.workload.patterns import PatternCase, Strategy

EXPERT = PatternCase(Strategy.EXPERT, gpus=24, gpus_per_server=4, servers_per_leaf=2)


@pytest.mark.parametrize(
    ("most", "kind", "count"),
    [(24, "rank", 24), (23, "server", 6), (5, "leaf", 3), (2, "block", 2)],
)
def test_ranks_are_put_together_until_they_fit(most, kind, count):
    study = study_pattern(EXPERT)
    groups = rank_groups(study, most)
    assert (groups.kind, len(groups.names)) == (kind, count)
    assert groups.sizes.sum() == 24
    assert len(set(groups.names)) == count
    assert (groups.note == "") == (kind == "rank")
    folded = groups.fold(study.matrix_bytes)
    assert folded.shape == (count, count)
    assert folded.sum() == pytest.approx(study.total_bytes)
    reach = pair_reach(study, groups)
    assert ((reach >= 0) == (folded > 0)).all()


def test_places_add_up_to_the_shares():
    study = study_pattern(EXPERT)
    reach = pair_reach(study)
    for place, share in enumerate(
        (study.share_server, study.share_leaf, study.share_spine, study.share_core)
    ):
        part = study.matrix_bytes[reach == place].sum() / study.total_bytes
        assert part == pytest.approx(share), PLACE_NAMES[place]


@given(
    st.integers(1, 9).flatmap(
        lambda n: st.lists(
            st.lists(st.sampled_from([0.0, 1.0, 5.0]), min_size=n, max_size=n),
            min_size=n,
            max_size=n,
        )
    )
)
@settings(max_examples=60, deadline=None)
def test_chords_lie_in_their_circle_and_name_every_pair(rows):
    amount = np.array(rows)
    if not amount.any():
        return
    place = np.where(amount > 0, 1, -1).astype(np.int8)
    shape = chords(amount, place)
    assert {(end.source, end.target) for end in shape.ends} == set(
        zip(*(part.tolist() for part in np.nonzero(amount)), strict=True)
    )
    for ribbon in shape.ribbons:
        points = ribbon.outline[np.isfinite(ribbon.outline[:, 0])]
        assert np.hypot(points[:, 0], points[:, 1]).max() <= 1.0 + 1e-5
        assert np.isnan(ribbon.outline[-1]).all()
    # The outline of an arc is as long as what its rank sends.
    sent = amount.sum(axis=1)
    lengths = np.array([_angle(arc) for arc in shape.arcs])
    if (sent > 0.05 * sent.sum()).all():
        assert lengths / lengths.sum() == pytest.approx(sent / sent.sum(), abs=1e-4)


def _angle(arc: np.ndarray) -> float:
    outline = arc[: (len(arc) - 1) // 2].astype(float)
    return float(np.hypot(*np.diff(outline, axis=0).T).sum() / 1.01)


def test_matrix_and_chords_show_the_bytes():
    study = study_pattern(PatternCase())
    figure = draw_matrix(study, picked=2)
    z = np.array(figure.data[0].z)
    assert np.nan_to_num(z).tolist() == study.matrix_bytes.tolist()
    assert "384 MB" in str(figure.data[0].hovertext)
    assert len(figure.layout.shapes) == 2
    drawn = draw_chord(study, picked=2)
    names = [trace.name for trace in drawn.data if trace.name]
    assert set(names) == {"under a leaf"}
    points = next(trace for trace in drawn.data if trace.customdata is not None)
    assert "rank 0 → rank 1: 384 MB, under a leaf" in points.hovertext


def test_shares_and_comparison_have_a_bar_for_each():
    study = study_pattern(EXPERT)
    figure = draw_shares(study)
    assert sum(bar.x[0] for bar in figure.data) == pytest.approx(100)
    assert [bar.marker.color for bar in figure.data] == list(PLACE_COLOURS[:3])
    studies = compare_strategies(PatternCase(latency_s=1e-3))
    bars = draw_comparison(studies)
    assert list(bars.data[0].y) == [one.title for one in studies]
    for k, one in enumerate(studies):
        assert bars.data[0].x[k] + bars.data[1].x[k] == pytest.approx(1e3 * one.analytic_s)


def test_the_turning_payload_turns_the_order():
    case = PatternCase(gpus=16, gpus_per_server=8, latency_s=5e-6, payload_bytes=64_000)
    said = turning_payloads(compare_strategies(case))
    words = "Expert is ahead of data/tensor here; above a payload of about "
    size = parse_bytes(
        next(text for text in said if text.startswith(words))[len(words) :].split(" it is")[0]
    )
    # On either side of it the order is another.
    below = _time_by_strategy(replace(case, payload_bytes=int(size / 1.1)))
    above = _time_by_strategy(replace(case, payload_bytes=int(size * 1.1)))
    assert below[Strategy.EXPERT] < below[Strategy.DATA]
    assert above[Strategy.EXPERT] > above[Strategy.DATA]
    assert turning_payloads(compare_strategies(PatternCase())) == ()


def _time_by_strategy(case: PatternCase) -> dict[Strategy, float]:
    return {one.case.strategy: one.analytic_s for one in compare_strategies(case)}


def test_latency_is_said_to_reverse_the_order_where_it_does():
    case = PatternCase(gpus=16, gpus_per_server=8, latency_s=5e-6, payload_bytes=64_000)
    studies = compare_strategies(case)
    assert any("Latency reverses the order" in text for text in what_reorders(studies))
    found = {one.change: one for one in pattern_variations(case, studies)}
    assert (Strategy.DATA, Strategy.EXPERT) in found["no latency"].reverses
    assert reversed_pairs(studies, studies) == ()
    assert any("cost nothing" in text for text in what_reorders(compare_strategies(PatternCase())))
