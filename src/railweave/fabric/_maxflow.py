"""Exact maximum flow between two sets of host links, at any size.

Capacities are divided by their greatest common divisor. Where their sum then fits in 32 bits,
SciPy's Dinic solves the network as it is. Else (links at odd fractions of their speed) two steps,
both exact:

1. *Collapse.* Switches are parted into classes such that every switch of a class has the same
   capacity to each class, to the source and to the sink (an equitable partition, found by colour
   refinement). The maximum flow of the class graph is that of the network: a flow summed by class
   obeys the class graph's limits; and a class flow handed out over the links of each class pair in
   proportion to their capacity obeys every limit and is conserved at every switch, because all
   switches of a class have equal shares.
2. *Solve* the class graph with Dinic's algorithm on Python integers, which have no limit.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["Arcs", "collapse", "max_flow", "network_max_flow"]

I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]
#: source, target, capacity of directed arcs; sorted by source where a network is meant
Arcs = tuple[I64, I64, I64]

_INT32_MAX: Final = 2**31 - 1
_MAX_ROUNDS: Final = 64  # long chains refine slowly; beyond this the network is solved as it is


def network_max_flow(
    arcs: Arcs, supply: I64, demand: I64, *, collapsing: bool | None = None
) -> int:
    """Return the maximum flow from ``supply`` (n,) through the arcs to ``demand`` (n,).

    Args:
        arcs: both directions of each trunk, sorted by source.
        supply: what may enter at each switch, whole numbers.
        demand: what may leave at each switch.
        collapsing: merge equal switches first; None does so where 32 bits are too few for the
            compiled solver (a link at an odd fraction of its speed). The value is the same.
    """
    graph = _with_ends(arcs, supply, demand)
    if collapsing is None:
        collapsing = not _fits(graph[2])
    colours = collapse(arcs, supply, demand) if collapsing else None
    if colours is not None:
        arcs, supply, demand = _class_graph(arcs, supply, demand, colours)
        graph = _with_ends(arcs, supply, demand)
    return max_flow(len(supply) + 2, graph, len(supply), len(supply) + 1)


def _with_ends(arcs: Arcs, supply: I64, demand: I64) -> Arcs:
    """Add the source as node n and the sink as node n+1; drop arcs without capacity."""
    source, target, capacity = arcs
    n = len(supply)
    enter, leave, live = np.flatnonzero(supply), np.flatnonzero(demand), capacity > 0
    return (
        np.concatenate((source[live], np.full(len(enter), n), leave)),
        np.concatenate((target[live], enter, np.full(len(leave), n + 1))),
        np.concatenate((capacity[live], supply[enter], demand[leave])),
    )


def _fits(capacity: I64) -> bool:
    """Tell whether 32 bits hold the sum of all capacities in their largest common unit."""
    if not len(capacity):
        return True
    return int((capacity // np.gcd.reduce(capacity)).sum()) <= _INT32_MAX


def collapse(arcs: Arcs, supply: I64, demand: I64) -> I64 | None:
    """Return the coarsest equitable partition as a class for each switch, or None.

    None means that collapsing would not pay (many rounds, or hardly any equal switches). Signatures
    are sums modulo 2^64 of capacity × a mixed class number; the outcome is checked exactly, so
    that a collision can cost time but never exactness.
    """
    source, target, capacity = arcs
    colour = _number(supply.astype(np.uint64), demand.astype(np.uint64))
    n, classes = len(supply), 0
    starts, sources = _runs(source)
    for _ in range(_MAX_ROUNDS):
        found = int(colour.max(initial=-1)) + 1
        if found == classes:
            return colour if _is_equitable(arcs, colour) else None
        if found > n // 2 and n > 64:
            return None
        classes = found
        sums = np.zeros(n, dtype=np.uint64)
        if len(source):
            terms = capacity.astype(np.uint64) * _mix(colour.astype(np.uint64))[target]
            sums[sources] = np.add.reduceat(terms, starts)
        colour = _number(colour.astype(np.uint64), sums)
    return None


def _class_graph(arcs: Arcs, supply: I64, demand: I64, colour: I64) -> tuple[Arcs, I64, I64]:
    """Sum arcs, supply and demand by class."""
    source, target, capacity = arcs
    k = int(colour.max(initial=-1)) + 1
    key, inverse = np.unique(colour[source] * k + colour[target], return_inverse=True)
    total = np.zeros(len(key), dtype=np.int64)
    np.add.at(total, inverse.reshape(-1), capacity)
    between = key // k != key % k  # flow inside a class changes nothing
    enter, leave = np.zeros(k, dtype=np.int64), np.zeros(k, dtype=np.int64)
    np.add.at(enter, colour, supply)
    np.add.at(leave, colour, demand)
    return (key[between] // k, key[between] % k, total[between]), enter, leave


def _is_equitable(arcs: Arcs, colour: I64) -> bool:
    """Check exactly that all switches of a class have equal capacity to each class."""
    live = arcs[2] > 0
    source, target, capacity = (part[live] for part in arcs)
    if not len(source):
        return True
    k = int(colour.max()) + 1
    key, inverse = np.unique(source * k + colour[target], return_inverse=True)
    mine = np.zeros(len(key), dtype=np.int64)
    np.add.at(mine, inverse.reshape(-1), capacity)
    pair, which = np.unique(colour[key // k] * k + key % k, return_inverse=True)
    which = which.reshape(-1)
    low = np.full(len(pair), np.iinfo(np.int64).max)
    high = np.zeros(len(pair), dtype=np.int64)
    np.minimum.at(low, which, mine)
    np.maximum.at(high, which, mine)
    everyone = np.bincount(which) == np.bincount(colour, minlength=k)[pair // k]
    return bool(np.all(everyone & (low == high)))


def _runs(source: I64) -> tuple[I64, I64]:
    """Return where each run of equal sources starts, and which source it is."""
    sources, starts = np.unique(source, return_index=True)
    return starts.astype(np.int64), sources.astype(np.int64)


def _number(first: U64, second: U64) -> I64:
    """Number the distinct pairs from 0, in sorted order."""
    order = np.lexsort((second, first))
    a, b = first[order], second[order]
    step = np.ones(len(order), dtype=np.int64)
    step[1:] = (a[1:] != a[:-1]) | (b[1:] != b[:-1])
    out = np.empty(len(order), dtype=np.int64)
    out[order] = np.cumsum(step) - 1
    return out


def _mix(value: U64) -> U64:
    """Mix 64 bits (the finaliser of SplitMix64), so that sums of classes seldom agree."""
    mixed = (value + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def max_flow(n: int, arcs: Arcs, source: int, sink: int) -> int:
    """Return the maximum flow of a directed graph of ``n`` nodes, exactly.

    Capacities are whole and positive. SciPy's solver holds them in 32 bits; beyond that an own one
    on Python integers takes over.
    """
    tail, head, capacity = arcs
    if not len(capacity):
        return 0
    unit = int(np.gcd.reduce(capacity))
    scaled = capacity // unit
    if _fits(capacity):
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import maximum_flow

        matrix = csr_array((scaled.astype(np.int32), (tail, head)), shape=(n, n))
        matrix.sum_duplicates()
        return int(maximum_flow(matrix, source, sink).flow_value) * unit
    listed = list(zip(tail.tolist(), head.tolist(), scaled.tolist(), strict=True))
    return _dinic(n, listed, source, sink) * unit


def _dinic(n: int, arcs: list[tuple[int, int, int]], source: int, sink: int) -> int:
    """Dinic's algorithm on Python integers: no limit on size, arc 2i+1 is the reverse of 2i."""
    to: list[int] = []
    room: list[int] = []
    out: list[list[int]] = [[] for _ in range(n)]
    for a, b, c in arcs:
        out[a].append(len(to))
        out[b].append(len(to) + 1)
        to += (b, a)
        room += (c, 0)
    total = 0
    while True:
        level = _levels(out, to, room, source)
        if level[sink] < 0:
            return total
        total += _blocking_flow(out, to, room, level, (source, sink))


def _levels(out: list[list[int]], to: list[int], room: list[int], source: int) -> list[int]:
    """Return hops from the source over arcs with room, −1 where there is no way."""
    level = [-1] * len(out)
    level[source] = 0
    queue = deque([source])
    while queue:
        node = queue.popleft()
        for arc in out[node]:
            if room[arc] and level[to[arc]] < 0:
                level[to[arc]] = level[node] + 1
                queue.append(to[arc])
    return level


def _blocking_flow(
    out: list[list[int]], to: list[int], room: list[int], level: list[int], ends: tuple[int, int]
) -> int:
    """Push along shortest paths from ends[0] to ends[1] until each has a full arc."""
    source, sink = ends
    pushed = 0
    following = [0] * len(out)
    path: list[int] = []
    node = source
    while True:
        if node == sink:
            amount = min(room[arc] for arc in path)
            pushed += amount
            for arc in path:
                room[arc] -= amount
                room[arc ^ 1] += amount
            path.clear()
            node = source
        while following[node] < len(out[node]):
            arc = out[node][following[node]]
            if room[arc] and level[to[arc]] == level[node] + 1:
                break
            following[node] += 1
        if following[node] < len(out[node]):
            arc = out[node][following[node]]
            path.append(arc)
            node = to[arc]
        elif path:
            node = to[path.pop() ^ 1]
            following[node] += 1
        else:
            return pushed
