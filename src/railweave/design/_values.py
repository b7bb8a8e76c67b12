"""Kinds of values in the design models: numbers, names, and fields that take more than one form.

A field with several forms (a name or a mapping, one or a list) picks its form before validation,
so that an error speaks of the one form that was meant and not of all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    TypeAdapter,
    WrapValidator,
)

from railweave.formats.quantity import RateBps, Seconds, SizeBytes, Watts
from railweave.formats.validation import field_error

if TYPE_CHECKING:
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

__all__ = [
    "Also",
    "Duration",
    "Few",
    "FewOrNone",
    "Fraction",
    "Name",
    "NonNegative",
    "Positive",
    "Power",
    "Ratio",
    "Seed",
    "Size",
    "Some",
    "SpecModel",
    "Speed",
    "Text",
    "Truth",
    "above_zero",
    "choose",
    "is_list",
    "is_mapping",
    "is_number",
    "is_text",
    "not_empty",
    "one_or_many",
    "short_for",
]

#: the largest count a field takes; it keeps a slip of the finger from asking for a planet of GPUs
MAX_COUNT: Final = 10_000_000

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_RATIO: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*:\s*(\d+(?:\.\d+)?)\s*")


def _shown(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 40 else f"{text[:37]}…"


def _check_name(value: object) -> object:
    if isinstance(value, str) and not _NAME.fullmatch(value):
        allowed = "letters, digits, '.', '_' and '-', a letter or digit first"
        near = re.sub(r"[^A-Za-z0-9._-]+", "-", value).strip("-._")
        raise field_error(f"{_shown(value)} is not a name", allowed=allowed, nearest=near)
    return value


Positive = Annotated[int, Field(ge=1, le=MAX_COUNT, strict=True)]
NonNegative = Annotated[int, Field(ge=0, le=MAX_COUNT, strict=True)]
#: a number of parts of one server, switch or connection
Few = Annotated[int, Field(ge=1, le=1024, strict=True)]
FewOrNone = Annotated[int, Field(ge=0, le=1024, strict=True)]
#: a number of other hosts, or of repetitions
Some = Annotated[int, Field(ge=1, le=100_000, strict=True)]
Seed = Annotated[int, Field(ge=0, le=2**63 - 1, strict=True)]
Fraction = Annotated[float, Field(ge=0.0, le=1.0, strict=True, allow_inf_nan=False)]
Truth = Annotated[bool, Field(strict=True)]
Name = Annotated[
    str,
    Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=64, strict=True),
    BeforeValidator(_check_name),
]
Text = Annotated[str, Field(min_length=1, max_length=2000, strict=True)]


class SpecModel(BaseModel):
    """Base of all design models: frozen, no unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


def above_zero(value: float) -> float:
    """Refuse a quantity of 0 where only more than that makes sense."""
    if value <= 0:
        raise field_error("0 makes no sense here", allowed="more than 0")
    return value


Speed: TypeAlias = Annotated[RateBps, AfterValidator(above_zero)]
Size: TypeAlias = Annotated[SizeBytes, AfterValidator(above_zero)]
Duration: TypeAlias = Annotated[Seconds, AfterValidator(above_zero)]
Power: TypeAlias = Annotated[Watts, AfterValidator(above_zero)]


def not_empty(values: tuple[object, ...]) -> tuple[object, ...]:
    """Refuse a list without entries."""
    if not values:
        raise field_error("the list is empty", allowed="at least one entry")
    return values


class Also:
    """Adds a short form, accepted by a validator, to the JSON Schema of a field.

    ``{"definition": name}`` stands for a reference to that model or enumeration.
    """

    def __init__(self, schema: dict[str, Any]) -> None:
        self.schema = schema

    def __get_pydantic_json_schema__(
        self, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return any of the field's own schema and the short form's."""
        own = handler(core_schema)
        return {"anyOf": [*own.get("anyOf", [own]), self.schema]}


def is_text(value: object) -> bool:
    return isinstance(value, str)


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_list(value: object) -> bool:
    return isinstance(value, list | tuple)


def is_mapping(value: object) -> bool:
    """Tell whether a value is written as a mapping."""
    return isinstance(value, dict)


def choose(allowed: str, *forms: tuple[Callable[[object], bool], Any]) -> WrapValidator:
    """Make the validator of a field with several forms.

    Args:
        allowed: the forms in words, for the error message.
        forms: pairs of a test on the raw value and the type it then must have; the first that
            tests true is taken, and only its errors are shown.
    """
    adapters: dict[int, TypeAdapter[Any]] = {}

    def read(value: object, _: object) -> object:
        if isinstance(value, SpecModel):
            return value
        for number, (is_meant, kind) in enumerate(forms):
            if is_meant(value):
                if number not in adapters:
                    adapters[number] = TypeAdapter(kind)
                return adapters[number].validate_python(value)
        raise field_error(f"{_shown(value)} does not fit here", allowed=allowed)

    return WrapValidator(read)


def one_or_many(value: object) -> object:
    """Take a single mapping for a list of one."""
    return (value,) if isinstance(value, dict | SpecModel) else value


def short_for(field: str) -> BeforeValidator:
    """Make the validator which takes a plain text for a mapping with one field."""

    def read(value: object) -> object:
        return {field: value} if isinstance(value, str) else value

    return BeforeValidator(read)


def _read_ratio(value: object) -> object:
    """Take ``"1.85:1"`` for 1.85."""
    if not isinstance(value, str):
        return value
    match = _RATIO.fullmatch(value)
    if match is None or float(match[2]) == 0:
        raise field_error(
            f"{value!r} is not a ratio",
            allowed="a number such as 2 or 1.85, or a text such as '2:1'",
        )
    return float(match[1]) / float(match[2])


#: down : up, as a number or as a text such as ``"1.85:1"``
Ratio = Annotated[
    float,
    BeforeValidator(_read_ratio),
    Field(gt=0.0, le=1000.0, strict=True, allow_inf_nan=False),
    Also(
        {
            "type": "string",
            "pattern": r"^\s*\d+(\.\d+)?\s*:\s*\d+(\.\d+)?\s*$",
            "examples": ["2:1", "1.85:1"],
        }
    ),
]
