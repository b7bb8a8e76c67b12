"""Routing of planes: what each scheme does, and how ends reach their NICs."""

import numpy as np
import pytest

from minifabric import Mini, clos
from railweave.design.models import RoutingScheme, RoutingSpec, Transport
from railweave.errors import DesignError, InputError
from railweave.fabric import LinkLayer, NodeKind, PlaneId
from railweave.fabric._headers import udp_source_port
from railweave.fabric.addressing import ip_text, plane_addresses
from railweave.fabric.forwarding import export_table, read_table, write_csv, write_opensm
from railweave.fabric.routing import PathStatus, RoutingSet, compile_routing

BACKEND = PlaneId.BACKEND


def route(fabric, scheme=RoutingScheme.ECMP, **options):
    transport = options.pop("transport", Transport.ROCEV2)
    seed = options.pop("seed", 0)
    spec = RoutingSpec(scheme=scheme, **options)
    return compile_routing(fabric, BACKEND, spec, transport, seed)


def all_pairs(fabric):
    gpus = fabric.gpus
    src, dst = np.repeat(gpus, len(gpus)), np.tile(gpus, len(gpus))
    keep = src != dst
    return src[keep], dst[keep]


def check_chains(fabric, paths, src, dst):
    """Every unsprayed path leads from its source to its destination, link by link."""
    for m in range(paths.n_messages):
        for links in paths.links_of(m):
            assert fabric.link_src[links[0]] == src[m]
            assert fabric.link_dst[links[-1]] == dst[m]
            assert np.array_equal(fabric.link_dst[links[:-1]], fabric.link_src[links[1:]])
            assert fabric.link_up[links].all()


@pytest.mark.parametrize("scheme", [s for s in RoutingScheme if s.value not in ("spray", "table")])
def test_every_scheme_leads_from_end_to_end(scheme):
    fabric, _ = clos(servers=4, gpus=4, spines=3, leaves=2)
    src, dst = all_pairs(fabric)
    paths = route(fabric, scheme, queue_pairs=2, flowlets=3).paths(src, dst)
    assert not paths.status.any()
    check_chains(fabric, paths, src, dst)
    np.testing.assert_allclose(np.add.reduceat(paths.share, paths.first[:-1]), 1.0)


def test_same_server_stays_on_scale_up():
    fabric, names = clos()
    a, b = names["server-0:gpu-0"], names["server-0:gpu-3"]
    paths = route(fabric, queue_pairs=4).paths([a], [b])
    assert paths.n_flows == 1
    assert paths.plane.tolist() == [-1]
    assert set(fabric.link_layer[paths.link]) == {LinkLayer.SCALE_UP}


def test_without_scale_up_the_network_is_used():
    fabric, names = clos(scale_up_gbps=0)
    paths = route(fabric).paths([names["server-0:gpu-0"]], [names["server-0:gpu-1"]])
    layers = [LinkLayer.PCIE, LinkLayer.HOST_LEAF, LinkLayer.LEAF_SPINE]
    assert fabric.link_layer[paths.link].tolist() == layers + layers[::-1]


def test_spray_splits_equally_and_conserves():
    fabric, names = clos(spines=4)
    src, dst = [names["server-0:gpu-0"]], [names["server-1:gpu-1"]]
    paths = route(fabric, RoutingScheme.SPRAY).paths(src, dst)
    up = (fabric.link_layer[paths.link] == LinkLayer.LEAF_SPINE) & (
        fabric.node_tier[fabric.link_src[paths.link]] == 1
    )
    np.testing.assert_allclose(paths.weight[up], 0.25)
    assert up.sum() == 4


def test_destination_scheme_spreads_destinations_evenly():
    # d-mod-k: 8 destinations behind one leaf take 8 different uplinks of any other leaf.
    fabric, names = clos(servers=4, gpus=4, spines=8, leaves=2)
    src = np.full(8, names["server-0:gpu-0"])
    dst = [names[f"server-{s}:gpu-{g}"] for s in (2, 3) for g in range(4)]
    paths = route(fabric, RoutingScheme.DESTINATION).paths(src, dst)
    up = paths.link[paths.ptr[:-1] + 2]
    assert len(set(up.tolist())) == 8


def test_static_pins_hosts_to_uplinks_one_to_one():
    fabric, names = clos(servers=4, gpus=4, spines=8, leaves=2)
    src = [names[f"server-{s}:gpu-{g}"] for s in (0, 1) for g in range(4)]
    dst = [names[f"server-{s}:gpu-{g}"] for s in (2, 3) for g in range(4)]
    paths = route(fabric, RoutingScheme.STATIC).paths(src, dst)
    assert len(set(paths.link[paths.ptr[:-1] + 2].tolist())) == 8


def test_more_queue_pairs_and_their_hash_spread_better():
    fabric, names = clos(servers=4, gpus=4, spines=8, leaves=2)
    src = [names[f"server-{s}:gpu-{g}"] for s in (0, 1) for g in range(4)]
    dst = [names[f"server-{s}:gpu-{g}"] for s in (2, 3) for g in range(4)]

    def worst(scheme, fields, pairs):
        loads = []
        for seed in range(6):
            routing = route(fabric, scheme, fields=fields, queue_pairs=pairs, seed=seed)
            paths = routing.paths(src, dst)
            load = np.bincount(paths.link[paths.ptr[:-1] + 2], weights=paths.share)
            loads.append(load.max())
        return np.mean(loads)

    ips = ("src-ip", "dst-ip")
    assert worst("e-ecmp", ips, 16) < worst("e-ecmp", ips, 1)
    # Switches that hash addresses alone cannot tell queue pairs apart.
    assert worst("ecmp", ips, 16) == worst("ecmp", ips, 1)


def two_tiers_of_choice():
    """Leaves with 4 uplinks to 4 spines, each spine with 4 uplinks to its own cores."""
    mini = Mini()
    plane = {"plane": BACKEND}
    leaf = [mini.node(f"leaf-{k}", NodeKind.SWITCH, 1, **plane) for k in range(2)]
    spine = [[mini.node(f"s{p}{k}", NodeKind.SWITCH, 2, **plane) for k in range(4)] for p in (0, 1)]
    core = [
        [mini.node(f"c{k}{j}", NodeKind.SWITCH, 3, **plane) for j in range(4)] for k in range(4)
    ]
    nics = [
        [mini.node(f"nic-{p}-{i}", NodeKind.NIC, **plane, server=32 * p + i) for i in range(32)]
        for p in (0, 1)
    ]
    for p in (0, 1):
        for nic in nics[p]:
            mini.link(nic, leaf[p], 400, LinkLayer.HOST_LEAF, **plane)
        for k in range(4):
            mini.link(leaf[p], spine[p][k], 400, LinkLayer.LEAF_SPINE, **plane)
            for j in range(4):
                mini.link(spine[p][k], core[k][j], 400, LinkLayer.SPINE_CORE, **plane)
    return mini.build(), nics


def test_equal_seeds_polarise():
    fabric, nics = two_tiers_of_choice()
    src, dst = np.repeat(nics[0], 32), np.tile(nics[1], 32)

    def cores_used(seeds):
        paths = route(fabric, seeds=seeds).paths(src, dst)
        to_core = fabric.node_tier[fabric.link_dst[paths.link]] == 3
        return len(set(paths.link[to_core].tolist()))

    assert cores_used("per-switch") == 16
    assert cores_used("equal") == 4  # each spine sees only flows that hash alike


@pytest.mark.parametrize("hash_name", ["crc16", "crc32", "xor"])
def test_hash_function_and_seed_change_paths(hash_name):
    fabric, _ = clos(servers=4, gpus=4, spines=8, leaves=2)
    src, dst = all_pairs(fabric)
    base = route(fabric, hash=hash_name).paths(src, dst)
    assert np.array_equal(base.link, route(fabric, hash=hash_name).paths(src, dst).link)
    assert not np.array_equal(base.link, route(fabric, hash=hash_name, seed=1).paths(src, dst).link)
    other = "crc32" if hash_name != "crc32" else "xor"
    assert not np.array_equal(base.link, route(fabric, hash=other).paths(src, dst).link)


def test_connections_of_one_pair_differ():
    fabric, names = clos(spines=8)
    src, dst = np.full(32, names["server-0:gpu-0"]), np.full(32, names["server-1:gpu-1"])
    routing = route(fabric)
    assert len({tuple(p.links_of(0)[0]) for p in [routing.paths(src, dst)]}) == 1
    same = routing.paths(src, dst, connection=7)
    assert len(set(same.link[same.ptr[:-1] + 2].tolist())) == 1
    varied = routing.paths(src, dst, connection=np.arange(32))
    assert len(set(varied.link[varied.ptr[:-1] + 2].tolist())) > 4


def test_failed_links_and_switches_are_avoided():
    fabric, names = clos(spines=2)
    src, dst = all_pairs(fabric)
    routing = route(fabric)
    assert not routing.paths(src, dst).status.any()
    lamed = fabric.without(nodes=[names["spine-0-0"]])
    paths = routing.on(lamed).paths(src, dst)
    assert not paths.status.any()
    check_chains(lamed, paths, src, dst)
    dead = fabric.without(nodes=[names["spine-0-0"], names["spine-0-1"]])
    paths = routing.on(dead).paths([names["server-0:gpu-0"]], [names["server-1:gpu-0"]])
    assert not paths.status.any()  # same rail: one leaf is enough


def test_rail_only_crosses_rails_inside_the_server():
    fabric, names = clos(rail_only=True)
    a, b = names["server-0:gpu-0"], names["server-1:gpu-2"]
    paths = route(fabric).paths([a], [b])
    assert paths.status.tolist() == [PathStatus.OK]
    assert paths.indirect == 1
    check_chains(fabric, paths, [a], [b])
    assert names["server-0:nic-2"] in fabric.link_src[paths.link]


def test_rail_only_without_scale_up_has_no_way():
    fabric, names = clos(rail_only=True, scale_up_gbps=0)
    a, b = names["server-0:gpu-0"], names["server-1:gpu-2"]
    paths = route(fabric).paths([a], [b])
    assert paths.status.tolist() == [PathStatus.UNREACHABLE]
    assert len(paths.link) == 0


def test_a_dead_nic_borrows_its_neighbours():
    fabric, names = clos()
    lamed = fabric.without(nodes=[names["server-0:nic-1"]])
    a, b = names["server-0:gpu-1"], names["server-2:gpu-1"]
    for src, dst in ((a, b), (b, a)):
        paths = route(lamed).paths([src], [dst])
        assert not paths.status.any()
        check_chains(lamed, paths, [src], [dst])


def test_no_nic_in_the_plane_is_said():
    mini = Mini()
    gpus = [mini.node(f"g{k}", NodeKind.GPU, server=k) for k in range(2)]
    hub = mini.node("hub", NodeKind.SCALE_UP, server=0)
    mini.link(gpus[0], hub, 100, LinkLayer.SCALE_UP)
    fabric = mini.build()
    paths = route(fabric).paths([gpus[0]], [gpus[1]])
    assert paths.status.tolist() == [PathStatus.NO_NIC]


def test_twin_planes_take_the_queue_pairs_in_both():
    fabric, names = clos(subplanes=2)
    paths = route(fabric, queue_pairs=16).paths(
        [names["server-0:gpu-0"]], [names["server-2:gpu-0"]]
    )
    used = {int(fabric.node_subplane[fabric.link_dst[links[1]]]) for links in paths.links_of(0)}
    assert used == {0, 1}


def test_hosts_use_the_nics_of_their_plane_and_shared_planes_share():
    mini = Mini()
    front = {"plane": PlaneId.FRONTEND}
    leaf = mini.node("leaf", NodeKind.SWITCH, 1, **front)
    hosts = [mini.node(f"h{k}", NodeKind.HOST, server=k) for k in range(2)]
    store = mini.node("store", NodeKind.STORAGE)
    for k, host in enumerate(hosts):
        for _ in range(2):
            nic = mini.node(f"n{k}{_}", NodeKind.NIC, server=k, **front)
            mini.link(host, nic, 200, LinkLayer.PCIE)
            mini.link(nic, leaf, 100, LinkLayer.HOST_LEAF, **front)
    mini.link(store, leaf, 200, LinkLayer.HOST_LEAF, **front)
    fabric = mini.build()
    frontend = compile_routing(fabric, PlaneId.FRONTEND, transport=Transport.TCP)
    planes = RoutingSet({PlaneId.FRONTEND: frontend, PlaneId.STORAGE: frontend})
    kinds = np.array([PlaneId.FRONTEND, PlaneId.STORAGE], dtype=np.int8)
    paths = planes.paths(hosts, [hosts[1], store], kinds, queue_pairs=2)
    assert not paths.status.any()
    assert len({int(links[0]) for links in paths.links_of(0)}) == 2  # both NICs
    with pytest.raises(InputError, match="backend"):
        planes.paths(hosts, hosts[::-1], BACKEND)


# ---------------------------------------------------------------- tables, addresses, headers


@pytest.mark.parametrize("write", [write_csv, write_opensm])
def test_exported_table_routes_as_the_scheme_it_came_from(tmp_path, write):
    fabric, names = clos(servers=4, gpus=4, spines=4, leaves=2)
    own = route(fabric, RoutingScheme.DESTINATION)
    file = tmp_path / "table.txt"
    file.write_text(write(export_table(own), fabric, names))
    table = read_table(file, fabric, names)
    loaded = compile_routing(
        fabric, BACKEND, RoutingSpec(scheme=RoutingScheme.TABLE), forwarding=table
    )
    src, dst = all_pairs(fabric)
    a, b = own.paths(src, dst), loaded.paths(src, dst)
    assert not b.status.any()
    assert np.array_equal(a.link, b.link)


def test_table_problems_carry_their_lines(tmp_path):
    fabric, names = clos()
    file = tmp_path / "t.csv"
    file.write_text(
        "switch,destination,port\nleaf-0-9,server-0:nic-0,1\nleaf-0-0,server-0:nic-0,99\n"
    )
    with pytest.raises(DesignError) as caught:
        read_table(file, fabric, names)
    assert [p.line for p in caught.value.problems] == [2, 3]
    assert caught.value.problems[0].nearest.startswith("leaf-0-")
    file.write_text("what,is,this\n")
    with pytest.raises(InputError, match="not a forwarding table"):
        read_table(file, fabric, names)
    with pytest.raises(InputError, match="cannot be read"):
        read_table(tmp_path / "none.csv", fabric, names)
    with pytest.raises(InputError, match="no forwarding table"):
        export_table(route(fabric))
    with pytest.raises(InputError, match="needs a forwarding-table file"):
        route(fabric, RoutingScheme.TABLE).paths(
            [names["server-0:gpu-0"]], [names["server-1:gpu-1"]]
        )


def test_real_dump_of_ibroute_is_read(tmp_path):
    fabric, names = clos(servers=2, gpus=1, spines=0, leaves=1)
    file = tmp_path / "lfts"
    file.write_text(
        "Unicast lids [0x0-0x3] of switch Lid 1 guid 0x0000000000200000 (leaf-0-0):\n"
        "  Lid  Out   Destination\n       Port     Info \n"
        "0x0001 000 : (Switch portguid 0x0000000000200000: 'leaf-0-0')\n"
        "0x0002 001 : (Channel Adapter portguid 0x0000000000100001: 'server-0:nic-0')\n"
        "0x0003 002 : (Channel Adapter portguid 0x0000000000100004: 'server-1:nic-0')\n"
        "3 valid lids dumped \n"
    )
    table = read_table(file, fabric, names)
    assert sorted(table.destination.tolist()) == [names["server-0:nic-0"], names["server-1:nic-0"]]


def test_addresses_are_unique_and_by_leaf():
    fabric, names = clos(servers=4, gpus=4, subplanes=2)
    at = plane_addresses(fabric, BACKEND)
    assert len(set(at.ip.tolist())) == len(at.ip) == 32
    assert not set(at.ip.tolist()) & set(at.gateway_ip.tolist())
    assert at.prefix_length == 29  # 4 hosts, leaf, network, broadcast: 8 addresses
    assert at.of_node(names["server-0:nic-0"]) == ("10.0.0.2", "10.0.0.34")
    assert ip_text(int(at.node_ip[names["server-0:nic-0"]])) == "10.0.0.2"
    mask = (1 << 32) - (1 << (32 - at.prefix_length))
    assert np.array_equal(at.ip & np.uint32(mask), at.gateway_ip & np.uint32(mask))
    lamed = fabric.without(nodes=[names["server-0:nic-0"]])
    assert np.array_equal(plane_addresses(lamed, BACKEND).ip, at.ip)


def test_udp_source_port_follows_the_kernel():
    local, remote = 0x12345, 0x6789A
    v = local * remote
    v ^= v >> 20
    v ^= v >> 40
    label = v & 0xFFFFF
    expected = ((label & 0x3FFF) ^ (label >> 14)) | 0xC000
    got = udp_source_port(np.array([local], np.uint64), np.array([remote], np.uint64))
    assert got.tolist() == [expected]


def test_merged_messages_keep_their_order():
    fabric, _ = clos()
    src, dst = all_pairs(fabric)
    routing = route(fabric, queue_pairs=3)
    both = routing.paths(src, dst)
    for m in range(0, len(src), 7):
        one = routing.paths(src[m : m + 1], dst[m : m + 1])
        assert [r.tolist() for r in one.links_of(0)] == [r.tolist() for r in both.links_of(m)]


def test_adaptive_uses_every_uplink_evenly():
    fabric, names = clos(servers=4, gpus=4, spines=8, leaves=2)
    src = [names[f"server-{s}:gpu-{g}"] for s in (0, 1) for g in range(4)]
    dst = [names[f"server-{s}:gpu-{g}"] for s in (2, 3) for g in range(4)]
    paths = route(fabric, RoutingScheme.ADAPTIVE).paths(src, dst, size_bytes=1e6)
    assert len(set(paths.link[paths.ptr[:-1] + 2].tolist())) == 8


def test_no_messages_give_no_paths():
    fabric, _ = clos()
    empty = np.zeros(0, dtype=np.int32)
    assert route(fabric).paths(empty, empty).n_flows == 0
    assert RoutingSet.of(route(fabric)).paths(empty, empty).n_messages == 0


def test_gpus_without_scale_up_meet_at_their_host():
    mini = Mini()
    host = mini.node("host", NodeKind.HOST, server=0)
    gpus = [mini.node(f"g{k}", NodeKind.GPU, server=0) for k in range(2)]
    for gpu in gpus:
        mini.link(gpu, host, 252, LinkLayer.PCIE)
    fabric = mini.build()
    paths = route(fabric).paths([gpus[0]], [gpus[1]])
    check_chains(fabric, paths, [gpus[0]], [gpus[1]])
    assert paths.link.tolist() == [0, 3]
    assert paths.plane.tolist() == [-1]


def test_dead_pcie_link_is_never_used():
    fabric, names = clos(servers=2, gpus=1, spines=0, leaves=1, scale_up_gbps=0)
    a, b = names["server-0:gpu-0"], names["server-1:gpu-0"]
    pcie = np.flatnonzero((fabric.link_src == a) & (fabric.link_layer == LinkLayer.PCIE))
    lamed = fabric.without(duplex=[int(pcie[0]) // 2])
    paths = route(lamed).paths([a, b], [b, a])
    assert paths.status.tolist() == [PathStatus.NO_NIC] * 2
    assert len(paths.link) == 0


def test_queue_pairs_of_the_traffic_and_of_the_plane():
    fabric, names = clos()
    src, dst = [names["server-0:gpu-0"]] * 2, [names["server-1:gpu-1"]] * 2
    paths = route(fabric, queue_pairs=3).paths(src, dst, queue_pairs=np.array([1, 5]))
    assert np.diff(paths.first).tolist() == [3, 5]
