"""A study of a training plan as tables, as one JSON document, as a page and as a trace."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from railweave.formats.files import staged
from railweave.formats.trace_events import TraceCounter, TraceSpan, TraceThread, write_trace
from railweave.predict._training_types import MemoryUse, StepEstimate, TrainingPlan
from railweave.predict.cost import RunCost
from railweave.predict.plan_space import plan_values
from railweave.predict.plan_study import PlanStudy
from railweave.predict.scaling import NetworkCase, ScalingPoint
from railweave.predict.timeline import Timeline
from railweave.provenance import Assumption
from railweave.report.page_table import PageTable
from railweave.report.plain_page import plain_page
from railweave.report.training_figures import (
    draw_idle,
    draw_memory,
    draw_networks,
    draw_scaling,
    draw_timeline,
)
from railweave.report.training_tables import (
    communication_table,
    cost_table,
    memory_table,
    network_table,
    plan_table,
    scaling_table,
    time_table,
)
from railweave.units import counted, format_seconds, format_si

__all__ = [
    "assumption_table",
    "assumptions",
    "explanation_table",
    "headline",
    "plan_json",
    "step_assumptions",
    "step_json",
    "study_tables",
    "timeline_trace",
    "write_plan_page",
    "write_plan_trace",
]


def headline(study: PlanStudy) -> tuple[str, ...]:
    """Return what was looked for, where, and how much was looked at."""
    space, search = study.search.space, study.search
    tokens = format_si(space.tokens_per_step, "", 4).strip()
    return (
        f"{space.shape.title} on {counted(space.gpus, 'GPU')} ({search.gpu.title})",
        study.cluster.describe(),
        f"{counted(space.batch, 'sequence')} of {space.sequence:,} tokens a step, {tokens} tokens, "
        f"{space.precision.value}",
        f"{counted(search.valid, 'valid plan')}, of which {search.fitting:,} may fit the memory; "
        f"{search.played:,} played: no other can be quicker",
    )


def study_tables(study: PlanStudy) -> tuple[PageTable, ...]:
    """Return the tables of a study, in the order in which they are read."""
    best = study.best
    tables = [
        plan_table(study.search),
        time_table(best),
        memory_table(best),
        communication_table(best),
    ]
    if study.curve is not None:
        prices = {point.gpus: study.price(point.estimate) for point in study.curve.points}
        known = {gpus: price for gpus, price in prices.items() if price is not None}
        tables.append(scaling_table(study.curve, known))
    if study.networks:
        costs = [study.price(case.estimate) for case in study.networks]
        tables.append(network_table(study.networks, [cost for cost in costs if cost is not None]))
    cost = study.price(best)
    if cost is not None:
        tables.append(cost_table(cost))
    return tuple(table for table in tables if table.rows)


def assumptions(study: PlanStudy) -> tuple[Assumption, ...]:
    """Return what the study rests on, each once."""
    given = study.question.input_s
    loading = (
        Assumption(
            "input",
            f"loading a step's samples takes {format_seconds(given)} whatever the plan, the number "
            "of GPUs and the network, beside the step before",
        ),
    )
    return (*step_assumptions(study.best), *(loading if given else ()))


def step_assumptions(estimate: StepEstimate) -> tuple[Assumption, ...]:
    """Return what a step's time and memory rest on, each once."""
    return tuple(dict.fromkeys((*estimate.assumptions, *estimate.memory.assumptions)))


# ---------------------------------------------------------------- JSON


def plan_json(study: PlanStudy) -> dict[str, Any]:
    """Return the document of ``railweave plan``."""
    search = study.search
    document: dict[str, Any] = {
        "model": search.space.shape.name,
        "gpus": search.space.gpus,
        "gpu": search.gpu.name,
        "cluster": study.cluster.describe(),
        "batch": search.space.batch,
        "sequence": search.space.sequence,
        "precision": search.space.precision.value,
        "input_s": study.question.input_s,
        "valid": search.valid,
        "fitting": search.fitting,
        "played": search.played,
        "on_fabric": search.refined,
        "plans": [_estimate(item) for item in search.ranked],
        "best": _detail(study.case),
        "why": list(study.why),
        "assumptions": [dataclasses.asdict(item) for item in assumptions(study)],
        "explanations": [dataclasses.asdict(item) for item in study.best.explanations],
    }
    if study.curve is not None:
        document["scaling"] = {
            "mode": study.curve.mode,
            "points": [
                {**_point(point), "efficiency": study.curve.efficiency(point)}
                for point in study.curve.points
            ],
            "skipped": [list(item) for item in study.curve.skipped],
        }
    if study.networks:
        document["networks"] = [
            {**_case(case), "cost": _cost(study.price(case.estimate))} for case in study.networks
        ]
    document["cost"] = _cost(study.price(study.best))
    return document


def _plan(plan: TrainingPlan) -> dict[str, Any]:
    values: dict[str, Any] = {
        name.replace("-", "_"): value for name, value in plan_values(plan).items()
    }
    values["recompute"] = plan.recompute.value
    values["sequence_parallel"] = plan.sequence_parallel
    return {
        **values,
        "micro_batches": plan.micro_batches,
        "sequences_per_step": plan.sequences_per_step,
        "tokens_per_step": plan.tokens_per_step,
    }


def _estimate(item: StepEstimate) -> dict[str, Any]:
    return {
        "plan": _plan(item.plan),
        "step_s": item.step_s,
        "tokens_per_s": item.tokens_per_s,
        "mfu": item.mfu,
        "flops_per_gpu": item.flops_per_gpu,
        "memory_bytes": item.memory.total_bytes,
        "bubble_s": item.bubble_s,
        "exposed_s": item.exposed_s,
        "network_share": item.network_share,
        "idle_s": dict(item.idle_s),
    }


def _memory(memory: MemoryUse) -> dict[str, Any]:
    return {
        "capacity_bytes": memory.capacity_bytes,
        "usable_bytes": memory.usable_bytes,
        "fits": memory.fits,
        "stages": [
            {**dataclasses.asdict(stage), "total_bytes": stage.total_bytes}
            for stage in memory.stages
        ],
    }


def _detail(case: NetworkCase) -> dict[str, Any]:
    item = case.estimate
    return {
        **_case(case),
        "plan": _plan(item.plan),
        "idle_s": dict(item.idle_s),
        "compute_by_stage": item.compute_by_stage.tolist(),
        "idle_by_stage": {name: by.tolist() for name, by in item.idle_by_stage.items()},
        "memory": _memory(item.memory),
        "communications": _communications(item),
    }


def _communications(item: StepEstimate) -> list[dict[str, Any]]:
    return [
        {
            **dataclasses.asdict(one),
            "op": one.op.value,
            "overlapped_s": one.overlapped_s,
        }
        for one in item.communications
    ]


def step_json(case: NetworkCase) -> dict[str, Any]:
    """Return one step as a document without spans; of the memory only the fullest stage."""
    item = case.estimate
    memory = item.memory
    fullest = memory.fullest
    return {
        **_estimate(item),
        "without_network_s": case.free_s,
        "lost_share": case.lost_share,
        "compute_s": item.compute_s,
        "gpu": item.gpu.name,
        "memory": {
            "capacity_bytes": memory.capacity_bytes,
            "usable_bytes": memory.usable_bytes,
            "fits": memory.fits,
            **dataclasses.asdict(fullest),
            "total_bytes": fullest.total_bytes,
        },
        "communications": _communications(item),
        "assumptions": [dataclasses.asdict(one) for one in step_assumptions(item)],
    }


def _case(case: NetworkCase) -> dict[str, Any]:
    item = case.estimate
    return {
        "name": case.name,
        "step_s": item.step_s,
        "tokens_per_s": item.tokens_per_s,
        "mfu": item.mfu,
        "without_network_s": case.free_s,
        "lost_share": case.lost_share,
        "exposed_share": item.network_share,
    }


def _point(point: ScalingPoint) -> dict[str, Any]:
    return {
        "gpus": point.gpus,
        "kept": point.kept,
        "plan": _plan(point.estimate.plan),
        **_case(point.case),
    }


def _cost(cost: RunCost | None) -> dict[str, Any] | None:
    if cost is None:
        return None
    return {
        "gpu_hour": cost.gpu_hour,
        "step_price": cost.step_price,
        "lost": dict(cost.lost),
        "steps": cost.length.steps if cost.length else None,
        "tokens": cost.length.tokens if cost.length else None,
        "run_s": cost.run_s,
        "run_gpu_hours": cost.run_gpu_hours,
        "run_price": cost.run_price,
        "run_lost": dict(cost.run_lost),
    }


# ---------------------------------------------------------------- trace


def timeline_trace(
    timeline: Timeline, plan: TrainingPlan
) -> tuple[list[TraceThread], Iterator[TraceSpan | TraceCounter]]:
    """Return a timeline's lines and events: a process a pipeline stage, a thread a stream.

    A process has the number of its stage's first rank: all ranks of a stage of a replica do the
    same. The counter is the passes whose activations are kept.
    """
    per_stage = plan.ranks // timeline.stages
    pairs = np.unique(np.stack((timeline.stage, timeline.stream), axis=1), axis=0)
    threads = [
        TraceThread(
            int(stage) * per_stage,
            int(stream),
            f"stage {stage}: ranks {stage * per_stage}–{(stage + 1) * per_stage - 1}",
            timeline.streams[stream],
        )
        for stage, stream in pairs
    ]
    return threads, _events(timeline, per_stage)


def _events(timeline: Timeline, per_stage: int) -> Iterator[TraceSpan | TraceCounter]:
    for i in range(len(timeline)):
        name = timeline.names[timeline.name[i]]
        details = {"stage": int(timeline.stage[i])}
        for key, value in (("chunk", timeline.chunk[i]), ("micro_batch", timeline.micro_batch[i])):
            if value >= 0:
                details[key] = int(value)
        batch = details.get("micro_batch")
        yield TraceSpan(
            int(timeline.stage[i]) * per_stage,
            int(timeline.stream[i]),
            name if batch is None else f"{name} {batch}",
            float(timeline.start_s[i]),
            float(timeline.end_s[i] - timeline.start_s[i]),
            timeline.streams[timeline.stream[i]],
            details,
        )
    yield from _kept(timeline, per_stage)


def _kept(timeline: Timeline, per_stage: int) -> Iterator[TraceCounter]:
    """Yield how many passes' activations each stage keeps, whenever that changes."""
    forward, backward = (timeline.names.index(name) for name in ("forward", "backward"))
    for stage in range(timeline.stages):
        mine = timeline.stage == stage
        starts = timeline.start_s[mine & (timeline.name == forward)]
        ends = timeline.end_s[mine & (timeline.name == backward)]
        times = np.concatenate((starts, ends))
        steps = np.concatenate((np.ones(len(starts)), -np.ones(len(ends))))
        order = np.argsort(times, kind="stable")
        kept = np.cumsum(steps[order])
        for time, count in zip(times[order].tolist(), kept.tolist(), strict=True):
            yield TraceCounter(stage * per_stage, "passes kept", time, {"passes": count})


def write_plan_trace(study: PlanStudy, path: Path) -> Path:
    """Write the quickest plan's timeline as a trace for Perfetto; ``….gz`` is compressed."""
    plan = study.best.plan
    threads, events = timeline_trace(study.timeline, plan)
    about = {
        "model": plan.shape.name,
        "plan": plan.describe(),
        "cluster": study.cluster.describe(),
        "step_s": study.best.step_s,
    }
    return write_trace(path, threads, events, about=about)


# ---------------------------------------------------------------- page


def write_plan_page(study: PlanStudy, path: Path) -> Path:
    """Write one self-contained page: figures, what is said of them, tables, assumptions."""
    best = study.best
    figures = [draw_timeline(study.timeline), draw_idle(best), draw_memory(best)]
    if study.curve is not None:
        figures.append(draw_scaling(study.curve))
    if study.networks:
        figures.append(draw_networks(study.networks))
    said = [*headline(study), *study.why]
    page = plain_page(
        f"Training plan: {study.search.space.shape.title}",
        figures,
        said,
        (*study_tables(study), explanation_table(best), assumption_table(assumptions(study))),
    )
    with staged(path.parent) as stage:
        return stage.write_text(path.name, page)


def explanation_table(estimate: StepEstimate) -> PageTable:
    """Return how the headline numbers come about: the formula of each, and the inputs once."""
    inputs: dict[str, float] = {}
    for item in estimate.explanations:
        inputs |= item.inputs
    named = ", ".join(f"{name} = {value:.5g}" for name, value in inputs.items())
    return PageTable(
        "formulas",
        "Formula and inputs of the headline numbers",
        ("quantity", "value", "formula"),
        tuple(
            (item.quantity, f"{item.value:.5g} {item.unit}".strip(), item.formula)
            for item in estimate.explanations
        ),
        (f"Inputs: {named}.",),
        text_columns=("formula",),
    )


def assumption_table(said: Sequence[Assumption]) -> PageTable:
    """Return assumptions as a table."""
    return PageTable(
        "assumptions",
        "What this rests on, and what it does not model",
        ("of", "assumed", "how sure"),
        tuple((item.subject, item.statement, item.certainty.value) for item in said),
        text_columns=("assumed", "how sure"),
    )
