"""Quantities at the edges: text such as ``"400 Gb/s"`` in, plain SI numbers inside, and back.

``b`` is bit and ``B`` is byte; ``k M G T P`` are powers of 1000 and ``Ki Mi Gi Ti`` powers of 1024.
A bare number is never accepted where a unit is needed, so that the two are never mixed.
"""

from __future__ import annotations

import math
import re
from functools import cache
from typing import TYPE_CHECKING, Final

from railweave.errors import UnitError

if TYPE_CHECKING:
    from pint import UnitRegistry

__all__ = [
    "DIMENSIONS",
    "counted",
    "format_bits_rate",
    "format_bytes",
    "format_seconds",
    "format_si",
    "parse_bps",
    "parse_bytes",
    "parse_metres",
    "parse_quantity",
    "parse_seconds",
    "parse_watts",
]

_DEFINITIONS: Final = (
    "bit = [information] = b",
    "byte = 8 * bit = B",
    "second = [time] = s",
    "minute = 60 * second = min",
    "hour = 3600 * second = h",
    "day = 24 * hour",
    "year = 365.25 * day",
    "meter = [length] = m = metre",
    "foot = 0.3048 * meter = ft",
    "watt = [power] = W",
    "bps = bit / second",
    "kilo- = 1e3 = k-",
    "mega- = 1e6 = M-",
    "giga- = 1e9 = G-",
    "tera- = 1e12 = T-",
    "peta- = 1e15 = P-",
    "kibi- = 1024 = Ki-",
    "mebi- = 1048576 = Mi-",
    "gibi- = 1073741824 = Gi-",
    "tebi- = 1099511627776 = Ti-",
    "milli- = 1e-3 = m-",
    "micro- = 1e-6 = u- = µ- = μ-",
    "nano- = 1e-9 = n-",
    "pico- = 1e-12 = p-",
    "centi- = 1e-2 = c-",
)

#: dimension name → (unit of the plain number, examples for messages)
DIMENSIONS: Final[dict[str, tuple[str, str]]] = {
    "rate": ("bit / second", "'400 Gb/s', '50 GB/s'"),
    "size": ("byte", "'1 GiB', '256 MB', '9100 B'"),
    "time": ("second", "'2 us', '30 min'"),
    "length": ("meter", "'30 m', '150 cm'"),
    "power": ("watt", "'40 kW', '700 W'"),
}

_NUMBER_THEN_UNIT: Final = re.compile(
    r"^\s*([+-]?(?:\d+(?:[_,]\d+)*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)"
    r"\s*([A-Za-zµμ][A-Za-zµμ/ *]*)\s*$"
)


@cache
def _registry() -> UnitRegistry[float]:
    """Build the small registry once; pint's full set of units would take longer to load."""
    from pint import UnitRegistry

    registry: UnitRegistry[float] = UnitRegistry(None, cache_folder=None)
    for definition in _DEFINITIONS:
        registry.define(definition)
    return registry


def parse_quantity(text: str, dimension: str) -> float:
    """Read a quantity into the plain SI number of its dimension.

    Args:
        text: a number and a unit, such as ``"400 Gb/s"``; the space may be missing.
        dimension: a key of :data:`DIMENSIONS`.

    Returns:
        bit/s for ``rate``, byte for ``size``, s, m or W.

    Raises:
        UnitError: not a number with a unit, an unknown unit, or one of another dimension.
    """
    target, examples = DIMENSIONS[dimension]
    match = _NUMBER_THEN_UNIT.match(text) if isinstance(text, str) else None
    if match is None:
        raise UnitError(
            f"{text!r} is not a number with a unit; write a {dimension} such as {examples}"
        )
    from pint.errors import DimensionalityError, UndefinedUnitError

    registry = _registry()
    number = float(match[1].replace("_", "").replace(",", ""))
    try:
        factor = float(registry.Quantity(1.0, match[2].strip()).to(target).magnitude)
    except UndefinedUnitError:
        raise UnitError(
            f"{match[2].strip()!r} in {text!r} is not a unit known here; "
            f"write a {dimension} such as {examples} (b is bit, B is byte)"
        ) from None
    except DimensionalityError:
        raise UnitError(f"{text!r} is not a {dimension}; write one such as {examples}") from None
    except Exception as error:  # pint raises many kinds on odd unit text
        raise UnitError(
            f"{text!r} cannot be read as a {dimension} ({error}); such as {examples}"
        ) from None
    if not math.isfinite(number * factor):
        raise UnitError(
            f"{text!r} is more than can be reckoned with; write a {dimension} such as {examples}"
        )
    return number * factor


def parse_bps(text: str) -> float:
    """Read a rate into bit/s; ``"50 GB/s"`` gives 4e11. Raises UnitError."""
    return parse_quantity(text, "rate")


def parse_bytes(text: str) -> int:
    """Read a size into whole bytes. Raises UnitError, also where it is not a whole number."""
    value = parse_quantity(text, "size")
    if value != round(value):
        raise UnitError(f"{text!r} is {value:g} B, not a whole number of bytes")
    return round(value)


def parse_seconds(text: str) -> float:
    """Read a duration into seconds. Raises UnitError."""
    return parse_quantity(text, "time")


def parse_metres(text: str) -> float:
    """Read a length into metres. Raises UnitError."""
    return parse_quantity(text, "length")


def parse_watts(text: str) -> float:
    """Read a power into watts. Raises UnitError."""
    return parse_quantity(text, "power")


_SI: Final = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_FACTORS: Final = {prefix: factor for factor, prefix in _SI}
_SMALL: Final = ((1.0, ""), (1e-3, "m"), (1e-6, "u"), (1e-9, "n"), (1e-12, "p"))
_BINARY: Final = (
    (2**50, "Pi"),
    (2**40, "Ti"),
    (2**30, "Gi"),
    (2**20, "Mi"),
    (2**10, "Ki"),
    (1, ""),
)


def counted(number: int, one: str, many: str = "") -> str:
    """Write a number of things: ``counted(2, "leaf", "leaves")`` → ``'2 leaves'``.

    Args:
        number: how many.
        one: what one is called.
        many: what several are called; with an s where not given.
    """
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def format_si(value: float, unit: str, digits: int = 4) -> str:
    """Write a number ≥ 0 with a decimal prefix: ``format_si(12.8e12, "b/s")`` → ``'12.8 Tb/s'``."""
    for factor, prefix in _SI:
        if abs(value) >= factor:
            return f"{value / factor:.{digits}g} {prefix}{unit}"
    return f"{value:.{digits}g} {unit}"


def format_bits_rate(value_bps: float) -> str:
    """Write bit/s with a decimal prefix: ``'51.2 Tb/s'``."""
    return format_si(value_bps, "b/s")


def format_bytes(value_bytes: float) -> str:
    """Write bytes with a binary prefix where that is short and exact, else a decimal one.

    Where both are exact the one with fewer digits: ``8e6`` is 8 MB, and not 7812.5 KiB.
    """
    decimal = format_si(value_bytes, "B")
    for factor, prefix in _BINARY[:-1]:
        short = factor <= value_bytes < 10_000 * factor
        if short and (value_bytes * 4) % factor == 0:
            binary = f"{value_bytes / factor:g}"
            number, _, unit = decimal.partition(" ")
            exact = float(number) * _FACTORS[unit.removesuffix("B")] == value_bytes
            return decimal if exact and len(number) <= len(binary) else f"{binary} {prefix}B"
    return decimal


def format_seconds(value_s: float) -> str:
    """Write seconds with a fitting prefix: ``'30.72 ms'``."""
    if value_s == 0:
        return "0 s"
    for factor, prefix in _SMALL:
        if abs(value_s) >= factor:
            return f"{value_s / factor:.4g} {prefix}s"
    return f"{value_s:.4g} s"
