"""Hierarchical algorithm: inside each domain, then between domains along each rail, and back.

All-reduce = reduce-scatter in the domain, all-reduce of each piece over the GPUs of the same local
number, all-gather in the domain. Each ring is one coupled task; the phases follow each other.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from railweave.design.models import Collective
from railweave.errors import InputError
from railweave.workload._builder import TrafficBuilder
from railweave.workload._call import CollectiveCall
from railweave.workload._communicator import Communicator
from railweave.workload._options import CollectiveOptions

__all__ = ["grid_of", "hierarchical"]

I64 = npt.NDArray[np.int64]


def grid_of(comm: Communicator, algorithm: str) -> I64:
    """Return the ranks as a table, one row a domain and one column a local number, (D, G).

    Columns are sorted by rail, so that the GPUs of a column share a rail where they can.

    Raises:
        InputError: the domains do not hold equally many ranks.
    """
    if not comm.uniform:
        sizes = np.unique(comm.domain_sizes)
        raise InputError(
            f"algorithm {algorithm}: servers hold from {sizes[0]} to {sizes[-1]} ranks of this "
            "group; allowed: as many in each; use ring, or place the ranks evenly"
        )
    by_domain = np.lexsort((comm.local, comm.rail, comm.order))
    table: I64 = by_domain.reshape(len(comm.domain_sizes), -1)
    return table


@dataclass
class _Rings:
    """Appends closed rings over rows of a table, with what all of them share."""

    builder: TrafficBuilder
    comm: Communicator
    options: CollectiveOptions
    label: str
    after: tuple[int, ...] = field(default=())

    def phase(self, table: I64, chunk_bytes: float, rounds: int, name: str) -> None:
        """Append one ring for each row; they wait for the phase before."""
        n = table.shape[1]
        if n < 2:
            return
        label = f"{self.label}/{name}"
        if len(self.after) > 1:  # one barrier instead of every ring waiting for every ring
            self.after = (self.builder.barrier(self.after, label=label),)
        streams = np.arange(n)
        preds = (streams, np.roll(streams, 1), np.ones_like(streams))
        self.after = tuple(
            self.builder.coupled(
                self.comm.nodes[row],
                self.comm.nodes[np.roll(row, -1)],
                chunk_bytes,
                rounds,
                preds,
                label=label,
                after=self.after,
                queue_pairs=self.options.queue_pairs,
            )
            for row in table
        )


def hierarchical(call: CollectiveCall) -> list[int]:
    """Append the collective. Returns the tasks of the last phase.

    Raises:
        InputError: the domains do not hold equally many ranks.
    """
    table = grid_of(call.comm, "hierarchical")
    servers, gpus = table.shape
    rings = _Rings(call.builder, call.comm, call.options, call.label, call.after)
    piece = call.size_bytes / gpus
    if call.op in (Collective.ALL_REDUCE, Collective.REDUCE_SCATTER):
        rings.phase(table, piece, gpus - 1, "reduce-scatter inside")
    rounds = (servers - 1) * (2 if call.op is Collective.ALL_REDUCE else 1)
    rings.phase(table.T, piece / servers, rounds, f"{call.op.value} along rails")
    if call.op in (Collective.ALL_REDUCE, Collective.ALL_GATHER):
        rings.phase(table, piece, gpus - 1, "all-gather inside")
    return list(rings.after)
