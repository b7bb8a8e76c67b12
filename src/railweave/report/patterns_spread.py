"""Figures of how far bytes go: by kind of group, and by placement rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from railweave.report.patterns_figures import PLACE_COLOURS
from railweave.report.patterns_groups import PLACE_NAMES
from railweave.report.style import house_layout
from railweave.units import format_si
from railweave.workload import ByteShares

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from railweave.report.patterns_model import ModelStudy
    from railweave.report.patterns_placement import PlacementShares

__all__ = ["draw_groups", "draw_placements"]


def draw_groups(study: ModelStudy) -> go.Figure:
    """Draw what each kind of group sends in a step, by the farthest place it passes."""
    names = [str(group.kind) for group in study.groups]
    parts = [
        [
            group.total_bytes * share
            for share in (
                group.share_server,
                group.share_leaf,
                group.share_spine,
                group.share_core,
            )
        ]
        for group in study.groups
    ]
    most = max((group.total_bytes for group in study.groups), default=1.0)
    size, unit = next(
        ((s, u) for s, u in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")) if most >= s), (1e3, "kB")
    )
    return _bars(names, parts, 1 / size, f"Bytes of a step by kind of group, {unit}")


def draw_placements(found: Sequence[PlacementShares]) -> go.Figure:
    """Draw the parts of a step's bytes by the farthest place they pass, a bar a rule."""
    shown = [one for one in found if not one.problem]
    names = [one.placement.value for one in shown]
    parts = [_places(one.shares) for one in shown]
    total = max((one.shares.total_bytes for one in shown), default=0.0) or 1.0
    return _bars(names, parts, 100 / total, "How far the bytes go by placement, per cent")


def _places(shares: ByteShares) -> list[float]:
    return [shares.server_bytes, shares.leaf_bytes, shares.spine_bytes, shares.core_bytes]


def _bars(names: list[str], parts: list[list[float]], scale: float, title: str) -> go.Figure:
    """Draw stacked bars, the first on top; ``parts`` are bytes by place, a list a bar."""
    import plotly.graph_objects as go

    bars: list[dict[str, Any]] = [
        {
            "type": "bar",
            "y": names,
            "x": [row[place] * scale for row in parts],
            "orientation": "h",
            "name": name,
            "marker": {"color": PLACE_COLOURS[place]},
            "hovertext": [
                f"{which}, {name}: {format_si(row[place], 'B')}"
                for which, row in zip(names, parts, strict=True)
            ],
            "hoverinfo": "text",
        }
        for place, name in enumerate(PLACE_NAMES)
        if any(row[place] > 0 for row in parts)
    ]
    layout = house_layout(height=120 + 30 * len(names), title=title)
    layout |= {"barmode": "stack", "bargap": 0.25, "showlegend": True}
    layout["margin"] |= {"l": 8, "b": 60}
    below = -24 / (30 * len(names) + 20)  # in parts of the height of the bars
    layout["legend"] |= {"traceorder": "normal", "y": below, "yanchor": "top"}
    layout["xaxis"] |= {"rangemode": "tozero"}
    layout["yaxis"] |= {"categoryarray": names[::-1], "automargin": True}
    return go.Figure(bars, layout)
