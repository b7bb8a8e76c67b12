"""Small Clos fabrics and random graphs for tests of the analysis, built without the sizing room."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from railweave.fabric._arrays import Fabric, LinkLayer, NodeKind, PlaneId

G = 1e9


@dataclass
class Builder:
    """Collects nodes and duplex links, then makes the arrays."""

    nodes: list[dict[str, int]] = field(default_factory=list)
    links: list[dict[str, float]] = field(default_factory=list)
    server_names: list[str] = field(default_factory=list)
    models: dict[int, str] = field(default_factory=dict)
    seen: dict[tuple[int, int, int, int], int] = field(default_factory=dict)

    def node(self, kind, *, tier=0, plane=-1, subplane=0, pod=-1, rail=-1, server=-1, rack=-1):
        key = (int(kind), int(plane), tier, subplane)
        index = self.seen[key] = self.seen.get(key, -1) + 1
        self.nodes.append(
            {
                "kind": int(kind),
                "tier": tier,
                "plane": int(plane),
                "subplane": subplane,
                "pod": pod,
                "rail": rail,
                "server": server,
                "rack": rack,
                "index": index,
            }
        )
        return len(self.nodes) - 1

    def link(self, a, b, bps, layer, *, plane=-1, length=3.0, cable=-1):
        self.links.append(
            {"a": a, "b": b, "bps": bps, "layer": int(layer), "plane": int(plane), "length": length}
        )
        self.links[-1]["cable"] = len(self.links) - 1 if cable == -1 and plane >= 0 else cable
        return len(self.links) - 1

    def server(self, gpus=1, *, pod=-1, rack=-1, pcie_bps=512 * G):
        """Add a server of ``gpus`` GPUs with one back-end NIC each; return its NICs."""
        number = len(self.server_names)
        self.server_names.append(f"node{number + 1:03d}")
        self.node(NodeKind.HOST, server=number, pod=pod, rack=rack)
        where = {"server": number, "pod": pod, "rack": rack}
        cards = [self.node(NodeKind.GPU, rail=rail, **where) for rail in range(gpus)]
        nics = [
            self.node(NodeKind.NIC, plane=PlaneId.BACKEND, rail=rail, **where)
            for rail in range(gpus)
        ]
        for gpu, nic in zip(cards, nics, strict=True):
            self.link(gpu, nic, pcie_bps, LinkLayer.PCIE)
        return nics

    def done(self, name="tiny") -> Fabric:
        nodes, links = self.nodes, self.links

        def col(key, dtype):
            return np.array([n[key] for n in nodes], dtype=dtype)

        def twice(key, dtype):
            return np.repeat(np.array([x[key] for x in links], dtype=dtype), 2)

        a, b = twice("a", np.int32), twice("b", np.int32)
        back = np.arange(2 * len(links)) % 2 == 1
        used: dict[int, int] = {}
        ports = np.zeros((2, 2 * len(links)), dtype=np.int32)
        for k, x in enumerate(links):
            if x["plane"] >= 0:
                for end, node in enumerate((x["a"], x["b"])):
                    number = used[node] = used.get(node, 0) + 1
                    ports[end, 2 * k] = ports[1 - end, 2 * k + 1] = number
        return Fabric(
            name=name,
            node_kind=col("kind", np.uint8),
            node_tier=col("tier", np.int8),
            node_plane=col("plane", np.int8),
            node_subplane=col("subplane", np.int8),
            node_pod=col("pod", np.int32),
            node_rail=col("rail", np.int32),
            node_server=col("server", np.int32),
            node_rack=col("rack", np.int32),
            node_index=col("index", np.int32),
            link_src=np.where(back, b, a).astype(np.int32),
            link_dst=np.where(back, a, b).astype(np.int32),
            link_capacity_bps=twice("bps", np.float64),
            link_efficiency=np.ones(2 * len(links)),
            link_delay_s=np.zeros(2 * len(links)),
            link_layer=twice("layer", np.uint8),
            link_plane=twice("plane", np.int8),
            link_length_m=twice("length", np.float64),
            link_src_port=ports[0],
            link_dst_port=ports[1],
            link_up=np.ones(2 * len(links), dtype=np.bool_),
            duplex_cable=np.array([x["cable"] for x in links], dtype=np.int32),
            server_names=tuple(self.server_names),
            switch_models=self.models,
        )


def clos(  # noqa: PLR0912
    *,
    servers: int,
    gpus: int = 1,
    per_leaf: int = 2,
    spines: int = 2,
    uplinks: int = 1,
    rails: bool = False,
    host_bps: float = 400 * G,
    up_bps: float = 400 * G,
    dual: bool = False,
    planes: int = 1,
    tor: bool = False,
) -> Fabric:
    """A two-tier Clos: ``uplinks`` parallel links from each leaf to each spine.

    ``per_leaf`` servers share one leaf (or one set of leaves, one a rail, where ``rails``).
    ``dual`` joins every NIC to two leaves of the same place; ``planes`` makes separate planes, each
    NIC with a port in every one. ``spines`` is a plane's; 0 leaves the leaves unjoined.
    """
    out = Builder()
    plane = PlaneId.BACKEND
    groups = -(-servers // per_leaf)
    nics = [out.server(gpus, pod=s // per_leaf, rack=s // per_leaf) for s in range(servers)]
    copies = 2 if dual else 1
    leaves: dict[tuple[int, int, int, int], int] = {}
    for p in range(planes):
        for group in range(groups):
            for rail in range(gpus if rails else 1):
                for copy in range(copies):
                    leaves[p, group, rail, copy] = out.node(
                        NodeKind.SWITCH,
                        tier=1,
                        plane=plane,
                        subplane=p,
                        pod=group,
                        rail=rail if rails else -1,
                        rack=group if tor else groups,
                    )
    for s, group_nics in enumerate(nics):
        for rail, nic in enumerate(group_nics):
            for p in range(planes):
                for copy in range(copies):
                    leaf = leaves[p, s // per_leaf, rail if rails else 0, copy]
                    out.link(nic, leaf, host_bps, LinkLayer.HOST_LEAF, plane=plane)
    for p in range(planes):
        tops = [
            out.node(NodeKind.SWITCH, tier=2, plane=plane, subplane=p, rack=groups)
            for _ in range(spines)
        ]
        for key, leaf in leaves.items():
            if key[0] == p:
                for spine in tops:
                    for _ in range(uplinks):
                        out.link(
                            leaf, spine, up_bps, LinkLayer.LEAF_SPINE, plane=plane, length=30.0
                        )
    return out.done()


def three_tier(
    *, pods: int, leaves: int, spines: int, cores: int, per_leaf: int, bps: float = 400 * G
) -> Fabric:
    """A pod of ``leaves`` × ``spines``, every spine joined to its share of the cores once."""
    out = Builder()
    plane = PlaneId.BACKEND
    share = cores // spines
    homes = [
        [[out.server(1, pod=p, rack=p)[0] for _ in range(per_leaf)] for _ in range(leaves)]
        for p in range(pods)
    ]
    mids = []
    for p in range(pods):
        low = [
            out.node(NodeKind.SWITCH, tier=1, plane=plane, pod=p, rack=pods) for _ in range(leaves)
        ]
        mid = [
            out.node(NodeKind.SWITCH, tier=2, plane=plane, pod=p, rack=pods) for _ in range(spines)
        ]
        for leaf, members in zip(low, homes[p], strict=True):
            for nic in members:
                out.link(nic, leaf, bps, LinkLayer.HOST_LEAF, plane=plane)
        for leaf in low:
            for spine in mid:
                out.link(leaf, spine, bps, LinkLayer.LEAF_SPINE, plane=plane, length=30.0)
        mids.append(mid)
    top = [out.node(NodeKind.SWITCH, tier=3, plane=plane, rack=pods) for _ in range(cores)]
    for mid in mids:
        for i, spine in enumerate(mid):
            for core in top[i * share : (i + 1) * share]:
                out.link(spine, core, bps, LinkLayer.SPINE_CORE, plane=plane, length=50.0)
    return out.done()


def random_graph(rng: np.random.Generator, *, switches: int, servers: int, extra: int) -> Fabric:
    """Switches in a random connected graph with odd capacities, servers hung on at random."""
    out = Builder()
    plane = PlaneId.BACKEND
    nics = [out.server(1, pod=s % 3, rack=0)[0] for s in range(servers)]
    nodes = [
        out.node(NodeKind.SWITCH, tier=int(rng.integers(1, 4)), plane=plane, rack=1)
        for _ in range(switches)
    ]
    for nic in nics:
        for leaf in rng.choice(
            switches, size=int(rng.integers(1, min(2, switches) + 1)), replace=False
        ):
            out.link(
                nic, nodes[leaf], float(rng.integers(1, 9)) * G, LinkLayer.HOST_LEAF, plane=plane
            )
    for i in range(1, switches):
        j = int(rng.integers(0, i))
        out.link(nodes[i], nodes[j], float(rng.integers(1, 9)) * G, LinkLayer.OTHER, plane=plane)
    for _ in range(extra if switches > 1 else 0):
        i, j = rng.choice(switches, size=2, replace=False)
        out.link(nodes[i], nodes[j], float(rng.integers(1, 9)) * G, LinkLayer.OTHER, plane=plane)
    return out.done()
