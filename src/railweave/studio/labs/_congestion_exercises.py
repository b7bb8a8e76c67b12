"""Lab 6's exercises: predict first, then see what the packet engine measures.

No answer stands here: each exercise names cases, and reads the answer out of their outcomes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from railweave.engine.congest_summary import CongestSummary
from railweave.engine.congest_sweep import Acting, SweepPoint
from railweave.engine.congest_thresholds import unanswered
from railweave.studio.labs._congestion import CongestionState, case_of, run_case
from railweave.units import format_bits_rate, format_seconds, format_si

__all__ = ["EXERCISES", "Exercise", "Measured", "Verdict", "answer", "verdict"]

Outcomes = Sequence[CongestSummary]


@dataclass(frozen=True, slots=True)
class Measured:
    """What came out: a number, or the place of the option that holds; and why, from the numbers."""

    value: float
    why: str


@dataclass(frozen=True, slots=True)
class Exercise:
    """A question about cases.

    With ``options`` one of them is chosen, without any a number in ``unit`` is asked for.
    ``states`` are the cases; where there are two or more, the first is the one to compare with.
    """

    key: str
    title: str
    question: str
    states: tuple[CongestionState, ...]
    judge: Callable[[Outcomes], Measured]
    options: tuple[str, ...] = ()
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is said to a prediction."""

    right: bool
    headline: str
    why: str


#: a predicted number this near to the measured one counts as right
_NEAR: Final = 0.1
#: … and this near as the same
_EXACT: Final = 1e-3
#: counts and rates that differ by less are about the same
_SAME: Final = 0.02


def answer(key: str) -> Measured:
    """Run an exercise's cases and return what was measured."""
    exercise = next(e for e in EXERCISES if e.key == key)
    return exercise.judge([run_case(case_of(state)) for state in exercise.states])


def verdict(exercise: Exercise, predicted: float, measured: Measured) -> Verdict:
    """Hold a prediction against what was measured.

    Args:
        exercise: what was asked.
        predicted: the number, or the place of the option that was chosen.
        measured: what came out.
    """
    if exercise.options:
        right = int(predicted) == int(measured.value)
        said, came = (exercise.options[int(k)] for k in (predicted, measured.value))
        headline = f"Right: {came}." if right else f"Measured: {came}. You predicted: {said}."
        return Verdict(right, headline, measured.why)
    value, unit = measured.value, exercise.unit
    if not math.isfinite(value):
        return Verdict(
            False, f"It never happened. You predicted {predicted:g} {unit}.", measured.why
        )
    off = abs(predicted - value) / abs(value) if value else math.inf
    side = "too high" if predicted > value else "too low"
    how = f"{100 * off:.2g} % {side}" if off >= _EXACT else "exactly"
    right = off <= _NEAR
    headline = f"Measured: {value:.4g} {unit}. You predicted {predicted:g} {unit}: {how}."
    return Verdict(right, ("Right. " if right else "") + headline, measured.why)


# ---------------------------------------------------------------- what is asked


def _first(outcome: CongestSummary, kind: str) -> float:
    return next((m.time_s for m in outcome.moments if m.kind == kind), math.nan)


def _full(outcomes: Outcomes) -> Measured:
    (run,) = outcomes
    case = run.case
    return Measured(
        _first(run, "first-drop") * 1e3,
        f"The queue grows by {format_bits_rate(case.excess_bps)}, which nobody takes away; 8 ×"
        f" {format_si(case.buffer_bytes, 'B')} / {format_bits_rate(case.excess_bps)} ="
        f" {format_seconds(unanswered(case).full_s)}. Not a packet was lost before, and"
        f" {run.metrics.drops:,} from then to {format_seconds(run.metrics.elapsed_s)}.",
    )


def _marks(outcomes: Outcomes) -> Measured:
    before, now = (run.metrics for run in outcomes)
    case = outcomes[1].case
    change = now.marks / before.marks - 1 if before.marks else math.inf
    place = 3 if now.marks == 0 else 0 if change > _SAME else 2 if change < -_SAME else 1
    ecn = 0 if case.ecn is None else case.ecn.kmin_bytes
    return Measured(
        place,
        f"PFC stops the sender at {format_si(case.pfc_bytes or 0, 'B')}; marks begin at"
        f" {format_si(ecn, 'B')}, and the longest queue was"
        f" {format_si(now.queue_max_bytes, 'B')}. Marks went from {before.marks:,} to"
        f" {now.marks:,}, pauses from {before.pauses:,} to {now.pauses:,}."
        + ("" if now.marks else " Congestion control is never told: PFC does all the work."),
    )


def _lowest(outcomes: Outcomes) -> Measured:
    delays = [run.metrics.delay_p99_s for run in outcomes]
    listed = "; ".join(
        f"{run.case.profile} {format_seconds(run.metrics.delay_p99_s)} at"
        f" {format_bits_rate(run.metrics.throughput_bps)}, {run.metrics.pauses:,} pauses"
        for run in outcomes
    )
    return Measured(
        min(range(len(delays)), key=delays.__getitem__),
        f"p99 delay, throughput and pauses: {listed}. Profiles that watch delay or the load of"
        " links act before a queue stands; those that wait for marks act once it is at Kmin.",
    )


def _paused(outcomes: Outcomes) -> Measured:
    (run,) = outcomes
    case = run.case
    share = case.egress_bps / (case.senders * case.sender_bps)
    return Measured(
        100 * run.metrics.paused_share,
        f"A port sends at full speed or not at all. Each sender is left"
        f" {format_bits_rate(case.egress_bps / case.senders)} of"
        f" {format_bits_rate(case.sender_bps)}, so it must be silent for about 1 - {share:.3g} ="
        f" {100 * (1 - share):.3g} % of the time; {run.metrics.pauses:,} pauses do that. Filling"
        " the queue at the start and the packet that ends within a pause make the difference.",
    )


_ACTING: Final = {Acting.PFC: 1, Acting.BOTH: 1, Acting.DROPS: 2}


def _unmarked(outcomes: Outcomes) -> Measured:
    before, run = outcomes
    numbers = run.metrics
    acting = SweepPoint(run.case, numbers).acting
    return Measured(
        _ACTING.get(acting, 0),
        f"DCQCN slows down when it is notified of marks. With ECN off there are {numbers.marks:,}"
        f" marks and {numbers.cnps:,} notifications (before: {before.metrics.marks:,} and"
        f" {before.metrics.cnps:,}), so senders stay at full speed until {numbers.pauses:,} pauses"
        f" stop them, {100 * numbers.paused_share:.3g} % of the time; {numbers.drops:,} drops.",
    )


def _early(outcomes: Outcomes) -> Measured:
    before, now = (run.metrics for run in outcomes)
    change = now.throughput_bps / before.throughput_bps - 1
    place = 0 if change < -_SAME else 2 if change > _SAME else 1
    return Measured(
        place,
        f"Throughput went from {format_bits_rate(before.throughput_bps)} to"
        f" {format_bits_rate(now.throughput_bps)} ({100 * change:+.2g} %), the p99 delay from"
        f" {format_seconds(before.delay_p99_s)} to {format_seconds(now.delay_p99_s)}. A short queue"
        " is soon empty when the sender cuts its rate, and an empty queue is an idle egress; a"
        " long one lets it work on, and every packet waits for that.",
    )


_PROFILES: Final = ("dcqcn-firmware", "dctcp", "swift", "hpcc")

#: in the order in which they are offered
EXERCISES: Final[tuple[Exercise, ...]] = (
    Exercise(
        "full",
        "When is the buffer full?",
        "One sender at 120 Gb/s into 100 Gb/s, a buffer of 16 MB, no ECN, no PFC, no congestion"
        " control. After how many milliseconds is the first packet dropped?",
        (CongestionState(ecn=False, pfc=False, profile="none", duration="10 ms"),),
        _full,
        unit="ms",
    ),
    Exercise(
        "below",
        "PFC below ECN",
        "ECN marks from 40 % of the buffer on. The PFC threshold is moved from 80 % to 20 %, below"
        " it; all else stays. What happens to the marks?",
        (CongestionState(), CongestionState(xoff=20)),
        _marks,
        ("there are more", "about as many", "there are fewer", "there are none at all"),
    ),
    Exercise(
        "lowest",
        "Eight senders",
        "Eight senders at 100 Gb/s share an egress of 100 Gb/s, thresholds as they are. Which"
        " profile has the shortest p99 queueing delay?",
        tuple(
            CongestionState(senders=8, sender_speed="100 Gb/s", profile=name) for name in _PROFILES
        ),
        _lowest,
        _PROFILES,
    ),
    Exercise(
        "paused",
        "PFC alone",
        "Four senders at 100 Gb/s into 100 Gb/s, PFC at 80 %, no ECN and no congestion control. For"
        " which part of the time is a sender paused, in percent?",
        (CongestionState(senders=4, sender_speed="100 Gb/s", ecn=False, profile="none"),),
        _paused,
        unit="%",
    ),
    Exercise(
        "unmarked",
        "DCQCN without marks",
        "ECN is switched off at the switch; the sender keeps DCQCN, the switch its PFC. What holds"
        " the sender back now?",
        (CongestionState(), CongestionState(ecn=False)),
        _unmarked,
        ("DCQCN, as before", "PFC pauses alone", "nothing: packets are dropped"),
    ),
    Exercise(
        "early",
        "Marks much earlier",
        "The ECN threshold goes from 40 % to 5 % of the buffer, one sender with DCQCN. What happens"
        " to the throughput?",
        (CongestionState(), CongestionState(kmin=5)),
        _early,
        ("it falls by more than 2 %", "it stays within 2 %", "it rises by more than 2 %"),
    ),
)
