"""What the collective library would need for a replay's operations, by its own choice of option.

A replay runs railweave's algorithms at the full rate of links; the library chooses an algorithm and
a protocol, and pays their latencies. This is the second figure to hold a measurement against.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from railweave.design.models import Collective
from railweave.errors import InputError
from railweave.provenance import Assumption, Certainty

if TYPE_CHECKING:
    from railweave.api import BuiltDesign
    from railweave.workload.replay import ReplayPlan

__all__ = ["LIBRARY_ASSUMPTION", "library_times"]

LIBRARY_ASSUMPTION: Final = Assumption(
    "library",
    "the time that the collective model gives such an operation alone, by the library's own choice "
    "of algorithm and protocol, at the NICs' line rate; of operations alike, that of the first "
    "group. None where the model does not know the GPUs or the operation",
    Certainty.ESTIMATED,
)


def library_times(built: BuiltDesign, plan: ReplayPlan) -> dict[tuple[str, float, int], float]:
    """Return the modelled time of one operation of each kind, size and number of ranks, seconds.

    Keys are (operation, size, ranks); NaN where the model has none.
    """
    times: dict[tuple[str, float, int], float] = {}
    for op in plan.operations:
        key = (op.op, op.size_bytes, len(op.ranks))
        if key not in times:
            times[key] = _time(built, plan, *key[:2], op.ranks)
    return times


def _time(
    built: BuiltDesign, plan: ReplayPlan, op: str, size_bytes: float, ranks: tuple[int, ...]
) -> float:
    from railweave.predict.collective import collective_time_s
    from railweave.predict.system import system_of

    if op not in set(Collective) or size_bytes <= 0 or len(ranks) < 2:
        return math.nan
    try:
        system = system_of(built, plan.nodes[list(ranks)])
        return collective_time_s(system, Collective(op), size_bytes)
    except InputError:
        return math.nan
