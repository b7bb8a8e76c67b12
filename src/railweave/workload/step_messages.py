"""Who sends how much to whom in a training step, by kind of parallel group, as logical messages.

Tensor, context and gradient traffic goes round rings in rank order, pipeline traffic to both
neighbour stages, expert traffic to every other member of the group: the bytes of
:func:`railweave.workload.training.step_volume`, added up over the step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from railweave.design.models import Collective
from railweave.workload.groups import GroupKind, parallel_groups
from railweave.workload.training import TrainingStep, step_volume

__all__ = ["GroupMessages", "group_operations", "step_messages"]

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class GroupMessages:
    """What the groups of one kind send in a step, by rank: ``src``, ``dst``, ``size_bytes``, (M,).

    ``groups`` there are, of ``members`` ranks each. Two ranks can have several messages.
    """

    kind: GroupKind
    groups: int
    members: int
    src: I64
    dst: I64
    size_bytes: F64

    @property
    def total_bytes(self) -> float:
        """Bytes of all of them."""
        return float(self.size_bytes.sum())

    def sent_bytes(self, ranks: int) -> F64:
        """Return what each rank sends, (ranks,)."""
        sent: F64 = np.bincount(self.src, self.size_bytes, minlength=ranks).astype(np.float64)
        return sent

    def matrix_bytes(self, ranks: int) -> F64:
        """Return the bytes from rank (row) to rank (column), (ranks, ranks)."""
        key = self.src * ranks + self.dst
        total = np.bincount(key, self.size_bytes, minlength=ranks * ranks)
        return total.reshape(ranks, ranks).astype(np.float64)


def step_messages(step: TrainingStep) -> dict[GroupKind, GroupMessages]:
    """Return the messages of every kind of group that sends any.

    Raises:
        InputError: degrees that do not fit the model.
    """
    degrees, volume = step.degrees, step_volume(step)
    tables = parallel_groups(degrees)
    per_stage = degrees.ranks // degrees.pipeline
    out: dict[GroupKind, GroupMessages] = {}

    def put(kind: GroupKind, src: I64, dst: I64, size: F64) -> None:
        groups, members = tables[kind].shape
        sizes = np.broadcast_to(size, src.shape).ravel()
        out[kind] = GroupMessages(kind, groups, members, src.ravel(), dst.ravel(), sizes)

    rings: tuple[tuple[GroupKind, F64], ...] = (
        ("tensor", volume.tensor_bytes),
        ("context", volume.context_bytes),
        ("data", volume.data_bytes),
        ("expert-data", volume.expert_data_bytes),
    )
    for kind, ring_bytes in rings:
        table = tables[kind]
        if table.shape[1] > 1 and float(np.sum(ring_bytes)) > 0:
            put(kind, table, np.roll(table, -1, axis=1), ring_bytes[table // per_stage])
    table = tables["pipeline"]
    if degrees.pipeline > 1:
        src = np.concatenate((table[:, :-1], table[:, 1:], table[:, -1:], table[:, :1]), axis=None)
        dst = np.concatenate((table[:, 1:], table[:, :-1], table[:, :1], table[:, -1:]), axis=None)
        times = np.full(src.size, float(step.interleave))
        times[-2 * len(table) :] -= 1.0  # from the last stage to the first's next chunk, and back
        put("pipeline", src, dst, volume.pipeline_bytes * times)
    table = tables["expert"]
    if degrees.expert > 1 and float(volume.expert_pair_bytes.sum()) > 0:
        src = np.repeat(table, degrees.expert - 1, axis=1)
        turn = np.arange(degrees.expert)[:, None] + np.arange(1, degrees.expert)[None, :]
        dst = table[:, (turn % degrees.expert).ravel()]
        put("expert", src, dst, volume.expert_pair_bytes[src // per_stage])
    return out


def group_operations(step: TrainingStep, kind: GroupKind) -> tuple[Collective, ...]:
    """Return the operations that groups of a kind do in a step (see the head of ``training``)."""
    pieces = (Collective.REDUCE_SCATTER, Collective.ALL_GATHER)
    if kind == "tensor":
        return pieces if step.sequence_parallel else (Collective.ALL_REDUCE,)
    if kind == "context":
        return (Collective.ALL_GATHER, Collective.REDUCE_SCATTER)
    if kind == "pipeline":
        return (Collective.SEND_RECV,)
    if kind == "expert":
        return (Collective.ALL_TO_ALL,)
    return pieces if step.zero else (Collective.ALL_REDUCE,)
