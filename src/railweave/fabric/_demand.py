"""What sizing is asked: one network (one of a plane's parallel planes), no answers in it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from railweave.fabric._split import SwitchShape

__all__ = ["Demand", "HostGroup", "Scheme"]


class Scheme(StrEnum):
    """How servers meet leaves."""

    STAR = "star"  #: one switch takes every link
    RAILS = "rails"  #: NIC r of every server of a scalable unit goes to the unit's leaf r
    SERVERS = "servers"  #: servers fill leaves one after the other
    RACKS = "racks"  #: every rack has its own leaf


@dataclass(frozen=True, slots=True)
class HostGroup:
    """Servers which are alike: how many, and how many links each has into this network."""

    servers: int
    links: int


@dataclass(frozen=True, slots=True)
class Demand:
    """Input of :func:`railweave.fabric.sizing.size_network`; all counts are of one network.

    ``rails`` is the number of NICs a server has here. ``others`` lists the ports of extra hosts and
     storage servers, each as the number of host-speed ports it takes; ``services`` more ports of
    one are taken where some are free, but no leaf is added for them. ``unit``, ``zone`` and
    ``rack`` count servers. ``uplinks`` fixes the number of uplinks of a leaf.
    ``path`` is the design field that errors name.
    """

    path: str
    scheme: Scheme
    groups: tuple[HostGroup, ...]
    host_bps: float
    leaf: SwitchShape
    spine: SwitchShape
    core: SwitchShape
    rails: int = 1
    uplink_bps: float | None = None
    leaf_ratio: float = 1.0
    spine_ratio: float = 1.0
    spare_leaf: int = 0  #: host-speed ports kept free on each leaf
    spare_spine: int = 0  #: ports kept free on each spine
    unit: int | None = None
    zone: int | None = None
    rack: int | None = None
    dual_tor: bool = False
    zoned: bool = False  #: zones are joined by a tier of their own whatever their size
    min_spines: int = 1
    leaf_count: int | None = None
    spine_count: int | None = None
    core_count: int | None = None
    tiers: int | None = None
    uplinks: int | None = None
    others: tuple[int, ...] = ()
    services: int = 0

    @property
    def servers(self) -> int:
        """Number of servers."""
        return sum(group.servers for group in self.groups)

    @property
    def links_per_server(self) -> int:
        """Most links that any server has into this network."""
        return max(group.links for group in self.groups)

    @property
    def leaf_up_bps(self) -> float:
        """Speed of a link between leaf and spine."""
        limit = min(self.leaf.top_bps, self.spine.top_bps)
        return limit if self.uplink_bps is None else self.uplink_bps

    @property
    def spine_up_bps(self) -> float:
        """Speed of a link between spine and core."""
        limit = min(self.spine.speed_bps, self.core.speed_bps)
        return limit if self.uplink_bps is None else min(self.uplink_bps, limit)

    @property
    def spare_leaf_ports(self) -> int:
        """Physical ports behind the spare host-speed ports of a leaf."""
        return -(-self.spare_leaf // max(1, self.leaf.ways(self.host_bps)))
