"""What may be written at a place of a design's text, and what the field there means.

Everything comes from the schema of the design file and from the catalog, so it cannot drift from
what the loader accepts. The text need not be sound YAML: it is what somebody is typing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias

from railweave.design._cursor import Cursor, locate
from railweave.design.schema import design_schema
from railweave.formats.yaml_source import PathStep, format_path

__all__ = [
    "Completion",
    "Completions",
    "FieldHelp",
    "FieldNode",
    "catalog_names",
    "catalog_part",
    "complete",
    "describe",
    "describe_path",
    "forms_of",
    "nodes_at",
]

Node: TypeAlias = Mapping[str, Any]
Kind: TypeAlias = Literal["field", "choice", "part", "example"]

#: (definition, field) → section of the catalog whose names the field takes
_PARTS: Final[Mapping[tuple[str, str], str]] = {
    ("ServerGroup", "model"): "servers",
    ("InlineServer", "gpu"): "gpus",
    ("Plane", "switch"): "switches",
    ("TierSwitches", "leaf"): "switches",
    ("TierSwitches", "spine"): "switches",
    ("TierSwitches", "core"): "switches",
    ("Job", "model"): "models",
}
#: first example of a quantity's schema → units to offer once a number is written
_UNITS: Final[Mapping[str, tuple[str, ...]]] = {
    "400 Gb/s": ("Gb/s", "Tb/s", "GB/s", "Mb/s"),
    "3.35 TB/s": ("TB/s", "GB/s"),
    "1 GiB": ("GiB", "MiB", "KiB", "GB", "MB", "kB", "B"),
    "2 us": ("us", "ms", "s", "min", "h", "ns"),
    "30 m": ("m", "cm", "km"),
    "40 kW": ("kW", "MW", "W"),
}
_NUMBER: Final = re.compile(r"([0-9][0-9_,.]*)\s*[A-Za-z/]*")


@dataclass(frozen=True, slots=True)
class Completion:
    """One thing that may be written: what is shown, what is inserted, and what it means."""

    label: str
    insert: str
    kind: Kind
    detail: str = ""
    info: str = ""


@dataclass(frozen=True, slots=True)
class Completions:
    """What may stand instead of the text from ``start`` to ``end``."""

    start: int
    end: int
    items: tuple[Completion, ...]


@dataclass(frozen=True, slots=True)
class FieldHelp:
    """What a field is: its path, meaning, default and what it takes, each as text."""

    path: str
    description: str
    default: str
    allowed: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class FieldNode:
    """A field of the schema as it stands at a path: its node and the definition that has it."""

    name: str
    node: Node
    owner: str
    required: bool = False

    @property
    def info(self) -> str:
        """What it means."""
        return _info(self)


# ---------------------------------------------------------------- the schema as a tree


@lru_cache(maxsize=1)
def _schema() -> dict[str, Any]:
    return design_schema()


def _alternatives(node: Node) -> Iterator[tuple[str, Node]]:
    """Yield each form of a value with the name of its definition, references followed."""
    if "$ref" in node:
        name = str(node["$ref"]).rpartition("/")[2]
        for inner_name, inner in _alternatives(_schema()["$defs"][name]):
            yield inner_name or name, inner
    elif "anyOf" in node or "oneOf" in node:
        for inner in (*node.get("anyOf", ()), *node.get("oneOf", ())):
            yield from _alternatives(inner)
    else:
        yield "", node


def _children(found: FieldNode, step: PathStep) -> Iterator[FieldNode]:
    for name, form in _alternatives(found.node):
        if isinstance(step, int):
            if form.get("type") == "array" and isinstance(form.get("items"), dict):
                yield FieldNode(found.name, form["items"], found.owner)
            continue
        owner = name or str(form.get("title", ""))
        if step in form.get("properties", {}):
            needed = step in form.get("required", ())
            yield FieldNode(step, form["properties"][step], owner, needed)
        elif isinstance(form.get("additionalProperties"), dict):
            yield FieldNode(step, form["additionalProperties"], owner)
        elif form.get("patternProperties"):
            for inner in form["patternProperties"].values():
                yield FieldNode(step, inner, owner)


def nodes_at(path: Sequence[PathStep]) -> tuple[FieldNode, ...]:
    """Return the fields of the schema that a path can lead to; none where it leads nowhere."""
    found: tuple[FieldNode, ...] = (FieldNode("", _schema(), ""),)
    for step in path:
        found = tuple(child for field in found for child in _children(field, step))
    return found


def _properties(fields: Sequence[FieldNode]) -> dict[str, FieldNode]:
    """Return the fields which a mapping at this place may have, in the schema's order."""
    properties: dict[str, FieldNode] = {}
    for field in fields:
        for name, form in _alternatives(field.node):
            needed = form.get("required", ())
            for key, node in form.get("properties", {}).items():
                if not node.get("deprecated"):
                    owner = name or str(form.get("title", ""))
                    properties.setdefault(key, FieldNode(key, node, owner, key in needed))
    return properties


def forms_of(field: FieldNode) -> tuple[tuple[str, Node], ...]:
    """Return each form that a field's value may have, with its definition's name if it has one."""
    return tuple(_alternatives(field.node))


def catalog_part(field: FieldNode) -> tuple[tuple[str, str], ...]:
    """Return the names of the catalog that a field takes, each with a few words about it."""
    section = _PARTS.get((field.owner, field.name))
    return catalog_names(section) if section else ()


# ---------------------------------------------------------------- completion


def complete(text: str, offset: int) -> Completions:
    """Return what may be written at an index of a text, what fits best first.

    Args:
        text: of a design, whole or broken.
        offset: of the cursor in it.
    """
    cursor = locate(text, offset)
    if cursor.at == "none":
        return Completions(offset, offset, ())
    fields = nodes_at(cursor.path)
    items: list[Completion] = []
    if cursor.at == "key":
        items = _key_items(cursor, text, fields)
    if cursor.at == "value" or not items:
        items = _value_items(fields, text[cursor.start : offset])
    return Completions(cursor.start, cursor.end, tuple(items))


def _key_items(cursor: Cursor, text: str, fields: Sequence[FieldNode]) -> list[Completion]:
    follows = re.match(r"[ \t]*:", text[cursor.end :]) is not None
    typed = text[cursor.start : cursor.end]
    items = []
    for name, field in _properties(fields).items():
        if name in cursor.written and name != typed:
            continue
        insert = name if follows else name + _opening(field, cursor)
        default = _default(field)
        detail = "needed" if field.required else f"default {default}" if default else ""
        items.append((not field.required, Completion(name, insert, "field", detail, _info(field))))
    # Needed fields come first; the order within is the schema's.
    return [item for _, item in sorted(items, key=lambda pair: pair[0])]


def _opening(field: FieldNode, cursor: Cursor) -> str:
    """Return what follows a new key: room for a value, or the start of a mapping or a list."""
    if cursor.flow:
        return ": "
    kinds = {form.get("type") for _, form in _alternatives(field.node)} - {"null"}
    mappings = any("properties" in form for _, form in _alternatives(field.node))
    inner = " " * (cursor.indent + 2)
    if kinds == {"object"} and mappings:
        return f":\n{inner}"
    if kinds == {"array"} and any(
        "properties" in inner_form
        for _, form in _alternatives(field.node)
        for _, inner_form in _alternatives(form.get("items", {}))
    ):
        return f":\n{inner}- "
    return ": "


def _value_items(fields: Sequence[FieldNode], typed: str) -> list[Completion]:
    items: dict[str, Completion] = {}
    for field in fields:
        info, default = _info(field), _default(field)
        for name, form in _alternatives(field.node):
            for choice in _choices(form):
                detail = "default" if choice == default else ""
                items.setdefault(choice, Completion(choice, choice, "choice", detail, info))
            section = _PARTS.get((field.owner, field.name))
            if section and form.get("type") == "string" and not name:
                for part, detail in catalog_names(section):
                    items.setdefault(part, Completion(part, part, "part", detail, info))
            for example in _quantities(form, typed):
                items.setdefault(example, Completion(example, example, "example", "", info))
        if default and default not in items and not default.startswith(("{", "[")):
            items[default] = Completion(default, default, "example", "default", info)
    return list(items.values())


def _choices(form: Node) -> list[str]:
    if "enum" in form:
        return [_plain(value) for value in form["enum"]]
    if "const" in form:
        return [_plain(form["const"])]
    return ["true", "false"] if form.get("type") == "boolean" else []


def _quantities(form: Node, typed: str) -> list[str]:
    """Return examples of a quantity, or what has been typed with each unit."""
    examples = [str(example) for example in form.get("examples", ())]
    number = _NUMBER.fullmatch(typed.strip())
    if not examples or number is None:
        return examples
    return [f"{number[1]} {unit}" for unit in _UNITS.get(examples[0], ())] or examples


@lru_cache(maxsize=8)
def catalog_names(section: str) -> tuple[tuple[str, str], ...]:
    """Return the names of a section of railweave's catalog, each with a few words about it.

    Args:
        section: ``servers``, ``gpus``, ``switches`` or ``models``.
    """
    from railweave.catalog import default_catalog

    parts = getattr(default_catalog(), section)()
    return tuple((part.name, str(getattr(part, "title", "") or "")) for part in parts)


# ---------------------------------------------------------------- help


def describe(text: str, offset: int) -> FieldHelp | None:
    """Return what the field at an index of a text is, or None where there is none."""
    cursor = locate(text, offset)
    if cursor.at == "none":
        return None
    path = cursor.path
    if cursor.at == "key":
        word = text[cursor.start : cursor.end].strip("\"'")
        if word and nodes_at((*path, word)):
            path = (*path, word)
    while path and isinstance(path[-1], int):
        path = path[:-1]
    return describe_path(path)


def describe_path(path: Sequence[PathStep]) -> FieldHelp | None:
    """Return what the field at a path is, or None where the schema knows none."""
    fields = nodes_at(path)
    if not fields or not path:
        return None
    field = fields[0]
    allowed = "; ".join(dict.fromkeys(filter(None, (_allowed(f) for f in fields))))
    return FieldHelp(format_path(path), _info(field), _default(field), allowed, field.required)


def _info(field: FieldNode) -> str:
    text = field.node.get("description")
    if not text:
        text = next(
            (f["description"] for _, f in _alternatives(field.node) if "description" in f), ""
        )
    return str(text)


def _default(field: FieldNode) -> str:
    return _plain(field.node["default"]) if field.node.get("default", []) != [] else ""


def _plain(value: object) -> str:
    """Write a value as it stands in YAML."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _allowed(field: FieldNode) -> str:
    """Say in words what a field takes."""
    parts: list[str] = []
    section = _PARTS.get((field.owner, field.name))
    if section:
        parts.append("a name of the catalog: " + ", ".join(n for n, _ in catalog_names(section)))
    for _, form in _alternatives(field.node):
        parts += filter(None, [_form_in_words(form, named=bool(section))])
    return " or ".join(dict.fromkeys(parts))


def _form_in_words(form: Node, *, named: bool) -> str:
    kind = form.get("type")
    if choices := _choices(form):
        return ", ".join(choices)
    if "examples" in form:
        return "a text such as " + ", ".join(f"'{example}'" for example in form["examples"])
    if kind in {"integer", "number"}:
        return ("a whole number" if kind == "integer" else "a number") + _bounds(form)
    if kind == "object":
        return "fields: " + ", ".join(form.get("properties", {})) if "properties" in form else ""
    if kind == "array":
        return "a list"
    return "a text" if kind == "string" and not named else ""


def _bounds(form: Node) -> str:
    words = []
    for key, word in (
        ("minimum", "from"),
        ("exclusiveMinimum", "above"),
        ("maximum", "to"),
        ("exclusiveMaximum", "below"),
    ):
        if key in form:
            words.append(f"{word} {form[key]:,}")
    return " " + " ".join(words) if words else ""
