"""ECN threshold × PFC threshold × profile of one congested switch, and what the grid says."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from railweave.engine.congest import CongestCase, CongestMetrics
from railweave.qos import EcnThresholds
from railweave.units import format_bits_rate, format_bytes, format_seconds

__all__ = ["Acting", "SweepPoint", "grid", "read_sweep", "threshold_text"]


class Acting(StrEnum):
    """What held the senders back."""

    NOTHING = "neither"  #: no mark, no pause: the profile by itself, or nothing at all
    ECN = "ECN alone"
    BOTH = "both"
    PFC = "PFC alone"
    DROPS = "drops"  #: packets were lost


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """One case of a sweep and its numbers."""

    case: CongestCase
    metrics: CongestMetrics

    @property
    def acting(self) -> Acting:
        """What held the senders back."""
        numbers = self.metrics
        if numbers.drops:
            return Acting.DROPS
        if numbers.pauses:
            return Acting.BOTH if numbers.marks else Acting.PFC
        return Acting.ECN if numbers.marks else Acting.NOTHING


def grid(
    base: CongestCase,
    ecn: Sequence[EcnThresholds | None],
    pfc_bytes: Sequence[int | None],
    profiles: Sequence[str],
) -> tuple[CongestCase, ...]:
    """Return the cases of a sweep: profile by profile, then by ECN threshold, then by PFC.

    Raises:
        InputError: a case that cannot be.
    """
    return tuple(
        replace(base, ecn=marks, pfc_bytes=pfc, profile=profile)
        for profile in profiles
        for marks in ecn
        for pfc in pfc_bytes
    )


def threshold_text(case: CongestCase) -> tuple[str, str]:
    """Return the ECN and the PFC threshold as text, as parts of the buffer where that is short."""
    ecn = "off"
    if case.ecn is not None:
        low, high = case.ecn.kmin_bytes, case.ecn.kmax_bytes
        ecn = _part(low, case) if low == high else f"{_part(low, case)}..{_part(high, case)}"
    return ecn, "off" if case.pfc_bytes is None else _part(case.pfc_bytes, case)


def _part(size_bytes: int, case: CongestCase) -> str:
    percent = 100 * size_bytes / case.buffer_bytes
    return (
        f"{percent:.4g}%" if abs(percent - round(percent, 1)) < 1e-6 else format_bytes(size_bytes)
    )


def read_sweep(points: Iterable[SweepPoint]) -> tuple[str, ...]:
    """Say in words where ECN acts before PFC, where PFC does all the work, and what is best."""
    by_profile: dict[str, list[SweepPoint]] = {}
    for point in points:
        by_profile.setdefault(point.case.profile, []).append(point)
    return tuple(line for name, mine in by_profile.items() for line in _read(name, mine))


def _read(profile: str, points: list[SweepPoint]) -> Iterator[str]:
    total = len(points)
    for acting, text in (
        (Acting.ECN, "ECN holds the queue and PFC never fires"),
        (Acting.BOTH, "ECN marks and PFC fires too"),
        (Acting.PFC, "PFC does all the work (nothing is marked)"),
        (Acting.DROPS, "packets are lost"),
        (Acting.NOTHING, "nothing is marked, paused or lost"),
    ):
        mine = [point for point in points if point.acting is acting]
        if mine:
            yield (
                f"{profile}: {text} at {len(mine)} of {total} settings{_where(mine, total)};"
                f" the egress carries {_range(mine)}."
            )
    turn = _turning(points)
    if turn is not None:
        ecn, stopped, free = turn
        yield (
            f"{profile}: thresholds belong together: with ECN at {ecn} senders are paused when PFC"
            f" is at {stopped}, and not when it is at {free}."
        )
    yield from _best(profile, points)


def _where(points: list[SweepPoint], total: int) -> str:
    if len(points) == total:
        return ""
    shown = [f"{ecn}/{pfc}" for ecn, pfc in (threshold_text(p.case) for p in points)]
    more = f" and {len(shown) - 6} more" if len(shown) > 6 else ""
    return f" (ECN/PFC {', '.join(shown[:6])}{more})"


def _range(points: list[SweepPoint]) -> str:
    """Return the least and the most throughput as text."""
    texts = [
        format_bits_rate(how(point.metrics.throughput_bps for point in points))
        for how in (min, max)
    ]
    return texts[0] if texts[0] == texts[1] else " to ".join(texts)


def _turning(points: list[SweepPoint]) -> tuple[str, str, str] | None:
    """Return an ECN threshold at which it depends on PFC's whether senders are paused."""
    by_ecn: dict[str, list[SweepPoint]] = {}
    for point in points:
        if point.case.ecn is not None and point.case.pfc_bytes is not None:
            by_ecn.setdefault(threshold_text(point.case)[0], []).append(point)
    for ecn, mine in by_ecn.items():
        stopped = [p for p in mine if p.metrics.pauses]
        free = [p for p in mine if not p.metrics.pauses]
        if stopped and free:
            high = max(stopped, key=_pfc)
            low = min(free, key=_pfc)
            if _pfc(high) < _pfc(low):
                return ecn, threshold_text(high.case)[1], threshold_text(low.case)[1]
    return None


def _pfc(point: SweepPoint) -> float:
    return math.inf if point.case.pfc_bytes is None else float(point.case.pfc_bytes)


def _best(profile: str, points: list[SweepPoint]) -> Iterator[str]:
    """Name the highest throughput, and the shortest delay among those within 1 % of it."""
    top = max(points, key=lambda p: p.metrics.throughput_bps)
    near = [p for p in points if p.metrics.throughput_bps >= 0.99 * top.metrics.throughput_bps]
    best = min(near, key=lambda p: p.metrics.delay_p99_s)
    ecn, pfc = threshold_text(best.case)
    numbers = best.metrics
    yield (
        f"{profile}: highest throughput {format_bits_rate(top.metrics.throughput_bps)}; within 1 %"
        f" of it the shortest p99 delay, {format_seconds(numbers.delay_p99_s)}, is at ECN {ecn},"
        f" PFC {pfc} ({numbers.pauses:,} pauses)."
    )
