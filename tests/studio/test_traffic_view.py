"""Lab 2 without a browser: every number is the study's, every strategy gives a view."""

from __future__ import annotations

import contextlib
import json
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from railweave.design.models import Algorithm, PlacementName, Recompute
from railweave.errors import InputError
from railweave.report.patterns import study_pattern
from railweave.report.patterns_model import study_model
from railweave.report.patterns_placement import placement_shares
from railweave.report.patterns_tables import placement_table
from railweave.studio.lab import Number
from railweave.studio.labs._traffic import (
    Shown,
    State,
    Where,
    algorithms_of,
    case_of,
    compare,
    figures,
    study,
    what_if,
    with_model,
    with_strategy,
)
from railweave.studio.labs._traffic_flights import OTHER, PLACE_ROLES
from railweave.studio.labs._traffic_html import comparison_html, variations_html
from railweave.studio.labs._traffic_model import (
    model_case_of,
    model_figures,
    model_view,
    nearest,
)
from railweave.studio.labs._traffic_more import (
    interference_job,
    interference_tables,
    job_names,
    placements,
)
from railweave.studio.labs._traffic_scene import pattern_scene, rank_of
from railweave.studio.state import from_query, to_query
from railweave.workload.patterns import PatternCase, Strategy

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
DESIGN = EXAMPLES / "superpod-h100-1su.yaml"
MANY = State(gpus=16, per_server=4, per_leaf=2, latency="5 us", payload="8 MB", exchanges=2)


def number(numbers: tuple[Number, ...], key: str) -> Number:
    return next(one for one in numbers if one.key == key)


def test_the_defaults_give_the_fields_reference_numbers():
    view = study(State(), "", "")
    assert number(view.numbers, "volume_per_gpu").text == "384 MB"
    assert number(view.numbers, "volume_per_gpu").value == 384e6
    assert number(view.numbers, "transfer_time").text == "30.72 ms"
    assert number(view.numbers, "total_volume").value == 4 * 384e6
    assert number(view.numbers, "latency_share").text == "bandwidth"
    assert number(view.numbers, "messages").value == 24
    assert number(view.numbers, "share_leaf").value == 1.0
    assert view.scene.duration_s == pytest.approx(30.72e-3)


@pytest.mark.parametrize("strategy", list(Strategy))
@pytest.mark.parametrize(
    ("gpus", "per_server", "per_leaf"),
    [(2, 1, 16), (6, 4, 1), (32, 8, 2), (64, 1, 16), (200, 8, 2)],
)
def test_every_strategy_and_size_gives_a_view(strategy, gpus, per_server, per_leaf):
    state = replace(
        MANY, strategy=strategy, gpus=gpus, per_server=per_server, per_leaf=per_leaf, picked=1
    )
    view = study(state, "", "")
    truth = study_pattern(case_of(state))
    by_key = {one.key: one.value for one in view.numbers}
    for key, field in (
        ("volume_per_gpu", "bytes_sent_per_gpu"),
        ("total_volume", "total_bytes"),
        ("transfer_time", "time_s"),
        ("closed_form_time", "analytic_s"),
        ("bandwidth_term", "bandwidth_s"),
        ("latency_term", "latency_s"),
        ("messages", "messages"),
        ("rounds", "steps"),
        ("share_server", "share_server"),
        ("share_leaf", "share_leaf"),
        ("share_spine", "share_spine"),
    ):
        assert by_key[key] == getattr(truth, field), key
    assert view.words == truth.interpretation
    assert [row.what for row in view.trace] == [event.what for event in truth.trace]
    assert json.loads(view.scene.document())["flights"]["n"] == len(view.scene.flights) > 0
    drawn = figures(state, "")
    assert drawn.picked.startswith("Rank 1 ")
    assert all((drawn.matrix.data, drawn.chord.data, drawn.shares.data))


@pytest.mark.parametrize("strategy", list(Strategy))
def test_messages_fly_at_the_engines_times(strategy):
    state = replace(MANY, strategy=strategy, gpus=4, per_server=2, per_leaf=1, exchanges=2)
    view = study(state, "", "")
    done = view.study
    flights = view.scene.flights
    assert view.scene.duration_s == pytest.approx(done.time_s)
    assert max(flight.end_s for flight in flights) <= done.time_s * (1 + 1e-9)
    # Whatever leaves a rank for the first time leaves when the trace says.
    begins = {round(event.time_s, 12) for event in done.trace}
    first = {round(f.start_s, 12) for f in flights if f.start_s < done.time_s / 2 * (1 - 1e-9)}
    assert {time for time in begins if time < done.time_s / 2 * (1 - 1e-9)} <= first
    sent = np.zeros(4)
    into = np.zeros(4)
    for flight in flights:
        if flight.source.startswith("rank"):
            sent[int(flight.source.split()[1])] += flight.bytes
        if flight.target.startswith("rank"):
            into[int(flight.target.split()[1])] += flight.bytes
    # Hops through a GPU count on both sides.
    assert sent - into == pytest.approx(done.sent_bytes - done.matrix_bytes.sum(axis=0), abs=1e-3)
    assert sent.sum() >= done.total_bytes * (1 - 1e-9)


def test_tokens_are_coloured_by_the_farthest_place():
    view = study(replace(MANY, strategy=Strategy.EXPERT, exchanges=1), "", "")
    roles = {flight.role for flight in view.scene.flights}
    assert roles == set(PLACE_ROLES[:3])
    by_role = {
        role: sum(
            f.bytes for f in view.scene.flights if f.role == role and f.source.startswith("rank")
        )
        for role in roles
    }
    total = view.study.total_bytes
    shares = (view.study.share_server, view.study.share_leaf, view.study.share_spine)
    for role, share in zip(PLACE_ROLES, shares, strict=False):
        assert by_role[role] / total == pytest.approx(share)


def test_the_picked_rank_stands_out_everywhere():
    state = replace(MANY, strategy=Strategy.DATA, picked=5)
    scene = study(state, "", "").scene
    assert [node.id for node in scene.nodes if node.state == "marked"] == ["rank 5"]
    coloured = [flight for flight in scene.flights if flight.role != OTHER]
    assert 0 < len(coloured) < len(scene.flights)
    drawn = figures(state, "")
    matrix = study_pattern(case_of(state)).matrix_bytes
    assert len(drawn.peers) == int(((matrix[5] > 0) | (matrix[:, 5] > 0)).sum())
    assert len(drawn.matrix.layout.shapes) == 2
    assert figures(replace(state, picked=-1), "").matrix.layout.shapes == ()


def test_very_many_ranks_are_drawn_together_and_it_is_said():
    state = replace(State(), strategy=Strategy.EXPERT, gpus=1024, per_server=8, per_leaf=16)
    view = study(state, "", "")
    assert "1,024 ranks are drawn as" in view.scene.note
    assert len(view.scene.nodes) < 60
    drawn = figures(state, "")
    assert len(drawn.matrix.data[0].z) == 8
    box = next(node.id for node in view.scene.nodes if node.kind == "server")
    assert rank_of(box, view.study) == 0
    assert rank_of("rank 7", view.study) == 7
    assert rank_of("leaf-1", view.study) == -1
    marked = pattern_scene(view.study, 1000)
    assert sum(node.state == "marked" for node in marked.nodes) == 1


def test_changing_the_strategy_resets_what_it_does_not_have():
    expert = replace(State(), strategy=Strategy.EXPERT, skew=20, algorithm=None)
    assert with_strategy(expert, Strategy.PIPELINE).skew == 0
    ring = replace(State(), algorithm=Algorithm.TREE)
    assert with_strategy(ring, Strategy.TENSOR).algorithm is Algorithm.TREE
    for strategy in Strategy:
        case_of(with_strategy(replace(ring, skew=3), strategy))
    assert algorithms_of(Strategy.PIPELINE) == ()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"gpus": 1}, "gpus: 1 is not allowed"),
        ({"payload": "a lot"}, "a lot"),
        ({"skew": 120}, "skew: 120 %"),
        ({"skew": 20}, "is of experts"),
        ({"strategy": Strategy.PIPELINE, "algorithm": Algorithm.RING}, "of a collective"),
        ({"servers": 1, "gpus": 8}, "servers: 1 is not allowed"),
    ],
)
def test_what_cannot_be_studied_is_said(change, said):
    with pytest.raises(InputError, match=said):
        study(replace(State(), **change), "", "")


def test_the_address_reproduces_the_inputs():
    state = replace(MANY, strategy=Strategy.EXPERT, skew=25, picked=3, where=Where.DESIGN)
    query = dict(pair.split("=") for pair in to_query(state).replace("+", " ").split("&"))
    assert from_query(State, query) == (state, ())


@pytest.mark.parametrize(
    "state",
    [
        State(),
        replace(MANY, strategy=Strategy.EXPERT, skew=7, latency="1.5 us", scale_up="900 Gb/s"),
        replace(
            MANY, strategy=Strategy.TENSOR, algorithm=Algorithm.TREE, servers=8, payload="1 MiB",
            placement=PlacementName.SPREAD, scale_up_latency="250 ns",
        ),
    ],
)  # fmt: skip
def test_python_and_command_reproduce_the_numbers(state, capsys, monkeypatch):
    view = study(state, "", "")
    variables: dict[str, object] = {}
    exec(view.reproduce.python, variables)
    again = variables["study"]
    assert again.time_s == view.study.time_s
    assert again.case == view.study.case
    assert _by_command(view.reproduce.command, capsys, monkeypatch)["time_s"] == view.study.time_s


def _by_command(command: str, capsys, monkeypatch) -> dict[str, object]:
    from railweave.cli import main

    words = shlex.split(command)
    monkeypatch.setattr(sys, "argv", [*words, "--json"])
    capsys.readouterr()
    with contextlib.suppress(SystemExit):
        main()
    document: dict[str, object] = json.loads(capsys.readouterr().out)
    return document


def test_on_a_design_the_numbers_are_the_designs():
    import railweave

    state = replace(State(), gpus=16, where=Where.DESIGN, speed="1 Gb/s", strategy=Strategy.TENSOR)
    view = study(state, DESIGN.read_text(encoding="utf-8"), "superpod.yaml")
    truth = study_pattern(PatternCase(Strategy.TENSOR, gpus=16), railweave.load(DESIGN).build())
    assert view.study.time_s == truth.time_s
    assert number(view.numbers, "share_server").value == truth.share_server
    assert "--design superpod.yaml" in view.reproduce.command
    assert "--speed" not in view.reproduce.command
    with pytest.raises(InputError):
        study(replace(state, gpus=1000), DESIGN.read_text(encoding="utf-8"), "superpod.yaml")


def test_strategies_are_compared_fastest_first():
    found = compare(MANY, "")
    times = [one.time_s for one in found.studies]
    assert times == sorted(times)
    assert {one.case.strategy for one in found.studies} == set(Strategy)
    page = comparison_html(found.studies, Strategy.DATA)
    assert page.count("<tr") == 1 + len(Strategy)
    assert page.count("aria-current") == 1
    other = what_if(replace(MANY, payload="64 kB", exchanges=1), "")
    assert "data overtakes expert" in variations_html(other.variations)
    assert any("Expert is ahead of data/tensor here; above" in text for text in other.words)
    with pytest.raises(InputError, match="give up to 64"):
        what_if(replace(MANY, gpus=96), "")


# ---------------------------------------------------------------- whole models

MODEL = replace(
    State(), whole=True, model="mixtral-8x7b", gpus=32, per_server=8, per_leaf=2, tensor=2,
    context=2, pipeline=2, expert=2, micro_batches=4, sequence=8192,
)  # fmt: skip


def test_a_model_shows_its_study():
    view = model_view(MODEL, "", "")
    truth = study_model(model_case_of(MODEL))
    by_key = {one.key: one for one in view.numbers}
    assert by_key["volume_per_gpu"].value == truth.bytes_sent_per_gpu
    assert by_key["total_volume"].value == truth.total_bytes
    assert by_key["share_spine"].value == truth.share_spine
    assert by_key["largest_groups"].text.startswith(f"{truth.groups[0].kind} ")
    assert by_key["gpu_memory"].value == truth.memory.total_bytes
    assert by_key["global_batch"].value == 4 * 4
    assert view.words == truth.interpretation
    assert view.fits
    assert len(view.groups.rows) == len(truth.groups) == len(view.explanations) - 1
    assert nearest(MODEL, "") == ()


def test_one_kind_of_group_is_drawn_alone():
    whole = model_figures(replace(MODEL, picked=3), "")
    assert whole.talk.picked.startswith("Rank 3 ")
    one = model_figures(replace(MODEL, shown=Shown.TENSOR), "")
    assert one.study.total_bytes < whole.study.total_bytes
    assert {group.kind for group in one.study.groups} == {"tensor"}
    absent = replace(MODEL, context=1, shown=Shown.CONTEXT)
    assert len(model_figures(absent, "").study.groups) > 1  # nothing of it: all are drawn


def test_degrees_that_cannot_be_lead_to_plans_that_can():
    wrong = replace(MODEL, tensor=3)
    view = model_view(wrong, "", "")
    assert "3 does not divide the 32 attention heads" in view.problem
    assert not view.fits
    assert view.numbers == ()
    found = nearest(wrong, "")
    assert found
    for _, state in found:
        assert model_view(state, "", "").fits
    large = replace(State(), whole=True, model="llama3-70b", gpus=8, per_server=8, tensor=8,
                    pipeline=1)  # fmt: skip
    assert not model_view(large, "", "").fits
    on_small = replace(large, gpus=4, tensor=4, where=Where.DESIGN)
    small = (EXAMPLES / "two-servers-4-gpus.yaml").read_text(encoding="utf-8")
    more = nearest(on_small, small)  # plans for more GPUs than there are have no inputs
    assert "GPUs instead of 4" in more[0][0]
    assert more[0][1] is None
    text, state = nearest(large, "")[0]
    assert text.startswith("16 GPUs instead of 8")
    assert model_view(state, "", "").fits


@pytest.mark.parametrize(
    "state",
    [
        MODEL,
        replace(State(), whole=True, gpus=8, tensor=8, pipeline=1),
        replace(
            MODEL, zero=3, recompute=Recompute.FULL, interleave=2, sequence_parallel=False,
            placement=PlacementName.OPTIMIZED, latency="2 us", skew=4, strategy=Strategy.EXPERT,
        ),
    ],
)  # fmt: skip
def test_python_and_command_reproduce_a_model(state, capsys, monkeypatch):
    view = model_view(state, "", "")
    assert not view.problem
    variables: dict[str, object] = {}
    exec(view.reproduce.python, variables)
    again = variables["study"]
    assert again.case == view.study.case
    assert again.total_bytes == view.study.total_bytes
    capsys.readouterr()
    said = _by_command(view.reproduce.command, capsys, monkeypatch)
    assert said["bytes_sent_per_gpu"] == view.study.bytes_sent_per_gpu
    assert said["interpretation"] == list(view.words)


def test_a_model_on_a_design():
    state = replace(MODEL, where=Where.DESIGN, speed="1 Gb/s")
    view = model_view(state, DESIGN.read_text(encoding="utf-8"), "superpod.yaml")
    assert "--design superpod.yaml" in view.reproduce.command
    assert "superpod-h100-1su" in view.study.network
    with pytest.raises(InputError, match="1000 are wanted"):
        model_view(
            replace(state, gpus=1000, pipeline=1, expert=1, context=1),
            DESIGN.read_text(encoding="utf-8"),
            "superpod.yaml",
        )


def test_beginning_with_a_model_gives_it_servers():
    begun = with_model(State())
    assert (begun.whole, begun.gpus, begun.per_server) == (True, 32, 8)
    assert model_view(begun, "", "").fits
    few = with_model(replace(State(), gpus=6))
    assert (few.gpus, few.tensor, few.pipeline) == (6, 2, 1)
    assert not model_view(few, "", "").problem
    assert not with_strategy(begun, Strategy.DATA).whole


# ---------------------------------------------------------------- placement, several jobs


@pytest.mark.parametrize("state", [MODEL, replace(MANY, strategy=Strategy.CONTEXT)])
def test_placement_rules_are_compared(state):
    found = placements(replace(state, placement=PlacementName.RANDOM), "")
    case = model_case_of(state) if state.whole else case_of(state)
    assert found.table == placement_table(placement_shares(case))
    assert found.table.rows[found.marked][0] == "random"
    assert found.figure.data


class Silent:
    """A job's context that only remembers how far it was."""

    def __init__(self) -> None:
        self.parts: list[float] = []

    def progress(self, step: str, fraction: float) -> None:
        self.parts.append(fraction)

    def publish(self, document: object) -> None:
        raise AssertionError(document)

    def check(self) -> None:
        return None


def test_several_jobs_are_the_commands(capsys, monkeypatch):
    path = EXAMPLES / "three-jobs.yaml"
    text = path.read_text(encoding="utf-8")
    assert job_names(text) == ("first", "second", "third")
    assert job_names("") == job_names("no design") == ()
    context = Silent()
    found = interference_job(text, context)
    assert context.parts == sorted(context.parts)
    said = _by_command(f"railweave simulate {path} --interference", capsys, monkeypatch)
    assert json.loads(json.dumps(found["placements"])) == said
    tables = interference_tables(json.loads(json.dumps(found)))
    assert tables[0].id == "interference"
    assert len(tables[0].rows) == 3 * len(said)
