"""Checks of resilience, power, software and services."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from railweave.assess.context import CheckContext
from railweave.design.models import Algorithm, PlaneName, ServiceKind, Transport
from railweave.fabric import PlaneId
from railweave.findings import Finding

__all__ = ["OPERATIONS_CHECKS"]

#: first NCCL whose GPUs hand all-to-all messages over NVLink to the GPU on the right rail (PXN)
NCCL_WITH_PXN: Final = (2, 12)
SOFTWARE: Final = ("firmware", "driver", "nccl", "nos")
#: first number of a NIC's firmware version by family, as its maker numbers releases; the longer
#: name first
FIRMWARE_SERIES: Final = {
    "ConnectX-6 Dx": 22,
    "ConnectX-6": 20,
    "ConnectX-7": 28,
    "ConnectX-8": 40,
    "BlueField-3": 32,
}
#: GPU in the catalog → first driver, where one is published (NVIDIA's platform list: HGX B200)
FIRST_DRIVER: Final = {"b200": (570, 133, 20)}


def attached_twice(context: CheckContext) -> Iterator[Finding]:
    """Say where all links of a server end at one switch."""
    for name, plane, _ in context.networks():
        if name is PlaneName.MANAGEMENT or context.switches(name) < 2:
            continue
        leaves = context.leaves_of_servers(name)
        single = [server for server, number in leaves.items() if number == 1]
        if single:
            yield context.warning(
                "attached-to-one-switch",
                f"planes.{name.value}.dual_tor",
                f"{len(single)} of {len(leaves)} servers reach {name.value} by one switch, which"
                " takes them along when it fails",
                f"first: {_server(context, single[0])}",
                "dual_tor: true with two links a server",
            )
        if plane.dual_tor and plane.links_per_cable.host_leaf > 1:
            yield context.warning(
                "twin-links-in-one-cable",
                f"planes.{name.value}.links_per_cable",
                "dual_tor asks for two switches, but one cable carries"
                f" {plane.links_per_cable.host_leaf} host links: they end at one switch",
                fix="host-leaf: 1 where dual_tor is true",
            )


def _server(context: CheckContext, number: int) -> str:
    names = context.fabric.server_names
    return names[number] if number < len(names) else f"server {number}"


def objectives_hold(context: CheckContext) -> Iterator[Finding]:
    """Take parts out of the back-end, and hold what remains against the objectives."""
    from railweave.fabric.availability import server_availability
    from railweave.fabric.survival import objective_findings

    wanted = context.design.objectives
    missed = objective_findings(context.fabric, wanted, seed=context.design.seed)
    yield from missed
    if (wanted.survive_switches or wanted.survive_links) and not missed:
        yield context.info(
            "failure-objective-met",
            "objectives",
            f"{wanted.survive_switches} switches and {wanted.survive_links} links may fail at once:"
            f" no server is cut off, at least {wanted.min_bandwidth:.0%} of the bisection remain",
            "the worst found by search and random draws; exact for one part, no proof for several",
        )
    if wanted.availability is None:
        return
    found = server_availability(context.fabric, PlaneId.BACKEND, objective=wanted.availability)
    if found is None:
        return
    yield from found.findings()
    if found.met:
        yield context.info(
            "availability-objective-met",
            "objectives.availability",
            f"a server's back-end connection is whole {found.whole:.6%} of the time",
            "; ".join(assumption.statement for assumption in found.assumptions),
        )


def power_and_cooling(context: CheckContext) -> Iterator[Finding]:
    """Hold racks and hall against what they may draw."""
    from railweave.assess.power import design_power

    yield from design_power(context.loaded, context.built).findings


def subnet_manager(context: CheckContext) -> Iterator[Finding]:
    """An InfiniBand network has a subnet manager, and a second that takes over."""
    for name, plane, _ in context.networks():
        if context.transport(plane) is not Transport.INFINIBAND:
            continue
        path = f"planes.{name.value}"
        managers = [
            service
            for service in context.design.services
            if service.kind is ServiceKind.SUBNET_MANAGER and context.carrier(service.plane) is name
        ]
        instances = sum(service.instances for service in managers)
        appliance = [host for host in plane.extra_hosts if "ufm" in host.lower()]
        if not managers and appliance:
            yield context.info(
                "subnet-manager-assumed",
                f"{path}.extra_hosts",
                f"no subnet manager is stated; {', '.join(appliance)} is taken to run it",
                fix=f"services: [{{kind: subnet-manager, plane: {name.value}, instances: 2}}]",
            )
        elif not managers:
            yield context.warning(
                "no-subnet-manager",
                path,
                f"no subnet manager on {name.value}: without one no InfiniBand port becomes active",
                fix=f"services: [{{kind: subnet-manager, plane: {name.value}, instances: 2}}]",
            )
        elif instances < 2:
            yield context.warning(
                "single-subnet-manager",
                f"{path}.transport",
                "one subnet manager: when it fails, no failure is routed around any more",
                "instances: 1",
                "instances: 2 on different servers",
            )


def services_stated(context: CheckContext) -> Iterator[Finding]:
    """Scheduler and monitoring are stated, and do not depend on what they watch."""
    for kind in (ServiceKind.SCHEDULER, ServiceKind.MONITORING):
        found = [
            (number, service)
            for number, service in enumerate(context.design.services)
            if service.kind is kind
        ]
        if not found:
            yield context.info(
                f"no-{kind.value}",
                "services",
                f"no {kind.value} is stated: who runs it, and on which plane, is open",
                fix=f"services: [{{kind: {kind.value}, plane: management}}]",
            )
        for number, service in found:
            if context.carrier(service.plane) is PlaneName.BACKEND:
                yield context.warning(
                    "service-on-backend",
                    f"services[{number}].plane",
                    f"the {kind.value} lives on the back-end, and is blind when that is congested",
                    fix="plane: management or frontend",
                )
            if kind is ServiceKind.MONITORING and service.instances < 2:
                yield context.info(
                    "single-monitoring",
                    f"services[{number}].instances",
                    "one monitoring instance: its failure blinds the operators",
                    fix="instances: 2",
                )


def software_known(context: CheckContext) -> Iterator[Finding]:
    """Versions are stated; bounds that are known are held."""
    software = context.design.software
    unknown = [field for field in SOFTWARE if getattr(software, field) is None]
    if unknown:
        yield context.info(
            "software-unknown",
            "software",
            f"versions not stated: {', '.join(unknown)}; baselines and known faults depend on them",
            fix="state them under software",
        )
    yield from _firmware(context)
    yield from _driver(context)
    yield from _nccl(context)
    yield from _nos(context)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def _firmware(context: CheckContext) -> Iterator[Finding]:
    """Hold the series of the firmware against the back-end NICs of servers from the catalog."""
    version = context.design.software.firmware
    series = _numbers(version or "")[:1]
    if not series or series[0] not in FIRMWARE_SERIES.values():
        return
    for number, group in enumerate(context.design.cluster.servers):
        nics = context.catalog.server(group.model).nics if group.model else {}
        if "backend" not in nics:
            continue
        title = context.catalog.nic(nics["backend"].nic).title
        family = next((name for name in FIRMWARE_SERIES if name in title), None)
        if family is not None and FIRMWARE_SERIES[family] != series[0]:
            other = next(name for name, first in FIRMWARE_SERIES.items() if first == series[0])
            yield context.warning(
                "firmware-of-another-nic",
                "software.firmware",
                f"firmware {version} is of {other}, but servers of group {number + 1} have {title}",
                f"{family} firmware is numbered {FIRMWARE_SERIES[family]}.x",
                f"a version {FIRMWARE_SERIES[family]}.x",
            )


def _driver(context: CheckContext) -> Iterator[Finding]:
    """Hold the driver against the first one that knows the GPU, where that is published."""
    version = context.design.software.driver
    if version is None or not _numbers(version):
        return
    gpus = {
        group.inline.gpu if group.inline else context.catalog.server(group.model or "").gpu
        for group in context.design.cluster.servers
    }
    for gpu in sorted(name for name in gpus if name in FIRST_DRIVER):
        first = FIRST_DRIVER[gpu]
        if _numbers(version) < first[: len(_numbers(version))]:
            least = ".".join(str(number) for number in first)
            yield context.warning(
                "driver-too-old",
                "software.driver",
                f"driver {version} is older than the first for {context.catalog.gpu(gpu).title}",
                f"the maker's platform list asks for {least} or later",
                f"driver {least} or later",
            )


def _nos(context: CheckContext) -> Iterator[Finding]:
    """One system is stated: some of the switches named must offer it, and which do not is said."""
    stated = context.design.software.nos
    if stated is None:
        return
    named = [
        (f"planes.{name.value}.{field}", part)
        for name, plane, _ in context.networks()
        for field, part in context.catalog_switches(plane)
        if part.nos
    ]
    without = [(path, p) for path, p in named if not any(_same_system(stated, n) for n in p.nos)]
    nobody = len(without) == len(named)
    for path, part in without:
        make = context.warning if nobody else context.info
        yield make(
            "nos-not-offered",
            path,
            f"{stated} is not among the systems of {part.title}",
            f"the catalog has: {', '.join(part.nos)}",
            "another system in software.nos, or another switch",
        )


def _same_system(stated: str, offered: str) -> bool:
    def plain(text: str) -> str:
        return re.sub(r"[^a-z]", "", text.casefold())

    return plain(stated).startswith(plain(offered)) or plain(offered).startswith(plain(stated))


def _nccl(context: CheckContext) -> Iterator[Finding]:
    version = context.design.software.nccl
    if version is None:
        return
    numbers = _numbers(version)[:2]
    if len(numbers) < 2:
        yield context.warning(
            "nccl-version-unreadable",
            "software.nccl",
            f"{version!r} is no version such as 2.27.3, so its bounds are not checked",
            fix="write the version itself, such as nccl: 2.27.3",
        )
        return
    jobs = context.all_to_all_jobs()
    if numbers < NCCL_WITH_PXN and jobs:
        aligned = [job for job in jobs if job.algorithm is Algorithm.RAIL_ALIGNED]
        make = context.error if aligned else context.warning
        yield make(
            "nccl-without-pxn",
            "software.nccl",
            f"NCCL {version} cannot hand messages over NVLink to the GPU on the right rail (PXN):"
            f" all-to-all of {', '.join(job.name for job in aligned or jobs)} crosses the spines",
            "PXN came with NCCL 2.12",
            "NCCL 2.12 or later",
        )
    elif numbers < NCCL_WITH_PXN:
        yield context.info(
            "nccl-without-pxn",
            "software.nccl",
            f"NCCL {version} has no PXN; all-to-all would need it",
        )


def parts_are_shipping(context: CheckContext) -> Iterator[Finding]:
    """Say which parts are only announced, and so what their figures are worth."""
    for number, group in enumerate(context.design.cluster.servers):
        if group.model is not None:
            part = context.catalog.server(group.model)
            if part.status == "announced":
                yield _announced(context, f"cluster.servers[{number}].model", part.title)
    for name, plane, _ in context.networks():
        for field, switch in context.catalog_switches(plane):
            if switch.status == "announced":
                yield _announced(context, f"planes.{name.value}.{field}", switch.title)


def _announced(context: CheckContext, path: str, title: str) -> Finding:
    return context.warning(
        "announced-part",
        path,
        f"{title} is announced, not shipping: its figures may change",
        fix="a shipping part where dates matter",
    )


OPERATIONS_CHECKS = (
    attached_twice,
    objectives_hold,
    power_and_cooling,
    subnet_manager,
    services_stated,
    software_known,
    parts_are_shipping,
)
