"""Reader of PyTorch profiler files (Kineto's Chrome-trace JSON), one file a rank.

Operations between ranks are the GPU kernels that carry a ``Collective name``, or those of NCCL and
RCCL that share an ``External id`` with a ``record_param_comms`` record; everything else that ran on
the GPU counts as compute. Files are read event by event, packed (``.json.gz``) or not: what is held
are 16 bytes for each kernel and the operations.
"""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np

from railweave.errors import InputError
from railweave.findings import Finding, Severity
from railweave.formats._trace_input import JsonStream, TraceInput, number_of, whole_number
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

__all__ = ["looks_like_kineto", "read_kineto"]

_GPU_WORK: Final = ("kernel", "gpu_memcpy", "gpu_memset")
_RECORD: Final = "record_param_comms"
#: kernels that move bytes between GPUs without a library that writes records
_UNRECORDED: Final = re.compile(r"deep_ep|nvshmem|internode|rocshmem|mori::", re.IGNORECASE)
_LIBRARY: Final = re.compile(r"nccl(dev)?kernel|rccl|nccl:", re.IGNORECASE)
_MOST_EVENTS: Final = 100_000_000
_MOST_OPERATIONS: Final = 2_000_000
_MOST_MEMBERS: Final = 50_000_000
_US: Final = 1e-6

#: bytes of an element by the profiler's names for types
_ELEMENT_BYTES: Final = {
    **dict.fromkeys(("Byte", "Char", "Bool", "QInt8", "QUInt8"), 1),
    **dict.fromkeys(("Float8_e5m2", "Float8_e4m3fn", "Float8_e5m2fnuz", "Float8_e4m3fnuz"), 1),
    **dict.fromkeys(("Float8_e8m0fnu", "Bits8", "Bits1x8", "Bits2x4", "Bits4x2"), 1),
    **dict.fromkeys(("Short", "Half", "BFloat16", "UInt16", "Bits16"), 2),
    **dict.fromkeys(("Int", "Float", "QInt32", "UInt32", "ComplexHalf"), 4),
    **dict.fromkeys(("Long", "Double", "UInt64", "ComplexFloat"), 8),
    "ComplexDouble": 16,
}
_ARGUMENTS: Final[tuple[str, ...]] = (
    "Collective name",
    "In msg nelems",
    "Out msg nelems",
    "dtype",
    "Group size",
    "Process Group Name",
    "Process Group Ranks",
    "In split size",
    "Src Rank",
    "Dst Rank",
    "Root Rank",
    "Seq",
)

_OF_GROUP: Final = ("Group size", "Process Group Ranks", "Process Group Name")

Arguments = dict[str, object]


def looks_like_kineto(head: str) -> bool:
    """Tell whether the beginning of a file is that of a profiler trace."""
    text = head.lstrip()
    return text.startswith(("{", "[")) and any(
        f'"{key}"' in text for key in ("traceEvents", "schemaVersion", "ph")
    )


@dataclass(slots=True)
class _Found:
    """What one pass over the file collects."""

    start: array[float] = field(default_factory=lambda: array("d"))
    end: array[float] = field(default_factory=lambda: array("d"))
    #: GPU operations: (start, end, stream, arguments, external id, kernel, line)
    calls: list[tuple[float, float, int, Arguments, int, str, int]] = field(default_factory=list)
    #: records on the host: external id → arguments, and in order
    records: dict[int, Arguments] = field(default_factory=dict)
    hosted: list[tuple[float, float, Arguments, int]] = field(default_factory=list)
    info: Arguments = field(default_factory=dict)
    unrecorded: Counter[str] = field(default_factory=Counter)
    broken: int = 0


def read_kineto(
    path: str | Path, *, rank: int | None = None, waits: Waits = Waits.SEEN
) -> RankTrace:
    """Read one rank's profiler file.

    Args:
        path: the file, ``.json`` or ``.json.gz``.
        rank: whose it is; where left out, what the file or its name says.
        waits: what compute is taken to have waited for.

    Raises:
        InputError: it is no such file, damaged, or holds no operation between ranks.
    """
    file = Path(path)
    with TraceInput(file) as source:
        found = _collect(JsonStream(source, ("traceEvents",)), str(file))
    return _Reading(str(file), found, rank).trace(waits)


def _collect(stream: JsonStream, name: str) -> _Found:
    found = _Found()
    count = 0
    for key, value in stream.members():
        if key == "distributedInfo" and isinstance(value, dict):
            found.info = value
        if key != "traceEvents":
            continue
        count += 1
        if count > _MOST_EVENTS or len(found.calls) + len(found.hosted) > _MOST_OPERATIONS:
            raise InputError(
                f"{name}:{stream.line()}: more than {_MOST_EVENTS:,} events or "
                f"{_MOST_OPERATIONS:,} operations between ranks; profile fewer steps"
            )
        if isinstance(value, dict) and value.get("ph") == "X":
            _take(found, value, stream)
    return found


def _take(found: _Found, event: Arguments, stream: JsonStream) -> None:
    """Sort one complete event in."""
    category, name = event.get("cat"), event.get("name")
    recorded = name == _RECORD
    if not recorded and category not in _GPU_WORK:
        return
    start = number_of(event.get("ts")) * _US
    length = number_of(event.get("dur", 0)) * _US
    if not (math.isfinite(start) and math.isfinite(length) and length >= 0):
        found.broken += 1
        return
    given = event.get("args")
    args: Arguments = given if isinstance(given, dict) else {}
    text = name if isinstance(name, str) else ""
    if recorded:
        kept = {key: args[key] for key in _ARGUMENTS if key in args}
        found.hosted.append((start, start + length, kept, stream.line()))
        if (number := whole_number(args.get("External id"))) is not None:
            found.records[number] = kept
    elif category == "kernel" and ("Collective name" in args or _is_of(_LIBRARY, text)):
        kept = {key: args[key] for key in _ARGUMENTS if key in args}
        lane, outer = whole_number(args.get("stream")), whole_number(args.get("External id"))
        found.calls.append(
            (
                start,
                start + length,
                0 if lane is None else lane,
                kept,
                -1 if outer is None else outer,
                text[:80],
                stream.line(),
            )
        )
    else:
        found.start.append(start)
        found.end.append(start + length)
        if _is_of(_UNRECORDED, text):
            found.unrecorded[text[:80]] += 1


@lru_cache(maxsize=4096)
def _is_of(names: re.Pattern[str], kernel: str) -> bool:
    """Tell whether a kernel's name is one of these; the same few names come again and again."""
    return names.search(kernel) is not None


def _ranks_in(value: object) -> tuple[tuple[int, ...], bool]:
    """Return the numbers of a list, or of a text like ``[0, 1, ...]``, and whether it goes on."""
    if isinstance(value, list):
        numbers = [whole_number(item) for item in value[:MOST_RANKS]]
        return tuple(n for n in numbers if n is not None and 0 <= n < MOST_RANKS), False
    if not isinstance(value, str):
        return (), False
    found = (int(text) for text in re.findall(r"\d{1,9}", value[: 16 * MOST_RANKS]))
    return tuple(n for n in found if n < MOST_RANKS), "..." in value


class _Reading:
    """Turns what was found into events of a rank."""

    def __init__(self, file: str, found: _Found, rank: int | None) -> None:
        self.file, self.found = file, found
        self.findings: list[Finding] = []
        self.notes: dict[Assumption, None] = {}
        self.skipped: Counter[str] = Counter()
        world = whole_number(found.info.get("world_size")) or 0
        self.world = world if 0 < world <= MOST_RANKS else 0
        self.rank = self._rank() if rank is None else rank
        self.groups = dict(self._groups())
        self.known: dict[str, tuple[int, ...]] = {}
        self.members = 0

    def _rank(self) -> int:
        said = whole_number(self.found.info.get("rank"))
        if said is not None and 0 <= said < MOST_RANKS:
            return said
        named = re.search(r"rank[-_.]?(\d{1,6})", Path(self.file).name, re.IGNORECASE)
        guess = int(named.group(1)) if named else 0
        self._say(
            "rank-guessed",
            f"does not say whose it is (no distributedInfo.rank); taken for rank {guess}, "
            + ("as its name has it" if named else "as nothing else is known"),
            "put the rank into the name, as in rank-3.json",
        )
        return guess

    def _groups(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        config = self.found.info.get("pg_config")
        for entry in config if isinstance(config, list) else ():
            if isinstance(entry, dict):
                ranks, _ = _ranks_in(entry.get("ranks"))
                if ranks:
                    yield str(entry.get("pg_name")), ranks

    def _say(self, id_: str, message: str, fix: str = "", *, grave: bool = True) -> None:
        severity = Severity.WARNING if grave else Severity.INFO
        self.findings.append(Finding(id_, severity, self.file, message, fix=fix))

    def trace(self, waits: Waits) -> RankTrace:
        """Return the rank's events."""
        found = self.found
        operations = [op for op in map(self._from_kernel, found.calls) if op is not None]
        if not found.calls and found.hosted:
            operations = [op for op in map(self._from_record, found.hosted) if op is not None]
            self._say(
                "no-gpu-times",
                "holds no GPU kernels of a communication library: sizes and order come from "
                "the host's records, and their times say how long a call took, not the transfer",
                "profile with ProfilerActivity.CUDA",
            )
        self._say_skipped()
        if not operations:
            raise InputError(
                f"{self.file}: no operation between ranks in it (of {len(found.calls):,} kernels "
                f"and {len(found.hosted):,} records of a communication library); profile a step "
                "of a job with torch.distributed, with a release of PyTorch that writes "
                "'Collective name'"
            )
        busy = np.frombuffer(found.start, dtype=np.float64)
        until = np.frombuffer(found.end, dtype=np.float64)
        events = events_of_timeline(self.rank, operations, busy, until, waits)
        self.notes[ORDER_ASSUMPTIONS[waits]] = None
        return RankTrace(
            "PyTorch profiler",
            self.file,
            self.rank,
            events,
            self.world,
            tuple(self.notes),
            tuple(self.findings),
        )

    def _say_skipped(self) -> None:
        for what, count in self.skipped.most_common(5):
            self._say("operation-skipped", f"{count:,} × {what}: left out")
        if self.found.broken:
            self._say(
                "event-skipped", f"{self.found.broken:,} events without usable times: left out"
            )
        if self.found.unrecorded:
            name, count = self.found.unrecorded.most_common(1)[0]
            total = sum(self.found.unrecorded.values())
            self._say(
                "transfers-unrecorded",
                f"{total:,} kernels move bytes between GPUs without a record of how many "
                f"({name!r} {count:,} times); their time counts as compute",
            )

    def _from_kernel(
        self, call: tuple[float, float, int, Arguments, int, str, int]
    ) -> TimedOperation | None:
        start, end, stream, args, outer, kernel, line = call
        if "Collective name" not in args:
            args = self.found.records.get(outer, {})
        if "Collective name" not in args:
            self.skipped[f"kernel {kernel!r} without a record of its operation"] += 1
            return None
        event = self._event(args, line, start, end - start)
        return None if event is None else TimedOperation(event, stream)

    def _from_record(self, record: tuple[float, float, Arguments, int]) -> TimedOperation | None:
        start, end, args, line = record
        event = self._event(args, line, start, end - start)
        return None if event is None else TimedOperation(event, 0)

    def _event(
        self, args: Arguments, line: int, start_s: float, duration_s: float
    ) -> TraceEvent | None:
        name = str(args.get("Collective name", ""))[:80]
        op = operation_of(name)
        if op is None:
            self.skipped[f"operation {name!r}, which is not known"] += 1
            return None
        size = self._size(args, op)
        ranks = self._pair(args, op) if op in ("send", "recv") else self._group(args)
        if size is None or not ranks:
            what = "type or count of elements" if size is None else "ranks of its group or its peer"
            self.skipped[f"operation {name!r} without {what}"] += 1
            return None
        pair = op in ("send", "recv")
        sequence, root = whole_number(args.get("Seq")), whole_number(args.get("Root Rank"))
        return TraceEvent(
            rank=self.rank,
            kind=EventKind.POINT_TO_POINT if pair else EventKind.COLLECTIVE,
            op=op,
            size_bytes=size,
            ranks=ranks,
            duration_s=duration_s,
            start_s=start_s,
            group=str(args.get("Process Group Name", ""))[:80],
            sequence=-1 if sequence is None or pair else sequence,
            root=root if root in ranks else None,
            shares=self._shares(args, len(ranks)) if op == "all-to-all" else (),
            where=f"{self.file}:{line}",
        )

    def _size(self, args: Arguments, op: str) -> float | None:
        if op == "barrier":
            return 0.0
        element = _ELEMENT_BYTES.get(str(args.get("dtype")))
        counts = [number_of(args.get(key)) for key in ("In msg nelems", "Out msg nelems")]
        known = [count for count in counts if count >= 0]
        return None if element is None or not known else max(known) * element

    def _pair(self, args: Arguments, op: str) -> tuple[int, ...]:
        peer = whole_number(args.get("Dst Rank" if op == "send" else "Src Rank"))
        if peer is None or not 0 <= peer < MOST_RANKS or peer == self.rank:
            return ()
        self.notes[_PEERS] = None
        return (self.rank, peer) if op == "send" else (peer, self.rank)

    def _group(self, args: Arguments) -> tuple[int, ...]:
        """Return the ranks of a group; the same object for the same group."""
        said = repr([args.get(key) for key in _OF_GROUP])
        ranks = self.known.get(said)
        if ranks is None:
            ranks = self.known[said] = self._read_group(args)
            self.members += len(ranks)
            if self.members > _MOST_MEMBERS:
                raise InputError(
                    f"{self.file}: its groups have more than {_MOST_MEMBERS:,} members together; "
                    "profile fewer steps"
                )
        return ranks

    def _read_group(self, args: Arguments) -> tuple[int, ...]:
        """Return a group's ranks; from its list, the file's table of groups, or its size."""
        size = whole_number(args.get("Group size")) or 0
        ranks, goes_on = _ranks_in(args.get("Process Group Ranks"))
        if goes_on or not ranks:
            ranks_of_name = self.groups.get(str(args.get("Process Group Name")), ())
            if ranks_of_name:
                return ranks_of_name
            if goes_on and len(ranks) > 1 and len(ranks) < size <= MOST_RANKS:
                stride = ranks[1] - ranks[0]
                guess = tuple(ranks[0] + stride * i for i in range(size))
                self.notes[_STRIDE] = None
                return guess if stride > 0 and guess[-1] < MOST_RANKS else ()
            if not ranks and 0 < size <= MOST_RANKS and size == self.world:
                ranks = tuple(range(size))
        whole = len(set(ranks)) == len(ranks) and (size in (0, len(ranks)))
        return ranks if whole and self.rank in ranks else ()

    def _shares(self, args: Arguments, members: int) -> tuple[float, ...]:
        """Return the parts of an uneven all-to-all that go to each member; none: even."""
        value = args.get("In split size")
        if isinstance(value, str) and "..." in value:
            self.notes[_EVEN] = None
            return ()
        texts = value if isinstance(value, list) else re.findall(r"\d{1,15}", str(value or ""))
        numbers = [number_of(item) for item in texts[:MOST_RANKS]]
        total = sum(numbers)
        right = len(numbers) == members and total > 0 and all(n >= 0 for n in numbers)
        return tuple(n / total for n in numbers) if right else ()


_PEERS: Final = Assumption("peers", "'Src Rank' and 'Dst Rank' are ranks of the job")
_STRIDE: Final = Assumption(
    "groups",
    "lists of ranks that the profiler cut off go on with the same distance between ranks",
    Certainty.ESTIMATED,
)
_EVEN: Final = Assumption(
    "all-to-all", "where the profiler cut off the list of parts, all parts are the same"
)
