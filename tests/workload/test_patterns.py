"""Traffic patterns: what a step sends, by closed form and in its traffic; their plain network."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.catalog import default_catalog
from railweave.design.models import (
    ALGORITHMS,
    Algorithm,
    Collective,
    PlacementName,
    Recompute,
)
from railweave.engine.analytic import simulate_analytic
from railweave.engine.flow import simulate_flow
from railweave.errors import InputError
from railweave.fabric import LinkLayer
from railweave.workload import Communicator, Degrees, TrafficBuilder, collective_traffic
from railweave.workload.patterns import (
    MOST_GPUS,
    PatternCase,
    Strategy,
    expert_messages,
    pattern_network,
    pattern_ranks,
    pattern_traffic,
    pattern_volume,
    plain_network,
)
from railweave.workload.training import TrainingStep, step_volume

EXPERT = Strategy.EXPERT


def traffic_of(case: PatternCase, **options):
    return pattern_traffic(case, Communicator.flat(case.gpus), **options)


def sent(traffic, n: int) -> np.ndarray:
    return np.bincount(traffic.src, traffic.stream_bytes, minlength=n)


# ---------------------------------------------------------------- the case


def test_defaults_are_those_of_the_lab():
    volume = pattern_volume(PatternCase())
    assert volume.bytes_sent_per_gpu == 384_000_000
    assert volume.total_bytes == 4 * 384_000_000
    assert volume.steps == 6
    assert volume.parts[0].collective is Collective.ALL_REDUCE
    assert volume.parts[0].algorithm is Algorithm.RING


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"gpus": 1}, "gpus: 1 is not allowed; give 2 to 1,024"),
        ({"gpus": MOST_GPUS + 1}, "give 2 to 1,024"),
        ({"payload_bytes": 0}, "payload: 0 B"),
        ({"exchanges": 0}, "exchanges: 0"),
        ({"link_bps": 0.0}, "link speed: 0 b/s"),
        ({"link_bps": float("nan")}, "link speed: nan"),
        ({"latency_s": -1.0}, "latency: -1 s"),
        ({"gpus_per_server": 0}, "GPUs per server: 0"),
        ({"servers_per_leaf": 0}, "servers per leaf: 0"),
        ({"scale_up_bps": 0.0}, "scale-up speed"),
        ({"scale_up_latency_s": -1.0}, "scale-up latency"),
        ({"servers": 3}, "servers: 3 is not allowed; give 4 to"),
        ({"strategy": EXPERT, "skew": 1.5}, "skew: 1.5"),
        ({"skew": 0.5}, "data parallelism has none"),
        ({"algorithm": Algorithm.DIRECT}, "direct cannot do all-reduce"),
        ({"strategy": Strategy.PIPELINE, "algorithm": Algorithm.RING}, "send to each other"),
        (
            {"strategy": EXPERT, "skew": 0.5, "algorithm": Algorithm.RAIL_ALIGNED},
            "rail-aligned exchanges are uniform",
        ),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(fields, text):
    with pytest.raises(InputError, match=text):
        PatternCase(**fields)


# ---------------------------------------------------------------- traffic


def cases() -> st.SearchStrategy[PatternCase]:
    def build(strategy: Strategy, gpus: int, times: int, skew: float, pick: int) -> PatternCase:
        op = PatternCase(strategy).collective
        choices = [a for a in ALGORITHMS[op] if a is not Algorithm.HIERARCHICAL] if op else [None]
        algorithm = choices[pick % len(choices)]
        skew = skew if strategy is EXPERT and algorithm is Algorithm.DIRECT else 0.0
        return PatternCase(strategy, gpus, 840_000, exchanges=times, skew=skew, algorithm=algorithm)

    return st.builds(
        build,
        st.sampled_from(list(Strategy)),
        st.integers(2, 17),
        st.integers(1, 3),
        st.sampled_from([0.0, 0.25, 1.0]),
        st.integers(0, 5),
    )


@given(cases())
@settings(max_examples=120, deadline=None)
def test_traffic_sends_what_the_closed_form_says(case):
    volume = pattern_volume(case)
    bytes_sent = sent(traffic_of(case), case.gpus)
    assert bytes_sent.max() == pytest.approx(volume.bytes_sent_per_gpu)
    assert bytes_sent.sum() == pytest.approx(volume.total_bytes)


@pytest.mark.parametrize("strategy", [Strategy.DATA, Strategy.TENSOR])
def test_reductions_are_the_collective_itself(strategy):
    case = PatternCase(strategy, 6, algorithm=Algorithm.TREE)
    mine, plain = (
        traffic_of(case),
        collective_traffic(
            Collective.ALL_REDUCE, Communicator.flat(6), 256e6, algorithm=Algorithm.TREE
        ),
    )
    for field in ("src", "dst", "chunk_bytes", "task_rounds", "pred_stream", "pred_lag"):
        assert np.array_equal(getattr(mine, field), getattr(plain, field)), field


def test_uniform_experts_are_two_all_to_alls():
    traffic = traffic_of(PatternCase(EXPERT, 5))
    once = collective_traffic(Collective.ALL_TO_ALL, Communicator.flat(5), 256e6)
    assert np.array_equal(traffic.src, np.tile(once.src, 2))
    assert np.array_equal(traffic.dst, np.tile(once.dst, 2))
    assert np.array_equal(traffic.chunk_bytes, np.tile(once.chunk_bytes, 2))
    for dispatch in (True, False):
        src, dst, size = expert_messages(PatternCase(EXPERT, 5), dispatch=dispatch)
        assert np.array_equal(src, once.src)
        assert np.array_equal(dst, once.dst)
        assert size == pytest.approx(once.chunk_bytes)


@given(st.integers(2, 16), st.sampled_from([1, 2, 4, 8]), st.integers(1, 4), st.booleans())
@settings(max_examples=25, deadline=None)
def test_context_rings_send_what_a_training_step_does(context, tensor, micro_batches, full):
    shape = default_catalog().model("llama3-8b")
    sequence = 512 * context
    degrees = Degrees(tensor, 1, 1, 1, context)
    step = TrainingStep(shape, degrees, micro_batches, 2, sequence=sequence)
    # keys and values of 2 whole sequences in one layer, in 2 bytes each, split over tensor ranks
    size = 2 * 2 * 2 * sequence * shape.kv_heads * shape.width_per_head // tensor
    case = PatternCase(Strategy.CONTEXT, context, size, exchanges=shape.layers * micro_batches)
    volume = pattern_volume(case)
    assert volume.bytes_sent_per_gpu == pytest.approx(float(step_volume(step).context_bytes[0]))
    assert volume.formula == "3·E·((n-1)/n·S)"
    assert [part.collective.value for part in volume.parts] == [
        "all-gather", "all-gather", "reduce-scatter",
    ]  # fmt: skip
    if full:  # recomputation gathers once more
        more = replace(step, recompute=Recompute.FULL)
        assert float(step_volume(more).context_bytes[0]) == pytest.approx(
            volume.bytes_sent_per_gpu * 4 / 3
        )


def test_context_talks_to_one_neighbour():
    traffic = traffic_of(PatternCase(Strategy.CONTEXT, 5, 1_000_000, exchanges=2))
    assert ((traffic.dst - traffic.src) % 5 == 1).all()
    assert sent(traffic, 5) == pytest.approx([2 * 3 * 4 / 5 * 1e6] * 5)


def test_a_hot_rank_gets_its_share_and_gives_it_back():
    case = PatternCase(EXPERT, 4, 1_000_000, skew=0.4)
    src, dst, size = expert_messages(case, dispatch=True)
    got = np.bincount(dst, size)
    assert got[0] == pytest.approx(3 * 1e6 * (0.4 + 0.6 / 4))
    assert got[1:] == pytest.approx([3 * 1e6 * 0.6 / 4] * 3)
    back = expert_messages(case, dispatch=False)
    assert np.bincount(back[0], back[2]) == pytest.approx(got)
    whole = PatternCase(EXPERT, 4, 1_000_000, skew=1.0)
    assert set(expert_messages(whole, dispatch=True)[1].tolist()) == {0}
    assert src.size == 12


def test_a_pipeline_talks_to_neighbours_only():
    for times in (1, 3):
        traffic = traffic_of(PatternCase(Strategy.PIPELINE, 5, exchanges=times))
        assert (np.abs(traffic.src - traffic.dst) == 1).all()
        assert traffic.total_bytes == 2 * 4 * times * 256e6


def test_another_number_of_ranks_is_refused():
    with pytest.raises(InputError, match="ranks: 3 are given for a case of 4"):
        pattern_traffic(PatternCase(), Communicator.flat(3))


def test_exchanges_follow_each_other():
    case = PatternCase(Strategy.TENSOR, 4, 1_000_000, exchanges=5, latency_s=3e-6)
    net = pattern_network(case)
    comm = pattern_ranks(case, net.fabric)
    times = [
        simulate_flow(net.fabric, pattern_traffic(case, comm, exchanges=k), net.routing).makespan_s
        for k in (1, None)
    ]
    assert times[1] == pytest.approx(5 * times[0], rel=1e-9)


# ---------------------------------------------------------------- messages by block


@given(
    servers=st.integers(2, 6),
    gpus=st.sampled_from([1, 2, 4]),
    skew=st.sampled_from([0.0, 0.3, 1.0]),
    dispatch=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_blocks_change_no_rank_s_bytes(servers, gpus, skew, dispatch):
    n = 2 * servers * gpus
    case = PatternCase(EXPERT, n, 960_000, skew=skew)
    blocks = np.arange(n) // (2 * gpus)
    whole = expert_messages(case, dispatch=dispatch)
    joined = expert_messages(case, dispatch=dispatch, blocks=blocks)
    for end in (0, 1):
        expected = np.bincount(whole[end], whole[2], minlength=n)
        found = np.bincount(joined[end], joined[2], minlength=n)
        assert found == pytest.approx(expected)
    assert len(joined[0]) <= len(whole[0]) + n


def test_blocks_load_every_link_alike():
    case = PatternCase(EXPERT, 64, 64_000_000, gpus_per_server=4, servers_per_leaf=4)
    net = pattern_network(case)
    comm = pattern_ranks(case, net.fabric)
    whole = simulate_analytic(net.fabric, pattern_traffic(case, comm), net.routing)
    traffic = pattern_traffic(case, comm, blocks=comm.order)
    joined = simulate_analytic(net.fabric, traffic, net.routing)
    assert joined.link_bytes == pytest.approx(whole.link_bytes)
    assert joined.makespan_s == pytest.approx(whole.makespan_s)
    assert traffic.n_streams < 2 * 64 * 63 / 3


# ---------------------------------------------------------------- the plain network


def one_message(net, src: int, dst: int, size: float) -> float:
    builder = TrafficBuilder()
    builder.plain(net.fabric.gpus[src], net.fabric.gpus[dst], size, label="one")
    return simulate_flow(net.fabric, builder.build(), net.routing).makespan_s


def test_a_message_costs_its_bytes_and_one_latency():
    net = plain_network(
        4,
        2,
        link_bps=80e9,
        latency_s=1e-3,
        servers_per_leaf=2,
        scale_up_bps=800e9,
        scale_up_latency_s=1e-4,
    )
    assert one_message(net, 0, 1, 10e6) == pytest.approx(1e-4 + 1e-4)  # inside the server
    assert one_message(net, 0, 2, 10e6) == pytest.approx(1e-3 + 1e-3)  # under the leaf
    assert one_message(net, 0, 6, 10e6) == pytest.approx(1e-3 + 1e-3)  # over the spine


def test_scale_up_latency_is_the_network_s_where_not_given():
    net = plain_network(1, 2, link_bps=80e9, latency_s=1e-3, scale_up_bps=80e9)
    assert one_message(net, 0, 1, 10e6) == pytest.approx(2e-3)


def test_nothing_but_nics_limits():
    net = plain_network(6, 1, link_bps=100e9, servers_per_leaf=2)
    fabric = net.fabric
    up = fabric.link_layer == LinkLayer.LEAF_SPINE
    assert fabric.link_capacity_bps[up].tolist() == [200e9] * 6
    assert len(fabric.switches(0, 1)) == 3
    assert len(fabric.switches(0, 2)) == 1
    assert fabric.link_src_port[fabric.link_layer >= LinkLayer.HOST_LEAF].min() == 1


def test_placement_takes_servers_in_turn():
    case = PatternCase(gpus=4, gpus_per_server=4, servers=4, placement=PlacementName.SPREAD)
    fabric = pattern_network(case).fabric
    assert sorted(fabric.node_server[pattern_ranks(case, fabric).nodes].tolist()) == [0, 1, 2, 3]
    packed = replace(case, placement=PlacementName.PACKED)
    assert set(fabric.node_server[pattern_ranks(packed, fabric).nodes].tolist()) == {0}
