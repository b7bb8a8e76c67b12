"""Cyclic buffer dependency: can links that pause each other stop one another for good?

A lossless link (PFC or credits) makes the packet behind wait until there is room ahead. So a link
*waits for* another where some packet may arrive over the first and leave by the second. Links that
wait for each other in a circle can fill up together, and then none of them moves again, whatever
the load drops to. Routing without such a circle cannot deadlock (Dally and Seitz, IEEE Trans.
Computers 1987); with one, it takes only a bad moment.

All traffic is taken to be of one lossless class. Endpoints are taken to accept what reaches them:
a receiver that pauses for ever blocks those who send to it, without any circle.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from railweave._native import LinkDependencies
from railweave.design.models import RoutingScheme
from railweave.errors import InputError
from railweave.fabric._arrays import Fabric, PlaneId
from railweave.fabric.names import node_name, port_name
from railweave.fabric.routing import Routing

__all__ = ["DeadlockCheck", "check_deadlock", "name_cycle", "name_reasons"]

#: steps of the search for the shortest cycle: some seconds at the most
_STEPS = 1 << 30


@dataclass(frozen=True, slots=True)
class DeadlockCheck:
    """What waits for what in one plane.

    ``cycle`` holds directed links between switches, each of which waits for the next and the last
    for the first; it begins with the lowest number and is empty where there is no circle.
    ``towards[k]`` is the switch or endpoint whose traffic makes ``cycle[k]`` wait for the next.
    ``shortest`` is False where the search for a shorter cycle was given up.

    ``channels`` counts the links between switches that traffic may cross, ``dependencies`` the
    pairs of them of which the first waits for the second. ``basis`` says whose choices were
    followed: ``"next-hop sets"`` (every member may be taken), ``"destination"`` (the one member
    that d-mod-k takes) or ``"table"``.
    """

    plane: PlaneId
    cycle: tuple[int, ...]
    towards: tuple[int, ...]
    channels: int
    dependencies: int
    basis: str
    shortest: bool = True

    @property
    def free(self) -> bool:
        """Whether nothing waits in a circle."""
        return not self.cycle


def check_deadlock(routing: Routing, *, max_steps: int = _STEPS) -> DeadlockCheck:
    """Find a shortest circle of links that wait for each other, if there is one.

    Only what traffic can really cross counts: ways that start at a live port of an endpoint and
    lead to another one. Every live port of a sender is taken to be in use.

    Schemes that choose among next-hop sets (hashes, pins, load, spraying) are held to be able to
    take any member, at every switch anew. Where switches have tiers these ways go up and then
    down, which is free whatever is chosen; d-mod-k takes some of them. Without tiers d-mod-k is
    followed destination by destination, as forwarding tables are.

    Args:
        routing: of the fabric as it stands; :meth:`Routing.on` gives that of another state.
        max_steps: after which the search for a shorter cycle ends.

    Raises:
        InputError: scheme ``table`` without a table.
    """
    basis, graph = "next-hop sets", LinkDependencies(routing.table)
    if routing.scheme is RoutingScheme.TABLE:
        basis = "table"
    elif routing.scheme is RoutingScheme.DESTINATION and not routing.table.tiered:
        basis = "destination"
    _fill(graph, routing, basis)
    cycle, shortest = graph.shortest_cycle(max_steps)
    towards: list[int] = []
    if cycle.size:
        # Reasons are rarely asked for, so they are found by going through all traffic once more.
        again = LinkDependencies(routing.table)
        again.watch(cycle)
        _fill(again, routing, basis)
        towards = again.reasons.tolist()
    return DeadlockCheck(
        routing.plane,
        tuple(cycle.tolist()),
        tuple(towards),
        graph.channels,
        graph.dependencies,
        basis,
        shortest,
    )


def _fill(graph: LinkDependencies, routing: Routing, basis: str) -> None:
    if basis == "next-hop sets":
        graph.add_next_hops()
    elif basis == "destination":
        graph.add_destinations()
    else:
        table = routing.forwarding
        if table is None:
            raise InputError(
                f"planes.{routing.plane.name.lower()}.routing: scheme 'table' needs a "
                "forwarding-table file; set 'table' to its path, or choose another scheme"
            )
        graph.add_entries(table.switch, table.destination, table.link)


def name_cycle(fabric: Fabric, links: Iterable[int]) -> str:
    """Name links of a cycle hop by hop, each by the port it leaves and the port it enters.

    ``s1:port-9 → s2:port-10, s2:port-9 → s3:port-10, s3:port-9 → s1:port-10``; each link waits for
    the next, the last for the first. Empty where there are no links.
    """
    return ", ".join(
        f"{port_name(fabric, int(link))} → {port_name(fabric, int(link), head=True)}"
        for link in links
    )


def name_reasons(fabric: Fabric, cycle: Sequence[int], towards: Sequence[int]) -> str:
    """Say which traffic makes each link of a cycle wait for the next, and at which switch."""
    return ", ".join(
        f"at {node_name(fabric, int(fabric.link_dst[link]))} by traffic to "
        f"{node_name(fabric, int(node))}"
        for link, node in zip(cycle, towards, strict=True)
    )
