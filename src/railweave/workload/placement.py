"""Placement: which GPU each rank of a job runs on.

``packed`` fills servers in order; ``spread`` goes round the servers, alternating leaves;
``rail-aligned`` follows one rail through as few servers as will do, then the next; ``random`` draws
whole servers one by one. ``fragments`` is what a busy scheduler has left: the free servers under
each group of leaves (see :func:`leaf_groups`), in order, are cut into runs of random length, 1 to
as many as the group has free; runs are drawn until the ranks have room; and the ranks follow the
servers' order, as schedulers number them. ``optimized`` is :func:`optimized_placement`. A list
gives the GPU number of every rank.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from railweave.design.models import PlacementName
from railweave.errors import InputError
from railweave.fabric import Fabric
from railweave.fabric._random import stream as random_stream
from railweave.workload._communicator import gpu_nic, gpu_rail
from railweave.workload._placement_groups import LeafGroups, leaf_groups, nic_leaves
from railweave.workload._placement_optimized import OptimizedPlacement, Sends, optimize

__all__ = [
    "LeafGroups",
    "OptimizedPlacement",
    "Sends",
    "leaf_groups",
    "nic_leaves",
    "optimized_placement",
    "place",
]

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]


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


def _fragments(fabric: Fabric, free: I32, count: int, seed: int, name: str) -> I32:
    """Runs of servers under random leaves; ranks in the servers' order."""
    servers, member = np.unique(fabric.node_server[free], return_inverse=True)
    draw = random_stream(seed, f"fragments/{name}")
    group = leaf_groups(fabric).of_server[servers]
    runs: list[I64] = []
    for number in np.unique(group):
        inside = np.flatnonzero(group == number)
        left = inside
        while left.size:
            length = int(draw.integers(1, len(inside) + 1))
            runs.append(left[:length])
            left = left[length:]
    order = np.concatenate([runs[i] for i in draw.permutation(len(runs))])
    gpus = np.bincount(member)
    needed = int(np.searchsorted(np.cumsum(gpus[order]), count)) + 1
    return free[np.isin(member, order[:needed])][:count]


_RULES: Final[dict[PlacementName, Callable[[Fabric, I32, int, int, str], I32]]] = {
    PlacementName.PACKED: _packed,
    PlacementName.SPREAD: _spread,
    PlacementName.RAIL_ALIGNED: _rail_aligned,
    PlacementName.RANDOM: _random,
    PlacementName.FRAGMENTS: _fragments,
}


def optimized_placement(
    fabric: Fabric,
    ranks: int | None,
    sends: Sends,
    *,
    name: str = "",
    taken: Iterable[int] = (),
) -> OptimizedPlacement:
    """Return a placement for least bytes across spines, found by search; deterministic.

    It starts from the better of packed and rail-aligned, keeps what one server runs together and
    in its order, and looks for the servers to put each such block on. What was found counts only
    if the job's traffic, worked out anew there, crosses spines with fewer bytes (as many, but
    fewer of them a core; or as many, but fewer that leave servers): it is never worse than either.
    Blocks move between servers with the same GPUs free. The optimum is not proven.

    Args:
        fabric: where the GPUs are.
        ranks: how many; None takes all that are free.
        sends: returns what the job sends when its ranks stand on these GPU nodes.
        name: the job, for errors.
        taken: GPU nodes that are not free.

    Raises:
        InputError: too few GPUs, or what ``sends`` raises.
    """
    free, count = _free(fabric, ranks, name, taken)
    starts = {
        rule: _RULES[rule](fabric, free, count, 0, name).astype(np.int32)
        for rule in (PlacementName.PACKED, PlacementName.RAIL_ALIGNED)
    }
    return optimize(fabric, free, starts, sends)


def _free(fabric: Fabric, ranks: int | None, name: str, taken: Iterable[int]) -> tuple[I32, int]:
    """Return the free GPUs and how many of them are wanted."""
    gpus = fabric.gpus
    free = gpus[~np.isin(gpus, np.fromiter(taken, dtype=np.int32))]
    count = len(free) if ranks is None else ranks
    if not 0 < count <= len(free):
        where = f"job {name}: " if name else ""
        raise InputError(
            f"{where}ranks: {count} are wanted, but {len(free)} of {len(gpus)} GPUs are free; "
            f"allowed: 1…{len(free)}"
        )
    return free, count


def place(
    fabric: Fabric,
    ranks: int | None,
    rule: PlacementName | Sequence[int] = PlacementName.PACKED,
    *,
    seed: int = 0,
    name: str = "",
    taken: Iterable[int] = (),
    sends: Sends | None = None,
) -> I32:
    """Return the GPU node of every rank, shape (ranks,).

    Args:
        fabric: where the GPUs are.
        ranks: how many; None takes all that are free (all that are listed).
        rule: one of the rules at the head of this module, or the GPU number of every rank.
        seed: seed of ``random`` and ``fragments``.
        name: the job, which has its own random stream.
        taken: GPU nodes that are not free.
        sends: what the job sends on given GPU nodes; ``optimized`` needs it.

    Raises:
        InputError: too few GPUs, a list with unknown or doubled numbers or of another length, or
            ``optimized`` without ``sends``.
    """
    where = f"job {name}: " if name else ""
    if not isinstance(rule, PlacementName):
        return _listed(fabric.gpus, ranks, rule, where)
    if rule is PlacementName.OPTIMIZED:
        if sends is None:
            raise InputError(
                f"{where}placement: optimized needs to know what the job sends; give sends=…, or "
                "take another rule"
            )
        return optimized_placement(fabric, ranks, sends, name=name, taken=taken).nodes
    free, count = _free(fabric, ranks, name, taken)
    return _RULES[rule](fabric, free, count, seed, name).astype(np.int32)


def _listed(gpus: I32, ranks: int | None, rule: Sequence[int], where: str) -> I32:
    """Return the nodes of a list of GPU numbers."""
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
