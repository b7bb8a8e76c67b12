"""What is known of a run before its end: each job as soon as it is over."""

from itertools import pairwise

import pytest

import railweave
from railweave.engine.flow import FlowRun
from railweave.engine.packet import PacketRun
from railweave.report import partial
from railweave.report.partial import Partial

DESIGN = """\
railweave: 1
name: two servers
cluster:
  servers: {count: 2, inline: {gpus: 4, nics: 4, nic_speed: 100 Gb/s}}
planes:
  backend: {transport: rocev2, topology: leaf-spine}
jobs:
  - {name: long, collective: all-to-all, size: 16 MiB, ranks: all, iterations: 2}
  - {name: short, collective: all-reduce, size: 1 KiB, ranks: all}
"""


class Clock:
    """Goes on only when told."""

    now_s = 100.0

    def monotonic(self):
        return self.now_s


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(partial, "time", clock)
    return clock


@pytest.mark.parametrize(("engine", "events"), [(FlowRun, 1), (PacketRun, 2000)])
def test_a_job_is_told_when_it_is_over_and_the_others_go_on(clock, engine, events):
    built = railweave.parse(DESIGN).build()
    work, told = built.workload(), []
    known = Partial(work, told.append)
    run = engine(built.fabric, work.traffic, built.routing())
    while not run.advance(max_events=events):
        clock.now_s += 1000.0
        known.watch(run)
    known.simulated(result := run.result())
    for number, (before, after) in enumerate(pairwise(told)):
        assert before["simulated_s"] <= after["simulated_s"], number
        assert before["delivered"] <= after["delivered"] <= 1
        assert before["tasks_done"] <= after["tasks_done"] <= after["tasks"] == work.traffic.n_tasks
    early = next(doc for doc in told if doc["jobs"][1]["time_s"] is not None)
    long, short = early["jobs"]
    assert (long["name"], long["time_s"], long["algbw_Bps"]) == ("long", None, None)
    assert long["tasks_done"] < long["tasks"]
    assert 0 < short["time_s"] <= early["simulated_s"] < result.makespan_s
    assert short["algbw_Bps"] == pytest.approx(1024 / short["time_s"])
    assert short["busbw_Bps"] == pytest.approx(short["algbw_Bps"] * 2 * 7 / 8)
    last = told[-1]
    assert last["jobs"][1] == short
    span = result.task_finish_s[result.frame()["label"].str.starts_with("long").to_numpy()].max()
    assert last["jobs"][0]["time_s"] == pytest.approx(span / 2)  # two iterations
    assert (last["delivered"], last["simulated_s"]) == (1.0, result.makespan_s)


def test_it_is_told_early_then_seldom(clock):
    built = railweave.parse(DESIGN).build()
    work, told = built.workload(), []
    known = Partial(work, told.append)
    run = FlowRun(built.fabric, work.traffic, built.routing())
    moments = []
    for _ in range(3000):  # 30 s in steps of 10 ms
        before = len(told)
        known.watch(run)
        if len(told) > before:
            moments.append(clock.now_s - 100.0)
        clock.now_s += 0.01
    assert moments[0] == pytest.approx(0.1, abs=0.02)
    gaps = [b - a for a, b in pairwise(moments)]
    assert min(gaps) >= 0.99
    assert gaps == sorted(gaps)
    assert gaps[-1] > 3.0  # a fifth of the time it has taken


def test_looking_costs_little_of_the_time(clock):
    built = railweave.parse(DESIGN).build()
    work, told = built.workload(), []
    run = FlowRun(built.fabric, work.traffic, built.routing())

    def slowly(document):
        clock.now_s += 2.0
        told.append(document)

    known = Partial(work, slowly)
    clock.now_s += 1.0
    known.watch(run)
    clock.now_s += 39.0
    known.watch(run)
    assert len(told) == 1
    clock.now_s += 2.0
    known.watch(run)
    assert len(told) == 2
