"""`PageTable`: one table, shown alike on a terminal and in the report."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["DASH", "PageTable", "known", "ratio"]

#: stands for what was not computed
DASH = "–"


@dataclass(frozen=True, slots=True)
class PageTable:
    """A titled table with notes under it.

    ``optional`` are the columns that a narrow terminal leaves out, the first to go first;
    ``text_columns`` are left-aligned (the first column always is).
    """

    id: str
    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    text_columns: tuple[str, ...] = ()


def known(value: float, show: Callable[[float], str]) -> str:
    """Return a number as text, a dash where it was not computed."""
    return show(value) if math.isfinite(value) else DASH


def ratio(value: float | None) -> str:
    """Return ``2:1``, a dash where there is none."""
    return DASH if value is None or not math.isfinite(value) else f"{value:.4g}:1"
