"""What collectives of a training step take, by kind of group and size."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from railweave.design.models import Collective
from railweave.predict._training_types import PlaceShares
from railweave.provenance import Assumption
from railweave.workload import Degrees, GroupKind

__all__ = [
    "MESSAGE_S",
    "NETWORK_LATENCY_S",
    "NETWORK_SHARE",
    "OPERATIONS",
    "SCALE_UP_LATENCY_S",
    "SCALE_UP_SHARE",
    "CommunicationCosts",
    "GroupCost",
    "TimeCurve",
]

#: share of a link's line rate that collectives reach: a lone 400 Gb/s NIC carries 46 to 48 of its
#: 50 GB/s, and rings over NVLink 360 to 370 of 450 GB/s
NETWORK_SHARE: Final = 0.94
SCALE_UP_SHARE: Final = 0.8
#: one message of a collective inside a scale-up domain, and over the network; and what each
#: further one costs where many start at once
SCALE_UP_LATENCY_S: Final = 3e-6
NETWORK_LATENCY_S: Final = 10e-6
MESSAGE_S: Final = 1e-6

_REDUCTIONS: Final = (Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.REDUCE_SCATTER)
#: what groups of a kind do in a step
OPERATIONS: Final[Mapping[GroupKind, tuple[Collective, ...]]] = MappingProxyType(
    {
        "tensor": _REDUCTIONS,
        "context": (Collective.ALL_GATHER, Collective.REDUCE_SCATTER),
        "pipeline": (Collective.SEND_RECV,),
        "expert": (Collective.ALL_TO_ALL,),
        "data": _REDUCTIONS,
        "expert-data": _REDUCTIONS,
    }
)


@dataclass(frozen=True, slots=True)
class TimeCurve:
    """Time over size: straight between points, and on with the last slope; (K,) each, K ≥ 2."""

    sizes_bytes: tuple[float, ...]
    times_s: tuple[float, ...]

    def time_s(self, size_bytes: float) -> float:
        """Return the time for a size; 0 for nothing."""
        if size_bytes <= 0:
            return 0.0
        sizes, times = self.sizes_bytes, self.times_s
        at = min(max(bisect_right(sizes, size_bytes) - 1, 0), len(sizes) - 2)
        slope = (times[at + 1] - times[at]) / (sizes[at + 1] - sizes[at])
        return max(times[at] + slope * (size_bytes - sizes[at]), 0.0)


@dataclass(frozen=True, slots=True)
class GroupCost:
    """What collectives take in groups of one kind, all groups of the kind at once.

    ``curves`` by operation; sizes as nccl-tests counts them. ``places``: how far the bytes go.
    ``by_hop``, of the pipeline: the time from stage p to p + 1 as a share of the curve's, which is
    the slowest hop's; empty where all are alike.
    """

    kind: GroupKind
    members: int
    curves: Mapping[Collective, TimeCurve]
    places: PlaceShares = field(default_factory=PlaceShares)
    how: str = ""
    by_hop: tuple[float, ...] = ()

    def time_s(self, op: Collective, size_bytes: float) -> float:
        """Return the time of one operation; 0 in a group of one."""
        if self.members < 2 or size_bytes <= 0:
            return 0.0
        return self.curves[op].time_s(size_bytes)


@dataclass(frozen=True, slots=True)
class CommunicationCosts:
    """Costs for the kinds of groups that a plan's degrees make."""

    degrees: Degrees
    groups: Mapping[GroupKind, GroupCost]
    source: str
    assumptions: tuple[Assumption, ...] = ()

    def time_s(self, kind: GroupKind, op: Collective, size_bytes: float) -> float:
        """Return what an operation of a size takes in a group of a kind; 0 where there is none."""
        group = self.groups.get(kind)
        return 0.0 if group is None else group.time_s(op, size_bytes)

    def hops_s(self, size_bytes: float) -> tuple[float, ...]:
        """Return what a hand-over takes from each stage p to p + 1, and from the last to the first.

        The last counts as the slowest of the others.
        """
        stages = self.degrees.pipeline
        slowest = self.time_s("pipeline", Collective.SEND_RECV, size_bytes)
        group = self.groups.get("pipeline")
        shares = group.by_hop if group is not None and group.by_hop else (1.0,) * (stages - 1)
        return (*(slowest * share for share in shares), slowest)

    def places(self, kind: GroupKind) -> PlaceShares:
        """Return how far the bytes of a kind go."""
        group = self.groups.get(kind)
        return PlaceShares() if group is None else group.places
