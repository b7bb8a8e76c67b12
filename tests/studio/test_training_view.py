"""The training step's page without a browser: its numbers are the command line's."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import shlex
import statistics
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from railweave.cli._app import app
from railweave.design.models import Precision, Recompute
from railweave.errors import InputError
from railweave.predict.plan_space import plan_values
from railweave.predict.plan_study import PlanStudy
from railweave.studio.labs._training import (
    Given,
    Offer,
    Refusal,
    Scaling,
    State,
    answer,
    cluster_of,
    counts_of,
    fixed_of,
    with_plan,
)
from railweave.studio.labs._training_jobs import (
    best_plan,
    best_work,
    job_key,
    only_degrees,
    refusal_of,
    scaling,
    table_of,
)
from railweave.studio.labs._training_view import (
    Refused,
    View,
    memory_figure,
    step_figures,
    timeline_view,
    trace_file,
    view,
)
from railweave.studio.state import from_query, to_query

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NAME = "superpod-h100-1su.yaml"
TEXT = (EXAMPLES / NAME).read_text(encoding="utf-8")
#: a small plan with something of everything: two stages, waits, a bubble
SMALL = State(
    model="llama3-8b", gpus=32, batch="64", sequence="4096", tensor=4, pipeline=2, zero=1,
    gpu_hour=2.0, tokens="15T", scale="16,32",
)  # fmt: skip
SERVERS = replace(SMALL, where="dgx-h100", tokens="")


def given(state: State) -> Given:
    design = state.where == "design"
    return Given(state, TEXT if design else "", NAME if design else "")


@pytest.fixture(scope="module")
def shown() -> View:
    found = view(given(SMALL))
    assert isinstance(found, View)
    return found


@pytest.fixture(scope="module")
def scaled() -> dict[str, Any]:
    return scaling(given(SMALL))


def cli(command: str) -> dict[str, Any]:
    words = [*shlex.split(command)[1:], "--json"]
    with contextlib.chdir(EXAMPLES):
        result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = json.loads(result.output)
    return document


@pytest.fixture(scope="module")
def told(shown: View) -> dict[str, Any]:
    """What the copied command says."""
    return cli(shown.reproduce.command)


def values(found: View) -> dict[str, float]:
    return {number.key: number.value for number in found.numbers}


# ---------------------------------------------------------------- the same as the command line


def test_numbers_are_those_of_the_copied_command(shown, told):
    mine, plan, best = values(shown), told["plans"][0], told["best"]
    step_s = plan["step_s"]
    assert mine == pytest.approx(
        {
            "step_time": step_s,
            "tokens_per_s": plan["tokens_per_s"],
            "mfu": plan["mfu"],
            "bubble": plan["bubble_s"] / step_s,
            "exposed_communication": plan["network_share"],
            "lost_to_network": best["lost_share"],
            "gpu_idle": sum(plan["idle_s"].values()) / step_s,
            "gpu_memory": plan["memory_bytes"],
            "memory_share": plan["memory_bytes"] / best["memory"]["usable_bytes"],
            "step_price": told["cost"]["step_price"],
            "idle_price": sum(told["cost"]["lost"].values()),
            "run_price": told["cost"]["run_price"],
        },
        rel=1e-12,
    )
    assert all(value > 0 for value in mine.values())
    assert told["on_fabric"]
    assert told["cluster"].startswith(NAME)


def test_tables_are_those_of_the_command_line(shown, told):
    reasons = {row[0] for row in shown.tables["time"].rows}
    named = {name for name, idle in told["plans"][0]["idle_s"].items() if idle > 1e-6}
    assert named | {"arithmetic", "step"} == reasons
    stages = told["best"]["memory"]["stages"]
    totals = [f"{stage['total_bytes'] / 1e9:.1f}" for stage in stages]
    assert [row[6] for row in shown.tables["memory"].rows] == totals
    assert len(shown.tables["communication"].rows) == len(told["best"]["communications"])
    paid = {row[0] for row in shown.tables["cost"].rows}
    assert paid >= named - {"input"}


def test_the_scaling_curve_is_the_command_lines(scaled, told):
    assert scaled["points"] == told["scaling"]["points"]
    assert [point["gpus"] for point in scaled["points"]] == [16, 32]
    table = table_of(json.loads(json.dumps(scaled["table"])))
    assert [row[0] for row in table.rows] == ["16", "32"]
    assert table.header[-1] == "price"
    step = scaled["points"][1]["step_s"]
    assert step == pytest.approx(told["best"]["step_s"], rel=1e-12)


@pytest.mark.parametrize("state", [replace(SMALL, scale="32"), replace(SERVERS, scale="32,64")])
def test_the_copied_python_prints_the_same(state, monkeypatch):
    found = view(given(state))
    assert isinstance(found, View)
    monkeypatch.chdir(EXAMPLES)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(found.reproduce.python, "copied", "exec"), {})
    first, *points = out.getvalue().splitlines()
    mine = values(found)
    printed = [float(word) for word in first.split()]
    keys = ("step_time", "tokens_per_s", "mfu", "gpu_memory")
    assert printed == pytest.approx([mine[key] for key in keys], rel=1e-12)
    assert [int(line.split()[0]) for line in points] == list(
        counts_of(state, cluster_of(given(state)))
    )


def test_catalog_servers_need_no_design():
    found = view(given(SERVERS))
    assert isinstance(found, View)
    assert "--server dgx-h100" in found.reproduce.command
    document = cli(found.reproduce.command)
    assert values(found)["step_time"] == pytest.approx(document["plans"][0]["step_s"], rel=1e-12)
    assert "by closed forms" in found.words[0]


# ---------------------------------------------------------------- the search


def test_the_best_plan_is_the_command_lines():
    state = State(model="llama3-8b", gpus=16, batch="32", sequence="2048")
    document = best_plan(given(state), ())
    json.dumps(document)
    best = with_plan(state, document["plans"][0])
    study = answer(given(best))
    assert isinstance(study, PlanStudy)
    command = f"railweave plan llama3-8b --gpus 16 --design {NAME} --batch 32 --sequence 2048"
    found = cli(command)
    assert study.best.step_s == pytest.approx(found["plans"][0]["step_s"], rel=1e-12)
    assert len(document["plans"]) == len(found["plans"]) == len(table_of(document["table"]).rows)
    assert document["said"][1:] == found["why"]


def test_the_search_can_keep_the_degrees():
    degrees = only_degrees(SMALL)
    assert degrees == {"tensor": 4, "context": 1, "pipeline": 2, "expert": 1}
    steps: list[str] = []

    class Context:
        def progress(self, step: str, fraction: float) -> None:
            steps.append(step)

    found = best_work((given(SMALL), tuple(degrees.items())), Context())  # type: ignore[arg-type]
    assert all(plan["tensor"] == 4 and plan["pipeline"] == 2 for plan in found["plans"])
    best = answer(given(with_plan(SMALL, found["plans"][0])))
    mine = answer(given(SMALL))
    assert isinstance(best, PlanStudy)
    assert isinstance(mine, PlanStudy)
    assert best.best.step_s <= mine.best.step_s
    assert "search" in steps


def test_a_search_that_finds_nothing_offers_what_would_do():
    state = State(model="llama3-405b", gpus=8, batch="8")
    found = json.loads(json.dumps(best_plan(given(state), ())))
    assert found["plans"] == []
    refusal = refusal_of(found)
    assert "memory" in refusal.reasons[0]
    assert refusal.offers
    assert refusal.offers[0].state.gpus > 8
    assert refusal.offers[0].state.chosen


def test_inputs_of_an_address_name_the_same_plan():
    plan = replace(SMALL, recompute=Recompute.FULL, sequence_parallel=False, zero=2)
    again, problems = from_query(State, dict(p.split("=") for p in to_query(plan).split("&")))
    assert not problems
    assert fixed_of(again) == fixed_of(plan)
    assert plan_values(answered(plan).best.plan).items() >= fixed_of(plan).items()


def answered(state: State) -> PlanStudy:
    found = answer(given(state))
    assert isinstance(found, PlanStudy)
    return found


def test_what_the_plan_does_not_say_is_left_to_the_search():
    assert fixed_of(State()) == {}
    assert "data" not in fixed_of(SMALL)
    assert fixed_of(replace(SMALL, data=4))["data"] == 4
    assert fixed_of(replace(SMALL, tensor=1))["sequence-parallel"] == 0
    assert fixed_of(SMALL)["sequence-parallel"] == 1


def test_a_job_is_known_by_all_that_it_depends_on():
    keys = [
        job_key(given(SMALL)),
        job_key(given(replace(SMALL, mode=Scaling.STRONG))),
        job_key(replace(given(SMALL), text=TEXT + "\n# other\n")),
        job_key(given(SMALL), fixed=[["tensor", 4]]),
    ]
    assert len({json.dumps(key, sort_keys=True) for key in keys}) == len(keys)


# ---------------------------------------------------------------- what cannot be


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"tensor": 3}, "tensor 3 does not divide the 32 GPUs; allowed: 1, 2, 4, 8"),
        ({"data": 5}, "data 5 does not divide the 32 GPUs"),
        ({"expert": 2}, "does not divide the model, which has no experts"),
        ({"pipeline": 64}, "exceeds the 32 GPUs"),
        ({"interleave": 5}, "interleav"),
    ],
)
def test_wrong_degrees_are_answered_with_plans_that_can_be_taken(wrong, reason):
    found = view(given(replace(SMALL, **wrong)))
    assert isinstance(found, Refused)
    assert reason in " ".join(found.refusal.reasons)
    assert found.memory is None
    assert found.refusal.offers
    for offer in found.refusal.offers:
        assert isinstance(offer, Offer)
        assert isinstance(view(given(offer.state)), View), offer
    name, value = next(iter(wrong.items()))
    assert f"instead of {value}" in found.refusal.offers[0].text
    assert getattr(found.refusal.offers[0].state, name) != value


def test_what_does_not_fit_is_shown_with_its_memory():
    state = replace(SMALL, model="llama3-70b", gpus=8, tensor=8, pipeline=1, zero=0, batch="8")
    refused = view(given(state))
    assert isinstance(refused, Refused)
    assert refused.refusal.reasons[0].startswith("memory:")
    asked = refused.refusal.asked
    assert asked is not None
    assert not asked.memory.fits
    assert refused.memory is not None
    assert float(refused.memory.rows[0][-1].removesuffix(" %")) > 100
    assert memory_figure(given(state)) is not None
    assert step_figures(given(state)) is None
    assert timeline_view(given(state)) is None
    assert trace_file(given(state)) is None
    assert memory_figure(given(SMALL)) is None


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"model": "llama3-7b"}, "did you mean 'llama3-70b'"),
        ({"where": "dgx-h100", "gpus": 0}, "say how many GPUs"),
        ({"where": "dgx-h200x", "gpus": 8}, "dgx-h200"),
        ({"gpus": 4096}, "the design has 248"),
        ({"batch": "many"}, "cannot be read"),
        ({"sequence": "1.5"}, "no whole number"),
        ({"tokens": "some"}, "no whole number"),
        ({"gpu_hour": -1.0}, "give 0 or more"),
        ({"scale": "8,x"}, "no whole number"),
        ({"scale": ","}, "none is named"),
        ({"precision": Precision.FP8, "where": "dgx-a100"}, "FP8"),
    ],
)
def test_inputs_that_mean_nothing_are_answered_with_a_sentence(wrong, said):
    state = replace(SMALL, **wrong)
    with pytest.raises(InputError, match=said):
        view(given(state))


def test_nothing_is_priced_at_a_price_of_0():
    found = view(given(replace(SMALL, gpu_hour=0.0)))
    assert isinstance(found, View)
    assert not {"step_price", "idle_price", "run_price"} & values(found).keys()
    assert "cost" not in found.tables
    assert "--gpu-hour" not in found.reproduce.command


# ---------------------------------------------------------------- figures and the rest


def test_figures_show_the_step(shown):
    figures = step_figures(given(SMALL))
    assert figures is not None
    idle, memory = figures
    total = sum(sum(trace.y) for trace in idle.data) / 2  # two stages
    assert total == pytest.approx(values(shown)["step_time"], rel=1e-6)
    heights = [sum(trace.y[stage] for trace in memory.data) for stage in range(2)]
    assert max(heights) * 1e9 == pytest.approx(values(shown)["gpu_memory"], rel=1e-9)


def test_the_timeline_is_drawn_listed_and_exported(shown):
    found = timeline_view(given(SMALL))
    assert found is not None
    figure, rows = found
    assert figure.layout.xaxis.range[1] == pytest.approx(values(shown)["step_time"])
    assert [row.time_s for row in rows] == sorted(row.time_s for row in rows)
    assert any(row.what.startswith("forward, micro-batch 0") for row in rows)
    exported = trace_file(given(SMALL))
    assert exported is not None
    document = json.loads(gzip.decompress(exported))
    spans = [event for event in document["traceEvents"] if event["ph"] == "X"]
    assert len(spans) == len(answered(SMALL).timeline)


def test_counts_of_a_design_stay_within_reach():
    small = counts_of(replace(SMALL, scale="auto"), cluster_of(given(SMALL)))
    assert small == (8, 16, 32, 64, 128, 256)
    assert counts_of(SMALL, cluster_of(given(SMALL))) == (16, 32)


def test_other_micro_batches_are_answered_within_the_time_of_a_slider():
    view(given(SMALL))
    taken = []
    for count in (2, 4, 8, 16):
        began = time.thread_time()
        view(given(replace(SMALL, micro_batch=count)))
        taken.append(time.thread_time() - began)
    assert statistics.median(taken) < 0.06


def test_the_refusal_of_an_answer_is_no_study():
    assert isinstance(answer(given(replace(SMALL, tensor=3))), Refusal)
