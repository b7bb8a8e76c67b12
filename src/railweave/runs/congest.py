"""The congested switch as work that takes time: sweeps over an executor, long runs as jobs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from railweave.engine.congest import CongestCase, CongestMetrics, CongestRun, measure
from railweave.engine.congest_summary import summarise
from railweave.engine.congest_sweep import SweepPoint
from railweave.errors import InputError
from railweave.runs.executor import Executor, InProcessExecutor
from railweave.runs.progress import CancelToken

if TYPE_CHECKING:
    from railweave.runs.jobs import JobContext

__all__ = ["congest_work", "sweep"]

#: what is known is published first after so long, …
_FIRST_S: Final = 0.1
#: … then at most so often, and as the run goes on after this part of the time it has taken
_NEXT_S: Final = 1.0
_NEXT_PART: Final = 0.2
#: how far the run is, is told at most so often
_TOLD_S: Final = 0.5


def congest_work(case: CongestCase, context: JobContext) -> dict[str, Any]:
    """Simulate a case as a job, publishing what is known so far on the way.

    Returns:
        The document of a :class:`~railweave.engine.congest_summary.CongestSummary`; what is
        published are such documents as well.
    """
    run = CongestRun(case)
    began = told = time.monotonic()
    due = began + _FIRST_S

    def progress(part: float) -> None:
        nonlocal due, told
        now = time.monotonic()
        # Each word costs a page some work: the bar need not move more often.
        if now - told < _TOLD_S and part < 1:
            context.check()
        else:
            told = now
            context.progress("simulating packets", part)
        if now < due:
            return
        try:
            context.publish(summarise(run.outcome()).document())
        except InputError:  # no sample yet
            return
        now = time.monotonic()
        due = now + max(_NEXT_S, _NEXT_PART * (now - began))

    run.drive(progress)
    return summarise(run.outcome()).document()


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
