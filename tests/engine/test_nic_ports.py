"""NICs with a port in each of two planes: both carry, and a lost one takes its share along."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import railweave
from minifabric import Mini
from railweave.design.models import RoutingSpec
from railweave.fabric import Fabric, LinkLayer, NodeKind, PlaneId
from railweave.fabric.forwarding import export_table, read_table, write_csv
from railweave.fabric.routing import Paths, PathStatus, RoutingSet, compile_routing

BACKEND = PlaneId.BACKEND
TWIN = """
railweave: 1
name: twin
cluster: {servers: {model: dgx-b300, count: 16}}
planes:
  backend: {transport: rocev2, topology: twin-planar, switch: sn5600}
jobs: [{name: ring, collective: all-reduce, algorithm: ring, size: 1 GiB}]
"""
DUAL = TWIN.replace("dgx-b300", "hgx-h100-8gpu-roce").replace(
    "twin-planar, switch: sn5600", "dual-plane-dual-tor, switch: {radix: 64, speed: 200 Gb/s}"
)
#: design, line rate of a server in bytes a second
CASES = pytest.mark.parametrize(
    ("text", "line_Bps"), [(TWIN, 8 * 800e9 / 8), (DUAL, 8 * 400e9 / 8)], ids=["twin", "dual"]
)
#: leaves so small that far servers meet over spines
FAR = DUAL.replace("radix: 64", "radix: 8").replace("count: 16", "count: 8")


def busbw_Bps(built: railweave.BuiltDesign) -> float:  # noqa: N802
    ranks = len(built.fabric.gpus)
    return 2 * (ranks - 1) / ranks * 2**30 / built.simulate("flow").makespan_s


def port_links(fabric: Fabric, paths: Paths) -> np.ndarray:
    """First link of each flow between NIC and leaf."""
    host = (fabric.link_layer == LinkLayer.HOST_LEAF) & (
        fabric.node_kind[fabric.link_src] == NodeKind.NIC
    )
    return paths.link[host[paths.link]]


@CASES
def test_a_ring_fills_both_ports(text: str, line_Bps: float) -> None:
    built = railweave.parse(text).build()
    # headers take 2 %; the rest is the pipeline's latency
    assert 0.95 * line_Bps < busbw_Bps(built) < line_Bps


@CASES
def test_a_lost_port_halves_the_ring(text: str, line_Bps: float) -> None:
    built = railweave.parse(text).build()
    fabric = built.fabric
    nic = fabric.nics(BACKEND)[0]
    link = np.flatnonzero((fabric.link_src == nic) & (fabric.link_layer == LinkLayer.HOST_LEAF))
    assert len(link) == 2
    whole = built.simulate("flow")
    up = fabric.link_up.copy()
    up[link[0]] = up[link[0] ^ 1] = False
    lamed = replace(fabric, link_up=up)
    routing = built.routing()
    half = railweave.engine.simulate(lamed, built.workload().traffic, routing.on(lamed))
    # the channel through this NIC is one of eight equal ones, and the last to end
    assert half.makespan_s == pytest.approx(2 * whole.makespan_s, rel=0.02)


@pytest.mark.parametrize(
    "scheme", ["ecmp", "e-ecmp", "flowlet", "static", "adaptive", "destination", "table"]
)
@pytest.mark.parametrize("text", [TWIN, FAR], ids=["near", "far"])
def test_every_scheme_deals_over_both_planes(text: str, scheme: str) -> None:
    fabric = railweave.parse(text).build().fabric
    spec = RoutingSpec(scheme=scheme)
    table = None
    if scheme == "table":
        own = compile_routing(fabric, BACKEND, RoutingSpec(scheme="destination"))
        table = export_table(own)
    routing = compile_routing(fabric, BACKEND, spec, forwarding=table)
    src, dst = fabric.gpus[:16], fabric.gpus[-16:]
    paths = routing.paths(src, dst)
    assert not paths.status.any()
    links = port_links(fabric, paths).reshape(len(src), -1)
    for m, used in enumerate(links):
        assert len(set(used.tolist())) == 2, m
        # the two ends of a flow are in one plane, half the flows in each
        planes = fabric.node_subplane[fabric.link_dst[used]]
        assert planes.mean() == 0.5
    node = fabric.link_dst[paths.link]
    switch = fabric.node_kind[node] == NodeKind.SWITCH
    flow = np.repeat(np.arange(paths.n_flows), np.diff(paths.ptr))
    for f in range(paths.n_flows):
        assert len(set(fabric.node_subplane[node[switch & (flow == f)]].tolist())) == 1
    np.testing.assert_allclose(paths.share, 1 / np.diff(paths.first)[paths.message])


def test_exported_table_of_two_planes_is_read_back(tmp_path) -> None:
    fabric = railweave.parse(FAR).build().fabric
    own = compile_routing(fabric, BACKEND, RoutingSpec(scheme="destination"))
    file = tmp_path / "table.csv"
    file.write_text(write_csv(export_table(own), fabric))
    table = read_table(file, fabric)
    again = compile_routing(fabric, BACKEND, RoutingSpec(scheme="table"), forwarding=table)
    ends = fabric.gpus[:16], fabric.gpus[-16:]
    np.testing.assert_array_equal(again.paths(*ends).link, own.paths(*ends).link)


def test_spraying_uses_both_ports_with_one_flow() -> None:
    fabric = railweave.parse(TWIN).build().fabric
    paths = compile_routing(fabric, BACKEND, RoutingSpec(scheme="spray")).paths(
        fabric.gpus[:1], fabric.gpus[-1:]
    )
    assert paths.n_flows == 1
    assert len(set(port_links(fabric, paths).tolist())) == 2


def test_queue_pairs_count_when_there_are_more_than_ports() -> None:
    fabric = railweave.parse(TWIN).build().fabric
    routing = compile_routing(fabric, BACKEND)
    ends = fabric.gpus[:1], fabric.gpus[-1:]
    assert [routing.paths(*ends, queue_pairs=n).n_flows for n in (1, 2, 3, 8)] == [2, 2, 3, 8]
    used = port_links(fabric, routing.paths(*ends, queue_pairs=8))
    assert np.unique(used, return_counts=True)[1].tolist() == [4, 4]


def test_a_plane_cut_off_behind_the_leaf_leaves_the_other() -> None:
    built = railweave.parse(FAR).build()
    fabric = built.fabric
    leaf = fabric.switches(BACKEND, 1)
    spines = fabric.switches(BACKEND, 2)
    first = spines[fabric.node_subplane[spines] == 0]
    assert (fabric.node_subplane[leaf] == 0).any()
    lamed = fabric.without(nodes=first)  # ports stay up, but their leaves lead nowhere
    paths = RoutingSet.of(built.routing()).on(lamed).paths(fabric.gpus[:8], fabric.gpus[-8:])
    assert not paths.status.any()
    assert paths.n_flows == 16
    used = port_links(lamed, paths)
    assert set(fabric.node_subplane[fabric.link_dst[used]].tolist()) == {1}


def two_ended(ports: tuple[int, int], planes: int = 1) -> tuple[Fabric, list[int]]:
    """Two NICs, each with this many ports over the leaves of ``planes`` sub-planes."""
    mini = Mini()
    nics = [mini.node(f"nic-{k}", NodeKind.NIC, plane=BACKEND, server=k) for k in range(2)]
    for p in range(planes):
        kind = {"plane": BACKEND, "subplane": p}
        spine = mini.node(f"spine-{p}", NodeKind.SWITCH, 2, **kind)
        for nic, count in zip(nics, ports, strict=True):
            leaf = mini.node(f"leaf-{p}-{nic}", NodeKind.SWITCH, 1, **kind)
            mini.link(leaf, spine, 400, LinkLayer.LEAF_SPINE, plane=BACKEND)
            for _ in range(count):
                mini.link(nic, leaf, 400, LinkLayer.HOST_LEAF, plane=BACKEND)
    return mini.build(), nics


@pytest.mark.parametrize(
    ("ports", "planes", "flows"), [((1, 1), 1, 1), ((4, 1), 1, 1), ((4, 2), 1, 2), ((1, 1), 3, 3)]
)
def test_flows_are_the_ports_both_ends_share(ports, planes, flows) -> None:
    fabric, (a, b) = two_ended(ports, planes)
    paths = compile_routing(fabric, BACKEND).paths([a], [b])
    assert paths.n_flows == flows
    assert (paths.status == PathStatus.OK).all()
    sent = [links[0] for links in paths.links_of(0)]
    assert len(set(sent)) == flows
