"""From pydantic's errors to problems a network engineer understands, each at its place.

A model may raise :func:`field_error` from its own validators to say what is allowed, what is
nearest and at which of its fields the trouble is.
"""

from __future__ import annotations

import difflib
import inspect
import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from railweave.errors import DesignError, Problem
from railweave.formats.yaml_source import PathStep, YamlDocument

__all__ = ["field_error", "list_names", "nearest", "problems_of", "validate"]

Model = TypeVar("Model", bound=BaseModel)

_SIMPLE: Final[dict[str, tuple[str, str]]] = {
    "missing": ("this field is required and not written", ""),
    "string_type": ("expected text", "text"),
    "int_type": ("expected a whole number", "a whole number"),
    "int_parsing": ("expected a whole number", "a whole number"),
    "int_from_float": ("expected a whole number", "a whole number"),
    "float_type": ("expected a number", "a number"),
    "float_parsing": ("expected a number", "a number"),
    "finite_number": ("expected a finite number", "a finite number"),
    "bool_type": ("expected true or false", "true, false"),
    "bool_parsing": ("expected true or false", "true, false"),
    "list_type": ("expected a list", "a list, '[a, b]' or one '- item' a line"),
    "tuple_type": ("expected a list", "a list, '[a, b]' or one '- item' a line"),
    "set_type": ("expected a list", "a list, '[a, b]' or one '- item' a line"),
    "frozen_set_type": ("expected a list", "a list, '[a, b]' or one '- item' a line"),
    "dict_type": ("expected fields, 'name: value' one a line", ""),
    "mapping_type": ("expected fields, 'name: value' one a line", ""),
    "model_type": ("expected fields, 'name: value' one a line", ""),
    "model_attributes_type": ("expected fields, 'name: value' one a line", ""),
    "none_required": ("expected nothing here", "null"),
}
_LIMITS: Final = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
    "multiple_of": ("multiple_of", "a multiple of"),
}


def nearest(value: object, names: Iterable[str]) -> str:
    """Return the name most like the value, or ``""`` where none is like it."""
    by_folded = {name.casefold(): name for name in names}
    matches = difflib.get_close_matches(str(value).casefold(), by_folded, n=1, cutoff=0.6)
    return by_folded[matches[0]] if matches else ""


def list_names(names: Iterable[str], limit: int = 40) -> str:
    """Write names as ``'a, b, c'``, the later ones only counted where there are many."""
    names = list(names)
    rest = f", and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + rest


def field_error(
    message: str, *, allowed: str = "", nearest: str = "", at: Sequence[PathStep] = ()
) -> PydanticCustomError:
    """Make an error to raise in a validator; ``at`` is the field's path within its model."""
    context = {"message": message, "allowed": allowed, "nearest": nearest, "at": tuple(at)}
    return PydanticCustomError("field", "{message}", context)


def validate(
    model: type[Model],
    document: YamlDocument,
    *,
    at: Sequence[PathStep] = (),
    context: Mapping[str, Any] | None = None,
) -> Model:
    """Validate a document, or the part of it at a path, into a model.

    Args:
        model: the pydantic model of what is at ``at``.
        document: what :func:`~railweave.formats.yaml_source.read_yaml` gave.
        at: path of the part to validate; the whole by default.
        context: handed to the model's validators as ``info.context``.

    Raises:
        DesignError: every problem found, at its position, in the file's order.
    """
    data = document.data
    for step in at:
        data = data[step]
    if data is None and not at:
        fields = list_names(_field_names(model))
        raise DesignError(
            [document.problem((), "the file is empty", allowed=f"the fields {fields}")]
        )
    try:
        return model.model_validate(data, context=None if context is None else dict(context))
    except ValidationError as error:
        raise DesignError(problems_of(error, model, document, at=at)) from None


def problems_of(
    error: ValidationError,
    model: type[BaseModel],
    document: YamlDocument,
    *,
    at: Sequence[PathStep] = (),
) -> list[Problem]:
    """Turn each error of a validation into a problem at its place, in the file's order."""
    found: dict[tuple[PathStep, ...], Problem] = {}
    for details in error.errors(include_url=False):
        path = (*at, *_path_in_file(details, document, at))
        problem = _problem(details, path, model, document)
        seen = found.get(path)
        found[path] = problem if seen is None else _either(seen, problem)
    return sorted(found.values(), key=lambda problem: (problem.line, problem.column))


def _either(first: Problem, second: Problem) -> Problem:
    """Join what the members of a union said about one and the same value."""
    choices = dict.fromkeys(text for text in (first.allowed, second.allowed) if text)
    if first.allowed == second.allowed or not choices:
        return first
    return Problem(
        path=first.path,
        message="this value does not fit here",
        file=first.file,
        line=first.line,
        column=first.column,
        allowed=" or ".join(choices),
        nearest=first.nearest or second.nearest,
    )


def _path_in_file(
    details: ErrorDetails, document: YamlDocument, at: Sequence[PathStep]
) -> tuple[PathStep, ...]:
    """Keep of pydantic's location what is a path in the file: not union tags, not ``[key]``."""
    steps = [step for step in details["loc"] if step != "[key]"]
    path: list[PathStep] = list(at)
    for position, step in enumerate(steps):
        is_last = position == len(steps) - 1
        if document.has([*path, step]) or (is_last and details["type"] == "missing"):
            path.append(step)
    path.extend((details.get("ctx") or {}).get("at", ()))
    return tuple(path[len(at) :])


def _problem(
    details: ErrorDetails,
    path: tuple[PathStep, ...],
    model: type[BaseModel],
    document: YamlDocument,
) -> Problem:
    """Say one error in words; ``path`` is where it is in the file."""
    kind = details["type"]
    if kind in {"union_tag_invalid", "union_tag_not_found"}:
        path = (*path, str((details.get("ctx") or {}).get("discriminator", "")).strip("'"))
    if kind == "extra_forbidden":
        words = _unknown_field(details, path, model)
    elif kind == "union_tag_not_found":
        words = (_SIMPLE["missing"][0], list_names(_tags(model, details["loc"], path[-1])), "")
    else:
        words = next(filter(None, (rule(details) for rule in _RULES)))
    message, allowed, near = words
    return document.problem(path, message, allowed=allowed, nearest=near)


_Words: TypeAlias = tuple[str, str, str]  # what is wrong, what is allowed, what is nearest


def _unknown_field(
    details: ErrorDetails, path: tuple[PathStep, ...], model: type[BaseModel]
) -> _Words:
    kinds = _kinds_at(model, details["loc"][:-1])
    names = list(dict.fromkeys(name for kind in kinds for name in _field_names(kind)))
    written = details["loc"][-1]
    return f"there is no field {written!r} here", list_names(names), nearest(written, names)


def _tags(model: type[BaseModel], location: Sequence[PathStep], key: PathStep) -> list[str]:
    """Name the values of the field that tells the members of a union apart."""
    fields = (kind.model_fields.get(str(key)) for kind in _kinds_at(model, location))
    values = (value for field in fields if field for value in get_args(field.annotation))
    return [str(getattr(value, "value", value)) for value in values]


def _of_choice(details: ErrorDetails) -> _Words | None:
    context: dict[str, Any] = details.get("ctx") or {}
    if details["type"] == "union_tag_invalid":
        given, expected = context.get("tag"), str(context.get("expected_tags", ""))
    elif details["type"] in {"literal_error", "enum"}:
        given, expected = details["input"], str(context.get("expected", ""))
    else:
        return None
    names = re.findall(r"'([^']*)'", expected)
    return f"{_shown(given)} is not a choice", list_names(names) or expected, nearest(given, names)


def _of_kind(details: ErrorDetails) -> _Words | None:
    if details["type"] not in _SIMPLE:
        return None
    message, allowed = _SIMPLE[details["type"]]
    if details["type"] != "missing":
        message = f"{message}, not {_shown(details['input'])}"
    return message, allowed, ""


def _of_bounds(details: ErrorDetails) -> _Words | None:
    kind, context = details["type"], details.get("ctx") or {}
    if kind in _LIMITS:
        limit, words = _LIMITS[kind]
        return f"{_shown(details['input'])} is out of range", f"{words} {context.get(limit)}", ""
    if kind in {"too_short", "string_too_short"}:
        what = "characters" if kind.startswith("string") else "entries"
        return f"this has too few {what}", f"at least {context.get('min_length')} {what}", ""
    if kind in {"too_long", "string_too_long"}:
        what = "characters" if kind.startswith("string") else "entries"
        return f"this has too many {what}", f"at most {context.get('max_length')} {what}", ""
    if kind == "string_pattern_mismatch":
        allowed = f"text like {context.get('pattern')}"
        return f"{_shown(details['input'])} is not written as it must be", allowed, ""
    return None


def _of_validator(details: ErrorDetails) -> _Words:
    """Take the words of a validator of ours, else those of the library."""
    context: dict[str, Any] = details.get("ctx") or {}
    message = str(context.get("message") or context.get("error") or details["msg"])
    return message, str(context.get("allowed", "")), str(context.get("nearest", ""))


_RULES: Final[tuple[Callable[[ErrorDetails], _Words | None], ...]] = (
    _of_choice,
    _of_kind,
    _of_bounds,
    _of_validator,
)


def _shown(value: object) -> str:
    """Write a value as the user sees it, shortened."""
    if isinstance(value, Mapping):
        return "a set of fields"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…'"


def _kinds_at(model: type[BaseModel], location: Sequence[PathStep]) -> list[type[BaseModel]]:
    """Find the models a location of pydantic's leads to: more than one below an untagged union."""
    candidates: list[Any] = [model]
    for step in location:
        stepped = [inner for kind in candidates for inner in _step_into(kind, step)]
        if stepped:
            candidates = stepped
        else:  # a union's tag: it narrows the candidates, and is not in the file
            candidates = [kind for kind in candidates if _answers_to(kind, step)] or candidates
    return [kind for kind in candidates if _is_model(kind)]


def _is_model(kind: object) -> bool:
    return inspect.isclass(kind) and issubclass(kind, BaseModel)


def _field_names(model: type[BaseModel]) -> list[str]:
    """Name a model's fields as they are written in a file."""
    return [
        str(field.validation_alias or field.alias or name)
        for name, field in model.model_fields.items()
    ]


def _step_into(kind: Any, step: PathStep) -> Iterator[Any]:  # noqa: ANN401
    """Yield the types a step of a path can lead to within a type."""
    if not _is_model(kind):
        origin, arguments = get_origin(kind), get_args(kind)
        if origin is tuple and Ellipsis not in arguments and isinstance(step, int):
            arguments = arguments[step : step + 1]
        if inspect.isclass(origin) and issubclass(origin, Mapping):
            yield from _members(arguments[-1])
        elif inspect.isclass(origin) and issubclass(origin, Sequence) and isinstance(step, int):
            yield from _members(arguments[0])
        return
    for name, field in kind.model_fields.items():
        if step in (name, field.alias, field.validation_alias):
            yield from _members(field.annotation)


def _members(kind: Any) -> Iterator[Any]:  # noqa: ANN401
    """Yield what an annotation stands for: each member of a union, without its metadata."""
    kind = getattr(kind, "__value__", kind)
    origin = get_origin(kind)
    if origin is Annotated:
        yield from _members(get_args(kind)[0])
    elif origin in {Union, types.UnionType}:
        for member in get_args(kind):
            yield from _members(member)
    else:
        yield kind


def _answers_to(kind: Any, tag: PathStep) -> bool:  # noqa: ANN401
    """Tell whether a union's tag means this model: by its name or by one of its literal fields."""
    if not _is_model(kind):
        return False
    literals = [
        value.value if isinstance(value, Enum) else value
        for field in kind.model_fields.values()
        if get_origin(field.annotation) is Literal
        for value in get_args(field.annotation)
    ]
    return kind.__name__ == tag or tag in literals
