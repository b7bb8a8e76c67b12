"""What is kept of a congested switch's run: nothing that matters is lost, and it stays small."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.engine.congest import CongestCase, CongestRun, simulate_congest
from railweave.engine.congest_summary import (
    SENDERS_KEPT,
    CongestSummary,
    Span,
    _joined,
    _sample,
    summarise,
)
from railweave.qos import EcnThresholds

CASE = CongestCase(senders=12, sender_bps=100e9, duration_s=4e-3)


@pytest.fixture(scope="module")
def outcome():
    return simulate_congest(CASE)


def test_series_are_those_of_the_outcome(outcome):
    kept = summarise(outcome)
    frame = outcome.frame()
    for name in ("queue_bytes", "egress_bps", "sender_mean_bps", "sender_min_bps", "marked_share"):
        assert np.array_equal(getattr(kept, name), frame[name].to_numpy())
    assert kept.sender_kept_bps.shape == (len(outcome.time_s), SENDERS_KEPT)
    assert kept.metrics == outcome.metrics


@pytest.mark.parametrize(
    "case", [CASE, replace(CASE, ecn=None, pfc_bytes=None), replace(CASE, sender_bps=1e9)]
)
def test_a_document_is_read_back_whole(case):
    case = replace(case, ecn=case.ecn and EcnThresholds(1_000_000, 2_000_000, 0.25))
    kept = summarise(simulate_congest(case))
    text = json.dumps(kept.document(), allow_nan=False)
    back = CongestSummary.read(json.loads(text))
    assert back.case == kept.case
    assert back.findings == kept.findings
    assert back.moments == kept.moments
    assert back.assumptions == kept.assumptions
    assert back.single_pauses == kept.single_pauses
    assert json.dumps(back.document()) == text


def test_its_size_does_not_depend_on_the_senders(outcome):
    many = simulate_congest(replace(CASE, senders=64, sender_bps=20e9))
    few, much = (len(json.dumps(summarise(o).document())) for o in (outcome, many))
    assert much < 1.3 * few


def test_all_pauses_and_notifications_are_there(outcome):
    assert sum(len(begin) for begin, _ in outcome.pauses) == outcome.metrics.pauses
    assert sum(len(at) for at in outcome.cnp_s) == outcome.metrics.cnps
    assert outcome.metrics.cnps > 0
    for begin, end in outcome.pauses:
        assert (end >= begin).all()
        assert (begin[1:] >= end[:-1]).all()
    assert all((np.diff(at) >= 0).all() for at in outcome.cnp_s)


@given(
    st.lists(st.tuples(st.floats(0.01, 1), st.floats(0.01, 1)), max_size=30),
    st.floats(0.005, 0.5),
)
@settings(max_examples=100, deadline=None)
def test_joined_pauses_cover_them_and_keep_long_gaps(steps, close):
    edges = np.cumsum(np.array(steps).ravel()) if steps else np.zeros(0)
    begin, end = edges[::2], edges[1::2]
    spans = _joined(3, begin, end, close)
    for b, e in zip(begin, end, strict=True):
        assert any(span.from_s <= b and e <= span.until_s for span in spans)
    gaps = [later.from_s - sooner.until_s for sooner, later in pairwise(spans)]
    assert all(gap >= close for gap in gaps)
    assert sum(gap >= close for gap in begin[1:] - end[:-1]) == len(gaps)
    assert all(span.sender == 3 for span in spans)


def test_a_sample_has_the_first_of_each_piece_of_the_time():
    at = np.linspace(0, 1, 1000, endpoint=False)
    taken = _sample([(at, at + 1e-4), (at + 1e-5, at + 2e-4)], 1.0)
    assert len(taken) == 120
    assert taken[0] == Span(0, 0.0, 1e-4)
    assert [span.from_s for span in taken] == sorted(span.from_s for span in taken)
    assert _sample([], 1.0) == ()


def test_a_run_can_be_looked_at_on_its_way():
    case = replace(CASE, duration_s=20e-3)
    run = CongestRun(case)
    parts = []
    run.drive(lambda part: parts.append((part, run.outcome())))
    shares = [part for part, _ in parts]
    assert shares == sorted(shares)
    assert shares[-1] == 1
    whole = simulate_congest(case)
    assert run.outcome().metrics == whole.metrics  # looking changes nothing
    first = parts[0][1]
    n = len(first.time_s)
    assert 0 < n < len(whole.time_s)
    assert np.array_equal(first.queue_bytes, whole.queue_bytes[:n])
    assert first.metrics.elapsed_s < 20e-3
