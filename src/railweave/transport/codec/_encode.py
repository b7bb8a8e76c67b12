"""From a packet and its envelope to the bytes of a frame."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_address
from typing import Final

from railweave.errors import InputError
from railweave.transport.codec._frame import ROCEV2_PORT, Carrier, Envelope
from railweave.transport.codec.headers import HEADERS, extended_headers, has_payload, opcode_name
from railweave.transport.codec.icrc import fcs as frame_check
from railweave.transport.codec.icrc import icrc, internet_checksum, mask, vcrc
from railweave.transport.packets import CNP_OPCODE, MTU_BYTES, Bth, IbPacket

__all__ = ["cnp", "encode", "encode_tcp", "erf_record"]

_ETHERNET, _VLAN = HEADERS["Ethernet"].pack, HEADERS["VLAN"].pack
_IPV4, _IPV6, _UDP = HEADERS["IPv4"].pack, HEADERS["IPv6"].pack, HEADERS["UDP"].pack
_TCP, _LRH, _GRH = HEADERS["TCP"].pack, HEADERS["LRH"].pack, HEADERS["GRH"].pack
_BTH, _ERF = HEADERS["BTH"].pack, HEADERS["ERF"].pack
_MIN_FRAME: Final = 60  #: Ethernet's 64 bytes less the FCS
_UDP_PROTOCOL: Final = 17
_TCP_PROTOCOL: Final = 6
_BTH_PROTOCOL: Final = 0x1B
_ERF_INFINIBAND: Final = 21
_ERF_VARYING: Final = 0x04  #: records are as long as their packets
_TCP_FLAGS: Final = ("CWR", "ECE", "URG", "ACK", "PSH", "RST", "SYN", "FIN")


def cnp(dest_qp: int, *, pkey: int = 0xFFFF) -> IbPacket:
    """Return RoCEv2's congestion notification packet to a queue pair (annex A17.9.3)."""
    return IbPacket(Bth(CNP_OPCODE, dest_qp, 0, migrated=False, pkey=pkey, becn=True))


# ---------------------------------------------------------------- transport


def _extended(packet: IbPacket) -> list[tuple[str, tuple[int, ...]]]:
    """Return the extended headers that a packet has, with their values, in wire order."""
    found: list[tuple[str, tuple[int, ...]]] = []
    if (deth := packet.deth) is not None:
        found.append(("DETH", (deth.qkey, 0, deth.source_qp)))
    if (reth := packet.reth) is not None:
        found.append(("RETH", (reth.va, reth.rkey, reth.length)))
    if (atomic := packet.atomic) is not None:
        found.append(("AtomicETH", (atomic.va, atomic.rkey, atomic.swap, atomic.compare)))
    if (aeth := packet.aeth) is not None:
        found.append(("AETH", (aeth.syndrome, aeth.msn)))
    if (ack := packet.atomic_ack) is not None:
        found.append(("AtomicAckETH", (ack.original,)))
    if packet.immediate is not None:
        found.append(("ImmDt", (packet.immediate,)))
    if packet.invalidate_rkey is not None:
        found.append(("IETH", (packet.invalidate_rkey,)))
    if packet.bth.opcode == CNP_OPCODE:
        found.append(("CNP", (0,)))
    return found


def _refuse(packet: IbPacket, names: tuple[str, ...]) -> None:
    """Say what is wrong with the headers or the payload of a packet."""
    opcode = packet.bth.opcode
    wanted = extended_headers(opcode)
    said = opcode_name(opcode)
    if wanted is None:
        raise InputError(f"{said}: no packet is made with it; see railweave.transport.packets")
    if names != wanted:
        raise InputError(
            f"{said} has the headers {', '.join(names) or 'none'} after its BTH; "
            f"allowed: exactly {', '.join(wanted) or 'none'}"
        )
    if packet.payload and not has_payload(opcode):
        raise InputError(f"{said} carries no payload, but {len(packet.payload):,} bytes are given")
    if len(packet.payload) > MTU_BYTES[-1]:
        raise InputError(
            f"{said}: a payload of {len(packet.payload):,} bytes is more than the largest path "
            f"MTU; allowed: at most {MTU_BYTES[-1]:,} bytes, cut the message into packets"
        )


def _transport(packet: IbPacket) -> tuple[bytes, bytes]:
    """Return the BTH, and all after it to the last byte of padding."""
    bth, payload = packet.bth, packet.payload
    extended = _extended(packet)
    names = tuple([name for name, _ in extended])
    if (
        names != extended_headers(bth.opcode)
        or len(payload) > MTU_BYTES[-1]
        or (payload and not has_payload(bth.opcode))
    ):
        _refuse(packet, names)
    pad = -len(payload) % 4
    if bth.pad not in (0, pad):
        raise InputError(
            f"pad {bth.pad} does not fill a payload of {len(payload):,} bytes to a multiple of "
            f"four; allowed: {pad}, or 0 to have it found"
        )
    head = _BTH(
        bth.opcode,
        bth.solicited,
        bth.migrated,
        pad,
        bth.version,
        bth.pkey,
        bth.fecn,
        bth.becn,
        0,
        bth.dest_qp,
        bth.ack_request,
        0,
        bth.psn,
    )
    parts = [HEADERS[name].pack(*values) for name, values in extended]
    return head, b"".join((*parts, payload, bytes(pad)))


# ---------------------------------------------------------------- below it


def _mac(text: str) -> int:
    parts = text.replace("-", ":").split(":")
    try:
        if len(parts) == 6 and all(0 < len(part) <= 2 for part in parts):
            return int("".join(part.zfill(2) for part in parts), 16)
    except ValueError:
        pass
    raise InputError(f"{text!r} is no MAC address; allowed: six bytes such as 02:00:00:00:00:01")


def _addresses(envelope: Envelope) -> tuple[IPv4Address | IPv6Address, IPv4Address | IPv6Address]:
    try:
        source, target = ip_address(envelope.source_ip), ip_address(envelope.target_ip)
    except (AddressValueError, ValueError) as error:
        raise InputError(f"{error}; allowed: such as 10.0.0.1 or fd00::1") from None
    if source.version != target.version:
        raise InputError(
            f"{source} and {target} are of different versions; allowed: both IPv4 or both IPv6"
        )
    return source, target


def _gid(address: IPv4Address | IPv6Address) -> int:
    return int(address) | 0xFFFF << 32 if address.version == 4 else int(address)


def _link(envelope: Envelope, ethertype: int) -> bytes:
    """Return the Ethernet header, with its VLAN tag where there is one."""
    target, source = _mac(envelope.target_mac), _mac(envelope.source_mac)
    if envelope.vlan is None:
        return _ETHERNET(target, source, ethertype)
    tag = _VLAN(envelope.vlan_priority, 0, envelope.vlan, ethertype)
    return _ETHERNET(target, source, 0x8100) + tag


@lru_cache(maxsize=512)
def _network(envelope: Envelope, protocol: int) -> tuple[bytes, Callable[[int], bytes], int]:
    """Return the link header, a maker of IP headers by payload bytes, and the addresses' sum.

    The sum is that of the pseudo-header that UDP and TCP checksums count, as one number.
    """
    source, target = _addresses(envelope)
    e = envelope
    flow = (e.dscp, e.ecn)
    if source.version == 4:
        ends = (int(source), int(target))

        def ipv4(size: int) -> bytes:
            head = (4, 5, *flow, 20 + size, e.identification, 0, e.dont_fragment, 0, 0)
            bare = _IPV4(*head, e.ttl, protocol, 0, *ends)
            return bare[:10] + internet_checksum(bare).to_bytes(2, "big") + bare[12:]

        make, ethertype = ipv4, 0x0800
    else:
        both = (int(source), int(target))

        def ipv6(size: int) -> bytes:
            return _IPV6(6, *flow, e.flow_label, size, protocol, e.ttl, *both)

        make, ethertype = ipv6, 0x86DD
    ends_sum = int.from_bytes(source.packed + target.packed, "big") % 0xFFFF
    return _link(envelope, ethertype), make, ends_sum + protocol


def _checksum(pseudo: int, segment: bytes) -> int:
    """Return the checksum of UDP or TCP over pseudo-header and segment (length included)."""
    head = (pseudo + len(segment)) % 0xFFFF
    return internet_checksum(head.to_bytes(2, "big") + segment)


def _ethernet_end(frame: bytes, fcs: bool) -> bytes:
    """Fill a frame to Ethernet's least size, and add the FCS where asked."""
    if len(frame) < _MIN_FRAME:
        frame += bytes(_MIN_FRAME - len(frame))
    return frame + frame_check(frame) if fcs else frame


def _rocev2(bth: bytes, rest: bytes, envelope: Envelope) -> bytes:
    link, make, pseudo = _network(envelope, _UDP_PROTOCOL)
    size = 8 + len(bth) + len(rest) + 4
    ip = make(size)
    udp = _UDP(envelope.source_port, ROCEV2_PORT, size, 0)
    name = "IPv4" if len(ip) == 20 else "IPv6"
    check = icrc(mask(name, ip) + mask("UDP", udp) + mask("BTH", bth), rest)
    summed = envelope.udp_checksum
    if summed or (summed is None and name == "IPv6"):
        sum_ = _checksum(pseudo, b"".join((udp, bth, rest, check))) or 0xFFFF
        udp = udp[:6] + sum_.to_bytes(2, "big")
    return b"".join((link, ip, udp, bth, rest, check))


def _grh(envelope: Envelope, size: int) -> bytes:
    source, target = _addresses(envelope)
    traffic = envelope.dscp << 2 | envelope.ecn
    head = (6, traffic, envelope.flow_label, size, _BTH_PROTOCOL, envelope.ttl)
    return _GRH(*head, _gid(source), _gid(target))


def _rocev1(bth: bytes, rest: bytes, envelope: Envelope) -> bytes:
    grh = _grh(envelope, len(bth) + len(rest) + 4)
    check = icrc(mask("GRH", grh) + mask("BTH", bth), rest)
    return b"".join((_link(envelope, 0x8915), grh, bth, rest, check))


def _infiniband(bth: bytes, rest: bytes, envelope: Envelope) -> bytes:
    e = envelope
    size = len(bth) + len(rest) + 4
    grh = _grh(e, size) if e.global_route else b""
    words = (8 + len(grh) + size) // 4
    follows = 3 if e.global_route else 2
    lrh = _LRH(e.virtual_lane, 0, e.service_level, 0, follows, e.target_lid, 0, words, e.source_lid)
    if e.global_route:
        check = icrc(mask("GRH", grh) + mask("BTH", bth), rest)
    else:
        check = icrc(mask("LRH", lrh) + mask("BTH", bth), rest, local=True)
    packet = b"".join((lrh, grh, bth, rest, check))
    return packet + vcrc(packet)


def encode(packet: IbPacket, envelope: Envelope, *, fcs: bool = False) -> bytes:
    """Return the bytes of a packet as they stand on the wire.

    RoCE frames shorter than 60 bytes are filled up with zeros, as Ethernet wants it. InfiniBand
    packets end with ICRC and VCRC.

    Args:
        packet: BTH, the headers that its opcode calls for, payload. Its ``bth.pad`` may be left 0.
        envelope: everything below.
        fcs: add Ethernet's frame check sequence, which captures mostly leave out.

    Raises:
        InputError: headers do not fit the opcode, a value does not fit its bits, an address
            cannot be read, or the payload is larger than the largest path MTU.
    """
    try:
        bth, rest = _transport(packet)
        if envelope.carrier is Carrier.INFINIBAND:
            return _infiniband(bth, rest, envelope)
        roce = _rocev2 if envelope.carrier is Carrier.ROCEV2 else _rocev1
        return _ethernet_end(roce(bth, rest, envelope), fcs)
    except ValueError as error:
        raise InputError(str(error)) from None


def encode_tcp(
    payload: bytes,
    envelope: Envelope,
    *,
    target_port: int = 5001,
    sequence: int = 0,
    acknowledgment: int = 0,
    flags: tuple[str, ...] = ("ACK", "PSH"),
    window: int = 65535,
    timestamps: tuple[int, int] | None = (0, 0),
    options: bytes = b"",
    fcs: bool = False,
) -> bytes:
    """Return one TCP segment in a frame: what the same bytes look like without RDMA.

    Args:
        payload: bytes of the stream, at most what fits an IP packet.
        envelope: addresses, DSCP, ECN, TTL and source port; its carrier is ignored.
        target_port: destination port.
        sequence: place of the first byte in the stream.
        acknowledgment: next byte expected from the other end.
        flags: names of the flags that are set.
        window: bytes that the sender can take.
        timestamps: own and echoed value of the timestamp option (RFC 7323), None without it.
        options: others, before it: whole multiples of four bytes, as a SYN has.
        fcs: add Ethernet's frame check sequence.

    Raises:
        InputError: a value does not fit, an address cannot be read or a flag is not known.
    """
    unknown = [flag for flag in flags if flag not in _TCP_FLAGS]
    if unknown:
        raise InputError(f"no TCP flag {unknown[0]!r}; allowed: {', '.join(_TCP_FLAGS)}")
    try:
        if len(options) % 4:
            raise ValueError(f"TCP options of {len(options)} bytes; allowed: multiples of four")
        if timestamps is not None:
            stamps = b"".join(value.to_bytes(4, "big") for value in timestamps)
            options += b"\x01\x01\x08\x0a" + stamps
        bits = [int(flag in flags) for flag in _TCP_FLAGS]
        ports = (envelope.source_port, target_port, sequence, acknowledgment)
        header = _TCP(*ports, 5 + len(options) // 4, 0, *bits, window, 0, 0)
        link, make, pseudo = _network(envelope, _TCP_PROTOCOL)
        segment = header + options + payload
        check = _checksum(pseudo, segment).to_bytes(2, "big")
        ip = make(len(segment))
    except (ValueError, OverflowError) as error:
        raise InputError(str(error)) from None
    return _ethernet_end(link + ip + segment[:16] + check + segment[18:], fcs)


def erf_record(packet: bytes, time_ns: int = 0) -> bytes:
    """Return an InfiniBand packet as a record of the Extensible Record Format.

    Wireshark knows no captures of the link type InfiniBand (247), only this wrapping of them (link
    type 197).

    Args:
        packet: from LRH to VCRC.
        time_ns: when it was seen, since 1970.

    Raises:
        InputError: the time is before 1970 or after 2105.
    """
    seconds, rest = divmod(time_ns, 10**9)
    try:
        # seconds in the upper half, their fraction in the lower, least significant byte first
        stamp = (seconds << 32 | (rest << 32) // 10**9).to_bytes(8, "little")
        values = (int.from_bytes(stamp, "big"), 0, _ERF_INFINIBAND, _ERF_VARYING)
        return _ERF(*values, 16 + len(packet), 0, len(packet)) + packet
    except (ValueError, OverflowError) as error:
        raise InputError(str(error)) from None
