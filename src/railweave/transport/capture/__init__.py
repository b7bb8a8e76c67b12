"""Explaining a capture: which queue pairs, which messages, what was lost, refused or marked.

:func:`explain_capture` reads pcap and pcapng files, its own and others', in constant memory.
RoCEv2 over IPv4 and IPv6 (with VLAN tags or not), RoCEv1 and InfiniBand are looked into; every
other packet is counted by what it is.

What can be told depends on where the capture was taken. What was seen again left its sender twice;
what is missing was lost before the place of the capture, or by the capture itself. A capture with
several interfaces is judged interface by interface.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from railweave.errors import InputError
from railweave.formats.pcap import CaptureReader
from railweave.transport.capture._findings import capture_findings
from railweave.transport.capture._list import (
    PacketLine,
    PickedPacket,
    list_packets,
    packet_at,
    time_digits,
)
from railweave.transport.capture._messages import MOST_MESSAGES
from railweave.transport.capture._pairs import Pairing
from railweave.transport.capture._result import capture_study
from railweave.transport.capture._totals import Fault
from railweave.transport.capture._types import (
    CaptureStudy,
    ClassUse,
    KindSeen,
    MessageSeen,
    OperationSeen,
    QueuePairSeen,
    Step,
)
from railweave.transport.capture._watch import Watch

__all__ = [
    "MOST_MESSAGES",
    "CaptureStudy",
    "ClassUse",
    "Fault",
    "KindSeen",
    "MessageSeen",
    "OperationSeen",
    "PacketLine",
    "Pairing",
    "PickedPacket",
    "QueuePairSeen",
    "Step",
    "explain_capture",
    "list_packets",
    "packet_at",
    "time_digits",
]


def explain_capture(
    path: Path,
    *,
    most_messages: int = MOST_MESSAGES,
    progress: Callable[[float], None] | None = None,
) -> CaptureStudy:
    """Return the explanation of a capture.

    Args:
        path: a pcap or pcapng file, which may be packed by gzip.
        most_messages: messages that are kept one by one; further ones are counted.
        progress: told the share of the file that was read, 0 to 1.

    Raises:
        InputError: the file is no capture, or holds no packet.
        OSError: it cannot be read.
    """
    if most_messages < 0:
        raise InputError(f"messages to keep: {most_messages}; allowed: 0 or more")
    watch = Watch(most_messages)
    with CaptureReader(path) as reader:
        for chunk in reader.chunks():
            watch.add(chunk)
            if progress is not None:
                progress(reader.fraction)
        if not watch.totals.packets:
            why = reader.notes[0] if reader.notes else "it is a capture in which nothing passed"
            raise InputError(f"{path}: holds no packet: {why}; allowed: a capture with packets")
        study = capture_study(reader, watch)
    return replace(study, findings=tuple(capture_findings(study)))
