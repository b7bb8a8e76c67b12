"""Lab 6 without a browser: an outcome to numbers, sentences, tables, a figure, a scene."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from railweave.engine.congest import CongestCase
from railweave.engine.congest_summary import CongestSummary
from railweave.engine.congest_sweep import Acting, SweepPoint, grid, read_sweep
from railweave.engine.congest_thresholds import (
    fitting_pfc_bytes,
    marking,
    threshold_bytes,
    unanswered,
)
from railweave.findings import Severity
from railweave.report.congest import comparison_table, draw_congest, draw_sweep
from railweave.report.page_table import PageTable, known
from railweave.runs.congest import sweep
from railweave.studio.lab import Number, Reproduce, TraceRow
from railweave.studio.labs._congestion import (
    CongestionState,
    case_of,
    command_of,
    is_lowered,
    python_of,
    read_baseline,
)
from railweave.studio.labs._congestion_scene import congestion_scene
from railweave.studio.scene import Scene
from railweave.units import format_bits_rate, format_bytes, format_seconds, format_si

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = [
    "SweepView",
    "View",
    "numbers_of",
    "predictions",
    "sweep_command",
    "sweep_view",
    "view_of",
]

_SWEEP_ECN: Final = (5, 20, 40, 60)
_SWEEP_PFC: Final = (20, 50, 80)


# ---------------------------------------------------------------- numbers


def _percent(value: float) -> str:
    return f"{100 * value:.3g} %"


def _count(value: float) -> str:
    return f"{value:,.0f}"


_NUMBERS: Final[tuple[tuple[str, str, str, Callable[[float], str]], ...]] = (
    ("throughput", "Throughput, wire", "throughput_bps", format_bits_rate),
    ("goodput", "Goodput, payload", "goodput_bps", format_bits_rate),
    ("queue_max", "Longest queue", "queue_max_bytes", format_bytes),
    ("queue_mean", "Mean queue", "queue_mean_bytes", format_bytes),
    ("delay_mean", "Mean queueing delay", "delay_mean_s", format_seconds),
    ("delay_p99", "p99 queueing delay", "delay_p99_s", format_seconds),
    ("pauses", "Pauses (PFC)", "pauses", _count),
    ("pause_share", "Time paused", "paused_share", _percent),
    ("marks", "Marks (ECN)", "marks", _count),
    ("cnps", "Notifications (CNP)", "cnps", _count),
    ("drops", "Drops", "drops", _count),
    ("retransmitted", "Sent again", "retransmitted", _count),
    ("jain", "Fairness (Jain)", "jain", lambda value: f"{value:.4f}"),
    ("oscillation", "Oscillation, queue", "oscillation", lambda value: f"{value:.3g}"),
    ("rate_oscillation", "Oscillation, rates", "rate_oscillation", lambda value: f"{value:.3g}"),
)


def numbers_of(outcome: CongestSummary) -> tuple[Number, ...]:
    """Return the quantities on the tiles; one that the run has not got is left out."""
    values = [(k, label, float(getattr(outcome.metrics, n)), f) for k, label, n, f in _NUMBERS]
    return tuple(
        Number(key, label, show(value), value)
        for key, label, value, show in values
        if math.isfinite(value)
    )


# ---------------------------------------------------------------- predicted and measured

_WHERE: Final = {
    "first-mark": "egress queue",
    "first-cnp": "receiver",
    "first-cut": "sender",
    "first-drop": "switch",
    "first-repeat": "sender",
    "longest-queue": "egress queue",
    "finished": "receiver",
}


def _moment(outcome: CongestSummary, kind: str) -> float:
    return next((m.time_s for m in outcome.moments if m.kind == kind), math.nan)


def predictions(case: CongestCase, outcome: CongestSummary | None = None) -> PageTable:
    """Return when the queue of senders that do not react gets where, beside what was measured."""
    forms = unanswered(case)
    rows = []
    for name, size, at, kind in (
        ("ECN threshold", None if case.ecn is None else case.ecn.kmin_bytes, forms.ecn_s, "mark"),
        ("PFC threshold", case.pfc_bytes, forms.pfc_s, "pause"),
        ("full buffer", case.buffer_bytes, forms.full_s, "drop"),
    ):
        predicted = "off" if size is None else known(at, format_seconds)
        if size is not None and math.isinf(at):
            predicted = "never"
        measured = math.nan if outcome is None else _moment(outcome, f"first-{kind}")
        ended = outcome is not None and not math.isfinite(measured)
        rows.append(
            (
                f"{name}, {format_si(size, 'B')}" if size is not None else name,
                predicted,
                f"no {kind}" if ended else "…" if outcome is None else format_seconds(measured),
            )
        )
    growth = (
        f"The queue grows by {format_bits_rate(forms.excess_bps)} = {case.senders:,} ×"
        f" {format_bits_rate(case.sender_bps)} - {format_bits_rate(case.egress_bps)}."
        if forms.excess_bps > 0
        else "The egress takes all that the senders can bring: no queue grows."
    )
    return PageTable(
        "predicted",
        "Predicted and measured",
        ("the queue reaches", "if nobody reacts", "first mark, pause, drop"),
        tuple(rows),
        (
            growth,
            "Closed form: 8 × threshold / growth. Measured: this run, in which senders react.",
        ),
    )


# ---------------------------------------------------------------- sentences and trace


def _held(outcome: CongestSummary) -> str:
    """Say what held the senders back."""
    case, numbers = outcome.case, outcome.metrics
    marked = f"{numbers.marks:,} packets were marked"
    told = f"{marked} and {numbers.cnps:,} notifications sent"
    paused = (
        f"{numbers.pauses:,} pauses held the senders for {_percent(numbers.paused_share)} of the"
        " time"
    )
    lost = (
        f"{numbers.drops:,} packets were lost: the queue grew to"
        f" {format_bytes(numbers.queue_max_bytes)} of {format_bytes(case.buffer_bytes)}, and"
        f" {numbers.retransmitted:,} packets had to be sent again."
    )
    calm = "The egress takes all that the senders bring: no mark, no pause, no loss."
    if case.excess_bps > 0:
        calm = (
            f"No mark, no pause, no loss: profile {case.profile} kept the queue at"
            f" {format_bytes(numbers.queue_max_bytes)} at most by itself."
        )
    said = {
        Acting.DROPS: lost,
        Acting.BOTH: f"ECN and PFC both acted: {told}, and still {paused}.",
        Acting.PFC: f"PFC did all the work: {paused}, and nothing was marked.",
        Acting.ECN: f"ECN alone held the queue: {told}; no sender was ever paused.",
        Acting.NOTHING: calm,
    }
    if any(finding.id == "marks-ignored" for finding in outcome.findings):
        deaf = f"{marked}, to which profile {case.profile} is deaf."
        said[Acting.BOTH] = f"PFC did all the work: {paused}; {deaf}"
        said[Acting.ECN] = f"Nothing held the senders back: {deaf}"
    return said[SweepPoint(case, numbers).acting]


def _sentences(state: CongestionState, outcome: CongestSummary) -> tuple[str, ...]:
    case, numbers = outcome.case, outcome.metrics
    said = [
        _held(outcome),
        f"The egress carried {format_bits_rate(numbers.throughput_bps)}, "
        f"{_percent(numbers.throughput_bps / case.egress_bps)} of its speed; a packet waited "
        f"{format_seconds(numbers.delay_mean_s)} on average, {format_seconds(numbers.delay_p99_s)}"
        " at the 99th percentile.",
    ]
    if state.pfc and is_lowered(state, case):
        said.append(
            f"PFC stands at {format_bytes(case.pfc_bytes or 0)}, not at {state.xoff} % of the"
            f" buffer: that is what the headroom of {case.senders + 1} ports leaves."
        )
    for finding in outcome.findings:
        if finding.severity is Severity.INFO:
            continue
        message = finding.message[:1].upper() + finding.message[1:]
        said.append(f"{message}. To change it: {finding.fix}.")
    return tuple(said)


def _trace(outcome: CongestSummary) -> tuple[TraceRow, ...]:
    def who(sender: int) -> str:
        return "the sender" if outcome.case.senders == 1 else f"sender {sender + 1}"

    rows = [TraceRow(0.0, "senders", f"Begin to send. {_trace_note(outcome)}")]
    rows += [
        TraceRow(m.time_s, _WHERE.get(m.kind, "switch"), m.text[:1].upper() + m.text[1:])
        for m in outcome.moments
    ]
    rows += [
        TraceRow(
            span.from_s,
            "switch",
            f"Pauses {who(span.sender)} for {format_seconds(span.until_s - span.from_s)} (PFC)",
        )
        for span in outcome.single_pauses
    ]
    rows += [
        TraceRow(span.from_s, "receiver", f"Notifies {who(span.sender)} (CNP)")
        for span in outcome.single_cnps
    ]
    return tuple(sorted(rows, key=lambda row: row.time_s))


def _trace_note(outcome: CongestSummary) -> str:
    numbers = outcome.metrics
    return (
        "Listed below: firsts and lasts, and of the rest a sample:"
        f" {len(outcome.single_pauses):,} of {numbers.pauses:,} pauses,"
        f" {len(outcome.single_cnps):,} of {numbers.cnps:,} notifications."
    )


# ---------------------------------------------------------------- all of it


@dataclass(frozen=True, eq=False)
class View:
    """Everything that the page shows of a run, and of the baseline where there is one."""

    outcome: CongestSummary
    numbers: tuple[Number, ...]
    sentences: tuple[str, ...]
    reproduce: Reproduce
    limits: tuple[str, ...]
    trace: tuple[TraceRow, ...]
    predicted: PageTable
    compared: PageTable | None
    figure: go.Figure
    scene: Scene

    def so_far(self, cancelled: bool) -> str:
        """Say of which part of the run this is."""
        reached = format_seconds(self.outcome.metrics.elapsed_s)
        part = f"{reached} of {format_seconds(self.outcome.case.duration_s)}"
        return f"Cancelled at {part}." if cancelled else f"Still running: {part}."


def view_of(
    state: CongestionState,
    outcome: CongestSummary,
    baseline: CongestSummary | None = None,
) -> View:
    """Return what is shown of an outcome.

    Args:
        state: the inputs it came from.
        outcome: what is known of the run, perhaps not to its end.
        baseline: what it is compared with.
    """
    other = read_baseline(state)
    commands, case = command_of(state), case_of(state)
    python = python_of(case)
    if baseline is not None and other is not None:
        commands += "\n" + command_of(other)
        python += "\n\n# the baseline\n" + python_of(case_of(other))
    return View(
        outcome=outcome,
        numbers=numbers_of(outcome),
        sentences=_sentences(state, outcome),
        reproduce=Reproduce(commands, python),
        limits=tuple(f"{a.subject}: {a.statement}" for a in outcome.assumptions),
        trace=_trace(outcome),
        predicted=predictions(case, outcome),
        compared=None if baseline is None else comparison_table(baseline, outcome),
        figure=draw_congest([outcome], baseline=baseline, title=False),
        scene=congestion_scene(outcome),
    )


# ---------------------------------------------------------------- thresholds against each other


@dataclass(frozen=True, eq=False)
class SweepView:
    """The map of thresholds, its reading, and the command that prints it."""

    figure: go.Figure
    sentences: tuple[str, ...]
    command: str


def sweep_view(state: CongestionState) -> SweepView:
    """Simulate a grid of thresholds with these inputs otherwise."""
    base = case_of(replace(state, ecn=False, pfc=False))
    ecn = [marking("ECN", f"{k}%", 1.0, base.buffer_bytes) for k in _SWEEP_ECN]
    wanted = [threshold_bytes("PFC", f"{k}%", base.buffer_bytes) for k in _SWEEP_PFC]
    pfc = list(dict.fromkeys(fitting_pfc_bytes(base, size) for size in wanted))
    points = sweep(grid(base, ecn, pfc, (state.profile,)))
    figure = draw_sweep(points)
    figure.update_layout(height=300)
    return SweepView(figure, read_sweep(points), sweep_command(state))


def sweep_command(state: CongestionState) -> str:
    """Return the command that simulates the grid of thresholds."""
    plain = command_of(replace(state, ecn=True, kmin=40, ramp=False, pfc=True, xoff=80))
    named = "" if " --profile " in plain else f" --profile {state.profile}"
    return f"{plain}{named} --sweep"
