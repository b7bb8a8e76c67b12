"""Packet sequence numbers of a capture: what is in order, what is missing, what is seen again.

Packets of a flow fall into two streams: requests, and read responses. Positions are PSNs unwrapped
to whole numbers. Of each stream the place behind the highest packet so far is kept: a packet there
is in order, one beyond it leaves a gap, one before it is late (it closes a gap) or seen again. A
read request takes as many PSNs as its response has packets; where the MTU is not known yet, the
next request is taken as it comes.

What is seen again is a copy where the same bytes came shortly before, as in a capture that sees
packets at two places; else it was sent again, for timeouts are longer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from railweave.transport.capture._flows import Growing
from railweave.transport.capture._opcodes import BEGINS

__all__ = ["MOST_HOLES", "SOON_NS", "Ordered", "Sequences", "Strays"]

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

#: gaps that one stream keeps open; older ones count as never closed
MOST_HOLES: Final = 256
_HALF: Final = 1 << 23
_WRAP: Final = (1 << 24) - 1
#: further jumps are another connection on the same queue pair number, or a long break
_MOST_JUMP: Final = 1 << 16
#: more than any position differs from its segment's base: 2^15 packets a chunk, 2^24 each, twice
_APART: Final = 1 << 44
_MOST_STRAYS: Final = 1 << 18
#: a copy of a packet comes within this time: longer than a path, shorter than usual timeouts
SOON_NS: Final = 100_000
#: packets that are kept from one chunk to the next to find their copies
_MOST_RECENT: Final = 1 << 14


@dataclass(frozen=True, slots=True)
class Ordered:
    """Packets of streams sorted by stream, each stream in the order of the capture.

    ``span`` are the PSNs that a packet takes, ``loose`` is true where that is not known. ``icrc``
    is -1 where it was not captured.
    """

    stream: Ints
    opcode: Ints
    psn: Ints
    time_ns: Ints
    payload: Ints
    declared: Ints
    number: Ints
    span: Ints
    loose: Flags
    icrc: Ints

    def take(self, rows: Ints) -> Ordered:
        """Return some of the packets, in the order of ``rows``."""
        return Ordered(*(getattr(self, name)[rows] for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class Placed:
    """Where packets stand: position, whether ahead of all before, and at the start of an epoch."""

    position: Ints
    fresh: Flags
    breaks: Flags


class Strays:
    """Packets that came late or again: (stream, position, time, payload, late, begins)."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, int, int, bool, bool]] = []
        self.beyond = 0

    def add(self, row: tuple[int, int, int, int, bool, bool]) -> None:
        """Keep one, up to the most."""
        if len(self.rows) < _MOST_STRAYS:
            self.rows.append(row)
        else:
            self.beyond += 1


class Sequences:
    """The state of every stream, carried from chunk to chunk."""

    def __init__(self) -> None:
        self.state = Growing(
            {
                "psn": -1, "position": 0, "high": 0, "loose": 0, "first": 0,
                "last_span": 1, "last_loose": 0,
                "again": 0, "repeated": 0, "missing": 0, "late": 0, "gaps": 0, "restarts": 0,
                "retries": 0, "stuck_ns": -1,
            }
        )  # fmt: skip
        self.strays = Strays()
        self._holes: dict[int, list[tuple[int, int]]] = {}
        self._recent = np.zeros((4, 0), np.int64)  #: stream, position, time, ICRC

    def reach(self, streams: int) -> None:
        """Make room for so many streams."""
        self.state.reach(streams)

    def place(self, packets: Ordered) -> Placed:
        """Place packets of a chunk and count what is out of order."""
        state, stream = self.state, packets.stream
        new = np.ones(len(stream), np.bool_)
        new[1:] = stream[1:] != stream[:-1]
        starts = np.flatnonzero(new)
        known = state["psn"][stream[starts]]
        before = np.empty_like(packets.psn)
        before[1:] = packets.psn[:-1]
        before[starts] = np.where(known < 0, packets.psn[starts], known)
        step = ((packets.psn - before + _HALF) & _WRAP) - _HALF
        segment = np.cumsum(new) - 1
        walked = np.cumsum(step)
        at_start = np.where(known < 0, packets.psn[starts], state["position"][stream[starts]])
        position = walked + (at_start - walked[starts] + step[starts])[segment]
        span, loose = np.empty_like(packets.span), np.empty_like(packets.loose)
        span[1:], loose[1:] = packets.span[:-1], packets.loose[:-1]
        span[starts] = state["last_span"][stream[starts]]
        loose[starts] = state["last_loose"][stream[starts]] > 0
        restarts = (np.abs(step - span) > _MOST_JUMP) & ~(loose & (step > 0))
        unseen = starts[known < 0]
        restarts[unseen] = False
        state["first"][stream[unseen]] = position[unseen]
        placed, again = self._judge(packets, position, new, unseen, restarts)
        copies = self._copies(packets, position, again)
        np.add.at(state["repeated"], stream[copies], 1)
        self._progress(packets, placed.fresh, starts, again & ~copies & (step <= 0))
        return placed

    def _copies(self, packets: Ordered, position: Ints, again: Flags) -> Flags:
        """Return which of the packets seen again are copies: the same bytes came shortly before.

        The ICRC covers all that no switch changes, the identification of IP among it.
        """
        rows = np.array([packets.stream, position, packets.time_ns, packets.icrc])
        kept = self._recent.shape[1]
        known = np.concatenate([self._recent, rows], axis=1)
        copies = np.zeros(len(position), np.bool_)
        if again.any():
            some = np.flatnonzero(np.isin(known[0], packets.stream[again]))
            some = some[np.lexsort((known[1, some], known[0, some]))]
            before, here = known[:, some[:-1]], known[:, some[1:]]
            same = (before[:2] == here[:2]).all(axis=0)
            same &= np.abs(here[2] - before[2]) <= SOON_NS
            same &= (here[3] == before[3]) | (here[3] < 0) | (before[3] < 0)
            found = some[1:][same] - kept
            copies[found[found >= 0]] = True
            copies &= again
        late = np.flatnonzero(known[2] >= known[2].max() - SOON_NS)
        if len(late) > _MOST_RECENT:
            newest = np.argsort(known[2, late], kind="stable")[-_MOST_RECENT:]
            late = late[np.sort(newest)]
        self._recent = known[:, late]
        return copies

    def _progress(self, packets: Ordered, fresh: Flags, starts: Ints, anew: Flags) -> None:
        """Count how often each stream began anew since it last got on, and since when."""
        state, rows = self.state, np.arange(len(fresh))
        latest = np.maximum.reduceat(np.where(fresh, rows, -1), starts)
        state["retries"][packets.stream[starts[latest >= 0]]] = 0
        if not anew.any():
            return
        sizes = np.diff(np.append(starts, len(fresh)))
        tried = np.flatnonzero(anew & (rows > np.repeat(latest, sizes)))
        some, first = np.unique(packets.stream[tried], return_index=True)
        begun = state["retries"][some] == 0
        state["stuck_ns"][some[begun]] = packets.time_ns[tried[first[begun]]]
        np.add.at(state["retries"], packets.stream[tried], 1)

    def _judge(
        self, packets: Ordered, position: Ints, new: Flags, unseen: Ints, restarts: Flags
    ) -> tuple[Placed, Flags]:
        """Return where packets stand, and which of them were seen again."""
        state, stream = self.state, packets.stream
        breaks = restarts.copy()
        breaks[unseen] = True
        heads = new | breaks
        segment = np.cumsum(heads) - 1
        first = np.flatnonzero(heads)
        fresh_start = breaks[first]
        base = np.where(fresh_start, position[first], state["high"][stream[first]])
        relative = position - base[segment]
        after = 2 * (relative + packets.span) + packets.loose
        reach = np.empty_like(after)
        reach[1:] = after[:-1]
        reach[first] = np.where(fresh_start, 0, state["loose"][stream[first]])
        highest = np.maximum.accumulate(reach + segment * _APART) - segment * _APART
        high, loose = highest >> 1, (highest & 1).astype(np.bool_)
        fresh = relative >= high
        excused = loose | ((stream & 1).astype(np.bool_) & BEGINS[packets.opcode])
        gap = fresh & (relative > high) & ~excused
        again = self._irregular(
            packets, position, position - relative + high, gap=gap, behind=~fresh,
            restarts=restarts,
        )  # fmt: skip
        last = np.flatnonzero(np.append(stream[1:] != stream[:-1], True))
        ends, reached = stream[last], np.maximum(highest, after)[last]
        state["psn"][ends], state["position"][ends] = packets.psn[last], position[last]
        state["high"][ends] = base[segment[last]] + (reached >> 1)
        state["loose"][ends] = reached & 1
        state["last_span"][ends] = packets.span[last]
        state["last_loose"][ends] = packets.loose[last]
        return Placed(position, fresh, breaks), again

    def _irregular(
        self, packets: Ordered, position: Ints, high: Ints, *, gap: Flags, behind: Flags,
        restarts: Flags,
    ) -> Flags:  # fmt: skip
        """Count gaps and what closes them; one by one, for they are few in sound captures.

        Return which packets were seen again.
        """
        rows = np.flatnonzero(gap | behind | restarts)
        seen_again = np.zeros(len(position), np.bool_)
        if not len(rows):
            return seen_again
        columns = (
            packets.stream, position, high, packets.time_ns, packets.payload,
            BEGINS[packets.opcode], gap, restarts,
        )  # fmt: skip
        found: dict[str, list[int]] = {name: [] for name in ("again", "late", "gaps", "restarts")}
        lost: list[tuple[int, int]] = []
        for row, stream, at, reached, time, payload, begins, is_gap, is_restart in zip(
            rows.tolist(), *(column[rows].tolist() for column in columns), strict=True
        ):
            if is_restart:
                self._holes.pop(stream, None)
                self.state["first"][stream] = at
                if not stream & 1:
                    found["restarts"].append(stream)
            elif is_gap:
                holes = self._holes.setdefault(stream, [])
                holes.append((reached, at))
                del holes[:-MOST_HOLES]
                lost.append((stream, at - reached))
                found["gaps"].append(stream)
            else:
                earlier = self._open_before(stream, at)
                late = earlier > 0 or self._close(stream, at)
                if earlier:
                    lost.append((stream, earlier))
                found["late" if late else "again"].append(stream)
                seen_again[row] = not late
                self.strays.add((stream, at, time, payload, late, begins))
        for name, streams in found.items():
            np.add.at(self.state[name], np.array(streams, np.int64), 1)
        if lost:
            streams, sizes = np.array(lost, np.int64).T
            np.add.at(self.state["missing"], streams, sizes)
        return seen_again

    def _open_before(self, stream: int, at: int) -> int:
        """Note a packet from before the first one of its stream; return the PSNs from it to there.

        It was lost before this place, or is of a time before the capture.
        """
        first = int(self.state["first"][stream])
        if at >= first:
            return 0
        self.state["first"][stream] = at
        if at + 1 < first:
            self._holes.setdefault(stream, []).insert(0, (at + 1, first))
        return first - at

    def _close(self, stream: int, at: int) -> bool:
        """Take a position out of the open gaps; return whether it stood in one."""
        holes = self._holes.get(stream)
        if not holes:
            return False
        for i in range(len(holes) - 1, -1, -1):
            begin, end = holes[i]
            if begin <= at < end:
                holes[i : i + 1] = [
                    part for part in ((begin, at), (at + 1, end)) if part[0] < part[1]
                ]
                return True
            if at >= end:
                return False
        return False
