"""Reader of the text that nccl-tests prints, as it is found in logs: cut, mixed, prefixed."""

from __future__ import annotations

import math
import re
import shlex
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

from railweave.formats._nccl_tests_records import (
    NcclTestError,
    NcclTestRow,
    NcclTestTable,
    operation_of,
)

__all__ = ["read_text"]

#: what launchers and log collectors put before a line: mpirun --tag-output, srun --label, kubectl
_PREFIX: Final = re.compile(
    r"^(?:\[\d+,\d+\](?:\[[^\]]*\])?<std(?:out|err)>:\s?"
    r"|\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d)?\s"
    r"|\d{1,6}:\s(?=[\s#]))"
)
_NCCL_LOG: Final = re.compile(r"\[\d+\]\s+(?:NCCL|RCCL)\s|:\d+:\d+\s+\[\d+\]\s")
_PROGRAM: Final = re.compile(r"(?:^|[\s/])([a-z_0-9]+?_perf(?:_mpi)?)(?=\s|$)")
_RANK: Final = re.compile(
    r"^#\s*Rank\s+(\d+)\s+(?:Group\s+(\d+)\s+)?Pid\s+\d+\s+on\s+(\S+)\s+device\s+\d+\s+"
    r"\[[^\]]*\]\s*(.*)$"
)
_RUN: Final = re.compile(r"^#\s*nThread\s+(\d+)\s+nGpus\s+(\d+)\s")
_HEAD: Final = re.compile(r"^#?\s*size\s.*\balgbw\b.*\bbusbw\b")
_VERSION: Final = re.compile(r"^(?:#\s*)?((?:NCCL|RCCL) version [^\s:]+)", re.IGNORECASE)
#: in a command, a comment, or NCCL's own log: one name; lists are not taken
_FORCED: Final = re.compile(
    r"NCCL_(ALGO|PROTO)(?:=| set by environment to )[\"']?([A-Za-z]\w*)[\"']?(?=[\s,.;]*(?:\s|$))"
)
_FAILURE: Final = re.compile(
    r"^\s*(?:\.\.\s*)?(\S+?)(?: pid \d+)?:\s*"
    r"(Test (?:NCCL|RCCL|CUDA|HIP)? ?failure)\s+(\S+:\d+)(?:\s*'(.*)')?"
)
_START: Final = re.compile(r"^(\s*)(\d{1,20})\s+(\d{1,20})\s+([A-Za-z]\w*)(?=\s|$)(.*)$")
_UNITS_S: Final = {"(us)": 1e-6, "(ms)": 1e-3, "(s)": 1.0, "(ns)": 1e-9}
_RATES_BPS: Final = {"(GB/s)": 1e9, "(MB/s)": 1e6}
_MOST: Final = 1e30
#: the column of a bandwidth cannot hold more: digits are missing from here on
_WIDEST: Final = 1e5
_PLAIN: Final = ("size", "count", "type", "redop", "root", "time", "algbw", "busbw")
_NAMES: Final = frozenset((*_PLAIN, "cputime", "#wrong", "error", "timestamp"))


@dataclass(frozen=True)
class _Head:
    """The left part of a row."""

    line: int
    size: int
    dtype: str = ""
    redop: str = ""
    root: int | None = None


@dataclass(frozen=True)
class _Half:
    """The printed numbers of one half of a row."""

    in_place: bool
    time: float
    algbw: float
    busbw: float
    wrong: int | None


@dataclass
class _Open:
    """A table that is being read."""

    file: str
    line: int = 0
    command: str = ""
    program: str = ""
    version: str = ""
    forced: dict[str, str] = field(default_factory=dict)
    processes: int | None = None
    per_process: int | None = None
    ranks: list[tuple[int, str, str, str]] = field(default_factory=list)
    columns: tuple[str, ...] = ()
    time_unit_s: float = 1e-6
    rate_unit_Bps: float = 1e9  # noqa: N815 - byte/s
    rows: list[NcclTestRow] = field(default_factory=list)
    printed: list[tuple[float, float]] = field(default_factory=list)
    pending: tuple[int, str] | None = None
    average: float | None = None
    bounds: int | None = None
    closed: bool = False
    concluded: bool = False
    errors: list[NcclTestError] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def used(self) -> bool:
        """Whether it holds anything that makes it a run of its own."""
        return bool(self.rows or self.closed or self.errors)


def read_text(text: str, file: str) -> tuple[NcclTestTable, ...]:
    """Return every table of a text; see :func:`railweave.formats.nccl_tests.parse_nccl_tests`."""
    tables: list[NcclTestTable] = []
    now = _Open(file)
    for number, raw in enumerate(text.splitlines(), start=1):
        line = _PREFIX.sub("", raw.rstrip())
        if _begins_run(line, now):
            fresh = _fresh(line, now)
            if now.used:
                tables.append(_close(now))
            now = fresh
        _take(line, number, now)
    if now.used or now.pending:
        tables.append(_close(now))
    return tuple(tables)


def _begins_run(line: str, now: _Open) -> bool:
    """Say whether a line belongs to another run than what was read before."""
    if _RUN.match(line):
        return now.used or bool(now.ranks or now.per_process)
    if line.startswith("# Using devices"):
        return now.used or bool(now.ranks)
    if _HEAD.match(line):
        return bool(now.rows)
    return now.used and (
        line.startswith(("# Collective test starting", "# nccl-tests version")) or _is_command(line)
    )


def _fresh(line: str, now: _Open) -> _Open:
    """Return the next run, with what it still shares with the last: the command above both."""
    fresh = _Open(now.file)
    same = bool(_HEAD.match(line)) and not now.closed
    if not now.used or same:
        fresh.command, fresh.program, fresh.version = now.command, now.program, now.version
        fresh.processes, fresh.forced = now.processes, dict(now.forced)
    if same:
        fresh.ranks, fresh.per_process = list(now.ranks), now.per_process
    return fresh


def _is_command(line: str) -> bool:
    """Say whether a line is a command that starts a test, as a shell's transcript shows it."""
    if line.startswith("# Collective test") or not _PROGRAM.search(line):
        return False
    words = line.lstrip("$#> ").split()
    starts = {"mpirun", "mpiexec", "srun", "torchrun", "sudo", "env", "time"}
    return bool(words) and (
        line.lstrip().startswith(("$", ">"))
        or words[0].rsplit("/", 1)[-1] in starts
        or bool(_PROGRAM.fullmatch(words[0].rsplit("/", 1)[-1]))
    )


def _processes(command: str) -> int | None:
    """Return the number of processes that a command starts, where it says so."""
    try:
        words = shlex.split(command, comments=False)
    except ValueError:
        words = command.split()
    for option, value in pairwise(words):
        if option in {"-np", "-n", "--np", "-c", "--ntasks"} and value.isdigit():
            return int(value)
        if _PROGRAM.fullmatch(value.rsplit("/", 1)[-1]):
            break  # The test's own -n counts iterations.
    return None


def _take(line: str, number: int, now: _Open) -> None:
    """Take one line in."""
    now.forced.update(_FORCED.findall(line))
    if failure := _FAILURE.match(line):
        host, kind, place, message = failure.groups()
        now.errors.append(NcclTestError(number, host, place, message or kind))
        return
    if version := _VERSION.match(line):
        now.version = now.version or version[1]
        return
    if _is_command(line):
        now.command, now.program = line.strip(), (_PROGRAM.findall(line) or [""])[-1]
        now.processes = _processes(now.command)
        return
    if _HEAD.match(line):
        now.columns = tuple(line.lstrip("#").split())
    elif line.startswith("#"):
        _take_comment(line, number, now)
    elif line.strip():
        _take_row(line, number, now)


def _take_comment(line: str, number: int, now: _Open) -> None:
    if rank := _RANK.match(line):
        index, group, host, device = rank.groups()
        now.ranks.append((int(index), group or "0", host, device.strip()))
    elif run := _RUN.match(line):
        now.per_process = int(run[1]) * int(run[2])
    elif "Collective test" in line and (program := _PROGRAM.search(line)):
        now.program = program[1]
        now.concluded = now.concluded or "concluded" in line
    elif average := re.search(r"Avg bus bandwidth\s*:\s*([\d.eE+-]+)", line):
        now.average, now.closed = _float(average[1]), True
    elif bounds := re.search(r"Out of bounds values\s*:\s*(\d+)", line):
        now.bounds = int(bounds[1])
    elif error := re.match(r"#\s*error:\s*(.+)$", line):
        now.errors.append(NcclTestError(number, "", "", error[1].strip()))
    elif "(B)" in line:
        words = line.split()
        now.time_unit_s = next((_UNITS_S[w] for w in words if w in _UNITS_S), now.time_unit_s)
        now.rate_unit_Bps = next((_RATES_BPS[w] for w in words if w in _RATES_BPS), 1e9)


def _take_row(line: str, number: int, now: _Open) -> None:
    """Take a row of the table, or a half of it where a log line came between."""
    if started := _START.match(line):
        _end_pending(now)
        head = (number, " ".join(started.groups()[1:4]))
        rest = started[5]
        broken = _broken_by_log(rest)
        if broken is not None:
            now.pending = (number, f"{head[1]} {broken}")
            return
        _take_numbers(number, f"{head[1]} {rest}", now)
    elif now.pending and _all_numbers(line.split()):
        start, text = now.pending
        now.pending = None
        _take_numbers(start, f"{text} {line}", now)
    elif now.columns and now.columns[:1] == ("size",) and "count" not in now.columns:
        _take_short(line, number, now)


def _broken_by_log(rest: str) -> str | None:
    """Return what stands before a log line that broke into a row; None where none did."""
    words = rest.split()
    if _NCCL_LOG.search(rest):
        kept: list[str] = []
        for word in words:
            if _is_number(word) or (not kept and word.isalpha()):
                kept.append(word)
                continue
            if glued := re.match(r"-?\d+(?:\.\d+)?(?=[A-Za-z])", word):  # "-1node7:123:456"
                kept.append(glued[0])
            break
        return " ".join(kept)
    return " ".join(words) if len(words) <= 2 else None


def _is_number(word: str) -> bool:
    return bool(re.fullmatch(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|N/A|nan|inf", word))


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _all_numbers(words: list[str]) -> bool:
    return len(words) >= 3 and all(_is_number(word) for word in words)


def _take_numbers(number: int, text: str, now: _Open) -> None:
    """Read one whole row: size, count, type, perhaps operator and root, then one or two halves."""
    words = text.split()
    size, dtype = int(words[0]), words[2]
    values = words[3:]
    redop, root = "", None
    if values and not _is_number(values[0]):
        redop, values = values[0], values[1:]
    named = _columns(now)
    if values and (not named or "root" in named) and re.fullmatch(r"-1|\d{1,9}", values[0]):
        root, values = int(values[0]), values[1:]
    where = f"{now.file}:{number}"
    groups = _halves(values, named)
    if groups is None:
        now.problems.append(
            f"{where}: the row of {size} B has {len(values)} numbers behind its head; wanted are "
            "time, algbw, busbw and #wrong once or twice: the log was cut or mixed here"
        )
        return
    for in_place, group in groups:
        half = _half(group, in_place, where, now)
        if half is not None:
            _add(now, half, _Head(number, size, dtype, redop, root))


def _columns(now: _Open) -> tuple[str, ...]:
    """Return the columns of the header, where they are those of nccl-tests."""
    return now.columns if "type" in now.columns else ()


def _halves(values: list[str], named: tuple[str, ...]) -> list[tuple[bool, list[str]]] | None:
    """Split the numbers of a row into its halves; None where they do not fit."""
    numbers = []
    for word in values:
        if not _is_number(word):
            break  # A timestamp, or a log line behind the row.
        numbers.append(word)
    times = [i for i, name in enumerate(named) if name in {"time", "cputime"}]
    if len(times) == 2:
        width = times[1] - times[0]
    elif len(times) == 1:
        width = len([name for name in named[times[0] :] if name != "timestamp"])
    else:
        width = 4
    if len(numbers) >= 2 * width:
        return [(False, numbers[:width]), (True, numbers[width : 2 * width])]
    if len(numbers) >= width:
        return [(False, numbers[:width])]
    return None


def _half(group: list[str], in_place: bool, where: str, now: _Open) -> _Half | None:
    try:
        time, algbw, busbw = (float(word) for word in group[:3])
    except ValueError:
        time = algbw = busbw = math.nan
    if not (0 < time < _MOST and 0 <= algbw < _MOST and 0 <= busbw < _MOST):
        now.problems.append(
            f"{where}: {' '.join(group)} is no measurement; wanted are a time above 0, algbw and "
            "busbw"
        )
        return None
    counted = "error" not in now.columns and len(group) > 3 and group[3][:1].isdigit()
    wrong = float(group[3]) if counted else math.nan
    return _Half(in_place, time, algbw, busbw, int(wrong) if math.isfinite(wrong) else None)


def _take_short(line: str, number: int, now: _Open) -> None:
    """Read a row of a table that has fewer columns: size, time, algbw, busbw."""
    words = line.split()
    named = [name for name in now.columns if name in _NAMES]
    if len(words) < len(named) or not _all_numbers(words[: len(named)]):
        return
    cells = dict(zip(named, words, strict=False))
    group = [cells.get("time", "nan"), cells.get("algbw", "nan"), cells.get("busbw", "nan")]
    half = _half(group, False, f"{now.file}:{number}", now)
    if half is not None and re.fullmatch(r"\d{1,20}", words[0]):
        _add(now, half, _Head(number, int(words[0])))


def _add(now: _Open, half: _Half, head: _Head) -> None:
    """Keep a half, and say where its numbers contradict each other."""
    now.line = now.line or head.line
    size = head.size
    time_s = half.time * now.time_unit_s
    printed = half.algbw * now.rate_unit_Bps
    exact = size / time_s
    # Printed with two digits behind the point, or fewer where there is no room.
    slack = max(0.006 * now.rate_unit_Bps, 0.006 * exact)
    if abs(exact - printed) > slack:
        now.problems.append(
            f"{now.file}:{head.line}: {size} B in {half.time:g} us are "
            f"{exact / 1e9:.4g} GB/s, but algbw says {half.algbw:g}: the columns may have slipped; "
            "the printed values are kept"
        )
        exact = printed
    now.printed.append((half.algbw, half.busbw))
    now.rows.append(
        NcclTestRow(
            op=None,
            ranks=None,
            size_bytes=size,
            time_s=time_s,
            algbw_Bps=exact,
            busbw_Bps=half.busbw * now.rate_unit_Bps,
            in_place=half.in_place,
            wrong=half.wrong,
            dtype=head.dtype,
            redop=head.redop,
            root=head.root,
            line=head.line,
        )
    )


def _end_pending(now: _Open) -> None:
    """Give up waiting for the rest of a row."""
    if now.pending is None:
        return
    line, text = now.pending
    now.pending = None
    if len(text.split()) > 5:
        _take_numbers(line, text, now)
        return
    now.problems.append(
        f"{now.file}:{line}: the row of {text.split()[0]} B has no times: the test stopped there, "
        "or the log was cut"
    )


def _close(now: _Open) -> NcclTestTable:
    """Return the table, with operation, ranks and the digits that the print left out filled in."""
    _end_pending(now)
    ratio = _ratio(now.printed)
    op = operation_of(now.program) if now.program else _guess_op(now.rows, ratio)
    ranks = _ranks(now, op, ratio)
    rows = tuple(
        replace(row, op=op, ranks=ranks, busbw_Bps=_busbw(row, ratio, now.rate_unit_Bps))
        for row in now.rows
    )
    numbers = [(rank, group) for rank, group, _, _ in now.ranks]
    if len(set(numbers)) < len(numbers):
        now.problems.append(
            f"{now.file}:{now.line}: the same rank is listed several times: the test was built "
            "without MPI, and every process tested its own GPUs alone"
        )
    return NcclTestTable(
        file=now.file,
        line=now.line,
        op=op,
        ranks=ranks,
        rows=rows,
        hosts=tuple(dict.fromkeys(host for _, _, host, _ in now.ranks)),
        devices=tuple(dict.fromkeys(device for _, _, _, device in now.ranks)),
        command=now.command,
        version=now.version,
        algorithm=now.forced.get("ALGO", ""),
        protocol=now.forced.get("PROTO", ""),
        average_busbw_Bps=None if now.average is None else now.average * now.rate_unit_Bps,
        out_of_bounds=now.bounds,
        complete=now.closed,
        errors=tuple(now.errors),
        problems=tuple(now.problems),
    )


def _ratio(printed: list[tuple[float, float]]) -> float | None:
    """Return busbw / algbw where the print tells it best: with most digits, none cut off."""
    whole = [(algbw, busbw) for algbw, busbw in printed if 2 <= algbw < _WIDEST]
    algbw, busbw = max(whole, default=(0.0, 0.0))
    return busbw / algbw if algbw else None


def _busbw(row: NcclTestRow, ratio: float | None, unit_Bps: float) -> float:  # noqa: N803
    """Return busbw with the digits that were not printed."""
    if ratio is None:
        return row.busbw_Bps
    exact = row.algbw_Bps * ratio
    slack = max(0.01 * unit_Bps, 0.01 * row.busbw_Bps)
    return exact if abs(exact - row.busbw_Bps) <= slack else row.busbw_Bps


def _guess_op(rows: list[NcclTestRow], ratio: float | None) -> str | None:
    """Return the operation that only fits, of a table that does not name it."""
    if not rows or ratio is None:
        return None
    reduces = rows[0].redop not in {"", "none"}
    if reduces and (ratio > 1.02 or rows[0].root == -1):
        return "all-reduce" if ratio > 0.99 else "reduce-scatter"
    if rows[0].root is not None and rows[0].root >= 0 and abs(ratio - 1) < 0.01:
        return "reduce" if reduces else "broadcast"
    return None


def _ranks(now: _Open, op: str | None, ratio: float | None) -> int | None:
    """Return the ranks of a communicator: as listed, as started, or as the factor tells them."""
    groups: dict[str, set[int]] = {}
    for rank, group, _, _ in now.ranks:
        groups.setdefault(group, set()).add(rank)
    listed = max((len(ranks) for ranks in groups.values()), default=0)
    started = (now.processes or 0) * (now.per_process or 1)
    if listed > 1 or (listed and not started):
        return listed
    if started > 1:
        return started
    return _ranks_of(op, ratio)


def _ranks_of(op: str | None, ratio: float | None) -> int | None:
    """Return the ranks that a bus-bandwidth factor stands for, where the print tells it surely."""
    limit = {"all-reduce": 2.0, "all-gather": 1.0, "reduce-scatter": 1.0, "all-to-all": 1.0}
    top = limit.get(op or "")
    if top is None or ratio is None or not ratio < top:
        return None
    ranks = top / (top - ratio)
    sure = 1.8 < ranks < 33 and abs(ranks - round(ranks)) < 0.2
    return round(ranks) if sure else None
