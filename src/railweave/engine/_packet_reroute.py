"""Routes around what is out: which paths hold from when, as the native engine's epochs.

Three views of an outage. The link itself is dead at once. A switch that loses a link upwards knows
at once too and spreads over those it has left, where its routing is by equal-cost sets; so does a
NIC that has another port. Everybody else, above all those who send down into the dead link, goes
around it ``convergence_s`` later. On the way back all wait that long, as sessions are set up anew.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from railweave._native import PacketEpoch, PacketSim
from railweave.design.models import RoutingScheme
from railweave.engine._packet_flows import FlowTable, route
from railweave.engine.faults import Fault, Interval, LinkDown, LinkFlap, Outage, SwitchReboot
from railweave.engine.packet_settings import PacketSettings
from railweave.fabric import Fabric, LinkLayer
from railweave.fabric.routing import RoutingSet
from railweave.workload import Traffic

__all__ = ["Rerouting", "outages", "reroutes", "steps"]

I64 = npt.NDArray[np.int64]
U32 = npt.NDArray[np.uint32]
Bool = npt.NDArray[np.bool_]
T = TypeVar("T")

#: schemes whose switches cannot mend anything themselves
_CENTRAL = (RoutingScheme.DESTINATION, RoutingScheme.TABLE)


def steps(spans: Iterable[tuple[Interval, T]]) -> Iterator[tuple[float, list[T]]]:
    """Yield each time at which what is in force changes, with what is in force from then on.

    Items stand in the order given. Spans that end where others begin change at one time.
    """
    items: list[T] = []
    turns: list[tuple[float, int, bool]] = []
    for (start, end), item in spans:
        turns.append((start, len(items), True))
        if end < math.inf:
            turns.append((end, len(items), False))
        items.append(item)
    turns.sort(key=lambda turn: turn[0])
    active: set[int] = set()
    for k, (time, number, begins) in enumerate(turns):
        (active.add if begins else active.discard)(number)
        if k + 1 == len(turns) or turns[k + 1][0] > time:
            yield time, [items[n] for n in sorted(active)]


def outages(fabric: Fabric, faults: Iterable[tuple[Fault, int]]) -> Iterator[tuple[Outage, I64]]:
    """Yield each outage with the duplex links that it takes out; ``faults`` with their target."""
    network = (fabric.link_layer >= LinkLayer.HOST_LEAF) & fabric.link_up
    for fault, target in faults:
        if isinstance(fault, LinkDown | LinkFlap):
            yield fault, np.array([target // 2], dtype=np.int64)
        elif isinstance(fault, SwitchReboot):
            yield fault, np.flatnonzero(network & (fabric.link_src == target)) // 2


@dataclass(frozen=True, eq=False)
class Rerouting:
    """What the paths of a run follow from; ``tables`` are the native tables' numbers by flow."""

    fabric: Fabric
    traffic: Traffic
    routing: RoutingSet
    settings: PacketSettings
    table: FlowTable
    tables: U32
    sim: PacketSim
    epochs: list[PacketEpoch] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class _Ways:
    """Each flow's path, shape (F, K) and −1 beyond its end, and the table of each plane."""

    link: I64
    tables: dict[int, int]


def reroutes(of: Rerouting, faults: Iterable[tuple[Fault, int]]) -> Iterator[tuple[float, int]]:
    """Yield (time, epoch) of every change of paths; adds epochs and tables as it goes."""
    local = _mends_itself(of)
    spans: list[tuple[Interval, I64]] = []
    for fault, duplex in outages(of.fabric, faults):
        both = np.concatenate((2 * duplex, 2 * duplex + 1))
        upward = both[local[both]]
        for start, end in fault.intervals():
            known = start + fault.convergence_s if start > 0 else 0.0
            back = end + fault.convergence_s
            spans += [((start, back), upward), ((known, back), both)]
    if not spans:
        return
    memo: dict[bytes, _Ways] = {}
    made: dict[tuple[bytes, bytes], int | None] = {}
    up = of.fabric.link_up
    now = up.tobytes()
    memo[now] = _base(of)
    for time, out in steps(spans):
        mask = up.copy()
        for links in out:
            mask[links] = False
        then = mask.tobytes()
        if then == now:
            continue
        if then not in memo:
            memo[then] = _ways(of, mask)
        if (now, then) not in made:
            made[now, then] = _add_epoch(of, memo[now], memo[then])
        number = made[now, then]
        if number is not None:
            yield time, number
        now = then


def _mends_itself(of: Rerouting) -> Bool:
    """Return the links whose source can do without them at once: upwards, among equals."""
    fabric = of.fabric
    below, above = fabric.node_tier[fabric.link_src], fabric.node_tier[fabric.link_dst]
    planes = [int(r.plane) for r in of.routing.planes.values() if r.scheme not in _CENTRAL]
    found: Bool = (below >= 0) & (above > below) & np.isin(fabric.link_plane, planes)
    return found


def _chosen(of: Rerouting) -> dict[int, int]:
    """Return the table of each plane whose packets choose their ways, by one of its flows."""
    free = np.flatnonzero(of.table.choice != 0)
    planes, first = np.unique(of.table.plane[free], return_index=True)
    return {int(p): int(of.tables[free[k]]) for p, k in zip(planes, first, strict=True)}


def _base(of: Rerouting) -> _Ways:
    return _Ways(_matrix(of.table.path_ptr, of.table.path_link), _chosen(of))


def _matrix(ptr: I64, link: I64) -> I64:
    length = np.diff(ptr)
    out = np.full((len(length), int(length.max(initial=1))), -1, dtype=np.int64)
    row = np.repeat(np.arange(len(length)), length)
    out[row, np.arange(len(link)) - ptr[:-1][row]] = link
    return out


def _ways(of: Rerouting, mask: Bool) -> _Ways:
    """Route over the links of ``mask``; flows that find no way keep theirs, into the dead link."""
    fabric = replace(of.fabric, link_up=mask)
    routing = of.routing.on(fabric)
    other = route(fabric, of.traffic, routing, of.settings, True)
    old, new = _base(of).link, _matrix(other.path_ptr, other.path_link)
    width = max(old.shape[1], new.shape[1])
    link = np.full((len(old), width), -1, dtype=np.int64)
    link[:, : old.shape[1]] = old
    row = _matched(of.table, other)
    mine = np.flatnonzero(row >= 0)
    moved = new[row[mine]]
    here = fabric.link_src[moved[:, 0]] == fabric.link_src[old[mine, 0]]
    ends = fabric.link_dst[_last(moved)] == fabric.link_dst[_last(old[mine])]
    # a queue pair stays with its NICs at both ends, though another may have a way
    use = here & ends & (other.plane[row[mine]] == of.table.plane[mine])
    link[mine[use]] = -1
    link[mine[use], : new.shape[1]] = moved[use]
    tables = {
        plane: int(of.sim.add_table(routed.table, routed.switch_seeds))
        for plane, routed in routing.planes.items()
        if int(plane) in _chosen(of)
    }
    return _Ways(link, {int(plane): number for plane, number in tables.items()})


def _last(link: I64) -> I64:
    length = (link >= 0).sum(axis=1)
    last: I64 = link[np.arange(len(link)), np.maximum(length - 1, 0)]
    return last


def _matched(base: FlowTable, other: FlowTable) -> I64:
    """Return each flow's row in the other table, −1 where it has none.

    Flows of a message are counted; where it has fewer now (a port is gone), they share.
    """
    a, b = base.given.paths, other.given.paths
    message = a.message[base.flow]
    count = np.diff(b.first)[message]
    turn = (base.flow - a.first[message]) % np.maximum(count, 1)
    row = np.full(b.n_flows + 1, -1, dtype=np.int64)
    row[other.flow] = np.arange(other.n_flows)
    found: I64 = row[np.where(count > 0, b.first[message] + turn, b.n_flows)]
    return found


def _add_epoch(of: Rerouting, before: _Ways, after: _Ways) -> int | None:
    """Add the change from one state to another; None where no flow is touched by it."""
    width = max(before.link.shape[1], after.link.shape[1])
    old, new = (_widened(ways.link, width) for ways in (before, after))
    flow = np.flatnonzero((old != new).any(axis=1))
    first = _chosen(of)
    swap = [p for p in first if before.tables[p] != after.tables[p]]
    if not flow.size and not swap:
        return None
    rows = new[flow]
    epoch = PacketEpoch()
    epoch.flow = flow.astype(np.uint32)
    lengths = (rows >= 0).sum(axis=1)
    epoch.path_ptr = np.concatenate(([0], np.cumsum(lengths))).astype(np.uint64)
    epoch.path_link = rows[rows >= 0].astype(np.uint32)
    epoch.table_from = np.array([first[p] for p in swap], dtype=np.uint32)
    epoch.table_to = np.array([after.tables[p] for p in swap], dtype=np.uint32)
    of.epochs.append(epoch)
    return len(of.epochs) - 1


def _widened(link: I64, width: int) -> I64:
    out = np.full((len(link), width), -1, dtype=np.int64)
    out[:, : link.shape[1]] = link
    return out
