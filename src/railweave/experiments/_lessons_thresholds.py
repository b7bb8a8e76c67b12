"""Lesson of the congestion lab: when thresholds are met, and what moving one alone does."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from railweave.engine.congest import CongestCase, CongestOutcome, simulate_congest
from railweave.experiments._bench import series
from railweave.experiments._model import Chart, Experiment, Outcome
from railweave.qos import EcnThresholds

__all__ = ["THRESHOLDS", "thresholds"]

#: nobody reacts to anything: long enough to fill the buffer
_SILENT: Final = CongestCase(profile="none", duration_s=8e-3)
_REACTING: Final = CongestCase()
#: how near to the closed form the packet engine has to come
_NEAR: Final = 0.005


def _ecn_at(case: CongestCase, share: float) -> CongestCase:
    """Return the case with all packets marked above this part of the buffer."""
    at = int(share * case.buffer_bytes)
    return replace(case, ecn=EcnThresholds(at, at, 1.0))


def _pfc_at(case: CongestCase, share: float) -> CongestCase:
    return replace(case, pfc_bytes=int(share * case.buffer_bytes))


def _first(outcome: CongestOutcome, kind: str) -> float:
    """Return when something happened first; NaN where it did not."""
    return next((m.time_s for m in outcome.moments if m.kind == kind), math.nan)


def thresholds(low_pfc: float = 0.3, high_ecn: float = 0.9) -> Outcome:
    """Measure both halves of the lesson.

    Args:
        low_pfc: where the PFC threshold is moved to, as a part of the buffer.
        high_ecn: where the ECN threshold is moved to.
    """
    paused, full = simulate_congest(_SILENT), simulate_congest(replace(_SILENT, pfc_bytes=None))
    seen = {
        "first_mark": _first(paused, "first-mark"),
        "first_pause": _first(paused, "first-pause"),
        "first_drop": _first(full, "first-drop"),
    }
    sizes = (_SILENT.ecn.kmin_bytes if _SILENT.ecn else 0, _SILENT.pfc_bytes, _SILENT.buffer_bytes)
    expected = [8 * (size or 0) / _SILENT.excess_bps for size in sizes]
    values = {f"{key}_s": time for key, time in seen.items()}
    values |= {f"{key}_closed_form_s": time for key, time in zip(seen, expected, strict=True)}
    settings = {
        "in_order": ("ECN below PFC", _REACTING),
        "low_pfc": ("PFC moved below ECN", _pfc_at(_REACTING, low_pfc)),
        "high_ecn": ("ECN moved above PFC", _ecn_at(_REACTING, high_ecn)),
    }
    rows = []
    for key, (title, case) in settings.items():
        outcome = simulate_congest(case)
        metrics = outcome.metrics
        values |= {
            f"{key}_marks": float(metrics.marks),
            f"{key}_cnps": float(metrics.cnps),
            f"{key}_pauses": float(metrics.pauses),
            f"{key}_paused_share": metrics.paused_share,
        }
        rows.append((title, outcome.time_s * 1e3, outcome.queue_bytes / 1e6))
    silent = [
        ("PFC on", paused.time_s * 1e3, paused.queue_bytes / 1e6),
        ("PFC off", full.time_s * 1e3, full.queue_bytes / 1e6),
    ]
    axes = ("time [ms]", "egress queue [MB]")
    charts = (Chart("unanswered", series(silent), *axes), Chart("answered", series(rows), *axes))
    on_time = all(
        abs(time - due) <= _NEAR * due for time, due in zip(seen.values(), expected, strict=True)
    )
    undone = all(
        values[f"{key}_pauses"] > 0 and values[f"{key}_marks"] == values[f"{key}_cnps"] == 0
        for key in ("low_pfc", "high_ecn")
    )
    works = values["in_order_cnps"] > 0 and values["in_order_pauses"] == 0
    return Outcome(values, charts, on_time and works and undone, _reading(values))


def _reading(values: dict[str, float]) -> str:
    return (
        f"Unanswered, the queue meets the ECN threshold after {values['first_mark_s'] * 1e3:.2f} "
        f"ms, that of PFC after {values['first_pause_s'] * 1e3:.2f} ms and, without PFC, the end "
        f"of the buffer after {values['first_drop_s'] * 1e3:.2f} ms. With senders that react, "
        f"{values['in_order_cnps']:,.0f} notifications keep PFC still. With PFC moved below ECN "
        f"there are {values['low_pfc_marks']:,.0f} marks and {values['low_pfc_pauses']:,.0f} "
        f"pauses; with ECN moved above PFC {values['high_ecn_marks']:,.0f} and "
        f"{values['high_ecn_pauses']:,.0f}."
    )


THRESHOLDS: Final = Experiment(
    "lesson-thresholds",
    "When the thresholds are met, and what moving one alone does",
    "Unanswered, the queue meets ECN, PFC and the end of the buffer when 8 × bytes / excess says; "
    "with the two thresholds in the wrong order senders are paused and never marked.",
    {
        "switch": "one sender at 120 Gb/s into an egress of 100 Gb/s; buffer 16 MB, ECN at 40 %, "
        "PFC at 80 % of it",
        "unanswered": "senders without congestion control, 8 ms; PFC on, and off for the drop",
        "answered": "DCQCN firmware profile, 20 ms; thresholds as above, PFC at 30 %, ECN at 90 %",
        "engine": "packet",
    },
    thresholds,
)
