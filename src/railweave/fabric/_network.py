"""The switch network of one plane, taken out of a `Fabric` once and asked many times.

Switches are renumbered 0..n-1; parallel links between two switches become one *trunk*, and every
link of an endpoint is kept with the switch it ends at. Analyses under failures only exchange
``link_up``, so that a thousand what-ifs share this.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from railweave.fabric._arrays import Fabric, NodeKind, PlaneId

__all__ = ["SwitchNetwork", "switch_network"]

Bool = npt.NDArray[np.bool_]
I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SwitchNetwork:
    """Switches, trunks and host links of one plane (or of one of its parallel planes).

    Shapes: (n,) for ``switch``, (H,) for ``host_…``, (T,) for ``trunk_duplex`` and ``trunk_group``,
    (E,) for ``group_…``. Capacities are whole bit/s.
    """

    plane: PlaneId
    switch: I64  #: node number
    host_duplex: I64
    host_switch: I64  #: number 0..n-1
    host_node: I64  #: node number of the endpoint
    host_bps: I64
    trunk_duplex: I64
    trunk_group: I64
    trunk_bps: I64
    group_a: I64  #: number 0..n-1
    group_b: I64
    exact: bool  #: False where a capacity was not a whole number of bit/s and was rounded

    @property
    def n(self) -> int:
        """Number of switches."""
        return len(self.switch)

    def host_capacity(self, link_up: Bool, member: Bool) -> I64:
        """Sum the live host links in ``member`` (H,) by switch, shape (n,), bit/s."""
        live = self.host_bps * (link_up[2 * self.host_duplex] & member)
        return _sum_by(self.host_switch, live, self.n)

    def group_capacity(self, link_up: Bool) -> I64:
        """Sum the live links of each trunk, shape (E,), bit/s in one direction."""
        return _sum_by(
            self.trunk_group, self.trunk_bps * link_up[2 * self.trunk_duplex], len(self.group_a)
        )

    @cached_property
    def arcs(self) -> tuple[I64, I64, I64]:
        """Both directions of each trunk, sorted by source: source, target and trunk, (2E,)."""
        source = np.concatenate((self.group_a, self.group_b))
        target = np.concatenate((self.group_b, self.group_a))
        group = np.tile(np.arange(len(self.group_a)), 2)
        order = np.argsort(source, kind="stable")
        return source[order], target[order], group[order]

    def fragments(self, link_up: Bool) -> I64:
        """Number the connected parts of the switches over live trunks, shape (n,)."""
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components

        live = self.group_capacity(link_up) > 0
        a, b = self.group_a[live], self.group_b[live]
        matrix = csr_array((np.ones(len(a), dtype=np.int8), (a, b)), shape=(self.n, self.n))
        labels: I64 = connected_components(matrix, directed=False)[1].astype(np.int64)
        return labels


def switch_network(fabric: Fabric, plane: PlaneId, subplane: int | None = None) -> SwitchNetwork:
    """Take the switch network of a plane, or of one of its parallel planes, out of a fabric."""
    chosen = (fabric.node_kind == NodeKind.SWITCH) & (fabric.node_plane == plane)
    if subplane is not None:
        chosen &= fabric.node_subplane == subplane
    switch = np.flatnonzero(chosen)
    number = np.full(fabric.n_nodes, -1, dtype=np.int64)
    number[switch] = np.arange(len(switch))
    a, b = fabric.link_src[::2], fabric.link_dst[::2]
    a_switch, b_switch = number[a], number[b]
    is_switch = fabric.node_kind == NodeKind.SWITCH
    low = np.flatnonzero((b_switch >= 0) & ~is_switch[a])
    high = np.flatnonzero((a_switch >= 0) & ~is_switch[b])
    trunk = np.flatnonzero((a_switch >= 0) & (b_switch >= 0))
    first = np.minimum(a_switch[trunk], b_switch[trunk])
    second = np.maximum(a_switch[trunk], b_switch[trunk])
    pair, group = np.unique(first * max(1, len(switch)) + second, return_inverse=True)
    exact_bps = fabric.link_capacity_bps[::2] * fabric.link_efficiency[::2]
    bps = np.rint(exact_bps).astype(np.int64)
    hosts = np.concatenate((low, high))
    used = np.concatenate((hosts, trunk))
    return SwitchNetwork(
        plane=plane,
        switch=switch,
        host_duplex=hosts,
        host_switch=np.concatenate((b_switch[low], a_switch[high])),
        host_node=np.concatenate((a[low], b[high])).astype(np.int64),
        host_bps=bps[hosts],
        trunk_duplex=trunk,
        trunk_group=group.reshape(-1).astype(np.int64),
        trunk_bps=bps[trunk],
        group_a=pair // max(1, len(switch)),
        group_b=pair % max(1, len(switch)),
        exact=bool(np.all(bps[used] == exact_bps[used])),
    )


def _sum_by(index: I64, value: I64, size: int) -> I64:
    """Sum whole numbers by index, exactly."""
    out = np.zeros(size, dtype=np.int64)
    np.add.at(out, index, value)
    return out
