"""Serving a model with prefill and decode on GPUs of their own: TTFT, TPOT, the network's part.

1. Requests arrive (Poisson) and wait for a prefill instance, first come, first served.
2. Their KV caches go to the decode instances over the design's fabric, in an engine, beside the
   exchanges of the instances that span several scale-up domains.
3. They join their decode instance's batch (continuous batching) and are decoded step by step.

A pass takes its arithmetic and its exchanges one after the other
(:mod:`railweave.predict._serving_clock`). Everything follows from the seed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from railweave.engine.choice import EngineChoice
from railweave.engine.result import Explanation
from railweave.predict._serving_clock import PassClock, exchanges_on
from railweave.predict._serving_memory import require_pools, require_room
from railweave.predict._serving_network import Pool, TransferTimes, transfer_times
from railweave.predict._serving_queues import (
    Activity,
    DecodeRun,
    PrefillRun,
    decode_queue,
    prefill_queue,
)
from railweave.predict._serving_types import (
    InstanceMemory,
    PassTime,
    Percentiles,
    PoolUse,
    RequestTimes,
    ServingEstimate,
    ServingQuestion,
)
from railweave.predict.compute import COMPUTE_ASSUMPTIONS, require_precision
from railweave.predict.plan_cluster import cluster_of_design
from railweave.provenance import Assumption, Certainty
from railweave.units import counted
from railweave.workload.inference import (
    InferencePlan,
    KvTransfers,
    Requests,
    draw_requests,
    inference_assumptions,
    kv_rank_bytes_per_token,
    kv_transfer_bytes,
)

if TYPE_CHECKING:
    from railweave.api import BuiltDesign
    from railweave.catalog import Gpu

__all__ = [
    "SERVING_ASSUMPTIONS",
    "PassClock",
    "PassTime",
    "Percentiles",
    "PoolUse",
    "RequestTimes",
    "ServingEstimate",
    "ServingQuestion",
    "estimate_serving",
]

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]
Progress = Callable[[str, float], None]

SERVING_ASSUMPTIONS: Final = (
    Assumption(
        "time to first token",
        "from arrival until the prompt's cache is where it is decoded; time per output token from "
        "there to the last token, the wait for room in the batch included",
    ),
    Assumption(
        "prefill",
        "one prompt a replica at a time, whole (no chunks), first come, first served; the prompts "
        "of an instance's replicas run together, as long as the longest",
    ),
    Assumption(
        "decode",
        "continuous batching; requests go to replicas in turn; exchanges and arithmetic follow "
        "each other; one token a step (no speculation); the activations' way through the memory "
        "is not counted",
        Certainty.ESTIMATED,
    ),
    Assumption(
        "exchanges",
        "timed by the collective library's model, its general all-to-all for experts: kernels made "
        "for small dispatches are faster",
        Certainty.ESTIMATED,
    ),
    Assumption(
        "prefill's exchanges",
        "are not slowed by the caches; decode's are, by what the engine finds",
    ),
)


def _silent(step: str, fraction: float) -> None:
    """Report progress to nobody."""


def estimate_serving(
    built: BuiltDesign,
    question: ServingQuestion,
    choice: EngineChoice | None = None,
    progress: Progress = _silent,
) -> ServingEstimate:
    """Return what serving these requests takes on a design's GPUs.

    The prefill pool stands on the design's first GPUs, the decode pool on those after it.

    Args:
        built: a built design; its failures count.
        question: the pools and the requests.
        choice: engine that times the caches' transfers; default: flow.
        progress: called with a step and the fraction done.

    Raises:
        InputError: pools that do not fit the design, the model or the memory; the text names the
            nearest that would.
        EngineError: GPUs that cannot reach each other.
    """
    engine = choice or EngineChoice("flow")
    require_pools(question, len(built.fabric.gpus))
    cluster = cluster_of_design(built, question.prefill_gpus + question.decode_gpus)
    for each in (question.prefill, question.decode):
        require_precision(cluster.gpu, each.precision)
    requests = draw_requests(question.load)
    memory = require_room(question, requests, cluster.gpu)
    nodes = np.asarray(cluster.nodes, dtype=np.int32)
    first, second = nodes[: question.prefill_gpus], nodes[question.prefill_gpus :]
    progress("exchanges", 0.0)
    prefill = _Side(built, question.prefill, first, cluster.gpu, engine.name)
    decode = _Side(built, question.decode, second, cluster.gpu, engine.name)
    progress("prefill", 0.2)
    read = prefill_queue(requests, prefill.clock, prefill.instances)
    moved = _moved(
        built,
        question,
        (prefill, decode),
        read=read,
        requests=requests,
        engine=engine,
        progress=progress,
    )
    progress("decode", 0.9)
    slowed = decode.clock.slower(moved.stretch)
    run = decode.decode(requests, read.done_s + moved.kv_s, slowed, question.batch)
    times = _request_times(requests, read, run, moved.kv_s, moved.alone_s)
    uses = (
        _prefill_use(question, requests, prefill, memory[0], read),
        _decode_use(question, requests, decode, memory[1], run, clock=slowed),
    )
    return _estimate(question, times, uses, mean_batch=run.mean_batch, moved=moved, engine=engine)


class _Side:
    """One pool on its GPUs: instances, their clock, and which of them decodes a request."""

    def __init__(
        self, built: BuiltDesign, plan: InferencePlan, nodes: I32, gpu: Gpu, engine: str
    ) -> None:
        self.plan = plan
        self.table = nodes.reshape(-1, plan.gpus)
        self.instances = len(self.table)
        by = "analytic" if engine == "analytic" else "flow"
        self.clock = PassClock(plan, gpu, exchanges_on(built, plan, self.table, engine=by))

    def slots(self, count: int) -> tuple[I64, I64]:
        """Return (instance, replica) of requests in turn, (count,) each."""
        slots = np.arange(count) % (self.instances * self.plan.replicas)
        return slots % self.instances, slots // self.instances

    def ranks(self, instance: I64, replica: I64) -> I32:
        """Return the GPU nodes of the tensor ranks that hold each request, (N, tensor)."""
        groups = self.table.reshape(self.instances, -1, self.plan.tensor)
        return np.asarray(groups[instance, replica], dtype=np.int32)

    def decode(self, requests: Requests, ready_s: F64, clock: PassClock, batch: int) -> DecodeRun:
        """Decode requests whose caches are there at ``ready_s``."""
        instance, replica = self.slots(requests.count)
        return decode_queue(
            requests,
            ready_s,
            clock,
            instance=instance,
            replica=replica,
            instances=self.instances,
            batch=batch,
        )


def _moved(
    built: BuiltDesign,
    question: ServingQuestion,
    sides: tuple[_Side, _Side],
    *,
    read: PrefillRun,
    requests: Requests,
    engine: EngineChoice,
    progress: Progress,
) -> TransferTimes:
    """Send the caches over the fabric, beside decoding as it would be with free transfers."""
    prefill, decode = sides
    sketch = decode.decode(requests, read.done_s, decode.clock, question.batch)
    pools = (
        Pool("prefill", prefill.plan, prefill.table, read.activity),
        Pool("decode", decode.plan, decode.table, sketch.activity),
    )
    transfers = KvTransfers(
        prefill.ranks(read.instance, read.replica),
        decode.ranks(*decode.slots(requests.count)),
        requests.prompt_tokens,
        read.done_s,
    )
    return transfer_times(built, transfers, pools, engine, progress)


def _request_times(
    requests: Requests, prefill: PrefillRun, run: DecodeRun, kv_s: F64, alone_s: F64
) -> RequestTimes:
    there = prefill.done_s + kv_s
    more = requests.output_tokens - 1
    per_token = np.where(more > 0, (run.finish_s - there) / np.maximum(more, 1), np.nan)
    return RequestTimes(
        arrival_s=requests.arrival_s,
        wait_s=prefill.start_s - requests.arrival_s,
        prefill_s=prefill.done_s - prefill.start_s,
        kv_s=kv_s,
        kv_alone_s=alone_s,
        admission_s=run.admitted_s - there,
        finish_s=run.finish_s,
        per_token_s=per_token,
        prompt_tokens=requests.prompt_tokens,
        output_tokens=requests.output_tokens,
    )


def _prefill_use(
    question: ServingQuestion,
    requests: Requests,
    side: _Side,
    memory: InstanceMemory,
    run: PrefillRun,
) -> PoolUse:
    clock, instances = side.clock, side.instances
    mean = round(float(requests.prompt_tokens.mean()))
    drawn, many = np.unique(requests.prompt_tokens, return_counts=True)
    # with several replicas an instance is busy as long as the longest of its prompts
    alike = clock.plan.replicas == 1
    each = [clock.prefill(int(tokens)).total_s for tokens in drawn] if alike else [0.0]
    busy = float(np.average(each, weights=many)) if alike else clock.prefill(mean).total_s
    most = instances * clock.plan.replicas / busy
    return PoolUse(
        name="prefill",
        plan=clock.plan,
        instances=instances,
        memory=memory,
        load=question.load.rate_per_s / most,
        most_per_s=most,
        passes=sum(did.passes for did in run.activity),
        typical=clock.prefill(mean),
        typical_text=f"a prompt of {mean:,} tokens"
        + (f" on each of {clock.plan.replicas} replicas" if clock.plan.replicas > 1 else ""),
        communication=_communication(run.activity),
    )


def _decode_use(
    question: ServingQuestion,
    requests: Requests,
    side: _Side,
    memory: InstanceMemory,
    run: DecodeRun,
    *,
    clock: PassClock,
) -> PoolUse:
    instances = side.instances
    outputs = float(requests.output_tokens.mean())
    context = float((requests.prompt_tokens + requests.output_tokens / 2).mean())
    each = question.batch // clock.plan.replicas
    full = clock.decode(each, each * context).total_s
    most = instances * question.batch / (full * max(outputs - 1, 1))
    total = max(round(run.mean_batch), 1)
    typical = -(-total // clock.plan.replicas)
    return PoolUse(
        name="decode",
        plan=clock.plan,
        instances=instances,
        memory=memory,
        load=question.load.rate_per_s / most,
        most_per_s=most,
        passes=sum(did.passes for did in run.activity),
        typical=clock.decode(typical, typical * context, total),
        typical_text=f"a step of {counted(total, 'sequence')}, {context:,.0f} tokens "
        "of context each",
        communication=_communication(run.activity),
    )


def _communication(activity: tuple[Activity, ...]) -> float:
    """Return the share of the passes' time that exchanges take."""
    spent = sum(did.communication_s for did in activity)
    total = spent + sum(did.compute_s for did in activity)
    return float(spent / total) if total else 0.0


def _estimate(
    question: ServingQuestion,
    times: RequestTimes,
    uses: tuple[PoolUse, PoolUse],
    *,
    mean_batch: float,
    moved: TransferTimes,
    engine: EngineChoice,
) -> ServingEstimate:
    said = (
        *SERVING_ASSUMPTIONS,
        *inference_assumptions(question.prefill),
        *inference_assumptions(question.decode),
        *COMPUTE_ASSUMPTIONS,
        *moved.assumptions,
    )
    per_token = times.per_token_s[np.isfinite(times.per_token_s)]
    first = times.first_token_s
    span = float(times.finish_s.max() - times.arrival_s.min())
    return ServingEstimate(
        question=question,
        times=times,
        first_token=Percentiles.of(first),
        per_token=Percentiles.of(per_token),
        kv=Percentiles.of(times.kv_s),
        prefill=uses[0],
        decode=uses[1],
        kv_share=float((times.kv_s / first).mean()),
        communication_share=uses[1].communication,
        kv_slowdown=float((times.kv_s / times.kv_alone_s).mean()),
        stretch=moved.stretch,
        tokens_per_s=float(times.output_tokens.sum()) / span,
        mean_batch=mean_batch,
        kv_bytes=kv_transfer_bytes(question.decode, float(times.prompt_tokens.sum())),
        engine=engine.name,
        notes=_notes(question, uses),
        assumptions=tuple(dict.fromkeys(said)),
        explanations=_explanations(question, times, uses),
    )


def _notes(question: ServingQuestion, uses: tuple[PoolUse, PoolUse]) -> tuple[str, ...]:
    """Say which pool cannot keep up."""
    return tuple(
        f"The {use.name} pool cannot keep up: {question.load.rate_per_s:g} requests/s are offered "
        f"and it carries about {use.most_per_s:.3g}; its queue grows as long as they come, and the "
        f"percentiles with it. Give it more GPUs, or a rate below {use.most_per_s:.3g}."
        for use in uses
        if use.load >= 1
    )


def _explanations(
    question: ServingQuestion, times: RequestTimes, uses: tuple[PoolUse, PoolUse]
) -> tuple[Explanation, ...]:
    step = uses[1].typical
    tokens = float(times.prompt_tokens.mean())
    rank = kv_rank_bytes_per_token(question.decode)
    return (
        Explanation(
            "time to first token",
            float(times.first_token_s.mean()),
            "s",
            "wait for prefill + prefill + cache on the network, means",
            {
                "wait_s": float(times.wait_s.mean()),
                "prefill_s": float(times.prefill_s.mean()),
                "kv_s": float(times.kv_s.mean()),
            },
            "discrete simulation of the pools; engine for the transfers",
        ),
        Explanation(
            "decode step",
            step.total_s,
            "s",
            "weights + KV cache + arithmetic + tensor exchanges + expert exchanges",
            {
                "weights_s": step.weights_s,
                "cache_s": step.cache_s,
                "arithmetic_s": step.arithmetic_s,
                "tensor_s": step.tensor_s,
                "expert_s": step.expert_s,
            },
            uses[1].typical_text,
        ),
        Explanation(
            "KV cache of a prompt",
            kv_transfer_bytes(question.decode, tokens),
            "B",
            "tokens × tensor ranks × bytes a token and rank",
            {
                "tokens": tokens,
                "tensor": float(question.decode.tensor),
                "bytes_per_token_and_rank": rank,
            },
            "2·layers·KV heads·head width, or the latent",
        ),
    )
