"""Bytes on the wire: what a payload costs once it is cut into packets and framed.

Every engine and every capacity figure uses these counts, so that they can be compared.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from railweave.design.models import Transport

__all__ = ["DEFAULT_MTU_BYTES", "Framing", "framing", "payload_efficiency", "wire_bytes"]

F64 = npt.NDArray[np.float64]

_ETHERNET = {"preamble": 8, "ethernet header": 14, "FCS": 4, "inter-packet gap": 12}
_PARTS: dict[Transport, dict[str, int]] = {
    Transport.ROCEV2: {**_ETHERNET, "IPv4": 20, "UDP": 8, "BTH": 12, "ICRC": 4},
    Transport.INFINIBAND: {"LRH": 8, "BTH": 12, "ICRC": 4, "VCRC": 2},
    Transport.TCP: {**_ETHERNET, "IPv4": 20, "TCP": 20, "TCP timestamps": 12},
}
#: payload of the largest packet: verbs path MTU, or a 9,000-byte IP packet less its headers
DEFAULT_MTU_BYTES: dict[Transport, int] = {
    Transport.ROCEV2: 4096,
    Transport.INFINIBAND: 4096,
    Transport.TCP: 9000 - 52,
}


@dataclass(frozen=True, slots=True)
class Framing:
    """Payload of a full packet and the bytes that each packet adds on the wire."""

    transport: Transport
    mtu_bytes: int
    overhead_bytes: int
    parts: tuple[tuple[str, int], ...]


def framing(transport: Transport, mtu_bytes: int | None = None) -> Framing:
    """Return the framing of a transport; ``mtu_bytes`` None takes its default payload."""
    parts = _PARTS[transport]
    return Framing(
        transport,
        mtu_bytes or DEFAULT_MTU_BYTES[transport],
        sum(parts.values()),
        tuple(parts.items()),
    )


def wire_bytes(payload_bytes: F64 | float, frame: Framing) -> F64:
    """Return wire bytes of messages: payload plus overhead for each of ceil(payload/MTU) packets.

    A message of 0 bytes is still one packet.
    """
    payload = np.asarray(payload_bytes, dtype=np.float64)
    packets = np.maximum(1.0, np.ceil(payload / frame.mtu_bytes))
    wire: F64 = payload + packets * frame.overhead_bytes
    return wire


def payload_efficiency(frame: Framing) -> float:
    """Return payload / wire bytes of full packets: effective = nominal × this."""
    return frame.mtu_bytes / (frame.mtu_bytes + frame.overhead_bytes)
