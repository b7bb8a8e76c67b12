"""Figures drawn from a result: by label, by collective, and how flows spread over equal links."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from railweave.design.models import Collective
from railweave.engine.result import Result
from railweave.fabric import Fabric, NodeKind
from railweave.fabric.routing import Paths
from railweave.workload import bus_factor

__all__ = [
    "Collisions",
    "LabelMetrics",
    "Percentiles",
    "Spread",
    "collective_bandwidth",
    "label_metrics",
    "percentiles",
    "uplink_collisions",
    "uplink_spread",
]

F64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Distribution of a figure over ``count`` streams; NaN where there is none."""

    count: int
    p50: float
    p90: float
    p99: float
    highest: float
    mean: float


def percentiles(values: F64) -> Percentiles:
    """Return the distribution of the finite values (linear interpolation between ranks)."""
    known = values[np.isfinite(values)]
    if not known.size:
        return Percentiles(0, *([float("nan")] * 5))
    p50, p90, p99 = (float(v) for v in np.percentile(known, (50, 90, 99)))
    return Percentiles(int(known.size), p50, p90, p99, float(known.max()), float(known.mean()))


@dataclass(frozen=True, slots=True)
class LabelMetrics:
    """What became of the tasks under one label: times in s, payload in bytes.

    ``completion_s`` is of streams, from their task's start to their last byte's arrival.
    """

    label: str
    tasks: int
    streams: int
    payload_bytes: float
    start_s: float
    finish_s: float
    completion_s: Percentiles
    slowdown: Percentiles

    @property
    def duration_s(self) -> float:
        """Time from the first task's start to the last one's end."""
        return self.finish_s - self.start_s


def label_metrics(result: Result) -> tuple[LabelMetrics, ...]:
    """Return the metrics of each label, in the order in which the labels stand."""
    traffic = result.traffic
    task_of = traffic.stream_task
    label_of = traffic.task_label[task_of]
    completion = result.stream_finish_s - result.task_start_s[task_of]
    out = []
    for number, label in enumerate(traffic.labels):
        tasks, streams = traffic.task_label == number, label_of == number
        if not tasks.any():
            continue
        out.append(
            LabelMetrics(
                label,
                int(tasks.sum()),
                int(streams.sum()),
                float(traffic.stream_bytes[streams].sum()),
                float(result.task_start_s[tasks].min()),
                float(result.task_finish_s[tasks].max()),
                percentiles(completion[streams]),
                percentiles(result.stream_slowdown[streams]),
            )
        )
    return tuple(out)


def collective_bandwidth(
    operation: Collective, ranks: int, size_bytes: float, time_s: float
) -> tuple[float, float]:
    """Return (algbw, busbw) in bytes/s of a collective of this size which took this long.

    ``size_bytes`` counts as in nccl-tests: the larger of a rank's send and receive buffers.

    Raises:
        InputError: fewer than one rank.
    """
    algbw = size_bytes / time_s if time_s > 0 else float("inf")
    return algbw, algbw * bus_factor(operation, ranks)


@dataclass(frozen=True, slots=True)
class Spread:
    """How flows spread over links that routing treats as equals: the uplinks of each switch.

    ``worst_ratio`` and ``mean_ratio`` are max / mean load of a switch's uplinks, the worst switch
    and the mean over all (1 is perfect); ``fairness`` is Jain's index over all uplinks of loaded
    switches, (Σx)² / (n·Σx²); ``idle_share`` the part of these uplinks with no load at all.
    """

    switches: int
    links: int
    flows: int
    worst_ratio: float
    mean_ratio: float
    fairness: float
    idle_share: float


def uplink_spread(
    fabric: Fabric,
    paths: Paths,
    *,
    tier: int = 1,
    select: Bool | None = None,
    flow_bytes: F64 | None = None,
) -> Spread:
    """Measure the spread over the uplinks of all switches of a tier.

    Args:
        fabric: what the paths run over.
        paths: of messages, from routing or from a result.
        tier: 1 looks at the leaves' uplinks, 2 at the spines'.
        select: (M,) which messages count; only mice, or only elephants, say.
        flow_bytes: (F,) weigh flows by their bytes; None counts flows.
    """
    flow = np.repeat(np.arange(paths.n_flows), np.diff(paths.ptr))
    load = np.ones(len(flow)) if paths.weight is None else paths.weight.copy()
    if flow_bytes is not None:
        load = load * flow_bytes[flow]
    if select is not None:
        load = load * select[paths.message][flow]
    by_link = np.bincount(paths.link, weights=load, minlength=fabric.n_links)
    switch = fabric.node_kind == NodeKind.SWITCH
    src, dst = fabric.link_src, fabric.link_dst
    up = switch[src] & switch[dst] & fabric.link_up & (fabric.node_tier[src] == tier)
    up &= fabric.node_tier[dst] > tier
    links = np.flatnonzero(up)
    node, inverse = np.unique(src[links], return_inverse=True)
    inverse = inverse.reshape(-1)
    count = np.bincount(inverse, minlength=len(node))
    mean = np.bincount(inverse, weights=by_link[links], minlength=len(node)) / np.maximum(1, count)
    most = np.zeros(len(node))
    np.maximum.at(most, inverse, by_link[links])
    used = mean > 0
    crossing = np.unique(flow[(load > 0) & up[paths.link]]).size
    if not used.any():
        return Spread(0, 0, crossing, 1.0, 1.0, 1.0, 0.0)
    loads = by_link[links][used[inverse]]
    ratio = most[used] / mean[used]
    return Spread(
        int(used.sum()),
        len(loads),
        crossing,
        float(ratio.max()),
        float(ratio.mean()),
        float(loads.sum() ** 2 / (len(loads) * np.sum(loads**2))),
        float(np.mean(loads == 0)),
    )


@dataclass(frozen=True, slots=True)
class Collisions:
    """Flows that meet on an uplink of their switch although another uplink carries none.

    ``flows`` cross the uplinks of a tier (each once a switch), of which ``in_use`` carry any.
    ``count`` sums over the switches min(flows, uplinks) − uplinks in use: 0 is perfect.
    """

    flows: int
    uplinks: int
    in_use: int
    count: int


def uplink_collisions(fabric: Fabric, paths: Paths, *, tier: int = 1) -> Collisions:
    """Count the collisions on the uplinks of all switches of a tier that send anything up."""
    switch = fabric.node_kind == NodeKind.SWITCH
    src, dst = fabric.link_src, fabric.link_dst
    up = switch[src] & switch[dst] & fabric.link_up & (fabric.node_tier[src] == tier)
    up &= fabric.node_tier[dst] > tier
    flow = np.repeat(np.arange(paths.n_flows), np.diff(paths.ptr))
    crossing = up[paths.link]
    node = src[paths.link[crossing]].astype(np.int64)
    # A sprayed flow takes many uplinks of a switch and still is one flow.
    pairs = np.unique(node * max(1, paths.n_flows) + flow[crossing]) // max(1, paths.n_flows)
    flows = np.bincount(pairs, minlength=fabric.n_nodes)
    used = np.bincount(src[np.unique(paths.link[crossing])], minlength=fabric.n_nodes)
    uplinks = np.bincount(src[up], minlength=fabric.n_nodes)
    busy = flows > 0
    needless = np.maximum(0, np.minimum(flows, uplinks) - used)
    return Collisions(
        int(flows.sum()), int(uplinks[busy].sum()), int(used.sum()), int(needless.sum())
    )
