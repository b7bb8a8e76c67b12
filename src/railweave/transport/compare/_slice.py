"""A small part of the traffic that stands for the rest: from the GPUs of one leaf to others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from railweave.errors import InputError
from railweave.fabric import Fabric, LinkLayer, NodeKind, PlaneId
from railweave.fabric._attach import scale_up
from railweave.fabric._random import stream
from railweave.fabric.names import port_name
from railweave.fabric.routing import RoutingSet

if TYPE_CHECKING:
    from railweave.api import BuiltDesign

__all__ = ["Slice", "domains", "take_slice"]

I32 = npt.NDArray[np.int32]

#: flows of the permutation, and senders of the incast
MOST_FLOWS = 32
MOST_SENDERS = 16


@dataclass(frozen=True)
class Slice:
    """Pairs of GPUs in different scale-up domains, under different leaves where there are several.

    ``pairs`` go from one leaf to GPUs drawn by the design's seed. ``senders`` of that leaf send to
    ``receiver`` in the incast; ``bystander`` is a pair that shares both leaves with them but
    neither end. ``uplink`` is the port whose cable fails, "" where a switch has
    none; ``host_port`` the leaf's port to the first receiver, whose cable loses packets.
    ``host_bps`` is the slowest host link.
    """

    pairs: tuple[tuple[int, int], ...]
    senders: tuple[int, ...]
    receiver: int
    bystander: tuple[int, int] | None
    uplink: str
    uplink_links: tuple[int, ...]
    host_port: str
    host_bps: float


def take_slice(built: BuiltDesign) -> Slice:
    """Choose the slice of a design; the same names are used on every technology.

    The leaf with the most GPUs sends, the first of equals. Where all GPUs stand under one switch
    the pairs do too.

    Raises:
        InputError: fewer than two scale-up domains whose GPUs reach each other over the network.
    """
    fabric = built.fabric
    under = _gpus_by_leaf(fabric, built.routing())
    order = sorted(under, key=lambda leaf: (-len(under[leaf]), leaf))
    if not order:
        raise InputError(
            "compare: no two servers reach each other over the back-end; give it more servers, or "
            "more scale-up domains"
        )
    first = under[order[0]]
    rest = [gpu for leaf in order[1:] for gpu in under[leaf]]
    pairs = _pairs(fabric, first, rest or first, built.design.seed)
    if not pairs:
        raise InputError("compare: the back-end joins fewer than two servers; give it more")
    receiver = pairs[0][1]
    beside = next(gpus for gpus in under.values() if receiver in gpus)
    bystander = _bystander(fabric, pairs, receiver, beside)
    taken = {receiver, *(bystander or ())}
    place = domains(fabric)
    senders = [gpu for gpu in first if place[gpu] != place[receiver] and gpu not in taken]
    uplinks = _uplinks(fabric, order[0])
    host = _host_link(fabric, built.routing(), pairs[0])
    network = (fabric.link_layer == LinkLayer.HOST_LEAF) & (fabric.link_plane == PlaneId.BACKEND)
    return Slice(
        pairs=tuple(pairs),
        senders=tuple(senders[:MOST_SENDERS]),
        receiver=receiver,
        bystander=bystander,
        uplink=port_name(fabric, uplinks[0]) if uplinks else "",
        uplink_links=tuple(uplinks),
        host_port=port_name(fabric, host),
        host_bps=float(fabric.link_capacity_bps[network & fabric.link_up].min()),
    )


def domains(fabric: Fabric) -> I32:
    """Return what GPUs reach each other without the network in: their hub's node, or their server.

    Shape (N,); servers are counted from −2 downwards.
    """
    hub = scale_up(fabric).hub
    return np.where(hub >= 0, hub, -2 - fabric.node_server).astype(np.int32)


def _gpus_by_leaf(fabric: Fabric, routing: RoutingSet) -> dict[int, list[int]]:
    """Return the GPUs behind each leaf, by the first switch on their way to another domain."""
    gpus = fabric.gpus
    place = domains(fabric)[gpus]
    named, at = np.unique(place, return_inverse=True)
    if len(named) < 2:
        return {}
    # Each domain's GPUs send to one of the next domain.
    first = np.array([int(gpus[np.flatnonzero(place == one)[0]]) for one in named], dtype=np.int32)
    paths = routing.paths(gpus.astype(np.int32), np.roll(first, -1)[at.reshape(-1)])
    under: dict[int, list[int]] = {}
    for number, gpu in enumerate(gpus):
        for links in paths.links_of(number)[:1]:
            out = links[_host_links(fabric, links) & _is_switch(fabric, fabric.link_dst[links])]
            if out.size:
                under.setdefault(int(fabric.link_dst[out[0]]), []).append(int(gpu))
    return under


def _host_links(fabric: Fabric, links: I32) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = fabric.link_layer[links] == LinkLayer.HOST_LEAF
    return found


def _is_switch(fabric: Fabric, nodes: I32) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = fabric.node_kind[nodes] == NodeKind.SWITCH
    return found


def _pairs(
    fabric: Fabric, first: Sequence[int], rest: Sequence[int], seed: int
) -> list[tuple[int, int]]:
    """Give each GPU of the first leaf another receiver, by lot, never in its own domain."""
    place = domains(fabric)
    left = list(stream(seed, "compare-permutation").permutation(np.array(rest)))
    found = []
    for gpu in first[:MOST_FLOWS]:
        peer = next((g for g in left if place[g] != place[gpu]), None)
        if peer is not None:
            left.remove(peer)
            found.append((gpu, int(peer)))
    return found


def _bystander(
    fabric: Fabric, pairs: Sequence[tuple[int, int]], receiver: int, beside: Sequence[int]
) -> tuple[int, int] | None:
    """Return a pair from the senders' leaf to the receiver's, in neither's domain."""
    place = domains(fabric)
    for sender, _ in reversed(pairs[1:]):
        if place[sender] == place[receiver]:
            continue
        for gpu in beside:
            if place[gpu] not in (place[receiver], place[sender]):
                return sender, gpu
    return None


def _uplinks(fabric: Fabric, leaf: int) -> list[int]:
    """Return the links from a leaf to the switches above it."""
    up = (fabric.link_src == leaf) & fabric.link_up
    up &= fabric.node_kind[fabric.link_dst] == NodeKind.SWITCH
    return [int(link) for link in np.flatnonzero(up)]


def _host_link(fabric: Fabric, routing: RoutingSet, pair: tuple[int, int]) -> int:
    """Return the link from the last switch to the receiver of a pair."""
    src, dst = (np.array([gpu], dtype=np.int32) for gpu in pair)
    links = routing.paths(src, dst).links_of(0)[0]
    into = links[_host_links(fabric, links) & _is_switch(fabric, fabric.link_src[links])]
    return int(into[-1])
