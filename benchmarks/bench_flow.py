"""The flow engine on real fabrics: rings, all-to-all, permutations.

Run with ``pytest benchmarks/bench_flow.py``; add ``-m "not slow"`` to leave out the largest.
"""

from __future__ import annotations

import numpy as np
import pytest

from designs import built, nic_link, peak_mib
from railweave.design.models import Collective, RoutingScheme, RoutingSpec
from railweave.engine.flow import FlowRun
from railweave.fabric import Fabric, LinkLayer, PlaneId
from railweave.fabric.routing import Routing, compile_routing
from railweave.workload import Communicator, Traffic, TrafficBuilder, collective_traffic

BACKEND = PlaneId.BACKEND


def routing_of(fabric: Fabric, scheme: str = "ecmp") -> Routing:
    return compile_routing(fabric, BACKEND, RoutingSpec(scheme=RoutingScheme(scheme)))


def ring(fabric: Fabric, channels: int | None = None, gib: int = 8) -> Traffic:
    comm = Communicator.from_fabric(fabric, fabric.gpus, channels=channels)
    return collective_traffic(Collective.ALL_REDUCE, comm, gib * 2**30)


def used_link(fabric: Fabric, run: FlowRun) -> int:
    """Return the duplex number of a NIC's link to its leaf that the first task crosses."""
    paths = run.input.paths
    first = paths.link[: paths.ptr[run.input.task_flow[1]]]
    return int(first[fabric.link_layer[first] == LinkLayer.HOST_LEAF][0]) // 2


@pytest.mark.parametrize("channels", [1, 8])
@pytest.mark.parametrize("gib", [1, 8])
@pytest.mark.parametrize("degraded", [False, True])
def test_ring_all_reduce_of_16384(benchmark, channels, gib, degraded):
    """Chunks of 8 GiB keep the NICs busy; those of 1 GiB on 8 channels mostly wait for latency."""
    whole = built(2048).fabric
    work, routing = ring(whole, channels, gib), routing_of(whole, "destination")
    healthy = FlowRun(whole, work, routing)
    healthy.advance()
    slow = whole.with_capacity({used_link(whole, healthy): 0.5})

    def simulate():
        run = FlowRun(slow if degraded else whole, work, routing)
        run.advance()
        return run.result()

    result = benchmark.pedantic(simulate, rounds=1)
    benchmark.extra_info.update(makespan_s=result.makespan_s, events=result.events)
    assert result.finished
    assert benchmark.stats.stats.min <= 5.0
    before, after = healthy.result().task_finish_s[0], result.task_finish_s[0]
    if not degraded:
        assert after == before
    elif channels == 1 or gib == 8:  # busy: the slow link sets the pace
        assert 1.8 < after / before < 2.1
    else:  # in almost two turns a chunk crosses it twice, behind the others of its server at most
        chunk_s = float(np.max(healthy.input.flow_bytes)) / 50e9
        assert chunk_s <= after - before <= 2 * 8 * chunk_s


def test_half_a_link_slows_the_ring():
    whole = built(127).fabric
    slow = whole.with_capacity({nic_link(whole, 0): 0.5})
    work, routing = ring(whole), routing_of(whole, "destination")
    times = []
    for fabric in (whole, slow):
        run = FlowRun(fabric, work, routing)
        run.advance()
        times.append(run.result().makespan_s)
    assert 1.8 < times[1] / times[0] < 2.1


def all_to_all(fabric: Fabric, nics: int, low: float, high: float) -> Traffic:
    ends = fabric.nics(BACKEND)[:nics]
    src, dst = np.repeat(ends, nics), np.tile(ends, nics)
    keep = src != dst
    size = np.random.default_rng(7).uniform(low, high, int(keep.sum()))
    builder = TrafficBuilder()
    builder.plain(src[keep], dst[keep], size, label="all-to-all")
    return builder.build()


#: rates may lag by this much; every message then ends within 1 % of its exact time (see below)
TOLERANCE = 0.005
CASES = [
    pytest.param(256, 0.0, 20.0, None, id="256-exact"),
    pytest.param(256, TOLERANCE, 4.0, None, id="256-within-1-percent"),
    pytest.param(1024, TOLERANCE, 60.0, 3072, id="1024-within-1-percent", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("nics", "tolerance", "most_s", "most_mib"), CASES)
def test_all_to_all(benchmark, nics, tolerance, most_s, most_mib):
    fabric = built(128).fabric
    work, routing = all_to_all(fabric, nics, 1e6, 2e6), routing_of(fabric)

    def simulate():
        run = FlowRun(fabric, work, routing, tolerance=tolerance)
        run.advance()
        return run.result()

    result = benchmark.pedantic(simulate, rounds=1)
    benchmark.extra_info.update(events=result.events, peak_mib=peak_mib())
    assert result.finished
    assert benchmark.stats.stats.min <= most_s
    assert most_mib is None or peak_mib() <= most_mib


def test_tolerance_keeps_every_message_within_1_percent():
    fabric = built(128).fabric
    work, routing = all_to_all(fabric, 256, 1e6, 2e6), routing_of(fabric)
    ends = []
    for tolerance in (0.0, TOLERANCE):
        run = FlowRun(fabric, work, routing, tolerance=tolerance)
        run.advance()
        ends.append(run.result().stream_finish_s)
    assert np.max(np.abs(ends[1] / ends[0] - 1)) <= 0.01


def test_permutation_of_1024(benchmark):
    fabric = built(128).fabric
    ends = fabric.nics(BACKEND)
    builder = TrafficBuilder()
    builder.plain(ends, np.roll(ends, -257), 1e6, label="permutation")
    work, routing = builder.build(), routing_of(fabric)

    def simulate():
        run = FlowRun(fabric, work, routing)
        run.advance()
        return run.result()

    assert benchmark.pedantic(simulate, rounds=3).finished
