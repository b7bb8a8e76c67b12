"""One build of a fabric, step by step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from railweave.design.models import Design
from railweave.fabric._arrays import Fabric, LinkLayer, NodeKind, PlaneId
from railweave.fabric._assembly import Assembly, Ints, RackDistance, group_cables
from railweave.fabric._clos import leaf_spine_wires, spine_core_wires, spine_pods
from railweave.fabric._graph import read_graph
from railweave.fabric._graph_build import add_graph
from railweave.fabric._inventory import switch_shape
from railweave.fabric._others import OtherHost
from railweave.fabric._plane_input import Cluster, PlaneInput
from railweave.fabric._racks import plan_racks
from railweave.fabric._servers import add_servers
from railweave.fabric.plan import PlanePlan, graph_plan, plan_of
from railweave.fabric.sizing import NetworkSize, Scheme
from railweave.findings import Finding, Severity

if TYPE_CHECKING:
    from railweave.catalog import Catalog

__all__ = ["Builder", "cable_counts"]

#: storage servers, and other hosts, in one rack
OTHERS_PER_RACK = 16
CLASS_NAMES = {
    LinkLayer.HOST_LEAF: "host-leaf",
    LinkLayer.LEAF_SPINE: "leaf-spine",
    LinkLayer.SPINE_CORE: "spine-core",
    LinkLayer.OTHER: "switch-switch",
}


class Builder:
    """Holds what the steps of one build share; used once."""

    def __init__(
        self,
        design: Design,
        catalog: Catalog,
        cluster: Cluster,
        *,
        folder: Path,
        network: Mapping[PlaneId, PlaneId],
        inputs: Mapping[PlaneId, PlaneInput],
        sizes: Mapping[PlaneId, NetworkSize],
    ) -> None:
        self.design, self.catalog, self.folder = design, catalog, folder
        self.cluster, self.network = cluster, network
        self.inputs, self.sizes = inputs, sizes
        self.assembly = Assembly()
        self.server_rack = np.arange(cluster.servers) // cluster.servers_per_rack
        self.host_racks = int(self.server_rack[-1]) + 1
        self.server_names = tuple(
            f"{shape.name}{number:0{max(3, len(str(shape.count)))}d}"
            for shape in cluster.shapes
            for number in range(1, shape.count + 1)
        )
        self.graph_names: dict[int, str] = {}
        self.other_nodes: dict[str, int] = {}
        self.other_first: dict[PlaneId, Ints] = {}
        #: rows wanted and racks fixed of the switches, block by block
        self.switch_rows: list[Ints] = []
        self.switch_fixed: list[Ints] = []
        self.switch_nodes: list[Ints] = []
        self.switch_models: dict[int, str] = {}

    def build(self) -> tuple[Fabric, RackDistance, dict[PlaneId, PlanePlan]]:
        """Run the steps in order; return the fabric, the racks' places and the plans."""
        pod = server_pods(self.sizes.get(PlaneId.BACKEND), self.cluster)
        host_planes: set[PlaneId] = set(self.inputs) - {PlaneId.BACKEND}
        host_planes |= {to for plane, to in self.network.items() if plane != to}
        self.nodes = add_servers(
            self.assembly,
            self.cluster.shapes,
            {plane: given.nics for plane, given in self.inputs.items()},
            server_pod=pod,
            server_rack=self.server_rack,
            host_planes=frozenset(host_planes),
        )
        for plane, given in self.inputs.items():
            self._add_others(plane, given)
            if plane in self.sizes:
                self._add_plane(given, self.sizes[plane])
            else:
                self._add_graph(given)
        fabric, places = self._finish()
        plans = {
            plane: self._plan(fabric, given, self.sizes.get(plane))
            for plane, given in self.inputs.items()
        }
        return fabric, places, plans

    # ---- hosts beside the servers

    def _add_others(self, plane: PlaneId, given: PlaneInput) -> None:
        nodes: list[int] = []
        others = self._placed(plane, given)
        seen: Counter[NodeKind] = Counter()
        for number, other in enumerate(others):
            rack = self.host_racks + number // OTHERS_PER_RACK
            index = seen[other.kind]
            nodes.append(self.assembly.nodes(other.kind, 1, plane=plane, rack=rack, index=index))
            seen[other.kind] += 1
            name = other.name
            while name in self.other_nodes:  # the same service on two planes
                name = f"{plane.name.lower()}-{name}"
            self.other_nodes[name] = nodes[-1]
        self.host_racks += -(-len(others) // OTHERS_PER_RACK)
        self.other_first[plane] = np.array(nodes, dtype=np.int64)

    def _placed(self, plane: PlaneId, given: PlaneInput) -> tuple[OtherHost, ...]:
        """Return the other hosts that have ports: services are left out where none is free."""
        size = self.sizes.get(plane)
        if size is None:
            return ()
        missing = len(size.demand.others) + size.demand.services - len(size.placement.other_leaf)
        return given.others[: len(given.others) - missing]

    # ---- one plane

    def _add_plane(self, given: PlaneInput, size: NetworkSize) -> None:
        apart = given.demand.rails if given.apart else 1
        leaf0, spine0, core0 = self._switch_nodes(given, size, apart)
        for subplane in range(given.subplanes):
            for rail in range(apart):
                at = subplane * apart + rail
                leaf = leaf0 + at * size.leaves
                self._host_links(given, size, leaf, rail if given.apart else -1, subplane)
                self._other_links(given, size, leaf, at)
                self._switch_links(
                    given, size, leaf, spine0 + at * size.spines, core0 + at * size.cores
                )

    def _switch_nodes(
        self, given: PlaneInput, size: NetworkSize, apart: int
    ) -> tuple[int, int, int]:
        """Add the switches of all networks, all leaves first; return the first of each tier."""
        leaf_row, leaf_fixed = self._leaf_places(size)
        spine_pod = spine_pods(size)
        pod_row = _group_mean(size.leaf_pod, leaf_row, size.pods)
        hall_row = np.array([int(np.mean(leaf_row))])
        pod = leaf_pods(size)
        tiers = [
            (1, size.leaves, pod, size.placement.leaf_rail, leaf_row, leaf_fixed, size.demand.leaf),
            (
                2,
                size.spines,
                spine_pod if size.tiers == 3 else np.full(size.spines, -1),
                np.full(size.spines, -1),
                pod_row[spine_pod],
                np.full(size.spines, -1),
                size.demand.spine,
            ),
            (
                3,
                size.cores,
                np.full(size.cores, -1),
                np.full(size.cores, -1),
                np.repeat(hall_row, size.cores),
                np.full(size.cores, -1),
                size.demand.core,
            ),
        ]
        firsts = []
        for tier, n, pods, rails, rows, fixed, shape in tiers:
            firsts.append(self.assembly.count)
            if not n:
                continue
            for subplane in range(given.subplanes):
                first = self.assembly.nodes(
                    NodeKind.SWITCH,
                    n * apart,
                    tier=tier,
                    plane=given.plane,
                    subplane=subplane,
                    pod=np.tile(pods, apart),
                    rail=np.repeat(np.arange(apart), n) if given.apart else rails,
                    latency_s=shape.latency_s,
                )
                nodes = first + np.arange(n * apart)
                self.switch_nodes.append(nodes)
                self.switch_rows.append(np.tile(rows, apart))
                self.switch_fixed.append(np.tile(fixed, apart))
                self.switch_models.update(dict.fromkeys(nodes.tolist(), shape.name))
        return firsts[0], firsts[1], firsts[2]

    def _leaf_places(self, size: NetworkSize) -> tuple[Ints, Ints]:
        """Return each leaf's row (that of its servers) and, at the top of a rack, its rack."""
        place = size.placement
        rack = self.server_rack[place.server]
        mean = _group_mean(place.leaf, rack, size.leaves)
        row = mean // self.design.facility.racks_per_row
        fixed = np.full(size.leaves, -1)
        if size.demand.scheme is Scheme.RACKS:
            served = np.bincount(place.leaf, minlength=size.leaves) > 0
            fixed[served] = mean[served]
        return row, fixed

    def _host_links(
        self, given: PlaneInput, size: NetworkSize, leaf: int, rail: int, subplane: int
    ) -> None:
        place, plane = size.placement, given.plane
        first, count = self.nodes.nic_first[plane], self.nodes.nic_count[plane]
        group = self.nodes.server_group[place.server]
        per_nic = np.array(given.links)[group] // count[place.server]
        which = place.number // per_nic if rail < 0 else rail
        self.assembly.duplex(
            first[place.server] + which,
            leaf + place.leaf,
            np.array(given.host_bps)[group],
            LinkLayer.HOST_LEAF,
            plane=plane,
            port_a=subplane * per_nic + place.number % per_nic + 1,
            port_b=place.port,
            cable=group_cables(place.server, self.cables_per("host_leaf", given)),
            length_m=np.nan,
        )

    def _other_links(self, given: PlaneInput, size: NetworkSize, leaf: int, network: int) -> None:
        place, plane = size.placement, given.plane
        others = self._placed(plane, given)
        if not others:
            return
        ports = np.array([other.ports for other in others])
        speeds = np.array([other.speed_bps for other in others])
        owner = np.repeat(np.arange(len(ports)), ports)
        number = np.arange(len(owner)) - np.repeat(np.cumsum(ports) - ports, ports)
        self.assembly.duplex(
            self.other_first[plane][owner],
            leaf + place.other_leaf,
            speeds[owner],
            LinkLayer.HOST_LEAF,
            plane=plane,
            port_a=network * ports[owner] + number + 1,
            port_b=place.other_port,
            cable=group_cables(np.arange(len(owner)), 1),
            length_m=np.nan,
        )

    def _switch_links(
        self, given: PlaneInput, size: NetworkSize, leaf: int, spine: int, core: int
    ) -> None:
        demand = size.demand
        for wires, low, high, bps, layer, key in (
            (
                leaf_spine_wires(size),
                leaf,
                spine,
                demand.leaf_up_bps,
                LinkLayer.LEAF_SPINE,
                "leaf_spine",
            ),
            (
                spine_core_wires(size),
                spine,
                core,
                demand.spine_up_bps,
                LinkLayer.SPINE_CORE,
                "spine_core",
            ),
        ):
            if not len(wires.low):
                continue
            # a twin-port cage may part to two switches (splitter cable): count at the lower end
            self.assembly.duplex(
                low + wires.low,
                high + wires.high,
                bps,
                layer,
                plane=given.plane,
                port_a=wires.low_port,
                port_b=wires.high_port,
                cable=group_cables(wires.low, self.cables_per(key, given)),
                length_m=np.nan,
            )

    @staticmethod
    def cables_per(tier: str, given: PlaneInput) -> int:
        """Return how many links one cable of a tier carries."""
        return int(getattr(given.spec.links_per_cable, tier))

    # ---- joining

    def _finish(self) -> tuple[Fabric, RackDistance]:
        power = max(
            (shape.power_w for given in self.inputs.values() for shape in given.switches),
            default=1.0,
        )
        places = plan_racks(
            self.design.facility,
            self.host_racks,
            np.concatenate(self.switch_rows),
            np.concatenate(self.switch_fixed),
            power,
        )
        rack = self.assembly.column("rack").astype(np.int64)
        rack[np.concatenate(self.switch_nodes)] = places.switch_rack
        fabric = self.assembly.finish(
            self.design.name,
            rack=rack,
            distance_m=places.distance,
            server_names=self.server_names,
            switch_names={
                **{node: name for name, node in self.other_nodes.items()},
                **self.graph_names,
            },
            switch_models=self.switch_models,
        )
        return fabric, places.distance

    # ---- graphs

    def _add_graph(self, given: PlaneInput) -> None:
        """Add a plane whose switches and links come from a file."""
        graph = read_graph(self.folder / (given.spec.graph or ""), self.server_names)
        shapes = [
            switch_shape(switch.model, self.catalog) if switch.model else given.switches[0]
            for switch in graph.switches
        ]
        added = add_graph(self.assembly, graph, given, self.nodes, shapes)
        self.switch_models.update(
            {node: shape.name for node, shape in zip(added.tolist(), shapes, strict=True)}
        )
        self.graph_names.update(
            {node: switch.name for node, switch in zip(added.tolist(), graph.switches, strict=True)}
        )
        hall = self.host_racks // 2 // self.design.facility.racks_per_row
        self.switch_nodes.append(added)
        self.switch_rows.append(np.full(len(added), hall))
        self.switch_fixed.append(np.full(len(added), -1))

    def _plan(self, fabric: Fabric, given: PlaneInput, size: NetworkSize | None) -> PlanePlan:
        if size is None:
            return graph_plan(given, fabric, self.cluster.gpus, cable_counts(fabric, given.plane))
        plan = plan_of(given, size, self.cluster.gpus)
        return replace(plan, counts=replace(plan.counts, cables=cable_counts(fabric, given.plane)))

    def say_services(self) -> list[Finding]:
        """Say which services have no network to be on."""
        return [
            Finding(
                "service-without-plane",
                Severity.WARNING,
                f"services[{number}].plane",
                f"the {service.kind.value} lives on {service.plane.value}, which is not described",
                fix=f"describe planes.{service.plane.value}, or name another plane",
            )
            for number, service in enumerate(self.design.services)
            if PlaneId[service.plane.name] not in self.network
        ]


def cable_counts(fabric: Fabric, plane: PlaneId) -> dict[str, int]:
    """Count the cables of a plane by class."""
    layer, on_plane = fabric.link_layer[0::2], fabric.link_plane[0::2] == plane
    found = {}
    for which, name in CLASS_NAMES.items():
        cables = fabric.duplex_cable[on_plane & (layer == which)]
        if cables.size:
            found[name] = int(np.unique(cables).size)
    return found


def leaf_pods(size: NetworkSize) -> Ints:
    """Return what stands as a leaf's pod: its scalable unit in two tiers, its pod in three."""
    if size.tiers < 3 and size.demand.scheme is Scheme.RAILS:
        return size.placement.leaf_unit
    return size.leaf_pod


def server_pods(size: NetworkSize | None, cluster: Cluster) -> Ints:
    """Return each server's pod or scalable unit in the back-end, shape (S,)."""
    pods = np.full(cluster.servers, -1, dtype=np.int64)
    if size is None:
        return pods
    place = size.placement
    pods[place.server[::-1]] = leaf_pods(size)[place.leaf[::-1]]  # the first link of each decides
    return pods


def _group_mean(group: Ints, value: Ints, groups: int) -> Ints:
    """Return the mean of a value by group, rounded down; 0 for empty groups."""
    total = np.bincount(group, weights=value, minlength=groups)
    number = np.bincount(group, minlength=groups)
    mean: Ints = (total // np.maximum(1, number)).astype(np.int64)
    return mean
