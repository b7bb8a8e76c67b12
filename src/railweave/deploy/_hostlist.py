"""Slurm's hostlist expressions: ``node[001-003,007]``."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["compress", "expand"]

_NUMBERED = re.compile(r"(.*?)(\d+)")
_PART = re.compile(r"([^,\[\]]+)(?:\[([\d,-]+)\])?(?:,|$)")
#: digits that are taken as a number; more stay in the prefix
_MOST_DIGITS = 9


def _split(name: str) -> tuple[str, str]:
    """Return what stands before the number at the end of a name, and its digits ('' if none)."""
    match = _NUMBERED.fullmatch(name)
    if match is None:
        return name, ""
    digits = match[2][-_MOST_DIGITS:]
    return name[: len(name) - len(digits)], digits


def compress(names: Iterable[str]) -> str:
    """Return names as one expression, in the order given; runs of numbers become ranges.

    A range is written only where its numbers, padded to the width of the first, give the names
    back exactly.
    """
    groups: list[tuple[str, list[list[str]]]] = []
    for name in names:
        prefix, digits = _split(name)
        if not digits:
            groups.append((name, []))
            continue
        if not (groups and groups[-1][1] and groups[-1][0] == prefix):
            groups.append((prefix, [[digits, digits]]))
            continue
        first, last = groups[-1][1][-1]
        if digits == f"{int(last) + 1:0{len(first)}d}":
            groups[-1][1][-1][1] = digits
        else:
            groups[-1][1].append([digits, digits])
    return ",".join(_written(prefix, ranges) for prefix, ranges in groups)


def _written(prefix: str, ranges: list[list[str]]) -> str:
    if not ranges:
        return prefix
    parts = [a if a == b else f"{a}-{b}" for a, b in ranges]
    if len(parts) == 1 and "-" not in parts[0]:
        return prefix + parts[0]
    return f"{prefix}[{','.join(parts)}]"


def expand(expression: str) -> list[str]:
    """Return the names of an expression as :func:`compress` writes it.

    Raises:
        ValueError: it is not such an expression.
    """
    names: list[str] = []
    at = 0
    while at < len(expression):
        match = _PART.match(expression, at)
        if match is None:
            raise ValueError(f"{expression!r} is not a hostlist expression (at {at})")
        prefix, ranges = match[1], match[2]
        if ranges is None:
            names.append(prefix)
        for part in ranges.split(",") if ranges else ():
            first, dash, last = part.partition("-")
            end = last if dash else first
            width = len(first)
            names += [f"{prefix}{n:0{width}d}" for n in range(int(first), int(end) + 1)]
        at = match.end()
    return names
