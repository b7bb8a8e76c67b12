"""What each BTH opcode means, as tables of 256 entries for whole columns of packets.

InfiniBand Architecture Specification, volume 1, table "OpCode field" of chapter 9; XRC of annex
A14; the CNP of annex A17.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from railweave.transport.packets import CNP_OPCODE, Opcode, Service

__all__ = [
    "BEGINS",
    "ENDS",
    "EXTENDED",
    "FULL",
    "HAS_AETH",
    "HAS_RETH",
    "OPERATION",
    "OPERATION_NAMES",
    "RETH_SHIFT",
    "ROLE",
    "SERVICE_NAMES",
    "Role",
    "opcode_name",
]

_XRC: Final = 0b101
SERVICE_NAMES: Final = {Service.RC: "RC", Service.UC: "UC", Service.UD: "UD", _XRC: "XRC"}


class Role(IntEnum):
    """Who sends a packet of a connection: the requester, the responder, or neither."""

    UNKNOWN = 0
    REQUEST = 1
    RESPONSE = 2  #: a read response
    ACKNOWLEDGE = 3  #: also of atomics
    DATAGRAM = 4
    CNP = 5


_O: Final = Opcode
_IMMEDIATE: Final = {
    _O.SEND_LAST_IMMEDIATE, _O.SEND_ONLY_IMMEDIATE, _O.WRITE_LAST_IMMEDIATE,
    _O.WRITE_ONLY_IMMEDIATE, _O.SEND_LAST_INVALIDATE, _O.SEND_ONLY_INVALIDATE,
}  # fmt: skip
_RETH: Final = {_O.WRITE_FIRST, _O.WRITE_ONLY, _O.WRITE_ONLY_IMMEDIATE, _O.READ_REQUEST}
_AETH: Final = {
    _O.READ_RESPONSE_FIRST, _O.READ_RESPONSE_LAST, _O.READ_RESPONSE_ONLY, _O.ACKNOWLEDGE,
    _O.ATOMIC_ACKNOWLEDGE,
}  # fmt: skip
_ATOMIC: Final = {_O.COMPARE_SWAP, _O.FETCH_ADD}
_RESPONSES: Final = {
    _O.READ_RESPONSE_FIRST, _O.READ_RESPONSE_MIDDLE, _O.READ_RESPONSE_LAST, _O.READ_RESPONSE_ONLY
}  # fmt: skip
_ACKS: Final = {_O.ACKNOWLEDGE, _O.ATOMIC_ACKNOWLEDGE}
#: operations of messages, by what stands in :data:`OPERATION`
OPERATION_NAMES: Final = (
    "unknown", "send", "send-imm", "write", "write-imm", "read", "cas", "faa", "send-inv",
    "read-response",
)  # fmt: skip
_SEND, _SEND_IMM, _WRITE, _WRITE_IMM, _READ, _CAS, _FAA, _INVALIDATE, _RESPONSE = range(1, 10)

#: a whole row of 256 opcodes each
ROLE: Final[NDArray[np.int8]] = np.zeros(256, np.int8)
OPERATION: Final[NDArray[np.int8]] = np.zeros(256, np.int8)
EXTENDED: Final[NDArray[np.int64]] = np.zeros(256, np.int64)  #: bytes of extended headers
RETH_SHIFT: Final[NDArray[np.int64]] = np.zeros(256, np.int64)  #: bytes from BTH's end to RETH
HAS_RETH: Final[NDArray[np.bool_]] = np.zeros(256, np.bool_)
HAS_AETH: Final[NDArray[np.bool_]] = np.zeros(256, np.bool_)
BEGINS: Final[NDArray[np.bool_]] = np.zeros(256, np.bool_)  #: first packet of a message
ENDS: Final[NDArray[np.bool_]] = np.zeros(256, np.bool_)  #: last packet of a message
FULL: Final[NDArray[np.bool_]] = np.zeros(256, np.bool_)  #: carries a whole MTU of payload


def _operation(low: Opcode) -> int:
    if low in _RESPONSES:
        return _RESPONSE
    name = low.name
    if low in _ATOMIC or low is _O.READ_REQUEST:
        return {_O.COMPARE_SWAP: _CAS, _O.FETCH_ADD: _FAA, _O.READ_REQUEST: _READ}[low]
    if name.startswith("SEND"):
        return _INVALIDATE if "INVALIDATE" in name else _SEND_IMM if "IMM" in name else _SEND
    return (_WRITE_IMM if "IMM" in name else _WRITE) if name.startswith("WRITE") else 0


def _extended(low: Opcode) -> int:
    return (
        16 * (low in _RETH)
        + 4 * (low in _AETH)
        + 4 * (low in _IMMEDIATE)
        + 28 * (low in _ATOMIC)
        + 8 * (low is _O.ATOMIC_ACKNOWLEDGE)
    )


def _fill() -> None:
    for service in (Service.RC, Service.UC, _XRC):
        for low in Opcode:
            if service == Service.UC and low > _O.WRITE_ONLY_IMMEDIATE:
                continue
            code = service << 5 | low
            response, ack = low in _RESPONSES, low in _ACKS
            ROLE[code] = Role.RESPONSE if response else Role.ACKNOWLEDGE if ack else Role.REQUEST
            OPERATION[code] = _operation(low)
            shift = 4 if service == _XRC and not response and not ack else 0  # XRCETH
            RETH_SHIFT[code] = shift
            EXTENDED[code] = _extended(low) + shift
            HAS_RETH[code], HAS_AETH[code] = low in _RETH, low in _AETH
            whole = "ONLY" in low.name or low in _ATOMIC or low is _O.READ_REQUEST
            BEGINS[code] = whole or "FIRST" in low.name
            ENDS[code] = whole or "LAST" in low.name
            FULL[code] = "FIRST" in low.name or "MIDDLE" in low.name
    for low, size in ((_O.SEND_ONLY, 8), (_O.SEND_ONLY_IMMEDIATE, 12)):
        code = Service.UD << 5 | low
        ROLE[code], OPERATION[code], EXTENDED[code] = Role.DATAGRAM, _operation(low), size
        BEGINS[code] = ENDS[code] = True
    ROLE[CNP_OPCODE] = Role.CNP


_fill()
for _table in (ROLE, OPERATION, EXTENDED, RETH_SHIFT, HAS_RETH, HAS_AETH, BEGINS, ENDS, FULL):
    _table.flags.writeable = False


def opcode_name(code: int) -> str:
    """Return ``RC SEND First``, ``CNP`` or, for one that is not known, its number."""
    if code == CNP_OPCODE:
        return "CNP"
    if not ROLE[code]:
        return f"opcode 0x{code:02x}"
    return f"{SERVICE_NAMES[code >> 5]} {Opcode(code & 31).name.replace('_', ' ').lower()}"
