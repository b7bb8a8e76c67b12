"""Figures of the congested switch: a time axis, and maps of its thresholds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from railweave.engine.congest import CongestCase, CongestOutcome
from railweave.engine.congest_summary import CongestSummary, summarise
from railweave.engine.congest_sweep import SweepPoint, threshold_text
from railweave.report.page_table import known
from railweave.report.style import COLOURS, HEAT, apply_style
from railweave.units import counted, format_bits_rate, format_bytes

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["Outcome", "case_text", "draw_congest", "draw_sweep"]

F64 = npt.NDArray[np.float64]

#: what is drawn and listed: an outcome, or what is kept of one
Outcome: TypeAlias = CongestOutcome | CongestSummary


def case_text(case: CongestCase) -> str:
    """Say in one sentence what is simulated."""
    ecn, pfc = threshold_text(case)
    who = counted(case.senders, "sender")
    return (
        f"{who} at {format_bits_rate(case.sender_bps)} into {format_bits_rate(case.egress_bps)},"
        f" buffer {format_bytes(case.buffer_bytes)}, ECN {ecn}, PFC {pfc}, {case.profile}"
    )


def draw_congest(
    outcomes: Sequence[Outcome], *, baseline: Outcome | None = None, title: bool = True
) -> go.Figure:
    """Draw queue, rates, marks and pauses over one time axis; outcomes over each other.

    Args:
        outcomes: one, or two of different profiles.
        baseline: what they are compared with: dashed, in the second colour, with its own
            thresholds where they are others.
        title: whether the figure says what one outcome is of.
    """
    import plotly.graph_objects as go

    traces: list[dict[str, Any]] = []
    for outcome, colour in zip(outcomes, (COLOURS["first"], COLOURS["second"]), strict=False):
        traces += _traces(outcome, colour, outcome.case.profile)
    lines = _threshold_lines(outcomes[0].case)
    if baseline is not None:
        traces += _traces(baseline, COLOURS["second"], "baseline", dash="dash")
        seen = {(name, size) for name, size, _ in lines}
        lines += [
            (f"{name}, baseline", size, colour)
            for name, size, colour in _threshold_lines(baseline.case)
            if (name, size) not in seen
        ]
    shown = [*outcomes, *([] if baseline is None else [baseline])]
    top = max([*(float(o.queue_bytes.max()) for o in shown), *(size for _, size, _ in lines)])
    # Made at once: bit by bit takes a tenth of a second, which the studio has not got.
    figure = go.Figure({"data": traces, "layout": _layout(lines, top / 1e6)})
    said = case_text(outcomes[0].case) if title and len(outcomes) == 1 else ""
    return apply_style(figure, height=680, title=said)


_PANELS: Final = ("queue [MB]", "rate [Gb/s]", "marked [%]", "paused [%]")
_HEIGHTS: Final = (4, 4, 2, 2)
_GAP: Final = 0.035


def _axis(row: int) -> str:
    """Return the number in the name of a panel's axis, counted from 1: none for the first."""
    return "" if row == 1 else str(row)


def _layout(lines: Sequence[tuple[str, int, str]], top_mb: float) -> dict[str, Any]:
    """Lay out the panels, the first at the top, over one time axis."""
    layout: dict[str, Any] = {}
    unit = (1 - _GAP * (len(_PANELS) - 1)) / sum(_HEIGHTS)
    upper = 1.0
    for row, (name, height) in enumerate(zip(_PANELS, _HEIGHTS, strict=True), 1):
        lower = max(0.0, upper - unit * height)
        last = row == len(_PANELS)
        layout[f"yaxis{_axis(row)}"] = {
            "anchor": f"x{_axis(row)}",
            "domain": [lower, upper],
            "title": {"text": name},
            "rangemode": "tozero",
        }
        layout[f"xaxis{_axis(row)}"] = {
            "anchor": f"y{_axis(row)}",
            "showticklabels": last,
            **({"title": {"text": "time [ms]"}} if last else {"matches": f"x{len(_PANELS)}"}),
        }
        upper = lower - _GAP
    # Lines of thresholds do not count where Plotly finds the range.
    layout["yaxis"]["range"] = [0, top_mb * 1.06]
    at = {"xref": "x domain", "yref": "y"}
    layout["shapes"] = [
        {
            **at,
            "type": "line",
            "x0": 0,
            "x1": 1,
            "y0": size / 1e6,
            "y1": size / 1e6,
            "line": {"color": COLOURS[colour], "width": 1, "dash": "dot"},
        }
        for _, size, colour in lines
    ]
    names: dict[int, list[tuple[str, str]]] = {}
    for name, size, colour in lines:  # lines of one height share a label
        names.setdefault(size, []).append((name, colour))
    layout["annotations"] = [
        {
            **at,
            "x": 1,
            "y": size / 1e6,
            "xanchor": "right",
            "yanchor": "bottom",
            "showarrow": False,
            "text": "; ".join(name for name, _ in found),
            "font": {"size": 11, "color": COLOURS[found[0][1]]},
        }
        for size, found in names.items()
    ]
    return layout


def _threshold_lines(case: CongestCase) -> list[tuple[str, int, str]]:
    """Return the lines over the queue: name, bytes, colour."""
    lines = [("buffer", case.buffer_bytes, "host")]
    if case.pfc_bytes is not None:
        lines.append(("PFC", case.pfc_bytes, "bad"))
    if case.ecn is not None:
        low, high = case.ecn.kmin_bytes, case.ecn.kmax_bytes
        lines.append(("ECN" if low == high else "ECN, Kmin", low, "good"))
        if low != high:
            lines.append(("ECN, Kmax", high, "good"))
    return lines


def _traces(
    outcome: Outcome, colour: str, name: str, *, dash: str = "solid"
) -> list[dict[str, Any]]:
    """Return an outcome's curves: the queue, rates, marks and pauses."""
    of = outcome if isinstance(outcome, CongestSummary) else summarise(outcome)
    at = np.round(of.time_s * 1e3, 6).astype(np.float32)
    curves = [
        (1, name, of.queue_bytes / 1e6, dash),
        (2, f"{name}: senders, mean", of.sender_mean_bps / 1e9, dash),
        (2, f"{name}: egress", of.egress_bps / 1e9, "dot"),
        (3, f"{name}: marked", of.marked_share * 100, dash),
        (4, f"{name}: paused", of.paused_share * 100, dash),
    ]
    band = _band(at, of, colour) if of.case.senders > 1 and dash == "solid" else []
    return band + [
        {
            **_curve(row, label, at, values),
            "legendgroup": label,
            "showlegend": row <= 2 and label != f"{name}: senders, mean",
            "line": {"color": colour, "width": 1.5, "dash": how},
            "fill": "tozeroy" if row > 2 and dash == "solid" else None,
            "hovertemplate": "%{x:.4g} ms: %{y:.4g}<extra>" + label + "</extra>",
        }
        for row, label, values, how in curves
    ]


def _curve(row: int, name: str, at: npt.NDArray[np.float32], values: F64) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "xaxis": f"x{_axis(row)}",
        "yaxis": f"y{_axis(row)}",
        "name": name,
        "x": at,
        "y": np.round(values, 4).astype(np.float32),
    }


def _band(at: npt.NDArray[np.float32], of: CongestSummary, hue: str) -> list[dict[str, Any]]:
    """Shade the room between the slowest and the fastest sender."""
    return [
        {
            **_curve(2, "slowest to fastest sender", at, values / 1e9),
            "showlegend": False,
            "line": {"color": hue, "width": 0},
            "fill": fill,
            "opacity": 0.3,
            "hoverinfo": "skip",
        }
        for values, fill in ((of.sender_min_bps, None), (of.sender_max_bps, "tonexty"))
    ]


#: title, number, factor, scale; more throughput is better, more of all else is worse
_MAPS: Final[tuple[tuple[str, str, float, list[tuple[float, str]]], ...]] = (
    ("throughput [Gb/s]", "throughput_bps", 1e-9, [(0.0, HEAT[0][1]), (1.0, COLOURS["good"])]),
    ("p99 delay [us]", "delay_p99_s", 1e6, HEAT),
    ("paused [%]", "paused_share", 100.0, HEAT),
    ("drops", "drops", 1.0, HEAT),
    ("oscillation", "oscillation", 1.0, HEAT),
)


def _short(value: float) -> str:
    """Write a number in five characters or fewer."""
    if value == 0:
        return "0"
    return known(value, lambda number: f"{number:.0f}" if number >= 9.95 else f"{number:.2f}")


def draw_sweep(points: Sequence[SweepPoint]) -> go.Figure:
    """Draw one heat map for each profile (rows) and number (columns): ECN across, PFC upwards."""
    from plotly.subplots import make_subplots

    profiles = list(dict.fromkeys(point.case.profile for point in points))
    figure = make_subplots(
        rows=len(profiles),
        cols=len(_MAPS),
        column_titles=[title for title, *_ in _MAPS],
        row_titles=profiles,
        shared_xaxes=True,
        shared_yaxes=True,
        horizontal_spacing=0.02,
        vertical_spacing=0.06,
    )
    for column, (title, name, factor, scale) in enumerate(_MAPS, 1):
        values = [getattr(p.metrics, name) * factor for p in points]
        finite = [value for value in values if math.isfinite(value)]
        for row, profile in enumerate(profiles, 1):
            mine = [p for p in points if p.case.profile == profile]
            texts = [threshold_text(p.case) for p in mine]
            figure.add_heatmap(
                x=[ecn for ecn, _ in texts],
                y=[pfc for _, pfc in texts],
                z=[getattr(p.metrics, name) * factor for p in mine],
                zmin=0.0,
                zmax=max(finite, default=0.0) or 1.0,
                colorscale=[[at, colour] for at, colour in scale],
                showscale=False,
                text=[_short(getattr(p.metrics, name) * factor) for p in mine],
                texttemplate="%{text}",
                textfont={"size": 10},
                row=row,
                col=column,
                hovertemplate="ECN %{x}, PFC %{y}: %{z:.4g}<extra>" + title + "</extra>",
            )
    figure.update_xaxes(type="category", showgrid=False)
    figure.update_yaxes(type="category", showgrid=False)
    figure.update_xaxes(title="ECN", row=len(profiles))
    figure.update_yaxes(title="PFC", col=1)
    apply_style(figure, height=120 + 210 * len(profiles))
    figure.update_layout(margin={"t": 36, "r": 36})
    return figure
