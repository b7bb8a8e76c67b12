"""The studio's figures: the same Plotly figures as report and notebooks show."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from nicegui import ui

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["Figure"]


class Figure(ui.element):
    """A figure that can be shown anew.

    Args:
        label: what it shows, for readers who do not see it.
        height_px: room it takes until the first figure is there.
        follows: it is drawn after the numbers, and pale while it is that of earlier inputs.
    """

    def __init__(self, label: str, *, height_px: int = 320, follows: bool = False) -> None:
        super().__init__("figure")
        self.classes("rw-figure rw-follows" if follows else "rw-figure").props(
            f'role=img aria-label="{label}"'
        )
        with self:
            self._plot = ui.plotly(_document(None, height_px)).classes("w-full")

    def show(self, figure: go.Figure) -> None:
        """Show this figure; zoom and hidden series stay as the reader has set them."""
        self._plot.update_figure(_document(figure, 0))


def _document(figure: go.Figure | None, height_px: int) -> dict[str, object]:
    document: dict[str, object] = (
        {"data": [], "layout": {"height": height_px, "paper_bgcolor": "rgba(0,0,0,0)"}}
        if figure is None
        else json.loads(figure.to_json())
    )
    layout = document["layout"]
    assert isinstance(layout, dict)
    layout.pop("template", None)  # 6 kB of defaults that the house style replaces
    layout["uirevision"] = "kept"
    document["config"] = {"displayModeBar": False, "responsive": True}
    return document
