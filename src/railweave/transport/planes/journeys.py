"""Journeys: one packet of each kind of traffic, followed hop by hop through a built design.

A gradient goes from GPU to GPU, activations and tokens likewise (inside a scale-up domain where the
job keeps them there), checkpoints and datasets between servers and storage, a user's request and a
management session from outside to a server. The way is the routing's own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from railweave.design.models import Transport
from railweave.fabric import LinkLayer, NodeKind, PlaneId
from railweave.fabric.names import node_name
from railweave.fabric.routing import PathStatus
from railweave.fabric.trace import Hop, trace_path
from railweave.fabric.wire import encryption_on, wire_bytes
from railweave.provenance import Assumption
from railweave.transport.planes._ends import (
    GPU_KINDS,
    PLANE_OF,
    JourneyKind,
    PlaneEnds,
    default_ends,
    given_ends,
    network_of,
    other_gpus,
)
from railweave.transport.planes._facts import plane_facts
from railweave.transport.planes._hops import PART_NAMES, PlaneHop, make_hops, time_basis
from railweave.transport.planes.system_map import OUTSIDE, PLANES, SystemMap, system_map
from railweave.units import format_bits_rate, format_bytes, format_seconds

if TYPE_CHECKING:
    from railweave.api import BuiltDesign
    from railweave.fabric.routing import RoutingSet

__all__ = [
    "GPU_KINDS",
    "JOURNEYS",
    "PART_NAMES",
    "PLANE_OF",
    "JourneyKind",
    "PlaneHop",
    "PlaneJourney",
    "plane_journey",
    "suggested_ends",
]

#: what can travel → what the reader sees
JOURNEYS: Final[Mapping[JourneyKind, str]] = {
    JourneyKind.GRADIENT: "Gradient bytes, GPU to GPU",
    JourneyKind.TENSOR: "Activations, among the GPUs of a tensor group",
    JourneyKind.EXPERT: "Tokens, GPU to the GPU of an expert",
    JourneyKind.CHECKPOINT: "A checkpoint, server to storage",
    JourneyKind.DATASET: "A dataset read, storage to server",
    JourneyKind.REQUEST: "A user's request, to a server",
    JourneyKind.MANAGEMENT: "A management session, to a server",
}


@dataclass(frozen=True, eq=False)
class PlaneJourney:
    """What travels, from where to where, and its hops; without hops ``sentence`` says why.

    ``plane`` is whose traffic it is, ``network`` whose cables carry it, "" where the design has
    none. ``ends`` are the nodes between which the way was traced, ``why`` says why these; what
    comes from outside has its way up left out, so that its hops begin later than ``ends[0]``.
    ``packet_bytes`` is one full packet as it is on the links, ``flows`` how many flows a message
    has between these ends, of which the first is followed. ``basis`` says where the times come from
    and ``notes`` what the design leaves open.
    """

    kind: JourneyKind
    plane: str
    network: str
    sentence: str
    hops: tuple[PlaneHop, ...] = ()
    packet_bytes: float = 0.0
    ends: tuple[str, str] = ("", "")
    why: str = ""
    flows: int = 1
    coming_in: bool = False
    basis: tuple[Assumption, ...] = ()
    notes: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()

    @property
    def duplex(self) -> frozenset[int]:
        """The duplex links that it takes."""
        return frozenset(hop.link // 2 for hop in self.hops)

    @property
    def stations(self) -> tuple[str, ...]:
        """The stations of the design's map that it passes, in order."""
        ends = [hop.source_part for hop in self.hops[:1]] + [hop.target_part for hop in self.hops]
        return tuple(b for a, b in zip(["", *ends], ends, strict=False) if a != b)

    @property
    def time_s(self) -> float:
        """When the packet is there."""
        return self.hops[-1].end_s if self.hops else 0.0

    @property
    def parts(self) -> dict[str, float]:
        """The parts of its time by name, summed over the hops; they add up to ``time_s``."""
        return {name: sum(hop.parts[name] for hop in self.hops) for name in PART_NAMES}

    def to_json(self) -> dict[str, Any]:
        """Return it as a document."""
        return {
            "kind": self.kind.value,
            "title": JOURNEYS[self.kind],
            "plane": self.plane,
            "network": self.network,
            "sentence": self.sentence,
            # what comes in from outside was traced from its other end
            "from": self.hops[0].source if self.hops else self.ends[0],
            "to": self.ends[1],
            "why": self.why,
            "flows": self.flows,
            "packet_bytes": self.packet_bytes,
            "time_s": self.time_s,
            "parts_s": self.parts,
            "hops": [_hop_json(hop) for hop in self.hops],
            "basis": [dataclasses.asdict(one) for one in self.basis],
            "notes": list(self.notes),
            "sources": list(self.sources),
        }


def _hop_json(hop: PlaneHop) -> dict[str, Any]:
    document = dataclasses.asdict(hop)
    document["layers"] = list(hop.layers)
    return {**document, "protocol": hop.protocol, "time_s": hop.time_s, "end_s": hop.end_s}


def plane_journey(
    built: BuiltDesign,
    kind: JourneyKind,
    *,
    source: str = "",
    target: str = "",
    system: SystemMap | None = None,
    routing: RoutingSet | None = None,
) -> PlaneJourney:
    """Follow one full packet of a kind of traffic through a design's fabric.

    Args:
        built: the design, built; parts that have failed are avoided.
        kind: what travels.
        source: name of the node where it begins; "" lets the design's jobs and parts suggest one.
        target: where it ends, likewise.
        system: the design's map, where it has been drawn up already.
        routing: of all planes, where it has been compiled already.

    Raises:
        InputError: an end that does not exist, or that this kind cannot begin or end in.
    """
    system = system or system_map(built)
    plane, network = PLANE_OF[kind], network_of(system, kind)
    if network is None:
        return PlaneJourney(kind, plane, "", f"The design describes no {PLANES[plane]} plane: "
                       "nothing of this kind travels here.")  # fmt: skip
    name = network.name.lower()
    routing = routing or built.routing()
    routes = routing.planes[network]
    ends = default_ends(built, system, kind, name, routes)
    if isinstance(ends, str):
        return PlaneJourney(kind, plane, name, ends)
    if source or target:
        ends = given_ends(built, kind, ends, source, target)
    names = (node_name(built.fabric, ends.source), node_name(built.fabric, ends.target))
    flows = trace_path(routes, ends.source, ends.target)
    if flows[0].status is not PathStatus.OK or not flows[0].hops:
        return PlaneJourney(
            kind, plane, name, f"{names[0]} has no way to {names[1]}.", ends=names, why=ends.why
        )
    hops = _one_way(flows[0].hops)
    if ends.coming_in:
        hops = _from_the_top(built, hops)
    framed = PlaneId[plane.upper()]
    frame = routing.frames()[framed]
    outside = any(built.fabric.link_layer[hop.link] >= LinkLayer.HOST_LEAF for hop in hops)
    size = float(wire_bytes(frame.mtu_bytes, frame)) if outside else float(frame.mtu_bytes)
    made = make_hops(
        built,
        system,
        kind,
        hops,
        transport=routes.transport,
        encryption=encryption_on(built.design.planes, built.built.network, framed),
        size_bytes=size,
    )
    facts = plane_facts()
    application = facts.applications[kind.value]
    keys = dict.fromkeys(one for one in (application.source, application.also) if one)
    return PlaneJourney(
        kind,
        plane,
        name,
        _sentence(kind, plane, name, made, size, ends=ends),
        made,
        size,
        names,
        ends.why,
        len(flows),
        ends.coming_in,
        time_basis(built, made, hops),
        tuple(_notes(kind, made, len(flows), routes.transport, outside=outside)),
        tuple(facts.sources[key] for key in keys),
    )


def suggested_ends(
    built: BuiltDesign, kind: JourneyKind, *, system: SystemMap | None = None
) -> tuple[tuple[str, str, str], ...]:
    """Return other ends that are worth a look: what they are, where it begins, where it ends."""
    system = system or system_map(built)
    fabric = built.fabric
    found: list[tuple[str, int, int]] = []
    if kind in GPU_KINDS:
        found = list(other_gpus(built))
    stores, hosts = system.stations.get("storage-server"), built.built.nodes.host
    if stores is not None and kind in (JourneyKind.CHECKPOINT, JourneyKind.DATASET):
        pair = (int(hosts[-1]), stores.nodes[0])
        if kind is JourneyKind.DATASET:
            pair = (pair[1], pair[0])
        found = [("Last server and first storage server", *pair)]
    return tuple((said, node_name(fabric, a), node_name(fabric, b)) for said, a, b in found)


# ---------------------------------------------------------------- the way


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


# ---------------------------------------------------------------- words


def _sentence(
    kind: JourneyKind,
    plane: str,
    network: str,
    hops: Sequence[PlaneHop],
    size: float,
    *,
    ends: PlaneEnds,
) -> str:
    first, last = hops[0].source, hops[-1].target
    slowest = min(hop.capacity_bps for hop in hops)
    shares = f", on the {PLANES[network]} network" if network != plane else ""
    came = ""
    if ends.coming_in:
        who = OUTSIDE.capitalize() if kind is JourneyKind.REQUEST else "Administrators"
        came = f" {who} are taken to come in at {first}: the design names no gateway."
    weight = "on the wire" if any(hop.port for hop in hops) else "of payload"
    return (
        f"{first} to {last}{shares}: {len(hops)} links, the slowest {format_bits_rate(slowest)}; "
        f"one full packet ({format_bytes(size)} {weight}) takes {format_seconds(hops[-1].end_s)} "
        f"where nothing else is sent.{came}"
    )


def _notes(
    kind: JourneyKind,
    hops: Sequence[PlaneHop],
    flows: int,
    transport: Transport,
    *,
    outside: bool,
) -> list[str]:
    """Say what the way has not that one may expect, and what the design leaves open."""
    said = []
    tiers = [hop for hop in hops if hop.place in ("leaf-spine", "spine-core", "switch-switch")]
    if kind in GPU_KINDS and not outside:
        said.append("Both GPUs are in one scale-up domain: no adapter and no switch of the fabric "
                    "is on this way.")  # fmt: skip
    elif outside and not tiers and kind in GPU_KINDS:
        said.append("Both ends are under one leaf: no spine is on this way.")
    if flows > 1:
        said.append(f"A message has {flows:,} flows between these ends; the first is followed.")
    open_question = plane_facts().applications[kind.value].open
    if open_question and outside:
        said.append(open_question)
    tcp = any("TCP" in hop.layers for hop in hops)
    if kind in GPU_KINDS and tcp:
        said.append("Over TCP the bytes pass through the host's memory and processors, which this "
                    "way leaves out.")  # fmt: skip
    if tcp and transport is not Transport.TCP:
        said.append(f"It is TCP on a network of {transport.value}: its packets are counted as that "
                    "transport's, as the engines do.")  # fmt: skip
    if kind is JourneyKind.REQUEST:
        said.append("It ends in the server's memory; what the service does with it is its own.")
    return said
