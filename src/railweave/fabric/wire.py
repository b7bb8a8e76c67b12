"""Bytes on the wire: what a payload costs once it is cut into packets, encrypted and framed.

Every engine and every capacity figure uses these counts, so that they can be compared.

Encryption adds, with the 16-byte tags of AES-GCM:

- MACsec (IEEE 802.1AE): a SecTAG of 16 bytes (with SCI; 8 without it) and the ICV;
- IPsec (RFC 4303, RFC 4106): ESP in transport mode, as between hosts: SPI, sequence number, IV,
  padding to 4 bytes with its length and the next header, ICV. Tunnel mode would add an IPv4 header
  (20), encapsulation in UDP 8 more;
- PSP (the published architecture specification, transport mode): UDP, the PSP header of 16 bytes
  that holds the IV, ICV;
- TLS 1.3 (RFC 8446): per record of 2^14 bytes, not per packet: header 5, content type 1, tag.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from railweave.design.models import Planes, Transport
from railweave.fabric._arrays import PlaneId

__all__ = [
    "DEFAULT_MTU_BYTES",
    "SHORTEST_FRAME_BYTES",
    "Framing",
    "encryption_bytes",
    "encryption_on",
    "framing",
    "least_wire_bytes",
    "payload_efficiency",
    "wire_bytes",
]

F64 = npt.NDArray[np.float64]

_ETHERNET = {"preamble": 8, "ethernet header": 14, "FCS": 4, "inter-packet gap": 12}
#: the shortest Ethernet frame with preamble and gap: 46 bytes between its header and its FCS
SHORTEST_FRAME_BYTES: Final = sum(_ETHERNET.values()) + 46
_PARTS: dict[Transport, dict[str, int]] = {
    Transport.ROCEV2: {**_ETHERNET, "IPv4": 20, "UDP": 8, "BTH": 12, "ICRC": 4},
    Transport.INFINIBAND: {"LRH": 8, "BTH": 12, "ICRC": 4, "VCRC": 2},
    Transport.TCP: {**_ETHERNET, "IPv4": 20, "TCP": 20, "TCP timestamps": 12},
}
_AES_GCM_TAG: Final = 16
_MACSEC: Final = {"MACsec SecTAG": 16, "MACsec ICV": _AES_GCM_TAG}
_ESP: Final = {"ESP SPI": 4, "ESP sequence": 4, "ESP IV": 8, "ESP ICV": _AES_GCM_TAG}
_PSP: Final = {"PSP UDP": 8, "PSP header": 16, "PSP ICV": _AES_GCM_TAG}
_TLS_RECORD: Final = 2**14
_TLS_OVERHEAD: Final = 5 + 1 + _AES_GCM_TAG
_ABOVE_IP: Final = ("UDP", "BTH", "ICRC", "TCP", "TCP timestamps")  #: what ESP protects
#: payload of the largest packet: verbs path MTU, or a 9,000-byte IP packet less its headers
DEFAULT_MTU_BYTES: dict[Transport, int] = {
    Transport.ROCEV2: 4096,
    Transport.INFINIBAND: 4096,
    Transport.TCP: 9000 - 52,
}


@dataclass(frozen=True, slots=True)
class Framing:
    """Payload of a full packet and the bytes that each packet adds on the wire.

    Where messages are cut into records first (TLS), each record of up to ``record_bytes`` adds
    ``record_overhead_bytes`` to what is cut into packets; 0 where not.
    """

    transport: Transport
    mtu_bytes: int
    overhead_bytes: int
    parts: tuple[tuple[str, int], ...]
    record_bytes: int = 0
    record_overhead_bytes: int = 0


def framing(
    transport: Transport, mtu_bytes: int | None = None, encryption: Collection[str] = ()
) -> Framing:
    """Return the framing of a transport.

    Args:
        transport: decides the headers.
        mtu_bytes: largest payload of a packet; None takes the transport's default. Encryption
            does not lessen it: the packet grows.
        encryption: what encrypts the traffic: ``macsec``, ``ipsec``, ``psp``, ``tls`` or several.
    """
    mtu = mtu_bytes or DEFAULT_MTU_BYTES[transport]
    parts = dict(_PARTS[transport])
    if "ipsec" in encryption:
        inner = mtu + sum(parts.get(name, 0) for name in _ABOVE_IP)
        parts |= {**_ESP, "ESP trailer": 2 + -(inner + 2) % 4}
    if "psp" in encryption:
        parts |= _PSP
    if "macsec" in encryption:
        parts |= _MACSEC
    record = (_TLS_RECORD, _TLS_OVERHEAD) if "tls" in encryption else (0, 0)
    return Framing(transport, mtu, sum(parts.values()), tuple(parts.items()), *record)


def encryption_on(
    planes: Planes, network: Mapping[PlaneId, PlaneId], plane: PlaneId
) -> tuple[str, ...]:
    """Return what encrypts the packets of a plane.

    MACsec encrypts links, so where one plane of a network has it, all on that network do; the
    other kinds encrypt between the ends, each plane its own.

    Args:
        planes: as the design states them.
        network: the plane whose network each plane uses.
        plane: whose packets.
    """
    stated: dict[PlaneId, str] = {p: getattr(planes, p.name.lower()).encryption for p in network}
    beside = [stated[other] for other, carrier in network.items() if carrier == network[plane]]
    links = ("macsec",) if "macsec" in beside else ()
    return links if stated[plane] in ("none", "macsec") else (*links, stated[plane])


def encryption_bytes(frame: Framing) -> str:
    """Say in words what encryption adds to a framing: ``36 B a packet``; empty where nothing."""
    packet = frame.overhead_bytes - sum(_PARTS[frame.transport].values())
    record = f"{frame.record_overhead_bytes} B a record of {frame.record_bytes:,} B"
    said = [f"{packet} B a packet"] * bool(packet) + [record] * bool(frame.record_bytes)
    return " and ".join(said)


def wire_bytes(payload_bytes: F64 | float, frame: Framing) -> F64:
    """Return wire bytes of messages: payload plus overhead for each of ceil(payload/MTU) packets.

    A message of 0 bytes is still one packet (and one record).
    """
    payload = np.asarray(payload_bytes, dtype=np.float64)
    if frame.record_bytes:
        records = np.maximum(1.0, np.ceil(payload / frame.record_bytes))
        payload = payload + records * frame.record_overhead_bytes
    packets = np.maximum(1.0, np.ceil(payload / frame.mtu_bytes))
    wire: F64 = payload + packets * frame.overhead_bytes
    return wire


def least_wire_bytes(frame: Framing) -> int:
    """Return what the shortest packet takes on the wire; 0 where the link sets no least size."""
    return SHORTEST_FRAME_BYTES if "ethernet header" in dict(frame.parts) else 0


def payload_efficiency(frame: Framing) -> float:
    """Return payload / wire bytes of full packets and records: effective = nominal × this."""
    packet = frame.mtu_bytes / (frame.mtu_bytes + frame.overhead_bytes)
    if not frame.record_bytes:
        return packet
    return packet * frame.record_bytes / (frame.record_bytes + frame.record_overhead_bytes)
