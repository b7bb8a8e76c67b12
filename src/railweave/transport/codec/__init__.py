"""Packets to bytes and back: RoCEv2, RoCEv1, InfiniBand framing, and TCP to compare with.

:func:`encode` writes what stands on the wire, :func:`decode` explains the bytes of one frame: its
layers with byte and bit ranges, its packet, whether the ICRC is right, and what is wrong. Both
follow the one table of :mod:`railweave.transport.codec.headers`.
"""

from __future__ import annotations

from railweave.formats.pcap import LinkType
from railweave.transport.codec._decode import decode
from railweave.transport.codec._encode import cnp, encode, encode_tcp, erf_record
from railweave.transport.codec._frame import (
    ROCEV2_PORT,
    Carrier,
    Envelope,
    FieldView,
    Frame,
    Icrc,
    Layer,
)

__all__ = [
    "ROCEV2_PORT",
    "Carrier",
    "Envelope",
    "FieldView",
    "Frame",
    "Icrc",
    "Layer",
    "LinkType",
    "cnp",
    "decode",
    "encode",
    "encode_tcp",
    "erf_record",
]
