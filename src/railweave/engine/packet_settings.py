"""What the packet engine is told beyond fabric, traffic and routing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from railweave.catalog import CatalogError
from railweave.design.models import CongestionSpec, InlineSwitch, Spraying, Transport
from railweave.errors import InputError
from railweave.fabric import Fabric, PlaneId
from railweave.fabric.lossless import PlaneQos, plane_qos
from railweave.fabric.routing import RoutingSet
from railweave.qos import (
    DEFAULT_MTU_BYTES,
    CongestionControl,
    NicQos,
    SwitchQos,
    scheme_of,
    switch_qos,
)

if TYPE_CHECKING:
    from railweave.catalog import Catalog
    from railweave.design.models import Design
    from railweave.engine.faults import Fault
    from railweave.fabric.build import BuiltFabric

__all__ = ["PacketSettings", "Spraying", "Watch", "default_settings", "design_settings"]


@dataclass(frozen=True, slots=True)
class Watch:
    """What is written down while a run goes on.

    Args:
        period_s: between two samples; 0 takes none.
        links: ports to sample, by link number (their egress queue, and the ingress group at their
            far end); None samples every port of switches, which is much on a large fabric.
        flows: queue pairs to sample, by flow number; None samples all.
        trace: most events written down.
    """

    period_s: float = 0.0
    links: tuple[int, ...] | None = ()
    flows: tuple[int, ...] | None = ()
    trace: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class PacketSettings:
    """Settings of every device, what goes wrong, and what is watched.

    Args:
        qos: settings of each network plane: its switches by model and its adapters.
        switches: settings of single switches (by node), in place of their model's: a wrong setting
            on one leaf, say.
        nics: settings of single adapters (by NIC node), in place of their plane's.
        controls: congestion control of a plane, in place of the profile that its settings name.
        window_bytes: most wire bytes that a queue pair may have on its way, whatever its congestion
            control says: an end-to-end window.
        pause_off: links whose receiving port sends no pauses (PFC off on one port).
        faults: what happens at a given time.
        spraying: how the routing scheme ``spray`` spreads packets; None: as the routing says.
        spray_paths: different entropies that a queue pair uses; 0: any number.
        flowlet_gap_s: idle time after which a queue pair may take another path (scheme flowlet).
        stuck_s: simulated time without any packet moving after which a run is looked at for a
            deadlock.
        watch: what is written down.
    """

    qos: Mapping[PlaneId, PlaneQos]
    switches: Mapping[int, SwitchQos] = field(default_factory=dict)
    nics: Mapping[int, NicQos] = field(default_factory=dict)
    controls: Mapping[PlaneId, CongestionControl] = field(default_factory=dict)
    window_bytes: float = math.inf
    pause_off: frozenset[int] = frozenset()
    faults: tuple[Fault, ...] = ()
    spraying: Spraying | None = None
    spray_paths: int = 0
    flowlet_gap_s: float = 50e-6
    stuck_s: float = 10e-3
    watch: Watch = Watch()

    def switch(self, fabric: Fabric, node: int) -> SwitchQos:
        """Return the settings of a switch.

        Raises:
            InputError: neither its plane nor its model has settings.
        """
        own = self.switches.get(node)
        if own is not None:
            return own
        plane = PlaneId(int(fabric.node_plane[node]))
        model = fabric.switch_models.get(node, "")
        known = self.qos.get(plane)
        if known is None or model not in known.switches:
            raise InputError(
                f"packet engine: switch {node} ({model or 'no model'}) of the "
                f"{plane.name.lower()} plane has no settings; give PacketSettings.qos an entry"
            )
        return known.switches[model]


def design_settings(
    built: BuiltFabric, design: Design, catalog: Catalog, **more: object
) -> PacketSettings:
    """Return the settings that a design states; ``more`` are fields of :class:`PacketSettings`."""
    planes = sorted(set(built.network.values()))
    qos = {plane: plane_qos(built.fabric, design, catalog, plane) for plane in planes}
    return PacketSettings(qos, **more)  # type: ignore[arg-type]


def default_settings(
    fabric: Fabric,
    routing: RoutingSet,
    congestion: CongestionSpec | None = None,
    **more: object,
) -> PacketSettings:
    """Return settings for a fabric without a design.

    Switches are taken from the built-in catalog by their model's name; one that it does not know is
    taken for a switch of 64 × 400 Gb/s.

    Args:
        fabric: whose switches.
        routing: gives each plane's transport and packet size.
        congestion: scheme, profile and thresholds of every plane; None takes each default.
        more: fields of :class:`PacketSettings`.
    """
    from railweave.catalog import default_catalog

    catalog = default_catalog()
    spec = congestion or CongestionSpec()
    qos: dict[PlaneId, PlaneQos] = {}
    for routed in routing.planes.values():
        plane, transport = routed.plane, routed.transport
        mtu = max(DEFAULT_MTU_BYTES, routed.frame.mtu_bytes + routed.frame.overhead_bytes)
        models = {fabric.switch_models.get(int(n), "") for n in fabric.switches(plane)}
        qos[plane] = PlaneQos(
            plane=plane,
            transport=transport,
            scheme=scheme_of(spec, transport),
            spec=spec,
            mtu_bytes=mtu,
            switches={m: _known(m, catalog, spec, transport, mtu) for m in sorted(models)},
        )
    return PacketSettings(qos, **more)  # type: ignore[arg-type]


def _known(
    model: str, catalog: Catalog, spec: CongestionSpec, transport: Transport, mtu: int
) -> SwitchQos:
    try:
        return switch_qos(catalog.switch(model), spec, transport, mtu_bytes=mtu)
    except CatalogError:
        unknown = InlineSwitch.model_validate({"radix": 64, "speed": "400 Gb/s"})
        return switch_qos(unknown, spec, transport, mtu_bytes=mtu)
