"""Every field of the design file, and every choice such a field offers, found from the models."""

from __future__ import annotations

import types
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from railweave.design.models import Design


def field_keys() -> tuple[str, ...]:
    """Return ``Model.field`` of every field, and ``Model.field=choice`` of every choice.

    A model that stands in several places is listed once: what its fields do does not depend on the
    place. Lists, mappings and every member of a union are entered.
    """
    keys: list[str] = []
    pending: list[type[BaseModel]] = [Design]
    seen: set[type[BaseModel]] = set()
    while pending:
        model = pending.pop(0)
        if model in seen:
            continue
        seen.add(model)
        for name, field in model.model_fields.items():
            key = f"{model.__name__}.{name}"
            keys.append(key)
            members = list(_members(field.annotation))
            for member in members:
                if isinstance(member, type) and issubclass(member, BaseModel):
                    pending.append(member)
            keys.extend(f"{key}={choice}" for choice in _choices(members))
    return tuple(keys)


def _choices(members: list[Any]) -> list[str]:
    """Return what a field offers to choose from; a field with one choice offers none."""
    found: list[str] = []
    for member in members:
        if isinstance(member, type) and issubclass(member, StrEnum):
            found.extend(choice.value for choice in member)
        elif get_origin(member) is Literal:
            found.extend(str(choice) for choice in get_args(member))
        elif member is bool:
            found.extend(("true", "false"))
    return found if len(found) > 1 else []


def _members(kind: Any) -> Iterator[Any]:
    """Yield every plain type within an annotation."""
    origin = get_origin(kind)
    if origin is Annotated:
        yield from _members(get_args(kind)[0])
    elif origin is Literal or not get_args(kind):
        yield kind
    elif origin in {Union, types.UnionType, tuple, dict, list}:
        for member in get_args(kind):
            yield from _members(member)
    else:
        yield kind
