import pytest
from training import H100, LLAMA_8B

import railweave
from railweave.design.models import Precision, Recompute
from railweave.errors import InputError
from railweave.predict.clock import arithmetic_s, plan_of_step, step_of_plan
from railweave.predict.compute import layer_time
from railweave.predict.step import TrainingPlan
from railweave.workload import Degrees
from railweave.workload.training import TrainingStep

DESIGN = """
railweave: 1
name: small
cluster: {servers: {SERVERS, count: 4}}
planes:
  backend: {transport: rocev2, topology: rail-optimized, switch: {radix: 32, speed: 400 Gb/s}}
jobs:
  - {name: train, model: llama3-8b, parallelism: {tensor: 4, pipeline: 2}, micro_batches: 4}
"""


def built(servers="model: dgx-h100"):
    return railweave.parse(DESIGN.replace("SERVERS", servers)).build()


def test_a_step_on_two_stages_by_hand():
    step = TrainingStep(LLAMA_8B, Degrees(4, 1, 2, 1), 4, 1)
    layer = layer_time(plan_of_step(step), H100, sparse=False)
    least = (4 + 1) * 16 * (layer.forward_s + layer.backward_s)
    assert least < arithmetic_s(step, H100) < 1.2 * least  # the head is on one of them


def test_a_design_run_takes_its_arithmetic():
    whole = built()
    job = whole.workload().jobs[0]
    step = TrainingStep(LLAMA_8B, Degrees(4, 4, 2, 1), 4, 1)
    arithmetic = arithmetic_s(step, H100)
    assert job.traffic.task_delay_s.max() == pytest.approx(arithmetic)
    assert any("of arithmetic a step" in said.statement for said in job.assumptions)
    result = whole.simulate("flow")
    assert arithmetic < result.makespan_s < 2 * arithmetic
    assert result.bytes_sent == pytest.approx(result.bytes_delivered)


def test_fp8_needs_a_gpu_that_has_it():
    text = DESIGN.replace("micro_batches: 4", "micro_batches: 4, precision: fp8")
    whole = railweave.parse(text.replace("SERVERS", "model: dgx-a100")).build()
    with pytest.raises(InputError, match=r"job train: precision: .* has no FP8 arithmetic"):
        whole.workload()
    fast = railweave.parse(text.replace("SERVERS", "model: dgx-h100")).build()
    slow = built()
    delay = [w.workload().traffic.task_delay_s.max() for w in (fast, slow)]
    assert delay[0] < delay[1]
    assert (
        plan_of_step(
            TrainingStep(LLAMA_8B, Degrees(1, 1, 1, 1), 1, 1, precision=Precision.FP8)
        ).precision
        is Precision.FP8
    )


def test_a_plan_and_its_step_are_the_same_thing():
    plan = TrainingPlan(
        LLAMA_8B,
        Degrees(2, 2, 2, 1, context=2),
        2,
        6,
        sequence=4096,
        zero=2,
        sequence_parallel=True,
        interleave=4,
        recompute=Recompute.FULL,
        precision=Precision.FP8,
    )
    assert plan_of_step(step_of_plan(plan)) == plan
