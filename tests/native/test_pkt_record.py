"""What a run writes down, and that writing changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
from tests.native._packet import FINISHED, STUCK, Net, incast, star

from railweave import _native

KIND = {name: i for i, name in enumerate(_native.PACKET_TRACE_KINDS)}
ECN = {"kmin_bytes": 20_000, "kmax_bytes": 80_000}


def congested() -> Net:
    return star(4, switch={"pg_alpha": 0.02, "shared_cells": 8000}, **ECN)


def run(net: Net, **watch: object) -> _native.PacketSim:
    senders = net.hosts - 1
    sim = net.sim(incast(net, senders), 1 << 20)
    if watch:
        none = np.zeros(0, np.uint32)
        sim.watch(**{"period_ps": 0, "link": none, "flow": none, **watch})
    sim.advance()
    sim.audit()
    return sim


def test_watching_changes_no_time() -> None:
    plain = run(congested())
    links, flows = np.arange(10, dtype=np.uint32), np.arange(4, dtype=np.uint32)
    seen = run(congested(), period_ps=777_000, link=links, flow=flows, trace_limit=10_000)
    assert np.array_equal(plain.task_finish_s, seen.task_finish_s)
    assert plain.now_s == seen.now_s
    for name, column in plain.queue_counters().items():
        assert np.array_equal(column, seen.queue_counters()[name]), name
    assert seen.events > plain.events


def test_samples_come_each_period_for_what_is_watched() -> None:
    net = congested()
    last = net.link(5, 4)
    sim = run(
        net, period_ps=5_000_000, link=np.array([last, 0], np.uint32), flow=np.array([2], np.uint32)
    )
    ports, flows = sim.port_samples(), sim.flow_samples()
    ticks = int(sim.now_s / 5e-6) + 1
    assert np.allclose(ports["time_s"][::2], np.arange(ticks) * 5e-6)
    assert np.array_equal(ports["link"], np.tile([last, 0], ticks))
    assert np.allclose(flows["time_s"], np.arange(ticks) * 5e-6)
    bottleneck = ports["link"] == last
    queue = ports["queue_bytes"][bottleneck]
    peak = sim.queue_counters()["peak_bytes"].reshape(8, -1)[3, last]
    assert 0.5 * peak < queue.max() <= peak
    assert queue[0] == 0
    assert np.all(np.diff(ports["tx_bytes"][bottleneck].astype(np.int64)) >= 0)
    rate = np.diff(ports["tx_bytes"][bottleneck])[2:-1] / 5e-6 * 8
    assert np.all(rate < 101e9)
    assert np.median(rate) == pytest.approx(100e9, rel=0.05)
    assert ports["marked"][bottleneck][-1] > 0
    held = ports["group_bytes"][~bottleneck]
    group = sim.group_counters()["peak_bytes"].reshape(8, -1)[3, 0]
    assert 0 < held.max() <= group
    assert ports["shared_bytes"].max() <= sim.switch_counters()["peak_shared_bytes"][0]
    assert np.any(ports["paused"][~bottleneck] == 1 << 3)
    assert np.all(np.diff(flows["acked_packets"].astype(np.int64)) >= 0)
    assert np.all(flows["next_packet"] >= flows["acked_packets"])
    assert flows["rate_Bps"].max() == pytest.approx(100e9 / 8)
    assert flows["in_flight_bytes"].max() > 0


def test_samples_do_not_keep_a_run_alive() -> None:
    net = star(1)
    sim = net.sim(incast(net, 1), 1 << 16)
    one = np.zeros(1, np.uint64)
    sim.set_faults(one, np.zeros(1, np.uint8), np.zeros(1, np.uint32), one)  # the link is down
    sim.watch(1_000_000, np.array([0], np.uint32), np.zeros(0, np.uint32))
    assert sim.advance()
    assert sim.end == STUCK
    assert len(sim.port_samples()["time_s"]) < 20


def test_pauses_have_a_beginning_and_an_end() -> None:
    sim = run(congested())
    p = sim.pauses()
    assert len(p["from_s"]) > 4
    assert np.all(p["until_s"] >= p["from_s"])
    assert np.all(p["priority"] == 3)
    total = sim.pause_counters()["paused_s"].reshape(8, -1)
    for link in range(0, 8, 2):
        mine = p["link"] == link
        assert np.sum((p["until_s"] - p["from_s"])[mine]) == pytest.approx(total[3, link])
        assert np.count_nonzero(mine) == sim.pause_counters()["pauses_felt"].reshape(8, -1)[3, link]
        order = np.argsort(p["from_s"][mine])
        assert np.all(p["from_s"][mine][order][1:] >= p["until_s"][mine][order][:-1])


def test_a_pause_in_force_ends_with_the_run() -> None:
    net = congested()
    sim = net.sim(incast(net, 4), 1 << 20)
    sim.advance(until_s=100e-6)
    p = sim.pauses()
    running = p["in_force"] == 1
    assert np.any(running)
    assert np.allclose(p["until_s"][running], sim.now_s)
    assert np.all(p["from_s"][running] <= sim.now_s)


def test_a_trace_is_bounded_and_counts_what_it_leaves_out() -> None:
    whole = run(congested(), trace_limit=1_000_000)
    trace = whole.trace()
    n = len(trace["time_s"])
    assert whole.trace_lost == 0
    assert np.all(np.diff(trace["time_s"]) >= 0)
    short = run(congested(), trace_limit=100)
    assert len(short.trace()["time_s"]) == 100
    assert short.trace_lost == n - 100
    assert np.array_equal(short.trace()["kind"], trace["kind"][:100])


def test_a_trace_holds_what_the_counters_count() -> None:
    sim = run(congested(), trace_limit=1_000_000)
    trace = sim.trace()
    count = {name: int(np.sum(trace["kind"] == kind)) for name, kind in KIND.items()}
    assert count["mark"] == sim.queue_counters()["marked"].sum() > 0
    assert count["pause_on"] == sim.pause_counters()["pauses_felt"].sum() > 0
    assert count["message_posted"] == count["message_done"] == 4
    marks = trace["kind"] == KIND["mark"]
    assert np.all(trace["link"][marks] == 9)
    assert set(trace["flow"][marks]) == {0, 1, 2, 3}
    only = run(congested(), trace_limit=1_000_000, trace_kinds=1 << KIND["message_done"])
    assert only.trace()["kind"].tolist() == [KIND["message_done"]] * 4
    assert only.trace()["time_s"].max() == pytest.approx(float(only.task_finish_s.max()))


def test_the_ledger_adds_up() -> None:
    sim = run(
        star(
            4,
            switch={"lossless": 0, "shared_cells": 1000},
            nic={"timeout_ps": 50_000_000, "retries": 99},
        )
    )
    assert sim.end == FINISHED
    ledger = sim.ledger()
    for unit in ("packets", "bytes"):
        lost = sum(ledger[f"dropped_{unit}_{why}"] for why in _native.PACKET_DROP_REASONS)
        accounted = ledger[f"delivered_{unit}"] + ledger[f"in_flight_{unit}"] + lost
        assert np.array_equal(ledger[f"sent_{unit}"], accounted)
    assert ledger["dropped_packets_no_buffer"][0] > 0
    flows, ports = sim.flow_counters(), sim.port_counters()
    assert flows["sent"].sum() == ledger["sent_packets"][0]
    assert flows["sent_bytes"].sum() == ledger["sent_bytes"][0]
    assert ports["dropped_no_buffer"].sum() == ledger["dropped_packets_no_buffer"].sum()
    assert sim.queue_counters()["dropped"].sum() == ledger["dropped_packets_no_buffer"].sum()
    assert ports["tx_packets"][::2][:4].sum() == flows["sent"].sum()
    assert flows["retransmitted"].sum() == flows["sent"].sum() - 4 * 256


def test_marks_are_counted_where_they_are_given_and_where_they_arrive() -> None:
    sim = run(congested())
    marked = sim.queue_counters()["marked"].reshape(8, -1)
    assert marked[3, 9] == marked.sum() == sim.flow_counters()["marked"].sum() > 0


def test_what_cannot_be_watched_is_refused() -> None:
    net = star(1)
    sim = net.sim(incast(net, 1), 4096)
    none = np.zeros(0, np.uint32)
    with pytest.raises(ValueError, match="link to watch 9"):
        sim.watch(1, np.array([9], np.uint32), none)
    with pytest.raises(ValueError, match="flow to watch 3"):
        sim.watch(1, none, np.array([3], np.uint32))
    sim.advance()
    with pytest.raises(ValueError, match="before the run"):
        sim.watch(1, none, none)
