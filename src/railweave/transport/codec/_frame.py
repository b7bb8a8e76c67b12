"""What encoder and decoder share: the envelope of a packet and the parts of a decoded frame."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from railweave.transport.packets import IbPacket

__all__ = [
    "ROCEV2_PORT",
    "Carrier",
    "Envelope",
    "FieldView",
    "Frame",
    "Icrc",
    "Layer",
]

#: UDP destination port of RoCEv2
ROCEV2_PORT: Final = 4791


class Carrier(StrEnum):
    """What carries the packets of the InfiniBand transport."""

    ROCEV2 = "rocev2"
    ROCEV1 = "rocev1"
    INFINIBAND = "infiniband"


@dataclass(frozen=True, slots=True)
class Envelope:
    """Everything below the transport.

    ``source_ip`` and ``target_ip`` are both IPv4 or both IPv6; with RoCEv1 and a GRH they are the
    GIDs (an IPv4 address stands for its mapped GID ``::ffff:a.b.c.d``). What a carrier does not
    have is ignored by the encoder and left at its default by the decoder. ``dont_fragment`` is
    IPv4's DF flag.

    ``udp_checksum`` None does as is usual: zero over IPv4, as annex A17 wants it; computed over
    IPv6, which forbids zero (RFC 8200), though adapters send zero there too. Receivers ignore it.
    """

    carrier: Carrier = Carrier.ROCEV2
    source_mac: str = "02:00:00:00:00:01"
    target_mac: str = "02:00:00:00:00:02"
    vlan: int | None = None
    vlan_priority: int = 0
    source_ip: str = "10.0.0.1"
    target_ip: str = "10.0.0.2"
    dscp: int = 26
    ecn: int = 0b10
    ttl: int = 64
    identification: int = 0
    dont_fragment: bool = True
    flow_label: int = 0
    source_port: int = 49152
    udp_checksum: bool | None = None
    source_lid: int = 1
    target_lid: int = 2
    service_level: int = 0
    virtual_lane: int = 0
    global_route: bool = False


@dataclass(frozen=True, slots=True)
class FieldView:
    """One field of a decoded frame.

    ``text`` is the value as shown, ``meaning`` what the field is for. ``first_bit`` counts from
    the first bit of the frame. ``masked``: it counts as ones in the ICRC.
    """

    name: str
    value: int | bytes
    text: str
    meaning: str
    first_bit: int
    bits: int
    masked: bool = False


@dataclass(frozen=True, slots=True)
class Layer:
    """One header, payload or trailer of a frame: bytes ``start`` to ``end`` and its fields."""

    name: str
    start: int
    end: int
    fields: tuple[FieldView, ...]


@dataclass(frozen=True, slots=True)
class Icrc:
    """The ICRC that a packet should have and the one it has, as four bytes read big-endian."""

    expected: int
    found: int

    @property
    def ok(self) -> bool:
        """Whether they agree."""
        return self.expected == self.found


@dataclass(frozen=True, slots=True)
class Frame:
    """A decoded frame.

    ``envelope`` and ``packet`` are None where the frame carries none, or not enough of one.
    ``packet`` of a frame that was cut off holds the payload that is there. ``icrc`` is None where
    it cannot be checked. ``problems`` are sentences, empty for a frame as it should be.
    """

    data: bytes
    envelope: Envelope | None
    packet: IbPacket | None
    layers: tuple[Layer, ...]
    icrc: Icrc | None
    problems: tuple[str, ...]
