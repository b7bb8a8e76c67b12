"""The congested switch for people: text that fits, tables, figures, files."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from railweave.engine.congest import CongestCase, CongestOutcome, simulate_congest
from railweave.engine.congest_summary import summarise
from railweave.engine.congest_sweep import SweepPoint, grid
from railweave.qos import EcnThresholds
from railweave.report import congest as shown
from railweave.runs import InProcessExecutor
from railweave.runs.congest import sweep

BASE = CongestCase(duration_s=8e-3, profile="none")


@pytest.fixture(scope="module")
def outcome() -> CongestOutcome:
    return simulate_congest(BASE)


@pytest.fixture(scope="module")
def points() -> tuple[SweepPoint, ...]:
    marks = [EcnThresholds(size, size, 1.0) for size in (800_000, 9_600_000)]
    cases = grid(replace(BASE, duration_s=3e-3), marks, (3_200_000, None), ("none", "hpcc"))
    return sweep(cases)


def row(text: str, name: str) -> str:
    line = next(line for line in text.splitlines() if line.startswith(name))
    return line[9 : 9 + 58]


def test_axis_fits_and_shows_when_what_happens(outcome):
    text = shown.time_axis(outcome)
    assert max(len(line) for line in text.splitlines()) <= 80
    queue, marks, pauses = row(text, "queue"), row(text, "ECN"), row(text, "PFC")
    assert marks.index("█") == pytest.approx(58 * 2.56 / 8, abs=1)
    assert next(k for k, c in enumerate(pauses) if c != " ") == pytest.approx(58 * 5.12 / 8, abs=1)
    assert queue.index("█") == pytest.approx(58 * 5.12 / 8 * 7 / 8, abs=1)
    levels = ["▁▂▃▄▅▆▇█".index(c) for c in queue]
    assert levels == sorted(levels)
    assert text.splitlines()[-1].split() == ["0", "s", "2", "ms", "4", "ms", "6", "ms", "8", "ms"]


@pytest.mark.parametrize("pfc", [None, 12_800_000])
def test_axis_says_off(pfc, outcome):
    text = shown.time_axis(replace(outcome, case=replace(BASE, pfc_bytes=pfc)))
    assert row(text, "PFC").startswith("off") is (pfc is None)


def test_axis_of_several_senders_shows_the_fastest_and_the_slowest():
    text = shown.time_axis(simulate_congest(replace(BASE, senders=3, duration_s=1e-3)))
    assert [line[:9].strip() for line in text.splitlines()[:7]] == [
        "queue", "senders", "fastest", "slowest", "egress", "ECN", "PFC",
    ]  # fmt: skip
    assert max(len(line) for line in text.splitlines()) <= 80


def test_drops_have_their_own_row():
    lossy = simulate_congest(replace(BASE, pfc_bytes=None))
    drops = row(shown.time_axis(lossy), "drops")
    assert next(k for k, c in enumerate(drops) if c != " ") == pytest.approx(58 * 6.4 / 8, abs=1)


def test_any_share_shows():
    assert shown._shades(np.array([0.0, 1e-6, 0.25, 0.6, 0.9, 1.0])) == " ░▒▓██"


def test_tables_hold_the_numbers(outcome):
    table = shown.result_table([outcome, outcome])
    cells = {cells[0]: cells[1:] for cells in table.rows}
    assert cells["pauses"] == (f"{outcome.metrics.pauses:,}",) * 2
    assert cells["packets dropped"] == ("0", "0")
    assert table.header == ("", "none", "none")
    words = [what for _, what in shown.moment_table(outcome).rows]
    assert words[0] == "first packet marked (ECN)"


def test_nothing_happens_is_said():
    calm = simulate_congest(replace(BASE, sender_bps=50e9, duration_s=1e-4))
    table = shown.moment_table(replace(calm, moments=()))
    assert table.notes == ("Nothing: no mark, no pause, no drop, no queue.",)


def test_figures_have_every_series(outcome, points):
    figure = shown.draw_congest([outcome])
    assert [trace.name for trace in figure.data] == [
        "none", "none: senders, mean", "none: egress", "none: marked", "none: paused",
    ]  # fmt: skip
    assert max(figure.data[0].y) == pytest.approx(12.8, rel=0.01)
    maps = shown.draw_sweep(points)
    assert len(maps.data) == 2 * 5
    assert list(maps.data[0].x) == ["5%", "5%", "60%", "60%"]


def test_sweep_does_not_depend_on_the_executor(points):
    again = sweep([p.case for p in points], InProcessExecutor())
    assert [p.metrics.throughput_bps for p in again] == [p.metrics.throughput_bps for p in points]


def test_sweep_tells_how_far_it_is():
    seen: list[float] = []
    sweep([replace(BASE, duration_s=1e-4, seed=k) for k in range(4)], progress=seen.append)
    assert seen == [0.25, 0.5, 0.75, 1.0]


def test_sweep_table_says_who_acts(points):
    table = shown.sweep_table(points)
    assert len(table.rows) == 8
    # sender 120 into 100 for 3 ms: 7.5 MB, above 20 % of 16 MB, and ECN at 5 % or 60 %
    assert [cells[-1] for cells in table.rows[:4]] == ["both", "ECN alone", "PFC alone", "neither"]


def test_files(outcome, points, tmp_path):
    page = shown.write_congest([outcome], tmp_path)
    frame = pl.read_parquet(tmp_path / "series.parquet")
    assert frame.height == len(outcome.time_s)
    assert frame["queue_bytes"].max() == outcome.metrics.queue_max_bytes
    text = page.read_text("utf-8")
    assert "first packet marked (ECN)" in text
    assert not re.findall(r"<(?:script|img|iframe)[^>]*\ssrc=|<link", text)  # asks for nothing
    shown.write_sweep(points, tmp_path)
    assert pl.read_csv(tmp_path / "sweep.csv").height == len(points)
    assert pl.read_parquet(tmp_path / "sweep.parquet")["acting"].to_list()[0] == "both"


def test_documents_are_plain(outcome, points):
    document = shown.congest_json([outcome])[0]
    assert document["case"]["ecn"]["kmin_bytes"] == 6_400_000
    assert document["metrics"]["pauses"] == outcome.metrics.pauses
    grid_document = shown.sweep_json(points)
    assert [p["acting"] for p in grid_document["points"][:2]] == ["both", "ECN alone"]
    assert all(isinstance(line, str) for line in grid_document["reading"])


def test_a_baseline_is_dashed_and_has_its_own_thresholds(outcome):
    other = simulate_congest(replace(BASE, ecn=EcnThresholds(1_600_000, 3_200_000, 0.5)))
    figure = shown.draw_congest([outcome], baseline=other, title=False)
    assert figure.layout.title.text is None
    assert [t.name for t in figure.data if t.line.dash == "dash"] == [
        "baseline", "baseline: senders, mean", "baseline: marked", "baseline: paused",
    ]  # fmt: skip
    names = [note.text for note in figure.layout.annotations]
    heights = [shape.y0 for shape in figure.layout.shapes]
    assert dict(zip(names, heights, strict=True)) == {
        "buffer": 16.0,
        "PFC": 12.8,
        "ECN": 6.4,
        "ECN, Kmin, baseline": 1.6,
        "ECN, Kmax, baseline": 3.2,
    }
    assert figure.layout.yaxis.range[1] > 16


def test_several_senders_have_a_band(outcome):
    figure = shown.draw_congest([simulate_congest(replace(BASE, senders=3, duration_s=1e-3))])
    low, high = (t for t in figure.data if t.name == "slowest to fastest sender")
    assert (np.asarray(low.y) <= np.asarray(high.y)).all()
    assert not [t for t in shown.draw_congest([outcome]).data if t.name.startswith("slowest")]


def test_a_summary_is_drawn_and_listed_as_its_outcome(outcome):
    kept = summarise(outcome)
    assert shown.draw_congest([kept]) == shown.draw_congest([outcome])
    assert shown.result_table([kept]) == shown.result_table([outcome])
    assert shown.moment_table(kept) == shown.moment_table(outcome)


def test_a_comparison_says_what_changed(outcome):
    numbers = outcome.metrics
    twice = replace(numbers, pauses=0, marks=numbers.marks * 2, jain=numbers.jain * 1.0001)
    other = replace(outcome, metrics=twice)
    table = shown.comparison_table(other, outcome)
    assert table.header == ("", "baseline", "now", "change")
    cells = {row[0]: row[-1] for row in table.rows}
    assert cells["pauses"] == "from none"
    assert cells["packets marked (ECN)"] == "-50.0 %"
    assert cells["packets dropped"] == "same"
    assert cells["fairness (Jain)"] == "under 0.1 %"


def test_thresholds_of_one_height_share_a_label(outcome):
    case = replace(outcome.case, ecn=EcnThresholds(6_400_000, 12_800_000, 0.5))
    figure = shown.draw_congest([replace(outcome, case=case)])
    names = [note.text for note in figure.layout.annotations]
    assert names == ["buffer", "PFC; ECN, Kmax", "ECN, Kmin"]
    assert len(figure.layout.shapes) == 4
