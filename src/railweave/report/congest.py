"""The congested switch for people: a time axis in text, tables, figures, files."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from railweave.engine.congest import CongestCase, CongestOutcome
from railweave.engine.congest_sweep import SweepPoint, read_sweep, threshold_text
from railweave.formats.files import staged
from railweave.report._congest_figures import Outcome, case_text, draw_congest, draw_sweep
from railweave.report.page_table import DASH, PageTable, known
from railweave.report.plain_page import plain_page
from railweave.units import format_bits_rate, format_bytes, format_seconds

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "Outcome",
    "case_text",
    "comparison_table",
    "congest_json",
    "draw_congest",
    "draw_sweep",
    "moment_table",
    "result_table",
    "sweep_frame",
    "sweep_json",
    "sweep_table",
    "time_axis",
    "write_congest",
    "write_sweep",
]

F64 = npt.NDArray[np.float64]

_BARS: Final = "▁▂▃▄▅▆▇█"
_SHADES: Final = " ░▒▓█"
_LABEL, _AXIS, _WIDTH = 9, 58, 80


# ---------------------------------------------------------------- text


def time_axis(outcome: CongestOutcome, *, queue_top_bytes: float | None = None) -> str:
    """Return the time axis as text of at most 80 columns.

    A column shows the longest queue, the mean rates and the shares of its part of the time.

    Args:
        outcome: what is shown.
        queue_top_bytes: top of the queue's scale; None takes the longest queue.
    """
    case = outcome.case
    top = queue_top_bytes or float(outcome.queue_bytes.max()) or 1.0
    bins = _bins(outcome)
    rate = outcome.sender_bps
    rows = [
        ("queue", _bars(_by(bins, outcome.queue_bytes, np.max), top), f"≤ {format_bytes(top)}"),
        (
            "sender" if case.senders == 1 else "senders",
            _bars(_by(bins, rate.mean(axis=1), np.mean), case.sender_bps),
            f"≤ {format_bits_rate(case.sender_bps)}",
        ),
    ]
    if case.senders > 1:
        # Over a column's time, not from sample to sample: pauses are shorter than a column.
        each = np.stack([_by(bins, one, np.mean) for one in rate.T])
        for label, values in ((" fastest", each.max(axis=0)), (" slowest", each.min(axis=0))):
            rows.append((label, _bars(values, case.sender_bps), rows[1][2]))
    egress = _bars(_by(bins, outcome.egress_bps, np.mean), case.egress_bps)
    rows.append(("egress", egress, f"≤ {format_bits_rate(case.egress_bps)}"))
    marks = _shades(_by(bins, outcome.marked_share, np.mean))
    rows.append(("ECN", marks if case.ecn else _off(), "marked"))
    pauses = _shades(_by(bins, outcome.paused_share.mean(axis=1), np.mean))
    rows.append(("PFC", pauses if case.pfc_bytes is not None else _off(), "paused"))
    if outcome.metrics.drops:
        lost = _by(bins, outcome.dropped, np.sum)
        rows.append(("drops", _shades(lost / max(1.0, float(lost.max()))), "lost"))
    lines = [f"{label:<{_LABEL}}{cells} {scale}" for label, cells, scale in rows]
    return "\n".join([*lines, *_ticks(outcome.metrics.elapsed_s)])


def _bins(outcome: CongestOutcome) -> list[slice]:
    """Cut the samples into one piece for each column."""
    edges = np.linspace(0, outcome.metrics.elapsed_s * (1 + 1e-9), _AXIS + 1)
    at = np.searchsorted(outcome.time_s, edges)
    at[-1] = len(outcome.time_s)
    return [slice(int(a), int(b)) for a, b in pairwise(at)]


def _by(bins: list[slice], values: F64, how: Callable[[F64], Any]) -> F64:
    """Return one value a column; one without a sample repeats the column before."""
    out = np.zeros(len(bins))
    for k, piece in enumerate(bins):
        part = values[piece]
        out[k] = how(part) if len(part) else out[k - 1] if k and how is not np.sum else 0.0
    return out


def _bars(values: F64, top: float) -> str:
    steps = np.clip(values / top * len(_BARS), 0, len(_BARS) - 1e-9).astype(int)
    return "".join(" " if v <= 0 else _BARS[s] for v, s in zip(values, steps, strict=True))


def _shades(shares: F64) -> str:
    """Shade shares: any at all shows, and full is full from 90 % on."""
    steps = np.where(shares <= 0, 0, np.digitize(shares, (0.25, 0.6, 0.9)) + 1)
    return "".join(_SHADES[s] for s in steps)


def _off() -> str:
    return f"{'off':<{_AXIS}}"


def _ticks(elapsed_s: float) -> list[str]:
    """Return the axis with five ticks, and their times under it."""
    rule = list("─" * _AXIS)
    text = [" "] * (_WIDTH - _LABEL)
    for k in range(5):
        place = round(k * (_AXIS - 1) / 4)
        rule[place] = "┴"
        label = format_seconds(elapsed_s * k / 4)
        start = min(max(0, place - len(label) // 2), len(text) - len(label))
        text[start : start + len(label)] = label
    return [" " * _LABEL + "".join(rule), " " * _LABEL + "".join(text).rstrip()]


# ---------------------------------------------------------------- tables


def moment_table(outcome: Outcome) -> PageTable:
    """Return what happened, in order."""
    return PageTable(
        f"moments-{outcome.case.profile}",
        "What happened",
        ("time", "what"),
        tuple((format_seconds(moment.time_s), moment.text) for moment in outcome.moments),
        () if outcome.moments else ("Nothing: no mark, no pause, no drop, no queue.",),
        (),
        ("what",),
    )


def _percent(value: float) -> str:
    return f"{100 * value:.3g} %"


def _count(value: float) -> str:
    return f"{value:,.0f}"


_ROWS: Final[tuple[tuple[str, str, Callable[[float], str]], ...]] = (
    ("throughput, wire", "throughput_bps", format_bits_rate),
    ("goodput, payload", "goodput_bps", format_bits_rate),
    ("queue, mean", "queue_mean_bytes", format_bytes),
    ("queue, longest", "queue_max_bytes", format_bytes),
    ("queueing delay, mean", "delay_mean_s", format_seconds),
    ("queueing delay, p99", "delay_p99_s", format_seconds),
    ("time paused, mean of senders", "paused_share", _percent),
    ("pauses", "pauses", _count),
    ("packets marked (ECN)", "marks", _count),
    ("notifications (CNP)", "cnps", _count),
    ("packets dropped", "drops", _count),
    ("packets sent again", "retransmitted", _count),
    ("fairness (Jain)", "jain", lambda value: f"{value:.4f}"),
    ("oscillation of the queue", "oscillation", lambda value: f"{value:.3g}"),
    ("oscillation of the rates", "rate_oscillation", lambda value: f"{value:.3g}"),
    ("simulated", "elapsed_s", format_seconds),
)


def result_table(outcomes: Sequence[Outcome], names: Sequence[str] | None = None) -> PageTable:
    """Return the numbers, one column an outcome; ``names`` head them, else their profiles."""
    rows = [
        (label, *(known(float(getattr(o.metrics, name)), show) for o in outcomes))
        for label, name, show in _ROWS
    ]
    return PageTable(
        "congest",
        "In numbers",
        ("", *(names or [outcome.case.profile for outcome in outcomes])),
        tuple(rows),
        (
            "Queueing delay: the queue at the samples' times / egress speed.",
            "Oscillation: standard deviation / mean, in the second half.",
        ),
    )


def comparison_table(baseline: Outcome, outcome: Outcome) -> PageTable:
    """Return the numbers of two outcomes beside each other, and by how much the second differs."""
    table = result_table([baseline, outcome], ("baseline", "now"))
    rows = []
    for cells, (_, name, _) in zip(table.rows, _ROWS, strict=True):
        before, now = (float(getattr(one.metrics, name)) for one in (baseline, outcome))
        rows.append((*cells, _change(before, now)))
    said = (f"baseline: {case_text(baseline.case)}.", f"now: {case_text(outcome.case)}.")
    return PageTable(
        "congest-compared",
        "Compared with the baseline",
        (*table.header, "change"),
        tuple(rows),
        (*said, *table.notes),
    )


def _change(before: float, now: float) -> str:
    if not (math.isfinite(before) and math.isfinite(now)):
        return DASH
    if before == now:
        return "same"
    if not before:
        return "from none"
    change = f"{100 * (now / before - 1):+.1f} %"
    return "under 0.1 %" if change[1:] == "0.0 %" else change


_SHORT: Final = (
    "profile",
    "ECN",
    "PFC",
    "Gb/s",
    "p99 delay",
    "pauses",
    "paused",
    "drops",
    "osc.",
    "who acts",
)


def sweep_table(points: Sequence[SweepPoint]) -> PageTable:
    """Return the grid, one row a setting."""
    rows = []
    for point in points:
        ecn, pfc = threshold_text(point.case)
        numbers = point.metrics
        rows.append(
            (
                point.case.profile,
                ecn,
                pfc,
                f"{numbers.throughput_bps / 1e9:.1f}",
                format_seconds(numbers.delay_p99_s),
                _count(numbers.pauses),
                _percent(numbers.paused_share),
                _count(numbers.drops),
                known(numbers.oscillation, lambda value: f"{value:.2f}"),
                point.acting.value,
            )
        )
    return PageTable(
        "congest-sweep",
        "ECN × PFC × profile",
        _SHORT,
        tuple(rows),
        (
            "Gb/s: wire, at the egress. paused: share of the time, mean of the senders.",
            f"osc.: standard deviation / mean of the queue in the second half, {DASH} if empty.",
        ),
        ("paused",),
        ("who acts",),
    )


# ---------------------------------------------------------------- documents and files


def _case_json(case: CongestCase) -> dict[str, Any]:
    return dataclasses.asdict(case)


def congest_json(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Return cases, numbers and what happened as plain data."""
    return [
        {
            "case": _case_json(outcome.case),
            "metrics": dataclasses.asdict(outcome.metrics),
            "moments": [dataclasses.asdict(moment) for moment in outcome.moments],
            "findings": [dataclasses.asdict(finding) for finding in outcome.findings],
            "assumptions": [dataclasses.asdict(item) for item in outcome.assumptions],
        }
        for outcome in outcomes
    ]


def sweep_json(points: Sequence[SweepPoint]) -> dict[str, Any]:
    """Return the grid and its reading as plain data."""
    return {
        "points": [
            {
                "case": _case_json(point.case),
                "metrics": dataclasses.asdict(point.metrics),
                "acting": point.acting.value,
            }
            for point in points
        ],
        "reading": list(read_sweep(points)),
    }


def sweep_frame(points: Sequence[SweepPoint]) -> pl.DataFrame:
    """Return the grid: one row a setting, with every number."""
    import polars as pl

    return pl.DataFrame(
        [
            {
                "profile": point.case.profile,
                "ecn_kmin_bytes": None if point.case.ecn is None else point.case.ecn.kmin_bytes,
                "ecn_kmax_bytes": None if point.case.ecn is None else point.case.ecn.kmax_bytes,
                "pfc_bytes": point.case.pfc_bytes,
                **dataclasses.asdict(point.metrics),
                "acting": point.acting.value,
            }
            for point in points
        ],
        infer_schema_length=None,
    )


def write_congest(outcomes: Sequence[CongestOutcome], folder: Path) -> Path:
    """Write ``congest.html``, ``series.parquet``, ``numbers.csv``; return the page's path."""
    import polars as pl

    series = pl.concat(
        o.frame().with_columns(pl.lit(o.case.profile).alias("profile")) for o in outcomes
    )
    numbers = sweep_frame([SweepPoint(o.case, o.metrics) for o in outcomes])
    tables = [result_table(outcomes), *(moment_table(outcome) for outcome in outcomes)]
    titles = [case_text(outcome.case) for outcome in outcomes]
    page = plain_page("Congested switch", [draw_congest(outcomes)], titles, tables)
    with staged(folder) as stage:
        stage.write("series.parquet", series.write_parquet)
        stage.write("numbers.csv", numbers.write_csv)
        return stage.write_text("congest.html", page)


def write_sweep(points: Sequence[SweepPoint], folder: Path) -> Path:
    """Write ``sweep.html``, ``sweep.parquet``, ``sweep.csv``; return the page's path."""
    frame = sweep_frame(points)
    page = plain_page(
        "ECN × PFC × profile", [draw_sweep(points)], read_sweep(points), [sweep_table(points)]
    )
    with staged(folder) as stage:
        stage.write("sweep.parquet", frame.write_parquet)
        stage.write("sweep.csv", frame.write_csv)
        return stage.write_text("sweep.html", page)
