"""What a design's own jobs will do: a model's training step, a collective's bus bandwidth.

Both are of the job alone, on its GPUs and the design's fabric with its failures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from railweave.errors import InputError, RailweaveError
from railweave.predict._training_types import TrainingPlan
from railweave.predict.clock import plan_of_step, slowest_gpu
from railweave.predict.collective import CollectiveChoice, NetworkPart, choose
from railweave.predict.plan import NearestPlan, nearest_plans
from railweave.predict.plan_space import PlanSpace, plan_values, valid_plans
from railweave.predict.scaling import NetworkCase, network_case
from railweave.predict.system import system_of
from railweave.predict.training_costs import (
    ClusterLinks,
    costs_of_links,
    costs_on_fabric,
    links_of,
)
from railweave.workload.jobs import JobPlan

if TYPE_CHECKING:
    from railweave.api import BuiltDesign
    from railweave.fabric.routing import RoutingSet

__all__ = ["choice_of_job", "is_searched", "nearest_of_job", "step_of_job"]


def step_of_job(built: BuiltDesign, job: JobPlan, routing: RoutingSet) -> NetworkCase:
    """Return the training step of a job on its GPUs, by the flow engine on the fabric.

    Args:
        built: where it runs, with its failures.
        job: of a model, placed.
        routing: of the fabric as it stands.

    Raises:
        InputError: a job that trains nothing, GPUs that the catalog does not know, or a plan that
            cannot run.
        EngineError: ranks that cannot reach each other.
    """
    if job.step is None:
        raise InputError(f"job {job.name} trains no model; name one with 'model'")
    catalog = built.document.catalog
    gpu = slowest_gpu(built.built, built.design, catalog, job.step, job.nodes)
    if gpu is None:
        raise InputError(
            "the catalog does not know the servers' GPU; name one that it has, to predict its "
            "arithmetic"
        )
    costs = costs_on_fabric(
        built.fabric,
        routing,
        job.step.degrees,
        job.nodes,
        queue_pairs=built.design.planes.backend.routing.queue_pairs,
    )
    return network_case("as designed", plan_of_step(job.step), gpu, costs)


@dataclass(frozen=True, slots=True)
class _Asked:
    """The plan of a job as a question to the search, and links to price it by closed forms."""

    space: PlanSpace
    links: ClusterLinks


def _asked(built: BuiltDesign, job: JobPlan, plan: TrainingPlan) -> _Asked:
    links = links_of(system_of(built, job.nodes))
    space = PlanSpace(
        plan.shape,
        plan.ranks,
        links.domain_gpus,
        plan.sequences_per_step,
        plan.tokens_of_sequence,
        plan.precision,
        plan_values(plan),
    )
    return _Asked(space, links)


def is_searched(built: BuiltDesign, job: JobPlan, case: NetworkCase) -> bool:
    """Whether the search for plans knows the job's plan: it fits, and follows all of its rules."""
    if not case.estimate.memory.fits:
        return False
    try:
        return len(valid_plans(_asked(built, job, case.estimate.plan).space)) > 0
    except RailweaveError:
        return False


def nearest_of_job(built: BuiltDesign, job: JobPlan, case: NetworkCase) -> NearestPlan | None:
    """Return the nearest way to train the job on as many GPUs that fits their memory, if any.

    Communication is priced by closed forms; see :func:`railweave.predict.plan.nearest_plans`.
    """
    plan = case.estimate.plan
    try:
        asked = _asked(built, job, plan)
        found = nearest_plans(
            asked.space, case.estimate.gpu, lambda d: costs_of_links(d, asked.links), count=1
        )
    except RailweaveError:
        return None  # GPUs of several generations, or no network beyond their own domain
    for near in found:
        other = near.estimate.plan
        if (other.ranks, other.sequences_per_step) == (plan.ranks, plan.sequences_per_step):
            return near
    return None


def choice_of_job(built: BuiltDesign, job: JobPlan, network: NetworkPart) -> CollectiveChoice:
    """Return what the library picks for a job's collective, and the busbw to expect.

    The job's own ``algorithm`` is the engine's: the library picks by its own rules.

    Args:
        built: where it runs.
        job: of a collective, placed.
        network: what the fabric leaves of the line rate to the job's GPUs.

    Raises:
        InputError: a job that is no collective, one rank, GPUs that the catalog does not know or of
            several generations, domains without a network, ranks that cannot reach each other.
    """
    if job.op is None or job.size_bytes is None:
        raise InputError(f"job {job.name} is no collective; name one with 'collective'")
    return choose(system_of(built, job.nodes), job.op, job.size_bytes, network=network)
