"""Lab 6's drawing: senders, the egress queue with its thresholds, the receiver, what was recorded.

Nothing is made up: data tokens leave when the samples say that so many bytes have gone, pauses and
notifications are a sample of those recorded. Only how long a token is under way is for the eye.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from railweave.engine.congest import CongestCase
from railweave.engine.congest_summary import SENDERS_KEPT, CongestSummary
from railweave.studio.scene import Flight, Level, Phase, Scene, SceneLink, SceneNode
from railweave.units import format_bits_rate, format_bytes, format_seconds

__all__ = ["congestion_scene"]

F64 = npt.NDArray[np.float64]

#: data tokens drawn over the egress in a whole run
_TOKENS: Final = 160
#: part of the run for which a token is under way over one hop
_HOP: Final = 1 / 40
#: up to so many senders, each has its lines of pauses and notifications
_LINED: Final = 3
#: points of the queue's level
_POINTS: Final = 250
_QUEUE, _RECEIVER, _REST = "queue", "receiver", "rest"


def congestion_scene(outcome: CongestSummary) -> Scene:
    """Return the animated scene of an outcome."""
    case, numbers = outcome.case, outcome.metrics
    shown = _shown(case)
    token_bytes = max(1.0, numbers.throughput_bps * numbers.elapsed_s / 8 / _TOKENS)
    return Scene(
        nodes=tuple(_nodes(outcome, shown)),
        links=tuple(_links(outcome, shown)),
        flights=tuple(_flights(outcome, shown, token_bytes)),
        levels=(_level(outcome),),
        phases=tuple(_phases(outcome, shown)),
        duration_s=numbers.elapsed_s,
        title="Senders, egress queue, receiver",
        description=_description(outcome),
        note=_note(outcome, shown, token_bytes),
        steps=((0.0, "start"), *((m.time_s, m.text) for m in outcome.moments)),
    )


def _shown(case: CongestCase) -> int:
    """Return how many senders are drawn one by one; the others stand together."""
    return case.senders if case.senders <= SENDERS_KEPT else SENDERS_KEPT - 2


def _nodes(outcome: CongestSummary, shown: int) -> Iterator[SceneNode]:
    case = outcome.case
    rows = shown + (shown < case.senders)
    speed = format_bits_rate(case.sender_bps)
    for k in range(shown):
        name = "sender" if case.senders == 1 else f"sender {k + 1}"
        yield SceneNode(_sender(k), 0.0, float(k), "sender", name, f"port of {speed}", "backend")
    if shown < case.senders:
        more = case.senders - shown
        yield SceneNode(
            _REST, 0.0, float(shown), "sender", f"{more:,} more", f"ports of {speed}", "backend",
            count=more,
        )  # fmt: skip
    middle = (rows - 1) / 2
    detail = (
        f"egress of {format_bits_rate(case.egress_bps)}, buffer {format_bytes(case.buffer_bytes)}"
    )
    yield SceneNode(_QUEUE, 5.0, middle, "queue", "egress queue", detail, "congestion")
    yield SceneNode(_RECEIVER, 10.0, middle, "receiver", "receiver", "", "backend")


def _sender(k: int) -> str:
    return f"sender-{k + 1}"


def _links(outcome: CongestSummary, shown: int) -> Iterator[SceneLink]:
    case = outcome.case
    sources = [_sender(k) for k in range(shown)] + ([_REST] if shown < case.senders else [])
    for source in sources:
        yield SceneLink(f"{source}>", source, _QUEUE, "backend", style="arrow")
    speed = format_bits_rate(case.egress_bps)
    yield SceneLink("egress>", _QUEUE, _RECEIVER, "backend", label=speed, style="arrow")
    some = shown > _LINED
    paused = {0 if some else span.sender for span in outcome.paused}
    notified = {0 if some else span.sender for span in outcome.single_cnps}
    # With many senders the lines of all would hide what moves: the first one's stand for them.
    for k in range(shown if shown <= _LINED else 1):
        if k in paused:
            yield SceneLink(
                f"pfc-{k + 1}", _QUEUE, _sender(k), "fault", style="pfc",
                detail="PFC pause: one hop, stops all of the priority",
            )  # fmt: skip
        if k in notified:
            yield SceneLink(
                f"cnp-{k + 1}", _RECEIVER, _sender(k), "congestion", style="cnp",
                detail="notification (CNP): end to end, slows one sender down",
            )  # fmt: skip


# ---------------------------------------------------------------- what moves


def _flights(outcome: CongestSummary, shown: int, token_bytes: float) -> Iterator[Flight]:
    elapsed = outcome.metrics.elapsed_s
    hop = elapsed * _HOP

    def token(at: float, source: str, target: str, kind: str) -> Flight:
        at = min(at, elapsed)
        return Flight(at, min(at + hop, elapsed), source, target, kind)

    for k in range(shown):
        for at in _departures(outcome.time_s, outcome.sender_kept_bps[:, k], token_bytes):
            yield token(at, _sender(k), _QUEUE, "data")
    if shown < outcome.case.senders:
        # What the others send together, told apart from those drawn.
        n = outcome.case.senders
        rest = outcome.sender_mean_bps * n - outcome.sender_kept_bps[:, :shown].sum(axis=1)
        for at in _departures(outcome.time_s, rest.clip(0), token_bytes):
            yield token(at, _REST, _QUEUE, "data")
    for at in _departures(outcome.time_s, outcome.egress_bps, token_bytes):
        yield token(at, _QUEUE, _RECEIVER, "data")
    for span in outcome.single_pauses:
        if span.sender < shown:
            yield token(span.from_s, _QUEUE, _sender(span.sender), "pause")
    for span in outcome.single_cnps:
        if span.sender < shown:
            yield token(span.from_s, _RECEIVER, _sender(span.sender), "cnp")


def _departures(time_s: F64, rate_bps: F64, token_bytes: float) -> list[float]:
    """Return when each further token's bytes have gone."""
    sent = np.concatenate(([0.0], np.cumsum(rate_bps * np.diff(time_s, prepend=0.0)) / 8))
    wanted = np.arange(1, int(sent[-1] / token_bytes) + 1) * token_bytes
    found: list[float] = np.interp(wanted, sent, np.concatenate(([0.0], time_s))).tolist()
    return found


def _level(outcome: CongestSummary) -> Level:
    """Return the queue's length, thinned to the highest of each piece of the time."""
    case = outcome.case
    pieces = np.array_split(np.arange(len(outcome.time_s)), min(_POINTS, len(outcome.time_s)))
    at = [int(piece[np.argmax(outcome.queue_bytes[piece])]) for piece in pieces]
    marks = []
    if case.ecn is not None:
        marks.append((float(case.ecn.kmin_bytes), "ECN"))
        if case.ecn.kmax_bytes > case.ecn.kmin_bytes:
            marks.append((float(case.ecn.kmax_bytes), "Kmax"))
    if case.pfc_bytes is not None:
        marks.append((float(case.pfc_bytes), "PFC"))
    return Level(
        _QUEUE,
        (0.0, *(float(outcome.time_s[k]) for k in at)),
        (0.0, *(float(outcome.queue_bytes[k]) for k in at)),
        tuple(marks),
        float(case.buffer_bytes),
        "B",
    )


def _phases(outcome: CongestSummary, shown: int) -> Iterator[Phase]:
    for span in outcome.paused:
        if span.sender < shown and span.until_s > span.from_s:
            yield Phase(span.from_s, span.until_s, _sender(span.sender), "paused")
    marked = np.concatenate(([False], outcome.marked_share > 0, [False])).astype(int)
    edges = np.flatnonzero(np.diff(marked))
    times = np.concatenate(([0.0], outcome.time_s))
    for first, last in zip(edges[::2], edges[1::2], strict=True):
        yield Phase(float(times[first]), float(times[last]), _QUEUE, "marked")


# ---------------------------------------------------------------- what is said


def _description(outcome: CongestSummary) -> str:
    case, numbers = outcome.case, outcome.metrics
    who = "One sender" if case.senders == 1 else f"{case.senders:,} senders"
    return (
        f"{who} at {format_bits_rate(case.sender_bps)}, an egress queue with a buffer of"
        f" {format_bytes(case.buffer_bytes)}, a receiver at {format_bits_rate(case.egress_bps)}."
        f" In {format_seconds(numbers.elapsed_s)} the queue grew to"
        f" {format_bytes(numbers.queue_max_bytes)}; {numbers.marks:,} packets were marked,"
        f" {numbers.cnps:,} notifications sent, {numbers.pauses:,} pauses, {numbers.drops:,} drops."
    )


def _note(outcome: CongestSummary, shown: int, token_bytes: float) -> str:
    numbers = outcome.metrics
    pauses = sum(span.sender < shown for span in outcome.single_pauses)
    cnps = sum(span.sender < shown for span in outcome.single_cnps)
    parts = [f"one token is {format_bytes(token_bytes)}, slowed down for the eye"]
    if numbers.pauses:
        parts.append(f"{pauses:,} of {numbers.pauses:,} pauses")
    if numbers.cnps:
        parts.append(f"{cnps:,} of {numbers.cnps:,} notifications")
    return "Recorded by the packet engine, a sample of it: " + "; ".join(parts)
