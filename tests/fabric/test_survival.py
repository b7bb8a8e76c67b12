"""Objectives under failure against trying every choice on small fabrics."""

from itertools import combinations

import numpy as np
import pytest
from _tiny import clos

from railweave.design.models import Objectives
from railweave.fabric import PlaneId
from railweave.fabric._reach import reach
from railweave.fabric.bisection import halving_model
from railweave.fabric.failures import parse_failures, what_if, without_parts
from railweave.fabric.survival import objective_findings, survival

BACK = PlaneId.BACKEND


def exhaustive(fabric, switches, links):
    """Worst (servers cut off, bisection left) over every choice."""
    model, attached = halving_model(fabric), reach(fabric, BACK)
    before = model.worst(fabric.link_up)[0]
    live = np.flatnonzero(fabric.link_plane[::2] == BACK)
    found = []
    for nodes in combinations(fabric.switches(BACK).tolist(), switches):
        for duplex in combinations(live.tolist(), links):
            up = without_parts(fabric, np.array(nodes, int), np.array(duplex, int))
            left = model.worst(up)[0] / before
            found.append((-len(attached.cut_off(up).servers), left))
    return min(found)


@pytest.mark.parametrize("dual", [False, True])
@pytest.mark.parametrize(("switches", "links"), [(1, 0), (0, 1), (2, 0), (1, 1), (0, 2)])
def test_worst_found_is_the_worst_there_is(dual, switches, links):
    fabric = clos(servers=5, per_leaf=2, spines=3, dual=dual)
    found = survival(fabric, switches=switches, links=links, seed=3)
    assert (-found.servers_cut_off, found.bisection_left) == exhaustive(fabric, switches, links)
    again = what_if(fabric, parse_failures(fabric, found.failed))
    assert again.bisection_left == found.bisection_left
    assert again.after.servers_cut_off == found.servers_cut_off


def test_findings_say_which_objective_is_missed():
    single = clos(servers=4, per_leaf=2, spines=2)
    double = clos(servers=4, per_leaf=2, spines=4, dual=True)
    one = Objectives(survive_switches=1)
    assert [f.id for f in objective_findings(single, one, seed=0)] == ["failure-cuts-off-servers"]
    assert not objective_findings(double, one, seed=0)
    strict = Objectives(survive_switches=1, min_bandwidth=0.9)
    (finding,) = objective_findings(double, strict, seed=0)
    assert finding.id == "failure-leaves-too-little"
    assert finding.path == "objectives.min_bandwidth"
    assert not objective_findings(single, Objectives(min_bandwidth=1.0), seed=0)


def test_more_failures_than_parts_take_all():
    found = survival(clos(servers=2, spines=0), switches=9, links=9, seed=0)
    assert (found.switches, found.links, found.servers_cut_off) == (1, 2, 2)
    assert found.bisection_left == 0.0
    assert found.to_json()["plane"] == "backend"


def test_an_objective_is_missed_where_the_fabric_falls_into_pieces():
    fabric = clos(servers=6, per_leaf=2, spines=1, gpus=4)
    found = survival(fabric, switches=1, links=0, seed=0)
    assert (found.failed, found.bisection_left) == (("spine-1",), 0.0)
    half = Objectives(survive_switches=1, min_bandwidth=0.5)
    assert "failure-leaves-too-little" in {f.id for f in objective_findings(fabric, half, seed=0)}
