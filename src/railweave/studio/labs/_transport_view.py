"""Lab 3's answer: what the page shows of inputs and kept measurements."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from railweave.report.page_table import PageTable
from railweave.report.transport_compare import (
    answer_table,
    arithmetic_table,
    host_table,
    measured_table,
    not_modelled,
    score_table,
    sensitivity_table,
    sources_table,
    stated_table,
)
from railweave.report.transport_figures import draw_totals, draw_turning
from railweave.studio.lab import Number, Reproduce
from railweave.studio.labs._transport import Given, command_of, python_of, requirements_of
from railweave.transport.compare import Comparison, Measurements, Technology, judge
from railweave.units import format_seconds, format_si

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["Detail", "View", "detail_of", "judged", "stated_of", "view_of"]


@dataclass(frozen=True, eq=False)
class View:
    """What follows every input at once."""

    numbers: tuple[Number, ...]
    words: tuple[str, ...]
    reproduce: Reproduce
    benchmarks: tuple[str, ...]
    weights: dict[str, float]
    answer: PageTable
    scores: PageTable
    sensitivity: PageTable
    totals: go.Figure


@dataclass(frozen=True, eq=False)
class Detail:
    """What may follow: where the answer turns, drawn, and the arithmetic."""

    turning: go.Figure
    arithmetic: PageTable


@lru_cache(maxsize=8)
def _read(document: str) -> Measurements:
    return Measurements.of(json.loads(document))


def judged(given: Given, document: str) -> Comparison:
    """Return the comparison for kept measurements, which are given as JSON.

    Raises:
        InputError: requirements that cannot be.
    """
    return judge(requirements_of(given.state), _read(document))


def view_of(given: Given, document: str) -> View:
    """Return what is shown at once; see :func:`judged`."""
    found = judged(given, document)
    return View(
        numbers=_numbers(found),
        words=found.reasons,
        reproduce=Reproduce(command_of(given), python_of(given)),
        benchmarks=found.benchmarks,
        weights={term.criterion: term.weight for term in found.weights},
        answer=answer_table(found),
        scores=score_table(found),
        sensitivity=sensitivity_table(found),
        totals=draw_totals(found),
    )


def detail_of(given: Given, document: str) -> Detail:
    """Return what is drawn after it."""
    found = judged(given, document)
    return Detail(draw_turning(found), arithmetic_table(found))


def stated_of(given: Given, document: str) -> tuple[tuple[PageTable, ...], tuple[str, ...]]:
    """Return the tables that no weight changes, and what the measurements leave out."""
    found = judged(given, document)
    tables = (measured_table(found), stated_table(found), host_table(), sources_table())
    return tables, not_modelled(found)


def _numbers(found: Comparison) -> tuple[Number, ...]:
    """Return the winner's figures; none where nothing is left."""
    best = found.winner
    if best is None:
        return ()
    own = found.measurements.measured[best]
    total = found.totals[best]
    numbers = [Number("technology_score", f"{_short(best)}: score", f"{total:.3f}", total)]
    if len(found.ranking) > 1:
        second = found.ranking[1]
        margin = total - found.totals[second]
        numbers.append(
            Number("technology_margin", f"Ahead of {_short(second)}", f"{margin:.3f}", margin)
        )
    large, small = own.large[0], own.small
    shares = {"loss_left": own.loss_share}
    if own.failed_share is not None:
        shares["failed_left"] = own.failed_share
    labels = {"loss_left": "Left by a lossy cable", "failed_left": "Left without an uplink"}
    return (
        *numbers,
        Number("large_collective", large.operation, format_seconds(large.time_s), large.time_s),
        Number(
            "small_collective", f"small {small.operation}", format_seconds(small.time_s),
            small.time_s,
        ),
        Number("message_time", "Message of 8 B", format_seconds(own.message_s), own.message_s),
        Number(
            "permutation_ratio", "Permutation, over alone", f"{own.permutation_ratio:.2f}",
            own.permutation_ratio,
        ),
        Number("incast_ratio", "Incast, over ideal", f"{own.incast_ratio:.2f}", own.incast_ratio),
        *(Number(key, labels[key], f"{100 * left:.1f} %", left) for key, left in shares.items()),
        Number(
            "cores_needed", f"Cores of {found.measurements.cores}", f"{own.cores_needed:.3g}",
            own.cores_needed,
        ),
        Number("network_power", "Switches, adapters", format_si(own.power_w, "W"), own.power_w),
    )  # fmt: skip


def _short(technology: Technology) -> str:
    return {
        Technology.TCP: "TCP",
        Technology.ROCEV2: "RoCEv2",
        Technology.INFINIBAND: "InfiniBand",
        Technology.ADAPTIVE: "Adaptive Ethernet",
    }[technology]
