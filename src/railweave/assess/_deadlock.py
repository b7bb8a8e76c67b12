"""Whether lossless links can stop each other for good: a circle of links that wait."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from railweave.assess.context import CheckContext
from railweave.design.models import Plane, PlaneName, RoutingScheme, Transport
from railweave.fabric import PlaneId
from railweave.fabric.deadlock import DeadlockCheck, check_deadlock, name_cycle, name_reasons
from railweave.fabric.planes import compile_planes
from railweave.findings import Finding

__all__ = ["DEADLOCK_CHECKS"]


def cyclic_buffer_dependency(context: CheckContext) -> Iterator[Finding]:
    """Lossless links must not wait for each other in a circle.

    Planes whose switches have tiers are free by the way they are routed, up and then down; those
    of an untiered graph, or with a forwarding table from a file, are looked at.
    """
    suspects = [
        (name, plane)
        for name, plane, _ in context.networks()
        if context.transport(plane) is not Transport.TCP and _may_turn(context, name, plane)
    ]
    if not suspects:
        return
    routings = compile_planes(context.loaded, context.built, seed=context.design.seed).planes
    for name, plane in suspects:
        check = check_deadlock(routings[PlaneId[name.name]])
        lossless = context.congestion(plane).value.split("+")[0] in ("pfc", "credits")
        path = f"planes.{name.value}.routing"
        counts = (
            f"{check.dependencies:,} waits among {check.channels:,} links between switches,"
            f" by {check.basis}"
        )
        if check.free and lossless:
            yield context.info(
                "deadlock-free",
                path,
                f"{name.value}: no lossless links can wait for each other in a circle",
                counts,
            )
        elif not check.free and lossless:
            yield _error(context, plane, path, check, counts)
        elif not check.free:
            yield context.info(
                "cyclic-buffer-dependency",
                path,
                f"{name.value} drops rather than pauses, so it cannot deadlock; with PFC it could: "
                + _circle(context, check),
                counts,
            )


def _may_turn(context: CheckContext, name: PlaneName, plane: Plane) -> bool:
    """Return whether routing may send packets up again after they came down."""
    switches = context.fabric.switches(PlaneId[name.name])
    untiered = bool(np.any(context.fabric.node_tier[switches] < 0))
    return untiered or context.scheme(plane) is RoutingScheme.TABLE


def _circle(context: CheckContext, check: DeadlockCheck) -> str:
    n = len(check.cycle)
    links = f"{n} links wait for each other in a circle" if n > 1 else "a link waits for itself"
    return f"{links}: {name_cycle(context.fabric, check.cycle)}"


def _error(
    context: CheckContext, plane: Plane, path: str, check: DeadlockCheck, counts: str
) -> Finding:
    """Name the circle, the traffic that closes it, and the ways out."""
    if context.transport(plane) is Transport.INFINIBAND:
        lane, last = "virtual lane", ""
    else:
        lane, last = "lossless priority", "; a PFC watchdog ends a deadlock only by dropping"
    return context.error(
        "cyclic-buffer-dependency",
        path,
        f"{check.plane.name.lower()} can deadlock: when their buffers are full, "
        + _circle(context, check),
        f"closed {name_reasons(context.fabric, check.cycle, check.towards)}; {counts}"
        + ("" if check.shortest else "; a shorter circle may exist"),
        "route up and then down only (tiers, or a table without these turns), take away the links"
        f" of one hop, or change to a second {lane} where the circle closes{last}",
    )


DEADLOCK_CHECKS = (cyclic_buffer_dependency,)
