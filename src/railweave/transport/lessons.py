"""Lessons of the transport labs: what each is to be left with, as an experiment that shows it."""

from __future__ import annotations

from typing import Final

from railweave.experiments import Experiment
from railweave.transport._lessons_reachable import REACHABLE
from railweave.transport._lessons_technology import CHOICE

__all__ = ["TRANSPORT_LESSONS"]

#: by the key of the lab
TRANSPORT_LESSONS: Final[dict[str, Experiment]] = {
    "transport": CHOICE,
    "rdma": REACHABLE,
}
