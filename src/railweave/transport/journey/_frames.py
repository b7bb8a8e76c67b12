"""The bytes of a journey's packets as they are seen on each hop, and where they can be seen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from railweave.design.models import Transport
from railweave.errors import InputError
from railweave.qos import CNP_DSCP
from railweave.transport.codec import Carrier, Envelope, LinkType, encode, encode_tcp
from railweave.transport.journey._tcp import TcpRun
from railweave.transport.packets import CNP_OPCODE

if TYPE_CHECKING:
    from railweave.transport.journey import PacketJourney

__all__ = [
    "JourneyFrame",
    "Viewpoint",
    "encoded_frames",
    "link_type",
    "port_viewpoints",
    "viewpoint",
]

F64 = npt.NDArray[np.float64]
_ECT0: Final = 0b10
_CE: Final = 0b11
#: DSCP that hosts give packets of each priority
_DSCP_OF_PRIORITY: Final = (0, 8, 16, 26, 32, 40, 48, 56)


@dataclass(frozen=True, slots=True)
class Viewpoint:
    """A port at which packets are seen: those that it sends, and those that come in.

    ``sends`` and ``receives`` are (direction, place of the hop); ``name`` is ``device:port``.
    """

    name: str
    sends: tuple[tuple[int, int], ...]
    receives: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class JourneyFrame:
    """A packet where it is seen.

    ``time_s`` is that of its first bit at the port; ``packet`` its number among all packets of the
    journey, ``direction`` and ``place`` its hop; ``sent`` whether the port sends it. Bytes are
    without preamble and FCS.
    """

    time_s: float
    port: str
    packet: int
    direction: int
    place: int
    sent: bool
    data: bytes


def link_type(journey: PacketJourney) -> LinkType:
    """Return the link type of a journey's frames."""
    infiniband = journey.transport is Transport.INFINIBAND
    return LinkType.INFINIBAND if infiniband else LinkType.ETHERNET


# ---------------------------------------------------------------- where


def port_viewpoints(journey: PacketJourney) -> tuple[Viewpoint, ...]:
    """Return every port on the ways, in the order in which packets pass them, both directions."""
    sends: dict[str, list[tuple[int, int]]] = {}
    receives: dict[str, list[tuple[int, int]]] = {}
    for direction, way in enumerate(journey.ways):
        for place in way.network:
            hop = way.hops[place]
            sends.setdefault(hop.port, []).append((direction, place))
            receives.setdefault(hop.port, [])
            sends.setdefault(hop.port_in, [])
            receives.setdefault(hop.port_in, []).append((direction, place))
    return tuple(Viewpoint(name, tuple(sends[name]), tuple(receives[name])) for name in sends)


def viewpoint(journey: PacketJourney, at: str = "") -> Viewpoint:
    """Return the port of a name, or the one by which an end of the journey is connected.

    Args:
        journey: whose ways.
        at: ``leaf-1:port-3``, or an end (``node001``, ``node001/gpu0``, ``node001/nic0``); ""
            stands for the sender.

    Raises:
        InputError: no packets to be seen, or none at this name; the ports that see some are given.
    """
    points = port_viewpoints(journey)
    if not points:
        raise InputError(
            "the bytes stay in a server or scale-up domain: no packet is to be seen; choose ends "
            "in different servers"
        )
    way = journey.ways[0]
    ends = way.hops[way.network[0]].port, way.hops[way.network[-1]].port_in
    if not at:
        return next(point for point in points if point.name == ends[0])
    wanted = at
    for name, port in ((journey.ends.source_name, ends[0]), (journey.ends.target_name, ends[1])):
        if at in (name, name.partition("/")[0], port.partition(":")[0]):
            wanted = port
    found = next((point for point in points if point.name == wanted), None)
    if found is None:
        raise InputError(
            f"no packet of this journey passes {at!r}; allowed: "
            + ", ".join(point.name for point in points)
        )
    return found


# ---------------------------------------------------------------- what


class _Encoder:
    """Encodes packets for hops; envelopes are made once a hop."""

    def __init__(self, journey: PacketJourney) -> None:
        self.journey = journey
        self._envelopes: dict[tuple[int, int, bool, bool, bool], Envelope] = {}

    def _envelope(
        self, direction: int, place: int, *, marked: bool, special: bool, capable: bool
    ) -> Envelope:
        key = direction, place, marked, special, capable
        if key not in self._envelopes:
            journey = self.journey
            way = journey.ways[direction]
            hop = way.hops[place]
            infiniband = journey.transport is Transport.INFINIBAND
            dscp = CNP_DSCP if special else _DSCP_OF_PRIORITY[journey.priority]
            self._envelopes[key] = Envelope(
                carrier=Carrier.INFINIBAND if infiniband else Carrier.ROCEV2,
                **(
                    {"source_lid": way.source_lid, "target_lid": way.target_lid}
                    if infiniband
                    else {
                        "source_mac": hop.source_mac,
                        "target_mac": hop.target_mac,
                        "source_ip": way.source_ip,
                        "target_ip": way.target_ip,
                        "ttl": hop.ttl,
                    }
                ),
                dscp=dscp,
                ecn=_CE if marked else _ECT0 if capable else 0,
                source_port=way.source_port,
            )
        return self._envelopes[key]

    def frame(self, number: int, place: int) -> bytes:
        """Return packet ``number`` as it is on the link of a hop."""
        journey = self.journey
        times = journey.times
        direction, at = int(times.direction[number]), int(times.marked_at[number])
        marked = 0 <= at <= place
        if isinstance(journey.run, TcpRun):
            return self._segment(journey.run, number, place, marked=marked)
        packet = journey.packets[number]
        notification = packet.bth.opcode == CNP_OPCODE
        envelope = self._envelope(
            direction,
            place,
            marked=marked and journey.transport is not Transport.INFINIBAND,
            special=notification,
            capable=not notification and journey.marks,
        )
        if marked and journey.transport is Transport.INFINIBAND:
            packet = replace(packet, bth=replace(packet.bth, fecn=True))
        return encode(packet, envelope)

    def _segment(self, run: TcpRun, number: int, place: int, *, marked: bool) -> bytes:
        segment = run.segments[number]
        journey = self.journey
        envelope = self._envelope(
            segment.direction,
            place,
            marked=marked,
            special=False,
            capable=journey.marks and segment.payload_bytes > 0,
        )
        begin, size = segment.offset, segment.payload_bytes
        stamp = int(segment.passage.enter_s[0] * 1e3)
        return encode_tcp(
            journey.content(segment.direction)[begin : begin + size],
            envelope,
            target_port=journey.ways[segment.direction].target_port,
            sequence=segment.sequence & 0xFFFFFFFF,
            acknowledgment=segment.acknowledgment & 0xFFFFFFFF,
            flags=segment.flags,
            timestamps=(stamp, stamp),
            options=segment.options(journey.case.mtu_bytes or 0),
        )


def encoded_frames(journey: PacketJourney, points: tuple[Viewpoint, ...]) -> Iterator[JourneyFrame]:
    """Yield the frames seen at these ports, by time; those of one time in the order of sending."""
    times = journey.times
    columns: list[tuple[F64, int, int, int, bool]] = []
    for number, point in enumerate(points):
        for sent, hops in ((True, point.sends), (False, point.receives)):
            for direction, place in hops:
                delay = 0.0 if sent else journey.ways[direction].hops[place].propagation_s
                there = np.flatnonzero(times.direction == direction)
                at = times.start_s[there, place] + delay
                seen = ~np.isnan(at)
                if not sent:
                    seen &= times.lost_at[there] != place
                columns.append((np.stack((at[seen], there[seen])), number, direction, place, sent))
    if not columns:
        return
    at = np.concatenate([column[0][0] for column in columns])
    packet = np.concatenate([column[0][1] for column in columns]).astype(np.int64)
    which = np.repeat(np.arange(len(columns)), [column[0].shape[1] for column in columns])
    encoder = _Encoder(journey)
    for k in np.lexsort((which, packet, at)).tolist():
        _, number, direction, place, sent = columns[which[k]]
        one = int(packet[k])
        data = encoder.frame(one, place)
        yield JourneyFrame(
            float(at[k]), points[number].name, one, direction, place, sent=sent, data=data
        )
