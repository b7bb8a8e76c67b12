"""`Communicator`: the ranks of one collective and where they sit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from railweave.errors import InputError
from railweave.fabric import Fabric, LinkLayer, NodeKind, PlaneId

__all__ = ["Communicator"]

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

_NONE: Final = -1


@dataclass(frozen=True, eq=False)
class Communicator:
    """Ranks 0…n−1: their GPU nodes, scale-up domains and rails, all of shape (n,).

    ``domain`` numbers groups that reach each other inside (one server, or an NVLink domain over
    several); ``forwards`` says that a GPU may hand bytes over NVLink/xGMI to the GPU of another
    rail. ``channels`` is the number of parallel rings or trees, by default one a rail.
    """

    nodes: I32
    domain: I32
    rail: I32
    channels: int
    forwards: bool = True

    def __post_init__(self) -> None:
        if len(np.unique(self.nodes)) != len(self.nodes):
            raise InputError("ranks: a GPU is listed twice; give every rank a GPU of its own")
        if self.channels < 1:
            raise InputError(f"channels: {self.channels} is not allowed; give 1 or more")

    @property
    def n(self) -> int:
        """Number of ranks."""
        return len(self.nodes)

    @cached_property
    def rails(self) -> I32:
        """The distinct rails of the ranks, sorted."""
        return np.unique(self.rail)

    @cached_property
    def order(self) -> I64:
        """Domain of each rank numbered 0…D−1 by its first rank, shape (n,)."""
        _, first, inverse = np.unique(self.domain, return_index=True, return_inverse=True)
        renumber = np.empty(len(first), dtype=np.int64)
        renumber[np.argsort(first, kind="stable")] = np.arange(len(first))
        dense: I64 = renumber[inverse]
        return dense

    @cached_property
    def domain_sizes(self) -> I64:
        """Ranks of each dense domain, shape (D,)."""
        return np.bincount(self.order).astype(np.int64)

    @cached_property
    def local(self) -> I64:
        """Position of each rank within its domain, in rank order, shape (n,)."""
        by_domain = np.argsort(self.order, kind="stable")
        starts = np.cumsum(self.domain_sizes) - self.domain_sizes
        position = np.empty(self.n, dtype=np.int64)
        position[by_domain] = np.arange(self.n) - np.repeat(starts, self.domain_sizes)
        return position

    @property
    def uniform(self) -> bool:
        """Whether every domain has as many ranks as any other."""
        return len(np.unique(self.domain_sizes)) <= 1

    def subset(self, ranks: npt.ArrayLike, *, channels: int | None = None) -> Communicator:
        """Return the communicator of some ranks, in the order given; default: a channel a rail."""
        chosen = np.asarray(ranks, dtype=np.int64)
        rail = self.rail[chosen]
        count = channels or len(np.unique(rail))
        return Communicator(self.nodes[chosen], self.domain[chosen], rail, count, self.forwards)

    @classmethod
    def flat(cls, n: int, *, channels: int = 1) -> Communicator:
        """Ranks on nodes 0…n−1, each in a domain of its own, all on rail 0."""
        numbers = np.arange(n, dtype=np.int32)
        return cls(numbers, numbers, np.zeros(n, dtype=np.int32), channels, forwards=False)

    @classmethod
    def grid(cls, servers: int, gpus: int, *, channels: int | None = None) -> Communicator:
        """Ranks on ``servers`` × ``gpus`` nodes numbered in order, GPU i of a server on rail i."""
        numbers = np.arange(servers * gpus, dtype=np.int32)
        domain, rail = (part.astype(np.int32) for part in np.divmod(numbers, gpus))
        return cls(numbers, domain, rail, channels or gpus)

    @classmethod
    def from_fabric(
        cls, fabric: Fabric, nodes: npt.ArrayLike, *, channels: int | None = None
    ) -> Communicator:
        """Ranks on these GPU nodes of a fabric, ``nodes[r]`` for rank r.

        Domains are scale-up domains where GPUs have one, else servers. ``channels`` defaults to
        the number of rails the ranks are on (NICs of a server).

        Raises:
            InputError: a node is not a GPU, or is listed twice.
        """
        ranks = np.atleast_1d(np.asarray(nodes, dtype=np.int32))
        wrong = (ranks < 0) | (ranks >= fabric.n_nodes)
        if not wrong.any():
            wrong = fabric.node_kind[ranks] != NodeKind.GPU
        if wrong.any():
            raise InputError(
                f"rank {int(np.argmax(wrong))}: node {int(ranks[np.argmax(wrong)])} is not a GPU; "
                f"allowed: the {len(fabric.gpus)} nodes of fabric.gpus"
            )
        hub = scale_up_hub(fabric)[ranks]
        server = fabric.node_server[ranks]
        domain = np.where(hub != _NONE, hub, server + fabric.n_nodes).astype(np.int32)
        rail = gpu_rail(fabric)[ranks]
        rails = rail[rail != _NONE]
        count = len(np.unique(rails)) if rails.size else 1
        return cls(ranks, domain, rail, channels or count, forwards=bool((hub != _NONE).all()))


def scale_up_hub(fabric: Fabric) -> I32:
    """Return for every node the scale-up hub it hangs on, −1 where it has none, shape (N,)."""
    hub = np.full(fabric.n_nodes, _NONE, dtype=np.int32)
    up = fabric.link_layer == LinkLayer.SCALE_UP
    into = up & (fabric.node_kind[fabric.link_dst] == NodeKind.SCALE_UP)
    hub[fabric.link_src[into]] = fabric.link_dst[into]
    return hub


def gpu_nic(fabric: Fabric) -> I32:
    """Return for every node the back-end NIC on its PCIe link (the first), −1 none, shape (N,)."""
    nic = np.full(fabric.n_nodes, _NONE, dtype=np.int32)
    head, tail = fabric.link_src, fabric.link_dst
    joins = (
        (fabric.link_layer == LinkLayer.PCIE)
        & (fabric.node_kind[head] == NodeKind.GPU)
        & (fabric.node_kind[tail] == NodeKind.NIC)
        & (fabric.node_plane[tail] == PlaneId.BACKEND)
    )
    found = np.flatnonzero(joins)[::-1]  # reversed, so that the first of several stays
    nic[head[found]] = tail[found]
    return nic


def gpu_rail(fabric: Fabric) -> I32:
    """Return the rail of every node, a GPU without one taking its NIC's, shape (N,)."""
    nic = gpu_nic(fabric)
    from_nic = np.where(nic != _NONE, fabric.node_rail[np.maximum(nic, 0)], _NONE)
    rail: I32 = np.where(fabric.node_rail != _NONE, fabric.node_rail, from_nic).astype(np.int32)
    return rail
