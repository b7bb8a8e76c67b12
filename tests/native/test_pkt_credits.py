"""InfiniBand's credits: nothing is lost, the loop limits as it should, none goes astray."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.native._packet import FINISHED, Net, incast, star

from railweave import _native

PACKET = 4096 + 82
GBPS = 100.0
Prepare = Callable[[_native.PacketSim, dict[str, np.ndarray]], None]
CREDITS = {"credits": 1, "ecn": 0}


def lost(sim: _native.PacketSim) -> int:
    ledger = sim.ledger()
    return int(sum(v.sum() for k, v in ledger.items() if k.startswith("dropped_packets")))


def rate_of(credit_bytes: int, delay_s: float = 2e-6) -> float:
    """Return the share of the line that one flow over one switch gets."""
    net = star(1, GBPS, switch=CREDITS, pause_mask=0, credit_bytes=credit_bytes, delay_s=delay_s)
    net.propagation_s = delay_s
    packets = 2000
    sim = net.sim(incast(net, 1), packets * 4096)
    sim.advance()
    assert sim.end == FINISHED
    assert lost(sim) == 0
    return packets * PACKET * 8 / (float(sim.task_finish_s[0]) - 2 * delay_s) / (GBPS * 1e9)


def loop_s(delay_s: float = 2e-6) -> float:
    """Return how long a byte's credit is away: the whole packet sent, both ways, the update.

    At the host's end the packet counts from its last byte, so that loop is the longer one.
    """
    return PACKET * 8 / (GBPS * 1e9) + 2 * delay_s + 84 * 8 / (GBPS * 1e9)


def test_credit_of_the_loop_fills_the_line() -> None:
    enough = int(loop_s() * GBPS * 1e9 / 8) + PACKET
    assert rate_of(enough) > 0.995


@pytest.mark.parametrize("share", [0.25, 0.5, 0.75])
def test_less_credit_limits_to_credit_by_loop_time(share: float) -> None:
    packets = int(share * loop_s() * GBPS * 1e9 / 8 / PACKET)
    assert rate_of(packets * PACKET) == pytest.approx(
        packets * PACKET * 8 / loop_s() / (GBPS * 1e9), rel=0.01
    )


def test_part_of_a_packet_is_no_credit() -> None:
    assert rate_of(4 * PACKET + PACKET - 1) == pytest.approx(rate_of(4 * PACKET), rel=1e-9)


def test_a_buffer_that_no_packet_fits_is_refused() -> None:
    net = star(1, switch=CREDITS, credit_bytes=PACKET - 1)
    with pytest.raises(ValueError, match="never fits"):
        net.sim(incast(net, 1), 1 << 16).advance()


def test_credits_at_one_end_only_are_refused() -> None:
    net = star(1, credit_bytes=1 << 16)
    with pytest.raises(ValueError, match="set both or neither"):
        net.sim(incast(net, 1), 1 << 16).advance()


def test_a_sender_out_of_credit_counts_its_wait_and_sends_no_pause() -> None:
    senders = 4
    net = star(senders, switch=CREDITS, credit_bytes=20 * PACKET)
    sim = net.sim(incast(net, senders), 1 << 22)
    sim.advance()
    assert sim.end == FINISHED
    assert lost(sim) == 0
    counters = sim.pause_counters()
    assert counters["pauses_sent"].sum() == 0
    wait = counters["credit_wait_s"].reshape(8, -1)[3]
    whole = sim.now_s
    for h in range(senders):  # each has something to send all the time, and a quarter of the line
        assert 0.6 * whole < wait[net.link(h, senders + 1)] < 0.8 * whole
    assert wait[net.link(senders + 1, senders)] == 0


def test_few_events_are_spent_on_credits() -> None:
    events = {}
    for credit in (0, 1 << 20):
        net = star(1, switch={**CREDITS, "credits": int(credit != 0)}, credit_bytes=credit)
        sim = net.sim(incast(net, 1), 1 << 22)
        sim.advance()
        events[credit] = sim.events
    assert events[1 << 20] < 1.6 * events[0]


def pipe_at(net: Net, flow: int, gbps: float, frozen: int = 0) -> Prepare:
    def prepare(sim: _native.PacketSim, flows: dict[str, np.ndarray]) -> None:
        pipe = _native.PacketPipe()
        pipe.rate_kbps = int(gbps * 1e6)
        pipe.frozen = frozen
        flows["rx_pipe"][flow] = sim.add_pipe(pipe)

    return prepare


def test_a_slow_receiver_holds_its_credits() -> None:
    net = star(1, switch=CREDITS, credit_bytes=50 * PACKET)
    sim = net.sim(incast(net, 1), 1 << 22, prepare=pipe_at(net, 0, 20.0))
    sim.advance()
    assert sim.end == FINISHED
    assert lost(sim) == 0
    assert sim.task_finish_s[0] == pytest.approx(1024 * PACKET * 8 / 20e9, rel=0.01)
    assert sim.pipe_counters()["peak_bytes"][0] <= 50 * PACKET
    assert sim.pause_counters()["credit_wait_s"].reshape(8, -1)[3, net.link(2, 1)] > 0.5 * sim.now_s


def test_a_frozen_receiver_stops_all_that_shares_its_lane_until_it_thaws() -> None:
    net = Net(3, 1, [(0, 3, 100.0), (1, 3, 100.0), (2, 3, 100.0)], switch=CREDITS,
              credit_bytes=30 * PACKET)  # fmt: skip
    paths = [net.path(0, 3, 1), net.path(0, 3, 2)]
    sim = net.sim(paths, 1 << 21, start_s=[0, 20e-6], prepare=pipe_at(net, 0, 100.0, frozen=1))
    kind = _native.PACKET_FAULT_KINDS.index("freeze")
    sim.set_faults(np.array([10**9], np.uint64), np.array([kind], np.uint8),
                   np.zeros(1, np.uint32), np.zeros(1, np.uint64))  # fmt: skip
    sim.advance(until_s=0.9e-3)
    sim.audit()
    assert np.isnan(sim.task_finish_s[1])  # the victim stands behind the first flow's packets
    sim.advance()
    assert sim.end == FINISHED
    assert lost(sim) == 0


@settings(max_examples=25, deadline=None)
@given(
    senders=st.integers(1, 6),
    credit_packets=st.integers(1, 40),
    payload=st.sampled_from([256, 1024, 4096]),
    pipe_gbps=st.sampled_from([0.0, 30.0, 400.0]),
    data=st.data(),
)
def test_no_credit_is_lost_at_any_time(
    senders: int, credit_packets: int, payload: int, pipe_gbps: float, data: st.DataObject
) -> None:
    sizes = data.draw(st.lists(st.integers(1, 300_000), min_size=senders, max_size=senders))
    net = star(senders, switch=CREDITS, credit_bytes=credit_packets * (payload + 82))
    prepare = pipe_at(net, 0, pipe_gbps) if pipe_gbps else None
    sim = net.sim(incast(net, senders), sizes, payload_bytes=payload, prepare=prepare)
    while not sim.advance(max_events=97):
        sim.audit()
    assert sim.end == FINISHED
    assert lost(sim) == 0


def test_packets_lost_on_the_wire_give_their_credit_back() -> None:
    net = star(1, switch=CREDITS, credit_bytes=8 * PACKET,
               nic={"timeout_ps": 100_000_000, "retries": 100})  # fmt: skip
    sim = net.sim(incast(net, 1), 1 << 22)
    kind = _native.PACKET_FAULT_KINDS.index("link_loss")
    link, chance = np.array([net.link(0, 2)], np.uint32), np.array([2**32 // 50], np.uint64)
    sim.set_faults(np.zeros(1, np.uint64), np.array([kind], np.uint8), link, chance)
    sim.advance()
    assert sim.end == FINISHED
    assert sim.ledger()["dropped_packets_corrupt"][0] > 5
