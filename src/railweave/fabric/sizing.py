"""The one sizing rule: from servers, ports and ratios to leaves, spines, pods and cores.

The rule, for every topology:

1. A leaf's ports are split into down and up as near to the ratio asked for as can be; spare ports
   are taken out first. Where the servers of a rack (or of a small scalable unit) fix the down
   links, the uplinks follow from the ratio. Every leaf is uplinked in full, however few servers it
   has.
2. Host links are placed on leaves: by rail and scalable unit, by rack, or one server after another.
3. Two tiers: the spines are the smallest divisor ``s`` of a leaf's uplinks ``u`` with
   ``s × (links of a spine) ≥ leaves × u``: only then does every leaf spread its uplinks evenly.
4. Three tiers: the fewest pods whose leaves fit the spines' down links, units kept whole, each pod
   with the spines of rule 3. Cores are the fewest that every spine reaches evenly: the spines of a
   pod fall into ``K`` equal sets (``K`` divides them), each set has ``c`` cores of its own (``c``
   divides a spine's uplinks), and no core has more links than ports.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from railweave.errors import SizingError
from railweave.fabric._demand import Demand, HostGroup, Scheme
from railweave.fabric._network_size import CoreLayout, NetworkSize
from railweave.fabric._placement import Placement, place_hosts, unit_size
from railweave.fabric._split import PortSplit, SwitchShape, fixed_split, split_ports
from railweave.fabric._tiers import (
    all_down,
    core_layout,
    group_pods,
    spine_count,
    spine_split,
    spine_uplinks,
)
from railweave.findings import Finding, Severity
from railweave.units import format_bits_rate

__all__ = [
    "CoreLayout",
    "Demand",
    "HostGroup",
    "NetworkSize",
    "PortSplit",
    "Scheme",
    "SwitchShape",
    "size_network",
    "split_ports",
]

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class _Draft:
    """What is settled before the tiers are counted."""

    demand: Demand
    leaf: PortSplit
    placement: Placement
    notes: tuple[Finding, ...]


def size_network(demand: Demand) -> NetworkSize:
    """Size one network by the rule at the head of this module.

    Raises:
        SizingError: it cannot be built so; the error names the design field, the limit and, where
            there is one, the nearest value that works.
    """
    size = _size(demand)
    if demand.uplink_bps is not None or size.tiers < 3 or demand.tiers == 3 or demand.zoned:
        return size
    if demand.host_bps >= size.leaf.up_bps:
        return size
    # more and slower uplinks reach more spines: one tier fewer, with the ports broken out
    broken_out = _size(replace(demand, uplink_bps=demand.host_bps))
    if broken_out.tiers >= size.tiers:
        return size
    note = Finding(
        "uplinks-broken-out",
        Severity.INFO,
        f"{demand.path}.uplink_speed",
        f"uplinks run at {format_bits_rate(demand.host_bps)}, broken out from ports of "
        f"{format_bits_rate(size.leaf.up_bps)}: with whole ports it would take a third tier",
        evidence=f"{size.leaves} leaves in {size.pods} pods with whole ports",
        fix=f"uplink_speed: {format_bits_rate(size.leaf.up_bps)} keeps the ports whole",
    )
    return replace(broken_out, notes=(*broken_out.notes, note))


def _size(demand: Demand) -> NetworkSize:
    split, notes = _leaf_split(demand)
    placement = place_hosts(demand, split)
    draft = _Draft(demand, split, placement, tuple(notes))
    _check_leaves(draft)
    if demand.scheme is Scheme.STAR or (placement.leaves == 1 and demand.tiers in (None, 1)):
        return _single(draft)
    if demand.tiers == 1:
        raise SizingError(
            f"one tier cannot join {placement.leaves} leaves",
            path=f"{demand.path}.tiers",
            allowed="2 or 3, or topology rail-only, which does not join its rails",
            nearest="2",
        )
    full = all_down(demand, split)
    if _two_are_enough(draft, full):
        return _two_tiers(draft, full, None)
    spine = spine_split(demand, split)
    pods = group_pods(demand, placement, spine.down_links)
    zoned = demand.zoned or demand.zone is not None
    if demand.tiers == 2 and zoned and len(pods) > 1:
        raise SizingError(
            f"{len(pods)} zones are joined by a third tier",
            path=f"{demand.path}.tiers",
            allowed="3, or a zone that holds all servers",
            nearest="3",
        )
    if demand.tiers == 3 or (len(pods) > 1 and (zoned or placement.leaves > full.down_links)):
        return _three_tiers(draft, spine, pods)
    return _two_tiers(draft, full, spine if placement.leaves <= spine.down_links else None)


def _two_are_enough(draft: _Draft, full: PortSplit) -> bool:
    """Tell whether two tiers are wanted or suffice, with no ports to keep for a third."""
    demand = draft.demand
    if demand.tiers == 3 or demand.zoned or demand.zone is not None or demand.spine_ratio != 1.0:
        return False
    return demand.tiers == 2 or draft.placement.leaves <= full.down_links


def _check_leaves(draft: _Draft) -> None:
    """Hold the leaves to the number given, where one is."""
    count, leaves = draft.demand.leaf_count, draft.placement.leaves
    if count is None or count == leaves:
        return
    reason = "other hosts find no free port on them" if leaves > count else "no more are needed"
    raise SizingError(
        f"{count} leaves are given, {leaves} are built: {reason}",
        path=f"{draft.demand.path}.counts.leaf",
        allowed=str(leaves),
        nearest=str(leaves),
    )


# ---------------------------------------------------------------- the leaf


def _star_split(demand: Demand) -> PortSplit:
    shape, host, spare = demand.leaf, demand.host_bps, demand.spare_leaf_ports
    links = shape.links(host, spare)
    if not shape.ways(host):
        split_ports(shape, host, shape.speed_bps, 1.0, path=demand.path)  # says why
    ports = max(0, shape.ports - spare)
    return PortSplit(
        down_links=links,
        up_links=0,
        down_ports=ports,
        up_ports=0,
        down_ways=shape.ways(host),
        up_ways=1,
        down_bps=host,
        up_bps=shape.speed_bps,
        spare_ports=spare,
        target=demand.leaf_ratio,
    )


def _leaf_split(demand: Demand) -> tuple[PortSplit, list[Finding]]:
    if demand.scheme is Scheme.STAR:
        return _star_split(demand), []
    shape, host, spare = demand.leaf, demand.host_bps, demand.spare_leaf_ports
    up, path = demand.leaf_up_bps, demand.path
    if demand.scheme is Scheme.RACKS:
        assert demand.rack is not None
        pair = 2 if demand.dual_tor else 1
        links = demand.rack * -(-demand.links_per_server // pair)
        split = fixed_split(shape, links, host, up, demand.leaf_ratio, spare=spare, path=path)
    else:
        split = split_ports(shape, host, up, demand.leaf_ratio, spare=spare, path=path)
        split = _follow_unit(demand, split)
    if demand.uplinks is not None:
        split = _fixed_uplinks(demand, split)
        return split, []
    return split, _say_split(demand, split)


def _follow_unit(demand: Demand, split: PortSplit) -> PortSplit:
    """Let uplinks follow the servers where a unit was chosen that leaves most down ports unused."""
    if demand.scheme is not Scheme.RAILS or demand.unit is None:
        return split
    size, width = unit_size(demand, split)
    per_rail = -(-demand.links_per_server // demand.rails)
    links = -(-size // width) * per_rail if not demand.dual_tor else size * per_rail // width
    if 2 * links >= split.down_links:
        return split
    return fixed_split(
        demand.leaf,
        links,
        demand.host_bps,
        demand.leaf_up_bps,
        demand.leaf_ratio,
        spare=demand.spare_leaf_ports,
        path=demand.path,
    )


def _fixed_uplinks(demand: Demand, split: PortSplit) -> PortSplit:
    assert demand.uplinks is not None
    up_ports = -(-demand.uplinks // split.up_ways)
    if split.up_bps > demand.leaf.speed_bps:
        up_ports = min(demand.uplinks, demand.leaf.fast_ports)
        return replace(split, up_links=up_ports, up_ports=up_ports)
    down_ports = demand.leaf.ports - demand.spare_leaf_ports - up_ports
    down = min(down_ports * split.down_ways, demand.leaf.links_limit - demand.uplinks)
    return replace(
        split,
        up_links=demand.uplinks,
        up_ports=up_ports,
        down_ports=down_ports,
        down_links=down,
    )


def _say_split(demand: Demand, split: PortSplit) -> list[Finding]:
    if split.exact:
        return []
    return [
        Finding(
            "oversubscription-nearest",
            Severity.INFO,
            f"{demand.path}.oversubscription",
            f"{demand.leaf_ratio:g}:1 is not met to the digit on a leaf; built with the nearest "
            f"split, {split.achieved:.4g}:1",
            evidence=f"{split.down_links} links down, {split.up_links} up, "
            f"{demand.leaf.ports} ports less {split.spare_ports} kept free",
        )
    ]


# ---------------------------------------------------------------- tiers


def _single(draft: _Draft) -> NetworkSize:
    demand, placement = draft.demand, draft.placement
    # No uplink is wired, so how near the split came to the ratio asked for says nothing.
    notes = tuple(note for note in draft.notes if note.id != "oversubscription-nearest")
    if demand.scheme is not Scheme.STAR:
        note = Finding(
            "single-leaf",
            Severity.INFO,
            f"{demand.path}.topology",
            "all hosts fit one leaf, so there are no spines; its uplink ports stay free",
            evidence=f"{len(placement.leaf)} host links, {draft.leaf.down_links} down ports",
        )
        notes = (*notes, note)
    for tier, count in (("spine", demand.spine_count), ("core", demand.core_count)):
        if count is not None:
            raise SizingError(
                f"{count} {tier} switches are given, but all hosts are on one switch",
                path=f"{demand.path}.counts.{tier}",
                allowed=f"no {tier} count, or tiers: 2 and more",
            )
    return NetworkSize(
        demand=demand,
        leaf=draft.leaf,
        spine=None,
        placement=placement,
        tiers=1,
        spines_per_pod=0,
        pod_leaves=(placement.leaves,),
        leaf_pod=np.zeros(placement.leaves, dtype=np.int64),
        spine_uplinks=(),
        core=None,
        notes=notes,
    )


def _two_tiers(draft: _Draft, full: PortSplit, reserved: PortSplit | None) -> NetworkSize:
    """Count the spines; with ``reserved`` they keep ports for a third tier to come."""
    demand, split, leaves = draft.demand, draft.leaf, draft.placement.leaves
    spine = reserved or full
    spines = spine_count(demand, split.up_links, leaves, spine.down_links, 1)
    if demand.core_count is not None:
        raise SizingError(
            f"{demand.core_count} cores are given, but {leaves} leaves need two tiers only",
            path=f"{demand.path}.counts.core",
            allowed="no core count, or tiers: 3",
        )
    down = leaves * (split.up_links // spines)
    uplinks: tuple[int, ...] = ()
    notes = draft.notes
    if reserved:
        uplinks = (spine_uplinks(demand, split, reserved, down),)
        achieved = down * split.up_bps / (uplinks[0] * demand.spine_up_bps)
        note = Finding(
            "spine-uplinks-reserved",
            Severity.INFO,
            f"{demand.path}.oversubscription.spine",
            f"one pod holds all servers, so no cores are needed; each spine keeps {uplinks[0]} "
            f"ports for them ({achieved:.4g}:1)",
            evidence=f"{down} links down on each of {spines} spines",
        )
        notes = (*notes, note)
    return NetworkSize(
        demand=demand,
        leaf=split,
        spine=spine,
        placement=draft.placement,
        tiers=2,
        spines_per_pod=spines,
        pod_leaves=(leaves,),
        leaf_pod=np.zeros(leaves, dtype=np.int64),
        spine_uplinks=uplinks,
        core=None,
        notes=notes,
    )


def _three_tiers(draft: _Draft, spine: PortSplit, pods: list[I64]) -> NetworkSize:
    demand, split = draft.demand, draft.leaf
    pod_leaves = tuple(len(pod) for pod in pods)
    spines = spine_count(demand, split.up_links, max(pod_leaves), spine.down_links, len(pods))
    down = [leaves * (split.up_links // spines) for leaves in pod_leaves]
    core = core_layout(
        demand, spines, tuple(spine_uplinks(demand, split, spine, links) for links in down)
    )
    leaf_pod = np.empty(draft.placement.leaves, dtype=np.int64)
    for number, pod in enumerate(pods):
        leaf_pod[pod] = number
    return NetworkSize(
        demand=demand,
        leaf=split,
        spine=spine,
        placement=draft.placement,
        tiers=3,
        spines_per_pod=spines,
        pod_leaves=pod_leaves,
        leaf_pod=leaf_pod,
        spine_uplinks=core.uplinks,
        core=core,
        notes=(*draft.notes, *_say_spine(draft, max(down), max(core.uplinks))),
    )


def _say_spine(draft: _Draft, down: int, up: int) -> list[Finding]:
    demand = draft.demand
    achieved = down * draft.leaf.up_bps / (up * demand.spine_up_bps)
    if abs(achieved - demand.spine_ratio) <= 1e-4 * demand.spine_ratio:
        return []
    return [
        Finding(
            "oversubscription-nearest",
            Severity.INFO,
            f"{demand.path}.oversubscription.spine",
            f"{demand.spine_ratio:g}:1 is not met to the digit on a spine; built with the nearest "
            f"number of uplinks, {achieved:.4g}:1",
            evidence=f"{down} links down, {up} up",
        )
    ]
