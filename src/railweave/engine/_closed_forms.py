"""Alpha–beta closed forms of the collectives.

A message of b bytes takes α + b/B: latency α, bandwidth B of one rank, one way (Hockney, 1994).
A rank sends and receives at once; a pipelined stream pays α once, not for every chunk. The forms
are those of Thakur, Rabenseifner and Gropp (2005, halving and doubling), Patarasuk and Yuan (2009,
ring) and Sanders, Speck and Träff (2009, two trees).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from railweave.design.models import Algorithm, Collective
from railweave.workload._halving import halving_rounds
from railweave.workload._options import CollectiveOptions, pipeline
from railweave.workload._tree import binary_tree, depth_of, second_tree

__all__ = ["ClosedForm", "Links", "closed_form"]


@dataclass(frozen=True, slots=True)
class Links:
    """What a message meets: between servers, and inside them (of ``ranks_per_server`` ranks)."""

    bandwidth_bps: float
    latency_s: float
    inside_bandwidth_bps: float
    inside_latency_s: float
    ranks_per_server: int = 1

    def time_s(self, size_bytes: float) -> float:
        """One message between servers."""
        return self.latency_s + 8.0 * size_bytes / self.bandwidth_bps

    def inside_time_s(self, size_bytes: float) -> float:
        """One message inside a server."""
        return self.inside_latency_s + 8.0 * size_bytes / self.inside_bandwidth_bps


@dataclass(frozen=True, slots=True)
class ClosedForm:
    """Time of a collective, the formula behind it and what the formula was given."""

    time_s: float
    formula: str
    inputs: dict[str, float]
    source: str


_RING_SOURCE = "alpha–beta model; Patarasuk and Yuan, 2009"
_RD_SOURCE = "alpha–beta model; Thakur, Rabenseifner and Gropp, 2005"
_TREE_SOURCE = "alpha–beta model; Sanders, Speck and Träff, 2009"
_OWN_SOURCE = "alpha–beta model, phase by phase"


def _twice(op: Collective) -> int:
    return 2 if op is Collective.ALL_REDUCE else 1


def _ring(op: Collective, n: int, size: float, links: Links, cut: CollectiveOptions) -> ClosedForm:
    if op in (Collective.BROADCAST, Collective.REDUCE):
        chunk, count = pipeline(size, cut)
        time = (n - 1) * links.time_s(chunk) + (count - 1) * 8.0 * chunk / links.bandwidth_bps
        return ClosedForm(
            time,
            "(n-1)·(α + c/B) + (k-1)·c/B",
            {"n": n, "chunk_bytes": chunk, "chunks": count},
            "alpha–beta model of a pipelined chain",
        )
    steps = _twice(op) * (n - 1)
    text = "2(n-1)·(α + S/(n·B))" if steps > n - 1 or n == 1 else "(n-1)·(α + S/(n·B))"
    return ClosedForm(
        steps * links.time_s(size / n),
        text,
        {"n": n, "steps": steps, "chunk_bytes": size / n},
        _RING_SOURCE,
    )


def _tree(op: Collective, n: int, size: float, links: Links, cut: CollectiveOptions) -> ClosedForm:
    both = op is Collective.ALL_REDUCE
    trees = (binary_tree(n), second_tree(n)) if both else (binary_tree(n),)
    sends, receives = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    for parent in trees:
        child = parent >= 0
        fan = np.bincount(parent[child], minlength=n)
        up, down = op is not Collective.BROADCAST, op is not Collective.REDUCE
        sends += up * child + down * fan
        receives += up * fan + down * child
    busiest = int(max(sends.max(), receives.max()))
    depth = max(depth_of(parent) for parent in trees) * _twice(op)
    chunk, count = pipeline(size / len(trees), cut)
    steady = (count - 1) * busiest * 8.0 * chunk / links.bandwidth_bps
    return ClosedForm(
        depth * links.time_s(chunk) + steady,
        "d·(α + c/B) + (k-1)·m·c/B",
        {"depth": depth, "chunk_bytes": chunk, "chunks": count, "messages_busiest_rank": busiest},
        _TREE_SOURCE,
    )


def _halving(op: Collective, n: int, size: float, links: Links) -> ClosedForm:
    largest = [float(step.parts.max()) * size / n for step in halving_rounds(op, n)]
    return ClosedForm(
        sum(links.time_s(part) for part in largest),
        "sum over rounds of (α + b/B), b the largest message of the round",
        {"n": n, "rounds": len(largest), "bytes_of_all_rounds": sum(largest)},
        _RD_SOURCE,
    )


def _hierarchical(op: Collective, n: int, size: float, links: Links) -> ClosedForm:
    g = links.ranks_per_server
    m, a = n // g, _twice(op)
    inside = a * (g - 1) * links.inside_time_s(size / g)
    between = a * (m - 1) * links.time_s(size / n)
    return ClosedForm(
        inside + between,
        "a(g-1)·(α' + S/(g·B')) + a(m-1)·(α + S/(n·B)), a = 2 for all-reduce, else 1",
        {"servers m": m, "ranks_per_server g": g, "inside_s": inside, "between_s": between},
        _OWN_SOURCE,
    )


def _all_at_once(op: Collective, n: int, size: float, links: Links) -> ClosedForm:
    share = (n - 1) / n if op is Collective.ALL_TO_ALL else 1.0
    return ClosedForm(
        links.time_s(share * size),
        "α + (n-1)/n·S/B" if op is Collective.ALL_TO_ALL else "α + S/B",
        {"n": n, "bytes": share * size},
        "alpha–beta model; all messages at once through the rank's own link",
    )


def _rail_aligned(n: int, size: float, links: Links) -> ClosedForm:
    g = links.ranks_per_server
    m = n // g
    inside = links.inside_time_s((g - 1) * m * size / n) if g > 1 else 0.0
    between = links.time_s((m - 1) * g * size / n) if m > 1 else 0.0
    return ClosedForm(
        inside + between,
        "α' + (g-1)·m·S/(n·B') + α + (m-1)·g·S/(n·B)",
        {"servers m": m, "ranks_per_server g": g, "inside_s": inside, "between_s": between},
        _OWN_SOURCE,
    )


def closed_form(
    op: Collective,
    algorithm: Algorithm,
    n: int,
    size_bytes: float,
    *,
    links: Links,
    options: CollectiveOptions,
) -> ClosedForm:
    """Return the time of a collective over n ≥ 2 ranks and where it comes from."""
    match algorithm:
        case Algorithm.RING:
            return _ring(op, n, size_bytes, links, options)
        case Algorithm.TREE:
            return _tree(op, n, size_bytes, links, options)
        case Algorithm.HALVING_DOUBLING:
            return _halving(op, n, size_bytes, links)
        case Algorithm.HIERARCHICAL:
            return _hierarchical(op, n, size_bytes, links)
        case Algorithm.RAIL_ALIGNED:
            return _rail_aligned(n, size_bytes, links)
        case _:
            return _all_at_once(op, n, size_bytes, links)
