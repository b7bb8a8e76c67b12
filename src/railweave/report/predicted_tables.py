"""Tables and sentences of predicted training steps and collectives, for the report of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from railweave.findings import Finding, Severity
from railweave.predict._plan_words import said_of_step
from railweave.predict.collective import CollectiveChoice, decided_by_library
from railweave.report.page_table import DASH, PageTable
from railweave.report.predicted import CollectiveForecast, TrainingForecast
from railweave.report.training import assumption_table, explanation_table, step_assumptions
from railweave.report.training_tables import communication_table, memory_table, time_table
from railweave.units import format_seconds

__all__ = [
    "collective_line",
    "expected_table",
    "step_finding",
    "step_grounds",
    "step_line",
    "step_notes",
    "step_said",
    "step_tables",
]

#: jobs whose difference from the engine is explained
_MOST_SAID: Final = 8


# ---------------------------------------------------------------- training


def step_said(item: TrainingForecast, engine_s: float) -> tuple[str, ...]:
    """Say what a step takes, and why the engine's time of the job, ``engine_s``, is another."""
    if item.case is None:
        return (f"No step is predicted: {item.why_not}.",)
    case = item.case
    estimate = case.estimate
    said = [
        f"{estimate.plan.shape.title} on {item.ranks:,} × {estimate.gpu.title}: "
        f"{estimate.plan.describe()}.",
        f"{said_of_step(estimate)} Waiting for communication is {100 * estimate.network_share:.1f} "
        f"% of the step; {100 * case.lost_share:.1f} % is what the best possible network would "
        "gain.",
    ]
    if math.isfinite(engine_s):
        said.append(
            f"The table of jobs has {format_seconds(engine_s)}: there the arithmetic stands "
            "undivided between the passes' communication and the gradients, and all that the "
            "design sends shares the links; here communication hides behind arithmetic as far as "
            "the schedule allows, and the job runs alone."
        )
    if item.slow_gpus:
        said.append(f"The design's slow GPUs ({item.slow_gpus} stragglers) are not in it.")
    return tuple(said)


def step_finding(item: TrainingForecast) -> Finding | None:
    """Return what to say where the fullest GPU has no room."""
    if item.case is None or item.case.estimate.memory.fits:
        return None
    memory = item.case.estimate.memory
    stage = memory.fullest
    parts = (
        ("weights", stage.weights_bytes),
        ("gradients", stage.gradients_bytes),
        ("optimizer", stage.optimizer_bytes),
        ("activations", stage.activations_bytes),
        ("workspace", stage.workspace_bytes),
    )
    return Finding(
        "step-exceeds-memory",
        Severity.WARNING,
        f"jobs.{item.job}",
        f"does not fit: a GPU of stage {stage.stage} holds {memory.total_bytes / 1e9:.1f} GB and "
        f"{memory.usable_bytes / 1e9:.1f} GB are usable",
        ", ".join(f"{name} {size / 1e9:.1f} GB" for name, size in parts),
        f"nearest that would: {item.nearest.describe()}"
        if item.nearest
        else "more GPUs, or another model: nothing near would do on these",
    )


def step_line(item: TrainingForecast) -> str:
    """Say it in a line of a terminal."""
    if item.case is None:
        return f"no step is predicted: {item.why_not}"
    estimate = item.case.estimate
    memory = estimate.memory
    fits = "" if memory.fits else ": does not fit"
    return (
        f"by its schedule {format_seconds(estimate.step_s)} a step, MFU {100 * estimate.mfu:.1f} "
        f"%, {memory.total_bytes / 1e9:.1f} of {memory.usable_bytes / 1e9:.1f} GB a GPU{fits}"
    )


def step_tables(item: TrainingForecast, number: int) -> tuple[PageTable, ...]:
    """Return where time, memory and bytes of a step go; ``number`` tells jobs' tables apart."""
    if item.case is None:
        return ()
    estimate = item.case.estimate
    tables = (time_table(estimate), memory_table(estimate), communication_table(estimate))
    return tuple(replace(table, id=f"step-{number}-{table.id}") for table in tables)


def step_grounds(item: TrainingForecast, number: int) -> tuple[PageTable, ...]:
    """Return what a step rests on: formulas with their inputs, and assumptions."""
    if item.case is None:
        return ()
    estimate = item.case.estimate
    tables = (explanation_table(estimate), assumption_table(step_assumptions(estimate)))
    return tuple(replace(table, id=f"step-{number}-{table.id}") for table in tables)


def step_notes(item: TrainingForecast) -> tuple[str, ...]:
    """Say where the spans are."""
    if not item.command:
        return ()
    return (f"All spans as a trace for Perfetto, on packed GPUs: {item.command}",)


# ---------------------------------------------------------------- collectives


def expected_table(items: Sequence[CollectiveForecast]) -> PageTable:
    """Return what the library picks and reaches, beside the engine's ideal messages."""
    rows = tuple(_row(item) for item in items)
    notes = [
        "Expected: what the collective library reaches with the job alone on this fabric, by a "
        "model fitted to published runs; healthy: the band of nine clusters in ten. Engine: the "
        "job's ideal messages, beside all else that the design sends. railweave collective "
        "--explain has every option.",
        *(_why(item) for item in items[:_MOST_SAID]),
    ]
    return PageTable(
        "expected",
        "Busbw to expect of the collective library",
        ("job", "library picks", "expected", "healthy", "engine", "network leaves"),
        rows,
        tuple(notes),
        ("network leaves",),
        ("library picks", "network leaves"),
    )


def _row(item: CollectiveForecast) -> tuple[str, ...]:
    engine = DASH if math.isnan(item.engine_busbw_Bps) else _rate(item.engine_busbw_Bps)
    choice = item.choice
    if choice is None:
        return (item.job, DASH, DASH, DASH, engine, DASH)
    return (
        item.job,
        choice.best.name,
        _rate(choice.busbw_Bps),
        _band(choice),
        engine,
        _leaves(choice),
    )


def _rate(value: float) -> str:
    return f"{value / 1e9:.4g} GB/s"


def _band(choice: CollectiveChoice) -> str:
    return f"{choice.busbw_low_Bps / 1e9:.3g}–{choice.busbw_high_Bps / 1e9:.3g}"


def _leaves(choice: CollectiveChoice) -> str:
    if choice.system.domains < 2:
        return "no network between the ranks"
    part = choice.network
    shares: Mapping[str, float] = {
        "rings": part.ring_share,
        "trees": part.tree_share,
        "pairwise": part.pairwise_share,
    }
    return ", ".join(f"{name} {share:.0%}" for name, share in shares.items())


def _why(item: CollectiveForecast) -> str:
    """Say in a sentence why the library's number is not the engine's."""
    choice = item.choice
    if choice is None:
        return f"{item.job}: nothing is predicted of the library: {item.why_not}."
    best = choice.best
    runs = "NCCL picks" if decided_by_library(choice.system, choice.op) else "the library runs"
    latency = best.latency_s / best.time_s if best.time_s else 0.0
    share = best.bus_Bps / best.peak_bus_Bps if best.peak_bus_Bps else 0.0
    return (
        f"{item.job}: the engine sends the {item.algorithm} schedule's messages at the links' "
        f"payload rate, with no time for the library; {runs} {best.name}, bound by {best.bound}: "
        f"at most {_rate(best.peak_bus_Bps)}, of which {share:.0%} is reached at this size "
        f"({latency:.0%} of the time is latency)."
    )


def collective_line(item: CollectiveForecast) -> str:
    """Say it in a line of a terminal."""
    if item.choice is None:
        return f"nothing is predicted of the library: {item.why_not}"
    return (
        f"expect {_band(item.choice)} GB/s of the library ({item.choice.best.name} on this fabric)"
    )
