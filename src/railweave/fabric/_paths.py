"""`Paths`: the links each message uses, one row a flow, and the row arithmetic behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TypeVar

import numpy as np
import numpy.typing as npt

__all__ = ["PathStatus", "Paths", "gather_rows", "join_rows", "merge_paths", "splitmix64"]

I8 = npt.NDArray[np.int8]
U8 = npt.NDArray[np.uint8]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]
F64 = npt.NDArray[np.float64]
Value = TypeVar("Value", bound=np.generic)


class PathStatus(IntEnum):
    """Why a flow has no path; the first four are the native core's."""

    OK = 0
    UNREACHABLE = 1  #: no up–down path between the two ends
    NO_ENTRY = 2  #: a forwarding table has no entry for the destination
    LOOP = 3  #: a forwarding table sends the flow round in circles
    NO_NIC = 4  #: an end has no NIC in this plane


@dataclass(frozen=True, eq=False)
class Paths:
    """Flows of M messages in CSR form; message ``m`` owns flows ``first[m]:first[m+1]``.

    Flow ``f`` carries ``share[f]`` of its message over links ``link[ptr[f]:ptr[f+1]]``, in order;
    with ``weight`` (spraying) each link carries that part of the flow's bytes, and the links stand
    in no particular order. ``plane`` is the PlaneId that the flow is of, −1 where it stays
    inside a server or scale-up domain. ``hops`` counts the links of one (the longest) way.
    ``indirect`` counts messages that left through another GPU's NIC.
    """

    first: I64
    share: F64
    ptr: I64
    link: I32
    weight: F64 | None
    plane: I8
    status: U8
    indirect: int = 0

    def of_plane(self, plane: int) -> Paths:
        """Return these paths as those of another plane, on the same network."""
        inside = self.plane < 0
        return replace(self, plane=np.where(inside, self.plane, plane).astype(np.int8))

    @property
    def n_messages(self) -> int:
        """Number of messages."""
        return len(self.first) - 1

    @property
    def n_flows(self) -> int:
        """Number of flows."""
        return len(self.share)

    @property
    def message(self) -> I64:
        """Message of each flow, shape (F,)."""
        return np.repeat(np.arange(self.n_messages, dtype=np.int64), np.diff(self.first))

    def links_of(self, message: int) -> list[I32]:
        """Return the links of each flow of one message."""
        flows = range(int(self.first[message]), int(self.first[message + 1]))
        return [self.link[self.ptr[f] : self.ptr[f + 1]] for f in flows]


def splitmix64(value: U64) -> U64:
    """Mix 64-bit numbers (Steele, Lea and Flood 2014): every input bit moves half the output's."""
    z = value + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: U64 = z ^ (z >> np.uint64(31))
    return mixed


def gather_rows(ptr: I64, order: I64) -> tuple[I64, I64]:
    """Return the row pointers and the entry positions of CSR rows taken in this order."""
    length = np.diff(ptr)[order]
    new = np.concatenate(([0], np.cumsum(length)))
    entry = np.repeat(ptr[:-1][order] - new[:-1], length) + np.arange(new[-1])
    return new, entry


def join_rows(
    parts: Sequence[tuple[I64, npt.NDArray[Value]]],
) -> tuple[I64, npt.NDArray[Value]]:
    """Lay the rows of several CSR arrays of equal height end to end, row by row."""
    lengths = np.stack([np.diff(ptr) for ptr, _ in parts])
    ptr = np.concatenate(([0], np.cumsum(lengths.sum(axis=0))))
    joined = np.empty(int(ptr[-1]), dtype=parts[0][1].dtype)
    start = ptr[:-1].copy()
    for (part_ptr, values), length in zip(parts, lengths, strict=True):
        at = np.repeat(start - part_ptr[:-1], length) + np.arange(len(values))
        joined[at] = values
        start += length
    return ptr, joined


def merge_paths(n_messages: int, parts: Sequence[tuple[I64, Paths]]) -> Paths:
    """Put paths of subsets of the messages together.

    Each part gives the message numbers, rising, that its own messages stand for; the parts are
    disjoint and leave none out.
    """
    if len(parts) == 1:
        return parts[0][1]
    part_of = np.empty(n_messages, dtype=np.int8)
    flows = np.empty(n_messages, dtype=np.int64)
    for number, (ids, paths) in enumerate(parts):
        part_of[ids] = number
        flows[ids] = np.diff(paths.first)
    part_of_flow = np.repeat(part_of, flows)
    n = len(part_of_flow)
    share, length = np.empty(n), np.empty(n, dtype=np.int64)
    plane, status = np.empty(n, dtype=np.int8), np.empty(n, dtype=np.uint8)
    for number, (_, paths) in enumerate(parts):
        mine = part_of_flow == number
        share[mine], length[mine] = paths.share, np.diff(paths.ptr)
        plane[mine], status[mine] = paths.plane, paths.status
    part_of_entry = np.repeat(part_of_flow, length)
    link = np.empty(len(part_of_entry), dtype=np.int32)
    weighted = any(paths.weight is not None for _, paths in parts)
    weight = np.ones(len(part_of_entry)) if weighted else None
    for number, (_, paths) in enumerate(parts):
        mine = part_of_entry == number
        link[mine] = paths.link
        if weight is not None and paths.weight is not None:
            weight[mine] = paths.weight
    return Paths(
        np.concatenate(([0], np.cumsum(flows))),
        share,
        np.concatenate(([0], np.cumsum(length))),
        link,
        weight,
        plane,
        status,
        sum(paths.indirect for _, paths in parts),
    )
