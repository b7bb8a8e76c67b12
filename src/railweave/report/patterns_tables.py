"""Tables of patterns: what each kind of group of a model sends, and placement rules compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from railweave.predict.plan import NearestPlan
from railweave.report.page_table import DASH, PageTable
from railweave.units import format_si

if TYPE_CHECKING:
    from railweave.report.patterns_model import ModelStudy
    from railweave.report.patterns_placement import PlacementShares

__all__ = ["group_table", "nearest_json", "placement_table"]


def group_table(study: ModelStudy) -> PageTable:
    """Return one row for each kind of group, that which sends most first."""
    rows = tuple(
        (
            group.kind,
            " + ".join(op.value for op in group.operations),
            f"{group.groups:,} × {group.members:,}",
            format_si(group.bytes_sent_per_gpu, "B"),
            format_si(group.total_bytes, "B"),
            f"{group.share:.1%}",
            f"{group.share_server:.1%}",
            f"{group.share_leaf:.1%}",
            f"{group.share_spine:.1%}",
            f"{group.share_core:.1%}",
        )
        for group in study.groups
    )
    return PageTable(
        "groups",
        "What each kind of group sends in a step",
        (
            "groups",
            "operation",
            "groups × ranks",
            "a GPU sends",
            "all send",
            "share",
            "server",
            "leaf",
            "spine",
            "core",
        ),
        rows,
        (
            "What a GPU sends is of the one that sends most; share: of all bytes. Server to core: "
            "parts of the kind's own bytes that stay in the server, cross no more than a leaf, a "
            "spine, a core.",
        ),
        ("core", "groups × ranks", "all send", "leaf"),
        ("operation",),
    )


def placement_table(found: Sequence[PlacementShares]) -> PageTable:
    """Return one row for each placement rule, in the order given."""
    rows = tuple(
        (
            one.placement.value,
            *((DASH,) * 5 if one.problem else _parts(one)),
        )
        for one in found
    )
    problems = tuple(f"{one.placement.value}: {one.problem}." for one in found if one.problem)
    return PageTable(
        "placements",
        "How far the bytes go by placement rule",
        (
            "placement",
            "servers",
            "in the server",
            "under a leaf",
            "across a spine",
            "bytes across",
        ),
        rows,
        (
            "Parts of a step's bytes by the farthest place they pass, each message through its own "
            "GPU's NIC; across a spine includes cores. Random and fragments are drawn with the "
            "design's seed.",
            *problems,
        ),
    )


def _parts(one: PlacementShares) -> tuple[str, ...]:
    crossing = one.shares.spine_bytes + one.shares.core_bytes
    return (
        f"{one.servers:,}",
        f"{one.share('server'):.1%}",
        f"{one.share('leaf'):.1%}",
        f"{one.crossing:.1%}",
        format_si(crossing, "B"),
    )


def nearest_json(found: Sequence[NearestPlan]) -> list[dict[str, object]]:
    """Return plans that would do as plain data."""
    return [
        {
            "plan": near.estimate.plan.describe(),
            "changes": list(near.changes),
            "step_s": near.estimate.step_s,
        }
        for near in found
    ]
