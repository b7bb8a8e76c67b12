"""Sums over a whole capture: kinds of packets, classes, what moved when, first faults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from railweave.formats.pcap import PacketChunk
from railweave.transport.capture._columns import Columns, IcrcState, Kind
from railweave.transport.capture._flows import NAK_REASONS
from railweave.transport.capture._opcodes import ROLE, Role

__all__ = ["CLASS_ROLES", "MOST_FAULTS", "Fault", "Timeline", "Totals", "refusal_text"]

Ints = NDArray[np.int64]

#: faults that are named one by one, of each kind
MOST_FAULTS: Final = 10
#: whose classes are counted
CLASS_ROLES: Final = ("data", "acknowledgements", "CNPs", "TCP")
_BINS: Final = 240
_MOST_WIDTH: Final = 1 << 60


@dataclass(frozen=True, slots=True)
class Fault:
    """A packet that tells of something wrong. ``number`` counts from 1, ``flow`` from 0."""

    number: int
    time_ns: int
    flow: int
    what: str


class Timeline:
    """What moved when, in equal steps that grow with the capture: 120 to 240 of them are used."""

    def __init__(self) -> None:
        self.begin_ns = -1
        self.width_ns = 1
        self.sums = np.zeros((4, _BINS), np.int64)  #: packets, bytes, RDMA bytes, marks

    def add(self, times: Ints, values: tuple[Ints, Ints, Ints, Ints]) -> None:
        """Add packets; those before the first one of the capture count as of its time."""
        if not len(times):
            return
        if self.begin_ns < 0:
            self.begin_ns = int(times[0])
        since = np.maximum(times - self.begin_ns, 0)
        latest = int(since.max())
        while latest >= self.width_ns * _BINS and self.width_ns < _MOST_WIDTH:
            self.sums[:, : _BINS // 2] = self.sums[:, ::2] + self.sums[:, 1::2]
            self.sums[:, _BINS // 2 :] = 0
            self.width_ns *= 2
        bins = np.minimum(since // self.width_ns, _BINS - 1)
        for row, value in enumerate(values):
            summed = np.bincount(bins, weights=value, minlength=_BINS)
            self.sums[row] += summed.astype(np.int64)


class Totals:
    """What is added up over all packets."""

    def __init__(self) -> None:
        self.packets = 0
        self.kinds = np.zeros(len(Kind), np.int64)
        self.kind_bytes = np.zeros(len(Kind), np.int64)
        self.captured_bytes = 0
        self.wire_bytes = 0
        self.cut = 0  #: packets of which less was captured than was on the wire
        self.first_ns = -1
        self.last_ns = -1
        self.dscp = np.zeros((len(CLASS_ROLES), 64), np.int64)
        self.priority = np.zeros((len(CLASS_ROLES), 9), np.int64)  #: the last one: no tag
        self.icrc = np.zeros(len(IcrcState), np.int64)
        self.zero_icrc = 0
        self.unknown_opcodes = 0
        self.timeline = Timeline()
        self.wrong_icrc: list[Fault] = []
        self.refusals: list[Fault] = []
        self.notifications: list[Fault] = []

    def add(self, chunk: PacketChunk, columns: Columns, flows: Ints) -> None:
        """Add a chunk; ``flows`` may be -1."""
        self.packets += len(chunk)
        n = len(Kind)
        self.kinds += np.bincount(columns.kind, minlength=n)
        of_kind = np.bincount(columns.kind, weights=chunk.originals, minlength=n)
        self.kind_bytes += of_kind.astype(np.int64)
        self.captured_bytes += int(chunk.lengths.sum())
        self.wire_bytes += int(chunk.originals.sum())
        self.cut += int((chunk.lengths < chunk.originals).sum())
        first, last = int(chunk.times_ns.min()), int(chunk.times_ns.max())
        self.first_ns = first if self.first_ns < 0 else min(self.first_ns, first)
        self.last_ns = max(self.last_ns, last)
        self._classes(columns)
        rdma = np.zeros(len(chunk), np.int64)
        cnp = ROLE[columns.opcode] == Role.CNP
        rdma[columns.row] = np.where(cnp, 0, columns.payload_bytes)
        marks = ((columns.all_classes & 3) == 3) & (columns.all_classes >= 0)
        marks &= columns.kind != Kind.INFINIBAND
        marks &= columns.kind != Kind.INFINIBAND_GLOBAL
        ones = np.ones(len(chunk), np.int64)
        values = (ones, chunk.originals, rdma, marks.astype(np.int64))
        self.timeline.add(chunk.times_ns, values)
        self.icrc += np.bincount(columns.icrc, minlength=len(IcrcState))
        self._faults(chunk, columns, flows)

    def _classes(self, columns: Columns) -> None:
        role = ROLE[columns.opcode]
        self.unknown_opcodes += int((role == Role.UNKNOWN).sum())
        ip = columns.rdma_kind <= Kind.ROCEV1
        tag = np.where(columns.vlan_priority < 0, 8, columns.vlan_priority)
        groups = (
            (role == Role.REQUEST) | (role == Role.RESPONSE) | (role == Role.DATAGRAM),
            role == Role.ACKNOWLEDGE,
            role == Role.CNP,
        )
        for row, members in enumerate(groups):
            chosen = members & ip
            if chosen.any():
                classes = columns.traffic_class[chosen] >> 2
                self.dscp[row] += np.bincount(classes, minlength=64)
                self.priority[row] += np.bincount(tag[chosen], minlength=9)
        tcp = columns.all_classes[columns.kind == Kind.TCP]
        self.dscp[3] += np.bincount(tcp[tcp >= 0] >> 2, minlength=64)

    def _faults(self, chunk: PacketChunk, columns: Columns, flows: Ints) -> None:
        """Keep the first wrong ICRCs, CNPs, and NAKs of each reason."""
        wrong = np.flatnonzero(columns.icrc == IcrcState.WRONG)
        self.zero_icrc += int((columns.icrc_found[wrong] == 0).sum())

        def keep(faults: list[Fault], rows: Ints, most: int, say: Callable[[int], str]) -> None:
            for row in rows[: max(0, most)].tolist():
                packet = int(columns.row[row])
                number, time = chunk.first + packet + 1, int(chunk.times_ns[packet])
                faults.append(Fault(number, time, int(flows[row]), say(row)))

        def icrc(row: int) -> str:
            found, right = columns.icrc_found[row], columns.icrc_expected[row]
            return f"ICRC {_shown(found)}, right is {_shown(right)}"

        keep(self.wrong_icrc, wrong, MOST_FAULTS - len(self.wrong_icrc), icrc)
        told = np.flatnonzero(ROLE[columns.opcode] == Role.CNP)
        most = MOST_FAULTS - len(self.notifications)
        keep(self.notifications, told, most, lambda row: "CNP")
        kind = columns.syndrome >> 5
        refused = np.flatnonzero((columns.syndrome >= 0) & ((kind == 1) | (kind == 3)))
        for syndrome in sorted(set(columns.syndrome[refused].tolist())):
            text = refusal_text(syndrome)
            most = MOST_FAULTS - sum(fault.what == text for fault in self.refusals)
            rows = refused[columns.syndrome[refused] == syndrome]
            keep(self.refusals, rows, most, lambda row, text=text: text)  # type: ignore[misc]


def _shown(icrc: np.int64) -> str:
    """Return an ICRC as its bytes stand in the packet."""
    return "0x" + int(icrc).to_bytes(4, "little").hex()


def refusal_text(syndrome: int) -> str:
    """Return what the syndrome of a NAK says."""
    low = syndrome & 31
    if syndrome >> 5 == 1:
        return f"RNR NAK, timer {low}"
    return f"NAK: {NAK_REASONS[min(low, len(NAK_REASONS) - 1)]}"
