"""Reader and writer of Chakra execution traces: protobuf messages, each after its length.

One file a rank, ``name.RANK.et``: a ``GlobalMetadata`` (some writers leave it out), then one
``Node`` after another. Groups of ranks stand in a JSON file of their own (group name → ranks).
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from railweave.errors import InputError
from railweave.findings import Finding, Severity
from railweave.formats._chakra_schema import COLLECTIVE_CODES, NodeType, Schema, schema
from railweave.formats._trace_input import TraceInput, number_of, parse_json, whole_number, whole_of
from railweave.formats.execution_trace import MOST_RANKS, EventKind, RankTrace, TraceEvent
from railweave.provenance import Assumption

__all__ = ["looks_like_chakra", "read_chakra", "read_groups", "write_chakra"]

_MOST_NODES: Final = 5_000_000
_MOST_MESSAGE: Final = 1 << 24
_MOST_DEPENDENCIES: Final = 50_000_000
_MOST_GROUPS_FILE: Final = 256 << 20
_US: Final = 1e-6
_OPERATIONS: Final = {
    **{code: op for op, code in COLLECTIVE_CODES.items()},
    8: "reduce-scatter",  # with equal blocks
}
_WORK: Final = (NodeType.COMPUTE, NodeType.LOAD, NodeType.STORE, NodeType.METADATA)


def looks_like_chakra(path: Path) -> bool:
    """Tell whether a file's name is that of a Chakra trace."""
    return path.suffix == ".et" or path.name.endswith(".et.gz")


def read_groups(path: str | Path) -> dict[str, tuple[int, ...]]:
    """Read a file of groups: a JSON object of group name → list of ranks.

    Raises:
        InputError: it is none.
    """
    value = parse_json(whole_of(Path(path), _MOST_GROUPS_FILE), str(path))
    if not isinstance(value, dict):
        raise InputError(f'{path}: no JSON object; allowed: {{"1": [0, 1], "2": [2, 3]}}')
    groups: dict[str, tuple[int, ...]] = {}
    for name, ranks in value.items():
        numbers = [number_of(rank) for rank in ranks] if isinstance(ranks, list) else []
        right = all(0 <= n < MOST_RANKS and n.is_integer() for n in numbers)
        if not numbers or not right or len(set(numbers)) != len(numbers):
            raise InputError(
                f"{path}: group {name[:80]!r}: allowed: a list of different ranks, "
                f"0 to {MOST_RANKS - 1:,}"
            )
        groups[name] = tuple(int(n) for n in numbers)
    return groups


def read_chakra(
    path: str | Path,
    *,
    rank: int | None = None,
    groups: Mapping[str, tuple[int, ...]] | None = None,
    world: int = 0,
) -> RankTrace:
    """Read one rank's trace.

    Args:
        path: the file, packed or not.
        rank: whose it is; where left out, the number before ``.et`` in its name.
        groups: ranks of each ``pg_name``; operations of other groups are of all ranks.
        world: ranks of the job, where known: the ranks of operations without a group.

    Raises:
        InputError: it is damaged, with the offset; a node twice; too many nodes.
        MissingProgramError: the protobuf library is not installed.
    """
    file = Path(path)
    named = re.search(r"\.(\d{1,6})\.et(\.gz)?$", file.name)
    mine = rank if rank is not None else int(named.group(1)) if named else None
    if mine is None:
        raise InputError(
            f"{file}: the name does not say the rank; allowed: NAME.RANK.et, such as step.0.et"
        )
    if not (0 <= mine < MOST_RANKS and world <= MOST_RANKS):
        raise InputError(f"{file}: rank {mine:,}; allowed: below {MOST_RANKS:,}")
    reading = _Reading(str(file), mine, groups or {}, max(world, mine + 1))
    with TraceInput(file) as source:
        for offset, node in _nodes(source, schema()):
            reading.take(node, offset)
    return reading.trace()


def _nodes(source: TraceInput, kinds: Schema) -> Iterator[tuple[int, Any]]:
    """Yield (offset in the unpacked file, node)."""
    for number, (offset, data) in enumerate(_messages(source)):
        if number > _MOST_NODES:
            raise InputError(f"{source.name}: byte {offset:,}: more than {_MOST_NODES:,} nodes")
        try:
            node = kinds.node.FromString(data)
        except kinds.error:
            node = None
        if number == 0 and (node is None or node.type == 0):
            try:  # Usually there: the metadata, which this has no use for.
                kinds.metadata.FromString(data)
            except kinds.error:
                raise InputError(
                    f"{source.name}: byte {offset:,}: neither metadata nor a node of a Chakra trace"
                ) from None
            continue
        if node is None:
            raise InputError(
                f"{source.name}: byte {offset:,}: message {number} is no node of a Chakra trace; "
                "the file is damaged"
            )
        yield offset, node


def _messages(source: TraceInput) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, bytes) of each message after its length."""
    buffer, base, at = source.read(), 0, 0
    while True:
        if len(buffer) - at < 10 and (more := source.read()):
            buffer, base, at = buffer[at:] + more, base + at, 0
            continue
        if at == len(buffer):
            return
        length, after = _length(buffer, at, f"{source.name}: byte {base + at:,}")
        while len(buffer) - after < length and (more := source.read()):
            buffer, base, after = buffer[after:] + more, base + after, 0
        if len(buffer) - after < length:
            raise InputError(
                f"{source.name}: byte {base + after:,}: a message of {length:,} bytes, but the "
                f"file ends after {len(buffer) - after:,}; it was cut off"
            )
        yield base + after, buffer[after : after + length]
        at = after + length


def _length(buffer: bytes, at: int, where: str) -> tuple[int, int]:
    """Return a message's length and where it begins (a varint: seven bits a byte)."""
    length = 0
    for shift, byte in enumerate(buffer[at : at + 5]):
        length |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            if length > _MOST_MESSAGE:
                break
            return length, at + shift + 1
    raise InputError(
        f"{where}: no length of a message (allowed: up to {_MOST_MESSAGE:,} bytes); "
        "this is no Chakra trace, or a damaged one"
    )


class _Reading:
    """Turns nodes into events."""

    def __init__(
        self, file: str, rank: int, groups: Mapping[str, tuple[int, ...]], world: int
    ) -> None:
        self.file, self.rank, self.groups, self.world = file, rank, groups, world
        self.ids: dict[int, int] = {}
        self.events: list[TraceEvent] = []
        self.waits: list[tuple[int, ...]] = []
        self.n_waits = 0
        self.skipped: Counter[str] = Counter()
        self.untimed = 0
        self.groupless: Counter[str] = Counter()
        self.everyone: tuple[int, ...] = ()

    def take(self, node: Any, offset: int) -> None:  # noqa: ANN401 - a class made at run time
        """Append one node."""
        where = f"{self.file}: byte {offset:,}"
        if node.id in self.ids:
            raise InputError(f"{where}: node {node.id} stands there twice; allowed: once")
        self.ids[node.id] = len(self.events)
        waits = (*node.data_deps, *node.ctrl_deps)
        self.n_waits += len(waits)
        if self.n_waits > _MOST_DEPENDENCIES:
            raise InputError(f"{where}: more than {_MOST_DEPENDENCIES:,} dependencies")
        self.waits.append(waits)
        self.events.append(self._event(node, f"{self.file}: node {node.id}"))

    def _event(self, node: Any, where: str) -> TraceEvent:  # noqa: ANN401 - as above
        values = {a.name: getattr(a, a.WhichOneof("value") or "name") for a in node.attr}
        duration = node.duration_micros * _US
        start = node.start_time_micros * _US or math.nan
        if node.type in _WORK:
            if not node.duration_micros and number_of(values.get("num_ops")) > 0:
                self.untimed += 1
            return TraceEvent(
                self.rank,
                EventKind.COMPUTE,
                "compute",
                duration_s=duration,
                start_s=start,
                where=where,
            )
        event: TraceEvent | None = None
        if node.type in (NodeType.SEND, NodeType.RECV):
            event = self._pair(node.type, values)
        elif node.type == NodeType.COLLECTIVE:
            event = self._collective(values)
        else:
            self.skipped[f"node of type {node.type}, which is not known"] += 1
        timed = {"duration_s": duration or math.nan, "start_s": start, "where": where}
        if event is None:  # Its place in the order stays, with the time that it took.
            return TraceEvent(
                self.rank, EventKind.COMPUTE, "skipped", duration_s=duration, where=where
            )
        return _with(event, timed)

    def _pair(self, kind: int, values: Mapping[str, object]) -> TraceEvent | None:
        key = "comm_dst" if kind == NodeType.SEND else "comm_src"
        peer, size = number_of(values.get(key)), number_of(values.get("comm_size"))
        if not (0 <= peer < MOST_RANKS and size >= 0) or peer == self.rank:
            self.skipped[f"send or receive without comm_size or {key}"] += 1
            return None
        self.world = max(self.world, int(peer) + 1)
        send = kind == NodeType.SEND
        ends = (self.rank, int(peer)) if send else (int(peer), self.rank)
        return TraceEvent(
            self.rank,
            EventKind.POINT_TO_POINT,
            "send" if send else "recv",
            size_bytes=size,
            ranks=ends,
            tag=whole_number(values.get("comm_tag")) or 0,
        )

    def _collective(self, values: Mapping[str, object]) -> TraceEvent | None:
        code = whole_number(values.get("comm_type"))
        op = None if code is None else _OPERATIONS.get(code)
        size = 0.0 if op == "barrier" else number_of(values.get("comm_size"))
        if op is None or not size >= 0:
            self.skipped["collective without a known comm_type, or without comm_size"] += 1
            return None
        name = str(values.get("pg_name", ""))[:80]
        ranks = self.groups.get(name, ())
        if not ranks:
            self.groupless[name] += 1
        elif self.rank not in ranks:
            self.skipped[f"collective of group {name!r}, which this rank is not in"] += 1
            return None
        root = number_of(values.get("root_rank"))
        return TraceEvent(
            self.rank,
            EventKind.COLLECTIVE,
            op,
            size_bytes=size,
            ranks=ranks,  # none: all ranks, put in when all of the file is read
            group=name,
            root=int(root) if 0 <= root < MOST_RANKS else None,
        )

    def trace(self) -> RankTrace:
        """Return the rank's events, dependencies by position."""
        dangling = 0
        self.everyone = tuple(range(self.world))
        for i, waits in enumerate(self.waits):
            known = tuple(self.ids[wait] for wait in dict.fromkeys(waits) if wait in self.ids)
            dangling += len(set(waits)) - len(known)
            self.events[i] = _with(self._whole(self.events[i]), {"depends_on": known})
        if not any(event.kind is not EventKind.COMPUTE for event in self.events):
            raise InputError(
                f"{self.file}: no operation between ranks in its {len(self.events):,} nodes"
            )
        findings = [
            self._say("operation-skipped", f"{n:,} × {what}: left out")
            for what, n in self.skipped.most_common(5)
        ]
        if dangling:
            findings.append(
                self._say("dependency-skipped", f"{dangling:,} dependencies on nodes not in it")
            )
        if self.untimed:
            findings.append(
                self._say(
                    "compute-untimed",
                    f"{self.untimed:,} compute nodes have a count of operations but no time; "
                    "they take none in the replay",
                )
            )
        if self.groupless:
            names = ", ".join(repr(name) for name in sorted(self.groupless)[:5] if name)
            findings.append(
                self._say(
                    "group-unknown" if names else "group-not-named",
                    f"{sum(self.groupless.values()):,} collectives "
                    + (f"of groups {names}" if names else "without a group")
                    + ": taken to be of all ranks",
                    "give the file of groups with --groups" if names else "",
                    grave=bool(names),
                )
            )
        return RankTrace(
            "Chakra",
            self.file,
            self.rank,
            tuple(self.events),
            self.world,
            (_SIZES,),
            tuple(findings),
        )

    def _whole(self, event: TraceEvent) -> TraceEvent:
        """Put in all ranks where a collective has no group."""
        if event.kind is not EventKind.COLLECTIVE:
            return event
        ranks = event.ranks or self.everyone
        size = event.size_bytes * (len(ranks) if event.op == "all-gather" else 1)
        root = event.root if event.root in ranks else None
        return _with(event, {"ranks": ranks, "size_bytes": size, "root": root})

    def _say(self, id_: str, message: str, fix: str = "", *, grave: bool = True) -> Finding:
        return Finding(
            id_, Severity.WARNING if grave else Severity.INFO, self.file, message, fix=fix
        )


def _with(event: TraceEvent, changes: Mapping[str, Any]) -> TraceEvent:
    return replace(event, **changes)


_SIZES: Final = Assumption(
    "sizes", "comm_size is what a rank puts in: of an all-gather, its own part of the result"
)


def write_chakra(
    traces: Sequence[RankTrace], write: Callable[[str, bytes], object], name: str = "trace"
) -> tuple[str, ...]:
    """Write traces of ranks as Chakra files, with the groups in ``<name>.groups.json``.

    Args:
        traces: one a rank.
        write: takes a file's name and its bytes.
        name: what the files are called before ``.RANK.et``.

    Returns:
        The names of the files.

    Raises:
        MissingProgramError: the protobuf library is not installed.
    """
    kinds = schema()
    numbers: dict[tuple[int, ...], str] = {}
    written: list[str] = []
    for trace in traces:
        pieces = [kinds.metadata(version="0.0.4")]
        for i, event in enumerate(trace.events):
            pieces.append(_node(kinds, i, event, numbers))
        messages = (piece.SerializeToString() for piece in pieces)
        data = b"".join(_varint(len(message)) + message for message in messages)
        written.append(f"{name}.{trace.rank}.et")
        write(written[-1], data)
    groups = json.dumps({group: list(ranks) for ranks, group in numbers.items()}, indent=1)
    written.append(f"{name}.groups.json")
    write(written[-1], groups.encode())
    return tuple(written)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _node(kinds: Schema, i: int, event: TraceEvent, numbers: dict[tuple[int, ...], str]) -> Any:  # noqa: ANN401 - a class made at run time
    timed = event.duration_s == event.duration_s
    node = kinds.node(
        id=i,
        name=event.op,
        data_deps=event.depends_on,
        duration_micros=round(event.duration_s / _US) if timed else 0,
        start_time_micros=round(event.start_s / _US) if event.start_s == event.start_s else 0,
    )
    attributes: dict[str, dict[str, object]] = {"is_cpu_op": {"bool_val": False}}
    if event.kind is EventKind.COMPUTE:
        node.type = NodeType.COMPUTE
    elif event.kind is EventKind.POINT_TO_POINT:
        node.type = NodeType.SEND if event.op == "send" else NodeType.RECV
        attributes["comm_size"] = {"int64_val": round(event.size_bytes)}
        attributes["comm_src"] = {"int32_val": event.ranks[0]}
        attributes["comm_dst"] = {"int32_val": event.ranks[1]}
        attributes["comm_tag"] = {"int32_val": event.tag}
    else:
        node.type = NodeType.COLLECTIVE
        parts = len(event.ranks) if event.op == "all-gather" else 1
        attributes["comm_type"] = {"int64_val": COLLECTIVE_CODES[event.op]}
        attributes["comm_size"] = {"int64_val": round(event.size_bytes / parts)}
        group = numbers.setdefault(event.ranks, str(len(numbers) + 1))
        attributes["pg_name"] = {"string_val": group}
        if event.root is not None:
            attributes["root_rank"] = {"int64_val": event.root}
    node.attr.extend(kinds.attribute(name=key, **value) for key, value in attributes.items())
    return node
