"""What nccl-tests measured, as typed records; shared by the readers of its text and its JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

__all__ = ["OPERATIONS", "NcclTestError", "NcclTestRow", "NcclTestTable", "operation_of"]

#: program of nccl-tests → operation; the others are called by their program's name
OPERATIONS: Final[dict[str, str]] = {
    "all_reduce": "all-reduce",
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "alltoall": "all-to-all",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "sendrecv": "send-recv",
}


def operation_of(program: str) -> str:
    """Return the operation of a program: ``all_reduce_perf`` → ``all-reduce``."""
    stem = program.rsplit("/", 1)[-1].removesuffix("_mpi").removesuffix("_perf")
    return OPERATIONS.get(stem, stem.replace("_", "-"))


@dataclass(frozen=True, slots=True)
class NcclTestRow:
    """One measurement. ``size_bytes`` is counted as nccl-tests does.

    ``op`` is an operation's name as railweave spells it (``"all-reduce"``), None where the file
    does not say it; ``ranks`` likewise. ``algbw_Bps`` is size / time, with more digits than are
    printed; ``busbw_Bps`` has the printed ratio to it. ``wrong`` counts wrong elements, None where
    results were not checked. ``line`` is the line in the file, 0 where it has none (JSON).
    """

    op: str | None
    ranks: int | None
    size_bytes: int
    time_s: float
    algbw_Bps: float  # noqa: N815 - byte/s, as opposed to bit/s
    busbw_Bps: float  # noqa: N815
    in_place: bool
    wrong: int | None = None
    dtype: str = ""
    redop: str = ""
    root: int | None = None
    line: int = 0


@dataclass(frozen=True, slots=True)
class NcclTestError:
    """A failure that the test itself reported.

    ``place`` is where in its source, ``common.cu:958``; empty where it does not say.
    """

    line: int
    host: str
    place: str
    message: str


@dataclass(frozen=True, slots=True)
class NcclTestTable:
    """One run of one test.

    ``hosts`` are those of the rank list, in its order; ``devices`` its kinds of GPU. ``algorithm``
    and ``protocol`` are what NCCL_ALGO and NCCL_PROTO forced, where the text tells. ``complete`` is
    False where the run's closing lines are missing: it was stopped, or the log was cut.
    ``problems`` say, with file and line, what could not be read or does not fit together.
    """

    file: str
    line: int
    op: str | None
    ranks: int | None
    rows: tuple[NcclTestRow, ...]
    hosts: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    command: str = ""
    version: str = ""
    algorithm: str = ""
    protocol: str = ""
    average_busbw_Bps: float | None = None  # noqa: N815
    out_of_bounds: int | None = None
    complete: bool = True
    errors: tuple[NcclTestError, ...] = ()
    problems: tuple[str, ...] = ()

    def select(self, *, in_place: bool = False) -> Iterator[NcclTestRow]:
        """Yield the rows of one half of the table: out of place, or in place."""
        return (row for row in self.rows if row.in_place is in_place)
