"""Small parts of pages that are drawn as one piece: tables of text, text to be copied."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from nicegui import ui

__all__ = ["code_block", "plain_table"]


def plain_table(label: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> ui.html:
    """Add a table of text in a box that scrolls; one element, however many rows it has."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return (
        ui.html(
            f'<table class="rw-table"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>',
            sanitize=False,
        )
        .classes("rw-scroll rw-long")
        .props(f'tabindex=0 role=region aria-label="{escape(label)}"')
    )


def code_block(label: str) -> ui.label:
    """Add a text to be copied, with a button that does it; returns the text's element."""
    with ui.element("div").classes("rw-code"):
        text = ui.label("").classes("rw-mono").props(f'tabindex=0 role=region aria-label="{label}"')
        ui.button("Copy").props(f'flat dense no-caps aria-label="Copy {label}"').on(
            "click",
            js_handler=f"() => navigator.clipboard.writeText(getHtmlElement({text.id}).innerText)",
        )
    return text
