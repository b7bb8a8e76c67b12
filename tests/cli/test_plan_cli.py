"""``railweave plan`` says what Python says, writes its files, and refuses what means nothing.

``RAILWEAVE_UPDATE_GOLDEN=1`` writes the golden files anew.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

import railweave
from golden_text import is_as_kept
from railweave.catalog import default_catalog
from railweave.design.models import PlacementName, Precision
from railweave.predict.plan_cluster import cluster_of_design, cluster_of_server
from railweave.predict.plan_study import PlanQuestion, study_plan
from railweave.report.training import plan_json

GOLDEN = Path(__file__).parents[1] / "golden"
DESIGN = "tests/golden/small.yaml"
SERVER = ("plan", "llama3-8b", "--server", "dgx-h100", "--gpus", "16", "--batch", "64")
ON = ("plan", "llama3-8b", "--design", DESIGN, "--batch", "64", "--fix", "tensor=2,context=1")

KEPT = {
    "plan": (*ON, "--gpu-hour", "2.5", "--tokens", "1T", "--oversubscription", "2"),
    "plan-server": (*SERVER, "--fix", "context=1", "--scale", "8,16,32", "--top", "3"),
}


@pytest.mark.parametrize("name", KEPT)
def test_printed_output_is_as_kept(cli, name):
    outcome = cli(*KEPT[name])
    assert outcome.code == 0, outcome.err
    assert is_as_kept(outcome.out, GOLDEN / f"{name}.txt")


def test_tables_fit_80_columns(cli):
    lines = cli(*KEPT["plan"]).out.splitlines()
    last = next(i for i, line in enumerate(lines) if line.startswith("overlap:"))
    notes = ("TP with", "exp.:", "Usable", "takes:", "network:", "lost to it", "Wider", "16 GPUs")
    tables = [line for line in lines[:last] if not line.startswith(notes)]
    assert max(len(line) for line in tables) <= 80


def test_help_has_an_example(cli):
    outcome = cli("plan", "--help")
    assert outcome.code == 0
    assert "Example: railweave plan" in outcome.out


# ---------------------------------------------------------------- the same as Python


def same(study) -> object:
    return json.loads(json.dumps(plan_json(study)))


def test_on_servers(cli):
    outcome = cli(*SERVER, "--json", "--top", "2")
    assert outcome.code == 0, outcome.err
    catalog = default_catalog()
    cluster = cluster_of_server(catalog, "dgx-h100", 16)
    study = study_plan(PlanQuestion(catalog.model("llama3-8b"), batch=64, top=2), cluster)
    assert json.loads(outcome.out) == same(study)


def test_on_a_design_with_everything(cli):
    outcome = cli(
        *(*ON, "--gpus", "8", "--sequence", "4Ki", "--precision", "fp8", "--top", "2", "--json"),
        *("--scale", "8,16", "--scaling", "strong", "--oversubscription", "2:1"),
        *("--fail", "spine-1", "--placement", "random, spread"),
        *("--gpu-hour", "3", "--steps", "7"),
    )
    assert outcome.code == 0, outcome.err
    built = railweave.load(Path(DESIGN)).build()
    question = PlanQuestion(
        built.document.catalog.model("llama3-8b"),
        batch=64,
        sequence=4096,
        precision=Precision.FP8,
        fixed={"tensor": 2, "context": 1},
        top=2,
        counts=(8, 16),
        mode="strong",
        oversubscription=(2.0,),
        fail=("spine-1",),
        placements=(PlacementName.RANDOM, PlacementName.SPREAD),
        gpu_hour=3.0,
        steps=7,
    )
    study = study_plan(question, cluster_of_design(built, 8, name=DESIGN))
    assert json.loads(outcome.out) == same(study)


def test_scale_auto_goes_round_the_count(cli):
    found = json.loads(cli(*SERVER, "--fix", "tensor=2", "--scale", "auto", "--json").out)
    assert [point["gpus"] for point in found["scaling"]["points"]] == [8, 16, 32, 64, 128]


def test_waiting_for_input_is_shown_with_its_price(cli):
    asked = (*SERVER, "--fix", "tensor=2,context=1", "--top", "1", "--gpu-hour", "2")
    plain, late = cli(*asked), cli(*asked, "--input", "60 s")
    assert not [line for line in plain.out.splitlines() if line.startswith("input")]
    rows = [line.split() for line in late.out.splitlines() if line.startswith("input ")]
    assert len(rows) == 2  # of the times, of the prices
    found = json.loads(cli(*asked, "--input", "60 s", "--json").out)
    assert found["input_s"] == found["best"]["step_s"] == 60
    waited = found["best"]["idle_s"]["input"]
    assert found["cost"]["lost"]["input"] == pytest.approx(16 * waited / 3600 * 2)
    words = " ".join(late.out.split())
    assert "input: loading a step's samples takes 60 s whatever the plan" in words
    assert "% input" in words


# ---------------------------------------------------------------- files


def test_files_are_written_and_named(cli, tmp_path):
    trace, page = tmp_path / "new" / "step.json.gz", tmp_path / "plan.html"
    outcome = cli(*SERVER, "--fix", "tensor=2", "--trace", str(trace), "--html", str(page))
    assert outcome.out.splitlines()[-2:] == [f"Trace: {trace}", f"Report: {page}"]
    events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    assert {event["ph"] for event in events} == {"M", "X", "C"}
    assert page.read_text("utf-8").startswith("<!doctype html>")


def test_files_that_cannot_be_written_are_refused_before_the_work(cli, tmp_path):
    (tmp_path / "file").write_text("", "utf-8")
    outcome = cli(*SERVER, "--html", str(tmp_path / "file" / "plan.html"))
    assert outcome.code == 2
    assert "is a file" in outcome.err


# ---------------------------------------------------------------- what is wrong


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("plan", "llama3-8b"), "name the cluster"),
        ((*SERVER, "--design", DESIGN), "one of the two"),
        (("plan", "llama3-8b", "--server", "dgx-h100"), "how many GPUs with --gpus"),
        (("plan", "llama3-8b", "--server", "dgx-h10", "--gpus", "8"), "did you mean 'dgx-h100'"),
        (("plan", "llama3-9b", "--server", "dgx-h100", "--gpus", "8"), "did you mean 'llama3-8b'"),
        ((*ON, "--gpu", "h200"), "--gpu speaks of --server"),
        ((*ON, "--gpus", "5000"), "allowed: 1…"),
        ((*SERVER, "--scaling", "weak"), "--scaling speaks of --scale"),
        ((*SERVER, "--scale", "many"), "no list of numbers"),
        ((*SERVER, "--scale", "8.5"), "whole numbers"),
        ((*SERVER, "--oversubscription", "2"), "name a design"),
        ((*SERVER, "--steps", "5"), "price of a GPU-hour"),
        ((*SERVER, "--batch", "0"), "cannot be read"),
        ((*SERVER, "--input", "3"), "--input: '3' is not a number with a unit"),
        ((*SERVER, "--input", "-3 s"), "give a time of 0 or more"),
        ((*SERVER, "--fix", "tensr=8"), "did you mean 'tensor'"),
        ((*SERVER, "--tokens", "some", "--gpu-hour", "1"), "no whole number"),
        ((*ON, "--fail", "spine-99"), "spine-99"),
        ((*ON, "--placement", "scattered"), "allowed: packed, spread"),
    ],
)
def test_what_means_nothing_is_refused(cli, arguments, words):
    outcome = cli(*arguments)
    assert outcome.code == 2
    assert words in outcome.err
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize(
    ("fix", "words"),
    [
        ("tensor=3", ("allowed: 1, 2, 4, 8", "tensor 4 instead of 3")),
        ("tensor=16", ("exceeds the scale-up domain", "tensor 8 instead of 16")),
        ("data=32", ("exceeds the 16 GPUs", "data 16 instead of 32")),
        ("pipeline=5", ("does not divide the 16 GPUs", "pipeline 4 instead of 5")),
        (
            "tensor=1,pipeline=1,zero=0,context=1",
            ("memory: none of the", "nearest that would", "instead of"),
        ),
    ],
)
def test_wrong_degrees_are_answered_with_the_nearest(cli, fix, words):
    outcome = cli(*SERVER, "--fix", fix)
    assert outcome.code == 2
    assert outcome.out == ""
    for part in words:
        assert part in outcome.err


def test_too_few_gpus_are_answered_with_more(cli):
    outcome = cli("plan", "llama3-70b", "--server", "dgx-h100", "--gpus", "2")
    assert outcome.code == 2
    assert "GPUs instead of 2" in outcome.err
