"""A run that cannot go on says so, and names the ports that wait for each other."""

from __future__ import annotations

import numpy as np
import pytest
from tests.native._packet import DEADLOCK, FINISHED, STUCK, Net, star

from railweave import _native

PACKET = 4096 + 82
N = 4
MILLISECOND = 1_000_000_000


def ring(**more: object) -> Net:
    """Hosts 0..3, each on its switch 4..7; the switches in a ring."""
    cables = [(h, N + h, 100.0) for h in range(N)]
    cables += [(N + h, N + (h + 1) % N, 100.0) for h in range(N)]
    return Net(N, N, cables, options={"stuck_ps": MILLISECOND}, **more)  # type: ignore[arg-type]


def around(net: Net, hops: int, hosts: int = N) -> list[list[int]]:
    """Return a path from each host, clockwise, to the one `hops` switches on."""
    return [
        net.path(h, *(N + (h + k) % N for k in range(hops + 1)), (h + hops) % N)
        for h in range(hosts)
    ]


MODES = {
    "pauses": {
        "switch": {"shared_cells": 400, "reserved_cells": 0, "pg_limit_cells": 60, "ecn": 0},
    },
    "credits": {"switch": {"credits": 1, "ecn": 0}, "credit_bytes": 4 * PACKET},
}


@pytest.mark.parametrize("mode", MODES)
def test_a_cycle_of_full_buffers_ends_the_run_and_is_named(mode: str) -> None:
    net = ring(**MODES[mode])
    sim = net.sim(around(net, 3), 1 << 22)
    assert sim.advance()
    assert sim.end == DEADLOCK
    clockwise = {net.link(N + h, N + (h + 1) % N) for h in range(N)}
    assert set(sim.cycle.tolist()) == clockwise
    assert len(sim.cycle) == N
    following = np.roll(sim.cycle, -1)
    ends = {net.link(N + h, N + (h + 1) % N): (h, (h + 1) % N) for h in range(N)}
    for a, b in zip(sim.cycle.tolist(), following.tolist(), strict=True):
        assert ends[a][1] == ends[b][0]
    assert sim.ledger()["dropped_packets_headroom"][0] == 0
    assert np.isnan(sim.task_finish_s).any()
    sim.audit()


@pytest.mark.parametrize("mode", MODES)
def test_without_the_last_edge_of_the_cycle_all_is_delivered(mode: str) -> None:
    net = ring(**MODES[mode])
    # nobody goes over the link from the fourth switch to the first
    paths = [net.path(0, 4, 5, 6, 7, 3), net.path(1, 5, 6, 7, 3), net.path(2, 6, 7, 3)]
    sim = net.sim(paths, 1 << 22)
    sim.advance()
    assert sim.end == FINISHED
    assert len(sim.cycle) == 0


def watched_ring(timeouts_ms: list[float]) -> _native.PacketSim:
    """Return the ring whose switches have a watchdog; each sender has a retry timer of its own."""
    switch = {**MODES["pauses"]["switch"], "watchdog_detect_ps": MILLISECOND // 2,
              "watchdog_restore_ps": MILLISECOND // 10}  # fmt: skip
    net = ring(switch=switch)

    def prepare(sim: _native.PacketSim, flows: dict[str, np.ndarray]) -> None:
        for flow, timeout in enumerate(timeouts_ms):
            nic = _native.PacketNicConfig()
            nic.timeout_ps = int(timeout * MILLISECOND)
            nic.retries = 7
            flows["nic"][flow] = sim.add_nic_config(nic)

    return net.sim(around(net, 3), 1 << 19, prepare=prepare)


def test_the_watchdog_breaks_the_deadlock() -> None:
    sim = watched_ring([2.0, 3.1, 4.3, 5.7])
    sim.advance()
    assert sim.end == FINISHED
    counters = sim.pause_counters()
    assert counters["storms"].sum() > 0
    assert counters["restores"].sum() == counters["storms"].sum()
    assert sim.ledger()["dropped_packets_watchdog"][0] > 0


def test_senders_that_all_retry_at_once_close_the_cycle_again() -> None:
    sim = watched_ring([2.0] * 4)
    sim.advance(until_s=7e-3)
    assert sim.pause_counters()["storms"].sum() == 3 * N + N
    assert np.isnan(sim.task_finish_s).all()


@pytest.mark.parametrize("stuck_ps", [0, MILLISECOND])
def test_a_receiver_that_is_frozen_for_ever_is_stuck_and_no_deadlock(stuck_ps: int) -> None:
    net = star(1, options={"stuck_ps": stuck_ps})

    def prepare(sim: _native.PacketSim, flows: dict[str, np.ndarray]) -> None:
        pipe = _native.PacketPipe()
        pipe.rate_kbps = 100_000_000
        pipe.buffer_bytes, pipe.xoff_bytes, pipe.xon_bytes = 1 << 20, 1 << 18, 1 << 17
        pipe.nic_link = net.link(2, 1)
        pipe.frozen = 1
        flows["rx_pipe"][0] = sim.add_pipe(pipe)

    sim = net.sim([net.path(0, 2, 1)], 1 << 24, prepare=prepare)
    assert sim.advance()
    assert sim.end == STUCK
    assert len(sim.cycle) == 0


def test_a_long_wait_is_not_taken_for_a_standstill() -> None:
    net = star(1, options={"stuck_ps": MILLISECOND})
    sim = net.sim([net.path(0, 2, 1)], 1 << 16, start_s=0.05)
    sim.advance()
    assert sim.end == FINISHED
