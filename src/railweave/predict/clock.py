"""What the arithmetic of a design's training steps takes on the GPUs its servers have."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from railweave.catalog import Catalog, Gpu
from railweave.design.models import Design
from railweave.errors import RailweaveError
from railweave.fabric.build import BuiltFabric
from railweave.predict._cost_types import CommunicationCosts
from railweave.predict._schedule import estimate
from railweave.predict._step_parts import StepParts
from railweave.predict._training_types import TrainingPlan
from railweave.predict.compute import require_precision
from railweave.workload.training import TrainingStep

__all__ = ["arithmetic_s", "plan_of_step", "slowest_gpu", "step_clock", "step_of_plan"]


def plan_of_step(step: TrainingStep) -> TrainingPlan:
    """Return a design's training step as a plan."""
    return TrainingPlan(
        step.shape,
        step.degrees,
        step.micro_batch,
        step.micro_batches,
        sequence=step.sequence,
        zero=step.zero,
        sequence_parallel=step.sequence_parallel and step.degrees.tensor > 1,
        interleave=step.interleave,
        recompute=step.recompute,
        precision=step.precision,
    )


def step_of_plan(plan: TrainingPlan) -> TrainingStep:
    """Return what a plan's step sends, as the workload knows it."""
    return TrainingStep(
        plan.shape,
        plan.degrees,
        plan.micro_batches,
        plan.micro_batch,
        sequence=plan.sequence,
        zero=plan.zero,
        interleave=plan.interleave,
        recompute=plan.recompute,
        sequence_parallel=plan.sequence_parallel,
        precision=plan.precision,
    )


def arithmetic_s(step: TrainingStep, gpu: Gpu) -> float:
    """Return a step's time with communication that takes none: arithmetic and bubble.

    Raises:
        InputError: more stages than layers, or FP8 on a GPU without it.
    """
    plan = plan_of_step(step)
    require_precision(gpu, plan.precision)
    free = CommunicationCosts(plan.degrees, MappingProxyType({}), "no communication")
    times = StepParts(plan, gpu, free).stage_times()
    pipeline = plan.degrees.pipeline
    return estimate(pipeline, plan.interleave, plan.micro_batches, times).makespan_s


def slowest_gpu(
    built: BuiltFabric,
    design: Design,
    catalog: Catalog,
    step: TrainingStep,
    nodes: npt.NDArray[np.int32],
) -> Gpu | None:
    """Return the GPU that takes longest for a step's arithmetic, of those at a job's GPU nodes.

    None where the catalog does not know one of them.

    Raises:
        InputError: as :func:`arithmetic_s`.
    """
    groups = np.unique(built.nodes.server_group[built.fabric.node_server[nodes]])
    gpus = [_gpu_of(design, catalog, int(group)) for group in groups]
    known = [gpu for gpu in gpus if gpu is not None]
    if not known or len(known) < len(gpus):
        return None
    return max(known, key=lambda gpu: arithmetic_s(step, gpu))


def step_clock(
    built: BuiltFabric, design: Design, catalog: Catalog
) -> Callable[[TrainingStep, npt.NDArray[np.int32]], float]:
    """Return a function (step, GPU node of each rank) → seconds; the slowest kind of GPU counts.

    It returns 0 for GPUs that the catalog does not know.

    Raises:
        InputError: from the function, as :func:`arithmetic_s`.
    """

    def seconds(step: TrainingStep, nodes: npt.NDArray[np.int32]) -> float:
        gpu = slowest_gpu(built, design, catalog, step, nodes)
        return 0.0 if gpu is None else arithmetic_s(step, gpu)

    return seconds


def _gpu_of(design: Design, catalog: Catalog, group: int) -> Gpu | None:
    """Return the catalog's GPU of a server group, None where it has none of that name."""
    servers = design.cluster.servers[group]
    try:
        if servers.inline is not None:
            return catalog.gpu(servers.inline.gpu)
        name = catalog.server(servers.model or "").gpu
        return None if name is None else catalog.gpu(name)
    except RailweaveError:
        return None
