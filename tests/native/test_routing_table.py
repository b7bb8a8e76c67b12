"""Next-hop sets, distances and path counts against an exhaustive search."""

import signal
import time
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from routing_graphs import (
    Graph,
    Reference,
    dual_tor,
    fat_tree,
    fields,
    flows,
    leaf_spine,
    twin_plane,
)

from railweave import _native

BUILDERS = {
    "fat-tree": lambda: fat_tree(4),
    "fat-tree-parallel": lambda: fat_tree(4, parallel=2),
    "leaf-spine": lambda: leaf_spine(3, 2, 2, parallel=3),
    "dual-tor": lambda: dual_tor(3, 2, 2, ports_to_each=2),
    "twin-plane": lambda: twin_plane(3, 2, 2),
}


def assert_matches_reference(g, table, ref):
    edges = table.edge_switches.tolist()
    for edge in edges:
        for s in g.switches:
            if s == edge:
                assert table.distance(s, edge) == 0
                continue
            paths = ref.paths(s, edge)
            assert table.distance(s, edge) == (len(paths[0][0]) - 1 if paths else -1)
            assert set(table.next_hops(s, edge).tolist()) == {p[1] for p, _ in paths}
    for src in g.endpoints[:3]:
        for dst in g.endpoints:
            if src != dst:
                expected = sum(c for _, c in ref.paths(src, dst))
                assert table.path_count(src, dst) == expected


@pytest.mark.parametrize("name", BUILDERS)
def test_healthy_fabrics_match_the_reference(name):
    g = BUILDERS[name]()
    assert_matches_reference(g, g.table(), Reference(g))


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(sorted(BUILDERS)), st.data())
def test_failed_links_match_the_reference(name, data):
    g = BUILDERS[name]()
    dead = data.draw(st.sets(st.integers(0, len(g.src) - 1), max_size=len(g.src) // 3))
    up = g.up_mask(dead)
    assert_matches_reference(g, g.table(up), Reference(g, up))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_unknown_tiers_mean_plain_shortest_paths(seed):
    rng = np.random.default_rng(seed)
    g = Graph()
    hosts = [g.endpoint() for _ in range(4)]
    switches = [g.node(-1) for _ in range(9)]
    for h in hosts:
        g.link(h, switches[rng.integers(9)])
    for _ in range(14):
        a, b = rng.choice(9, 2, replace=False)
        g.link(switches[a], switches[b])
    table = g.table()
    assert not table.tiered
    assert_matches_reference(g, table, Reference(g, plain=True))


def test_one_switch_of_unknown_tier_is_enough_for_plain_paths():
    g = Graph()
    a, b = g.endpoint(), g.endpoint()
    low, other, top = g.node(1), g.node(1), g.node(2)
    g.link(a, low)
    g.link(b, other)
    g.link(low, other)
    tiered = g.table()
    assert tiered.tiered
    assert tiered.ignored_links == 2
    assert tiered.distance(low, other) == -1
    g.tier[top] = -1
    plain = g.table()
    assert plain.ignored_links == 0
    assert plain.distance(low, other) == 1


def test_distance_between_switches_without_endpoints():
    g = fat_tree(4)
    table, ref = g.table(), Reference(g)
    inner = [s for s in g.switches if g.tier[s] > 1]
    for a in inner[::3]:
        for b in inner[::2]:
            assert table.distance(a, b) == ref.hops(a, b), (a, b)


def test_next_links_lead_to_next_hops():
    g = fat_tree(4, parallel=2)
    table = g.table()
    for edge in table.edge_switches:
        for s in g.switches:
            links = table.next_links(s, edge)
            assert [g.src[x] for x in links] == [s] * len(links)
            assert [g.dst[x] for x in links] == table.next_hops(s, edge).tolist()
            assert len(set(links.tolist())) == len(links)


def test_members_take_one_link_to_each_peer_before_the_second():
    g = leaf_spine(2, 3, 1, parallel=2)
    leaf_a, leaf_b = g.table().edge_switches
    hops = g.table().next_hops(leaf_a, leaf_b).tolist()
    assert hops == sorted(set(hops)) * 2


def test_equal_sets_are_stored_once():
    g = fat_tree(4)
    # 8 leaves: one set up; 8 spines: up and two leaves; 4 cores: four pods each.
    assert g.table().n_sets == 8 * 1 + 8 * 3 + 4 * 4
    assert 0 < g.table().memory_bytes < 100_000


def test_more_links_than_fit_one_word():
    g = leaf_spine(3, 35, 1, parallel=2)
    table, ref = g.table(), Reference(g)
    leaf = table.edge_switches
    assert len(table.next_links(leaf[0], leaf[1])) == 70
    assert table.path_count(0, 1) == 35 * 4 == sum(c for _, c in ref.paths(0, 1))
    dead = [x for x in range(len(g.src)) if g.src[x] == leaf[0] and g.switch[g.dst[x]]][68]
    assert len(g.table(g.up_mask([dead])).next_links(leaf[0], leaf[1])) == 69


@pytest.mark.parametrize("name", BUILDERS)
def test_histogram_and_diameter(name):
    g = BUILDERS[name]()
    rng = np.random.default_rng(5)
    up = g.up_mask(rng.choice(len(g.src), 3, replace=False))
    table, ref = g.table(up), Reference(g, up)
    edges = table.edge_switches.tolist()
    counted = {}
    for a in edges:
        for b in edges:
            if a != b:
                counted[ref.hops(a, b)] = counted.get(ref.hops(a, b), 0) + 1
    assert table.hop_histogram() == counted
    pairs = {(a, b): ref.hops(a, b) for a in g.endpoints for b in g.endpoints if a != b}
    src, dst, hops = table.farthest()
    assert hops == max(pairs.values()) == pairs[src, dst]


def test_nothing_attached_or_nothing_at_all():
    empty = Graph().table()
    assert empty.edge_switches.tolist() == []
    assert empty.farthest() == (-1, -1, -1)
    g = Graph()
    g.link(g.node(1), g.node(2))
    assert g.table().hop_histogram() == {}
    assert g.table().distance(0, 1) == 1


def test_threads_do_not_change_anything():
    g = fat_tree(8)
    rng = np.random.default_rng(3)
    up = g.up_mask(rng.choice(len(g.src), 40, replace=False))
    one, three = g.table(up), g.table(up, threads=3)
    assert one.n_sets == three.n_sets
    for edge in one.edge_switches:
        for s in g.switches:
            assert np.array_equal(one.next_links(s, edge), three.next_links(s, edge))
    f = flows(g, 50_000)
    for scheme in ("ecmp", "dmodk"):
        results = zip(one.walk(**f, scheme=scheme), three.walk(**f, scheme=scheme), strict=True)
        for a, b in results:
            assert a is b is None or np.array_equal(a, b)


def test_links_that_skip_tiers_never_make_a_valley():
    # The spine could climb to a core that has a short cut, but it has its own way down.
    g = Graph()
    src, dst = g.endpoint(), g.endpoint()
    far, near, low, mid, top, spine = (g.node(t) for t in (1, 1, 2, 3, 5, 4))
    g.link(src, far)
    g.link(dst, near)
    for a, b in ((far, spine), (spine, mid), (mid, low), (low, near), (spine, top), (top, near)):
        g.link(a, b)
    table = g.table()
    assert table.next_hops(spine, near).tolist() == [mid]
    _, link, _, status = table.walk(**fields(g, [src], [dst]))
    assert status[0] == 0
    assert [g.dst[x] for x in link] == [far, spine, mid, low, near, dst]


def test_a_path_of_253_switch_hops_is_the_longest_allowed():
    def chain(n):
        g = Graph()
        a, b = g.endpoint(), g.endpoint()
        s = [g.node(-1) for _ in range(n)]
        g.link(a, s[0])
        for x, y in pairwise(s):
            g.link(x, y)
        g.link(s[-1], b)
        return g

    assert chain(254).table().farthest() == (0, 1, 255)
    with pytest.raises(ValueError, match="253"):
        chain(255).table()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"link_src": np.array([0, 9], np.int32)}, "names node 9"),
        ({"link_dst": np.array([1], np.int32)}, "link_dst has 1 entries, expected 2"),
        ({"tier": np.zeros(3, np.int8)}, "tier has 3 entries"),
        ({"n_nodes": -1}, "n_nodes"),
    ],
)
def test_bad_graphs_are_refused(change, message):
    good = {
        "n_nodes": 2,
        "link_src": np.array([0, 1], np.int32),
        "link_dst": np.array([1, 0], np.int32),
        "link_up": np.ones(2, bool),
        "is_switch": np.array([0, 1], np.uint8),
        "tier": np.array([0, 1], np.int8),
    }
    _native.RouteTable(**good)
    with pytest.raises(ValueError, match=message):
        _native.RouteTable(**{**good, **change})


def test_questions_about_the_wrong_kind_of_node_are_refused():
    g = leaf_spine(2, 1, 1)
    table = g.table()
    leaf, _, spine = g.switches
    with pytest.raises(ValueError, match="not a switch"):
        table.distance(0, leaf)
    with pytest.raises(ValueError, match="has no endpoints"):
        table.next_hops(leaf, spine)
    with pytest.raises(ValueError, match="not an endpoint"):
        table.path_count(0, leaf)
    with pytest.raises(ValueError, match="not a switch"):
        table.next_hops(99, leaf)


class StopNowError(Exception):
    pass


def stop_now(*_):
    raise StopNowError


@pytest.mark.parametrize(("scheme", "threads"), [("ecmp", 1), ("ecmp", 2), ("adaptive", 1)])
def test_a_long_walk_can_be_interrupted(scheme, threads):
    g = fat_tree(8)
    n = 3_000_000
    table, f = g.table(threads=threads), flows(g, n)
    f |= {"size_bytes": np.ones(n), "capacity_bps": np.ones(len(g.src)), "scheme": scheme}
    start = time.perf_counter()
    table.walk(**f)
    whole = time.perf_counter() - start
    before = signal.signal(signal.SIGALRM, stop_now)
    try:
        start = time.perf_counter()
        signal.setitimer(signal.ITIMER_REAL, whole / 10)
        with pytest.raises(StopNowError):
            table.walk(**f)
        assert time.perf_counter() - start < 0.9 * whole
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
