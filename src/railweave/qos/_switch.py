"""`SwitchQos`: all that the packet engine needs of one switch, made from a part and a design."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from railweave.design.defaults import default_congestion
from railweave.design.models import (
    CongestionName,
    CongestionSpec,
    EcnSpec,
    InlineSwitch,
    Transport,
    WatchdogSpec,
)
from railweave.errors import InputError
from railweave.provenance import Assumption, Certainty
from railweave.qos._asics import GENERIC, Asic, asic_of
from railweave.qos._classes import CLASSES, LOSSY_CLASSES, TrafficClasses
from railweave.qos._ecn import RULE_SOURCE, EcnProfile, EcnThresholds, ecn_profile
from railweave.qos._headroom import DEFAULT_MTU_BYTES
from railweave.qos._policies import EcnOfPort, HeadroomOfPort, PauseResponse, PortCounts

if TYPE_CHECKING:
    from railweave.catalog import Switch

__all__ = ["SwitchQos", "Watchdog", "classes_of", "scheme_of", "switch_qos"]

#: DSCP that hosts give packets of each priority; a switch may map it to another
DSCP_OF_PRIORITY: Final = (0, 8, 16, 26, 32, 40, 48, 56)
PRIORITIES: Final = 8
#: part of an InfiniBand input buffer that a queue may fill before its packets are marked
IB_MARKED_SHARE: Final = 0.5


@dataclass(frozen=True, slots=True)
class Watchdog:
    """PFC watchdog: times in seconds, and what becomes of a stormed queue's packets."""

    detect_s: float
    restore_s: float
    poll_s: float
    action: Literal["drop", "forward"]


@dataclass(frozen=True, slots=True)
class SwitchQos:
    """Buffers, classes and thresholds of one switch. Priority p is served from queue p.

    A lossless ingress priority group has ``pg_reserved_bytes`` to itself, then takes from the
    shared pool up to ``pg_alpha`` times what is free there (or up to ``pg_threshold_bytes``), then
    asks for a pause and takes from its headroom; it resumes ``xon_offset_bytes`` below. A lossy
    egress queue has ``queue_reserved_bytes`` and may take ``queue_alpha`` times the free pool.

    ``headroom_bytes(speed_bps, length_m)``, ``ecn(priority, speed_bps)`` and
    ``pfc_response_s(speed_bps)`` depend on the port. ``priority_map[p]`` is the priority that this
    switch gives packets which hosts send in priority p. ``pipeline_s`` is from port to port, the
    part ``ingress_pipeline_s`` of it before the buffer admits a packet. ``mtu_bytes`` is the
    largest IP packet. ``credit_bytes`` above 0 means InfiniBand: credits of that many bytes for
    each virtual lane and port, no PFC and no drops.
    """

    name: str
    buffer_bytes: float
    cell_bytes: int
    pg_reserved_bytes: int
    pg_alpha: float
    pg_threshold_bytes: int | None
    queue_reserved_bytes: int
    queue_alpha: float
    lossless: tuple[int, ...]
    strict: tuple[int, ...]
    weights: tuple[int, ...]
    ecn: EcnOfPort
    xon_offset_bytes: int
    headroom_bytes: HeadroomOfPort
    pfc_response_s: PauseResponse
    pipeline_s: float
    ingress_pipeline_s: float
    cut_through: bool
    trimming: bool
    priority_map: tuple[int, ...]
    mtu_bytes: int
    watchdog: Watchdog | None
    credit_bytes: int
    assumptions: tuple[Assumption, ...] = ()

    def shared_bytes(self, ports: dict[tuple[float, float], int]) -> float:
        """Return what is left to share; below 0 where reserved room and headroom do not fit.

        Args:
            ports: number of ports by speed in b/s and length of their cable in m.
        """
        taken = sum(
            count * (self.pg_reserved_bytes + self.headroom_bytes(speed, length))
            for (speed, length), count in ports.items()
        )
        return self.buffer_bytes - len(self.lossless) * taken

    def pause_at_bytes(self, shared_bytes: float) -> float:
        """Return the shared room at which a priority group pauses when no other holds any."""
        if self.pg_threshold_bytes is not None:
            return float(self.pg_threshold_bytes)
        return max(0.0, self.pg_alpha * shared_bytes / (1 + self.pg_alpha))


def scheme_of(spec: CongestionSpec | None, transport: Transport) -> CongestionName:
    """Return the scheme of a plane, the transport's default where it names none."""
    named = None if spec is None else spec.scheme
    return named or default_congestion(transport)


def classes_of(spec: CongestionSpec | None, transport: Transport) -> TrafficClasses:
    """Return the traffic classes of a plane's Ethernet switches as the scheme uses them."""
    if transport is not Transport.ROCEV2:
        return LOSSY_CLASSES
    classes = CLASSES["roce" if spec is None else spec.classes]
    return classes if scheme_of(spec, transport).pfc else replace(classes, lossless=())


def switch_qos(
    switch: Switch | InlineSwitch,
    congestion: CongestionSpec | None = None,
    transport: Transport = Transport.ROCEV2,
    *,
    mtu_bytes: int = DEFAULT_MTU_BYTES,
) -> SwitchQos:
    """Make the settings of a switch.

    Args:
        switch: from the catalog, or as a design describes it.
        congestion: what the design says of the plane; None takes every default.
        transport: of the plane.
        mtu_bytes: largest IP packet.

    Raises:
        InputError: traffic classes or an ECN profile that do not exist; trimming on InfiniBand.
    """
    spec = congestion or CongestionSpec()
    if spec.trimming and transport is Transport.INFINIBAND:
        raise InputError(
            "congestion.trimming: InfiniBand switches never drop, so they cannot trim; "
            "allowed: false, or another transport"
        )
    asic = GENERIC if isinstance(switch, InlineSwitch) else asic_of(switch)
    buffer = float(switch.buffer if isinstance(switch, InlineSwitch) else switch.buffer_bytes)
    ports = _ports(switch)
    infiniband = transport is Transport.INFINIBAND
    classes = classes_of(spec, transport)
    lossless = () if infiniband else classes.lossless
    headroom = HeadroomOfPort(
        asic if lossless else None,
        mtu_bytes,
        None if spec.headroom == "rule" else spec.headroom,
    )
    credit = _credit_bytes(buffer, ports) if infiniband else 0
    static = isinstance(spec.pfc_threshold, int)
    ecn = _ecn_policy(spec, transport, asic, headroom, (buffer, credit, ports), lossless)
    cut_through = (infiniband or asic.cut_through) if spec.cut_through is None else spec.cut_through
    return SwitchQos(
        name=_name(switch),
        buffer_bytes=buffer,
        cell_bytes=asic.cell_bytes,
        pg_reserved_bytes=asic.group_reserved_bytes if lossless else 0,
        pg_alpha=1.0 if static else float(spec.pfc_threshold),
        pg_threshold_bytes=int(spec.pfc_threshold) if static and lossless else None,
        queue_reserved_bytes=0 if infiniband else asic.queue_reserved_bytes,
        queue_alpha=asic.queue_alpha,
        lossless=lossless,
        strict=() if infiniband else classes.strict,
        weights=(1,) * PRIORITIES if infiniband else classes.weights,
        ecn=ecn,
        xon_offset_bytes=spec.xon_offset
        or asic.xon_offset_cells * asic.cell_bytes
        or 2 * mtu_bytes,
        headroom_bytes=headroom,
        pfc_response_s=PauseResponse(asic if lossless else None),
        pipeline_s=switch.latency if isinstance(switch, InlineSwitch) else switch.latency_s,
        ingress_pipeline_s=float(asic.tile_s),
        cut_through=cut_through,
        trimming=spec.trimming,
        priority_map=tuple(
            priority if infiniband else classes.priority(dscp)
            for priority, dscp in enumerate(DSCP_OF_PRIORITY)
        ),
        mtu_bytes=mtu_bytes,
        watchdog=_watchdog(spec) if lossless else None,
        credit_bytes=credit,
        assumptions=_assumptions(asic, spec, ecn, credit, bool(lossless)),
    )


def _ecn_policy(  # noqa: PLR0917 - all that thresholds depend on
    spec: CongestionSpec,
    transport: Transport,
    asic: Asic,
    headroom: HeadroomOfPort,
    room: tuple[float, int, PortCounts],
    lossless: tuple[int, ...],
) -> EcnOfPort:
    """Return the thresholds of a switch; ``room`` is its buffer, its credits and its ports."""
    buffer, credit, ports = room
    alpha = 1.0 if isinstance(spec.pfc_threshold, int) else spec.pfc_threshold
    return EcnOfPort(
        marked=_marked(spec, scheme_of(spec, transport), transport),
        choice=_ecn_choice(spec),
        rtt_s=spec.rtt,
        buffer_bytes=buffer,
        reserved_bytes=asic.group_reserved_bytes,
        groups=len(lossless),
        alpha=alpha if lossless else asic.queue_alpha,
        threshold_bytes=_threshold(spec, lossless, credit),
        headroom=headroom,
        ports=ports,
    )


def _name(switch: Switch | InlineSwitch) -> str:
    if isinstance(switch, InlineSwitch):  # as sizing names it
        return f"inline-{switch.radix}x{switch.speed / 1e9:g}G"
    return switch.name


def _ports(switch: Switch | InlineSwitch) -> PortCounts:
    """Return how many ports of each speed a switch has, the main ones unsplit first."""
    if isinstance(switch, InlineSwitch):
        splits = range(1, switch.max_breakout + 1)
        return PortCounts(tuple((switch.speed / ways, switch.radix * ways) for ways in splits))
    counts = {switch.port_speed_bps: switch.ports_at(switch.port_speed_bps) or switch.ports}
    for split in switch.breakouts:
        counts.setdefault(split.speed_bps, switch.ports_at(split.speed_bps))
    return PortCounts(tuple(counts.items()))


def _credit_bytes(buffer_bytes: float, ports: PortCounts) -> int:
    """Share an InfiniBand switch's buffer evenly over the inputs of all ports and lanes."""
    return int(buffer_bytes / ports.by_speed[0][1] / PRIORITIES)


def _threshold(spec: CongestionSpec, lossless: tuple[int, ...], credit: int) -> int | None:
    """Return the fixed queue length that ECN must stay below, where there is one."""
    if credit:
        return int(credit * IB_MARKED_SHARE)
    return spec.pfc_threshold if lossless and isinstance(spec.pfc_threshold, int) else None


def _marked(spec: CongestionSpec, scheme: CongestionName, transport: Transport) -> tuple[int, ...]:
    """Return the priorities whose packets are marked."""
    if not scheme.marks or spec.ecn == "off":
        return ()
    if transport is Transport.ROCEV2:
        return CLASSES[spec.classes].lossless
    return tuple(range(PRIORITIES)) if transport is Transport.INFINIBAND else (0,)


def _ecn_choice(spec: CongestionSpec) -> EcnThresholds | EcnProfile | None:
    ecn = spec.ecn
    if isinstance(ecn, EcnSpec):
        return EcnThresholds(ecn.kmin, ecn.kmax, ecn.pmax, ecn.weight)
    return None if ecn in ("rule", "off") else ecn_profile(ecn)


def _watchdog(spec: CongestionSpec) -> Watchdog | None:
    dog = spec.watchdog
    if not isinstance(dog, WatchdogSpec):
        return None
    return Watchdog(dog.detect, dog.restore, dog.poll, dog.action)


def _assumptions(
    asic: Asic, spec: CongestionSpec, ecn: EcnOfPort, credit: int, pfc: bool
) -> tuple[Assumption, ...]:
    """Say what these settings rest on that nobody measured on this switch."""
    found = []
    if pfc and asic.note and spec.headroom == "rule":
        found.append(Assumption(f"headroom of {asic.name}", asic.note, asic.source.certainty))
    if credit:
        found.append(
            Assumption(
                "InfiniBand credits",
                f"{credit:,} B a port and virtual lane: the buffer shared out evenly",
            )
        )
    if ecn.marked and ecn.choice is None:
        found.append(Assumption("ECN thresholds", RULE_SOURCE.title, RULE_SOURCE.certainty))
    elif ecn.marked and isinstance(ecn.choice, EcnProfile):
        source = ecn.choice.source
        if source.certainty is not Certainty.CONFIRMED:
            found.append(Assumption("ECN thresholds", source.title, source.certainty))
    return tuple(found)
