"""What the canvas draws: nodes, links, frames round groups, and what moves, as immutable data.

A `Scene` is plain data without a browser in it: labs make it from the engines' results, tests read
it, and `Scene.document` turns it into the compact JSON that the canvas component reads.

Places are ``x`` to the right and ``y`` **downwards**, in any unit: the canvas fits the whole scene
into the view. With ``aspect`` 0 a drawing is stretched to the shape of the view (trees, tiers);
with a number, one unit to the right is that many times as long as one downwards (rings: 1).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Final

from railweave.errors import InputError

__all__ = [
    "KINDS",
    "STATES",
    "STYLES",
    "Flight",
    "Level",
    "Phase",
    "Scene",
    "SceneGroup",
    "SceneLink",
    "SceneNode",
]

#: what a node can be; each has its own sign
KINDS: Final = (
    "gpu",
    "server",
    "nic",
    "leaf",
    "spine",
    "core",
    "switch",
    "host",
    "users",
    "storage",
    "management",
    "queue",
    "sender",
    "receiver",
)
#: how a node or link stands; each is drawn with a sign of its own beside its colour
STATES: Final = ("", "down", "hot", "marked", "paused", "slow")
#: how a link is drawn: a line; an arc; a line or an arc with an arrow head; dashes;
#: solid blocks with arrow heads (PFC pauses one hop); a dashed arc from end to end (a CNP)
STYLES: Final = ("", "curve", "arrow", "arc", "dashed", "pfc", "cnp")


@dataclass(frozen=True, slots=True)
class SceneNode:
    """A thing at a place.

    ``label`` stands beside it, ``detail`` is said when it is pointed at or selected. ``role`` is a
    key of the palette (``backend``, ``storage``, …, ``plane-a``, …; "" is neutral). ``group`` is
    the id of the frame it stands in. ``count`` above 1: it stands for that many, and wears a badge.
    """

    id: str
    x: float
    y: float
    kind: str
    label: str
    detail: str = ""
    role: str = ""
    group: str = ""
    count: int = 1
    state: str = ""


@dataclass(frozen=True, slots=True)
class SceneLink:
    """A line between two nodes; it goes from ``source`` to ``target`` where it has an arrow head.

    ``count`` above 1: a bundle. ``load`` is the utilisation 0..1 that colours it; NaN where it is
    not known.
    """

    id: str
    source: str
    target: str
    role: str = ""
    count: int = 1
    label: str = ""
    state: str = ""
    load: float = math.nan
    style: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class SceneGroup:
    """A frame round the nodes that name it as their ``group``.

    A collapsed one still needs the node or the few that stand for the rest. ``count`` is how many
    devices are in it. ``fixed``: it cannot be opened or closed.
    """

    id: str
    label: str
    collapsed: bool = False
    count: int = 0
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class Flight:
    """A token under way from ``source`` to ``target`` from ``start_s`` to ``end_s``.

    It moves along the link between the two, or on an arc where there is none. ``kind`` is ``data``,
    ``chunk``, ``ack``, ``cnp``, ``pause``, ``resume`` or ``request``; ``bytes`` sets its size among
    the others. A path of several hops is one flight a hop.
    """

    start_s: float
    end_s: float
    source: str
    target: str
    kind: str = "data"
    label: str = ""
    bytes: float = 0.0
    role: str = ""


@dataclass(frozen=True, slots=True)
class Level:
    """How full a node is over time: ``value[i]`` from ``time_s[i]`` on, joined by straight lines.

    ``marks`` are (value, label) of threshold lines. ``full`` is the value at the brim (0: the most
    that occurs). ``unit`` is a symbol such as ``B``, written after the value.
    """

    node: str
    time_s: tuple[float, ...]
    value: tuple[float, ...]
    marks: tuple[tuple[float, str], ...] = ()
    full: float = 0.0
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Phase:
    """A node or link that is in ``state`` from ``start_s`` to ``end_s``, by its id."""

    start_s: float
    end_s: float
    target: str
    state: str


@dataclass(frozen=True)
class Scene:
    """Everything that one canvas shows.

    ``steps`` are the times at which stepping stops, each with what is said there; left out, they
    are the times at which flights and phases start. ``description`` is what a screen reader says
    of the whole drawing, ``note`` a line in its corner (what is not drawn, say).

    Raises:
        InputError: an id twice, an end or frame that does not exist, a kind, state or style that
            the canvas does not know, or a place or time that is not a number.
    """

    nodes: tuple[SceneNode, ...] = ()
    links: tuple[SceneLink, ...] = ()
    groups: tuple[SceneGroup, ...] = ()
    flights: tuple[Flight, ...] = ()
    levels: tuple[Level, ...] = ()
    phases: tuple[Phase, ...] = ()
    duration_s: float = 0.0
    title: str = ""
    description: str = ""
    note: str = ""
    steps: tuple[tuple[float, str], ...] = ()
    aspect: float = 0.0

    def __post_init__(self) -> None:
        _check(self)

    @cached_property
    def _text(self) -> str:
        return json.dumps(
            _columns_of(self), ensure_ascii=False, separators=(",", ":"), allow_nan=False
        )

    def document(self) -> str:
        """Return the scene as compact JSON: a column for each field, the same for the same scene.

        Ends of links, flights and phases are positions in the columns of nodes (of nodes and then
        links for phases).
        """
        return self._text


def _check(scene: Scene) -> None:
    """Refuse a scene that cannot be drawn."""
    nodes = _unique("node", (node.id for node in scene.nodes))
    links = _unique("link", (link.id for link in scene.links))
    groups = _unique("group", (group.id for group in scene.groups))
    both = next(iter(nodes & links), None)
    if both is not None:
        raise InputError(f"scene: {both!r} is the id of a node and of a link; give each its own")
    for node in scene.nodes:
        _allowed(f"node {node.id!r}", "kind", node.kind, KINDS)
        _allowed(f"node {node.id!r}", "state", node.state, STATES)
        _finite(f"node {node.id!r}", node.x, node.y)
        if node.group:
            _known(f"node {node.id!r}", "group", node.group, groups)
    for link in scene.links:
        _allowed(f"link {link.id!r}", "style", link.style, STYLES)
        _allowed(f"link {link.id!r}", "state", link.state, STATES)
        _known(f"link {link.id!r}", "source", link.source, nodes)
        _known(f"link {link.id!r}", "target", link.target, nodes)
        if math.isinf(link.load):
            raise InputError(f"scene: link {link.id!r}: load must be a number or NaN")
    _check_motion(scene, nodes, links)


def _check_motion(scene: Scene, nodes: set[str], links: set[str]) -> None:
    """Refuse what cannot move."""
    _finite("the scene", scene.duration_s, scene.aspect, *(time for time, _ in scene.steps))
    for flight in scene.flights:
        where = f"flight {flight.label or flight.kind!r} at {flight.start_s:g} s"
        _known(where, "source", flight.source, nodes)
        _known(where, "target", flight.target, nodes)
        _interval(where, flight.start_s, flight.end_s)
    for level in scene.levels:
        where = f"level of {level.node!r}"
        _known(where, "node", level.node, nodes)
        _finite(where, *level.time_s, *level.value, *(value for value, _ in level.marks))
        if len(level.time_s) != len(level.value) or not level.time_s:
            raise InputError(f"scene: {where}: time_s and value must be of one length, at least 1")
        if any(later < time for time, later in zip(level.time_s, level.time_s[1:], strict=False)):
            raise InputError(f"scene: {where}: time_s must not fall")
    for phase in scene.phases:
        where = f"phase at {phase.start_s:g} s"
        _known(where, "target", phase.target, nodes | links)
        _allowed(where, "state", phase.state, STATES[1:])
        _interval(where, phase.start_s, phase.end_s)


def _unique(what: str, ids: Iterable[str]) -> set[str]:
    seen: set[str] = set()
    for one in ids:
        if not one or one in seen:
            raise InputError(f"scene: {what} id {one!r} is {'used twice' if one else 'empty'}")
        seen.add(one)
    return seen


def _known(where: str, field: str, name: str, known: set[str]) -> None:
    if name not in known:
        raise InputError(f"scene: {where}: {field} {name!r} is not in the scene")


def _allowed(where: str, field: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        names = ", ".join(repr(one) for one in allowed)
        raise InputError(f"scene: {where}: {field} {value!r} is not known; allowed: {names}")


def _finite(where: str, *numbers: float) -> None:
    if not all(math.isfinite(number) for number in numbers):
        raise InputError(f"scene: {where}: places, times and values must be finite numbers")


def _interval(where: str, start_s: float, end_s: float) -> None:
    _finite(where, start_s, end_s)
    if end_s < start_s:
        raise InputError(f"scene: {where}: it ends before it starts")


#: a column: a list; ``{"all": v}`` where every row has the same; ``{"set": […], "at": […]}`` where
#: few values repeat
Column = list[object] | dict[str, object]
#: digits of places relative to the scene's extent, of times relative to its duration
_DIGITS: Final = 6
#: a categorical column has at most this many values
_FEW: Final = 64


def _columns_of(scene: Scene) -> dict[str, object]:
    at = {node.id: place for place, node in enumerate(scene.nodes)}
    link_at = {link.id: len(at) + place for place, link in enumerate(scene.links)}
    places = [abs(value) for node in scene.nodes for value in (node.x, node.y)]
    space, times = _decimals(max(places, default=1.0)), _decimals(_last_time(scene))
    return {
        "title": scene.title,
        "description": scene.description,
        "note": scene.note,
        "aspect": scene.aspect,
        "duration_s": _number(_last_time(scene)),
        "steps": [[round(time, times), text] for time, text in scene.steps],
        "nodes": _table(scene.nodes, SceneNode, round_to={"x": space, "y": space}),
        "links": _table(scene.links, SceneLink, index={"source": at, "target": at}),
        "groups": _table(scene.groups, SceneGroup),
        "flights": _table(
            scene.flights,
            Flight,
            index={"source": at, "target": at},
            round_to={"start_s": times, "end_s": times},
        ),
        "phases": _table(
            scene.phases,
            Phase,
            index={"target": at | link_at},
            round_to={"start_s": times, "end_s": times},
        ),
        "levels": [_level(level, at, times) for level in scene.levels],
    }


def _level(level: Level, at: dict[str, int], decimals: int) -> dict[str, object]:
    return {
        "node": at[level.node],
        "time_s": [round(time, decimals) for time in level.time_s],
        "value": [_number(value) for value in level.value],
        "marks": [[_number(value), label] for value, label in level.marks],
        "full": _number(level.full),
        "unit": level.unit,
    }


def _last_time(scene: Scene) -> float:
    """Return the scene's duration, or when the last thing ends where none is given."""
    if scene.duration_s > 0:
        return scene.duration_s
    ends = [flight.end_s for flight in scene.flights] + [phase.end_s for phase in scene.phases]
    ends += [level.time_s[-1] for level in scene.levels]
    return max([0.0, *ends])


def _decimals(largest: float) -> int:
    return _DIGITS - math.floor(math.log10(largest)) if largest > 0 else _DIGITS


def _table(
    rows: Sequence[object],
    kind: type,
    *,
    index: dict[str, dict[str, int]] | None = None,
    round_to: dict[str, int] | None = None,
) -> dict[str, object]:
    """Return ``{"n": rows, field: column, …}``; fields that all have the default are left out."""
    table: dict[str, object] = {"n": len(rows)}
    for field in fields(kind):
        name = field.name
        values: list[object] = [getattr(row, name) for row in rows]
        if not values or all(value == field.default for value in values):
            continue
        if index and name in index:
            values = [index[name][str(value)] for value in values]
        decimals = (round_to or {}).get(name)
        values = [_plain(value, decimals) for value in values]
        if any(value is not None for value in values):
            table[name] = _column(values)
    return table


def _plain(value: object, decimals: int | None) -> object:
    if not isinstance(value, float):
        return value
    return _number(round(value, decimals)) if decimals is not None else _number(value)


def _number(value: float) -> float | int | None:
    """Return a number of six digits, as an integer where it is one; None for NaN."""
    if math.isnan(value):
        return None
    short = float(f"{value:.{_DIGITS}g}") if abs(value) < 1e15 else value
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def _column(values: list[object]) -> Column:
    """Return the shortest form of a column."""
    distinct = list(dict.fromkeys(values))
    if len(distinct) == 1 and len(values) > 1:
        return {"all": distinct[0]}
    if all(isinstance(value, str) for value in distinct) and len(distinct) <= min(
        _FEW, len(values) // 4
    ):
        where = {value: place for place, value in enumerate(distinct)}
        return {"set": distinct, "at": [where[value] for value in values]}
    return values
