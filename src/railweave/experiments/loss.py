"""What lost packets cost without PFC."""

from __future__ import annotations

from typing import Final

from railweave.engine.faults import BitErrors
from railweave.engine.packet import PacketResult
from railweave.experiments._bench import (
    GBPS,
    congestion,
    into_switch,
    long_flows,
    percent,
    rates_bps,
    record_of,
    routed,
    run,
    series,
)
from railweave.experiments._model import Chart, Experiment, Outcome
from railweave.fabric import Fabric
from railweave.fabric.names import port_name
from railweave.fabric.small import Cable, small_fabric

__all__ = ["EXPERIMENTS"]

_LOSS: Final = (0.0, 1e-5, 1e-4, 1e-3, 2e-3, 5e-3, 1e-2)
_SPEED: Final = 400 * GBPS
_NEAR_M, _FAR_M = 20.0, 500.0
_FROM_S, _UNTIL_S = 1e-3, 11e-3


def _fabric(uplink_m: float) -> Fabric:
    """Return two hosts on two leaves under one spine."""
    cables = [
        Cable(0, 2, _SPEED),
        Cable(1, 3, _SPEED),
        Cable(2, 4, _SPEED, uplink_m),
        Cable(3, 4, _SPEED, uplink_m),
    ]
    return small_fabric("long-way", 2, (1, 1, 2), cables)


def _measure(fabric: Fabric, loss: float, selective: bool) -> tuple[float, PacketResult]:
    """Return the part of the line rate that arrives once, at this loss on the receiver's cable."""
    port = port_name(fabric, into_switch(fabric, 3, 1))
    result = run(
        fabric,
        long_flows([(0, 1)]),
        routed(fabric),
        congestion(scheme="none", selective_repeat=selective),
        faults=(BitErrors(port, loss=loss, way="out"),) if loss else (),
        until_s=_UNTIL_S,
        sample_s=100e-6,
    )
    return float(rates_bps(result, _FROM_S, _UNTIL_S)[0]) / (_SPEED * 4096 / 4178), result


def _window(fabric: Fabric) -> float:
    """Return the packets under way: a round trip's, from the loss of one to the NAK for it."""
    there = fabric.link_delay_s[[into_switch(fabric, *hop) for hop in ((0, 2), (2, 4), (4, 3))]]
    last = fabric.link_delay_s[into_switch(fabric, 3, 1)]
    packet = 4178 * 8 / _SPEED
    return float((2 * (there.sum() + last) + 4 * packet) / packet)


def _loss() -> Outcome:
    values: dict[str, float] = {}
    rows = []
    names = [f"{100 * loss:g} %" for loss in _LOSS]
    for label, key, selective, length in (
        ("selective repeat, 500 m", "sr_500m", True, _FAR_M),
        ("go-back-N, 20 m", "gbn_20m", False, _NEAR_M),
        ("go-back-N, 500 m", "gbn_500m", False, _FAR_M),
    ):
        fabric = _fabric(length)
        shares = []
        for loss in _LOSS:
            share, result = _measure(fabric, loss, selective)
            shares.append(share)
            counters = record_of(result).flow_counters
            repeated = counters["retransmitted"].sum() / counters["sent"].sum()
            values[f"{key}_loss_{loss:g}_share"] = share
            values[f"{key}_loss_{loss:g}_repeated_share"] = float(repeated)
        window = _window(fabric)
        rows.append((label, names, [100 * s for s in shares]))
    rule = [(1 - p) / (1 - p + p * window) for p in _LOSS]
    values |= {f"rule_500m_loss_{p:g}_share": v for p, v in zip(_LOSS, rule, strict=True)}
    rows.append(("go-back-N, 500 m, formula", names, [100 * s for s in rule]))
    chart = Chart(
        "goodput", series(rows), "packets lost", "goodput, of the line rate [%]", kind="bar"
    )
    sr, gbn = values["sr_500m_loss_0.01_share"], values["gbn_500m_loss_0.01_share"]
    return Outcome(
        values,
        (chart,),
        sr > 0.95 and gbn < 0.5,
        f"At 1 % loss selective repeat keeps {percent(sr)} of the rate, about what is not lost; "
        f"go-back-N keeps {percent(values['gbn_20m_loss_0.01_share'])} at 20 m and {percent(gbn)} "
        f"at 500 m, as each loss sends again all that is under way, {window:.0f} packets "
        f"(formula: {percent(rule[-1])}).",
    )


EXPERIMENTS: Final = (
    Experiment(
        "goodput-against-loss",
        "Goodput against loss, PFC off",
        "At 1 % loss selective repeat keeps more than 95 % of the rate; go-back-N over uplinks of "
        "500 m less than half.",
        {
            "fabric": "two leaves and a spine, 400 Gb/s; uplinks of 20 m and of 500 m",
            "traffic": "one flow, alone",
            "fault": "the receiver's leaf loses data packets at random on its way to it",
            "scheme": "none: no PFC, no congestion control",
            "measured": "1 to 11 ms of a flow without end: what the loss of a message's last "
            "packets costs (a retry timer) is not in it",
            "formula": "(1 − p) / (1 − p + p · W), W packets of one round trip",
        },
        _loss,
    ),
)
