"""Curves of a collective: time and bandwidths over sizes, or over ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from railweave.design.models import Algorithm, Collective
from railweave.engine.analytic import collective_time
from railweave.engine.flow import simulate_flow
from railweave.engine.metrics import collective_bandwidth
from railweave.errors import InputError
from railweave.provenance import Assumption
from railweave.workload import Communicator, collective_traffic, require_algorithm
from railweave.workload.patterns import PlainNetwork, plain_network

__all__ = ["CURVE_SIZES", "CollectiveCurve", "Wires", "rank_curve", "size_curve"]

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

#: 25 sizes, 1 KiB to 16 GiB
CURVE_SIZES: Final = tuple(1 << power for power in range(10, 35))


@dataclass(frozen=True, slots=True)
class Wires:
    """What the ranks are joined by: NICs, and within servers a scale-up network.

    ``inside_…`` are used with more than one rank a server; None takes the others'. Messages have
    no headers.
    """

    bandwidth_bps: float
    latency_s: float = 0.0
    ranks_per_server: int = 1
    inside_bandwidth_bps: float | None = None
    inside_latency_s: float | None = None


@dataclass(frozen=True, eq=False)
class CollectiveCurve:
    """One collective at several sizes or numbers of ranks; all arrays have one shape, (K,).

    ``algbw_Bps`` and ``busbw_Bps`` are in byte/s as in nccl-tests; ``lower_bound_s`` is what no
    algorithm can beat.
    """

    op: Collective
    algorithm: Algorithm
    engine: str
    ranks: I64
    size_bytes: I64
    time_s: F64
    algbw_Bps: F64  # noqa: N815 - byte/s, as opposed to bit/s
    busbw_Bps: F64  # noqa: N815
    lower_bound_s: F64
    assumptions: tuple[Assumption, ...]


def size_curve(
    op: Collective,
    algorithm: Algorithm | None,
    ranks: int,
    wires: Wires,
    sizes_bytes: Sequence[int] = CURVE_SIZES,
    *,
    engine: str = "analytic",
) -> CollectiveCurve:
    """Return a collective over sizes.

    Args:
        op: operation.
        algorithm: None takes the operation's default.
        ranks: at least 2; a multiple of the ranks of a server.
        wires: what joins them.
        sizes_bytes: as nccl-tests counts them.
        engine: ``"analytic"`` (closed forms) or ``"flow"`` (on a non-blocking network).

    Raises:
        InputError: a value out of range, an unknown engine, or an algorithm that cannot do it.
    """
    return _curve(op, algorithm, [(ranks, size) for size in sizes_bytes], wires, engine)


def rank_curve(
    op: Collective,
    algorithm: Algorithm | None,
    ranks: Sequence[int],
    wires: Wires,
    size_bytes: int,
    *,
    engine: str = "analytic",
) -> CollectiveCurve:
    """Return a collective over numbers of ranks; see :func:`size_curve`."""
    return _curve(op, algorithm, [(n, size_bytes) for n in ranks], wires, engine)


def _curve(
    op: Collective,
    algorithm: Algorithm | None,
    points: list[tuple[int, int]],
    wires: Wires,
    engine: str,
) -> CollectiveCurve:
    if engine not in ("analytic", "flow"):
        raise InputError(f"engine {engine!r} draws no curves; allowed: analytic, flow")
    chosen = require_algorithm(op, algorithm)
    forms = [
        collective_time(
            op,
            chosen,
            n,
            size,
            wires.bandwidth_bps,
            wires.latency_s,
            ranks_per_server=_per_server(n, wires),
            inside_bandwidth_bps=wires.inside_bandwidth_bps,
            inside_latency_s=wires.inside_latency_s,
        )
        for n, size in points
    ]
    time_s = np.array([form.time_s for form in forms])
    assumptions = forms[0].assumptions if forms else ()
    if engine == "flow":
        time_s, assumptions = _flow_times(op, chosen, points, wires)
    bands = np.array(
        [
            collective_bandwidth(op, n, size, float(took)) if took > 0 else (0.0, 0.0)
            for (n, size), took in zip(points, time_s, strict=True)
        ]
    ).reshape(-1, 2)
    return CollectiveCurve(
        op,
        chosen,
        engine,
        np.array([n for n, _ in points], dtype=np.int64),
        np.array([size for _, size in points], dtype=np.int64),
        time_s,
        bands[:, 0],
        bands[:, 1],
        np.array([form.lower_bound_s for form in forms]),
        assumptions,
    )


def _per_server(ranks: int, wires: Wires) -> int:
    if wires.ranks_per_server < 1 or ranks % wires.ranks_per_server:
        raise InputError(
            f"ranks: {ranks} do not fill servers of {wires.ranks_per_server}; allowed: multiples "
            f"of {wires.ranks_per_server}"
        )
    return wires.ranks_per_server


def _flow_times(
    op: Collective, algorithm: Algorithm, points: list[tuple[int, int]], wires: Wires
) -> tuple[F64, tuple[Assumption, ...]]:
    """Simulate every point on a network of its ranks."""
    times = np.zeros(len(points))
    said: dict[Assumption, None] = {}
    networks: dict[int, PlainNetwork] = {}
    for k, (n, size) in enumerate(points):
        network = networks.get(n)
        if network is None:
            network = networks[n] = _network(n, wires)
        comm = Communicator.from_fabric(network.fabric, network.fabric.gpus[:n])
        traffic = collective_traffic(op, comm, size, algorithm=algorithm)
        result = simulate_flow(network.fabric, traffic, network.routing)
        times[k] = result.makespan_s
        said.update(dict.fromkeys(result.assumptions))
    return times, tuple(said)


def _network(ranks: int, wires: Wires) -> PlainNetwork:
    return plain_network(
        ranks // wires.ranks_per_server,
        wires.ranks_per_server,
        link_bps=wires.bandwidth_bps,
        latency_s=wires.latency_s,
        scale_up_bps=wires.inside_bandwidth_bps or wires.bandwidth_bps,
        scale_up_latency_s=wires.inside_latency_s,
        name="curve",
    )
