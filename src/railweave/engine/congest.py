"""One congested switch on a time axis: senders faster than the egress, ECN, PFC, their thresholds.

With nothing but the buffer the figures have closed forms: the queue grows by (senders · sender
speed − egress speed) / 8 bytes a second, so that it reaches a threshold of Q bytes after
8 Q / (that difference) seconds. All of them count wire bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from railweave.engine._congest_record import Series, jain, read_series, spread
from railweave.engine._congest_setup import Setup, headroom_bytes, set_up, wire_share
from railweave.engine._congest_story import THROWN_AWAY, Moment, story
from railweave.engine._drive import drive
from railweave.engine.packet import FIRST_EVENTS, PacketResult, PacketRun
from railweave.errors import InputError
from railweave.findings import Finding, Severity
from railweave.provenance import Assumption
from railweave.qos import EcnThresholds, algorithm
from railweave.units import format_bits_rate, format_bytes, format_seconds

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "DEFAULT_DURATION_S",
    "DEFAULT_ECN",
    "CongestCase",
    "CongestMetrics",
    "CongestOutcome",
    "CongestRun",
    "Moment",
    "measure",
    "most_pfc_bytes",
    "simulate_congest",
]

F64 = npt.NDArray[np.float64]

DEFAULT_DURATION_S: Final = 20e-3
#: 40 % of 16 MB, all packets marked above
DEFAULT_ECN: Final = EcnThresholds(6_400_000, 6_400_000, 1.0)
#: a run of messages ends at the latest after so many times what they take at the egress's speed
_MOST_TIMES: Final = 20.0
#: … but has this long at least: latency counts too
_LEAST_S: Final = 1e-3
_SAMPLES: Final = 1000
_TRACE: Final = 1_000_000
_MOST_SENDERS: Final = 1024
_REACTS_TO_MARKS: Final = ("dcqcn", "dctcp", "nscc", "ib-cc")


@dataclass(frozen=True, slots=True)
class CongestCase:
    """Senders on one switch, all sending to the same egress.

    Args:
        senders: how many.
        sender_bps: speed of each sender's port.
        egress_bps: speed of the egress and of the receiver.
        buffer_bytes: the switch's one buffer, headroom included.
        ecn: marking thresholds of the egress queue; None marks nothing.
        pfc_bytes: length of the queue at which all senders together are paused: each one's ingress
            group pauses at its part; None: no PFC, a full buffer drops.
        profile: the senders' congestion control, one of :data:`railweave.qos.PROFILE_NAMES`.
        size_bytes: payload that each sender sends; None: as much as ``duration_s`` has room for.
        duration_s: simulated time where no size is given.
        cable_m: length of every cable.
        mtu_bytes: payload of a full packet.
        seed: of marking.

    Raises:
        InputError: a value that cannot be; says what is allowed.
    """

    senders: int = 1
    sender_bps: float = 120e9
    egress_bps: float = 100e9
    buffer_bytes: int = 16_000_000
    ecn: EcnThresholds | None = DEFAULT_ECN
    pfc_bytes: int | None = 12_800_000
    profile: str = "dcqcn-firmware"
    size_bytes: float | None = None
    duration_s: float = DEFAULT_DURATION_S
    cable_m: float = 5.0
    mtu_bytes: int = 4096
    seed: int = 0

    def __post_init__(self) -> None:
        _in_range("senders", self.senders, 1, _MOST_SENDERS, "{:,}".format)
        for name, speed in (("sender", self.sender_bps), ("egress", self.egress_bps)):
            _in_range(f"the {name} speed", speed, 1e8, 3.2e12, format_bits_rate)
        _in_range("the buffer", self.buffer_bytes, 100_000, 4_000_000_000, format_bytes)
        _in_range("the MTU", self.mtu_bytes, 256, 9000, "{:,} B".format)
        _in_range("the duration", self.duration_s, 1e-6, 10.0, format_seconds)
        _in_range("the cable", self.cable_m, 0.0, 100_000.0, "{:,.10g} m".format)
        if self.size_bytes is not None:
            _in_range("the size a sender", self.size_bytes, 1, 1e12, format_bytes)
        algorithm(self.profile, self.sender_bps)
        if self.ecn is not None and self.ecn.kmin_bytes > self.buffer_bytes:
            raise InputError(
                f"an ECN threshold of {format_bytes(self.ecn.kmin_bytes)} is above the buffer;"
                f" allowed: up to {format_bytes(self.buffer_bytes)}, or off"
            )
        if self.pfc_bytes is not None:
            self._check_pfc(self.pfc_bytes)

    def _check_pfc(self, pfc_bytes: int) -> None:
        most = most_pfc_bytes(self)
        least = self.senders * 2 * self.mtu_bytes
        if least <= pfc_bytes <= most:
            return
        allowed = f"allowed: {format_bytes(least)} to {format_bytes(max(most, 0))}, or off"
        if most < least:
            allowed = "no threshold fits; take fewer senders, a larger buffer, or no PFC (off)"
        raise InputError(
            f"a PFC threshold of {format_bytes(max(pfc_bytes, 0))} and the headroom of"
            f" {self.senders + 1} ports, {format_bytes(headroom_bytes(self))}, in a buffer of"
            f" {format_bytes(self.buffer_bytes)}; {allowed}"
        )

    @property
    def message_bytes(self) -> int:
        """Payload that each sender has to send."""
        if self.size_bytes is not None:
            return math.ceil(self.size_bytes)
        return math.ceil(self.sender_bps / 8 * self.duration_s) + self.mtu_bytes

    @property
    def ideal_s(self) -> float:
        """Time that all messages take at the slower of senders and egress; or the duration."""
        if self.size_bytes is None:
            return self.duration_s
        wire = self.message_bytes / wire_share(self.mtu_bytes) * 8
        return max(wire / self.sender_bps, self.senders * wire / self.egress_bps)

    @property
    def excess_bps(self) -> float:
        """What the senders at full speed bring more than the egress takes."""
        return self.senders * self.sender_bps - self.egress_bps


def _in_range(
    what: str, value: float, low: float, high: float, show: Callable[[float], str]
) -> None:
    """Refuse a value outside its bounds, written as ``show`` does: with its unit."""
    if not low <= value <= high:
        raise InputError(f"{what}: {show(value)} cannot be; allowed: {show(low)} to {show(high)}")


def most_pfc_bytes(case: CongestCase) -> int:
    """Return the highest PFC threshold that leaves every port its headroom; below 0: none does."""
    return case.buffer_bytes - headroom_bytes(case)


@dataclass(frozen=True, slots=True)
class CongestMetrics:
    """What came out, in numbers.

    ``throughput_bps`` is what crosses the egress (wire bits) from the start to the end,
    ``goodput_bps`` the payload delivered in it. Delays are the queue at the samples' times divided
    by the egress speed. ``paused_share`` is the part of the time that a sender is paused, mean over
    the senders. ``oscillation`` is the standard deviation of the egress queue divided by its mean
    in the second half of the run (NaN without a queue), ``rate_oscillation`` that of the senders'
    rates, mean over the senders. ``drops`` are packets lost on the way, ``discarded`` those that
    receivers threw away since one before them was lost. ``jain`` is Jain's
    index of what each sender got delivered in the time that it needed.
    """

    elapsed_s: float
    throughput_bps: float
    goodput_bps: float
    queue_mean_bytes: float
    queue_max_bytes: float
    delay_mean_s: float
    delay_p99_s: float
    paused_share: float
    paused_s: float
    pauses: int
    marks: int
    cnps: int
    drops: int
    discarded: int
    retransmitted: int
    jain: float
    oscillation: float
    rate_oscillation: float
    finished: bool


@dataclass(frozen=True, eq=False)
class CongestOutcome:
    """A case, its series and what happened.

    Series have one row a sample, at its end: ``time_s`` (T,), ``queue_bytes`` (T,),
    ``egress_bps`` (T,) and ``sender_bps`` (T, senders) measured on the wire since the sample
    before, ``allowed_bps`` (T, senders) what the congestion control allows, ``marked_share`` (T,)
    part of the packets leaving that are marked, ``paused_share`` (T, senders), ``dropped`` (T,)
    packets.

    ``pauses`` are each sender's, as arrays (from_s, until_s), whole; ``cnp_s`` the times at which
    the receiver sent each sender a notification, as far as events were written down.
    """

    case: CongestCase
    metrics: CongestMetrics
    time_s: F64
    queue_bytes: F64
    egress_bps: F64
    sender_bps: F64
    allowed_bps: F64
    marked_share: F64
    paused_share: F64
    dropped: F64
    pauses: tuple[tuple[F64, F64], ...]
    cnp_s: tuple[F64, ...]
    moments: tuple[Moment, ...]
    findings: tuple[Finding, ...]
    assumptions: tuple[Assumption, ...]

    def frame(self) -> pl.DataFrame:
        """Return the series: one row a sample, senders' columns as their mean, least and most."""
        import polars as pl

        return pl.DataFrame(
            {
                "time_s": self.time_s,
                "queue_bytes": self.queue_bytes,
                "delay_s": self.queue_bytes * 8 / self.case.egress_bps,
                "egress_bps": self.egress_bps,
                "sender_mean_bps": self.sender_bps.mean(axis=1),
                "sender_min_bps": self.sender_bps.min(axis=1),
                "sender_max_bps": self.sender_bps.max(axis=1),
                "allowed_mean_bps": self.allowed_bps.mean(axis=1),
                "marked_share": self.marked_share,
                "paused_share": self.paused_share.mean(axis=1),
                "dropped": self.dropped,
            }
        )


class CongestRun:
    """A case that is simulated bit by bit, for live views.

    Args:
        case: what is simulated.
    """

    def __init__(self, case: CongestCase) -> None:
        self.case = case
        period_s = max(case.ideal_s, _LEAST_S / _MOST_TIMES) / _SAMPLES
        self._setup = set_up(case, period_s, _TRACE)
        setup = self._setup
        self._run = PacketRun(
            setup.fabric, setup.traffic, setup.routing, setup.settings, seed=case.seed
        )
        self._until_s = (
            case.duration_s
            if case.size_bytes is None
            else max(_MOST_TIMES * case.ideal_s, _LEAST_S)
        )

    @property
    def fraction(self) -> float:
        """Part done, 0 to 1."""
        return min(1.0, max(self._run.fraction, self._run.now_s / self._until_s))

    def drive(self, progress: Callable[[float], None] | None = None) -> None:
        """Go on to the end.

        Args:
            progress: called a few times a second with the part done; it may ask for
                :meth:`outcome`, and what it raises ends the run.
        """
        drive(self._run, self._until_s, progress, step=FIRST_EVENTS, fraction=lambda: self.fraction)

    def outcome(self) -> CongestOutcome:
        """Return what has happened so far.

        Raises:
            InputError: there is no sample yet.
        """
        elapsed_s = min(self._run.now_s, self._until_s)
        return _outcome(self.case, self._setup, self._run.result(), elapsed_s)


def simulate_congest(
    case: CongestCase, *, progress: Callable[[float], None] | None = None
) -> CongestOutcome:
    """Simulate a case packet by packet.

    Args:
        case: what is simulated.
        progress: called a few times a second with the part done; what it raises ends the run.
    """
    run = CongestRun(case)
    run.drive(progress)
    return run.outcome()


def measure(case: CongestCase) -> CongestMetrics:
    """Simulate a case and return its numbers alone (a function for executors)."""
    return simulate_congest(case).metrics


# ---------------------------------------------------------------- from the record


def _outcome(
    case: CongestCase, setup: Setup, result: PacketResult, elapsed_s: float
) -> CongestOutcome:
    record = result.record
    assert record is not None
    series = read_series(case, setup, result)
    metrics = _metrics(case, setup, result, series, elapsed_s)
    return CongestOutcome(
        case=case,
        metrics=metrics,
        time_s=series.time_s,
        queue_bytes=series.queue,
        egress_bps=series.tx[:, 0],
        sender_bps=series.tx[:, 1:],
        allowed_bps=series.allowed,
        marked_share=series.marked,
        paused_share=series.paused,
        dropped=series.dropped,
        pauses=series.pauses,
        cnp_s=series.cnps,
        moments=story(
            record.events,
            series.pauses,
            series.time_s,
            series.queue,
            finished_s=elapsed_s if result.finished else math.nan,
        ),
        findings=(*_findings(case, metrics, len(record.events["time_s"])), *result.findings),
        assumptions=result.assumptions,
    )


def _metrics(
    case: CongestCase, setup: Setup, result: PacketResult, series: Series, elapsed_s: float
) -> CongestMetrics:
    record = result.record
    assert record is not None
    flows = record.flow_counters
    paused = np.array([float((end - begin).sum()) for begin, end in series.pauses])
    ends = result.stream_finish_s
    took = np.where(np.isfinite(ends), ends, elapsed_s)
    got = np.asarray(flows["acked_packets"], dtype=np.float64) / took
    half = series.time_s >= elapsed_s / 2
    delay = series.queue * 8 / case.egress_bps
    lost = {
        name.removeprefix("dropped_packets_"): int(np.sum(counts))
        for name, counts in record.ledger.items()
        if name.startswith("dropped_packets_")
    }
    return CongestMetrics(
        elapsed_s=elapsed_s,
        throughput_bps=float(result.link_bytes[setup.egress_link]) * 8 / elapsed_s,
        goodput_bps=result.bytes_delivered * wire_share(case.mtu_bytes) * 8 / elapsed_s,
        queue_mean_bytes=float(series.queue.mean()),
        queue_max_bytes=float(series.queue.max()),
        delay_mean_s=float(delay.mean()),
        delay_p99_s=float(np.percentile(delay, 99)),
        paused_share=float(paused.mean()) / elapsed_s,
        paused_s=float(paused.sum()),
        pauses=sum(len(begin) for begin, _ in series.pauses),
        marks=int(np.sum(record.queue_counters["marked"])),
        cnps=int(np.sum(flows["cnp_sent"])),
        drops=sum(count for reason, count in lost.items() if reason not in THROWN_AWAY),
        discarded=sum(count for reason, count in lost.items() if reason in THROWN_AWAY),
        retransmitted=int(np.sum(flows["retransmitted"])),
        jain=jain(got),
        oscillation=spread(series.queue[half, None]),
        rate_oscillation=spread(series.tx[half, 1:]),
        finished=result.finished,
    )


# ---------------------------------------------------------------- what is to be said


def _findings(case: CongestCase, metrics: CongestMetrics, events: int) -> tuple[Finding, ...]:
    found = []
    ecn, pfc = case.ecn, case.pfc_bytes
    if ecn is not None and pfc is not None and ecn.kmin_bytes >= pfc:
        found.append(
            Finding(
                "pfc-before-ecn",
                Severity.WARNING,
                "--ecn",
                f"ECN marks from {format_bytes(ecn.kmin_bytes)} on, and PFC stops the senders at"
                f" {format_bytes(pfc)}: PFC fires first, and the queue never gets to a mark",
                f"{metrics.pauses:,} pauses, {metrics.marks:,} marks",
                "set the ECN threshold below the PFC threshold",
            )
        )
    if ecn is not None and not case.profile.startswith(_REACTS_TO_MARKS):
        found.append(
            Finding(
                "marks-ignored",
                Severity.INFO,
                "--profile",
                f"the switch marks packets, and senders with profile {case.profile} do not react"
                " to marks",
                f"{metrics.marks:,} marks",
                "take a profile that does, such as dcqcn-firmware, to see what ECN is for",
            )
        )
    if metrics.drops:
        found.append(
            Finding(
                "packets-dropped",
                Severity.WARNING,
                "--pfc" if pfc is None else "--buffer",
                f"{metrics.drops:,} packets were dropped, {metrics.retransmitted:,} sent again",
                f"longest queue {format_bytes(metrics.queue_max_bytes)} of"
                f" {format_bytes(case.buffer_bytes)}",
                "switch PFC on, or slow the senders down before the buffer is full",
            )
        )
    if case.size_bytes is not None and not metrics.finished:
        found.append(
            Finding(
                "not-finished",
                Severity.WARNING,
                "--size",
                f"after {format_seconds(metrics.elapsed_s)}, {_MOST_TIMES:g} times what the"
                " messages take without congestion, they were not all delivered",
                f"egress at {format_bits_rate(metrics.throughput_bps)}",
                "look for drops and retry timers",
            )
        )
    if events >= _TRACE:
        found.append(
            Finding(
                "trace-full",
                Severity.INFO,
                "--duration" if case.size_bytes is None else "--size",
                f"only the first {_TRACE:,} events were written down: firsts may be missing among"
                " the events, and drops on the time axis; counts are whole",
                fix="look at a shorter time",
            )
        )
    return tuple(found)
