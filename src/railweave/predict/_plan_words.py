"""Sentences on a search: why the quickest plan wins, and what the others lose on."""

from __future__ import annotations

from typing import Final

from railweave.predict._training_types import StepEstimate, TrainingPlan
from railweave.predict.plan import PlanSearch
from railweave.units import format_seconds, format_si

__all__ = ["said_of_step", "short_name", "why"]

#: as quick as the best, within this share
_ALIKE: Final = 0.001
#: parts of a difference that are named, of the largest
_SMALL: Final = 0.15
_MOST_PARTS: Final = 3
_MOST_OTHERS: Final = 3


def short_name(plan: TrainingPlan) -> str:
    """Name a plan in a line, without what most plans have in common: selective recomputation."""
    return plan.describe().replace(" · recompute selective", "")


def _spent(estimate: StepEstimate) -> dict[str, float]:
    """Return mean seconds of a GPU by what it does or waits for; they add up to the step."""
    return {"arithmetic": float(estimate.compute_by_stage.mean()), **estimate.idle_s}


def _plain(reason: str) -> str:
    """Say a reason in words."""
    if reason.startswith("exposed "):
        return f"{reason.removeprefix('exposed ')} communication"
    return {"bubble": "pipeline bubble", "slowest rank": "waiting for the slowest stage"}.get(
        reason, reason
    )


def said_of_step(estimate: StepEstimate) -> str:
    """Say how long a step takes, what a GPU does meanwhile, and how full its memory is."""
    spent = _spent(estimate)
    waits = sorted(
        ((reason, time) for reason, time in spent.items() if reason != "arithmetic"),
        key=lambda item: -item[1],
    )
    lost = [
        f"{100 * time / estimate.step_s:.1f} % {_plain(reason)}"
        for reason, time in waits
        if time / estimate.step_s >= _ALIKE
    ]
    memory = estimate.memory
    text = (
        f"A step takes {format_seconds(estimate.step_s)}, "
        f"{format_si(estimate.tokens_per_s, '', 4).strip()} tokens/s, MFU "
        f"{100 * estimate.mfu:.1f} %; "
        f"a GPU computes {100 * spent['arithmetic'] / estimate.step_s:.1f} % of it"
    )
    text += f", and waits: {', '.join(lost)}. " if lost else ". "
    return text + (
        f"It holds {memory.total_bytes / 1e9:.1f} of {memory.usable_bytes / 1e9:.1f} GB."
    )


def _winner(search: PlanSearch) -> str:
    how = "on the fabric" if search.refined else "by closed forms"
    return f"Quickest {how}: {search.best.plan.describe()}. {said_of_step(search.best)}"


def _against(best: StepEstimate, other: StepEstimate, number: int) -> str:
    more = other.step_s - best.step_s
    head = f"#{number}, {short_name(other.plan)},"
    if abs(more) <= _ALIKE * best.step_s:
        return f"{head} is as quick within {100 * _ALIKE:g} %."
    mine, theirs = _spent(best), _spent(other)
    parts = sorted(
        ((theirs.get(name, 0.0) - mine.get(name, 0.0), name) for name in {*mine, *theirs}),
        key=lambda item: (-abs(item[0]), item[1]),
    )
    largest = abs(parts[0][0])
    named = [
        f"{format_seconds(abs(change))} {'more' if change > 0 else 'less'} {_plain(name)}"
        for change, name in parts[:_MOST_PARTS]
        if abs(change) >= _SMALL * largest
    ]
    return f"{head} takes {100 * more / best.step_s:.1f} % longer: {', '.join(named)}."


def why(search: PlanSearch) -> tuple[str, ...]:
    """Return why the first plan is the first, and how the next ones differ.

    Plans that were estimated otherwise than the first are not held against it.
    """
    said = [_winner(search)]
    alike = search.ranked[: search.refined] if search.refined else search.ranked
    for number, other in enumerate(alike[1 : 1 + _MOST_OTHERS], 2):
        said.append(_against(search.best, other, number))
    return tuple(said)
