"""How long one forward pass of a served instance takes: arithmetic, memory, exchanges.

A decode step over n sequences a replica with contexts of C tokens in all takes::

    (weights it touches + C·KV bytes) / (memory bandwidth·0.85)
    + 2·n·(weights a token passes) / (peak·efficiency) + 4·C·L·heads·width / (peak·efficiency·0.5)
    + its exchanges

all for one rank. A mixture of E experts of which each token takes k touches, with N tokens of the
instance, ``E·(1 − (1 − k/E)^N)`` of them. A prefill is the forward pass of
:func:`railweave.predict.compute.layer_time` over the prompt, and one column of the head.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from railweave.catalog import Gpu
from railweave.design.models import Collective, Recompute
from railweave.predict._cost_types import TimeCurve
from railweave.predict._serving_types import PassTime
from railweave.predict._training_types import TrainingPlan, peak_flops
from railweave.predict.collective import collective_times_s
from railweave.predict.compute import (
    ATTENTION_EFFICIENCY,
    MEMORY_EFFICIENCY,
    gemm_efficiency,
    layer_time,
)
from railweave.predict.network_part import network_part
from railweave.predict.system import system_of
from railweave.workload import Communicator, Degrees
from railweave.workload._stages import stage_parts, stage_weights
from railweave.workload.inference import (
    InferencePlan,
    element_bytes,
    kv_rank_bytes_per_token,
)

if TYPE_CHECKING:
    from railweave.api import BuiltDesign

__all__ = ["Exchanges", "PassClock", "exchanges_on", "weights_of"]

I32 = npt.NDArray[np.int32]

_SIZES: Final = tuple(float(1 << shift) for shift in range(8, 36, 2))
_FREE: Final = TimeCurve((0.0, 1.0), (0.0, 0.0))


def weights_of(plan: InferencePlan) -> tuple[float, float]:
    """Return (dense weights, routed experts' weights) of one rank; embedding and head count."""
    weights = stage_weights(plan.shape, stage_parts(plan.shape, 1))
    dense = float(weights.dense[0]) / plan.tensor
    return dense, float(weights.expert[0]) / plan.gpus


@dataclass(frozen=True, slots=True)
class Exchanges:
    """Time over size of a tensor group's all-reduce and an expert group's all-to-all."""

    tensor: TimeCurve = _FREE
    expert: TimeCurve = _FREE


def exchanges_on(
    built: BuiltDesign, plan: InferencePlan, instances: I32, *, engine: str
) -> Exchanges:
    """Return the exchanges' times by the collective library's model, on the worst instance.

    Args:
        built: a built design; its failures count.
        plan: of an instance.
        instances: GPU nodes, (instances, plan.gpus); the one over most scale-up domains counts.
        engine: by which the network's share of the line rate is found.
    """
    groups = instances.reshape(-1, plan.tensor)
    return Exchanges(
        _curve(built, _spread(built, groups), Collective.ALL_REDUCE, engine),
        _curve(built, _spread(built, instances), Collective.ALL_TO_ALL, engine)
        if plan.expert > 1
        else _FREE,
    )


def _spread(built: BuiltDesign, table: I32) -> I32:
    """Return the row over most scale-up domains."""
    counts = [len(Communicator.from_fabric(built.fabric, row).domain_sizes) for row in table]
    return np.asarray(table[int(np.argmax(counts))], dtype=np.int32)


def _curve(built: BuiltDesign, nodes: I32, op: Collective, engine: str) -> TimeCurve:
    if len(nodes) < 2:
        return _FREE
    system = system_of(built, nodes)
    part = network_part(built, nodes, engine=engine) if system.domains > 1 else None
    times = collective_times_s(system, op, np.array(_SIZES), network=part)
    return TimeCurve(_SIZES, tuple(float(time) for time in times))


@dataclass(frozen=True)
class PassClock:
    """Times of forward passes of one instance on one kind of GPU."""

    plan: InferencePlan
    gpu: Gpu
    exchanges: Exchanges

    @cached_property
    def _bandwidth(self) -> float:
        return float(self.gpu.hbm_bandwidth_Bps) * MEMORY_EFFICIENCY

    @cached_property
    def _rate(self) -> float:
        precision = self.plan.precision
        return peak_flops(self.gpu, precision) * gemm_efficiency(self.gpu, precision)

    @cached_property
    def _weights(self) -> tuple[float, float]:
        return weights_of(self.plan)

    @cached_property
    def _dense_read(self) -> float:
        """Dense weights of a rank that a pass multiplies by: not the table of the look-up."""
        shape = self.plan.shape
        looked_up = 0 if shape.tied_embeddings else shape.vocabulary * shape.hidden
        looked_up += shape.sequence * shape.hidden if shape.learned_positions else 0
        return self._weights[0] - looked_up / self.plan.tensor

    def exchange_s(self, tokens: float) -> tuple[float, float]:
        """Return the time of a pass's (tensor, expert) exchanges over so many tokens a replica."""
        plan, shape = self.plan, self.plan.shape
        tensor = plan.reductions * self.exchanges.tensor.time_s(2.0 * tokens * shape.hidden)
        if plan.expert == 1:
            return tensor, 0.0
        # the hottest rank's bytes set the pace: as if every pair sent so much
        routed = tokens / plan.tensor * shape.top_k * shape.hidden * plan.skew
        there = self.exchanges.expert.time_s(routed * element_bytes(plan.dispatch))
        back = self.exchanges.expert.time_s(routed * 2)
        return tensor, plan.sparse_layers * (there + back)

    def decode(self, sequences: int, context_tokens: float, total: int | None = None) -> PassTime:
        """Return a decode step of so many sequences on the fullest replica, contexts summed.

        ``total``: sequences of all replicas; default: each has as many.
        """
        plan, shape = self.plan, self.plan.shape
        tokens = sequences * plan.replicas if total is None else total
        dense, routed = self._dense_read, self._weights[1]
        touched = 1 - (1 - shape.top_k / shape.experts) ** tokens if shape.experts > 1 else 1.0
        size = element_bytes(plan.precision)
        passed = routed * shape.top_k / shape.experts * plan.skew * tokens  # of a rank's experts
        width = shape.kv_latent or shape.width_per_head
        scores = 4.0 * context_tokens * shape.layers * shape.heads / plan.tensor * width
        tensor, expert = self.exchange_s(sequences)
        return PassTime(
            weights_s=size * (dense + routed * touched) / self._bandwidth,
            cache_s=context_tokens * kv_rank_bytes_per_token(plan) / self._bandwidth,
            arithmetic_s=2.0 * (sequences * dense + passed) / self._rate
            + scores / (self._rate * ATTENTION_EFFICIENCY),
            tensor_s=tensor,
            expert_s=expert,
        )

    def prefill(self, tokens: int, share: float = 1.0) -> PassTime:
        """Return a prefill of one prompt of so many tokens a replica.

        ``share``: tokens of all replicas, where some have fewer or none, over as many on each.
        """
        plan, shape = self.plan, self.plan.shape
        d = plan.replicas
        training = TrainingPlan(
            shape,
            Degrees(plan.tensor, d, 1, d),
            sequence=tokens,
            recompute=Recompute.NONE,
            sequence_parallel=plan.tensor > 1,
            precision=plan.precision,
        )
        sparse = plan.sparse_layers
        seconds = (shape.layers - sparse) * layer_time(training, self.gpu, sparse=False).forward_s
        if sparse:
            work = layer_time(training, self.gpu, sparse=True)
            # experts' weights are read once, however few the tokens; the rest goes with the tokens
            read = 2 * self._weights[1] / self._bandwidth
            with_tokens = sparse * work.expert_forward_s - read
            seconds += sparse * work.forward_s + with_tokens * (plan.skew * share - 1)
        head = shape.vocabulary * shape.hidden / plan.tensor
        seconds += 2 * head / self._bandwidth
        tensor, expert = self.exchange_s(tokens)
        return PassTime(0.0, 0.0, seconds, tensor, expert)

    def slower(self, factor: float) -> PassClock:
        """Return the clock with exchanges that take so many times as long."""
        if factor == 1:
            return self
        curves = [
            TimeCurve(curve.sizes_bytes, tuple(time * factor for time in curve.times_s))
            for curve in (self.exchanges.tensor, self.exchanges.expert)
        ]
        return replace(self, exchanges=Exchanges(*curves))
