"""The congested switch against closed forms; thresholds, profiles, sweeps."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.engine._congest_record import _covered, jain, spread
from railweave.engine._congest_setup import headroom_bytes, wire_share
from railweave.engine.congest import (
    CongestCase,
    CongestMetrics,
    measure,
    most_pfc_bytes,
    simulate_congest,
)
from railweave.engine.congest_sweep import Acting, SweepPoint, grid, read_sweep, threshold_text
from railweave.errors import InputError
from railweave.qos import PROFILE_NAMES, EcnThresholds

PACKET = 4096 + 82
#: from the sender's wire to the queue: two packets' wire times, propagation, switch, rounding
SLACK_S = 3e-6


def classic(**changes) -> CongestCase:
    return replace(CongestCase(profile="none"), **changes)


def moment(outcome, kind: str) -> float:
    return next(m.time_s for m in outcome.moments if m.kind == kind)


# ---------------------------------------------------------------- closed forms


def test_classic_case_reaches_its_thresholds_when_it_must():
    outcome = simulate_congest(classic(duration_s=8e-3))
    assert moment(outcome, "first-mark") == pytest.approx(6.4e6 * 8 / 20e9, abs=SLACK_S)
    assert moment(outcome, "first-pause") == pytest.approx(12.8e6 * 8 / 20e9, abs=SLACK_S)


@settings(max_examples=12, deadline=None)
@given(
    senders=st.integers(1, 6),
    sender=st.sampled_from([60e9, 100e9, 120e9, 400e9]),
    ecn=st.integers(500_000, 5_000_000),
    mtu=st.sampled_from([1024, 4096]),
)
def test_queue_grows_by_what_the_egress_cannot_take(senders, sender, ecn, mtu):
    excess = senders * sender - 100e9
    if excess <= 5e9:
        return
    case = classic(
        senders=senders,
        sender_bps=sender,
        ecn=EcnThresholds(ecn, ecn, 1.0),
        pfc_bytes=None,
        mtu_bytes=mtu,
        duration_s=ecn * 8 / excess * 1.3 + 2 * SLACK_S,
    )
    outcome = simulate_congest(case)
    packets = (senders + 1) * (mtu + 82) * 8 / excess  # the queue is known to a packet a sender
    assert moment(outcome, "first-mark") == pytest.approx(ecn * 8 / excess, abs=SLACK_S + packets)


def test_pauses_take_the_rate_down_to_the_egress():
    outcome = simulate_congest(classic())
    numbers, half = outcome.metrics, outcome.time_s > 10e-3
    assert numbers.drops == 0
    assert numbers.throughput_bps == pytest.approx(100e9, rel=1e-3)
    assert numbers.goodput_bps == pytest.approx(100e9 * wire_share(4096), rel=2e-3)
    assert outcome.sender_bps[half].mean() == pytest.approx(100e9, rel=1e-3)
    # silent as long as 120 Gb/s must be to give 100: a sixth of the time; a packet that was begun
    # is ended within the pause
    ended = numbers.pauses * PACKET * 8 / 120e9 / (20e-3 - 5.12e-3)
    assert 1 / 6 - 0.001 < outcome.paused_share[half].mean() < 1 / 6 + ended
    assert numbers.queue_max_bytes == pytest.approx(12.8e6, rel=0.01)
    assert numbers.delay_p99_s == pytest.approx(12.8e6 * 8 / 100e9, rel=0.01)


def test_without_pfc_a_full_buffer_drops():
    outcome = simulate_congest(classic(pfc_bytes=None))
    assert moment(outcome, "first-drop") == pytest.approx(16e6 * 8 / 20e9, abs=SLACK_S)
    assert outcome.metrics.drops > 1000
    assert outcome.metrics.drops == outcome.dropped.sum()
    assert outcome.metrics.pauses == 0
    assert {f.id for f in outcome.findings} == {"packets-dropped", "marks-ignored"}


def test_senders_share_the_pfc_threshold():
    for senders in (2, 7):
        numbers = measure(classic(senders=senders, duration_s=5e-3))
        assert numbers.drops == 0
        assert numbers.queue_max_bytes == pytest.approx(12.8e6, rel=0.02)
        assert numbers.jain > 0.99


def test_slow_senders_do_not_congest():
    outcome = simulate_congest(classic(sender_bps=80e9, duration_s=2e-3))
    numbers = outcome.metrics
    assert numbers.queue_max_bytes <= PACKET
    assert numbers.throughput_bps == pytest.approx(80e9, rel=0.01)
    assert (numbers.marks, numbers.pauses, numbers.drops) == (0, 0, 0)
    assert [m.kind for m in outcome.moments if m.kind != "longest-queue"] == []


def test_messages_of_a_size_end():
    case = classic(size_bytes=5e6, senders=2)
    outcome = simulate_congest(case)
    assert outcome.metrics.finished
    assert outcome.metrics.elapsed_s == pytest.approx(case.ideal_s, rel=0.01)
    assert case.ideal_s == pytest.approx(2 * 5e6 / wire_share(4096) * 8 / 100e9)
    assert outcome.moments[-1].kind == "finished"


# ---------------------------------------------------------------- congestion control


@pytest.mark.parametrize("profile", PROFILE_NAMES)
def test_every_profile_runs_without_loss_under_pfc(profile):
    numbers = measure(CongestCase(profile=profile, senders=2, duration_s=6e-3))
    assert numbers.drops == 0
    assert 0 < numbers.throughput_bps <= 100e9 * 1.001
    assert numbers.jain > 0.5


def test_dcqcn_slows_the_sender_down_before_pfc():
    outcome = simulate_congest(CongestCase())
    numbers = outcome.metrics
    assert numbers.pauses == 0
    assert numbers.cnps > 0
    assert moment(outcome, "first-mark") < moment(outcome, "first-cnp")
    assert moment(outcome, "first-cnp") < moment(outcome, "first-cut")
    cut = outcome.allowed_bps[outcome.time_s > moment(outcome, "first-cut") + 1e-4][0]
    assert cut.mean() < 100e9


def test_marks_leave_the_queue_at_its_end():
    """A CNP comes when a marked packet has waited out the queue: length / egress speed later."""
    outcome = simulate_congest(CongestCase())
    wait = moment(outcome, "first-cnp") - moment(outcome, "first-mark")
    assert wait == pytest.approx(6.4e6 * 8 / 100e9, rel=0.01)


def test_seed_decides_where_marking_is_by_chance():
    case = CongestCase(ecn=EcnThresholds(1_000_000, 12_000_000, 0.1), duration_s=5e-3)
    assert measure(case) == measure(case)
    assert measure(case).marks != measure(replace(case, seed=1)).marks
    assert measure(case).marks < measure(replace(case, ecn=EcnThresholds(10**6, 10**6, 1.0))).marks


# ---------------------------------------------------------------- what is said


def test_pfc_below_ecn_is_a_warning():
    case = CongestCase(ecn=EcnThresholds(10**7, 10**7, 1.0), pfc_bytes=5 * 10**6, duration_s=4e-3)
    outcome = simulate_congest(case)
    assert [f.id for f in outcome.findings] == ["pfc-before-ecn"]
    assert outcome.metrics.marks == 0
    assert outcome.metrics.pauses > 0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"senders": 0}, "allowed: 1 to 1,024"),
        ({"sender_bps": 1.0}, "the sender speed: 1 b/s cannot be; allowed: 100 Mb/s to 3.2 Tb/s"),
        ({"egress_bps": math.inf}, "allowed: 100 Mb/s to 3.2 Tb/s"),
        ({"buffer_bytes": 10}, "the buffer: 10 B cannot be; allowed: 100 kB to 4 GB"),
        ({"buffer_bytes": -3_000_000}, "the buffer: -3 MB cannot be; allowed: 100 kB to 4 GB"),
        ({"mtu_bytes": 9001}, "the MTU: 9,001 B cannot be; allowed: 256 B to 9,000 B"),
        ({"duration_s": 0.0}, "the duration: 0 s cannot be; allowed: 1 us to 10 s"),
        ({"size_bytes": 0}, "the size a sender: 0 B cannot be; allowed: 1 B to 1 TB"),
        ({"cable_m": -1.0}, "the cable: -1 m cannot be; allowed: 0 m to 100,000 m"),
        ({"profile": "dcqc"}, "did you mean"),
        ({"ecn": EcnThresholds(17_000_000, 17_000_000, 1.0)}, "allowed: up to 16 MB"),
        ({"pfc_bytes": 15_999_000}, "allowed: 8 KiB to 15.9 MB, or off"),
        ({"pfc_bytes": 10}, "or off"),
    ],
)
def test_values_that_cannot_be(changes, said):
    with pytest.raises(InputError) as error:
        CongestCase(**changes)
    assert said in str(error.value)


def test_headroom_is_part_of_the_buffer():
    case = CongestCase(senders=8)
    most = most_pfc_bytes(case)
    assert most == case.buffer_bytes - headroom_bytes(case)
    assert replace(case, pfc_bytes=most).pfc_bytes == most
    with pytest.raises(InputError, match="headroom of 9 ports"):
        replace(case, pfc_bytes=most + 1)


def test_headroom_is_enough_to_the_last_packet():
    case = CongestCase(senders=8, sender_bps=400e9, egress_bps=400e9, duration_s=2e-3)
    assert measure(replace(case, pfc_bytes=most_pfc_bytes(case), profile="none")).drops == 0


# ---------------------------------------------------------------- the arithmetic


def test_paused_time_up_to_any_moment():
    begin, end = np.array([1.0, 4.0]), np.array([2.0, 8.0])
    at = np.array([0.5, 1.5, 3.0, 6.0, 9.0])
    assert _covered(at, begin, end).tolist() == [0.0, 0.5, 1.0, 3.0, 5.0]
    assert _covered(at, begin[:0], end[:0]).tolist() == [0.0] * 5


def test_jain_and_spread():
    assert jain(np.array([1.0, 1.0, 1.0])) == pytest.approx(1.0)
    assert jain(np.array([1.0, 0.0])) == pytest.approx(0.5)
    assert math.isnan(jain(np.zeros(2)))
    assert spread(np.array([[1.0], [3.0]])) == pytest.approx(0.5)
    assert math.isnan(spread(np.zeros((2, 1))))
    assert math.isnan(spread(np.zeros((0, 1))))


# ---------------------------------------------------------------- sweeps


def point(marks: int, pauses: int, drops: int = 0, pfc: int = 8_000_000) -> SweepPoint:
    case = CongestCase(pfc_bytes=pfc)
    numbers = measure(replace(case, duration_s=1e-4))
    return SweepPoint(case, replace(numbers, marks=marks, pauses=pauses, drops=drops))


@pytest.mark.parametrize(
    ("marks", "pauses", "drops", "acting"),
    [
        (0, 0, 0, Acting.NOTHING),
        (3, 0, 0, Acting.ECN),
        (3, 2, 0, Acting.BOTH),
        (0, 2, 0, Acting.PFC),
        (3, 2, 1, Acting.DROPS),
    ],
)
def test_who_acts(marks, pauses, drops, acting):
    assert point(marks, pauses, drops).acting is acting


def test_grid_holds_every_combination_once():
    ecn = (None, EcnThresholds(10**6, 10**6, 1.0))
    cases = grid(CongestCase(), ecn, (None, 4_000_000), ("none", "hpcc"))
    assert len(cases) == len(set(cases)) == 8
    assert {(c.ecn, c.pfc_bytes, c.profile) for c in cases} == {
        (e, p, n) for e in ecn for p in (None, 4_000_000) for n in ("none", "hpcc")
    }


def test_thresholds_as_text():
    case = CongestCase(ecn=EcnThresholds(800_000, 3_200_000, 1.0), pfc_bytes=None)
    assert threshold_text(case) == ("5%..20%", "off")
    odd = replace(case, ecn=EcnThresholds(1_234_567, 1_234_567, 1.0), pfc_bytes=4_000_000)
    assert threshold_text(odd) == ("1.235 MB", "25%")


def test_reading_says_that_thresholds_belong_together():
    said = "\n".join(read_sweep([point(5, 9, pfc=3_200_000), point(5, 0, pfc=12_800_000)]))
    assert "ECN holds the queue and PFC never fires at 1 of 2 settings (ECN/PFC 40%/80%)" in said
    assert (
        "with ECN at 40% senders are paused when PFC is at 20%, and not when it is at 80%" in said
    )
    alone = "\n".join(read_sweep([point(0, 9)]))
    assert "PFC does all the work (nothing is marked) at 1 of 1 settings;" in alone
    assert "belong together" not in alone


def test_ecn_above_pfc_leaves_all_to_pfc():
    base = CongestCase(duration_s=5e-3, senders=2)
    marks = [EcnThresholds(size, size, 1.0) for size in (800_000, 9_600_000)]
    cases = grid(base, marks, (3_200_000, 12_800_000), ("dcqcn-firmware",))
    acting = [SweepPoint(case, measure(case)).acting for case in cases]
    assert acting[1] is Acting.ECN
    assert acting[2] is Acting.PFC


def test_metrics_are_plain_numbers():
    assert all(
        isinstance(getattr(measure(CongestCase(duration_s=1e-4)), name), float | int | bool)
        for name in CongestMetrics.__dataclass_fields__
    )
