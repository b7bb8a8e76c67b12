"""The network that the closed forms of collectives speak of, for the engines: and one slow rank."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from railweave.design.models import Algorithm, Collective, Transport
from railweave.errors import InputError
from railweave.fabric import Fabric, LinkLayer, NodeKind, PlaneId
from railweave.fabric.routing import RoutingSet, compile_routing
from railweave.fabric.small import star
from railweave.workload import CollectiveOptions, Communicator, Traffic, collective_traffic
from railweave.workload._communicator import gpu_nic

__all__ = ["IdealNetwork", "SlowRank", "ideal_network"]


@dataclass(frozen=True, slots=True)
class SlowRank:
    """One rank that is slower than the others.

    ``link_share`` is the part of its network links' speed that is left, both ways; ``delay_s`` what
    it waits before each message that it sends.

    Raises:
        InputError: a share outside 0…1, a delay below 0, or a rank below 0.
    """

    rank: int
    link_share: float = 1.0
    delay_s: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.link_share <= 1:
            raise InputError(
                f"slow rank: link at {self.link_share:g} of its speed; allowed: above 0, at most 1"
            )
        if not 0 <= self.delay_s < float("inf"):
            raise InputError(f"slow rank: delay {self.delay_s:g} s; allowed: 0 or more")
        if self.rank < 0:
            raise InputError(f"slow rank: {self.rank} is no rank; they count from 0")

    def apply(self, fabric: Fabric, traffic: Traffic, comm: Communicator) -> tuple[Fabric, Traffic]:
        """Return the fabric and the traffic with this rank slow.

        Raises:
            InputError: a rank that does not exist.
        """
        if self.rank >= comm.n:
            raise InputError(f"slow rank: {self.rank} is no rank; allowed: 0…{comm.n - 1}")
        node = int(comm.nodes[self.rank])
        if self.delay_s > 0:
            late = np.where(traffic.src == node, self.delay_s, 0.0)
            traffic = replace(traffic, chunk_delay_s=traffic.chunk_delay_s + late)
        if self.link_share < 1:
            nic = node if fabric.node_kind[node] == NodeKind.NIC else int(gpu_nic(fabric)[node])
            mine = (fabric.link_src == nic) | (fabric.link_dst == nic)
            mine &= fabric.link_layer != LinkLayer.PCIE
            capacity = np.where(mine, self.link_share, 1.0) * fabric.link_capacity_bps
            fabric = replace(fabric, link_capacity_bps=capacity)
        return fabric, traffic


@dataclass(frozen=True, eq=False)
class IdealNetwork:
    """Ranks on one switch, and what is needed to run a collective over them."""

    fabric: Fabric
    routing: RoutingSet
    comm: Communicator

    def traffic(
        self,
        op: Collective,
        algorithm: Algorithm | None,
        size_bytes: float,
        options: CollectiveOptions | None = None,
    ) -> Traffic:
        """Return a collective's traffic over all ranks; raises InputError as that does."""
        return collective_traffic(op, self.comm, size_bytes, algorithm=algorithm, options=options)


def ideal_network(
    ranks: int, bandwidth_bps: float, latency_s: float = 0.0, *, ranks_per_server: int = 1
) -> IdealNetwork:
    """Return the network of :func:`railweave.engine.analytic.collective_time`, to simulate on.

    Every rank has a full-duplex link of its own to a switch that takes ``latency_s`` for a message;
    nothing else does. Messages count RoCEv2 headers, which the closed forms do not. Servers are
    groups of ranks that hierarchical and rail-aligned algorithms work by: inside them links are as
    fast as between them.

    Raises:
        InputError: fewer than 2 ranks, no bandwidth, or ranks that do not fill the servers.
    """
    if ranks < 2 or not bandwidth_bps > 0 or latency_s < 0:
        raise InputError(
            f"{ranks} ranks at {bandwidth_bps:g} b/s and {latency_s:g} s are not allowed; give 2 "
            "ranks or more, a bandwidth above 0 and a latency of 0 or more"
        )
    if ranks_per_server < 1 or ranks % ranks_per_server:
        raise InputError(
            f"ranks: {ranks} do not fill servers of {ranks_per_server}; allowed: a multiple of it"
        )
    fabric = star(
        ranks, bandwidth_bps, length_m=0.0, switch_latency_s=latency_s, host_latency_s=0.0
    )
    routing = compile_routing(fabric, PlaneId.BACKEND, None, Transport.ROCEV2, 0)
    comm = Communicator.flat(ranks)
    if ranks_per_server > 1:
        comm = Communicator.grid(ranks // ranks_per_server, ranks_per_server)
    return IdealNetwork(fabric, RoutingSet.of(routing), comm)
