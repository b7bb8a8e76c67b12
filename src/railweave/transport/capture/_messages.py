"""Messages of a capture: from the first packet of each to its last one.

Made of packets in order; those that came late or again are added to their message at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from railweave.transport.capture._flows import Growing
from railweave.transport.capture._opcodes import BEGINS, ENDS, OPERATION, OPERATION_NAMES
from railweave.transport.capture._sequence import Ordered, Placed, Strays

__all__ = ["MOST_MESSAGES", "MessageColumns", "Messages"]

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

#: messages that are kept one by one; further ones are counted
MOST_MESSAGES: Final = 20_000
_NAMES: Final = (
    "stream", "operation", "psn", "first", "last", "payload", "packets", "begin_ns", "end_ns",
    "declared", "begun", "ended", "number",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class MessageColumns:
    """Messages as columns; ``again`` are packets seen again, ``whole`` that none is missing."""

    stream: Ints
    operation: Ints
    psn: Ints
    first: Ints
    last: Ints
    payload: Ints
    packets: Ints
    begin_ns: Ints
    end_ns: Ints
    declared: Ints
    begun: Ints
    ended: Ints
    number: Ints
    again: Ints

    @property
    def whole(self) -> Flags:
        """Whether first and last packet and all between them were seen."""
        complete = self.packets >= self.last - self.first + 1
        return (self.begun > 0) & (self.ended > 0) & complete


class Messages:
    """Messages that are complete, and the open one of each stream."""

    def __init__(self, most: int = MOST_MESSAGES) -> None:
        self.most = most
        self.kept = 0
        self.counts = np.zeros(len(OPERATION_NAMES), np.int64)
        self.payload = np.zeros(len(OPERATION_NAMES), np.int64)
        self._open = Growing({"open": 0, **dict.fromkeys(_NAMES, 0)})
        self._pieces: list[dict[str, Ints]] = []

    def reach(self, streams: int) -> None:
        """Make room for so many streams."""
        self._open.reach(streams)

    def add(self, packets: Ordered, placed: Placed) -> None:
        """Add packets of a chunk, those that are in order."""
        rows = np.flatnonzero(placed.fresh)
        if not len(rows):
            return
        packets, position = packets.take(rows), placed.position[rows]
        stream, opcode = packets.stream, packets.opcode
        new = np.ones(len(rows), np.bool_)
        new[1:] = stream[1:] != stream[:-1]
        starts = np.flatnonzero(new)
        # Where an epoch begins, nothing goes on; its first packet is in order by definition.
        begins = BEGINS[opcode] | placed.breaks[rows]
        begins[1:] |= ENDS[opcode[:-1]] & ~new[1:]
        goes_on = ~begins[starts] & (self._open["open"][stream[starts]] > 0)
        self._interrupt(stream[starts[~goes_on]])
        heads = np.flatnonzero(new | begins)
        tails = np.append(heads[1:], len(rows)) - 1
        group = {
            "stream": stream[heads],
            "operation": OPERATION[opcode[tails]].astype(np.int64),
            "psn": packets.psn[heads],
            "first": position[heads],
            "last": position[tails],
            "payload": np.add.reduceat(packets.payload, heads),
            "packets": tails - heads + 1,
            "begin_ns": packets.time_ns[heads],
            "end_ns": packets.time_ns[tails],
            "declared": packets.declared[heads],
            "begun": BEGINS[opcode[heads]].astype(np.int64),
            "ended": ENDS[opcode[tails]].astype(np.int64),
            "number": packets.number[heads],
        }
        self._join(group, np.flatnonzero(np.isin(heads, starts[goes_on])))
        final = np.append(group["stream"][1:] != group["stream"][:-1], True)
        stays = final & (group["ended"] == 0)
        self._store({name: column[~stays] for name, column in group.items()})
        open_streams = group["stream"][stays]
        for name, column in group.items():
            self._open[name][open_streams] = column[stays]
        self._open["open"][group["stream"][final]] = 0
        self._open["open"][open_streams] = 1

    def datagrams(self, packets: Ordered) -> None:
        """Add datagrams, each a message of its own."""
        ones = np.ones(len(packets.stream), np.int64)
        self._store(
            {
                "stream": packets.stream, "operation": OPERATION[packets.opcode].astype(np.int64),
                "psn": packets.psn, "first": packets.psn, "last": packets.psn,
                "payload": packets.payload, "packets": ones, "begin_ns": packets.time_ns,
                "end_ns": packets.time_ns, "declared": -ones, "begun": ones, "ended": ones,
                "number": packets.number,
            }
        )  # fmt: skip

    def _join(self, group: dict[str, Ints], rows: Ints) -> None:
        """Put what a stream had open before messages that go on with it."""
        streams, opened = group["stream"][rows], self._open
        for name in ("psn", "first", "begin_ns", "declared", "begun", "number"):
            group[name][rows] = opened[name][streams]
        for name in ("payload", "packets"):
            group[name][rows] += opened[name][streams]

    def _interrupt(self, streams: Ints) -> None:
        """Close open messages whose last packet was never seen."""
        closed = streams[self._open["open"][streams] > 0]
        if len(closed):
            self._store({name: self._open[name][closed].copy() for name in _NAMES})
            self._open["open"][closed] = 0

    def _store(self, group: dict[str, Ints]) -> None:
        operation = group["operation"]
        n = len(OPERATION_NAMES)
        self.counts += np.bincount(operation, minlength=n)
        payload = np.bincount(operation, weights=group["payload"], minlength=n)
        self.payload += payload.astype(np.int64)
        room = self.most - self.kept
        if room > 0 and len(operation):
            self._pieces.append({name: column[:room].copy() for name, column in group.items()})
            self.kept += min(room, len(operation))

    def finish(self, strays: Strays) -> MessageColumns:
        """Close what is open; return the messages that were kept, in the order of their begins."""
        self._interrupt(np.flatnonzero(self._open["open"] > 0))
        empty = np.zeros(0, np.int64)
        columns = {
            name: np.concatenate([piece[name] for piece in self._pieces] or [empty])
            for name in _NAMES
        }
        columns["again"] = np.zeros(len(columns["stream"]), np.int64)
        _attach(columns, strays)
        order = np.lexsort((columns["number"], columns["begin_ns"]))
        return MessageColumns(**{name: column[order] for name, column in columns.items()})


def _attach(columns: dict[str, Ints], strays: Strays) -> None:
    """Add packets that came late or again to the message in which their position lies."""
    n, more = len(columns["stream"]), len(strays.rows)
    if not n or not more:
        return
    stream, position, time, payload, late, begins = (
        np.array(column, np.int64) for column in zip(*strays.rows, strict=True)
    )
    # Sorted together, the message before a packet in its stream is the one it can belong to.
    order = np.lexsort(
        (
            np.repeat([0, 1], [n, more]),
            np.concatenate([columns["first"], position]),
            np.concatenate([columns["stream"], stream]),
        )
    )
    message = np.maximum.accumulate(np.where(order < n, np.arange(n + more), -1))
    places = np.flatnonzero((order >= n) & (message >= 0))
    owner, stray = order[message[places]], order[places] - n
    fits = (columns["stream"][owner] == stream[stray]) & (position[stray] <= columns["last"][owner])
    owner, stray = owner[fits], stray[fits]
    came = late[stray] > 0
    np.add.at(columns["payload"], owner[came], payload[stray[came]])
    np.add.at(columns["packets"], owner[came], 1)
    np.add.at(columns["again"], owner[~came], 1)
    np.maximum.at(columns["end_ns"], owner, time[stray])
    rest = late > 0
    rest[stray] = False
    rows = np.flatnonzero(rest)
    keys = zip(stream[rows].tolist(), position[rows].tolist(), rows.tolist(), strict=True)
    _extend(columns, list(keys), begins, payload)


def _extend(
    columns: dict[str, Ints], rest: list[tuple[int, int, int]], begins: Ints, payload: Ints
) -> None:
    """Put late packets before messages whose begin was not seen, the nearest one first."""
    keys = zip(columns["stream"].tolist(), columns["first"].tolist(), strict=True)
    begun = columns["begun"]
    starts = {key: i for i, key in enumerate(keys) if not begun[i]}
    for stream, position, row in sorted(rest, reverse=True):
        owner = starts.pop((stream, position + 1), None)
        if owner is None:
            continue
        columns["first"][owner] = position
        columns["payload"][owner] += payload[row]
        columns["packets"][owner] += 1
        begun[owner] = begins[row]
        if not begins[row]:
            starts[stream, position] = owner
