"""Figures of a predicted collective: bus bandwidth over sizes, and the time of every option."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from railweave.predict.collective import CollectiveChoice, NcclAlgorithm, NcclProtocol, OptionTime
from railweave.report.style import COLOURS, ROLE_COLOURS, apply_style
from railweave.units import format_bytes, format_seconds

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from railweave.formats.nccl_tests import NcclTestRow

__all__ = ["draw_busbw", "draw_options"]

#: an algorithm keeps its colour in every figure
ALGORITHM_COLOURS: Final[dict[NcclAlgorithm, str]] = {
    NcclAlgorithm.RING: ROLE_COLOURS["backend"],
    NcclAlgorithm.TREE: ROLE_COLOURS["frontend"],
    NcclAlgorithm.COLLNET_DIRECT: ROLE_COLOURS["fault"],
    NcclAlgorithm.COLLNET_CHAIN: ROLE_COLOURS["congestion"],
    NcclAlgorithm.NVLS: COLOURS["spine"],
    NcclAlgorithm.NVLS_TREE: ROLE_COLOURS["storage"],
    NcclAlgorithm.PAT: COLOURS["host"],
}
_DASHES: Final = {
    NcclProtocol.LL: "dot",
    NcclProtocol.LL128: "dash",
    NcclProtocol.SIMPLE: "solid",
}
_SYMBOLS: Final = {
    NcclProtocol.LL: "circle",
    NcclProtocol.LL128: "diamond",
    NcclProtocol.SIMPLE: "square",
}
_BAND: Final = "rgba(0,114,178,0.16)"
_SIZE_AXIS: Final = "size"


def _colour(option: OptionTime) -> str:
    return (
        ALGORITHM_COLOURS.get(option.algorithm, COLOURS["link"])
        if option.algorithm
        else (COLOURS["link"])
    )


def _size_axis(figure: go.Figure, sizes: Sequence[float]) -> None:
    """Give the axis ticks at whole powers of two, written as sizes."""
    first, last = math.log2(min(sizes)), math.log2(max(sizes))
    step = max(1, math.ceil((last - first) / 8))
    ticks = [2.0**power for power in range(math.ceil(first), math.floor(last) + 1, step)]
    figure.update_xaxes(
        type="log",
        title=_SIZE_AXIS,
        tickvals=ticks or list(sizes),
        ticktext=[format_bytes(size) for size in ticks or sizes],
    )


def draw_busbw(
    choices: Sequence[CollectiveChoice], measured: Sequence[NcclTestRow] = ()
) -> go.Figure:
    """Draw the bus bandwidth to expect over sizes, with the band of healthy clusters.

    Args:
        choices: one for each size, rising.
        measured: rows of nccl-tests to compare with.
    """
    import plotly.graph_objects as go

    sizes = [choice.size_bytes for choice in choices]
    figure = go.Figure()
    figure.add_scatter(
        x=[*sizes, *reversed(sizes)],
        y=[
            *(c.busbw_high_Bps / 1e9 for c in choices),
            *(c.busbw_low_Bps / 1e9 for c in reversed(choices)),
        ],
        fill="toself",
        fillcolor=_BAND,
        line={"width": 0},
        hoverinfo="skip",
        name="band of healthy clusters",
    )
    figure.add_scatter(
        x=sizes,
        y=[c.busbw_Bps / 1e9 for c in choices],
        mode="lines",
        name="predicted",
        line={"color": COLOURS["first"], "width": 2},
        hoverinfo="skip",
    )
    for name in dict.fromkeys(choice.best.name for choice in choices):
        mine = [choice for choice in choices if choice.best.name == name]
        best = mine[0].best
        figure.add_scatter(
            x=[c.size_bytes for c in mine],
            y=[c.busbw_Bps / 1e9 for c in mine],
            mode="markers",
            name=name,
            marker={"color": _colour(best), "size": 8, "symbol": _SYMBOLS[best.protocol]},
            text=[format_bytes(c.size_bytes) for c in mine],
            hovertemplate=f"%{{text}}: %{{y:.4g}} GB/s, {name}<extra></extra>",
        )
    if measured:
        figure.add_scatter(
            x=[row.size_bytes for row in measured],
            y=[row.busbw_Bps / 1e9 for row in measured],
            mode="markers",
            name="measured",
            marker={"color": COLOURS["second"], "symbol": "x", "size": 8},
            hovertemplate="measured %{y:.4g} GB/s<extra></extra>",
        )
    _size_axis(figure, [*sizes, *(row.size_bytes for row in measured)])
    figure.update_yaxes(title="busbw [GB/s]", rangemode="tozero")
    return apply_style(figure, height=380)


def draw_options(choices: Sequence[CollectiveChoice]) -> go.Figure:
    """Draw the time of every usable option over sizes; what is picked has a broad shadow."""
    import plotly.graph_objects as go

    sizes = [choice.size_bytes for choice in choices]
    curves: dict[str, list[OptionTime | None]] = {}
    for number, choice in enumerate(choices):
        for option in choice.options:
            if option.usable and math.isfinite(option.time_s):
                curves.setdefault(option.name, [None] * len(choices))[number] = option
    figure = go.Figure([_curve(name, sizes, options) for name, options in curves.items()])
    figure.add_scatter(
        x=sizes,
        y=[c.time_s for c in choices],
        mode="lines",
        name="picked",
        line={"color": "rgba(128,140,155,0.45)", "width": 8},
        hoverinfo="skip",
    )
    figure.data = (figure.data[-1], *figure.data[:-1])
    _size_axis(figure, sizes)
    figure.update_yaxes(
        type="log", title="time of each option", tickformat="~s", ticksuffix="s", dtick=1
    )
    return apply_style(figure, height=420)


def _curve(
    name: str, sizes: Sequence[float], options: Sequence[OptionTime | None]
) -> dict[str, Any]:
    """Return the trace of one option."""
    one = next(option for option in options if option is not None)
    return {
        "type": "scatter",
        "x": list(sizes),
        "y": [None if option is None else option.time_s for option in options],
        "name": name,
        "mode": "lines",
        "line": {"color": _colour(one), "dash": _DASHES[one.protocol], "width": 1.6},
        "text": ["" if o is None else format_seconds(o.time_s) for o in options],
        "hovertemplate": f"{name}: %{{text}}<extra></extra>",
    }
