"""What puts the strategies in another order: sentences and what-ifs from the studies themselves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Final

from railweave.design.models import PlacementName
from railweave.engine.turning import turning_point
from railweave.report.patterns import PatternStudy, compare_strategies, study_pattern
from railweave.units import format_bytes, format_seconds
from railweave.workload.patterns import PatternCase, Strategy

if TYPE_CHECKING:
    from railweave.api import BuiltDesign
    from railweave.fabric.routing import RoutingSet

__all__ = ["Variation", "pattern_variations", "reversed_pairs", "turning_payloads", "what_reorders"]

#: times nearer than this count as equal
_EQUAL: Final = 0.005
#: halvings of a range of 1,000 times, which find a payload at which the order turns within 6 %
_HALVINGS: Final = 7
_SMALLER, _MORE, _LATENCY_S, _SERVER = 1000, 16, 10e-6, 8


@dataclass(frozen=True, eq=False)
class Variation:
    """The strategies with one setting changed: ``studies`` fastest first.

    ``reverses`` are the pairs (ahead now, ahead before) whose order is another than without it.
    """

    change: str
    studies: tuple[PatternStudy, ...]
    reverses: tuple[tuple[Strategy, Strategy], ...]


def pattern_variations(
    case: PatternCase,
    base: Sequence[PatternStudy],
    built: BuiltDesign | None = None,
    *,
    routing: RoutingSet | None = None,
) -> tuple[Variation, ...]:
    """Compare the strategies again with one setting changed at a time.

    Payload, exchanges, latency and how many GPUs share a server; on a design payload, exchanges
    and placement.

    Args:
        case: as compared.
        base: what :func:`railweave.report.patterns.compare_strategies` says of it.
        built: as there.
        routing: as there.
    """
    made = []
    for change, other in _changes(case, built):
        studies = compare_strategies(other, built, routing=routing)
        made.append(Variation(change, studies, reversed_pairs(base, studies)))
    return tuple(made)


def _changes(case: PatternCase, built: BuiltDesign | None) -> list[tuple[str, PatternCase]]:
    small = max(1, case.payload_bytes // _SMALLER)
    changes = [
        (f"a payload {_SMALLER:,} times smaller", replace(case, payload_bytes=small)),
        (
            f"{case.exchanges * _MORE:,} exchanges a step",
            replace(case, exchanges=case.exchanges * _MORE),
        ),
    ]
    if built is None:
        latency = 0.0 if case.latency_s else _LATENCY_S
        text = f"latency {format_seconds(latency)}" if latency else "no latency"
        changes.append((text, replace(case, latency_s=latency, scale_up_latency_s=None)))
        together = min(_SERVER, case.gpus) if case.gpus_per_server == 1 else 1
        word = "GPU" if together == 1 else "GPUs"
        changes.append(
            (
                f"{together} {word} a server",
                replace(case, gpus_per_server=together, servers=None),
            )
        )
    else:
        spread = PlacementName.SPREAD
        placement = PlacementName.PACKED if case.placement is spread else spread
        changes.append((f"placement {placement.value}", replace(case, placement=placement)))
    return changes


def reversed_pairs(
    before: Sequence[PatternStudy], after: Sequence[PatternStudy]
) -> tuple[tuple[Strategy, Strategy], ...]:
    """Return the pairs (ahead after, ahead before) that changed places.

    Times that are about equal do not count.
    """
    old = {study.case.strategy: study.time_s for study in before}
    new = {study.case.strategy: study.time_s for study in after}
    found = []
    for a, b in combinations(Strategy, 2):
        if _ahead(old, a, b) and _ahead(new, b, a):
            found.append((b, a))
        elif _ahead(old, b, a) and _ahead(new, a, b):
            found.append((a, b))
    return tuple(found)


def _ahead(times: dict[Strategy, float], a: Strategy, b: Strategy) -> bool:
    return times[a] < times[b] * (1 - _EQUAL)


def what_reorders(studies: Sequence[PatternStudy]) -> tuple[str, ...]:
    """Say what puts these strategies in this order: bytes, and messages that wait for each other.

    Args:
        studies: of the same settings, fastest first.
    """
    apart = _apart(studies)
    return (f"Fastest first: {_order(apart)}.", _by_volume(apart), _by_latency(apart))


def _apart(studies: Sequence[PatternStudy]) -> list[tuple[str, PatternStudy]]:
    """Return the strategies by name, those that send and take the same as one."""
    found: dict[tuple[str, ...], list[PatternStudy]] = {}
    for study in studies:
        numbers = study.time_s, study.bandwidth_s, study.latency_s, study.bytes_sent_per_gpu
        key = (str(study.case.collective), *(f"{value:.9g}" for value in numbers))
        found.setdefault(key, []).append(study)
    return [("/".join(s.case.strategy.value for s in same), same[0]) for same in found.values()]


def _order(apart: list[tuple[str, PatternStudy]]) -> str:
    text, before = "", 0.0
    for name, study in apart:
        joint = "" if not text else " = " if study.time_s <= before * (1 + _EQUAL) else ", "
        text += f"{joint}{name} ({format_seconds(study.time_s)})"
        before = study.time_s
    return text


def _by_volume(apart: list[tuple[str, PatternStudy]]) -> str:
    by_bytes = sorted(apart, key=lambda one: one[1].bytes_sent_per_gpu)
    (least_name, least), (most_name, most) = by_bytes[0], by_bytes[-1]
    said = (
        f"A GPU sends least in {least_name} ({format_bytes(least.bytes_sent_per_gpu)}), most in "
        f"{most_name} ({format_bytes(most.bytes_sent_per_gpu)})"
    )
    for (a_name, a), (b_name, b) in combinations(by_bytes, 2):
        less = a.bytes_sent_per_gpu < b.bytes_sent_per_gpu * (1 - _EQUAL)
        if less and a.time_s > b.time_s * (1 + _EQUAL):
            return (
                f"{said}. Volume is not time: {a_name} sends less than {b_name} and takes longer."
            )
    return f"{said}."


def _by_latency(apart: list[tuple[str, PatternStudy]]) -> str:
    counts = ", ".join(f"{name} {study.steps:,}" for name, study in apart)
    said = f"Messages that follow one another: {counts}."
    if all(study.latency_s <= 0 for _, study in apart):
        return f"{said} Without latency they cost nothing; with it each of them pays."
    bare = sorted(apart, key=lambda one: one[1].bandwidth_s)
    for (a_name, a), (b_name, b) in combinations(bare, 2):
        first = a.bandwidth_s < b.bandwidth_s * (1 - _EQUAL)
        if first and a.analytic_s > b.analytic_s * (1 + _EQUAL):
            return (
                f"{said} Latency reverses the order: without it {a_name} would be faster than "
                f"{b_name}."
            )
    return f"{said} The order would be the same without latency."


def turning_payloads(
    studies: Sequence[PatternStudy],
    built: BuiltDesign | None = None,
    *,
    routing: RoutingSet | None = None,
) -> tuple[str, ...]:
    """Say at which payload two strategies change places, from a 1,000th to 1,000 times this one.

    Found by halving, by closed form; a pair that changes places twice in that range is not found.

    Args:
        studies: of the same settings.
        built: the design that they are of.
        routing: of the design, where it is at hand.
    """
    apart = _apart(studies)

    def as_here(a: PatternStudy, b: PatternStudy, size: float) -> bool:
        one, other = (
            study_pattern(replace(s.case, payload_bytes=round(size)), built, routing=routing)
            for s in (a, b)
        )
        return (one.analytic_s < other.analytic_s) == (a.analytic_s < b.analytic_s)

    said = []
    for (a_name, a), (b_name, b) in combinations(apart, 2):
        if abs(a.analytic_s - b.analytic_s) <= _EQUAL * b.analytic_s:
            continue
        size, now = a.case.payload_bytes, a.analytic_s < b.analytic_s
        for end, way in ((max(1.0, size / _SMALLER), "below"), (size * float(_SMALLER), "above")):
            if as_here(a, b, end):
                continue
            near, far = turning_point(partial(as_here, a, b), float(size), end, _HALVINGS)
            first, behind = (a_name, b_name) if now else (b_name, a_name)
            said.append(
                f"{first.capitalize()} is ahead of {behind} here; {way} a payload of about "
                f"{format_bytes(float(f'{math.sqrt(near * far):.2g}'))} it is behind."
            )
    return tuple(said)
