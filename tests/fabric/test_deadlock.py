"""Which fabrics and routings can stop for good, and what is said of the circle."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minifabric import Mini, clos
from railweave._native import LinkDependencies
from railweave.design.models import RoutingSpec, Transport
from railweave.errors import InputError
from railweave.fabric import Fabric, LinkLayer, NodeKind, PlaneId
from railweave.fabric.deadlock import check_deadlock, name_cycle, name_reasons
from railweave.fabric.forwarding import ForwardingTable, export_table
from railweave.fabric.routing import Routing, compile_routing

B = PlaneId.BACKEND
HASHED = ("ecmp", "e-ecmp", "flowlet", "static", "adaptive", "spray")


def wired(cables, homes, tier=-1) -> tuple[Fabric, Mini]:
    """Switches s0, s1, … joined by ``cables``; NIC k has a port at each switch of ``homes[k]``."""
    mini = Mini()
    n = 1 + max([s for cable in cables for s in cable] + [s for home in homes for s in home])
    tiers = [tier] * n if isinstance(tier, int) else tier
    switch = [mini.node(f"s{k}", NodeKind.SWITCH, tiers[k], plane=B) for k in range(n)]
    nics = [mini.node(f"n{k}", NodeKind.NIC, plane=B, server=k) for k in range(len(homes))]
    for a, b in cables:
        mini.link(switch[a], switch[b], 400, LinkLayer.OTHER, plane=B)
    for nic, home in zip(nics, homes, strict=True):
        for s in home:
            mini.link(nic, switch[s], 400, LinkLayer.HOST_LEAF, plane=B)
    return mini.build(), mini


def ring(n: int) -> Fabric:
    return wired([(k, (k + 1) % n) for k in range(n)], [(k,) for k in range(n)])[0]


def routed(fabric, scheme=None, transport=Transport.ROCEV2, **more) -> Routing:
    if scheme == "destination":
        transport = Transport.INFINIBAND
    return compile_routing(fabric, B, RoutingSpec(scheme=scheme, **more), transport)


def pairs_of(routing: Routing, **more) -> set[tuple[int, int]]:
    """Consecutive links between switches on the paths of all pairs of NICs."""
    fabric = routing.fabric
    nics = fabric.nics(B)
    src, dst = (x.ravel().astype(np.int32) for x in np.meshgrid(nics, nics))
    apart = src != dst
    inside = (fabric.node_kind[fabric.link_src] == NodeKind.SWITCH) & (
        fabric.node_kind[fabric.link_dst] == NodeKind.SWITCH
    )
    paths = routing.paths(src[apart], dst[apart], **more)
    found: set[tuple[int, int]] = set()
    for first, last in pairwise(paths.ptr.tolist()):
        links = paths.link[first:last].tolist()
        if paths.weight is None:
            steps = list(pairwise(links))
        else:  # a spray: all links side by side
            steps = [
                (a, b) for a in links for b in links if fabric.link_dst[a] == fabric.link_src[b]
            ]
        found |= {(a, b) for a, b in steps if inside[a] and inside[b]}
    return found


@st.composite
def fabrics(draw, most_ports=1, tiers=(-1,)):
    n = draw(st.integers(2, 6))
    cable = st.tuples(st.integers(0, n - 1), st.integers(1, n - 1))
    cables = [(a, (a + step) % n) for a, step in draw(st.lists(cable, min_size=1, max_size=9))]
    home = st.lists(st.integers(0, n - 1), min_size=1, max_size=most_ports).map(tuple)
    homes = [*draw(st.lists(home, min_size=2, max_size=6)), (n - 1,)]
    fabric, _ = wired(cables, homes, [draw(st.sampled_from(tiers)) for _ in range(n)])
    return fabric.without(duplex=draw(st.sets(st.integers(0, len(cables) - 1), max_size=2)))


@given(fabrics())
@settings(max_examples=100, deadline=None)
def test_d_mod_k_is_followed_exactly_on_any_graph(fabric):
    routing = routed(fabric, "destination")
    check = check_deadlock(routing)
    pairs = pairs_of(routing)
    assert check.basis == "destination"
    assert check.dependencies == len(pairs)
    assert set(zip(check.cycle, check.cycle[1:] + check.cycle[:1], strict=True)) <= pairs


@given(
    fabrics(most_ports=3, tiers=(-1, 1, 2, 3)),
    st.sampled_from((*HASHED, "destination")),
)
@settings(max_examples=100, deadline=None)
def test_no_path_takes_a_turn_that_was_not_counted(fabric, scheme):
    routing = routed(fabric, scheme)
    pairs = pairs_of(routing, queue_pairs=4)
    graph = LinkDependencies(routing.table)
    if scheme == "destination" and not routing.table.tiered:
        assert check_deadlock(routing).dependencies >= len(pairs)
        return
    graph.add_next_hops()
    assert all(graph.waits(a, b) for a, b in pairs)
    if routing.table.tiered:
        assert check_deadlock(routing).free


@given(fabrics())
@settings(max_examples=50, deadline=None)
def test_a_table_waits_as_the_routing_it_was_made_from(fabric):
    routing = routed(fabric, "destination")
    if not np.any(fabric.link_up & (fabric.node_kind[fabric.link_src] == NodeKind.NIC)):
        return
    table = export_table(routing)
    walked = compile_routing(
        fabric, B, RoutingSpec(scheme="table", table="t.csv"), forwarding=table
    )
    mine, theirs = check_deadlock(walked), check_deadlock(routing)
    assert mine.basis == "table"
    assert (mine.channels, mine.dependencies) == (theirs.channels, theirs.dependencies)
    assert len(mine.cycle) == len(theirs.cycle)


@pytest.mark.parametrize("scheme", [*HASHED, "destination"])
def test_a_ring_can_deadlock_and_a_broken_ring_cannot(scheme):
    fabric = ring(5)
    routing = routed(fabric, scheme)
    check = check_deadlock(routing)
    assert check.cycle == (0, 2, 4, 6, 8)
    assert not check.free
    assert check.shortest
    assert (check.channels, check.dependencies) == (10, 10)
    # What comes from one switch over the next goes no further than to the one after.
    last = fabric.nics(B) if scheme == "destination" else fabric.switches(B)
    assert check.towards == tuple(np.roll(last, -2))
    assert check_deadlock(routing.on(fabric.without(duplex=[3]))).free


def test_a_cycle_is_named_hop_by_hop():
    fabric, _ = wired([(0, 1), (1, 2), (2, 3), (3, 0)], [(0,), (1,), (2,), (3,)])
    check = check_deadlock(routed(fabric))
    assert name_cycle(fabric, check.cycle) == (
        "switch-1:port-1 → switch-2:port-1, switch-2:port-2 → switch-3:port-1, "
        "switch-3:port-2 → switch-4:port-1, switch-4:port-2 → switch-1:port-2"
    )
    assert name_reasons(fabric, check.cycle, check.towards) == (
        "at switch-2 by traffic to switch-3, at switch-3 by traffic to switch-4, "
        "at switch-4 by traffic to switch-1, at switch-1 by traffic to switch-2"
    )
    assert name_cycle(fabric, ()) == ""


@pytest.mark.parametrize("transport", [Transport.ROCEV2, Transport.INFINIBAND])
@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"leaves": 2},
        {"leaves": 4, "spines": 3},
        {"subplanes": 2},
        {"rail_only": True},
        {"spines": 0, "leaves": 1},
    ],
    ids=str,
)
def test_leaf_spine_is_free_whole_and_broken(transport, shape):
    fabric, names = clos(**shape)
    routing = routed(fabric, transport=transport)
    check = check_deadlock(routing)
    assert check.free
    assert check.towards == ()
    trunks = np.flatnonzero(fabric.link_layer[::2] == LinkLayer.LEAF_SPINE)
    for some in (trunks[:1], trunks[:3], trunks[::2]):
        assert check_deadlock(routing.on(fabric.without(duplex=some.tolist()))).free
    assert check_deadlock(routing.on(fabric.without(nodes=[names["leaf-0-0"]]))).free


#: leaves 0–3 under spines 4 and 5; leaf 0 has lost spine 4, leaf 3 has lost spine 5
BOUNCE = [(0, 5), (1, 4), (1, 5), (2, 4), (2, 5), (3, 4)]


def test_shortest_paths_that_bounce_wait_in_a_circle_and_up_down_does_not():
    homes = [(0,), (1,), (2,), (3,)]
    flat, _ = wired(BOUNCE, homes)
    check = check_deadlock(routed(flat))
    ends = [(int(flat.link_src[k]), int(flat.link_dst[k])) for k in check.cycle]
    assert len(ends) == 4
    assert {5, 4} < {s for end in ends for s in end}  # both spines: down, up, down, up
    tiered, _ = wired(BOUNCE, homes, [1, 1, 1, 1, 2, 2])
    assert check_deadlock(routed(tiered)).free


def _table(fabric, way) -> ForwardingTable:
    """Entries of one destination after another: the switches its traffic passes, from each side."""
    link = {
        (int(a), int(b)): k
        for k, (a, b) in enumerate(zip(fabric.link_src, fabric.link_dst, strict=True))
    }
    rows = {(a, to[-1]): link[a, b] for to in way for a, b in pairwise(to)}
    switch, destination = np.array(list(rows), np.int32).T
    return ForwardingTable(
        switch.copy(), destination.copy(), np.array(list(rows.values()), np.int32)
    )


def test_a_table_with_a_valley_is_found_out():
    """Two leaves each take the other's spine the long way: up, down, up, down."""
    cables = [(leaf, spine) for leaf in range(4) for spine in (4, 5)]
    fabric, _ = wired(cables, [(0,), (1,), (2,), (3,)], [1, 1, 1, 1, 2, 2])
    spec = RoutingSpec(scheme="table", table="t.csv")
    n0, n1, n2, n3 = (int(n) for n in fabric.nics(B))
    straight = [(0, 4, 1, n1), (1, 5, 2, n2), (2, 5, 1, n1), (3, 4, 0, n0)]
    good = compile_routing(fabric, B, spec, forwarding=_table(fabric, straight))
    assert check_deadlock(good).free
    valleys = [(0, 4, 1, 5, 3, n3), (3, 5, 2, 4, 0, n0), (2, 4, 1, n1), (1, 5, 2, n2)]
    bad = check_deadlock(compile_routing(fabric, B, spec, forwarding=_table(fabric, valleys)))
    ends = [(int(fabric.link_src[k]), int(fabric.link_dst[k])) for k in bad.cycle]
    assert sorted(ends) == [(1, 5), (2, 4), (4, 1), (5, 2)]
    assert set(bad.towards) == {n0, n1, n2, n3}


def test_a_table_that_loops_waits_for_itself():
    fabric, _ = wired([(0, 1), (1, 2), (2, 0)], [(0,), (1,), (2,)])
    n1 = fabric.nics(B)[1]
    switch = np.arange(3, dtype=np.int32)
    loop = ForwardingTable(switch, np.full(3, n1, dtype=np.int32), 2 * switch)
    spec = RoutingSpec(scheme="table", table="t.csv")
    check = check_deadlock(compile_routing(fabric, B, spec, forwarding=loop))
    assert check.cycle == (0, 2, 4)
    with pytest.raises(InputError, match="needs a forwarding-table file"):
        check_deadlock(compile_routing(fabric, B, spec))


def test_a_search_cut_short_still_gives_a_circle():
    check = check_deadlock(routed(ring(6)), max_steps=0)
    assert len(check.cycle) == 6
    assert not check.shortest
