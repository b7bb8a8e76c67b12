"""The labs that are installed: ours and those of others, by entry points."""

from __future__ import annotations

import logging
from functools import cache
from importlib.metadata import entry_points
from itertools import combinations

from railweave.errors import InputError
from railweave.studio.lab import Lab

__all__ = ["GROUP", "find_lab", "installed_labs", "pages_beside"]

GROUP = "railweave.labs"


@cache
def installed_labs() -> tuple[Lab, ...]:
    """Return every registered lab by its number; behind them pages without one, by their title.

    One that cannot be imported is left out, and the log says why.

    Raises:
        InputError: two labs have one number or key, or an entry point holds no lab.
    """
    labs: list[Lab] = []
    for entry in entry_points(group=GROUP):
        try:
            lab = entry.load()
        except Exception:  # another package's fault must not take down every page
            logging.getLogger("railweave.studio").exception("lab %s cannot be loaded", entry.value)
            continue
        if not isinstance(lab, Lab):
            raise InputError(f"entry point {entry.name} of {GROUP} holds no Lab but {lab!r}")
        labs.append(lab)
    labs.sort(key=lambda lab: (lab.number is None, lab.number or 0, lab.title))
    for one, other in combinations(labs, 2):
        if one.number is not None and one.number == other.number:
            same = f"number {one.number}"
        elif one.key == other.key:
            same = f"key {one.key}"
        else:
            continue
        raise InputError(
            f"labs {one.key} and {other.key} both have the {same}; give one of them another in "
            f"its package's entry points of {GROUP}"
        )
    return tuple(labs)


def find_lab(key: str) -> Lab | None:
    """Return the lab of this key, or None."""
    return next((lab for lab in installed_labs() if lab.key == key), None)


def pages_beside(lab: Lab) -> tuple[Lab, ...]:
    """Return the pages that a lab leads to."""
    return tuple(page for page in installed_labs() if lab.key in page.beside)
