"""nccl-tests (and rccl-tests): what they print, read into typed records; and a table like theirs.

Read are logs as they are found: with the shell's command line or without, with NCCL's own log lines
between (or inside) the rows, prefixed by a launcher, cut at either end, with several tests one
after the other, in the column layouts of old and new versions, and their JSON reports (``-J``).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from railweave.errors import InputError
from railweave.formats._nccl_tests_json import looks_like_json, read_json
from railweave.formats._nccl_tests_records import (
    OPERATIONS,
    NcclTestError,
    NcclTestRow,
    NcclTestTable,
)
from railweave.formats._nccl_tests_text import read_text

__all__ = [
    "NcclTestError",
    "NcclTestRow",
    "NcclTestTable",
    "parse_nccl_tests",
    "read_nccl_tests",
    "write_nccl_tests",
]

#: a log of one test is some kilobytes; with NCCL_DEBUG=INFO on thousands of ranks, some hundred MB
MOST_BYTES: Final = 1 << 30
_FLOAT_BYTES: Final = 4


def read_nccl_tests(path: str | Path) -> tuple[NcclTestTable, ...]:
    """Read a file that holds the output of one or several tests, in the order they ran.

    Raises:
        InputError: the file cannot be read, or nothing of nccl-tests is in it.
    """
    file = Path(path)
    try:
        if file.stat().st_size > MOST_BYTES:
            raise InputError(f"{file}: is larger than 1 GiB; cut out the tables of nccl-tests")
        text = file.read_bytes().decode("utf-8", errors="replace")
    except OSError as error:
        raise InputError(
            f"{file}: cannot be read ({error.strerror}); name a file with nccl-tests output"
        ) from None
    return parse_nccl_tests(text, str(file))


def parse_nccl_tests(text: str, file: str = "<text>") -> tuple[NcclTestTable, ...]:
    """Read the output of one or several tests.

    Where the text does not name the test, operation and ranks are those that its factor busbw /
    algbw allows, if only one does; None otherwise. Rows that cannot be read are left out and named
    in the table's ``problems``.

    Args:
        text: what was printed, or a JSON report.
        file: what messages call it.

    Raises:
        InputError: nothing of nccl-tests is in it, or JSON of another kind.
    """
    tables = (read_json(text, file),) if looks_like_json(text) else read_text(text, file)
    if not any(table.rows or table.errors or table.problems for table in tables):
        raise InputError(
            f"{file}: holds no results of nccl-tests; wanted is what all_reduce_perf and its "
            "like print (lines of size, count, type, redop, root, time, algbw, busbw), or their "
            "JSON report (-J)"
        )
    return tables


def write_nccl_tests(
    rows: Iterable[NcclTestRow], *, title: Iterable[str] = (), notes: Iterable[str] = ()
) -> str:
    """Return rows as a table in the columns of nccl-tests, out of place, without ``#wrong``.

    It is 77 columns wide, ends in the mean of busbw, and :func:`parse_nccl_tests` reads it.

    Args:
        rows: of one operation; those in place are left out.
        title: lines to stand above, and
        notes: below, each behind ``#``.
    """
    kept = [row for row in rows if not row.in_place]
    names = ("size", "count", "type", "redop", "root", "time", "algbw", "busbw")
    units = ("(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)")
    lines = [f"# {text}".rstrip() for text in title]
    lines += ["#", *("#" + _line(cells)[1:] for cells in (names, units))]
    lines += [_line(_cells(row)) for row in kept]
    mean = sum(row.busbw_Bps for row in kept) / len(kept) if kept else 0.0
    lines.append(f"# {'Avg bus bandwidth':<20} : {mean / 1e9:g}")
    lines += [f"# {text}".rstrip() for text in notes]
    program = {op: name for name, op in OPERATIONS.items()}.get((kept[0].op or "") if kept else "")
    if program:
        lines.append(f"# Collective test concluded: {program}_perf")
    return "\n".join(lines) + "\n"


def _line(cells: Iterable[str]) -> str:
    size, count, kind, redop, root, time, algbw, busbw = cells
    return (
        f"{size:>12}  {count:>12}  {kind:>8}  {redop:>6}  {root:>6}  {time:>7}  {algbw:>6}  "
        f"{busbw:>6}"
    ).rstrip()


def _cells(row: NcclTestRow) -> tuple[str, ...]:
    reduces = row.op in {"all-reduce", "reduce-scatter", "reduce"}
    shared = row.op in {"all-gather", "reduce-scatter", "all-to-all"}
    count = row.size_bytes // (_FLOAT_BYTES * ((row.ranks or 1) if shared else 1))
    rooted = row.op in {"broadcast", "reduce"}
    return (
        str(row.size_bytes),
        str(count),
        row.dtype or "float",
        row.redop or ("sum" if reduces else "none"),
        str(row.root if row.root is not None else 0 if rooted else -1),
        _digits(row.time_s * 1e6, 7),
        _digits(row.algbw_Bps / 1e9, 6),
        _digits(row.busbw_Bps / 1e9, 6),
    )


def _digits(value: float, width: int) -> str:
    """Write a number into a width: two digits behind the point, or as many as there is room for."""
    for digits in (2, 1, 0):
        text = f"{value:.{digits}f}"
        if len(text) <= width:
            return text
    return f"{value:.{max(0, width - 6)}e}"
