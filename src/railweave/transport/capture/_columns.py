"""Packets of a chunk as columns: what each is, and of RDMA packets the fields of their headers.

All packets of a chunk are decoded at once, layer by layer; only the ICRC takes a call a packet.
The ICRC is CRC-32 over the packet with its variable fields set to ones (InfiniBand Architecture
Specification 7.8.1, annexes A16.5.1 and A17.3.3), behind eight bytes of ones where no local route
header stands, or one that routers rewrite (with a GRH). It is sent with its lowest byte first.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import IntEnum
from typing import Any, Final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from railweave.formats.pcap import LinkType, PacketChunk
from railweave.transport.capture._opcodes import (
    EXTENDED,
    HAS_AETH,
    HAS_RETH,
    RETH_SHIFT,
    ROLE,
    Role,
)

__all__ = ["Columns", "IcrcState", "Kind", "decode_chunk"]

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]
Flags = NDArray[np.bool_]

_ROCE_PORT: Final = 4791
_DUMMY_ROUTE: Final = crc32(b"\xff" * 8)
_VLANS: Final = (0x8100, 0x88A8, 0x9100)
_IPV4, _IPV6, _ROCEV1, _ARP, _LLDP, _PAUSE = 0x0800, 0x86DD, 0x8915, 0x0806, 0x88CC, 0x8808
_ICMP, _TCP, _UDP, _ICMPV6 = 1, 6, 17, 58
_IBA: Final = 0x1B
_ERF_BYTES: Final = 16
_ERF_EXTENSIONS: Final = 4
_ERF_ETHERNET: Final = 2
_ERF_INFINIBAND: Final = 21
_EXTENSIONS: Final = (0, 43, 60)


class Kind(IntEnum):
    """What a packet is; the names are those that people read."""

    OTHER = 0
    ROCEV2 = 1
    ROCEV2_IPV6 = 2
    ROCEV1 = 3
    INFINIBAND = 4  #: with LIDs only
    INFINIBAND_GLOBAL = 5  #: with a global route header
    TCP = 6
    UDP = 7
    ICMP = 8
    ARP = 9
    LLDP = 10
    PAUSE = 11
    FRAGMENT = 12
    IP_OTHER = 13
    INFINIBAND_RAW = 14
    OTHER_LINK = 15
    CUT = 16
    MALFORMED = 17

    @property
    def text(self) -> str:
        """The name that people read."""
        return _KIND_TEXT[self]


_KIND_TEXT: Final = {
    Kind.OTHER: "other Ethernet", Kind.ROCEV2: "RoCEv2 over IPv4",
    Kind.ROCEV2_IPV6: "RoCEv2 over IPv6", Kind.ROCEV1: "RoCEv1",
    Kind.INFINIBAND: "InfiniBand", Kind.INFINIBAND_GLOBAL: "InfiniBand with GRH",
    Kind.TCP: "TCP", Kind.UDP: "other UDP", Kind.ICMP: "ICMP", Kind.ARP: "ARP",
    Kind.LLDP: "LLDP", Kind.PAUSE: "PFC or pause frames", Kind.FRAGMENT: "IP fragments",
    Kind.IP_OTHER: "other IP", Kind.INFINIBAND_RAW: "InfiniBand, not IBA transport",
    Kind.OTHER_LINK: "link types that are not looked into",
    Kind.CUT: "cut before it can be told", Kind.MALFORMED: "malformed RDMA packets",
}  # fmt: skip


class IcrcState(IntEnum):
    """Whether a packet's ICRC was checked."""

    UNCHECKED = 0  #: not all of the packet was captured
    RIGHT = 1
    WRONG = 2


@dataclass(frozen=True, slots=True)
class Columns:
    """A chunk decoded. ``kind``, ``all_classes`` (as ``traffic_class``) and ``network`` (where the
    network layer starts in the buffer) have a row a packet, the rest a row an RDMA packet.

    ``row`` is the packet's row in the chunk. Addresses are 128 bits in two halves: IPv4 addresses
    and LIDs in the lower one. ``traffic_class`` is DSCP and ECN (InfiniBand: the service level),
    -1 where there is none; ``vlan_priority``, ``reth_length``, ``syndrome`` and ``source_qp`` are
    -1 where absent or not captured. ``payload_bytes`` is without padding.
    """

    kind: NDArray[np.int8]
    all_classes: Ints
    network: Ints
    row: Ints
    rdma_kind: Ints
    source: tuple[NDArray[np.uint64], NDArray[np.uint64]]
    target: tuple[NDArray[np.uint64], NDArray[np.uint64]]
    vlan: Ints
    vlan_priority: Ints
    traffic_class: Ints
    source_port: Ints
    opcode: Ints
    psn: Ints
    dest_qp: Ints
    ack_request: Flags
    payload_bytes: Ints
    reth_length: Ints
    syndrome: Ints
    source_qp: Ints
    icrc: NDArray[np.int8]
    icrc_found: Ints
    icrc_expected: Ints
    #: where BTH starts in the chunk's buffer
    bth: Ints

    def take(self, rows: Flags) -> Columns:
        """Return the same packets, with the columns of only some RDMA packets."""
        changed: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in {"source", "target"}:
                changed[field.name] = (value[0][rows], value[1][rows])
            elif field.name not in {"kind", "all_classes", "network"}:
                changed[field.name] = value[rows]
        return replace(self, **changed)


def _any_of(column: NDArray[np.integer], values: tuple[int, ...]) -> Flags:
    found: Flags = column == values[0]
    for value in values[1:]:
        found |= column == value
    return found


def _u16(data: Bytes, at: Ints) -> Ints:
    return data[at].astype(np.int64) << 8 | data[at + 1]


def _u24(data: Bytes, at: Ints) -> Ints:
    return data[at].astype(np.int64) << 16 | _u16(data, at + 1)


def _u32(data: Bytes, at: Ints) -> Ints:
    return _u16(data, at) << 16 | _u16(data, at + 2)


def _u64(data: Bytes, at: Ints) -> NDArray[np.uint64]:
    words: NDArray[np.uint64] = data[at[:, None] + np.arange(8)].view(">u8").astype(np.uint64)
    return words[:, 0]


class _Chunk:
    """Working state of one chunk: per packet, where each layer starts."""

    def __init__(self, chunk: PacketChunk) -> None:
        n = len(chunk)
        self.store = chunk.buffer
        self.data: Bytes = np.frombuffer(self.store, np.uint8)
        self.start = chunk.starts.copy()
        self.stop = chunk.starts + chunk.lengths  #: of what was captured
        self.wire_stop = chunk.starts + np.maximum(chunk.originals, chunk.lengths)
        self.links = chunk.link_types
        self.kind = np.full(n, Kind.OTHER, np.int8)
        self.network = self.start.copy()  #: where IP, or the global route header, starts
        self.bth = np.full(n, -1, np.int64)
        self.end = np.zeros(n, np.int64)  #: behind the ICRC
        self.vlan = np.zeros(n, np.int64)
        self.priority = np.full(n, -1, np.int64)
        self.classes = np.full(n, -1, np.int64)
        self.port = np.zeros(n, np.int64)

    def records(self) -> None:
        """Look behind ERF's record headers, which capture cards and InfiniBand adapters write."""
        rows = np.flatnonzero(self.links == LinkType.ERF)
        rows = rows[self.start[rows] + _ERF_BYTES <= self.stop[rows]]
        if not len(rows):
            return
        self.links, start = self.links.copy(), self.start[rows]
        kind = self.data[start + 8]
        more, after = kind >= 0x80, start + _ERF_BYTES
        for _ in range(_ERF_EXTENSIONS):
            if not more.any():
                break
            more, after = more & (self.data[after] >= 0x80), after + 8 * more
        kind &= 0x7F
        self.links[rows[kind == _ERF_INFINIBAND]] = LinkType.INFINIBAND
        ethernet = kind == _ERF_ETHERNET
        self.links[rows[ethernet]] = LinkType.ETHERNET
        self.start[rows] = self.network[rows] = after + 2 * ethernet

    def ethertypes(self) -> Ints:
        """Find the network layer below each link type; return its Ethertype, -1 where none."""
        data, links = self.data, self.links
        types = np.full(len(links), -1, np.int64)
        for link, place, length in (
            (LinkType.ETHERNET, 12, 14), (LinkType.LINUX_SLL, 14, 16), (LinkType.LINUX_SLL2, 0, 20)
        ):  # fmt: skip
            rows = np.flatnonzero(links == link)
            if len(rows):
                types[rows] = _u16(data, self.start[rows] + place)
                self.network[rows] += length
        rows = np.flatnonzero(links == LinkType.RAW_IP)
        version = data[self.start[rows]] >> 4
        types[rows] = np.where(version == 4, _IPV4, np.where(version == 6, _IPV6, 0))
        for _ in range(2):
            rows = np.flatnonzero(_any_of(types, _VLANS))
            if not len(rows):
                break
            at = self.network[rows]
            tag = _u16(data, at)
            self.vlan[rows], self.priority[rows] = tag & 0xFFF, tag >> 13
            types[rows] = _u16(data, at + 2)
            self.network[rows] += 4
        return types

    def ethernet(self) -> None:
        """Tell what Ethernet carries."""
        types = self.ethertypes()
        for value, kind in ((_ARP, Kind.ARP), (_LLDP, Kind.LLDP), (_PAUSE, Kind.PAUSE)):
            self.kind[types == value] = kind
        self.ipv4(np.flatnonzero(types == _IPV4))
        self.ipv6(np.flatnonzero(types == _IPV6))
        self.global_route(np.flatnonzero(types == _ROCEV1), Kind.ROCEV1)
        known = types >= 0
        self.kind[~known & (self.links != LinkType.INFINIBAND)] = Kind.OTHER_LINK
        self.kind[known & (self.network > self.stop)] = Kind.CUT

    def captured(self, rows: Ints, length: int) -> Ints:
        """Return the rows of which so much of the network layer was captured; mark the others."""
        if not len(rows):
            return rows
        cut = self.network[rows] + length > self.stop[rows]
        self.kind[rows[cut]] = Kind.CUT
        return rows[~cut]

    def ipv4(self, rows: Ints) -> None:
        """IPv4: its header may have options, and be a fragment."""
        rows = self.captured(rows, 20)
        if not len(rows):
            return
        data, at = self.data, self.network[rows]
        length = (data[at] & 15).astype(np.int64) * 4
        protocol = data[at + 9]
        whole = (_u16(data, at + 6) & 0x3FFF) == 0
        self.classes[rows] = data[at + 1]
        end = at + _u16(data, at + 2)
        self.transport(rows, protocol, at + length, roce=Kind.ROCEV2, end=end, whole=whole)
        self.kind[rows[length < 20]] = Kind.IP_OTHER

    def ipv6(self, rows: Ints) -> None:
        """IPv6: up to four extension headers are walked over."""
        rows = self.captured(rows, 40)
        if not len(rows):
            return
        data, at = self.data, self.network[rows]
        protocol, transport = data[at + 6], at + 40
        for _ in range(4):
            more = _any_of(protocol, _EXTENSIONS) & (transport < self.stop[rows])
            if not more.any():
                break
            here = transport[more]
            protocol = protocol.copy()
            protocol[more] = data[here]
            transport = transport.copy()
            # Beyond the packet nothing is looked at: a length can lead far behind the buffer.
            after = here + 8 + data[here + 1].astype(np.int64) * 8
            transport[more] = np.minimum(after, self.stop[rows][more])
        self.classes[rows] = _u16(data, at) >> 4 & 0xFF
        whole = protocol != 44
        end = at + 40 + _u16(data, at + 4)
        self.transport(rows, protocol, transport, roce=Kind.ROCEV2_IPV6, end=end, whole=whole)

    def transport(
        self, rows: Ints, protocol: Bytes, at: Ints, *, roce: Kind, end: Ints, whole: Flags
    ) -> None:
        """Tell what IP carries, and where RoCEv2 starts and ends."""
        kinds = np.full(len(rows), Kind.IP_OTHER, np.int8)
        for value, kind in ((_TCP, Kind.TCP), (_UDP, Kind.UDP), (_ICMP, Kind.ICMP)):
            kinds[protocol == value] = kind
        kinds[protocol == _ICMPV6] = Kind.ICMP
        kinds[~whole] = Kind.FRAGMENT
        udp = np.flatnonzero((kinds == Kind.UDP) & (at + 8 <= self.stop[rows]))
        found = udp[_u16(self.data, at[udp] + 2) == _ROCE_PORT]
        kinds[found] = roce
        kinds[(kinds == Kind.UDP) & (at + 8 > self.stop[rows])] = Kind.CUT
        self.kind[rows] = kinds
        packets, start = rows[found], at[found]
        self.port[packets] = _u16(self.data, start)
        self.bth[packets] = start + 8
        self.end[packets] = start + _u16(self.data, start + 4)
        # UDP and IP disagree: not a packet whose ICRC could be found.
        self.kind[packets[self.end[packets] != end[found]]] = Kind.MALFORMED

    def global_route(self, rows: Ints, kind: Kind) -> None:
        """Read the global route header of RoCEv1 and of InfiniBand between subnets."""
        rows = self.captured(rows, 40)
        if not len(rows):
            return
        at = self.network[rows]
        self.classes[rows] = _u16(self.data, at) >> 4 & 0xFF
        self.bth[rows] = at + 40
        self.end[rows] = at + 40 + _u16(self.data, at + 4)
        iba = self.data[at + 6] == _IBA
        self.kind[rows] = np.where(iba, kind, Kind.INFINIBAND_RAW)

    def infiniband(self) -> None:
        """Read local route headers."""
        rows = self.captured(np.flatnonzero(self.links == LinkType.INFINIBAND), 8)
        if not len(rows):
            return
        data, at = self.data, self.start[rows]
        following = data[at + 1] & 3
        self.kind[rows] = Kind.INFINIBAND_RAW
        self.network[rows] = at + 8
        end = at + (_u16(data, at + 4) & 0x7FF) * 4
        local, routed = rows[following == 2], rows[following == 3]
        self.kind[local], self.bth[local] = Kind.INFINIBAND, self.network[local]
        self.global_route(routed, Kind.INFINIBAND_GLOBAL)
        self.classes[rows] = data[at + 1] >> 4  # the service level
        self.end[rows] = end

    def rdma(self) -> Ints:
        """Return the RDMA packets' rows; others are marked as cut or malformed."""
        rows = np.flatnonzero((self.kind >= Kind.ROCEV2) & (self.kind <= Kind.INFINIBAND_GLOBAL))
        bth, end = self.bth[rows], self.end[rows]
        bad = (end < bth + 16) | (end > self.wire_stop[rows])
        cut = ~bad & (bth + 12 > self.stop[rows])
        fits = np.flatnonzero(~bad & ~cut)
        opcode = self.data[bth[fits]]
        pad = self.data[bth[fits] + 1] >> 4 & 3
        bad[fits] = end[fits] - bth[fits] - 16 - EXTENDED[opcode] - pad < 0
        self.kind[rows[bad]], self.kind[rows[cut]] = Kind.MALFORMED, Kind.CUT
        return rows[~bad & ~cut]


def _addresses(
    work: _Chunk, rows: Ints
) -> tuple[
    tuple[NDArray[np.uint64], NDArray[np.uint64]], tuple[NDArray[np.uint64], NDArray[np.uint64]]
]:
    """Return source and target of RDMA packets, upper and lower half of each."""
    kinds, n = work.kind[rows], len(rows)
    halves = [np.zeros(n, np.uint64) for _ in range(4)]
    long = _any_of(kinds, (Kind.ROCEV2_IPV6, Kind.ROCEV1, Kind.INFINIBAND_GLOBAL))
    at = work.network[rows]
    for half, shift in zip(halves, (8, 16, 24, 32), strict=True):
        if long.any():
            half[long] = _u64(work.data, at[long] + shift)
    short = kinds == Kind.ROCEV2
    halves[1][short] = _u32(work.data, at[short] + 12)
    halves[3][short] = _u32(work.data, at[short] + 16)
    local = kinds == Kind.INFINIBAND
    start = work.start[rows][local]
    halves[1][local] = _u16(work.data, start + 6)
    halves[3][local] = _u16(work.data, start + 2)
    return (halves[0], halves[1]), (halves[2], halves[3])


def _icrc(work: _Chunk, rows: Ints) -> tuple[NDArray[np.int8], Ints, Ints]:
    """Check the ICRC of whole packets; their variable fields are ones meanwhile."""
    data, kinds = work.data, work.kind[rows]
    state = np.full(len(rows), IcrcState.UNCHECKED, np.int8)
    found, expected = np.full(len(rows), -1, np.int64), np.full(len(rows), -1, np.int64)
    whole = np.flatnonzero(work.end[rows] <= work.stop[rows])
    rows, kinds = rows[whole], kinds[whole]
    network, bth, end = work.network[rows], work.bth[rows], work.end[rows]
    local = kinds == Kind.INFINIBAND
    begin = np.where(local, work.start[rows], network)
    v4 = network[kinds == Kind.ROCEV2]
    routed = network[(kinds != Kind.ROCEV2) & (kinds != Kind.INFINIBAND)]
    udp = bth[(kinds == Kind.ROCEV2) | (kinds == Kind.ROCEV2_IPV6)]
    ones = (
        [bth + 4]
        + [v4 + byte for byte in (1, 8, 10, 11)]  # traffic class, time to live, checksum
        + [routed + byte for byte in (1, 2, 3, 7)]  # traffic class, flow label, hop limit
        + [udp - 2, udp - 1]  # checksum
    )
    places = np.concatenate([*ones, routed, begin[local]])
    masks = np.full(len(places), 0xFF, np.uint8)
    masks[len(places) - len(routed) - int(local.sum()) :] = 0x0F
    masks[len(places) - int(local.sum()) :] = 0xF0  # virtual lane
    kept = data[places]
    data[places] |= masks
    before = np.where(local, 0, _DUMMY_ROUTE).tolist()
    view = work.store
    spans = zip(begin.tolist(), (end - 4).tolist(), before, strict=True)
    expected[whole] = [crc32(view[a:b], first) for a, b, first in spans]
    data[places] = kept
    at = end - 4
    found[whole] = (
        data[at].astype(np.int64) | data[at + 1].astype(np.int64) << 8
        | data[at + 2].astype(np.int64) << 16 | data[at + 3].astype(np.int64) << 24
    )  # fmt: skip
    right = found[whole] == expected[whole]
    state[whole] = np.where(right, IcrcState.RIGHT, IcrcState.WRONG)
    return state, found, expected


def decode_chunk(chunk: PacketChunk) -> Columns:
    """Return a chunk's packets as columns."""
    work = _Chunk(chunk)
    work.records()
    work.ethernet()
    work.infiniband()
    rows = work.rdma()
    data, bth, stop = work.data, work.bth[rows], work.stop[rows]
    opcode = data[bth].astype(np.int64)
    pad = data[bth + 1].astype(np.int64) >> 4 & 3
    extended = EXTENDED[opcode]
    captured = bth + 12 + extended <= stop
    reth = bth + 12 + RETH_SHIFT[opcode]
    length = np.where(HAS_RETH[opcode] & captured, _u32(data, reth + 12), -1)
    syndrome = np.where(HAS_AETH[opcode] & captured, data[bth + 12].astype(np.int64), -1)
    datagram = (ROLE[opcode] == Role.DATAGRAM) & captured
    source, target = _addresses(work, rows)
    columns = {
        "psn": _u24(data, bth + 9),
        "dest_qp": _u24(data, bth + 5),
        "ack_request": data[bth + 8] >= 0x80,
        "source_qp": np.where(datagram, _u24(data, bth + 17), -1),
    }
    state, found, expected = _icrc(work, rows)
    return Columns(
        kind=work.kind,
        all_classes=work.classes,
        network=work.network,
        row=rows,
        rdma_kind=work.kind[rows].astype(np.int64),
        source=source,
        target=target,
        vlan=work.vlan[rows],
        vlan_priority=work.priority[rows],
        traffic_class=work.classes[rows],
        source_port=work.port[rows],
        opcode=opcode,
        psn=columns["psn"],
        dest_qp=columns["dest_qp"],
        ack_request=columns["ack_request"],
        payload_bytes=work.end[rows] - bth - 16 - extended - pad,
        reth_length=length,
        syndrome=syndrome,
        source_qp=columns["source_qp"],
        icrc=state,
        icrc_found=found,
        icrc_expected=expected,
        bth=bth,
    )
