"""Counters under the names of real devices: they follow the engine's, port by port."""

import inspect
import re

import numpy as np
import polars as pl
import pytest
from _fault_case import PFC, by_link, drops, leaf_spine, run, streams, total

from railweave.design.models import CongestionSpec, RoutingScheme, Transport
from railweave.engine import device_counters as module
from railweave.engine.device_counters import NOT_COUNTED, device_counters
from railweave.engine.flow import simulate_flow
from railweave.errors import EngineError
from railweave.fabric import PlaneId
from railweave.fabric.names import node_name
from railweave.fabric.routing import compile_routing

FABRIC = leaf_spine()
INCAST = streams([0, 2], [3, 3], 4e6)


def value(frame, device, counter, port="port-1", queue=None):
    """The one row of this counter."""
    found = frame.filter(
        (pl.col("device") == device)
        & (pl.col("counter") == counter)
        & (pl.col("port") == port)
        & pl.col("queue").eq_missing(queue)
    )
    assert found.height == 1, (device, counter, port, queue)
    return found["value"][0]


def totals(frame):
    """Sum of every counter over all devices."""
    return dict(frame.group_by("counter").agg(pl.col("value").sum()).iter_rows())


def test_marks_and_notifications_are_counted_where_they_happen():
    result = run(FABRIC, INCAST)
    frame = device_counters(result, FABRIC)
    count = result.record.flow_counters
    assert value(frame, "host04/nic0", "np_ecn_marked_roce_packets") == count["marked"].sum() > 0
    assert value(frame, "host04/nic0", "np_cnp_sent") == count["cnp_sent"].sum() > 0
    assert value(frame, "host01/nic0", "rp_cnp_handled") == count["cnp_handled"][0] > 0
    assert value(frame, "host03/nic0", "rp_cnp_handled") == count["cnp_handled"][1] > 0
    assert value(frame, "host02/nic0", "rp_cnp_handled") == 0
    name = "SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS"
    assert value(frame, "leaf-2", name, "port-2", 3) == count["marked"].sum()
    assert totals(frame)[name] == count["marked"].sum()
    peak = value(frame, "leaf-2", "SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES", "port-2", 3)
    assert peak == by_link(result, "queue_counters", "peak_bytes", 3)[7]


def test_ignored_and_missing_notifications_read_as_field_engineers_read_them():
    ignores = device_counters(run(FABRIC, INCAST, "nic-1 ignores-cnp"), FABRIC)
    assert value(ignores, "host01/nic0", "rp_cnp_ignored") > 0
    assert value(ignores, "host01/nic0", "rp_cnp_handled") == 0
    silent = device_counters(run(FABRIC, INCAST, "nic-4 sends-no-cnp"), FABRIC)
    assert value(silent, "host04/nic0", "np_ecn_marked_roce_packets") > 0
    assert value(silent, "host04/nic0", "np_cnp_sent") == 0


def test_pauses_are_sent_at_one_end_and_received_at_the_other():
    work = streams([0, 1, 2], [3, 3, 3], 4e6)
    result = run(FABRIC, work, spec=PFC)
    frame = device_counters(result, FABRIC)
    got = value(frame, "host03/nic0", "rx_prio3_pause")
    assert got == value(frame, "leaf-2", "SAI_PORT_STAT_PFC_3_TX_PKTS") > 0
    counters = result.record.pause_counters
    links = FABRIC.n_links
    row = 3 * links + 4  # priority 3, host 3's own link
    assert got == counters["pauses_sent"][row] + counters["resumes_sent"][row]
    assert value(frame, "host03/nic0", "rx_prio3_pause_transition") == counters["resumes_sent"][row]
    took = value(frame, "host03/nic0", "rx_prio3_pause_duration")
    assert took == int(counters["paused_s"][row] * 1e6) > 0
    assert value(frame, "host03/nic0", "tx_prio3_pause") == 0
    room = "SAI_INGRESS_PRIORITY_GROUP_STAT_XOFF_ROOM_WATERMARK_BYTES"
    assert value(frame, "leaf-2", room, "port-1", 3) > 0
    sums = totals(frame)
    assert sums["SAI_PORT_STAT_PFC_3_RX_PKTS"] + sums["rx_prio3_pause"] == (
        sums["SAI_PORT_STAT_PFC_3_TX_PKTS"] + sums["tx_prio3_pause"]
    )
    assert all(sums[f"rx_prio{p}_pause"] == 0 for p in range(8) if p != 3)


def test_a_stuck_receiver_shows_as_pauses_that_its_adapter_sends():
    result = run(FABRIC, INCAST, "receiver nic-4 stuck at 20us for 200us", spec=PFC)
    frame = device_counters(result, FABRIC)
    assert value(frame, "host04/nic0", "tx_prio3_pause") > 0
    assert value(frame, "leaf-2", "SAI_PORT_STAT_PFC_3_RX_PKTS", "port-2") > 0
    us = value(frame, "leaf-2", "SAI_PORT_STAT_PFC_3_RX_PAUSE_DURATION_US", "port-2")
    assert us == value(frame, "host04/nic0", "tx_prio3_pause_duration") > 100


def test_the_watchdog_of_a_switch_counts_storms():
    spec = CongestionSpec(
        scheme="pfc", watchdog={"detect": "100 us", "restore": "100 us", "poll": "100 us"}
    )
    result = run(FABRIC, INCAST, "receiver nic-4 stuck at 20us for 600us", spec=spec, until_s=2e-3)
    frame = device_counters(result, FABRIC)
    found = "PFC_WD_QUEUE_STATS_DEADLOCK_DETECTED"
    assert value(frame, "leaf-2", found, "port-2", 3) == totals(frame)[found] > 0
    restored = value(frame, "leaf-2", "PFC_WD_QUEUE_STATS_DEADLOCK_RESTORED", "port-2", 3)
    assert restored == by_link(result, "pause_counters", "restores", 3)[7] > 0
    lost = value(frame, "leaf-2", "SAI_QUEUE_STAT_DROPPED_PACKETS", "port-2", 3)
    assert lost == by_link(result, "queue_counters", "dropped", 3)[7]
    discards = value(frame, "leaf-2", "SAI_PORT_STAT_IF_OUT_DISCARDS", "port-2")
    assert discards == result.record.port_counters["dropped_watchdog"][7] > 0


def test_without_pauses_a_slow_receiver_discards():
    spec = CongestionSpec(scheme="dcqcn", receive_buffer="100 kB")
    result = run(FABRIC, INCAST, "receiver nic-4 slow 0.1", spec=spec, until_s=300e-6)
    frame = device_counters(result, FABRIC)
    lost = drops(result)["rx_overflow"]
    assert value(frame, "host04/nic0", "rx_discards_phy") == lost > 0
    assert value(frame, "host04/nic0", "rx_prio3_discards") == lost
    assert value(frame, "host04/nic0", "rx_prio0_discards") == 0


def test_losses_show_as_errors_at_the_receiving_end_and_sequence_errors():
    work = streams([2], [0], 4e6)
    result = run(FABRIC, work, "link leaf-1:port-1 loss 0.005 out")
    frame = device_counters(result, FABRIC)
    lost = drops(result)["corrupt"]
    assert value(frame, "host01/nic0", "rx_crc_errors_phy") == lost > 0
    assert totals(frame)["SAI_PORT_STAT_IF_IN_ERRORS"] == 0
    assert value(frame, "host01/nic0", "out_of_sequence") == total(result, "out_of_order") > 0
    assert value(frame, "host03/nic0", "packet_seq_err") == total(result, "naks_received") > 0
    got = value(frame, "host01/nic0", "rx_packets_phy")
    assert got == value(frame, "leaf-1", "SAI_PORT_STAT_IF_OUT_UCAST_PKTS") - lost
    up = run(FABRIC, work, "link leaf-2:port-1 loss 0.005 in")
    assert value(device_counters(up, FABRIC), "leaf-2", "SAI_PORT_STAT_IF_IN_ERRORS") > 0


def test_receivers_without_buffers_and_dead_peers():
    work = streams([0, 1], [2, 3], 1e6)
    spec = CongestionSpec(timeout=1, retries=2, rnr_retries=2, rnr_timer="10 us")
    result = run(
        FABRIC,
        work,
        "receiver nic-3 not-ready",
        "link host02/nic0:port-1 down at 5us",
        spec=spec,
    )
    frame = device_counters(result, FABRIC)
    assert value(frame, "host01/nic0", "rnr_nak_retry_err") == total(result, "rnr_naks") > 0
    assert value(frame, "host03/nic0", "out_of_buffer") > 0
    assert value(frame, "host01/nic0", "req_rnr_retries_exceeded") == 1
    assert value(frame, "host02/nic0", "local_ack_timeout_err") == total(result, "timeouts") > 0
    assert value(frame, "host02/nic0", "req_transport_retries_exceeded") == 1
    assert value(frame, "host02/nic0", "link_down_events_phy") == 1
    assert value(frame, "host01/nic0", "link_down_events_phy") == 0


def test_octets_leave_out_preamble_and_gap():
    result = run(FABRIC, streams([0], [1], 1e6))
    frame = device_counters(result, FABRIC)
    packets = int(result.record.port_counters["tx_packets"][0])
    wire = int(result.record.port_counters["tx_bytes"][0])
    assert value(frame, "host01/nic0", "tx_packets_phy") == packets == -(-1_000_000 // 4096)
    assert value(frame, "host01/nic0", "tx_bytes_phy") == wire - 20 * packets
    assert value(frame, "host02/nic0", "rx_bytes_phy") == wire - 20 * packets
    assert value(frame, "leaf-1", "SAI_PORT_STAT_IF_IN_OCTETS") == wire - 20 * packets


def test_infiniband_counts_waiting_for_credits_in_words_of_four_octets():
    options = {"scheme": RoutingScheme.DESTINATION, "transport": Transport.INFINIBAND}
    result = run(FABRIC, INCAST, **options)
    frame = device_counters(result, FABRIC)
    sent = int(result.record.port_counters["tx_bytes"][0])
    assert value(frame, "host01/nic0", "PortXmitData") == sent // 4
    waited = sum(by_link_s(result, p)[4] for p in range(8))
    ticks = value(frame, "host03/nic0", "PortXmitWait")
    assert ticks == int(waited * 400e9 / 32) > 0
    names = set(frame["counter"])
    assert not any(name.startswith(("SAI_", "rx_prio")) for name in names)
    assert "rp_cnp_handled" in names
    assert totals(frame)["PortXmitPkts"] == result.record.port_counters["tx_packets"].sum()


def by_link_s(result, priority):
    return result.record.pause_counters["credit_wait_s"].reshape(8, -1)[priority]


def test_every_port_of_every_device_is_there_once():
    frame = device_counters(run(FABRIC, streams([0], [1], 1000)), FABRIC)
    assert frame.columns == ["device", "port", "queue", "counter", "value"]
    assert frame.select("device", "port", "queue", "counter").is_unique().all()
    assert frame["value"].min() >= 0
    ports = {(d, p) for d, p in frame.select("device", "port").iter_rows()}
    named = {
        (node_name(FABRIC, int(n)), f"port-{p}")
        for n, p in zip(FABRIC.link_src, FABRIC.link_src_port, strict=True)
    }
    assert ports == named
    assert frame["queue"].drop_nulls().unique().sort().to_list() == list(range(8))


def test_the_docstring_names_every_counter_and_none_that_is_not_counted():
    text = inspect.getdoc(module)
    assert text is not None
    work = streams([0, 2], [3, 3], 1e5)
    names = set(device_counters(run(FABRIC, work), FABRIC)["counter"])
    options = {"scheme": RoutingScheme.DESTINATION, "transport": Transport.INFINIBAND}
    names |= set(device_counters(run(FABRIC, work, **options), FABRIC)["counter"])
    for name in names:
        general = re.sub(r"(?<=prio)\d|(?<=PFC_)\d", "P", name)
        tail = re.sub(r"^(rx|tx)_prioP|^SAI_[A-Z]+(_PRIORITY_GROUP)?_STAT|^.*DEADLOCK", "", general)
        words = re.findall(r"[A-Za-z]+", tail)
        assert general in text or all(word in text for word in words), name
    for names_of in NOT_COUNTED:
        for name in re.findall(r"[\w*]+", names_of):
            assert name.rstrip("*") not in text.replace("SAI_PORT_STAT_IF_IN_", ""), name


def test_a_result_of_another_engine_is_refused():
    routing = compile_routing(FABRIC, PlaneId.BACKEND)
    result = simulate_flow(FABRIC, streams([0], [1], 1000), routing)
    with pytest.raises(EngineError, match="engine 'packet'"):
        device_counters(result, FABRIC)


def test_queue_pairs_count_at_the_port_that_they_leave_by():
    work = streams([0, 2], [3, 3], 4e6, qps=4)
    result = run(FABRIC, work)
    frame = device_counters(result, FABRIC)
    sent = [value(frame, f"host0{h}/nic0", "rp_cnp_handled") for h in (1, 3)]
    handled = result.record.flow_counters["cnp_handled"].astype(int)
    assert sent == [handled[:4].sum(), handled[4:].sum()]
    assert np.all(handled >= 0)
    assert sum(sent) > 0
