"""InfiniBand transport packets: what verbs send and codecs write, whatever network is below.

Opcodes and headers are those of the InfiniBand Architecture Specification, volume 1, chapter 9;
RoCEv1 and RoCEv2 carry the same ones (annexes A16 and A17).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

__all__ = [
    "BTH_AND_ICRC_BYTES",
    "CNP_OPCODE",
    "MTU_BYTES",
    "AckSyndrome",
    "Aeth",
    "AtomicAckEth",
    "AtomicEth",
    "Bth",
    "Deth",
    "IbPacket",
    "NakCode",
    "Opcode",
    "Reth",
    "Service",
]

#: path MTUs that a queue pair can have
MTU_BYTES: Final = (256, 512, 1024, 2048, 4096)
#: BTH opcode of RoCEv2's congestion notification packet
CNP_OPCODE: Final = 0x81
#: what every packet of the transport has
BTH_AND_ICRC_BYTES: Final = 12 + 4


class Service(IntEnum):
    """Transport service: the upper three bits of a BTH opcode."""

    RC = 0b000
    UC = 0b001
    UD = 0b011


class Opcode(IntEnum):
    """What a packet is: the lower five bits of a BTH opcode."""

    SEND_FIRST = 0x00
    SEND_MIDDLE = 0x01
    SEND_LAST = 0x02
    SEND_LAST_IMMEDIATE = 0x03
    SEND_ONLY = 0x04
    SEND_ONLY_IMMEDIATE = 0x05
    WRITE_FIRST = 0x06
    WRITE_MIDDLE = 0x07
    WRITE_LAST = 0x08
    WRITE_LAST_IMMEDIATE = 0x09
    WRITE_ONLY = 0x0A
    WRITE_ONLY_IMMEDIATE = 0x0B
    READ_REQUEST = 0x0C
    READ_RESPONSE_FIRST = 0x0D
    READ_RESPONSE_MIDDLE = 0x0E
    READ_RESPONSE_LAST = 0x0F
    READ_RESPONSE_ONLY = 0x10
    ACKNOWLEDGE = 0x11
    ATOMIC_ACKNOWLEDGE = 0x12
    COMPARE_SWAP = 0x13
    FETCH_ADD = 0x14
    SEND_LAST_INVALIDATE = 0x16
    SEND_ONLY_INVALIDATE = 0x17


class AckSyndrome(IntEnum):
    """Bits 6 and 5 of an AETH syndrome: what kind of acknowledgement it is."""

    ACK = 0b00  #: the lower five bits are end-to-end credits (31: none used)
    RNR_NAK = 0b01  #: the lower five bits are the RNR timer
    NAK = 0b11  #: the lower five bits are a :class:`NakCode`


class NakCode(IntEnum):
    """Why a responder refuses a request."""

    PSN_SEQUENCE_ERROR = 0
    INVALID_REQUEST = 1
    REMOTE_ACCESS_ERROR = 2
    REMOTE_OPERATIONAL_ERROR = 3
    INVALID_RD_REQUEST = 4


@dataclass(frozen=True, slots=True)
class Bth:
    """Base transport header, 12 bytes.

    ``opcode`` is the whole byte: service and :class:`Opcode`, or :data:`CNP_OPCODE`. ``pad`` are
    the bytes that fill the payload to a multiple of four.
    """

    opcode: int
    dest_qp: int
    psn: int
    ack_request: bool = False
    solicited: bool = False
    migrated: bool = True
    pad: int = 0
    version: int = 0
    pkey: int = 0xFFFF
    fecn: bool = False
    becn: bool = False


@dataclass(frozen=True, slots=True)
class Reth:
    """RDMA extended transport header, 16 bytes: where in the peer's memory, and how much."""

    va: int
    rkey: int
    length: int


@dataclass(frozen=True, slots=True)
class Aeth:
    """ACK extended transport header, 4 bytes."""

    syndrome: int
    msn: int

    @property
    def kind(self) -> AckSyndrome | None:
        """What it is; None where the bits are reserved."""
        bits = self.syndrome >> 5 & 0b11
        return AckSyndrome(bits) if bits != 0b10 else None

    @property
    def value(self) -> int:
        """Credits, RNR timer code or NAK code."""
        return self.syndrome & 0b11111


@dataclass(frozen=True, slots=True)
class AtomicEth:
    """Atomic extended transport header, 28 bytes; a fetch-and-add has its addend in ``swap``."""

    va: int
    rkey: int
    swap: int
    compare: int


@dataclass(frozen=True, slots=True)
class AtomicAckEth:
    """Atomic acknowledge extended transport header, 8 bytes: what was there before."""

    original: int


@dataclass(frozen=True, slots=True)
class Deth:
    """Datagram extended transport header, 8 bytes."""

    qkey: int
    source_qp: int


@dataclass(frozen=True, slots=True)
class IbPacket:
    """One packet of the transport: BTH, the extended headers its opcode calls for, payload.

    ``payload`` is without padding. Headers that the opcode does not have are None.
    """

    bth: Bth
    deth: Deth | None = None
    reth: Reth | None = None
    atomic: AtomicEth | None = None
    aeth: Aeth | None = None
    atomic_ack: AtomicAckEth | None = None
    immediate: int | None = None
    invalidate_rkey: int | None = None
    payload: bytes = b""

    @property
    def transport_bytes(self) -> int:
        """Bytes from BTH to ICRC, padding included; what is below the transport comes on top."""
        size = BTH_AND_ICRC_BYTES + len(self.payload) + -len(self.payload) % 4
        size += 16 * (self.bth.opcode == CNP_OPCODE)  # reserved
        size += 8 * (self.deth is not None) + 16 * (self.reth is not None)
        size += 28 * (self.atomic is not None) + 4 * (self.aeth is not None)
        size += 8 * (self.atomic_ack is not None) + 4 * (self.immediate is not None)
        return size + 4 * (self.invalidate_rkey is not None)

    @property
    def service(self) -> Service | None:
        """Transport service, None for a CNP and for services that are not modelled."""
        bits = self.bth.opcode >> 5
        return Service(bits) if bits in set(Service) else None

    @property
    def operation(self) -> Opcode | None:
        """What it is, None for a CNP or an opcode that is not known."""
        low = self.bth.opcode & 0b11111
        known = self.service is not None and low in set(Opcode)
        return Opcode(low) if known else None
