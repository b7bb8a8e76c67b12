"""A plane collapsed by pod (scalable unit, zone, segment), rail and parallel plane.

:func:`collapse` turns the Fabric arrays into a few boxes and the bundles between them, which
:mod:`railweave.report.drawing` draws. Nothing here knows a topology by name: only tiers, pods,
rails and parallel planes.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from railweave.fabric import TIER_NAMES, Fabric, PlaneId
from railweave.units import counted

__all__ = ["DisplayEdge", "DisplayNode", "TopologyView", "collapse", "part_of", "tier_plural"]

I64 = npt.NDArray[np.int64]
#: boxes of one tier in one pod, before they are taken together
MOST_IN_POD = 8
#: boxes of one tier outside all pods, and lines from the tier below to them
MOST_SHARED = 16
MOST_LINES = 160
#: pods drawn; the rest is said in a note
MOST_PODS = 16


@dataclass(frozen=True, slots=True)
class DisplayNode:
    """A box: ``count`` devices of one tier; ``pod`` −1 where it belongs to none.

    ``subplane`` is the parallel plane, −1 where there is only one or the box has a part in all.
    ``members`` are its nodes: switches, or the ends of its servers (NICs, hosts).
    """

    key: int
    tier: int
    pod: int
    subplane: int
    label: str
    detail: str
    count: int
    members: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class DisplayEdge:
    """A bundle of duplex links between two boxes; ``down_links`` of them are out.

    ``duplex`` are the numbers of the links.
    """

    lower: int
    upper: int
    links: int
    down_links: int
    capacity_bps: float
    duplex: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopologyView:
    """Boxes and bundles of one plane; ``pod_name`` is what its pods are called.

    ``totals`` are (tier, devices of it in the whole plane); ``note`` says what is not drawn.
    """

    nodes: tuple[DisplayNode, ...]
    edges: tuple[DisplayEdge, ...]
    totals: tuple[tuple[int, int], ...]
    pod_name: str
    note: str


def tier_plural(tier: int, count: int) -> str:
    """Return ``1 leaf``, ``32 leaves``, ``16 spines``."""
    name = TIER_NAMES.get(tier, "switch") if tier else "server"
    if count != 1:
        name = {"leaf": "leaves", "switch": "switches"}.get(name, f"{name}s")
    return f"{count:,} {name}"


def part_of(pod: int, tier: int) -> str:
    """Return the name of what is opened together: ``pod-3``, ``tier-2`` (outside pods), ``hosts``.

    Boxes outside all pods go by their tier; ``hosts`` are end nodes outside all pods.
    """
    return f"pod-{pod + 1}" if pod >= 0 else f"tier-{tier}" if tier else "hosts"


def collapse(
    fabric: Fabric,
    plane: PlaneId = PlaneId.BACKEND,
    *,
    pod_name: str = "pod",
    opened: Collection[str] = (),
    most_pods: int = MOST_PODS,
) -> TopologyView:
    """Collapse a plane to a few dozen boxes and the bundles between them.

    Args:
        fabric: all planes.
        plane: the one to collapse.
        pod_name: what its pods are called.
        opened: parts (see `part_of`) in which every switch and server has a box of its own.
        most_pods: pods drawn; the rest is said in the view's note.
    """
    switches = fabric.switches(plane).astype(np.int64)
    ends = _ends(fabric, switches)
    fabric = replace(fabric, node_pod=_pods(fabric, ends))
    tiers = np.maximum(fabric.node_tier[switches], 1)
    rows = [(0, ends)] + [(int(t), switches[tiers == t]) for t in np.unique(tiers)]
    last_pod = np.unique(fabric.node_pod[ends][fabric.node_pod[ends] >= 0])[:most_pods]
    limit = int(last_pod[-1]) if last_pod.size else -1
    box_of = np.full(fabric.n_nodes, -1, dtype=np.int64)
    nodes: list[DisplayNode] = []
    for tier, members in rows:
        inside = members[fabric.node_pod[members] <= limit]
        below = sum(node.tier == tier - 1 for node in nodes)
        keys = _box_keys(fabric, inside, tier, below)
        keys = _opened_keys(fabric, inside, tier, keys, opened)
        for key in np.unique(keys):
            box = inside[keys == key]
            box_of[box] = len(nodes)
            nodes.append(_node(fabric, box, tier, len(nodes), pod_name))
    pods = np.unique(fabric.node_pod[ends])
    hidden = int(np.sum(pods > limit))
    note = f"{hidden:,} more of the {len(pods):,} {pod_name}s are not drawn" if hidden else ""
    totals = tuple((tier, _devices(fabric, members, tier)) for tier, members in rows)
    return TopologyView(tuple(nodes), _edges(fabric, box_of, len(nodes)), totals, pod_name, note)


def _ends(fabric: Fabric, switches: I64) -> I64:
    """Return the end nodes that these switches' links lead to."""
    is_switch = np.zeros(fabric.n_nodes, dtype=bool)
    is_switch[switches] = True
    ends = fabric.link_src[is_switch[fabric.link_dst] & ~is_switch[fabric.link_src]]
    # Another plane's switch is no end of this one.
    return np.unique(ends[fabric.node_tier[ends] == 0]).astype(np.int64)


def _pods(fabric: Fabric, ends: I64) -> npt.NDArray[np.int32]:
    """Return pods with every server in the pod of the leaves that it hangs on."""
    is_server = np.zeros(fabric.n_nodes, dtype=bool)
    is_server[ends[fabric.node_server[ends] >= 0]] = True
    links = np.flatnonzero(is_server[fabric.link_src] & (fabric.node_tier[fabric.link_dst] != 0))
    pods = fabric.node_pod.copy()
    pods[fabric.link_src[links]] = fabric.node_pod[fabric.link_dst[links]]
    return pods


def _devices(fabric: Fabric, members: I64, tier: int) -> int:
    """Count switches, or the servers behind end nodes."""
    if tier:
        return len(members)
    servers = fabric.node_server[members]
    return len(np.unique(servers[servers >= 0]))


def _box_keys(fabric: Fabric, nodes: I64, tier: int, below: int) -> I64:
    """Return a box number for each node: itself, its pod and rail, or its pod and plane.

    The finest of these is taken that leaves few enough boxes in every pod. Switches outside all
    pods go together by consecutive numbers; ``below`` is the number of boxes in the tier below.
    """
    pod = fabric.node_pod[nodes].astype(np.int64) + 1
    rail = fabric.node_rail[nodes].astype(np.int64) + 1
    subplane = fabric.node_subplane[nodes].astype(np.int64)
    if tier == 0:
        other = (fabric.node_server[nodes] < 0).astype(np.int64)
        return pod * 2 + other
    coarse = pod * 1000 + subplane
    if (pod == 0).all():
        return _in_runs(subplane, below)
    for keys in (np.arange(len(nodes), dtype=np.int64), coarse * 1000 + rail):
        pairs = np.unique(np.stack((pod, keys)), axis=1)
        crowd = np.bincount(pairs[0])
        if crowd[1:].max(initial=0) <= MOST_IN_POD and crowd[0] <= MOST_SHARED:
            return _in_order(keys, coarse)
    return coarse


def _opened_keys(fabric: Fabric, nodes: I64, tier: int, keys: I64, opened: Collection[str]) -> I64:
    """Return the same boxes, but one for each switch or server in the parts that are opened."""
    pods = fabric.node_pod[nodes]
    wanted = [pod for pod in np.unique(pods).tolist() if part_of(pod, tier) in opened]
    mine = np.isin(pods, wanted)
    if not mine.any():
        return keys
    server = fabric.node_server[nodes].astype(np.int64)
    one = np.where((server >= 0) & (tier == 0), server, fabric.n_nodes + nodes)
    # A server with ends in several pods has a box in each.
    span = 2 * fabric.n_nodes + 1
    own = keys.max(initial=0) + 1 + (pods.astype(np.int64) + 1) * span + one
    return np.where(mine, own, keys)


def _in_runs(subplane: I64, below: int) -> I64:
    """Return boxes of consecutive switches, each of one parallel plane and all alike in size."""
    planes, size = np.unique(subplane, return_counts=True)
    room = MOST_SHARED if below <= MOST_LINES // MOST_SHARED else max(1, MOST_LINES // below)
    boxes = max(1, room // len(planes))
    # Runs of equal length: the most boxes there is room for that divide a plane's switches.
    least = int(size.min())
    boxes = next((n for n in range(min(boxes, least), 0, -1) if least % n == 0), 1)
    order = np.empty(len(subplane), dtype=np.int64)
    for plane, count in zip(planes, size, strict=True):
        mine = subplane == plane
        order[mine] = np.arange(count) * boxes // count
    return subplane * 1000 + order


def _in_order(keys: I64, coarse: I64) -> I64:
    """Return the same boxes numbered by pod and parallel plane first."""
    _, rank = np.unique(np.stack((coarse, keys)), axis=1, return_inverse=True)
    return rank.reshape(-1).astype(np.int64)


def _one(values: npt.NDArray[np.generic]) -> int:
    """Return the value which all share, −1 where they do not."""
    unique = np.unique(values)
    return int(unique[0]) if len(unique) == 1 else -1


def _node(fabric: Fabric, members: I64, tier: int, key: int, pod_name: str) -> DisplayNode:
    """Describe a box."""
    pod, rail = _one(fabric.node_pod[members]), _one(fabric.node_rail[members])
    several = len(np.unique(fabric.node_subplane[fabric.node_tier > 0])) > 1
    subplane = _one(fabric.node_subplane[members]) if tier and several else -1
    if tier == 0:
        servers = _devices(fabric, members, 0)
        extra = int(np.sum(fabric.node_server[members] < 0))
        parts = [tier_plural(0, servers)] if servers else []
        parts += [f"{counted(extra, 'other host')}"] if extra else []
        label, count = ", ".join(parts), servers or extra
        facts = [label, f"{len(members) - extra:,} ports" if servers else ""]
    else:
        count = len(members)
        label = _switch_label(fabric, members, tier, shared=pod < 0)
        facts = [label, f"rail {rail + 1}" if rail >= 0 else ""]
    facts.append(f"{pod_name} {pod + 1}" if pod >= 0 else "")
    facts.append(f"plane {'ABCDEFGH'[subplane]}" if subplane >= 0 else "")
    detail = ", ".join(fact for fact in facts if fact)
    return DisplayNode(key, tier, pod, subplane, label, detail, count, tuple(members.tolist()))


def _switch_label(fabric: Fabric, members: I64, tier: int, *, shared: bool) -> str:
    """Return ``leaf 7``, ``192 leaves`` or ``spines 5–8``."""
    numbers = fabric.node_index[members] + 1
    if len(members) == 1:
        return f"{TIER_NAMES.get(tier, 'switch')} {int(numbers[0])}"
    plural = tier_plural(tier, len(members))
    consecutive = int(numbers.max() - numbers.min()) == len(members) - 1
    if shared and consecutive and len(members) < 16:
        return f"{plural.split()[1]} {int(numbers.min())}–{int(numbers.max())}"
    return plural


def _edges(fabric: Fabric, box_of: I64, n_boxes: int) -> tuple[DisplayEdge, ...]:
    """Bundle the duplex links between boxes."""
    a, b = box_of[fabric.link_src[::2]], box_of[fabric.link_dst[::2]]
    drawn = np.flatnonzero((a >= 0) & (b >= 0) & (a != b))
    pair = np.minimum(a, b)[drawn] * n_boxes + np.maximum(a, b)[drawn]
    order = np.argsort(pair, kind="stable")
    unique, first = np.unique(pair[order], return_index=True)
    bundles = np.split(drawn[order], first[1:])
    up, capacity = fabric.link_up[::2], fabric.link_capacity_bps[::2]
    return tuple(
        DisplayEdge(
            int(p // n_boxes),
            int(p % n_boxes),
            len(links),
            int((~up[links]).sum()),
            float(capacity[links].sum()),
            tuple(links.tolist()),
        )
        for p, links in zip(unique, bundles, strict=True)
        if len(links)
    )
