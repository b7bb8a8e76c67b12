import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minifabric import clos
from railweave.design.models import Parallelism, PlacementName
from railweave.errors import InputError
from railweave.fabric import NodeKind, PlaneId
from railweave.workload import (
    Degrees,
    TrainingStep,
    byte_shares,
    group_shares,
    message_reach,
    parallel_groups,
    place,
    resolve_degrees,
    step_volume,
)


def test_rank_order_is_tensor_then_data_then_pipeline():
    groups = parallel_groups(Degrees(tensor=2, data=4, pipeline=2, expert=2))
    assert groups["tensor"][0].tolist() == [0, 1]
    assert groups["data"][0].tolist() == [0, 2, 4, 6]
    assert groups["pipeline"][0].tolist() == [0, 8]
    assert groups["expert"][0].tolist() == [0, 2]
    assert groups["expert-data"][0].tolist() == [0, 4]


def test_context_ranks_stand_between_tensor_and_data():
    degrees = Degrees(tensor=2, data=2, pipeline=2, expert=2, context=3)
    groups = parallel_groups(degrees)
    assert degrees.ranks == 24
    assert degrees.replicas == 6
    assert groups["context"][0].tolist() == [0, 2, 4]
    assert groups["data"][0].tolist() == [0, 2, 4, 6, 8, 10]  # context ranks hold the same weights
    assert groups["expert"][0].tolist() == [0, 6]
    assert groups["expert-data"][0].tolist() == [0, 2, 4]
    assert groups["pipeline"][0].tolist() == [0, 12]


@given(*[st.integers(1, 4)] * 5)
@settings(max_examples=50, deadline=None)
def test_every_rank_is_once_in_each_kind_of_group(t, blocks, p, e, c):
    degrees = Degrees(t, blocks * e, p, e, c)
    for table in parallel_groups(degrees).values():
        assert sorted(table.ravel().tolist()) == list(range(degrees.ranks))


def test_degrees_are_resolved_or_refused():
    assert resolve_degrees(Parallelism(tensor=4, pipeline=2), 32) == Degrees(4, 4, 2, 1)
    assert resolve_degrees(None, 6).data == 6
    assert resolve_degrees(Parallelism(tensor=4, context=2), 32) == Degrees(4, 4, 1, 1, 2)
    with pytest.raises(InputError, match=r"tensor 4 × context 3 × data 2 × pipeline 1 = 24"):
        resolve_degrees(Parallelism(tensor=4, context=3), 32)
    with pytest.raises(InputError, match=r"= 24 is not the 32 ranks"):
        resolve_degrees(Parallelism(tensor=4, pipeline=2, data=3), 32)
    with pytest.raises(InputError, match=r"does not divide the 4 data-parallel ranks"):
        resolve_degrees(Parallelism(tensor=4, pipeline=2, expert=3), 32)


def test_shares_follow_the_rails():
    fabric = clos(servers=3, gpus=4, spines=2)[0]
    gpu = fabric.gpus
    # inside a server; same rail; another rail of another server
    shares = byte_shares(fabric, gpu[[0, 0, 0]], gpu[[1, 4, 5]], [1.0, 10.0, 100.0])
    assert (shares.server_bytes, shares.leaf_bytes, shares.spine_bytes) == (1, 110, 0)
    own = byte_shares(fabric, gpu[[0, 0, 0]], gpu[[1, 4, 5]], [1.0, 10.0, 100.0], rail_aware=False)
    assert (own.server_bytes, own.leaf_bytes, own.spine_bytes) == (1, 10, 100)
    assert own.total_bytes == 111
    reach = message_reach(fabric, gpu[[0, 0, 0]], gpu[[1, 4, 5]], rail_aware=False)
    assert reach.tolist() == [0, 1, 2]


def test_without_scale_up_nothing_changes_rail():
    fabric = clos(servers=2, gpus=2, spines=2, scale_up_gbps=0)[0]
    shares = byte_shares(fabric, fabric.gpus[:1], fabric.gpus[3:], 1.0)
    assert shares.spine_bytes == 1


def test_pods_decide_between_spine_and_core():
    fabric = clos(servers=4, gpus=1, spines=2, leaves=4)[0]
    spines = fabric.switches(PlaneId.BACKEND, 2)
    fabric.node_tier[spines[1]] = 3  # one core switch makes it a fabric with three tiers
    leaves = np.flatnonzero((fabric.node_kind == NodeKind.SWITCH) & (fabric.node_tier == 1))
    fabric.node_pod[leaves] = [0, 0, 1, 1]
    gpu = fabric.gpus
    shares = byte_shares(fabric, gpu[[0, 0]], gpu[[1, 2]], [1.0, 2.0])
    assert (shares.spine_bytes, shares.core_bytes) == (1, 2)
    assert message_reach(fabric, gpu[[0, 0]], gpu[[1, 2]]).tolist() == [2, 3]


def test_shares_of_context_chunks_and_sharding_add_up(shape):
    fabric = clos(servers=4, gpus=4, spines=2)[0]
    degrees = Degrees(tensor=2, data=2, pipeline=2, expert=1, context=2)
    step = TrainingStep(shape, degrees, 2, 1, interleave=2, zero=3)
    shares, volume = group_shares(fabric, place(fabric, 16), step), step_volume(step)
    assert set(shares) == {"tensor", "context", "data", "pipeline"}
    assert shares["context"].total_bytes == pytest.approx(8 * volume.context_bytes.sum())
    assert shares["data"].total_bytes == pytest.approx(8 * volume.data_bytes.sum())
    assert shares["pipeline"].total_bytes == pytest.approx(8 * 6 * volume.pipeline_bytes)


def test_placement_decides_what_stays_in_a_server(shape):
    fabric = clos(servers=4, gpus=4, spines=2)[0]
    step = TrainingStep(shape, Degrees(tensor=4, data=4, pipeline=1, expert=1), 2, 1)
    packed = group_shares(fabric, place(fabric, 16), step)
    assert set(packed) == {"tensor", "data"}
    assert packed["tensor"].server_bytes == packed["tensor"].total_bytes > 0
    assert packed["data"].leaf_bytes == packed["data"].total_bytes
    spread = group_shares(fabric, place(fabric, 16, PlacementName.SPREAD), step)
    assert spread["tensor"].server_bytes == 0
    volume = step_volume(step)
    assert packed["tensor"].total_bytes == pytest.approx(16 * volume.tensor_bytes[0])
    assert packed["data"].total_bytes == pytest.approx(
        16 * 2 * 3 / 4 * volume.dense_gradient_bytes[0]
    )
