"""The channel dependency graph against enumeration of every way that traffic may take."""

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from routing_graphs import Graph, fat_tree, leaf_spine, twin_plane

from railweave import _native

EXAMPLES = settings(max_examples=120, deadline=None)


@st.composite
def graphs(draw, tier):
    """Few switches, wired anyhow, some links down, endpoints with one or two ports."""
    g = Graph()
    n = draw(st.integers(1, 6))
    for _ in range(n):
        g.node(draw(tier))
    for _ in range(draw(st.integers(0, 10)) if n > 1 else 0):
        a = draw(st.integers(0, n - 1))
        g.link(a, (a + draw(st.integers(1, n - 1))) % n)
    for _ in range(draw(st.integers(0, 6))):
        v = g.endpoint()
        for _ in range(draw(st.integers(1, 2))):
            g.link(v, draw(st.integers(0, n - 1)))
    dead = draw(st.sets(st.integers(0, max(0, len(g.src) - 1)), max_size=3))
    return g, g.up_mask([k for k in dead if k < len(g.src)])


def live(g, up, v, out=True):
    """Live links between an endpoint and its switches."""
    ends = g.src if out else g.dst
    return [k for k in range(len(g.src)) if ends[k] == v and up[k]]


def ways(g, up, step, distance):
    """Walk on from each live port of each endpoint to each other one; ``step`` gives all hops."""
    for v in g.endpoints:
        for d in g.endpoints:
            exits = {g.src[k] for k in live(g, up, d, out=False)} if d != v else set()
            for port in live(g, up, v):
                far = {e: distance(g.dst[port], e) for e in exits}
                near = min((x for x in far.values() if x >= 0), default=-1)
                for e in (e for e in far if far[e] == near >= 0):
                    todo = [(port, ())]
                    while todo:
                        last, path = todo.pop()
                        if g.dst[last] == e:
                            yield path
                            continue
                        todo += [(k, (*path, k)) for k in step(g.dst[last], e)]


def waiting(paths):
    crossed, pairs = set(), set()
    for path in paths:
        crossed |= set(path)
        pairs |= set(pairwise(path))
    return crossed, pairs


def girth(pairs):
    graph = nx.DiGraph(list(pairs))
    best = 0
    for a, b in graph.edges:
        if nx.has_path(graph, b, a):
            length = nx.shortest_path_length(graph, b, a) + 1
            best = min(best or length, length)
    return best


def check(graph, crossed, pairs, links):
    assert graph.channels == len(crossed)
    assert {(a, b) for a in range(links) for b in range(links) if graph.waits(a, b)} == pairs
    assert graph.dependencies == len(pairs)
    cycle, shortest = graph.shortest_cycle()
    assert shortest
    assert len(cycle) == girth(pairs)
    cycle = cycle.tolist()
    assert all(step in pairs for step in zip(cycle, cycle[1:] + cycle[:1], strict=True))
    assert not cycle or cycle[0] == min(cycle)
    return cycle


@given(graphs(st.just(-1)))
@EXAMPLES
def test_shortest_paths_on_any_graph(case):
    """Independent of the compiled sets: distances are networkx's."""
    g, up = case
    wires = nx.MultiDiGraph()
    wires.add_nodes_from(g.switches)
    for k, (a, b) in enumerate(zip(g.src, g.dst, strict=True)):
        if up[k] and g.switch[a] and g.switch[b]:
            wires.add_edge(a, b, key=k)
    hops = dict(nx.all_pairs_shortest_path_length(wires))

    def distance(a, b):
        return hops[a].get(b, -1)

    def step(s, e):
        return [k for _, t, k in wires.out_edges(s, keys=True) if distance(t, e) == hops[s][e] - 1]

    graph = _native.LinkDependencies(g.table(up))
    graph.add_next_hops()
    check(graph, *waiting(ways(g, up, step, distance)), len(g.src))


@given(graphs(st.integers(1, 3)))
@EXAMPLES
def test_up_down_never_waits_in_a_circle(case):
    g, up = case
    table = g.table(up)
    graph = _native.LinkDependencies(table)
    graph.add_next_hops()
    step = lambda s, e: table.next_links(s, e).tolist()  # noqa: E731
    assert not check(graph, *waiting(ways(g, up, step, table.distance)), len(g.src))


@given(graphs(st.sampled_from((-1, 1, 2))), st.randoms(use_true_random=False))
@EXAMPLES
def test_tables_are_followed_from_every_sender(case, random):
    g, up = case
    entry = {}
    for s in g.switches:
        out = [k for k in range(len(g.src)) if g.src[k] == s]
        for d in g.endpoints:
            if out and random.random() < 0.8:
                entry[s, d] = random.choice(out)
    paths = []
    for v in g.endpoints:
        for d in g.endpoints:
            for port in live(g, up, v) if d != v else ():
                node, path = g.dst[port], []
                while g.switch[node] and len(path) < 20:
                    link = entry.get((node, d), -1)
                    if link < 0 or not up[link]:
                        break
                    if g.switch[g.dst[link]]:
                        path.append(link)
                    node = g.dst[link]
                paths.append(path)
    graph = _native.LinkDependencies(g.table(up))
    rows = np.array([(s, d, k) for (s, d), k in entry.items()], np.int32).reshape(-1, 3)
    graph.add_entries(*(np.ascontiguousarray(column) for column in rows.T))
    check(graph, *waiting(paths), len(g.src))


@given(st.lists(st.tuples(st.integers(0, 11), st.integers(0, 1)), max_size=20))
@EXAMPLES
def test_shortest_cycle_of_any_turns(turns):
    """Turns at the switches of a full mesh, each of them traffic that dies behind it."""
    g = Graph()
    for _ in range(4):
        g.node(-1)
    for a in range(4):
        for b in range(a):
            g.link(a, b)
    pairs = {
        (a, [k for k in range(12) if g.src[k] == g.dst[a] and g.dst[k] != g.src[a]][b])
        for a, b in turns
    }
    for s in g.switches:
        g.link(g.endpoint(), s)
    entries = []
    for a, b in pairs:
        entries += [(g.src[a], g.endpoint(), a), (g.dst[a], g.n - 1, b)]
    graph = _native.LinkDependencies(g.table())
    columns = np.array(entries, np.int32).reshape(-1, 3).T
    graph.add_entries(*(np.ascontiguousarray(column) for column in columns))
    check(graph, {k for pair in pairs for k in pair}, pairs, 12)


def ring(n):
    g = Graph()
    for _ in range(n):
        g.node(-1)
    for s in range(n):
        g.link(s, (s + 1) % n)
    for s in range(n):
        g.link(g.endpoint(), s)
    return g


@pytest.mark.parametrize("n", [3, 4, 5, 6, 9])
def test_a_ring_waits_for_itself_from_four_switches_on(n):
    g = ring(n)
    graph = _native.LinkDependencies(g.table())
    graph.add_next_hops()
    cycle, _ = graph.shortest_cycle()
    # In a ring of three every other switch is a neighbour; in one of four both ways round are used.
    assert cycle.tolist() == ([] if n == 3 else list(range(0, 2 * n, 2)))
    assert graph.channels == 2 * n


def test_reasons_name_the_traffic():
    g = ring(5)
    table = g.table()
    graph = _native.LinkDependencies(table)
    graph.watch(np.arange(0, 10, 2, dtype=np.int32))
    assert graph.reasons.tolist() == [-1] * 5
    graph.add_next_hops()
    # What comes from s over s + 1 goes on to s + 2 alone.
    assert graph.reasons.tolist() == [(s + 2) % 5 for s in range(5)]


def test_a_search_that_was_given_up_says_so():
    g = ring(6)
    graph = _native.LinkDependencies(g.table())
    graph.add_next_hops()
    cycle, shortest = graph.shortest_cycle(0)
    assert len(cycle) == 6
    assert not shortest


@pytest.mark.parametrize(
    "make", [lambda: fat_tree(4), lambda: leaf_spine(4, 3, 2), lambda: twin_plane(3, 2, 2)]
)
def test_untiered_clos_is_free_until_it_is_miswired(make):
    """Shortest paths in a whole Clos go up and down even where nobody says what is up."""
    g = make()
    flat = np.where(np.array(g.switch), -1, 0)
    graph = _native.LinkDependencies(g.table(tier=flat))
    graph.add_next_hops()
    assert graph.dependencies > 0
    assert not graph.shortest_cycle()[0].size


def test_bad_input_is_named():
    g = ring(4)
    graph = _native.LinkDependencies(g.table())
    one = lambda x: np.array([x], np.int32)  # noqa: E731
    with pytest.raises(ValueError, match="link 2 does not leave node 0"):
        graph.add_entries(one(0), one(4), one(2))
    with pytest.raises(ValueError, match="node 4 is not a switch"):
        graph.add_entries(one(4), one(5), one(8))
    with pytest.raises(ValueError, match="no node 99"):
        graph.add_entries(one(0), one(99), one(0))
    with pytest.raises(ValueError, match="the graph has tiers"):
        _native.LinkDependencies(leaf_spine(2, 2, 1).table()).add_destinations()
    with pytest.raises(ValueError, match="no link 77"):
        graph.waits(0, 77)
