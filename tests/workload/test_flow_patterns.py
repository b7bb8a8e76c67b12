"""Flow patterns: who sends, how much, and that nobody sends to itself."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minifabric import clos
from railweave.design.models import Algorithm, Collective
from railweave.errors import InputError
from railweave.workload import Communicator, collective_traffic
from railweave.workload.flow_patterns import FlowPattern, pattern_flows


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 5), st.integers(1, 4), st.integers(0, 1000))
def test_a_permutation_is_one_cycle_through_all_gpus(servers, gpus, seed):
    fabric, _ = clos(servers=servers, gpus=gpus, spines=2, leaves=2)
    traffic = pattern_flows(fabric, FlowPattern.PERMUTATION, 1e6, seed=seed)
    follows = dict(zip(traffic.src.tolist(), traffic.dst.tolist(), strict=True))
    at, seen = int(fabric.gpus[0]), set()
    while at not in seen:
        seen.add(at)
        at = follows[at]
    assert seen == set(fabric.gpus.tolist())
    assert (traffic.stream_bytes == 1e6).all()


def test_seeds_draw_different_permutations():
    fabric, _ = clos(servers=4, gpus=4, spines=2, leaves=2)
    a, b, again = (
        pattern_flows(fabric, FlowPattern.PERMUTATION, 1.0, seed=seed).dst.tolist()
        for seed in (1, 2, 1)
    )
    assert a != b
    assert a == again


def test_a_ring_carries_what_the_collective_sends():
    fabric, _ = clos(servers=4, gpus=4, spines=2, leaves=2)
    traffic = pattern_flows(fabric, FlowPattern.RING, 16e6)
    pairs = np.stack((traffic.src, traffic.dst, traffic.stream_connection), axis=1)
    assert len(np.unique(pairs, axis=0)) == traffic.n_streams
    comm = Communicator.from_fabric(fabric, fabric.gpus)
    whole = collective_traffic(Collective.ALL_REDUCE, comm, 16e6, algorithm=Algorithm.RING)
    assert traffic.stream_bytes.sum() == pytest.approx(whole.stream_bytes.sum())
    assert {*traffic.src.tolist()} == set(fabric.gpus.tolist())
    assert traffic.n_tasks == 1


def test_an_all_to_all_takes_part_of_many_gpus_at_equal_distances():
    fabric, _ = clos(servers=4, gpus=4, spines=2, leaves=2)
    every = pattern_flows(fabric, FlowPattern.ALL_TO_ALL, 15e6)
    assert every.n_streams == 16 * 15
    assert (every.stream_bytes == 1e6).all()
    some = pattern_flows(fabric, FlowPattern.ALL_TO_ALL, 15e6, most_gpus=4)
    assert some.n_streams == 4 * 3
    assert len(np.unique(fabric.node_server[some.src])) == 4
    assert (some.src != some.dst).all()


def test_what_has_no_flows_is_refused():
    fabric, _ = clos(servers=4, gpus=4, spines=2, leaves=2)
    with pytest.raises(InputError, match="at least 2 GPUs and 1 B"):
        pattern_flows(fabric, FlowPattern.RING, 0)
