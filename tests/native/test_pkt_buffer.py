"""The shared buffer of a switch: thresholds, reserves, cells, headroom, and its schedulers."""

from __future__ import annotations

import numpy as np
import pytest
from tests.native._packet import FINISHED, Net, incast, star

from railweave import _native

CELL = 256
POOL_CELLS = 40_000
PACKET = 4096 + 82
PACKET_CELLS = -(-PACKET // CELL)
LOSSY = {"data_priority": 0, "ack_priority": 0, "ack_every": 16}


def pairs(n: int) -> tuple[Net, list[list[int]]]:
    """Return n receivers, each sent to by two hosts at full rate in a lossy class."""
    switch = 3 * n
    net = Net(3 * n, 1, [(h, switch, 100.0) for h in range(3 * n)], nic=LOSSY)
    paths = [net.path(h, switch, 2 * n + h // 2) for h in range(2 * n)]
    return net, paths


@pytest.mark.parametrize("n", [1, 2, 4])
@pytest.mark.parametrize("alpha", [0.5, 1.0, 4.0])
def test_greedy_queues_share_by_the_dynamic_threshold(n: int, alpha: float) -> None:
    net, paths = pairs(n)
    net.switch = {"shared_cells": POOL_CELLS, "reserved_cells": 0, "queue_alpha": alpha, "ecn": 0}
    sim = net.sim(paths, 1 << 26)
    # each queue grows at 100 Gb/s: 40,000 cells are full after 0.82 ms at the latest
    sim.advance(until_s=1.5e-3)
    expected = alpha * POOL_CELLS * CELL / (1 + n * alpha)
    queues = sim.queue_counters()["bytes"].reshape(8, -1)[0]
    held = [queues[net.link(3 * n, 2 * n + r)] * (PACKET_CELLS * CELL / PACKET) for r in range(n)]
    assert held == pytest.approx([expected] * n, abs=3 * (1 + alpha) * PACKET_CELLS * CELL)
    drops = sim.ledger()["dropped_packets_no_buffer"][0]
    assert drops > 0
    sim.audit()


def test_paused_groups_share_by_the_dynamic_threshold() -> None:
    senders, alpha = 6, 0.25
    net = star(
        senders,
        switch={"shared_cells": POOL_CELLS, "reserved_cells": 0, "pg_alpha": alpha, "ecn": 0},
    )
    sim = net.sim(incast(net, senders), 1 << 24)
    sim.advance(until_s=2e-3)
    expected = alpha * POOL_CELLS * CELL / (1 + senders * alpha)
    groups = sim.group_counters()["bytes"].reshape(8, -1)[3]
    held = [groups[net.link(h, senders + 1)] for h in range(senders)]
    assert max(held) <= expected + 2 * PACKET_CELLS * CELL
    assert min(held) > 0.9 * expected
    assert sim.pause_counters()["pauses_sent"].sum() > 0


def test_a_fixed_threshold_replaces_the_dynamic_one() -> None:
    senders, limit = 4, 1000
    net = star(senders, switch={"reserved_cells": 0, "pg_limit_cells": limit, "ecn": 0})
    sim = net.sim(incast(net, senders), 1 << 22)
    sim.advance()
    peak = sim.group_counters()["peak_bytes"].reshape(8, -1)[3]
    fed = [peak[net.link(h, senders + 1)] // CELL for h in range(senders)]
    assert all(limit - PACKET_CELLS < cells <= limit for cells in fed)


def test_packets_take_whole_cells() -> None:
    payload = 200  # 282 wire bytes: two cells of 256 B
    net = star(2, switch={"ecn": 0})
    sim = net.sim(incast(net, 2), 200 * payload, payload_bytes=payload)
    sim.advance(until_s=2e-6)
    queue = sim.queue_counters()["packets"].reshape(8, -1)[3, net.link(3, 2)]
    groups = sim.group_counters()["bytes"].reshape(8, -1)[3]
    assert queue > 10
    assert groups.sum() == 2 * CELL * queue


def test_the_reserve_is_not_taken_from_the_pool() -> None:
    reserve = 2000
    net = star(2, switch={"reserved_cells": reserve, "ecn": 0})
    sim = net.sim(incast(net, 2), 100 * 4096)
    sim.advance()
    assert sim.end == FINISHED
    assert sim.group_counters()["peak_bytes"].max() > 20 * PACKET
    assert sim.switch_counters()["peak_shared_bytes"][0] == 0


def test_lossy_queues_live_on_their_reserve_when_the_pool_is_full() -> None:
    net, paths = pairs(1)
    net.switch = {"shared_cells": POOL_CELLS, "reserved_cells": 0, "queue_alpha": 1e-9,
                  "queue_reserved_cells": 10 * PACKET_CELLS, "ecn": 0}  # fmt: skip
    sim = net.sim(paths, 1 << 22)
    sim.advance(until_s=1e-4)
    peak = sim.queue_counters()["peak_bytes"].reshape(8, -1)[0, net.link(3, 2)]
    assert peak == 10 * PACKET


def test_headroom_is_limited_for_each_group_and_by_the_pool() -> None:
    senders = 4
    full = {"shared_cells": 64, "reserved_cells": 0, "pg_alpha": 0.125, "ecn": 0}
    net = star(senders, headroom_bytes=100_000, switch=full)
    sim = net.sim(incast(net, senders), 1 << 21)
    sim.advance()
    assert sim.ledger()["dropped_packets_headroom"][0] == 0
    own = sim.group_counters()["peak_headroom_bytes"].max()
    pool = sim.switch_counters()["peak_headroom_bytes"][0]
    assert 0 < own <= 100_000 // CELL * CELL
    assert pool > 2 * own
    net = star(senders, headroom_bytes=100_000,
               switch={**full, "headroom_pool_cells": int(own // CELL)})  # fmt: skip
    sim = net.sim(incast(net, senders), 1 << 21)
    sim.advance(until_s=1e-4)
    assert sim.ledger()["dropped_packets_headroom"][0] > 0
    assert sim.switch_counters()["peak_headroom_bytes"][0] <= own


def two_classes(switch: dict[str, object], priorities: tuple[int, int]) -> np.ndarray:
    """Return what two senders of different classes got through in the same time, in bytes."""
    net = star(2, switch={"ecn": 0, "lossless": 0xFF, "strict": 0, **switch}, pause_mask=0xFF)

    def prepare(sim: _native.PacketSim, flows: dict[str, np.ndarray]) -> None:
        nic = _native.PacketNicConfig()
        nic.data_priority = priorities[1]
        flows["nic"][1] = sim.add_nic_config(nic)

    net.nic = {"data_priority": priorities[0]}
    sim = net.sim(incast(net, 2), 1 << 25, prepare=prepare)
    sim.advance(until_s=2e-3)
    sim.audit()
    return sim.flow_counters()["expected_packet"].astype(float)


@pytest.mark.parametrize("weights", [(1, 1), (1, 3), (60, 40)])
def test_deficit_round_robin_gives_each_its_weight(weights: tuple[int, int]) -> None:
    quantum = [0, 0, weights[0] * 500, weights[1] * 500, 0, 0, 0, 0]
    got = two_classes({"quantum_bytes": quantum}, (2, 3))
    assert got[0] / got.sum() == pytest.approx(weights[0] / sum(weights), abs=0.01)


def test_a_strict_class_goes_first_and_the_rest_get_what_it_leaves() -> None:
    got = two_classes({"strict": 1 << 3}, (2, 3))
    assert got[1] > 0.97 * got.sum()
    assert got[0] > 0  # before the strict class filled its queue
