"""Objectives under failure: does enough remain when so many switches and links die at once?

The worst choice of k parts is looked for in two ways, and the worse one counts: step by step, each
time the part that hurts most (parts that stand alike are tried once), and by random draws. For one
part the first way is exact up to the limit of tries; for several the worst *found* is reported,
which proves a miss but not a pass.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from railweave.design.models import Objectives
from railweave.fabric._arrays import Fabric, PlaneId
from railweave.fabric._random import stream
from railweave.fabric._reach import Reach, reach
from railweave.fabric.bisection import HalvingModel, halving_model
from railweave.fabric.domains import alike_switches
from railweave.fabric.failures import part_names, without_parts
from railweave.findings import Finding, Severity

__all__ = ["Survival", "objective_findings", "survival"]

Bool = npt.NDArray[np.bool_]
I64 = npt.NDArray[np.int64]
#: unlike parts tried at each step
_TRIES = 32


@dataclass(frozen=True, slots=True)
class Survival:
    """The worst found of ``switches`` switches and ``links`` links failing at once."""

    plane: PlaneId
    switches: int
    links: int
    failed: tuple[str, ...]
    bisection_left: float
    gpus_cut_off: int
    servers_cut_off: int
    draws: int

    def to_json(self) -> dict[str, object]:
        """Return plain data for JSON."""
        return {
            "plane": self.plane.name.lower(),
            "switches": self.switches,
            "links": self.links,
            "failed": list(self.failed),
            "bisection_left": self.bisection_left,
            "gpus_cut_off": self.gpus_cut_off,
            "servers_cut_off": self.servers_cut_off,
            "draws": self.draws,
        }


@dataclass(frozen=True, eq=False)
class _Search:
    """What every try needs."""

    fabric: Fabric
    model: HalvingModel
    attached: Reach
    switches: I64
    links: I64

    def score(self, nodes: I64, duplex: I64) -> tuple[int, float]:
        """Return (−servers cut off, bisection) once these parts are gone: the lower, the worse."""
        up = without_parts(self.fabric, nodes, duplex)
        return -len(self.attached.cut_off(up).servers), self.model.worst(up)[0]


def survival(
    fabric: Fabric,
    plane: PlaneId = PlaneId.BACKEND,
    *,
    switches: int,
    links: int,
    seed: int,
    draws: int = 50,
) -> Survival:
    """Look for the worst that so many switches and links of a plane can do by dying at once.

    Numbers beyond what there is mean all of them.
    """
    model = halving_model(fabric, plane)
    live = np.flatnonzero((fabric.link_plane[::2] == plane) & fabric.link_up[::2])
    search = _Search(
        fabric,
        model,
        reach(fabric, plane, model.network),
        fabric.switches(plane).astype(np.int64),
        live.astype(np.int64),
    )
    switches, links = min(switches, len(search.switches)), min(links, len(live))
    tries = [_step_by_step(search, switches, links)]
    generator = stream(seed, f"survival:{plane.name}:{switches}:{links}")
    for _ in range(draws if switches + links > 1 else 0):
        tries.append(
            (
                np.sort(generator.choice(search.switches, switches, replace=False)),
                np.sort(generator.choice(search.links, links, replace=False)),
            )
        )
    nodes, duplex = min(tries, key=lambda parts: search.score(*parts))
    up = without_parts(fabric, nodes, duplex)
    before = model.worst(fabric.link_up)[0]
    lost = search.attached.cut_off(up)
    already = search.attached.cut_off(fabric.link_up)
    return Survival(
        plane=plane,
        switches=switches,
        links=links,
        failed=part_names(fabric, nodes, duplex),
        bisection_left=model.worst(up)[0] / before if before else 1.0,
        gpus_cut_off=len(lost.gpus) - len(already.gpus),
        servers_cut_off=len(lost.servers) - len(already.servers),
        draws=draws if switches + links > 1 else 0,
    )


def _step_by_step(search: _Search, switches: int, links: int) -> tuple[I64, I64]:
    """Take away the worst part, then the worst of the rest, and so on."""
    nodes, duplex = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    for _ in range(switches):
        up = without_parts(search.fabric, nodes, duplex)
        options = _unlike_switches(search, up, nodes)
        tries = [np.append(nodes, option) for option in options]
        nodes = min(tries, key=lambda some: search.score(some, duplex))
    for _ in range(links):
        up = without_parts(search.fabric, nodes, duplex)
        more = [np.append(duplex, option) for option in _unlike_links(search, up)]
        if more:
            duplex = min(more, key=lambda some: search.score(nodes, some))
    return nodes, duplex


def _unlike_switches(search: _Search, link_up: Bool, gone: I64) -> list[int]:
    """Return one switch of each sort that is still there, the best joined first."""
    network = search.model.network
    alike = alike_switches(search.model, link_up)
    there = np.flatnonzero(~np.isin(network.switch, gone))
    _, first = np.unique(alike[there], return_index=True)
    everyone = np.ones(len(network.host_duplex), dtype=np.bool_)
    weight = network.host_capacity(link_up, everyone)
    bps = network.group_capacity(link_up)
    np.add.at(weight, network.group_a, bps)
    np.add.at(weight, network.group_b, bps)
    chosen = there[first]
    order = np.argsort(-weight[chosen], kind="stable")[:_TRIES]
    return [int(node) for node in network.switch[chosen[order]]]


def _unlike_links(search: _Search, link_up: Bool) -> list[int]:
    """Return one live link between each two sorts of ends, the fastest first."""
    network = search.model.network
    alike = alike_switches(search.model, link_up)
    a, b = network.group_a[network.trunk_group], network.group_b[network.trunk_group]
    ends = np.sort(np.stack((alike[a], alike[b])), axis=0)
    # The endpoint of a host link stands for itself: how many links its node has matters.
    homes = np.bincount(network.host_node, minlength=search.fabric.n_nodes)[network.host_node]
    low = np.concatenate((ends[0], -1 - homes))
    high = np.concatenate((ends[1], alike[network.host_switch]))
    duplex = np.concatenate((network.trunk_duplex, network.host_duplex))
    bps = np.concatenate((network.trunk_bps, network.host_bps))
    live = link_up[2 * duplex]
    low, high, duplex, bps = low[live], high[live], duplex[live], bps[live]
    _, first = np.unique(np.stack((low, high, bps)), axis=1, return_index=True)
    order = np.argsort(-bps[first], kind="stable")[:_TRIES]
    return [int(k) for k in duplex[first[order]]]


def objective_findings(
    fabric: Fabric,
    objectives: Objectives,
    *,
    seed: int,
    plane: PlaneId = PlaneId.BACKEND,
    draws: int = 50,
) -> tuple[Finding, ...]:
    """Hold a plane against ``survive_switches``, ``survive_links`` and ``min_bandwidth``.

    Surviving means that no server is cut off and that the stated share of the bisection remains.
    """
    if not objectives.survive_switches and not objectives.survive_links:
        return ()
    found = survival(
        fabric,
        plane,
        switches=objectives.survive_switches,
        links=objectives.survive_links,
        seed=seed,
        draws=draws,
    )
    what = f"{found.switches} switches and {found.links} links"
    evidence = (
        f"without {', '.join(found.failed)}: bisection {found.bisection_left:.1%}, "
        f"{found.servers_cut_off} servers and {found.gpus_cut_off} GPUs cut off"
    )
    said = []
    if found.servers_cut_off > 0:
        said.append(
            Finding(
                "failure-cuts-off-servers",
                Severity.ERROR,
                "objectives.survive_switches" if found.switches else "objectives.survive_links",
                f"when {what} fail at once, up to {found.servers_cut_off} servers are cut off",
                evidence,
                "join every server to two leaves (dual_tor, planes: 2, or a leaf a rail)",
            )
        )
    if found.bisection_left < objectives.min_bandwidth:
        said.append(
            Finding(
                "failure-leaves-too-little",
                Severity.ERROR,
                "objectives.min_bandwidth",
                f"when {what} fail at once, {found.bisection_left:.1%} of the bisection can be "
                f"left; {objectives.min_bandwidth:.1%} is asked for",
                evidence,
                "more spines (min_spines), a lower oversubscription, or a lower objective",
            )
        )
    return tuple(said)
