"""The words of a serving prediction: what is asked, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from railweave.engine.result import Explanation
from railweave.provenance import Assumption
from railweave.workload.inference import InferencePlan, RequestLoad

__all__ = [
    "PERCENTILES",
    "InstanceMemory",
    "PassTime",
    "Percentiles",
    "PoolUse",
    "RequestTimes",
    "ServingEstimate",
    "ServingQuestion",
]

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

PERCENTILES = (50, 90, 95, 99)


@dataclass(frozen=True, slots=True)
class ServingQuestion:
    """A model served by two pools of instances, one that prefills and one that decodes.

    Args:
        prefill: an instance of the prefill pool.
        decode: an instance of the decode pool.
        prefill_gpus: GPUs of the prefill pool, a multiple of its instance's.
        decode_gpus: of the decode pool.
        batch: sequences that one decode instance answers at once, at most.
        load: the requests.
    """

    prefill: InferencePlan
    decode: InferencePlan
    prefill_gpus: int
    decode_gpus: int
    batch: int
    load: RequestLoad


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Of a time over the requests, in seconds; NaN of none."""

    p50: float
    p90: float
    p95: float
    p99: float
    mean: float
    count: int

    @classmethod
    def of(cls, values: npt.ArrayLike) -> Percentiles:
        """Return those of some values, linear between them."""
        given = np.asarray(values, dtype=np.float64)
        if not given.size:
            nothing = float("nan")
            return cls(nothing, nothing, nothing, nothing, nothing, 0)
        p50, p90, p95, p99 = (float(each) for each in np.percentile(given, PERCENTILES))
        return cls(p50, p90, p95, p99, float(given.mean()), given.size)


@dataclass(frozen=True, slots=True)
class PassTime:
    """One forward pass of an instance by its parts, which follow each other.

    ``weights_s`` and ``cache_s``: the memory's time for weights and for the KV cache (of a prefill
    in ``arithmetic_s``); ``tensor_s`` and ``expert_s``: communication.
    """

    weights_s: float
    cache_s: float
    arithmetic_s: float
    tensor_s: float
    expert_s: float

    @property
    def compute_s(self) -> float:
        """All but communication."""
        return self.weights_s + self.cache_s + self.arithmetic_s

    @property
    def communication_s(self) -> float:
        """Tensor and expert exchanges."""
        return self.tensor_s + self.expert_s

    @property
    def total_s(self) -> float:
        """All parts."""
        return self.compute_s + self.communication_s


@dataclass(frozen=True, slots=True)
class InstanceMemory:
    """Bytes of one GPU of an instance: weights, KV cache at its fullest, and what may be used."""

    weights_bytes: float
    cache_bytes: float
    usable_bytes: float

    @property
    def total_bytes(self) -> float:
        """Weights and cache."""
        return self.weights_bytes + self.cache_bytes

    @property
    def fits(self) -> bool:
        """Whether that is at most what may be used."""
        return self.total_bytes <= self.usable_bytes


@dataclass(frozen=True, slots=True)
class PoolUse:
    """One pool: its instances, one GPU's memory, the offered load and a typical pass.

    ``load``: offered requests over what the pool can carry; above 1 its queue only grows.
    ``most_per_s``: requests it can carry. ``passes``: forward passes made. ``communication``: share
    of the passes' time spent in tensor and expert exchanges.
    """

    name: str
    plan: InferencePlan
    instances: int
    memory: InstanceMemory
    load: float
    most_per_s: float
    passes: int
    typical: PassTime
    typical_text: str
    communication: float


@dataclass(frozen=True, eq=False)
class RequestTimes:
    """Times of every request in the order of arrival, (N,) each, in seconds.

    ``wait_s`` for a free prefill instance; ``kv_s`` of its cache on the network, ``kv_alone_s``
    alone there; ``admission_s``: wait for room in the decode batch; ``finish_s``: when its last
    token is out. ``per_token_s`` is NaN for answers of one token.
    """

    arrival_s: F64
    wait_s: F64
    prefill_s: F64
    kv_s: F64
    kv_alone_s: F64
    admission_s: F64
    finish_s: F64
    per_token_s: F64
    prompt_tokens: I64
    output_tokens: I64

    @property
    def first_token_s(self) -> F64:
        """Time to first token: until the prompt's cache is where it is decoded."""
        total: F64 = self.wait_s + self.prefill_s + self.kv_s
        return total


@dataclass(frozen=True, eq=False)
class ServingEstimate:
    """What serving takes: percentiles over the requests, the pools, and the network's part.

    ``kv_share``: mean share of the time to first token that the cache is on the network.
    ``communication_share``: share of the decode passes' time in exchanges. ``kv_slowdown``: mean
    of a transfer's time over its time alone. ``stretch``: decode's exchanges beside the transfers,
    over those without. ``tokens_per_s``: output tokens over the time from the first arrival to the
    last token.
    """

    question: ServingQuestion
    times: RequestTimes
    first_token: Percentiles
    per_token: Percentiles
    kv: Percentiles
    prefill: PoolUse
    decode: PoolUse
    kv_share: float
    communication_share: float
    kv_slowdown: float
    stretch: float
    tokens_per_s: float
    mean_batch: float
    kv_bytes: float
    engine: str
    notes: tuple[str, ...]
    assumptions: tuple[Assumption, ...]
    explanations: tuple[Explanation, ...]
