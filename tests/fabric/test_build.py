"""Built fabrics: port maps, even spreading, totals, cables, places, names."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from railweave.catalog import default_catalog
from railweave.design.models import Design
from railweave.errors import InputError, SizingError
from railweave.fabric import (
    BuiltFabric,
    LinkLayer,
    NodeKind,
    PlaneId,
    build_fabric,
    find_duplex,
    find_node,
    find_port,
    node_name,
    port_map,
    port_name,
)
from railweave.fabric.names import duplex_name
from railweave.fabric.ports import ports_used_twice

G8 = {"gpus": 8, "nics": 8, "nic_speed": "400 Gb/s", "scale_up_bandwidth": "450 GB/s"}
RADIX_16 = {"radix": 16, "speed": "400 Gb/s"}


def build(
    servers: int = 8, *, more: dict | None = None, planes: dict | None = None, **backend
) -> BuiltFabric:
    cluster = {"servers": {"inline": G8, "count": servers}}
    extra = dict(more or {})
    cluster |= extra.pop("cluster", {})
    plane = {"transport": "rocev2", "topology": "rail-optimized", "switch": RADIX_16, **backend}
    design = {
        "railweave": 1,
        "name": "t",
        "cluster": cluster,
        "planes": {"backend": plane, **(planes or {})},
        **extra,
    }
    return build_fabric(Design.model_validate(design), default_catalog())


def degree(built: BuiltFabric, tier: int, layer: LinkLayer) -> np.ndarray:
    fabric = built.fabric
    nodes = fabric.switches(PlaneId.BACKEND, tier)
    links = fabric.link_src[fabric.link_layer == layer]
    return np.bincount(links, minlength=fabric.n_nodes)[nodes]


# ---------------------------------------------------------------- wiring


CASES = st.fixed_dictionaries(
    {
        "servers": st.integers(1, 150),
        "nics": st.sampled_from([1, 2, 4, 8]),
        "radix": st.sampled_from([6, 8, 12, 16, 24, 40]),
        "breakout": st.sampled_from([1, 2, 4]),
        "ratio": st.sampled_from([0.5, 1, 2, 3, 1.85]),
        "topology": st.sampled_from(
            ["rail-optimized", "leaf-spine", "fat-tree", "rail-only", "twin-planar", "multi-zone"]
        ),
        "dual": st.booleans(),
        "extra": st.integers(0, 5),
    }
)


@settings(max_examples=80, deadline=None)
@given(CASES)
def test_every_build_is_sound(case):
    radix = case["radix"]
    backend = {
        "topology": case["topology"],
        "switch": {"radix": radix, "speed": "400 Gb/s", "max_breakout": case["breakout"]},
        "oversubscription": case["ratio"],
    }
    if case["topology"] == "leaf-spine" and case["dual"] and case["nics"] > 1:
        backend["dual_tor"] = True
    if case["extra"]:
        backend["extra_hosts"] = {"ufm": case["extra"]}
    server = {"inline": {**G8, "nics": case["nics"]}, "count": case["servers"]}
    try:
        built = build(more={"cluster": {"servers": server}}, **backend)
    except SizingError:  # too large for three tiers of so few ports
        assume(False)
    fabric, plan = built.fabric, built.plans[PlaneId.BACKEND]
    size = plan.size
    assert ports_used_twice(fabric) == []
    # every plane's switch count and link count is what was planned
    for tier, name in ((1, "leaf"), (2, "spine"), (3, "core")):
        assert len(fabric.switches(PlaneId.BACKEND, tier)) == plan.counts.switches.get(name, 0)
    for layer, name in (
        (LinkLayer.HOST_LEAF, "host-leaf"),
        (LinkLayer.LEAF_SPINE, "leaf-spine"),
        (LinkLayer.SPINE_CORE, "spine-core"),
    ):
        assert np.count_nonzero(fabric.link_layer == layer) == 2 * plan.counts.links.get(name, 0)
    # no switch takes more links than it has ports and breakouts for
    switches = fabric.switches(PlaneId.BACKEND)
    weight = np.zeros(fabric.n_nodes)
    network = fabric.link_src_port > 0
    ways = np.array(
        [
            built.plans[PlaneId.BACKEND].switches["leaf"].ways(bps)
            for bps in fabric.link_capacity_bps[network]
        ]
    )
    np.add.at(weight, fabric.link_src[network], 1 / ways)
    assert weight[switches].max() <= radix + 1e-9
    # every leaf is uplinked in full and evenly over the spines of its pod
    if size.spines:
        assert set(degree(built, 1, LinkLayer.LEAF_SPINE)) == {size.leaf.up_links}
        up = (fabric.link_layer == LinkLayer.LEAF_SPINE)[0::2]
        pairs = np.stack((fabric.link_src[0::2][up], fabric.link_dst[0::2][up]), axis=1)
        _, parallel = np.unique(pairs, axis=0, return_counts=True)
        assert set(parallel) == {size.leaf.up_links // size.spines_per_pod}
    if size.cores:
        up = (fabric.link_layer == LinkLayer.SPINE_CORE)[0::2]
        low, high = fabric.link_src[0::2][up], fabric.link_dst[0::2][up]
        pairs, parallel = np.unique(np.stack((low, high), axis=1), axis=0, return_counts=True)
        for spine in np.unique(low):
            assert len(set(parallel[pairs[:, 0] == spine])) == 1
        load = degree(built, 3, LinkLayer.SPINE_CORE)
        assert load.max() == load.min()
    # every NIC has its links, and all ends of a pair agree
    assert np.array_equal(fabric.link_src[0::2], fabric.link_dst[1::2])
    assert np.array_equal(fabric.link_src_port[0::2], fabric.link_dst_port[1::2])
    nic_links = np.bincount(
        fabric.link_src[fabric.link_layer == LinkLayer.HOST_LEAF], minlength=fabric.n_nodes
    )
    assert set(nic_links[fabric.nics(PlaneId.BACKEND)]) == {plan.subplanes}


def test_every_pod_reaches_every_pod_through_the_cores():
    built = build(servers=64)
    fabric = built.fabric
    assert built.plans[PlaneId.BACKEND].size.tiers == 3
    up = (fabric.link_layer == LinkLayer.SPINE_CORE)[0::2]
    pod = fabric.node_pod[fabric.link_src[0::2][up]]
    core = fabric.link_dst[0::2][up]
    pods = built.plans[PlaneId.BACKEND].size.pods
    assert all(len(set(pod[core == c])) == pods for c in np.unique(core))


def test_rail_r_of_every_server_is_on_leaf_r_of_its_unit():
    fabric = build(servers=20).fabric
    host = fabric.link_layer[0::2] == LinkLayer.HOST_LEAF
    nic, leaf = fabric.link_src[0::2][host], fabric.link_dst[0::2][host]
    assert np.array_equal(fabric.node_rail[nic], fabric.node_rail[leaf])
    assert np.array_equal(fabric.node_pod[nic], fabric.node_pod[leaf])
    assert set(fabric.node_server[nic] // 8 - fabric.node_pod[leaf]) == {0}


def test_ports_come_in_order_down_first():
    built = build(servers=5)
    ports = port_map(built, find_node(built.fabric, "leaf-2"))
    assert [port.role for port in ports.ports] == ["down"] * 8 + ["up"] * 8
    assert [port.peer for port in ports.ports[:6]] == [f"node00{n}/nic1" for n in range(1, 6)] + [
        ""
    ]
    assert [port.peer for port in ports.ports[8:]] == [f"spine-{n // 2 + 1}" for n in range(8)]
    assert ports.used == 13
    assert ports.model == "inline-16x400G"


def test_extra_hosts_take_free_ports_of_the_last_unit():
    built = build(servers=15, extra_hosts={"ufm": 4})
    fabric = built.fabric
    node = find_node(fabric, "ufm")
    assert fabric.node_kind[node] == NodeKind.EXTRA
    leaves = [node_name(fabric, n) for n in fabric.link_dst[fabric.link_src == node]]
    assert leaves == ["leaf-9", "leaf-10", "leaf-11", "leaf-12"]
    roomy = build(servers=12, extra_hosts={"ufm": 4}).fabric
    links = roomy.link_dst[roomy.link_src == find_node(roomy, "ufm")]
    assert len(set(links)) == 4  # spread, though one leaf could take all four
    full = build(servers=16, extra_hosts={"ufm": 4}).plans[PlaneId.BACKEND]
    assert full.counts.switches["leaf"] == 17  # no port was free


def test_services_take_ports_but_never_add_a_leaf():
    services = [{"kind": "scheduler", "plane": "backend", "instances": 3}]
    free = build(servers=7, more={"services": services})
    assert free.plans[PlaneId.BACKEND].counts.links["host-leaf"] == 59
    assert find_node(free.fabric, "scheduler-3") == free.other_nodes["scheduler-3"]
    full = build(servers=8, more={"services": services})
    assert full.plans[PlaneId.BACKEND].counts.switches["leaf"] == 8
    assert "service-without-port" in {finding.id for finding in full.findings}
    elsewhere = build(more={"services": [{"kind": "monitoring"}]})
    assert "service-without-plane" in {finding.id for finding in elsewhere.findings}


def test_the_subnet_manager_runs_on_extra_hosts():
    built = build(
        servers=7,
        extra_hosts={"ufm": 2},
        more={"services": [{"kind": "subnet-manager", "plane": "backend", "instances": 2}]},
    )
    assert built.plans[PlaneId.BACKEND].counts.links["host-leaf"] == 58
    said = {finding.id: finding.message for finding in built.findings}
    assert "ufm" in said["service-without-own-port"]


def test_cables_group_parallel_links():
    built = build(servers=5, links_per_cable={"leaf-spine": 2, "host-leaf": 2})
    counts = built.plans[PlaneId.BACKEND].counts
    assert counts.links == {"host-leaf": 40, "leaf-spine": 64}
    assert counts.cables == {"host-leaf": 20, "leaf-spine": 32}
    odd = build(servers=5, links_per_cable={"host-leaf": 3}).plans[PlaneId.BACKEND].counts
    assert odd.cables["host-leaf"] == 15  # eight links of a server: 3 + 3 + 2
    fabric = built.fabric
    for layer in (LinkLayer.HOST_LEAF, LinkLayer.LEAF_SPINE):
        own = fabric.link_layer[0::2] == layer
        cables, size = np.unique(fabric.duplex_cable[own], return_counts=True)
        assert set(size) == {2}
        assert len(cables) == np.count_nonzero(own) // 2


# ---------------------------------------------------------------- planes


FOUR = {
    "frontend": {"transport": "ethernet", "topology": "leaf-spine", "switch": "sn4700"},
    "storage": {"shares": "frontend"},
    "management": {"transport": "ethernet", "topology": "star", "speed": "1 Gb/s"},
}


def test_planes_stand_side_by_side():
    built = build(servers=100, planes=FOUR)
    assert set(built.plans) == {PlaneId.BACKEND, PlaneId.FRONTEND, PlaneId.MANAGEMENT}
    assert built.network[PlaneId.STORAGE] is PlaneId.FRONTEND
    assert built.plans[PlaneId.FRONTEND].counts.nics == 200
    assert list(built.server_nics(3, PlaneId.STORAGE)) == list(
        built.server_nics(3, PlaneId.FRONTEND)
    )
    fabric = built.fabric
    network = fabric.link_plane >= 0
    switches = fabric.node_kind == NodeKind.SWITCH
    src, dst = fabric.link_src[network], fabric.link_dst[network]
    for end in (src, dst):
        at_switch = switches[end]
        assert np.array_equal(
            fabric.node_plane[end[at_switch]], fabric.link_plane[network][at_switch]
        )
    assert ports_used_twice(fabric) == []


def test_a_management_star_grows_access_switches():
    built = build(servers=100, planes=FOUR)
    plan = built.plans[PlaneId.MANAGEMENT]
    assert plan.counts.switches == {"leaf": 3, "spine": 1}
    assert "star-of-access-switches" in {finding.id for finding in plan.findings}
    small = build(servers=10, planes=FOUR).plans[PlaneId.MANAGEMENT]
    assert small.counts.switches == {"leaf": 1}


def test_storage_servers_attach_where_storage_traffic_runs():
    more = {"cluster": {"storage_servers": {"count": 3, "ports": 2, "speed": "200 Gb/s"}}}
    built = build(more=more, planes=FOUR)
    fabric = built.fabric
    nodes = np.flatnonzero(fabric.node_kind == NodeKind.STORAGE)
    assert [node_name(fabric, int(n)) for n in nodes] == ["storage001", "storage002", "storage003"]
    assert list(fabric.node_index[nodes]) == [0, 1, 2]
    links = np.isin(fabric.link_src, nodes)
    assert set(fabric.link_plane[links]) == {PlaneId.FRONTEND}
    assert set(fabric.link_capacity_bps[links]) == {200e9}
    alone = build(more=more)
    assert "storage-on-this-plane" in {finding.id for finding in alone.findings}
    assert set(
        alone.fabric.link_plane[alone.fabric.link_src == alone.other_nodes["storage001"]]
    ) == {0}


def test_host_traffic_reaches_the_nics_it_uses():
    fabric = build(planes=FOUR).fabric
    pcie = fabric.link_layer == LinkLayer.PCIE
    from_host = pcie & (fabric.node_kind[fabric.link_src] == NodeKind.HOST)
    assert set(fabric.node_plane[fabric.link_dst[from_host]]) == {
        PlaneId.FRONTEND,
        PlaneId.MANAGEMENT,
    }
    shared = build(planes={"storage": {"shares": "backend"}}).fabric
    pcie = shared.link_layer == LinkLayer.PCIE
    from_host = pcie & (shared.node_kind[shared.link_src] == NodeKind.HOST)
    assert set(shared.node_plane[shared.link_dst[from_host]]) == {PlaneId.BACKEND}


# ---------------------------------------------------------------- servers


@pytest.mark.parametrize(("gpus", "nics"), [(8, 8), (8, 4), (4, 8), (8, 1), (8, 3)])
def test_every_gpu_has_a_nic_and_every_nic_a_gpu(gpus, nics):
    built = build(
        servers=3,
        topology="leaf-spine",
        more={"cluster": {"servers": {"inline": {**G8, "gpus": gpus, "nics": nics}, "count": 3}}},
    )
    fabric = built.fabric
    pcie = fabric.link_layer[0::2] == LinkLayer.PCIE
    gpu, nic = fabric.link_src[0::2][pcie], fabric.link_dst[0::2][pcie]
    assert np.array_equal(fabric.node_server[gpu], fabric.node_server[nic])
    assert set(gpu) == set(fabric.gpus)
    assert np.bincount(gpu).max() == max(1, nics // gpus)
    assert set(nic) == set(fabric.nics(PlaneId.BACKEND))
    assert np.array_equal(fabric.node_server[built.nodes.gpu_nic], fabric.node_server[fabric.gpus])
    assert np.array_equal(fabric.node_rail[built.nodes.gpu_nic], fabric.node_rail[fabric.gpus])


def test_scale_up_domains_span_servers():
    built = build(
        more={"cluster": {"servers": {"model": "gb200-nvl72-tray", "count": 36}}},
        topology="leaf-spine",
        switch={"radix": 64, "speed": "400 Gb/s"},
    )
    fabric = built.fabric
    hubs = np.flatnonzero(fabric.node_kind == NodeKind.SCALE_UP)
    assert len(hubs) == 2
    sizes = [np.count_nonzero(fabric.link_dst == hub) for hub in hubs]
    assert sizes == [72, 72]
    assert find_node(fabric, "node005/scale-up") == hubs[0]
    assert find_node(fabric, "node019/scale-up") == hubs[1]
    assert set(fabric.node_rack[hubs]) == {0, 1}


def test_gpus_without_scale_up_meet_at_the_host():
    server = {"gpus": 4, "nics": 4, "nic_speed": "400 Gb/s"}
    fabric = build(more={"cluster": {"servers": {"inline": server, "count": 2}}}).fabric
    assert not np.any(fabric.node_kind == NodeKind.SCALE_UP)
    to_host = fabric.node_kind[fabric.link_dst[0::2]] == NodeKind.HOST
    assert np.count_nonzero(to_host) == 8


def test_groups_of_servers_differ():
    groups = [
        {"inline": G8, "count": 4, "name": "big"},
        {
            "inline": {**G8, "gpus": 4, "nics": 4, "nic_speed": "200 Gb/s"},
            "count": 2,
            "name": "small",
        },
    ]
    fabric = build(more={"cluster": {"servers": groups}}, topology="leaf-spine").fabric
    assert fabric.server_names == ("big001", "big002", "big003", "big004", "small001", "small002")
    assert len(fabric.gpus) == 40
    nic = find_node(fabric, "small002/nic3")
    assert fabric.node_server[nic] == 5
    assert set(fabric.link_capacity_bps[(fabric.link_src == nic) & (fabric.link_plane == 0)]) == {
        200e9
    }


# ---------------------------------------------------------------- places and delays


def test_lengths_follow_the_racks():
    facility = {"racks_per_row": 2, "rack_pitch": "1 m", "row_pitch": "10 m", "cable_slack": "5 m"}
    built = build(more={"facility": facility, "cluster": {"servers_per_rack": 2}})
    fabric, places = built.fabric, built.rack_places
    assert list(fabric.node_rack[built.nodes.host]) == [0, 0, 1, 1, 2, 2, 3, 3]
    network = fabric.link_plane >= 0
    src, dst = (
        fabric.node_rack[fabric.link_src[network]],
        fabric.node_rack[fabric.link_dst[network]],
    )
    expected = (
        5
        + np.abs(places.row[src] - places.row[dst]) * 10
        + np.abs(places.column[src] - places.column[dst])
    )
    assert np.allclose(fabric.link_length_m[network], expected)
    assert fabric.link_length_m[~network].max() == 0
    racks = np.unique(fabric.node_rack[fabric.switches(PlaneId.BACKEND)])
    assert list(racks) == [4]  # behind the servers'
    assert places.row[4] == 0  # the row of the unit's middle
    assert places.column[racks].min() >= 2  # at the end of the row


def test_delay_is_propagation_and_the_device_at_the_head():
    fabric = build(servers=2, switch={"radix": 16, "speed": "400 Gb/s", "latency": "700 ns"}).fabric
    up = np.flatnonzero(fabric.link_layer == LinkLayer.HOST_LEAF)[0]
    assert fabric.link_delay_s[up] == pytest.approx(700e-9 + fabric.link_length_m[up] / 1.98e8)


def test_top_of_rack_switches_stand_in_their_rack():
    built = build(topology="multi-zone", more={"cluster": {"servers_per_rack": 1}})
    fabric = built.fabric
    leaves = fabric.switches(PlaneId.BACKEND, 1)
    assert list(fabric.node_rack[leaves]) == list(range(8))
    spines = fabric.switches(PlaneId.BACKEND, 2)
    assert fabric.node_rack[spines].min() >= 8


def test_rack_power_bounds_the_switches_in_a_rack():
    few = build(servers=64, more={"facility": {"rack_power": "12 kW"}})
    many = build(
        servers=64, more={"facility": {"rack_power": "80 kW"}, "cluster": {"servers_per_rack": 1}}
    )
    for built, most in ((few, 8), (many, 16)):
        racks = built.fabric.node_rack[built.fabric.switches(PlaneId.BACKEND)]
        assert np.bincount(racks).max() == most


# ---------------------------------------------------------------- names


def test_all_names_are_found_again():
    fabric = build(servers=3, topology="twin-planar", planes=FOUR, extra_hosts={"ufm": 2}).fabric
    names = [node_name(fabric, node) for node in range(fabric.n_nodes)]
    assert len(set(names)) == fabric.n_nodes
    assert [find_node(fabric, name) for name in names] == list(range(fabric.n_nodes))
    assert {"p2-leaf-3", "frontend-leaf-1", "node002/frontend-nic1", "ufm"} <= set(names)


def test_ports_are_found_again():
    fabric = build(servers=3).fabric
    for duplex in np.flatnonzero(fabric.link_src_port[0::2] > 0)[::7]:
        assert find_duplex(fabric, duplex_name(fabric, int(duplex))) == duplex
        assert find_duplex(fabric, port_name(fabric, 2 * int(duplex))) == duplex
        assert find_duplex(fabric, port_name(fabric, 2 * int(duplex), head=True)) == duplex
    assert duplex_name(fabric, 0) == "node001/gpu0 – node001/scale-up"
    assert find_port(fabric, "leaf-1:port-8") == (find_node(fabric, "leaf-1"), 8)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("leaf-9", "'leaf-8'"),
        ("spin-1", "'spine-1'"),
        ("node1", "'node001'"),
        ("node001/gpu8", "'node001/gpu"),
        ("node001/gup1", "'node001/gpu1'"),
        ("p1-leaf-1", "'leaf-1'"),
        ("leaf-1:port-7", "1–3, 9–16"),
        ("leaf-1:12", "'leaf-1:port-12'"),
    ],
)
def test_wrong_names_are_answered_with_the_nearest(name, hint):
    fabric = build(servers=3).fabric
    with pytest.raises(InputError) as caught:
        find_duplex(fabric, name) if ":" in name else find_node(fabric, name)
    assert hint in str(caught.value)


def test_port_map_needs_a_switch():
    built = build(servers=2)
    with pytest.raises(ValueError, match="node001 is not a switch"):
        port_map(built, 0)


def test_the_same_design_gives_the_same_arrays():
    one, two = build(planes=FOUR).fabric, build(planes=FOUR).fabric
    for name in (
        "link_src",
        "link_dst",
        "link_delay_s",
        "link_src_port",
        "duplex_cable",
        "node_rack",
    ):
        assert np.array_equal(getattr(one, name), getattr(two, name))
