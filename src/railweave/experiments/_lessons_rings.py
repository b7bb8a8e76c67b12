"""Lesson of the collectives lab: the ring's steps, bytes and time, and where a tree is faster."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from railweave.design.models import Algorithm, Collective, Transport
from railweave.engine import simulate
from railweave.engine.analytic import collective_time
from railweave.engine.result import Result
from railweave.engine.turning import turning_point
from railweave.experiments._bench import GBPS, ranks_of, routed, series
from railweave.experiments._model import Chart, Experiment, Outcome
from railweave.fabric.small import star
from railweave.fabric.wire import framing, payload_efficiency
from railweave.workload import Communicator
from railweave.workload.collectives import collective_traffic
from railweave.workload.patterns import plain_network

__all__ = ["RINGS", "rings"]

_SPEED: Final = 100 * GBPS
_OP: Final = Collective.ALL_REDUCE
_RING_RANKS: Final = 4
_LARGE: Final = 256_000_000
_SMALL: Final = 1024
_PAYLOAD: Final = payload_efficiency(framing(Transport.ROCEV2))
#: doublings from the small to the large size that the curves show, and halvings of the search
_POINTS, _HALVINGS = 10, 12


def _run(algorithm: Algorithm, ranks: int, size_bytes: int, engine: str = "flow") -> Result:
    """Run an all-reduce of hosts on one switch."""
    fabric = star(ranks, _SPEED)
    traffic = collective_traffic(_OP, ranks_of(range(ranks)), size_bytes, algorithm=algorithm)
    return simulate(fabric, traffic, routed(fabric), engine)


def _bare_s(ranks: int, size_bytes: int) -> float:
    """Return what the flow engine needs for a ring where messages have no headers."""
    network = plain_network(ranks, 1, link_bps=_SPEED)
    comm = Communicator.from_fabric(network.fabric, network.fabric.gpus)
    traffic = collective_traffic(_OP, comm, size_bytes, algorithm=Algorithm.RING)
    return simulate(network.fabric, traffic, network.routing, "flow").makespan_s


def _time_s(algorithm: Algorithm, ranks: int, size_bytes: int) -> float:
    return _run(algorithm, ranks, size_bytes).makespan_s


def _ahead_s(ranks: int, size_bytes: int) -> float:
    """Return by how much the tree is faster than the ring."""
    ring, tree = (_time_s(a, ranks, size_bytes) for a in (Algorithm.RING, Algorithm.TREE))
    return ring - tree


def _crossover_bytes(ranks: int, small: int, large: int) -> float:
    """Return the size from which the ring is faster; NaN where one is faster at both ends."""
    if not _ahead_s(ranks, small) > 0 > _ahead_s(ranks, large):
        return math.nan
    _, high = turning_point(lambda size: _ahead_s(ranks, round(size)) > 0, small, large, _HALVINGS)
    return float(round(high))


def rings(
    ranks: Sequence[int] = (4, 16, 64), small_bytes: int = _SMALL, large_bytes: int = _LARGE
) -> Outcome:
    """Measure the ring of four, and ring against tree.

    Args:
        ranks: of the comparison.
        small_bytes: the size at which a tree should be faster.
        large_bytes: the size at which a ring should be; also that of the ring of four.
    """
    closed = collective_time(_OP, Algorithm.RING, _RING_RANKS, large_bytes, _SPEED)
    flow = _run(Algorithm.RING, _RING_RANKS, large_bytes)
    packet = _run(Algorithm.RING, _RING_RANKS, large_bytes, "packet")
    sent = float(flow.link_bytes[0]) * _PAYLOAD  # link 0 is the port of host 0
    values = {
        "ring_rounds": float(flow.traffic.task_rounds.max()),
        "ring_bytes_per_gpu_bytes": sent,
        "ring_closed_form_s": closed.time_s,
        "ring_lower_bound_s": closed.lower_bound_s,
        "ring_payload_alone_s": _bare_s(_RING_RANKS, large_bytes),
        "ring_flow_engine_s": flow.makespan_s,
        "ring_packet_engine_s": packet.makespan_s,
        "payload_share": _PAYLOAD,
    }
    curves = []
    for n in ranks:
        for size, name in ((small_bytes, "small"), (large_bytes, "large")):
            values |= {
                f"ranks_{n}_{name}_{a.value}_s": _time_s(a, n, size)
                for a in (Algorithm.RING, Algorithm.TREE)
            }
        crossover = _crossover_bytes(n, small_bytes, large_bytes)
        if math.isfinite(crossover):
            values[f"ranks_{n}_crossover_bytes"] = crossover
        sizes = np.geomspace(small_bytes, large_bytes, _POINTS).round().astype(int).tolist()
        gain = [
            _time_s(Algorithm.RING, n, size) / _time_s(Algorithm.TREE, n, size) for size in sizes
        ]
        curves.append((f"{n} ranks", [float(size) for size in sizes], gain))
    chart = Chart(
        "ring-over-tree",
        series(curves),
        "size [B]",
        "time of the ring / time of the tree",
        log_x=True,
        log_y=True,
    )
    steps = 2 * (_RING_RANKS - 1)
    exact = (
        values["ring_rounds"] == closed.steps == steps
        and math.isclose(sent, closed.bytes_sent_per_rank, rel_tol=1e-6)
        and math.isclose(values["ring_payload_alone_s"], closed.time_s, rel_tol=1e-9)
        and all(
            math.isclose(time * _PAYLOAD, closed.time_s, rel_tol=0.01)
            for time in (flow.makespan_s, packet.makespan_s)
        )
    )
    turned = all(f"ranks_{n}_crossover_bytes" in values for n in ranks)
    return Outcome(values, (chart,), exact and turned, _reading(values, ranks))


def _reading(values: dict[str, float], ranks: Sequence[int]) -> str:
    turns = [
        f"{values[key] / 1e3:,.0f} kB at {n} ranks"
        for n in ranks
        if (key := f"ranks_{n}_crossover_bytes") in values
    ]
    where = (
        f"A tree is faster below {', '.join(turns)}: the ring's latency grows with the ranks, the "
        "tree's with their logarithm."
        if turns
        else "Between these sizes neither overtakes the other."
    )
    return (
        f"The ring of {_RING_RANKS} takes {values['ring_rounds']:.0f} rounds, each GPU sends "
        f"{values['ring_bytes_per_gpu_bytes'] / 1e6:.0f} MB, and that takes "
        f"{values['ring_payload_alone_s'] * 1e3:.2f} ms, by formula and in the flow engine, as "
        "much as the lower bound. With headers and cables it is "
        f"{values['ring_flow_engine_s'] * 1e3:.2f} ms in the flow engine and "
        f"{values['ring_packet_engine_s'] * 1e3:.2f} ms in the packet engine. {where}"
    )


RINGS: Final = Experiment(
    "lesson-ring-and-tree",
    "The ring of four, and where a tree is faster",
    "Over a ring of 4 at 100 Gb/s an all-reduce of 256 MB takes 6 rounds, 384 MB a GPU and 30.72 "
    "ms of payload; for small messages a tree is faster, for large ones the ring.",
    {
        "fabric": "hosts on one switch, 100 Gb/s, cables of 5 m, switch 600 ns",
        "operation": "all-reduce of 256 MB; ring against double tree from 1 KiB to 256 MB",
        "ranks": "4, 16, 64",
        "engine": "closed form, flow and packet for the ring of four; flow for the comparison",
    },
    rings,
)
