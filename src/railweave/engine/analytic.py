"""The analytic engine: alpha–beta closed forms, for one collective or for traffic over a fabric."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from railweave.design.models import Algorithm, Collective
from railweave.engine._closed_forms import Links, closed_form
from railweave.engine._flow_input import FlowInput, prepare, row_reduce, unroutable_findings
from railweave.engine.result import Explanation, Result
from railweave.errors import EngineError, InputError
from railweave.fabric import Fabric
from railweave.fabric.routing import Routing, RoutingSet
from railweave.provenance import Assumption
from railweave.workload import (
    CollectiveOptions,
    Traffic,
    bus_factor,
    collective_volume,
    require_algorithm,
)
from railweave.workload._expand import coupled_tasks, csr, ranges
from railweave.workload.volume import latency_rounds

__all__ = ["AnalyticResult", "collective_time", "simulate_analytic", "simulate_split"]

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]


# ---------------------------------------------------------------- one collective


@dataclass(frozen=True, slots=True)
class AnalyticResult:
    """Volume, time and bandwidths of one collective; bandwidths in byte/s as in nccl-tests."""

    op: Collective
    algorithm: Algorithm
    ranks: int
    size_bytes: int
    bytes_sent_per_rank: int | float
    steps: int
    time_s: float
    algbw_Bps: float  # noqa: N815 - byte/s, as opposed to bit/s
    busbw_Bps: float  # noqa: N815
    lower_bound_s: float
    explanation: Explanation
    assumptions: tuple[Assumption, ...]


def collective_time(  # noqa: PLR0917 - in the order of the formulas
    op: Collective,
    algorithm: Algorithm | None,
    ranks: int,
    size_bytes: int,
    bandwidth_bps: float,
    latency_s: float = 0.0,
    *,
    ranks_per_server: int = 1,
    inside_bandwidth_bps: float | None = None,
    inside_latency_s: float | None = None,
    options: CollectiveOptions | None = None,
) -> AnalyticResult:
    """Return what a collective takes by the alpha–beta model.

    Args:
        op: operation.
        algorithm: None takes the operation's default.
        ranks: at least 2.
        size_bytes: size as nccl-tests counts it.
        bandwidth_bps: of one rank, one way.
        latency_s: of one message.
        ranks_per_server: used by hierarchical and rail-aligned.
        inside_bandwidth_bps: of one rank inside its server; default: the same.
        inside_latency_s: of one message there; default: the same.
        options: pipelining of trees and chains.

    Raises:
        InputError: a value out of range, or an algorithm that cannot do the operation.
    """
    if not bandwidth_bps > 0 or latency_s < 0:
        raise InputError(
            f"bandwidth {bandwidth_bps:g} b/s and latency {latency_s:g} s are not allowed; "
            "give a bandwidth above 0 and a latency of 0 or more"
        )
    chosen = require_algorithm(op, algorithm)
    volume = collective_volume(op, chosen, ranks, size_bytes, ranks_per_server=ranks_per_server)
    links = Links(
        bandwidth_bps,
        latency_s,
        inside_bandwidth_bps or bandwidth_bps,
        latency_s if inside_latency_s is None else inside_latency_s,
        ranks_per_server,
    )
    form = closed_form(
        op, chosen, ranks, size_bytes, links=links, options=options or CollectiveOptions()
    )
    algbw = size_bytes / form.time_s if form.time_s > 0 else 0.0
    return AnalyticResult(
        op=op,
        algorithm=chosen,
        ranks=ranks,
        size_bytes=size_bytes,
        bytes_sent_per_rank=volume.bytes_sent_per_rank,
        steps=volume.steps,
        time_s=form.time_s,
        algbw_Bps=algbw,
        busbw_Bps=algbw * volume.bus_factor,
        lower_bound_s=_lower_bound(op, ranks, size_bytes, links),
        explanation=Explanation(
            "time",
            form.time_s,
            "s",
            form.formula,
            {
                "size_bytes S": float(size_bytes),
                "bandwidth_Bps B": bandwidth_bps / 8.0,
                "latency_s α": latency_s,
                **{name: float(value) for name, value in form.inputs.items()},
            },
            form.source,
        ),
        assumptions=_COLLECTIVE_ASSUMPTIONS,
    )


_COLLECTIVE_ASSUMPTIONS = (
    Assumption("network", "every rank has a full-duplex link of its own that nothing else uses"),
    Assumption("compute", "reductions and copies cost no time; kernels start at once on all ranks"),
    Assumption("lower bound", "larger of fewest bytes / bandwidth and ⌈log2 n⌉ message latencies"),
)


def _lower_bound(op: Collective, n: int, size_bytes: int, links: Links) -> float:
    """Return a time that no algorithm can beat on these links.

    A rank must move its bus factor × S at the faster of its bandwidths. A server of g ranks must
    move what crosses its border at g × B: the bus factor among servers × S, shared by g ranks,
    except that nothing can be shared in all-to-all and send-receive.
    """
    g = links.ranks_per_server
    servers = n // g
    fastest = max(links.bandwidth_bps, links.inside_bandwidth_bps if g > 1 else 0.0)
    bound = 8.0 * bus_factor(op, n) * size_bytes / fastest
    if servers > 1:
        pairwise = op in (Collective.ALL_TO_ALL, Collective.SEND_RECV)
        shared = 1 if pairwise else g
        across = 8.0 * bus_factor(op, servers) * size_bytes / (shared * links.bandwidth_bps)
        bound = max(bound, across)
    pairwise_rounds = 1 if op in (Collective.ALL_TO_ALL, Collective.SEND_RECV) else 0
    least = min(links.latency_s, links.inside_latency_s) if g > 1 else links.latency_s
    return max(bound, (pairwise_rounds or latency_rounds(n)) * least)


# ---------------------------------------------------------------- traffic over a fabric


def simulate_analytic(
    fabric: Fabric,
    traffic: Traffic,
    routing: Routing | RoutingSet,
    *,
    allow_unroutable: bool = False,
) -> Result:
    """Time traffic by closed forms on its routed paths, without sharing between unrelated tasks.

    A plain task takes its busiest link's own bytes / capacity, plus its longest latency. A coupled
    task takes rounds × the time of a round, or, where it is a pipeline, the time of the first
    chunk down the longest chain plus the busiest link's time for each further chunk. Tasks
    follow their dependencies.

    Raises:
        EngineError: streams without a path (unless allowed), or tasks that wait in a circle.
    """
    planes = RoutingSet.of(routing).on(fabric)
    given = prepare(fabric, traffic, planes, allow_unroutable=allow_unroutable)
    return _timed(fabric, traffic, given)


def simulate_split(
    fabric: Fabric, traffic: Traffic, routing: Routing | RoutingSet
) -> tuple[Result, float]:
    """Time traffic as :func:`simulate_analytic` does, and tell what of it is bandwidth.

    Returns:
        The result, and the makespan on the same paths if no link had a delay; what is left of the
        result's makespan is latency.

    Raises:
        EngineError: streams without a path, or tasks that wait in a circle.
    """
    planes = RoutingSet.of(routing).on(fabric)
    given = prepare(fabric, traffic, planes, allow_unroutable=False)
    prompt = replace(
        given,
        flow_latency_s=np.zeros_like(given.flow_latency_s),
        stream_latency_s=np.zeros_like(given.stream_latency_s),
        stream_ideal_s=given.stream_ideal_s - given.stream_latency_s,
    )
    timing = _task_times(traffic, prompt)
    _, finished = _schedule(traffic, timing.duration_s, timing.latency_s)
    return _timed(fabric, traffic, given), float(finished.max(initial=0.0))


def _timed(fabric: Fabric, traffic: Traffic, given: FlowInput) -> Result:
    """Return the result for traffic that is routed."""
    timing = _task_times(traffic, given)
    started, finished = _schedule(traffic, timing.duration_s, timing.latency_s)
    makespan = float(finished.max(initial=0.0))
    rounds = traffic.task_rounds[traffic.stream_task].astype(np.float64)
    entry_flow = np.repeat(np.arange(given.paths.n_flows), np.diff(given.paths.ptr))
    weight = given.paths.weight
    load = (given.flow_bytes * rounds[given.paths.message])[entry_flow]
    link_bytes = np.bincount(
        given.paths.link,
        load if weight is None else load * weight,
        minlength=fabric.n_links,
    ).astype(np.float64)
    room = given.capacity_Bps * makespan
    total = float(np.sum(given.flow_bytes * rounds[given.paths.message]))
    stream_finish = finished[traffic.stream_task]
    stream_finish[given.unroutable] = np.nan
    whole = rounds * given.stream_ideal_s
    with np.errstate(divide="ignore", invalid="ignore"):
        slowdown = np.where(whole > 0, timing.duration_s[traffic.stream_task] / whole, 1.0)
    slowdown[given.unroutable] = np.nan
    return Result(
        engine="analytic",
        traffic=traffic,
        task_start_s=started,
        task_finish_s=finished,
        stream_finish_s=stream_finish,
        stream_ideal_s=given.stream_ideal_s,
        stream_slowdown=slowdown,
        link_bytes=link_bytes,
        link_utilisation=np.divide(link_bytes, room, out=np.zeros_like(room), where=room > 0),
        link_peak=np.full(fabric.n_links, np.nan),
        makespan_s=makespan,
        bytes_sent=total + given.dropped_bytes,
        bytes_delivered=total,
        bytes_dropped=given.dropped_bytes,
        bytes_in_flight=0.0,
        events=0,
        unroutable_streams=int(given.unroutable.sum()),
        assumptions=_ASSUMPTIONS,
        explanations=_explain(traffic, timing, makespan),
        findings=unroutable_findings(fabric, traffic, given),
        paths=given.paths,
    )


_ASSUMPTIONS = (
    Assumption(
        "sharing",
        "streams of one task, and the channels of one collective, share links by bytes / capacity; "
        "other tasks that run at the same time do not slow each other at all: too optimistic where "
        "jobs or background traffic meet",
    ),
    Assumption(
        "pipelines",
        "a ring turns at the pace of its slowest stream or of the mean way round, whichever is "
        "longer; a tree or chain fills once and then moves at the pace of its busiest link",
    ),
    Assumption(
        "stragglers",
        "a straggler's wait is added to its task's time for each chunk as if nothing else were "
        "sent meanwhile; in a tree the other channels do send: up to a fifth too long (measured "
        "under 0.1 % in rings, up to 18 % in trees)",
    ),
    Assumption("stream ends", "every stream of a task is taken to end with its task"),
    Assumption("congestion", "no queues, pauses, marks or losses"),
)


@dataclass(frozen=True, eq=False)
class _Timing:
    """By task: how long it takes, the busiest link's time for one chunk, the longest latency."""

    duration_s: F64
    chunk_s: F64
    latency_s: F64
    coupled: Bool


def _busiest(traffic: Traffic, given: FlowInput, coupled: Bool) -> F64:
    """Return the time that each task's busiest link needs for one chunk of all its streams.

    Coupled tasks of one label and number of rounds (the channels of a collective) run side by
    side, so they count as one.
    """
    paths, n_links = given.paths, len(given.capacity_Bps)
    group = np.arange(traffic.n_tasks, dtype=np.int64)
    alike = traffic.task_label.astype(np.int64) * (1 << 31) + traffic.task_rounds
    _, first, inverse = np.unique(alike[coupled], return_index=True, return_inverse=True)
    group[coupled] = np.flatnonzero(coupled)[first[inverse.reshape(-1)]]
    entry_flow = np.repeat(np.arange(paths.n_flows), np.diff(paths.ptr))
    owner = group[traffic.stream_task[paths.message[entry_flow]]]
    load = given.flow_bytes[entry_flow]
    if paths.weight is not None:
        load = load * paths.weight
    unique, inverse = np.unique(owner * n_links + paths.link, return_inverse=True)
    total = np.bincount(inverse.reshape(-1), load, minlength=len(unique))
    with np.errstate(divide="ignore", invalid="ignore"):
        time = np.where(total > 0, total / given.capacity_Bps[unique % n_links], 0.0)
    longest = np.zeros(traffic.n_tasks)
    np.maximum.at(longest, unique // n_links, time)
    shared: F64 = longest[group]
    return shared


def _task_times(traffic: Traffic, given: FlowInput) -> _Timing:
    coupled = coupled_tasks(traffic)
    chunk = _busiest(traffic, given, coupled)
    latency = row_reduce(np.maximum, given.flow_latency_s, given.paths.first)
    task_latency = row_reduce(np.maximum, latency, traffic.task_stream)
    delay = row_reduce(np.maximum, traffic.chunk_delay_s, traffic.task_stream)
    alone = row_reduce(np.maximum, given.stream_ideal_s, traffic.task_stream)
    rounds = traffic.task_rounds
    duration = np.maximum(chunk + task_latency + delay, alone)
    if coupled.any():
        chain, alone_sent = _chains(traffic, given.stream_ideal_s), given.stream_ideal_s - latency
        pace = np.maximum(chunk + delay, row_reduce(np.maximum, alone_sent, traffic.task_stream))
        fill = row_reduce(np.maximum, chain, traffic.task_stream)
        turn = _turn_times(traffic, given.stream_ideal_s, chain)
        cyclic = np.isfinite(turn)
        around = rounds * np.maximum(pace, np.where(cyclic, turn, 0.0))
        through = np.maximum(fill, pace + task_latency) + (rounds - 1) * pace
        # the last chunk of a ring still has its own latency to go
        around = np.where(turn > pace, around, around + task_latency)
        duration = np.where(coupled, np.where(cyclic, around, through), duration)
    return _Timing(duration, chunk, task_latency, coupled)


def _chains(traffic: Traffic, ideal: F64) -> F64:
    """Return for each stream the longest chain of lag-0 predecessors, itself included, in time."""
    stream = np.repeat(np.arange(traffic.n_streams), np.diff(traffic.pred_ptr))
    tight = traffic.pred_lag == 0
    who, on = stream[tight], traffic.pred_stream[tight].astype(np.int64)
    total = ideal.copy()
    pointer, order = csr(on, traffic.n_streams)
    followers = who[order]
    waiting = np.bincount(who, minlength=traffic.n_streams)
    ready = np.flatnonzero(waiting == 0)
    while ready.size:
        counts = pointer[ready + 1] - pointer[ready]
        after = followers[ranges(pointer[ready], counts)]
        np.maximum.at(total, after, np.repeat(total[ready], counts) + ideal[after])
        np.subtract.at(waiting, after, 1)
        ready = np.unique(after[waiting[after] == 0])
    return total


def _turn_times(traffic: Traffic, ideal: F64, chain: F64) -> F64:
    """Return the time of one round of tasks that have predecessors of lag ≥ 1, else NaN.

    Where every stream has one predecessor (a ring) it is the mean way round: the sum of the
    streams' times over the sum of the lags. Else it is the longest chain within a round.
    """
    width = np.diff(traffic.task_stream)
    owner = traffic.stream_task[np.repeat(np.arange(traffic.n_streams), np.diff(traffic.pred_ptr))]
    lags = np.bincount(owner, traffic.pred_lag, minlength=traffic.n_tasks)
    preds = np.bincount(owner, minlength=traffic.n_tasks)
    around = np.bincount(traffic.stream_task, ideal, minlength=traffic.n_tasks)
    longest = row_reduce(np.maximum, chain, traffic.task_stream)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = around / lags
    turn = np.where(preds == width, mean, longest)
    cyclic: F64 = np.where(lags > 0, turn, np.nan)
    return cyclic


def _schedule(traffic: Traffic, duration: F64, latency: F64) -> tuple[F64, F64]:
    """Return (start, finish) of each task, dependencies first."""
    n = traffic.n_tasks
    begin = traffic.task_start_s.copy()
    finish, sent = np.empty(n), np.empty(n)
    who = np.repeat(np.arange(n), np.diff(traffic.dep_ptr))
    pointer, order = csr(traffic.dep_task, n)
    followers, kinds = who[order], traffic.dep_kind[order]
    waiting = np.diff(traffic.dep_ptr).copy()
    ready, done = np.flatnonzero(waiting == 0), 0
    while ready.size:
        begin[ready] += traffic.task_delay_s[ready]
        finish[ready] = begin[ready] + duration[ready]
        sent[ready] = finish[ready] - np.minimum(latency, duration)[ready]
        done += len(ready)
        counts = pointer[ready + 1] - pointer[ready]
        entry = ranges(pointer[ready], counts)
        source, after = np.repeat(ready, counts), followers[entry]
        np.maximum.at(begin, after, np.where(kinds[entry] == 0, finish[source], sent[source]))
        np.subtract.at(waiting, after, 1)
        ready = np.unique(after[waiting[after] == 0])
    if done < n:
        stuck = int(np.flatnonzero(waiting > 0)[0])
        raise EngineError(
            f"analytic engine: task {stuck} ({traffic.labels[int(traffic.task_label[stuck])]}) "
            "waits for itself through its dependencies"
        )
    return begin, finish


def _explain(traffic: Traffic, timing: _Timing, makespan: float) -> tuple[Explanation, ...]:
    if not traffic.n_tasks:
        return ()
    worst = int(np.argmax(timing.duration_s))
    formula = (
        "rounds × (bytes / bottleneck + latency), or the first chunk's way + further chunks' time"
        if timing.coupled[worst]
        else "busiest link's bytes / capacity + latency"
    )
    longest = Explanation(
        "longest task",
        float(timing.duration_s[worst]),
        "s",
        formula,
        {
            "task": float(worst),
            "rounds": float(traffic.task_rounds[worst]),
            "chunk_s": float(timing.chunk_s[worst]),
            "latency_s": float(timing.latency_s[worst]),
        },
        "alpha–beta model on routed paths, tasks not sharing links",
    )
    return (
        replace(
            longest,
            quantity="makespan",
            value=makespan,
            formula="end of the last task along the dependencies",
            inputs={"tasks": float(traffic.n_tasks), "streams": float(traffic.n_streams)},
        ),
        longest,
    )
