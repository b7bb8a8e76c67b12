"""The one table of headers: fields in wire order, their bits and what they mean.

Encoder, decoder, scapy layers and the byte view of the studio are all driven by it. Sources: IEEE
802.3 and 802.1Q; RFC 791, 2474 and 3168 (IPv4, DSCP, ECN), 8200 (IPv6), 768 (UDP), 9293 (TCP);
InfiniBand Architecture Specification volume 1, chapters 7 to 9, with annexes A16 (RoCE) and A17
(RoCEv2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import Final

from railweave.transport.packets import CNP_OPCODE, Opcode, Service

__all__ = [
    "HEADERS",
    "HeaderField",
    "HeaderFormat",
    "Shown",
    "extended_headers",
    "has_payload",
    "opcode_name",
]


class Shown(StrEnum):
    """How a field's value is written."""

    NUMBER = "number"
    HEX = "hex"
    FLAG = "flag"
    MAC = "mac"
    IPV4 = "ipv4"
    IPV6 = "ipv6"


@dataclass(frozen=True)
class HeaderField:
    """One field: its name in the standard, its bits, what it says.

    ``masked`` fields count as ones in the ICRC, because the network may change them. ``names``
    are values that have a name.
    """

    name: str
    bits: int
    meaning: str
    shown: Shown = Shown.NUMBER
    masked: bool = False
    names: Mapping[int, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class HeaderFormat:
    """One header: what it is called and its fields, in the order of the wire."""

    name: str
    title: str
    source: str
    fields: tuple[HeaderField, ...]

    @cached_property
    def bits(self) -> int:
        """Size in bits, always whole bytes."""
        return sum(f.bits for f in self.fields)

    @cached_property
    def size_bytes(self) -> int:
        """Size in bytes."""
        return self.bits // 8

    @cached_property
    def _places(self) -> tuple[tuple[int, int], ...]:
        """Shift and mask of each field in the header as one big-endian number."""
        places, left = [], self.bits
        for f in self.fields:
            left -= f.bits
            places.append((left, (1 << f.bits) - 1))
        return tuple(places)

    @cached_property
    def _ones(self) -> int:
        """The header as a number in which only the masked fields are ones."""
        places = zip(self.fields, self._places, strict=True)
        return sum(mask << shift for f, (shift, mask) in places if f.masked)

    def first_bit(self, index: int) -> int:
        """Return how many bits of the header come before the field with that index."""
        return self.bits - self._places[index][0] - self.fields[index].bits

    def pack(self, *values: int) -> bytes:
        """Return the bytes of the header.

        Args:
            values: one a field, in the table's order.

        Raises:
            ValueError: one does not fit its bits; the text names the field.
        """
        number = 0
        for value, (shift, mask) in zip(values, self._places, strict=True):
            if value != value & mask:
                at = [place[0] for place in self._places].index(shift)
                spec = self.fields[at]
                raise ValueError(
                    f"{self.name} {spec.name} {value} does not fit its {spec.bits} bits; "
                    f"allowed: 0 to {mask:,}"
                )
            number |= value << shift
        return number.to_bytes(self.bits >> 3, "big")

    def unpack(self, data: bytes, start: int = 0) -> tuple[int, ...]:
        """Return the values of the fields of a header at ``start``; too few bytes are an error."""
        end = start + self.size_bytes
        if end > len(data):
            raise ValueError(f"{self.name} needs {self.size_bytes} bytes")
        number = int.from_bytes(data[start:end], "big")
        return tuple(number >> shift & mask for shift, mask in self._places)

    def masked(self, header: bytes) -> bytes:
        """Return the header's bytes as the ICRC counts them: masked fields are ones."""
        number = int.from_bytes(header, "big") | self._ones
        return number.to_bytes(self.bits >> 3, "big")


def opcode_name(opcode: int) -> str:
    """Return an opcode in words, such as ``RC WRITE_FIRST``; unknown ones as such."""
    if opcode == CNP_OPCODE:
        return "CNP"
    services = {s.value: s.name for s in Service} | {0b010: "RD", 0b101: "XRC"}
    service = services.get(opcode >> 5)
    low = opcode & 0b11111
    if service is None or low not in set(Opcode):
        return f"unknown opcode {opcode:#04x}"
    return f"{service} {Opcode(low).name}"


_REQUEST: Final = ("RETH",)
_EXTENDED: Final[Mapping[Opcode, tuple[str, ...]]] = MappingProxyType(
    {
        **dict.fromkeys(Opcode, ()),
        Opcode.SEND_LAST_IMMEDIATE: ("ImmDt",),
        Opcode.SEND_ONLY_IMMEDIATE: ("ImmDt",),
        Opcode.SEND_LAST_INVALIDATE: ("IETH",),
        Opcode.SEND_ONLY_INVALIDATE: ("IETH",),
        Opcode.WRITE_FIRST: _REQUEST,
        Opcode.WRITE_LAST_IMMEDIATE: ("ImmDt",),
        Opcode.WRITE_ONLY: _REQUEST,
        Opcode.WRITE_ONLY_IMMEDIATE: ("RETH", "ImmDt"),
        Opcode.READ_REQUEST: _REQUEST,
        Opcode.READ_RESPONSE_FIRST: ("AETH",),
        Opcode.READ_RESPONSE_LAST: ("AETH",),
        Opcode.READ_RESPONSE_ONLY: ("AETH",),
        Opcode.ACKNOWLEDGE: ("AETH",),
        Opcode.ATOMIC_ACKNOWLEDGE: ("AETH", "AtomicAckETH"),
        Opcode.COMPARE_SWAP: ("AtomicETH",),
        Opcode.FETCH_ADD: ("AtomicETH",),
    }
)
_NO_PAYLOAD: Final = frozenset(
    {
        Opcode.READ_REQUEST,
        Opcode.ACKNOWLEDGE,
        Opcode.ATOMIC_ACKNOWLEDGE,
        Opcode.COMPARE_SWAP,
        Opcode.FETCH_ADD,
    }
)
_UD: Final = frozenset({Opcode.SEND_ONLY, Opcode.SEND_ONLY_IMMEDIATE})
_UC: Final = frozenset(op for op in Opcode if op <= Opcode.WRITE_ONLY_IMMEDIATE)


def _headers_of(opcode: int) -> tuple[str, ...] | None:
    if opcode == CNP_OPCODE:
        return ("CNP",)
    if opcode >> 5 not in set(Service) or opcode & 0b11111 not in set(Opcode):
        return None
    service, operation = Service(opcode >> 5), Opcode(opcode & 0b11111)
    allowed = {Service.RC: frozenset(Opcode), Service.UC: _UC, Service.UD: _UD}[service]
    if operation not in allowed:
        return None
    return (("DETH",) if service is Service.UD else ()) + _EXTENDED[operation]


_BY_OPCODE: Final = tuple(_headers_of(opcode) for opcode in range(256))


def extended_headers(opcode: int) -> tuple[str, ...] | None:
    """Return the names of the headers that follow a BTH with this opcode, in wire order.

    None for an opcode that is not known, or that its service does not have (a READ on UC, say).
    """
    return _BY_OPCODE[opcode] if 0 <= opcode < 256 else None


def has_payload(opcode: int) -> bool:
    """Tell whether packets with this (known) opcode carry payload."""
    return opcode != CNP_OPCODE and opcode & 0b11111 not in _NO_PAYLOAD


# ---------------------------------------------------------------- the table

_HEX, _FLAG = Shown.HEX, Shown.FLAG
_ETHERTYPES: Final = {
    0x0800: "IPv4",
    0x0806: "ARP",
    0x8100: "VLAN tag",
    0x86DD: "IPv6",
    0x8808: "MAC control (pause, PFC)",
    0x88A8: "service VLAN tag",
    0x88CC: "LLDP",
    0x8906: "FCoE",
    0x8915: "RoCEv1",
}
_PROTOCOLS: Final = {0x1B: "InfiniBand BTH", 1: "ICMP", 6: "TCP", 17: "UDP", 58: "ICMPv6"}
#: RFC 2474 (class selectors), 2597 (assured forwarding), 3246 (expedited forwarding)
_DSCP: Final = (
    {8 * kind: f"CS{kind}" for kind in range(8)}
    | {8 * kind + 2 * drop: f"AF{kind}{drop}" for kind in range(1, 5) for drop in range(1, 4)}
    | {46: "EF"}
)
_ECN: Final = {0: "not ECN-capable", 1: "ECT(1)", 2: "ECT(0)", 3: "CE: congestion experienced"}


def _f(
    name: str,
    bits: int,
    meaning: str,
    shown: Shown = Shown.NUMBER,
    *,
    masked: bool = False,
    names: Mapping[int, str] | None = None,
) -> HeaderField:
    return HeaderField(name, bits, meaning, shown, masked, MappingProxyType(dict(names or {})))


_ETHERNET: Final = (
    _f("Destination", 48, "MAC address of the next device; routers rewrite it", Shown.MAC),
    _f("Source", 48, "MAC address of the sender on this link; routers rewrite it", Shown.MAC),
    _f("EtherType", 16, "what follows", _HEX, names=_ETHERTYPES),
)
_VLAN: Final = (
    _f("PCP", 3, "priority code point: the priority where trust is in the tag"),
    _f("DEI", 1, "drop eligible", _FLAG),
    _f("VID", 12, "VLAN identifier"),
    _f("EtherType", 16, "what follows", _HEX, names=_ETHERTYPES),
)
_IPV4: Final = (
    _f("Version", 4, "4"),
    _f("IHL", 4, "length of the header, in 4-byte words"),
    _f("DSCP", 6, "class: switches map it to a priority and queue", masked=True, names=_DSCP),
    _f("ECN", 2, "congestion notification: switches mark CE", masked=True, names=_ECN),
    _f("Total Length", 16, "bytes from this header to the end of the ICRC"),
    _f("Identification", 16, "tells fragments of one packet", _HEX),
    _f("Reserved", 1, "0", _FLAG),
    _f("DF", 1, "do not fragment", _FLAG),
    _f("MF", 1, "more fragments follow", _FLAG),
    _f("Fragment Offset", 13, "place of this fragment, in 8-byte units"),
    _f("TTL", 8, "hops left: each router takes one", masked=True),
    _f("Protocol", 8, "what follows", names=_PROTOCOLS),
    _f("Header Checksum", 16, "of this header; routers write it anew", _HEX, masked=True),
    _f("Source", 32, "address of the sending adapter", Shown.IPV4),
    _f("Destination", 32, "address of the receiving adapter", Shown.IPV4),
)
_IPV6: Final = (
    _f("Version", 4, "6"),
    _f("DSCP", 6, "class: switches map it to a priority and queue", masked=True, names=_DSCP),
    _f("ECN", 2, "congestion notification: switches mark CE", masked=True, names=_ECN),
    _f("Flow Label", 20, "may spread flows over equal paths", _HEX, masked=True),
    _f("Payload Length", 16, "bytes after this header to the end of the ICRC"),
    _f("Next Header", 8, "what follows", names=_PROTOCOLS),
    _f("Hop Limit", 8, "hops left: each router takes one", masked=True),
    _f("Source", 128, "address of the sending adapter", Shown.IPV6),
    _f("Destination", 128, "address of the receiving adapter", Shown.IPV6),
)
_GRH: Final = (
    _f("IPVer", 4, "6"),
    _f("TClass", 8, "traffic class: DSCP and ECN", _HEX, masked=True),
    _f("FlowLabel", 20, "packets that must keep their order", _HEX, masked=True),
    _f("PayLen", 16, "bytes after this header to the end of the ICRC"),
    _f("NxtHdr", 8, "what follows", _HEX, names=_PROTOCOLS),
    _f("HopLmt", 8, "hops left between subnets", masked=True),
    _f("SGID", 128, "global identifier of the sending port", Shown.IPV6),
    _f("DGID", 128, "global identifier of the receiving port", Shown.IPV6),
)
_UDP: Final = (
    _f("Source Port", 16, "entropy: one value a queue pair, so that ECMP spreads them"),
    _f("Destination Port", 16, "4791 says RoCEv2", names={4791: "RoCEv2"}),
    _f("Length", 16, "bytes from this header to the end of the ICRC"),
    _f("Checksum", 16, "0: none; the ICRC protects the packet", _HEX, masked=True),
)
_TCP: Final = (
    _f("Source Port", 16, "port of the sender"),
    _f("Destination Port", 16, "port of the receiver"),
    _f("Sequence Number", 32, "place of the first byte in the stream"),
    _f("Acknowledgment Number", 32, "next byte that the sender of this expects"),
    _f("Data Offset", 4, "length of the header, in 4-byte words"),
    _f("Reserved", 4, "0"),
    _f("CWR", 1, "the sender has slowed down", _FLAG),
    _f("ECE", 1, "congestion mark echoed", _FLAG),
    _f("URG", 1, "the urgent pointer counts", _FLAG),
    _f("ACK", 1, "the acknowledgment number counts", _FLAG),
    _f("PSH", 1, "hand over to the application", _FLAG),
    _f("RST", 1, "end the connection at once", _FLAG),
    _f("SYN", 1, "open a connection", _FLAG),
    _f("FIN", 1, "no more data from the sender", _FLAG),
    _f("Window", 16, "bytes that the sender of this can take"),
    _f("Checksum", 16, "of addresses, header and data", _HEX),
    _f("Urgent Pointer", 16, "end of urgent data"),
)
_LRH: Final = (
    _f("VL", 4, "virtual lane on this link; switches choose it by SL", masked=True),
    _f("LVer", 4, "link version, 0"),
    _f("SL", 4, "service level, from end to end"),
    _f("Reserved 2", 2, "0"),
    _f(
        "LNH",
        2,
        "what follows",
        names={0: "raw", 1: "IPv6", 2: "BTH (local)", 3: "GRH (global)"},
    ),
    _f("DLID", 16, "local identifier of the receiving port: switches forward by it"),
    _f("Reserved 5", 5, "0"),
    _f("PktLen", 11, "4-byte words from this header to the end of the ICRC"),
    _f("SLID", 16, "local identifier of the sending port"),
)
_BTH: Final = (
    _f(
        "OpCode",
        8,
        "transport service and operation; says which headers follow",
        _HEX,
        names={
            code: opcode_name(code) for code in range(256) if extended_headers(code) is not None
        },
    ),
    _f("SE", 1, "solicited event: the receiver may raise an event", _FLAG),
    _f("M", 1, "migration state of the path", _FLAG),
    _f("PadCnt", 2, "bytes that fill the payload to a multiple of four"),
    _f("TVer", 4, "transport version, 0"),
    _f("P_Key", 16, "partition: both ends must be in it; top bit: full member", _HEX),
    _f("FECN", 1, "congestion seen on the way there (InfiniBand)", _FLAG, masked=True),
    _f("BECN", 1, "congestion told back: set in a CNP", _FLAG, masked=True),
    _f("Resv6a", 6, "0", masked=True),
    _f("DestQP", 24, "queue pair at the receiver"),
    _f("A", 1, "acknowledge this packet", _FLAG),
    _f("Resv7b", 7, "0"),
    _f("PSN", 24, "packet sequence number, one up a packet"),
)
_VA: Final = _f("VA", 64, "virtual address in the receiver's memory", _HEX)
_RKEY: Final = _f("R_Key", 32, "key of the receiver's memory region", _HEX)
_RETH: Final = (_VA, _RKEY, _f("DMALen", 32, "bytes of the whole message"))
_AETH: Final = (
    _f("Syndrome", 8, "kind of acknowledgement with credits, timer or NAK code", _HEX),
    _f("MSN", 24, "messages that the responder has completed"),
)
_ATOMIC: Final = (
    _VA,
    _RKEY,
    _f("SwapDt", 64, "value to swap in, or to add", _HEX),
    _f("CmpDt", 64, "swap only where memory holds this", _HEX),
)
_DETH: Final = (
    _f("Q_Key", 32, "key that a datagram must bring", _HEX),
    _f("Reserved", 8, "0"),
    _f("SrcQP", 24, "queue pair of the sender"),
)
_SLL: Final = (
    _f("Packet Type", 16, "for this host, from it, or seen by the way"),
    _f("Device Type", 16, "kind of the interface"),
    _f("Address Length", 16, "bytes of the address that count"),
    _f("Address", 64, "of the sender on this link", _HEX),
    _f("Protocol", 16, "what follows", _HEX, names=_ETHERTYPES),
)
_SLL2: Final = (
    _f("Protocol", 16, "what follows", _HEX, names=_ETHERTYPES),
    _f("Reserved", 16, "0"),
    _f("Interface", 32, "index of the interface"),
    _f("Device Type", 16, "kind of the interface"),
    _f("Packet Type", 8, "for this host, from it, or seen by the way"),
    _f("Address Length", 8, "bytes of the address that count"),
    _f("Address", 64, "of the sender on this link", _HEX),
)
_ERF: Final = (
    _f("Timestamp", 64, "of the capture card, least significant byte first", _HEX),
    _f("Extended", 1, "extension headers follow", _FLAG),
    _f("Type", 7, "what was captured", names={2: "Ethernet", 21: "InfiniBand"}),
    _f("Flags", 8, "of the capture card", _HEX),
    _f("Record Length", 16, "bytes of the record"),
    _f("Lost", 16, "records lost before this one"),
    _f("Wire Length", 16, "bytes of the packet on the wire"),
)
_ERF_EXTENSION: Final = (
    _f("More", 1, "another extension header follows", _FLAG),
    _f("Extension", 63, "of the capture card", _HEX),
)
_IBA: Final = "InfiniBand volume 1"


def _one(name: str, bits: int, meaning: str) -> tuple[HeaderField, ...]:
    return (_f(name, bits, meaning, _HEX),)


#: every header by name
HEADERS: Final[Mapping[str, HeaderFormat]] = MappingProxyType(
    {
        name: HeaderFormat(name, title, source, fields)
        for name, title, source, fields in (
            ("Ethernet", "Ethernet header", "IEEE 802.3", _ETHERNET),
            ("VLAN", "VLAN tag", "IEEE 802.1Q", _VLAN),
            ("IPv4", "Internet Protocol version 4", "RFC 791, 2474, 3168", _IPV4),
            ("IPv6", "Internet Protocol version 6", "RFC 8200, 2474, 3168", _IPV6),
            ("UDP", "User Datagram Protocol", "RFC 768", _UDP),
            ("TCP", "Transmission Control Protocol", "RFC 9293", _TCP),
            ("SLL", "Linux cooked capture", "LINKTYPE_LINUX_SLL", _SLL),
            ("SLL2", "Linux cooked capture, version 2", "LINKTYPE_LINUX_SLL2", _SLL2),
            ("ERF", "Extensible Record Format", "LINKTYPE_ERF", _ERF),
            ("ERF extension", "ERF extension header", "LINKTYPE_ERF", _ERF_EXTENSION),
            ("LRH", "local route header", f"{_IBA}, 7.7", _LRH),
            ("GRH", "global route header", f"{_IBA}, 8.3", _GRH),
            ("BTH", "base transport header", f"{_IBA}, 9.2", _BTH),
            ("DETH", "datagram extended transport header", f"{_IBA}, 9.3.2", _DETH),
            ("RETH", "RDMA extended transport header", f"{_IBA}, 9.3.3", _RETH),
            ("AtomicETH", "atomic extended transport header", f"{_IBA}, 9.3.4", _ATOMIC),
            ("AETH", "ACK extended transport header", f"{_IBA}, 9.3.5", _AETH),
            (
                "AtomicAckETH",
                "atomic acknowledge extended transport header",
                f"{_IBA}, 9.3.5.3",
                _one("OrigRemDt", 64, "what memory held before"),
            ),
            (
                "ImmDt",
                "immediate data",
                f"{_IBA}, 9.3.6",
                _one("Immediate", 32, "four bytes for the receiver's completion"),
            ),
            (
                "IETH",
                "invalidate extended transport header",
                f"{_IBA}, 9.3.7",
                _one("R_Key", 32, "key that the receiver gives up"),
            ),
            (
                "CNP",
                "congestion notification packet",
                "annex A17.9.3",
                _one("Reserved", 128, "0"),
            ),
            (
                "ICRC",
                "invariant CRC",
                f"{_IBA}, 7.8.1; annex A17.3.3",
                _one("ICRC", 32, "CRC-32 of all that does not change from end to end"),
            ),
            (
                "VCRC",
                "variant CRC",
                f"{_IBA}, 7.8.2",
                _one("VCRC", 16, "CRC-16 of the whole packet, written anew on each link"),
            ),
            (
                "FCS",
                "frame check sequence",
                "IEEE 802.3",
                _one("FCS", 32, "CRC-32 of the frame, written anew on each link"),
            ),
        )
    }
)
