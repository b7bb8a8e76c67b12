"""What is kept of a congested switch's run: bounded in size, and a document that JSON can hold."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from railweave.engine.congest import CongestCase, CongestMetrics, CongestOutcome, Moment
from railweave.findings import Finding, Severity
from railweave.provenance import Assumption, Certainty
from railweave.qos import EcnThresholds

__all__ = ["SENDERS_KEPT", "CongestSummary", "Span", "summarise"]

F64 = npt.NDArray[np.float64]

#: so many senders are kept one by one
SENDERS_KEPT: Final = 8
#: pauses of one sender closer than this part of the run are kept as one span
_CLOSE: Final = 1 / 400
#: at most so many single pauses and notifications are kept, evenly over the run
_SINGLE: Final = 120


@dataclass(frozen=True, slots=True)
class Span:
    """A sender (from 0) that is paused from ``from_s`` to ``until_s``, without long gaps."""

    sender: int
    from_s: float
    until_s: float


@dataclass(frozen=True, eq=False)
class CongestSummary:
    """An outcome whose size does not depend on how many senders there are.

    Series have one row a sample, as those of :class:`~railweave.engine.congest.CongestOutcome`;
    those by sender are their mean, and for the measured rate the least and the most as well.
    ``sender_kept_bps`` (T, k) is the measured rate of the first k senders, :data:`SENDERS_KEPT` at
    most. ``paused`` are their pauses, those close to each other as one; ``single_pauses`` and
    ``single_cnps`` are a sample, evenly over the time, of pauses (whole) and of notifications
    (from and until are the same).
    """

    case: CongestCase
    metrics: CongestMetrics
    time_s: F64
    queue_bytes: F64
    egress_bps: F64
    sender_mean_bps: F64
    sender_min_bps: F64
    sender_max_bps: F64
    sender_kept_bps: F64
    marked_share: F64
    paused_share: F64
    dropped: F64
    paused: tuple[Span, ...]
    single_pauses: tuple[Span, ...]
    single_cnps: tuple[Span, ...]
    moments: tuple[Moment, ...]
    findings: tuple[Finding, ...]
    assumptions: tuple[Assumption, ...]

    def document(self) -> dict[str, Any]:
        """Return it as plain data; numbers keep all their digits, and NaN is None."""
        return {
            **{name: getattr(self, name).tolist() for name in _SERIES},
            "case": dataclasses.asdict(self.case),
            "metrics": {
                name: None if isinstance(value, float) and math.isnan(value) else value
                for name, value in dataclasses.asdict(self.metrics).items()
            },
            **{
                name: [list(dataclasses.astuple(item)) for item in getattr(self, name)]
                for name in ("paused", "single_pauses", "single_cnps", "moments", "assumptions")
            },
            "findings": [dataclasses.asdict(finding) for finding in self.findings],
        }

    @staticmethod
    def read(document: Mapping[str, Any]) -> CongestSummary:
        """Read what :meth:`document` wrote."""
        case = dict(document["case"])
        numbers: dict[str, Any] = {
            name: math.nan if value is None else value
            for name, value in document["metrics"].items()
        }
        if case["ecn"] is not None:
            case["ecn"] = EcnThresholds(**case["ecn"])
        series = {name: np.asarray(document[name], dtype=np.float64) for name in _SERIES}
        return CongestSummary(
            case=CongestCase(**case),
            metrics=CongestMetrics(**numbers),
            **series,
            paused=tuple(Span(*item) for item in document["paused"]),
            single_pauses=tuple(Span(*item) for item in document["single_pauses"]),
            single_cnps=tuple(Span(*item) for item in document["single_cnps"]),
            moments=tuple(Moment(*item) for item in document["moments"]),
            findings=tuple(
                Finding(**{**item, "severity": Severity(item["severity"])})
                for item in document["findings"]
            ),
            assumptions=tuple(
                Assumption(subject, statement, Certainty(certainty))
                for subject, statement, certainty in document["assumptions"]
            ),
        )


_SERIES: Final = tuple(
    field.name for field in dataclasses.fields(CongestSummary) if field.type == "F64"
)


def summarise(outcome: CongestOutcome) -> CongestSummary:
    """Return what is kept of an outcome."""
    kept = min(outcome.case.senders, SENDERS_KEPT)
    rate, elapsed = outcome.sender_bps, outcome.metrics.elapsed_s
    return CongestSummary(
        case=outcome.case,
        metrics=outcome.metrics,
        time_s=outcome.time_s,
        queue_bytes=outcome.queue_bytes,
        egress_bps=outcome.egress_bps,
        sender_mean_bps=rate.mean(axis=1),
        sender_min_bps=rate.min(axis=1),
        sender_max_bps=rate.max(axis=1),
        sender_kept_bps=rate[:, :kept].copy(),
        marked_share=outcome.marked_share,
        paused_share=outcome.paused_share.mean(axis=1),
        dropped=outcome.dropped,
        paused=tuple(
            chain.from_iterable(
                _joined(sender, *outcome.pauses[sender], elapsed * _CLOSE) for sender in range(kept)
            )
        ),
        single_pauses=_sample(outcome.pauses[:kept], elapsed),
        single_cnps=_sample([(at, at) for at in outcome.cnp_s[:kept]], elapsed),
        moments=outcome.moments,
        findings=outcome.findings,
        assumptions=outcome.assumptions,
    )


def _joined(sender: int, begin: F64, end: F64, close_s: float) -> list[Span]:
    """Join pauses (in order of time) with gaps of less than ``close_s``."""
    if not len(begin):
        return []
    cuts = np.flatnonzero(begin[1:] - end[:-1] >= close_s)
    firsts, lasts = begin[np.r_[0, cuts + 1]], end[np.r_[cuts, len(end) - 1]]
    return [Span(sender, float(a), float(b)) for a, b in zip(firsts, lasts, strict=True)]


def _sample(spans: Any, elapsed_s: float) -> tuple[Span, ...]:  # noqa: ANN401 - pairs of arrays
    """Take the first span that begins in each of the pieces of the run."""
    pairs = [(np.asarray(begin), np.asarray(end)) for begin, end in spans]
    begin = np.concatenate([np.zeros(0), *(one for one, _ in pairs)])
    if not len(begin):
        return ()
    end = np.concatenate([one for _, one in pairs])
    sender = np.repeat(np.arange(len(pairs)), [len(one) for one, _ in pairs])
    order = np.argsort(begin, kind="stable")
    piece = (begin[order] / elapsed_s * _SINGLE).astype(int)
    taken = order[np.unique(piece, return_index=True)[1]]
    return tuple(Span(int(sender[k]), float(begin[k]), float(end[k])) for k in taken)
