"""`Finding`, the one way in which checks, acceptance, twin tests and diagnosis speak.

A check is a plain function ``(context) -> Iterable[Finding]``. Errors end a command with exit
code 1, warnings only under ``--strict``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Finding", "Severity", "worst"]


class Severity(StrEnum):
    """How grave a finding is."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


_ORDER = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}


@dataclass(frozen=True, slots=True)
class Finding:
    """One statement about a design, a fabric or a cluster, with its evidence and its remedy.

    ``id`` is stable and kebab-case (``"rack-power-exceeded"``); ``path`` is ``file:line:col``, a
    field path, a device or a port.
    """

    id: str
    severity: Severity
    path: str
    message: str
    evidence: str = ""
    fix: str = ""

    def __str__(self) -> str:
        """Give one line: severity, id, path and message."""
        return f"{self.severity.value}: {self.id}: {self.path}: {self.message}"


def worst(findings: Iterable[Finding]) -> Severity | None:
    """Return the gravest severity among the findings, or None where there are none."""
    return min((finding.severity for finding in findings), key=_ORDER.__getitem__, default=None)
