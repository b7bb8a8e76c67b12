"""Faults over time in the packet engine: each kind does what it says, when it says, where it says.

Every run ends by counting all bytes, so conservation is tested throughout.
"""

import math

import numpy as np
import pytest
from _fault_case import PFC, by_link, drops, leaf_spine, run, start, streams, total
from hypothesis import given, settings
from hypothesis import strategies as st

from minifabric import clos
from railweave.design.models import CongestionSpec, RoutingScheme, Transport
from railweave.engine._packet_reroute import steps
from railweave.engine.faults import BitErrors, LinkDown, StragglerGpu
from railweave.errors import InputError
from railweave.fabric.names import find_duplex

FABRIC = leaf_spine()
US = 1e-6
#: hosts 0 and 1 to 2 and 3 and back: everything crosses the spines
ACROSS = streams([0, 1, 2, 3], [2, 3, 0, 1], 2e6)
#: two to one: queues, marks and notifications at leaf 2 and nowhere else
INCAST = streams([0, 2], [3, 3], 4e6)
BASE = run(FABRIC, ACROSS)


def cable(name):
    """Link out of the port, whatever its direction in the arrays."""
    duplex = find_duplex(FABRIC, name)
    node, number = name.rsplit(":port-", 1)
    out = 2 * duplex
    port = FABRIC.link_src_port[out]
    leaf = {"leaf-1": 4, "leaf-2": 5, "spine-1": 6, "spine-2": 7}[node]
    return out if FABRIC.link_src[out] == leaf and port == int(number) else out + 1


def crossed(result, name):
    """Streams whose first path uses the cable, up from this leaf and down to it."""
    out = cable(name)
    paths = result.paths
    flows = [set(paths.link[paths.ptr[f] : paths.ptr[f + 1]].tolist()) for f in range(4)]
    return [f for f in range(4) if out in flows[f]], [f for f in range(4) if out ^ 1 in flows[f]]


# ---------------------------------------------------------------- links and switches


def test_a_link_that_goes_down_loses_packets_until_routes_have_converged():
    up, down = crossed(BASE, "leaf-1:port-3")
    assert min(len(up), len(down)) > 0, "the case needs flows both ways over this cable"
    slow = run(FABRIC, ACROSS, "link leaf-1:port-3 down at 20us convergence 40us")
    fast = run(FABRIC, ACROSS, "link leaf-1:port-3 down at 20us convergence 10us")
    assert slow.finished
    assert fast.finished
    assert drops(slow)["link_down"] > drops(fast)["link_down"] > 0
    out = cable("leaf-1:port-3")
    lost = slow.record.port_counters["dropped_link_down"]
    # the leaf itself turns away at once: only what waited in its queue, and replies, are lost
    assert lost[out] < lost[out ^ 1]
    assert lost[out] < 40
    assert total(slow, "retransmitted") > total(BASE, "retransmitted") == 0
    other = cable("leaf-1:port-4") ^ 1
    assert slow.link_bytes[other] > BASE.link_bytes[other]


def test_traffic_moves_to_the_links_that_are_left_and_comes_back():
    long = streams([0, 1, 2, 3], [2, 3, 0, 1], 8e6)
    out = cable("leaf-1:port-3")
    whole = run(FABRIC, long)
    for_good = run(FABRIC, long, "link leaf-1:port-3 down at 20us convergence 5us")
    back = run(FABRIC, long, "link leaf-1:port-3 down at 20us for 60us convergence 5us")
    assert whole.link_bytes[out] > back.link_bytes[out] > 2 * for_good.link_bytes[out]
    assert for_good.record.port_counters["downs"][[out, out ^ 1]].tolist() == [1, 1]
    assert for_good.record.port_counters["down"][out] == 1
    assert back.record.port_counters["down"][out] == 0


def test_a_link_out_since_before_the_run_loses_nothing():
    result = run(FABRIC, ACROSS, "link leaf-1:port-3 down")
    assert drops(result) == {}
    assert result.finished
    assert result.link_bytes[cable("leaf-1:port-3")] == 0


def test_without_another_way_packets_are_lost_until_the_link_is_back():
    one = streams([0], [2], 2e6)
    short = CongestionSpec(timeout=1)  # a retry timer of 8 us, so that the loss is found out
    result = run(
        FABRIC, one, "host01/nic0:port-1 down at 10us for 20us convergence 1us", spec=short
    )
    assert drops(result)["link_down"] > 0
    assert result.finished
    assert result.makespan_s > 2e6 * 8 / 400e9 + 20 * US


def test_a_flap_goes_down_as_often_as_it_says():
    result = run(FABRIC, ACROSS, "link leaf-1:port-3 flaps 10us 3 times at 5us convergence 1us")
    assert result.record.port_counters["downs"][cable("leaf-1:port-3")] == 3
    assert result.finished


def test_overlapping_outages_end_with_the_last():
    faults = ("link leaf-1:port-3 down at 10us for 30us", "switch spine-1 reboot at 20us for 40us")
    sim = start(FABRIC, ACROSS, *faults)
    out, ends = cable("leaf-1:port-3"), []
    for time in (9e-6, 11e-6, 41e-6, 59e-6, 61e-6):
        sim.advance(time)
        ends.append(int(sim.result().record.port_counters["down"][out]))
    assert ends == [0, 1, 1, 1, 0]
    assert sim.result().record.port_counters["downs"][out] == 1


def test_a_reboot_loses_the_queues_and_all_links_of_the_switch():
    slow = leaf_spine(up_bps=200e9)  # queues at the leaves
    result = run(slow, ACROSS, "switch leaf-2 reboot at 20us for 30us", until_s=200e-6)
    assert drops(result)["reboot"] > 0
    at_leaf = (slow.link_src == 5) | (slow.link_dst == 5)
    downs = result.record.port_counters["downs"]
    assert np.array_equal(downs, at_leaf.astype(int))


def test_a_slow_link_gives_its_part_of_the_speed():
    one = streams([0], [1], 4e6)
    full = run(FABRIC, one)
    half = run(FABRIC, one, "link host01/nic0:port-1 slow 0.5")
    assert half.makespan_s == pytest.approx(2 * full.makespan_s, rel=0.05)
    later = run(FABRIC, one, "link host01/nic0:port-1 slow 0.5 at 40us for 20us")
    assert later.makespan_s == pytest.approx(full.makespan_s + 10 * US, rel=0.02)


def test_bit_errors_lose_packets_one_way_or_both_at_their_chance():
    size = 4e6
    out = cable("leaf-1:port-1")  # towards host 0, which receives one stream
    work = streams([2], [0], size)
    lossy = CongestionSpec(selective_repeat=True)
    result = run(FABRIC, work, BitErrors("leaf-1:port-1", loss=0.02, way="out"), spec=lossy)
    corrupt = result.record.port_counters["dropped_corrupt"]
    sent = int(result.record.port_counters["tx_packets"][out])
    assert corrupt.sum() == corrupt[out]
    # within five standard deviations of the binomial
    assert corrupt[out] == pytest.approx(0.02 * sent, abs=5 * math.sqrt(0.02 * sent))
    back = run(FABRIC, work, BitErrors("leaf-1:port-1", loss=0.02, way="in"), spec=lossy)
    assert back.record.port_counters["dropped_corrupt"][out] == 0
    rate = BitErrors("leaf-1:port-1", ber=6e-7, way="out")
    assert rate.loss_of(4178) == pytest.approx(0.02, rel=0.01)
    assert drops(run(FABRIC, work, rate, spec=lossy))["corrupt"] > 0
    assert result.finished
    assert total(result, "retransmitted") >= corrupt[out]


@pytest.mark.parametrize("scheme", [RoutingScheme.SPRAY, RoutingScheme.ADAPTIVE])
def test_packets_that_choose_their_way_go_around_too(scheme):
    work = streams([0, 1, 2, 3], [2, 3, 0, 1], 2e6)
    spec = CongestionSpec(selective_repeat=True)
    out = cable("leaf-1:port-3")
    fault = "link leaf-1:port-3 down at 10us"
    result = run(FABRIC, work, f"{fault} convergence 10us", scheme=scheme, spec=spec)
    assert result.finished
    lost = result.record.port_counters["dropped_link_down"]
    # the leaf's own table is mended at once; what is lost there had been queued already
    assert lost[out] < 20
    # the other leaf does not know, and spine 1 cannot help it: an adaptive one drops by itself
    reason = "no_route" if scheme is RoutingScheme.ADAPTIVE else "link_down"
    assert drops(result)[reason] > 100
    later = run(FABRIC, work, f"{fault} convergence 20us", scheme=scheme, spec=spec)
    assert drops(later)[reason] > drops(result)[reason]
    from_start = run(FABRIC, work, "link leaf-1:port-3 down", scheme=scheme, spec=spec)
    assert "link_down" not in drops(from_start)
    assert from_start.link_bytes[out] == from_start.link_bytes[out ^ 1] == 0


def test_forwarding_tables_change_only_when_the_manager_has_spoken():
    work = streams([0, 1, 2, 3], [2, 3, 0, 1], 2e6)
    options = {"scheme": RoutingScheme.DESTINATION, "transport": Transport.INFINIBAND}
    whole = run(FABRIC, work, **options)
    used = [name for name in ("leaf-1:port-3", "leaf-1:port-4") if crossed(whole, name)[0]]
    out = cable(used[0])
    result = run(FABRIC, work, f"link {used[0]} down at 10us convergence 15us", **options)
    lost = int(result.record.port_counters["dropped_link_down"][out])
    # the leaf goes on sending into the dead link for 15 us, at most at the link's rate
    assert 50 < lost <= 15 * US * 400e9 / 8 / 4096 + 30


def test_a_flow_with_no_way_left_keeps_its_path_and_fails():
    spec = CongestionSpec(timeout=1, retries=2)
    result = run(FABRIC, streams([0], [2], 1e6), "host01/nic0:port-1 down at 5us", spec=spec)
    assert not result.finished
    assert "messages-failed" in [finding.id for finding in result.findings]


# ---------------------------------------------------------------- wrong settings


def test_ecn_off_on_one_leaf_marks_nothing_there():
    right = run(FABRIC, INCAST)
    wrong = run(FABRIC, INCAST, "ecn leaf-2 off")
    assert total(right, "marked") > 0
    assert total(wrong, "marked") == total(wrong, "cnp_sent") == 0
    later = run(FABRIC, INCAST, "ecn leaf-2 off for 40us")
    assert 0 < total(later, "marked") != total(right, "marked")
    elsewhere = run(FABRIC, INCAST, "ecn leaf-1 off")
    assert total(elsewhere, "marked") > 0


def test_pfc_off_on_one_port_drops_what_it_should_have_held_back():
    work = streams([0, 1, 2], [3, 3, 3], 4e6)
    right = run(FABRIC, work, spec=PFC)
    assert drops(right) == {}
    assert by_link(right, "pause_counters", "pauses_sent", 3)[2 * 2] > 0  # host 2's own link
    wrong = run(FABRIC, work, "pfc leaf-2:port-1 off", spec=PFC, until_s=1e-3)
    assert by_link(wrong, "pause_counters", "pauses_sent", 3)[2 * 2] == 0
    assert drops(wrong)["headroom"] > 0
    assert by_link(wrong, "group_counters", "dropped", 3).nonzero()[0].tolist() == [2 * 2]


def test_a_wrong_dscp_map_puts_roce_in_a_lossy_class_on_that_switch_only():
    wrong = run(FABRIC, INCAST, "dscp leaf-2 sonic-default")
    out = 2 * 3 + 1  # from leaf 2 to host 3
    assert by_link(wrong, "queue_counters", "peak_bytes", 3)[out] == 0
    assert by_link(wrong, "queue_counters", "peak_bytes", 1)[out] > 0
    assert total(wrong, "marked") == 0  # priority 1 is not marked
    at_leaf_1 = FABRIC.link_src == 4
    assert by_link(wrong, "queue_counters", "peak_bytes", 1)[at_leaf_1].sum() == 0


def test_an_mtu_mismatch_drops_full_packets_at_that_switch():
    result = run(FABRIC, streams([0], [1], 1e6), "mtu leaf-1 1500", until_s=50e-6)
    lost = result.record.port_counters["dropped_mtu"]
    assert lost.nonzero()[0].tolist() == [2 * 1 + 1]  # leaf 1 to host 1
    small = run(FABRIC, streams([0], [1], 1000), "mtu leaf-1 1500")
    assert small.finished
    assert drops(small) == {}


@pytest.mark.parametrize(
    ("fault", "node"), [("cnp leaf-2 priority 0", 5), ("cnp host04/nic0 priority 0", 3)]
)
def test_notifications_take_the_wrong_queue(fault, node):
    right, wrong = run(FABRIC, INCAST), run(FABRIC, INCAST, fault)
    here = FABRIC.link_src == node
    assert total(wrong, "cnp_sent") > 0
    for result, empty, used in ((right, 0, 6), (wrong, 6, 0)):
        assert by_link(result, "queue_counters", "peak_bytes", empty)[here].sum() == 0
        # an idle port takes a packet past its queue, unless its switch maps priorities
        if result is wrong or node == 3:
            assert by_link(result, "queue_counters", "peak_bytes", used)[here].sum() > 0


# ---------------------------------------------------------------- receivers and adapters


def test_a_stuck_receiver_spreads_pauses_until_it_goes_on():
    # host 3 is stuck; the victim stream 1 → 2 shares a path with what waits for it
    work = streams([0, 1, 1], [3, 3, 2], 8e6)
    right = run(FABRIC, work, spec=PFC)
    stuck = run(FABRIC, work, "receiver nic-4 stuck at 20us for 400us", spec=PFC)
    into = 2 * 3 + 1
    assert by_link(right, "pause_counters", "pauses_sent", 3)[into] == 0
    assert by_link(stuck, "pause_counters", "pauses_sent", 3)[into] > 0
    assert stuck.finished
    assert drops(stuck) == {}
    assert stuck.makespan_s > 400e-6
    assert stuck.stream_finish_s[2] > right.stream_finish_s[2] + 200e-6
    for_good = run(FABRIC, work, "receiver nic-4 stuck at 20us", spec=PFC, until_s=2e-3)
    assert not for_good.finished


def test_a_stuck_gpu_holds_up_its_nic():
    fabric, names = clos(servers=2, gpus=1, spines=1, leaves=2, delay_s=1e-6)
    a, b = names["server-0:gpu-0"], names["server-1:gpu-0"]
    work = streams([a], [b], 8e6)
    right = run(fabric, work, spec=PFC)
    stuck = run(fabric, work, "receiver gpu-2 stuck at 20us for 300us", spec=PFC)
    assert stuck.makespan_s == pytest.approx(right.makespan_s + 300e-6, rel=0.1)
    assert stuck.record.pause_counters["pauses_sent"].sum() > 0
    slow = run(fabric, work, "receiver gpu-2 slow 0.25", spec=PFC)
    assert slow.makespan_s == pytest.approx(8e6 * 8 / (512e9 / 4), rel=0.1)


def test_a_receiver_that_is_not_ready_answers_rnr():
    work = streams([0, 1], [2, 3], 1e6)
    spec = CongestionSpec(rnr_timer="20 us")
    result = run(FABRIC, work, "receiver nic-3 not-ready for 100us", spec=spec)
    assert result.finished
    assert result.record.flow_counters["rnr_naks"].astype(bool).tolist() == [True, False]
    assert result.stream_finish_s[0] > 100e-6 > result.stream_finish_s[1]


def test_a_straggler_delays_a_ring_by_every_chunk():
    rounds = 6
    ring = streams([0, 1, 2, 3], [1, 2, 3, 0], 1e5, rounds=rounds, coupled=True)
    right = run(FABRIC, ring)
    late = run(FABRIC, ring, StragglerGpu("host02/nic0", 20 * US))
    # what it sends depends on what it receives, so of two delays at least every other is added
    extra = late.makespan_s - right.makespan_s
    assert (rounds - 1) * 20 * US * 0.9 < extra <= rounds * 20 * US * 1.01
    once = run(FABRIC, ring, StragglerGpu("host02/nic0", 20 * US, until_s=1 * US))
    assert once.makespan_s - right.makespan_s == pytest.approx(20 * US, rel=0.3)


def test_an_adapter_that_ignores_notifications_keeps_its_rate():
    right, wrong = run(FABRIC, INCAST), run(FABRIC, INCAST, "nic-1 ignores-cnp")
    ignored = wrong.record.flow_counters["cnp_ignored"]
    assert ignored.astype(bool).tolist() == [True, False]
    assert wrong.record.flow_counters["cnp_handled"].astype(bool).tolist() == [False, True]
    assert wrong.stream_finish_s[0] < right.stream_finish_s[0]


def test_an_adapter_that_notifies_nobody():
    work = streams([0, 1, 2, 0, 1], [3, 3, 3, 2, 2], 2e6)
    wrong = run(FABRIC, work, "nic nic-4 sends-no-cnp")
    sent = wrong.record.flow_counters["cnp_sent"]
    assert sent[:3].sum() == 0
    assert wrong.record.flow_counters["marked"][:3].sum() > 0
    both = run(FABRIC, work, "nic nic-4 sends-no-cnp", "nic-1 ignores-cnp")
    assert both.record.flow_counters["cnp_handled"][0] == 0


# ---------------------------------------------------------------- all together


@pytest.mark.parametrize(
    "fault",
    [
        "receiver nic-2 stuck at 1us",  # receives nothing in the incast
        "nic-4 ignores-cnp",  # sends nothing
        "nic nic-1 sends-no-cnp",
        "gpu nic-4 straggles 1us",
        "receiver nic-2 not-ready",
        "dscp leaf-1 roce",
        "mtu leaf-1 9100",
    ],
)
def test_a_fault_without_effect_is_said_to_be_one(fault):
    result = run(FABRIC, INCAST, fault)
    found = [f for f in result.findings if f.id == "fault-without-effect"]
    assert len(found) == 1
    assert fault.split()[-1] in found[0].message
    assert result.makespan_s == run(FABRIC, INCAST).makespan_s


def test_ecn_off_twice_is_idle_where_nothing_marks():
    found = run(FABRIC, INCAST, "ecn leaf-2 off", spec=PFC).findings
    assert [f.id for f in found] == ["fault-without-effect"]


def test_two_wrong_settings_hold_together_and_end_one_by_one():
    faults = ("ecn leaf-2 off for 30us", "mtu leaf-2 9000 at 10us for 50us")
    result = run(FABRIC, INCAST, *faults, trace=1000)
    assert result.finished
    assert total(result, "marked") > 0
    assert len(result.record.events["time_s"]) > 0


def test_a_fault_of_what_is_not_there_is_refused():
    with pytest.raises(InputError, match="fault 'link leaf-9:port-1 down': there is no 'leaf-9'"):
        run(FABRIC, INCAST, LinkDown("leaf-9:port-1"))


def test_the_same_seed_gives_the_same_run():
    faults = ("link leaf-1:port-3 loss 0.01", "link leaf-1:port-4 down at 20us convergence 5us")
    one, two = (run(FABRIC, ACROSS, *faults, seed=5) for _ in range(2))
    assert np.array_equal(one.stream_finish_s, two.stream_finish_s)
    assert one.events == two.events
    other = run(FABRIC, ACROSS, *faults, seed=6)
    assert not np.array_equal(one.stream_finish_s, other.stream_finish_s)


SOME = (
    "link leaf-1:port-3 down",
    "link leaf-2:port-4 down",
    "link leaf-1:port-4 flaps 20us 4 times",
    "switch spine-1 reboot",
    "switch leaf-2 reboot",
    "link leaf-1:port-4 slow 0.3",
    "link spine-2:port-1 loss 0.01",
    "ecn leaf-2 off",
    "pfc leaf-2:port-1 off",
    "dscp leaf-2 sonic-default",
    "mtu leaf-1 2000",
    "cnp leaf-2 priority 3",
    "receiver nic-4 stuck",
    "receiver nic-3 slow 0.2",
    "receiver nic-3 not-ready",
    "gpu nic-1 straggles 3us",
    "nic-2 ignores-cnp",
    "nic nic-4 sends-no-cnp",
)
spans = st.tuples(st.integers(0, 60), st.integers(1, 60))


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(SOME), spans), min_size=1, max_size=5),
    st.sampled_from((RoutingScheme.ECMP, RoutingScheme.SPRAY, RoutingScheme.ADAPTIVE)),
    st.sampled_from((None, PFC)),
    st.integers(0, 30),
)
def test_whatever_fails_bytes_are_conserved_and_time_goes_on(chosen, scheme, spec, convergence):
    faults = []
    for text, (at, lasts) in chosen:
        more = f" convergence {convergence}us" if "down" in text or "reboot" in text else ""
        faults.append(f"{text} at {at}us for {lasts}us{more}")
    work = streams([0, 1, 2, 3, 2], [2, 3, 0, 1, 3], 3e5, rounds=2)
    sim = start(FABRIC, work, *faults, scheme=scheme, spec=spec)
    before = 0.0
    for stop in (5e-6, 40e-6, 150e-6):
        sim.advance(stop)
        result = sim.result()  # audits
        assert result.bytes_sent == (
            result.bytes_delivered + result.bytes_dropped + result.bytes_in_flight
        )
        assert before <= sim.now_s <= stop
        before = sim.now_s
    done = (
        result.message_finish_s if hasattr(result, "message_finish_s") else result.stream_finish_s
    )
    started = result.task_start_s[0]
    assert np.all((done >= started) | np.isnan(done))


@given(
    st.lists(
        st.tuples(st.integers(0, 20), st.integers(1, 20), st.booleans()), min_size=1, max_size=8
    )
)
def test_steps_say_what_is_in_force_when(rows):
    spans = [((a, math.inf if forever else a + d), k) for k, (a, d, forever) in enumerate(rows)]
    told = dict(steps(spans))
    now: list[int] = []
    for time in range(45):
        now = told.get(time, now)
        assert now == [k for (a, b), k in spans if a <= time < b]
    assert list(told) == sorted(told)


def test_a_nic_moves_to_its_other_port_at_once():
    fabric, names = clos(servers=2, gpus=1, spines=1, leaves=2, subplanes=2, delay_s=1e-6)
    a, b = names["server-0:gpu-0"], names["server-1:gpu-0"]
    work = streams([a], [b], 8e6)  # has a queue pair a port
    spec = CongestionSpec(timeout=1)
    right = run(fabric, work, spec=spec)
    ports = np.flatnonzero(
        (fabric.link_src == names["server-0:nic-0"]) & (fabric.link_src_port > 0)
    )
    assert right.link_bytes[ports].min() > 3e6
    down = run(fabric, work, "link nic-1:port-1 down at 20us convergence 1s", spec=spec)
    assert down.finished
    assert down.link_bytes[ports[1]] > 1.3 * right.link_bytes[ports[1]]
    assert down.makespan_s > 1.5 * right.makespan_s


def test_a_queue_pair_never_moves_to_a_neighbours_nic():
    fabric, names = clos(servers=2, gpus=2, delay_s=1e-6)  # one leaf a rail, GPUs joined by NVLink
    work = streams([names["server-0:gpu-0"]], [names["server-1:gpu-0"]], 4e6)
    spec = CongestionSpec(timeout=1, retries=2)
    fault = "link nic-1:port-1 down at 5us convergence 1us"
    result = run(fabric, work, fault, spec=spec)
    assert not result.finished
    neighbour = fabric.link_src == names["server-0:nic-1"]
    assert result.link_bytes[neighbour].sum() == 0


def test_a_link_that_is_back_carries_nothing_before_routes_have_come_back():
    work = streams([0, 1, 2, 3], [2, 3, 0, 1], 8e6)
    sim = start(FABRIC, work, "link leaf-1:port-3 down at 20us for 60us convergence 10us")
    out, sent = cable("leaf-1:port-3"), []
    for time in (81e-6, 89e-6, 120e-6):
        sim.advance(time)
        sent.append(float(sim.result().link_bytes[out]))
    assert sent[0] == sent[1] < sent[2]
