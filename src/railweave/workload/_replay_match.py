"""Matching: which events of different ranks' traces are one operation."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from railweave.findings import Finding, Severity
from railweave.formats.execution_trace import ALL_RANKS, EventKind, RankTrace, TraceEvent

__all__ = ["Match", "Operation", "match_traces"]

#: (trace, event), by position
Place = tuple[int, int]
_MOST_FINDINGS: Final = 5
#: sizes that differ by no more are the same (rounding of counts)
_SAME: Final = 1.001


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation between ranks, as one or more traces saw it.

    ``ranks`` is the group in its own order, or (sender, receiver); ``op`` is ``"send"`` for both
    ends of a message. ``shares`` are, by rank, the parts of an uneven all-to-all that it sent.
    """

    op: str
    size_bytes: float
    ranks: tuple[int, ...]
    root: int | None
    places: tuple[Place, ...]
    shares: Mapping[int, tuple[float, ...]]
    shortest_s: float  #: shortest duration that was measured by any rank; NaN where none was
    longest_s: float
    where: str


@dataclass(frozen=True, slots=True)
class Match:
    """All operations, and the events that belong to none: their rank's time passes all the same."""

    operations: tuple[Operation, ...]
    alone: frozenset[Place]
    findings: tuple[Finding, ...]


def match_traces(traces: Sequence[RankTrace]) -> Match:
    """Match the events of a run's traces.

    Collectives of one group (same ranks, same name) are matched by the group's own count where
    every trace has it, else by their order; messages by their ends, tag and order. Ranks without
    a trace take part in what the others say.
    """
    return _Matching(traces).run()


Group = tuple[tuple[int, ...], int]


class _Matching:
    def __init__(self, traces: Sequence[RankTrace]) -> None:
        self.traces = traces
        self.present = {trace.rank for trace in traces}
        self.operations: list[Operation] = []
        self.alone: set[Place] = set()
        self.findings: list[Finding] = []
        self.counts: Counter[str] = Counter()

    def run(self) -> Match:
        groups: dict[Group, dict[int, list[Place]]] = defaultdict(dict)
        sends: dict[tuple[int, int, int], list[Place]] = defaultdict(list)
        recvs: dict[tuple[int, int, int], list[Place]] = defaultdict(list)
        for t, trace in enumerate(self.traces):
            ordinal = _ordinals(trace)
            for i in _in_time(trace.events):
                event = trace.events[i]
                if event.kind is EventKind.COMPUTE:
                    continue
                if event.kind is EventKind.POINT_TO_POINT:
                    ends = (*event.ranks[:2], event.tag)
                    (sends if event.op == "send" else recvs)[ends].append((t, i))  # type: ignore[index]
                elif trace.rank == ALL_RANKS:
                    self._add([(t, i)])
                else:
                    key = (event.ranks, ordinal[event.ranks, event.group])
                    groups[key].setdefault(trace.rank, []).append((t, i))
        for (ranks, _), by_rank in groups.items():
            self._group(ranks, by_rank)
        for ends in sorted({*sends, *recvs}):
            self._messages(ends[:2], sends.get(ends, []), recvs.get(ends, []))
        return Match(tuple(self.operations), frozenset(self.alone), tuple(self.findings))

    def event(self, place: Place) -> TraceEvent:
        return self.traces[place[0]].events[place[1]]

    def _group(self, ranks: tuple[int, ...], by_rank: Mapping[int, list[Place]]) -> None:
        """Match one group's collectives."""
        silent = [rank for rank in ranks if rank in self.present and rank not in by_rank]
        if silent:
            self._say(
                "collectives-do-not-match",
                next(iter(by_rank.values()))[0],
                f"rank {silent[0]} has a trace, but no operation of this group of {len(ranks)} in "
                "it; the others' are replayed as if it took part",
            )
        counted = all(self.event(p).sequence >= 0 for places in by_rank.values() for p in places)
        if counted:
            self._by_count(by_rank)
        else:
            self._by_order(by_rank)

    def _by_count(self, by_rank: Mapping[int, list[Place]]) -> None:
        found: dict[tuple[str, int, int], list[Place]] = defaultdict(list)
        for places in by_rank.values():
            seen: Counter[tuple[str, int]] = Counter()
            for place in places:
                event = self.event(place)
                key = (event.op, event.sequence)
                found[*key, seen[key]].append(place)
                seen[key] += 1
        partial = [places for places in found.values() if len(places) < len(by_rank)]
        for places in found.values():
            if len(places) == len(by_rank):
                self._add(places)
        self._leave_out(partial, "by its count in the group")

    def _by_order(self, by_rank: Mapping[int, list[Place]]) -> None:
        rows = list(by_rank.values())
        common = min(len(row) for row in rows)
        for k in range(common):
            places = [row[k] for row in rows]
            kinds = {self.event(place).op for place in places}
            if len(kinds) > 1:
                rest = sum(len(row) - k for row in rows)
                self._say(
                    "collectives-do-not-match",
                    places[0],
                    f"number {k + 1} of its group is {' here and '.join(sorted(kinds))} there; "
                    f"{rest:,} events from there on are left out, their time passes all the same",
                    "give traces of the same steps",
                )
                self.alone.update(place for row in rows for place in row[k:])
                return
            self._add(places)
        self._leave_out([[place] for row in rows for place in row[common:]], "by its order")

    def _leave_out(self, partial: list[list[Place]], how: str) -> None:
        if not partial:
            return
        self.alone.update(place for places in partial for place in places)
        self._say(
            "collectives-left-over",
            partial[0][0],
            f"{len(partial):,} operations, this the first, have no partner in another trace "
            f"({how}); left out, their time passes all the same",
            "give traces of the same steps",
        )

    def _messages(self, ends: tuple[int, int], sends: list[Place], recvs: list[Place]) -> None:
        """Match the messages from one rank to another with one tag."""
        for send, recv in zip(sends, recvs, strict=False):
            self._add([send, recv])
        for rest, other in ((sends[len(recvs) :], ends[1]), (recvs[len(sends) :], ends[0])):
            if not rest:
                continue
            if other in self.present:
                self.alone.update(rest)
                self._say(
                    "messages-left-over",
                    rest[0],
                    f"{len(rest):,} messages between ranks {ends[0]} and {ends[1]}, this the "
                    f"first, have no counterpart in the trace of rank {other}; left out, their "
                    "time passes all the same",
                    "give traces of the same steps",
                )
            else:
                for place in rest:
                    self._add([place])

    def _add(self, places: list[Place]) -> None:
        events = [self.event(place) for place in places]
        first = events[0]
        sizes = [event.size_bytes for event in events]
        uneven = first.op in {"all-to-all", "send"}
        if max(sizes) > min(sizes) * _SAME and not uneven:
            self._say(
                "sizes-differ",
                places[0],
                f"{first.op}: {min(sizes):,.0f} B in one trace, {max(sizes):,.0f} B in another; "
                "the largest is replayed",
            )
        times = [event.duration_s for event in events if math.isfinite(event.duration_s)]
        self.operations.append(
            Operation(
                op="send" if first.op == "recv" else first.op,
                size_bytes=max(sizes),
                ranks=first.ranks,
                root=next((event.root for event in events if event.root is not None), None),
                places=tuple(places),
                shares={event.rank: event.shares for event in events if event.shares},
                shortest_s=min(times, default=math.nan),
                longest_s=max(times, default=math.nan),
                where=first.where,
            )
        )

    def _say(self, id_: str, place: Place, message: str, fix: str = "") -> None:
        self.counts[id_] += 1
        if self.counts[id_] <= _MOST_FINDINGS:
            where = self.event(place).where or self.traces[place[0]].file
            self.findings.append(Finding(id_, Severity.WARNING, where, message, fix=fix))


def _in_time(events: Sequence[TraceEvent]) -> Iterable[int]:
    """Yield positions by start where all are known, else as they stand."""
    if any(math.isnan(e.start_s) for e in events if e.kind is not EventKind.COMPUTE):
        return range(len(events))
    return sorted(range(len(events)), key=lambda i: (events[i].start_s, i))


def _ordinals(trace: RankTrace) -> dict[tuple[tuple[int, ...], str], int]:
    """Number the groups of the same ranks: their names differ from rank to rank."""
    names: dict[tuple[int, ...], set[str]] = defaultdict(set)
    for event in trace.events:
        if event.kind is EventKind.COLLECTIVE:
            names[event.ranks].add(event.group)

    def order(name: str) -> tuple[int, int, str]:
        return (0, int(name), "") if name.isdecimal() and len(name) < 19 else (1, 0, name)

    return {
        (ranks, name): i
        for ranks, found in names.items()
        for i, name in enumerate(sorted(found, key=order))
    }
