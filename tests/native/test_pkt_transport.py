"""Queue pairs: go-back-N, selective repeat, timers, grants, pipes into memory, notifications."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from tests.native._packet import FAILED, FINISHED, STUCK, Net, incast, star

from railweave import _native
from railweave.qos import _algorithms as qos

KINDS = list(_native.PACKET_FAULT_KINDS)
WIRE = 4096 + 82
PACKET_S = WIRE * 8 / 100e9
ALWAYS = 1 << 32


def fault(sim: _native.PacketSim, *faults: tuple[float, str, int, int], **more: object) -> None:
    """Give the simulation faults as (time in s, kind, index, value)."""
    sim.set_faults(
        np.array([round(f[0] * 1e12) for f in faults], np.uint64),
        np.array([KINDS.index(f[1]) for f in faults], np.uint8),
        np.array([f[2] for f in faults], np.uint32),
        np.array([f[3] for f in faults], np.uint64),
        **more,
    )


def lose(sim: _native.PacketSim, link: int, *spans: tuple[float, float]) -> None:
    """Lose all that begins on the link within these spans of time."""
    fault(
        sim,
        *(f for a, b in spans for f in ((a, "link_loss", link, ALWAYS), (b, "link_loss", link, 0))),
    )


def count(sim: _native.PacketSim, name: str, flow: int = 0) -> int:
    return int(sim.flow_counters()[name][flow])


def dropped(sim: _native.PacketSim, why: str) -> int:
    return int(sim.ledger()[f"dropped_packets_{why}"][0])


def ended(sim: _native.PacketSim, end: int = FINISHED) -> _native.PacketSim:
    assert sim.advance()
    assert sim.end == end
    sim.audit()
    return sim


def one(net: Net, packets: int, **more: object) -> _native.PacketSim:
    return net.sim(incast(net, 1), 4096 * packets, **more)  # type: ignore[arg-type]


def pipe(rate_gbps: float, **more: int) -> _native.PacketPipe:
    p = _native.PacketPipe()
    p.rate_kbps = round(rate_gbps * 1e6)
    for name, value in more.items():
        setattr(p, name, value)
    return p


def during(packet: int) -> tuple[float, float]:
    """Return a span in which only this packet of the first 100 begins on the first link."""
    return ((packet - 0.5) * PACKET_S, (packet + 0.5) * PACKET_S)


# go-back-N


def test_a_gap_is_answered_by_one_nak_and_all_after_it_sent_again() -> None:
    net = star(1)
    sim = one(net, 100)
    lose(sim, net.link(0, 2), during(10))
    ended(sim)
    assert dropped(sim, "corrupt") == 1
    assert count(sim, "naks_sent") == count(sim, "naks_received") == 1
    # all that was sent in the round trip before the NAK came goes again
    late = dropped(sim, "out_of_order")
    assert late >= 5
    assert count(sim, "retransmitted") == late + 1
    assert count(sim, "out_of_order") == late
    assert count(sim, "duplicates") == count(sim, "timeouts") == 0
    assert count(sim, "sent") == 100 + late + 1
    expected = (100 + late + 1) * PACKET_S + 64 * 8 / 100e9 + 1e-6
    assert sim.task_finish_s[0] == pytest.approx(expected, abs=1.01 * PACKET_S)


def test_a_lost_retransmission_is_asked_for_again() -> None:
    net = star(1)
    first = one(net, 100)
    lose(first, net.link(0, 2), during(10))
    ended(first)
    again_s = (10 + count(first, "retransmitted")) * PACKET_S  # when packet 10 goes again
    sim = one(net, 100)
    lose(sim, net.link(0, 2), during(10), (again_s - 0.9 * PACKET_S, again_s + 0.9 * PACKET_S))
    ended(sim)
    assert dropped(sim, "corrupt") >= 2
    assert count(sim, "naks_sent") == 2
    assert count(sim, "timeouts") == 0


def test_lost_acknowledgement_means_duplicates_which_are_answered() -> None:
    net = star(2, nic={"timeout_ps": 30_000_000})
    sim = net.sim(incast(net, 2), 4096 * 8, start_s=[0.0, 100e-6])  # the second keeps the run going
    lose(sim, net.link(2, 3), (0.0, 20e-6))
    ended(sim)
    assert count(sim, "timeouts") == 1
    assert count(sim, "duplicates") == dropped(sim, "duplicate") == 8
    assert count(sim, "acked_packets") == 8


def test_acknowledgements_stand_for_ack_every_packets_and_end_each_message() -> None:
    for every, acks in ((1, 40), (16, 3), (1000, 1)):
        net = star(1, nic={"ack_every": every})
        sim = ended(one(net, 40))
        assert count(sim, "acks_sent") == acks


@pytest.mark.parametrize("every", [1, 3, 64])
def test_a_window_limits_the_rate_and_never_stops_the_sender(every: int) -> None:
    window = 3
    net = star(1, nic={"ack_every": every, "max_in_flight_bytes": float(window * WIRE)})
    sim = one(net, 300)
    sim.watch(1_000_000, np.zeros(0, np.uint32), np.zeros(1, np.uint32))
    ended(sim)
    flight = sim.flow_samples()["in_flight_bytes"]
    assert 0 < flight.max() <= window * WIRE
    assert np.all(flight % WIRE == 0)
    ack = 86 * 8 / 100e9
    round_trip = PACKET_S + 2 * 64 * 8 / 100e9 + ack + 2e-6
    rate = window * WIRE / round_trip
    assert rate < 100e9 / 8
    if every == 1:
        assert sim.task_finish_s[0] == pytest.approx(300 * WIRE / rate, rel=0.02)
    else:
        assert sim.task_finish_s[0] >= 0.98 * 300 * WIRE / rate


def test_bytes_in_flight_count_short_last_packets_exactly() -> None:
    net = star(1, nic={"ack_every": 1, "max_in_flight_bytes": 9.5 * WIRE})
    sim = net.sim(incast(net, 1), 4096 + 100, rounds=50)
    sim.watch(50_000, np.zeros(0, np.uint32), np.zeros(1, np.uint32))
    ended(sim)
    samples = sim.flow_samples()
    out = samples["next_packet"].astype(int) - samples["acked_packets"].astype(int)
    short = samples["next_packet"].astype(int) // 2 - samples["acked_packets"].astype(int) // 2
    assert out.max() > 4
    assert np.array_equal(samples["in_flight_bytes"], (out - short) * WIRE + short * 182.0)


# selective repeat

SR = {"selective_repeat": 1, "timeout_ps": 100_000_000}


def test_selective_repeat_fills_only_the_hole() -> None:
    net = star(1, nic=SR)
    sim = one(net, 100)
    lose(sim, net.link(0, 2), during(10), during(14))
    ended(sim)
    assert dropped(sim, "corrupt") == count(sim, "retransmitted") == 2
    assert count(sim, "duplicates") == count(sim, "timeouts") == dropped(sim, "out_of_order") == 0
    assert count(sim, "out_of_order") > 5
    expected = 102 * PACKET_S + 64 * 8 / 100e9 + 1e-6
    assert sim.task_finish_s[0] == pytest.approx(expected, abs=1.01 * PACKET_S)


def test_a_hole_whose_filling_is_lost_is_filled_again() -> None:
    net = star(1, nic=SR)
    # heard of at: packet 11 there (cut through), its answer back
    heard = 11 * PACKET_S + PACKET_S + 2 * 64 * 8 / 100e9 + 86 * 8 / 100e9 + 2e-6
    sim = one(net, 100)
    lose(sim, net.link(0, 2), during(10), (heard - 0.1 * PACKET_S, heard + PACKET_S))
    ended(sim)
    assert count(sim, "retransmitted") == dropped(sim, "corrupt") >= 2
    assert count(sim, "timeouts") == 0


@pytest.mark.parametrize("chance", [0.001, 0.01, 0.1])
def test_go_back_n_collapses_under_loss_where_selective_repeat_degrades_gently(
    chance: float,
) -> None:
    finish = {}
    for repeat in (0, 1):
        net = star(1, nic={"selective_repeat": repeat, "timeout_ps": 20_000_000})
        sim = one(net, 4000)
        fault(sim, (0.0, "link_loss", net.link(2, 1), round(chance * 2**32)))
        ended(sim)
        lost = dropped(sim, "corrupt")
        assert lost > 0
        if repeat:
            assert count(sim, "retransmitted") - count(sim, "duplicates") == lost
            assert dropped(sim, "out_of_order") == 0
        finish[repeat] = sim.task_finish_s[0]
    ideal = 4000 * PACKET_S + 1e-6
    assert finish[1] < (1 + 2 * chance) * ideal + 60e-6
    assert finish[0] > (1 + 5 * chance) * ideal


def test_a_loss_on_the_way_back_costs_no_data() -> None:
    net = star(1, nic={**SR, "ack_every": 4})
    sim = one(net, 2000)
    fault(sim, (0.0, "link_loss", net.link(1, 2), round(0.2 * 2**32)))
    ended(sim)
    assert sim.ledger()["dropped_packets_corrupt"][1] > 50
    assert count(sim, "retransmitted") == count(sim, "duplicates") == 0


def overtaken(**nic: object) -> _native.PacketSim:
    """A flow that is moved from a long way to a short one in its middle."""
    cables = [(0, 2, 100.0), (2, 3, 100.0), (3, 4, 100.0), (2, 4, 100.0), (4, 1, 100.0)]
    net = Net(2, 3, cables, delay_s=2e-6, nic={"timeout_ps": 200_000_000, **nic})
    sim = net.sim([net.path(0, 2, 3, 4, 1)], 4096 * 200)
    epoch = _native.PacketEpoch()
    epoch.flow = np.zeros(1, np.uint32)
    epoch.path_ptr = np.array([0, 3], np.uint64)
    epoch.path_link = np.array(net.path(0, 2, 4, 1), np.uint32)
    fault(sim, (20e-6, "reroute", 0, 0), epochs=[epoch])
    return ended(sim)


def test_reordering_costs_nothing_below_the_threshold() -> None:
    eager = overtaken(selective_repeat=1, reorder_packets=0)
    patient = overtaken(selective_repeat=1, reorder_packets=32)
    back = overtaken(selective_repeat=0)
    assert count(eager, "out_of_order") > 3
    assert count(eager, "retransmitted") > 3
    assert count(eager, "duplicates") == count(eager, "retransmitted")
    assert count(patient, "out_of_order") > 3
    assert count(patient, "retransmitted") == count(patient, "duplicates") == 0
    assert count(back, "naks_sent") >= 1
    assert count(back, "retransmitted") > count(eager, "retransmitted")
    assert back.task_finish_s[0] > patient.task_finish_s[0]


def test_a_sender_stays_within_the_reorder_window() -> None:
    wide = overtaken(selective_repeat=1, reorder_packets=32)
    few = overtaken(selective_repeat=1, reorder_packets=32, reorder_window_packets=2)
    assert count(few, "discarded") == count(few, "retransmitted") == 0
    assert few.task_finish_s[0] > 2 * wide.task_finish_s[0]


def test_trimmed_packets_are_sent_again_without_a_timeout() -> None:
    switch = {
        "trimming": 1,
        "lossless": 0,
        "shared_cells": 800,
        "queue_alpha": 0.5,
        "queue_reserved_cells": 16,
    }
    # headers overtake data, which must not count as loss
    nic = {"selective_repeat": 1, "reorder_packets": 64, "max_in_flight_bytes": 4.0 * WIRE}
    net = star(8, switch=switch, nic=nic)
    sim = ended(net.sim(incast(net, 8), 4096 * 100))
    flows = sim.flow_counters()
    trimmed = int(flows["trimmed"].sum())
    assert trimmed > 10
    assert sim.ledger()["dropped_bytes_trimmed"][0] == trimmed * (WIRE - 84)
    assert dropped(sim, "no_buffer") == 0
    assert flows["naks_sent"].sum() == flows["retransmitted"].sum() == trimmed
    assert flows["duplicates"].sum() == flows["timeouts"].sum() == 0


# retry timer


def test_used_up_retries_fail_the_message_and_let_the_others_go_on() -> None:
    retries = 3
    net = star(2, nic={"timeout_ps": 30_000_000, "retries": retries})
    sim = net.sim(incast(net, 2), 4096 * 50, start_s=[0.0, 400e-6])
    fault(sim, (5e-6, "link_loss", net.link(0, 3), ALWAYS))
    ended(sim, FAILED)
    assert sim.failed_flows.tolist() == [0]
    assert count(sim, "timeouts") == retries + 1
    assert np.isnan(sim.task_finish_s[0])
    assert np.isnan(sim.stream_finish_s[0])
    assert sim.task_finish_s[1] == pytest.approx(400e-6 + 50 * PACKET_S + 1e-6, rel=1e-2)
    assert sim.now_s == pytest.approx(sim.task_finish_s[1])


def test_a_timer_repeats_what_is_lost_at_the_end() -> None:
    for repeat in (0, 1):
        net = star(1, nic={"timeout_ps": 30_000_000, "selective_repeat": repeat})
        sim = one(net, 50)
        lose(sim, net.link(0, 2), during(49))
        ended(sim)
        assert count(sim, "timeouts") == 1
        assert sim.task_finish_s[0] > 30e-6
        assert sim.task_finish_s[0] < 30e-6 + 100 * PACKET_S


def test_a_paused_sender_does_not_use_up_its_retries() -> None:
    net = star(1, nic={"timeout_ps": 15_000_000, "retries": 2}, switch={"pg_limit_cells": 100})
    down = net.link(2, 1)
    stuck = pipe(100, buffer_bytes=200_000, xoff_bytes=20_000, xon_bytes=10_000, nic_link=down)
    sim = with_pipe(net, 100, stuck)
    fault(sim, (5e-6, "freeze", 0, 1), (300e-6, "freeze", 0, 0))
    ended(sim)
    assert sim.pause_counters()["pauses_felt"][3 * 4 + net.link(0, 2)] > 0
    assert 1 <= count(sim, "timeouts") <= 2
    assert sim.task_finish_s[0] > 300e-6


# receiver not ready


def test_not_ready_is_waited_for() -> None:
    wait = 20_000_000
    for repeat in (0, 1):
        net = star(1, nic={"rnr_timer_ps": wait, "selective_repeat": repeat})
        sim = one(net, 20)
        fault(sim, (0.0, "not_ready", 0, 1), (50e-6, "not_ready", 0, 0))
        ended(sim)
        assert count(sim, "rnr_naks") == 3
        assert 50e-6 < sim.task_finish_s[0] < 50e-6 + wait * 1e-12 + 40 * PACKET_S
        assert count(sim, "naks_sent") == count(sim, "timeouts") == 0


def test_a_begun_message_has_its_receive() -> None:
    net = star(1, nic={"rnr_timer_ps": 10_000_000})
    sim = one(net, 50, rounds=2)
    fault(sim, (5e-6, "not_ready", 0, 1), (60e-6, "not_ready", 0, 0))
    ended(sim)
    assert sim.message_finish_s[0] == pytest.approx(50 * PACKET_S + 1e-6, rel=1e-2)
    assert sim.message_finish_s[1] > 60e-6


def test_retries_for_a_receiver_that_is_not_ready_run_out_unless_seven() -> None:
    for retries, end in ((2, FAILED), (7, FINISHED)):
        net = star(1, nic={"rnr_timer_ps": 1_000_000, "rnr_retries": retries})
        sim = one(net, 20)
        sim.set_not_ready(0, True)
        fault(sim, (100e-6, "not_ready", 0, 0))
        ended(sim, end)
        if end == FAILED:
            assert count(sim, "rnr_naks") == retries + 1
        else:
            assert count(sim, "rnr_naks") > 7


# receiver-driven grants


def test_grants_keep_the_last_queue_short() -> None:
    senders, size = 16, 1 << 18
    peak = {}
    for window in (0, 32 * WIRE):
        nic = {"receiver_grant_bytes": 4 * WIRE if window else 0, "receiver_window_bytes": window}
        net = star(senders, nic=nic, pause_mask=0)
        sim = ended(net.sim(incast(net, senders), size))
        queues = sim.queue_counters()
        last = (queues["link"] == net.link(senders + 1, senders)) & (queues["priority"] == 3)
        peak[window] = int(queues["peak_bytes"][last][0])
        ideal = senders * 64 * PACKET_S + 1e-6
        assert np.nanmax(sim.task_finish_s) == pytest.approx(ideal, rel=0.05)
    assert peak[0] > 40 * WIRE
    assert peak[32 * WIRE] <= 32 * WIRE


def test_grants_go_round_the_asking_flows() -> None:
    nic = {"receiver_grant_bytes": 2 * WIRE, "receiver_window_bytes": 12 * WIRE}
    net = star(4, nic=nic)
    sim = ended(net.sim(incast(net, 4), 4096 * 300))
    finish = sim.task_finish_s
    assert finish.min() > 0.96 * finish.max()


@pytest.mark.parametrize("repeat", [0, 1])
def test_lost_requests_grants_and_granted_data_are_repeated(repeat: int) -> None:
    nic = {
        "receiver_grant_bytes": 4 * WIRE,
        "receiver_window_bytes": 16 * WIRE,
        "timeout_ps": 20_000_000,
        "retries": 50,
        "selective_repeat": repeat,
    }
    net = star(4, nic=nic)
    sim = net.sim(incast(net, 4), 4096 * 100, rounds=3)
    chance = round(0.03 * 2**32)
    fault(
        sim,
        *((0.0, "link_loss", net.link(h, 5), chance) for h in range(5)),
        *((0.0, "link_loss", net.link(5, h), chance) for h in range(5)),
    )
    ended(sim)
    assert sim.flow_counters()["timeouts"].sum() > 0


# pipes


def with_pipe(net: Net, packets: int, p: _native.PacketPipe, **more: object) -> _native.PacketSim:
    def prepare(sim: _native.PacketSim, flows: dict[str, np.ndarray]) -> None:
        flows["rx_pipe"][:] = sim.add_pipe(p)

    return one(net, packets, prepare=prepare, **more)


def test_a_slow_way_into_memory_pauses_the_switch() -> None:
    net = star(1, nic={"timeout_ps": 1_000_000_000})
    down = net.link(2, 1)
    slow = pipe(40, buffer_bytes=300_000, xoff_bytes=50_000, xon_bytes=30_000, nic_link=down)
    sim = ended(with_pipe(net, 1000, slow))
    assert sim.task_finish_s[0] == pytest.approx(1000 * PACKET_S * 2.5 + 1e-6, rel=0.01)
    assert dropped(sim, "rx_overflow") == 0
    assert sim.pause_counters()["pauses_sent"][3 * 4 + down] > 3
    assert 50_000 < sim.pipe_counters()["peak_bytes"][0] < 300_000


def test_without_pauses_the_adapter_overflows_and_data_goes_again() -> None:
    net = star(1, nic={"timeout_ps": 100_000_000}, pause_mask=0)
    slow = pipe(40, buffer_bytes=60_000, xoff_bytes=50_000, xon_bytes=30_000, nic_link=2)
    sim = ended(with_pipe(net, 1000, slow))
    assert dropped(sim, "rx_overflow") > 3
    assert count(sim, "naks_sent") > 3
    assert sim.pause_counters()["pauses_sent"].sum() == 0
    assert sim.task_finish_s[0] >= 1000 * PACKET_S * 2.5


def test_a_stuck_pipe_holds_what_it_has_and_goes_on() -> None:
    net = star(1)
    free = ended(with_pipe(net, 10, pipe(50))).task_finish_s[0]
    t = free - 3 * WIRE * 8 / 50e9  # three packets are still to be moved
    for stuck in (2e-6, 500e-6):
        sim = with_pipe(net, 10, pipe(50))
        fault(sim, (t, "freeze", 0, 1), (t + stuck, "freeze", 0, 0))
        ended(sim)
        assert sim.task_finish_s[0] == pytest.approx(free + stuck, abs=1e-9)
    sim = with_pipe(net, 10, pipe(50))
    sim.advance(t)
    sim.freeze_pipe(0, True)
    sim.advance(t + 1e-6)
    sim.freeze_pipe(0, False)
    ended(sim)
    assert sim.task_finish_s[0] == pytest.approx(free + 1e-6, abs=1e-9)
    sim = with_pipe(net, 10, pipe(50))
    sim.freeze_pipe(0, True)
    ended(sim, STUCK)
    assert np.isnan(sim.task_finish_s[0])


def test_a_pipe_that_changes_its_speed_moves_the_rest_at_the_new_one() -> None:
    net = star(1)
    free = ended(with_pipe(net, 10, pipe(50))).task_finish_s[0]
    left = 2 * WIRE * 8 / 50e9
    for rate, factor in ((25, 2.0), (100, 0.5)):
        sim = with_pipe(net, 10, pipe(50))
        fault(sim, (free - left, "pipe_rate", 0, rate * 1_000_000))
        ended(sim)
        assert sim.task_finish_s[0] == pytest.approx(free - left + factor * left, abs=1e-9)


@pytest.mark.parametrize("flows", [1, 3])
def test_a_pipe_shared_by_senders_is_shared_fairly(flows: int) -> None:
    cables = [(0, 5, 100.0), *((1 + i, 5, 100.0) for i in range(4))]
    net = Net(5, 1, cables)

    def prepare(sim: _native.PacketSim, given: dict[str, np.ndarray]) -> None:
        given["tx_pipe"][:] = sim.add_pipe(pipe(30))

    sim = net.sim([net.path(0, 5, 1 + i) for i in range(flows)], 4096 * 300, prepare=prepare)
    ended(sim)
    wire = flows * 300 * WIRE * 8 / 30e9
    assert sim.task_finish_s.max() == pytest.approx(wire + 1e-6, rel=0.01)
    assert sim.task_finish_s.min() > 0.98 * sim.task_finish_s.max()


# notifications


def algorithm(name: str) -> tuple[str, dict[str, float]]:
    control = qos.algorithm(name, 100e9)
    return control.kind, control.parameters()


def marked(**nic: object) -> _native.PacketSim:
    net = star(
        4, kmin_bytes=20_000, kmax_bytes=80_000, nic=nic, algorithm=algorithm("dcqcn-firmware")
    )
    return ended(net.sim(incast(net, 4), 1 << 20))


def test_notifications_keep_their_interval_and_may_be_ignored_or_off() -> None:
    interval = 4e-6
    plain = marked(cnp_interval_ps=round(interval * 1e12))
    flows = plain.flow_counters()
    assert flows["marked"].sum() > flows["cnp_sent"].sum() > 0
    assert np.all(flows["cnp_sent"] <= plain.now_s / interval + 1)
    often = marked(cnp_interval_ps=0)
    assert sums(often, ["cnp_sent"]) == sums(often, ["marked"])
    deaf = marked(ignores_cnp=1)
    assert sums(deaf, ["cnp_handled"]) == [0] < sums(deaf, ["cnp_ignored"])
    silent = marked(sends_cnp=0)
    assert sums(silent, ["marked"]) > [0] == sums(silent, ["cnp_sent"])
    assert plain.task_finish_s.max() > deaf.task_finish_s.max()


def sums(sim: _native.PacketSim, names: Sequence[str]) -> list[int]:
    return [int(sim.flow_counters()[n].sum()) for n in names]


@pytest.mark.parametrize("name", ["none", "dctcp", "cubic", "nscc", "swift", "hpcc", "timely"])
@pytest.mark.parametrize("repeat", [0, 1])
def test_congestion_control_survives_loss(name: str, repeat: int) -> None:
    net = star(
        3,
        kmin_bytes=50_000,
        kmax_bytes=100_000,
        nic={"selective_repeat": repeat, "timeout_ps": 50_000_000, "retries": 30, "ack_every": 4},
        algorithm=algorithm(name) if name != "none" else None,
    )
    sim = net.sim(incast(net, 3), 1 << 19)
    fault(sim, (0.0, "link_loss", net.link(4, 3), round(0.01 * 2**32)))
    ended(sim)
    assert sums(sim, ["retransmitted"])[0] > 0
    assert sim.failed_flows.size == 0
