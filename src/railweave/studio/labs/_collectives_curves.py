"""Lab 7's curves: times over sizes and over ranks, by algorithm, and where they cross.

Every point is the closed form's, by :mod:`railweave.report.curves`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from railweave.design.models import Algorithm
from railweave.engine.turning import turning_point
from railweave.report.curves import Wires, rank_curve, size_curve
from railweave.studio.labs._collectives import (
    ALGORITHM_NAMES,
    BY_SERVER,
    MOST_RANKS,
    Inputs,
    State,
    read,
    time_of,
    try_algorithms,
)
from railweave.units import format_bytes

__all__ = [
    "SIZES",
    "Crossing",
    "Curve",
    "Curves",
    "crossing_sentence",
    "curves",
    "short_size",
]

#: sizes from 1 KiB to 16 GiB, two an octave
SIZES: Final = tuple(round(1024 * 2 ** (k / 2)) for k in range(49))
#: powers of two; between them halving-doubling needs two rounds more
RANKS: Final = tuple(1 << k for k in range(1, 11))
_HALVINGS: Final = 14


@dataclass(frozen=True, slots=True)
class Curve:
    """One algorithm: the time at every x, and the lower bound there."""

    algorithm: Algorithm
    x: tuple[int, ...]
    time_s: tuple[float, ...]
    bound_s: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Crossing:
    """A size at which one algorithm overtakes another: below it ``small`` is faster."""

    size_bytes: int
    small: Algorithm
    large: Algorithm


@dataclass(frozen=True)
class Curves:
    """The curves of a setting; ``crossings`` are of this algorithm with each other one."""

    inputs: Inputs
    over_sizes: tuple[Curve, ...]
    over_ranks: tuple[Curve, ...]
    crossings: tuple[Crossing, ...]


def curves(state: State) -> Curves:
    """Return the curves around a state. Raises InputError as :func:`read` does."""
    given = read(state)
    bare = replace(given, slow=None, size_text="", algorithm=_first(given))
    sizes = _over_sizes(replace(bare, size_bytes=0))
    ranks = _over_ranks(replace(bare, ranks=0))
    return Curves(given, sizes, ranks, _crossings(given, sizes))


def _first(given: Inputs) -> Algorithm:
    """Return what stands for all algorithms in the key of the memory."""
    return try_algorithms(given.op, given.per_server)[0]


@lru_cache(maxsize=32)
def _over_sizes(given: Inputs) -> tuple[Curve, ...]:
    return tuple(
        _curve(given, algorithm, SIZES, sizes=True)
        for algorithm in try_algorithms(given.op, given.per_server)
    )


@lru_cache(maxsize=32)
def _over_ranks(given: Inputs) -> tuple[Curve, ...]:
    found = []
    for algorithm in try_algorithms(given.op, given.per_server):
        unit = given.per_server if algorithm in BY_SERVER else 1
        fit = tuple(n for n in RANKS if n % unit == 0 and n <= MOST_RANKS)
        found.append(_curve(given, algorithm, fit, sizes=False))
    return tuple(found)


def _curve(given: Inputs, algorithm: Algorithm, x: tuple[int, ...], *, sizes: bool) -> Curve:
    unit = given.per_server if algorithm in BY_SERVER else 1
    wires = Wires(given.bandwidth_bps, given.latency_s, unit)
    found = (
        size_curve(given.op, algorithm, given.ranks, wires, x)
        if sizes
        else rank_curve(given.op, algorithm, x, wires, given.size_bytes)
    )
    return Curve(algorithm, x, tuple(found.time_s.tolist()), tuple(found.lower_bound_s.tolist()))


def _crossings(given: Inputs, over: tuple[Curve, ...]) -> tuple[Crossing, ...]:
    mine = next((c for c in over if c.algorithm is given.algorithm), None)
    found: list[Crossing] = []
    for other in over:
        if mine is None or other is mine:
            continue
        ahead = [b - a for a, b in zip(mine.time_s, other.time_s, strict=True)]
        for k in range(len(ahead) - 1):
            if _differ(ahead[k], mine.time_s[k]) * _differ(ahead[k + 1], mine.time_s[k + 1]) < 0:
                at = _halve(given, other.algorithm, SIZES[k], SIZES[k + 1])
                pair = (mine.algorithm, other.algorithm)
                found.append(Crossing(at, *(pair if ahead[k] > 0 else pair[::-1])))
    return tuple(sorted(found, key=lambda crossing: crossing.size_bytes))


def _differ(ahead_s: float, time_s: float) -> int:
    """Return the sign of a difference, 0 where it is rounding."""
    return 0 if abs(ahead_s) < 1e-9 * time_s else int(math.copysign(1, ahead_s))


def _halve(given: Inputs, other: Algorithm, low: int, high: int) -> int:
    """Search between two sizes for the one at which the other algorithm is as fast."""

    def slower(size: float) -> bool:
        mine = time_of(given, size_bytes=round(size)).time_s
        return time_of(given, algorithm=other, size_bytes=round(size)).time_s > mine

    as_at_low = slower(low)
    return round(turning_point(lambda size: slower(size) == as_at_low, low, high, _HALVINGS)[1])


def short_size(size_bytes: int) -> float:
    """Round a crossing's size to three digits, as more would be invented."""
    return float(f"{size_bytes:.3g}")


def crossing_sentence(crossing: Crossing) -> str:
    """Say where two algorithms cross."""
    return (
        f"Below {format_bytes(short_size(crossing.size_bytes))} "
        f"{ALGORITHM_NAMES[crossing.small]} is faster, above it {ALGORITHM_NAMES[crossing.large]}."
    )
