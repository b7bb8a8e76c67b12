"""What training and collective jobs of a run will do, beside what the engine makes of them.

The engine plays a job's messages; here the whole step is played with its arithmetic
(:mod:`railweave.predict.step`), and a collective is what the library reaches
(:mod:`railweave.predict.collective`), each job alone. What cannot be predicted has a sentence.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

from railweave.errors import RailweaveError
from railweave.predict.design_jobs import (
    choice_of_job,
    is_searched,
    nearest_of_job,
    step_of_job,
)
from railweave.predict.network_part import measure_network
from railweave.predict.plan_space import column_text, plan_values
from railweave.report.training import step_json

if TYPE_CHECKING:
    from railweave.api import BuiltDesign
    from railweave.design.models import RoutingScheme
    from railweave.fabric.routing import RoutingSet
    from railweave.predict.collective import CollectiveChoice, NetworkPart
    from railweave.predict.plan import NearestPlan
    from railweave.predict.scaling import NetworkCase
    from railweave.workload.jobs import JobPlan, Workload

__all__ = ["CollectiveForecast", "Forecaster", "TrainingForecast", "forecast"]

#: GPUs of a fabric on which a run still predicts: its own simulation is far longer there
MOST_GPUS: Final = 20_000
#: sets of ranks whose network part the flow engine measures; more are worked out in closed form
_MOST_MEASURED: Final = 4


@dataclass(frozen=True, eq=False)
class TrainingForecast:
    """The training step of one job, alone on its GPUs; ``why_not`` says why there is none.

    ``slow_gpus`` is the number of the design's stragglers, which the step does not have.
    ``nearest`` is the nearest way to train on these GPUs that fits, where this one does not.
    ``command`` writes the timeline of the same plan on packed GPUs as a trace; empty for a plan
    that :func:`railweave.predict.plan.search_plans` does not consider.
    """

    job: str
    model: str
    ranks: int
    case: NetworkCase | None = None
    nearest: NearestPlan | None = None
    command: str = ""
    why_not: str = ""
    slow_gpus: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return it as a document; spans are not in it."""
        case = self.case
        step = None
        if case is not None:
            step = step_json(case)
            step["nearest"] = self.nearest.describe() if self.nearest else None
        return {
            "job": self.job,
            "model": self.model,
            "ranks": self.ranks,
            "step": step,
            "why_not": self.why_not,
            "timeline": self.command,
        }


@dataclass(frozen=True, eq=False)
class CollectiveForecast:
    """What the library picks and reaches for one job; ``why_not`` says why nothing is known.

    ``algorithm`` and ``engine_busbw_Bps`` are the engine's, of ideal messages.
    """

    job: str
    operation: str
    ranks: int
    size_bytes: float
    algorithm: str
    engine_busbw_Bps: float  # noqa: N815 - byte/s
    choice: CollectiveChoice | None = None
    why_not: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return it as a document."""
        choice = self.choice
        return {
            "job": self.job,
            "operation": self.operation,
            "ranks": self.ranks,
            "size_bytes": self.size_bytes,
            "engine_busbw_Bps": self.engine_busbw_Bps,
            "expected": None if choice is None else _choice_json(choice),
            "why_not": self.why_not,
        }


def _choice_json(choice: CollectiveChoice) -> dict[str, Any]:
    network = choice.network
    return {
        "option": choice.best.name,
        "library_option": choice.library.name,
        "time_s": choice.time_s,
        "busbw_Bps": choice.busbw_Bps,
        "busbw_low_Bps": choice.busbw_low_Bps,
        "busbw_high_Bps": choice.busbw_high_Bps,
        "bound": choice.best.bound,
        "ring_share": network.ring_share,
        "tree_share": network.tree_share,
        "pairwise_share": network.pairwise_share,
        "source": network.source,
        "why": list(choice.why),
        "assumptions": [dataclasses.asdict(item) for item in choice.assumptions],
    }


def forecast(
    built: BuiltDesign,
    workload: Workload,
    routes: RoutingSet,
    busbw_Bps: Mapping[str, float],  # noqa: N803 - byte/s
    *,
    routing: RoutingScheme | None = None,
    seed: int | None = None,
) -> tuple[tuple[TrainingForecast, ...], tuple[CollectiveForecast, ...]]:
    """Return what the training jobs and the collective jobs of a run will do.

    Args:
        built: where they run, with its failures.
        workload: the jobs, placed.
        routes: of the run.
        busbw_Bps: what the engine found, by the job's name.
        routing, seed: those of the run.
    """
    work = Forecaster(built, routes, routing, seed)
    return (
        tuple(work.step(job) for job in workload.jobs if job.step is not None),
        tuple(
            work.collective(job, busbw_Bps[job.name]) for job in workload.jobs if job.op is not None
        ),
    )


class Forecaster:
    """Predicts the jobs of one run; what was measured for some GPUs is kept."""

    def __init__(
        self,
        built: BuiltDesign,
        routes: RoutingSet,
        routing: RoutingScheme | None,
        seed: int | None,
    ) -> None:
        self._built = built
        self._routes = routes
        self._routing = routing
        self._seed = seed
        self._measured: dict[bytes, NetworkPart] = {}
        gpus = len(built.fabric.gpus)
        self._too_large = (
            f"not predicted in a run on more than {MOST_GPUS:,} GPUs (this fabric has {gpus:,})"
            if gpus > MOST_GPUS
            else ""
        )

    def step(self, job: JobPlan) -> TrainingForecast:
        """Return a training job's step."""
        said = TrainingForecast(
            job.name,
            str(job.job.model),
            len(job.nodes),
            slow_gpus=len(self._built.design.stragglers),
        )
        if self._too_large:
            return dataclasses.replace(
                said, why_not=f"{self._too_large}; railweave plan predicts it there"
            )
        try:
            case = step_of_job(self._built, job, self._routes)
        except RailweaveError as error:
            return dataclasses.replace(said, why_not=_first_line(error))
        fits = case.estimate.memory.fits
        return dataclasses.replace(
            said,
            case=case,
            nearest=None if fits else nearest_of_job(self._built, job, case),
            command=_trace_command(self._built, case)
            if is_searched(self._built, job, case)
            else "",
        )

    def collective(self, job: JobPlan, busbw_Bps: float) -> CollectiveForecast:  # noqa: N803
        """Return what the library reaches for a collective job."""
        said = CollectiveForecast(
            job.name,
            job.op.value if job.op else "",
            len(job.nodes),
            float(job.size_bytes or 0),
            job.algorithm.value if job.algorithm else "",
            busbw_Bps,
        )
        if self._too_large:
            return dataclasses.replace(
                said, why_not=f"{self._too_large}; railweave collective predicts it there"
            )
        try:
            choice = choice_of_job(self._built, job, self._network(job))
        except RailweaveError as error:
            return dataclasses.replace(said, why_not=_first_line(error))
        return dataclasses.replace(said, choice=choice)

    def _network(self, job: JobPlan) -> NetworkPart:
        key = job.nodes.tobytes()
        if key not in self._measured:
            few = len(self._measured) < _MOST_MEASURED
            self._measured[key] = measure_network(
                self._built,
                job.nodes,
                engine="flow" if few else "analytic",
                routing=self._routing,
                seed=self._seed,
            ).part
        return self._measured[key]


def _first_line(error: RailweaveError) -> str:
    return str(error).partition("\n")[0]


def _trace_command(built: BuiltDesign, case: NetworkCase) -> str:
    """Return the command that writes the step's spans, for the same plan on packed GPUs."""
    plan = case.estimate.plan
    fixed = ",".join(
        column_text(name, value).replace(" ", "=") for name, value in plan_values(plan).items()
    )
    return (
        f"railweave plan {plan.shape.name} --design {quote(built.document.file)} "
        f"--gpus {plan.ranks} --batch {plan.sequences_per_step} "
        f"--sequence {plan.tokens_of_sequence} --precision {plan.precision.value} "
        f"--fix {fixed} --trace step.json"
    )
