"""Outcomes of a simulation: of jobs, storage traffic, links, and of what fails."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from railweave.engine import simulate
from railweave.engine.choice import EngineChoice
from railweave.engine.metrics import (
    LabelMetrics,
    collective_bandwidth,
    label_metrics,
    uplink_spread,
)
from railweave.engine.result import Result
from railweave.errors import EngineError
from railweave.fabric import TIER_NAMES, Fabric, LinkLayer, NodeKind, PlaneId
from railweave.fabric.failures import parse_failures, what_if
from railweave.fabric.names import node_name, port_name
from railweave.fabric.routing import RoutingSet
from railweave.report.record import (
    CompletionStats,
    GroupOutcome,
    HeatMap,
    JobOutcome,
    SpreadOutcome,
    StorageOutcome,
    WhatIfOutcome,
)
from railweave.workload.groups import byte_shares
from railweave.workload.jobs import JobPlan, Workload
from railweave.workload.storage import checkpoint_cost

if TYPE_CHECKING:
    from railweave.design.models import Design
    from railweave.engine._drive import LiveRun

__all__ = [
    "Simulated",
    "completion_stats",
    "heat_maps",
    "job_outcomes",
    "simulate_workload",
    "spread_outcomes",
    "storage_outcomes",
    "what_if_outcomes",
]

F64 = npt.NDArray[np.float64]
I32 = npt.NDArray[np.int32]
Progress = Callable[[str, float], None]
MOST_ROWS = 64


@dataclass(frozen=True, eq=False)
class Simulated:
    """A workload and what an engine made of it."""

    workload: Workload
    result: Result


def simulate_workload(
    fabric: Fabric,
    workload: Workload,
    routing: RoutingSet,
    *,
    choice: EngineChoice,
    progress: Progress,
    span: tuple[float, float],
    watch: Callable[[LiveRun], None] | None = None,
) -> Simulated:
    """Run the engine, reporting progress between the two fractions of ``span``.

    ``watch`` is shown the run as it goes on; see :meth:`EngineChoice.simulate`.
    """
    first, last = span
    return Simulated(
        workload,
        choice.simulate(
            fabric,
            workload.traffic,
            routing,
            lambda part: progress("simulate", first + (last - first) * part),
            watch,
        ),
    )


def _relabelled(result: Result) -> Result:
    """Return the result with the iterations of a label taken together."""
    bases = [label.split("#")[0] for label in result.traffic.labels]
    names = tuple(dict.fromkeys(bases))
    number = np.array([names.index(base) for base in bases] or [0], dtype=np.int32)
    task_label = number[result.traffic.task_label]
    return replace(result, traffic=replace(result.traffic, labels=names, task_label=task_label))


def completion_stats(result: Result) -> tuple[CompletionStats, ...]:
    """Return completion times and slowdowns by label, iterations taken together."""
    return tuple(
        CompletionStats(
            metrics.label,
            metrics.completion_s.count,
            metrics.completion_s.p50,
            metrics.completion_s.p99,
            metrics.completion_s.highest,
            metrics.slowdown.p50,
            metrics.slowdown.p99,
        )
        for metrics in label_metrics(_relabelled(result))
        if metrics.streams
    )


def _of_job(metrics: Iterable[LabelMetrics], name: str) -> list[LabelMetrics]:
    return [item for item in metrics if item.label.split("/")[0] == name]


def job_time_s(result: Result, plan: JobPlan) -> float:
    """Return the time of one iteration of a job (its span over its iterations); NaN if none.

    A training step begins with the job, as its arithmetic may stand before all that it sends.
    """
    mine = _of_job(label_metrics(result), plan.name)
    if not mine:
        return math.nan
    begun = plan.job.start if plan.step is not None else min(item.start_s for item in mine)
    return (max(item.finish_s for item in mine) - begun) / plan.job.iterations


def job_outcomes(
    fabric: Fabric, simulated: Simulated, routing: RoutingSet
) -> tuple[JobOutcome, ...]:
    """Return every job's time on the fabric, its closed form, bandwidths and byte shares."""
    outcomes = []
    for plan in simulated.workload.jobs:
        time_s = job_time_s(simulated.result, plan)
        alone = simulate(fabric, plan.traffic, routing, "analytic")
        algbw = busbw = size = math.nan
        what = str(plan.job.model or "")
        if plan.op is not None and plan.size_bytes is not None:
            size, what = float(plan.size_bytes), plan.op.value
            algbw, busbw = collective_bandwidth(plan.op, len(plan.nodes), size, time_s)
        elif plan.degrees is not None:
            d = plan.degrees
            what += f" step, TP {d.tensor} × DP {d.data} × PP {d.pipeline}"
            what += f", EP {d.expert}" if d.expert > 1 else ""
        shares = byte_shares(
            fabric, plan.traffic.src, plan.traffic.dst, plan.traffic.stream_bytes, rail_aware=False
        )
        total = shares.total_bytes or 1.0
        outcomes.append(
            JobOutcome(
                name=plan.name,
                what=what,
                algorithm=plan.algorithm.value if plan.algorithm else "",
                ranks=len(plan.nodes),
                size_bytes=size,
                time_s=time_s,
                analytic_s=job_time_s(alone, plan),
                algbw_Bps=algbw,
                busbw_Bps=busbw,
                share_server=shares.server_bytes / total,
                share_leaf=shares.leaf_bytes / total,
                share_spine=shares.spine_bytes / total,
                share_core=shares.core_bytes / total,
                groups=_groups(plan),
            )
        )
    return tuple(outcomes)


def _groups(plan: JobPlan) -> tuple[GroupOutcome, ...]:
    """Return a training job's bytes by kind of parallel group."""
    return tuple(
        GroupOutcome(
            kind, shares.server_bytes, shares.leaf_bytes, shares.spine_bytes, shares.core_bytes
        )
        for kind, shares in (plan.shares or {}).items()
    )


def spread_outcomes(fabric: Fabric, result: Result) -> tuple[SpreadOutcome, ...]:
    """Return how evenly each label's bytes load the leaves' uplinks; none where not routed."""
    if result.paths is None:
        return ()
    together = _relabelled(result).traffic
    label_of = together.task_label[together.stream_task]
    sizes = together.stream_bytes[result.paths.message] * result.paths.share
    outcomes = []
    for number, label in enumerate(together.labels):
        spread = uplink_spread(fabric, result.paths, select=label_of == number, flow_bytes=sizes)
        if spread.links:
            outcomes.append(
                SpreadOutcome(
                    label,
                    spread.flows,
                    spread.links,
                    spread.worst_ratio,
                    spread.fairness,
                    spread.idle_share,
                )
            )
    return tuple(outcomes)


def storage_outcomes(design: Design, result: Result) -> tuple[StorageOutcome, ...]:
    """Return what each storage traffic took."""
    servers = design.cluster.storage_servers
    metrics = label_metrics(result)
    outcomes = []
    for spec in design.storage_traffic:
        mine = _of_job(metrics, spec.name)
        writes = [item for item in mine if "/checkpoint" in item.label]
        reads = [item for item in mine if "/ingest" in item.label]
        write_s = lost = wanted = reached = math.nan
        if writes and servers and spec.checkpoint_size:
            cost = checkpoint_cost(
                spec.checkpoint_size, spec.checkpoint_period, writes[0].duration_s, servers
            )
            write_s, lost = cost.write_s, cost.lost_fraction
        if reads and spec.ingest:
            wanted = reads[0].payload_bytes / spec.duration
            reached = min(wanted, reads[0].payload_bytes / reads[0].duration_s)
        outcomes.append(
            StorageOutcome(spec.name, write_s, spec.checkpoint_period, lost, wanted, reached)
        )
    return tuple(outcomes)


# ---------------------------------------------------------------- heat


def heat_maps(fabric: Fabric, result: Result) -> tuple[HeatMap, ...]:
    """Return mean utilisation between the tiers of the back-end, large tiers in equal groups."""
    if not np.isfinite(result.link_utilisation).any():
        return ()
    maps = []
    for layer in (LinkLayer.LEAF_SPINE, LinkLayer.SPINE_CORE, LinkLayer.OTHER):
        mine = (fabric.link_layer[::2] == layer) & (fabric.link_plane[::2] == PlaneId.BACKEND)
        duplex = np.flatnonzero(mine)
        if duplex.size:
            maps.append(_heat(fabric, result, duplex.astype(np.int64)))
    return tuple(maps)


def _grouped(fabric: Fabric, nodes: I32) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
    """Return a group for each node, pod by pod, and the names of the groups."""
    found, inverse = np.unique(nodes, return_inverse=True)
    order = np.lexsort((found, fabric.node_pod[found], fabric.node_subplane[found]))
    unique, place = found[order], np.argsort(order)
    inverse = place[inverse.reshape(-1)]
    width = -(-len(unique) // MOST_ROWS)
    names = []
    for start in range(0, len(unique), width):
        first, last = unique[start], unique[min(start + width, len(unique)) - 1]
        name = node_name(fabric, int(first))
        names.append(name if width == 1 else f"{name} … {node_name(fabric, int(last))}")
    return (inverse // width).astype(np.int64), tuple(names)


def _heat(fabric: Fabric, result: Result, duplex: npt.NDArray[np.int64]) -> HeatMap:
    rows, row_names = _grouped(fabric, fabric.link_src[2 * duplex])
    columns, column_names = _grouped(fabric, fabric.link_dst[2 * duplex])
    shape = (len(row_names), len(column_names))
    cell = rows * shape[1] + columns
    count = np.bincount(cell, minlength=shape[0] * shape[1])
    values = []
    for direction in (0, 1):
        weight = result.link_utilisation[2 * duplex + direction]
        total = np.bincount(cell, weights=weight, minlength=shape[0] * shape[1])
        with np.errstate(invalid="ignore"):
            values.append(np.where(count > 0, total / np.maximum(count, 1), np.nan).reshape(shape))
    lower = TIER_NAMES.get(int(fabric.node_tier[fabric.link_src[2 * duplex[0]]]), "switch")
    upper = TIER_NAMES.get(int(fabric.node_tier[fabric.link_dst[2 * duplex[0]]]), "switch")
    return HeatMap(f"{lower} – {upper}", row_names, column_names, values[0], values[1])


# ---------------------------------------------------------------- what if


def representative_failures(fabric: Fabric) -> tuple[str, ...]:
    """Return one link between switches, and one switch of each tier: the first that is up."""
    names = []
    between = (fabric.link_plane[::2] == PlaneId.BACKEND) & fabric.link_up[::2]
    between &= fabric.node_kind[fabric.link_src[::2]] == NodeKind.SWITCH
    links = np.flatnonzero(between)
    if links.size:
        names.append(port_name(fabric, int(2 * links[0])))
    live = np.zeros(fabric.n_nodes, dtype=bool)
    live[fabric.link_src[fabric.link_up]] = True
    for tier in (3, 2, 1):
        switches = fabric.switches(PlaneId.BACKEND, tier)
        switches = switches[live[switches]]
        if switches.size:
            names.append(node_name(fabric, int(switches[0])))
    return tuple(names)


def what_if_outcomes(
    fabric: Fabric,
    simulated: Simulated,
    routing: RoutingSet,
    *,
    choice: EngineChoice,
    progress: Progress,
    known: Callable[[WhatIfOutcome], None] | None = None,
) -> tuple[WhatIfOutcome, ...]:
    """Return what the loss of one part of each kind does to the bisection and to every job.

    ``known`` is given each outcome as soon as it is there.
    """
    outcomes = []
    names = representative_failures(fabric)
    for i, name in enumerate(names):
        progress(f"without {name}", 0.5 + 0.4 * i / len(names))
        failure = parse_failures(fabric, (name,))
        state = what_if(fabric, failure)
        factors = _job_factors(failure.apply(fabric), simulated, routing, choice)
        outcomes.append(
            WhatIfOutcome(
                name=name,
                links_down=state.links_down,
                bisection_bps=state.after.bisection_bps,
                bisection_left=state.bisection_left,
                gpus_cut_off=state.gpus_cut_off,
                job_factors=factors,
            )
        )
        if known is not None:
            known(outcomes[-1])
    return tuple(outcomes)


def _job_factors(
    fabric: Fabric, simulated: Simulated, routing: RoutingSet, choice: EngineChoice
) -> tuple[tuple[str, float], ...]:
    try:
        result = choice.simulate(fabric, simulated.workload.traffic, routing.on(fabric))
    except EngineError:
        # Some stream has no path left; a collective with a rank cut off never ends.
        return tuple((plan.name, math.inf) for plan in simulated.workload.jobs)
    return tuple(
        (plan.name, job_time_s(result, plan) / job_time_s(simulated.result, plan))
        for plan in simulated.workload.jobs
    )
