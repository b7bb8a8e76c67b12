"""What the fields of the design, its cluster and its switches do."""

from __future__ import annotations

from _effect import BE, BIG_SWITCH, DROP, FRONTEND, INLINE, JOB, LEAF_SWITCH, Effect

_TOP = [
    Effect("Design.railweave", "roce", {"railweave": 2}, "accepts"),
    Effect("Design.name", "roce", {"name": "other"}, "report"),
    Effect("Design.description", "roce", {"description": "Two racks for a trial."}, "report"),
    Effect("Design.seed", "pairs", {"seed": 7}, "time"),
    Effect(
        "Design.catalog",
        "catalog",
        {"catalog": ["own-catalog.yaml"]},
        "accepts",
        {"planes.backend.switch": "own-switch"},
    ),
    Effect("Design.cluster", "roce", {"cluster.servers.count": 8}, "counts"),
    Effect("Design.planes", "roce", {"planes.frontend": FRONTEND}, "counts"),
    Effect("Design.jobs", "roce", {"jobs": []}, "traffic"),
    Effect("Design.background", "frontend", {"background": []}, "traffic"),
    Effect("Design.storage_traffic", "four-planes", {"storage_traffic": []}, "traffic"),
    Effect("Design.stragglers", "roce", {"stragglers": [{"gpu": 3, "delay": "1 ms"}]}, "time"),
    Effect("Design.facility", "roce", {"facility.rack_power": "9 kW"}, "findings"),
    Effect("Design.tenants", "roce", {"tenants": [{"name": "a"}, {"name": "b"}]}, "findings"),
    Effect(
        "Design.objectives",
        "roce",
        {"objectives": {"survive_switches": 1, "min_bandwidth": 1.0}},
        "findings",
    ),
    Effect("Design.software", "roce", {"software.nccl": "2.10"}, "findings"),
    Effect(
        "Design.services",
        "infiniband",
        {"services": [{"kind": "subnet-manager", "plane": "backend"}]},
        "findings",
    ),
]

_CLUSTER = [
    Effect("Cluster.servers", "roce", {"cluster.servers.count": 8}, "counts"),
    Effect(
        "Cluster.gpus",
        "roce",
        {"cluster.gpus": 32},
        "counts",
        {"cluster.servers.count": DROP, "cluster.gpus": 64},
    ),
    Effect("Cluster.servers_per_rack", "roce", {"cluster.servers_per_rack": 2}, "racks"),
    Effect(
        "Cluster.racks", "roce", {"cluster.racks": 3}, "accepts", {"cluster.servers_per_rack": 4}
    ),
    Effect(
        "Cluster.storage_servers",
        "four-planes",
        {"cluster.storage_servers": DROP},
        "counts",
        {"storage_traffic": []},
    ),
    Effect("ServerGroup.model", "catalog", {"cluster.servers.model": "dgx-b200"}, "power"),
    Effect("ServerGroup.inline", "roce", {f"{INLINE}.gpus": 8}, "counts"),
    Effect("ServerGroup.count", "roce", {"cluster.servers.count": 15}, "counts"),
    Effect("ServerGroup.nics", "roce", {"cluster.servers.nics": 2}, "counts"),
    Effect(
        "ServerGroup.nic_speed", "leaf-spine", {"cluster.servers.nic_speed": "200 Gb/s"}, "links"
    ),
    Effect("ServerGroup.name", "roce", {"cluster.servers.name": "trainer"}, "names"),
    Effect("StorageServers.count", "four-planes", {"cluster.storage_servers.count": 3}, "counts"),
    Effect("StorageServers.ports", "four-planes", {"cluster.storage_servers.ports": 1}, "links"),
    Effect(
        "StorageServers.speed",
        "four-planes",
        {"cluster.storage_servers.speed": "100 Gb/s"},
        "links",
    ),
    Effect(
        "StorageServers.write_bandwidth",
        "four-planes",
        {"cluster.storage_servers.write_bandwidth": "1 GB/s"},
        "storage",
    ),
    Effect(
        "StorageServers.read_bandwidth",
        "four-planes",
        {"cluster.storage_servers.read_bandwidth": "1 GB/s"},
        "findings",
    ),
    Effect("InlineServer.gpus", "roce", {f"{INLINE}.gpus": 8}, "counts"),
    Effect(
        "InlineServer.gpu",
        "training",
        {f"{INLINE}.gpu": "a100-40g"},
        "findings",
        {f"{JOB}.model": "llama3-70b"},
    ),
    Effect(
        "InlineServer.scale_up_bandwidth",
        "roce",
        {f"{INLINE}.scale_up_bandwidth": "1 Tb/s"},
        "links",
    ),
    Effect("InlineServer.nics", "roce", {f"{INLINE}.nics": 2}, "counts"),
    Effect("InlineServer.nic_speed", "leaf-spine", {f"{INLINE}.nic_speed": "200 Gb/s"}, "links"),
    Effect("InlineServer.pcie_bandwidth", "roce", {f"{INLINE}.pcie_bandwidth": "200 Gb/s"}, "time"),
    Effect("InlineServer.frontend_nics", "frontend", {f"{INLINE}.frontend_nics": 4}, "counts"),
    Effect(
        "InlineServer.frontend_speed",
        "frontend",
        {f"{INLINE}.frontend_speed": "100 Gb/s"},
        "links",
    ),
    Effect("InlineServer.power", "roce", {f"{INLINE}.power": "5 kW"}, "power"),
]

_SWITCHES = [
    Effect("Plane.switch", "leaf-spine", {f"{BE}.switch": BIG_SWITCH}, "counts"),
    Effect("InlineSwitch.radix", "leaf-spine", {f"{BE}.switch.radix": 32}, "counts"),
    Effect("InlineSwitch.speed", "leaf-spine", {f"{BE}.switch.speed": "800 Gb/s"}, "capacity"),
    Effect(
        "InlineSwitch.max_breakout",
        "leaf-spine",
        {f"{BE}.switch.max_breakout": 4},
        "counts",
        {"cluster.servers.nic_speed": "100 Gb/s"},
    ),
    Effect("InlineSwitch.power", "roce", {f"{BE}.switch.power": "900 W"}, "power"),
    Effect("InlineSwitch.latency", "roce", {f"{BE}.switch.latency": "2 us"}, "links"),
    Effect(
        "TierSwitches.leaf",
        "leaf-spine",
        {f"{BE}.switch.leaf": BIG_SWITCH},
        "counts",
        {f"{BE}.switch": {"leaf": LEAF_SWITCH, "spine": LEAF_SWITCH}},
    ),
    Effect("InlineSwitch.buffer", "roce", {f"{BE}.switch.buffer": "100 kB"}, "findings"),
    Effect(
        "TierSwitches.spine",
        "leaf-spine",
        {f"{BE}.switch.spine": BIG_SWITCH},
        "counts",
        {f"{BE}.switch": {"leaf": LEAF_SWITCH}},
    ),
    Effect(
        "TierSwitches.core",
        "fat-tree",
        {f"{BE}.switch.core": BIG_SWITCH},
        "counts",
        {f"{BE}.switch": {"leaf": {"radix": 8, "speed": "400 Gb/s"}}},
    ),
]

#: all entries of this file
CLUSTER_EFFECTS = (
    *_TOP,
    *_CLUSTER,
    *_SWITCHES,
)
