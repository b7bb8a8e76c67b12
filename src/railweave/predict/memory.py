"""Memory of a GPU in training by part, whether it fits, and the nearest plan that does.

With mixed precision and Adam a parameter takes 2 bytes (BF16 weight), 2 or 4 (gradient) and 12
(FP32 master weight and two moments), sharded over the r = data × context ranks that hold the same
weights (experts': over those with the same experts) by ZeRO: 1 the 12, 2 the gradient too, 3 the
weight too (Rajbhandari et al., 2020). Activations: :func:`railweave.predict.transformer.
activation_bytes` a layer, times the micro-batches in flight, taken from the schedule itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from railweave.catalog import Gpu
from railweave.errors import InputError
from railweave.predict._schedule import in_flight
from railweave.predict._training_types import MemoryUse, Recompute, StageMemory, TrainingPlan
from railweave.predict.transformer import (
    ELEMENT_BYTES,
    activation_bytes,
    parts_of,
)
from railweave.provenance import Assumption, Certainty
from railweave.units import counted
from railweave.workload._stages import stage_weights

__all__ = [
    "OPTIMIZER_BYTES",
    "RESERVED",
    "memory_use",
    "nearest_fit",
    "require_fit",
    "usable_bytes",
]

#: FP32 master weight and Adam's two moments of a parameter
OPTIMIZER_BYTES: Final = 12
#: share of the memory that driver, library buffers and fragments take
RESERVED: Final = 0.05
#: a data sheet's GB of GPU memory is 2^30 bytes on the device (81,559 MiB on an "80 GB" part)
_SHEET_GB: Final = 2**30 / 1e9
_LOGIT_BYTES: Final = 2 + 4

MEMORY_ASSUMPTIONS: Final = (
    Assumption(
        "memory",
        f"{RESERVED:.0%} of the GPU's memory goes to the driver, communication buffers and "
        "fragments; a data sheet's GB are 2^30 bytes",
        Certainty.ESTIMATED,
    ),
    Assumption(
        "optimiser",
        "Adam in mixed precision: 12 bytes a parameter of FP32 master weight and moments",
    ),
    Assumption(
        "activations",
        "kept in BF16 until their backward pass; fused attention keeps no scores unless "
        "recomputation is none; FP8 copies are not counted",
    ),
)


def usable_bytes(gpu: Gpu) -> float:
    """Return what a job may use of a GPU's memory: all of it without the reserve."""
    return _capacity_bytes(gpu) * (1 - RESERVED)


def _capacity_bytes(gpu: Gpu) -> float:
    """Return a GPU's memory; a data sheet's GB stands for 2^30."""
    return float(gpu.memory_bytes) * (_SHEET_GB if gpu.memory_bytes % 10**9 == 0 else 1.0)


def memory_use(plan: TrainingPlan, gpu: Gpu) -> MemoryUse:
    """Return what the GPUs of each pipeline stage hold at their fullest.

    Raises:
        InputError: more stages than layers.
    """
    parts, degrees = parts_of(plan), plan.degrees
    weights = stage_weights(plan.shape, parts)
    dense = parts.by_rank(weights.dense) / degrees.tensor
    expert = parts.by_rank(weights.expert) / (degrees.tensor * degrees.expert)
    shards = degrees.replicas
    expert_shards = degrees.replicas / degrees.expert
    both = dense + expert
    sharded = dense / shards + expert / expert_shards
    layer = both / np.maximum(parts.by_rank(parts.layers), 1)
    held = sharded if plan.zero >= 3 else both
    kept = sharded if plan.zero >= 2 else both
    optimizer = sharded if plan.zero >= 1 else both
    workspace = np.zeros(degrees.pipeline)
    if plan.zero >= 3:
        workspace += 2 * ELEMENT_BYTES * layer
    if plan.zero >= 2:
        workspace += plan.gradient_bytes * layer
    activations, again = _activations(plan)
    workspace += again
    tokens = plan.micro_batch * plan.tokens_of_sequence / degrees.context
    workspace[-1] += _LOGIT_BYTES * tokens * plan.shape.vocabulary / degrees.tensor
    return MemoryUse(
        stages=tuple(
            StageMemory(
                stage,
                float(ELEMENT_BYTES * held[stage]),
                float(plan.gradient_bytes * kept[stage]),
                float(OPTIMIZER_BYTES * optimizer[stage]),
                activations[stage],
                float(workspace[stage]),
            )
            for stage in range(degrees.pipeline)
        ),
        capacity_bytes=_capacity_bytes(gpu),
        usable_bytes=usable_bytes(gpu),
        assumptions=MEMORY_ASSUMPTIONS,
    )


def _activations(plan: TrainingPlan) -> tuple[list[float], float]:
    """Return (bytes in flight by pipeline rank, one layer's own while it is recomputed)."""
    degrees, mixture = plan.degrees, plan.shape.experts > 1
    dense = activation_bytes(plan, sparse=False)
    sparse = activation_bytes(plan, sparse=True) if mixture else dense
    parts = parts_of(plan)
    chunks = parts.dense * dense + parts.sparse * sparse
    split = degrees.tensor if plan.sequence_parallel else 1
    tokens = plan.micro_batch * plan.tokens_of_sequence / degrees.context
    edge = ELEMENT_BYTES * tokens * plan.shape.hidden / split
    chunks[-1] += 2 * edge  # what goes into the last norm and into the head
    by_rank = chunks.reshape(plan.interleave, degrees.pipeline)
    held = [
        in_flight(degrees.pipeline, plan.interleave, plan.micro_batches, rank, by_rank[:, rank])
        for rank in range(degrees.pipeline)
    ]
    if plan.recompute is not Recompute.FULL:
        return held, 0.0
    whole = replace(plan, recompute=Recompute.SELECTIVE)
    return held, activation_bytes(whole, sparse=mixture)


def _divisors(n: int) -> list[int]:
    return [k for k in range(1, n + 1) if n % k == 0]


def _candidates(plan: TrainingPlan) -> Iterator[TrainingPlan]:
    """Yield plans on the same GPUs that hold less, the smallest change first."""
    zeros = [plan.zero, *(zero for zero in (1, 2, 3) if zero > plan.zero)]
    recomputes = list(Recompute)[list(Recompute).index(plan.recompute) :]
    batches = _divisors(plan.micro_batch)[::-1]
    cheap = [
        replace(
            plan,
            zero=zero,
            recompute=recompute,
            micro_batch=batch,
            micro_batches=plan.micro_batches * (plan.micro_batch // batch),
            sequence_parallel=plan.sequence_parallel or plan.degrees.tensor > 1,
        )
        for recompute in recomputes
        for batch in batches
        for zero in zeros
    ]
    yield from cheap
    degrees, shape = plan.degrees, plan.shape
    batch_of_all = plan.micro_batches * degrees.data
    for cut in (2, 4, 8, 16, 32, 64, 128):
        for tensor_cut in _divisors(cut):
            pipeline_cut = cut // tensor_cut
            tensor, pipeline = degrees.tensor * tensor_cut, degrees.pipeline * pipeline_cut
            if degrees.data % cut or shape.heads % tensor or shape.kv_heads % tensor:
                continue
            if pipeline * plan.interleave > shape.layers or degrees.data // cut % degrees.expert:
                continue
            changed = replace(degrees, tensor=tensor, pipeline=pipeline, data=degrees.data // cut)
            for each in cheap:
                yield replace(
                    each,
                    degrees=changed,
                    micro_batches=max(
                        batch_of_all * (plan.micro_batch // each.micro_batch) // changed.data, 1
                    ),
                    sequence_parallel=tensor > 1,
                )


def nearest_fit(plan: TrainingPlan, gpu: Gpu) -> TrainingPlan | None:
    """Return the plan itself where it fits, else the nearest on as many GPUs that does.

    Tried in this order: ZeRO stages, smaller micro-batches, more recomputation, then model ranks
    (tensor, pipeline) taken from the data ranks, the global batch kept. None where nothing fits.
    """
    for candidate in _candidates(plan):
        if memory_use(candidate, gpu).fits:
            return candidate
    return None


def require_fit(plan: TrainingPlan, gpu: Gpu) -> MemoryUse:
    """Return the memory of a plan that fits.

    Raises:
        InputError: it does not; the text names the nearest plan that would.
    """
    use = memory_use(plan, gpu)
    if use.fits:
        return use
    full = use.fullest
    near = nearest_fit(plan, gpu)
    advice = (
        f"the nearest that fits: {near.describe()}"
        if near
        else f"nothing on {counted(plan.ranks, 'GPU')} fits; take more GPUs or one with more memory"
    )
    raise InputError(
        f"memory: stage {full.stage} needs {full.total_bytes / 1e9:.1f} GB (weights "
        f"{full.weights_bytes / 1e9:.1f}, gradients {full.gradients_bytes / 1e9:.1f}, optimiser "
        f"{full.optimizer_bytes / 1e9:.1f}, activations {full.activations_bytes / 1e9:.1f}, "
        f"workspace {full.workspace_bytes / 1e9:.1f}); {gpu.name} has "
        f"{use.usable_bytes / 1e9:.1f} GB for it; {advice}"
    )
