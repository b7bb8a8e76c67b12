"""Expansion of coupled tasks into plain ones, and the checks of a `Traffic`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from railweave.errors import EngineError
from railweave.workload._traffic import DELIVERED, SENT, Traffic

__all__ = ["csr", "expand", "ranges", "validate"]

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
Ints = npt.NDArray[np.integer]
Bool = npt.NDArray[np.bool_]


def ranges(starts: Ints, counts: Ints) -> I64:
    """Return ``starts[i], starts[i]+1, …`` (``counts[i]`` numbers) for each i, joined."""
    counts = counts.astype(np.int64)
    total = int(counts.sum())
    first = np.cumsum(counts) - counts
    out: I64 = np.arange(total, dtype=np.int64) + np.repeat(starts - first, counts)
    return out


def csr(rows: Ints, n_rows: int) -> tuple[I64, I64]:
    """Return the CSR pointer of ``n_rows`` rows and the stable order that sorts entries by row."""
    order = np.argsort(rows, kind="stable")
    pointer = np.zeros(n_rows + 1, dtype=np.int64)
    np.cumsum(np.bincount(rows, minlength=n_rows), out=pointer[1:])
    return pointer, order


def coupled_tasks(traffic: Traffic) -> Bool:
    """Tell which tasks are coupled: more than one round, or predecessors inside, shape (T,)."""
    coupled: Bool = traffic.task_rounds > 1
    waiting = np.flatnonzero(np.diff(traffic.pred_ptr))
    coupled[traffic.stream_task[waiting]] = True
    return coupled


def expand(traffic: Traffic) -> Traffic:
    """Give one plain task a chunk; see :meth:`Traffic.expand`."""
    coupled = coupled_tasks(traffic)
    rounds = traffic.task_rounds.astype(np.int64)
    width = np.diff(traffic.task_stream)
    made = np.where(coupled, width * rounds, 1)
    base = np.cumsum(made) - made
    task = traffic.stream_task
    within = np.arange(traffic.n_streams) - traffic.task_stream[task]
    first = base[task] + np.where(coupled[task], within * rounds[task], 0)

    per_stream = rounds[task]
    old_stream = np.repeat(np.arange(traffic.n_streams), per_stream)
    chunk = ranges(np.zeros_like(per_stream), per_stream)
    split = coupled[task[old_stream]]
    new_of_stream = first[old_stream] + np.where(split, chunk, 0)
    n_new = int(made.sum())

    old_task = np.repeat(np.arange(traffic.n_tasks), made)
    later = np.zeros(n_new, dtype=bool)
    later[new_of_stream[split & (chunk > 0)]] = True
    delay = np.where(later, 0.0, traffic.task_delay_s[old_task])
    delay[new_of_stream[split]] += traffic.chunk_delay_s[old_stream[split]]

    who, on, kind = _expanded_dependencies(traffic, coupled, first, base, rounds)
    own = split & (chunk > 0)
    who = np.concatenate((who, new_of_stream[own]))
    on = np.concatenate((on, new_of_stream[own] - 1))
    kind = np.concatenate((kind, np.full(int(own.sum()), SENT)))
    pointer, order = csr(who, n_new)
    return Traffic(
        src=traffic.src[old_stream],
        dst=traffic.dst[old_stream],
        chunk_bytes=traffic.chunk_bytes[old_stream],
        chunk_delay_s=np.where(split, 0.0, traffic.chunk_delay_s[old_stream]),
        queue_pairs=traffic.queue_pairs[old_stream],
        task_stream=np.searchsorted(new_of_stream, np.arange(n_new + 1)).astype(np.int64),
        task_rounds=np.ones(n_new, dtype=np.int32),
        task_start_s=np.where(later, 0.0, traffic.task_start_s[old_task]),
        task_delay_s=delay,
        task_label=traffic.task_label[old_task],
        dep_ptr=pointer,
        dep_task=on[order].astype(np.int32),
        dep_kind=kind[order].astype(np.uint8),
        pred_ptr=np.zeros(len(old_stream) + 1, dtype=np.int64),
        pred_stream=np.zeros(0, dtype=np.int32),
        pred_lag=np.zeros(0, dtype=np.int32),
        labels=traffic.labels,
        stream_plane=None if traffic.stream_plane is None else traffic.stream_plane[old_stream],
        stream_connection=(
            None if traffic.stream_connection is None else traffic.stream_connection[old_stream]
        ),
    )


def _expanded_dependencies(
    traffic: Traffic, coupled: Bool, first: I64, base: I64, rounds: I64
) -> tuple[I64, I64, I64]:
    """Return (task, its predecessor, kind) for dependencies between tasks and within them."""
    stream = np.repeat(np.arange(traffic.n_streams), np.diff(traffic.pred_ptr))
    lag = traffic.pred_lag.astype(np.int64)
    count = np.maximum(rounds[traffic.stream_task[stream]] - lag, 0)
    who = [ranges(first[stream] + lag, count)]
    on = [ranges(first[traffic.pred_stream], count)]
    kind = [np.full(len(who[0]), DELIVERED, dtype=np.int64)]

    bounds = traffic.task_stream
    for t in range(traffic.n_tasks):
        for entry in range(int(traffic.dep_ptr[t]), int(traffic.dep_ptr[t + 1])):
            d = int(traffic.dep_task[entry])
            heads = first[bounds[t] : bounds[t + 1]] if coupled[t] else base[t : t + 1]
            tails = base[d : d + 1]
            if coupled[d]:
                tails = first[bounds[d] : bounds[d + 1]] + rounds[d] - 1
            who.append(np.repeat(heads, len(tails)))
            on.append(np.tile(tails, len(heads)))
            kind.append(np.full(len(heads) * len(tails), int(traffic.dep_kind[entry])))
    return np.concatenate(who), np.concatenate(on), np.concatenate(kind)


# ---------------------------------------------------------------- checks


def _need(good: Bool, what: str, message: str) -> None:
    """Raise EngineError for the first False in ``good``."""
    if not good.all():
        raise EngineError(f"traffic {what} {int(np.argmin(good))}: {message}")


def _check_pointer(name: str, pointer: I64, rows: int, entries: int) -> None:
    """A CSR pointer starts at 0, never falls and ends at the number of entries."""
    fine = len(pointer) == rows + 1 and pointer[0] == 0 and pointer[-1] == entries
    if not fine or bool((np.diff(pointer) < 0).any()):
        raise EngineError(
            f"traffic {name}: must hold {rows + 1} rising numbers from 0 to {entries}; "
            "build traffic with TrafficBuilder"
        )


def _cyclic(who: Ints, on: Ints, n: int) -> int | None:
    """Return an item that waits for itself by a chain of ``who`` waits for ``on``, or None."""
    if bool((on < who).all()):
        return None
    loops = np.flatnonzero(who == on)
    if loops.size:
        return int(who[loops[0]])
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    graph = coo_matrix((np.ones(len(who), dtype=np.int8), (who, on)), shape=(n, n)).tocsr()
    _, component = connected_components(graph, directed=True, connection="strong")
    sizes = np.bincount(component)
    inside = np.flatnonzero(sizes[component] > 1)
    return int(inside[0]) if inside.size else None


def validate(traffic: Traffic, n_nodes: int | None = None) -> None:
    """Check a `Traffic`; see :meth:`Traffic.validate`."""
    streams, tasks = traffic.n_streams, traffic.n_tasks
    _check_pointer("task_stream", traffic.task_stream, tasks, streams)
    _check_pointer("dep_ptr", traffic.dep_ptr, tasks, len(traffic.dep_task))
    _check_pointer("pred_ptr", traffic.pred_ptr, streams, len(traffic.pred_stream))
    for name, values in (
        ("size", traffic.chunk_bytes),
        ("delay", traffic.chunk_delay_s),
        ("delay", traffic.task_delay_s),
        ("start", traffic.task_start_s),
    ):
        what = "stream" if len(values) == streams and name == "size" else "entry"
        _need(np.isfinite(values) & (values >= 0), what, f"{name} must be finite and ≥ 0")
    _need(traffic.src != traffic.dst, "stream", "source and destination are the same node")
    _need(traffic.queue_pairs >= 1, "stream", "needs at least one queue pair")
    _need(traffic.task_rounds >= 1, "task", "rounds must be ≥ 1")
    if n_nodes is not None:
        for end in (traffic.src, traffic.dst):
            _need((end >= 0) & (end < n_nodes), "stream", f"endpoint is not in 0…{n_nodes - 1}")
    label = traffic.task_label
    _need((label >= 0) & (label < len(traffic.labels)), "task", "label number is not known")
    _need((traffic.dep_task >= 0) & (traffic.dep_task < tasks), "dependency", "unknown task")
    pred = traffic.pred_stream
    for name, extra in (("plane", traffic.stream_plane), ("connection", traffic.stream_connection)):
        if extra is not None and len(extra) != streams:
            raise EngineError(f"traffic stream_{name}: has {len(extra)} entries, not {streams}")
    _need((pred >= 0) & (pred < streams), "predecessor", "unknown stream")
    _need(traffic.pred_lag >= 0, "predecessor", "lag must be ≥ 0")
    stream = np.repeat(np.arange(streams), np.diff(traffic.pred_ptr))
    same = traffic.stream_task[stream] == traffic.stream_task[pred]
    _need(same, "predecessor", "is a stream of another task")

    task = np.repeat(np.arange(tasks), np.diff(traffic.dep_ptr))
    looped = _cyclic(task, traffic.dep_task, tasks)
    if looped is not None:
        raise EngineError(f"traffic task {looped}: waits for itself through its dependencies")
    tight = traffic.pred_lag == 0
    looped = _cyclic(stream[tight], pred[tight], streams)
    if looped is not None:
        raise EngineError(
            f"traffic stream {looped}: waits for its own chunk through predecessors of lag 0; "
            "give one of them lag 1"
        )
