"""What a collective sends: bytes, steps and the bus-bandwidth factor, exact and in closed form.

Formulas are for equal links without knowledge of a network, except that hierarchical and
rail-aligned need to know how many ranks share a server.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, log2

import numpy as np

from railweave.design.models import Algorithm, Collective
from railweave.errors import InputError
from railweave.workload._halving import halving_rounds
from railweave.workload._tree import binary_tree, depth_of, second_tree
from railweave.workload.collectives import require_algorithm

__all__ = ["CollectiveVolume", "bus_factor", "collective_volume", "minimum_bytes"]


@dataclass(frozen=True, slots=True)
class CollectiveVolume:
    """Bytes and steps of one collective.

    ``bytes_sent_per_rank`` is of the rank that sends most (all send the same in a ring, in
    all-to-all and in halving-doubling over a power of two); ``total_bytes`` over all ranks.
    ``inside_bytes_per_rank`` is the part that stays in the server, where that is known.
    ``steps`` counts the messages that follow each other on the longest way of one piece.
    Whole numbers are ints.
    """

    op: Collective
    algorithm: Algorithm
    ranks: int
    size_bytes: int
    bytes_sent_per_rank: int | float
    total_bytes: int | float
    inside_bytes_per_rank: int | float
    steps: int
    bus_factor: float
    formula: str


def _number(value: Fraction) -> int | float:
    return int(value) if value.denominator == 1 else float(value)


def _bus(op: Collective, n: int) -> Fraction:
    if op is Collective.ALL_REDUCE:
        return Fraction(2 * (n - 1), n)
    if op in (Collective.ALL_GATHER, Collective.REDUCE_SCATTER, Collective.ALL_TO_ALL):
        return Fraction(n - 1, n)
    return Fraction(1)


def bus_factor(op: Collective, ranks: int) -> float:
    """Return busbw / algbw as nccl-tests defines it.

    AllReduce 2(n−1)/n; AllGather, ReduceScatter and AlltoAll (n−1)/n; the others 1.

    Raises:
        InputError: fewer than one rank.
    """
    if ranks < 1:
        raise InputError(f"ranks: {ranks} is not allowed; a collective needs at least one rank")
    return float(_bus(op, ranks))


def minimum_bytes(op: Collective, ranks: int, size_bytes: int) -> float:
    """Return the fewest bytes a rank must send or receive, whatever the algorithm.

    All-reduce 2(n−1)/n·S, all-gather, reduce-scatter and all-to-all (n−1)/n·S (each of these is
    the bus factor times S), broadcast, reduce and send-receive S.
    """
    return float(_bus(op, ranks) * size_bytes)


def _tree_sends(op: Collective, n: int) -> tuple[Fraction, Fraction, int]:
    """Return (most sent by a rank, total, steps) of trees, in units of the size."""
    trees = (binary_tree(n), second_tree(n)) if op is Collective.ALL_REDUCE else (binary_tree(n),)
    sends = np.zeros(n, dtype=np.int64)
    for parent in trees:
        child = parent >= 0
        if op is not Collective.BROADCAST:
            sends += child
        if op is not Collective.REDUCE:
            sends += np.bincount(parent[child], minlength=n)
    depth = max(depth_of(parent) for parent in trees)
    steps = depth * (2 if op is Collective.ALL_REDUCE else 1)
    return Fraction(int(sends.max()), len(trees)), Fraction(int(sends.sum()), len(trees)), steps


def _halving_sends(op: Collective, n: int) -> tuple[Fraction, Fraction, int]:
    rounds = halving_rounds(op, n)
    p = 1 << (n.bit_length() - 1)
    # parts are n-ths, except in an all-reduce over p < n ranks, where they are n/p-ths of n
    unit = p if op is Collective.ALL_REDUCE else 1
    sends = np.zeros(n, dtype=np.int64)
    for step in rounds:
        np.add.at(sends, step.src, np.rint(step.parts * unit).astype(np.int64))
    scale = Fraction(1, n * unit)
    return int(sends.max()) * scale, int(sends.sum()) * scale, len(rounds)


def _grid(algorithm: Algorithm, n: int, per_server: int) -> tuple[int, int]:
    if per_server < 1 or n % per_server:
        raise InputError(
            f"ranks: {n} ranks do not fill servers of {per_server}, which {algorithm.value} needs; "
            f"allowed: a multiple of {per_server}"
        )
    return n // per_server, per_server


def _ring_sends(op: Collective, n: int) -> tuple[Fraction, Fraction, int]:
    if op in (Collective.BROADCAST, Collective.REDUCE):
        return Fraction(1), Fraction(n - 1), n - 1
    each = _bus(op, n)
    return each, each * n, (n - 1) * (2 if op is Collective.ALL_REDUCE else 1)


def _hierarchical_sends(op: Collective, m: int, g: int) -> tuple[Fraction, Fraction, int]:
    """Return (sent inside, sent between servers, steps) by each rank in units of the size."""
    twice = 2 if op is Collective.ALL_REDUCE else 1
    inside = twice * Fraction(g - 1, g)
    between = twice * Fraction(m - 1, m * g)
    return inside, between, twice * (g - 1 + m - 1)


def collective_volume(
    op: Collective,
    algorithm: Algorithm | None,
    ranks: int,
    size_bytes: int,
    *,
    ranks_per_server: int = 1,
) -> CollectiveVolume:
    """Return what a collective sends, exactly (rational arithmetic; ints where whole).

    Args:
        op: operation.
        algorithm: None takes the default of the operation.
        ranks: number of ranks, at least 2.
        size_bytes: size as nccl-tests counts it.
        ranks_per_server: for hierarchical and rail-aligned.

    Raises:
        InputError: fewer than 2 ranks, an algorithm that cannot do it, servers not filled.
    """
    chosen = require_algorithm(op, algorithm)
    n = ranks
    if n < 2:
        raise InputError(f"ranks: {n} is not allowed; a collective needs 2 or more")
    if size_bytes < 0:
        raise InputError(f"size: {size_bytes} B is not allowed; give 0 or more")
    inside = Fraction(0)
    if chosen is Algorithm.RING:
        most, total, steps = _ring_sends(op, n)
        formula = "2(n-1)/n·S" if op is Collective.ALL_REDUCE else "(n-1)/n·S"
        formula = "S" if op in (Collective.BROADCAST, Collective.REDUCE) else formula
    elif chosen is Algorithm.TREE:
        most, total, steps = _tree_sends(op, n)
        formula = "(parents + children over the trees)·S/trees, total 2(n-1)·S or (n-1)·S"
    elif chosen is Algorithm.HALVING_DOUBLING:
        most, total, steps = _halving_sends(op, n)
        formula = "sum over rounds of S/2, S/4, … (and the pre- and post-step)"
    elif chosen is Algorithm.HIERARCHICAL:
        servers, gpus = _grid(chosen, n, ranks_per_server)
        inside, between, steps = _hierarchical_sends(op, servers, gpus)
        most, total = inside + between, n * (inside + between)
        formula = "a·(g-1)/g·S inside + a·(m-1)/(m·g)·S between, a = 2 for all-reduce, else 1"
    elif chosen is Algorithm.RAIL_ALIGNED:
        servers, gpus = _grid(chosen, n, ranks_per_server)
        inside = Fraction((gpus - 1) * servers, n)
        most = inside + Fraction((servers - 1) * gpus, n)
        total, steps = most * n, (gpus > 1) + (servers > 1)
        formula = "(g-1)·m·S/n inside + (m-1)·g·S/n on the rails"
    else:
        most, total, steps = _bus(op, n), _bus(op, n) * n, 1
        formula = "(n-1)/n·S" if op is Collective.ALL_TO_ALL else "S"
    return CollectiveVolume(
        op=op,
        algorithm=chosen,
        ranks=n,
        size_bytes=size_bytes,
        bytes_sent_per_rank=_number(most * size_bytes),
        total_bytes=_number(total * size_bytes),
        inside_bytes_per_rank=_number(inside * size_bytes),
        steps=steps,
        bus_factor=float(_bus(op, n)),
        formula=formula,
    )


def latency_rounds(ranks: int) -> int:
    """Return ⌈log2 n⌉: no collective that informs all ranks needs fewer message rounds."""
    return ceil(log2(ranks)) if ranks > 1 else 0
