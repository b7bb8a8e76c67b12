"""Whether weights and KV caches fit, and what would."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from railweave.catalog import Gpu
from railweave.design.models import Precision
from railweave.errors import InputError
from railweave.predict._serving_clock import weights_of
from railweave.predict._serving_types import InstanceMemory, ServingQuestion
from railweave.predict.memory import usable_bytes
from railweave.workload.inference import (
    InferencePlan,
    Requests,
    element_bytes,
    kv_rank_bytes_per_token,
)

__all__ = ["require_pools", "require_room"]

I64 = npt.NDArray[np.int64]


def _weights(plan: InferencePlan) -> float:
    return element_bytes(plan.precision) * sum(weights_of(plan))


def require_pools(question: ServingQuestion, gpus: int) -> None:
    """Refuse pools that are no whole instances, or more GPUs than there are.

    Raises:
        InputError: naming the nearest that would do.
    """
    for name, plan, wanted in (
        ("prefill", question.prefill, question.prefill_gpus),
        ("decode", question.decode, question.decode_gpus),
    ):
        if wanted < 1 or wanted % plan.gpus:
            nearest = max(round(wanted / plan.gpus), 1) * plan.gpus
            raise InputError(
                f"{name} GPUs: {wanted:,} are no whole instances of {plan.gpus} "
                f"({plan.describe()}); allowed: multiples of {plan.gpus}; nearest: {nearest:,}"
            )
    total = question.prefill_gpus + question.decode_gpus
    if total > gpus:
        raise InputError(
            f"GPUs: {question.prefill_gpus:,} to prefill and {question.decode_gpus:,} to decode "
            f"are {total:,}; the design has {gpus:,}: allowed together; nearest: "
            f"{_nearest_pools(question, gpus)}"
        )
    if question.batch < 1 or question.batch % question.decode.replicas:
        d = question.decode.replicas
        raise InputError(
            f"batch: {question.batch} sequences are not shared evenly by the {d} replicas of a "
            f"decode instance; allowed: multiples of {d}; nearest: "
            f"{max(round(question.batch / d), 1) * d}"
        )


def _nearest_pools(question: ServingQuestion, gpus: int) -> str:
    """Return pools that fit, about in the same proportion."""
    one, other = question.prefill.gpus, question.decode.gpus
    if one + other > gpus:
        return f"instances of fewer GPUs (one of each takes {one + other:,})"
    share = question.prefill_gpus / (question.prefill_gpus + question.decode_gpus)
    first = min(max(int(gpus * share) // one, 1) * one, (gpus - other) // one * one)
    return f"{first:,} and {(gpus - first) // other * other:,}"


def require_room(
    question: ServingQuestion, requests: Requests, gpu: Gpu
) -> tuple[InstanceMemory, InstanceMemory]:
    """Return the memory of a GPU that prefills and of one that decodes, where both fit.

    The decode batch is taken to hold the longest of the requests at their end, the prefill
    instance the longest prompt a replica.

    Raises:
        InputError: naming the nearest degree or batch that fits.
    """
    prompts = np.sort(requests.prompt_tokens)[::-1]
    wholes = np.sort(requests.prompt_tokens + requests.output_tokens)[::-1]
    first = _memory(question.prefill, gpu, prompts, 1)
    if not first.fits:
        raise InputError(_too_large("prefill", question.prefill, gpu, first, prompts))
    each = question.batch // question.decode.replicas
    second = _memory(question.decode, gpu, wholes, each)
    if not second.fits:
        fits = _most_sequences(question.decode, gpu, wholes, each)
        if fits == 0:
            raise InputError(_too_large("decode", question.decode, gpu, second, wholes))
        raise InputError(
            f"batch: {question.batch} sequences need {second.total_bytes / 1e9:.1f} GB on a decode "
            f"GPU ({second.weights_bytes / 1e9:.1f} GB weights, {second.cache_bytes / 1e9:.1f} GB "
            f"KV cache) of {second.usable_bytes / 1e9:.1f} GB; nearest that fits: "
            f"{fits * question.decode.replicas}"
        )
    return first, second


def _memory(plan: InferencePlan, gpu: Gpu, lengths: I64, sequences: int) -> InstanceMemory:
    """Return a GPU's memory with so many sequences a replica, the longest ones."""
    longest = np.resize(lengths, sequences) if sequences > len(lengths) else lengths[:sequences]
    cache = float(longest.sum()) * kv_rank_bytes_per_token(plan)
    return InstanceMemory(_weights(plan), cache, usable_bytes(gpu))


def _most_sequences(plan: InferencePlan, gpu: Gpu, lengths: I64, wanted: int) -> int:
    """Return the most sequences a replica, below ``wanted``, that fit."""
    low, high = 0, wanted
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _memory(plan, gpu, lengths, middle).fits else (low, middle)
    return low


def _too_large(
    name: str, plan: InferencePlan, gpu: Gpu, needs: InstanceMemory, lengths: I64
) -> str:
    """Say that not even one sequence fits, and what would: more ranks, or FP8."""
    text = (
        f"{name}: {plan.shape.name} with {plan.describe()} needs {needs.total_bytes / 1e9:.1f} GB "
        f"a GPU for its weights and one sequence; {gpu.name} has {needs.usable_bytes / 1e9:.1f} GB "
        "to use; nearest that fits: "
    )
    for precision in dict.fromkeys((plan.precision, Precision.FP8)):
        if precision is Precision.FP8 and gpu.fp8_flops is None:
            continue
        for tensor, expert in _larger(plan):
            try:
                other = replace(plan, tensor=tensor, expert=expert, precision=precision, skew=1.0)
            except InputError:
                continue
            if _memory(other, gpu, lengths, 1).fits:
                return text + other.describe()
    return text + "none; take a GPU with more memory"


def _larger(plan: InferencePlan) -> list[tuple[int, int]]:
    """Return (tensor, expert) degrees with more ranks, the fewest first, then the same tensor."""
    shape = plan.shape
    found = [(t, plan.expert) for t in range(plan.tensor, shape.heads + 1)]
    if shape.experts > 1:
        found += [
            (t, e)
            for t in {1, plan.tensor}
            for e in range(2, shape.experts + 1)
            if e >= plan.expert
        ]
    return sorted(found, key=lambda pair: (max(pair), pair[0] != plan.tensor, pair))
