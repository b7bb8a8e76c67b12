"""Drives a run in pieces of about a tenth of a second, reporting progress in between."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["LiveRun", "drive", "watching"]

_STEP_S = 0.1
#: of the packet engine's clock, which may stop that short of a time
_RESOLUTION_S = 1e-12


class _Run(Protocol):
    @property
    def finished(self) -> bool: ...
    @property
    def now_s(self) -> float: ...
    @property
    def events(self) -> int: ...
    @property
    def fraction(self) -> float: ...
    def advance(self, until_s: float, max_events: int = -1) -> bool: ...


class LiveRun(_Run, Protocol):
    """A run of the flow or the packet engine, as it stands between two pieces."""

    def task_times(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return start and end of every task, each of shape (T,); NaN: not yet."""
        ...


def drive(
    run: _Run,
    until_s: float,
    progress: Callable[[float], None] | None,
    *,
    step: int,
    fraction: Callable[[], float] | None = None,
) -> None:
    """Advance a run to its end or to a time.

    Args:
        run: of the flow or the packet engine.
        until_s: simulated time at which to stop.
        progress: called after each piece with the part done; None: one piece.
        step: events of the first piece; later ones grow and shrink with the time they take.
        fraction: the part done, where it is not the run's own.
    """
    if progress is None:
        run.advance(until_s)
        return
    least, most = max(1, step // 16), step << 12
    while not run.finished:
        began, before = time.monotonic(), run.events
        run.advance(until_s, step)
        progress(run.fraction if fraction is None else fraction())
        if run.events == before or run.now_s + _RESOLUTION_S > until_s:
            return
        spent = time.monotonic() - began
        step = min(most, step * 2) if spent < _STEP_S else max(least, step // 2)


def watching(
    run: LiveRun,
    progress: Callable[[float], None] | None,
    watch: Callable[[LiveRun], None] | None,
) -> Callable[[float], None] | None:
    """Return a progress function that shows the run as well; None where nobody wants either."""
    if watch is None:
        return progress

    def both(part: float) -> None:
        if progress is not None:
            progress(part)
        watch(run)

    return both
