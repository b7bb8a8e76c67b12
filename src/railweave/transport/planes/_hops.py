"""One hop of a journey: what is spoken on it, and the parts of the time that it takes.

The times are the fabric's own: wire bytes over a link's usable rate, cable length over the speed of
light in it, and the latency of the device at the link's end. They follow the packet engine's rules
for one packet on an idle fabric: a switch that cuts through goes on once the header is in, unless a
way out of it is faster than the way in; an adapter reads memory while it sends, and writes it while
it receives, unless PCIe is slower than its ports.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from railweave.catalog import CatalogError, pick_cable
from railweave.design.models import Transport
from railweave.fabric import Fabric, LinkLayer, NodeKind, PlaneId
from railweave.fabric._assembly import VELOCITY_M_PER_S
from railweave.fabric._servers import SCALE_UP_LATENCY_S
from railweave.fabric.power import LINK_CLASSES
from railweave.fabric.trace import Hop
from railweave.provenance import Assumption, Certainty
from railweave.transport.planes._ends import JourneyKind
from railweave.transport.planes._facts import plane_facts
from railweave.units import format_seconds

if TYPE_CHECKING:
    from railweave.api import BuiltDesign
    from railweave.catalog import Nic
    from railweave.engine.packet_settings import PacketSettings
    from railweave.transport.planes.system_map import SystemMap

__all__ = ["PART_NAMES", "PlaneHop", "make_hops", "time_basis"]

#: parts of a hop's time, in the order in which they pass
PART_NAMES: Final = ("serialisation", "propagation", "switching", "nic")
#: what a switch that cuts through reads before it goes on
HEADER_BYTES: Final = 64
_INSIDE: Final = {LinkLayer.SCALE_UP: "scale-up link", LinkLayer.PCIE: "PCIe"}
_DMA: Final = {
    (NodeKind.GPU, NodeKind.NIC): "reads_gpu",
    (NodeKind.NIC, NodeKind.GPU): "writes_gpu",
    (NodeKind.HOST, NodeKind.NIC): "reads_host",
    (NodeKind.NIC, NodeKind.HOST): "writes_host",
}
#: what encrypts → the header it adds and the one that it follows
_CODED: Final = {
    "macsec": ("MACsec", "Ethernet"),
    "ipsec": ("ESP", "IPv4"),
    "psp": ("PSP", "IPv4"),
    "tls": ("TLS", "TCP"),
}


@dataclass(frozen=True, slots=True)
class PlaneHop:
    """One link of a way, with what is spoken on it and its times.

    ``serialisation_s`` is of the part of the packet that the device at the end waits for.
    ``source_part`` and ``target_part`` are the stations of the design's map at its ends. ``layers``
    are headers, the outermost first, ``speaks`` what runs over them. ``size_bytes`` is what the
    packet weighs on this link. ``switching_s`` is of the switch or scale-up hub that it arrives
    at, ``nic_s`` of the adapter; ``electronics_s`` is what the cable's modules add by the catalog,
    which the engines leave out, and is no part of ``time_s``.
    """

    number: int
    link: int
    source: str
    target: str
    port: str
    port_in: str
    source_part: str
    target_part: str
    place: str
    capacity_bps: float
    length_m: float
    choices: int
    layers: tuple[str, ...]
    speaks: str
    size_bytes: float
    start_s: float
    serialisation_s: float
    propagation_s: float
    switching_s: float
    nic_s: float
    electronics_s: float = 0.0

    @property
    def parts(self) -> dict[str, float]:
        """The parts of its time by name, in s."""
        return {name: getattr(self, f"{name}_s") for name in PART_NAMES}

    @property
    def time_s(self) -> float:
        """Time from the first bit's start to when the device at the end may go on with it."""
        return self.serialisation_s + self.propagation_s + self.switching_s + self.nic_s

    @property
    def end_s(self) -> float:
        """When the device at its end may go on with the packet."""
        return self.start_s + self.time_s

    @property
    def protocol(self) -> str:
        """What is spoken, from the outermost header to the application."""
        return " / ".join((*self.layers, self.speaks)) if self.speaks else " / ".join(self.layers)


def make_hops(
    built: BuiltDesign,
    system: SystemMap,
    kind: JourneyKind,
    hops: Sequence[Hop],
    *,
    transport: Transport,
    encryption: Sequence[str],
    size_bytes: float,
) -> tuple[PlaneHop, ...]:
    """Give the hops of a way their protocols and times, one after the other from 0 s."""
    return tuple(_made(built, system, kind, hops, transport, tuple(encryption), size_bytes))


def _made(  # noqa: PLR0917 - as make_hops
    built: BuiltDesign,
    system: SystemMap,
    kind: JourneyKind,
    hops: Sequence[Hop],
    transport: Transport,
    encryption: tuple[str, ...],
    size_bytes: float,
) -> Iterator[PlaneHop]:
    fabric, now, settings = built.fabric, 0.0, built.packet_settings()
    outside = any(hop.port for hop in hops)
    for number, hop in enumerate(hops, 1):
        layer = LinkLayer(int(fabric.link_layer[hop.link]))
        head = NodeKind(int(fabric.node_kind[fabric.link_dst[hop.link]]))
        waits = _bytes_awaited(fabric, settings, hop, head, size_bytes, outside=outside)
        length = float(fabric.link_length_m[hop.link])
        flight = min(length / VELOCITY_M_PER_S, hop.delay_s)
        device = hop.delay_s - flight
        layers, speaks = _spoken(built, kind, hop, transport, encryption)
        one = PlaneHop(
            number,
            hop.link,
            hop.source,
            hop.target,
            hop.port,
            hop.port_in,
            system.at(int(fabric.link_src[hop.link])),
            system.at(int(fabric.link_dst[hop.link])),
            _INSIDE.get(layer) or LINK_CLASSES[layer],
            hop.capacity_bps,
            length,
            hop.choices,
            layers,
            speaks,
            size_bytes,
            now,
            8.0 * waits / float(fabric.usable_bps[hop.link]),
            flight,
            device if head in (NodeKind.SWITCH, NodeKind.SCALE_UP) else 0.0,
            0.0 if head in (NodeKind.SWITCH, NodeKind.SCALE_UP) else device,
            _electronics_s(built, hop, length),
        )
        now = one.end_s
        yield one


def _bytes_awaited(
    fabric: Fabric,
    settings: PacketSettings,
    hop: Hop,
    head: NodeKind,
    size_bytes: float,
    *,
    outside: bool,
) -> float:
    """Return how much of a packet must have come over a link before it goes on."""
    link = hop.link
    to = int(fabric.link_dst[link])
    if head is NodeKind.SCALE_UP:
        return min(size_bytes, HEADER_BYTES)
    if head is NodeKind.SWITCH:
        out = fabric.link_src == to
        fastest = float(fabric.usable_bps[out].max(initial=0.0))
        cut = settings.switch(fabric, to).cut_through and fabric.usable_bps[link] >= fastest
        return min(size_bytes, HEADER_BYTES) if cut else size_bytes
    if outside and not hop.port:
        nic = int(fabric.link_src[link])
        ports = (fabric.link_dst == nic) & (fabric.link_layer >= LinkLayer.HOST_LEAF)
        if head is NodeKind.NIC or fabric.usable_bps[link] >= fabric.usable_bps[ports].sum():
            return 0.0
    return size_bytes


def _electronics_s(built: BuiltDesign, hop: Hop, length_m: float) -> float:
    """Return what the catalog's cable for this link adds; 0 inside servers and where none fits."""
    if not hop.port:
        return 0.0
    try:
        cable = pick_cable(hop.capacity_bps, length_m, catalog=built.document.catalog)
    except CatalogError:
        return 0.0
    return cable.latency_s


# ---------------------------------------------------------------- what is spoken


def _spoken(
    built: BuiltDesign,
    kind: JourneyKind,
    hop: Hop,
    transport: Transport,
    encryption: tuple[str, ...],
) -> tuple[tuple[str, ...], str]:
    """Return the headers on a link, and what runs over them."""
    fabric, facts = built.fabric, plane_facts()
    layer = LinkLayer(int(fabric.link_layer[hop.link]))
    application = facts.applications[kind.value]
    ends = tuple(
        NodeKind(int(fabric.node_kind[node]))
        for node in (fabric.link_src[hop.link], fabric.link_dst[hop.link])
    )
    if layer is LinkLayer.SCALE_UP:
        gpu = fabric.link_src[hop.link] if ends[0] is NodeKind.GPU else fabric.link_dst[hop.link]
        return facts.stacks[_scale_up(built, int(gpu))].layers, application.inside
    if layer is LinkLayer.PCIE:
        base = facts.stacks["pcie"].layers
        if (
            PlaneId.MANAGEMENT
            in fabric.node_plane[[fabric.link_src[hop.link], fabric.link_dst[hop.link]]]
        ):
            return base, application.inside
        return (*base[:-1], _pcie(built, hop) or base[-1]), facts.dma.get(
            _DMA.get((ends[0], ends[1]), ""), application.inside
        )
    rdma = transport is not Transport.TCP
    name = f"tcp-on-{transport.value}" if rdma and not application.rdma else transport.value
    said = application.rdma if rdma and application.rdma else application.tcp
    return _coded(facts.stacks[name].layers, encryption), said


def _coded(layers: tuple[str, ...], encryption: tuple[str, ...]) -> tuple[str, ...]:
    """Put the headers of what encrypts where they stand."""
    found = list(layers)
    for name in encryption:
        header, after = _CODED[name]
        at = next((i for i, one in enumerate(found) if one.startswith(after)), None)
        if at is not None:
            found.insert(at + 1, header)
    return tuple(found)


def _scale_up(built: BuiltDesign, gpu: int) -> str:
    """Return the key of the stack that joins a GPU to others of its domain."""
    server = int(built.fabric.node_server[gpu])
    group = built.design.cluster.servers[int(built.built.nodes.server_group[server])]
    if not group.model:
        return "scale-up"
    kind = built.document.catalog.server(group.model).scale_up
    return kind if kind in ("nvlink", "xgmi") else "scale-up"


def _pcie(built: BuiltDesign, hop: Hop) -> str:
    """Return generation and lanes of the slot that a link stands for; "" where nothing says."""
    nic = _nic(built, hop)
    return f"PCIe {nic.pcie_gen}.0 ×{nic.pcie_lanes}" if nic is not None else ""


def _nic(built: BuiltDesign, hop: Hop) -> Nic | None:
    """Return the catalog's adapter at one end of a link."""
    fabric = built.fabric
    ends = [int(fabric.link_src[hop.link]), int(fabric.link_dst[hop.link])]
    node = next((one for one in ends if fabric.node_kind[one] == NodeKind.NIC), None)
    if node is None:
        return None
    server = int(fabric.node_server[node])
    group = built.design.cluster.servers[int(built.built.nodes.server_group[server])]
    if not group.model:
        return None
    catalog = built.document.catalog
    nics = catalog.server(group.model).nics
    plane = PlaneId(int(fabric.node_plane[node])).name.lower()
    found = nics.get(plane)  # type: ignore[call-overload]
    return catalog.nic(found.nic) if found is not None else None


# ---------------------------------------------------------------- where the times come from


def time_basis(
    built: BuiltDesign, hops: Sequence[PlaneHop], raw: Sequence[Hop]
) -> tuple[Assumption, ...]:
    """Say of each part of a journey's time where its numbers come from, and what is left out."""
    return tuple(dict.fromkeys(_basis(built, hops, raw)))


def _basis(
    built: BuiltDesign, hops: Sequence[PlaneHop], raw: Sequence[Hop]
) -> Iterator[Assumption]:
    yield Assumption(
        "serialisation",
        "bytes of the packet over the usable rate of a link, which count where the device at its "
        f"end takes the packet in whole; a switch that cuts through goes on after {HEADER_BYTES} "
        "bytes, unless it has a way out that is faster than the way in; adapters read and write "
        "memory while they send and receive, unless PCIe is slower than their ports",
        Certainty.ESTIMATED,
    )
    if any(hop.length_m for hop in hops):
        yield Assumption(
            "propagation",
            "length of the cable, worked out from where the racks stand, over 1.98e8 m/s",
            Certainty.ESTIMATED,
        )
    fabric = built.fabric
    for hop, one in zip(hops, raw, strict=True):
        head = int(fabric.link_dst[one.link])
        if fabric.node_kind[head] == NodeKind.SCALE_UP:
            yield Assumption("switching", f"{format_seconds(SCALE_UP_LATENCY_S)} for the switch of "
                             "a scale-up domain", Certainty.ESTIMATED)  # fmt: skip
        elif fabric.node_kind[head] == NodeKind.SWITCH:
            yield _switch_basis(built, head, hop.switching_s)
        elif hop.nic_s:
            yield _nic_basis(built, one, hop.nic_s)
    silent = [h.target for h in hops if h.port_in and not h.nic_s and not h.switching_s]
    if silent:
        yield Assumption("adapter", f"{silent[0]} has no adapter of its own in the fabric: its "
                         "latency is not counted")  # fmt: skip
    modules = sum(hop.electronics_s for hop in hops)
    if modules:
        yield Assumption(
            "cables",
            f"the electronics of the catalog's cables would add {format_seconds(modules)}, which "
            "the engines leave out",
            Certainty.ESTIMATED,
        )
    yield Assumption(
        "ends",
        "software, memory and disks at the two ends take no time here, and nothing else is sent",
    )


def _switch_basis(built: BuiltDesign, node: int, latency_s: float) -> Assumption:
    name = built.fabric.switch_models.get(node, "")
    try:
        part = built.document.catalog.switch(name)
    except CatalogError:
        return Assumption("switching", f"{format_seconds(latency_s)} as the design states its "
                          "switch, or by default")  # fmt: skip
    source = part.provenance("latency_s")
    return Assumption(
        "switching", f"{format_seconds(latency_s)} for {name}: {source.title}", source.certainty
    )


def _nic_basis(built: BuiltDesign, hop: Hop, latency_s: float) -> Assumption:
    part = _nic(built, hop)
    if part is None or part.latency_s != latency_s:
        return Assumption("adapter", f"{format_seconds(latency_s)} for an adapter that the catalog "
                          "does not describe")  # fmt: skip
    source = part.provenance("latency_s")
    return Assumption(
        "adapter", f"{format_seconds(latency_s)} for {part.name}: {source.title}", source.certainty
    )
