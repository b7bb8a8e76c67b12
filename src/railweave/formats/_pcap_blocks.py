"""Reading pcapng: blocks of a type and a length; interfaces, packets, and others to be skipped."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final

import numpy as np
from numpy.typing import NDArray

from railweave.formats._pcap_source import Source
from railweave.formats._pcap_types import (
    MOST_BLOCK_BYTES,
    MOST_CHUNK_PACKETS,
    MOST_INTERFACES,
    MOST_PACKET_BYTES,
    MOST_TIME_NS,
    Interface,
    PacketChunk,
)

__all__ = ["SECTION_MAGIC", "BlockReader"]

#: of the section header, the same in both byte orders
SECTION_MAGIC: Final = b"\x0a\x0d\x0d\x0a"
_SECTION: Final = 0x0A0D0D0A
_INTERFACE, _OBSOLETE, _SIMPLE, _ENHANCED = 1, 2, 3, 6
#: bytes of a block before a packet's bytes
_BEFORE: Final = {_OBSOLETE: 28, _SIMPLE: 12, _ENHANCED: 28}
_PIECE: Final = 12 << 20
_NANO: Final = 1_000_000_000
_ORDER: Final = b"\x1a\x2b\x3c\x4d"
_COMMENT, _NAME, _DESCRIPTION, _RESOLUTION, _FCS, _OFFSET = 1, 2, 3, 9, 13, 14

Column = NDArray[np.int64]


class BlockReader:
    """Reads a pcapng file; interfaces of all its sections are numbered through.

    ``interfaces`` grows while reading; ``notes`` gets a sentence for what is damaged or guessed.
    """

    def __init__(self, source: Source, head: bytes, notes: list[str]) -> None:
        self.interfaces: list[Interface] = []
        self._source = source
        self._notes = notes
        self._buffer = memoryview(head)
        self._size = len(head)  #: of the buffer, without its margin
        self._at = 0
        self._order = "<"
        self._base = 0  #: number of this section's first interface
        self._first = 0
        self._last_time = 0
        self._untimed = 0
        self._damaged = False
        #: of the packets of the buffer that were not given out yet: where, what kind
        self._found: list[int] = []
        self._kinds: list[int] = []

    def chunks(self) -> Iterator[PacketChunk]:
        """Yield the packets, in the order of the file."""
        while not self._damaged:
            left = self._size - self._at
            self._buffer, self._size = self._source.after(
                self._buffer[self._at : self._size], _PIECE
            )
            self._at, ended = 0, self._size == left
            while (chunk := self._next_chunk()) is not None:
                yield chunk
            if ended:
                break
        self._say_end()

    def _next_chunk(self) -> PacketChunk | None:
        """Walk over whole blocks of the buffer; return their packets, None where there are none."""
        while not self._damaged and self._walk():
            if self._found:
                break
        return self._columns() if self._found else None

    def _walk(self) -> bool:
        """Go on to the end of the buffer or before the next section; return whether it moved."""
        buffer, at, began = self._buffer, self._at, self._at
        size = self._size
        head, tail = Struct(self._order + "II").unpack_from, Struct(self._order + "I").unpack_from
        found, kinds = self._found, self._kinds
        while at + 12 <= size and len(found) < MOST_CHUNK_PACKETS:
            kind, length = head(buffer, at)
            if kind == _SECTION:
                if found or not self._section(at):
                    break
                at = self._at
                head = Struct(self._order + "II").unpack_from
                tail = Struct(self._order + "I").unpack_from
                continue
            if length < 12 or length % 4 or (length > MOST_BLOCK_BYTES and kind in _KNOWN):
                self._damage(f"a block of type {kind} says that it is {length:,} bytes long")
                break
            end = at + length
            if end > size:
                if kind not in _KNOWN and length > _PIECE:
                    at = self._skip(at, length)
                break
            if tail(buffer, end - 4)[0] != length:
                self._damage("a block's length does not stand again at its end")
                break
            if kind in _BEFORE:
                if length < _BEFORE[kind] + 4:
                    self._damage("a packet's block is too short for one")
                    break
                found.append(at)
                kinds.append(kind)
            elif kind == _INTERFACE and not self._interface(at, length):
                break
            at = end
        self._at = at
        return at > began

    def _section(self, at: int) -> bool:
        """Begin a section; return False where it is damaged or not whole yet."""
        buffer = self._buffer
        if at + 28 > self._size:
            return False
        self._order = ">" if bytes(buffer[at + 8 : at + 12]) == _ORDER else "<"
        length, magic, major = Struct(self._order + "IIH").unpack_from(buffer, at + 4)
        if magic != 0x1A2B3C4D or major != 1 or not 28 <= length <= MOST_BLOCK_BYTES or length % 4:
            self._damage("a section header is not one of pcapng 1")
            return False
        if at + length > self._size:
            return False
        if Struct(self._order + "I").unpack_from(buffer, at + length - 4)[0] != length:
            self._damage("a block's length does not stand again at its end")
            return False
        self._base = len(self.interfaces)
        self._at = at + length
        return True

    def _interface(self, at: int, length: int) -> bool:
        if length < 20 or len(self.interfaces) >= MOST_INTERFACES:
            self._damage(
                "an interface's block is too short for one"
                if length < 20
                else f"more than {MOST_INTERFACES:,} interfaces are described"
            )
            return False
        link, _, snap = Struct(self._order + "HHI").unpack_from(self._buffer, at + 8)
        options = dict(self._options(at + 16, at + length - 4))
        ticks = 1_000_000
        if options.get(_RESOLUTION):
            code = options[_RESOLUTION][0]
            ticks = 2 ** (code & 0x7F) if code & 0x80 else 10 ** min(code, 38)
        offset = options.get(_OFFSET, b"")
        self.interfaces.append(
            Interface(
                name=_text(options.get(_NAME, b"")),
                link_type=link,
                snap_length=snap if snap < MOST_PACKET_BYTES else 0,
                description=_text(options.get(_DESCRIPTION, b"")),
                ticks_per_second=ticks,
                offset_s=(Struct(self._order + "q").unpack(offset)[0] if len(offset) == 8 else 0),
                fcs_bytes=options[_FCS][0] if options.get(_FCS) else None,
            )
        )
        return True

    def _options(self, at: int, end: int) -> Iterator[tuple[int, bytes]]:
        head = Struct(self._order + "HH").unpack_from
        while at + 4 <= end:
            code, length = head(self._buffer, at)
            if code == 0 or at + 4 + length > end:
                return
            yield code, bytes(self._buffer[at + 4 : at + 4 + length])
            at += 4 + (length + 3) // 4 * 4

    def _skip(self, at: int, length: int) -> int:
        """Read over a long block of another kind; return where the buffer goes on."""
        missing = length - (self._size - at)
        while missing > 0 and (piece := self._source.read(min(missing, _PIECE))):
            missing -= len(piece)
        if missing > 0:
            self._damage("it ends in the middle of a block that is no packet")
        return self._size

    def _damage(self, what: str) -> None:
        self._damaged = True
        number = self._first + len(self._found)
        self._notes.append(
            f"after packet {number:,}: {what}; the file is damaged there and is not read on"
        )

    def _say_end(self) -> None:
        if self._untimed:
            self._notes.append(
                f"{self._untimed:,} packets stand there without a time; each has that of the "
                "packet before it"
            )
        if self._source.fault:
            self._notes.append(f"after packet {self._first:,} {self._source.fault}")
        elif not self._damaged and self._at < self._size:
            self._notes.append(
                f"the file ends in the middle of a block, after packet {self._first:,}: it was "
                "cut off there, or is still being written"
            )

    def _columns(self) -> PacketChunk | None:
        """Return the packets that were found as columns; cut before the first impossible one."""
        starts = np.array(self._found, np.int64)
        kinds = np.array(self._kinds, np.int64)
        self._found, self._kinds = [], []
        data = np.frombuffer(self._buffer, np.uint8)
        # A simple packet's block at the end of the buffer can be shorter than the longest head.
        at = np.minimum(starts[:, None] + np.arange(28), len(data) - 1)
        words = data[at].view(self._order + "u4").astype(np.int64)
        simple, obsolete = kinds == _SIMPLE, kinds == _OBSOLETE
        local = np.where(simple, 0, words[:, 2])
        if obsolete.any():
            half = data[at[:, 8:10]].view(self._order + "u2").astype(np.int64)[:, 0]
            local = np.where(obsolete, half, local)
        originals = np.where(simple, words[:, 2], words[:, 6])
        room = words[:, 1] - np.where(simple, 16, 32)
        known = self.interfaces[self._base :]
        snaps = np.array([i.snap_length or MOST_PACKET_BYTES for i in known] or [0], np.int64)
        captured = np.where(simple, np.minimum(np.minimum(originals, room), snaps[0]), words[:, 5])
        bad = (local >= len(known)) | (captured > room) | (captured > MOST_PACKET_BYTES)
        n = int(bad.argmax()) if bad.any() else len(starts)
        if n < len(starts):
            self._damage_at(n, local[n] >= len(known))
        if not n:
            return None
        chunk = PacketChunk(
            first=self._first,
            buffer=self._buffer,
            starts=starts[:n] + np.where(simple[:n], 12, 28),
            lengths=captured[:n],
            originals=originals[:n],
            times_ns=self._times(words[:n, 3], words[:n, 4], local[:n], simple[:n]),
            interfaces=local[:n] + self._base,
            link_types=np.array([i.link_type for i in known], np.int64)[local[:n]],
            comments=self._comments(starts[:n], captured[:n], room[:n], simple[:n]),
        )
        self._first += n
        return chunk

    def _damage_at(self, row: int, unknown_interface: bool) -> None:
        self._damaged = True
        what = (
            "names an interface that the file does not describe"
            if unknown_interface
            else "says that it is longer than its block"
        )
        self._notes.append(
            f"packet {self._first + row + 1:,} {what}; the file is damaged there and is not read on"
        )

    def _times(self, high: Column, low: Column, local: Column, simple: NDArray[np.bool_]) -> Column:
        times = np.zeros(len(high), np.int64)
        ticks = high.astype(np.uint64) << np.uint64(32) | low.astype(np.uint64)
        for number in np.unique(local).tolist():
            rows = (local == number) & ~simple
            times[rows] = _nanoseconds(ticks[rows], self.interfaces[self._base + number])
        if simple.any():
            self._untimed += int(simple.sum())
            last = np.maximum.accumulate(np.where(simple, -1, np.arange(len(times))))
            times = np.where(last >= 0, times[last], self._last_time)
        self._last_time = int(times[-1])
        return times

    def _comments(
        self, starts: Column, captured: Column, room: Column, simple: NDArray[np.bool_]
    ) -> dict[int, str]:
        """Return the comments of packets by row."""
        padded = (captured + 3) // 4 * 4
        comments: dict[int, str] = {}
        for row in np.flatnonzero((room - padded >= 8) & ~simple).tolist():
            begin = int(starts[row]) + 28
            options = self._options(begin + int(padded[row]), begin + int(room[row]))
            texts = [_text(value) for code, value in options if code == _COMMENT]
            if texts:
                comments[row] = "\n".join(texts)
        return comments


_KNOWN: Final = frozenset({_INTERFACE, *_BEFORE})


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace").rstrip("\0")


def _nanoseconds(ticks: NDArray[np.uint64], interface: Interface) -> Column:
    """Return times; impossible ones become the first or the last that can be."""
    rate, offset = interface.ticks_per_second, interface.offset_s * _NANO
    if rate in {1_000, 1_000_000, _NANO} and not offset:
        factor = np.uint64(_NANO // rate)
        most = np.uint64(MOST_TIME_NS) // factor
        return (np.minimum(ticks, most) * factor).astype(np.int64)
    values = [min(max(0, t * _NANO // rate + offset), MOST_TIME_NS) for t in ticks.tolist()]
    return np.array(values, np.int64)
