"""What NCCL's algorithms move, exactly: inside a domain by the busiest GPU, and between domains.

Fractions of the size as nccl-tests counts it. "Moved" is what a GPU or a domain sends or receives,
whichever is more.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from railweave.design.models import Collective
from railweave.predict._nccl_names import NcclAlgorithm

__all__ = ["NcclVolume", "nccl_volume", "tree_of_domains"]

_A, _C = NcclAlgorithm, Collective


@dataclass(frozen=True, slots=True)
class NcclVolume:
    """Shares of the size: ``inside`` of the busiest GPU, ``between`` of the busiest domain."""

    inside: Fraction
    between: Fraction
    formula: str


def tree_of_domains(domains: int) -> Fraction:
    """Return what the busiest domain of two binary trees sends of an all-reduce, each with half.

    Of two domains, each is the parent in one tree and the child in the other. From four on, one
    sends to a parent and two children in one tree and to a parent in the other.
    """
    return {1: Fraction(0), 2: Fraction(1), 3: Fraction(3, 2)}.get(domains, Fraction(2))


def _chain(each: int) -> Fraction:
    """Of a chain up and down inside a domain: its ends send once, the middle twice."""
    return Fraction(min(2, each - 1))


def nccl_volume(
    op: Collective, algorithm: NcclAlgorithm | None, domains: int, each: int
) -> NcclVolume:
    """Return what an operation moves.

    Args:
        op: operation.
        algorithm: None for direct messages (all-to-all, send-receive).
        domains: number of scale-up domains.
        each: ranks in each of them.
    """
    if algorithm is None:
        return _direct(op, domains, each)
    if algorithm in (_A.RING, _A.PAT):
        return _ring(op, domains, each)
    if op is not _C.ALL_REDUCE:
        n = domains * each
        return NcclVolume(Fraction(n - 1, n), Fraction(domains > 1), "(n−1)/n received or sent")
    inside, formula = {
        _A.TREE: (_chain(each), "2 in a chain"),
        _A.COLLNET_CHAIN: (_chain(each), "2 in a chain"),
        _A.COLLNET_DIRECT: (Fraction(2 * (each - 1), each), "2(g−1)/g inside"),
    }.get(algorithm, (1 + Fraction(1, each), "1 read by the switch + 1/g multicast"))
    if algorithm in (_A.TREE, _A.NVLS_TREE):
        return NcclVolume(inside, tree_of_domains(domains), formula + ", 1, 3/2 or 2 between")
    return NcclVolume(inside, Fraction(domains > 1), formula + ", 1 to the network's switches")


def _direct(op: Collective, domains: int, each: int) -> NcclVolume:
    n = domains * each
    if op is _C.ALL_TO_ALL:
        between = Fraction(each * (n - each), n)
        return NcclVolume(Fraction(each - 1, n), between, "(g−1)/n inside, g(n−g)/n between")
    return NcclVolume(Fraction(each > 1), Fraction(domains > 1), "S to the next rank")


def _ring(op: Collective, domains: int, each: int) -> NcclVolume:
    n = domains * each
    share = Fraction(1)
    if op is _C.ALL_REDUCE:
        share = Fraction(2 * (n - 1), n)
    elif op in (_C.ALL_GATHER, _C.REDUCE_SCATTER):
        share = Fraction(n - 1, n)
    formula = "a(n−1)/n, a = 2 for all-reduce; 1 for broadcast and reduce"
    return NcclVolume(share * (each > 1), share * (domains > 1), formula)
