"""What the fabric leaves of the NICs' line rate for the patterns of a collective library.

For each pattern (rings, double binary trees, pairwise exchange) the connections between scale-up
domains are put on the fabric with all that its routing, seed and failures make of them, and their
slowest is compared with the same connections on the same NICs and an unlimited, whole network
between them. All connections of a pattern carry bytes at once, as a large collective does: a ring
runs at the pace of its slowest link.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from railweave.design.models import Algorithm, Collective
from railweave.engine import ENGINES, simulate
from railweave.engine._flow_input import FlowInput, prepare
from railweave.errors import InputError
from railweave.fabric import Fabric, LinkLayer, NodeKind, PlaneId
from railweave.fabric._assembly import VELOCITY_M_PER_S
from railweave.fabric.names import node_name, port_name
from railweave.fabric.routing import Paths, RoutingSet
from railweave.predict.collective import NetworkPart
from railweave.provenance import Assumption, Certainty
from railweave.units import format_bits_rate, format_seconds
from railweave.workload import Communicator, Traffic, TrafficBuilder, append_collective

if TYPE_CHECKING:
    from railweave.api import BuiltDesign
    from railweave.design.models import RoutingScheme
    from railweave.engine.packet_settings import PacketSettings

__all__ = ["MeasuredNetwork", "PatternName", "PatternShare", "measure_network", "network_part"]

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]
PatternName: TypeAlias = Literal["ring", "tree", "pairwise"]
Progress: TypeAlias = Callable[[str, float], None]

#: of the busiest connection: latency is nothing beside it
_FLUID_BYTES: Final = 1e12
#: packet engine: how long the busiest NIC sends; all NICs together so many seconds
_PACKETS_S: Final = (0.5e-3, 4e-3)
_NIC_SECONDS: Final = 0.25
#: flows of a pairwise exchange: where there are more, only some of its shifts run
MOST_FLOWS: Final = 65_536
_MOST_OF_PACKETS: Final = 4_096
#: shares from here on count as the whole: the fluid engine adds the path's latency
_FULL: Final = 0.999
_NETWORK_LAYERS: Final = (
    LinkLayer.HOST_LEAF,
    LinkLayer.LEAF_SPINE,
    LinkLayer.SPINE_CORE,
    LinkLayer.OTHER,
)
#: how much faster the switches of the ideal network are, where it is simulated
_WIDER: Final = 16.0


@dataclass(frozen=True, slots=True)
class PatternShare:
    """What one pattern reaches.

    ``share`` is of what its NICs alone allow; ``bottleneck`` says which link sets it, and by what.
    ``latency_s`` is the mean, over its connections, of one way through cables and switches.
    """

    pattern: PatternName
    share: float
    connections: int
    bottleneck: str
    latency_s: float


@dataclass(frozen=True, slots=True)
class MeasuredNetwork:
    """The network part of a collective, and the patterns it was found by (none in one domain)."""

    part: NetworkPart
    patterns: tuple[PatternShare, ...]


def _silent(step: str, fraction: float) -> None:
    """Report progress to nobody."""


def network_part(
    built: BuiltDesign, nodes: npt.ArrayLike | None = None, *, engine: str = "flow"
) -> NetworkPart:
    """Return what the fabric leaves of the line rate; see :func:`measure_network`."""
    return measure_network(built, nodes, engine=engine).part


def measure_network(
    built: BuiltDesign,
    nodes: npt.ArrayLike | None = None,
    *,
    engine: str = "flow",
    seed: int | None = None,
    routing: RoutingScheme | None = None,
    queue_pairs: int | None = None,
    settings: PacketSettings | None = None,
    progress: Progress = _silent,
) -> MeasuredNetwork:
    """Put each pattern's connections on the fabric once and compare with unlimited switches.

    Args:
        built: a built design; its failures (``built.fail(…)``) count.
        nodes: the GPU node of each rank; None takes all GPUs.
        engine: ``"flow"``, ``"packet"``, or ``"analytic"``: bytes a link over its capacity, along
            the same routed paths, without simulation.
        seed: of hashes and queue pair numbers, instead of the design's.
        routing: scheme of the back-end, instead of the design's.
        queue_pairs: of a connection, instead of the design's, where that has fewer.
        settings: of the packet engine; the design's own where left out.
        progress: called with a step and the fraction done.

    Raises:
        InputError: an engine that does not exist.
        EngineError: ranks that cannot reach each other.
    """
    if engine not in ENGINES:
        raise InputError(f"engine {engine!r} does not exist; allowed: {', '.join(ENGINES)}")
    fabric = built.fabric
    comm = Communicator.from_fabric(fabric, fabric.gpus if nodes is None else nodes)
    if len(comm.domain_sizes) < 2:
        return MeasuredNetwork(
            NetworkPart(source="the ranks share one scale-up domain: no network between them"), ()
        )
    bench = _Bench(
        built.fabric,
        comm,
        built.routing(routing, seed),
        engine,
        settings or (built.packet_settings() if engine == "packet" else None),
        built.design.seed if seed is None else seed,
        max(queue_pairs or 1, built.design.planes.backend.routing.queue_pairs),
    )
    names: tuple[PatternName, ...] = ("ring", "tree", "pairwise")
    patterns: list[PatternShare] = []
    for k, name in enumerate(names):
        progress(f"network: {name}", k / len(names))
        patterns.append(bench.measure(name))
    progress("network", 1.0)
    return MeasuredNetwork(_part(built, patterns, bench), tuple(patterns))


def _part(built: BuiltDesign, patterns: list[PatternShare], bench: _Bench) -> NetworkPart:
    shares = {item.pattern: item.share for item in patterns}
    worst = min(patterns, key=lambda item: item.share)
    scheme = bench.routing.planes[PlaneId.BACKEND].scheme.value
    found = worst.bottleneck if worst.share < _FULL else "no link but the NICs' own binds"
    return NetworkPart(
        ring_share=shares["ring"],
        tree_share=shares["tree"],
        pairwise_share=shares["pairwise"],
        latency_s=patterns[0].latency_s,
        engine=bench.engine,
        source=f"{bench.engine} engine, routing {scheme}, seed {bench.seed}: {found}",
        failed=built.failed,
        assumptions=(bench.assumption(),),
    )


@dataclass(frozen=True, eq=False)
class _Bench:
    """One fabric on which patterns are tried."""

    fabric: Fabric
    comm: Communicator
    routing: RoutingSet
    engine: str
    settings: PacketSettings | None
    seed: int
    queue_pairs: int

    @property
    def most(self) -> int:
        """Connections that a pairwise exchange may have."""
        flows = _MOST_OF_PACKETS if self.engine == "packet" else MOST_FLOWS
        return flows // self.queue_pairs

    @property
    def packets_s(self) -> float:
        """How long the busiest NIC sends in the packet engine."""
        least, most = _PACKETS_S
        return min(most, max(least, _NIC_SECONDS / self.comm.n))

    def measure(self, pattern: PatternName) -> PatternShare:
        """Return what a pattern reaches."""
        src, dst, connection, size = _connections(self.comm, pattern, self.most)
        builder = TrafficBuilder()
        builder.plain(
            self.comm.nodes[src],
            self.comm.nodes[dst],
            size * (_FLUID_BYTES / float(size.max())),
            label=pattern,
            queue_pairs=self.queue_pairs,
            connection=connection,
        )
        traffic = builder.build()
        given = prepare(self.fabric, traffic, self.routing, allow_unroutable=False)
        load = _link_load(given, self.fabric.n_links)
        with np.errstate(divide="ignore", invalid="ignore"):
            busy = np.where(load > 0, load / given.capacity_Bps, 0.0)
        alone = self._alone(traffic, given)
        text = _bottleneck(self.fabric, given, busy, load, alone)
        took = float(busy.max())
        if self.engine == "flow":
            took = simulate(self.fabric, traffic, self.routing, "flow").makespan_s
        elif self.engine == "packet":
            short = traffic.chunk_bytes * (self.packets_s / alone)
            took, alone = self._packets(replace(traffic, chunk_bytes=short))
        share = min(1.0, alone / took)
        return PatternShare(pattern, share, len(src), text, _mean_latency(self.fabric, given.paths))

    def _alone(self, traffic: Traffic, given: FlowInput) -> float:
        """Return the time of the busiest NIC where nothing is down and no switch binds."""
        if not self.fabric.link_up.all():
            whole = replace(self.fabric, link_up=np.ones_like(self.fabric.link_up))
            given = prepare(whole, traffic, self.routing.on(whole), allow_unroutable=False)
        return _nic_time(self.fabric, given)

    def _packets(self, traffic: Traffic) -> tuple[float, float]:
        """Return the times of the packet engine here, and where switches are far wider and up."""
        times = [
            simulate(
                fabric,
                traffic,
                self.routing.on(fabric),
                "packet",
                settings=self.settings,
                seed=self.seed,
            ).makespan_s
            for fabric in (self.fabric, _wider(self.fabric))
        ]
        return times[0], times[1]

    def assumption(self) -> Assumption:
        """Say what the shares rest on."""
        pairs = "one queue pair" if self.queue_pairs == 1 else f"{self.queue_pairs} queue pairs"
        text = (
            f"one connection of {pairs} for each NIC and peer, all at once; the slowest sets the "
            "pace of all, as every channel gets the same bytes"
        )
        shifts = max(1, self.most // self.comm.n)
        if shifts < len(self.comm.domain_sizes) - 1:
            text += f"; pairwise: {shifts} of {len(self.comm.domain_sizes) - 1} shifts"
        if self.engine == "packet":
            text += (
                f"; every NIC sends for {format_seconds(self.packets_s)}, in which congestion "
                "control is still settling: shares of colliding connections come out low"
            )
        return Assumption("network part", text, Certainty.ESTIMATED)


def _connections(comm: Communicator, pattern: PatternName, most: int) -> tuple[I64, I64, I64, F64]:
    """Return the connections of a pattern between domains: ranks, number and relative bytes."""
    if pattern == "pairwise":
        return _shifts(comm, most)
    builder = TrafficBuilder()
    algorithm = Algorithm.RING if pattern == "ring" else Algorithm.TREE
    append_collective(builder, comm, Collective.ALL_REDUCE, 1e9, algorithm=algorithm)
    made = builder.build()
    rank = np.full(int(comm.nodes.max()) + 1, -1, dtype=np.int64)
    rank[comm.nodes] = np.arange(comm.n)
    src, dst = rank[made.src], rank[made.dst]
    number = made.stream_connection
    number = np.zeros_like(made.src) if number is None else number
    away = comm.order[src] != comm.order[dst]
    rows, place = np.unique(
        np.stack((src[away], dst[away], number[away]), axis=1), axis=0, return_inverse=True
    )
    size = np.bincount(place.reshape(-1), weights=made.stream_bytes[away], minlength=len(rows))
    return rows[:, 0], rows[:, 1], rows[:, 2], size.astype(np.float64)


def _shifts(comm: Communicator, most: int) -> tuple[I64, I64, I64, F64]:
    """Return a pairwise exchange of domains, shift by shift; some of them where there are many.

    A GPU talks to the GPU of its own place in each other domain, as libraries do that hand over
    inside the domain first (PXN); where GPUs cannot, to the one as many places on.
    """
    order, local, sizes = comm.order, comm.local, comm.domain_sizes
    domains = len(sizes)
    table = np.full((domains, int(sizes.max())), -1, dtype=np.int64)
    table[order, local] = np.arange(comm.n)
    count = min(domains - 1, max(1, most // comm.n))
    chosen = np.unique(np.linspace(1, domains - 1, count).astype(np.int64))
    src = np.tile(np.arange(comm.n), len(chosen))
    shift = np.repeat(chosen, comm.n)
    target = (order[src] + shift) % domains
    at = local[src] if comm.forwards else local[src] + shift
    dst = table[target, at % sizes[target]]
    return src, dst, np.zeros_like(src), np.ones(len(src))


def _flow_entries(given: FlowInput) -> tuple[I64, F64]:
    """Return, for each link on each flow's way, the flow and the wire bytes it brings there."""
    paths = given.paths
    flow = np.repeat(np.arange(paths.n_flows, dtype=np.int64), np.diff(paths.ptr))
    size = given.flow_bytes[flow]
    return flow, size if paths.weight is None else size * paths.weight


def _link_load(given: FlowInput, n_links: int) -> F64:
    """Return the wire bytes that each link carries, (L,)."""
    _, size = _flow_entries(given)
    return np.bincount(given.paths.link, weights=size, minlength=n_links).astype(np.float64)


def _nic_time(fabric: Fabric, given: FlowInput) -> float:
    """Return the time of the busiest NIC at its nominal rate, all of its ports together."""
    head, tail = fabric.link_src, fabric.link_dst
    port = fabric.link_layer == LinkLayer.HOST_LEAF
    out = port & (fabric.node_kind[head] != NodeKind.SWITCH)
    rate = np.bincount(
        head[out],
        weights=(fabric.link_capacity_bps * fabric.link_efficiency)[out] / 8,
        minlength=fabric.n_nodes,
    )
    _, size = _flow_entries(given)
    link = given.paths.link
    times = [0.0]
    for ends, mine in ((head, out), (tail, port & ~out)):
        use = mine[link]
        load = np.bincount(ends[link[use]], weights=size[use], minlength=fabric.n_nodes)
        times.append(float(np.max(load[rate > 0] / rate[rate > 0], initial=0.0)))
    return max(times)


def _wider(fabric: Fabric) -> Fabric:
    """Return the fabric whole, with links between switches that never bind."""
    between = (fabric.node_kind[fabric.link_src] == NodeKind.SWITCH) & (
        fabric.node_kind[fabric.link_dst] == NodeKind.SWITCH
    )
    return replace(
        fabric,
        link_up=np.ones_like(fabric.link_up),
        link_capacity_bps=fabric.link_capacity_bps * np.where(between, _WIDER, 1.0),
    )


def _mean_latency(fabric: Fabric, paths: Paths) -> float:
    """Return the mean of one way through cables and switches, NICs and servers left out."""
    network = np.isin(fabric.link_layer, _NETWORK_LAYERS)
    into_nic = network & (fabric.node_kind[fabric.link_dst] != NodeKind.SWITCH)
    delay = np.where(network, fabric.link_delay_s, 0.0)
    # A link's delay holds that of the device at its head; a NIC's is the library's affair.
    delay = np.where(into_nic, fabric.link_length_m / VELOCITY_M_PER_S, delay)
    weight = np.ones(len(paths.link)) if paths.weight is None else paths.weight
    return float(np.sum(delay[paths.link] * weight) / max(1, paths.n_flows))


def _bottleneck(fabric: Fabric, given: FlowInput, busy: F64, load: F64, alone: float) -> str:
    """Name the link that takes longest, and what it was asked for."""
    link = int(np.argmax(busy))
    if busy[link] <= alone / _FULL:
        return "the NICs' own line rate"
    flow, _ = _flow_entries(given)
    streams = len(np.unique(given.paths.message[flow[given.paths.link == link]]))
    wanted = format_bits_rate(float(load[link]) / alone * 8)
    has = format_bits_rate(float(given.capacity_Bps[link]) * 8)
    where = f"{port_name(fabric, link)} to {node_name(fabric, int(fabric.link_dst[link]))}"
    many = "1 connection wants" if streams == 1 else f"{streams} connections want"
    return f"{where}: {many} {wanted} of its {has}"
