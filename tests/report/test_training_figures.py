"""Figures, tables, trace and page of a plan show its numbers; nothing of them is made up."""

from __future__ import annotations

import gzip
import html
import json
import re
from dataclasses import replace

import numpy as np
import pytest

import railweave
from railweave.catalog import default_catalog
from railweave.predict.plan_cluster import cluster_of_design, cluster_of_server
from railweave.predict.plan_study import PlanQuestion, study_plan
from railweave.predict.timeline import step_timeline
from railweave.report import training_figures as figures
from railweave.report import training_tables as tables
from railweave.report.style import house_layout
from railweave.report.training import (
    plan_json,
    study_tables,
    timeline_trace,
    write_plan_page,
    write_plan_trace,
)

CATALOG = default_catalog()
TEXT = """\
railweave: 1
name: small
cluster:
  servers: {count: 8, inline: {gpus: 4, nics: 4, nic_speed: 100 Gb/s, scale_up_bandwidth: 1 Tb/s}}
planes:
  backend: {transport: rocev2, topology: leaf-spine, switch: {radix: 16, speed: 100 Gb/s}}
"""


@pytest.fixture(scope="module")
def study():
    """Return a plan of four stages with two chunks, its curve, another network and prices."""
    question = PlanQuestion(
        CATALOG.model("llama3-8b"),
        batch=64,
        fixed={"tensor": 2, "pipeline": 4, "interleave": 2, "context": 1},
        top=2,
        counts=(16, 32),
        oversubscription=(4.0,),
        gpu_hour=2.0,
        steps=1000,
    )
    return study_plan(question, cluster_of_design(railweave.parse(TEXT).build()))


@pytest.fixture(scope="module")
def deep():
    """Return a plan of 32 stages."""
    question = PlanQuestion(
        CATALOG.model("llama3-8b"), batch=128, fixed={"tensor": 1, "pipeline": 32, "interleave": 1}
    )
    return study_plan(question, cluster_of_server(CATALOG, "dgx-h100", 32))


# ---------------------------------------------------------------- timeline


def test_every_span_is_drawn_once_where_it_happens(study):
    timeline = study.timeline
    figure = figures.draw_timeline(timeline)
    pairs, _ = figures.timeline_rows(timeline)
    assert sum(len(trace.x) for trace in figure.data) == len(timeline)
    used = sorted(set(timeline.name.tolist()))
    assert [trace.name for trace in figure.data] == [timeline.names[i] for i in used]
    drawn = {
        (trace.name, pairs[int(row)], round(float(base), 7), round(float(long), 7))
        for trace in figure.data
        for row, base, long in zip(trace.y, trace.base, trace.x, strict=True)
    }
    i = len(timeline) // 2
    there = (int(timeline.stage[i]), int(timeline.stream[i]))
    start, end = timeline.start_s[i], timeline.end_s[i]  # the step takes seconds, so they are shown
    assert figure.layout.xaxis.ticksuffix == " s"
    name = timeline.names[timeline.name[i]]
    assert any(
        one[:2] == (name, there) and one[2:] == pytest.approx((start, end - start), abs=1e-6)
        for one in drawn
    )
    assert figure.layout.xaxis.range[1] == pytest.approx(study.best.step_s)


def test_rows_name_stage_and_stream(study):
    figure = figures.draw_timeline(study.timeline)
    assert figure.layout.yaxis.ticktext[0] == "0 · compute"
    assert len(figure.layout.yaxis.ticktext) == len(set(figure.layout.yaxis.ticktext))


def test_of_many_stages_some_are_drawn_and_it_says_so(deep):
    pairs, stages = figures.timeline_rows(deep.timeline)
    assert stages[0] == 0
    assert stages[-1] == 31
    assert len(stages) <= 8
    assert {stage for stage, _ in pairs} == set(stages)
    title = figures.draw_timeline(deep.timeline).layout.title.text
    assert f"{len(stages)} of 32 stages" in title


@pytest.mark.parametrize(
    ("name", "like"),
    [
        ("forward tensor", "tensor"),
        ("exposed tensor", "tensor"),
        ("send gradients", "pipeline"),
        ("reduce gradients", "data"),
        ("gather weights", "data"),
        ("slowest rank", "slowest rank"),
        ("forward", "forward"),
    ],
)
def test_one_thing_has_one_colour(name, like):
    assert figures.colour_of(name) == figures.ACTION_COLOURS[like]


# ---------------------------------------------------------------- other figures


def test_time_by_stage_adds_up_to_the_step(study):
    figure = figures.draw_idle(study.best)
    total = np.sum([trace.y for trace in figure.data], axis=0)
    assert total == pytest.approx(study.best.step_s, rel=1e-6)


def test_memory_by_part_adds_up_to_all(study):
    figure = figures.draw_memory(study.best)
    total = np.sum([trace.y for trace in figure.data], axis=0)
    stages = study.best.memory.stages
    assert total == pytest.approx([stage.total_bytes / 1e9 for stage in stages])
    assert f"{study.best.memory.usable_bytes / 1e9:.1f} GB" in figure.layout.annotations[0].text


def test_the_curve_shows_rate_and_share(study):
    figure = figures.draw_scaling(study.curve)
    by_name = {trace.name: trace for trace in figure.data}
    points = study.curve.points
    assert list(by_name["tokens/s"].y) == [point.estimate.tokens_per_s for point in points]
    lost = by_name["share lost to the network"].y
    assert list(lost) == pytest.approx([100 * point.case.lost_share for point in points])


def test_short_steps_are_drawn_in_milliseconds(study):
    timeline = step_timeline(study.best)
    short = replace(
        timeline,
        step_s=timeline.step_s / 1e3,
        start_s=timeline.start_s / 1e3,
        end_s=timeline.end_s / 1e3,
    )
    axis = figures.draw_timeline(short).layout.xaxis
    assert (axis.ticksuffix, axis.range[1]) == (" ms", pytest.approx(timeline.step_s))


def test_networks_show_what_is_lost(study):
    figure = figures.draw_networks(study.networks)
    total = np.sum([trace.x for trace in figure.data], axis=0)
    assert total == pytest.approx([case.step_s for case in study.networks])


def test_figures_have_the_one_style(study):
    wanted = house_layout()["font"]["family"]
    for figure in (
        figures.draw_timeline(study.timeline),
        figures.draw_idle(study.best),
        figures.draw_memory(study.best),
        figures.draw_scaling(study.curve),
        figures.draw_networks(study.networks),
    ):
        assert figure.layout.font.family == wanted
        assert figure.layout.paper_bgcolor == "rgba(0,0,0,0)"


# ---------------------------------------------------------------- tables


def test_tables_have_what_was_asked_for(study, deep):
    assert [table.id for table in study_tables(study)] == [
        "plans",
        "time",
        "memory",
        "communication",
        "scaling",
        "networks",
        "cost",
    ]
    assert [table.id for table in study_tables(deep)] == [
        "plans",
        "time",
        "memory",
        "communication",
    ]


def test_rows_are_as_wide_as_headers(study, deep):
    for table in (*study_tables(study), *study_tables(deep)):
        assert {len(row) for row in table.rows} == {len(table.header)}
        assert set(table.optional) <= set(table.header) | {"MFU", "batch"}


def test_the_ranking_names_degrees(study):
    table = tables.plan_table(study.search)
    first = dict(zip(table.header, table.rows[0], strict=True))
    plan = study.best.plan
    assert first["TP"].rstrip("s") == "2"
    assert first["PP"] == "4×2"
    assert first["DP"] == str(plan.degrees.data)
    assert first["m×b"] == f"{plan.micro_batches}×{plan.micro_batch}"
    assert "CP" not in table.header  # nobody has it


def test_memory_of_many_stages_leaves_some_out(deep):
    table = tables.memory_table(deep.best)
    full = deep.best.memory.fullest.stage
    shown = [int(row[0]) for row in table.rows]
    assert full in shown
    assert {0, 31} <= set(shown)
    assert f"{32 - len(shown)} stages between are left out" in table.notes[0]


@pytest.mark.parametrize(("count", "most"), [(1, 4), (4, 4), (5, 4), (100, 16)])
def test_shown_stages_have_both_ends(count, most):
    shown = tables.shown_stages(count, most)
    assert len(shown) <= most
    assert shown[0] == 0
    assert shown[-1] == count - 1


def test_prices_of_the_run_are_shown(study):
    table = tables.cost_table(study.price(study.best))
    run = study.price(study.best).run_price
    assert table.rows[0][2] == tables.money(run)
    assert "1,000 steps" in table.notes[0]


# ---------------------------------------------------------------- document, trace, page


def test_the_document_is_plain_and_has_the_numbers(study):
    document = json.loads(json.dumps(plan_json(study)))
    best = document["best"]
    assert best["step_s"] == study.best.step_s
    assert best["plan"]["pipeline"] == 4
    stages = zip(*best["idle_by_stage"].values(), strict=True)
    for compute, idle in zip(best["compute_by_stage"], stages, strict=True):
        assert compute + sum(idle) == pytest.approx(best["step_s"])
    assert document["cost"]["run_price"] == pytest.approx(1000 * document["cost"]["step_price"])
    assert document["scaling"]["points"][1]["gpus"] == 32
    assert document["networks"][1]["name"] == "4:1 leaves"


def test_the_trace_is_the_trace_event_format(study, tmp_path):
    path = write_plan_trace(study, tmp_path / "step.json")
    document = json.loads(path.read_text("utf-8"))
    spans = [event for event in document["traceEvents"] if event["ph"] == "X"]
    assert len(spans) == len(study.timeline)
    assert all({"ph", "ts", "dur", "pid", "tid", "name"} <= set(event) for event in spans)
    assert max(event["ts"] + event["dur"] for event in spans) == pytest.approx(
        study.best.step_s * 1e6, rel=1e-6
    )
    per_stage = 32 // 4
    assert {event["pid"] for event in spans} == {stage * per_stage for stage in range(4)}
    named = {e["args"]["name"] for e in document["traceEvents"] if e["name"] == "process_name"}
    assert "stage 1: ranks 8–15" in named
    lines = {(e["pid"], e["tid"]) for e in document["traceEvents"] if e["name"] == "thread_name"}
    assert {(event["pid"], event["tid"]) for event in spans} <= lines
    assert document["otherData"]["step_s"] == study.best.step_s


def test_the_counter_keeps_no_passes_at_the_end(study):
    _, events = timeline_trace(study.timeline, study.best.plan)
    kept = [event for event in events if hasattr(event, "values")]
    by_stage: dict[int, list[float]] = {}
    for event in kept:
        by_stage.setdefault(event.process, []).append(event.values["passes"])
    assert len(by_stage) == 4
    for counts in by_stage.values():
        assert counts[-1] == 0
        assert min(counts) == 0
    assert max(by_stage[0]) > max(by_stage[24])  # the first stage keeps most


def test_a_trace_may_be_compressed(study, tmp_path):
    path = write_plan_trace(study, tmp_path / "step.json.gz")
    assert json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]


def test_the_page_asks_nothing_of_the_network_and_has_everything(study, tmp_path):
    page = write_plan_page(study, tmp_path / "plan.html").read_text("utf-8")
    body = html.unescape(re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL))
    assert not re.findall(r"(?:src|href)=", body)
    assert page.count("Plotly.newPlot") >= 5
    for table in study_tables(study):
        assert table.title in body
    assert "What this rests on" in body
    assert "Formula and inputs" in body
    assert "Llama 3 8B on 32 GPUs" in body
