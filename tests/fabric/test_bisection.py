"""Bisection against networkx, against itself uncollapsed, and against hand-worked fabrics."""

import time

import networkx as nx
import numpy as np
import pytest
from _tiny import G, clos, random_graph, three_tier
from hypothesis import example, given, settings
from hypothesis import strategies as st

from railweave.fabric import _maxflow
from railweave.fabric._arrays import PlaneId
from railweave.fabric._maxflow import collapse, max_flow
from railweave.fabric.bisection import bisection, halving_model

BACK = PlaneId.BACKEND
T = 1e12


def reference(fabric, network, side):
    """Max flow by networkx over every single link, endpoints and all."""
    graph = nx.DiGraph()
    usable = fabric.usable_bps

    def add(a, b, bps):
        known = graph.get_edge_data(a, b, {"capacity": 0})["capacity"]
        graph.add_edge(a, b, capacity=known + bps)

    graph.add_nodes_from(("source", "sink"))
    for link in range(fabric.n_links):
        if fabric.link_plane[link] == BACK and link // 2 in set(network.trunk_duplex.tolist()):
            add(int(fabric.link_src[link]), int(fabric.link_dst[link]), int(usable[link]))
    ends = zip(network.host_duplex, network.host_switch, side, strict=True)
    for i, (duplex, leaf, s) in enumerate(ends):
        node, bps = int(network.switch[leaf]), int(usable[2 * duplex])
        if s == 0:
            graph.add_edge("source", ("end", i))
            add(("end", i), node, bps)
        elif s == 1:
            add(node, ("end", i), bps)
            graph.add_edge(("end", i), "sink")
    return nx.maximum_flow_value(graph, "source", "sink")


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    switches=st.integers(1, 6),
    servers=st.integers(2, 8),
    extra=st.integers(0, 6),
    lost=st.integers(0, 6),
)
def test_equals_networkx_on_random_fabrics_with_failures(seed, switches, servers, extra, lost):
    rng = np.random.default_rng(seed)
    fabric = random_graph(rng, switches=switches, servers=servers, extra=extra)
    gone = rng.choice(fabric.n_links // 2, size=min(lost, fabric.n_links // 2), replace=False)
    narrowed = fabric.without(duplex=gone.tolist())
    model = halving_model(fabric, BACK)
    assert model.halvings
    for halving in model.halvings:
        expected = reference(narrowed, model.network, halving.side)
        for collapsing in (None, True, False):
            got = model.flow_bps(halving, narrowed.link_up, collapsing=collapsing)
            assert got == expected


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), lost=st.integers(0, 5), dual=st.booleans())
def test_equals_networkx_on_clos_fabrics_with_failures(seed, lost, dual):
    rng = np.random.default_rng(seed)
    fabric = clos(servers=5, gpus=2, per_leaf=2, rails=True, spines=2, uplinks=2, dual=dual)
    gone = rng.choice(fabric.n_links // 2, size=lost, replace=False)
    spine = fabric.switches(BACK, 2)[: int(rng.integers(0, 2))]
    narrowed = fabric.without(duplex=gone.tolist(), nodes=spine)
    model = halving_model(fabric, BACK)
    for halving in model.halvings:
        expected = reference(narrowed, model.network, halving.side)
        assert model.flow_bps(halving, narrowed.link_up, collapsing=True) == expected
        assert model.flow_bps(halving, narrowed.link_up) == expected


def test_collapsing_shrinks_a_regular_fabric_to_a_few_classes():
    fabric = three_tier(pods=4, leaves=8, spines=8, cores=16, per_leaf=8)
    model = halving_model(fabric, BACK)
    source, target, group = model.network.arcs
    capacity = model.network.group_capacity(fabric.link_up)[group]
    first = model.halvings[0]
    sides = [model.network.host_capacity(fabric.link_up, first.side == s) for s in (0, 1)]
    classes = collapse((source, target, capacity), sides[0], sides[1])
    assert classes is not None
    assert int(classes.max()) + 1 == 5  # leaves and spines of either half, and the cores


def test_a_partition_that_is_not_equitable_is_refused():
    source, target = np.array([0, 1, 1, 2, 2, 3]), np.array([1, 0, 2, 1, 3, 2])
    arcs = (source, target, np.ones(6, dtype=np.int64))
    assert not _maxflow._is_equitable(arcs, np.zeros(4, dtype=np.int64))
    assert not _maxflow._is_equitable(arcs, np.array([0, 1, 1, 1]))
    assert _maxflow._is_equitable(arcs, np.array([0, 1, 1, 0]))


def test_non_blocking_fabric_has_half_the_host_bandwidth():
    fabric = clos(servers=16, gpus=8, per_leaf=8, rails=True, spines=4, uplinks=2)
    result = bisection(fabric)
    assert result.bps == 25.6 * T
    assert result.fraction == 1.0
    assert result.exact


def test_oversubscription_shows_and_the_worst_is_named():
    fabric = clos(servers=16, per_leaf=8, spines=2)
    result = bisection(fabric)
    assert result.bps == 0.8 * T
    assert result.cut == "servers: first | second half"
    flows = {cut.name: cut.bps for cut in result.cuts}
    # Half of every leaf on either side: what stays under a leaf needs no uplink.
    assert flows["servers: even | odd"] == 3.2 * T


def test_dead_spine_and_dead_leaf():
    fabric = clos(servers=16, gpus=8, per_leaf=8, rails=True, spines=4, uplinks=2)
    model = halving_model(fabric)
    spine = fabric.without(nodes=fabric.switches(BACK, 2)[:1])
    assert bisection(spine, model=model).bps == 19.2 * T
    leaf = fabric.without(nodes=fabric.switches(BACK, 1)[:1])
    assert bisection(leaf, model=model).bps == 56 * 400 * G


def test_three_tiers_with_thin_cores_are_cut_between_the_pods():
    fabric = three_tier(pods=4, leaves=4, spines=4, cores=4, per_leaf=4)
    result = bisection(fabric)
    assert result.bps == 2 * 4 * 400 * G
    assert {"servers: first | second half", "pods: even | odd"} <= {
        cut.name for cut in result.cuts if cut.bps == result.bps
    }


def test_separate_planes_add_up_and_are_not_a_cut():
    fabric = clos(servers=4, gpus=2, per_leaf=2, rails=True, spines=2, planes=2)
    result = bisection(fabric)
    assert len(result.by_subplane) == 2
    assert sum(result.by_subplane) == result.bps == 3.2 * T
    names = {cut.name: cut for cut in result.cuts}
    split = names.get("planes: first | second half") or names["leaves: first | second half"]
    assert not split.counted
    assert "crosses inside servers" in split.note


def test_rail_only_counts_server_halves_within_rails():
    fabric = clos(servers=4, gpus=4, per_leaf=4, rails=True, spines=0)
    result = bisection(fabric)
    assert result.bps == 2 * 4 * 400 * G
    assert any(cut.bps == 0 and not cut.counted for cut in result.cuts)


def brought_to_half(network, side, flow):
    """The rule for uneven sides: share of the smaller side × half of all, with every link up."""
    sides = sorted(int(network.host_bps[side == s].sum()) for s in (0, 1))
    server = np.bincount(network.host_node, weights=network.host_bps).max()
    return flow if sides[1] - sides[0] <= server else flow * sum(sides) / 2 / sides[0]


def test_three_zones_count_by_what_joins_them():
    fabric = three_tier(pods=3, leaves=2, spines=2, cores=2, per_leaf=2)
    model = halving_model(fabric)
    result = bisection(fabric, model=model)
    cuts = {cut.name: cut for cut in result.cuts}
    # 4 hosts a zone, 2 links out of it; the equal halves part the middle zone, which has no limit.
    assert cuts["servers: first | second half"].bps == 4 * 400 * G
    assert (result.cut, cuts[result.cut].bps) == ("pods: first | second half", 2 * 400 * G)
    assert cuts[result.cut].full_bps == 4 * 400 * G
    assert (result.fraction, result.bps) == (0.5, 3 * 400 * G)
    for halving in model.halvings:
        flow = reference(fabric, model.network, halving.side)
        assert cuts[halving.name].bps == flow
        assert cuts[halving.name].as_half_bps == brought_to_half(model.network, halving.side, flow)


def test_zones_of_unequal_size_are_parted_by_bandwidth_and_not_called_a_halving_for_nothing():
    fabric = clos(servers=10, per_leaf=3, spines=3)  # leaves of 3, 3, 3 and 1 servers
    cuts = {cut.name: cut for cut in bisection(fabric).cuts}
    first = cuts["leaves: first | second half"]
    assert (first.full_bps, first.as_half_bps) == (4 * 400 * G, 5 * 400 * G)
    assert first.counted


def test_uneven_sides_do_not_make_a_full_network_seem_less():
    fabric = clos(servers=12, per_leaf=4, spines=8)
    result = bisection(fabric)
    leaves = next(cut for cut in result.cuts if cut.name == "leaves: first | second half")
    assert (leaves.bps, leaves.as_half_bps) == (4 * 400 * G, 6 * 400 * G)
    assert leaves.counted
    assert (result.bps, result.fraction) == (6 * 400 * G, 1.0)


def test_a_small_zone_beside_a_large_one_says_little_of_halves():
    fabric = clos(servers=11, per_leaf=9, spines=1)
    result = bisection(fabric)
    leaves = next(cut for cut in result.cuts if cut.name == "leaves: first | second half")
    assert not leaves.counted
    assert "a quarter" in leaves.note
    assert result.cut == "servers: first | second half"


def test_uneven_leaves_of_rails_do_not_count_where_servers_are_on_both_sides():
    fabric = clos(servers=4, gpus=3, per_leaf=4, rails=True, spines=2)
    leaves = next(cut for cut in bisection(fabric).cuts if cut.name.startswith("leaves"))
    assert not leaves.counted
    assert "servers have links on both" in leaves.note


def test_halvings_stay_those_of_the_intact_fabric():
    fabric = clos(servers=8, per_leaf=2, spines=2)
    model = halving_model(fabric)
    dead = fabric.without(nodes=fabric.nics(BACK)[:4])
    assert bisection(dead, model=model).bps == 0.0
    assert bisection(fabric, model=model).bps > 0


def test_degraded_links_of_odd_speed_stay_exact():
    fabric = clos(servers=4, per_leaf=2, spines=2)
    trunk = halving_model(fabric).network.trunk_duplex[:1]
    slow = fabric.with_capacity({int(trunk[0]): 0.25})
    assert bisection(slow).bps == 500 * G
    odd = fabric.with_capacity({int(trunk[0]): 1 / 3})
    result = bisection(odd)
    assert not result.exact
    assert result.bps == pytest.approx(400 * G * 4 / 3, abs=1)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), n=st.integers(2, 6), large=st.booleans())
def test_solver_beyond_32_bits_agrees_with_networkx(data, n, large):
    top = 2**45 if large else 50
    arcs = data.draw(
        st.lists(
            st.tuples(st.integers(0, n - 1), st.integers(0, n - 1), st.integers(1, top)),
            max_size=14,
        )
    )
    arcs = [(a, b, c) for a, b, c in arcs if a != b]
    graph = nx.DiGraph()
    graph.add_nodes_from(range(n))
    for a, b, c in arcs:
        known = graph.get_edge_data(a, b, {"capacity": 0})["capacity"]
        graph.add_edge(a, b, capacity=known + c)
    columns = np.array(arcs, dtype=np.int64).reshape(-1, 3).T
    got = max_flow(n, (columns[0], columns[1], columns[2]), 0, n - 1)
    assert got == nx.maximum_flow_value(graph, 0, n - 1)


def test_24576_gpus_take_moments():
    fabric = three_tier(pods=8, leaves=192, spines=16, cores=32, per_leaf=16)
    assert len(fabric.gpus) == 24_576
    start = time.perf_counter()
    result = bisection(fabric)
    taken = time.perf_counter() - start
    assert result.bps == 4 * 16 * 2 * 400 * G
    assert taken < 60  # a ceiling for hangs only


def test_a_single_server_has_nothing_to_cut():
    result = bisection(clos(servers=1, gpus=1, per_leaf=1, spines=0))
    assert (result.bps, result.cut, result.cuts, result.fraction) == (0.0, "", (), 1.0)


# ---------------------------------------------------------------- a fabric in pieces


def pieces(fabric, network, link_up, alive):
    """Connected parts by networkx over switches and endpoints; only those with ``alive`` links."""
    graph = nx.Graph()
    graph.add_nodes_from(network.switch.tolist())
    for duplex in (*network.host_duplex.tolist(), *network.trunk_duplex.tolist()):
        if link_up[2 * duplex]:
            graph.add_edge(int(fabric.link_src[2 * duplex]), int(fabric.link_dst[2 * duplex]))
    held = set(network.switch[network.host_switch[alive]].tolist())
    return sum(bool(held & part) for part in nx.connected_components(graph))


@settings(max_examples=60, deadline=None)
@example(seed=1080, lost=6, dead=1, shape="leaf-spine")  # a halving has no live host on a side
@given(
    seed=st.integers(0, 2**32 - 1),
    lost=st.integers(0, 8),
    dead=st.integers(0, 3),
    shape=st.sampled_from(["random", "leaf-spine", "rails", "rail-only", "dual", "planes"]),
)
def test_bisection_is_nothing_exactly_where_networkx_finds_more_pieces(seed, lost, dead, shape):
    rng = np.random.default_rng(seed)
    fabric = {
        "random": lambda: random_graph(rng, switches=6, servers=8, extra=2),
        "leaf-spine": lambda: clos(servers=6, per_leaf=2, spines=2),
        "rails": lambda: clos(servers=4, gpus=2, per_leaf=2, rails=True, spines=1),
        "rail-only": lambda: clos(servers=4, gpus=3, per_leaf=4, rails=True, spines=0),
        "dual": lambda: clos(servers=4, per_leaf=2, spines=1, dual=True),
        "planes": lambda: clos(servers=4, per_leaf=2, spines=1, planes=2),
    }[shape]()
    model = halving_model(fabric, BACK)
    network = model.network
    switches = network.switch[rng.choice(network.n, min(dead, network.n - 1), replace=False)]
    gone = rng.choice(fabric.n_links // 2, size=lost, replace=False)
    after = fabric.without(duplex=gone.tolist(), nodes=switches)
    alive = after.link_up[2 * network.host_duplex]
    now = pieces(fabric, network, after.link_up, alive)
    before = pieces(fabric, network, fabric.link_up, alive)
    assert model.torn(after.link_up) == (now if now > before else 0)
    found = bisection(after, model=model)
    assert (found.bps, found.cut) == model.worst(after.link_up)
    if now > before:
        assert (found.bps, found.cut) == (0.0, f"the fabric is in {now} pieces")
        assert found.fraction == 0.0
    else:
        flows = [
            brought_to_half(network, h.side, reference(after, network, h.side))
            for h in model.halvings
            if h.counted
        ]
        assert found.bps == pytest.approx(min(flows), rel=1e-12)


def test_islands_of_leaves_have_no_bisection_though_halves_meet_within_them():
    fabric = clos(servers=6, per_leaf=2, spines=1, gpus=4)
    model = halving_model(fabric)
    dead = fabric.without(nodes=fabric.switches(BACK, 2))
    assert max(model.flow_bps(h, dead.link_up) for h in model.halvings) > 0
    assert bisection(dead, model=model).cut == "the fabric is in 3 pieces"


def test_a_dead_leaf_is_no_piece_and_another_plane_holds_the_fabric_together():
    fabric = clos(servers=6, per_leaf=2, spines=1)
    model = halving_model(fabric)
    assert bisection(fabric.without(nodes=fabric.switches(BACK, 1)[:1]), model=model).bps > 0
    planes = clos(servers=6, per_leaf=2, spines=1, planes=2)
    spines = planes.switches(BACK, 2)
    model = halving_model(planes)
    intact = bisection(planes, model=model)
    one = bisection(planes.without(nodes=spines[:1]), model=model)
    assert one.bps == intact.bps / 2
    assert one.by_subplane == (0.0, intact.by_subplane[1])
    assert bisection(planes.without(nodes=spines), model=model).bps == 0.0
