"""Double binary tree: reduce up and broadcast down, pipelined in chunks.

Between domains two binary trees carry half of the data each; who is a leaf in one is an inner
node in the other (Sanders, Speck, Träff, "Two-tree algorithms for full bandwidth broadcast,
reduction and scan", 2009; NCCL uses the same trees). Inside a domain a chain leads to the GPU of
the channel's rail. Broadcast and reduce have one root, so they use one tree with all of the data.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from railweave.design.models import Collective
from railweave.workload._call import CollectiveCall
from railweave.workload._communicator import Communicator
from railweave.workload._options import pipeline
from railweave.workload._ring import visit

__all__ = ["binary_tree", "depth_of", "rank_tree", "second_tree", "tree"]

I64 = npt.NDArray[np.int64]


def binary_tree(n: int) -> I64:
    """Return the parent of each of n nodes in the in-order binary tree, −1 for root 0, shape (n,).

    Node r > 0 with lowest set bit b hangs on (r − b) | 2b, or on r − b where that is past the end;
    odd nodes are leaves.
    """
    r = np.arange(n, dtype=np.int64)
    bit = r & -r
    above = (r ^ bit) | (bit << 1)
    parent = np.where(above < n, above, r ^ bit)
    parent[:1] = -1
    return parent


def second_tree(n: int) -> I64:
    """Return the parents of the second tree: the first one mirrored (n even) or shifted by one."""
    r = np.arange(n, dtype=np.int64)
    if n % 2 == 0:
        up = binary_tree(n)[n - 1 - r]
        return np.where(up >= 0, n - 1 - up, -1)
    up = binary_tree(n)[(r - 1) % n]
    return np.where(up >= 0, (up + 1) % n, -1)


def depth_of(parent: I64) -> int:
    """Return the number of edges from the root to the farthest node."""
    depth, at = 0, parent
    while bool((at >= 0).any()):
        depth += 1
        at = np.where(at >= 0, parent[at], -1)
    return depth


def rank_tree(comm: Communicator, channel: int, which: int, root: int | None = None) -> I64:
    """Return the parent rank of each rank, −1 at the root, shape (n,).

    ``which`` is 0 or 1 for the first or second tree between domains.
    """
    order, exit_rank = visit(comm, channel, root)
    gate = int(exit_rank[0])
    if root is not None and gate >= 0 and gate != root:
        # the root hands over to its neighbour on the rail, which deals with the other domains
        order = np.concatenate(([root, gate], order[(order != root) & (order != gate)]))
    else:
        gate = int(order[0])
    domain = comm.order[order]
    head = np.ones(comm.n, dtype=bool)
    head[1:] = domain[1:] != domain[:-1]
    heads = order[head]
    shape = binary_tree(len(heads)) if which == 0 else second_tree(len(heads))
    parent = np.empty(comm.n, dtype=np.int64)
    parent[order[1:]] = order[:-1]
    centres = heads.copy()
    centres[0] = gate
    parent[heads] = np.where(shape >= 0, centres[shape], -1)
    return parent


def _streams(parent: I64, *, up: bool, down: bool) -> tuple[I64, I64, tuple[I64, I64, I64]]:
    """Return (senders, receivers, predecessors) of the streams up and down one tree of ranks."""
    child = np.flatnonzero(parent >= 0)
    above = parent[child]
    m = len(child)
    number = np.full(len(parent), -1, dtype=np.int64)
    number[child] = np.arange(m)
    from_root = parent[above] < 0
    inner = np.flatnonzero(~from_root)
    who: list[I64] = []
    on: list[I64] = []
    shift = m if up else 0
    if up:
        who.append(number[above[inner]])
        on.append(inner)
    if down:
        who.append(inner + shift)
        on.append(number[above[inner]] + shift)
    if up and down:  # the root sends a chunk down once every child has brought it
        top = np.flatnonzero(from_root)
        who.append(np.repeat(top, len(top)) + shift)
        on.append(np.tile(top, len(top)))
    src = np.concatenate(([child] if up else []) + ([above] if down else []))
    dst = np.concatenate(([above] if up else []) + ([child] if down else []))
    pairs = np.concatenate(who), np.concatenate(on)
    return src, dst, (*pairs, np.zeros(len(pairs[0]), dtype=np.int64))


def tree(call: CollectiveCall) -> list[int]:
    """Append a tree collective, one coupled task for each channel and tree. Returns the tasks."""
    both = call.op is Collective.ALL_REDUCE
    trees = 2 if both else 1
    chunk, rounds = pipeline(call.size_bytes / call.comm.channels / trees, call.options)
    tasks = []
    for channel in range(call.comm.channels):
        for which in range(trees):
            parent = rank_tree(call.comm, channel, which, None if both else call.options.root)
            src, dst, preds = _streams(
                parent,
                up=call.op is not Collective.BROADCAST,
                down=call.op is not Collective.REDUCE,
            )
            tasks.append(
                call.builder.coupled(
                    call.comm.nodes[src],
                    call.comm.nodes[dst],
                    chunk,
                    rounds,
                    preds,
                    label=call.label,
                    after=call.after,
                    queue_pairs=call.options.queue_pairs,
                    connection=channel * trees + which,
                )
            )
    return tasks
