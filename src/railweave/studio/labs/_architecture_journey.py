"""Lab 1's journeys: one packet of each kind of traffic, hop by hop along the built fabric."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from railweave.fabric import LinkLayer, NodeKind, PlaneId
from railweave.fabric.names import node_name
from railweave.fabric.power import LINK_CLASSES
from railweave.fabric.routing import PathStatus
from railweave.fabric.trace import Hop, trace_path
from railweave.fabric.wire import wire_bytes
from railweave.report.page_table import DASH, PageTable
from railweave.studio.designs import built_design, routing_of
from railweave.studio.lab import TraceRow
from railweave.studio.labs._architecture_map import OUTSIDE, PLANES, SystemMap, map_of
from railweave.studio.scene import Flight
from railweave.units import format_bits_rate, format_bytes, format_seconds

if TYPE_CHECKING:
    from railweave.api import BuiltDesign

__all__ = ["JOURNEYS", "Journey", "Leg", "journey_of"]

#: what can travel → what the reader sees
JOURNEYS: Final[Mapping[str, str]] = {
    "gradient": "Gradient bytes, GPU to GPU",
    "checkpoint": "A checkpoint, server to storage",
    "dataset": "A dataset read, storage to server",
    "request": "A user's request, to a server",
    "login": "A management login, to a server",
}
#: journey → plane whose traffic it is
_PLANE: Final = {
    "gradient": "backend",
    "checkpoint": "storage",
    "dataset": "storage",
    "request": "frontend",
    "login": "management",
}
_INSIDE: Final = {LinkLayer.SCALE_UP: "scale-up link", LinkLayer.PCIE: "PCIe"}


@dataclass(frozen=True, slots=True)
class Leg:
    """One hop: the fabric's, the stations at its ends, and when the packet is on it."""

    hop: Hop
    source: str
    target: str
    place: str
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Journey:
    """What travels, from where to where, and its hops; without hops ``sentence`` says why.

    ``plane`` is whose traffic it is, ``network`` whose cables carry it.
    What comes from outside was traced from ``ends[0]``, the way up left out.
    """

    key: str
    plane: str
    network: str
    sentence: str
    legs: tuple[Leg, ...] = ()
    packet_bytes: float = 0.0
    ends: tuple[str, str] = ("", "")  #: between which the way was traced

    @property
    def duplex(self) -> frozenset[int]:
        """The duplex links that it takes."""
        return frozenset(leg.hop.link // 2 for leg in self.legs)

    @property
    def stations(self) -> tuple[str, ...]:
        """The stations of the map that it passes, in order."""
        ends = [leg.source for leg in self.legs[:1]] + [leg.target for leg in self.legs]
        return tuple(b for a, b in zip(["", *ends], ends, strict=False) if a != b)

    @property
    def time_s(self) -> float:
        """When the packet is there."""
        return self.legs[-1].end_s if self.legs else 0.0

    def table(self) -> PageTable | None:
        """Return its hops as a table."""
        if not self.legs:
            return None
        rows = [
            (
                f"{number}",
                leg.hop.source,
                leg.hop.target,
                leg.place,
                format_bits_rate(leg.hop.capacity_bps),
                format_seconds(leg.hop.delay_s) if leg.hop.delay_s else DASH,
                f"{leg.hop.choices:,}" if leg.hop.choices > 1 else DASH,
            )
            for number, leg in enumerate(self.legs, 1)
        ]
        header = ("", "from", "to", "over", "speed", "delay", "equal links")
        return PageTable("journey", "Hop by hop", header, tuple(rows))

    def trace(self) -> tuple[TraceRow, ...]:
        """Return when the packet leaves each device, and its arrival."""
        rows = [TraceRow(leg.start_s, leg.hop.source, _says(leg)) for leg in self.legs]
        if self.legs:
            last = self.legs[-1]
            rows.append(TraceRow(last.end_s, last.hop.target, "arrives"))
        return tuple(rows)

    def motion(self) -> tuple[tuple[Flight, ...], tuple[tuple[float, str], ...], float]:
        """Return what moves on the map, the steps, and the end."""
        flights = tuple(
            Flight(
                leg.start_s,
                leg.end_s,
                leg.source,
                leg.target,
                "data",
                bytes=self.packet_bytes,
                role=self.plane,
            )
            for leg in self.legs
            if leg.source != leg.target
        )
        steps = tuple((leg.start_s, f"{leg.hop.source}: {_says(leg)}") for leg in self.legs)
        end = ((self.time_s, f"{self.legs[-1].hop.target}: arrives"),) if self.legs else ()
        return flights, (*steps, *end), self.time_s


def _says(leg: Leg) -> str:
    by = f" by {leg.hop.port.rpartition(':')[2]}" if leg.hop.port else ""
    equal = f", one of {leg.hop.choices:,} equal links" if leg.hop.choices > 1 else ""
    speed = format_bits_rate(leg.hop.capacity_bps)
    return f"to {leg.hop.target}{by}, {leg.place} at {speed}{equal}"


@lru_cache(maxsize=64)
def journey_of(text: str, key: str) -> Journey:
    """Follow one packet through a design's fabric.

    Args:
        text: of the design.
        key: of :data:`JOURNEYS`.
    """
    built, system = built_design(text), map_of(text)
    plane = _PLANE[key]
    network = _network(system, key)
    if network is None:
        return Journey(key, plane, "", f"The design describes no {PLANES[plane]} plane: "
                       f"nothing of this kind travels here.")  # fmt: skip
    ends = _ends(built, system, key, network)
    if isinstance(ends, str):
        return Journey(key, plane, network, ends)
    source, target, coming_in = ends
    routing = routing_of(text).planes[PlaneId[network.upper()]]
    flow = trace_path(routing, source, target)[0]
    if flow.status is not PathStatus.OK or not flow.hops:
        names = [node_name(built.fabric, node) for node in (source, target)]
        return Journey(key, plane, network, f"{names[0]} has no way to {names[1]}.")
    hops = _one_way(flow.hops)
    if coming_in:
        hops = _from_the_top(built, hops)
    framed = plane if plane in system.carrier else network
    frame = routing_of(text).frames()[PlaneId[framed.upper()]]
    size = float(wire_bytes(frame.mtu_bytes, frame))
    legs = tuple(_legs(built, system, hops, size))
    return Journey(
        key,
        plane,
        network,
        _sentence(key, plane, network, legs, size, coming_in=coming_in),
        legs,
        size,
        (node_name(built.fabric, source), node_name(built.fabric, target)),
    )


def _network(system: SystemMap, key: str) -> str | None:
    """Return the network that carries a journey, None where the design has none."""
    plane = _PLANE[key]
    if plane == "storage" and plane not in system.carrier:
        store = system.stations.get("storage-server")
        return store.plane if store else None
    return system.carrier.get(plane)


def _ends(
    built: BuiltDesign, system: SystemMap, key: str, network: str
) -> tuple[int, int, bool] | str:
    """Return source and target nodes, and whether it comes in at the network's top tier.

    Where there are none, a sentence why.
    """
    if key == "gradient":
        return _gpus(built)
    if key in ("checkpoint", "dataset"):
        stores = system.stations.get("storage-server")
        if stores is None:
            return "The design has no storage servers: there is nothing to write to or read from."
        server, store = int(built.built.nodes.host[0]), stores.nodes[-1]
        return (server, store, False) if key == "checkpoint" else (store, server, False)
    return _from_outside(built, system, key, network)


def _gpus(built: BuiltDesign) -> tuple[int, int, bool] | str:
    """Return the first GPU and its counterpart in the last server, or another of its own."""
    fabric, gpus = built.fabric, built.fabric.gpus
    if len(gpus) < 2:
        return "The design has one GPU: it has nobody to send gradients to."
    there = gpus[fabric.node_server[gpus] == fabric.node_server[gpus[-1]]]
    last = there[0] if there[0] != gpus[0] else gpus[-1]
    return int(gpus[0]), int(last), False


def _from_outside(
    built: BuiltDesign, system: SystemMap, key: str, network: str
) -> tuple[int, int, bool] | str:
    """Return the ends of what users or administrators send to the first server.

    A login starts at a service of the management network, where there is one with a port.
    Everything else is traced from the farthest host, and its way up left out.
    """
    hosts = built.built.nodes.host
    near = [one for one in system.stations.values() if one.plane == network and one.count]
    services = [one for one in near if one.what == "service"]
    others = [one for one in near if one.what in ("storage", "service", "other")]
    if key == "login" and services:
        return services[0].nodes[0], int(hosts[0]), False
    if len(hosts) > 1:
        return int(hosts[-1]), int(hosts[0]), True
    if others:
        return others[0].nodes[0], int(hosts[0]), True
    return f"One server alone is on the {PLANES[network]} network: nobody else to hear from."


def _one_way(hops: Sequence[Hop]) -> tuple[Hop, ...]:
    """Return one of the ways that a sprayed message takes; of others, all hops."""
    if all(hop.weight >= 1 for hop in hops):
        return tuple(hops)
    way, here = [hops[0]], hops[0].target
    end = hops[-1].target
    while here != end:
        step = next((hop for hop in hops if hop.source == here and hop not in way), None)
        if step is None:
            break
        way.append(step)
        here = step.target
    return tuple(way)


def _from_the_top(built: BuiltDesign, hops: Sequence[Hop]) -> tuple[Hop, ...]:
    """Leave out the way up: what comes from outside is taken to come in at the highest switch."""
    fabric = built.fabric
    sources = [int(fabric.link_src[hop.link]) for hop in hops]
    tiers = [
        int(fabric.node_tier[node]) if fabric.node_kind[node] == NodeKind.SWITCH else -2
        for node in sources
    ]
    return tuple(hops[int(np.argmax(tiers)) :])


def _legs(
    built: BuiltDesign, system: SystemMap, hops: Sequence[Hop], size_bytes: float
) -> Iterator[Leg]:
    """Time the hops: at each the packet is sent whole, then the link's delay passes."""
    fabric, now = built.fabric, 0.0
    for hop in hops:
        layer = LinkLayer(int(fabric.link_layer[hop.link]))
        usable = float(fabric.link_capacity_bps[hop.link] * fabric.link_efficiency[hop.link])
        end = now + 8.0 * size_bytes / usable + hop.delay_s
        yield Leg(
            hop,
            system.at(int(fabric.link_src[hop.link])),
            system.at(int(fabric.link_dst[hop.link])),
            _INSIDE.get(layer) or LINK_CLASSES[layer],
            now,
            end,
        )
        now = end


def _sentence(
    key: str, plane: str, network: str, legs: Sequence[Leg], size: float, *, coming_in: bool
) -> str:
    ends = legs[0].hop.source, legs[-1].hop.target
    slowest = min(leg.hop.capacity_bps for leg in legs)
    shares = f", on the {PLANES[network]} network" if network != plane else ""
    came = ""
    if coming_in:
        who = OUTSIDE.capitalize() if key == "request" else "Administrators"
        came = f" {who} are taken to come in at {ends[0]}: the design names no gateway."
    return (
        f"{ends[0]} to {ends[1]}{shares}: {len(legs)} links, the slowest "
        f"{format_bits_rate(slowest)}; one full packet ({format_bytes(size)} on the wire) takes "
        f"{format_seconds(legs[-1].end_s)} where nothing else is sent.{came}"
    )
