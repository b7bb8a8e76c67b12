"""The search for the quickest plan among all valid ones, and the nearest one where none will do.

The search is exact for its costs: plans are taken in the order of a bound that is below their step
time (:mod:`railweave.predict._plan_bounds`), bounded again with all that they send, and played; it
ends when what is left cannot beat what was found. Plans that do not fit the memory are left out.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from railweave.catalog import Gpu
from railweave.errors import InputError
from railweave.predict._plan_bounds import least_memory, least_step, least_time
from railweave.predict._training_types import StepEstimate, TrainingPlan
from railweave.predict.compute import require_precision
from railweave.predict.memory import memory_use
from railweave.predict.plan_space import (
    COLUMNS,
    PlanSpace,
    PlanTable,
    column_text,
    objections,
    plan_values,
    valid_plans,
)
from railweave.predict.step import estimate_step
from railweave.predict.training_costs import CommunicationCosts
from railweave.units import counted, format_seconds
from railweave.workload.groups import Degrees

__all__ = [
    "CostsOf",
    "NearestPlan",
    "NoPlanError",
    "PlanSearch",
    "nearest_plans",
    "refine",
    "search_plans",
]

F64 = npt.NDArray[np.float64]

#: costs of communication for a set of degrees
CostsOf: TypeAlias = Callable[[Degrees], CommunicationCosts]
Progress: TypeAlias = Callable[[str, float], None]

_DEGREES: Final = ("tensor", "context", "pipeline", "data", "expert")
_MOST_CLASSES: Final = 64


def _silent(step: str, fraction: float) -> None:
    """Report progress to nobody."""


@dataclass(frozen=True, eq=False)
class PlanSearch:
    """What a search found, the quickest first, with one plan for each set of degrees.

    ``valid`` plans follow the rules; ``fitting`` of them may fit the memory, by a bound;
    ``played`` were simulated: no other can be among the ranked. The first ``refined`` of the ranked
    were estimated again with costs of the fabric.
    """

    space: PlanSpace
    gpu: Gpu
    valid: int
    fitting: int
    played: int
    ranked: tuple[StepEstimate, ...]
    refined: int = 0

    @property
    def best(self) -> StepEstimate:
        """The quickest."""
        return self.ranked[0]


@dataclass(frozen=True, eq=False)
class NearestPlan:
    """A plan that would do, and how it differs from what was asked."""

    estimate: StepEstimate
    changes: tuple[str, ...]

    def describe(self) -> str:
        """Say it in a line."""
        said = ", ".join(self.changes)
        plan, step = self.estimate.plan.describe(), format_seconds(self.estimate.step_s)
        return f"{said}: {plan}; {step} a step"


class NoPlanError(InputError):
    """No plan is valid or fits: ``reasons`` say why, ``nearest`` are plans that would do."""

    def __init__(self, reasons: tuple[str, ...], nearest: tuple[NearestPlan, ...]) -> None:
        super().__init__(_refusal(reasons, nearest))
        self.reasons = reasons
        self.nearest = nearest


def search_plans(
    space: PlanSpace,
    gpu: Gpu,
    costs_of: CostsOf,
    *,
    top: int = 10,
    skew: float = 1.0,
    progress: Progress = _silent,
) -> PlanSearch:
    """Return the quickest plans of a space that fit the memory.

    Args:
        space: what plans are looked for.
        gpu: of every rank.
        costs_of: communication for given degrees; what a tensor, context or expert group costs
            must not depend on the other degrees.
        top: how many to return, one for each set of degrees (where all degrees are fixed: so many
            plans).
        skew: load of the most loaded expert rank over the mean.
        progress: called with a step and the fraction done.

    Raises:
        NoPlanError: no plan is valid, or none fits; it names the nearest that would.
        InputError: no such number of plans, or FP8 on GPUs without it.
    """
    if top < 1:
        raise InputError(f"top: {top} is not allowed; give 1 or more")
    require_precision(gpu, space.precision)
    costs_of = lru_cache(maxsize=None)(costs_of)
    progress("plans", 0.0)
    table = valid_plans(space)
    if not len(table):
        raise NoPlanError(objections(space), nearest_plans(space, gpu, costs_of))
    fitting, least = _may_fit(table, gpu)
    found, played = _quickest(fitting, gpu, costs_of, top=top, skew=skew, progress=progress)
    if not found:
        raise NoPlanError((_too_big(table, least, gpu),), nearest_plans(space, gpu, costs_of))
    return PlanSearch(space, gpu, len(table), len(fitting), played, found)


def _usable(table: PlanTable, gpu: Gpu) -> float:
    return memory_use(table.plan(0), gpu).usable_bytes


def _may_fit(table: PlanTable, gpu: Gpu) -> tuple[PlanTable, float]:
    """Return the plans that may fit, and the least memory of all plans."""
    if not len(table):
        return table, 0.0
    need = least_memory(table)
    return table.take(need <= _usable(table, gpu)), float(need.min())


@dataclass
class _Found:
    """The state of one search."""

    table: PlanTable
    gpu: Gpu
    costs_of: CostsOf
    skew: float
    played: int = 0

    def bound(self, row: int) -> float:
        """Return what the row's step takes at least, with all that it sends."""
        plan = self.table.plan(row)
        return least_time(plan, self.gpu, self.costs_of(plan.degrees))

    def play(self, row: int) -> StepEstimate | None:
        """Return the row's estimate; None where it does not fit."""
        plan = self.table.plan(row)
        if not memory_use(plan, self.gpu).fits:
            return None
        self.played += 1
        return estimate_step(plan, self.gpu, self.costs_of(plan.degrees), skew=self.skew)


def _quickest(
    table: PlanTable,
    gpu: Gpu,
    costs_of: CostsOf,
    *,
    top: int,
    skew: float = 1.0,
    progress: Progress = _silent,
) -> tuple[tuple[StepEstimate, ...], int]:
    """Return the quickest plans that fit, and how many were played.

    Best first: a row waits with its first bound, then with its second, then with its time; when a
    row comes up with its time, nothing that waits can be quicker.
    """
    first = least_step(table, gpu, costs_of)
    order = np.argsort(first, kind="stable").tolist()
    keys = _keys(table)
    state = _Found(table, gpu, costs_of, skew)
    done: dict[int, StepEstimate] = {}
    waiting: list[tuple[float, int, int, StepEstimate | None]] = []
    at = 0
    while len(done) < top and (waiting or at < len(order)):
        if at < len(order) and (not waiting or first[order[at]] <= waiting[0][0]):
            row, at = order[at], at + 1
            if keys[row] not in done:
                heapq.heappush(waiting, (state.bound(row), 1, row, None))
                progress("search", at / len(order))
            continue
        _, _, row, estimate = heapq.heappop(waiting)
        if keys[row] in done:
            continue
        if estimate is not None:
            done[keys[row]] = estimate
            continue
        played = state.play(row)
        if played is not None:
            heapq.heappush(waiting, (played.step_s, 2, row, played))
    return tuple(done.values()), state.played


def _keys(table: PlanTable) -> list[int]:
    """Return a number for what may be ranked once: a set of degrees; a row where there is one."""
    degrees = np.stack([table.column(name) for name in _DEGREES], axis=1)
    different, member = np.unique(degrees, axis=0, return_inverse=True)
    if len(different) <= 1:
        return list(range(len(table)))
    keys: list[int] = member.reshape(-1).tolist()
    return keys


def refine(
    search: PlanSearch,
    costs_of: CostsOf,
    *,
    top: int = 5,
    skew: float = 1.0,
    progress: Progress = _silent,
) -> PlanSearch:
    """Return the search with its first plans estimated again, with costs of the fabric itself.

    They are ordered by those, and the others stay behind them. What was ranked lower by the quicker
    costs and would do better on this fabric is not found.
    """
    again = []
    for number, estimate in enumerate(search.ranked[:top]):
        progress("fabric", number / min(top, len(search.ranked)))
        plan = estimate.plan
        again.append(estimate_step(plan, search.gpu, costs_of(plan.degrees), skew=skew))
    ordered = sorted(again, key=lambda item: item.step_s)
    return replace(search, ranked=(*ordered, *search.ranked[top:]), refined=len(ordered))


# ---------------------------------------------------------------- the nearest that would


def nearest_plans(
    space: PlanSpace, gpu: Gpu, costs_of: CostsOf, *, count: int = 3
) -> tuple[NearestPlan, ...]:
    """Return the nearest plans that are valid and fit, the nearest first.

    Near means few changes of what is fixed, a doubling counting as one; among plans as near as
    each other the quickest is taken. Where nothing on these GPUs will do, the batch is changed
    next, then the number of GPUs: to whole domains, 2^k or 3·2^k.

    Args:
        space: what was asked; ``fixed`` may be anything.
        gpu: of every rank.
        costs_of: as in :func:`search_plans`.
        count: how many to return, each with other changes.
    """
    found = tuple(_with_other_values(space, space, gpu, costs_of, count))
    if found:
        return found
    for other in _neighbours(space):
        found = tuple(_with_other_values(space, other, gpu, costs_of, 1))
        if found:
            return found
    return ()


def _distance(table: PlanTable, fixed: dict[str, int]) -> F64:
    """Return how far each row is from what is fixed, (N,)."""
    far = np.zeros(len(table))
    for name, value in fixed.items():
        column = table.column(name)
        if name in ("zero", "recompute", "sequence-parallel"):
            far += np.abs(column - value)
        else:
            far += np.abs(np.log2(column / value))
    return np.round(far, 6)


def _with_other_values(
    asked: PlanSpace, space: PlanSpace, gpu: Gpu, costs_of: CostsOf, count: int
) -> Iterator[NearestPlan]:
    """Yield plans of a space whose fixed values are changed as little as possible."""
    table, _ = _may_fit(valid_plans(space.free()), gpu)
    far = _distance(table, dict(asked.fixed))
    yielded = 0
    for distance in np.unique(far)[:_MOST_CLASSES].tolist():
        rows = table.take(far == distance)
        best, _ = _quickest(rows, gpu, costs_of, top=1)
        if best:
            yield NearestPlan(best[0], _changes(asked, space, best[0].plan))
            yielded += 1
            if yielded >= count:
                return


def _changes(asked: PlanSpace, space: PlanSpace, plan: TrainingPlan) -> tuple[str, ...]:
    values = plan_values(plan)
    said = []
    if space.gpus != asked.gpus:
        said.append(f"{space.gpus:,} GPUs instead of {asked.gpus:,}")
    if space.batch != asked.batch:
        said.append(f"a batch of {space.batch:,} sequences instead of {asked.batch:,}")
    for name in COLUMNS:
        if name in asked.fixed and values[name] != asked.fixed[name]:
            was = column_text(name, asked.fixed[name]).removeprefix(f"{name} ")
            said.append(f"{column_text(name, values[name])} instead of {was}")
    return tuple(said) or ("as asked",)


def _neighbours(space: PlanSpace) -> Iterator[PlanSpace]:
    """Yield the same with other batches on these GPUs, then with more or fewer GPUs."""
    free = space.free()
    cuts = range(1, space.gpus + 1)
    replicas = [space.gpus // cut for cut in cuts if space.gpus % cut == 0]
    batches = {
        batch
        for data in replicas
        for batch in (space.batch // data * data, -(-space.batch // data) * data)
        if batch >= 1 and batch != space.batch
    }
    for batch in sorted(batches, key=lambda value: (abs(value - space.batch), value))[:8]:
        yield replace(free, batch=batch)
    domain = space.domain_gpus
    near = {space.gpus // domain * domain, -(-space.gpus // domain) * domain}
    round_ones = {scale << power for scale in (1, 3) for power in range(24)}
    counts = {
        gpus
        for gpus in near | round_ones
        if gpus >= 1
        and gpus != space.gpus
        and space.gpus / 4 <= gpus <= 64 * space.gpus
        and (gpus % domain == 0 or gpus < domain)
    }
    for gpus in sorted(counts, key=lambda value: abs(np.log2(value / space.gpus))):
        yield replace(free, gpus=gpus)


def _refusal(reasons: tuple[str, ...], near: tuple[NearestPlan, ...]) -> str:
    """Return what is wrong, one reason a line, and what would do."""
    lines = [*reasons]
    if near:
        lines.append("nearest that would:")
        lines += [f"  {plan.describe()}" for plan in near]
    else:
        lines.append("nothing near would do; ask for more GPUs, or fix less")
    return "\n".join(lines)


def _too_big(table: PlanTable, least_bytes: float, gpu: Gpu) -> str:
    usable = _usable(table, gpu)
    fixed = [column_text(name, value) for name, value in table.space.fixed.items()]
    # Where everything is fixed, whoever asks knows what it is.
    asked = f" with {', '.join(fixed)}" if 0 < len(fixed) < len(COLUMNS) - 1 else ""
    many = f"none of the {len(table):,} plans" if len(table) > 1 else "not even the one plan"
    return (
        f"memory: {many} on {counted(table.space.gpus, 'GPU')}{asked} fits: at least "
        f"{least_bytes / 1e9:.1f} GB a GPU are needed, and {gpu.name} has {usable / 1e9:.1f} GB"
    )
