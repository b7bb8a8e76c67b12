"""Random designs of small clusters, as plain data: whatever a user may write, sensible or not.

Most are right; some ask for what cannot be (too few ports, two tiers for too many servers, a
failing algorithm): those must be answered with a sentence.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from railweave.design.models import ALGORITHMS

Strategy = st.SearchStrategy

TOPOLOGIES = (
    "star",
    "leaf-spine",
    "rail-optimized",
    "fat-tree",
    "multi-zone",
    "rail-only",
    "dual-plane-dual-tor",
    "twin-planar",
)
#: operation and algorithm; none is the operation's default
WORK = tuple(
    (operation.value, algorithm and algorithm.value)
    for operation, algorithms in ALGORITHMS.items()
    for algorithm in (None, *algorithms)
)
SPEEDS = ("100 Gb/s", "200 Gb/s", "400 Gb/s")
CONGESTION = (
    "pfc",
    "dcqcn",
    "pfc+receiver-driven",
    "pfc+hpcc",
    "nscc",
    {"ecn": "cumulus", "classes": "sonic-default"},
    {"pfc_threshold": 0.5, "headroom": "400 KiB", "watchdog": "off"},
)
SCHEMES = ("ecmp", "e-ecmp", "static", "flowlet", "adaptive", "spray", "destination")


def maybe(**fields: Strategy[Any]) -> Strategy[dict[str, Any]]:
    """Draw a mapping in which each field may be left out."""
    return st.fixed_dictionaries({}, optional=fields)


def joined(*parts: Strategy[dict[str, Any]]) -> Strategy[dict[str, Any]]:
    """Merge drawn mappings, later ones last."""
    return st.tuples(*parts).map(lambda drawn: {k: v for part in drawn for k, v in part.items()})


def switches() -> Strategy[Any]:
    """Draw an inline switch, or one for each tier, or a catalog name."""
    inline = joined(
        st.fixed_dictionaries(
            {
                "radix": st.sampled_from((4, 6, 8, 12, 16, 24, 32, 64)),
                "speed": st.sampled_from(("400 Gb/s", "800 Gb/s", "200 Gb/s")),
            }
        ),
        maybe(max_breakout=st.sampled_from((1, 2, 4, 8)), buffer=st.just("16 MB")),
    )
    tiers = joined(st.fixed_dictionaries({"leaf": inline}), maybe(spine=inline, core=inline))
    return st.one_of(
        inline, inline, tiers, st.sampled_from(("sn5600", "sn4700", "juniper-qfx5240-64od"))
    )


def backend() -> Strategy[dict[str, Any]]:
    """Draw a back-end plane."""
    ratio = st.sampled_from((0.5, 1, 1.85, 2, 3, "4:1"))
    drawn = joined(
        st.fixed_dictionaries(
            {
                "transport": st.sampled_from(("rocev2", "rocev2", "infiniband", "tcp")),
                "topology": st.sampled_from(TOPOLOGIES),
                "switch": switches(),
            }
        ),
        maybe(
            oversubscription=st.one_of(
                ratio, st.fixed_dictionaries({"leaf": ratio, "spine": ratio})
            ),
            spare_ports=st.one_of(st.integers(0, 4), maybe(leaf=st.integers(0, 3))),
            min_spines=st.integers(1, 6),
            congestion=st.sampled_from(CONGESTION),
            routing=st.one_of(
                st.sampled_from(SCHEMES),
                maybe(queue_pairs=st.integers(1, 4), seeds=st.just("equal")),
            ),
        ),
        st.one_of(
            st.just({}),
            maybe(planes=st.integers(1, 2), dual_tor=st.booleans(), tiers=st.integers(1, 3)),
            maybe(
                uplink_speed=st.sampled_from(SPEEDS),
                speed=st.sampled_from(SPEEDS),
                zone=st.integers(1, 8),
                scalable_unit=st.integers(1, 8),
                top_of_rack=st.booleans(),
                extra_hosts=st.just({"ufm": 3}),
                links_per_cable=maybe(**{"leaf-spine": st.just(2)}),
                counts=maybe(spine=st.integers(1, 8), leaf=st.integers(1, 8)),
            ),
        ),
    )
    return drawn.map(_without_strangers)


def _without_strangers(plane: dict[str, Any]) -> dict[str, Any]:
    """Drop most of what means nothing in this shape or on this transport."""
    strange: set[str] = set()
    if plane["topology"] == "star":
        strange |= {"oversubscription", "min_spines", "dual_tor", "top_of_rack", "counts", "zone"}
    if plane["topology"] in ("star", "leaf-spine", "fat-tree", "multi-zone"):
        strange |= {"scalable_unit"}
    if plane["topology"] in ("rail-only",):
        strange |= {"zone"}
    if plane["transport"] != "rocev2":
        strange |= {"routing", "congestion"}
    return {key: value for key, value in plane.items() if key not in strange}


def others() -> Strategy[dict[str, Any]]:
    """Draw the other planes."""
    plane = joined(
        st.fixed_dictionaries(
            {
                "transport": st.just("ethernet"),
                "topology": st.sampled_from(("star", "leaf-spine", "fat-tree")),
                "switch": st.just({"radix": 32, "speed": "200 Gb/s", "max_breakout": 4}),
            }
        ),
        maybe(host_links=st.integers(1, 3), dual_tor=st.booleans()),
    )
    shared = st.fixed_dictionaries({"shares": st.sampled_from(("backend", "frontend"))})
    return maybe(
        frontend=plane,
        storage=st.one_of(plane, shared),
        management=st.just({"transport": "tcp", "topology": "star", "speed": "1 Gb/s"}),
    )


def clusters() -> Strategy[dict[str, Any]]:
    """Draw the servers of a cluster: one kind or two, in racks or not."""
    server = joined(
        st.fixed_dictionaries(
            {
                "gpus": st.sampled_from((1, 2, 4, 8)),
                "nics": st.sampled_from((1, 2, 4)),
                "nic_speed": st.sampled_from(SPEEDS),
            }
        ),
        maybe(
            scale_up_bandwidth=st.just("3.6 Tb/s"),
            pcie_bandwidth=st.just("500 Gb/s"),
            frontend_nics=st.integers(0, 3),
        ),
    )
    group = st.fixed_dictionaries({"inline": server, "count": st.integers(1, 12)})
    catalog = st.fixed_dictionaries(
        {"model": st.sampled_from(("dgx-h100", "dgx-a100")), "count": st.integers(1, 4)}
    )
    named = group.map(lambda g: {**g, "name": "other"})
    return joined(
        st.fixed_dictionaries(
            {"servers": st.one_of(group, group, catalog, st.tuples(group, named).map(list))}
        ),
        maybe(
            servers_per_rack=st.integers(1, 6),
            storage_servers=joined(
                st.fixed_dictionaries({"count": st.integers(1, 4)}),
                maybe(write_bandwidth=st.just("2 GB/s"), ports=st.integers(1, 3)),
            ),
        ),
    )


def jobs() -> Strategy[list[dict[str, Any]]]:
    """Draw up to two jobs."""
    collective = joined(
        st.sampled_from(WORK).map(
            lambda pair: {"collective": pair[0]} | ({"algorithm": pair[1]} if pair[1] else {})
        ),
        st.fixed_dictionaries({"size": st.sampled_from(("1 B", "4 KiB", "1 MiB", "100 MB"))}),
        st.one_of(
            st.just({}),
            st.fixed_dictionaries({"ranks": st.integers(2, 6)}),
            st.lists(st.integers(0, 7), min_size=2, max_size=6, unique=True).map(
                lambda gpus: {"ranks": len(gpus), "placement": gpus}
            ),
            st.fixed_dictionaries(
                {"placement": st.sampled_from(("packed", "spread", "rail-aligned", "random"))}
            ),
        ),
        maybe(
            channels=st.integers(1, 3),
            iterations=st.integers(1, 2),
            start=st.just("3 us"),
            tenant=st.just("blue"),
        ),
    )
    training = joined(
        st.fixed_dictionaries(
            {
                "model": st.just("llama3-8b"),
                "parallelism": maybe(
                    tensor=st.sampled_from((1, 2, 4)),
                    pipeline=st.sampled_from((1, 2)),
                    expert=st.sampled_from((1, 2)),
                    context=st.sampled_from((1, 2)),
                ),
            }
        ),
        maybe(
            micro_batches=st.integers(1, 3),
            ranks=st.sampled_from((4, 8)),
            sequence=st.sampled_from((1024, 4096)),
            zero=st.integers(0, 3),
            recompute=st.sampled_from(("none", "selective", "full")),
        ),
    )

    def numbered(drawn: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{"name": f"job{i}", **job} for i, job in enumerate(drawn)]

    return st.lists(st.one_of(collective, collective, training), min_size=1, max_size=2).map(
        numbered
    )


def _mended(design: dict[str, Any]) -> None:
    """Change what would have the design refused in nearly every case."""
    cluster, planes = design["cluster"], design["planes"]
    groups = cluster["servers"] if isinstance(cluster["servers"], list) else [cluster["servers"]]
    if len(groups) > 1:
        groups[1]["inline"]["nics"] = groups[0]["inline"]["nics"]
    if isinstance(planes["backend"]["switch"], str):
        planes["backend"]["transport"] = "rocev2"
    if "storage" not in planes:
        cluster.pop("storage_servers", None)
    if planes.get("storage", {}).get("shares", "backend") not in planes:
        planes["storage"]["shares"] = "backend"
    for plane in planes.values():
        if plane.get("topology") == "star":
            plane.pop("dual_tor", None)
            plane.pop("host_links", None)
    if "model" not in groups[0]:
        planes["backend"].pop("planes", None)
    gpus = sum(
        group["count"] * (group["inline"]["gpus"] if "inline" in group else 8) for group in groups
    )
    design["jobs"] = [
        job
        for job in design["jobs"]
        if isinstance(job.get("ranks", 0), int) and job.get("ranks", 0) <= gpus and gpus > 1
    ]
    for job in design["jobs"]:
        placed = job.get("placement")
        if isinstance(placed, list) and max(placed) >= gpus:
            job["placement"] = list(range(len(placed)))


@st.composite
def designs(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a whole design."""
    design: dict[str, Any] = {
        "railweave": 1,
        "name": "drawn",
        "seed": draw(st.integers(0, 3)),
        "cluster": draw(clusters()),
        "planes": {"backend": draw(backend()), **draw(others())},
        "jobs": draw(jobs()),
    }
    if draw(st.integers(0, 5)):
        _mended(design)
    if any(job.get("tenant") for job in design["jobs"]):
        design["tenants"] = [{"name": "blue"}, {"name": "green"}]
    if draw(st.integers(0, 2)) == 0:
        access = ("jobs", "containers", "virtual-machines", "bare-metal")
        control = ("none", "host-firewall", "switch-acl", "microsegmentation")
        design["security"] = {
            "host_access": draw(st.sampled_from(access)),
            "access_control": draw(st.sampled_from(control)),
            "management_access": "in-band",
        }
    if "frontend" in design["planes"] and draw(st.booleans()):
        design["background"] = [
            {"name": "web", "load": draw(st.sampled_from((0.05, 0.9))), "duration": "50 us"}
        ]
    if (
        "storage" in design["planes"]
        and design["cluster"].get("storage_servers")
        and draw(st.booleans())
    ):
        design["storage_traffic"] = [
            {"name": "data", "ingest": "1 GB/s", "duration": "1 ms", "checkpoint_size": "64 MB"}
        ]
    if draw(st.integers(0, 3)) == 0:
        design["stragglers"] = [{"gpu": draw(st.integers(0, 7)), "delay": "10 us"}]
    if draw(st.integers(0, 3)) == 0:
        design["objectives"] = {
            "survive_switches": 1,
            "survive_links": 2,
            "min_bandwidth": 0.5,
            "availability": 0.999,
        }
    return design
