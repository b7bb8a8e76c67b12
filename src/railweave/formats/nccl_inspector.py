"""Reader of NCCL Inspector logs: one JSON object a line, one operation of one communicator each.

A process writes one file, in which its communicators' operations stand mixed. Ranks in it count
within a communicator; the ranks of the job are taken from the largest communicator.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from railweave.errors import InputError
from railweave.findings import Finding, Severity
from railweave.formats._trace_input import TraceInput, lines_of, number_of, parse_json, whole_number
from railweave.formats._trace_timeline import (
    ORDER_ASSUMPTIONS,
    TimedOperation,
    events_of_timeline,
)
from railweave.formats.execution_trace import (
    MOST_RANKS,
    EventKind,
    RankTrace,
    TraceEvent,
    Waits,
    operation_of,
)
from railweave.provenance import Assumption, Certainty

__all__ = ["InspectorRecord", "looks_like_inspector", "read_inspector", "read_inspector_records"]

_MOST_RECORDS: Final = 5_000_000
_US: Final = 1e-6
_ANNOUNCED: Final = ("coll_records", "p2p_records")

Process = tuple[str, int, str]


@dataclass(frozen=True, slots=True)
class InspectorRecord:
    """One operation as a rank of a communicator saw it.

    ``size_bytes`` is counted as nccl-tests does (the file counts one rank's part of an all-gather
    and a reduce-scatter); ``busbw_Bps`` is the file's own. ``start_s`` is NaN unless the log is
    verbose. ``peer`` is the other rank, within the communicator, of a send or receive, else −1.
    ``process`` is (host, process number, file where it has no number).
    """

    communicator: str
    rank: int
    ranks: int
    op: str
    size_bytes: float
    time_s: float
    busbw_Bps: float  # noqa: N815 - B is byte
    sequence: int
    start_s: float
    process: Process
    timing_source: str
    peer: int
    where: str


def looks_like_inspector(head: str) -> bool:
    """Tell whether the beginning of a file is that of an Inspector log."""
    first = head.lstrip()[:4096]
    return first.startswith("{") and '"header"' in first and '"n' in first and "_perf" in first


def read_inspector_records(
    path: str | Path,
) -> tuple[tuple[InspectorRecord, ...], tuple[Finding, ...]]:
    """Read the operations of one log, in its order, and say what was left out.

    Raises:
        InputError: a line is no JSON object or lacks its header; there are too many.
    """
    file = Path(path)
    records: list[InspectorRecord] = []
    skipped: Counter[str] = Counter()
    context = _Context()
    with TraceInput(file) as source:
        for number, line in lines_of(source):
            where = f"{file}:{number}"
            if number > _MOST_RECORDS:
                raise InputError(f"{where}: more than {_MOST_RECORDS:,} lines; give fewer")
            found = context.read(parse_json(line, where), where, skipped)
            record = None if found is None else _record(found, where, str(file), skipped)
            if record is not None:
                records.append(record)
    findings = [
        Finding("operation-skipped", Severity.WARNING, str(file), f"{n:,} × {what}: left out")
        for what, n in skipped.most_common(5)
    ]
    if missing := context.missing + context.left:
        message = f"{missing:,} operations that the log announces are not in it; it was cut off"
        findings.append(Finding("operations-missing", Severity.WARNING, str(file), message))
    return tuple(records), tuple(findings)


@dataclass(frozen=True, slots=True)
class _Line:
    """One operation with what stands around it: ``prefix`` is ``coll`` or ``p2p``."""

    header: dict[str, object]
    about: dict[str, object]
    prefix: str
    part: dict[str, object]


@dataclass(slots=True)
class _Context:
    """Header and metadata of the lines that follow: since format 4.3 they stand once a dump.

    ``left`` operations are still announced, ``missing`` were announced and never came.
    """

    header: dict[str, object] | None = None
    about: dict[str, object] | None = None
    left: int = 0
    missing: int = 0

    def read(self, value: object, where: str, skipped: Counter[str]) -> _Line | None:
        """Return a line's operation; None where it has none."""
        if not isinstance(value, dict):
            value = {}
        stats = _object(value.get("dump_stats"))
        header, about = _object(value.get("header")), _object(value.get("metadata")) or {}
        if stats is not None:
            counts = [whole_number(stats.get(key)) or 0 for key in _ANNOUNCED]
            self.missing += self.left
            self.left = sum(min(max(count, 0), _MOST_RECORDS) for count in counts)
            self.header, self.about = header, about
            return None
        follows = header is None
        if follows:
            header, about = self.header, self.about or {}
        if header is None:
            raise InputError(
                f"{where}: no 'header' in it, nor before it; allowed: lines of NCCL Inspector, "
                '{"header": …, "metadata": …, "coll_perf": …}'
            )
        for prefix in ("coll", "p2p"):
            part = _object(value.get(f"{prefix}_perf"))
            if part is not None:
                self.left = max(self.left - follows, 0)
                return _Line(header, about, prefix, part)
        if not any(str(key).startswith("proxy") for key in value):
            skipped["line without coll_perf or p2p_perf"] += 1
        return None


def _object(value: object) -> dict[str, object] | None:
    return value if isinstance(value, dict) else None


def _record(line: _Line, where: str, file: str, skipped: Counter[str]) -> InspectorRecord | None:
    header, about, prefix, part = line.header, line.about, line.prefix, line.part
    ranks = number_of(header.get("n_ranks", header.get("nranks")))
    rank = number_of(header.get("rank"))
    size = number_of(part.get(f"{prefix}_msg_size_bytes"))
    time = number_of(part.get(f"{prefix}_exec_time_us")) * _US
    if not (0 <= rank < ranks <= MOST_RANKS and size >= 0 and time >= 0):
        raise InputError(
            f"{where}: rank {header.get('rank')!r} of {header.get('n_ranks')!r}, "
            f"{prefix}_msg_size_bytes {part.get(f'{prefix}_msg_size_bytes')!r}, "
            f"{prefix}_exec_time_us {part.get(f'{prefix}_exec_time_us')!r}; allowed: a rank below "
            f"n_ranks ≤ {MOST_RANKS:,}, numbers of 0 or more"
        )
    name = str(part.get(prefix))[:80]
    op = operation_of(name)
    if op is None:
        skipped[f"operation {name!r}, which is not known"] += 1
        return None
    pid = whole_number(about.get("pid")) or 0
    sequence = whole_number(part.get(f"{prefix}_sn"))
    peer = number_of(part.get("p2p_peer"))
    return InspectorRecord(
        communicator=str(header.get("id"))[:80],
        rank=int(rank),
        ranks=int(ranks),
        op=op,
        # The library counts one rank's part of these, not the whole buffer.
        size_bytes=size * ranks if op in ("all-gather", "reduce-scatter") else size,
        time_s=time,
        busbw_Bps=number_of(part.get(f"{prefix}_busbw_gbs")) * 1e9,
        sequence=-1 if sequence is None else sequence,
        start_s=_start(part.get("event_trace_ts")),
        process=(str(about.get("hostname", ""))[:255], pid, "" if pid else file),
        timing_source=str(part.get(f"{prefix}_timing_source", ""))[:40],
        peer=int(peer) if 0 <= peer < ranks else -1,
        where=where,
    )


def _start(trace: object) -> float:
    """Return when the first kernel began, where the log is verbose."""
    if not isinstance(trace, dict):
        return math.nan
    kernels = trace.get("kernel_events")
    times = [
        number_of(kernel.get("kernel_start_ts"))
        for kernel in (kernels if isinstance(kernels, list) else ())
        if isinstance(kernel, dict)
    ]
    good = [time for time in times if time > 0]
    return min(good) * _US if good else math.nan


def read_inspector(paths: Iterable[str | Path]) -> tuple[RankTrace, ...]:
    """Read the logs of a job's processes together: one trace for each process.

    Raises:
        InputError: as :func:`read_inspector_records`; no operation in any; two processes that are
            the same rank of a communicator.
    """
    read = [(str(path), *read_inspector_records(path)) for path in paths]
    by_process: dict[Process, list[InspectorRecord]] = {}
    for _, records, _ in read:
        for record in records:
            by_process.setdefault(record.process, []).append(record)
    if not by_process:
        names = ", ".join(name for name, _, _ in read)
        raise InputError(f"{names}: no operation in it; was NCCL_INSPECTOR_ENABLE=1 set?")
    job = _Job(by_process)
    traces = [job.trace(process, mine) for process, mine in by_process.items()]
    said = (*(finding for _, _, findings in read for finding in findings), *job.findings)
    return (replace(traces[0], findings=said), *traces[1:])


class _Job:
    """Which process is which rank of the job, and which ranks a communicator has."""

    def __init__(self, by_process: dict[Process, list[InspectorRecord]]) -> None:
        self.findings: list[Finding] = []
        self.members: dict[str, dict[int, Process]] = {}
        self.groups: dict[str, tuple[int, ...] | None] = {}
        sizes: dict[str, int] = {}
        for process, records in by_process.items():
            for record in records:
                seen = self.members.setdefault(record.communicator, {})
                if seen.setdefault(record.rank, process) != process:
                    raise InputError(
                        f"{record.where}: rank {record.rank} of communicator "
                        f"{record.communicator} is also that of process {seen[record.rank][1]} "
                        f"on {seen[record.rank][0]!r}; give the files of one run"
                    )
                sizes[record.communicator] = max(sizes.get(record.communicator, 0), record.ranks)
        largest = max(sizes, key=lambda name: (sizes[name], len(self.members[name])))
        self.world = sizes[largest]
        self.rank = {process: rank for rank, process in self.members[largest].items()}
        self.sizes = sizes
        others = [process for process in by_process if process not in self.rank]
        if others:
            self._place_others(others, _file(by_process[others[0]][0]))

    def _place_others(self, others: Sequence[Process], file: str) -> None:
        """Give processes outside the largest communicator the ranks that nobody has."""
        taken, free = set(self.rank.values()), 0
        for process in sorted(others):
            while free in taken:
                free += 1
            self.rank[process] = free
            taken.add(free)
        self.world = max(self.world, max(taken) + 1)
        self.findings.append(
            Finding(
                "ranks-guessed",
                Severity.WARNING,
                file,
                f"{len(others)} of {len(self.rank)} processes do not take part in the largest "
                f"communicator ({self.world} ranks); they got the ranks left, in order of host "
                "and process",
                fix="log a step in which all ranks talk to each other, such as a barrier",
            )
        )

    def group(self, name: str) -> tuple[int, ...] | None:
        """Return the job's ranks of a communicator in its order; None where some are not known."""
        if name not in self.groups:
            self.groups[name] = self._group(name)
        return self.groups[name]

    def _group(self, name: str) -> tuple[int, ...] | None:
        size, members = self.sizes[name], self.members[name]
        if size == self.world:
            known = {rank: self.rank[process] for rank, process in members.items()}
            return tuple(range(size)) if all(a == b for a, b in known.items()) else None
        if len(members) < size:
            return None
        return tuple(self.rank[members[rank]] for rank in range(size))

    def trace(self, process: Process, records: list[InspectorRecord]) -> RankTrace:
        """Return the events of one process."""
        rank, file = self.rank[process], _file(records[0])
        events: list[TraceEvent] = []
        missing: Counter[str] = Counter()
        for record in records:
            group = self.group(record.communicator)
            pair = record.op in ("send", "recv")
            if group is None or (pair and not 0 <= record.peer != record.rank):
                missing[record.communicator] += 1
                continue
            events.append(_event(record, rank, group, pair))
        self._say_missing(file, missing)
        timed = bool(events) and all(event.start_s == event.start_s for event in events)
        if timed:
            nothing = np.zeros(0)
            ordered = events_of_timeline(
                rank, [TimedOperation(e, _stream_number(e.group)) for e in events], nothing, nothing
            )
        else:
            ordered = tuple(
                replace(event, depends_on=(i - 1,) if i else (), start_s=math.nan)
                for i, event in enumerate(events)
            )
        notes = (_RANKS, ORDER_ASSUMPTIONS[Waits.SEEN] if timed else _CHAIN)
        return RankTrace("NCCL Inspector", file, rank, ordered, self.world, notes)

    def _say_missing(self, file: str, missing: Counter[str]) -> None:
        for name, count in missing.most_common(3):
            have, size = len(self.members[name]), self.sizes[name]
            self.findings.append(
                Finding(
                    "group-unknown",
                    Severity.WARNING,
                    file,
                    f"{count:,} operations of communicator {name} left out: the files name {have} "
                    f"of its {size} ranks, so the others' places are not known",
                    fix="give the logs of all its processes",
                )
            )


def _file(record: InspectorRecord) -> str:
    return record.where.rpartition(":")[0]


def _stream_number(group: str) -> int:
    """Return a number for a communicator's name, the same in every run."""
    return int.from_bytes(group.encode("utf-8", errors="replace")[-12:], "big")


def _event(record: InspectorRecord, rank: int, group: tuple[int, ...], pair: bool) -> TraceEvent:
    ends = group
    if pair:
        peer = group[record.peer]
        ends = (rank, peer) if record.op == "send" else (peer, rank)
    return TraceEvent(
        rank=rank,
        kind=EventKind.POINT_TO_POINT if pair else EventKind.COLLECTIVE,
        op=record.op,
        size_bytes=record.size_bytes,
        ranks=ends,
        duration_s=record.time_s,
        start_s=record.start_s,
        group=record.communicator,
        sequence=-1 if pair else record.sequence,
        where=record.where,
    )


_RANKS: Final = Assumption(
    "ranks",
    "a process has in the job the rank that it has in the largest communicator",
    Certainty.ESTIMATED,
)
_CHAIN: Final = Assumption(
    "dependencies",
    "the log has no start times (NCCL_INSPECTOR_DUMP_VERBOSE=1 writes them): each operation "
    "follows the one before it in the file, with nothing between",
)
