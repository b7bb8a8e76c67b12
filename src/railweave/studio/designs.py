"""Designs of visitors: text that may not name files, and the examples to start from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from railweave.errors import InputError

if TYPE_CHECKING:
    from railweave.api import BuiltDesign, LoadedDesign
    from railweave.fabric.routing import RoutingSet

__all__ = [
    "Example",
    "built_design",
    "examples",
    "local_file",
    "open_design",
    "open_locally",
    "routing_of",
]

MOST_TEXT_B = 1 << 20
#: designs that whoever started the studio gave: text → the file, whose folder they may refer to
_LOCAL: dict[str, Path] = {}


@dataclass(frozen=True, slots=True)
class Example:
    """A design to start from."""

    name: str
    text: str
    summary: str


def open_locally(path: Path) -> str:
    """Read the design that the studio is started with; its own text may name files beside it."""
    text = path.read_text(encoding="utf-8")
    _LOCAL[text] = path
    return text


def local_file(text: str) -> Path | None:
    """Return the file of a design that the studio was started with; None for other texts."""
    return _LOCAL.get(text)


def open_design(text: str) -> LoadedDesign:
    """Read a design from a visitor's text.

    Raises:
        DesignError: every problem of the text, at its line and column.
        InputError: it is too long, or names files: a visitor's text opens none.
    """
    if len(text) > MOST_TEXT_B:
        raise InputError(f"the design is longer than {MOST_TEXT_B:,} characters, the most allowed")
    return _parsed(text)


@lru_cache(maxsize=64)
def _parsed(text: str) -> LoadedDesign:
    import railweave

    if text in _LOCAL:
        return railweave.load(_LOCAL[text])
    return railweave.parse(text, "design.yaml", files=False)


@lru_cache(maxsize=8)
def built_design(text: str) -> BuiltDesign:
    """Build a design once for all pages.

    Raises:
        DesignError: problems of the text.
        SizingError: it cannot be built as asked.
    """
    return open_design(text).build()


@lru_cache(maxsize=4)
def routing_of(text: str) -> RoutingSet:
    """Compile a design's routing once for all pages; raises as :func:`built_design`."""
    return built_design(text).routing()


def _folder() -> Path | None:
    """Return where the examples lie: in the package, or beside its source."""
    import railweave

    package = Path(railweave.__file__).parent
    for folder in (package / "examples", package.parent.parent / "examples"):
        if folder.is_dir():
            return folder
    return None


@lru_cache(maxsize=1)
def examples() -> tuple[Example, ...]:
    """Return the example designs that stand alone (name no other files)."""
    folder = _folder()
    found = []
    for path in sorted(folder.glob("*.yaml")) if folder else ():
        text = path.read_text(encoding="utf-8")
        try:
            loaded = open_design(text)
        except InputError:
            continue
        found.append(Example(path.stem, text, loaded.design.description.strip()))
    return tuple(found)
