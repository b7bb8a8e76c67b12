"""What training costs at a price of a GPU-hour, and what part of it was paid for idle GPUs.

A step of s seconds on G GPUs costs G·s/3600·price; idle time is priced alike: every reason's mean
seconds a GPU. The price is all that is paid for a GPU-hour, in any currency: power, network and
people are in it or they are not counted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from railweave.errors import InputError

__all__ = ["RunCost", "RunLength", "price_run", "require_price", "run_length"]

_HOUR_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class RunLength:
    """How long a training run is: whole steps, and the tokens they take."""

    steps: int
    tokens: float


@dataclass(frozen=True, slots=True)
class RunCost:
    """Prices of a step and of a run (None without its length), in the currency of ``gpu_hour``.

    ``lost`` are the parts of a step's price that were paid for idle GPUs, by reason; ``run_lost``
    the same of a run.
    """

    gpus: int
    gpu_hour: float
    step_s: float
    step_price: float
    lost: Mapping[str, float]
    length: RunLength | None = None
    run_s: float | None = None
    run_price: float | None = None

    @property
    def run_gpu_hours(self) -> float | None:
        """GPU-hours of the run."""
        return None if self.run_s is None else self.gpus * self.run_s / _HOUR_S

    @property
    def run_lost(self) -> Mapping[str, float]:
        """Idle parts of the run's price by reason; empty where its length is not known."""
        if self.length is None:
            return MappingProxyType({})
        steps = self.length.steps
        return MappingProxyType({reason: steps * price for reason, price in self.lost.items()})


def run_length(
    tokens_per_step: float, *, steps: int | None = None, tokens: float | None = None
) -> RunLength | None:
    """Return the length of a run that is given in steps or in tokens; None where in neither.

    Raises:
        InputError: both are given, or nothing would be trained.
    """
    if steps is not None and tokens is not None:
        raise InputError(
            "steps and tokens: a run's length is given by one of them; leave the other out"
        )
    if steps is not None:
        if steps < 1:
            raise InputError(f"steps: {steps} is not allowed; give 1 or more")
        return RunLength(steps, steps * tokens_per_step)
    if tokens is None:
        return None
    if not (math.isfinite(tokens) and tokens > 0):
        raise InputError(f"tokens: {tokens:g} is not allowed; give more than 0")
    count = math.ceil(tokens / tokens_per_step)
    return RunLength(count, count * tokens_per_step)


def require_price(gpu_hour: float) -> None:
    """Refuse a price of a GPU-hour that is below 0 or no number.

    Raises:
        InputError: it is.
    """
    if not (math.isfinite(gpu_hour) and gpu_hour >= 0):
        raise InputError(f"price of a GPU-hour: {gpu_hour:g} is not allowed; give 0 or more")


def price_run(
    gpus: int,
    step_s: float,
    gpu_hour: float,
    *,
    length: RunLength | None = None,
    idle_s: Mapping[str, float] = MappingProxyType({}),
) -> RunCost:
    """Return what a step and a run cost.

    Args:
        gpus: GPUs that are paid for.
        step_s: time of a step.
        gpu_hour: price of a GPU-hour.
        length: of the run, where it is known.
        idle_s: mean idle seconds of a GPU in a step, by reason.

    Raises:
        InputError: a price below 0 or one that is no number.
    """
    require_price(gpu_hour)
    rate = gpus * gpu_hour / _HOUR_S
    lost = MappingProxyType({reason: rate * seconds for reason, seconds in idle_s.items()})
    run_s = None if length is None else length.steps * step_s
    return RunCost(
        gpus=gpus,
        gpu_hour=gpu_hour,
        step_s=step_s,
        step_price=rate * step_s,
        lost=lost,
        length=length,
        run_s=run_s,
        run_price=None if run_s is None else rate * run_s,
    )
