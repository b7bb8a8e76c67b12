"""Walk the streams of a traffic as if every message took one round."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from railweave.workload._traffic import Traffic

__all__ = ["Message", "walk"]


@dataclass(frozen=True, slots=True)
class Message:
    """Chunk ``chunk`` of a stream: its round, and the (stream, chunk) that it is passed on from.

    ``origin`` is itself where it waits for nobody; the data then begins here.
    """

    task: int
    stream: int
    chunk: int
    round: int
    origin: tuple[int, int]


def walk(traffic: Traffic) -> list[Message]:
    """Return every message with the first round in which all that it waits for has happened.

    Tasks are taken to stand behind those they depend on, as the builder puts them.
    """
    end = np.full(traffic.n_tasks, -1, dtype=np.int64)  # last round of each task
    out: list[Message] = []
    for task in range(traffic.n_tasks):
        deps = traffic.dep_task[traffic.dep_ptr[task] : traffic.dep_ptr[task + 1]]
        end[task] = end[deps].max(initial=-1)
        for message in _of_task(traffic, task, int(end[task]) + 1):
            out.append(message)
            end[task] = max(end[task], message.round)
    return out


def _of_task(traffic: Traffic, task: int, start: int) -> Iterator[Message]:
    """Yield the messages of a task which may begin in round ``start``."""
    first, last = (int(v) for v in traffic.task_stream[task : task + 2])
    preds = {
        s: [
            (int(traffic.pred_stream[e]), int(traffic.pred_lag[e]))
            for e in range(int(traffic.pred_ptr[s]), int(traffic.pred_ptr[s + 1]))
        ]
        for s in range(first, last)
    }
    order = _in_order(preds)
    at: dict[tuple[int, int], Message] = {}
    for chunk in range(int(traffic.task_rounds[task])):
        for stream in order:
            before = [(p, chunk - lag) for p, lag in preds[stream] if chunk >= lag]
            waits = [at[key].round + 1 for key in before]
            if chunk:
                waits.append(at[stream, chunk - 1].round + 1)
            origin = at[before[0]].origin if before else (stream, chunk)
            message = Message(task, stream, chunk, max([start, *waits]), origin)
            at[stream, chunk] = message
            yield message


def _in_order(preds: dict[int, list[tuple[int, int]]]) -> list[int]:
    """Return the streams so that those they wait for in the same round come first."""
    tight = {s: [p for p, lag in waits if lag == 0] for s, waits in preds.items()}
    followers: dict[int, list[int]] = {s: [] for s in preds}
    waiting = {s: len(waits) for s, waits in tight.items()}
    for stream, waits in tight.items():
        for p in waits:
            followers[p].append(stream)
    order = [s for s, count in waiting.items() if count == 0]
    for stream in order:
        for after in followers[stream]:
            waiting[after] -= 1
            if waiting[after] == 0:
                order.append(after)
    return order
