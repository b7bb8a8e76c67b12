"""A design in a few numbers, from the build summary."""

from __future__ import annotations

from railweave.studio.designs import built_design
from railweave.studio.lab import Number
from railweave.units import format_bits_rate

__all__ = ["design_numbers"]


def design_numbers(text: str) -> tuple[Number, ...]:
    """Build the design and return its headline numbers.

    Raises:
        DesignError: problems of the text, each at its line.
        SizingError: a plane cannot be built as asked.
    """
    summary = built_design(text).summary()
    counts, capacity = summary.backend.counts, summary.backend.capacity
    numbers = [
        _count("servers", "Servers", counts.servers),
        _count("gpus", "GPUs", counts.gpus),
        _count("switches", "Back-end switches", sum(n for _, n in counts.switches)),
        _count("cables", "Back-end cables", sum(n for _, n in summary.backend.cables)),
        _rate("bisection", "Bisection", capacity.bisection_bps),
        Number(
            "ecmp_paths", "Equal-cost paths", f"{capacity.ecmp_paths:,.0f}", capacity.ecmp_paths
        ),
    ]
    if summary.power is not None:
        power_w = summary.power.total_w
        numbers.append(Number("power", "Power", f"{power_w / 1e3:,.1f} kW", power_w))
    return tuple(numbers)


def _count(key: str, label: str, value: int) -> Number:
    return Number(key, label, f"{value:,}", float(value))


def _rate(key: str, label: str, value_bps: float) -> Number:
    return Number(key, label, format_bits_rate(value_bps), value_bps)
