"""The sizing rule against published designs, from inputs without counts of switches."""

from __future__ import annotations

import pytest

from railweave.catalog import default_catalog
from railweave.design.models import Design
from railweave.errors import SizingError
from railweave.fabric import PlaneId, PlanePlan, plan_plane

G8 = {"gpus": 8, "nics": 8, "nic_speed": "400 Gb/s", "scale_up_bandwidth": "450 GB/s"}


def plan(
    servers: int, *, cluster: dict | None = None, server: dict | None = None, **backend
) -> PlanePlan:
    group = {"count": servers, **(server or {"inline": G8})}
    plane = {"transport": "rocev2", "topology": "rail-optimized", **backend}
    design = Design.model_validate(
        {
            "railweave": 1,
            "name": "t",
            "cluster": {"servers": group, **(cluster or {})},
            "planes": {"backend": plane},
        }
    )
    return plan_plane(design, default_catalog(), PlaneId.BACKEND)


def row(plan: PlanePlan) -> tuple[int, ...]:
    """Leaf, spine, core, and links host–leaf, leaf–spine, spine–core; 0 where there are none."""
    switches, links = plan.counts.switches, plan.counts.links
    return (
        *(switches.get(tier, 0) for tier in ("leaf", "spine", "core")),
        *(links.get(kind, 0) for kind in ("host-leaf", "leaf-spine", "spine-core")),
    )


@pytest.mark.parametrize(
    ("nodes", "leaf", "spine", "host_links", "leaf_spine"),
    [
        (31, 8, 4, 252, 256),
        (63, 16, 8, 508, 512),
        (95, 24, 16, 764, 768),
        (127, 32, 16, 1020, 1024),
    ],
)
def test_superpod_h100(nodes, leaf, spine, host_links, leaf_spine):
    found = plan(
        nodes,
        server={"model": "dgx-h100"},
        transport="infiniband",
        switch="qm9700",
        extra_hosts={"ufm": 4},
    )
    assert row(found) == (leaf, spine, 0, host_links, leaf_spine, 0)
    assert found.counts.gpus == nodes * 8


@pytest.mark.parametrize(
    ("units", "leaf", "spine", "core"),
    [
        (1, 8, 4, 0),
        (2, 16, 8, 0),
        (4, 32, 16, 0),
        (8, 64, 32, 0),
        (16, 128, 128, 64),
        (32, 256, 256, 128),
        (64, 512, 512, 256),
    ],
)
def test_superpod_b200(units, leaf, spine, core):
    nodes = 32 * units
    found = plan(nodes, server={"model": "dgx-b200"}, transport="infiniband", switch="qm9700")
    links = nodes * 8
    assert row(found) == (leaf, spine, core, links, links, links if core else 0)


def test_spines_reach_as_many_cores_as_they_can():
    core = plan(512, switch={"radix": 64, "speed": "400 Gb/s"}).size.core
    assert (core.sets, core.per_set, core.uplinks) == (2, 32, (32,) * 4)


@pytest.mark.parametrize(
    ("units", "leaf", "spine"),
    [(1, 8, 4), (2, 16, 8), (3, 24, 12), (4, 32, 18), (8, 64, 36), (16, 128, 72)],
)
def test_radix_144_spreads_over_divisors_of_72(units, leaf, spine):
    nodes = 72 * units
    found = plan(nodes, switch={"radix": 144, "speed": "400 Gb/s"})
    assert row(found) == (leaf, spine, 0, nodes * 8, leaf * 72, 0)


def test_radix_144_in_three_tiers():
    found = plan(72 * 32, switch={"radix": 144, "speed": "400 Gb/s"})
    # four pods of 64 leaves; 256 × 72 / 144 = 128 cores take 64 uplinks of each spine evenly
    assert row(found) == (256, 288, 128, 18432, 18432, 18432)
    assert found.size.pod_leaves == (64, 64, 64, 64)


def test_two_planes_are_two_disjoint_copies():
    one = plan(128, switch={"radix": 64, "speed": "400 Gb/s"})
    two = plan(
        128,
        server={"inline": {**G8, "nic_speed": "800 Gb/s"}},
        switch={"radix": 64, "speed": "400 Gb/s"},
        topology="twin-planar",
    )
    assert row(two) == tuple(2 * n for n in row(one))
    assert two.host_bps == 400e9
    assert two.subplanes == 2


def test_planes_number_sets_the_link_speed():
    found = plan(64, switch={"radix": 64, "speed": "400 Gb/s", "max_breakout": 4}, planes=4)
    assert found.host_bps == 100e9
    assert found.size.leaf.down_links == 128
    assert found.counts.links["host-leaf"] == 64 * 8 * 4


def test_hpn_pod():
    found = plan(
        1920,
        topology="dual-plane-dual-tor",
        switch={"radix": 128, "speed": "400 Gb/s", "max_breakout": 2},
        oversubscription={"leaf": 1.0667, "spine": 15},
        spare_ports={"leaf": 8},
    )
    assert row(found) == (240, 120, 0, 30720, 14400, 0)
    assert (found.size.leaf.down_links, found.size.leaf.up_links) == (128, 60)
    assert found.size.spine_uplinks == (8,)
    assert found.size.spine_down_links == (120,)
    assert "spine-uplinks-reserved" in {finding.id for finding in found.findings}


def meta(**more) -> PlanePlan:
    backend = {
        "topology": "multi-zone",
        "zone": 384,
        "switch": {
            "leaf": {"radix": 32, "speed": "400 Gb/s"},
            "spine": {"radix": 256, "speed": "400 Gb/s"},
        },
        "oversubscription": {"leaf": 1, "spine": 7},
        **more,
    }
    return plan(3072, cluster={"servers_per_rack": 2}, **backend)


def test_meta_pods():
    found = meta()
    assert found.counts.switches["leaf"] == 8 * 192
    assert found.counts.links["leaf-spine"] == 24_576
    assert found.size.pod_leaves == (192,) * 8
    assert (found.size.leaf.down_links, found.size.leaf.up_links) == (16, 16)
    # 192 links down at 7:1 are 27.4 up; 27 (7.11:1) is nearer to 7 than 28 (6.86:1)
    assert found.size.spine_down_links == (192,) * 8
    assert found.size.spine_uplinks == (27,) * 8
    assert found.counts.links["spine-core"] == 128 * 27


def test_meta_spine_ratio_is_reported_with_its_target():
    found = meta()
    spine = next(provision for provision in found.provisions if provision.tier == "spine")
    assert spine.target == 7
    assert spine.down_bps / spine.up_bps == pytest.approx(192 / 27)
    assert "oversubscription-nearest" in {finding.id for finding in found.findings}


@pytest.mark.parametrize(
    ("servers", "unit", "ratio", "uplink"),
    [
        (8, 4, 1, "400 Gb/s"),
        (4, 2, 0.5, "400 Gb/s"),
        (8, 4, 2, "200 Gb/s"),
    ],
)
def test_juniper(servers, unit, ratio, uplink):
    found = plan(
        servers,
        switch={"radix": 64, "speed": "400 Gb/s", "max_breakout": 2},
        scalable_unit=unit,
        oversubscription=ratio,
        uplink_speed=uplink,
        min_spines=4,
    )
    assert row(found) == (16, 4, 0, servers * 8, 64, 0)
    assert (found.provisioned, found.populated) == (ratio, ratio)
    uplinks = next(provision for provision in found.provisions if provision.tier == "leaf")
    assert uplinks.up_bps == (25.6e12 if uplink == "400 Gb/s" else 12.8e12)


def test_populated_ratio_differs_from_the_provisioned_one():
    leaf, spine = {"radix": 8, "speed": "400 Gb/s"}, {"radix": 64, "speed": "400 Gb/s"}
    found = plan(4, switch={"leaf": leaf, "spine": spine}, scalable_unit=2, min_spines=4)
    assert row(found) == (16, 4, 0, 32, 64, 0)
    assert (found.provisioned, found.populated) == (1.0, 0.5)


def test_worked_example_of_a_2_to_1_leaf():
    found = plan(
        32,
        topology="leaf-spine",
        server={"inline": {**G8, "gpus": 1, "nics": 1}},
        switch={"radix": 48, "speed": "400 Gb/s"},
        oversubscription=2,
        tiers=2,
    )
    leaf = found.provisions[0]
    assert (leaf.down_bps, leaf.up_bps, found.provisioned) == (12.8e12, 6.4e12, 2.0)


def test_worked_example_of_16_servers():
    found = plan(16, switch={"radix": 64, "speed": "400 Gb/s"})
    assert found.counts.gpus == 128
    assert found.size.host_links * found.host_bps == 51.2e12


def test_gpus_asked_for_become_servers():
    found = plan_plane(
        Design.model_validate(
            {
                "railweave": 1,
                "name": "t",
                "cluster": {"servers": {"inline": G8}, "gpus": 2048},
                "planes": {
                    "backend": {
                        "transport": "rocev2",
                        "topology": "rail-optimized",
                        "switch": {"radix": 64, "speed": "400 Gb/s"},
                    }
                },
            }
        ),
        default_catalog(),
        PlaneId.BACKEND,
    )
    assert row(found) == (64, 32, 0, 2048, 2048, 0)


# ---------------------------------------------------------------- other topologies


def test_star_and_its_end():
    switch = {"radix": 64, "speed": "400 Gb/s"}
    assert row(plan(8, topology="star", switch=switch)) == (1, 0, 0, 64, 0, 0)
    with pytest.raises(SizingError, match="ends at 8 servers") as caught:
        plan(9, topology="star", switch=switch)
    assert caught.value.problem.path == "planes.backend.topology"
    assert caught.value.problem.nearest == "leaf-spine"


def test_rail_only_does_not_join_rails():
    switch = {"radix": 64, "speed": "400 Gb/s"}
    assert row(plan(64, topology="rail-only", switch=switch)) == (8, 0, 0, 512, 0, 0)
    # 65 servers need a network of two tiers on each of the eight rails
    assert row(plan(65, topology="rail-only", switch=switch)) == (24, 16, 0, 520, 768, 0)
    first = plan(16, topology="rail-only", switch=switch).growth[0]
    assert (first.topology, first.max_gpus, first.enough) == ("rail-only", 512, True)


def test_fat_tree_of_k_4():
    one = {"inline": {**G8, "gpus": 1, "nics": 1}}
    found = plan(16, server=one, topology="fat-tree", switch={"radix": 4, "speed": "400 Gb/s"})
    assert row(found) == (8, 8, 4, 16, 16, 16)


def test_single_leaf_needs_no_spine():
    found = plan(4, topology="leaf-spine", switch={"radix": 64, "speed": "400 Gb/s"})
    assert row(found) == (1, 0, 0, 32, 0, 0)
    assert "single-leaf" in {finding.id for finding in found.findings}
    joined = plan(4, topology="leaf-spine", switch={"radix": 64, "speed": "400 Gb/s"}, tiers=2)
    assert row(joined) == (1, 1, 0, 32, 32, 0)


def test_a_leaf_without_spines_has_no_way_up_and_no_ratio():
    asked = {"switch": {"radix": 64, "speed": "400 Gb/s"}, "oversubscription": 6.1}
    alone = plan(4, topology="leaf-spine", **asked)
    leaf = alone.size.leaf
    assert leaf.up_links
    assert not leaf.exact
    (tier,) = alone.provisions
    assert (tier.up_links, tier.up_bps) == (0, 0.0)
    assert tier.down_links == leaf.down_links
    assert (alone.provisioned, alone.populated) == (None, None)
    assert "oversubscription-nearest" not in {finding.id for finding in alone.findings}
    joined = plan(4, topology="leaf-spine", tiers=2, **asked)
    assert joined.provisioned == leaf.achieved
    assert "oversubscription-nearest" in {finding.id for finding in joined.findings}


def test_dual_tor_puts_a_servers_links_on_two_leaves():
    found = plan(8, topology="leaf-spine", switch={"radix": 64, "speed": "400 Gb/s"}, dual_tor=True)
    place = found.size.placement
    leaves = [set(place.leaf[place.server == server]) for server in range(8)]
    assert all(len(pair) == 2 for pair in leaves)


def test_a_unit_larger_than_a_pod_is_split_by_rail():
    found = plan(8, switch={"radix": 8, "speed": "400 Gb/s"}, tiers=3)
    rails = found.size.placement.leaf_rail
    for pod in range(found.size.pods):
        assert len(set(rails[found.size.leaf_pod == pod])) <= 2
    assert max(found.size.pod_leaves) <= 4


# ---------------------------------------------------------------- given counts, limits


SUPERPOD = {"switch": {"radix": 64, "speed": "400 Gb/s"}}


def test_given_counts_that_work_are_built():
    assert row(plan(128, **SUPERPOD, counts={"leaf": 32, "spine": 32})) == (
        32,
        32,
        0,
        1024,
        1024,
        0,
    )


@pytest.mark.parametrize(
    ("counts", "path", "nearest"),
    [
        ({"spine": 12}, "spine", "16"),
        ({"spine": 8}, "spine", "16"),
        ({"spine": 30}, "spine", "32"),
        ({"leaf": 24}, "leaf", "32"),
        ({"leaf": 36}, "leaf", "40"),
        ({"core": 4}, "core", ""),
    ],
)
def test_given_counts_that_do_not_work(counts, path, nearest):
    with pytest.raises(SizingError) as caught:
        plan(128, **SUPERPOD, counts=counts)
    assert caught.value.problem.path == f"planes.backend.counts.{path}"
    assert caught.value.problem.nearest == nearest


def test_given_core_count():
    assert row(plan(512, **SUPERPOD, counts={"core": 128}))[2] == 128
    with pytest.raises(SizingError) as caught:
        plan(512, **SUPERPOD, counts={"core": 100})
    assert caught.value.problem.nearest == "128"


def test_min_spines():
    assert row(plan(31, **SUPERPOD, min_spines=5))[1] == 8
    with pytest.raises(SizingError) as caught:
        plan(31, **SUPERPOD, min_spines=33)
    assert (caught.value.problem.path, caught.value.problem.nearest) == (
        "planes.backend.min_spines",
        "32",
    )


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"tiers": 1}, "tiers"),
        ({"tiers": 2, "switch": {"radix": 16, "speed": "400 Gb/s"}}, "tiers"),
        ({"switch": {"radix": 64, "speed": "200 Gb/s"}}, "speed"),
        ({"uplink_speed": "800 Gb/s"}, "uplink_speed"),
        ({"dual_tor": True}, "dual_tor"),
        ({"host_links": 12}, "host_links"),
        ({"planes": 2, "host_links": 9}, "host_links"),
        (
            {"topology": "multi-zone", "zone": 100, "switch": {"radix": 32, "speed": "400 Gb/s"}},
            "zone",
        ),
        ({"topology": "multi-zone", "switch": {"radix": 24, "speed": "400 Gb/s"}}, "switch"),
        ({"spare_ports": 63}, "spare_ports"),
    ],
)
def test_what_cannot_be_built_names_its_field(change, path):
    with pytest.raises(SizingError) as caught:
        plan(128, **{**SUPERPOD, **change})
    assert caught.value.problem.path == f"planes.backend.{path}"


def test_forced_third_tier():
    found = plan(64, **SUPERPOD, tiers=3)
    assert found.size.tiers == 3
    assert found.counts.switches["core"] >= 1


def test_growth_limits_are_the_limits():
    found = plan(127, **SUPERPOD)
    limits = {step.topology: step for step in found.growth}
    assert limits["star"].max_gpus == 64
    assert limits["two tiers"].max_gpus == 2048
    assert limits["three tiers"].max_gpus == 65_536
    assert [step.enough for step in found.growth] == [False, True, True]
    assert row(plan(limits["two tiers"].max_servers, **SUPERPOD, tiers=2))[2] == 0
    with pytest.raises(SizingError):
        plan(limits["two tiers"].max_servers + 1, **SUPERPOD, tiers=2)
    assert row(plan(limits["three tiers"].max_servers, **SUPERPOD))[0] == 2048
    with pytest.raises(SizingError, match="three tiers"):
        plan(limits["three tiers"].max_servers + 1, **SUPERPOD)


def test_growth_counts_no_leaf_of_other_hosts():
    alone, beside = plan(256, **SUPERPOD), plan(256, **SUPERPOD, extra_hosts={"ufm": 4})
    assert (row(alone)[0], row(beside)[0]) == (64, 65)
    assert [step.max_gpus for step in beside.growth] == [step.max_gpus for step in alone.growth]


def test_rack_size_follows_power():
    found = plan(8, topology="leaf-spine", top_of_rack=True, **SUPERPOD)
    assert found.size.demand.rack == 3  # 40 kW a rack, 10.2 kW a server
    assert found.counts.switches["leaf"] == 3


def test_racks_there_are_must_hold_the_servers():
    with pytest.raises(SizingError) as caught:
        plan(10, cluster={"servers_per_rack": 2, "racks": 4}, **SUPERPOD)
    assert (caught.value.problem.path, caught.value.problem.nearest) == ("cluster.racks", "5")


def test_empty_fields_are_shown_with_what_they_came_to():
    found = plan(40, **SUPERPOD).worked_out()
    assert found == {
        "planes.backend.speed": "400 Gb/s",
        "planes.backend.uplink_speed": "400 Gb/s",
        "planes.backend.host_links": "8",
        "planes.backend.tiers": "2",
        "planes.backend.min_spines": "1",
        "planes.backend.scalable_unit": "32",
        "planes.backend.top_of_rack": "false",
    }
    given = plan(40, **SUPERPOD, scalable_unit=20, host_links=8).worked_out()
    assert not {"planes.backend.scalable_unit", "planes.backend.host_links"} & set(given)
