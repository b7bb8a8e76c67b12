import numpy as np
import pytest
from dataflow import knowledge

from railweave.design.models import Recompute
from railweave.errors import InputError
from railweave.workload import (
    Communicator,
    Degrees,
    TrafficBuilder,
    TrainingStep,
    append_step,
    step_volume,
)
from railweave.workload.training import step_assumptions


def traffic_of(step, gpus=4, *, forwards=False, **options):
    ranks = step.degrees.ranks
    comm = Communicator.grid(ranks // gpus or 1, min(gpus, ranks))
    object.__setattr__(comm, "forwards", forwards)  # what rings hand over counts twice
    builder = TrafficBuilder()
    append_step(builder, comm, step, label="job/step#0", **options)
    return builder.build()


@pytest.mark.parametrize("name", ["llama3-405b", "mixtral-8x7b", "deepseek-v3", "llama3-8b"])
def test_gradients_cover_every_parameter(catalog, name):
    shape = catalog.model(name)
    expert = 8 if shape.experts > 1 else 1
    degrees = Degrees(tensor=2, data=8, pipeline=3, expert=expert)
    volume = step_volume(TrainingStep(shape, degrees, 1, 1))
    dense = volume.dense_gradient_bytes.sum() * degrees.tensor
    experts = volume.expert_gradient_bytes.sum() * degrees.tensor * expert
    assert (dense + experts) / 2 == pytest.approx(shape.parameters, rel=1e-12)
    assert (experts > 0) == (shape.experts > 1)


def test_tensor_volume_by_hand(shape):
    step = TrainingStep(shape, Degrees(tensor=4, data=1, pipeline=1, expert=1), 3, 2)
    activations = 2 * 2 * shape.sequence * shape.hidden
    by_hand = 3 * shape.layers * 4 * (2 * 3 / 4) * activations
    assert step_volume(step).tensor_bytes.tolist() == [by_hand]


def test_layers_and_embedding_are_spread_over_stages(shape):
    volume = step_volume(TrainingStep(shape, Degrees(1, 1, 3, 1), 1, 1))
    gradients = volume.dense_gradient_bytes
    assert gradients[0] > gradients[1]  # 11 layers and the embedding against 11
    assert gradients[2] > 0
    assert volume.pipeline_bytes == 2 * shape.sequence * shape.hidden


def test_experts_by_hand(catalog):
    shape = catalog.model("mixtral-8x7b")
    step = TrainingStep(shape, Degrees(tensor=1, data=8, pipeline=1, expert=8), 2, 1)
    routed = 2 * shape.sequence * shape.hidden * shape.top_k / 8
    by_hand = 2 * shape.layers * 4 * routed  # dispatch and combine, forward and backward
    assert step_volume(step).expert_pair_bytes.tolist() == [by_hand]


@pytest.mark.parametrize(
    "degrees",
    [
        Degrees(4, 1, 1, 1),
        Degrees(1, 4, 1, 1),
        Degrees(1, 1, 4, 1),
        Degrees(2, 2, 2, 1),
        Degrees(2, 4, 3, 2),
        Degrees(1, 4, 1, 4),
    ],
)
@pytest.mark.parametrize("micro_batches", [1, 5])
def test_bytes_sent_are_those_of_the_volume(catalog, degrees, micro_batches):
    shape = catalog.model("mixtral-8x7b" if degrees.expert > 1 else "llama3-8b")
    step = TrainingStep(shape, degrees, micro_batches, 1)
    volume, traffic = step_volume(step), traffic_of(step)
    per_stage = degrees.tensor * degrees.data
    hops = 2 * (degrees.pipeline - 1)

    def ring(sizes, members):
        return (per_stage * 2 * (members - 1) / members * sizes).sum()

    expected = (
        (per_stage * volume.tensor_bytes).sum()
        + per_stage * hops * volume.pipeline_bytes
        + (per_stage * (degrees.expert - 1) * volume.expert_pair_bytes).sum()
        + ring(volume.dense_gradient_bytes, degrees.data)
        + ring(volume.expert_gradient_bytes, degrees.data // degrees.expert)
    )
    assert traffic.total_bytes == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "options",
    [
        {"zero": 1},
        {"zero": 2},
        {"zero": 3},
        {"recompute": Recompute.FULL},
        {"interleave": 4},
        {"sequence": 1024, "zero": 3, "interleave": 2},
    ],
    ids=str,
)
def test_bytes_sent_with_context_sharding_and_chunks(catalog, options):
    shape = catalog.model("mixtral-8x7b")
    degrees = Degrees(tensor=2, data=2, pipeline=2, expert=2, context=2)
    step = TrainingStep(shape, degrees, 4, 1, **options)
    volume, traffic = step_volume(step), traffic_of(step)
    per_stage = degrees.ranks // 2
    hops = 2 * (2 * step.interleave - 1)
    expected = per_stage * (
        volume.tensor_bytes.sum()
        + volume.context_bytes.sum()
        + hops * volume.pipeline_bytes
        + volume.expert_pair_bytes.sum()
        + volume.data_bytes.sum()
        + volume.expert_data_bytes.sum()
    )
    assert traffic.total_bytes == pytest.approx(expected, rel=1e-12)
    assert all(known == set(range(16)) for known in knowledge(traffic, 16))


def test_context_volume_by_hand(shape):
    """Keys and values of the other ranks forward and backward, and their gradients."""
    step = TrainingStep(shape, Degrees(2, 1, 1, 1, context=4), 3, 1)
    local = 2 * 2 * (shape.sequence / 4) * shape.kv_heads * shape.width_per_head / 2
    volume = step_volume(step)
    assert volume.context_bytes.tolist() == [3 * 3 * local * shape.layers * 3]
    half = step_volume(TrainingStep(shape, Degrees(2, 1, 1, 1), 3, 1)).tensor_bytes / 4
    assert volume.tensor_bytes.tolist() == half.tolist()


def test_zero_cuts_up_the_gradients(shape):
    degrees = Degrees(tensor=1, data=4, pipeline=1, expert=1)
    gradient = 2.0 * shape.parameters
    for zero, turns in ((0, 2), (1, 2), (2, 5 + 1), (3, 15)):
        step = TrainingStep(shape, degrees, 5, 1, zero=zero)
        assert step_volume(step).data_bytes == pytest.approx(turns * 3 / 4 * gradient)
        labels = traffic_of(step).labels
        assert ("job/step#0/data weights" in labels) == (zero > 0)


def test_full_recomputation_repeats_the_forward_pass(shape):
    degrees = Degrees(2, 1, 1, 1, context=2)
    some, full = (
        step_volume(TrainingStep(shape, degrees, 1, 1, recompute=how))
        for how in (Recompute.SELECTIVE, Recompute.FULL)
    )
    assert full.tensor_bytes == pytest.approx(1.5 * some.tensor_bytes)
    assert full.context_bytes == pytest.approx(4 / 3 * some.context_bytes)
    none = step_volume(TrainingStep(shape, degrees, 1, 1, recompute=Recompute.NONE))
    assert none.tensor_bytes.tolist() == some.tensor_bytes.tolist()


def test_chunks_go_round_the_stages(shape):
    step = TrainingStep(shape, Degrees(1, 1, 2, 1), 2, 1, interleave=2)
    traffic = traffic_of(step)
    assert (traffic.src.tolist(), traffic.dst.tolist()) == (
        [0, 1, 0, 1, 0, 1],
        [1, 0, 1, 0, 1, 0],
    )
    assert traffic.pred_stream.tolist() == [0, 1, 2, 3, 4]


def test_everything_of_a_step_depends_on_everything_before(shape):
    step = TrainingStep(shape, Degrees(2, 2, 3, 1), 2, 1)
    assert all(known == set(range(12)) for known in knowledge(traffic_of(step), 12))


def test_the_next_stage_waits_for_the_tensor_group(shape):
    step = TrainingStep(shape, Degrees(2, 1, 2, 1), 1, 1)
    traffic = traffic_of(step)
    assert all(known == set(range(4)) for known in knowledge(traffic, 4))
    hop = int(np.flatnonzero((traffic.src == 0) & (traffic.dst == 2))[0])
    waits = traffic.pred_stream[slice(*traffic.pred_ptr[hop : hop + 2])]
    assert traffic.src[waits].tolist() == [0, 1]


def test_the_next_stage_waits_for_the_experts(catalog):
    step = TrainingStep(catalog.model("mixtral-8x7b"), Degrees(1, 2, 2, 2), 1, 1)
    traffic = traffic_of(step)
    assert all(known == set(range(4)) for known in knowledge(traffic, 4))
    hop = int(np.flatnonzero((traffic.src == 0) & (traffic.dst == 2))[0])
    waits = traffic.pred_stream[slice(*traffic.pred_ptr[hop : hop + 2])]
    assert traffic.src[waits].tolist() == [1]


def test_a_stage_waits_for_the_stage_before(shape):
    step = TrainingStep(shape, Degrees(1, 1, 3, 1), 4, 1)
    traffic = traffic_of(step)
    assert (traffic.src.tolist(), traffic.dst.tolist()) == ([0, 1, 2, 1], [1, 2, 1, 0])
    assert traffic.pred_stream.tolist() == [0, 1, 2]
    assert traffic.task_rounds.tolist() == [4]


def test_streams_stay_few_on_many_gpus(catalog):
    step = TrainingStep(catalog.model("llama3-405b"), Degrees(8, 64, 16, 1), 32, 1)
    traffic = traffic_of(step, gpus=8)
    assert traffic.n_streams < 6 * 8192
    assert "job/step#0/data gradients" in traffic.labels


def test_compute_time_delays_the_gradients(shape):
    step = TrainingStep(shape, Degrees(1, 2, 1, 1), 1, 1, compute_s=0.5)
    assert traffic_of(step).task_delay_s.max() == 0.5


def test_compute_time_without_data_ranks(shape):
    step = TrainingStep(shape, Degrees(1, 1, 2, 1), 1, 1, compute_s=0.5)
    traffic = traffic_of(step)
    assert traffic.task_delay_s.tolist() == [0.0, 0.5]


def test_arithmetic_is_said(shape):
    step = TrainingStep(shape, Degrees(1, 2, 1, 1), 1, 1)
    assert "not modelled" in step_assumptions(step)[0].statement
    timed = TrainingStep(shape, Degrees(1, 2, 1, 1), 1, 1, compute_s=0.5)
    assert "0.5 s of arithmetic" in step_assumptions(timed)[0].statement


def test_degrees_must_fit_the_model(catalog, shape):
    with pytest.raises(InputError, match=r"40 stages for 32 layers"):
        step_volume(TrainingStep(shape, Degrees(1, 1, 40, 1), 1, 1))
    mixture = catalog.model("mixtral-8x7b")
    with pytest.raises(InputError, match=r"3 does not divide the 8 experts"):
        step_volume(TrainingStep(mixture, Degrees(1, 3, 1, 3), 1, 1))
    assert np.all(step_volume(TrainingStep(shape, Degrees(1, 1, 1, 1), 1, 1)).tensor_bytes == 0)
