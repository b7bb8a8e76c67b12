"""The packet engine: every data packet queued, marked, scheduled and forwarded on its own."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from railweave._native import PacketFlows, PacketOptions, PacketSim
from railweave.engine._drive import LiveRun, drive, watching
from railweave.engine._explain import explain_run
from railweave.engine._flow_input import row_reduce, slowdowns, unroutable_findings
from railweave.engine._packet_faults import FaultInput, plan_faults
from railweave.engine._packet_flows import FlowTable, hub_nodes, native_flows, native_tasks, route
from railweave.engine._packet_links import PS, Ports, make_links, switch_configs
from railweave.engine._packet_text import assumptions, end_findings
from railweave.engine.packet_settings import PacketSettings, default_settings
from railweave.engine.result import Result
from railweave.errors import EngineError
from railweave.fabric import Fabric
from railweave.fabric._paths import gather_rows
from railweave.fabric.routing import Routing, RoutingSet
from railweave.findings import Finding
from railweave.workload import Traffic

if TYPE_CHECKING:
    import polars as pl

    from railweave.engine.packet_record import PacketRecord

__all__ = ["End", "PacketResult", "PacketRun", "simulate_packet"]

F64 = npt.NDArray[np.float64]

#: events after which progress is first reported
FIRST_EVENTS = 1 << 14


class End:
    """How a run ended."""

    RUNNING, FINISHED, STUCK, DEADLOCK = range(4)


@dataclass(frozen=True, eq=False)
class PacketResult(Result):
    """A result of the packet engine: with what its queues, pauses and adapters did.

    ``record`` holds samples, pauses, events and counters; ``flow_stream`` is the stream of each
    queue pair, as its rows count them.
    """

    record: PacketRecord | None = None

    def messages(self) -> pl.DataFrame:
        """Return one row a message: stream, label, chunk, bytes, start_s, finish_s, duration_s."""
        from railweave.engine.packet_record import message_frame

        return message_frame(self)


class PacketRun:
    """One run of the packet engine which can be advanced bit by bit, for live views.

    Args:
        fabric: its links' capacity, delay and length.
        traffic: what is sent.
        routing: of one plane, or of all; moved to this fabric's state where it is of another.
        settings: of switches and adapters; None takes every default for the fabric's switches.
        seed: of marking, loss and spraying.
        allow_unroutable: count streams without a path as dropped instead of failing.

    Raises:
        EngineError: streams that cannot be routed, or waits in a circle.
    """

    def __init__(
        self,
        fabric: Fabric,
        traffic: Traffic,
        routing: Routing | RoutingSet,
        settings: PacketSettings | None = None,
        *,
        seed: int = 0,
        allow_unroutable: bool = False,
    ) -> None:
        self.fabric = fabric
        self.traffic = traffic
        self.routing = RoutingSet.of(routing).on(fabric)
        self.settings = settings or default_settings(fabric, self.routing)
        self.table: FlowTable = route(
            fabric, traffic, self.routing, self.settings, allow_unroutable
        )
        ports = Ports.of(fabric)
        links = make_links(fabric, self.settings, ports)
        options = PacketOptions()
        options.seed = seed & (2**64 - 1)
        options.flowlet_gap_ps = round(self.settings.flowlet_gap_s * PS)
        options.spray_paths = self.settings.spray_paths
        options.stuck_ps = round(self.settings.stuck_s * PS)
        self._sim = PacketSim(hub_nodes(fabric, self.table), links, options)
        self._configure(ports)
        flows = native_flows(
            fabric, self.routing, self.settings, ports=ports, table=self.table, sim=self._sim
        )
        try:
            self._sim.set_work(flows, native_tasks(traffic))
        except ValueError as error:
            raise EngineError(f"packet engine: {error}") from None
        self.fault_findings = self._plan_faults(ports, links.pause_mask, flows)
        self._watch(ports)
        self._finished = False

    def _configure(self, ports: Ports) -> None:
        """Give every switch its settings."""
        numbers: dict[int, int] = {}
        for node, config in switch_configs(self.fabric, self.settings, ports).items():
            if id(config) not in numbers:
                numbers[id(config)] = self._sim.add_switch_config(config)
            self._sim.use_switch_config(node, numbers[id(config)])

    def _plan_faults(
        self, ports: Ports, pause_mask: npt.NDArray[np.uint8], flows: PacketFlows
    ) -> tuple[Finding, ...]:
        """Tell the engine what goes wrong when; return what is to be said of it."""
        if not self.settings.faults:
            return ()
        plan = plan_faults(
            FaultInput(
                fabric=self.fabric,
                traffic=self.traffic,
                routing=self.routing,
                settings=self.settings,
                ports=ports,
                table=self.table,
                pause_mask=pause_mask,
                nic=flows.nic,
                rx_pipe=flows.rx_pipe,
                tables=flows.table,
                sim=self._sim,
            )
        )
        plan.give(self._sim)
        return plan.findings

    def _watch(self, ports: Ports) -> None:
        """Tell the engine what to write down."""
        watch = self.settings.watch
        if watch.links is None:
            none = np.zeros(0, dtype=np.int64)
            links = np.concatenate([none, *(into ^ 1 for into in ports.into.values())])
        else:
            links = np.array(watch.links)
        flows = np.arange(self.table.n_flows) if watch.flows is None else np.array(watch.flows)
        self._sim.watch(
            round(watch.period_s * PS),
            links.astype(np.uint32),
            flows.astype(np.uint32),
            trace_limit=watch.trace,
        )

    @property
    def now_s(self) -> float:
        """Simulated time reached."""
        return float(self._sim.now_s)

    @property
    def finished(self) -> bool:
        """Whether the run has ended: all is delivered, or nothing more can happen."""
        return self._finished

    @property
    def fraction(self) -> float:
        """Part of all payload delivered so far, 0 to 1."""
        total = float(np.sum(self.traffic.stream_bytes))
        return min(1.0, float(self._sim.bytes_delivered) / total) if total > 0 else 1.0

    @property
    def events(self) -> int:
        """Events so far."""
        return int(self._sim.events)

    def task_times(self) -> tuple[F64, F64]:
        """Return start and end of every task, each of shape (T,); NaN: not yet, or never."""
        started, finished = self._sim.task_start_s, self._sim.task_finish_s
        lost = self.table.given.unroutable.astype(float)
        finished[row_reduce(np.maximum, lost, self.traffic.task_stream) > 0] = math.nan
        return started, finished

    def advance(self, until_s: float = math.inf, max_events: int = -1) -> bool:
        """Go on to a simulated time, or by a number of events (−1 all); True when it has ended.

        Ctrl-C leaves it with KeyboardInterrupt; such a run cannot be gone on with.

        Raises:
            EngineError: the simulation cannot go on, or was interrupted before.
        """
        try:
            self._finished = bool(self._sim.advance(until_s, max_events))
        except (RuntimeError, ValueError) as error:
            raise EngineError(f"packet engine: {error}") from None
        return self._finished

    def result(self) -> PacketResult:
        """Gather what is known now; complete once :attr:`finished`.

        Raises:
            EngineError: packets sent are not those delivered, dropped and in flight.
        """
        return _gather(self)


def simulate_packet(
    fabric: Fabric,
    traffic: Traffic,
    routing: Routing | RoutingSet,
    *,
    settings: PacketSettings | None = None,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
    watch: Callable[[LiveRun], None] | None = None,
    until_s: float = math.inf,
    allow_unroutable: bool = False,
) -> PacketResult:
    """Simulate traffic packet by packet.

    Args:
        fabric, traffic, routing, settings, seed, allow_unroutable: see :class:`PacketRun`.
        progress: called a few times a second with the part of all bytes delivered; what it raises
            ends the run.
        watch: called with the run as often, to look at what is known.
        until_s: simulated time at which to stop.

    Returns:
        The result; the same bits for the same input and seed, whatever the calls.

    Raises:
        EngineError: streams that cannot be routed, or packets that went astray.
    """
    run = PacketRun(
        fabric, traffic, routing, settings, seed=seed, allow_unroutable=allow_unroutable
    )
    drive(run, until_s, watching(run, progress, watch), step=FIRST_EVENTS)
    return run.result()


def _gather(run: PacketRun) -> PacketResult:
    from railweave.engine.packet_record import read_record

    sim, traffic, table = run._sim, run.traffic, run.table
    given = table.given
    try:
        sim.audit()
    except RuntimeError as error:
        raise EngineError(
            f"packet engine: {error}; this is a fault of railweave, please report it"
        ) from None
    started, finished = run.task_times()
    stream_finish = sim.stream_finish_s
    stream_finish[given.unroutable] = math.nan
    all_done = int(sim.end) == End.FINISHED
    ends = finished[np.isfinite(finished)]
    makespan = float(ends.max()) if run.finished and ends.size else run.now_s
    link_bytes = _link_bytes(run)
    room = run.fabric.usable_bps / 8.0 * makespan
    slowdown = slowdowns(traffic, given, started, finished, stream_finish)
    slowdown[given.unroutable] = math.nan
    record = read_record(run)
    return PacketResult(
        engine="packet",
        traffic=traffic,
        task_start_s=started,
        task_finish_s=finished,
        stream_finish_s=stream_finish,
        stream_ideal_s=given.stream_ideal_s,
        stream_slowdown=slowdown,
        link_bytes=link_bytes,
        link_utilisation=np.divide(link_bytes, room, out=np.zeros_like(room), where=room > 0),
        link_peak=np.full(run.fabric.n_links, math.nan),
        makespan_s=makespan,
        bytes_sent=float(sim.bytes_sent) + given.dropped_bytes,
        bytes_delivered=float(sim.bytes_delivered),
        bytes_dropped=float(sim.bytes_dropped) + given.dropped_bytes,
        bytes_in_flight=float(sim.bytes_in_flight),
        events=int(sim.events),
        unroutable_streams=int(given.unroutable.sum()),
        assumptions=assumptions(run),
        explanations=explain_run(
            makespan,
            link_bytes,
            run.fabric.usable_bps / 8.0,
            slowdown,
            counts={
                "tasks": float(traffic.n_tasks),
                "queue pairs": float(table.n_flows),
                "events": float(sim.events),
            },
            source="packet by packet simulation",
        ),
        findings=(
            *unroutable_findings(run.fabric, traffic, given),
            *run.fault_findings,
            *end_findings(run),
        ),
        paths=given.paths,
        finished=all_done,
        record=record,
    )


def _link_bytes(run: PacketRun) -> F64:
    """Return wire bytes by link: as sent on simulated links, as sent by the NIC on those beside."""
    total: F64 = run._sim.link_bytes
    table, paths = run.table, run.table.given.paths
    ptr, place = gather_rows(paths.ptr, table.flow)
    row = np.repeat(np.arange(table.n_flows), np.diff(ptr))
    beside = (place < table.first[row]) | (place > table.last[row])
    np.add.at(total, paths.link[place[beside]], run._sim.flow_sent_bytes[row[beside]])
    return total
