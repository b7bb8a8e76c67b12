"""Reading pcap, the format of one interface: 24 bytes, then 16 bytes before each packet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Final

import numpy as np

from railweave.formats._pcap_source import Source
from railweave.formats._pcap_types import (
    MOST_CHUNK_PACKETS,
    MOST_PACKET_BYTES,
    MOST_TIME_NS,
    Interface,
    PacketChunk,
)

__all__ = ["CLASSIC_MAGICS", "HEADER_BYTES", "ClassicHeader", "classic_chunks", "classic_header"]

HEADER_BYTES: Final = 24
_PIECE: Final = 12 << 20
_NANO: Final = 1_000_000_000
#: magic number → ticks a second, bytes before each packet (Kuznetzov's have eight more)
CLASSIC_MAGICS: Final = {
    0xA1B2C3D4: (1_000_000, 16),
    0xA1B23C4D: (_NANO, 16),
    0xA1B2CD34: (1_000_000, 24),
}


@dataclass(frozen=True, slots=True)
class ClassicHeader:
    """What the first 24 bytes say."""

    order: str
    record_bytes: int
    interface: Interface


def classic_header(head: bytes) -> ClassicHeader | None:
    """Return what the start of a file says, None where it is no pcap file."""
    for order in "<>":
        magic = Struct(order + "I").unpack(head[:4])[0] if len(head) >= 4 else 0
        if magic in CLASSIC_MAGICS and len(head) >= HEADER_BYTES:
            ticks, record_bytes = CLASSIC_MAGICS[magic]
            snap_length, link = Struct(order + "II").unpack(head[16:24])
            known_fcs = link >> 26 & 1
            return ClassicHeader(
                order,
                record_bytes,
                Interface(
                    link_type=link & 0xFFFF,
                    snap_length=snap_length if snap_length < MOST_PACKET_BYTES else 0,
                    ticks_per_second=ticks,
                    fcs_bytes=(link >> 28) * 2 if known_fcs else None,
                ),
            )
    return None


def classic_chunks(
    source: Source, header: ClassicHeader, notes: list[str]
) -> Iterator[PacketChunk]:
    """Yield the packets behind the header; ``notes`` gets a sentence where it is damaged."""
    before = header.record_bytes
    captured_at = Struct(header.order + "I").unpack_from
    buffer, size, at, first, damaged = memoryview(b""), 0, 0, 0, False
    used_up, ended = True, False
    while not damaged:
        if used_up:
            left = size - at
            buffer, size = source.after(buffer[at:size], _PIECE)
            at, ended = 0, size == left
        found: list[int] = []
        while at + before <= size and len(found) < MOST_CHUNK_PACKETS:
            captured = captured_at(buffer, at + 8)[0]
            if captured > MOST_PACKET_BYTES:
                notes.append(
                    f"packet {first + len(found) + 1:,} says that it is {captured:,} bytes long; "
                    f"allowed: up to {MOST_PACKET_BYTES:,}. The file is damaged there and is not "
                    "read on"
                )
                damaged = True
                break
            stop = at + before + captured
            if stop > size:
                break
            found.append(at)
            at = stop
        used_up = len(found) < MOST_CHUNK_PACKETS
        if found:
            yield _columns(buffer, np.array(found, np.int64), header, first)
            first += len(found)
        if ended and used_up:
            if source.fault:
                notes.append(f"after packet {first:,} {source.fault}")
            elif at < size and not damaged:
                notes.append(
                    f"the file ends in the middle of packet {first + 1:,}: it was cut off there, "
                    "or is still being written"
                )
            return


def _columns(
    buffer: memoryview, starts: np.ndarray[tuple[int], np.dtype[np.int64]], header: ClassicHeader,
    first: int,
) -> PacketChunk:  # fmt: skip
    data = np.frombuffer(buffer, np.uint8)
    heads = data[starts[:, None] + np.arange(16)].view(header.order + "u4").astype(np.int64)
    ticks = heads[:, 1] if header.interface.ticks_per_second == _NANO else heads[:, 1] * 1000
    n = len(starts)
    return PacketChunk(
        first=first,
        buffer=buffer,
        starts=starts + header.record_bytes,
        lengths=heads[:, 2],
        originals=heads[:, 3],
        times_ns=np.minimum(heads[:, 0] * _NANO + ticks, MOST_TIME_NS),
        interfaces=np.zeros(n, np.int64),
        link_types=np.full(n, header.interface.link_type, np.int64),
        comments={},
    )
