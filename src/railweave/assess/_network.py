"""Checks of the planes: shape, lossless intent, path choice, sharing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from railweave.assess._collisions import few_flows
from railweave.assess.context import CheckContext
from railweave.design.models import (
    CongestionName,
    PlaneName,
    RoutingScheme,
    Topology,
    Transport,
)
from railweave.fabric import PlaneId
from railweave.fabric.lossless import headroom_report
from railweave.fabric.plan import Growth, PlanePlan
from railweave.findings import Finding

__all__ = ["NETWORK_CHECKS"]

#: what host and switch must agree on, by what the senders do
INTENT: Final = {
    "dcqcn": "ECN marks at switches, CNPs by receivers, senders slow down",
    "hpcc": "senders set their window by what switches write into packets (in-band telemetry)",
    "timely": "senders set their rate by how the round trip changes",
    "swift": "senders hold the round trip at a target",
    "nscc": "senders set their window by marks and delay; receivers take packets out of order",
    "cubic": "TCP's own congestion control; switches may drop",
    "dctcp": "ECN marks at switches, TCP senders shrink their window by the share of marks",
    "cc": "switches mark forward (FECN), receivers tell senders (BECN), senders wait longer"
    " between packets; credits remain",
}
#: what is special of a scheme
INTENT_OF: Final = {
    CongestionName.NONE: "senders are not held back: loss is repaired by retransmission only",
    CongestionName.CREDITS: "link-level credits hold senders back; no drops for want of room",
    CongestionName.PFC: "one lossless priority, pause on it at hosts and switches; no marks",
    CongestionName.DCQCN: f"{INTENT['dcqcn']}; no pause",
    CongestionName.PFC_DCQCN: "ECN marks and DCQCN act first, PFC on one lossless priority is the"
    " last resort: mark below the pause threshold, same priority and DSCP at every hop",
    CongestionName.RECEIVER_DRIVEN: "the collective library admits by clear-to-send; PFC on one"
    " lossless priority guards the rest; DCQCN off",
}


def intent(scheme: CongestionName) -> str:
    """Say in a sentence what host and switch must agree on."""
    guard = "; PFC on one lossless priority is the last resort" if scheme.pfc else ""
    return INTENT_OF.get(scheme) or INTENT[scheme.control] + guard


def single_switch(context: CheckContext) -> Iterator[Finding]:
    """A network of one switch dies with it."""
    for name, _, _ in context.networks():
        if context.switches(name) != 1:
            continue
        message = f"the {name.value} plane is one switch: when it fails, the plane is gone"
        path = f"planes.{name.value}.topology"
        if name is PlaneName.MANAGEMENT:
            yield context.info("management-single-switch", path, message)
        else:
            yield context.warning(
                "single-switch",
                path,
                message,
                "1 switch, no second path between any two servers",
                "topology: leaf-spine or rail-optimized with at least two spines",
            )


def few_spines(context: CheckContext) -> Iterator[Finding]:
    """One spine is a single point of failure; fewer than four leave little when one fails."""
    for name, plane, plan in context.networks():
        spines = context.tier_sizes(name).get("spine", 0)
        # A management star may have access switches and one centre; building says so.
        if not spines or "core" in context.tier_sizes(name) or name is PlaneName.MANAGEMENT:
            continue
        each = spines // max(1, plan.networks if plan else 1)
        path, fix = f"planes.{name.value}.min_spines", "min_spines: 4, with narrower switches"
        lost = f"losing one of {each} spines takes {1 / each:.0%} of the capacity between leaves"
        if each == 1:
            yield context.warning(
                "single-spine", path, "all traffic between leaves crosses one spine", lost, fix
            )
        elif each < 4 and context.transport(plane) is Transport.ROCEV2:
            yield context.warning(
                "few-spines",
                path,
                f"{each} spines carry RoCE: published two-spine designs met PFC storms under two"
                " failures with congestion, and advise at least 4",
                lost,
                fix,
            )
        elif each < 4:
            yield context.info(
                "few-spines", path, f"the {name.value} plane has {each} spines", lost, fix
            )


def congestion_intent(context: CheckContext) -> Iterator[Finding]:
    """Say what host and switch must agree on, and warn where RoCE is left alone."""
    for name, plane, _ in context.networks():
        profile, path = context.congestion(plane), f"planes.{name.value}.congestion"
        yield context.info(
            "congestion-intent", path, f"{name.value}: {profile.value}: {intent(profile)}"
        )
        if context.transport(plane) is not Transport.ROCEV2:
            continue
        if profile is CongestionName.NONE:
            yield context.warning(
                "roce-without-congestion-control",
                path,
                "RoCE without ECN or PFC: incast drops packets, and go-back-N sends windows again",
                "congestion: none",
                "congestion: pfc+dcqcn, or dcqcn with NICs that repair single losses",
            )
        elif profile is CongestionName.PFC:
            yield context.warning(
                "pfc-without-ecn",
                path,
                "PFC alone pauses links, not senders: pauses spread upstream, flows that do not"
                " cross the bottleneck are slowed, and shares are unfair",
                "the DCQCN paper (SIGCOMM 2015), section 2, shows both",
                "congestion: pfc+dcqcn",
            )
        elif profile is CongestionName.DCQCN:
            yield context.info(
                "ecn-without-pfc",
                path,
                "without PFC a burst faster than the marks can still drop packets",
                fix="NICs that repair single losses (selective retransmission), or pfc+dcqcn",
            )
        elif profile is CongestionName.RECEIVER_DRIVEN:
            yield context.info(
                "receiver-driven-needs-library",
                path,
                "admission by the receiver is done by the collective library: plain RDMA"
                " applications on this plane have PFC only",
            )


def lossless_settings(context: CheckContext) -> Iterator[Finding]:
    """Hold classes, headroom and ECN thresholds of each switch against its ports and buffer."""
    planes = tuple(PlaneId[name.name] for name, _, _ in context.networks())
    report = headroom_report(context.fabric, context.design, context.catalog, planes)
    for finding in report.findings:
        yield context.placed(finding)


_HASHED: Final = (RoutingScheme.ECMP, RoutingScheme.E_ECMP)


def hash_polarisation(context: CheckContext) -> Iterator[Finding]:
    """Equal seeds make the second hash repeat the choice of the first."""
    for name, plane, _ in context.networks():
        if plane.routing.seeds != "equal" or context.scheme(plane) not in _HASHED:
            continue
        path, tiers = f"planes.{name.value}.routing.seeds", len(context.tier_sizes(name))
        if tiers >= 3:
            yield context.warning(
                "hash-polarisation",
                path,
                "all switches hash with one seed: flows that a leaf sends to one spine take the"
                " same choice there again, and most uplinks of that spine stay idle",
                f"{tiers} tiers, seeds: equal",
                "seeds: per-switch",
            )
        else:
            yield context.info(
                "equal-hash-seeds",
                path,
                "equal seeds do no harm while paths are chosen once; with a third tier they do",
                fix="seeds: per-switch",
            )


def oversubscribed_all_to_all(context: CheckContext) -> Iterator[Finding]:
    """All-to-all over an oversubscribed tier takes as many times longer as the ratio says."""
    jobs = context.all_to_all_jobs()
    plan = context.built.plans.get(PlaneId.BACKEND)
    ratio = plan.provisioned if plan else None
    if not jobs or ratio is None or ratio <= 1 + 1e-9:
        return
    names = ", ".join(job.name for job in jobs)
    yield context.warning(
        "oversubscribed-all-to-all",
        "planes.backend.oversubscription",
        f"the leaves are oversubscribed {ratio:.3g}:1, and {names} send from everybody to"
        f" everybody: traffic that leaves a leaf takes up to {ratio:.3g} times as long",
        f"provisioned down/up of a leaf: {ratio:.4g}",
        "oversubscription: 1, or placement that keeps the groups under a leaf",
    )


def planes_are_apart(context: CheckContext) -> Iterator[Finding]:
    """Management and storage have networks that training cannot fill."""
    if context.plane(PlaneName.MANAGEMENT) is None:
        yield context.warning(
            "no-management-plane",
            "planes",
            "no management plane: when the data network is down or full, nobody can reach a switch",
            fix="management: {transport: tcp, topology: star, speed: 1 Gb/s}",
        )
    if context.plane(PlaneName.FRONTEND) is None:
        yield context.warning(
            "no-frontend-plane",
            "planes",
            "no front-end plane: servers are not dual-homed, users and services have no network",
            fix="frontend: {transport: tcp, topology: leaf-spine}",
        )
    if context.plane(PlaneName.STORAGE) is None:
        yield context.info(
            "no-storage-plane", "planes", "no storage plane: where datasets come from is not said"
        )
    for name in (PlaneName.STORAGE, PlaneName.FRONTEND):  # management: see _security.py
        if context.plane(name) is None or context.carrier(name) is name:
            continue
        carrier, path = context.carrier(name), f"planes.{name.value}.shares"
        assert carrier is not None
        if carrier is PlaneName.BACKEND:
            yield context.warning(
                f"{name.value}-on-backend",
                path,
                f"{name.value} traffic runs on the back-end: its bursts meet the collectives",
                "a ring is as slow as its slowest link",
                "a network of its own, or shares: frontend",
            )
        else:
            yield context.info(
                "plane-shared", path, f"{name.value} traffic shares the {carrier.value} network"
            )


def growth_near(context: CheckContext) -> Iterator[Finding]:
    """Say when the shape is nearly full, and what follows it."""
    for name, plane, plan in context.networks():
        step = _step_in_use(plan)
        if plan is None or step is None or not step.max_servers:
            continue
        used = plan.counts.servers / step.max_servers
        if used >= 0.9:
            yield context.info(
                "growth-limit-near",
                f"planes.{name.value}.topology",
                f"{plan.counts.servers} of {step.max_servers} servers that {step.topology} takes"
                f" with these switches ({used:.0%}); then follows {step.follows}",
                f"{(plane.topology or Topology.LEAF_SPINE).value},"
                f" {plan.counts.gpus} of {step.max_gpus} GPUs",
            )


def _step_in_use(plan: PlanePlan | None) -> Growth | None:
    """Return the growth step of the number of tiers that was built."""
    if plan is None or plan.size is None or not plan.growth:
        return None
    return plan.growth[min(plan.size.tiers, len(plan.growth)) - 1]


NETWORK_CHECKS = (
    single_switch,
    few_spines,
    congestion_intent,
    lossless_settings,
    hash_polarisation,
    few_flows,
    oversubscribed_all_to_all,
    planes_are_apart,
    growth_near,
)
