"""The four planes of a design: their parts with roles, what they carry, and what comes first.

What a plane is for and what its design looks at first is stated (``data/planes.yaml``); everything
else is read off the design and the fabric that was built from it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from railweave.design.models import CongestionSpec, Plane, Transport
from railweave.fabric import PlaneId
from railweave.fabric.capacity import plane_capacity
from railweave.fabric.names import node_name
from railweave.fabric.wire import encryption_on, framing
from railweave.qos import ROCE_DSCP, classes_of
from railweave.transport.planes._facts import PlaneRole, plane_facts
from railweave.transport.planes.system_map import PLANES, Station, SystemMap, system_map
from railweave.workload.by_plane import PlaneBytes, bytes_by_plane

if TYPE_CHECKING:
    from railweave.api import BuiltDesign

__all__ = [
    "Component",
    "PlaneSheet",
    "TrafficClass",
    "describe_planes",
    "plane_role",
    "role_of",
    "tier_ratios",
    "traffic_class",
    "transport_of",
]

#: parts that stand in servers: they belong to no plane, and to each
_INSIDE: Final = ("server", "gpu", "scale-up")


@dataclass(frozen=True, slots=True)
class Component:
    """One kind of part of a plane: how many there are, its role, the first and the last by name.

    ``model`` is the catalog name of a switch, "" where the parts differ or have none. ``count`` is
    0 for what the fabric has no node for; ``note`` says what must be said of it.
    """

    id: str
    kind: str
    label: str
    count: int
    role: str
    first: str = ""
    last: str = ""
    model: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class TrafficClass:
    """The class of a plane's data on its network.

    ``priority`` is None on InfiniBand, whose one data class needs none.
    """

    priority: int | None
    dscp: int | None
    lossless: bool

    def describe(self) -> str:
        """Say which class it is, and what becomes of it in congestion."""
        if self.priority is None:
            return "one class, lossless by link-level credits"
        guarded = "lossless under PFC" if self.lossless else "switches may drop"
        return f"priority {self.priority} (DSCP {self.dscp}), {guarded}"


@dataclass(frozen=True, slots=True)
class PlaneSheet:
    """One plane of a design.

    ``network`` is the plane whose switches and cables it uses, "" where the design does not
    describe the plane: then there is nothing but its role. ``sharing`` are the other planes on the
    same network. ``ratios`` are down : up by tier. ``here`` are sentences on what the design does
    for the plane's priority. ``traffic`` is what the design's entries send as its traffic,
    ``beside`` what they send on the same network as other planes' traffic.
    """

    plane: str
    network: str
    role: PlaneRole
    source: str
    sharing: tuple[str, ...] = ()
    transport: str = ""
    topology: str = ""
    traffic_class: TrafficClass | None = None
    encryption: tuple[str, ...] = ()
    ratios: tuple[tuple[str, float], ...] = ()
    here: tuple[str, ...] = ()
    components: tuple[Component, ...] = ()
    traffic: tuple[PlaneBytes, ...] = ()
    beside: tuple[PlaneBytes, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return it as a document."""
        return {
            "plane": self.plane,
            "described": bool(self.network),
            "network": self.network,
            "sharing": list(self.sharing),
            "carries": self.role.carries,
            "late": self.role.late,
            "priority": self.role.priority,
            "source": self.source,
            "here": list(self.here),
            "transport": self.transport,
            "topology": self.topology,
            "class": dataclasses.asdict(self.traffic_class) if self.traffic_class else None,
            "encryption": list(self.encryption),
            "oversubscription": dict(self.ratios),
            "components": [dataclasses.asdict(one) for one in self.components],
            "traffic": [_sent(one) for one in self.traffic],
            "beside": [_sent(one) for one in self.beside],
        }


def _sent(one: PlaneBytes) -> dict[str, Any]:
    return {
        "name": one.name,
        "plane": one.plane.name.lower(),
        "size_bytes": one.size_bytes,
        "streams": one.streams,
    }


def plane_role(plane: str) -> PlaneRole:
    """Return what a plane is for."""
    return plane_facts().planes[plane]


def role_of(one: Station) -> str:
    """Return what a part is for."""
    return plane_facts().roles[one.tier if one.what == "switch" else one.what]


def transport_of(built: BuiltDesign, network: PlaneId) -> Transport:
    """Return the transport of a network as it was built."""
    plan = built.built.plans.get(network)
    if plan is not None:
        return plan.transport
    spec: Plane = getattr(built.design.planes, network.name.lower())
    return spec.transport or Transport.TCP


def traffic_class(built: BuiltDesign, network: PlaneId) -> TrafficClass:
    """Return the class that data has on a network; planes that share one share its class."""
    transport = transport_of(built, network)
    if transport is Transport.INFINIBAND:
        return TrafficClass(None, None, True)
    spec: Plane = getattr(built.design.planes, network.name.lower())
    classes = classes_of(spec.congestion or CongestionSpec(), transport)
    dscp = ROCE_DSCP if transport is Transport.ROCEV2 else 0
    return TrafficClass(classes.priority(dscp), dscp, classes.is_lossless(dscp))


def tier_ratios(built: BuiltDesign, network: PlaneId) -> tuple[tuple[str, float], ...]:
    """Return down : up of the tiers that have a way up, as their links now stand."""
    spec: Plane = getattr(built.design.planes, network.name.lower())
    frame = framing(transport_of(built, network), spec.mtu)
    plan = built.built.plans.get(network)
    capacity = plane_capacity(built.fabric, network, frame, plan.provisions if plan else ())
    return tuple(
        (tier.tier, tier.oversubscription)
        for tier in capacity.tiers
        if tier.oversubscription is not None
    )


def describe_planes(
    built: BuiltDesign, *, system: SystemMap | None = None, traffic: bool = True
) -> tuple[PlaneSheet, ...]:
    """Describe the four planes of a design, those that it does not have included.

    Args:
        built: the design, built.
        system: its map, where it has been drawn up already.
        traffic: whether to work out what the design's entries send, which takes longest.
    """
    system = system or system_map(built)
    sent = bytes_by_plane(built.workload().traffic) if traffic else ()
    return tuple(_sheet(built, system, plane, sent) for plane in PLANES)


def _sheet(
    built: BuiltDesign, system: SystemMap, plane: str, sent: tuple[PlaneBytes, ...]
) -> PlaneSheet:
    facts = plane_facts()
    role = facts.planes[plane]
    source = facts.sources[role.source]
    network = system.carrier.get(plane, "")
    if not network:
        return PlaneSheet(plane, "", role, source)
    number, carrier = PlaneId[plane.upper()], PlaneId[network.upper()]
    sharing = tuple(p for p, c in system.carrier.items() if c == network and p != plane)
    plan = built.built.plans.get(carrier)
    spec: Plane = getattr(built.design.planes, network)
    ratios = tier_ratios(built, carrier)
    kind = traffic_class(built, carrier)
    return PlaneSheet(
        plane,
        network,
        role,
        source,
        sharing,
        transport_of(built, carrier).value,
        plan.topology.value if plan else (spec.topology.value if spec.topology else "graph"),
        kind,
        encryption_on(built.design.planes, built.built.network, number),
        ratios,
        tuple(_here(built, system, plane, sharing, ratios)),
        tuple(_components(built, system, plane, network)),
        tuple(one for one in sent if one.plane is number),
        tuple(one for one in sent if one.plane.name.lower() in sharing),
    )


# ---------------------------------------------------------------- parts


def _components(
    built: BuiltDesign, system: SystemMap, plane: str, network: str
) -> Iterator[Component]:
    """Yield a plane's parts from its ends inwards: users and servers, adapters, switches."""
    stations = list(system.stations.values())
    ends = ("gpu", "scale-up") if plane == "backend" else ("server",)
    order = ("users", *ends, "storage", "service", "other", "nic", "switch")
    for what in order:
        for one in stations:
            if one.what == what and _belongs(one, plane, network):
                yield _component(built, one)


def _belongs(one: Station, plane: str, network: str) -> bool:
    if one.what in _INSIDE:
        return True
    if one.what == "storage":
        return plane == "storage" or (plane == one.plane == network)
    if one.what in ("users", "service", "other"):
        return one.plane == network == plane
    return one.plane == network


def _component(built: BuiltDesign, one: Station) -> Component:
    first, last = ("", "")
    if one.nodes:
        first, last = (node_name(built.fabric, node) for node in (one.nodes[0], one.nodes[-1]))
    models = {built.fabric.switch_models.get(node, "") for node in one.nodes}
    model = models.pop() if len(models) == 1 else ""
    return Component(
        one.id, one.what, one.label, one.count, role_of(one), first, last, model, one.note
    )


# ---------------------------------------------------------------- what the design does for it


def _here(
    built: BuiltDesign,
    system: SystemMap,
    plane: str,
    sharing: tuple[str, ...],
    ratios: tuple[tuple[str, float], ...],
) -> Iterator[str]:
    """Say what the design does for what the plane's design looks at first."""
    network = system.carrier[plane]
    others = " and ".join(PLANES[one] for one in sharing)
    if network != plane:
        yield (f"It has no switches of its own: {PLANES[plane]} traffic is on the "
               f"{PLANES[network]} network (planes.{plane}.shares).")  # fmt: skip
    if sharing:
        yield f"The load of {others} on the same links is a matter for it."
    else:
        yield "No other plane uses its switches and cables."
    over = [(tier, value) for tier, value in ratios if value > 1]
    for tier, value in over:
        yield (f"{value:.3g}:1 at the {tier}: where all below send upwards at once, each has "
               f"{1 / value:.0%} of its port.")  # fmt: skip
    if ratios and not over:
        yield "No tier has less capacity upwards than downwards."
    if plane == "backend":
        yield from _adapters(built, system)
    tiers = system.switches(network)
    if len(tiers) == 1 and tiers[0].count == 1:
        yield "One switch carries all of it: with that switch the plane is gone."
    if plane == "management" and network != plane:
        yield (f"It is no way in of its own: what takes the {PLANES[network]} down takes "
               "management down as well.")  # fmt: skip


def _adapters(built: BuiltDesign, system: SystemMap) -> Iterator[str]:
    nics = system.stations.get("backend-nic")
    gpus = len(built.fabric.gpus)
    if nics is None or not gpus:
        return
    if nics.count >= gpus:
        yield "Every GPU has an adapter of its own, or more than one."
    else:
        yield f"{gpus / nics.count:.3g} GPUs share an adapter, and its speed when both send."
