"""Checks of what a design says of security: nothing about parts it has not, no contradictions."""

from __future__ import annotations

from collections.abc import Iterator

from railweave.design._context import Context
from railweave.design.models import PlaneName, Transport
from railweave.errors import Problem
from railweave.formats.validation import list_names

__all__ = ["security_means_something"]

_INFINIBAND_ONLY = ("default_partition", "partition_enforcement", "subnet_keys")


def security_means_something(context: Context) -> Iterator[Problem]:
    """Statements are about planes and transports there are."""
    stated = context.stated(context.design.security)
    transports = {context.transport(plane) for _, plane in context.planes()}
    for field in _INFINIBAND_ONLY:
        if field in stated and Transport.INFINIBAND not in transports:
            yield context.problem(
                ("security", field),
                f"{field!r} is about InfiniBand, and no plane is",
                allowed="with a plane of transport infiniband",
            )
    if "rkey_scope" in stated and not transports & {Transport.INFINIBAND, Transport.ROCEV2}:
        yield context.problem(
            ("security", "rkey_scope"),
            "there are no rkeys: no plane has RDMA",
            allowed="with a plane of transport infiniband or rocev2",
        )
    if "storage_access" in stated and context.plane(PlaneName.STORAGE) is None:
        yield context.problem(
            ("security", "storage_access"),
            "this design has no storage plane",
            allowed="planes.storage as well, of its own or shared",
        )
    yield from _management(context)


def _management(context: Context) -> Iterator[Problem]:
    security, plane = context.design.security, context.plane(PlaneName.MANAGEMENT)
    for position, name in enumerate(security.management_reachable_from or ()):
        if context.plane(PlaneName(name)) is None:
            yield context.problem(
                ("security", "management_reachable_from", position),
                f"this design has no {name} plane",
                allowed=list_names(
                    other.value for other, _ in context.planes() if other.value != "management"
                ),
            )
    if plane is not None and plane.shares is None:
        return
    why = "there is no management plane"
    if plane is not None and plane.shares is not None:
        why = f"management shares {plane.shares.value!r}"
    if security.management_access == "out-of-band":
        yield context.problem(
            ("security", "management_access"),
            f"{why}, so access is not out of band",
            allowed="in-band, or a management plane with a network of its own",
            nearest="in-band",
        )
    if security.management_reachable_from is not None:
        yield context.problem(
            ("security", "management_reachable_from"),
            f"{why}, so the networks over which devices are managed reach them anyway",
            allowed="with a management plane that has a network of its own",
        )
