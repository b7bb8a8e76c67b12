"""The plan of a plane: how it was sized, what it is made of, and where it stops growing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from railweave.design.models import Design, Plane, Topology, Transport
from railweave.errors import SizingError
from railweave.fabric._arrays import TIER_NAMES, Fabric, PlaneId
from railweave.fabric._plane_input import PlaneInput, cluster_of, plane_input
from railweave.fabric._tiers import spine_split
from railweave.fabric.capacity import TierProvision
from railweave.fabric.sizing import NetworkSize, Scheme, SwitchShape, size_network
from railweave.findings import Finding, Severity
from railweave.units import format_bits_rate

if TYPE_CHECKING:
    from railweave.catalog import Catalog

__all__ = ["Counts", "Growth", "PlanePlan", "growth", "plan_plane"]


@dataclass(frozen=True, slots=True)
class Counts:
    """What a plane is made of. Links are duplex; a twin-port cable carries two.

    ``switches`` by tier (leaf, spine, core); ``links`` and ``cables`` by class (host-leaf,
    leaf-spine, spine-core, and switch-switch in a graph). Totals over a plane's parallel planes.
    """

    servers: int
    gpus: int
    nics: int
    switches: Mapping[str, int]
    links: Mapping[str, int]
    cables: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class PlanePlan:
    """One plane as sized: ``networks`` equal networks of ``size`` each.

    ``networks`` is ``subplanes``, times the rails where rails are not joined (rail-only).
    ``size`` is None for a graph.
    """

    plane: PlaneId
    spec: Plane
    topology: Topology
    transport: Transport
    subplanes: int
    networks: int
    size: NetworkSize | None
    switches: Mapping[str, SwitchShape]
    host_bps: float
    counts: Counts
    provisions: tuple[TierProvision, ...]
    growth: tuple[Growth, ...]
    findings: tuple[Finding, ...]

    @property
    def target(self) -> float | None:
        """Oversubscription asked of the leaf."""
        return self.size.demand.leaf_ratio if self.size else None

    @property
    def provisioned(self) -> float | None:
        """Oversubscription of a leaf by its provisioned ports; None without uplinks."""
        if self.size is None or not self.size.spines:
            return None
        return self.size.leaf.achieved

    @property
    def populated(self) -> float | None:
        """Oversubscription of all leaves by host links in place; None without uplinks in place."""
        size = self.size
        if size is None or not size.leaf_spine_links:
            return None
        return size.host_links * size.leaf.down_bps / (size.leaf_spine_links * size.leaf.up_bps)

    @property
    def servers_per_unit(self) -> int | None:
        """Servers of a scalable unit, in rail-optimized planes."""
        if self.size is None or self.size.demand.scheme is not Scheme.RAILS:
            return None
        return self.size.placement.unit_servers

    def worked_out(self) -> dict[str, str]:
        """Return what sizing made of the plane's empty fields: field path → value as in a file."""
        path, spec = f"planes.{self.plane.name.lower()}", self.spec
        found = {"speed": format_bits_rate(self.host_bps), "switch": self.switches["leaf"].name}
        size = self.size
        if size is not None:
            demand = size.demand
            links = demand.links_per_server * self.networks
            found |= {"host_links": str(links), "tiers": str(size.tiers)}
            if size.spines:
                found["uplink_speed"] = format_bits_rate(demand.leaf_up_bps)
                found["min_spines"] = str(demand.min_spines)
            if demand.scheme is Scheme.RAILS:
                found["scalable_unit"] = str(size.placement.unit_servers)
            top_of_rack = demand.scheme is Scheme.RACKS
            found["top_of_rack"] = str(top_of_rack).lower()
        return {
            f"{path}.{key}": value for key, value in found.items() if getattr(spec, key) is None
        }


@dataclass(frozen=True, slots=True)
class Growth:
    """Where a topology stops with these switches, and which one follows."""

    topology: str
    max_servers: int
    max_gpus: int
    enough: bool
    follows: str


def plan_plane(design: Design, catalog: Catalog, plane: PlaneId) -> PlanePlan:
    """Size one plane that has a network of its own.

    Raises:
        SizingError: it cannot be built as asked.
    """
    given = plane_input(design, catalog, cluster_of(design, catalog), plane)
    return plan_of(given, size_network(given.demand), cluster_of(design, catalog).gpus)


def plan_of(given: PlaneInput, size: NetworkSize, gpus: int) -> PlanePlan:
    """Put a plan together from what was asked and what was sized."""
    networks = given.subplanes * (given.demand.rails if given.apart else 1)
    shares = [group.servers * n for group, n in zip(given.demand.groups, given.nics, strict=True)]
    switches = {"leaf": size.leaves * networks}
    links = {"host-leaf": size.host_links * networks}
    shapes = {"leaf": given.switches[0]}
    if size.spines:
        switches["spine"] = size.spines * networks
        links["leaf-spine"] = size.leaf_spine_links * networks
        shapes["spine"] = size.demand.spine
    if size.cores:
        switches["core"] = size.cores * networks
        links["spine-core"] = size.spine_core_links * networks
        shapes["core"] = size.demand.core
    limits = growth(size, gpus, apart=given.apart)
    return PlanePlan(
        plane=given.plane,
        spec=given.spec,
        topology=given.topology,
        transport=given.transport,
        subplanes=given.subplanes,
        networks=networks,
        size=size,
        switches=shapes,
        host_bps=given.demand.host_bps,
        counts=Counts(given.demand.servers, gpus, sum(shares), switches, links),
        provisions=_provisions(size, networks),
        growth=limits,
        findings=(*given.notes, *size.notes, *_say_populated(size), *_say_services(size)),
    )


def graph_plan(
    given: PlaneInput, fabric: Fabric, gpus: int, cables: Mapping[str, int]
) -> PlanePlan:
    """Put the plan of a graph together: nothing was sized, so it counts what is there.

    A graph's cables carry one link each.
    """
    nodes = fabric.switches(given.plane)
    tiers = fabric.node_tier[nodes]
    switches = {
        TIER_NAMES.get(int(tier), "switch"): int(np.count_nonzero(tiers == tier))
        for tier in np.unique(tiers)
    }
    return PlanePlan(
        plane=given.plane,
        spec=given.spec,
        topology=given.topology,
        transport=given.transport,
        subplanes=1,
        networks=1,
        size=None,
        switches={"leaf": given.switches[0]},
        host_bps=max(given.host_bps),
        counts=Counts(
            given.demand.servers, gpus, len(fabric.nics(given.plane)), switches, cables, cables
        ),
        provisions=(),
        growth=(),
        findings=given.notes,
    )


def _say_populated(size: NetworkSize) -> list[Finding]:
    place = size.placement
    free = size.leaves * size.leaf.down_links - int(place.used.sum())
    if free <= 0 or size.demand.scheme is Scheme.STAR:
        return []
    return [
        Finding(
            "leaf-ports-free",
            Severity.INFO,
            size.demand.path,
            f"{free} of {size.leaves * size.leaf.down_links} host ports are free; leaves are "
            "uplinked in full all the same",
        )
    ]


def _say_services(size: NetworkSize) -> list[Finding]:
    demand, place = size.demand, size.placement
    missing = len(demand.others) + demand.services - len(place.other_leaf)
    if not missing:
        return []
    return [
        Finding(
            "service-without-port",
            Severity.INFO,
            demand.path,
            f"{missing} of {demand.services} service hosts find no free port and are left out: no "
            "leaf is added for a service",
            fix="run them on servers or switches, or ask for their ports with extra_hosts",
        )
    ]


def _provisions(size: NetworkSize, networks: int) -> tuple[TierProvision, ...]:
    leaf = size.leaf
    # Without spines the ports kept for uplinks are free: no way up.
    uplinks = leaf.up_links if size.spines else 0
    down, up = size.leaves * leaf.down_links * networks, size.leaves * uplinks * networks
    found = [
        TierProvision(
            "leaf", down, up, down * leaf.down_bps, up * leaf.up_bps, size.demand.leaf_ratio
        )
    ]
    if not size.spines:
        return tuple(found)
    bps = size.demand.spine_up_bps
    down = size.spines_per_pod * sum(size.spine_down_links) * networks
    up = size.spines_per_pod * sum(size.spine_uplinks) * networks
    ratio = size.demand.spine_ratio if size.spine_uplinks else None
    found.append(TierProvision("spine", down, up, down * leaf.up_bps, up * bps, ratio))
    if size.core is not None:
        down = size.spine_core_links * networks
        found.append(TierProvision("core", down, 0, down * bps, 0.0, None))
    return tuple(found)


def growth(size: NetworkSize, gpus: int, *, apart: bool = False) -> tuple[Growth, ...]:
    """Say how far each topology goes with these switches and ratios, and which one follows.

    Limits are of whole scalable units, without other hosts: a star ends with the ports of one
    switch; two tiers with as many leaves as a spine has links; three tiers with as many pods as a
    core has links, each pod with as many leaves as a spine has links down. ``apart`` rails have a
    leaf each, so what a star is to others is rail-only to them.
    """
    demand, leaf = size.demand, size.leaf
    star = demand.leaf.links(demand.host_bps, demand.spare_leaf_ports) // demand.links_per_server
    first = "rail-only" if apart else "star"
    steps = [(first, star, "leaf-spine or rail-optimized, in two tiers")]
    if demand.scheme is not Scheme.STAR:
        unit = size.placement.unit_servers
        leaves = int(np.bincount(size.placement.leaf_unit).max())  # of one unit
        full = demand.spine.links(leaf.up_bps, demand.spare_spine)
        steps.append(("two tiers", full // leaves * unit, "three tiers, or multi-zone"))
        down = _down_in_three_tiers(size)
        pods = demand.core.links(demand.spine_up_bps)
        units = pods * (down // leaves) if leaves <= down else pods * down // leaves
        if demand.zone is not None:
            units = pods * min(down // leaves, -(-demand.zone // unit))
        name = "multi-zone" if demand.zoned else "three tiers"
        steps.append((name, units * unit, "switches with more ports"))
    per_server = gpus / demand.servers
    return tuple(
        Growth(topology, servers, int(servers * per_server), servers >= demand.servers, follows)
        for topology, servers, follows in steps
    )


def _down_in_three_tiers(size: NetworkSize) -> int:
    """Return a spine's links down where it has links up too; 0 where it cannot have both."""
    if size.spine is not None and size.spine_uplinks:
        return size.spine.down_links
    try:
        return spine_split(size.demand, size.leaf).down_links
    except SizingError:
        return 0
