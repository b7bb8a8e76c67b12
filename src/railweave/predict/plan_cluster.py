"""The cluster that a training plan is looked for: a design's fabric, or so many catalog servers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from railweave.catalog import Catalog, Gpu, Server
from railweave.design.models import PlacementName
from railweave.errors import InputError
from railweave.predict._fabric_costs import costs_on_fabric
from railweave.predict.network_part import network_part
from railweave.predict.scaling import resized
from railweave.predict.system import CollectiveSystem, NetworkClass, system_of
from railweave.predict.training_costs import (
    NETWORK_SHARE,
    ClusterLinks,
    CommunicationCosts,
    costs_of_links,
    links_of,
)
from railweave.workload.groups import Degrees
from railweave.workload.placement import place

if TYPE_CHECKING:
    from railweave.api import BuiltDesign

__all__ = ["TrainingCluster", "cluster_of_design", "cluster_of_server", "gpu_of_ranks"]

I32 = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class TrainingCluster:
    """GPUs, what joins them, and how communication is priced on them.

    ``links`` are for closed forms; ``built`` with the ``nodes`` of the ranks is the fabric, None
    where there is none.
    """

    name: str
    gpu: Gpu
    gpus: int
    system: CollectiveSystem
    links: ClusterLinks
    built: BuiltDesign | None = None
    nodes: I32 | None = None
    placement: PlacementName = PlacementName.PACKED

    @property
    def domain_gpus(self) -> int:
        """GPUs of a scale-up domain."""
        return self.links.domain_gpus

    def on(self, built: BuiltDesign) -> TrainingCluster:
        """Return as many GPUs, placed by the same rule, on another fabric."""
        return cluster_of_design(built, self.gpus, name=self.name, placement=self.placement)

    def placed(self, rule: PlacementName) -> TrainingCluster:
        """Return as many GPUs of the same fabric, placed by another rule."""
        return replace(self, placement=rule)._again()

    def _again(self) -> TrainingCluster:
        if self.built is None:
            raise InputError("placement: there is no fabric; name a design")
        return self.on(self.built)

    def at(self, gpus: int) -> TrainingCluster:
        """Return another number of GPUs of the same kind: of this fabric, or of a larger one.

        Raises:
            InputError: no fabric of this kind has so many, or there is none.
        """
        if self.built is None:
            raise InputError("there is no fabric: the cluster is so many catalog servers")
        whole = len(self.built.fabric.gpus)
        built = self.built if gpus <= whole else resized(self.built, gpus)
        return cluster_of_design(built, gpus, name=self.name, placement=self.placement)

    def describe(self) -> str:
        """Say it in a line."""
        return f"{self.name}: {self.system.describe()}"

    def quick(self, degrees: Degrees) -> CommunicationCosts:
        """Return closed-form costs; any number of GPUs."""
        return costs_of_links(degrees, self.links)

    def exact(self, degrees: Degrees) -> CommunicationCosts:
        """Return costs by the flow engine on the fabric; closed forms where there is none.

        What was found for some degrees is kept.
        """
        if self.built is None or self.nodes is None:
            return self.quick(degrees)
        if degrees not in self._known:
            self._known[degrees] = costs_on_fabric(
                self.built.fabric,
                self.built.routing(),
                degrees,
                self.nodes[: degrees.ranks],
                queue_pairs=self.built.design.planes.backend.routing.queue_pairs,
            )
        return self._known[degrees]

    @cached_property
    def _known(self) -> dict[Degrees, CommunicationCosts]:
        return {}


def cluster_of_design(
    built: BuiltDesign,
    gpus: int | None = None,
    *,
    name: str = "",
    placement: PlacementName = PlacementName.PACKED,
) -> TrainingCluster:
    """Return so many GPUs of a design (None: all), placed by a rule, with its failures.

    Raises:
        InputError: more GPUs than there are, or GPUs of several generations.
    """
    fabric = built.fabric
    if gpus is not None and not 1 <= gpus <= len(fabric.gpus):
        raise InputError(
            f"gpus: {gpus:,} are wanted and the design has {len(fabric.gpus):,}; "
            f"allowed: 1…{len(fabric.gpus):,}, or a larger design"
        )
    nodes = place(fabric, gpus, placement, seed=built.design.seed, name="plan")
    system = system_of(built, nodes)
    links = _links(system, system.ranks_per_domain)
    if system.domains > 1:
        left = network_part(built, nodes, engine="analytic").ring_share
        links = replace(links, network_Bps=links.network_Bps * left)
    gpu = gpu_of_ranks(built, nodes)
    return TrainingCluster(
        name or built.design.name, gpu, len(nodes), system, links, built, nodes, placement
    )


def gpu_of_ranks(built: BuiltDesign, nodes: I32) -> Gpu:
    """Return the GPU of the first rank's server.

    Raises:
        InputError: servers without GPUs, or a GPU that the catalog does not have.
    """
    server = int(built.fabric.node_server[nodes[0]])
    catalog, ends = built.document.catalog, 0
    for group in built.design.cluster.servers:
        model = None if group.model is None else catalog.server(group.model)
        name = group.inline.gpu if group.inline is not None else (model.gpu if model else None)
        ends += group.count or built.fabric.n_nodes
        if server < ends and name:
            return catalog.gpu(name)
    raise InputError("plan: the design's servers have no GPUs; give them some")


def cluster_of_server(
    catalog: Catalog, server: str, gpus: int, *, gpu: str | None = None
) -> TrainingCluster:
    """Return so many GPUs in catalog servers on a network that never binds but at their NICs.

    Args:
        catalog: with the parts.
        server: name of the server.
        gpus: how many; fewer than a server has are part of one.
        gpu: another GPU in that server.

    Raises:
        InputError: a part that does not exist, a server without GPUs, or GPUs that do not fill
            servers.
    """
    model = catalog.server(server)
    if model.gpu is None:
        raise InputError(f"server {server} has no GPUs; name one that has")
    part = catalog.gpu(gpu or model.gpu)
    if gpus < 1 or (gpus > model.gpu_count and gpus % model.gpu_count):
        raise InputError(
            f"gpus: {gpus:,} do not fill servers of {model.gpu_count}; "
            f"allowed: a multiple of {model.gpu_count}, or fewer than that; nearest: "
            f"{max(round(gpus / model.gpu_count), 1) * model.gpu_count:,}"
        )
    inside = min(gpus, model.scale_up_domain_gpus or model.gpu_count)
    if gpus % inside:
        inside = model.gpu_count
    system = _system(catalog, model, part, gpus // inside, inside)
    whole = model.scale_up_domain_gpus or model.gpu_count
    return TrainingCluster(f"{server} servers", part, gpus, system, _links(system, whole))


def _links(system: CollectiveSystem, domain_gpus: int) -> ClusterLinks:
    """Return links for closed forms, the network's also where one domain does not need it."""
    each = system.nics_per_domain * system.nic_Bps / system.ranks_per_domain
    links = links_of(system)
    return replace(links, domain_gpus=domain_gpus, network_Bps=each * NETWORK_SHARE)


def _system(
    catalog: Catalog, model: Server, gpu: Gpu, domains: int, inside: int
) -> CollectiveSystem:
    backend = model.nics.get("backend")
    count = backend.count * inside / model.gpu_count if backend else 0.0
    network: NetworkClass = "none"
    if backend and domains > 1:
        speaks = catalog.nic(backend.nic).transports
        known: tuple[tuple[str, NetworkClass], ...] = (
            ("srd", "efa"),
            ("infiniband", "infiniband"),
            ("rocev2", "rocev2"),
        )
        network = next((name for spoken, name in known if spoken in speaks), "tcp")
    nics = max(round(count), 1) if count else 0
    kind = model.scale_up if model.scale_up in ("nvlink", "xgmi") else "pcie"
    rate = model.scale_up_bps / 8 if kind != "pcie" else _pcie_Bps(catalog, model)
    return CollectiveSystem(
        generation=gpu.generation,
        domains=domains,
        ranks_per_domain=inside,
        scale_up=kind,
        scale_up_Bps=rate,
        network=network,
        nics_per_domain=nics,
        nic_Bps=(backend.speed_bps / 8 * count / nics) if backend and nics else 0.0,
        multicast=kind == "nvlink" and gpu.generation in ("hopper", "blackwell", "rubin"),
    )


def _pcie_Bps(catalog: Catalog, model: Server) -> float:  # noqa: N802 - byte/s
    """Return what a GPU without a scale-up link can send: its slot's rate."""
    backend = model.nics.get("backend")
    return catalog.nic(backend.nic).pcie_bps / 8 if backend else 25e9
