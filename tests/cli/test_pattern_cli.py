"""``railweave pattern`` says what Python says, and refuses what means nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import railweave
from railweave.cli.pattern import StrategyName
from railweave.design.models import Algorithm, PlacementName, Recompute
from railweave.report.patterns import study_pattern
from railweave.report.patterns_model import ModelCase, study_model
from railweave.report.patterns_placement import placement_json, placement_shares
from railweave.units import format_seconds
from railweave.workload.patterns import PatternCase, Strategy

DESIGN = "tests/golden/small.yaml"


def same(study) -> object:
    return json.loads(json.dumps(study.to_json()))


def test_strategies_are_those_of_python():
    assert [s.value for s in StrategyName] == [*(s.value for s in Strategy), "model"]


@pytest.mark.parametrize("strategy", list(Strategy))
def test_defaults_are_python_s(cli, strategy):
    outcome = cli("pattern", strategy.value, "--json")
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out) == same(study_pattern(PatternCase(strategy)))


def test_four_gpus_at_the_defaults(cli):
    found = json.loads(cli("pattern", "data", "--json").out)
    assert found["bytes_sent_per_gpu"] == 384_000_000
    assert found["time_s"] == pytest.approx(0.03072, rel=1e-12)


def test_every_option_reaches_the_case(cli):
    outcome = cli(
        *("pattern", "expert", "--gpus", "6", "--payload", "1MB", "--exchanges", "2"),
        *("--speed", "200Gb/s", "--latency", "3us", "--gpus-per-server", "3", "--servers", "4"),
        *("--servers-per-leaf", "2", "--scale-up-speed", "1Tb/s", "--scale-up-latency", "1us"),
        *("--placement", "spread", "--skew", "0.1", "--algorithm", "direct", "--json"),
    )
    case = PatternCase(
        Strategy.EXPERT,
        gpus=6,
        payload_bytes=1_000_000,
        exchanges=2,
        link_bps=200e9,
        latency_s=3e-6,
        gpus_per_server=3,
        servers=4,
        servers_per_leaf=2,
        placement=PlacementName.SPREAD,
        scale_up_bps=1e12,
        scale_up_latency_s=1e-6,
        skew=0.1,
        algorithm=Algorithm.DIRECT,
    )
    assert json.loads(outcome.out) == same(study_pattern(case))


def test_on_a_design(cli):
    found = json.loads(cli("pattern", "pipeline", "--design", DESIGN, "--json").out)
    built = railweave.load(Path(DESIGN)).build()
    assert found == same(study_pattern(PatternCase(Strategy.PIPELINE), built))


def test_text_has_the_numbers(cli):
    text = cli("pattern", "tensor", "--gpus", "8", "--latency", "5us").out
    study = study_pattern(PatternCase(Strategy.TENSOR, 8, latency_s=5e-6))
    for expected in (format_seconds(study.time_s), "448 MB", "112, 14 one after another"):
        assert expected in text
    flat = " ".join(text.split())
    for sentence in study.interpretation:
        assert sentence in flat


# ---------------------------------------------------------------- models, placement rules


def test_a_model_is_python_s(cli):
    outcome = cli(
        *("pattern", "model", "--model", "mixtral-8x7b", "--gpus", "32", "--micro-batches", "4"),
        *("--fix", "tensor=2,context=2,pipeline=2,expert=4,zero=3,recompute=full,interleave=2"),
        *("--sequence", "16Ki", "--gpu", "b200", "--gpus-per-server", "8"),
        *("--servers-per-leaf", "2", "--placement", "spread", "--json"),
    )
    assert outcome.code == 0, outcome.err
    case = ModelCase(
        "mixtral-8x7b",
        PatternCase(gpus=32, gpus_per_server=8, servers_per_leaf=2, placement=PlacementName.SPREAD),
        tensor=2,
        context=2,
        pipeline=2,
        expert=4,
        micro_batches=4,
        sequence=16384,
        interleave=2,
        zero=3,
        recompute=Recompute.FULL,
        gpu="b200",
    )
    assert json.loads(outcome.out) == {**same(study_model(case)), "nearest": []}


def test_a_model_on_a_design_with_its_placements(cli):
    words = ("pattern", "model", "--gpus", "16", "--fix", "tensor=4", "--design", DESIGN)
    found = json.loads(cli(*words, "--by-placement", "--json").out)
    built = railweave.load(Path(DESIGN)).build()
    case = ModelCase("llama3-8b", PatternCase(gpus=16), tensor=4)
    assert found.pop("placements") == placement_json(placement_shares(case, built))
    assert found == {**same(study_model(case, built)), "nearest": []}
    text = cli(*words, "--by-placement").out
    assert "What each kind of group sends in a step" in text
    assert "How far the bytes go by placement rule" in text
    assert "optimized" in text


def test_a_strategy_with_its_placements(cli):
    words = ("pattern", "context", "--gpus", "8", "--gpus-per-server", "4", "--by-placement")
    case = PatternCase(Strategy.CONTEXT, 8, gpus_per_server=4)
    found = json.loads(cli(*words, "--json").out)
    assert found["placements"] == placement_json(placement_shares(case))
    assert "rail-aligned" in cli(*words).out


def test_what_does_not_fit_names_the_nearest_that_would(cli):
    words = ("pattern", "model", "--model", "llama3-70b", "--gpus", "8", "--gpus-per-server", "8")
    found = json.loads(cli(*words, "--fix", "tensor=8", "--json").out)
    assert found["memory"]["fits"] is False
    assert found["nearest"][0]["changes"][0] == "16 GPUs instead of 8"
    assert "Nearest that would fit:" in cli(*words, "--fix", "tensor=8").out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("data", "--gpus", "1"), "gpus: 1 is not allowed; give 2 to 1,024"),
        (("data", "--payload", "0 B"), "payload: 0 B is not allowed"),
        (("data", "--payload", "5"), "not a number with a unit"),
        (("data", "--skew", "0.2"), "data parallelism has none"),
        (("pipeline", "--algorithm", "ring"), "send to each other; leave it out"),
        (("expert", "--algorithm", "tree"), "tree cannot do all-to-all"),
        (("data", "--design", DESIGN, "--latency", "1us"), "--latency and --design"),
        (("data", "--design", DESIGN, "--gpus", "100"), "100 are wanted, but 32 of 32"),
        (("data", "--servers", "2"), "servers: 2 is not allowed; give 4"),
        (("data", "--fix", "tensor=2"), "--fix: speaks of a model; take the strategy model"),
        (("model", "--payload", "1MB", "--trace"), "--payload, --trace: speaks of one exchange"),
        (("model", "--fix", "tensor=3"), "nearest that would:"),
        (("model", "--fix", "tenser=3"), "did you mean 'tensor'"),
        (("model", "--model", "llama9"), "llama9"),
        (("model", "--design", DESIGN, "--gpu", "b200"), "--gpu and --design"),
    ],
)
def test_bad_input_is_refused_with_a_sentence(cli, words, said):
    outcome = cli("pattern", *words)
    assert outcome.code == 2
    assert said in outcome.err
    assert outcome.out == ""
