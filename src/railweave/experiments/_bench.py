"""The bench of all experiments: fabrics of a few switches, runs, and what is read from them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from railweave.design.models import CongestionSpec, RoutingSpec, Transport
from railweave.engine.packet import PacketResult, simulate_packet
from railweave.engine.packet_record import PacketRecord
from railweave.engine.packet_settings import PacketSettings, Watch, default_settings
from railweave.fabric import Fabric, PlaneId
from railweave.fabric.routing import RoutingSet, compile_routing
from railweave.fabric.small import Cable, small_fabric
from railweave.workload import Communicator, Traffic, TrafficBuilder

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "F64",
    "GBPS",
    "KMAX_BYTES",
    "KMIN_BYTES",
    "PAPER",
    "Flow",
    "congestion",
    "into_switch",
    "jain",
    "leaf_spine",
    "long_flows",
    "messages",
    "paused_s",
    "percent",
    "queue_of",
    "ranks_of",
    "rate_series",
    "rates_bps",
    "record_of",
    "routed",
    "run",
    "series",
    "settings_of",
]

F64 = npt.NDArray[np.float64]
Flow = tuple[int, int]  #: sender and receiver

GBPS = 1e9
KMIN_BYTES, KMAX_BYTES = 5_000, 200_000
#: DCQCN and its marking as in the paper (SIGCOMM 2015), at 40 Gb/s
PAPER: Final[dict[str, Any]] = {
    "scheme": "pfc+dcqcn",
    "profile": "dcqcn-paper",
    "ecn": {"kmin": "5 kB", "kmax": "200 kB", "pmax": 0.01},
}

#: of a message that outlasts every run
_ENDLESS_BYTES = 50e9


def congestion(**fields: Any) -> CongestionSpec:  # noqa: ANN401 - as in a design file
    """Return the congestion settings of a plane, written as in a design file."""
    return CongestionSpec.model_validate(fields)


def leaf_spine(  # noqa: PLR0917 - the shape in its usual order
    leaves: int,
    hosts_a_leaf: int,
    spines: int,
    host_bps: float,
    uplink_bps: float,
    cables: int = 1,
    *,
    model: str = "",
) -> Fabric:
    """Return leaves and spines; ``cables`` join each pair of them.

    Hosts are nodes 0…, then leaves, then spines. Host links come first; the cable of leaf l to
    spine s is number hosts + (l · spines + s) · cables.
    """
    n = leaves * hosts_a_leaf
    joined = [Cable(h, n + h // hosts_a_leaf, host_bps) for h in range(n)]
    joined += [
        Cable(n + leaf, n + leaves + spine, uplink_bps, 20.0)
        for leaf in range(leaves)
        for spine in range(spines)
        for _ in range(cables)
    ]
    return small_fabric("leaf-spine", n, (1,) * leaves + (2,) * spines, joined, model=model)


def routed(
    fabric: Fabric,
    spec: RoutingSpec | None = None,
    transport: Transport = Transport.ROCEV2,
    seed: int = 0,
) -> RoutingSet:
    """Return the routing of the back-end plane."""
    return RoutingSet.of(compile_routing(fabric, PlaneId.BACKEND, spec, transport, seed))


def messages(
    flows: Sequence[Flow],
    size_bytes: float | Sequence[float],
    *,
    queue_pairs: int = 1,
    start_s: Sequence[float] | float = 0.0,
) -> Traffic:
    """Return one message from each sender to its receiver."""
    builder = TrafficBuilder()
    pairs = np.array(flows)
    builder.plain_tasks(
        pairs[:, 0],
        pairs[:, 1],
        size_bytes,
        label="message",
        start_s=start_s,
        queue_pairs=queue_pairs,
        connection=np.arange(len(pairs)),
    )
    return builder.build()


def long_flows(flows: Sequence[Flow], *, start_s: Sequence[float] | float = 0.0) -> Traffic:
    """Return messages that outlast the run."""
    return messages(flows, _ENDLESS_BYTES, start_s=start_s)


def settings_of(
    fabric: Fabric, routing: RoutingSet, spec: CongestionSpec | None = None, **more: object
) -> PacketSettings:
    """Return the settings of a run; ``more`` are fields of PacketSettings."""
    return default_settings(fabric, routing, spec, **more)


def run(
    fabric: Fabric,
    traffic: Traffic,
    routing: RoutingSet,
    spec: CongestionSpec | None = None,
    *,
    until_s: float = math.inf,
    sample_s: float = 0.0,
    links: Iterable[int] = (),
    seed: int = 0,
    **more: object,
) -> PacketResult:
    """Simulate; with ``sample_s`` all queue pairs and the ``links`` are sampled."""
    watch = Watch(sample_s, tuple(links), None if sample_s else ())
    settings = settings_of(fabric, routing, spec, watch=watch, **more)
    return simulate_packet(fabric, traffic, routing, settings=settings, seed=seed, until_s=until_s)


def record_of(result: PacketResult) -> PacketRecord:
    """Return what a run wrote down."""
    assert result.record is not None  # the packet engine always writes one
    return result.record


def rates_bps(result: PacketResult, from_s: float, until_s: float) -> F64:
    """Return each queue pair's goodput between two times: payload acknowledged, in bit/s.

    The flows must have been sampled; their packets are taken to be full (4,096 B).
    """
    samples = record_of(result).flow_samples
    time, flow = samples["time_s"], samples["flow"]
    acked = samples["acked_packets"].astype(np.float64)
    inside = (time >= from_s) & (time <= until_s)
    out = np.zeros(int(flow.max(initial=0)) + 1)
    for k in range(len(out)):
        mine = np.flatnonzero(inside & (flow == k))
        span = time[mine[-1]] - time[mine[0]]
        out[k] = (acked[mine[-1]] - acked[mine[0]]) * 4096 * 8 / span
    return out


def rate_series(result: PacketResult, flow: int, bins: int) -> tuple[F64, F64]:
    """Return times and the goodput in bit/s of a queue pair over ``bins`` samples each."""
    samples = record_of(result).flow_samples
    mine = np.flatnonzero(samples["flow"] == flow)[::bins]
    time = samples["time_s"][mine]
    acked = samples["acked_packets"][mine].astype(np.float64)
    return time[1:], np.diff(acked) * 4096 * 8 / np.diff(time)


def queue_of(result: PacketResult, link: int, from_s: float = 0.0) -> tuple[F64, F64]:
    """Return times and the egress queue of a sampled link in bytes."""
    samples = record_of(result).port_samples
    mine = (samples["link"] == link) & (samples["time_s"] >= from_s)
    return samples["time_s"][mine], samples["queue_bytes"][mine].astype(np.float64)


def paused_s(result: PacketResult, link: int) -> float:
    """Return how long the sender of a link was paused, over all priorities."""
    counters = record_of(result).pause_counters
    return float(counters["paused_s"][counters["link"] == link].sum())


def into_switch(fabric: Fabric, a: int, b: int) -> int:
    """Return the first link from one node to another."""
    return int(np.flatnonzero((fabric.link_src == a) & (fabric.link_dst == b))[0])


def ranks_of(hosts: Sequence[int]) -> Communicator:
    """Return a communicator of hosts with one GPU and one rail each."""
    nodes = np.array(hosts, dtype=np.int32)
    return Communicator(
        nodes, np.arange(len(nodes), dtype=np.int32), np.zeros(len(nodes), np.int32), channels=1
    )


def jain(values: F64) -> float:
    """Return Jain's fairness index: 1 where all are equal, 1/n where one has everything."""
    return float(values.sum() ** 2 / (len(values) * (values**2).sum()))


def percent(share: float, *, sign: bool = False) -> str:
    """Write a share as whole per cent; with ``sign`` a change."""
    return f"{100 * share:+.0f} %" if sign else f"{100 * share:.0f} %"


def series(rows: Iterable[tuple[str, Sequence[Any] | F64, Sequence[Any] | F64]]) -> pl.DataFrame:
    """Return the frame of a chart from (series, x, y)."""
    import polars as pl

    frames = [
        pl.DataFrame({"series": [name] * len(x), "x": x, "y": y}, strict=False)
        for name, x, y in rows
    ]
    return pl.concat(frames)
