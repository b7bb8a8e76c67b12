"""What breaks along a journey by what the design says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from railweave.design.models import RoutingScheme, Transport
from railweave.fabric import Fabric, NodeKind, PlaneId
from railweave.fabric.names import find_node
from railweave.transport.planes import tier_ratios, traffic_class, transport_of
from railweave.transport.planes._ends import GPU_KINDS, JourneyKind
from railweave.transport.planes.journeys import PlaneJourney
from railweave.transport.planes.system_map import PLANES, SystemMap, system_map
from railweave.units import format_bytes
from railweave.workload import bytes_by_plane

if TYPE_CHECKING:
    from railweave.api import BuiltDesign

__all__ = ["StatedEffect", "stated_effects"]

#: planes whose traffic is TCP on a network of RDMA too
_TCP_PLANES: Final = ("frontend", "management")
_HASHING: Final = (RoutingScheme.ECMP, RoutingScheme.E_ECMP, RoutingScheme.FLOWLET)


@dataclass(frozen=True, slots=True)
class StatedEffect:
    """What follows from the design: a cause, where it stands, and what comes of it."""

    cause: str
    where: str
    effect: str


def stated_effects(
    built: BuiltDesign, journey: PlaneJourney, *, system: SystemMap | None = None
) -> tuple[StatedEffect, ...]:
    """Return what breaks along a journey by what the design says, the widest first."""
    if not journey.hops:
        return ()
    system = system or system_map(built)
    outside = any(hop.port for hop in journey.hops)
    if not outside:
        return (
            StatedEffect(
                "scale-up domain",
                journey.hops[0].target,
                "Only GPUs of the same domain send here: no plane's load reaches it, and nothing "
                "that breaks outside does.",
            ),
        )
    return (
        *_sharing(built, journey, system),
        *_narrow(built, journey),
        *_choices(built, journey),
        *_adapters(built, journey),
        *_full_queues(built, journey),
        *_single(built, journey),
    )


def _sharing(
    built: BuiltDesign, journey: PlaneJourney, system: SystemMap
) -> Iterator[StatedEffect]:
    others = [p for p, c in system.carrier.items() if c == journey.network and p != journey.plane]
    if not others:
        yield StatedEffect(
            "own network",
            f"planes.{journey.network}",
            f"No other plane's traffic is on the {PLANES[journey.network]} network: only its own "
            "load can slow it.",
        )
        return
    sent = [
        f"{one.name} ({format_bytes(one.size_bytes)})"
        for one in bytes_by_plane(built.workload().traffic)
        if one.plane.name.lower() in others
    ]
    said = f" Of the design's own entries these send there: {', '.join(sent)}." if sent else ""
    kind = traffic_class(built, PlaneId[journey.network.upper()])
    where = journey.plane if journey.plane != journey.network else others[0]
    mixed = transport_of(built, PlaneId[journey.network.upper()]) is not Transport.TCP
    apart = [p for p in others if mixed and (p in _TCP_PLANES or _tcp_on_rdma(built, journey))]
    texts = []
    for planes, queues in (
        ([p for p in others if p not in apart],
         f" and in the same class ({kind.describe()}): it waits in the same queues"),
        (apart, "; whether TCP has a class of its own beside RDMA, the design does not say"),
    ):  # fmt: skip
        if planes:
            names = " and ".join(PLANES[p] for p in planes).capitalize()
            texts.append(f"{names} traffic is on the same switches and cables{queues}.")
    yield StatedEffect("shared network", f"planes.{where}.shares", f"{' '.join(texts)}{said}")
    if journey.kind is JourneyKind.MANAGEMENT and journey.network != "management":
        yield StatedEffect(
            "in-band management",
            "planes.management.shares",
            f"What takes the {PLANES[journey.network]} network down takes the way in down as well.",
        )


def _tcp_on_rdma(built: BuiltDesign, journey: PlaneJourney) -> bool:
    """Tell whether a journey speaks TCP on a network whose own transport is RDMA."""
    transport = transport_of(built, PlaneId[journey.network.upper()])
    return transport is not Transport.TCP and any("TCP" in hop.layers for hop in journey.hops)


def _narrow(built: BuiltDesign, journey: PlaneJourney) -> Iterator[StatedEffect]:
    """Say where more can be sent than goes on, of the tiers that the way passes."""
    network = PlaneId[journey.network.upper()]
    tiers = {"leaf": "leaf-spine", "spine": "spine-core"}
    for tier, value in tier_ratios(built, network):
        hop = next((h for h in journey.hops if h.place == tiers.get(tier)), None)
        if hop is None or value <= 1:
            continue
        source, target = built.fabric.link_src[hop.link], built.fabric.link_dst[hop.link]
        climbs = built.fabric.node_tier[source] < built.fabric.node_tier[target]
        all_at_once = "send upwards at once" if climbs else "are sent to from above at once"
        yield StatedEffect(
            "oversubscription",
            hop.port or hop.source,
            f"{value:.3g}:1 at the {tier}: where all hosts below {all_at_once}, each has "
            f"{1 / value:.0%} of its port.",
        )


def _choices(built: BuiltDesign, journey: PlaneJourney) -> Iterator[StatedEffect]:
    hop = next((h for h in journey.hops if h.choices > 1), None)
    if hop is None:
        return
    routing = built.routing().planes[PlaneId[journey.network.upper()]]
    where, n = hop.port or hop.source, f"{hop.choices:,} equal links"
    if routing.scheme in _HASHING:
        said = (f"A hash picks one of {n} for a flow and keeps it: two large flows on one have "
                "half each, beside idle ones.")  # fmt: skip
    elif routing.scheme is RoutingScheme.SPRAY:
        said = f"Packets are dealt over {n}: one slow link among them is felt by every message."
    elif routing.scheme is RoutingScheme.ADAPTIVE:
        said = f"A flow goes to the least loaded of {n} when it starts, and moves no more."
    else:
        said = (f"A table picks one of {n} by destination: flows to different hosts can meet on "
                "one link.")  # fmt: skip
    yield StatedEffect(f"routing: {routing.scheme.value}", where, said)


def _adapters(built: BuiltDesign, journey: PlaneJourney) -> Iterator[StatedEffect]:
    """Say how many GPUs share the adapter that a journey leaves by."""
    fabric = built.fabric
    if journey.kind not in GPU_KINDS:
        return
    nic = next((find_node(fabric, h.target) for h in journey.hops
                if "/nic" in h.target and not h.port), None)  # fmt: skip
    if nic is None:
        return
    into = fabric.link_src[fabric.link_dst == nic]
    sharing = int(np.count_nonzero(fabric.node_kind[into] == NodeKind.GPU))
    if sharing > 1:
        yield StatedEffect(
            "shared adapter",
            next(h.target for h in journey.hops if "/nic" in h.target),
            f"{sharing} GPUs share it: where all send at once, each has {1 / sharing:.0%} of it.",
        )


def _full_queues(built: BuiltDesign, journey: PlaneJourney) -> Iterator[StatedEffect]:
    """Say what a full queue does, by transport and class."""
    network = PlaneId[journey.network.upper()]
    transport, kind = transport_of(built, network), traffic_class(built, network)
    tcp = _tcp_on_rdma(built, journey)
    if transport is Transport.INFINIBAND:
        said = ("Credits run out and the sender before it waits: nothing is lost, and the wait can "
                "spread backwards to ways that do not use the full link.")  # fmt: skip
    elif kind.lossless and not tcp:
        said = ("PFC pauses the sender before it: nothing is lost, and the pause can spread "
                "backwards to ways that do not use the full link.")  # fmt: skip
    elif transport is Transport.ROCEV2 and not tcp:
        said = ("The switch drops, and RDMA sends again from the lost packet on, after a time-out "
                "where the last one was lost.")  # fmt: skip
    else:
        said = "The switch drops, and TCP sends again and slows down."
    passed = (h.target for h in journey.hops if h.switching_s and h.port)  # no scale-up switch
    switch = next(passed, journey.hops[0].source)
    yield StatedEffect("a full queue", switch, said)


def _single(built: BuiltDesign, journey: PlaneJourney) -> Iterator[StatedEffect]:
    """Name the switches that one of the ends hangs on alone."""
    fabric = built.fabric
    for hop in journey.hops:
        a, b = int(fabric.link_src[hop.link]), int(fabric.link_dst[hop.link])
        switch = {True: a, False: b}[bool(fabric.node_kind[a] == NodeKind.SWITCH)]
        end = b if switch == a else a
        if fabric.node_kind[switch] != NodeKind.SWITCH or fabric.node_kind[end] == NodeKind.SWITCH:
            continue
        near = _leaves(fabric, end, PlaneId[journey.network.upper()])
        if len(near) == 1:
            name = hop.source if switch == a else hop.target
            yield StatedEffect(
                "one way in",
                name,
                f"{hop.target if switch == a else hop.source} hangs on this switch alone: where "
                "the switch fails, it has no way into this plane.",
            )


def _leaves(fabric: Fabric, end: int, network: PlaneId) -> set[int]:
    """Return the switches that an end's ports lead to."""
    out = fabric.link_dst[
        (fabric.link_src == end) & (fabric.link_plane == network) & fabric.link_up
    ]
    return {int(node) for node in out if fabric.node_kind[node] == NodeKind.SWITCH}
