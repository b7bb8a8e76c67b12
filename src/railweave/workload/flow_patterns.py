"""Flows that load a whole fabric at once: what routing is to spread over its equal links."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from railweave.design.models import Algorithm, Collective
from railweave.errors import InputError
from railweave.fabric import Fabric
from railweave.workload._builder import TrafficBuilder
from railweave.workload._communicator import Communicator
from railweave.workload._traffic import Traffic
from railweave.workload.collectives import append_collective

__all__ = ["MOST_ALL_TO_ALL", "FlowPattern", "pattern_flows"]

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

#: GPUs that take part in an all-to-all; n GPUs have n·(n−1) flows
MOST_ALL_TO_ALL: Final = 256


class FlowPattern(StrEnum):
    """Who sends to whom."""

    RING = "ring"  #: the connections of a ring all-reduce of all GPUs
    PERMUTATION = "permutation"  #: every GPU to one other, at random
    ALL_TO_ALL = "all-to-all"  #: every GPU to every other


def pattern_flows(
    fabric: Fabric,
    pattern: FlowPattern,
    size_bytes: float,
    *,
    seed: int = 0,
    most_gpus: int = MOST_ALL_TO_ALL,
) -> Traffic:
    """Return the flows of a pattern as one task: they start together, one a connection.

    Args:
        fabric: whose GPUs send.
        pattern: who sends to whom.
        size_bytes: of the all-reduce, as nccl-tests counts it; of the message of each GPU
            (permutation); of what each GPU sends to all others together (all-to-all).
        seed: of the permutation.
        most_gpus: of an all-to-all; where there are more, so many at equal distances take part.

    Raises:
        InputError: fewer than two GPUs, or a size that is not more than 0.
    """
    gpus = np.asarray(fabric.gpus, dtype=np.int32)
    if len(gpus) < 2 or not size_bytes > 0:
        raise InputError(
            f"{len(gpus)} GPUs and {size_bytes:g} B have no flows; give at least 2 GPUs and 1 B"
        )
    builder = TrafficBuilder()
    if pattern is FlowPattern.RING:
        src, dst, connection, size = _ring(fabric, gpus, size_bytes)
    elif pattern is FlowPattern.PERMUTATION:
        order = np.random.default_rng([seed, 7]).permutation(len(gpus))
        # One cycle through all: nobody sends to itself.
        src, dst = gpus[order], gpus[np.roll(order, -1)]
        connection, size = np.zeros(len(src), dtype=np.int32), np.full(len(src), size_bytes)
    else:
        chosen = gpus[np.linspace(0, len(gpus) - 1, min(len(gpus), most_gpus)).astype(np.int64)]
        a, b = np.divmod(np.arange(len(chosen) ** 2), len(chosen))
        src, dst = chosen[a[a != b]], chosen[b[a != b]]
        connection = np.zeros(len(src), dtype=np.int32)
        size = np.full(len(src), size_bytes / (len(chosen) - 1))
    builder.plain(src, dst, size, label=pattern.value, connection=connection)
    return builder.build()


def _ring(
    fabric: Fabric, gpus: I32, size_bytes: float
) -> tuple[I32, I32, I32, npt.NDArray[np.float64]]:
    """Return the different connections of a ring all-reduce, and what each carries in all."""
    builder = TrafficBuilder()
    comm = Communicator.from_fabric(fabric, gpus)
    append_collective(builder, comm, Collective.ALL_REDUCE, size_bytes, algorithm=Algorithm.RING)
    ring = builder.build()
    number = ring.stream_connection
    number = np.zeros_like(ring.src) if number is None else number
    rows, inverse = np.unique(
        np.stack((ring.src, ring.dst, number), axis=1), axis=0, return_inverse=True
    )
    size = np.bincount(inverse.reshape(-1), weights=ring.stream_bytes, minlength=len(rows))
    src, dst, connection = np.ascontiguousarray(rows.T, dtype=np.int32)
    return src, dst, connection, size.astype(np.float64)
