"""``railweave infer`` says what Python says, and refuses what cannot be served.

``RAILWEAVE_UPDATE_GOLDEN=1`` writes the golden files anew.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import railweave
from golden_text import is_as_kept
from railweave.predict.serving import ServingQuestion, estimate_serving
from railweave.report.serving import serving_json
from railweave.workload.inference import InferencePlan, Lengths, RequestLoad

GOLDEN = Path(__file__).parents[1] / "golden"
DESIGN = "tests/golden/small.yaml"
ON = ("infer", "llama3-8b", "--design", DESIGN, "--tp", "1")
SPREAD = ("infer", "mixtral-8x7b", "--design", DESIGN, "--tp", "2", "--ep", "8")

KEPT = {
    "infer": (*ON, "--rate", "20", "--requests", "40", "--prefill-gpus", "2"),
    "infer-expert": (*SPREAD, "--rate", "5", "--requests", "12", "--output", "64", "--skew", "1.5"),
}


@pytest.mark.parametrize("name", KEPT)
def test_printed_output_is_as_kept(cli, name):
    outcome = cli(*KEPT[name])
    assert outcome.code == 0, outcome.err
    assert is_as_kept(outcome.out, GOLDEN / f"{name}.txt")


@pytest.mark.parametrize("name", KEPT)
def test_tables_fit_80_columns(cli, name):
    lines = cli(*KEPT[name]).out.splitlines()
    last = next(i for i, line in enumerate(lines) if line.startswith("time to first token:"))
    notes = ("Percentiles of", "Load:", "Weights and KV")
    tables = [line for line in lines[:last] if not line.startswith(notes)]
    assert len(tables) > 20
    assert max(len(line) for line in tables) <= 80


def test_document_is_what_python_gives(cli):
    line = (*ON, "--requests", "10", "--seed", "5", "--json")
    printed = json.loads(cli(*line).out)
    built = railweave.load(DESIGN).build()
    plan = InferencePlan(built.document.catalog.model("llama3-8b"))
    load = RequestLoad(4.0, 10, Lengths(2048, 0.5), Lengths(256, 0.5), seed=5)
    found = estimate_serving(built, ServingQuestion(plan, plan, 1, 1, 64, load))
    assert printed == json.loads(json.dumps(serving_json(found)))
    assert printed == json.loads(cli(*line).out)
    assert sum(printed["decode"]["pass"][part] for part in ("weights_s", "cache_s")) > 0


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (("--tp", "3"), "nearest: 2"),
        (("--tp", "8", "--decode-gpus", "12"), "nearest: 16"),
        (("--prefill-gpus", "24", "--decode-gpus", "24"), "nearest: 16 and 16"),
        (("--batch", "5000"), "nearest that fits:"),
        (("--ep", "2"), "no experts"),
        (("--skew", "2"), "--skew speaks of experts"),
        (("--rate", "0"), "more than 0"),
        (("--spread", "20"), "spread"),
        (("--requests", "1000000"), "allowed: 1…100,000"),
    ],
)
def test_refusals(cli, more, text):
    outcome = cli(*ON[:4], *more)
    assert outcome.code == 2
    assert outcome.out == ""
    assert text in " ".join(outcome.err.split())


def test_unknown_model_names_the_nearest(cli):
    outcome = cli("infer", "llama3-7b", "--design", DESIGN)
    assert outcome.code == 2
    assert "llama" in outcome.err
