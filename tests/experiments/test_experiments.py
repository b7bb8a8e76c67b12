"""Experiments as objects: found by name, the same each time, drawn, and shown in the docs."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from railweave.errors import InputError
from railweave.experiments import EXPERIMENTS, congestion_control, experiment
from railweave.report.experiments import draw_chart, format_value, value_table

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "model" / "packet-experiments.md"
FOLDER = ROOT / "docs" / "img" / "experiments"
ALL = pytest.mark.parametrize("item", EXPERIMENTS, ids=lambda item: item.name)


def test_names_are_unique_and_found():
    names = [item.name for item in EXPERIMENTS]
    assert len(set(names)) == len(names)
    assert experiment("pause-storm").name == "pause-storm"


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(InputError, match="did you mean 'pause-storm'"):
        experiment("pause-strom")


def test_an_experiment_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        EXPERIMENTS[0].name = "other"  # type: ignore[misc]


@pytest.mark.parametrize("name", ["cnp-ignored", "reordering"])
def test_a_second_run_gives_the_same_numbers(name, outcome_of):
    again = experiment(name).run()
    assert dict(again.values) == dict(outcome_of(name).values)
    assert again.charts[0].frame.equals(outcome_of(name).charts[0].frame)


def test_a_claim_fails_where_it_is_not_true(monkeypatch):
    monkeypatch.setattr(congestion_control, "PAPER", {"scheme": "pfc"})
    outcome = experiment("dcqcn-paper").run()
    assert not outcome.holds
    assert outcome.values["senders_8_median_queue_bytes"] > 200_000


@ALL
def test_every_chart_is_drawn(item, outcome_of):
    outcome = outcome_of(item.name)
    assert outcome.charts
    for chart in outcome.charts:
        assert chart.frame.columns == ["series", "x", "y"]
        assert chart.frame["y"].is_finite().all()
        figure = draw_chart(chart)
        assert len(figure.data) == chart.frame["series"].n_unique()
        assert figure.layout.yaxis.title.text == chart.y_title


@ALL
def test_every_value_is_in_the_table(item, outcome_of):
    outcome = outcome_of(item.name)
    table = value_table(item, outcome)
    assert all(len(row) == len(table.header) for row in table.rows)
    cells = [cell for row in table.rows for cell in row[1:] if cell != "–"]
    assert len(cells) == len(outcome.values)


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("victim_bps", 9.81e9, "9.81 Gb/s"),
        ("median_queue_bytes", 20_890, "20.9 kB"),
        ("collective_s", 2.5e-3, "2.5 ms"),
        ("use", 0.9735, "97.4 %"),
        ("pauses", 1375.0, "1,375"),
        ("jain", 0.98383, "0.984"),
    ],
)
def test_values_are_written_with_their_unit(key, value, text):
    assert format_value(key, value) == text


@ALL
def test_the_page_shows_it(item, outcome_of):
    page = PAGE.read_text(encoding="utf-8")
    outcome = outcome_of(item.name)
    assert f"## {item.title}\n" in page
    assert f"`{item.name}` — {item.claim} **Holds.**" in page
    for chart in outcome.charts:
        picture = f"{item.name}-{chart.name}.png"
        assert f"../img/experiments/{picture}" in page
        assert (FOLDER / picture).is_file()
    for name, text in item.parameters.items():
        assert f"| {name} | {text} |" in page


def test_no_picture_is_left_over(outcome_of):
    wanted = {f"{i.name}-{c.name}.png" for i in EXPERIMENTS for c in outcome_of(i.name).charts}
    assert {path.name for path in FOLDER.iterdir()} == wanted
