"""The lessons of all labs, whichever room's engine they run on."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from railweave.experiments import Experiment

__all__ = ["all_lessons"]


def all_lessons() -> Mapping[str, Experiment]:
    """Return the experiment that each lab's Learn panel runs, by the lab's key."""
    from railweave.experiments.lessons import LESSONS
    from railweave.predict.lessons import TRAINING_LESSONS
    from railweave.transport.lessons import TRANSPORT_LESSONS

    return MappingProxyType({**LESSONS, **TRAINING_LESSONS, **TRANSPORT_LESSONS})
