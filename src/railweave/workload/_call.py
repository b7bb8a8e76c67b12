"""What every collective algorithm is called with."""

from __future__ import annotations

from dataclasses import dataclass

from railweave.design.models import Collective
from railweave.workload._builder import TrafficBuilder
from railweave.workload._communicator import Communicator
from railweave.workload._options import CollectiveOptions

__all__ = ["CollectiveCall"]


@dataclass(frozen=True, slots=True)
class CollectiveCall:
    """One collective to append: where to, over which ranks, of what size, after which tasks."""

    builder: TrafficBuilder
    comm: Communicator
    op: Collective
    size_bytes: float
    options: CollectiveOptions
    label: str
    after: tuple[int, ...]
