"""The links of a way dressed as hops: times, devices, and the addresses that packets have there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from railweave.design.models import Transport
from railweave.fabric import Fabric, LinkLayer, NodeKind, PlaneId
from railweave.fabric._arrays import TIER_NAMES
from railweave.fabric._assembly import VELOCITY_M_PER_S
from railweave.fabric.addressing import ip_text
from railweave.fabric.names import node_name, port_name

if TYPE_CHECKING:
    from railweave.engine.packet_settings import PacketSettings
    from railweave.fabric.routing import Routing

__all__ = ["KIND", "ULA_PREFIX", "Dresser", "JourneyHop", "JourneyWay", "outside", "subnet_lids"]

#: first 48 bits of the unique local addresses that stand for the design's IPv4 ones
ULA_PREFIX: Final = "fd72:6169:6c77"
FIRST_TTL: Final = 64

KIND: Final = {
    NodeKind.HOST: "host",
    NodeKind.GPU: "GPU",
    NodeKind.NIC: "NIC",
    NodeKind.SCALE_UP: "scale-up switch",
    NodeKind.SWITCH: "switch",
    NodeKind.STORAGE: "storage server",
    NodeKind.EXTRA: "host",
}
_MEDIUM: Final = {
    LinkLayer.SCALE_UP: "scale-up",
    LinkLayer.PCIE: "PCIe",
    LinkLayer.HOST_LEAF: "host link",
    LinkLayer.LEAF_SPINE: "leaf–spine",
    LinkLayer.SPINE_CORE: "spine–core",
    LinkLayer.OTHER: "switch link",
}


@dataclass(frozen=True, slots=True)
class JourneyHop:
    """One link of a way and the device at its head.

    ``port`` and ``port_in`` are "" inside a server. ``rate_bps`` is what wire bytes can use.
    ``device`` is what stands at the head: ``GPU``, ``NIC``, ``rail leaf``, ``spine`` …;
    ``latency_s`` what it adds: a switch's forwarding, an adapter's processing. ``cut_through``
    says that it goes on once the header is in. ``choices`` counts the links that the device at
    the tail could have taken. ``rewritten`` says that the device at the tail routed the packet:
    it put its own MAC address in and took one off the TTL. ``source_mac``, ``target_mac`` and
    ``ttl`` are what the packet has on this link; "" and 0 where it has none.
    """

    link: int
    source: str
    target: str
    medium: str
    port: str
    port_in: str
    rate_bps: float
    propagation_s: float
    device: str
    is_switch: bool
    latency_s: float
    cut_through: bool
    choices: int
    rewritten: bool = False
    source_mac: str = ""
    target_mac: str = ""
    ttl: int = 0

    @property
    def on_network(self) -> bool:
        """Whether packets can be seen here: outside of a server."""
        return bool(self.port)


@dataclass(frozen=True, slots=True)
class JourneyWay:
    """Hops from one end to the other, and the addresses that the packets carry.

    ``hash_text`` says what was hashed, "" where nothing was. ``bridged`` says that both ends are
    in one subnet, so that nothing is routed.
    """

    hops: tuple[JourneyHop, ...]
    source_ip: str
    target_ip: str
    source_port: int
    target_port: int
    source_lid: int
    target_lid: int
    hash_text: str
    bridged: bool

    @property
    def network(self) -> range:
        """Places of the hops that are outside of servers."""
        inside = [k for k, hop in enumerate(self.hops) if hop.on_network]
        return range(inside[0], inside[-1] + 1) if inside else range(0)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the devices from one end to the other."""
        return (self.hops[0].source, *(hop.target for hop in self.hops))

    @property
    def latency_s(self) -> float:
        """Time of the first bit: wires, switches and adapters."""
        return sum(hop.propagation_s + hop.latency_s for hop in self.hops)

    def stages(self) -> str:
        """Write the way: ``node001/gpu0 → PCIe → node001/nic0 → leaf-1 (rail leaf) → …``."""
        parts = [self.hops[0].source]
        for hop in self.hops:
            if not hop.on_network:
                parts.append(hop.medium)
            parts.append(f"{hop.target} ({hop.device})" if hop.is_switch else hop.target)
        return " → ".join(parts)


def subnet_lids(fabric: Fabric, plane: PlaneId) -> dict[int, int]:
    """Number a subnet as the export for OpenSM does: endpoints from 1 in node order, then switches.

    One LID a node: a second port of an adapter would get its own from a real subnet manager.
    """
    links = (fabric.link_plane == plane) & (fabric.link_layer >= LinkLayer.HOST_LEAF)
    nodes = np.unique(fabric.link_src[links])
    switch = fabric.node_kind[nodes] == NodeKind.SWITCH
    order = [*nodes[~switch].tolist(), *nodes[switch].tolist()]
    return {node: number + 1 for number, node in enumerate(order)}


def outside(fabric: Fabric, links: Sequence[int]) -> list[int]:
    """Return the links that are outside of servers."""
    return [link for link in links if fabric.link_layer[link] >= LinkLayer.HOST_LEAF]


class Dresser:
    """Makes hops of links.

    Args:
        routing: of the plane; gives the addresses.
        settings: of the design's switches: which of them cut through.
        ip_version: 4 or 6.
    """

    def __init__(self, routing: Routing, settings: PacketSettings, ip_version: int) -> None:
        self.routing = routing
        self.fabric = routing.fabric
        self.settings = settings
        self.ip_version = ip_version

    def way(
        self, links: Sequence[int], choices: Mapping[int, int], ports: tuple[int, int], hashed: str
    ) -> JourneyWay:
        """Dress links as hops, with the addresses that packets have on each.

        Args:
            links: from one end to the other.
            choices: equal links where each of them was taken; 1 where nothing is said.
            ports: of UDP or TCP, source and destination.
            hashed: what was hashed, in words.
        """
        fabric = self.fabric
        hops = [self._hop(link, choices.get(link, 1)) for link in links]
        wired = outside(fabric, links)
        if not wired:  # the hub goes on once the header is in
            hops = [replace(hop, cut_through=True) for hop in hops[:-1]] + hops[-1:]
            return JourneyWay(tuple(hops), "", "", 0, 0, 0, 0, "", bridged=True)
        a, b = int(fabric.link_src[wired[0]]), int(fabric.link_dst[wired[-1]])
        if self.routing.transport is Transport.INFINIBAND:
            lids = subnet_lids(fabric, self.routing.plane)
            ends = lids[a], lids[b]
            return JourneyWay(tuple(hops), "", "", *ports, *ends, hashed, bridged=True)
        ip = self.routing.addresses.node_ip
        bits = 32 - self.routing.addresses.prefix_length
        bridged = int(ip[a]) >> bits == int(ip[b]) >> bits
        return JourneyWay(
            tuple(self._addressed(hops, bridged)),
            self._ip(int(ip[a])),
            self._ip(int(ip[b])),
            *ports,
            0,
            0,
            hashed,
            bridged,
        )

    def _ip(self, address: int) -> str:
        if self.ip_version == 4:
            return ip_text(address)
        return f"{ULA_PREFIX}::{address >> 16:x}:{address & 0xFFFF:x}"

    def _hop(self, link: int, choices: int) -> JourneyHop:
        fabric = self.fabric
        head = int(fabric.link_dst[link])
        wired = bool(fabric.link_src_port[link])
        propagation = float(fabric.link_length_m[link]) / VELOCITY_M_PER_S
        switch = bool(fabric.node_kind[head] == NodeKind.SWITCH)
        hub = bool(fabric.node_kind[head] == NodeKind.SCALE_UP)
        return JourneyHop(
            link=link,
            source=node_name(fabric, int(fabric.link_src[link])),
            target=node_name(fabric, head),
            medium=_MEDIUM[LinkLayer(int(fabric.link_layer[link]))],
            port=port_name(fabric, link) if wired else "",
            port_in=port_name(fabric, link, head=True) if wired else "",
            rate_bps=float(fabric.usable_bps[link]),
            propagation_s=propagation,
            device=self._device(head),
            is_switch=switch or hub,
            latency_s=max(0.0, float(fabric.link_delay_s[link]) - propagation),
            cut_through=switch and self._cuts(link, head),
            choices=choices,
        )

    def _device(self, node: int) -> str:
        fabric = self.fabric
        kind = NodeKind(int(fabric.node_kind[node]))
        if kind is not NodeKind.SWITCH:
            return KIND[kind]
        tier = TIER_NAMES.get(int(fabric.node_tier[node]), "switch")
        return f"rail {tier}" if fabric.node_rail[node] >= 0 else tier

    def _cuts(self, link: int, switch: int) -> bool:
        """Tell whether a switch goes on once the header is in, as the packet engine has it."""
        fabric = self.fabric
        out = fabric.link_src == switch
        fastest = float(fabric.usable_bps[out].max(initial=0.0))
        cut = self.settings.switch(fabric, switch).cut_through
        return cut and float(fabric.usable_bps[link]) >= fastest

    def _addressed(self, hops: list[JourneyHop], bridged: bool) -> list[JourneyHop]:
        """Fill in MAC addresses and TTL: every switch routes, unless both ends share a subnet."""
        wired = [hop.link for hop in hops if hop.on_network]
        ends = self._mac(wired[0], head=False), self._mac(wired[-1], head=True)
        found, ttl = [], FIRST_TTL
        for hop in hops:
            if not hop.on_network:
                found.append(hop)
                continue
            routed = not bridged and hop.link != wired[0]
            ttl -= routed
            macs = ends
            if not bridged:
                macs = self._mac(hop.link, head=False), self._mac(hop.link, head=True)
            found.append(
                replace(hop, rewritten=routed, source_mac=macs[0], target_mac=macs[1], ttl=ttl)
            )
        return found

    def _mac(self, link: int, *, head: bool) -> str:
        """Return a locally administered address: node and port; a switch has one for all ports."""
        fabric = self.fabric
        node = int(fabric.link_dst[link] if head else fabric.link_src[link])
        port = int(fabric.link_dst_port[link] if head else fabric.link_src_port[link])
        if fabric.node_kind[node] == NodeKind.SWITCH:
            port = 0
        number = (0x02 << 40) | ((node & 0xFFFFFF) << 16) | (port & 0xFFFF)
        return ":".join(f"{number >> shift & 255:02x}" for shift in range(40, -1, -8))
