"""From a congested-switch case to fabric, traffic and settings of the packet engine.

The switch is the one of textbooks: one buffer counted in bytes, not cells, all of it shared except
the headroom of its ports. Its latency, cables and adapters are those of the packet engine.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from railweave.design.models import CongestionName, CongestionProfile, CongestionSpec, Transport
from railweave.engine.packet_settings import PacketSettings, Watch
from railweave.fabric import Fabric, PlaneId
from railweave.fabric.lossless import PlaneQos
from railweave.fabric.routing import RoutingSet, compile_routing
from railweave.fabric.small import SWITCH_LATENCY_S, Cable, small_fabric
from railweave.fabric.wire import Framing, framing
from railweave.provenance import Certainty, Source
from railweave.qos import (
    Asic,
    EcnOfPort,
    EcnThresholds,
    HeadroomOfPort,
    NicQos,
    PauseResponse,
    PortCounts,
    SwitchQos,
    algorithm,
    classes_named,
)
from railweave.workload import Traffic, TrafficBuilder

if TYPE_CHECKING:
    from railweave.engine.congest import CongestCase

__all__ = ["Setup", "headroom_bytes", "set_up", "wire_share"]

#: one buffer counted in bytes: the rule's cell factor is 1, nothing is reserved beside it
BYTES: Final = Asic(
    "byte buffer",
    1,
    xon_bytes=0,
    queue_reserved_bytes=0,
    queue_alpha=1e6,
    source=Source("the rule of the Spectrum families without cells", Certainty.ASSUMED),
)
_AROUND_IP_BYTES: Final = 38
#: the packet engine lets a pause wait for a frame of this length at most
_LONGEST_FRAME_BYTES: Final = 9236
_DATA_PRIORITY: Final = 3
#: profiles whose receivers send congestion notifications
_NOTIFIED: Final = ("dcqcn", "ib-cc")
#: profiles that repeat lost packets only
_SELECTIVE: Final = frozenset({"nscc", "cubic", "dctcp"})


@dataclass(frozen=True, slots=True, eq=False)
class Setup:
    """What the packet engine is given; ``sender_links`` and ``egress_link`` are link numbers."""

    fabric: Fabric
    traffic: Traffic
    routing: RoutingSet
    settings: PacketSettings
    sender_links: tuple[int, ...]
    egress_link: int


def frame_of(mtu_bytes: int) -> Framing:
    """Return the framing of RoCEv2 with this payload a packet."""
    return framing(Transport.ROCEV2, mtu_bytes)


def wire_share(mtu_bytes: int) -> float:
    """Return payload / wire bytes of full packets."""
    frame = frame_of(mtu_bytes)
    return frame.mtu_bytes / (frame.mtu_bytes + frame.overhead_bytes)


def _ip_bytes(mtu_bytes: int) -> int:
    return mtu_bytes + frame_of(mtu_bytes).overhead_bytes - _AROUND_IP_BYTES


def headroom_bytes(case: CongestCase) -> int:
    """Return the headroom of all ports together, as PFC needs it."""
    room = _headroom(case)
    each = (case.senders, case.sender_bps), (1, case.egress_bps)
    return sum(count * room(speed, case.cable_m) for count, speed in each)


def _headroom(case: CongestCase) -> HeadroomOfPort:
    """Return the published rule with two frames more.

    The rule counts one: the longest that the port itself may have begun. Without cells, whose
    rounding otherwise covers them, two more must have room: the one that asks for the pause, and
    the one that the sender began just before it obeyed.
    """
    return HeadroomOfPort(BYTES, _LONGEST_FRAME_BYTES + 2 * _ip_bytes(case.mtu_bytes))


def set_up(case: CongestCase, period_s: float, trace: int) -> Setup:
    """Lay out the case.

    Args:
        case: checked.
        period_s: between two samples.
        trace: most events written down.
    """
    n = case.senders
    cables = [Cable(host, n + 1, case.sender_bps, case.cable_m) for host in range(n)]
    cables.append(Cable(n, n + 1, case.egress_bps, case.cable_m))
    fabric = small_fabric("congest", n + 1, (1,), cables)
    routing = RoutingSet.of(compile_routing(fabric, PlaneId.BACKEND, mtu_bytes=case.mtu_bytes))
    work = TrafficBuilder()
    work.plain(np.arange(n), np.full(n, n), np.full(n, float(case.message_bytes)), label="congest")
    egress = 2 * n + 1
    senders = tuple(2 * host for host in range(n))
    spec = _spec(case)
    switch = _switch(case)
    plane = PlaneQos(
        plane=PlaneId.BACKEND,
        transport=Transport.ROCEV2,
        scheme=spec.scheme or CongestionName.NONE,
        spec=spec,
        mtu_bytes=switch.mtu_bytes,
        switches={"": switch},
    )
    settings = PacketSettings(
        {PlaneId.BACKEND: plane},
        nics={
            host: _nic(case, plane.nic(speed, case.cable_m))
            for host, speed in [*((h, case.sender_bps) for h in range(n)), (n, case.egress_bps)]
        },
        controls={PlaneId.BACKEND: algorithm(case.profile, case.sender_bps)},
        watch=Watch(
            period_s=period_s, links=(egress, *senders), flows=tuple(range(n)), trace=trace
        ),
    )
    return Setup(fabric, work.build(), routing, settings, senders, egress)


def _spec(case: CongestCase) -> CongestionSpec:
    """Return a scheme with or without PFC; what the senders do is set beside it."""
    name = CongestionName.NONE if case.pfc_bytes is None else CongestionName.PFC
    once = {CongestionProfile.HPCC, CongestionProfile.TIMELY, CongestionProfile.SWIFT}
    often = case.profile in {*once, CongestionProfile.NSCC}
    return CongestionSpec(
        scheme=name,
        watchdog="off",
        ack_every=1 if often else 2 if case.profile in ("cubic", "dctcp") else None,
        selective_repeat=case.profile in _SELECTIVE,
    )


def _nic(case: CongestCase, nic: NicQos) -> NicQos:
    """Return the adapter's settings with the profile's own interval of notifications."""
    control = algorithm(case.profile, case.sender_bps)
    return replace(
        nic,
        profile=case.profile,
        sends_cnp=case.profile.startswith(_NOTIFIED),
        cnp_interval_s=getattr(control, "cnp_interval_s", nic.cnp_interval_s),
    )


def _switch(case: CongestCase) -> SwitchQos:
    """Return the switch: one shared buffer, ECN on its queue, PFC by ingress group."""
    ip, pfc = _ip_bytes(case.mtu_bytes), case.pfc_bytes is not None
    classes = classes_named("roce")
    room = _headroom(case) if pfc else HeadroomOfPort(None, ip)
    return SwitchQos(
        name="congest",
        buffer_bytes=float(case.buffer_bytes),
        cell_bytes=1,
        pg_reserved_bytes=0,
        pg_alpha=1.0,
        # Each sender's group may hold its part of what the threshold allows all of them.
        pg_threshold_bytes=None if case.pfc_bytes is None else case.pfc_bytes // case.senders,
        queue_reserved_bytes=0,
        queue_alpha=BYTES.queue_alpha,
        lossless=(_DATA_PRIORITY,) if pfc else (),
        strict=classes.strict,
        weights=classes.weights,
        ecn=_marking(case.ecn, case.buffer_bytes, room),
        xon_offset_bytes=min(2 * ip, (case.pfc_bytes or 0) // (2 * case.senders)),
        headroom_bytes=room,
        pfc_response_s=PauseResponse(BYTES if pfc else None),
        pipeline_s=SWITCH_LATENCY_S,
        ingress_pipeline_s=0.0,
        cut_through=False,
        trimming=False,
        priority_map=tuple(range(8)),
        mtu_bytes=ip,
        watchdog=None,
        credit_bytes=0,
    )


def _marking(marks: EcnThresholds | None, buffer_bytes: float, room: HeadroomOfPort) -> EcnOfPort:
    return EcnOfPort(
        marked=() if marks is None else (_DATA_PRIORITY,),
        choice=marks,
        rtt_s=0.0,
        buffer_bytes=buffer_bytes,
        reserved_bytes=0,
        groups=1,
        alpha=1.0,
        threshold_bytes=None,
        headroom=room,
        ports=PortCounts(()),
    )
