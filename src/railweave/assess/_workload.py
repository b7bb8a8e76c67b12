"""Checks of the jobs and of storage traffic against the machines they run on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from railweave.assess._overlap import gpus_of_one_job
from railweave.assess.context import CheckContext
from railweave.design.models import Algorithm, Job, ServerGroup, StorageServers
from railweave.findings import Finding
from railweave.units import format_si
from railweave.workload import Communicator, require_algorithm

__all__ = ["WORKLOAD_CHECKS"]

#: bytes a parameter in mixed precision: BF16 weight and gradient; FP32 weight and two moments of
#: Adam, which can be shared out over the data-parallel ranks
KEPT_BYTES: Final = 4
SHARDED_BYTES: Final = 12


def tensor_in_a_server(context: CheckContext) -> Iterator[Finding]:
    """Tensor parallelism talks inside every layer: it belongs inside a scale-up domain."""
    smallest = min(_domain(context, group) for group in context.design.cluster.servers)
    for number, job in enumerate(context.design.jobs):
        degrees = job.parallelism
        if degrees is not None and degrees.tensor > smallest:
            yield context.warning(
                "tensor-across-servers",
                f"jobs[{number}].parallelism.tensor",
                f"{job.name}: tensor groups of {degrees.tensor} do not fit a scale-up domain of"
                f" {smallest} GPUs and exchange activations of every layer over the fabric",
                fix=f"tensor: {smallest} or less, more pipeline stages",
            )


def _domain(context: CheckContext, group: ServerGroup) -> int:
    """Return how many GPUs of a server group share a scale-up network."""
    if group.inline is not None:
        return group.inline.gpus if group.inline.scale_up_bandwidth is not None else 1
    return max(1, context.catalog.server(group.model or "").scale_up_domain_gpus)


def model_fits_memory(context: CheckContext) -> Iterator[Finding]:
    """Weights, gradients and optimizer state of a rank fit its GPU."""
    memory, name = min(_memory(context, group) for group in context.design.cluster.servers)
    for number, job in enumerate(context.design.jobs):
        if job.model is None or not memory:
            continue
        whole, sharded = _state_bytes(context, job)
        path = f"jobs[{number}].model"
        gpu = f"{name} has {format_si(memory, 'B')}"
        if sharded > memory:
            yield context.warning(
                "model-exceeds-memory",
                path,
                f"{job.name}: weights, gradients and optimizer state need at least"
                f" {format_si(sharded, 'B')} a GPU; {gpu}",
                "4 B a parameter, and 12 B shared out over the data-parallel ranks; activations"
                " come on top",
                "more tensor or pipeline stages, or GPUs with more memory",
            )
        elif whole > memory:
            yield context.info(
                "model-needs-sharding",
                path,
                f"{job.name}: without sharding, weights, gradients and optimizer state need"
                f" {format_si(whole, 'B')} a GPU; {gpu}",
                f"with the optimizer state sharded {format_si(sharded, 'B')}, activations not"
                " counted",
                "shard the optimizer state over the data-parallel ranks",
            )


def _memory(context: CheckContext, group: ServerGroup) -> tuple[float, str]:
    """Return memory and name of a group's GPU."""
    name = (
        group.inline.gpu
        if group.inline is not None
        else context.catalog.server(group.model or "").gpu
    )
    if name is None:
        return 0.0, ""
    part = context.catalog.gpu(name)
    return float(part.memory_bytes), part.title


def _state_bytes(context: CheckContext, job: Job) -> tuple[float, float]:
    """Return the bytes of a rank's model state: whole, and with the optimizer state sharded."""
    shape, degrees = context.catalog.model(job.model or ""), job.parallelism
    ranks = len(context.fabric.gpus) if job.ranks == "all" else job.ranks
    split = degrees.tensor * degrees.pipeline if degrees else 1
    data = max(1, ranks // split)
    parameters = shape.parameters / split / (degrees.expert if degrees else 1)
    return (
        parameters * (KEPT_BYTES + SHARDED_BYTES),
        parameters * (KEPT_BYTES + SHARDED_BYTES / data),
    )


def channels_over_rails(context: CheckContext) -> Iterator[Finding]:
    """More channels than rails share the rails, evenly only where they are a multiple."""
    asked = {number: job for number, job in enumerate(context.design.jobs) if job.channels}
    rails = Communicator.from_fabric(context.fabric, context.fabric.gpus).channels if asked else 0
    for number, job in asked.items():
        channels = job.channels or 0
        whole = job.collective and require_algorithm(job.collective, job.algorithm)
        if channels <= rails or whole not in {Algorithm.RING, Algorithm.TREE}:
            continue
        rest = channels % rails
        spread = (
            f"{rest} of the rails carry {channels // rails + 1} channels and the others"
            f" {channels // rails}, so the fuller ones set the pace"
            if rest
            else f"every rail carries {channels // rails} channels"
        )
        yield context.info(
            "more-channels-than-rails",
            f"jobs[{number}].channels",
            f"{job.name}: {channels} channels on {rails} rails: each is simulated as a ring or tree"
            f" of its own with size / {channels} bytes, channel c on rail c mod {rails}; {spread}",
            fix=f"channels: {rails}, or leave it out; a multiple of {rails} where more are meant",
        )


def storage_keeps_up(context: CheckContext) -> Iterator[Finding]:
    """Storage servers can read what is ingested, and write a checkpoint before the next."""
    storage = context.design.cluster.storage_servers
    if storage is None:
        return
    servers = int(context.built.nodes.host.size)
    read, write = _offered_bps(storage)
    for number, traffic in enumerate(context.design.storage_traffic):
        path = f"storage_traffic[{number}]"
        if traffic.ingest is not None and traffic.ingest * servers > read:
            yield context.warning(
                "storage-reads-too-slow",
                f"{path}.ingest",
                f"{traffic.name}: {servers} servers read"
                f" {format_si(traffic.ingest * servers / 8, 'B/s')} together, the storage servers"
                f" deliver {format_si(read / 8, 'B/s')}",
                _evidence(storage, storage.read_bandwidth),
                "more storage servers, or a lower ingest",
            )
        if traffic.checkpoint_size is None:
            continue
        needed = 8 * traffic.checkpoint_size / write
        if needed > traffic.checkpoint_period:
            yield context.warning(
                "checkpoint-outlasts-period",
                f"{path}.checkpoint_period",
                f"{traffic.name}: writing a checkpoint takes {needed:.3g} s at least, and the next"
                f" follows after {traffic.checkpoint_period:.3g} s",
                _evidence(storage, storage.write_bandwidth),
                "more storage servers, smaller checkpoints or a longer period",
            )


def _offered_bps(storage: StorageServers) -> tuple[float, float]:
    """Return what all storage servers read and write: their own limit or their ports'."""
    ports = storage.ports * storage.speed
    read = min(ports, storage.read_bandwidth or ports)
    write = min(ports, storage.write_bandwidth or ports)
    return storage.count * read, storage.count * write


def _evidence(storage: StorageServers, own_bps: float | None) -> str:
    own = f", {format_si(own_bps / 8, 'B/s')} each by itself" if own_bps is not None else ""
    ports = format_si(storage.speed, "b/s")
    return f"{storage.count} storage servers with {storage.ports} × {ports}{own}"


WORKLOAD_CHECKS = (
    tensor_in_a_server,
    model_fits_memory,
    channels_over_rails,
    gpus_of_one_job,
    storage_keeps_up,
)
