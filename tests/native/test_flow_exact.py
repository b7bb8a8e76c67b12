"""Coupled tasks chunk by chunk: the same times as the traffic written out as plain flows."""

import numpy as np
import pytest
from flow_reference import coupled, csr, expanded, ring, sim_of
from hypothesis import given, settings
from hypothesis import strategies as st

LINK = 100.0
MANY = 10**6


def check_exact(*case):
    short, long = coupled(*case, exact_chunks=MANY), expanded(*case)
    plain = case[4] == 1 and not any(case[5]) and not any(case[6])
    assert short.exact_tasks == (0 if plain else 1)
    assert short.advance()
    assert long.advance()
    rounds, n = case[4], len(case[1])
    last = long.task_finish_s.reshape(n, rounds)[:, -1]
    np.testing.assert_allclose(short.flow_finish_s, last, rtol=1e-9)
    np.testing.assert_allclose(short.link_bytes, long.link_bytes, rtol=1e-9)
    np.testing.assert_allclose(short.link_peak_fraction, long.link_peak_fraction, rtol=1e-9)
    assert short.bytes_delivered == pytest.approx(long.bytes_delivered, rel=1e-9)


@settings(max_examples=80, deadline=None)
@given(st.integers(2, 7), st.integers(1, 25), st.data())
def test_streams_that_share_links_in_any_way(n, rounds, data):
    pick = data.draw
    links = pick(st.integers(1, n - 1))
    weight = st.sampled_from([1.0, 1.0, 0.5])
    row = st.lists(
        st.tuples(st.integers(0, links - 1), weight), max_size=3, unique_by=lambda x: x[0]
    )
    # Every stream crosses link 0: with more streams than links, sharing is certain.
    rows = [[(0, 1.0)] + [r for r in pick(row) if r[0]] for _ in range(n)]
    lagged = st.tuples(st.integers(0, n - 1), st.integers(1, 3))
    preds = []
    for i in range(n):
        edges = pick(st.lists(lagged, max_size=2))
        before = pick(st.lists(st.integers(0, i - 1), max_size=2)) if i else []
        preds.append(edges + [(p, 0) for p in before])
    capacity = [LINK * pick(st.sampled_from([1, 0.5, 0.3])) for _ in range(links)]
    chunk = [pick(st.sampled_from([10, 7, 0])) for _ in range(n)]
    latency = [pick(st.sampled_from([0.0, 0.05, 0.4])) for _ in range(n)]
    delay = [pick(st.sampled_from([0.0, 0.0, 0.07])) for _ in range(n)]
    check_exact(capacity, rows, chunk, latency, rounds, preds, delay)


def two_rings(latency, **more):
    """Two rings of three streams whose first streams share link 0, and a plain flow on it."""
    rows = [[(0, 1.0)], [(1, 1.0)], [(2, 1.0)], [(0, 1.0)], [(3, 1.0)], [(4, 1.0)], [(0, 1.0)]]
    ptr, stream, lag = csr([*ring(3), *[[(s + 3, g)] for ((s, g),) in ring(3)], []])
    return sim_of(
        [LINK] * 5,
        rows,
        [10.0] * 6 + [100.0],
        latency=[latency] * 6 + [0.0],
        task_ptr=[0, 3, 6, 7],
        rounds=[20, 20, 1],
        start=[0.0, 0.0, 1.0],
        pred_ptr=ptr,
        pred_flow=stream,
        pred_lag=lag.astype(np.int32),
        **more,
    )


def test_bytes_are_conserved_at_any_moment():
    sim = two_rings(0.03, exact_chunks=MANY)
    for until in np.linspace(0.01, 4.0, 57):
        sim.advance(until_s=until)
        assert sim.bytes_delivered + sim.bytes_in_flight == pytest.approx(1300.0)
        assert sim.bytes_delivered == pytest.approx(sim.link_bytes.sum())
    assert sim.advance()
    assert sim.bytes_delivered == pytest.approx(1300.0)


def test_steps_do_not_change_the_result():
    whole, steps = two_rings(0.03, exact_chunks=MANY), two_rings(0.03, exact_chunks=MANY)
    assert whole.advance()
    while not steps.advance(max_events=3):
        pass
    np.testing.assert_array_equal(whole.flow_finish_s, steps.flow_finish_s)


def test_beyond_the_limit_all_share_by_average_rates():
    assert two_rings(0.0, exact_chunks=120).exact_tasks == 2
    beyond = two_rings(0.0, exact_chunks=119)
    assert (beyond.exact_tasks, beyond.averaged_tasks) == (0, 2)


def test_a_task_alone_on_its_links_needs_no_expansion():
    sim = coupled(
        [LINK] * 3,
        [[(i, 1.0)] for i in range(3)],
        [10.0] * 3,
        [0.0] * 3,
        5,
        ring(3),
        exact_chunks=MANY,
    )
    assert (sim.exact_tasks, sim.averaged_tasks) == (0, 0)


@pytest.mark.parametrize("exact", [0, MANY])
def test_one_round_of_streams_that_hand_chunks_on(exact):
    """A chunk that is passed on waits for its arrival even where it is the only one."""
    rows = [[(0, 1.0)], [(1, 1.0)], [(0, 0.5), (2, 1.0)]]
    preds = [[], [(0, 0)], [(1, 0)]]
    sim = coupled([LINK] * 3, rows, [10.0] * 3, [0.5] * 3, 1, preds, exact_chunks=exact)
    assert sim.advance()
    np.testing.assert_allclose(sim.flow_finish_s, [0.6, 1.2, 1.8], rtol=1e-9)


def test_a_straggler_in_a_plain_task_begins_late():
    rows = [[(0, 1.0)], [(0, 1.0)]]
    sim = coupled([LINK], rows, [10.0] * 2, [0.0] * 2, 1, [[], []], [0.0, 0.3])
    assert sim.advance()
    np.testing.assert_allclose(sim.flow_finish_s, [0.1, 0.4], rtol=1e-9)


def test_a_dead_link_stops_it_with_its_name():
    case = [LINK, 0.0], [[(0, 1.0), (1, 1.0)], [(1, 1.0)]], [1, 1], [0, 0], 5, ring(2)
    with pytest.raises(RuntimeError, match=r"task 0 .*link 1"):
        coupled(*case, exact_chunks=MANY).advance()
