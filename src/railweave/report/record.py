"""What one run found, as plain records, which report, ``result.json`` and tables only show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from railweave.engine.result import Explanation
from railweave.fabric.summary import BuildSummary
from railweave.findings import Finding
from railweave.provenance import Assumption
from railweave.report.page_table import PageTable
from railweave.report.spread import SpreadCurve
from railweave.report.topology import TopologyView

if TYPE_CHECKING:
    import polars as pl

    from railweave.report.predicted import CollectiveForecast, TrainingForecast

__all__ = [
    "CompletionStats",
    "GroupOutcome",
    "HeatMap",
    "JobOutcome",
    "RunRecord",
    "SpreadOutcome",
    "StorageOutcome",
    "WhatIfOutcome",
]

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class GroupOutcome:
    """Payload bytes of one training step by the kind of parallel group that sends them.

    ``kind`` is tensor, data, pipeline, expert or expert-data; the bytes are those that stay in a
    server, stay under a leaf, cross a spine or cross a core, and add up to all the group sends.
    """

    kind: str
    server_bytes: float
    leaf_bytes: float
    spine_bytes: float
    core_bytes: float


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """One job's time on the fabric, beside its closed form's: its own paths, no other traffic.

    ``share_…`` are fractions of the job's payload bytes by the farthest place they pass. ``algbw``
    and ``busbw`` are those of nccl-tests, NaN for jobs which are not one collective.
    """

    name: str
    what: str
    algorithm: str
    ranks: int
    size_bytes: float
    time_s: float
    analytic_s: float
    algbw_Bps: float  # noqa: N815 - byte/s
    busbw_Bps: float  # noqa: N815 - byte/s
    share_server: float
    share_leaf: float
    share_spine: float
    share_core: float
    groups: tuple[GroupOutcome, ...] = ()


@dataclass(frozen=True, slots=True)
class CompletionStats:
    """Completion times and slowdowns (actual / alone on its path) of one label's streams."""

    label: str
    streams: int
    p50_s: float
    p99_s: float
    max_s: float
    slowdown_p50: float
    slowdown_p99: float


@dataclass(frozen=True, slots=True)
class SpreadOutcome:
    """How evenly one kind of traffic loads the uplinks of the leaves it uses, by bytes.

    ``worst_ratio`` is max / mean of the worst leaf, ``fairness`` Jain's index over all uplinks.
    """

    label: str
    flows: int
    links: int
    worst_ratio: float
    fairness: float
    idle_share: float


@dataclass(frozen=True, slots=True)
class StorageOutcome:
    """What storage traffic cost: the write time of a checkpoint and the share of time it takes."""

    name: str
    checkpoint_s: float
    period_s: float
    lost_share: float
    ingest_wanted_Bps: float  # noqa: N815 - byte/s
    ingest_reached_Bps: float  # noqa: N815 - byte/s


@dataclass(frozen=True, slots=True)
class WhatIfOutcome:
    """A failure: what it leaves of the bisection, whom it cuts off, what it costs each job.

    ``job_factors`` are (job, time with the failure / time without); infinite where it cannot run.
    """

    name: str
    links_down: int
    bisection_bps: float
    bisection_left: float
    gpus_cut_off: int
    job_factors: tuple[tuple[str, float], ...]


@dataclass(frozen=True, eq=False)
class HeatMap:
    """Mean utilisation of the links between two tiers, rows = lower switches, columns = upper."""

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    up: F64
    down: F64


@dataclass(frozen=True, eq=False)
class RunRecord:
    """All that one run found; ``design_yaml`` is the design with every default filled in.

    ``jobs`` are the engine's; ``training`` and ``collectives`` what training and collective jobs
    are predicted to do, each alone.
    """

    name: str
    description: str
    design_file: str
    design_yaml: str
    stated: tuple[PageTable, ...]
    design_sha256: str
    version: str
    engine: str
    seed: int
    command: str
    summary: BuildSummary
    topology: TopologyView
    findings: tuple[Finding, ...]
    jobs: tuple[JobOutcome, ...]
    completions: tuple[CompletionStats, ...]
    spreads: tuple[SpreadOutcome, ...]
    curves: tuple[SpreadCurve, ...]
    storage: tuple[StorageOutcome, ...]
    heat: tuple[HeatMap, ...]
    what_ifs: tuple[WhatIfOutcome, ...]
    training: tuple[TrainingForecast, ...]
    collectives: tuple[CollectiveForecast, ...]
    makespan_s: float
    bytes_sent: float
    bytes_delivered: float
    bytes_dropped: float
    bytes_in_flight: float
    events: int
    assumptions: tuple[Assumption, ...]
    explanations: tuple[Explanation, ...]
    tables: tuple[tuple[str, pl.DataFrame], ...]
