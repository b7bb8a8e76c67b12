"""Small pieces of lab 5's page: tables, tiles, and the list of what is drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from nicegui import ui
from nicegui.events import GenericEventArguments

from railweave.report.page_table import PageTable
from railweave.studio.help import help_button
from railweave.studio.lab import Number
from railweave.studio.labs._fabric import Part

__all__ = ["PartsTable", "Tiles", "show_table"]

#: rows that are sent to the browser; the rest is found by typing
MOST_ROWS: Final = 200
_COLUMNS: Final = (("name", "Name"), ("kind", "What"), ("ends", "Between"), ("state", "State"))


def show_table(table: PageTable) -> None:
    """Add a table with its title and notes."""
    ui.label(table.title).classes("rw-h3").props("role=heading aria-level=3")
    with (
        ui.element("div")
        .classes("rw-scroll")
        .props(f'tabindex=0 role=region aria-label="{table.title}" data-table="{table.id}"'),
        ui.element("table").classes("rw-table"),
    ):
        with ui.element("thead"), ui.element("tr"):
            for name in table.header:
                with ui.element("th" if name else "td").props("scope=col" if name else ""):
                    ui.label(name)
        with ui.element("tbody"):
            for row in table.rows:
                with ui.element("tr"):
                    for cell in row:
                        with ui.element("td"):
                            ui.label(cell)
    for note in table.notes:
        ui.label(note).classes("rw-quiet")


class Tiles:
    """Tiles of numbers, as those of the page; only what changes is sent."""

    def __init__(self) -> None:
        self._place = ui.element("div").classes("rw-tiles")
        self._shown: list[tuple[str, str]] = []
        self._values: list[ui.label] = []

    def show(self, numbers: Sequence[Number]) -> None:
        """Show these numbers."""
        names = [(number.key, number.label) for number in numbers]
        if names != self._shown:
            self._shown = names
            self._build(names)
        for label, number in zip(self._values, numbers, strict=True):
            label.set_text(number.text)

    def _build(self, names: list[tuple[str, str]]) -> None:
        self._place.clear()
        self._values = []
        with self._place:
            for key, name in names:
                with ui.element("div").classes("rw-tile").props(f'data-number="{key}"'):
                    with ui.row(wrap=False).classes("rw-label"):
                        ui.label(name)
                        help_button(key)
                    self._values.append(ui.label("").classes("rw-value"))


class PartsTable:
    """What is drawn, as rows: picking one selects it on the drawing, and the other way round."""

    def __init__(self, on_pick: Callable[[str], None]) -> None:
        self._parts: tuple[Part, ...] = ()
        self._selected: str | None = None
        self._on_pick = on_pick
        self._filter = (
            ui.input(placeholder="Find: leaf-1, spine, out …", on_change=self._fill)
            .props('dense outlined clearable aria-label="Find a device or a link"')
            .classes("w-full")
        )
        self._note = ui.label("").classes("rw-quiet")
        columns = [
            {"name": name, "label": label, "field": name, "align": "left"}
            for name, label in _COLUMNS
        ]
        self._table = ui.table(columns=columns, rows=[], row_key="id", pagination=8)
        self._table.props("dense flat").classes("rw-trace rw-fabric-parts")
        self._table.add_slot(
            "body-cell-name",
            '<q-td :props="props"><q-btn flat dense no-caps size="sm" align="left" '
            ":label=\"props.value\" :aria-pressed=\"props.row.on ? 'true' : 'false'\" "
            ":class=\"props.row.on ? 'rw-on' : ''\" "
            "@click=\"() => $parent.$emit('pick', props.row.id)\" /></q-td>",
        )
        self._table.on("pick", self._hear)

    def _hear(self, event: GenericEventArguments) -> None:
        name = str(event.args)
        self.select(name)
        self._on_pick(name)

    def show(self, parts: tuple[Part, ...], selected: str | None) -> None:
        """Show what is drawn now."""
        if parts != self._parts:
            self._parts = parts
            self._selected = selected
            self._fill()

    def select(self, name: str | None, *, bring: bool = False) -> None:
        """Mark a row; ``bring`` it to the top where it was chosen elsewhere."""
        self._selected = name
        self._fill(first=name if bring else None)

    def _fill(self, _: object = None, first: str | None = None) -> None:
        words = str(self._filter.value or "").lower().split()
        found = [
            part for part in self._parts
            if all(word in f"{part.id} {part.kind} {part.ends} {part.state}".lower()
                   for word in words)
        ]  # fmt: skip
        if first is not None:
            found.sort(key=lambda part: part.id != first)
        more = len(found) - MOST_ROWS
        self._note.set_text(
            f"{len(found):,} of {len(self._parts):,}"
            + (f"; the first {MOST_ROWS} are shown, type to find others" if more > 0 else "")
        )
        self._table.rows = [
            {"id": p.id, "name": p.name, "kind": p.kind, "ends": p.ends, "state": p.state,
             "on": p.id == self._selected}
            for p in found[:MOST_ROWS]
        ]  # fmt: skip
