"""Congestion control algorithms and their parameters, one class for each.

Rates are in bit/s of wire bytes, times in seconds. The native units that act on them are described
in the same words in their sources; :meth:`CongestionControl.parameters` is the seam between both.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import Any, ClassVar, Final

from railweave.errors import InputError
from railweave.provenance import Certainty, Source

__all__ = [
    "CongestionControl",
    "Cubic",
    "Dcqcn",
    "Dctcp",
    "Hpcc",
    "InfinibandControl",
    "NoControl",
    "Nscc",
    "ReceiverDriven",
    "Swift",
    "Timely",
]

_GIVEN: Final = Source("given by the user", Certainty.ASSUMED)


def _within(low: float, high: float = math.inf, *, native: bool = True) -> Any:  # noqa: ANN401
    """Declare the range of a field; one that is not ``native`` is for others than the sender."""
    return field(metadata={"low": low, "high": high, "native": native})


_POSITIVE: Final = 1e-12


@dataclass(frozen=True, slots=True)
class CongestionControl:
    """What a sender does about congestion: an algorithm (``kind``) with all of its parameters.

    Attributes:
        source: where the set of values comes from, and how sure that is.
        assumed: the parameters that the source does not give or that are from memory.
    """

    kind: ClassVar[str]
    _: KW_ONLY
    source: Source = _GIVEN
    assumed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check every number against its range.

        Raises:
            InputError: a value is not a number in its range; says which and what is allowed.
        """
        for item in fields(self):
            if "low" not in item.metadata:
                continue
            value = getattr(self, item.name)
            low, high = item.metadata["low"], item.metadata["high"]
            number = isinstance(value, int | float) and math.isfinite(value)
            if not (number and low <= value <= high):
                upper = "" if high == math.inf else f" and at most {high:g}"
                raise InputError(
                    f"{self.kind}: {item.name} is {value!r}; allowed: at least {low:g}{upper}"
                )
        self._check()

    def _check(self) -> None:
        """Check what concerns more than one parameter."""

    def _demand(self, holds: bool, message: str) -> None:
        if not holds:
            raise InputError(f"{self.kind}: {message}")

    @property
    def about(self) -> str:
        """What the algorithm does, in a sentence."""
        return (type(self).__doc__ or self.kind).partition("\n")[0]

    def parameters(self) -> dict[str, float]:
        """Give the native unit's parameters: SI names and values, rates in bytes a second."""
        result = {}
        for item in fields(self):
            if not item.metadata.get("native", False):
                continue
            value = float(getattr(self, item.name))
            if item.name.endswith("_bps"):
                result[item.name.removesuffix("_bps") + "_Bps"] = value / 8.0
            else:
                result[item.name] = value
        return result


@dataclass(frozen=True, slots=True)
class NoControl(CongestionControl):
    """No reaction to congestion: senders stay at line rate, PFC or credits alone hold them."""

    kind: ClassVar[str] = "none"


@dataclass(frozen=True, slots=True)
class ReceiverDriven(CongestionControl):
    """Senders transmit at line rate what the receiver has cleared (clear-to-send messages).

    Source: Gangidi et al., "RDMA over Ethernet for Distributed AI Training at Meta Scale"
    (SIGCOMM 2024). The grants are the receiver's affair.

    Attributes:
        grant_bytes: what one clear-to-send lets through.
        window_bytes: most that a receiver has cleared and not yet got, over all senders.
    """

    kind: ClassVar[str] = "receiver_driven"
    grant_bytes: float = _within(1, 2**32 - 1, native=False)
    window_bytes: float = _within(1, 2**32 - 1, native=False)


@dataclass(frozen=True, slots=True)
class Dcqcn(CongestionControl):
    """DCQCN, as in the paper or as adapter firmware does it.

    Source: Zhu et al., "Congestion Control for Large-Scale RDMA Deployments" (SIGCOMM 2015); the
    vendor's list of adapter parameters.

    Attributes:
        g: weight of one step of alpha.
        alpha_period_s: time without CNP after which alpha decays by ``g``; with ``alpha_on_cnp``
            False also the longest time in which alpha rises once.
        initial_alpha: alpha at the first CNP of a flow.
        alpha_on_cnp: alpha rises at each CNP (paper), not once a period (firmware).
        min_decrease_fraction: one cut leaves at least this part of the rate.
        rate_decrease_period_s: at most one cut in this time; 0: every CNP cuts.
        min_rate_bps: the rate never falls below.
        clamp_target: the target rate follows the rate at every cut; else only if the rate had
            risen since the last one.
        clamp_target_after_timer: a rise by the timer counts for that, as one by bytes does.
        time_reset_s: interval of the increase timer.
        byte_reset_bytes: bytes sent for a round of the byte counter; 0: no byte counter.
        fast_recovery_rounds: F, the rounds of fast recovery before additive increase.
        rate_ai_bps: step of additive increase.
        rate_hai_bps: step of hyper increase, once timer and byte counter have passed F.
        cnp_interval_s: least time between two CNPs of a flow. The receiver's, not the sender's:
            it is not among :meth:`parameters`.
    """

    kind: ClassVar[str] = "dcqcn"
    g: float = _within(0, 1)
    alpha_period_s: float = _within(1e-9, 1e3)
    initial_alpha: float = _within(0, 1)
    alpha_on_cnp: bool = _within(0, 1)
    min_decrease_fraction: float = _within(0, 1)
    rate_decrease_period_s: float = _within(0, 1e3)
    min_rate_bps: float = _within(_POSITIVE)
    clamp_target: bool = _within(0, 1)
    clamp_target_after_timer: bool = _within(0, 1)
    time_reset_s: float = _within(1e-9, 1e3)
    byte_reset_bytes: float = _within(0)
    fast_recovery_rounds: int = _within(0, 1e6)
    rate_ai_bps: float = _within(0)
    rate_hai_bps: float = _within(0)
    cnp_interval_s: float = _within(0, 1e3, native=False)


@dataclass(frozen=True, slots=True)
class Hpcc(CongestionControl):
    """HPCC: window from in-band telemetry of every hop.

    Source: Li et al., "HPCC: High Precision Congestion Control" (SIGCOMM 2019).

    Attributes:
        eta: target utilisation of the fullest link.
        max_stage: round trips of additive increase before the window is computed anew.
        concurrent_flows: N of the paper's rule W_ai = W_init · (1 − eta) / N.
        min_rate_bps: least rate of a flow.
    """

    kind: ClassVar[str] = "hpcc"
    eta: float = _within(0.01, 1)
    max_stage: int = _within(0, 1e6)
    concurrent_flows: float = _within(1, 1e9)
    min_rate_bps: float = _within(_POSITIVE)


@dataclass(frozen=True, slots=True)
class Timely(CongestionControl):
    """TIMELY: rate from the gradient of the round-trip time.

    Source: Mittal et al., "TIMELY: RTT-based Congestion Control for the Datacenter" (SIGCOMM 2015).

    Attributes:
        ewma_weight: weight of a new difference of round-trip times.
        beta: gain of a decrease.
        rate_ai_bps: delta, the additive step.
        t_low_s: below this round-trip time the rate always rises.
        t_high_s: above it the rate always falls.
        min_rtt_s: unit of the gradient.
        hyper_steps: falling steps in a row before hyper increase.
        hyper_multiplier: N, by which hyper increase multiplies delta.
        segment_bytes: bytes acknowledged for one step.
        min_rate_bps: least rate of a flow.
    """

    kind: ClassVar[str] = "timely"
    ewma_weight: float = _within(0, 1)
    beta: float = _within(0, 1)
    rate_ai_bps: float = _within(0)
    t_low_s: float = _within(0, 1e3)
    t_high_s: float = _within(1e-9, 1e3)
    min_rtt_s: float = _within(1e-9, 1e3)
    hyper_steps: int = _within(1, 1e6)
    hyper_multiplier: float = _within(1, 1e6)
    segment_bytes: float = _within(1)
    min_rate_bps: float = _within(_POSITIVE)

    def _check(self) -> None:
        self._demand(self.t_low_s < self.t_high_s, "t_low_s must be below t_high_s")


@dataclass(frozen=True, slots=True)
class Swift(CongestionControl):
    """Swift: window held so that the round-trip time stays at a target.

    Source: Kumar et al., "Swift: Delay is Simple and Effective for Congestion Control in the
    Datacenter" (SIGCOMM 2020).

    Attributes:
        base_target_s: target delay of a way without switches and a large window.
        hop_target_s: added for each switch of the way.
        fs_range_s: most that flow scaling adds.
        fs_min_cwnd_packets: window at which it adds all of that.
        fs_max_cwnd_packets: window at which it adds nothing.
        ai_packets: additive increase a round trip.
        beta: gain of a decrease.
        max_mdf: largest part of the window that one decrease takes.
        min_cwnd_packets: least window; below 1 packets are paced.
        max_cwnd_packets: largest window.
        initial_window_bdp: window at first, in bandwidth-delay products.
        retransmit_reset: timeouts in a row that drop the window to the least.
    """

    kind: ClassVar[str] = "swift"
    base_target_s: float = _within(1e-9, 1e3)
    hop_target_s: float = _within(0, 1e3)
    fs_range_s: float = _within(0, 1e3)
    fs_min_cwnd_packets: float = _within(1e-6)
    fs_max_cwnd_packets: float = _within(1e-6)
    ai_packets: float = _within(0)
    beta: float = _within(0, 1)
    max_mdf: float = _within(0, 0.999)
    min_cwnd_packets: float = _within(1e-6, 1)
    max_cwnd_packets: float = _within(1)
    initial_window_bdp: float = _within(0)
    retransmit_reset: int = _within(1, 1e6)

    def _check(self) -> None:
        self._demand(
            self.fs_min_cwnd_packets < self.fs_max_cwnd_packets,
            "fs_min_cwnd_packets must be below fs_max_cwnd_packets",
        )


@dataclass(frozen=True, slots=True)
class Dctcp(CongestionControl):
    """DCTCP: the window shrinks in proportion to the share of marked packets.

    Source: Alizadeh et al., "Data Center TCP (DCTCP)" (SIGCOMM 2010); RFC 8257.

    Attributes:
        g: weight of a new window's share.
        initial_alpha: share assumed at first.
        initial_window_packets: window at first.
        max_window_packets: largest window.
    """

    kind: ClassVar[str] = "dctcp"
    g: float = _within(0, 1)
    initial_alpha: float = _within(0, 1)
    initial_window_packets: float = _within(1)
    max_window_packets: float = _within(1)


@dataclass(frozen=True, slots=True)
class Cubic(CongestionControl):
    """TCP CUBIC: the window follows a cubic of the time since the last loss.

    Source: Ha, Rhee, Xu, "CUBIC" (2008); RFC 9438.

    Attributes:
        c: scale of the cubic, packets/s³.
        beta: part of the window that a loss leaves.
        fast_convergence: give up more when the window shrinks from loss to loss.
        react_to_marks: take an ECN mark for a loss (RFC 3168).
        initial_window_packets: window at first.
        max_window_packets: largest window.
    """

    kind: ClassVar[str] = "cubic"
    c: float = _within(1e-9, 1e9)
    beta: float = _within(0.01, 0.99)
    fast_convergence: bool = _within(0, 1)
    react_to_marks: bool = _within(0, 1)
    initial_window_packets: float = _within(1)
    max_window_packets: float = _within(1)


@dataclass(frozen=True, slots=True)
class Nscc(CongestionControl):
    """NSCC of Ultra Ethernet: window from ECN marks and queueing delay together.

    Source: Ultra Ethernet Specification 1.0, section 3.6.13. Increases scale with
    a = BDP / (100 Gb/s · 12 µs) and b = target / 12 µs.

    Attributes:
        target_delay_rtt: target queueing delay in base round trips.
        max_window_bdp: first and largest window, in bandwidth-delay products.
        gamma: gain of a multiplicative decrease.
        max_md_jump: part of the window that one decrease leaves at least.
        fair_increase_packets: additive increase a round trip while a queue drains, times a.
        fair_decrease: bytes (over window/BDP) taken for each marked one; 0 in the standard.
        fast_increase: bytes added for each acknowledged one on an empty way, times a.
        eta_packets: added each period, times a.
        alpha: gain of proportional increase, packets times a and b.
        quick_adapt_gate: quick adapt acts below the largest window / 2^this.
        quick_adapt_delay: delay in targets that calls for it; 0: a trimmed packet only.
        adjust_packets: packets acknowledged after which increases are applied.
        adjust_rtt: base round trips after which they are applied at the latest.
        clear_delay_s: queueing delay up to which a way counts as empty.
    """

    kind: ClassVar[str] = "nscc"
    target_delay_rtt: float = _within(1e-3, 1e6)
    max_window_bdp: float = _within(0, 1e6)
    gamma: float = _within(0, 1)
    max_md_jump: float = _within(0, 1)
    fair_increase_packets: float = _within(0, 1e9)
    fair_decrease: float = _within(0, 1e3)
    fast_increase: float = _within(0, 1e3)
    eta_packets: float = _within(0, 1e9)
    alpha: float = _within(0, 1e9)
    quick_adapt_gate: int = _within(0, 62)
    quick_adapt_delay: float = _within(0, 1e9)
    adjust_packets: float = _within(0, 1e9)
    adjust_rtt: float = _within(0, 1e6)
    clear_delay_s: float = _within(0, 1e3)


@dataclass(frozen=True, slots=True)
class InfinibandControl(CongestionControl):
    """InfiniBand congestion control: BECN walks up a table of injection rate delays.

    Source: InfiniBand Architecture Specification, annex A10. The table is generated: entry i waits
    ``ird_step`` · i packet times after a packet, so that the rate is line / (1 + ird_step · i).

    Attributes:
        ccti_increase: entries that one BECN moves up.
        ccti_limit: highest entry.
        ccti_min: lowest entry.
        ccti_timer_s: time after which the index falls by one.
        ird_step: packet times that each entry adds.
    """

    kind: ClassVar[str] = "ib_cc"
    ccti_increase: int = _within(1, 255)
    ccti_limit: int = _within(0, 65535)
    ccti_min: int = _within(0, 65535)
    ccti_timer_s: float = _within(1e-9, 1e3)
    ird_step: float = _within(0, 1e6)

    def _check(self) -> None:
        self._demand(self.ccti_min <= self.ccti_limit, "ccti_min must not exceed ccti_limit")
