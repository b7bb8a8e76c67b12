"""The flow engine over routed fabrics: what is known beforehand must come out."""

import math
import signal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minifabric import Mini, clos
from railweave.design.models import RoutingScheme, RoutingSpec, Transport
from railweave.engine import simulate
from railweave.engine.flow import FlowRun, simulate_flow
from railweave.errors import EngineError, InputError
from railweave.fabric import LinkLayer, NodeKind, PlaneId
from railweave.fabric.routing import RoutingSet, compile_routing
from railweave.fabric.wire import framing, wire_bytes
from railweave.workload import DELIVERED, Traffic

ROCE = framing(Transport.ROCEV2)
LINE_BPS = 400e9 / 8


def routing_of(fabric, scheme=RoutingScheme.ECMP, seed=0, **options):
    return compile_routing(
        fabric, PlaneId.BACKEND, RoutingSpec(scheme=scheme, **options), Transport.ROCEV2, seed
    )


def traffic(src, dst, size, **other):
    """One plain task with these streams."""
    n = len(src)
    base = {
        "src": np.asarray(src, dtype=np.int32),
        "dst": np.asarray(dst, dtype=np.int32),
        "chunk_bytes": np.broadcast_to(np.asarray(size, dtype=np.float64), n).copy(),
        "chunk_delay_s": np.zeros(n),
        "queue_pairs": np.ones(n, dtype=np.int32),
        "task_stream": np.array([0, n], dtype=np.int64),
        "task_rounds": np.ones(1, dtype=np.int32),
        "task_start_s": np.zeros(1),
        "task_delay_s": np.zeros(1),
        "task_label": np.zeros(1, dtype=np.int32),
        "dep_ptr": np.zeros(2, dtype=np.int64),
        "dep_task": np.zeros(0, dtype=np.int32),
        "dep_kind": np.zeros(0, dtype=np.uint8),
        "pred_ptr": np.zeros(n + 1, dtype=np.int64),
        "pred_stream": np.zeros(0, dtype=np.int32),
        "pred_lag": np.zeros(0, dtype=np.int32),
        "labels": ("test",),
    }
    return Traffic(**{**base, **other})


def ring(nodes, chunk, rounds, delay=None):
    """A ring: stream i waits for what its left neighbour sent in the round before."""
    n = len(nodes)
    return traffic(
        nodes,
        np.roll(nodes, -1),
        chunk,
        chunk_delay_s=np.zeros(n) if delay is None else np.asarray(delay, dtype=np.float64),
        task_rounds=np.array([rounds], dtype=np.int32),
        pred_ptr=np.arange(n + 1, dtype=np.int64),
        pred_stream=np.roll(np.arange(n, dtype=np.int32), 1),
        pred_lag=np.ones(n, dtype=np.int32),
    )


def rail_nodes(names, servers, rail=0):
    return np.array([names[f"server-{s}:gpu-{rail}"] for s in range(servers)], dtype=np.int32)


def test_one_message_takes_its_wire_time_and_latency():
    fabric, names = clos(delay_s=1e-6)
    size = 1e6
    work = traffic([names["server-0:gpu-0"]], [names["server-1:gpu-1"]], size)
    result = simulate_flow(fabric, work, routing_of(fabric))
    expected = float(wire_bytes(size, ROCE)) / LINE_BPS + 4e-6
    assert result.makespan_s == pytest.approx(expected, rel=1e-12)
    assert result.stream_ideal_s[0] == pytest.approx(expected, rel=1e-12)
    assert result.stream_slowdown[0] == pytest.approx(1.0, rel=1e-12)
    assert (
        result.bytes_sent == result.bytes_delivered == pytest.approx(float(wire_bytes(size, ROCE)))
    )
    assert result.finished
    assert result.bytes_in_flight == 0


def test_inside_a_server_only_payload_counts():
    fabric, names = clos()
    work = traffic([names["server-0:gpu-0"]], [names["server-0:gpu-1"]], 1e6)
    result = simulate_flow(fabric, work, routing_of(fabric))
    assert result.makespan_s == pytest.approx(1e6 / (3600e9 / 8), rel=1e-12)


@pytest.mark.parametrize("servers", [2, 3, 6])
def test_ring_on_a_full_fabric_is_the_closed_form(servers):
    fabric, names = clos(servers=servers, gpus=1, spines=0, leaves=1)
    rounds, chunk = 2 * (servers - 1), 1e6
    result = simulate_flow(
        fabric, ring(rail_nodes(names, servers), chunk, rounds), routing_of(fabric)
    )
    expected = rounds * float(wire_bytes(chunk, ROCE)) / LINE_BPS
    assert result.makespan_s == pytest.approx(expected, rel=1e-9)
    np.testing.assert_allclose(result.stream_slowdown, 1.0, rtol=1e-9)


def degraded(fabric, names, node, factor):
    link = np.flatnonzero(
        (fabric.link_src == names[node]) & (fabric.link_layer == LinkLayer.HOST_LEAF)
    )
    return fabric.with_capacity({int(link[0]) // 2: factor})


@settings(max_examples=25, deadline=None)
@given(
    servers=st.integers(2, 6),
    rounds=st.integers(2, 9),
    chunk=st.floats(1e3, 1e7),
    factor=st.sampled_from([1.0, 0.5, 0.3]),
    straggle=st.sampled_from([0.0, 3e-6, 1e-3]),
    delay=st.sampled_from([0.0, 1e-6]),
)
def test_compressed_and_expanded_agree(*, servers, rounds, chunk, factor, straggle, delay):
    fabric, names = clos(servers=servers, gpus=1, spines=2, leaves=2, delay_s=delay)
    fabric = degraded(fabric, names, "server-0:nic-0", factor)
    delays = np.zeros(servers)
    delays[servers // 2] = straggle
    work = ring(rail_nodes(names, servers), chunk, rounds, delays)
    routing = routing_of(fabric)
    short = simulate_flow(fabric, work, routing)
    long = simulate_flow(fabric, work.expand(), routing)
    assert short.makespan_s == pytest.approx(long.makespan_s, rel=1e-9)
    np.testing.assert_allclose(short.link_bytes, long.link_bytes, rtol=1e-9)
    last = long.task_finish_s.reshape(servers, rounds)[:, -1]
    np.testing.assert_allclose(np.sort(short.stream_finish_s), np.sort(last), rtol=1e-9)


def test_a_slow_link_and_a_straggler_slow_the_whole_ring():
    fabric, names = clos(servers=4, gpus=1, spines=0, leaves=1)
    nodes, rounds, chunk = rail_nodes(names, 4), 6, 4e6
    base = simulate_flow(fabric, ring(nodes, chunk, rounds), routing_of(fabric)).makespan_s
    slow = degraded(fabric, names, "server-1:nic-0", 0.5)
    half = simulate_flow(slow, ring(nodes, chunk, rounds), routing_of(slow)).makespan_s
    # The others run ahead by one chunk at most: all but the edges of the run goes at half speed.
    assert 1.8 * base < half <= 2.0 * base * (1 + 1e-12)
    late = simulate_flow(fabric, ring(nodes, chunk, rounds, [0, 1e-3, 0, 0]), routing_of(fabric))
    assert late.makespan_s > base + 2e-3


def all_to_all(names, servers, size):
    nodes = rail_nodes(names, servers)
    src, dst = np.repeat(nodes, servers), np.tile(nodes, servers)
    keep = src != dst
    return traffic(src[keep], dst[keep], size)


def test_all_to_all_on_a_star_is_bound_by_the_nic():
    fabric, names = clos(servers=8, gpus=1, spines=0, leaves=1)
    result = simulate_flow(fabric, all_to_all(names, 8, 1e6), routing_of(fabric))
    assert result.makespan_s == pytest.approx(7 * float(wire_bytes(1e6, ROCE)) / LINE_BPS, rel=1e-9)
    used = result.link_utilisation[fabric.link_layer == LinkLayer.HOST_LEAF]
    np.testing.assert_allclose(used, 1.0, rtol=1e-9)


def two_flows(names):
    src = [names["server-0:gpu-0"], names["server-1:gpu-0"]]
    dst = [names["server-2:gpu-0"], names["server-3:gpu-0"]]
    return traffic(src, dst, 8e6)


def seeds_with(fabric, work, same):
    for seed in range(64):
        paths = routing_of(fabric, seed=seed).paths(work.src, work.dst)
        up = paths.link[paths.ptr[:-1] + 2]
        if (up[0] == up[1]) == same:
            return seed
    raise AssertionError("no such seed")


def test_colliding_flows_halve_and_spraying_restores():
    fabric, names = clos(servers=4, gpus=1, spines=2, leaves=2)
    work = two_flows(names)
    alone = float(wire_bytes(8e6, ROCE)) / LINE_BPS
    hit = simulate_flow(fabric, work, routing_of(fabric, seed=seeds_with(fabric, work, True)))
    miss = simulate_flow(fabric, work, routing_of(fabric, seed=seeds_with(fabric, work, False)))
    np.testing.assert_allclose(hit.stream_slowdown, 2.0, rtol=1e-9)
    np.testing.assert_allclose(miss.stream_slowdown, 1.0, rtol=1e-9)
    seed = seeds_with(fabric, work, True)
    for scheme in (RoutingScheme.SPRAY, RoutingScheme.ADAPTIVE, RoutingScheme.STATIC):
        fixed = simulate_flow(fabric, work, routing_of(fabric, scheme, seed=seed))
        assert fixed.makespan_s == pytest.approx(alone, rel=1e-9), scheme


def test_more_queue_pairs_and_flowlets_soften_collisions():
    fabric, names = clos(servers=8, gpus=4, spines=8, leaves=2)
    src = [names[f"server-{s}:gpu-{g}"] for s in range(4) for g in range(4)]
    dst = [names[f"server-{s + 4}:gpu-{g}"] for s in range(4) for g in range(4)]
    work = traffic(src, dst, 8e6)

    def time(scheme, **options):
        runs = [
            simulate_flow(fabric, work, routing_of(fabric, scheme, seed, **options)).makespan_s
            for seed in range(4)
        ]
        return np.mean(runs)

    plain = time("ecmp")
    assert time("e-ecmp", queue_pairs=16) < plain
    assert time("flowlet", flowlets=16) < plain
    assert time("adaptive") <= time("ecmp")


def test_failures_reroute_and_cost_time():
    fabric, names = clos(servers=4, gpus=2, spines=2, leaves=2)
    src = [names[f"server-{s}:gpu-{g}"] for s in (0, 1) for g in (0, 1)]
    dst = [names[f"server-{s}:gpu-{g}"] for s in (2, 3) for g in (0, 1)]
    work = traffic(src, dst, 8e6)
    routing = routing_of(fabric, RoutingScheme.SPRAY)
    whole = simulate_flow(fabric, work, routing)
    half = simulate_flow(fabric.without(nodes=[names["spine-0-1"]]), work, routing)
    assert half.makespan_s == pytest.approx(2 * whole.makespan_s, rel=1e-9)


def test_what_cannot_be_routed_is_refused_or_counted():
    fabric, names = clos(servers=2, gpus=2, spines=1)
    lamed = fabric.without(nodes=[names["spine-0-0"], names["hub-0"], names["hub-1"]])
    a, b = names["server-0:gpu-0"], names["server-1:gpu-1"]
    work = traffic([a, a], [b, names["server-1:gpu-0"]], 1e6)
    with pytest.raises(EngineError, match=r"1 of 2 streams cannot be routed(.|\n)*gpu 0 → gpu 3"):
        simulate_flow(lamed, work, routing_of(fabric))
    out = r"spine-\S+.* out, 1 of 2 .*1 of 3 ranks have no way out"
    with pytest.raises(EngineError, match=out):
        simulate_flow(lamed, work, routing_of(fabric))
    result = simulate_flow(lamed, work, routing_of(fabric), allow_unroutable=True)
    wire = float(wire_bytes(1e6, ROCE))
    assert result.unroutable_streams == 1
    assert result.bytes_dropped == pytest.approx(wire)
    assert result.bytes_sent == pytest.approx(2 * wire)
    assert result.bytes_delivered == pytest.approx(wire)
    assert [f.id for f in result.findings] == ["streams-unroutable"]
    assert math.isnan(result.stream_slowdown[0])
    assert math.isnan(result.stream_finish_s[0])
    assert result.stream_slowdown[1] == pytest.approx(1.0)


def test_streams_of_several_queue_pairs_wait_for_each_other():
    fabric, names = clos(servers=4, gpus=1, spines=0, leaves=1)
    nodes = rail_nodes(names, 4)
    work = ring(nodes, 4e6, 6)
    one = simulate_flow(fabric, work, routing_of(fabric))
    four = simulate_flow(fabric, work, routing_of(fabric, queue_pairs=4))
    # Splitting adds the headers of a few short packets and nothing else.
    assert four.makespan_s == pytest.approx(one.makespan_s, rel=1e-3)
    assert four.paths.n_flows == 16


def test_tasks_follow_each_other_with_delays():
    fabric, names = clos(servers=3, gpus=1, spines=0, leaves=1)
    a, b, c = rail_nodes(names, 3)
    work = traffic(
        [a, b],
        [b, c],
        1e6,
        task_stream=np.array([0, 1, 2], dtype=np.int64),
        task_rounds=np.ones(2, dtype=np.int32),
        task_start_s=np.array([1e-3, 0.0]),
        task_delay_s=np.array([0.0, 2e-3]),
        task_label=np.zeros(2, dtype=np.int32),
        dep_ptr=np.array([0, 0, 1], dtype=np.int64),
        dep_task=np.array([0], dtype=np.int32),
        dep_kind=np.array([DELIVERED], dtype=np.uint8),
    )
    result = simulate_flow(fabric, work, routing_of(fabric))
    each = float(wire_bytes(1e6, ROCE)) / LINE_BPS
    np.testing.assert_allclose(result.task_finish_s, [1e-3 + each, 3e-3 + 2 * each], rtol=1e-12)
    assert result.frame()["duration_s"].to_list() == pytest.approx([each, each])


def test_streaming_equals_running_through():
    fabric, names = clos(servers=6, gpus=1, spines=2, leaves=2)
    rng = np.random.default_rng(5)
    work = all_to_all(names, 6, rng.uniform(1e5, 1e6, 30))
    routing = routing_of(fabric)
    whole = simulate_flow(fabric, work, routing)
    run = FlowRun(fabric, work, routing)
    seen = []
    while not run.advance(run.now_s + whole.makespan_s / 6.5):
        part = run.result()
        assert not part.finished
        assert part.bytes_sent == pytest.approx(float(wire_bytes(work.chunk_bytes, ROCE).sum()))
        assert 0 < part.bytes_delivered < part.bytes_sent
        seen.append(run.fraction)
    assert seen == sorted(seen)
    assert 0 < seen[0] < seen[-1] < 1
    np.testing.assert_allclose(run.result().stream_finish_s, whole.stream_finish_s, rtol=1e-12)


@pytest.mark.parametrize("kind", ["all-to-all", "ring"])
def test_link_load_is_that_since_the_last_look(kind):
    fabric, names = clos(servers=4, gpus=1, spines=0, leaves=1)
    work = all_to_all(names, 4, 1e6)
    if kind == "ring":
        work = ring(rail_nodes(names, 4), 1e6, 6)
    run = FlowRun(fabric, work, routing_of(fabric))
    used = fabric.link_layer == LinkLayer.HOST_LEAF
    assert run.link_load().max() == 0
    run.advance(1e-5)
    np.testing.assert_allclose(run.link_load()[used], 1.0)
    assert run.advance()
    np.testing.assert_allclose(run.link_load()[used], 1.0)


def test_progress_does_not_change_bits_and_may_stop():
    fabric, names = clos(servers=6, gpus=1, spines=2, leaves=2)
    rng = np.random.default_rng(6)
    work = all_to_all(names, 6, rng.uniform(1e5, 1e6, 30))
    seen = []
    told = simulate_flow(fabric, work, routing_of(fabric), progress=seen.append)
    untold = simulate_flow(fabric, work, routing_of(fabric))
    assert told.stream_finish_s.tobytes() == untold.stream_finish_s.tobytes()
    assert told.link_bytes.tobytes() == untold.link_bytes.tobytes()
    assert seen[-1] == pytest.approx(1.0)

    def stop(_):
        raise InterruptedError

    with pytest.raises(InterruptedError):
        simulate_flow(fabric, work, routing_of(fabric), progress=stop)


def test_until_stops_in_the_middle():
    fabric, names = clos(servers=2, gpus=1, spines=0, leaves=1)
    work = traffic([names["server-0:gpu-0"]], [names["server-1:gpu-0"]], 1e9)
    result = simulate_flow(fabric, work, routing_of(fabric), until_s=1e-3)
    assert not result.finished
    assert math.isnan(result.task_finish_s[0])
    assert result.makespan_s == pytest.approx(1e-3)
    assert result.bytes_delivered == pytest.approx(1e-3 * LINE_BPS)
    assert result.bytes_delivered + result.bytes_in_flight == pytest.approx(result.bytes_sent)


def test_result_says_what_it_rests_on():
    fabric, _ = clos()
    work = traffic(fabric.gpus[:1], fabric.gpus[5:6], 1e6)
    result = simulate(fabric, work, routing_of(fabric), engine="flow")
    assert {a.subject for a in result.assumptions} >= {"sharing", "latency", "wire bytes"}
    assert [e.quantity for e in result.explain()] == ["makespan", "slowdown p50", "slowdown p99"]
    busy = result.explain()[0].inputs
    assert busy["busiest link time_s"] <= result.makespan_s * (1 + 1e-12)
    with pytest.raises(InputError, match="analytic, flow"):
        simulate(fabric, work, routing_of(fabric), engine="magic")


def test_ctrl_c_ends_a_run():
    fabric, names = clos(servers=96, gpus=1, spines=8, leaves=8)
    rng = np.random.default_rng(8)
    work = all_to_all(names, 96, rng.uniform(1e5, 1e6, 96 * 95))
    run = FlowRun(fabric, work, routing_of(fabric))

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    try:
        with pytest.raises(KeyboardInterrupt):
            run.advance()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    with pytest.raises(EngineError, match="build it anew"):
        run.advance()


def test_streams_of_several_planes_run_together():
    mini = Mini()
    planes = (PlaneId.BACKEND, PlaneId.STORAGE)
    leaf = {p: mini.node(f"leaf{p}", NodeKind.SWITCH, 1, plane=p) for p in planes}
    ends = {}
    for k in range(2):
        gpu = mini.node(f"gpu{k}", NodeKind.GPU, server=k)
        host = mini.node(f"host{k}", NodeKind.HOST, server=k)
        for p, node in ((PlaneId.BACKEND, gpu), (PlaneId.STORAGE, host)):
            nic = mini.node(f"nic{k}{p}", NodeKind.NIC, plane=p, server=k)
            mini.link(node, nic, 500, LinkLayer.PCIE)
            mini.link(
                nic, leaf[p], 400 if p == PlaneId.BACKEND else 100, LinkLayer.HOST_LEAF, plane=p
            )
            ends[p, k] = node
    fabric = mini.build()
    kinds = {PlaneId.BACKEND: Transport.ROCEV2, PlaneId.STORAGE: Transport.TCP}
    routing = RoutingSet({p: compile_routing(fabric, p, None, kinds[p]) for p in planes})
    work = traffic(
        [ends[p, 0] for p in planes],
        [ends[p, 1] for p in planes],
        1e6,
        stream_plane=np.array(planes, dtype=np.int8),
    )
    result = simulate_flow(fabric, work, routing)
    expected = [
        float(wire_bytes(1e6, ROCE)) / LINE_BPS,
        float(wire_bytes(1e6, framing(Transport.TCP))) / (LINE_BPS / 4),
    ]
    np.testing.assert_allclose(result.stream_finish_s, expected, rtol=1e-12)
    with pytest.raises(InputError, match="storage plane, which the design does not have"):
        simulate_flow(fabric, work, routing.planes[PlaneId.BACKEND])
