"""From the bytes of a frame to its layers, its packet and what is wrong with it."""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import Final

from railweave.formats.pcap import LinkType
from railweave.transport.codec._decode_transport import transport
from railweave.transport.codec._frame import ROCEV2_PORT, Carrier, Frame
from railweave.transport.codec._reader import Reader
from railweave.transport.codec._views import ipv6_text, mac_text
from railweave.transport.codec.icrc import fcs as frame_check
from railweave.transport.codec.icrc import internet_checksum, vcrc

__all__ = ["decode"]

_TAGS: Final = (0x8100, 0x88A8)
_BTH_PROTOCOL: Final = 0x1B
_UDP, _TCP = 17, 6
_FRAGMENT: Final = "The packet is a fragment; fragments are not put together."
_LINKS: Final = tuple(kind for kind in LinkType if kind is not LinkType.NULL)
_MAPPED: Final = 0xFFFF
_IPV4: Final = 0xFFFFFFFF


def decode(frame: bytes, *, link: int = LinkType.ETHERNET, fcs: bool = False) -> Frame:
    """Explain the bytes of one frame; foreign, damaged and cut-off bytes give problems, no errors.

    Args:
        frame: as captured.
        link: its link type, as in :class:`LinkType`; unknown ones give unexplained bytes.
        fcs: the frame ends with Ethernet's frame check sequence.
    """
    reader = Reader(bytes(frame))
    match link:
        case LinkType.ETHERNET:
            _ethernet(reader, fcs)
        case LinkType.RAW_IP | 228 | 229:  # 228, 229: IPv4 only, IPv6 only
            _raw_ip(reader)
        case LinkType.INFINIBAND:
            _infiniband(reader)
        case LinkType.LINUX_SLL:
            if (cooked := reader.header("SLL")) is not None:
                _ethertype(reader, cooked[-1])
        case LinkType.LINUX_SLL2:
            if (cooked := reader.header("SLL2")) is not None:
                _ethertype(reader, cooked[0])
        case LinkType.ERF:
            _erf(reader)
        case _:
            known = ", ".join(f"{kind.value} ({kind.name})" for kind in _LINKS)
            reader.problem(f"Link type {link} is not decoded; those that are: {known}.")
    return reader.frame()


# ---------------------------------------------------------------- link


def _ethernet(reader: Reader, fcs: bool) -> None:
    size = len(reader.data)
    if fcs and size >= 18:
        found = reader.trailer("FCS", size - 4)
        reader.limit = reader.ends = size - 4
        wanted = int.from_bytes(frame_check(reader.data[:-4]), "big")
        if found != wanted:
            reader.problem(f"The FCS is {found:#010x} but should be {wanted:#010x}.")
    header = reader.header("Ethernet")
    if header is not None:
        target, source, kind = header
        reader.below(target_mac=mac_text(target), source_mac=mac_text(source))
        _ethertype(reader, kind)


def _ethertype(reader: Reader, kind: int) -> None:
    tags = 0
    while kind in _TAGS:
        tag = reader.header("VLAN")
        if tag is None:
            return
        if not tags:
            reader.below(vlan=tag[2], vlan_priority=tag[0])
        tags += 1
        kind = tag[3]
    if tags > 1:
        reader.problem(f"The frame has {tags} VLAN tags; the envelope holds the first.")
    match kind:
        case 0x0800:
            _ipv4(reader)
        case 0x86DD:
            _ipv6(reader)
        case 0x8915:
            reader.below(carrier=Carrier.ROCEV1)
            _grh(reader)
        case _ if kind < 0x600:
            reader.problem(f"The frame is of IEEE 802.3 with length {kind}; it holds no RDMA.")
        case _:
            reader.problem(f"EtherType {kind:#06x} is neither IP nor RoCEv1; it holds no RDMA.")


def _raw_ip(reader: Reader) -> None:
    if not reader.data:
        reader.problem("The frame is empty.")
    elif reader.data[0] >> 4 == 6:
        _ipv6(reader)
    else:
        _ipv4(reader)


def _erf(reader: Reader) -> None:
    """Read a record of the Extensible Record Format, in which InfiniBand captures come."""
    record = reader.header("ERF")
    more = record is not None and record[1]
    while more:
        extension = reader.header("ERF extension")
        more = extension is not None and extension[0]
    if record is None:
        return
    match record[2]:
        case 21:
            _infiniband(reader)
        case 2:
            if reader.limit - reader.at >= 2:
                pad = reader.data[reader.at : reader.at + 2]
                reader.piece("ERF", ("Offset and pad", pad, "place of the frame"))
                _ethernet(reader, False)
        case kind:
            reader.problem(f"Records of ERF type {kind} are not decoded.")


def _infiniband(reader: Reader) -> None:
    began = reader.at
    header = reader.header("LRH")
    if header is None:
        return
    lane, version, level, _, follows, target, _, words, source = header
    reader.below(
        virtual_lane=lane,
        service_level=level,
        target_lid=target,
        source_lid=source,
    )
    if version:
        reader.problem(f"Link version {version} is not known; 0 is the only one.")
    if follows not in (2, 3):
        reader.problem("The packet is raw: the LRH says that no transport follows.")
        return
    reader.below(carrier=Carrier.INFINIBAND, global_route=follows == 3)
    end = began + 4 * words
    if not reader.ends_at(end, "LRH", trailer=2):
        return
    if not reader.cut:
        _variant(reader, began, end)
    if follows == 3:
        _grh(reader)
    else:
        transport(reader, "LRH")


def _variant(reader: Reader, began: int, end: int) -> None:
    """Note the VCRC behind the packet and check it."""
    if end + 2 > len(reader.data):
        reader.problem("The capture holds no VCRC.")
        return
    found = reader.trailer("VCRC", end)
    wanted = int.from_bytes(vcrc(reader.data[began:end]), "big")
    if found != wanted:
        reader.problem(f"The VCRC is {found:#06x} but should be {wanted:#06x}.")


# ---------------------------------------------------------------- network


def _grh(reader: Reader) -> None:
    header = reader.header("GRH")
    if header is None:
        return
    version, traffic, label, size, follows, hops, source, target = header
    mapped = source >> 32 == _MAPPED and target >> 32 == _MAPPED
    ends = [str(IPv4Address(g & _IPV4)) if mapped else ipv6_text(g) for g in (source, target)]
    reader.below(
        dscp=traffic >> 2,
        ecn=traffic & 3,
        flow_label=label,
        ttl=hops,
        source_ip=ends[0],
        target_ip=ends[1],
    )
    if version != 6:
        reader.problem(f"The GRH is of version {version}, not 6.")
    if follows != _BTH_PROTOCOL:
        reader.problem(f"The GRH says that {follows:#04x} follows, not a BTH (0x1b).")
        return
    end = reader.at + size
    if reader.carrier is Carrier.ROCEV1:
        if not reader.ends_at(end, "GRH"):
            return
    elif end != reader.ends:
        reader.problem("GRH and LRH do not agree on the length of the packet.")
    transport(reader, "GRH")


def _ipv4(reader: Reader) -> None:
    start = reader.at
    header = reader.header("IPv4")
    if header is None:
        return
    (version, words, dscp, ecn, total, ident, _, whole, more, offset, ttl, protocol, _, *ends) = (
        header
    )
    reader.below(
        dscp=dscp,
        ecn=ecn,
        ttl=ttl,
        identification=ident,
        dont_fragment=bool(whole),
        source_ip=str(IPv4Address(ends[0])),
        target_ip=str(IPv4Address(ends[1])),
    )
    if version != 4 or words < 5:
        reader.problem(f"The IPv4 header has version {version} and {words} words; 4 and 5 or more.")
        return
    options = reader.data[reader.at : min(start + 4 * words, reader.limit)]
    reader.piece("IPv4 options", ("Options", options, "seldom seen"))
    if reader.at < start + 4 * words:
        reader.problem("The frame ends within the options of the IPv4 header.")
        return
    if internet_checksum(reader.data[start : reader.at]):
        reader.problem("The checksum of the IPv4 header is wrong.")
    if not reader.ends_at(start + total, "IPv4 header"):
        return
    if more or offset:
        reader.problem(_FRAGMENT)
        return
    pseudo = ends[0] + ends[1]
    _above_ip(reader, "IPv4", protocol, pseudo)


def _ipv6(reader: Reader) -> None:
    header = reader.header("IPv6")
    if header is None:
        return
    version, dscp, ecn, label, size, follows, hops, source, target = header
    reader.below(
        dscp=dscp,
        ecn=ecn,
        ttl=hops,
        flow_label=label,
        source_ip=ipv6_text(source),
        target_ip=ipv6_text(target),
    )
    if version != 6:
        reader.problem(f"The IPv6 header has version {version}.")
        return
    if reader.ends_at(reader.at + size, "IPv6 header"):
        _above_ip(reader, "IPv6", follows, source + target)


def _above_ip(reader: Reader, name: str, protocol: int, pseudo: int) -> None:
    if protocol == _UDP:
        _udp(reader, name, pseudo)
    elif protocol == _TCP:
        _tcp(reader, pseudo)
    else:
        reader.problem(f"Protocol {protocol} over {name} is neither UDP nor TCP; it holds no RDMA.")


def _sum_is_right(reader: Reader, start: int, protocol: int, pseudo: int) -> bool:
    """Check the checksum of UDP or TCP from ``start`` to the packet's end."""
    segment = reader.data[start : reader.limit]
    head = (pseudo + protocol + len(segment)) % 0xFFFF
    return internet_checksum(head.to_bytes(2, "big") + segment) == 0


def _udp(reader: Reader, name: str, pseudo: int) -> None:
    start = reader.at
    header = reader.header("UDP")
    if header is None:
        return
    source, target, size, check = header
    if target != ROCEV2_PORT:
        reader.problem(f"UDP port {target} is not that of RoCEv2, {ROCEV2_PORT}.")
        return
    reader.below(carrier=Carrier.ROCEV2, source_port=source)
    if bool(check) != (name == "IPv6"):
        reader.below(udp_checksum=bool(check))
    if start + size != reader.ends:
        reader.problem(f"The UDP header says {size:,} bytes, IP {reader.ends - start:,}.")
    if check and not reader.cut and not _sum_is_right(reader, start, _UDP, pseudo):
        reader.problem("The checksum of UDP is wrong; receivers of RoCEv2 ignore it.")
    transport(reader, name)


def _tcp(reader: Reader, pseudo: int) -> None:
    start = reader.at
    header = reader.header("TCP")
    if header is None:
        return
    words = header[4]
    end = start + 4 * words
    if words < 5 or end > reader.limit:
        reader.problem(f"A TCP header of {words} words does not fit the frame.")
        return
    reader.piece("TCP options", ("Options", reader.data[reader.at : end], "such as timestamps"))
    data = reader.data[reader.at : reader.limit]
    reader.piece("Payload", ("Payload", data, "bytes of the stream"))
    if not reader.cut and not _sum_is_right(reader, start, _TCP, pseudo):
        reader.problem(
            "The checksum of TCP is wrong, or was left to the adapter when this was captured."
        )
