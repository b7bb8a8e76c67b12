"""`Traffic`: what is sent, as streams with dependencies, never as a list of all messages.

A *stream* sends ``repeats`` chunks of ``chunk_bytes`` payload from one endpoint to another. A
*task* is a set of streams that belong together: either a plain task (every stream repeats once;
they start together and the task ends when the last byte of the last is delivered), or a *coupled*
task (streams with repeats > 1 that advance together, such as the rounds of a ring): chunk ``k`` of
stream ``s`` waits for its own chunk ``k-1`` to be sent and for chunk ``k - lag`` of each
predecessor stream *in the same task* to be delivered. Tasks depend on tasks.

A task may have no streams: a barrier, which ends when its dependencies and its delay are over.
A task begins at ``max(start, dependencies met) + delay``; every chunk then waits its stream's
``chunk_delay_s`` once all that it waits for has happened.

The engines take this as it is; :meth:`Traffic.expand` gives the same work with one plain task a
chunk, for proof on small cases.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

__all__ = ["DELIVERED", "SENT", "Traffic"]

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]
U8 = npt.NDArray[np.uint8]
I8 = npt.NDArray[np.int8]

#: kinds of task dependency: the predecessor's last byte is delivered, or has left the sender
DELIVERED = 0
SENT = 1


@dataclass(frozen=True, eq=False)
class Traffic:
    """Streams (S of them), tasks (T) and their dependencies.

    Endpoints are node numbers of a Fabric: GPUs, hosts, storage servers or NICs.
    Streams are grouped by task: task ``t`` owns streams ``task_stream[t]:task_stream[t+1]``.
    ``pred_ptr/pred_stream/pred_lag`` hold the predecessors within coupled tasks in CSR form, by
    absolute stream number. ``dep_ptr/dep_task/dep_kind`` hold those between tasks.
    ``task_label`` points into ``labels`` (job, phase, iteration) for grouping of results.
    """

    src: I32
    dst: I32
    chunk_bytes: F64
    chunk_delay_s: F64  #: before each chunk of the stream: straggler, reduction time
    queue_pairs: I32
    task_stream: I64  #: (T+1,)
    task_rounds: I32  #: (T,) repeats of each of the task's streams
    task_start_s: F64
    task_delay_s: F64  #: after the dependencies are met: compute time, per-message overhead
    task_label: I32
    dep_ptr: I64
    dep_task: I32
    dep_kind: U8
    pred_ptr: I64
    pred_stream: I32
    pred_lag: I32
    labels: tuple[str, ...]
    #: PlaneId of the network each stream uses, (S,); None: all use the back-end
    stream_plane: I8 | None = None
    #: tells apart connections between the same two ends, (S,); streams of one connection share
    #: their queue pairs and so their ECMP hash; None: one connection for each pair of ends
    stream_connection: I32 | None = None

    @property
    def n_streams(self) -> int:
        """Number of streams."""
        return len(self.src)

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return len(self.task_rounds)

    @cached_property
    def stream_task(self) -> I32:
        """Task of each stream, shape (S,)."""
        return np.repeat(np.arange(self.n_tasks, dtype=np.int32), np.diff(self.task_stream))

    @cached_property
    def stream_bytes(self) -> F64:
        """Payload bytes of all chunks of each stream, shape (S,)."""
        total: F64 = self.chunk_bytes * self.task_rounds[self.stream_task]
        return total

    @property
    def total_bytes(self) -> float:
        """Payload bytes of all chunks of all streams."""
        return float(np.sum(self.stream_bytes))

    def expand(self) -> Traffic:
        """Return the same work with one plain task for each chunk of each coupled stream.

        A chunk depends on its stream's previous chunk (SENT) and on the chunks of its predecessors
        ``lag`` before (DELIVERED); its stream's ``chunk_delay_s`` becomes the task's delay.
        """
        from railweave.workload._expand import expand

        return expand(self)

    def validate(self, n_nodes: int | None = None) -> None:
        """Check shapes, indices, values and that no task or chunk waits for itself.

        Args:
            n_nodes: nodes of the fabric, to check the endpoints against.

        Raises:
            EngineError: naming the first stream or task that is wrong.
        """
        from railweave.workload._expand import validate

        validate(self, n_nodes)
