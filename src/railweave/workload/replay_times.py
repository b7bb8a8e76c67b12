"""What a replay's operations took, beside what was measured."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from railweave.design.models import Collective
from railweave.workload.replay import ReplayPlan
from railweave.workload.volume import bus_factor

__all__ = ["OperationTime", "OperationTotal", "ReplayTimes", "replay_times"]

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class OperationTime:
    """One operation: replayed from its last rank's being ready to its end; measured, see the plan.

    ``start_s`` is on the replay's clock. ``ratio`` is replayed / measured, NaN where one is not
    known.
    """

    op: str
    size_bytes: float
    ranks: int
    start_s: float
    replayed_s: float
    measured_s: float
    longest_s: float
    where: str

    @property
    def ratio(self) -> float:
        """Replayed over measured."""
        return self.replayed_s / self.measured_s if self.measured_s > 0 else math.nan


@dataclass(frozen=True, slots=True)
class OperationTotal:
    """All operations of one kind, size and number of ranks: sums, and bus bandwidths of the means.

    Bus bandwidth counts as nccl-tests does; NaN for operations that have none.
    """

    op: str
    size_bytes: float
    ranks: int
    count: int
    replayed_s: float
    measured_s: float
    ratio: float
    replayed_busbw_Bps: float  # noqa: N815 - B is byte
    measured_busbw_Bps: float  # noqa: N815


@dataclass(frozen=True, slots=True)
class ReplayTimes:
    """A replay against its traces: as a whole, by operation, and one by one.

    ``measured_s`` is from the first event to the last of the longest trace; ``traced_s`` what the
    replay's dependencies give with the measured times of operations. NaN where traces have none.
    ``by_operation`` is sorted by what was spent (measured where known), ``operations`` by how much
    longer or shorter they took than measured, the largest difference first.
    """

    replayed_s: float
    measured_s: float
    traced_s: float
    compute_s: float
    by_operation: tuple[OperationTotal, ...]
    operations: tuple[OperationTime, ...]


def replay_times(plan: ReplayPlan, task_finish_s: F64, makespan_s: float) -> ReplayTimes:
    """Return a replay's times.

    Args:
        plan: what was simulated.
        task_finish_s: ends of its tasks, of any engine, (T,).
        makespan_s: of the simulation.
    """
    ready, done = task_finish_s[plan.ready_task], task_finish_s[plan.done_task]
    times = [
        OperationTime(
            op.op,
            op.size_bytes,
            len(op.ranks),
            float(start),
            float(end - start),
            op.shortest_s,
            op.longest_s,
            op.where,
        )
        for op, start, end in zip(plan.operations, ready, done, strict=True)
    ]
    return ReplayTimes(
        replayed_s=makespan_s,
        measured_s=plan.span_s,
        traced_s=plan.traced_s,
        compute_s=plan.compute_s,
        by_operation=_totals(times),
        operations=tuple(sorted(times, key=_difference, reverse=True)),
    )


def _difference(time: OperationTime) -> tuple[float, float]:
    gap = abs(time.replayed_s - time.measured_s)
    return (gap, -time.start_s) if math.isfinite(gap) else (-1.0, -time.start_s)


def _totals(times: Sequence[OperationTime]) -> tuple[OperationTotal, ...]:
    groups: dict[tuple[str, float, int], list[OperationTime]] = defaultdict(list)
    for time in times:
        groups[time.op, time.size_bytes, time.ranks].append(time)
    totals = [_total(*key, found) for key, found in groups.items()]
    return tuple(
        sorted(
            totals,
            key=lambda t: (
                -(t.measured_s if math.isfinite(t.measured_s) else t.replayed_s),
                t.op,
                t.size_bytes,
            ),
        )
    )


def _total(op: str, size: float, ranks: int, times: list[OperationTime]) -> OperationTotal:
    replayed = sum(time.replayed_s for time in times)
    measured = sum(time.measured_s for time in times)
    factor = math.nan
    if op in set(Collective) and ranks > 1:
        factor = bus_factor(Collective(op), ranks)
    elif op == "send":
        factor = 1.0
    work = factor * size * len(times)
    return OperationTotal(
        op,
        size,
        ranks,
        len(times),
        replayed,
        measured,
        replayed / measured if measured > 0 else math.nan,
        work / replayed if replayed > 0 else math.nan,
        work / measured if measured > 0 else math.nan,
    )
