"""What packets that overtake each other cost."""

from __future__ import annotations

from typing import Final

from railweave.design.models import RoutingScheme, RoutingSpec
from railweave.engine.packet_settings import Spraying
from railweave.experiments._bench import (
    GBPS,
    congestion,
    leaf_spine,
    messages,
    percent,
    record_of,
    routed,
    run,
    series,
)
from railweave.experiments._model import Chart, Experiment, Outcome

__all__ = ["EXPERIMENTS"]

_FLOWS, _BYTES = 4, 32e6
_LABEL: Final = {"gbn": "go-back-N", "sr": "selective repeat"}


def _reordering() -> Outcome:
    """Spray the packets of a few flows over paths that are free but not equally fast."""
    fabric = leaf_spine(2, _FLOWS, 8, 400 * GBPS, 400 * GBPS)
    traffic = messages([(h, _FLOWS + h) for h in range(_FLOWS)], _BYTES)
    values: dict[str, float] = {}
    rows: dict[str, tuple[list[str], list[float]]] = {key: ([], []) for key in _LABEL}
    cases: list[tuple[str, RoutingScheme, Spraying]] = [
        ("ecmp", RoutingScheme.ECMP, Spraying.RANDOM),
        *((way.value, RoutingScheme.SPRAY, way) for way in Spraying),
    ]
    for name, scheme, way in cases:
        routing = routed(fabric, RoutingSpec(scheme=scheme))
        for key, selective in (("gbn", False), ("sr", True)):
            spec = congestion(scheme="pfc", selective_repeat=selective)
            result = run(fabric, traffic, routing, spec, spraying=way)
            goodput = _FLOWS * _BYTES * 8 / result.makespan_s / _FLOWS
            counters = record_of(result).flow_counters
            at = f"{key}_{name.replace('-', '_')}"
            values |= {
                f"{at}_goodput_bps": goodput,
                f"{at}_out_of_order": float(counters["out_of_order"].sum()),
                f"{at}_repeated_per_packet": float(
                    counters["retransmitted"].sum() / (_FLOWS * _BYTES / 4096)
                ),
            }
            rows[key][0].append(name)
            rows[key][1].append(goodput / 1e9)
    chart = Chart(
        "goodput",
        series((_LABEL[key], x, y) for key, (x, y) in rows.items()),
        "how packets are spread",
        "goodput a flow [Gb/s]",
        kind="bar",
    )
    full = 400 * GBPS * 4096 / 4178
    gbn, sr = values["gbn_random_goodput_bps"], values["sr_random_goodput_bps"]
    return Outcome(
        values,
        (chart,),
        gbn < 0.25 * full and sr > 0.9 * full,
        "No packet is lost, yet with go-back-N every one that is overtaken counts as lost: "
        f"random spraying leaves {percent(gbn / full)} of the rate. Selective repeat, which takes "
        f"a packet for lost only once 128 later ones have come, keeps {percent(sr / full)}. Round "
        "robin happens to keep these equal flows in order.",
    )


EXPERIMENTS: Final = (
    Experiment(
        "reordering",
        "Go-back-N and selective repeat under spraying",
        "Random spraying leaves go-back-N less than a quarter of the rate, and selective repeat "
        "more than nine tenths.",
        {
            "fabric": "2 leaves, 8 spines, 400 Gb/s everywhere",
            "traffic": f"{_FLOWS} flows of {_BYTES / 1e6:.0f} MB from leaf 1 to leaf 2",
            "scheme": "PFC only; a packet counts as lost when 128 later ones have overtaken it "
            "(selective repeat) or one has (go-back-N)",
            "measured": "until the last message is delivered",
        },
        _reordering,
    ),
)
