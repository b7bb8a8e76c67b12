"""InfiniBand: what credits spread, and what its congestion control does about it."""

from __future__ import annotations

from typing import Final

from railweave.design.models import Transport
from railweave.experiments._bench import (
    GBPS,
    Flow,
    congestion,
    into_switch,
    leaf_spine,
    long_flows,
    percent,
    rates_bps,
    record_of,
    routed,
    run,
    series,
)
from railweave.experiments._model import Chart, Experiment, Outcome

__all__ = ["EXPERIMENTS"]

_FROM_S, _UNTIL_S = 10e-3, 30e-3
_CASES: Final[dict[str, tuple[Flow, ...]]] = {
    "4": tuple((h, 18) for h in range(4)),
    "4 + 2 elsewhere": (*((h, 18) for h in range(4)), (12, 18), (13, 18)),
}


def _incast() -> Outcome:
    fabric = leaf_spine(4, 6, 1, 100 * GBPS, 250 * GBPS)
    routing = routed(fabric, transport=Transport.INFINIBAND)
    uplink = into_switch(fabric, 24, 28)
    values: dict[str, float] = {}
    rows = []
    for label, key, scheme in (
        ("credits only", "credits", "credits"),
        ("credits, FECN/BECN", "becn", "credits+cc"),
    ):
        victim = []
        for senders in _CASES.values():
            result = run(
                fabric,
                long_flows([(4, 6), *senders]),
                routing,
                congestion(scheme=scheme),
                until_s=_UNTIL_S,
                sample_s=100e-6,
            )
            rates = rates_bps(result, _FROM_S, _UNTIL_S)
            wait = record_of(result).pause_counters
            mine = wait["link"] == uplink
            at = f"{key}_{len(senders)}"
            values |= {
                f"{at}_victim_bps": float(rates[0]),
                f"{at}_receiver_bps": float(rates[1:].sum()),
                f"{at}_uplink_waits_for_credits_share": float(
                    wait["credit_wait_s"][mine].sum() / _UNTIL_S
                ),
                f"{at}_notifications": float(record_of(result).flow_counters["cnp_handled"].sum()),
            }
            victim.append(rates[0] / 1e9)
        rows.append((label, list(_CASES), victim))
    chart = Chart(
        "victim", series(rows), "senders to the receiver", "victim's goodput [Gb/s]", kind="bar"
    )
    full = 100 * GBPS * 4096 / 4122
    good = all(
        values[f"credits_{k}_victim_bps"] < 0.5 * full
        and values[f"credits_{k}_uplink_waits_for_credits_share"] > 0.2
        and values[f"becn_{k}_victim_bps"] > 0.9 * full
        for k in (4, 6)
    )
    return Outcome(
        values,
        (chart,),
        good,
        "The incast uses up the credits of the leaf's uplink, which waits "
        f"{percent(values['credits_6_uplink_waits_for_credits_share'])} of the time, and the "
        f"victim behind it gets {values['credits_6_victim_bps'] / 1e9:.0f} Gb/s. FECN and BECN "
        f"slow the senders that cause it: the victim has {values['becn_6_victim_bps'] / 1e9:.0f} "
        f"Gb/s, at the cost of the receiver's port ({values['becn_6_receiver_bps'] / 1e9:.0f} of "
        f"{full / 1e9:.0f} Gb/s used).",
    )


EXPERIMENTS: Final = (
    Experiment(
        "infiniband-incast",
        "InfiniBand: an incast and its victim",
        "With credits alone a flow that crosses no full link gets less than half of its rate; with "
        "FECN/BECN at least nine tenths.",
        {
            "fabric": "4 leaves of 6 hosts at 100 Gb/s, one spine, uplinks of 250 Gb/s; InfiniBand",
            "traffic": "4 hosts of leaf 1 (and 2 of leaf 3) to one host of leaf 4; the victim from "
            "leaf 1 to leaf 2",
            "congestion control": "profile ib-cc: CCTI +1, timer 153.6 µs; marks at half of a "
            "virtual lane's buffer",
            "measured": "10 to 30 ms",
        },
        _incast,
    ),
)
