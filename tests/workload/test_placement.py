import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minifabric import clos
from railweave.design.models import PlacementName
from railweave.errors import InputError
from railweave.workload import Communicator, place

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


@given(st.sampled_from(PlacementName), st.integers(1, 24), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_every_rule_gives_each_rank_a_gpu_of_its_own(rule, ranks, seed):
    nodes = place(RAILS, ranks, rule, seed=seed)
    assert len(set(nodes.tolist())) == ranks
    assert bool(np.isin(nodes, RAILS.gpus).all())


@pytest.mark.parametrize(
    ("ranks", "rule", "text"),
    [
        (25, PlacementName.PACKED, r"25 are wanted, but 24 of 24 GPUs are free"),
        (None, (0, 24), r"GPU 24 does not exist; allowed: 0…23"),
        (None, (3, 3), "listed twice"),
        (3, (1, 2), "lists 2 GPUs for 3 ranks"),
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
