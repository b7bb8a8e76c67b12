"""Lab 2's cards beside the drawings: plans that would do, placement rules, several jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from nicegui import ui

from railweave.report.interference_figures import draw_slowdowns
from railweave.studio.labs._traffic import State
from railweave.studio.labs._traffic_more import (
    Placements,
    interference_command,
    interference_job,
    interference_tables,
    job_names,
)
from railweave.studio.parts import code_block, page_table, table_html
from railweave.studio.plot import Figure

if TYPE_CHECKING:
    from nicegui.element import Element

    from railweave.studio.page import LabPage

__all__ = ["JobsCard", "NearestCard", "PlacementCard", "card", "scrolled"]


def card(title: str) -> Element:
    """Add a card with a heading."""
    place = ui.element("section").classes("rw-card").props(f'aria-label="{title}"')
    with place:
        ui.label(title).classes("rw-h2").props("role=heading aria-level=2")
    return place


def scrolled(label: str) -> ui.html:
    """Add a place for a table that may be wider than the page."""
    return (
        ui.html("", sanitize=False)
        .classes("rw-scroll rw-traffic-peers")
        .props(f'tabindex=0 role=region aria-label="{label}"')
    )


class NearestCard:
    """Plans that would do, where degrees cannot be or do not fit the memory; else hidden.

    Args:
        take: is given the inputs of the plan that is chosen.
    """

    def __init__(self, take: Callable[[State], None]) -> None:
        self._take = take
        self._box = card("The nearest plans that would do").classes("rw-traffic-nearest")
        with self._box:
            self._list = ui.element("ul").classes("rw-traffic-plans")
        self._box.set_visibility(False)

    def show(self, found: Sequence[tuple[str, State | None]]) -> None:
        """Show these plans: what they change, and their inputs, if any; hide without any."""
        if not found and not self._box.visible:
            return
        self._box.set_visibility(bool(found))
        self._list.clear()
        with self._list:
            for text, state in found:
                with ui.element("li"):
                    if state is not None:
                        ui.button("Take it", on_click=lambda _, s=state: self._take(s)).props(
                            f'outline dense no-caps aria-label="Take it: {text}"'
                        )
                    ui.label(text)


class PlacementCard:
    """How far the bytes go under each placement rule."""

    def __init__(self) -> None:
        with card("The same ranks placed by other rules"):
            self._status = ui.label("").classes("rw-quiet").props("role=status")
            self._figure = Figure("Part of the bytes by place, a bar a rule", height_px=330)
            self._table = scrolled("Placement rules compared")
            self._notes = ui.label("").classes("rw-quiet")
            self._command = code_block("Command that compares the rules")

    def wait(self, *, long: bool) -> None:
        """Say that it is being worked out."""
        self._status.set_text("Comparing …" if long else "")

    def show(self, found: Placements, command: str) -> None:
        """Show the rules; ``command`` gives the same numbers."""
        self._status.set_text("")
        self._figure.show(found.figure)
        table = found.table
        self._table.set_content(
            table_html(
                table.header,
                table.rows,
                name="placements",
                marked=found.marked,
                numeric=range(1, len(table.header)),
            )
        )
        self._notes.set_text(" ".join(table.notes))
        self._command.set_text(f"{command} --by-placement")


class JobsCard:
    """What the jobs of the loaded design do to each other, run on demand."""

    def __init__(self, page: LabPage) -> None:
        self._page = page
        names = job_names(page.session.design_text)
        with card("Several jobs on the loaded design"):
            self._said = ui.label("").props("role=status")
            if len(names) < 2:
                self._said.set_text(
                    "The loaded design has fewer than two jobs. With two or more, what they do to "
                    "each other is worked out here: give it more under jobs, or open the example "
                    "three-jobs."
                )
                self._said.classes("rw-quiet")
                return
            self._said.set_text(
                f"The design's jobs {', '.join(names)}: each alone, then all together with its "
                "background and storage traffic, as they are placed and under other rules."
            )
            ui.button("Run them alone and together", on_click=self._run).props(
                "outline dense no-caps"
            )
            self._figure = Figure("Slowdown of each job by placement", height_px=300)
            self._figure.set_visibility(False)
            self._tables = ui.element("div").classes("rw-traffic-jobs")
            self._command = code_block("Command that runs the jobs")
            name = page.session.design_name or "design.yaml"
            self._command.set_text(interference_command(name))

    async def _run(self) -> None:
        text = self._page.session.design_text
        document = await self._page.run_job("interference", interference_job, text, {"text": text})
        if document is None:
            return
        self._figure.set_visibility(True)
        self._figure.show(draw_slowdowns(document["placements"]))
        self._tables.clear()
        with self._tables:
            for table in interference_tables(document):
                page_table(table)
            said = ui.expansion("What was assumed").classes("w-full").props("dense")
            with said, ui.element("ul"):
                for line in document["assumptions"]:
                    with ui.element("li"):
                        ui.label(line)
