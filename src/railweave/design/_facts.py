"""Facts of servers and switches, whether the catalog has them or the design describes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from railweave.design.models import InlineSwitch, PlaneName, ServerGroup, Transport

if TYPE_CHECKING:
    from railweave.catalog import Catalog, Server, Switch

__all__ = ["ServerFacts", "SwitchFacts", "known_names", "server_facts", "switch_facts"]


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What sizing and checking need of one kind of server.

    ``nic_speed_bps`` is of one back-end NIC with all its ports; ``nic_ports`` into how many links
    it can be split (0 where nothing is said). ``host_links`` holds number and speed of the links
    into each of the other planes; a plane the server has none for borrows the front-end's.
    """

    gpus: int
    nics: int
    nic_speed_bps: float
    nic_ports: int
    host_links: Mapping[PlaneName, tuple[int, float]]

    def links_into(self, plane: PlaneName) -> tuple[int, float]:
        """Return number and speed of a server's links into a plane, (0, 0) where it has none."""
        if plane is PlaneName.BACKEND:
            return self.nics, self.nic_speed_bps
        return self.host_links.get(plane) or self.host_links.get(PlaneName.FRONTEND, (0, 0.0))

    def with_overrides(self, nics: int | None, nic_speed_bps: float | None) -> ServerFacts:
        """Return the facts with what a server group says otherwise."""
        return replace(
            self, nics=nics or self.nics, nic_speed_bps=nic_speed_bps or self.nic_speed_bps
        )


@dataclass(frozen=True, slots=True)
class SwitchFacts:
    """What checking needs of a switch; ``transports`` and ``nos`` are empty where not said.

    ``speeds_bps`` are the link speeds of its ports and breakouts, highest first; ``any_slower``
    tells that a port also runs at any lower speed.
    """

    name: str
    speeds_bps: tuple[float, ...]
    any_slower: bool
    transports: tuple[Transport, ...]
    nos: tuple[str, ...]

    def can_link_at(self, speed_bps: float) -> bool:
        """Tell whether a port, or a part of one, links at this speed."""
        if self.any_slower:
            return speed_bps <= self.speeds_bps[0] * (1 + 1e-9)
        return any(abs(speed - speed_bps) <= 1e-9 * speed for speed in self.speeds_bps)


def known_names(catalog: Catalog, kind: str) -> list[str]:
    """Return the names of the catalog's parts of a kind: server, gpu, switch or model."""
    parts = {
        "server": catalog.servers,
        "gpu": catalog.gpus,
        "switch": catalog.switches,
        "model": catalog.models,
    }
    return [part.name for part in parts[kind]()]


def server_facts(catalog: Catalog, group: ServerGroup) -> ServerFacts | None:
    """Return the facts of a group's servers as they are built, None where nothing is known."""
    inline = group.inline
    if inline is not None:
        return ServerFacts(
            gpus=inline.gpus,
            nics=inline.nics,
            nic_speed_bps=inline.nic_speed,
            nic_ports=0,
            host_links={PlaneName.FRONTEND: (inline.frontend_nics, inline.frontend_speed)},
        )
    if group.model is None or group.model not in known_names(catalog, "server"):
        return None
    return _catalog_server(catalog, catalog.server(group.model))


def _catalog_server(catalog: Catalog, server: Server) -> ServerFacts:
    backend = server.nics.get("backend")
    ports = 0
    if backend is not None:
        nic = catalog.nic(backend.nic)
        ports = max([nic.ports, *(split.ways for split in nic.splits)])
    return ServerFacts(
        gpus=server.gpu_count,
        nics=backend.count if backend else 0,
        nic_speed_bps=backend.speed_bps if backend else 0.0,
        nic_ports=ports,
        host_links={
            PlaneName(role): (links.count, links.speed_bps)
            for role, links in server.nics.items()
            if role != "backend"
        },
    )


def switch_facts(catalog: Catalog, choice: str | InlineSwitch) -> SwitchFacts | None:
    """Return the facts of a switch, None where the catalog has no such name."""
    if isinstance(choice, InlineSwitch):
        return SwitchFacts("the inline switch", (choice.speed,), True, (), ())
    if choice not in known_names(catalog, "switch"):
        return None
    return _catalog_switch(catalog.switch(choice))


def _catalog_switch(switch: Switch) -> SwitchFacts:
    speeds = {switch.port_speed_bps, *(split.speed_bps for split in switch.breakouts)}
    if switch.uplink_speed_bps is not None:
        speeds.add(switch.uplink_speed_bps)
    known = {transport.value for transport in Transport}
    return SwitchFacts(
        name=switch.name,
        speeds_bps=tuple(sorted(speeds, reverse=True)),
        any_slower=False,
        transports=tuple(Transport(t) for t in switch.transports if t in known),
        nos=switch.nos,
    )
