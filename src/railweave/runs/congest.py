"""Sweeps of the congested switch over an executor."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from railweave.engine.congest import CongestCase, CongestMetrics, measure
from railweave.engine.congest_sweep import SweepPoint
from railweave.runs.executor import Executor, InProcessExecutor
from railweave.runs.progress import CancelToken

__all__ = ["sweep"]


def sweep(
    cases: Sequence[CongestCase],
    executor: Executor | None = None,
    *,
    progress: Callable[[float], None] | None = None,
    token: CancelToken | None = None,
) -> tuple[SweepPoint, ...]:
    """Simulate every case; the points are in the cases' order, whatever the executor.

    Args:
        cases: as of :func:`railweave.engine.congest_sweep.grid`.
        executor: where they run; None runs them here, one after the other.
        progress: called after each case with the part of them that is done.
        token: stops the sweep when cancelled.

    Raises:
        Cancelled: ``token`` was cancelled.
    """
    found: dict[int, CongestMetrics] = {}
    for number, metrics in (executor or InProcessExecutor()).run(measure, cases, token):
        found[number] = metrics
        if progress is not None:
            progress(len(found) / len(cases))
    return tuple(SweepPoint(case, found[k]) for k, case in enumerate(cases))
