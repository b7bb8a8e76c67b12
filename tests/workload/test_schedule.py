"""Schedules of collectives: the messages of the engines' traffic, and every promise kept."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from dataflow import topological
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.design.models import ALGORITHMS, Algorithm, Collective
from railweave.errors import InputError
from railweave.workload import (
    CollectiveOptions,
    Communicator,
    Traffic,
    collective_traffic,
    collective_volume,
)
from railweave.workload.schedule import Schedule, Transfer, collective_schedule

PAIRS = [(op, algorithm) for op, choices in ALGORITHMS.items() for algorithm in choices]
BY_SERVER = (Algorithm.HIERARCHICAL, Algorithm.RAIL_ALIGNED)
SIZE = 5040 * 1024
AR = Collective.ALL_REDUCE


def servers_of(algorithm: Algorithm, n: int) -> list[int]:
    return [g for g in range(1, n + 1) if n % g == 0] if algorithm in BY_SERVER else [1]


def rounds_of(traffic: Traffic) -> list[Counter[tuple[int, int, float]]]:
    """Return the messages of each round of the expanded traffic: one round for every message."""
    plain = traffic.expand()
    end: dict[int, int] = {}
    found: dict[int, Counter[tuple[int, int, float]]] = {}
    for task in topological(plain):
        deps = plain.dep_task[plain.dep_ptr[task] : plain.dep_ptr[task + 1]].tolist()
        streams = range(*plain.task_stream[task : task + 2].tolist())
        before = max((end[d] for d in deps), default=-1)
        end[task] = before + 1 if streams else before
        for stream in streams:
            ends = int(plain.src[stream]), int(plain.dst[stream])
            size = round(float(plain.chunk_bytes[stream]), 6)
            found.setdefault(end[task], Counter())[*ends, size] += 1
    return [found[k] for k in sorted(found)]


@pytest.mark.parametrize("ranks", range(2, 10))
@pytest.mark.parametrize(("op", "algorithm"), PAIRS)
def test_rounds_are_those_of_the_traffic(op, algorithm, ranks):
    for per_server in servers_of(algorithm, ranks):
        comm = Communicator.flat(ranks)
        if algorithm in BY_SERVER:
            comm = Communicator.grid(ranks // per_server, per_server)
        options = CollectiveOptions(chunk_bytes=1, max_chunks=3)
        traffic = collective_traffic(op, comm, SIZE, algorithm=algorithm, options=options)
        schedule = collective_schedule(
            op, algorithm, ranks, SIZE, ranks_per_server=per_server, pipeline_chunks=3
        )
        drawn = [
            Counter((t.src, t.dst, round(t.size_bytes, 6)) for t in transfers)
            for transfers in schedule.rounds
        ]
        assert drawn == rounds_of(traffic)
        assert set(schedule.edges) == set(
            zip(traffic.src.tolist(), traffic.dst.tolist(), strict=True)
        )


@given(
    pair=st.sampled_from(PAIRS),
    ranks=st.integers(2, 24),
    channels=st.integers(1, 3),
    pieces=st.integers(2, 6),
    data=st.data(),
)
@settings(max_examples=120, deadline=None)
def test_every_rank_ends_with_what_is_promised(pair, ranks, channels, pieces, data):
    op, algorithm = pair
    per_server = data.draw(st.sampled_from(servers_of(algorithm, ranks)))
    root = data.draw(st.integers(0, ranks - 1))
    schedule = collective_schedule(
        op,
        algorithm,
        ranks,
        SIZE,
        channels,
        ranks_per_server=per_server,
        pipeline_chunks=pieces,
        root=root,
    )
    assert schedule.complete
    for number, transfers in enumerate(schedule.rounds):
        for transfer in transfers:
            assert transfer.round == number
            carried = schedule.chunk_bytes[list(transfer.chunks)].sum()
            assert carried == pytest.approx(transfer.size_bytes)


@pytest.mark.parametrize(("op", "algorithm"), PAIRS)
@pytest.mark.parametrize("ranks", [4, 8])
def test_bytes_are_those_of_the_closed_form(op, algorithm, ranks):
    schedule = collective_schedule(op, algorithm, ranks, SIZE, ranks_per_server=2)
    volume = collective_volume(op, algorithm, ranks, SIZE, ranks_per_server=2)
    assert schedule.sent_bytes.max() == pytest.approx(volume.bytes_sent_per_rank)
    assert schedule.sent_bytes.sum() == pytest.approx(volume.total_bytes)
    assert schedule.received_bytes.sum() == pytest.approx(volume.total_bytes)


def test_ring_over_four_ranks():
    schedule = collective_schedule(AR, None, 4, 256_000_000)
    assert (schedule.algorithm, schedule.shape) == (Algorithm.RING, "ring")
    assert len(schedule.rounds) == 6
    assert schedule.sent_bytes.tolist() == [384e6] * 4
    assert [t.action for r in schedule.rounds for t in r] == ["reduce"] * 12 + ["copy"] * 12
    assert schedule.edges == ((0, 1), (1, 2), (2, 3), (3, 0))
    # rank 0 first sends the piece of rank 3, whose sum then ends there
    assert schedule.rounds[0][0].chunks == (3,)
    assert schedule.contributors(1, 1, 3) == (0, 1)
    assert schedule.contributors(3, 3, 3) == (0, 1, 2, 3)
    assert schedule.contributors(0, 2, 1) == (2,)


def test_tree_has_the_parents_of_its_streams():
    schedule = collective_schedule(AR, Algorithm.TREE, 6, 1e6)
    assert len(schedule.parents) == 2
    for parent in schedule.parents:
        assert sorted(p == -1 for p in parent) == [False] * 5 + [True]
        for rank, above in enumerate(parent):
            assert above == -1 or {(rank, above), (above, rank)} <= set(schedule.edges)
    down = collective_schedule(Collective.BROADCAST, Algorithm.TREE, 6, 1e6, root=2)
    assert down.parents[0][2] == -1
    assert collective_schedule(AR, None, 6, 1e6).parents == ()


def test_a_tree_takes_fewer_rounds_than_a_ring():
    ring = collective_schedule(AR, Algorithm.RING, 64, 1e6)
    tree = collective_schedule(AR, Algorithm.TREE, 64, 1e6, pipeline_chunks=2)
    assert len(ring.rounds) == 126
    assert len(tree.rounds) < 20


# ---------------------------------------------------------------- faults are noticed


def changed(schedule: Schedule, change) -> Schedule:
    return replace(
        schedule, rounds=tuple(tuple(t for s in r for t in change(s)) for r in schedule.rounds)
    )


@pytest.mark.parametrize(("op", "algorithm"), PAIRS)
def test_a_lost_message_is_noticed(op, algorithm):
    schedule = collective_schedule(op, algorithm, 6, SIZE, ranks_per_server=2)
    lost = schedule.rounds[0][0]
    assert not changed(schedule, lambda t: () if t is lost else (t,)).complete


def test_adding_twice_is_noticed():
    schedule = collective_schedule(AR, Algorithm.RING, 4, SIZE)
    twice = schedule.rounds[1][0]
    assert not changed(schedule, lambda t: (t, t) if t is twice else (t,)).complete


def test_a_wrong_piece_is_noticed():
    schedule = collective_schedule(AR, Algorithm.RING, 4, SIZE)
    last: Transfer = schedule.rounds[-1][0]
    wrong = replace(last, chunks=((last.chunks[0] + 1) % 4,))
    assert not changed(schedule, lambda t: (wrong,) if t is last else (t,)).complete


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("arguments", "options", "text"),
    [
        ((AR, None, 1, 1e6), {}, r"ranks: 1 is not allowed; .*give 2 to 64"),
        ((AR, None, 65, 1e6), {}, "give 2 to 64"),
        ((AR, None, 64, 1e6, 5), {}, "channels: 5 is not allowed; with 64 ranks give 1 to 4"),
        ((AR, None, 4, 0), {}, "size: 0 B is not allowed"),
        ((AR, Algorithm.DIRECT, 4, 1e6), {}, "direct cannot do all-reduce"),
        ((AR, Algorithm.HIERARCHICAL, 6, 1e6), {"ranks_per_server": 4}, "4 does not divide the 6"),
        ((AR, Algorithm.TREE, 4, 1e6), {"pipeline_chunks": 1}, "pieces of a pipeline: 1"),
        ((Collective.BROADCAST, None, 4, 1e6), {"root": 4}, "root: 4 is no rank"),
    ],
)
def test_bad_input_is_refused_with_a_sentence(arguments, options, text):
    with pytest.raises(InputError, match=text):
        collective_schedule(*arguments, **options)


def test_notes_say_what_is_drawn():
    plain = collective_schedule(AR, Algorithm.HIERARCHICAL, 4, SIZE)
    assert any("only its part between servers" in note for note in plain.notes)
    tree = collective_schedule(AR, Algorithm.TREE, 4, SIZE)
    assert any("512 KiB" in note for note in tree.notes)
