"""OpenSM routes railweave's fabrics on ibsim; railweave walks its tables and runs jobs on them."""

import os
import re
import shutil
from functools import cache
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import subnet

import railweave
from railweave.design.models import RoutingScheme, RoutingSpec, Transport
from railweave.fabric import NodeKind, PlaneId
from railweave.fabric.forwarding import read_table, write_csv
from railweave.fabric.routing import compile_routing

pytestmark = pytest.mark.real

BACKEND = PlaneId.BACKEND
PAGE = Path(__file__).parents[2] / "docs" / "model" / "routing.md"
ENGINES = ("ftree", "updn", "minhop")
DESIGN = """
railweave: 1
name: subnet
cluster: {{servers: {{model: dgx-h100, count: {servers}}}}}
planes:
  backend:
    transport: infiniband
    topology: {topology}
    switch: {{radix: {radix}, speed: 400 Gb/s}}
    {more}
jobs:
  - {{name: {job}, collective: {job}, size: 64 MiB, algorithm: {algorithm}}}
"""
SHAPES = {
    "2-leaf": {"servers": 2, "topology": "leaf-spine", "radix": 16},
    "8-leaf-rails": {"servers": 8, "topology": "rail-optimized", "radix": 16},
    "16-leaf-rails": {"servers": 12, "topology": "rail-optimized", "radix": 16},
    "three-tier": {"servers": 8, "topology": "fat-tree", "radix": 8},
}


@pytest.fixture(autouse=True, scope="module")
def programs():
    lost = subnet.missing()
    if lost and os.environ.get("RAILWEAVE_REQUIRE_REAL") == "1":
        pytest.fail(f"not installed: {lost}; tools/system-packages installs it")
    if lost:
        pytest.skip(f"not installed: {lost}")


def design(shape, *, job="all-reduce", algorithm="ring", table=None):
    more = f"routing: {{scheme: table, table: {table}}}" if table else ""
    return DESIGN.format(**SHAPES[shape], job=job, algorithm=algorithm, more=more)


@cache
def built(shape):
    return railweave.parse(design(shape)).build()


@pytest.fixture(scope="module")
def dumps(tmp_path_factory):
    """Return a function which gives OpenSM's dump for a shape and engine, computed once."""
    made = {}

    def dump(shape, engine):
        if (shape, engine) not in made:
            folder = tmp_path_factory.mktemp("opensm")
            made[shape, engine] = subnet.run_opensm(
                subnet.subnet_of(built(shape).fabric, BACKEND), engine, folder
            )
        return made[shape, engine]

    yield dump
    for path in made.values():
        shutil.rmtree(path.parent.parent)


@pytest.fixture(params=[(s, e) for s in SHAPES for e in ENGINES], ids="-".join)
def routed(request, dumps):
    """Give a fabric, its own destination routing, and the routing by OpenSM's table."""
    shape, engine = request.param
    fabric = built(shape).fabric
    table = compile_routing(
        fabric,
        BACKEND,
        RoutingSpec(scheme=RoutingScheme.TABLE),
        Transport.INFINIBAND,
        forwarding=read_table(dumps(shape, engine), fabric),
    )
    return shape, engine, built(shape).routing().planes[BACKEND], table


def all_pairs(nics):
    src, dst = np.repeat(nics, len(nics)), np.tile(nics, len(nics))
    return src[src != dst], dst[src != dst]


def shift_loads(routing, nics):
    """Return the fullest link of every shift permutation: each NIC sends to the one s further."""
    shifts = [routing.paths(nics, np.roll(nics, -s)) for s in range(1, len(nics))]
    return np.array([np.bincount(paths.link).max() for paths in shifts])


def rows_of_page():
    """Return the cells of the table in the routing page, one row a shape."""
    text = PAGE.read_text(encoding="utf-8")
    cells = re.findall(r"^\| [^|]+ \| \d+ \|((?: \d+ \([\d.]+\) \|){4})$", text, re.M)
    assert len(cells) == len(SHAPES)
    return [[cell.strip() for cell in row.strip(" |").split("|")] for row in cells]


def in_leaf_order(routing):
    """Return the plane's NICs leaf by leaf, the order that fat-tree routing is made for."""
    at = routing.addresses
    return at.node[np.lexsort((at.node, at.leaf))].astype(np.int32)


def test_every_pair_arrives_by_a_shortest_path(routed):
    _, _, own, table = routed
    fabric = table.fabric
    src, dst = all_pairs(fabric.nics(BACKEND))
    paths = table.paths(src, dst)
    assert not paths.status.any()
    first, last = paths.ptr[:-1], paths.ptr[1:] - 1
    assert np.array_equal(fabric.link_src[paths.link[first]], src)
    assert np.array_equal(fabric.link_dst[paths.link[last]], dst)
    inner = np.setdiff1d(np.arange(len(paths.link)), last)
    assert np.array_equal(
        fabric.link_dst[paths.link[inner]], fabric.link_src[paths.link[inner + 1]]
    )
    # railweave's own up–down lengths, and the hop counts of an independent search.
    assert np.array_equal(np.diff(paths.ptr), np.diff(own.paths(src, dst).ptr))
    graph = nx.Graph(
        (int(a), int(b))
        for a, b, plane in zip(fabric.link_src, fabric.link_dst, fabric.link_plane, strict=True)
        if plane == BACKEND
    )
    shortest = dict(nx.all_pairs_shortest_path_length(graph))
    hops = [shortest[a][b] for a, b in zip(src.tolist(), dst.tolist(), strict=True)]
    assert np.array_equal(np.diff(paths.ptr), hops)


def test_paths_go_up_and_then_down(routed):
    _, _, _, table = routed
    fabric = table.fabric
    paths = table.paths(*all_pairs(fabric.nics(BACKEND)))
    rises = fabric.node_tier[fabric.link_dst] > fabric.node_tier[fabric.link_src]
    flow = np.repeat(np.arange(paths.n_flows), np.diff(paths.ptr))
    turn = rises[paths.link][1:] & ~rises[paths.link][:-1] & (flow[1:] == flow[:-1])
    assert not turn.any()


def test_shift_permutations_against_own_scheme(routed):
    shape, engine, own, table = routed
    nics = in_leaf_order(own)
    theirs, ours = shift_loads(table, nics), shift_loads(own, nics)
    print(  # shown by `pytest -rP`
        f"{shape}: flows on the fullest link, worst shift (mean of shifts): "
        f"{engine} {theirs.max()} ({theirs.mean():.2f}), own {ours.max()} ({ours.mean():.2f})"
    )
    assert ours.max() == 1  # a full Clos carries every shift permutation without a collision
    if engine == "ftree" and shape in ("2-leaf", "8-leaf-rails"):
        assert theirs.max() == 1
    assert ours.mean() <= theirs.mean()
    if subnet.opensm_version() == "3.3.23":  # that of the page's table
        stated = dict(
            zip((*ENGINES, "own"), rows_of_page()[list(SHAPES).index(shape)], strict=True)
        )
        assert stated[engine] == f"{theirs.max()} ({theirs.mean():.2f})"
        assert stated["own"] == f"{ours.max()} ({ours.mean():.2f})"


@pytest.mark.parametrize(
    ("job", "algorithm"), [("all-reduce", "ring"), ("all-to-all", "direct")], ids=lambda v: v
)
@pytest.mark.parametrize("engine", ENGINES)
def test_jobs_run_over_the_table(dumps, engine, job, algorithm):
    shape = "8-leaf-rails"
    text = design(shape, job=job, algorithm=algorithm, table=dumps(shape, engine))
    over_table = railweave.parse(text).build().simulate()
    own = railweave.parse(design(shape, job=job, algorithm=algorithm)).build().simulate()
    assert over_table.unroutable_streams == 0
    assert over_table.bytes_delivered == over_table.bytes_sent == own.bytes_sent
    assert np.isfinite(over_table.stream_finish_s).all()
    if algorithm == "ring":  # rails keep the ring under its leaves: no table can slow it
        np.testing.assert_allclose(over_table.makespan_s, own.makespan_s, rtol=1e-9)
    else:  # no table beats the busiest NIC, and d-mod-k keeps the spines from being slower
        assert over_table.makespan_s >= own.makespan_s * (1 - 1e-9)


def test_a_dead_spine_is_routed_around(dumps, tmp_path):
    fabric = built("8-leaf-rails").fail(["spine-1"]).fabric
    nodes = subnet.subnet_of(fabric, BACKEND)
    assert "spine-1" not in {node.name for node in nodes}
    table = read_table(subnet.run_opensm(nodes, "updn", tmp_path), fabric)
    routing = compile_routing(
        fabric,
        BACKEND,
        RoutingSpec(scheme=RoutingScheme.TABLE),
        Transport.INFINIBAND,
        forwarding=table,
    )
    paths = routing.paths(*all_pairs(fabric.nics(BACKEND)))
    assert not paths.status.any()
    assert fabric.link_up[paths.link].all()


def test_csv_form_of_a_dump_says_the_same(dumps, tmp_path):
    fabric = built("2-leaf").fabric
    table = read_table(dumps("2-leaf", "ftree"), fabric)
    again = tmp_path / "table.csv"
    again.write_text(write_csv(table, fabric), encoding="utf-8")
    both = [
        sorted(zip(t.switch, t.destination, t.link, strict=True))
        for t in (table, read_table(again, fabric))
    ]
    assert both[0] == both[1]
    assert len(both[0]) == len(fabric.nics(BACKEND)) * np.sum(fabric.node_kind == NodeKind.SWITCH)
