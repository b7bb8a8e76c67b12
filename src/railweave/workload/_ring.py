"""Ring algorithms: every rank passes pieces to the next; broadcast and reduce are chains.

Channel ``c`` is a ring of its own over the share size/channels. It enters each domain at a GPU of
rail ``c`` and leaves through the NIC of rail ``c``: by the last GPU on that rail where there are
several, else by handing the chunk over NVLink to the entry GPU, which sends it (as PXN does).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from railweave.design.models import Collective
from railweave.workload._builder import TrafficBuilder
from railweave.workload._call import CollectiveCall
from railweave.workload._communicator import Communicator
from railweave.workload._options import CollectiveOptions, pipeline

__all__ = ["ring", "ring_task", "visit"]

I64 = npt.NDArray[np.int64]


def visit(comm: Communicator, channel: int, start: int | None = None) -> tuple[I64, I64]:
    """Return (rank at each position of the channel's ring, exit rank of each position's domain).

    ``start`` is the rank to begin at, with its domain (root of a chain). The exit rank is the one
    whose NIC the channel leaves through.
    """
    domain, local, size = comm.order, comm.local, comm.domain_sizes
    rail = comm.rails[channel % len(comm.rails)]
    on_rail = np.flatnonzero(comm.rail == rail)
    entry = channel % size
    last = np.full(len(size), -1, dtype=np.int64)
    entry[domain[on_rail[::-1]]] = local[on_rail[::-1]]
    last[domain[on_rail]] = local[on_rail]
    turn = domain
    gateway_local = np.where(last >= 0, last, -1)
    if start is not None:
        entry[domain[start]] = local[start]
        turn = (domain - domain[start]) % len(size)
    key = (local - entry[domain]) % size[domain]
    closing = (local == last[domain]) & (last != entry)[domain]
    key[closing] = size[domain[closing]]
    order = np.lexsort((key, turn))
    exit_rank = np.full(len(size), -1, dtype=np.int64)
    if comm.forwards:
        chosen = np.flatnonzero(local == gateway_local[domain])
        exit_rank[domain[chosen]] = chosen
    return order, exit_rank[domain[order]]


@dataclass(frozen=True, slots=True)
class _Hops:
    """Streams of one ring or chain: ranks, and the position each belongs to."""

    src: I64
    dst: I64
    position: I64
    forwarded: npt.NDArray[np.bool_]  #: second stream of a position: leaves the exit rank


def _hops(comm: Communicator, channel: int, *, closed: bool, start: int | None = None) -> _Hops:
    order, exit_rank = visit(comm, channel, start)
    after = np.roll(order, -1)
    crosses = comm.order[order] != comm.order[after]
    extra = crosses & (exit_rank >= 0) & (exit_rank != order)
    if not closed:
        extra[-1] = False
    n = comm.n if closed else comm.n - 1
    position = np.repeat(np.arange(n), 1 + extra[:n])
    second = np.zeros(len(position), dtype=bool)
    second[1:] = position[1:] == position[:-1]
    goes_on = extra[position] & ~second
    src = np.where(second, exit_rank[position], order[position])
    dst = np.where(goes_on, exit_rank[position], after[position])
    return _Hops(src, dst, position, second)


def ring_task(
    builder: TrafficBuilder,
    comm: Communicator,
    channel: int,
    chunk_bytes: float,
    rounds: int,
    *,
    label: str,
    after: tuple[int, ...],
    queue_pairs: int = 1,
) -> int:
    """Append one channel's closed ring: in each round every rank sends one piece on.

    The stream of a position waits for the chunk that reached it one round before. Returns the task.
    """
    hops = _hops(comm, channel, closed=True)
    streams = np.arange(len(hops.src))
    lag = np.where(hops.forwarded, 0, 1)
    return builder.coupled(
        comm.nodes[hops.src],
        comm.nodes[hops.dst],
        chunk_bytes,
        rounds,
        (streams, np.roll(streams, 1), lag),
        label=label,
        after=after,
        queue_pairs=queue_pairs,
        connection=channel,
    )


def _chain_task(
    builder: TrafficBuilder,
    comm: Communicator,
    channel: int,
    size_bytes: float,
    options: CollectiveOptions,
    *,
    towards_root: bool,
    label: str,
    after: tuple[int, ...],
) -> int:
    """Append a pipelined chain away from the root (broadcast) or towards it (reduce)."""
    hops = _hops(comm, channel, closed=False, start=options.root)
    chunk, rounds = pipeline(size_bytes, options)
    src, dst = comm.nodes[hops.src], comm.nodes[hops.dst]
    if towards_root:
        src, dst = dst[::-1], src[::-1]
    streams = np.arange(1, len(src))
    return builder.coupled(
        src,
        dst,
        chunk,
        rounds,
        (streams, streams - 1, np.zeros_like(streams)),
        label=label,
        after=after,
        queue_pairs=options.queue_pairs,
        connection=channel,
    )


def ring(call: CollectiveCall) -> list[int]:
    """Append a ring collective, one coupled task a channel. Returns the tasks."""
    share = call.size_bytes / call.comm.channels
    tasks = []
    for channel in range(call.comm.channels):
        if call.op in (Collective.BROADCAST, Collective.REDUCE):
            task = _chain_task(
                call.builder,
                call.comm,
                channel,
                share,
                call.options,
                towards_root=call.op is Collective.REDUCE,
                label=call.label,
                after=call.after,
            )
        else:
            rounds = (call.comm.n - 1) * (2 if call.op is Collective.ALL_REDUCE else 1)
            task = ring_task(
                call.builder,
                call.comm,
                channel,
                share / call.comm.n,
                rounds,
                label=call.label,
                after=call.after,
                queue_pairs=call.options.queue_pairs,
            )
        tasks.append(task)
    return tasks
