"""Lessons: what each lab of the studio is to be left with, as an experiment that shows it.

They are experiments like the others, by the key of their lab. Each runs the engines in about a
second and decides its claim by the numbers that come out.
"""

from __future__ import annotations

from typing import Final

from railweave.experiments._lessons_hashing import COLLISIONS
from railweave.experiments._lessons_planes import SHARED_PLANE
from railweave.experiments._lessons_rings import RINGS
from railweave.experiments._lessons_strategies import STRATEGIES
from railweave.experiments._lessons_thresholds import THRESHOLDS
from railweave.experiments._model import Experiment

__all__ = ["LESSONS"]

#: by the key of the lab
LESSONS: Final[dict[str, Experiment]] = {
    "architecture": SHARED_PLANE,
    "traffic": STRATEGIES,
    "fabric": COLLISIONS,
    "congestion": THRESHOLDS,
    "collectives": RINGS,
}
