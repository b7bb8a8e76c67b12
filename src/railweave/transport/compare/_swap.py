"""The same cluster on each technology: the back-end's transport, routing and congestion exchanged.

Topology, counts, speeds and cables stay. A switch that does not speak the new transport is replaced
by one of the same ports with port latency and buffer of the nearest catalog switch that does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from railweave.catalog import Catalog, CatalogError, Switch
from railweave.design._meaning_network import ENCRYPTION_OF, ISOLATION_OF
from railweave.design.models import (
    CongestionName,
    CongestionSpec,
    InlineSwitch,
    Plane,
    RoutingScheme,
    RoutingSpec,
    Spraying,
    TierSwitches,
    Topology,
    Transport,
)
from railweave.errors import InputError
from railweave.fabric import PlaneId
from railweave.transport.compare._technologies import Technology, technology_facts
from railweave.units import parse_bps

if TYPE_CHECKING:
    from railweave.api import BuiltDesign

__all__ = ["SPEAKS", "Swapped", "can_encrypt", "swap", "synthetic_design", "technology_of"]

#: what an adapter or a switch of the catalog must speak
SPEAKS: Final = {
    Technology.TCP: "tcp",
    Technology.ROCEV2: "rocev2",
    Technology.INFINIBAND: "infiniband",
    Technology.ADAPTIVE: "rocev2",
}
_ADAPTIVE_FEATURE: Final = "adaptive-routing"
_LOAD_AWARE: Final = (RoutingScheme.ADAPTIVE, RoutingScheme.SPRAY)
#: routing and congestion where the design does not speak of the technology itself
_ROUTING: Final = {
    Technology.TCP: RoutingScheme.ECMP,
    Technology.ROCEV2: RoutingScheme.ECMP,
    Technology.INFINIBAND: RoutingScheme.DESTINATION,
    Technology.ADAPTIVE: RoutingScheme.SPRAY,
}
#: how far a packet of the adaptive column may be overtaken (assumed: a NIC that places data as it
#: comes), and its retry timer: 4.096 us x 2^8 = 1 ms, as such NICs repeat by short timers (assumed)
_REORDER_PACKETS: Final = 1024
_ADAPTIVE_TIMEOUT: Final = 8
_CONGESTION: Final = {
    Technology.TCP: CongestionSpec(scheme=CongestionName.CUBIC),
    Technology.ROCEV2: CongestionSpec(scheme=CongestionName.PFC_DCQCN),
    Technology.INFINIBAND: CongestionSpec(scheme=CongestionName.CREDITS),
    Technology.ADAPTIVE: CongestionSpec(
        scheme=CongestionName.NSCC,
        trimming=True,
        reorder_packets=_REORDER_PACKETS,
        timeout=_ADAPTIVE_TIMEOUT,
    ),
}
#: NICs up to this speed are joined by switches of 64 × 400 Gb/s in a made-up design
_MODEST_BPS: Final = 400e9


@dataclass(frozen=True, eq=False)
class Swapped:
    """The cluster on one technology, what was put in its place, and power of its network.

    ``own`` tells that the design itself is of this technology and stands as it is. ``switches_w``
    and ``nics_w`` are rated powers of the back-end's switches and adapters, cables not counted.
    """

    technology: Technology
    built: BuiltDesign
    own: bool
    notes: tuple[str, ...]
    switches_w: float
    nics_w: float


def technology_of(plane: Plane) -> Technology:
    """Return the technology that a back-end plane is of."""
    if plane.transport is Transport.INFINIBAND:
        return Technology.INFINIBAND
    if plane.transport is not Transport.ROCEV2:
        return Technology.TCP
    scheme = None if plane.congestion is None else plane.congestion.scheme
    aware = plane.routing.scheme in _LOAD_AWARE or scheme is CongestionName.NSCC
    return Technology.ADAPTIVE if aware else Technology.ROCEV2


def synthetic_design(
    gpus: int,
    *,
    server: str = "hgx-h100-8gpu",
    oversubscription: float = 1.0,
    topology: Topology = Topology.RAIL_OPTIMIZED,
    speed: str = "",
) -> str:
    """Return the text of a design with so many GPUs and a RoCEv2 back-end, to be compared on.

    Args:
        gpus: whole servers of them.
        server: catalog name.
        oversubscription: of the leaves.
        topology: of the back-end.
        speed: of a NIC, with unit; "" takes the server's.

    Raises:
        InputError: GPUs that are not whole servers, or a server without GPUs.
    """
    from railweave.catalog import default_catalog

    part = default_catalog().server(server)
    if not part.gpu_count:
        raise InputError(f"server {server} has no GPUs; name one that has, such as hgx-h100-8gpu")
    count, rest = divmod(gpus, part.gpu_count)
    if rest or count < 2:
        near = max(2, round(gpus / part.gpu_count)) * part.gpu_count
        raise InputError(
            f"gpus: {gpus:,} are not two or more whole servers of {part.gpu_count}; "
            f"allowed: a multiple of {part.gpu_count} from {2 * part.gpu_count}; nearest: {near}"
        )
    rate = f", nic_speed: {speed}" if speed else ""
    fastest = parse_bps(speed) if speed else part.nics["backend"].speed_bps
    switch = "sn5400" if fastest <= _MODEST_BPS else "sn5600"
    return (
        "railweave: 1\n"
        f"name: compare-{gpus}\n"
        "cluster:\n"
        f"  servers: {{model: {server}, count: {count}{rate}}}\n"
        "planes:\n"
        "  backend:\n"
        "    transport: rocev2\n"
        f"    topology: {topology.value}\n"
        f"    switch: {switch}\n"
        f"    oversubscription: {oversubscription:g}\n"
    )


def swap(built: BuiltDesign, technology: Technology, *, queue_pairs: int = 1) -> Swapped:
    """Return a design's cluster on a technology.

    Args:
        built: the design; parts that have failed stay so.
        technology: to put in the back-end's place.
        queue_pairs: of a connection where the RoCEv2 column is not the design's own.

    Raises:
        InputError: a forwarding table, which belongs to one technology, or no switch in the catalog
            that speaks it.
        SizingError: it cannot be built so.
    """
    backend = built.design.planes.backend
    if technology_of(backend) is technology:
        return _weighed(built, technology, True, ("the design's own back-end",))
    if backend.routing.scheme is RoutingScheme.TABLE:
        raise InputError(
            "planes.backend.routing: a forwarding table belongs to one technology; "
            "to compare, take a scheme"
        )
    switches, notes = _switches(built, technology)
    update: dict[str, object] = {
        "transport": technology_facts().technologies[technology].transport,
        "routing": _routing(backend.routing, technology, queue_pairs),
        "congestion": _CONGESTION[technology],
        "switch": switches,
        **_kept_apart(backend, technology, notes),
    }
    if (backend.transport is Transport.TCP) or technology is Technology.TCP:
        update["mtu"] = None
    planes = built.design.planes.model_copy(update={"backend": backend.model_copy(update=update)})
    design = built.design.model_copy(update={"planes": planes})
    whole = replace(built, document=replace(built.document, design=design), failed=())
    from railweave.fabric.build import build_fabric

    fabric = build_fabric(design, built.document.catalog, built.document.folder)
    again = replace(whole, built=fabric)
    if built.failed:
        again = again.fail(built.failed)
    return _weighed(again, technology, False, tuple(notes))


def _routing(own: RoutingSpec, technology: Technology, queue_pairs: int) -> RoutingSpec:
    many = queue_pairs if technology is Technology.ROCEV2 else 1
    scheme = _ROUTING[technology]
    if many > 1 and scheme is RoutingScheme.ECMP:
        scheme = RoutingScheme.E_ECMP
    return RoutingSpec(
        scheme=scheme,
        hash=own.hash,
        fields=own.fields,
        seeds=own.seeds,
        queue_pairs=many,
        spraying=Spraying.RECYCLE if scheme is RoutingScheme.SPRAY else own.spraying,
    )


def _kept_apart(backend: Plane, technology: Technology, notes: list[str]) -> dict[str, str]:
    """Return isolation and encryption as far as they exist on the technology."""
    isolation, encryption = backend.isolation, backend.encryption
    update = {}
    transport = technology_facts().technologies[technology].transport
    if isolation not in ISOLATION_OF[transport]:
        update["isolation"] = "pkey" if technology is Technology.INFINIBAND else "vxlan-evpn"
        notes.append(f"isolation {isolation} becomes {update['isolation']}")
    if encryption not in ENCRYPTION_OF[transport]:
        update["encryption"] = "none"
        notes.append(f"encryption {encryption} does not exist there: measured without")
    return update


# ---------------------------------------------------------------- switches


def _switches(
    built: BuiltDesign, technology: Technology
) -> tuple[TierSwitches | str | InlineSwitch, list[str]]:
    """Return the switches of all tiers for a technology, and what was exchanged."""
    shapes = built.built.plans[PlaneId.BACKEND].switches
    was_infiniband = built.design.planes.backend.transport is Transport.INFINIBAND
    notes: dict[str, None] = {}
    chosen: dict[str, str | InlineSwitch] = {}
    for tier in ("leaf", "spine", "core"):
        shape = shapes.get(tier)
        if shape is None:
            continue
        part = _part(built, shape.name)
        chosen[tier] = _fitting(
            part, technology, built.document.catalog, notes, was_infiniband=was_infiniband
        )
    leaf = chosen["leaf"]
    if all(choice == leaf for choice in chosen.values()):
        return leaf, list(notes)
    return TierSwitches.model_validate(chosen), list(notes)


def _part(built: BuiltDesign, name: str) -> Switch | InlineSwitch:
    """Return a switch of the plan by its name: from the catalog, or as the design describes it."""
    from railweave.fabric._inventory import switch_shape

    catalog = built.document.catalog
    for choice in _described(built.design.planes.backend.switch):
        if switch_shape(choice, catalog).name == name:
            return choice
    return catalog.switch(name)


def _described(choice: object) -> Iterator[InlineSwitch]:
    several = (
        (choice.leaf, choice.spine, choice.core) if isinstance(choice, TierSwitches) else (choice,)
    )
    yield from (one for one in several if isinstance(one, InlineSwitch))


def _infiniband(technology: Technology) -> bool:
    """Tell whether a technology needs InfiniBand's switches."""
    return technology is Technology.INFINIBAND


def _fitting(
    part: Switch | InlineSwitch,
    technology: Technology,
    catalog: Catalog,
    notes: dict[str, None],
    *,
    was_infiniband: bool,
) -> str | InlineSwitch:
    """Return the switch itself where it speaks the technology, else one of the same ports.

    One that the design describes itself is taken for an Ethernet switch that can do either.
    """
    if isinstance(part, Switch) and _able(part, technology):
        return part.name
    if isinstance(part, InlineSwitch) and not _infiniband(technology) and not was_infiniband:
        return part
    like = _counterpart(part, technology, catalog)
    ports, speed = _ports(part)
    ways = part.max_breakout if isinstance(part, InlineSwitch) else _widest(part)
    name = part.name if isinstance(part, Switch) else f"{ports} × {speed / 1e9:g} Gb/s"
    notes[
        f"switch {name}: the same ports with latency, buffer and watts per Gb/s of {like.name}"
    ] = None
    share = ports * speed / like.capacity_bps
    plain = InlineSwitch.model_validate({"radix": ports, "speed": "1 Gb/s", "max_breakout": ways})
    return plain.model_copy(
        update={
            "speed": speed,
            "power": like.power_w * share,
            "latency": like.latency_s,
            "buffer": max(1, round(like.buffer_bytes * share)),
        }
    )


def _ports(part: Switch | InlineSwitch) -> tuple[int, float]:
    if isinstance(part, InlineSwitch):
        return part.radix, part.speed
    return part.ports, part.port_speed_bps


def _widest(part: Switch) -> int:
    return max([1, *(split.ways for split in part.breakouts)])


def _able(part: Switch, technology: Technology) -> bool:
    aware = technology is not Technology.ADAPTIVE or _ADAPTIVE_FEATURE in part.features
    return SPEAKS[technology] in part.transports and aware


def _counterpart(part: Switch | InlineSwitch, technology: Technology, catalog: Catalog) -> Switch:
    """Return the shipping catalog switch nearest in port speed, then in capacity."""
    ports, speed = _ports(part)
    able = [
        one for one in catalog.switches() if _able(one, technology) and one.status == "shipping"
    ]
    if not able:
        raise CatalogError(
            f"the catalog has no switch that speaks {technology.value}",
            path="planes.backend.switch",
        )

    def far(one: Switch) -> tuple[float, float, float, str]:
        ratio = one.port_speed_bps / speed
        size = one.capacity_bps / (ports * speed)
        return (max(ratio, 1 / ratio), max(size, 1 / size), one.latency_s, one.name)

    return min(able, key=far)


# ---------------------------------------------------------------- power


def _weighed(
    built: BuiltDesign, technology: Technology, own: bool, notes: tuple[str, ...]
) -> Swapped:
    fabric, catalog = built.fabric, built.document.catalog
    watts = 0.0
    known: dict[str, float] = {}
    for node in fabric.switches(PlaneId.BACKEND):
        name = fabric.switch_models.get(int(node), "")
        if name not in known:
            known[name] = _switch_w(built, name, technology)
        watts += known[name]
    return Swapped(technology, built, own, notes, watts, _nics_w(built, catalog))


def _switch_w(built: BuiltDesign, name: str, technology: Technology) -> float:
    """Return the rated power of a switch; of one whose power nobody stated, by its capacity."""
    try:
        part = _part(built, name)
    except CatalogError:
        return 0.0
    if isinstance(part, Switch):
        return part.power_w
    if "power" in part.model_fields_set:
        return part.power
    like = _counterpart(part, technology, built.document.catalog)
    return like.power_w * part.radix * part.speed / like.capacity_bps


def _nics_w(built: BuiltDesign, catalog: Catalog) -> float:
    """Return the rated power of the back-end's adapters; those of inline servers are not known."""
    from railweave.fabric._inventory import server_shapes

    total = 0.0
    for shape in server_shapes(built.design, catalog):
        adapter = shape.adapters.get(PlaneId.BACKEND)
        if adapter is not None and adapter.name:
            total += shape.count * adapter.count * catalog.nic(adapter.name).power_w
    return total


def can_encrypt(technology: Technology, means: str = "") -> bool:
    """Tell whether a technology has some means of encryption, or the one that is named."""
    known = ENCRYPTION_OF[technology_facts().technologies[technology].transport]
    return means in known if means else len(known) > 1
