"""A transformer's arithmetic: FLOPs, the layers of each stage, and what each rank multiplies.

**FLOPs of the model** for one step of n tokens in sequences of s tokens::

    6·N·n + 6·L·a·s·n

N are the weights one token passes through without the table of the embedding look-up (the head's
matrix counts, a tied one once), L the layers and a = heads × head width. The first term is two
FLOPs a weight forward and four backward; the second is the attention's: 12·L·a·s·n, halved because
a token attends only to those before it. Recomputation and the masked half of an unfused attention
are no work of the model and count in no MFU.

Narayanan et al., 2021 (with the attention not halved) and Korthikanti et al., 2022.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from railweave.catalog import ModelShape
from railweave.predict._training_types import Precision, Recompute, TrainingPlan
from railweave.workload.training import StageParts, stage_parts

__all__ = [
    "ELEMENT_BYTES",
    "Gemm",
    "LayerWork",
    "activation_bytes",
    "attention_width",
    "head_work",
    "layer_work",
    "model_flops",
    "parts_of",
]

#: bytes of an activation and of a weight (BF16)
ELEMENT_BYTES: Final = 2


def attention_width(shape: ModelShape) -> int:
    """Return heads × head width: what queries and the attention's output are wide."""
    return shape.heads * shape.width_per_head


def model_flops(shape: ModelShape, tokens: float, sequence: int | None = None) -> float:
    """Return the FLOPs of a forward and backward pass over tokens; see the head of this module."""
    length = sequence or shape.sequence
    look_up = 0 if shape.tied_embeddings else shape.vocabulary
    look_up += shape.sequence if shape.learned_positions else 0
    weights = shape.active_parameters - look_up * shape.hidden
    return 6.0 * tokens * (weights + shape.layers * attention_width(shape) * length)


def parts_of(plan: TrainingPlan) -> StageParts:
    """Return the layers of every virtual stage; (P·V,) arrays, stage c·P + p on pipeline rank p."""
    return stage_parts(plan.shape, plan.degrees.pipeline, plan.interleave)


@dataclass(frozen=True, slots=True)
class Gemm:
    """``count`` products of m×k by k×n on one rank; ``low`` where FP8 may be used."""

    m: float
    k: float
    n: float
    count: float = 1.0
    low: bool = True

    @property
    def flops(self) -> float:
        """Two for each multiply-add."""
        return 2.0 * self.m * self.k * self.n * self.count

    @property
    def operand_bytes(self) -> float:
        """Both operands and the result, once each, in BF16."""
        each = self.m * self.k + self.k * self.n + self.m * self.n
        return ELEMENT_BYTES * each * self.count


@dataclass(frozen=True, slots=True)
class LayerWork:
    """Forward work of one layer for a micro-batch on one rank.

    ``gemms`` without the experts', which are ``experts``; ``attention_flops`` of scores and their
    product with the values, the causal half; ``moved_bytes`` by norms, residuals, rotation and
    activation function; ``product_bytes`` the part of them that a gated block's product moves.
    """

    gemms: tuple[Gemm, ...]
    experts: tuple[Gemm, ...]
    attention_flops: float
    moved_bytes: float
    product_bytes: float


def layer_work(plan: TrainingPlan, *, sparse: bool) -> LayerWork:
    """Return what one layer, dense or a mixture, costs a rank for a micro-batch, forward."""
    shape, degrees = plan.shape, plan.degrees
    t, hidden = degrees.tensor, shape.hidden
    tokens = plan.micro_batch * plan.tokens_of_sequence / degrees.context
    width, kv = attention_width(shape), shape.kv_heads * shape.width_per_head
    if shape.attention_parameters:
        half = shape.attention_parameters / (2.0 * hidden * t)
        gemms = [Gemm(tokens, hidden, half), Gemm(tokens, half, hidden)]
    else:
        gemms = [Gemm(tokens, hidden, (width + 2 * kv) / t), Gemm(tokens, width / t, hidden)]
    into = 2 if shape.gated else 1
    wide, experts = shape.ffn / t, []
    if sparse:
        wide = shape.shared_experts * (shape.expert_ffn or shape.ffn) / t
        one = (shape.expert_ffn or shape.ffn) / t
        local = shape.experts / degrees.expert
        rows = tokens * shape.top_k / local
        experts = [Gemm(rows, hidden, into * one, local), Gemm(rows, one, hidden, local)]
        gemms.append(Gemm(tokens / t, hidden, shape.experts, low=False))
    if wide:
        gemms += [Gemm(tokens, hidden, into * wide), Gemm(tokens, wide, hidden)]
    split = t if plan.sequence_parallel else 1
    active = wide + (shape.top_k * (shape.expert_ffn or shape.ffn) / t if sparse else 0.0)
    product = ELEMENT_BYTES * tokens * (into + 1) * active
    # two norms (read, write) and two residual sums (two reads, a write)
    streams = ELEMENT_BYTES * tokens * hidden * (2 * 2 + 2 * 3) / split
    rotation = 0.0 if shape.learned_positions else 2 * ELEMENT_BYTES * tokens * (width + kv) / t
    scores = 4.0 * tokens * plan.tokens_of_sequence * width / t / 2
    return LayerWork(
        gemms=tuple(gemms),
        experts=tuple(experts),
        attention_flops=scores,
        moved_bytes=streams + product + rotation,
        product_bytes=product if shape.gated else 0.0,
    )


def head_work(plan: TrainingPlan) -> tuple[Gemm, float]:
    """Return the head's product forward, and the bytes that the loss moves (FP32 logits)."""
    shape, degrees = plan.shape, plan.degrees
    tokens = plan.micro_batch * plan.tokens_of_sequence / degrees.context
    columns = shape.vocabulary / degrees.tensor
    return Gemm(tokens, shape.hidden, columns, low=False), tokens * columns * (2 + 3 * 4)


def activation_bytes(plan: TrainingPlan, *, sparse: bool) -> float:
    """Return what one layer keeps of a micro-batch for its backward pass, on one rank.

    Korthikanti et al., 2022, table 2, in units of s·b·h with t tensor ranks and without
    recomputation: 10 + 24/t + 5·a·s/(h·t), all divided by t with sequence parallelism; the last
    term (scores) goes with selective recomputation, and full keeps the layer's input, 2. Those are
    of a block with dropout and an inner width of 4h; here they are summed from the model's shape:

    * kept by every tensor rank without sequence parallelism: inputs of both norms, of the attention
      and of the feed-forward block (2 each), dropout masks (1 each);
    * split over tensor ranks: queries, keys, values, the attention's output, what goes into and
      comes out of the activation function, scores (softmax, its mask, its dropout: 5·a·s/h).

    Models with a gated block are taken to train without dropout, and selective recomputation also
    spares the product of their gate. Mixtures keep what a token's experts produce.
    """
    shape, degrees = plan.shape, plan.degrees
    tokens = plan.micro_batch * plan.tokens_of_sequence / degrees.context
    hidden, t = shape.hidden, degrees.tensor
    split = t if plan.sequence_parallel else 1
    if plan.recompute is Recompute.FULL:
        return ELEMENT_BYTES * tokens * hidden / split
    dropout = not shape.gated
    shared = (4 * ELEMENT_BYTES + (2 if dropout else 0)) * hidden
    width, kv = attention_width(shape), shape.kv_heads * shape.width_per_head
    inner = shape.expert_ffn or shape.ffn
    active = (shape.shared_experts + shape.top_k) * inner if sparse else shape.ffn
    copies = 3 if shape.gated else 2
    if shape.gated and plan.recompute is Recompute.SELECTIVE:
        copies = 2
    kept = ELEMENT_BYTES * (2 * width + 2 * kv + copies * active)
    if sparse:  # what was dispatched, and what came back
        kept += ELEMENT_BYTES * 2 * shape.top_k * hidden
    if plan.recompute is Recompute.NONE:
        per_score = 5 if dropout else 2
        kept += per_score * shape.heads * plan.tokens_of_sequence
    return tokens * (shared / split + kept / t)


def uses_low(plan: TrainingPlan, gemm: Gemm) -> bool:
    """Tell whether a product runs in FP8."""
    return gemm.low and plan.precision is Precision.FP8
