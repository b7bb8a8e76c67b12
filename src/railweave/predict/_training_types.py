"""The words of a training prediction: how a model is trained, and what a step takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from railweave.catalog import Gpu, ModelShape
from railweave.design.models import Collective, Precision, Recompute
from railweave.engine.result import Explanation
from railweave.provenance import Assumption
from railweave.workload import Degrees, GroupKind

if TYPE_CHECKING:
    from railweave.predict._cost_types import CommunicationCosts
    from railweave.predict._schedule import Schedule

__all__ = [
    "GroupCommunication",
    "MemoryUse",
    "PlaceShares",
    "Precision",
    "Recompute",
    "StageMemory",
    "StepEstimate",
    "TrainingPlan",
]

F64: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """How a model is trained: degrees, batches and what is traded for memory.

    Args:
        shape: of the model.
        degrees: tensor, context, pipeline, data, expert.
        micro_batch: sequences in a micro-batch.
        micro_batches: of one data-parallel replica in a step.
        sequence: tokens of a sequence; None takes the model's.
        zero: ZeRO stage: 0 nothing sharded over the data ranks, 1 optimiser states, 2 and
            gradients, 3 and weights (FSDP).
        sequence_parallel: norms and dropout split over the tensor ranks.
        interleave: chunks of layers (virtual stages) a pipeline rank has.
        recompute: what the backward pass computes anew.
        precision: of the layers' matrix products.
        gradient_bytes: of a gradient that is kept and sent: 2 (BF16) or 4 (FP32).
    """

    shape: ModelShape
    degrees: Degrees
    micro_batch: int = 1
    micro_batches: int = 1
    sequence: int | None = None
    zero: int = 1
    sequence_parallel: bool = True
    interleave: int = 1
    recompute: Recompute = Recompute.SELECTIVE
    precision: Precision = Precision.BF16
    gradient_bytes: int = 2

    @property
    def tokens_of_sequence(self) -> int:
        """Tokens of a sequence."""
        return self.sequence or self.shape.sequence

    @property
    def ranks(self) -> int:
        """GPUs."""
        return self.degrees.ranks

    @property
    def sequences_per_step(self) -> int:
        """Sequences of a step over all replicas: the global batch."""
        return self.micro_batch * self.micro_batches * self.degrees.data

    @property
    def tokens_per_step(self) -> int:
        """Tokens of a step over all replicas."""
        return self.sequences_per_step * self.tokens_of_sequence

    def describe(self) -> str:
        """Say it in a line: ``TP 8 SP · PP 16 × 8 · DP 64 · 32 × 1 sequences · …``."""
        degrees = self.degrees
        stages = f"PP {degrees.pipeline}" + (f" × {self.interleave}" if self.interleave > 1 else "")
        parts = [f"TP {degrees.tensor}" + (" SP" if self.sequence_parallel else ""), stages]
        parts += [f"CP {degrees.context}"] if degrees.context > 1 else []
        parts += [f"EP {degrees.expert}"] if degrees.expert > 1 else []
        parts += [
            f"DP {degrees.data}",
            f"{self.micro_batches} × {self.micro_batch} sequences",
            f"ZeRO {self.zero}",
            f"recompute {self.recompute.value}",
        ]
        return " · ".join(
            parts + ([self.precision.value] if self.precision is not Precision.BF16 else [])
        )


@dataclass(frozen=True, slots=True)
class StageMemory:
    """Bytes a GPU of one pipeline stage holds at its fullest moment.

    ``workspace_bytes``: logits of the head and gathered weights in use.
    """

    stage: int
    weights_bytes: float
    gradients_bytes: float
    optimizer_bytes: float
    activations_bytes: float
    workspace_bytes: float

    @property
    def total_bytes(self) -> float:
        """All of them."""
        return (
            self.weights_bytes
            + self.gradients_bytes
            + self.optimizer_bytes
            + self.activations_bytes
            + self.workspace_bytes
        )


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Memory of the fullest GPU by part, and of each pipeline stage.

    ``usable_bytes`` is the GPU's memory less what driver, library buffers and fragments take.
    """

    stages: tuple[StageMemory, ...]
    capacity_bytes: float
    usable_bytes: float
    assumptions: tuple[Assumption, ...] = ()

    @property
    def fullest(self) -> StageMemory:
        """The stage whose GPUs hold most."""
        return max(self.stages, key=lambda stage: stage.total_bytes)

    @property
    def weights_bytes(self) -> float:
        """Weights on the fullest GPU."""
        return self.fullest.weights_bytes

    @property
    def gradients_bytes(self) -> float:
        """Gradients on the fullest GPU."""
        return self.fullest.gradients_bytes

    @property
    def optimizer_bytes(self) -> float:
        """Optimiser states and master weights on the fullest GPU."""
        return self.fullest.optimizer_bytes

    @property
    def activations_bytes(self) -> float:
        """Activations on the fullest GPU."""
        return self.fullest.activations_bytes

    @property
    def total_bytes(self) -> float:
        """All on the fullest GPU."""
        return self.fullest.total_bytes

    @property
    def fits(self) -> bool:
        """Whether the fullest GPU has room."""
        return self.total_bytes <= self.usable_bytes


@dataclass(frozen=True, slots=True)
class PlaceShares:
    """Shares of a group's bytes by the farthest thing they cross.

    They add up to 1, or all are 0 where nothing is known or sent.
    """

    server: float = 0.0
    leaf: float = 0.0
    spine: float = 0.0
    core: float = 0.0


@dataclass(frozen=True, slots=True)
class GroupCommunication:
    """What one kind of group does in a step, for the GPU that does most.

    ``bytes_sent`` are sent by one rank in the step; ``size_bytes`` is of one operation, as
    nccl-tests counts it, of which there are ``count``. ``time_s`` is that of all of them;
    ``exposed_s`` the part for which the GPU waits; ``overlapped_s`` the rest.
    """

    kind: GroupKind
    purpose: str
    op: Collective
    members: int
    size_bytes: float
    count: float
    bytes_sent: float
    time_s: float
    exposed_s: float
    places: PlaceShares = field(default_factory=PlaceShares)

    @property
    def overlapped_s(self) -> float:
        """Time hidden behind arithmetic or in the bubble."""
        return max(self.time_s - self.exposed_s, 0.0)


@dataclass(frozen=True, eq=False)
class StepEstimate:
    """What a step takes and where its time goes.

    ``compute_s`` is arithmetic of the busiest stage's GPU, ``bubble_s`` the mean time a GPU waits
    for the pipeline to fill and drain. ``flops`` are the model's for the step (see
    :mod:`railweave.predict.transformer`); ``mfu`` their share of the GPUs' peak in the plan's
    precision. ``idle_s`` are mean idle seconds of a GPU by reason, ``idle_by_stage`` the same for
    each stage (P,) of a typical replica; reasons: ``exposed tensor``, ``exposed context``,
    ``exposed expert``, ``exposed data``, ``exposed pipeline``, ``slowest rank``, ``bubble``,
    ``input``. Arithmetic and idle time add up to the step on every stage.
    """

    plan: TrainingPlan
    gpu: Gpu
    step_s: float
    flops: float
    executed_flops: float
    compute_s: float
    compute_by_stage: F64
    bubble_s: float
    communications: tuple[GroupCommunication, ...]
    memory: MemoryUse
    idle_s: Mapping[str, float]
    idle_by_stage: Mapping[str, F64]
    assumptions: tuple[Assumption, ...]
    explanations: tuple[Explanation, ...]
    costs: CommunicationCosts
    skew: float = 1.0
    slow: Mapping[int, float] = field(default_factory=dict)
    schedule: Schedule | None = None

    @property
    def tokens_per_s(self) -> float:
        """Tokens a second over all GPUs."""
        return self.plan.tokens_per_step / self.step_s

    @property
    def flops_per_gpu(self) -> float:
        """FLOP/s of the model that one GPU reaches."""
        return self.flops / self.step_s / self.plan.ranks

    @property
    def mfu(self) -> float:
        """Share of the peak of the plan's precision that goes into the model."""
        return self.flops_per_gpu / peak_flops(self.gpu, self.plan.precision)

    @property
    def exposed_s(self) -> float:
        """Mean time a GPU waits for communication."""
        return sum(time for name, time in self.idle_s.items() if name.startswith("exposed"))

    @property
    def network_share(self) -> float:
        """Share of the step for which a GPU waits for communication."""
        return self.exposed_s / self.step_s

    def compute_of_ranks(self) -> F64:
        """Return the arithmetic of every rank, (ranks,), rank order as in groups."""
        per_stage = self.plan.ranks // self.plan.degrees.pipeline
        compute = np.repeat(self.compute_by_stage, per_stage)
        for rank, factor in self.slow.items():
            compute[rank] *= factor
        return compute

    def idle_of_ranks(self) -> Mapping[str, F64]:
        """Return idle seconds of every rank by reason, (ranks,) each, rank order as in groups.

        A slow GPU computes while the others wait for it: that time is no idle time of its own.
        """
        per_stage = self.plan.ranks // self.plan.degrees.pipeline
        idle = {name: np.repeat(by, per_stage) for name, by in self.idle_by_stage.items()}
        busy = self.compute_of_ranks()
        for rank in self.slow:
            more = float(busy[rank] - self.compute_by_stage[rank // per_stage])
            for name in ("slowest rank", "bubble", "exposed pipeline", "exposed data"):
                taken = min(more, float(idle[name][rank]))
                idle[name][rank] -= taken
                more -= taken
        return idle


def peak_flops(gpu: Gpu, precision: Precision) -> float:
    """Return the dense peak of a GPU in a precision; BF16's where it has no FP8."""
    if precision is Precision.FP8 and gpu.fp8_flops:
        return float(gpu.fp8_flops)
    return float(gpu.bf16_flops)
