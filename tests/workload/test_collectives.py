from fractions import Fraction

import numpy as np
import pytest
from dataflow import knowledge
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.design.models import ALGORITHMS, Algorithm, Collective
from railweave.errors import InputError
from railweave.workload import (
    CollectiveOptions,
    Communicator,
    bus_factor,
    collective_traffic,
    collective_volume,
)
from railweave.workload._halving import halving_rounds
from railweave.workload._ring import visit
from railweave.workload._tree import binary_tree, depth_of, second_tree

AR, AG, RS = Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.REDUCE_SCATTER
PAIRS = [(op, algorithm) for op, choices in ALGORITHMS.items() for algorithm in choices]
SIZE = 2 * 2 * 2 * 2 * 3 * 5 * 7 * 1024 * 1024


def holds_enough(op: Collective, held: list[set[int]], root: int) -> bool:
    n = len(held)
    everything = set(range(n))
    if op is Collective.BROADCAST:
        return all(root in known for known in held)
    if op is Collective.REDUCE:
        return held[root] == everything
    if op is Collective.SEND_RECV:
        return all((rank - 1) % n in known for rank, known in enumerate(held))
    return all(known == everything for known in held)


@pytest.mark.parametrize(("op", "algorithm"), PAIRS)
@pytest.mark.parametrize(
    ("servers", "gpus"), [(2, 1), (3, 1), (7, 1), (8, 1), (1, 4), (3, 4), (4, 2)]
)
def test_every_rank_gets_every_contribution(op, algorithm, servers, gpus):
    comm = Communicator.grid(servers, gpus)
    root = comm.n - 1 if op in (Collective.BROADCAST, Collective.REDUCE) else 0
    options = CollectiveOptions(root=root, max_chunks=3)
    traffic = collective_traffic(op, comm, SIZE, algorithm=algorithm, options=options)
    assert holds_enough(op, knowledge(traffic, comm.n), root)


@pytest.mark.parametrize(
    ("op", "algorithm"), [pair for pair in PAIRS if pair[1] in (Algorithm.RING, Algorithm.TREE)]
)
@pytest.mark.parametrize("channel", range(4))
@pytest.mark.parametrize("root", [0, 5])
def test_every_channel_by_itself_does_the_whole_work(op, algorithm, channel, root):
    rooted = op in (Collective.BROADCAST, Collective.REDUCE)
    nodes = np.arange(12, dtype=np.int32)
    comm = Communicator(nodes, nodes // 4, (nodes - channel) % 4, channels=1)
    options = CollectiveOptions(root=root if rooted else 0, max_chunks=3)
    traffic = collective_traffic(op, comm, SIZE, algorithm=algorithm, options=options)
    assert holds_enough(op, knowledge(traffic, 12), options.root)
    if rooted:  # between servers the channel keeps to its rail
        away = traffic.src // 4 != traffic.dst // 4
        assert set(traffic.src[away] % 4) == set(traffic.dst[away] % 4) == {channel}


def test_a_missing_dependency_is_noticed():
    comm = Communicator.flat(4)
    traffic = collective_traffic(AR, comm, SIZE)
    object.__setattr__(traffic, "pred_lag", np.full(4, 5, dtype=np.int32))
    assert not holds_enough(AR, knowledge(traffic, 4), 0)


@pytest.mark.parametrize(("op", "algorithm"), PAIRS)
def test_bytes_equal_the_closed_form_from_2_to_64_ranks(op, algorithm):
    for n in range(2, 65):
        for per_server in (1, 2, 4, 8):
            if n % per_server:
                continue
            comm = Communicator.grid(n // per_server, per_server, channels=1)
            object.__setattr__(comm, "forwards", False)
            traffic = collective_traffic(op, comm, SIZE, algorithm=algorithm)
            volume = collective_volume(op, algorithm, n, SIZE, ranks_per_server=per_server)
            assert traffic.total_bytes == pytest.approx(volume.total_bytes, rel=1e-12)
            if per_server == 1:
                sent = np.bincount(traffic.src, traffic.stream_bytes, minlength=n)
                assert sent.max() == pytest.approx(volume.bytes_sent_per_rank, rel=1e-12)


def full_pieces(traffic, n, rounds):
    """Let a ring run: in round k the stream from rank i carries piece i − k; count full pieces."""
    held = np.eye(n, dtype=bool)[:, None, :].repeat(n, axis=1)  # rank, piece, whose part
    for k in range(rounds):
        before = held.copy()
        for src, dst in zip(traffic.src, traffic.dst, strict=True):
            held[dst, (src - k) % n] |= before[src, (src - k) % n]
    return int(held.all(axis=2).sum())


@pytest.mark.parametrize("n", [2, 3, 5, 8, 13])
def test_a_ring_needs_exactly_its_rounds_piece_by_piece(n):
    reduce = collective_traffic(AR, Communicator.flat(n), SIZE)
    rounds = int(reduce.task_rounds[0])
    assert full_pieces(reduce, n, rounds) == n * n
    assert full_pieces(reduce, n, rounds - 1) < n * n
    scatter = collective_traffic(RS, Communicator.flat(n), SIZE)
    assert full_pieces(scatter, n, int(scatter.task_rounds[0])) == n


@pytest.mark.parametrize("n", [2, 3, 4, 6, 7, 8, 12, 16, 31])
def test_halving_and_doubling_carry_the_pieces_they_must(n):
    """Blocks 0…p−1 of the participants: everybody starts with its part of each, ends with all."""
    rounds = halving_rounds(AR, n)
    p = 1 << (n.bit_length() - 1)
    extra = n - p
    active = [2 * i + 1 for i in range(extra)] + list(range(2 * extra, n))
    block_of = {rank: i for i, rank in enumerate(active)}
    held = {rank: {block: {rank} for block in range(p)} for rank in range(n)}
    for step in rounds:
        before = {
            rank: {b: set(part) for b, part in blocks.items()} for rank, blocks in held.items()
        }
        for src, dst, parts in zip(step.src.tolist(), step.dst.tolist(), step.parts, strict=True):
            me, other = block_of.get(src), block_of.get(dst)
            if me is None or other is None:
                blocks = range(p)
            else:
                reach = 2 * abs(me - other)
                reducing = any(part != set(range(n)) for part in before[src].values())
                owner = other if len(before[src]) > 1 and reducing else me
                blocks = [b for b in before[src] if b % reach == owner % reach]
                if reducing:
                    for b in blocks:
                        held[src].pop(b, None)
            assert parts == pytest.approx(len(blocks) * n / p)
            for b in blocks:
                held[dst].setdefault(b, set()).update(before[src][b])
    assert all(set(blocks) == set(range(p)) for blocks in held.values())
    assert all(part == set(range(n)) for blocks in held.values() for part in blocks.values())


def closed_form(op: Collective, algorithm: Algorithm, n: int) -> Fraction:
    """Total bytes in units of the size, from the literature, for powers of two and rings."""
    if op is AR:
        return Fraction(2 * (n - 1))
    if op is Collective.SEND_RECV:
        return Fraction(n)
    return Fraction(n - 1)


@pytest.mark.parametrize(("op", "algorithm"), PAIRS)
def test_total_volume_is_that_of_the_literature(op, algorithm):
    for n in (2, 4, 8, 16, 32, 64):
        volume = collective_volume(op, algorithm, n, SIZE, ranks_per_server=1)
        assert volume.total_bytes == closed_form(op, algorithm, n) * SIZE


def test_worked_example_of_a_ring():
    volume = collective_volume(AR, Algorithm.RING, 8, 2**30)
    assert (volume.bytes_sent_per_rank, volume.steps) == (1879048192, 14)
    assert isinstance(volume.bytes_sent_per_rank, int)
    small = collective_volume(AR, Algorithm.RING, 4, 256_000_000)
    assert (small.bytes_sent_per_rank, small.steps) == (384_000_000, 6)


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (AR, 1.75),
        (AG, 0.875),
        (RS, 0.875),
        (Collective.ALL_TO_ALL, 0.875),
        (Collective.BROADCAST, 1.0),
        (Collective.REDUCE, 1.0),
        (Collective.SEND_RECV, 1.0),
    ],
)
def test_bus_factors_are_those_of_nccl_tests(op, expected):
    assert bus_factor(op, 8) == expected


def test_halving_doubling_over_no_power_of_two_folds_the_rest():
    volume = collective_volume(AR, Algorithm.HALVING_DOUBLING, 6, 6_000_000)
    # 4 ranks do 2·(3/4)·S, 2 more hand over S and get S back
    assert volume.total_bytes == 4 * 9_000_000 + 2 * 12_000_000
    assert volume.steps == 2 * 2 + 2


def test_folded_ranks_weigh_double_in_a_reduce_scatter():
    # of ranks 0, 1, 2 the first hands all to the second, which then answers for two blocks
    before, swap, after = halving_rounds(RS, 3)
    assert (before.src.tolist(), before.parts.tolist()) == ([0], [3])
    assert (swap.src.tolist(), swap.dst.tolist(), swap.parts.tolist()) == ([1, 2], [2, 1], [1, 2])
    assert (after.dst.tolist(), after.parts.tolist()) == ([0], [1])


def test_near_ranks_get_the_large_messages():
    traffic = collective_traffic(
        AR, Communicator.grid(4, 4), 16.0, algorithm=Algorithm.HALVING_DOUBLING
    )
    away = traffic.src // 4 != traffic.dst // 4
    assert traffic.chunk_bytes[~away].min() > traffic.chunk_bytes[away].max()


def test_tree_steps_grow_with_the_logarithm():
    assert collective_volume(AR, Algorithm.TREE, 1024, 1).steps <= 2 * 11
    assert collective_volume(AR, Algorithm.RING, 1024, 1).steps == 2046


def test_hierarchical_volume():
    volume = collective_volume(AR, Algorithm.HIERARCHICAL, 16, 1600, ranks_per_server=8)
    assert volume.inside_bytes_per_rank == 2800
    assert volume.bytes_sent_per_rank == 2800 + 2 * 100
    assert volume.steps == 7 + 2 + 7


def test_rail_aligned_all_to_all_sends_less_messages_but_the_same_across():
    servers, gpus = 4, 8
    comm = Communicator.grid(servers, gpus)
    plain = collective_traffic(Collective.ALL_TO_ALL, comm, SIZE, algorithm=Algorithm.DIRECT)
    aligned = collective_traffic(
        Collective.ALL_TO_ALL, comm, SIZE, algorithm=Algorithm.RAIL_ALIGNED
    )

    def across(traffic):
        away = traffic.src // gpus != traffic.dst // gpus
        return away, traffic.stream_bytes[away].sum()

    assert across(plain)[1] == pytest.approx(across(aligned)[1])
    away, _ = across(aligned)
    assert bool((aligned.src[away] % gpus == aligned.dst[away] % gpus).all())
    assert away.sum() * gpus == across(plain)[0].sum()


@pytest.mark.parametrize("gpus", [2, 4, 8])
def test_ring_channels_enter_and_leave_a_server_on_their_rail(gpus):
    comm = Communicator.grid(3, gpus)
    traffic = collective_traffic(AR, comm, SIZE)
    for task in range(traffic.n_tasks):
        part = slice(*traffic.task_stream[task : task + 2])
        src, dst = traffic.src[part], traffic.dst[part]
        away = src // gpus != dst // gpus
        assert away.sum() == 3
        assert set(src[away] % gpus) == set(dst[away] % gpus) == {task}


def test_two_gpus_of_a_rail_need_no_forwarding():
    nodes = np.arange(8, dtype=np.int32)
    comm = Communicator(nodes, nodes // 4, nodes % 4 // 2, channels=2)
    traffic = collective_traffic(AR, comm, SIZE)
    assert traffic.n_streams == 2 * 8
    away = traffic.src // 4 != traffic.dst // 4
    assert bool((comm.rail[traffic.src[away]] == comm.rail[traffic.dst[away]]).all())


@given(st.integers(2, 40), st.integers(1, 8), st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_a_ring_visits_every_rank_once(n, domains, seed):
    rng = np.random.default_rng(seed)
    nodes = rng.permutation(n).astype(np.int32)
    comm = Communicator(nodes, rng.integers(0, domains, n), rng.integers(-1, 4, n), channels=4)
    for channel in range(4):
        order, _ = visit(comm, channel)
        assert sorted(order) == list(range(n))
        domain = comm.order[order]
        assert (np.diff(domain) != 0).sum() == len(np.unique(domain)) - 1
        begun, _ = visit(comm, channel, n - 1)
        assert begun[0] == n - 1
        traffic = collective_traffic(AR, comm, SIZE)
        knows = knowledge(traffic, n) if n <= 8 else None
        assert knows is None or holds_enough(AR, knows, 0)


@pytest.mark.parametrize("n", range(1, 70))
def test_two_trees_span_all_and_share_the_inner_work(n):
    trees = binary_tree(n), second_tree(n)
    inner = []
    for parent in trees:
        assert (parent < 0).sum() == 1
        assert depth_of(parent) <= n.bit_length()
        children = np.bincount(parent[parent >= 0], minlength=n)
        assert children.max(initial=0) <= 2
        inner.append(children > 0)
    both = inner[0] & inner[1]
    assert both.sum() <= 2  # only roots of odd or tiny trees


def test_streams_stay_few():
    comm = Communicator.grid(127, 8)
    assert collective_traffic(AR, comm, 2**30).n_streams == 8 * (1016 + 127)
    tree = collective_traffic(AR, comm, 2**30, algorithm=Algorithm.TREE)
    assert tree.n_streams == 8 * 2 * 2 * 1015
    assert tree.n_tasks == 16


def test_phases_meet_in_barriers_and_not_all_to_all():
    comm = Communicator.grid(16, 8)
    traffic = collective_traffic(AR, comm, 2**30, algorithm=Algorithm.HIERARCHICAL)
    assert len(traffic.dep_task) <= 2 * traffic.n_tasks


def test_iterations_follow_each_other():
    comm = Communicator.flat(4)
    once = collective_traffic(AR, comm, 400)
    twice = collective_traffic(AR, comm, 400, iterations=2)
    assert twice.total_bytes == 2 * once.total_bytes
    assert twice.dep_task.tolist() == [0]
    assert twice.labels == ("all-reduce/ring#0", "all-reduce/ring#1")


def test_wrong_combinations_say_what_is_allowed():
    comm = Communicator.flat(4)
    with pytest.raises(InputError, match=r"tree cannot do all-gather; allowed: ring"):
        collective_traffic(AG, comm, 1, algorithm=Algorithm.TREE)
    with pytest.raises(InputError, match="root: 4 is no rank"):
        collective_traffic(AR, comm, 1, options=CollectiveOptions(root=4))
    uneven = Communicator(
        np.arange(3, dtype=np.int32), np.array([0, 0, 1]), np.zeros(3, dtype=np.int32), 1
    )
    with pytest.raises(InputError, match="from 1 to 2 ranks"):
        collective_traffic(AR, uneven, 1, algorithm=Algorithm.HIERARCHICAL)
    with pytest.raises(InputError, match="needs 2 or more"):
        collective_volume(AR, None, 1, 1)
    with pytest.raises(InputError, match="listed twice"):
        Communicator(np.array([1, 1]), np.array([0, 0]), np.array([0, 0]), 1)


def test_a_single_rank_has_nothing_to_send():
    assert collective_traffic(AR, Communicator.flat(1), 100).n_streams == 0
