"""The lossless intent of a built fabric: which settings each switch has, and whether they fit.

Settings follow from the switch's part and what the design says of the plane; ports, speeds and
cable lengths are those of the fabric.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from railweave.catalog import CatalogError
from railweave.design.models import (
    CongestionName,
    CongestionSpec,
    Design,
    InlineSwitch,
    Plane,
    TierSwitches,
    Transport,
)
from railweave.errors import InputError
from railweave.fabric._arrays import TIER_NAMES, Fabric, PlaneId
from railweave.fabric._inventory import switch_shape
from railweave.fabric.wire import framing
from railweave.findings import Finding
from railweave.formats.validation import list_names
from railweave.qos import (
    DEFAULT_MTU_BYTES,
    EcnThresholds,
    Headroom,
    NicQos,
    SwitchQos,
    asic_of,
    class_findings,
    classes_of,
    headroom,
    nic_qos,
    scheme_of,
    switch_findings,
    switch_qos,
)
from railweave.units import format_bits_rate

if TYPE_CHECKING:
    from railweave.catalog import Catalog, Switch

__all__ = [
    "HeadroomReport",
    "HeadroomRow",
    "PlaneQos",
    "SwitchRoom",
    "headroom_report",
    "plane_qos",
    "switch_report",
]

#: largest IP packet that switches in common use forward
MOST_MTU_BYTES = 9216
#: of an Ethernet frame, what is not the IP packet: preamble, header, FCS, gap
_AROUND_IP_BYTES = 38

Ports = dict[tuple[float, float], int]


@dataclass(frozen=True, eq=False)
class PlaneQos:
    """Settings of one plane: of its switches by model, and of adapters by port."""

    plane: PlaneId
    transport: Transport
    scheme: CongestionName
    spec: CongestionSpec
    mtu_bytes: int
    switches: Mapping[str, SwitchQos]

    def nic(self, speed_bps: float, cable_m: float) -> NicQos:
        """Return the settings of an adapter's port."""
        return nic_qos(
            self.spec,
            self.transport,
            speed_bps=speed_bps,
            cable_m=cable_m,
            mtu_bytes=self.mtu_bytes,
        )


def plane_qos(fabric: Fabric, design: Design, catalog: Catalog, plane: PlaneId) -> PlaneQos:
    """Return the settings of a plane with a network of its own.

    Raises:
        InputError: a switch whose model neither the catalog nor the design describes.
    """
    stated: Plane = getattr(design.planes, plane.name.lower())
    transport, spec = stated.transport or Transport.TCP, stated.congestion or CongestionSpec()
    frame = framing(transport, stated.mtu)
    packet = frame.mtu_bytes + frame.overhead_bytes - _AROUND_IP_BYTES
    mtu = DEFAULT_MTU_BYTES if packet <= DEFAULT_MTU_BYTES else MOST_MTU_BYTES
    models = sorted({fabric.switch_models.get(int(n), "") for n in fabric.switches(plane)})
    return PlaneQos(
        plane=plane,
        transport=transport,
        scheme=scheme_of(spec, transport),
        spec=spec,
        mtu_bytes=mtu,
        switches={
            model: switch_qos(_part(model, stated, catalog), spec, transport, mtu_bytes=mtu)
            for model in models
        },
    )


def _part(model: str, stated: Plane, catalog: Catalog) -> Switch | InlineSwitch:
    """Return the switch of a model name: as the design describes it, or from the catalog."""
    choice = stated.switch
    tiers = (choice.leaf, choice.spine, choice.core) if isinstance(choice, TierSwitches) else ()
    for described in (choice, *tiers):
        if not isinstance(described, InlineSwitch):
            continue
        if switch_shape(described, catalog).name == model:
            return described
    try:
        return catalog.switch(model)
    except CatalogError as error:
        raise InputError(f"a switch without a known model has no settings: {error}") from None


# ---------------------------------------------------------------- does it fit?


@dataclass(frozen=True, slots=True)
class HeadroomRow:
    """Headroom and ECN thresholds of one kind of port in a plane.

    ``switches`` have such ports, ``ports`` is the most that one of them has. ``headroom`` is the
    rule's; ``set_bytes`` what the design sets, the rule's unless it says otherwise.
    """

    plane: str
    tier: str
    model: str
    switches: int
    ports: int
    classes: int
    headroom: Headroom
    set_bytes: int
    ecn: EcnThresholds | None


@dataclass(frozen=True, slots=True)
class SwitchRoom:
    """How the buffer of one kind of switch is shared out, on the one with the most to set aside."""

    plane: str
    tier: str
    model: str
    ports: int
    classes: int
    buffer_bytes: float
    headroom_bytes: float
    reserved_bytes: float
    shared_bytes: float
    pause_at_bytes: float


@dataclass(frozen=True, eq=False)
class HeadroomReport:
    """Headroom of every kind of lossless port, room in every kind of switch, findings."""

    rows: tuple[HeadroomRow, ...]
    rooms: tuple[SwitchRoom, ...]
    findings: tuple[Finding, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain data."""
        rows = [
            {
                "plane": row.plane,
                "tier": row.tier,
                "switch": row.model,
                "switches": row.switches,
                "ports": row.ports,
                "classes": row.classes,
                **row.headroom.to_json(),
                "set_bytes": row.set_bytes,
                "ecn": None if row.ecn is None else asdict(row.ecn),
            }
            for row in self.rows
        ]
        return {
            "ports": rows,
            "switches": [asdict(room) for room in self.rooms],
            "findings": [asdict(finding) for finding in self.findings],
        }


def switch_report(
    switch: Switch, speed_bps: float, cable_m: float, *, mtu_bytes: int = DEFAULT_MTU_BYTES
) -> HeadroomReport:
    """Return headroom, thresholds and room of one switch with all ports alike, by default.

    Raises:
        InputError: a switch without PFC, a speed that it has not or that the rule does not list, a
            length or an MTU that cannot be.
    """
    if Transport.ROCEV2.value not in switch.transports and "tcp" not in switch.transports:
        raise InputError(
            f"{switch.name} has link-level credits and no PFC: there is no headroom to set;"
            " allowed: an Ethernet switch, such as sn5600"
        )
    speeds = {switch.port_speed_bps, *(split.speed_bps for split in switch.breakouts)}
    if switch.uplink_speed_bps is not None:
        speeds.add(switch.uplink_speed_bps)
    if speed_bps not in speeds:
        raise InputError(
            f"{switch.name} has no ports or breakouts of {format_bits_rate(speed_bps)}; allowed: "
            + list_names(format_bits_rate(speed) for speed in sorted(speeds, reverse=True))
        )
    qos = switch_qos(switch, mtu_bytes=mtu_bytes)
    headroom(speed_bps, cable_m, asic_of(switch), mtu_bytes)  # refuses what cannot be
    count = switch.ports_at(speed_bps) or switch.uplink_ports or switch.ports
    ports: Ports = {(speed_bps, cable_m): count}
    return HeadroomReport(
        rows=tuple(_rows("", "", qos, [ports])),
        rooms=(_room("", "", qos, ports),),
        findings=_once(list(switch_findings(qos, ports, switch.name))),
    )


def headroom_report(
    fabric: Fabric, design: Design, catalog: Catalog, planes: tuple[PlaneId, ...]
) -> HeadroomReport:
    """Hold every switch of these planes against its headroom; lossy planes have none.

    Args:
        fabric: with the cables.
        design: what is said of the planes.
        catalog: for the switches.
        planes: those with networks of their own.
    """
    rows: list[HeadroomRow] = []
    rooms: list[SwitchRoom] = []
    findings: list[Finding] = []
    for plane in planes:
        made = plane_qos(fabric, design, catalog, plane)
        name = plane.name.lower()
        if made.transport is Transport.ROCEV2:
            classes = classes_of(made.spec, made.transport)
            path = f"planes.{name}.congestion"
            findings += class_findings(classes, path, pfc=made.scheme.pfc)
        for tier, model, kinds in _kinds(fabric, plane):
            qos = made.switches[model]
            if qos.lossless:
                rows += _rows(name, tier, qos, kinds)
                worst = min(kinds, key=qos.shared_bytes)
                rooms.append(_room(name, tier, qos, worst))
                findings += switch_findings(
                    qos,
                    worst,
                    f"planes.{name}.congestion",
                    switch_path=f"planes.{name}.switch",
                )
    return HeadroomReport(tuple(rows), tuple(rooms), _once(findings))


def _once(findings: list[Finding]) -> tuple[Finding, ...]:
    return tuple(dict.fromkeys(findings))


def _kinds(fabric: Fabric, plane: PlaneId) -> Iterator[tuple[str, str, list[Ports]]]:
    """Yield tier, model and each switch's ports, by tier and model."""
    nodes = fabric.switches(plane)
    into = np.flatnonzero((fabric.link_plane == plane) & np.isin(fabric.link_dst, nodes))
    length = np.round(np.nan_to_num(fabric.link_length_m[into]), 3)
    found, count = np.unique(
        np.stack((fabric.link_dst[into], fabric.link_capacity_bps[into], length)),
        axis=1,
        return_counts=True,
    )
    by_node: dict[int, Ports] = {}
    for node, speed, metres, number in zip(*found.tolist(), count.tolist(), strict=True):
        by_node.setdefault(int(node), {})[speed, metres] = number
    groups: dict[tuple[str, str], list[Ports]] = {}
    for node, ports in by_node.items():
        tier = TIER_NAMES.get(int(fabric.node_tier[node]), "switch")
        groups.setdefault((tier, fabric.switch_models.get(node, "")), []).append(ports)
    for (tier, model), kinds in groups.items():
        yield tier, model, kinds


def _rows(plane: str, tier: str, qos: SwitchQos, kinds: list[Ports]) -> Iterator[HeadroomRow]:
    """Yield a row for every speed and length among the ports of a kind of switch."""
    asic = qos.headroom_bytes.asic
    if asic is None:
        return
    for speed, length in sorted({port for ports in kinds for port in ports}):
        having = [ports[speed, length] for ports in kinds if (speed, length) in ports]
        yield HeadroomRow(
            plane=plane,
            tier=tier,
            model=qos.name,
            switches=len(having),
            ports=max(having),
            classes=len(qos.lossless),
            headroom=headroom(speed, length, asic, qos.mtu_bytes, any_speed=True),
            set_bytes=qos.headroom_bytes(speed, length),
            ecn=_ecn(qos, speed),
        )


def _ecn(qos: SwitchQos, speed: float) -> EcnThresholds | None:
    try:
        return qos.ecn(qos.lossless[0], speed)
    except InputError:  # said in a finding
        return None


def _room(plane: str, tier: str, qos: SwitchQos, ports: Ports) -> SwitchRoom:
    classes, count = len(qos.lossless), sum(ports.values())
    shared = qos.shared_bytes(ports)
    reserved = count * classes * qos.pg_reserved_bytes
    return SwitchRoom(
        plane=plane,
        tier=tier,
        model=qos.name,
        ports=count,
        classes=classes,
        buffer_bytes=qos.buffer_bytes,
        headroom_bytes=qos.buffer_bytes - shared - reserved,
        reserved_bytes=reserved,
        shared_bytes=shared,
        pause_at_bytes=qos.pause_at_bytes(shared),
    )
