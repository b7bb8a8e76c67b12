"""Figures of training: timeline by rank and stream, time and memory by stage, scaling, networks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from railweave.predict._training_types import StepEstimate
from railweave.predict.scaling import NetworkCase, ScalingCurve
from railweave.predict.timeline import Timeline
from railweave.report.style import COLOURS, PLANE_COLOURS, ROLE_COLOURS, house_layout
from railweave.report.training_tables import shown_stages
from railweave.units import format_seconds, format_si

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = [
    "draw_idle",
    "draw_memory",
    "draw_networks",
    "draw_scaling",
    "draw_timeline",
    "timeline_rows",
]

#: colour by what a GPU does or waits for; the same in every figure of training
ACTION_COLOURS: Final[dict[str, str]] = {
    "forward": COLOURS["first"],
    "backward": "#5b9bd5",
    "arithmetic": COLOURS["first"],
    "optimiser": COLOURS["host"],
    "tensor": ROLE_COLOURS["congestion"],
    "context": PLANE_COLOURS[2],
    "expert": PLANE_COLOURS[3],
    "pipeline": PLANE_COLOURS[0],
    "data": COLOURS["core"],
    "bubble": "#c3cad3",
    "slowest rank": "#8b6bb8",
    "input": COLOURS["spine"],
}
_MEMORY_COLOURS: Final = (
    ("weights", COLOURS["first"]),
    ("gradients", PLANE_COLOURS[0]),
    ("optimiser", COLOURS["spine"]),
    ("activations", COLOURS["warn"]),
    ("workspace", COLOURS["host"]),
)
#: spans a drawing may have; with more, fewer ranks are drawn
MOST_SPANS: Final = 12_000
_MOST_RANKS: Final = 8
_ROW_PX: Final = 17
#: of the stacked figures and the curve, above them, the axis' labels, a row of a legend
_PLOT_PX: Final = 210
_TITLE_PX: Final = 44
_AXIS_PX: Final = 28
_LEGEND_ROW_PX: Final = 19
#: shares below this are rounding
_NOTHING: Final = 1e-7


def colour_of(name: str) -> str:
    """Return the colour of a span or a reason by the longest word of it that has one."""
    words = [key for key in ACTION_COLOURS if key in name]
    for last in ("tensor", "context", "expert", "pipeline", "data"):
        if last in words:
            return ACTION_COLOURS[last]
    if name.startswith("send"):
        return ACTION_COLOURS["pipeline"]
    if name in ("gather weights", "reduce gradients"):
        return ACTION_COLOURS["data"]
    return ACTION_COLOURS[words[0]] if words else COLOURS["link"]


def timeline_rows(timeline: Timeline) -> tuple[list[tuple[int, int]], list[int]]:
    """Return the drawn (stage, stream) pairs from top to bottom, and the drawn stages."""
    most = min(_MOST_RANKS, timeline.stages)
    while most > 1:
        stages = shown_stages(timeline.stages, most)
        if int(np.isin(timeline.stage, stages).sum()) <= MOST_SPANS:
            break
        most -= 1
    stages = shown_stages(timeline.stages, most) if most > 1 else [0]
    there = np.isin(timeline.stage, stages)
    pairs = np.unique(np.stack((timeline.stage[there], timeline.stream[there]), axis=1), axis=0)
    return [(int(stage), int(stream)) for stage, stream in pairs], stages


def _axis_unit(longest_s: float) -> tuple[float, str]:
    """Return what to multiply seconds by, and the unit they are then in."""
    return (1.0, "s") if longest_s >= 1 else (1e3, "ms")


def draw_timeline(timeline: Timeline) -> go.Figure:
    """Draw what pipeline ranks do on each stream; zoom in with the mouse."""
    import plotly.graph_objects as go

    scale, unit = _axis_unit(timeline.step_s)
    pairs, stages = timeline_rows(timeline)
    row_of = np.full((timeline.stages, len(timeline.streams)), -1)
    for row, (stage, stream) in enumerate(pairs):
        row_of[stage, stream] = row
    rows = row_of[timeline.stage, timeline.stream]
    labels = [f"{stage} · {timeline.streams[stream]}" for stage, stream in pairs]
    traces = []
    for number, name in enumerate(timeline.names):
        mine = np.flatnonzero((timeline.name == number) & (rows >= 0))
        if not len(mine):
            continue
        start, long = timeline.start_s[mine], timeline.end_s[mine] - timeline.start_s[mine]
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": name,
                "base": np.round(start * scale, 8),
                "x": np.round(long * scale, 8),
                "y": rows[mine],
                "marker": {"color": colour_of(name), "line": {"width": 0}},
                "opacity": 0.65 if name.startswith("backward ") else 1.0,
                "customdata": _told(timeline, mine),
                "hovertemplate": f"%{{customdata}}<br>%{{base:.5g}} {unit}, "
                f"%{{x:.5g}} {unit} long<extra></extra>",
                "width": 0.86,
            }
        )
    title = "One step by pipeline stage and stream"
    if len(stages) < timeline.stages:
        title += f", {len(stages)} of {timeline.stages} stages"
    plot_px = max(_ROW_PX * len(pairs), 60)
    layout = house_layout(title=title)
    layout |= {"barmode": "overlay", "bargap": 0.1, "hovermode": "closest"}
    _legend_below(layout, plot_px, rows=5)
    layout["margin"] |= {"l": 74}
    layout["xaxis"] |= {"ticksuffix": f" {unit}", "range": [0, timeline.step_s * scale]}
    layout["yaxis"] |= {
        "tickvals": list(range(len(pairs))),
        "ticktext": labels,
        "range": [len(pairs) - 0.5, -0.5],
        "showgrid": False,
        "tickfont": {"size": 10},
    }
    return go.Figure(traces, layout)


def _told(timeline: Timeline, mine: np.ndarray) -> list[str]:
    """Return what each span says where it is pointed at."""
    said = []
    for i in mine.tolist():
        text = f"stage {timeline.stage[i]}: {timeline.names[timeline.name[i]]}"
        if timeline.micro_batch[i] >= 0:
            text += f", micro-batch {timeline.micro_batch[i]}"
        if timeline.chunk[i] > 0:
            text += f", chunk {timeline.chunk[i]}"
        said.append(text)
    return said


def _stacked(
    names: Sequence[str], parts: Sequence[tuple[str, Sequence[float], str]], unit: str
) -> list[dict[str, Any]]:
    """Return a trace a part, stacked over the names; parts of nothing are left out."""
    largest = max(max(values, default=0.0) for _, values, _ in parts)
    return [
        {
            "type": "bar",
            "name": part,
            "x": list(names),
            "y": [float(value) for value in values],
            "marker": {"color": colour},
            "width": 0.8 if len(names) > 3 else 0.12 * (1 + len(names)),
            "hovertemplate": f"%{{x}}: {part} %{{y:.4g}} {unit}<extra></extra>",
        }
        for part, values, colour in parts
        if max(values, default=0.0) > _NOTHING * largest
    ]


def draw_idle(estimate: StepEstimate) -> go.Figure:
    """Draw how a GPU of each stage spends the step: arithmetic, and waiting by reason."""
    import plotly.graph_objects as go

    stages = shown_stages(len(estimate.compute_by_stage))
    by_name = {"arithmetic": estimate.compute_by_stage, **estimate.idle_by_stage}
    scale, unit = _axis_unit(estimate.step_s)
    parts = [
        (name, [scale * by[stage] for stage in stages], colour_of(name))
        for name, by in by_name.items()
    ]
    layout = house_layout(title="What a GPU of each pipeline stage does")
    layout |= {"barmode": "stack"}
    layout["yaxis"] |= {"title": {"text": unit}}
    layout["xaxis"] |= {"type": "category"}
    _legend_below(layout, _PLOT_PX, rows=4)
    return go.Figure(_stacked([f"{stage}" for stage in stages], parts, unit), layout)


def _legend_below(layout: dict[str, Any], plot_px: int, *, rows: int) -> None:
    """Put the legend at the foot of the figure, with room for its rows on a narrow page."""
    ends = {"xref": "container", "x": 0, "yref": "container", "y": 0, "yanchor": "bottom"}
    layout["legend"] |= {**ends, "traceorder": "normal", "font": {"size": 10}, "entrywidth": 82}
    below_px = _AXIS_PX + _LEGEND_ROW_PX * rows
    layout["margin"] |= {"t": _TITLE_PX, "b": below_px}
    layout["height"] = _TITLE_PX + plot_px + below_px


def draw_memory(estimate: StepEstimate) -> go.Figure:
    """Draw a GPU's memory by stage and part, with what is usable as a line."""
    import plotly.graph_objects as go

    memory = estimate.memory
    stages = [memory.stages[number] for number in shown_stages(len(memory.stages))]
    values = (
        [stage.weights_bytes for stage in stages],
        [stage.gradients_bytes for stage in stages],
        [stage.optimizer_bytes for stage in stages],
        [stage.activations_bytes for stage in stages],
        [stage.workspace_bytes for stage in stages],
    )
    parts = [
        (name, [size / 1e9 for size in sizes], colour)
        for (name, colour), sizes in zip(_MEMORY_COLOURS, values, strict=True)
    ]
    usable = memory.usable_bytes / 1e9
    layout = house_layout(title="Memory of a GPU by pipeline stage")
    layout |= {
        "barmode": "stack",
        "shapes": [_line(usable)],
        "annotations": [_note(usable, f"usable {usable:.1f} GB")],
    }
    highest = max(usable, memory.total_bytes / 1e9)
    layout["yaxis"] |= {"title": {"text": "GB"}, "range": [0, 1.12 * highest]}
    layout["xaxis"] |= {"type": "category"}
    _legend_below(layout, _PLOT_PX, rows=4)
    return go.Figure(_stacked([f"{stage.stage}" for stage in stages], parts, "GB"), layout)


def _line(at: float) -> dict[str, Any]:
    line = {"color": COLOURS["bad"], "width": 1.5, "dash": "dash"}
    return {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": at, "y1": at, "line": line}


def _note(at: float, text: str) -> dict[str, Any]:
    return {
        "xref": "paper",
        "x": 1,
        "y": at,
        "text": text,
        "showarrow": False,
        "xanchor": "right",
        "yanchor": "bottom",
        "font": {"size": 11, "color": COLOURS["bad"]},
    }


def draw_scaling(curve: ScalingCurve) -> go.Figure:
    """Draw tokens a second over GPU counts beside a straight line, and the network's share."""
    import plotly.graph_objects as go

    points = curve.points
    gpus = [point.gpus for point in points]
    rate = [point.estimate.tokens_per_s for point in points]
    ideal = [rate[0] * count / gpus[0] for count in gpus]
    lost = [100 * point.case.lost_share for point in points]
    names = [f"{count:,}" for count in gpus]
    traces: list[dict[str, Any]] = [
        {
            "type": "bar",
            "name": "share lost to the network",
            "x": names,
            "y": lost,
            "yaxis": "y2",
            "marker": {"color": COLOURS["core"], "opacity": 0.45},
            "width": 0.35,
            "hovertemplate": "%{x} GPUs: %{y:.3g} % lost to the network<extra></extra>",
        },
        _curve(names, ideal, "as the first, scaled", COLOURS["host"], dash="dot"),
        _curve(names, rate, "tokens/s", COLOURS["first"], dash="solid"),
    ]
    layout = house_layout(title=f"{curve.mode.capitalize()} scaling")
    layout["xaxis"] |= {"title": {"text": "GPUs", "standoff": 8}, "type": "category"}
    layout["yaxis"] |= {"title": {"text": "tokens/s"}, "type": "log"}
    layout["yaxis2"] = {
        "title": {"text": "lost to the network, %"},
        "overlaying": "y",
        "side": "right",
        "range": [0, max(10.0, 1.6 * max(lost))],
        "showgrid": False,
        "tickmode": "auto",
        "nticks": 5,
    }
    layout["margin"] |= {"r": 60}
    _legend_below(layout, _PLOT_PX, rows=5)  # one of them is the axis' title
    return go.Figure(traces, layout)


def _curve(
    names: list[str], values: list[float], name: str, colour: str, *, dash: str
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines+markers" if dash == "solid" else "lines",
        "name": name,
        "x": names,
        "y": values,
        "line": {"color": colour, "width": 2, "dash": dash},
        "hovertext": [
            f"{x} GPUs: {format_si(y, 'tokens/s')}" for x, y in zip(names, values, strict=True)
        ],
        "hoverinfo": "text",
    }


def draw_networks(cases: Sequence[NetworkCase]) -> go.Figure:
    """Draw the step on several networks: what it would take without one, and what is lost to it."""
    import plotly.graph_objects as go

    names = [case.name for case in cases]
    lost = [max(case.step_s - case.free_s, 0.0) for case in cases]
    free = [case.step_s - more for case, more in zip(cases, lost, strict=True)]
    scale, unit = _axis_unit(max(case.step_s for case in cases))
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "y": names,
            "x": [scale * value for value in values],
            "marker": {"color": colour},
            "hovertext": [
                f"{at}: {format_seconds(value)} {name}"
                for at, value in zip(names, values, strict=True)
            ],
            "hoverinfo": "text",
        }
        for name, values, colour in (
            ("without a network", free, COLOURS["first"]),
            ("lost to the network", lost, COLOURS["core"]),
        )
    ]
    layout = house_layout(height=130 + 34 * len(cases), title="The same plan on other networks")
    layout |= {"barmode": "stack"}
    layout["xaxis"] |= {"title": {"text": unit, "standoff": 4}, "rangemode": "tozero"}
    layout["yaxis"] |= {"autorange": "reversed", "automargin": True}
    layout["legend"] |= {"y": -0.42, "yanchor": "top", "traceorder": "normal"}
    layout["margin"] |= {"t": 40, "b": 80}
    return go.Figure(traces, layout)
