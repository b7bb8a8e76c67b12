"""Lab 2's animation of very many ranks: boxes of them under leaves, spines and cores."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from railweave.fabric import PlaneId
from railweave.report.layout import row_layout
from railweave.report.patterns_groups import PLACE_NAMES, RankGroups, rank_groups
from railweave.studio.labs._traffic_flights import (
    OTHER,
    PLACE_ROLES,
    Clock,
    Move,
    flights_of,
    label_of,
    steps_of,
)
from railweave.studio.scene import Scene, SceneLink, SceneNode
from railweave.units import format_bytes
from railweave.workload import message_reach

if TYPE_CHECKING:
    from railweave.report.patterns import PatternStudy

__all__ = ["MOST_BOXES", "boxes_scene", "describe"]

I64 = npt.NDArray[np.int64]

MOST_BOXES: Final = 16
_SPINES, _CORES = "all spines", "all cores"
_BOX_ROW, _LEAF_ROW, _SPINE_ROW, _CORE_ROW, _HUB_ROW = 3.0, 2.0, 1.0, 0.0, 3.9


def describe(study: PatternStudy) -> str:
    """Say in words what is drawn: for readers who do not see it."""
    shares = (study.share_server, study.share_leaf, study.share_spine, study.share_core)
    where = ", ".join(
        f"{share:.1%} {name}" for share, name in zip(shares, PLACE_NAMES, strict=True) if share > 0
    )
    return (
        f"{study.network}. {study.messages:,} messages move between the GPUs; of the bytes "
        f"{where}. The trace below lists when each begins."
    )


def boxes_scene(study: PatternStudy, picked: int | None) -> Scene:
    """Draw boxes of ranks, and a token for all messages from one box to another in each part."""
    groups = rank_groups(study, MOST_BOXES)
    own = -1 if picked is None else int(groups.member[picked])
    moves = _moves(study, groups, own)
    clock = Clock.of(study, len(moves))
    note = f"{groups.note}; a token stands for all messages from one to another"
    return Scene(
        nodes=_nodes(study, groups, moves, own),
        links=_links(moves),
        flights=flights_of(moves, clock, labelled=False),
        duration_s=clock.drawn * clock.exchange_s,
        title=f"{study.title}: {study.network}",
        description=describe(study),
        note="; ".join(text for text in (note, clock.note) if text),
        steps=steps_of(moves, clock, "sender"),
    )


def _leaf(group: str) -> str:
    return f"leaves of {group}"


def _hub(group: str) -> str:
    return f"scale-up of {group}"


def _way(source: str, target: str, place: int) -> tuple[str, ...]:
    """Return the boxes that bytes pass on their way."""
    if place == 0:
        return (source, _hub(source), target)
    if place == 1:
        return (source, _leaf(source), target)
    up, down = (source, _leaf(source), _SPINES), (_leaf(target), target)
    if place == 2:
        return (*up, *down)
    return (*up, _CORES, _SPINES, *down)


def _moves(study: PatternStudy, groups: RankGroups, own: int) -> list[Move]:
    """Put together all streams of one part, one place, and one pair of boxes."""
    result, traffic = study.result, study.result.traffic
    rank = np.full(study.fabric.n_nodes, -1, dtype=np.int64)
    rank[study.nodes] = np.arange(len(study.nodes))
    a, b = groups.member[rank[traffic.src]], groups.member[rank[traffic.dst]]
    place = message_reach(study.fabric, traffic.src, traffic.dst, rail_aware=False)
    task = traffic.stream_task
    begin, end = result.task_start_s[task], result.stream_finish_s
    size = traffic.chunk_bytes * traffic.task_rounds[task]
    key = np.stack((traffic.task_label[task].astype(np.int64), a, b, place.astype(np.int64)))
    timed = np.isfinite(begin) & np.isfinite(end)
    found, which = np.unique(key[:, timed], axis=1, return_inverse=True)
    which = which.ravel()
    first, last = np.full(found.shape[1], np.inf), np.full(found.shape[1], -np.inf)
    np.minimum.at(first, which, begin[timed])
    np.maximum.at(last, which, end[timed])
    total = np.bincount(which, size[timed], minlength=found.shape[1])
    moves = [
        Move(
            begin_s,
            end_s,
            _way(groups.names[source], groups.names[target], where),
            label_of(traffic.labels[label]),
            amount,
            PLACE_ROLES[where] if own in (-1, source, target) else OTHER,
        )
        for (label, source, target, where), begin_s, end_s, amount in zip(
            found.T.tolist(), first.tolist(), last.tolist(), total.tolist(), strict=True
        )
    ]
    return sorted(moves, key=lambda move: move.start_s)


def _links(moves: list[Move]) -> tuple[SceneLink, ...]:
    joined: dict[frozenset[str], tuple[str, str]] = {}
    for move in moves:
        for hop in pairwise(move.way):
            joined.setdefault(frozenset(hop), hop)
    return tuple(SceneLink(f"{a} – {b}", a, b, "backend") for a, b in joined.values())


def _nodes(
    study: PatternStudy, groups: RankGroups, moves: list[Move], own: int
) -> tuple[SceneNode, ...]:
    used = {name for move in moves for name in move.way}
    sent = groups.fold(study.matrix_bytes)
    nodes = []
    for k, (name, (x, _)) in enumerate(
        zip(groups.names, row_layout(len(groups.names)), strict=True)
    ):
        count = int(groups.sizes[k])
        detail = (
            f"{count:,} ranks: send {format_bytes(float(sent[k].sum()))}, receive "
            f"{format_bytes(float(sent[:, k].sum()))}"
        )
        state = "marked" if k == own else ""
        nodes.append(
            SceneNode(name, x, _BOX_ROW, "server", name, detail, "backend", "", count, state)
        )
        for other, y, kind, label in (
            (_leaf(name), _LEAF_ROW, "leaf", "leaves"),
            (_hub(name), _HUB_ROW, "switch", "scale-up"),
        ):
            if other in used:
                nodes.append(SceneNode(other, x, y, kind, label, other, "backend"))
    for other, y, kind, tier in (
        (_SPINES, _SPINE_ROW, "spine", 2),
        (_CORES, _CORE_ROW, "core", 3),
    ):
        if other in used:
            many = max(1, len(study.fabric.switches(PlaneId.BACKEND, tier)))
            label = f"{kind}s" if many > 1 else kind
            nodes.append(SceneNode(other, 0.5, y, kind, label, other, "backend", "", many))
    return tuple(nodes)
