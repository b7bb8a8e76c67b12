"""General-purpose traffic: many short flows between random hosts, with heavy-tailed sizes.

The size distributions follow the shapes published for a web-search cluster (Alizadeh et al.,
"Data center TCP", SIGCOMM 2010) and a data-mining cluster (Greenberg et al., "VL2", SIGCOMM 2009).
Their tables here are recalled and rounded, not copied from the papers' data: *estimated*.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from railweave.design.models import BackgroundTraffic
from railweave.errors import InputError
from railweave.fabric import Fabric, LinkLayer, NodeKind, PlaneId
from railweave.fabric._random import stream as random_stream
from railweave.provenance import Assumption, Certainty
from railweave.workload._builder import TrafficBuilder
from railweave.workload._traffic import Traffic

__all__ = ["SIZE_TABLES", "SizeTable", "background_traffic", "host_rates", "poisson_flows"]

I32 = npt.NDArray[np.int32]
F64 = npt.NDArray[np.float64]

MOST_FLOWS: Final = 5_000_000


@dataclass(frozen=True, slots=True)
class SizeTable:
    """A distribution of flow sizes: points (size, share of flows up to it), linear between them."""

    name: str
    sizes_bytes: tuple[float, ...]
    shares: tuple[float, ...]
    assumption: Assumption

    @property
    def mean_bytes(self) -> float:
        """Mean of the piecewise linear distribution."""
        sizes, shares = np.array(self.sizes_bytes), np.array(self.shares)
        return float(np.sum(np.diff(shares) * (sizes[1:] + sizes[:-1]) / 2))

    def sizes(self, uniform: F64) -> F64:
        """Return sizes for uniform numbers in [0, 1): whole bytes, at least 1."""
        drawn: F64 = np.maximum(1.0, np.rint(np.interp(uniform, self.shares, self.sizes_bytes)))
        return drawn


def _recalled(name: str, text: str) -> Assumption:
    return Assumption(
        f"flow sizes {name}", f"{text}; points recalled and rounded", Certainty.ESTIMATED
    )


#: flow-size distributions by name
SIZE_TABLES: Final[dict[str, SizeTable]] = {
    "web-search": SizeTable(
        "web-search",
        (1e3, 1e4, 2e4, 3e4, 5e4, 8e4, 2e5, 1e6, 2e6, 5e6, 1e7, 3e7),
        (0.0, 0.15, 0.20, 0.30, 0.40, 0.53, 0.60, 0.70, 0.80, 0.90, 0.97, 1.0),
        _recalled("web-search", "shape of the web-search cluster of the DCTCP paper, 2010"),
    ),
    "data-mining": SizeTable(
        "data-mining",
        (1e2, 1e3, 2e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9),
        (0.0, 0.50, 0.60, 0.78, 0.83, 0.90, 0.95, 0.98, 1.0),
        _recalled("data-mining", "shape of the data-mining cluster of the VL2 paper, 2009"),
    ),
}


def host_rates(fabric: Fabric, plane: PlaneId) -> tuple[I32, F64]:
    """Return (nodes, bit/s) of the servers on a plane: their host, else first GPU, and link rate.

    The rate is of all live links of the server into the plane, one way.
    """
    links = np.flatnonzero(
        (fabric.link_layer == LinkLayer.HOST_LEAF)
        & (fabric.link_plane == plane)
        & fabric.link_up
        & (fabric.node_kind[fabric.link_src] != NodeKind.SWITCH)
        & (fabric.node_server[fabric.link_src] >= 0)
    )
    server = fabric.node_server[fabric.link_src[links]]
    rate = np.bincount(server, fabric.link_capacity_bps[links]).astype(np.float64)
    node = np.full(len(rate), -1, dtype=np.int32)
    for kind in (NodeKind.GPU, NodeKind.HOST):  # hosts overwrite, the lowest number stays
        found = np.flatnonzero(fabric.node_kind == kind)[::-1]
        found = found[(fabric.node_server[found] >= 0) & (fabric.node_server[found] < len(rate))]
        node[fabric.node_server[found]] = found
    there = np.flatnonzero((rate > 0) & (node >= 0))
    return node[there], rate[there]


def poisson_flows(
    fabric: Fabric,
    plane: PlaneId,
    load: float,
    sizes: SizeTable | float,
    duration_s: float,
    *,
    start_s: float = 0.0,
    seed: int = 0,
    name: str = "background",
    network: PlaneId | None = None,
) -> Traffic:
    """Return flows that arrive as a Poisson process between random pairs of servers.

    Every flow is a plain task with a connection of its own, so that it has its own source port.

    Args:
        fabric: where the hosts are.
        plane: plane of the traffic.
        load: share of the hosts' link capacity offered, payload over line rate.
        sizes: a distribution, or one size in bytes.
        duration_s: how long flows keep arriving.
        start_s: when the first may arrive.
        seed: with ``name`` it fixes arrivals, pairs and sizes.
        name: label and random stream.
        network: plane whose links carry it, where ``plane`` shares another one's.

    Raises:
        InputError: fewer than two hosts on the plane, or more than five million flows.
    """
    nodes, rate = host_rates(fabric, plane if network is None else network)
    builder = TrafficBuilder(plane=int(plane))
    if len(nodes) < 2:
        raise InputError(
            f"background {name}: the {plane.name.lower()} plane has {len(nodes)} servers; "
            "allowed: a plane with two or more"
        )
    mean = sizes.mean_bytes if isinstance(sizes, SizeTable) else float(sizes)
    arrivals_per_s = load * float(rate.sum()) / (8.0 * mean)
    expected = arrivals_per_s * duration_s
    if expected > MOST_FLOWS:
        raise InputError(
            f"background {name}: about {expected:.3g} flows; allowed: {MOST_FLOWS:,}; "
            f"shorten its duration to {duration_s * MOST_FLOWS / expected:.3g} s or lower its load"
        )
    count = int(random_stream(seed, f"{name}/count").poisson(expected))
    arrival = np.sort(random_stream(seed, f"{name}/arrivals").uniform(0.0, duration_s, count))
    pairs = random_stream(seed, f"{name}/pairs")
    share = rate / rate.sum()  # a server with faster links sends and receives more
    src = pairs.choice(len(nodes), count, p=share)
    dst = pairs.choice(len(nodes), count, p=share)
    while (same := np.flatnonzero(src == dst)).size:
        dst[same] = pairs.choice(len(nodes), same.size, p=share)
    drawn: F64 = np.full(count, mean)
    if isinstance(sizes, SizeTable):
        drawn = sizes.sizes(random_stream(seed, f"{name}/sizes").random(count))
    builder.plain_tasks(
        nodes[src],
        nodes[dst],
        drawn,
        label=name,
        start_s=start_s + arrival,
        connection=np.arange(count),
    )
    return builder.build()


def background_traffic(
    spec: BackgroundTraffic, fabric: Fabric, *, seed: int = 0, network: PlaneId | None = None
) -> Traffic:
    """Return the traffic of one ``background`` entry of a design; see :func:`poisson_flows`."""
    sizes = SIZE_TABLES[spec.sizes] if isinstance(spec.sizes, str) else float(spec.sizes)
    return poisson_flows(
        fabric,
        PlaneId[spec.plane.name],
        spec.load,
        sizes,
        spec.duration,
        start_s=spec.start,
        seed=seed,
        name=spec.name,
        network=network,
    )
