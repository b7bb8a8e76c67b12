"""Small fabrics for routing tests, and a slow reference that says which paths are right."""

from itertools import pairwise

import networkx as nx
import numpy as np

from railweave import _native


class Graph:
    """Nodes and duplex links, added one by one; links 2k and 2k+1 are the two directions."""

    def __init__(self):
        self.tier, self.switch, self.src, self.dst = [], [], [], []

    def node(self, tier, switch=True):
        self.tier.append(tier)
        self.switch.append(switch)
        return len(self.tier) - 1

    def endpoint(self):
        return self.node(0, switch=False)

    def link(self, a, b, times=1):
        for _ in range(times):
            self.src += [a, b]
            self.dst += [b, a]

    @property
    def n(self):
        return len(self.tier)

    @property
    def endpoints(self):
        return [v for v in range(self.n) if not self.switch[v]]

    @property
    def switches(self):
        return [v for v in range(self.n) if self.switch[v]]

    def fabric_cables(self):
        """Numbers k of the cables (links 2k, 2k+1) between two switches."""
        both = (self.switch[a] and self.switch[b] for a, b in self.cables())
        return [k for k, inside in enumerate(both) if inside]

    def cables(self):
        return list(zip(self.src[::2], self.dst[::2], strict=True))

    def up_mask(self, dead_links=()):
        up = np.ones(len(self.src), bool)
        up[list(dead_links)] = False
        return up

    def table(self, up=None, tier=None, threads=1):
        return _native.RouteTable(
            self.n,
            np.array(self.src, np.int32),
            np.array(self.dst, np.int32),
            self.up_mask() if up is None else up,
            np.array(self.switch, np.uint8),
            np.array(self.tier if tier is None else tier, np.int8),
            threads,
        )


def fat_tree(k, parallel=1):
    """k-ary three-tier fat tree, endpoints first."""
    g, half = Graph(), k // 2
    hosts = [g.endpoint() for _ in range(k * half * half)]
    leaves = [g.node(1) for _ in range(k * half)]
    spines = [g.node(2) for _ in range(k * half)]
    cores = [g.node(3) for _ in range(half * half)]
    for h in hosts:
        g.link(h, leaves[h // half])
    for i, leaf in enumerate(leaves):
        for j in range(half):
            g.link(leaf, spines[i // half * half + j], parallel)
    for i, spine in enumerate(spines):
        for j in range(half):
            g.link(spine, cores[i % half * half + j])
    return g


def leaf_spine(leaves, spines, hosts_per_leaf, parallel=1):
    g = Graph()
    hosts = [g.endpoint() for _ in range(leaves * hosts_per_leaf)]
    tops = [g.node(1) for _ in range(leaves)]
    roots = [g.node(2) for _ in range(spines)]
    for h in hosts:
        g.link(h, tops[h // hosts_per_leaf])
    for top in tops:
        for root in roots:
            g.link(top, root, parallel)
    return g


def dual_tor(pairs, spines, hosts_per_pair, ports_to_each=1):
    """Every endpoint attaches to both leaves of its pair."""
    g = Graph()
    hosts = [g.endpoint() for _ in range(pairs * hosts_per_pair)]
    leaves = [g.node(1) for _ in range(2 * pairs)]
    roots = [g.node(2) for _ in range(spines)]
    for h in hosts:
        pair = h // hosts_per_pair
        g.link(h, leaves[2 * pair], ports_to_each)
        g.link(h, leaves[2 * pair + 1], ports_to_each)
    for leaf in leaves:
        for root in roots:
            g.link(leaf, root)
    return g


def twin_plane(leaves, spines, hosts_per_leaf):
    """Two separate leaf-spine planes; each endpoint has a port in both."""
    g = Graph()
    hosts = [g.endpoint() for _ in range(leaves * hosts_per_leaf)]
    for _ in range(2):
        tops = [g.node(1) for _ in range(leaves)]
        roots = [g.node(2) for _ in range(spines)]
        for h in hosts:
            g.link(h, tops[h // hosts_per_leaf])
        for top in tops:
            for root in roots:
                g.link(top, root)
    return g


class Reference:
    """All shortest valley-free paths by search over (node, has it gone down yet)."""

    def __init__(self, g, up=None, plain=False):
        self.g = g
        up = g.up_mask() if up is None else up
        self.ways = nx.DiGraph()
        for a, b, live in zip(g.src, g.dst, up, strict=True):
            if not live:
                continue
            for state in (0, 1):
                step = self._state_after(a, b, state, plain)
                if step is not None:
                    self._add((a, state), (b, step))
        for v in range(g.n):
            for state in (0, 1):
                self.ways.add_edge((v, state), ("end", v), links=1)

    def _state_after(self, a, b, state, plain):
        g = self.g
        if not g.switch[b] or not g.switch[a]:
            # An endpoint only starts (state 0) or ends (state 2, which leads nowhere) a path.
            return None if (not g.switch[a] and state) else 0 if g.switch[b] else 2
        if plain:
            return state
        if g.tier[b] > g.tier[a]:
            return 0 if state == 0 else None
        return 1 if g.tier[b] < g.tier[a] else None

    def _add(self, a, b):
        links = self.ways.get_edge_data(a, b, {"links": 0})["links"] + 1
        self.ways.add_edge(a, b, links=links)
        if b[1] == 2:
            self.ways.add_edge(b, ("end", b[0]), links=1)

    def paths(self, a, b):
        """Node paths and how many link-level paths each stands for."""
        try:
            found = list(nx.all_shortest_paths(self.ways, (a, 0), ("end", b)))
        except (nx.NetworkXNoPath, nx.NodeNotFound):
            return []
        count = [int(np.prod([self.ways.edges[e]["links"] for e in pairwise(p)])) for p in found]
        return [([v for v, _ in p[:-1]], c) for p, c in zip(found, count, strict=True)]

    def hops(self, a, b):
        paths = self.paths(a, b)
        return len(paths[0][0]) - 1 if paths else -1


def flows(g, n, seed=0):
    """Random endpoint pairs with header fields, ready for RouteTable.walk."""
    rng = np.random.default_rng(seed)
    ends = np.array(g.endpoints, np.int32)
    src = rng.integers(0, len(ends), n)
    dst = (src + rng.integers(1, len(ends), n)) % len(ends)
    return fields(g, ends[src], ends[dst], seed)


def fields(g, src, dst, seed=0):
    rng = np.random.default_rng(seed + 1)
    n = len(src)
    return {
        "src": np.asarray(src, np.int32),
        "dst": np.asarray(dst, np.int32),
        "src_ip": (np.asarray(src) + 0x0A000001).astype(np.uint32),
        "dst_ip": (np.asarray(dst) + 0x0A000001).astype(np.uint32),
        "src_port": rng.integers(49152, 65536, n).astype(np.uint16),
        "dst_port": np.full(n, 4791, np.uint16),
        "seeds": rng.integers(0, 2**32, g.n).astype(np.uint32),
    }


def split(ptr, values):
    return [values[a:b] for a, b in pairwise(ptr)]
