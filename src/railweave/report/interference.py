"""Tables of :mod:`railweave.predict.interference`, and its numbers as a document."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from railweave.predict.interference import Interference
from railweave.report.page_table import PageTable, known
from railweave.units import format_seconds

__all__ = ["interference_json", "interference_table", "shared_link_table"]

_MOST_ROWS = 12


def _rule(found: Interference) -> str:
    return found.placement.value if found.placement else "as designed"


def interference_table(found: Sequence[Interference]) -> PageTable:
    """Return one row for each job under each placement."""
    rows = tuple(
        (
            job.name,
            _rule(one),
            f"{job.ranks:,}",
            known(job.alone_s, format_seconds),
            known(job.together_s, format_seconds),
            known(job.slowdown, "{:.3g}×".format),
            known(job.overlap, "{:.0%}".format),
            f"{job.share_crossing:.1%}",
            f"{job.shared_links:,}",
        )
        for name in dict.fromkeys(job.name for one in found for job in one.jobs)
        for one in found
        for job in one.jobs
        if job.name == name
    )
    others = dict.fromkeys(name for one in found for name in one.others)
    beside = (f"Together includes {', '.join(others)}.",) if others else ()
    return PageTable(
        "interference",
        "Jobs alone and together",
        (
            "job",
            "placement",
            "ranks",
            "alone",
            "together",
            "slowdown",
            "overlap",
            "across spines",
            "shared links",
        ),
        rows,
        (
            "Times are of one iteration, through the same engine on the same GPUs. Overlap is the "
            "part of a job's time in which another ran too; shared links are those of the network, "
            "each way for itself, that another job uses as well.",
            *beside,
        ),
        ("ranks", "across spines"),
        ("placement",),
    )


def shared_link_table(found: Interference) -> PageTable:
    """Return the links that jobs share, those first that are asked for most; no rows if none."""
    rows = tuple(
        (
            f"{link.source} → {link.destination}",
            ", ".join(
                f"{name} {load:.0%}" for name, load in zip(link.jobs, link.loads, strict=True)
            ),
            f"{link.asked:.0%}",
        )
        for link in found.links[:_MOST_ROWS]
    )
    return PageTable(
        f"shared-links-{_rule(found)}".replace(" ", "-"),
        f"Links that jobs share ({_rule(found)})",
        ("link", "mean load of each job alone", "asked for"),
        rows,
        (
            f"{found.shared_links:,} links are shared; {found.contended_links:,} of them are asked "
            "for more than they have while all jobs run. Jobs send in bursts: links asked for less "
            "than 100 % can be contended for moments.",
        ),
        (),
        ("mean load of each job alone",),
    )


def interference_json(found: Sequence[Interference]) -> list[dict[str, Any]]:
    """Return everything as plain data."""
    return [
        {
            "placement": _rule(one),
            "engine": one.engine,
            "jobs": [{**dataclasses.asdict(job), "slowdown": job.slowdown} for job in one.jobs],
            "links": [{**dataclasses.asdict(link), "asked": link.asked} for link in one.links],
            "shared_links": one.shared_links,
            "contended_links": one.contended_links,
            "makespan_s": one.makespan_s,
            "others": list(one.others),
            "assumptions": [dataclasses.asdict(item) for item in one.assumptions],
        }
        for one in found
    ]
