"""Rate-based congestion control, and HPCC, against sequences worked out from their papers."""

import math

import pytest
from cc_feed import US, Feed, probe


@pytest.mark.parametrize("name", ["none", "receiver-driven"])
def test_no_control_stays_at_line_rate(name):
    unit = probe(name)
    unit.cnp(1)
    unit.loss(2, timeout=True)
    Feed(unit).ack(marked=True)
    assert (unit.rate_Bps, unit.window_bytes, unit.timer_ps) == (5e9, math.inf, None)


# DCQCN


def test_dcqcn_first_cnp_halves_and_alpha_follows_the_paper():
    unit = probe("dcqcn-paper")
    unit.cnp(100 * US)
    assert unit.rate_Bps == 2.5e9  # alpha 1
    unit.cnp(150 * US)  # alpha = (1 - g) 1 + g = 1; 50 us is less than its period
    assert unit.rate_Bps == 1.25e9
    unit.timer(205 * US)
    before = unit.rate_Bps
    unit.cnp(150 * US + 2 * 55 * US + 1)  # two periods without CNP: alpha = (255/256)^2
    assert unit.rate_Bps == pytest.approx(before * (1 - (255 / 256) ** 2 / 2), rel=1e-12)


def test_dcqcn_fast_recovery_halves_the_gap_then_adds():
    unit = probe("dcqcn-paper", byte_reset_bytes=0.0, rate_hai_bps=80e6)
    unit.cnp(0)
    for round_ in range(1, 6):
        assert unit.timer_ps == round_ * 55 * US
        unit.timer(unit.timer_ps)
        assert unit.rate_Bps == pytest.approx(5e9 - 2.5e9 / 2**round_, rel=1e-12)
    # A second cut: the target is the rate before it, here below the line rate.
    target = unit.rate_Bps
    unit.cnp(unit.timer_ps - 1)
    rate = unit.rate_Bps
    for _ in range(5):
        unit.timer(unit.timer_ps)
        rate = (rate + target) / 2
        assert unit.rate_Bps == pytest.approx(rate, rel=1e-12)
    for step in (5e6, 10e6, 10e6):  # one additive round, then hyper increase
        unit.timer(unit.timer_ps)
        target += step
        rate = (rate + target) / 2
        assert unit.rate_Bps == pytest.approx(rate, rel=1e-12)


def test_dcqcn_byte_counter_and_timer_count_separately():
    unit = probe("dcqcn-paper", byte_reset_bytes=1e6, fast_recovery_rounds=1, rate_hai_bps=400e6)
    unit.cnp(0)
    unit.timer(unit.timer_ps)
    unit.cnp(60 * US)  # the target is now 3.75e9
    target, rate = 3.75e9, unit.rate_Bps
    now = 60 * US
    # rounds (timer, bytes): 0,1 fast; 0,2 additive; 0,3 additive; 1,3 additive; 2,3 hyper
    for step in (0.0, 5e6, 5e6):
        for _ in range(10):
            now += 1
            unit.sent(now, 100_000)
        target += step
        rate = (rate + target) / 2
        assert unit.rate_Bps == pytest.approx(rate, rel=1e-12)
    for step in (5e6, 50e6):
        unit.timer(unit.timer_ps)
        target += step
        rate = (rate + target) / 2
        assert unit.rate_Bps == pytest.approx(rate, rel=1e-12)


def test_dcqcn_firmware_cuts_once_a_period_and_moves_alpha_once_a_period():
    unit = probe("dcqcn-firmware", line_Bps=50e9)
    alpha, g = 1023 / 1024, 5 / 1024
    unit.cnp(0)
    rate = 50e9 * (1 - alpha / 2)
    assert unit.rate_Bps == pytest.approx(rate, rel=1e-12)
    unit.cnp(1 * US)  # too soon: waits for the end of the 4 us
    assert unit.rate_Bps == pytest.approx(rate, rel=1e-12)
    assert unit.timer_ps == 4 * US
    unit.timer(4 * US)
    alpha += g * (1 - alpha)  # a CNP in the first period
    alpha += g * (1 - alpha)  # and in the second
    alpha *= (1 - g) ** 2  # none in the third and fourth
    rate *= 1 - alpha / 2
    assert unit.rate_Bps == pytest.approx(rate, rel=1e-12)
    unit.cnp(20 * US)  # none in 16 more
    rate *= 1 - alpha * (1 - g) ** 16 / 2
    assert unit.rate_Bps == pytest.approx(rate, rel=1e-12)


def test_dcqcn_target_is_kept_over_cuts_without_a_rise_unless_clamped():
    kept, clamped = probe("dcqcn-firmware"), probe("dcqcn-firmware", clamp_target=True)
    for unit in (kept, clamped):
        unit.cnp(0)
        unit.cnp(4 * US)
        unit.timer(unit.timer_ps)  # one round of fast recovery towards the target
    assert kept.rate_Bps == pytest.approx((5e9 + 1.25e9) / 2, rel=0.01)
    assert clamped.rate_Bps == pytest.approx((2.5e9 + 1.25e9) / 2, rel=0.01)


def test_dcqcn_a_rise_by_the_timer_moves_the_target_only_where_told():
    follow = probe("dcqcn-firmware")
    keep = probe("dcqcn-firmware", clamp_target_after_timer=False)
    for unit in (follow, keep):
        unit.cnp(0)
        unit.timer(unit.timer_ps)  # 300 us: rate 3.75e9
        unit.cnp(unit.timer_ps - 1)
        unit.timer(unit.timer_ps)
    assert keep.rate_Bps > follow.rate_Bps
    assert follow.rate_Bps < 3.75e9 < keep.rate_Bps


def test_dcqcn_limits():
    unit = probe("dcqcn-firmware", min_decrease_fraction=0.9)
    unit.cnp(0)
    assert unit.rate_Bps == pytest.approx(4.5e9)
    unit = probe("dcqcn-paper")
    for k in range(50):
        unit.cnp(k * 50 * US)
    assert unit.rate_Bps == 10e6 / 8


def test_dcqcn_costs_nothing_at_line_rate():
    unit = probe("dcqcn-paper")
    for k in range(100):
        unit.sent(k, 1_000_000)
    assert unit.timer_ps is None
    unit.cnp(1000)
    for _ in range(17):  # the gap halves from 1/2 to below 2^-16
        if unit.timer_ps is not None:
            unit.timer(unit.timer_ps)
    assert (unit.rate_Bps, unit.timer_ps) == (5e9, None)
    for k in range(100):
        unit.sent(10**12 + k, 1_000_000)
    assert (unit.rate_Bps, unit.timer_ps) == (5e9, None)


# HPCC


def hop(time_ps, tx_bytes, queue=0, rate=5e9, link=0):
    return (time_ps, tx_bytes, rate, queue, link)


def test_hpcc_one_step_by_hand():
    unit = probe("hpcc", rtt_ps=10 * US, concurrent_flows=10)
    bdp = 50_000
    unit.ack(10 * US, 10 * US, 1, 50, 1000, hops=[hop(5 * US, 1000)])
    assert unit.window_bytes == bdp  # nothing to compare with yet
    # 5 us later: 25,000 B sent (full rate) and 25,000 B of queue at both ends.
    unit.ack(15 * US, 15 * US, 2, 75, 1000, hops=[hop(10 * US, 26_000, 25_000)])
    # The lesser of the two queues counts, 0: u = 1, U = 1, W = BDP * eta + W_ai.
    w_ai = bdp * 0.05 / 10
    assert unit.window_bytes == pytest.approx(bdp * 0.95 + w_ai)
    assert unit.rate_Bps == pytest.approx(unit.window_bytes / 10e-6)
    wc = unit.window_bytes
    # u = 25000/50000 + 1 = 1.5; weight 5/10: U = 1.25. Within the same round trip Wc stays.
    unit.ack(20 * US, 15 * US, 3, 90, 1000, hops=[hop(15 * US, 51_000, 25_000)])
    assert unit.window_bytes == pytest.approx(wc * 0.95 / 1.25 + w_ai)
    # Queue 30000 and 25000: u = 1.5 again, weight 1: U = 1.5, from the same Wc.
    unit.ack(30 * US, 15 * US, 4, 90, 1000, hops=[hop(25 * US, 101_000, 30_000)])
    assert unit.window_bytes == pytest.approx(wc * 0.95 / 1.5 + w_ai)


@pytest.mark.parametrize("fullest", [0, 1, 2])
def test_hpcc_the_fullest_hop_decides(fullest):
    unit = probe("hpcc")
    unit.ack(10 * US, 10 * US, 1, 50, 1000, hops=[hop(5 * US, 0, link=k) for k in range(3)])
    hops = [hop(15 * US, 50_000 if k == fullest else 10_000, link=k) for k in range(3)]
    unit.ack(20 * US, 10 * US, 2, 60, 1000, hops=hops)
    assert unit.window_bytes == pytest.approx(50_000 * 0.95 + 25)  # u = 1 there, 0.2 elsewhere


def test_hpcc_a_new_way_only_resets():
    unit = probe("hpcc")
    unit.ack(10 * US, 10 * US, 1, 50, 1000, hops=[hop(5 * US, 0, link=1)])
    for at, way in ((20, [2]), (30, [2, 3]), (40, []), (50, [2, 4]), (60, [2, 3])):
        hops = [hop(at * US, at * 10_000, link=k) for k in way]
        unit.ack(at * US, 10 * US, at, at + 1, 1000, hops=hops)
        assert unit.window_bytes == 50_000


def hpcc_loop(unit, rounds):
    """One flow through one port of its own rate: a round trip at a time."""
    now, psn, tx, windows = 0, 0, 0, []
    for _ in range(rounds):
        now += 10 * US
        sent = min(unit.window_bytes, unit.rate_Bps * 10e-6)
        tx += round(min(sent, 50_000))
        queue = round(max(sent - 50_000, 0))
        psn += 50
        unit.ack(now, 10 * US, psn, psn + 49, 50_000, 50, 0, sent, [hop(now - 5 * US, tx, queue)])
        windows.append(unit.window_bytes)
    return windows


def test_hpcc_reaches_eta_of_the_bdp():
    unit = probe("hpcc")
    windows = hpcc_loop(unit, 200)
    assert sum(windows[-60:]) / 60 == pytest.approx(0.95 * 50_000, rel=0.01)


def test_hpcc_recovers_from_a_small_window():
    unit = probe("hpcc", concurrent_flows=1)
    for k in range(20):  # a queue of four BDP
        unit.ack(
            (k + 1) * 10 * US,
            10 * US,
            50 * k + 1,
            50 * k + 50,
            1000,
            hops=[hop((k + 1) * 10 * US, 50_000 * k, 200_000)],
        )
    assert unit.window_bytes < 0.3 * 50_000
    windows = []
    now, psn, tx = 300 * US, 2000, 10**7
    for _ in range(60):
        now += 10 * US
        psn += 50
        tx += round(unit.rate_Bps * 10e-6)
        unit.ack(now, 10 * US, psn, psn + 49, 1000, hops=[hop(now, tx)])
        windows.append(unit.window_bytes)
    # Six stages at most until the window is computed anew from the utilisation.
    assert windows[8] > 0.8 * 50_000
    assert windows[-1] == pytest.approx(0.95 * 50_000 + 2500, rel=0.05)


# TIMELY


def test_timely_below_and_above_the_thresholds():
    unit = probe("timely", line_Bps=1.25e9, segment_bytes=1000)
    feed = Feed(unit)
    feed.ack(rtt_ps=600 * US)
    rate = 1.25e9 * (1 - 0.8 * (1 - 500 / 600))
    assert unit.rate_Bps == pytest.approx(rate, rel=1e-12)
    feed.ack(rtt_ps=40 * US)
    assert unit.rate_Bps == pytest.approx(rate + 1.25e6, rel=1e-12)


def test_timely_gradient_by_hand():
    unit = probe("timely", line_Bps=1.25e9, segment_bytes=1000)
    feed = Feed(unit)
    feed.ack(rtt_ps=100 * US)  # the first: no difference, gradient 0 (capped at line rate)
    assert unit.rate_Bps == 1.25e9
    feed.ack(rtt_ps=104 * US)  # difference 0.875 * 4 us; over 20 us
    first = 0.875 * 4 / 20
    rate = 1.25e9 * (1 - 0.8 * first)
    assert unit.rate_Bps == pytest.approx(rate, rel=1e-12)
    feed.ack(rtt_ps=104 * US)  # 0.125 of it is left
    rate *= 1 - 0.8 * first * 0.125
    assert unit.rate_Bps == pytest.approx(rate, rel=1e-12)


def test_timely_hyper_increase_from_the_fifth_fall_on():
    unit = probe("timely", line_Bps=1.25e9, segment_bytes=1000)
    feed = Feed(unit)
    feed.ack(rtt_ps=499 * US)
    feed.ack(rtt_ps=540 * US)
    steps = []
    for k in range(7):
        before = unit.rate_Bps
        feed.ack(rtt_ps=(400 - 10 * k) * US)
        steps.append((unit.rate_Bps - before) / 1.25e6)
    assert steps == pytest.approx([1, 1, 1, 1, 5, 5, 5], rel=1e-6)


def test_timely_steps_once_a_segment():
    unit = probe("timely", line_Bps=1.25e9, segment_bytes=4000)
    feed = Feed(unit)
    for _ in range(3):
        feed.ack(rtt_ps=1000 * US)
    assert unit.rate_Bps == 1.25e9
    feed.ack(rtt_ps=1000 * US)
    assert unit.rate_Bps == pytest.approx(1.25e9 * 0.6)


# InfiniBand


def test_ib_index_rises_with_becn_and_falls_with_the_timer():
    unit = probe("ib-cc", ccti_increase=2, ccti_timer_s=1e-4)
    unit.cnp(0)
    assert unit.rate_Bps == pytest.approx(5e9 / 3)
    assert unit.timer_ps == 100 * US
    unit.cnp(50 * US)
    assert unit.rate_Bps == pytest.approx(5e9 / 5)
    assert unit.timer_ps == 100 * US  # not put off
    for index in (3, 2, 1):
        unit.timer(unit.timer_ps)
        assert unit.rate_Bps == pytest.approx(5e9 / (1 + index))
    unit.timer(unit.timer_ps)
    assert (unit.rate_Bps, unit.timer_ps) == (5e9, None)


def test_ib_limits():
    unit = probe("ib-cc", ccti_limit=10, ccti_min=4, ird_step=0.5)
    assert unit.rate_Bps == pytest.approx(5e9 / 3)
    for k in range(50):
        unit.cnp(k)
    assert unit.rate_Bps == pytest.approx(5e9 / 6)
