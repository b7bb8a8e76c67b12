"""What is known of a run before its end: a document that grows, told a few times.

Its fields: ``simulated_s`` (simulated time reached; null for closed forms, which have no clock, and
before the first look), ``delivered`` (part of all bytes, 0 to 1), ``events``, ``tasks`` and
``tasks_done``; ``jobs``, each with its own ``tasks`` and ``tasks_done`` and, once all of them are
done, the ``time_s``, ``algbw_Bps`` and ``busbw_Bps`` that the record will have; ``what_ifs``, those
of the record, one after the other.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from railweave.engine.metrics import collective_bandwidth
from railweave.report.documents import finite

if TYPE_CHECKING:
    from railweave.engine._drive import LiveRun
    from railweave.engine.result import Result
    from railweave.report.record import WhatIfOutcome
    from railweave.workload.jobs import JobPlan, Workload

__all__ = ["Partial"]

F64 = npt.NDArray[np.float64]

#: what is known is told first after so long, …
_FIRST_S: Final = 0.1
#: … then at most so often, as the run goes on after this part of the time it has taken, …
_NEXT_S: Final = 1.0
_NEXT_PART: Final = 0.2
#: … and so that looking takes at most one part in so many
_LOOK_PART: Final = 20.0


class Partial:
    """Tells what is known of a run.

    Args:
        workload: what is simulated.
        tell: given each document; what it raises ends the run.
    """

    def __init__(self, workload: Workload, tell: Callable[[dict[str, Any]], None]) -> None:
        self._tell = tell
        self._plans = workload.jobs
        traffic = workload.traffic
        owner = np.array([label.split("/")[0] for label in traffic.labels] or [""])
        self._tasks = [
            np.flatnonzero((owner == plan.name)[traffic.task_label]) for plan in workload.jobs
        ]
        self._document: dict[str, Any] = {
            "simulated_s": None,
            "delivered": 0.0,
            "events": 0,
            "tasks": traffic.n_tasks,
            "tasks_done": 0,
            "jobs": [],
            "what_ifs": [],
        }
        self._began = time.monotonic()
        self._due = self._began + _FIRST_S

    def watch(self, run: LiveRun) -> None:
        """Look at a run between two pieces; tell what is known if that is due."""
        began = time.monotonic()
        if began < self._due:
            return
        self._look(*run.task_times())
        self._document |= {
            "simulated_s": run.now_s,
            "delivered": run.fraction,
            "events": run.events,
        }
        self._publish()
        now = time.monotonic()
        pause = (_NEXT_S, _NEXT_PART * (now - self._began), _LOOK_PART * (now - began))
        self._due = now + max(pause)

    def simulated(self, result: Result) -> None:
        """Tell the outcome of the simulation."""
        self._look(result.task_start_s, result.task_finish_s)
        sent = result.bytes_sent
        self._document |= {
            "simulated_s": None if result.engine == "analytic" else result.makespan_s,
            "delivered": min(1.0, result.bytes_delivered / sent) if sent > 0 else 1.0,
            "events": result.events,
        }
        self._publish()

    def without(self, outcome: WhatIfOutcome) -> None:
        """Tell what one failure costs."""
        self._document["what_ifs"].append(finite(dataclasses.asdict(outcome)))
        self._publish()

    def _publish(self) -> None:
        document = self._document
        self._tell({**document, "what_ifs": list(document["what_ifs"])})

    def _look(self, started: F64, finished: F64) -> None:
        self._document["tasks_done"] = int(np.isfinite(finished).sum())
        self._document["jobs"] = [
            _job(plan, started[tasks], finished[tasks])
            for plan, tasks in zip(self._plans, self._tasks, strict=True)
        ]


def _job(plan: JobPlan, started: F64, finished: F64) -> dict[str, Any]:
    """Return how a job stands: start and end of its own tasks in, NaN where not yet."""
    done = int(np.isfinite(finished).sum())
    time_s = algbw = busbw = math.nan
    if done == len(finished) > 0:
        time_s = float(finished.max() - started.min()) / plan.job.iterations
        if plan.op is not None and plan.size_bytes is not None:
            size = float(plan.size_bytes)
            algbw, busbw = collective_bandwidth(plan.op, len(plan.nodes), size, time_s)
    document = {
        "name": plan.name,
        "tasks": len(finished),
        "tasks_done": done,
        "time_s": time_s,
        "algbw_Bps": algbw,
        "busbw_Bps": busbw,
    }
    known: dict[str, Any] = finite(document)
    return known
