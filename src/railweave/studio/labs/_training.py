"""The training step's page without its page: from the inputs to all that is shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from railweave.design.models import Precision, Recompute
from railweave.errors import InputError
from railweave.predict.plan import NearestPlan, NoPlanError
from railweave.predict.plan_cluster import cluster_of_design, cluster_of_server
from railweave.predict.plan_space import COLUMNS, PlanSpace, column_text, plan_values, valid_plans
from railweave.predict.plan_study import (
    PlanQuestion,
    PlanStudy,
    default_batch,
    parse_batch,
    parse_count,
    study_plan,
)
from railweave.predict.scaling import scaling_counts
from railweave.predict.step import estimate_step

if TYPE_CHECKING:
    from railweave.catalog import Catalog
    from railweave.predict.plan_cluster import TrainingCluster
    from railweave.predict.step import StepEstimate, TrainingPlan

__all__ = [
    "DESIGN",
    "Given",
    "Offer",
    "Refusal",
    "Scaling",
    "State",
    "answer",
    "cluster_of",
    "counts_of",
    "fixed_of",
    "fixed_text",
    "offers_of",
    "question_of",
    "with_plan",
]

#: the value of ``where`` that stands for the loaded design; all others are catalog servers
DESIGN: Final = "design"
#: GPUs up to which the curve is drawn on larger fabrics than the design's own
_LARGEST: Final = 4096
_RECOMPUTE: Final = (Recompute.NONE, Recompute.SELECTIVE, Recompute.FULL)


class Scaling(StrEnum):
    """What grows with the GPUs: weak, the batch; strong, nothing."""

    WEAK = "weak"
    STRONG = "strong"


@dataclass(frozen=True, slots=True)
class State:
    """The page's inputs.

    ``gpus`` 0: all of the design. ``batch`` "": about 4 Mi tokens. ``sequence`` "": the model's.
    ``tensor`` 0: no plan has been chosen, so the best one is looked for. ``data`` 0: what the GPUs
    leave. ``gpu_hour`` 0: nothing is priced. ``scale`` are GPU counts by commas.
    """

    model: str = "llama3-70b"
    where: str = DESIGN
    gpus: int = 0
    batch: str = ""
    sequence: str = ""
    precision: Precision = Precision.BF16
    tensor: int = 0
    context: int = 1
    pipeline: int = 1
    expert: int = 1
    data: int = 0
    micro_batch: int = 1
    interleave: int = 1
    zero: int = 1
    recompute: Recompute = Recompute.SELECTIVE
    sequence_parallel: bool = True
    gpu_hour: float = 2.5
    tokens: str = ""
    mode: Scaling = Scaling.WEAK
    scale: str = "auto"

    @property
    def chosen(self) -> bool:
        """Whether a plan has been chosen."""
        return self.tensor > 0


@dataclass(frozen=True, slots=True)
class Given:
    """A visitor's inputs and what they speak of.

    Attributes:
        state: the inputs.
        text: the loaded design where it runs on that, "" otherwise.
        name: what the design's file is called.
        file: the design that the studio was started with, whose text may name files beside it; ""
            for others.
    """

    state: State
    text: str
    name: str
    file: str = ""


@dataclass(frozen=True)
class Offer:
    """A plan that would do: what it is, and the inputs that it gives."""

    text: str
    state: State


@dataclass(frozen=True, eq=False)
class Refusal:
    """Why nothing is valid or fits, and what would.

    ``asked`` is the step that was asked for, where it is only the memory that is short.
    """

    reasons: tuple[str, ...]
    offers: tuple[Offer, ...]
    asked: StepEstimate | None = None


# ---------------------------------------------------------------- from inputs to a question


def cluster_of(given: Given) -> TrainingCluster:
    """Return the GPUs.

    Raises:
        InputError: parts or numbers of GPUs that do not exist, or a design without GPUs.
        SizingError: the design cannot be built.
    """
    state = given.state
    if state.where == DESIGN:
        return _on_design(given.text, given.name, given.file, state.gpus)
    if not state.gpus:
        raise InputError(f"{state.where} servers: say how many GPUs; 0 stands for all of a design")
    return _of_servers(state.where, state.gpus)


@lru_cache(maxsize=6)
def _on_design(text: str, name: str, file: str, gpus: int) -> TrainingCluster:
    import railweave
    from railweave.studio.designs import built_design, local_file

    # A worker process has not opened the file that the studio was started with.
    apart = file and local_file(text) is None and Path(file).read_text(encoding="utf-8") == text
    built = railweave.load(file).build() if apart else built_design(text)
    return cluster_of_design(built, gpus or None, name=name)


@lru_cache(maxsize=16)
def _of_servers(server: str, gpus: int) -> TrainingCluster:
    from railweave.catalog import default_catalog

    return cluster_of_server(default_catalog(), server, gpus)


def catalog_of(cluster: TrainingCluster) -> Catalog:
    """Return the catalog that a cluster's models stand in."""
    from railweave.catalog import default_catalog

    return cluster.built.document.catalog if cluster.built else default_catalog()


def fixed_of(state: State) -> dict[str, int]:
    """Return what the inputs fix of a plan, by the names of ``--fix``; nothing without a plan."""
    if not state.chosen:
        return {}
    # On one tensor rank there is nothing to split, whatever the switch says.
    split = state.sequence_parallel and state.tensor > 1
    values = (
        state.tensor,
        state.context,
        state.pipeline,
        state.data,
        state.expert,
        state.micro_batch,
        state.interleave,
        state.zero,
        _RECOMPUTE.index(state.recompute),
        int(split),
    )
    fixed = dict(zip(COLUMNS, values, strict=True))
    if not state.data:
        del fixed["data"]
    return fixed


def fixed_text(fixed: Mapping[str, int]) -> str:
    """Write it as ``--fix`` reads it."""
    return ",".join(column_text(name, value).replace(" ", "=") for name, value in fixed.items())


def counts_of(state: State, cluster: TrainingCluster) -> tuple[int, ...]:
    """Return the GPU counts of the scaling curve.

    Raises:
        InputError: they are no whole numbers of 1 or more.
    """
    text = state.scale.strip()
    if text in ("", "auto"):
        most = None if cluster.built is None else _LARGEST
        return scaling_counts(cluster.gpus, cluster.domain_gpus, most=most)
    found = tuple(parse_count(part) for part in text.split(",") if part.strip())
    if not found:
        raise InputError("GPU counts: none is named; give some such as 256, 512, or auto")
    return tuple(sorted(set(found)))


def question_of(
    given: Given, *, fixed: Mapping[str, int], top: int = 1, scaled: bool = False
) -> tuple[PlanQuestion, TrainingCluster]:
    """Return what the inputs ask, of which cluster.

    Args:
        given: the inputs.
        fixed: what is given of the plan.
        top: plans that are ranked.
        scaled: with the scaling curve.

    Raises:
        InputError: what cannot be read, or does not exist.
    """
    state, cluster = given.state, cluster_of(given)
    shape = catalog_of(cluster).model(state.model)
    sequence = parse_count(state.sequence) if state.sequence.strip() else shape.sequence
    if not 0 <= state.gpu_hour < float("inf"):
        raise InputError(f"price of a GPU-hour: {state.gpu_hour:g} is not allowed; give 0 or more")
    priced = state.gpu_hour > 0
    question = PlanQuestion(
        shape=shape,
        batch=parse_batch(state.batch, sequence)
        if state.batch.strip()
        else default_batch(sequence, cluster.gpus, cluster.domain_gpus),
        sequence=sequence,
        precision=state.precision,
        fixed=fixed,
        top=top,
        counts=counts_of(state, cluster) if scaled else (),
        mode="strong" if state.mode is Scaling.STRONG else "weak",
        gpu_hour=state.gpu_hour if priced else None,
        tokens=float(parse_count(state.tokens)) if priced and state.tokens.strip() else None,
    )
    return question, cluster


# ---------------------------------------------------------------- the answer


def answer(given: Given) -> PlanStudy | Refusal:
    """Estimate the step of the plan that the inputs choose.

    Raises:
        InputError: inputs that mean nothing, whatever the plan.
    """
    return _answer(_unscaled(given))


def _unscaled(given: Given) -> Given:
    """Leave out what the step does not depend on, so that it is not worked out again."""
    return replace(given, state=replace(given.state, mode=Scaling.WEAK, scale="auto"))


@lru_cache(maxsize=12)
def _answer(given: Given) -> PlanStudy | Refusal:
    question, cluster = question_of(given, fixed=fixed_of(given.state))
    try:
        return study_plan(question, cluster)
    except NoPlanError as error:
        return Refusal(
            error.reasons,
            offers_of(error, given.state, question, cluster),
            _asked(question, cluster),
        )


def offers_of(
    error: NoPlanError, state: State, question: PlanQuestion, cluster: TrainingCluster
) -> tuple[Offer, ...]:
    """Return the nearest plans of a refusal as inputs that can be taken."""
    return tuple(_offer(state, one, question, cluster) for one in error.nearest)


def _offer(
    state: State, near: NearestPlan, question: PlanQuestion, cluster: TrainingCluster
) -> Offer:
    plan = near.estimate.plan
    taken = with_plan(state, plan_values(plan), keep_data=bool(state.data))
    if plan.ranks != cluster.gpus:
        taken = replace(taken, gpus=plan.ranks)
    if plan.sequences_per_step != question.batch:
        taken = replace(taken, batch=str(plan.sequences_per_step))
    return Offer(near.describe(), taken)


def _asked(question: PlanQuestion, cluster: TrainingCluster) -> StepEstimate | None:
    """Return the step of a plan that is valid and does not fit, None where none is valid."""
    plan = _only(question, cluster)
    if plan is None:
        return None
    return estimate_step(plan, cluster.gpu, cluster.quick(plan.degrees))


def _only(question: PlanQuestion, cluster: TrainingCluster) -> TrainingPlan | None:
    space = PlanSpace(
        question.shape,
        cluster.gpus,
        cluster.domain_gpus,
        question.batch or 1,
        question.sequence or question.shape.sequence,
        question.precision,
        question.fixed,
    )
    found = valid_plans(space)
    return found.plan(0) if len(found) else None


def with_plan(state: State, values: Mapping[str, int], *, keep_data: bool = False) -> State:
    """Return the inputs with a plan's values, by the names of ``--fix``.

    Data ranks stay what the GPUs leave unless ``keep_data``.
    """
    return replace(
        state,
        tensor=values["tensor"],
        context=values["context"],
        pipeline=values["pipeline"],
        data=values["data"] if keep_data else 0,
        expert=values["expert"],
        micro_batch=values["micro-batch"],
        interleave=values["interleave"],
        zero=values["zero"],
        recompute=_RECOMPUTE[values["recompute"]],
        sequence_parallel=bool(values["sequence-parallel"]),
    )
