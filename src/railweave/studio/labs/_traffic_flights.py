"""Lab 2's moves: what the engine sent, from where to where, when and on which way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from railweave.fabric import Fabric, NodeKind
from railweave.studio.scene import Flight
from railweave.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from railweave.engine.result import Result
    from railweave.report.patterns import PatternStudy

__all__ = [
    "OTHER",
    "PLACE_ROLES",
    "Clock",
    "Move",
    "flights_of",
    "label_of",
    "moves_of",
    "steps_of",
    "ways_of",
]

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

#: role (of the lab's palette) by the farthest place that bytes pass
PLACE_ROLES: Final = ("place-server", "place-leaf", "place-spine", "place-core")
#: role of what is not picked
OTHER: Final = "other"
#: moves up to which all exchanges of a step are drawn; beyond, the first
MOST_REPEATED: Final = 600
#: exchanges that are drawn one after another
MOST_EXCHANGES: Final = 32
_DRAWN: Final = (NodeKind.GPU, NodeKind.SWITCH, NodeKind.SCALE_UP)


@dataclass(frozen=True, slots=True)
class Move:
    """A token's journey: ``way`` are the ids of the drawing's nodes that it passes."""

    start_s: float
    end_s: float
    way: tuple[str, ...]
    what: str
    size_bytes: float
    role: str


@dataclass(frozen=True, slots=True)
class Clock:
    """How a step's time is drawn: ``drawn`` of its ``exchanges``, each ``exchange_s`` long."""

    exchange_s: float
    exchanges: int
    drawn: int

    @classmethod
    def of(cls, study: PatternStudy, moves: int) -> Clock:
        """Return the clock of a study with so many moves in an exchange."""
        overlaps = study.case.collective is None
        count = 1 if overlaps else study.case.exchanges
        whole = count <= MOST_EXCHANGES and count * moves <= MOST_REPEATED
        return cls(study.time_s / count, count, count if whole else 1)

    @property
    def note(self) -> str:
        """What of the step is drawn, where it is not all of it."""
        if self.drawn == self.exchanges:
            return ""
        return (
            f"exchange 1 of {self.exchanges:,}: the others are alike, the step takes "
            f"{format_seconds(self.exchange_s * self.exchanges)}"
        )


def label_of(label: str) -> str:
    """Return ``dispatch`` of ``expert/dispatch#0``, as the trace has it."""
    return label.split("/", 1)[-1].replace("#0", "").replace("/", ", ")


def ways_of(study: PatternStudy) -> list[tuple[int, ...]]:
    """Return the drawn nodes that each stream passes: no NICs and PCIe, they are the GPU's."""
    result, fabric = study.result, study.fabric
    shown = np.isin(fabric.node_kind, _DRAWN)
    shown[study.nodes] = True
    src, dst = result.traffic.src.tolist(), result.traffic.dst.tolist()
    return [
        tuple(
            node
            for k, node in enumerate(_nodes(fabric, result, stream, a, b))
            if shown[node] or k == 0
        )
        for stream, (a, b) in enumerate(zip(src, dst, strict=True))
    ]


def _nodes(fabric: Fabric, result: Result, stream: int, src: int, dst: int) -> list[int]:
    """Return the nodes from end to end; one way of several where packets are spread."""
    paths = result.paths
    if paths is None or paths.first[stream] == paths.first[stream + 1]:
        return [src, dst]
    flow = int(paths.first[stream])
    links = paths.link[paths.ptr[flow] : paths.ptr[flow + 1]]
    if paths.weight is None:
        return [src, *fabric.link_dst[links].tolist()]
    ends = zip(fabric.link_src[links].tolist(), fabric.link_dst[links].tolist(), strict=True)
    after: dict[int, int] = {}
    for a, b in ends:
        after.setdefault(a, b)
    nodes = [src]
    while nodes[-1] != dst and nodes[-1] in after and len(nodes) <= len(links) + 1:
        nodes.append(after[nodes[-1]])
    return nodes


def moves_of(
    study: PatternStudy, ways: Sequence[tuple[str, ...]], roles: Sequence[str]
) -> list[Move]:
    """Return a move for each stream of the engine's result, in the order in which they begin."""
    result = study.result
    traffic, task = result.traffic, result.traffic.stream_task
    began = result.task_start_s[task]
    size = traffic.chunk_bytes * traffic.task_rounds[task]
    names = [label_of(label) for label in traffic.labels]
    what = [names[k] for k in traffic.task_label[task].tolist()]
    moves = [
        Move(*rest)
        for rest in zip(
            began.tolist(), result.stream_finish_s.tolist(), ways, what, size.tolist(), roles,
            strict=True,
        )
        if np.isfinite(rest[0]) and np.isfinite(rest[1])
    ]  # fmt: skip
    return sorted(moves, key=lambda move: move.start_s)


def flights_of(moves: Sequence[Move], clock: Clock, *, labelled: bool) -> tuple[Flight, ...]:
    """Return the moves hop by hop, each in its part of the move's time, in every drawn exchange.

    ``labelled``: those that are not grey say their bytes.
    """
    flights = []
    for exchange in range(clock.drawn):
        offset = exchange * clock.exchange_s
        for move in moves:
            hops = len(move.way) - 1
            if hops < 1:
                continue
            text = format_bytes(move.size_bytes) if labelled and move.role != OTHER else ""
            size = 0.0 if move.role == OTHER else move.size_bytes  # small: it steps back
            begin, span = offset + move.start_s, (move.end_s - move.start_s) / hops
            for h, (a, b) in enumerate(pairwise(move.way)):
                start, end = begin + h * span, begin + (h + 1) * span
                flights.append(Flight(start, end, a, b, "data", text, size, move.role))
    return tuple(flights)


def steps_of(moves: Sequence[Move], clock: Clock, noun: str) -> tuple[tuple[float, str], ...]:
    """Return the times at which something begins, with what, and the end."""
    begins: dict[float, Counter[str]] = {}
    for move in moves:
        at = float(f"{move.start_s:.9g}")
        begins.setdefault(at, Counter())[move.what] += 1
    steps = []
    for exchange in range(clock.drawn):
        turn = f"exchange {exchange + 1} of {clock.exchanges:,}, " if clock.exchanges > 1 else ""
        for at, count in sorted(begins.items()):
            what = ", ".join(
                f"{number:,} {noun}{'' if number == 1 else 's'} of {name}"
                for name, number in count.items()
            )
            time_s = exchange * clock.exchange_s + at
            steps.append((time_s, f"{turn}{format_seconds(time_s)}: {what} begin"))
    end = clock.drawn * clock.exchange_s
    return (*steps, (end, f"Over after {format_seconds(end)}"))
