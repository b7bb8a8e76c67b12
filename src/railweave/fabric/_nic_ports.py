"""Ports of NICs into a plane, and which of them both ends of a message can use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from railweave.fabric._arrays import Fabric, NodeKind, PlaneId
from railweave.fabric._attach import plane_links

__all__ = ["NicPorts", "nic_ports"]

Bool = npt.NDArray[np.bool_]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

#: flows whose ports are compared at a time, to bound the memory
_CHUNK = 1 << 18


@dataclass(frozen=True, eq=False)
class NicPorts:
    """Leaves of every node's ports, shape (N, P), −1 where there is no port or it is down.

    Ports stand in the order of their links, which is the native core's numbering. ``subplane`` is
    that of the leaf.
    """

    leaf: I32
    subplane: I32

    @property
    def most(self) -> int:
        """Highest number of ports of a node."""
        return int(self.leaf.shape[1])

    def shared(self, src: I32, dst: I32) -> tuple[I64, Bool]:
        """Find the ports which the two NICs of each flow can use together.

        They lie in a sub-plane where both ends have a live port; where some of these share a leaf
        with the other end, only those are near.

        Returns:
            How many flows can run side by side, shape (M,): in every sub-plane the lower number
            of ports of the two ends. And the usable ports of the sender, shape (M, P).
        """
        count = np.zeros(len(src), dtype=np.int64)
        usable = np.zeros((len(src), self.most), dtype=bool)
        for start in range(0, len(src), _CHUNK):
            part = slice(start, start + _CHUNK)
            count[part], usable[part] = self._shared(src[part], dst[part])
        return count, usable

    def _shared(self, src: I32, dst: I32) -> tuple[I64, Bool]:
        leaf, other_leaf = self.leaf[src], self.leaf[dst]
        sub = np.where(leaf >= 0, self.subplane[src], -1)
        other = np.where(other_leaf >= 0, self.subplane[dst], -2)
        near = np.zeros(leaf.shape, dtype=bool)
        meet = np.zeros(leaf.shape, dtype=bool)
        for k in range(self.most):
            meet |= sub == other[:, k : k + 1]
            near |= (leaf == other_leaf[:, k : k + 1]) & (leaf >= 0)
        count = np.zeros(len(src), dtype=np.int64)
        usable = meet.copy()
        for value in np.unique(sub[sub >= 0]).tolist():
            here = sub == value
            close = here & near
            mine = np.where(close.any(axis=1)[:, None], close, here & meet)
            usable = np.where(here, mine, usable)
            count += np.minimum(mine.sum(axis=1), (other == value).sum(axis=1))
        return count, usable

    def choose(self, usable: Bool, lane: I64, start: I64) -> I32:
        """Deal flows over their usable ports in turn; −1 where there is none.

        Args:
            usable: ports a flow may take, shape (M, P).
            lane: number of the flow among those of its message through its NIC.
            start: where a message begins which has fewer flows than ports.
        """
        total = usable.sum(axis=1)
        turn = (lane + start) % np.maximum(1, total)
        chosen = np.argmax(np.cumsum(usable, axis=1) > turn[:, None], axis=1)
        port: I32 = np.where(total > 0, chosen, -1).astype(np.int32)
        return port


def nic_ports(fabric: Fabric, plane: PlaneId) -> NicPorts:
    """List the ports of all endpoints into a plane."""
    switch = (fabric.node_kind == NodeKind.SWITCH) & (fabric.node_plane == plane)
    link = np.flatnonzero(switch[fabric.link_dst] & ~switch[fabric.link_src])
    owner = fabric.link_src[link]
    order = np.argsort(owner, kind="stable")
    link, owner = link[order], owner[order]
    place = np.arange(len(owner)) - np.searchsorted(owner, owner, side="left")
    shape = (fabric.n_nodes, int(place.max(initial=0)) + 1)
    leaf, subplane = (np.full(shape, -1, dtype=np.int32) for _ in range(2))
    up = plane_links(fabric, plane)[link]
    to = fabric.link_dst[link]
    leaf[owner, place] = np.where(up, to, -1)
    subplane[owner, place] = np.where(up, fabric.node_subplane[to], -1)
    return NicPorts(leaf, subplane)
