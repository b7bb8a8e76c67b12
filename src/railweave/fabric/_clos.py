"""Wiring of one sized network: which port of which switch is joined to which."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from railweave.fabric._assembly import Ints
from railweave.fabric._placement import ranks_within
from railweave.fabric.sizing import NetworkSize

__all__ = ["Wires", "leaf_spine_wires", "spine_core_wires", "spine_pods"]


@dataclass(frozen=True, eq=False)
class Wires:
    """Duplex links between two tiers; switches count from 0 within their tier, ports from 1."""

    low: Ints
    high: Ints
    low_port: Ints
    high_port: Ints


def leaf_spine_wires(size: NetworkSize) -> Wires:
    """Join every leaf to every spine of its pod, by as many parallel links to each.

    Parallel links use neighbouring ports, so that a twin-port cable can carry two of them. A
    spine's ports follow its pod's leaves.
    """
    if not size.spines_per_pod:
        return _none()
    up, m, s = size.leaf.up_links, size.parallel, size.spines_per_pod
    in_pod = ranks_within(size.leaf_pod)
    leaf = np.repeat(np.arange(size.leaves), up)
    i = np.tile(np.arange(up), size.leaves)
    spine = i // m
    return Wires(
        low=leaf,
        high=size.leaf_pod[leaf] * s + spine,
        low_port=size.leaf.down_links + 1 + i,
        high_port=in_pod[leaf] * m + i % m + 1,
    )


def spine_core_wires(size: NetworkSize) -> Wires:
    """Join every spine to every core of its set, by as many parallel links to each.

    A spine's ports to cores come after all it can have to leaves.
    """
    core = size.core
    if core is None or size.spine is None:
        return _none()
    s = size.spines_per_pod
    per_core = s // core.sets  # spines of one pod in a set
    uplinks = np.array(core.uplinks, dtype=np.int64)
    pod = np.repeat(np.arange(size.pods), s)
    count = uplinks[pod]
    spine = np.repeat(np.arange(size.spines), count)
    i = np.arange(len(spine)) - np.repeat(np.cumsum(count) - count, count)
    j = spine % s
    pod = pod[spine]
    m = uplinks[pod] // core.per_set
    number, parallel = np.divmod(i, m)
    before = np.concatenate(([0], np.cumsum(uplinks // core.per_set * per_core)))[pod]
    return Wires(
        low=spine,
        high=j // per_core * core.per_set + number,
        low_port=size.spine.down_links + 1 + i,
        high_port=before + j % per_core * m + parallel + 1,
    )


def spine_pods(size: NetworkSize) -> Ints:
    """Return the pod of each spine, shape (spines,)."""
    return np.repeat(np.arange(size.pods), size.spines_per_pod)


def _none() -> Wires:
    empty = np.empty(0, dtype=np.int64)
    return Wires(empty, empty, empty, empty)
