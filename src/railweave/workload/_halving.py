"""Recursive halving and doubling: log2(n) rounds with partners at distance 1, 2, 4, …

Reduce-scatter halves the data and doubles the distance in every round, so that the large messages
go to near ranks; all-gather is its mirror, all-reduce one after the other (Rabenseifner, 2004;
Thakur et al., "Optimization of collective communication operations in MPICH", 2005). Where n is no
power of two, p = 2^⌊log2 n⌋ ranks take part; each of the n − p others hands its data to its
neighbour before and gets the outcome after. Every message is a plain task that waits for the
sender's previous round.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from railweave.design.models import Collective
from railweave.workload._call import CollectiveCall
from railweave.workload._traffic import DELIVERED, SENT

__all__ = ["HalvingRound", "halving_doubling", "halving_rounds"]

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class HalvingRound:
    """One round: sending ranks, receiving ranks, and parts of the whole size (units of 1/n)."""

    src: I64
    dst: I64
    parts: F64


def halving_rounds(op: Collective, n: int) -> list[HalvingRound]:
    """Return the rounds of an all-reduce, reduce-scatter or all-gather over n ranks.

    ``parts`` counts n-ths of the size: n parts are all of it.
    """
    p = 1 << (n.bit_length() - 1)
    spare = n - p
    # ranks 0, 2, 4 … of the first 2·spare sit out; each is looked after by the next odd rank
    idle = np.arange(spare, dtype=np.int64) * 2
    active = np.concatenate((idle + 1, np.arange(2 * spare, n, dtype=np.int64)))
    weight = np.where(np.arange(p) < spare, 2.0, 1.0)
    if op is Collective.ALL_REDUCE:
        weight = np.full(p, n / p)

    def exchange(distance: int, *, halving: bool) -> HalvingRound:
        """Everybody swaps with the partner at this distance.

        Blocks whose owner has the same last bits as a rank stay on its side: halving gives away
        the partner's, doubling passes on one's own.
        """
        me = np.arange(p)
        side = np.bincount(me % (2 * distance), weight).astype(np.float64)
        owner = me ^ distance if halving else me
        return HalvingRound(active, active[me ^ distance], side[owner % (2 * distance)])

    distances = [1 << i for i in range(p.bit_length() - 1)]
    rounds: list[HalvingRound] = []
    reduces = op in (Collective.ALL_REDUCE, Collective.REDUCE_SCATTER)
    gathers = op in (Collective.ALL_REDUCE, Collective.ALL_GATHER)
    if spare:
        before = n if reduces else 1
        rounds.append(HalvingRound(idle, idle + 1, np.full(spare, float(before))))
    if reduces:
        rounds += [exchange(d, halving=True) for d in distances]
    if gathers:
        rounds += [exchange(d, halving=False) for d in reversed(distances)]
    if spare:
        behind = {Collective.ALL_REDUCE: n, Collective.ALL_GATHER: n - 1}.get(op, 1)
        rounds.append(HalvingRound(idle + 1, idle, np.full(spare, float(behind))))
    return rounds


def halving_doubling(call: CollectiveCall) -> list[int]:
    """Append the collective: one plain task for each rank and round. Returns the last tasks.

    Ranks are numbered by domain first, so that the short distances stay inside a server.
    """
    rank = np.lexsort((call.comm.local, call.comm.order))
    got = np.full(call.comm.n, -1, dtype=np.int64)  # last task that delivered to a rank
    sent = np.full(call.comm.n, -1, dtype=np.int64)  # last task in which it sent
    ends: set[int] = set()
    for step in halving_rounds(call.op, call.comm.n):
        width = np.arange(len(step.src))
        who, on, kind = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)], []
        for last, how in ((got, DELIVERED), (sent, SENT)):
            ready = np.flatnonzero(last[step.src] >= 0)
            who.append(width[ready])
            on.append(last[step.src[ready]])
            kind.append(np.full(len(ready), how))
        fresh = np.flatnonzero((got[step.src] < 0) & (sent[step.src] < 0))
        who.append(np.repeat(fresh, len(call.after)))
        on.append(np.tile(np.asarray(call.after, dtype=np.int64), len(fresh)))
        kind.append(np.full(len(who[-1]), DELIVERED))
        tasks = call.builder.plain_tasks(
            call.comm.nodes[rank[step.src]],
            call.comm.nodes[rank[step.dst]],
            step.parts * (call.size_bytes / call.comm.n),
            label=call.label,
            deps=(np.concatenate(who), np.concatenate(on), np.concatenate(kind)),
            queue_pairs=call.options.queue_pairs,
        )
        numbers = np.arange(tasks.start, tasks.stop)
        ends -= set(got[step.src].tolist())  # a later send of the receiver waits for it
        sent[step.src] = numbers
        got[step.dst] = numbers
        ends |= set(numbers.tolist())
    return sorted(ends)
