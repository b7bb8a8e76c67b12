"""Which layers of a model stand on which pipeline stage, and how many weights those are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from railweave.catalog import ModelShape
from railweave.errors import InputError

__all__ = ["StageParts", "StageWeights", "stage_parts", "stage_weights"]

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class StageParts:
    """Layers of every virtual stage, (P·V,) each: stage c·P + p is chunk c of pipeline rank p.

    ``dense`` and ``sparse`` (mixture) add up to ``layers``. The embedding stands on the first,
    the head on the last.
    """

    stages: int
    chunks: int
    layers: I64
    dense: I64
    sparse: I64

    @property
    def count(self) -> int:
        """Virtual stages."""
        return self.stages * self.chunks

    def by_rank(self, values: npt.ArrayLike) -> F64:
        """Sum what is given by virtual stage over the chunks of each pipeline rank, (P,)."""
        given = np.asarray(values, dtype=np.float64)
        total: F64 = given.reshape(self.chunks, self.stages).sum(axis=0)
        return total


def stage_parts(shape: ModelShape, pipeline: int, chunks: int = 1) -> StageParts:
    """Spread a model's layers over pipeline ranks with so many chunks each.

    Evenly, where the stages divide the layers. Else, where they divide the layers and two more,
    the embedding and the head take the place of a layer each: 126 layers on 16 stages are 7, 8, …,
    8, 7. Else the first stages have a layer more.

    Raises:
        InputError: more stages than layers.
    """
    count = pipeline * chunks
    filled = (shape.layers + 2) % count == 0 and shape.layers % count != 0
    if count > shape.layers + (2 if filled else 0):
        what = "stages" if chunks == 1 else f"stages of {chunks} chunks"
        raise InputError(
            f"parallelism.pipeline: {pipeline} {what} for {shape.layers} layers; "
            f"allowed: at most {shape.layers // chunks}"
        )
    if filled:
        layers = np.full(count, (shape.layers + 2) // count, dtype=np.int64)
        layers[0] -= 1
        layers[-1] -= 1
    else:
        layers = np.full(count, shape.layers // count, dtype=np.int64)
        layers[: shape.layers % count] += 1
    first = np.cumsum(layers) - layers
    dense = layers.copy()
    if shape.experts > 1:
        dense = np.clip(shape.dense_layers - first, 0, layers)
    return StageParts(pipeline, chunks, layers, dense, layers - dense)


@dataclass(frozen=True, eq=False)
class StageWeights:
    """Weights of every virtual stage, (P·V,): ``expert`` those of routed experts, ``dense`` the
    others. Whole, before any of them is shared out over tensor or expert ranks."""

    dense: F64
    expert: F64


def stage_weights(shape: ModelShape, parts: StageParts) -> StageWeights:
    """Count the weights of every virtual stage, embedding and head included.

    A tied table stands on the first and the last stage where those are different ranks.
    """
    matrices = 3 if shape.gated else 2
    ffn = matrices * shape.hidden * shape.ffn
    expert = matrices * shape.hidden * (shape.expert_ffn or shape.ffn)
    every = shape.attention_parameters_per_layer + 2 * shape.hidden
    mixture = shape.hidden * shape.experts + shape.shared_experts * expert
    dense = (parts.layers * every + parts.dense * ffn + parts.sparse * mixture).astype(np.float64)
    table = shape.vocabulary * shape.hidden
    dense[0] += shape.embedding_parameters - (0 if shape.tied_embeddings else table)
    dense[-1] += shape.hidden + (table if not shape.tied_embeddings or parts.stages > 1 else 0)
    routed = parts.sparse.astype(np.float64) * (float(shape.experts) * expert)
    return StageWeights(dense, routed)
