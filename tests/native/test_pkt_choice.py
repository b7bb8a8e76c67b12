"""Paths chosen packet by packet: how they spread, what they avoid, what they cost."""

from __future__ import annotations

import numpy as np
import pytest
from tests.native._packet import FINISHED, Net
from tests.native._packet_ways import (
    CHOICE,
    FAULT,
    choosing,
    clos,
    clos_table,
    dropped,
    ends,
    packets,
    table,
    uplinks,
)

from railweave import _native

SELECTIVE = {"selective_repeat": 1, "reorder_packets": 100_000}


@pytest.mark.parametrize("name", [n for n in CHOICE if n != "path"])
def test_all_that_is_sent_arrives(name: str) -> None:
    net = clos(4, 3, 4, nic=SELECTIVE)
    ways = [ends(net, h, (h + 5) % 12) for h in range(12)]
    sim = net.sim(ways, 1 << 18, prepare=choosing(net, name, clos_table(net, 3)))
    sim.advance()
    sim.audit()
    assert sim.end == FINISHED
    ledger = sim.ledger()
    assert ledger["delivered_packets"][0] >= 12 * 64
    assert not sim.failed_flows.size
    assert dropped(sim, "no_route") == 0


def test_round_robin_is_exactly_even_over_two_tiers_of_choices() -> None:
    # hosts 0, 1; edges 2, 3; aggregations 4, 5 and 6, 7; cores 8 to 11
    cables = [(0, 2, 100.0), (1, 3, 100.0)]
    cables += [(e, a, 100.0) for e, pod in ((2, (4, 5)), (3, (6, 7))) for a in pod]
    cables += [(a, 8 + 2 * (a % 2) + c, 100.0) for a in (4, 5, 6, 7) for c in range(2)]
    net = Net(2, 10, cables)
    tiers = [1, 1, 2, 2, 2, 2, 3, 3, 3, 3]
    sim = net.sim(
        [ends(net, 0, 1)], 64 * 4096, prepare=choosing(net, "spray_round_robin", table(net, tiers))
    )
    sim.advance()
    to_core = [net.link(a, 8 + 2 * (a % 2) + c) for a in (4, 5) for c in range(2)]
    assert packets(sim, to_core).tolist() == [16, 16, 16, 16]


def test_random_spraying_uses_every_path_about_equally() -> None:
    net = clos(1, 2, 4)
    sim = net.sim(
        [ends(net, 0, 1)], 4096 * 2000, prepare=choosing(net, "spray_random", clos_table(net, 2))
    )
    sim.advance()
    share = packets(sim, uplinks(net, 0, 4, 2))
    assert share.sum() == 2000
    assert np.all(abs(share - 500) < 100)  # five standard deviations
    assert len(set(share.tolist())) > 1  # and not in turn


@pytest.mark.parametrize("name", ["spray_random", "spray_round_robin", "recycle"])
@pytest.mark.parametrize("paths", [1, 2])
def test_a_bound_on_the_entropies_bounds_the_paths(name: str, paths: int) -> None:
    net = clos(1, 2, 8, options={"spray_paths": paths})
    sim = net.sim([ends(net, 0, 1)], 4096 * 400, prepare=choosing(net, name, clos_table(net, 2)))
    sim.advance()
    assert np.count_nonzero(packets(sim, uplinks(net, 0, 8, 2))) <= paths


def test_the_seed_decides_where_packets_go() -> None:
    def shares(seed: int) -> list[int]:
        net = clos(1, 2, 4, options={"seed": seed})
        sim = net.sim(
            [ends(net, 0, 1)], 4096 * 300, prepare=choosing(net, "spray_random", clos_table(net, 2))
        )
        sim.advance()
        return packets(sim, uplinks(net, 0, 4, 2)).tolist()  # type: ignore[no-any-return]

    assert shares(1) == shares(1)
    assert shares(1) != shares(2)


@pytest.mark.parametrize(("gap_s", "many"), [(10e-6, True), (1.0, False)])
def test_a_flowlet_ends_where_the_flow_was_idle(gap_s: float, many: bool) -> None:
    net = clos(1, 2, 4, options={"flowlet_gap_ps": int(gap_s * 1e12)})
    way = [ends(net, 0, 1)]
    sim = net.sim(way, 4 * 4096, rounds=40, prepare=choosing(net, "flowlet", clos_table(net, 2)))
    one = np.zeros(1, np.uint64)
    kind = np.array([FAULT["chunk_delay"]], np.uint8)
    sim.set_faults(one, kind, np.zeros(1, np.uint32), one + 20_000_000)
    sim.advance()
    used = packets(sim, uplinks(net, 0, 4, 2))
    assert used.sum() == 160
    assert np.all(used % 4 == 0)  # a burst stays together
    assert np.count_nonzero(used) > 1 if many else np.count_nonzero(used) == 1


def test_adaptive_routing_takes_less_of_a_slow_uplink_than_blind_spraying() -> None:
    finish = {}
    for name in ("spray_random", "spray_round_robin", "adaptive"):
        net = clos(3, 2, 4, slow=50.0, nic=SELECTIVE)
        ways = [ends(net, h, h + 3) for h in range(3)]
        sim = net.sim(ways, 1 << 21, prepare=choosing(net, name, clos_table(net, 2)))
        sim.advance()
        sim.audit()
        finish[name] = float(sim.task_finish_s.max())
    alone = 512 * 4178 * 8 / 100e9
    assert finish["adaptive"] < 1.1 * alone  # 350 Gb/s of uplinks for 300
    assert finish["spray_random"] > 1.3 * alone  # a quarter of 300 on 50
    assert finish["spray_round_robin"] > 1.3 * alone


def test_only_adaptive_switches_skip_a_dead_member_at_once() -> None:
    lost = {}
    for name in ("spray_random", "adaptive"):
        net = clos(1, 2, 4, nic=SELECTIVE)
        sim = net.sim([ends(net, 0, 1)], 1 << 20, prepare=choosing(net, name, clos_table(net, 2)))
        down = np.array([uplinks(net, 0, 4, 2)[1]], np.uint32)
        at, kind = np.array([20_000_000], np.uint64), np.array([FAULT["link_down"]], np.uint8)
        sim.set_faults(at, kind, down, np.zeros(1, np.uint64))
        sim.advance()
        sim.audit()
        lost[name] = dropped(sim, "link_down")
    assert lost["adaptive"] == 0
    assert lost["spray_random"] > 20


def test_recycled_entropies_leave_a_marked_path() -> None:
    share = {}
    for name in ("spray_random", "recycle"):
        nic = {**SELECTIVE, "ack_every": 1}
        net = clos(2, 3, 2, nic=nic, kmin_bytes=20_000, kmax_bytes=20_000)
        leaf, spine = net.hosts, net.hosts + 3
        other = net.path(4, leaf + 2, spine, leaf + 1, 3)  # fills spine 0 to leaf 1
        choose = choosing(net, name, clos_table(net, 3))

        def prepare(sim: _native.PacketSim, flows: dict[str, np.ndarray]) -> None:
            choose(sim, flows)  # noqa: B023
            flows["choice"][1:] = 0

        sim = net.sim([ends(net, 0, 2), other], [1 << 21, 1 << 22], prepare=prepare)
        sim.advance(until_s=150e-6)
        up = packets(sim, uplinks(net, 0, 2, 3))
        share[name] = up[0] / up.sum()
    assert share["spray_random"] == pytest.approx(0.5, abs=0.06)
    assert share["recycle"] < 0.35


def test_a_receiver_on_two_leaves_is_reached_over_both() -> None:
    # hosts 0, 1; leaves 2, 3, 4; spines 5, 6; host 1 hangs on leaves 3 and 4
    cables = [(0, 2, 100.0), (1, 3, 100.0), (1, 4, 100.0)]
    cables += [(leaf, spine, 100.0) for leaf in (2, 3, 4) for spine in (5, 6)]
    net = Net(2, 5, cables)
    for name in ("spray_random", "spray_round_robin", "adaptive"):
        by = table(net, [1, 1, 1, 2, 2])
        sim = net.sim([ends(net, 0, 1)], 4096 * 100, prepare=choosing(net, name, by))
        sim.advance()
        assert sim.end == FINISHED
        got = packets(sim, [net.link(3, 1), net.link(4, 1)])
        assert got.sum() == 100
        assert np.all(got > 25), name


def test_replies_stay_on_one_way() -> None:
    net = clos(1, 2, 4, nic={"ack_every": 1})
    sim = net.sim(
        [ends(net, 0, 1)], 4096 * 100, prepare=choosing(net, "spray_random", clos_table(net, 2))
    )
    sim.advance()
    assert np.count_nonzero(packets(sim, uplinks(net, 1, 4, 2))) == 1


def test_what_cannot_be_chosen_is_refused() -> None:
    net = clos(1, 2, 2)
    with pytest.raises(ValueError, match="table 0, which was not added"):
        net.sim([ends(net, 0, 1)], 4096, prepare=choosing(net, "adaptive"))
    sim = net.sim([net.path(0, 2, 4, 3, 1)], 4096)
    with pytest.raises(ValueError, match="an entry for each node"):
        sim.add_table(clos_table(net, 2), np.zeros(3, np.uint32))
    with pytest.raises(ValueError, match="another network"):
        sim.add_table(clos_table(clos(1, 2, 3), 2), np.zeros(7, np.uint32))
