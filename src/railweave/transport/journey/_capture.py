"""A journey's packets as a file that Wireshark opens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from railweave.errors import InputError
from railweave.formats.pcap import CapturedPacket, Interface, write_pcap, write_pcapng
from railweave.formats.pcap import LinkType as FileLinkType
from railweave.transport.codec import LinkType, erf_record
from railweave.transport.journey._frames import (
    Viewpoint,
    encoded_frames,
    link_type,
    port_viewpoints,
    viewpoint,
)

if TYPE_CHECKING:
    from railweave.transport.journey import PacketJourney

__all__ = ["CAPTURE_START_NS", "check_capture_name", "write_journey"]

#: time of the capture's beginning: 1 January 2026, 00:00 UTC, so that a run gives the same file
CAPTURE_START_NS: Final = 1_767_225_600 * 1_000_000_000
_ENDINGS: Final = (".pcap", ".pcapng")


def check_capture_name(path: Path) -> None:
    """Refuse a name that says neither pcap nor pcapng.

    Raises:
        InputError: it ends in something else.
    """
    if path.suffix.lower() not in _ENDINGS:
        raise InputError(
            f"{path}: allowed: a name that ends in .pcap (one port) or .pcapng (every hop)"
        )


def write_journey(journey: PacketJourney, path: Path, at: str = "") -> tuple[int, tuple[str, ...]]:
    """Write what is seen of a journey to a capture.

    InfiniBand packets are put in ERF records, as adapters' capture tools write them: Wireshark 4
    reads these, and not the plain link type of InfiniBand.

    A ``.pcap`` file holds what one port sends and receives. A ``.pcapng`` file holds every packet
    once for each hop, at the port that sends it, each such port an interface; or one port, where
    ``at`` names it.

    Args:
        journey: the packets.
        path: the file.
        at: see :meth:`railweave.transport.journey.PacketJourney.frames`.

    Returns:
        The number of packets written and the ports.

    Raises:
        InputError: another ending, no packets at all, or none at the port named.
    """
    check_capture_name(path)
    every = path.suffix.lower() == ".pcapng" and not at
    points: tuple[Viewpoint, ...] = (viewpoint(journey, at),)
    if every:
        points = tuple(
            Viewpoint(point.name, point.sends, ())
            for point in port_viewpoints(journey)
            if point.sends
        )
    infiniband = link_type(journey) is LinkType.INFINIBAND
    kind = int(FileLinkType.ERF if infiniband else FileLinkType.ETHERNET)
    numbers = {point.name: number for number, point in enumerate(points)}

    def packets() -> Iterator[CapturedPacket]:
        for frame in encoded_frames(journey, points):
            time_ns = CAPTURE_START_NS + round(frame.time_s * 1e9)
            data = erf_record(frame.data, time_ns) if infiniband else frame.data
            yield CapturedPacket(time_ns, kind, numbers[frame.port], data)

    if path.suffix.lower() == ".pcap":
        count = write_pcap(path, packets(), link_type=kind)
    else:
        interfaces = [Interface(name=point.name, link_type=kind) for point in points]
        count = write_pcapng(path, interfaces, packets(), comment=journey.title)
    return count, tuple(numbers)
