"""Nodes and links inside servers: hosts, GPUs, scale-up domains, NICs and the PCIe between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from railweave.fabric._arrays import LinkLayer, NodeKind, PlaneId
from railweave.fabric._assembly import Assembly, Ints
from railweave.fabric._inventory import PCIE_EFFICIENCY, ServerShape, adapter_of

__all__ = ["ServerNodes", "add_servers"]

Numbers = npt.NDArray[np.float64]

#: one hop through a scale-up switch (estimated)
SCALE_UP_LATENCY_S = 150e-9
#: GPU to host where there is no scale-up network: PCIe Gen4 x16, one way
PCIE_ONLY_BPS = 252e9


@dataclass(frozen=True, eq=False)
class ServerNodes:
    """Where the servers' nodes are.

    ``host`` (S,) node of each server; ``gpu_first``/``gpu_count`` (S,) first GPU node and number;
    ``nic_first``/``nic_count`` by plane the same for NICs; ``gpu_nic`` (G,) the back-end NIC
    nearest to each GPU, −1 where there is none; ``server_group`` (S,) the group in the design.
    """

    host: Ints
    gpu_first: Ints
    gpu_count: Ints
    nic_first: dict[PlaneId, Ints]
    nic_count: dict[PlaneId, Ints]
    gpu_nic: Ints
    server_group: Ints


@dataclass(frozen=True, eq=False)
class _Frame:
    """What the steps share: (S,) group, pod, rack and host node of servers; (G,) of GPUs."""

    assembly: Assembly
    shapes: tuple[ServerShape, ...]
    group: Ints
    pod: Ints
    rack: Ints
    host: Ints
    owner: Ints  #: server of each GPU
    slot: Ints  #: number of each GPU in its server
    gpu: Ints  #: node of each GPU

    def adapters(self, plane: PlaneId) -> tuple[Numbers, Numbers]:
        """Return usable PCIe bandwidth and NIC latency by server group."""
        found = [adapter_of(shape, plane) for shape in self.shapes]
        return (
            np.array([adapter.pcie_bps for adapter in found]),
            np.array([adapter.latency_s for adapter in found]),
        )


def add_servers(
    assembly: Assembly,
    shapes: tuple[ServerShape, ...],
    nics_used: Mapping[PlaneId, tuple[int, ...]],
    *,
    server_pod: Ints,
    server_rack: Ints,
    host_planes: frozenset[PlaneId],
) -> ServerNodes:
    """Add all servers: blocks of hosts, GPUs, hubs, and NICs by plane.

    Args:
        assembly: grows by the nodes and links.
        shapes: server groups, in order.
        nics_used: for each plane with a network of its own, NICs of a server of each group.
        server_pod: (S,) pod or scalable unit.
        server_rack: (S,) rack.
        host_planes: planes whose NICs the host's own traffic uses; these have PCIe to the host.
    """
    group = np.repeat(np.arange(len(shapes)), [shape.count for shape in shapes])
    every = np.arange(len(group))
    host = every + assembly.nodes(
        NodeKind.HOST, len(group), server=every, pod=server_pod, rack=server_rack
    )
    gpus = np.array([shape.gpus for shape in shapes])[group]
    owner = np.repeat(every, gpus)
    slot = np.arange(len(owner)) - (np.cumsum(gpus) - gpus)[owner]
    back = np.array(nics_used.get(PlaneId.BACKEND, (0,) * len(shapes)))[group]
    nic_of = slot * back[owner] // np.maximum(1, gpus[owner])
    first_gpu = assembly.nodes(
        NodeKind.GPU,
        len(owner),
        server=owner,
        pod=server_pod[owner],
        rack=server_rack[owner],
        rail=np.where(back[owner] > 0, nic_of, -1),
    )
    gpu = first_gpu + np.arange(len(owner))
    frame = _Frame(
        assembly, shapes, group, server_pod, server_rack, host, owner=owner, slot=slot, gpu=gpu
    )
    _add_scale_up(frame)
    nic_count = {plane: np.array(used)[group] for plane, used in nics_used.items()}
    nic_first = {
        plane: _add_nics(frame, plane, count, to_host=plane in host_planes)
        for plane, count in nic_count.items()
    }
    first = nic_first.get(PlaneId.BACKEND, np.full(len(group), -1, dtype=np.int64))
    _add_gpu_pcie(frame, first, back, gpus)
    return ServerNodes(
        host=host,
        gpu_first=first_gpu + np.cumsum(gpus) - gpus,
        gpu_count=gpus,
        nic_first=nic_first,
        nic_count=nic_count,
        gpu_nic=np.where(back[owner] > 0, first[owner] + nic_of, -1),
        server_group=group,
    )


def _add_scale_up(frame: _Frame) -> None:
    """Join the GPUs of each scale-up domain by a hub, or to their host where there is none."""
    start = np.concatenate(([0], np.cumsum([shape.count for shape in frame.shapes])))
    of_group = frame.group[frame.owner]
    for number, shape in enumerate(frame.shapes):
        gpu, owner = frame.gpu[of_group == number], frame.owner[of_group == number]
        if not gpu.size:
            continue
        if shape.scale_up_bps is None:
            frame.assembly.duplex(
                gpu,
                frame.host[owner],
                PCIE_ONLY_BPS,
                LinkLayer.PCIE,
                efficiency=PCIE_EFFICIENCY,
            )
            continue
        first = int(start[number])
        domains = -(-shape.count // shape.servers_per_domain)
        leader = first + np.arange(domains) * shape.servers_per_domain
        hub = frame.assembly.nodes(
            NodeKind.SCALE_UP,
            domains,
            server=leader,
            pod=frame.pod[leader],
            rack=frame.rack[leader],
            index=leader,
            latency_s=SCALE_UP_LATENCY_S,
        )
        frame.assembly.duplex(
            gpu,
            hub + (owner - first) // shape.servers_per_domain,
            shape.scale_up_bps,
            LinkLayer.SCALE_UP,
        )


def _add_nics(frame: _Frame, plane: PlaneId, count: Ints, *, to_host: bool) -> Ints:
    """Add a plane's NICs; return the first NIC node of each server."""
    pcie, latency = frame.adapters(plane)
    owner = np.repeat(np.arange(len(count)), count)
    start = np.cumsum(count) - count
    kind = frame.group[owner]
    first = frame.assembly.nodes(
        NodeKind.NIC,
        len(owner),
        plane=plane,
        server=owner,
        pod=frame.pod[owner],
        rack=frame.rack[owner],
        rail=np.arange(len(owner)) - start[owner],
        latency_s=latency[kind],
    )
    if to_host:
        frame.assembly.duplex(
            frame.host[owner],
            first + np.arange(len(owner)),
            pcie[kind],
            LinkLayer.PCIE,
        )
    return first + start


def _add_gpu_pcie(frame: _Frame, nic_first: Ints, nics: Ints, gpus: Ints) -> None:
    """Join every GPU to its nearest back-end NICs, each NIC to at least one GPU.

    With fewer NICs than GPUs several GPUs share one; with more, a GPU has several.
    """
    pcie, _ = frame.adapters(PlaneId.BACKEND)
    owner, slot = frame.owner, frame.slot
    first = slot * nics[owner] // np.maximum(1, gpus[owner])
    last = np.maximum(first + 1, (slot + 1) * nics[owner] // np.maximum(1, gpus[owner]))
    count = np.where(nics[owner] > 0, last - first, 0)
    which = np.repeat(np.arange(len(frame.gpu)), count)
    offset = np.arange(len(which)) - (np.cumsum(count) - count)[which]
    kind = frame.group[owner[which]]
    frame.assembly.duplex(
        frame.gpu[which],
        nic_first[owner[which]] + first[which] + offset,
        pcie[kind],
        LinkLayer.PCIE,
    )
