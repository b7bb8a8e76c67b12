"""What is read off a rank's timeline: who waited for whom."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railweave.formats._trace_timeline import TimedOperation, events_of_timeline
from railweave.formats.execution_trace import EventKind, TraceEvent, Waits, operation_of


def op(start, end, stream=1):
    event = TraceEvent(
        0, EventKind.COLLECTIVE, "all-reduce", 8.0, (0, 1), duration_s=end - start, start_s=start
    )
    return TimedOperation(event, stream)


def events(ops, busy=(), waits=Waits.SEEN):
    starts, ends = np.array([a for a, _ in busy]), np.array([b for _, b in busy])
    return events_of_timeline(0, ops, starts.astype(float), ends.astype(float), waits)


def seen(found):
    """Return (kind, start, end, dependencies) of each event."""
    return [(e.kind.value[:4], e.start_s, e.start_s + e.duration_s, e.depends_on) for e in found]


def test_compute_operation_compute_one_after_the_other():
    found = seen(events([op(10, 20)], [(0, 10), (20, 30)]))
    assert found == [
        ("comp", 0, 10, ()),
        ("coll", 10, 20, (0,)),
        ("comp", 20, 30, (0, 1)),
    ]


def test_many_kernels_are_one_event_with_their_pauses():
    busy = [(k, k + 0.5) for k in range(10)]
    found = seen(events([op(9.5, 12)], busy))
    assert found == [("comp", 0, 9.5, ()), ("coll", 9.5, 12, (0,))]


def test_compute_that_ran_on_did_not_wait():
    found = seen(events([op(10, 20)], [(0, 30)]))
    assert found == [("comp", 0, 10, ()), ("coll", 10, 20, (0,)), ("comp", 10, 30, (0,))]


def test_a_wait_starts_when_the_operation_ended_and_holds_the_host_s_pause():
    found = seen(events([op(10, 20)], [(0, 12), (21, 30)]))
    assert found == [
        ("comp", 0, 10, ()),
        ("coll", 10, 20, (0,)),
        ("comp", 10, 12, (0,)),
        ("comp", 20, 30, (2, 1)),
    ]


def test_all_waits_count_from_the_next_kernel_on_what_ended_while_compute_ran():
    ops, busy = [op(10, 20)], [(0, 30), (31, 40)]
    assert [e.depends_on for e in events(ops, busy)] == [(), (0,), (0,)]
    found = seen(events(ops, busy, Waits.ALL))
    assert found[2:] == [("comp", 10, 30, (0,)), ("comp", 30, 40, (2, 1))]


def test_an_operation_queued_behind_another_waits_for_it_alone():
    found = seen(events([op(10, 20), op(20.000_01, 40)], [(0, 30)]))
    assert found[:3] == [("comp", 0, 10, ()), ("coll", 10, 20, (0,)), ("coll", 20.00001, 40, (1,))]
    assert found[3] == ("comp", 10, 30, (0,))


def test_an_operation_after_a_pause_waits_for_compute_and_its_stream():
    found = seen(events([op(10, 20), op(25, 40)], [(0, 30)]))
    assert [f[3] for f in found] == [(), (0,), (0,), (2, 1), (2,)]


def test_operations_of_two_streams_run_side_by_side():
    found = seen(events([op(10, 30), op(10, 20, stream=2)], [(0, 10), (30, 31)]))
    assert found == [
        ("comp", 0, 10, ()),
        ("coll", 10, 30, (0,)),
        ("coll", 10, 20, (0,)),
        ("comp", 30, 31, (0, 2, 1)),
    ]


def test_without_compute_the_host_goes_from_one_to_the_next():
    found = seen(events([op(0, 10), op(15, 20)]))
    assert found == [("coll", 0, 10, ()), ("comp", 10, 15, (0,)), ("coll", 15, 20, (1, 0))]


interval = st.tuples(st.integers(0, 200), st.integers(1, 30)).map(lambda p: (p[0], p[0] + p[1]))


@given(
    st.lists(interval, max_size=12),
    st.lists(interval, min_size=1, max_size=8),
    st.sampled_from(Waits),
    st.data(),
)
def test_replayed_with_its_own_times_the_timeline_comes_out_again(busy, spans, waits, data):
    """What depends on what is consistent: nothing starts before what it waits for has ended."""
    streams: dict[int, float] = {}
    ops = []
    for start, end in sorted(spans):
        stream = data.draw(st.integers(1, 3))
        if start >= streams.get(stream, -1):  # a stream runs one at a time
            streams[stream] = end
            ops.append(op(float(start), float(end), stream))
    found = events(ops, busy, waits)
    assert sum(e.kind is EventKind.COLLECTIVE for e in found) == len(ops)
    for i, event in enumerate(found):
        assert all(wait < i for wait in event.depends_on)
        ends = [found[wait].end_s for wait in event.depends_on]
        assert max(ends, default=-math.inf) <= event.start_s + 1e-9
    main = [e for e in found if e.kind is EventKind.COMPUTE]
    assert all(a.end_s <= b.start_s + 1e-9 for a, b in pairwise(main))


@pytest.mark.parametrize(
    ("name", "op_"),
    [
        ("AllReduce", "all-reduce"),
        ("allreduce_coalesced", "all-reduce"),
        ("_allgather_base", "all-gather"),
        ("all_gather_into_tensor_coalesced", "all-gather"),
        ("_reduce_scatter_base", "reduce-scatter"),
        ("reduce_scatter_tensor_coalesced", "reduce-scatter"),
        ("nccl:all_to_allv", "all-to-all"),
        ("_broadcast_oop", "broadcast"),
        ("Send", "send"),
        ("irecv", "recv"),
        ("wait", None),
        ("", None),
    ],
)
def test_names_of_libraries(name, op_):
    assert operation_of(name) == op_
