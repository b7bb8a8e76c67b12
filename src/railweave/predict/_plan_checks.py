"""Whether a plan's degrees fit the model, its batches and the GPUs, and what would."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from railweave.errors import InputError
from railweave.predict._training_types import TrainingPlan
from railweave.units import counted

__all__ = ["PlanProblem", "check_plan", "plan_problems"]

_MOST_ZERO = 3


@dataclass(frozen=True, slots=True)
class PlanProblem:
    """One thing wrong with a plan: the field, what, what is allowed, and the nearest right value
    (None where there is none)."""

    field: str
    message: str
    allowed: str
    nearest: int | None = None

    def __str__(self) -> str:
        """Give it as one line."""
        text = f"{self.field}: {self.message}; allowed: {self.allowed}"
        return text if self.nearest is None else f"{text}; nearest: {self.nearest}"


def _nearest(value: int, allowed: list[int]) -> int | None:
    """Return the allowed number that is nearest by ratio, the smaller of two."""
    return min(allowed, key=lambda n: (max(n / value, value / n), n), default=None)


def _divisors(n: int) -> list[int]:
    return [k for k in range(1, n + 1) if n % k == 0]


def _divides(field: str, value: int, what: str, total: int) -> Iterator[PlanProblem]:
    if total % value:
        right = _divisors(total)
        yield PlanProblem(
            field,
            f"{value} does not divide the {total} {what}",
            f"a divisor of {total}",
            _nearest(value, right),
        )


def _positive(plan: TrainingPlan) -> Iterator[PlanProblem]:
    degrees = plan.degrees
    for field, value in (
        ("tensor", degrees.tensor),
        ("context", degrees.context),
        ("pipeline", degrees.pipeline),
        ("data", degrees.data),
        ("expert", degrees.expert),
        ("micro_batch", plan.micro_batch),
        ("micro_batches", plan.micro_batches),
        ("interleave", plan.interleave),
        ("sequence", plan.tokens_of_sequence),
    ):
        if value < 1:
            yield PlanProblem(field, f"{value} is not allowed", "1 or more", 1)
    if not 0 <= plan.zero <= _MOST_ZERO:
        near = min(max(plan.zero, 0), _MOST_ZERO)
        yield PlanProblem("zero", f"there is no ZeRO stage {plan.zero}", "0 to 3", near)


def _model(plan: TrainingPlan) -> Iterator[PlanProblem]:
    shape, degrees = plan.shape, plan.degrees
    t, c = degrees.tensor, degrees.context
    for what, total in (("attention heads", shape.heads), ("columns of the FFN", shape.ffn)):
        found = list(_divides("tensor", t, what, total))
        yield from found
        if found:
            break
    if shape.kv_heads % t and t % shape.kv_heads:
        right = [
            n for n in _divisors(shape.heads) if shape.kv_heads % n == 0 or n % shape.kv_heads == 0
        ]
        yield PlanProblem(
            "tensor",
            f"{t} ranks cannot share {shape.kv_heads} KV heads evenly",
            f"a divisor or a multiple of {shape.kv_heads}",
            _nearest(t, right),
        )
    length = plan.tokens_of_sequence
    yield from _divides("context", c, "tokens of a sequence", length)
    split = t * c if plan.sequence_parallel else c
    if length % c == 0 and length % split:
        yield PlanProblem(
            "sequence_parallel",
            f"{t} tensor ranks do not divide the {length // c} tokens of a context rank",
            f"a tensor degree that divides {length // c}",
            _nearest(t, _divisors(length // c)),
        )
    yield from _divides("expert", degrees.expert, "experts of the model", shape.experts)
    if shape.experts % degrees.expert == 0 and degrees.data % degrees.expert:
        right = [n for n in _divisors(shape.experts) if degrees.data % n == 0]
        yield PlanProblem(
            "expert",
            f"{degrees.expert} does not divide the {degrees.data} data ranks",
            f"a divisor of {degrees.data} and of {shape.experts}",
            _nearest(degrees.expert, right),
        )


def _pipeline(plan: TrainingPlan) -> Iterator[PlanProblem]:
    shape, p, v = plan.shape, plan.degrees.pipeline, plan.interleave
    edges = 2 if (shape.layers + 2) % (p * v) == 0 else 0
    if p > shape.layers:
        yield PlanProblem(
            "pipeline",
            f"{p} stages for {shape.layers} layers",
            f"at most {shape.layers}",
            shape.layers,
        )
    elif p * v > shape.layers + edges:
        yield PlanProblem(
            "interleave",
            f"{p} stages × {v} chunks are more than the {shape.layers} layers",
            f"at most {shape.layers // p}",
            shape.layers // p,
        )
    if v > 1 and p == 1:
        yield PlanProblem("interleave", "one stage has nothing to interleave with", "1", 1)
    elif v > 1 and plan.micro_batches % p:
        near = max(round(plan.micro_batches / p), 1) * p
        yield PlanProblem(
            "micro_batches",
            f"{plan.micro_batches} micro-batches do not come in rounds of {p} stages, as the "
            "interleaved schedule needs",
            f"a multiple of {p}, or interleave 1",
            near,
        )


def _gpus(plan: TrainingPlan, gpus: int) -> Iterator[PlanProblem]:
    degrees = plan.degrees
    if degrees.ranks <= gpus:
        return
    model = degrees.ranks // degrees.data
    data = gpus // model // degrees.expert * degrees.expert
    degree = f"tensor {degrees.tensor} × context {degrees.context} × pipeline {degrees.pipeline}"
    if data >= 1:
        yield PlanProblem(
            "data",
            f"{degree} × data {degrees.data} = {degrees.ranks} ranks on {counted(gpus, 'GPU')}",
            f"at most {data}",
            data,
        )
        return
    stages = gpus // (model // degrees.pipeline)
    fitting = [n for n in range(1, stages + 1) if n <= plan.shape.layers]
    yield PlanProblem(
        "pipeline" if fitting else "tensor",
        f"{degree} = {model} ranks hold one copy of the model, on {counted(gpus, 'GPU')}",
        f"a product of at most {gpus}",
        max(fitting)
        if fitting
        else _nearest(
            min(gpus, degrees.tensor), [n for n in _divisors(plan.shape.heads) if n <= gpus]
        ),
    )


def plan_problems(plan: TrainingPlan, *, gpus: int | None = None) -> tuple[PlanProblem, ...]:
    """Return what is wrong with a plan, nothing where it can run; memory is another question.

    Args:
        plan: the plan.
        gpus: GPUs there are.
    """
    found = tuple(_positive(plan))
    if found:
        return found
    found = (*_model(plan), *_pipeline(plan))
    return found if gpus is None else (*found, *_gpus(plan, gpus))


def check_plan(plan: TrainingPlan, *, gpus: int | None = None) -> None:
    """Refuse a plan that cannot run.

    Raises:
        InputError: every problem with what is allowed and the nearest right value.
    """
    problems = plan_problems(plan, gpus=gpus)
    if problems:
        raise InputError("\n".join(str(problem) for problem in problems))
