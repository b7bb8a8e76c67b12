"""Thresholds of a congested switch from text, and the closed forms of a queue left to itself."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railweave.engine.congest import CongestCase, most_pfc_bytes, simulate_congest
from railweave.engine.congest_thresholds import (
    fitting_pfc_bytes,
    marking,
    threshold_bytes,
    unanswered,
)
from railweave.errors import InputError
from railweave.qos import EcnThresholds

BUFFER = 16_000_000


@pytest.mark.parametrize(
    ("text", "size"),
    [("40%", 6_400_000), (" 0.5% ", 80_000), ("6.4MB", 6_400_000), ("1 KiB", 1024)],
)
def test_a_threshold_is_a_part_or_a_size(text, size):
    assert threshold_bytes("--pfc", text, BUFFER) == size


@pytest.mark.parametrize("text", ["", "x%", "half", "101%", "0%", "17MB", "%"])
def test_other_thresholds_are_refused(text):
    with pytest.raises(InputError, match="--pfc"):
        threshold_bytes("--pfc", text, BUFFER)


def test_marking_is_one_threshold_two_or_none():
    assert marking("ECN", "off", 1.0, BUFFER) is None
    assert marking("ECN", "40%", 1.0, BUFFER) == EcnThresholds(6_400_000, 6_400_000, 1.0)
    assert marking("ECN", "5%..20%", 0.2, BUFFER) == EcnThresholds(800_000, 3_200_000, 0.2)
    with pytest.raises(InputError, match="kmin ≤ kmax"):
        marking("ECN", "20%..5%", 0.2, BUFFER)


def test_the_classic_times():
    times = unanswered(CongestCase())
    assert (times.ecn_s, times.pfc_s, times.full_s) == pytest.approx((2.56e-3, 5.12e-3, 6.4e-3))
    off = unanswered(CongestCase(ecn=None, pfc_bytes=None))
    assert (off.ecn_s, off.pfc_s) == (math.inf, math.inf)
    assert math.isinf(unanswered(CongestCase(sender_bps=100e9)).full_s)


def test_the_engine_meets_the_closed_forms():
    case = CongestCase(senders=2, profile="none", duration_s=2e-3)
    times = unanswered(case)
    found = {m.kind: m.time_s for m in simulate_congest(case).moments}
    assert found["first-mark"] == pytest.approx(times.ecn_s, abs=4e-6)
    assert found["first-pause"] == pytest.approx(times.pfc_s, abs=4e-6)


@given(st.integers(1, 60), st.integers(1, 100))
def test_a_fitting_threshold_fits(senders, percent):
    base = CongestCase(senders=senders, pfc_bytes=None)
    wanted = percent * BUFFER // 100
    got = fitting_pfc_bytes(base, wanted)
    assert got == min(wanted, most_pfc_bytes(base))
