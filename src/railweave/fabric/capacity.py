"""Capacity of a plane by switch, rack and tier: down and up, nominal and effective.

*Down* is towards the endpoints, *up* away from them; both count one direction. *Nominal* is the
line rate, *effective* the payload rate of full packets at the plane's MTU (`fabric.wire`).
*Provisioned* counts the ports a plan sets aside, cabled or not; *populated* the links that are
there and up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from railweave.fabric._arrays import TIER_NAMES, Fabric, NodeKind, PlaneId
from railweave.fabric.wire import Framing, payload_efficiency

__all__ = [
    "PlaneCapacity",
    "RackCapacity",
    "SwitchCapacities",
    "TierCapacity",
    "TierProvision",
    "plane_capacity",
    "rack_capacities",
    "ratio",
    "switch_capacities",
]

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class TierProvision:
    """Ports a plan sets aside on all switches of one tier, and the ratio that was asked for.

    Where no plan speaks of a tier, what is populated counts as provisioned.
    """

    tier: str
    down_links: int
    up_links: int
    down_bps: float
    up_bps: float
    target: float | None = None


@dataclass(frozen=True, slots=True)
class TierCapacity:
    """One tier of a plane. Ratios are down / up, None where there is no way up.

    ``down_bps`` / ``up_bps`` are provisioned and ``oversubscription`` is their quotient;
    ``populated_…`` count the links in place. ``peer_bps`` joins switches of this tier.
    """

    tier: str
    switches: int
    down_links: int
    up_links: int
    down_bps: float
    up_bps: float
    effective_down_bps: float
    effective_up_bps: float
    oversubscription: float | None
    target: float | None
    populated_down_links: int
    populated_up_links: int
    populated_down_bps: float
    populated_up_bps: float
    oversubscription_populated: float | None
    peer_bps: float = 0.0


@dataclass(frozen=True, eq=False)
class SwitchCapacities:
    """Live links of each switch of a plane; every array has shape (n,), rates in bit/s."""

    node: I32
    tier: tuple[str, ...]
    down_links: I64
    up_links: I64
    peer_links: I64
    down_bps: F64
    up_bps: F64
    peer_bps: F64
    efficiency: float

    def by_tier(self) -> tuple[tuple[str, float, float], ...]:
        """Return (tier, down_bps, up_bps) from the leaf up."""
        names = np.array(self.tier)
        return tuple(
            (
                name,
                float(self.down_bps[names == name].sum()),
                float(self.up_bps[names == name].sum()),
            )
            for name in sorted(set(self.tier), key=_tier_order)
        )

    @property
    def oversubscription(self) -> F64:
        """Down / up of each switch by populated ports, infinite where nothing leads up."""
        out = np.full(len(self.node), np.inf)
        np.divide(self.down_bps, self.up_bps, out=out, where=self.up_bps > 0)
        return out


@dataclass(frozen=True, slots=True)
class RackCapacity:
    """One rack with servers: what its servers can send, and what can leave the rack, bit/s."""

    rack: int
    servers: int
    host_links: int
    leaving_links: int
    host_bps: float
    leaving_bps: float
    effective_host_bps: float
    effective_leaving_bps: float
    oversubscription: float | None


@dataclass(frozen=True, slots=True)
class PlaneCapacity:
    """Capacity of a plane: all host links in one direction, and its tiers from the leaf up."""

    host_links: int
    host_bps: float
    effective_host_bps: float
    tiers: tuple[TierCapacity, ...]

    def tier(self, name: str) -> TierCapacity | None:
        """Return a tier by its name, None where the plane has none such."""
        return next((tier for tier in self.tiers if tier.tier == name), None)


class _Ends(NamedTuple):
    """Live duplex links of a plane: one end that is a switch, and where the other end stands."""

    duplex: I64
    switch: I64  #: node number
    step: I64  #: −1 other end is below, +1 above, 0 beside


def plane_capacity(
    fabric: Fabric,
    plane: PlaneId,
    frame: Framing,
    provisions: Sequence[TierProvision] = (),
) -> PlaneCapacity:
    """Return the capacity of a plane as its links now stand.

    Args:
        fabric: the fabric; links that are down do not count as populated.
        plane: a plane with a network of its own.
        frame: framing of the plane's transport and MTU, for effective rates.
        provisions: what the plan sets aside, by tier; tiers left out count as populated.
    """
    rate = payload_efficiency(frame)
    switches = switch_capacities(fabric, plane, frame)
    planned = {provision.tier: provision for provision in provisions}
    names = np.array(switches.tier)
    order = dict.fromkeys(sorted(switches.tier, key=_tier_order))
    tiers = tuple(_tier(switches, name, names == name, planned.get(name)) for name in order)
    duplex = _host_links(fabric, plane)
    host_bps = float(fabric.link_capacity_bps[2 * duplex].sum())
    return PlaneCapacity(len(duplex), host_bps, host_bps * rate, tiers)


def switch_capacities(
    fabric: Fabric, plane: PlaneId, frame: Framing | None = None
) -> SwitchCapacities:
    """Return the live links and rates of every switch of a plane, in node order.

    Without a frame the effective rates are the nominal ones.
    """
    node = fabric.switches(plane)
    number = np.full(fabric.n_nodes, -1, dtype=np.int64)
    number[node] = np.arange(len(node))
    ends = _switch_ends(fabric, plane)
    bps = fabric.link_capacity_bps[2 * ends.duplex]
    at = number[ends.switch]
    links: list[I64] = []
    rates: list[F64] = []
    for step in (-1, 1, 0):
        part = ends.step == step
        links.append(np.bincount(at[part], minlength=len(node)).astype(np.int64))
        rates.append(_sum_by(at[part], bps[part], len(node)))
    tiers = [TIER_NAMES.get(int(tier), "switch") for tier in fabric.node_tier[node]]
    return SwitchCapacities(
        node=node,
        tier=tuple(tiers),
        down_links=links[0],
        up_links=links[1],
        peer_links=links[2],
        down_bps=rates[0],
        up_bps=rates[1],
        peer_bps=rates[2],
        efficiency=payload_efficiency(frame) if frame else 1.0,
    )


def rack_capacities(fabric: Fabric, plane: PlaneId, frame: Framing) -> tuple[RackCapacity, ...]:
    """Return the capacity of every rack that holds endpoints of a plane.

    A link leaves a rack when its two ends stand in different racks: the uplinks of a top-of-rack
    leaf, or the host links themselves where the leaves stand elsewhere.
    """
    rate = payload_efficiency(frame)
    a, b = fabric.link_src[::2], fabric.link_dst[::2]
    live = np.flatnonzero((fabric.link_plane[::2] == plane) & fabric.link_up[::2])
    hosts = _host_links(fabric, plane)
    endpoint = np.where(fabric.node_kind[a] == NodeKind.SWITCH, b, a)[hosts]
    rack = fabric.node_rack[endpoint]
    size = int(fabric.node_rack.max(initial=-1)) + 1
    bps = fabric.link_capacity_bps[::2]
    host_links = np.bincount(rack[rack >= 0], minlength=size)
    host_bps = _sum_by(rack[rack >= 0], bps[hosts][rack >= 0], size)
    out_links, out_bps = np.zeros(size, dtype=np.int64), np.zeros(size)
    crossing = live[fabric.node_rack[a[live]] != fabric.node_rack[b[live]]]
    for end in (a, b):
        where = fabric.node_rack[end[crossing]]
        inside = where >= 0
        out_links += np.bincount(where[inside], minlength=size)
        out_bps += _sum_by(where[inside], bps[crossing][inside], size)
    server = fabric.node_server[endpoint]
    pairs = np.unique(np.stack((rack, server))[:, server >= 0], axis=1)
    servers = np.bincount(pairs[0][pairs[0] >= 0], minlength=size)
    return tuple(
        RackCapacity(
            rack=int(r),
            servers=int(servers[r]),
            host_links=int(host_links[r]),
            leaving_links=int(out_links[r]),
            host_bps=float(host_bps[r]),
            leaving_bps=float(out_bps[r]),
            effective_host_bps=float(host_bps[r]) * rate,
            effective_leaving_bps=float(out_bps[r]) * rate,
            oversubscription=ratio(float(host_bps[r]), float(out_bps[r])),
        )
        for r in np.flatnonzero(host_links)
    )


def ratio(down: float, up: float) -> float | None:
    """Return down / up, None where nothing leads up."""
    return down / up if up > 0 else None


def _tier(
    switches: SwitchCapacities, name: str, member: Bool, planned: TierProvision | None
) -> TierCapacity:
    """Sum the switches of one tier and set the plan's ports beside them."""
    down_links, up_links = (int(x[member].sum()) for x in (switches.down_links, switches.up_links))
    down, up, peer = (
        float(x[member].sum()) for x in (switches.down_bps, switches.up_bps, switches.peer_bps)
    )
    plan = planned or TierProvision(name, down_links, up_links, down, up)
    return TierCapacity(
        tier=name,
        switches=int(member.sum()),
        down_links=plan.down_links,
        up_links=plan.up_links,
        down_bps=plan.down_bps,
        up_bps=plan.up_bps,
        effective_down_bps=plan.down_bps * switches.efficiency,
        effective_up_bps=plan.up_bps * switches.efficiency,
        oversubscription=ratio(plan.down_bps, plan.up_bps),
        target=plan.target,
        populated_down_links=down_links,
        populated_up_links=up_links,
        populated_down_bps=down,
        populated_up_bps=up,
        oversubscription_populated=ratio(down, up),
        peer_bps=peer / 2,  # each such link was met at both of its ends
    )


def _sum_by(index: npt.NDArray[np.signedinteger], value: F64, size: int) -> F64:
    """Sum values by index, shape (size,)."""
    return np.bincount(index, weights=value, minlength=size).astype(np.float64)


def _tier_order(name: str) -> int:
    """Sort leaf, spine, core, then switches of unknown tier."""
    names = list(TIER_NAMES.values())
    return names.index(name) if name in names else len(names)


def _host_links(fabric: Fabric, plane: PlaneId) -> I64:
    """Return the live duplex links of a plane between an endpoint and a switch."""
    switch = fabric.node_kind == NodeKind.SWITCH
    live = (fabric.link_plane[::2] == plane) & fabric.link_up[::2]
    one = switch[fabric.link_src[::2]] != switch[fabric.link_dst[::2]]
    return np.flatnonzero(live & one).astype(np.int64)


def _switch_ends(fabric: Fabric, plane: PlaneId) -> _Ends:
    """Return every switch end of every live link of a plane.

    Unknown tiers (−1, graphs from a file) have endpoints below and all other switches beside.
    """
    live = np.flatnonzero((fabric.link_plane[::2] == plane) & fabric.link_up[::2])
    a, b = fabric.link_src[::2][live], fabric.link_dst[::2][live]
    here, there = np.concatenate((a, b)), np.concatenate((b, a))
    is_switch = fabric.node_kind == NodeKind.SWITCH
    tier = np.where(is_switch, fabric.node_tier, 0).astype(np.int64)
    step = np.sign(tier[there] - tier[here])
    unknown = is_switch & (fabric.node_tier < 0)
    step = np.where(unknown[here] | unknown[there], 0, step)
    step = np.where(is_switch[there], step, -1)
    keep = is_switch[here]
    return _Ends(np.tile(live, 2)[keep].astype(np.int64), here[keep].astype(np.int64), step[keep])
