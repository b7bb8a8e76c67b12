"""Availability against enumeration of every state of every part."""

from itertools import product

import pytest
from _tiny import clos

from railweave.fabric._arrays import PlaneId
from railweave.fabric._network import switch_network
from railweave.fabric.availability import Reliability, Repairs, nines, server_availability

BACK = PlaneId.BACKEND
# Poor parts, so that every product matters.
POOR = Repairs(
    nic=Reliability("NIC", 9.0, 1.0, "test"),
    switch=Reliability("switch", 4.0, 1.0, "test"),
    optical=Reliability("optic", 3.0, 1.0, "test"),
    copper=Reliability("copper", 19.0, 1.0, "test"),
)


def test_star_is_a_product_of_its_parts():
    found = server_availability(clos(servers=2, per_leaf=2, spines=0), repairs=POOR)
    assert found is not None
    assert found.whole == found.alive == pytest.approx(0.9 * 0.95 * 0.8)
    assert found.met
    assert len(found.assumptions) >= 5


def brute_force(fabric, server):
    """Enumerate links, leaves and NICs of one server; leaves have no ways up."""
    network = switch_network(fabric, BACK)
    ports = [
        (int(node), int(leaf))
        for node, leaf in zip(network.host_node, network.host_switch, strict=True)
        if fabric.node_server[node] == server
    ]
    nics, leaves = sorted({n for n, _ in ports}), sorted({s for _, s in ports})
    chances = [0.9] * len(nics) + [0.8] * len(leaves) + [0.95] * len(ports)
    whole = alive = 0.0
    for state in product((True, False), repeat=len(chances)):
        weight = 1.0
        for works, chance in zip(state, chances, strict=True):
            weight *= chance if works else 1 - chance
        nic_up = dict(zip(nics, state, strict=False))
        leaf_up = dict(zip(leaves, state[len(nics) :], strict=False))
        link_up = state[len(nics) + len(leaves) :]
        reached = {
            nic
            for (nic, leaf), up in zip(ports, link_up, strict=True)
            if up and nic_up[nic] and leaf_up[leaf]
        }
        whole += weight * (len(reached) == len(nics))
        alive += weight * bool(reached)
    return whole, alive


@pytest.mark.parametrize("dual", [False, True])
@pytest.mark.parametrize("rails", [False, True])
def test_shared_leaves_are_exact(dual, rails):
    fabric = clos(servers=2, gpus=2, per_leaf=2, spines=0, dual=dual, rails=rails)
    found = server_availability(fabric, repairs=POOR)
    assert found is not None
    assert (found.whole, found.alive) == pytest.approx(brute_force(fabric, found.server))


def test_ways_up_are_parallel():
    fabric = clos(servers=4, per_leaf=2, spines=2, uplinks=2)
    found = server_availability(fabric, repairs=POOR)
    assert found is not None
    one_way = (1 - 0.25**2) * 0.8
    assert found.whole == pytest.approx(0.9 * 0.95 * 0.8 * (1 - (1 - one_way) ** 2))


def test_two_leaves_beat_one_and_a_dead_leaf_costs():
    single = server_availability(clos(servers=4, gpus=2, per_leaf=2, spines=2))
    fabric = clos(servers=4, gpus=2, per_leaf=2, spines=2, dual=True)
    double = server_availability(fabric)
    hurt = server_availability(fabric.without(nodes=fabric.switches(BACK, 1)[:1]))
    assert single is not None
    assert double is not None
    assert hurt is not None
    assert nines(double.whole) > nines(single.whole) + 0.2
    assert hurt.whole < double.whole
    assert hurt.server == 0


def test_objective_missed_is_an_error_with_a_remedy():
    fabric = clos(servers=2, per_leaf=2, spines=0)
    found = server_availability(fabric, repairs=POOR, objective=0.99)
    assert found is not None
    (finding,) = found.findings()
    assert finding.id == "availability-objective-missed"
    assert "0.50 nines" in finding.message
    assert not found.met
    assert found.to_json()["met"] is False
    easy = server_availability(fabric, repairs=POOR, objective=0.5)
    assert easy is not None
    assert not easy.findings()
    assert server_availability(fabric, PlaneId.STORAGE) is None


def test_nines():
    assert nines(0.999) == pytest.approx(3.0)
    assert nines(1.0) == 15.0
