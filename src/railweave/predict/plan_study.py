"""Everything that is asked about training a model on a cluster, answered once for all who show it.

The search runs on closed forms; its best plans are then estimated on the fabric itself, by the
flow engine with all groups of a kind at once. So is every point of the scaling curve, on this
fabric or a larger one of its kind, and every other network on its own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from railweave.catalog import ModelShape
from railweave.design.models import PlacementName, Precision
from railweave.errors import InputError, RailweaveError
from railweave.predict._plan_words import why
from railweave.predict._training_types import StepEstimate
from railweave.predict.cost import RunCost, RunLength, price_run, require_price, run_length
from railweave.predict.plan import PlanSearch, refine, search_plans
from railweave.predict.plan_cluster import TrainingCluster
from railweave.predict.plan_space import PlanSpace
from railweave.predict.scaling import (
    NetworkCase,
    ScalingCurve,
    ScalingMode,
    network_case,
    oversubscribed,
    require_ratio,
    scaling_curve,
)
from railweave.predict.step import estimate_step
from railweave.predict.timeline import Timeline, step_timeline

if TYPE_CHECKING:
    from railweave.api import BuiltDesign

__all__ = [
    "PlanQuestion",
    "PlanStudy",
    "default_batch",
    "parse_batch",
    "parse_count",
    "study_plan",
]

Progress: TypeAlias = Callable[[str, float], None]

#: tokens of a step where no batch is asked for
DEFAULT_TOKENS: Final = 4 << 20
#: plans that are estimated on the fabric; fewer on large ones, where each takes seconds
_REFINED: Final = 5
_FEW: Final = 2
_LARGE: Final = 4096


def _silent(step: str, fraction: float) -> None:
    """Report progress to nobody."""


@dataclass(frozen=True, slots=True)
class PlanQuestion:
    """What is asked.

    Args:
        shape: of the model.
        batch: sequences of a step; None takes about 4 Mi tokens, or a sequence a domain.
        sequence: tokens of a sequence; None takes the model's.
        precision: of the matrix products.
        skew: load of the most loaded expert rank over the mean.
        input_s: what loading a step's samples takes, beside the step before; the same for every
            plan, GPU count and network.
        fixed: values that are given; see :class:`railweave.predict.plan_space.PlanSpace`.
        top: plans that are ranked.
        counts: GPU counts of the scaling curve; none, no curve.
        mode: of the scaling.
        oversubscription: ratios that the fabric is built again with.
        fail: names of parts; the plan is also run without all of them.
        placements: rules by which the ranks are also placed, all but ``optimized``.
        gpu_hour: price of a GPU-hour; None prices nothing.
        steps: of the run.
        tokens: of the run, instead of steps.
    """

    shape: ModelShape
    batch: int | None = None
    sequence: int | None = None
    precision: Precision = Precision.BF16
    skew: float = 1.0
    input_s: float = 0.0
    fixed: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    top: int = 5
    counts: tuple[int, ...] = ()
    mode: ScalingMode = "weak"
    oversubscription: tuple[float, ...] = ()
    fail: tuple[str, ...] = ()
    placements: tuple[PlacementName, ...] = ()
    gpu_hour: float | None = None
    steps: int | None = None
    tokens: float | None = None


@dataclass(frozen=True, eq=False)
class PlanStudy:
    """What was found. ``networks`` starts with the cluster as it is, where there are others."""

    question: PlanQuestion
    cluster: TrainingCluster
    search: PlanSearch
    case: NetworkCase
    why: tuple[str, ...]
    curve: ScalingCurve | None = None
    networks: tuple[NetworkCase, ...] = ()
    length: RunLength | None = None

    @property
    def best(self) -> StepEstimate:
        """The quickest plan's step."""
        return self.search.best

    @cached_property
    def timeline(self) -> Timeline:
        """What a typical replica of the quickest plan does when."""
        return step_timeline(self.best)

    def price(self, estimate: StepEstimate) -> RunCost | None:
        """Return what a step costs and, as far as its length is known, the run."""
        if self.question.gpu_hour is None:
            return None
        return price_run(
            estimate.plan.ranks,
            estimate.step_s,
            self.question.gpu_hour,
            length=self._length(estimate),
            idle_s=estimate.idle_s,
        )

    def _length(self, estimate: StepEstimate) -> RunLength | None:
        return run_length(
            estimate.plan.tokens_per_step, steps=self.question.steps, tokens=self.question.tokens
        )


def default_batch(sequence: int, gpus: int, domain_gpus: int) -> int:
    """Return sequences of about 4 Mi tokens, as a multiple of the scale-up domains' number."""
    domains = max(gpus // domain_gpus, 1)
    return max(round(DEFAULT_TOKENS / sequence / domains), 1) * domains


_COUNT: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([kMGBT]|Ki|Mi|Gi)?")
_FACTORS: Final[dict[str | None, float]] = {
    None: 1.0,
    **{"k": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12},
    **{"Ki": float(1 << 10), "Mi": float(1 << 20), "Gi": float(1 << 30)},
}


def parse_count(text: str) -> int:
    """Read a whole number: ``4096``, ``15T`` (10^12), ``1.5B`` (10^9), ``4Mi`` (2^20).

    Raises:
        InputError: it cannot be read, is not whole or below 1.
    """
    found = _COUNT.fullmatch(text.strip().replace(",", ""))
    value = float(found[1]) * _FACTORS[found[2]] if found else 0.0
    if value < 1 or value != round(value):
        raise InputError(
            f"{text!r} is no whole number of 1 or more; write one such as 4096, 15T (10^12), "
            "1.5B (10^9) or 4Mi (2^20)"
        )
    return round(value)


def parse_batch(text: str, sequence: int) -> int:
    """Read a batch: ``2048`` sequences, or ``16M tokens`` of whole sequences.

    Raises:
        InputError: it cannot be read, or the tokens are no whole sequences.
    """
    number, _, unit = text.strip().partition(" ")
    if unit.strip() in ("", "sequences"):
        if number.isdigit() and int(number) >= 1:
            return int(number)
    elif unit.strip() == "tokens":
        tokens = parse_count(number)
        if tokens % sequence == 0:
            return int(tokens // sequence)
        below = int(tokens // sequence) or 1
        raise InputError(
            f"batch: {tokens:,} tokens are no whole sequences of {sequence:,}; nearest: {below:,} "
            f"sequences ({below * sequence:,} tokens) or {below + 1:,}"
        )
    raise InputError(
        f"batch: {text!r} cannot be read; give sequences such as 2048, or tokens such as "
        "'16Mi tokens'"
    )


def study_plan(
    question: PlanQuestion, cluster: TrainingCluster, progress: Progress = _silent
) -> PlanStudy:
    """Answer a question on a cluster.

    Raises:
        InputError: no plan is valid or fits (the text names the nearest that would), or an option
            that means nothing here.
    """
    _check(question, cluster)
    sequence = question.sequence or question.shape.sequence
    batch = question.batch or default_batch(sequence, cluster.gpus, cluster.domain_gpus)
    space = PlanSpace(
        question.shape,
        cluster.gpus,
        cluster.domain_gpus,
        batch,
        sequence,
        question.precision,
        question.fixed,
    )
    search = search_plans(
        space,
        cluster.gpu,
        cluster.quick,
        top=question.top,
        skew=question.skew,
        progress=_part(progress, 0.0, 0.4),
    )
    if cluster.built is not None:
        search = refine(
            search,
            cluster.exact,
            top=_FEW if cluster.gpus > _LARGE else _REFINED,
            skew=question.skew,
            progress=_part(progress, 0.4, 0.6),
        )
    search = _with_input(search, question)
    best = search.best
    case = network_case(
        "as designed" if cluster.built is not None else cluster.name,
        best.plan,
        cluster.gpu,
        best.costs,
        skew=question.skew,
        input_s=question.input_s,
    )
    curve = _curve(question, cluster, best, _part(progress, 0.6, 0.8)) if question.counts else None
    networks = _networks(question, cluster, case, _part(progress, 0.8, 1.0))
    length = run_length(best.plan.tokens_per_step, steps=question.steps, tokens=question.tokens)
    return PlanStudy(question, cluster, search, case, why(search), curve, networks, length)


def _with_input(search: PlanSearch, question: PlanQuestion) -> PlanSearch:
    """Return the ranking with the time of loading samples, which changes no plan's place.

    Plans that load longer than they work end up level, the quickest at work first.
    """
    if not question.input_s:
        return search
    again = (
        estimate_step(
            item.plan, search.gpu, item.costs, skew=question.skew, input_s=question.input_s
        )
        for item in search.ranked
    )
    return replace(search, ranked=tuple(again))


def _check(question: PlanQuestion, cluster: TrainingCluster) -> None:
    for ratio in question.oversubscription:
        require_ratio(ratio)
    if question.gpu_hour is not None:
        require_price(question.gpu_hour)
    if (question.steps is not None or question.tokens is not None) and question.gpu_hour is None:
        raise InputError(
            "steps and tokens are the length of a run that is priced; give the price of a "
            "GPU-hour too, or leave them out"
        )
    if (question.oversubscription or question.fail or question.placements) and not cluster.built:
        raise InputError(
            "oversubscription, failures and placement are those of a fabric; name a design, or "
            "leave them out"
        )
    if PlacementName.OPTIMIZED in question.placements:
        rules = ", ".join(rule for rule in PlacementName if rule is not PlacementName.OPTIMIZED)
        raise InputError(f"placement: optimized is for jobs of a design; allowed here: {rules}")
    if not 0 <= question.input_s < math.inf:
        raise InputError(f"input: {question.input_s:g} s is not allowed; give a time of 0 or more")
    for name, value in (("batch", question.batch), ("sequence", question.sequence)):
        if value is not None and value < 1:
            raise InputError(f"{name}: {value} is not allowed; give 1 or more")
    run_length(1.0, steps=question.steps, tokens=question.tokens)


def _part(progress: Progress, first: float, last: float) -> Progress:
    return lambda step, fraction: progress(step, first + (last - first) * fraction)


def _curve(
    question: PlanQuestion, cluster: TrainingCluster, best: StepEstimate, progress: Progress
) -> ScalingCurve:
    """Return the scaling curve: searched by closed forms, each point on a fabric of its size."""
    at = lru_cache(maxsize=None)(cluster.at)
    return scaling_curve(
        best.plan,
        cluster.gpu,
        question.counts,
        lambda _, degrees: cluster.quick(degrees),
        cluster.domain_gpus,
        exact_at=None if cluster.built is None else lambda n, degrees: at(n).exact(degrees),
        mode=question.mode,
        fixed=question.fixed,
        skew=question.skew,
        input_s=question.input_s,
        progress=progress,
    )


def _leaves(cluster: TrainingCluster, built: BuiltDesign, ratio: float) -> TrainingCluster:
    return cluster.on(oversubscribed(built, ratio))


def _networks(
    question: PlanQuestion, cluster: TrainingCluster, case: NetworkCase, progress: Progress
) -> tuple[NetworkCase, ...]:
    """Return the plan on the fabric as it is, on others, with failures, and placed otherwise."""
    built = cluster.built
    if built is None:
        return ()
    plan, cases = case.estimate.plan, [case]
    others: list[tuple[str, Callable[[], TrainingCluster]]] = []
    for ratio in question.oversubscription:
        others.append((f"{ratio:g}:1 leaves", partial(_leaves, cluster, built, ratio)))
    if question.fail:
        name = f"without {', '.join(question.fail)}"
        others.append((name, lambda: cluster.on(built.fail(question.fail))))
    for rule in question.placements:
        others.append((f"placed {rule.value}", partial(cluster.placed, rule)))
    for number, (name, build) in enumerate(others):
        progress(name, number / len(others))
        try:
            costs = build().exact(plan.degrees)
        except RailweaveError as error:
            raise InputError(f"{name}: {error}") from None
        cases.append(
            network_case(
                name, plan, cluster.gpu, costs, skew=question.skew, input_s=question.input_s
            )
        )
    return tuple(cases) if others else ()
