"""Whether the jobs' flows spread over the uplinks, measured on the paths they would take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from railweave.assess.context import CheckContext
from railweave.design.models import Collective, PlaneName, RoutingScheme, RoutingSpec, Transport
from railweave.engine.metrics import Spread, uplink_spread
from railweave.errors import RailweaveError
from railweave.fabric import PlaneId
from railweave.fabric.routing import Routing, compile_routing
from railweave.findings import Finding
from railweave.workload.jobs import job_sends, place_jobs, plan_job

__all__ = ["few_flows"]

#: draws of the queue pair numbers, and so of the hashes, that are averaged
DRAWS: Final = 5
#: more streams than these are no "few flows"
MOST_STREAMS: Final = 200_000
#: what is tried instead, as it is written in a design
REMEDIES: Final[dict[str, dict[str, object]]] = {
    "{queue_pairs: 4}": {"queue_pairs": 4},
    "adaptive": {"scheme": RoutingScheme.ADAPTIVE},
    "static": {"scheme": RoutingScheme.STATIC},
}
#: how much lower the busiest uplink must be for a remedy to count
HELPS: Final = 0.9
#: how much the hash must cost against the best remedy to be worth a warning
COSTS: Final = 1.25

Streams = tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int32]]


def few_flows(context: CheckContext) -> Iterator[Finding]:
    """Few long flows between leaves: the hash puts several on one uplink and leaves others idle."""
    plane = context.plane(PlaneName.BACKEND)
    if (
        plane is None
        or plane.shares is not None
        or context.scheme(plane) is not RoutingScheme.ECMP
        or context.transport(plane) is Transport.TCP
        or plane.routing.queue_pairs > 1
    ):
        return
    streams, size = _streams(context)
    if not 0 < len(size) <= MOST_STREAMS:
        return
    routing = compile_routing(
        context.fabric,
        PlaneId.BACKEND,
        plane.routing,
        context.transport(plane),
        context.design.seed,
    )
    hashed, ratio = _measure(routing, plane.routing, streams, size)
    if not hashed.switches or ratio < COSTS:
        return
    tried = {
        name: _measure(routing, plane.routing.model_copy(update=change), streams, size)[1]
        for name, change in REMEDIES.items()
    }
    best = min(tried.values())
    if ratio < COSTS * best:
        return
    helping = sorted(
        (name for name in tried if tried[name] <= HELPS * ratio), key=tried.__getitem__
    )
    flows, uplinks = hashed.flows / hashed.switches, hashed.links / hashed.switches
    yield context.warning(
        "few-flows-for-ecmp",
        "planes.backend.routing",
        f"{hashed.flows:,} flows of the jobs cross the uplinks of {hashed.switches:,} leaves, about"
        f" {flows:.3g} of a leaf over {uplinks:.3g} uplinks: hashed, the busiest uplink carries"
        f" {ratio / best:.2g} times what it need",
        f"busiest uplink / mean of its leaf, over {DRAWS} draws of the hash: ecmp {ratio:.2f}, "
        + ", ".join(f"{name} {value:.2f}" for name, value in tried.items()),
        "routing: " + " or ".join(helping),
    )


def _streams(context: CheckContext) -> tuple[Streams, npt.NDArray[np.float64]]:
    """Return ends, connection and bytes of the jobs' different streams, all-to-all left out."""
    none = np.zeros(0, dtype=np.int32)
    design, fabric = context.design, context.fabric
    parts = [np.zeros((0, 3), dtype=np.int32)]
    sizes = [np.zeros(0)]
    try:
        sends = job_sends(fabric, design, context.catalog)
        placed, _ = place_jobs(design.jobs, fabric, design.seed, sends)
        for job, nodes in zip(design.jobs, placed, strict=True):
            if job.collective is Collective.ALL_TO_ALL:
                continue
            once = job.model_copy(update={"iterations": 1})
            traffic = plan_job(once, nodes, fabric, design, context.catalog).traffic
            number = traffic.stream_connection
            number = np.zeros_like(traffic.src) if number is None else number
            parts.append(np.stack((traffic.src, traffic.dst, number), axis=1))
            sizes.append(traffic.stream_bytes)
    except RailweaveError:  # another check, or the simulation, says what does not fit
        return (none, none, none), np.zeros(0)
    rows, inverse = np.unique(np.concatenate(parts), axis=0, return_inverse=True)
    size = np.bincount(inverse.reshape(-1), weights=np.concatenate(sizes), minlength=len(rows))
    src, dst, connection = np.ascontiguousarray(rows.T, dtype=np.int32)
    return (src, dst, connection), size.astype(np.float64)


def _measure(
    routing: Routing, spec: RoutingSpec, streams: Streams, size: npt.NDArray[np.float64]
) -> tuple[Spread, float]:
    """Return the spread over the leaves' uplinks, and busiest over mean, averaged over draws."""
    src, dst, connection = streams
    routing = routing.under(spec)
    ratios = []
    for draw in range(DRAWS):
        paths = routing.paths(src, dst, connection=connection + draw * 1_000_003, size_bytes=size)
        load = size[paths.message] * paths.share
        spread = uplink_spread(routing.fabric, paths, flow_bytes=load)
        ratios.append(spread.worst_ratio)
    return spread, float(np.mean(ratios))
