"""Blocks of ranks onto cells of servers for least traffic between them.

A *block* is what one server runs; a *cell* holds servers that are alike as seen from outside: those
under the same leaves (and of one scale-up domain where domains span servers). The search builds
several assignments and improves the best by passes of Kernighan and Lin (1970): the best exchange
of two blocks, or move of one to a free server, again and again with every block touched once, good
or bad, and then back to the best state seen; until a pass gains nothing. It is deterministic.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["Problem", "search"]

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

#: blocks × blocks looked at in all passes together: about 1 s
_WORK: Final = 1e8
#: strongest pairs that clustering looks at
_PAIRS: Final = 200_000
#: steps of a pass without a new best, after which it ends
_PATIENCE: Final = 48
#: assignments that are improved
_STARTS: Final = 3


@dataclass(frozen=True, eq=False)
class Problem:
    """Blocks (B), cells (C) and kinds of servers (K: those with the same GPUs free).

    ``near`` are bytes between two blocks that share a leaf when their servers hang on the same
    ones, ``far`` those that never do (other rails), both (B, B), symmetric, 0 on the diagonal;
    ``near_cost`` and ``far_cost`` what a byte costs between two cells, (C, C), symmetric.
    ``room`` is servers by cell and kind, (C, K); ``kind`` and ``base`` the blocks' kinds and cells
    at the start, (B,).
    """

    near: F64
    far: F64
    near_cost: F64
    far_cost: F64
    room: I64
    kind: I64
    base: I64

    def cost(self, cell: I64) -> float:
        """Return what an assignment of blocks to cells costs."""
        return float(self.block_costs(cell)[np.arange(len(cell)), cell].sum() / 2)

    def block_costs(self, cell: I64) -> F64:
        """Return what each block would cost in each cell, all others staying, (B, C)."""
        used, at = np.unique(cell, return_inverse=True)
        member = np.zeros((len(cell), len(used)))
        member[np.arange(len(cell)), at.reshape(-1)] = 1.0
        near = (self.near @ member) @ self.near_cost[used]
        far = (self.far @ member) @ self.far_cost[used]
        total: F64 = near + far
        return total


def search(problem: Problem) -> I64:
    """Return the best assignment of blocks to cells that was found, (B,); never worse than base."""
    starts = {tuple(cell.tolist()): cell for cell in (problem.base, *_constructed(problem))}
    ranked = sorted(starts.values(), key=problem.cost)[:_STARTS]
    work = _Work(_WORK / len(ranked))
    best, lowest = problem.base, problem.cost(problem.base)
    for start in ranked:
        cell = _improved(problem, start, _Work(work.left))
        cost = problem.cost(cell)
        if cost < lowest * (1 - 1e-12):
            best, lowest = cell, cost
    return best


@dataclass
class _Work:
    """What may still be looked at."""

    left: float


# ---- building assignments


def _constructed(problem: Problem) -> list[I64]:
    """Return assignments built in other ways: in order, by clusters, by their order."""
    size = problem.room.sum(axis=1)
    by_size = np.argsort(-size, kind="stable")
    order = np.arange(len(problem.kind))
    found = [_filled(problem, order, by_size)]
    pairs = _strong_pairs(problem.near + problem.far)
    tree = _clusters(len(order), pairs, np.inf)
    in_tree = np.array([block for cluster in tree for block in cluster], dtype=np.int64)
    found.append(_filled(problem, in_tree, by_size))
    for limit in sorted({int(size.max()), int(np.median(size[size > 0]))}):
        found.append(_packed_clusters(problem, _clusters(len(order), pairs, limit), in_tree))
    return found


def _filled(problem: Problem, order: I64, cells: I64, start: I64 | None = None) -> I64:
    """Fill cells one after the other with blocks in this order; those with a cell keep it."""
    cell = np.full(len(problem.kind), -1, dtype=np.int64) if start is None else start.copy()
    room = problem.room.copy()
    taken = cell >= 0
    np.subtract.at(room, (cell[taken], problem.kind[taken]), 1)
    at = dict.fromkeys(range(room.shape[1]), 0)
    for block in order[~taken[order]].tolist():
        kind = int(problem.kind[block])
        while not room[cells[at[kind]], kind]:
            at[kind] += 1
        cell[block] = cells[at[kind]]
        room[cell[block], kind] -= 1
    return cell


def _strong_pairs(bytes_: F64) -> list[tuple[int, int]]:
    """Return pairs of blocks, those that exchange most first."""
    one, two = np.nonzero(np.triu(bytes_, 1))
    weight = bytes_[one, two]
    order = np.lexsort((two, one, -weight))[:_PAIRS]
    return list(zip(one[order].tolist(), two[order].tolist(), strict=True))


def _clusters(blocks: int, pairs: list[tuple[int, int]], limit: float) -> list[list[int]]:
    """Join blocks along strong pairs into clusters of at most ``limit``, the largest first."""
    of = list(range(blocks))
    members = [[block] for block in range(blocks)]
    for one, two in pairs:
        a, b = of[one], of[two]
        if a == b or len(members[a]) + len(members[b]) > limit:
            continue
        if members[b][0] < members[a][0]:
            a, b = b, a
        for block in members[b]:
            of[block] = a
        members[a] += members[b]
        members[b] = []
    return sorted((m for m in members if m), key=lambda m: (-len(m), m[0]))


def _packed_clusters(problem: Problem, clusters: list[list[int]], rest: I64) -> I64:
    """Put whole clusters where they cost least and leave least room; break those that fit nowhere.

    ``rest`` is the order of the blocks of broken clusters.
    """
    n_cells, kinds = problem.room.shape
    room = problem.room.copy()
    cell = np.full(len(problem.kind), -1, dtype=np.int64)
    cost = np.zeros((len(problem.kind), n_cells))
    for cluster in clusters:
        need = np.bincount(problem.kind[cluster], minlength=kinds)
        fits = np.flatnonzero((room >= need).all(axis=1))
        if not fits.size:
            continue
        price = cost[cluster][:, fits].sum(axis=0)
        left = room[fits].sum(axis=1) - len(cluster)
        chosen = int(fits[np.lexsort((fits, left, price))[0]])
        cell[cluster] = chosen
        room[chosen] -= need
        near, far = problem.near[:, cluster].sum(axis=1), problem.far[:, cluster].sum(axis=1)
        cost += near[:, None] * problem.near_cost[chosen] + far[:, None] * problem.far_cost[chosen]
    return _filled(problem, rest, np.argsort(-room.sum(axis=1), kind="stable"), cell)


# ---- Kernighan–Lin


@dataclass
class _State:
    """An assignment, what every block costs in every cell, and the servers left."""

    problem: Problem
    cell: I64
    cost: F64 = field(init=False)
    room: I64 = field(init=False)

    def __post_init__(self) -> None:
        self.cell = self.cell.copy()
        self.cost = self.problem.block_costs(self.cell)
        self.room = self.problem.room.copy()
        np.subtract.at(self.room, (self.cell, self.problem.kind), 1)

    def move(self, block: int, to: int) -> None:
        """Put a block into another cell."""
        p, here = self.problem, int(self.cell[block])
        self.cost += p.near[:, block, None] * (p.near_cost[to] - p.near_cost[here])
        self.cost += p.far[:, block, None] * (p.far_cost[to] - p.far_cost[here])
        self.room[here, p.kind[block]] += 1
        self.room[to, p.kind[block]] -= 1
        self.cell[block] = to

    def best_move(self, free: I64) -> tuple[float, int, int]:
        """Return (gain, block, cell) of the best move of one of these blocks to a free server."""
        own = self.cost[free, self.cell[free]]
        gain = own[:, None] - self.cost[free]
        gain[self.room[:, self.problem.kind[free]].T <= 0] = -np.inf
        gain[np.arange(len(free)), self.cell[free]] = -np.inf
        at = int(np.argmax(gain))
        block, cell = divmod(at, gain.shape[1])
        return float(gain[block, cell]), int(free[block]), cell

    def best_swap(self, free: I64) -> tuple[float, int, int]:
        """Return (gain, block, block) of the best exchange of two of these blocks."""
        p, cell = self.problem, self.cell[free]
        own = self.cost[free, cell]
        there = self.cost[free][:, cell]
        gain = own[:, None] + own[None, :] - there - there.T
        for bytes_, cost in ((p.near, p.near_cost), (p.far, p.far_cost)):
            between = cost[cell][:, cell]
            inside = cost[cell, cell]
            both = bytes_[np.ix_(free, free)]
            gain -= both * (2 * between - inside[:, None] - inside[None, :])
        kind = p.kind[free]
        gain[(cell[:, None] == cell[None, :]) | (kind[:, None] != kind[None, :])] = -np.inf
        one, two = divmod(int(np.argmax(gain)), len(free))
        return float(gain[one, two]), int(free[one]), int(free[two])


def _improved(problem: Problem, start: I64, work: _Work) -> I64:
    """Make passes until one gains nothing, or the work is used up."""
    cell = start
    while work.left > 0:
        better = _pass(problem, cell, work)
        if better is None or problem.cost(better) >= problem.cost(cell):
            break
        cell = better
    return cell


def _pass(problem: Problem, start: I64, work: _Work) -> I64 | None:
    """Make one pass; None where no state on its way was better than the start."""
    state = _State(problem, start)
    least = 1e-9 * max(problem.cost(start), 1e-300)
    unlocked = np.ones(len(start), dtype=bool)
    gained, most, best, idle = 0.0, least, None, 0
    while idle < _PATIENCE and work.left > 0:
        free = np.flatnonzero(unlocked)
        if not free.size:
            break
        work.left -= float(len(free) * (len(free) + problem.room.shape[0]))
        move_gain, mover, to = state.best_move(free)
        swap_gain, one, two = state.best_swap(free)
        if max(move_gain, swap_gain) == -np.inf:
            break
        if move_gain >= swap_gain:
            gained += move_gain
            state.move(mover, to)
            unlocked[mover] = False
        else:
            gained += swap_gain
            here, there = int(state.cell[one]), int(state.cell[two])
            state.move(one, there)
            state.move(two, here)
            unlocked[[one, two]] = False
        idle += 1
        if gained > most:
            most, best, idle = gained, state.cell.copy(), 0
    return best
