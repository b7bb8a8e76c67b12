"""Checks of who may do what: hosts, access rules, memory keys, storage, management."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from railweave.assess._isolation import (
    ISOLATION_CHECKS,
    people_on,
    rdma_networks,
    some,
    tenants_on,
)
from railweave.assess.context import CheckContext
from railweave.design.models import PlaneName, Transport
from railweave.findings import Finding
from railweave.units import counted

__all__ = ["SECURITY_CHECKS"]

#: planes whose traffic is that of users
DATA: Final = (PlaneName.BACKEND, PlaneName.FRONTEND, PlaneName.STORAGE)


def _several(context: CheckContext) -> bool:
    """Tell whether there are tenants to be kept from each other."""
    return len(context.design.tenants) > 1


def _servers(context: CheckContext) -> str:
    """Say how many servers there are."""
    return counted(len(context.fabric.server_names), "server")


def _rdma(context: CheckContext, *kinds: Transport) -> str:
    """Name the planes with RDMA, of some transports only; empty where there are none."""
    return ", ".join(
        name.value for name, kind in rdma_networks(context) if not kinds or kind in kinds
    )


# ---------------------------------------------------------------- hosts


def hosts_are_hardened(context: CheckContext) -> Iterator[Finding]:
    """Hosts obey rules, and somebody looks whether they still do."""
    hardening = context.design.security.host_hardening
    servers, roce = _servers(context), _rdma(context, Transport.ROCEV2)
    if hardening == "none":
        forged = f" and can forge packets on {roce}" if roce else ""
        yield context.warning(
            "hosts-not-hardened",
            "security.host_hardening",
            f"no rules are followed on {servers}: who becomes root on one has the keys to its"
            f" memory{forged}",
            "host_hardening: none",
            "a baseline: accounts, services, patches, who may open RDMA devices, firmware locked",
        )
    elif hardening == "baseline":
        yield context.info(
            "hosts-not-verified",
            "security.host_hardening",
            f"a baseline was applied to {servers}, and nothing verifies that it still holds",
            fix="host_hardening: verified, once drift is looked for",
        )


def users_and_adapters(context: CheckContext) -> Iterator[Finding]:
    """Say what users can do with the RDMA adapters of the servers they are on."""
    access, planes = context.design.security.host_access, _rdma(context)
    path = "security.host_access"
    if not planes:
        return
    if access == "containers":
        yield context.info(
            "containers-see-adapters",
            path,
            f"containers share their host's kernel and its RDMA devices: a privileged one is root"
            f" on {planes}",
            fix="no privileged containers and no CAP_NET_RAW; RDMA devices by network namespace"
            " and cgroup",
        )
    elif access == "virtual-machines":
        yield context.info(
            "guests-share-adapters",
            path,
            f"guests have virtual functions of the NICs on {planes}: the NIC's own switch and"
            " firmware keep them apart, and its caches and queues are common to all",
            fix="VLAN or VNI, MAC and address set by the host and checked (spoof check on, trust"
            " off); on InfiniBand the subnet manager sets each function's partitions",
        )
    elif access == "bare-metal":
        yield from _owners(context, planes)


def _owners(context: CheckContext, planes: str) -> Iterator[Finding]:
    ruled = context.design.security.access_control in ("switch-acl", "microsegmentation")
    ethernet = [name for name, kind in rdma_networks(context) if kind is Transport.ROCEV2]
    exposed = any(len(tenants_on(context, name)) > 1 for name in ethernet)
    say = context.warning if exposed and not ruled else context.info
    ports = ["switch ports that set VLAN or VRF and check source addresses"] if ethernet else []
    if len(ethernet) < len(rdma_networks(context)):
        ports.append("partition_enforcement: switches, subnet_keys: set")
    yield say(
        "users-own-servers",
        "security.host_access",
        f"users have root on their servers: addresses, tags and adapter settings on {planes} are"
        " theirs to choose, so only what the network itself enforces holds",
        f"access_control: {context.design.security.access_control or 'not stated'}",
        f"{'; '.join(ports)}; firmware locked; the BMC closed to its host",
    )


# ---------------------------------------------------------------- who reaches whom


def access_is_controlled(context: CheckContext) -> Iterator[Finding]:
    """Rules decide who reaches whom, where RDMA passes them too."""
    control, path = context.design.security.access_control, "security.access_control"
    planes = some(name.value for name, _, _ in context.networks())
    if control == "none":
        yield context.warning(
            "access-not-controlled",
            path,
            f"every host of a plane reaches every other one ({planes}), services and storage too",
            "access_control: none",
            "access_control: switch-acl or microsegmentation: what a job needs, and nothing else",
        )
    rdma = _rdma(context)
    if control == "host-firewall" and rdma:
        yield context.warning(
            "host-firewall-passed-by-rdma",
            path,
            f"RDMA on {rdma} passes by the hosts' firewalls: adapters take packets without the"
            " kernel, which sees at most the connection's set-up",
            "kernel bypass is what RDMA is for",
            "rules in switches, adapters or DPUs; on InfiniBand partitions (isolation: pkey)",
        )
    infiniband = [
        name
        for name, kind in rdma_networks(context)
        if kind is Transport.INFINIBAND and getattr(context.plane(name), "isolation", "") != "pkey"
    ]
    if control in ("switch-acl", "microsegmentation") and infiniband:
        exposed = any(len(tenants_on(context, name)) > 1 for name in infiniband)
        say = context.warning if exposed else context.info
        yield say(
            "access-rules-not-on-infiniband",
            path,
            f"{control} does not reach {some(n.value for n in infiniband)}: InfiniBand switches"
            " forward by LID and partition, not by rules on addresses",
            fix="isolation: pkey there",
        )
    if control == "switch-acl" and context.design.security.host_access in _ROOT:
        yield context.info(
            "rules-trust-addresses",
            path,
            "rules in switches go by address, and users who have root choose their address",
            f"host_access: {context.design.security.host_access}",
            "addresses bound to ports (source guard), or microsegmentation",
        )


#: kinds of access in which users choose what their machine sends
_ROOT: Final = ("bare-metal", "virtual-machines")


def memory_keys(context: CheckContext) -> Iterator[Finding]:
    """No key opens more memory than its holder needs."""
    if context.design.security.rkey_scope != "global":
        return
    for name, _ in rdma_networks(context):
        yield context.warning(
            "global-rkeys",
            "security.rkey_scope",
            f"one rkey opens all memory of a server on {name.value}, whatever was registered:"
            " whoever holds it and a queue pair there, or forges the packets of one, reads and"
            f" writes what {people_on(context, name)} have in memory",
            "Linux calls this the unsafe global rkey; some storage clients and older libraries"
            " ask for it to save registrations",
            "rkey_scope: job (one protection domain a job, regions with the rights they need) or"
            " connection (memory windows); storage clients that always register memory",
        )


# ---------------------------------------------------------------- storage


def storage_is_guarded(context: CheckContext) -> Iterator[Finding]:
    """Storage knows who asks."""
    plane, network = context.plane(PlaneName.STORAGE), context.carrier(PlaneName.STORAGE)
    if plane is None or network is None:
        return
    access, path = context.design.security.storage_access, "security.storage_access"
    who = people_on(context, network)
    if access == "open":
        yield context.warning(
            "storage-open",
            path,
            f"whoever reaches the {network.value} network mounts and reads all storage: {who}",
            "storage_access: open",
            "storage_access: authenticated (Kerberos, keys a tenant, in-band authentication of"
            " NVMe over fabrics)",
        )
    elif access == "address":
        root = context.design.security.host_access in _ROOT
        say = context.warning if root or len(tenants_on(context, network)) > 1 else context.info
        yield say(
            "storage-trusts-addresses",
            path,
            f"storage on {network.value} lets hosts in by their address, which root on any host of"
            " that network can take",
            f"users of the network: {who}",
            "storage_access: authenticated, or addresses bound to switch ports",
        )
    carrier = context.plane(network)
    assert carrier is not None
    transport, tenants = context.transport(carrier), tenants_on(context, network)
    if transport is not Transport.TCP and tenants and access != "authenticated":
        yield context.warning(
            "storage-rdma-from-tenants",
            f"planes.storage.{'transport' if plane.shares is None else 'shares'}",
            f"{some(tenants)} reach storage with RDMA ({transport.value} on {network.value}), and"
            f" {_STORAGE_BY[access]}: clients hand storage the rkeys of their memory, in the clear",
            f"{_servers(context)} on that network",
            "storage_access: authenticated; isolation of tenants on that network; clients that"
            " register memory for each request",
        )


_STORAGE_BY: Final = {
    None: "who may is not stated",
    "open": "anybody may",
    "address": "an address is enough",
}


# ---------------------------------------------------------------- management


def management_is_apart(context: CheckContext) -> Iterator[Finding]:
    """Those whom jobs belong to do not reach switches and BMCs."""
    plane = context.plane(PlaneName.MANAGEMENT)
    if plane is not None and plane.shares is not None:
        yield from _management_shared(context, plane.shares)
    security = context.design.security
    if security.management_access == "in-band":
        data = [n for n in DATA if context.carrier(n) is n]
        yield context.warning(
            "management-in-band",
            "security.management_access",
            f"switches and BMCs are managed over {some(n.value for n in data)}: whoever has a job"
            " there is one login away from the devices that carry it, and a full network locks the"
            " operators out",
            _people_of(context, data),
            "management_access: out-of-band, on a management network of its own; until then ACLs"
            " on every device for the operators' hosts alone",
        )
    yield from _ways_in(context)
    tenants = [t.name for t in context.design.tenants if PlaneName.MANAGEMENT in t.planes]
    if tenants:
        number = next(i for i, t in enumerate(context.design.tenants) if t.name == tenants[0])
        yield context.warning(
            "tenant-on-management",
            f"tenants[{number}].planes",
            f"{some(tenants)} may use the management plane, on which every switch and BMC answers",
            fix="planes without management; services for tenants belong on the front-end",
        )
    if security.host_access == "bare-metal" and plane is not None and plane.shares is None:
        yield context.info(
            "bmc-behind-host",
            "planes.management",
            f"users have root on {_servers(context)} whose BMCs are on"
            " management: a host reaches its own BMC from inside, and the network behind it unless"
            " the BMC refuses",
            fix="host interfaces of the BMC closed or with credentials; BMCs kept from each other",
        )


def _management_shared(context: CheckContext, carrier: PlaneName) -> Iterator[Finding]:
    reach = f"{people_on(context, carrier)} on it reach switches and BMCs unless rules stop them"
    if carrier is PlaneName.BACKEND:
        yield context.warning(
            "management-on-backend",
            "planes.management.shares",
            "management traffic runs on the back-end: it fails with it, its bursts meet the"
            f" collectives, and {reach}",
            "a ring is as slow as its slowest link",
            "a management network of its own",
        )
    else:
        yield context.warning(
            "management-shared",
            "planes.management.shares",
            f"management shares the {carrier.value} network, fails with it, and {reach}",
            fix="a management network of its own",
        )


def _people_of(context: CheckContext, planes: Sequence[PlaneName]) -> str:
    """Say whose traffic each of some networks carries."""
    return "; ".join(f"{people_on(context, name)} on {name.value}" for name in planes)


def _ways_in(context: CheckContext) -> Iterator[Finding]:
    planes = [PlaneName(name) for name in context.design.security.management_reachable_from or ()]
    if not planes:
        return
    jobs = [n for n in planes if n is not PlaneName.FRONTEND]
    networks = list(dict.fromkeys(context.carrier(n) or n for n in planes))
    tenants = any(tenants_on(context, network) for network in networks)
    say = context.warning if jobs or tenants else context.info
    yield say(
        "management-reachable",
        "security.management_reachable_from",
        f"from {some(n.value for n in planes)} there is a way into management: a host taken there"
        f" is a step from every switch and BMC of {_servers(context)}",
        _people_of(context, networks),
        "one jump host with its own accounts, on the front-end; no route from back-end or storage",
    )


# ---------------------------------------------------------------- what is not known


def security_is_stated(context: CheckContext) -> Iterator[Finding]:
    """List what the design leaves open; none of it is taken for met."""
    open_points = [
        field for field in _wanted(context) if getattr(context.design.security, field) is None
    ]
    unsaid = [
        name.value
        for name in PlaneName
        if (plane := context.plane(name)) is not None
        and plane.encryption_required is None
        and plane.encryption == "none"
    ]
    if unsaid:
        open_points.append(f"encryption_required ({', '.join(unsaid)})")
    if not context.design.tenants:
        open_points.append("tenants (one owner is assumed)")
    if not open_points:
        return
    say = context.warning if _several(context) else context.info
    yield say(
        "security-not-stated",
        "security",
        f"not stated, so not known to be safe: {', '.join(open_points)}",
        fix="state them under security, planes and tenants",
    )


def _wanted(context: CheckContext) -> Iterator[str]:
    """Yield the statements that this design's planes call for."""
    kinds = {kind for _, kind in rdma_networks(context)}
    yield from ("host_access", "host_hardening", "access_control")
    if kinds:
        yield "rkey_scope"
    if context.plane(PlaneName.STORAGE) is not None:
        yield "storage_access"
    plane = context.plane(PlaneName.MANAGEMENT)
    if plane is None or plane.shares is None:
        yield "management_access"
    if plane is not None and plane.shares is None:
        yield "management_reachable_from"
    partitioned = any(
        getattr(context.plane(name), "isolation", "") == "pkey"
        and len(tenants_on(context, name)) > 1
        for name, _ in rdma_networks(context)
    )
    if Transport.INFINIBAND in kinds and not partitioned:  # else said with what pkey rests on
        yield "subnet_keys"


SECURITY_CHECKS = (
    *ISOLATION_CHECKS,
    hosts_are_hardened,
    users_and_adapters,
    access_is_controlled,
    memory_keys,
    storage_is_guarded,
    management_is_apart,
    security_is_stated,
)
