"""A training step of 16,384 GPUs by the flow engine, and the search over all plans.

Run with ``pytest benchmarks/bench_training.py``. The bounds are those the project promises for a
machine with two cores.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import railweave
from railweave.catalog import default_catalog
from railweave.predict.plan import search_plans
from railweave.predict.plan_cluster import cluster_of_server
from railweave.predict.plan_space import PlanSpace
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
        ("mixtral-8x7b", Degrees(2, 2048, 4, 64), {"micro_batches": 16}),
    ],
    ids=("dense", "mixture", "many experts"),
)
def test_step_of_16384_gpus(benchmark, model, degrees, options):
    built = railweave.load(EXAMPLE).build()
    routing, catalog = built.routing(), built.document.catalog
    shape = catalog.model(model)
    if degrees.expert > shape.experts:
        shape = shape.model_copy(update={"experts": degrees.expert})
    plan = TrainingPlan(shape, degrees, **options)

    def step():
        began = time.process_time()
        costs = costs_on_fabric(built.fabric, routing, degrees, queue_pairs=4)
        estimate = estimate_step(plan, catalog.gpu("h100"), costs)
        assert len(step_timeline(estimate)) > 0
        return time.process_time() - began

    assert benchmark.pedantic(step, rounds=1) < 20


def test_search_of_llama3_70b_on_1024_gpus(benchmark):
    """All valid plans, ranked by the step time of the closed forms; the bound is the project's."""
    catalog = default_catalog()
    cluster = cluster_of_server(catalog, "dgx-h100", 1024)
    space = PlanSpace(catalog.model("llama3-70b"), 1024, 8, batch=512, sequence=8192)

    def search():
        began = time.process_time()
        found = search_plans(space, catalog.gpu("h100"), cluster.quick, top=5)
        assert found.valid > 10_000
        return time.process_time() - began

    assert benchmark.pedantic(search, rounds=1) < 10
