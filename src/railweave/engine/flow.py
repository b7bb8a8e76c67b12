"""The flow engine: max-min fair rates over routed paths, event by event, through the task graph."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from railweave._native import FlowSim
from railweave.engine._drive import LiveRun, drive, watching
from railweave.engine._explain import explain_run
from railweave.engine._flow_input import (
    FlowInput,
    prepare,
    row_reduce,
    slowdowns,
    unroutable_findings,
)
from railweave.engine.result import Result
from railweave.errors import EngineError
from railweave.fabric import Fabric
from railweave.fabric.routing import Routing, RoutingSet
from railweave.provenance import Assumption, Certainty
from railweave.workload import Traffic

__all__ = ["EXACT_MESSAGES", "FlowRun", "simulate_flow"]

F64 = npt.NDArray[np.float64]

#: messages up to which coupled tasks that share links are simulated one by one: about 1 s
EXACT_MESSAGES = 1_200_000


class FlowRun:
    """One run of the flow engine which can be advanced bit by bit, for live views.

    Example:
        >>> run = FlowRun(fabric, traffic, routing)     # doctest: +SKIP
        >>> while not run.advance(until_s=run.now_s + 1e-3):
        ...     draw(run.now_s, run.link_load())

    Args:
        fabric: its links' usable capacity and delay.
        traffic: what is sent.
        routing: of one plane, or of all; moved to this fabric's state where it is of another.
        tolerance: 0 is exact; otherwise rates may lag behind by so much (relative).
        allow_unroutable: count streams without a path as dropped instead of failing.
        exact_messages: coupled tasks (rings, trees) that share links with other traffic, with each
            other or with themselves are simulated message by message, exactly, if they have at
            most so many messages (flows times rounds) in all; beyond, each shares links by its
            average rate. Those that share no link are exact in any case.

    Raises:
        EngineError: streams that cannot be routed, or waits in a circle.
    """

    def __init__(
        self,
        fabric: Fabric,
        traffic: Traffic,
        routing: Routing | RoutingSet,
        *,
        tolerance: float = 0.0,
        allow_unroutable: bool = False,
        exact_messages: int = EXACT_MESSAGES,
    ) -> None:
        self.fabric = fabric
        self.traffic = traffic
        self.routing = RoutingSet.of(routing).on(fabric)
        self.tolerance = tolerance
        self.input: FlowInput = prepare(
            fabric, traffic, self.routing, allow_unroutable=allow_unroutable
        )
        given, paths = self.input, self.input.paths
        self._sim = FlowSim(
            given.capacity_Bps,
            paths.ptr,
            paths.link,
            paths.weight,
            given.flow_bytes,
            given.flow_latency_s,
            given.task_flow,
            traffic.task_start_s,
            traffic.task_delay_s,
            traffic.dep_ptr,
            traffic.dep_task,
            traffic.dep_kind,
            traffic.task_rounds,
            given.flow_delay_s,
            given.pred_ptr,
            given.pred_flow,
            given.pred_lag,
            tolerance,
            exact_messages,
        )
        self._finished = False
        self._load_from: tuple[float, F64] = (0.0, np.zeros(fabric.n_links))

    @property
    def now_s(self) -> float:
        """Simulated time reached."""
        return float(self._sim.now_s)

    @property
    def finished(self) -> bool:
        """Whether every task has ended."""
        return self._finished

    @property
    def events(self) -> int:
        """Task starts and flow completions so far."""
        return int(self._sim.events)

    @property
    def fraction(self) -> float:
        """Part of all bytes delivered so far, 0 to 1."""
        total = float(self._sim.bytes_total)
        return float(self._sim.bytes_delivered) / total if total > 0 else float(self._finished)

    def task_times(self) -> tuple[F64, F64]:
        """Return start and end of every task, each of shape (T,); NaN: not yet."""
        started, finished = self._sim.task_start_s, self._sim.task_finish_s
        # A task has an end once all of its flows have (NaN wins in a maximum).
        ends = row_reduce(np.maximum, self._sim.flow_finish_s, self.input.task_flow)
        finished[np.isnan(ends)] = math.nan
        return started, finished

    def link_load(self) -> F64:
        """Return the share of each link's capacity used since the last call, shape (L,)."""
        capacity, sent, now = self.input.capacity_Bps, self._sim.link_bytes, self.now_s
        room = capacity * (now - self._load_from[0])
        more = sent - self._load_from[1]
        self._load_from = (now, sent)
        return np.divide(more, room, out=np.zeros_like(room), where=room > 0)

    def advance(self, until_s: float = math.inf, max_events: int = -1) -> bool:
        """Go on to a simulated time, or by a number of events (−1 all); True when all is done.

        Ctrl-C leaves it with KeyboardInterrupt; such a run cannot be gone on with.

        Raises:
            EngineError: tasks wait for each other in a circle, or bytes went astray.
        """
        try:
            done = self._sim.advance(until_s, max_events)
        except RuntimeError as error:
            raise EngineError(f"flow engine: {error}") from None
        self._finished = bool(done)
        return self._finished

    def result(self) -> Result:
        """Gather what is known now; complete once :attr:`finished`.

        Raises:
            EngineError: bytes sent are not those delivered, dropped and in flight.
        """
        return _gather(self)


def simulate_flow(
    fabric: Fabric,
    traffic: Traffic,
    routing: Routing | RoutingSet,
    *,
    tolerance: float = 0.0,
    progress: Callable[[float], None] | None = None,
    watch: Callable[[LiveRun], None] | None = None,
    until_s: float = math.inf,
    allow_unroutable: bool = False,
    exact_messages: int = EXACT_MESSAGES,
) -> Result:
    """Simulate traffic with max-min fair flows.

    Args:
        fabric, traffic, routing, tolerance, allow_unroutable, exact_messages: see
            :class:`FlowRun`.
        progress: called a few times a second with the part of all bytes delivered; what it raises
            ends the run.
        watch: called with the run as often, to look at what is known.
        until_s: simulated time at which to stop.

    Returns:
        The result; the same bits for the same input, whatever the calls.

    Raises:
        EngineError: streams that cannot be routed, waits in a circle, or bytes that went astray.
    """
    run = FlowRun(
        fabric,
        traffic,
        routing,
        tolerance=tolerance,
        allow_unroutable=allow_unroutable,
        exact_messages=exact_messages,
    )
    drive(run, until_s, watching(run, progress, watch), step=256)
    return run.result()


def _gather(run: FlowRun) -> Result:
    sim, traffic, given = run._sim, run.traffic, run.input
    started, finished = run.task_times()
    stream_finish = row_reduce(np.maximum, sim.flow_finish_s, given.paths.first, math.nan)
    slowdown = slowdowns(traffic, given, started, finished, stream_finish)
    slowdown[given.unroutable] = math.nan
    stream_finish[given.unroutable] = math.nan
    ends = finished[np.isfinite(finished)]
    makespan = float(ends.max()) if run.finished and ends.size else run.now_s
    room = given.capacity_Bps * makespan
    link_bytes = sim.link_bytes
    delivered, flying = float(sim.bytes_delivered), float(sim.bytes_in_flight)
    sent = delivered + flying + given.dropped_bytes
    total = float(sim.bytes_total)
    if run.finished and not math.isclose(total, delivered + flying, rel_tol=1e-9, abs_tol=1e-3):
        raise EngineError(
            f"flow engine: {total:.0f} bytes were to be sent, {delivered:.0f} arrived and "
            f"{flying:.0f} are in flight; this is a fault of railweave, please report it"
        )
    return Result(
        engine="flow",
        traffic=traffic,
        task_start_s=started,
        task_finish_s=finished,
        stream_finish_s=stream_finish,
        stream_ideal_s=given.stream_ideal_s,
        stream_slowdown=slowdown,
        link_bytes=link_bytes,
        link_utilisation=np.divide(link_bytes, room, out=np.zeros_like(room), where=room > 0),
        link_peak=sim.link_peak_fraction,
        makespan_s=makespan,
        bytes_sent=sent,
        bytes_delivered=delivered,
        bytes_dropped=given.dropped_bytes,
        bytes_in_flight=flying,
        events=int(sim.events),
        unroutable_streams=int(given.unroutable.sum()),
        assumptions=_assumptions(run),
        explanations=explain_run(
            makespan,
            link_bytes,
            given.capacity_Bps,
            slowdown,
            counts={
                "tasks": float(traffic.n_tasks),
                "flows": float(given.paths.n_flows),
                "events": float(sim.events),
            },
            source="max-min fair flow simulation (progressive filling, event by event)",
        ),
        findings=unroutable_findings(run.fabric, traffic, given),
        paths=given.paths,
        finished=run.finished,
    )


def _assumptions(run: FlowRun) -> tuple[Assumption, ...]:
    exact = (
        "rates are exact max-min fair at every event"
        if run.tolerance == 0
        else f"rates may lag behind max-min fair by up to {run.tolerance:.2g} (relative)"
    )
    lines = [
        ("sharing", f"flows on a link share it max-min fairly, as fluids; {exact}"),
        (
            "congestion",
            "no queues, pauses, marks, losses or retransmissions, and senders reach their fair "
            "rate at once: real congestion control is slower and less fair",
        ),
        (
            "latency",
            "a message ends its path's latency after its last byte leaves: cable delay and port "
            "latency of every device, cut-through (no store-and-forward of whole packets)",
        ),
        (
            "wire bytes",
            "network messages count packet headers on all their links, the PCIe links to and from "
            "the NIC included (PCIe's own overhead is its links' efficiency); payload only inside "
            "a scale-up domain",
        ),
        (
            "paths",
            "each flow keeps its path; memory, PCIe switches and the GPU's copy engines are no "
            "bottleneck of their own",
        ),
    ]
    schemes = {r.scheme.value for r in run.routing.planes.values()}
    if "adaptive" in schemes:
        lines.append(
            ("adaptive routing", "load-aware once for each flow, in order of the streams, by bytes")
        )
    if "spray" in schemes:
        lines.append(("spraying", "packets spread evenly over all equal paths; no reordering cost"))
    if "flowlet" in schemes:
        lines.append(("flowlets", "the flowlets of a message run side by side, each on its path"))
    if run._sim.exact_tasks:
        lines.append(
            (
                "coupled tasks",
                f"{run._sim.exact_tasks} coupled tasks that share links expanded: exact, message "
                "by message",
            )
        )
    if run._sim.averaged_tasks:
        lines.append(
            (
                "coupled tasks",
                f"{run._sim.averaged_tasks} coupled tasks share links by their average rates, "
                "fitted to rings message by message: within 3 % over 64 to 512 ranks where latency "
                "weighs, 0.1 % at 1 GiB; simulate_flow(exact_messages=…) does them message by "
                "message",
            )
        )
    if run.input.paths.indirect:
        lines.append(
            (
                "indirect messages",
                f"{run.input.paths.indirect} messages have no way from their own GPU's NIC and "
                "cross the scale-up domain to the GPU of the receiver's rail",
            )
        )
    return tuple(Assumption(subject, text, Certainty.ASSUMED) for subject, text in lines)
