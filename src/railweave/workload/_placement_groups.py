"""Servers that hang on the same leaves: the unit in which a scheduler sees a fabric."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from railweave.fabric import Fabric, LinkLayer, NodeKind, PlaneId

__all__ = ["LeafGroups", "leaf_groups", "nic_leaves"]

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]


def nic_leaves(fabric: Fabric, plane: PlaneId = PlaneId.BACKEND) -> I32:
    """Return the switches each node's own ports lead to, (N, P), padded with −1.

    P is the largest number of such ports of one node. Links that are down do not count.
    """
    links = np.flatnonzero(
        (fabric.link_layer == LinkLayer.HOST_LEAF)
        & (fabric.link_plane == plane)
        & fabric.link_up
        & (fabric.node_kind[fabric.link_src] != NodeKind.SWITCH)
    )
    node = fabric.link_src[links]
    order = np.argsort(node, kind="stable")
    node, leaf = node[order], fabric.link_dst[links][order]
    count = np.bincount(node, minlength=fabric.n_nodes)
    column = np.arange(len(node)) - np.repeat(np.cumsum(count) - count, count)
    table = np.full((fabric.n_nodes, max(1, int(count.max(initial=0)))), -1, dtype=np.int32)
    table[node, column] = leaf
    return table


@dataclass(frozen=True, eq=False)
class LeafGroups:
    """GPU servers by the leaves they hang on: one leaf, or the leaves of a scalable unit.

    ``of_server`` is each server's group, (servers,), −1 where it has no GPU or no port on the
    plane; groups are numbered by their first server. ``leaves`` are the switches of each group,
    ascending; ``pod`` its number among the parts that core switches join, 0 without them.
    """

    of_server: I32
    leaves: tuple[tuple[int, ...], ...]
    pod: I32

    @property
    def count(self) -> int:
        """Number of groups."""
        return len(self.leaves)


def leaf_groups(fabric: Fabric, plane: PlaneId = PlaneId.BACKEND) -> LeafGroups:
    """Return the groups of servers that hang on the same leaves, as cabled (links down count)."""
    whole = replace(fabric, link_up=np.ones_like(fabric.link_up))
    table = nic_leaves(whole, plane)
    servers = int(fabric.node_server.max(initial=-1)) + 1
    with_gpus = np.zeros(servers, dtype=bool)
    with_gpus[fabric.node_server[fabric.gpus]] = True
    node, column = np.nonzero((table >= 0) & (fabric.node_server >= 0)[:, None])
    pair = np.unique(np.stack((fabric.node_server[node], table[node, column]), axis=1), axis=0)
    pair = pair[with_gpus[pair[:, 0]]]
    of_server = np.full(servers, -1, dtype=np.int32)
    number: dict[tuple[int, ...], int] = {}
    bounds = np.flatnonzero(np.diff(pair[:, 0], prepend=-1, append=-1))
    for first, last in itertools.pairwise(bounds.tolist()):
        leaves = tuple(pair[first:last, 1].tolist())
        of_server[pair[first, 0]] = number.setdefault(leaves, len(number))
    cored = len(fabric.switches(plane, 3)) > 0
    pod = [int(fabric.node_pod[leaves[0]]) if cored else 0 for leaves in number]
    return LeafGroups(of_server, tuple(number), np.array(pod, dtype=np.int32))
