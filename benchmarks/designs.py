"""Fabrics that the benchmarks share."""

from __future__ import annotations

import resource
from functools import cache

import numpy as np

from railweave.catalog import default_catalog
from railweave.design.models import Design
from railweave.fabric import BuiltFabric, Fabric, LinkLayer, PlaneId, build_fabric


def design(servers: int, topology: str = "leaf-spine") -> Design:
    """Servers with eight GPUs and eight 400G NICs on 64-port switches, non-blocking."""
    inline = {
        "gpus": 8,
        "nics": 8,
        "nic_speed": "400 Gb/s",
        "scale_up_bandwidth": "450 GB/s",
        "pcie_bandwidth": "504 Gb/s",
    }
    backend = {
        "transport": "rocev2",
        "topology": topology,
        "switch": {"radix": 64, "speed": "400 Gb/s"},
    }
    return Design.model_validate(
        {
            "railweave": 1,
            "name": f"bench-{servers}",
            "cluster": {"servers": [{"inline": inline, "count": servers}]},
            "planes": {"backend": backend},
        }
    )


@cache
def built(servers: int, topology: str = "leaf-spine") -> BuiltFabric:
    """Build once for all benchmarks of a process."""
    return build_fabric(design(servers, topology), default_catalog())


def nic_link(fabric: Fabric, number: int) -> int:
    """Return the duplex number of a back-end NIC's link to its leaf."""
    nic = fabric.nics(PlaneId.BACKEND)[number]
    mine = (fabric.link_src == nic) & (fabric.link_layer == LinkLayer.HOST_LEAF)
    return int(np.flatnonzero(mine)[0]) // 2


def peak_mib() -> float:
    """Return the highest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
