"""What changes during a run: what is lost by it, what goes on, and that no byte goes astray."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from tests.native._packet import FINISHED, STUCK, Net, incast, star
from tests.native._packet_ways import (
    Change,
    choosing,
    clos,
    clos_table,
    dropped,
    ends,
    faults,
    packets,
    uplinks,
)

from railweave import _native

RETRY = {"timeout_ps": 50_000_000, "retries": 1000}
WIRE = (4096 + 82) * 8  # bits of a full packet


def finish_s(sim: _native.PacketSim) -> float:
    sim.advance()
    sim.audit()
    assert sim.end == FINISHED
    return float(sim.task_finish_s.max())


def test_a_flow_outlives_a_dead_link() -> None:
    net = star(1, nic=RETRY)
    sim = net.sim(incast(net, 1), 1 << 20)
    faults(sim, (20, "link_down", 0, 0), (200, "link_up", 0, 0))
    assert finish_s(sim) > 200e-6
    assert dropped(sim, "link_down") > 0
    counters = sim.port_counters()
    assert counters["downs"][:2].tolist() == [1, 1]
    assert not counters["down"].any()


def test_a_dead_port_loses_at_the_pace_of_the_wire_and_keeps_the_rest() -> None:
    net = star(2, nic={**RETRY, "timeout_ps": 10**10}, pause_mask=0)
    last = net.link(3, 2)
    sim = net.sim(incast(net, 2), 1 << 20)
    faults(sim, (60, "link_down", last, 0), (80, "link_up", last, 0))
    sim.advance(until_s=60e-6)
    waits = int(sim.queue_counters()["packets"][3 * 6 + last])
    sim.advance(until_s=80e-6)
    sim.audit()
    wire = 20e-6 * 100e9 / WIRE
    assert waits > wire + 10
    assert sim.port_counters()["dropped_link_down"][last] == pytest.approx(wire, abs=1)
    assert sim.queue_counters()["packets"][3 * 6 + last] > 0


def test_a_link_that_goes_down_ends_its_pauses() -> None:
    net = star(4, nic=RETRY, switch={"pg_alpha": 0.01, "shared_cells": 2000})
    sim = net.sim(incast(net, 4), 1 << 20)
    faults(sim, (50, "link_down", 0, 0), (150, "link_up", 0, 0))
    sim.advance(until_s=49.9e-6)
    before = sim.pause_counters()["pauses_felt"].reshape(8, -1)[3, 0]
    assert before > 0
    while sim.now_s < 149e-6:
        sim.advance(until_s=sim.now_s + 10e-6)
        running = sim.pauses()
        assert not np.any((running["link"] == 0) & (running["in_force"] == 1))
        assert sim.group_counters()["xoff"].reshape(8, -1)[3, 0] == 0 or sim.now_s < 100e-6
    assert finish_s(sim) > 150e-6
    assert sim.pause_counters()["pauses_felt"].reshape(8, -1)[3, 0] > before


@pytest.mark.parametrize("seed", range(8))
def test_flapping_links_lose_no_byte_from_the_books(seed: int) -> None:
    draw = np.random.default_rng(seed)
    changes: list[Change] = []
    for link in (0, 2, 4, 6):
        times = np.sort(draw.uniform(0, 300, 12))
        kinds = ["link_down", "link_up"] * 6
        changes += [(float(t), k, link, 0) for t, k in zip(times, kinds, strict=True)]
        changes += [
            (float(draw.uniform(0, 300)), "link_rate", link, int(draw.integers(20, 200)) * 10**6)
        ]
    runs = []
    for _ in range(2):
        net = star(3, nic=RETRY, switch={"pg_alpha": 0.02}, kmin_bytes=30_000, kmax_bytes=90_000)
        sim = net.sim(incast(net, 3), 1 << 19, rounds=2)
        faults(sim, *changes)
        while not sim.advance(max_events=997):
            sim.audit()
        sim.audit()
        assert sim.end == FINISHED
        # nothing was sent twice at once: each wire carried at most what fits in the time
        limit = 200e9 / 8 * sim.now_s
        assert np.all(sim.port_counters()["tx_bytes"] < limit)
        runs.append((sim.events, sim.task_finish_s.tolist()))
    assert runs[0] == runs[1]


def test_a_slower_link_takes_its_share_longer() -> None:
    net = star(1)
    sim = net.sim(incast(net, 1), 4096 * 1000)
    faults(sim, (100, "link_rate", net.link(2, 1), 50_000_000))
    fast = 100e-6 * 100e9 / WIRE
    expected = 100e-6 + (1000 - fast) * WIRE / 50e9
    assert finish_s(sim) == pytest.approx(expected, abs=2e-6)


def test_a_link_loses_as_often_as_said() -> None:
    net = star(1, nic={**RETRY, "selective_repeat": 1})
    sim = net.sim(incast(net, 1), 4096 * 4000)
    faults(sim, (0, "link_loss", 0, round(0.02 * 2**32)))
    finish_s(sim)
    assert dropped(sim, "corrupt") == pytest.approx(4080 * 0.02, abs=36)
    assert sim.port_counters()["dropped_corrupt"][[0, 1, 2, 3]].tolist()[1:] == [0, 0, 0]
    healed = net.sim(incast(net, 1), 4096 * 4000)
    faults(healed, (0, "link_loss", 0, round(0.02 * 2**32)), (100, "link_loss", 0, 0))
    finish_s(healed)
    assert 0 < dropped(healed, "corrupt") < 25


def other_settings(sim: _native.PacketSim, **values: object) -> int:
    config = _native.PacketSwitchConfig()
    base = {"cell_bytes": 256, "shared_cells": 62_500, "reserved_cells": 8, "pg_alpha": 0.125}
    for name, value in {**base, "lossless": 8, "strict": 64, **values}.items():
        setattr(config, name, value)
    return sim.add_switch_config(config)


def test_new_settings_of_a_switch_hold_at_once() -> None:
    net = star(2, kmin_bytes=10_000, kmax_bytes=20_000)
    marks = []
    for at_us in (1e6, 20):
        sim = net.sim(incast(net, 2), 1 << 20)
        faults(sim, (at_us, "switch_config", 3, other_settings(sim, ecn=0)))
        finish_s(sim)
        marks.append(int(sim.queue_counters()["marked"].sum()))
    assert 0 < marks[1] < 0.4 * marks[0]
    sim = net.sim(incast(net, 2), 1 << 20)
    with pytest.raises(ValueError, match="must keep cell_bytes"):
        faults(sim, (1, "switch_config", 3, other_settings(sim, cell_bytes=128)))
    with pytest.raises(ValueError, match="no switch"):
        faults(sim, (1, "switch_config", 0, 1))


def test_a_reboot_loses_what_waits() -> None:
    net = star(2, nic=RETRY)
    cables = range(3)
    sim = net.sim(incast(net, 2), 1 << 20)
    changes: list[Change] = [(60, "link_down", 2 * c, 0) for c in cables]
    changes += [(60, "flush", 3, 0)]
    changes += [(300, "link_up", 2 * c, 0) for c in cables]
    faults(sim, *changes)
    sim.advance(until_s=70e-6)
    assert dropped(sim, "reboot") > 20
    assert sim.queue_counters()["packets"].reshape(8, -1)[:, 1::2].sum() == 0
    assert sim.switch_counters()["shared_bytes"][0] == 0
    assert finish_s(sim) > 300e-6


def test_without_pauses_a_lossless_class_overflows() -> None:
    net = star(4, nic=RETRY, switch={"pg_alpha": 0.01, "shared_cells": 2000})
    lost = []
    for mask in (8, 0):
        sim = net.sim(incast(net, 4), 1 << 20)
        faults(sim, *((0.0, "pause_mask", 2 * h, mask) for h in range(4)))
        finish_s(sim)
        lost.append(dropped(sim, "headroom"))
    assert lost[0] == 0
    assert lost[1] > 100


def rerouted(net: Net, ways: Sequence[Sequence[int]]) -> _native.PacketEpoch:
    epoch = _native.PacketEpoch()
    epoch.flow = np.arange(len(ways), dtype=np.uint32)
    epoch.path_ptr = np.cumsum([0, *(len(w) for w in ways)]).astype(np.uint64)
    epoch.path_link = np.concatenate([np.asarray(w, np.uint32) for w in ways])
    return epoch


def test_a_reroute_leads_flows_around_a_dead_link() -> None:
    net = clos(1, 2, 2, nic={**RETRY, "retries": 3})
    old, new = net.path(0, 2, 4, 3, 1), net.path(0, 2, 5, 3, 1)
    down: Change = (50, "link_down", old[1], 0)
    sim = net.sim([old], 1 << 20)
    faults(sim, down, (90, "reroute", 0, 0), epochs=[rerouted(net, [new])])
    assert 90e-6 < finish_s(sim) < 400e-6
    assert np.all(packets(sim, new[1:3]) > 100)
    assert packets(sim, [new[1] ^ 1])[0] > 0  # replies too
    lost = net.sim([old], 1 << 20)
    faults(lost, down)
    lost.advance()
    assert lost.end != FINISHED
    assert np.isnan(lost.task_finish_s[0])


def test_a_reroute_without_loss_keeps_what_is_under_way() -> None:
    net = clos(1, 2, 2)
    old, new = net.path(0, 2, 4, 3, 1), net.path(0, 2, 5, 3, 1)
    sim = net.sim([old], 1 << 20)
    faults(sim, (40, "reroute", 0, 0), epochs=[rerouted(net, [new])])
    finish_s(sim)
    assert packets(sim, [old[2], new[2]]).sum() == 256
    assert sim.flow_counters()["out_of_order"][0] == 0


def test_a_reroute_to_another_port_takes_the_flow_out_of_a_paused_line() -> None:
    # host 0 has two links to switch 2 (cables 0 and 1), host 1 one
    net = Net(2, 1, [(0, 2, 100.0), (0, 2, 100.0), (1, 2, 100.0)])
    sim = net.sim([[0, 5], [2, 5]], 1 << 20)
    faults(sim, (20, "reroute", 0, 0), epochs=[rerouted(net, [[2, 5], [0, 5]])])
    finish_s(sim)
    assert packets(sim, [0, 2]).sum() == 512
    assert np.all(packets(sim, [0, 2]) > 10)


def test_a_reroute_replaces_tables() -> None:
    net = clos(1, 2, 4, nic={**RETRY, "selective_repeat": 1, "reorder_packets": 10_000})
    dead = 2 + 1  # the cable from leaf 0 to spine 1
    tables = [clos_table(net, 2), clos_table(net, 2, [dead])]
    sim = net.sim([ends(net, 0, 1)], 1 << 20, prepare=choosing(net, "spray_random", *tables))
    epoch = _native.PacketEpoch()
    epoch.path_ptr = np.zeros(1, np.uint64)
    epoch.table_from, epoch.table_to = np.zeros(1, np.uint32), np.ones(1, np.uint32)
    faults(sim, (20, "link_down", 2 * dead, 0), (50, "reroute", 0, 0), epochs=[epoch])
    sim.advance(until_s=51e-6)
    lost = dropped(sim, "link_down")
    finish_s(sim)
    assert lost > 5
    assert dropped(sim, "link_down") == lost
    assert packets(sim, uplinks(net, 0, 4, 2))[1] > 0


def piped(net: Net, **values: object) -> _native.PacketSim:
    def prepare(sim: _native.PacketSim, flows: dict[str, np.ndarray]) -> None:
        pipe = _native.PacketPipe()
        pipe.rate_kbps = 200_000_000
        pipe.nic_link = net.link(2, 1)
        for name, value in values.items():
            setattr(pipe, name, value)
        flows["rx_pipe"][:] = sim.add_pipe(pipe)

    return net.sim(incast(net, 1), 1 << 20, prepare=prepare)


def test_a_stuck_receiver_pauses_until_it_goes_on() -> None:
    buffer = {"buffer_bytes": 1_000_000, "xoff_bytes": 100_000, "xon_bytes": 50_000}
    sim = piped(star(1), **buffer)
    faults(sim, (20, "freeze", 0, 1), (400, "freeze", 0, 0))
    sim.advance(until_s=390e-6)
    pauses = sim.pauses()
    assert np.any((pauses["link"] == 3) & (pauses["in_force"] == 1))
    assert finish_s(sim) > 400e-6
    assert sim.ledger()["dropped_packets_rx_overflow"][0] == 0
    stuck = piped(star(1), **buffer)
    faults(stuck, (20, "freeze", 0, 1))
    stuck.advance()
    stuck.audit()
    assert stuck.end == STUCK


def test_a_slower_way_into_memory() -> None:
    sim = piped(star(1))
    faults(sim, (0, "pipe_rate", 0, 25_000_000))
    assert finish_s(sim) == pytest.approx(256 * WIRE / 25e9, rel=0.02)


def test_other_settings_of_an_adapter() -> None:
    net = star(2, kmin_bytes=10_000, kmax_bytes=20_000)
    marks = []
    for at_us in (1e6, 20):
        sim = net.sim(incast(net, 2), 1 << 20)
        nic = _native.PacketNicConfig()
        nic.ecn_capable = 0
        number = sim.add_nic_config(nic)
        faults(sim, *((at_us, "nic_config", f, number) for f in range(2)))
        finish_s(sim)
        marks.append(int(sim.flow_counters()["marked"].sum()))
    assert 0 < marks[1] < 0.4 * marks[0]


def test_a_straggler_posts_its_chunks_late() -> None:
    net = star(1)
    sim = net.sim(incast(net, 1), 4096, rounds=10)
    faults(sim, (0, "chunk_delay", 0, 50_000_000))
    assert finish_s(sim) > 10 * 50e-6


def test_a_receiver_that_is_not_ready() -> None:
    net = star(1, nic={**RETRY, "rnr_timer_ps": 10_000_000})
    sim = net.sim(incast(net, 1), 1 << 18)
    faults(sim, (0, "not_ready", 0, 1), (100, "not_ready", 0, 0))
    assert finish_s(sim) > 100e-6
    assert sim.flow_counters()["rnr_naks"][0] > 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ((0, "link_down", 99, 0), "a fault of link 99; there are 4"),
        ((0, "reroute", 0, 0), "a fault of reroute 0"),
        ((0, "freeze", 0, 1), "a fault of pipe 0"),
        ((0, "link_rate", 0, 0), "take a link down by link_down"),
        ((0, "link_loss", 0, 2**33), "0 to 2"),
        ((0, "nic_config", 0, 7), "no such NIC settings"),
        ((0, "flush", 77, 0), "a fault of node 77"),
    ],
)
def test_faults_of_what_there_is_not(change: Change, message: str) -> None:
    net = star(1)
    sim = net.sim(incast(net, 1), 4096)
    with pytest.raises(ValueError, match=message):
        faults(sim, change)
