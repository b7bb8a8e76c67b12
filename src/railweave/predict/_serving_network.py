"""Prompts' caches on the fabric, beside the exchanges of instances over several domains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from railweave.engine.choice import EngineChoice
from railweave.errors import InputError
from railweave.predict._serving_queues import Activity
from railweave.provenance import Assumption, Certainty
from railweave.workload import Communicator, Traffic, TrafficBuilder
from railweave.workload.inference import (
    InferencePlan,
    KvTransfers,
    append_forward,
    append_kv_transfers,
)

if TYPE_CHECKING:
    from railweave.api import BuiltDesign
    from railweave.fabric.routing import RoutingSet

__all__ = ["Pool", "TransferTimes", "serving_traffic", "transfer_times"]

I32 = npt.NDArray[np.int32]
F64 = npt.NDArray[np.float64]
Progress = Callable[[str, float], None]

#: chunks of one instance's exchanges that the packet engine is given, over all its streams
_MOST_CHUNKS: Final = 200_000
_MOST_ROUNDS: Final = 1 << 24
#: pairs of ranks that exchange experts' bytes; in larger groups a rank's peers are a sample
_MOST_PAIRS: Final = 64 * 63
#: packets that the packet engine is given, at most
_MOST_PACKETS: Final = 20e6
_PACKET_BYTES: Final = 4096


@dataclass(frozen=True, eq=False)
class Pool:
    """The instances of a pool: GPU nodes, (instances, plan.gpus), and what each did."""

    name: str
    plan: InferencePlan
    nodes: I32
    activity: tuple[Activity, ...]


@dataclass(frozen=True, eq=False)
class TransferTimes:
    """Time of each request's cache on the network, and alone on its path, (N,) each.

    ``stretch``: what exchanges of decode instances take beside the transfers, over without.
    """

    kv_s: F64
    alone_s: F64
    stretch: float
    assumptions: tuple[Assumption, ...]


def _over_network(built: BuiltDesign, pool: Pool) -> bool:
    """Tell whether an instance of the pool spans several scale-up domains."""
    if pool.plan.gpus < 2:
        return False
    return any(
        len(Communicator.from_fabric(built.fabric, row).domain_sizes) > 1 for row in pool.nodes
    )


def serving_traffic(
    built: BuiltDesign,
    transfers: KvTransfers,
    pools: Sequence[Pool],
    *,
    with_caches: bool = True,
    most_chunks: int | None = None,
) -> tuple[Traffic, range, dict[str, list[tuple[int, float]]]]:
    """Return the caches' transfers and the exchanges of pools that use the network, as traffic.

    Exchanges of an instance are all its passes, a chunk a layer, spread evenly over the time in
    which it made them; fewer chunks where ``most_chunks`` bounds them. The last pool's plan is the
    one that decodes.

    Returns:
        The traffic, the tasks of the transfers, and by pool (task, its own delays) of exchanges.
    """
    queue_pairs = built.design.planes.backend.routing.queue_pairs
    builder = TrafficBuilder()
    caches = range(0)
    if with_caches:
        caches = append_kv_transfers(builder, transfers, pools[-1].plan, queue_pairs=queue_pairs)
    tasks: dict[str, list[tuple[int, float]]] = {}
    for pool in pools:
        tasks[pool.name] = []
        if not _over_network(built, pool):
            continue
        for number, (row, did) in enumerate(zip(pool.nodes, pool.activity, strict=True)):
            if did.passes:
                exchange = _Exchange(f"{pool.name}-{number}", queue_pairs, most_chunks)
                tasks[pool.name].append(exchange.append(builder, pool.plan, row, did))
    return builder.build(check=False), caches, tasks


@dataclass(frozen=True, slots=True)
class _Exchange:
    """All passes of an instance as one task."""

    label: str
    queue_pairs: int
    most_chunks: int | None

    def append(
        self, builder: TrafficBuilder, plan: InferencePlan, nodes: I32, did: Activity
    ) -> tuple[int, float]:
        """Append it. Returns the task, and how long it waits in itself."""
        rounds = min(did.passes * plan.shape.layers, _MOST_ROUNDS)
        if self.most_chunks is not None:
            rounds = min(rounds, self.most_chunks // (plan.gpus + 2 * plan.expert * _shifts(plan)))
        idle = max(did.end_s - did.start_s - did.communication_s, 0.0)
        task = append_forward(
            builder,
            nodes,
            plan,
            did.tokens,
            label=self.label,
            times=did.passes,
            rounds=rounds,
            compute_s=idle,
            start_s=did.start_s,
            queue_pairs=self.queue_pairs,
            shifts=_shifts(plan),
        )
        return task, idle


def _shifts(plan: InferencePlan) -> int:
    """Return the peers that a rank sends experts' bytes to."""
    return min(plan.expert - 1, max(1, _MOST_PAIRS // plan.expert))


def transfer_times(
    built: BuiltDesign,
    transfers: KvTransfers,
    pools: Sequence[Pool],
    choice: EngineChoice,
    progress: Progress,
) -> TransferTimes:
    """Run the traffic on the design's fabric and time each cache.

    Raises:
        InputError: more packets than the packet engine can be asked for.
        EngineError: GPUs that cannot reach each other.
    """
    chunks = _MOST_CHUNKS if choice.name == "packet" else None
    traffic, caches, tasks = serving_traffic(built, transfers, pools, most_chunks=chunks)
    if choice.name == "packet" and traffic.total_bytes > _MOST_PACKETS * _PACKET_BYTES:
        share = _MOST_PACKETS * _PACKET_BYTES / traffic.total_bytes
        raise InputError(
            f"engine packet: {traffic.total_bytes / 1e9:.3g} GB are more than it can be asked for "
            f"({_MOST_PACKETS * _PACKET_BYTES / 1e9:.3g} GB); allowed: about {share:.2%} of the "
            "requests, shorter prompts, or the flow engine"
        )
    routing = built.routing()
    progress("caches on the fabric", 0.3)
    result = choice.simulate(built.fabric, traffic, routing)
    kv = result.task_finish_s[caches.start : caches.stop] - transfers.ready_s
    alone = _alone(built, transfers, pools[-1].plan, routing)
    stretch = 1.0
    decode = tasks[pools[-1].name]
    if decode and choice.name != "analytic":
        progress("exchanges without caches", 0.6)
        plain, _, same = serving_traffic(
            built, transfers, pools, with_caches=False, most_chunks=chunks
        )
        other = choice.simulate(built.fabric, plain, routing)
        both = [_busy(result.task_start_s, result.task_finish_s, decode)]
        both += [_busy(other.task_start_s, other.task_finish_s, same[pools[-1].name])]
        stretch = max(both[0] / both[1], 1.0) if both[1] > 0 else 1.0
    return TransferTimes(kv, alone, stretch, _said(choice, tasks, pools, result.assumptions))


def _alone(
    built: BuiltDesign, transfers: KvTransfers, decode: InferencePlan, routing: RoutingSet
) -> F64:
    """Return what each request's cache takes with the fabric to itself, by closed forms."""
    builder = TrafficBuilder()
    queue_pairs = built.design.planes.backend.routing.queue_pairs
    append_kv_transfers(builder, transfers, decode, queue_pairs=queue_pairs)
    result = EngineChoice("analytic").simulate(built.fabric, builder.build(check=False), routing)
    return np.asarray(result.task_finish_s - transfers.ready_s)


def _busy(start_s: F64, finish_s: F64, tasks: list[tuple[int, float]]) -> float:
    """Return the time the tasks spent on exchanges, their own waits left out."""
    return float(sum(finish_s[task] - start_s[task] - idle for task, idle in tasks))


def _said(
    choice: EngineChoice,
    tasks: dict[str, list[tuple[int, float]]],
    pools: Sequence[Pool],
    of_engine: tuple[Assumption, ...],
) -> tuple[Assumption, ...]:
    beside = [pool.name for pool in pools if tasks[pool.name]]
    inside = [pool.name for pool in pools if not tasks[pool.name]]
    parts = []
    if beside:
        parts.append(
            f"beside the exchanges of {' and '.join(beside)} instances, all their passes "
            "spread evenly over the time in which they were made"
        )
    sampled = {_shifts(pool.plan) for pool in pools if _shifts(pool.plan) < pool.plan.expert - 1}
    if sampled and beside:
        parts.append(f"each rank with {min(sampled)} of its expert peers, for all of them")
    if inside:
        parts.append(
            f"the exchanges of {' and '.join(inside)} instances stay in one scale-up domain and "
            "do not meet them"
        )
    if choice.name == "analytic":
        parts = ["each alone on its path: closed forms share no links"]
    return (
        Assumption(
            "cache transfers", f"{choice.name} engine, " + "; ".join(parts), Certainty.ESTIMATED
        ),
        *of_engine,
    )
