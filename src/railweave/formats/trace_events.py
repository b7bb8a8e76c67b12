"""Writer of the trace event format, which Perfetto and chrome://tracing open.

A document is one JSON object with ``traceEvents``: metadata (``ph: M``) names processes and
threads, complete events (``ph: X``) have a start ``ts`` and a duration ``dur`` in microseconds,
counters (``ph: C``) have values at a time. Format: Trace Event Format, "JSON object format".
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Final

from railweave.errors import InputError
from railweave.formats.files import staged

__all__ = ["TraceCounter", "TraceSpan", "TraceThread", "trace_lines", "write_trace"]

_US: Final = 1e6
#: digits after the point of a microsecond: picoseconds
_DIGITS: Final = 6


@dataclass(frozen=True, slots=True)
class TraceThread:
    """One line of the drawing: a thread (a stream) of a process (a rank), and their names.

    Processes and threads stand in the order of their numbers.
    """

    process: int
    thread: int
    process_name: str
    thread_name: str


@dataclass(frozen=True, slots=True)
class TraceSpan:
    """Something that takes time on a thread. ``category`` is what viewers filter by."""

    process: int
    thread: int
    name: str
    start_s: float
    duration_s: float
    category: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TraceCounter:
    """Values of a process from a time on, drawn as one area each."""

    process: int
    name: str
    time_s: float
    values: Mapping[str, float]


def _finite(value: float, what: str) -> float:
    if not math.isfinite(value):
        raise InputError(f"trace: {what} is {value}; allowed: a finite number of seconds")
    return round(value * _US, _DIGITS)


def _metadata(threads: Iterable[TraceThread]) -> Iterator[dict[str, Any]]:
    """Yield the events that name and order processes and threads, each process once."""
    named: set[int] = set()
    for line in threads:
        where = {"ph": "M", "ts": 0, "pid": line.process}
        if line.process not in named:
            named.add(line.process)
            for kind, args in (
                ("process_name", {"name": line.process_name}),
                ("process_sort_index", {"sort_index": line.process}),
            ):
                yield {**where, "tid": line.thread, "name": kind, "args": args}
        yield {
            **where,
            "tid": line.thread,
            "name": "thread_name",
            "args": {"name": line.thread_name},
        }
        yield {
            **where,
            "tid": line.thread,
            "name": "thread_sort_index",
            "args": {"sort_index": line.thread},
        }


def _event(event: TraceSpan | TraceCounter) -> dict[str, Any]:
    if isinstance(event, TraceCounter):
        return {
            "ph": "C",
            "name": event.name,
            "ts": _finite(event.time_s, f"the time of {event.name!r}"),
            "pid": event.process,
            "tid": 0,
            "args": dict(event.values),
        }
    if event.duration_s < 0:
        raise InputError(
            f"trace: {event.name!r} lasts {event.duration_s} s; allowed: 0 s or longer"
        )
    out: dict[str, Any] = {
        "ph": "X",
        "name": event.name,
        "ts": _finite(event.start_s, f"the start of {event.name!r}"),
        "dur": _finite(event.duration_s, f"the duration of {event.name!r}"),
        "pid": event.process,
        "tid": event.thread,
    }
    if event.category:
        out["cat"] = event.category
    if event.details:
        out["args"] = dict(event.details)
    return out


def trace_lines(
    threads: Iterable[TraceThread],
    events: Iterable[TraceSpan | TraceCounter],
    *,
    about: Mapping[str, Any] | None = None,
) -> Iterator[str]:
    """Yield the document line by line, an event a line; nothing is held back.

    Args:
        threads: all lines that events stand on.
        events: in any order.
        about: what the viewer shows as the trace's own metadata.

    Raises:
        InputError: a time that is not finite, or a duration below 0.
    """
    yield '{"displayTimeUnit":"ns","traceEvents":[\n'
    before = ""
    for event in chain(_metadata(threads), map(_event, events)):
        yield before + _json(event)
        before = ",\n"
    yield f'\n],"otherData":{_json(dict(about or {}))}}}\n'


def _json(value: Any) -> str:  # noqa: ANN401 - what JSON can hold
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def write_trace(
    path: Path,
    threads: Iterable[TraceThread],
    events: Iterable[TraceSpan | TraceCounter],
    *,
    about: Mapping[str, Any] | None = None,
) -> Path:
    """Write a trace; a name that ends in ``.gz`` is compressed. All of it is written, or nothing.

    Raises:
        InputError: as :func:`trace_lines`, or the file cannot be written there.
    """

    def write(target: Path) -> None:
        lines = (line.encode() for line in trace_lines(threads, events, about=about))
        with target.open("wb") as file:
            if path.suffix == ".gz":
                # Neither time nor name inside: equal traces are equal files.
                with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
                    packed.writelines(lines)
            else:
                file.writelines(lines)

    with staged(path.parent) as stage:
        return stage.write(path.name, write)
