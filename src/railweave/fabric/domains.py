"""Failure domains: what goes when one leaf, spine, core, NIC or rack dies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from railweave.fabric._arrays import TIER_NAMES, Fabric, NodeKind, PlaneId
from railweave.fabric._maxflow import collapse
from railweave.fabric._reach import CutOff, Reach, reach
from railweave.fabric.bisection import HalvingModel, halving_model

__all__ = ["FailureDomain", "alike_switches", "failure_domains"]

Bool = npt.NDArray[np.bool_]
I64 = npt.NDArray[np.int64]

#: unlike members of one kind that are tried; beyond it the ones with most capacity come first
_TRIES = 8


@dataclass(frozen=True, slots=True)
class FailureDomain:
    """The worst that one part of a kind takes with it when it dies.

    ``nodes`` are the nodes that die (one switch or NIC, all devices of a rack). Shares are of the
    plane's live host bandwidth and of its bisection. Parts that stand alike in the network (equal
    links, equal place in every halving) are tried once: ``tried`` of ``of`` parts.
    """

    kind: str
    nodes: tuple[int, ...]
    servers_cut_off: int
    gpus_cut_off: int
    host_share_lost: float
    bisection_share_lost: float
    tried: int
    of: int

    def to_json(self) -> dict[str, object]:
        """Return plain data for JSON, without node numbers."""
        return {
            "kind": self.kind,
            "count": self.of,
            "servers_cut_off": self.servers_cut_off,
            "gpus_cut_off": self.gpus_cut_off,
            "host_share_lost": self.host_share_lost,
            "bisection_share_lost": self.bisection_share_lost,
        }


@dataclass(frozen=True, eq=False)
class _Context:
    fabric: Fabric
    model: HalvingModel
    attached: Reach
    intact: CutOff
    intact_bps: float
    alike: I64  #: (N,) class of every switch of the plane, −1 elsewhere


def failure_domains(
    fabric: Fabric, plane: PlaneId = PlaneId.BACKEND, *, model: HalvingModel | None = None
) -> tuple[FailureDomain, ...]:
    """Return, for each kind of part, the worst loss when one of that kind dies.

    Kinds: ``nic``, ``leaf``, ``spine``, ``core``, ``switch`` (of unknown tier), ``rack``
    (with servers, and the switches among them) and ``switch-rack``. The worst has most GPUs cut
    off, then most bisection lost.
    """
    model = model or halving_model(fabric, plane)
    attached = reach(fabric, plane, model.network)
    alike = np.full(fabric.n_nodes, -1, dtype=np.int64)
    alike[model.network.switch] = alike_switches(model, fabric.link_up)
    context = _Context(
        fabric,
        model,
        attached,
        attached.cut_off(fabric.link_up),
        model.worst(fabric.link_up)[0],
        alike,
    )
    return tuple(_worst(context, kind, parts) for kind, parts in _kinds(context, plane))


def alike_switches(model: HalvingModel, link_up: Bool) -> I64:
    """Number the switches by their place in every halving, shape (n,)."""
    source, target, group = model.network.arcs
    arcs = (source, target, model.network.group_capacity(link_up)[group])
    everyone = np.ones(len(model.network.host_duplex), dtype=np.bool_)
    hosts = model.network.host_capacity(link_up, everyone)
    columns = [hosts]
    for halving in model.halvings:
        sides = [model.network.host_capacity(link_up, halving.side == s) for s in (0, 1)]
        colour = collapse(arcs, sides[0], sides[1])
        # Without a partition every switch counts as unlike, which costs tries, not truth.
        columns.append(np.arange(model.network.n) if colour is None else colour)
    columns_of = np.stack(columns, axis=1)
    number: I64 = np.unique(columns_of, axis=0, return_inverse=True)[1].reshape(-1)
    return number


def _kinds(context: _Context, plane: PlaneId) -> Iterator[tuple[str, list[tuple[int, ...]]]]:
    """Yield (kind, parts of that kind, each as its nodes)."""
    fabric = context.fabric
    nics = context.model.network.host_node
    nics = np.unique(nics[fabric.node_kind[nics] == NodeKind.NIC])
    if len(nics):
        yield "nic", [(int(nic),) for nic in nics]
    switches = fabric.switches(plane)
    for tier in np.unique(fabric.node_tier[switches]):
        name = TIER_NAMES.get(int(tier), "switch")
        yield name, [(int(s),) for s in switches[fabric.node_tier[switches] == tier]]
    served = fabric.node_kind != NodeKind.SWITCH
    with_hosts = np.unique(fabric.node_rack[served & (fabric.node_rack >= 0)])
    # Inside a server only what is in this plane matters: its NICs, and the GPUs that die with it.
    movable = np.isin(fabric.node_kind, (NodeKind.GPU, NodeKind.NIC)) & (fabric.node_plane <= plane)
    movable |= (fabric.node_kind == NodeKind.SWITCH) & (fabric.node_plane == plane)
    movable |= np.isin(np.arange(fabric.n_nodes), context.model.network.host_node)
    nodes = np.flatnonzero(movable & (fabric.node_rack >= 0))
    order = nodes[np.argsort(fabric.node_rack[nodes], kind="stable")]
    racks, starts = np.unique(fabric.node_rack[order], return_index=True)
    parts = [tuple(part.tolist()) for part in np.split(order, starts[1:])] if len(racks) else []
    for name, wanted in (("rack", True), ("switch-rack", False)):
        chosen = [p for r, p in zip(racks, parts, strict=True) if (r in with_hosts) == wanted]
        if chosen:
            yield name, chosen


def _worst(context: _Context, kind: str, parts: list[tuple[int, ...]]) -> FailureDomain:
    """Try one of each sort of parts and return the worst."""
    network, fabric = context.model.network, context.fabric
    capacity = np.zeros(fabric.n_nodes, dtype=np.int64)
    up = fabric.link_up[2 * network.host_duplex]
    np.add.at(capacity, network.host_node[up], network.host_bps[up])
    np.add.at(capacity, network.switch[network.host_switch[up]], network.host_bps[up])
    home = np.full(fabric.n_nodes, -1, dtype=np.int64)
    home[network.host_node] = context.alike[network.switch[network.host_switch]]
    place = np.stack((capacity, context.alike, home), axis=1)
    sort = np.unique(place, axis=0, return_inverse=True)[1].reshape(-1).tolist()
    sorts: dict[tuple[int, ...], tuple[int, ...]] = {}
    for part in parts:
        sorts.setdefault(tuple(sorted(sort[node] for node in part)), part)
    chosen = sorted(sorts.values(), key=lambda part: -int(capacity[list(part)].sum()))[:_TRIES]
    found = [_loss(context, kind, part) for part in chosen]
    worst = max(found, key=lambda item: (item.gpus_cut_off, item.bisection_share_lost))
    return FailureDomain(
        kind=worst.kind,
        nodes=worst.nodes,
        servers_cut_off=worst.servers_cut_off,
        gpus_cut_off=worst.gpus_cut_off,
        host_share_lost=worst.host_share_lost,
        bisection_share_lost=worst.bisection_share_lost,
        tried=len(chosen),
        of=len(parts),
    )


def _loss(context: _Context, kind: str, part: tuple[int, ...]) -> FailureDomain:
    """Return what one part takes with it."""
    fabric, intact = context.fabric, context.intact
    gone = np.zeros(fabric.n_nodes, dtype=np.bool_)
    gone[list(part)] = True
    up: Bool = fabric.link_up & ~(gone[fabric.link_src] | gone[fabric.link_dst])
    after = context.attached.cut_off(up)
    bps = context.model.worst(up)[0]
    return FailureDomain(
        kind=kind,
        nodes=part,
        servers_cut_off=len(after.servers) - len(intact.servers),
        gpus_cut_off=len(after.gpus) - len(intact.gpus),
        host_share_lost=1 - after.host_bps / intact.host_bps if intact.host_bps else 0.0,
        bisection_share_lost=1 - bps / context.intact_bps if context.intact_bps else 0.0,
        tried=1,
        of=1,
    )
