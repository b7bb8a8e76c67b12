"""Requests to a served model: when they arrive, and how long prompts and answers are."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from railweave.errors import InputError
from railweave.fabric._random import stream as random_stream

__all__ = ["Lengths", "RequestLoad", "Requests", "draw_requests"]

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]

MOST_REQUESTS: Final = 100_000
_MOST_SPREAD: Final = 10.0


@dataclass(frozen=True, slots=True)
class Lengths:
    """Lengths in tokens: log-normal with this mean, ``spread`` standard deviation over mean.

    A spread of 0 makes all alike.
    """

    mean: float
    spread: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.mean) and self.mean >= 1):
            raise InputError(f"length: {self.mean:g} tokens are not allowed; give 1 or more")
        if not 0 <= self.spread <= _MOST_SPREAD:
            raise InputError(
                f"spread: {self.spread:g} is not allowed; give 0 (all alike) to {_MOST_SPREAD:g} "
                "(standard deviation over mean)"
            )

    def draw(self, chance: np.random.Generator, count: int) -> I64:
        """Return so many lengths: whole tokens, at least 1."""
        if self.spread == 0:
            return np.full(count, round(self.mean), dtype=np.int64)
        variance = math.log1p(self.spread**2)
        drawn = chance.lognormal(math.log(self.mean) - variance / 2, math.sqrt(variance), count)
        return np.maximum(np.rint(drawn), 1).astype(np.int64)


@dataclass(frozen=True, slots=True)
class RequestLoad:
    """Requests that arrive as a Poisson process; ``seed`` with ``name`` fixes all of them."""

    rate_per_s: float
    count: int
    prompt: Lengths = field(default_factory=lambda: Lengths(2048))
    output: Lengths = field(default_factory=lambda: Lengths(256))
    seed: int = 0
    name: str = "requests"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.rate_per_s) and self.rate_per_s > 0):
            raise InputError(
                f"rate: {self.rate_per_s:g} requests/s are not allowed; give more than 0"
            )
        if not 1 <= self.count <= MOST_REQUESTS:
            raise InputError(
                f"requests: {self.count:,} are not allowed; allowed: 1…{MOST_REQUESTS:,}"
            )


@dataclass(frozen=True, eq=False)
class Requests:
    """Requests in the order of their arrival, (N,) each."""

    arrival_s: F64
    prompt_tokens: I64
    output_tokens: I64

    @property
    def count(self) -> int:
        """Number of requests."""
        return len(self.arrival_s)


def draw_requests(load: RequestLoad) -> Requests:
    """Return the requests; arrivals, prompts and answers each have their own random stream."""
    gaps = random_stream(load.seed, f"{load.name}/arrivals").exponential(
        1.0 / load.rate_per_s, load.count
    )
    return Requests(
        arrival_s=np.cumsum(gaps),
        prompt_tokens=load.prompt.draw(
            random_stream(load.seed, f"{load.name}/prompts"), load.count
        ),
        output_tokens=load.output.draw(
            random_stream(load.seed, f"{load.name}/outputs"), load.count
        ),
    )
