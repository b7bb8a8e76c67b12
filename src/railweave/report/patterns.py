"""Traffic patterns timed on a network: numbers, who talks to whom, a trace, and what it means."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import numpy.typing as npt

from railweave.design.models import ALGORITHMS
from railweave.engine.result import Explanation, Result
from railweave.fabric import Fabric, PlaneId
from railweave.fabric.routing import RoutingSet
from railweave.provenance import Assumption
from railweave.report._pattern_run import PatternRun, run_pattern
from railweave.report._pattern_words import explain_pattern, interpret_pattern, strategy_title
from railweave.units import counted, format_bits_rate, format_bytes, format_seconds
from railweave.workload import Communicator, byte_shares
from railweave.workload._communicator import gpu_nic
from railweave.workload.patterns import (
    PatternCase,
    PatternVolume,
    Strategy,
    expert_messages,
    pattern_network,
    pattern_ranks,
    pattern_volume,
)
from railweave.workload.placement import nic_leaves

if TYPE_CHECKING:
    from railweave.api import BuiltDesign

__all__ = [
    "PatternEvent",
    "PatternStudy",
    "compare_strategies",
    "network_words",
    "shares_of_matrix",
    "study_pattern",
]

F64 = npt.NDArray[np.float64]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

_ASSUMPTIONS: Final = (
    Assumption("compute", "no compute time: one step's communication alone, not overlapped"),
    Assumption("payload", "of one exchange; precision and model shape are in the payload"),
    Assumption("reductions", "adding up received data costs no time"),
)
_PLAIN: Final = Assumption(
    "network", "the spine is non-blocking, packets have no headers, a message has one latency"
)


def _assumptions(engine: tuple[Assumption, ...], *, plain: bool) -> tuple[Assumption, ...]:
    """Join the engine's with those of patterns; a network without headers has none to count."""
    if not plain:
        return (*_ASSUMPTIONS, *engine)
    return (*_ASSUMPTIONS, _PLAIN, *(one for one in engine if one.subject != "wire bytes"))


@dataclass(frozen=True, slots=True)
class PatternEvent:
    """A row of the trace: when, between whom, and what."""

    time_s: float
    where: str
    what: str


@dataclass(frozen=True, eq=False)
class PatternStudy:
    """A step of a pattern on a network.

    Bytes are payload, of a whole step (all exchanges). ``matrix_bytes[i, j]`` is what rank i sends
    rank j, (n, n), summed over the traffic. ``sent_bytes`` (n,) are the sums of its rows,
    ``bytes_sent_per_gpu`` the largest of them. ``messages`` counts all messages, ``steps`` those
    that follow each other on the longest way.

    ``time_s`` is the flow engine's, ``analytic_s`` the analytic engine's, of a step;
    ``latency_s`` is what ``analytic_s`` has beyond ``bandwidth_s``, the time on the same paths
    without latency. ``bound`` names the larger of the two. ``link_bps`` is what the NICs of the
    slowest rank can send.

    ``share_…`` are the parts of the bytes by the farthest place they pass. ``result`` is the flow
    engine's result of one exchange (of all in a pipeline) over ``fabric``; ``nodes`` (n,) are the
    GPU nodes by rank. Where ``trace_whole``, it has a task for each message and ``trace`` a row.
    """

    case: PatternCase
    network: str
    fabric: Fabric
    nodes: I32
    link_bps: float
    volume: PatternVolume
    matrix_bytes: F64
    sent_bytes: F64
    bytes_sent_per_gpu: float
    total_bytes: float
    messages: int
    steps: int
    time_s: float
    analytic_s: float
    bandwidth_s: float
    latency_s: float
    bound: Literal["bandwidth", "latency"]
    share_server: float
    share_leaf: float
    share_spine: float
    share_core: float
    trace: tuple[PatternEvent, ...]
    trace_whole: bool
    result: Result
    interpretation: tuple[str, ...] = ()
    explanations: tuple[Explanation, ...] = ()
    assumptions: tuple[Assumption, ...] = ()

    @property
    def title(self) -> str:
        """The strategy, as a heading: ``Data parallel``."""
        return strategy_title(self.case.strategy)

    def to_json(self) -> dict[str, object]:
        """Return the study as plain data, arrays as lists; without fabric and engine result."""
        out: dict[str, object] = {
            "case": asdict(self.case),
            "network": self.network,
            "parts": [asdict(part) for part in self.volume.parts],
        }
        for name in _JSON_NUMBERS:
            out[name] = getattr(self, name)
        out["matrix_bytes"] = self.matrix_bytes.tolist()
        out["trace"] = [asdict(event) for event in self.trace]
        out["interpretation"] = list(self.interpretation)
        out["explanations"] = [asdict(item) for item in self.explanations]
        out["assumptions"] = [asdict(item) for item in self.assumptions]
        return out


_JSON_NUMBERS: Final = (
    "bytes_sent_per_gpu",
    "total_bytes",
    "messages",
    "steps",
    "time_s",
    "analytic_s",
    "bandwidth_s",
    "latency_s",
    "bound",
    "link_bps",
    "share_server",
    "share_leaf",
    "share_spine",
    "share_core",
    "trace_whole",
)


def study_pattern(
    case: PatternCase, built: BuiltDesign | None = None, *, routing: RoutingSet | None = None
) -> PatternStudy:
    """Time a step of a pattern and say what the numbers mean.

    Args:
        case: what is trained in parallel.
        built: run it on this design's fabric, alone; the case's own network (link speed,
            latencies, GPUs per server, servers) is then not looked at.
        routing: the design's routing, where it is at hand; ``built.routing()`` where left out.

    Raises:
        InputError: more GPUs than the design has, or an algorithm that cannot do the placement.
        EngineError: ranks without a way to each other.
    """
    if built is None:
        plain = pattern_network(case)
        fabric, planes, seed = plain.fabric, plain.routing, 0
    else:
        fabric, seed = built.fabric, built.design.seed
        planes = routing or built.routing()
    comm = pattern_ranks(case, fabric, seed=seed)
    run = run_pattern(case, comm, fabric, planes, _blocks(comm, fabric, plain=built is None))
    per_server = int(comm.domain_sizes.max()) if comm.uniform else None
    volume = pattern_volume(case, per_server)
    matrix = _matrix(case, comm, fabric, run)
    sent = matrix.sum(axis=1)
    shares = shares_of_matrix(fabric, comm.nodes, matrix)
    latency_s = max(run.analytic_s - run.bandwidth_s, 0.0)
    study = PatternStudy(
        case=case,
        network=network_words(case, comm.nodes, fabric, built),
        fabric=fabric,
        nodes=comm.nodes,
        link_bps=_link_bps(fabric, comm),
        volume=volume,
        matrix_bytes=matrix,
        sent_bytes=sent,
        bytes_sent_per_gpu=float(sent.max()),
        total_bytes=float(sent.sum()),
        messages=_messages(case, run),
        steps=volume.steps,
        time_s=run.time_s,
        analytic_s=run.analytic_s,
        bandwidth_s=run.bandwidth_s,
        latency_s=latency_s,
        bound="latency" if latency_s > run.bandwidth_s else "bandwidth",
        share_server=shares[0],
        share_leaf=shares[1],
        share_spine=shares[2],
        share_core=shares[3],
        trace=_trace(case, comm, fabric, run),
        trace_whole=run.traced,
        result=run.result,
        assumptions=_assumptions(run.assumptions, plain=built is None),
    )
    return replace(
        study,
        interpretation=interpret_pattern(study),
        explanations=explain_pattern(study, volume),
    )


def compare_strategies(
    case: PatternCase, built: BuiltDesign | None = None, *, routing: RoutingSet | None = None
) -> tuple[PatternStudy, ...]:
    """Study all strategies with what else the case says, fastest first.

    Skew is kept for experts only, an algorithm where the strategy's collective has it.
    """
    studies = []
    for strategy in Strategy:
        op = PatternCase(strategy).collective
        keep = op is not None and case.algorithm in ALGORITHMS[op]
        other = replace(
            case,
            strategy=strategy,
            algorithm=case.algorithm if keep else None,
            skew=case.skew if strategy is Strategy.EXPERT else 0.0,
        )
        studies.append(study_pattern(other, built, routing=routing))
    return tuple(sorted(studies, key=lambda study: study.time_s))


# ---------------------------------------------------------------- network


def network_words(case: PatternCase, nodes: I32, fabric: Fabric, built: BuiltDesign | None) -> str:
    """Say how many GPUs are where, by which rule."""
    servers = len(np.unique(fabric.node_server[nodes]))
    where = f"{counted(case.gpus, 'GPU')} on {counted(servers, 'server')}"
    if built is not None:
        return f"{where} of {built.design.name}, {case.placement.value}"
    leaves = len(fabric.switches(PlaneId.BACKEND, 1))
    return (
        f"{where}, {case.placement.value}, {format_bits_rate(case.link_bps)} a GPU, "
        f"{counted(leaves, 'leaf', 'leaves')}"
    )


def _link_bps(fabric: Fabric, comm: Communicator) -> float:
    """Return what the slowest rank's NIC can send, all its ports together; 0 where it has none."""
    nic = gpu_nic(fabric)[comm.nodes]
    own = (fabric.link_plane == PlaneId.BACKEND) & fabric.link_up
    rate = np.bincount(
        fabric.link_src[own], fabric.link_capacity_bps[own], minlength=fabric.n_nodes
    )
    return float(np.where(nic >= 0, rate[np.maximum(nic, 0)], 0.0).min())


def _blocks(comm: Communicator, fabric: Fabric, *, plain: bool) -> I64 | None:
    """Return ranks whose messages may travel together: of a server, or of a leaf where all do.

    Not by leaf in a design: fewer messages there would spread less well over its paths.
    """
    if int(comm.domain_sizes.max()) > 1:
        return comm.order
    if not plain:
        return None
    leaf: I64 = nic_leaves(fabric)[gpu_nic(fabric)[comm.nodes], 0].astype(np.int64)
    return leaf


# ---------------------------------------------------------------- numbers


def _ranks_of(comm: Communicator, fabric: Fabric) -> I64:
    """Return the rank on each node, −1 elsewhere, (N,)."""
    rank = np.full(fabric.n_nodes, -1, dtype=np.int64)
    rank[comm.nodes] = np.arange(comm.n)
    return rank


def _matrix(case: PatternCase, comm: Communicator, fabric: Fabric, run: PatternRun) -> F64:
    """Return the bytes of a step from rank to rank, (n, n)."""
    n, traffic = comm.n, run.traffic
    if run.blocks is not None:  # messages travel together there
        out = np.zeros(n * n)
        for dispatch in (True, False):
            src, dst, size = expert_messages(case, dispatch=dispatch)
            out += np.bincount(src * n + dst, size, minlength=n * n)
        return out.reshape(n, n) * run.repeats
    rank = _ranks_of(comm, fabric)
    key = rank[traffic.src] * n + rank[traffic.dst]
    total = np.bincount(key, traffic.stream_bytes, minlength=n * n).astype(np.float64)
    return total.reshape(n, n) * run.repeats


def _messages(case: PatternCase, run: PatternRun) -> int:
    n, traffic = case.gpus, run.traffic
    if run.blocks is not None:
        return 2 * n * (n - 1) * run.repeats
    return int(traffic.task_rounds[traffic.stream_task].sum()) * run.repeats


def shares_of_matrix(fabric: Fabric, nodes: I32, matrix: F64) -> tuple[float, ...]:
    """Return the parts of an (n, n) matrix of bytes by the farthest place that they pass."""
    src, dst = np.nonzero(matrix)
    found = byte_shares(fabric, nodes[src], nodes[dst], matrix[src, dst], rail_aware=False)
    total = found.total_bytes or 1.0
    parts = (found.server_bytes, found.leaf_bytes, found.spine_bytes, found.core_bytes)
    return tuple(part / total for part in parts)


# ---------------------------------------------------------------- trace


def _trace(
    case: PatternCase, comm: Communicator, fabric: Fabric, run: PatternRun
) -> tuple[PatternEvent, ...]:
    """Return a row for each message of the first exchange, or each part of it, and the end."""
    rows = _message_rows(comm, fabric, run) if run.traced else _part_rows(run)
    if run.repeats > 1:
        first = run.time_s / run.repeats
        rows.append(PatternEvent(first, "all GPUs", f"exchange 1 of {run.repeats:,} is over"))
    rows.append(PatternEvent(run.time_s, "all GPUs", "the step's communication is over"))
    return tuple(rows)


def _name(label: str) -> str:
    """Return ``dispatch`` of ``expert/dispatch#0``."""
    return label.split("/", 1)[1].replace("#0", "").replace("/", ", ")


def _message_rows(comm: Communicator, fabric: Fabric, run: PatternRun) -> list[PatternEvent]:
    result, traffic = run.result, run.result.traffic
    rank = _ranks_of(comm, fabric)
    task = traffic.stream_task
    rounds = run.traffic.task_rounds[run.traffic.stream_task]
    began = result.task_start_s[task]
    rows = []
    for k in np.lexsort((np.arange(traffic.n_streams), began)).tolist():
        label = _name(traffic.labels[int(traffic.task_label[task[k]])])
        of = int(rounds[run.stream[k]])
        turn = f", {int(run.chunk[k]) + 1} of {of}" if of > 1 else ""
        rows.append(
            PatternEvent(
                float(began[k]),
                f"rank {int(rank[traffic.src[k]])} → rank {int(rank[traffic.dst[k]])}",
                f"{label}{turn}: {format_bytes(float(traffic.chunk_bytes[k]))}, there at "
                f"{format_seconds(float(result.stream_finish_s[k]))}",
            )
        )
    return rows


def _part_rows(run: PatternRun) -> list[PatternEvent]:
    """Return when each part of an exchange begins."""
    result, traffic = run.result, run.result.traffic
    busy = np.flatnonzero(np.diff(traffic.task_stream) > 0)
    rows = []
    for number, label in enumerate(traffic.labels):
        mine = busy[traffic.task_label[busy] == number]
        if mine.size:
            messages = int((np.diff(traffic.task_stream)[mine] * traffic.task_rounds[mine]).sum())
            start = float(np.nanmin(result.task_start_s[mine]))
            what = f"{_name(label)} begins: {messages:,} messages"
            rows.append(PatternEvent(start, "all GPUs", what))
    return sorted(rows, key=lambda row: row.time_s)
