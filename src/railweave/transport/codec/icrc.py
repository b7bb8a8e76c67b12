"""The checks that packets carry: ICRC, VCRC, Ethernet's FCS, and the Internet checksum.

- ICRC (InfiniBand volume 1, 7.8.1; annexes A16, A17): the CRC-32 of Ethernet over the packet from
  its network header to the last byte of padding, with every field that the network may change set
  to ones. Where the local route header is absent (RoCE) or may be rewritten (with a GRH), eight
  bytes of ones stand for it. The least significant byte goes first.
- VCRC (7.8.2): CRC-16 with polynomial 0x100B over everything from the LRH to the ICRC as it is.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final
from zlib import crc32

import numpy as np
import numpy.typing as npt

from railweave.transport.codec.headers import HEADERS

__all__ = ["fcs", "icrc", "internet_checksum", "mask", "vcrc"]

U16 = npt.NDArray[np.uint16]

_NO_LRH: Final = b"\xff" * 8
_POLYNOMIAL: Final = 0xD008  #: 0x100B with its bits in the order in which they are sent
_ROWS: Final = 1024  #: the table of the VCRC grows by so many rows


def mask(header: str, data: bytes) -> bytes:
    """Return a header's bytes as the ICRC counts them: what the network may change is ones."""
    return HEADERS[header].masked(data)


def icrc(headers: bytes, rest: bytes, *, local: bool = False) -> bytes:
    """Return the four bytes of the ICRC as they are sent.

    Args:
        headers: from the network header to the end of the BTH, masked with :func:`mask`. With
            ``local`` they begin with the LRH; without it they begin after it (IP, or GRH).
        rest: from the end of the BTH to the last byte of padding.
        local: an InfiniBand packet without GRH, whose LRH counts (but for its VL).
    """
    start = crc32(headers) if local else crc32(headers, crc32(_NO_LRH))
    return crc32(rest, start).to_bytes(4, "little")


def fcs(frame: bytes) -> bytes:
    """Return Ethernet's frame check sequence of a frame, as it is sent."""
    return crc32(frame).to_bytes(4, "little")


@lru_cache(maxsize=32)
def _distance_table(rows: int) -> U16:
    """Return what each byte value adds to a CRC-16, by how many bytes follow it: (rows, 256)."""
    byte = np.arange(256, dtype=np.uint16)
    for _ in range(8):
        byte = np.where(byte & 1, byte >> 1 ^ _POLYNOMIAL, byte >> 1).astype(np.uint16)
    table = np.empty((rows, 256), dtype=np.uint16)
    table[0] = byte
    for row in range(1, rows):
        table[row] = table[row - 1] >> 8 ^ byte[table[row - 1] & 0xFF]
    table.flags.writeable = False
    return table


def vcrc(packet: bytes) -> bytes:
    """Return the two bytes of the VCRC of a packet (LRH to ICRC), as they are sent.

    A CRC is linear: it is the sum without carry of what each byte adds, so one table look-up of
    all bytes at once serves.
    """
    if len(packet) < 2:
        raise ValueError("a VCRC needs at least two bytes")
    data = np.frombuffer(packet, dtype=np.uint8).copy()
    data[:2] ^= 0xFF  # the register starts with ones
    table = _distance_table(-(-len(data) // _ROWS) * _ROWS)
    after = np.arange(len(data) - 1, -1, -1)
    remainder = int(np.bitwise_xor.reduce(table[after, data]))
    return (remainder ^ 0xFFFF).to_bytes(2, "little")


def internet_checksum(data: bytes) -> int:
    """Return the checksum of RFC 1071: the ones' complement of the ones' complement sum.

    16-bit words add up modulo 65,535, which is what the whole as one number leaves.
    """
    number = int.from_bytes(data + b"\x00" if len(data) & 1 else data, "big")
    total = number % 0xFFFF
    return 0 if total == 0 and number else 0xFFFF - total
