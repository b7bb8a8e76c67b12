"""The packet engine as Python sees it: runs in pieces, what settings do, what is written down."""

from __future__ import annotations

import math
import signal
import time
from dataclasses import replace

import numpy as np
import pytest
from _fault_case import PFC, leaf_spine, run, start, streams, total

from railweave.design.models import CongestionSpec, RoutingScheme, RoutingSpec, Spraying, Transport
from railweave.engine.packet import PacketRun, simulate_packet
from railweave.engine.packet_settings import PacketSettings, Watch, default_settings
from railweave.errors import EngineError, InputError
from railweave.fabric import PlaneId
from railweave.fabric.routing import RoutingSet, compile_routing
from railweave.qos import algorithm

FABRIC = leaf_spine()
ONE = streams([0], [2], 1e6)
#: three to one: queues, marks and pauses
INCAST = streams([0, 1, 2], [3, 3, 3], 2e6)
WIRE_S = 1e6 * 8 / 400e9


def routing(scheme=RoutingScheme.ECMP, fabric=FABRIC):
    return RoutingSet.of(compile_routing(fabric, PlaneId.BACKEND, RoutingSpec(scheme=scheme)))


# ---------------------------------------------------------------- in pieces


def test_a_run_goes_on_to_a_time_and_says_how_far_it_is():
    sim = start(FABRIC, ONE)
    assert (sim.now_s, sim.fraction, sim.finished) == (0.0, 0.0, False)
    assert not sim.advance(WIRE_S / 2)
    assert sim.now_s == WIRE_S / 2
    assert 0.2 < sim.fraction < 0.6
    assert sim.advance()
    assert (sim.fraction, sim.finished) == (1.0, True)
    assert sim.now_s == sim.result().makespan_s
    assert sim.advance()  # and stays so


def test_a_result_before_the_end_holds_what_is_known_by_then():
    sim = start(FABRIC, INCAST)
    sim.advance(40e-6)
    early = sim.result()
    assert not early.finished
    assert early.makespan_s == 40e-6
    assert np.isnan(early.stream_finish_s).all()
    assert early.bytes_in_flight > 0
    assert early.bytes_sent == early.bytes_delivered + early.bytes_dropped + early.bytes_in_flight
    assert early.messages()["finish_s"].is_nan().all()
    assert {f.id for f in early.findings} == set()
    sim.advance()
    late = sim.result()
    assert late.finished
    assert late.bytes_delivered > early.bytes_delivered


def test_events_bound_a_step():
    sim = start(FABRIC, ONE)
    sim.advance(max_events=10)
    assert sim.result().events == 10


def test_a_time_before_now_or_no_time_at_all():
    sim = start(FABRIC, ONE)
    sim.advance(5e-6)
    assert not sim.advance(1e-6)
    assert sim.now_s == 5e-6
    for wrong in (-1.0, math.nan):
        with pytest.raises(EngineError, match="until_s must be 0 or more"):
            sim.advance(wrong)


def test_progress_is_told_and_changes_nothing():
    told = []
    quiet = simulate_packet(FABRIC, INCAST, routing(), seed=4)
    loud = simulate_packet(FABRIC, INCAST, routing(), seed=4, progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 1.0
    assert loud.stream_finish_s.tobytes() == quiet.stream_finish_s.tobytes()
    assert loud.events == quiet.events


def test_until_ends_a_run_with_and_without_progress():
    for progress in (None, lambda _: None):
        result = simulate_packet(FABRIC, ONE, routing(), until_s=5e-6, progress=progress)
        assert not result.finished
        assert result.makespan_s == 5e-6


def test_a_time_between_two_picoseconds_ends_a_run_too():
    calls = []
    until_s = 5e-6 + 0.4e-12
    result = simulate_packet(FABRIC, ONE, routing(), until_s=until_s, progress=calls.append)
    assert not result.finished
    assert result.makespan_s == 5e-6
    assert len(calls) == 1


def test_time_never_goes_back():
    sim = start(FABRIC, ONE)
    sim.advance(5e-6)
    sim.advance(1e-6)
    assert sim.now_s == 5e-6


def test_what_progress_raises_ends_the_run():
    def stop(_):
        raise InterruptedError

    with pytest.raises(InterruptedError):
        simulate_packet(FABRIC, INCAST, routing(), progress=stop)


def test_ctrl_c_ends_a_run_at_once():
    sim = start(FABRIC, streams([0, 1, 2], [3, 3, 3], 2e9))  # minutes
    rung = []

    def interrupt(*_):
        rung.append(time.monotonic())
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    began = time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt):
            sim.advance()
        late = time.monotonic() - began - 0.05
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(rung) == 1
    assert late < 0.2
    with pytest.raises(EngineError, match="build it anew"):
        sim.advance()


# ---------------------------------------------------------------- what cannot be sent


def test_streams_without_a_path_are_refused_or_counted_as_dropped():
    cut = replace(FABRIC, link_up=(FABRIC.link_src != 2) & (FABRIC.link_dst != 2))
    work = streams([0, 0], [1, 2], 1e6)
    with pytest.raises(EngineError, match="no path"):
        simulate_packet(cut, work, routing())
    result = simulate_packet(cut, work, routing(), allow_unroutable=True)
    assert result.unroutable_streams == 1
    assert result.bytes_dropped >= 1e6
    assert np.isfinite(result.stream_finish_s).tolist() == [True, False]
    assert result.findings


def test_nothing_to_send_is_done_at_once():
    result = simulate_packet(FABRIC, streams([], [], 1.0), routing())
    assert result.finished
    assert result.makespan_s == 0.0
    assert result.messages().is_empty()


# ---------------------------------------------------------------- messages


def test_each_chunk_is_a_message_with_its_times():
    work = streams([0, 2], [2, 0], 1e5, rounds=3, coupled=True)
    result = run(FABRIC, work)
    frame = result.messages()
    assert frame.columns == [
        "stream",
        "label",
        "chunk",
        "bytes",
        "start_s",
        "finish_s",
        "duration_s",
    ]
    assert frame["stream"].to_list() == [0, 0, 0, 1, 1, 1]
    assert frame["chunk"].to_list() == [0, 1, 2] * 2
    assert set(frame["label"]) == {"test"}
    assert set(frame["bytes"]) == {1e5}
    assert frame["duration_s"].to_list() == (frame["finish_s"] - frame["start_s"]).to_list()
    assert (frame["duration_s"] > 1e5 * 8 / 400e9).all()
    assert frame["finish_s"].max() == result.makespan_s
    first, second = (frame.filter(frame["stream"] == s) for s in (0, 1))
    assert second["start_s"][1] >= first["finish_s"][0]  # the ring waits


# ---------------------------------------------------------------- settings


def test_a_window_holds_a_queue_pair_back():
    free = run(FABRIC, ONE)
    held = run(FABRIC, ONE, window_bytes=20_000)
    assert held.makespan_s > 2 * free.makespan_s


def ways(result):
    """Packets on each of leaf 1's cables up."""
    return [int(result.record.port_counters["tx_packets"][2 * k]) for k in (4, 5)]


def test_spraying_and_its_number_of_entropies_spread_packets():
    spread = {s: ways(run(FABRIC, ONE, scheme=RoutingScheme.SPRAY, spraying=s)) for s in Spraying}
    assert all(min(counts) > 0 for counts in spread.values())
    assert abs(np.subtract(*spread[Spraying.ROUND_ROBIN])) <= 2
    assert len({tuple(counts) for counts in spread.values()}) > 1
    one_way = ways(run(FABRIC, ONE, scheme=RoutingScheme.SPRAY, spray_paths=1))
    assert min(one_way) == 0


def test_a_shorter_gap_makes_more_flowlets():
    work = replace(streams([0], [2], 5e4, rounds=12), chunk_delay_s=np.array([2e-6]))
    kept = ways(run(FABRIC, work, scheme=RoutingScheme.FLOWLET, flowlet_gap_s=1e-3))
    moved = ways(run(FABRIC, work, scheme=RoutingScheme.FLOWLET, flowlet_gap_s=1e-6))
    assert min(kept) == 0
    assert min(moved) > 0


def test_pauses_can_be_off_at_one_port():
    paused = run(FABRIC, INCAST, spec=PFC)
    link = int(np.flatnonzero((FABRIC.link_src == 2) & (FABRIC.link_dst == 5))[0])
    off = run(FABRIC, INCAST, spec=PFC, pause_off=frozenset({link}))

    def pauses(result):
        return int(result.record.pause_counters["pauses_sent"].reshape(8, -1)[:, link].sum())

    assert pauses(paused) > 0
    assert pauses(off) == 0
    assert len(off.record.pause_intervals["link"]) > 0  # elsewhere as before


def test_one_switch_may_be_set_otherwise():
    settings = default_settings(FABRIC, routing())
    leaf = settings.switch(FABRIC, 5)
    deaf = replace(leaf, ecn=replace(leaf.ecn, marked=()))
    one = int(np.flatnonzero(FABRIC.link_dst == 3)[0])  # from the leaf to the receiver
    for switches, marked in (({}, True), ({5: deaf}, False), ({4: deaf}, True)):
        queues = run(FABRIC, INCAST, switches=switches).record.queue_counters["marked"]
        assert bool(queues.reshape(8, -1)[:, one].any()) == marked


def test_one_adapter_may_be_set_otherwise():
    nic = default_settings(FABRIC, routing()).qos[PlaneId.BACKEND].nic(400e9, 5.0)
    deaf = replace(nic, ignores_cnp=True)
    usual, odd = run(FABRIC, INCAST), run(FABRIC, INCAST, nics={0: deaf})
    assert total(usual, "cnp_ignored") == 0
    ignored = odd.record.flow_counters["cnp_ignored"]
    assert ignored[0] > 0
    assert ignored[1:].sum() == 0


def test_congestion_control_by_hand_replaces_the_profile():
    paper = algorithm("dcqcn-paper", 400e9)
    shy = replace(paper, cnp_interval_s=1e-6)
    usual = run(FABRIC, INCAST)
    often = run(FABRIC, INCAST, controls={PlaneId.BACKEND: shy})
    assert total(often, "cnp_sent") > 1.3 * total(usual, "cnp_sent")


def test_stuck_s_is_how_long_nothing_moves_before_a_deadlock_is_looked_for():
    spec = CongestionSpec(scheme="pfc", pfc_threshold="100 kB", watchdog="off", timeout=31)
    work = streams([0], [3], 4e6)
    hours = run(FABRIC, work, "receiver host04/nic0 stuck", spec=spec)  # of retry timers
    assert {f.id for f in hours.findings} >= {"stuck"}
    assert hours.events < 10_000
    spec = spec.model_copy(update={"retries": 7, "rnr_retries": 7})
    ends = [
        run(FABRIC, ONE, "receiver host03/nic0 not-ready", spec=spec, stuck_s=s)
        for s in (1e-3, 50e-3)
    ]
    assert [{f.id for f in r.findings} for r in ends] == [{"stuck"}] * 2
    short, long = (r.makespan_s for r in ends)
    assert short < 10e-3
    assert long >= 50e-3


def test_watch_writes_down_samples_and_events():
    assert len(run(FABRIC, INCAST).record.ports()) == 0
    watch = Watch(period_s=10e-6, links=None, flows=None, trace=7)
    sim = PacketRun(FABRIC, INCAST, routing(), default_settings(FABRIC, routing(), watch=watch))
    sim.advance()
    result = sim.result()
    ports, flows = result.record.ports(), result.record.flows()
    times = sorted(set(ports["time_s"]))
    assert np.diff(times) == pytest.approx(10e-6)
    assert ports["queue_bytes"].max() > 0
    assert set(flows["flow"]) == {0, 1, 2}
    assert len(result.record.trace()) == 7
    some = Watch(period_s=10e-6, links=(3,), flows=(1,))
    sim = PacketRun(FABRIC, INCAST, routing(), default_settings(FABRIC, routing(), watch=some))
    sim.advance()
    assert set(sim.result().record.ports()["link"]) == {3}
    assert set(sim.result().record.flows()["flow"]) == {1}
    assert sim.result().makespan_s == result.makespan_s


def test_a_switch_without_settings_is_named():
    with pytest.raises(InputError, match=r"switch 4 .* has no settings"):
        PacketRun(FABRIC, ONE, routing(), PacketSettings({}))


def test_the_seed_is_that_of_marks():
    spec = CongestionSpec.model_validate(
        {"scheme": "dcqcn", "ecn": {"kmin": "10 kB", "kmax": "1 MB", "pmax": 0.3}}
    )
    marks = {total(run(FABRIC, INCAST, spec=spec, seed=s), "marked") for s in range(5)}
    assert len(marks) > 1


# ---------------------------------------------------------------- ends


def test_a_receiver_that_is_never_ready_ends_the_run():
    result = run(FABRIC, ONE, "receiver host03/nic0 not-ready", spec=CongestionSpec(rnr_retries=7))
    assert not result.finished
    assert "stuck" in {f.id for f in result.findings}
    assert total(result, "rnr_naks") > 7


def test_a_lossy_receiver_that_takes_nothing_fails_the_message():
    spec = CongestionSpec(scheme="dcqcn", timeout=1)
    result = run(FABRIC, streams([0], [3], 3e6), "receiver host04/nic0 stuck at 1us", spec=spec)
    assert not result.finished
    assert "messages-failed" in {f.id for f in result.findings}
    assert total(result, "timeouts") == 8  # the first, and seven retries
    assert total(result, "naks_received") <= 9 * 9  # it does not go back for ever


def test_infiniband_refuses_what_its_switches_cannot_do():
    with pytest.raises(InputError, match="trimming"):
        run(FABRIC, ONE, transport=Transport.INFINIBAND, spec=CongestionSpec(trimming=True))
    small = CongestionSpec(receive_buffer="20 kB")
    with pytest.raises(EngineError, match="never fits"):
        run(FABRIC, ONE, transport=Transport.INFINIBAND, spec=small)
    odd = run(FABRIC, ONE, "dscp leaf-1 sonic-default", transport=Transport.INFINIBAND)
    assert odd.finished
    assert any("leaf-1" in f.path + f.message + f.evidence for f in odd.findings)
