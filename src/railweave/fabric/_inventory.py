"""Servers and switches as sizing and building need them, whether catalogued or described inline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from railweave.design.models import Design, InlineServer, InlineSwitch, ServerGroup, Transport
from railweave.errors import SizingError
from railweave.fabric._arrays import PlaneId
from railweave.fabric._split import SwitchShape
from railweave.units import format_bits_rate

if TYPE_CHECKING:
    from railweave.catalog import Catalog, Server

__all__ = [
    "Adapter",
    "ServerShape",
    "adapter_of",
    "default_switch",
    "server_shapes",
    "switch_shape",
]

#: usable share of PCIe's line rate for data in large transfers: 256-byte payloads cost 24–28 bytes
#: of headers, and flow control the rest (estimated)
PCIE_EFFICIENCY = 0.9
#: without a figure, PCIe is assumed not to bind: this many times the NIC's speed
PCIE_HEADROOM = 2.0
#: latency of a NIC the catalog does not describe (assumed)
NIC_LATENCY_S = 600e-9
#: a rack switch is no taller than this; taller ones are modular chassis and are chosen by name only
TALLEST_DEFAULT_UNITS = 5


@dataclass(frozen=True, slots=True)
class Adapter:
    """The NICs of one server in one plane: how many, and each one's speed with all its ports.

    ``pcie_bps`` is usable, as the catalog states it; nothing more is taken off.
    """

    count: int
    speed_bps: float
    pcie_bps: float
    latency_s: float
    name: str = ""


@dataclass(frozen=True, slots=True)
class ServerShape:
    """One group of servers that are alike."""

    name: str
    model: str
    count: int
    gpus: int
    scale_up_bps: float | None  #: one GPU, one way; None means over PCIe
    servers_per_domain: int
    adapters: dict[PlaneId, Adapter]
    power_w: float


def server_shapes(design: Design, catalog: Catalog) -> tuple[ServerShape, ...]:
    """Return the server groups with their counts; GPUs asked for become whole servers, rounded up.

    Raises:
        SizingError: the counts cannot be worked out.
        CatalogError: a name the catalog does not have.
    """
    groups = design.cluster.servers
    gpus = [_gpus(group, catalog) for group in groups]
    known = sum((group.count or 0) * n for group, n in zip(groups, gpus, strict=True))
    shapes = []
    open_groups = sum(group.count is None for group in groups)
    for number, (group, per_server) in enumerate(zip(groups, gpus, strict=True)):
        count = group.count
        if count is None:
            wanted = (design.cluster.gpus or 0) - known
            if wanted <= 0 or open_groups > 1 or not per_server:
                raise SizingError(
                    "the number of servers cannot be worked out",
                    path=f"cluster.servers[{number}].count",
                    allowed="a count, or cluster.gpus with one group left open",
                )
            count = -(-wanted // per_server)
        shapes.append(_shape(group, count, catalog))
    return tuple(shapes)


def _gpus(group: ServerGroup, catalog: Catalog) -> int:
    if group.inline is not None:
        return group.inline.gpus
    return catalog.server(group.model or "").gpu_count


def _shape(group: ServerGroup, count: int, catalog: Catalog) -> ServerShape:
    if group.inline is not None:
        return _inline_shape(group, group.inline, count)
    server = catalog.server(group.model or "")
    adapters = {}
    for role in server.nics:
        plane = PlaneId[role.upper()]
        adapters[plane] = _adapter(server, role, group, catalog)
    return ServerShape(
        name=group.name,
        model=server.name,
        count=count,
        gpus=server.gpu_count,
        scale_up_bps=server.scale_up_bps if server.scale_up in ("nvlink", "xgmi") else None,
        servers_per_domain=server.servers_per_domain,
        adapters=adapters,
        power_w=server.power_w,
    )


def _adapter(server: Server, role: str, group: ServerGroup, catalog: Catalog) -> Adapter:
    nics = server.nics[role]  # type: ignore[index]
    part = catalog.nic(nics.nic)
    count, speed = nics.count, nics.speed_bps
    if role == "backend":
        count, speed = group.nics or count, group.nic_speed or speed
    return Adapter(count, speed, part.pcie_bps, part.latency_s, nics.nic)


def _inline_shape(group: ServerGroup, inline: InlineServer, count: int) -> ServerShape:
    speed = group.nic_speed or inline.nic_speed
    usable = inline.pcie_bandwidth or PCIE_HEADROOM * speed
    adapters = {PlaneId.BACKEND: Adapter(group.nics or inline.nics, speed, usable, NIC_LATENCY_S)}
    if inline.frontend_nics:
        adapters[PlaneId.FRONTEND] = _assumed(inline.frontend_nics, inline.frontend_speed)
    adapters[PlaneId.MANAGEMENT] = _assumed(1, 1e9)
    return ServerShape(
        name=group.name,
        model="inline",
        count=count,
        gpus=inline.gpus,
        scale_up_bps=inline.scale_up_bandwidth,
        servers_per_domain=1,
        adapters=adapters,
        power_w=inline.power,
    )


def _assumed(count: int, speed_bps: float) -> Adapter:
    return Adapter(count, speed_bps, PCIE_HEADROOM * speed_bps, NIC_LATENCY_S)


def adapter_of(shape: ServerShape, plane: PlaneId) -> Adapter:
    """Return a server's NICs in a plane; where it has none, ones like its front-end's."""
    own = shape.adapters.get(plane)
    if own is not None and own.count:
        return own
    front = shape.adapters.get(PlaneId.FRONTEND)
    return front if front is not None and front.count else _assumed(2, 200e9)


def switch_shape(choice: str | InlineSwitch, catalog: Catalog) -> SwitchShape:
    """Return a switch by catalog name, or as described inline.

    Raises:
        CatalogError: the catalog does not have it.
    """
    if isinstance(choice, InlineSwitch):
        splits = tuple((ways, choice.speed / ways) for ways in range(2, choice.max_breakout + 1))
        return SwitchShape(
            name=f"inline-{choice.radix}x{choice.speed / 1e9:g}G",
            ports=choice.radix,
            speed_bps=choice.speed,
            breakouts=splits,
            power_w=choice.power,
            latency_s=choice.latency,
        )
    part = catalog.switch(choice)
    return SwitchShape(
        name=part.name,
        ports=part.ports,
        speed_bps=part.port_speed_bps,
        breakouts=tuple((split.ways, split.speed_bps) for split in part.breakouts),
        max_links=part.max_logical_ports,
        power_w=part.power_w,
        latency_s=part.latency_s,
        fast_ports=part.uplink_ports,
        fast_bps=part.uplink_speed_bps or 0.0,
    )


def default_switch(
    catalog: Catalog, transport: Transport, link_bps: float, path: str, *, small: bool = False
) -> str:
    """Choose a switch where the design names none.

    Among shipping rack switches of the transport: the one with the most links of this speed, or
    with ``small`` the one with the least capacity; then the one that draws less.

    Raises:
        SizingError: the catalog has none for this speed.
    """
    able = [
        (part, switch_shape(part.name, catalog))
        for part in catalog.switches()
        if transport.value in part.transports
        and part.status == "shipping"
        and part.rack_units <= TALLEST_DEFAULT_UNITS
    ]
    able = [(part, shape) for part, shape in able if shape.ways(link_bps)]
    if not able:
        raise SizingError(
            f"the catalog has no switch for {transport.value} at {format_bits_rate(link_bps)}",
            path=f"{path}.switch",
            allowed="a switch by name, or {radix, speed} of an inline switch",
        )
    if small:
        return min(able, key=lambda a: (a[0].capacity_bps, a[0].power_w, a[0].name))[0].name
    return min(able, key=lambda a: (-a[1].links(link_bps), a[0].power_w, a[0].name))[0].name
