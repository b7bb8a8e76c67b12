"""Reading the traces of a job, whatever kind they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Final

from railweave.errors import InputError
from railweave.findings import Finding, Severity
from railweave.formats._trace_input import TraceInput
from railweave.formats.chakra import looks_like_chakra, read_chakra
from railweave.formats.execution_trace import (
    ALL_RANKS,
    OPERATIONS,
    EventKind,
    RankTrace,
    TraceEvent,
    TraceFormat,
    Waits,
)
from railweave.formats.kineto import looks_like_kineto, read_kineto
from railweave.formats.nccl_inspector import looks_like_inspector, read_inspector
from railweave.provenance import Assumption

__all__ = ["read_traces", "trace_format"]

_HEAD: Final = 1 << 16
_MOST_FILES: Final = 1 << 17


def trace_format(path: str | Path) -> TraceFormat:
    """Return the kind of a file, by its name and how it begins.

    Raises:
        InputError: it is a damaged gzip file.
    """
    file = Path(path)
    if looks_like_chakra(file):
        return TraceFormat.CHAKRA
    with TraceInput(file) as source:
        head = source.read(_HEAD).decode("utf-8", errors="replace")
    if looks_like_inspector(head):
        return TraceFormat.INSPECTOR
    return TraceFormat.KINETO if looks_like_kineto(head) else TraceFormat.NCCL_TESTS


def read_traces(
    paths: Sequence[str | Path],
    *,
    kind: TraceFormat | None = None,
    groups: Mapping[str, tuple[int, ...]] | None = None,
    waits: Waits = Waits.SEEN,
    progress: Callable[[float], None] | None = None,
) -> tuple[RankTrace, ...]:
    """Read the files of one run, in any order, and return a trace for each rank, by rank.

    Args:
        paths: one file a rank (nccl-tests: any number of files).
        kind: what they are; each is looked at where left out.
        groups: ranks of the groups that Chakra traces name.
        waits: what compute waited for, where profiler files have no more than times.
        progress: called before each file with the part of the files that were read.

    Raises:
        InputError: files of different kinds, two of one rank, or one that cannot be read.
        MissingProgramError: Chakra traces without the protobuf library.
    """
    if not 0 < len(paths) <= _MOST_FILES:
        raise InputError(f"{len(paths)} trace files; allowed: 1 to {_MOST_FILES:,}")
    kinds = {path: kind or trace_format(path) for path in paths}
    if len(set(kinds.values())) > 1:
        (a, of_a), (b, of_b) = _two_kinds(kinds)
        raise InputError(
            f"{b} is taken for {of_b.value}, {a} for {of_a.value}; give the files of one run, all "
            "of one kind"
        )
    found = kinds[paths[0]]
    told = _told(paths, progress)
    if groups and found is not TraceFormat.CHAKRA:
        raise InputError(
            f"groups: only Chakra traces leave them to another file, and these are {found.value}; "
            "leave --groups out"
        )
    if found is TraceFormat.NCCL_TESTS:
        return (_tables(told),)
    if found is TraceFormat.INSPECTOR:
        traces = read_inspector(told)
    elif found is TraceFormat.KINETO:
        traces = tuple(read_kineto(path, waits=waits) for path in told)
    else:
        traces = _chakra(paths, told, groups)
    return _by_rank(traces)


def _two_kinds(
    kinds: Mapping[str | Path, TraceFormat],
) -> tuple[tuple[str | Path, TraceFormat], tuple[str | Path, TraceFormat]]:
    (first, kind), *others = kinds.items()
    return (first, kind), next(other for other in others if other[1] is not kind)


def _told(
    paths: Sequence[str | Path], progress: Callable[[float], None] | None
) -> Iterator[str | Path]:
    """Yield the files, and say how far it is."""
    for i, path in enumerate(paths):
        if progress is not None:
            progress(i / len(paths))
        yield path


def _chakra(
    paths: Sequence[str | Path],
    told: Iterator[str | Path],
    groups: Mapping[str, tuple[int, ...]] | None,
) -> tuple[RankTrace, ...]:
    """Read Chakra files; groups of all ranks need to know how many there are."""
    known = [rank for ranks in (groups or {}).values() for rank in ranks]
    world = max([len(paths), *(rank + 1 for rank in known)])
    traces = tuple(read_chakra(path, groups=groups, world=world) for path in told)
    most = max(trace.world for trace in traces)
    if most == world:
        return traces
    # A file spoke of a rank beyond those that were known: "all ranks" are more.
    return tuple(read_chakra(path, groups=groups, world=most) for path in paths)


def _by_rank(traces: Sequence[RankTrace]) -> tuple[RankTrace, ...]:
    ordered = sorted(traces, key=lambda trace: trace.rank)
    for before, after in pairwise(ordered):
        if before.rank == after.rank:
            raise InputError(
                f"{after.file}: is of rank {after.rank}, as {before.file}; give one file a rank"
            )
    return tuple(ordered)


def _tables(paths: Iterable[str | Path]) -> RankTrace:
    """Return the rows of nccl-tests tables, out of place, as one operation after another."""
    from railweave.formats.nccl_tests import read_nccl_tests

    events: list[TraceEvent] = []
    findings: list[Finding] = []
    unnamed, first = 0, ""
    for path in paths:
        first = first or str(path)
        for table in read_nccl_tests(path):
            rows = list(table.select()) or list(table.rows)
            for row in rows:
                if row.op not in OPERATIONS or row.ranks is None:
                    unnamed += 1
                    continue
                events.append(
                    TraceEvent(
                        rank=ALL_RANKS,
                        kind=EventKind.COLLECTIVE,
                        op=row.op,
                        size_bytes=float(row.size_bytes),
                        ranks=tuple(range(row.ranks)),
                        duration_s=row.time_s,
                        root=row.root if row.root is not None and row.root >= 0 else None,
                        where=f"{path}:{row.line}" if row.line else str(path),
                    )
                )
            findings += [_problem(path, problem) for problem in table.problems[:5]]
    if unnamed:
        findings.append(
            Finding(
                "operation-skipped",
                Severity.WARNING,
                first,
                f"{unnamed:,} rows whose operation or number of ranks the file does not say: "
                "left out",
                fix="give the whole output of the test, with its command line",
            )
        )
    if not events:
        raise InputError(
            f"{first}: no row with a known operation and number of ranks in it; give the whole "
            "output of nccl-tests, a PyTorch profiler file, an NCCL Inspector log or a Chakra trace"
        )
    chained = tuple(
        replace(event, depends_on=(i - 1,) if i else ()) for i, event in enumerate(events)
    )
    world = max(len(event.ranks) for event in events)
    return RankTrace(
        "nccl-tests", first, ALL_RANKS, chained, world, (_ONE_BY_ONE,), tuple(findings)
    )


def _problem(path: str | Path, text: str) -> Finding:
    """Return what a table's reader says as a finding at its line."""
    line, _, message = text.removeprefix(f"{path}:").partition(": ")
    where, said = (f"{path}:{line}", message) if line.isdecimal() else (str(path), text)
    return Finding("table-problem", Severity.WARNING, where, said)


_ONE_BY_ONE: Final = Assumption(
    "nccl-tests", "each row is replayed once, out of place, after the one before it"
)
