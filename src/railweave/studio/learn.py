"""The learn panel: concepts, distinctions, tables, checklist, and an experiment that proves it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from nicegui import ui

from railweave.errors import InputError
from railweave.studio.content import LearnPanel, learn
from railweave.studio.parts import plain_table

if TYPE_CHECKING:
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
        from railweave.experiments.lessons import LESSONS
        from railweave.report.experiments import draw_chart
        from railweave.studio.plot import Figure

        button.disable()
        place.clear()
        with place:
            ui.spinner()
        outcome = await asyncio.to_thread(LESSONS[name].run)
        place.clear()
        with place:
            ui.label("Holds" if outcome.holds else "Does not hold").classes("rw-h3")
            ui.label(outcome.reading)
            for chart in outcome.charts:
                Figure(chart.name).show(draw_chart(chart))
        button.enable()

    button.on_click(prove)
