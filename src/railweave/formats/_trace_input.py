"""Reading traces piece by piece: plain or gzip files, bounded, and JSON element by element.

Memory stays bounded whatever the size of the file: one piece of text and one element are held.
"""

from __future__ import annotations

import codecs
import gzip
import json
import math
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Final, NoReturn

from railweave.errors import InputError

__all__ = [
    "MOST_BYTES",
    "JsonStream",
    "TraceInput",
    "lines_of",
    "number_of",
    "parse_json",
    "whole_number",
    "whole_of",
]

#: bytes that are read of one file, unpacked
MOST_BYTES: Final = 16 << 30
#: a gzip file of which more than so many bytes come out of one byte holds no trace
_MOST_GROWTH: Final = 400
_GROWTH_FROM: Final = 64 << 20
_PIECE: Final = 1 << 18
#: characters of one JSON element (an event) or line
_MOST_ELEMENT: Final = 1 << 24
_MOST_NUMBER: Final = 1e30
_IN_NUMBER: Final = ".eE+-0123456789"
_SPACES: Final = re.compile(r"\s*").match


class TraceInput:
    """A file that is read forwards once, unpacked where it is a gzip file.

    Raises:
        InputError: it is damaged, or longer than ``most_bytes`` unpacked.
    """

    def __init__(self, path: Path, most_bytes: int = MOST_BYTES) -> None:
        self.name = str(path)
        self.read_bytes = 0
        self._most = most_bytes
        self._raw: IO[bytes] = path.open("rb")
        self._packed = self._raw.read(2) == b"\x1f\x8b"
        self._raw.seek(0)
        self._file: IO[bytes] | gzip.GzipFile = (
            gzip.GzipFile(fileobj=self._raw, mode="rb") if self._packed else self._raw
        )

    def __enter__(self) -> TraceInput:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
        self._raw.close()

    def read(self, count: int = _PIECE) -> bytes:
        """Return up to so many bytes; none at the end."""
        try:
            piece = self._file.read(min(count, _PIECE * 64))
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InputError(
                f"{self.name}: after byte {self.read_bytes:,} (unpacked) the gzip data is damaged "
                f"or cut off ({error}); copy or write the file again"
            ) from None
        self.read_bytes += len(piece)
        if self.read_bytes > self._most:
            raise InputError(
                f"{self.name}: is longer than {self._most:,} bytes unpacked, the most that is "
                "read; record fewer steps"
            )
        if (
            self._packed
            and self.read_bytes > _GROWTH_FROM
            and self.read_bytes > _MOST_GROWTH * self._raw.tell()
        ):
            raise InputError(
                f"{self.name}: unpacks to more than {_MOST_GROWTH} times its size, which no trace "
                "does; it is not read on"
            )
        return piece


def number_of(value: object) -> float:
    """Return a JSON number, or a text that is one, as a float; NaN for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return math.nan
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return math.nan
    return number if abs(number) <= _MOST_NUMBER else math.nan


def whole_number(value: object) -> int | None:
    """Return a JSON number, or a text that is one, as an int; None for anything else."""
    number = number_of(value)
    return int(number) if math.isfinite(number) and number.is_integer() else None


def parse_json(text: str, where: str) -> object:
    """Return a JSON text's value.

    Raises:
        InputError: it is none, or nested too deeply; starts with ``where``.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "JSON nested too deeply; no trace is"
    text = error.msg if isinstance(error, json.JSONDecodeError) else "a number with too many digits"
    return f"not valid JSON ({text}); the file may be cut off or damaged"


def whole_of(path: Path, most_bytes: int) -> str:
    """Return the text of a small file, which may be packed.

    Raises:
        InputError: it is damaged or too long.
    """
    with TraceInput(path, most_bytes) as source:
        return b"".join(iter(source.read, b"")).decode("utf-8", errors="replace")


def lines_of(source: TraceInput) -> Iterator[tuple[int, str]]:
    """Yield the number (from 1) and the text of every line that is not empty.

    Raises:
        InputError: a line too long to be one of a trace.
    """
    rest, number = b"", 0
    while piece := source.read():
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            number += 1
            if line.strip():
                yield number, line.decode("utf-8", errors="replace")
        if len(rest) > _MOST_ELEMENT:
            raise InputError(
                f"{source.name}:{number + 1}: the line is longer than {_MOST_ELEMENT:,} bytes; "
                "allowed: one JSON object a line"
            )
    if rest.strip():
        yield number + 1, rest.decode("utf-8", errors="replace")


class JsonStream:
    """A JSON document of one object, or of one array, given member by member.

    Args:
        source: where the text comes from.
        arrays: keys of the object whose arrays are given element by element.
    """

    def __init__(self, source: TraceInput, arrays: tuple[str, ...]) -> None:
        self._source = source
        self._arrays = arrays
        self._decoder = json.JSONDecoder()
        self._text = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._buffer = ""
        self._at = 0
        self._line = 1  #: of the start of the buffer
        self._ended = False

    def line(self) -> int:
        """Return the line that was reached."""
        return self._line + self._buffer.count("\n", 0, self._at)

    def members(self) -> Iterator[tuple[str, object]]:
        """Yield (key, value); of arrays that were asked for, each element under the key.

        A document that is an array gives its elements under the first of the keys.

        Raises:
            InputError: it is no such document, with the line.
        """
        start = self._peek()
        if start == "[":
            for element in self._elements():
                yield self._arrays[0], element
        elif start == "{":
            yield from self._object()
        else:
            self._fail("is no JSON object or array; a trace begins with { or [")
        if self._peek():
            self._fail("text after the end of the document")

    def _object(self) -> Iterator[tuple[str, object]]:
        self._at += 1
        while self._peek() != "}":
            key = self._value()
            if not isinstance(key, str):
                self._fail('expected a key in "quotes"')
            self._take(":")
            if key in self._arrays and self._peek() == "[":
                for element in self._elements():
                    yield key, element
            else:
                yield key, self._value()
            if self._peek() != "}":
                self._take(",")
        self._at += 1

    def _elements(self) -> Iterator[object]:
        self._at += 1
        found = self._peek()
        while found != "]":
            yield self._value()
            found = self._peek()
            if found != "]":
                self._take(",")
                found = self._peek()
        self._at += 1

    def _fill(self) -> None:
        """Read a piece more; what was consumed goes."""
        piece = self._source.read()
        self._ended = not piece
        self._line += self._buffer.count("\n", 0, self._at)
        self._buffer = self._buffer[self._at :] + self._text.decode(piece, final=self._ended)
        self._at = 0

    def _peek(self) -> str:
        """Return the next character that is not a space, "" at the end."""
        while True:
            spaces = _SPACES(self._buffer, self._at)
            self._at = spaces.end() if spaces else self._at
            if self._at < len(self._buffer):
                return self._buffer[self._at]
            if self._ended:
                return ""
            self._fill()

    def _take(self, wanted: str) -> None:
        found = self._peek()
        if found != wanted:
            seen = f"found {found!r}" if found else "the file ends; it was cut off"
            self._fail(f"expected {wanted!r}, {seen}")
        self._at += 1

    def _value(self) -> object:
        if not self._peek():
            self._fail("the file ends in the middle; it was cut off")
        while True:
            try:
                value, end = self._decoder.raw_decode(self._buffer, self._at)
            except json.JSONDecodeError as error:
                if self._ended or len(self._buffer) - self._at > _MOST_ELEMENT:
                    self._at = min(error.pos, len(self._buffer))
                    self._fail(_reason(error))
            except (RecursionError, ValueError) as error:
                self._fail(_reason(error))
            else:
                goes_on = self._buffer[end : end + 1] in _IN_NUMBER  # nothing is "in" it too
                if not goes_on or self._ended or len(self._buffer) - end > _MOST_ELEMENT:
                    self._at = end
                    return value
            self._fill()

    def _fail(self, what: str) -> NoReturn:
        raise InputError(f"{self._source.name}:{self.line()}: {what}")
