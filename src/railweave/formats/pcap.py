"""Captures: reading and writing pcap and pcapng, packet by packet or in chunks of columns.

Both byte orders, micro- and nanoseconds and any other resolution, several interfaces and
sections; pcap and pcapng files that gzip has packed are read too. Memory does not grow with the
file. A file that is cut off or damaged gives every packet before that place, and a sentence.

pcapng is read as the IETF draft describes it (draft-ietf-opsawg-pcapng), pcap as
draft-ietf-opsawg-pcap does.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final

from railweave.errors import InputError
from railweave.formats._pcap_blocks import SECTION_MAGIC, BlockReader
from railweave.formats._pcap_classic import HEADER_BYTES, classic_chunks, classic_header
from railweave.formats._pcap_source import Source
from railweave.formats._pcap_types import (
    MARGIN_BYTES,
    MOST_BLOCK_BYTES,
    MOST_CHUNK_PACKETS,
    MOST_INTERFACES,
    MOST_PACKET_BYTES,
    CapturedPacket,
    CaptureFormat,
    Interface,
    LinkType,
    PacketChunk,
)
from railweave.formats._pcap_write import write_pcap, write_pcapng

__all__ = [
    "MARGIN_BYTES",
    "MOST_BLOCK_BYTES",
    "MOST_CHUNK_PACKETS",
    "MOST_INTERFACES",
    "MOST_PACKET_BYTES",
    "CaptureFormat",
    "CaptureReader",
    "CapturedPacket",
    "Interface",
    "LinkType",
    "PacketChunk",
    "read_packets",
    "write_pcap",
    "write_pcapng",
]

_SHOWN: Final = 8


class CaptureReader:
    """A capture that is read forwards, once.

    ``notes`` gets a sentence for what is damaged, cut off or guessed, so it is complete only when
    all was read; ``interfaces`` grows while reading too. Use it as a context.

    Raises:
        InputError: the file is no capture, or empty.
        OSError: it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.notes: list[str] = []
        self._source = Source(path)
        try:
            self._begin()
        except BaseException:
            self._source.close()
            raise

    def _begin(self) -> None:
        head = self._source.read(HEADER_BYTES)
        if not head:
            raise InputError(f"{self.path}: {self._source.fault or 'is empty'}; {_ALLOWED}")
        self.interfaces: list[Interface] = []
        classic = classic_header(head)
        if classic is not None:
            self.format = CaptureFormat.PCAP
            self.interfaces.append(classic.interface)
            self._chunks = classic_chunks(self._source, classic, self.notes)
        elif head[:4] == SECTION_MAGIC:
            self.format = CaptureFormat.PCAPNG
            blocks = BlockReader(self._source, head, self.notes)
            self.interfaces = blocks.interfaces
            self._chunks = blocks.chunks()
        else:
            cut = " and ends before a header does" if len(head) < HEADER_BYTES else ""
            raise InputError(
                f"{self.path}: begins with the bytes {head[:_SHOWN].hex(' ')}{cut}, so it is no "
                f"capture; {_ALLOWED}"
            )

    def __enter__(self) -> CaptureReader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._source.close()

    @property
    def fraction(self) -> float:
        """Share of the file that was read, 0 to 1."""
        return self._source.fraction

    @property
    def read_bytes(self) -> int:
        """Bytes that were read, unpacked."""
        return self._source.position

    def chunks(self) -> Iterator[PacketChunk]:
        """Yield the packets in chunks of a few MB."""
        yield from self._chunks

    def packets(self) -> Iterator[CapturedPacket]:
        """Yield the packets one by one."""
        for chunk in self.chunks():
            columns = zip(
                chunk.times_ns.tolist(),
                chunk.link_types.tolist(),
                chunk.interfaces.tolist(),
                chunk.starts.tolist(),
                chunk.lengths.tolist(),
                chunk.originals.tolist(),
                strict=True,
            )
            comments, buffer = chunk.comments, chunk.buffer
            for row, (time, link, interface, start, length, original) in enumerate(columns):
                yield CapturedPacket(
                    time_ns=time,
                    link_type=link,
                    interface=interface,
                    data=bytes(buffer[start : start + length]),
                    original_bytes=original,
                    comment=comments.get(row, "") if comments else "",
                )


def read_packets(path: Path, notes: list[str] | None = None) -> Iterator[CapturedPacket]:
    """Yield the packets of a capture one by one.

    Args:
        path: a pcap or pcapng file, which may be packed by gzip.
        notes: gets a sentence for what is damaged, cut off or guessed; without it, damage is an
            error, raised behind the last packet before it.

    Raises:
        InputError: the file is no capture; or it is damaged, and nobody takes notes.
        OSError: it cannot be read.
    """
    with CaptureReader(path) as reader:
        yield from reader.packets()
        if notes is not None:
            notes.extend(reader.notes)
        elif reader.notes:
            raise InputError(f"{path}: {reader.notes[0]}")


_ALLOWED: Final = "allowed: a pcap or pcapng file, as tcpdump and Wireshark write them"
