"""Collective operations as message DAGs: which algorithm serves which operation, and one entry.

Sizes are counted as nccl-tests does: all-gather, the whole receive buffer; reduce-scatter, the
whole send buffer; all-to-all, one rank's buffer; the others, the buffer itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from railweave.design.models import ALGORITHMS, Algorithm, Collective
from railweave.errors import InputError
from railweave.workload._alltoall import direct, rail_aligned
from railweave.workload._builder import TrafficBuilder
from railweave.workload._call import CollectiveCall
from railweave.workload._communicator import Communicator
from railweave.workload._halving import halving_doubling
from railweave.workload._hierarchical import hierarchical
from railweave.workload._options import CollectiveOptions
from railweave.workload._ring import ring
from railweave.workload._traffic import Traffic
from railweave.workload._tree import tree

__all__ = [
    "CollectiveOptions",
    "append_collective",
    "collective_traffic",
    "default_algorithm",
    "require_algorithm",
]

_Append = Callable[[CollectiveCall], list[int]]
_FAMILIES: Final[dict[Algorithm, _Append]] = {
    Algorithm.RING: ring,
    Algorithm.TREE: tree,
    Algorithm.HALVING_DOUBLING: halving_doubling,
    Algorithm.HIERARCHICAL: hierarchical,
    Algorithm.DIRECT: direct,
    Algorithm.RAIL_ALIGNED: rail_aligned,
}


def default_algorithm(op: Collective) -> Algorithm:
    """Return the algorithm used where none is named."""
    return ALGORITHMS[op][0]


def require_algorithm(op: Collective, algorithm: Algorithm | None) -> Algorithm:
    """Return the algorithm, the default for None.

    Raises:
        InputError: the algorithm cannot do the operation.
    """
    if algorithm is None:
        return default_algorithm(op)
    if algorithm not in ALGORITHMS[op]:
        allowed = ", ".join(choice.value for choice in ALGORITHMS[op])
        raise InputError(f"algorithm: {algorithm.value} cannot do {op.value}; allowed: {allowed}")
    return algorithm


def append_collective(
    builder: TrafficBuilder,
    comm: Communicator,
    op: Collective,
    size_bytes: float,
    *,
    algorithm: Algorithm | None = None,
    options: CollectiveOptions | None = None,
    label: str = "",
    after: Iterable[int] = (),
) -> list[int]:
    """Append a collective to a builder.

    Args:
        builder: takes the tasks.
        comm: the ranks and their places.
        op: operation.
        size_bytes: size as nccl-tests counts it.
        algorithm: default: the first in :data:`railweave.design.models.ALGORITHMS`.
        options: root, queue pairs, pipelining.
        label: default ``"<op>/<algorithm>"``.
        after: tasks that must be delivered before it starts.

    Returns:
        The tasks that must all end for the collective to be over; ``after`` for a single rank,
        which has nothing to send.

    Raises:
        InputError: an algorithm that cannot do the operation or the placement, or a root that
            is no rank.
    """
    chosen = require_algorithm(op, algorithm)
    settings = options or CollectiveOptions()
    if not 0 <= settings.root < comm.n:
        raise InputError(f"root: {settings.root} is no rank; allowed: 0…{comm.n - 1}")
    before = tuple(after)
    if comm.n < 2:
        return list(before)
    name = label or f"{op.value}/{chosen.value}"
    return _FAMILIES[chosen](
        CollectiveCall(builder, comm, op, float(size_bytes), settings, name, before)
    )


def collective_traffic(
    op: Collective,
    comm: Communicator,
    size_bytes: float,
    *,
    algorithm: Algorithm | None = None,
    iterations: int = 1,
    label: str = "",
    options: CollectiveOptions | None = None,
) -> Traffic:
    """Return the traffic of a collective, run ``iterations`` times one after the other.

    An iteration starts when the one before is over on every rank. Raises InputError as
    :func:`append_collective` does.
    """
    builder = TrafficBuilder()
    chosen = require_algorithm(op, algorithm)
    name = label or f"{op.value}/{chosen.value}"
    settings = replace(options) if options else CollectiveOptions()
    after: list[int] = []
    for iteration in range(iterations):
        text = f"{name}#{iteration}" if iterations > 1 else name
        if len(after) > 1:
            after = [builder.barrier(after, label=text)]
        after = append_collective(
            builder,
            comm,
            op,
            size_bytes,
            algorithm=chosen,
            options=settings,
            label=text,
            after=after,
        )
    return builder.build()
