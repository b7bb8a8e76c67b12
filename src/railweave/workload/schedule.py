"""The schedule of a collective: which rank sends which pieces to whom, round by round.

It is read off the very streams and tasks that the engines simulate, as if every message took one
round: nothing here decides who sends to whom, how much or in which order. What is added is which
pieces of the data a message carries, and whether the receiver adds them to its own or keeps them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from railweave.design.models import Algorithm, Collective
from railweave.errors import InputError
from railweave.workload._communicator import Communicator
from railweave.workload._schedule_pieces import Pieces, pieces_of
from railweave.workload._schedule_walk import walk
from railweave.workload._traffic import Traffic
from railweave.workload.collectives import (
    CollectiveOptions,
    collective_traffic,
    require_algorithm,
)

__all__ = ["MOST_LANES", "MOST_RANKS", "Schedule", "Transfer", "collective_schedule"]

U64 = npt.NDArray[np.uint64]
I16 = npt.NDArray[np.int16]
F64 = npt.NDArray[np.float64]

#: the largest schedule
MOST_RANKS: Final = 64
#: ranks times channels
MOST_LANES: Final = 256
_MOST_PIECES: Final = 32
_BY_SERVER: Final = (Algorithm.HIERARCHICAL, Algorithm.RAIL_ALIGNED)


@dataclass(frozen=True, slots=True)
class Transfer:
    """One message of a schedule.

    ``chunks`` are the pieces it carries (numbers of ``Schedule.chunk_bytes``); with ``reduce`` the
    receiver adds them to its own, with ``copy`` they take the place of what it has.
    """

    round: int
    src: int
    dst: int
    chunks: tuple[int, ...]
    size_bytes: float
    action: Literal["reduce", "copy"]
    channel: int = 0


@dataclass(frozen=True, eq=False)
class Schedule:
    """A collective in rounds.

    ``rounds[k]`` are the messages of round k, between ranks 0 to n − 1. ``chunk_bytes`` (C,) are
    the sizes of the pieces, ``chunk_names`` (C,) their names. What a rank holds of a piece is a set
    of ranks whose contributions are in it (a sum, where the operation sums), as bits: bit r for
    rank r. ``initial`` is the start and ``wanted`` the end that the operation promises, both
    (ranks, C); 0 in ``wanted`` is what it promises nothing of.

    ``shape`` is the logical shape: ``ring``, ``chain``, ``tree``, ``hypercube``, ``all pairs``,
    ``shift`` (each rank to the next), ``rings`` (in servers, and along rails) or ``grid`` (all
    pairs in servers, then along rails). ``edges`` are all (sender, receiver), in the order of their
    first message; ``parents`` the parent of every rank in each tree of the first channel, −1 at
    its root (of trees only).
    """

    op: Collective
    algorithm: Algorithm
    ranks: int
    size_bytes: float
    channels: int
    rounds: tuple[tuple[Transfer, ...], ...]
    chunk_bytes: F64
    chunk_names: tuple[str, ...]
    initial: U64
    wanted: U64
    shape: str
    edges: tuple[tuple[int, int], ...]
    parents: tuple[tuple[int, ...], ...]
    promise: str
    notes: tuple[str, ...]

    @cached_property
    def _states(self) -> tuple[tuple[U64, I16], ...]:
        """What every rank holds after each round, and how many contributions were added up."""
        held, added = self.initial, (self.initial > 0).astype(np.int16)
        states = [(held, added)]
        for transfers in self.rounds:
            after, sums = held.copy(), added.copy()
            for adds in (False, True):
                some = [t for t in transfers if (t.action == "reduce") is adds]
                count = [len(t.chunks) for t in some]
                src = np.repeat(np.array([t.src for t in some], dtype=np.int64), count)
                dst = np.repeat(np.array([t.dst for t in some], dtype=np.int64), count)
                piece = np.array([c for t in some for c in t.chunks], dtype=np.int64)
                if adds:
                    np.bitwise_or.at(after, (dst, piece), held[src, piece])
                    np.add.at(sums, (dst, piece), added[src, piece])
                else:
                    after[dst, piece], sums[dst, piece] = held[src, piece], added[src, piece]
            held, added = after, sums
            states.append((held, added))
        return tuple(states)

    def held(self, rounds: int) -> U64:
        """Return what every rank holds of every piece after so many rounds, (ranks, C).

        0 rounds is the start. A number is a set of ranks, bit r for rank r; 0: nothing.
        """
        return self._states[rounds][0]

    def contributors(self, rounds: int, rank: int, chunk: int) -> tuple[int, ...]:
        """Return the ranks whose data is in a rank's piece after so many rounds."""
        bits = int(self.held(rounds)[rank, chunk])
        return tuple(r for r in range(self.ranks) if bits >> r & 1)

    @property
    def complete(self) -> bool:
        """Whether every rank ends with what is promised, each contribution in it exactly once."""
        held, added = self._states[-1]
        promised = self.wanted > 0
        size = np.array([int(bits).bit_count() for bits in self.wanted[promised].tolist()])
        right = held[promised] == self.wanted[promised]
        return bool(right.all() and (added[promised] == size).all())

    @property
    def sent_bytes(self) -> F64:
        """Bytes that each rank sends, (ranks,)."""
        return self._sum("src")

    @property
    def received_bytes(self) -> F64:
        """Bytes that each rank receives, (ranks,)."""
        return self._sum("dst")

    def _sum(self, end: str) -> F64:
        total = np.zeros(self.ranks)
        for transfers in self.rounds:
            for transfer in transfers:
                total[getattr(transfer, end)] += transfer.size_bytes
        return total


def collective_schedule(
    op: Collective,
    algorithm: Algorithm | None,
    ranks: int,
    size_bytes: float,
    channels: int = 1,
    *,
    ranks_per_server: int = 1,
    pipeline_chunks: int = 4,
    root: int = 0,
) -> Schedule:
    """Return the rounds of a collective.

    Args:
        op: operation.
        algorithm: None takes the operation's default.
        ranks: 2 to 64.
        size_bytes: size as nccl-tests counts it.
        channels: parallel rings or trees, each with its share of the data; ranks times channels
            are at most 256.
        ranks_per_server: for hierarchical and rail-aligned, which work by server.
        pipeline_chunks: pieces that trees and chains are drawn with; the engines cut into 512 KiB.
        root: of broadcast and reduce.

    Raises:
        InputError: a value out of range, or an algorithm that cannot do the operation.
    """
    chosen = require_algorithm(op, algorithm)
    _within("ranks", ranks, 2, MOST_RANKS, "longer schedules cannot be followed by eye; ")
    _within("channels", channels, 1, MOST_LANES // ranks, f"with {ranks} ranks ")
    _within("pieces of a pipeline", pipeline_chunks, 2, _MOST_PIECES)
    if not size_bytes >= 1:
        raise InputError(f"size: {size_bytes:g} B is not allowed; give 1 B or more")
    by_server = chosen in _BY_SERVER
    if by_server and (ranks_per_server < 1 or ranks % ranks_per_server):
        raise InputError(
            f"ranks per server: {ranks_per_server} does not divide the {ranks} ranks that "
            f"{chosen.value} works with; allowed: a divisor of {ranks}"
        )
    comm = Communicator.flat(ranks, channels=channels)
    if by_server:
        comm = Communicator.grid(ranks // ranks_per_server, ranks_per_server)
    options = CollectiveOptions(root=root, chunk_bytes=1, max_chunks=pipeline_chunks)
    traffic = collective_traffic(op, comm, size_bytes, algorithm=chosen, options=options)
    pieces = pieces_of(op, chosen, comm, traffic, size_bytes)
    initial, wanted = _states_of(op, ranks, root, pieces)
    return Schedule(
        op=op,
        algorithm=chosen,
        ranks=ranks,
        size_bytes=size_bytes,
        channels=1 if by_server else channels,
        rounds=_rounds(traffic, pieces),
        chunk_bytes=pieces.sizes,
        chunk_names=pieces.names,
        initial=initial,
        wanted=wanted,
        shape=_shape(op, chosen),
        edges=tuple(dict.fromkeys(zip(traffic.src.tolist(), traffic.dst.tolist(), strict=True))),
        parents=_parents(op, chosen, ranks, traffic),
        promise=_PROMISES[op].format(root=root),
        notes=_notes(op, chosen, by_server, ranks_per_server),
    )


def _within(what: str, value: int, low: int, high: int, why: str = "") -> None:
    if not low <= value <= high:
        raise InputError(f"{what}: {value} is not allowed; {why}give {low} to {high}")


def _rounds(traffic: Traffic, pieces: Pieces) -> tuple[tuple[Transfer, ...], ...]:
    found: dict[int, list[Transfer]] = {}
    connection = traffic.stream_connection
    for message in walk(traffic):
        chunks, action = pieces.load(message)
        transfer = Transfer(
            message.round,
            int(traffic.src[message.stream]),
            int(traffic.dst[message.stream]),
            chunks,
            float(traffic.chunk_bytes[message.stream]),
            action,
            0 if connection is None else int(connection[message.stream]),
        )
        found.setdefault(message.round, []).append(transfer)
    return tuple(tuple(found[k]) for k in sorted(found))


def _states_of(op: Collective, ranks: int, root: int, pieces: Pieces) -> tuple[U64, U64]:
    """Return what every rank holds at the start, and what it must hold at the end."""
    count = len(pieces.sizes)
    bit = np.uint64(1) << np.arange(ranks, dtype=np.uint64)
    whole = np.bitwise_or.reduce(bit)
    start, end = np.zeros((ranks, count), np.uint64), np.zeros((ranks, count), np.uint64)
    every = np.arange(count)
    match op:
        case Collective.ALL_REDUCE:
            start[:], end[:] = bit[:, None], whole
        case Collective.REDUCE:
            start[:], end[root] = bit[:, None], whole
        case Collective.REDUCE_SCATTER:
            start[:] = bit[:, None]
            end[pieces.owner, every] = whole
        case Collective.ALL_GATHER:
            start[pieces.owner, every] = bit[pieces.owner]
            end[:] = bit[pieces.owner]
        case Collective.BROADCAST:
            start[root], end[:] = bit[root], bit[root]
        case _:
            start[pieces.owner, every] = bit[pieces.owner]
            end[pieces.to, every] = bit[pieces.owner]
    return start, end


def _parents(
    op: Collective, algorithm: Algorithm, ranks: int, traffic: Traffic
) -> tuple[tuple[int, ...], ...]:
    """Return the trees of the first channel, read off their streams."""
    if algorithm is not Algorithm.TREE:
        return ()
    trees = []
    for task in range(2 if op is Collective.ALL_REDUCE else 1):
        first = int(traffic.task_stream[task])
        low, high = (end[first : first + ranks - 1] for end in (traffic.src, traffic.dst))
        if op is Collective.BROADCAST:
            low, high = high, low
        parent = np.full(ranks, -1, dtype=np.int64)
        parent[low] = high
        trees.append(tuple(parent.tolist()))
    return tuple(trees)


def _shape(op: Collective, algorithm: Algorithm) -> str:
    if op is Collective.SEND_RECV:
        return "shift"
    if algorithm is Algorithm.RING and op in (Collective.BROADCAST, Collective.REDUCE):
        return "chain"
    return _SHAPES[algorithm]


_SHAPES: Final = {
    Algorithm.RING: "ring",
    Algorithm.TREE: "tree",
    Algorithm.HALVING_DOUBLING: "hypercube",
    Algorithm.HIERARCHICAL: "rings",
    Algorithm.DIRECT: "all pairs",
    Algorithm.RAIL_ALIGNED: "grid",
}
_PROMISES: Final = {
    Collective.ALL_REDUCE: "every rank holds the sum over all ranks of every piece",
    Collective.REDUCE_SCATTER: "every rank holds the sum over all ranks of its own piece",
    Collective.ALL_GATHER: "every rank holds the pieces of all ranks",
    Collective.BROADCAST: "every rank holds what rank {root} had",
    Collective.REDUCE: "rank {root} holds the sum over all ranks of every piece",
    Collective.ALL_TO_ALL: "every rank holds what each rank had for it",
    Collective.SEND_RECV: "every rank holds what the rank before it had",
}


def _notes(
    op: Collective, algorithm: Algorithm, by_server: bool, ranks_per_server: int
) -> tuple[str, ...]:
    notes = [
        "Every message is drawn as one round, whatever its size and way; time is the engines'."
    ]
    if algorithm is Algorithm.TREE or op in (Collective.BROADCAST, Collective.REDUCE):
        notes.append(
            "Drawn with few pieces, so that they can be seen; the engines cut into 512 KiB."
        )
    if by_server and ranks_per_server == 1:
        notes.append(
            f"{algorithm.value.capitalize()} works by server: with one rank a server only its "
            "part between servers is left."
        )
    elif not by_server:
        notes.append("Drawn as if every rank had a server of its own.")
    return tuple(notes)
