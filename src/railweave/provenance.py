"""Where a number comes from, and how far it can be trusted."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Assumption", "Certainty", "Source"]


class Certainty(StrEnum):
    """How sure a fact is: read at its source, worked out from others, or taken as given."""

    CONFIRMED = "confirmed"
    ESTIMATED = "estimated"
    ASSUMED = "assumed"


@dataclass(frozen=True, slots=True)
class Source:
    """The origin of a catalog fact: a title a reader can look up, and how sure it is."""

    title: str
    certainty: Certainty = Certainty.CONFIRMED


@dataclass(frozen=True, slots=True)
class Assumption:
    """Something a prediction rests on and did not compute: said in every result."""

    subject: str
    statement: str
    certainty: Certainty = Certainty.ASSUMED
