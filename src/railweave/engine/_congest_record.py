"""From what the packet engine wrote down to the series of a congested switch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from railweave._native import PACKET_TRACE_KINDS
from railweave.engine._congest_setup import Setup, wire_share
from railweave.engine._congest_story import lost_on_the_way
from railweave.engine.packet import PacketResult
from railweave.errors import InputError

if TYPE_CHECKING:
    from railweave.engine.congest import CongestCase

__all__ = ["Series", "jain", "read_series", "spread"]

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """The sampled series, and by sender its pauses (from_s, until_s) and notifications."""

    time_s: F64
    queue: F64
    tx: F64  #: (T, 1 + senders) bits since the sample before / time: b/s
    allowed: F64
    marked: F64
    dropped: F64
    paused: F64
    pauses: tuple[tuple[F64, F64], ...]
    cnps: tuple[F64, ...]


def read_series(case: CongestCase, setup: Setup, result: PacketResult) -> Series:
    """Read the samples of the egress and of the senders' ports.

    Raises:
        InputError: the run was too short for a sample.
    """
    record = result.record
    assert record is not None
    n = case.senders
    ports = record.port_samples
    at = np.asarray(ports["time_s"]).reshape(-1, n + 1)[:, 0]
    first = int(at.size > 0 and at[0] <= 0)
    at = at[first:]
    if not len(at):
        raise InputError("the run ended before its first sample; send more, or for longer")

    def column(name: str) -> F64:
        return np.asarray(ports[name], dtype=np.float64).reshape(-1, n + 1)[first:]

    span = np.diff(at, prepend=0.0)[:, None]
    sent = np.diff(column("tx_bytes"), axis=0, prepend=0.0)
    marked = np.diff(column("marked")[:, 0], prepend=0.0)
    packets = sent[:, 0] / (case.mtu_bytes / wire_share(case.mtu_bytes))
    flows = record.flow_samples
    rate = np.asarray(flows["rate_Bps"], dtype=np.float64).reshape(-1, n)[first:] * 8
    pauses = _pauses(record.pause_intervals, setup.sender_links)
    paused = np.stack([_covered(at, *one) for one in pauses], axis=1)
    return Series(
        time_s=at,
        queue=column("queue_bytes")[:, 0],
        tx=sent * 8 / span,
        allowed=np.minimum(rate, case.sender_bps),
        marked=np.divide(marked, packets, out=np.zeros_like(marked), where=packets >= 1).clip(0, 1),
        dropped=_lost_by(at, record.events),
        paused=np.diff(paused, axis=0, prepend=0.0) / span,
        pauses=pauses,
        cnps=_notices(record.events, n),
    )


def _notices(events: Any, senders: int) -> tuple[F64, ...]:  # noqa: ANN401
    """Return for each sender the times of its notifications."""
    kinds = np.asarray(events["kind"])
    mine = kinds == PACKET_TRACE_KINDS.index("cnp_sent")
    when, flow = np.asarray(events["time_s"])[mine], np.asarray(events["flow"])[mine]
    order = np.argsort(flow, kind="stable")
    cuts = np.searchsorted(flow[order], np.arange(1, senders))
    return tuple(np.split(when[order], cuts))


def _lost_by(at: F64, events: Any) -> F64:  # noqa: ANN401
    """Count the packets lost on the way since the sample before."""
    when = np.sort(np.asarray(events["time_s"])[lost_on_the_way(events)])
    counted: F64 = np.diff(np.searchsorted(when, at, side="right"), prepend=0).astype(np.float64)
    return counted


def _pauses(columns: Any, links: tuple[int, ...]) -> tuple[tuple[F64, F64], ...]:  # noqa: ANN401
    link = np.asarray(columns["link"])
    out = []
    for one in links:
        mine = link == one
        begin, end = (np.asarray(columns[name])[mine] for name in ("from_s", "until_s"))
        order = np.argsort(begin, kind="stable")
        out.append((begin[order], end[order]))
    return tuple(out)


def _covered(at: F64, begin: F64, end: F64) -> F64:
    """Return for each time how much of the past lay in these intervals, which do not overlap."""
    if not begin.size:
        return np.zeros_like(at)
    before = np.concatenate(([0.0], np.cumsum(end - begin)))
    k = np.searchsorted(begin, at, side="right")
    last = np.maximum(k - 1, 0)
    inside = np.minimum(at, end[last]) - begin[last]
    covered: F64 = np.where(k > 0, before[last] + inside, 0.0)
    return covered


def jain(got: F64) -> float:
    """Return Jain's index of fairness: 1 where all got the same, 1/n where one got all."""
    squares = float(np.sum(got**2))
    return float(np.sum(got)) ** 2 / (len(got) * squares) if squares > 0 else math.nan


def spread(values: F64) -> float:
    """Return standard deviation / mean of each column, mean over the columns; NaN without any."""
    if not len(values):
        return math.nan
    mean, deviation = values.mean(axis=0), values.std(axis=0)
    seen = mean > 0
    return float((deviation[seen] / mean[seen]).mean()) if seen.any() else math.nan
