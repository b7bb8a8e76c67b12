"""Lab 7's figures: bus bandwidth over sizes and time over GPUs, by algorithm.

Traces and layout are put together as plain dictionaries and checked by Plotly once: an update at a
time would take longer than all the curves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from railweave.design.models import ALGORITHMS, Algorithm
from railweave.engine.metrics import collective_bandwidth
from railweave.report.style import COLOURS, apply_style
from railweave.studio.labs._collectives import (
    ALGORITHM_NAMES,
    OPERATION_NAMES,
    State,
    read,
    time_of,
)
from railweave.studio.labs._collectives_curves import SIZES, Curves, curves, short_size
from railweave.units import format_bytes, format_seconds
from railweave.workload import bus_factor

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["FIGURE_PX", "Point", "figures", "sweep_figure"]

FIGURE_PX: Final = 380
Point = tuple[float, float]
Trace = dict[str, Any]
#: of each algorithm: its colour and its dash, so that neither is needed alone
_LINES: Final[dict[Algorithm, tuple[str, str]]] = {
    Algorithm.RING: (COLOURS["first"], "solid"),
    Algorithm.TREE: (COLOURS["second"], "dash"),
    Algorithm.HALVING_DOUBLING: (COLOURS["good"], "dot"),
    Algorithm.HIERARCHICAL: (COLOURS["spine"], "dashdot"),
    Algorithm.DIRECT: (COLOURS["first"], "solid"),
    Algorithm.RAIL_ALIGNED: (COLOURS["second"], "dash"),
}
_GBPS: Final = "%{y:.4g} GB/s"
_SECONDS: Final = "%{y:.4s}s"


def figures(
    state: State, over_sizes: tuple[Point, ...] = (), over_ranks: tuple[Point, ...] = ()
) -> tuple[Curves, go.Figure, go.Figure]:
    """Return the curves of a state and both figures.

    Args:
        state: the inputs; raises InputError where they cannot be.
        over_sizes: (size, time) of the flow engine.
        over_ranks: (ranks, time) of the flow engine.
    """
    found = curves(state)
    return found, _sizes_figure(found, over_sizes), _ranks_figure(found, over_ranks)


def sweep_figure(state: State, points: Sequence[dict[str, Any]], time_s: float) -> go.Figure:
    """Draw bus bandwidth over sizes on a design, with this setting's point."""
    given = read(state)
    traces = []
    for algorithm in ALGORITHMS[given.op]:
        mine = [p for p in points if p["algorithm"] == algorithm.value]
        if mine:
            x, y = [p["size"] for p in mine], [p["busbw_Bps"] / 1e9 for p in mine]
            line = _line(algorithm, algorithm is given.algorithm, x, y, _GBPS)
            traces.append({**line, "mode": "lines+markers"})
    _, busbw = collective_bandwidth(given.op, given.ranks, given.size_bytes, time_s)
    traces.append(_here(given.size_bytes, busbw / 1e9, _GBPS))
    name = OPERATION_NAMES[given.op]
    title = f"{name} over {given.ranks:,} GPUs of this design by size, flow engine"
    return _figure(title, traces, _size_axis(), _bus_axis())


def _sizes_figure(found: Curves, engine: Sequence[Point]) -> go.Figure:
    given = found.inputs
    factor = bus_factor(given.op, given.ranks)

    def bus(x: Sequence[float], times_s: Sequence[float]) -> list[float]:
        return [
            factor * s / t / 1e9 if t > 0 else math.nan for s, t in zip(x, times_s, strict=True)
        ]

    bound = found.over_sizes[0]
    traces = [_bound(bound.x, bus(bound.x, bound.bound_s), _GBPS)]
    for curve in found.over_sizes:
        chosen = curve.algorithm is given.algorithm
        traces.append(_line(curve.algorithm, chosen, curve.x, bus(curve.x, curve.time_s), _GBPS))
    at, times = [x for x, _ in engine], [t for _, t in engine]
    traces.append(_engine(at, bus(at, times), _GBPS))
    traces.append(_here(given.size_bytes, time_of(given).busbw_Bps / 1e9, _GBPS))
    title = f"Bus bandwidth of {OPERATION_NAMES[given.op]} over {given.ranks:,} GPUs by size"
    crossings = [float(c.size_bytes) for c in found.crossings]
    return _figure(title, traces, _size_axis(), _bus_axis(), crossings)


def _ranks_figure(found: Curves, engine: Sequence[Point]) -> go.Figure:
    given = found.inputs
    now = time_of(given).time_s
    bound = found.over_ranks[0]
    traces = [_bound(bound.x, bound.bound_s, _SECONDS)]
    for curve in found.over_ranks:
        chosen = curve.algorithm is given.algorithm
        traces.append(_line(curve.algorithm, chosen, curve.x, curve.time_s, _SECONDS))
    traces.append(_engine([x for x, _ in engine], [t for _, t in engine], _SECONDS))
    traces.append(_here(given.ranks, now, _SECONDS))
    ticks = [2**k for k in range(1, 11)]
    times = [now, *(t for curve in found.over_ranks for t in (*curve.time_s, *curve.bound_s))]
    return _figure(
        f"Time of {OPERATION_NAMES[given.op]} of {given.size_text} by GPUs",
        traces,
        {
            "type": "log",
            "tickvals": ticks,
            "ticktext": [f"{tick:,}" for tick in ticks],
        },
        {"type": "log", "title": {"text": "time"}, **_time_ticks([t for t in times if t > 0])},
    )


# ---------------------------------------------------------------- axes


def _size_axis() -> dict[str, Any]:
    ticks = [1024 * 64**k for k in range(5)]
    return {
        "type": "log",
        "tickangle": 0,
        "tickvals": ticks,
        "ticktext": [format_bytes(tick) for tick in ticks],
        "range": [math.log10(SIZES[0]) - 0.1, math.log10(SIZES[-1]) + 0.1],
    }


def _bus_axis() -> dict[str, Any]:
    return {"title": {"text": "bus bandwidth [GB/s]"}, "rangemode": "tozero"}


def _time_ticks(times_s: Sequence[float]) -> dict[str, Any]:
    """Return ticks of an axis of times, each with its unit."""
    low, high = math.log10(min(times_s)), math.log10(max(times_s))
    decades = range(math.floor(low), math.ceil(high) + 1)
    steps = (1,) if high - low > 2.5 else (1, 2, 5) if high - low > 0.7 else (1, 1.5, 2, 3, 4, 5, 7)
    at = [m * 10.0**k for k in decades for m in steps]
    shown = [t for t in at if low - 0.3 <= math.log10(t) <= high + 0.3]
    return {"tickvals": shown, "ticktext": [format_seconds(t) for t in shown]}


# ---------------------------------------------------------------- traces


def _line(
    algorithm: Algorithm, chosen: bool, x: Sequence[float], y: Sequence[float], value: str
) -> Trace:
    colour, dash = _LINES[algorithm]
    name = ALGORITHM_NAMES[algorithm]
    return {
        **_trace(name, x, y, value),
        "mode": "lines",
        "line": {"color": colour, "dash": dash, "width": 3 if chosen else 1.5},
    }


def _bound(x: Sequence[float], y: Sequence[float], value: str) -> Trace:
    line = {"color": COLOURS["host"], "width": 1}
    return {**_trace("bound", x, y, value), "mode": "lines", "line": line}


def _engine(x: Sequence[float], y: Sequence[float], value: str) -> Trace:
    return {
        **_trace("flow engine", x, y, value),
        "mode": "markers",
        "marker": {
            "symbol": "diamond-open", "size": 9, "color": COLOURS["bad"], "line": {"width": 2},
        },
    }  # fmt: skip


def _here(x: float, y: float, value: str) -> Trace:
    return {
        **_trace("this setting", [x], [y], value),
        "mode": "markers",
        "marker": {
            "symbol": "circle-open", "size": 14, "color": COLOURS["host"], "line": {"width": 3},
        },
    }  # fmt: skip


def _trace(name: str, x: Sequence[float], y: Sequence[float], value: str) -> Trace:
    return {
        "type": "scatter",
        "name": name,
        "x": list(x),
        "y": list(y),
        "hovertemplate": f"{name}: {value}<extra></extra>",
    }


# ---------------------------------------------------------------- the whole


@lru_cache(maxsize=1)
def _house_layout() -> dict[str, Any]:
    """Return the layout of the house style, with the legend below the figure."""
    import plotly.graph_objects as go

    layout: dict[str, Any] = apply_style(go.Figure(), height=FIGURE_PX, title="t").to_plotly_json()[
        "layout"
    ]
    layout.pop("template", None)
    layout["legend"] |= {"y": 0.01, "yref": "container", "yanchor": "bottom"}
    layout["margin"] |= {"b": 100, "l": 64}
    layout["yaxis"] |= {"automargin": True}
    return layout


def _figure(
    title: str,
    traces: list[Trace],
    xaxis: dict[str, Any],
    yaxis: dict[str, Any],
    crossings: Sequence[float] = (),
) -> go.Figure:
    """Put a figure together; ``crossings`` are marked on the logarithmic axis of x."""
    import plotly.graph_objects as go

    house = _house_layout()
    yaxis["title"]["standoff"] = 10
    layout = {
        **house,
        "title": {**house["title"], "text": title},
        "hovermode": "x unified",
        "xaxis": {**house["xaxis"], **xaxis},
        "yaxis": {**house["yaxis"], **yaxis},
        "shapes": [
            {
                "type": "line", "x0": x, "x1": x, "y0": 0, "y1": 1, "yref": "paper",
                "line": {"color": COLOURS["host"], "width": 1, "dash": "dot"},
            }
            for x in crossings
        ],
        "annotations": [
            {
                "x": math.log10(x), "y": 0.02 + 0.07 * k, "yref": "paper", "yanchor": "bottom",
                "xanchor": "left", "showarrow": False, "text": format_bytes(short_size(round(x))),
            }
            for k, x in enumerate(crossings)
        ],
    }  # fmt: skip
    return go.Figure({"data": traces, "layout": layout})
