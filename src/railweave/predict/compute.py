"""How long a GPU computes: one efficiency a generation and precision, and the memory's bandwidth.

A matrix product takes its FLOPs at the generation's sustained rate, plus the time its operands and
result take through the memory once::

    time = flops / (peak·efficiency) + bytes / (memory bandwidth·0.85)

The second term is the shape's part: small for large square products, and growing as the tensor
degree, or few tokens an expert, make them thin. Norms, residuals, activation functions, rotation
and the loss are bound by memory alone. Attention's scores run at half the efficiency of products.

``efficiency`` = best rate published for large products on that generation × :data:`SUSTAINED`, the
one factor, for all generations, between a benchmark's best and what a training run holds over
weeks (clocks under power limits, many shapes, kernels between).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from railweave.catalog import Gpu
from railweave.errors import InputError
from railweave.predict._training_types import (
    Precision,
    Recompute,
    TrainingPlan,
    peak_flops,
)
from railweave.predict.transformer import Gemm, head_work, layer_work, uses_low
from railweave.provenance import Assumption, Certainty

__all__ = [
    "BEST_GEMM",
    "COMPUTE_ASSUMPTIONS",
    "SUSTAINED",
    "LayerTime",
    "gemm_efficiency",
    "head_time",
    "layer_time",
    "optimizer_time",
    "require_precision",
]

#: share of the dense peak that the best large matrix products reach: (BF16, FP8)
BEST_GEMM: Final[Mapping[str, tuple[float, float]]] = MappingProxyType(
    {
        "ampere": (0.86, 0.0),
        "hopper": (0.80, 0.71),
        "blackwell": (0.77, 0.70),
        "rubin": (0.77, 0.70),
        "cdna3": (0.52, 0.45),
        "cdna4": (0.60, 0.50),
        "other": (0.75, 0.65),
    }
)
#: what a training run holds of the best; one number for all generations
SUSTAINED: Final = 0.82
MEMORY_EFFICIENCY: Final = 0.85
ATTENTION_EFFICIENCY: Final = 0.5
#: gradient, master weight and two moments read, the last three and the BF16 weight written
_OPTIMIZER_BYTES: Final = 4 * 4 + 3 * 4 + 2

COMPUTE_ASSUMPTIONS: Final = (
    Assumption(
        "matrix products",
        f"run at {SUSTAINED:g} of the best published rate of their GPU generation and precision, "
        "plus their operands' time through the memory",
        Certainty.ESTIMATED,
    ),
    Assumption(
        "memory-bound work",
        f"norms, residuals, activations, loss and optimiser at {MEMORY_EFFICIENCY:g} of the "
        f"memory's bandwidth; attention scores at {ATTENTION_EFFICIENCY:g} of products' rate",
        Certainty.ESTIMATED,
    ),
    Assumption("kernels", "no time between kernels, and none lost to a busy host"),
)


def gemm_efficiency(gpu: Gpu, precision: Precision) -> float:
    """Return the share of the peak that large products hold in training."""
    best = BEST_GEMM[gpu.generation]
    return SUSTAINED * best[1 if precision is Precision.FP8 else 0]


def require_precision(gpu: Gpu, precision: Precision) -> None:
    """Refuse FP8 on a GPU without it.

    Raises:
        InputError: the GPU has no such arithmetic.
    """
    if precision is Precision.FP8 and (
        gpu.fp8_flops is None or gemm_efficiency(gpu, precision) <= 0
    ):
        raise InputError(
            f"precision: {gpu.name} has no FP8 arithmetic; allowed: bf16, or a GPU that has it "
            "(hopper and later)"
        )


@dataclass(frozen=True, slots=True)
class LayerTime:
    """Arithmetic of one layer for a micro-batch on one rank, without communication.

    ``forward_s`` and ``backward_s`` include the experts' part ``expert_…`` and the attention's
    scores; ``backward_s`` what is recomputed too. ``flops`` are those executed, both ways.
    """

    forward_s: float
    backward_s: float
    expert_forward_s: float
    expert_backward_s: float
    attention_forward_s: float
    attention_backward_s: float
    flops: float


class _Clock:
    """Times of one GPU for a plan."""

    def __init__(self, plan: TrainingPlan, gpu: Gpu) -> None:
        self.plan = plan
        self.bf16 = float(gpu.bf16_flops) * gemm_efficiency(gpu, Precision.BF16)
        low = peak_flops(gpu, Precision.FP8) * gemm_efficiency(gpu, Precision.FP8)
        self.low = low if plan.precision is Precision.FP8 else self.bf16
        self.bandwidth = float(gpu.hbm_bandwidth_Bps) * MEMORY_EFFICIENCY

    def gemms(self, work: Iterable[Gemm]) -> float:
        """Return the time of products, forward."""
        return sum(
            gemm.flops / (self.low if uses_low(self.plan, gemm) else self.bf16)
            + gemm.operand_bytes / self.bandwidth
            for gemm in work
        )

    def moved(self, size_bytes: float) -> float:
        """Return the time of bytes through the memory."""
        return size_bytes / self.bandwidth

    def scores(self, flops: float) -> float:
        """Return the time of the attention's scores."""
        return flops / (self.bf16 * ATTENTION_EFFICIENCY)


def layer_time(plan: TrainingPlan, gpu: Gpu, *, sparse: bool) -> LayerTime:
    """Return how long one layer takes; the backward pass is twice the forward one, and recomputes.

    Selective recomputation computes scores and a gate's product once more, full everything.
    """
    work, clock = layer_work(plan, sparse=sparse), _Clock(plan, gpu)
    attention = clock.scores(work.attention_flops)
    experts = clock.gemms(work.experts)
    forward = clock.gemms(work.gemms) + experts + attention + clock.moved(work.moved_bytes)
    products = sum(gemm.flops for gemm in (*work.gemms, *work.experts))
    flops = products + work.attention_flops
    again, expert_again, attention_again, flops_again = 0.0, 0.0, 0.0, 0.0
    if plan.recompute is Recompute.FULL:
        again, expert_again, attention_again, flops_again = forward, experts, attention, flops
    elif plan.recompute is Recompute.SELECTIVE:
        again = attention + clock.moved(work.product_bytes)
        attention_again, flops_again = attention, work.attention_flops
    return LayerTime(
        forward_s=forward,
        backward_s=2 * forward + again,
        expert_forward_s=experts,
        expert_backward_s=2 * experts + expert_again,
        attention_forward_s=attention,
        attention_backward_s=2 * attention + attention_again,
        flops=3 * flops + flops_again,
    )


def head_time(plan: TrainingPlan, gpu: Gpu) -> tuple[float, float, float]:
    """Return (forward, backward, executed FLOPs) of the head and the loss for a micro-batch."""
    clock = _Clock(plan, gpu)
    gemm, moved = head_work(plan)
    product = clock.gemms([gemm])
    return product + clock.moved(moved), 2 * product + clock.moved(moved), 3 * gemm.flops


def optimizer_time(gpu: Gpu, parameters: float) -> float:
    """Return how long Adam takes over so many parameters held by one GPU."""
    return parameters * _OPTIMIZER_BYTES / (float(gpu.hbm_bandwidth_Bps) * MEMORY_EFFICIENCY)
