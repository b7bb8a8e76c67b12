"""IPv4 addresses of host ports: deterministic, routable leaf by leaf, the same in every output.

Each plane owns a quarter of 10.0.0.0/8: back-end 10.0–10.63, front-end 10.64–10.127, storage
10.128–10.191, management 10.192–10.255. Within it every leaf owns one subnet, all of one size: the
smallest power of two which holds the network address, the leaf itself (first address), the leaf
with the most host ports, and the broadcast address. Host ports follow in order of the leaf's ports.
A failed link keeps its address.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from railweave.errors import SizingError
from railweave.fabric._arrays import Fabric, NodeKind, PlaneId

__all__ = ["Addresses", "ip_text", "plane_addresses"]

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U32 = npt.NDArray[np.uint32]

_PLANE_BITS = 22


@dataclass(frozen=True, eq=False)
class Addresses:
    """Addresses of one plane, one for each host port (H of them).

    ``link`` is the directed link from the host to its leaf. ``node_ip`` is, for each node of the
    fabric, the address of its first port (0 where it has none): what flows carry as source and
    destination, as with a bonded pair of ports.
    """

    plane: PlaneId
    prefix_length: int
    link: I32
    node: I32
    leaf: I32
    ip: U32
    gateway_ip: U32
    node_ip: U32

    def of_node(self, node: int) -> tuple[str, ...]:
        """Return the addresses of a node's ports in this plane, as text."""
        return tuple(ip_text(int(ip)) for ip in self.ip[self.node == node])


def ip_text(ip: int) -> str:
    """Write a 32-bit address as dotted decimals: ``ip_text(0x0A000002)`` → ``'10.0.0.2'``."""
    return ".".join(str((ip >> shift) & 255) for shift in (24, 16, 8, 0))


def plane_addresses(fabric: Fabric, plane: PlaneId) -> Addresses:
    """Give every host port of a plane its address.

    Raises:
        SizingError: the plane's 4,194,304 addresses do not hold its leaves' subnets.
    """
    switch = fabric.node_kind == NodeKind.SWITCH
    upward = (fabric.link_plane == plane) & ~switch[fabric.link_src] & switch[fabric.link_dst]
    link = np.flatnonzero(upward)
    leaf = fabric.link_dst[link]
    order = np.lexsort((link, fabric.link_dst_port[link], leaf))
    link, leaf = link[order], leaf[order]
    leaves, first, ordinal, count = np.unique(
        leaf, return_index=True, return_inverse=True, return_counts=True
    )
    bits = int(np.ceil(np.log2(int(count.max()) + 3))) if link.size else 2
    if len(leaves) << bits > 1 << _PLANE_BITS:
        name = PlaneId(plane).name.lower()
        raise SizingError(
            f"plane {name} has {len(leaves)} leaves with up to {int(count.max())} host ports: "
            f"more than the {1 << _PLANE_BITS} addresses of its block",
            path=f"planes.{name}",
            allowed="fewer leaves, or fewer host ports on the fullest leaf",
        )
    base = (10 << 24) + (int(plane) << _PLANE_BITS)
    gateway = base + (ordinal.astype(np.int64) << bits) + 1
    ip = gateway + 1 + np.arange(link.size) - first[ordinal]
    node = fabric.link_src[link]
    node_ip = np.zeros(fabric.n_nodes, dtype=np.uint32)
    by_link = np.argsort(link, kind="stable")[::-1]  # the lowest link is written last: it stays
    node_ip[node[by_link]] = ip[by_link]
    return Addresses(
        PlaneId(plane),
        32 - bits,
        link.astype(np.int32),
        node,
        leaf,
        ip.astype(np.uint32),
        gateway.astype(np.uint32),
        node_ip,
    )
