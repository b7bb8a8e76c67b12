"""A design as a map: what it is made of, as a few stations and the bundles of links between them.

Every node of the built fabric belongs to one station (all leaves of a plane, all GPUs, …), so that
counts are those of the fabric. What the fabric has no nodes for (users, services that run on other
hosts) is a station without nodes, and said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from railweave.design.models import ServiceKind
from railweave.fabric import TIER_NAMES, LinkLayer, NodeKind, PlaneId
from railweave.fabric.names import node_name
from railweave.fabric.power import LINK_CLASSES
from railweave.units import format_bits_rate

if TYPE_CHECKING:
    from railweave.api import BuiltDesign

__all__ = [
    "OUTSIDE",
    "PLANES",
    "Bundle",
    "Station",
    "SystemMap",
    "system_map",
]

I32 = npt.NDArray[np.int32]

#: plane → what it is called
PLANES: Final[Mapping[str, str]] = {
    "backend": "back-end",
    "frontend": "front-end",
    "storage": "storage",
    "management": "management",
}
#: id of the station that stands for whoever uses the cluster
OUTSIDE: Final = "users"
#: server groups that are drawn one by one
_MOST_GROUPS: Final = 4
#: kinds of other hosts that are drawn one by one, by network
_MOST_OTHERS: Final = 4
_TIER_PLURAL: Final = {"leaf": "leaves", "spine": "spines", "core": "cores", "switch": "switches"}
_INSIDE: Final = {LinkLayer.SCALE_UP: "scale-up", LinkLayer.PCIE: "PCIe"}


@dataclass(frozen=True)
class Station:
    """One kind of thing on the map.

    Attributes:
        id: its name in the page's address.
        what: ``server``, ``gpu``, ``scale-up``, ``nic``, ``switch``, ``storage``, ``service``,
            ``other`` or ``users``.
        label: what the reader sees.
        plane: the network it belongs to; "" inside a server.
        tier: of a switch: leaf, spine, core or switch.
        nodes: its nodes in the fabric; empty for what the fabric has no node for.
        group: number of the server group; −1 for others.
        note: what must be said of it.
    """

    id: str
    what: str
    label: str
    plane: str = ""
    tier: str = ""
    nodes: tuple[int, ...] = ()
    group: int = -1
    note: str = ""

    @property
    def count(self) -> int:
        """How many there are; 0 where the design does not say."""
        return len(self.nodes)


@dataclass(frozen=True)
class Bundle:
    """All links between two stations in one network (or inside servers: plane "").

    ``lower`` is the end nearer to the servers. ``speeds_bps`` are the links' speeds, the lowest
    first; ``capacity_bps`` of all of them, one way.
    """

    lower: str
    upper: str
    plane: str
    place: str
    links: int
    capacity_bps: float
    speeds_bps: tuple[float, ...]

    @property
    def id(self) -> str:
        """Its name on the map."""
        return f"{self.lower} – {self.upper}"

    @property
    def rate(self) -> str:
        """Number and speed of its links, as one writes them."""
        speeds = " or ".join(format_bits_rate(speed) for speed in self.speeds_bps)
        return f"{self.links:,} × {speeds}"


@dataclass(frozen=True, eq=False)
class SystemMap:
    """A design as a map.

    Attributes:
        stations: by id, in the order from the users to the back-end's top.
        bundles: links between different stations; ``inner`` those within one (a graph's switches).
        carrier: each plane of the design → the plane whose network it uses.
        absent: what the design has not, in sentences.
        station_of: (N,) number of each node's station.
    """

    stations: Mapping[str, Station]
    bundles: tuple[Bundle, ...]
    inner: tuple[Bundle, ...]
    carrier: Mapping[str, str]
    absent: tuple[str, ...]
    station_of: I32

    def sharing(self, network: str) -> tuple[str, ...]:
        """Return the planes that use another one's network."""
        return tuple(p for p, carrier in self.carrier.items() if carrier == network != p)

    def at(self, node: int) -> str:
        """Return the id of a node's station."""
        return tuple(self.stations)[int(self.station_of[node])]

    def switches(self, network: str) -> tuple[Station, ...]:
        """Return a network's switches by tier, the leaf first."""
        return tuple(s for s in self.stations.values() if s.what == "switch" and s.plane == network)


def system_map(built: BuiltDesign) -> SystemMap:
    """Draw up the map of a built design."""
    carrier = {
        plane.name.lower(): network.name.lower()
        for plane, network in sorted(built.built.network.items())
    }
    stations, station_of = _stations(built)
    bundles, inner = _bundles(built, tuple(stations), station_of)
    _add_portless(built, stations, carrier)
    return SystemMap(
        {one.id: one for one in _in_order(stations.values())},
        bundles,
        inner,
        carrier,
        _absent(built, carrier),
        _renumbered(stations, station_of),
    )


# ---------------------------------------------------------------- stations


def _stations(built: BuiltDesign) -> tuple[dict[str, Station], I32]:
    """Give every node of the fabric a station; return them and (N,) the number of each node's."""
    fabric = built.fabric
    station_of = np.full(fabric.n_nodes, -1, dtype=np.int32)
    stations: dict[str, Station] = {}

    def add(name: str, what: str, label: str, nodes: I32, **more: object) -> None:
        if nodes.size:
            station_of[nodes] = len(stations)
            members = tuple(nodes.tolist())
            stations[name] = Station(name, what, label, nodes=members, **more)  # type: ignore[arg-type]

    for name, label, group, nodes in _server_groups(built):
        add(name, "server", label, nodes, group=group)
    kind = fabric.node_kind
    add("gpu", "gpu", "GPUs", fabric.gpus)
    add("scale-up", "scale-up", "scale-up", _where(kind == NodeKind.SCALE_UP))
    for plane in PlaneId:
        name, said = plane.name.lower(), PLANES[plane.name.lower()]
        add(f"{name}-nic", "nic", f"{said} NICs", fabric.nics(plane), plane=name)
        switches = fabric.switches(plane)
        for tier in sorted(set(fabric.node_tier[switches].tolist())):
            one = TIER_NAMES.get(tier, "switch")
            nodes = switches[fabric.node_tier[switches] == tier]
            what = one if len(nodes) == 1 else _TIER_PLURAL[one]
            add(f"{name}-{one}", "switch", f"{said} {what}", nodes, plane=name, tier=one)
    networks = _networks(built)
    store = _where(kind == NodeKind.STORAGE)
    where = networks[int(store[0])] if store.size else ""
    add("storage-server", "storage", "storage servers", store, plane=where)
    for name, what, network, nodes in _others(built, networks, set(stations)):
        add(name, what, name, nodes, plane=network)
    return stations, station_of


def _where(mask: npt.NDArray[np.bool_]) -> I32:
    return np.flatnonzero(mask).astype(np.int32)


def _server_groups(built: BuiltDesign) -> Iterator[tuple[str, str, int, I32]]:
    """Yield id, label, number and host nodes of each server group, or of all where many."""
    nodes, groups = built.built.nodes, built.design.cluster.servers
    hosts = nodes.host.astype(np.int32)
    if len(groups) > _MOST_GROUPS:
        yield "gpu-server", "servers of all groups", -1, hosts
        return
    for number, group in enumerate(groups):
        name = "gpu-server" if len(groups) == 1 else f"server-{group.name}"
        label = group.model or "servers as described"
        yield name, label, number, hosts[nodes.server_group == number]


def _networks(built: BuiltDesign) -> dict[int, str]:
    """Return the network of every host with ports of its own (storage servers, services, …)."""
    fabric = built.fabric
    layer = fabric.link_layer == LinkLayer.HOST_LEAF
    found = {}
    for ends in (fabric.link_src, fabric.link_dst):
        other = np.isin(fabric.node_kind[ends], (NodeKind.STORAGE, NodeKind.EXTRA)) & layer
        for link in np.flatnonzero(other).tolist():
            found[int(ends[link])] = PlaneId(int(fabric.link_plane[link])).name.lower()
    return found


def _others(
    built: BuiltDesign, networks: Mapping[int, str], taken: set[str]
) -> Iterator[tuple[str, str, str, I32]]:
    """Yield id, kind, network and nodes of services and other hosts, those alike together."""
    fabric = built.fabric
    kinds = {kind.value for kind in ServiceKind}
    found: dict[tuple[str, str], list[int]] = {}
    for node in _where(fabric.node_kind == NodeKind.EXTRA).tolist():
        plane = networks.get(node, "")
        # The second of a name on another network is called after it: management-scheduler-1.
        base = re.sub(r"-\d+$", "", node_name(fabric, node)).removeprefix(f"{plane}-")
        found.setdefault((base, plane), []).append(node)
    merged: dict[tuple[str, str], list[int]] = {}
    counts: dict[str, int] = {}
    for (base, plane), nodes in found.items():
        service = base in kinds
        if not service:
            counts[plane] = counts.get(plane, 0) + 1
        many = not service and counts[plane] > _MOST_OTHERS
        merged.setdefault(("other-hosts" if many else base, plane), []).extend(nodes)
    for (base, plane), nodes in merged.items():
        again = base in taken or sum(name == base for name, _ in merged) > 1
        name = f"{plane}-{base}" if again else base
        yield name, "service" if base in kinds else "other", plane, np.array(nodes, dtype=np.int32)


def _add_portless(
    built: BuiltDesign, stations: dict[str, Station], carrier: Mapping[str, str]
) -> None:
    """Add users, and the services that run on other hosts or that no port was left for."""
    if "frontend" in carrier:
        stations[OUTSIDE] = Station(
            OUTSIDE,
            "users",
            "users",
            carrier["frontend"],
            note="The design names no gateway: users are drawn at the network's top tier.",
        )
    said = {finding.path: finding.message for finding in built.built.findings}
    for number, service in enumerate(built.design.services):
        plane = carrier.get(service.plane.value)
        name = service.kind.value
        if plane is None or name in stations or f"{plane}-{name}" in stations:
            continue
        note = said.get(f"services[{number}]", f"the {name} has no port of its own here")
        stations[name] = Station(name, "service", name, plane, note=f"{note[0].upper()}{note[1:]}.")


_RANK: Final = (
    "users",
    "service",
    "storage",
    "switch",
    "nic",
    "server",
    "gpu",
    "scale-up",
    "other",
)
_PLANE_RANK: Final = ("frontend", "storage", "management", "", "backend")


def _in_order(stations: object) -> list[Station]:
    """Sort stations from the users through the front-end and the servers to the back-end."""
    assert isinstance(stations, type({}.values()))

    def place(one: Station) -> tuple[int, int]:
        return _PLANE_RANK.index(one.plane), _RANK.index(one.what)

    return sorted(stations, key=place)


def _renumbered(stations: Mapping[str, Station], station_of: I32) -> I32:
    """Return the numbers in the order in which stations are kept."""
    order = {one.id: number for number, one in enumerate(_in_order(stations.values()))}
    new = np.array([order[name] for name in stations], dtype=np.int32)
    return np.where(station_of >= 0, new[np.maximum(station_of, 0)], -1).astype(np.int32)


# ---------------------------------------------------------------- bundles


def _bundles(
    built: BuiltDesign, names: tuple[str, ...], station_of: I32
) -> tuple[tuple[Bundle, ...], tuple[Bundle, ...]]:
    """Gather the duplex links by their two stations and plane."""
    fabric = built.fabric
    ends = station_of[fabric.link_src[::2]], station_of[fabric.link_dst[::2]]
    plane = fabric.link_plane[::2].astype(np.int64)
    layer = fabric.link_layer[::2].astype(np.int64)
    key = ((ends[0].astype(np.int64) * len(names) + ends[1]) * 8 + plane + 1) * 8 + layer
    kinds, where = np.unique(key, return_inverse=True)
    capacity = np.bincount(where, fabric.link_capacity_bps[::2])
    count = np.bincount(where)
    first = np.full(len(kinds), -1)
    first[where[::-1]] = np.arange(len(where))[::-1]
    rates = fabric.link_capacity_bps[::2]
    pairs = np.unique(np.stack((where.astype(float), rates)), axis=1)
    between: list[Bundle] = []
    inner: list[Bundle] = []
    for number, link in enumerate(first.tolist()):
        at = LinkLayer(int(layer[link]))
        one = Bundle(
            names[ends[0][link]],
            names[ends[1][link]],
            PlaneId(int(plane[link])).name.lower() if at in LINK_CLASSES else "",
            LINK_CLASSES.get(at) or _INSIDE[at],
            int(count[number]),
            float(capacity[number]),
            tuple(pairs[1][pairs[0] == number].tolist()),
        )
        (inner if one.lower == one.upper else between).append(one)
    return tuple(between), tuple(inner)


def _absent(built: BuiltDesign, carrier: Mapping[str, str]) -> tuple[str, ...]:
    """Say what the design has no plane or device for, instead of drawing it."""
    said = {
        "frontend": "no front-end: users and services have no network here",
        "storage": "no storage plane: datasets and checkpoints have no network of their own",
        "management": "no management plane: there is no way in but through the others",
    }
    found = [
        f"The design describes {said[plane]}."
        for plane in PLANES
        if plane in said and plane not in carrier
    ]
    if built.design.cluster.storage_servers is None:
        found.append("The design has no storage servers.")
    found += [
        f"The {service.kind.value} is to live on {PLANES[service.plane.value]}, which the design "
        "does not describe; it is not drawn."
        for service in built.design.services
        if service.plane.value not in carrier
    ]
    return tuple(found)
