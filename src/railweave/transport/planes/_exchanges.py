"""What the flow engine is given for a journey: the exchange that it is part of, and its neighbours.

An exchange is what a journey belongs to, at a size that is simulated quickly: a collective among
four servers, a checkpoint of up to 64 servers, one request. Its time is proportional to its size
where no latency binds, and its slowdown is not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from railweave.design.models import Algorithm, BackgroundTraffic, Collective, PlaneName
from railweave.fabric import NodeKind, PlaneId, find_node
from railweave.transport.planes._ends import GPU_KINDS, PLANE_OF, JourneyKind
from railweave.transport.planes.system_map import PLANES
from railweave.units import format_bytes, format_seconds
from railweave.workload import Communicator, Traffic, TrafficBuilder, collective_traffic
from railweave.workload.background import SIZE_TABLES, background_traffic, host_rates

if TYPE_CHECKING:
    from railweave.api import BuiltDesign

__all__ = ["USERS", "Exchange", "crowd", "exchange_of", "neighbour", "neighbours_of"]

I32 = npt.NDArray[np.int32]

#: the neighbour that is no journey: general traffic of the front-end
USERS: Final = "users"
_COLLECTIVE_BYTES: Final = 64 * 2**20
_SERVERS: Final = 4
_HOST_BYTES: Final = 16 * 2**20
_MOST_HOSTS: Final = 64
_MESSAGE_BYTES: Final = {JourneyKind.REQUEST: 2**20, JourneyKind.MANAGEMENT: 2**16}
_CROWD_BYTES: Final = 16 * 2**20
_MOST_CROWD: Final = 1_024
#: load of general traffic where the design states none
_USERS_LOAD: Final = 0.3
_LEAST_USERS_S: Final = 1e-4
_MOST_USERS: Final = 20_000


@dataclass(frozen=True, eq=False)
class Exchange:
    """Traffic under one label, and what it is in words."""

    label: str
    what: str
    traffic: Traffic


def exchange_of(built: BuiltDesign, kind: JourneyKind, ends: tuple[str, str]) -> Exchange:
    """Return the exchange that a journey between two nodes is part of."""
    fabric = built.fabric
    source, target = (find_node(fabric, name) for name in ends)
    if kind in GPU_KINDS:
        return _collective(built, kind, source, target, f"exchange/{kind.value}")
    if kind in (JourneyKind.CHECKPOINT, JourneyKind.DATASET):
        host = source if kind is JourneyKind.CHECKPOINT else target
        return _storage(built, kind, "exchange", first=host)
    builder = TrafficBuilder(plane=_plane(kind))
    builder.plain(
        np.array([source], dtype=np.int32),
        np.array([target], dtype=np.int32),
        float(_MESSAGE_BYTES[kind]),
        label="exchange",
    )
    said = "answer of" if kind is JourneyKind.REQUEST else "transfer of"
    return Exchange("exchange", f"one {said} {format_bytes(_MESSAGE_BYTES[kind])}", builder.build())


def _plane(kind: JourneyKind) -> int:
    """Return the number of the plane whose traffic it is."""
    return int(PlaneId[PLANE_OF[kind].upper()])


# ---------------------------------------------------------------- GPUs


def _collective(
    built: BuiltDesign, kind: JourneyKind, source: int, target: int, label: str
) -> Exchange:
    nodes, channels, said = _ranks(built, source, target)
    comm = Communicator.from_fabric(built.fabric, nodes, channels=channels)
    operation, algorithm = (
        (Collective.ALL_TO_ALL, Algorithm.DIRECT)
        if kind is JourneyKind.EXPERT
        else (Collective.ALL_REDUCE, Algorithm.RING)
    )
    traffic = collective_traffic(
        operation, comm, _COLLECTIVE_BYTES, algorithm=algorithm, label=label
    )
    name = "all-to-all" if kind is JourneyKind.EXPERT else "ring all-reduce"
    return Exchange(label, f"{name} of {format_bytes(_COLLECTIVE_BYTES)} among {said}", traffic)


def _ranks(built: BuiltDesign, source: int, target: int) -> tuple[I32, int | None, str]:
    """Return GPU nodes such that the source sends to the target, rings' number, and words.

    Ends of one server: its GPUs. Ends of the same place in two servers: the GPUs of these two and
    of two more. Else these two GPUs and one each of two more servers, in one ring.
    """
    fabric = built.fabric
    servers = [int(fabric.node_server[node]) for node in (source, target)]
    if servers[0] == servers[1]:
        gpus = built.built.server_gpus(servers[0]).astype(np.int32)
        return gpus, None, f"the {len(gpus)} GPUs of one server"
    slots = [node - int(built.built.server_gpus(s)[0])
             for node, s in zip((source, target), servers, strict=True)]  # fmt: skip
    every = len(built.built.nodes.host)
    more = np.unique(np.linspace(0, every - 1, 4 * _SERVERS).astype(int)).tolist()
    chosen = [*servers, *(s for s in more if s not in servers)][:_SERVERS]
    counts = [len(built.built.server_gpus(s)) for s in chosen]
    if slots[0] == slots[1] and len(set(counts)) == 1:
        gpus = np.concatenate([built.built.server_gpus(s) for s in chosen]).astype(np.int32)
        return gpus, None, f"the {len(gpus)} GPUs of {len(chosen)} servers"
    others = [int(built.built.server_gpus(s)[min(slots[0], n - 1)])
              for s, n in zip(chosen[2:], counts[2:], strict=True)]  # fmt: skip
    gpus = np.array([source, target, *others], dtype=np.int32)
    return gpus, 1, f"one GPU each of {len(gpus)} servers"


# ---------------------------------------------------------------- storage


def _hosts(built: BuiltDesign, first: int | None, most: int) -> I32:
    """Return server hosts, evenly over all where there are more, ``first`` among them."""
    every = built.built.nodes.host.astype(np.int32)
    pick = np.unique(np.linspace(0, len(every) - 1, min(most, len(every))).astype(int))
    hosts: I32 = every[pick]
    if first is not None and first not in hosts:
        hosts = np.concatenate(([first], hosts[1:])).astype(np.int32)
    return hosts


def _storage(
    built: BuiltDesign,
    kind: JourneyKind,
    label: str,
    *,
    first: int | None = None,
    scale: float = 1.0,
    every: bool = False,
) -> Exchange:
    """Every server writes (or reads) an equal part, spread over all storage servers."""
    fabric = built.fabric
    hosts = _hosts(built, first, len(built.built.nodes.host) if every else _MOST_HOSTS)
    stores = np.flatnonzero(fabric.node_kind == NodeKind.STORAGE).astype(np.int32)
    size = _HOST_BYTES * scale
    builder = TrafficBuilder(plane=_plane(kind))
    host, store = np.repeat(hosts, len(stores)), np.tile(stores, len(hosts))
    src, dst = (host, store) if kind is JourneyKind.CHECKPOINT else (store, host)
    builder.plain(src, dst, size / len(stores), label=label)
    verb = "write" if kind is JourneyKind.CHECKPOINT else "read"
    return Exchange(
        label,
        f"{len(hosts):,} servers that {verb} {format_bytes(round(size))} each, over "
        f"{len(stores):,} storage servers",
        builder.build(),
    )


# ---------------------------------------------------------------- neighbours


def neighbours_of(built: BuiltDesign, kind: JourneyKind) -> tuple[str, ...]:
    """Return what else a design's planes may carry beside a journey's exchange."""
    found: list[str] = []
    network = built.built.network
    if np.any(built.fabric.node_kind == NodeKind.STORAGE):
        found += [JourneyKind.CHECKPOINT.value, JourneyKind.DATASET.value]
    if PlaneId.FRONTEND in network and len(built.built.nodes.host) > 1:
        found.append(USERS)
    servers = built.fabric.node_server[built.fabric.gpus]
    if kind not in GPU_KINDS and len(np.unique(servers)) > 1:
        found.append(JourneyKind.GRADIENT.value)
    return tuple(name for name in found if name != kind.value)


def neighbour(
    built: BuiltDesign, name: str, *, scale: float = 1.0, span_s: float = 1e-3
) -> Exchange:
    """Return a neighbour's traffic.

    Args:
        built: the design, built.
        name: of :func:`neighbours_of`.
        scale: its size, as a multiple of what it sends by itself.
        span_s: how long general traffic keeps coming.
    """
    label = f"neighbour/{name}"
    if name == USERS:
        return _users(built, label, span_s)
    kind = JourneyKind(name)
    if kind in (JourneyKind.CHECKPOINT, JourneyKind.DATASET):
        return _storage(built, kind, label, scale=scale, every=True)
    fabric, gpus = built.fabric, built.fabric.gpus
    servers = np.unique(fabric.node_server[gpus])
    first, last = (int(built.built.server_gpus(int(s))[0]) for s in (servers[0], servers[-1]))
    found = _collective(built, kind, first, last, label)
    sizes = found.traffic.chunk_bytes * scale
    return Exchange(label, found.what, replace(found.traffic, chunk_bytes=sizes))


def _users(built: BuiltDesign, label: str, span_s: float) -> Exchange:
    stated = [one for one in built.design.background if one.plane is PlaneName.FRONTEND]
    load = stated[0].load if stated else _USERS_LOAD
    said = "as the design states" if stated else "assumed"
    network = built.built.network[PlaneId.FRONTEND]
    _, rates_bps = host_rates(built.fabric, network)
    flows_per_s = load * float(rates_bps.sum()) / (8.0 * SIZE_TABLES["web-search"].mean_bytes)
    span = max(span_s, _LEAST_USERS_S)
    if flows_per_s * span > _MOST_USERS:
        span = _MOST_USERS / flows_per_s
        said = f"{said}; for {format_seconds(span)} only"
    spec = BackgroundTraffic.model_construct(
        name=label, plane=PlaneName.FRONTEND, load=load, sizes="web-search", duration=span,
        start=0.0,
    )  # fmt: skip
    traffic = background_traffic(spec, built.fabric, seed=built.design.seed, network=network)
    return Exchange(label, f"users at {load:.0%} of the servers' {PLANES['frontend']} links "
                    f"({said})", traffic)  # fmt: skip


def crowd(built: BuiltDesign, kind: JourneyKind, ends: tuple[str, str]) -> tuple[Traffic, Traffic]:
    """Return one message between the ends alone, and with everybody else sending likewise.

    Everybody sends to who stands half the servers further on, nobody to whom another one sends to;
    the first task is the message.
    """
    fabric = built.fabric
    source, target = (find_node(fabric, name) for name in ends)
    plane = _plane(kind)
    alone = TrafficBuilder(plane=plane)
    pair = np.array([[source], [target]], dtype=np.int32)
    alone.plain_tasks(pair[0], pair[1], float(_CROWD_BYTES), label="message")
    both = TrafficBuilder(plane=plane)
    both.plain_tasks(pair[0], pair[1], float(_CROWD_BYTES), label="message")
    src, dst = _shifted(built, kind)
    # Whoever would send to the target takes over what the source would have sent to.
    dst = np.where(dst == target, dst[src == source][:1] if source in src else -1, dst)
    keep = (src != source) & (src != dst) & (dst >= 0)
    both.plain_tasks(src[keep], dst[keep], float(_CROWD_BYTES), label="others")
    return alone.build(), both.build()


def _shifted(built: BuiltDesign, kind: JourneyKind) -> tuple[I32, I32]:
    """Return who sends to whom: the same place, half the servers further on."""
    nodes = built.built.nodes
    n = len(nodes.host)
    server = np.arange(n)
    there = (server + max(1, n // 2)) % n
    if kind not in GPU_KINDS:
        return nodes.host.astype(np.int32), nodes.host[there].astype(np.int32)
    share = max(1, -(-len(built.fabric.gpus) // _MOST_CROWD))
    src, dst = [], []
    for one, other in zip(server[::share].tolist(), there[::share].tolist(), strict=True):
        mine, theirs = built.built.server_gpus(one), built.built.server_gpus(other)
        count = min(len(mine), len(theirs))
        src.append(mine[:count])
        dst.append(theirs[:count])
    return np.concatenate(src).astype(np.int32), np.concatenate(dst).astype(np.int32)
