"""Port maps: what is cabled to each port of a switch, by logical and by physical port."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railweave.fabric._arrays import Fabric, NodeKind
from railweave.fabric.names import node_name

if TYPE_CHECKING:
    from railweave.fabric.build import BuiltFabric
    from railweave.fabric.sizing import NetworkSize

__all__ = ["Port", "PortMap", "port_map", "ports_used_twice"]


@dataclass(frozen=True, slots=True)
class Port:
    """One logical port. ``peer`` is empty where nothing is cabled.

    ``cage`` is the physical port and ``lane`` the part of it, both from 1; ``role`` is ``down``,
    ``up`` or ``free`` (beyond what is provisioned).
    """

    number: int
    cage: int
    lane: int
    role: str
    peer: str
    peer_port: int
    speed_bps: float
    cable: int
    length_m: float


@dataclass(frozen=True, slots=True)
class PortMap:
    """All ports of a switch, provisioned ones that are free included."""

    switch: str
    model: str
    ports: tuple[Port, ...]

    @property
    def used(self) -> int:
        """Number of ports with a cable."""
        return sum(bool(port.peer) for port in self.ports)


def port_map(built: BuiltFabric, switch: int) -> PortMap:
    """Return the port map of a switch, in order of logical ports.

    Raises:
        ValueError: the node is not a switch.
    """
    fabric = built.fabric
    if fabric.node_kind[switch] != NodeKind.SWITCH:
        raise ValueError(f"{node_name(fabric, switch)} is not a switch")
    plan = next(p for p in built.plans.values() if p.plane == fabric.node_plane[switch])
    tier = int(fabric.node_tier[switch])
    links = np.flatnonzero(fabric.link_src == switch)
    by_port = {int(fabric.link_src_port[link]): int(link) for link in links}
    last = max([*by_port, _provisioned(plan.size, tier)])
    return PortMap(
        switch=node_name(fabric, switch),
        model=fabric.switch_models.get(switch, ""),
        ports=tuple(
            _port(fabric, plan.size, tier, number, by_port.get(number))
            for number in range(1, last + 1)
        ),
    )


def _provisioned(size: NetworkSize | None, tier: int) -> int:
    split = None if size is None else {1: size.leaf, 2: size.spine}.get(tier)
    return split.down_links + split.up_links if split else 0


def _port(
    fabric: Fabric, size: NetworkSize | None, tier: int, number: int, link: int | None
) -> Port:
    split = None if size is None else {1: size.leaf, 2: size.spine}.get(tier)
    role, speed = "down", 0.0
    if split is None:
        ways = 1
        if size is not None and tier == 3:
            ways = max(1, size.demand.core.ways(size.demand.spine_up_bps))
        cage, lane = (number - 1) // ways + 1, (number - 1) % ways + 1
    else:
        cage, lane = split.physical_port(number)
        speed = split.down_bps
        if number > split.down_links + split.up_links:
            role = "free"
        elif number > split.down_links:
            role, speed = "up", split.up_bps
    if link is None:
        return Port(number, cage, lane, role, "", 0, speed, -1, 0.0)
    return Port(
        number=number,
        cage=cage,
        lane=lane,
        role=role,
        peer=node_name(fabric, int(fabric.link_dst[link])),
        peer_port=int(fabric.link_dst_port[link]),
        speed_bps=float(fabric.link_capacity_bps[link]),
        cable=int(fabric.duplex_cable[link // 2]),
        length_m=float(fabric.link_length_m[link]),
    )


def ports_used_twice(fabric: Fabric) -> list[tuple[int, int]]:
    """Return (node, port) of every port with more than one link; an empty list when all is well."""
    cabled = np.flatnonzero(fabric.link_src_port > 0)
    pairs = np.stack((fabric.link_src[cabled], fabric.link_src_port[cabled]), axis=1)
    found, count = np.unique(pairs, axis=0, return_counts=True)
    return [(int(node), int(port)) for node, port in found[count > 1]]
