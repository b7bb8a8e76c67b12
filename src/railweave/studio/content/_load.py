"""Reading the studio's words and looking them up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Final, TypeVar

from railweave.errors import InputError
from railweave.formats.validation import list_names, nearest, validate
from railweave.formats.yaml_source import YamlDocument, parse_yaml
from railweave.studio.content._records import Glossary, LabList, LabText, LearnPanel, Quantity

__all__ = ["lab", "labs", "learn", "quantities", "quantity", "read_glossary", "read_panel"]

_PACKAGE: Final = "railweave.studio.content"
Item = TypeVar("Item")


def quantity(key: str) -> Quantity:
    """Return a quantity of the glossary.

    Raises:
        InputError: there is none of this key; says which is nearest.
    """
    return _look_up(_glossary(), key, "the glossary has no quantity")


def quantities() -> tuple[Quantity, ...]:
    """Return all quantities, in the glossary's order."""
    return tuple(_glossary().values())


def lab(key: str) -> LabText:
    """Return a lab's title and summary.

    Raises:
        InputError: there is no such lab.
    """
    return _look_up(_labs(), key, "there is no lab")


def labs() -> tuple[LabText, ...]:
    """Return all labs by number; behind them pages without one."""
    return tuple(sorted(_labs().values(), key=lambda item: (item.number is None, item.number or 0)))


@cache
def learn(lab_key: str) -> LearnPanel:
    """Return what a lab teaches.

    Raises:
        InputError: there is no such lab, or it has no panel, as its engine is not there yet.
    """
    text = lab(lab_key)
    if text.missing:
        raise InputError(f"lab {lab_key!r} has no Learn panel yet: {text.missing}")
    return read_panel(_own(f"{lab_key}.yaml"), lab_key)


def read_glossary(document: YamlDocument) -> Mapping[str, Quantity]:
    """Return the quantities of a document.

    Raises:
        DesignError: every fault of the file, each at its line and column.
    """
    return MappingProxyType(validate(Glossary, document).quantities)


def read_panel(document: YamlDocument, lab_key: str) -> LearnPanel:
    """Return the panel of a document; ``lab_key`` is what it is of. Raises DesignError."""
    if isinstance(document.data, dict):
        document = replace(document, data={**document.data, "lab": lab_key})
    return validate(LearnPanel, document)


@cache
def _glossary() -> Mapping[str, Quantity]:
    return read_glossary(_own("quantities.yaml"))


@cache
def _labs() -> Mapping[str, LabText]:
    return MappingProxyType(validate(LabList, _own("labs.yaml")).labs)


def _own(name: str) -> YamlDocument:
    text = (resources.files(_PACKAGE) / name).read_text("utf-8")
    return parse_yaml(text, f"studio/content/{name}")


def _look_up(items: Mapping[str, Item], key: str, what: str) -> Item:
    item = items.get(key)
    if item is None:
        near = nearest(key, items)
        raise InputError(
            f"{what} {key!r}; allowed: {list_names(items)}"
            + (f"; did you mean {near!r}?" if near else "")
        )
    return item
