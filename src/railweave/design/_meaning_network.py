"""Checks of what a design says of its planes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from railweave.design._context import Context
from railweave.design._facts import ServerFacts, SwitchFacts
from railweave.design.models import (
    CongestionName,
    Plane,
    PlaneName,
    RoutingScheme,
    RoutingSpec,
    Topology,
    Transport,
)
from railweave.errors import Problem
from railweave.formats.validation import list_names, nearest

__all__ = ["CONGESTION_OF", "ENCRYPTION_OF", "MTU_OF", "NETWORK_CHECKS", "SCHEMES_OF"]

#: fields that still mean something on a plane which shares another one's network
SHARED_FIELDS: Final = frozenset({"shares", "isolation", "encryption", "encryption_required"})
CONGESTION_OF: Final[dict[Transport, tuple[CongestionName, ...]]] = {
    Transport.INFINIBAND: (CongestionName.CREDITS, CongestionName.CREDITS_CC),
    Transport.ROCEV2: (
        CongestionName.NONE,
        CongestionName.PFC,
        CongestionName.DCQCN,
        CongestionName.PFC_DCQCN,
        CongestionName.RECEIVER_DRIVEN,
        CongestionName.HPCC,
        CongestionName.PFC_HPCC,
        CongestionName.TIMELY,
        CongestionName.PFC_TIMELY,
        CongestionName.SWIFT,
        CongestionName.PFC_SWIFT,
        CongestionName.NSCC,
    ),
    Transport.TCP: (CongestionName.NONE, CongestionName.CUBIC, CongestionName.DCTCP),
}
#: InfiniBand forwards by destination; hashing, flowlets and pinned paths need Ethernet switches
SCHEMES_OF: Final[dict[Transport, tuple[RoutingScheme, ...]]] = {
    Transport.INFINIBAND: (
        RoutingScheme.DESTINATION,
        RoutingScheme.TABLE,
        RoutingScheme.ADAPTIVE,
        RoutingScheme.SPRAY,
    ),
    Transport.ROCEV2: tuple(RoutingScheme),
    Transport.TCP: tuple(s for s in RoutingScheme if s is not RoutingScheme.E_ECMP),
}
#: TLS needs a socket, which RDMA has not; InfiniBand links have no encryption of these kinds
ENCRYPTION_OF: Final[dict[Transport, tuple[str, ...]]] = {
    Transport.INFINIBAND: ("none",),
    Transport.ROCEV2: ("none", "macsec", "ipsec", "psp"),
    Transport.TCP: ("none", "macsec", "ipsec", "psp", "tls"),
}
ISOLATION_OF: Final[dict[Transport, tuple[str, ...]]] = {
    Transport.INFINIBAND: ("none", "pkey"),
    Transport.ROCEV2: ("none", "vlan", "vrf", "vxlan-evpn"),
    Transport.TCP: ("none", "vlan", "vrf", "vxlan-evpn"),
}
RDMA_MTU: Final = (256, 512, 1024, 2048, 4096)
#: payload of a TCP packet: an IP packet of 576 to 9,216 bytes less 52 bytes of headers
TCP_MTU: Final = (576 - 52, 9216 - 52)
MTU_OF: Final[dict[Transport, str]] = {
    Transport.INFINIBAND: list_names(f"{size} B" for size in RDMA_MTU),
    Transport.ROCEV2: list_names(f"{size} B" for size in RDMA_MTU),
    Transport.TCP: f"{TCP_MTU[0]} B to {TCP_MTU[1]} B",
}
#: ports of extra hosts and storage servers in one plane; more would exhaust an ordinary machine
MAX_OTHER_PORTS: Final = 200_000
#: rates at which the catalog's NICs link
LINK_RATES_BPS: Final = tuple(g * 1e9 for g in (1, 10, 25, 40, 50, 100, 200, 400, 800, 1600))
TIERS_OF: Final[dict[Topology, tuple[int, ...]]] = {
    Topology.STAR: (1,),
    Topology.LEAF_SPINE: (1, 2),
    Topology.RAIL_OPTIMIZED: (1, 2, 3),
    Topology.FAT_TREE: (1, 2, 3),
    Topology.MULTI_ZONE: (3,),
    Topology.RAIL_ONLY: (1, 2),
    Topology.DUAL_PLANE_DUAL_TOR: (2, 3),
    Topology.TWIN_PLANAR: (1, 2, 3),
}
#: shapes in which NIC number i of every server goes to rail i
RAIL_TOPOLOGIES: Final = frozenset(
    {
        Topology.RAIL_OPTIMIZED,
        Topology.RAIL_ONLY,
        Topology.DUAL_PLANE_DUAL_TOR,
        Topology.TWIN_PLANAR,
    }
)


#: fields that only mean something in some shapes
ONLY_IN: Final[dict[str, frozenset[Topology]]] = {
    "scalable_unit": RAIL_TOPOLOGIES,
    "zone": frozenset(Topology) - {Topology.STAR, Topology.RAIL_ONLY, Topology.GRAPH},
    **dict.fromkeys(("tiers", "spare_ports"), frozenset(Topology) - {Topology.GRAPH}),
    **dict.fromkeys(
        ("oversubscription", "dual_tor", "top_of_rack", "counts", "min_spines"),
        frozenset(Topology) - {Topology.STAR, Topology.GRAPH},
    ),
}


def sharing_is_sound(context: Context) -> Iterator[Problem]:
    """A shared plane names another one that has a network, and says nothing about its own."""
    own = [name.value for name, _ in context.own_planes()]
    for name, plane in context.planes():
        if plane.shares is None:
            continue
        path = ("planes", name.value, "shares")
        others = list_names(other for other in own if other != name.value)
        if name is PlaneName.BACKEND:
            yield context.problem(
                path,
                "the back-end needs a network of its own; let the other plane share it instead",
                allowed="no 'shares' in the back-end",
            )
            continue
        carrier = context.plane(plane.shares)
        if plane.shares is name:
            yield context.problem(path, "a plane cannot share itself", allowed=others)
        elif carrier is None:
            yield context.problem(path, f"there is no plane {plane.shares.value!r}", allowed=others)
        elif carrier.shares is not None:
            yield context.problem(
                path,
                f"{plane.shares.value!r} itself shares {carrier.shares.value!r}",
                allowed=others,
                nearest=carrier.shares.value if carrier.shares.value in own else "",
            )
        for field in sorted(context.stated(plane) - SHARED_FIELDS):
            yield context.problem(
                ("planes", name.value, field),
                f"this plane shares {plane.shares.value!r} and has no network of its own",
                allowed=list_names(sorted(SHARED_FIELDS)),
            )


def transport_is_stated(context: Context) -> Iterator[Problem]:
    """The back-end says what carries it; the other planes are TCP where they say nothing."""
    for name, plane in context.own_planes():
        path = ("planes", name.value)
        if plane.transport is None and name is PlaneName.BACKEND:
            yield context.problem(
                (*path, "transport"),
                "nothing says what carries the back-end's traffic",
                allowed=list_names(t.value for t in Transport),
            )


def switches_fit_transport(context: Context) -> Iterator[Problem]:
    """An InfiniBand plane has InfiniBand switches, the others Ethernet switches."""
    for name, plane in context.own_planes():
        if plane.transport is None:
            continue
        for _, choice, path in context.switch_fields(name, plane):
            facts = context.switch(choice)
            if facts is None or not facts.transports or plane.transport in facts.transports:
                continue
            right = context.names_of_switches(plane.transport)
            yield context.problem(
                path,
                f"{choice!r} does not carry {plane.transport.value}"
                f" (it carries {list_names(t.value for t in facts.transports)})",
                allowed=f"a switch for {plane.transport.value}: {list_names(right)}",
            )


def profile_fits_transport(context: Context) -> Iterator[Problem]:
    """Congestion profile, routing scheme and packet size exist on the plane's transport."""
    for name, plane in context.own_planes():
        transport, path = plane.transport, ("planes", name.value)
        if transport is None:
            continue
        named = None if plane.congestion is None else plane.congestion.scheme
        if named is not None and named not in CONGESTION_OF[transport]:
            choices = [choice.value for choice in CONGESTION_OF[transport]]
            yield context.problem(
                _scheme_path(context, name, "congestion"),
                f"{named.value!r} does not exist on {transport.value}",
                allowed=list_names(choices),
                nearest=nearest(named, choices),
            )
        scheme = plane.routing.scheme
        if scheme is not None and scheme not in SCHEMES_OF[transport]:
            yield context.problem(
                _scheme_path(context, name),
                f"{scheme.value!r} does not exist on {transport.value}",
                allowed=list_names(choice.value for choice in SCHEMES_OF[transport]),
            )
        if plane.routing.queue_pairs > 1 and transport is Transport.TCP:
            yield context.problem(
                (*path, "routing", "queue_pairs"),
                "TCP connections have no queue pairs to spread over",
                allowed="1, or a transport with RDMA",
                nearest="1",
            )
        yield from _mtu(context, name, plane, transport)


def _scheme_path(context: Context, name: PlaneName, field: str = "routing") -> tuple[str, ...]:
    path = ("planes", name.value, field)
    return (*path, "scheme") if context.document.has((*path, "scheme")) else path


def _mtu(
    context: Context, name: PlaneName, plane: Plane, transport: Transport
) -> Iterator[Problem]:
    mtu = plane.mtu
    if mtu is None:
        return
    low, high = TCP_MTU
    if transport is Transport.TCP:
        fits, near = low <= mtu <= high, min(max(mtu, low), high)
    else:
        fits, near = mtu in RDMA_MTU, min(RDMA_MTU, key=lambda size: abs(size - mtu))
    if not fits:
        yield context.problem(
            ("planes", name.value, "mtu"),
            f"a payload of {mtu} B a packet does not exist on {transport.value}",
            allowed=MTU_OF[transport],
            nearest=f"{near} B",
        )


def tenants_are_kept_apart_possibly(context: Context) -> Iterator[Problem]:
    """Isolation and encryption are of a kind the transport has."""
    for name, plane in context.planes():
        transport = context.transport(plane)
        if transport is None:
            continue
        for field, choices in (("encryption", ENCRYPTION_OF), ("isolation", ISOLATION_OF)):
            value = getattr(plane, field)
            if value not in choices[transport]:
                yield context.problem(
                    ("planes", name.value, field),
                    f"{value!r} does not exist on {transport.value}",
                    allowed=list_names(choices[transport]),
                )


def files_match_choices(context: Context) -> Iterator[Problem]:
    """A graph file goes with topology graph, a table file with scheme table; and both exist."""
    for name, plane in context.own_planes():
        path = ("planes", name.value)
        is_graph = plane.topology is Topology.GRAPH
        if is_graph and plane.graph is None:
            yield context.problem(
                (*path, "topology"), "no graph file is named", allowed="graph: a file name as well"
            )
        if plane.graph is not None:
            if not is_graph:
                yield context.problem(
                    (*path, "graph"),
                    "a graph file is only read with topology graph",
                    allowed="topology: graph",
                )
            yield from context.missing_file(plane.graph, (*path, "graph"), "graph file")
        yield from _table(context, name, plane.routing)


def _table(context: Context, name: PlaneName, routing: RoutingSpec) -> Iterator[Problem]:
    path = ("planes", name.value, "routing", "table")
    if routing.scheme is RoutingScheme.TABLE and routing.table is None:
        yield context.problem(
            _scheme_path(context, name),
            "no forwarding-table file is named",
            allowed="{scheme: table, table: a file name}",
        )
    if routing.table is not None:
        if routing.scheme is not RoutingScheme.TABLE:
            yield context.problem(
                path, "a forwarding table is only read with scheme table", allowed="scheme: table"
            )
        yield from context.missing_file(routing.table, path, "forwarding-table file")


def shape_is_possible(context: Context) -> Iterator[Problem]:
    """Tiers, counts and topology speak of the same network."""
    for name, plane in context.own_planes():
        path, topology = ("planes", name.value), plane.topology or Topology.LEAF_SPINE
        tiers = TIERS_OF.get(topology)
        if plane.tiers is not None and tiers is not None and plane.tiers not in tiers:
            yield context.problem(
                (*path, "tiers"),
                f"{topology.value} cannot have {plane.tiers} tiers",
                allowed=list_names(str(tier) for tier in tiers),
                nearest=str(min(tiers, key=lambda tier: abs(tier - (plane.tiers or 0)))),
            )
        if topology in RAIL_TOPOLOGIES and name is PlaneName.BACKEND:
            yield from _rails(context, topology)
        stated = context.stated(plane)
        for field, shapes in ONLY_IN.items():
            if field in stated and topology not in shapes:
                others = list_names(shape.value for shape in Topology if shape in shapes)
                yield context.problem(
                    (*path, field),
                    f"{field!r} means nothing in topology {topology.value}",
                    allowed=f"with {others}",
                )
        if plane.routing.flowlets != 8 and plane.routing.scheme is not RoutingScheme.FLOWLET:
            yield context.problem(
                (*path, "routing", "flowlets"),
                "flowlets only matter under scheme flowlet",
                allowed="scheme: flowlet",
            )


def _rails(context: Context, topology: Topology) -> Iterator[Problem]:
    groups = context.design.cluster.servers
    facts = [context.server(group) for group in groups]
    first = facts[0]
    for number, fact in enumerate(facts):
        if fact is not None and first is not None and fact.nics != first.nics:
            yield context.problem(
                context.group_path(number, "nics"),
                f"{topology.value} gives every NIC its rail, but these servers have {fact.nics}"
                f" NICs and those of the first group {first.nics}",
                allowed=str(first.nics),
                nearest=str(first.nics) if first.nics < fact.nics else "",
            )


def links_fit_nics(context: Context) -> Iterator[Problem]:
    """Host links, planes and speeds are what the servers' NICs can do."""
    for name, plane in context.own_planes():
        for group in context.design.cluster.servers:
            facts = context.server(group)
            if facts is not None:
                yield from _links_of_server(context, name, plane, facts)


def _links_of_server(
    context: Context, name: PlaneName, plane: Plane, facts: ServerFacts
) -> Iterator[Problem]:
    path, backend = ("planes", name.value), name is PlaneName.BACKEND
    number, nic_bps = facts.links_into(name)
    if plane.speed is not None and nic_bps and plane.speed > nic_bps * (1 + 1e-9):
        yield context.problem(
            (*path, "speed"),
            f"{context.rate(plane.speed)} links on NICs of {context.rate(nic_bps)}",
            allowed=f"at most {context.rate(nic_bps)}",
            nearest=context.rate(nic_bps),
        )
    elif plane.speed is not None and facts.nic_ports and plane.speed not in LINK_RATES_BPS:
        yield context.problem(
            (*path, "speed"),
            f"no NIC links at {context.rate(plane.speed)}",
            allowed=list_names(context.rate(rate) for rate in LINK_RATES_BPS if rate <= nic_bps),
            nearest=context.rate(min(LINK_RATES_BPS, key=lambda r: abs(r - (plane.speed or 0)))),
        )
    if backend:
        yield from _planes_of_nic(context, plane, facts.nic_ports, facts.nics)
    links = plane.host_links or (number * plane.planes if backend else number)
    if plane.dual_tor and links < 2:
        yield context.problem(
            (*path, "dual_tor"),
            "a server with one link into this plane cannot reach two leaves",
            allowed="host_links of 2 or more",
        )


def _planes_of_nic(context: Context, plane: Plane, ports: int, nics: int) -> Iterator[Problem]:
    if plane.planes > 1 and ports and ports % plane.planes:
        yield context.problem(
            ("planes", "backend", "planes"),
            f"a NIC of {ports} ports cannot be split evenly over {plane.planes} planes",
            allowed=list_names(str(n) for n in range(1, ports + 1) if ports % n == 0),
        )
    if plane.host_links is not None and plane.host_links % nics:
        yield context.problem(
            ("planes", "backend", "host_links"),
            f"{plane.host_links} links do not spread evenly over {nics} NICs",
            allowed=f"a multiple of {nics}",
            nearest=str(max(1, round(plane.host_links / nics)) * nics),
        )


def other_hosts_are_few(context: Context) -> Iterator[Problem]:
    """Extra hosts and storage servers stay within what can be built."""
    storage = context.design.cluster.storage_servers
    allowed = f"at most {MAX_OTHER_PORTS:,} ports"
    if storage is not None and storage.count * storage.ports > MAX_OTHER_PORTS:
        yield context.problem(
            ("cluster", "storage_servers", "count"),
            f"{storage.count:,} storage servers of {storage.ports} ports are more than one design"
            " may have",
            allowed=allowed,
        )
    for name, plane in context.own_planes():
        if sum(plane.extra_hosts.values()) > MAX_OTHER_PORTS:
            yield context.problem(
                ("planes", name.value, "extra_hosts"),
                f"{sum(plane.extra_hosts.values()):,} ports are more than one design may have",
                allowed=allowed,
            )


def speeds_fit_switches(context: Context) -> Iterator[Problem]:
    """The switches have ports, or breakouts of ports, for the link speeds asked of them."""
    for name, plane in context.own_planes():
        for tier, choice, _ in context.switch_fields(name, plane):
            facts = context.switch(choice)
            if facts is None:
                continue
            if plane.speed is not None and tier in ("", "leaf"):
                yield from _speed(context, facts, ("planes", name.value, "speed"), plane.speed)
            if plane.uplink_speed is not None:
                path = ("planes", name.value, "uplink_speed")
                yield from _speed(context, facts, path, plane.uplink_speed)


def _speed(
    context: Context, facts: SwitchFacts, path: tuple[str, ...], speed_bps: float
) -> Iterator[Problem]:
    if not facts.can_link_at(speed_bps):
        yield context.problem(
            path,
            f"{facts.name} has no ports or breakouts of {context.rate(speed_bps)}",
            allowed=list_names(context.rate(speed) for speed in facts.speeds_bps),
            nearest=context.rate(min(facts.speeds_bps, key=lambda s: abs(s - speed_bps))),
        )


Check: TypeAlias = Callable[[Context], Iterable[Problem]]
NETWORK_CHECKS: tuple[Check, ...] = (
    sharing_is_sound,
    transport_is_stated,
    switches_fit_transport,
    profile_fits_transport,
    tenants_are_kept_apart_possibly,
    files_match_choices,
    shape_is_possible,
    links_fit_nics,
    speeds_fit_switches,
    other_hosts_are_few,
)
