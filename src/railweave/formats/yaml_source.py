"""YAML text to plain data which keeps the position of every key and value.

It reads the event stream rather than a constructed document, so that no tag makes an object, size
and nesting are bounded while reading, and each problem has its line and column. Plain scalars
follow YAML 1.2: ``yes`` and ``on`` are text, ``true`` and ``false`` are truth values.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from railweave.errors import DesignError, Problem

if TYPE_CHECKING:
    from ruamel.yaml.error import MarkedYAMLError
    from ruamel.yaml.events import Event, ScalarEvent

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_NODES",
    "MAX_SCALAR",
    "PathStep",
    "YamlDocument",
    "format_path",
    "parse_yaml",
    "read_yaml",
]

PathStep: TypeAlias = str | int

#: Largest file read, and the deepest nesting and most values in it (aliases count expanded).
MAX_BYTES: Final = 4 * 1024 * 1024
MAX_DEPTH: Final = 64
MAX_NODES: Final = 400_000
#: Longest key or value, in characters.
MAX_SCALAR: Final = 64 * 1024

# Reading a tag takes time with the square of its length; none is allowed anyway.
_LONG_TAG: Final = re.compile(r"(?:^|(?<=[\s,\[{(:\-]))!\S{256}", re.MULTILINE)
_SHOWN: Final = 80
_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,100}")
_OCTAL: Final = re.compile(r"0o[0-7]{1,100}")
_HEX: Final = re.compile(r"0x[0-9a-fA-F]{1,100}")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_WORDS: Final[dict[str, object]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


@dataclass(slots=True)
class _Node:
    """A value with its position; for a mapping or list also its children, each with its key's."""

    value: Any
    line: int
    column: int
    weight: int = 1
    children: dict[PathStep, tuple[tuple[int, int], _Node]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """One YAML file as plain data (``data``) with the positions of what is in it.

    ``sha256`` (hex) is of the file's bytes, or of the text in UTF-8.
    """

    file: str
    data: Any
    _root: _Node = field(repr=False)
    sha256: str = ""

    def position(self, path: Sequence[PathStep]) -> tuple[int, int]:
        """Return line and column, from 1, of the key at a path, or of its nearest parent."""
        position, node = (self._root.line, self._root.column), self._root
        for step in path:
            child = node.children.get(step)
            if child is None:
                break
            position, node = child
        return position

    def value_position(self, path: Sequence[PathStep]) -> tuple[int, int]:
        """Return line and column, from 1, of the value at a path, or of its nearest parent's."""
        node = self._root
        for step in path:
            child = node.children.get(step)
            if child is None:
                break
            node = child[1]
        return node.line, node.column

    def has(self, path: Sequence[PathStep]) -> bool:
        """Tell whether something is written at this path."""
        node = self._root
        for step in path:
            child = node.children.get(step)
            if child is None:
                return False
            node = child[1]
        return True

    def problem(
        self, path: Sequence[PathStep], message: str, *, allowed: str = "", nearest: str = ""
    ) -> Problem:
        """Make a :class:`Problem` at a path of this file."""
        line, column = self.position(path)
        return Problem(format_path(path), message, self.file, line, column, allowed, nearest)


def format_path(path: Sequence[PathStep]) -> str:
    """Write a field's path as people do: ``planes.backend.speed``, ``jobs[0].size``."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else str(step)
    return text


def read_yaml(path: Path) -> YamlDocument:
    """Read a YAML file of at most 4 MiB.

    Raises:
        DesignError: no such file, not UTF-8, too large or not sound YAML; with positions.
    """
    name = str(path)
    if path.exists() and not path.is_file() and not path.is_dir():
        raise _error(name, "this is no ordinary file; name a YAML file")
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        from railweave.formats.validation import nearest

        beside = path.parent.iterdir() if path.parent.is_dir() else ()
        near = nearest(path.name, [entry.name for entry in beside])
        raise _error(
            name, "there is no such file", near=str(path.with_name(near)) if near else ""
        ) from None
    except IsADirectoryError:
        raise _error(name, "this is a directory; name a YAML file in it") from None
    except OSError as error:
        raise _error(name, f"the file cannot be read ({error.strerror or error})") from None
    if len(raw) > MAX_BYTES:
        raise _error(name, "the file is too large", allowed=f"at most {MAX_BYTES // 2**20} MiB")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start]
        line = before.count(b"\n") + 1
        column = error.start - (before.rfind(b"\n") + 1) + 1
        raise _error(name, "the file is not UTF-8 text", line, column) from None
    return replace(parse_yaml(text, name), sha256=hashlib.sha256(raw).hexdigest())


def parse_yaml(text: str, file: str) -> YamlDocument:
    """Read YAML text; ``file`` is the name its problems are reported under.

    Raises:
        DesignError: too large, too deep, too long a value, duplicate keys, tabs or not sound YAML;
            with positions.
    """
    if len(text) > MAX_BYTES:
        raise _error(file, "the text is too large", allowed=f"at most {MAX_BYTES // 2**20} MiB")
    try:
        digest = hashlib.sha256(text.encode()).hexdigest()
    except UnicodeEncodeError as error:
        line, column = _place(text, error.start)
        raise _error(file, "half of a surrogate pair is no character", line, column) from None
    if (tag := _LONG_TAG.search(text)) is not None:
        line, column = _place(text, tag.start())
        raise _error(file, f"tags such as '{tag.group()[:_SHOWN]}…' are not allowed", line, column)
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError
    from ruamel.yaml.reader import ReaderError

    reader = _Reader(file)
    try:
        for event in YAML(typ="safe", pure=True).parse(text):
            reader.take(event)
    except MarkedYAMLError as error:
        raise _syntax_error(file, text, error) from None
    except ReaderError as error:
        position = error.position if isinstance(error.position, int) else 0
        line, column = _place(text, position)
        raise _error(file, "a control character is not allowed in YAML", line, column) from None
    except (YAMLError, ValueError) as error:
        raise _error(file, f"this is not sound YAML ({error})", 1, 1) from None
    if reader.problems:
        raise DesignError(reader.problems)
    root = reader.root or _Node(None, 1, 1)
    return YamlDocument(file, root.value, root, digest)


def _place(text: str, position: int) -> tuple[int, int]:
    """Return line and column, from 1, of a position in a text."""
    return text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position)


class _Reader:
    """Builds nodes from events; an explicit stack, so that no text can exhaust Python's own."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []
        self.root: _Node | None = None
        self._stack: list[tuple[_Node, str | None]] = []  # a collection, and its anchor
        self._keys: list[tuple[str, tuple[int, int]] | None] = []  # the pending key of each
        self._anchors: dict[str, _Node] = {}
        self._nodes = 0

    def take(self, event: Event) -> None:
        """Take the next event of the parser."""
        from ruamel.yaml import events

        where = (event.start_mark.line + 1, event.start_mark.column + 1)
        if isinstance(event, events.DocumentStartEvent):
            if self.root is not None:
                raise self._error("only one YAML document in a file", where)
        elif isinstance(event, events.AliasEvent):
            node = self._anchors.get(event.anchor)
            if node is None:
                name = event.anchor[:_SHOWN]
                raise self._error(f"alias '*{name}' has no '&{name}' above it", where)
            self._place(node, where, node.weight)
        elif isinstance(event, events.ScalarEvent):
            self._take_scalar(event, where)
        elif isinstance(event, events.MappingStartEvent | events.SequenceStartEvent):
            self._refuse_tag(event, where)
            if self._expects_key():
                raise self._error("a key must be plain text, not a mapping or a list", where)
            if len(self._stack) >= MAX_DEPTH:
                raise self._error(f"nested more than {MAX_DEPTH} deep", where)
            is_mapping = isinstance(event, events.MappingStartEvent)
            self._stack.append((_Node({} if is_mapping else [], *where), event.anchor))
            self._keys.append(None)
        elif isinstance(event, events.MappingEndEvent | events.SequenceEndEvent):
            node, anchor = self._stack.pop()
            self._keys.pop()
            if anchor:
                self._anchors[anchor] = node
            self._place(node, (node.line, node.column))

    def _take_scalar(self, event: ScalarEvent, where: tuple[int, int]) -> None:
        self._refuse_tag(event, where)
        if len(event.value) > MAX_SCALAR:
            raise self._error(
                f"a text of {len(event.value):,} characters; at most {MAX_SCALAR:,} are allowed",
                where,
            )
        node = _Node(_scalar(event), *where)
        if event.anchor:
            self._anchors[event.anchor] = node
        if self._expects_key():
            self._set_key(event.value, where)
        else:
            self._place(node, where)

    def _expects_key(self) -> bool:
        return (
            bool(self._stack) and isinstance(self._stack[-1][0].value, dict) and not self._keys[-1]
        )

    def _set_key(self, key: str, where: tuple[int, int]) -> None:
        if key == "<<":
            raise self._error(
                "merge keys ('<<') are not part of YAML 1.2; write the fields out", where
            )
        self._keys[-1] = (key, where)

    def _place(self, node: _Node, where: tuple[int, int], count: int = 1) -> None:
        """Put a finished node into the collection that is open, or make it the root."""
        self._nodes += count
        if self._nodes > MAX_NODES:
            raise self._error(f"more than {MAX_NODES:,} values, aliases expanded", where)
        if not self._stack:
            self.root = node
            return
        parent = self._stack[-1][0]
        parent.weight += node.weight
        if isinstance(parent.value, list):
            parent.children[len(parent.value)] = (where, node)
            parent.value.append(node.value)
            return
        if self._keys[-1] is None:  # an alias where a key belongs
            raise self._error("a key must be plain text, not an alias", where)
        key, key_where = self._keys[-1]
        self._keys[-1] = None
        if key in parent.children:
            first = parent.children[key][0][0]
            self.problems.append(
                Problem(
                    key, f"this key is written twice (first in line {first})", self.file, *key_where
                )
            )
            return
        parent.children[key] = (key_where, node)
        parent.value[key] = node.value

    def _refuse_tag(self, event: Event, where: tuple[int, int]) -> None:
        tag = getattr(event, "ctag", None)
        if tag is not None and str(tag):
            raise self._error(f"tags such as '{str(tag)[:_SHOWN]}' are not allowed", where)

    def _error(self, message: str, where: tuple[int, int]) -> DesignError:
        return DesignError([*self.problems, Problem("", message, self.file, *where)])


def _scalar(event: ScalarEvent) -> object:
    """Read a scalar by the core schema of YAML 1.2; quoted ones are always text."""
    text: str = event.value
    if event.style is not None and event.style != "":
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _OCTAL.fullmatch(text):
        return int(text[2:], 8)
    if _HEX.fullmatch(text):
        return int(text[2:], 16)
    return float(text) if _FLOAT.fullmatch(text) else text


def _syntax_error(file: str, text: str, error: MarkedYAMLError) -> DesignError:
    """Turn the parser's own words into what is wrong and what to write."""
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    problem = str(error.problem or error.context or "not sound YAML")
    at = text[mark.index : mark.index + 1] if mark else ""
    allowed = ""
    if at == "\t":
        problem, allowed = "a tab cannot indent", "spaces"
    elif problem.startswith("found character"):
        problem, allowed = f"a value cannot start with {at!r}", "the value in quotes"
    elif "<block end>" in problem:
        problem = "this line does not fit those above it: its indentation, or a missing '-' or ':'"
    elif problem.startswith("mapping values are not allowed"):
        problem = (
            "a ':' is not expected here; the line is indented wrongly, or its value needs quotes"
        )
    elif problem == "found unexpected end of stream" and error.context_mark:
        line, column = error.context_mark.line + 1, error.context_mark.column + 1
        problem = "a quote is opened here and never closed"
    elif error.context and error.context_mark:
        problem = f"{problem} ({error.context} that starts in line {error.context_mark.line + 1})"
    return _error(file, problem, line, column, allowed=allowed)


def _error(
    file: str, message: str, line: int = 0, column: int = 0, *, allowed: str = "", near: str = ""
) -> DesignError:
    return DesignError([Problem("", message, file, line, column, allowed, near)])
