"""Who sends to which queue pair: flows of a capture, and what each of them adds up to.

A flow is one direction towards one queue pair, as one interface of the capture saw it.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from railweave.formats.pcap import PacketChunk
from railweave.transport.capture._columns import Columns, IcrcState
from railweave.transport.capture._opcodes import (
    BEGINS,
    FULL,
    OPERATION,
    OPERATION_NAMES,
    ROLE,
    Role,
)

__all__ = ["MOST_FLOWS", "NAK_REASONS", "FlowKey", "FlowTable", "Growing"]

#: flows that are told apart; packets of further ones are counted only
MOST_FLOWS: Final = 65_536
#: reasons of NAKs, by their code; the last one stands for those that are reserved
NAK_REASONS: Final = (
    "PSN sequence error", "invalid request", "remote access error", "remote operational error",
    "invalid RD request", "reserved code",
)  # fmt: skip
#: interface and kind, source, target (two halves each), queue pairs
FlowKey = tuple[int, int, int, int, int, int]
Ints = NDArray[np.int64]

#: odd numbers for mixing columns; equal sums of unequal keys are noticed and sorted out
_MIX: Final = np.array(
    [0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93,
     0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53],
    np.uint64,
)  # fmt: skip
_FIRST_ROWS: Final = 64


class Growing:
    """Columns of one row a flow that grow as flows appear."""

    def __init__(self, defaults: dict[str, int], widths: dict[str, int] | None = None) -> None:
        self._defaults = defaults
        self._widths = widths or {}
        self._columns: dict[str, Ints] = {name: self._fresh(name, _FIRST_ROWS) for name in defaults}
        self._room = _FIRST_ROWS

    def _fresh(self, name: str, rows: int) -> Ints:
        width = self._widths.get(name)
        shape = (rows,) if width is None else (rows, width)
        return np.full(shape, self._defaults[name], np.int64)

    def reach(self, rows: int) -> None:
        """Make room for so many rows."""
        while self._room < rows:
            for name, column in self._columns.items():
                self._columns[name] = np.concatenate([column, self._fresh(name, self._room)])
            self._room *= 2

    def __getitem__(self, name: str) -> Ints:
        return self._columns[name]


_LATEST: Final = np.iinfo(np.int64).max
_COUNTED: Final = (
    "packets", "wire_bytes", "payload_bytes", "marked", "markable", "not_markable", "requests",
    "responses", "acknowledgements", "cnps", "rnr", "icrc_right", "icrc_wrong", "icrc_unchecked",
)  # fmt: skip
_DEFAULTS: Final = {
    **dict.fromkeys(_COUNTED, 0), "first_ns": _LATEST, "last_ns": -1, "mtu": 0, "service": -1,
    "port": -1, "class": -1, "naks": 0, "operations": 0,
}  # fmt: skip


class FlowTable:
    """The flows of a capture, numbered in the order in which they appear."""

    def __init__(self, most: int = MOST_FLOWS) -> None:
        self.keys: list[FlowKey] = []
        self.sums = Growing(
            _DEFAULTS, {"naks": len(NAK_REASONS), "operations": len(OPERATION_NAMES)}
        )
        self.beyond = 0  #: packets of flows beyond the most
        self._numbers: dict[FlowKey, int] = {}
        self._most = most

    def __len__(self) -> int:
        return len(self.keys)

    def identify(self, chunk: PacketChunk, columns: Columns) -> Ints:
        """Return the flow of each RDMA packet; -1 where there are too many flows."""
        if not len(columns.row):
            return np.zeros(0, np.int64)
        interface = chunk.interfaces[columns.row]
        datagram = ROLE[columns.opcode] == Role.DATAGRAM
        ends = columns.dest_qp | np.where(datagram, (columns.source_qp + 2) << 24, 0)
        where = columns.rdma_kind | interface << 8 | columns.vlan << 24
        parts = [where.astype(np.uint64), *columns.source, *columns.target, ends.astype(np.uint64)]
        first, inverse = _distinct(parts)
        order = np.argsort(first)
        keys = zip(*(part[first[order]].tolist() for part in parts), strict=True)
        numbers = np.empty(len(first), np.int64)
        numbers[order] = [self._number(key) for key in keys]
        self.sums.reach(len(self.keys))
        flows = numbers[inverse]
        self.beyond += int((flows < 0).sum())
        return flows

    def _number(self, key: FlowKey) -> int:
        number = self._numbers.get(key, -1)
        if number < 0 and len(self.keys) < self._most:
            number = self._numbers[key] = len(self.keys)
            self.keys.append(key)
        return number

    def find(self, key: FlowKey) -> int:
        """Return the number of a flow, -1 where there is none."""
        return self._numbers.get(key, -1)

    def add(self, chunk: PacketChunk, columns: Columns, flows: Ints) -> None:
        """Add a chunk's packets to the sums of their flows (none of them -1)."""
        if not len(flows):
            return
        some, at = np.unique(flows, return_inverse=True)
        n, sums, opcode = len(some), self.sums, columns.opcode
        role, times = ROLE[opcode], chunk.times_ns[columns.row]
        data = (role == Role.REQUEST) | (role == Role.RESPONSE) | (role == Role.DATAGRAM)
        ecn = np.where(columns.rdma_kind <= 3, columns.traffic_class & 3, -1)
        nak = columns.syndrome >> 5
        counted = {
            "marked": ecn == 3,
            "markable": data & ((ecn == 1) | (ecn == 2)),
            "not_markable": data & (ecn == 0),
            "requests": role == Role.REQUEST,
            "responses": role == Role.RESPONSE,
            "acknowledgements": role == Role.ACKNOWLEDGE,
            "cnps": role == Role.CNP,
            "rnr": (columns.syndrome >= 0) & (nak == 1),
            "icrc_right": columns.icrc == IcrcState.RIGHT,
            "icrc_wrong": columns.icrc == IcrcState.WRONG,
            "icrc_unchecked": columns.icrc == IcrcState.UNCHECKED,
        }
        for name, flags in counted.items():
            if flags.any():
                sums[name][some] += np.bincount(at[flags], minlength=n)
        sums["packets"][some] += np.bincount(at, minlength=n)
        sums["wire_bytes"][some] += _sum(at, chunk.originals[columns.row], n)
        moved = np.where(role == Role.CNP, 0, columns.payload_bytes)
        sums["payload_bytes"][some] += _sum(at, moved, n)
        np.minimum.at(sums["first_ns"], flows, times)
        np.maximum.at(sums["last_ns"], flows, times)
        full = FULL[opcode]
        np.maximum.at(sums["mtu"], flows[full], columns.payload_bytes[full])
        self._first("service", flows, opcode >> 5, role != Role.CNP)
        self._first("port", flows, columns.source_port, role >= 0)
        self._first("class", flows, columns.traffic_class >> 2, data)
        refused = (columns.syndrome >= 0) & (nak == 3)
        if refused.any():
            code = np.minimum(columns.syndrome[refused] & 31, len(NAK_REASONS) - 1)
            np.add.at(sums["naks"], (flows[refused], code), 1)
        begins = BEGINS[opcode]
        np.add.at(sums["operations"], (flows[begins], OPERATION[opcode[begins]]), 1)

    def _first(self, name: str, flows: Ints, values: Ints, rows: NDArray[np.bool_]) -> None:
        """Keep the first value of each flow."""
        some, first = np.unique(flows[rows], return_index=True)
        column = self.sums[name]
        column[some] = np.where(column[some] < 0, values[rows][first], column[some])


def _sum(at: Ints, values: Ints, n: int) -> Ints:
    # A chunk's bytes stay far below the 2^53 that a float counts exactly.
    return np.bincount(at, weights=values, minlength=n).astype(np.int64)


def _distinct(parts: list[NDArray[np.uint64]]) -> tuple[Ints, Ints]:
    """Return the first row of each distinct key, and for each row which one it is."""
    mixed = np.zeros(len(parts[0]), np.uint64)
    for part, factor in zip(parts, _MIX, strict=True):
        mixed ^= mixed >> np.uint64(29)
        mixed = (mixed + part) * factor
    _, first, inverse = np.unique(mixed, return_index=True, return_inverse=True)
    if any((part[first[inverse]] != part).any() for part in parts):
        rows = np.stack(parts, axis=1)
        _, first, inverse = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return first.astype(np.int64), inverse.reshape(-1).astype(np.int64)
