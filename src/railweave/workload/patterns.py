"""Traffic patterns: what a way of training in parallel sends in a step, and who talks to whom.

One *exchange* of n GPUs with a payload of S bytes is

* data parallel: an all-reduce of S, the gradients (or one bucket of them);
* tensor parallel: an all-reduce of S, the activations of one half of a layer (attention or
  feed-forward), forward or backward: a layer makes four of them;
* context parallel: one layer and micro-batch of sequences that are cut over the GPUs: keys and
  values, S bytes for the whole sequences, are gathered forward and again backward, and their
  gradients are reduced and scattered: blocks that go round a ring;
* pipeline parallel: one micro-batch: every stage hands activations of S bytes to the next, and
  their gradients, as large, go back;
* expert parallel: one mixture layer: every GPU dispatches S bytes of tokens to the experts of all
  GPUs, and as much comes back (combine): two all-to-alls.

Exchanges follow each other, except that the micro-batches of a pipeline overlap: a stage sends the
next one while the others are on their way.

Shoeybi et al., 2019 (Megatron-LM: tensor and pipeline parallelism); Lepikhin et al., 2020 (GShard:
experts); Liu et al., 2023 (ring attention); Patarasuk and Yuan, 2009 (all-reduce of gradients in a
ring).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from railweave.design.models import Algorithm, Collective, PlacementName
from railweave.errors import InputError
from railweave.fabric import Fabric
from railweave.workload._builder import TrafficBuilder
from railweave.workload._communicator import Communicator
from railweave.workload._pattern_network import PlainNetwork, plain_network
from railweave.workload._traffic import DELIVERED, Traffic
from railweave.workload.collectives import append_collective, require_algorithm
from railweave.workload.placement import place
from railweave.workload.volume import collective_volume

__all__ = [
    "MOST_GPUS",
    "PatternCase",
    "PatternPart",
    "PatternVolume",
    "PlainNetwork",
    "Strategy",
    "expert_messages",
    "expert_shares",
    "pattern_network",
    "pattern_parts",
    "pattern_ranks",
    "pattern_traffic",
    "pattern_volume",
    "plain_network",
]

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]

#: GPUs of the largest pattern that is studied
MOST_GPUS: Final = 1024
_MOST_EXCHANGES: Final = 1_000_000
_MOST_BYTES: Final = 10**15


class Strategy(StrEnum):
    """How a model is trained in parallel."""

    DATA = "data"
    TENSOR = "tensor"
    CONTEXT = "context"
    PIPELINE = "pipeline"
    EXPERT = "expert"


_COLLECTIVE: Final = {
    Strategy.DATA: Collective.ALL_REDUCE,
    Strategy.TENSOR: Collective.ALL_REDUCE,
    Strategy.CONTEXT: Collective.ALL_GATHER,
    Strategy.EXPERT: Collective.ALL_TO_ALL,
}


@dataclass(frozen=True, slots=True)
class PatternCase:
    """What is trained in parallel, and on which network.

    ``payload_bytes`` is of one exchange (see the head of this module), of which a step makes
    ``exchanges``. ``skew`` is the share of all tokens that go to the experts of rank 0, the rest
    going evenly to all (0: uniform). ``algorithm`` is of the strategy's collective; None takes
    the collective's default.

    The network, where no design gives one: every GPU has a NIC of ``link_bps`` one way, and a
    message between servers has a latency of ``latency_s``; GPUs of a server also share a scale-up
    network of ``scale_up_bps`` a GPU one way (450 GB/s: NVLink of an H100), with messages of
    ``scale_up_latency_s`` (None: as the others). ``servers_per_leaf`` servers stand under a leaf;
    the spine is non-blocking. There are ``servers`` (None: as many as are needed), and
    ``placement`` chooses their GPUs.

    Raises:
        InputError: a value out of range, naming the field.
    """

    strategy: Strategy = Strategy.DATA
    gpus: int = 4
    payload_bytes: int = 256_000_000
    exchanges: int = 1
    link_bps: float = 100e9
    latency_s: float = 0.0
    gpus_per_server: int = 1
    servers: int | None = None
    servers_per_leaf: int = 16
    placement: PlacementName = PlacementName.PACKED
    scale_up_bps: float = 3.6e12
    scale_up_latency_s: float | None = None
    skew: float = 0.0
    algorithm: Algorithm | None = None

    def __post_init__(self) -> None:
        _within("gpus", self.gpus, 2, MOST_GPUS)
        _within("payload", self.payload_bytes, 1, _MOST_BYTES, " B")
        _within("exchanges", self.exchanges, 1, _MOST_EXCHANGES)
        _within("link speed", self.link_bps, 1e3, 1e18, " b/s")
        _within("latency", self.latency_s, 0.0, 3600.0, " s")
        _within("GPUs per server", self.gpus_per_server, 1, MOST_GPUS)
        _within("servers per leaf", self.servers_per_leaf, 1, MOST_GPUS)
        _within("scale-up speed", self.scale_up_bps, 1e3, 1e18, " b/s")
        _within("scale-up latency", self.scale_up_latency_s or 0.0, 0.0, 3600.0, " s")
        _within("skew", self.skew, 0.0, 1.0)
        needed = -(-self.gpus // self.gpus_per_server)
        if self.servers is not None:
            _within("servers", self.servers, needed, MOST_GPUS)
        self._check_strategy()

    def _check_strategy(self) -> None:
        """Refuse what the strategy does not have."""
        expert = self.strategy is Strategy.EXPERT
        if self.skew and not expert:
            raise InputError(
                f"skew: {self.skew:g} is of experts, and {self.strategy.value} parallelism has "
                "none; leave it out, or take the strategy expert"
            )
        op = self.collective
        if op is None and self.algorithm is not None:
            raise InputError(
                f"algorithm: {self.algorithm.value} is of a collective, and the stages of a "
                "pipeline send to each other; leave it out"
            )
        if op is not None:
            require_algorithm(op, self.algorithm)
        if self.skew and self.algorithm is Algorithm.RAIL_ALIGNED:
            raise InputError(
                "skew: rail-aligned exchanges are uniform here; allowed: the algorithm direct, "
                "or a skew of 0"
            )

    @property
    def collective(self) -> Collective | None:
        """The strategy's collective; None for a pipeline.

        Of context parallelism the gather; its reduce-scatter has the same algorithms.
        """
        return _COLLECTIVE.get(self.strategy)

    @property
    def chosen_algorithm(self) -> Algorithm | None:
        """The algorithm of the collective, the default where none is named; None without one."""
        return (
            None if self.collective is None else require_algorithm(self.collective, self.algorithm)
        )

    @property
    def server_count(self) -> int:
        """Servers of the network that is built where no design gives one."""
        return self.servers or -(-self.gpus // self.gpus_per_server)


def _within(what: str, value: float, low: float, high: float, unit: str = "") -> None:
    if not (math.isfinite(value) and low <= value <= high):
        raise InputError(
            f"{what}: {value:,.12g}{unit} is not allowed; give {low:,.12g} to {high:,.12g}{unit}"
        )


@dataclass(frozen=True, slots=True)
class PatternPart:
    """One of the things that an exchange is made of, and how often a step does it.

    ``collective`` and ``algorithm`` are None for the sends of a pipeline.
    """

    name: str
    collective: Collective | None
    algorithm: Algorithm | None
    size_bytes: int
    times: int


@dataclass(frozen=True, slots=True)
class PatternVolume:
    """What a step sends, by closed form (see :func:`pattern_volume`).

    ``bytes_sent_per_gpu`` is of the GPU that sends most; ``total_bytes`` of all. ``steps`` counts
    the messages that follow each other on the longest way. ``formula`` gives the first, with S the
    payload, n the GPUs and E the exchanges.
    """

    parts: tuple[PatternPart, ...]
    bytes_sent_per_gpu: float
    total_bytes: float
    steps: int
    formula: str
    source: str


def pattern_volume(case: PatternCase, ranks_per_server: int | None = None) -> PatternVolume:
    """Return what one step sends, by closed form.

    Hand-overs inside a server, where a ring leaves by the NIC of another GPU, are not counted; the
    traffic itself has them.

    Args:
        case: its network is not looked at.
        ranks_per_server: needed by hierarchical and rail-aligned; None: the case's.

    Raises:
        InputError: servers that those algorithms cannot use.
    """
    op, algorithm = case.collective, case.chosen_algorithm
    if op is None or algorithm is None:
        return _pipeline_volume(case)
    if case.skew:
        return _skewed_volume(case)
    parts = pattern_parts(case)
    each = [
        collective_volume(
            part.collective or op,
            algorithm,
            case.gpus,
            case.payload_bytes,
            ranks_per_server=ranks_per_server or case.gpus_per_server,
        )
        for part in parts
    ]
    times = case.exchanges
    most = sum(one.bytes_sent_per_rank for one in each)
    if len(parts) > 1 and algorithm is Algorithm.HALVING_DOUBLING:
        # where n is no power of two, gather and scatter are not heaviest on the same rank
        once = pattern_traffic(case, Communicator.flat(case.gpus), exchanges=1)
        most = float(np.bincount(once.src, once.stream_bytes).max())
    many = f"{len(parts)}·" if len(parts) > 1 else ""  # all parts have the same formula
    return PatternVolume(
        parts,
        times * most,
        times * sum(one.total_bytes for one in each),
        times * sum(one.steps for one in each),
        f"{many}E·({each[0].formula})",
        _SOURCES[case.strategy],
    )


_SOURCES: Final = {
    Strategy.DATA: "an all-reduce of the gradients; Patarasuk and Yuan, 2009",
    Strategy.TENSOR: "an all-reduce of activations; Shoeybi et al., 2019",
    Strategy.CONTEXT: "keys and values gathered twice, their gradients scattered; Liu et al., 2023",
    Strategy.PIPELINE: "activations forward, their gradients back; Shoeybi et al., 2019",
    Strategy.EXPERT: "all-to-all dispatch and combine; Lepikhin et al., 2020",
}


def pattern_parts(case: PatternCase) -> tuple[PatternPart, ...]:
    """Return what an exchange is made of, in order."""
    names = {
        Strategy.DATA: ("gradients",),
        Strategy.TENSOR: ("activations",),
        Strategy.CONTEXT: ("keys and values forward", "keys and values again", _KV_GRADIENTS),
        Strategy.PIPELINE: ("activations forward", "gradients back"),
        Strategy.EXPERT: ("dispatch", "combine"),
    }[case.strategy]
    return tuple(
        PatternPart(
            name,
            Collective.REDUCE_SCATTER if name == _KV_GRADIENTS else case.collective,
            case.chosen_algorithm,
            case.payload_bytes,
            case.exchanges,
        )
        for name in names
    )


_KV_GRADIENTS: Final = "their gradients"


def _pipeline_volume(case: PatternCase) -> PatternVolume:
    n, times = case.gpus, case.exchanges
    ways = 2 if n > 2 else 1  # an end stage has one neighbour
    return PatternVolume(
        pattern_parts(case),
        ways * times * case.payload_bytes,
        2 * (n - 1) * times * case.payload_bytes,
        2 * (n - 1) + times - 1,
        "2·E·S (a stage between two others)" if n > 2 else "E·S",
        _SOURCES[case.strategy],
    )


def expert_shares(case: PatternCase) -> F64:
    """Return the part of every rank's tokens that each rank's experts get, (n,)."""
    shares = np.full(case.gpus, (1.0 - case.skew) / case.gpus)
    shares[0] += case.skew
    return shares


def expert_messages(
    case: PatternCase, *, dispatch: bool, blocks: I64 | None = None
) -> tuple[I64, I64, F64]:
    """Return (senders, receivers, bytes) of one all-to-all of experts, by rank.

    The order is that of the direct all-to-all; ``blocks`` as for :func:`pattern_traffic`.
    """
    n, size = case.gpus, float(case.payload_bytes)
    if blocks is not None:
        return _block_messages(case, blocks, dispatch=dispatch)
    src = np.repeat(np.arange(n), n - 1)
    dst = (src + np.tile(np.arange(1, n), n)) % n
    amount = size * expert_shares(case)[dst if dispatch else src]
    some = amount > 0
    return src[some], dst[some], amount[some]


def _block_messages(case: PatternCase, blocks: I64, *, dispatch: bool) -> tuple[I64, I64, F64]:
    """Return the messages by block; every link of a network that is alike carries the same bytes.

    What all send to all is sent to blocks; what the hot rank gets beyond that is sent to it.
    """
    n, size = case.gpus, float(case.payload_bytes)
    _, member, count = np.unique(blocks, return_inverse=True, return_counts=True)
    order = np.argsort(member, kind="stable")
    start = np.cumsum(count) - count
    one, block = (part.ravel() for part in np.indices((n, len(count))))
    away = member[one] != block
    one, block = one[away], block[away]
    other = order[start[block] + (one + block) % count[block]]
    amount = (1.0 - case.skew) * size / n * count[block]
    mine, near = (part.ravel() for part in np.indices((n, int(count.max()))))
    inside = near < count[member[mine]]
    mine, near = mine[inside], order[start[member[mine[inside]]] + near[inside]]
    apart = mine != near
    hot = np.arange(1, n) if case.skew else np.arange(0)
    src = np.concatenate((one, mine[apart], hot))
    dst = np.concatenate((other, near[apart], np.zeros_like(hot)))
    even = (1.0 - case.skew) * size / n
    amount = np.concatenate(
        (amount, np.full(int(apart.sum()), even), np.full(len(hot), case.skew * size))
    )
    some = amount > 0
    ends = (src[some], dst[some]) if dispatch else (dst[some], src[some])
    return *ends, amount[some]


def _skewed_volume(case: PatternCase) -> PatternVolume:
    n, times, size = case.gpus, case.exchanges, case.payload_bytes
    shares = expert_shares(case)
    sent = times * size * ((1.0 - shares) + (n - 1) * shares)
    return PatternVolume(
        pattern_parts(case),
        float(sent.max()),
        2.0 * (n - 1) * times * size,
        2 * times,
        "E·S·(1 - w + (n-1)·w), w the share of all tokens that go to the rank's experts",
        _SOURCES[case.strategy],
    )


def pattern_network(case: PatternCase) -> PlainNetwork:
    """Return the case's own network: its fabric, and a routing without packet headers."""
    return plain_network(
        case.server_count,
        case.gpus_per_server,
        link_bps=case.link_bps,
        latency_s=case.latency_s,
        servers_per_leaf=case.servers_per_leaf,
        scale_up_bps=case.scale_up_bps,
        scale_up_latency_s=case.scale_up_latency_s,
        name="pattern",
    )


def pattern_ranks(case: PatternCase, fabric: Fabric, *, seed: int = 0) -> Communicator:
    """Return the ranks on the GPUs of a fabric that the case's placement gives them.

    Raises:
        InputError: more ranks than GPUs.
    """

    def sends(nodes: I32) -> Traffic:
        return pattern_traffic(case, Communicator.from_fabric(fabric, nodes), exchanges=1)

    nodes = place(fabric, case.gpus, case.placement, seed=seed, sends=sends)
    return Communicator.from_fabric(fabric, nodes)


def pattern_traffic(
    case: PatternCase,
    comm: Communicator,
    *,
    exchanges: int | None = None,
    blocks: I64 | None = None,
) -> Traffic:
    """Return what a step sends.

    Args:
        case: strategy, payload, exchanges, skew and algorithm are looked at.
        comm: the ranks, as many as the case has GPUs.
        exchanges: only so many of the case's.
        blocks: a direct all-to-all with fewer messages: what a rank has for the ranks of another
            block travels as one message, to one of them in turn. (n,), a number for each rank.

    Raises:
        InputError: another number of ranks, or an algorithm that cannot do their placement.
    """
    if comm.n != case.gpus:
        raise InputError(f"ranks: {comm.n} are given for a case of {case.gpus}; give as many")
    count = case.exchanges if exchanges is None else exchanges
    builder = TrafficBuilder()
    if case.collective is None:
        _append_pipeline(builder, comm, case, count)
        return builder.build()
    after: list[int] = []
    for exchange in range(count):
        for part in pattern_parts(case):
            label = f"{case.strategy.value}/{part.name}#{exchange}"
            if len(after) > 1:
                after = [builder.barrier(after, label=label)]
            if case.skew or blocks is not None:
                dispatch = part.name == "dispatch"
                src, dst, size = expert_messages(case, dispatch=dispatch, blocks=blocks)
                ends = comm.nodes[src], comm.nodes[dst]
                after = [builder.plain(*ends, size, label=label, after=after)]
                continue
            after = append_collective(
                builder,
                comm,
                part.collective or case.collective,
                case.payload_bytes,
                algorithm=case.algorithm,
                label=label,
                after=after,
            )
    return builder.build(check=blocks is None)


def _append_pipeline(
    builder: TrafficBuilder, comm: Communicator, case: PatternCase, count: int
) -> None:
    """Append the micro-batches: stage to stage forward, and back.

    A hop sends a micro-batch when the hop before has brought it and its own last one is sent.
    """
    n = comm.n
    stages = np.concatenate((np.arange(n), np.arange(n - 2, -1, -1)))
    src, dst = comm.nodes[stages[:-1]], comm.nodes[stages[1:]]
    label = f"{case.strategy.value}/micro-batches"
    hops = np.arange(1, len(src))
    if count > 1:
        preds = hops, hops - 1, np.zeros_like(hops)
        builder.coupled(src, dst, case.payload_bytes, count, preds, label=label)
        return
    deps = hops, hops - 1, np.full(len(hops), DELIVERED)
    builder.plain_tasks(src, dst, case.payload_bytes, label=label, deps=deps)
