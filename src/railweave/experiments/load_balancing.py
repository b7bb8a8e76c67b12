"""How well flows and packets fill parallel uplinks."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from railweave.design.models import RoutingScheme, RoutingSpec
from railweave.engine.packet import PacketResult
from railweave.engine.packet_settings import Spraying
from railweave.experiments._bench import (
    GBPS,
    congestion,
    leaf_spine,
    messages,
    percent,
    rates_bps,
    record_of,
    routed,
    run,
    series,
)
from railweave.experiments._model import Chart, Experiment, Outcome
from railweave.fabric import Fabric, LinkLayer

__all__ = ["EXPERIMENTS"]

_SPEED: Final = 100 * GBPS
_PAYLOAD: Final = 4096 / 4178
_FROM_S, _UNTIL_S = 5e-3, 10e-3
#: sprayed packets are placed in memory as they come: being overtaken is no sign of loss
_SPRAYED: Final[dict[str, Any]] = {
    "scheme": "pfc",
    "selective_repeat": True,
    "reorder_packets": 65_536,
}
_SEEDS: Final = (0, 1, 2, 3)


def _cross(
    fabric: Fabric,
    way: RoutingScheme,
    *,
    seed: int = 0,
    queue_pairs: int = 1,
    spraying: Spraying = Spraying.RANDOM,
    **spec: Any,  # noqa: ANN401
) -> tuple[float, PacketResult]:
    """Send from every host of leaf 1 to its like on leaf 2; return the part of what could be."""
    hosts = int((fabric.node_tier == 0).sum()) // 2
    result = run(
        fabric,
        messages([(h, hosts + h) for h in range(hosts)], 50e9, queue_pairs=queue_pairs),
        routed(fabric, RoutingSpec(scheme=way), seed=seed),
        congestion(**spec),
        until_s=_UNTIL_S,
        sample_s=1e-3,
        spraying=spraying,
    )
    total = float(rates_bps(result, _FROM_S, _UNTIL_S).sum())
    return total / (hosts * _SPEED * _PAYLOAD), result


def _uplinks_used(fabric: Fabric, result: PacketResult) -> int:
    """Return the uplinks of leaf 1 that carry anything."""
    up = (fabric.link_layer == LinkLayer.LEAF_SPINE) & (fabric.node_tier[fabric.link_dst] == 2)
    return int(np.count_nonzero(result.link_bytes[up] > 1e6))


# ---------------------------------------------------------------- hashing


def _hashing() -> Outcome:
    n = 16
    fabric = leaf_spine(2, n, n, _SPEED, _SPEED)
    plain, paths, pairs, pfc_pairs = (list[float]() for _ in range(4))
    for seed in _SEEDS:
        share, result = _cross(fabric, RoutingScheme.ECMP, seed=seed, scheme="pfc")
        plain.append(share)
        paths.append(_uplinks_used(fabric, result) / n)
        for out, scheme in ((pairs, "pfc+dcqcn"), (pfc_pairs, "pfc")):
            share, _ = _cross(
                fabric, RoutingScheme.E_ECMP, seed=seed, queue_pairs=16, scheme=scheme
            )
            out.append(share)
    spray, _ = _cross(fabric, RoutingScheme.SPRAY, **_SPRAYED)
    turns, _ = _cross(fabric, RoutingScheme.SPRAY, spraying=Spraying.ROUND_ROBIN, **_SPRAYED)
    cut, _ = _cross(fabric, RoutingScheme.SPRAY, **_SPRAYED | {"scheme": "pfc+dcqcn"})
    expected = 1 - (1 - 1 / n) ** n
    lost = 1 - float(np.mean(plain))
    values = {
        "ecmp_share": 1 - lost,
        "ecmp_share_of_paths": float(np.mean(paths)),
        "ecmp_most_off_paths": float(np.max(np.abs(np.subtract(plain, paths)))),
        "hashing_expects_share": expected,
        "queue_pairs_16_share": float(np.mean(pairs)),
        "queue_pairs_16_recovered": (float(np.mean(pairs)) - (1 - lost)) / lost,
        "queue_pairs_16_pfc_only_share": float(np.mean(pfc_pairs)),
        "queue_pairs_16_pfc_only_recovered": (float(np.mean(pfc_pairs)) - (1 - lost)) / lost,
        "spray_share": spray,
        "spray_recovered": (spray - (1 - lost)) / lost,
        "spray_round_robin_share": turns,
        "spray_dcqcn_share": cut,
    }
    names = [
        "ECMP",
        "expected",
        "16 QPs, DCQCN",
        "16 QPs, PFC",
        "spray",
        "round robin",
        "spray, DCQCN",
    ]
    shares = [1 - lost, expected, values["queue_pairs_16_share"],
              values["queue_pairs_16_pfc_only_share"], spray, turns, cut]  # fmt: skip
    chart = Chart(
        "shares",
        series([("all flows together", names, [100 * s for s in shares])]),
        "",
        "goodput, of what is possible [%]",
        kind="bar",
    )
    good = (
        values["ecmp_most_off_paths"] < 0.02
        and values["queue_pairs_16_recovered"] >= 0.6
        and values["spray_recovered"] >= 0.95
    )
    return Outcome(
        values,
        (chart,),
        good,
        f"Hashing leaves uplinks idle: flows get {percent(1 - lost)}, exactly what their paths "
        f"allow; {percent(expected)} is expected of 16 draws of 16. With 16 queue pairs and DCQCN "
        f"{percent(values['queue_pairs_16_recovered'])} of the loss is recovered, but with PFC "
        f"alone only {percent(values['queue_pairs_16_pfc_only_recovered'])}, as the fullest "
        "uplink pauses a sender's other queue pairs too. Spraying recovers "
        f"{percent(values['spray_recovered'])}; DCQCN does not go with it: a mark on any path "
        f"slows all ({percent(cut)}).",
    )


# ---------------------------------------------------------------- a slow uplink


def _slow() -> Outcome:
    n = 8
    whole = leaf_spine(2, n, n, _SPEED, _SPEED)
    slow = whole.with_capacity({2 * n: 0.5})  # leaf 1 to spine 1
    values: dict[str, float] = {}
    rows = []
    for label, key, scheme, spraying in (
        ("spray, random", "spray_random", RoutingScheme.SPRAY, Spraying.RANDOM),
        ("spray, round robin", "spray_round_robin", RoutingScheme.SPRAY, Spraying.ROUND_ROBIN),
        ("spray, recycled entropies", "spray_recycle", RoutingScheme.SPRAY, Spraying.RECYCLE),
        ("adaptive", "adaptive", RoutingScheme.ADAPTIVE, Spraying.RANDOM),
    ):
        shares = []
        for state, fabric in (("whole", whole), ("slow", slow)):
            share, result = _cross(fabric, scheme, spraying=spraying, **_SPRAYED)
            values[f"{key}_{state}_share"] = share
            counters = record_of(result).flow_counters
            values[f"{key}_{state}_out_of_order"] = float(counters["out_of_order"].sum())
            shares.append(100 * share)
        rows.append((label, ["all uplinks whole", "one at half speed"], shares))
    values["possible_share"] = (n - 0.5) / n
    values["blind_expects_share"] = 0.5
    chart = Chart("shares", series(rows), "", "goodput, of the hosts' rate [%]", kind="bar")
    good = (
        values["adaptive_slow_share"] > 0.97 * values["possible_share"]
        and values["spray_random_slow_share"] < 0.6
        and values["spray_round_robin_slow_share"] < 0.6
    )
    return Outcome(
        values,
        (chart,),
        good,
        "Blind spraying gives every uplink the same, so all run at the pace of the slow one: "
        f"{percent(values['spray_random_slow_share'])}. Adaptive routing sees its queue and loses "
        f"no more than the missing half link ({percent(values['adaptive_slow_share'])}); recycled "
        "entropies, which come back sooner from fast paths, reach "
        f"{percent(values['spray_recycle_slow_share'])}.",
    )


EXPERIMENTS: Final = (
    Experiment(
        "ecmp-elephants",
        "16 elephants, hashed and sprayed",
        "ECMP loses what its paths say; 16 queue pairs a connection recover at least 60 % of it, "
        "spraying at least 95 %.",
        {
            "fabric": "2 leaves of 16 hosts, 16 spines, 100 Gb/s everywhere",
            "traffic": "16 flows without end from leaf 1 to leaf 2",
            "ECMP": f"CRC32; mean of seeds {', '.join(map(str, _SEEDS))}; PFC only",
            "16 QPs": "E-ECMP, the same seeds; DCQCN firmware profile, and PFC only",
            "spraying": "each packet at random, or in turn; PFC only, selective repeat in which "
            "being overtaken does not count as loss (65,536 packets)",
            "measured": "5 to 10 ms",
        },
        _hashing,
    ),
    Experiment(
        "slow-uplink",
        "One uplink at half speed",
        "Blind spraying falls to half of the rate; adaptive routing to what the links can carry.",
        {
            "fabric": "2 leaves of 8 hosts, 8 spines, 100 Gb/s; leaf 1's first uplink at 50 Gb/s",
            "traffic": "8 flows without end from leaf 1 to leaf 2",
            "scheme": "PFC only, selective repeat as above",
            "adaptive": "each packet to the shortest queue",
            "measured": "5 to 10 ms",
        },
        _slow,
    ),
)
