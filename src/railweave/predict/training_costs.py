"""Time of the collectives of a training step, by kind of group and size.

Three ways to the same :class:`CommunicationCosts`: closed forms for a cluster of given links
(quick, for searches), the collective library's model (:mod:`railweave.predict.collective`), and the
flow engine on a fabric with all groups of a kind at once, so that they contend for rails, uplinks
and ECMP paths, failures included.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd
from typing import TYPE_CHECKING, Final

import numpy as np

from railweave.design.models import Collective
from railweave.errors import InputError
from railweave.predict._cost_types import (
    MESSAGE_S,
    NETWORK_LATENCY_S,
    NETWORK_SHARE,
    OPERATIONS,
    SCALE_UP_LATENCY_S,
    SCALE_UP_SHARE,
    CommunicationCosts,
    GroupCost,
    TimeCurve,
)
from railweave.predict._fabric_costs import costs_on_fabric
from railweave.predict._training_types import PlaceShares
from railweave.provenance import Assumption, Certainty
from railweave.workload import Degrees, GroupKind, bus_factor

if TYPE_CHECKING:
    from railweave.predict.collective import NetworkPart
    from railweave.predict.system import CollectiveSystem

__all__ = [
    "NETWORK_SHARE",
    "OPERATIONS",
    "SCALE_UP_SHARE",
    "ClusterLinks",
    "CommunicationCosts",
    "GroupCost",
    "TimeCurve",
    "costs_of_links",
    "costs_of_system",
    "costs_on_fabric",
    "group_spread",
    "links_of",
]


def group_spread(degrees: Degrees, domain_gpus: int) -> dict[GroupKind, tuple[int, int]]:
    """Return (members, members in one scale-up domain) of each kind, with ranks packed in order.

    A kind's members stand ``stride`` ranks apart, so a domain of g GPUs holds g/stride of them. A
    group whose span does not divide the domain, or is not divided by it, is split somewhere: the
    smallest part decides, as the slowest group does (16 ranks on a domain of 72: 8).
    """
    t, c, d, e = degrees.tensor, degrees.context, degrees.data, degrees.expert
    blocks = gcd(t * c * d, domain_gpus) // (t * c * e)

    def inside(members: int, stride: int) -> tuple[int, int]:
        whole = gcd(members * stride, domain_gpus) // stride
        return members, max(1, min(members, whole))

    return {
        "tensor": inside(t, 1),
        "context": inside(c, t),
        "data": inside(d * c, t),
        "expert": inside(e, t * c),
        "expert-data": (
            d // e * c,
            min(d // e, blocks) * c if blocks else max(1, min(c, domain_gpus // t)),
        ),
        "pipeline": inside(degrees.pipeline, t * c * d),
    }


@dataclass(frozen=True, slots=True)
class ClusterLinks:
    """Links that closed forms need: byte/s of one GPU, one way, as collectives reach them.

    ``latency_s``: of one message inside a domain, and over the network.
    """

    domain_gpus: int
    scale_up_Bps: float  # noqa: N815 - byte/s
    network_Bps: float  # noqa: N815
    scale_up_latency_s: float = SCALE_UP_LATENCY_S
    network_latency_s: float = NETWORK_LATENCY_S


def links_of(system: CollectiveSystem) -> ClusterLinks:
    """Return the links of a cluster as a collective library sees it, at their usual shares."""
    share = system.network_Bps / system.ranks_per_domain * NETWORK_SHARE
    return ClusterLinks(system.ranks_per_domain, system.scale_up_Bps * SCALE_UP_SHARE, share)


def _ring_curve(
    op: Collective, members: int, inside: int, links: ClusterLinks
) -> tuple[float, float]:
    """Return (latency, seconds a byte) of rings, a channel a member in the domain.

    A ring leaves a domain once, so its members there lend it all of their NICs.
    """
    passes = 2 if op is Collective.ALL_REDUCE else 1
    rate = links.scale_up_Bps if inside > 1 else links.network_Bps
    latency = passes * (members - 1) * links.scale_up_latency_s
    if members > inside:
        rate = links.network_Bps * inside
        rate = min(rate, links.scale_up_Bps) if inside > 1 else rate
        between = passes * (-(-members // inside) - 1)
        latency += between * (links.network_latency_s - links.scale_up_latency_s)
    if not rate > 0:
        raise InputError(
            "training costs: ranks in several scale-up domains need a network; give the "
            "cluster's NICs, or degrees that stay in one domain"
        )
    return latency, bus_factor(op, members) / rate


def _pairwise_curve(members: int, inside: int, links: ClusterLinks) -> tuple[float, float]:
    """Return (latency, seconds a byte) of a direct all-to-all: the slower of inside and outside."""
    within = (inside - 1) / members / links.scale_up_Bps if inside > 1 else 0.0
    out = (members - inside) / members
    if out > 0 and not links.network_Bps > 0:
        return _ring_curve(Collective.ALL_GATHER, members, inside, links)  # says what is wrong
    between = out / links.network_Bps if out > 0 else 0.0
    latency = links.network_latency_s if out > 0 else links.scale_up_latency_s
    return latency + MESSAGE_S * (members - 1), max(within, between)


def costs_of_links(degrees: Degrees, links: ClusterLinks) -> CommunicationCosts:
    """Return closed-form costs: latency and bandwidth of rings and direct exchanges.

    Raises:
        InputError: groups over several domains without a network.
    """
    groups: dict[GroupKind, GroupCost] = {}
    for kind, (members, inside) in group_spread(degrees, links.domain_gpus).items():
        if members < 2:
            continue
        curves = {}
        for op in OPERATIONS[kind]:
            if op is Collective.ALL_TO_ALL:
                latency, slope = _pairwise_curve(members, inside, links)
            elif op is Collective.SEND_RECV:
                pair = 2 if inside == members else 1  # the slowest hop decides
                latency, slope = _ring_curve(op, 2, pair, links)
            else:
                latency, slope = _ring_curve(op, members, inside, links)
            curves[op] = TimeCurve((0.0, 1e9), (latency, latency + slope * 1e9))
        share = inside / members
        places = PlaceShares(server=1.0) if share == 1 else PlaceShares()
        groups[kind] = GroupCost(kind, members, curves, places, "closed form")
    return CommunicationCosts(
        degrees,
        groups,
        "latency and bandwidth of the cluster's links, an unloaded network",
        (
            Assumption(
                "links",
                f"collectives reach {NETWORK_SHARE:g} of a NIC's line rate and "
                f"{SCALE_UP_SHARE:g} of the scale-up link's; groups of a kind do not disturb "
                "each other",
                Certainty.ESTIMATED,
            ),
            Assumption("ranks", "packed on scale-up domains in rank order"),
        ),
    )


_SIZES: Final = tuple(float(1 << shift) for shift in range(12, 35, 2))


def costs_of_system(
    system: CollectiveSystem, degrees: Degrees, network: NetworkPart | None = None
) -> CommunicationCosts:
    """Return costs by the collective library's model, its choice of algorithm included.

    Each kind of group is a cluster of its own: the domains its members are spread over, with their
    share of the NICs. ``network`` is what the fabric leaves of the line rate. Hand-overs between
    stages are single messages at the links' rate.

    Raises:
        InputError: as :func:`costs_of_links`.
    """
    from railweave.predict.collective import collective_times_s

    links = links_of(system)
    plain = costs_of_links(degrees, links)
    groups = dict(plain.groups)
    share = system.nics_per_domain / system.ranks_per_domain
    for kind, (members, inside) in group_spread(degrees, links.domain_gpus).items():
        if members < 2 or kind == "pipeline":
            continue
        domains = -(-members // inside)
        nics = max(1, round(share * inside))
        rate = system.nic_Bps * share * inside / nics
        part = replace(
            system,
            domains=domains,
            ranks_per_domain=inside,
            nics_per_domain=nics,
            nic_Bps=rate,
            rank_count=0 if domains * inside == members else members,
            multicast=system.multicast and inside > 1,
        )
        curves = {}
        for op in OPERATIONS[kind]:
            times = collective_times_s(part, op, np.array(_SIZES), network=network)
            curves[op] = TimeCurve(_SIZES, tuple(float(time) for time in times))
        groups[kind] = replace(plain.groups[kind], curves=curves, how="collective library's model")
    return CommunicationCosts(
        degrees,
        groups,
        f"the collective library's model on {system.describe()}",
        (
            Assumption("ranks", "packed on scale-up domains in rank order"),
            Assumption(
                "contention",
                "groups of a kind share the NICs of a domain evenly; what the fabric takes is "
                + (network.source if network else "not counted (full line rate)"),
            ),
        ),
    )
