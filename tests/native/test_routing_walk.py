"""Paths of every scheme: valid, shortest, shared as the scheme promises."""

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
    split,
    twin_plane,
)

from railweave import _native

BUILDERS = {
    "fat-tree": lambda: fat_tree(4),
    "fat-tree-parallel": lambda: fat_tree(4, parallel=3),
    "leaf-spine": lambda: leaf_spine(3, 2, 2, parallel=3),
    "dual-tor": lambda: dual_tor(3, 2, 2, ports_to_each=2),
    "twin-plane": lambda: twin_plane(3, 2, 2),
}
SINGLE_PATH = ["ecmp", "dmodk", "adaptive", "pinned"]


def extras(g, n, seed=0):
    """What the schemes need besides the header fields."""
    rng = np.random.default_rng(seed)
    return {
        "size_bytes": rng.uniform(1, 1e6, n),
        "capacity_bps": np.full(len(g.src), 400e9),
        "pin": rng.integers(0, 100, n).astype(np.int32),
    }


def loads(g, result):
    return _native.count_by_link(result[0], result[1], len(g.src))


def assert_contiguous(g, path, src, dst):
    assert g.src[path[0]] == src
    assert g.dst[path[-1]] == dst
    for a, b in pairwise(path):
        assert g.dst[a] == g.src[b]


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(sorted(BUILDERS)), st.sampled_from(SINGLE_PATH), st.data())
def test_paths_are_live_shortest_and_valley_free(name, scheme, data):
    g = BUILDERS[name]()
    dead = data.draw(st.sets(st.integers(0, len(g.src) - 1), max_size=len(g.src) // 3))
    up = g.up_mask(dead)
    ref = Reference(g, up)
    f = flows(g, 60, seed=data.draw(st.integers(0, 1000)))
    ptr, link, weight, status = g.table(up).walk(**f, **extras(g, 60), scheme=scheme)
    assert weight is None
    known = {}
    for src, dst, path, s in zip(f["src"], f["dst"], split(ptr, link), status, strict=True):
        if (src, dst) not in known:
            known[src, dst] = [p for p, _ in ref.paths(src, dst)]
        assert s == (0 if known[src, dst] else 1)
        if not known[src, dst]:
            assert len(path) == 0
            continue
        assert_contiguous(g, path, src, dst)
        assert up[path].all()
        assert [src, *(g.dst[x] for x in path)] in known[src, dst]


@pytest.mark.parametrize("scheme", [*SINGLE_PATH, "spray"])
def test_same_input_gives_the_same_bits(scheme):
    g = fat_tree(4, parallel=2)
    f = flows(g, 500)
    first, again = (g.table().walk(**f, **extras(g, 500), scheme=scheme) for _ in "ab")
    for a, b in zip(first, again, strict=True):
        assert a is b is None or np.array_equal(a, b)


@pytest.mark.parametrize("scheme", [*SINGLE_PATH, "spray", "table"])
def test_prefix_and_suffix_frame_the_path(scheme):
    g = leaf_spine(2, 2, 2)
    for end in (0, 3):  # two GPUs behind their NICs, links 16 to 19; routing looks past them
        g.link(g.endpoint(), end)
    f = fields(g, [0, 0, 0, 1], [3, 3, 1, 1])
    extra = extras(g, 4) | {
        "prefix_link": np.array([16, -1, 17, 18], np.int32),
        "suffix_link": np.array([19, 19, -1, 18], np.int32),
    }
    table = g.table()
    if scheme == "table":
        extra |= shortest_table(g, table)
    plain = {k: v for k, v in extra.items() if k not in ("prefix_link", "suffix_link")}
    bare = split(*table.walk(**f, **plain, scheme=scheme)[:2])
    ptr, link, weight, status = table.walk(**f, **extra, scheme=scheme)
    paths = [p.tolist() for p in split(ptr, link)]
    # An endpoint sending to itself crosses no fabric link, but still its own bus.
    assert [len(p) for p in bare][2:] == [2, 0]
    assert status.tolist() == [0, 0, 0, 0]
    assert paths[0][0] == 16
    assert paths[0][-1] == paths[1][-1] == 19
    assert paths[2][0] == 17
    assert paths[2][1:] == bare[2].tolist()
    assert paths[3] == [18, 18]
    if scheme != "adaptive":  # loads of the framing links count there, and may move later flows
        assert paths[0][1:-1] == bare[0].tolist()
    if weight is not None:
        assert weight[ptr[0]] == weight[ptr[1] - 1] == 1.0


def test_unreachable_flows_have_no_links_at_all():
    g = leaf_spine(2, 1, 2)
    spine_cables = g.fabric_cables()
    table = g.table(g.up_mask([2 * spine_cables[0], 2 * spine_cables[0] + 1]))
    f = fields(g, [0, 0, 2], [1, 3, 0])
    extra = extras(g, 3) | {"prefix_link": np.zeros(3, np.int32)}
    for scheme in [*SINGLE_PATH, "spray"]:
        ptr, link, _, status = table.walk(**f, **extra, scheme=scheme)
        assert status.tolist() == [0, 1, 1]
        assert ptr.tolist() == [0, 3, 3, 3]
        assert len(link) == 3
    assert table.path_count(0, 3) == 0


# ports of endpoints with several attachments


def test_hashed_ports_use_all_and_fixed_ports_only_theirs():
    g = twin_plane(2, 2, 2)
    table = g.table()
    f = fields(g, np.zeros(400), np.full(400, 3))
    first = np.array([p[0] for p in split(*table.walk(**f)[:2])])
    ports = [x for x in range(len(g.src)) if g.src[x] == 0]
    assert sorted(set(first.tolist())) == ports
    assert 120 < np.count_nonzero(first == ports[0]) < 280
    for choice, port in enumerate(ports):
        choices = np.full(400, choice, np.int32)
        for scheme in [*SINGLE_PATH, "spray"]:
            result = table.walk(**f, **extras(g, 400), scheme=scheme, port_choice=choices)
            assert {int(p[0]) for p in split(*result[:2])} == {port}


def test_a_dead_plane_is_avoided_unless_its_port_is_asked_for():
    g = twin_plane(2, 1, 2)
    plane_b_spine = g.switches[-1]
    dead = [x for x in range(len(g.src)) if plane_b_spine in (g.src[x], g.dst[x])]
    table = g.table(g.up_mask(dead))
    f = fields(g, np.zeros(50), np.full(50, 3))
    ptr, link, _, status = table.walk(**f)
    assert not status.any()
    assert len({int(p[0]) for p in split(ptr, link)}) == 1
    choice = np.full(50, 1, np.int32)
    assert (table.walk(**f, port_choice=choice)[3] == 1).all()
    with pytest.raises(ValueError, match=r"flow 0: port 2 of node 0 .* it has 2"):
        table.walk(**f, port_choice=choice + 1)


def test_dual_homed_neighbours_meet_at_a_shared_leaf():
    g = dual_tor(2, 2, 3)
    f = fields(g, np.zeros(200), np.full(200, 2))
    ptr, link, _, _ = g.table().walk(**f)
    assert set(np.diff(ptr).tolist()) == {2}
    assert len(set(link[ptr[:-1]].tolist())) == 2
    # With its own port to one leaf dead, the source still has the other leaf in common.
    dead = link[ptr[0]]
    ptr, link, _, _ = g.table(g.up_mask([dead])).walk(**f)
    assert set(np.diff(ptr).tolist()) == {2}


def test_the_longer_way_through_the_other_port_is_not_taken():
    g = dual_tor(2, 2, 3)
    leaves = g.switches[:2]
    for leaf in leaves:
        dead = next(x for x, ends in enumerate(zip(g.src, g.dst, strict=True)) if ends == (leaf, 2))
        table = g.table(g.up_mask([dead]))
        for scheme in [*SINGLE_PATH, "spray"]:
            f = fields(g, np.zeros(50), np.full(50, 2))
            ptr, link, _, _ = table.walk(**f, **extras(g, 50), scheme=scheme)
            assert set(np.diff(ptr).tolist()) == {2}
            assert {g.dst[x] for x in link} == {2, sum(leaves) - leaf}


def test_endpoints_attached_in_two_pods_are_entered_through_both():
    g = fat_tree(4)
    both = g.endpoint()
    homes = [g.switches[2], g.switches[5]]  # leaves of the second and the third pod
    for leaf in homes:
        g.link(both, leaf)
    src = np.arange(400) % 4
    f = fields(g, src, np.full(400, both))
    for scheme in SINGLE_PATH:
        ptr, link, _, status = g.table().walk(**f, **extras(g, 400), scheme=scheme)
        assert not status.any()
        assert set(np.diff(ptr).tolist()) == {6}
        for s, path in zip(src, split(ptr, link), strict=True):
            assert_contiguous(g, path, s, both)
        if scheme != "dmodk":
            assert {g.src[p[-1]] for p in split(ptr, link)} == set(homes)


def test_far_leaf_and_uplink_are_chosen_independently():
    g = dual_tor(2, 2, 1)
    ptr, link, _, _ = g.table().walk(**fields(g, np.zeros(2000), np.ones(2000)))
    kinds = {tuple(p.tolist()) for p in split(ptr, link)}
    assert len(kinds) == 2 * 2 * 2 == g.table().path_count(0, 1)


# d-mod-k


@pytest.mark.parametrize(
    "build",
    [
        lambda: fat_tree(8),
        lambda: leaf_spine(6, 3, 6, parallel=2),
        lambda: leaf_spine(6, 2, 4, parallel=2),
    ],
)
def test_every_shift_permutation_uses_each_link_once(build):
    g = build()
    table, ends = g.table(), np.array(g.endpoints)
    for shift in range(1, len(ends)):
        result = table.walk(**fields(g, ends, np.roll(ends, -shift)), scheme="dmodk")
        assert loads(g, result).max() == 1, shift


def test_shift_permutations_collide_under_ecmp():
    g = fat_tree(8)
    ends = np.array(g.endpoints)
    result = g.table().walk(**fields(g, ends, np.roll(ends, -17)))
    assert loads(g, result).max() > 1


def test_one_port_of_each_switch_leads_to_a_destination():
    g = fat_tree(8, parallel=2)
    src = np.array(g.endpoints[:-1])
    dst = g.endpoints[-1]
    _, link, _, _ = g.table().walk(**fields(g, src, np.full(len(src), dst)), scheme="dmodk")
    out = {}
    for x in link.tolist():
        assert out.setdefault(g.src[x], x) == x


@pytest.mark.parametrize("build", [lambda: twin_plane(4, 4, 4), lambda: dual_tor(4, 4, 8)])
def test_dmodk_shares_out_ports_and_uplinks_of_multi_homed_endpoints(build):
    g = build()
    table, ends = g.table(), np.array(g.endpoints)
    used = np.zeros(len(g.src), np.int64)
    for shift in range(1, len(ends)):
        result = table.walk(**fields(g, ends, np.roll(ends, -shift)), scheme="dmodk")
        assert loads(g, result).max() == 1, shift
        used += loads(g, result)
    climbs = np.array(g.tier)[g.dst] > np.array(g.tier)[g.src]
    assert used[climbs].all()


# forwarding tables


def shortest_table(g, table):
    """One valid entry for every switch and destination, in the layout walk() takes."""
    ptr, dsts, links = [0], [], []
    down = {d: x for x, d in enumerate(g.dst) if g.switch[g.src[x]] and not g.switch[d]}
    leaf = {d: g.src[x] for d, x in sorted(down.items())}
    for v in range(g.n):
        for d in leaf if g.switch[v] else ():
            out = [down[d]] if leaf[d] == v else table.next_links(v, leaf[d]).tolist()
            if out:
                dsts.append(d)
                links.append(out[d % len(out)])
        ptr.append(len(dsts))
    return {
        "table_ptr": np.array(ptr, np.int64),
        "table_dst": np.array(dsts, np.int32),
        "table_link": np.array(links, np.int32),
    }


def entry(g, t, node, dst):
    rows = slice(t["table_ptr"][node], t["table_ptr"][node + 1])
    return int(t["table_ptr"][node] + np.searchsorted(t["table_dst"][rows], dst))


def test_tables_are_followed_to_the_letter():
    g = fat_tree(4)
    table = g.table()
    t = shortest_table(g, table)
    f = flows(g, 300)
    ptr, link, _, status = table.walk(**f, **t, scheme="table")
    assert not status.any()
    for src, dst, path in zip(f["src"], f["dst"], split(ptr, link), strict=True):
        assert_contiguous(g, path, src, dst)
        for x in path[1:]:
            assert t["table_link"][entry(g, t, g.src[x], dst)] == x


def test_faults_of_tables_are_told_apart():
    g = leaf_spine(3, 2, 1)
    table = g.table()
    leaf_a, leaf_b, _, spine, other_spine = g.switches
    link = {(a, b): x for x, (a, b) in enumerate(zip(g.src, g.dst, strict=True))}

    def status(changes, up=None):
        t = shortest_table(g, table)
        for node, to in changes.items():
            t["table_link"][entry(g, t, node, 1)] = to
        ptr, _, _, s = g.table(up).walk(**fields(g, [0], [1]), **t, scheme="table")
        assert (s[0] == 0) == (ptr[-1] > 0)
        return s[0]

    via = {leaf_a: link[leaf_a, spine]}
    assert status(via) == 0
    assert status(via, g.up_mask([link[leaf_a, spine]])) == 1
    assert status(via, g.up_mask([link[0, leaf_a]])) == 1
    assert status(via | {spine: -1}) == 2
    assert status({leaf_a: -1}) == 2
    assert status({leaf_a: link[leaf_a, 0]}) == 2  # delivered to the wrong endpoint
    assert status(via | {spine: link[spine, leaf_a]}) == 3
    detour = {leaf_b: link[leaf_b, other_spine], other_spine: link[other_spine, leaf_a]}
    assert status(via | {spine: link[spine, leaf_b]} | detour) == 3


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("table_link", lambda a: a[::-1].copy(), "does not leave node"),
        ("table_dst", lambda a: a[::-1].copy(), "must rise"),
        ("table_ptr", lambda a: a * 2, "must run from 0"),
        ("table_ptr", lambda a: a[:-1].copy(), "table_ptr has"),
        ("table_link", lambda _: None, "needs table_ptr"),
    ],
)
def test_malformed_tables_are_refused(name, change, message):
    g = leaf_spine(2, 2, 2)
    table = g.table()
    t = shortest_table(g, table)
    t[name] = change(t[name])
    with pytest.raises(ValueError, match=message):
        table.walk(**flows(g, 5), **t, scheme="table")


# load-aware and multi-path schemes


@pytest.mark.parametrize("name", BUILDERS)
def test_adaptive_never_loads_a_link_more_than_hashing(name):
    g = BUILDERS[name]()
    table, f, extra = g.table(), flows(g, 2000), extras(g, 2000)
    size = extra["size_bytes"]
    most = {}
    for scheme in ("ecmp", "adaptive"):
        ptr, link, _, _ = table.walk(**f, **extra, scheme=scheme)
        carried = np.bincount(link, np.repeat(size, np.diff(ptr)), minlength=len(g.src))
        inside = np.array(g.switch)[g.src] & np.array(g.switch)[g.dst]
        most[scheme] = carried[inside].max()
    assert most["adaptive"] < most["ecmp"]


def test_adaptive_prefers_the_faster_of_two_links():
    g = leaf_spine(2, 2, 1)
    capacity = np.full(len(g.src), 100e9)
    spines = g.switches[-2:]
    slow = [x for x in range(len(g.src)) if spines[0] in (g.src[x], g.dst[x])]
    capacity[slow] = 25e9
    f = fields(g, np.zeros(500), np.ones(500))
    result = g.table().walk(**f, scheme="adaptive", size_bytes=np.ones(500), capacity_bps=capacity)
    count = loads(g, result)
    assert abs(count[slow].max() - 100) <= 1


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(sorted(BUILDERS)), st.data())
def test_spray_conserves_flow_and_splits_equally(name, data):
    g = BUILDERS[name]()
    dead = data.draw(st.sets(st.integers(0, len(g.src) - 1), max_size=len(g.src) // 4))
    up = g.up_mask(dead)
    ref = Reference(g, up)
    f = flows(g, 20, seed=data.draw(st.integers(0, 1000)))
    ptr, link, weight, status = g.table(up).walk(**f, scheme="spray")
    for i, (links, shares) in enumerate(zip(split(ptr, link), split(ptr, weight), strict=True)):
        src, dst = int(f["src"][i]), int(f["dst"][i])
        paths = ref.paths(src, dst)
        assert status[i] == (0 if paths else 1)
        assert len(set(links.tolist())) == len(links)
        if not paths:
            assert len(links) == 0
            continue
        nodes = {(a, b) for p, _ in paths for a, b in pairwise(p)}
        assert {(g.src[x], g.dst[x]) for x in links} == nodes
        net = np.zeros(g.n)
        np.add.at(net, np.array(g.dst)[links], shares)
        assert net[dst] == pytest.approx(1)
        np.subtract.at(net, np.array(g.src)[links], shares)
        assert net[src] == pytest.approx(-1)
        net[[src, dst]] = 0
        assert np.abs(net).max() < 1e-12


def test_spray_shares_on_a_known_fabric():
    g = fat_tree(4)
    ptr, link, weight, _ = g.table().walk(**fields(g, [0, 0], [15, 2]), scheme="spray")
    tier = np.array(g.tier)
    far, near = split(ptr, np.stack([link, (weight * 4).astype(int)], 1))
    steps = [(int(tier[g.src[x]]), int(tier[g.dst[x]]), w) for x, w in far]
    up = [(0, 1, 4), *[(1, 2, 2)] * 2, *[(2, 3, 1)] * 4]
    assert sorted(steps) == sorted(up + [(b, a, w) for a, b, w in up])
    assert sorted(w for _, w in near) == [2, 2, 2, 2, 4, 4]


def test_pins_name_the_member_at_every_hop():
    g = leaf_spine(2, 3, 1, parallel=2)
    table = g.table()
    a, b = table.edge_switches
    pins = np.arange(12, dtype=np.int32)
    ptr, link, _, _ = table.walk(**fields(g, np.zeros(12), np.ones(12)), scheme="pinned", pin=pins)
    for pin, path in zip(pins, split(ptr, link), strict=True):
        up = table.next_links(a, b)
        assert path[1] == up[pin % 6]
        down = table.next_links(g.dst[path[1]], b)
        assert path[2] == down[pin % 2]


# what is refused


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scheme": "random"}, "ecmp, dmodk, table, adaptive, spray or pinned"),
        ({"scheme": "adaptive"}, "needs size_bytes"),
        ({"scheme": "pinned"}, "needs pin"),
        ({"scheme": "table"}, "needs table_ptr"),
        ({"field_mask": 63}, "includes qp"),
        ({"src_port": None}, "includes src_port"),
        ({"seeds": np.zeros(2, np.uint32)}, "seeds has 2 entries"),
        ({"dst": np.zeros(2, np.int32)}, "dst has 2 entries"),
        ({"dst": np.full(5, 99, np.int32)}, "flow 0: there is no node 99"),
        ({"dst": np.full(5, 6, np.int32)}, "flow 0: node 6 is a switch"),
        ({"suffix_link": np.full(5, 999, np.int32)}, "no link 999"),
        ({"scheme": "pinned", "pin": np.full(5, -1, np.int32)}, "pin must be 0 or more"),
    ],
)
def test_bad_walks_are_refused(change, message):
    g = leaf_spine(2, 2, 2)
    with pytest.raises(ValueError, match=message):
        g.table().walk(**{**flows(g, 5), **change})


def test_no_flows_and_no_attachment():
    g = Graph()
    alone, attached = g.endpoint(), g.endpoint()
    g.link(attached, g.node(1))
    table = g.table()
    ptr, link, _, status = table.walk(**fields(g, [], []))
    assert (ptr.tolist(), link.tolist(), status.tolist()) == ([0], [], [])
    pairs = fields(g, [alone, attached], [attached, alone])
    for scheme in [*SINGLE_PATH, "spray"]:
        assert table.walk(**pairs, **extras(g, 2), scheme=scheme)[3].tolist() == [1, 1]
