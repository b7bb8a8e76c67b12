"""What is looked at to see what a parameter of a public function does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import railweave
from railweave.api import BuiltDesign
from railweave.design.models import (
    Algorithm,
    Collective,
)
from railweave.engine.analytic import collective_time
from railweave.engine.flow import FlowRun
from railweave.engine.packet import PacketRun
from railweave.errors import RailweaveError
from railweave.fabric import PlaneId
from railweave.fabric.routing import compile_routing
from railweave.fabric.summary import build_summary
from railweave.runs import CancelToken, ProcessPool
from railweave.workload import CollectiveOptions, collective_traffic, collective_volume, place
from railweave.workload._communicator import Communicator

DESIGN = """\
railweave: 1
name: pairs
cluster:
  servers:
    count: 4
    inline: {gpus: 2, nics: 2, nic_speed: 100 Gb/s, scale_up_bandwidth: 1 Tb/s}
planes:
  backend: {transport: rocev2, topology: leaf-spine, switch: {radix: 4, speed: 100 Gb/s}}
  frontend: {transport: tcp, topology: star, switch: {radix: 16, speed: 200 Gb/s}}
jobs: [{name: mix, collective: all-to-all, size: 4 MiB}]
background: [{name: web, load: 0.6, duration: 1 ms}]
"""
SMALL = Path(__file__).parent / "golden" / "small.yaml"
#: no way from the first server's NICs to the others
CUT = ("node001/nic0", "node001/nic1")


@cache
def built(seed: int = 0) -> BuiltDesign:
    return railweave.parse(f"{DESIGN}seed: {seed}\n").build()


@cache
def cut() -> BuiltDesign:
    return built().fail(CUT)


@cache
def rings() -> BuiltDesign:
    """Return the design with rings that cross the same links."""
    ring = "{name: sum, collective: all-reduce, size: 4 MiB, placement: spread, channels: 2}"
    mix = "{name: mix, collective: all-to-all, size: 4 MiB}"
    return railweave.parse(DESIGN.replace(mix, f"{ring}, {mix}")).build()


def ends(result: Any) -> list[float]:
    return np.nan_to_num(result.task_finish_s, nan=-1.0).tolist()


def outcome(function: Callable[[], Any]) -> Any:
    """Return what a call gives, or the first words of its error."""
    try:
        return function()
    except RailweaveError as error:
        return type(error).__name__


def flows(how: Callable[..., Any], base: BuiltDesign, **options: Any) -> Any:
    """Simulate a built design's traffic by one of the engines' own functions."""
    return how(base.fabric, base.workload().traffic, built().routing(), **options)


def routed(**options: Any) -> Any:
    """Return the links that messages from the first GPU to all others take."""
    fabric = options.pop("fabric", built().fabric)
    plane = options.pop("plane", PlaneId.BACKEND)
    routing = compile_routing(fabric, plane, **options)
    if plane is PlaneId.FRONTEND:
        return routing.addresses.node.tolist()
    dst = fabric.gpus[2:]
    paths = routing.paths(np.repeat(fabric.gpus[:2], len(dst)), np.tile(dst, 2))
    return paths.link.tolist(), paths.status.tolist()


def sent(op: Collective = Collective.BROADCAST, **options: Any) -> Any:
    comm = options.pop("comm", communicator(8))
    traffic = collective_traffic(op, comm, options.pop("size_bytes", 1 << 20), **options)
    return [
        getattr(traffic, name).tolist()
        for name in ("src", "chunk_bytes", "task_rounds", "queue_pairs")
    ] + [traffic.labels]


@cache
def communicator(ranks: int) -> Communicator:
    return Communicator.from_fabric(built().fabric, built().fabric.gpus[:ranks])


def tree(**options: int) -> Any:
    return sent(algorithm=Algorithm.TREE, options=CollectiveOptions(**options))


def timed(**changes: Any) -> float:
    given: dict[str, Any] = {
        "op": Collective.ALL_REDUCE,
        "algorithm": Algorithm.HIERARCHICAL,
        "ranks": 8,
        "size_bytes": 1 << 20,
        "bandwidth_bps": 1e11,
        "latency_s": 1e-6,
        "ranks_per_server": 2,
    }
    return collective_time(**{**given, **changes}).time_s


def volume(**changes: Any) -> float:
    given = {"op": Collective.ALL_REDUCE, "algorithm": Algorithm.RING, "ranks": 8}
    return collective_volume(**{**given, "size_bytes": 1 << 20, **changes}).bytes_sent_per_rank


def placed(**changes: Any) -> list[int]:
    given: dict[str, Any] = {"fabric": built().fabric, "ranks": 4}
    return place(**{**given, **changes}).tolist()


def picked(**changes: Any) -> tuple[str, float, float]:
    given: dict[str, Any] = {"operation": Collective.ALL_REDUCE, "size_bytes": 1 << 28, "ranks": 4}
    found = built().library_choice(**{**given, **changes})
    return found.op.value, found.busbw_Bps, found.time_s


def planned(**changes: Any) -> tuple[str, int, int, float]:
    """Return (model, ranks, tensor degree, step time) of the quickest plan."""
    given: dict[str, Any] = {"model": "llama3-8b", "batch": 8}
    given["fixed"] = {"tensor": 2, "context": 1, "pipeline": 1}
    best = built().plan(**{**given, **changes}).best
    return best.plan.shape.name, best.plan.ranks, best.plan.degrees.tensor, best.step_s


def travelled(**changes: Any) -> tuple[tuple[str, ...], int, float]:
    """Return (devices on the way, packets, time of completion) of an operation."""
    given: dict[str, Any] = {"source": "node001/gpu0", "target": "node003/gpu0"}
    journey = built().packet_journey(**{**given, **changes})
    way = journey.ways[0]
    return tuple(hop.target for hop in way.hops), len(journey.packets), journey.completed_s or 0.0


def busbw(**changes: Any) -> tuple[float, float]:
    given: dict[str, Any] = {"operation": Collective.ALL_REDUCE, "size_bytes": 1 << 20, "ranks": 4}
    found = built().collective(**{**given, **changes})
    return found.time_s, found.size_bytes


def record(**options: Any) -> Any:
    return built().run(**{"what_ifs": False, **options})


def times(**options: Any) -> list[float]:
    return [job.time_s for job in record(**options).jobs]


def calls(function: Callable[[Callable[..., None]], object]) -> int:
    """Return how often a progress function is called."""
    seen: list[object] = []
    function(lambda *what: seen.append(what))
    return len(seen)


def advanced(**options: Any) -> tuple[bool, float]:
    run = FlowRun(built().fabric, built().workload().traffic, built().routing())
    return run.advance(**options), run.now_s


def packets_through(fabric: Any, traffic: Any, routing: Any, **options: Any) -> Any:
    run = PacketRun(fabric, traffic, routing, **options)
    run.advance()
    return run.result()


def packets_advanced(**options: Any) -> tuple[bool, float]:
    run = PacketRun(built().fabric, built().workload().traffic, built().routing())
    return run.advance(**options), run.now_s


def twice(number: int) -> int:
    return 2 * number


def thrice(number: int) -> int:
    return 3 * number


def values(executor: Any, function: Any = twice, count: int = 3, token: Any = None) -> Any:
    return outcome(lambda: sorted(executor.run(function, range(count), token)))


def cancelled() -> CancelToken:
    token = CancelToken()
    token.cancel()
    return token


def taken_at_once(workers: int) -> int:
    """Return how many items are taken before the first value is waited for."""
    seen: list[int] = []

    def items() -> Iterator[int]:
        for number in range(20):
            seen.append(number)
            yield number

    stream = ProcessPool(workers).run(twice, items())
    next(stream)
    stream.close()
    return len(seen)


NAMES_A_FILE = """\
railweave: 1
name: other
catalog: [parts.yaml]
cluster:
  servers: {model: dgx-h100, count: 4}
planes:
  backend: {transport: infiniband, topology: rail-optimized, switch: qm9700}
"""


def message(text: str, file: str = "a.yaml", *, files: bool = True) -> str:
    try:
        railweave.parse(text, file, files=files)
    except RailweaveError as error:
        return str(error)
    return ""


def summary(
    base: BuiltDesign,
    *,
    mtu: int | None = None,
    domains: bool = True,
    availability: bool = True,
) -> Any:
    backend = base.design.planes.backend.model_copy(update={"mtu": mtu})
    planes = base.design.planes.model_copy(update={"backend": backend})
    design = base.design.model_copy(update={"planes": planes})
    return build_summary(
        base.built,
        design,
        base.document.catalog,
        domains=domains,
        availability=availability,
    )


class _Thirsty:
    """A catalog whose servers draw so many times what they draw."""

    def __init__(self, catalog: Any, times: float) -> None:
        self._catalog, self._times = catalog, times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)

    def server(self, name: str) -> Any:
        part = self._catalog.server(name)
        return part.model_copy(update={"power_w": part.power_w * self._times})


def server_power(times: float) -> float:
    base = railweave.load(SMALL).build()
    catalog: Any = _Thirsty(base.document.catalog, times)
    return build_summary(base.built, base.design, catalog).power.servers_w


def run_through(fabric: Any, traffic: Any, routing: Any, **options: Any) -> Any:
    run = FlowRun(fabric, traffic, routing, **options)
    run.advance()
    return run.result()
