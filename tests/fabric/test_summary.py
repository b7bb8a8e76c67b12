"""The summary and its JSON, on a fabric known by hand and on a built design."""

import dataclasses
import json

import numpy as np
import pytest
from _tiny import G, clos

from railweave.catalog import default_catalog
from railweave.design.models import Design, Transport
from railweave.fabric import PlaneId, build_fabric
from railweave.fabric.capacity import TierProvision
from railweave.fabric.summary import PlaneFacts, build_summary, summarise, summarise_plane
from railweave.fabric.wire import framing

BACK = PlaneId.BACKEND
T = 1e12


def facts(**kw):
    return PlaneFacts(BACK, "leaf-spine", "rocev2", framing(Transport.ROCEV2), **kw)


def test_json_of_a_small_plane():
    fabric = clos(servers=8, gpus=2, per_leaf=4, spines=2, uplinks=2)
    plan = TierProvision("leaf", 16, 8, 16 * 400 * G, 8 * 400 * G, 2.0)
    found = json.loads(json.dumps(summarise(fabric, [facts(provisions=(plan,))]).to_json()))
    assert found["counts"]["servers"] == 8
    assert found["counts"]["gpus"] == found["counts"]["nics"] == 16
    assert found["counts"]["switches"] == {"leaf": 2, "spine": 2}
    assert found["cables"] == found["links"] == {"host-leaf": 16, "leaf-spine": 8}
    capacity = found["capacity"]
    assert capacity["host_bps"] == 6.4 * T
    assert capacity["effective_host_bps"] < capacity["host_bps"]
    leaf, spine = capacity["tiers"]
    assert (leaf["tier"], leaf["down_bps"], leaf["up_bps"]) == ("leaf", 6.4 * T, 3.2 * T)
    assert leaf["oversubscription"] == leaf["target"] == leaf["oversubscription_populated"] == 2.0
    assert spine["oversubscription"] is None
    assert capacity["bisection_bps"] == 1.6 * T
    assert capacity["bisection_cut"] == "servers: first | second half"
    assert capacity["ecmp_paths"] == 8
    assert isinstance(capacity["ecmp_paths"], int)
    assert found["diameter"] == 4
    assert found["hops"] == {"2": 2}
    assert found["planes"] == {}


def test_counts_are_of_what_was_built_and_capacity_of_what_is_up():
    fabric = clos(servers=4, per_leaf=2, spines=2)
    hurt = summarise_plane(fabric.without(nodes=fabric.switches(BACK, 2)[:1]), facts())
    assert dict(hurt.counts.switches) == {"leaf": 2, "spine": 2}
    assert dict(hurt.cables) == {"host-leaf": 4, "leaf-spine": 4}
    assert hurt.capacity.ecmp_paths == 1
    assert hurt.capacity.bisection_bps == 400 * G


def test_two_links_in_one_cable():
    fabric = clos(servers=4, per_leaf=2, spines=1, uplinks=2)
    fabric.duplex_cable[-2:] = fabric.duplex_cable[-2]
    plane = summarise_plane(fabric, facts())
    assert dict(plane.links)["leaf-spine"] == 4
    assert dict(plane.cables)["leaf-spine"] == 3


@pytest.fixture(scope="module")
def superpod():
    design = Design.model_validate(
        {
            "railweave": 1,
            "name": "small",
            "cluster": {"servers": [{"model": "dgx-h100", "count": 31}]},
            "planes": {
                "backend": {
                    "transport": "infiniband",
                    "topology": "rail-optimized",
                    "switch": "qm9700",
                    "extra_hosts": {"ufm": 4},
                },
                "frontend": {"transport": "tcp", "switch": "sn4700", "oversubscription": 2.0},
                "storage": {"shares": "frontend"},
            },
            "facility": {"power": "100 kW"},
            "objectives": {"availability": 0.99999},
        }
    )
    catalog = default_catalog()
    return design, catalog, build_fabric(design, catalog)


def test_built_design(superpod):
    design, catalog, built = superpod
    summary = build_summary(built, design, catalog)
    found = json.loads(json.dumps(summary.to_json()))
    assert found["counts"]["switches"] == {"leaf": 8, "spine": 4}
    assert found["cables"] == {"host-leaf": 252, "leaf-spine": 256}
    assert found["counts"]["extra_hosts"] == 1
    leaf = found["capacity"]["tiers"][0]
    assert leaf["oversubscription"] == leaf["target"] == 1.0
    assert leaf["oversubscription_populated"] == 252 / 256
    assert found["capacity"]["host_bps"] == 252 * 400 * G
    # 31 servers: the halves are 16 and 15.
    assert found["capacity"]["bisection_bps"] == 15 * 8 * 400 * G
    assert found["capacity"]["ecmp_paths"] == 32 * 8
    assert found["hops"] == {"2": 8 * 7}  # leaves of the other plane are not pairs without a path
    assert set(found["planes"]) == {"frontend", "storage"}
    assert found["planes"]["storage"] == {"shares": "frontend"}
    assert found["planes"]["frontend"]["capacity"]["tiers"][0]["target"] == 2.0
    assert {d["kind"] for d in found["failure_domains"]} >= {"nic", "leaf", "spine", "rack"}
    assert found["growth"][0]["next"]
    assert summary.power is not None
    assert summary.power.servers_w == 31 * catalog.server("dgx-h100").power_w
    assert "hall-power-exceeded" in [f.id for f in summary.power.findings]
    assert not found["availability"]["met"]
    assert found["assumptions"]


def test_summary_of_a_narrowed_fabric_keeps_the_halvings(superpod):
    design, catalog, built = superpod
    fabric = built.fabric
    dead = fabric.without(nodes=fabric.switches(BACK, 2)[:1])
    hurt = build_summary(dataclasses.replace(built, fabric=dead), design, catalog, domains=False)
    whole = build_summary(built, design, catalog, domains=False)
    names = [cut.name for cut in whole.backend.capacity.bisection.cuts]
    assert [cut.name for cut in hurt.backend.capacity.bisection.cuts] == names
    assert hurt.backend.capacity.bisection_bps < whole.backend.capacity.bisection_bps
    assert hurt.backend.capacity.ecmp_paths == whole.backend.capacity.ecmp_paths * 3 / 4
    assert np.array_equal(fabric.link_src, dead.link_src)
    assert hurt.backend.domains == ()


def test_a_summary_can_leave_out_what_takes_longest(superpod):
    design, catalog, built = superpod
    short = build_summary(built, design, catalog, domains=False, availability=False)
    assert short.availability is None
    whole = build_summary(built, design, catalog).to_json()
    left = {"availability", "assumptions", "failure_domains"}
    assert {k: v for k, v in short.to_json().items() if k not in left} == {
        k: v for k, v in whole.items() if k not in left
    }
