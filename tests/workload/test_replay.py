"""Traces on a fabric: matching, dependencies, sizes, and the closed loop."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import railweave
from railweave.design.models import Algorithm, Collective, PlacementName
from railweave.engine import simulate
from railweave.errors import InputError
from railweave.formats.execution_trace import ALL_RANKS, EventKind, RankTrace, TraceEvent
from railweave.formats.kineto import read_kineto
from railweave.workload.replay import plan_replay
from railweave.workload.replay_times import replay_times
from trace_files import collective, kernel, kineto

DESIGN = """\
railweave: 1
name: pairs
cluster:
  servers:
    count: 4
    inline: {gpus: 2, nics: 2, nic_speed: 100 Gb/s, scale_up_bandwidth: 1 Tb/s}
planes:
  backend: {transport: rocev2, topology: leaf-spine, switch: {radix: 4, speed: 100 Gb/s}}
"""
MIB = 1 << 20


@pytest.fixture(scope="module")
def built():
    return _built()


def work(seconds, *after, rank=0):
    return TraceEvent(
        rank, EventKind.COMPUTE, "compute", duration_s=seconds, depends_on=tuple(after)
    )


def coll(op, size, ranks, *after, **more):
    return TraceEvent(
        more.pop("rank", 0),
        EventKind.COLLECTIVE,
        op,
        size_bytes=float(size),
        ranks=tuple(ranks),
        depends_on=tuple(after),
        **more,
    )


def message(op, src, dst, size, *after, rank=0, **more):
    return TraceEvent(
        rank,
        EventKind.POINT_TO_POINT,
        op,
        size_bytes=float(size),
        ranks=(src, dst),
        depends_on=tuple(after),
        **more,
    )


def trace(rank, *events, world=0, source="test"):
    own = tuple(replace(event, rank=rank) for event in events)
    return RankTrace(source, f"rank{rank}", rank, own, world)


def replayed(built, traces, engine="flow", **options):
    plan = plan_replay(traces, built.fabric, **options)
    result = simulate(built.fabric, plan.traffic, built.routing(), engine)
    return plan, replay_times(plan, result.task_finish_s, result.makespan_s)


def ids(plan):
    return [finding.id for finding in plan.findings]


# ---------------------------------------------------------------- one operation


@pytest.mark.parametrize("op", [op for op in Collective if op is not Collective.SEND_RECV])
def test_an_operation_takes_what_it_takes_alone(built, op):
    """Replayed, it is the very collective that ``BuiltDesign.collective`` runs."""
    traces = [trace(r, coll(op.value, 8 * MIB, range(8))) for r in range(8)]
    _, times = replayed(built, traces)
    alone = built.collective(op, 8 * MIB)
    (time,) = times.operations
    assert time.replayed_s == pytest.approx(alone.time_s, rel=1e-9)
    assert times.replayed_s == pytest.approx(alone.time_s, rel=1e-9)
    assert times.by_operation[0].replayed_busbw_Bps == pytest.approx(alone.busbw_Bps, rel=1e-9)


@pytest.mark.parametrize("engine", ["analytic", "flow", "packet"])
def test_every_engine_replays(built, engine):
    traces = [trace(r, work(1e-3), coll("all-gather", MIB, range(4), 0)) for r in range(4)]
    _, times = replayed(built, traces, engine)
    (time,) = times.operations
    assert time.start_s == pytest.approx(1e-3)
    assert time.replayed_s > 0.75 * MIB / 12.5e9


def test_an_operation_starts_when_its_last_rank_is_ready(built):
    delays = (1e-3, 4e-3, 2e-3)
    traces = [
        trace(r, work(delays[r]), coll("all-reduce", MIB, (0, 1, 2), 0), work(1e-3, 1))
        for r in range(3)
    ]
    _, times = replayed(built, traces)
    (time,) = times.operations
    assert time.start_s == pytest.approx(4e-3)
    assert times.replayed_s == pytest.approx(5e-3 + time.replayed_s)
    assert times.compute_s == pytest.approx(5e-3)


def test_compute_beside_an_operation_hides_it(built):
    traces = [
        trace(r, coll("all-reduce", MIB, (0, 1)), work(1.0), work(0.5, 0, 1)) for r in range(2)
    ]
    _, times = replayed(built, traces)
    assert times.replayed_s == pytest.approx(1.5)


def test_ranks_without_a_trace_take_part_and_are_said(built):
    whole, _ = replayed(built, [trace(r, coll("all-reduce", MIB, range(8))) for r in range(8)])
    one, _ = replayed(built, [trace(0, coll("all-reduce", MIB, range(8)))])
    assert one.traffic.total_bytes == whole.traffic.total_bytes
    assert (ids(whole), ids(one)) == ([], ["ranks-without-trace"])


def test_measured_is_the_shortest_of_the_ranks(built):
    traces = [
        trace(r, coll("all-reduce", MIB, (0, 1), duration_s=took))
        for r, took in enumerate((5e-3, 2e-3))
    ]
    _, times = replayed(built, traces)
    (time,) = times.operations
    assert (time.measured_s, time.longest_s) == (2e-3, 5e-3)
    assert time.ratio == pytest.approx(time.replayed_s / 2e-3)
    (total,) = times.by_operation
    assert total.measured_busbw_Bps == pytest.approx(MIB / 2e-3)


def test_messages_wait_for_both_ends(built):
    traces = [
        trace(0, work(2e-3), message("send", 0, 2, MIB, 0)),
        trace(2, work(3e-3), message("recv", 0, 2, MIB, 0), work(1e-3, 1)),
    ]
    plan, times = replayed(built, traces)
    (time,) = times.operations
    assert (time.op, time.start_s) == ("send", pytest.approx(3e-3))
    assert plan.traffic.total_bytes == MIB
    assert times.by_operation[0].replayed_busbw_Bps == pytest.approx(MIB / time.replayed_s)


def test_messages_are_matched_by_order_and_tag(built):
    sends = [message("send", 0, 1, size, tag=tag) for size, tag in ((1, 5), (2, 6), (3, 5))]
    recvs = [message("recv", 0, 1, size, tag=tag) for size, tag in ((2, 6), (1, 5), (3, 5))]
    plan = plan_replay([trace(0, *sends), trace(1, *recvs)], built.fabric)
    assert sorted(op.size_bytes for op in plan.operations) == [1, 2, 3]
    assert all(len(op.places) == 2 for op in plan.operations)


def test_gather_scatter_and_uneven_all_to_all(built):
    root = coll("gather", 4 * MIB, range(4), root=2)
    plan, _ = replayed(built, [trace(0, root)])
    assert set(plan.traffic.dst) == {plan.nodes[2]}
    assert plan.traffic.total_bytes == 3 * MIB
    plan, _ = replayed(built, [trace(0, replace(root, op="scatter", root=None))])
    assert set(plan.traffic.src) == {plan.nodes[0]}
    assert "roots" in [note.subject for note in plan.assumptions]
    parts = coll("all-to-all", 8 * MIB, range(4), shares=(0.5, 0.25, 0.0, 0.25))
    plan, _ = replayed(built, [trace(0, parts)])
    sent = {
        (int(a), int(b)): size
        for a, b, size in zip(
            plan.traffic.src, plan.traffic.dst, plan.traffic.chunk_bytes, strict=True
        )
    }
    n = plan.nodes
    assert sent[n[0], n[1]] == sent[n[0], n[3]] == 2 * MIB
    assert (n[0], n[2]) not in sent
    assert sent[n[1], n[0]] == 2 * MIB  # rank 1 does not say: the same to everyone


def test_barriers_hold_and_send_nothing(built):
    traces = [trace(r, work(r * 1e-3), coll("barrier", 0, (0, 1), 0)) for r in range(2)]
    plan, times = replayed(built, traces)
    assert plan.traffic.n_streams == 0
    assert times.replayed_s == pytest.approx(1e-3)


def test_whole_tables_without_ranks(built):
    rows = [coll("all-reduce", MIB << k, range(8), *([k - 1] if k else [])) for k in range(3)]
    plan, times = replayed(built, [trace(ALL_RANKS, *rows, source="nccl-tests")])
    assert (plan.traced_ranks, ids(plan)) == (8, [])
    assert times.replayed_s == pytest.approx(sum(time.replayed_s for time in times.operations))


# ---------------------------------------------------------------- placement and options


def test_placement_moves_the_ranks(built):
    traces = [trace(r, coll("all-reduce", MIB, (0, 1))) for r in range(2)]
    packed, near = replayed(built, traces)
    spread, far = replayed(built, traces, placement=PlacementName.SPREAD)
    assert list(packed.nodes) != list(spread.nodes)
    assert far.replayed_s > near.replayed_s
    listed, _ = replayed(built, traces, placement=(7, 3))
    assert list(listed.nodes) == [built.fabric.gpus[7], built.fabric.gpus[3]]
    seeds = [
        list(plan_replay(traces, built.fabric, placement=PlacementName.RANDOM, seed=s).nodes)
        for s in range(6)
    ]
    assert len({tuple(nodes) for nodes in seeds}) > 1


def test_algorithm_and_queue_pairs(built):
    traces = [trace(r, coll("all-reduce", MIB, range(8))) for r in range(8)]
    ring = plan_replay(traces, built.fabric)
    tree = plan_replay(
        traces,
        built.fabric,
        algorithms={Collective.ALL_REDUCE: Algorithm.TREE},
        queue_pairs=4,
    )
    assert tree.traffic.n_streams != ring.traffic.n_streams
    assert (set(ring.traffic.queue_pairs), set(tree.traffic.queue_pairs)) == ({1}, {4})


def test_more_ranks_than_gpus_are_refused(built):
    with pytest.raises(InputError, match="of 9 ranks, and the design has 8 GPUs"):
        plan_replay([trace(0, coll("all-reduce", 8, range(9)))], built.fabric)


# ---------------------------------------------------------------- what does not match


def test_other_operations_of_other_ranks_are_left_out_from_there(built):
    a = trace(0, coll("all-reduce", 8, (0, 1)), coll("all-gather", 8, (0, 1), 0, duration_s=0.5))
    b = trace(1, coll("all-reduce", 8, (0, 1)), coll("broadcast", 8, (0, 1), 0))
    plan, times = replayed(built, [a, b])
    assert ids(plan) == ["collectives-do-not-match"]
    assert "all-gather here and broadcast there" in plan.findings[0].message
    assert len(plan.operations) == 1
    assert times.replayed_s > 0.5  # its time passes all the same


def test_what_one_trace_has_more_is_left_over(built):
    traces = [
        trace(0, *(coll("all-reduce", 8, (0, 1)) for _ in range(3)), message("send", 0, 1, 8)),
        trace(1, *(coll("all-reduce", 8, (0, 1)) for _ in range(2))),
    ]
    plan = plan_replay(traces, built.fabric)
    assert ids(plan) == ["collectives-left-over", "messages-left-over"]
    assert len(plan.operations) == 2


def test_counted_operations_match_by_count_not_by_order(built):
    def one(rank, counts):
        return trace(
            rank,
            *(coll("all-reduce", 100 * n, (0, 1), sequence=n) for n in counts),
        )

    plan = plan_replay([one(0, (5, 6, 7)), one(1, (6, 7, 8))], built.fabric)
    assert [op.size_bytes for op in plan.operations] == [600, 700]
    assert ids(plan) == ["collectives-left-over"]
    assert "2 operations" in plan.findings[0].message


def test_sizes_that_differ_are_said_and_the_largest_taken(built):
    traces = [trace(r, coll("all-reduce", 1000 * (r + 1), (0, 1))) for r in range(2)]
    plan = plan_replay(traces, built.fabric)
    assert ids(plan) == ["sizes-differ"]
    assert plan.operations[0].size_bytes == 2000


def test_groups_of_the_same_ranks_are_told_apart_though_names_differ(built):
    """Process groups count up per process: "1" and "9" here are "3" and "20" there."""
    a = [coll("all-reduce", 100, (0, 1), group="9"), coll("all-gather", 300, (0, 1), group="1")]
    b = [coll("all-gather", 300, (0, 1), group="3"), coll("all-reduce", 100, (0, 1), group="20")]
    plan = plan_replay([trace(0, *a), trace(1, *b)], built.fabric)
    assert ids(plan) == []
    assert [(op.op, op.size_bytes) for op in plan.operations] == [
        ("all-reduce", 100),
        ("all-gather", 300),
    ]


def test_orders_that_contradict_each_other_are_refused(built):
    a = trace(0, coll("all-reduce", 8, (0, 1)), coll("broadcast", 8, (0, 1, 2), 0))
    b = trace(1, coll("broadcast", 8, (0, 1, 2)), coll("all-reduce", 8, (0, 1), 0))
    with pytest.raises(InputError, match="wait for each other in a circle"):
        plan_replay([a, b], built.fabric)


def test_a_circle_of_events_is_refused(built):
    a = trace(0, work(1, 1), work(1, 0), coll("all-reduce", 8, (0, 1)))
    with pytest.raises(InputError, match="rank0: events wait for each other in a circle"):
        plan_replay([a], built.fabric)


def test_traces_of_different_runs_are_refused(built):
    a = trace(0, coll("all-reduce", 8, (0, 1)))
    b = trace(1, coll("broadcast", 8, (0, 1)))
    with pytest.raises(InputError, match="no operation of the 2 traces has all its partners"):
        plan_replay([a, b], built.fabric)


# ---------------------------------------------------------------- invariants


plans = st.lists(
    st.tuples(
        st.sampled_from(["all-reduce", "all-gather", "reduce-scatter", "all-to-all", "barrier"]),
        st.sets(st.integers(0, 7), min_size=2, max_size=8).map(sorted),
        st.integers(0, 20),  # milliseconds of compute before it
    ),
    min_size=1,
    max_size=6,
)


ends = st.lists(st.integers(0, 7), min_size=2, max_size=2, unique=True).map(tuple)
calls = st.one_of(
    st.floats(0, 1e-2).map(work),
    st.builds(
        coll,
        st.sampled_from(["all-reduce", "broadcast", "all-to-all", "gather", "barrier", "reduce"]),
        st.sampled_from([0, 1, 1000, MIB]),
        st.sampled_from([(0, 1), (1, 0), (0, 1, 2, 3), tuple(range(8)), (5,)]),
        sequence=st.integers(-1, 2),
        group=st.sampled_from(["", "0", "10", "x"]),
        root=st.sampled_from([None, 0, 1, 7]),
        duration_s=st.sampled_from([math.nan, 0.0, 1e-3]),
        start_s=st.sampled_from([math.nan, 0.0, 1.0]),
        shares=st.just(()),
    ),
    st.builds(
        lambda op, pair, tag: message(op, *pair, 1000, tag=tag),
        st.sampled_from(["send", "recv"]),
        ends,
        st.integers(0, 1),
    ),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(calls, max_size=5), min_size=1, max_size=4), st.data())
def test_any_traces_are_replayed_or_refused(found, data):
    """Whatever the traces hold, there is a traffic that runs to its end, or a sentence."""
    built = _built()
    traces = []
    for rank, events in enumerate(found):
        linked = [
            replace(
                event,
                depends_on=tuple(data.draw(st.lists(st.integers(0, len(events) - 1), max_size=2))),
            )
            for event in events
        ]
        traces.append(trace(rank, *linked))
    try:
        plan = plan_replay(traces, built.fabric)
    except InputError as error:
        assert str(error)  # noqa: PT017 - either way is right
        return
    plan.traffic.validate(built.fabric.n_nodes)
    result = simulate(built.fabric, plan.traffic, built.routing(), "flow")
    times = replay_times(plan, result.task_finish_s, result.makespan_s)
    assert result.finished
    assert all(time.replayed_s >= 0 for time in times.operations)
    events_in = {p for op in plan.operations for p in op.places}
    assert len(events_in) == sum(len(op.places) for op in plan.operations)


@cache
def _built():
    return railweave.parse(DESIGN).build()


def written(steps):
    """Return traces of a program that all ranks run in step."""
    events = {rank: [] for rank in range(8)}
    for k, (op, ranks, ms) in enumerate(steps):
        for place, rank in enumerate(ranks):
            mine = events[rank]
            mine.append(work((ms + place) * 1e-3, *([len(mine) - 1] if mine else [])))
            size = 0 if op == "barrier" else MIB
            mine.append(coll(op, size, ranks, len(mine) - 1, where=str(k)))
    return [trace(rank, *found, world=8) for rank, found in events.items()]


@settings(max_examples=25, deadline=None)
@given(plans)
def test_bytes_dependencies_and_order_hold(steps):
    built = _built()
    traces = written(steps)
    plan, times = replayed(built, traces)
    assert ids(plan) == []
    assert len(plan.operations) == len(steps)
    plan.traffic.validate(built.fabric.n_nodes)
    start = {time.start_s for time in times.operations}
    assert min(start) >= 0
    # an operation is not over before all compute before it on any of its ranks could be
    assert times.replayed_s >= times.compute_s - 1e-9


@settings(max_examples=12, deadline=None)
@given(plans)
def test_closed_loop(tmp_path_factory, steps):
    """A replay written down as profiler files and replayed again takes the same time."""
    built = _built()
    plan = plan_replay(written(steps), built.fabric)
    result = simulate(built.fabric, plan.traffic, built.routing(), "flow")
    order = np.argsort([int(op.where) for op in plan.operations])
    done = result.task_finish_s[plan.done_task][order]
    names = {"all-to-all": "all_to_all", "all-gather": "_allgather_base"}
    names |= {"all-reduce": "allreduce", "reduce-scatter": "_reduce_scatter_base"}
    folder = tmp_path_factory.mktemp("loop")
    traces = []
    for rank in range(8):
        events, at, busy = [], 1e6, False
        for (op, ranks, ms), end in zip(steps, done, strict=True):
            if rank not in ranks:
                continue
            length = (ms + ranks.index(rank)) * 1e3
            if length:
                events.append(kernel("gemm", at, length))
            called = at + length  # the rank waits in the operation for the others
            finish = 1e6 + end * 1e6
            events.append(
                collective(
                    names.get(op, op),
                    called,
                    max(finish - called, 0.0),
                    MIB // 4,
                    ranks,
                    **{"Process Group Name": "0"},
                )
            )
            at, busy = max(finish, called), True
        if busy:
            traces.append(read_kineto(kineto(folder / f"rank{rank}.json", events, rank, 8)))
    again = plan_replay(traces, built.fabric)
    second = simulate(built.fabric, again.traffic, built.routing(), "flow")
    assert second.makespan_s == pytest.approx(result.makespan_s, rel=1e-6, abs=2e-6)
    assert again.traffic.total_bytes == pytest.approx(plan.traffic.total_bytes)
    assert math.isfinite(again.span_s)
    assert np.isfinite(second.task_finish_s).all()
