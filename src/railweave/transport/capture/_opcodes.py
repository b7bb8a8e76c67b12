"""What each BTH opcode means, as tables of 256 entries for whole columns of packets.

InfiniBand Architecture Specification, volume 1, table "OpCode field" of chapter 9; XRC of annex
A14; the CNP of annex A17.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from railweave.transport.codec.headers import HEADERS, extended_headers
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
]

_XRC: Final = 0b101
_XRCETH_BYTES: Final = 4
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


def _role(low: Opcode) -> Role:
    if low in _RESPONSES:
        return Role.RESPONSE
    return Role.ACKNOWLEDGE if low in _ACKS else Role.REQUEST


def _fill_opcode(code: int, names: tuple[str, ...], role: Role) -> None:
    low = Opcode(code & 31)
    whole = "ONLY" in low.name or low in _ATOMIC or low is _O.READ_REQUEST
    ROLE[code], OPERATION[code] = role, _operation(low)
    EXTENDED[code] = sum(HEADERS[name].size_bytes for name in names) + RETH_SHIFT[code]
    HAS_RETH[code], HAS_AETH[code] = "RETH" in names, "AETH" in names
    BEGINS[code], ENDS[code] = whole or "FIRST" in low.name, whole or "LAST" in low.name
    FULL[code] = "FIRST" in low.name or "MIDDLE" in low.name


def _fill() -> None:
    for service in (*Service, _XRC):
        for low in Opcode:
            # XRC has the operations of RC; its requests have a header more.
            names = extended_headers((Service.RC if service == _XRC else service) << 5 | low)
            if names is None:
                continue
            code = service << 5 | low
            role = Role.DATAGRAM if service == Service.UD else _role(low)
            if service == _XRC and role is Role.REQUEST:
                RETH_SHIFT[code] = _XRCETH_BYTES
            _fill_opcode(code, names, role)
    # What a CNP has behind its BTH is reserved, and not looked at.
    ROLE[CNP_OPCODE] = Role.CNP


_fill()
for _table in (ROLE, OPERATION, EXTENDED, RETH_SHIFT, HAS_RETH, HAS_AETH, BEGINS, ENDS, FULL):
    _table.flags.writeable = False
