"""Lab 4's packets as a capture, to be opened in Wireshark."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from railweave.formats.pcap import CapturedPacket, write_pcap
from railweave.studio.labs._rdma import State, played
from railweave.studio.labs._rdma_document import frame_at, link_of
from railweave.transport.journey._capture import CAPTURE_START_NS

__all__ = ["capture"]


def capture(state: State, text: str, *, every_hop: bool = False) -> bytes:
    """Return the packets shown as a capture file.

    Args:
        state: of :func:`railweave.studio.labs._rdma.bare`.
        text: the design; "" for a wire.
        every_hop: of a journey, every packet at every port that sends it, as pcapng; else pcap of
            what is seen at one port. On a wire each packet is there once, as it left its sender.

    Raises:
        InputError: nothing is to be seen.
    """
    run = played(state, text)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("journey.pcapng" if every_hop else "journey.pcap")
        if run.journey is not None:
            run.journey.write(path, "" if every_hop else state.at)
        else:
            write_pcap(path, _on_wire(state, text), link_type=int(link_of(state, run)))
        return path.read_bytes()


def _on_wire(state: State, text: str) -> Iterator[CapturedPacket]:
    run = played(state, text)
    link = int(link_of(state, run))
    for number, sent in enumerate(run.run.sent):
        data = frame_at(state, text, number)
        if data is not None:
            yield CapturedPacket(CAPTURE_START_NS + round(sent.time_s * 1e9), link, 0, data)
