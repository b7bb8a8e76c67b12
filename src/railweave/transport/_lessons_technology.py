"""Lesson of lab 3: no technology is the best for all weights."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from railweave.experiments import Chart, Experiment, Outcome
from railweave.transport.compare._measure import measure
from railweave.transport.compare._score import scores_of, totals_of, weights_of
from railweave.transport.compare._swap import synthetic_design
from railweave.transport.compare._technologies import Technology, technology_facts
from railweave.transport.compare._types import Requirements, case_for

__all__ = ["CHOICE", "choices"]

_GPUS: Final = 32
_OVERSUBSCRIPTION: Final = 2.0
#: what four readers of the same measurements hold important; weights of 0 to 10, the rest is 0
_READERS: Final = MappingProxyType(
    {
        "shared services": {"cost": 6, "ecosystem": 4, "operations": 4, "bandwidth": 2},
        "tight budget": {"latency": 5, "cost": 4, "vendors": 3, "cpu": 3},
        "latency first": {"latency": 8, "bandwidth": 4, "operations": 3},
        "busy fabric": {"congestion": 6, "resilience": 4, "automation": 2},
    }
)
_WANTED: Final = 3


def choices(gpus: int = _GPUS) -> Outcome:
    """Measure four technologies once and weigh them as four readers do.

    Args:
        gpus: of the cluster.
    """
    import railweave
    from railweave.experiments._bench import series

    text = synthetic_design(gpus, oversubscription=_OVERSUBSCRIPTION)
    built = railweave.parse(text, "lesson", files=False).build()
    found = measure(built, case_for("training", quick=True))
    nothing = dict.fromkeys(technology_facts().criteria, 0.0)
    values: dict[str, float] = {}
    rows, winners = [], {}
    names = [technology.label for technology in Technology]
    for reader, weights in _READERS.items():
        asked = Requirements(weights={**nothing, **weights})
        totals = totals_of(scores_of(asked, found), weights_of(asked))
        winners[reader] = max(totals, key=totals.__getitem__)
        key = reader.replace(" ", "_")
        values |= {f"{key}_{technology.value}_total": totals[technology] for technology in totals}
        rows.append((reader, names, [totals[technology] for technology in Technology]))
    values["winners"] = float(len(set(winners.values())))
    chart = Chart("totals", series(rows), "", "weighted score", kind="bar")
    told = "; ".join(f"{reader}: {winner.label}" for reader, winner in winners.items())
    return Outcome(
        values,
        (chart,),
        values["winners"] >= _WANTED,
        f"The same measurements of {gpus} GPUs, weighed by four readers. {told}.",
    )


CHOICE: Final = Experiment(
    "lesson-technology",
    "No option wins for all weights",
    f"Of four technologies measured on one cluster, at least {_WANTED} are the best for somebody.",
    {
        "cluster": f"{_GPUS} GPUs, rail-optimised, leaves at {_OVERSUBSCRIPTION:g}:1",
        "traffic": "AllReduce and all-to-all as flows; a permutation, an incast and a lossy cable "
        "packet by packet",
        "readers": "; ".join(
            f"{reader} ({', '.join(f'{name} {weight}' for name, weight in weights.items())})"
            for reader, weights in _READERS.items()
        ),
    },
    choices,
)
