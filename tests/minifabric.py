"""A small hand-made fabric for tests, so that they do not lean on sizing and builders."""

from __future__ import annotations

import numpy as np

from railweave.fabric import Fabric, LinkLayer, NodeKind, PlaneId


class Mini:
    """Collects nodes and duplex links, then :meth:`build` gives a Fabric."""

    def __init__(self) -> None:
        self.nodes: list[tuple[int, int, int, int, int, int]] = []
        self.links: list[tuple[int, int, float, int, int, float]] = []
        self.ports: dict[int, int] = {}
        self.names: dict[str, int] = {}

    def node(self, name, kind, tier=0, *, plane=-1, subplane=0, rail=-1, server=-1) -> int:
        self.nodes.append((int(kind), tier, int(plane), subplane, rail, server))
        self.names[name] = len(self.nodes) - 1
        return self.names[name]

    def link(self, a, b, gbps, layer, *, plane=-1, delay_s=0.0) -> int:
        self.links.append((a, b, gbps * 1e9, int(layer), int(plane), delay_s))
        return len(self.links) - 1

    def build(self) -> Fabric:
        kind, tier, plane, subplane, rail, server = (
            np.array(c) for c in zip(*self.nodes, strict=True)
        )
        a, b, cap, layer, link_plane, delay = (np.array(c) for c in zip(*self.links, strict=True))
        n, m = len(kind), 2 * len(a)
        src, dst = np.empty(m, dtype=np.int32), np.empty(m, dtype=np.int32)
        src[::2], src[1::2], dst[::2], dst[1::2] = a, b, b, a
        src_port, dst_port = np.zeros(m, dtype=np.int32), np.zeros(m, dtype=np.int32)
        used: dict[int, int] = {}
        for k in range(len(a)):
            if layer[k] < LinkLayer.HOST_LEAF:
                continue
            pa, pb = (used.setdefault(int(v), 0) + 1 for v in (a[k], b[k]))
            used[int(a[k])], used[int(b[k])] = pa, pb
            src_port[2 * k], dst_port[2 * k] = pa, pb
            src_port[2 * k + 1], dst_port[2 * k + 1] = pb, pa
        index = np.zeros(n, dtype=np.int32)
        seen: dict[tuple[int, int, int], int] = {}
        for v in range(n):
            key = (int(kind[v]), int(plane[v]), int(tier[v]))
            index[v] = seen.get(key, 0)
            seen[key] = index[v] + 1

        def two(values, dtype):
            return np.repeat(values, 2).astype(dtype)

        none = np.full(n, -1, dtype=np.int32)
        return Fabric(
            name="mini",
            node_kind=kind.astype(np.uint8),
            node_tier=tier.astype(np.int8),
            node_plane=plane.astype(np.int8),
            node_subplane=subplane.astype(np.int8),
            node_pod=none,
            node_rail=rail.astype(np.int32),
            node_server=server.astype(np.int32),
            node_rack=none,
            node_index=index,
            link_src=src,
            link_dst=dst,
            link_capacity_bps=two(cap, np.float64),
            link_efficiency=np.ones(m),
            link_delay_s=two(delay, np.float64),
            link_layer=two(layer, np.uint8),
            link_plane=two(link_plane, np.int8),
            link_length_m=np.zeros(m),
            link_src_port=src_port,
            link_dst_port=dst_port,
            link_up=np.ones(m, dtype=bool),
            duplex_cable=np.full(len(a), -1, dtype=np.int32),
        )


def clos(
    servers=4,
    gpus=4,
    spines=2,
    *,
    leaves=None,
    uplinks=1,
    gbps=400.0,
    uplink_gbps=400.0,
    scale_up_gbps=3600.0,
    pcie_gbps=512.0,
    rail_only=False,
    subplanes=1,
    delay_s=0.0,
    plane=PlaneId.BACKEND,
) -> tuple[Fabric, dict[str, int]]:
    """Rail-optimised leaf-spine (one leaf a rail), or with ``leaves`` servers in blocks on leaves.

    With ``leaves`` each leaf takes the same number of whole servers; 0 spines and one leaf is a
    star. ``scale_up_gbps`` 0 leaves the scale-up hub out. ``subplanes`` splits each NIC's ports.
    """
    mini = Mini()
    hubs, gpu, nic = [], {}, {}
    for s in range(servers):
        mini.node(f"server-{s}", NodeKind.HOST, server=s)
        hubs.append(mini.node(f"hub-{s}", NodeKind.SCALE_UP, server=s) if scale_up_gbps else -1)
        for g in range(gpus):
            gpu[s, g] = mini.node(f"server-{s}:gpu-{g}", NodeKind.GPU, rail=g, server=s)
    for s in range(servers):
        for g in range(gpus):
            nic[s, g] = mini.node(
                f"server-{s}:nic-{g}", NodeKind.NIC, plane=plane, rail=g, server=s
            )
    count = leaves or gpus
    planes = range(subplanes)
    leaf = {
        (p, k): mini.node(
            f"leaf-{p}-{k}", NodeKind.SWITCH, 1, plane=plane, subplane=p, rail=-1 if leaves else k
        )
        for p in planes
        for k in range(count)
    }
    spine = {
        (p, k): mini.node(f"spine-{p}-{k}", NodeKind.SWITCH, 2, plane=plane, subplane=p)
        for p in planes
        for k in range(spines)
    }
    for (s, g), node in gpu.items():
        if scale_up_gbps:
            mini.link(node, hubs[s], scale_up_gbps, LinkLayer.SCALE_UP)
        mini.link(node, nic[s, g], pcie_gbps, LinkLayer.PCIE)
    for (s, g), node in nic.items():
        home = s * leaves // servers if leaves else g
        for p in planes:
            mini.link(
                node,
                leaf[p, home],
                gbps / subplanes,
                LinkLayer.HOST_LEAF,
                plane=plane,
                delay_s=delay_s,
            )
    for (p, _), low in leaf.items():
        for (q, _), high in spine.items():
            if p == q and not rail_only:
                for _ in range(uplinks):
                    mini.link(
                        low, high, uplink_gbps, LinkLayer.LEAF_SPINE, plane=plane, delay_s=delay_s
                    )
    return mini.build(), mini.names
