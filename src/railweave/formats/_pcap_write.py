"""Writing pcap and pcapng."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from struct import Struct
from typing import IO, Final

from railweave.errors import InputError
from railweave.formats._pcap_types import MOST_PACKET_BYTES, CapturedPacket, Interface, LinkType
from railweave.formats.files import staged

__all__ = ["write_pcap", "write_pcapng"]

_NANO: Final = 1_000_000_000
_MOST_COMMENT: Final = 65_535


def write_pcap(
    path: Path,
    packets: Iterable[CapturedPacket],
    *,
    link_type: int = LinkType.ETHERNET,
    nanoseconds: bool = True,
    snap_length: int = 0,
    big_endian: bool = False,
) -> int:
    """Write a pcap file and return the number of packets; nothing is left of it after a failure.

    Args:
        path: the file; it is written under another name first.
        packets: consumed one by one; their interfaces and comments are not kept.
        link_type: of every packet.
        nanoseconds: the resolution of time, else microseconds.
        snap_length: the most that is kept of a packet; 0 keeps all.
        big_endian: the byte order of the file.

    Raises:
        InputError: a packet of another link type, one too long, or a time that cannot be written.
    """
    order = ">" if big_endian else "<"
    snap = snap_length or MOST_PACKET_BYTES
    head = Struct(order + "IHHiIII").pack(
        0xA1B23C4D if nanoseconds else 0xA1B2C3D4, 2, 4, 0, 0, snap, link_type
    )
    record, unit = Struct(order + "IIII").pack, 1 if nanoseconds else 1000

    def write(file: IO[bytes]) -> int:
        file.write(head)
        count = 0
        for packet in packets:
            count += 1
            _check(path, count, packet, link_type)
            seconds, rest = divmod(packet.time_ns, _NANO)
            if not 0 <= seconds < 1 << 32:
                raise InputError(
                    f"{path}: packet {count:,} has the time {packet.time_ns:,} ns, which pcap "
                    "cannot say; allowed: from 1970 to 2106"
                )
            data = packet.data[:snap]
            original = packet.original_bytes or len(packet.data)
            file.write(record(seconds, rest // unit, len(data), original) + data)
        return count

    return _write(path, write)


def write_pcapng(
    path: Path,
    interfaces: Sequence[Interface],
    packets: Iterable[CapturedPacket],
    *,
    big_endian: bool = False,
    comment: str = "",
    application: str = "railweave",
) -> int:
    """Write a pcapng file of one section and return the number of packets.

    Args:
        path: the file; it is written under another name first, nothing is left after a failure.
        interfaces: those that packets name by their index.
        packets: consumed one by one.
        big_endian: the byte order of the file.
        comment: of the whole file.
        application: what the file says that it was written by.

    Raises:
        InputError: a packet of an interface that is not there or of another link type, one too
            long, or a time that cannot be written.
    """
    order = ">" if big_endian else "<"

    def write(file: IO[bytes]) -> int:
        section = Struct(order + "IHHq").pack(0x1A2B3C4D, 1, 0, -1)
        texts = [(1, comment.encode()), (4, application.encode())]
        file.write(_block(order, 0x0A0D0D0A, section + _options(order, texts)))
        for interface in interfaces:
            file.write(_block(order, 1, _interface(path, order, interface)))
        count = 0
        for packet in packets:
            count += 1
            if not 0 <= packet.interface < len(interfaces):
                raise InputError(
                    f"{path}: packet {count:,} is of interface {packet.interface}; "
                    f"allowed: 0 to {len(interfaces) - 1}"
                )
            interface = interfaces[packet.interface]
            _check(path, count, packet, interface.link_type)
            ticks = _ticks(path, count, packet.time_ns, interface)
            file.write(_block(order, 6, _enhanced(order, packet, ticks, interface.snap_length)))
        return count

    return _write(path, write)


def _ticks(path: Path, count: int, time_ns: int, interface: Interface) -> int:
    """Return a time as its interface counts it."""
    ticks = (time_ns - interface.offset_s * _NANO) * interface.ticks_per_second // _NANO
    if not 0 <= ticks < 1 << 64:
        raise InputError(
            f"{path}: packet {count:,} has the time {time_ns:,} ns, which its interface's "
            "resolution cannot say; take another one"
        )
    return ticks


def _enhanced(order: str, packet: CapturedPacket, ticks: int, snap_length: int) -> bytes:
    """Return the body of an enhanced packet block."""
    data = packet.data[: snap_length or MOST_PACKET_BYTES]
    original = packet.original_bytes or len(packet.data)
    head = Struct(order + "IIIII").pack(
        packet.interface, ticks >> 32, ticks & 0xFFFFFFFF, len(data), original
    )
    return head + data + bytes(-len(data) % 4) + _options(order, [(1, packet.comment.encode())])


def _write(path: Path, writer: Callable[[IO[bytes]], int]) -> int:
    counts: list[int] = []

    def into(temporary: Path) -> None:
        with temporary.open("wb", buffering=1 << 20) as file:
            counts.append(writer(file))

    with staged(path.parent) as stage:
        stage.write(path.name, into)
    return counts[0]


def _check(path: Path, count: int, packet: CapturedPacket, link_type: int) -> None:
    if packet.link_type != link_type:
        raise InputError(
            f"{path}: packet {count:,} is of link type {packet.link_type}, its interface of "
            f"{link_type}; give each link type an interface of its own (pcapng)"
        )
    if len(packet.data) > MOST_PACKET_BYTES:
        raise InputError(
            f"{path}: packet {count:,} is {len(packet.data):,} bytes long; "
            f"allowed: up to {MOST_PACKET_BYTES:,}"
        )


def _block(order: str, kind: int, body: bytes) -> bytes:
    size = 12 + len(body)
    return Struct(order + "II").pack(kind, size) + body + Struct(order + "I").pack(size)


def _options(order: str, options: Sequence[tuple[int, bytes]]) -> bytes:
    """Return options; empty ones are left out, and all where nothing is left."""
    head = Struct(order + "HH").pack
    parts = [
        head(code, len(value)) + value + bytes(-len(value) % 4)
        for code, full in options
        if (value := full[:_MOST_COMMENT])
    ]
    return b"".join(parts) + bytes(4) if parts else b""


def _interface(path: Path, order: str, interface: Interface) -> bytes:
    options = [(2, interface.name.encode()), (3, interface.description.encode())]
    options.append((9, bytes([_resolution(path, interface.ticks_per_second)])))
    if interface.fcs_bytes is not None:
        options.append((13, bytes([interface.fcs_bytes])))
    if interface.offset_s:
        options.append((14, Struct(order + "q").pack(interface.offset_s)))
    return Struct(order + "HHI").pack(interface.link_type, 0, interface.snap_length) + _options(
        order, options
    )


def _resolution(path: Path, rate: int) -> int:
    """Return if_tsresol's code."""
    for code in range(64):
        if rate == 10**code:
            return code
        if rate == 2**code:
            return 0x80 | code
    raise InputError(
        f"{path}: a resolution of {rate:,} ticks a second; allowed: powers of 10 or of 2"
    )
