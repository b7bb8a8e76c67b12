"""Between what a journey runs: ends that a design's jobs or parts suggest, or given ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from railweave.design.models import Collective
from railweave.errors import InputError
from railweave.fabric import NodeKind, PlaneId, find_node
from railweave.fabric.names import node_name
from railweave.transport.planes.system_map import PLANES, SystemMap
from railweave.workload import GroupKind
from railweave.workload.step_messages import step_messages

if TYPE_CHECKING:
    from railweave.api import BuiltDesign
    from railweave.fabric.routing import Routing
    from railweave.workload import JobPlan

__all__ = [
    "GPU_KINDS",
    "PLANE_OF",
    "JourneyKind",
    "PlaneEnds",
    "default_ends",
    "given_ends",
    "network_of",
    "other_gpus",
]

I64 = npt.NDArray[np.int64]


class JourneyKind(StrEnum):
    """What can travel."""

    GRADIENT = "gradient"
    TENSOR = "tensor"
    EXPERT = "expert"
    CHECKPOINT = "checkpoint"
    DATASET = "dataset"
    REQUEST = "request"
    MANAGEMENT = "management"


#: journeys that begin and end in a GPU
GPU_KINDS: Final = (JourneyKind.GRADIENT, JourneyKind.TENSOR, JourneyKind.EXPERT)
#: journey → plane whose traffic it is
PLANE_OF: Final[Mapping[JourneyKind, str]] = {
    JourneyKind.GRADIENT: "backend",
    JourneyKind.TENSOR: "backend",
    JourneyKind.EXPERT: "backend",
    JourneyKind.CHECKPOINT: "storage",
    JourneyKind.DATASET: "storage",
    JourneyKind.REQUEST: "frontend",
    JourneyKind.MANAGEMENT: "management",
}
_GROUPS: Final[Mapping[JourneyKind, tuple[GroupKind, ...]]] = {
    JourneyKind.GRADIENT: ("data", "expert-data"),
    JourneyKind.TENSOR: ("tensor",),
    JourneyKind.EXPERT: ("expert",),
}
#: collectives of a job without a model that stand for a kind
_OPERATIONS: Final[Mapping[JourneyKind, tuple[Collective, ...]]] = {
    JourneyKind.GRADIENT: (
        Collective.ALL_REDUCE,
        Collective.REDUCE_SCATTER,
        Collective.ALL_GATHER,
    ),
    JourneyKind.EXPERT: (Collective.ALL_TO_ALL,),
}
_SAID: Final = {
    JourneyKind.GRADIENT: "gradients",
    JourneyKind.TENSOR: "activations of tensor groups",
    JourneyKind.EXPERT: "tokens to experts",
}
_ENDPOINTS: Final = (NodeKind.HOST, NodeKind.STORAGE, NodeKind.EXTRA)
#: kinds of node that a journey may begin and end in, where they are given
_ALLOWED: Final[Mapping[JourneyKind, tuple[tuple[NodeKind, ...], tuple[NodeKind, ...]]]] = {
    **dict.fromkeys(GPU_KINDS, ((NodeKind.GPU,), (NodeKind.GPU,))),
    JourneyKind.CHECKPOINT: ((NodeKind.HOST,), (NodeKind.STORAGE,)),
    JourneyKind.DATASET: ((NodeKind.STORAGE,), (NodeKind.HOST,)),
    JourneyKind.REQUEST: (_ENDPOINTS, (NodeKind.HOST,)),
    JourneyKind.MANAGEMENT: (_ENDPOINTS, (NodeKind.HOST,)),
}
_KIND_SAID: Final = {
    NodeKind.GPU: "a GPU such as node001/gpu0",
    NodeKind.HOST: "a server such as node001",
    NodeKind.STORAGE: "a storage server such as storage001",
    NodeKind.EXTRA: "another host of the fabric",
}
#: distinct pairs of a job among which the farthest is looked for
_MOST_PAIRS: Final = 50_000


@dataclass(frozen=True, slots=True)
class PlaneEnds:
    """Source and target nodes of a journey, and why these.

    ``coming_in``: it comes from outside, so the way up to the top tier is left out.
    """

    source: int
    target: int
    why: str = ""
    coming_in: bool = False


def given_ends(
    built: BuiltDesign, kind: JourneyKind, ends: PlaneEnds, source: str, target: str
) -> PlaneEnds:
    """Return the ends with those replaced that are given by name.

    Where one is given that was the other end, the two change places.

    Raises:
        InputError: a name that does not exist, or of a node that this kind cannot begin or end in.
    """
    fabric = built.fabric
    nodes = [ends.source, ends.target]
    for place, (name, said, allowed) in enumerate(
        ((source, "from", _ALLOWED[kind][0]), (target, "to", _ALLOWED[kind][1]))
    ):
        if not name:
            continue
        nodes[place] = find_node(fabric, name)
        if fabric.node_kind[nodes[place]] not in allowed:
            wanted = " or ".join(_KIND_SAID[one] for one in allowed)
            raise InputError(f"{said} {name}: a journey of kind {kind.value} needs {wanted} there")
    if nodes[0] == nodes[1] and not (source and target):
        nodes = [nodes[0], ends.source] if source else [ends.target, nodes[1]]
    if nodes[0] == nodes[1]:
        raise InputError(
            f"from and to are both {node_name(fabric, nodes[0])}; give two different ones"
        )
    why = "as asked" if source and target else "one as asked, the other as the design suggests"
    return PlaneEnds(nodes[0], nodes[1], why, coming_in=ends.coming_in and not source)


def default_ends(
    built: BuiltDesign,
    system: SystemMap,
    kind: JourneyKind,
    network: str,
    routing: Routing,
) -> PlaneEnds | str:
    """Return the ends that the design suggests; where there are none, a sentence why."""
    if kind in GPU_KINDS:
        return _gpus(built, kind, routing)
    if kind in (JourneyKind.CHECKPOINT, JourneyKind.DATASET):
        stores = system.stations.get("storage-server")
        if stores is None:
            return "The design has no storage servers: there is nothing to write to or read from."
        server, store = int(built.built.nodes.host[0]), stores.nodes[-1]
        pair = (server, store) if kind is JourneyKind.CHECKPOINT else (store, server)
        return PlaneEnds(*pair, "the first server and the last storage server")
    return _from_outside(built, system, kind, network)


# ---------------------------------------------------------------- GPUs


def _gpus(built: BuiltDesign, kind: JourneyKind, routing: Routing) -> PlaneEnds | str:
    gpus = built.fabric.gpus
    if len(gpus) < 2:
        return f"The design has one GPU: it has nobody to send {_SAID[kind]} to."
    try:
        found = _of_jobs(built, kind, routing)
    except InputError as error:
        return _by_place(built, kind, f"what the design sends cannot be worked out ({error})")
    return found or _by_place(built, kind, f"no job of the design sends {_SAID[kind]}")


def _of_jobs(built: BuiltDesign, kind: JourneyKind, routing: Routing) -> PlaneEnds | None:
    """Return the two GPUs that lie farthest apart of those that the first such job lets talk."""
    for plan in built.workload().jobs:
        pairs = _pairs(plan, kind)
        if not pairs.size:
            continue
        paths = routing.paths(pairs[:, 0].astype(np.int32), pairs[:, 1].astype(np.int32))
        place = int(paths.message[int(np.argmax(np.diff(paths.ptr)))])
        source, target = (int(node) for node in pairs[place])
        why = f"job {plan.name} sends {_SAID[kind]} between {len(pairs):,} pairs of GPUs"
        return PlaneEnds(source, target, f"{why}; none is farther apart than these")
    return None


def _pairs(plan: JobPlan, kind: JourneyKind) -> I64:
    """Return the GPU nodes between which a job sends traffic of a kind, (P, 2)."""
    found: list[I64] = []
    if plan.step is not None:
        sent = step_messages(plan.step)
        for group in _GROUPS[kind]:
            if group in sent:
                ranks = np.stack((sent[group].src, sent[group].dst), axis=1)
                found.append(plan.nodes.astype(np.int64)[ranks])
    elif plan.op in _OPERATIONS.get(kind, ()):
        found.append(np.stack((plan.traffic.src, plan.traffic.dst), axis=1).astype(np.int64))
    if not found:
        return np.zeros((0, 2), dtype=np.int64)
    pairs: I64 = np.unique(np.concatenate(found), axis=0)
    apart: I64 = pairs[pairs[:, 0] != pairs[:, 1]]
    return apart[:_MOST_PAIRS]


def _by_place(built: BuiltDesign, kind: JourneyKind, why: str) -> PlaneEnds:
    """Return GPUs by their places: of one server for a tensor group, else of the first and last."""
    fabric, gpus = built.fabric, built.fabric.gpus
    server = fabric.node_server[gpus]
    beside = gpus[server == server[0]]
    if kind is JourneyKind.TENSOR and len(beside) > 1:
        return PlaneEnds(int(gpus[0]), int(beside[-1]), f"two GPUs of one server, as {why}")
    there = gpus[server == server[-1]]
    last = there[0] if there[0] != gpus[0] else gpus[-1]
    if kind is JourneyKind.EXPERT:
        last = gpus[-1]
    return PlaneEnds(int(gpus[0]), int(last), f"by their places, as {why}")


def other_gpus(built: BuiltDesign) -> Iterator[tuple[str, int, int]]:
    """Yield other pairs of GPUs that are worth a look: what they are, source, target."""
    fabric, gpus = built.fabric, built.fabric.gpus
    server = fabric.node_server[gpus]
    first, last = gpus[server == server[0]], gpus[server == server[-1]]
    if server[0] != server[-1]:
        yield "first and last server, same rail", int(first[0]), int(last[0])
        if len(last) > 1:
            yield "first and last server, another rail", int(first[0]), int(last[-1])
    if len(first) > 1:
        yield "inside the first server", int(first[0]), int(first[-1])


# ---------------------------------------------------------------- from outside


def _from_outside(
    built: BuiltDesign, system: SystemMap, kind: JourneyKind, network: str
) -> PlaneEnds | str:
    """Return the ends of what users or administrators send to the first server.

    Management starts at a service of its network, where there is one with a port. Everything else
    is traced from the farthest host, and its way up left out.
    """
    hosts = built.built.nodes.host
    near = [one for one in system.stations.values() if one.plane == network and one.count]
    services = [one for one in near if one.what == "service"]
    others = [one for one in near if one.what in ("storage", "service", "other")]
    if kind is JourneyKind.MANAGEMENT and services:
        one = services[0]
        return PlaneEnds(
            one.nodes[0], int(hosts[0]), f"the {one.label}'s host and the first server"
        )
    why = "what comes from outside is taken to come in at the top tier, down to the first server"
    if len(hosts) > 1:
        return PlaneEnds(int(hosts[-1]), int(hosts[0]), why, coming_in=True)
    if others:
        return PlaneEnds(others[0].nodes[0], int(hosts[0]), why, coming_in=True)
    return f"One server alone is on the {PLANES[network]} network: nobody else to hear from."


def network_of(system: SystemMap, kind: JourneyKind) -> PlaneId | None:
    """Return the network that carries a journey, None where the design has none."""
    carrier = system.carrier.get(PLANE_OF[kind])
    return PlaneId[carrier.upper()] if carrier else None
