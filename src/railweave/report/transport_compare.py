"""The comparison of technologies as tables, one JSON document and one page."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from railweave.design.models import Collective
from railweave.formats.files import staged
from railweave.report.page_table import DASH, PageTable
from railweave.transport.compare import (
    CLASS_WORDS,
    CollectiveTime,
    Comparison,
    Flip,
    HostFacts,
    Measured,
    Requirements,
    Technology,
    technology_facts,
)
from railweave.units import format_bits_rate, format_bytes, format_seconds, format_si
from railweave.workload import bus_factor

__all__ = [
    "answer_table",
    "arithmetic_table",
    "compare_json",
    "compare_page",
    "host_table",
    "measured_table",
    "not_modelled",
    "said",
    "score_table",
    "sensitivity_table",
    "sources_table",
    "stated_table",
    "write_compare",
]

_TITLES: Final = tuple(technology.label for technology in Technology)


def answer_table(found: Comparison) -> PageTable:
    """Return the ranking with its totals, those that are out last."""
    out = {one.technology: one.reason for one in found.excluded}
    rows = [
        (str(place), technology.label, f"{found.totals[technology]:.3f}", "can be taken")
        for place, technology in enumerate(found.ranking, 1)
    ]
    rows += [
        (DASH, technology.label, f"{found.totals[technology]:.3f}", f"out: {reason}")
        for technology, reason in out.items()
    ]
    return PageTable(
        "answer",
        "Which technology",
        ("place", "technology", "total", ""),
        tuple(rows),
        ("Total: sum of weight × score over the sum of the weights.",),
        text_columns=("technology", ""),
    )


# ---------------------------------------------------------------- measured


def measured_table(found: Comparison) -> PageTable:
    """Return what the engines measured, one row a quantity."""
    given = found.measurements
    rows: list[tuple[str, ...]] = []

    def add(title: str, text: Callable[[Measured], str]) -> None:
        rows.append((title, *(text(given.measured[technology]) for technology in Technology)))

    add("what ran", lambda one: one.ran + (" (the design's own)" if one.own else ""))
    for at, part in enumerate(given.measured[Technology.TCP].large):
        what = f"{part.operation} {format_bytes(part.size_bytes)}"
        add(f"{what}, network", lambda one, k=at: format_seconds(one.large[k].network_s))  # type: ignore[misc]
        add(f"{what}, processors", lambda one, k=at: format_seconds(one.large[k].host_s))  # type: ignore[misc]
        add(f"{what}, the longer", lambda one, k=at: format_seconds(one.large[k].time_s))  # type: ignore[misc]
        add(f"{what}, busbw", lambda one, k=at: _busbw(one, k, given.ranks))  # type: ignore[misc]
        add(
            f"{what}, {given.failed or 'no uplink'} failed",
            lambda one, k=at: _failed(one.large[k]),  # type: ignore[misc]
        )
    add("busbw of the library, fitted model", lambda one: _rate(one.library_busbw_Bps))
    small = given.measured[Technology.TCP].small
    what = f"{small.operation} {format_bytes(small.size_bytes)} ({small.algorithm})"
    add(f"{what}, network", lambda one: format_seconds(one.small.network_s))
    add(f"{what}, with the software", lambda one: format_seconds(one.small.time_s))
    add("message of 8 B, network", lambda one: format_seconds(one.message_network_s))
    add("message of 8 B, with the software", lambda one: format_seconds(one.message_s))
    add(f"permutation of {given.flows}, × alone", lambda one: f"{one.permutation_ratio:.2f}")
    add("the same, short burst, × alone", lambda one: f"{one.short_ratio:.2f}")
    add("incast, × ideal", lambda one: f"{one.incast_ratio:.2f}")
    add("bystander, × alone", lambda one: f"{one.bystander_ratio:.2f}")
    add("dropped in these", lambda one: format_bytes(one.dropped_bytes))
    add("marked packets, pauses", lambda one: f"{one.marks:,}, {one.pauses:,}")
    add("messages not ended", lambda one: f"{one.unfinished:,}")
    loss = float(given.case["loss"])
    add(f"goodput left, {100 * loss:g} % lost", lambda one: f"{100 * one.loss_share:.1f} %")
    add("speed left, uplink failed", lambda one: _percent(one.failed_share))
    add(
        f"cores of {given.cores} at full rate",
        lambda one: f"{one.cores_needed:.3g}",
    )
    add("switches, adapters", lambda one: f"{_watts(one.switches_w)}, {_watts(one.nics_w)}")
    notes = [f"{t.label}: {note}." for t, one in given.measured.items() for note in one.notes]
    return PageTable(
        "measured",
        f"Measured on {given.design}: {given.gpus:,} GPUs in {given.servers:,} servers, "
        f"{format_bits_rate(given.host_bps)}",
        ("quantity", *_TITLES),
        tuple(rows),
        tuple(notes),
        text_columns=_TITLES,
    )


def _busbw(one: Measured, at: int, ranks: int) -> str:
    part = one.large[at]
    return _rate(part.size_bytes / part.time_s * bus_factor(Collective(part.operation), ranks))


def _rate(value: float | None) -> str:
    return DASH if value is None or not math.isfinite(value) else f"{value / 1e9:.3g} GB/s"


def _failed(part: CollectiveTime) -> str:
    if part.cut_off:
        return "cut off"
    return DASH if part.failed_s is None else format_seconds(part.failed_s)


def _percent(value: float | None) -> str:
    return DASH if value is None else f"{100 * value:.1f} %"


def _watts(value: float) -> str:
    return format_si(value, "W")


# ---------------------------------------------------------------- stated


def stated_table(found: Comparison) -> PageTable:
    """Return the comparison in words: every row of it, with its class where it is scored."""
    facts, given = technology_facts(), found.measurements
    rows = [
        ("Protocol stack", *(_stack(technology) for technology in Technology)),
        *(
            (row.title, *(_cell(row.cells[t].text, row.cells[t].rank) for t in Technology))
            for row in facts.rows
        ),
        (
            "Makers in the catalog",
            *(
                f"{given.makers[t][0]} of switches, {given.makers[t][1]} of adapters from 200 Gb/s"
                for t in Technology
            ),
        ),
        (
            "Power class",
            *(
                f"{_watts(given.measured[t].power_w)} for {given.gpus:,} GPUs, "
                f"{_watts(given.measured[t].power_w / max(given.gpus, 1))} each"
                for t in Technology
            ),
        ),
    ]
    return PageTable(
        "stated",
        "Stated",
        ("row", *_TITLES),
        tuple(rows),
        ("In brackets the class that is scored: " + ", ".join(
            f"{word} {rank}" for rank, word in enumerate(CLASS_WORDS)
        ) + ". Team familiarity is scored for the team that is named.",),
        text_columns=_TITLES,
    )  # fmt: skip


def _stack(technology: Technology) -> str:
    return " / ".join(what for _, what in technology_facts().technologies[technology].stack)


def _cell(text: str, rank: int | None) -> str:
    return text if rank is None else f"{text} [{CLASS_WORDS[rank]}]"


def sources_table() -> PageTable:
    """Return where each statement comes from, and how sure it is."""
    rows = [
        (row.title, technology.label, cell.source.title, cell.source.certainty.value)
        for row in technology_facts().rows
        for technology, cell in row.cells.items()
    ]
    return PageTable(
        "sources",
        "Where the statements come from",
        ("row", "technology", "source", "certainty"),
        tuple(rows),
        text_columns=("technology", "source", "certainty"),
    )


def host_table() -> PageTable:
    """Return the stated numbers that measured ones are joined with."""
    facts = technology_facts()
    titles: dict[str, tuple[str, Callable[[HostFacts], str]]] = {
        "send_cycles_per_byte": ("cycles a byte sent", lambda f: f"{f.send_cycles_per_byte:g}"),
        "receive_cycles_per_byte": (
            "cycles a byte received",
            lambda f: f"{f.receive_cycles_per_byte:g}",
        ),
        "cycles_per_transfer": (
            "cycles a transfer, both ends",
            lambda f: f"{f.cycles_per_transfer:g}",
        ),
        "stack_latency_us": (
            "software's latency, both ends",
            lambda f: format_seconds(f.stack_latency_s),
        ),
    }
    rows = []
    for key, (title, text) in titles.items():
        for technology in Technology:
            own = facts.host[technology]
            source, note = own.sources[key]
            rows.append(
                (title, technology.label, text(own), source.title, source.certainty.value, note)
            )
    machine = facts.machine
    for key, title, value in (
        ("cores_per_socket", "cores of a socket", f"{machine.cores_per_socket}"),
        ("clock_ghz", "clock", f"{machine.clock_hz / 1e9:g} GHz"),
        ("core_share", "cores that communication may take", f"{100 * machine.core_share:g} %"),
        ("chunk_kib", "one transfer", format_bytes(machine.chunk_bytes)),
    ):
        source, note = machine.sources[key]
        rows.append((title, "all", value, source.title, source.certainty.value, note))
    return PageTable(
        "host",
        "Stated numbers in the arithmetic",
        ("number", "technology", "value", "source", "certainty", "note"),
        tuple(rows),
        optional=("note",),
        text_columns=("technology", "source", "certainty", "note"),
    )


# ---------------------------------------------------------------- scores


def score_table(found: Comparison) -> PageTable:
    """Return weights and scores, and the totals they give."""
    criteria = technology_facts().criteria
    rows = [
        (
            criteria[term.criterion].title,
            f"{term.weight:g}",
            *(f"{found.scores[technology][at].value:.3f}" for technology in Technology),
            term.reason,
        )
        for at, term in enumerate(found.weights)
    ]
    whole = sum(term.weight for term in found.weights)
    rows.append(
        ("total", f"{whole:g}", *(f"{found.totals[t]:.3f}" for t in Technology), "weighted mean")
    )
    return PageTable(
        "scores",
        "Scores of 0 to 1, and their weights",
        ("criterion", "weight", *_TITLES, "why this weight"),
        tuple(rows),
        optional=("why this weight",),
        text_columns=("why this weight",),
    )


def arithmetic_table(found: Comparison) -> PageTable:
    """Return how each score comes about."""
    criteria = technology_facts().criteria
    rows = [
        (
            criteria[term.criterion].title,
            criteria[term.criterion].meaning,
            *(found.scores[technology][at].arithmetic for technology in Technology),
        )
        for at, term in enumerate(found.weights)
    ]
    return PageTable(
        "arithmetic",
        "How each score comes about",
        ("criterion", "rule", *_TITLES),
        tuple(rows),
        text_columns=("rule", *_TITLES),
    )


def sensitivity_table(found: Comparison) -> PageTable:
    """Return at which weight of each criterion another technology is ahead, all others as now."""
    criteria = technology_facts().criteria
    rows = []
    for term in found.weights:
        mine = [flip for flip in found.flips if flip.criterion == term.criterion]
        below = next((flip for flip in mine if flip.at < flip.now), None)
        above = next((flip for flip in mine if flip.at >= flip.now), None)
        rows.append(
            (
                criteria[term.criterion].title,
                f"{term.weight:g}",
                _turn(below, "below"),
                _turn(above, "above"),
            )
        )
    winner = found.winner
    return PageTable(
        "sensitivity",
        "Where the answer turns",
        ("criterion", "weight now", "turns below", "turns above"),
        tuple(rows),
        (
            f"Each weight alone moves, the others stay; between the two the answer is "
            f"{winner.label}. Totals are linear in a weight, so these are exact."
            if winner
            else "Nothing is left to turn.",
            "Weights go from 0 to 10; in brackets what lies beyond.",
        ),
        text_columns=("turns below", "turns above"),
    )


def _turn(flip: Flip | None, way: str) -> str:
    if flip is None:
        return DASH
    text = f"{way} {flip.at:.4g}: {flip.to.label}"
    return text if flip.within else f"({text})"


# ---------------------------------------------------------------- documents


def said(found: Comparison) -> tuple[str, ...]:
    """Return the recommendation, its reasons and what to benchmark first."""
    tests = [f"Benchmark {place}: {text}" for place, text in enumerate(found.benchmarks, 1)]
    return (*found.reasons, *tests)


def not_modelled(found: Comparison) -> tuple[str, ...]:
    """Return what the comparison rests on and leaves out."""
    return tuple(text[0].upper() + text[1:] + "." for text in found.measurements.assumptions)


def compare_json(found: Comparison) -> dict[str, Any]:
    """Return the comparison as one document: times in s, rates in bit/s, shares of 0 to 1."""
    facts = technology_facts()
    return {
        "recommendation": found.winner.value if found.winner else None,
        "ranking": [technology.value for technology in found.ranking],
        "totals": {technology.value: total for technology, total in found.totals.items()},
        "excluded": [
            {"technology": one.technology.value, "reason": one.reason} for one in found.excluded
        ],
        "reasons": list(found.reasons),
        "benchmarks": list(found.benchmarks),
        "requirements": _plain(found.requirements),
        "weights": [asdict(term) for term in found.weights],
        "scores": {
            technology.value: [asdict(score) for score in scores]
            for technology, scores in found.scores.items()
        },
        "sensitivity": [
            {
                "criterion": flip.criterion,
                "weight": flip.now,
                "at": flip.at,
                "from": flip.winner.value,
                "to": flip.to.value,
                "within": flip.within,
            }
            for flip in found.flips
        ],
        "measurements": found.measurements.document(),
        "stated": [
            {
                "row": row.key,
                "title": row.title,
                "criterion": row.criterion or None,
                "cells": {
                    technology.value: {
                        "text": cell.text,
                        "class": cell.rank,
                        "source": cell.source.title,
                        "certainty": cell.source.certainty.value,
                    }
                    for technology, cell in row.cells.items()
                },
            }
            for row in facts.rows
        ],
    }


def _plain(requirements: Requirements) -> dict[str, Any]:
    """Return the requirements' fields as plain data."""
    data = {name: getattr(requirements, name) for name in requirements.__dataclass_fields__}
    return {**data, "weights": dict(requirements.weights)}


def compare_page(found: Comparison) -> str:
    """Return the page: the answer, figures, stacks and fabrics, every table."""
    from railweave.report.plain_page import plain_page
    from railweave.report.transport_figures import draw_totals, draw_turning
    from railweave.report.transport_stacks import draw_stacks

    limits = PageTable(
        "limits",
        "What it rests on",
        ("assumed, or left out",),
        tuple((text,) for text in not_modelled(found)),
    )
    return plain_page(
        f"Which technology: {found.measurements.design}",
        (draw_totals(found), draw_turning(found)),
        said(found),
        (
            answer_table(found),
            measured_table(found),
            stated_table(found),
            score_table(found),
            arithmetic_table(found),
            sensitivity_table(found),
            host_table(),
            sources_table(),
            limits,
        ),
        drawing=draw_stacks(),
    )


def write_compare(found: Comparison, path: Path) -> Path:
    """Write the page and return where it is."""
    with staged(path.parent) as stage:
        return stage.write_text(path.name, compare_page(found))
