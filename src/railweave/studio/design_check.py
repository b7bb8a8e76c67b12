"""What is wrong with a design's text, each thing at its place in it, and how to mend it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from railweave.design.edit import rename_key, set_field, value_span
from railweave.errors import DesignError, InputError, Problem, RailweaveError, SizingError
from railweave.fabric.planned import planned_size
from railweave.formats.yaml_source import PathStep, parse_yaml
from railweave.studio.designs import built_design, open_design

if TYPE_CHECKING:
    from railweave.findings import Finding
    from railweave.formats.yaml_source import YamlDocument

__all__ = ["MOST_LINKS", "Checked", "Mark", "apply_fix", "check_text", "find_findings", "path_of"]

#: larger fabrics are checked when they are run, in a process of their own, not while one types
MOST_LINKS: Final = 300_000

_PLACE: Final = re.compile(r".*?:(\d+):(\d+)$")
_WORD: Final = re.compile(r"[\w.+-]+")
_FIELD: Final = re.compile(r"[a-z_]+([.\[][A-Za-z0-9_\-\]]+)*")


@dataclass(frozen=True, slots=True)
class Mark:
    """One thing to say about a place of the text.

    ``line`` and ``column`` count from 1, 0 means that it has no place; ``start`` and ``end`` are
    indices of the text that is underlined. ``fixable`` tells that ``nearest`` can be put there.
    """

    severity: str
    line: int
    column: int
    start: int
    end: int
    path: str
    message: str
    allowed: str = ""
    nearest: str = ""
    fixable: bool = False

    @property
    def text(self) -> str:
        """What is wrong and how to mend it, in sentences, for a reader who sees the place."""
        parts = [f"{self.message[:1].upper()}{self.message[1:]}."]
        if self.allowed:
            parts.append(f"Allowed: {self.allowed}.")
        if self.nearest:
            parts.append(f"Did you mean {self.nearest}?")
        return " ".join(parts)


@dataclass(frozen=True, slots=True)
class Checked:
    """What reading a text found: whether it is a design, or YAML at all, and what is wrong."""

    good: bool
    readable: bool
    marks: tuple[Mark, ...] = ()


def check_text(text: str) -> Checked:
    """Read a design's text; every problem is in the answer, none is raised."""
    try:
        open_design(text)
    except DesignError as error:
        document = _document(text)
        marks = tuple(_mark(text, document, problem) for problem in error.problems)
        return Checked(good=False, readable=document is not None, marks=marks)
    except RailweaveError as error:
        mark = Mark("error", 0, 0, 0, 0, "", str(error))
        return Checked(good=False, readable=_document(text) is not None, marks=(mark,))
    return Checked(good=True, readable=True)


def find_findings(text: str) -> tuple[Mark, ...]:
    """Build a good design and return what the checks say of it, the gravest first.

    A plane that cannot be built is in the answer as an error. A fabric of more
    than :data:`MOST_LINKS` links is not built: a remark says so.
    """
    loaded = open_design(text)
    document = loaded.document.document
    try:
        links = planned_size(loaded.design, loaded.document.catalog).links
        if links > MOST_LINKS:
            late = f"so large a fabric ({links:,} links) is checked when it is run, not here"
            return (Mark("info", 0, 0, 0, 0, "", late),)
        findings = built_design(text).check()
    except SizingError as error:
        problem = error.problem
        if not problem.line:
            line, column = document.position(path_of(problem.path))
            problem = error.located(document.file, line, column).problem
        return (_mark(text, document, problem),)
    except RailweaveError as error:
        return (Mark("error", 0, 0, 0, 0, "", str(error)),)
    order = {"error": 0, "warning": 1, "info": 2}
    marks = [_finding(text, document, finding) for finding in findings]
    return tuple(sorted(marks, key=lambda mark: (order[mark.severity], mark.line)))


def apply_fix(text: str, mark: Mark) -> str:
    """Put the nearest right value where it belongs, or the nearest right name of the field.

    Raises:
        InputError: the place is no longer there, or neither mends the problem.
    """
    path = path_of(mark.path)
    changes: tuple[Callable[[], str], ...] = (
        lambda: set_field(text, path, _value(mark.nearest)),
        lambda: rename_key(text, path, mark.nearest),
    )
    tries: list[tuple[int, str]] = []
    for change in changes:
        try:
            changed = change()
        except RailweaveError:
            continue
        left = [(m.path, m.message) for m in check_text(changed).marks]
        if (mark.path, mark.message) not in left:
            tries.append((len(left), changed))
    if not tries:
        raise InputError(f"{mark.path} cannot be mended by {mark.nearest!r}; change it in the text")
    return min(tries, key=lambda item: item[0])[1]


def path_of(text: str) -> tuple[PathStep, ...]:
    """Split a field's path, ``jobs[0].size``, into its steps."""
    parts = text.replace("[", ".").replace("]", "").split(".")
    return tuple(int(part) if part.isdigit() else part for part in parts if part)


def _value(text: str) -> object:
    """Read a value as it would stand in the file."""
    try:
        return parse_yaml(f"k: {text}", "value").data["k"]
    except (DesignError, TypeError, KeyError):
        return text


def _document(text: str) -> YamlDocument | None:
    try:
        return parse_yaml(text, "design.yaml")
    except DesignError:
        return None


def _index(text: str, line: int, column: int) -> int:
    at = 0
    for _ in range(line - 1):
        at = text.find("\n", at) + 1
        if at == 0:
            return len(text)
    return min(at + column - 1, len(text))


def _mark(text: str, document: YamlDocument | None, problem: Problem) -> Mark:
    fixable = bool(problem.nearest and problem.path and document is not None)
    path = path_of(problem.path)
    if document is not None and fixable:
        fixable = document.has(path)
    line, column, start, end = _span(text, document, problem.line, problem.column, path)
    return Mark(
        "error",
        line,
        column,
        start,
        end,
        problem.path,
        problem.message,
        problem.allowed,
        problem.nearest,
        fixable,
    )


def _span(
    text: str, document: YamlDocument | None, line: int, column: int, path: tuple[PathStep, ...]
) -> tuple[int, int, int, int]:
    """Return line, column and the indices to underline: a field's key and value on its line."""
    if not line:
        return 0, 0, 0, 0
    start = _index(text, line, max(column, 1))
    stop = text.find("\n", start)
    stop = len(text) if stop < 0 else stop
    end = stop
    if document is not None and path and document.has(path):
        span = value_span(text, path)
        if span is not None and start <= span[1] <= stop:
            end = span[1]
        elif span is not None:  # a value of many lines: its key alone
            colon = text.find(":", start, stop)
            end = colon if colon > 0 else stop
    while end > start and text[end - 1] in " \t\r":
        end -= 1
    return line, column, start, max(end, min(start + 1, len(text)))


def _finding(text: str, document: YamlDocument, finding: Finding) -> Mark:
    place = _PLACE.match(finding.path)
    line, column, start, end = 0, 0, 0, 0
    if place:
        line, column = int(place[1]), int(place[2])
    elif _FIELD.fullmatch(finding.path) and document.has(path_of(finding.path)[:1]):
        line, column = document.position(path_of(finding.path))
    if line:  # a remark underlines the word it stands at, not all that the field says
        start = _index(text, line, column)
        word = _WORD.match(text, start)
        end = word.end() if word else min(start + 1, len(text))
    message = f"{finding.id}: {finding.message}"
    if not line and finding.path and not place:
        message = f"{finding.id}: {finding.path}: {finding.message}"
    if finding.evidence:
        message += f" ({finding.evidence})"
    return Mark(finding.severity.value, line, column, start, end, "", message, allowed=finding.fix)
