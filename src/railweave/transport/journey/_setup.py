"""What a journey needs of a design's plane: routing, settings, framing, marks, where it is lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from railweave.design._meaning_network import CONGESTION_OF
from railweave.design.models import Transport
from railweave.errors import InputError
from railweave.fabric import PlaneId
from railweave.fabric.names import find_node
from railweave.fabric.wire import Framing
from railweave.transport.journey._clock import WayClock
from railweave.transport.journey._ends import Ends, find_ends
from railweave.transport.journey._hops import JourneyWay
from railweave.transport.journey._path import Ways, find_ways
from railweave.transport.journey._wire import Congestion, Feedback
from railweave.units import format_bytes

if TYPE_CHECKING:
    from railweave.api import BuiltDesign
    from railweave.engine.packet_settings import PacketSettings
    from railweave.fabric.routing import Routing
    from railweave.qos import NicQos

__all__ = ["PlaneSetup", "congestion_at", "hop_named", "make_clocks", "plane_setup"]

#: IPv6 header less IPv4's
_IPV6_MORE: Final = 20


@dataclass(frozen=True, eq=False)
class PlaneSetup:
    """One plane as a journey meets it.

    ``framing`` is the plane's, whose MTU is the most that a packet may carry; ``extra_bytes`` are
    what IPv6 adds to each packet.
    """

    plane: PlaneId
    routing: Routing
    settings: PacketSettings
    nic: NicQos
    framing: Framing
    extra_bytes: int
    ends: Ends
    ways: Ways

    @property
    def transport(self) -> Transport:
        """What carries the plane's traffic."""
        return self.routing.transport

    @property
    def overhead_bytes(self) -> int:
        """What the transport and all below it add to each packet, preamble and gap included."""
        return self.framing.overhead_bytes + self.extra_bytes

    @property
    def marks(self) -> bool:
        """Whether senders declare their packets capable of ECN: the plane's scheme uses marks."""
        carrier = self.settings.qos.get(self.routing.plane)
        return carrier is not None and carrier.scheme.marks

    @property
    def feedback(self) -> Feedback:
        """How receivers tell of marks."""
        if not self.nic.sends_cnp or self.transport is Transport.TCP:
            return Feedback.NONE
        infiniband = self.transport is Transport.INFINIBAND
        return Feedback.BECN if infiniband else Feedback.CNP


def plane_setup(
    built: BuiltDesign,
    plane: PlaneId,
    names: tuple[str, str],
    *,
    ip_version: int = 4,
    queue_pair: int = 0,
    seed: int | None = None,
) -> PlaneSetup:
    """Read a plane of a design and find the ways between two of its ends.

    Args:
        built: the design.
        plane: whose network, or whose share of another's.
        names: of both ends.
        ip_version: 4 or 6; InfiniBand knows only its LIDs.
        queue_pair: which of the connection's.
        seed: of hashes and queue pair numbers; None takes the design's.

    Raises:
        InputError: no such plane, end or queue pair, no way, or IPv6 on InfiniBand.
    """
    routings = built.routing(seed=seed)
    if plane not in routings.planes:
        known = ", ".join(p.name.lower() for p in routings.planes)
        raise InputError(
            f"the design has no {plane.name.lower()} plane; it has: {known}; choose one of these"
        )
    routing = routings.planes[plane]
    if ip_version not in (4, 6):
        raise InputError(f"IP version {ip_version}; allowed: 4 or 6")
    infiniband = routing.transport is Transport.INFINIBAND
    if ip_version == 6 and infiniband:
        raise InputError(
            f"the {plane.name.lower()} plane is InfiniBand: its packets have LIDs and no IP "
            "header; leave the IP version out"
        )
    settings = built.packet_settings()
    ends = find_ends(built.fabric, *names)
    ways = find_ways(routing, settings, plane, ends, queue_pair=queue_pair, ip_version=ip_version)
    way = ways.forward
    link = way.hops[way.network[0] if way.network else 0].link
    carrier = settings.qos[routing.plane]
    nic = carrier.nic(
        float(built.fabric.link_capacity_bps[link]), float(built.fabric.link_length_m[link])
    )
    return PlaneSetup(
        plane,
        routing,
        settings,
        nic,
        routings.framings.get(plane, routing.frame),
        _IPV6_MORE if ip_version == 6 else 0,
        ends,
        ways,
    )


# ---------------------------------------------------------------- hops by name


def hop_named(
    ways: Sequence[JourneyWay], name: str, directions: Sequence[int], what: str
) -> tuple[int, int]:
    """Return direction and place of the hop by which packets leave a switch's port.

    Args:
        ways: there and back.
        name: ``leaf-1:port-41``, or a device for the port by which packets leave it.
        directions: those looked at, in this order.
        what: is done there, for the message.

    Raises:
        InputError: packets leave by no such port; those by which they do are given.
    """
    known: list[str] = []
    for direction in directions:
        way = ways[direction]
        for place in way.network:
            hop = way.hops[place]
            if name in (hop.port, hop.source):
                return direction, place
            known.append(hop.port)
    raise InputError(f"{what} {name!r}: no packet leaves by it; allowed: {', '.join(known)}")


def congestion_at(
    setup: PlaneSetup, built: BuiltDesign, name: str, queue_bytes: float | None, data: int
) -> Congestion:
    """Return the queue that stands at a port of a way.

    Args:
        setup: the plane.
        built: the design, for the switch.
        name: of the hop.
        queue_bytes: what stands there; None is one byte above Kmax, where every packet is marked.
        data: direction of the data.

    Raises:
        InputError: no such hop, not a switch's, or a plane whose switches do not mark.
    """
    ways = (setup.ways.forward, setup.ways.back)
    direction, place = hop_named(ways, name, (data, 1 - data), "congested hop")
    way = ways[direction]
    hop = way.hops[place]
    if place == way.network[0]:
        raise InputError(
            f"congested hop {name!r} is the sender's own port, and adapters mark nothing; allowed: "
            + ", ".join(way.hops[k].port for k in way.network[1:])
        )
    qos = setup.settings.switch(built.fabric, find_node(built.fabric, hop.source))
    thresholds = qos.ecn(qos.priority_map[setup.nic.data_priority], hop.rate_bps)
    if thresholds is None:
        scheme = setup.settings.qos[setup.routing.plane].scheme.value
        marking = ", ".join(s.value for s in CONGESTION_OF[setup.transport] if s.marks)
        raise InputError(
            f"congested hop {name!r}: the switches of the {setup.plane.name.lower()} plane mark "
            f"nothing under the scheme {scheme!r}; schemes that mark on {setup.transport.value}: "
            f"{marking} (planes: congestion: scheme)"
        )
    if queue_bytes is None:
        queue_bytes = thresholds.kmax_bytes + 1
    if not 0 <= queue_bytes <= qos.buffer_bytes:
        raise InputError(
            f"a queue of {format_bytes(queue_bytes)} at {hop.port}: allowed: from 0 to the "
            f"switch's buffer of {format_bytes(qos.buffer_bytes)}"
        )
    return Congestion(direction, place, hop.port, queue_bytes, thresholds)


def make_clocks(
    setup: PlaneSetup, built: BuiltDesign, congestion: Congestion | None
) -> tuple[WayClock, WayClock]:
    """Return the clocks of both ways."""
    made = []
    for direction, way in enumerate((setup.ways.forward, setup.ways.back)):
        here = congestion is not None and congestion.direction == direction
        queue = {congestion.place: congestion.queue_bytes} if here and congestion else {}
        made.append(WayClock(way, built.fabric, queue))
    return made[0], made[1]
