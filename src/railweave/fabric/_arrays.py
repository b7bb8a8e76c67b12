"""The `Fabric`: every device and link of a cluster as a struct of arrays.

Nodes are numbered 0..N-1, links 0..L-1. Links are directed and come in pairs: link ``2k`` goes
from end A (nearer the endpoints) to end B, link ``2k+1`` back; ``k`` is the *duplex* number.
Names exist only at the edges and are made on demand.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from railweave.fabric.names import Naming

__all__ = ["TIER_NAMES", "Fabric", "LinkLayer", "NodeKind", "PlaneId"]

I8 = npt.NDArray[np.int8]
U8 = npt.NDArray[np.uint8]
I32 = npt.NDArray[np.int32]
F64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

#: switch tier → name; tier 0 are endpoints
TIER_NAMES = {1: "leaf", 2: "spine", 3: "core"}


class NodeKind(IntEnum):
    """What a node is."""

    HOST = 0  #: a server's CPU and memory: end of front-end, storage and management traffic
    GPU = 1
    NIC = 2  #: one network adapter; it may have several ports (links)
    SCALE_UP = 3  #: an NVSwitch/xGMI domain, seen as one hub
    SWITCH = 4
    STORAGE = 5  #: a storage server
    EXTRA = 6  #: another host on the fabric (UFM, a service)


class LinkLayer(IntEnum):
    """Layer of a link, from the inside of a server outwards."""

    SCALE_UP = 0  #: GPU – scale-up hub
    PCIE = 1  #: GPU – NIC, or host – NIC
    HOST_LEAF = 2
    LEAF_SPINE = 3
    SPINE_CORE = 4
    OTHER = 5  #: switch to switch in an arbitrary graph


class PlaneId(IntEnum):
    """Number of a plane in ``node_plane`` and ``link_plane``; −1 there means inside a server."""

    BACKEND = 0
    FRONTEND = 1
    STORAGE = 2
    MANAGEMENT = 3


@dataclass(frozen=True, eq=False)
class Fabric:
    """Arrays of one cluster. Shapes: (N,) for ``node_…``, (L,) for ``link_…``.

    ``node_index`` counts nodes of the same (kind, plane, subplane, tier) from 0, so that names can
    be made: GPU number, server number, leaf number. −1 marks what does not apply.

    ``link_capacity_bps`` is the nominal line rate; ``link_efficiency`` what part of it wire bytes
    can use (1 on network links, less on PCIe). Engines divide *wire bytes* by the product.
    """

    name: str
    node_kind: U8
    node_tier: I8  #: 0 endpoint, 1 leaf, 2 spine, 3 core; −1 unknown (arbitrary graph)
    node_plane: I8  #: PlaneId of a NIC or switch, else −1
    node_subplane: I8  #: which of a plane's parallel planes (dual plane), 0 where there is one
    node_pod: I32  #: scalable unit, zone or pod of a switch or server's node, −1 none
    node_rail: I32  #: rail of a NIC, GPU or leaf, −1 none
    node_server: I32  #: server number of HOST, GPU, NIC; −1 on switches
    node_rack: I32  #: rack number; switches stand in racks of their own behind the servers'
    node_index: I32
    link_src: I32
    link_dst: I32
    link_capacity_bps: F64
    link_efficiency: F64
    link_delay_s: F64  #: propagation plus the forwarding latency of the device at its head
    link_layer: U8
    link_plane: I8
    link_length_m: F64
    link_src_port: I32  #: logical port number at the source (from 1), 0 inside a server
    link_dst_port: I32
    link_up: Bool
    duplex_cable: I32  #: (L/2,) cable number; twin-port cables carry two duplex links; −1 inside
    server_names: tuple[str, ...] = ()
    switch_names: dict[int, str] = field(default_factory=dict)  #: names given: graph, other hosts
    switch_models: dict[int, str] = field(default_factory=dict)  #: node → catalog name

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.node_kind)

    @property
    def n_links(self) -> int:
        """Number of directed links, twice the duplex ones."""
        return len(self.link_src)

    @cached_property
    def naming(self) -> Naming:
        """Look-up tables for names, made once (see :mod:`railweave.fabric.names`)."""
        from railweave.fabric.names import Naming

        return Naming(self)

    @cached_property
    def gpus(self) -> I32:
        """Node numbers of the GPUs, in GPU-number order, shape (G,)."""
        return np.flatnonzero(self.node_kind == NodeKind.GPU).astype(np.int32)

    def nics(self, plane: PlaneId) -> I32:
        """Node numbers of a plane's NICs in server and rail order, shape (K,)."""
        mask = (self.node_kind == NodeKind.NIC) & (self.node_plane == plane)
        return np.flatnonzero(mask).astype(np.int32)

    def switches(self, plane: PlaneId, tier: int | None = None) -> I32:
        """Node numbers of a plane's switches, of one tier or of all."""
        mask = (self.node_kind == NodeKind.SWITCH) & (self.node_plane == plane)
        if tier is not None:
            mask &= self.node_tier == tier
        return np.flatnonzero(mask).astype(np.int32)

    @cached_property
    def usable_bps(self) -> F64:
        """Rate for wire bytes on each link: capacity × efficiency, 0 where the link is down."""
        usable: F64 = self.link_capacity_bps * self.link_efficiency * self.link_up
        return usable

    def without(self, *, duplex: Iterable[int] = (), nodes: Iterable[int] = ()) -> Fabric:
        """Return a copy in which these duplex links, and all links of these nodes, are down."""
        up = self.link_up.copy()
        for k in duplex:
            up[2 * k : 2 * k + 2] = False
        lost = np.fromiter(nodes, dtype=np.int32)
        if lost.size:
            up &= ~(np.isin(self.link_src, lost) | np.isin(self.link_dst, lost))
        return replace(self, link_up=up)

    def with_capacity(self, factors: dict[int, float]) -> Fabric:
        """Return a copy with these duplex links at a fraction of their speed (a degraded link)."""
        capacity = self.link_capacity_bps.copy()
        for k, factor in factors.items():
            capacity[2 * k : 2 * k + 2] *= factor
        return replace(self, link_capacity_bps=capacity)
