"""The timeline of a training step: what every pipeline rank does on each of its streams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from railweave.errors import InputError
from railweave.predict._schedule import Schedule
from railweave.predict._step_parts import StepParts
from railweave.predict._training_types import F64, StepEstimate

__all__ = ["STREAMS", "Timeline", "step_timeline"]

I32 = npt.NDArray[np.int32]

#: what runs side by side on a GPU
STREAMS: Final = ("compute", "tensor", "context", "expert", "pipeline", "data")
_COMPUTE, _TENSOR, _CONTEXT, _EXPERT, _PIPELINE, _DATA = range(len(STREAMS))


@dataclass(frozen=True, eq=False)
class Timeline:
    """Spans of a typical replica, (N,) each, by pipeline rank.

    ``stage`` is the pipeline rank, ``stream`` an index into :data:`STREAMS`, ``name`` one into
    ``names``; ``chunk`` and ``micro_batch`` are −1 where they do not apply. Times in seconds from
    the step's start. Spans of one rank's stream do not overlap, but for hand-overs both ways.
    """

    stage: I32
    stream: I32
    name: I32
    chunk: I32
    micro_batch: I32
    start_s: F64
    end_s: F64
    names: tuple[str, ...]
    stages: int
    step_s: float

    @property
    def streams(self) -> tuple[str, ...]:
        """Names of the streams."""
        return STREAMS

    def __len__(self) -> int:
        """Count the spans."""
        return len(self.stage)


class _Spans:
    """Collects spans."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.rows: list[tuple[npt.NDArray[np.generic], ...]] = []

    def put(  # noqa: PLR0917 - a row's columns
        self,
        stage: npt.ArrayLike,
        stream: int,
        name: str,
        chunk: npt.ArrayLike,
        batch: npt.ArrayLike,
        start: npt.ArrayLike,
        end: npt.ArrayLike,
    ) -> None:
        """Append spans of some length; columns broadcast against each other."""
        number = self.names.setdefault(name, len(self.names))
        columns = np.broadcast_arrays(stage, stream, number, chunk, batch, start, end)
        there = np.asarray(columns[6]) - np.asarray(columns[5]) > 0
        if there.any():
            self.rows.append(tuple(np.asarray(column)[there] for column in columns))

    def timeline(self, stages: int, step_s: float) -> Timeline:
        """Return them in order of rank, stream and start."""
        columns = [np.concatenate(parts) for parts in zip(*self.rows, strict=True)]
        order = np.lexsort((columns[5], columns[1], columns[0]))
        whole = [column[order] for column in columns]
        stage, stream, name, chunk, batch = (column.astype(np.int32) for column in whole[:5])
        return Timeline(
            stage=stage,
            stream=stream,
            name=name,
            chunk=chunk,
            micro_batch=batch,
            start_s=whole[5].astype(np.float64),
            end_s=whole[6].astype(np.float64),
            names=tuple(self.names),
            stages=stages,
            step_s=step_s,
        )


def step_timeline(estimate: StepEstimate) -> Timeline:
    """Return the spans of a played step.

    A pass is one arithmetic span followed by its exposed tensor, expert and context spans: in
    truth they alternate layer by layer; their lengths are right, their places within the pass not.

    Raises:
        InputError: the step was estimated by closed form, and has no schedule.
    """
    if estimate.schedule is None:
        raise InputError("timeline: the step was estimated without its schedule; use exact=True")
    schedule = estimate.schedule
    parts = StepParts(estimate.plan, estimate.gpu, estimate.costs, estimate.skew)
    spans = _Spans()
    _passes(spans, parts, schedule)
    _hand_overs(spans, schedule)
    _data(spans, parts, schedule)
    return spans.timeline(schedule.pipeline, estimate.step_s)


def _passes(spans: _Spans, parts: StepParts, schedule: Schedule) -> None:
    p, v, m = schedule.pipeline, schedule.chunks, schedule.micro_batches
    number = np.arange(p * v)
    chunk, stage = (part[:, None] for part in np.divmod(number, p))
    batch = np.broadcast_to(np.arange(m), (p * v, m))
    arithmetic = (parts.compute_forward, parts.compute_backward)
    for way, name in enumerate(("forward", "backward")):
        at = schedule.begin[way]
        compute = (arithmetic[way] + parts.overload[way])[:, None]
        spans.put(stage, _COMPUTE, name, chunk, batch, at, at + compute)
        at = at + compute
        for stream, waits in (
            (_TENSOR, parts.tensor_wait),
            (_EXPERT, parts.expert_wait),
            (_CONTEXT, parts.context_wait),
            (_DATA, parts.data_wait),
        ):
            length = waits[way][:, None]
            spans.put(stage, stream, f"{name} {STREAMS[stream]}", chunk, batch, at, at + length)
            at = at + length


def _hand_overs(spans: _Spans, schedule: Schedule) -> None:
    p, m = schedule.pipeline, schedule.micro_batches
    hops, count = schedule.times.hop_s, schedule.pipeline * schedule.chunks
    if p == 1:
        return
    batch = np.arange(m)[None, :]
    for way, name, stages in (
        (0, "send activations", np.arange(count - 1)),
        (1, "send gradients", np.arange(1, count)),
    ):
        chunk, stage = (part[:, None] for part in np.divmod(stages, p))
        at = schedule.end[way][stages]
        hop = hops[stage if way == 0 else (stage - 1) % p]
        spans.put(stage, _PIPELINE, name, chunk, batch, at, at + hop)


def _data(spans: _Spans, parts: StepParts, schedule: Schedule) -> None:
    p, times = schedule.pipeline, schedule.times
    chunk, stage = np.divmod(np.arange(p * schedule.chunks), p)
    gathered = times.gate_s
    if parts.plan.zero == 3:  # only the first layer's: the passes gather the others
        gathered = np.where(chunk == 0, parts.first_gather, 0.0)
    before = np.concatenate((np.zeros(p), gathered[:-p]))
    spans.put(stage, _DATA, "gather weights", chunk, -1, before, gathered)
    begin, end = schedule.reduce_begin, schedule.reduce_end
    spans.put(
        stage,
        _DATA,
        "reduce gradients",
        chunk,
        -1,
        begin,
        np.where(times.reduce_s > 0, end, begin),
    )
    ready = schedule.finish_s - times.tail_s
    spans.put(np.arange(p), _COMPUTE, "optimiser", -1, -1, ready, schedule.finish_s)
