"""What a model's bytes mean, in sentences and formulas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from railweave.design.models import Recompute
from railweave.engine.result import Explanation
from railweave.report._pattern_words import where_words
from railweave.units import counted, format_si
from railweave.workload.groups import GroupKind

if TYPE_CHECKING:
    from railweave.report.patterns_model import ModelStudy
    from railweave.workload.training import TrainingStep

__all__ = ["explain_groups", "interpret_model"]


def interpret_model(study: ModelStudy) -> tuple[str, ...]:
    """Return sentences, each of which follows from the numbers of this study."""
    return tuple(
        text
        for text in (_what(study), _largest(study), _where(study), _crossing(study), _fits(study))
        if text
    )


def _what(study: ModelStudy) -> str:
    plan = study.plan
    return (
        f"{study.case.model} on {counted(plan.ranks, 'GPU')}, {plan.describe()}: a step of "
        f"{counted(plan.sequences_per_step, 'sequence')} of {plan.tokens_of_sequence:,} tokens. "
        f"The GPU that sends most sends {format_si(study.bytes_sent_per_gpu, 'B')}, all together "
        f"{format_si(study.total_bytes, 'B')}."
    )


def _largest(study: ModelStudy) -> str:
    if not study.groups:
        return "One GPU holds the model alone and sends nothing."
    first, *others = study.groups
    rest = ", ".join(f"{group.kind} {group.share:.1%}" for group in others)
    return (
        f"Most bytes are sent by {first.kind} groups: {first.share:.1%} of all"
        + (f"; then {rest}" if rest else "")
        + "."
    )


def _where(study: ModelStudy) -> str:
    return where_words(study) if study.groups else ""


def _crossing(study: ModelStudy) -> str:
    """Say whose bytes cross spines."""
    total = sum(group.crossing_bytes for group in study.groups)
    if total <= 0:
        return ""
    by_bytes = sorted(study.groups, key=lambda group: -group.crossing_bytes)
    first, *others = [group for group in by_bytes if group.crossing_bytes > 0]
    rest = "".join(f", {group.kind} {group.crossing_bytes / total:.1%}" for group in others)
    part = "all" if not others else f"{first.crossing_bytes / total:.1%}"
    return f"Of the bytes that cross a spine, {first.kind} groups send {part}{rest}."


def _fits(study: ModelStudy) -> str:
    memory = study.memory
    if memory is None:
        return "Whether it fits is not known: the design's GPU is not in the catalog."
    held, room = (f"{size / 1e9:,.1f} GB" for size in (memory.total_bytes, memory.usable_bytes))
    if memory.fits:
        return f"The fullest GPU holds {held} of the {room} that {study.gpu} can use: it fits."
    return f"It does not fit: the fullest GPU would hold {held}, and {study.gpu} can use {room}."


# ---------------------------------------------------------------- formulas

_FORMULAS: Final[dict[GroupKind, tuple[str, str]]] = {
    "tensor": (
        "passes·2·layers·2(t-1)/t·A·m, A = 2·b·(s/c)·h",
        "all-reduces in every layer; Shoeybi et al., 2019",
    ),
    "context": (
        "(passes+1)·layers·(c-1)/c·K·m, K = 2·b·s·2·(KV width)/t",
        "keys and values gathered, their gradients scattered; Liu et al., 2023",
    ),
    "pipeline": (
        "2·A/t·m for a stage between two others (once at an end), A = 2·b·(s/c)·h; × V chunks",
        "activations forward, their gradients back; Shoeybi et al., 2019",
    ),
    "expert": (
        "passes·2·(mixture layers)·(e-1)/e·b·(s/c)/t·top_k·2h·m",
        "dispatch and combine; Lepikhin et al., 2020",
    ),
    "data": (
        "turns·(r-1)/r·G, r = data·c, G = 2·(dense parameters of the stage)/t",
        "gradients and sharded weights; Rajbhandari et al., 2020",
    ),
    "expert-data": (
        "turns·(x-1)/x·G, x = data·c/e, G = 2·(expert parameters of the stage)/(t·e)",
        "gradients and sharded weights of experts; Rajbhandari et al., 2020",
    ),
}


def explain_groups(study: ModelStudy, step: TrainingStep) -> tuple[Explanation, ...]:
    """Return the formula, the inputs and the source of each kind's bytes a GPU."""
    degrees, shape = step.degrees, step.shape
    m = step.micro_batches
    inputs = {
        "tensor t": float(degrees.tensor),
        "context c": float(degrees.context),
        "pipeline p": float(degrees.pipeline),
        "expert e": float(degrees.expert),
        "data": float(degrees.data),
        "micro-batches m": float(m),
        "micro-batch b": float(step.micro_batch),
        "tokens s": float(step.sequence or shape.sequence),
        "hidden h": float(shape.hidden),
        "KV width": float(shape.kv_heads * shape.width_per_head),
        "passes": 3.0 if step.recompute is Recompute.FULL else 2.0,
        "turns": float({0: 2, 1: 2, 2: m + 1, 3: 3 * m}[step.zero]),
        "chunks V": float(step.interleave),
    }
    return (
        *(
            Explanation(
                f"{group.kind}: bytes a GPU",
                group.bytes_sent_per_gpu,
                "B",
                _FORMULAS[group.kind][0],
                inputs,
                _FORMULAS[group.kind][1],
            )
            for group in study.groups
        ),
        Explanation(
            "bytes in all",
            study.total_bytes,
            "B",
            "sum of all groups' messages over all GPUs",
            {"GPUs": float(degrees.ranks)},
            "this study's messages",
        ),
    )
