"""Lab 5's list of what is drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from nicegui import ui
from nicegui.events import GenericEventArguments

from railweave.studio.labs._fabric import Part

__all__ = ["PartsTable"]

#: rows that are sent to the browser; the rest is found by typing
MOST_ROWS: Final = 200
_COLUMNS: Final = (("name", "Name"), ("kind", "What"), ("ends", "Between"), ("state", "State"))


class PartsTable:
    """What is drawn, as rows: picking one selects it on the drawing, and the other way round."""

    def __init__(self, on_pick: Callable[[str], None]) -> None:
        self._parts: tuple[Part, ...] = ()
        self._selected: str | None = None
        self._first: str | None = None
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
        """Mark a row; ``bring`` it to the top where it was chosen elsewhere, and keep it there."""
        self._selected = name
        self._first = name if bring else None
        self._fill()

    def _fill(self, _: object = None) -> None:
        words = str(self._filter.value or "").lower().split()
        found = [
            part for part in self._parts
            if all(word in f"{part.id} {part.kind} {part.ends} {part.state}".lower()
                   for word in words)
        ]  # fmt: skip
        if self._first is not None:
            found.sort(key=lambda part: part.id != self._first)
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
