"""The forms of a design: which fields there are, what they take, what the text says of them.

All of it is read from the schema of the design file and from the text, so a field added to the
models has its control at once. Values are text here, as a person types them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from railweave.design.completion import FieldNode, catalog_part, forms_of, nodes_at
from railweave.errors import InputError, RailweaveError
from railweave.formats.yaml_source import PathStep, format_path

__all__ = [
    "EDITOR_ONLY",
    "SECTIONS",
    "FormField",
    "FormGroup",
    "Section",
    "form_of",
    "new_entry",
    "read_value",
    "worked_out_of",
]

Path_: TypeAlias = tuple[PathStep, ...]
Kind: TypeAlias = Literal["choice", "several", "whole", "number", "text"]

#: fields that only the text has, and why
EDITOR_ONLY: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Design.railweave": "the version of the format, always 1",
        "Design.catalog": "names files, which the studio does not open",
        "RoutingSpec.table": "names a file, which the studio does not open",
        "Plane.graph": "names a file, which the studio does not open",
        "Plane.extra_hosts": "its names are free: 'ufm: 4'",
    }
)
#: fields shown at once; the others of the same mapping wait behind "More"
_FIRST: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "Plane": (
            "shares",
            "transport",
            "topology",
            "switch",
            "speed",
            "oversubscription",
            "scalable_unit",
        ),
        "Job": ("name", "collective", "size", "algorithm", "ranks", "model", "placement"),
        "CongestionSpec": ("scheme", "profile", "ecn", "headroom", "pfc_threshold"),
    }
)
#: what an entry that is added begins with
_START: Final[Mapping[str, Mapping[str, object]]] = MappingProxyType(
    {
        "servers": {"model": "dgx-h100", "count": 1, "name": "more"},
        "storage_servers": {"count": 4},
        "inline": {"gpus": 8, "nics": 8, "nic_speed": "400 Gb/s"},
        "frontend": {"transport": "ethernet", "topology": "leaf-spine", "switch": "sn4700"},
        "storage": {"shares": "frontend"},
        "management": {
            "transport": "ethernet",
            "topology": "star",
            "switch": "sn2201",
            "speed": "1 Gb/s",
        },
        "jobs": {"name": "job", "collective": "all-reduce", "size": "1 GiB"},
        "background": {"name": "flows", "load": 0.3, "duration": "10 ms"},
        "storage_traffic": {"name": "checkpoints", "checkpoint_size": "1 TB"},
        "stragglers": {"gpu": 0, "delay": "10 us"},
        "tenants": {"name": "tenant"},
        "services": {"kind": "scheduler"},
        "parallelism": {"tensor": 8},
        "counts": {"spine": 4},
    }
)


@dataclass(frozen=True, slots=True)
class Section:
    """A page of the form: its key, its title, and the paths it shows."""

    key: str
    title: str
    paths: tuple[Path_, ...]


SECTIONS: Final = (
    Section("cluster", "Cluster", ((), ("cluster",))),
    Section("backend", "Back-end", (("planes", "backend"),)),
    Section("frontend", "Front-end", (("planes", "frontend"),)),
    Section("storage", "Storage", (("planes", "storage"),)),
    Section("management", "Management", (("planes", "management"),)),
    Section("jobs", "Jobs", (("jobs",),)),
    Section("traffic", "Other traffic", (("background",), ("storage_traffic",), ("stragglers",))),
    Section("facility", "Facility", (("facility",), ("software",))),
    Section("objectives", "Objectives", (("objectives",), ("services",))),
    Section("security", "Security", (("tenants",), ("security",))),
)


@dataclass(frozen=True, slots=True)
class FormField:
    """One control: a field, what it takes, and what the text says.

    Attributes:
        path: of the field.
        label: its name in words.
        kind: of the control.
        value: as written; empty where it is not.
        default: what it comes to when left out, as far as that is known.
        options: values to choose from.
        info: what it means.
        required: whether it must be written.
        written: whether it is.
    """

    path: Path_
    label: str
    kind: Kind
    value: str
    default: str
    options: tuple[str, ...]
    info: str
    required: bool
    written: bool


@dataclass(frozen=True, slots=True)
class FormGroup:
    """Fields that stand in one mapping, and groups within it.

    Attributes:
        path: of the mapping or list.
        title: its name in words.
        info: what it means.
        fields: shown at once.
        more: fields shown on demand.
        groups: mappings and lists within.
        present: whether it is written.
        listed: whether it is a list; its groups are the entries.
        removable: whether it can be taken out as a whole.
        addable: whether an entry can be added, or the group itself where it is not written.
    """

    path: Path_
    title: str
    info: str = ""
    fields: tuple[FormField, ...] = ()
    more: tuple[FormField, ...] = ()
    groups: tuple[FormGroup, ...] = ()
    present: bool = True
    listed: bool = False
    removable: bool = False
    addable: bool = False

    def walk(self) -> Iterator[FormField]:
        """Yield all fields of it and of the groups within."""
        yield from self.fields
        yield from self.more
        for group in self.groups:
            yield from group.walk()


def form_of(data: object, section: Section, worked: Mapping[str, str] | None = None) -> FormGroup:
    """Return the form of a section.

    Args:
        data: of the text, plain.
        section: of :data:`SECTIONS`.
        worked: what fields that are left out come to, by path; see
            :func:`railweave.design.worked_out`.
    """
    reader = _Reader(data, worked or {})
    groups = tuple(reader.top(path) for path in section.paths)
    return groups[0] if len(groups) == 1 else FormGroup((), section.title, groups=groups)


@lru_cache(maxsize=32)
def worked_out_of(text: str) -> Mapping[str, str]:
    """Return what a good design's empty fields come to, by path; nothing for other texts."""
    from railweave.design import worked_out
    from railweave.studio.designs import open_design

    try:
        return MappingProxyType(worked_out(open_design(text).document))
    except RailweaveError:
        return MappingProxyType({})


def new_entry(path: Sequence[PathStep], data: object) -> dict[str, object]:
    """Return what an entry added at a list's path, or a mapping added there, begins with."""
    name = next(str(step) for step in reversed(path) if isinstance(step, str))
    entry = dict(_START.get(name, {}))
    there = _at(data, tuple(path))
    if isinstance(there, list) and "name" in entry:
        taken = {item.get("name") for item in there if isinstance(item, dict)}
        stem, number = str(entry["name"]), 2
        while entry["name"] in taken:
            entry["name"] = f"{stem}-{number}"
            number += 1
    return entry


def read_value(field: FormField, text: str) -> object:
    """Return the value that a typed text means for a field.

    Raises:
        InputError: it is no value of this kind.
    """
    text = text.strip()
    if field.kind == "several":
        return [part.strip() for part in text.split(",") if part.strip()]
    if field.kind == "whole":
        try:
            return int(text.replace(",", ""))
        except ValueError:
            raise InputError(f"{field.label}: {text[:40]!r} is no whole number") from None
    if field.kind == "choice" and text in {"true", "false"}:
        return text == "true"
    try:
        number = float(text)
    except ValueError:
        if field.kind == "number":
            raise InputError(f"{field.label}: {text[:40]!r} is no number") from None
        return text
    if not math.isfinite(number) or (field.kind == "text" and not _takes_numbers(field.path)):
        return text
    return int(text) if text.lstrip("+-").isdigit() else number


# ---------------------------------------------------------------- reading schema and data


def _at(data: object, path: Path_) -> Any:  # noqa: ANN401 - any YAML value
    for step in path:
        if isinstance(data, dict):
            data = data if step == 0 else data.get(step)
        elif isinstance(data, list) and isinstance(step, int) and step < len(data):
            data = data[step]
        else:
            return None
    return data


def _in_words(name: str) -> str:
    words = name.replace("_", " ").replace("-", " ")
    for short, long in (("gpus", "GPUs"), ("gpu", "GPU"), ("nics", "NICs"), ("nic ", "NIC ")):
        words = words.replace(short, long)
    for upper in ("mtu", "ecn", "rtt", "pfc", "cnp", "rnr", "nccl", "nos", "pcie"):
        words = " ".join(word.upper() if word == upper else word for word in words.split(" "))
    return words[:1].upper() + words[1:]


def _shown(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return ", ".join(_shown(item) for item in value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _takes_numbers(path: Path_) -> bool:
    return any(
        form.get("type") in {"integer", "number"}
        for field in nodes_at(path)
        for _, form in forms_of(field)
    )


class _Reader:
    def __init__(self, data: object, worked: Mapping[str, str]) -> None:
        self._data = data
        self._worked = worked

    def top(self, path: Path_) -> FormGroup:
        """Return the group of one of a section's paths; the root's has its plain fields only."""
        if not path:
            group = self._mapping(path, "Design", nodes_at(()))
            return replace(group, groups=())
        field = nodes_at(path)[0]
        if any(form.get("type") == "array" for _, form in forms_of(field)):
            return self._list(path, field)
        return self._group(path, field)

    def _group(self, path: Path_, field: FieldNode) -> FormGroup:
        title = _in_words(str(path[-1]))
        group = self._mapping(path, title, (field,))
        there = _at(self._data, path)
        always = field.required or "default" in field.node or self._has_default(field)
        present = isinstance(there, dict) or always
        return replace(
            group,
            info=field.info,
            present=present,
            removable=isinstance(there, dict) and not field.required,
            addable=not present,
        )

    @staticmethod
    def _has_default(field: FieldNode) -> bool:
        """Whether a mapping stands for itself when left out: none of its forms is 'null'."""
        return not any(form.get("type") == "null" for _, form in forms_of(field))

    def _mapping(self, path: Path_, title: str, nodes: Sequence[FieldNode]) -> FormGroup:
        fields: list[FormField] = []
        groups: list[FormGroup] = []
        owner = ""
        there = _at(self._data, path)
        for node in nodes:
            for name, form in _meant(forms_of(node), there):
                for key in form.get("properties", {}):
                    owner = name or str(form.get("title", ""))
                    if form["properties"][key].get("deprecated"):
                        continue
                    if f"{owner if owner != 'railweave design' else 'Design'}.{key}" in EDITOR_ONLY:
                        continue
                    self._add((*path, key), fields, groups)
        first = _FIRST.get(owner, ())
        written_first = tuple(f for f in fields if not first or f.path[-1] in first or f.written)
        later = tuple(f for f in fields if f not in written_first)
        return FormGroup(path, title, fields=written_first, more=later, groups=tuple(groups))

    def _add(self, path: Path_, fields: list[FormField], groups: list[FormGroup]) -> None:
        node = nodes_at(path)[0]
        forms = [form for _, form in forms_of(node) if form.get("type") != "null"]
        mappings = [form for form in forms if "properties" in form]
        lists = [form for form in forms if form.get("type") == "array"]
        there = _at(self._data, path)
        items = [replace(node, node=form["items"]) for form in lists]
        entries = [inner for item in items for _, inner in forms_of(item)]
        if lists and any("properties" in inner for inner in entries):
            groups.append(self._list(path, node))
        elif mappings and (isinstance(there, dict) or len(mappings) == len(forms)):
            groups.append(self._group(path, node))
        elif mappings and self._short(path):
            groups.append(self._short_group(path, node))
        else:
            fields.append(self._field(path, node))

    @staticmethod
    def _short(path: Path_) -> bool:
        return path[-1] in {"routing", "congestion"}

    def _short_group(self, path: Path_, node: FieldNode) -> FormGroup:
        """Return the group of a field that may be written as its scheme alone."""
        group = self._mapping(path, _in_words(str(path[-1])), (node,))
        there = _at(self._data, path)
        if isinstance(there, str):
            fields = tuple(
                replace(f, value=there, written=True) if f.path[-1] == "scheme" else f
                for f in group.fields
            )
            group = replace(group, fields=fields)
        return replace(group, info=node.info, removable=there is not None)

    def _list(self, path: Path_, node: FieldNode) -> FormGroup:
        there = _at(self._data, path)
        entries = [there] if isinstance(there, dict) else there if isinstance(there, list) else []
        groups = []
        for number, entry in enumerate(entries):
            at = (*path, number)
            name = entry.get("name") if isinstance(entry, dict) else None
            title = str(name or f"{_in_words(str(path[-1]))} {number + 1}")
            inner = nodes_at(at) or (node,)
            keep = path[-1] == "servers" and len(entries) == 1
            group = self._mapping(at, title, inner)
            groups.append(replace(group, removable=not keep))
        addable = not isinstance(there, dict)
        title = _in_words(str(path[-1]))
        return FormGroup(path, title, node.info, groups=tuple(groups), listed=True, addable=addable)

    def _field(self, path: Path_, node: FieldNode) -> FormField:
        there = _at(self._data, path)
        forms = [form for _, form in forms_of(node) if form.get("type") != "null"]
        options: list[str] = []
        for form in forms:
            options += _options(node, form)
        free = any(_is_free(node, form) for form in forms)
        kinds = {str(form.get("type")) for form in forms if "properties" not in form}
        kind: Kind = "text"
        if kinds == {"array"}:
            kind = "several"
        elif options and not free:
            kind = "choice"
        elif kinds == {"integer"}:
            kind = "whole"
        elif kinds == {"number"}:
            kind = "number"
        short = self._worked.get(format_path(path[:-1]), "") if path[-1] == "scheme" else ""
        default = self._worked.get(format_path(path), short) or (
            _shown(node.node["default"]) if "default" in node.node else ""
        )
        return FormField(
            path,
            _in_words(str(path[-1])),
            kind,
            _shown(there) if not isinstance(there, dict) else "",
            default,
            tuple(dict.fromkeys(options)),
            node.info,
            node.required,
            there is not None,
        )


def _meant(
    forms: Sequence[tuple[str, Mapping[str, Any]]], there: object
) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the forms of a mapping that the keys written so far point to; all where none does."""
    mappings = [(name, form) for name, form in forms if "properties" in form]
    written = set(there) if isinstance(there, dict) else set()
    meant = [(name, form) for name, form in mappings if written & set(form["properties"])]
    return meant or mappings


def _options(node: FieldNode, form: Mapping[str, Any]) -> list[str]:
    if "enum" in form:
        return [_shown(value) for value in form["enum"]]
    if "const" in form:
        return [_shown(form["const"])]
    if form.get("type") == "boolean":
        return ["true", "false"]
    if form.get("type") == "array":
        items = replace(node, node=form["items"])
        return [option for _, inner in forms_of(items) for option in _options(items, inner)]
    if form.get("type") == "string":
        return [name for name, _ in catalog_part(node)]
    return []


def _is_free(node: FieldNode, form: Mapping[str, Any]) -> bool:
    """Whether a form takes what is on no list."""
    if "properties" in form or "enum" in form or "const" in form:
        return False
    if form.get("type") == "array":
        return True
    return form.get("type") != "boolean" and not (
        form.get("type") == "string" and catalog_part(node)
    )
