"""Dependencies from times: what a rank's operations waited for, read off its own timeline.

A trace of a GPU says when things ran, not what they waited for. Read off it:

- operations of one stream follow each other; one that starts within 20 us of the end of the
  operation before it on its stream was queued behind it and waits for nothing else;
- any other operation waits for all compute of its rank before it;
- compute that had stopped when an operation ended, and went on afterwards, waited for it;
- compute that ran on past an operation's end did not wait for it (unless :class:`Waits` ``ALL``:
  then it waits from its next kernel on).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import Final

import numpy as np
import numpy.typing as npt

from railweave.formats.execution_trace import EventKind, TraceEvent, Waits
from railweave.provenance import Assumption

__all__ = ["ORDER_ASSUMPTIONS", "TimedOperation", "events_of_timeline"]

F64 = npt.NDArray[np.float64]

_QUEUED_S: Final = 20e-6
#: what clocks and rounding may be off: times since 1970 in floats are good to 0.25 us
_SLACK_S: Final = 1e-6

_READ_OFF: Final = (
    "read off each rank's times: an operation waits for the compute before it, unless it was "
    "queued behind another on its stream; "
)
#: what is said of a trace's dependencies
ORDER_ASSUMPTIONS: Final = {
    Waits.SEEN: Assumption(
        "dependencies",
        f"{_READ_OFF}compute that had stopped when an operation ended waited for it. Compute that "
        "never stopped for an operation does not wait for it in the replay either, even where the "
        "replay is slower",
    ),
    Waits.ALL: Assumption(
        "dependencies",
        f"{_READ_OFF}compute waits for all operations that had ended when it went on, also those "
        "it may not have needed",
    ),
}


@dataclass(frozen=True, slots=True)
class TimedOperation:
    """An operation between ranks with its times and its stream; ``event`` has no dependencies."""

    event: TraceEvent
    stream: int

    @property
    def start_s(self) -> float:
        """When it started."""
        return self.event.start_s

    @property
    def end_s(self) -> float:
        """When it ended."""
        return self.event.end_s


def events_of_timeline(
    rank: int,
    operations: Sequence[TimedOperation],
    busy_start_s: F64,
    busy_end_s: F64,
    waits: Waits = Waits.SEEN,
) -> tuple[TraceEvent, ...]:
    """Return a rank's events with what they depend on.

    Args:
        rank: whose they are.
        operations: with finite times.
        busy_start_s: starts of compute, in any order, overlapping or not, (B,).
        busy_end_s: their ends, (B,).
        waits: what compute waited for.

    All compute between two operations becomes one event, pauses of the host included.
    """
    ordered = sorted(operations, key=lambda op: op.start_s)
    return _Sweep(rank, ordered, waits is Waits.ALL).run(_merged(busy_start_s, busy_end_s))


def _merged(start: F64, end: F64) -> list[tuple[float, float]]:
    """Return the union of intervals as disjoint ones in order."""
    if not len(start):
        return []
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    first = np.concatenate(([True], start[1:] > reach[:-1]))
    last = np.concatenate((first[1:], [True]))
    return list(zip(start[first].tolist(), reach[last].tolist(), strict=True))


@dataclass(slots=True)
class _Sweep:
    """One pass over a rank's timeline."""

    rank: int
    operations: Sequence[TimedOperation]
    all_waited: bool  #: compute waits for all that ended, not only for what it stopped for
    events: list[TraceEvent] = field(default_factory=list)
    last_main: int = -1  #: last compute event
    opened_s: float = 0.0  #: start of the compute that is still open
    waits: tuple[int, ...] = ()  #: operations that the open compute waits for
    running: list[tuple[float, int, int]] = field(default_factory=list)  #: heap: end, stream, event

    def run(self, busy: list[tuple[float, float]]) -> tuple[TraceEvent, ...]:
        follower, heads = self._queues()
        points = [self.operations[i].start_s for i in heads]
        reached: float | None = None
        on_stream: dict[int, int] = {}
        taken = 0
        for start, end, count in _activities(busy, points):
            ended = self._ended(reached, start)
            if ended:
                last = max(time for time, _ in ended.values())
                if reached is not None:
                    self._close(reached)
                    last = max(last, reached)
                self.waits = tuple(event for _, event in ended.values())
                self.opened_s = last
            elif reached is None:
                self.opened_s = start
            for i in heads[taken : taken + count]:
                self._close(self.operations[i].start_s)
                self._emit_queue(i, follower, on_stream)
            taken += count
            reached = end if reached is None else max(reached, end)
        if reached is not None:
            self._close(reached)
        return tuple(self.events)

    def _queues(self) -> tuple[dict[int, int], list[int]]:
        """Return what is queued behind each operation, and those that are queued behind none."""
        last: dict[int, int] = {}
        follower: dict[int, int] = {}
        heads: list[int] = []
        for i, op in enumerate(self.operations):
            before = last.get(op.stream)
            if before is not None and op.start_s - self.operations[before].end_s <= _QUEUED_S:
                follower[before] = i
            else:
                heads.append(i)
            last[op.stream] = i
        return follower, heads

    def _ended(self, after: float | None, until: float) -> dict[int, tuple[float, int]]:
        """Take off what ended by a time; return the last of each stream that ended after another.

        Stream → (end, event). What ended before ``after`` ended while compute ran: nobody was seen
        to wait.
        """
        found: dict[int, tuple[float, int]] = {}
        while self.running and self.running[0][0] <= until + _SLACK_S:
            end, stream, event = heappop(self.running)
            if self.all_waited or after is None or end > after:
                found[stream] = (end, event)
        return found

    def _close(self, until: float) -> None:
        """Make the open compute an event, where it took time or waited; open the next."""
        if until > self.opened_s or self.waits:
            before = () if self.last_main < 0 else (self.last_main,)
            self.events.append(
                TraceEvent(
                    rank=self.rank,
                    kind=EventKind.COMPUTE,
                    op="compute",
                    start_s=self.opened_s,
                    duration_s=max(until - self.opened_s, 0.0),
                    depends_on=before + self.waits,
                )
            )
            self.last_main = len(self.events) - 1
        self.opened_s, self.waits = until, ()

    def _emit_queue(self, i: int, follower: dict[int, int], on_stream: dict[int, int]) -> None:
        """Append an operation and all that is queued behind it."""
        main = () if self.last_main < 0 else (self.last_main,)
        at: int | None = i
        while at is not None:
            op = self.operations[at]
            before = on_stream.get(op.stream)
            behind = () if before is None else (before,)
            self.events.append(replace(op.event, depends_on=main + behind))
            on_stream[op.stream] = len(self.events) - 1
            heappush(self.running, (op.end_s, op.stream, len(self.events) - 1))
            main, at = (), follower.get(at)


def _activities(
    busy: list[tuple[float, float]], points: list[float]
) -> Iterator[tuple[float, float, int]]:
    """Yield (start, end, operations that start in it): compute, and starts between compute.

    The host is taken to be at work when an operation starts that was not queued.
    """
    at = 0
    for start, end in busy:
        while at < len(points) and points[at] < start:
            yield points[at], points[at], 1
            at += 1
        inside = bisect_right(points, end) - at
        yield start, end, inside
        at += inside
    while at < len(points):
        yield points[at], points[at], 1
        at += 1
