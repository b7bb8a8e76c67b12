"""Bytes of a capture, piece by piece, unpacked where the file is a gzip file."""

from __future__ import annotations

import gzip
import sys
import zlib
from io import BufferedReader
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from railweave.formats._pcap_types import MARGIN_BYTES

__all__ = ["Source"]

_GZIP: Final = b"\x1f\x8b"
#: references to an array that only its owner holds
_UNUSED: Final = 3


class Source:
    """A file that is read forwards once; pipes too.

    ``fault`` says why reading ended before the file did, empty where it did not.
    """

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self.fault = ""
        self.position = 0  #: bytes given out, unpacked
        self._rooms: list[NDArray[np.uint8]] = []
        self._raw: BufferedReader = path.open("rb")
        self._size = path.stat().st_size
        self._file: BufferedReader | gzip.GzipFile = self._raw
        if self._raw.peek(2)[:2] == _GZIP:
            self._file = gzip.GzipFile(fileobj=self._raw, mode="rb")

    @property
    def fraction(self) -> float:
        """Share of the file that was read; 0 where its length is not known."""
        if not self._size:
            return 0.0
        return min(1.0, (self._raw.tell() if self._raw.seekable() else self.position) / self._size)

    def fill(self, room: memoryview) -> int:
        """Read into ``room`` and return how much of it was filled, less than all at the end.

        All before damage to gzip data is given (hence ``readinto1``), and nothing behind it.
        """
        at = 0
        try:
            while at < len(room) and not self.fault and (count := self._file.readinto1(room[at:])):
                at += count
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            self.fault = f"the gzip data is damaged or cut off ({error})"
        self.position += at
        return at

    def read(self, count: int) -> bytes:
        """Return so many bytes, fewer at the end."""
        room = bytearray(count)
        return bytes(room[: self.fill(memoryview(room))])

    def after(self, rest: memoryview, count: int) -> tuple[memoryview, int]:
        """Return a buffer of ``rest``, so many bytes more, and a margin; and its length.

        The length does not count the margin of :data:`MARGIN_BYTES` zeros.
        """
        buffer = memoryview(self._room(len(rest) + count + MARGIN_BYTES).data)
        buffer[: len(rest)] = rest
        size = len(rest) + self.fill(buffer[len(rest) : len(rest) + count])
        buffer[size : size + MARGIN_BYTES] = bytes(MARGIN_BYTES)
        return buffer[: size + MARGIN_BYTES], size

    def _room(self, size: int) -> NDArray[np.uint8]:
        """Return an array of at least so many bytes: one that nobody looks at any more, or new."""
        for room in self._rooms:
            # Held by the list, the loop and the call: no chunk of it is left.
            if room.size >= size and sys.getrefcount(room) <= _UNUSED:
                return room
        room = np.empty(size + size // 8, np.uint8)
        self._rooms = [*self._rooms[-1:], room]
        return room

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        self._raw.close()
