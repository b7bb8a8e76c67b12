"""`CollectiveSystem`: what a collective library sees of a cluster, and how to read it off a design.

A *domain* is a group of ranks that reach each other over NVLink or xGMI: a server, or a whole
NVL72 rack. To the library it is one node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from railweave.catalog import ScaleUp
from railweave.catalog._parts import Generation
from railweave.errors import InputError
from railweave.fabric import LinkLayer, NodeKind, PlaneId
from railweave.workload import Communicator
from railweave.workload._communicator import scale_up_hub

if TYPE_CHECKING:
    from railweave.api import BuiltDesign
    from railweave.catalog import Catalog
    from railweave.design.models import ServerGroup
    from railweave.fabric import Fabric

__all__ = ["CollectiveSystem", "Generation", "NetworkClass", "ScaleUp", "system_of"]

I32 = npt.NDArray[np.int32]

#: how a network is driven: what the library's time a hop and the share of line rate depend on
NetworkClass: TypeAlias = Literal["none", "infiniband", "rocev2", "efa", "tcp"]

#: GPU to GPU over PCIe Gen4 x16, one way, where there is no scale-up network
PCIE_BPS: Final = 25e9  # byte/s
MULTICAST_GENERATIONS: Final = ("hopper", "blackwell", "rubin")


@dataclass(frozen=True, slots=True)
class CollectiveSystem:
    """What a collective library sees of a cluster.

    Args:
        generation: of the GPUs, as in the catalog.
        domains: scale-up domains, the library's nodes; an NVL72 rack is one.
        ranks_per_domain: in each; with uneven domains the largest.
        scale_up: what joins the GPUs of a domain.
        scale_up_Bps: of one GPU, one way, byte/s.
        network: what joins the domains.
        nics_per_domain: those that the ranks use.
        nic_Bps: line rate of each, one way, byte/s.
        in_network: the network's switches add up (SHARP).
        multicast: the scale-up switches add up and multicast (NVLink SHARP, for NVLS).
        rank_count: where domains are uneven; 0 means domains × ranks_per_domain.

    Raises:
        InputError: a value that no cluster has.
    """

    generation: Generation
    domains: int
    ranks_per_domain: int
    scale_up: ScaleUp
    scale_up_Bps: float  # noqa: N815 - byte/s
    network: NetworkClass
    nics_per_domain: int
    nic_Bps: float  # noqa: N815 - byte/s
    in_network: bool = False
    multicast: bool = False
    rank_count: int = 0

    def __post_init__(self) -> None:
        if self.domains < 1 or self.ranks_per_domain < 1:
            raise InputError(
                f"collective system: {self.domains} domains of {self.ranks_per_domain} ranks "
                "are not allowed; give 1 or more of each"
            )
        if self.ranks_per_domain > 1 and not self.scale_up_Bps > 0:
            raise InputError(
                f"collective system: scale-up bandwidth {self.scale_up_Bps:g} B/s is not allowed "
                "with several ranks in a domain; give what one GPU can send"
            )
        joined = self.network != "none" and self.nics_per_domain > 0 and self.nic_Bps > 0
        if self.domains > 1 and not joined:
            raise InputError(
                f"collective system: {self.domains} domains need a network between them; give its "
                "class (infiniband, rocev2, efa or tcp), NICs a domain and their speed"
            )

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return self.rank_count or self.domains * self.ranks_per_domain

    @property
    def network_Bps(self) -> float:  # noqa: N802 - byte/s
        """Line rate of one domain into the network, one way, byte/s."""
        return self.nics_per_domain * self.nic_Bps if self.domains > 1 else 0.0

    def describe(self) -> str:
        """Say it in a line."""
        inside = f"{self.scale_up} {self.scale_up_Bps / 1e9:g} GB/s a GPU"
        text = f"{self.domains} × {self.ranks_per_domain} {self.generation} GPUs, {inside}"
        if self.domains > 1:
            rate = self.nic_Bps * 8 / 1e9
            text += f", {self.nics_per_domain} × {rate:g} Gb/s {self.network} a domain"
            text += " with SHARP" if self.in_network else ""
        return text


def system_of(
    built: BuiltDesign,
    nodes: npt.ArrayLike | None = None,
    plane: PlaneId = PlaneId.BACKEND,
    *,
    in_network: bool = False,
) -> CollectiveSystem:
    """Return what the library sees of the ranks on these GPUs.

    Line rates are nominal, links that are down included: what failures and the fabric take away
    is for :class:`railweave.predict.collective.NetworkPart`.

    Args:
        built: a built design.
        nodes: the GPU node of each rank; None takes all GPUs.
        plane: the plane that joins the domains.
        in_network: use SHARP on the network.

    Raises:
        InputError: no GPUs, ranks on different GPU generations, ranks in several domains without
            a network, or SHARP asked of a network that has none.
    """
    fabric = built.fabric
    ranks = fabric.gpus if nodes is None else np.atleast_1d(np.asarray(nodes, dtype=np.int32))
    if not len(ranks):
        raise InputError("collective: the design has no GPUs; give its servers some")
    comm = Communicator.from_fabric(fabric, ranks)
    catalog = built.document.catalog
    groups = np.unique(built.built.nodes.server_group[fabric.node_server[ranks]])
    servers = [built.design.cluster.servers[int(group)] for group in groups]
    generation = _generation(servers, catalog)
    kind, rate = _scale_up(fabric, ranks, servers, catalog)
    domains = len(comm.domain_sizes)
    nics, nic_rate = _nics(fabric, comm, plane)
    network = _network_class(built, servers, plane) if domains > 1 and nics else "none"
    if in_network:
        _require_sharp(built, plane, network)
    largest = int(comm.domain_sizes.max())
    multicast = kind == "nvlink" and generation in MULTICAST_GENERATIONS and largest > 1
    return CollectiveSystem(
        generation=generation,
        domains=domains,
        ranks_per_domain=largest,
        scale_up=kind,
        scale_up_Bps=rate,
        network=network,
        nics_per_domain=nics,
        nic_Bps=nic_rate,
        in_network=in_network,
        multicast=multicast,
        rank_count=0 if comm.uniform else comm.n,
    )


def _gpu_name(group: ServerGroup, catalog: Catalog) -> str:
    if group.inline is not None:
        return group.inline.gpu
    return catalog.server(group.model or "").gpu or ""


def _generation(servers: Sequence[ServerGroup], catalog: Catalog) -> Generation:
    """Return the one generation of these servers' GPUs."""
    found: list[Generation] = sorted(
        {catalog.gpu(_gpu_name(group, catalog)).generation for group in servers}
    )
    if len(found) > 1:
        raise InputError(
            f"collective: the ranks are on GPUs of {', '.join(found)}; "
            "the model describes ranks of one generation: place the job on one server group"
        )
    return found[0]


def _scale_up(
    fabric: Fabric, ranks: I32, servers: Sequence[ServerGroup], catalog: Catalog
) -> tuple[ScaleUp, float]:
    """Return (kind, byte/s of one GPU one way) inside a domain; PCIe where a GPU has no hub."""
    if (scale_up_hub(fabric)[ranks] < 0).any():
        return "pcie", PCIE_BPS
    out = (fabric.link_layer == LinkLayer.SCALE_UP) & np.isin(fabric.link_src, ranks)
    rate = float(fabric.link_capacity_bps[out].min()) / 8
    kind: ScaleUp = catalog.gpu(_gpu_name(servers[0], catalog)).scale_up
    return (kind if kind in ("nvlink", "xgmi") else "nvlink"), rate


def _nics(fabric: Fabric, comm: Communicator, plane: PlaneId) -> tuple[int, float]:
    """Return (NICs that the ranks of a domain use, line rate of each in byte/s), the fewest."""
    head, tail = fabric.link_src, fabric.link_dst
    joins = np.flatnonzero(
        (fabric.link_layer == LinkLayer.PCIE)
        & (fabric.node_kind[tail] == NodeKind.NIC)
        & (fabric.node_plane[tail] == plane)
        & np.isin(head, comm.nodes)
    )
    if not joins.size:
        return 0, 0.0
    domain = np.full(fabric.n_nodes, -1, dtype=np.int64)
    domain[comm.nodes] = comm.order
    pairs = np.unique(np.stack([domain[head[joins]], tail[joins]]), axis=1)
    counts = np.bincount(pairs[0], minlength=len(comm.domain_sizes))
    ports = (fabric.link_layer == LinkLayer.HOST_LEAF) & np.isin(fabric.link_src, pairs[1])
    total = float(fabric.link_capacity_bps[ports].sum()) / 8
    return int(counts.min()), total / len(pairs[1])


def _network_class(
    built: BuiltDesign, servers: Sequence[ServerGroup], plane: PlaneId
) -> NetworkClass:
    """Return the class of the plane's network; EFA where the NICs speak SRD."""
    carrier = built.built.network.get(plane, plane)
    for group in servers:
        if group.model is None:
            continue
        for role, nics in built.document.catalog.server(group.model).nics.items():
            transports = built.document.catalog.nic(nics.nic).transports
            if role == plane.name.lower() and "srd" in transports:
                return "efa"
    plan = built.built.plans.get(carrier)
    name = plan.transport.value if plan is not None else "tcp"
    return "infiniband" if name == "infiniband" else "rocev2" if name == "rocev2" else "tcp"


def _require_sharp(built: BuiltDesign, plane: PlaneId, network: NetworkClass) -> None:
    """Refuse SHARP where the network cannot do it."""
    if network != "infiniband":
        raise InputError(
            f"SHARP: the {plane.name.lower()} network is {network}; in-network reduction needs "
            "an InfiniBand plane that joins two domains or more: leave it off, or change the plane"
        )
    carrier = built.built.network.get(plane, plane)
    parts = {part.name: part for part in built.document.catalog.switches()}
    models = {built.fabric.switch_models.get(int(n), "") for n in built.fabric.switches(carrier)}
    for name in sorted(models & parts.keys()):
        if "sharp" not in parts[name].features:
            raise InputError(
                f"SHARP: switch model {name} does not list it; choose one with the feature 'sharp'"
            )
