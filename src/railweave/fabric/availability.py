"""Availability of a server's connection to a plane, from stated failure and repair times.

A part with mean time between failures M and mean time to repair R is up with probability
M / (M + R). A server's connection is *whole* when every one of its NICs has a working port into
the plane (what a synchronised job needs), and *alive* when at least one has.

Within a server this is worked out exactly over the states of the leaves it shares; a leaf's ways
up (links, spines, cores) count as independent of other leaves' ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Final

import numpy as np

from railweave.fabric._arrays import Fabric, NodeKind, PlaneId
from railweave.fabric._network import SwitchNetwork, switch_network
from railweave.findings import Finding, Severity
from railweave.provenance import Assumption, Certainty

__all__ = [
    "COPPER_LINK",
    "NIC",
    "OPTICAL_LINK",
    "SWITCH",
    "Availability",
    "Reliability",
    "Repairs",
    "nines",
    "server_availability",
]

_HOUR_S: Final = 3600.0
_YEAR_S: Final = 365.25 * 24 * _HOUR_S
#: leaves of one server whose states are enumerated together
_MAX_SHARED_LEAVES: Final = 12


@dataclass(frozen=True, slots=True)
class Reliability:
    """Mean time between failures and mean time to repair of one kind of part, in seconds."""

    part: str
    mtbf_s: float
    mttr_s: float
    basis: str

    @property
    def availability(self) -> float:
        """Share of time the part works."""
        return self.mtbf_s / (self.mtbf_s + self.mttr_s)

    @property
    def assumption(self) -> Assumption:
        """Say what is taken as given."""
        return Assumption(
            f"reliability of a {self.part}",
            f"MTBF {self.mtbf_s / _HOUR_S:,.0f} h, MTTR {self.mttr_s / _HOUR_S:g} h ({self.basis})",
            Certainty.ASSUMED,
        )


NIC: Final = Reliability(
    "NIC", 1.0e6 * _HOUR_S, 8 * _HOUR_S, "order of magnitude of vendors' figures; server drained"
)
SWITCH: Final = Reliability(
    "switch", 3.0e5 * _HOUR_S, 4 * _HOUR_S, "order of magnitude of vendors' figures; spare on site"
)
OPTICAL_LINK: Final = Reliability(
    "link with two optical modules",
    5.0e5 * _HOUR_S,
    2 * _HOUR_S,
    "two modules of 1,000,000 h each; spare on site",
)
COPPER_LINK: Final = Reliability(
    "passive copper link", 1.0e7 * _HOUR_S, 2 * _HOUR_S, "no active parts; spare on site"
)


@dataclass(frozen=True, slots=True)
class Repairs:
    """Reliability of each kind of part; links up to ``copper_reach_m`` count as passive copper."""

    nic: Reliability = NIC
    switch: Reliability = SWITCH
    optical: Reliability = OPTICAL_LINK
    copper: Reliability = COPPER_LINK
    copper_reach_m: float = 3.0

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """Say all that is taken as given."""
        parts = (self.nic, self.switch, self.optical, self.copper)
        return (
            *(part.assumption for part in parts),
            Assumption(
                "kind of link",
                f"links up to {self.copper_reach_m:g} m are passive copper, longer ones optical",
            ),
            Assumption(
                "independence",
                "parts fail independently; a leaf's ways up are independent of other leaves' ways",
                Certainty.ESTIMATED,
            ),
        )


@dataclass(frozen=True, slots=True)
class Availability:
    """Availability of the worst placed server's connection, and of what it rests on.

    ``whole``: every NIC connected; ``alive``: at least one is. ``objective`` is held against
    ``whole``; None where none was set.
    """

    server: int
    whole: float
    alive: float
    objective: float | None
    assumptions: tuple[Assumption, ...]

    @property
    def met(self) -> bool:
        """Whether the objective is met; true where there is none."""
        return self.objective is None or self.whole >= self.objective

    @property
    def downtime_s_per_year(self) -> float:
        """Seconds in a year in which some NIC of the server is not connected."""
        return (1 - self.whole) * _YEAR_S

    def findings(self, path: str = "objectives.availability") -> tuple[Finding, ...]:
        """Return an error where the objective is missed."""
        if self.met:
            return ()
        return (
            Finding(
                "availability-objective-missed",
                Severity.ERROR,
                path,
                f"a server's connection is whole {self.whole:.6%} of the time "
                f"({nines(self.whole):.2f} nines), {self.objective:.6%} is asked for",
                evidence="; ".join(a.statement for a in self.assumptions),
                fix="connect every NIC to two leaves (dual_tor or planes: 2), or a lower objective",
            ),
        )

    def to_json(self) -> dict[str, object]:
        """Return plain data for JSON."""
        return {
            "whole": self.whole,
            "whole_nines": nines(self.whole),
            "alive": self.alive,
            "alive_nines": nines(self.alive),
            "downtime_s_per_year": self.downtime_s_per_year,
            "objective": self.objective,
            "met": self.met,
        }


def nines(availability: float) -> float:
    """Return −log10 of the unavailability: 0.999 gives 3; capped at 15, where doubles end."""
    return min(15.0, -math.log10(max(1.0 - availability, 1e-15)))


def server_availability(
    fabric: Fabric,
    plane: PlaneId = PlaneId.BACKEND,
    *,
    repairs: Repairs | None = None,
    objective: float | None = None,
) -> Availability | None:
    """Return the availability of the worst placed server's connection to a plane.

    Links that are down do not count at all. None where no server has a link into the plane.
    """
    repairs = repairs or Repairs()
    ways = _Ways(fabric, switch_network(fabric, plane), repairs)
    results: dict[tuple[tuple[tuple[int, float], ...], ...], tuple[float, float]] = {}
    worst: tuple[float, float, int] | None = None
    for server, nics in ways.by_server().items():
        shape = _shape(nics)
        if shape not in results:
            results[shape] = _combine(nics, ways.leaf_up, repairs.nic.availability)
        found = (*results[shape], server)
        worst = found if worst is None else min(worst, found)
    if worst is None:
        return None
    return Availability(worst[2], worst[0], worst[1], objective, repairs.assumptions)


#: ports of one NIC: (switch number, availability of the link)
_Ports = list[tuple[int, float]]


@dataclass(frozen=True, eq=False)
class _Ways:
    """Links of the servers and the availability of each switch as seen from below."""

    fabric: Fabric
    network: SwitchNetwork
    repairs: Repairs

    @cached_property
    def link(self) -> list[float]:
        """Return the availability of each duplex link, by its length."""
        copper = self.fabric.link_length_m[::2] <= self.repairs.copper_reach_m
        by_kind = np.where(
            copper, self.repairs.copper.availability, self.repairs.optical.availability
        )
        values: list[float] = by_kind.tolist()
        return values

    def by_server(self) -> dict[int, list[_Ports]]:
        """Return the live ports of each NIC, by server."""
        network, fabric = self.network, self.fabric
        nics: dict[int, dict[int, _Ports]] = {}
        storage = fabric.node_kind[network.host_node] == NodeKind.STORAGE
        for duplex, switch, node, server, up in zip(
            network.host_duplex.tolist(),
            network.host_switch.tolist(),
            network.host_node.tolist(),
            np.where(storage, -1, fabric.node_server[network.host_node]).tolist(),
            fabric.link_up[2 * network.host_duplex].tolist(),
            strict=True,
        ):
            if server < 0:
                continue
            ports = nics.setdefault(server, {}).setdefault(node, [])
            if up:
                ports.append((switch, self.link[duplex]))
        return {server: list(ports.values()) for server, ports in nics.items()}

    @cached_property
    def leaf_up(self) -> list[float]:
        """Return for each switch the chance that it works and, where it has ways up, has one."""
        network, fabric = self.network, self.fabric
        tier = fabric.node_tier[network.switch].astype(int)
        lost: dict[tuple[int, int], float] = {}
        a, b = network.group_a[network.trunk_group], network.group_b[network.trunk_group]
        upward = tier[a] < tier[b]
        lows, highs = np.where(upward, a, b), np.where(upward, b, a)
        useful = fabric.link_up[2 * network.trunk_duplex] & (tier[a] != tier[b])
        for duplex, low, high in zip(
            network.trunk_duplex[useful].tolist(),
            lows[useful].tolist(),
            highs[useful].tolist(),
            strict=True,
        ):
            lost[low, high] = lost.get((low, high), 1.0) * (1 - self.link[duplex])
        above: dict[int, list[tuple[int, float]]] = {}
        for (low, high), link_lost in lost.items():
            above.setdefault(low, []).append((high, 1 - link_lost))
        works = self.repairs.switch.availability
        out = [works] * network.n
        for number in np.argsort(-tier, kind="stable").tolist():
            ups = above.get(number)
            if ups:
                out[number] = works * (1 - math.prod(1 - link * out[high] for high, link in ups))
        return out


def _shape(nics: list[_Ports]) -> tuple[tuple[tuple[int, float], ...], ...]:
    """Name a server's attachment so that equal ones are worked out once; leaves are kept."""
    return tuple(tuple(ports) for ports in nics)


def _combine(nics: list[_Ports], leaf_up: list[float], nic_up: float) -> tuple[float, float]:
    """Return the chances that all NICs, and that at least one NIC, have a working port."""
    whole, none = 1.0, 1.0
    for cluster in _clusters(nics):
        leaves = sorted({leaf for ports in cluster for leaf, _ in ports})
        if len(leaves) > _MAX_SHARED_LEAVES:
            every, nobody = _independent(cluster, leaf_up, nic_up)
        else:
            every = nobody = 0.0
            for state in product((True, False), repeat=len(leaves)):
                up = dict(zip(leaves, state, strict=True))
                chance = math.prod(
                    leaf_up[leaf] if works else 1 - leaf_up[leaf] for leaf, works in up.items()
                )
                reach = [
                    nic_up * (1 - math.prod(1 - link for leaf, link in ports if up[leaf]))
                    for ports in cluster
                ]
                every += chance * math.prod(reach)
                nobody += chance * math.prod(1 - r for r in reach)
        whole *= every
        none *= nobody
    return whole, 1 - none


def _independent(cluster: list[_Ports], leaf_up: list[float], nic_up: float) -> tuple[float, float]:
    """Treat the NICs of a cluster as independent, where too many leaves are shared."""
    reach = [
        nic_up * (1 - math.prod(1 - link * leaf_up[leaf] for leaf, link in ports))
        for ports in cluster
    ]
    return math.prod(reach), math.prod(1 - r for r in reach)


def _clusters(nics: list[_Ports]) -> list[list[_Ports]]:
    """Part the NICs of a server into groups that share no leaf."""
    groups: list[tuple[set[int], list[_Ports]]] = []
    for ports in nics:
        leaves = {leaf for leaf, _ in ports}
        joined = [group for group in groups if group[0] & leaves]
        merged = leaves.union(*(group[0] for group in joined))
        members = [member for group in joined for member in group[1]]
        groups = [group for group in groups if group not in joined]
        groups.append((merged, [*members, ports]))
    return [members for _, members in groups]
