"""A plane of a fabric as a `Scene`: collapsed by pod and rail, opened part by part, or whole.

Whatever is a single device or cable has the name that ``--fail`` understands as its id, so that a
click can take it out; `fail_name` gives that name, or None for boxes and bundles of several.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from railweave.fabric import Fabric, NodeKind, PlaneId
from railweave.fabric.names import duplex_name, node_name
from railweave.formats.validation import list_names
from railweave.report.layout import (
    grid_layout,
    pod_slots,
    ring_layout,
    row_layout,
    tier_places,
    tree_layout,
)
from railweave.report.topology import (
    DisplayEdge,
    DisplayNode,
    TopologyView,
    collapse,
    part_of,
    tier_plural,
)
from railweave.studio.scene import Scene, SceneGroup, SceneLink, SceneNode
from railweave.units import format_bits_rate

__all__ = [
    "fabric_scene",
    "fail_name",
    "grid_layout",
    "group_names",
    "ring_layout",
    "row_layout",
    "tree_layout",
    "unknown_groups",
    "whole_scene",
]

F64 = npt.NDArray[np.float64]

#: devices up to which a plane is drawn in full
MOST_IN_FULL: Final = 60
#: parallel cables between two devices that are drawn one by one
MOST_CABLES: Final = 4
#: utilisation from which a link counts as hot
HOT_LOAD: Final = 0.9

#: part of the drawing's width that a pod keeps free on either side
_ASIDE: Final = 0.014

TIER_KINDS: Final = {1: "leaf", 2: "spine", 3: "core"}
END_KINDS: Final = {
    NodeKind.STORAGE: "storage",
    NodeKind.EXTRA: "host",
    NodeKind.GPU: "gpu",
}


def fail_name(scene_id: str) -> str | None:
    """Return what ``--fail`` understands for an id of a fabric's scene, None for several at once.

    A server with NICs in several pods is drawn in each (``node001@pod-2``); it fails as a whole.
    """
    return None if " " in scene_id else scene_id.partition("@")[0]


def group_names(fabric: Fabric, plane: PlaneId = PlaneId.BACKEND) -> tuple[str, ...]:
    """Return the groups that :func:`fabric_scene` can draw in full."""
    boxes = collapse(fabric, plane, opened=frozenset()).nodes
    return tuple(dict.fromkeys(part_of(box.pod, box.tier) for box in boxes))


def unknown_groups(asked: Collection[str], fabric: Fabric, plane: PlaneId = PlaneId.BACKEND) -> str:
    """Return a sentence on those of the groups that a plane does not have, "" where it has all."""
    if not asked:
        return ""
    known = group_names(fabric, plane)
    wrong = [name for name in asked if name not in known]
    if not wrong:
        return ""
    names = ", ".join(repr(name[:40]) for name in wrong)
    return f"open: there is no group {names} in this drawing; allowed: {list_names(known)}"


def fabric_scene(
    fabric: Fabric,
    plane: PlaneId = PlaneId.BACKEND,
    *,
    expanded: frozenset[str] = frozenset(),
    load: F64 | None = None,
    marked: Collection[int] = (),
    pod_name: str = "pod",
    title: str = "",
) -> Scene:
    """Draw a plane, collapsed by pod and rail where it has more than `MOST_IN_FULL` devices.

    Args:
        fabric: all planes, as their links now stand.
        plane: the one to draw.
        expanded: ids of groups that are drawn in full (those that the canvas says on a toggle).
        load: (L,) utilisation 0..1 of the directed links, NaN where it is not known; a cable shows
            the busier way, a bundle its busiest cable.
        marked: duplex links that are marked, with what they end at: a path, say.
        pod_name: what pods are called here: scalable unit, zone, segment.
        title: of the drawing.
    """
    view = collapse(fabric, plane, pod_name=pod_name, opened=expanded)
    small = sum(count for _, count in view.totals) <= MOST_IN_FULL
    if small:
        parts = {part_of(node.pod, node.tier) for node in view.nodes}
        view = collapse(fabric, plane, pod_name=pod_name, opened=parts)
        expanded = frozenset(parts)
    draw = _Drawing(fabric, plane, view, load=load, expanded=expanded, marked=frozenset(marked))
    groups = _groups(view, expanded, small=small)
    framed = {group.id for group in groups}
    weights = _weights(view)
    places, slots = tier_places(view, weights), pod_slots(view, weights)
    top = max((node.tier for node in view.nodes), default=0)

    def place(box: DisplayNode) -> tuple[float, float]:
        x, y = places[box.key]
        if box.pod >= 0 and len(slots) > 2:
            # Frames keep a distance from each other.
            left, right = slots[box.pod]
            aside = min(_ASIDE, 0.15 * (right - left))
            x = left + aside + (x - left) * (1 - 2 * aside / (right - left))
        return x, top - y

    nodes = tuple(draw.node(box, place(box), framed) for box in view.nodes)
    return Scene(
        nodes=nodes,
        links=tuple(link for edge in view.edges for link in draw.links(edge)),
        groups=groups,
        title=title or f"{plane.name.lower()} plane of {fabric.name}",
        description=describe(view, plane),
        note=view.note,
    )


def describe(view: TopologyView, plane: PlaneId) -> str:
    """Say in words what a drawing shows."""
    counts = ", ".join(tier_plural(tier, count) for tier, count in view.totals)
    pods = len({node.pod for node in view.nodes if node.pod >= 0})
    inside = f" in {pods:,} {view.pod_name}s" if pods > 1 else ""
    out = sum(edge.down_links for edge in view.edges)
    links = sum(edge.links for edge in view.edges)
    return (
        f"The {plane.name.lower()} plane: {counts}{inside}, {links:,} links"
        f"{f', {out:,} of them out' if out else ''}."
        f"{f' {view.note}.' if view.note else ''}"
    )


def _weights(view: TopologyView) -> dict[int, float]:
    """Give a pod as much width as its longest row asks for."""
    rows = Counter((node.pod, node.tier) for node in view.nodes)
    weights: dict[int, float] = {}
    for (pod, tier), boxes in rows.items():
        if pod >= 0 or tier == 0:
            least = 1.0 if pod >= 0 else 0.6
            weights[pod] = max(weights.get(pod, least), min(boxes, 32) / 6)
    return weights


def _groups(
    view: TopologyView, expanded: Collection[str], *, small: bool
) -> tuple[SceneGroup, ...]:
    """Frame the pods, and what outside them can be opened."""
    parts: dict[str, list[DisplayNode]] = {}
    for node in view.nodes:
        parts.setdefault(part_of(node.pod, node.tier), []).append(node)
    pods = {node.pod for node in view.nodes if node.pod >= 0}
    groups = []
    for part, boxes in parts.items():
        several = any(box.count > 1 for box in boxes)
        closed = not small and part not in expanded and several
        opened = not small and part in expanded
        pod = boxes[0].pod
        if not (closed or opened or (pod >= 0 and len(pods) > 1)):
            continue
        devices = sum(box.count for box in boxes)
        label = f"{view.pod_name} {pod + 1}" if pod >= 0 else _shared_label(boxes, devices)
        groups.append(SceneGroup(part, label, closed, devices, fixed=not (closed or opened)))
    return tuple(groups)


def _shared_label(boxes: list[DisplayNode], devices: int) -> str:
    return tier_plural(boxes[0].tier, devices) if boxes[0].tier else "other hosts"


class _Drawing:
    """One plane being drawn."""

    def __init__(
        self,
        fabric: Fabric,
        plane: PlaneId,
        view: TopologyView,
        *,
        load: F64 | None,
        expanded: Collection[str],
        marked: frozenset[int],
    ) -> None:
        self.fabric, self.expanded, self.marked = fabric, expanded, marked
        ends = [edge for edge in view.edges if not marked.isdisjoint(edge.duplex)]
        self.passed = {key for edge in ends for key in (edge.lower, edge.upper)}
        self.busier = None if load is None else _busier(load)
        self.role = plane.name.lower()
        self.box = {box.key: box for box in view.nodes}
        self.ids = _ids(fabric, view)
        self.live = _live(fabric, plane)

    def node(
        self, box: DisplayNode, place: tuple[float, float], framed: Collection[str]
    ) -> SceneNode:
        """Return a box as a node."""
        part = part_of(box.pod, box.tier)
        out = int((~self.live[list(box.members)]).sum())
        dead = out == len(box.members)
        detail = box.detail.removeprefix(box.label).removeprefix(", ")
        if out:
            ports = "ports" if box.tier == 0 else "switches"
            said = "out" if dead else f"{out:,} {ports} out"
            detail = f"{detail}, {said}" if detail else said
        return SceneNode(
            self.ids[box.key],
            place[0],
            place[1],
            _kind(self.fabric, box),
            self.label(box),
            detail,
            role_of(box.subplane, self.role),
            part if part in framed else "",
            box.count,
            "down" if dead else "marked" if box.key in self.passed else "",
        )

    def label(self, box: DisplayNode) -> str:
        """Return a single device's name, or what a box is called."""
        return box.label if box.count > 1 else self.ids[box.key].partition("@")[0]

    def links(self, edge: DisplayEdge) -> list[SceneLink]:
        """Return the cables of an edge one by one, or one bundle of them."""
        ends = self.box[edge.lower], self.box[edge.upper]
        single = all(_is_one(self.fabric, box) for box in ends)
        opened = any(part_of(box.pod, box.tier) in self.expanded for box in ends)
        if edge.links == 1 or (single and opened and edge.links <= MOST_CABLES):
            return [self._cable(edge, duplex) for duplex in edge.duplex]
        source, target = self.ids[edge.lower], self.ids[edge.upper]
        return [self._link(f"{source} – {target}", edge, edge.duplex)]

    def _cable(self, edge: DisplayEdge, duplex: int) -> SceneLink:
        return self._link(duplex_name(self.fabric, duplex), edge, (duplex,))

    def _link(self, name: str, edge: DisplayEdge, duplex: tuple[int, ...]) -> SceneLink:
        fabric = self.fabric
        lower, upper = self.box[edge.lower], self.box[edge.upper]
        links = list(duplex)
        out = int((~fabric.link_up[::2][links]).sum())
        rate = format_bits_rate(float(fabric.link_capacity_bps[::2][links].sum()))
        load = math.nan
        if self.busier is not None and not np.isnan(self.busier[links]).all():
            load = float(np.nanmax(self.busier[links]))
        count = len(links)
        parts = [f"{count:,} links" if count > 1 else name]
        parts += [f"{out:,} of them out" if count > 1 else "out"] if out else []
        parts += [f"{rate} each way"]
        parts += [] if math.isnan(load) else [f"load {load:.0%}"]
        role = role_of(max(lower.subplane, upper.subplane), self.role)
        hot = load >= HOT_LOAD
        on_way = bool(self.marked) and not self.marked.isdisjoint(links)
        return SceneLink(
            name,
            self.ids[edge.lower],
            self.ids[edge.upper],
            "fault" if 0 < out < count else role,
            count,
            f"{out:,} of {count:,} out" if 0 < out < count else "",
            "down" if out == count else "marked" if on_way else "hot" if hot else "",
            load,
            "curve" if lower.tier == upper.tier else "",
            f"{self.label(lower)} – {self.label(upper)}: {', '.join(parts)}",
        )


def role_of(subplane: int, role: str) -> str:
    """Return the palette's key of a parallel plane, or the plane's own."""
    return f"plane-{'abcdefgh'[subplane % 8]}" if subplane >= 0 else role


def _busier(load: F64) -> F64:
    """Return the load of each duplex link's busier way, (L/2,); NaN where neither is known."""
    both = load.reshape(-1, 2)
    known = ~np.isnan(both)
    busier = np.where(known, both, -np.inf).max(axis=1)
    return np.where(known.any(axis=1), busier, np.nan)


def _live(fabric: Fabric, plane: PlaneId) -> npt.NDArray[np.bool_]:
    """Return which nodes have a link up in the plane, (N,)."""
    live = np.zeros(fabric.n_nodes, dtype=bool)
    up = fabric.link_up & (fabric.link_plane == plane)
    live[fabric.link_src[up]] = True
    live[fabric.link_dst[up]] = True
    return live


def _is_one(fabric: Fabric, box: DisplayNode) -> bool:
    """Say whether a box is a single switch, server or host."""
    if len(box.members) == 1:
        return True
    servers = set(fabric.node_server[list(box.members)].tolist())
    return box.tier == 0 and len(servers) == 1 and -1 not in servers


def _ids(fabric: Fabric, view: TopologyView) -> dict[int, str]:
    """Name every box by its key."""
    singles = {box.key: _is_one(fabric, box) for box in view.nodes}
    seen = Counter(
        int(fabric.node_server[box.members[0]])
        for box in view.nodes
        if singles[box.key] and box.tier == 0
    )
    names: dict[int, str] = {}
    for box in view.nodes:
        first = box.members[0]
        name = node_name(fabric, first)
        if not singles[box.key]:
            names[box.key] = f"{name} +{len(box.members) - 1}"
            continue
        server = int(fabric.node_server[first])
        if box.tier == 0 and server >= 0:
            name = fabric.server_names[server]
            # A server with ends in several pods stands in each of them.
            name += f"@{part_of(box.pod, 0)}" if seen[server] > 1 else ""
        names[box.key] = name
    return names


def _kind(fabric: Fabric, box: DisplayNode) -> str:
    if box.tier:
        return TIER_KINDS.get(box.tier, "switch")
    if int(fabric.node_server[box.members[0]]) >= 0:
        return "server"
    return END_KINDS.get(NodeKind(int(fabric.node_kind[box.members[0]])), "host")


#: of a tile: part of its height that switches take, and of its width and height that is a gap
_SWITCH_PART: Final = 0.22
_GAP: Final = 0.18

Spot = tuple[float, float]


def whole_scene(
    fabric: Fabric, plane: PlaneId = PlaneId.BACKEND, *, pod_name: str = "pod"
) -> Scene:
    """Draw every end node (NIC, host) and switch of a plane, pod by pod in tiles.

    A tile has its switches on top, tier by tier, and the ends below, those of a server together;
    switches of no pod stand in rows above all tiles. Devices and cables have the names that
    ``--fail`` understands.
    """
    view = collapse(fabric, plane, pod_name=pod_name, most_pods=fabric.n_nodes)
    parts: dict[tuple[int, int], list[int]] = {}
    for box in view.nodes:
        parts.setdefault((box.pod, box.tier), []).extend(box.members)
    highest = max((tier for _, tier in parts), default=0)
    pods = sorted({pod for pod, tier in parts if pod >= 0 or tier == 0})
    columns = max(1, math.ceil(math.sqrt(1.8 * len(pods))))
    places: dict[int, tuple[Spot, str]] = {}
    for (pod, tier), members in sorted(parts.items()):
        if pod < 0 and tier:
            y = -0.35 * (1 + tier)
            spots = row_layout(len(members), y, right=float(min(columns, len(pods) or 1)))
            group = ""
        else:
            inside = _ends_in_tile(fabric, members) if tier == 0 else row_layout(len(members))
            left, top = pods.index(pod) % columns, pods.index(pod) // columns
            high = (highest - tier + 0.5) / highest * _SWITCH_PART if tier else 0.0
            spots = tuple(
                (
                    left + x * (1 - _GAP),
                    top + (high if tier else _SWITCH_PART + (1 - _SWITCH_PART) * y) * (1 - _GAP),
                )
                for x, y in inside
            )
            group = part_of(pod, 0)
        places |= {node: (spot, group) for node, spot in zip(sorted(members), spots, strict=True)}
    return Scene(
        nodes=_every_node(fabric, plane, places),
        links=_every_cable(fabric, plane, view),
        groups=_tiles(pods, places, pod_name),
        title=f"{plane.name.lower()} plane of {fabric.name}, every port",
        description=describe(view, plane),
    )


def _ends_in_tile(fabric: Fabric, ends: list[int]) -> tuple[Spot, ...]:
    """Return places in the unit square of end nodes, those of one server in a block."""
    ends = sorted(ends)
    owner = [int(fabric.node_server[end]) for end in ends]
    # A host without a server is a block of its own.
    blocks = [own if own >= 0 else -1 - end for own, end in zip(owner, ends, strict=True)]
    numbers = {block: i for i, block in enumerate(dict.fromkeys(blocks))}
    most = max(Counter(blocks).values(), default=1)
    outer, inner = grid_layout(len(numbers)), grid_layout(most)
    side = math.ceil(math.sqrt(len(numbers))) or 1
    seen: Counter[int] = Counter()
    places = []
    for block in blocks:
        (x, y), (dx, dy) = outer[numbers[block]], inner[seen[block]]
        seen[block] += 1
        places.append((x + 0.8 * (dx - 0.5) / side, y + 0.8 * (dy - 0.5) / side))
    return tuple(places)


def _every_node(
    fabric: Fabric, plane: PlaneId, places: Mapping[int, tuple[Spot, str]]
) -> tuple[SceneNode, ...]:
    live = _live(fabric, plane)
    nodes = []
    for node, ((x, y), group) in places.items():
        name, tier = node_name(fabric, node), max(int(fabric.node_tier[node]), 0)
        kind = NodeKind(int(fabric.node_kind[node]))
        if kind is NodeKind.SWITCH:
            shape = TIER_KINDS.get(tier, "switch")
        else:
            shape = "nic" if kind is NodeKind.NIC else END_KINDS.get(kind, "host")
        rail = int(fabric.node_rail[node])
        detail = f"{name}, rail {rail + 1}" if rail >= 0 else name
        state = "" if live[node] else "down"
        role = plane.name.lower()
        nodes.append(SceneNode(name, x, y, shape, name, detail, role, group, state=state))
    return tuple(nodes)


def _every_cable(fabric: Fabric, plane: PlaneId, view: TopologyView) -> tuple[SceneLink, ...]:
    up = fabric.link_up[::2]
    return tuple(
        SceneLink(
            duplex_name(fabric, duplex),
            node_name(fabric, int(fabric.link_src[2 * duplex])),
            node_name(fabric, int(fabric.link_dst[2 * duplex])),
            plane.name.lower(),
            state="" if up[duplex] else "down",
        )
        for edge in view.edges
        for duplex in edge.duplex
    )


def _tiles(
    pods: list[int], places: Mapping[int, tuple[Spot, str]], pod_name: str
) -> tuple[SceneGroup, ...]:
    members = Counter(group for _, group in places.values())
    return tuple(
        SceneGroup(
            part_of(pod, 0),
            f"{pod_name} {pod + 1}" if pod >= 0 else "other hosts",
            count=members[part_of(pod, 0)],
            fixed=True,
        )
        for pod in pods
    )
