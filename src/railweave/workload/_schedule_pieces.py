"""Which pieces of the data each message of a collective carries, and what the receiver does.

Rings, chains and trees pass on what they were brought, so a message carries what the message that
it waits for carried; only where the data begins has to be said. Halving and doubling, and the
all-to-alls, are told piece by piece.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from railweave.design.models import Algorithm, Collective
from railweave.workload._communicator import Communicator
from railweave.workload._halving import HalvingRound, halving_rounds
from railweave.workload._hierarchical import grid_of
from railweave.workload._schedule_walk import Message
from railweave.workload._traffic import Traffic

__all__ = ["Action", "Load", "Pieces", "pieces_of"]

I64 = npt.NDArray[np.int64]
Action = Literal["reduce", "copy"]
Load = tuple[tuple[int, ...], Action]

_REDUCES = (Collective.ALL_REDUCE, Collective.REDUCE_SCATTER, Collective.REDUCE)


@dataclass(frozen=True, eq=False)
class Pieces:
    """The pieces of a collective.

    ``sizes`` in bytes and ``names``, (C,); ``owner`` the rank that a piece belongs to (whose
    contribution it is, or who keeps it; −1: nobody), ``sender`` and ``receiver`` of an all-to-all
    are owner and ``to``. ``load`` tells what a message carries.
    """

    sizes: npt.NDArray[np.float64]
    names: tuple[str, ...]
    owner: I64
    to: I64
    load: Callable[[Message], Load]


def pieces_of(
    op: Collective,
    algorithm: Algorithm,
    comm: Communicator,
    traffic: Traffic,
    size_bytes: float,
) -> Pieces:
    """Return the pieces, and what each message carries."""
    if op is Collective.SEND_RECV:
        return _shift(comm.n, traffic, size_bytes)
    if op is Collective.ALL_TO_ALL:
        return _pairs(comm, algorithm, traffic, size_bytes)
    if algorithm is Algorithm.HALVING_DOUBLING:
        return _halving(op, comm.n, traffic, size_bytes)
    if algorithm is Algorithm.HIERARCHICAL:
        return _by_server(op, comm, traffic, size_bytes)
    if algorithm is Algorithm.TREE or op in (Collective.BROADCAST, Collective.REDUCE):
        return _pipelined(op, algorithm, comm, traffic)
    return _ring(op, comm, traffic, size_bytes)


def _nobody(count: int) -> I64:
    return np.full(count, -1, dtype=np.int64)


# ---------------------------------------------------------------- rings


def _action(op: Collective, chunk: int, members: int) -> Action:
    """Return what is done in a round of a closed ring: an all-reduce adds, then hands out."""
    adds = op in _REDUCES and chunk < members - 1
    return "reduce" if adds else "copy"


def _start(op: Collective, ring: I64, position: int) -> int:
    """Return whose piece a member of a ring sends first.

    Its own; where pieces are summed its predecessor's, which then ends, complete, with its owner.
    """
    return int(ring[position - 1 if op in _REDUCES else position])


def _ring(op: Collective, comm: Communicator, traffic: Traffic, size_bytes: float) -> Pieces:
    n, channels = comm.n, comm.channels
    bounds = traffic.task_stream

    def load(message: Message) -> Load:
        first = int(bounds[message.task])
        ring = traffic.src[first : int(bounds[message.task + 1])].astype(np.int64)
        whose = _start(op, ring, message.origin[0] - first)
        return (message.task * n + whose,), _action(op, message.chunk, n)

    owner = np.tile(np.arange(n), channels)
    names = tuple(
        f"piece {r}" + (f", channel {c + 1}" if channels > 1 else "")
        for c in range(channels)
        for r in range(n)
    )
    sizes = np.full(n * channels, size_bytes / channels / n)
    return Pieces(sizes, names, owner, _nobody(len(owner)), load)


def _by_server(op: Collective, comm: Communicator, traffic: Traffic, size_bytes: float) -> Pieces:
    """Rings inside servers carry a column of the table at a time, rings along rails one piece."""
    n, table = comm.n, grid_of(comm, "hierarchical")
    column = np.empty(n, dtype=np.int64)
    column[table] = np.arange(table.shape[1])
    bounds = traffic.task_stream

    def load(message: Message) -> Load:
        first = int(bounds[message.task])
        ring = traffic.src[first : int(bounds[message.task + 1])].astype(np.int64)
        label = traffic.labels[int(traffic.task_label[message.task])]
        phase = op
        if label.endswith("/reduce-scatter inside"):
            phase = Collective.REDUCE_SCATTER
        elif label.endswith("/all-gather inside"):
            phase = Collective.ALL_GATHER
        whose = _start(phase, ring, message.origin[0] - first)
        action = _action(phase, message.chunk, len(ring))
        if label.endswith(" inside"):
            return tuple(int(r) for r in table[:, column[whose]]), action
        return (whose,), action

    names = tuple(f"piece {r}" for r in range(n))
    return Pieces(np.full(n, size_bytes / n), names, np.arange(n), _nobody(n), load)


# ---------------------------------------------------------------- chains and trees


def _pipelined(
    op: Collective, algorithm: Algorithm, comm: Communicator, traffic: Traffic
) -> Pieces:
    """Chunk k of every stream is piece k of its channel and tree."""
    tasks = traffic.n_tasks
    rounds = int(traffic.task_rounds.max())
    both = op is Collective.ALL_REDUCE
    trees = 2 if both else 1

    def load(message: Message) -> Load:
        up = message.stream - int(traffic.task_stream[message.task]) < comm.n - 1
        adds = op is Collective.REDUCE or (both and up)
        return (message.task * rounds + message.origin[1],), "reduce" if adds else "copy"

    def name(task: int, chunk: int) -> str:
        channel, which = divmod(task, trees)
        text = f"piece {chunk}"
        text += f", tree {which + 1}" if both and algorithm is Algorithm.TREE else ""
        return text + (f", channel {channel + 1}" if comm.channels > 1 else "")

    sizes = np.repeat(traffic.chunk_bytes[traffic.task_stream[:-1]], rounds)
    names = tuple(name(t, k) for t in range(tasks) for k in range(rounds))
    return Pieces(sizes, names, _nobody(len(names)), _nobody(len(names)), load)


# ---------------------------------------------------------------- halving and doubling


@dataclass(frozen=True, eq=False)
class _Halving:
    """Who takes part, and which pieces each of them is in charge of."""

    active: list[int]
    idle: dict[int, int]  #: active rank → the rank that it looks after
    by_rank: bool  #: a piece a rank (else one an active rank)

    def of(self, places: list[int]) -> tuple[int, ...]:
        """Return the pieces that the active ranks at these places are in charge of."""
        if not self.by_rank:
            return tuple(places)
        ranks = [self.active[place] for place in places]
        return tuple(sorted([*ranks, *(self.idle[r] for r in ranks if r in self.idle)]))


def _halving(op: Collective, n: int, traffic: Traffic, size_bytes: float) -> Pieces:
    rounds = halving_rounds(op, n)
    spare = n & (n - 1) != 0
    exchanges = rounds[1:-1] if spare else rounds
    active = exchanges[0].src.tolist()
    idle = dict(zip(rounds[0].dst.tolist(), rounds[0].src.tolist(), strict=True)) if spare else {}
    group = _Halving(active, idle, op is not Collective.ALL_REDUCE)
    halvings = len(active).bit_length() - 1 if op in _REDUCES else 0
    loads: list[Load] = []
    for number, step in enumerate(rounds):
        if spare and number in (0, len(rounds) - 1):
            loads += _outsiders(op, n, group, step, before=number == 0)
        else:
            halve = number - int(spare) < halvings
            loads += _exchange(group, step, halve=halve)
    count = n if group.by_rank else len(active)
    owner = np.arange(n) if group.by_rank else _nobody(count)
    names = tuple(f"piece {i}" for i in range(count))
    return Pieces(
        np.full(count, size_bytes / count),
        names,
        owner,
        _nobody(count),
        lambda message: loads[message.task],
    )


def _exchange(group: _Halving, step: HalvingRound, *, halve: bool) -> list[Load]:
    """Return what is sent in one round: the partner's half, or all of one's own side."""
    place = {rank: i for i, rank in enumerate(group.active)}
    every = range(len(group.active))
    loads: list[Load] = []
    for src, dst in zip(step.src.tolist(), step.dst.tolist(), strict=True):
        me, partner = place[src], place[dst]
        width = 2 * (me ^ partner)
        side = (partner if halve else me) % width
        pieces = group.of([i for i in every if i % width == side])
        loads.append((pieces, "reduce" if halve else "copy"))
    return loads


def _outsiders(
    op: Collective, n: int, group: _Halving, step: HalvingRound, *, before: bool
) -> list[Load]:
    """Return what ranks that sit out hand over before, and get after."""
    every = tuple(range(n if group.by_rank else len(group.active)))
    loads: list[Load] = []
    for src, dst in zip(step.src.tolist(), step.dst.tolist(), strict=True):
        out = src if before else dst
        if before:
            loads.append((every, "reduce") if op in _REDUCES else ((out,), "copy"))
        elif op is Collective.REDUCE_SCATTER:
            loads.append(((out,), "copy"))
        else:
            loads.append((tuple(i for i in every if not group.by_rank or i != out), "copy"))
    return loads


# ---------------------------------------------------------------- all-to-all, send-receive


def _shift(n: int, traffic: Traffic, size_bytes: float) -> Pieces:
    names = tuple(f"buffer of rank {r}" for r in range(n))
    return Pieces(
        np.full(n, size_bytes),
        names,
        np.arange(n),
        (np.arange(n) + 1) % n,
        lambda message: ((int(traffic.src[message.stream]),), "copy"),
    )


def _pairs(comm: Communicator, algorithm: Algorithm, traffic: Traffic, size_bytes: float) -> Pieces:
    """Piece i·n + j is what rank i has for rank j."""
    n = comm.n
    rail = algorithm is Algorithm.RAIL_ALIGNED
    table = grid_of(comm, "rail-aligned") if rail else np.arange(n).reshape(n, 1)
    server, column = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    server[table] = np.arange(table.shape[0])[:, None]
    column[table] = np.arange(table.shape[1])

    def load(message: Message) -> Load:
        src, dst = int(traffic.src[message.stream]), int(traffic.dst[message.stream])
        if not rail:
            return (src * n + dst,), "copy"
        if server[src] == server[dst]:  # for the receiver and those on its rail
            return tuple(src * n + int(j) for j in table[:, column[dst]]), "copy"
        return tuple(int(i) * n + dst for i in table[server[src]]), "copy"

    names = tuple(f"{i} to {j}" for i in range(n) for j in range(n))
    owner, to = (part.ravel() for part in np.indices((n, n)))
    return Pieces(np.full(n * n, size_bytes / n), names, owner, to, load)
