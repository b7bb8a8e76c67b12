"""`BuildSummary`: the fabric in numbers, and the JSON of ``railweave build FILE --json``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from railweave.catalog import Catalog
from railweave.design.models import Design, InlineSwitch, Plane, TierSwitches, Topology, Transport
from railweave.fabric._arrays import TIER_NAMES, Fabric, NodeKind, PlaneId
from railweave.fabric._inventory import server_shapes, switch_shape
from railweave.fabric.availability import Availability, server_availability
from railweave.fabric.bisection import Bisection, HalvingModel, bisection, halving_model
from railweave.fabric.build import BuiltFabric
from railweave.fabric.capacity import PlaneCapacity, TierCapacity, TierProvision, plane_capacity
from railweave.fabric.diversity import PathFacts, path_facts
from railweave.fabric.domains import FailureDomain, failure_domains
from railweave.fabric.plan import Growth
from railweave.fabric.power import LINK_CLASSES, PowerReport, ServerDraw, power_report
from railweave.fabric.wire import Framing, encryption_on, framing
from railweave.provenance import Assumption

__all__ = [
    "BuildSummary",
    "CapacitySummary",
    "Counts",
    "PlaneFacts",
    "PlaneSummary",
    "build_summary",
    "built_power",
    "count_links",
    "summarise",
    "summarise_plane",
]


@dataclass(frozen=True, slots=True)
class Counts:
    """What there is: servers and GPUs of the cluster, NICs and switches of one plane.

    ``switches`` are (tier, number) from the leaf up; only tiers that exist.
    """

    servers: int
    gpus: int
    nics: int
    switches: tuple[tuple[str, int], ...]
    extra_hosts: int = 0
    storage_servers: int = 0

    def to_json(self) -> dict[str, object]:
        """Return plain data for JSON."""
        return {
            "servers": self.servers,
            "gpus": self.gpus,
            "nics": self.nics,
            "switches": dict(self.switches),
            "extra_hosts": self.extra_hosts,
            "storage_servers": self.storage_servers,
        }


@dataclass(frozen=True, slots=True)
class CapacitySummary:
    """Capacity, bisection and path diversity of one plane."""

    plane: PlaneCapacity
    bisection: Bisection
    ecmp_paths: float

    @property
    def host_bps(self) -> float:
        """All host links in one direction."""
        return self.plane.host_bps

    @property
    def effective_host_bps(self) -> float:
        """The same as payload rate."""
        return self.plane.effective_host_bps

    @property
    def tiers(self) -> tuple[TierCapacity, ...]:
        """Tiers from the leaf up."""
        return self.plane.tiers

    @property
    def bisection_bps(self) -> float:
        """Worst halving, one direction, for half of the hosts."""
        return self.bisection.bps

    def to_json(self) -> dict[str, object]:
        """Return plain data for JSON."""
        return {
            "host_bps": self.host_bps,
            "effective_host_bps": self.effective_host_bps,
            "tiers": [_tier_json(tier) for tier in self.tiers],
            "bisection_bps": self.bisection.bps,
            "bisection_cut": self.bisection.cut,
            "bisection_fraction": self.bisection.fraction,
            "bisection_cuts": [
                {
                    "cut": cut.name,
                    "bps": cut.bps,
                    "full_bps": cut.full_bps,
                    "as_half_bps": cut.as_half_bps,
                    "counted": cut.counted,
                    "note": cut.note,
                }
                for cut in self.bisection.cuts
            ],
            "bisection_by_subplane": list(self.bisection.by_subplane),
            "ecmp_paths": _whole(self.ecmp_paths),
        }


@dataclass(frozen=True, slots=True)
class PlaneSummary:
    """One plane in numbers. ``links`` and ``cables`` are (place, number), from the hosts up."""

    plane: str
    topology: str
    transport: str
    counts: Counts
    cables: tuple[tuple[str, int], ...]
    links: tuple[tuple[str, int], ...]
    capacity: CapacitySummary
    paths: PathFacts
    growth: tuple[Growth, ...] = ()
    domains: tuple[FailureDomain, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return plain data for JSON."""
        return {
            "plane": self.plane,
            "topology": self.topology,
            "transport": self.transport,
            "counts": self.counts.to_json(),
            "cables": dict(self.cables),
            "links": dict(self.links),
            "capacity": self.capacity.to_json(),
            "diameter": self.paths.diameter,
            "hops": {str(hops): pairs for hops, pairs in self.paths.hop_histogram},
            "path_diversity": [
                {
                    "tier": t.tier,
                    "min_uplinks": t.min_uplinks,
                    "max_uplinks": t.max_uplinks,
                    "min_neighbours": t.min_neighbours,
                    "max_neighbours": t.max_neighbours,
                }
                for t in self.paths.tiers
            ],
            "failure_domains": [domain.to_json() for domain in self.domains],
            "growth": [
                {
                    "topology": step.topology,
                    "max_servers": step.max_servers,
                    "max_gpus": step.max_gpus,
                    "enough": step.enough,
                    "next": step.follows,
                }
                for step in self.growth
            ],
        }


@dataclass(frozen=True, slots=True)
class BuildSummary:
    """The whole fabric: the back-end, the other planes with a network, and who shares one.

    ``shares`` are (plane, plane whose network it uses).
    """

    name: str
    backend: PlaneSummary
    others: tuple[PlaneSummary, ...] = ()
    shares: tuple[tuple[str, str], ...] = ()
    power: PowerReport | None = None
    availability: Availability | None = None
    assumptions: tuple[Assumption, ...] = ()

    @property
    def planes(self) -> tuple[PlaneSummary, ...]:
        """Every plane with a network of its own, the back-end first."""
        return (self.backend, *self.others)

    def to_json(self) -> dict[str, object]:
        """Return the JSON document of ``railweave build``: the top level is the back-end."""
        planes: dict[str, object] = {plane.plane: plane.to_json() for plane in self.others}
        planes |= {plane: {"shares": host} for plane, host in self.shares}
        return {
            "name": self.name,
            **self.backend.to_json(),
            "planes": planes,
            "power": self.power.to_json() if self.power else None,
            "availability": self.availability.to_json() if self.availability else None,
            "assumptions": [
                {"subject": a.subject, "statement": a.statement, "certainty": a.certainty.value}
                for a in self.assumptions
            ],
        }


@dataclass(frozen=True, slots=True)
class PlaneFacts:
    """What a summary of a plane needs beside the fabric's arrays."""

    plane: PlaneId
    topology: str
    transport: str
    frame: Framing
    provisions: tuple[TierProvision, ...] = ()
    growth: tuple[Growth, ...] = ()
    model: HalvingModel | None = None
    domains: tuple[FailureDomain, ...] = ()


def build_summary(
    built: BuiltFabric,
    design: Design,
    catalog: Catalog,
    *,
    domains: bool = True,
    availability: bool = True,
) -> BuildSummary:
    """Return a built design in numbers: every plane, power, availability.

    Args:
        built: the design built; its fabric may have been narrowed by failures.
        design: the design it was built from.
        catalog: the catalog it was built with.
        domains: also try what one dead part of each kind costs the back-end (seconds at 65,536
            GPUs).
        availability: also work out how often a server's connection is whole (seconds, too).
    """
    fabric = built.fabric
    facts = []
    for plane in sorted(set(built.network.values())):
        model = halving_model(fabric, plane)
        lost = domains and plane == PlaneId.BACKEND
        facts.append(
            _plane_facts(
                built,
                design,
                plane,
                model,
                failure_domains(fabric, plane, model=model) if lost else (),
            )
        )
    return summarise(
        fabric,
        facts,
        shares={
            plane.name.lower(): carrier.name.lower()
            for plane, carrier in sorted(built.network.items())
            if plane != carrier
        },
        power=built_power(built, design, catalog),
        availability=server_availability(fabric, objective=design.objectives.availability)
        if availability
        else None,
    )


def built_power(built: BuiltFabric, design: Design, catalog: Catalog) -> PowerReport:
    """Return power, cables and their findings of a built design."""
    draws = [
        ServerDraw(
            shape.model if shape.model != "inline" else shape.name,
            shape.count,
            shape.power_w,
            "air" if shape.model == "inline" else catalog.server(shape.model).cooling,
        )
        for shape in server_shapes(design, catalog)
    ]
    return power_report(
        built.fabric,
        draws,
        design.facility,
        catalog=catalog,
        inline_switch_w=_inline_switches(design, catalog),
    )


def _inline_switches(design: Design, catalog: Catalog) -> dict[str, float]:
    """Return the stated power of every switch that the design describes itself, by its name."""
    found: dict[str, float] = {}
    for plane in PlaneId:
        spec: Plane | None = getattr(design.planes, plane.name.lower())
        choice = spec.switch if spec else None
        tiers = (
            (choice.leaf, choice.spine, choice.core)
            if isinstance(choice, TierSwitches)
            else (choice,)
        )
        for one in tiers:
            if isinstance(one, InlineSwitch):
                found[switch_shape(one, catalog).name] = one.power
    return found


def _plane_facts(
    built: BuiltFabric,
    design: Design,
    plane: PlaneId,
    model: HalvingModel,
    domains: tuple[FailureDomain, ...],
) -> PlaneFacts:
    """Collect what the summary of one plane needs; a graph has no plan."""
    plan = built.plans.get(plane)
    spec: Plane = getattr(design.planes, plane.name.lower())
    transport = plan.transport if plan else (spec.transport or Transport.TCP)
    topology = plan.topology if plan else (spec.topology or Topology.GRAPH)
    return PlaneFacts(
        plane=plane,
        topology=topology.value,
        transport=transport.value,
        frame=framing(transport, spec.mtu, encryption_on(design.planes, built.network, plane)),
        provisions=plan.provisions if plan else (),
        growth=plan.growth if plan else (),
        model=model,
        domains=domains,
    )


def summarise_plane(fabric: Fabric, facts: PlaneFacts) -> PlaneSummary:
    """Return one plane of a fabric in numbers, as its links now stand.

    Counts, links and cables are of what was built; capacity, bisection and paths of what is up.
    """
    plane = facts.plane
    paths = path_facts(fabric, plane)
    links, cables = count_links(fabric, plane)
    return PlaneSummary(
        plane=plane.name.lower(),
        topology=facts.topology,
        transport=facts.transport,
        counts=_counts(fabric, plane),
        cables=tuple(cables.items()),
        links=tuple(links.items()),
        capacity=CapacitySummary(
            plane_capacity(fabric, plane, facts.frame, facts.provisions),
            bisection(fabric, plane, model=facts.model),
            paths.ecmp_paths,
        ),
        paths=paths,
        growth=facts.growth,
        domains=facts.domains,
    )


def summarise(
    fabric: Fabric,
    planes: Sequence[PlaneFacts],
    *,
    shares: Mapping[str, str] | None = None,
    power: PowerReport | None = None,
    availability: Availability | None = None,
    assumptions: Sequence[Assumption] = (),
) -> BuildSummary:
    """Return the whole fabric in numbers; the back-end must be among ``planes``."""
    found = {facts.plane: summarise_plane(fabric, facts) for facts in planes}
    others = tuple(found[plane] for plane in sorted(found) if plane != PlaneId.BACKEND)
    said = (
        *assumptions,
        *(power.assumptions if power else ()),
        *(availability.assumptions if availability else ()),
    )
    return BuildSummary(
        name=fabric.name,
        backend=found[PlaneId.BACKEND],
        others=others,
        shares=tuple((shares or {}).items()),
        power=power,
        availability=availability,
        assumptions=tuple(dict.fromkeys(said)),
    )


def count_links(fabric: Fabric, plane: PlaneId) -> tuple[dict[str, int], dict[str, int]]:
    """Return (links, cables) of a plane by place; a cable may carry several links."""
    links: dict[str, int] = {}
    cables: dict[str, int] = {}
    for layer, name in LINK_CLASSES.items():
        mine = (fabric.link_plane[::2] == plane) & (fabric.link_layer[::2] == layer)
        if mine.any():
            cable = fabric.duplex_cable[mine]
            numbered = len(np.unique(cable[cable >= 0]))
            links[name] = int(mine.sum())
            cables[name] = numbered + int((cable < 0).sum())
    return links, cables


def _counts(fabric: Fabric, plane: PlaneId) -> Counts:
    """Count what there is."""
    kind = fabric.node_kind
    tiers = fabric.node_tier[fabric.switches(plane)]
    named = [
        (TIER_NAMES.get(int(tier), "switch"), int((tiers == tier).sum()))
        for tier in sorted(set(tiers.tolist()), key=lambda tier: (tier < 0, tier))
    ]
    switch = kind == NodeKind.SWITCH
    mine = fabric.link_plane[::2] == plane
    ends = np.unique(np.concatenate((fabric.link_src[::2][mine], fabric.link_dst[::2][mine])))
    ends = ends[~switch[ends]]
    return Counts(
        servers=len(np.unique(fabric.node_server[fabric.node_server >= 0])),
        gpus=len(fabric.gpus),
        nics=len(fabric.nics(plane)),
        switches=tuple(named),
        extra_hosts=int((kind[ends] == NodeKind.EXTRA).sum()),
        storage_servers=int((kind[ends] == NodeKind.STORAGE).sum()),
    )


def _tier_json(tier: TierCapacity) -> dict[str, object]:
    """Return one tier for JSON."""
    return {
        "tier": tier.tier,
        "down_bps": tier.down_bps,
        "up_bps": tier.up_bps,
        "oversubscription": tier.oversubscription,
        "target": tier.target,
        "oversubscription_populated": tier.oversubscription_populated,
        "populated_down_bps": tier.populated_down_bps,
        "populated_up_bps": tier.populated_up_bps,
        "effective_down_bps": tier.effective_down_bps,
        "effective_up_bps": tier.effective_up_bps,
    }


def _whole(number: float) -> int | float:
    """Return a whole number as int where a double holds it exactly."""
    return int(number) if number < 2**53 and number == int(number) else number
