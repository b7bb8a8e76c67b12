import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minifabric import clos
from railweave.design.models import ALGORITHMS, Algorithm, Collective, Transport
from railweave.engine import simulate
from railweave.engine.analytic import collective_time, simulate_analytic
from railweave.errors import EngineError, InputError
from railweave.fabric import PlaneId
from railweave.fabric.routing import compile_routing
from railweave.workload import (
    CollectiveOptions,
    Communicator,
    TrafficBuilder,
    collective_traffic,
)

AR = Collective.ALL_REDUCE
PAIRS = [(op, algorithm) for op, choices in ALGORITHMS.items() for algorithm in choices]
B = 400e9 / 8


def network(**options):
    fabric = clos(**{"servers": 4, "gpus": 2, "spines": 2, **options})[0]
    return fabric, compile_routing(fabric, PlaneId.BACKEND, None, Transport.INFINIBAND)


def test_worked_example():
    result = collective_time(AR, Algorithm.RING, 4, 256_000_000, 100e9)
    assert (result.steps, result.bytes_sent_per_rank) == (6, 384_000_000)
    assert result.time_s == pytest.approx(30.72e-3, rel=1e-12)
    assert result.lower_bound_s == pytest.approx(30.72e-3, rel=1e-12)
    assert result.busbw_Bps == pytest.approx(100e9 / 8)
    assert result.algbw_Bps == pytest.approx(100e9 / 8 / 1.5)


@pytest.mark.parametrize(
    ("op", "algorithm", "expected"),
    [
        (AR, Algorithm.RING, 14 * (1e-6 + 8e6 / 8 / B)),
        (AR, Algorithm.HALVING_DOUBLING, 6 * 1e-6 + 2 * 7 / 8 * 8e6 / B),
        (Collective.ALL_GATHER, Algorithm.RING, 7 * (1e-6 + 8e6 / 8 / B)),
        (Collective.REDUCE_SCATTER, Algorithm.HALVING_DOUBLING, 3e-6 + 7 / 8 * 8e6 / B),
        (Collective.ALL_TO_ALL, Algorithm.DIRECT, 1e-6 + 7 / 8 * 8e6 / B),
        (Collective.SEND_RECV, Algorithm.DIRECT, 1e-6 + 8e6 / B),
        # 4 chunks of 2 MB down a chain of 7 hops
        (Collective.BROADCAST, Algorithm.RING, 7 * (1e-6 + 2e6 / B) + 3 * 2e6 / B),
    ],
)
def test_closed_forms_by_hand(op, algorithm, expected):
    options = CollectiveOptions(chunk_bytes=2_000_000)
    result = collective_time(op, algorithm, 8, 8_000_000, 400e9, 1e-6, options=options)
    assert result.time_s == pytest.approx(expected, rel=1e-12)
    assert result.explanation.value == result.time_s
    assert result.explanation.source
    assert result.explanation.inputs["size_bytes S"] == 8e6


def test_hierarchy_uses_the_faster_links_inside():
    result = collective_time(
        AR,
        Algorithm.HIERARCHICAL,
        16,
        16_000_000,
        400e9,
        ranks_per_server=8,
        inside_bandwidth_bps=3600e9,
    )
    inside, between = 2 * 7 / 8 * 16e6 / (450e9), 2 * 1 / 16 * 16e6 / B
    assert result.time_s == pytest.approx(inside + between)
    assert result.time_s >= result.lower_bound_s


@given(
    st.sampled_from(PAIRS),
    st.tuples(st.integers(1, 4), st.integers(1, 8)),
    st.integers(0, 2**32),
    st.floats(0, 1e-3),
    st.floats(1.0, 20.0),
)
@settings(max_examples=150, deadline=None)
def test_nothing_beats_the_lower_bound(pair, grid, size, latency, ratio):
    n = grid[0] * grid[1]
    if n < 2:
        return
    result = collective_time(
        *pair,
        n,
        size,
        400e9,
        latency,
        ranks_per_server=grid[1],
        inside_bandwidth_bps=400e9 * ratio,
    )
    assert result.time_s >= result.lower_bound_s * (1 - 1e-12)


def test_trees_win_on_small_and_rings_on_large_sizes():
    def time(algorithm, size):
        return collective_time(AR, algorithm, 256, size, 400e9, 5e-6).time_s

    assert time(Algorithm.TREE, 10_000) < time(Algorithm.RING, 10_000)
    assert time(Algorithm.TREE, 2**34) > time(Algorithm.RING, 2**34)


def test_bad_values_are_refused():
    with pytest.raises(InputError, match="bandwidth above 0"):
        collective_time(AR, None, 4, 1, 0.0)
    with pytest.raises(InputError, match="do not fill servers of 8"):
        collective_time(AR, Algorithm.HIERARCHICAL, 12, 1, 1e9, ranks_per_server=8)
    assert collective_time(AR, None, 4, 0, 1e9).algbw_Bps == 0


def test_a_single_message_takes_its_bottleneck_and_latency():
    fabric, routing = network(delay_s=1e-6)
    builder = TrafficBuilder()
    builder.plain(fabric.gpus[:1], fabric.gpus[2:3], [1e6], label="x", start_s=1.0, delay_s=0.5)
    result = simulate_analytic(fabric, builder.build(), routing)
    assert result.task_start_s[0] == 1.5
    assert result.task_finish_s[0] - 1.5 == pytest.approx(float(result.stream_ideal_s[0]))
    assert result.makespan_s == result.task_finish_s[0]
    assert result.bytes_sent == result.bytes_delivered > 1e6  # packet headers count


def test_streams_of_a_task_share_and_tasks_do_not():
    fabric, routing = network()
    gpu = fabric.gpus
    alone, together, apart = TrafficBuilder(), TrafficBuilder(), TrafficBuilder()
    alone.plain(gpu[:1], gpu[2:3], 4096e3, label="x")
    together.plain(gpu[[0, 0]], gpu[[2, 4]], 4096e3, label="x")
    for _ in range(2):
        apart.plain(gpu[:1], gpu[2:3], 4096e3, label="x")
    one, two, three = (
        simulate_analytic(fabric, b.build(), routing).makespan_s for b in (alone, together, apart)
    )
    assert two == pytest.approx(2 * one)
    assert three == one


def test_dependencies_delivered_and_sent():
    fabric, routing = network(delay_s=1e-3)
    gpu = fabric.gpus
    builder = TrafficBuilder()
    first = builder.plain(gpu[:1], gpu[2:3], 4e6, label="x")
    builder.plain(gpu[:1], gpu[2:3], 4e6, label="x", after=[first])
    builder.plain(gpu[:1], gpu[2:3], 4e6, label="x", after_sent=[first])
    wait = builder.barrier([first], label="x", delay_s=1.0)
    result = simulate_analytic(fabric, builder.build(), routing)
    ends = result.task_finish_s
    assert result.task_start_s[1] == ends[0]
    assert 0 < result.task_start_s[2] < ends[0] - 1e-3
    assert ends[wait] == ends[0] + 1.0


def test_a_ring_takes_rounds_times_chunk_and_latency():
    fabric, routing = network(servers=4, gpus=1, delay_s=2e-6)
    comm = Communicator.from_fabric(fabric, fabric.gpus)
    traffic = collective_traffic(AR, comm, 16e6)
    result = simulate_analytic(fabric, traffic, routing)
    assert result.makespan_s == pytest.approx(6 * float(result.stream_ideal_s[0]))
    assert result.makespan_s > 6 * 4e6 / B


@pytest.mark.parametrize(("op", "algorithm"), PAIRS)
def test_analytic_is_near_the_flow_engine_on_an_idle_network(op, algorithm):
    fabric, routing = network(servers=4, gpus=1, spines=1, delay_s=1e-7)
    comm = Communicator.from_fabric(fabric, fabric.gpus)
    traffic = collective_traffic(op, comm, 64e6, algorithm=algorithm, iterations=2)
    flow, analytic = (simulate(fabric, traffic, routing, name) for name in ("flow", "analytic"))
    assert analytic.makespan_s == pytest.approx(flow.makespan_s, rel=0.05)
    assert analytic.link_bytes == pytest.approx(flow.link_bytes, rel=1e-6)


def test_a_half_speed_link_slows_the_ring():
    fabric, routing = network(servers=4, gpus=1)
    traffic = collective_traffic(AR, Communicator.from_fabric(fabric, fabric.gpus), 16e6)
    before = simulate_analytic(fabric, traffic, routing).makespan_s
    nic_link = int(np.flatnonzero(fabric.link_layer == 2)[0]) // 2
    slow = simulate_analytic(fabric.with_capacity({nic_link: 0.5}), traffic, routing).makespan_s
    assert slow == pytest.approx(2 * before, rel=1e-6)


def test_waits_in_a_circle_are_reported():
    fabric, routing = network()
    builder = TrafficBuilder()
    builder.plain(fabric.gpus[:1], fabric.gpus[1:2], 1.0, label="loop", after=[0])
    with pytest.raises(EngineError, match="loop"):
        simulate_analytic(fabric, builder.build(check=False), routing)


def test_what_is_left_out_is_said():
    fabric, routing = network()
    traffic = collective_traffic(AR, Communicator.from_fabric(fabric, fabric.gpus), 1e6)
    result = simulate_analytic(fabric, traffic, routing)
    assert {"sharing", "pipelines"} <= {note.subject for note in result.assumptions}
    assert [e.quantity for e in result.explain()] == ["makespan", "longest task"]
    assert bool(np.isnan(result.link_peak).all())
