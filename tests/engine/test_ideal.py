"""The ideal network against the closed forms, and one slow rank on it and on a design."""

from __future__ import annotations

import pytest

import railweave
from railweave.design.models import ALGORITHMS, Algorithm, Collective
from railweave.engine import simulate
from railweave.engine.analytic import collective_time
from railweave.engine.ideal import IdealNetwork, SlowRank, ideal_network
from railweave.errors import InputError
from railweave.workload import Communicator

SPEED, LATENCY, SIZE = 100e9, 2e-6, 64_000_000
CASES = [(op, algorithm) for op, able in ALGORITHMS.items() for algorithm in able]
#: the closed form of a tree knows the busiest rank only: the engine's tree shares more links
SHARED = {Algorithm.TREE: 1.6}


def time_s(network: IdealNetwork, algorithm: Algorithm, slow: SlowRank | None = None) -> float:
    fabric, traffic = network.fabric, network.traffic(Collective.ALL_REDUCE, algorithm, SIZE)
    if slow is not None:
        fabric, traffic = slow.apply(fabric, traffic, network.comm)
    return simulate(fabric, traffic, network.routing).makespan_s


@pytest.mark.parametrize(("op", "algorithm"), CASES)
def test_the_engine_is_near_the_closed_form(op, algorithm):
    by_server = algorithm in (Algorithm.HIERARCHICAL, Algorithm.RAIL_ALIGNED)
    servers = 2 if by_server else 1
    network = ideal_network(8, SPEED, LATENCY, ranks_per_server=servers)
    result = simulate(network.fabric, network.traffic(op, algorithm, SIZE), network.routing)
    closed = collective_time(op, algorithm, 8, SIZE, SPEED, LATENCY, ranks_per_server=servers)
    # headers are 2 %; a chain's first chunk fills it
    most = SHARED.get(algorithm, 1.03)
    assert closed.time_s < result.makespan_s < most * closed.time_s


def test_without_headers_a_ring_is_exact():
    network = ideal_network(4, SPEED)
    traffic = network.traffic(Collective.ALL_REDUCE, Algorithm.RING, 256_000_000)
    result = simulate(network.fabric, traffic, network.routing)
    assert result.makespan_s * traffic.total_bytes / result.bytes_sent == pytest.approx(
        0.03072, rel=1e-6
    )


def test_latency_is_that_of_a_message():
    network = ideal_network(2, SPEED, 1e-3)
    result = simulate(
        network.fabric, network.traffic(Collective.SEND_RECV, None, 1), network.routing
    )
    assert result.makespan_s == pytest.approx(1e-3, rel=1e-4)


@pytest.mark.parametrize(
    ("ranks", "speed", "latency", "servers"),
    [(1, SPEED, 0.0, 1), (4, 0.0, 0.0, 1), (4, SPEED, -1.0, 1), (5, SPEED, 0.0, 2)],
)
def test_what_cannot_be_is_refused(ranks, speed, latency, servers):
    with pytest.raises(InputError, match="allowed"):
        ideal_network(ranks, speed, latency, ranks_per_server=servers)


def test_a_slow_link_slows_the_whole_ring():
    network = ideal_network(6, SPEED)
    healthy = time_s(network, Algorithm.RING)
    assert time_s(network, Algorithm.RING, SlowRank(2, link_share=0.5)) == pytest.approx(
        2 * healthy, rel=1e-3
    )


def test_a_late_rank_costs_its_delay_once_a_turn():
    network = ideal_network(4, SPEED)
    late = time_s(network, Algorithm.RING, SlowRank(0, delay_s=1e-3))
    # it sends 6 messages, one late at the start and then one a time for each of the rounds
    assert 1e-3 < late - time_s(network, Algorithm.RING) <= 6e-3 + 1e-9


@pytest.mark.parametrize(
    "fields", [{"link_share": 0.0}, {"link_share": 1.5}, {"delay_s": -1.0}, {"rank": -1}]
)
def test_a_slow_rank_that_cannot_be_is_refused(fields):
    with pytest.raises(InputError, match=r"allowed|count from 0"):
        SlowRank(**{"rank": 0, **fields})


def test_a_slow_rank_must_exist():
    with pytest.raises(InputError, match="0…3"):
        time_s(ideal_network(4, SPEED), Algorithm.RING, SlowRank(4))


DESIGN = """\
railweave: 1
name: pairs
cluster:
  servers: {count: 4, inline: {gpus: 2, nics: 2, nic_speed: 100 Gb/s, scale_up_bandwidth: 1 Tb/s}}
planes:
  backend: {transport: rocev2, topology: leaf-spine, switch: {radix: 16, speed: 100 Gb/s}}
"""


def test_on_a_design_only_the_ranks_own_nic_is_slow():
    built = railweave.parse(DESIGN).build()
    only = built.with_collective(Collective.ALL_REDUCE, SIZE, ranks=8)
    work = only.workload()
    comm = Communicator.from_fabric(only.fabric, work.jobs[0].nodes)
    fabric, traffic = SlowRank(3, link_share=0.25).apply(only.fabric, work.traffic, comm)
    changed = fabric.link_capacity_bps != only.fabric.link_capacity_bps
    assert changed.sum() == 2  # one cable, both ways
    before = simulate(only.fabric, work.traffic, only.routing()).makespan_s
    after = simulate(fabric, traffic, only.routing().on(fabric)).makespan_s
    assert after > 1.5 * before


def test_a_design_with_a_collective_runs_that_alone():
    built = railweave.parse(DESIGN).build()
    only = built.with_collective(Collective.BROADCAST, SIZE, ranks=4, algorithm=Algorithm.TREE)
    outcome = built.collective(Collective.BROADCAST, SIZE, ranks=4, algorithm=Algorithm.TREE)
    assert [plan.op for plan in only.workload().jobs] == [Collective.BROADCAST]
    assert only.simulate().makespan_s == pytest.approx(outcome.time_s, rel=1e-12)
    assert built.workload().jobs == ()
