"""Figure of what jobs do to each other, by placement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from railweave.report.style import COLOURS, PLANE_COLOURS, house_layout

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["draw_slowdowns"]

_COLOURS: Final = (COLOURS["first"], COLOURS["second"], COLOURS["good"], *PLANE_COLOURS)


def draw_slowdowns(found: Sequence[Mapping[str, Any]]) -> go.Figure:
    """Draw how many times as long each job takes beside the others, a bar a placement.

    Args:
        found: what :func:`railweave.report.interference.interference_json` returns.
    """
    import plotly.graph_objects as go

    bars: list[dict[str, Any]] = [
        {
            "type": "bar",
            "x": [job["name"] for job in one["jobs"]],
            "y": [job["slowdown"] for job in one["jobs"]],
            "name": one["placement"],
            "marker": {"color": _COLOURS[number % len(_COLOURS)]},
            "hovertext": [
                f"{job['name']}, {one['placement']}: {job['slowdown']:.3g} times as long"
                for job in one["jobs"]
            ],
            "hoverinfo": "text",
        }
        for number, one in enumerate(found)
    ]
    layout = house_layout(height=300, title="Time beside the other jobs, times that alone")
    layout |= {"barmode": "group", "showlegend": True}
    layout["yaxis"] |= {"rangemode": "tozero", "ticksuffix": "×"}
    layout["margin"] |= {"b": 64}
    layout["legend"] |= {"traceorder": "normal", "y": -0.16, "yanchor": "top"}
    layout["shapes"] = [
        {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": 1, "y1": 1,
         "line": {"color": "#6b7785", "width": 1, "dash": "dot"}}
    ]  # fmt: skip
    return go.Figure(bars, layout)
