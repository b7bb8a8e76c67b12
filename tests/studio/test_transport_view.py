"""Lab 3 without its page: inputs to the comparison's own numbers, and back to a command."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from functools import cache
from statistics import median
from time import process_time

import pytest
from typer.testing import CliRunner

from railweave.cli._app import app
from railweave.errors import InputError
from railweave.studio.labs._transport import (
    DESIGN,
    Given,
    TransportState,
    command_of,
    default_weights,
    measure_key,
    measure_work,
    python_of,
    requirements_of,
    with_weight,
)
from railweave.studio.labs._transport_view import detail_of, judged, stated_of, view_of
from railweave.transport.compare import Technology

STATE = TransportState(gpus=16, mix="all-to-all:1MiB")
TEXT = """\
railweave: 1
name: mine
cluster:
  servers: {count: 4, inline: {gpus: 2, nics: 2, nic_speed: 100 Gb/s, scale_up_bandwidth: 1 Tb/s}}
planes:
  backend: {transport: tcp, topology: leaf-spine, switch: {radix: 4, speed: 100 Gb/s}}
jobs:
  - {name: mix, collective: all-reduce, size: 2 MiB}
"""


class Told:
    """A job's context that hears how far it is."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, float]] = []

    def progress(self, step: str, fraction: float) -> None:
        self.steps.append((step, fraction))


@cache
def document(given: Given = Given(STATE)) -> str:  # noqa: B008 - immutable
    return json.dumps(measure_work(given, Told()), allow_nan=False)  # type: ignore[arg-type]


def test_the_numbers_are_those_of_the_command():
    state = replace(
        STATE, team="infiniband", tenancy="preferred", weights=("cost=1", "latency=7.5")
    )
    given = Given(state)
    command = command_of(given)
    assert command.startswith("railweave transport compare --gpus 16")
    answer = CliRunner().invoke(app, [*shlex.split(command)[1:], "--json"])
    assert answer.exit_code == 0, answer.output
    said = json.loads(answer.output)
    found = judged(given, document())
    assert said["totals"] == {t.value: total for t, total in found.totals.items()}
    assert said["recommendation"] == found.winner.value
    assert said["measurements"] == json.loads(document())
    numbers = {number.key: number.value for number in view_of(given, document()).numbers}
    best = said["measurements"]["measured"][said["recommendation"]]
    assert numbers["technology_score"] == said["totals"][said["recommendation"]]
    assert numbers["message_time"] == best["message_s"]
    assert numbers["large_collective"] == best["large"][0]["time_s"]


def test_python_gives_the_same(capsys):
    given = Given(replace(STATE, budget="low", weights=("congestion=9",), max_power="1 MW"))
    exec(python_of(given), {})
    found = judged(given, document())
    assert str(found.totals) in capsys.readouterr().out


def test_a_loaded_design_is_measured_with_its_collectives():
    given = Given(replace(STATE, where=DESIGN, mix=""), TEXT, "mine.yaml")
    found = judged(given, document(given))
    assert found.measurements.design == "mine"
    assert found.measurements.measured[Technology.TCP].own
    assert found.measurements.measured[Technology.TCP].large[0].size_bytes == 2 << 20
    assert "--design mine.yaml" in command_of(given)
    assert "--gpus" not in command_of(given)


def test_progress_is_told():
    told = Told()
    measure_work(Given(STATE), told)  # type: ignore[arg-type]
    parts = [part for _, part in told.steps]
    assert parts == sorted(parts)
    assert parts[-1] == 1
    assert any("InfiniBand" in step for step, _ in told.steps)


def test_weights_and_requirements_measure_nothing_again():
    key = measure_key(Given(STATE))
    for field in ({"weights": ("cost=9",)}, {"team": "both"}, {"encryption": "tls"},
                  {"max_power": "1 kW"}, {"automation": True}):  # fmt: skip
        assert measure_key(Given(replace(STATE, **field))) == key
    for field in ({"gpus": 32}, {"speed": "100 Gb/s"}, {"oversubscription": 2.0}, {"mix": ""},
                  {"workload": "inference"}, {"quick": False}, {"queue_pairs": 4},
                  {"topology": "leaf-spine"}):  # fmt: skip
        assert measure_key(Given(replace(STATE, **field))) != key


def test_a_weight_that_follows_anyway_is_not_kept():
    defaults = default_weights(STATE)
    moved = with_weight(STATE, "latency", defaults["latency"] + 1)
    assert moved == (f"latency={defaults['latency'] + 1:g}",)
    again = replace(STATE, weights=moved)
    assert with_weight(again, "latency", defaults["latency"]) == ()
    assert default_weights(replace(STATE, tenancy="required"))["tenancy"] == 5


def test_weights_are_answered_within_the_time_of_a_slider():
    view_of(Given(STATE), document())
    took = []
    for step in range(9):
        given = Given(replace(STATE, weights=(f"latency={step}",)))
        began = process_time()
        view_of(given, document())
        took.append(process_time() - began)
    assert median(took) < 0.06


def test_the_view_has_all_parts():
    view = view_of(Given(STATE), document())
    assert [row[0] for row in view.scores.rows][-1] == "total"
    assert len(view.sensitivity.rows) == len(view.scores.rows) - 1
    assert len(view.answer.rows) == 4
    assert view.benchmarks
    assert sum(len(bar.y) for bar in view.totals.data[:1]) == 4
    detail = detail_of(Given(STATE), document())
    assert detail.turning.data
    tables, limits = stated_of(Given(STATE), document())
    assert [table.id for table in tables] == ["measured", "stated", "host", "sources"]
    assert limits


def test_who_is_ahead_is_drawn_where_the_flips_are():
    found = judged(Given(STATE), document())
    drawn = detail_of(Given(STATE), document()).turning
    spans = {
        (bar.name, name): (low, low + length)
        for bar in drawn.data
        if bar.type == "bar"
        for name, low, length in zip(bar.y, bar.base, bar.x, strict=True)
    }
    from railweave.transport.compare import technology_facts

    for flip in found.flips:
        if flip.within:
            title = technology_facts().criteria[flip.criterion].title
            low, high = spans[(flip.to.label, title)]
            assert min(abs(low - flip.at), abs(high - flip.at)) < 1e-9


def test_nothing_left_is_shown():
    given = Given(replace(STATE, encryption="tls", max_power="1 W"))
    view = view_of(given, document())
    assert view.numbers == ()
    assert "None of the four" in view.words[0]
    assert all("out:" in row[-1] for row in view.answer.rows)


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ({"team": "x"}, "team"),
        ({"workload": "x"}, "workload"),
        ({"weights": ("latncy=1",)}, "did you mean 'latency'"),
        ({"weights": ("latency",)}, "latency=8"),
        ({"max_power": "5"}, "unit"),
    ],
)
def test_wrong_requirements_are_said(field, said):
    with pytest.raises(InputError, match=said):
        requirements_of(replace(STATE, **field))


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ({"gpus": 20}, "nearest"),
        ({"speed": "fast"}, "fast"),
        ({"topology": "tree"}, "rail-optimized"),
        ({"oversubscription": 0.0}, "oversubscription"),
    ],
)
def test_a_cluster_that_cannot_be_is_said(field, said):
    with pytest.raises(InputError, match=said):
        measure_key(Given(replace(STATE, **field)))
