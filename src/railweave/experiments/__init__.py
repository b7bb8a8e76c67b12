"""Experiments: small canonical runs of the packet engine, each with a claim and its numbers.

An :class:`Experiment` says what it claims and what it is made of; its ``run`` gives an
:class:`Outcome`: measured values, charts, and whether the claim is true of them. All are in
:data:`EXPERIMENTS`; each takes a few seconds at most and gives the same numbers each time.
"""

from __future__ import annotations

from typing import Final

from railweave.errors import InputError
from railweave.experiments import (
    collectives,
    congestion_control,
    infiniband,
    load_balancing,
    loss,
    pauses,
    reordering,
)
from railweave.experiments._model import Chart, Experiment, Outcome
from railweave.formats.validation import list_names, nearest

__all__ = ["EXPERIMENTS", "Chart", "Experiment", "Outcome", "experiment"]

EXPERIMENTS: Final[tuple[Experiment, ...]] = (
    *congestion_control.EXPERIMENTS,
    *pauses.EXPERIMENTS,
    *reordering.EXPERIMENTS,
    *loss.EXPERIMENTS,
    *load_balancing.EXPERIMENTS,
    *infiniband.EXPERIMENTS,
    *collectives.EXPERIMENTS,
)


def experiment(name: str) -> Experiment:
    """Return an experiment by name.

    Raises:
        InputError: there is none of this name; says which there are.
    """
    known = {item.name: item for item in EXPERIMENTS}
    if name not in known:
        near = nearest(name, known)
        raise InputError(
            f"there is no experiment {name!r}; allowed: {list_names(known)}"
            + (f"; did you mean {near!r}?" if near else "")
        )
    return known[name]
