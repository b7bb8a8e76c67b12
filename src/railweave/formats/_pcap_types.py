"""What a capture consists of, and the limits of what is read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "MARGIN_BYTES",
    "MOST_BLOCK_BYTES",
    "MOST_CHUNK_PACKETS",
    "MOST_INTERFACES",
    "MOST_PACKET_BYTES",
    "MOST_TIME_NS",
    "CaptureFormat",
    "CapturedPacket",
    "Interface",
    "LinkType",
    "PacketChunk",
]

#: bytes that a chunk's buffer has behind its last packet, so that whole columns can be looked at
MARGIN_BYTES: Final = 512
#: packets of one chunk
MOST_CHUNK_PACKETS: Final = 1 << 15
#: bytes of one packet; no link here carries longer ones, and a longer one is damage
MOST_PACKET_BYTES: Final = 262_144
#: bytes of one pcapng block that is looked into; others are skipped whatever their length
MOST_BLOCK_BYTES: Final = 1 << 20
#: interfaces of one file
MOST_INTERFACES: Final = 4_096
#: later times are taken for this one: the year 2116
MOST_TIME_NS: Final = 1 << 62


class LinkType(IntEnum):
    """Link-layer header types (DLT / LINKTYPE) that are looked into, and some that are not."""

    NULL = 0
    ETHERNET = 1
    RAW_IP = 101
    LINUX_SLL = 113
    ERF = 197
    INFINIBAND = 247
    LINUX_SLL2 = 276


class CaptureFormat(StrEnum):
    """The file formats of captures."""

    PCAP = "pcap"
    PCAPNG = "pcapng"


@dataclass(frozen=True, slots=True)
class Interface:
    """Where packets were captured.

    ``link_type`` is a number of :class:`LinkType` or another one. ``snap_length`` is the most that
    was kept of a packet, 0 where nothing was cut. ``ticks_per_second`` is the resolution of time in
    the file, a power of 10 or of 2; ``offset_s`` is added to times. ``fcs_bytes`` is the length of
    a frame check sequence at the end of each packet, None where the file does not say.
    """

    name: str = ""
    link_type: int = LinkType.ETHERNET
    snap_length: int = 0
    description: str = ""
    ticks_per_second: int = 1_000_000_000
    offset_s: int = 0
    fcs_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class CapturedPacket:
    """One packet of a capture.

    ``time_ns`` counts from 1970. ``interface`` is the index of its interface in the file;
    ``original_bytes`` its length on the wire, more than ``data`` where the snap length cut it, and
    0 in what is to be written where it was not cut. ``comment`` is kept by pcapng only.
    """

    time_ns: int
    link_type: int
    interface: int
    data: bytes
    original_bytes: int = 0
    comment: str = ""


@dataclass(frozen=True, slots=True)
class PacketChunk:
    """Many packets of a capture as columns; ``[n]`` is one row a packet.

    Packet i is ``buffer[starts[i] : starts[i] + lengths[i]]``; behind the last one stand at least
    :data:`MARGIN_BYTES` bytes more. ``first`` is the number of the first packet in the file, from
    0; there are at most :data:`MOST_CHUNK_PACKETS`. ``comments`` are by row.
    """

    first: int
    buffer: memoryview
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    originals: NDArray[np.int64]
    times_ns: NDArray[np.int64]
    interfaces: NDArray[np.int64]
    link_types: NDArray[np.int64]
    comments: dict[int, str]

    def __len__(self) -> int:
        return len(self.starts)

    def data(self, row: int) -> bytes:
        """Return the bytes of a packet of this chunk."""
        start = int(self.starts[row])
        return bytes(self.buffer[start : start + int(self.lengths[row])])
