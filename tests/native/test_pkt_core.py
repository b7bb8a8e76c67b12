"""The heart of the packet engine: exact times, conservation, fairness of a switch."""

from __future__ import annotations

import numpy as np
import pytest
from tests.native._packet import FINISHED, Net, incast, star


def test_one_packet_takes_wire_header_and_delays() -> None:
    net = star(1, 100.0)
    sim = net.sim(incast(net, 1), 4096)
    assert sim.advance()
    # 64 B header at 100 Gb/s into the cut-through switch, then the whole packet to the host
    wire = (4096 + 82) * 8 / 100e9
    assert sim.task_finish_s[0] == pytest.approx(64 * 8 / 100e9 + wire + 2 * 500e-9, abs=2e-12)


def test_stored_and_forwarded_into_a_faster_link() -> None:
    net = Net(2, 1, [(0, 2, 100.0), (1, 2, 400.0)])
    sim = net.sim([net.path(0, 2, 1)], 4096)
    sim.advance()
    expected = (4096 + 82) * 8 * (1 / 100e9 + 1 / 400e9) + 2 * 500e-9
    assert sim.task_finish_s[0] == pytest.approx(expected, abs=2e-12)


def test_a_rate_that_does_not_divide_keeps_its_remainder() -> None:
    net = Net(2, 1, [(0, 2, 120.0), (1, 2, 120.0)])
    packets = 3000
    sim = net.sim([net.path(0, 2, 1)], 4096 * packets)
    sim.advance()
    wire = packets * (4096 + 82) * 8 / 120e9
    expected = wire + 64 * 8 / 120e9 + 2 * 500e-9
    assert sim.task_finish_s[0] == pytest.approx(expected, abs=1e-11)


@pytest.mark.parametrize("senders", [2, 8])
def test_incast_fills_the_last_link(senders: int) -> None:
    net = star(senders, 100.0)
    size = 1 << 20
    sim = net.sim(incast(net, senders), size)
    sim.advance()
    assert sim.end == FINISHED
    sim.audit()
    wire = senders * 256 * (4096 + 82) * 8 / 100e9
    assert float(np.max(sim.task_finish_s)) == pytest.approx(wire + 1e-6, rel=2e-3)


def test_the_same_bits_however_the_run_is_cut_up() -> None:
    net = star(4, 100.0, kmin_bytes=50_000, kmax_bytes=200_000)
    whole = net.sim(incast(net, 4), 1 << 20)
    whole.advance()
    pieces = net.sim(incast(net, 4), 1 << 20)
    while not pieces.advance(max_events=37):
        pass
    assert np.array_equal(whole.task_finish_s, pieces.task_finish_s)
    assert whole.events == pieces.events
