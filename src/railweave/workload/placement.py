"""Placement: which GPU each rank of a job runs on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from railweave.design.models import PlacementName
from railweave.errors import InputError
from railweave.fabric import Fabric, LinkLayer, NodeKind, PlaneId
from railweave.fabric._random import stream as random_stream
from railweave.workload._communicator import gpu_nic, gpu_rail

__all__ = ["nic_leaves", "place"]

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]


def nic_leaves(fabric: Fabric, plane: PlaneId = PlaneId.BACKEND) -> I32:
    """Return the switches each node's own ports lead to, (N, P), padded with −1.

    P is the largest number of such ports of one node. Links that are down do not count.
    """
    links = np.flatnonzero(
        (fabric.link_layer == LinkLayer.HOST_LEAF)
        & (fabric.link_plane == plane)
        & fabric.link_up
        & (fabric.node_kind[fabric.link_src] != NodeKind.SWITCH)
    )
    node = fabric.link_src[links]
    order = np.argsort(node, kind="stable")
    node, leaf = node[order], fabric.link_dst[links][order]
    count = np.bincount(node, minlength=fabric.n_nodes)
    column = np.arange(len(node)) - np.repeat(np.cumsum(count) - count, count)
    table = np.full((fabric.n_nodes, max(1, int(count.max(initial=0)))), -1, dtype=np.int32)
    table[node, column] = leaf
    return table


def _position_in_group(group: I64) -> I64:
    """Return how many equal values stand before each element."""
    order = np.argsort(group, kind="stable")
    sizes = np.unique(group, return_counts=True)[1]
    position = np.empty(len(group), dtype=np.int64)
    position[order] = np.arange(len(group)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return position


def _packed(fabric: Fabric, free: I32, count: int, seed: int, name: str) -> I32:
    """Take the free GPUs in order: servers fill one after the other."""
    return free[:count]


def _spread(fabric: Fabric, free: I32, count: int, seed: int, name: str) -> I32:
    """One GPU a server in turn, neighbouring turns on different leaves."""
    servers, member = np.unique(fabric.node_server[free], return_inverse=True)
    place_in_server = _position_in_group(member)
    leader = free[np.unique(member, return_index=True)[1]]
    leaf = nic_leaves(fabric)[np.maximum(gpu_nic(fabric)[leader], 0), 0].astype(np.int64)
    turn = np.empty(len(servers), dtype=np.int64)
    turn[np.lexsort((leaf, _position_in_group(leaf)))] = np.arange(len(servers))
    return free[np.lexsort((turn[member], place_in_server))[:count]]


def _rail_aligned(fabric: Fabric, free: I32, count: int, seed: int, name: str) -> I32:
    """Consecutive ranks follow one rail through as few servers as will do, then the next rail."""
    _, member = np.unique(fabric.node_server[free], return_inverse=True)
    needed = int(np.searchsorted(np.cumsum(np.bincount(member)), count)) + 1
    inside = free[member < needed]
    return inside[np.lexsort((inside, gpu_rail(fabric)[inside]))[:count]]


def _random(fabric: Fabric, free: I32, count: int, seed: int, name: str) -> I32:
    """Whole servers drawn at random, as a busy scheduler leaves them; GPUs within in order."""
    servers, member = np.unique(fabric.node_server[free], return_inverse=True)
    turn = random_stream(seed, f"placement/{name}").permutation(len(servers))
    return free[np.argsort(turn[member], kind="stable")[:count]]


_RULES: Final[dict[PlacementName, Callable[[Fabric, I32, int, int, str], I32]]] = {
    PlacementName.PACKED: _packed,
    PlacementName.SPREAD: _spread,
    PlacementName.RAIL_ALIGNED: _rail_aligned,
    PlacementName.RANDOM: _random,
}


def place(
    fabric: Fabric,
    ranks: int | None,
    rule: PlacementName | Sequence[int] = PlacementName.PACKED,
    *,
    seed: int = 0,
    name: str = "",
    taken: Iterable[int] = (),
) -> I32:
    """Return the GPU node of every rank, shape (ranks,).

    Args:
        fabric: where the GPUs are.
        ranks: how many; None takes all that are free (all that are listed).
        rule: ``packed`` fills servers in order; ``spread`` goes round the servers, alternating
            leaves; ``rail-aligned`` follows one rail through as few servers as will do, then the
            next; ``random`` draws whole servers; or the GPU number of every rank.
        seed: seed of ``random``.
        name: the job, which has its own random stream.
        taken: GPU nodes that are not free.

    Raises:
        InputError: too few GPUs, or a list with unknown or doubled numbers or of another length.
    """
    gpus = fabric.gpus
    where = f"job {name}: " if name else ""
    if not isinstance(rule, PlacementName):
        numbers = np.asarray(rule, dtype=np.int64)
        wrong = (numbers < 0) | (numbers >= len(gpus))
        if wrong.any():
            raise InputError(
                f"{where}placement: GPU {int(numbers[np.argmax(wrong)])} does not exist; "
                f"allowed: 0…{len(gpus) - 1}"
            )
        if len(np.unique(numbers)) != len(numbers):
            raise InputError(f"{where}placement: a GPU is listed twice; list each once")
        if ranks is not None and ranks != len(numbers):
            raise InputError(
                f"{where}placement: lists {len(numbers)} GPUs for {ranks} ranks; list one each"
            )
        return gpus[numbers]
    free = gpus[~np.isin(gpus, np.fromiter(taken, dtype=np.int32))]
    count = len(free) if ranks is None else ranks
    if not 0 < count <= len(free):
        raise InputError(
            f"{where}ranks: {count} are wanted, but {len(free)} of {len(gpus)} GPUs are free; "
            f"allowed: 1…{len(free)}"
        )
    return _RULES[rule](fabric, free, count, seed, name).astype(np.int32)
