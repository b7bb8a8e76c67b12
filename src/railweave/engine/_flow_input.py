"""From (Fabric, Traffic, Routing) to the arrays of the native flow solver."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from railweave._native import busiest_link_s
from railweave.errors import EngineError
from railweave.fabric import Fabric, NodeKind, PlaneId
from railweave.fabric._paths import gather_rows
from railweave.fabric.failures import part_names
from railweave.fabric.routing import Paths, PathStatus, RoutingSet
from railweave.fabric.wire import wire_bytes
from railweave.findings import Finding, Severity
from railweave.workload import Traffic

__all__ = ["FlowInput", "prepare", "slowdowns", "unroutable_findings"]

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

_MOST_NAMED = 5
_REASONS = {
    PathStatus.UNREACHABLE: "no path between the two ends",
    PathStatus.NO_ENTRY: "a forwarding table has no entry for the destination",
    PathStatus.LOOP: "the forwarding tables send it in a circle",
    PathStatus.NO_NIC: "an end has no NIC in this plane",
}


@dataclass(frozen=True, eq=False)
class FlowInput:
    """What the solver is given: one row a flow, flows in order of their streams.

    ``flow_bytes`` are wire bytes of one chunk's share on the network and payload inside a server;
    0 where a flow has no path (then ``dropped_bytes`` counts them, all rounds).
    """

    paths: Paths
    capacity_Bps: F64  # noqa: N815
    flow_bytes: F64
    flow_latency_s: F64
    flow_delay_s: F64
    task_flow: I64
    pred_ptr: I64
    pred_flow: I32
    pred_lag: I32
    stream_ideal_s: F64
    stream_latency_s: F64
    dropped_bytes: float
    unroutable: Bool  #: (S,)


def row_reduce(how: np.ufunc, values: F64, ptr: I64, empty: float = 0.0) -> F64:
    """Reduce CSR rows; rows without entries give ``empty``."""
    out = np.full(len(ptr) - 1, empty)
    filled = np.flatnonzero(np.diff(ptr) > 0)
    if filled.size:
        out[filled] = how.reduceat(values, ptr[filled])
    return out


def prepare(
    fabric: Fabric, traffic: Traffic, routing: RoutingSet, *, allow_unroutable: bool
) -> FlowInput:
    """Route the traffic and lay it out for the solver.

    Raises:
        EngineError: streams have no path and ``allow_unroutable`` is False.
    """
    planes = traffic.stream_plane
    paths = routing.paths(
        traffic.src,
        traffic.dst,
        int(PlaneId.BACKEND) if planes is None else planes,
        queue_pairs=traffic.queue_pairs,
        connection=0 if traffic.stream_connection is None else traffic.stream_connection,
        size_bytes=traffic.stream_bytes,
    )
    bad = paths.status != PathStatus.OK
    stream = paths.message
    unroutable = np.zeros(traffic.n_streams, dtype=bool)
    unroutable[stream[bad]] = True
    if unroutable.any() and not allow_unroutable:
        raise EngineError(_unroutable_text(fabric, traffic, paths))

    payload = traffic.chunk_bytes[stream] * paths.share
    wire = payload.copy()
    for plane, frame in routing.frames().items():
        here = paths.plane == plane
        wire[here] = wire_bytes(payload[here], frame)
    rounds = traffic.task_rounds[traffic.stream_task].astype(np.float64)[stream]
    dropped = float(np.sum((wire * rounds)[bad]))
    wire[bad] = 0.0

    capacity = fabric.usable_bps / 8.0
    delay = fabric.link_delay_s[paths.link]
    if paths.weight is not None:
        delay *= paths.weight
    latency = row_reduce(np.add, delay, paths.ptr)
    stream_latency = row_reduce(np.maximum, latency, paths.first)
    alone = busiest_link_s(capacity, paths.ptr, paths.link, paths.weight, wire, paths.first)
    pred_ptr, pred_flow, pred_lag = _flow_predecessors(traffic, paths)
    return FlowInput(
        paths,
        capacity,
        wire,
        latency,
        traffic.chunk_delay_s[stream],
        paths.first[traffic.task_stream],
        pred_ptr,
        pred_flow,
        pred_lag,
        alone + stream_latency + traffic.chunk_delay_s,
        stream_latency,
        dropped,
        unroutable,
    )


def slowdowns(
    traffic: Traffic, given: FlowInput, started: F64, finished: F64, stream_finish: F64
) -> F64:
    """Return time over least time of each stream; streams of a coupled task share the task's."""
    task = traffic.stream_task
    rounds = traffic.task_rounds[task]
    least = rounds * (given.stream_ideal_s - given.stream_latency_s) + given.stream_latency_s
    took = stream_finish - started[task]
    coupled = rounds > 1
    if coupled.any():
        slowest = row_reduce(np.maximum, least, traffic.task_stream)
        least = np.where(coupled, slowest[task], least)
        took = np.where(coupled, (finished - started)[task], took)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio: F64 = np.where(least > 0, took / least, 1.0)
    return ratio


def _flow_predecessors(traffic: Traffic, paths: Paths) -> tuple[I64, I32, I32]:
    """Turn predecessors by stream into predecessors by flow.

    A chunk is there when all flows of its stream have delivered their part, so every flow of a
    stream waits for every flow of the predecessor.
    """
    if paths.n_flows == traffic.n_streams:
        return traffic.pred_ptr, traffic.pred_stream, traffic.pred_lag
    pair_ptr, pred_flow = gather_rows(paths.first, traffic.pred_stream.astype(np.int64))
    pair = np.repeat(np.arange(len(traffic.pred_stream)), np.diff(pair_ptr))
    ptr, entry = gather_rows(pair_ptr[traffic.pred_ptr], paths.message)
    return ptr, pred_flow[entry].astype(np.int32), traffic.pred_lag[pair[entry]]


def _describe(fabric: Fabric, traffic: Traffic, stream: int) -> str:
    ends = []
    for node in (int(traffic.src[stream]), int(traffic.dst[stream])):
        kind = NodeKind(int(fabric.node_kind[node])).name.lower()
        ends.append(f"{kind} {int(fabric.node_index[node])}")
    label = traffic.labels[int(traffic.task_label[traffic.stream_task[stream]])]
    return f"{label}: {ends[0]} → {ends[1]}"


def _unroutable_text(fabric: Fabric, traffic: Traffic, paths: Paths) -> str:
    bad = np.flatnonzero(paths.status != PathStatus.OK)
    streams = paths.message[bad]
    shown, first = np.unique(streams, return_index=True)
    lines = [
        f"  {_describe(fabric, traffic, int(s))}: {_REASONS[PathStatus(int(paths.status[bad[k]]))]}"
        for s, k in zip(shown[:5], first[:5], strict=True)
    ]
    more = f"\n  … and {len(shown) - 5} more" if len(shown) > 5 else ""
    out = _out_of_service(fabric)
    with_out = f"with {out} out, " if out else ""
    return (
        f"{with_out}{len(shown)} of {traffic.n_streams} streams cannot be routed"
        f"{_cut_off(fabric, traffic, shown)}:\n"
        + "\n".join(lines)
        + more
        + f"\n{_REMEDIES if out else _REMEDIES_WHOLE}"
    )


_REMEDIES = (
    "Leave a failure out, give what it cut off a second way (more spines, dual_tor: "
    "true, another topology), or place the jobs on other GPUs (ranks, placement). What the loss "
    "costs: railweave check DESIGN --fail NAME"
)
_REMEDIES_WHOLE = (
    "Give the ends a path: links in the graph or entries in the forwarding table, another routing "
    "scheme, or other GPUs for the jobs (ranks, placement)"
)


def _out_of_service(fabric: Fabric) -> str:
    """Name what is down, as ``--fail`` does: devices without a link left, then single links."""
    down = ~fabric.link_up
    if not down.any():
        return ""
    every = np.bincount(fabric.link_src, minlength=fabric.n_nodes)
    lost = np.bincount(fabric.link_src[down], minlength=fabric.n_nodes)
    dead = (every > 0) & (lost == every)
    # what hangs on a dead switch by its only link is cut off, but has not failed itself
    switches = dead & (fabric.node_kind == NodeKind.SWITCH)
    explained = switches[fabric.link_src] | switches[fabric.link_dst]
    hosts = np.unique(fabric.link_src[down & ~explained])
    nodes = np.concatenate([np.flatnonzero(switches), hosts[dead[hosts]]])
    explained |= np.isin(fabric.link_src, nodes) | np.isin(fabric.link_dst, nodes)
    duplex = np.unique(np.flatnonzero(down & ~explained) // 2)
    names = part_names(fabric, nodes[:_MOST_NAMED], duplex[:_MOST_NAMED])[:_MOST_NAMED]
    more = len(nodes) + len(duplex) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


def _cut_off(fabric: Fabric, traffic: Traffic, bad: I64) -> str:
    """Say how many GPUs have lost the way to every other server that they talk to."""
    lost = np.zeros(traffic.n_streams, dtype=bool)
    lost[bad] = True
    server = fabric.node_server
    across = server[traffic.src] != server[traffic.dst]
    ends = np.concatenate([traffic.src, traffic.dst])
    of_job = fabric.node_kind[ends] == NodeKind.GPU
    used = np.unique(ends[of_job])
    kept = ends[of_job & np.tile(across & ~lost, 2)]
    hurt = ends[of_job & np.tile(across & lost, 2)]
    off = len(np.setdiff1d(hurt, kept))
    return f"; {off} of {len(used)} ranks have no way out of their server" if off else ""


def unroutable_findings(
    fabric: Fabric, traffic: Traffic, prepared: FlowInput
) -> tuple[Finding, ...]:
    """Say which streams have no path, as one error finding; none where all have."""
    if not prepared.unroutable.any():
        return ()
    streams = np.flatnonzero(prepared.unroutable)
    return (
        Finding(
            "streams-unroutable",
            Severity.ERROR,
            traffic.labels[int(traffic.task_label[traffic.stream_task[streams[0]]])],
            f"{len(streams)} of {traffic.n_streams} streams have no path; their bytes are dropped",
            "; ".join(_describe(fabric, traffic, int(s)) for s in streams[:5]),
            "restore the failed links or switches, or leave these GPUs out of the job",
        ),
    )
