"""Explanations of the headline numbers that every simulating engine gives."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from railweave.engine.result import Explanation

__all__ = ["explain_run"]

F64 = npt.NDArray[np.float64]


def explain_run(
    makespan_s: float,
    link_bytes: F64,
    capacity_Bps: F64,  # noqa: N803
    slowdown: F64,
    *,
    counts: dict[str, float],
    source: str,
) -> tuple[Explanation, ...]:
    """Return the formula and inputs of the makespan and of the slowdowns.

    Args:
        makespan_s: end of the last task.
        link_bytes, capacity_Bps: wire bytes and usable capacity of each link, (L,).
        slowdown: of each stream, NaN where unknown, (S,).
        counts: of tasks, flows and events.
        source: what computed them.
    """
    busy = np.divide(
        link_bytes, capacity_Bps, out=np.zeros_like(link_bytes), where=capacity_Bps > 0
    )
    top = int(np.argmax(busy)) if busy.size else 0
    out = [
        Explanation(
            "makespan",
            makespan_s,
            "s",
            "end of the last task; never less than the busiest link's wire bytes / capacity",
            {
                **counts,
                "busiest link": float(top),
                "busiest link bytes": float(link_bytes[top]) if busy.size else 0.0,
                "busiest link capacity_Bps": float(capacity_Bps[top]) if busy.size else 0.0,
                "busiest link time_s": float(busy[top]) if busy.size else 0.0,
            },
            source,
        )
    ]
    known = slowdown[np.isfinite(slowdown)]
    for percent in (50, 99) if known.size else ():
        out.append(
            Explanation(
                f"slowdown p{percent}",
                float(np.percentile(known, percent)),
                "",
                "(stream end − task start) / time alone on its path; for coupled streams "
                "(task end − start) / time of its slowest stream alone",
                {"streams": float(known.size), "worst": float(known.max())},
                source,
            )
        )
    return tuple(out)
