"""What happened in a congested switch, in words and in order."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from railweave._native import PACKET_DROP_REASONS, PACKET_TRACE_KINDS
from railweave.units import format_bytes, format_seconds

__all__ = ["THROWN_AWAY", "Moment", "lost_on_the_way", "story"]

#: reasons for which a receiver throws away what the network delivered
THROWN_AWAY: Final = frozenset({"out_of_order", "duplicate", "late", "not_ready", "trimmed"})

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Moment:
    """One thing that happened: when, its kind (kebab-case) and in words."""

    time_s: float
    kind: str
    text: str


def story(
    trace: Mapping[str, npt.NDArray[Any]],
    pauses: Sequence[tuple[F64, F64]],
    time_s: F64,
    queue_bytes: F64,
    *,
    finished_s: float,
) -> tuple[Moment, ...]:
    """Return the moments of a run, in order.

    Args:
        trace: events of the packet engine.
        pauses: of each sender, arrays (from_s, until_s).
        time_s, queue_bytes: samples of the egress queue.
        finished_s: when the last message was delivered; NaN where it was not.
    """
    found = [
        _first(trace, "mark", "first-mark", "first packet marked (ECN)"),
        _first(trace, "cnp_sent", "first-cnp", "receiver sends the first notification (CNP)"),
        _first(trace, "cnp_handled", "first-cut", "first notification slows a sender down"),
        _first(trace, "drop", "first-drop", "first packet dropped"),
        _first(trace, "retransmit", "first-repeat", "first packet sent again"),
        *_of_pauses(pauses),
    ]
    top = int(np.argmax(queue_bytes))
    if queue_bytes[top] > 0:
        text = f"queue at its longest: {format_bytes(float(queue_bytes[top]))}"
        found.append(Moment(float(time_s[top]), "longest-queue", text))
    if math.isfinite(finished_s):
        found.append(Moment(finished_s, "finished", "everything is delivered"))
    return tuple(sorted((m for m in found if m is not None), key=lambda m: m.time_s))


def lost_on_the_way(trace: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[np.bool_]:
    """Return which events are drops by the network, not by a receiver."""
    reasons = PACKET_DROP_REASONS
    late = [k for k, reason in enumerate(reasons) if reason in THROWN_AWAY]
    drops = np.asarray(trace["kind"]) == PACKET_TRACE_KINDS.index("drop")
    lost: npt.NDArray[np.bool_] = drops & ~np.isin(trace["value"], late)
    return lost


def _first(trace: Mapping[str, npt.NDArray[Any]], name: str, kind: str, text: str) -> Moment | None:
    number = PACKET_TRACE_KINDS.index(name)
    wanted = lost_on_the_way(trace) if name == "drop" else np.asarray(trace["kind"]) == number
    at = np.flatnonzero(wanted)
    if not len(at):
        return None
    if name == "drop":
        reason = PACKET_DROP_REASONS[int(trace["value"][at[0]])]
        text += {"no_buffer": ": the buffer is full", "headroom": ": the headroom is full"}.get(
            reason, f" ({reason})"
        )
    return Moment(float(trace["time_s"][at[0]]), kind, text)


def _of_pauses(pauses: Sequence[tuple[F64, F64]]) -> list[Moment]:
    """Tell of the first pause, its end, and the end of the last."""
    firsts = [(float(begin[0]), k) for k, (begin, _) in enumerate(pauses) if len(begin)]
    if not firsts:
        return []
    at, k = min(firsts)
    end = float(pauses[k][1][0])
    who = "the sender" if len(pauses) == 1 else f"sender {k + 1}"
    out = [
        Moment(at, "first-pause", f"{who} is paused for the first time (PFC)"),
        Moment(end, "first-resume", f"{who} goes on after {format_seconds(end - at)}"),
    ]
    last = max(float(until[-1]) for _, until in pauses if len(until))
    if last > end:
        count = sum(len(begin) for begin, _ in pauses)
        out.append(Moment(last, "last-resume", f"the last of {count:,} pauses ends"))
    return out
