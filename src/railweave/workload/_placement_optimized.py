"""`optimize`: a job's own traffic as a search problem, and the check of what the search found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from railweave.design.models import PlacementName
from railweave.fabric import Fabric
from railweave.units import format_si
from railweave.workload._communicator import gpu_nic, scale_up_hub
from railweave.workload._placement_groups import LeafGroups, leaf_groups, nic_leaves
from railweave.workload._placement_search import Problem, search
from railweave.workload._traffic import Traffic
from railweave.workload.groups import ByteShares, byte_shares

__all__ = ["OptimizedPlacement", "Sends", "optimize"]

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

#: returns what a job sends when its ranks stand on these GPU nodes
Sends = Callable[[I32], Traffic]

#: what a byte costs in a scale-up domain, under a leaf, across a spine, across a core. Spines
#: count; leaves and cores only break ties (a byte across a core crosses spines too)
_COST: Final = np.array([0.0, 1e-6, 1.0, 1.0 + 1e-3])


@dataclass(frozen=True, eq=False)
class OptimizedPlacement:
    """GPU nodes by rank, how far the job's bytes go there, and how far by the other rules.

    ``shares`` counts bytes by what they cross as the engines route them: each through its own
    GPU's NIC.
    """

    nodes: I32
    shares: ByteShares
    others: Mapping[PlacementName, ByteShares]

    @property
    def crossing_bytes(self) -> float:
        """Bytes that cross a spine (or a core)."""
        return _crossing(self.shares)

    @property
    def saved_bytes(self) -> float:
        """Bytes across spines that the best of the other rules has more; 0 or greater."""
        return min(map(_crossing, self.others.values())) - self.crossing_bytes

    def describe(self) -> str:
        """Return what it saves as a sentence."""
        others = ", ".join(
            f"{format_si(_crossing(shares), 'B')} {rule.value}"
            for rule, shares in self.others.items()
        )
        least = min(map(_crossing, self.others.values()))
        part = f", {self.saved_bytes / least:.1%} less" if self.saved_bytes > 0 else ""
        return (
            f"optimized: {format_si(self.crossing_bytes, 'B')} of an iteration cross a spine, "
            f"against {others}{part}; found by search, not proven least"
        )


def _crossing(shares: ByteShares) -> float:
    return shares.spine_bytes + shares.core_bytes


def _rank(shares: ByteShares) -> tuple[float, float, float]:
    """Return what placements are compared by, in this order."""
    return _crossing(shares), shares.core_bytes, shares.leaf_bytes + _crossing(shares)


def optimize(
    fabric: Fabric, free: I32, starts: Mapping[PlacementName, I32], sends: Sends
) -> OptimizedPlacement:
    """Return the best of some placements and of what a search makes of the better one.

    ``free`` are the GPU nodes that may be used; see
    :func:`railweave.workload.placement.optimized_placement`.
    """
    seen: list[tuple[I32, Traffic, ByteShares]] = []
    for nodes in starts.values():
        traffic = sends(nodes)
        seen.append((nodes, traffic, _shares(fabric, traffic)))
    others = dict(zip(starts, (shares for _, _, shares in seen), strict=True))
    nodes, traffic, shares = min(seen, key=lambda one: _rank(one[2]))
    if _crossing(shares) > 0:
        found = _Blocks(fabric, free, nodes, traffic).searched()
        if not np.array_equal(found, nodes):
            there = _shares(fabric, sends(found))
            if _rank(there) < _rank(shares):
                nodes, shares = found, there
    return OptimizedPlacement(nodes, shares, others)


def _shares(fabric: Fabric, traffic: Traffic) -> ByteShares:
    return byte_shares(fabric, traffic.src, traffic.dst, traffic.stream_bytes, rail_aware=False)


class _Blocks:
    """What each server runs, which servers it could run on, and what the blocks send each other.

    A server's *signature* is which of its GPUs are free and on which leaves of its group; blocks
    move between servers of the same one, every rank keeping its place in the server.
    """

    def __init__(self, fabric: Fabric, free: I32, nodes: I32, traffic: Traffic) -> None:
        self.nodes = nodes
        groups = leaf_groups(fabric)
        lane, meets = _lanes(fabric, groups)
        self.servers, member = np.unique(fabric.node_server[free], return_inverse=True)
        self.gpus = [free[member == i] for i in range(len(self.servers))]
        first = {int(s): int(g) for g, s in zip(*_first_gpu(fabric), strict=True)}
        signature: dict[bytes, int] = {}
        self.kind = np.array(
            [
                signature.setdefault(
                    np.stack((gpus - first[int(s)], lane[gpus])).astype(np.int32).tobytes(),
                    len(signature),
                )
                for s, gpus in zip(self.servers, self.gpus, strict=True)
            ]
        )
        self.cell, self.level = _cells(fabric, groups, self.servers, self.gpus)
        # Blocks are numbered by their first rank.
        used = np.searchsorted(self.servers, fabric.node_server[nodes])
        _, start, inverse = np.unique(used, return_index=True, return_inverse=True)
        turn = np.empty(len(start), dtype=np.int64)
        turn[np.argsort(start, kind="stable")] = np.arange(len(start))
        self.block = turn[inverse]
        self.home = used[np.sort(start)]
        rank = np.full(fabric.n_nodes, -1, dtype=np.int64)
        rank[nodes] = np.arange(len(nodes))
        self.near, self.far = self._bytes(rank, traffic, lane, meets)

    def _bytes(self, rank: I64, traffic: Traffic, lane: I64, meets: Bool) -> tuple[F64, F64]:
        """Return bytes between blocks: of GPUs that can share a leaf, and of those that cannot."""
        n = len(self.home)
        one, two = self.block[rank[traffic.src]], self.block[rank[traffic.dst]]
        near = meets[lane[traffic.src], lane[traffic.dst]]
        tables: list[F64] = []
        for some in (near, ~near):
            key, size = (one * n + two)[some], traffic.stream_bytes[some]
            one_way = np.bincount(key, size, minlength=n * n).reshape(n, n)
            table: F64 = (one_way + one_way.T).astype(np.float64)
            np.fill_diagonal(table, 0.0)
            tables.append(table)
        return tables[0], tables[1]

    def searched(self) -> I32:
        """Search, and return the GPU node of every rank."""
        kinds = int(self.kind.max()) + 1
        room = np.zeros((len(self.level), kinds), dtype=np.int64)
        np.add.at(room, (self.cell, self.kind), 1)
        chosen = search(
            Problem(
                near=self.near,
                far=self.far,
                near_cost=_COST[self.level],
                far_cost=_COST[np.where(self.level == 1, 2, self.level)],
                room=room,
                kind=self.kind[self.home],
                base=self.cell[self.home],
            )
        )
        return self._placed(chosen)

    def _placed(self, chosen: I64) -> I32:
        """Give every block a server of its cell, in order; blocks that stay keep theirs."""
        at = np.where(chosen == self.cell[self.home], self.home, -1)
        taken = np.zeros(len(self.servers), dtype=bool)
        taken[at[at >= 0]] = True
        for block in np.flatnonzero(at < 0).tolist():
            fits = (self.cell == chosen[block]) & (self.kind == self.kind[self.home[block]])
            at[block] = int(np.flatnonzero(fits & ~taken)[0])
            taken[at[block]] = True
        nodes = self.nodes.copy()
        for rank, block in enumerate(self.block.tolist()):
            place = int(np.searchsorted(self.gpus[self.home[block]], self.nodes[rank]))
            nodes[rank] = self.gpus[at[block]][place]
        return nodes


def _first_gpu(fabric: Fabric) -> tuple[I32, I32]:
    """Return the first GPU of every server that has some, and those servers."""
    servers, first = np.unique(fabric.node_server[fabric.gpus], return_index=True)
    return fabric.gpus[first], servers


def _lanes(fabric: Fabric, groups: LeafGroups) -> tuple[I64, Bool]:
    """Return each GPU's lane, (N,), and which lanes meet under a leaf, (lanes, lanes).

    A lane is which of its group's leaves a GPU's NIC hangs on, by their order: the rail where
    rails have leaves of their own, and one lane for all under a single leaf.
    """
    gpus = fabric.gpus
    nic = gpu_nic(fabric)[gpus]
    table = nic_leaves(fabric)[np.maximum(nic, 0)]
    table[nic < 0] = -1
    order = np.full(fabric.n_nodes, -1, dtype=np.int64)
    group = groups.of_server[fabric.node_server[gpus]]
    place = np.full(table.shape, -1, dtype=np.int64)
    for number, leaves in enumerate(groups.leaves):
        order[list(leaves)] = np.arange(len(leaves))
        mine = group == number
        here = table[mine]
        place[mine] = np.where(here >= 0, order[here], -1)
    kinds, lane = np.unique(np.sort(place, axis=1), axis=0, return_inverse=True)
    equal = (kinds[:, None, :, None] == kinds[None, :, None, :]) & (kinds >= 0)[:, None, :, None]
    out = np.zeros(fabric.n_nodes, dtype=np.int64)
    out[gpus] = lane.reshape(-1)
    return out, equal.any(axis=(2, 3))


def _cells(
    fabric: Fabric, groups: LeafGroups, servers: I32, gpus: list[I32]
) -> tuple[I64, npt.NDArray[np.int64]]:
    """Return each server's cell, (servers,), and what lies between two cells, (cells, cells).

    Between cells: 0 nothing, 1 a leaf, 2 a spine, 3 a core; on the diagonal between two servers.
    """
    hub = scale_up_hub(fabric)[[g[0] for g in gpus]]
    spans = (hub >= 0) & (np.bincount(hub + 1, minlength=1)[hub + 1] > 1)
    group = groups.of_server[servers]
    pair = np.stack((np.where(spans, hub, -1), group), axis=1)
    cells, cell = np.unique(pair, axis=0, return_inverse=True)
    domain, of = cells.T
    pod = np.where(of >= 0, groups.pod[of] if groups.count else -1, -1)
    level = np.where(pod[:, None] == pod[None, :], 2, 3)
    level[(of[:, None] == of[None, :]) & (of >= 0)[:, None]] = 1
    level[(domain[:, None] == domain[None, :]) & (domain >= 0)[:, None]] = 0
    return cell.reshape(-1).astype(np.int64), level.astype(np.int64)
