"""Packet and flow engine beside each other where no packet waits for another flow's.

Receivers admit permutations and incasts (clear-to-send), so that queues stay short and nothing
blocks; rings need no admission, as each host receives from one other (a clear-to-send would cost
every chunk a round trip). Both engines count wire bytes over identical paths. Then the packets
share links as max-min fair flows do, and mean completion times agree to 5 %.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from railweave.design.models import CongestionSpec
from railweave.engine import simulate
from railweave.engine.packet_settings import default_settings
from railweave.fabric import Fabric, PlaneId
from railweave.fabric.routing import RoutingSet, compile_routing
from railweave.fabric.small import Cable, small_fabric
from railweave.workload import Traffic, TrafficBuilder

MIB = 1 << 20
HOSTS = 16


@cache
def fabric() -> Fabric:
    """Sixteen hosts on four leaves and four spines, 400 Gb/s, full bisection."""
    cables = [Cable(h, HOSTS + h // 4, 400e9) for h in range(HOSTS)]
    cables += [
        Cable(HOSTS + leaf, HOSTS + 4 + spine, 400e9, 20.0)
        for leaf in range(4)
        for spine in range(4)
    ]
    return small_fabric("leaf-spine", HOSTS, (1,) * 4 + (2,) * 4, cables, model="sn5600")


def permutation(seed: int) -> Traffic:
    rng = np.random.default_rng(seed)
    src, dst = np.arange(HOSTS), rng.permutation(HOSTS)
    keep = src != dst
    return plain(src[keep], dst[keep], float(rng.integers(2, 9)) * MIB)


def incast(seed: int) -> Traffic:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 9))
    ends = rng.permutation(HOSTS)[: count + 1]
    return plain(ends[1:], np.full(count, ends[0]), float(rng.integers(2, 9)) * MIB)


def plain(src: np.ndarray, dst: np.ndarray, size_bytes: float) -> Traffic:
    builder = TrafficBuilder()
    builder.plain(src, dst, np.full(len(src), size_bytes), label="traffic")
    return builder.build()


def ring(seed: int) -> Traffic:
    """A ring over some of the hosts in random order, 2 (n − 1) chunks."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 12))
    order = rng.permutation(HOSTS)[:n]
    builder = TrafficBuilder()
    builder.coupled(
        order,
        np.roll(order, -1),
        float(rng.integers(1, 4)) * MIB,
        2 * (n - 1),
        (np.arange(n), np.roll(np.arange(n), 1), np.ones(n, dtype=np.int32)),
        label="ring",
    )
    return builder.build()


CASES = (
    [pytest.param(permutation, s, id=f"permutation-{s}") for s in range(8)]
    + [pytest.param(incast, s, id=f"incast-{s}") for s in range(6)]
    + [pytest.param(ring, s, id=f"ring-{s}") for s in range(6)]
)


@pytest.mark.parametrize(("make", "seed"), CASES)
def test_mean_completion_agrees_to_five_percent(make, seed: int) -> None:
    traffic = make(seed)
    routing = RoutingSet.of(compile_routing(fabric(), PlaneId.BACKEND, seed=seed))
    scheme = "pfc" if make is ring else "pfc+receiver-driven"
    admitted = CongestionSpec.model_validate({"scheme": scheme})
    settings = default_settings(fabric(), routing, admitted)
    packets = simulate(fabric(), traffic, routing, "packet", settings=settings, seed=seed)
    flows = simulate(fabric(), traffic, routing, "flow")
    assert packets.finished
    assert not len(packets.record.pause_intervals["link"])  # nothing blocked
    assert np.array_equal(packets.paths.link, flows.paths.link)
    mean = np.mean(packets.stream_finish_s) / np.mean(flows.stream_finish_s)
    assert mean == pytest.approx(1.0, abs=0.05)
    assert packets.link_bytes.sum() == pytest.approx(flows.link_bytes.sum(), rel=0.03)
