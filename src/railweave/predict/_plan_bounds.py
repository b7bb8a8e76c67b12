"""Bounds of memory and time for many plans at once: what a search need not look at.

Both are below what :mod:`railweave.predict.memory` and :mod:`railweave.predict.step` say of a plan,
so that nothing is missed: a plan whose least memory is too much does not fit, and one whose least
time is above the best plan's is not the best.

* Memory: weights, gradients and optimiser states of every stage; with activations and workspace on
  the first and the last one, at the lighter kind of layer.
* Time: pipeline rank r starts when ranks 0…r−1 have made a forward pass, has all of its passes to
  make, and ends before r−1…0 make their last backward pass::

      step ≥ max over r of  Σ_{s<r} (forward_s + backward_s) + m·Σ_chunks (forward + backward)_r

  which is (m·V + P − 1)·(forward + backward) of a chunk where all are alike (Narayanan et al.,
  2021).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from railweave.catalog import Gpu
from railweave.predict._schedule import StageTimes, in_flight
from railweave.predict._step_parts import StepParts
from railweave.predict._training_types import Recompute, TrainingPlan
from railweave.predict.memory import OPTIMIZER_BYTES
from railweave.predict.plan_space import PlanTable
from railweave.predict.training_costs import CommunicationCosts
from railweave.predict.transformer import ELEMENT_BYTES, activation_bytes
from railweave.workload._stages import StageParts, stage_parts, stage_weights
from railweave.workload.groups import Degrees

__all__ = ["least_memory", "least_step", "least_time", "pipeline_bound"]

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

_LOGIT_BYTES: Final = 2 + 4
_GRADIENT_BYTES: Final = 2
_SHARDED_GRADIENTS: Final = 2
_FULL_SHARDING: Final = 3
_LAYER: Final = ("tensor", "context", "expert", "micro-batch", "recompute", "sequence-parallel")


def _unique(table: PlanTable, names: tuple[str, ...]) -> tuple[I64, I64]:
    """Return (a row of each different combination of columns, which of them each row has)."""
    columns = np.stack([table.column(name) for name in names], axis=1)
    _, first, member = np.unique(columns, axis=0, return_index=True, return_inverse=True)
    return first, member.reshape(-1)


def _by_pipeline(table: PlanTable) -> Iterator[tuple[I64, StageParts]]:
    """Yield (rows, layers of their virtual stages) for each way to cut the model."""
    first, member = _unique(table, ("pipeline", "interleave"))
    order = np.argsort(member, kind="stable")
    ends = np.cumsum(np.bincount(member, minlength=len(first)))
    for row, rows in zip(first.tolist(), np.split(order, ends[:-1]), strict=True):
        stages, chunks = (int(table.column(name)[row]) for name in ("pipeline", "interleave"))
        yield rows, stage_parts(table.space.shape, stages, chunks)


# ---------------------------------------------------------------- memory


def _activations(table: PlanTable) -> tuple[F64, F64]:
    """Return (what a layer keeps, what it holds while it is recomputed), (N,) each."""
    first, member = _unique(table, _LAYER)
    mixture = table.space.shape.experts > 1
    plain = not mixture or table.space.shape.dense_layers > 0
    kinds = [sparse for sparse, there in ((False, plain), (True, mixture)) if there]
    kept, again = np.zeros(len(first)), np.zeros(len(first))
    for i, row in enumerate(first.tolist()):
        plan = table.plan(row)
        kept[i] = min(activation_bytes(plan, sparse=sparse) for sparse in kinds)
        if plan.recompute is Recompute.FULL:
            whole = replace(plan, recompute=Recompute.SELECTIVE)
            again[i] = activation_bytes(whole, sparse=mixture)
    return kept[member], again[member]


def _layers_in_flight(table: PlanTable, rows: I64, parts: StageParts, rank: int) -> F64:
    """Return layers of a pipeline rank, each counted for every micro-batch it keeps, (rows,)."""
    chunks = parts.layers.reshape(parts.chunks, parts.stages)[:, rank]
    counts, member = np.unique(table.micro_batches[rows], return_inverse=True)
    found = [in_flight(parts.stages, parts.chunks, m, rank, chunks) for m in counts.tolist()]
    held: F64 = np.array(found, dtype=np.float64)[member.reshape(-1)]
    return held


def least_memory(table: PlanTable) -> F64:
    """Return bytes that the fullest GPU of each plan holds at least, (N,)."""
    least = np.zeros(len(table))
    kept, again = _activations(table)
    space = table.space
    tokens = table.column("micro-batch") * space.sequence / table.column("context")
    logits = _LOGIT_BYTES * tokens * space.shape.vocabulary / table.column("tensor")
    zero = table.column("zero")
    replicas = table.column("data") * table.column("context")
    for rows, parts in _by_pipeline(table):
        weights = stage_weights(space.shape, parts)
        tensor, expert = (table.column(name)[rows, None] for name in ("tensor", "expert"))
        shards, stage = replicas[rows, None], zero[rows, None]
        dense = parts.by_rank(weights.dense) / tensor
        routed = parts.by_rank(weights.expert) / (tensor * expert)
        both, sharded = dense + routed, dense / shards + routed * expert / shards
        layer = both / np.maximum(parts.by_rank(parts.layers), 1)
        full, some = stage >= _FULL_SHARDING, stage >= _SHARDED_GRADIENTS
        held = ELEMENT_BYTES * (np.where(full, sharded, both) + np.where(full, 2 * layer, 0))
        held += _GRADIENT_BYTES * (np.where(some, sharded + layer, both))
        held += OPTIMIZER_BYTES * np.where(stage >= 1, sharded, both)
        for rank in {0, parts.stages - 1}:
            flying = _layers_in_flight(table, rows, parts, rank)
            held[:, rank] += flying * kept[rows] + again[rows]
        held[:, -1] += logits[rows]
        least[rows] = held.max(axis=1)
    return least


# ---------------------------------------------------------------- time


def _layer_times(
    table: PlanTable, gpu: Gpu, costs_of: Callable[[Degrees], CommunicationCosts]
) -> tuple[F64, I64]:
    """Return times by different kinds of layer, and which each row has.

    (K, 3): forward + backward of a dense layer, of a mixture layer, and of the head, a micro-batch;
    with the tensor, context and expert communication that nothing hides.
    """
    first, member = _unique(table, _LAYER)
    times = np.zeros((len(first), 3))
    for i, row in enumerate(first.tolist()):
        plan = table.plan(row)
        parts = StepParts(plan, gpu, costs_of(plan.degrees))
        dense, sparse = parts.dense, parts.sparse
        passes = 2 + parts.again
        ahead, back = parts.context_times
        waits = parts.tensor_pass * passes
        waits += max(parts.regather - dense.backward_s / 3, 0.0)
        waits += max(ahead - dense.attention_forward_s, 0.0)
        waits += max(back - dense.attention_backward_s, 0.0)
        times[i, 0] = dense.forward_s + dense.backward_s + waits
        times[i, 1] = sparse.forward_s + sparse.backward_s + waits + parts.expert_pass * passes
        times[i, 2] = parts.head[0] + parts.head[1]
    return times, member


def least_step(
    table: PlanTable, gpu: Gpu, costs_of: Callable[[Degrees], CommunicationCosts]
) -> F64:
    """Return seconds that a step of each plan takes at least, (N,).

    Gradients, weights and hand-overs between stages are taken to cost nothing; costs of tensor,
    context and expert groups must not depend on the other degrees.
    """
    least = np.zeros(len(table))
    if not len(table):
        return least
    times, member = _layer_times(table, gpu, costs_of)
    for rows, parts in _by_pipeline(table):
        mine = times[member[rows]]
        stages = mine[:, :1] * parts.dense + mine[:, 1:2] * parts.sparse
        stages[:, -1] += mine[:, 2]
        least[rows] = _pipeline_least(stages, parts.stages, table.micro_batches[rows])
    return least


def _pipeline_least(both: F64, ranks: int, micro_batches: I64) -> F64:
    """Return the bound at the head of this module; ``both`` (N, P·V) forward and backward."""
    work = both.reshape(len(both), -1, ranks).sum(axis=1)
    before = np.cumsum(both[:, :ranks], axis=1) - both[:, :ranks]
    least: F64 = (before + micro_batches[:, None] * work).max(axis=1)
    return least


def pipeline_bound(times: StageTimes, pipeline: int, micro_batches: int) -> float:
    """Return seconds that a schedule with these durations takes at least.

    Hand-overs count, as do the first gathering of weights, the last layer's reduction and the
    optimiser of the first pipeline rank.
    """
    both = (times.forward_s + times.backward_s)[None, :].copy()
    hop = 2 * np.concatenate(([0.0], np.cumsum(times.hop_s[:-1])))
    ahead = np.cumsum(both[0, :pipeline]) - both[0, :pipeline] + hop
    work = both.reshape(-1, pipeline).sum(axis=0)
    layers = max(int(times.layers[0]), 1)
    opening = float(times.gate_s[0] + times.forward_s[0] / layers - times.forward_s[0])
    if times.gate_s[0] <= 0:
        opening = 0.0
    closing = float(times.reduce_s[0]) / layers + float(times.tail_s[0])
    return float((ahead + micro_batches * work).max()) + max(opening, 0.0) + closing


def least_time(plan: TrainingPlan, gpu: Gpu, costs: CommunicationCosts) -> float:
    """Return seconds that a step of one plan takes at least, everything counted that it sends."""
    times = StepParts(plan, gpu, costs).stage_times()
    return pipeline_bound(times, plan.degrees.pipeline, plan.micro_batches)
