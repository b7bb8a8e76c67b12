"""One self-contained page of figures, sentences and tables: no request leaves it."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from railweave.report.page_table import PageTable

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["plain_page"]

_CSS: Final = (
    "body{font:15px system-ui,sans-serif;max-width:1100px;margin:2rem auto;padding:0 1rem;"
    "color:CanvasText;background:Canvas;color-scheme:light dark}"
    "table{border-collapse:collapse;margin:.5rem 0 1.5rem}"
    "td,th{padding:.15rem .8rem .15rem 0;text-align:left}"
    "div.wide{overflow-x:auto}"
)


def plain_page(
    title: str,
    figures: Sequence[go.Figure],
    said: Sequence[str],
    tables: Sequence[PageTable],
    *,
    drawing: str = "",
) -> str:
    """Return the page as text: the figures, what is shown in them, the tables.

    ``drawing`` is markup (SVG) that stands between what is said and the tables.
    """
    drawn = [
        figure.to_html(
            full_html=False,
            include_plotlyjs=number == 0,
            div_id="figure" if number == 0 else f"figure-{number + 1}",
            config={"displayModeBar": False},
        )
        for number, figure in enumerate(figures)
    ]
    listed = "".join(f"<li>{html.escape(line)}</li>" for line in said)
    parts = [f"<h1>{html.escape(title)}</h1>", *drawn, f"<ul>{listed}</ul>"]
    if drawing:
        parts.append(f'<div class="wide">{drawing}</div>')
    for table in tables:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in table.header)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in table.rows
        )
        parts.append(
            f'<h2>{html.escape(table.title)}</h2><div class="wide"><table><tr>{head}</tr>{body}'
            "</table></div>"
        )
        parts += [f"<p>{html.escape(note)}</p>" for note in table.notes]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{_CSS}</style></head><body>"
        + "\n".join(parts)
        + "</body></html>\n"
    )
