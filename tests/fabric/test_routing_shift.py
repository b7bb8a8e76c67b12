"""d-mod-k on whole fabrics: a full Clos carries every shift permutation without a collision."""

import numpy as np
import pytest

import railweave
from railweave.engine.metrics import uplink_spread
from railweave.fabric import PlaneId

DESIGN = """
railweave: 1
name: shift
cluster: {{servers: {{model: dgx-h100, count: {servers}}}}}
planes:
  backend:
    transport: infiniband
    topology: {topology}
    tiers: {tiers}
    switch: {{radix: {radix}, speed: 400 Gb/s}}
"""
SHAPES = [
    (16, "leaf-spine", 2, 32),
    (12, "rail-optimized", 2, 16),
    (8, "fat-tree", 3, 8),  # a core has two links to a pod
    (16, "fat-tree", 3, 8),
    (27, "fat-tree", 3, 12),
    (32, "rail-optimized", 3, 16),  # a pod's leaves are far apart by number
    (64, "rail-optimized", 3, 16),
]


def routed(servers, topology, tiers, radix):
    text = DESIGN.format(servers=servers, topology=topology, tiers=tiers, radix=radix)
    built = railweave.parse(text).build()
    routing = built.routing().planes[PlaneId.BACKEND]
    at = routing.addresses
    return built.fabric, routing, at.node[np.lexsort((at.node, at.leaf))].astype(np.int32)


@pytest.mark.parametrize(("servers", "topology", "tiers", "radix"), SHAPES)
def test_shift_permutations_do_not_collide(servers, topology, tiers, radix):
    _, routing, nics = routed(servers, topology, tiers, radix)
    shifts = {*range(1, 2 * radix), *(len(nics) // k for k in (2, 3, 5)), len(nics) - 1}
    for shift in sorted(shifts):
        paths = routing.paths(nics, np.roll(nics, -shift))
        assert not paths.status.any()
        assert np.bincount(paths.link).max() == 1, f"shift by {shift}"


@pytest.mark.parametrize(("servers", "topology", "tiers", "radix"), SHAPES[2:])
def test_all_pairs_load_all_uplinks_alike(servers, topology, tiers, radix):
    fabric, routing, nics = routed(servers, topology, tiers, radix)
    src, dst = np.repeat(nics, len(nics)), np.tile(nics, len(nics))
    paths = routing.paths(src[src != dst], dst[src != dst])
    for tier in (1, 2):
        spread = uplink_spread(fabric, paths, tier=tier)
        assert spread.idle_share == 0
        assert spread.worst_ratio == pytest.approx(1.0)
