"""From the design's plane to the demand that sizing takes, with every default made explicit."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from railweave.design.models import (
    Design,
    InlineSwitch,
    Plane,
    TierPorts,
    TierRatios,
    TierSwitches,
    Topology,
    Transport,
)
from railweave.errors import SizingError
from railweave.fabric._arrays import NodeKind, PlaneId
from railweave.fabric._inventory import (
    Adapter,
    ServerShape,
    adapter_of,
    default_switch,
    server_shapes,
    switch_shape,
)
from railweave.fabric._others import OtherHost, network_of, other_hosts, service_hosts
from railweave.fabric._split import SwitchShape
from railweave.fabric.sizing import Demand, HostGroup, Scheme
from railweave.findings import Finding, Severity

if TYPE_CHECKING:
    from railweave.catalog import Catalog

__all__ = ["Cluster", "PlaneInput", "cluster_of", "network_of", "plane_input"]

_RAILS = (Topology.RAIL_OPTIMIZED, Topology.DUAL_PLANE_DUAL_TOR, Topology.TWIN_PLANAR)
_TWO_PLANES = (Topology.DUAL_PLANE_DUAL_TOR, Topology.TWIN_PLANAR)
#: uplinks of an access switch to the centre of a management star that one switch cannot hold
ACCESS_UPLINKS = 2


@dataclass(frozen=True, slots=True)
class Cluster:
    """The servers of a design, counted, and how many stand in a rack."""

    shapes: tuple[ServerShape, ...]
    servers_per_rack: int

    @property
    def servers(self) -> int:
        """Number of servers."""
        return sum(shape.count for shape in self.shapes)

    @property
    def gpus(self) -> int:
        """Number of GPUs."""
        return sum(shape.count * shape.gpus for shape in self.shapes)


@dataclass(frozen=True, slots=True)
class PlaneInput:
    """One plane, resolved: everything sizing and building need.

    ``demand`` is of one network; there are ``subplanes`` such networks, times the rails where
    rails are ``apart``. ``nics`` is by server group; ``links_per_nic`` within one network.
    """

    plane: PlaneId
    spec: Plane
    topology: Topology
    transport: Transport
    subplanes: int
    apart: bool
    demand: Demand
    nics: tuple[int, ...]
    links: tuple[int, ...]
    host_bps: tuple[float, ...]
    others: tuple[OtherHost, ...]
    switches: tuple[SwitchShape, SwitchShape, SwitchShape]
    notes: tuple[Finding, ...]

    @property
    def path(self) -> str:
        """The plane's field in the design."""
        return f"planes.{self.plane.name.lower()}"


def cluster_of(design: Design, catalog: Catalog) -> Cluster:
    """Count the servers and settle how many stand in a rack.

    Raises:
        SizingError: the racks there are do not hold them.
    """
    shapes = server_shapes(design, catalog)
    per_rack = design.cluster.servers_per_rack
    if per_rack is None:
        domain = max(shape.servers_per_domain for shape in shapes)
        power = max(shape.power_w for shape in shapes)
        per_rack = max(1, domain, int(design.facility.rack_power // max(power, 1.0)))
    cluster = Cluster(shapes, per_rack)
    need = -(-cluster.servers // per_rack)
    if design.cluster.racks is not None and need > design.cluster.racks:
        raise SizingError(
            f"{cluster.servers} servers at {per_rack} a rack need {need} racks",
            path="cluster.racks",
            allowed=f"at least {need}",
            nearest=str(need),
        )
    return cluster


def plane_input(design: Design, catalog: Catalog, cluster: Cluster, plane: PlaneId) -> PlaneInput:
    """Resolve one plane with a network of its own.

    Raises:
        SizingError: what is asked for contradicts itself, or no switch fits.
    """
    return _Resolver(design, catalog, cluster, plane).resolve()


@dataclass(frozen=True, slots=True)
class _HostLinks:
    """Of each server group: NICs used, links into one network, speed of a link."""

    nics: tuple[int, ...]
    links: tuple[int, ...]
    speeds_bps: tuple[float, ...]

    @property
    def fastest_bps(self) -> float:
        return max(self.speeds_bps)


@dataclass
class _Resolver:
    """One plane on its way to a :class:`PlaneInput`; ``notes`` collects what it decided."""

    design: Design
    catalog: Catalog
    cluster: Cluster
    plane: PlaneId
    notes: list[Finding] = field(default_factory=list)

    @property
    def spec(self) -> Plane:
        spec: Plane = getattr(self.design.planes, self.plane.name.lower())
        return spec

    @property
    def path(self) -> str:
        return f"planes.{self.plane.name.lower()}"

    @property
    def topology(self) -> Topology:
        return self.spec.topology or Topology.LEAF_SPINE

    @property
    def transport(self) -> Transport:
        return self.spec.transport or Transport.TCP

    @property
    def subplanes(self) -> int:
        return 2 if self.topology in _TWO_PLANES and self.spec.planes == 1 else self.spec.planes

    @property
    def apart(self) -> bool:
        return self.topology is Topology.RAIL_ONLY

    def resolve(self) -> PlaneInput:
        """Work the plane out."""
        hosts = self.host_links()
        switches = self.switches(hosts.fastest_bps)
        others = other_hosts(self.design, self.plane, hosts.fastest_bps)
        extra = [other.name for other in others if other.kind is NodeKind.EXTRA]
        services, said = service_hosts(self.design, self.plane, hosts.fastest_bps, extra)
        self.notes += said
        ports = tuple(other.width for other in others for _ in range(other.ports))
        demand = self.demand(hosts, switches)
        demand = replace(demand, others=ports, services=len(services))
        if self.apart:
            demand = _rail_star(demand)
        if self.topology is Topology.STAR:
            demand = self.star(demand)
        self.say_others(others, self.subplanes * (demand.rails if self.apart else 1))
        return PlaneInput(
            plane=self.plane,
            spec=self.spec,
            topology=self.topology,
            transport=self.transport,
            subplanes=self.subplanes,
            apart=self.apart,
            demand=demand,
            nics=hosts.nics,
            links=hosts.links,
            host_bps=hosts.speeds_bps,
            others=(*others, *services),
            switches=(demand.leaf, demand.spine, demand.core),
            notes=tuple(self.notes),
        )

    def say(self, name: str, message: str, *, at: str = "", fix: str = "") -> None:
        """Note a decision."""
        path = f"{self.path}.{at}" if at else self.path
        self.notes.append(Finding(name, Severity.INFO, path, message, fix=fix))

    def say_others(self, others: tuple[OtherHost, ...], networks: int) -> None:
        """Say what disjoint networks mean for hosts beside the servers."""
        if others and networks > 1:
            self.say(
                "others-in-every-network",
                f"this plane is {networks} networks apart; other hosts have their ports in each",
            )
        named = self.design.planes.storage is not None
        if not named and any(other.kind is NodeKind.STORAGE for other in others):
            self.say(
                "storage-on-this-plane",
                "there is no storage plane; storage servers attach here",
                fix="describe planes.storage, with its own network or with shares",
            )

    # ---- hosts

    def host_links(self) -> _HostLinks:
        """Work out NICs, links and speeds of each server group."""
        nics, links, speeds = [], [], []
        for shape in self.cluster.shapes:
            adapter = self.adapter(shape)
            total = self.spec.host_links or adapter.count * self.subplanes
            each = self.share(total, self.subplanes, f"{self.subplanes} planes")
            used = min(adapter.count, each)
            per_nic = self.share(each, used, f"{used} NICs of a server")
            total_per_nic = per_nic * self.subplanes
            speed = self.spec.speed or adapter.speed_bps / total_per_nic
            self.check_speed(adapter, speed * total_per_nic)
            nics.append(used)
            links.append(each)
            speeds.append(speed)
        return _HostLinks(tuple(nics), tuple(links), tuple(speeds))

    def adapter(self, shape: ServerShape) -> Adapter:
        """Return a server's NICs in this plane, and say so where they are assumed."""
        adapter = adapter_of(shape, self.plane)
        if self.plane not in shape.adapters:
            self.say(
                "nics-assumed",
                f"{shape.model} has no NICs for this plane; {adapter.count} of "
                f"{adapter.speed_bps / 1e9:g} Gb/s a server are assumed",
            )
        return adapter

    def share(self, links: int, parts: int, over: str) -> int:
        """Divide a server's links evenly.

        Raises:
            SizingError: they do not divide.
        """
        each, rest = divmod(links, parts)
        if rest:
            unit = parts if over.endswith("planes") else parts * self.subplanes
            given = self.spec.host_links or links
            raise SizingError(
                f"{given} links of a server do not split evenly over {over}",
                path=f"{self.path}.host_links",
                allowed=f"a multiple of {unit}",
                nearest=str(max(1, round(given / unit)) * unit),
            )
        return each

    def check_speed(self, adapter: Adapter, offered_bps: float) -> None:
        """Warn of links that together are faster than their NIC."""
        if offered_bps <= adapter.speed_bps * (1 + 1e-9):
            return
        self.notes.append(
            Finding(
                "links-exceed-nic",
                Severity.WARNING,
                f"{self.path}.speed",
                f"the links of one NIC offer {offered_bps / 1e9:g} Gb/s, the NIC has "
                f"{adapter.speed_bps / 1e9:g} Gb/s",
                fix="lower the speed, or leave it out: it follows from the NIC",
            )
        )

    # ---- switches

    def switches(self, host_bps: float) -> tuple[SwitchShape, SwitchShape, SwitchShape]:
        """Return leaf, spine and core switch."""
        choice: str | InlineSwitch | TierSwitches | None = self.spec.switch
        if choice is None:
            small = self.plane is PlaneId.MANAGEMENT
            choice = default_switch(self.catalog, self.transport, host_bps, self.path, small=small)
            self.say(
                "switch-chosen",
                f"no switch is named; {choice} is used",
                at="switch",
                fix="name one to settle it",
            )
        if not isinstance(choice, TierSwitches):
            shape = switch_shape(choice, self.catalog)
            return shape, shape, shape
        leaf = switch_shape(choice.leaf, self.catalog)
        spine = switch_shape(choice.spine, self.catalog) if choice.spine is not None else leaf
        core = switch_shape(choice.core, self.catalog) if choice.core is not None else spine
        return leaf, spine, core

    # ---- demand

    def demand(
        self, hosts: _HostLinks, switches: tuple[SwitchShape, SwitchShape, SwitchShape]
    ) -> Demand:
        """Put the demand of one network together."""
        spec, ratios, spare = self.spec, self.spec.oversubscription, self.spec.spare_ports
        if not isinstance(ratios, TierRatios):
            ratios = TierRatios(leaf=ratios)
        if not isinstance(spare, TierPorts):
            spare = TierPorts(leaf=spare, spine=spare)
        rails = max(hosts.nics)
        return Demand(
            path=self.path,
            scheme=self.scheme(),
            groups=tuple(
                HostGroup(shape.count, links // (rails if self.apart else 1))
                for shape, links in zip(self.cluster.shapes, hosts.links, strict=True)
            ),
            host_bps=hosts.fastest_bps,
            leaf=switches[0],
            spine=switches[1],
            core=switches[2],
            rails=rails,
            uplink_bps=spec.uplink_speed,
            leaf_ratio=ratios.leaf,
            spine_ratio=ratios.spine,
            spare_leaf=spare.leaf,
            spare_spine=spare.spine,
            unit=spec.scalable_unit,
            zone=spec.zone,
            rack=self.cluster.servers_per_rack,
            dual_tor=spec.dual_tor,
            zoned=self.topology is Topology.MULTI_ZONE,
            min_spines=spec.min_spines or 1,
            leaf_count=self.count("leaf", rails),
            spine_count=self.count("spine", rails),
            core_count=self.count("core", rails),
            tiers=spec.tiers,
        )

    def scheme(self) -> Scheme:
        """Return how servers meet leaves."""
        if self.topology is Topology.STAR:
            return Scheme.STAR
        top_of_rack = self.spec.top_of_rack
        if top_of_rack or (top_of_rack is None and self.topology is Topology.MULTI_ZONE):
            return Scheme.RACKS
        return Scheme.RAILS if self.topology in _RAILS else Scheme.SERVERS

    def count(self, tier: str, rails: int) -> int | None:
        """Share a switch count out over the networks of this plane, which are alike.

        Raises:
            SizingError: it does not share out.
        """
        counts = self.spec.counts
        count: int | None = getattr(counts, tier) if counts else None
        if count is None:
            return None
        networks = self.subplanes * (rails if self.apart else 1)
        if count % networks:
            raise SizingError(
                f"{count} {tier} switches do not share out over {networks} equal networks",
                path=f"{self.path}.counts.{tier}",
                allowed=f"a multiple of {networks}",
                nearest=str(max(1, round(count / networks)) * networks),
            )
        return count // networks

    def star(self, demand: Demand) -> Demand:
        """Check that one switch is enough; a management star may have access switches instead.

        Raises:
            SizingError: it is not; says where the star ends.
        """
        need = sum(group.servers * group.links for group in demand.groups) + sum(demand.others)
        room = demand.leaf.links(demand.host_bps, demand.spare_leaf_ports)
        if need <= room or not demand.leaf.ways(demand.host_bps):
            return demand
        if self.plane is not PlaneId.MANAGEMENT:
            ends = max(0, room - sum(demand.others)) // demand.links_per_server
            raise SizingError(
                f"a star has one switch, and {demand.leaf.name} has {room} ports for {need} links; "
                f"it ends at {ends} servers, and two tiers follow",
                path=f"{demand.path}.topology",
                allowed="leaf-spine or rail-optimized, a switch with more ports, or fewer servers",
                nearest="leaf-spine",
            )
        centre, up = demand.spine, demand.leaf.top_bps
        if not isinstance(self.spec.switch, TierSwitches) and demand.leaf.fast_ports:
            name = default_switch(self.catalog, self.transport, up, self.path, small=True)
            centre = switch_shape(name, self.catalog)
        self.say(
            "star-of-access-switches",
            f"{need} links do not fit one {demand.leaf.name} ({room} ports): access switches, each "
            f"with up to {ACCESS_UPLINKS} uplinks to one {centre.name} at the centre",
            at="topology",
            fix="name a larger switch, or leaf-spine, to have no single centre",
        )
        return replace(
            demand,
            scheme=Scheme.SERVERS,
            spine=centre,
            core=centre,
            uplinks=ACCESS_UPLINKS,
            uplink_bps=up,
            spine_count=demand.spine_count or 1,
            tiers=2,
        )


def _rail_star(demand: Demand) -> Demand:
    """Let one switch take a whole rail where rails are apart and it has the ports."""
    need = sum(group.servers * group.links for group in demand.groups) + sum(demand.others)
    fits = need <= demand.leaf.links(demand.host_bps, demand.spare_leaf_ports)
    counted = demand.leaf_count not in (None, 1) or demand.spine_count is not None
    if not fits or counted or demand.tiers not in (None, 1):
        return demand
    return replace(demand, scheme=Scheme.STAR)
