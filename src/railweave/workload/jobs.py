"""A design's jobs, background and storage traffic, placed and turned into one `Traffic`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from railweave.catalog import Catalog
from railweave.design.models import (
    Algorithm,
    Collective,
    Design,
    Job,
    PlacementName,
    PlaneName,
    Straggler,
)
from railweave.errors import InputError
from railweave.fabric import Fabric, PlaneId
from railweave.provenance import Assumption
from railweave.workload._builder import TrafficBuilder
from railweave.workload._communicator import Communicator
from railweave.workload._traffic import Traffic
from railweave.workload.background import SIZE_TABLES, background_traffic
from railweave.workload.collectives import CollectiveOptions, append_collective, require_algorithm
from railweave.workload.groups import (
    ByteShares,
    Degrees,
    GroupKind,
    byte_shares,
    resolve_degrees,
)
from railweave.workload.placement import optimized_placement, place
from railweave.workload.step_messages import step_messages
from railweave.workload.storage import STORAGE_ASSUMPTIONS, storage_traffic
from railweave.workload.training import TrainingStep, append_step, step_assumptions

__all__ = [
    "JobPlan",
    "StepClock",
    "Workload",
    "design_workload",
    "group_shares",
    "job_sends",
    "job_traffic",
    "network_plane",
    "place_jobs",
    "plan_job",
    "with_stragglers",
]

I32 = npt.NDArray[np.int32]


#: what the arithmetic of a training step on GPU nodes takes, 0 where it cannot be known
StepClock: TypeAlias = Callable[[TrainingStep, I32], float]


class HasFabric(Protocol):
    """What is needed of a built design."""

    @property
    def fabric(self) -> Fabric:
        """The fabric with all planes."""
        ...


@dataclass(frozen=True, eq=False)
class JobPlan:
    """One job: where its ranks are, what it sends and what was assumed.

    ``nodes`` are the GPU nodes by rank. ``op``, ``algorithm`` and ``size_bytes`` are of a
    collective job; ``degrees`` of a model's, with the ``shares`` of each kind of group for the
    ``step``.
    """

    job: Job
    nodes: I32
    traffic: Traffic
    assumptions: tuple[Assumption, ...]
    op: Collective | None = None
    algorithm: Algorithm | None = None
    size_bytes: int | None = None
    degrees: Degrees | None = None
    shares: dict[GroupKind, ByteShares] | None = None
    step: TrainingStep | None = None

    @property
    def name(self) -> str:
        """Name of the job, which all of its labels start with."""
        return self.job.name


@dataclass(frozen=True, eq=False)
class Workload:
    """All traffic of a design: the jobs one by one, and everything together."""

    traffic: Traffic
    jobs: tuple[JobPlan, ...]
    assumptions: tuple[Assumption, ...]


def network_plane(design: Design, plane: PlaneName) -> PlaneId:
    """Return the plane whose network carries a plane's traffic (itself, or the one it shares)."""
    seen: list[PlaneName] = []
    while plane not in seen:
        seen.append(plane)
        spec = getattr(design.planes, plane.value)
        if spec is None or spec.shares is None:
            return PlaneId[plane.name]
        plane = spec.shares
    chain = " → ".join(name.value for name in (*seen, plane))
    raise InputError(
        f"planes.{seen[0].value}.shares: goes in a circle ({chain}); name another plane"
    )


def place_jobs(
    jobs: Sequence[Job],
    fabric: Fabric,
    seed: int,
    sends: Callable[[Job, I32], Traffic] | None = None,
) -> tuple[list[I32], tuple[Assumption, ...]]:
    """Return the GPU nodes of every job, and what to say about shared GPUs and what is optimized.

    A job with a number of ranks takes GPUs that no job before it has, as long as there are enough;
    ``ranks: all`` and lists take what they say. Jobs on the same GPU share its links. ``sends``
    (see :func:`job_sends`) returns what a job sends on given nodes; ``optimized`` needs it.
    """
    taken = np.zeros(fabric.n_nodes, dtype=bool)
    placed: list[I32] = []
    notes: list[Assumption] = []
    for job in jobs:
        free = np.flatnonzero(taken)
        counted = isinstance(job.ranks, int)
        listed = isinstance(job.placement, tuple)
        ranks = int(job.ranks) if job.ranks != "all" else None
        enough = counted and int(job.ranks) <= len(fabric.gpus) - len(free)
        used = free if enough and not listed else ()
        if job.placement is PlacementName.OPTIMIZED and sends is not None:
            found = optimized_placement(
                fabric, ranks, partial(sends, job), name=job.name, taken=used
            )
            nodes = found.nodes
            notes.append(Assumption(f"job {job.name}, placement", found.describe()))
        else:
            nodes = place(fabric, ranks, job.placement, seed=seed, name=job.name, taken=used)
        shared = int(taken[nodes].sum())
        if shared:
            notes.append(
                Assumption(
                    f"job {job.name}", f"{shared} of its GPUs also run an earlier job of the design"
                )
            )
        taken[nodes] = True
        placed.append(nodes)
    return placed, tuple(notes)


def with_stragglers(traffic: Traffic, fabric: Fabric, stragglers: Sequence[Straggler]) -> Traffic:
    """Return the traffic with every slow GPU waiting before each chunk it sends.

    Raises:
        InputError: a GPU number that does not exist.
    """
    if not stragglers:
        return traffic
    delay = np.zeros(fabric.n_nodes)
    for slow in stragglers:
        if slow.gpu >= len(fabric.gpus):
            raise InputError(
                f"stragglers: GPU {slow.gpu} does not exist; allowed: 0…{len(fabric.gpus) - 1}"
            )
        delay[fabric.gpus[slow.gpu]] += slow.delay
    return replace(traffic, chunk_delay_s=traffic.chunk_delay_s + delay[traffic.src])


def group_shares(
    fabric: Fabric, nodes: I32, step: TrainingStep, *, rail_aware: bool = True
) -> dict[GroupKind, ByteShares]:
    """Return how far the bytes of one training step travel, by kind of parallel group.

    The bytes are those of :func:`railweave.workload.step_messages.step_messages`.
    """
    return {
        kind: byte_shares(
            fabric,
            nodes[sent.src],
            nodes[sent.dst],
            sent.size_bytes,
            rail_aware=rail_aware,
        )
        for kind, sent in step_messages(step).items()
    }


def plan_job(
    job: Job,
    nodes: I32,
    fabric: Fabric,
    design: Design,
    catalog: Catalog,
    *,
    clock: StepClock | None = None,
) -> JobPlan:
    """Return a job's plan on given GPU nodes, without stragglers; its tasks start at ``job.start``.

    A collective job runs ``iterations`` times, a model job as many training steps, each starting
    when the one before is over on all ranks.

    Raises:
        InputError: an algorithm, degree or model that does not fit; names the job.
    """
    try:
        if job.model is None:
            return _plan_collective(job, nodes, fabric, design, catalog)
        return _plan_training(job, nodes, fabric, design, catalog, clock)
    except InputError as error:
        where = f"job {job.name}: "
        text = str(error)
        raise InputError(text if text.startswith(where) else where + text) from None


def _plan_collective(
    job: Job, nodes: I32, fabric: Fabric, design: Design, catalog: Catalog
) -> JobPlan:
    if job.collective is None or job.size is None:
        raise InputError("needs 'collective' with 'size', or 'model'; give one of the two")
    algorithm = require_algorithm(job.collective, job.algorithm)
    comm = Communicator.from_fabric(fabric, nodes, channels=job.channels)
    builder = TrafficBuilder()
    after: list[int] = []
    name = f"{job.name}/{job.collective.value}/{algorithm.value}"
    for iteration in range(job.iterations):
        label = f"{name}#{iteration}"
        after = [builder.barrier(after, label=label)] if len(after) > 1 else after
        after = append_collective(
            builder,
            comm,
            job.collective,
            job.size,
            algorithm=algorithm,
            options=_options(design),
            label=label,
            after=after,
        )
    return JobPlan(
        job,
        nodes,
        _started(builder.build(), job.start),
        _COLLECTIVE_NOTES if job.iterations > 1 else _COLLECTIVE_NOTES[:1],
        op=job.collective,
        algorithm=algorithm,
        size_bytes=job.size,
    )


_COLLECTIVE_NOTES = (
    Assumption("reductions", "adding up received data costs no time"),
    Assumption("iterations", "each starts when the one before is over on every rank"),
)


def _options(design: Design) -> CollectiveOptions:
    return CollectiveOptions(queue_pairs=design.planes.backend.routing.queue_pairs)


def _started(traffic: Traffic, start_s: float) -> Traffic:
    return replace(traffic, task_start_s=traffic.task_start_s + start_s) if start_s else traffic


def _plan_training(  # noqa: PLR0917 - as plan_job
    job: Job,
    nodes: I32,
    fabric: Fabric,
    design: Design,
    catalog: Catalog,
    clock: StepClock | None = None,
) -> JobPlan:
    degrees = resolve_degrees(job.parallelism, len(nodes), job.name)
    step = TrainingStep(
        catalog.model(str(job.model)),
        degrees,
        job.micro_batches,
        job.micro_batch,
        sequence=job.sequence,
        zero=job.zero,
        interleave=job.interleave,
        recompute=job.recompute,
        sequence_parallel=job.sequence_parallel,
        precision=job.precision,
    )
    if clock is not None:
        step = replace(step, compute_s=clock(step, nodes))
    comm = Communicator.from_fabric(fabric, nodes, channels=1)
    builder = TrafficBuilder()
    after: list[int] = []
    for iteration in range(job.iterations):
        label = f"{job.name}/step#{iteration}"
        after = [builder.barrier(after, label=label)] if len(after) > 1 else after
        after = append_step(
            builder,
            comm,
            step,
            label=label,
            after=tuple(after),
            queue_pairs=design.planes.backend.routing.queue_pairs,
        )
    return JobPlan(
        job,
        nodes,
        _started(builder.build(), job.start),
        step_assumptions(step),
        degrees=degrees,
        shares=group_shares(fabric, nodes, step),
        step=step,
    )


def job_sends(fabric: Fabric, design: Design, catalog: Catalog) -> Callable[[Job, I32], Traffic]:
    """Return what :func:`place_jobs` asks for: what an iteration of a job sends on given nodes."""

    def sends(job: Job, nodes: I32) -> Traffic:
        once = job.model_copy(update={"iterations": 1})
        return plan_job(once, nodes, fabric, design, catalog).traffic

    return sends


def job_traffic(job: Job, built: HasFabric, design: Design, catalog: Catalog) -> Traffic:
    """Return the traffic of one job of a design as if it were alone, its stragglers included.

    Raises:
        InputError: a placement, algorithm, degree or model that does not fit.
    """
    sends = job_sends(built.fabric, design, catalog)
    nodes, _ = place_jobs((job,), built.fabric, design.seed, sends)
    plan = plan_job(job, nodes[0], built.fabric, design, catalog)
    return with_stragglers(plan.traffic, built.fabric, design.stragglers)


def design_workload(
    built: HasFabric, design: Design, catalog: Catalog, *, clock: StepClock | None = None
) -> Workload:
    """Return everything that a design sends: jobs, background and storage traffic, stragglers.

    ``clock`` gives the arithmetic of training steps its time; without, they only communicate.

    Raises:
        InputError: as the parts do.
    """
    fabric = built.fabric
    sends = job_sends(fabric, design, catalog)
    placed, notes = place_jobs(design.jobs, fabric, design.seed, sends)
    plans = tuple(
        plan_job(job, nodes, fabric, design, catalog, clock=clock)
        for job, nodes in zip(design.jobs, placed, strict=True)
    )
    plans = tuple(
        replace(plan, traffic=with_stragglers(plan.traffic, fabric, design.stragglers))
        for plan in plans
    )
    builder = TrafficBuilder()
    said: dict[Assumption, None] = dict.fromkeys(notes)
    for plan in plans:
        builder.merge(plan.traffic)
        said.update(dict.fromkeys(plan.assumptions))
    for entry in design.background:
        network = network_plane(design, entry.plane)
        builder.merge(background_traffic(entry, fabric, seed=design.seed, network=network))
        if isinstance(entry.sizes, str):
            said[SIZE_TABLES[entry.sizes].assumption] = None
    for storage in design.storage_traffic:
        builder.merge(storage_traffic(storage, fabric, servers=design.cluster.storage_servers))
        said.update(dict.fromkeys(STORAGE_ASSUMPTIONS))
    return Workload(builder.build(), plans, tuple(said))
