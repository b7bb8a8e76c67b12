"""Systems for tests of the collective model."""

from __future__ import annotations

from railweave.predict.system import CollectiveSystem


def system(domains=1, each=8, **changes) -> CollectiveSystem:
    """An H100 cluster over InfiniBand; GPUs alone in their domain have a NIC each."""
    given = {
        "generation": "hopper",
        "domains": domains,
        "ranks_per_domain": each,
        "scale_up": "nvlink",
        "scale_up_Bps": 450e9,
        "network": "infiniband" if domains > 1 else "none",
        "nics_per_domain": each if domains > 1 else 0,
        "nic_Bps": 50e9,
        "multicast": each > 1,
    }
    return CollectiveSystem(**{**given, **changes})


def amd(domains=1, **changes) -> CollectiveSystem:
    """An MI300X cluster over RoCE."""
    given = {
        "generation": "cdna3",
        "scale_up": "xgmi",
        "scale_up_Bps": 448e9,
        "network": "rocev2" if domains > 1 else "none",
        "multicast": False,
    }
    return system(domains, **{**given, **changes})
