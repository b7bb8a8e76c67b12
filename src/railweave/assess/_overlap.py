"""Check of the jobs' placement: no two jobs have the same GPUs at the same time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from railweave.assess.context import CheckContext
from railweave.errors import RailweaveError
from railweave.findings import Finding
from railweave.units import format_seconds
from railweave.workload.jobs import job_sends, place_jobs, plan_job, with_stragglers

if TYPE_CHECKING:
    from railweave.fabric.routing import RoutingSet

__all__ = ["gpus_of_one_job"]

I32 = npt.NDArray[np.int32]


def gpus_of_one_job(context: CheckContext) -> Iterator[Finding]:
    """A GPU runs one job at a time: jobs that have some in common and overlap are pointed out."""
    jobs = context.design.jobs
    try:
        sends = job_sends(context.fabric, context.design, context.catalog)
        placed, _ = place_jobs(jobs, context.fabric, context.design.seed, sends)
    except RailweaveError:  # another check, or the simulation, says what does not fit
        return
    times = _Times(context, placed)
    for later, job in enumerate(jobs):
        mine = np.zeros(context.fabric.n_nodes, dtype=np.bool_)
        mine[placed[later]] = True
        beside = {
            other: shared
            for other in range(later)
            if (shared := int(mine[placed[other]].sum())) and times.overlap(later, other)
        }
        if beside:
            counts = " and ".join(
                f"{n:,} also run {jobs[other].name}" for other, n in beside.items()
            )
            yield context.warning(
                "gpus-shared-by-jobs",
                f"jobs[{later}]",
                f"{job.name}: of its {len(placed[later]):,} GPUs {counts} at the same time; the"
                " simulation lets them share the links of these GPUs, and nothing else",
                times.evidence((*beside, later)),
                "start: after the other is over; or ranks: a number, so that each job takes GPUs"
                " that no job before it has; or another placement",
            )


class _Times:
    """When jobs start, and would end if each were alone; a time is found when it is asked for."""

    def __init__(self, context: CheckContext, placed: Sequence[I32]) -> None:
        self._context = context
        self._placed = placed
        self._start_s = [job.start for job in context.design.jobs]
        self._end_s: dict[int, float] = {}

    def overlap(self, one: int, two: int) -> bool:
        """Tell whether the job that starts first still runs when the other starts."""
        first, second = sorted((one, two), key=self._start_s.__getitem__)
        if self._start_s[first] == self._start_s[second]:
            return True
        return self._end(first) > self._start_s[second]

    def evidence(self, jobs: Sequence[int]) -> str:
        """Return the start of each job, and the end of those that were asked for."""
        said = []
        for number in jobs:
            name = self._context.design.jobs[number].name
            end_s = self._end_s.get(number, math.inf)
            ends = f", alone ends at {format_seconds(end_s)}" if math.isfinite(end_s) else ""
            said.append(f"{name} starts at {format_seconds(self._start_s[number])}{ends}")
        return "; ".join(said)

    @cached_property
    def _routes(self) -> RoutingSet:
        from railweave.fabric.planes import compile_planes

        context = self._context
        return compile_planes(context.loaded, context.built, seed=context.design.seed)

    def _end(self, number: int) -> float:
        """Return when a job would end by the closed forms; never where it cannot be told."""
        if number not in self._end_s:
            try:
                self._end_s[number] = self._timed(number)
            except RailweaveError:  # the simulation says what does not fit
                self._end_s[number] = math.inf
        return self._end_s[number]

    def _timed(self, number: int) -> float:
        from railweave.engine.analytic import simulate_analytic
        from railweave.predict.clock import step_clock

        context, design = self._context, self._context.design
        job, nodes = design.jobs[number], self._placed[number]
        clock = step_clock(context.built, design, context.catalog)
        plan = plan_job(job, nodes, context.fabric, design, context.catalog, clock=clock)
        traffic = with_stragglers(plan.traffic, context.fabric, design.stragglers)
        return simulate_analytic(context.fabric, traffic, self._routes).makespan_s
