"""Who is drawn as one where a pattern has very many ranks: ranks, servers, leaves, blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from railweave.fabric import Fabric
from railweave.fabric.names import node_name
from railweave.workload import message_reach
from railweave.workload._communicator import gpu_nic
from railweave.workload.placement import nic_leaves

__all__ = ["PLACE_NAMES", "RankGroups", "Spread", "Talk", "pair_reach", "rank_groups"]

F64 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int8]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
Kind: TypeAlias = Literal["rank", "server", "leaf", "block"]

#: the farthest place that bytes pass, by the numbers of :func:`railweave.workload.message_reach`
PLACE_NAMES: Final = ("in the server", "under a leaf", "across a spine", "across a core")
_KINDS: Final = {
    "server": "server",
    "leaf": "leaf (servers on the same leaves together)",
    "block": "block of neighbouring ranks",
}


class Talk(Protocol):
    """Who talks to whom: a study of a pattern, or of a model."""

    @property
    def fabric(self) -> Fabric:
        """Where the ranks are."""
        ...

    @property
    def nodes(self) -> I32:
        """GPU nodes by rank, (n,)."""
        ...

    @property
    def matrix_bytes(self) -> F64:
        """Bytes from rank to rank, (n, n)."""
        ...


class Spread(Protocol):
    """How far bytes go: parts of all bytes by the farthest place they pass."""

    @property
    def total_bytes(self) -> float:
        """All bytes."""
        ...

    @property
    def share_server(self) -> float:
        """In a server."""
        ...

    @property
    def share_leaf(self) -> float:
        """Under a leaf."""
        ...

    @property
    def share_spine(self) -> float:
        """Across a spine."""
        ...

    @property
    def share_core(self) -> float:
        """Across a core switch."""
        ...


@dataclass(frozen=True, eq=False)
class RankGroups:
    """Ranks put together: ``member[r]`` is the group of rank r, (n,); ``names`` are the groups'."""

    kind: Kind
    names: tuple[str, ...]
    member: I64

    @property
    def sizes(self) -> I64:
        """Ranks of each group, (G,)."""
        return np.bincount(self.member, minlength=len(self.names))

    @property
    def note(self) -> str:
        """What is drawn as one; nothing where every rank is drawn."""
        if self.kind == "rank":
            return ""
        ranks, most = len(self.member), int(self.sizes.max())
        return (
            f"{ranks:,} ranks are drawn as {len(self.names):,}, by {_KINDS[self.kind]}, up to "
            f"{most:,} ranks each"
        )

    def fold(self, matrix: F64) -> F64:
        """Add up an (n, n) matrix by group, (G, G)."""
        count = len(self.names)
        if self.kind == "rank":
            return matrix
        key = self.member[:, None] * count + self.member[None, :]
        total = np.bincount(key.ravel(), matrix.ravel(), minlength=count * count)
        return total.reshape(count, count).astype(np.float64)


def rank_groups(study: Talk, most: int) -> RankGroups:
    """Return the finest grouping of a study's ranks with at most ``most`` groups.

    Ranks by themselves; by server; servers on the same leaves together; blocks of ranks in a row.
    Groups are in the order of their first ranks.
    """
    ranks = len(study.nodes)
    if ranks <= most:
        names = tuple(f"rank {r}" for r in range(ranks))
        return RankGroups("rank", names, np.arange(ranks))
    fabric = study.fabric
    server = fabric.node_server[study.nodes].astype(np.int64)
    leaves = _server_leaves(fabric, server)
    kind: Kind = "server"
    for kind, key in (("server", server), ("leaf", _leaf_keys(server, leaves))):
        _, first, member = np.unique(key, return_index=True, return_inverse=True)
        if 1 < len(first) <= most:
            place = np.argsort(np.argsort(first))
            own = (int(one) for one in server[np.sort(first)])
            names = tuple(
                fabric.server_names[s] if kind == "server" else _under(fabric, s, leaves[s])
                for s in own
            )
            return RankGroups(kind, names, place[member].astype(np.int64))
    size = -(-ranks // most)
    starts = range(0, ranks, size)
    names = tuple(f"ranks {a}–{min(a + size, ranks) - 1}" for a in starts)
    return RankGroups("block", names, np.arange(ranks) // size)


def _server_leaves(fabric: Fabric, server: I64) -> dict[int, tuple[int, ...]]:
    """Return the leaves that all GPUs of each server lead to."""
    gpus = fabric.gpus[np.isin(fabric.node_server[fabric.gpus], server)]
    nics = gpu_nic(fabric)[gpus]
    gpus, nics = gpus[nics >= 0], nics[nics >= 0]
    found: dict[int, set[int]] = {int(one): set() for one in np.unique(server)}
    owners = fabric.node_server[gpus].tolist()
    for owner, leaves in zip(owners, nic_leaves(fabric)[nics].tolist(), strict=True):
        found[owner].update(leaf for leaf in leaves if leaf >= 0)
    return {one: tuple(sorted(leaves)) for one, leaves in found.items()}


def _leaf_keys(server: I64, leaves: dict[int, tuple[int, ...]]) -> I64:
    """Return for each rank the number of the first server on the same leaves as its own."""
    first: dict[tuple[int, ...], int] = {}
    found = {one: first.setdefault(own, one) for one, own in leaves.items()}
    return np.array([found[one] for one in server.tolist()], dtype=np.int64)


def _under(fabric: Fabric, server: int, leaves: tuple[int, ...]) -> str:
    if not leaves:
        return fabric.server_names[server]
    names = [node_name(fabric, leaf) for leaf in leaves]
    return f"under {names[0]}" + (f" to {names[-1]}" if len(names) > 1 else "")


def pair_reach(study: Talk, groups: RankGroups | None = None) -> I8:
    """Return the farthest place that the bytes from one to another pass, (n, n) or (G, G).

    −1 where nothing is sent. Of groups: where most of their bytes pass.
    """
    matrix = study.matrix_bytes
    src, dst = np.nonzero(matrix)
    reach = message_reach(study.fabric, study.nodes[src], study.nodes[dst], rail_aware=False)
    if groups is None or groups.kind == "rank":
        out = np.full(matrix.shape, -1, dtype=np.int8)
        out[src, dst] = reach
        return out
    count = len(groups.names)
    key = groups.member[src] * count + groups.member[dst]
    by_place = np.stack(
        [
            np.bincount(key, matrix[src, dst] * (reach == place), minlength=count * count)
            for place in range(len(PLACE_NAMES))
        ]
    )
    most = by_place.argmax(axis=0)
    most[by_place.sum(axis=0) == 0] = -1
    folded: I8 = most.reshape(count, count).astype(np.int8)
    return folded
