"""How a model is served by one instance, and the bytes that follow from its shape."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from railweave.catalog import ModelShape
from railweave.design.models import Precision
from railweave.errors import InputError
from railweave.provenance import Assumption
from railweave.workload._stages import stage_parts

__all__ = [
    "ForwardVolume",
    "InferencePlan",
    "element_bytes",
    "expert_shares",
    "forward_volume",
    "inference_assumptions",
    "kv_bytes_per_token",
    "kv_rank_bytes_per_token",
    "kv_transfer_bytes",
]

F64 = npt.NDArray[np.float64]


def element_bytes(precision: Precision) -> int:
    """Return the bytes of one number."""
    return 1 if precision is Precision.FP8 else 2


def _nearest(value: int, allowed: list[int]) -> int:
    """Return the nearest allowed number, the lower of two."""
    return min(allowed, key=lambda each: (abs(each - value), each))


def _divisors(n: int) -> list[int]:
    return [k for k in range(1, n + 1) if n % k == 0]


@dataclass(frozen=True, slots=True)
class InferencePlan:
    """One instance of a served model: the ranks that answer a request together.

    With an ``expert`` degree above 1 all ranks of the instance hold whole experts, and its
    attention is repeated in ``replicas`` = expert / tensor groups of ``tensor`` ranks, each with
    requests of its own. Rank = tensor rank + tensor × replica.

    Args:
        shape: of the model.
        tensor: ranks that share a layer's attention and dense blocks.
        expert: ranks that the experts are spread over; 1: each is cut over the tensor ranks.
        precision: of the weights and the matrix products.
        kv_precision: of the KV cache.
        dispatch: of what is sent to experts; what comes back is BF16.
        skew: tokens that the most popular expert rank gets, over its fair share.

    Raises:
        InputError: degrees that do not divide the model; the text names the nearest that do.
    """

    shape: ModelShape
    tensor: int = 1
    expert: int = 1
    precision: Precision = Precision.BF16
    kv_precision: Precision = Precision.BF16
    dispatch: Precision = Precision.BF16
    skew: float = 1.0

    def __post_init__(self) -> None:
        self._check_tensor()
        self._check_expert()
        if not 1 <= self.skew <= self.expert:
            raise InputError(
                f"skew: {self.skew:g} is not allowed; allowed: 1 (even) to {self.expert}, the "
                "expert degree, where one rank gets every token"
            )

    def _check_tensor(self) -> None:
        heads, kv = self.shape.heads, self.shape.kv_heads
        fits = [
            t
            for t in _divisors(heads)
            if self.shape.kv_latent is not None or kv % t == 0 or t % kv == 0
        ]
        if self.tensor not in fits:
            raise InputError(
                f"tensor: {self.tensor} ranks do not divide the {heads} heads and {kv} KV heads of "
                f"{self.shape.name}; allowed: {', '.join(map(str, fits))}; nearest: "
                f"{_nearest(self.tensor, fits)}"
            )

    def _check_expert(self) -> None:
        experts, name = self.shape.experts, self.shape.name
        if self.expert == 1:
            return
        if experts == 1:
            raise InputError(
                f"expert: {name} has no experts to spread over {self.expert} ranks; allowed: 1"
            )
        fits = [1, *(e for e in _divisors(experts) if e > 1 and e % self.tensor == 0)]
        if self.expert not in fits:
            raise InputError(
                f"expert: {self.expert} ranks; allowed: multiples of the tensor degree "
                f"{self.tensor} that divide the {experts} experts of {name}: "
                f"{', '.join(map(str, fits))}; nearest: {_nearest(self.expert, fits)}"
            )

    @property
    def gpus(self) -> int:
        """Ranks of an instance."""
        return max(self.tensor, self.expert)

    @property
    def replicas(self) -> int:
        """Groups of tensor ranks in an instance, each with its own requests."""
        return self.gpus // self.tensor

    @property
    def sparse_layers(self) -> int:
        """Layers with experts."""
        return int(stage_parts(self.shape, 1).sparse[0])

    @property
    def reductions(self) -> int:
        """Tensor-parallel all-reduces of a forward pass.

        Two a layer. Where experts are spread over ranks a mixture layer has one, as reduce-scatter
        and all-gather: the sum over its experts travels with what they send back.
        """
        shared = self.sparse_layers if self.expert > 1 else 0
        return 2 * self.shape.layers - shared

    def describe(self) -> str:
        """Say it in a line."""
        text = f"TP {self.tensor}" + (f" · EP {self.expert}" if self.expert > 1 else "")
        return f"{text} · {self.precision.value}"


def expert_shares(expert: int, skew: float = 1.0) -> F64:
    """Return the share of all routed tokens that each expert rank gets, (E,), the hottest first.

    The hottest gets ``skew`` times its fair share, the others what is left, evenly.
    """
    if expert == 1:
        return np.ones(1)
    shares = np.full(expert, (1 - skew / expert) / (expert - 1))
    shares[0] = skew / expert
    never_less: F64 = np.maximum(shares, 0.0)
    return never_less


@dataclass(frozen=True, eq=False)
class ForwardVolume:
    """Bytes of one forward pass of an instance, the same for each of its sending ranks.

    ``tensor_bytes``: from a rank to its ring neighbour. ``dispatch_bytes``: from a rank to each
    expert rank, (E,); ``combine_bytes``: back from each, (E,). A rank's own are no traffic.
    """

    tensor_bytes: float
    dispatch_bytes: F64
    combine_bytes: F64

    @property
    def expert_total_bytes(self) -> float:
        """What all ranks of the instance send to experts and back."""
        n = len(self.dispatch_bytes)
        return float((n - 1) * (self.dispatch_bytes.sum() + self.combine_bytes.sum()))


def forward_volume(plan: InferencePlan, tokens: float) -> ForwardVolume:
    """Return the bytes of a forward pass over so many tokens a replica.

    With n tokens, hidden size h, t tensor ranks and A = 2·n·h bytes: each all-reduce as a ring
    moves 2·(t−1)/t·A from a rank; a mixture layer dispatches n/t·top_k·h elements a rank, divided
    among the expert ranks, and gets as many back in BF16. A token is sent once for each expert.
    """
    shape, t, e = plan.shape, plan.tensor, plan.expert
    activations = 2.0 * tokens * shape.hidden
    routed = plan.sparse_layers * tokens / t * shape.top_k * shape.hidden if e > 1 else 0.0
    shares = expert_shares(e, plan.skew)
    return ForwardVolume(
        tensor_bytes=plan.reductions * 2 * (t - 1) / t * activations,
        dispatch_bytes=routed * element_bytes(plan.dispatch) * shares,
        combine_bytes=routed * 2 * shares,
    )


def kv_bytes_per_token(plan: InferencePlan) -> float:
    """Return what the KV cache holds of a token: 2·layers·KV heads·head width, or the latent."""
    shape = plan.shape
    a_layer = shape.kv_latent or 2 * shape.kv_heads * shape.width_per_head
    return float(shape.layers * a_layer * element_bytes(plan.kv_precision))


def kv_rank_bytes_per_token(plan: InferencePlan) -> float:
    """Return what one tensor rank caches of a token.

    KV heads are divided among the ranks, and repeated where there are more ranks than heads; a
    latent cache is whole on every rank.
    """
    whole = kv_bytes_per_token(plan)
    if plan.shape.kv_latent is not None:
        return whole
    return whole / min(plan.tensor, plan.shape.kv_heads)


def kv_transfer_bytes(decode: InferencePlan, prompt_tokens: float) -> float:
    """Return what a prompt's cache brings into the network: all that its decode ranks hold."""
    return prompt_tokens * decode.tensor * kv_rank_bytes_per_token(decode)


def inference_assumptions(plan: InferencePlan) -> tuple[Assumption, ...]:
    """Return what the traffic of an instance rests on."""
    said = [
        Assumption(
            "layers",
            "folded into equal chunks of one exchange (bytes are exact; the latency of the single "
            "messages is not counted in the engines); the embedding's and the sampling's exchange "
            "are left out",
        ),
        Assumption(
            "KV cache",
            "sent once, after the prompt's last layer, over the network, from tensor rank to "
            "tensor rank; no prefix is shared between requests",
        ),
    ]
    if plan.shape.attention_parameters and plan.shape.kv_latent is None:
        said.append(
            Assumption(
                "KV cache size",
                f"{plan.shape.name} names no kv_latent: keys and values of all its KV heads",
            )
        )
    if plan.expert > 1:
        uneven = "evenly"
        if plan.skew > 1:
            uneven = f"evenly, but {plan.skew:g} times the fair share to one rank"
        said.append(
            Assumption(
                "experts",
                f"tokens are routed {uneven}, each sent once for each of its {plan.shape.top_k} "
                f"experts, in {plan.dispatch.value}, and back in bf16; a rank's experts answer "
                "each sender as its tokens arrive",
            )
        )
    if math.gcd(plan.tensor, plan.shape.kv_heads) < plan.tensor and not plan.shape.kv_latent:
        said.append(Assumption("KV heads", "repeated: there are more tensor ranks than KV heads"))
    return tuple(said)
