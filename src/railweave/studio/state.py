"""A lab's inputs in the page's address: a frozen dataclass to a query and back.

Fields hold text (quantities as one would write them), whole numbers, floats, booleans, enums, or
tuples of text. What equals its default is left out of the address.
"""

from __future__ import annotations

import dataclasses
import enum
import math
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import urlencode

from railweave.errors import InputError
from railweave.formats.validation import list_names

__all__ = ["MOST_TEXT", "from_query", "to_query"]

State = TypeVar("State")
MOST_TEXT = 400  #: characters of one value of an address
_YES, _NO = "yes", "no"


def to_query(state: object) -> str:
    """Return the query (without ``?``) of what differs from the defaults."""
    pairs: list[tuple[str, str]] = []
    for field in dataclasses.fields(typing.cast("Any", state)):
        value = getattr(state, field.name)
        if value != field.default:
            pairs.append((field.name, _text(value)))
    return urlencode(pairs)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return _YES if value else _NO
    if isinstance(value, enum.Enum):
        return str(value.value)
    if isinstance(value, tuple):
        return ",".join(str(item) for item in value)
    return "" if value is None else str(value)


def from_query(cls: type[State], query: Mapping[str, str]) -> tuple[State, tuple[str, ...]]:
    """Read the inputs from a query.

    Returns:
        The inputs, and a sentence for each value that could not be read: its field has the default
        then. Names that the lab does not know are ignored.
    """
    kinds = typing.get_type_hints(cls)
    values: dict[str, Any] = {}
    problems: list[str] = []
    for field in dataclasses.fields(typing.cast("Any", cls)):
        if field.name not in query:
            continue
        text = query[field.name]
        try:
            if len(text) > MOST_TEXT:
                raise InputError(f"longer than {MOST_TEXT} characters")
            values[field.name] = _value(kinds[field.name], text)
        except (ValueError, InputError) as error:
            problems.append(f"{field.name}={text[:40]}: {error}; the default is used")
    return cls(**values), tuple(problems)


def _value(kind: Any, text: str) -> Any:  # noqa: ANN401 - any of the kinds of a field
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        if text == "":
            return None
        kind = next(part for part in typing.get_args(kind) if part is not type(None))
    if typing.get_origin(kind) is tuple:
        return tuple(item for item in text.split(",") if item)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(_one_of(text, [str(item.value) for item in kind]))
    read = {bool: _yes_or_no, int: _whole, float: _finite}.get(kind)
    return read(text) if read else text


def _one_of(text: str, known: list[str]) -> str:
    if text not in known:
        raise InputError(f"allowed: {list_names(known)}")
    return text


def _yes_or_no(text: str) -> bool:
    return _one_of(text, [_YES, _NO]) == _YES


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise InputError("not a finite number")
    return number


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InputError("not a whole number") from None
