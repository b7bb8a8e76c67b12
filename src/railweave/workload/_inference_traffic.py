"""Forward passes and KV-cache transfers of served models as traffic."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from railweave.errors import InputError
from railweave.workload._builder import TrafficBuilder
from railweave.workload._inference_plan import (
    InferencePlan,
    forward_volume,
    kv_rank_bytes_per_token,
)
from railweave.workload._traffic import Traffic

__all__ = ["KvTransfers", "append_forward", "append_kv_transfers", "forward_traffic"]

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]

_MOST_ROUNDS: Final = 64
#: dependencies between the streams of one exchange
_MOST_WAITS: Final = 500_000


@dataclass
class _Streams:
    """Streams of one chunk of a forward pass, and who waits for whom, chunks apart."""

    src: list[I64]
    dst: list[I64]
    size: list[F64]
    delayed: list[F64]
    waits: list[tuple[I64, I64, I64]]
    count: int = 0

    def add(self, src: I64, dst: I64, size: npt.ArrayLike, *, delayed: bool) -> I64:
        """Append streams. Returns their numbers in the shape of ``src``."""
        n = src.size
        self.src.append(src.ravel())
        self.dst.append(dst.ravel())
        self.size.append(np.broadcast_to(np.asarray(size, dtype=np.float64), src.shape).ravel())
        self.delayed.append(np.full(n, float(delayed)))
        numbers = np.arange(self.count, self.count + n).reshape(src.shape)
        self.count += n
        return numbers

    def wait(self, who: npt.ArrayLike, on: npt.ArrayLike, lag: int) -> None:
        """Let streams wait for others, ``lag`` chunks before."""
        first, second = np.broadcast_arrays(who, on)
        self.waits.append((first.ravel(), second.ravel(), np.full(first.size, lag)))


def _exchange(plan: InferencePlan, tokens: float, shifts: int | None) -> _Streams:
    """Return the streams of a forward pass: tensor rings, dispatch to experts, and back.

    ``shifts``: experts' bytes go to so many peers of each rank in place of all.
    """
    volume = forward_volume(plan, tokens)
    t, e = plan.tensor, plan.expert
    made = _Streams([], [], [], [], [])
    ranks = np.arange(plan.gpus).reshape(-1, t)
    rings = None
    if t > 1:
        to = np.roll(ranks, -1, axis=1)
        rings = made.add(ranks, to, volume.tensor_bytes, delayed=True)
        for turn in range(1, t):  # an all-reduce is over when the whole ring has sent
            made.wait(rings, np.roll(rings, turn, axis=1), 1)
    if e == 1:
        return made
    me = np.arange(e)[:, None]
    count = min(shifts or e - 1, e - 1)
    turns = np.unique(np.linspace(1, e - 1, count).astype(np.int64))
    count = len(turns)
    more = (e - 1) / count
    other = (me + turns) % e  # (E, K): rank r talks to r+1, r+2, …
    mine = np.broadcast_to(me, other.shape)
    out = made.add(mine, other, volume.dispatch_bytes[other] * more, delayed=rings is None)
    back = made.add(other, mine, volume.combine_bytes[other] * more, delayed=False)
    made.wait(back, out, 0)
    if rings is not None:
        group = rings.reshape(-1, t)[me // t].reshape(e, t)  # the rings that rank r hears of
        made.wait(out[:, :, None], group[:, None, :], 0)
        for member in range(t):
            heard = back.reshape(-1, t, count)[:, member]  # what member gets back
            made.wait(rings[:, :, None], heard[:, None, :], 1)
    else:
        peers = max(1, min(count, _MOST_WAITS // (e * count)))
        for turn in range(peers):
            made.wait(out, np.roll(back, -turn, axis=1), 1)
    return made


def append_forward(
    builder: TrafficBuilder,
    nodes: npt.ArrayLike,
    plan: InferencePlan,
    tokens: float,
    *,
    label: str,
    times: int = 1,
    rounds: int | None = None,
    compute_s: float = 0.0,
    start_s: float = 0.0,
    after: tuple[int, ...] = (),
    queue_pairs: int = 1,
    shifts: int | None = None,
) -> int:
    """Append ``times`` forward passes of an instance, one after the other. Returns the task.

    A decode step is a forward pass over one token a sequence; a prefill over a whole prompt.

    Args:
        builder: to append to.
        nodes: GPU node of each rank of the instance, (plan.gpus,).
        plan: of the instance.
        tokens: that each replica works on in a pass.
        label: what it is in results.
        times: passes.
        rounds: chunks that all the passes are folded into; default: the layers, at most 64.
        compute_s: arithmetic of all the passes, spread evenly before the chunks.
        start_s: earliest start.
        after: tasks that must be delivered before.
        queue_pairs: of each connection.
        shifts: peers of a rank that its experts' bytes go to; default: all. With fewer the bytes
            in all, and those that each rank gets, stay the same.

    Raises:
        InputError: another number of nodes than ranks.
    """
    where = np.asarray(nodes, dtype=np.int32)
    if where.shape != (plan.gpus,):
        raise InputError(
            f"inference {label}: {where.size} GPUs for the {plan.gpus} ranks of an instance; "
            "give one for each"
        )
    made = _exchange(plan, tokens, shifts)
    if not made.count:
        return builder.barrier(after, label=label, start_s=start_s, delay_s=compute_s)
    chunks = rounds or min(max(plan.shape.layers, 2), _MOST_ROUNDS)
    chunks = max(chunks, 2)
    return builder.coupled(
        where[np.concatenate(made.src)],
        where[np.concatenate(made.dst)],
        np.concatenate(made.size) * (times / chunks),
        chunks,
        tuple(np.concatenate(part) for part in zip(*made.waits, strict=True)),  # type: ignore[arg-type]
        label=label,
        after=after,
        start_s=start_s,
        chunk_delay_s=np.concatenate(made.delayed) * (compute_s / chunks),
        queue_pairs=queue_pairs,
    )


def forward_traffic(
    nodes: npt.ArrayLike,
    plan: InferencePlan,
    tokens: float,
    *,
    label: str = "forward",
    compute_s: float = 0.0,
    queue_pairs: int = 1,
) -> Traffic:
    """Return one forward pass as traffic; see :func:`append_forward`."""
    builder = TrafficBuilder()
    append_forward(
        builder, nodes, plan, tokens, label=label, compute_s=compute_s, queue_pairs=queue_pairs
    )
    return builder.build()


@dataclass(frozen=True, eq=False)
class KvTransfers:
    """Prompts' caches on their way from prefill to decode ranks.

    ``prefill_nodes`` (N, tensor ranks of prefill) and ``decode_nodes`` (N, of decode) are the GPU
    nodes of each request's ranks; ``tokens`` and ``ready_s`` (N,) how long its prompt is and when
    the transfer may start.
    """

    prefill_nodes: I32
    decode_nodes: I32
    tokens: I64
    ready_s: F64


def append_kv_transfers(
    builder: TrafficBuilder,
    transfers: KvTransfers,
    decode: InferencePlan,
    *,
    label: str = "kv",
    queue_pairs: int = 1,
) -> range:
    """Append one plain task for each request's cache. Returns their numbers.

    Every decode rank gets all that it will hold, prompt tokens × KV bytes a token and rank, in
    equal pieces from the prefill ranks that have them. Transfers between the same two GPUs use
    the same connection, and so the same path.

    Raises:
        InputError: a GPU that is in both pools.
    """
    source, target = transfers.prefill_nodes, transfers.decode_nodes
    if np.intersect1d(source, target).size:
        raise InputError(
            "KV transfers: a GPU both prefills and decodes; give the two pools GPUs of their own"
        )
    senders, receivers = source.shape[1], target.shape[1]
    pieces = math.lcm(senders, receivers)
    piece = np.arange(pieces)
    per_token = kv_rank_bytes_per_token(decode) * receivers / pieces
    return builder.plain_tasks(
        source[:, piece // (pieces // senders)].ravel(),
        target[:, piece // (pieces // receivers)].ravel(),
        np.repeat(transfers.tokens * per_token, pieces),
        label=label,
        widths=np.full(len(source), pieces),
        start_s=transfers.ready_s,
        queue_pairs=queue_pairs,
    )
