"""What each parameter of a public function does: two observations and what holds between."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import railweave
from python_option_views import (
    CUT,
    DESIGN,
    NAMES_A_FILE,
    SMALL,
    advanced,
    built,
    busbw,
    calls,
    cancelled,
    communicator,
    cut,
    ends,
    flows,
    message,
    outcome,
    packets_advanced,
    packets_through,
    picked,
    placed,
    planned,
    record,
    rings,
    routed,
    run_through,
    sent,
    server_power,
    summary,
    taken_at_once,
    thrice,
    timed,
    times,
    travelled,
    tree,
    values,
    volume,
)
from railweave.design.models import (
    Algorithm,
    Collective,
    PlacementName,
    RoutingScheme,
    RoutingSpec,
    Transport,
)
from railweave.engine import simulate
from railweave.engine.analytic import simulate_analytic
from railweave.engine.flow import simulate_flow
from railweave.engine.packet import simulate_packet
from railweave.engine.packet_settings import PacketSettings
from railweave.errors import EngineError
from railweave.fabric import PlaneId
from railweave.fabric.forwarding import export_table
from railweave.fabric.routing import compile_routing
from railweave.runs import Cancelled, InProcessExecutor, ProcessPool
from railweave.transport.verbs.operation import Operation
from railweave.workload import CollectiveOptions, Communicator, collective_traffic


@dataclass(frozen=True)
class Effect:
    """Two observations and what holds between them."""

    before: Callable[[], Any]
    after: Callable[[], Any]
    holds: Callable[[Any, Any], bool] = operator.ne


def changes(see: Callable[..., Any], holds: Any = operator.ne, **options: Any) -> Effect:
    """Observe without and with some options."""
    return Effect(see, lambda: see(**options), holds)


def _load_effects() -> dict[str, Effect]:
    missing = outcome(lambda: railweave.load("no-such-design.yaml"))
    return {
        "load.path": Effect(lambda: missing, lambda: railweave.load(SMALL).design.name),
        "parse.text": Effect(lambda: built().design.seed, lambda: built(3).design.seed),
        "parse.file": Effect(
            lambda: message("railweave: 2", "a.yaml"), lambda: message("railweave: 2", "b.yaml")
        ),
        "parse.files": changes(lambda files=True: message(NAMES_A_FILE, files=files), files=False),
        "BuiltDesign.fail.items": changes(lambda items=(): built().fail(items).failed, items=CUT),
        "BuiltDesign.what_if.items": changes(
            lambda items=("spine-1",): built().what_if(items).after.bisection_bps,
            operator.gt,
            items=("spine-1", "spine-2"),
        ),
        "BuiltDesign.monte_carlo.failures": changes(
            lambda failures=1: built().monte_carlo(failures).bisection_bps.min,
            operator.gt,
            failures=8,
        ),
        "BuiltDesign.monte_carlo.draws": changes(
            lambda draws=2: built().monte_carlo(3, draws).draws, operator.lt, draws=9
        ),
        "BuiltDesign.routing.scheme": changes(
            lambda scheme=None: built().routing(scheme).planes[PlaneId.BACKEND].scheme,
            scheme=RoutingScheme.SPRAY,
        ),
        "BuiltDesign.routing.seed": changes(
            lambda seed=0: built().routing(seed=seed).planes[PlaneId.BACKEND].seed, seed=5
        ),
        "BuiltDesign.workload.seed": changes(
            lambda seed=0: built().workload(seed).traffic.task_start_s.tolist(), seed=5
        ),
        "build_summary.built": changes(
            lambda base=None: summary(base or built()).backend.capacity.bisection_bps,
            operator.gt,
            base=built().fail(["spine-1"]),
        ),
        "build_summary.design": changes(
            lambda mtu=None: summary(built(), mtu=mtu).backend.capacity.effective_host_bps,
            operator.gt,
            mtu=1024,
        ),
        "build_summary.catalog": changes(
            lambda thirsty=1.0: server_power(thirsty), operator.lt, thirsty=2.0
        ),
        "build_summary.availability": Effect(
            lambda: summary(built()).availability is not None,
            lambda: summary(built(), availability=False).availability is not None,
        ),
        "build_summary.domains": changes(
            lambda domains=True: len(summary(built(), domains=domains).backend.domains),
            operator.gt,
            domains=False,
        ),
    }


def _simulation_effects() -> dict[str, Effect]:
    def simulated(**options: Any) -> list[float]:
        return ends(built().simulate(**options))

    def by(function: Callable[..., Any]) -> Callable[..., list[float]]:
        return lambda base=None, **options: ends(flows(function, base or built(), **options))

    def parts(function: Callable[..., Any]) -> Callable[..., list[float]]:
        def see(fabric: Any = None, traffic: Any = None, routing: Any = None) -> list[float]:
            return ends(
                function(
                    fabric or built().fabric,
                    traffic or built().workload().traffic,
                    routing or built().routing(),
                )
            )

        return see

    def narrow() -> PacketSettings:
        return replace(built().packet_settings(), window_bytes=20_000.0)

    def by_spray(function: Callable[..., Any]) -> Callable[..., list[float]]:
        return lambda **options: ends(
            function(built().fabric, built().workload().traffic, spray, **options)
        )

    slow = built().fabric.with_capacity(dict.fromkeys(range(built().fabric.n_links // 2), 0.5))
    spray = built().routing(RoutingScheme.SPRAY)
    other = built().workload(7).traffic
    found: dict[str, Effect] = {}
    engines: dict[str, Callable[..., Any]] = {
        "simulate": simulate,
        "simulate_flow": simulate_flow,
        "simulate_analytic": simulate_analytic,
        "FlowRun": run_through,
        "simulate_packet": simulate_packet,
        "PacketRun": packets_through,
    }
    for name, function in engines.items():
        see = parts(function)
        found[f"{name}.fabric"] = changes(see, fabric=slow)
        found[f"{name}.traffic"] = changes(see, traffic=other)
        found[f"{name}.routing"] = changes(see, routing=spray)
        if name == "simulate":
            continue
        found[f"{name}.allow_unroutable"] = Effect(
            lambda function=function: outcome(lambda: flows(function, cut())),
            lambda function=function: flows(function, cut(), allow_unroutable=True).bytes_dropped,
            lambda before, after: before == EngineError.__name__ and after > 0,
        )
        if name in {"simulate_packet", "PacketRun"}:
            see = by(function)
            found[f"{name}.settings"] = changes(see, settings=narrow())
            found[f"{name}.seed"] = changes(by_spray(function), seed=5)
        elif name != "simulate_analytic":
            found[f"{name}.tolerance"] = changes(by(function), tolerance=0.2)
            found[f"{name}.exact_messages"] = Effect(
                lambda function=function: ends(flows(function, rings())),
                lambda function=function: ends(flows(function, rings(), exact_messages=0)),
            )
    return {
        **found,
        "simulate.engine": changes(by(simulate), engine="analytic"),
        "simulate.options": changes(by(simulate), tolerance=0.2),
        "simulate_flow.progress": Effect(
            lambda: 0,
            lambda: calls(lambda hook: flows(simulate_flow, built(), progress=hook)),
            operator.lt,
        ),
        "simulate_flow.watch": Effect(
            lambda: 0,
            lambda: calls(lambda hook: flows(simulate_flow, built(), watch=hook)),
            operator.lt,
        ),
        "simulate_flow.until_s": Effect(
            lambda: flows(simulate_flow, built()).bytes_in_flight,
            lambda: flows(simulate_flow, built(), until_s=1e-5).bytes_in_flight,
            operator.lt,
        ),
        "simulate_packet.progress": Effect(
            lambda: 0,
            lambda: calls(lambda hook: flows(simulate_packet, built(), progress=hook)),
            operator.lt,
        ),
        "simulate_packet.watch": Effect(
            lambda: 0,
            lambda: calls(lambda hook: flows(simulate_packet, built(), watch=hook)),
            operator.lt,
        ),
        "simulate_packet.until_s": Effect(
            lambda: flows(simulate_packet, built()).bytes_in_flight,
            lambda: flows(simulate_packet, built(), until_s=1e-5).bytes_in_flight,
            operator.lt,
        ),
        "PacketRun.advance.until_s": changes(packets_advanced, until_s=1e-5),
        "PacketRun.advance.max_events": changes(packets_advanced, max_events=2),
        "BuiltDesign.simulate.settings": changes(
            lambda settings=None: simulated(engine="packet", settings=settings), settings=narrow()
        ),
        "BuiltDesign.run.settings": changes(
            lambda settings=None: times(engine="packet", settings=settings), settings=narrow()
        ),
        "FlowRun.advance.until_s": changes(advanced, until_s=1e-5),
        "FlowRun.advance.max_events": changes(advanced, max_events=2),
        "BuiltDesign.simulate.engine": changes(simulated, engine="analytic"),
        "BuiltDesign.simulate.routing": changes(simulated, routing=RoutingScheme.SPRAY),
        "BuiltDesign.simulate.seed": changes(simulated, seed=7),
        "BuiltDesign.simulate.tolerance": changes(simulated, tolerance=0.2),
        "BuiltDesign.run.engine": changes(lambda **o: record(**o).events, engine="analytic"),
        "BuiltDesign.run.routing": changes(times, routing=RoutingScheme.SPRAY),
        "BuiltDesign.run.seed": changes(times, seed=3),
        "BuiltDesign.run.tolerance": changes(
            lambda **o: [c.p99_s for c in record(**o).completions], tolerance=0.2
        ),
        "BuiltDesign.run.what_ifs": changes(
            lambda what_ifs=False: len(record(what_ifs=what_ifs).what_ifs),
            operator.lt,
            what_ifs=True,
        ),
        "BuiltDesign.run.progress": Effect(
            lambda: 0, lambda: calls(lambda hook: record(progress=hook)), operator.lt
        ),
        "BuiltDesign.run.known": Effect(
            lambda: 0, lambda: calls(lambda hook: record(known=hook)), operator.lt
        ),
        "BuiltDesign.library_choice.operation": changes(picked, operation=Collective.BROADCAST),
        "BuiltDesign.library_choice.size_bytes": changes(picked, size_bytes=1 << 20),
        "BuiltDesign.library_choice.ranks": changes(picked, ranks=8),
        "BuiltDesign.library_choice.placement": changes(picked, placement=PlacementName.SPREAD),
        "BuiltDesign.library_choice.engine": changes(picked, engine="packet"),
        "BuiltDesign.plan.model": changes(planned, model="llama2-7b"),
        "BuiltDesign.plan.gpus": changes(planned, gpus=4),
        "BuiltDesign.plan.batch": changes(planned, batch=16),
        "BuiltDesign.plan.fixed": changes(planned, fixed={"tensor": 1, "context": 1}),
        "BuiltDesign.plan.placement": changes(planned, placement=PlacementName.SPREAD),
        "BuiltDesign.packet_journey.source": changes(travelled, source="node002/gpu1"),
        "BuiltDesign.packet_journey.target": changes(travelled, target="node002/gpu1"),
        "BuiltDesign.packet_journey.operation": changes(travelled, operation=Operation.READ),
        "BuiltDesign.packet_journey.size_bytes": changes(travelled, size_bytes=1),
        "BuiltDesign.collective.operation": changes(busbw, operation=Collective.BROADCAST),
        "BuiltDesign.collective.size_bytes": changes(busbw, operator.lt, size_bytes=1 << 22),
        "BuiltDesign.collective.ranks": changes(busbw, operator.lt, ranks=8),
        "BuiltDesign.collective.algorithm": changes(busbw, algorithm=Algorithm.TREE),
        "BuiltDesign.collective.placement": changes(busbw, placement=PlacementName.SPREAD),
        "BuiltDesign.collective.engine": changes(
            busbw, operation=Collective.ALL_TO_ALL, engine="analytic"
        ),
    }


def _routing_effects() -> dict[str, Effect]:
    by_destination = built().routing(RoutingScheme.DESTINATION).planes[PlaneId.BACKEND]
    table = export_table(by_destination)
    by_table = RoutingSpec(scheme=RoutingScheme.TABLE)
    return {
        "compile_routing.fabric": changes(routed, fabric=built().fail(["spine-1"]).fabric),
        "compile_routing.plane": changes(routed, plane=PlaneId.FRONTEND),
        "compile_routing.spec": changes(routed, spec=RoutingSpec(hash="crc16")),
        "compile_routing.transport": changes(routed, transport=Transport.INFINIBAND),
        "compile_routing.seed": changes(routed, seed=9),
        "compile_routing.mtu_bytes": changes(
            lambda mtu_bytes=None: (
                compile_routing(built().fabric, PlaneId.BACKEND, mtu_bytes=mtu_bytes).frame
            ),
            mtu_bytes=1024,
        ),
        "compile_routing.forwarding": Effect(
            lambda: outcome(lambda: routed(spec=by_table)),
            lambda: set(routed(spec=by_table, forwarding=table)[1]),
            lambda before, after: before == "InputError" and after == {0},
        ),
    }


def _workload_effects() -> dict[str, Effect]:
    return {
        "CollectiveOptions.root": changes(tree, root=3),
        "CollectiveOptions.queue_pairs": changes(tree, queue_pairs=4),
        "CollectiveOptions.chunk_bytes": changes(tree, chunk_bytes=1 << 16),
        "CollectiveOptions.max_chunks": Effect(
            lambda: tree(chunk_bytes=1 << 12), lambda: tree(chunk_bytes=1 << 12, max_chunks=8)
        ),
        "collective_traffic.op": changes(sent, op=Collective.REDUCE),
        "collective_traffic.comm": changes(sent, comm=communicator(4)),
        "collective_traffic.size_bytes": changes(sent, size_bytes=1 << 21),
        "collective_traffic.algorithm": changes(sent, algorithm=Algorithm.TREE),
        "collective_traffic.iterations": changes(sent, iterations=2),
        "collective_traffic.label": changes(sent, label="mine"),
        "collective_traffic.options": changes(sent, options=CollectiveOptions(root=2)),
        "collective_volume.op": changes(volume, operator.gt, op=Collective.ALL_GATHER),
        "collective_volume.algorithm": changes(volume, algorithm=Algorithm.TREE),
        "collective_volume.ranks": changes(volume, operator.lt, ranks=16),
        "collective_volume.size_bytes": changes(volume, operator.lt, size_bytes=1 << 21),
        "collective_volume.ranks_per_server": Effect(
            lambda: volume(op=Collective.ALL_TO_ALL, algorithm=Algorithm.RAIL_ALIGNED),
            lambda: volume(
                op=Collective.ALL_TO_ALL, algorithm=Algorithm.RAIL_ALIGNED, ranks_per_server=2
            ),
            operator.lt,
        ),
        "collective_time.op": changes(timed, operator.gt, op=Collective.ALL_GATHER),
        "collective_time.algorithm": changes(timed, algorithm=Algorithm.TREE),
        "collective_time.ranks": changes(timed, operator.lt, ranks=16),
        "collective_time.size_bytes": changes(timed, operator.lt, size_bytes=1 << 22),
        "collective_time.bandwidth_bps": changes(timed, operator.gt, bandwidth_bps=2e11),
        "collective_time.latency_s": changes(timed, operator.lt, latency_s=1e-5),
        "collective_time.ranks_per_server": Effect(
            lambda: timed(inside_bandwidth_bps=1e12),
            lambda: timed(inside_bandwidth_bps=1e12, ranks_per_server=4),
            operator.gt,
        ),
        "collective_time.inside_bandwidth_bps": changes(
            timed, operator.gt, inside_bandwidth_bps=1e12
        ),
        "collective_time.inside_latency_s": changes(timed, operator.gt, inside_latency_s=0.0),
        "collective_time.options": Effect(
            lambda: timed(algorithm=Algorithm.TREE),
            lambda: timed(algorithm=Algorithm.TREE, options=CollectiveOptions(chunk_bytes=1 << 16)),
        ),
        "place.fabric": changes(
            lambda fabric=None: outcome(lambda: placed(fabric=fabric or built().fabric, ranks=8)),
            fabric=railweave.parse(DESIGN.replace("count: 4", "count: 2")).build().fabric,
        ),
        "place.ranks": changes(placed, ranks=5),
        "place.rule": changes(placed, rule=PlacementName.SPREAD),
        "place.seed": Effect(
            lambda: placed(rule=PlacementName.RANDOM),
            lambda: placed(rule=PlacementName.RANDOM, seed=2),
        ),
        "place.name": Effect(
            lambda: placed(rule=PlacementName.RANDOM),
            lambda: placed(rule=PlacementName.RANDOM, name="third"),
        ),
        "place.taken": changes(placed, taken=built().fabric.gpus[:2].tolist()),
        "place.sends": changes(
            lambda **options: outcome(lambda: placed(rule=PlacementName.OPTIMIZED, **options)),
            sends=lambda nodes: collective_traffic(
                Collective.BROADCAST, Communicator.from_fabric(built().fabric, nodes), 1 << 20
            ),
        ),
    }


def _executor_effects() -> dict[str, Effect]:
    found = {}
    for name, executor in (
        ("InProcessExecutor", InProcessExecutor()),
        ("ProcessPool", ProcessPool(1)),
    ):
        see = lambda executor=executor, **options: values(executor, **options)  # noqa: E731
        found[f"{name}.run.function"] = changes(see, function=thrice)
        found[f"{name}.run.items"] = changes(see, count=2)
        found[f"{name}.run.token"] = Effect(
            see,
            lambda see=see: see(token=cancelled()),
            lambda before, after: len(before) == 3 and after == Cancelled.__name__,
        )
    return {
        **found,
        "ProcessPool.workers": Effect(
            lambda: taken_at_once(1), lambda: taken_at_once(3), operator.lt
        ),
    }


#: parameters that change how long it takes and nothing that comes out
SPEED_ONLY = {"compile_routing.threads"}


@cache
def effects() -> dict[str, Effect]:
    return {
        **_load_effects(),
        **_simulation_effects(),
        **_routing_effects(),
        **_workload_effects(),
        **_executor_effects(),
    }
