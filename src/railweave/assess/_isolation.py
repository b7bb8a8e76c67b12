"""Checks of what keeps tenants apart on a network, and of what encryption covers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import combinations
from typing import Final

import numpy as np

from railweave.assess.context import CheckContext
from railweave.design.models import Plane, PlaneName, Topology, Transport
from railweave.errors import RailweaveError
from railweave.fabric import PlaneId
from railweave.fabric.wire import encryption_bytes, encryption_on, framing
from railweave.findings import Finding
from railweave.units import counted
from railweave.workload.jobs import job_sends, place_jobs

__all__ = ["ISOLATION_CHECKS", "people_on", "rdma_networks", "some", "tenants_on"]

RDMA: Final = (Transport.INFINIBAND, Transport.ROCEV2)
#: what each kind of isolation rests on
HOLDS: Final = {
    "vlan": "it holds where the switch port, not the host, sets the VLAN",
    "vrf": "it holds where the switch port decides the VRF, on every switch of the way, and no"
    " route leaks",
    "vxlan-evpn": "it holds where the leaf's port, not the host, decides the VNI, and no route"
    " leaks",
    "pkey": "hosts are limited members of 0x7fff, switches enforce partitions, and M_Key keeps"
    " hosts from writing them",
}
#: what each kind of encryption covers
ENCRYPTION: Final = {
    "macsec": "link by link, and switches see clear text",
    "ipsec": "host to host, ESP in transport mode, which hides ports from ECMP hashing",
    "psp": "NIC to NIC in UDP, keys a connection",
    "tls": "by the application, and switches and hosts' kernels see cipher text",
}
#: what somebody can do with an rkey that is read on the way, by its scope
OPENED: Final = {
    "connection": "an rkey read there opens memory for one connection only",
    "job": "an rkey read there opens memory that the job registered, to its queue pairs",
    "global": "an rkey read there opens all memory of its server",
    None: "what an rkey read there opens is not stated (rkey_scope)",
}


# ---------------------------------------------------------------- who is where


def some(names: Iterable[str], most: int = 4) -> str:
    """List names, the first few of many."""
    listed = list(names)
    more = len(listed) - most
    return ", ".join(listed[:most]) + (f" and {more:,} more" if more > 0 else "")


def tenants_on(context: CheckContext, network: PlaneName) -> list[str]:
    """Return the tenants with a plane that a network carries."""
    return [
        tenant.name
        for tenant in context.design.tenants
        if any(context.carrier(name) is network for name in tenant.planes)
    ]


def people_on(context: CheckContext, network: PlaneName) -> str:
    """Say whose traffic a network carries, as far as the design names them."""
    tenants = tenants_on(context, network)
    if tenants:
        return some(tenants)
    jobs = [job.name for job in context.design.jobs] if network is PlaneName.BACKEND else []
    return some(jobs) or "its hosts"


def rdma_networks(context: CheckContext) -> list[tuple[PlaneName, Transport]]:
    """Return the planes with a network of their own that carries RDMA."""
    return [
        (name, context.transport(plane))
        for name, plane, _ in context.networks()
        if context.transport(plane) in RDMA
    ]


def _network(context: CheckContext, name: PlaneName) -> tuple[PlaneName, Plane]:
    """Return the plane whose network carries a plane."""
    carrier = context.carrier(name) or name
    plane = context.plane(carrier)
    assert plane is not None
    return carrier, plane


# ---------------------------------------------------------------- tenants


def tenants_are_isolated(context: CheckContext) -> Iterator[Finding]:
    """Two tenants on one network are kept apart by something, and by something that can."""
    said: list[Finding] = []  # two planes of one network can have the same gap: once is enough
    for name in PlaneName:
        plane = context.plane(name)
        users = [tenant.name for tenant in context.design.tenants if name in tenant.planes]
        if plane is None or len(users) < 2:
            continue
        path, who = f"planes.{name.value}.isolation", some(users)
        if plane.isolation == "none":
            yield _not_isolated(
                context, name, f"{who} share the {name.value} plane", _jobs_of(context, users)
            )
            continue
        gaps = list(_gaps(context, name, plane, who))
        yield from (gap for gap in gaps if gap not in said)
        said += gaps
        if not gaps:
            yield context.info(
                "tenants-isolated",
                path,
                f"{who} are kept apart by {plane.isolation} on {name.value}",
                HOLDS[plane.isolation],
            )
    yield from (gap for gap in _across_planes(context) if gap not in said)


def _jobs_of(context: CheckContext, tenants: list[str]) -> str:
    """Say which jobs each tenant has."""
    said = []
    for tenant in tenants:
        jobs = [job.name for job in context.design.jobs if job.tenant == tenant]
        said.append(f"{tenant} runs {some(jobs) or 'no job of this design'}")
    return ", ".join(said)


def _not_isolated(context: CheckContext, name: PlaneName, who: str, jobs: str) -> Finding:
    carrier, plane = _network(context, name)
    transport = context.transport(plane)
    evidence = [jobs, "a dedicated network is not a trusted one"]
    if transport in RDMA:
        evidence.append("RDMA keys are sent in the clear")
    if "macsec" in encryption_on(context.design.planes, context.built.network, PlaneId[name.name]):
        evidence.append("macsec guards each cable, and keeps no tenant from another")
    kinds = "pkey" if transport is Transport.INFINIBAND else "vrf or vxlan-evpn"
    return context.warning(
        "tenants-not-isolated",
        f"planes.{name.value}.isolation",
        f"{who}, and nothing keeps them apart",
        "; ".join(evidence),
        f"isolation: {kinds}" + (f" ({carrier.value} carries it)" if carrier is not name else ""),
    )


def _across_planes(context: CheckContext) -> Iterator[Finding]:
    """Tenants on different planes of one network meet there."""
    planes = [name for name in PlaneName if context.plane(name) is not None]
    for one, two in combinations(planes, 2):
        if context.carrier(one) is not context.carrier(two):
            continue
        first, second = context.plane(one), context.plane(two)
        assert first is not None
        assert second is not None
        here = {t.name for t in context.design.tenants if one in t.planes}
        there = {t.name for t in context.design.tenants if two in t.planes}
        only_here, only_there = sorted(here - there), sorted(there - here)
        if not (only_here and only_there):
            continue
        who = f"{some(only_here)} on {one.value} and {some(only_there)} on {two.value}"
        apart = [(n, p) for n, p in ((one, first), (two, second)) if p.isolation != "none"]
        if apart:
            yield from _gaps(context, *apart[0], who)
            continue
        sharing = two if second.shares is not None else one
        yield _not_isolated(
            context, sharing, f"{who} use one network", _jobs_of(context, [*only_here, *only_there])
        )


def _gaps(context: CheckContext, name: PlaneName, plane: Plane, who: str) -> Iterator[Finding]:
    """Say where a kind of isolation does not stop what it is there for."""
    carrier, _ = _network(context, name)
    tiers = context.tier_sizes(carrier)
    if plane.isolation == "vlan" and tiers.get("spine", 0) > 1:
        yield context.warning(
            "vlan-on-routed-fabric",
            f"planes.{name.value}.isolation",
            f"the VLANs of {who} end at their leaves: between the {tiers.get('leaf', 0)} leaves of"
            f" {carrier.value} packets are routed over {tiers['spine']} spines, by one routing"
            " table for all",
            "equal paths over several spines are routes; a VLAN is one layer-2 network",
            "isolation: vrf or vxlan-evpn",
        )
    elif plane.isolation == "vlan" and _has_circle(context, carrier):
        yield context.warning(
            "vlan-on-routed-fabric",
            f"planes.{name.value}.isolation",
            f"the VLANs of {who} end at their switches: the {context.switches(carrier)} switches of"
            f" {carrier.value} have several ways to each other, so packets between them are routed,"
            " by one routing table for all",
            "a layer-2 network may have no circle; a VLAN is one layer-2 network",
            "isolation: vrf or vxlan-evpn",
        )
    if plane.isolation == "pkey":
        yield from _partition_gaps(context, name, who)


def _has_circle(context: CheckContext, carrier: PlaneName) -> bool:
    """Tell whether a plane wired by a graph has more than one way between some switches."""
    plane = context.plane(carrier)
    if plane is None or plane.topology is not Topology.GRAPH:
        return False
    fabric = context.fabric
    switches = fabric.switches(PlaneId[carrier.name])
    inside = np.isin(fabric.link_src, switches) & np.isin(fabric.link_dst, switches)
    ends = np.stack((fabric.link_src[inside], fabric.link_dst[inside]))
    above = {switch: switch for switch in switches.tolist()}

    def top(switch: int) -> int:
        while above[switch] != switch:
            above[switch] = switch = above[above[switch]]
        return switch

    for one, two in np.unique(np.sort(ends, axis=0), axis=1).T.tolist():
        if top(one) == top(two):
            return True
        above[top(one)] = top(two)
    return False


def _partition_gaps(context: CheckContext, name: PlaneName, who: str) -> Iterator[Finding]:
    security = context.design.security
    fields = ("default_partition", "partition_enforcement", "subnet_keys")
    unknown = [field for field in fields if getattr(security, field) is None]
    if unknown:
        yield context.warning(
            "partitions-unproven",
            f"planes.{name.value}.isolation",
            f"{who} are to be kept apart by pkey on {name.value}, and not stated is"
            f" {', '.join(unknown)}: partitions hold with the right values only",
            "OpenSM left alone makes every port a full member of 0x7fff and sets no M_Key; its"
            " switches do enforce partitions",
            "security: {default_partition: limited, partition_enforcement: switches, subnet_keys:"
            " set}, once the subnet manager has them so",
        )
    if security.default_partition == "full":
        yield context.warning(
            "default-partition-full",
            "security.default_partition",
            f"{who} meet on {name.value} in the default partition 0x7fff whatever other P_Keys"
            " they have: all hosts are full members of it",
            "two ports may talk in a partition when one of them is a full member; two limited"
            " members may not",
            "default_partition: limited (OpenSM: Default=0x7fff : ALL=limited, SELF=full ;)",
        )
    if security.partition_enforcement == "adapters":
        owners = {"bare-metal": "whoever has the server", None: "whoever controls the server"}
        owner = owners.get(security.host_access, "whoever becomes root on the server")
        yield context.warning(
            "partitions-kept-by-adapters",
            "security.partition_enforcement",
            f"on {name.value} adapters alone refuse foreign P_Keys, and no switch checks what"
            f" {who} send: an adapter is as honest as {owner}",
            "a P_Key is a 16-bit number in each packet, no secret",
            "partition_enforcement: switches (OpenSM: part_enforce both, its default)",
        )
    if security.subnet_keys == "unset":
        yield _keys_unset(context, context.carrier(name) or name, context.warning)


def subnet_manager_is_guarded(context: CheckContext) -> Iterator[Finding]:
    """Only the subnet manager configures an InfiniBand network."""
    if context.design.security.subnet_keys != "unset":
        return
    said = list(tenants_are_isolated(context))
    for name, transport in rdma_networks(context):
        if transport is not Transport.INFINIBAND:
            continue
        say = context.warning if tenants_on(context, name) else context.info
        found = _keys_unset(context, name, say)
        if found not in said:  # else it is said among what pkey rests on
            yield found


def _keys_unset(context: CheckContext, name: PlaneName, say: Callable[..., Finding]) -> Finding:
    return say(
        "subnet-keys-unset",
        "security.subnet_keys",
        f"whoever is root on one host of {name.value} can configure the network of"
        f" {people_on(context, name)}: ports take subnet management packets from anybody, so"
        " routes and partition tables can be written and another subnet manager can take over",
        "OpenSM's defaults: m_key 0 (no check), sm_key 1 (known to all)",
        "subnet_keys: set (m_key, for each port where the manager can; m_key_protection_level 2;"
        " sm_key and sa_key of your own)",
    )


def jobs_have_tenants(context: CheckContext) -> Iterator[Finding]:
    """Jobs belong to a tenant who has the plane they run on."""
    for number, job in enumerate(context.design.jobs):
        tenant = next((t for t in context.design.tenants if t.name == job.tenant), None)
        if tenant is not None and PlaneName.BACKEND not in tenant.planes:
            yield context.warning(
                "job-off-its-planes",
                f"jobs[{number}].tenant",
                f"{job.name} runs on the back-end, which is not among the planes of {tenant.name}",
                fix=f"planes of {tenant.name}: backend as well",
            )
        elif context.design.tenants and job.tenant is None:
            yield context.info(
                "job-of-nobody",
                f"jobs[{number}]",
                f"{job.name} has no tenant, though the design has some: nothing says from whom it"
                " is kept apart",
                fix="tenant: whose job it is",
            )


def tenants_have_own_servers(context: CheckContext) -> Iterator[Finding]:
    """What keeps tenants apart in the network ends at the server."""
    jobs = context.design.jobs
    owned = [number for number, job in enumerate(jobs) if job.tenant is not None]
    if len({jobs[number].tenant for number in owned}) < 2:
        return
    try:
        sends = job_sends(context.fabric, context.design, context.catalog)
        placed, _ = place_jobs(jobs, context.fabric, context.design.seed, sends)
    except RailweaveError:  # another check, or the simulation, says what does not fit
        return
    servers = {number: np.unique(context.fabric.node_server[placed[number]]) for number in owned}
    for later in owned:
        shared = {
            one: common
            for one in owned
            if one < later
            and jobs[one].tenant != jobs[later].tenant
            and (common := np.intersect1d(servers[one], servers[later])).size
        }
        if not shared:
            continue
        beside = some(f"{jobs[one].name} of {jobs[one].tenant}" for one in shared)
        common = np.unique(np.concatenate(list(shared.values())))
        names = [context.fabric.server_names[server] for server in common.tolist()]
        yield context.warning(
            "tenants-share-servers",
            f"jobs[{later}]",
            f"{jobs[later].name} of {jobs[later].tenant} has GPUs of the same"
            f" {counted(len(names), 'server')} as {beside}: {some(names)}",
            "what keeps tenants apart in the network ends at the server: its kernel, memory and"
            " adapters, and the links between its GPUs, serve both",
            "whole servers for each tenant (ranks, placement); where one comes after the other,"
            " memory wiped and adapters set up anew between them",
        )


# ---------------------------------------------------------------- encryption


def encryption_provided(context: CheckContext) -> Iterator[Finding]:
    """What must be encrypted is."""
    for name in PlaneName:
        plane = context.plane(name)
        if plane is None:
            continue
        carrier, network = _network(context, name)
        transport = context.transport(network)
        kinds = encryption_on(context.design.planes, context.built.network, PlaneId[name.name])
        path = f"planes.{name.value}.encryption"
        if plane.encryption_required and not kinds:
            yield context.error(
                "encryption-missing",
                path,
                f"traffic of {people_on(context, carrier)} on {name.value} must be encrypted, and"
                " nothing encrypts it",
                f"encryption_required: true, encryption: none, {transport.value}",
                _ENCRYPT[transport],
            )
        elif plane.encryption != "none" or (plane.encryption_required and kinds):
            needed = {
                True: "",
                False: " (not required)",
                None: " (whether it must be is not stated)",
            }[plane.encryption_required]
            frame = framing(transport, network.mtu, kinds)
            yield context.info(
                "encryption-provided",
                path,
                f"{name.value} is encrypted by {' and '.join(kinds)}{needed}:"
                f" {'; '.join(ENCRYPTION[kind] for kind in kinds)};"
                f" {encryption_bytes(frame)} are counted",
            )


_ENCRYPT: Final = {
    Transport.INFINIBAND: "InfiniBand has none: encrypt in the application, or RoCEv2 with"
    " encryption: psp or ipsec",
    Transport.ROCEV2: "encryption: psp or ipsec, from NIC to NIC; macsec where cables alone are"
    " not trusted",
    Transport.TCP: "encryption: tls, psp or ipsec, from end to end; macsec where cables alone are"
    " not trusted",
}


def rdma_in_the_clear(context: CheckContext) -> Iterator[Finding]:
    """Say what the lack of encryption between the ends means for RDMA."""
    for network, transport in rdma_networks(context):
        own = _clear_kinds(context, network)
        if own is not None:
            yield _in_the_clear(context, network, network, transport, own)
            continue
        # Of the planes that share a network, storage is the one whose own traffic is RDMA.
        if context.carrier(PlaneName.STORAGE) is network is not PlaneName.STORAGE:
            kinds = _clear_kinds(context, PlaneName.STORAGE)
            if kinds is not None:
                yield _in_the_clear(context, PlaneName.STORAGE, network, transport, kinds)


def _clear_kinds(context: CheckContext, name: PlaneName) -> tuple[str, ...] | None:
    """Return what guards a plane's links, None where its ends encrypt, or an error says enough."""
    plane = context.plane(name)
    kinds = encryption_on(context.design.planes, context.built.network, PlaneId[name.name])
    ends = set(kinds) - {"macsec"}
    missing = plane is not None and plane.encryption_required and not kinds
    return None if ends or missing else kinds


def _in_the_clear(
    context: CheckContext,
    name: PlaneName,
    network: PlaneName,
    transport: Transport,
    kinds: tuple[str, ...],
) -> Finding:
    over = counted(context.switches(network), "switch", "switches")
    evidence = [OPENED[context.design.security.rkey_scope]]
    if transport is Transport.ROCEV2:
        evidence.append("root or a raw socket on any host that reaches the plane can forge")
    else:
        evidence.append(
            "adapters fill in source and P_Key: forging takes control of one, or a cable"
        )
    if kinds:
        evidence.append("macsec covers the cables, neither switches nor hosts")
    what = "" if name is network else f" {name.value} traffic"
    return context.info(
        "rdma-in-the-clear",
        f"planes.{name.value}.encryption",
        f"{people_on(context, network)} send{what} over {over} of {network.value} without"
        " encryption from end to end: rkeys, Q_Keys, addresses and data can be read there, and a"
        " packet does not prove its sender (the ICRC is a checksum without a key)",
        "; ".join(evidence),
        "where switches or other hosts are not trusted: "
        + (
            "encrypt in the application"
            if transport is Transport.INFINIBAND
            else "encryption: psp or ipsec"
        ),
    )


ISOLATION_CHECKS = (
    tenants_are_isolated,
    subnet_manager_is_guarded,
    jobs_have_tenants,
    tenants_have_own_servers,
    encryption_provided,
    rdma_in_the_clear,
)
