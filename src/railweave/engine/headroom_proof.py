"""Is the headroom rule enough? Bisection of the smallest headroom that loses nothing.

The worst incast that a port can see, packet by packet: senders at full speed fill their ingress
groups while the egress that they all send to hardly drains (the limit of very many senders), in
frames of the size that takes most cells for its time on the wire, and the ports that have to send
the pauses are busy with frames of the largest size. Each sender has its own phase against those
frames, so that one run sees many waits.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from railweave.design.models import CongestionName, CongestionSpec, Transport
from railweave.engine.packet import PacketResult, PacketRun
from railweave.engine.packet_settings import PacketSettings
from railweave.fabric import Fabric, PlaneId
from railweave.fabric.lossless import PlaneQos
from railweave.fabric.routing import RoutingSet, compile_routing
from railweave.fabric.small import SWITCH_LATENCY_S, Cable, small_fabric
from railweave.fabric.wire import framing
from railweave.qos import (
    DEFAULT_MTU_BYTES,
    Asic,
    EcnOfPort,
    HeadroomOfPort,
    NicQos,
    PauseResponse,
    PortCounts,
    SwitchQos,
    asic_named,
    headroom,
)
from railweave.workload import Traffic, TrafficBuilder

__all__ = ["HeadroomProof", "prove_headroom", "worst_frames"]

_SENDERS: Final = 8
_PRIORITY: Final = 3
_THRESHOLD_BYTES: Final = 60_000
#: the egress drains so much slower than one sender sends
_HELD_BACK: Final = 1000.0
_FEEDER_CABLE_M: Final = 5.0
_AROUND_IP_BYTES: Final = 38
#: as much room as no port ever needs
_AMPLE_BYTES: Final = 50_000_000
_BUFFER_BYTES: Final = 4e9


@dataclass(frozen=True, slots=True)
class HeadroomProof:
    """The rule's headroom against the smallest that loses no packet.

    ``needed_bytes`` is found by bisection to one cell, ``frame_bytes`` the wire size of the frames
    that need it; ``ratio`` is needed / rule, at most 1 where the rule is enough.
    ``drops_at_80_percent`` counts packets lost with 0.8 times the needed headroom,
    ``drops_at_rule`` with the rule's.
    """

    asic: str
    speed_bps: float
    cable_m: float
    mtu_bytes: int
    peer_response_bytes: float
    frame_bytes: int
    rule_bytes: int
    needed_bytes: int
    ratio: float
    drops_at_80_percent: int
    drops_at_rule: int

    @property
    def holds(self) -> bool:
        """Whether the rule is enough and much less is not."""
        return self.needed_bytes <= self.rule_bytes and self.drops_at_80_percent > 0


_AT_ONCE: Final = PauseResponse(None)


@dataclass(frozen=True, eq=False)
class _Peers(PlaneQos):
    """Settings whose adapters obey a pause as the ports of a switch family do."""

    response: PauseResponse = field(default=_AT_ONCE)

    def nic(self, speed_bps: float, cable_m: float) -> NicQos:
        """Return the settings of an adapter's port with that response."""
        return replace(PlaneQos.nic(self, speed_bps, cable_m), pfc_response_s=self.response)


@dataclass(frozen=True, slots=True)
class _Bench:
    """What stays the same from run to run."""

    asic: Asic
    peer: Asic
    speed_bps: float
    cable_m: float
    mtu_bytes: int
    rule_bytes: int
    as_simulated: bool

    @property
    def pipeline_s(self) -> float:
        """Latency of the switch in this bench; the part before the buffer unless as simulated."""
        return SWITCH_LATENCY_S if self.as_simulated else float(self.asic.tile_s)


def prove_headroom(
    asic: Asic | str,
    speed_bps: float,
    cable_m: float,
    *,
    peer: Asic | str | None = None,
    mtu_bytes: int = DEFAULT_MTU_BYTES,
    as_simulated: bool = False,
) -> HeadroomProof:
    """Find the smallest headroom that loses no packet, and hold the rule against it.

    Args:
        asic: the switch's family, or its name.
        speed_bps: of the port.
        cable_m: length of its cable.
        peer: family whose response to a pause the sending ports have; None: the switch's own, as
            the rule takes it. ``"generic"`` takes the pause quanta of IEEE 802.3.
        mtu_bytes: largest IP packet, with which the way back is busy.
        as_simulated: give the switch the latency of a whole one, as every other simulation has it.
            By default it has only the part before its buffer that the rule knows (120 ns on
            Spectrum-4 and -5): what comes after the buffer needs no headroom.

    Raises:
        InputError: no rule for the ASIC, a speed without pause quanta, a length or an MTU that
            cannot be.
    """
    family = asic_named(asic) if isinstance(asic, str) else asic
    other = family if peer is None else asic_named(peer) if isinstance(peer, str) else peer
    rule = headroom(speed_bps, cable_m, family, mtu_bytes)
    bench = _Bench(family, other, speed_bps, cable_m, mtu_bytes, rule.xoff_bytes, as_simulated)
    frames = worst_frames(family, mtu_bytes)
    worst, peak = max(((f, _peak(bench, f)) for f in frames), key=lambda pair: pair[1])
    needed = _smallest(bench, worst, peak)
    return HeadroomProof(
        asic=family.name,
        speed_bps=speed_bps,
        cable_m=cable_m,
        mtu_bytes=mtu_bytes,
        peer_response_bytes=headroom(
            speed_bps, cable_m, other, mtu_bytes, any_speed=True
        ).peer_response_bytes,
        frame_bytes=worst,
        rule_bytes=rule.xoff_bytes,
        needed_bytes=needed,
        ratio=needed / rule.xoff_bytes,
        drops_at_80_percent=_drops(bench, worst, int(0.8 * needed)),
        drops_at_rule=_drops(bench, worst, rule.xoff_bytes),
    )


def worst_frames(asic: Asic, mtu_bytes: int) -> tuple[int, ...]:
    """Return the wire sizes tried, in bytes.

    They are the smallest, one byte over one, two and four cells, and the largest: one byte over is
    what takes most cells a byte among frames of about its size.
    """
    least = framing(Transport.ROCEV2).overhead_bytes + 1
    most = mtu_bytes + _AROUND_IP_BYTES
    over = {cells * asic.cell_bytes + 1 for cells in (1, 2, 4)}
    return tuple(sorted({least, most, *(size for size in over if least < size < most)}))


def _smallest(bench: _Bench, frame_bytes: int, peak: int) -> int:
    """Bisect to one cell; ``peak`` is what an ample headroom was used to, the first guess."""
    cell = bench.asic.cell_bytes
    low, high = 0, -(-peak // cell)
    while _drops(bench, frame_bytes, high * cell):
        low, high = high, 2 * high
    # Most often the peak itself is the answer: one run below it says so.
    middle = high - 1
    while high - low > 1:
        if _drops(bench, frame_bytes, middle * cell):
            low = middle
        else:
            high = middle
        middle = (low + high) // 2
    return high * cell


def _drops(bench: _Bench, frame_bytes: int, headroom_bytes: int) -> int:
    lost = _run(bench, frame_bytes, headroom_bytes).record
    assert lost is not None
    return sum(
        int(np.sum(lost.ledger[f"dropped_packets_{why}"])) for why in ("headroom", "no_buffer")
    )


def _peak(bench: _Bench, frame_bytes: int) -> int:
    record = _run(bench, frame_bytes, _AMPLE_BYTES).record
    assert record is not None
    peaks = np.asarray(record.group_counters["peak_headroom_bytes"]).reshape(8, -1)[_PRIORITY]
    return int(peaks[: 2 * _SENDERS : 2].max())


# ---------------------------------------------------------------- the bench


def _run(bench: _Bench, frame_bytes: int, headroom_bytes: int) -> PacketResult:
    fabric = _fabric(bench)
    frame = framing(Transport.ROCEV2)
    most = bench.mtu_bytes + _AROUND_IP_BYTES
    routing = RoutingSet.of(
        compile_routing(fabric, PlaneId.BACKEND, mtu_bytes=most - frame.overhead_bytes)
    )
    room_s = (_THRESHOLD_BYTES + 3 * max(bench.rule_bytes, 50_000)) * 8 / bench.speed_bps
    settings = PacketSettings({PlaneId.BACKEND: _plane(bench, headroom_bytes)})
    traffic = _traffic(bench, frame_bytes, most, room_s)
    run = PacketRun(fabric, traffic, routing, settings)
    run.advance(2 * room_s)
    return run.result()


def _fabric(bench: _Bench) -> Fabric:
    """Senders 0 to 7, those that keep the ways back to them busy, and the receiver; one switch."""
    n = _SENDERS
    switch = 2 * n + 1
    cables = [Cable(k, switch, bench.speed_bps, bench.cable_m) for k in range(n)]
    cables += [Cable(n + k, switch, bench.speed_bps, _FEEDER_CABLE_M) for k in range(n)]
    cables.append(Cable(2 * n, switch, bench.speed_bps / _HELD_BACK, _FEEDER_CABLE_M))
    return small_fabric("headroom", 2 * n + 1, (1,), cables, switch_latency_s=bench.pipeline_s)


def _traffic(bench: _Bench, frame_bytes: int, most_bytes: int, room_s: float) -> Traffic:
    """Incast in frames of one size, a message each; the ways back full of the largest frames."""
    work = TrafficBuilder()
    none = np.zeros(0, dtype=np.int64)
    overhead = framing(Transport.ROCEV2).overhead_bytes
    wire_bytes = bench.speed_bps / 8 * room_s
    phase_s = most_bytes * 8 / bench.speed_bps / _SENDERS
    for k in range(_SENDERS):
        work.plain(
            np.array([_SENDERS + k]),
            np.array([k]),
            np.array([2.5 * wire_bytes]),
            label="way back",
        )
        rounds = max(2, int(wire_bytes // frame_bytes))
        start = 4 * most_bytes * 8 / bench.speed_bps + k * phase_s
        work.coupled(
            np.array([k]),
            np.array([2 * _SENDERS]),
            np.array([float(frame_bytes - overhead)]),
            rounds,
            (none, none, none),
            label="incast",
            start_s=start,
        )
    return work.build()


def _plane(bench: _Bench, headroom_bytes: int) -> PlaneQos:
    spec = CongestionSpec(scheme=CongestionName.PFC, watchdog="off", ack_every=1024)
    return _Peers(
        plane=PlaneId.BACKEND,
        transport=Transport.ROCEV2,
        scheme=CongestionName.PFC,
        spec=spec,
        mtu_bytes=bench.mtu_bytes,
        switches={"": _switch(bench, headroom_bytes)},
        response=PauseResponse(bench.peer),
    )


def _switch(bench: _Bench, headroom_bytes: int) -> SwitchQos:
    """Return a switch of the family: its cells, pipeline and way of forwarding; ample buffer."""
    room = HeadroomOfPort(bench.asic, bench.mtu_bytes, headroom_bytes)
    return SwitchQos(
        name="headroom",
        buffer_bytes=_BUFFER_BYTES,
        cell_bytes=bench.asic.cell_bytes,
        pg_reserved_bytes=0,
        pg_alpha=1.0,
        pg_threshold_bytes=_THRESHOLD_BYTES,
        queue_reserved_bytes=0,
        queue_alpha=bench.asic.queue_alpha,
        lossless=(_PRIORITY,),
        strict=(),
        weights=(1,) * 8,
        ecn=EcnOfPort((), None, 0.0, 0.0, 0, 1, 1.0, None, room, PortCounts(())),
        xon_offset_bytes=2 * bench.mtu_bytes,
        headroom_bytes=room,
        pfc_response_s=PauseResponse(bench.asic),
        pipeline_s=bench.pipeline_s,
        ingress_pipeline_s=float(bench.asic.tile_s),
        cut_through=bench.asic.cut_through,
        trimming=False,
        priority_map=tuple(range(8)),
        mtu_bytes=bench.mtu_bytes,
        watchdog=None,
        credit_bytes=0,
    )
