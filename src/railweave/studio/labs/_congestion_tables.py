"""A table of the report, shown in the studio."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicegui import ui

if TYPE_CHECKING:
    from railweave.report.page_table import PageTable

__all__ = ["Table"]


class Table:
    """A place for a table, which is hidden while there is none.

    Args:
        name: a class of its own.
    """

    def __init__(self, name: str) -> None:
        self._box = ui.element("section").classes(f"rw-card hidden {name}")
        self._shape: object = None
        self._texts: list[ui.label] = []

    def show(self, table: PageTable | None) -> None:
        """Show a table, or none."""
        self._box.classes(
            add="hidden" if table is None else "", remove="" if table is None else "hidden"
        )
        if table is None:
            return
        shape = (table.title, table.header, len(table.rows), len(table.notes))
        if shape != self._shape:
            self._shape = shape
            self._build(table)
        # Of a table of the same shape only the texts change.
        cells = [cell for row in table.rows for cell in row]
        for label, text in zip(self._texts, (*cells, *table.notes), strict=True):
            label.set_text(text)

    def _build(self, table: PageTable) -> None:
        self._box.clear()
        with self._box:
            ui.label(table.title).classes("rw-h2").props("role=heading aria-level=2")
            self._texts = [*_cells(table), *(ui.label("").classes("rw-quiet") for _ in table.notes)]


def _cells(table: PageTable) -> list[ui.label]:
    """Build a table and return the labels of its cells, row by row."""

    def kind(place: int) -> str:
        text = place == 0 or table.header[place] in table.text_columns
        return "" if text else "rw-num"

    with (
        ui.element("div")
        .classes("rw-scroll")
        .props("tabindex=0 role=region")
        .props(f'aria-label="{table.title}"'),
        ui.element("table").classes("rw-table"),
    ):
        with ui.element("thead"), ui.element("tr"):
            for place, name in enumerate(table.header):
                if name:
                    with ui.element("th").props("scope=col").classes(kind(place)):
                        ui.label(name)
                else:
                    ui.element("td")
        labels = []
        with ui.element("tbody"):
            for _ in table.rows:
                with ui.element("tr"):
                    for place in range(len(table.header)):
                        with ui.element("td").classes(kind(place)):
                            labels.append(ui.label(""))
    return labels
