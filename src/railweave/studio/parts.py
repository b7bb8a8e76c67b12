"""Small parts that several pages are made of: tiles of numbers, tables, text to be copied."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from nicegui import ui

from railweave.studio.help import help_button

if TYPE_CHECKING:
    from railweave.report.page_table import PageTable
    from railweave.studio.lab import Number

__all__ = ["TableBox", "Tiles", "code_block", "page_table", "plain_table", "table_html"]


class Tiles:
    """Tiles of numbers, each with its help; only what changes is sent to the browser."""

    def __init__(self) -> None:
        self._place = (
            ui.element("section").classes("rw-tiles").props('role=group aria-label="Results"')
        )
        self._shape: list[tuple[str, str]] = []
        self._labels: list[tuple[ui.label, ui.label]] = []

    def show(self, numbers: Sequence[Number], beside: Mapping[str, str] | None = None) -> None:
        """Show these numbers, and by key what stands below them (the baseline's value, say)."""
        shape = [(number.key, number.label) for number in numbers]
        if shape != self._shape:
            self._shape = shape
            self._build()
        for number, (value, below) in zip(numbers, self._labels, strict=True):
            value.set_text(number.text)
            below.set_text((beside or {}).get(number.key, ""))

    def _build(self) -> None:
        self._place.clear()
        self._labels = []
        with self._place:
            for key, name in self._shape:
                with ui.element("div").classes("rw-tile").props(f'data-number="{escape(key)}"'):
                    with ui.row(wrap=False).classes("rw-label"):
                        ui.label(name)
                        help_button(key.partition(":")[0])
                    value = ui.label("").classes("rw-value")
                    self._labels.append((value, ui.label("").classes("rw-quiet")))


def table_html(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    name: str = "",
    marked: int = -1,
    numeric: Collection[int] = (),
) -> str:
    """Return a table of text.

    Args:
        header: an empty name heads no column.
        rows: as long as the header.
        name: what style sheets and tests know it by.
        marked: the row that stands out.
        numeric: columns that are aligned to the right.
    """

    def kind(column: int) -> str:
        return ' class="rw-num"' if column in numeric else ""

    head = "".join(
        f'<th scope="col"{kind(k)}>{escape(cell)}</th>' if cell else "<td></td>"
        for k, cell in enumerate(header)
    )
    here = ' class="rw-on" aria-current="true"'
    body = "".join(
        f"<tr{here if number == marked else ''}>"
        + "".join(f"<td{kind(k)}>{escape(cell)}</td>" for k, cell in enumerate(row))
        + "</tr>"
        for number, row in enumerate(rows)
    )
    known = f' data-table="{escape(name)}"' if name else ""
    return (
        f'<table class="rw-table"{known}><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table>"
    )


def plain_table(
    label: str, header: Sequence[str], rows: Sequence[Sequence[str]], *, name: str = ""
) -> ui.html:
    """Add a table of text in a box that scrolls; one element, however many rows it has."""
    return _box(label, table_html(header, rows, name=name))


def _box(label: str, html: str) -> ui.html:
    return (
        ui.html(html, sanitize=False)
        .classes("rw-scroll")
        .props(f'tabindex=0 role=region aria-label="{escape(label)}"')
    )


def _page_html(table: PageTable) -> str:
    numeric = [k for k, name in enumerate(table.header) if k and name not in table.text_columns]
    return table_html(table.header, table.rows, name=table.id, numeric=numeric)


def page_table(table: PageTable, *, level: int = 3) -> None:
    """Add a table of the report, with its title as a heading and its notes."""
    ui.label(table.title).classes(f"rw-h{level}").props(f"role=heading aria-level={level}")
    _box(table.title, _page_html(table))
    for note in table.notes:
        ui.label(note).classes("rw-quiet")


class TableBox:
    """A card for a table of the report, which is hidden while there is none.

    Args:
        name: a class of its own.
    """

    def __init__(self, name: str) -> None:
        self._box = ui.element("section").classes(f"rw-card hidden {name}")
        self._shown: PageTable | None = None

    def show(self, table: PageTable | None) -> None:
        """Show a table, or none."""
        if table == self._shown:
            return
        self._shown = table
        self._box.clear()
        if table is None:
            self._box.classes(add="hidden")
            return
        self._box.classes(remove="hidden")
        with self._box:
            page_table(table, level=2)


def code_block(label: str) -> ui.label:
    """Add a text to be copied, with a button that does it; returns the text's element."""
    with ui.element("div").classes("rw-code"):
        text = ui.label("").classes("rw-mono").props(f'tabindex=0 role=region aria-label="{label}"')
        ui.button("Copy").props(f'flat dense no-caps aria-label="Copy {label}"').on(
            "click",
            js_handler=f"() => navigator.clipboard.writeText(getHtmlElement({text.id}).innerText)",
        )
    return text
