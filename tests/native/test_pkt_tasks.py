"""The task graph of the packet engine: coupled rounds, lags, dependencies, failures."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.native._packet import FAILED, FINISHED, Net

from railweave import _native
from railweave.workload import DELIVERED, SENT, Traffic

WIRE_S = (4096 + 82) * 8 / 100e9
I4, I8 = np.int32, np.int64


def mesh(hosts: int, streams: list[tuple[int, int]], **nic: object) -> Net:
    """Give each stream a cable of its own, so that none meets another."""
    return Net(hosts, 0, [(a, b, 100.0) for a, b in streams], nic=nic)


def traffic(  # noqa: PLR0917
    streams: list[tuple[int, int]],
    chunk: list[int],
    delay_s: list[float],
    tasks: list[tuple[int, int, float, float]],
    deps: list[list[tuple[int, int]]],
    preds: list[list[tuple[int, int]]],
) -> Traffic:
    """Tasks are (streams, rounds, start in s, delay in s)."""
    n = len(streams)
    t = Traffic(
        src=np.array([a for a, _ in streams], I4),
        dst=np.array([b for _, b in streams], I4),
        chunk_bytes=np.array(chunk, float),
        chunk_delay_s=np.array(delay_s, float),
        queue_pairs=np.ones(n, I4),
        task_stream=np.concatenate(([0], np.cumsum([t[0] for t in tasks]))).astype(I8),
        task_rounds=np.array([t[1] for t in tasks], I4),
        task_start_s=np.array([t[2] for t in tasks]),
        task_delay_s=np.array([t[3] for t in tasks]),
        task_label=np.zeros(len(tasks), I4),
        dep_ptr=np.concatenate(([0], np.cumsum([len(d) for d in deps]))).astype(I8),
        dep_task=np.array([d for ds in deps for d, _ in ds], I4),
        dep_kind=np.array([k for ds in deps for _, k in ds], np.uint8),
        pred_ptr=np.concatenate(([0], np.cumsum([len(p) for p in preds]))).astype(I8),
        pred_stream=np.array([p for ps in preds for p, _ in ps], I4),
        pred_lag=np.array([lag for ps in preds for _, lag in ps], I4),
        labels=("x",),
    )
    t.validate(int(max(t.src.max(), t.dst.max())) + 1 if n else None)
    return t


def simulate(net: Net, work: Traffic) -> _native.PacketSim:
    """Run the work; each stream uses the cable between its ends, same pair, next cable."""
    used: dict[tuple[int, int], int] = {}
    cable = {}
    for k, (a, b, _) in enumerate(net.cables):
        cable.setdefault((a, b), []).append(2 * k)
    paths = []
    for a, b in zip(work.src.tolist(), work.dst.tolist(), strict=True):
        lane = used.get((a, b), 0) % len(cable[a, b])
        paths.append([cable[a, b][lane]])
        if len(cable[a, b]) > 1:
            used[a, b] = lane + 1

    def ps(x: np.ndarray) -> np.ndarray:
        return np.rint(x * 1e12).astype(np.uint64)

    def plan(t: _native.PacketTasks) -> None:
        t.task_stream = work.task_stream.astype(np.uint64)
        t.rounds = work.task_rounds.astype(np.uint32)
        t.start_ps, t.delay_ps = ps(work.task_start_s), ps(work.task_delay_s)
        t.chunk_delay_ps = ps(work.chunk_delay_s)
        t.dep_ptr = work.dep_ptr.astype(np.uint64)
        t.dep_task, t.dep_kind = work.dep_task.astype(np.uint32), work.dep_kind
        t.pred_ptr = work.pred_ptr.astype(np.uint64)
        t.pred_stream = work.pred_stream.astype(np.uint32)
        t.pred_lag = work.pred_lag.astype(np.uint32)

    sim = net.sim(paths, work.chunk_bytes.astype(int), plan=plan)
    assert sim.advance()
    sim.audit()
    return sim


@st.composite
def works(draw: st.DrawFn) -> tuple[int, Traffic]:
    """Small graphs in which every (source, destination) pair is used by one stream."""
    hosts = draw(st.integers(2, 5))
    pairs = [(a, b) for a in range(hosts) for b in range(hosts) if a != b]
    pairs = draw(st.permutations(pairs))
    streams, chunk, delay, tasks, deps, preds = [], [], [], [], [], []
    for number in range(draw(st.integers(1, 4))):
        n = min(draw(st.integers(0, 3)), len(pairs) - len(streams))
        rounds = draw(st.integers(1, 4)) if n else 1
        first = len(streams)
        for _ in range(n):
            streams.append(pairs[len(streams)])
            chunk.append(draw(st.integers(1, 30_000)))
            delay.append(draw(st.sampled_from([0.0, 0.0, 1e-6, 3.3e-6])))
            mine = []
            if rounds > 1:
                for other in range(first, first + n):
                    if draw(st.booleans()):
                        mine.append((other, draw(st.integers(1, 2))))
            preds.append(mine)
        start = draw(st.sampled_from([0.0, 2e-6]))
        tasks.append((n, rounds, start, draw(st.sampled_from([0.0, 5e-7]))))
        deps.append(
            [
                (d, draw(st.sampled_from([DELIVERED, SENT])))
                for d in range(number)
                if draw(st.booleans())
            ]
        )
    return hosts, traffic(streams, chunk, delay, tasks, deps, preds)


@given(works())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_coupled_work_takes_the_same_time_as_one_task_a_chunk(case: tuple[int, Traffic]) -> None:
    hosts, work = case
    if work.n_streams == 0:
        return
    net = mesh(hosts, list(zip(work.src.tolist(), work.dst.tolist(), strict=True)))
    short = simulate(net, work)
    assert short.end == FINISHED
    plain = work.expand()
    long = simulate(net, plain)
    assert long.end == FINISHED
    assert short.now_s == pytest.approx(long.now_s, abs=1e-11)
    assert np.nanmax(short.task_finish_s) == pytest.approx(np.nanmax(long.task_finish_s), abs=1e-11)
    # each message of the one is a task of the other with the same end
    mine = np.sort(short.message_finish_s)
    theirs = np.sort(long.message_finish_s)
    assert mine == pytest.approx(theirs, abs=1e-11)


def test_a_ring_of_rounds_takes_a_step_for_each() -> None:
    n, rounds = 4, 6
    streams = [(i, (i + 1) % n) for i in range(n)]
    work = traffic(
        streams,
        [8192] * n,
        [1e-6] + [0.0] * (n - 1),
        [(n, rounds, 0.0, 0.0)],
        [[]],
        [[((i - 1) % n, 1)] for i in range(n)],
    )
    sim = simulate(mesh(n, streams), work)
    step = 2 * WIRE_S + 500e-9
    # the slow first stream delays itself every n rounds' travel at most once a round
    delays = -(-rounds // n)
    assert sim.task_finish_s[0] >= rounds * step + delays * 1e-6 - 1e-11
    assert sim.task_finish_s[0] <= rounds * (step + 1e-6) + 1e-11


def test_sent_comes_a_flight_before_delivered() -> None:
    streams = [(0, 1), (1, 2), (1, 3)]
    work = traffic(
        streams,
        [40960] * 3,
        [0.0] * 3,
        [(1, 1, 0.0, 0.0)] * 3,
        [[], [(0, SENT)], [(0, DELIVERED)]],
        [[], [], []],
    )
    sim = simulate(mesh(4, streams), work)
    assert sim.task_start_s[1] == pytest.approx(10 * WIRE_S, abs=2e-12)
    assert sim.task_start_s[2] - sim.task_start_s[1] == pytest.approx(500e-9, abs=2e-12)


def test_barriers_delays_and_starts() -> None:
    streams = [(0, 1), (1, 0)]
    work = traffic(
        streams,
        [4096] * 2,
        [0.0] * 2,
        [(1, 1, 1e-6, 2e-6), (0, 1, 0.0, 4e-6), (1, 1, 3e-6, 0.0)],
        [[], [(0, DELIVERED)], [(1, DELIVERED)]],
        [[], []],
    )
    sim = simulate(mesh(2, streams), work)
    first = 3e-6 + WIRE_S + 500e-9
    assert sim.task_start_s[0] == pytest.approx(3e-6, abs=1e-12)
    assert sim.task_finish_s[1] == pytest.approx(first + 4e-6, abs=2e-12)
    assert sim.task_finish_s[2] == pytest.approx(first + 4e-6 + WIRE_S + 500e-9, abs=4e-12)


def test_what_waits_for_a_failed_message_never_ends_and_the_rest_does() -> None:
    streams = [(0, 1), (1, 2), (2, 3), (3, 0)]
    work = traffic(
        streams,
        [40960] * 4,
        [0.0] * 4,
        [(2, 5, 0.0, 0.0), (1, 1, 0.0, 0.0), (0, 1, 0.0, 0.0), (1, 1, 90e-6, 0.0)],
        [[], [(0, DELIVERED)], [(1, DELIVERED)], []],
        [[(1, 1)], [(0, 1)], [], []],
    )
    net = mesh(4, streams, timeout_ps=10_000_000, retries=2)
    kinds = list(_native.PACKET_FAULT_KINDS)
    paths = [[2 * k] for k in range(4)]

    def plan(t: _native.PacketTasks) -> None:
        for name in ("task_stream", "dep_ptr", "pred_ptr"):
            setattr(t, name, getattr(work, name).astype(np.uint64))
        t.rounds = work.task_rounds.astype(np.uint32)
        t.start_ps = np.array([0, 0, 0, 90_000_000], np.uint64)
        t.delay_ps = np.zeros(4, np.uint64)
        t.chunk_delay_ps = np.zeros(4, np.uint64)
        t.dep_task, t.dep_kind = work.dep_task.astype(np.uint32), work.dep_kind
        t.pred_stream = work.pred_stream.astype(np.uint32)
        t.pred_lag = work.pred_lag.astype(np.uint32)

    sim = net.sim(paths, 40960, plan=plan)
    one = np.array
    sim.set_faults(
        one([8_000_000], np.uint64),
        one([kinds.index("link_loss")], np.uint8),
        one([0], np.uint32),
        one([1 << 32], np.uint64),
    )
    assert sim.advance()
    sim.audit()
    assert sim.end == FAILED
    assert sim.failed_flows.tolist() == [0]
    finish = sim.task_finish_s
    assert np.isnan(finish[:3]).all()
    assert finish[3] == pytest.approx(90e-6 + 10 * WIRE_S + 500e-9, abs=2e-12)
    assert sim.now_s == pytest.approx(finish[3])
    # two rounds went over; the coupled stream delivers what it still may
    done = np.isfinite(sim.message_finish_s)
    assert done[:5].sum() == 2
    assert done[5:10].sum() == 3
