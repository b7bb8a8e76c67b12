"""Figures and tables of experiments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from railweave.report.page_table import PageTable
from railweave.report.style import COLOURS, PLANE_COLOURS, apply_style
from railweave.units import format_seconds, format_si

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from railweave.experiments import Chart, Experiment, Outcome

__all__ = ["draw_chart", "format_value", "value_table"]

_SERIES: Final = (
    COLOURS["first"],
    COLOURS["second"],
    COLOURS["good"],
    COLOURS["spine"],
    COLOURS["bad"],
    COLOURS["host"],
)
_MOST_COLOURS: Final = len(_SERIES)
#: where values of many cases have these measures, a table has a row a case and a column a measure
_MEASURES: Final = (
    "median_queue_bytes",
    "p99_queue_bytes",
    "most_over_least",
    "uplink_waits_for_credits_share",
    "repeated_per_packet",
    "repeated_share",
    "p99_message_s",
    "over_median",
    "out_of_order",
    "notifications",
    "collective_s",
    "goodput_bps",
    "victim_bps",
    "receiver_bps",
    "pauses",
    "share",
    "jain",
    "cnps",
    "use",
    "p50_s",
    "p99_s",
    "max_s",
    "s",
)
_LEAST_CASES: Final = 3


def draw_chart(chart: Chart) -> go.Figure:
    """Draw one chart of an experiment."""
    import plotly.graph_objects as go

    figure = go.Figure()
    names = chart.frame["series"].unique(maintain_order=True).to_list()
    palette = _SERIES if len(names) <= _MOST_COLOURS else PLANE_COLOURS
    for name, colour in zip(names, palette, strict=False):
        rows = chart.frame.filter(chart.frame["series"] == name)
        x, y = rows["x"].to_list(), rows["y"].to_list()
        if chart.kind == "bar":
            labels = [str(text).replace(", ", ",<br>") for text in x]  # else they stand aslant
            figure.add_bar(x=labels, y=y, name=name, marker_color=colour)
        else:
            mode = "lines" if chart.kind == "line" else "markers"
            figure.add_scatter(x=x, y=y, name=name, mode=mode, line={"color": colour, "width": 1.5})
    if chart.band is not None:
        low, high, what = chart.band
        figure.add_hrect(
            y0=low,
            y1=high,
            fillcolor=COLOURS["good"],
            opacity=0.12,
            line_width=0,
            annotation_text=what,
            annotation_position="top left",
        )
    figure.update_layout(barmode="group", bargap=0.3, showlegend=True)
    figure.update_xaxes(title=chart.x_title or None)
    figure.update_yaxes(title=chart.y_title, rangemode="tozero")
    if chart.log_x:
        figure.update_xaxes(type="log")
    if chart.log_y:
        figure.update_yaxes(type="log")
    return apply_style(figure, height=340)


def value_table(experiment: Experiment, outcome: Outcome) -> PageTable:
    """Return the values of an experiment as a table: by case and measure where there are many."""
    cases: dict[str, dict[str, float]] = {}
    alone: list[tuple[str, str]] = []
    for key, value in outcome.values.items():
        measure = next((m for m in _MEASURES if key.endswith(f"_{m}")), "")
        if measure:
            cases.setdefault(key.removesuffix(f"_{measure}"), {})[measure] = value
        else:
            alone.append((_words(key), format_value(key, value)))
    measures = list(dict.fromkeys(m for case in cases.values() for m in case))
    title = experiment.title
    if len(cases) < _LEAST_CASES or len(measures) < 2 or alone:
        rows = tuple((_words(k), format_value(k, v)) for k, v in outcome.values.items())
        return PageTable(experiment.name, title, ("measured", "value"), rows, (), (), ("measured",))
    table = tuple(
        (_words(case), *(format_value(m, of[m]) if m in of else "–" for m in measures))
        for case, of in cases.items()
    )
    columns = ("case", *(_words(m) for m in measures))
    return PageTable(experiment.name, title, columns, table, (), (), ("case",))


def _words(key: str) -> str:
    """Return the name of a value without its unit."""
    for unit in ("_bps", "_bytes", "_share", "_s"):
        if key.endswith(unit) and key not in ("s", unit[1:]):
            key = key.removesuffix(unit)
            break
    return {"s": "time", "share": "share"}.get(key, key).replace("_", " ")


def format_value(key: str, value: float) -> str:
    """Write a value with the unit that its name says."""
    last = key.rsplit("_", 1)[-1]
    if last == "s":
        return format_seconds(value)
    if last in ("bps", "bytes"):
        return format_si(value, {"bps": "b/s", "bytes": "B"}[last], 3)
    if last in ("share", "use", "recovered"):
        return f"{100 * value:.1f} %"
    return f"{value:,.0f}" if value == int(value) else f"{value:.3f}"
