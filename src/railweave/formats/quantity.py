"""Quantities as fields of pydantic models: text with a unit in YAML, a plain SI number in Python.

Each type takes a string such as ``"400 Gb/s"``; a bare number is an error that says so. In JSON
(``model_dump(mode="json")``) the value is written back as such a string, without loss.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Final, TypeAlias

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema
from pydantic_core import PydanticCustomError

from railweave.errors import UnitError
from railweave.units import DIMENSIONS, parse_quantity

__all__ = [
    "BytesPerSecond",
    "FlopsRate",
    "Metres",
    "RateBps",
    "Seconds",
    "SizeBytes",
    "Watts",
]

_Scale: TypeAlias = tuple[tuple[float, str], ...]
_PREFIXES: Final[_Scale] = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_BINARY: Final[_Scale] = ((2.0**40, "Ti"), (2.0**30, "Gi"), (2.0**20, "Mi"), (2.0**10, "Ki"))
_SMALL: Final[_Scale] = ((1e-3, "m"), (1e-6, "u"), (1e-9, "n"), (1e-12, "p"))
_LONG: Final[_Scale] = ((60.0, "min"), (3600.0, "h"), (86400.0, "day"))
_LONGEST: Final = 21  #: characters of a number that is written without an exponent
_FLOPS: Final = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([kMGTPE]?)FLOPS?(?:/s)?\s*", re.IGNORECASE)
_FLOPS_FACTOR: Final = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15, "e": 1e18}


def _error(message: str, allowed: str) -> PydanticCustomError:
    return PydanticCustomError("quantity", "{message}", {"message": message, "allowed": allowed})


def _reader(dimension: str, divisor: float = 1.0, examples: str = "") -> Callable[[object], float]:
    """Make the validator of a dimension; the value must be finite and not negative."""
    examples = examples or DIMENSIONS[dimension][1]

    def read(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise _error(f"expected a {dimension}, a number with its unit in one text", examples)
        if not isinstance(value, str):
            raise _error(f"{value!r} has no unit; write it with one", examples)
        try:
            number = parse_quantity(value, dimension) / divisor
        except UnitError as error:
            raise _error(str(error).split(";")[0], examples) from None
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise _error(f"{value!r} is too large", examples)
        if number < 0:
            raise _error(f"{value!r} is negative", f"a {dimension} of 0 or more")
        return number

    return read


def _read_size(value: object) -> int:
    number = _reader("size")(value)
    if number != round(number):
        raise _error(
            f"{value!r} is {number:g} B, not a whole number of bytes", DIMENSIONS["size"][1]
        )
    return round(number)


def _read_flops(value: object) -> float:
    allowed = "'989 TFLOP/s', '1.98 PFLOP/s'"
    match = _FLOPS.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise _error(f"{value!r} is not a rate of floating-point operations", allowed)
    return float(match[1]) * _FLOPS_FACTOR[match[2].lower()]


def _number(value: float, factor: float) -> str | None:
    """Write value / factor in the fewest digits that give the value back, without an exponent."""
    for digits in (6, 9, 12, 15, 17):
        text = f"{value / factor:.{digits}g}"
        if float(text) * factor == value:
            plain = f"{Decimal(text):f}"
            return plain if len(plain) <= _LONGEST else None
    return None


def _writer(
    unit: str, prefixes: _Scale = (), others: _Scale = (), whole_below: float = 0.0
) -> Callable[[float], str]:
    """Make the lossless writer: the unit that takes the shortest number, best of 1 or more.

    Of equally short ones the larger unit is taken; an exponent stands only where no unit fits.

    Args:
        unit: the unit of the plain number.
        prefixes: what the unit may have in front of it, with the factors.
        others: other units by factor.
        whole_below: a lower value is written as a whole number where it can be.
    """
    scale = [(1.0, unit), *((factor, prefix + unit) for factor, prefix in prefixes), *others]
    scale.sort(reverse=True)

    def write(value: float) -> str:
        if value == 0:
            return f"0 {unit}"
        found: list[tuple[bool, int, str]] = []
        for factor, name in scale:
            number = _number(value, factor) if value >= factor / 10 else None
            if number is not None:
                broken = value < whole_below and "." in number
                small = 2 * (value < factor)  # 500 ms rather than 0.5 s
                found.append((broken, len(number) + small, f"{number} {name}"))
        return min(found, key=lambda item: item[:2])[2] if found else f"{value!r} {unit}"

    return write


def _schema(examples: list[str], unit_pattern: str) -> WithJsonSchema:
    pattern = rf"^\s*[0-9.][0-9_,.]*([eE][+-]?[0-9]+)?\s*({unit_pattern})\s*$"
    return WithJsonSchema({"type": "string", "examples": examples, "pattern": pattern})


_SI: Final = "(k|M|G|T|P|Ki|Mi|Gi|Ti)?"

#: bit/s, from ``"400 Gb/s"`` or ``"50 GB/s"``
RateBps: TypeAlias = Annotated[
    float,
    BeforeValidator(_reader("rate")),
    PlainSerializer(_writer("b/s", _PREFIXES), return_type=str, when_used="json"),
    _schema(["400 Gb/s", "50 GB/s"], rf"{_SI}(b|B|bit|byte)/s|{_SI}bps"),
]
#: byte/s, from ``"3.35 TB/s"``
BytesPerSecond: TypeAlias = Annotated[
    float,
    BeforeValidator(_reader("rate", 8.0, "'3.35 TB/s'")),
    PlainSerializer(_writer("B/s", _PREFIXES), return_type=str, when_used="json"),
    _schema(["3.35 TB/s"], rf"{_SI}(b|B|bit|byte)/s|{_SI}bps"),
]
#: whole bytes, from ``"32 MiB"``
SizeBytes: TypeAlias = Annotated[
    int,
    BeforeValidator(_read_size),
    PlainSerializer(
        _writer("B", (*_BINARY, *_PREFIXES), whole_below=1e4), return_type=str, when_used="json"
    ),
    _schema(["1 GiB", "256 MB", "9100 B"], rf"{_SI}(b|B|bit|byte)"),
]
#: seconds, from ``"2 us"``
Seconds: TypeAlias = Annotated[
    float,
    BeforeValidator(_reader("time")),
    PlainSerializer(_writer("s", _SMALL, _LONG), return_type=str, when_used="json"),
    _schema(["2 us", "30 min"], "(m|u|µ|n|p)?s|min|minute|h|hour|day|year|second"),
]
#: metres, from ``"30 m"``
Metres: TypeAlias = Annotated[
    float,
    BeforeValidator(_reader("length")),
    PlainSerializer(_writer("m"), return_type=str, when_used="json"),
    _schema(["30 m", "150 cm"], "(c|m|k)?m|meter|metre|ft|foot"),
]
#: watts, from ``"10.2 kW"``
Watts: TypeAlias = Annotated[
    float,
    BeforeValidator(_reader("power")),
    PlainSerializer(_writer("W", _PREFIXES), return_type=str, when_used="json"),
    _schema(["40 kW", "700 W"], "(m|k|M|G)?W|watt"),
]
#: floating-point operations a second, from ``"989 TFLOP/s"``
FlopsRate: TypeAlias = Annotated[
    float,
    BeforeValidator(_read_flops),
    PlainSerializer(_writer("FLOP/s", _PREFIXES), return_type=str, when_used="json"),
    _schema(["989 TFLOP/s"], "[kMGTPE]?FLOPS?(/s)?"),
]
