"""What a run predicts of its training jobs and collectives, in the record, the page and JSON."""

from __future__ import annotations

import html
import json
import re
import shlex

import pytest

import railweave
from railweave.predict import design_jobs
from railweave.predict.collective import choose
from railweave.predict.network_part import measure_network
from railweave.predict.plan_cluster import cluster_of_design
from railweave.predict.plan_space import parse_fixed, plan_values
from railweave.predict.system import system_of
from railweave.report import predicted
from railweave.report.html import MOST_DRAWN_STEPS, render_html
from railweave.report.output import record_json
from railweave.report.predicted_tables import (
    collective_line,
    expected_table,
    step_finding,
    step_line,
    step_said,
    step_tables,
)

SERVERS = "gpus: 4, nics: 4, nic_speed: 100 Gb/s, scale_up_bandwidth: 1 Tb/s"
TRAIN = "{name: train, model: llama3-8b, ranks: 16, parallelism: {tensor: 4, pipeline: 2}, zero: 1}"
SUM = "{name: sum, collective: all-reduce, size: 256 MiB}"


def design(*jobs: str, servers: str = SERVERS, more: str = "") -> railweave.BuiltDesign:
    return railweave.parse(
        f"""\
railweave: 1
name: small
cluster: {{servers: {{count: 4, inline: {{{servers}}}}}}}
planes:
  backend:
    {{transport: rocev2, topology: leaf-spine, switch: {{radix: 16, speed: 100 Gb/s}},
     oversubscription: 2}}
jobs: [{", ".join(jobs)}]
{more}
""",
        "my design.yaml",
    ).build()


def run(*jobs: str, built: railweave.BuiltDesign | None = None, **options):
    return (built or design(*jobs, **options)).run(what_ifs=False)


@pytest.fixture(scope="module")
def record():
    return run(TRAIN, SUM)


@pytest.fixture(scope="module")
def tight():
    """Return a run of a model that does not fit."""
    return run("{name: fat, model: llama3-8b, micro_batch: 2}")


def said_on(page: str) -> str:
    body = re.sub(r"<script.*?</script>", " ", page, flags=re.DOTALL)
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body)))


# ---------------------------------------------------------------- training


def test_the_step_is_that_of_the_plan_on_the_same_gpus(record):
    (item,) = record.training
    assert (item.job, item.model, item.ranks, item.why_not) == ("train", "llama3-8b", 16, "")
    estimate = item.case.estimate
    cluster = cluster_of_design(design(TRAIN, SUM), 16)
    assert estimate.costs.groups == cluster.exact(estimate.plan.degrees).groups
    assert (estimate.gpu, estimate.plan.zero) == (cluster.gpu, 1)
    assert 0 < item.case.free_s <= estimate.step_s


def test_the_named_command_asks_for_the_same_plan(record):
    (item,) = record.training
    words = shlex.split(item.command)
    assert words[:3] == ["railweave", "plan", "llama3-8b"]
    given = dict(zip(words[3::2], words[4::2], strict=True))
    plan = item.case.estimate.plan
    assert given["--design"] == "my design.yaml"
    assert int(given["--gpus"]) == plan.ranks
    assert int(given["--batch"]) == plan.sequences_per_step
    assert int(given["--sequence"]) == plan.tokens_of_sequence
    assert given["--precision"] == plan.precision.value
    assert parse_fixed(given["--fix"]) == plan_values(plan)
    assert given["--trace"] == "step.json"


def test_json_is_small_and_adds_up(record):
    (item,) = record_json(record)["training"]
    step = item["step"]
    assert len(json.dumps(item)) < 12_000
    memory = step["memory"]
    parts = ("weights", "gradients", "optimizer", "activations", "workspace")
    assert sum(memory[f"{part}_bytes"] for part in parts) == pytest.approx(memory["total_bytes"])
    assert memory["fits"] is (memory["total_bytes"] <= memory["usable_bytes"])
    assert step["exposed_s"] == pytest.approx(
        sum(time for name, time in step["idle_s"].items() if name.startswith("exposed"))
    )
    assert step["tokens_per_s"] * step["step_s"] == pytest.approx(step["plan"]["tokens_per_step"])
    assert step["nearest"] is None
    assert item["timeline"].endswith("--trace step.json")


def test_the_page_has_a_section_with_the_timeline(record):
    page = render_html(record)
    text = said_on(page)
    assert "Training step: train" in text
    assert [f"figure-step-1-{name}" in page for name in ("timeline", "idle", "memory")] == [
        True
    ] * 3
    estimate = record.training[0].case.estimate
    assert f"MFU {100 * estimate.mfu:.1f} %" in text
    assert "the arithmetic stands undivided" in text
    assert "railweave plan llama3-8b --design 'my design.yaml'" in text
    for table in step_tables(record.training[0], 1):
        assert len({row[0] for row in table.rows}) == len(table.rows)
        assert f'id="table-{table.id}"' in page
    assert "step-exceeds-memory" not in text


def test_a_model_that_does_not_fit_is_said_with_the_nearest_that_would(tight):
    (item,) = tight.training
    finding = step_finding(item)
    assert finding.id == "step-exceeds-memory"
    assert finding.fix.startswith("nearest that would: ")
    assert item.nearest.estimate.memory.fits
    assert item.nearest.estimate.plan.sequences_per_step == 32
    assert item.command == ""  # the search has no such plan
    assert "does not fit" in step_line(item)
    text = said_on(render_html(tight))
    assert finding.message in text
    assert finding.fix in text
    assert record_json(tight)["training"][0]["step"]["nearest"] in finding.fix


def test_figures_are_drawn_of_the_first_jobs_only():
    jobs = [TRAIN.replace("train", f"train{k}") for k in range(MOST_DRAWN_STEPS + 1)]
    page = render_html(run(*jobs))
    assert f"figure-step-{MOST_DRAWN_STEPS}-timeline" in page
    assert f"figure-step-{MOST_DRAWN_STEPS + 1}-" not in page
    assert f"Figures are drawn of the first {MOST_DRAWN_STEPS} training jobs." in said_on(page)


def test_slow_gpus_are_said_to_be_left_out(record):
    slow = run(TRAIN, more="stragglers: [{gpu: 1, delay: 1 ms}]")
    assert "1 stragglers" in step_said(slow.training[0], 1.0)[-1]
    assert not any("stragglers" in line for line in step_said(record.training[0], 1.0))
    assert "The table of jobs" not in "".join(step_said(record.training[0], float("nan")))


# ---------------------------------------------------------------- collectives


def test_the_expected_busbw_is_that_of_the_library_on_this_fabric(record):
    (item,) = record.collectives
    built = design(TRAIN, SUM)
    part = measure_network(built).part
    choice = choose(system_of(built), item.choice.op, 256 << 20, network=part)
    assert item.choice.busbw_Bps == choice.busbw_Bps
    assert item.choice.best.name == choice.best.name
    assert part.ring_share < 1  # the leaves are oversubscribed
    engine = next(job for job in record.jobs if job.name == "sum")
    assert item.engine_busbw_Bps == engine.busbw_Bps


def test_expected_and_ideal_stand_side_by_side(record):
    (item,) = record.collectives
    table = expected_table(record.collectives)
    (row,) = table.rows
    choice = item.choice
    assert row[:3] == ("sum", choice.best.name, f"{choice.busbw_Bps / 1e9:.4g} GB/s")
    assert row[4] == f"{item.engine_busbw_Bps / 1e9:.4g} GB/s"
    assert f"rings {choice.network.ring_share:.0%}" in row[5]
    assert f"NCCL picks {choice.best.name}, bound by {choice.best.bound}" in table.notes[1]
    assert table.notes[1] in said_on(render_html(record))
    found = record_json(record)["collectives"][0]
    assert (
        found["expected"]["busbw_low_Bps"] < choice.busbw_Bps < found["expected"]["busbw_high_Bps"]
    )
    assert found["expected"]["option"] == choice.best.name
    assert choice.best.name in collective_line(item)


def test_ranks_of_one_server_have_no_network():
    (item,) = run(SUM.replace("256 MiB", "256 MiB, ranks: 4")).collectives
    assert expected_table([item]).rows[0][5] == "no network between the ranks"


def test_the_same_gpus_are_measured_once_and_many_sets_in_closed_form(monkeypatch):
    engines = []

    def measured(*given, engine, **options):
        engines.append(engine)
        return measure_network(*given, engine=engine, **options)

    monkeypatch.setattr(predicted, "measure_network", measured)
    jobs = [
        SUM.replace("sum", f"sum{n}").replace("MiB", f"MiB, placement: [{k}, {k + 4}]")
        for n, k in enumerate((0, 0, 1, 2, 3, 4))
    ]
    found = run(*jobs).collectives
    assert engines == ["flow"] * 4 + ["analytic"]
    assert [item.choice.network.engine for item in found] == ["flow"] * 5 + ["analytic"]


# ---------------------------------------------------------------- where nothing is predicted


def reasons(record) -> list[str]:
    return [item.why_not for item in (*record.training, *record.collectives)]


MIXED = f"""\
railweave: 1
name: mixed
cluster:
  servers:
    - {{name: new, count: 2, inline: {{{SERVERS}, gpu: h100}}}}
    - {{name: old, count: 2, inline: {{{SERVERS}, gpu: a100-80g}}}}
planes:
  backend: {{transport: rocev2, topology: leaf-spine, switch: {{radix: 16, speed: 100 Gb/s}}}}
jobs: [{TRAIN}, {SUM}]
"""


def test_gpus_of_two_generations():
    """The step takes the slower; of the library nothing is known, and that is a sentence."""
    record = run(built=railweave.parse(MIXED).build())
    (train,), (item,) = record.training, record.collectives
    assert train.case.estimate.gpu.name == "a100-80g"
    assert "ampere, hopper" in item.why_not
    text = said_on(render_html(record))
    assert f"sum: nothing is predicted of the library: {item.why_not}." in text
    assert record_json(record)["collectives"][0]["expected"] is None
    assert "nothing is predicted" in collective_line(item)
    assert item.why_not.count("\n") == 0


def test_a_step_that_cannot_be_predicted_is_a_sentence(monkeypatch):
    monkeypatch.setattr(design_jobs, "slowest_gpu", lambda *_: None)
    record = run(TRAIN)
    (reason,) = reasons(record)
    assert reason.startswith("the catalog does not know the servers' GPU")
    assert f"No step is predicted: {reason}." in said_on(render_html(record))
    assert record_json(record)["training"][0]["step"] is None
    assert "no step is predicted" in step_line(record.training[0])
    assert step_finding(record.training[0]) is None


def test_too_many_gpus(monkeypatch):
    monkeypatch.setattr(predicted, "MOST_GPUS", 15)
    found = reasons(run(TRAIN, SUM))
    assert all("more than 15 GPUs (this fabric has 16)" in reason for reason in found)
    assert "railweave plan" in found[0]
    assert "railweave collective" in found[1]


@pytest.mark.parametrize("name", ["star-64-gpus", "two-servers-4-gpus", "ring-of-switches"])
def test_other_fabrics_have_a_number_or_a_sentence(name):
    record = railweave.load(f"examples/{name}.yaml").build().run(what_ifs=False)
    for item in record.collectives:
        assert (item.choice is None) is bool(item.why_not)
    assert render_html(record)
