"""The training step's lesson holds by the played schedule, and can fail."""

from __future__ import annotations

import pytest

from railweave.predict.lessons import TRAINING_LESSONS, bubbles


def test_the_claim_holds_and_is_read_from_the_numbers():
    outcome = TRAINING_LESSONS["training"].run()
    assert outcome.holds
    values = outcome.values
    assert values["many_closed_form"] == 7 / 64
    assert values["chunks_closed_form"] == 7 / 32
    for case in ("few", "network", "chunks", "many"):
        assert values[f"{case}_bubble"] == pytest.approx(values[f"{case}_closed_form"], rel=0.05)
    assert values["many_idle_share"] < values["chunks_idle_share"] < values["few_idle_share"]
    assert 0 < values["few_idle_share"] - values["network_idle_share"] < 0.02
    assert f"8 micro-batches {100 * values['few_idle_share']:.1f} %" in outcome.reading
    assert outcome.charts[0].frame.height == 8


def test_as_many_micro_batches_as_before_gain_nothing():
    assert not bubbles(many=8).holds
