"""Frames as scapy packets, for those who work with scapy (``railweave[packets]``).

scapy brings Ethernet, IP, UDP, GRH and BTH with a computed ICRC, but not RETH, AtomicETH, DETH,
ImmDt and the like, nor an LRH. Those are made here from the table of
:mod:`railweave.transport.codec.headers`, so the two cannot disagree. Nothing in scapy is changed
beyond what importing its RoCE layers does.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import import_module
from typing import Any

from railweave.errors import InputError, MissingProgramError
from railweave.formats.pcap import LinkType
from railweave.transport.codec.headers import HEADERS, Shown, extended_headers

__all__ = ["field_name", "layer", "to_scapy"]

_ICRC_BYTES = 4


def _scapy(module: str) -> Any:  # noqa: ANN401 - scapy has no types
    try:
        return import_module(f"scapy.{module}")
    except ImportError:
        raise MissingProgramError(
            "packets as scapy objects need scapy; install it with pip install 'railweave[packets]'"
        ) from None


def field_name(name: str) -> str:
    """Return what a field of the table is called in the scapy layer: ``R_Key`` is ``r_key``."""
    return re.sub(r"\W+", "_", name).lower()


@lru_cache(maxsize=64)
def layer(name: str) -> Any:  # noqa: ANN401
    """Return the scapy layer class of a header in the table, such as ``RETH``.

    What follows it is chosen by the opcode of the BTH before it, as on the wire.

    Raises:
        InputError: no such header.
        MissingProgramError: scapy is not installed.
    """
    if name not in HEADERS:
        raise InputError(f"no header {name!r}; allowed: {', '.join(HEADERS)}")
    fields = _scapy("fields")
    kinds = {Shown.HEX: fields.XBitField, Shown.FLAG: fields.BitField}
    described = [
        kinds.get(spec.shown, fields.BitField)(field_name(spec.name), 0, spec.bits)
        for spec in HEADERS[name].fields
    ]

    def guess(self: Any, payload: bytes) -> Any:  # noqa: ANN401
        return _next(self, name)

    made = {"name": name, "fields_desc": described, "guess_payload_class": guess}
    return type(_scapy("packet").Packet)(name, (_scapy("packet").Packet,), made)


def _next(packet: Any, name: str) -> Any:  # noqa: ANN401
    """Return the class of what follows a header of the table, by the BTH before it."""
    bth = packet.underlayer
    while bth is not None and not hasattr(bth, "opcode"):
        bth = bth.underlayer
    names = (extended_headers(bth.opcode) or ()) if bth is not None else ()
    after = names[names.index(name) + 1 :] if name in names else ()
    return layer(after[0]) if after else _scapy("packet").Raw


def _extend(bth: Any) -> None:  # noqa: ANN401
    """Put the layers of the table behind a BTH in place of what scapy guessed."""
    names = extended_headers(bth.opcode)
    fill = bth.getlayer(_scapy("packet").Padding)
    behind = bytes(fill) if fill is not None else b""
    rest = bytes(bth.payload)
    rest = rest[: len(rest) - len(behind)]
    if not names or len(rest) < HEADERS[names[0]].size_bytes:
        return
    bth.remove_payload()
    bth.add_payload(layer(names[0])(rest, _underlayer=bth))
    if behind:
        bth.lastlayer().add_payload(_scapy("packet").Padding(behind))


def to_scapy(frame: bytes, *, link: int = LinkType.ETHERNET) -> Any:  # noqa: ANN401
    """Return a frame as a scapy packet, dissected by scapy with the layers that it lacks.

    The fields of added layers are called as :func:`field_name` says. A frame that holds no RDMA
    is what scapy makes of it. The VCRC of InfiniBand is scapy's ``Padding``.

    Args:
        frame: without FCS.
        link: Ethernet or InfiniBand.

    Raises:
        InputError: another link type.
        MissingProgramError: scapy is not installed.
    """
    roce, ether = _scapy("contrib.roce"), _scapy("layers.l2").Ether
    if link == LinkType.ETHERNET:
        packet = ether(frame)
    elif link == LinkType.INFINIBAND:
        packet = _infiniband(frame, roce)
    else:
        raise InputError(f"link type {link}; allowed: 1 (Ethernet) and 247 (InfiniBand)")
    if roce.BTH in packet:
        _extend(packet[roce.BTH])
    return packet


def _infiniband(frame: bytes, roce: Any) -> Any:  # noqa: ANN401
    raw = _scapy("packet")
    lrh = HEADERS["LRH"]
    if len(frame) < lrh.size_bytes:
        return raw.Raw(frame)
    packet, at = layer("LRH")(frame[: lrh.size_bytes]), lrh.size_bytes
    end = min(len(frame), 4 * packet.pktlen)
    if packet.lnh == 3 and end - at >= HEADERS["GRH"].size_bytes:
        packet /= roce.GRH(frame[at : at + HEADERS["GRH"].size_bytes])
        at += HEADERS["GRH"].size_bytes
    if packet.lnh in (2, 3) and end - at >= HEADERS["BTH"].size_bytes + _ICRC_BYTES:
        packet /= roce.BTH(frame[at:end])
        at = end
    rest = frame[at:]
    return packet / raw.Padding(rest) if rest else packet
