"""The event-driven simulation against a from-scratch reference, and its promises."""

import numpy as np
import pytest
from flow_reference import csr, max_min, sim_of, simulate
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave import _native


@st.composite
def dags(draw, weighted=False):
    links = draw(st.integers(1, 7))
    capacity = [draw(st.integers(1, 20)) * 10.0 for _ in range(links)]
    weight = st.sampled_from([1.0, 0.5, 0.25]) if weighted else st.just(1.0)
    row = st.lists(st.tuples(st.integers(0, links - 1), weight), min_size=0, max_size=4)
    n = draw(st.integers(1, 16))
    rows = [draw(row) for _ in range(n)]
    sizes = [draw(st.sampled_from([0, 10, 10, 37, 100, 250])) for _ in range(n)]
    latency = [draw(st.sampled_from([0.0, 0.0, 0.25, 1.5])) for _ in range(n)]
    start = [draw(st.sampled_from([0.0, 0.0, 0.5, 2.0])) for _ in range(n)]
    delay = [draw(st.sampled_from([0.0, 0.0, 0.125])) for _ in range(n)]
    deps = [
        draw(st.lists(st.tuples(st.integers(0, t - 1), st.integers(0, 1)), max_size=2)) if t else []
        for t in range(n)
    ]
    return capacity, rows, sizes, latency, start, delay, deps


def check_against_reference(case):
    capacity, rows, sizes, latency, start, delay, deps = case
    sim = sim_of(capacity, rows, sizes, latency=latency, start=start, delay=delay, deps=deps)
    assert sim.advance()
    sent, done = simulate(capacity, rows, sizes, latency, start=start, delay=delay, deps=deps)
    np.testing.assert_allclose(sim.task_sent_s, sent, rtol=1e-9)
    np.testing.assert_allclose(sim.task_finish_s, done, rtol=1e-9)
    carried = np.zeros(len(capacity))
    for row, size in zip(rows, sizes, strict=True):
        for link, weight in row:
            carried[link] += weight * size
    np.testing.assert_allclose(sim.link_bytes, carried, rtol=1e-9)


@settings(max_examples=150, deadline=None)
@given(dags())
def test_random_dags_equal_reference(case):
    check_against_reference(case)


@settings(max_examples=80, deadline=None)
@given(dags(weighted=True))
def test_random_weighted_dags_equal_reference(case):
    check_against_reference(case)


def random_traffic(seed, flows=300, links=40, hops=4):
    rng = np.random.default_rng(seed)
    rows = [[(int(x), 1.0) for x in rng.choice(links, hops, replace=False)] for _ in range(flows)]
    capacity = rng.uniform(50, 150, links)
    return capacity, rows, rng.uniform(100, 200, flows), rng.uniform(0, 4, flows)


@pytest.mark.parametrize("seed", range(4))
def test_incremental_rates_equal_from_scratch_all_along(seed):
    """Starts and ends scattered in time: after each the rates are those of a fresh solve."""
    capacity, rows, sizes, start = random_traffic(seed)
    sim = sim_of(capacity, rows, sizes, start=start)
    checked = 0
    while not sim.advance(max_events=7):
        rate = sim.flow_rate_Bps
        active = np.flatnonzero(rate > 0)
        ptr, link, _ = csr([rows[f] for f in active])
        fresh = _native.max_min_rates(capacity, ptr, link)
        np.testing.assert_allclose(rate[active], fresh, rtol=1e-9)
        checked += len(active)
        assert sim.bytes_delivered + sim.bytes_in_flight == pytest.approx(
            sim.bytes_total, rel=1e-12
        )
    assert checked > 1000
    # The point of the engine: nearly all of these were local repairs.
    assert sim.full_solves < sim.solves / 10


def test_rates_in_the_middle_equal_the_exact_reference():
    capacity, rows, sizes, start = random_traffic(11, flows=60, links=12)
    sim = sim_of(capacity, rows, sizes, start=start)
    sim.advance(max_events=60)
    rate = sim.flow_rate_Bps
    active = np.flatnonzero(rate > 0)
    np.testing.assert_allclose(
        rate[active], max_min(capacity, [rows[f] for f in active]), rtol=1e-9
    )


def test_same_input_same_bits():
    runs = []
    for _ in range(2):
        capacity, rows, sizes, start = random_traffic(3)
        sim = sim_of(capacity, rows, sizes, start=start)
        sim.advance()
        runs.append(sim.task_finish_s.tobytes())
    assert runs[0] == runs[1]


def test_streaming_in_slices_equals_one_run():
    capacity, rows, sizes, start = random_traffic(5)
    whole = sim_of(capacity, rows, sizes, start=start)
    whole.advance()
    sliced = sim_of(capacity, rows, sizes, start=start)
    until, seen = 0.0, -1
    while not sliced.advance(until_s=until):
        assert sliced.now_s == until
        finished = np.isfinite(sliced.task_finish_s).sum()
        assert finished >= seen
        seen = finished
        until += 0.37
    np.testing.assert_array_equal(whole.task_finish_s, sliced.task_finish_s)


def test_what_is_not_over_yet_is_not_told():
    sim = sim_of([10.0], [[(0, 1.0)], [(0, 1.0)]], [50, 100], latency=[3.0, 0.0])
    assert not sim.advance(until_s=10.5)
    assert np.isnan(sim.task_finish_s[0])
    assert sim.task_sent_s[0] == pytest.approx(10.0)
    assert sim.bytes_in_flight == pytest.approx(45.0)
    assert sim.bytes_delivered == pytest.approx(105.0)
    np.testing.assert_allclose(sim.link_bytes, [105.0])
    assert sim.advance()
    np.testing.assert_allclose(sim.flow_finish_s, [13.0, 15.0])
    np.testing.assert_allclose(sim.link_peak_fraction, [1.0])


def test_equal_flows_finish_in_one_solve():
    rows = [[(s, 1.0), (8 + d, 1.0)] for s in range(8) for d in range(8)]
    sim = sim_of([100.0] * 16, rows, [10.0] * 64)
    sim.advance()
    assert sim.solves <= 2
    assert len(set(sim.task_finish_s)) == 1


def test_tolerance_stays_within_it_and_saves_solves():
    capacity, rows, sizes, _ = random_traffic(9, flows=2000, links=60)
    exact = sim_of(capacity, rows, sizes)
    exact.advance()
    quick = sim_of(capacity, rows, sizes, tolerance=0.01)
    quick.advance()
    error = np.abs(quick.task_finish_s / exact.task_finish_s - 1)
    assert 0 < error.max() <= 0.01
    assert quick.solves < exact.solves / 5
    assert quick.bytes_delivered == pytest.approx(quick.bytes_total, rel=1e-12)


def test_tolerance_does_not_pile_up_along_a_chain():
    n = 400
    rng = np.random.default_rng(0)
    rows = [[(t % 2, 1.0)] for t in range(2 * n)]
    deps = [[(t - 2, 0)] if t >= 2 else [] for t in range(2 * n)]
    sizes = rng.uniform(10, 11, 2 * n)
    exact, quick = (
        sim_of([10.0, 10.0], rows, sizes, deps=deps, tolerance=tol) for tol in (0.0, 0.02)
    )
    exact.advance()
    quick.advance()
    assert np.abs(quick.task_finish_s / exact.task_finish_s - 1).max() <= 0.02


def test_barriers_empty_rows_and_several_flows_a_task():
    # task 0: two flows; task 1: barrier; task 2: a flow with no link, latency only.
    sim = sim_of(
        [10.0, 10.0],
        [[(0, 1.0)], [(1, 1.0)], []],
        [20, 30, 99],
        latency=[5.0, 0.0, 0.5],
        task_ptr=[0, 2, 2, 3],
        deps=[[], [(0, 1)], [(1, 0)]],
        delay=[0.0, 1.0, 0.0],
    )
    assert sim.advance()
    np.testing.assert_allclose(sim.task_sent_s, [3.0, 4.0, 4.0])
    np.testing.assert_allclose(sim.task_finish_s, [7.0, 4.0, 4.5])
    assert sim.bytes_delivered == pytest.approx(149)


def test_a_cycle_names_its_first_task():
    sim = sim_of([1.0], [[(0, 1.0)]] * 3, [1, 1, 1], deps=[[], [(2, 0)], [(1, 0)]])
    with pytest.raises(RuntimeError, match="task 1 can never start"):
        sim.advance()


def test_a_dead_link_is_named():
    sim = sim_of([1.0, 0.0], [[(0, 1.0)], [(0, 1.0), (1, 1.0)]], [1, 1])
    with pytest.raises(RuntimeError, match=r"task 1 .*flow 1 crosses link 1"):
        sim.advance()


def test_endless_links_carry_and_never_bind():
    sim = sim_of([np.inf, 10.0], [[(0, 1.0), (1, 1.0)], [(0, 1.0)]], [20, 7])
    assert sim.advance()
    np.testing.assert_allclose(sim.task_finish_s, [2.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(sim.link_bytes, [27.0, 20.0])


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"sizes": [-1.0]}, "flow_bytes"),
        ({"latency": [np.nan]}, "flow_latency_s"),
        ({"rounds": [0]}, "task_rounds"),
        ({"deps": [[(4, 0)]]}, "dep_task"),
        ({"tolerance": -0.1}, "tolerance"),
    ],
)
def test_bad_input_is_named(change, what):
    args = {"capacity": [1.0], "rows": [[(0, 1.0)]], "sizes": [1.0], **change}
    with pytest.raises(ValueError, match=what):
        sim_of(**args)
