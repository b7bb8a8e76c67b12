"""Drives a run in pieces of about a tenth of a second, reporting progress in between."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

__all__ = ["drive"]

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
