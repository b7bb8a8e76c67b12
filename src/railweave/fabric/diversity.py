"""Path diversity of a plane: hops, diameter and equal-cost paths, from the compiled route table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railweave.fabric._arrays import TIER_NAMES, Fabric, LinkLayer, NodeKind, PlaneId

if TYPE_CHECKING:
    from railweave._native import RouteTable

__all__ = ["PathFacts", "TierDiversity", "path_facts", "plane_route_table", "tier_diversity"]


@dataclass(frozen=True, slots=True)
class TierDiversity:
    """Ways up from one switch of a tier: live links and distinct switches, fewest and most."""

    tier: str
    min_uplinks: int
    max_uplinks: int
    min_neighbours: int
    max_neighbours: int


@dataclass(frozen=True, slots=True)
class PathFacts:
    """Paths of a plane as its links now stand.

    ``ecmp_paths`` counts link-level paths (parallel links count each) between the farthest pair of
    endpoints, ``farthest``; 0 where there is no such pair. ``diameter`` is that pair's distance in
    links, its two host links included. ``hop_histogram`` has (links between two leaves, ordered
    pairs of leaves); −1 stands for pairs with no up–down path.
    """

    ecmp_paths: float
    farthest: tuple[int, int]
    diameter: int
    hop_histogram: tuple[tuple[int, int], ...]
    tiers: tuple[TierDiversity, ...]


def plane_route_table(fabric: Fabric, plane: PlaneId, *, threads: int = 1) -> RouteTable:
    """Compile the up–down routes of a plane's live links."""
    from railweave._native import RouteTable

    used = (fabric.link_plane == plane) & (fabric.link_layer >= LinkLayer.HOST_LEAF)
    return RouteTable(
        fabric.n_nodes,
        fabric.link_src,
        fabric.link_dst,
        fabric.link_up & used,
        # Switches of other planes are no switches here: they would stand in the table unreached.
        ((fabric.node_kind == NodeKind.SWITCH) & (fabric.node_plane == plane)).astype(np.uint8),
        fabric.node_tier,
        threads,
    )


def path_facts(fabric: Fabric, plane: PlaneId, table: RouteTable | None = None) -> PathFacts:
    """Return hops, diameter and equal-cost paths of a plane.

    Args:
        fabric: the fabric as it stands.
        plane: a plane with a network of its own.
        table: its compiled routes, where they are at hand already.
    """
    table = table or plane_route_table(fabric, plane)
    source, target, hops = table.farthest()
    return PathFacts(
        ecmp_paths=table.path_count(source, target) if hops >= 0 else 0.0,
        farthest=(source, target),
        diameter=max(hops, 0),
        hop_histogram=tuple(sorted(table.hop_histogram().items())),
        tiers=tier_diversity(fabric, plane),
    )


def tier_diversity(fabric: Fabric, plane: PlaneId) -> tuple[TierDiversity, ...]:
    """Return the ways up from the switches of each tier that has a tier above it."""
    live = np.flatnonzero((fabric.link_plane[::2] == plane) & fabric.link_up[::2])
    a, b = fabric.link_src[::2][live], fabric.link_dst[::2][live]
    tier = np.where(fabric.node_kind == NodeKind.SWITCH, fabric.node_tier, -1)
    both = (tier[a] > 0) & (tier[b] > 0) & (tier[a] != tier[b])
    a, b = a[both], b[both]
    low, high = np.where(tier[a] < tier[b], a, b), np.where(tier[a] < tier[b], b, a)
    links = np.bincount(low, minlength=fabric.n_nodes)
    pairs = np.unique(np.stack((low, high)), axis=1)
    neighbours = np.bincount(pairs[0], minlength=fabric.n_nodes)
    present = sorted({int(t) for t in tier[fabric.switches(plane)] if t > 0})
    found = []
    for number in present[:-1]:
        nodes = fabric.switches(plane, number)
        found.append(
            TierDiversity(
                TIER_NAMES.get(number, f"tier {number}"),
                int(links[nodes].min()),
                int(links[nodes].max()),
                int(neighbours[nodes].min()),
                int(neighbours[nodes].max()),
            )
        )
    return tuple(found)
