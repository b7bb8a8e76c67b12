"""Figures drawn from results."""

import numpy as np
import pytest

from minifabric import clos
from railweave.design.models import Collective, RoutingScheme, RoutingSpec
from railweave.engine.metrics import (
    collective_bandwidth,
    label_metrics,
    percentiles,
    uplink_collisions,
    uplink_spread,
)
from railweave.errors import InputError
from railweave.fabric import PlaneId
from railweave.fabric.routing import compile_routing


def routed(scheme, *, streams=None, seed=0):
    fabric, names = clos(servers=8, gpus=4, spines=4, leaves=2)
    src = np.array([names[f"server-{s}:gpu-{g}"] for s in range(4) for g in range(4)])
    dst = np.array([names[f"server-{s + 4}:gpu-{g}"] for s in range(4) for g in range(4)])
    copies = np.repeat(np.arange(streams or 1), len(src))
    routing = compile_routing(fabric, PlaneId.BACKEND, RoutingSpec(scheme=scheme), seed=seed)
    src, dst = np.tile(src, streams or 1), np.tile(dst, streams or 1)
    return fabric, routing.paths(src, dst, connection=copies)


def test_spread_of_a_known_load():
    fabric, paths = routed(RoutingScheme.STATIC)  # 16 hosts pinned in turn to 4 uplinks
    spread = uplink_spread(fabric, paths)
    assert (spread.switches, spread.links, spread.flows) == (1, 4, 16)
    assert spread.worst_ratio == spread.mean_ratio == spread.fairness == 1.0
    assert spread.idle_share == 0.0
    one = np.zeros(16, dtype=bool)
    one[0] = True
    single = uplink_spread(fabric, paths, select=one)
    assert single.worst_ratio == 4.0
    assert single.fairness == pytest.approx(0.25)
    assert single.idle_share == 0.75


def test_many_flows_spread_better_than_few():
    mice = uplink_spread(*routed(RoutingScheme.ECMP, streams=200))
    elephants = np.mean(
        [uplink_spread(*routed(RoutingScheme.ECMP, seed=s)).worst_ratio for s in range(8)]
    )
    assert mice.worst_ratio < 1.15 < elephants
    assert mice.flows == 3200


def test_spread_weighs_bytes_and_sprays():
    fabric, paths = routed(RoutingScheme.STATIC)
    size = np.ones(paths.n_flows)
    size[0] = 13.0  # its uplink carries 13 + 3, each other 4
    assert uplink_spread(fabric, paths, flow_bytes=size).worst_ratio == pytest.approx(16 / 7)
    assert uplink_spread(*routed(RoutingScheme.SPRAY)).worst_ratio == pytest.approx(1.0)
    assert uplink_spread(fabric, paths, tier=2).links == 0


@pytest.mark.parametrize("seed", range(6))
def test_collisions_are_uplinks_that_stand_idle_for_nothing(seed):
    fabric, paths = routed(RoutingScheme.ECMP, seed=seed)
    got = uplink_collisions(fabric, paths)
    expected = flows = used_all = 0
    for leaf in np.flatnonzero(fabric.node_tier == 1):
        links = [
            [link for link in way if fabric.link_src[link] == leaf and
             fabric.node_tier[fabric.link_dst[link]] > 1]
            for message in range(paths.n_messages) for way in paths.links_of(message)
        ]  # fmt: skip
        mine = [way[0] for way in links if way]
        uplinks = int(np.sum((fabric.link_src == leaf) & (fabric.node_tier[fabric.link_dst] > 1)))
        flows, used_all = flows + len(mine), used_all + len(set(mine))
        expected += min(len(mine), uplinks) - len(set(mine))
    assert (got.flows, got.in_use, got.count) == (flows, used_all, expected)


def test_pinned_and_sprayed_flows_do_not_collide():
    assert uplink_collisions(*routed(RoutingScheme.STATIC)).count == 0
    sprayed = uplink_collisions(*routed(RoutingScheme.SPRAY))
    assert sprayed.count == 0
    assert sprayed.in_use == sprayed.uplinks
    assert sprayed.flows == uplink_collisions(*routed(RoutingScheme.STATIC)).flows


def test_bandwidth_is_that_of_nccl_tests():
    # 2 × 7/8 of 1 GiB in 4 ms.
    algbw, busbw = collective_bandwidth(Collective.ALL_REDUCE, 8, 2**30, 4e-3)
    assert algbw == pytest.approx(2**30 / 4e-3)
    assert busbw == pytest.approx(algbw * 1.75)
    with pytest.raises(InputError, match="at least one rank"):
        collective_bandwidth(Collective.REDUCE, 0, 1.0, 1.0)


def test_percentiles_ignore_what_is_not_known():
    values = np.concatenate((np.arange(101.0), [np.nan]))
    got = percentiles(values)
    assert (got.count, got.p50, got.p99, got.highest) == (101, 50.0, 99.0, 100.0)
    assert percentiles(np.array([np.nan])).count == 0


def test_metrics_by_label():
    from test_flow import routing_of, simulate_flow, traffic

    fabric, names = clos(servers=3, gpus=1, spines=0, leaves=1)
    a, b, c = (names[f"server-{k}:gpu-0"] for k in range(3))
    work = traffic(
        [a, a, b],
        [b, c, c],
        [1e6, 1e6, 2e6],
        task_stream=np.array([0, 2, 3], dtype=np.int64),
        task_rounds=np.ones(2, dtype=np.int32),
        task_start_s=np.array([0.0, 1.0]),
        task_delay_s=np.zeros(2),
        task_label=np.array([1, 0], dtype=np.int32),
        dep_ptr=np.zeros(3, dtype=np.int64),
        labels=("late", "early", "unused"),
    )
    late, early = label_metrics(simulate_flow(fabric, work, routing_of(fabric)))
    assert (late.label, early.label) == ("late", "early")
    assert (early.tasks, early.streams, early.payload_bytes) == (1, 2, 2e6)
    assert early.slowdown.p50 == pytest.approx(2.0)
    assert late.start_s == 1.0
    assert late.duration_s == pytest.approx(early.duration_s, rel=1e-3)
