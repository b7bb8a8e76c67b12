import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.design.models import ALGORITHMS, Algorithm, Collective
from railweave.errors import EngineError
from railweave.workload import (
    DELIVERED,
    SENT,
    CollectiveOptions,
    Communicator,
    TrafficBuilder,
    collective_traffic,
    merge_traffic,
)

PAIRS = [(op, algorithm) for op, choices in ALGORITHMS.items() for algorithm in choices]


def dependencies(traffic, task):
    part = slice(*traffic.dep_ptr[task : task + 2])
    kinds = traffic.dep_kind[part].tolist()
    return dict(zip(traffic.dep_task[part].tolist(), kinds, strict=True))


def two_streams(lag=1, rounds=3):
    builder = TrafficBuilder()
    before = builder.plain([0], [1], [10.0], label="before")
    coupled = builder.coupled(
        [0, 1],
        [1, 0],
        [4.0, 6.0],
        rounds,
        ([0, 1], [1, 0], [lag, lag]),
        label="ring",
        after=[before],
        chunk_delay_s=[0.5, 0.0],
        start_s=2.0,
        delay_s=0.25,
    )
    builder.plain([1], [2], [5.0], label="after", after=[coupled], after_sent=[before])
    return builder.build()


def test_expand_writes_out_every_chunk_with_its_waits():
    plain = two_streams().expand()
    assert plain.n_tasks == 1 + 2 * 3 + 1
    assert plain.chunk_bytes.tolist() == [10, 4, 4, 4, 6, 6, 6, 5]
    # tasks 1…3 are chunks of the first stream, 4…6 of the second
    assert dependencies(plain, 1) == {0: DELIVERED}
    assert dependencies(plain, 2) == {1: SENT, 4: DELIVERED}
    assert dependencies(plain, 6) == {5: SENT, 2: DELIVERED}
    assert dependencies(plain, 7) == {3: DELIVERED, 6: DELIVERED, 0: SENT}
    assert plain.task_delay_s.tolist() == [0, 0.75, 0.5, 0.5, 0.25, 0, 0, 0]
    assert plain.task_start_s.tolist() == [0, 2, 0, 0, 2, 0, 0, 0]
    assert plain.chunk_delay_s.sum() == 0
    assert [plain.labels[i] for i in plain.task_label[[0, 1, 7]]] == ["before", "ring", "after"]


@pytest.mark.parametrize(("op", "algorithm"), PAIRS)
def test_expand_conserves_bytes(op, algorithm):
    traffic = collective_traffic(op, Communicator.grid(3, 4), 1e6, algorithm=algorithm)
    plain = traffic.expand()
    assert plain.total_bytes == pytest.approx(traffic.total_bytes, rel=1e-12)
    n = 12
    for end in ("src", "dst"):
        before = np.bincount(getattr(traffic, end), traffic.stream_bytes, minlength=n)
        after = np.bincount(getattr(plain, end), plain.stream_bytes, minlength=n)
        assert after == pytest.approx(before, rel=1e-12)


@given(st.integers(1, 5), st.integers(2, 5), st.integers(0, 6))
@settings(max_examples=40, deadline=None)
def test_lags_beyond_the_rounds_wait_for_nothing(streams, rounds, lag):
    builder = TrafficBuilder()
    builder.coupled(
        np.arange(streams),
        np.arange(streams) + 1,
        1.0,
        rounds,
        (np.arange(1, streams), np.arange(streams - 1), np.full(streams - 1, lag)),
        label="chain",
    )
    plain = builder.build().expand()
    waits = (streams - 1) * max(0, rounds - lag)
    assert (plain.dep_kind == DELIVERED).sum() == waits
    assert (plain.dep_kind == SENT).sum() == streams * (rounds - 1)


def test_planes_and_connections_reach_the_expanded_form():
    builder = TrafficBuilder(plane=1)
    builder.coupled([0], [1], 1.0, 2, ([], [], []), label="x", connection=7)
    plain = builder.build().expand()
    assert plain.stream_plane.tolist() == [1, 1]
    assert plain.stream_connection.tolist() == [7, 7]


def test_merge_keeps_structure_and_shifts_numbers():
    one = two_streams()
    builder = TrafficBuilder()
    builder.merge(one)
    offset = builder.merge(one, start_s=10.0, prefix="second/")
    both = builder.build()
    assert offset == one.n_tasks
    assert both.total_bytes == 2 * one.total_bytes
    assert both.labels == (
        "before",
        "ring",
        "after",
        "second/before",
        "second/ring",
        "second/after",
    )
    assert both.pred_stream.tolist() == [2, 1, 6, 5]
    assert dependencies(both, 5) == {4: DELIVERED, 3: SENT}
    assert (both.task_start_s[3:] - both.task_start_s[:3]).tolist() == [10, 10, 10]
    assert merge_traffic([one, one]).n_streams == 8


def test_a_barrier_has_no_streams():
    builder = TrafficBuilder()
    first = [builder.plain([0], [1], [1.0], label="a") for _ in range(3)]
    barrier = builder.barrier(first, label="wait", delay_s=1.0)
    traffic = builder.build()
    assert np.diff(traffic.task_stream).tolist() == [1, 1, 1, 0]
    assert dependencies(traffic.expand(), barrier) == dict.fromkeys(first, DELIVERED)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"dep_task": np.array([2, 0, 1], dtype=np.int32)}, "waits for itself"),
        ({"dep_task": np.array([9, 0, 1], dtype=np.int32)}, "unknown task"),
        ({"pred_lag": np.array([0, 0], dtype=np.int32)}, "lag 0"),
        ({"pred_stream": np.array([0, 1], dtype=np.int32)}, "another task"),
        ({"dst": np.array([0, 1, 0, 2], dtype=np.int32)}, "same node"),
        ({"chunk_bytes": np.array([1, -1, 1, 1.0])}, "stream 1: size"),
        ({"task_rounds": np.array([1, 0, 1], dtype=np.int32)}, "rounds"),
        ({"task_label": np.array([0, 9, 1], dtype=np.int32)}, "label"),
        ({"queue_pairs": np.array([0, 1, 1, 1], dtype=np.int32)}, "queue pair"),
        ({"task_stream": np.array([0, 3, 1, 4])}, "task_stream"),
        ({"stream_plane": np.zeros(1, dtype=np.int8)}, "stream_plane"),
    ],
)
def test_validate_names_what_is_wrong(change, text):
    with pytest.raises(EngineError, match=text):
        replace(two_streams(), **change).validate()


def test_validate_checks_endpoints():
    two_streams().validate(3)
    with pytest.raises(EngineError, match=r"endpoint is not in 0…1"):
        two_streams().validate(2)


def test_one_round_cannot_have_predecessors_in_the_same_round():
    with pytest.raises(EngineError, match="at least two rounds"):
        two_streams(lag=0, rounds=1)
    assert two_streams(lag=1, rounds=1).pred_stream.size == 0


def test_widths_must_add_up():
    with pytest.raises(EngineError, match="widths sum to 3, not 2"):
        TrafficBuilder().plain_tasks([0, 1], [1, 0], 1.0, label="x", widths=[3])


def test_large_collectives_are_arrays_not_messages():
    """Half a billion messages of a ring stay one stream a hop; ceilings only catch hangs."""
    begun = time.perf_counter()
    ring = collective_traffic(Collective.ALL_REDUCE, Communicator.grid(2048, 8), 2**30)
    assert ring.n_streams <= 8 * 2 * 16_384
    assert int(ring.task_rounds.max()) == 2 * 16_383
    pairs = collective_traffic(Collective.ALL_TO_ALL, Communicator.flat(1024), 2**30)
    assert pairs.n_streams == 1_047_552
    assert time.perf_counter() - begun < 30.0


def test_pipelining_cuts_as_asked():
    options = CollectiveOptions(chunk_bytes=1000, max_chunks=8)
    comm = Communicator.flat(3)

    def rounds(size):
        traffic = collective_traffic(
            Collective.BROADCAST, comm, size, algorithm=Algorithm.RING, options=options
        )
        return int(traffic.task_rounds[0]), float(traffic.chunk_bytes[0])

    assert rounds(4000) == (4, 1000.0)
    assert rounds(80_000) == (8, 10_000.0)
    assert rounds(10) == (2, 5.0)
