"""Window-based congestion control against sequences worked out by hand from their papers."""

import math

import pytest
from cc_feed import PACKET, US, Feed, probe

# Swift


def test_swift_increase_and_decrease_by_hand():
    unit = probe("swift", initial_window_bdp=1.0)  # 50 packets
    feed = Feed(unit)
    feed.ack(rtt_ps=20 * US)
    assert unit.window_bytes == pytest.approx((50 + 1 / 50) * PACKET)
    cwnd = 50 + 1 / 50
    alpha = 100 / (1 / math.sqrt(0.1) - 1 / math.sqrt(100))
    target = 20 + alpha * (1 / math.sqrt(cwnd) - 1 / math.sqrt(100))
    feed.ack(rtt_ps=40 * US)
    cwnd *= 1 - 0.8 * (40 - target) / 40
    assert unit.window_bytes == pytest.approx(cwnd * PACKET, rel=1e-9)
    feed.ack(rtt_ps=40 * US)  # within the round trip: no second cut
    assert unit.window_bytes == pytest.approx(cwnd * PACKET, rel=1e-9)
    feed.ack(rtt_ps=1000 * US, step_ps=41 * US)  # at most half
    assert unit.window_bytes == pytest.approx(cwnd / 2 * PACKET, rel=1e-9)


def test_swift_target_grows_with_the_hops():
    few, many = probe("swift", hops=1), probe("swift", hops=5)
    for unit in (few, many):  # the targets are 24.3 and 36.6 us
        Feed(unit).ack(rtt_ps=30 * US)
    assert few.window_bytes < 50_000 < many.window_bytes


def test_swift_paces_below_one_packet():
    unit = probe("swift")
    feed = Feed(unit)
    for _ in range(20):
        feed.ack(rtt_ps=5000 * US, step_ps=5001 * US)
    assert unit.window_bytes == PACKET
    assert unit.rate_Bps == pytest.approx(0.01 * PACKET / 5e-3)  # the least window
    before = unit.rate_Bps
    feed.ack(rtt_ps=20 * US)  # cwnd + ai: above one packet
    assert unit.rate_Bps == 5e9 > before
    assert unit.window_bytes == pytest.approx(1.01 * PACKET)


def test_swift_holds_the_delay_at_its_target():
    unit = probe("swift")
    feed = Feed(unit)
    delays = []
    for _ in range(600):
        cwnd = unit.window_bytes / PACKET
        rtt = round((10 + max(cwnd - 50, 0) * 0.2) * US)  # 0.2 us a packet at 5 GB/s
        delays.append(rtt / US)
        feed.window(rtt_ps=rtt)
    alpha = 100 / (1 / math.sqrt(0.1) - 1 / math.sqrt(100))
    target = 20 + max(alpha * (1 / math.sqrt(unit.window_bytes / PACKET) - 0.1), 0)
    assert sum(delays[-200:]) / 200 == pytest.approx(target, rel=0.05)


def test_swift_losses():
    unit = probe("swift")
    unit.loss(US)
    assert unit.window_bytes == pytest.approx(25_000)
    unit.loss(2 * US)  # same round trip
    assert unit.window_bytes == pytest.approx(25_000)
    for k in range(4):
        unit.loss(100 * US * (k + 1), timeout=True)
    assert unit.window_bytes > PACKET
    unit.loss(500 * US, timeout=True)
    assert unit.window_bytes == PACKET
    assert unit.rate_Bps == pytest.approx(0.01 * PACKET / 10e-6)


# DCTCP


def test_dctcp_slow_start_then_cut_by_alpha_once_a_window():
    unit = probe("dctcp")
    feed = Feed(unit)
    feed.window()
    assert unit.window_bytes == 20 * PACKET
    # Window 1 is the first packet, none marked: alpha 15/16; window 2 is 10 packets, one marked.
    feed.ack(marked=True)
    alpha = 15 / 16 + (1 / 10 - 15 / 16) / 16
    cut = 20 * PACKET * (1 - alpha / 2)
    assert unit.window_bytes == pytest.approx(cut)
    feed.ack(marked=True)
    assert unit.window_bytes == pytest.approx(cut)


def test_dctcp_adds_a_packet_a_round_trip_after_a_cut():
    unit = probe("dctcp", initial_window_packets=100)
    feed = Feed(unit)
    feed.ack(marked=True)
    for _ in range(101):
        feed.ack()
    before = unit.window_bytes
    for _ in range(10):
        feed.window()
    assert unit.window_bytes - before == pytest.approx(10 * PACKET, rel=0.05)


@pytest.mark.parametrize("every", [2, 5, 20])
def test_dctcp_alpha_tends_to_the_share_of_marks(every):
    unit = probe("dctcp", g=0.5, initial_window_packets=1e5)
    feed = Feed(unit)
    cuts = []
    for k in range(1500):  # 15 windows: what is left of alpha 1 is 2^-15
        before = unit.window_bytes
        feed.ack(marked=k % every == 0, in_flight=100 * PACKET)
        if unit.window_bytes < before:
            cuts.append(unit.window_bytes / before)
    assert cuts[-1] == pytest.approx(1 - 1 / every / 2, rel=0.01)


def test_dctcp_losses():
    unit = probe("dctcp", initial_window_packets=64)
    unit.loss(1)
    unit.loss(2)
    assert unit.window_bytes == 32 * PACKET
    unit.loss(3, timeout=True)
    assert unit.window_bytes == PACKET
    feed = Feed(unit)
    feed.now = 10
    for _ in range(4):
        feed.window()
    assert unit.window_bytes == 16 * PACKET  # slow start up to half of 32
    feed.window()
    assert unit.window_bytes == pytest.approx(17 * PACKET, rel=0.01)


# CUBIC


def cut_at(packets, **changes):
    unit = probe("cubic", initial_window_packets=packets, rtt_ps=200_000 * US, **changes)
    unit.loss(0)
    feed = Feed(unit, 200_000 * US)
    for _ in range(packets + 1):  # what was in flight arrives
        feed.ack(step_ps=1)
    return unit, feed


def test_cubic_is_back_at_w_max_after_k():
    unit, feed = cut_at(100)
    assert unit.window_bytes == pytest.approx(70 * PACKET, rel=0.01)
    k_s = (100 * 0.3 / 0.4) ** (1 / 3)
    begin, seen = feed.now, []
    while feed.now - begin < 2 * k_s * 1e12:
        feed.window()
        seen.append(((feed.now - begin) * 1e-12, unit.window_bytes / PACKET))
    for t, packets in seen:  # W(t) = C (t - K)^3 + W_max; growth aims one round trip ahead
        low, high = (0.4 * (x - k_s) ** 3 + 100 for x in (t, t + 0.2))
        assert 0.99 * low < packets < 1.01 * high  # Reno's 70 + 0.53 * 42 is less
    near = min(seen, key=lambda point: abs(point[0] - k_s))
    assert near[1] == pytest.approx(100, rel=0.01)


def test_cubic_fast_convergence():
    def second_plateau(fast):
        unit, feed = cut_at(100, fast_convergence=fast)
        unit.loss(feed.now)
        feed.ack()
        for _ in range(80):
            feed.ack(step_ps=1)
        flat = []
        for _ in range(90):
            before = unit.window_bytes
            feed.window()
            flat.append((unit.window_bytes - before, unit.window_bytes))
        return min(flat)[1] / PACKET

    assert second_plateau(False) == pytest.approx(70, rel=0.02)
    assert second_plateau(True) == pytest.approx(70 * 0.85, rel=0.02)


def test_cubic_is_no_slower_than_reno_on_short_ways():
    unit, feed = cut_at(100)
    feed.rtt_ps = 100 * US
    rounds = 50
    for _ in range(rounds):
        feed.window()
    # The cubic would have moved by 0.4 ((5e-3 - K)^3 + K^3) = 0.1 packet.
    reno = 70 + 3 * 0.3 / 1.7 * rounds
    assert unit.window_bytes / PACKET == pytest.approx(reno, rel=0.02)


def test_cubic_loss_once_a_window_timeout_and_slow_start():
    unit = probe("cubic", initial_window_packets=100)
    unit.loss(1)
    unit.loss(2)
    assert unit.window_bytes == pytest.approx(70 * PACKET)
    unit.loss(3, timeout=True)
    assert unit.window_bytes == PACKET
    feed = Feed(unit)
    feed.now = 10
    for _ in range(5):
        feed.window()
    assert unit.window_bytes == 32 * PACKET  # threshold 49
    for _ in range(3):
        feed.window()
    assert 49 * PACKET <= unit.window_bytes < 53 * PACKET  # K is 0, the plateau is here


def test_cubic_after_a_timeout_the_plateau_is_where_slow_start_ended():
    unit = probe("cubic", initial_window_packets=100, rtt_ps=200_000 * US)
    unit.loss(1)
    unit.loss(2, timeout=True)
    feed = Feed(unit, 200_000 * US)
    feed.now = 10
    while unit.window_bytes < 49 * PACKET:
        feed.ack(step_ps=1)
    for _ in range(5):
        feed.window()
    # 0.4 t^3 and Reno's 0.53 a round trip: 2.6; towards the old plateau it would be 7.
    assert unit.window_bytes / PACKET == pytest.approx(49 + 2.6, abs=1)


@pytest.mark.parametrize("react", [False, True])
def test_cubic_reacts_to_marks_where_told(react):
    unit = probe("cubic", react_to_marks=react, initial_window_packets=100)
    Feed(unit).ack(marked=True)
    assert (unit.window_bytes < 100 * PACKET) == react


@pytest.mark.parametrize("name", ["dctcp", "cubic", "swift"])
def test_a_window_that_is_not_used_does_not_grow(name):
    unit = probe(name)
    before = unit.window_bytes
    feed = Feed(unit)
    for _ in range(100):
        feed.ack(in_flight=PACKET)
    assert unit.window_bytes == before


# NSCC: BDP 50,000 B, so a = 1/3; target 10 us, so b = 10/12


def nscc(**changes):
    unit = probe("nscc", **changes)
    return unit, Feed(unit)


def test_nscc_starts_at_its_largest_window_and_decreases_by_the_average_delay():
    unit, feed = nscc(quick_adapt_delay=0.0, eta_packets=0.0)
    assert unit.window_bytes == 75_000
    feed.ack(marked=True, rtt_ps=60 * US, step_ps=11 * US, packets=75)  # one whole window
    average = 50.0
    keep = max(1 - 0.8 * (average - 10) / average, 0.5)
    assert unit.window_bytes == pytest.approx(75_000 * keep)
    feed.ack(marked=True, rtt_ps=60 * US)  # within a base round trip: no second cut
    assert unit.window_bytes == pytest.approx(75_000 * keep)
    feed.ack(marked=True, rtt_ps=60 * US, step_ps=10 * US)
    assert unit.window_bytes == pytest.approx(75_000 * keep * 0.5)


def shrunk(**changes):
    unit, feed = nscc(quick_adapt_delay=0.0, eta_packets=0.0, adjust_packets=0.0, **changes)
    feed.ack(marked=True, rtt_ps=60 * US, step_ps=11 * US, packets=75)
    return unit, feed


def test_nscc_proportional_increase_by_hand():
    unit, feed = shrunk()
    before = unit.window_bytes
    feed.ack(rtt_ps=14 * US)  # 4 us of queue, target 10: alpha a b MTU / target * 6 us * bytes
    gain = 4 * (1 / 3) * (10 / 12) * 1000 * (10 - 4) / 10
    assert unit.window_bytes - before == pytest.approx(gain * PACKET / before, rel=1e-6)


def test_nscc_fair_increase_by_hand():
    unit, feed = shrunk()
    before = unit.window_bytes
    feed.ack(rtt_ps=30 * US)
    assert unit.window_bytes - before == pytest.approx(5 * 1000 / 3 * PACKET / before, rel=1e-6)


@pytest.mark.parametrize("fair_decrease", [0.0, 0.8])
def test_nscc_mark_with_a_short_queue_holds_or_decreases_fairly(fair_decrease):
    unit, feed = shrunk(fair_decrease=fair_decrease)
    if fair_decrease:
        unit, feed = nscc(fair_decrease=fair_decrease, eta_packets=0.0, adjust_packets=0.0)
    before = unit.window_bytes
    feed.ack(marked=True, rtt_ps=14 * US)
    expected = before - fair_decrease * PACKET * before / 50_000
    assert unit.window_bytes == pytest.approx(expected, rel=1e-9)


def test_nscc_fast_increase_after_a_window_without_queue():
    unit, feed = shrunk()
    before = unit.window_bytes
    count = 0
    while count * PACKET <= before:
        held = unit.window_bytes
        feed.ack(rtt_ps=10 * US)
        count += 1
        if unit.window_bytes - held == pytest.approx(0.25 / 3 * PACKET):
            break
    assert count * PACKET > before  # a window of data first, growing a little meanwhile
    held = unit.window_bytes
    feed.ack(rtt_ps=10 * US)
    assert unit.window_bytes - held == pytest.approx(0.25 / 3 * PACKET)
    feed.ack(rtt_ps=14 * US)  # a queue ends it
    held = unit.window_bytes
    feed.ack(rtt_ps=10 * US)
    assert unit.window_bytes - held < 0.25 / 3 * PACKET or held == 75_000


def test_nscc_quick_adapt_takes_what_was_delivered():
    unit, feed = nscc()
    feed.ack(rtt_ps=20 * US)  # opens the first period of 20 us
    for _ in range(5):
        feed.ack(rtt_ps=20 * US)
    feed.now += 20 * US
    unit.loss(feed.now)
    assert unit.window_bytes == 5 * PACKET
    feed.ack(marked=True, rtt_ps=100 * US, step_ps=30 * US)  # was in flight then: ignored
    assert unit.window_bytes == 5 * PACKET
    unit.loss(feed.now + 1, timeout=True)
    assert unit.window_bytes == 4 * PACKET


def test_nscc_quick_adapt_spares_a_flow_that_delivers():
    unit, feed = nscc()  # the gate is an eighth of 75 packets
    feed.ack(rtt_ps=20 * US)
    for _ in range(10):
        feed.ack(rtt_ps=20 * US)
    feed.now += 20 * US
    unit.loss(feed.now)
    assert unit.window_bytes == 74 * PACKET


def test_nscc_adds_eta_each_period():
    unit, feed = nscc(quick_adapt_delay=0.0, eta_packets=0.3)
    feed.ack(marked=True, rtt_ps=60 * US, step_ps=9 * US, packets=75)
    feed.now += 2 * US
    unit.loss(feed.now, timeout=True)
    before = unit.window_bytes
    feed.ack(marked=True, rtt_ps=14 * US)  # a mark and a short queue: nothing else
    assert unit.window_bytes - before == pytest.approx(100)
    feed.ack(marked=True, rtt_ps=14 * US)
    assert unit.window_bytes - before == pytest.approx(100)


def test_nscc_quick_adapt_on_delay_only_where_told():
    for threshold, adapts in ((4.0, True), (0.0, False)):
        unit, feed = nscc(quick_adapt_delay=threshold)
        feed.ack(rtt_ps=20 * US)
        feed.ack(rtt_ps=20 * US)
        feed.ack(rtt_ps=61 * US, step_ps=20 * US)
        assert (unit.window_bytes == 2 * PACKET) == adapts
