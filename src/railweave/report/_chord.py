"""The geometry of a chord diagram: arcs round the unit circle and ribbons between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["Chords", "End", "Ribbon", "chords"]

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int8]
Bool = npt.NDArray[np.bool_]

#: part of the circle that the gaps between arcs take
_GAPS: Final = 0.12
_RIM: Final = 1.06
_BEND: Final = 12  #: points of a ribbon's side
#: a closed outline ends with a point that is none, so that outlines can follow each other
_BREAK: Final = np.full((1, 2), np.nan)


@dataclass(frozen=True, slots=True)
class Ribbon:
    """What two (or one with itself) send each other; ``outline`` (K, 2) ends with a NaN."""

    ends: tuple[int, int]
    place: int
    outline: F32


@dataclass(frozen=True, slots=True)
class End:
    """Where the bytes from ``source`` to ``target`` leave the rim."""

    source: int
    target: int
    place: int
    spot: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Chords:
    """All of a diagram: ``arcs`` and ``middles`` by sender."""

    arcs: tuple[F32, ...]
    middles: list[tuple[float, float]]
    ribbons: tuple[Ribbon, ...]
    ends: tuple[End, ...]


def _at(angle: F64 | float, radius: F64 | float = 1.0) -> F64:
    """Return points at angles, clockwise from the top, (…, 2)."""
    return np.stack((radius * np.sin(angle), radius * np.cos(angle)), axis=-1)


def chords(amount: F64, place: I8) -> Chords:
    """Lay out who sends whom how much.

    Args:
        amount: (G, G), senders by row.
        place: (G, G) a number for each pair, carried over.
    """
    count = len(amount)
    sent = amount.sum(axis=1)
    # One that sends nothing still has an arc to be sent to.
    length = np.maximum(sent, sent.sum() * 0.004)
    length *= 2 * np.pi * (1 - _GAPS) / length.sum()
    gap = 2 * np.pi * _GAPS / count
    first = np.cumsum(length + gap) - length - gap / 2
    parts = _parts(amount, first, length)
    i, j = np.nonzero(np.triu((amount + amount.T) > 0))
    outlines = _ribbons(parts[i, j], parts[j, i], i == j, max(3, min(32, 80 // count)))
    where = np.maximum(place[i, j], place[j, i]).tolist()
    ribbons = tuple(
        Ribbon(ends, at, outline)
        for ends, at, outline in zip(
            zip(i.tolist(), j.tolist(), strict=True), where, outlines, strict=True
        )
    )
    i, j = np.nonzero(amount)
    spots = _at(parts[i, j].mean(axis=-1), (1 + _RIM) / 2).tolist()
    ends = tuple(
        End(a, b, at, (spot[0], spot[1]))
        for a, b, at, spot in zip(i.tolist(), j.tolist(), place[i, j].tolist(), spots, strict=True)
    )
    return Chords(
        tuple(_arc(float(a), float(a + w)) for a, w in zip(first, length, strict=True)),
        [(x, y) for x, y in _at(first + length / 2, _RIM).tolist()],
        ribbons,
        ends,
    )


def _parts(amount: F64, first: F64, length: F64) -> F64:
    """Return the angles (from, to) of what i sends to j, (G, G, 2).

    An arc's parts are in the order of their receivers, the neighbour before it first, so that
    ribbons cross little.
    """
    count = len(amount)
    total = np.maximum(amount.sum(axis=1), 1e-300)
    turn = (np.arange(count)[:, None] - np.arange(count)[None, :]) % count
    turn[np.arange(count), np.arange(count)] = count // 2  # what stays goes into the middle
    order = np.argsort(turn, axis=1, kind="stable")
    share = np.take_along_axis(amount, order, axis=1) / total[:, None] * length[:, None]
    upper = first[:, None] + np.cumsum(share, axis=1)
    parts = np.empty((count, count, 2))
    np.put_along_axis(parts[:, :, 0], order, upper - share, axis=1)
    np.put_along_axis(parts[:, :, 1], order, upper, axis=1)
    return parts


def _arc(start: float, end: float) -> F32:
    angles = np.linspace(start, end, max(2, int(40 * (end - start)) + 2))
    outline = np.concatenate((_at(angles, 1.01), _at(angles[::-1], _RIM), _BREAK))
    return outline.astype(np.float32)


def _ribbons(a: F64, b: F64, own: Bool, rim: int) -> F32:
    """Return the outlines between parts ``a`` and ``b`` (R, 2) of the circle, (R, K, 2).

    ``own`` tells whose two ends are the same: it goes back to where it came from. ``rim`` is the
    number of points along the circle.
    """
    t = np.linspace(0.0, 1.0, rim)
    along = [_at(part[:, :1] + t * (part[:, 1:] - part[:, :1])) for part in (a, b)]
    over = _bends(a[:, 1], np.where(own, a[:, 0], b[:, 0]))
    back = _bends(b[:, 1], a[:, 0])
    along[1][own], back[own] = np.nan, np.nan
    stop = np.full((len(a), 1, 2), np.nan)
    outline: F32 = np.concatenate((along[0], over, along[1], back, stop), axis=1, dtype=np.float32)
    return outline


def _bends(start: F64, end: F64) -> F64:
    """Return curves inside the circle; the farther apart its ends, the nearer to the middle."""
    apart = np.abs((end - start + np.pi) % (2 * np.pi) - np.pi)
    towards = _at(start) + _at(end)
    size = np.maximum(np.hypot(towards[:, 0], towards[:, 1]), 1e-9)
    middle = towards * (0.72 * np.cos(apart / 2) ** 2 / size)[:, None]
    t = np.linspace(0.0, 1.0, _BEND)[:, None]
    curve: F64 = (
        (1 - t) ** 2 * _at(start)[:, None]
        + 2 * t * (1 - t) * middle[:, None]
        + t**2 * _at(end)[:, None]
    )
    return curve
