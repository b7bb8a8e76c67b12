"""Published parameter sets of the congestion control algorithms, as named profiles."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from railweave.errors import InputError
from railweave.provenance import Certainty, Source
from railweave.qos._algorithm_types import (
    CongestionControl,
    Cubic,
    Dcqcn,
    Dctcp,
    Hpcc,
    InfinibandControl,
    NoControl,
    Nscc,
    ReceiverDriven,
    Swift,
    Timely,
)

__all__ = [
    "PROFILE_NAMES",
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
    "algorithm",
]


def _none(_line_rate_bps: float) -> CongestionControl:
    return NoControl(source=Source("no parameters"))


#: round trip, queues of its own included, that a receiver's clear-to-send window covers; assumed
_GRANT_RTT_S: Final = 16e-6


def _receiver_driven(line_rate_bps: float) -> CongestionControl:
    return ReceiverDriven(
        grant_bytes=128 * 1024,
        window_bytes=max(2 * 128 * 1024, line_rate_bps / 8 * _GRANT_RTT_S),
        assumed=("grant_bytes", "window_bytes"),
        source=Source(
            "Gangidi et al., SIGCOMM 2024: admission by the receiver", Certainty.ESTIMATED
        ),
    )


def _dcqcn_firmware(_line_rate_bps: float) -> CongestionControl:
    return Dcqcn(
        g=1 - 1019 / 1024,
        alpha_period_s=1e-6,
        initial_alpha=1023 / 1024,
        alpha_on_cnp=False,
        min_decrease_fraction=0.5,
        rate_decrease_period_s=4e-6,
        min_rate_bps=1e6,
        clamp_target=False,
        clamp_target_after_timer=True,
        time_reset_s=300e-6,
        byte_reset_bytes=32767 * 64,
        fast_recovery_rounds=1,
        rate_ai_bps=5e6,
        rate_hai_bps=50e6,
        cnp_interval_s=4e-6,
        source=Source(
            "NVIDIA, DCQCN parameters of ConnectX adapters, and the defaults that one reports"
        ),
        assumed=("cnp_interval_s",),
    )


def _dcqcn_paper(_line_rate_bps: float) -> CongestionControl:
    return Dcqcn(
        g=1 / 256,
        alpha_period_s=55e-6,
        initial_alpha=1.0,
        alpha_on_cnp=True,
        min_decrease_fraction=0.0,
        rate_decrease_period_s=0.0,
        min_rate_bps=10e6,
        clamp_target=True,
        clamp_target_after_timer=True,
        time_reset_s=55e-6,
        byte_reset_bytes=10e6,
        fast_recovery_rounds=5,
        rate_ai_bps=40e6,
        # The paper's analysis leaves hyper increase out: no larger step than the additive one.
        rate_hai_bps=40e6,
        cnp_interval_s=50e-6,
        source=Source("Zhu et al., SIGCOMM 2015: values for 40 Gb/s", Certainty.ASSUMED),
        assumed=("time_reset_s", "rate_hai_bps", "min_rate_bps"),
    )


def _dcqcn_simulator(_line_rate_bps: float) -> CongestionControl:
    return Dcqcn(
        g=1 / 256,
        alpha_period_s=1e-6,
        initial_alpha=1.0,
        alpha_on_cnp=False,
        min_decrease_fraction=0.0,
        rate_decrease_period_s=4e-6,
        min_rate_bps=100e6,
        clamp_target=False,
        clamp_target_after_timer=True,
        time_reset_s=900e-6,
        byte_reset_bytes=0,
        fast_recovery_rounds=1,
        rate_ai_bps=50e6,
        rate_hai_bps=100e6,
        # There every acknowledgement can carry the notification: alpha rises once a period.
        cnp_interval_s=1e-6,
        source=Source("configuration common to the ns-3 RDMA simulators"),
        assumed=("min_rate_bps", "fast_recovery_rounds", "cnp_interval_s"),
    )


def _hpcc(_line_rate_bps: float) -> CongestionControl:
    return Hpcc(
        eta=0.95,
        max_stage=5,
        concurrent_flows=100,
        min_rate_bps=100e6,
        source=Source("Li et al., SIGCOMM 2019", Certainty.ESTIMATED),
        assumed=("concurrent_flows", "min_rate_bps"),
    )


def _timely(line_rate_bps: float) -> CongestionControl:
    return Timely(
        ewma_weight=0.875,
        beta=0.8,
        # 10 Mb/s at 10 Gb/s, and in proportion: as the simulator of the HPCC paper sets it.
        rate_ai_bps=10e6 * line_rate_bps / 10e9,
        t_low_s=50e-6,
        t_high_s=500e-6,
        min_rtt_s=20e-6,
        hyper_steps=5,
        hyper_multiplier=5,
        segment_bytes=65536,
        min_rate_bps=10e6,
        source=Source(
            "Mittal et al., SIGCOMM 2015, as set in the HPCC simulator", Certainty.ESTIMATED
        ),
        assumed=("hyper_steps", "hyper_multiplier", "segment_bytes", "min_rate_bps"),
    )


def _swift(line_rate_bps: float) -> CongestionControl:
    return Swift(
        base_target_s=20e-6,
        hop_target_s=20e-6 / 6.55,
        fs_range_s=100e-6,
        fs_min_cwnd_packets=0.1,
        fs_max_cwnd_packets=100,
        ai_packets=1.0,
        beta=0.8,
        max_mdf=0.5,
        min_cwnd_packets=0.01,
        # Room for the largest target delay; 1,000 packets are enough up to 100 Gb/s.
        max_cwnd_packets=1000 * max(1.0, line_rate_bps / 100e9),
        initial_window_bdp=1.0,
        retransmit_reset=5,
        source=Source(
            "Kumar et al., SIGCOMM 2020; values as set (and called guesses) in htsim",
            Certainty.ASSUMED,
        ),
        assumed=("max_cwnd_packets", "initial_window_bdp"),
    )


def _dctcp(_line_rate_bps: float) -> CongestionControl:
    return Dctcp(
        g=1 / 16,
        initial_alpha=1.0,
        initial_window_packets=10,
        max_window_packets=100_000,
        source=Source("RFC 8257"),
        assumed=("initial_window_packets", "max_window_packets"),
    )


def _cubic(_line_rate_bps: float) -> CongestionControl:
    return Cubic(
        c=0.4,
        beta=0.7,
        fast_convergence=True,
        react_to_marks=False,
        initial_window_packets=10,
        max_window_packets=100_000,
        source=Source("RFC 9438; initial window RFC 6928"),
        assumed=("react_to_marks", "max_window_packets"),
    )


def _nscc(_line_rate_bps: float) -> CongestionControl:
    return Nscc(
        target_delay_rtt=1.0,
        max_window_bdp=1.5,
        gamma=0.8,
        max_md_jump=0.5,
        fair_increase_packets=5,
        fair_decrease=0.0,
        fast_increase=0.25,
        eta_packets=0.15,
        alpha=4.0,
        quick_adapt_gate=3,
        quick_adapt_delay=4.0,
        adjust_packets=8,
        adjust_rtt=1.0,
        clear_delay_s=1e-6,
        source=Source(
            "Ultra Ethernet Specification 1.0, defaults without trimming", Certainty.ESTIMATED
        ),
        assumed=("clear_delay_s",),
    )


def _ib_cc(_line_rate_bps: float) -> CongestionControl:
    return InfinibandControl(
        ccti_increase=1,
        ccti_limit=127,
        ccti_min=0,
        ccti_timer_s=150 * 1.024e-6,
        ird_step=1.0,
        source=Source(
            "InfiniBand annex A10; values after Gran et al., IPDPS 2010", Certainty.ASSUMED
        ),
        assumed=("ccti_increase", "ccti_limit", "ccti_min", "ccti_timer_s", "ird_step"),
    )


_PROFILES: Final[Mapping[str, Callable[[float], CongestionControl]]] = MappingProxyType(
    {
        "none": _none,
        "dcqcn-firmware": _dcqcn_firmware,
        "dcqcn-paper": _dcqcn_paper,
        "dcqcn-simulator": _dcqcn_simulator,
        "hpcc": _hpcc,
        "timely": _timely,
        "swift": _swift,
        "dctcp": _dctcp,
        "cubic": _cubic,
        "nscc": _nscc,
        "receiver-driven": _receiver_driven,
        "ib-cc": _ib_cc,
    }
)

#: Names that :func:`algorithm` knows.
PROFILE_NAMES: Final[tuple[str, ...]] = tuple(_PROFILES)


def algorithm(name: str, line_rate_bps: float) -> CongestionControl:
    """Give a published set of parameters by name.

    Args:
        name: one of :data:`PROFILE_NAMES`.
        line_rate_bps: rate of the sender's port; some published steps are in proportion to it.

    Raises:
        InputError: unknown name (with the nearest one), or a rate that is not above 0.
    """
    make = _PROFILES.get(name)
    if make is None:
        near = difflib.get_close_matches(name, PROFILE_NAMES, n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise InputError(
            f"congestion control {name!r} is not known; allowed: {', '.join(PROFILE_NAMES)}{hint}"
        )
    if not 0 < line_rate_bps < math.inf:
        raise InputError(
            f"congestion control {name!r}: line_rate_bps is {line_rate_bps!r}; allowed: above 0"
        )
    return make(line_rate_bps)
