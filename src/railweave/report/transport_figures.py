"""Figures of the comparison of technologies: what makes up each total, and where it turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from railweave.report.style import COLOURS, ROLE_COLOURS, house_layout
from railweave.transport.compare import Comparison, Technology, technology_facts

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["TECHNOLOGY_COLOURS", "draw_totals", "draw_turning"]

TECHNOLOGY_COLOURS: Final = {
    Technology.TCP: ROLE_COLOURS["management"],
    Technology.ROCEV2: ROLE_COLOURS["backend"],
    Technology.INFINIBAND: ROLE_COLOURS["storage"],
    Technology.ADAPTIVE: ROLE_COLOURS["frontend"],
}
#: of the criteria in their order: measured ones in blues and greens, stated ones in warm tones
_SHADES: Final = (
    "#08519c", "#3182bd", "#6baed6", "#238b8d", "#41ab5d", "#a1d99b", "#b15928", "#d97706",
    "#e8a735", "#f2c879", "#8c6bb1", "#b79ad6", "#c51b7d", "#e07ab0", "#8a8f98",
)  # fmt: skip


def draw_totals(found: Comparison) -> go.Figure:
    """Draw each total as the sum of its criteria's weighted scores; those out are hatched."""
    import plotly.graph_objects as go

    whole = sum(term.weight for term in found.weights) or 1.0
    out = {one.technology for one in found.excluded}
    names = [
        technology.label + (" (out)" if technology in out else "") for technology in Technology
    ]
    shapes = ["/" if technology in out else "" for technology in Technology]
    bars = []
    for at, term in enumerate(found.weights):
        if not term.weight:
            continue
        title = technology_facts().criteria[term.criterion].title
        values = [term.weight * found.scores[t][at].value / whole for t in Technology]
        bars.append(
            go.Bar(
                y=names,
                x=values,
                name=title,
                orientation="h",
                marker={"color": _SHADES[at % len(_SHADES)], "pattern": {"shape": shapes}},
                hovertemplate=f"%{{y}}: %{{x:.3f}}<extra>{title}, weight {term.weight:g}</extra>",
            )
        )
    layout = house_layout(height=360)
    layout["xaxis"] |= {"title": "weighted score", "range": [0, 1]}
    layout["yaxis"] |= {"autorange": "reversed", "automargin": True}
    layout["legend"] |= {"font": {"size": 11}, "traceorder": "normal"}
    return go.Figure(bars, {**layout, "barmode": "stack", "bargap": 0.35})


def draw_turning(found: Comparison) -> go.Figure:
    """Draw, for each criterion, the weights of 0 to 10 at which each technology is ahead."""
    import plotly.graph_objects as go

    criteria = technology_facts().criteria
    names, marks = [], []
    spans: dict[Technology, list[tuple[str, float, float]]] = {t: [] for t in found.ranking}
    for at, term in enumerate(found.weights):
        name = criteria[term.criterion].title
        names.append(name)
        marks.append(term.weight)
        for technology, low, high in _ahead(found, at):
            spans[technology].append((name, low, high))
    bars = [
        go.Bar(
            y=[name for name, _, _ in rows],
            x=[high - low for _, low, high in rows],
            base=[low for _, low, _ in rows],
            name=technology.label,
            orientation="h",
            marker_color=TECHNOLOGY_COLOURS[technology],
            opacity=0.75,
            customdata=[high for _, _, high in rows],
            hovertemplate="%{y}: %{base:.3g} to %{customdata:.3g}<extra>"
            + technology.label
            + "</extra>",
        )
        for technology, rows in spans.items()
        if rows
    ]
    now = go.Scatter(
        y=names,
        x=marks,
        mode="markers",
        name="weight now",
        marker={"symbol": "diamond", "size": 9, "color": COLOURS["bad"]},
        hovertemplate="%{y}: %{x:g}<extra>weight now</extra>",
    )
    layout = house_layout(height=480)
    layout["xaxis"] |= {"title": "weight of this criterion, all others as they are",
                        "range": [-0.2, 10.2]}  # fmt: skip
    layout["yaxis"] |= {"categoryarray": names[::-1], "categoryorder": "array", "automargin": True}
    return go.Figure([*bars, now], {**layout, "barmode": "overlay", "bargap": 0.3})


def _ahead(found: Comparison, at: int) -> list[tuple[Technology, float, float]]:
    """Return who is ahead from which to which weight of one criterion, from 0 to 10.

    Totals' numerators are lines over the weight; this is the upper envelope of those lines.
    """
    lines = {}
    for technology in found.ranking:
        mine = found.scores[technology]
        rest = sum(
            term.weight * score.value
            for place, (term, score) in enumerate(zip(found.weights, mine, strict=True))
            if place != at
        )
        lines[technology] = (rest, mine[at].value)
    spans: list[tuple[Technology, float, float]] = []
    low = 0.0
    while low < 10 and lines:
        here = max(lines, key=lambda t, w=low: (lines[t][0] + w * lines[t][1], lines[t][1]))  # type: ignore[misc]
        rest, slope = lines[here]
        crossings = [
            (rest - other_rest) / (other_slope - slope)
            for other_rest, other_slope in lines.values()
            if other_slope > slope
        ]
        high = min([10.0, *(c for c in crossings if c > low)])
        spans.append((here, low, high))
        low = high
    return spans
