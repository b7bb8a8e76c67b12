"""How large a fabric will be, known before any of its arrays is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from railweave.design.models import Design, Topology
from railweave.fabric._arrays import PlaneId
from railweave.fabric._plane_input import cluster_of, network_of, plane_input
from railweave.fabric.sizing import size_network

if TYPE_CHECKING:
    from railweave.catalog import Catalog

__all__ = ["PlannedSize", "planned_hosts", "planned_size"]


@dataclass(frozen=True, slots=True)
class PlannedSize:
    """Counts of a design: GPUs, hosts (storage servers and extra hosts included), network links.

    A link is one cable's worth of one port to one port, counted once, over all planes. Planes from
    a graph file are not counted: the file says what they have.
    """

    gpus: int
    hosts: int
    links: int


def planned_hosts(design: Design, catalog: Catalog) -> PlannedSize:
    """Count GPUs and hosts, which takes no time however many they are; links are 0.

    Raises:
        SizingError: the racks there are do not hold the servers.
    """
    cluster = cluster_of(design, catalog)
    storage = design.cluster.storage_servers
    others = storage.count if storage is not None else 0
    for plane in PlaneId:
        spec = getattr(design.planes, plane.name.lower())
        others += sum(spec.extra_hosts.values()) if spec is not None else 0
    others += sum(service.instances for service in design.services)
    return PlannedSize(cluster.gpus, cluster.servers + others, 0)


def planned_size(design: Design, catalog: Catalog) -> PlannedSize:
    """Count everything by sizing each plane, without building it.

    Raises:
        SizingError: a plane cannot be built as asked.
    """
    hosts = planned_hosts(design, catalog)
    cluster = cluster_of(design, catalog)
    owners = {carrier for p in PlaneId if (carrier := network_of(design, p)) is not None}
    links = 0
    for plane in sorted(owners):
        given = plane_input(design, catalog, cluster, plane)
        if given.topology is Topology.GRAPH:
            continue
        size = size_network(given.demand)
        networks = given.subplanes * (given.demand.rails if given.apart else 1)
        links += networks * (size.host_links + size.leaf_spine_links + size.spine_core_links)
    return PlannedSize(hosts.gpus, hosts.hosts, links)
