"""Messages of a training step: as many bytes as its traffic has, between the right ranks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.catalog import default_catalog
from railweave.design.models import Collective, Recompute
from railweave.workload import Communicator, Degrees, TrafficBuilder
from railweave.workload.step_messages import group_operations, step_messages
from railweave.workload.training import TrainingStep, append_step, step_volume

CATALOG = default_catalog()


@st.composite
def steps(draw: st.DrawFn) -> TrainingStep:
    expert = draw(st.sampled_from([1, 2, 4]))
    degrees = Degrees(
        tensor=draw(st.sampled_from([1, 2, 4])),
        data=expert * draw(st.integers(1, 2)),
        pipeline=draw(st.integers(1, 3)),
        expert=expert,
        context=draw(st.sampled_from([1, 2])),
    )
    return TrainingStep(
        CATALOG.model("mixtral-8x7b"),
        degrees,
        4,
        1,
        sequence=4096,
        zero=draw(st.integers(0, 3)),
        recompute=draw(st.sampled_from(list(Recompute))),
    )


@given(steps())
@settings(max_examples=40, deadline=None)
def test_they_are_the_bytes_of_the_traffic_from_rank_to_rank(step):
    n = step.degrees.ranks
    builder = TrafficBuilder()
    append_step(builder, Communicator.flat(n), step, label="step")
    traffic = builder.build()
    key = traffic.src * n + traffic.dst
    whole = np.bincount(key, traffic.stream_bytes, minlength=n * n).reshape(n, n)
    parts = [one.matrix_bytes(n) for one in step_messages(step).values()]
    assert sum(parts, start=np.zeros((n, n))) == pytest.approx(whole, rel=1e-6, abs=n)


def test_every_kind_sends_its_textbook_bytes():
    shape = CATALOG.model("mixtral-8x7b")
    step = TrainingStep(shape, Degrees(2, 8, 2, 4, 2), 4, 1, sequence=8192, zero=1)
    found, volume = step_messages(step), step_volume(step)
    assert set(found) == {"tensor", "context", "data", "pipeline", "expert", "expert-data"}
    n = 2 * 8 * 2 * 2
    activations = 2 * 8192 / 2 * shape.hidden  # BF16 of the tokens of a context rank
    layers, m = shape.layers / 2, 4
    expected = {
        "tensor": 2 * 2 * layers * 2 * (1 / 2) * activations * m,
        "context": 3 * layers * (1 / 2) * (2 * 2 * 8192 * shape.kv_heads * 128 / 2) * m,
        "pipeline": activations / 2 * m,
        "expert": 4 * layers * (3 / 4) * activations / 2 * shape.top_k * m,
    }
    for kind, size in expected.items():
        assert found[kind].sent_bytes(n).max() == pytest.approx(size), kind
    # the context ranks reduce the gradients too: 16 hold the same dense weights, 4 an expert
    assert (found["data"].groups, found["data"].members) == (4, 16)
    assert (found["expert-data"].groups, found["expert-data"].members) == (16, 4)
    assert found["data"].sent_bytes(n).max() == pytest.approx(
        2 * 15 / 16 * volume.dense_gradient_bytes.max()
    )


@pytest.mark.parametrize("zero", [0, 1, 3])
@pytest.mark.parametrize("split", [True, False])
def test_operations_follow_the_plan(zero, split):
    step = TrainingStep(
        CATALOG.model("llama3-8b"), Degrees(2, 2, 2, 1), 1, 1, zero=zero, sequence_parallel=split
    )
    pieces = {Collective.REDUCE_SCATTER, Collective.ALL_GATHER}
    whole = {Collective.ALL_REDUCE}
    assert set(group_operations(step, "tensor")) == (pieces if split else whole)
    assert set(group_operations(step, "data")) == (pieces if zero else whole)
    assert set(group_operations(step, "context")) == pieces
    assert group_operations(step, "pipeline") == (Collective.SEND_RECV,)
    assert group_operations(step, "expert") == (Collective.ALL_TO_ALL,)
