"""Lab 7's drawings: pieces that move between GPUs, on the logical shape and on the fabric."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from railweave.report.layout import Place, grid_layout, ring_layout, row_layout, tree_layout
from railweave.studio.labs._collectives import PIECES, bytes_text
from railweave.studio.scene import (
    Flight,
    Level,
    Scene,
    SceneGroup,
    SceneLink,
    SceneNode,
)
from railweave.units import format_seconds

if TYPE_CHECKING:
    from railweave.studio.labs._collectives_run import Message, Run
    from railweave.workload.schedule import Schedule

__all__ = [
    "ACTION_ROLES",
    "count_ranks",
    "gpu_name",
    "logical",
    "pieces_label",
    "round_ends",
    "round_text",
    "rounds_of",
    "steps",
]

U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]

#: colour of a transfer by what the receiver does; the label says it too ("+2" adds, "2" copies)
ACTION_ROLES: Final = {"reduce": "plane-a", "copy": "plane-e", "": "backend"}
_ROW: Final = 12
#: GPUs up to which a bar beside each shows what it has
_MOST_LEVELS: Final = 12


def rounds_of(messages: Sequence[Message]) -> list[list[Message]]:
    """Return the messages by round."""
    rounds: list[list[Message]] = [
        [] for _ in range(1 + max((m.round for m in messages), default=-1))
    ]
    for message in messages:
        rounds[message.round].append(message)
    return rounds


def round_ends(messages: Sequence[Message]) -> tuple[float, ...]:
    """Return when each round is over on every rank, and all before it."""
    latest, ends = 0.0, []
    for some in rounds_of(messages):
        latest = max([latest, *(m.end_s for m in some)])
        ends.append(latest)
    return tuple(ends)


# ---------------------------------------------------------------- the logical shape


def logical(run: Run, schedule: Schedule) -> Scene:
    """Draw the pieces that move along the collective's own shape."""
    messages, n = run.logical, schedule.ranks
    slow = run.inputs.slow.rank if run.inputs.slow else -1
    places, aspect, per_row = _places(schedule)
    nodes = tuple(
        SceneNode(
            gpu_name(r),
            *places[r],
            "gpu",
            gpu_name(r),
            "slow" if r == slow else "",
            "backend",
            f"server {r // per_row}" if per_row else "",
            1,
            "slow" if r == slow else "",
        )
        for r in range(n)
    )
    groups = tuple(
        SceneGroup(f"server {k}", f"server {k}", count=per_row, fixed=True)
        for k in range(n // per_row if per_row else 0)
    )
    ends = round_ends(messages)
    return Scene(
        nodes=nodes,
        links=_edges(schedule),
        groups=groups,
        flights=tuple(
            Flight(
                m.start_s,
                m.end_s,
                gpu_name(m.src),
                gpu_name(m.dst),
                "chunk",
                pieces_label(m),
                m.size_bytes,
                ACTION_ROLES[m.action],
            )
            for m in messages
        ),
        levels=_levels(schedule, messages) if n <= _MOST_LEVELS else (),
        duration_s=ends[-1],
        title=f"{run.inputs.name} over {n} GPUs: {schedule.shape}",
        description=(
            f"{n} GPUs; the pieces move along a {schedule.shape}, {len(ends)} rounds. At the end "
            f"{schedule.promise}. The tables below say what each round moves and what each GPU "
            "holds."
        ),
        note=_logical_note(run),
        steps=steps(messages),
        aspect=aspect,
    )


def _logical_note(run: Run) -> str:
    note = "+ is added to the receiver's own, = takes its place"
    if run.outcome is not None:
        note += "; rounds are drawn of equal length, on the fabric they are not"
    elif abs(run.drawn_s - run.time_s) > 0.01 * run.time_s:
        note += (
            f"; drawn with {PIECES} pieces, which takes {format_seconds(run.drawn_s)}; cut into "
            f"512 KiB it takes {format_seconds(run.time_s)}"
        )
    return note


def gpu_name(rank: int) -> str:
    """Return a rank's id in drawings."""
    return f"GPU {rank}"


def _places(schedule: Schedule) -> tuple[tuple[Place, ...], float, int]:
    """Return the places, the ratio of width to height (0: any), and the ranks of a server."""
    n = schedule.ranks
    if schedule.shape == "tree":
        return tree_layout(schedule.parents[0]), 0.0, 0
    if schedule.shape in ("rings", "grid"):
        per_server = _server_size(schedule)
        if 1 < per_server < n or n <= _ROW:
            return grid_layout(n, per_server), 0.0, per_server
    if schedule.shape == "chain" and n <= _ROW:
        return row_layout(n), 0.0, 0
    return ring_layout(n), 1.0, 0


def _server_size(schedule: Schedule) -> int:
    """Return how many ranks stand in a server: those that the first round's edges join."""
    if not schedule.rounds:
        return schedule.ranks
    reach = max((abs(t.dst - t.src) for t in schedule.rounds[0]), default=0) + 1
    return reach if schedule.ranks % reach == 0 else schedule.ranks


def _edges(schedule: Schedule) -> tuple[SceneLink, ...]:
    both = set(schedule.edges)
    second = _second_tree(schedule)
    made = []
    for a, b in schedule.edges:
        if (b, a) in both and a > b:
            continue
        one_way = (b, a) not in both
        dashed = frozenset((a, b)) in second
        made.append(
            SceneLink(
                f"{gpu_name(a)} {'→' if one_way else '–'} {gpu_name(b)}",
                gpu_name(a),
                gpu_name(b),
                "backend",
                style="dashed" if dashed else "arrow" if one_way else "",
                detail="second tree" if dashed else "",
            )
        )
    return tuple(made)


def _second_tree(schedule: Schedule) -> set[frozenset[int]]:
    """Return the edges that only the second tree has."""
    trees = [
        {frozenset((child, parent)) for child, parent in enumerate(parents) if parent >= 0}
        for parents in schedule.parents
    ]
    return trees[1] - trees[0] if len(trees) > 1 else set()


def pieces_label(message: Message) -> str:
    """Return the pieces' numbers, with a sign for what the receiver does with them."""
    if not message.chunks:
        return ""
    sign = "+" if message.action == "reduce" else "="
    if len(message.chunks) > 2:
        return f"{sign}{len(message.chunks)} pieces"
    return sign + ",".join(str(chunk) for chunk in message.chunks)


def _levels(schedule: Schedule, messages: Sequence[Message]) -> tuple[Level, ...]:
    """Return how much of what it is promised each rank has, in per cent over time."""
    wanted = count_ranks(schedule.wanted)
    shares = [
        count_ranks(schedule.held(k) & schedule.wanted).sum(axis=1)
        for k in range(len(schedule.rounds) + 1)
    ]
    arrivals: dict[int, dict[int, float]] = {}
    for m in messages:
        mine = arrivals.setdefault(m.dst, {})
        mine[m.round] = max(mine.get(m.round, 0.0), m.end_s)
    levels = []
    for rank in range(schedule.ranks):
        total = float(wanted[rank].sum())
        if total == 0:
            continue
        times, values = [0.0], [100 * float(shares[0][rank]) / total]
        for k, at in sorted(arrivals.get(rank, {}).items()):
            times.append(max(at, times[-1]))
            values.append(100 * float(shares[k + 1][rank]) / total)
        levels.append(Level(gpu_name(rank), tuple(times), tuple(values), (), 100.0, "%"))
    return tuple(levels)


def count_ranks(sets: U64) -> I64:
    """Return how many ranks are in each set (a bit for each)."""
    octets = np.ascontiguousarray(sets).view(np.uint8).reshape(*sets.shape, 8)
    counts: I64 = np.unpackbits(octets, axis=-1).sum(axis=-1, dtype=np.int64)
    return counts


def steps(messages: Sequence[Message]) -> tuple[tuple[float, str], ...]:
    """Return when each round is the first that is not over on every GPU."""
    rounds, ends = rounds_of(messages), round_ends(messages)
    begins = (0.0, *ends[:-1])
    begun = [
        (begin, round_text(k, len(rounds), some))
        for k, (begin, some) in enumerate(zip(begins, rounds, strict=True))
    ]
    return (*begun, (ends[-1], f"Over after {format_seconds(ends[-1])}"))


def round_text(k: int, count: int, messages: Sequence[Message]) -> str:
    """Say what a round does."""
    sizes = sorted({m.size_bytes for m in messages})
    size = bytes_text(sizes[0]) if len(sizes) == 1 else (
        f"{bytes_text(sizes[0])} to {bytes_text(sizes[-1])}" if sizes else "nothing"
    )  # fmt: skip
    actions = {m.action for m in messages} - {""}
    verb = {"reduce": ", added", "copy": ", copied"}.get(next(iter(actions), ""), "")
    verb = ", some added, some copied" if len(actions) > 1 else verb
    word = "transfer" if len(messages) == 1 else "transfers"
    return f"Round {k + 1} of {count}: {len(messages):,} {word} of {size}{verb}"
