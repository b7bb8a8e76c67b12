"""Replay: the traces of a job as traffic, on any fabric.

Compute becomes delay, operations between ranks become the messages of railweave's algorithms, and
each waits for what it waited for in its traces. An operation starts when all of its ranks that
have a trace are ready; what was measured of it is the shortest time of any rank, as the others
waited for the last to come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from railweave.design.models import ALGORITHMS, Algorithm, Collective, PlacementName
from railweave.errors import InputError
from railweave.fabric import Fabric
from railweave.findings import Finding, Severity
from railweave.formats.execution_trace import ALL_RANKS, EventKind, RankTrace
from railweave.provenance import Assumption
from railweave.workload._builder import TrafficBuilder
from railweave.workload._communicator import Communicator
from railweave.workload._replay_match import Match, Operation, match_traces
from railweave.workload._traffic import Traffic
from railweave.workload.collectives import CollectiveOptions, append_collective
from railweave.workload.placement import place

__all__ = ["ReplayPlan", "plan_replay"]

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

#: streams that a replay may have before its last operation: some gigabytes of arrays
_MOST_STREAMS: Final = 30_000_000


@dataclass(frozen=True, eq=False)
class ReplayPlan:
    """Traffic of a run's traces, and which tasks are which operation.

    ``ready_task`` (O,) and ``done_task`` (O,) are the tasks whose ends are an operation's start and
    end. ``nodes`` are the GPU nodes by rank. ``span_s`` is the longest time from a trace's first
    event to its last, NaN where the traces have no times; ``compute_s`` the longest sum of compute
    in any trace. ``traced_s`` is how long the replay would take if every operation took what was
    measured of it: how well the dependencies tell what happened shows against ``span_s``.
    """

    source: str
    traffic: Traffic
    operations: tuple[Operation, ...]
    ready_task: I64
    done_task: I64
    nodes: I32
    traced_ranks: int
    span_s: float
    compute_s: float
    traced_s: float
    assumptions: tuple[Assumption, ...]
    findings: tuple[Finding, ...]

    @property
    def ranks(self) -> int:
        """Ranks of the job."""
        return len(self.nodes)


def plan_replay(
    traces: Sequence[RankTrace],
    fabric: Fabric,
    *,
    placement: PlacementName | Sequence[int] = PlacementName.PACKED,
    algorithms: Mapping[Collective, Algorithm] | None = None,
    queue_pairs: int = 1,
    seed: int = 0,
) -> ReplayPlan:
    """Return the traffic of a run's traces on a fabric.

    Args:
        traces: one a rank, of one run.
        fabric: where it is to run.
        placement: rule, or the GPU number of every rank.
        algorithms: instead of each operation's default.
        queue_pairs: of each connection.
        seed: of a random placement.

    Raises:
        InputError: more ranks than GPUs, no operation that could be matched, or traces whose
            orders contradict each other.
    """
    match = match_traces(traces)
    world = _ranks_for(traces, match, len(fabric.gpus))

    def emitter_on(nodes: I32) -> _Emitter:
        comm = Communicator.from_fabric(fabric, nodes)
        return _Emitter(traces, match, comm, algorithms or {}, queue_pairs)

    def sends(nodes: I32) -> Traffic:
        return emitter_on(nodes).run()

    nodes = place(fabric, world, placement, seed=seed, name="replay", sends=sends)
    emitter = emitter_on(nodes)
    traffic = emitter.run()
    notes = dict.fromkeys(note for trace in traces for note in trace.assumptions)
    notes.update(dict.fromkeys(emitter.notes))
    findings = (
        *(finding for trace in traces for finding in trace.findings),
        *match.findings,
        *_missing(traces, world),
    )
    spans, compute = _measured(traces)
    return ReplayPlan(
        source=traces[0].source,
        traffic=traffic,
        operations=match.operations,
        ready_task=np.array(emitter.ready, dtype=np.int64),
        done_task=np.array(emitter.done, dtype=np.int64),
        nodes=nodes,
        traced_ranks=world if traces[0].rank == ALL_RANKS else len(traces),
        span_s=spans,
        compute_s=compute,
        traced_s=float(emitter.finish_s.max(initial=0.0)),
        assumptions=(*notes, *_ASSUMPTIONS),
        findings=findings,
    )


def _ranks_for(traces: Sequence[RankTrace], match: Match, gpus: int) -> int:
    """Return the ranks of the job.

    Raises:
        InputError: there are more than GPUs, or nothing to replay.
    """
    if not match.operations:
        raise InputError(
            f"{traces[0].file}: no operation of the {len(traces)} traces has all its partners; "
            "give the files of one run"
        )
    most = max(max(op.ranks) for op in match.operations)
    world = max(most + 1, *(trace.world for trace in traces), *(t.rank + 1 for t in traces))
    if world > gpus:
        raise InputError(
            f"{traces[0].file}: the traces are of {world:,} ranks, and the design has "
            f"{gpus:,} GPUs; name a design with {world:,} or more"
        )
    return world


def _missing(traces: Sequence[RankTrace], world: int) -> list[Finding]:
    if traces[0].rank == ALL_RANKS or len(traces) == world:
        return []
    return [
        Finding(
            "ranks-without-trace",
            Severity.INFO,
            traces[0].file,
            f"{len(traces):,} of {world:,} ranks have a trace; the others take part in the "
            "operations these tell of, always ready, and send nothing else",
            fix="give the files of all ranks, so that all of their traffic is there",
        )
    ]


def _measured(traces: Sequence[RankTrace]) -> tuple[float, float]:
    """Return the longest span of a trace and the longest compute, NaN and 0 where none is known."""
    spans, compute = [], [0.0]
    for trace in traces:
        start = np.array([event.start_s for event in trace.events])
        length = np.array([event.duration_s for event in trace.events])
        end = start + length
        if np.isfinite(end).any():
            spans.append(float(np.nanmax(end) - np.nanmin(start)))
        work = [e.kind is EventKind.COMPUTE for e in trace.events]
        compute.append(float(np.nansum(length[np.array(work, dtype=bool)])))
    return max(spans, default=float("nan")), max(compute)


class _Emitter:
    """Puts the tasks together, each after those that it waits for."""

    def __init__(
        self,
        traces: Sequence[RankTrace],
        match: Match,
        comm: Communicator,
        algorithms: Mapping[Collective, Algorithm],
        queue_pairs: int,
    ) -> None:
        self.traces, self.match, self.comm = traces, match, comm
        self.algorithms, self.queue_pairs = algorithms, queue_pairs
        self.builder = TrafficBuilder()
        self.notes: dict[Assumption, None] = {}
        n = len(match.operations)
        self.ready, self.done = [0] * n, [0] * n
        self.parts: dict[tuple[int, ...], Communicator] = {}
        # A node of the merged graph is an operation, or an event that belongs to none.
        first = np.cumsum([0, *(len(trace.events) for trace in traces)])
        self.node_of = np.arange(first[-1], dtype=np.int64) + n
        self.first = first
        for k, op in enumerate(match.operations):
            for t, i in op.places:
                self.node_of[first[t] + i] = k
        self.task_of = np.full(n + int(first[-1]), -1, dtype=np.int64)
        self.finish_s = np.zeros(n + int(first[-1]))  #: of each node, with the measured times

    def run(self) -> Traffic:
        """Append everything in an order in which all that is waited for comes first."""
        waits, order = self._graph()
        n = len(self.match.operations)
        for node in order:
            before = waits.get(node, [])
            after = sorted({int(self.task_of[other]) for other in before})
            took = self._operation(node, after) if node < n else self._delay(node, after)
            start = self.finish_s[before].max() if before else 0.0
            self.finish_s[node] = start + took
        return self.builder.build(check=False)

    def _graph(self) -> tuple[dict[int, list[int]], list[int]]:
        """Return what each node waits for, and an order of all nodes."""
        waits: dict[int, list[int]] = {}
        followers: dict[int, list[int]] = {}
        nodes = dict.fromkeys(self.node_of.tolist())
        for t, trace in enumerate(self.traces):
            base = int(self.first[t])
            for i, event in enumerate(trace.events):
                node = int(self.node_of[base + i])
                for wait in event.depends_on:
                    before = int(self.node_of[base + wait])
                    waits.setdefault(node, []).append(before)
                    followers.setdefault(before, []).append(node)
        left = {node: len(waits.get(node, ())) for node in nodes}
        order = [node for node in nodes if not left[node]]
        for node in order:  # grows while it is gone through
            for after in followers.get(node, ()):
                left[after] -= 1
                if not left[after]:
                    order.append(after)
        if len(order) < len(nodes):
            self._refuse(sorted(node for node, count in left.items() if count))
        return waits, order

    def _refuse(self, stuck: list[int]) -> None:
        operations = [self.match.operations[k] for k in stuck if k < len(self.match.operations)]
        if not operations:
            t = int(np.searchsorted(self.first, stuck[0] - len(self.match.operations), "right")) - 1
            raise InputError(
                f"{self.traces[t].file}: events wait for each other in a circle; the file is "
                "damaged"
            )
        named = " and ".join(f"{op.op} at {op.where}" for op in operations[:2])
        raise InputError(
            f"{named}: wait for each other in a circle: the traces have them in contradicting "
            "orders; give the files of one run, and of the same steps"
        )

    def _delay(self, node: int, after: list[int]) -> float:
        """Append an event that is no operation; return what it took."""
        place_ = node - len(self.match.operations)
        t = int(np.searchsorted(self.first, place_, "right")) - 1
        event = self.traces[t].events[place_ - int(self.first[t])]
        length = event.duration_s if event.duration_s > 0 else 0.0
        self.task_of[node] = self.builder.barrier(after, label="trace/compute", delay_s=length)
        return length

    def _operation(self, k: int, after: list[int]) -> float:
        """Append an operation; return what was measured of it."""
        op = self.match.operations[k]
        label = f"trace/{op.op}"
        self.ready[k] = self.builder.barrier(after, label=label)
        ends = self._append(op, label, self.ready[k])
        self.done[k] = ends[0] if len(ends) == 1 else self.builder.barrier(ends, label=label)
        self.task_of[k] = self.done[k]
        return op.shortest_s

    def _append(self, op: Operation, label: str, after: int) -> list[int]:
        """Append what an operation sends; return the tasks that end it."""
        if op.op == "barrier":
            self.notes[_BARRIER] = None
            return [after]
        if op.size_bytes <= 0 or len(op.ranks) < 2:
            return [after]
        if self.builder.n_streams > _MOST_STREAMS:
            raise InputError(
                f"{op.where}: more than {_MOST_STREAMS:,} streams up to here; give traces of "
                "fewer steps"
            )
        if op.op in ("send", "gather", "scatter") or op.shares:
            src, dst, size = self._streams(op)
            moves = (src != dst) & (size > 0)
            if not moves.any():
                return [after]
            return [
                self.builder.plain(
                    self.comm.nodes[src[moves]],
                    self.comm.nodes[dst[moves]],
                    size[moves],
                    label=label,
                    after=[after],
                    queue_pairs=self.queue_pairs,
                )
            ]
        kind = Collective(op.op)
        part = self.parts.get(op.ranks)
        if part is None:
            part = self.parts[op.ranks] = self.comm.subset(op.ranks)
        root = op.ranks.index(op.root) if op.root in op.ranks else 0
        if op.root is None and kind in (Collective.BROADCAST, Collective.REDUCE):
            self.notes[_ROOT] = None
        return append_collective(
            self.builder,
            part,
            kind,
            op.size_bytes,
            algorithm=self.algorithms.get(kind, ALGORITHMS[kind][0]),
            options=CollectiveOptions(root=root, queue_pairs=self.queue_pairs),
            label=label,
            after=[after],
        )

    def _streams(self, op: Operation) -> tuple[I64, I64, npt.NDArray[np.float64]]:
        """Return sender, receiver and bytes of operations that are plain messages."""
        ranks = np.array(op.ranks, dtype=np.int64)
        n = len(ranks)
        if op.op == "send":
            return ranks[:1], ranks[1:2], np.array([op.size_bytes])
        if op.op in ("gather", "scatter"):
            if op.root is None:
                self.notes[_ROOT] = None
            root = np.full(n, op.ranks[0] if op.root is None else op.root)
            size = np.full(n, op.size_bytes / n)
            return (ranks, root, size) if op.op == "gather" else (root, ranks, size)
        # All-to-all with parts of different sizes; ranks that do not say have even ones.
        if len(op.shares) < n:
            self.notes[_EVEN] = None
        even = (1 / n,) * n
        parts = np.array([op.shares.get(rank, even) for rank in op.ranks])
        sent = np.array([self._sent(op, rank) for rank in op.ranks])
        # rank r sends to r + 1, r + 2, …: no receiver is everybody's first
        turn = (np.arange(n)[:, None] + np.arange(1, n)[None, :]) % n
        size = np.take_along_axis(parts, turn, axis=1) * sent[:, None]
        return np.repeat(ranks, n - 1), ranks[turn].ravel(), size.ravel()

    def _sent(self, op: Operation, rank: int) -> float:
        for t, i in op.places:
            if self.traces[t].rank == rank:
                return self.traces[t].events[i].size_bytes
        return op.size_bytes


_ROOT: Final = Assumption(
    "roots", "where a trace does not name a root, it is the first of the group"
)
_BARRIER: Final = Assumption("barriers", "hold ranks until all are there, and send nothing")
_EVEN: Final = Assumption(
    "all-to-all", "ranks whose trace does not say what goes to whom send the same to everyone"
)
_ASSUMPTIONS: Final = (
    Assumption(
        "operations",
        "run with railweave's algorithms (ring; direct for all-to-all), whatever the library chose "
        "when the trace was recorded; the library's own overhead and protocol are not in them",
    ),
    Assumption(
        "compute", "takes as long as in the trace, however fast the network is; on its own GPU kind"
    ),
    Assumption(
        "measured",
        "of an operation: the shortest time of any traced rank, as the others waited in it for the "
        "last to come. With one trace of a group it holds that wait too",
    ),
)
