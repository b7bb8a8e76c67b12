"""Congestion control in closed loops with a toy bottleneck, and what always holds."""

import math
import random

import pytest
from cc_feed import PACKET, US, probe
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave._native import CcProbe
from railweave.qos import _algorithms as cc

LINE = 5e9  # 40 Gb/s
KMIN, KMAX, PMAX = 5e3, 200e3, 0.01


def fire(unit: CcProbe, until_ps: int) -> None:
    while unit.timer_ps is not None and unit.timer_ps <= until_ps:
        unit.timer(unit.timer_ps)


def jain(shares):
    return sum(shares) ** 2 / (len(shares) * sum(x * x for x in shares))


def dcqcn_loop(units, duration_ps, step_ps=5 * US):
    """Fluid queue of one 40 Gb/s port with the paper's marking; yields shares and queue."""
    draw = random.Random(7)
    queue, now = 0.0, 1000 * US
    next_cnp = [0] * len(units)
    step_s = step_ps * 1e-12
    while now < duration_ps:
        now += step_ps
        for unit in units:
            fire(unit, now)
            unit.sent(now, round(unit.rate_Bps * step_s))
        rates = [unit.rate_Bps for unit in units]
        queue = max(queue + (sum(rates) - LINE) * step_s, 0.0)
        chance = 0.0 if queue <= KMIN else PMAX * (queue - KMIN) / (KMAX - KMIN)
        if queue > KMAX:
            chance = 1.0
        for i, unit in enumerate(units):
            packets = rates[i] * step_s / PACKET
            marked = draw.random() < 1.0 - (1.0 - chance) ** packets
            if marked and now >= next_cnp[i]:
                unit.cnp(now)
                next_cnp[i] = now + 50 * US
        yield now, rates, queue


def test_two_dcqcn_flows_at_90_to_10_converge():
    units = [probe("dcqcn-paper"), probe("dcqcn-paper")]
    for k in range(3):
        units[1].cnp(k * 50 * US)  # a ninth of the other's rate
    units[1].cnp(999 * US)
    assert units[1].rate_Bps < 0.6e9
    sums, queues = [0.0, 0.0], []
    for now, rates, queue in dcqcn_loop(units, 200_000 * US):
        if now > 100_000 * US:
            sums = [a + b for a, b in zip(sums, rates, strict=True)]
            queues.append(queue)
    assert jain(sums) > 0.98
    assert sum(sums) / len(queues) == pytest.approx(LINE, rel=0.03)
    assert KMIN < sorted(queues)[len(queues) // 2] < KMAX


def test_two_dctcp_flows_converge():
    threshold = 20
    units = [probe("dctcp", initial_window_packets=60), probe("dctcp", initial_window_packets=4)]
    sent = [0, 0]
    now, sums = 0, [0.0, 0.0]
    for round_ in range(1500):
        windows = [max(int(unit.window_bytes // PACKET), 1) for unit in units]
        queue = max(sum(windows) - 50, 0)  # BDP 50 packets
        rtt = round((10 + 0.2 * queue) * US)
        marked = queue > threshold
        for i, unit in enumerate(units):
            for k in range(windows[i]):
                sent[i] += 1
                at = now + rtt * k // windows[i]
                held = (windows[i] - 1) * PACKET
                mark = int(marked)
                unit.ack(at, rtt, sent[i], sent[i] + windows[i] - 1, PACKET, 1, mark, held)
        now += rtt
        if round_ >= 500:
            sums = [a + b for a, b in zip(sums, windows, strict=True)]
    assert jain(sums) > 0.98
    assert 50 < sum(sums) / 1000 < 50 + 1.5 * threshold


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["ack", "ack", "ack", "cnp", "loss", "timeout", "sent", "wait"]),
        st.integers(1, 2_000 * US),  # how much later
        st.integers(0, 3_000 * US),  # round-trip time
        st.integers(0, 64),  # packets
        st.booleans(),  # marked
        st.integers(0, 10**6),  # queue, bytes in flight
    ),
    max_size=60,
)


def least_rate(name: str, control: cc.CongestionControl, line: float) -> float:
    given_rate = getattr(control, "min_rate_bps", None)
    if given_rate is not None:
        return min(given_rate / 8, line)
    if name == "swift":
        return 0.01 * PACKET / 3e-3
    return line / 128 if name == "ib-cc" else line


def drive(name: str, events, line: float):
    control = cc.algorithm(name, line * 8)
    unit = CcProbe(control.kind, control.parameters(), line, 10 * US, PACKET, 3)
    trail, now, psn, tx = [], 0, 0, 0
    for what, wait, rtt, packets, marked, amount in events:
        fire(unit, now + wait - 1)
        now += wait
        if what == "ack":
            psn += packets
            tx += amount
            hops = [(now, tx, line, amount, h) for h in range(3)]
            mark = packets if marked else 0
            left = psn + amount // PACKET
            unit.ack(now, rtt, psn, left, packets * PACKET, packets, mark, amount, hops)
        elif what in ("loss", "timeout"):
            unit.loss(now, what == "timeout")
        elif what == "cnp":
            unit.cnp(now)
        elif what == "sent":
            unit.sent(now, amount)
        trail.append((now, unit.rate_Bps, unit.window_bytes, unit.timer_ps))
    return control, trail


@pytest.mark.parametrize("name", cc.PROFILE_NAMES)
@settings(max_examples=60, deadline=None)
@given(events=EVENTS, line=st.sampled_from([1.25e8, 5e9, 1e11]))
def test_rate_window_and_timer_stay_within_bounds(name, events, line):
    control, trail = drive(name, events, line)
    for now, rate, window, timer in trail:
        assert not math.isnan(rate)
        assert not math.isnan(window)
        assert least_rate(name, control, line) * (1 - 1e-9) <= rate <= line
        assert window >= PACKET
        assert timer is None or timer >= now
    assert drive(name, events, line)[1] == trail


def test_start_begins_anew():
    for name in cc.PROFILE_NAMES:
        unit, fresh = probe(name), probe(name)
        unit.cnp(1)
        unit.loss(2, timeout=True)
        unit.ack(3, 900 * US, 1, 2, PACKET, 1, 1)
        unit.start(4)
        fresh.start(4)
        for one in (unit, fresh):
            one.cnp(5)
            one.ack(6, 50 * US, 3, 9, PACKET, 1, 1, 6000.0)
        assert (unit.rate_Bps, unit.window_bytes) == (fresh.rate_Bps, fresh.window_bytes)
        assert unit.timer_ps == fresh.timer_ps


def test_times_that_go_back_and_too_many_hops_are_refused():
    unit = probe("hpcc")
    unit.cnp(10)
    with pytest.raises(ValueError, match="goes back"):
        unit.cnp(9)
    with pytest.raises(ValueError, match="at most 8 hops"):
        unit.ack(11, 1, 1, 1, 1, hops=[(0, 0, LINE, 0, 0)] * 9)
