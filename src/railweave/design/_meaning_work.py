"""Checks of what a design says of its jobs, its other traffic and its surroundings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from railweave.catalog import ModelShape
from railweave.design._context import Context
from railweave.design._facts import known_names
from railweave.design.models import (
    ALGORITHMS,
    Job,
    PlaneName,
    Service,
    ServiceKind,
    Transport,
)
from railweave.errors import Problem
from railweave.formats.validation import list_names, nearest
from railweave.formats.yaml_source import PathStep

__all__ = ["WORK_CHECKS"]

#: fields of a job that only mean something beside ``collective``, or beside ``model``
COLLECTIVE_FIELDS: Final = ("size", "algorithm", "channels")
MODEL_FIELDS: Final = (
    "parallelism",
    "micro_batches",
    "micro_batch",
    "sequence",
    "zero",
    "interleave",
    "recompute",
    "sequence_parallel",
    "precision",
)


def job_is_one_thing(context: Context) -> Iterator[Problem]:
    """A job is one collective or the training of one model, and says only what belongs to it."""
    for number, job in enumerate(context.design.jobs):
        path = ("jobs", number)
        if job.collective is not None and job.model is not None:
            yield context.problem(
                (*path, "model"),
                "a job is one collective or the training of one model, not both",
                allowed="one of collective, model; two jobs otherwise",
            )
            continue
        if job.collective is None and job.model is None:
            yield context.problem(
                path,
                "nothing says what this job does",
                allowed="collective: an operation, or model: a catalog name",
            )
            continue
        kind, strangers = (
            ("collective", MODEL_FIELDS) if job.collective else ("model", COLLECTIVE_FIELDS)
        )
        for field in strangers:
            if field in context.stated(job):
                yield context.problem(
                    (*path, field),
                    f"{field!r} means nothing in a job with {kind!r}",
                    allowed=list_names(MODEL_FIELDS if job.model else COLLECTIVE_FIELDS),
                )
        if job.collective is not None:
            yield from _collective(context, job, path)
        if job.model is not None:
            yield from context.unknown("model", job.model, (*path, "model"))
            yield from _parallelism(context, job, path)
            yield from _degrees_of_model(context, job, path)


def _collective(context: Context, job: Job, path: tuple[PathStep, ...]) -> Iterator[Problem]:
    assert job.collective is not None
    if job.size is None:
        yield context.problem(
            (*path, "size"),
            f"{job.collective.value} needs its size",
            allowed="bytes of the operation a rank, such as 1 GiB",
        )
    choices = ALGORITHMS[job.collective]
    if job.algorithm is not None and job.algorithm not in choices:
        yield context.problem(
            (*path, "algorithm"),
            f"{job.algorithm.value!r} is no algorithm for {job.collective.value}",
            allowed=list_names(choice.value for choice in choices),
            nearest=choices[0].value if len(choices) == 1 else "",
        )


def _parallelism(context: Context, job: Job, path: tuple[PathStep, ...]) -> Iterator[Problem]:
    total, degrees = _ranks(context, job), job.parallelism
    if total is None or degrees is None:
        return
    at, fixed = (*path, "parallelism"), degrees.tensor * degrees.context * degrees.pipeline
    context_text = f" × context {degrees.context}" if degrees.context > 1 else ""
    if degrees.data is None:
        if total % fixed:
            near = max(1, total // fixed) * fixed
            yield context.problem(
                at,
                f"tensor {degrees.tensor}{context_text} × pipeline {degrees.pipeline} = {fixed}"
                " does not divide"
                f" the {total} ranks",
                allowed=f"a product that divides {total}, or other ranks",
                nearest=f"ranks: {near}" if near <= (context.total_gpus() or 0) else "",
            )
            return
    elif degrees.data * fixed != total:
        right = str(total // fixed) if total % fixed == 0 else ""
        yield context.problem(
            (*at, "data"),
            f"data {degrees.data} × tensor {degrees.tensor}{context_text}"
            f" × pipeline {degrees.pipeline}"
            f" = {degrees.data * fixed}, but the job has {total} ranks",
            allowed=f"a product of {total}",
            nearest=right,
        )
        return
    data = degrees.data or total // fixed
    if data % degrees.expert:
        yield context.problem(
            (*at, "expert"),
            f"expert {degrees.expert} is taken out of the {data} data-parallel ranks"
            " and does not divide them",
            allowed=list_names(str(n) for n in range(1, data + 1) if data % n == 0),
        )


def _degrees_of_model(context: Context, job: Job, path: tuple[PathStep, ...]) -> Iterator[Problem]:
    """Every stage has a layer of the model, and experts are shared out evenly."""
    degrees = job.parallelism
    if degrees is None or job.model not in known_names(context.catalog, "model"):
        return
    shape = context.catalog.model(job.model)
    yield from _shares_of_model(context, job, path, shape)
    if degrees.pipeline > shape.layers:
        yield context.problem(
            (*path, "parallelism", "pipeline"),
            f"{degrees.pipeline} stages for the {shape.layers} layers of {job.model}",
            allowed=f"at most {shape.layers}",
            nearest=str(shape.layers),
        )
    if shape.experts % degrees.expert:
        right = [n for n in range(1, shape.experts + 1) if shape.experts % n == 0]
        yield context.problem(
            (*path, "parallelism", "expert"),
            f"{degrees.expert} does not divide the experts of {job.model}, which has"
            f" {shape.experts}",
            allowed=list_names(str(n) for n in right),
            nearest=str(max(n for n in right if n <= degrees.expert)),
        )


def _shares_of_model(
    context: Context, job: Job, path: tuple[PathStep, ...], shape: ModelShape
) -> Iterator[Problem]:
    """Heads, tokens and layers can be shared out over the ranks and chunks."""
    degrees = job.parallelism
    assert degrees is not None
    length = job.sequence or shape.sequence
    for field, degree, what, total in (
        ("tensor", degrees.tensor, "attention heads", shape.heads),
        ("context", degrees.context, "tokens of a sequence", length),
    ):
        if total % degree:
            right = [n for n in range(1, total + 1) if total % n == 0]
            yield context.problem(
                (*path, "parallelism", field),
                f"{degree} does not divide the {total} {what} of {job.model}",
                allowed=f"a divisor of {total}",
                nearest=str(min(right, key=lambda n: max(n / degree, degree / n))),
            )
    stages, chunks = degrees.pipeline, job.interleave
    if chunks == 1 or stages > shape.layers:
        return
    if stages == 1:
        yield context.problem(
            (*path, "interleave"), "one stage has nothing to interleave with", allowed="1"
        )
    elif stages * chunks > shape.layers + (2 if (shape.layers + 2) % (stages * chunks) == 0 else 0):
        yield context.problem(
            (*path, "interleave"),
            f"{stages} stages × {chunks} chunks are more than the {shape.layers} layers of"
            f" {job.model}",
            allowed=f"at most {shape.layers // stages}",
            nearest=str(shape.layers // stages),
        )
    elif job.micro_batches % stages:
        yield context.problem(
            (*path, "micro_batches"),
            f"{job.micro_batches} micro-batches do not come in rounds of {stages} stages, as the"
            " interleaved schedule needs",
            allowed=f"a multiple of {stages}, or interleave 1",
            nearest=str(max(round(job.micro_batches / stages), 1) * stages),
        )


def _ranks(context: Context, job: Job) -> int | None:
    """Return how many GPUs a job uses, None where it cannot be known."""
    return context.total_gpus() if job.ranks == "all" else job.ranks


def ranks_have_gpus(context: Context) -> Iterator[Problem]:
    """Jobs fit on the GPUs there are; an explicit placement gives every rank a GPU of its own."""
    gpus = context.total_gpus()
    for number, job in enumerate(context.design.jobs):
        path, ranks = ("jobs", number), _ranks(context, job)
        if gpus is None or ranks is None:
            continue
        allowed = f"2 to {gpus}, or all" if gpus > 2 else "2, or all"
        if job.collective is not None and min(ranks, gpus) < 2:
            yield context.problem(
                (*path, "ranks"),
                "one rank has nobody to communicate with",
                allowed=allowed if gpus > 1 else "a cluster of more GPUs than this one",
                nearest="2" if gpus > 1 else "",
            )
        elif ranks > gpus:
            yield context.problem(
                (*path, "ranks"),
                f"{ranks} ranks on {gpus} GPUs",
                allowed=allowed,
                nearest=str(gpus),
            )
        if isinstance(job.placement, tuple):
            yield from _placement(context, job.placement, path, ranks, gpus)


def _placement(
    context: Context, placed: tuple[int, ...], path: tuple[PathStep, ...], ranks: int, gpus: int
) -> Iterator[Problem]:
    at = (*path, "placement")
    if len(placed) != ranks:
        yield context.problem(
            at, f"{len(placed)} GPUs are placed for {ranks} ranks", allowed=f"{ranks} GPU numbers"
        )
    seen: dict[int, int] = {}
    for rank, gpu in enumerate(placed):
        if gpu >= gpus:
            yield context.problem(
                (*at, rank),
                f"there is no GPU {gpu}; they are counted from 0",
                allowed=f"0 to {gpus - 1}",
                nearest=str(gpus - 1),
            )
        elif gpu in seen:
            yield context.problem(
                (*at, rank),
                f"GPU {gpu} is given to rank {seen[gpu]} already",
                allowed="every GPU once",
            )
        seen.setdefault(gpu, rank)


def names_are_unique(context: Context) -> Iterator[Problem]:
    """Jobs, tenants and traffic have names of their own."""
    design = context.design
    lists: tuple[tuple[str, str, list[str]], ...] = (
        ("jobs", "job", [job.name for job in design.jobs]),
        ("tenants", "tenant", [tenant.name for tenant in design.tenants]),
        ("background", "background traffic", [traffic.name for traffic in design.background]),
        ("storage_traffic", "storage traffic", [t.name for t in design.storage_traffic]),
    )
    for field, what, names in lists:
        yield from context.repeated(
            [(name, (field, i, "name")) for i, name in enumerate(names)], what
        )


def tenants_exist(context: Context) -> Iterator[Problem]:
    """Tenants named by jobs are declared, and tenants only use planes there are."""
    names = [tenant.name for tenant in context.design.tenants]
    for number, job in enumerate(context.design.jobs):
        if job.tenant is not None and job.tenant not in names:
            yield context.problem(
                ("jobs", number, "tenant"),
                f"there is no tenant {job.tenant!r}",
                allowed=list_names(names) or "a name that stands under tenants",
                nearest=nearest(job.tenant, names),
            )
    for number, tenant in enumerate(context.design.tenants):
        for position, name in enumerate(tenant.planes):
            yield from _plane_exists(context, name, ("tenants", number, "planes", position))


def _plane_exists(
    context: Context, name: PlaneName, path: tuple[PathStep, ...]
) -> Iterator[Problem]:
    if context.plane(name) is None:
        yield context.problem(
            path,
            f"this design has no {name.value} plane",
            allowed=list_names(plane.value for plane, _ in context.planes()),
        )


def traffic_has_its_plane(context: Context) -> Iterator[Problem]:
    """Background and storage traffic run on planes there are, between hosts there are."""
    design = context.design
    for number, traffic in enumerate(design.background):
        yield from _plane_exists(context, traffic.plane, ("background", number, "plane"))
        if context.total_servers() == 1:
            yield context.problem(
                ("background", number, "plane"),
                "the only server has no other to send to",
                allowed="background traffic in a cluster of two servers or more",
            )
    if design.cluster.storage_servers is not None and context.plane(PlaneName.STORAGE) is None:
        yield context.problem(
            ("cluster", "storage_servers"),
            "storage servers have no storage plane to attach to",
            allowed="planes.storage as well, of its own or shared",
        )
    for number, storage in enumerate(design.storage_traffic):
        path = ("storage_traffic", number)
        if context.plane(PlaneName.STORAGE) is None:
            yield context.problem(
                path, "storage traffic needs a storage plane", allowed="planes.storage as well"
            )
        if design.cluster.storage_servers is None:
            yield context.problem(
                path,
                "storage traffic needs storage servers",
                allowed="cluster.storage_servers as well",
            )
        if storage.ingest is None and storage.checkpoint_size is None:
            yield context.problem(
                path, "nothing says what is transferred", allowed="ingest, checkpoint_size or both"
            )
        for field, needs in (("checkpoint_period", "checkpoint_size"), ("duration", "ingest")):
            if field in context.stated(storage) and getattr(storage, needs) is None:
                yield context.problem(
                    (*path, field), f"{field!r} means nothing without {needs!r}", allowed=needs
                )


def stragglers_exist(context: Context) -> Iterator[Problem]:
    """Slow GPUs are GPUs there are, each once."""
    gpus, seen = context.total_gpus(), dict[int, int]()
    for number, straggler in enumerate(context.design.stragglers):
        path = ("stragglers", number, "gpu")
        if gpus is not None and straggler.gpu >= gpus:
            yield context.problem(
                path,
                f"there is no GPU {straggler.gpu}; they are counted from 0",
                allowed=f"0 to {gpus - 1}",
                nearest=str(gpus - 1),
            )
        elif straggler.gpu in seen:
            yield context.problem(
                path,
                f"GPU {straggler.gpu} is a straggler already",
                allowed="every GPU once",
            )
        seen.setdefault(straggler.gpu, number)


def services_have_planes(context: Context) -> Iterator[Problem]:
    """Services live on planes there are; a subnet manager on an InfiniBand one."""
    fabrics = [
        name.value
        for name, plane in context.own_planes()
        if plane.transport is Transport.INFINIBAND
    ]
    for number, service in enumerate(context.design.services):
        path = ("services", number)
        yield from _plane_exists(context, service.plane, (*path, "plane"))
        if service.kind is ServiceKind.SUBNET_MANAGER:
            yield from _subnet_manager(context, service, path, fabrics)


def _subnet_manager(
    context: Context, service: Service, path: tuple[PathStep, ...], fabrics: list[str]
) -> Iterator[Problem]:
    if not fabrics:
        yield context.problem(
            (*path, "kind"),
            "a subnet manager has nothing to manage: no plane is InfiniBand",
            allowed="scheduler, monitoring",
        )
        return
    plane = context.plane(service.plane)
    if plane is not None and context.transport(plane) is not Transport.INFINIBAND:
        yield context.problem(
            (*path, "plane"),
            f"a subnet manager works in band, and {service.plane.value} is not InfiniBand",
            allowed=list_names(fabrics),
            nearest=fabrics[0] if len(fabrics) == 1 else "",
        )


Check: TypeAlias = Callable[[Context], Iterable[Problem]]
WORK_CHECKS: tuple[Check, ...] = (
    job_is_one_thing,
    ranks_have_gpus,
    names_are_unique,
    tenants_exist,
    traffic_has_its_plane,
    stragglers_exist,
    services_have_planes,
)
