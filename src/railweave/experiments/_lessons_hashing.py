"""Lesson of the fabric lab: flows on equal paths still collide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from railweave.design.models import RoutingScheme, RoutingSpec
from railweave.engine.flow import simulate_flow
from railweave.engine.metrics import uplink_collisions, uplink_spread
from railweave.engine.result import Result
from railweave.experiments._bench import GBPS, leaf_spine, messages, percent, routed, series
from railweave.experiments._model import Chart, Experiment, Outcome
from railweave.fabric import Fabric

__all__ = ["COLLISIONS", "collisions"]

_SPEED: Final = 400 * GBPS
_LEAVES, _HOSTS, _SPINES, _CABLES = 4, 8, 4, 2
_SIZE: Final = 256e6
_SEEDS: Final = tuple(range(16))
_PAIRS: Final = (1, 4, 16)


def _flows() -> list[tuple[int, int]]:
    """Return one flow from every host to its like under the next leaf."""
    n = _LEAVES * _HOSTS
    return [(host, (host + _HOSTS) % n) for host in range(n)]


def _run(fabric: Fabric, scheme: RoutingScheme, seed: int, pairs: int) -> Result:
    routing = routed(fabric, RoutingSpec(scheme=scheme), seed=seed)
    return simulate_flow(fabric, messages(_flows(), _SIZE, queue_pairs=pairs), routing)


def collisions(
    scheme: RoutingScheme = RoutingScheme.ECMP, seeds: Sequence[int] = _SEEDS
) -> Outcome:
    """Measure how flows spread over equal uplinks and what it costs.

    Args:
        scheme: how switches choose among equal paths.
        seeds: of the queue pair numbers and so of the hashes.
    """
    fabric = leaf_spine(_LEAVES, _HOSTS, _SPINES, _SPEED, _SPEED, _CABLES)
    ideal = _run(fabric, RoutingScheme.SPRAY, 0, 1).makespan_s
    values = {"equal_paths": float(_SPINES * _CABLES), "oversubscription": 1.0, "ideal_s": ideal}
    rows = []
    for pairs in _PAIRS:
        times, worst, idle, met = [], [], [], []
        for seed in seeds:
            result = _run(fabric, scheme, seed, pairs)
            assert result.paths is not None  # the flow engine routes
            spread = uplink_spread(fabric, result.paths)
            times.append(result.makespan_s)
            worst.append(spread.worst_ratio)
            idle.append(spread.idle_share)
            met.append(uplink_collisions(fabric, result.paths).count)
        key = f"queue_pairs_{pairs}"
        values |= {
            f"{key}_mean_s": float(np.mean(times)),
            f"{key}_least_s": float(np.min(times)),
            f"{key}_worst_over_mean": float(np.mean(worst)),
            f"{key}_idle_share": float(np.mean(idle)),
            f"{key}_collisions": float(np.mean(met)),
        }
        title = "1 queue pair" if pairs == 1 else f"{pairs} queue pairs"
        rows.append((title, [float(seed) for seed in seeds], np.array(times) / ideal))
    chart = Chart(
        "time-over-ideal",
        series(rows),
        "seed of the hash",
        "time / time of an even spread",
        kind="points",
    )
    slower = values["queue_pairs_1_mean_s"] / ideal
    good = (
        values["queue_pairs_1_idle_share"] > 0.2
        and values["queue_pairs_1_least_s"] > 1.5 * ideal
        and values[f"queue_pairs_{_PAIRS[-1]}_mean_s"] < values["queue_pairs_1_mean_s"]
    )
    many = values[f"queue_pairs_{_PAIRS[-1]}_mean_s"] / ideal
    return Outcome(
        values,
        (chart,),
        good,
        f"{_HOSTS} flows of a leaf have {_SPINES * _CABLES} equal uplinks and 1:1 capacity. With "
        f"one queue pair {percent(values['queue_pairs_1_idle_share'])} of the uplinks stand idle, "
        f"the busiest has {values['queue_pairs_1_worst_over_mean']:.1f} times the mean, and the "
        f"transfer takes {slower:.1f} times as long as with an even spread. With {_PAIRS[-1]} "
        f"queue pairs it takes {many:.1f} times as long.",
    )


COLLISIONS: Final = Experiment(
    "lesson-equal-paths",
    "Flows on equal paths still collide",
    "With as much bandwidth up as down, and as many equal paths as flows, hashing leaves over a "
    "fifth of the uplinks idle and the transfer takes over one and a half times as long.",
    {
        "fabric": "4 leaves of 8 hosts, 4 spines, two cables to each, 400 Gb/s everywhere (1:1)",
        "traffic": "256 MB from every host to its like under the next leaf",
        "hash": f"CRC32 over the 5-tuple, {len(_SEEDS)} seeds; 1, 4, 16 queue pairs a connection",
        "even spread": "every packet over all equal paths",
        "engine": "flow",
    },
    collisions,
)
