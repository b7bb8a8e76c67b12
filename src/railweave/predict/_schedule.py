"""The pipeline's schedule, played step by step: 1F1B, and interleaved with chunks of layers.

Each pipeline rank does its operations in a fixed order (Narayanan et al., 2021): some forward
passes to fill the pipeline, then a forward and a backward pass in turn, then the backward passes
that are left. An operation starts when the rank is free and what it needs has arrived.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

__all__ = [
    "Schedule",
    "Span",
    "StageTimes",
    "estimate",
    "in_flight",
    "play",
    "rank_order",
    "warm_up",
]

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]


def warm_up(pipeline: int, chunks: int, micro_batches: int, rank: int) -> int:
    """Return how many forward passes a rank makes before its first backward pass's turn."""
    total = micro_batches * chunks
    if chunks == 1:
        return min(pipeline - rank - 1, total)
    if micro_batches == pipeline:
        return total
    return min(2 * (pipeline - rank - 1) + (chunks - 1) * pipeline, total)


@lru_cache(maxsize=512)
def _turns(pipeline: int, chunks: int, micro_batches: int) -> tuple[I64, I64]:
    """Return (chunk, micro-batch) of a rank's k-th forward pass, (M·V,) each."""
    number = np.arange(micro_batches * chunks)
    if chunks == 1:
        return np.zeros_like(number), number
    lap, within = np.divmod(number, pipeline * chunks)
    return within // pipeline, lap * pipeline + within % pipeline


def rank_order(
    pipeline: int, chunks: int, micro_batches: int, rank: int
) -> list[tuple[bool, int, int]]:
    """Return a rank's operations in order: (backward, chunk, micro-batch)."""
    chunk, batch = (part.tolist() for part in _turns(pipeline, chunks, micro_batches))
    forward = [(False, c, m) for c, m in zip(chunk, batch, strict=True)]
    backward = [(True, chunks - 1 - c, m) for c, m in zip(chunk, batch, strict=True)]
    first = warm_up(pipeline, chunks, micro_batches, rank)
    order = forward[:first]
    for ahead, back in zip(forward[first:], backward, strict=False):
        order += (ahead, back)
    return order + backward[len(forward) - first :]


def in_flight(
    pipeline: int, chunks: int, micro_batches: int, rank: int, size: npt.ArrayLike
) -> float:
    """Return the most a rank holds for its backward passes, ``size`` (V,) by chunk."""
    given = np.asarray(size, dtype=np.float64)
    chunk, _ = _turns(pipeline, chunks, micro_batches)
    first = warm_up(pipeline, chunks, micro_batches, rank)
    held = np.cumsum(given[chunk])
    freed = np.concatenate(([0.0], np.cumsum(given[chunks - 1 - chunk])))
    later = held[first:] - freed[: len(held) - first]
    return float(max(later.max(initial=0.0), held[first - 1] if first else 0.0))


@dataclass(frozen=True, eq=False)
class StageTimes:
    """Durations by virtual stage, (P·V,) each, for one replica.

    ``hop_s`` (P,): handing over from pipeline rank p to the next, from the last to the first.
    ``gate_s``: when a stage's weights have been gathered, counted from the step's start, of which
    the last layer's part must still be computed; ``reduce_s``: the time its gradients' reduction
    takes after its last backward pass, layer by layer behind it. ``layers`` are those that both
    are cut into. ``tail_s`` (P,): after everything, the optimiser.
    """

    forward_s: F64
    backward_s: F64
    hop_s: F64
    gate_s: F64
    reduce_s: F64
    layers: I64
    tail_s: F64

    def without(self, *, hop: bool = False, data: bool = False) -> StageTimes:
        """Return the same with hand-overs, or all gathers and reductions, taking no time."""
        none = np.zeros_like(self.gate_s)
        return StageTimes(
            self.forward_s,
            self.backward_s,
            np.zeros_like(self.hop_s) if hop else self.hop_s,
            none if data else self.gate_s,
            none if data else self.reduce_s,
            self.layers,
            self.tail_s,
        )


@dataclass(frozen=True, eq=False)
class Span:
    """How long a replica takes, without the single operations."""

    makespan_s: float


def estimate(pipeline: int, chunks: int, micro_batches: int, times: StageTimes) -> Span:
    """Return the closed form of :func:`play`: quick, a few percent off with unequal stages.

    M − 1 periods of the slowest rank, the pipeline filled and drained once (1/V of a rank's work a
    stage with V chunks), and the hand-overs on that way. Without chunks only P micro-batches are
    under way, so a round of them also takes no less than their work and 2(P − 1) hand-overs. The
    gathers ahead and the reductions behind show what the passes do not hide.
    """
    by_rank = (times.forward_s + times.backward_s).reshape(chunks, pipeline)
    work = by_rank.sum(axis=0)
    hops = 2 * float(times.hop_s[:-1].sum())
    period = float(work.max())
    if chunks == 1:
        period = max(period, (float(work.sum()) + hops) / pipeline)
    fill = float(work.mean()) * (pipeline - 1) / chunks
    cut = np.maximum(times.layers, 1)
    turn = np.repeat(np.arange(chunks), pipeline) * pipeline  # passes of other stages between
    first = times.gate_s - times.forward_s * (1 - 1 / cut) - turn * float(times.forward_s.mean())
    gate = max(float(first.max()), 0.0) if times.gate_s.any() else 0.0
    after = np.maximum(times.reduce_s - times.backward_s * (1 - 1 / cut), times.reduce_s / cut)
    # chunks reduce from the last to the first, the earlier ones while later passes are at work
    by_chunk = times.reduce_s.reshape(chunks, pipeline)
    behind_it = (np.cumsum(by_chunk, axis=0) - by_chunk).ravel()
    late = after + behind_it - turn * float(times.backward_s.mean())
    behind = max(float(late.max()), 0.0) if times.reduce_s.any() else 0.0
    total = micro_batches * period + fill + hops + gate + behind
    return Span(total + float(times.tail_s.max()))


@dataclass(frozen=True, eq=False)
class Schedule:
    """What every rank does when. ``begin`` and ``end``: (2, P·V, M), backward second.

    ``reduce_begin`` and ``reduce_end`` (P·V,) are of the gradients; ``busy_until`` (P,) the end of
    the last backward pass; ``gated_s`` (P,) waited for weights to be gathered.
    """

    pipeline: int
    chunks: int
    micro_batches: int
    begin: F64
    end: F64
    reduce_begin: F64
    reduce_end: F64
    busy_until: F64
    gated_s: F64
    finish_s: F64
    times: StageTimes

    @property
    def makespan_s(self) -> float:
        """When the last rank is done."""
        return float(self.finish_s.max())


def play(pipeline: int, chunks: int, micro_batches: int, times: StageTimes) -> Schedule:
    """Play the schedule and return when everything happens."""
    count = pipeline * chunks
    forward, backward = times.forward_s.tolist(), times.backward_s.tolist()
    layers = np.maximum(times.layers, 1).tolist()
    gate = times.gate_s.tolist()
    nan = float("nan")
    begin = [[[nan] * micro_batches for _ in range(count)] for _ in range(2)]
    end: list[list[list[float | None]]] = [
        [[None] * micro_batches for _ in range(count)] for _ in range(2)
    ]
    orders = [rank_order(pipeline, chunks, micro_batches, rank) for rank in range(pipeline)]
    at, free, gated = [0] * pipeline, [0.0] * pipeline, [0.0] * pipeline
    hop = times.hop_s.tolist() if pipeline > 1 else [0.0]
    work = deque(range(pipeline))
    waiting = [True] * pipeline
    while work:
        rank = work.popleft()
        waiting[rank] = False
        order, position, now = orders[rank], at[rank], free[rank]
        while position < len(order):
            back, chunk, batch = order[position]
            stage = chunk * pipeline + rank
            needed: float | None
            if back:
                needed = (
                    end[0][stage][batch]
                    if stage == count - 1
                    else _later(end[1][stage + 1][batch], hop[rank])
                )
            else:
                needed = 0.0 if stage == 0 else _later(end[0][stage - 1][batch], hop[rank - 1])
            if needed is None:
                break
            start = max(now, needed)
            duration = backward[stage] if back else forward[stage]
            now = start + duration
            if not back and batch == 0 and gate[stage] > 0:
                late = gate[stage] + duration / layers[stage]
                gated[rank] += max(late - now, 0.0)
                now = max(now, late)
            begin[back][stage][batch], end[back][stage][batch] = start, now
            position += 1
            other = (rank - 1 if back else rank + 1) % pipeline
            if not waiting[other]:
                waiting[other] = True
                work.append(other)
        at[rank], free[rank] = position, now
    return _closed(pipeline, chunks, micro_batches, times, begin, end, gated)


def _later(time: float | None, by: float) -> float | None:
    return None if time is None else time + by


def _closed(  # noqa: PLR0917 - what play has in hand
    pipeline: int,
    chunks: int,
    micro_batches: int,
    times: StageTimes,
    begin: Sequence[object],
    end: Sequence[object],
    gated: Sequence[float],
) -> Schedule:
    """Put the gradients' reductions behind the backward passes, and the optimiser behind those."""
    starts, ends = np.array(begin, dtype=np.float64), np.array(end, dtype=np.float64)
    last = ends[1].max(axis=1).reshape(chunks, pipeline)  # (V, P)
    opened = starts[1][np.arange(pipeline * chunks), ends[1].argmax(axis=1)].reshape(last.shape)
    cut = np.maximum(times.layers, 1).reshape(last.shape)
    took = times.reduce_s.reshape(last.shape)
    reduce_begin, reduce_end = np.empty_like(last), np.empty_like(last)
    free = np.zeros(pipeline)
    for chunk in range(chunks - 1, -1, -1):
        ready = opened[chunk] + (last[chunk] - opened[chunk]) / cut[chunk]
        reduce_begin[chunk] = np.maximum(free, ready)
        reduce_end[chunk] = np.maximum(
            reduce_begin[chunk] + took[chunk], last[chunk] + took[chunk] / cut[chunk]
        )
        free = reduce_end[chunk]
    busy = last.max(axis=0)
    return Schedule(
        pipeline=pipeline,
        chunks=chunks,
        micro_batches=micro_batches,
        begin=starts,
        end=ends,
        reduce_begin=reduce_begin.ravel(),
        reduce_end=reduce_end.ravel(),
        busy_until=busy,
        gated_s=np.asarray(gated, dtype=np.float64),
        finish_s=np.maximum(free, busy) + times.tail_s,
        times=times,
    )
