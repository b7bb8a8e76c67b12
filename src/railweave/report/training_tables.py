"""Tables of training plans: the ranking, time, memory and communication of one, scaling, prices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from railweave.predict._training_types import GroupCommunication, StepEstimate, TrainingPlan
from railweave.predict.cost import RunCost
from railweave.predict.plan import PlanSearch
from railweave.predict.scaling import NetworkCase, ScalingCurve
from railweave.report.page_table import DASH, PageTable
from railweave.units import format_bytes, format_seconds, format_si

__all__ = [
    "communication_table",
    "cost_table",
    "memory_table",
    "network_table",
    "plan_table",
    "scaling_table",
    "time_table",
]

_SHORT_RECOMPUTE: Final = {"none": "none", "selective": "sel.", "full": "full"}
#: shares of a step below this are rounding
_NOTHING: Final = 1e-7
#: stages a table or figure shows before it leaves some out
MOST_STAGES: Final = 16


def shown_stages(count: int, most: int = MOST_STAGES) -> list[int]:
    """Return the stages that are shown: all, or some evenly with both ends."""
    if count <= most:
        return list(range(count))
    return sorted({round(i * (count - 1) / (most - 1)) for i in range(most)})


def money(value: float) -> str:
    """Write an amount with thousands or three digits: ``1,234,567``, ``12.34``, ``0.0427``."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) >= 1 or not value else f"{value:.3g}"


def _gb(value: float) -> str:
    return f"{value / 1e9:.1f}"


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def _pipeline(plan: TrainingPlan) -> str:
    chunks = f"×{plan.interleave}" if plan.interleave > 1 else ""
    return f"{plan.degrees.pipeline}{chunks}"


def plan_table(search: PlanSearch) -> PageTable:
    """Return the ranking, the quickest first."""
    ranked = search.ranked
    several = {
        "CP": any(item.plan.degrees.context > 1 for item in ranked),
        "EP": any(item.plan.degrees.expert > 1 for item in ranked),
    }
    header = ["#", "TP", "CP", "PP", "EP", "DP", "m×b", "Z", "rec.", "step", "tok/s", "MFU"]
    header += ["GB", "exp.", "bub."]
    keep = [i for i, name in enumerate(header) if several.get(name, True)]
    rows = []
    for number, item in enumerate(ranked, 1):
        plan, degrees = item.plan, item.plan.degrees
        cells = (
            f"{number}",
            f"{degrees.tensor}{'s' if plan.sequence_parallel and degrees.tensor > 1 else ''}",
            f"{degrees.context}",
            _pipeline(plan),
            f"{degrees.expert}",
            f"{degrees.data}",
            f"{plan.micro_batches}×{plan.micro_batch}",
            f"{plan.zero}",
            _SHORT_RECOMPUTE[plan.recompute.value],
            format_seconds(item.step_s),
            format_si(item.tokens_per_s, "", 3).strip(),
            f"{100 * item.mfu:.1f}",
            _gb(item.memory.total_bytes),
            f"{100 * item.network_share:.1f}",
            f"{100 * item.bubble_s / item.step_s:.1f}",
        )
        rows.append(tuple(cells[i] for i in keep))
    return PageTable(
        "plans",
        f"Quickest of {search.valid:,} valid plans, one for each set of degrees",
        tuple(header[i] for i in keep),
        tuple(rows),
        (
            "TP with s: sequence parallel; PP a×b: b chunks a stage; m×b: micro-batches × "
            "sequences; Z: ZeRO.",
            "exp.: share of the step a GPU waits for communication, bub.: for the pipeline, %.",
            *_by_closed_forms(search),
        ),
        ("tok/s", "bub."),
    )


def _by_closed_forms(search: PlanSearch) -> tuple[str, ...]:
    """Say which rows were not estimated on the fabric, where others were."""
    if not 0 < search.refined < len(search.ranked):
        return ()
    return (f"Rows after #{search.refined} are by closed forms; those above by the flow engine.",)


def time_table(estimate: StepEstimate) -> PageTable:
    """Return where a GPU's time goes in a step: mean, and on the stage that has most of it."""
    step_s = estimate.step_s
    parts: dict[str, np.ndarray] = {"arithmetic": estimate.compute_by_stage}
    parts |= dict(estimate.idle_by_stage)
    rows = []
    for name, by_stage in parts.items():
        mean, most = float(by_stage.mean()), float(by_stage.max())
        if most < _NOTHING * step_s:
            continue
        where = int(by_stage.argmax())
        stage = f"{format_seconds(most)} on {where}" if len(by_stage) > 1 else DASH
        rows.append((name, format_seconds(mean), _percent(mean / step_s), stage))
    rows.append(("step", format_seconds(step_s), _percent(1.0), DASH))
    return PageTable(
        "time",
        "Where a GPU's time goes",
        ("", "mean of a GPU", "of the step", "most, on stage"),
        tuple(rows),
    )


def memory_table(estimate: StepEstimate) -> PageTable:
    """Return the memory of the GPUs of each stage by part, in GB."""
    memory = estimate.memory
    full = memory.fullest.stage
    shown = sorted({*shown_stages(len(memory.stages), 6), full})
    rows = []
    for number in shown:
        stage = memory.stages[number]
        parts = (
            stage.weights_bytes,
            stage.gradients_bytes,
            stage.optimizer_bytes,
            stage.activations_bytes,
            stage.workspace_bytes,
            stage.total_bytes,
        )
        share = stage.total_bytes / memory.usable_bytes
        rows.append((f"{number}", *(_gb(part) for part in parts), _percent(share)))
    left = len(memory.stages) - len(shown)
    return PageTable(
        "memory",
        "Memory of a GPU by pipeline stage, GB",
        ("stage", "weights", "grads", "optim.", "activ.", "work", "all", "of usable"),
        tuple(rows),
        (
            f"Usable are {_gb(memory.usable_bytes)} of {_gb(memory.capacity_bytes)} GB; work: "
            "logits, gathered weights, recomputed layer."
            + (f" {left} stages between are left out." if left else ""),
        ),
    )


def _places(item: GroupCommunication) -> str:
    shares = item.places
    named = (
        ("server", shares.server),
        ("leaf", shares.leaf),
        ("spine", shares.spine),
        ("core", shares.core),
    )
    said = [f"{name} {100 * share:.0f} %" for name, share in named if share >= 0.005]
    return ", ".join(said) or DASH


def communication_table(estimate: StepEstimate) -> PageTable:
    """Return what each kind of group sends in a step, where it goes, and what is exposed of it."""
    names = [f"{item.kind}: {item.purpose}" for item in estimate.communications]
    rows = tuple(
        (
            # the same done by two operations, as sequence parallelism does
            name if names.count(name) == 1 else f"{name}, {item.op.value}",
            f"{item.members}",
            format_bytes(float(f"{item.bytes_sent:.4g}")),
            format_seconds(item.time_s),
            format_seconds(item.exposed_s),
            _places(item),
        )
        for name, item in zip(names, estimate.communications, strict=True)
    )
    return PageTable(
        "communication",
        "Communication of the busiest GPU in a step",
        ("group", "ranks", "sent", "takes", "exposed", "farthest place"),
        rows,
        ("takes: all operations one after the other; what is not exposed is overlapped.",),
        ("farthest place",),
        ("farthest place",),
    )


def scaling_table(curve: ScalingCurve, costs: Mapping[int, RunCost] | None = None) -> PageTable:
    """Return the curve, with the price of a step at each count where ``costs`` has it."""
    rows: list[tuple[str, ...]] = []
    for point in curve.points:
        plan, item = point.estimate.plan, point.estimate
        degrees = plan.degrees
        context = f" CP {degrees.context}" if degrees.context > 1 else ""
        named = f"TP {degrees.tensor}{context} PP {_pipeline(plan)} DP {degrees.data}"
        price = costs.get(point.gpus) if costs else None
        rows.append(
            (
                f"{point.gpus:,}",
                named + ("" if point.kept else " *"),
                f"{plan.sequences_per_step:,}",
                format_seconds(item.step_s),
                format_si(item.tokens_per_s, "", 3).strip(),
                f"{100 * item.mfu:.1f}",
                _percent(curve.efficiency(point)),
                _percent(point.case.lost_share),
                money(price.step_price) if price else DASH,
            )
        )
    header = ["GPUs", "plan", "batch", "step", "tok/s", "MFU", "effic.", "network", "price"]
    if not costs:
        header, rows = header[:-1], [row[:-1] for row in rows]
    notes = ["network: share of the step lost to it; effic.: tokens a GPU against the first row."]
    if not all(point.kept for point in curve.points):
        notes.append(
            "*: another plan than the first, quicker by more than 1 % or the only one that fits."
        )
    notes += [f"{gpus:,} GPUs: by closed forms ({why})" for gpus, why in curve.by_closed_forms]
    notes += [f"{gpus:,} GPUs: no plan ({reason})" for gpus, reason in curve.skipped]
    return PageTable(
        "scaling",
        f"{'Weak' if curve.mode == 'weak' else 'Strong'} scaling",
        tuple(header),
        tuple(rows),
        tuple(notes),
        ("MFU", "batch"),
        ("plan",),
    )


def network_table(cases: Sequence[NetworkCase], costs: Sequence[RunCost] = ()) -> PageTable:
    """Return the same plan on several networks; slower and extra price are against the first."""
    first = cases[0].step_s
    rows = []
    for number, case in enumerate(cases):
        slower = case.step_s / first - 1
        cells = [
            case.name,
            format_seconds(case.step_s),
            DASH if number == 0 else f"{100 * slower:+.2f} %",
            _percent(case.lost_share),
            _percent(case.estimate.network_share),
        ]
        if costs:
            cost = costs[number]
            cells.append(money(cost.step_price))
            run, base = cost.run_price, costs[0].run_price
            if base is not None and run is not None:
                more = run - base if abs(run - base) > _NOTHING * base else 0.0
                cells.append(DASH if number == 0 else money(more))
        rows.append(tuple(cells))
    header = ["network", "step", "against first", "lost to it", "exposed"]
    header += ["price", "run, more"][: len(rows[0]) - len(header)]
    return PageTable(
        "networks",
        "The same plan on other networks",
        tuple(header),
        tuple(rows),
        ("lost to it: what the step would gain from a network that takes no time.",),
        ("exposed",),
    )


def cost_table(cost: RunCost) -> PageTable:
    """Return what a step and a run cost, and what of it was paid for idle GPUs."""
    run = cost.run_price is not None
    rows = [("all", money(cost.step_price), money(cost.run_price or 0.0), _percent(1.0))]
    lost = cost.run_lost
    for reason, price in cost.lost.items():
        if price > _NOTHING * cost.step_price:
            share = _percent(price / cost.step_price)
            rows.append((reason, money(price), money(lost.get(reason, 0.0)), share))
    header = ("paid for", "a step", "the run", "of it")
    keep = (0, 1, 2, 3) if run else (0, 1, 3)
    notes = [f"{cost.gpus:,} GPUs at {cost.gpu_hour:g} a GPU-hour."]
    if cost.length is not None and cost.run_s is not None:
        notes[0] = (
            f"{cost.gpus:,} GPUs at {cost.gpu_hour:g} a GPU-hour; the run: "
            f"{cost.length.steps:,} steps, {format_si(cost.length.tokens, '', 4).strip()} tokens, "
            f"{cost.run_s / 86400:.4g} days."
        )
    return PageTable(
        "cost",
        "Price, and what is paid for idle GPUs",
        tuple(header[i] for i in keep),
        tuple(tuple(row[i] for i in keep) for row in rows),
        tuple(notes),
    )
