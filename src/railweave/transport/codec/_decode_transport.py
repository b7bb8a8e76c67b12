"""From the BTH on: extended headers, payload, padding and ICRC, whatever carries them."""

from __future__ import annotations

from typing import Any, Final

from railweave.transport.codec._frame import Icrc
from railweave.transport.codec._reader import Reader
from railweave.transport.codec.headers import extended_headers, has_payload, opcode_name
from railweave.transport.codec.icrc import icrc
from railweave.transport.packets import (
    MTU_BYTES,
    Aeth,
    AtomicAckEth,
    AtomicEth,
    Bth,
    Deth,
    IbPacket,
    Opcode,
    Reth,
)

__all__ = ["transport"]

_ICRC_BYTES: Final = 4
_FULL: Final = {
    Opcode.SEND_FIRST, Opcode.SEND_MIDDLE, Opcode.WRITE_FIRST, Opcode.WRITE_MIDDLE,
    Opcode.READ_RESPONSE_FIRST, Opcode.READ_RESPONSE_MIDDLE,
}  # fmt: skip
_WRITES_ALONE: Final = {Opcode.WRITE_ONLY, Opcode.WRITE_ONLY_IMMEDIATE}


def _extended(name: str, values: tuple[int, ...]) -> dict[str, Any]:
    """Return the fields of an :class:`IbPacket` that a header holds."""
    made: dict[str, Any] = {}
    match name:
        case "DETH":
            made["deth"] = Deth(values[0], values[2])
        case "RETH":
            made["reth"] = Reth(*values)
        case "AtomicETH":
            made["atomic"] = AtomicEth(*values)
        case "AETH":
            made["aeth"] = Aeth(*values)
        case "AtomicAckETH":
            made["atomic_ack"] = AtomicAckEth(*values)
        case "ImmDt":
            made["immediate"] = values[0]
        case "IETH":
            made["invalidate_rkey"] = values[0]
    return made


def _bth(values: tuple[int, ...]) -> Bth:
    opcode, solicited, migrated, pad, version, pkey, fecn, becn, _, dest_qp, ack, _, psn = values
    return Bth(
        opcode,
        dest_qp,
        psn,
        ack_request=bool(ack),
        solicited=bool(solicited),
        migrated=bool(migrated),
        pad=pad,
        version=version,
        pkey=pkey,
        fecn=bool(fecn),
        becn=bool(becn),
    )


def _check(reader: Reader, first: str, rest_from: int, end: int) -> None:
    """Note the ICRC and hold it against what it should be."""
    found = reader.trailer("ICRC", end)
    local = first == "LRH"
    wanted = icrc(reader.masked_since(first), reader.data[rest_from:end], local=local)
    reader.icrc = Icrc(int.from_bytes(wanted, "big"), found)
    if not reader.icrc.ok:
        reader.problem(
            f"The ICRC is {found:#010x} but should be {reader.icrc.expected:#010x}: "
            "the packet was damaged, or was captured before the adapter filled it in."
        )


def _payload(reader: Reader, bth: Bth, end: int) -> bytes:
    """Note payload and padding up to ``end`` (as the packet says, perhaps beyond the frame)."""
    room = end - reader.at
    if bth.pad > room:
        reader.problem(f"The BTH says {bth.pad} bytes of padding, but only {room} are there.")
    pad_from = max(reader.at, end - bth.pad)
    payload = reader.data[reader.at : min(pad_from, reader.limit)]
    pad = reader.data[pad_from : min(end, reader.limit)]
    reader.piece(
        "Payload",
        ("Payload", payload, "what the message carries"),
        ("Pad", pad, "fills the payload to a multiple of four"),
    )
    if room % 4:
        reader.problem("Payload and padding are not a multiple of four bytes.")
    if room and extended_headers(bth.opcode) is not None and not has_payload(bth.opcode):
        reader.problem(f"{opcode_name(bth.opcode)} carries no payload, but {room:,} bytes follow.")
    return payload


def _segment(reader: Reader, bth: Bth, reth: Reth | None, size: int) -> None:
    """Hold a payload of ``size`` bytes, as the headers say, against its place in the message.

    Packets before the last one are as long as the path MTU, which no packet exceeds, and have no
    padding; the length in the RETH is that of the whole message (InfiniBand Architecture
    Specification, chapter 9, length validation).
    """
    low, name = bth.opcode & 0b11111, opcode_name(bth.opcode)
    if low in _FULL:
        if bth.pad:
            reader.problem(f"{name} has {bth.pad} bytes of padding; only a last packet may.")
        if size not in MTU_BYTES:
            allowed = ", ".join(f"{mtu:,}" for mtu in MTU_BYTES)
            reader.problem(
                f"{name} carries {size:,} bytes, which is no path MTU ({allowed}): packets before "
                "the last one of a message are full."
            )
    elif size > MTU_BYTES[-1]:
        reader.problem(
            f"{name} carries {size:,} bytes, more than the largest path MTU, {MTU_BYTES[-1]:,}."
        )
    if reth is None:
        return
    if low in _WRITES_ALONE and reth.length != size:
        reader.problem(
            f"The RETH says {reth.length:,} bytes, but the only packet of the message carries "
            f"{size:,}."
        )
    if low == Opcode.WRITE_FIRST and reth.length <= size:
        reader.problem(
            f"The RETH says {reth.length:,} bytes, but more packets follow a first one of {size:,}."
        )


def transport(reader: Reader, first: str) -> None:
    """Read a packet of the InfiniBand transport from its BTH to its ICRC.

    Args:
        reader: at the BTH; its limits are those of the packet, ICRC included.
        first: the header with which the ICRC begins.
    """
    whole = reader.limit
    values = reader.header("BTH")
    if values is None:
        return
    bth, body = _bth(values), reader.at
    if bth.version:
        reader.problem(f"Transport version {bth.version} is not known; 0 is the only one.")
    names = extended_headers(bth.opcode)
    if names is None:
        reader.problem(f"The headers after the BTH are not known: {opcode_name(bth.opcode)}.")
    end = reader.ends - _ICRC_BYTES
    if end < reader.at:
        reader.problem("There is no room for an ICRC.")
        return
    reader.limit = min(reader.limit, end)
    fields: dict[str, Any] = {}
    for name in names or ():
        found = reader.header(name)
        if found is None:
            break
        if name == "CNP" and found[0]:
            reader.problem("The reserved bytes of the CNP are not zero.")
        fields |= _extended(name, found)
    else:
        size = end - reader.at - bth.pad
        payload = _payload(reader, bth, end)
        if size >= 0 and has_payload(bth.opcode) and names is not None:
            _segment(reader, bth, fields.get("reth"), size)
        reader.packet = IbPacket(bth, **fields, payload=payload)
    if reader.at < reader.limit:
        left = reader.data[reader.at : reader.limit]
        reader.piece("Data", ("Data", left, "not explained further"))
    reader.limit = whole
    if end + _ICRC_BYTES <= whole:
        _check(reader, first, body, end)
        reader.at = end + _ICRC_BYTES
