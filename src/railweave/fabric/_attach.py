"""How endpoints reach a plane: their NICs, and the links inside the server on the way there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from railweave.fabric._arrays import Fabric, LinkLayer, NodeKind, PlaneId

__all__ = ["Attachments", "ScaleUp", "attachments", "plane_links", "scale_up"]

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

#: links inside a server on the longest way: GPU → scale-up hub → other GPU → its NIC
WAY = 3


@dataclass(frozen=True, eq=False)
class ScaleUp:
    """Each node's scale-up hub (−1 none) with the links to and from it; shape (N,).

    Where GPUs have no scale-up network their hub is the host they share PCIe with.
    """

    hub: I32
    out: I32
    back: I32


@dataclass(frozen=True, eq=False)
class Attachments:
    """Ways of each node to its NICs in one plane, in CSR form.

    Way ``k`` ends at ``nic[k]`` (a NIC, or the node itself where it has its own port). ``out[k]``
    holds its links in order, right-aligned and padded with −1 on the left; ``back[k]`` the links
    from the NIC to the node, left-aligned. ``borrowed`` marks nodes whose own NICs are all down
    and who use those of other GPUs in their scale-up domain.
    """

    ptr: I64
    nic: I32
    out: I32
    back: I32
    borrowed: Bool

    def count(self, node: I32) -> I64:
        """Return how many ways each of these nodes has."""
        return self.ptr[node.astype(np.int64) + 1] - self.ptr[node]


def plane_links(fabric: Fabric, plane: PlaneId) -> Bool:
    """Return which links belong to a plane's network and are up, shape (L,)."""
    mask: Bool = (
        (fabric.link_plane == plane) & (fabric.link_layer >= LinkLayer.HOST_LEAF) & fabric.link_up
    )
    return mask


def scale_up(fabric: Fabric) -> ScaleUp:
    """Find the hub of every GPU; links that are down count as absent."""
    hub, out = (np.full(fabric.n_nodes, -1, dtype=np.int32) for _ in range(2))
    gpu = fabric.node_kind[fabric.link_src] == NodeKind.GPU
    for layer, kind in ((LinkLayer.PCIE, NodeKind.HOST), (LinkLayer.SCALE_UP, NodeKind.SCALE_UP)):
        there = (fabric.link_layer == layer) & (fabric.node_kind[fabric.link_dst] == kind)
        link = np.flatnonzero(there & gpu & fabric.link_up)
        hub[fabric.link_src[link]] = fabric.link_dst[link]
        out[fabric.link_src[link]] = link
    return ScaleUp(hub, out, np.where(out >= 0, out ^ 1, -1).astype(np.int32))


def _direct(fabric: Fabric, plane: PlaneId, ported: Bool) -> tuple[I32, I32, I32, I32]:
    """Return (node, NIC, link out, link back) of nodes that own a port or a PCIe link to a NIC."""
    nic = (fabric.node_kind == NodeKind.NIC) & (fabric.node_plane == plane)
    itself = np.flatnonzero(ported).astype(np.int32)
    none = np.full(len(itself), -1, dtype=np.int32)
    out = np.flatnonzero((fabric.link_layer == LinkLayer.PCIE) & nic[fabric.link_dst]).astype(
        np.int32
    )
    # Links come in pairs: the way back of link l is l ^ 1.
    return (
        np.concatenate((itself, fabric.link_src[out])),
        np.concatenate((itself, fabric.link_dst[out])),
        np.concatenate((none, out)),
        np.concatenate((none, out ^ 1)),
    )


def _by_server(fabric: Fabric, plane: PlaneId, missing: I32) -> tuple[I32, I32]:
    """Pair nodes that have no link to a NIC of this plane with all such NICs of their server."""
    nics = fabric.nics(plane)
    nics = nics[fabric.node_server[nics] >= 0]
    order = np.argsort(fabric.node_server[nics], kind="stable")
    nics, server = nics[order], fabric.node_server[nics][order]
    low = np.searchsorted(server, fabric.node_server[missing], side="left")
    high = np.searchsorted(server, fabric.node_server[missing], side="right")
    length = high - low
    start = np.repeat(low - np.concatenate(([0], np.cumsum(length)[:-1])), length)
    return np.repeat(missing, length), nics[start + np.arange(int(length.sum()))]


def attachments(fabric: Fabric, plane: PlaneId, domain: ScaleUp) -> Attachments:
    """Find every endpoint's ways into a plane.

    A node with ports of its own is its own NIC. Otherwise its PCIe links lead to NICs; a GPU or
    host without one uses its server's NICs, and the links inside the server are then not counted.
    NICs with no live port are left out while the node has another; a GPU with none left borrows
    the NICs of the GPUs in its scale-up domain.
    """
    n = fabric.n_nodes
    switch = fabric.node_kind == NodeKind.SWITCH
    plane_any = (fabric.link_plane == plane) & (fabric.link_layer >= LinkLayer.HOST_LEAF)
    ported = np.zeros(n, dtype=bool)
    ported[fabric.link_src[plane_any]] = True
    ported &= ~switch
    live = np.zeros(n, dtype=bool)
    live[fabric.link_src[plane_links(fabric, plane)]] = True

    node, nic, out, back = _direct(fabric, plane, ported)
    has = np.zeros(n, dtype=bool)
    has[node] = True
    inside = np.isin(fabric.node_kind, (NodeKind.GPU, NodeKind.HOST)) & (fabric.node_server >= 0)
    extra_node, extra_nic = _by_server(
        fabric, plane, np.flatnonzero(inside & ~has).astype(np.int32)
    )
    none = np.full(len(extra_node), -1, dtype=np.int32)
    node, nic = np.concatenate((node, extra_node)), np.concatenate((nic, extra_nic))
    out, back = np.concatenate((out, none)), np.concatenate((back, none))

    reachable = (out < 0) | fabric.link_up[out]
    alive = live[nic] & reachable
    served = np.zeros(n, dtype=bool)
    served[node[alive]] = True
    # NICs without a live port stay where there is nothing better: they have no path, and say so.
    keep = alive | (~served[node] & reachable)
    node, nic, out, back, alive = node[keep], nic[keep], out[keep], back[keep], alive[keep]
    outs, backs = (np.full((len(node), WAY), -1, dtype=np.int32) for _ in range(2))
    outs[:, -1], backs[:, 0] = out, back
    lost = np.flatnonzero((domain.hub >= 0) & has & ~served).astype(np.int32)
    borrowed = np.zeros(n, dtype=bool)
    if lost.size:
        node, nic, outs, backs = _borrow(fabric, domain, lost, alive, (node, nic, outs, backs))
        borrowed[lost] = True
    order = np.lexsort((np.arange(len(node)), node))
    ptr = np.searchsorted(node[order], np.arange(n + 1))
    return Attachments(ptr.astype(np.int64), nic[order], outs[order], backs[order], borrowed)


def _borrow(
    fabric: Fabric, domain: ScaleUp, lost: I32, alive: Bool, ways: tuple[I32, I32, I32, I32]
) -> tuple[I32, I32, I32, I32]:
    """Give GPUs without a live NIC the NICs of the GPUs in their server and scale-up domain."""
    node, nic, outs, backs = ways
    usable = alive & (fabric.node_kind[node] == NodeKind.GPU)
    new: list[tuple[int, int, list[int], list[int]]] = []
    for gpu in lost.tolist():
        near = usable & (fabric.node_server[node] == fabric.node_server[gpu])
        for k in np.flatnonzero(near & (domain.hub[node] == domain.hub[gpu])).tolist():
            peer = int(node[k])
            hop_out = [int(domain.out[gpu]), int(domain.back[peer]), int(outs[k, -1])]
            hop_back = [int(backs[k, 0]), int(domain.out[peer]), int(domain.back[gpu])]
            new.append((gpu, int(nic[k]), hop_out, hop_back))
    if not new:
        return ways
    gpus = np.array([row[0] for row in new], dtype=np.int32)
    keep = ~np.isin(node, gpus)
    return (
        np.concatenate((node[keep], gpus)),
        np.concatenate((nic[keep], np.array([row[1] for row in new], dtype=np.int32))),
        np.concatenate((outs[keep], np.array([row[2] for row in new], dtype=np.int32))),
        np.concatenate((backs[keep], np.array([row[3] for row in new], dtype=np.int32))),
    )
