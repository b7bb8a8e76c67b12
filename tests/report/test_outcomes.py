import pytest

import railweave
from railweave.report.outcomes import job_time_s

DESIGN = """\
railweave: 1
name: data-ranks
cluster: {servers: {count: 2, inline: {gpus: 1, nics: 1, nic_speed: 100 Gb/s}}}
planes: {backend: {transport: rocev2, topology: star, switch: {radix: 8, speed: 100 Gb/s}}}
jobs:
  - {name: train, model: llama3-8b, parallelism: {data: 2}, ranks: 2, start: 1 s, iterations: 2}
"""


def test_the_arithmetic_before_a_steps_first_message_counts():
    built = railweave.parse(DESIGN).build()
    workload, result = built.workload(), built.simulate()
    (plan,) = workload.jobs
    assert plan.step.compute_s > 0.1
    assert result.task_start_s.min() >= 1 + plan.step.compute_s  # nothing is sent before
    assert job_time_s(result, plan) == pytest.approx((result.makespan_s - 1) / 2)
