"""Kept runs over each other: a table with the pinned baseline, and bars beside that baseline."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from nicegui import ui

from railweave.report.style import PLANE_COLOURS, apply_style
from railweave.studio.plot import Figure
from railweave.studio.registry import installed_labs

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from railweave.studio.session import KeptRun, Session

__all__ = ["DESIGN", "draw_against", "draw_times", "run_overlays"]

#: what runs of the design page call their lab
DESIGN = "loaded-design"
_SHOWN_AT_FIRST = 6
_REGION = 'tabindex=0 role=region aria-label="Table of runs"'


Load = Callable[["KeptRun"], None]


def run_overlays(
    session: Session, place: ui.element, only: str = "", load: Load | None = None
) -> None:
    """Fill a place with the kept runs of every lab, or of one: table, overlays, pins.

    Args:
        session: the visitor's.
        place: is cleared and filled, and again whenever a run is pinned or forgotten here.
        only: a lab's key, or :data:`DESIGN`; all where empty.
        load: brings back what a run was made of; without it there is no button for that.
    """

    def again() -> None:
        run_overlays(session, place, only, load)

    place.clear()
    with place:
        keys = [DESIGN, *(lab.key for lab in installed_labs())]
        titles = {lab.key: lab.name for lab in installed_labs()}
        titles[DESIGN] = "Runs of the design"
        some = False
        for key in [only] if only else keys:
            runs = [run for run in session.runs if run.lab == key]
            if runs:
                some = True
                ui.label(titles[key]).classes("rw-h3").props("role=heading aria-level=3")
                _Runs(session, runs, again, load)
        if not some:
            ui.label("No runs are kept yet.").classes("rw-quiet")


class _Runs:
    """The runs of one lab."""

    def __init__(
        self,
        session: Session,
        runs: Sequence[KeptRun],
        again: Callable[[], None],
        load: Load | None,
    ) -> None:
        self._session = session
        self._runs = sorted(runs, key=lambda run: run.number)
        self._again = again
        self._load = load
        self._baseline = session.baseline(runs[0].lab)
        self._chosen = {run.number for run in self._runs[-_SHOWN_AT_FIRST:]}
        self._table()
        if len(self._runs) > 1:
            with ui.element("div").classes("rw-two"):
                self._against = Figure("Numbers of the runs, as shares of the baseline's")
                self._times = (
                    Figure("Times of the jobs in each run") if _has_times(self._runs) else None
                )
            self._draw()

    def _draw(self) -> None:
        if len(self._runs) < 2:
            return
        shown = [run for run in self._runs if run.number in self._chosen]
        baseline = self._baseline or self._runs[0]
        self._against.show(draw_against(shown, baseline))
        if self._times is not None:
            self._times.show(draw_times(shown, baseline))

    def _table(self) -> None:
        names = list({n.key: n.label for run in self._runs for n in run.numbers}.items())
        with (
            ui.element("div").classes("rw-scroll").props(_REGION),
            ui.element("table").classes("rw-table rw-runs"),
        ):
            with ui.element("thead"), ui.element("tr"):
                for text in ("Shown", "Run", *(label for _, label in names), "Do"):
                    with ui.element("th").props("scope=col"):
                        ui.label(text)
            with ui.element("tbody"):
                for run in sorted(self._runs, key=lambda r: (r is not self._baseline, -r.number)):
                    with ui.element("tr").classes("rw-pinned" if run is self._baseline else ""):
                        self._row(run, [key for key, _ in names])

    def _row(self, run: KeptRun, keys: Sequence[str]) -> None:
        with ui.element("td"):
            ui.checkbox(
                value=run.number in self._chosen,
                on_change=lambda event: self._choose(run, shown=bool(event.value)),
            ).props(f'dense aria-label="Show run {run.number} in the figures"')
        with ui.element("td"):
            ui.link(f"{run.number} · {run.label}", run.url, new_tab=run.lab == DESIGN)
            if run is self._baseline:
                ui.label("baseline").classes("rw-quiet")
        for key in keys:
            with ui.element("td"):
                number = run.value(key)
                ui.label(number.text if number else "–")
                before = self._baseline.value(key) if self._baseline else None
                if number and before and before.value and number.value != before.value:
                    ui.label(f"{number.value / before.value - 1:+.1%}").classes("rw-quiet")
        with ui.element("td"), ui.row(wrap=False):
            pinned = run is self._baseline
            ui.button("Unpin" if pinned else "Pin", on_click=lambda: self._pin(run)).props(
                f'flat dense no-caps aria-label="{"Unpin" if pinned else "Pin"} run {run.number}"'
            )
            if self._load is not None:
                load = self._load
                ui.button("Load", on_click=lambda: load(run)).props(
                    f'flat dense no-caps aria-label="Load the design of run {run.number}"'
                )
            ui.button("Forget", on_click=lambda: self._forget(run)).props(
                f'flat dense no-caps aria-label="Forget run {run.number}"'
            )

    def _choose(self, run: KeptRun, *, shown: bool) -> None:
        (self._chosen.add if shown else self._chosen.discard)(run.number)
        self._draw()

    def _pin(self, run: KeptRun) -> None:
        if run is self._baseline:
            self._session.unpin(run.lab)
        else:
            self._session.pin(run)
        self._redo()

    def _forget(self, run: KeptRun) -> None:
        self._session.forget(run.number)
        self._redo()

    def _redo(self) -> None:
        self._again()


def _colour(run: KeptRun) -> str:
    """Return a run's colour: the same in both figures, and as long as it is kept."""
    return PLANE_COLOURS[(run.number - 1) % len(PLANE_COLOURS)]


def draw_against(runs: Sequence[KeptRun], baseline: KeptRun) -> go.Figure:
    """Draw each number of each run as a share of the baseline's, which is the line at 100 %."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for run in runs:
        pairs = [
            (number, before)
            for number in run.numbers
            if (before := baseline.value(number.key)) is not None and before.value
        ]
        figure.add_bar(
            name=f"{run.number}{' (baseline)' if run is baseline else ''}",
            x=[number.label for number, _ in pairs],
            y=[100 * number.value / before.value for number, before in pairs],
            customdata=[(number.text, before.text) for number, before in pairs],
            hovertemplate="%{x}: %{customdata[0]} (baseline %{customdata[1]})<extra>run "
            f"{run.number}</extra>",
            marker_color=_colour(run),
        )
    apply_style(figure, height=320, title=f"Beside run {baseline.number}, which is 100 %")
    figure.update_layout(barmode="group", margin={"t": 64, "b": 76}, bargap=0.3, showlegend=True)
    figure.update_yaxes(ticksuffix=" %", rangemode="tozero")
    figure.add_hline(y=100, line_width=1, line_dash="dot", line_color="#6b7785")
    return figure


def draw_times(runs: Sequence[KeptRun], baseline: KeptRun) -> go.Figure:
    """Draw the time of each job in each run, the baseline's with a dark edge."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for run in runs:
        jobs = _times(run)
        figure.add_bar(
            name=f"{run.number}{' (baseline)' if run is baseline else ''}",
            x=[name for name, _ in jobs],
            y=[time_s * 1e3 for _, time_s in jobs],
            hovertemplate=f"%{{x}}: %{{y:.4g}} ms<extra>run {run.number}</extra>",
            marker_color=_colour(run),
            marker_line_width=2 if run is baseline else 0,
            marker_line_color="#6b7785",
        )
    apply_style(figure, height=320, title="Time of each job, ms")
    figure.update_layout(barmode="group", margin={"t": 64, "b": 76}, bargap=0.3, showlegend=True)
    figure.update_yaxes(rangemode="tozero")
    return figure


def _times(run: KeptRun) -> list[tuple[str, float]]:
    return [
        (number.key.partition(":")[2], number.value)
        for number in run.numbers
        if re.match(r"engine_time:", number.key)
    ]


def _has_times(runs: Sequence[KeptRun]) -> bool:
    return any(_times(run) for run in runs)
