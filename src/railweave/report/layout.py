"""Where boxes stand: the one layout of a collapsed plane, and simple ones for rings, rows, trees.

The report and the studio share it. A plane's places are ``x`` in 0..1 from left to right and ``y``
the tier, upwards from the servers at 0; the simple layouts give places in the unit square with
``y`` downwards, as the studio's canvas has it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from railweave.report.topology import TopologyView

__all__ = [
    "Place",
    "grid_layout",
    "pod_slots",
    "ring_layout",
    "row_layout",
    "tier_places",
    "tree_layout",
]

Place: TypeAlias = tuple[float, float]

#: boxes of one tier and pod that stand in one row; more make rows of equal length
MOST_IN_ROW = 32
#: part of the distance between two tiers that the rows of one tier may take
_DEPTH = 0.55


def pod_slots(view: TopologyView, weight: Mapping[int, float] | None = None) -> dict[int, Place]:
    """Give every pod its part (left, right) of the width; what has no pod may use all of it.

    ``weight`` makes pods wider than others, 1 where it is silent.
    """
    pods = sorted({node.pod for node in view.nodes if node.pod >= 0})
    apart = any(node.pod < 0 for node in view.nodes if node.tier == 0) and bool(pods)
    wide = [(weight or {}).get(pod, 1.0) for pod in pods]
    # Other hosts stand beside the pods, in a narrower place of their own.
    aside = (weight or {}).get(-1, 0.6) if apart else 0.0
    total = sum(wide) + aside or 1.0
    slots: dict[int, Place] = {}
    left = 0.0
    for pod, own in zip(pods, wide, strict=True):
        slots[pod] = (left / total, (left + own) / total)
        left += own
    slots[-1] = (left / total, 1.0) if apart else (0.0, 1.0)
    return slots


def tier_places(view: TopologyView, weight: Mapping[int, float] | None = None) -> dict[int, Place]:
    """Spread the boxes of a tier over their pod's part of the width, by the boxes' keys.

    More than `MOST_IN_ROW` boxes of one tier and pod stand in several rows below each other.
    """
    slots = pod_slots(view, weight)
    places: dict[int, Place] = {}
    for tier in sorted({node.tier for node in view.nodes}):
        for pod, (left, right) in slots.items():
            row = [node.key for node in view.nodes if node.tier == tier and node.pod == pod]
            first, width = (0.0, 1.0) if pod < 0 and tier > 0 else (left, right - left)
            rows = math.ceil(len(row) / MOST_IN_ROW)
            length = math.ceil(len(row) / rows) if rows else 1
            for i, key in enumerate(row):
                down = _DEPTH * (i // length) / rows
                places[key] = (first + width * (i % length + 0.5) / length, tier - down)
    return places


def ring_layout(n: int) -> tuple[Place, ...]:
    """Return ``n`` places on a circle that touches the unit square, clockwise from the top."""
    if n == 1:
        return ((0.5, 0.5),)
    turns = [2 * math.pi * i / n for i in range(n)]
    return tuple((0.5 + 0.5 * math.sin(turn), 0.5 - 0.5 * math.cos(turn)) for turn in turns)


def row_layout(
    n: int, y: float = 0.5, *, left: float = 0.0, right: float = 1.0
) -> tuple[Place, ...]:
    """Return ``n`` places at one height, evenly spread between ``left`` and ``right``."""
    return tuple((left + (right - left) * (i + 0.5) / n, y) for i in range(n))


def grid_layout(n: int, columns: int = 0) -> tuple[Place, ...]:
    """Return ``n`` places row by row; as many columns as make a square where none are given."""
    columns = columns or max(1, math.ceil(math.sqrt(n)))
    rows = max(1, math.ceil(n / columns))
    return tuple(((i % columns + 0.5) / columns, (i // columns + 0.5) / rows) for i in range(n))


def tree_layout(parents: Sequence[int]) -> tuple[Place, ...]:
    """Return places of a tree (or several): leaves evenly apart, parents amid their children.

    ``parents[i]`` is the parent of ``i``, −1 of a root. Roots stand on top.

    Raises:
        ValueError: a parent that does not exist, or a node that is its own ancestor.
    """
    children: dict[int, list[int]] = {i: [] for i in range(-1, len(parents))}
    for child, parent in enumerate(parents):
        if not -1 <= parent < len(parents):
            raise ValueError(f"parent {parent} of node {child} is none of 0..{len(parents) - 1}")
        children[parent].append(child)
    order: list[tuple[int, int]] = []  # (node, depth), parents before their children
    waiting = [(root, 0) for root in reversed(children[-1])]
    while waiting:
        node, depth = waiting.pop()
        order.append((node, depth))
        waiting += [(child, depth + 1) for child in reversed(children[node])]
    if len(order) != len(parents):
        raise ValueError("a node of the tree is its own ancestor")
    ends = sum(not children[node] for node, _ in order)
    deepest = max((depth for _, depth in order), default=0)
    xs: dict[int, float] = {}
    seen = ends
    for node, _ in reversed(order):
        if children[node]:
            xs[node] = (xs[children[node][0]] + xs[children[node][-1]]) / 2
        else:
            seen -= 1
            xs[node] = (seen + 0.5) / ends
    depth_of = dict(order)
    return tuple(
        (xs[node], depth_of[node] / deepest if deepest else 0.5) for node in range(len(parents))
    )
