"""What commands print: JSON on stdout for machines, tables for people."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table

from railweave.findings import Finding, Severity

__all__ = ["console", "exit_code", "print_findings", "print_json", "print_table"]

_STYLE = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}


def console() -> Console:
    """Return a console on stdout; plain where stdout is not a terminal."""
    return Console(highlight=False, soft_wrap=not sys.stdout.isatty())


def _finite(value: object) -> object:
    """Replace NaN and infinities, which JSON cannot say, by null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def print_json(value: object) -> None:
    """Print one JSON document."""
    sys.stdout.write(json.dumps(_finite(value), indent=2, ensure_ascii=False) + "\n")


def print_table(title: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table; the first column is left-aligned, the others right."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for i, name in enumerate(header):
        table.add_column(name, justify="left" if i == 0 else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console().print(table)


def print_findings(findings: Sequence[Finding]) -> None:
    """Print findings, gravest first, with evidence and remedy."""
    out = console()
    for severity in Severity:
        for finding in findings:
            if finding.severity is severity:
                out.print(f"[{_STYLE[severity]}]{severity.value}[/] [bold]{finding.id}[/]  {finding.path}")
                out.print(f"  {finding.message}", markup=False)
                if finding.evidence:
                    out.print(f"  evidence: {finding.evidence}", markup=False)
                if finding.fix:
                    out.print(f"  fix: {finding.fix}", markup=False)
    counts = ", ".join(
        f"{sum(f.severity is s for f in findings)} {s.value}{'s' if s is not Severity.INFO else ''}"
        for s in Severity
    )
    out.print(counts)


def exit_code(findings: Iterable[Finding], *, strict: bool) -> int:
    """Return 1 for errors, or for warnings when strict, else 0."""
    limit = (Severity.ERROR, Severity.WARNING) if strict else (Severity.ERROR,)
    return int(any(finding.severity in limit for finding in findings))
