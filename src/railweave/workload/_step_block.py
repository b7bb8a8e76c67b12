"""Streams of the forward and backward passes of a training step, for one block of ranks."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from railweave.design.models import Recompute
from railweave.workload.groups import Degrees

__all__ = ["Block", "step_block"]

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Block:
    """Streams by local rank numbers, (S,), with sizes of the whole step; ``who`` waits for ``on``.

    Local ranks are those of all stages that share experts (one data replica without experts), in
    the order of :mod:`railweave.workload.groups`.
    """

    src: I64
    dst: I64
    size: F64
    who: I64
    on: I64


def _joined(
    parts: list[npt.NDArray[np.generic]], kind: type[np.generic]
) -> npt.NDArray[np.generic]:
    return np.concatenate(parts).astype(kind) if parts else np.zeros(0, dtype=kind)


@dataclass
class _Streams:
    """Streams of one block of the step, with their predecessors of lag 0."""

    cube: I64  #: (P, E, C, T) local ranks
    src: list[I64] = field(default_factory=list)
    dst: list[I64] = field(default_factory=list)
    size: list[F64] = field(default_factory=list)
    who: list[I64] = field(default_factory=list)
    on: list[I64] = field(default_factory=list)
    count: int = 0

    def add(self, src: I64, dst: I64, size: float, waits: I64) -> I64:
        """Append streams; ``waits`` (…, k) are those that each waits for (−1: none)."""
        numbers = np.arange(self.count, self.count + src.size)
        self.src.append(src.ravel())
        self.dst.append(dst.ravel())
        self.size.append(np.full(src.size, size))
        waits = waits.reshape(src.size, -1)
        row, column = np.nonzero(waits >= 0)
        self.who.append(numbers[row])
        self.on.append(waits[row, column])
        self.count += src.size
        return numbers.reshape(src.shape)

    def ring(self, p: int, ready: I64, size: float, axis: int) -> I64:
        """Append rings along an axis of (E, C, T): over when all of a ring have sent."""
        n = self.cube.shape[axis + 1]
        if n < 2 or size <= 0:
            return ready
        ranks = self.cube[p]
        sent = self.add(ranks, np.roll(ranks, -1, axis=axis), size, ready)
        members = np.moveaxis(sent, axis, -1)  # (…, n)
        every = np.broadcast_to(members[..., None, :], (*members.shape, n))
        return np.moveaxis(every, -2, axis).copy()

    def exchange(self, p: int, ready: I64, size: float) -> I64:
        """Append all-to-all over the expert ranks; a rank waits for what it gets."""
        e, c, t = self.cube.shape[1:]
        if e < 2 or size <= 0:
            return ready
        turn = np.arange(1, e)
        to = (np.arange(e)[:, None] + turn) % e  # (E, E−1)
        ranks = self.cube[p]
        src = np.broadcast_to(ranks[:, None], (e, e - 1, c, t))
        waits = np.broadcast_to(ready[:, None], (e, e - 1, c, t, ready.shape[-1]))
        sent = self.add(src, ranks[to], size, waits)
        received = sent[(np.arange(e)[:, None] - turn) % e, turn - 1]  # (E, E−1, C, T)
        return np.concatenate((np.moveaxis(received, 1, -1), ready), axis=-1)

    def hop(self, p: int, to: int, ready: I64, size: float) -> I64:
        """Append the hand-over to another stage, whose tensor group gathers what it gets."""
        t = self.cube.shape[3]
        sent = self.add(self.cube[p], self.cube[to], size, ready)
        if t == 1:
            return sent[..., None]
        return np.repeat(sent[:, :, None, :], t, axis=2)


def step_block(
    degrees: Degrees,
    chunks: int,
    recompute: Recompute,
    *,
    tensor: F64,
    context: F64,
    pair: F64,
    pipeline: float,
) -> Block:
    """Return the streams of the ranks that share experts, each sending once a micro-batch.

    Args:
        degrees: of the job.
        chunks: of layers on a pipeline rank.
        recompute: full sends a second forward pass's bytes within the backward one.
        tensor, context, pair: bytes of the step by virtual stage, (P·V,): to a ring neighbour, and
            to each other expert rank.
        pipeline: bytes of the step from a virtual stage to the next.
    """
    p, e, t, c = degrees.pipeline, degrees.expert, degrees.tensor, degrees.context
    streams = _Streams(np.arange(p * e * c * t, dtype=np.int64).reshape(p, e, c, t))
    ready = np.full((e, c, t, 1), -1, dtype=np.int64)
    again = recompute is Recompute.FULL
    forward = 1 / 3 if again else 1 / 2
    kept = (1 / 4, 3 / 4) if again else (1 / 3, 2 / 3)  # context: gathers, and one reduction more
    count = p * chunks
    for backward, way in ((False, range(count)), (True, range(count - 1, -1, -1))):
        stages = list(way)
        share = 1 - forward if backward else forward
        for stage in stages:
            rank = stage % p
            ready = streams.ring(rank, ready, float(tensor[stage]) * share, axis=2)
            ready = streams.ring(rank, ready, float(context[stage]) * kept[backward], axis=1)
            ready = streams.exchange(rank, ready, float(pair[stage]) * share)
            if stage != stages[-1] and p > 1:
                to = (stage + stages[1] - stages[0]) % p
                ready = streams.hop(rank, to, ready, pipeline)
    return Block(
        src=_joined(streams.src, np.int64),  # type: ignore[arg-type]
        dst=_joined(streams.dst, np.int64),  # type: ignore[arg-type]
        size=_joined(streams.size, np.float64),  # type: ignore[arg-type]
        who=_joined(streams.who, np.int64),  # type: ignore[arg-type]
        on=_joined(streams.on, np.int64),  # type: ignore[arg-type]
    )
