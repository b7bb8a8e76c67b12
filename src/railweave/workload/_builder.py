"""`TrafficBuilder`: put a `Traffic` together from bulk arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from railweave.errors import EngineError
from railweave.workload._expand import csr
from railweave.workload._traffic import DELIVERED, SENT, Traffic

__all__ = ["TrafficBuilder", "merge_traffic"]

Ints = npt.ArrayLike
Floats = npt.ArrayLike
Preds = tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike]

_TYPES: Final[dict[str, type[np.generic]]] = {
    "src": np.int32,
    "dst": np.int32,
    "chunk_bytes": np.float64,
    "chunk_delay_s": np.float64,
    "queue_pairs": np.int32,
    "stream_plane": np.int8,
    "stream_connection": np.int32,
    "width": np.int64,
    "task_rounds": np.int32,
    "task_start_s": np.float64,
    "task_delay_s": np.float64,
    "task_label": np.int32,
    "dep_count": np.int64,
    "dep_task": np.int32,
    "dep_kind": np.uint8,
    "pred_count": np.int64,
    "pred_stream": np.int32,
    "pred_lag": np.int32,
}


def _or_zeros(values: npt.NDArray[np.generic] | None, n: int) -> npt.NDArray[np.generic]:
    """Return the values, or n zeros where there are none."""
    return np.zeros(n, dtype=np.int32) if values is None else values


class TrafficBuilder:
    """Collects tasks and their streams, then :meth:`build` gives the immutable `Traffic`.

    Every method takes node numbers and bytes as arrays, so a million streams cost no Python loop.
    Task numbers are given in the order of the calls. ``plane`` is the PlaneId of all streams that
    are appended (merged traffic keeps its own).
    """

    def __init__(self, *, plane: int = 0) -> None:
        self.plane = plane
        self._parts: dict[str, list[npt.NDArray[np.generic]]] = {name: [] for name in _TYPES}
        self._labels: dict[str, int] = {}
        self.n_tasks = 0
        self.n_streams = 0

    def label(self, text: str) -> int:
        """Return the number of a label, a new one where it is not known yet."""
        return self._labels.setdefault(text, len(self._labels))

    def _put(self, **arrays: npt.ArrayLike) -> None:
        for name, values in arrays.items():
            self._parts[name].append(np.atleast_1d(np.asarray(values, dtype=_TYPES[name])))

    def _put_streams(
        self,
        src: Ints,
        dst: Ints,
        size: Floats,
        *,
        delay: Floats,
        pairs: Ints,
        connection: Ints,
        preds: Preds | None = None,
    ) -> int:
        """Append streams; ``preds`` are (stream, predecessor, lag) counted within these."""
        source = np.atleast_1d(np.asarray(src, dtype=np.int32))
        n = len(source)
        self._put(
            src=source,
            dst=np.broadcast_to(np.asarray(dst), (n,)),
            chunk_bytes=np.broadcast_to(np.asarray(size), (n,)),
            chunk_delay_s=np.broadcast_to(np.asarray(delay), (n,)),
            queue_pairs=np.broadcast_to(np.asarray(pairs), (n,)),
            stream_plane=np.full(n, self.plane),
            stream_connection=np.broadcast_to(np.asarray(connection), (n,)),
        )
        if preds is None:
            self._put(pred_count=np.zeros(n))
        else:
            stream = np.asarray(preds[0], dtype=np.int64)
            pointer, order = csr(stream, n)
            self._put(
                pred_count=np.diff(pointer),
                pred_stream=np.asarray(preds[1], dtype=np.int64)[order] + self.n_streams,
                pred_lag=np.asarray(preds[2])[order],
            )
        self.n_streams += n
        return n

    def _put_task(
        self,
        width: int,
        rounds: int,
        label: str,
        *,
        after: Iterable[int],
        after_sent: Iterable[int],
        start_s: float,
        delay_s: float,
    ) -> int:
        delivered, sent = list(after), list(after_sent)
        self._put(
            width=width,
            task_rounds=rounds,
            task_start_s=start_s,
            task_delay_s=delay_s,
            task_label=self.label(label),
            dep_count=len(delivered) + len(sent),
            dep_task=delivered + sent,
            dep_kind=[DELIVERED] * len(delivered) + [SENT] * len(sent),
        )
        self.n_tasks += 1
        return self.n_tasks - 1

    def plain(
        self,
        src: Ints,
        dst: Ints,
        size_bytes: Floats,
        *,
        label: str,
        after: Iterable[int] = (),
        after_sent: Iterable[int] = (),
        start_s: float = 0.0,
        delay_s: float = 0.0,
        chunk_delay_s: Floats = 0.0,
        queue_pairs: Ints = 1,
        connection: Ints = 0,
    ) -> int:
        """Append one plain task: its streams start together. Returns its number."""
        width = self._put_streams(
            src,
            dst,
            size_bytes,
            delay=chunk_delay_s,
            pairs=queue_pairs,
            connection=connection,
        )
        return self._put_task(
            width, 1, label, after=after, after_sent=after_sent, start_s=start_s, delay_s=delay_s
        )

    def barrier(
        self, after: Iterable[int], *, label: str, start_s: float = 0.0, delay_s: float = 0.0
    ) -> int:
        """Append a task without streams; it ends ``delay_s`` after all of ``after`` have."""
        return self._put_task(
            0, 1, label, after=after, after_sent=(), start_s=start_s, delay_s=delay_s
        )

    def coupled(
        self,
        src: Ints,
        dst: Ints,
        chunk_bytes: Floats,
        rounds: int,
        preds: Preds,
        *,
        label: str,
        after: Iterable[int] = (),
        start_s: float = 0.0,
        delay_s: float = 0.0,
        chunk_delay_s: Floats = 0.0,
        queue_pairs: Ints = 1,
        connection: Ints = 0,
    ) -> int:
        """Append one coupled task of ``rounds`` chunks a stream. Returns its number.

        Args:
            src: node numbers of the senders, (m,).
            dst: node numbers of the receivers, (m,).
            chunk_bytes: payload of one chunk, one number or (m,).
            rounds: chunks of each stream.
            preds: arrays (stream, predecessor, lag), numbered within this task from 0.
            label: what it is in results.
            after: tasks that must be delivered before.
            start_s: earliest start.
            delay_s: wait after the dependencies are met.
            chunk_delay_s: wait before each chunk, one number or (m,).
            queue_pairs: queue pairs of each stream.
            connection: tells apart connections between the same two ends.

        Raises:
            EngineError: one round with predecessors of lag 0; such work is plain tasks in order.
        """
        lag = np.asarray(preds[2])
        if rounds == 1:
            if lag.size and int(lag.min()) == 0:
                raise EngineError(
                    f"coupled task {label!r}: one round cannot have predecessors of lag 0; "
                    "use at least two rounds, or plain tasks that follow each other"
                )
            return self.plain(
                src,
                dst,
                chunk_bytes,
                label=label,
                after=after,
                start_s=start_s,
                delay_s=delay_s,
                chunk_delay_s=chunk_delay_s,
                queue_pairs=queue_pairs,
                connection=connection,
            )
        width = self._put_streams(
            src,
            dst,
            chunk_bytes,
            delay=chunk_delay_s,
            pairs=queue_pairs,
            connection=connection,
            preds=preds,
        )
        return self._put_task(
            width, rounds, label, after=after, after_sent=(), start_s=start_s, delay_s=delay_s
        )

    def plain_tasks(
        self,
        src: Ints,
        dst: Ints,
        size_bytes: Floats,
        *,
        label: str,
        widths: Ints | None = None,
        deps: Preds | None = None,
        start_s: Floats = 0.0,
        delay_s: Floats = 0.0,
        queue_pairs: Ints = 1,
        connection: Ints = 0,
    ) -> range:
        """Append many plain tasks at once. Returns their numbers.

        Args:
            src: senders, (m,).
            dst: receivers, (m,).
            size_bytes: payload, one number or (m,).
            label: one label for all.
            widths: streams of each task; default one each.
            deps: arrays (task counted within this call, absolute task number it waits for, kind).
            start_s: earliest start, one number or one a task.
            delay_s: wait after the dependencies, one number or one a task.
            queue_pairs: queue pairs of each stream.
            connection: tells apart connections between the same two ends.
        """
        m = self._put_streams(
            src, dst, size_bytes, delay=0.0, pairs=queue_pairs, connection=connection
        )
        width = np.ones(m, dtype=np.int64) if widths is None else np.asarray(widths, dtype=np.int64)
        n = len(width)
        if int(width.sum()) != m:
            raise EngineError(f"tasks {label!r}: widths sum to {int(width.sum())}, not {m} streams")
        if deps is None:
            self._put(dep_count=np.zeros(n))
        else:
            pointer, order = csr(np.asarray(deps[0], dtype=np.int64), n)
            kinds = np.broadcast_to(np.asarray(deps[2]), (len(order),))
            self._put(
                dep_count=np.diff(pointer),
                dep_task=np.asarray(deps[1])[order],
                dep_kind=kinds[order],
            )
        self._put(
            width=width,
            task_rounds=np.ones(n),
            task_start_s=np.broadcast_to(np.asarray(start_s), (n,)),
            task_delay_s=np.broadcast_to(np.asarray(delay_s), (n,)),
            task_label=np.full(n, self.label(label)),
        )
        first = self.n_tasks
        self.n_tasks += n
        return range(first, self.n_tasks)

    def merge(self, traffic: Traffic, *, start_s: float = 0.0, prefix: str = "") -> int:
        """Append a whole traffic, shifted in time. Returns the number its task 0 gets.

        ``prefix`` is put before each of its labels.
        """
        numbers = np.array([self.label(prefix + text) for text in traffic.labels], dtype=np.int32)
        offset = self.n_tasks
        self._put(
            src=traffic.src,
            dst=traffic.dst,
            chunk_bytes=traffic.chunk_bytes,
            chunk_delay_s=traffic.chunk_delay_s,
            queue_pairs=traffic.queue_pairs,
            stream_plane=_or_zeros(traffic.stream_plane, traffic.n_streams),
            stream_connection=_or_zeros(traffic.stream_connection, traffic.n_streams),
            width=np.diff(traffic.task_stream),
            task_rounds=traffic.task_rounds,
            task_start_s=traffic.task_start_s + start_s,
            task_delay_s=traffic.task_delay_s,
            task_label=numbers[traffic.task_label] if len(numbers) else traffic.task_label,
            dep_count=np.diff(traffic.dep_ptr),
            dep_task=traffic.dep_task + offset,
            dep_kind=traffic.dep_kind,
            pred_count=np.diff(traffic.pred_ptr),
            pred_stream=traffic.pred_stream + self.n_streams,
            pred_lag=traffic.pred_lag,
        )
        self.n_tasks += traffic.n_tasks
        self.n_streams += traffic.n_streams
        return offset

    def build(self, *, check: bool = True) -> Traffic:
        """Give the `Traffic`; ``check`` runs :meth:`Traffic.validate` on it."""
        arrays: dict[str, npt.NDArray[np.generic]] = {
            name: np.concatenate(parts) if parts else np.zeros(0, dtype=_TYPES[name])
            for name, parts in self._parts.items()
        }
        pointers = {
            pointer: np.concatenate(([0], np.cumsum(arrays.pop(count)))).astype(np.int64)
            for pointer, count in (
                ("task_stream", "width"),
                ("dep_ptr", "dep_count"),
                ("pred_ptr", "pred_count"),
            )
        }
        traffic = Traffic(**arrays, **pointers, labels=tuple(self._labels))  # type: ignore[arg-type]
        if check:
            traffic.validate()
        return traffic


def merge_traffic(parts: Sequence[Traffic]) -> Traffic:
    """Return one traffic that holds all the parts at once, task numbers in their order."""
    builder = TrafficBuilder()
    for part in parts:
        builder.merge(part)
    return builder.build()
