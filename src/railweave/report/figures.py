"""The report's figures, each from a record and in the house style."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from railweave.report.record import HeatMap, JobOutcome, WhatIfOutcome
from railweave.report.style import COLOURS, HEAT, apply_style

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["draw_heat", "draw_job_times", "draw_shares", "draw_what_ifs"]


def draw_heat(heat: HeatMap) -> go.Figure:
    """Draw mean utilisation upwards and downwards, side by side on one scale."""
    from plotly.subplots import make_subplots

    figure = make_subplots(
        rows=1, cols=2, subplot_titles=("up", "down"), shared_yaxes=True, horizontal_spacing=0.04
    )
    for column, values in ((1, heat.up), (2, heat.down)):
        figure.add_heatmap(
            z=np.round(values * 100, 2),
            x=heat.columns,
            y=heat.rows,
            row=1,
            col=column,
            zmin=0,
            zmax=100,
            colorscale=[[at, colour] for at, colour in HEAT],
            colorbar={"title": "%", "thickness": 12},
            showscale=column == 2,
            hovertemplate="%{y} – %{x}: %{z} %<extra></extra>",
        )
    apply_style(figure, height=max(300, min(560, 60 + 14 * len(heat.rows))))
    lower, upper = heat.title.split(" – ")
    figure.update_layout(margin={"t": 28})
    figure.update_xaxes(
        showticklabels=len(heat.columns) <= 16, tickangle=-60, showgrid=False, title=upper
    )
    figure.update_yaxes(showgrid=False)
    figure.update_yaxes(showticklabels=len(heat.rows) <= 36, title=lower, col=1)
    return figure


def draw_job_times(jobs: Sequence[JobOutcome]) -> go.Figure:
    """Draw each job's time on the fabric beside its closed form without other traffic."""
    import plotly.graph_objects as go

    names = [job.name for job in jobs]
    figure = go.Figure()
    for label, values, colour in (
        ("on this fabric", [job.time_s * 1e3 for job in jobs], COLOURS["first"]),
        ("closed form, no other traffic", [job.analytic_s * 1e3 for job in jobs], COLOURS["host"]),
    ):
        figure.add_bar(
            y=names,
            x=values,
            name=label,
            orientation="h",
            marker_color=colour,
            hovertemplate="%{y}: %{x:.4g} ms<extra></extra>",
        )
    figure.update_layout(barmode="group", bargap=0.35)
    figure.update_xaxes(title="time [ms]")
    return apply_style(figure, height=160 + 44 * len(names))


def draw_shares(jobs: Sequence[JobOutcome]) -> go.Figure:
    """Draw where each job's bytes stay: in the server, under a leaf, across a spine or a core."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for label, attribute, colour in (
        ("in server", "share_server", COLOURS["good"]),
        ("under a leaf", "share_leaf", COLOURS["leaf"]),
        ("across a spine", "share_spine", COLOURS["spine"]),
        ("across a core", "share_core", COLOURS["core"]),
    ):
        figure.add_bar(
            y=[job.name for job in jobs],
            x=[100 * getattr(job, attribute) for job in jobs],
            name=label,
            orientation="h",
            marker_color=colour,
            hovertemplate="%{y}: %{x:.3g} %<extra>" + label + "</extra>",
        )
    figure.update_layout(barmode="stack", bargap=0.35)
    figure.update_xaxes(title="share of payload bytes [%]", range=[0, 100])
    return apply_style(figure, height=160 + 36 * len(jobs))


def draw_what_ifs(what_ifs: Sequence[WhatIfOutcome]) -> go.Figure:
    """Draw what each failure leaves of the bisection."""
    import plotly.graph_objects as go

    figure = go.Figure()
    left = [100 * outcome.bisection_left for outcome in what_ifs]
    figure.add_bar(
        y=[outcome.name for outcome in what_ifs],
        x=left,
        orientation="h",
        marker_color=[
            COLOURS["good"] if share >= 90 else COLOURS["warn"] if share >= 50 else COLOURS["bad"]
            for share in left
        ],
        hovertemplate="%{y}: %{x:.4g} %<extra></extra>",
    )
    figure.update_xaxes(title="bisection bandwidth left [%]", range=[0, 100])
    figure.update_yaxes(autorange="reversed", automargin=True)
    return apply_style(figure, height=140 + 30 * len(what_ifs))
