"""What the studio's words are made of; each record is read from YAML and does not change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from railweave.formats.validation import field_error

__all__ = [
    "ChecklistItem",
    "ComparisonTable",
    "Concept",
    "Glossary",
    "LabList",
    "LabText",
    "LearnPanel",
    "Quantity",
    "Takeaway",
]

Text = Annotated[str, StringConstraints(min_length=1)]
_KEY: Final = r"^[a-z][a-z0-9_]*$"


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Quantity(_Record):
    """One number that the studio shows.

    ``formula`` is plain text, empty where the number has none (an input, a count of events).
    ``source`` says what gives the number, and whose definition it is where it is not railweave's.
    """

    key: Annotated[str, StringConstraints(pattern=_KEY)]
    name: Text
    definition: Text
    formula: str = ""
    unit: Text
    source: Text


class LabText(_Record):
    """A lab's place on the home page, None for a page beside the line.

    ``missing`` says what a lab without an engine waits for.
    """

    key: Annotated[str, StringConstraints(pattern=_KEY)]
    number: Annotated[int, Field(ge=1)] | None
    title: Text
    summary: Text
    missing: str = ""


class Concept(_Record):
    """One notion and what it means here."""

    name: Text
    text: Text


class ComparisonTable(_Record):
    """Things side by side; every row is as long as the header."""

    title: Text
    header: Annotated[tuple[Text, ...], Field(min_length=2)]
    rows: Annotated[tuple[tuple[Text, ...], ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _as_wide_as_the_header(self) -> ComparisonTable:
        for number, row in enumerate(self.rows):
            if len(row) != len(self.header):
                raise field_error(
                    f"this row has {len(row)} cells",
                    allowed=f"{len(self.header)}, as the header",
                    at=("rows", number),
                )
        return self


class ChecklistItem(_Record):
    """Something that must be true; ``decided_by`` names the evidence, without which it is unknown.

    ``id`` is the item's name in every checklist of railweave.
    """

    id: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]*$")]
    text: Text
    decided_by: Text


class Takeaway(_Record):
    """What a lab is to be left with, and the name of the experiment that shows it."""

    claim: Text
    lesson_name: Text


class LearnPanel(_Record):
    """All that a lab teaches; ``limits`` is what the lab's results do not model."""

    lab: Text
    concepts: Annotated[tuple[Concept, ...], Field(min_length=1)]
    distinctions: Annotated[tuple[Text, ...], Field(min_length=1)]
    tables: Annotated[tuple[ComparisonTable, ...], Field(min_length=1)]
    checklist: Annotated[tuple[ChecklistItem, ...], Field(min_length=1)]
    takeaway: Takeaway
    limits: Annotated[tuple[Text, ...], Field(min_length=1)]


class Glossary(_Record):
    """The file of quantities, by key."""

    quantities: dict[str, Quantity]

    @model_validator(mode="before")
    @classmethod
    def _name_entries(cls, data: object) -> object:
        return keyed(data, "quantities")


class LabList(_Record):
    """The file of labs, by key."""

    labs: dict[str, LabText]

    @model_validator(mode="before")
    @classmethod
    def _name_entries(cls, data: object) -> object:
        return keyed(data, "labs")

    @model_validator(mode="after")
    def _numbers_once(self) -> LabList:
        seen: dict[int, str] = {}
        for key, item in self.labs.items():
            if item.number is None:
                continue
            if item.number in seen:
                raise field_error(
                    f"{seen[item.number]!r} has this number already", at=("labs", key, "number")
                )
            seen[item.number] = key
        return self


def keyed(data: object, section: str) -> object:
    """Give each entry of a section the key it stands under."""
    entries = data.get(section) if isinstance(data, Mapping) else None
    if not isinstance(data, Mapping) or not isinstance(entries, Mapping):
        return data
    named = {
        key: {**entry, "key": key} if isinstance(entry, Mapping) else entry
        for key, entry in entries.items()
    }
    return {**data, section: named}
