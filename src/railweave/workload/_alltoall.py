"""All-to-all, direct or aligned to rails, and the send-receive shift."""

from __future__ import annotations

import numpy as np

from railweave.design.models import Collective
from railweave.errors import InputError
from railweave.workload._call import CollectiveCall
from railweave.workload._hierarchical import grid_of
from railweave.workload._traffic import DELIVERED

__all__ = ["direct", "rail_aligned"]


def direct(call: CollectiveCall) -> list[int]:
    """Append one plain task: every pair at once (all-to-all), or rank r to r + 1 (send-receive)."""
    n = call.comm.n
    ranks = np.arange(n)
    if call.op is Collective.SEND_RECV:
        src, dst, size = ranks, (ranks + 1) % n, call.size_bytes
    else:
        # rank r sends to r+1, r+2, …: no receiver is everybody's first
        src = np.repeat(ranks, n - 1)
        dst = src + np.tile(np.arange(1, n), n)
        dst[dst >= n] -= n
        size = call.size_bytes / n
    task = call.builder.plain(
        call.comm.nodes[src],
        call.comm.nodes[dst],
        size,
        label=call.label,
        after=call.after,
        queue_pairs=call.options.queue_pairs,
    )
    return [task]


def rail_aligned(call: CollectiveCall) -> list[int]:
    """Append an all-to-all that crosses the network on rails only (NCCL's PXN).

    First every GPU hands its neighbours over NVLink what is for them and for the GPUs on their
    rail; then each GPU sends the bytes its server has for the same GPU of another server as one
    message. A GPU starts to send when all of its neighbours' bytes are there.

    Raises:
        InputError: servers hold different numbers of ranks.
    """
    if call.op is not Collective.ALL_TO_ALL:
        raise InputError(f"rail-aligned: not for {call.op.value}; allowed: all-to-all")
    table = grid_of(call.comm, "rail-aligned")
    servers, gpus = table.shape
    piece = call.size_bytes / call.comm.n
    ends: list[int] = []
    gathered = range(0)
    if gpus > 1:
        receiver = np.repeat(table.ravel(), gpus - 1)
        turn = np.arange(gpus)[:, None] + np.arange(1, gpus)[None, :]
        sender = table[:, turn % gpus].reshape(-1)
        gathered = call.builder.plain_tasks(
            call.comm.nodes[sender],
            call.comm.nodes[receiver],
            servers * piece,
            label=f"{call.label}/inside",
            widths=np.full(call.comm.n, gpus - 1),
            deps=(
                np.repeat(np.arange(call.comm.n), len(call.after)),
                np.tile(np.asarray(call.after, dtype=np.int64), call.comm.n),
                DELIVERED,
            ),
            queue_pairs=call.options.queue_pairs,
        )
        ends = list(gathered)
    if servers > 1:
        away = (np.arange(servers)[:, None] + np.arange(1, servers)[None, :]) % servers
        src = np.repeat(table.ravel(), servers - 1)
        dst = table[away].transpose(0, 2, 1).reshape(-1)
        if gathered:
            waiting, waits = np.arange(call.comm.n), np.asarray(gathered)
        else:
            waiting = np.repeat(np.arange(call.comm.n), len(call.after))
            waits = np.tile(np.asarray(call.after, dtype=np.int64), call.comm.n)
        ends = list(
            call.builder.plain_tasks(
                call.comm.nodes[src],
                call.comm.nodes[dst],
                gpus * piece,
                label=f"{call.label}/rails",
                widths=np.full(call.comm.n, servers - 1),
                deps=(waiting, waits, DELIVERED),
                queue_pairs=call.options.queue_pairs,
            )
        )
    return ends
