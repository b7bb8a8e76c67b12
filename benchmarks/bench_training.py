"""A training step of 16,384 GPUs: communication by the flow engine, the schedule, the timeline.

Run with ``pytest benchmarks/bench_training.py``. The bound is the one the project promises for a
machine with two cores.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import railweave
from railweave.predict.step import TrainingPlan, estimate_step
from railweave.predict.timeline import step_timeline
from railweave.predict.training_costs import costs_on_fabric
from railweave.workload import Degrees

EXAMPLE = Path(__file__).parents[1] / "examples/meta-llama3-24k.yaml"


@pytest.mark.parametrize(
    ("model", "degrees", "options"),
    [
        ("llama3-405b", Degrees(8, 128, 16, 1), {"micro_batches": 16, "interleave": 8}),
        ("mixtral-8x7b", Degrees(2, 2048, 4, 8), {"micro_batches": 16}),
    ],
    ids=("dense", "mixture"),
)
def test_step_of_16384_gpus(benchmark, model, degrees, options):
    built = railweave.load(EXAMPLE).build()
    routing, catalog = built.routing(), built.document.catalog
    plan = TrainingPlan(catalog.model(model), degrees, **options)

    def step():
        began = time.process_time()
        costs = costs_on_fabric(built.fabric, routing, degrees, queue_pairs=4)
        estimate = estimate_step(plan, catalog.gpu("h100"), costs)
        assert len(step_timeline(estimate)) > 0
        return time.process_time() - began

    assert benchmark.pedantic(step, rounds=1) < 20
