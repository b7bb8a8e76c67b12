"""Which two flows are the two directions of one connection, where that can be known.

A packet names only the queue pair that it goes to. Datagrams also name their source. Of
connections, an acknowledgement or read response echoes a PSN of the other direction: where it fits
the requests of one flow between the two hosts and of no other, the two belong together. Where
there is one flow each way between two hosts, they belong together as well.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from railweave.transport.capture._columns import Columns
from railweave.transport.capture._flows import FlowKey, FlowTable
from railweave.transport.capture._opcodes import ROLE, Role
from railweave.transport.capture._sequence import Sequences

__all__ = ["Pairing", "Pairs"]

Ints = NDArray[np.int64]

#: flows of the other direction that an echo is held against, and echoes of each flow
_CANDIDATES: Final = 1024
_TRIES: Final = 16
_WRAP: Final = (1 << 24) - 1
#: PSNs that a requester can be ahead of what is acknowledged
_WINDOW: Final = 1 << 16
_NUMBER: Final = (1 << 24) - 1


class Pairing(StrEnum):
    """How the two directions of a connection were brought together."""

    SEQUENCE = "PSNs that the other direction echoes"
    ONLY = "no other queue pair between the two hosts"
    STATED = "datagrams name both queue pairs"
    UNKNOWN = "not known"


Hosts = tuple[int, int, int, int, int]
_INTERFACE: Final = 0xFFFF << 8


def _hosts(key: FlowKey) -> Hosts:
    """Return carrier and addresses of a flow, wherever it was captured."""
    return (key[0] & ~_INTERFACE, key[1], key[2], key[3], key[4])


def _turned(hosts: Hosts) -> Hosts:
    where, a, b, c, d = hosts
    return (where, c, d, a, b)


class Pairs:
    """Evidence of what belongs together, gathered chunk by chunk.

    Flows that differ only in the interface that saw them are the same way.
    """

    def __init__(self, table: FlowTable) -> None:
        self._table = table
        self._ways: dict[tuple[Hosts, int], int] = {}
        self._way_of: list[int] = []  #: of each flow
        self._between: dict[Hosts, list[int]] = defaultdict(list)  #: flows
        self._tries: Counter[int] = Counter()
        self._votes: Counter[tuple[int, int]] = Counter()

    def _index(self) -> None:
        for number in range(len(self._way_of), len(self._table)):
            key = self._table.keys[number]
            hosts = _hosts(key)
            self._way_of.append(self._ways.setdefault((hosts, key[5]), len(self._ways)))
            self._between[hosts].append(number)

    def observe(self, columns: Columns, flows: Ints, sequences: Sequences) -> None:
        """Look at the last echo of each flow of a chunk."""
        self._index()
        role = ROLE[columns.opcode]
        rows = np.flatnonzero((role == Role.ACKNOWLEDGE) | (role == Role.RESPONSE))[::-1]
        if not len(rows):
            return
        some, first = np.unique(flows[rows], return_index=True)
        for flow, psn in zip(some.tolist(), columns.psn[rows[first]].tolist(), strict=True):
            way = self._way_of[flow]
            if self._tries[way] >= _TRIES:
                continue
            self._tries[way] += 1
            others = self._between.get(_turned(_hosts(self._table.keys[flow])), [])
            fits = _fitting(np.array(others[:_CANDIDATES], np.int64), psn, sequences)
            ways = {self._way_of[other] for other in fits.tolist()}
            if len(ways) == 1:
                other = ways.pop()
                self._votes[min(way, other), max(way, other)] += 1

    def settle(self) -> dict[int, tuple[int, Pairing]]:
        """Return for each flow whose other direction is known that flow and how it is known.

        The other direction is taken at the same interface where it was seen there.
        """
        self._index()
        joined = self._settle_ways()
        flows: dict[int, list[int]] = defaultdict(list)
        for number, way in enumerate(self._way_of):
            flows[way].append(number)
        found: dict[int, tuple[int, Pairing]] = {}
        for number, way in enumerate(self._way_of):
            if way in joined:
                back, how = joined[way]
                place = self._table.keys[number][0]
                same = [n for n in flows[back] if self._table.keys[n][0] == place]
                found[number] = ((same or flows[back])[0], how)
        return found

    def _settle_ways(self) -> dict[int, tuple[int, Pairing]]:
        found: dict[int, tuple[int, Pairing]] = {}

        def join(a: int, b: int, how: Pairing) -> None:
            if a != b and a not in found and b not in found:
                found[a], found[b] = (b, how), (a, how)

        between: dict[Hosts, list[int]] = defaultdict(list)
        for (hosts, ends), way in self._ways.items():
            source = (ends >> 24) - 2
            if source >= 0:
                wanted = source | ((ends & _NUMBER) + 2) << 24
                join(way, self._ways.get((_turned(hosts), wanted), way), Pairing.STATED)
            elif not ends >> 24:
                between[hosts].append(way)
        for (a, b), _ in sorted(self._votes.items(), key=lambda item: (-item[1], item[0])):
            join(a, b, Pairing.SEQUENCE)
        for hosts, ways in between.items():
            back = between.get(_turned(hosts), [])
            if len(ways) == len(back) == 1:
                join(ways[0], back[0], Pairing.ONLY)
        return found


def _fitting(flows: Ints, psn: int, sequences: Sequences) -> Ints:
    """Return those flows whose requests have a PSN among those not long past."""
    state, streams = sequences.state, 2 * flows
    high = state["high"][streams]
    behind = (high - psn) & _WRAP
    seen = np.minimum(_WINDOW, high - state["first"][streams])
    fits: Ints = flows[(state["psn"][streams] >= 0) & (behind > 0) & (behind <= seen)]
    return fits
