"""What commands print: JSON on stdout for machines, tables for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from railweave.findings import Finding, Severity

if TYPE_CHECKING:
    from rich.console import Console

    from railweave.report.page_table import PageTable

__all__ = ["console", "exit_code", "print_findings", "print_json", "print_table", "print_text"]

_STYLE = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
_GAP = 2


def console() -> Console:
    """Return a console on stdout; plain where stdout is not a terminal."""
    from rich.console import Console

    class Piped(Console):
        """A console which leaves the answer to a closed pipe (``| head``) to the command line."""

        def on_broken_pipe(self) -> None:
            """Let the error go on instead of ending with exit code 1."""
            raise BrokenPipeError

    return Piped(highlight=False, markup=False, emoji=False)


def print_text(text: str, *, style: str = "") -> None:
    """Print a text; broken at words on a terminal, left as it is where piped."""
    console().print(text, style=style or None, soft_wrap=not sys.stdout.isatty())


def print_json(value: object) -> None:
    """Print one JSON document."""
    from railweave.report.documents import finite

    text = json.dumps(finite(value), indent=2, ensure_ascii=False, allow_nan=False)
    sys.stdout.write(text + "\n")


def _fitting(table: PageTable, width: int) -> list[int]:
    """Return the columns to show: optional ones go, in their order, until the rest fits."""
    needed = [
        max([len(name), *(len(row[i]) for row in table.rows)])
        for i, name in enumerate(table.header)
    ]
    shown = list(range(len(table.header)))
    for name in table.optional:
        if sum(needed[i] for i in shown) + _GAP * (len(shown) - 1) <= width:
            break
        if name in table.header:
            shown.remove(table.header.index(name))
    return shown


def print_table(table: PageTable) -> None:
    """Print a table and its notes; the first column and texts are left-aligned, others right."""
    from rich.table import Table

    out = console()
    shown = _fitting(table, out.width)
    print_text(table.title, style="bold")
    grid = Table(
        box=None,
        pad_edge=False,
        padding=(0, _GAP, 0, 0),
    )
    for i in shown:
        left = i == 0 or table.header[i] in table.text_columns
        grid.add_column(table.header[i], justify="left" if left else "right", overflow="fold")
    for row in table.rows:
        grid.add_row(*(row[i] for i in shown))
    out.print(grid)
    hidden = [name for i, name in enumerate(table.header) if i not in shown]
    notes = (
        (*table.notes, f"Wider terminals also show: {', '.join(hidden)}.")
        if hidden
        else table.notes
    )
    for note in notes:
        print_text(note, style="dim")


def print_findings(findings: Sequence[Finding]) -> None:
    """Print findings, gravest first, with evidence and remedy."""
    from rich.text import Text

    out = console()
    piped = not sys.stdout.isatty()
    for severity in Severity:
        for finding in findings:
            if finding.severity is severity:
                head = Text.assemble(
                    (severity.value, _STYLE[severity]),
                    " ",
                    (finding.id, "bold"),
                    f"  {finding.path}",
                )
                out.print(head, soft_wrap=piped)
                print_text(f"  {finding.message}")
                if finding.evidence:
                    print_text(f"  evidence: {finding.evidence}")
                if finding.fix:
                    print_text(f"  fix: {finding.fix}")
    counts = [(s.value, sum(f.severity is s for f in findings)) for s in Severity]
    print_text(
        ", ".join(f"{n} {word}{'' if n == 1 or word == 'info' else 's'}" for word, n in counts)
    )


def exit_code(findings: Iterable[Finding], *, strict: bool) -> int:
    """Return 1 for errors, or for warnings when strict, else 0."""
    limit = (Severity.ERROR, Severity.WARNING) if strict else (Severity.ERROR,)
    return int(any(finding.severity in limit for finding in findings))
