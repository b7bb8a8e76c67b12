"""The training step's page in numbers, words, tables and figures, from a study of it."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from railweave.report.page_table import PageTable
from railweave.report.training import assumptions, explanation_table, study_tables, write_plan_trace
from railweave.report.training_figures import draw_idle, draw_memory, draw_timeline
from railweave.report.training_tables import memory_table, money
from railweave.studio.content import learn
from railweave.studio.lab import Number, Reproduce, TraceRow
from railweave.studio.labs._training import (
    DESIGN,
    Given,
    Refusal,
    answer,
    fixed_of,
    fixed_text,
    question_of,
)
from railweave.units import format_seconds, format_si

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from railweave.predict.plan_study import PlanQuestion, PlanStudy
    from railweave.predict.step import StepEstimate

__all__ = [
    "Refused",
    "View",
    "memory_figure",
    "step_figures",
    "timeline_view",
    "trace_file",
    "view",
]

#: spans of the timeline that the trace lists
_MOST_SPANS: Final = 400


@dataclass(frozen=True, eq=False)
class View:
    """What is shown of a step at once; figures follow."""

    numbers: tuple[Number, ...]
    words: tuple[str, ...]
    reproduce: Reproduce
    limits: tuple[str, ...]
    tables: Mapping[str, PageTable]


@dataclass(frozen=True, eq=False)
class Refused:
    """What is shown where the plan cannot be: the refusal, and the memory of what was asked."""

    refusal: Refusal
    memory: PageTable | None
    reproduce: Reproduce


def view(given: Given) -> View | Refused:
    """Answer the inputs.

    Raises:
        InputError: inputs that mean nothing, whatever the plan.
    """
    found = answer(given)
    if isinstance(found, Refusal):
        return refused(given, found)
    tables = {table.id: table for table in study_tables(found)}
    tables["formulas"] = explanation_table(found.best)
    return View(
        numbers=_numbers(found),
        words=_words(found),
        reproduce=_reproduce(given),
        limits=_limits(found),
        tables=tables,
    )


def refused(given: Given, refusal: Refusal) -> Refused:
    """Return what is shown of a refusal."""
    memory = memory_table(refusal.asked) if refusal.asked else None
    return Refused(refusal, memory, _reproduce(given))


# ---------------------------------------------------------------- numbers and words


def _share(value: float) -> str:
    return f"{100 * value:.1f} %"


def _numbers(study: PlanStudy) -> tuple[Number, ...]:
    best, memory = study.best, study.best.memory
    idle = sum(best.idle_s.values()) / best.step_s
    room = memory.total_bytes / memory.usable_bytes
    said = [
        Number("step_time", "Time of a step", format_seconds(best.step_s), best.step_s),
        Number("tokens_per_s", "Tokens a second", rate(best.tokens_per_s), best.tokens_per_s),
        Number("mfu", "MFU", _share(best.mfu), best.mfu),
        _part("bubble", "Pipeline bubble", best.bubble_s, best),
        _part("exposed_communication", "Waits for communication", best.exposed_s, best),
        Number(
            "lost_to_network", "Lost to the network", _share(study.case.lost_share),
            study.case.lost_share,
        ),
        Number("gpu_idle", "A GPU is idle", _share(idle), idle),
        Number("gpu_memory", "Memory of the fullest GPU", gigabytes(memory.total_bytes),
               memory.total_bytes),
        Number("memory_share", "Of the usable", _share(room), room),
    ]  # fmt: skip
    cost = study.price(best)
    if cost is not None:
        idle_price = sum(cost.lost.values())
        said += [
            Number("step_price", "A step costs", money(cost.step_price), cost.step_price),
            Number("idle_price", "Of it for idle GPUs", money(idle_price), idle_price),
        ]
        if cost.run_price is not None:
            said.append(Number("run_price", "The run costs", money(cost.run_price), cost.run_price))
    return tuple(said)


def _part(key: str, label: str, value_s: float, best: StepEstimate) -> Number:
    return Number(key, label, _share(value_s / best.step_s), value_s / best.step_s)


def rate(tokens_per_s: float) -> str:
    """Write tokens a second."""
    return format_si(tokens_per_s, "", 4).strip()


def gigabytes(size_bytes: float) -> str:
    """Write a memory's bytes in GB, as figures and tables do."""
    return f"{size_bytes / 1e9:.1f} GB"


def _words(study: PlanStudy) -> tuple[str, ...]:
    best, space = study.best, study.search.space
    memory = best.memory
    how = "by the flow engine on the fabric" if study.search.refined else "by closed forms"
    full = memory.fullest.stage
    sentences = [
        f"{space.shape.title} on {space.gpus:,} GPUs, {space.batch:,} sequences of "
        f"{space.sequence:,} tokens a step: {best.plan.describe()}. Communication {how}.",
        f"It fits: the GPUs of stage {full} are the fullest, with {gigabytes(memory.total_bytes)} "
        f"of {gigabytes(memory.usable_bytes)} that are usable.",
    ]
    largest = max(best.idle_s, key=lambda reason: best.idle_s[reason])
    if best.idle_s[largest] > 0.001 * best.step_s:
        price = study.price(best)
        paid = f", {money(price.lost[largest])} of {money(price.step_price)}" if price else ""
        sentences.append(
            f"GPUs lose most to: {largest}, {format_seconds(best.idle_s[largest])} of "
            f"{format_seconds(best.step_s)}{paid}."
        )
    if study.case.lost_share >= 0.0005:
        sentences.append(
            f"With a network that takes no time a step would take "
            f"{format_seconds(study.case.free_s)}."
        )
    return tuple(sentences)


def _limits(study: PlanStudy) -> tuple[str, ...]:
    said = [f"{item.subject}: {item.statement}." for item in assumptions(study)]
    return (*learn("training").limits, *said)


# ---------------------------------------------------------------- the same outside the studio


def _reproduce(given: Given) -> Reproduce:
    """Return the command and the Python of step and scaling curve.

    Of a plan that cannot be they say so, as the page does.
    """
    state = given.state
    question, cluster = question_of(given, fixed=fixed_of(state), scaled=True)
    words = ["railweave", "plan", question.shape.name, "--gpus", str(cluster.gpus)]
    words += ["--design", given.name] if state.where == DESIGN else ["--server", state.where]
    words += ["--batch", str(question.batch), "--sequence", str(question.sequence)]
    words += ["--precision", question.precision.value]
    words += ["--fix", fixed_text(question.fixed)] if question.fixed else []
    words += ["--scale", ",".join(map(str, question.counts)), "--scaling", question.mode]
    if question.gpu_hour is not None:
        words += ["--gpu-hour", f"{question.gpu_hour:.12g}"]
    if question.tokens is not None:
        words += ["--tokens", f"{question.tokens:.0f}"]
    return Reproduce(shlex.join([*words, "--top", "1"]), _python(given, question, cluster.gpus))


def _python(given: Given, question: PlanQuestion, gpus: int) -> str:
    if given.state.where == DESIGN:
        imports = [
            "import railweave",
            "from railweave.predict.plan_cluster import cluster_of_design",
        ]
        made = [
            f"built = railweave.load({given.name!r}).build()",
            f"cluster = cluster_of_design(built, {gpus})",
            "catalog = built.document.catalog",
        ]
    else:
        imports = [
            "from railweave.catalog import default_catalog",
            "from railweave.predict.plan_cluster import cluster_of_server",
        ]
        made = [
            "catalog = default_catalog()",
            f"cluster = cluster_of_server(catalog, {given.state.where!r}, {gpus})",
        ]
    fixed = []
    if question.fixed:
        imports += ["from railweave.predict.plan_space import parse_fixed"]
        fixed = [f"    fixed=parse_fixed({fixed_text(question.fixed)!r}),"]
    lines = [
        *imports,
        "from railweave.predict.plan_study import PlanQuestion, study_plan",
        "from railweave.predict.step import Precision",
        "",
        *made,
        "question = PlanQuestion(",
        f"    catalog.model({question.shape.name!r}),",
        f"    batch={question.batch}, sequence={question.sequence},",
        f"    precision=Precision.{question.precision.name},",
        *fixed,
        f"    top=1, counts={question.counts}, mode={question.mode!r},",
        f"    gpu_hour={question.gpu_hour!r}, tokens={question.tokens!r},",
        ")",
        "study = study_plan(question, cluster)",
        "best = study.best",
        "print(best.step_s, best.tokens_per_s, best.mfu, best.memory.total_bytes)",
        "for point in study.curve.points:",
        "    print(point.gpus, point.case.step_s, point.case.lost_share)",
    ]
    return "\n".join(lines)


# ---------------------------------------------------------------- figures


def _study(given: Given) -> PlanStudy | None:
    found = answer(given)
    return None if isinstance(found, Refusal) else found


def step_figures(given: Given) -> tuple[go.Figure, go.Figure] | None:
    """Draw time and memory by stage; None where the plan cannot be."""
    study = _study(given)
    return None if study is None else (draw_idle(study.best), draw_memory(study.best))


def memory_figure(given: Given) -> go.Figure | None:
    """Draw the memory of a plan that is valid and does not fit; None for others."""
    found = answer(given)
    asked = found.asked if isinstance(found, Refusal) else None
    return None if asked is None else draw_memory(asked)


def timeline_view(given: Given) -> tuple[go.Figure, tuple[TraceRow, ...]] | None:
    """Draw what stages do when, and list the arithmetic and waits that come first."""
    study = _study(given)
    if study is None:
        return None
    timeline = study.timeline
    rows = []
    for i in timeline.start_s.argsort(kind="stable")[:_MOST_SPANS].tolist():
        what = timeline.names[timeline.name[i]]
        if timeline.micro_batch[i] >= 0:
            what += f", micro-batch {timeline.micro_batch[i]}"
        long = float(timeline.end_s[i] - timeline.start_s[i])
        where = f"stage {timeline.stage[i]} · {timeline.streams[timeline.stream[i]]}"
        rows.append(TraceRow(float(timeline.start_s[i]), where, f"{what}: {format_seconds(long)}"))
    return draw_timeline(timeline), tuple(rows)


def trace_file(given: Given) -> bytes | None:
    """Return the timeline as a compressed trace for Perfetto; None where the plan cannot be."""
    study = _study(given)
    if study is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        return write_plan_trace(study, Path(folder) / "step.json.gz").read_bytes()
