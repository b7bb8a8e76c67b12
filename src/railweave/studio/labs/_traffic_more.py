"""Lab 2's placement rules compared and its several jobs, without the page."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from railweave.errors import RailweaveError
from railweave.report.page_table import PageTable
from railweave.report.patterns_model import ModelCase
from railweave.report.patterns_placement import PlacementShares, placement_shares
from railweave.report.patterns_spread import draw_placements
from railweave.report.patterns_tables import placement_table
from railweave.studio.designs import built_design, open_design
from railweave.studio.labs._traffic import State, case_of
from railweave.studio.labs._traffic_model import model_case_of
from railweave.workload.patterns import PatternCase

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from railweave.runs.jobs import JobContext

__all__ = [
    "Placements",
    "interference_command",
    "interference_job",
    "interference_tables",
    "job_names",
    "placements",
]


@dataclass(frozen=True, eq=False)
class Placements:
    """How far the bytes go under each placement rule; ``marked`` is the row of the chosen one."""

    figure: go.Figure
    table: PageTable
    marked: int


def placements(state: State, text: str) -> Placements:
    """Compare the placement rules for what the lab studies.

    Raises:
        InputError: what cannot be studied.
    """
    found = _placed(model_case_of(state) if state.whole else case_of(state), text)
    chosen = next(k for k, one in enumerate(found) if one.placement is state.placement)
    return Placements(draw_placements(found), placement_table(found), chosen)


@lru_cache(maxsize=16)
def _placed(case: PatternCase | ModelCase, text: str) -> tuple[PlacementShares, ...]:
    return placement_shares(case, built_design(text) if text else None)


# ---------------------------------------------------------------- several jobs


def job_names(text: str) -> tuple[str, ...]:
    """Return the jobs of a visitor's design; none without one that can be read."""
    try:
        return tuple(job.name for job in open_design(text).design.jobs) if text else ()
    except RailweaveError:
        return ()


def interference_command(design_name: str) -> str:
    """Return the command that gives the same numbers."""
    import shlex

    return f"railweave simulate {shlex.quote(design_name)} --interference"


def interference_job(text: str, context: JobContext) -> dict[str, Any]:
    """Run a design's jobs alone and together, as placed and by rule, in a worker process.

    Returns the document that ``railweave simulate --interference --json`` prints, and its tables.
    """
    from railweave.predict.interference import compare_placements
    from railweave.report.interference import (
        interference_json,
        interference_table,
        shared_link_table,
    )

    context.progress("build", 0.0)
    found = compare_placements(open_design(text).build(), progress=context.progress)
    tables = [interference_table(found), *map(shared_link_table, found)]
    said = dict.fromkeys(item for one in found for item in one.assumptions)
    return {
        "placements": interference_json(found),
        "tables": [asdict(table) for table in tables if table.rows],
        "assumptions": [f"{item.subject}: {item.statement}" for item in said],
    }


def interference_tables(document: dict[str, Any]) -> tuple[PageTable, ...]:
    """Return a job's tables."""
    return tuple(
        PageTable(
            id=table["id"],
            title=table["title"],
            header=tuple(table["header"]),
            rows=tuple(map(tuple, table["rows"])),
            notes=tuple(table["notes"]),
            optional=tuple(table["optional"]),
            text_columns=tuple(table["text_columns"]),
        )
        for table in document["tables"]
    )
