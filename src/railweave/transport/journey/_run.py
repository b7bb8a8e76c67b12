"""Running a journey: the verbs model over the design's ways, TCP over them, or neither."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from railweave.design.models import Transport
from railweave.errors import InputError
from railweave.fabric.wire import encryption_bytes, least_wire_bytes
from railweave.transport.journey._clock import PacketTimes, Passage, times_of
from railweave.transport.journey._setup import (
    PlaneSetup,
    congestion_at,
    hop_named,
    make_clocks,
    plane_setup,
)
from railweave.transport.journey._tcp import TcpRun, run_tcp
from railweave.transport.journey._wire import Congestion, Feedback, PathWire
from railweave.transport.packets import BTH_AND_ICRC_BYTES, MTU_BYTES, IbPacket, Service
from railweave.transport.verbs._network import AdapterTiming, Arrival
from railweave.transport.verbs._operation_run import FaultyWire
from railweave.transport.verbs._types import Actor, Part, Phase, VerbsEvent
from railweave.transport.verbs.operation import (
    Fault,
    Operation,
    OperationCase,
    OperationRun,
    run_operation,
)
from railweave.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from railweave.api import BuiltDesign
    from railweave.transport.journey import JourneyCase

__all__ = ["MOST_PACKETS", "JourneyRun", "run_journey"]

#: packets of one message: what is listed hop by hop must stay readable, and in memory
MOST_PACKETS: Final = 16_384
_LOSING: Final = (Fault.LOST_PACKET, Fault.LOST_ACK, Fault.DEAD_PEER)
_ATOMICS: Final = (Operation.COMPARE_SWAP, Operation.FETCH_ADD)
#: a transfer inside a scale-up domain moves in so many segments, as in the packet engine
_SEGMENTS: Final = 64
_LEAST_SEGMENT: Final = 4096


@dataclass(frozen=True, eq=False)
class JourneyRun:
    """What a run gives, before it is dressed as a journey."""

    setup: PlaneSetup
    mtu_bytes: int
    run: OperationRun | TcpRun | None
    packets: tuple[IbPacket, ...]
    times: PacketTimes
    events: tuple[VerbsEvent, ...]
    congestion: Congestion | None
    notes: tuple[str, ...]


def run_journey(case: JourneyCase, built: BuiltDesign) -> JourneyRun:
    """Find the ways and run the operation over them.

    Raises:
        InputError: see :func:`railweave.transport.journey.packet_journey`.
    """
    setup = plane_setup(
        built,
        case.plane,
        (case.source, case.target),
        ip_version=case.ip_version,
        queue_pair=case.queue_pair,
        seed=case.seed,
    )
    if setup.ways.inside:
        return _inside(case, setup, built)
    mtu = _mtu(case, setup)
    _check_size(case.operation, mtu)
    data = int(case.operation.operation is Operation.READ)
    if case.queue_bytes is not None and case.congested is None:
        raise InputError("a queue's bytes without its hop; say where it stands (congested)")
    congestion = None
    if case.congested is not None:
        congestion = congestion_at(setup, built, case.congested, case.queue_bytes, data)
    seed = built.design.seed if case.seed is None else case.seed
    if setup.transport is Transport.TCP:
        return _tcp(case, setup, built, mtu=mtu, congestion=congestion, seed=seed)
    return _rdma(case, setup, built, mtu=mtu, congestion=congestion, seed=seed)


# ---------------------------------------------------------------- sizes


def _mtu(case: JourneyCase, setup: PlaneSetup) -> int:
    """Return the payload of a full packet."""
    most = setup.framing.mtu_bytes
    plane = setup.plane.name.lower()
    if setup.transport is Transport.TCP:
        mtu = most if case.mtu_bytes is None else case.mtu_bytes
        if not 1 <= mtu <= most:
            raise InputError(
                f"segments of {mtu:,} bytes: the {plane} plane carries at most {most:,} bytes in "
                "one; allowed: 1 to that"
            )
        return mtu
    fitting = [size for size in MTU_BYTES if size <= most]
    if not fitting:
        raise InputError(
            f"planes.{plane}.mtu of {most:,} bytes is below every path MTU that a queue pair can "
            f"have; allowed: at least {MTU_BYTES[0]}"
        )
    if case.mtu_bytes is None:
        return min(case.operation.mtu_bytes, fitting[-1])
    if case.mtu_bytes not in MTU_BYTES:
        raise InputError(
            f"a path MTU of {case.mtu_bytes:,} bytes; allowed: "
            + ", ".join(f"{size:,}" for size in MTU_BYTES)
        )
    if case.mtu_bytes > most:
        raise InputError(
            f"a path MTU of {case.mtu_bytes:,} bytes: the {plane} plane carries {most:,} "
            f"(planes.{plane}.mtu), and switches drop what is longer; allowed: "
            + ", ".join(f"{size:,}" for size in fitting)
        )
    return case.mtu_bytes


def _check_size(operation: OperationCase, mtu: int) -> None:
    if operation.size_bytes > MOST_PACKETS * mtu:
        raise InputError(
            f"{format_bytes(operation.size_bytes)} at {mtu:,} bytes a packet are more packets than "
            f"a journey lists ({MOST_PACKETS:,}); allowed: up to {format_bytes(MOST_PACKETS * mtu)}"
        )


# ---------------------------------------------------------------- RDMA


def _rdma(
    case: JourneyCase,
    setup: PlaneSetup,
    built: BuiltDesign,
    *,
    mtu: int,
    congestion: Congestion | None,
    seed: int,
) -> JourneyRun:
    ways = (setup.ways.forward, setup.ways.back)
    # numbers that verbs reserve are drawn once in millions; the flow stays the same
    pairs = tuple(min(max(n, 2), 2**24 - 2) for n in (setup.ways.source_qp, setup.ways.target_qp))
    operation = replace(case.operation, mtu_bytes=mtu, queue_pairs=(pairs[0], pairs[1]))
    places = _loss_places(case, setup)
    oracle = FaultyWire(operation, _Deaf())

    def lose(direction: int, packet: IbPacket) -> int:
        return places[direction] if oracle.carry(packet, direction, 0.0) is None else -1

    rate = ways[0].hops[ways[0].network[0]].rate_bps
    timing = AdapterTiming(
        rate,
        setup.overhead_bytes - BTH_AND_ICRC_BYTES,
        processing_s=0.0,  # the adapters' latencies are the ways' own
        least_bytes=least_wire_bytes(setup.framing),
    )
    wire = PathWire(
        make_clocks(setup, built, congestion),
        timing,
        congestion=congestion,
        feedback=setup.feedback,
        seed=seed,
        lose=lose,
    )
    run = run_operation(operation, wire, timing=timing)
    return JourneyRun(
        setup,
        mtu,
        run,
        tuple(row.packet for row in wire.sent),
        wire.times(),
        run.events,
        congestion,
        (*setup.ways.notes, *_notes(setup, congestion), *_rdma_notes(setup, congestion)),
    )


class _Deaf:
    """A wire that loses nothing and takes no time."""

    def carry(self, packet: IbPacket, source: int, now_s: float) -> Arrival | None:
        """Deliver at once."""
        return Arrival(now_s, packet)


def _loss_places(case: JourneyCase, setup: PlaneSetup) -> tuple[int, int]:
    """Return the places on the way there and back at which packets are lost, if any are.

    Raises:
        InputError: a place without a fault that loses packets, or one that they do not pass.
    """
    ways = (setup.ways.forward, setup.ways.back)
    first = (ways[0].network[0], ways[1].network[0])
    if case.lost_at is None:
        return first
    operation = case.operation
    if operation.fault not in _LOSING:
        allowed = ", ".join(fault.value for fault in _LOSING)
        raise InputError(
            f"lost at {case.lost_at!r}, but no packet is lost; choose one of the faults {allowed}"
        )
    answer = operation.operation in (Operation.READ, *_ATOMICS) and operation.lost_packet > 0
    back = operation.fault is Fault.LOST_ACK or (operation.fault is Fault.LOST_PACKET and answer)
    _, place = hop_named(ways, case.lost_at, (int(back),), "lost at")
    return (first[0], place) if back else (place, first[1])


def _notes(setup: PlaneSetup, congestion: Congestion | None) -> tuple[str, ...]:
    """Say what every journey over a network rests on."""
    hops = setup.ways.forward.hops
    cut = sum(hop.cut_through for hop in hops)
    switches = sum(hop.is_switch for hop in hops)
    how = {
        0: "store each packet whole before they forward it",
        switches: "cut through: they go on once 64 bytes are in",
    }.get(cut, f"store each packet whole, but {cut} that cut through")
    said = [
        f"the switches on the way there {how}",
        "the fabric is idle otherwise: no packet waits for another connection's"
        + ("" if congestion is None else " but in the one queue asked for"),
        "time of software, of the doorbell and of the completion's way to the application is not "
        "counted; an adapter's latency is the catalog's",
    ]
    ends = (hops[0].source, hops[-1].target)
    for name, end in zip((setup.ends.source_name, setup.ends.target_name), ends, strict=True):
        if name != end:
            said.append(f"the way between {name} and its adapter {end} is not in the model")
    added = encryption_bytes(setup.framing)
    if added:
        said.append(f"encryption adds {added} to the times; the capture shows packets in clear")
    if setup.ways.forward.bridged and setup.transport is not Transport.INFINIBAND:
        said.append(
            "both ends are in one subnet, under one leaf: it bridges, so MAC addresses and TTL stay"
        )
    return tuple(said)


def _rdma_notes(setup: PlaneSetup, congestion: Congestion | None) -> tuple[str, ...]:
    said = []
    if setup.transport is Transport.INFINIBAND:
        said.append(
            "InfiniBand: LIDs, service level and GUIDs stay from end to end; a switch may change "
            "the virtual lane in the LRH (here every hop uses lane 0) and the VCRC with it"
        )
    else:
        checksum = "" if setup.extra_bytes else " and makes the IPv4 checksum anew"
        said.append(
            f"every routed hop puts its own MAC addresses in, takes one off the TTL{checksum}; "
            "the ICRC leaves these fields out and stays as it was"
        )
    if congestion is not None:
        told = {
            Feedback.CNP: "a receiver answers marks by CNPs, in a class of their own that waits "
            "for no data",
            Feedback.BECN: "a receiver answers marks by BECN in its next ACK",
            Feedback.NONE: "receivers tell nobody of marks under this scheme",
        }[setup.feedback]
        said.append(
            f"a queue of {format_bytes(congestion.queue_bytes)} stands at {congestion.name} all "
            f"the time; it marks a packet with probability {congestion.probability:.3g} and holds "
            f"each up; {told}; the sender's rate is not changed: that is the packet engine's"
        )
    return tuple(said)


# ---------------------------------------------------------------- TCP and scale-up


def _tcp(
    case: JourneyCase,
    setup: PlaneSetup,
    built: BuiltDesign,
    *,
    mtu: int,
    congestion: Congestion | None,
    seed: int,
) -> JourneyRun:
    operation = case.operation
    plane = setup.plane.name.lower()
    if operation.operation in _ATOMICS:
        raise InputError(
            f"the {plane} plane is TCP, which has no {operation.operation.value}; allowed: "
            "send, write and read, which move bytes"
        )
    if operation.service is not Service.RC:
        raise InputError(
            f"the {plane} plane is TCP, and {operation.service.name} is a service of RDMA; leave "
            "it out"
        )
    if operation.fault is not Fault.NONE or case.lost_at is not None:
        raise InputError(
            f"the {plane} plane is TCP, and faults are those of RDMA; leave the fault out, or "
            "choose a plane of RoCEv2 or InfiniBand"
        )
    size, frame = operation.size_bytes, setup.framing
    if frame.record_bytes:
        records = max(1, -(-size // frame.record_bytes))
        size += records * frame.record_overhead_bytes
    run = run_tcp(
        make_clocks(setup, built, congestion),
        size_bytes=size,
        segment_bytes=mtu,
        overhead_bytes=setup.overhead_bytes,
        read=operation.operation is Operation.READ,
        congestion=congestion,
        ecn=setup.marks,
        seed=seed,
    )
    ways = (setup.ways.forward, setup.ways.back)
    notes = (
        *setup.ways.notes,
        *_notes(setup, congestion),
        "TCP: slow start from ten segments, an acknowledgement for every second one and the last; "
        "no time of the kernel, no loss; the connection stays open",
    )
    times = run.times((len(ways[0].hops), len(ways[1].hops)))
    return JourneyRun(setup, mtu, run, (), times, run.events, congestion, notes)


def _inside(case: JourneyCase, setup: PlaneSetup, built: BuiltDesign) -> JourneyRun:
    """Move the bytes within a scale-up domain: no packets of the network, no queue pair."""
    operation = case.operation
    if case.congested is not None or case.lost_at is not None or operation.fault is not Fault.NONE:
        raise InputError(
            f"{setup.ends.source_name} and {setup.ends.target_name} share a server or scale-up "
            "domain: the bytes cross no switch of the network, so nothing is marked or lost there; "
            "choose ends in different servers"
        )
    size = max(1, operation.size_bytes)
    segment = max(_LEAST_SEGMENT, -(-size // _SEGMENTS))
    data = int(operation.operation is Operation.READ)
    clock = make_clocks(setup, built, None)[data]
    rows: list[tuple[int, int, Passage, int, int, bool]] = []
    for begin in range(0, size, segment):
        part = min(segment, size - begin)
        rows.append((data, part, clock.send(part, 0.0, memory=True), -1, -1, True))
    hops = (len(setup.ways.forward.hops), len(setup.ways.back.hops))
    times = times_of(rows, hops)
    landed = float(np.max(times.landed_s))
    way = (setup.ways.forward, setup.ways.back)[data]
    medium = way.hops[0].medium
    events = (
        VerbsEvent(
            0.0, 0, Actor.ADAPTER, Part.MEMORY, Phase.TRANSPORT,
            f"Both ends are connected by {medium}: {format_bytes(operation.size_bytes)} go from "
            "memory to memory by loads, stores or copy engines. There is no queue pair and no "
            "packet.",
        ),
        VerbsEvent(
            landed, 1 - data, Actor.ADAPTER, Part.MEMORY, Phase.COMPLETE,
            f"The last byte is in memory after {format_seconds(landed)}.",
        ),
    )  # fmt: skip
    notes = (
        *setup.ways.notes,
        "within a server or scale-up domain bytes are counted without headers, in 64 segments, as "
        "the engines count them",
    )
    return JourneyRun(setup, 0, None, (), times, events, None, notes)
