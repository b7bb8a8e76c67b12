"""What takes longer on the training step's page: the search and the scaling curve, for workers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from railweave.errors import InputError
from railweave.predict.plan import NoPlanError
from railweave.predict.plan_space import plan_values
from railweave.predict.plan_study import study_plan
from railweave.report.page_table import PageTable
from railweave.report.training import headline, plan_json
from railweave.report.training_figures import draw_scaling
from railweave.report.training_tables import plan_table, scaling_table
from railweave.studio.design_run import DesignRun, run_key
from railweave.studio.labs._training import (
    DESIGN,
    Given,
    Offer,
    Refusal,
    State,
    fixed_of,
    offers_of,
    question_of,
)
from railweave.studio.state import from_query, to_query

if TYPE_CHECKING:
    from railweave.runs.jobs import JobContext

__all__ = [
    "best_plan",
    "best_work",
    "job_key",
    "only_degrees",
    "refusal_of",
    "scaling",
    "scaling_work",
    "table_of",
]

Progress = Callable[[str, float], None]
Document = dict[str, Any]

#: plans that the search ranks
TOP = 5


def _silent(step: str, fraction: float) -> None:
    """Report progress to nobody."""


def job_key(given: Given, **more: object) -> Document:
    """Return everything that a job's result depends on."""
    state = given.state
    design = "" if state.where != DESIGN else run_key(DesignRun(given.text, file=given.file))
    return {"state": asdict(state), "design": design, "name": given.name, **more}


def only_degrees(state: State) -> dict[str, int]:
    """Return what the inputs fix of the degrees alone."""
    names = ("tensor", "context", "pipeline", "data", "expert")
    return {name: value for name, value in fixed_of(state).items() if name in names}


def best_plan(
    given: Given, fixed: tuple[tuple[str, int], ...], progress: Progress = _silent
) -> Document:
    """Look for the quickest plans with these values given.

    Returns:
        ``plans``: values of each by the names of ``--fix``, the quickest first; ``table`` of them;
        ``said``: what was looked at, and why the first is the first. Where nothing is valid or
        fits, no plans, ``reasons`` and ``offers`` (see :func:`refusal_of`).

    Raises:
        InputError: inputs that mean nothing, whatever the plan.
    """
    question, cluster = question_of(given, fixed=dict(fixed), top=TOP)
    try:
        study = study_plan(question, cluster, progress)
    except NoPlanError as error:
        offers = offers_of(error, given.state, question, cluster)
        return {
            "plans": [],
            "reasons": list(error.reasons),
            "offers": [[offer.text, to_query(offer.state)] for offer in offers],
        }
    return {
        "plans": [plan_values(item.plan) for item in study.search.ranked],
        "table": asdict(plan_table(study.search)),
        "said": [headline(study)[-1], *study.why],
    }


def refusal_of(document: Mapping[str, Any]) -> Refusal:
    """Read why there is no plan, and what would do, from the result of a search."""
    offers = (
        Offer(text, from_query(State, dict(parse_qsl(query)))[0])
        for text, query in document["offers"]
    )
    return Refusal(tuple(document["reasons"]), tuple(offers))


def best_work(asked: tuple[Given, tuple[tuple[str, int], ...]], context: JobContext) -> Document:
    """Do :func:`best_plan` in a worker."""
    return best_plan(*asked, context.progress)


def scaling(given: Given, progress: Progress = _silent) -> Document:
    """Draw the plan over GPU counts.

    Returns:
        ``figure``, ``table``, and ``points`` as ``railweave plan --json`` has them.

    Raises:
        InputError: the plan cannot be, or no count has one.
    """
    question, cluster = question_of(given, fixed=fixed_of(given.state), scaled=True)
    study = study_plan(question, cluster, progress)
    if study.curve is None:
        raise InputError("scaling: name GPU counts")
    prices = {point.gpus: study.price(point.estimate) for point in study.curve.points}
    known = {gpus: price for gpus, price in prices.items() if price is not None}
    return {
        "figure": json.loads(draw_scaling(study.curve).to_json()),
        "table": asdict(scaling_table(study.curve, known)),
        "points": plan_json(study)["scaling"]["points"],
    }


def scaling_work(given: Given, context: JobContext) -> Document:
    """Do :func:`scaling` in a worker."""
    return scaling(given, context.progress)


def table_of(document: Mapping[str, Any]) -> PageTable:
    """Read a table back from a job's result."""
    table = PageTable(**document)
    return replace(
        table,
        header=tuple(table.header),
        rows=tuple(tuple(row) for row in table.rows),
        notes=tuple(table.notes),
        optional=tuple(table.optional),
        text_columns=tuple(table.text_columns),
    )
