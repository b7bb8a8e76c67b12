"""A cursor over the bytes of one frame which remembers headers, addresses and problems."""

from __future__ import annotations

from typing import Any

from railweave.transport.codec._frame import Carrier, Envelope, Frame, Icrc, Layer
from railweave.transport.codec._views import bytes_layer, header_layer
from railweave.transport.codec.headers import HEADERS
from railweave.transport.codec.icrc import mask
from railweave.transport.packets import IbPacket

__all__ = ["Reader"]


class Reader:
    """Reads headers one after the other; what cannot be read becomes a problem, never an error.

    ``at`` is the next byte, ``limit`` the end of what may be read now, ``ends`` where the packet
    says it ends, which is beyond ``limit`` where the frame was cut off.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.limit = len(data)
        self.ends = len(data)
        self.packet: IbPacket | None = None
        self.icrc: Icrc | None = None
        self._headers: list[tuple[str, int, tuple[int, ...]]] = []
        self._pieces: list[Layer] = []
        self._below: dict[str, Any] = {}
        self._problems: list[str] = []

    @property
    def cut(self) -> bool:
        """Whether bytes of the packet are missing."""
        return self.ends > self.limit

    @property
    def carrier(self) -> Carrier | None:
        """What carries the packet, once it is known."""
        return self._below.get("carrier")

    def problem(self, sentence: str) -> None:
        """Remember what is wrong."""
        self._problems.append(sentence)

    def below(self, **fields: str | int | bool | None) -> None:
        """Remember fields of the envelope."""
        self._below.update(fields)

    def header(self, name: str) -> tuple[int, ...] | None:
        """Read a header; None, and a problem, where its bytes are not all there."""
        size = HEADERS[name].size_bytes
        there = self.limit - self.at
        if there < size:
            self.problem(f"The frame ends within the {name}: {there} of {size} bytes are there.")
            return None
        values = HEADERS[name].unpack(self.data, self.at)
        self._headers.append((name, self.at, values))
        self.at += size
        return values

    def trailer(self, name: str, start: int) -> int:
        """Note a header at a place of its own (ICRC, VCRC, FCS) and return its one value."""
        (value,) = HEADERS[name].unpack(self.data, start)
        self._headers.append((name, start, (value,)))
        return value

    def piece(self, name: str, *parts: tuple[str, bytes, str]) -> None:
        """Note bytes without inner structure at the cursor, and move it behind them."""
        layer = bytes_layer(name, self.at, parts)
        if layer.end > layer.start:
            self._pieces.append(layer)
        self.at = layer.end

    def ends_at(self, end: int, what: str, *, trailer: int = 0) -> bool:
        """Set where the packet says it ends; False, and a problem, where that cannot be.

        Bytes behind it, and behind a whole trailer of so many bytes, become padding.
        """
        if end < self.at:
            self.problem(f"The {what} is shorter than its headers.")
            return False
        self.ends = end
        if end > self.limit:
            there = max(0, self.limit - self.at)
            self.problem(
                f"The frame was cut off: {there:,} of the {end - self.at:,} bytes that the {what} "
                "announces are there."
            )
        elif end < self.limit:
            after = end + trailer if end + trailer <= self.limit else end
            behind = self.data[after : self.limit]
            text = "bytes behind the packet: Ethernet fills short frames"
            if behind:
                self._pieces.append(bytes_layer("Padding", after, (("Padding", behind, text),)))
            self.limit = end
        return True

    def masked_since(self, first: str) -> bytes:
        """Return the bytes from a header to the BTH's end as the ICRC counts them."""
        in_order = sorted(self._headers, key=lambda header: header[1])  # trailers come early
        names = [name for name, _, _ in in_order]
        at, parts = in_order[names.index(first)][1], []
        for name, start, _ in in_order[names.index(first) :]:
            parts.append(self.data[at:start])  # IP options
            at = start + HEADERS[name].size_bytes
            parts.append(mask(name, self.data[start:at]))
            if name == "BTH":
                break
        return b"".join(parts)

    def frame(self) -> Frame:
        """Return what was read; bytes that nothing explained are a layer of their own."""
        names = {name for name, _, _ in self._headers}
        if self.at < self.limit:
            self.piece("Data", ("Data", self.data[self.at : self.limit], "not explained further"))
        layers = list(self._pieces)
        for name, start, values in self._headers:
            masked = "table" if "BTH" in names else "none"
            if name == "LRH" and {"GRH", "BTH"} <= names:
                masked = "all"
            layers.append(header_layer(name, start, values, masked=masked))
        layers.sort(key=lambda layer: layer.start)
        envelope = Envelope(**self._below) if self.carrier is not None else None
        problems = tuple(self._problems)
        return Frame(self.data, envelope, self.packet, tuple(layers), self.icrc, problems)
