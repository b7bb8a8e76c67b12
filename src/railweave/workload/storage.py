"""Storage traffic: datasets in, checkpoints out, and what they cost a training step."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Final

import numpy as np
import numpy.typing as npt

from railweave.design.models import StorageServers, StorageTraffic
from railweave.errors import InputError
from railweave.fabric import Fabric, NodeKind, PlaneId
from railweave.provenance import Assumption
from railweave.workload._builder import TrafficBuilder
from railweave.workload._traffic import Traffic

__all__ = [
    "STORAGE_ASSUMPTIONS",
    "CheckpointCost",
    "burst_times",
    "checkpoint_cost",
    "ingest_rate_bps",
    "storage_traffic",
    "write_floor_s",
]

I32 = npt.NDArray[np.int32]
F64 = npt.NDArray[np.float64]

#: ingest is sent in pieces of this size, or larger ones where that would be too many
PIECE_BYTES: Final = 64 * 2**20
_MOST_PIECES: Final = 64

STORAGE_ASSUMPTIONS: Final = (
    Assumption(
        "ingest",
        "each server reads pieces of 64 MiB (larger where a server would read over 64), from the "
        "storage servers in turn, at the moments the rate asks for",
    ),
    Assumption(
        "checkpoint",
        "every server writes an equal part at the same moment, spread over all storage servers",
    ),
    Assumption(
        "storage servers",
        "their read bandwidth bounds the rate of ingest; their write bandwidth bounds the write "
        "time of a checkpoint afterwards and does not slow its flows",
    ),
)


def _ends(fabric: Fabric, name: str) -> tuple[I32, I32]:
    hosts = np.flatnonzero((fabric.node_kind == NodeKind.HOST) & (fabric.node_server >= 0))
    stores = np.flatnonzero(fabric.node_kind == NodeKind.STORAGE)
    if not hosts.size or not stores.size:
        raise InputError(
            f"storage traffic {name}: the fabric has {hosts.size} servers and {stores.size} "
            "storage servers; allowed: one or more of each; set cluster.storage_servers"
        )
    return hosts.astype(np.int32), stores.astype(np.int32)


def ingest_rate_bps(spec: StorageTraffic, n_hosts: int, servers: StorageServers | None) -> float:
    """Return the rate at which each server reads: what is asked for, or its share of all reads."""
    asked = float(spec.ingest or 0.0)
    if servers is None or servers.read_bandwidth is None:
        return asked
    return min(asked, servers.count * servers.read_bandwidth / n_hosts)


def storage_traffic(
    spec: StorageTraffic,
    fabric: Fabric,
    *,
    bursts: int = 1,
    plane: PlaneId = PlaneId.STORAGE,
    servers: StorageServers | None = None,
) -> Traffic:
    """Return ingest (storage → servers) and checkpoints (servers → storage) of one entry.

    Args:
        spec: rates, sizes and times.
        fabric: where hosts and storage servers are.
        bursts: checkpoints to include, one every ``checkpoint_period``.
        plane: plane the traffic uses.
        servers: the storage servers; what they can read bounds the ingest.

    Raises:
        InputError: no servers or no storage servers.
    """
    hosts, stores = _ends(fabric, spec.name)
    builder = TrafficBuilder(plane=int(plane))
    if spec.ingest:
        rate_bps = ingest_rate_bps(spec, len(hosts), servers)
        _append_ingest(builder, spec, rate_bps, hosts, stores)
    if spec.checkpoint_size:
        n_hosts, n_stores = len(hosts), len(stores)
        # neighbouring servers start at different storage servers, so that all are in use
        src = np.repeat(hosts, n_stores)
        turn = (np.arange(n_hosts)[:, None] + np.arange(n_stores)[None, :]) % n_stores
        for burst in range(bursts):
            builder.plain(
                src,
                stores[turn].ravel(),
                spec.checkpoint_size / len(src),
                label=f"{spec.name}/checkpoint#{burst}",
                start_s=spec.start + burst * spec.checkpoint_period,
            )
    return builder.build()


def _append_ingest(
    builder: TrafficBuilder, spec: StorageTraffic, rate_bps: float, hosts: I32, stores: I32
) -> None:
    """Append the pieces each server reads, piece k when the rate has used up k of them."""
    total = rate_bps * spec.duration / 8.0
    pieces = min(max(1, ceil(total / PIECE_BYTES)), _MOST_PIECES)
    moment = spec.start + np.arange(pieces) * (spec.duration / pieces)
    source = (np.arange(len(hosts))[:, None] + np.arange(pieces)[None, :]) % len(stores)
    builder.plain_tasks(
        stores[source].ravel(),
        np.repeat(hosts, pieces),
        total / pieces,
        label=f"{spec.name}/ingest",
        start_s=np.tile(moment, len(hosts)),
    )


def burst_times(traffic: Traffic, name: str, finish_s: F64) -> F64:
    """Return how long each checkpoint of an entry took, from its moment to its last byte, in order.

    Args:
        traffic: what was simulated.
        name: name of the storage entry.
        finish_s: end of every task, (T,), as a result has it.
    """
    wanted = [i for i, text in enumerate(traffic.labels) if text.startswith(f"{name}/checkpoint#")]
    tasks = np.flatnonzero(np.isin(traffic.task_label, wanted))
    took: F64 = finish_s[tasks] - traffic.task_start_s[tasks]
    return took


@dataclass(frozen=True, slots=True)
class CheckpointCost:
    """What writing checkpoints costs.

    ``write_s`` is the larger of the network's time and the storage servers' own;
    ``lost_fraction`` the part of all time in which training stands still for it.
    """

    write_s: float
    network_s: float
    storage_s: float
    lost_fraction: float
    limited_by: str


def write_floor_s(size_bytes: float, servers: StorageServers) -> float:
    """Return size / what all storage servers can write, 0 where they state no limit."""
    if servers.write_bandwidth is None:
        return 0.0
    return 8.0 * size_bytes / (servers.count * servers.write_bandwidth)


def checkpoint_cost(
    size_bytes: float,
    period_s: float,
    network_s: float,
    servers: StorageServers,
    *,
    overlap: float = 0.0,
) -> CheckpointCost:
    """Return the cost of one checkpoint in every ``period_s``.

    Args:
        size_bytes: of the checkpoint, whole cluster.
        period_s: time between the starts of two.
        network_s: duration of the burst as an engine found it.
        servers: the storage servers.
        overlap: part of the write that training goes on during (asynchronous checkpoints).
    """
    storage_s = write_floor_s(size_bytes, servers)
    write_s = max(network_s, storage_s)
    stall = write_s * (1.0 - overlap)
    return CheckpointCost(
        write_s=write_s,
        network_s=network_s,
        storage_s=storage_s,
        lost_fraction=stall / (period_s + stall),
        limited_by="storage servers" if storage_s > network_s else "network",
    )
