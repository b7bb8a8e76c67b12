"""Lab 7's collective on a fabric: messages that follow the links that routing gives them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from railweave.fabric import Fabric, NodeKind
from railweave.fabric.names import node_name
from railweave.report.layout import Place, row_layout
from railweave.studio.labs._collectives_scene import (
    ACTION_ROLES,
    gpu_name,
    pieces_label,
    round_ends,
    steps,
)
from railweave.studio.scene import Flight, Scene, SceneGroup, SceneLink, SceneNode

if TYPE_CHECKING:
    from railweave.studio.labs._collectives_run import Message, Run

__all__ = ["on_fabric"]

#: what is drawn of a way; the rest (NICs, PCIe) belongs to the GPU beside it
_DRAWN: Final = (NodeKind.GPU, NodeKind.SWITCH, NodeKind.SCALE_UP)
_TIERS: Final = {1: "leaf", 2: "spine", 3: "core"}
#: height of the GPUs' row; switches stand above by tier, scale-up switches below
_GPU_ROW, _HUB_ROW = 3.0, 3.6


def on_fabric(run: Run) -> Scene:
    """Draw the devices that carry the collective, and its messages hop by hop."""
    fabric, messages = run.fabric, run.messages
    rank = {int(node): r for r, node in enumerate(run.comm.nodes)}
    ways = [_drawn_way(fabric, rank, m.nodes) for m in messages]
    used = list(rank) + sorted({node for way in ways for node in way} - set(rank))
    draw = _Devices(fabric, rank, run.inputs.slow.rank if run.inputs.slow else -1, used)
    nodes = draw.nodes()
    joined = {frozenset(hop): hop for way in ways for hop in pairwise(way)}
    return Scene(
        nodes=nodes,
        links=tuple(
            SceneLink(f"{draw.name(a)} – {draw.name(b)}", draw.name(a), draw.name(b), "backend")
            for a, b in joined.values()
        ),
        groups=tuple(
            SceneGroup(one, one, fixed=True)
            for one in dict.fromkeys(node.group for node in nodes if node.group)
        ),
        flights=tuple(
            flight
            for message, way in zip(messages, ways, strict=True)
            for flight in _hops(draw, message, way)
        ),
        duration_s=round_ends(messages)[-1],
        title=f"{run.inputs.name} on {fabric.name}",
        description=(
            f"{len(rank)} GPUs and the {len(used) - len(rank)} other devices that carry their "
            "messages. Each message follows the links that routing gives it."
        ),
        note=_note(run),
        steps=steps(messages),
    )


def _hops(draw: _Devices, message: Message, way: tuple[int, ...]) -> list[Flight]:
    """Return a message hop by hop, each in its part of the message's time."""
    hops = list(pairwise(way))
    span = (message.end_s - message.start_s) / max(len(hops), 1)
    return [
        Flight(
            message.start_s + h * span,
            message.start_s + (h + 1) * span,
            draw.name(a),
            draw.name(b),
            "chunk",
            pieces_label(message),
            message.size_bytes,
            ACTION_ROLES[message.action],
        )
        for h, (a, b) in enumerate(hops)
    ]


def _note(run: Run) -> str:
    notes = ["hops are drawn one after the other; the bytes cross them all at once"]
    if run.comm.channels > 1 and run.one_channel:
        notes.append(f"the first of {run.comm.channels} channels")
    return "; ".join(notes)


def _drawn_way(fabric: Fabric, rank: dict[int, int], nodes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(
        node for node in nodes if node in rank or NodeKind(int(fabric.node_kind[node])) in _DRAWN
    )


@dataclass(frozen=True)
class _Devices:
    """The devices of a drawing: GPUs by rank, and what carries their messages."""

    fabric: Fabric
    rank: dict[int, int]
    slow: int
    used: list[int]

    def name(self, node: int) -> str:
        """Return a device's id: a rank is called GPU."""
        return gpu_name(self.rank[node]) if node in self.rank else node_name(self.fabric, node)

    def _kind(self, node: int) -> NodeKind:
        return NodeKind(int(self.fabric.node_kind[node]))

    def _server(self, node: int) -> int:
        return int(self.fabric.node_server[node])

    def nodes(self) -> tuple[SceneNode, ...]:
        """Place GPUs in a row server by server, scale-up switches below, switches above by tier."""
        hubs = [n for n in self.used if self._kind(n) is NodeKind.SCALE_UP]
        switches = [n for n in self.used if self._kind(n) is NodeKind.SWITCH]
        gpus = sorted(
            set(self.used) - set(hubs) - set(switches),
            key=lambda n: (self._server(n), self.rank.get(n, 1 << 30), n),
        )
        several = {s for s, n in Counter(self._server(g) for g in gpus).items() if n > 1}
        rows = [(_GPU_ROW, gpus)]
        for tier in sorted({int(self.fabric.node_tier[n]) for n in switches}):
            row = sorted(n for n in switches if int(self.fabric.node_tier[n]) == tier)
            rows.append((_GPU_ROW - max(tier, 1), row))
        places: dict[int, Place] = {}
        for y, row in rows:
            for node, (x, _) in zip(row, row_layout(len(row)), strict=True):
                places[node] = (x, y)
        for hub in hubs:
            beside = [places[g][0] for g in gpus if self._server(g) == self._server(hub)]
            places[hub] = (sum(beside) / len(beside) if beside else 0.5, _HUB_ROW)
        return tuple(self._node(node, place, several) for node, place in places.items())

    def _node(self, node: int, place: Place, several: set[int]) -> SceneNode:
        kind, server = self._kind(node), self._server(node)
        shown = "gpu"
        if kind is NodeKind.SWITCH:
            shown = _TIERS.get(int(self.fabric.node_tier[node]), "switch")
        elif kind is NodeKind.SCALE_UP:
            shown = "switch"
        slow = node in self.rank and self.rank[node] == self.slow
        detail = node_name(self.fabric, node)
        within = kind is not NodeKind.SWITCH and server in several and server >= 0
        return SceneNode(
            self.name(node),
            *place,
            shown,
            self.name(node).rpartition("/")[2],
            f"{detail}, slow" if slow else detail,
            "backend",
            self.fabric.server_names[server] if within else "",
            1,
            "slow" if slow else "",
        )
