"""The library's time of a replay's operations is the collective model's on their GPUs."""

from __future__ import annotations

import math

import pytest

import railweave
from railweave.design.models import Algorithm, Collective, PlacementName
from railweave.errors import InputError
from railweave.formats.execution_trace import EventKind, RankTrace, TraceEvent
from railweave.predict.collective import collective_time_s
from railweave.predict.replayed import library_times
from railweave.predict.system import system_of
from railweave.report.replay import study_replay
from railweave.workload.replay import plan_replay

MIB = float(1 << 20)


@pytest.fixture(scope="module")
def built():
    return railweave.load("tests/golden/small.yaml").build()


def trace(*calls):
    events = tuple(
        TraceEvent(0, EventKind.COLLECTIVE, op, size_bytes=size, ranks=ranks)
        for op, size, ranks in calls
    )
    return [RankTrace("test", "rank0", 0, events, world=16)]


def test_it_is_the_model_s_on_the_operation_s_gpus(built):
    near, far = (0, 1, 2, 3), (0, 8)
    calls = [("all-reduce", MIB, near), ("all-gather", MIB, far), ("all-reduce", 64 * MIB, near)]
    plan = plan_replay(trace(*calls), built.fabric)
    times = library_times(built, plan)
    assert set(times) == {(op, size, len(ranks)) for op, size, ranks in calls}
    for op, size, ranks in calls:
        system = system_of(built, plan.nodes[list(ranks)])
        expected = collective_time_s(system, Collective(op), size)
        assert times[op, size, len(ranks)] == expected > 0


def test_what_the_model_does_not_know_is_not_a_number(built, monkeypatch):
    calls = [("gather", MIB, (0, 1)), ("barrier", 0.0, (0, 1)), ("all-reduce", MIB, (0,))]
    times = library_times(built, plan_replay(trace(*calls), built.fabric))
    assert all(math.isnan(time) for time in times.values())

    def refuse(*_):
        raise InputError("these GPUs are not known")

    monkeypatch.setattr("railweave.predict.system.system_of", refuse)
    plan = plan_replay(trace(("all-reduce", MIB, (0, 1))), built.fabric)
    assert math.isnan(library_times(built, plan)["all-reduce", MIB, 2])


def test_a_study_takes_engine_placement_algorithm_and_failures(built):
    traces = trace(("all-reduce", 16 * MIB, tuple(range(16))))
    ring = study_replay(built, traces)
    tree = study_replay(built, traces, algorithms={Collective.ALL_REDUCE: Algorithm.TREE})
    spread = study_replay(built, traces, placement=PlacementName.SPREAD)
    listed = study_replay(built, traces, placement=range(15, -1, -1))
    other = study_replay(built, traces, engine="analytic")
    assert tree.times.replayed_s != ring.times.replayed_s
    assert spread.gpus != ring.gpus == tuple(range(16))
    assert (listed.gpus, listed.placement) == (tuple(range(15, -1, -1)), "list")
    assert (ring.result.engine, other.result.engine) == ("flow", "analytic")
    (total,) = ring.to_json(5)["by_operation"]
    assert total["library_s"] == ring.library_s["all-reduce", 16 * MIB, 16]
    steps = []
    study_replay(built, traces, progress=lambda step, part: steps.append((step, part)))
    assert steps[0] == ("placing", 0.0)
