"""Lab 2's whole models, without the page: what each kind of group of a training step sends."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from railweave.predict.plan import NearestPlan
from railweave.report.patterns_figures import draw_chord, draw_matrix, draw_shares
from railweave.report.patterns_model import (
    ModelCase,
    ModelRefused,
    ModelStudy,
    nearest_models,
    study_model,
)
from railweave.report.patterns_spread import draw_groups
from railweave.report.patterns_tables import group_table
from railweave.studio.content import learn
from railweave.studio.designs import built_design
from railweave.studio.lab import Number, Reproduce, sentence
from railweave.studio.labs._traffic import Figures, Shown, State, case_of
from railweave.studio.labs._traffic_words import (
    case_python,
    network_options,
    peer_rows,
    picked_text,
    value_text,
)
from railweave.units import format_si
from railweave.workload.patterns import MOST_GPUS, Strategy

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from railweave.report.page_table import PageTable

__all__ = [
    "ModelFigures",
    "ModelView",
    "model_case_of",
    "model_command",
    "model_figures",
    "model_names",
    "model_view",
    "nearest",
]

_PLAIN: Final = ModelCase()


def model_case_of(state: State) -> ModelCase:
    """Read the inputs.

    Raises:
        InputError: one that cannot be read, or is out of range.
    """
    on = case_of(replace(state, strategy=Strategy.DATA, skew=0, algorithm=None, exchanges=1))
    return ModelCase(
        model=state.model,
        on=replace(on, payload_bytes=_PLAIN.on.payload_bytes),  # a model has its own
        tensor=state.tensor,
        context=state.context,
        pipeline=state.pipeline,
        expert=state.expert,
        micro_batch=state.micro_batch,
        micro_batches=state.micro_batches,
        sequence=state.sequence or None,
        interleave=state.interleave,
        zero=state.zero,
        recompute=state.recompute,
        sequence_parallel=state.sequence_parallel,
    )


@lru_cache(maxsize=24)
def _studied(case: ModelCase, text: str) -> ModelStudy:
    return study_model(case, built_design(text) if text else None)


@dataclass(frozen=True, eq=False)
class ModelView:
    """What the lab shows of a model at once.

    ``problem`` says why the degrees cannot be; everything else is then of no use.
    """

    problem: str
    study: ModelStudy | None = None
    numbers: tuple[Number, ...] = ()
    words: tuple[str, ...] = ()
    reproduce: Reproduce | None = None
    limits: tuple[str, ...] = ()
    groups: PageTable | None = None
    explanations: tuple[tuple[str, ...], ...] = ()

    @property
    def fits(self) -> bool:
        """Whether it can be, and fits the memory as far as that is known."""
        memory = None if self.study is None else self.study.memory
        return not self.problem and (memory is None or memory.fits)


@dataclass(frozen=True, eq=False)
class ModelFigures:
    """Who talks to whom, of all groups or of one kind; and what each kind sends."""

    talk: Figures
    groups: go.Figure
    study: ModelStudy


def model_view(state: State, text: str, design_name: str) -> ModelView:
    """Study a model.

    Args:
        state: the inputs.
        text: the visitor's design where it runs on that, "" otherwise.
        design_name: what the design's file is called.

    Raises:
        InputError: inputs that mean nothing; degrees that cannot be are the view's ``problem``.
    """
    case = model_case_of(state)
    try:
        done = _studied(case, text)
    except ModelRefused as error:
        return ModelView(" ".join(map(sentence, error.reasons)))
    return ModelView(
        problem="",
        study=done,
        numbers=_numbers(done),
        words=done.interpretation,
        reproduce=Reproduce(
            model_command(case, design_name if text else ""),
            _python(case, design_name if text else ""),
        ),
        limits=tuple(
            dict.fromkeys(
                (
                    *learn("traffic").limits,
                    *(f"{a.subject}: {a.statement}" for a in done.assumptions),
                )
            )
        ),
        groups=group_table(done),
        explanations=tuple(
            (
                item.quantity,
                value_text(item.value, item.unit),
                item.formula,
                ", ".join(f"{name} = {value:,.10g}" for name, value in item.inputs.items()),
                item.source,
            )
            for item in done.explanations
        ),
    )


def model_figures(state: State, text: str) -> ModelFigures:
    """Draw who talks to whom in a model that can be."""
    whole = _studied(model_case_of(state), text)
    shown = whole
    if state.shown is not Shown.ALL:
        kind = next((kind for kind in whole.messages if kind == state.shown.value), None)
        shown = whole.only(kind) if kind else whole
    picked = state.picked if 0 <= state.picked < state.gpus else None
    return ModelFigures(
        Figures(
            draw_matrix(shown, picked=picked),
            draw_chord(shown, picked=picked),
            draw_shares(shown),
            picked_text(shown, picked),
            peer_rows(shown, picked),
        ),
        draw_groups(whole),
        shown,
    )


def _numbers(study: ModelStudy) -> tuple[Number, ...]:
    plan, largest = study.plan, study.largest
    said = [
        ("volume_per_gpu", "Sent by a GPU", _bytes(study.bytes_sent_per_gpu),
         study.bytes_sent_per_gpu),
        ("total_volume", "Sent by all", _bytes(study.total_bytes), study.total_bytes),
    ]  # fmt: skip
    if largest is not None:
        text = f"{largest.kind} {largest.share:.1%}"
        said.append(("largest_groups", "Largest groups", text, largest.share))
    for key, label, share in (
        ("share_server", "Bytes in the server", study.share_server),
        ("share_leaf", "Under a leaf", study.share_leaf),
        ("share_spine", "Across a spine", study.share_spine),
        ("share_core", "Across a core", study.share_core),
    ):
        if share > 0 or key != "share_core":
            said.append((key, label, f"{share:.1%}", share))
    said += [
        ("data_degree", "Data-parallel ranks", f"{plan.degrees.data:,}", plan.degrees.data),
        ("global_batch", "Sequences a step", f"{plan.sequences_per_step:,}",
         plan.sequences_per_step),
    ]  # fmt: skip
    if study.memory is not None:
        held = study.memory.total_bytes
        text = f"{held / 1e9:,.1f} GB" + ("" if study.memory.fits else ", too much")
        said.append(("gpu_memory", "Memory of a GPU", text, held))
    return tuple(Number(key, label, text, float(value)) for key, label, text, value in said)


def _bytes(size: float) -> str:
    return format_si(size, "B")


# ---------------------------------------------------------------- the nearest that would


def nearest(state: State, text: str) -> tuple[tuple[str, State | None], ...]:
    """Return the nearest plans that would do: what changes, and the inputs that give them.

    There are no inputs for more GPUs than the design or the lab has. No plans where the one that is
    asked for can be and fits the memory.
    """
    case = model_case_of(state)
    built = built_design(text) if text else None
    try:
        memory = _studied(case, text).memory
    except ModelRefused as error:
        found = error.nearest
    else:
        found = () if memory is None or memory.fits else nearest_models(case, built)
    room = MOST_GPUS if built is None else min(len(built.fabric.gpus), MOST_GPUS)
    return tuple(
        (near.describe(), _taken(state, near) if near.estimate.plan.ranks <= room else None)
        for near in found
    )


def _taken(state: State, near: NearestPlan) -> State:
    """Return the inputs that a plan has."""
    plan = near.estimate.plan
    degrees = plan.degrees
    return replace(
        state,
        gpus=plan.ranks,
        servers=0 if plan.ranks != state.gpus else state.servers,
        tensor=degrees.tensor,
        context=degrees.context,
        pipeline=degrees.pipeline,
        expert=degrees.expert,
        micro_batch=plan.micro_batch,
        micro_batches=plan.micro_batches,
        zero=plan.zero,
        recompute=plan.recompute,
        interleave=plan.interleave,
        sequence_parallel=plan.sequence_parallel or degrees.tensor == 1,
    )


# ---------------------------------------------------------------- outside the studio


def model_command(case: ModelCase, design_name: str) -> str:
    """Return the command that gives the same numbers."""
    options = ["--model", case.model, "--gpus", str(case.on.gpus)]
    fixed = [
        f"{name}={value}"
        for name, value, usual in (
            ("tensor", case.tensor, 1),
            ("context", case.context, 1),
            ("pipeline", case.pipeline, 1),
            ("expert", case.expert, 1),
            ("micro-batch", case.micro_batch, 1),
            ("interleave", case.interleave, 1),
            ("zero", case.zero, _PLAIN.zero),
            ("recompute", case.recompute.value, _PLAIN.recompute.value),
            ("sequence-parallel", "on" if case.sequence_parallel else "off", "on"),
        )
        if value != usual
    ]
    options += ["--fix", ",".join(fixed)] if fixed else []
    if case.micro_batches != _PLAIN.micro_batches:
        options += ["--micro-batches", str(case.micro_batches)]
    if case.sequence is not None:
        options += ["--sequence", str(case.sequence)]
    if case.on.placement is not _PLAIN.on.placement:
        options += ["--placement", case.on.placement.value]
    options += ["--design", design_name] if design_name else network_options(case.on)
    return " ".join(["railweave", "pattern", "model", *map(shlex.quote, options)])


def _python(case: ModelCase, design_name: str) -> str:
    imports, on = case_python(case.on, design_name)
    arguments = [repr(case.model), "on"]
    arguments += [
        f"{name}={getattr(case, name)!r}"
        for name in (
            "tensor", "context", "pipeline", "expert", "micro_batch", "micro_batches", "sequence",
            "interleave", "zero", "sequence_parallel",
        )
        if getattr(case, name) != getattr(_PLAIN, name)
    ]  # fmt: skip
    if case.recompute is not _PLAIN.recompute:
        arguments.append(f"recompute=Recompute.{case.recompute.name}")
        imports.append("from railweave.design.models import Recompute")
    built = f", railweave.load({design_name!r}).build()" if design_name else ""
    lines = [
        *imports,
        "from railweave.report.patterns_model import ModelCase, study_model",
        "from railweave.workload.patterns import PatternCase",
        "",
        f"on = {on}",
        f"case = ModelCase({', '.join(arguments)})",
        f"study = study_model(case{built})",
        "for group in study.groups:",
        "    print(group.kind, group.bytes_sent_per_gpu, group.share, group.share_spine)",
        'print("\\n".join(study.interpretation))',
    ]
    return "\n".join(lines) + "\n"


def model_names() -> dict[str, str]:
    """Return the catalog's models: name and title."""
    from railweave.catalog import default_catalog

    return {model.name: model.title for model in default_catalog().models()}
