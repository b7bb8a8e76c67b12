"""One training step of a transformer as traffic, by stated arithmetic from its shape.

With t tensor-parallel ranks, micro-batches of b sequences of s tokens, hidden size h and 2 bytes
an activation (BF16), A = 2·b·s·h bytes:

* tensor parallel: each layer all-reduces A twice forward and twice backward for each micro-batch
  (sequence parallelism sends the same bytes as reduce-scatter and all-gather);
* pipeline: each stage hands A/t a rank to the next forward, and back;
* expert parallel: each mixture layer dispatches b·s/t tokens × top_k × 2h bytes a rank, uniformly
  over the e ranks of the group, and combines as much, forward and backward;
* data parallel: one ring all-reduce, a channel a rail, of the gradients (2 bytes a parameter that
  the rank holds; experts' among the ranks that hold the same ones), after the last backward pass.

Shoeybi et al., 2019 and Korthikanti et al., 2022 (Megatron-LM) for tensor, sequence and pipeline
parallelism; Lepikhin et al., 2020 (GShard) for experts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from railweave.catalog import ModelShape
from railweave.design.models import Algorithm, Collective
from railweave.errors import InputError
from railweave.provenance import Assumption
from railweave.workload._builder import TrafficBuilder
from railweave.workload._communicator import Communicator
from railweave.workload.collectives import CollectiveOptions, append_collective
from railweave.workload.groups import Degrees, parallel_groups

__all__ = ["STEP_ASSUMPTIONS", "StepVolume", "TrainingStep", "append_step", "step_volume"]

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]

#: bytes of an activation and of a gradient element (BF16)
ELEMENT_BYTES: Final = 2
_MOST_ROUNDS: Final = 64

STEP_ASSUMPTIONS: Final = (
    Assumption("precision", "activations and gradients are sent in 2 bytes (BF16)"),
    Assumption("compute", "compute time is not modelled: communication follows communication"),
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


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """What one step trains and how: the model's shape, the degrees and the micro-batches."""

    shape: ModelShape
    degrees: Degrees
    micro_batches: int
    micro_batch: int
    compute_s: float = 0.0  #: waited once before the gradients are reduced


@dataclass(frozen=True, eq=False)
class StepVolume:
    """Bytes that one rank sends in a step, by stage where stages differ, (P,).

    ``tensor``: to its ring neighbour. ``pipeline_bytes``: to one neighbour stage, one way.
    ``expert_pair``: to each other rank of its expert group. ``dense_gradient`` and
    ``expert_gradient``: size of the all-reduces (not the bytes sent).
    """

    tensor_bytes: F64
    pipeline_bytes: float
    expert_pair_bytes: F64
    dense_gradient_bytes: F64
    expert_gradient_bytes: F64


def _check(step: TrainingStep) -> None:
    shape, degrees = step.shape, step.degrees
    if degrees.pipeline > shape.layers:
        raise InputError(
            f"parallelism.pipeline: {degrees.pipeline} stages for {shape.layers} layers; "
            f"allowed: at most {shape.layers}"
        )
    if shape.experts % degrees.expert:
        raise InputError(
            f"parallelism.expert: {degrees.expert} does not divide the {shape.experts} experts of "
            f"the model; allowed: a divisor of {shape.experts}"
        )


def step_volume(step: TrainingStep) -> StepVolume:
    """Return the bytes of a step; see the head of this module for the arithmetic.

    Layers are spread over the stages as evenly as can be, the first stages having more; the
    embedding is on the first stage and the head on the last.

    Raises:
        InputError: more stages than layers, or a degree that does not divide the experts.
    """
    _check(step)
    shape, degrees = step.shape, step.degrees
    t, p, e = degrees.tensor, degrees.pipeline, degrees.expert
    layers = np.array([len(part) for part in np.array_split(np.arange(shape.layers), p)])
    first = np.cumsum(layers) - layers
    dense = np.clip(shape.dense_layers - first, 0, layers)
    sparse = layers - dense if shape.experts > 1 else np.zeros_like(layers)
    tokens = step.micro_batch * shape.sequence
    activations = ELEMENT_BYTES * tokens * shape.hidden
    tensor = 4.0 * layers * 2 * (t - 1) / t * activations * step.micro_batches
    routed = activations / t * shape.top_k / e
    pair = 4.0 * sparse * routed * step.micro_batches if e > 1 else np.zeros(p)

    matrices = 3 if shape.gated else 2
    ffn = matrices * shape.hidden * shape.ffn
    expert = matrices * shape.hidden * (shape.expert_ffn or shape.ffn)
    every = shape.attention_parameters_per_layer + 2 * shape.hidden
    router = shape.hidden * shape.experts + shape.shared_experts * expert
    weights = layers * every + (layers - sparse) * ffn + sparse * router
    weights = weights.astype(np.float64)
    table = shape.vocabulary * shape.hidden
    weights[0] += shape.embedding_parameters - (0 if shape.tied_embeddings else table)
    weights[-1] += shape.hidden + (table if not shape.tied_embeddings or p > 1 else 0)
    return StepVolume(
        tensor_bytes=tensor,
        pipeline_bytes=activations / t * step.micro_batches if p > 1 else 0.0,
        expert_pair_bytes=pair,
        dense_gradient_bytes=ELEMENT_BYTES * weights / t,
        expert_gradient_bytes=ELEMENT_BYTES * sparse * float(shape.experts) * expert / (t * e),
    )


@dataclass
class _Streams:
    """Streams of one block of the step, local rank numbers, with their predecessors of lag 0."""

    src: list[I64]
    dst: list[I64]
    size: list[F64]
    who: list[I64]
    on: list[I64]
    count: int = 0

    def add(self, src: I64, dst: I64, size: F64, waits: I64) -> I64:
        """Append streams; ``waits[i]`` are the streams that stream i waits for (−1: none)."""
        numbers = np.arange(self.count, self.count + src.size)
        self.src.append(src.ravel())
        self.dst.append(dst.ravel())
        self.size.append(np.broadcast_to(size, src.shape).ravel().astype(np.float64))
        row, column = np.nonzero(waits >= 0)
        self.who.append(numbers[row])
        self.on.append(waits[row, column])
        self.count += src.size
        return numbers.reshape(src.shape)


def _stage(streams: _Streams, cube: I64, p: int, ready: I64, *, tensor: float, pair: float) -> I64:
    """Append one stage's pass for a micro-batch: tensor ring, then expert exchange.

    ``cube`` is (P, E, T) local ranks; ``ready`` (E, T, k) the streams that each rank waits for.
    Returns what the ranks of this stage wait for afterwards, (E, T, k').
    """
    e, t = cube.shape[1:]
    if t > 1 and tensor > 0:
        ring = streams.add(
            cube[p], np.roll(cube[p], -1, axis=1), np.array(tensor), ready.reshape(e * t, -1)
        )
        ready = np.repeat(ring[:, None, :], t, axis=1)  # an all-reduce ends when all have sent
    if e > 1 and pair > 0:
        to = (np.arange(e)[:, None] + np.arange(1, e)[None, :]) % e  # (E, E−1)
        src = np.broadcast_to(cube[p][:, None, :], (e, e - 1, t))
        waits = np.broadcast_to(ready[:, None, :, :], (e, e - 1, t, ready.shape[-1]))
        sent = streams.add(src, cube[p][to], np.array(pair), waits.reshape(e * (e - 1) * t, -1))
        into = np.empty((e, e - 1, t), dtype=np.int64)
        filled = np.zeros(e, dtype=np.int64)
        for sender in range(e):
            for turn in range(e - 1):
                receiver = int(to[sender, turn])
                into[receiver, filled[receiver]] = sent[sender, turn]
                filled[receiver] += 1
        ready = np.concatenate((into.transpose(0, 2, 1), ready), axis=2)
    return ready


def _hop(streams: _Streams, cube: I64, p: int, ready: I64, *, to: int, size: float) -> I64:
    """Append the hand-over of one stage to another. Returns what its ranks wait for."""
    e, t = cube.shape[1:]
    sent = streams.add(cube[p], cube[to], np.array(size), ready.reshape(e * t, -1))
    return np.repeat(sent[:, None, :], t, axis=1) if t > 1 else sent[:, :, None]


def _block(step: TrainingStep, volume: StepVolume) -> _Streams:
    """Return the streams of the ranks that share experts (one data replica without experts).

    Each stream sends once a micro-batch; sizes are of the whole step.
    """
    degrees = step.degrees
    p, e, t = degrees.pipeline, degrees.expert, degrees.tensor
    cube = np.arange(p * e * t, dtype=np.int64).reshape(p, e, t)
    streams = _Streams([], [], [], [], [])
    ready = np.full((e, t, 1), -1, dtype=np.int64)
    for way in (range(p), range(p - 1, -1, -1)):
        stages = list(way)
        for stage in stages:
            tensor = float(volume.tensor_bytes[stage]) / 2
            pair = float(volume.expert_pair_bytes[stage]) / 2
            ready = _stage(streams, cube, stage, ready, tensor=tensor, pair=pair)
            if stage != stages[-1]:
                to = stage + (stages[1] - stages[0])
                ready = _hop(streams, cube, stage, ready, to=to, size=volume.pipeline_bytes)
    return streams


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
    block = _block(step, volume)
    tasks: list[int] = list(after)
    if block.count:
        src, dst = np.concatenate(block.src), np.concatenate(block.dst)
        rounds = min(max(step.micro_batches, 2), _MOST_ROUNDS)
        chunk = np.concatenate(block.size) / rounds
        who, on = np.concatenate(block.who), np.concatenate(block.on)
        table = np.arange(degrees.ranks).reshape(
            degrees.pipeline, degrees.data // degrees.expert, degrees.expert * degrees.tensor
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
    if degrees.data > 1 and (len(tasks) > 1 or step.compute_s > 0):
        tasks = [builder.barrier(tasks, label=f"{label}/backward-done", delay_s=step.compute_s)]
    gradients = _append_gradients(builder, comm, degrees, volume, label, tuple(tasks), queue_pairs)
    return gradients or tasks


def _append_gradients(  # noqa: PLR0917
    builder: TrafficBuilder,
    comm: Communicator,
    degrees: Degrees,
    volume: StepVolume,
    label: str,
    after: tuple[int, ...],
    queue_pairs: int,
) -> list[int]:
    """Append the gradient rings: dense ones over data ranks, experts' over those with the same."""
    groups = parallel_groups(degrees)
    tasks: list[int] = []
    kinds = (("data", volume.dense_gradient_bytes), ("expert-data", volume.expert_gradient_bytes))
    for kind, sizes in kinds:
        table = groups["data"] if kind == "data" else groups["expert-data"]
        members = table.shape[1]
        if members < 2:
            continue
        stage = table[:, 0] // (degrees.tensor * degrees.data)
        for ranks, size in zip(table, sizes[stage], strict=True):
            if size > 0:
                group = comm.subset(ranks)
                tasks += append_collective(
                    builder,
                    group,
                    Collective.ALL_REDUCE,
                    float(size),
                    algorithm=Algorithm.RING,
                    options=CollectiveOptions(queue_pairs=queue_pairs),
                    label=f"{label}/{kind} gradients",
                    after=after,
                )
    return tasks
