"""Random small fabrics, traffic, settings and faults through the packet engine.

Whatever happens, no byte goes astray, nothing ends before it began or before what it waits for,
every run ends, one that does not deliver everything says why, and a run is the same again, whole
or in pieces.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

import numpy as np
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from railweave.design._meaning_network import CONGESTION_OF
from railweave.design.models import (
    CongestionName,
    CongestionSpec,
    RoutingScheme,
    RoutingSpec,
    Spraying,
    Transport,
)
from railweave.engine import faults
from railweave.engine.faults import Fault
from railweave.engine.packet import PacketResult, PacketRun
from railweave.engine.packet_settings import PacketSettings, Watch, default_settings
from railweave.fabric import Fabric, NodeKind, PlaneId
from railweave.fabric.names import node_name, port_name
from railweave.fabric.routing import RoutingSet, compile_routing
from railweave.fabric.small import Cable, dumbbell, small_fabric, star
from railweave.qos import CLASSES
from railweave.workload import DELIVERED, SENT, Traffic, TrafficBuilder

#: more than the largest of these runs takes by far
MOST_EVENTS = 4_000_000
GIVES_UP = {"messages-failed", "deadlock", "stuck"}
SPEEDS = (10e9, 25e9, 100e9, 400e9)
SCHEMES = {
    transport: [name.value for name in CongestionName if name in CONGESTION_OF[transport]]
    for transport in Transport
}
WAYS = (
    RoutingScheme.ECMP,
    RoutingScheme.SPRAY,
    RoutingScheme.ADAPTIVE,
    RoutingScheme.FLOWLET,
    RoutingScheme.DESTINATION,
)
US = 1e-6
times_s = st.integers(0, 200).map(lambda n: n * US)


@dataclass(frozen=True, eq=False, repr=False)
class Case:
    """One run: what PacketRun is given."""

    fabric: Fabric
    traffic: Traffic
    routing: RoutingSet
    settings: PacketSettings
    seed: int

    def start(self) -> PacketRun:
        return PacketRun(
            self.fabric,
            self.traffic,
            self.routing,
            self.settings,
            seed=self.seed,
            allow_unroutable=True,
        )

    def _repr_pretty_(self, printer, cycle: bool) -> None:
        printer.text(repr(self))

    def __repr__(self) -> str:
        told, traffic = self.settings, self.traffic
        plane = told.qos[PlaneId.BACKEND]
        routed = self.routing.planes[PlaneId.BACKEND]
        spec = plane.spec.model_dump(exclude_unset=True, mode="json")
        return (
            f"{self.fabric.name} of {self.fabric.n_nodes}, {self.fabric.n_links} links,"
            f" {plane.transport.value}, {routed.spec.model_dump(exclude_unset=True, mode='json')},"
            f" {spec}, faults {[str(f) for f in told.faults]}, spraying {told.spraying},"
            f" paths {told.spray_paths}, gap {told.flowlet_gap_s}, window {told.window_bytes},"
            f" stuck {told.stuck_s}, seed {self.seed}, buffers"
            f" {[q.buffer_bytes for q in told.switches.values()][:1]}, {traffic.n_tasks} tasks of"
            f" {traffic.task_rounds.tolist()} rounds, {traffic.src.tolist()} to"
            f" {traffic.dst.tolist()}, {traffic.chunk_bytes.tolist()} B"
        )


# ---------------------------------------------------------------- what is drawn


@st.composite
def fabrics(draw) -> Fabric:
    speed, other = draw(st.sampled_from(SPEEDS)), draw(st.sampled_from(SPEEDS))
    length = draw(st.sampled_from([1.0, 5.0, 300.0]))
    kind = draw(st.sampled_from(["star", "dumbbell", "leaf-spine", "ring"]))
    n = draw(st.integers(2, 6))
    if kind == "star":
        return star(n, speed, length_m=length)
    if kind == "dumbbell":
        return dumbbell(n // 2, n - n // 2, speed, other, length_m=length)
    switches = draw(st.integers(2, 5))
    cables = [Cable(h, n + h % switches, speed, length) for h in range(n)]
    if kind == "ring":
        ring = range(switches)
        cables += [
            Cable(n + s, n + (s + 1) % switches, other, length) for s in ring[switches < 3 :]
        ]
        return small_fabric("ring", n, (-1,) * switches, cables)
    spines = draw(st.integers(1, 3))
    cables += [
        Cable(n + leaf, n + switches + spine, other, length)
        for leaf in range(switches)
        for spine in range(spines)
    ]
    return small_fabric("leaf-spine", n, (1,) * switches + (2,) * spines, cables)


@st.composite
def works(draw, hosts: int) -> Traffic:
    builder = TrafficBuilder()
    ends = st.integers(0, hosts - 1)
    sizes = st.sampled_from([0.0, 1.0, 4096.0, 4097.0, 60_000.5, 300_000.0])
    for number in range(draw(st.integers(1, 3))):
        before = draw(st.lists(st.integers(0, number - 1), unique=True)) if number else []
        common = {
            "label": f"task {number}",
            "after": before,
            "start_s": draw(times_s),
            "delay_s": draw(st.sampled_from([0.0, 3e-6])),
            "chunk_delay_s": draw(st.sampled_from([0.0, 1e-6])),
            "queue_pairs": draw(st.sampled_from([1, 1, 3])),
        }
        kind = draw(st.sampled_from(["plain", "incast", "ring", "barrier"]))
        if kind == "barrier" and number:
            builder.barrier(before, label="barrier", delay_s=common["delay_s"])
            continue
        if kind == "ring":
            order = np.array(draw(st.permutations(range(hosts))))[: draw(st.integers(2, hosts))]
            m = len(order)
            preds = (np.arange(m), np.roll(np.arange(m), 1), np.full(m, draw(st.integers(1, 2))))
            rounds = draw(st.integers(2, 5))
            size = draw(sizes)
            builder.coupled(order, np.roll(order, -1), size, rounds, preds, **common)
            continue
        count = draw(st.integers(1, 6))
        src = [draw(ends) for _ in range(count)]
        dst = [draw(ends)] * count if kind == "incast" else [draw(ends) for _ in range(count)]
        if before and draw(st.booleans()):
            common["after_sent"] = [common["after"].pop()]
        builder.plain(src, dst, [draw(sizes) for _ in range(count)], **common)
    return builder.build(check=False)  # which would refuse a stream to itself


@st.composite
def specs(draw, transport: Transport) -> CongestionSpec:
    given: dict[str, object] = {
        "scheme": draw(st.sampled_from(SCHEMES[transport])),
        "timeout": draw(st.sampled_from([1, 3, 6, 20])),
        "retries": draw(st.sampled_from([0, 2, 7])),
        "rnr_timer": draw(st.sampled_from(["10 us", "640 us"])),
        "rnr_retries": draw(st.sampled_from([0, 2, 7])),
        "watchdog": "off",
    }
    some = {
        "classes": st.sampled_from(sorted(CLASSES)),
        "ecn": st.sampled_from(
            ["off", "paper", {"kmin": "5 kB", "kmax": "20 kB", "pmax": 0.5, "weight": 0.1}]
        ),
        "headroom": st.sampled_from(["5 kB", "100 kB"]),
        "pfc_threshold": st.sampled_from([0.125, 4.0, "2 kB", "30 kB"]),
        "xon_offset": st.sampled_from(["1 kB", "1 MB"]),
        "watchdog": st.sampled_from(
            [
                {"detect": "20 us", "restore": "30 us", "poll": "10 us", "action": action}
                for action in ("drop", "forward")
            ]
        ),
        "trimming": st.just(True),
        "cut_through": st.booleans(),
        "selective_repeat": st.booleans(),
        "reorder_packets": st.sampled_from([0, 1, 300]),
        "ack_every": st.sampled_from([1, 5, 100]),
        "cnp_interval": st.just("50 us"),
        "receive_buffer": st.sampled_from(["20 kB", "300 kB"]),
    }
    if transport is Transport.INFINIBAND:
        del some["trimming"]  # refused, as is too little room for a packet
        some["receive_buffer"] = st.just("300 kB")
    for name in draw(st.lists(st.sampled_from(sorted(some)), max_size=5, unique=True)):
        given[name] = draw(some[name])
    return CongestionSpec.model_validate(given)


@st.composite
def one_fault(draw, fabric: Fabric) -> Fault:
    hosts = [node_name(fabric, int(n)) for n in np.flatnonzero(fabric.node_kind == NodeKind.NIC)]
    switches = [node_name(fabric, int(n)) for n in fabric.switches(PlaneId.BACKEND)]
    at = draw(st.sampled_from([0.0, 1e-6, 30e-6]) | times_s)
    until = draw(st.sampled_from([None, at + 1e-6, at + 40e-6]))
    when = {"at_s": at, "until_s": until}
    out = {**when, "convergence_s": draw(st.sampled_from([0.0, 5e-6, 0.125]))}
    port = port_name(fabric, draw(st.integers(0, fabric.n_links - 1)))
    host, switch = draw(st.sampled_from(hosts)), draw(st.sampled_from(switches))
    return draw(
        st.sampled_from(
            [
                faults.LinkDown(port, **out),
                faults.LinkFlap(port, 20e-6, 4, **out),
                faults.SwitchReboot(switch, **out),
                faults.LinkSlow(port, 0.3, **when),
                faults.BitErrors(port, loss=0.02, **when),
                faults.BitErrors(port, loss=1.0, way="in", **when),
                faults.BitErrors(port, ber=1e-6, way="out", **when),
                faults.EcnOff(switch, **when),
                faults.PfcOff(port, **when),
                faults.WrongDscpMap(switch, "sonic-default", **when),
                faults.MtuMismatch(switch, 1500, **when),
                faults.CnpWrongQueue(draw(st.sampled_from([host, switch])), 3, **when),
                faults.StuckReceiver(host, **when),
                faults.SlowReceiver(host, 0.1, **when),
                faults.ReceiverNotReady(host, **when),
                faults.NicIgnoresCnp(host, **when),
                faults.NicSendsNoCnp(host, **when),
            ]
        )
    )


@st.composite
def cases(draw, *, faulty: bool = True) -> Case:
    fabric = draw(fabrics())
    hosts = int((fabric.node_kind == NodeKind.NIC).sum())
    transport = draw(st.sampled_from([Transport.ROCEV2] * 4 + list(Transport)))
    way = RoutingSpec(
        scheme=draw(st.sampled_from(WAYS)), queue_pairs=draw(st.sampled_from([1, 1, 4]))
    )
    seed = draw(st.integers(0, 2**64 - 1))
    routed = compile_routing(fabric, PlaneId.BACKEND, way, transport, seed % 1000)
    routing = RoutingSet.of(routed)
    wrong = draw(st.lists(one_fault(fabric), max_size=3)) if faulty else []
    told = default_settings(
        fabric,
        routing,
        spec := draw(specs(transport)),
        faults=tuple(wrong),
        spraying=draw(st.sampled_from(Spraying)),
        spray_paths=draw(st.sampled_from([0, 1, 4])),
        flowlet_gap_s=draw(st.sampled_from([50e-6, 1e-7])),
        window_bytes=draw(st.sampled_from([math.inf, math.inf, 10_000.0])),
        stuck_s=draw(st.sampled_from([10e-3, 100e-6])),
        watch=Watch(trace=draw(st.sampled_from([0, 50, 100_000]))),
    )
    buffer = draw(st.sampled_from([None, 300e3, 3e6]))
    if buffer is not None and transport is not Transport.INFINIBAND:
        small = {
            int(n): replace(told.switch(fabric, int(n)), buffer_bytes=buffer)
            for n in fabric.switches(PlaneId.BACKEND)
        }
        told = replace(told, switches=small)
    if spec.timeout < 7 and draw(st.booleans()):  # else retries take seconds of samples
        told = replace(told, watch=replace(told.watch, period_s=5e-6, links=None, flows=None))
    return Case(fabric, draw(works(hosts)), routing, told, seed)


# ---------------------------------------------------------------- what must hold


def run(case: Case, pieces: int = MOST_EVENTS) -> PacketResult:
    """Run to the end, so many events at a time; it has an end."""
    sim = case.start()
    for _ in range(-(-MOST_EVENTS // pieces)):
        if sim.advance(max_events=pieces):
            break
    assert sim.finished, f"no end after {MOST_EVENTS} events, at {sim.now_s} s"
    return sim.result()


def bytes_are_conserved(result: PacketResult) -> None:
    arrived = result.bytes_delivered + result.bytes_dropped + result.bytes_in_flight
    assert result.bytes_sent == arrived
    ledger = result.record.ledger
    for what in ("packets", "bytes"):
        dropped = sum(v for name, v in ledger.items() if name.startswith(f"dropped_{what}_"))
        whole = ledger[f"delivered_{what}"] + ledger[f"in_flight_{what}"] + dropped
        assert ledger[f"sent_{what}"].tolist() == whole.tolist()


def times_are_in_order(traffic: Traffic, result: PacketResult) -> None:
    start, finish = result.task_start_s, result.task_finish_s
    started = np.isfinite(start)
    assert np.all(start[started] >= traffic.task_start_s[started] - 1e-12)
    ended = np.isfinite(finish)
    assert np.all(started[ended])
    assert np.all(finish[ended] >= start[ended])
    for task in np.flatnonzero(started):
        which = slice(traffic.dep_ptr[task], traffic.dep_ptr[task + 1])
        for before, kind in zip(traffic.dep_task[which], traffic.dep_kind[which], strict=True):
            if kind == DELIVERED:
                assert start[task] >= finish[before] + traffic.task_delay_s[task] - 1e-12
            else:
                assert kind == SENT
                assert start[task] >= start[before]
    messages_are_in_order(traffic, result)


def messages_are_in_order(traffic: Traffic, result: PacketResult) -> None:
    frame = result.messages()
    begun = frame["start_s"].is_finite()
    done = frame.filter(frame["finish_s"].is_finite())
    assert begun.filter(frame["finish_s"].is_finite()).all()
    assert (done["finish_s"] >= done["start_s"]).all()
    start = {(s, c): t for s, c, t in frame.select("stream", "chunk", "start_s").iter_rows()}
    finish = {(s, c): t for s, c, t in frame.select("stream", "chunk", "finish_s").iter_rows()}
    for (stream, chunk), began in start.items():
        if not math.isfinite(began):
            continue
        for k in range(traffic.pred_ptr[stream], traffic.pred_ptr[stream + 1]):
            source = int(traffic.pred_stream[k]), chunk - int(traffic.pred_lag[k])
            if source[1] >= 0:
                assert began >= finish[source] - 1e-12


def it_says_why(result: PacketResult) -> None:
    ids = {finding.id for finding in result.findings}
    for finding in sorted(GIVES_UP & ids) or ["delivered" if result.finished else "?"]:
        event(finding)
    ended = np.isfinite(result.task_finish_s)
    if result.finished:
        assert not ids & GIVES_UP
        routable = np.isfinite(result.stream_finish_s)
        assert result.unroutable_streams == np.count_nonzero(~routable)
        assert np.all(ended) or result.unroutable_streams
    else:
        assert ids & GIVES_UP
        # of a queue pair that failed only the answers may have been lost
        assert not np.all(ended) or "messages-failed" in ids


def all_is_sound(case: Case, result: PacketResult) -> None:
    bytes_are_conserved(result)
    times_are_in_order(case.traffic, result)
    it_says_why(result)


def columns(result: PacketResult) -> dict[str, object]:
    """All that came out, bit by bit."""
    record = result.record
    found: dict[str, object] = {
        name: getattr(result, name).tobytes()
        for name in ("task_start_s", "task_finish_s", "stream_finish_s", "link_bytes")
    }
    found["events"] = result.events
    for table in fields(record):
        columns_of = getattr(record, table.name)
        if isinstance(columns_of, Mapping):
            for name, column in columns_of.items():
                found[f"{table.name}.{name}"] = np.asarray(column).tobytes()
    return found


def has_room(case: Case) -> bool:
    """Whether what pauses need fits into every switch."""
    fabric = case.fabric
    for node in fabric.switches(PlaneId.BACKEND).tolist():
        into = np.flatnonzero(fabric.link_dst == node)
        ports = Counter(
            zip(fabric.link_capacity_bps[into], fabric.link_length_m[into], strict=True)
        )
        if case.settings.switch(fabric, node).shared_bytes(dict(ports)) <= 0:
            return False
    return True


def lost_in_the_network(result: PacketResult) -> dict[str, int]:
    """Packets dropped by reason, but for those no longer of use to their receivers."""
    prefix = "dropped_packets_"
    return {
        name: int(column.sum())
        for name, column in result.record.ledger.items()
        if name.startswith(prefix)
        and column.any()
        and name.removeprefix(prefix) not in {"out_of_order", "duplicate", "late"}
    }


def fuzz(examples: int):
    return settings(
        max_examples=int(os.environ.get("RW_FUZZ", examples)),
        phases=[Phase.explicit, Phase.generate],
        deadline=None,
        derandomize="RW_FUZZ_RANDOM" not in os.environ,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


@fuzz(300)
@given(cases())
def test_nothing_goes_astray_whatever_fails(case):
    all_is_sound(case, run(case))


@fuzz(60)
@given(cases(), st.integers(1, 3000))
def test_a_run_is_the_same_again_and_in_pieces(case, pieces):
    whole = columns(run(case))
    assert whole == columns(run(case))
    assert whole == columns(run(case, pieces))


@fuzz(80)
@given(cases(faulty=False))
def test_a_lossless_network_with_room_for_pauses_drops_nothing(case):
    told = case.settings.qos[PlaneId.BACKEND]
    spec = told.spec
    lossless = told.transport is Transport.INFINIBAND or (
        told.scheme.pfc
        and spec.classes != "sonic-default"  # where hosts' priority 3 has no PFC
        and spec.watchdog == "off"
        and spec.headroom == "rule"
        and spec.receive_buffer is None
        and has_room(case)
    )
    event(f"lossless: {lossless}")
    if lossless:
        assert lost_in_the_network(run(case)) == {}
