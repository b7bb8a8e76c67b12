"""Sentences that say why an option won, made from its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from railweave.units import format_seconds

if TYPE_CHECKING:
    from railweave.predict.collective import OptionTime

__all__ = ["why_best"]

_CLOSE = 1.05


def why_best(
    best: OptionTime,
    options: Sequence[OptionTime],
    library: OptionTime,
    *,
    decided_by_library: bool,
    forced: bool,
) -> tuple[str, ...]:
    """Say what the best option's time is made of, what binds it, and how it beat the others."""
    sentences = [_what_it_takes(best), _what_binds(best)]
    others = [each for each in options if each.usable and each is not best]
    quickest = min(others, key=lambda each: each.time_s, default=None)
    if forced:
        sentences.append(f"{best.name} was asked for.")
    elif decided_by_library and others:
        second = min(others, key=lambda each: each.library_s)
        sentences.append(
            f"NCCL picks {best.name} by its own constants: {format_seconds(best.library_s)}, "
            f"against {format_seconds(second.library_s)} for {second.name}."
        )
    elif others and quickest is not None:
        sentences.append(
            f"{best.name} has the smallest predicted time; next is {quickest.name} with "
            f"{format_seconds(quickest.time_s)}."
        )
    if quickest is not None:
        sentences.append(_against(best, quickest))
        if quickest.time_s * _CLOSE < best.time_s:
            sentences.append(
                f"Measured systems suggest that {quickest.name} would be quicker "
                f"({format_seconds(quickest.time_s)}); {_how_to_force(quickest)} would force it."
            )
    if not decided_by_library and library.name != best.name and not forced and others:
        sentences.append(f"NCCL's own constants alone would pick {library.name}.")
    return tuple(sentences)


def _what_it_takes(best: OptionTime) -> str:
    return (
        f"{best.name} takes {format_seconds(best.time_s)}: {format_seconds(best.latency_s)} of "
        f"latency and {format_seconds(best.transfer_s)} of transfer."
    )


def _what_binds(best: OptionTime) -> str:
    share = best.latency_s / best.time_s if best.time_s else 0.0
    if share > 0.5:
        part = max(
            (term for term in best.terms if term.kind == "latency"), key=lambda term: term.seconds
        )
        return (
            f"Latency binds, {share:.0%} of the time; most of it is '{part.name}': "
            f"{part.formula} = {format_seconds(part.seconds)}."
        )
    return (
        f"Bandwidth binds, {1 - share:.0%} of the time. The limit is {best.bound}: a bus bandwidth "
        f"of up to {best.peak_bus_Bps / 1e9:.4g} GB/s, of which "
        f"{best.bus_Bps / best.peak_bus_Bps:.0%} is reached at this size."
    )


def _against(best: OptionTime, other: OptionTime) -> str:
    return (
        f"{other.name}: latency {format_seconds(other.latency_s)} against "
        f"{format_seconds(best.latency_s)}, bus bandwidth up to {other.peak_bus_Bps / 1e9:.4g} "
        f"GB/s against {best.peak_bus_Bps / 1e9:.4g}."
    )


def _how_to_force(option: OptionTime) -> str:
    algorithm = f"NCCL_ALGO={option.algorithm.value} " if option.algorithm else ""
    return f"{algorithm}NCCL_PROTO={option.protocol.value}"
