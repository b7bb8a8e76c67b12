"""What the fields of planes and their routing do."""

from __future__ import annotations

from _effect import ALL_PLANES, BE, DROP, Effect, choices, other

_NETWORK = [
    Effect("Planes.backend", "roce", {f"{BE}.topology": "leaf-spine"}, "links"),
    *(
        Effect(
            f"Planes.{name}",
            "four-planes",
            {f"planes.{name}": DROP},
            "counts",
            {"background": [], "storage_traffic": [], "cluster.storage_servers": DROP},
        )
        for name in ALL_PLANES[1:]
    ),
    Effect("Plane.shares", "four-planes", {"planes.storage": {"shares": "frontend"}}, "counts"),
    Effect(
        "Plane.shares=backend",
        "four-planes",
        {"planes.storage.shares": "backend"},
        "time",
        {"planes.storage": {"shares": "frontend"}},
    ),
    Effect(
        "Plane.shares=frontend",
        "four-planes",
        {"planes.storage.shares": "frontend"},
        "time",
        {"planes.storage": {"shares": "backend"}},
    ),
    Effect(
        "Plane.shares=storage",
        "four-planes",
        {"planes.frontend.shares": "storage"},
        "time",
        {"planes.frontend": {"shares": "backend"}},
    ),
    Effect(
        "Plane.shares=management",
        "four-planes",
        {"planes.frontend.shares": "management"},
        "time",
        {"planes.frontend": {"shares": "backend"}},
    ),
    Effect("Plane.transport", "leaf-spine", {f"{BE}.transport": "tcp"}, "time"),
    *choices(
        "Plane.transport",
        "leaf-spine",
        f"{BE}.transport",
        "time",
        other(("infiniband", "rocev2", "tcp")),
    ),
    Effect("Plane.topology", "roce", {f"{BE}.topology": "fat-tree"}, "links"),
    *choices(
        "Plane.topology",
        "roce",
        f"{BE}.topology",
        "links",
        {
            "star": "leaf-spine",
            "leaf-spine": "rail-optimized",
            "rail-optimized": "leaf-spine",
            "fat-tree": "rail-optimized",
            "multi-zone": "leaf-spine",
            "rail-only": "rail-optimized",
            "dual-plane-dual-tor": "rail-optimized",
            "twin-planar": "rail-optimized",
        },
        before={f"{BE}.switch.radix": 64, "cluster.servers_per_rack": 2},
    ),
    Effect(
        "Plane.topology=graph",
        "leaf-spine",
        {f"{BE}.topology": "graph", f"{BE}.graph": "graph.yaml", f"{BE}.switch": DROP},
        "links",
    ),
    Effect(
        "Plane.graph",
        "leaf-spine",
        {f"{BE}.graph": "graph-slow.yaml"},
        "links",
        {f"{BE}.topology": "graph", f"{BE}.graph": "graph.yaml", f"{BE}.switch": DROP},
    ),
    Effect("Plane.speed", "leaf-spine", {f"{BE}.speed": "200 Gb/s"}, "links"),
    Effect("Plane.uplink_speed", "leaf-spine", {f"{BE}.uplink_speed": "200 Gb/s"}, "links"),
    Effect("Plane.host_links", "frontend", {"planes.frontend.host_links": 1}, "links"),
    Effect(
        "Plane.tiers",
        "fat-tree",
        {f"{BE}.tiers": 3},
        "counts",
        {f"{BE}.tiers": DROP, f"{BE}.switch.radix": 32},
    ),
    Effect("Plane.oversubscription", "leaf-spine", {f"{BE}.oversubscription": 3}, "capacity"),
    Effect("TierRatios.leaf", "leaf-spine", {f"{BE}.oversubscription": {"leaf": 3}}, "capacity"),
    Effect("TierRatios.spine", "fat-tree", {f"{BE}.oversubscription": {"spine": 3}}, "capacity"),
    Effect("Plane.scalable_unit", "roce", {f"{BE}.scalable_unit": 4}, "links"),
    Effect("Plane.zone", "multi-zone", {f"{BE}.zone": 4}, "links"),
    Effect(
        "Plane.top_of_rack",
        "leaf-spine",
        {f"{BE}.top_of_rack": True},
        "counts",
        {"cluster.servers_per_rack": 1},
    ),
    *choices(
        "Plane.top_of_rack",
        "leaf-spine",
        f"{BE}.top_of_rack",
        "counts",
        {"true": False, "false": True},
        before={"cluster.servers_per_rack": 1},
    ),
    Effect("Plane.dual_tor", "frontend", {"planes.frontend.dual_tor": True}, "links"),
    *choices(
        "Plane.dual_tor",
        "frontend",
        "planes.frontend.dual_tor",
        "links",
        {"true": False, "false": True},
    ),
    Effect("Plane.planes", "leaf-spine", {f"{BE}.planes": 2}, "links"),
    Effect(
        "Plane.spare_ports",
        "leaf-spine",
        {f"{BE}.spare_ports": 2},
        "counts",
        {f"{BE}.switch.radix": 16},
    ),
    Effect("TierPorts.leaf", "leaf-spine", {f"{BE}.spare_ports": {"leaf": 2}}, "capacity"),
    Effect("TierPorts.spine", "leaf-spine", {f"{BE}.spare_ports": {"spine": 2}}, "counts"),
    Effect("Plane.min_spines", "roce", {f"{BE}.min_spines": 8}, "counts"),
    Effect("Plane.counts", "roce", {f"{BE}.counts": {"spine": 8}}, "counts"),
    Effect("TierCounts.leaf", "roce", {f"{BE}.counts": {"leaf": 12}}, "counts"),
    Effect("TierCounts.spine", "roce", {f"{BE}.counts": {"spine": 8}}, "counts"),
    Effect("TierCounts.core", "fat-tree", {f"{BE}.counts": {"core": 1}}, "builds"),
    Effect(
        "Plane.extra_hosts",
        "roce",
        {f"{BE}.extra_hosts": {"ufm": 4}},
        "counts",
        {"cluster.servers.count": 14},
    ),
    Effect("Plane.links_per_cable", "roce", {f"{BE}.links_per_cable": {"leaf-spine": 2}}, "cables"),
    Effect(
        "LinksPerCable.host_leaf", "roce", {f"{BE}.links_per_cable": {"host-leaf": 2}}, "cables"
    ),
    Effect(
        "LinksPerCable.leaf_spine", "roce", {f"{BE}.links_per_cable": {"leaf-spine": 2}}, "cables"
    ),
    Effect(
        "LinksPerCable.spine_core",
        "fat-tree",
        {f"{BE}.links_per_cable": {"spine-core": 2}},
        "cables",
        {f"{BE}.switch.radix": 16},
    ),
    Effect("Plane.mtu", "roce", {f"{BE}.mtu": "1024 B"}, "time"),
    Effect("Plane.isolation", "tenants", {f"{BE}.isolation": "vrf"}, "findings"),
    *choices(
        "Plane.isolation",
        "tenants",
        f"{BE}.isolation",
        "findings",
        other(("none", "vlan", "vrf", "vxlan-evpn")),
    ),
    Effect(
        "Plane.isolation=pkey",
        "tenants",
        {f"{BE}.isolation": "pkey"},
        "findings",
        {f"{BE}.transport": "infiniband", f"{BE}.isolation": "none"},
    ),
    Effect("Plane.encryption_required", "roce", {f"{BE}.encryption_required": True}, "findings"),
    *choices(
        "Plane.encryption_required",
        "roce",
        f"{BE}.encryption_required",
        "findings",
        {"true": False, "false": True},
    ),
    Effect(
        "Plane.encryption",
        "roce",
        {f"{BE}.encryption": "macsec"},
        "time",
        {f"{BE}.encryption_required": True},
    ),
    *choices(
        "Plane.encryption",
        "tcp",
        f"{BE}.encryption",
        "time",
        other(("none", "macsec", "ipsec", "psp", "tls")),
        before={f"{BE}.encryption_required": True},
    ),
]

_ROUTING = [
    Effect("Plane.routing", "pairs", {f"{BE}.routing.scheme": "spray"}, "time"),
    Effect("RoutingSpec.scheme", "pairs", {f"{BE}.routing.scheme": "static"}, "time"),
    *choices(
        "RoutingSpec.scheme",
        "pairs",
        f"{BE}.routing.scheme",
        "time",
        {
            "ecmp": "spray",
            "e-ecmp": "ecmp",
            "static": "ecmp",
            "flowlet": "ecmp",
            "adaptive": "ecmp",
            "spray": "ecmp",
            "destination": "ecmp",
        },
        before={f"{BE}.routing.queue_pairs": 4},
    ),
    Effect(
        "RoutingSpec.scheme=table",
        "pairs",
        {f"{BE}.routing": {"scheme": "table", "table": "table.csv"}},
        "time",
    ),
    Effect(
        "RoutingSpec.table",
        "pairs",
        {f"{BE}.routing.table": "table-other.csv"},
        "time",
        {f"{BE}.routing": {"scheme": "table", "table": "table.csv"}},
    ),
    Effect("RoutingSpec.hash", "pairs", {f"{BE}.routing.hash": "crc16"}, "time"),
    *choices(
        "RoutingSpec.hash",
        "pairs",
        f"{BE}.routing.hash",
        "time",
        other(("crc16", "crc32", "xor")),
    ),
    Effect("RoutingSpec.fields", "pairs", {f"{BE}.routing.fields": ["src-ip", "dst-ip"]}, "time"),
    *(
        Effect(
            f"RoutingSpec.fields={name}",
            "pairs",
            {f"{BE}.routing.fields": [*kept, name]},
            "time",
            {f"{BE}.routing.fields": kept},
        )
        for name, kept in (
            ("src-ip", ["dst-ip"]),
            ("dst-ip", ["src-ip"]),
            ("protocol", ["src-ip", "dst-ip"]),
            ("src-port", ["src-ip", "dst-ip"]),
            ("dst-port", ["src-ip", "dst-ip"]),
        )
    ),
    Effect(
        "RoutingSpec.seeds",
        "fat-tree",
        {f"{BE}.routing.seeds": "equal"},
        "time",
        {"jobs.0.collective": "all-to-all"},
    ),
    *choices(
        "RoutingSpec.seeds",
        "fat-tree",
        f"{BE}.routing.seeds",
        "time",
        other(("per-switch", "equal")),
        before={"jobs.0.collective": "all-to-all"},
    ),
    Effect("RoutingSpec.queue_pairs", "pairs", {f"{BE}.routing.queue_pairs": 8}, "time"),
    Effect(
        "RoutingSpec.flowlets",
        "pairs",
        {f"{BE}.routing.flowlets": 2},
        "time",
        {f"{BE}.routing.scheme": "flowlet"},
    ),
]

#: all entries of this file
NETWORK_EFFECTS = (
    *_NETWORK,
    *_ROUTING,
)
