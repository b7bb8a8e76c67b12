"""`Result`: what every engine returns, whatever its fidelity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from railweave.fabric.routing import Paths
from railweave.findings import Finding
from railweave.provenance import Assumption
from railweave.workload import Traffic

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Explanation", "Result"]

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Explanation:
    """How one headline number came about: its formula, its inputs and the formula's source."""

    quantity: str
    value: float
    unit: str
    formula: str
    inputs: dict[str, float]
    source: str


@dataclass(frozen=True, eq=False)
class Result:
    """Times by task and stream, bytes by link, and what was assumed.

    Shapes: (T,) for ``task_…``, (S,) for ``stream_…``, (L,) for ``link_…``; seconds from the start
    of the simulation; NaN where the engine does not resolve that quantity (the analytic engine
    knows no links, say). ``link_bytes`` are wire bytes, retransmissions and headers included.
    ``stream_ideal_s`` is the time one chunk would take alone on its path, its own delay and the
    path's latency included. A stream's slowdown is its time over what it would take alone; streams
    of a coupled task advance together and share the task's: its time over that of its slowest
    stream alone (all its chunks back to back, and the path's latency once).
    ``bytes_…`` are wire bytes of the messages at their source: what leaves, arrives, is lost
    (in the flow engine only where no path exists), or is on its way at the end; in a flow run that
    was stopped early all that has not arrived counts as on its way.
    ``paths`` are the links each stream uses, where the engine routes; ``finished`` is False where
    the run was stopped before its end (times of what had not happened are NaN then).
    """

    engine: str
    traffic: Traffic
    task_start_s: F64
    task_finish_s: F64
    stream_finish_s: F64
    stream_ideal_s: F64
    stream_slowdown: F64
    link_bytes: F64
    link_utilisation: F64  #: wire bytes / (capacity × makespan)
    link_peak: F64  #: highest momentary share of capacity in use
    makespan_s: float
    bytes_sent: float
    bytes_delivered: float
    bytes_dropped: float
    bytes_in_flight: float
    events: int
    unroutable_streams: int
    assumptions: tuple[Assumption, ...]
    explanations: tuple[Explanation, ...]
    findings: tuple[Finding, ...] = ()
    paths: Paths | None = None
    finished: bool = True

    def frame(self) -> pl.DataFrame:
        """Return one row a task: label, start_s, finish_s, duration_s, bytes, streams."""
        import polars as pl

        traffic = self.traffic
        per_stream = traffic.chunk_bytes * np.repeat(
            traffic.task_rounds, np.diff(traffic.task_stream)
        )
        running = np.concatenate(([0.0], np.cumsum(per_stream)))
        return pl.DataFrame(
            {
                "task": np.arange(traffic.n_tasks),
                "label": [traffic.labels[i] for i in traffic.task_label],
                "start_s": self.task_start_s,
                "finish_s": self.task_finish_s,
                "duration_s": self.task_finish_s - self.task_start_s,
                "streams": np.diff(traffic.task_stream),
                "bytes": running[traffic.task_stream[1:]] - running[traffic.task_stream[:-1]],
            }
        )

    def explain(self) -> tuple[Explanation, ...]:
        """Return the formula and the inputs of each headline number."""
        return self.explanations
