"""How the fields of a decoded frame are shown: value, text and meaning, with their place."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from typing import Final

from railweave.transport.codec._frame import FieldView, Layer
from railweave.transport.codec.headers import HEADERS, HeaderField, Shown
from railweave.transport.packets import AckSyndrome, Aeth, NakCode
from railweave.transport.verbs._states import rnr_timer_s

__all__ = ["bytes_layer", "header_layer", "ipv6_text", "mac_text", "syndrome_text"]

_SHOWN_BYTES: Final = 16
_MAPPED: Final = 0xFFFF  #: upper bits of an IPv4 address as IPv6


def mac_text(value: int) -> str:
    """Return a MAC address as colons and hex."""
    return ":".join(f"{byte:02x}" for byte in value.to_bytes(6, "big"))


def ipv6_text(value: int) -> str:
    """Return an IPv6 address or GID; mapped IPv4 addresses are shown with dots."""
    if value >> 32 == _MAPPED:
        return f"::ffff:{IPv4Address(value & 0xFFFFFFFF)}"
    return str(IPv6Address(value))


def syndrome_text(syndrome: int) -> str:
    """Return what an AETH syndrome says, such as ``NAK: PSN sequence error``."""
    aeth = Aeth(syndrome, 0)
    value = aeth.value
    match aeth.kind:
        case AckSyndrome.ACK:
            return "ACK, no credits" if value == 31 else f"ACK, credit code {value}"
        case AckSyndrome.RNR_NAK:
            return f"RNR NAK, wait {rnr_timer_s(value) * 1e3:g} ms"
        case AckSyndrome.NAK if value in set(NakCode):
            return f"NAK: {_words(NakCode(value).name)}"
        case AckSyndrome.NAK:
            return f"NAK with reserved code {value}"
    return "reserved"


def _words(name: str) -> str:
    return name.replace("_", " ").lower().replace("psn", "PSN").replace("rd ", "RD ")


def _text(header: str, spec: HeaderField, value: int) -> str:
    match spec.shown:
        case Shown.MAC:
            text = mac_text(value)
        case Shown.IPV4:
            text = str(IPv4Address(value))
        case Shown.IPV6:
            text = ipv6_text(value)
        case Shown.FLAG:
            text = "set" if value else "not set"
        case Shown.HEX:
            text = f"{value:#0{2 + (spec.bits + 3) // 4}x}"
        case Shown.NUMBER:
            text = f"{value}"
    if header == "AETH" and spec.name == "Syndrome":
        return f"{text} ({syndrome_text(value)})"
    name = spec.names.get(value)
    return f"{text} ({name})" if name else text


def header_layer(name: str, start: int, values: tuple[int, ...], *, masked: str) -> Layer:
    """Return a header as a layer.

    Args:
        name: in the table.
        start: first byte in the frame.
        values: of its fields.
        masked: which fields the ICRC counts as ones: ``none``, ``table`` or ``all``.
    """
    form = HEADERS[name]
    views = []
    for i, (spec, value) in enumerate(zip(form.fields, values, strict=True)):
        ones = masked == "all" or (masked == "table" and spec.masked)
        first = start * 8 + form.first_bit(i)
        text = _text(name, spec, value)
        views.append(FieldView(spec.name, value, text, spec.meaning, first, spec.bits, ones))
    return Layer(name, start, start + form.size_bytes, tuple(views))


def bytes_layer(
    name: str, start: int, parts: tuple[tuple[str, bytes, str], ...], *, masked: bool = False
) -> Layer:
    """Return bytes without inner structure as a layer.

    Args:
        name: of the layer.
        start: first byte in the frame.
        parts: name, bytes and meaning of each piece, one after the other; empty ones are left out.
        masked: whether the ICRC counts them as ones.
    """
    views, at = [], start
    for part, data, meaning in parts:
        if not data:
            continue
        head = data[:_SHOWN_BYTES].hex(" ")
        more = " …" if len(data) > _SHOWN_BYTES else ""
        text = f"{len(data):,} byte{'s' * (len(data) != 1)}: {head}{more}"
        views.append(FieldView(part, data, text, meaning, at * 8, len(data) * 8, masked))
        at += len(data)
    return Layer(name, start, at, tuple(views))
