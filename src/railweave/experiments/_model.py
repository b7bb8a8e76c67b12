"""What an experiment is, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Chart", "Experiment", "Outcome"]


@dataclass(frozen=True, eq=False)
class Chart:
    """Figures to be drawn: a frame of columns ``series``, ``x`` and ``y``, and what they are.

    ``kind`` is ``line``, ``points`` or ``bar`` (x are names); ``band`` is a range of y to shade, as
    (low, high, what it is).
    """

    name: str
    frame: pl.DataFrame
    x_title: str
    y_title: str
    kind: Literal["line", "points", "bar"] = "line"
    log_x: bool = False
    log_y: bool = False
    band: tuple[float, float, str] | None = None


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came out of an experiment.

    Args:
        values: measured numbers; the unit is in the name, shares are 0 to 1.
        charts: what to draw.
        holds: whether the claim is true of these numbers.
        reading: what they say, in one or two sentences.
    """

    values: Mapping[str, float]
    charts: tuple[Chart, ...]
    holds: bool
    reading: str


@dataclass(frozen=True)
class Experiment:
    """One small run of the packet engine that shows one thing.

    Args:
        name: short, of letters and hyphens.
        title: a heading.
        claim: a sentence that :attr:`Outcome.holds` decides.
        parameters: what the run is made of, in words.
        run: does it; the same numbers each time.
    """

    name: str
    title: str
    claim: str
    parameters: Mapping[str, str]
    run: Callable[[], Outcome]
