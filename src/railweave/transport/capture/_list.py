"""One line a packet, and the bytes of one packet, out of a capture of any length."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from railweave.errors import InputError
from railweave.formats.pcap import CapturedPacket, CaptureReader, Interface, PacketChunk
from railweave.transport.capture._columns import Columns, IcrcState, Kind, decode_chunk
from railweave.transport.capture._opcodes import ROLE, Role
from railweave.transport.capture._result import address_text
from railweave.transport.capture._totals import refusal_text
from railweave.transport.codec.headers import opcode_name

__all__ = ["PacketLine", "PickedPacket", "list_packets", "packet_at", "time_digits"]

_MICROSECONDS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class PacketLine:
    """One packet in a line. ``number`` counts from 1; ``qp`` is -1 where it goes to none.

    ``time_s`` counts from the first packet of the file, and ``time_digits`` digits behind its
    point are those of the file; ``info`` says what RDMA packets are.
    """

    number: int
    time_s: float
    interface: int
    kind: str
    source: str
    target: str
    qp: int
    info: str
    wire_bytes: int
    captured_bytes: int
    time_digits: int = 6


def list_packets(
    path: Path, *, start: int = 1, limit: int | None = None, qp: int | None = None
) -> Iterator[PacketLine]:
    """Yield packets in a line each.

    Args:
        path: a pcap or pcapng file.
        start: number of the first packet, from 1.
        limit: packets to yield; None is all.
        qp: only those that go to this queue pair, or name it as their source.

    Raises:
        InputError: the file is no capture.
        OSError: it cannot be read.
    """
    left = limit
    with CaptureReader(path) as reader:
        begin: int | None = None
        for chunk in reader.chunks():
            begin = int(chunk.times_ns[0]) if begin is None else begin
            if chunk.first + len(chunk) < start:
                continue
            digits = time_digits(reader.interfaces)
            for line in _lines(chunk, begin, max(0, start - 1 - chunk.first), qp, digits):
                if left is not None and left <= 0:
                    return
                yield line
                left = None if left is None else left - 1


def time_digits(interfaces: Iterable[Interface]) -> int:
    """Return the digits that times of a capture need: 6, or 9 where it counts finer."""
    return 9 if any(i.ticks_per_second > _MICROSECONDS for i in interfaces) else 6


def _lines(
    chunk: PacketChunk, begin: int, first: int, qp: int | None, digits: int
) -> Iterator[PacketLine]:
    columns = decode_chunk(chunk)
    rdma = {row: i for i, row in enumerate(columns.row.tolist())}
    for row in range(first, len(chunk)):
        i = rdma.get(row)
        if qp is not None and (i is None or qp not in _ends(columns, i)):
            continue
        source, target, info, goes_to = "", "", "", -1
        if i is not None:
            kind = int(columns.rdma_kind[i])
            source = address_text(kind, int(columns.source[0][i]), int(columns.source[1][i]))
            target = address_text(kind, int(columns.target[0][i]), int(columns.target[1][i]))
            goes_to, info = int(columns.dest_qp[i]), _info(columns, i)
        elif columns.all_classes[row] >= 0:
            source, target = _ip(chunk, row, int(columns.network[row]))
        yield PacketLine(
            number=chunk.first + row + 1,
            time_s=(int(chunk.times_ns[row]) - begin) / 1e9,
            interface=int(chunk.interfaces[row]),
            kind=Kind(int(columns.kind[row])).text,
            source=source,
            target=target,
            qp=goes_to,
            info=info,
            wire_bytes=int(chunk.originals[row]),
            captured_bytes=int(chunk.lengths[row]),
            time_digits=digits,
        )


def _ends(columns: Columns, i: int) -> tuple[int, int]:
    return int(columns.dest_qp[i]), int(columns.source_qp[i])


def _info(columns: Columns, i: int) -> str:
    """Return operation, queue pair, PSN and what is particular about an RDMA packet."""
    parts = [
        opcode_name(int(columns.opcode[i])),
        f"qp 0x{int(columns.dest_qp[i]):x}",
        f"PSN {int(columns.psn[i])}",
    ]
    if columns.payload_bytes[i] and ROLE[columns.opcode[i]] != Role.CNP:
        parts.append(f"{int(columns.payload_bytes[i]):,} B")
    syndrome = int(columns.syndrome[i])
    if syndrome >= 0 and syndrome >> 5 in {1, 3}:
        parts.append(refusal_text(syndrome))
    if columns.rdma_kind[i] <= Kind.ROCEV1 and columns.traffic_class[i] & 3 == 3:
        parts.append("CE")
    if columns.icrc[i] == IcrcState.WRONG:
        parts.append("wrong ICRC")
    return ", ".join(parts)


def _ip(chunk: PacketChunk, row: int, network: int) -> tuple[str, str]:
    """Return the addresses of an IP packet that is not RDMA, empty where they were cut off."""
    data = bytes(chunk.buffer[network : int(chunk.starts[row] + chunk.lengths[row])])
    if data[:1] and data[0] >> 4 == 4 and len(data) >= 20:
        return str(ipaddress.IPv4Address(data[12:16])), str(ipaddress.IPv4Address(data[16:20]))
    if data[:1] and data[0] >> 4 == 6 and len(data) >= 40:
        return str(ipaddress.IPv6Address(data[8:24])), str(ipaddress.IPv6Address(data[24:40]))
    return "", ""


@dataclass(frozen=True, slots=True)
class PickedPacket:
    """One packet of a capture, its interface, and its time since the first packet."""

    packet: CapturedPacket
    interface: Interface
    since_s: float


def packet_at(path: Path, number: int) -> PickedPacket:
    """Return a packet by its number, from 1.

    Raises:
        InputError: the file is no capture, or has no such packet.
        OSError: it cannot be read.
    """
    count, begin = 0, 0
    with CaptureReader(path) as reader:
        for chunk in reader.chunks():
            begin = int(chunk.times_ns[0]) if not count else begin
            count = chunk.first + len(chunk)
            if not chunk.first < number <= count:
                continue
            row = number - 1 - chunk.first
            packet = CapturedPacket(
                time_ns=int(chunk.times_ns[row]),
                link_type=int(chunk.link_types[row]),
                interface=int(chunk.interfaces[row]),
                data=chunk.data(row),
                original_bytes=int(chunk.originals[row]),
                comment=chunk.comments.get(row, ""),
            )
            interface = reader.interfaces[packet.interface]
            return PickedPacket(packet, interface, (packet.time_ns - begin) / 1e9)
    raise InputError(f"{path}: has no packet {number:,}; allowed: 1 to {count:,}")
