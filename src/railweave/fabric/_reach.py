"""Who is cut off: GPUs, servers and host links without a way into the rest of their plane."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from railweave.fabric._arrays import Fabric, LinkLayer, NodeKind, PlaneId
from railweave.fabric._network import SwitchNetwork, switch_network

__all__ = ["CutOff", "Reach", "reach"]

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class CutOff:
    """What is cut off: GPU nodes, server numbers, and host capacity against the intact plane.

    A GPU is cut off when none of its own NICs has a way; it may still send through other GPUs of
    its server. A server is cut off when none of its links has one.
    """

    gpus: I32
    servers: I32
    host_bps: float
    host_bps_lost: float


@dataclass(frozen=True, eq=False)
class Reach:
    """A plane's attachments, prepared once from the intact fabric.

    Switches that belong together when nothing has failed are a *part* (planes that are not joined
    are several). What remains of a part is its fragment with the most live host links, ties going
    to the lowest switch; whoever hangs on another fragment is cut off.
    """

    network: SwitchNetwork
    part: I64  #: (n,) part of each switch
    n_nodes: int
    gpu: I32  #: GPU nodes
    pair_gpu: I64  #: GPU – NIC pairs within servers, as places in ``gpu``
    pair_nic: I64
    pair_duplex: I64
    gpu_server: I64
    host_server: I64  #: (H,) server of each host link, −1 for others

    def live_ports(self, link_up: Bool) -> Bool:
        """Tell for each host link (H,) whether it is up and ends in what remains of its part."""
        network = self.network
        up: Bool = link_up[2 * network.host_duplex]
        fragment = network.fragments(link_up)
        count = int(fragment.max(initial=-1)) + 1
        hosts = np.bincount(fragment[network.host_switch], weights=up, minlength=count)
        lead = np.full(count, network.n, dtype=np.int64)
        np.minimum.at(lead, fragment, np.arange(network.n))
        part_of = self.part[lead]
        order = np.lexsort((lead, -hosts, part_of))
        first = np.ones(count, dtype=np.bool_)
        first[1:] = part_of[order][1:] != part_of[order][:-1]
        remains = np.zeros(count, dtype=np.bool_)
        remains[order[first]] = True
        live: Bool = up & remains[fragment[network.host_switch]]
        return live

    def cut_off(self, link_up: Bool) -> CutOff:
        """Return who is cut off with these links up."""
        live = self.live_ports(link_up)
        network = self.network
        node_live = np.zeros(self.n_nodes, dtype=np.bool_)
        node_live[network.host_node[live]] = True
        pair_live = node_live[self.pair_nic] & link_up[2 * self.pair_duplex]
        gpu_live = node_live[self.gpu]
        gpu_live[self.pair_gpu[pair_live]] = True
        size = int(max(self.host_server.max(initial=-1), self.gpu_server.max(initial=-1))) + 1
        has, lives = np.zeros(size, dtype=np.bool_), np.zeros(size, dtype=np.bool_)
        has[self.host_server[self.host_server >= 0]] = True
        lives[self.host_server[live & (self.host_server >= 0)]] = True
        paired = np.zeros(len(self.gpu), dtype=np.bool_)
        paired[self.pair_gpu] = True
        paired |= np.isin(self.gpu, network.host_node)
        by_server = ~paired & (self.gpu_server >= 0)
        gpu_live[by_server] = (lives | ~has)[self.gpu_server[by_server]]
        return CutOff(
            gpus=self.gpu[~gpu_live & (paired | by_server)],
            servers=np.flatnonzero(has & ~lives).astype(np.int32),
            host_bps=float(network.host_bps[live].sum()),
            host_bps_lost=float(network.host_bps[~live].sum()),
        )


def reach(fabric: Fabric, plane: PlaneId, network: SwitchNetwork | None = None) -> Reach:
    """Prepare a plane's attachments from the intact fabric."""
    network = network or switch_network(fabric, plane)
    gpu = fabric.gpus
    place = np.full(fabric.n_nodes, -1, dtype=np.int64)
    place[gpu] = np.arange(len(gpu))
    a, b = fabric.link_src[::2].astype(np.int64), fabric.link_dst[::2].astype(np.int64)
    attached = np.zeros(fabric.n_nodes, dtype=np.bool_)
    attached[network.host_node] = True
    inside = fabric.link_layer[::2] == LinkLayer.PCIE
    is_gpu = fabric.node_kind == NodeKind.GPU
    forward = np.flatnonzero(inside & is_gpu[a] & attached[b])
    backward = np.flatnonzero(inside & is_gpu[b] & attached[a])
    server = fabric.node_server[network.host_node].astype(np.int64)
    return Reach(
        network=network,
        part=network.fragments(np.ones(fabric.n_links, dtype=np.bool_)),
        n_nodes=fabric.n_nodes,
        gpu=gpu,
        pair_gpu=place[np.concatenate((a[forward], b[backward]))],
        pair_nic=np.concatenate((b[forward], a[backward])),
        pair_duplex=np.concatenate((forward, backward)),
        gpu_server=fabric.node_server[gpu].astype(np.int64),
        host_server=server,
    )
