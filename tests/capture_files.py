"""Captures for tests: two hosts that talk RDMA, packet by packet."""

from __future__ import annotations

from dataclasses import replace

from railweave.formats.pcap import CapturedPacket, LinkType, write_pcap
from railweave.transport.codec import Carrier, Envelope, cnp, encode, encode_tcp
from railweave.transport.packets import Aeth, AtomicAckEth, AtomicEth, Bth, IbPacket, Opcode, Reth

A, B = 0x11, 0x22
START_NS = 1_700_000_000 * 10**9
THERE = Envelope(source_port=50001)
O = Opcode  # noqa: E741 - as the specification calls it
NAK_SEQUENCE, RNR = 0x60, 0x20 | 12


class Talk:
    """Packets between a host at 10.0.0.1 (queue pair A) and one at 10.0.0.2 (queue pair B)."""

    def __init__(self, envelope=THERE, *, qps=(A, B), step_ns=1000):
        self.packets = []
        self.there = envelope
        self.qps = qps
        self.step_ns = step_ns
        self.time_ns = START_NS

    def _back(self):
        there = self.there
        return replace(
            there,
            source_ip=there.target_ip,
            target_ip=there.source_ip,
            source_mac=there.target_mac,
            target_mac=there.source_mac,
            source_lid=there.target_lid,
            target_lid=there.source_lid,
        )

    def put(self, packet, *, back=False, lost=False, wrong=False, snap=0, interface=0, **changes):
        """Put a packet on the wire; a lost one only takes its time."""
        self.time_ns += self.step_ns
        if lost:
            return self
        envelope = replace(self._back() if back else self.there, **changes)
        data = bytearray(encode(packet, envelope))
        original = len(data)
        if wrong:
            at = len(data) - (6 if envelope.carrier is Carrier.INFINIBAND else 4)
            data[at] ^= 0x55
        self.packets.append(
            CapturedPacket(
                self.time_ns, self._link(), interface, bytes(data[: snap or None]), original
            )
        )
        return self

    def _link(self):
        infiniband = self.there.carrier is Carrier.INFINIBAND
        return LinkType.INFINIBAND if infiniband else LinkType.ETHERNET

    def request(self, opcode, psn, size=0, *, length=0, service=0, to=None, **how):
        """Send a request with a payload of so many bytes."""
        reth = Reth(0x7000, 0x1234, length or size) if _has_reth(opcode) else None
        atomic = (
            AtomicEth(0x7000, 0x1234, 1, 2) if opcode in {O.COMPARE_SWAP, O.FETCH_ADD} else None
        )
        bth = Bth(
            service << 5 | opcode, to or self.qps[1], psn & 0xFFFFFF, pad=-size % 4,
            ack_request="LAST" in opcode.name or "ONLY" in opcode.name,
        )  # fmt: skip
        payload = bytes(i & 0xFF for i in range(size))
        return self.put(IbPacket(bth, reth=reth, atomic=atomic, payload=payload), **how)

    def write(self, psn, packets, mtu=256, *, lost=(), **how):
        """Send a write of so many whole packets; those whose index is in ``lost`` are not seen."""
        for i in range(packets):
            if packets == 1:
                opcode = O.WRITE_ONLY
            else:
                opcode = O.WRITE_FIRST if not i else O.WRITE_MIDDLE
                opcode = O.WRITE_LAST if i == packets - 1 else opcode
            self.request(opcode, psn + i, mtu, length=mtu * packets, lost=i in lost, **how)
        return self

    def ack(self, psn, syndrome=0x1F, **how):
        """Answer with an acknowledgement or a NAK."""
        bth = Bth(O.ACKNOWLEDGE, self.qps[0], psn & 0xFFFFFF)
        return self.put(IbPacket(bth, aeth=Aeth(syndrome, 0)), **{"back": True} | how)

    def atomic_ack(self, psn, **how):
        """Answer an atomic."""
        bth = Bth(O.ATOMIC_ACKNOWLEDGE, self.qps[0], psn)
        answer = IbPacket(bth, aeth=Aeth(0x1F, 0), atomic_ack=AtomicAckEth(7))
        return self.put(answer, **{"back": True} | how)

    def response(self, psn, packets, mtu=256, *, lost=(), **how):
        """Answer a read."""
        for i in range(packets):
            opcode = O.READ_RESPONSE_ONLY
            if packets > 1:
                opcode = O.READ_RESPONSE_FIRST if not i else O.READ_RESPONSE_MIDDLE
                opcode = O.READ_RESPONSE_LAST if i == packets - 1 else opcode
            aeth = None if opcode is O.READ_RESPONSE_MIDDLE else Aeth(0x1F, 0)
            bth = Bth(opcode, self.qps[0], psn + i)
            self.put(IbPacket(bth, aeth=aeth, payload=bytes(mtu)), back=True, lost=i in lost, **how)
        return self

    def notify(self, **how):
        """Tell the sender of data that packets were marked."""
        return self.put(cnp(self.qps[0]), **{"back": True, "dscp": 48} | how)

    def tcp(self, **changes):
        """Put a TCP segment there."""
        self.time_ns += self.step_ns
        data = encode_tcp(b"hello", replace(self.there, **{"dscp": 0} | changes))
        self.packets.append(CapturedPacket(self.time_ns, LinkType.ETHERNET, 0, data, len(data)))
        return self

    def save(self, path):
        """Write a pcap file and return its path."""
        write_pcap(path, self.packets, link_type=self._link())
        return path


def _has_reth(opcode):
    return opcode in {O.WRITE_FIRST, O.WRITE_ONLY, O.WRITE_ONLY_IMMEDIATE, O.READ_REQUEST}


def every_kind(path):
    """Write a capture that has something of everything, and return its path."""
    talk = Talk()
    talk.write(100, 4, lost=(2,)).ack(102, NAK_SEQUENCE).write(102, 2).ack(103)
    talk.request(O.READ_REQUEST, 104, length=700).response(104, 3)
    talk.request(O.SEND_ONLY, 107, 60).ack(107, RNR).request(O.SEND_ONLY, 107, 60).ack(107)
    talk.request(O.FETCH_ADD, 108).atomic_ack(108)
    talk.write(109, 2, ecn=3).notify().tcp()
    talk.request(O.SEND_ONLY, 111, 16, wrong=True)
    talk.request(O.WRITE_ONLY, 112, 200, snap=80)
    talk.request(O.WRITE_ONLY, 113, 16).ack(113, 0x62)
    return talk.save(path)
