"""Packets of a message: sequence numbers of 24 bits, FIRST/MIDDLE/LAST/ONLY, sizes on the wire."""

from __future__ import annotations

from typing import Final, NamedTuple

from railweave.transport.packets import Opcode, Service

__all__ = [
    "MESSAGE_OPCODES",
    "PSN_HALF",
    "PSN_MASK",
    "READ_RESPONSES",
    "RESPONSES",
    "SHAPES",
    "Family",
    "Shape",
    "opcode_byte",
    "packet_count",
    "psn_add",
    "psn_distance",
    "segment",
]

PSN_MASK: Final = 0xFFFFFF
#: a sequence number up to this far ahead is new; the other half of the circle is old
PSN_HALF: Final = 1 << 23


def psn_add(psn: int, count: int) -> int:
    """Move a packet sequence number, around the end of its 24 bits."""
    return psn + count & PSN_MASK


def psn_distance(start: int, psn: int) -> int:
    """Give how far ``psn`` is ahead of ``start``; negative where it is behind (older)."""
    ahead = psn - start & PSN_MASK
    return ahead if ahead < PSN_HALF else ahead - PSN_MASK - 1


def packet_count(size_bytes: int, mtu_bytes: int) -> int:
    """Count the packets of a message; one of no bytes has one."""
    return max(1, -(-size_bytes // mtu_bytes))


class Family(NamedTuple):
    """Opcodes of one kind of message; ``last`` and ``only`` may carry an extra header."""

    first: Opcode
    middle: Opcode
    last: Opcode
    only: Opcode


_O = Opcode
_SEND = (_O.SEND_FIRST, _O.SEND_MIDDLE)
_WRITE = (_O.WRITE_FIRST, _O.WRITE_MIDDLE)
#: operation → its opcodes; keys are the values of ``SendOpcode``
MESSAGE_OPCODES: Final[dict[str, Family]] = {
    "send": Family(*_SEND, _O.SEND_LAST, _O.SEND_ONLY),
    "send-with-imm": Family(*_SEND, _O.SEND_LAST_IMMEDIATE, _O.SEND_ONLY_IMMEDIATE),
    "send-with-inv": Family(*_SEND, _O.SEND_LAST_INVALIDATE, _O.SEND_ONLY_INVALIDATE),
    "rdma-write": Family(*_WRITE, _O.WRITE_LAST, _O.WRITE_ONLY),
    "rdma-write-with-imm": Family(*_WRITE, _O.WRITE_LAST_IMMEDIATE, _O.WRITE_ONLY_IMMEDIATE),
}
READ_RESPONSES: Final = Family(
    _O.READ_RESPONSE_FIRST,
    _O.READ_RESPONSE_MIDDLE,
    _O.READ_RESPONSE_LAST,
    _O.READ_RESPONSE_ONLY,
)
#: opcodes that go to the requester; all others go to the responder
RESPONSES: Final = frozenset((*READ_RESPONSES, _O.ACKNOWLEDGE, _O.ATOMIC_ACKNOWLEDGE))


class Shape(NamedTuple):
    """How a responder reads an opcode."""

    write: bool
    starts: bool
    ends: bool
    immediate: bool
    invalidates: bool


def _shapes() -> dict[Opcode, Shape]:
    shapes = {}
    for name, family in MESSAGE_OPCODES.items():
        for place, opcode in zip(("first", "middle", "last", "only"), family, strict=True):
            ends = place in ("last", "only")
            shapes[opcode] = Shape(
                write="write" in name,
                starts=place in ("first", "only"),
                ends=ends,
                immediate=ends and name.endswith("imm"),
                invalidates=ends and name.endswith("inv"),
            )
    return shapes


#: every opcode of SEND and WRITE → what it says of its message
SHAPES: Final[dict[Opcode, Shape]] = _shapes()


def segment(family: Family, index: int, count: int) -> Opcode:
    """Give the opcode of packet ``index`` of ``count``."""
    if count == 1:
        return family.only
    if index == 0:
        return family.first
    return family.last if index == count - 1 else family.middle


def opcode_byte(service: Service, opcode: Opcode) -> int:
    """Join service and operation into the BTH's opcode byte."""
    return service << 5 | opcode
