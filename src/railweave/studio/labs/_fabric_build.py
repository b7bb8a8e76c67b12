"""The built designs of lab 5, each built once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from railweave.errors import InputError
from railweave.fabric.failures import parse_failures

if TYPE_CHECKING:
    from railweave.api import BuiltDesign

__all__ = ["built_of", "known_failures"]


@lru_cache(maxsize=6)
def built_of(text: str) -> BuiltDesign:
    """Build a design once.

    Raises:
        DesignError: problems of the text.
        SizingError: it cannot be built as asked.
    """
    from railweave.studio.designs import open_design

    return open_design(text).build()


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
