"""The one figure style: colours by meaning, fonts, margins; readable on light and dark grounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = [
    "COLOURS",
    "HEAT",
    "PLANE_COLOURS",
    "ROLE_COLOURS",
    "apply_style",
    "figure_html",
    "house_layout",
]

#: colour by what a thing is, used in every figure
COLOURS: Final[dict[str, str]] = {
    "host": "#7a869a",
    "leaf": "#1f77b4",
    "spine": "#7b4fb5",
    "core": "#c2410c",
    "link": "#9aa5b1",
    "good": "#2e8b57",
    "warn": "#d97706",
    "bad": "#c0392b",
    "first": "#1f77b4",
    "second": "#d97706",
}
#: what never changes its colour, in figures and in the studio (Okabe and Ito's palette: told apart
#: by readers who do not see all colours)
ROLE_COLOURS: Final[dict[str, str]] = {
    "backend": "#0072b2",
    "frontend": "#009e73",
    "storage": "#cc79a7",
    "management": "#6b7785",
    "congestion": "#e69f00",
    "fault": "#d55e00",
}
#: of parallel planes A to H
PLANE_COLOURS: Final = (
    "#0f8b8d",
    "#d97706",
    "#a83279",
    "#4d7c0f",
    "#2563eb",
    "#b91c1c",
    "#7c3aed",
    "#525252",
)
#: sequential scale for utilisation, from idle to full
HEAT: Final[list[tuple[float, str]]] = [
    (0.0, "rgba(120,150,180,0.14)"),
    (0.25, "#a8cbe6"),
    (0.5, "#4f94c9"),
    (0.75, "#e0a030"),
    (1.0, "#c0392b"),
]
_INK: Final = "#6b7785"  # mid-grey: contrast enough on white and on near-black


_AXIS: Final = {"gridcolor": "rgba(128,140,155,0.2)", "zeroline": False}


def house_layout(*, height: int = 380, title: str = "") -> dict[str, Any]:
    """Return the house style's layout, for a figure that is made with it: that is the quick way."""
    return {
        "title": {"text": title, "font": {"size": 14}, "x": 0.0, "xanchor": "left"}
        if title
        else None,
        "height": height,
        "margin": {"l": 56, "r": 16, "t": 40 if title else 16, "b": 48},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "system-ui, sans-serif", "size": 12, "color": _INK},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "hoverlabel": {"font": {"family": "system-ui, sans-serif"}},
        "xaxis": dict(_AXIS),
        "yaxis": dict(_AXIS),
    }


def apply_style(figure: go.Figure, *, height: int = 380, title: str = "") -> go.Figure:
    """Give a figure the house style and return it: transparent ground, quiet axes, no logo."""
    layout = house_layout(height=height, title=title)
    del layout["xaxis"], layout["yaxis"]
    figure.update_layout(layout)
    figure.update_xaxes(_AXIS)
    figure.update_yaxes(_AXIS)
    return figure


def figure_html(figure: go.Figure, name: str) -> str:
    """Return a figure as an HTML fragment; the page carries Plotly's script once."""
    fragment: str = figure.to_html(
        full_html=False,
        include_plotlyjs=False,
        div_id=f"figure-{name}",
        config={"responsive": True, "displayModeBar": False},
    )
    return fragment
