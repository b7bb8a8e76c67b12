"""Lab 2's animation: who sends to whom over servers, leaves and spines, at the engine's times.

Three ways to draw, by size: every message of the step hop by hop; a token for all messages from one
rank to another; a token for all messages from one box of ranks to another.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from railweave.fabric import NodeKind
from railweave.fabric.names import node_name
from railweave.report.layout import Place, row_layout
from railweave.report.patterns_groups import pair_reach, rank_groups
from railweave.studio.labs._traffic_boxes import MOST_BOXES, boxes_scene, describe
from railweave.studio.labs._traffic_flights import (
    OTHER,
    PLACE_ROLES,
    Clock,
    Move,
    flights_of,
    moves_of,
    steps_of,
    ways_of,
)
from railweave.studio.scene import Scene, SceneGroup, SceneLink, SceneNode
from railweave.units import format_bytes

if TYPE_CHECKING:
    from railweave.report.patterns import PatternStudy

__all__ = ["pattern_scene", "rank_of"]

#: ranks up to which each is drawn
MOST_RANKS: Final = 64
#: tokens of an exchange up to which each is drawn
MOST_MOVES: Final = 1_000
_TIERS: Final = {1: "leaf", 2: "spine", 3: "core"}
_GPU_ROW, _HUB_ROW = 3.0, 3.55
#: room between the frames of two servers, in places of a GPU
_BETWEEN: Final = 0.9
#: coloured messages that begin at once up to which each says its bytes
_MOST_LABELS: Final = 6


def rank_of(scene_id: str | None, study: PatternStudy) -> int:
    """Return the rank that a node of the drawing stands for (the first of a box), −1 for none."""
    if not scene_id:
        return -1
    word, _, number = scene_id.partition(" ")
    if word == "rank" and number.isdigit():
        return int(number)
    groups = rank_groups(study, MOST_BOXES)
    if scene_id in groups.names:
        return int(np.flatnonzero(groups.member == groups.names.index(scene_id))[0])
    return -1


def pattern_scene(study: PatternStudy, picked: int | None = None) -> Scene:
    """Draw a study's step.

    Args:
        study: what is sent, when, over which links.
        picked: a rank whose messages keep their colour while the others' turn grey.
    """
    streams = study.result.traffic.n_streams
    if study.case.gpus > MOST_RANKS or streams > MOST_MOVES:
        return boxes_scene(study, picked)
    return _Ranks(study, picked).scene()


class _Ranks:
    """The drawing with every rank in it."""

    def __init__(self, study: PatternStudy, picked: int | None) -> None:
        self.study, self.fabric, self.picked = study, study.fabric, picked
        self.rank = {int(node): r for r, node in enumerate(study.nodes)}
        self.reach = pair_reach(study)
        self.ways = ways_of(study)
        used = {node for way in self.ways for node in way}
        self.used = list(self.rank) + sorted(used - set(self.rank))

    def scene(self) -> Scene:
        """Return the drawing."""
        study = self.study
        ids = {node: self._id(node) for node in self.used}
        ways = [tuple(ids[node] for node in way) for way in self.ways]
        moves = moves_of(study, ways, self._roles())
        clock = Clock.of(study, len(moves))
        nodes = self._nodes(ids)
        noun = "message" if study.trace_whole else "sender"
        return Scene(
            nodes=nodes,
            links=_links(moves),
            groups=tuple(
                SceneGroup(name, name, fixed=True)
                for name in dict.fromkeys(node.group for node in nodes if node.group)
            ),
            flights=flights_of(moves, clock, labelled=self.picked is not None and _few(moves)),
            duration_s=clock.drawn * clock.exchange_s,
            title=f"{study.title}: {study.network}",
            description=describe(study),
            note=_note(study, clock),
            steps=steps_of(moves, clock, noun),
        )

    def _roles(self) -> list[str]:
        traffic = self.study.result.traffic
        src = [self.rank[node] for node in traffic.src.tolist()]
        dst = [self.rank[node] for node in traffic.dst.tolist()]
        return [
            PLACE_ROLES[max(int(self.reach[a, b]), 0)]
            if self.picked is None or self.picked in (a, b)
            else OTHER
            for a, b in zip(src, dst, strict=True)
        ]

    def _id(self, node: int) -> str:
        rank = self.rank.get(node)
        return node_name(self.fabric, node) if rank is None else f"rank {rank}"

    def _server(self, node: int) -> int:
        return int(self.fabric.node_server[node])

    def _nodes(self, ids: dict[int, str]) -> tuple[SceneNode, ...]:
        kinds = {node: NodeKind(int(self.fabric.node_kind[node])) for node in self.used}
        gpus = sorted(self.rank, key=lambda node: (self._server(node), self.rank[node]))
        framed = len({self._server(node) for node in gpus}) < len(gpus)
        places = self._row(gpus, framed)
        below: dict[int, list[float]] = defaultdict(list)
        for way in self.ways:
            for one in way:
                if one not in self.rank:
                    below[one] += [places[way[0]][0], places[way[-1]][0]]
        switches = [node for node in self.used if kinds[node] is NodeKind.SWITCH]
        for tier in sorted({int(self.fabric.node_tier[node]) for node in switches}):
            row = [node for node in switches if int(self.fabric.node_tier[node]) == tier]
            row.sort(key=lambda node: (sum(below[node]) / len(below[node]), node))
            for node, (x, _) in zip(row, row_layout(len(row)), strict=True):
                places[node] = (x, _GPU_ROW - max(tier, 1))
        for node in self.used:
            if node not in places:  # a scale-up switch, under its server's GPUs
                own = [places[g][0] for g in gpus if self._server(g) == self._server(node)]
                own = own or below[node]
                places[node] = (sum(own) / len(own), _HUB_ROW)
        return tuple(self._node(node, ids[node], places[node], kinds[node], framed)
                     for node in places)  # fmt: skip

    def _row(self, gpus: list[int], framed: bool) -> dict[int, Place]:
        """Return the places of the GPUs, with room between the frames of servers."""
        order = {server: k for k, server in enumerate(dict.fromkeys(map(self._server, gpus)))}
        apart = _BETWEEN if framed else 0.0
        spots = [k + apart * order[self._server(node)] for k, node in enumerate(gpus)]
        width = spots[-1] + 1.0
        return {node: ((x + 0.5) / width, _GPU_ROW) for node, x in zip(gpus, spots, strict=True)}

    def _node(self, node: int, name: str, place: Place, kind: NodeKind, framed: bool) -> SceneNode:
        rank, server = self.rank.get(node), self._server(node)
        group = self.fabric.server_names[server] if framed and server >= 0 else ""
        if rank is not None:
            sent = format_bytes(float(self.study.sent_bytes[rank]))
            received = format_bytes(float(self.study.matrix_bytes[:, rank].sum()))
            detail = f"{node_name(self.fabric, node)}: sends {sent}, receives {received}"
            state = "marked" if rank == self.picked else ""
            return SceneNode(name, *place, "gpu", str(rank), detail, "backend", group, 1, state)
        if kind is NodeKind.SWITCH:
            shape = _TIERS.get(int(self.fabric.node_tier[node]), "switch")
            return SceneNode(name, *place, shape, name, name, "backend")
        label = name.rpartition("/")[2]
        return SceneNode(name, *place, "switch", label, f"{name}: scale-up network", "", group)


def _few(moves: list[Move]) -> bool:
    """Tell whether never many coloured messages begin at once."""
    begins = Counter(move.start_s for move in moves if move.role != OTHER)
    return max(begins.values(), default=0) <= _MOST_LABELS


def _links(moves: list[Move]) -> tuple[SceneLink, ...]:
    joined: dict[frozenset[str], tuple[str, str]] = {}
    for move in moves:
        for hop in pairwise(move.way):
            joined.setdefault(frozenset(hop), hop)
    return tuple(SceneLink(f"{a} – {b}", a, b, "backend") for a, b in joined.values())


def _note(study: PatternStudy, clock: Clock) -> str:
    notes = []
    if not study.trace_whole:
        notes.append(
            f"{study.messages:,} messages are too many to draw: a token stands for all from one "
            "rank to another"
        )
    else:
        notes.append("hops are drawn one after another; the bytes cross them all at once")
    return "; ".join([*notes, clock.note] if clock.note else notes)
