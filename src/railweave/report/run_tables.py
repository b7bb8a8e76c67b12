"""Tables of a run: jobs, completion, spread over equal links, storage, what-ifs."""

from __future__ import annotations

import math

from railweave.report.page_table import DASH, PageTable, known
from railweave.report.record import RunRecord
from railweave.units import format_bits_rate, format_bytes, format_seconds, format_si

__all__ = [
    "completion_table",
    "group_table",
    "job_table",
    "spread_table",
    "storage_table",
    "what_if_table",
]


def _rate(value: float) -> str:
    return f"{value / 1e9:.4g} GB/s"


def job_table(record: RunRecord) -> PageTable:
    """Return one row a job."""
    rows = tuple(
        (
            job.name,
            f"{job.what} {job.algorithm}".strip(),
            f"{job.ranks:,}",
            known(job.size_bytes, format_bytes),
            known(job.time_s, format_seconds),
            known(job.analytic_s, format_seconds),
            known(job.algbw_Bps, _rate),
            known(job.busbw_Bps, _rate),
        )
        for job in record.jobs
    )
    return PageTable(
        "jobs",
        "Jobs on this fabric",
        ("job", "what", "ranks", "size", "time", "closed form", "algbw", "busbw"),
        rows,
        (
            "Time is of one iteration; the closed form is alpha–beta on the job's own routed "
            "paths: each message at its share of the busiest link it crosses within the job, and "
            "no other traffic.",
        ),
        ("closed form", "algbw", "size"),
        ("what",),
    )


def group_table(record: RunRecord) -> PageTable:
    """Return how far the bytes of each kind of parallel group go; no rows without training jobs."""
    rows = tuple(
        (
            f"{job.name}: {group.kind}",
            format_si(total, "B"),
            *(f"{part / total:.1%}" for part in parts),
        )
        for job in record.jobs
        for group in job.groups
        for parts in [
            (group.server_bytes, group.leaf_bytes, group.spine_bytes, group.core_bytes),
        ]
        if (total := sum(parts)) > 0
    )
    return PageTable(
        "groups",
        "Bytes of a training step by parallel group",
        ("group", "sent", "in server", "under a leaf", "across a spine", "across a core"),
        rows,
        ("All ranks together; where the bytes end follows from the degrees and the placement.",),
        ("across a core",),
    )


def completion_table(record: RunRecord) -> PageTable:
    """Return one row a label of traffic."""
    rows = tuple(
        (
            stats.label,
            f"{stats.streams:,}",
            known(stats.p50_s, format_seconds),
            known(stats.p99_s, format_seconds),
            known(stats.max_s, format_seconds),
            known(stats.slowdown_p50, "{:.3g}".format),
            known(stats.slowdown_p99, "{:.3g}".format),
        )
        for stats in record.completions
    )
    return PageTable(
        "completion",
        "Flow completion and slowdown",
        ("traffic", "streams", "p50", "p99", "max", "slowdown p50", "slowdown p99"),
        rows,
        (
            "Slowdown is a stream's time over the time it would take alone on its path. Streams of "
            "a ring, tree or pipeline share their task's, in which they also wait for each other: "
            "a training step's slowdown includes waiting for the pipeline.",
        ),
        ("max", "streams"),
    )


def spread_table(record: RunRecord) -> PageTable:
    """Return how evenly each kind of traffic loads the leaves' uplinks."""
    rows = tuple(
        (
            item.label,
            f"{item.flows:,}",
            f"{item.links:,}",
            f"{item.worst_ratio:.3g}",
            f"{item.fairness:.3f}",
            f"{item.idle_share:.1%}",
        )
        for item in record.spreads
    )
    return PageTable(
        "spread",
        "How evenly traffic spreads over equal links",
        ("traffic", "flows", "uplinks", "busiest / mean", "fairness", "idle"),
        rows,
        (
            "Bytes on the uplinks of the leaves in use. Fairness is Jain's index, 1 is perfect: "
            "many short flows hash evenly, a few long ones do not.",
        ),
        ("uplinks",),
    )


def storage_table(record: RunRecord) -> PageTable:
    """Return one row a storage traffic."""
    rows = tuple(
        (
            item.name,
            known(item.checkpoint_s, format_seconds),
            format_seconds(item.period_s) if math.isfinite(item.checkpoint_s) else DASH,
            known(item.lost_share, "{:.3%}".format),
            known(item.ingest_wanted_Bps * 8, format_bits_rate),
            known(item.ingest_reached_Bps * 8, format_bits_rate),
        )
        for item in record.storage
    )
    return PageTable(
        "storage",
        "Storage traffic",
        ("traffic", "checkpoint takes", "every", "time lost", "ingest asked", "ingest reached"),
        rows,
        ("Ingest is the sum over all servers.",),
        ("every",),
    )


def what_if_table(record: RunRecord) -> PageTable:
    """Return one row a failure."""
    rows = tuple(
        (
            outcome.name,
            f"{outcome.links_down:,}",
            f"{outcome.bisection_left:.1%}",
            f"{outcome.gpus_cut_off:,}",
            *(
                f"{factor:.3g}×" if math.isfinite(factor) else "never ends"
                for _, factor in outcome.job_factors
            ),
        )
        for outcome in record.what_ifs
    )
    return PageTable(
        "what-ifs",
        "What one failure costs",
        (
            "out",
            "links down",
            "bisection left",
            "GPUs without NIC",
            *(f"{job.name} takes" for job in record.jobs),
        ),
        rows,
        (
            "One link between switches and one switch of each tier, the first of its kind. A GPU "
            "without its NIC still sends through NVLink and another GPU's.",
        ),
    )
