"""One training step: how long it takes, where the time goes, and what the network costs.

Every pipeline rank of a replica plays its schedule (:mod:`railweave.predict._schedule`) with the
arithmetic of its own layers (:mod:`railweave.predict.compute`) and the communication of its groups
(:mod:`railweave.predict.training_costs`):

* tensor and expert communication stands between the arithmetic of a layer: exposed;
* context communication runs beside the attention's scores: what is longer is exposed;
* hand-overs between stages run beside both; a stage waits for what has not come;
* gradients are reduced layer by layer behind the last backward pass of their chunk, updated weights
  are gathered ahead of the first forward pass, ZeRO 2 and 3 in every micro-batch: what outlasts the
  passes, or the bubble, is exposed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

import numpy as np

from railweave.catalog import Gpu
from railweave.design.models import Precision, Recompute
from railweave.engine.result import Explanation
from railweave.errors import InputError
from railweave.predict._plan_checks import PlanProblem, check_plan, plan_problems
from railweave.predict._schedule import Schedule, Span, StageTimes, estimate, play
from railweave.predict._step_parts import StepParts
from railweave.predict._step_volume import communications
from railweave.predict._training_types import (
    F64,
    GroupCommunication,
    MemoryUse,
    PlaceShares,
    StageMemory,
    StepEstimate,
    TrainingPlan,
    peak_flops,
)
from railweave.predict.compute import COMPUTE_ASSUMPTIONS, gemm_efficiency, require_precision
from railweave.predict.memory import memory_use
from railweave.predict.training_costs import CommunicationCosts
from railweave.predict.transformer import model_flops
from railweave.provenance import Assumption
from railweave.workload.groups import GroupKind

__all__ = [
    "IDLE_REASONS",
    "GroupCommunication",
    "MemoryUse",
    "PlaceShares",
    "PlanProblem",
    "Precision",
    "Recompute",
    "StageMemory",
    "StepEstimate",
    "TrainingPlan",
    "check_plan",
    "estimate_step",
    "plan_problems",
]

#: why a GPU does not compute, in the order in which time is given to them
IDLE_REASONS: Final = (
    "exposed tensor",
    "exposed context",
    "exposed expert",
    "exposed data",
    "exposed pipeline",
    "bubble",
    "slowest rank",
    "input",
)
_MOST_OPERATIONS: Final = 1_000_000
_MOST_REPLICAS: Final = 16

_ASSUMPTIONS: Final = (
    Assumption(
        "overlap",
        "tensor and expert communication waits; context communication hides behind scores, "
        "hand-overs, gradients and weights behind all arithmetic; communication takes no "
        "arithmetic units away, and kinds of groups do not slow each other on shared links",
    ),
    Assumption("steps", "one step like every other: no checkpoint, evaluation or failure in it"),
)


def estimate_step(
    plan: TrainingPlan,
    gpu: Gpu,
    costs: CommunicationCosts,
    *,
    skew: float = 1.0,
    slow: Mapping[int, float] = MappingProxyType({}),
    input_s: float = 0.0,
    exact: bool = True,
) -> StepEstimate:
    """Return what a step takes.

    Args:
        plan: how the model is trained; it need not fit the memory, see ``memory.fits``.
        gpu: of every rank.
        costs: of the plan's degrees.
        skew: load of the most loaded expert rank over the mean, 1 or more.
        slow: by rank, how many times as long a slow GPU takes for its arithmetic.
        input_s: what loading a step's samples takes; it runs beside the step before.
        exact: play the schedule; else by closed form, a few percent off: for searches.

    Raises:
        InputError: a plan that cannot run, costs of other degrees, FP8 where there is none, a skew
            or slowness below 1, or a rank that does not exist.
    """
    check_plan(plan)
    require_precision(gpu, plan.precision)
    _check_options(plan, costs, skew, slow, input_s)
    parts = StepParts(plan, gpu, costs, skew if plan.degrees.expert > 1 else 1.0)
    times = parts.stage_times()
    operations = 2 * plan.degrees.pipeline * plan.interleave * plan.micro_batches
    exact = exact and operations <= _MOST_OPERATIONS
    run = _play if exact else _estimate
    whole = run(plan, times)
    slowest = max(
        (run(plan, _slowed(parts, times, by)).makespan_s for by in _slow_replicas(plan, slow)),
        default=0.0,
    )
    working_s = max(whole.makespan_s, slowest)
    step_s = max(working_s, input_s)
    idle, compute = _idle(parts, times, whole, step_s, input_wait=step_s - working_s, exact=exact)
    stage = int(np.argmax(compute))
    exposed = _exposed_of(idle, stage, plan)
    flops = model_flops(plan.shape, plan.tokens_per_step, plan.tokens_of_sequence)
    means = {name: float(by.mean()) for name, by in idle.items()}
    return StepEstimate(
        plan=plan,
        gpu=gpu,
        step_s=step_s,
        flops=flops,
        executed_flops=parts.executed_flops * plan.degrees.data,
        compute_s=float(compute.max()),
        compute_by_stage=compute,
        bubble_s=means["bubble"],
        communications=communications(parts, exposed),
        memory=memory_use(plan, gpu),
        idle_s=MappingProxyType(means),
        idle_by_stage=MappingProxyType(idle),
        assumptions=_said(plan, costs, skew, exact=exact),
        explanations=_explain(plan, gpu, parts, step_s, flops, means),
        costs=costs,
        skew=parts.skew,
        slow=MappingProxyType(dict(slow)),
        schedule=whole if isinstance(whole, Schedule) else None,
    )


def _check_options(
    plan: TrainingPlan,
    costs: CommunicationCosts,
    skew: float,
    slow: Mapping[int, float],
    input_s: float,
) -> None:
    if costs.degrees != plan.degrees:
        raise InputError(
            f"training costs: they are of {costs.degrees}, the plan has {plan.degrees}; "
            "make them for the plan's degrees"
        )
    if not skew >= 1:
        raise InputError(
            f"skew: {skew:g} is not allowed; give the load of the most loaded expert rank over "
            "the mean, 1 or more"
        )
    if not input_s >= 0:
        raise InputError(f"input: {input_s:g} s is not allowed; give 0 or more")
    for rank, factor in slow.items():
        if not 0 <= rank < plan.ranks:
            raise InputError(f"slow: rank {rank} does not exist; allowed: 0…{plan.ranks - 1}")
        if not factor >= 1:
            raise InputError(
                f"slow: {factor:g} for rank {rank} is not allowed; give how many times as long it "
                "takes, 1 or more"
            )


def _play(plan: TrainingPlan, times: StageTimes) -> Schedule:
    return play(plan.degrees.pipeline, plan.interleave, plan.micro_batches, times)


def _estimate(plan: TrainingPlan, times: StageTimes) -> Span:
    return estimate(plan.degrees.pipeline, plan.interleave, plan.micro_batches, times)


def _slow_replicas(plan: TrainingPlan, slow: Mapping[int, float]) -> list[F64]:
    """Return for every different replica with a slow GPU its stages' factors, (P,) each.

    Tensor and context ranks wait for each other, and so do replicas that share experts.
    """
    degrees = plan.degrees
    inner = degrees.tensor * degrees.context
    blocks: dict[int, F64] = {}
    for rank, factor in slow.items():
        stage, within = divmod(rank, inner * degrees.data)
        factors = blocks.setdefault(within // inner // degrees.expert, np.ones(degrees.pipeline))
        factors[stage] = max(factors[stage], factor)
    different = {tuple(factors.tolist()): factors for factors in blocks.values()}
    return sorted(different.values(), key=lambda by: -float(by.max()))[:_MOST_REPLICAS]


def _slowed(parts: StepParts, times: StageTimes, factor: F64) -> StageTimes:
    """Return the times of a replica whose stages compute ``factor`` (P,) times as long."""
    more = np.tile(factor - 1.0, parts.plan.interleave)
    return replace(
        times,
        forward_s=times.forward_s + more * parts.compute_forward,
        backward_s=times.backward_s + more * parts.compute_backward,
        tail_s=times.tail_s * factor,
    )


def _idle(
    parts: StepParts,
    times: StageTimes,
    whole: Schedule | Span,
    step_s: float,
    *,
    input_wait: float,
    exact: bool,
) -> tuple[dict[str, F64], F64]:
    """Return (idle seconds by reason, arithmetic), (P,) each, of a replica without slow GPUs.

    What stands inside passes is known. What is left of the step is given first to the data ranks
    and the hand-overs, as much as the step would be shorter without them, then to the bubble of a
    pipeline of equal stages, and the rest to the slowest rank.
    """
    plan = parts.plan
    m, p, v = plan.micro_batches, plan.degrees.pipeline, plan.interleave
    by_rank = parts.parts.by_rank
    run = _play if exact else _estimate
    compute = by_rank(parts.compute_forward + parts.compute_backward) * m + times.tail_s
    idle = {
        "exposed tensor": by_rank(sum(parts.tensor_wait)) * m,
        "exposed context": by_rank(sum(parts.context_wait)) * m,
        "exposed expert": by_rank(sum(parts.expert_wait)) * m,
    }
    inside = by_rank(sum(parts.data_wait)) * m
    overload = by_rank(sum(parts.overload)) * m
    left = step_s - input_wait - compute - sum(idle.values()) - inside - overload
    work = by_rank(times.forward_s + times.backward_s)
    shorter = {
        "exposed data": whole.makespan_s - run(plan, times.without(data=True)).makespan_s,
        "exposed pipeline": whole.makespan_s - run(plan, times.without(hop=True)).makespan_s,
        "bubble": (p - 1) * float(work.mean()) / v,
    }
    for name, most in shorter.items():
        idle[name] = np.clip(left, 0.0, max(most, 0.0))
        left = left - idle[name]
    idle["exposed data"] = idle["exposed data"] + inside
    idle["slowest rank"] = left + overload
    idle["input"] = np.full(p, input_wait)
    return idle, compute


def _exposed_of(idle: Mapping[str, F64], stage: int, plan: TrainingPlan) -> dict[GroupKind, float]:
    """Return one stage's waits by kind of group; experts' weights share the data ranks'."""
    kinds: tuple[GroupKind, ...] = ("tensor", "context", "pipeline", "expert", "data")
    out: dict[GroupKind, float] = {kind: float(idle[f"exposed {kind}"][stage]) for kind in kinds}
    if plan.shape.experts > 1:
        out["expert-data"] = out["data"]
    return out


def _said(
    plan: TrainingPlan, costs: CommunicationCosts, skew: float, *, exact: bool
) -> tuple[Assumption, ...]:
    lines = [*_ASSUMPTIONS, *COMPUTE_ASSUMPTIONS, *costs.assumptions]
    lines.append(Assumption("communication", costs.source))
    if not exact:
        lines.append(
            Assumption("schedule", "the pipeline by closed form, not played; a few percent off")
        )
    if plan.degrees.expert > 1:
        text = "tokens are routed uniformly" if skew == 1 else f"the fullest rank gets {skew:g} ×"
        lines.append(Assumption("experts", text))
    if plan.zero == 2:
        lines.append(Assumption("ZeRO 2", "gradients are reduce-scattered after every micro-batch"))
    return tuple(lines)


@dataclass(frozen=True, slots=True)
class _Line:
    quantity: str
    value: float
    unit: str
    formula: str


def _explain(  # noqa: PLR0917 - what there is to explain
    plan: TrainingPlan,
    gpu: Gpu,
    parts: StepParts,
    step_s: float,
    flops: float,
    idle: Mapping[str, float],
) -> tuple[Explanation, ...]:
    peak = peak_flops(gpu, plan.precision)
    shape = plan.shape
    inputs = {
        "parameters": float(shape.parameters),
        "active parameters": float(shape.active_parameters),
        "tokens": float(plan.tokens_per_step),
        "sequence": float(plan.tokens_of_sequence),
        "layers": float(shape.layers),
        "GPUs": float(plan.ranks),
        "peak FLOP/s": peak,
        "matrix efficiency": gemm_efficiency(gpu, plan.precision),
        "busy s a layer and micro-batch": parts.dense.forward_s + parts.dense.backward_s,
        **{f"idle: {name} s": value for name, value in idle.items()},
    }
    lines = (
        _Line("step time", step_s, "s", "the schedule's last end, arithmetic + idle by reason"),
        _Line(
            "model FLOPs",
            flops,
            "FLOP",
            "6·(active parameters without embedding look-up)·tokens + 6·layers·heads·width·"
            "sequence·tokens (causal: half of 12)",
        ),
        _Line("tokens/s", plan.tokens_per_step / step_s, "1/s", "tokens / step time"),
        _Line("MFU", flops / step_s / plan.ranks / peak, "", "FLOPs / (step time · GPUs · peak)"),
    )
    return tuple(
        Explanation(
            line.quantity, line.value, line.unit, line.formula, inputs, "docs/model/training.md"
        )
        for line in lines
    )
