"""The JSON documents of commands; the REST API answers with the very same."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from railweave.fabric.failures import MonteCarlo, WhatIf
    from railweave.fabric.summary import BuildSummary
    from railweave.findings import Finding

__all__ = ["build_json", "check_json", "finite"]


def finite(value: Any) -> Any:  # noqa: ANN401 - what JSON can hold
    """Replace NaN and infinities, which JSON cannot say, by None; tuples become lists."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value


def check_json(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """Return the document of ``railweave check``."""
    return [dataclasses.asdict(finding) for finding in findings]


def build_json(
    summary: BuildSummary, what_if: WhatIf | None = None, draw: MonteCarlo | None = None
) -> dict[str, Any]:
    """Return the document of ``railweave build``."""
    document: dict[str, Any] = dict(summary.to_json())
    if what_if is not None:
        document["what_if"] = what_if.to_json()
    if draw is not None:
        document["monte_carlo"] = draw.to_json()
    return document
