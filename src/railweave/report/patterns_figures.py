"""Figures of traffic patterns: who talks to whom as a matrix and as chords, shares, comparison."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from railweave.report._chord import Chords, chords
from railweave.report.patterns_groups import (
    PLACE_NAMES,
    RankGroups,
    Spread,
    Talk,
    pair_reach,
    rank_groups,
)
from railweave.report.style import COLOURS, ROLE_COLOURS, house_layout
from railweave.units import format_bytes, format_seconds

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from railweave.report.patterns import PatternStudy

__all__ = [
    "MOST_CELLS",
    "MOST_CHORDS",
    "PLACE_COLOURS",
    "draw_chord",
    "draw_comparison",
    "draw_matrix",
    "draw_shares",
]

F64 = npt.NDArray[np.float64]

#: rows of a matrix, and arcs of a chord diagram, up to which each rank has one
MOST_CELLS: Final = 64
MOST_CHORDS: Final = 32
#: colour by the farthest place that bytes pass, as in the report's shares
PLACE_COLOURS: Final = (COLOURS["good"], COLOURS["leaf"], COLOURS["spine"], COLOURS["core"])
#: cells up to which each says its bytes, and names up to which all are written
_MOST_TEXT: Final = 6
_MOST_NAMES: Final = 16
_INK: Final = "#6b7785"
_SIZE_PX: Final = 400
_LONG: Final = 4  #: letters of a name that is written beside its arc


def _picked_group(groups: RankGroups, picked: int | None) -> int:
    """Return the group of the rank that stands out, −1 for none."""
    if picked is None or not 0 <= picked < len(groups.member):
        return -1
    return int(groups.member[picked])


def _short(groups: RankGroups) -> list[str]:
    """Return names short enough for an axis."""
    return [name.removeprefix("rank ").removeprefix("ranks ") for name in groups.names]


def draw_matrix(study: Talk, *, picked: int | None = None) -> go.Figure:
    """Draw who sends how much to whom in a step: senders down, receivers across.

    More than :data:`MOST_CELLS` ranks are drawn by server, leaf or block.

    Args:
        study: whose matrix.
        picked: a rank whose row and column stand out.
    """
    import plotly.graph_objects as go

    groups = rank_groups(study, MOST_CELLS)
    amount = groups.fold(study.matrix_bytes)
    count, names = len(groups.names), _short(groups)
    top = float(amount.max())
    sizes = {size: format_bytes(size) for size in np.unique(amount).tolist()}
    cells: dict[str, Any] = {
        "type": "heatmap",
        "z": np.where(amount > 0, amount, np.nan),
        "x": np.arange(count),
        "y": np.arange(count),
        "zmin": 0.0,
        "zmax": top,
        "colorscale": [[0.0, "rgba(0,114,178,0.10)"], [1.0, ROLE_COLOURS["backend"]]],
        "hovertext": _cell_texts(study, groups, amount, sizes),
        "hoverinfo": "text",
        "hoverongaps": False,
        "xgap": 1,
        "ygap": 1,
        "colorbar": {
            "tickvals": [0, top / 2, top],
            "ticktext": [format_bytes(float(f"{v:.3g}")) for v in (0.0, top / 2, top)],
            "thickness": 10,
            "len": 0.9,
            "outlinewidth": 0,
        },
    }
    if count <= _MOST_TEXT:
        cells["text"] = [[sizes[b] if b > 0 else "" for b in row] for row in amount.tolist()]
        cells["texttemplate"] = "%{text}"
    layout = house_layout(height=_SIZE_PX, title="Bytes of a step, sender to receiver")
    _name_axes(layout, groups, names)
    one = _picked_group(groups, picked)
    if one >= 0:
        layout["shapes"] = _frames(one, count)
    return go.Figure([cells], layout)


def _cell_texts(
    study: Talk, groups: RankGroups, amount: F64, words: dict[float, str]
) -> list[list[str]]:
    reach = pair_reach(study, groups)
    mostly = "" if groups.kind == "rank" else "mostly "
    return [
        [
            f"{a} → {b}: {words[size]}, {mostly}{PLACE_NAMES[place]}" if size > 0 else ""
            for b, size, place in zip(groups.names, sizes, places, strict=True)
        ]
        for a, sizes, places in zip(groups.names, amount.tolist(), reach.tolist(), strict=True)
    ]


def _name_axes(layout: dict[str, Any], groups: RankGroups, names: list[str]) -> None:
    count = len(names)
    ticks = list(range(0, count, -(-count // _MOST_NAMES)))
    kind = {"rank": "rank", "server": "server", "leaf": "servers", "block": "ranks"}[groups.kind]
    axis = {
        "tickvals": ticks,
        "ticktext": [names[t] for t in ticks],
        "showgrid": False,
        "automargin": True,
    }
    layout["xaxis"] |= {
        **axis,
        "title": {"text": f"to {kind}"},
        "range": [-0.5, count - 0.5],
        "tickangle": -45 if groups.note else 0,
    }
    layout["yaxis"] |= {**axis, "title": {"text": f"from {kind}"}, "range": [count - 0.5, -0.5]}


def _frames(one: int, count: int) -> list[dict[str, Any]]:
    """Return frames round a row and a column."""
    line = {"color": ROLE_COLOURS["congestion"], "width": 2.5}
    ends, near = (-0.5, count - 0.5), (one - 0.5, one + 0.5)
    return [
        {"type": "rect", "x0": x[0], "x1": x[1], "y0": y[0], "y1": y[1], "line": line}
        for x, y in ((ends, near), (near, ends))
    ]


# ---------------------------------------------------------------- chords


def draw_chord(study: Talk, *, picked: int | None = None) -> go.Figure:
    """Draw ranks as arcs round a circle, as long as what they send, and ribbons between them.

    A ribbon is as wide at each end as what that end sends, and coloured by the farthest place that
    its bytes pass. More than :data:`MOST_CHORDS` ranks are drawn by server, leaf or block.

    Args:
        study: who talks to whom.
        picked: a rank whose arc and ribbons stand out; the others step back.
    """
    import plotly.graph_objects as go

    groups = rank_groups(study, MOST_CHORDS)
    amount = groups.fold(study.matrix_bytes)
    one = _picked_group(groups, picked)
    shape = chords(amount, pair_reach(study, groups))
    traces = [
        trace
        for place, name in enumerate(PLACE_NAMES)
        for trace in _ribbons(shape, place, name, one)
    ]
    traces += _arcs(shape, one)
    traces += [_points(shape, groups, amount), _names(shape, _short(groups), one)]
    layout = house_layout(height=_SIZE_PX, title="Who talks to whom")
    bare = {"visible": False, "range": [-1.32, 1.32]}
    layout |= {
        "xaxis": bare,
        "yaxis": {**bare, "scaleanchor": "x"},
        "margin": {"l": 8, "r": 8, "t": 40, "b": 32},
        "hovermode": "closest",
    }
    layout["legend"] |= {"y": -0.02, "yanchor": "top", "x": 0.5, "xanchor": "center"}
    return go.Figure(traces, layout)


def _outline(outline: npt.NDArray[np.float32], **more: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a trace of filled outlines."""
    return {
        "type": "scatter",
        "x": outline[:, 0],
        "y": outline[:, 1],
        "mode": "lines",
        "fill": "toself",
        "hoverinfo": "skip",
        **more,
    }


def _ribbons(shape: Chords, place: int, name: str, one: int) -> list[dict[str, Any]]:
    """Return the ribbons of one place: all alike, or the picked one's before the others."""
    mine = [r for r in shape.ribbons if r.place == place]
    near = [r for r in mine if one < 0 or one in r.ends]
    far = [r for r in mine if one >= 0 and one not in r.ends]
    calm = 1.0 if len(mine) < 200 else 0.7
    return [
        _outline(
            np.concatenate([r.outline for r in ribbons]),
            fillcolor=_faded(PLACE_COLOURS[place], strength * calm),
            line={"width": 0.6, "color": _faded(PLACE_COLOURS[place], strength + 0.2)},
            name=name,
            legendgroup=name,
            showlegend=legend,
        )
        for ribbons, strength, legend in ((far, 0.10, not near), (near, 0.62, True))
        if ribbons
    ]


def _faded(colour: str, strength: float) -> str:
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},{strength:.2f})"


def _arcs(shape: Chords, one: int) -> list[dict[str, Any]]:
    traces = []
    for picked, colour in ((False, _INK), (True, ROLE_COLOURS["congestion"])):
        some = [arc for k, arc in enumerate(shape.arcs) if (k == one) == picked]
        if some:
            traces.append(
                _outline(
                    np.concatenate(some), fillcolor=colour, line={"width": 0}, showlegend=False
                )
            )
    return traces


def _points(shape: Chords, groups: RankGroups, amount: F64) -> dict[str, Any]:
    """Return what is said where the pointer is, on the arcs' rims."""
    names = groups.names
    sizes = {size: format_bytes(size) for size in np.unique(amount).tolist()}
    spots = [end.spot for end in shape.ends] + shape.middles
    said = [
        f"{names[end.source]} → {names[end.target]}: "
        f"{sizes[float(amount[end.source, end.target])]}, {PLACE_NAMES[end.place]}"
        for end in shape.ends
    ]
    sent = amount.sum(axis=1).tolist()
    said += [f"{name}: sends {format_bytes(size)}" for name, size in zip(names, sent, strict=True)]
    at = np.array(spots, dtype=np.float32).reshape(-1, 2)
    return {
        "type": "scatter",
        "x": at[:, 0],
        "y": at[:, 1],
        "mode": "markers",
        "marker": {"size": 10, "color": "rgba(0,0,0,0)"},
        "hovertext": said,
        "hoverinfo": "text",
        "customdata": [end.source for end in shape.ends] + list(range(len(names))),
        "showlegend": False,
    }


def _names(shape: Chords, names: list[str], one: int) -> dict[str, Any]:
    long = max(map(len, names)) > _LONG
    every = -(-len(names) // (16 if long else 32))
    shown = [k for k in range(len(names)) if k % every == 0 or k == one]
    out = np.array([shape.middles[k] for k in shown]) * (1.04 if long else 1.13)
    return {
        "type": "scatter",
        "x": out[:, 0],
        "y": out[:, 1],
        "mode": "text",
        "text": [f"<b>{names[k]}</b>" if k == one else names[k] for k in shown],
        "textposition": [_beside(x, y) if long else "middle center" for x, y in out.tolist()],
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _beside(x: float, y: float) -> str:
    """Return where a name stands so that it leaves the circle."""
    if abs(x) < 0.25:
        return "top center" if y > 0 else "bottom center"
    return "middle right" if x > 0 else "middle left"


# ---------------------------------------------------------------- shares, comparison


def draw_shares(study: Spread) -> go.Figure:
    """Draw the parts of a step's bytes by the farthest place they pass, one stacked bar."""
    import plotly.graph_objects as go

    shares = (study.share_server, study.share_leaf, study.share_spine, study.share_core)
    bars = [
        {
            "type": "bar",
            "y": [""],
            "x": [100 * share],
            "orientation": "h",
            "name": name,
            "marker": {"color": colour},
            "text": [f"{share:.1%}" if share >= 0.08 else ""],
            "textangle": 0,
            "textposition": "inside",
            "insidetextanchor": "middle",
            "textfont": {"color": "#ffffff", "size": 13},
            "hovertext": [f"{name}: {share:.1%}, {format_bytes(share * study.total_bytes)}"],
            "hoverinfo": "text",
        }
        for name, share, colour in zip(PLACE_NAMES, shares, PLACE_COLOURS, strict=True)
        if share > 0
    ]
    layout = house_layout(height=150, title="How far the bytes go")
    layout |= {
        "barmode": "stack",
        "bargap": 0.2,
        "showlegend": True,
        "xaxis": {"visible": False, "range": [0, 100]},
        "yaxis": {"visible": False},
    }
    layout["legend"] |= {"y": -0.2, "yanchor": "top", "traceorder": "normal"}
    layout["margin"] |= {"l": 8, "b": 48}
    return go.Figure(bars, layout)


def draw_comparison(studies: Sequence[PatternStudy]) -> go.Figure:
    """Draw the time of several strategies, of bandwidth and of latency, the first one on top."""
    import plotly.graph_objects as go

    names = [study.title for study in studies]
    traces: list[dict[str, Any]] = [
        {
            "type": "bar",
            "y": names,
            "x": [1e3 * value for value in values],
            "orientation": "h",
            "name": name,
            "marker": {"color": colour},
            "hovertext": [
                f"{title}: {format_seconds(value)} of {name}"
                for title, value in zip(names, values, strict=True)
            ],
            "hoverinfo": "text",
        }
        for name, values, colour in (
            ("bandwidth", [s.bandwidth_s for s in studies], COLOURS["first"]),
            ("latency", [s.latency_s for s in studies], COLOURS["second"]),
        )
    ]
    traces.append(
        {
            "type": "scatter",
            "y": names,
            "x": [1e3 * study.time_s for study in studies],
            "mode": "markers",
            "name": "flow engine",
            "marker": {"symbol": "line-ns", "size": 22, "line": {"width": 3, "color": _INK}},
            "hovertext": [
                f"{s.title}: {format_seconds(s.time_s)} by the flow engine" for s in studies
            ],
            "hoverinfo": "text",
        }
    )
    layout = house_layout(height=112 + 44 * len(studies), title="Time of a step, closed form")
    layout |= {"barmode": "stack"}
    layout["margin"] |= {"l": 8, "b": 72}
    layout["legend"] |= {"traceorder": "normal", "y": -0.42, "yanchor": "top"}
    layout["xaxis"] |= {"title": {"text": "ms", "standoff": 4}, "rangemode": "tozero"}
    layout["yaxis"] |= {"autorange": "reversed", "automargin": True}
    return go.Figure(traces, layout)
