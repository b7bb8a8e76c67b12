"""Packets of every opcode and every way to carry them, for the tests of the codec."""

from hypothesis import strategies as st

from railweave.transport.codec import Carrier, Envelope
from railweave.transport.codec.headers import extended_headers, has_payload
from railweave.transport.packets import (
    CNP_OPCODE,
    Aeth,
    AtomicAckEth,
    AtomicEth,
    Bth,
    Deth,
    IbPacket,
    Opcode,
    Reth,
)

#: every opcode that a service has, and the CNP
OPCODES = [opcode for opcode in range(256) if extended_headers(opcode) is not None]
#: packets that are as long as the path MTU
BEFORE_THE_LAST = {
    Opcode.SEND_FIRST, Opcode.SEND_MIDDLE, Opcode.WRITE_FIRST, Opcode.WRITE_MIDDLE,
    Opcode.READ_RESPONSE_FIRST, Opcode.READ_RESPONSE_MIDDLE,
}  # fmt: skip
ENVELOPES = {
    "rocev2-ipv4": Envelope(Carrier.ROCEV2, identification=0x1234, source_port=50321),
    "rocev2-ipv4-vlan": Envelope(Carrier.ROCEV2, vlan=120, vlan_priority=3, dscp=26, ecn=3),
    "rocev2-ipv6": Envelope(
        Carrier.ROCEV2, source_ip="fd00::1", target_ip="fd00:0:0:7::2", flow_label=0xABCDE
    ),
    "rocev2-ipv6-vlan": Envelope(
        Carrier.ROCEV2, source_ip="fe80::1", target_ip="fe80::2", vlan=4094, ttl=255, dscp=0
    ),
    "rocev1": Envelope(Carrier.ROCEV1, source_ip="fe80::1", target_ip="fe80::2", ttl=1),
    "rocev1-mapped-vlan": Envelope(Carrier.ROCEV1, vlan=5, vlan_priority=4),
    "infiniband": Envelope(
        Carrier.INFINIBAND, source_lid=0x17D2, target_lid=0x375C, service_level=1, virtual_lane=7
    ),
    "infiniband-global": Envelope(
        Carrier.INFINIBAND, source_ip="fe80::1", target_ip="fe80::2", global_route=True
    ),
}


def with_opcode(opcode, payload=b"", **bth):
    """Return a packet with an opcode and the headers that it calls for."""
    values = {
        "DETH": {"deth": Deth(0x11111111, 0x000ABC)},
        "RETH": {"reth": Reth(0x7F0012345678, 0xDEADBEEF, 4096)},
        "AtomicETH": {"atomic": AtomicEth(0x7F0000000008, 0x1234, 0x1122334455667788, 0x99)},
        "AETH": {"aeth": Aeth(0x1F, 0x00ABCD)},
        "AtomicAckETH": {"atomic_ack": AtomicAckEth(0xFEDCBA9876543210)},
        "ImmDt": {"immediate": 0xCAFEF00D},
        "IETH": {"invalidate_rkey": 0x00C0FFEE},
        "CNP": {},
    }
    parts = {}
    for name in extended_headers(opcode):
        parts |= values[name]
    data = payload if has_payload(opcode) else b""
    fields = {"pad": -len(data) % 4, "becn": opcode == CNP_OPCODE} | bth
    return IbPacket(
        Bth(opcode, **{"dest_qp": 0x12AB, "psn": 0x00D32A} | fields), **parts, payload=data
    )


def _number(bits):
    return st.integers(0, (1 << bits) - 1)


@st.composite
def packets(draw):
    """Any packet that there can be, with small payloads where they need not be a path MTU."""
    opcode = draw(st.sampled_from(OPCODES))
    data = draw(st.binary(max_size=40)) if has_payload(opcode) else b""
    low = opcode & 0b11111 if opcode != CNP_OPCODE else None
    if low in BEFORE_THE_LAST:
        data = data.ljust(draw(st.sampled_from((256, 512))), b"x")
    length = _number(32)
    if low in {Opcode.WRITE_ONLY, Opcode.WRITE_ONLY_IMMEDIATE}:
        length = st.just(len(data))
    elif low == Opcode.WRITE_FIRST:
        length = st.integers(len(data) + 1, (1 << 32) - 1)
    fields = {
        "DETH": ("deth", st.builds(Deth, _number(32), _number(24))),
        "RETH": ("reth", st.builds(Reth, _number(64), _number(32), length)),
        "AtomicETH": (
            "atomic",
            st.builds(AtomicEth, _number(64), _number(32), _number(64), _number(64)),
        ),
        "AETH": ("aeth", st.builds(Aeth, _number(8), _number(24))),
        "AtomicAckETH": ("atomic_ack", st.builds(AtomicAckEth, _number(64))),
        "ImmDt": ("immediate", _number(32)),
        "IETH": ("invalidate_rkey", _number(32)),
    }
    parts = {}
    for name in extended_headers(opcode):
        if name != "CNP":
            attribute, values = fields[name]
            parts[attribute] = draw(values)
    bth = Bth(
        opcode,
        draw(_number(24)),
        draw(_number(24)),
        ack_request=draw(st.booleans()),
        solicited=draw(st.booleans()),
        migrated=draw(st.booleans()),
        pad=-len(data) % 4,
        pkey=draw(_number(16)),
        fecn=draw(st.booleans()),
        becn=draw(st.booleans()),
    )
    return IbPacket(bth, **parts, payload=data)


@st.composite
def envelopes(draw):
    """Any way to carry a packet."""
    carrier = draw(st.sampled_from(list(Carrier)))
    version = draw(st.sampled_from((4, 6)))
    # a mapped IPv4 address has several spellings, and as a GID it is shown as IPv4
    plain = st.ip_addresses(v=version).filter(lambda ip: int(ip) >> 32 != 0xFFFF)
    address = plain.map(str)
    mac = _number(48).map(lambda number: ":".join(f"{b:02x}" for b in number.to_bytes(6, "big")))
    ethernet = carrier is not Carrier.INFINIBAND
    routed = not ethernet and draw(st.booleans())
    fields = {"carrier": carrier}
    if ethernet:
        fields |= {"source_mac": draw(mac), "target_mac": draw(mac)}
        if draw(st.booleans()):
            fields |= {"vlan": draw(_number(12)), "vlan_priority": draw(_number(3))}
    else:
        fields |= {
            "source_lid": draw(_number(16)),
            "target_lid": draw(_number(16)),
            "service_level": draw(_number(4)),
            "virtual_lane": draw(_number(4)),
            "global_route": routed,
        }
    if ethernet or routed:
        fields |= {
            "source_ip": draw(address),
            "target_ip": draw(address),
            "dscp": draw(_number(6)),
            "ecn": draw(_number(2)),
            "ttl": draw(_number(8)),
        }
        if carrier is not Carrier.ROCEV2 or version == 6:
            fields["flow_label"] = draw(_number(20))
    if carrier is Carrier.ROCEV2:
        fields["source_port"] = draw(_number(16))
        fields["udp_checksum"] = draw(st.sampled_from((None, version == 4)))
        if version == 4:
            fields["identification"] = draw(_number(16))
            fields["dont_fragment"] = draw(st.booleans())
    return Envelope(**fields)
