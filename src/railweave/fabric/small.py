"""Small fabrics made directly, for experiments and for tests: hosts, switches, cables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from railweave.errors import InputError
from railweave.fabric._arrays import Fabric, LinkLayer, NodeKind, PlaneId
from railweave.fabric._assembly import VELOCITY_M_PER_S

__all__ = ["Cable", "dumbbell", "small_fabric", "star"]

SWITCH_LATENCY_S = 600e-9
HOST_LATENCY_S = 300e-9


@dataclass(frozen=True, slots=True)
class Cable:
    """A cable between two nodes by number: hosts from 0, then switches."""

    a: int
    b: int
    speed_bps: float
    length_m: float = 5.0


def small_fabric(
    name: str,
    hosts: int,
    tiers: Sequence[int],
    cables: Sequence[Cable],
    *,
    model: str = "",
    switch_latency_s: float = SWITCH_LATENCY_S,
    host_latency_s: float = HOST_LATENCY_S,
) -> Fabric:
    """Return a fabric of the back-end plane; hosts are their own NICs.

    Args:
        name: of the fabric.
        hosts: how many; nodes 0 to hosts − 1.
        tiers: tier of each switch (1 leaf, 2 spine, 3 core; −1: plain shortest paths), nodes from
            ``hosts`` on.
        cables: in the order of their duplex numbers: cable k is links 2k (a → b) and 2k + 1.
        model: catalog name of the switches.
        switch_latency_s, host_latency_s: port-to-port latency of a switch, and of an adapter.

    Raises:
        InputError: a cable ends at a node that does not exist.
    """
    n, count = hosts + len(tiers), len(cables)
    for cable in cables:
        if not (0 <= cable.a < n and 0 <= cable.b < n and cable.a != cable.b):
            raise InputError(f"{name}: cable {cable} does not join two of the {n} nodes")
    ends = np.array([(c.a, c.b) for c in cables], dtype=np.int32).reshape(-1, 2)
    src, dst = np.empty(2 * count, np.int32), np.empty(2 * count, np.int32)
    src[0::2], src[1::2] = ends[:, 0], ends[:, 1]
    dst[0::2], dst[1::2] = ends[:, 1], ends[:, 0]
    length = np.repeat([c.length_m for c in cables], 2)
    latency = np.where(np.arange(n) < hosts, host_latency_s, switch_latency_s)
    tier = np.concatenate((np.zeros(hosts), np.asarray(tiers))).astype(np.int8)
    touches_host = (src < hosts) | (dst < hosts)
    upper = np.maximum(tier[src], tier[dst])
    layer = np.where(
        touches_host,
        LinkLayer.HOST_LEAF,
        np.where(
            upper == 2,
            LinkLayer.LEAF_SPINE,
            np.where(upper == 3, LinkLayer.SPINE_CORE, LinkLayer.OTHER),
        ),
    )
    return Fabric(
        name=name,
        node_kind=np.where(np.arange(n) < hosts, NodeKind.NIC, NodeKind.SWITCH).astype(np.uint8),
        node_tier=tier,
        node_plane=np.full(n, PlaneId.BACKEND, dtype=np.int8),
        node_subplane=np.zeros(n, dtype=np.int8),
        node_pod=np.full(n, -1, dtype=np.int32),
        node_rail=np.full(n, -1, dtype=np.int32),
        node_server=np.where(np.arange(n) < hosts, np.arange(n), -1).astype(np.int32),
        node_rack=np.zeros(n, dtype=np.int32),
        node_index=_index(hosts, tier),
        link_src=src,
        link_dst=dst,
        link_capacity_bps=np.repeat([c.speed_bps for c in cables], 2).astype(np.float64),
        link_efficiency=np.ones(2 * count),
        link_delay_s=length / VELOCITY_M_PER_S + latency[dst],
        link_layer=layer.astype(np.uint8),
        link_plane=np.full(2 * count, PlaneId.BACKEND, dtype=np.int8),
        link_length_m=length.astype(np.float64),
        link_src_port=_ports(src),
        link_dst_port=_ports(src)[np.arange(2 * count) ^ 1],
        link_up=np.ones(2 * count, dtype=bool),
        duplex_cable=np.arange(count, dtype=np.int32),
        server_names=tuple(f"host{i + 1:02d}" for i in range(hosts)),
        switch_models=dict.fromkeys(range(hosts, n), model),
    )


def _index(hosts: int, tier: np.ndarray) -> np.ndarray:
    """Count hosts, and switches of each tier, from 0."""
    index = np.zeros(len(tier), dtype=np.int32)
    index[:hosts] = 0  # one NIC in each server
    for value in np.unique(tier[hosts:]):
        same = hosts + np.flatnonzero(tier[hosts:] == value)
        index[same] = np.arange(len(same))
    return index


def _ports(src: np.ndarray) -> np.ndarray:
    """Number the ports of each node from 1, in the order of their cables."""
    port = np.zeros(len(src), dtype=np.int32)
    seen: dict[int, int] = {}
    for k, node in enumerate(src.tolist()):
        seen[node] = port[k] = seen.get(node, 0) + 1
    return port


def star(
    hosts: int,
    speed_bps: float,
    *,
    length_m: float = 5.0,
    model: str = "",
    name: str = "star",
    switch_latency_s: float = SWITCH_LATENCY_S,
    host_latency_s: float = HOST_LATENCY_S,
) -> Fabric:
    """Return hosts on one switch."""
    cables = [Cable(h, hosts, speed_bps, length_m) for h in range(hosts)]
    return small_fabric(
        name,
        hosts,
        (1,),
        cables,
        model=model,
        switch_latency_s=switch_latency_s,
        host_latency_s=host_latency_s,
    )


def dumbbell(
    left: int,
    right: int,
    speed_bps: float,
    middle_bps: float,
    *,
    length_m: float = 5.0,
    model: str = "",
    name: str = "dumbbell",
) -> Fabric:
    """Return two switches with hosts on each, joined by one cable."""
    n = left + right
    cables = [Cable(h, n if h < left else n + 1, speed_bps, length_m) for h in range(n)]
    cables.append(Cable(n, n + 1, middle_bps, length_m))
    return small_fabric(name, n, (-1, -1), cables, model=model)
