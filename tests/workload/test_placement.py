import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minifabric import clos
from railweave.design.models import Collective, PlacementName
from railweave.errors import InputError
from railweave.fabric import PlaneId
from railweave.workload import Communicator, collective_traffic, leaf_groups, place

RAILS = clos(servers=6, gpus=4, spines=2)[0]
RACKS = clos(servers=6, gpus=2, spines=2, leaves=3)[0]


def numbers(fabric, nodes):
    return np.searchsorted(fabric.gpus, nodes).tolist()


def test_packed_fills_servers():
    assert numbers(RAILS, place(RAILS, 6)) == [0, 1, 2, 3, 4, 5]


def test_spread_goes_round_servers_and_leaves():
    nodes = place(RACKS, 8, PlacementName.SPREAD)
    servers = RACKS.node_server[nodes].tolist()
    assert servers == [0, 2, 4, 1, 3, 5, 0, 2]  # leaves hold servers 0–1, 2–3, 4–5


def test_rail_aligned_follows_a_rail():
    nodes = place(RAILS, 10, PlacementName.RAIL_ALIGNED)
    assert RAILS.node_rail[nodes].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]
    assert RAILS.node_server[nodes].tolist() == [0, 1, 2] * 3 + [0]


def test_random_draws_whole_servers_by_seed_and_name():
    drawn = [
        place(RAILS, 12, PlacementName.RANDOM, seed=s, name=n)
        for s, n in ((1, "a"), (1, "a"), (2, "a"), (1, "b"))
    ]
    assert numbers(RAILS, drawn[0]) == numbers(RAILS, drawn[1])
    assert len({tuple(numbers(RAILS, nodes)) for nodes in drawn}) > 1
    servers = RAILS.node_server[drawn[0]].reshape(3, 4)
    assert bool((servers == servers[:, :1]).all())


def test_explicit_list_and_what_is_taken():
    assert numbers(RAILS, place(RAILS, None, (5, 0, 9))) == [5, 0, 9]
    first = place(RAILS, 5)
    assert numbers(RAILS, place(RAILS, 2, taken=first)) == [5, 6]


def test_leaf_groups_are_servers_on_the_same_leaves():
    groups = leaf_groups(RACKS)
    assert groups.of_server.tolist() == [0, 0, 1, 1, 2, 2]
    assert [len(leaves) for leaves in groups.leaves] == [1, 1, 1]
    rails = leaf_groups(RAILS)
    assert rails.of_server.tolist() == [0] * 6
    assert len(rails.leaves[0]) == 4
    broken = RACKS.without(nodes=[groups.leaves[0][0]])
    assert leaf_groups(broken).of_server.tolist() == groups.of_server.tolist()
    elsewhere = leaf_groups(RACKS, PlaneId.STORAGE)
    assert elsewhere.count == 0
    assert elsewhere.of_server.tolist() == [-1] * 6


LEAVES_OF_4 = clos(servers=16, gpus=2, spines=2, leaves=4)[0]


@given(st.integers(1, 32), st.integers(0, 999), st.sets(st.integers(0, 15), max_size=6))
@settings(max_examples=80, deadline=None)
def test_fragments_are_runs_of_whole_servers_in_order(ranks, seed, busy):
    fabric = LEAVES_OF_4
    taken = fabric.gpus[np.isin(fabric.node_server[fabric.gpus], list(busy))]
    free = len(fabric.gpus) - len(taken)
    ranks = min(ranks, free)
    rule = PlacementName.FRAGMENTS
    nodes = place(fabric, ranks, rule, seed=seed, name="a", taken=taken)
    assert nodes.tolist() == sorted(set(nodes.tolist()))
    assert not np.isin(nodes, taken).any()
    of = fabric.node_server[nodes]
    assert (np.unique(of, return_counts=True)[1][:-1] == 2).all()
    assert nodes.tolist() == place(fabric, ranks, rule, seed=seed, name="a", taken=taken).tolist()


def test_fragments_depend_on_seed_and_name_and_are_broken_up():
    drawn = {
        tuple(place(LEAVES_OF_4, 16, PlacementName.FRAGMENTS, seed=s, name=n).tolist())
        for s in range(20)
        for n in "ab"
    }
    assert len(drawn) > 20
    leaves = [len(set(LEAVES_OF_4.node_server[list(nodes)] // 4)) for nodes in drawn]
    assert np.mean(leaves) > 2.5  # packed: 2


def test_fragments_are_longer_than_servers_drawn_one_by_one():
    fabric = clos(servers=64, gpus=1, spines=1, leaves=4)[0]

    def runs(rule):
        counts = []
        for seed in range(20):
            servers = np.sort(fabric.node_server[place(fabric, 16, rule, seed=seed)])
            counts.append(int(np.count_nonzero(np.diff(servers) > 1)) + 1)
        return np.mean(counts)

    # 16 of 64 drawn one by one leave 16·49/64 = 12.25 runs; runs of 1 to 16 are 8.5 long.
    assert runs(PlacementName.RANDOM) == pytest.approx(12.25, rel=0.15)
    assert 1.2 < runs(PlacementName.FRAGMENTS) < 6


def ring(nodes):
    return collective_traffic(
        Collective.ALL_REDUCE, Communicator.from_fabric(RAILS, nodes), 1 << 20
    )


@given(st.sampled_from(PlacementName), st.integers(1, 24), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_every_rule_gives_each_rank_a_gpu_of_its_own(rule, ranks, seed):
    nodes = place(RAILS, ranks, rule, seed=seed, sends=ring)
    assert len(set(nodes.tolist())) == ranks
    assert bool(np.isin(nodes, RAILS.gpus).all())


@pytest.mark.parametrize(
    ("ranks", "rule", "text"),
    [
        (25, PlacementName.PACKED, r"25 are wanted, but 24 of 24 GPUs are free"),
        (None, (0, 24), r"GPU 24 does not exist; allowed: 0…23"),
        (None, (3, 3), "listed twice"),
        (3, (1, 2), "lists 2 GPUs for 3 ranks"),
        (4, PlacementName.OPTIMIZED, "job train: placement: optimized needs to know what the job"),
        (25, PlacementName.FRAGMENTS, r"25 are wanted, but 24 of 24 GPUs are free"),
    ],
)
def test_what_cannot_be_placed_is_refused(ranks, rule, text):
    with pytest.raises(InputError, match=text):
        place(RAILS, ranks, rule, name="train")


def test_communicator_reads_the_fabric():
    comm = Communicator.from_fabric(RAILS, place(RAILS, 8))
    assert comm.channels == 4
    assert comm.forwards
    assert comm.domain_sizes.tolist() == [4, 4]
    assert comm.rail.tolist() == [0, 1, 2, 3] * 2
    assert Communicator.from_fabric(RAILS, RAILS.gpus[:2], channels=3).channels == 3
    bare = clos(servers=2, gpus=2, spines=1, scale_up_gbps=0)[0]
    assert not Communicator.from_fabric(bare, bare.gpus).forwards
    with pytest.raises(InputError, match="is not a GPU"):
        Communicator.from_fabric(RAILS, [0, RAILS.n_nodes - 1])
