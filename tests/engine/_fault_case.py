"""A small leaf-spine network with traffic across it, for tests of faults and counters."""

from __future__ import annotations

import numpy as np

from railweave.design.models import CongestionSpec, RoutingScheme, RoutingSpec, Transport
from railweave.engine.fault_text import parse_fault
from railweave.engine.packet import PacketResult, PacketRun
from railweave.engine.packet_settings import Watch, default_settings
from railweave.fabric import Fabric, PlaneId
from railweave.fabric.routing import RoutingSet, compile_routing
from railweave.fabric.small import Cable, small_fabric
from railweave.workload import Traffic

G = 1e9
PFC = CongestionSpec(scheme="pfc", pfc_threshold="100 kB")


def leaf_spine(hosts=4, spines=2, *, host_bps=400 * G, up_bps=400 * G) -> Fabric:
    """Two leaves with half of the hosts each; cables of hosts first, then leaf 1's, leaf 2's."""
    leaf = [hosts, hosts + 1]
    cables = [Cable(h, leaf[h * 2 // hosts], host_bps) for h in range(hosts)]
    cables += [Cable(one, hosts + 2 + s, up_bps, 20.0) for one in leaf for s in range(spines)]
    return small_fabric("leaf-spine", hosts, (1, 1) + (2,) * spines, cables)


def streams(src, dst, size, *, rounds=1, coupled=False, qps=1) -> Traffic:
    """One task of streams; coupled, each waits for the one before it in the round before."""
    n = len(src)
    return Traffic(
        src=np.asarray(src, dtype=np.int32),
        dst=np.asarray(dst, dtype=np.int32),
        chunk_bytes=np.full(n, float(size)),
        chunk_delay_s=np.zeros(n),
        queue_pairs=np.full(n, qps, dtype=np.int32),
        task_stream=np.array([0, n], dtype=np.int64),
        task_rounds=np.array([rounds], dtype=np.int32),
        task_start_s=np.zeros(1),
        task_delay_s=np.zeros(1),
        task_label=np.zeros(1, dtype=np.int32),
        dep_ptr=np.zeros(2, dtype=np.int64),
        dep_task=np.zeros(0, dtype=np.int32),
        dep_kind=np.zeros(0, dtype=np.uint8),
        pred_ptr=np.arange(n + 1) if coupled else np.zeros(n + 1, dtype=np.int64),
        pred_stream=np.roll(np.arange(n, dtype=np.int32), 1) if coupled else np.zeros(0, np.int32),
        pred_lag=np.ones(n, np.int32) if coupled else np.zeros(0, np.int32),
        labels=("test",),
    )


def start(
    fabric,
    work,
    *faults,
    spec=None,
    scheme=RoutingScheme.ECMP,
    transport=Transport.ROCEV2,
    seed=0,
    trace=0,
    **other,
) -> PacketRun:
    """Make a run in which these faults happen, given as text or as records."""
    routing = RoutingSet.of(
        compile_routing(fabric, PlaneId.BACKEND, RoutingSpec(scheme=scheme), transport, seed)
    )
    told = [parse_fault(f, fabric) if isinstance(f, str) else f for f in faults]
    settings = default_settings(
        fabric, routing, spec, faults=tuple(told), watch=Watch(trace=trace), **other
    )
    return PacketRun(fabric, work, routing, settings, seed=seed)


def run(fabric, work, *faults, until_s=np.inf, **other) -> PacketResult:
    """Run it to its end, or so far."""
    sim = start(fabric, work, *faults, **other)
    sim.advance(until_s)
    return sim.result()


def total(result, column) -> int:
    """Sum of a counter of all queue pairs."""
    return int(result.record.flow_counters[column].sum())


def drops(result) -> dict[str, int]:
    """Packets dropped by reason, data and replies."""
    prefix = "dropped_packets_"
    return {
        name.removeprefix(prefix): int(column.sum())
        for name, column in result.record.ledger.items()
        if name.startswith(prefix) and column.sum()
    }


def by_link(result, table, column, priority) -> np.ndarray:
    """A counter by link of one priority."""
    return getattr(result.record, table)[column].reshape(8, -1)[priority].astype(np.int64)
