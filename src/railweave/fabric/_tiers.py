"""Spines, pods and cores: rules 3 and 4 of :mod:`railweave.fabric.sizing`."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from railweave.errors import SizingError
from railweave.fabric._demand import Demand, Scheme
from railweave.fabric._network_size import CoreLayout
from railweave.fabric._placement import Placement
from railweave.fabric._split import PortSplit, divisors, nearest_uplinks, split_ports

__all__ = ["all_down", "core_layout", "group_pods", "spine_count", "spine_split", "spine_uplinks"]

I64 = npt.NDArray[np.int64]


def all_down(demand: Demand, split: PortSplit) -> PortSplit:
    """Give all ports of a spine to links down."""
    shape, bps = demand.spine, split.up_bps
    links = shape.links(bps, demand.spare_spine)
    if not links:
        split_ports(shape, bps, bps, 1.0, spare=demand.spare_spine, path=demand.path)  # says why
    ways = max(1, shape.ways(bps))
    ports = -(-links // ways)
    return PortSplit(links, 0, ports, 0, ways, 1, bps, bps, demand.spare_spine, math.inf)


def spine_split(demand: Demand, split: PortSplit) -> PortSplit:
    """Split a spine's ports where it needs uplinks too."""
    return split_ports(
        demand.spine,
        split.up_bps,
        demand.spine_up_bps,
        demand.spine_ratio,
        spare=demand.spare_spine,
        path=demand.path,
    )


def spine_count(demand: Demand, uplinks: int, leaves: int, links: int, pods: int) -> int:
    """Return the spines of a pod: the smallest divisor of the uplinks with ports for all.

    Raises:
        SizingError: there is none, or the number given does not work.
    """
    able = [s for s in divisors(uplinks) if s * links >= leaves * uplinks]
    if not able:
        raise _two_tier_limit(demand, leaves, links)
    wanted = [s for s in able if s >= demand.min_spines]
    if not wanted:
        raise SizingError(
            f"{demand.min_spines} spines are wanted, but a leaf has {uplinks} uplinks",
            path=f"{demand.path}.min_spines",
            allowed=f"at most {uplinks}",
            nearest=str(uplinks),
        )
    if demand.spine_count is None:
        return wanted[0]
    spines, rest = divmod(demand.spine_count, pods)
    if not rest and spines in wanted:
        return spines
    given = demand.spine_count
    nearest = min(wanted, key=lambda s: (abs(s * pods - given), s))
    reason = (
        f"a leaf's {uplinks} uplinks do not spread evenly over them"
        if rest or uplinks % max(1, spines)
        else f"{leaves} leaves of {uplinks} uplinks need more ports"
        if spines * links < leaves * uplinks
        else f"min_spines asks for {demand.min_spines}"
    )
    where = f" ({pods} pods)" if pods > 1 else ""
    raise SizingError(
        f"{demand.spine_count} spines{where} do not work: {reason}",
        path=f"{demand.path}.counts.spine",
        allowed=", ".join(str(s * pods) for s in wanted),
        nearest=str(nearest * pods),
    )


def _two_tier_limit(demand: Demand, leaves: int, links: int) -> SizingError:
    return SizingError(
        f"{leaves} leaves do not fit two tiers: a {demand.spine.name} spine takes {links} links "
        "and every leaf must reach every spine",
        path=f"{demand.path}.tiers",
        allowed=f"3 tiers, or at most {links} leaves",
        nearest="3",
    )


def spine_uplinks(demand: Demand, split: PortSplit, spine: PortSplit, down: int) -> int:
    """Return a spine's uplinks: nearest to its ratio for the links down that it really has."""
    wanted = nearest_uplinks(down * split.up_bps, demand.spine_up_bps, demand.spine_ratio)
    return min(wanted, spine.up_links)


def group_pods(demand: Demand, placement: Placement, down: int) -> list[I64]:
    """Group the leaves into pods: whole units or whole rails, none with more leaves than ``down``.

    The fewest pods win. Where pods of rails (spine groups) are as few as pods of units they are
    taken: traffic that keeps to its rail then never needs a core.
    """
    size = np.bincount(placement.leaf_unit, minlength=placement.units)
    if demand.zone is not None:
        return _zones(demand, placement, size, down)
    if int(size.max()) > down:
        # a unit with more leaves than one pod can take: pods of leaves of the same rails instead
        order = np.lexsort((placement.leaf_unit, placement.leaf_rail))
        return list(np.array_split(order, -(-placement.leaves // down)))
    by_unit = _unit_pods(placement, size, down)
    located = demand.zoned or demand.spine_ratio != 1.0
    by_rail = None if located else _rail_pods(demand, placement, down)
    return by_rail if by_rail and len(by_rail) <= len(by_unit) else by_unit


def _unit_pods(placement: Placement, size: I64, down: int) -> list[I64]:
    """Deal whole units evenly over the fewest pods."""
    first = np.concatenate(([0], np.cumsum(size)))
    order = np.argsort(placement.leaf_unit, kind="stable")
    pods = -(-placement.leaves // down)
    while True:
        parts = np.array_split(np.arange(placement.units), pods)
        bounds = [(int(first[part[0]]), int(first[part[-1] + 1])) for part in parts]
        if all(end - start <= down for start, end in bounds):
            return [order[start:end] for start, end in bounds]
        pods += 1


def _rail_pods(demand: Demand, placement: Placement, down: int) -> list[I64] | None:
    """Group the leaves of as many neighbouring rails as fit a pod; None where no rail fits one."""
    if demand.scheme is not Scheme.RAILS:
        return None
    rails, size = np.unique(placement.leaf_rail, return_counts=True)
    fitting = [k for k in divisors(len(rails)) if k * int(size.max()) <= down]
    if not fitting:
        return None
    group = np.searchsorted(rails, placement.leaf_rail) // fitting[-1]
    return [np.flatnonzero(group == g) for g in range(len(rails) // fitting[-1])]


def _zones(demand: Demand, placement: Placement, size: I64, down: int) -> list[I64]:
    assert demand.zone is not None
    per_zone = -(-demand.zone // placement.unit_servers)
    zone = np.arange(placement.units) // per_zone
    leaves = np.bincount(zone, weights=size).astype(np.int64)
    if int(leaves.max()) > down:
        most = down // int(size.max()) * placement.unit_servers
        raise SizingError(
            f"a zone of {demand.zone} servers has {int(leaves.max())} leaves, but a "
            f"{demand.spine.name} spine takes {down} with its uplinks",
            path=f"{demand.path}.zone",
            allowed=f"at most {most} servers",
            nearest=str(most),
        )
    leaf_zone = zone[placement.leaf_unit]
    return [np.flatnonzero(leaf_zone == z) for z in range(len(leaves))]


def core_layout(demand: Demand, spines: int, uplinks: tuple[int, ...]) -> CoreLayout:
    """Return the fewest cores that every spine reaches evenly.

    Pods of unequal size may have spines with unequal uplinks, which spread over few core numbers;
    giving all spines the uplinks of the largest pod is tried too, and the fewer cores win.
    """
    links = demand.core.links(demand.spine_up_bps)
    even = (max(uplinks),) * len(uplinks)
    layouts = [
        layout
        for ups in dict.fromkeys((uplinks, even))
        for layout in _layouts(spines, ups, links)
        if demand.core_count in (None, layout.cores)
    ]
    if layouts:
        return min(layouts, key=lambda a: (a.cores, sum(a.uplinks), -a.per_set))
    able = {layout.cores for ups in (uplinks, even) for layout in _layouts(spines, ups, links)}
    if not able:
        raise SizingError(
            f"{len(uplinks)} pods do not fit three tiers: a {demand.core.name} core takes {links} "
            "links and every spine set must reach every pod",
            path=f"{demand.path}.switch",
            allowed=f"at most {links} pods, so switches with more ports, or a higher ratio",
        )
    wanted = demand.core_count or 0
    raise SizingError(
        f"{wanted} cores do not work: the spines' {max(uplinks)} uplinks do not spread evenly over "
        "them, or they have too few ports",
        path=f"{demand.path}.counts.core",
        allowed=", ".join(map(str, sorted(able))),
        nearest=str(min(able, key=lambda n: (abs(n - wanted), n))),
    )


def _layouts(spines: int, uplinks: tuple[int, ...], links: int) -> list[CoreLayout]:
    per_set = divisors(math.gcd(*uplinks))
    return [
        CoreLayout(sets, cores, uplinks)
        for sets in divisors(spines)
        for cores in per_set
        if spines // sets * sum(uplinks) // cores <= links
    ]
