"""What of a list of failed parts a fabric has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from railweave.errors import InputError
from railweave.fabric.failures import parse_failures

if TYPE_CHECKING:
    from railweave.api import BuiltDesign

__all__ = ["known_failures"]


def known_failures(whole: BuiltDesign, out: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """Return those of the failed parts that this fabric has, and a sentence on the others."""
    found, wrong = [], []
    for item in dict.fromkeys(out):
        try:
            parse_failures(whole.fabric, (item,))
        except InputError as error:
            wrong.append(str(error))
        else:
            found.append(item)
    return tuple(found), f"Not taken out: {'; '.join(wrong)}." if wrong else ""
