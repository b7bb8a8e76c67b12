"""`RankTrace`: what ranks of a job did, in one form for every kind of trace.

Readers of PyTorch profiler files, NCCL Inspector lines, Chakra traces and nccl-tests tables give
this; :mod:`railweave.workload.replay` turns it into traffic. Sizes are counted as nccl-tests does:
all-gather, the whole receive buffer; reduce-scatter, the whole send buffer; all-to-all, one rank's
buffer; the others, the buffer itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from railweave.findings import Finding
from railweave.provenance import Assumption

__all__ = [
    "ALL_RANKS",
    "MOST_RANKS",
    "OPERATIONS",
    "EventKind",
    "RankTrace",
    "TraceEvent",
    "TraceFormat",
    "Waits",
    "operation_of",
]

#: rank of an event that every member of its group took part in, seen from outside
ALL_RANKS: Final = -1
#: ranks that a trace may speak of
MOST_RANKS: Final = 1 << 17

#: operations between ranks, by the names of the design file, and those that only traces have
OPERATIONS: Final = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "broadcast",
    "reduce",
    "all-to-all",
    "gather",
    "scatter",
    "barrier",
    "send-recv",
    "send",
    "recv",
)
#: what is left of the names that libraries use, without case, dashes and suffixes
_PLAIN: Final = {
    "allreduce": "all-reduce",
    "allgather": "all-gather",
    "allgatherintotensor": "all-gather",
    "allgatherv": "all-gather",
    "reducescatter": "reduce-scatter",
    "reducescattertensor": "reduce-scatter",
    "reducescatterblock": "reduce-scatter",
    "broadcast": "broadcast",
    "bcast": "broadcast",
    "reduce": "reduce",
    "alltoall": "all-to-all",
    "alltoallv": "all-to-all",
    "all2all": "all-to-all",
    "all2allv": "all-to-all",
    "gather": "gather",
    "scatter": "scatter",
    "barrier": "barrier",
    "send": "send",
    "isend": "send",
    "recv": "recv",
    "irecv": "recv",
}


class EventKind(StrEnum):
    """What an event is."""

    COMPUTE = "compute"
    COLLECTIVE = "collective"
    POINT_TO_POINT = "point-to-point"


class TraceFormat(StrEnum):
    """Kinds of traces."""

    KINETO = "kineto"
    INSPECTOR = "inspector"
    CHAKRA = "chakra"
    NCCL_TESTS = "nccl-tests"


class Waits(StrEnum):
    """What compute is taken to have waited for, where a trace has times and no dependencies.

    ``seen``: operations that it had stopped for; ``all``: all that had ended when it went on. The
    truth lies between: with ``seen`` a replay on a slower network ends too early, with ``all`` it
    loses overlap.
    """

    SEEN = "seen"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """One thing that a rank did.

    ``depends_on`` are positions in the same rank's events. ``ranks`` is the group of a collective
    in its own order, or (sender, receiver). ``group`` tells apart groups of the same ranks;
    ``sequence`` is the group's own count of its operations, −1 where the trace has none.
    ``shares`` are the parts of an uneven all-to-all that go to each member, in the group's order.
    ``start_s`` is on the rank's own clock; NaN where the trace does not say, as ``duration_s``.
    ``where`` is the position in the file.
    """

    rank: int
    kind: EventKind
    op: str
    size_bytes: float = 0.0
    ranks: tuple[int, ...] = ()
    duration_s: float = math.nan
    start_s: float = math.nan
    depends_on: tuple[int, ...] = ()
    group: str = ""
    sequence: int = -1
    root: int | None = None
    shares: tuple[float, ...] = ()
    tag: int = 0
    where: str = ""

    @property
    def end_s(self) -> float:
        """When it ended on the rank's own clock, NaN where that is not known."""
        return self.start_s + self.duration_s


@dataclass(frozen=True, slots=True)
class RankTrace:
    """The events of one rank, with what its reader assumed, guessed or left out.

    ``source`` is the kind of the file. ``world`` is the number of ranks of the job where the file
    says it, else 0. With ``rank`` = :data:`ALL_RANKS` the events are whole operations of a group.
    """

    source: str
    file: str
    rank: int
    events: tuple[TraceEvent, ...]
    world: int = 0
    assumptions: tuple[Assumption, ...] = ()
    findings: tuple[Finding, ...] = ()


def operation_of(name: str) -> str | None:
    """Return the operation that a library's name for it means, None for one that is not known.

    ``AllReduce``, ``allreduce_coalesced``, ``_allgather_base`` and ``nccl:all_reduce`` are known.
    """
    plain = name.rpartition(":")[2].lower().replace("-", "_").strip("_")
    for suffix in ("_coalesced", "_base", "_oop", "_single", "_sparse"):
        plain = plain.removesuffix(suffix)
    return _PLAIN.get(plain.replace("_", ""))
