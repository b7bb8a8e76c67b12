"""What sizing answers: one network, ready to be wired."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from railweave.fabric._demand import Demand
from railweave.fabric._placement import Placement
from railweave.fabric._split import PortSplit
from railweave.findings import Finding

__all__ = ["CoreLayout", "NetworkSize"]

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class CoreLayout:
    """Cores and how spines reach them: ``sets`` sets of ``per_set`` cores.

    ``uplinks`` holds a spine's links to cores by pod. A spine is joined to each core of its set by
    ``uplinks / per_set`` parallel links.
    """

    sets: int
    per_set: int
    uplinks: tuple[int, ...]

    @property
    def cores(self) -> int:
        """Number of cores."""
        return self.sets * self.per_set


@dataclass(frozen=True, eq=False)
class NetworkSize:
    """Output of sizing: one network, ready to be wired.

    ``leaf_pod`` is (leaves,). ``spine`` is how a spine's ports may be used, at most; in two tiers
    all are down, unless uplinks are kept for a tier to come. ``spine_uplinks`` holds each pod's
    uplinks of a spine, wired where there are cores and kept free (reserved) otherwise.
    """

    demand: Demand
    leaf: PortSplit
    spine: PortSplit | None
    placement: Placement
    tiers: int
    spines_per_pod: int
    pod_leaves: tuple[int, ...]
    leaf_pod: I64
    spine_uplinks: tuple[int, ...]
    core: CoreLayout | None
    notes: tuple[Finding, ...]

    @property
    def leaves(self) -> int:
        """Number of leaves (1 in a star)."""
        return self.placement.leaves

    @property
    def pods(self) -> int:
        """Number of pods; 1 where there are fewer than three tiers."""
        return len(self.pod_leaves)

    @property
    def spines(self) -> int:
        """Number of spines."""
        return self.pods * self.spines_per_pod

    @property
    def cores(self) -> int:
        """Number of cores."""
        return self.core.cores if self.core else 0

    @property
    def parallel(self) -> int:
        """Links between one leaf and one spine that it reaches."""
        return self.leaf.up_links // self.spines_per_pod if self.spines_per_pod else 0

    @property
    def host_links(self) -> int:
        """Links between hosts (other hosts included) and leaves."""
        return len(self.placement.leaf) + len(self.placement.other_leaf)

    @property
    def leaf_spine_links(self) -> int:
        """Links between leaves and spines."""
        return self.leaves * self.leaf.up_links if self.spines_per_pod else 0

    @property
    def spine_core_links(self) -> int:
        """Links between spines and cores."""
        return self.spines_per_pod * sum(self.core.uplinks) if self.core else 0

    @property
    def spine_down_links(self) -> tuple[int, ...]:
        """Links of a spine to leaves, by pod."""
        return tuple(leaves * self.parallel for leaves in self.pod_leaves)
