"""The learn panel: concepts, distinctions, tables, checklist, and an experiment that proves it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from nicegui import ui

from railweave.errors import InputError, RailweaveError
from railweave.studio.content import LearnPanel, learn
from railweave.studio.lab import fault_text
from railweave.studio.parts import plain_table

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from nicegui.element import Element

    from railweave.experiments import Outcome
    from railweave.studio.page import LabPage

__all__ = ["learn_panel"]


def learn_panel(page: LabPage) -> None:
    """Add the learn panel of the page's lab; it is filled when opened."""
    try:
        panel = learn(page.lab.key)
    except InputError:  # another package's lab, which brings no panel
        return
    box = ui.expansion("Learn").classes("rw-card w-full rw-learn")
    filled: list[bool] = []

    def fill() -> None:
        if filled:
            return
        filled.append(True)
        with box:
            _fill(panel)

    box.on("before-show", fill)


def _title(text: str) -> None:
    ui.label(text).classes("rw-h3").props("role=heading aria-level=3")


def _fill(panel: LearnPanel) -> None:
    _title("Concepts")
    with ui.element("dl").classes("rw-concepts"):
        for concept in panel.concepts:
            with ui.element("dt"):
                ui.label(concept.name)
            with ui.element("dd"):
                ui.label(concept.text)
    _title("Not to be blurred")
    with ui.element("ul"):
        for text in panel.distinctions:
            with ui.element("li"):
                ui.label(text)
    for table in panel.tables:
        _title(table.title)
        plain_table(table.title, table.header, table.rows)
    _title("Checklist")
    with ui.element("ul").classes("rw-checklist"):
        for item in panel.checklist:
            with ui.element("li"):
                ui.label(item.text)
                ui.label(f"{item.id}: {item.decided_by}").classes("rw-quiet")
    _title("Takeaway")
    ui.label(panel.takeaway.claim)
    _proof(panel.takeaway.lesson_name)


def _proof(name: str) -> None:
    """Add the button that runs the takeaway's experiment, and the place for its outcome."""
    place = ui.element("div").props("role=status").classes("rw-proof")
    button = ui.button("Run the experiment that proves it").props("no-caps")

    async def prove() -> None:
        from railweave.report.lessons import all_lessons

        await _show_proof(all_lessons()[name].run, place, button)

    button.on_click(prove)


async def _show_proof(run: Callable[[], Outcome], place: Element, button: ui.button) -> None:
    """Run an experiment and show its outcome, or why it has none; the button works again after.

    A fault of railweave is said, and raised for the log.
    """
    from railweave.report.experiments import draw_chart
    from railweave.studio.plot import Figure

    button.disable()
    place.clear()
    with place:
        ui.spinner()
    said: list[str]
    charts: tuple[tuple[str, go.Figure], ...] = ()
    fault: Exception | None = None
    try:
        outcome = await asyncio.to_thread(run)
        said = ["Holds" if outcome.holds else "Does not hold", outcome.reading]
        charts = tuple((chart.name, draw_chart(chart)) for chart in outcome.charts)
    except Exception as error:
        said = ["The experiment cannot be run", fault_text(error)]
        fault = None if isinstance(error, RailweaveError) else error
    if not place.is_deleted:  # the visitor may have left the page meanwhile
        place.clear()
        with place:
            ui.label(said[0]).classes("rw-h3")
            ui.label(said[1])
            for name, figure in charts:
                Figure(name).show(figure)
        button.enable()
    if fault is not None:
        raise fault
