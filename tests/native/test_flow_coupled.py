"""Coupled tasks: the compressed recursion against the same traffic expanded chunk by chunk."""

import time

import numpy as np
import pytest
from flow_reference import coupled, csr, expanded, ring, sim_of
from hypothesis import given, settings
from hypothesis import strategies as st

LINK = 100.0


def check_forms_agree(*case):
    short, long = coupled(*case), expanded(*case)
    assert short.advance()
    assert long.advance()
    rounds, n = case[4], len(case[1])
    last = long.task_finish_s.reshape(n, rounds)[:, -1]
    np.testing.assert_allclose(short.flow_finish_s, last, rtol=1e-9)
    assert short.task_sent_s[0] == pytest.approx(long.task_sent_s.max(), rel=1e-9)
    assert short.task_finish_s[0] == pytest.approx(long.task_finish_s.max(), rel=1e-9)
    np.testing.assert_allclose(short.link_bytes, long.link_bytes, rtol=1e-9)
    assert short.bytes_delivered == pytest.approx(long.bytes_delivered, rel=1e-9)
    return short


streams = st.integers(2, 8)
rounds = st.integers(2, 40)
latencies = st.sampled_from([0.0, 0.01, 0.3, 2.5])


@settings(max_examples=60, deadline=None)
@given(streams, rounds, latencies, st.data())
def test_ring_with_slow_links_stragglers_and_unequal_chunks(n, r, base, data):
    pick = data.draw
    capacity = [LINK * pick(st.sampled_from([1, 1, 1, 0.5, 0.3])) for _ in range(n)]
    chunk = [pick(st.sampled_from([10, 10, 7, 13])) for _ in range(n)]
    latency = [base + pick(st.sampled_from([0.0, 0.0, 0.11])) for _ in range(n)]
    delay = [pick(st.sampled_from([0.0, 0.0, 0.0, 0.07])) for _ in range(n)]
    rows = [[(i, 1.0)] for i in range(n)]
    check_forms_agree(capacity, rows, chunk, latency, r, ring(n), delay)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 30), st.integers(20, 200), st.data())
def test_ring_that_leaps_ahead(n, r, data):
    """Hand-over hops within a round, unequal chunk times and latencies: few rounds are steps."""
    pick = data.draw
    times = pick(st.sampled_from([[1.0], [1.0, 8.0], [1.0, 4.0, 0.5], [1.0, 1.1, 1.2, 1.3]]))
    capacity = [LINK * pick(st.sampled_from(times)) for _ in range(n)]
    latency = [pick(st.sampled_from([0.0, 0.01, 0.05, 0.3])) for _ in range(n)]
    delay = [pick(st.sampled_from([0.0, 0.0, 0.0, 0.07])) for _ in range(n)]
    preds = [[((i - 1) % n, pick(st.sampled_from([1, 1, 1, 0])) if i else 1)] for i in range(n)]
    check_forms_agree(
        capacity, [[(i, 1.0)] for i in range(n)], [10.0] * n, latency, r, preds, delay
    )


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 20), st.integers(5, 150), st.sampled_from([0.0, 0.01, 0.05]), st.data())
def test_rate_changes_on_the_slowest_stream_are_exact(n, r, latency, data):
    """It never waits, so average and momentary rates agree; the others run up to n rounds ahead."""
    pick = data.draw
    starts = pick(st.lists(st.floats(0.01, 0.3 * r), min_size=1, max_size=6))
    sizes = [pick(st.sampled_from([1.0, 5.0, 40.0])) for _ in starts]
    # A hand-over after every other stream at most: enough chunks are on their way.
    hand_over = [i % 2 == 1 and i > 1 and pick(st.booleans()) for i in range(n)]
    preds = {
        "ring": [[((i - 1) % n, 0 if hand_over[i] else 1)] for i in range(n)],
        "deep ring": [[((i - 1) % n, 2), ((i - 1) % n, 3)] for i in range(n)],
        "tree": [[((i - 1) // 2, 0)] if i else [] for i in range(n)],
    }[pick(st.sampled_from(["ring", "deep ring", "tree"]))]
    ptr, stream, lag = csr([*preds, *[[] for _ in starts]])
    capacity = [LINK / 5] + [LINK * pick(st.sampled_from([1.0, 0.8, 3.0])) for _ in range(n - 1)]
    ends = []
    for exact in (0, 10**6):
        sim = sim_of(
            capacity,
            [[(i, 1.0)] for i in range(n)] + [[(0, 1.0)] for _ in starts],
            [10.0] * n + sizes,
            latency=[latency] * n + [0.0] * len(starts),
            task_ptr=[0, *range(n, n + len(starts) + 1)],
            rounds=[r] + [1] * len(starts),
            start=[0.0, *starts],
            pred_ptr=ptr,
            pred_flow=stream,
            pred_lag=lag.astype(np.int32),
            exact_chunks=exact,
        )
        assert sim.advance()
        ends.append((sim.flow_finish_s, sim.task_finish_s))
    np.testing.assert_allclose(ends[0][0], ends[1][0], rtol=1e-9)
    np.testing.assert_allclose(ends[0][1], ends[1][1], rtol=1e-9)


@settings(max_examples=40, deadline=None)
@given(st.integers(3, 12), st.integers(40, 120), st.data())
def test_a_ring_disturbed_while_it_leaps(n, r, data):
    """Plain flows come and go on its links: as chunk by chunk, but for sharing by average rates."""
    pick = data.draw
    starts = pick(st.lists(st.floats(0.1, 8.0), min_size=1, max_size=4))
    latency = pick(st.sampled_from([0.0, 0.02]))
    rows = [[(i, 1.0)] for i in range(n)] + [[(pick(st.integers(0, n - 1)), 1.0)] for _ in starts]
    ptr, stream, lag = csr([*ring(n), *[[] for _ in starts]])
    ends = []
    for exact in (0, 10**6):
        sim = sim_of(
            [LINK] * n,
            rows,
            [10.0] * n + [30.0] * len(starts),
            latency=[latency] * n + [0.0] * len(starts),
            task_ptr=[0, *range(n, n + len(starts) + 1)],
            rounds=[r] + [1] * len(starts),
            start=[0.0, *starts],
            pred_ptr=ptr,
            pred_flow=stream,
            pred_lag=lag.astype(np.int32),
            exact_chunks=exact,
        )
        assert sim.advance()
        assert sim.bytes_delivered == pytest.approx(10.0 * n * r + 30.0 * len(starts))
        ends.append(sim.task_finish_s[0])
    # Where a flow begins or ends within a chunk or a wait, the two may differ by about that much.
    assert abs(ends[0] - ends[1]) <= (0.1 + latency) * (1 + len(starts))


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 9), rounds, latencies, st.booleans(), st.data())
def test_pipelined_chain_or_tree_whose_streams_pass_chunks_on(n, r, latency, tree, data):
    parent = [(i - 1) // 2 if tree else i - 1 for i in range(n)]
    # Streams in any order: the engine has to sort the lag-0 edges itself.
    name = data.draw(st.permutations(range(n)))
    capacity = [LINK * data.draw(st.sampled_from([1, 1, 0.5])) for _ in range(n)]
    rows, preds = [None] * n, [None] * n
    for i in range(n):
        rows[name[i]] = [(i, 1.0)]
        preds[name[i]] = [] if i == 0 else [(name[parent[i]], 0)]
    check_forms_agree(capacity, rows, [10.0] * n, [latency] * n, r, preds)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 6), st.integers(2, 60), st.data())
def test_longer_lags_and_several_predecessors(n, r, data):
    """Deep windows, fan-in: history must reach back as far as the largest lag."""
    edge = st.tuples(st.integers(0, n - 1), st.integers(1, 5))
    preds = [data.draw(st.lists(edge, max_size=3)) for _ in range(n)]
    latency = [data.draw(st.sampled_from([0.0, 0.05, 0.4])) for _ in range(n)]
    capacity = [LINK * data.draw(st.sampled_from([1, 0.5, 0.8])) for _ in range(n)]
    check_forms_agree(capacity, [[(i, 1.0)] for i in range(n)], [10.0] * n, latency, r, preds)


@pytest.mark.parametrize("latency", [0.0, 0.05])
def test_two_streams_that_collide_on_one_link(latency):
    """Streams 0 and 1 leave together each round and share link 4."""
    rows = [[(0, 1.0), (4, 1.0)], [(1, 1.0), (4, 1.0)], [(2, 1.0)], [(3, 1.0)]]
    preds = [[(2, 1), (1, 1), (0, 1)], [(3, 1), (0, 1), (1, 1)], [(0, 1)], [(1, 1)]]
    check_forms_agree([LINK] * 5, rows, [10.0] * 4, [latency] * 4, 30, preds)


def test_ring_across_a_collision_with_no_latency():
    rows = [[(0, 1.0), (4, 1.0)], [(1, 1.0), (4, 1.0)], [(2, 1.0)], [(3, 1.0)]]
    check_forms_agree([LINK] * 5, rows, [10.0] * 4, [0.0] * 4, 24, ring(4))


def test_sprayed_streams():
    rows = [[(i, 0.5), (i + 4, 0.5)] for i in range(4)]
    check_forms_agree([LINK] * 7 + [LINK / 4], rows, [10.0] * 4, [0.02] * 4, 50, ring(4))


def test_long_run_skips_its_periodic_part_exactly():
    n, r = 64, 3000
    capacity = [LINK] * n
    capacity[5] = LINK / 3
    check_forms_agree(capacity, [[(i, 1.0)] for i in range(n)], [10.0] * n, [0.013] * n, r, ring(n))


def test_a_rate_change_midway_recomputes_from_there():
    """A plain flow joins link 0 at a time when each stream is inside some chunk."""
    n, r = 4, 50
    rows = [[(i, 1.0)] for i in range(n)] + [[(0, 1.0)]]
    ptr, stream, lag = csr([*ring(n), []])
    sim = sim_of(
        [LINK] * n,
        rows,
        [10.0] * n + [100.0],
        task_ptr=[0, n, n + 1],
        rounds=[r, 1],
        start=[0.0, 1.234],
        pred_ptr=ptr,
        pred_flow=stream,
        pred_lag=lag.astype(np.int32),
    )
    assert sim.advance()
    # While the flow is there (100 bytes at half speed: 2 s) stream 0 makes half its progress,
    # and everyone else waits for it: the ring loses 1 s, up to one chunk of slack.
    assert sim.task_finish_s[1] == pytest.approx(1.234 + 2.0)
    assert sim.task_finish_s[0] == pytest.approx(r * 0.1 + 1.0, rel=1e-9)


def test_a_task_held_up_by_latency_leaves_capacity_to_others():
    """Chunks of 0.1 s every 1.0 s load the link to a tenth; a plain flow gets the rest."""
    rows = [[(0, 1.0)], [(1, 1.0)], [(0, 1.0)]]
    ptr, stream, lag = csr([[(1, 1)], [(0, 1)], []])
    sim = sim_of(
        [LINK, LINK],
        rows,
        [10.0, 10.0, 1000.0],
        latency=[0.9, 0.9, 0.0],
        task_ptr=[0, 2, 3],
        rounds=[1000, 1],
        pred_ptr=ptr,
        pred_flow=stream,
        pred_lag=lag.astype(np.int32),
    )
    sim.advance(until_s=5.0)
    rate = sim.flow_rate_Bps[2]
    assert 0.85 * LINK < rate < 0.95 * LINK
    assert sim.advance()
    assert sim.task_finish_s[1] == pytest.approx(1000 / rate, rel=0.05)


def test_progress_is_conserved_while_it_runs():
    sim = coupled([LINK] * 4, [[(i, 1.0)] for i in range(4)], [10.0] * 4, [0.1] * 4, 100, ring(4))
    for until in (0.05, 1.0, 7.3):
        assert not sim.advance(until_s=until)
        assert sim.bytes_delivered + sim.bytes_in_flight == pytest.approx(4000.0)
        assert sim.bytes_delivered == pytest.approx(sim.link_bytes.sum())
    assert sim.advance()
    assert sim.bytes_delivered == pytest.approx(4000.0)


def test_a_dependency_waits_for_the_whole_coupled_task():
    rows = [[(0, 1.0)], [(1, 1.0)], [(0, 1.0)]]
    ptr, stream, lag = csr([[(1, 1)], [(0, 1)], []])
    sim = sim_of(
        [LINK, LINK / 2],
        rows,
        [10.0, 10.0, 50.0],
        task_ptr=[0, 2, 3],
        rounds=[10, 1],
        deps=[[], [(0, 0)]],
        pred_ptr=ptr,
        pred_flow=stream,
        pred_lag=lag.astype(np.int32),
    )
    assert sim.advance()
    np.testing.assert_allclose(sim.task_start_s, [0.0, 2.0])
    np.testing.assert_allclose(sim.task_finish_s, [2.0, 2.5])


def test_cyclic_lag_0_is_an_error():
    with pytest.raises(ValueError, match="lag 0 form a cycle"):
        coupled([LINK] * 2, [[(0, 1.0)], [(1, 1.0)]], [1, 1], [0, 0], 5, ring(2, lag=0))


def test_a_predecessor_of_another_task_is_an_error():
    ptr, stream, lag = csr([[(1, 1)], [(1, 1)], []])
    with pytest.raises(ValueError, match="flow 0: predecessor 1 is not in the same task"):
        sim_of(
            [LINK],
            [[(0, 1.0)]] * 3,
            [1, 1, 1],
            task_ptr=[0, 1, 3],
            rounds=[2, 2],
            pred_ptr=ptr,
            pred_flow=stream,
            pred_lag=lag.astype(np.int32),
        )


def test_a_dead_link_stops_a_coupled_task_with_its_name():
    sim = coupled([LINK, 0.0], [[(0, 1.0)], [(1, 1.0)]], [1, 1], [0, 0], 5, ring(2))
    with pytest.raises(RuntimeError, match=r"task 0 .*link 1"):
        sim.advance()


def test_a_homogeneous_ring_of_thousands_costs_milliseconds():
    n = 4096
    sim = coupled(
        [LINK] * n, [[(i, 1.0)] for i in range(n)], [10.0] * n, [0.01] * n, 2 * n - 2, ring(n)
    )
    begin = time.process_time()
    assert sim.advance()
    assert time.process_time() - begin < 20  # a ceiling for hangs only
    assert sim.task_sent_s[0] == pytest.approx((2 * n - 3) * 0.11 + 0.1, rel=1e-9)
