"""The pieces of a training step: what every virtual stage computes and waits for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from railweave.catalog import Gpu
from railweave.design.models import Collective, Recompute
from railweave.predict._schedule import StageTimes
from railweave.predict._training_types import F64, TrainingPlan
from railweave.predict.compute import LayerTime, head_time, layer_time, optimizer_time
from railweave.predict.training_costs import CommunicationCosts
from railweave.predict.transformer import ELEMENT_BYTES, parts_of
from railweave.workload._stages import StageWeights, stage_weights
from railweave.workload.groups import GroupKind
from railweave.workload.training import StageParts

__all__ = ["StepParts"]

_FULL_SHARDING = 3
_SHARDED_GRADIENTS = 2


@dataclass(frozen=True, eq=False)
class StepParts:
    """Sizes and times of a plan on a GPU; arrays are by virtual stage, (P·V,), a micro-batch.

    ``skew``: load of the most loaded expert rank over the mean.
    """

    plan: TrainingPlan
    gpu: Gpu
    costs: CommunicationCosts
    skew: float = 1.0

    # ------------------------------------------------------------ sizes

    @cached_property
    def parts(self) -> StageParts:
        """Layers by virtual stage."""
        return parts_of(self.plan)

    @cached_property
    def weights(self) -> StageWeights:
        """Weights by virtual stage."""
        return stage_weights(self.plan.shape, self.parts)

    def _layers(self, dense: float, sparse: float) -> F64:
        """Sum what a dense and a mixture layer have over the layers of every virtual stage."""
        total: F64 = self.parts.dense * float(dense) + self.parts.sparse * float(sparse)
        return total

    @property
    def tokens(self) -> float:
        """Tokens of a micro-batch on one context rank."""
        plan = self.plan
        return plan.micro_batch * plan.tokens_of_sequence / plan.degrees.context

    @property
    def activation(self) -> float:
        """Bytes of a layer's input, whole: what tensor ranks reduce or gather."""
        return ELEMENT_BYTES * self.tokens * self.plan.shape.hidden

    @property
    def hand_over(self) -> float:
        """Bytes that a rank hands to the next stage: its share of the layer's output."""
        return self.activation / self.plan.degrees.tensor

    @property
    def keys_and_values(self) -> float:
        """Bytes of keys and values of all context ranks for one layer, as all-gather counts."""
        shape, degrees = self.plan.shape, self.plan.degrees
        local = 2 * ELEMENT_BYTES * self.tokens * shape.kv_heads * shape.width_per_head
        return local / degrees.tensor * degrees.context

    @property
    def routed(self) -> float:
        """Bytes that a rank sends its tokens' experts, its own included."""
        return self.activation / self.plan.degrees.tensor * self.plan.shape.top_k

    @cached_property
    def dense_held(self) -> F64:
        """Dense weights one rank holds before ZeRO."""
        held: F64 = self.weights.dense / self.plan.degrees.tensor
        return held

    @cached_property
    def expert_held(self) -> F64:
        """Experts' weights one rank holds before ZeRO."""
        held: F64 = self.weights.expert / (self.plan.degrees.tensor * self.plan.degrees.expert)
        return held

    # ------------------------------------------------------------ arithmetic

    @cached_property
    def dense(self) -> LayerTime:
        """Arithmetic of a dense layer."""
        return layer_time(self.plan, self.gpu, sparse=False)

    @cached_property
    def sparse(self) -> LayerTime:
        """Arithmetic of a mixture layer, at the mean load of its experts."""
        return layer_time(self.plan, self.gpu, sparse=True) if self.mixture else self.dense

    @property
    def mixture(self) -> bool:
        """Whether the model has experts."""
        return self.plan.shape.experts > 1

    @cached_property
    def head(self) -> tuple[float, float, float]:
        """Forward, backward, FLOPs of the head."""
        return head_time(self.plan, self.gpu)

    @cached_property
    def compute_forward(self) -> F64:
        """Arithmetic forward."""
        total = self._layers(self.dense.forward_s, self.sparse.forward_s)
        total[-1] += self.head[0]
        return total

    @cached_property
    def compute_backward(self) -> F64:
        """Arithmetic backward, what is recomputed included."""
        total = self._layers(self.dense.backward_s, self.sparse.backward_s)
        total[-1] += self.head[1]
        return total

    @property
    def executed_flops(self) -> float:
        """FLOPs of one replica's step on all its ranks, recomputation included."""
        plan, parts = self.plan, self.parts
        layers = self.dense.flops * parts.dense.sum() + self.sparse.flops * parts.sparse.sum()
        ranks = plan.degrees.tensor * plan.degrees.context
        return float(layers + self.head[2]) * ranks * plan.micro_batches

    @cached_property
    def overload(self) -> tuple[F64, F64]:
        """What the most loaded expert rank computes more than the mean: (forward, backward)."""
        more = self.skew - 1
        return (
            self._layers(0.0, more * self.sparse.expert_forward_s),
            self._layers(0.0, more * self.sparse.expert_backward_s),
        )

    # ------------------------------------------------------------ waiting inside a pass

    def _time(self, kind: GroupKind, op: Collective, size: float) -> float:
        return self.costs.time_s(kind, op, size)

    @cached_property
    def tensor_pass(self) -> float:
        """Wait of a layer's tensor ranks in one pass, forward or backward."""
        size = self.activation
        if self.plan.degrees.tensor == 1:
            return 0.0
        if not self.plan.sequence_parallel:
            return 2 * self._time("tensor", Collective.ALL_REDUCE, size)
        gather = self._time("tensor", Collective.ALL_GATHER, size)
        return 2 * (gather + self._time("tensor", Collective.REDUCE_SCATTER, size))

    @cached_property
    def regather(self) -> float:
        """Gathering a layer's two inputs again for the weights' gradients (sequence parallel)."""
        if self.plan.degrees.tensor == 1 or not self.plan.sequence_parallel:
            return 0.0
        return 2 * self._time("tensor", Collective.ALL_GATHER, self.activation)

    @cached_property
    def expert_pass(self) -> float:
        """Dispatch and combine of a mixture layer in one pass."""
        if self.plan.degrees.expert == 1:
            return 0.0
        return 2 * self._time("expert", Collective.ALL_TO_ALL, self.routed * self.skew)

    @cached_property
    def context_times(self) -> tuple[float, float]:
        """Time of a layer's context exchange: (forward, backward)."""
        if self.plan.degrees.context == 1:
            return 0.0, 0.0
        gather = self._time("context", Collective.ALL_GATHER, self.keys_and_values)
        scatter = self._time("context", Collective.REDUCE_SCATTER, self.keys_and_values)
        again = gather if self.plan.recompute is Recompute.FULL else 0.0
        return gather, gather + scatter + again

    @property
    def again(self) -> int:
        """Forward passes that the backward one makes once more."""
        return 1 if self.plan.recompute is Recompute.FULL else 0

    @cached_property
    def tensor_wait(self) -> tuple[F64, F64]:
        """Exposed tensor communication: (forward, backward); embedding and head included."""
        backward = self.tensor_pass * (1 + self.again)
        hidden = self.dense.backward_s / 3  # beside the weights' half of the backward products
        backward += max(self.regather - hidden, 0.0)
        waits = (
            self._layers(self.tensor_pass, self.tensor_pass),
            self._layers(backward, backward),
        )
        edge = self.tensor_pass / 2
        if self.plan.sequence_parallel:
            edge /= 2  # one gather or scatter, which take as long
        for wait in waits:
            wait[0] += edge
            wait[-1] += edge
        return waits

    @cached_property
    def expert_wait(self) -> tuple[F64, F64]:
        """Exposed expert communication: (forward, backward)."""
        one = self.expert_pass
        return (
            self._layers(0.0, one),
            self._layers(0.0, one * (1 + self.again)),
        )

    @cached_property
    def context_wait(self) -> tuple[F64, F64]:
        """Exposed context communication, the rest hidden behind the scores of other parts."""
        forward, backward = self.context_times
        ahead = max(forward - self.dense.attention_forward_s, 0.0)
        back = max(backward - self.dense.attention_backward_s, 0.0)
        return (
            self._layers(ahead, ahead),
            self._layers(back, back),
        )

    # ------------------------------------------------------------ data ranks

    def data_time(self, op: Collective, bytes_each: int) -> F64:
        """Return the time of an operation on all weights of a virtual stage, layer by layer."""
        layers = np.maximum(self.parts.layers, 1)
        out = np.zeros(self.parts.count)
        for stage, count in enumerate(layers.tolist()):
            dense = bytes_each * float(self.dense_held[stage]) / count
            expert = bytes_each * float(self.expert_held[stage]) / count
            out[stage] = count * (
                self._time("data", op, dense) + self._time("expert-data", op, expert)
            )
        return out

    @cached_property
    def gather_weights(self) -> F64:
        """Gathering a virtual stage's weights from their shards."""
        if self.plan.zero == 0:
            return np.zeros(self.parts.count)
        return self.data_time(Collective.ALL_GATHER, ELEMENT_BYTES)

    @property
    def first_gather(self) -> F64:
        """Gathering the weights of a virtual stage's first layer."""
        first: F64 = self.gather_weights / np.maximum(self.parts.layers, 1)
        return first

    @cached_property
    def reduce_gradients(self) -> F64:
        """Reducing a virtual stage's gradients, to all or to their shards."""
        op = Collective.REDUCE_SCATTER if self.plan.zero else Collective.ALL_REDUCE
        return self.data_time(op, self.plan.gradient_bytes)

    @cached_property
    def data_wait(self) -> tuple[F64, F64]:
        """Exposed inside passes: what ZeRO 2 and 3 send in every micro-batch and nothing hides."""
        none = np.zeros(self.parts.count)
        if self.plan.zero < _SHARDED_GRADIENTS:
            return none, none
        forward = self.compute_forward + self.tensor_wait[0] + self.expert_wait[0]
        backward = self.compute_backward + self.tensor_wait[1] + self.expert_wait[1]
        full = self.plan.zero == _FULL_SHARDING
        gather = self.gather_weights if full else none
        return (
            np.maximum(gather - forward, 0.0),
            np.maximum(gather + self.reduce_gradients - backward, 0.0),
        )

    # ------------------------------------------------------------ the schedule's input

    def stage_times(self) -> StageTimes:
        """Return durations by virtual stage for the schedule."""
        ways = []
        for way, compute in enumerate((self.compute_forward, self.compute_backward)):
            ways.append(
                compute
                + self.overload[way]
                + self.tensor_wait[way]
                + self.expert_wait[way]
                + self.context_wait[way]
                + self.data_wait[way]
            )
        plan, parts = self.plan, self.parts
        gate = np.zeros(parts.count)
        if plan.zero in (1, _SHARDED_GRADIENTS):
            each = self.gather_weights.reshape(plan.interleave, -1)
            gate = np.cumsum(each, axis=0).ravel()
        elif plan.zero == _FULL_SHARDING:  # the pass hides all but the first layer's
            first = self.first_gather + ways[0] * (1 - 1 / np.maximum(parts.layers, 1))
            stages = slice(plan.degrees.pipeline)
            gate[stages] = np.where(self.first_gather > 0, first, 0.0)[stages]
        return StageTimes(
            forward_s=ways[0],
            backward_s=ways[1],
            hop_s=np.array(self.costs.hops_s(self.hand_over)),
            gate_s=gate,
            reduce_s=self.reduce_gradients,
            layers=parts.layers,
            tail_s=self.optimizer(),
        )

    def optimizer(self) -> F64:
        """Return the optimiser's time on each pipeline rank, (P,)."""
        degrees = self.plan.degrees
        dense, expert = self.parts.by_rank(self.dense_held), self.parts.by_rank(self.expert_held)
        if self.plan.zero:
            dense = dense / degrees.replicas
            expert = expert * degrees.expert / degrees.replicas
        return np.array([optimizer_time(self.gpu, float(each)) for each in dense + expert])
