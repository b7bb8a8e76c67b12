"""The optimized placement: valid, never worse, as good as trying all, the same each time."""

import itertools
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import railweave
from minifabric import clos
from railweave.design.models import Collective, Job, PlacementName
from railweave.errors import InputError
from railweave.workload import (
    Communicator,
    TrafficBuilder,
    byte_shares,
    collective_traffic,
    leaf_groups,
    optimized_placement,
    place,
    place_jobs,
)
from railweave.workload._placement_search import Problem, _State, search

RACKS = clos(servers=12, gpus=2, spines=2, leaves=4)[0]  # 3 servers a leaf
RAILS = clos(servers=6, gpus=4, spines=2)[0]


def crossing(fabric, traffic):
    shares = byte_shares(fabric, traffic.src, traffic.dst, traffic.stream_bytes, rail_aware=False)
    return shares.spine_bytes + shares.core_bytes


def between(pairs):
    """Return traffic between ranks: (rank, rank, bytes) each."""

    def sends(nodes):
        builder = TrafficBuilder()
        src, dst, size = (np.array(part) for part in zip(*pairs, strict=True))
        builder.plain(nodes[src], nodes[dst], size.astype(float), label="pairs")
        return builder.build()

    return sends


def collective(fabric, op):
    return lambda nodes: collective_traffic(op, Communicator.from_fabric(fabric, nodes), 1 << 20)


def busy(fabric, servers):
    return fabric.gpus[np.isin(fabric.node_server[fabric.gpus], list(servers))]


@st.composite
def cases(draw):
    fabric = draw(st.sampled_from([RACKS, RAILS]))
    taken = draw(st.lists(st.integers(0, len(fabric.gpus) - 1), unique=True, max_size=12))
    ranks = draw(st.integers(2, len(fabric.gpus) - len(taken)))
    kind = draw(st.sampled_from([*Collective, "pairs"]))
    if kind == "pairs":
        one = st.integers(0, ranks - 1)
        pairs = draw(
            st.lists(st.tuples(one, one, st.integers(1, 9)), min_size=1, max_size=40).map(
                lambda found: [pair for pair in found if pair[0] != pair[1]] or [(0, 1, 1)]
            )
        )
        return fabric, ranks, fabric.gpus[taken], between(pairs)
    return fabric, ranks, fabric.gpus[taken], collective(fabric, kind)


@given(cases())
@settings(max_examples=150, deadline=None)
def test_valid_never_worse_and_the_same_each_time(case):
    fabric, ranks, taken, sends = case
    found = optimized_placement(fabric, ranks, sends, taken=taken)
    assert len(set(found.nodes.tolist())) == ranks
    assert np.isin(found.nodes, fabric.gpus).all()
    assert not np.isin(found.nodes, taken).any()
    best = min(
        crossing(fabric, sends(place(fabric, ranks, rule, taken=taken)))
        for rule in (PlacementName.PACKED, PlacementName.RAIL_ALIGNED)
    )
    mine = crossing(fabric, sends(found.nodes))
    assert found.crossing_bytes == pytest.approx(mine)
    assert mine <= best * (1 + 1e-12)
    assert found.saved_bytes == pytest.approx(best - mine, abs=1e-3)
    again = optimized_placement(fabric, ranks, sends, taken=taken)
    assert again.nodes.tolist() == found.nodes.tolist()


def test_a_fragmented_cluster_keeps_each_ring_under_a_leaf():
    # Free: 2, 3, 3, 2 servers a leaf. Two rings over three servers each fit under two leaves;
    # packed puts the first over leaves 0 and 1.
    taken = busy(RACKS, (0, 9))
    pairs = [(2 * a, 2 * b, 100) for s in (0, 3) for a, b in ((s, s + 1), (s + 1, s + 2))]
    found = optimized_placement(RACKS, 12, between(pairs), taken=taken)
    assert found.crossing_bytes == 0
    leaf = RACKS.node_server[found.nodes] // 3
    assert len(set(leaf[:6].tolist())) == len(set(leaf[6:].tolist())) == 1
    packed = found.others[PlacementName.PACKED]
    assert packed.spine_bytes == found.saved_bytes > 0
    assert "0 B of an iteration cross a spine, against 200 B packed" in found.describe()
    assert "100.0% less" in found.describe()


@pytest.mark.parametrize("seed", range(12))
def test_as_good_as_trying_every_placement(seed):
    rng = np.random.default_rng(seed)
    fabric = clos(servers=6, gpus=1, spines=2, leaves=3)[0]  # 2 servers a leaf
    pairs = [
        (a, b, int(rng.integers(1, 100)))
        for a, b in itertools.combinations(range(5), 2)
        if rng.random() < 0.6
    ] or [(0, 4, 1)]
    sends = between(pairs)
    least = min(
        crossing(fabric, sends(fabric.gpus[list(order)]))
        for order in itertools.permutations(range(6), 5)
    )
    assert optimized_placement(fabric, 5, sends).crossing_bytes == least


def problems():
    """Draw problems of 2 to 10 blocks on 2 to 4 cells."""

    @st.composite
    def one(draw):
        blocks, cells = draw(st.integers(2, 10)), draw(st.integers(2, 4))
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

        def symmetric(n, part):
            table = np.triu(rng.integers(0, 9, (n, n)) * (rng.random((n, n)) < part), 1)
            return (table + table.T).astype(float)

        kind = rng.integers(0, 2, blocks)
        base = rng.integers(0, cells, blocks)
        room = rng.integers(0, 2, (cells, 2))
        np.add.at(room, (base, kind), 1)
        near = symmetric(cells, 1.0)
        return Problem(
            symmetric(blocks, 0.5), symmetric(blocks, 0.3), near, near + 1.0, room, kind, base
        )

    return one()


def plain_cost(problem, cell):
    """Sum over pairs of blocks, one by one."""
    pairs = itertools.combinations(range(len(cell)), 2)
    return sum(
        problem.near[i, j] * problem.near_cost[cell[i], cell[j]]
        + problem.far[i, j] * problem.far_cost[cell[i], cell[j]]
        for i, j in pairs
    )


@given(problems())
@settings(max_examples=150, deadline=None)
def test_the_search_keeps_to_the_room_and_never_loses(problem):
    found = search(problem)
    used = np.zeros_like(problem.room)
    np.add.at(used, (found, problem.kind), 1)
    assert (used <= problem.room).all()
    assert problem.cost(found) == pytest.approx(plain_cost(problem, found))
    assert problem.cost(found) <= problem.cost(problem.base) + 1e-9


@given(problems())
@settings(max_examples=100, deadline=None)
def test_a_step_gains_what_it_says_and_is_the_best(problem):
    state = _State(problem, problem.base)
    blocks = np.arange(len(problem.base))
    before = problem.cost(problem.base)

    def after(*moves):
        cell = problem.base.copy()
        for block, to in moves:
            cell[block] = to
        return before - problem.cost(cell)

    cell, kind = problem.base, problem.kind
    swaps = [
        after((i, cell[j]), (j, cell[i]))
        for i, j in itertools.combinations(blocks.tolist(), 2)
        if cell[i] != cell[j] and kind[i] == kind[j]
    ]
    gain, one, two = state.best_swap(blocks)
    assert gain == pytest.approx(max(swaps, default=-np.inf), abs=1e-9)
    if swaps:
        assert gain == pytest.approx(after((one, cell[two]), (two, cell[one])), abs=1e-9)
    gain, mover, to = state.best_move(blocks)
    if gain > -np.inf:
        assert gain == pytest.approx(after((mover, to)), abs=1e-9)
        state.move(mover, to)
        assert state.cost == pytest.approx(problem.block_costs(state.cell))


TWO_UNITS = """\
railweave: 1
name: two-units
cluster:
  servers: {count: 6, inline: {gpus: 2, nics: 2, nic_speed: 100 Gb/s, scale_up_bandwidth: 1 Tb/s}}
planes:
  backend: {transport: rocev2, topology: rail-optimized, switch: {radix: 6, speed: 100 Gb/s}}
"""


def test_only_bytes_of_one_rail_gain_by_the_same_leaves():
    # Even ranks are on rail 0, odd ones on rail 1. What crosses rails crosses a spine wherever it
    # goes: server 0 belongs with 3 and 4, not with 5. Rail-aligned would part ranks 2 and 3.
    fabric = railweave.parse(TWO_UNITS).build().fabric
    assert leaf_groups(fabric).of_server.tolist() == [0, 0, 0, 1, 1, 1]
    pairs = [(0, 6, 10), (0, 8, 10), (0, 11, 100), (2, 3, 1000)]
    found = optimized_placement(fabric, 12, between(pairs))
    assert found.others[PlacementName.PACKED].spine_bytes == 120
    assert found.others[PlacementName.RAIL_ALIGNED].spine_bytes > 1000
    assert found.crossing_bytes == 100


def test_what_the_search_found_counts_only_if_the_traffic_agrees():
    # The job sends elsewhere once it is placed elsewhere: what looked better is worse.
    packed = place(RACKS, 12).tolist()
    near, far = [(0, 11, 5), (0, 1, 1)], [(0, 11, 9), (1, 10, 9), (2, 9, 9), (3, 8, 9)]

    def sends(nodes):
        return between(near if nodes.tolist() == packed else far)(nodes)

    found = optimized_placement(RACKS, 12, sends)
    assert found.nodes.tolist() == packed
    assert found.saved_bytes == 0
    assert "less" not in found.describe()


def test_the_search_finds_the_best_exchange():
    # Four blocks in two cells; 0–3 and 1–2 belong together.
    near = np.zeros((4, 4))
    near[0, 3] = near[3, 0] = near[1, 2] = near[2, 1] = 5.0
    cost = np.array([[0.0, 1.0], [1.0, 0.0]])
    room = np.array([[2], [2]])
    base = np.array([0, 0, 1, 1])
    found = search(Problem(near, 0 * near, cost, cost, room, np.zeros(4, dtype=np.int64), base))
    assert found[0] == found[3] != found[1] == found[2]


def test_1024_ranks_are_placed_soon():
    fabric = clos(servers=160, gpus=8, spines=4, leaves=10)[0]
    taken = busy(fabric, range(1, 160, 5))
    start = time.process_time()
    found = optimized_placement(
        fabric, 1024, collective(fabric, Collective.ALL_REDUCE), taken=taken
    )
    assert time.process_time() - start < 30  # about 0.3 s; more means another order of growth
    assert len(found.nodes) == 1024


def test_place_jobs_says_what_it_saves():
    job = Job(name="a", collective="all-reduce", size="1 MB", ranks=12, placement="optimized")
    sends = between([(0, 11, 7), (0, 1, 3)])
    placed, notes = place_jobs((job,), RACKS, 0, lambda _, nodes: sends(nodes))
    assert len(placed[0]) == 12
    assert [note.subject for note in notes] == ["job a, placement"]
    assert "0 B of an iteration cross a spine, against 7 B packed" in notes[0].statement
    with pytest.raises(InputError, match="optimized needs to know"):
        place_jobs((job,), RACKS, 0)
