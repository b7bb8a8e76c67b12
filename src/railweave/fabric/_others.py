"""Hosts beside the servers: extra hosts, storage servers and services, and where they attach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from railweave.design.models import Design, Plane, ServiceKind
from railweave.fabric._arrays import NodeKind, PlaneId
from railweave.findings import Finding, Severity

__all__ = ["OtherHost", "network_of", "other_hosts", "service_hosts", "storage_network"]


@dataclass(frozen=True, slots=True)
class OtherHost:
    """A host beside the servers: an extra host, a storage server or a service."""

    kind: NodeKind
    name: str
    ports: int
    speed_bps: float
    width: int  #: host-speed ports of a leaf that one of its links takes


def network_of(design: Design, plane: PlaneId) -> PlaneId | None:
    """Return the plane whose network carries a plane's traffic, None without such a plane."""
    seen: list[PlaneId] = []
    current = plane
    while True:
        spec: Plane | None = getattr(design.planes, current.name.lower())
        if spec is None or current in seen:
            return None
        if spec.shares is None:
            return current
        seen.append(current)
        current = PlaneId[spec.shares.name]


def storage_network(design: Design) -> PlaneId:
    """Return the plane whose network storage servers attach to: storage, front-end or back-end."""
    for plane in (PlaneId.STORAGE, PlaneId.FRONTEND):
        network = network_of(design, plane)
        if network is not None:
            return network
    return PlaneId.BACKEND


def other_hosts(design: Design, plane: PlaneId, host_bps: float) -> tuple[OtherHost, ...]:
    """Collect the hosts on this network, those of planes that share it included."""
    found = []
    for member in PlaneId:
        if network_of(design, member) is not plane:
            continue
        spec: Plane = getattr(design.planes, member.name.lower())
        for name, ports in spec.extra_hosts.items():
            found.append(OtherHost(NodeKind.EXTRA, name, ports, host_bps, 1))
    storage = design.cluster.storage_servers
    if storage is not None and storage_network(design) is plane:
        width = max(1, -(-int(storage.speed) // int(host_bps)))
        for number in range(storage.count):
            name = f"storage{number + 1:03d}"
            found.append(OtherHost(NodeKind.STORAGE, name, storage.ports, storage.speed, width))
    return tuple(found)


def service_hosts(
    design: Design, plane: PlaneId, host_bps: float, extra: Sequence[str]
) -> tuple[tuple[OtherHost, ...], list[Finding]]:
    """Give each service a host with one port, and say where that is otherwise.

    A subnet manager runs on the extra hosts of its network, or on a switch where there are none.
    """
    found, notes = [], []
    for position, service in enumerate(design.services):
        if network_of(design, PlaneId[service.plane.name]) is not plane:
            continue
        if service.kind is ServiceKind.SUBNET_MANAGER:
            where = ", ".join(extra) if extra else "managed switches"
            notes.append(
                Finding(
                    "service-without-own-port",
                    Severity.INFO,
                    f"services[{position}]",
                    f"the subnet manager runs on {where} and takes no ports of its own",
                    fix="ask for ports with extra_hosts where it has servers of its own",
                )
            )
            continue
        for number in range(service.instances):
            name = f"{service.kind.value}-{number + 1}"
            found.append(OtherHost(NodeKind.EXTRA, name, 1, host_bps, 1))
    return tuple(found), notes
