"""One training step of a transformer as traffic, by stated arithmetic from its shape.

With t tensor ranks, c context ranks, micro-batches of b sequences of s tokens, hidden size h and 2
bytes an activation (BF16), A = 2·b·(s/c)·h bytes:

* tensor parallel: each layer all-reduces A twice forward and twice backward for each micro-batch
  (sequence parallelism sends the same bytes as reduce-scatter and all-gather); with full
  recomputation twice more;
* context parallel: each layer gathers keys and values, K = 2·b·s·2·(KV width)/t bytes, over the c
  ranks forward and again backward, and reduce-scatters their gradients;
* pipeline: each stage hands A/t a rank to the next forward, and back; with V chunks a rank there
  are P·V stages and as many hand-overs more;
* expert parallel: each mixture layer dispatches b·(s/c)/t tokens × top_k × 2h bytes a rank,
  uniformly over the e ranks of the group, and combines as much, forward and backward (and forward
  once more with full recomputation);
* data parallel, over the data and context ranks that hold the same weights (experts' over those
  with the same experts): one ring all-reduce, a channel a rail, of the gradients (2 bytes a
  parameter that the rank holds) after the last backward pass; ZeRO 1 sends the same bytes as
  reduce-scatter and all-gather; ZeRO 2 reduce-scatters in every micro-batch beside the passes and
  gathers the weights once; ZeRO 3 (FSDP) also gathers the weights forward and backward.

Shoeybi et al., 2019 and Korthikanti et al., 2022 (Megatron-LM) for tensor, sequence and pipeline
parallelism; Lepikhin et al., 2020 (GShard) for experts; Liu et al., 2023 (ring attention);
Rajbhandari et al., 2020 (ZeRO).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from railweave.catalog import ModelShape
from railweave.design.models import Algorithm, Collective, Precision, Recompute
from railweave.errors import InputError
from railweave.provenance import Assumption, Certainty
from railweave.workload._builder import TrafficBuilder
from railweave.workload._communicator import Communicator
from railweave.workload._stages import StageParts, stage_parts, stage_weights
from railweave.workload._step_block import step_block
from railweave.workload.collectives import CollectiveOptions, append_collective
from railweave.workload.groups import Degrees, parallel_groups

__all__ = [
    "STEP_ASSUMPTIONS",
    "StageParts",
    "StepVolume",
    "TrainingStep",
    "append_step",
    "stage_parts",
    "step_assumptions",
    "step_volume",
]

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]

#: bytes of an activation and of a gradient element (BF16)
ELEMENT_BYTES: Final = 2
_MOST_ROUNDS: Final = 64

STEP_ASSUMPTIONS: Final = (
    Assumption("precision", "activations and gradients are sent in 2 bytes (BF16)"),
    Assumption(
        "repeats",
        "the layers of a stage are folded into one message a micro-batch and hop (bytes are exact; "
        "the latency of the single all-reduces is not counted); over 64 micro-batches are folded",
    ),
    Assumption(
        "overlap",
        "gradients are reduced after the last backward pass, not overlapped with it; forward and "
        "backward micro-batches of a stage do not exclude each other",
    ),
    Assumption("experts", "tokens are routed to experts uniformly"),
    Assumption("sequence parallelism", "pipeline and expert messages are split over tensor ranks"),
)


_NO_COMPUTE: Final = Assumption(
    "compute", "compute time is not modelled: communication follows communication"
)


def step_assumptions(step: TrainingStep) -> tuple[Assumption, ...]:
    """Return what is assumed of a step, its arithmetic included."""
    if step.compute_s <= 0:
        return (_NO_COMPUTE, *STEP_ASSUMPTIONS)
    text = (
        f"{step.compute_s:.4g} s of arithmetic a step, the pipeline's bubble included, stand "
        "between the passes' communication and the gradients: nothing hides behind it "
        "(railweave plan plays the schedule)"
    )
    return (Assumption("compute", text, Certainty.ESTIMATED), *STEP_ASSUMPTIONS)


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """What one step trains and how: the model's shape, the degrees and the micro-batches.

    ``sequence`` None is the model's; ``zero`` is the ZeRO stage, ``interleave`` the chunks of
    layers a pipeline rank has. ``sequence_parallel`` and ``precision`` send the same bytes.
    """

    shape: ModelShape
    degrees: Degrees
    micro_batches: int
    micro_batch: int
    compute_s: float = 0.0  #: arithmetic, waited once before the gradients are reduced
    sequence: int | None = None
    zero: int = 0
    interleave: int = 1
    recompute: Recompute = Recompute.SELECTIVE
    sequence_parallel: bool = True
    precision: Precision = Precision.BF16

    @property
    def tokens(self) -> float:
        """Tokens of a micro-batch on one context rank."""
        length = self.sequence or self.shape.sequence
        return self.micro_batch * length / self.degrees.context


@dataclass(frozen=True, eq=False)
class StepVolume:
    """Bytes that one rank sends in a step, by stage where stages differ, (P,).

    ``tensor`` and ``context``: to its ring neighbour. ``pipeline_bytes``: to one neighbour stage,
    one way, of one chunk. ``expert_pair``: to each other rank of its expert group.
    ``dense_gradient`` and ``expert_gradient``: size of the all-reduces (not the bytes sent), which
    ZeRO cuts up. ``data`` and ``expert_data``: to the ring neighbour, for gradients and sharded
    weights. ``chunk_…`` are the same by virtual stage, (P·V,).
    """

    tensor_bytes: F64
    pipeline_bytes: float
    expert_pair_bytes: F64
    dense_gradient_bytes: F64
    expert_gradient_bytes: F64
    context_bytes: F64
    data_bytes: F64
    expert_data_bytes: F64
    chunk_tensor_bytes: F64
    chunk_context_bytes: F64
    chunk_expert_pair_bytes: F64


def _check(step: TrainingStep) -> None:
    shape, degrees = step.shape, step.degrees
    if shape.experts % degrees.expert:
        raise InputError(
            f"parallelism.expert: {degrees.expert} does not divide the {shape.experts} experts of "
            f"the model; allowed: a divisor of {shape.experts}"
        )


def step_volume(step: TrainingStep) -> StepVolume:
    """Return the bytes of a step; see the head of this module for the arithmetic.

    Layers are spread over the stages by :func:`stage_parts`; the embedding is on the first stage
    and the head on the last.

    Raises:
        InputError: more stages than layers, or a degree that does not divide the experts.
    """
    shape, degrees = step.shape, step.degrees
    parts = stage_parts(shape, degrees.pipeline, step.interleave)
    _check(step)
    t, c, p, e = degrees.tensor, degrees.context, degrees.pipeline, degrees.expert
    activations = ELEMENT_BYTES * step.tokens * shape.hidden
    passes = 3.0 if step.recompute is Recompute.FULL else 2.0  # forward, backward, forward again
    tensor = passes * 2 * parts.layers * 2 * (t - 1) / t * activations * step.micro_batches
    values = 2 * ELEMENT_BYTES * step.tokens * shape.kv_heads * shape.width_per_head / t
    context = (passes + 1) * parts.layers * (c - 1) * values * step.micro_batches
    routed = activations / t * shape.top_k / e
    pair = passes * 2 * parts.sparse * routed * step.micro_batches if e > 1 else 0.0 * parts.sparse
    weights = stage_weights(shape, parts)
    dense_gradient = ELEMENT_BYTES * parts.by_rank(weights.dense) / t
    expert_gradient = ELEMENT_BYTES * parts.by_rank(weights.expert) / (t * e)
    m = step.micro_batches
    turns = {0: 2, 1: 2, 2: m + 1, 3: 3 * m}[step.zero]  # reductions and gathers of all weights
    r, x = degrees.replicas, degrees.replicas // e
    return StepVolume(
        tensor_bytes=parts.by_rank(tensor),
        pipeline_bytes=activations / t * step.micro_batches if p > 1 else 0.0,
        expert_pair_bytes=parts.by_rank(pair),
        dense_gradient_bytes=dense_gradient,
        expert_gradient_bytes=expert_gradient,
        data_bytes=turns * (r - 1) / r * dense_gradient,
        expert_data_bytes=turns * (x - 1) / x * expert_gradient,
        context_bytes=parts.by_rank(context),
        chunk_tensor_bytes=np.asarray(tensor, dtype=np.float64),
        chunk_context_bytes=np.asarray(context, dtype=np.float64),
        chunk_expert_pair_bytes=np.asarray(pair, dtype=np.float64),
    )


def append_step(
    builder: TrafficBuilder,
    comm: Communicator,
    step: TrainingStep,
    *,
    label: str,
    after: tuple[int, ...] = (),
    queue_pairs: int = 1,
) -> list[int]:
    """Append one training step. Returns the tasks that end it.

    ``comm`` holds all ranks in the order of :mod:`railweave.workload.groups`. Forward and backward
    passes are one coupled task for each block of ranks that share experts, a chunk a micro-batch.

    Raises:
        InputError: degrees that do not fit the model.
    """
    volume = step_volume(step)
    degrees = step.degrees
    block = step_block(
        degrees,
        step.interleave,
        step.recompute,
        tensor=volume.chunk_tensor_bytes,
        context=volume.chunk_context_bytes,
        pair=volume.chunk_expert_pair_bytes,
        pipeline=volume.pipeline_bytes,
    )
    tasks: list[int] = list(after)
    if block.src.size:
        src, dst = block.src, block.dst
        rounds = min(max(step.micro_batches, 2), _MOST_ROUNDS)
        chunk = block.size / rounds
        who, on = block.who, block.on
        table = np.arange(degrees.ranks).reshape(
            degrees.pipeline, degrees.data // degrees.expert, -1
        )
        tasks = []
        for number in range(table.shape[1]):
            nodes = comm.nodes[table[:, number].ravel()]
            tasks.append(
                builder.coupled(
                    nodes[src],
                    nodes[dst],
                    chunk,
                    rounds,
                    (who, on, np.zeros_like(who)),
                    label=f"{label}/forward-backward",
                    after=after,
                    queue_pairs=queue_pairs,
                )
            )
    shards = _Shards(builder, comm, step, label, queue_pairs)
    beside = shards.beside(volume, after) if step.zero >= 2 else []
    tasks += beside
    if step.compute_s > 0 or (degrees.replicas > 1 and len(tasks) > 1):
        tasks = [builder.barrier(tasks, label=f"{label}/backward-done", delay_s=step.compute_s)]
    return shards.at_the_end(volume, tuple(tasks)) or tasks


@dataclass(frozen=True, eq=False)
class _Shards:
    """Appends the rings over the ranks that hold the same weights."""

    builder: TrafficBuilder
    comm: Communicator
    step: TrainingStep
    label: str
    queue_pairs: int

    def beside(self, volume: StepVolume, after: tuple[int, ...]) -> list[int]:
        """Append what runs beside the passes with ZeRO 2 and 3: folded over the micro-batches."""
        times = self.step.micro_batches
        tasks = self._rings(Collective.REDUCE_SCATTER, volume, times, "gradients", after)
        if self.step.zero == 3:
            tasks += self._rings(Collective.ALL_GATHER, volume, 2 * times, "weights", after)
        return tasks

    def at_the_end(self, volume: StepVolume, after: tuple[int, ...]) -> list[int]:
        """Append what follows the last backward pass: gradients, updated weights, or nothing."""
        if self.step.zero == 0:
            return self._rings(Collective.ALL_REDUCE, volume, 1, "gradients", after)
        if self.step.zero == 3:
            return []
        tasks = list(after)
        if self.step.zero == 1:
            tasks = self._rings(Collective.REDUCE_SCATTER, volume, 1, "gradients", after)
            if len(tasks) > 1:
                tasks = [self.builder.barrier(tasks, label=f"{self.label}/updated")]
        return self._rings(Collective.ALL_GATHER, volume, 1, "weights", tuple(tasks))

    def _rings(
        self, op: Collective, volume: StepVolume, times: int, what: str, after: tuple[int, ...]
    ) -> list[int]:
        """Append one ring a group: dense weights over data ranks, experts' over the same ones."""
        degrees = self.step.degrees
        groups = parallel_groups(degrees)
        tasks: list[int] = []
        per_stage = degrees.ranks // degrees.pipeline
        for kind, sizes in (
            ("data", volume.dense_gradient_bytes),
            ("expert-data", volume.expert_gradient_bytes),
        ):
            table = groups["data"] if kind == "data" else groups["expert-data"]
            if table.shape[1] < 2:
                continue
            for ranks, size in zip(table, sizes[table[:, 0] // per_stage], strict=True):
                if size > 0:
                    tasks += append_collective(
                        self.builder,
                        self.comm.subset(ranks),
                        op,
                        float(size) * times,
                        algorithm=Algorithm.RING,
                        options=CollectiveOptions(queue_pairs=self.queue_pairs),
                        label=f"{self.label}/{kind} {what}",
                        after=after,
                    )
        return tasks
