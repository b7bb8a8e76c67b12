"""Who talks in a journey: the names of both ends, read as people write them."""

from __future__ import annotations

from dataclasses import dataclass

from railweave.errors import InputError
from railweave.fabric import Fabric, NodeKind
from railweave.fabric.names import UnknownNameError, find_node, node_name, respelt
from railweave.transport.journey._hops import KIND

__all__ = ["Ends", "endpoint", "find_ends"]


@dataclass(frozen=True, slots=True)
class Ends:
    """Who talks: nodes and names, and what had to be said of how the names were read."""

    source: int
    target: int
    source_name: str
    target_name: str
    notes: tuple[str, ...] = ()


def endpoint(fabric: Fabric, name: str) -> tuple[int, str]:
    """Return the node of a name, and a note where its number was written in another width.

    Raises:
        UnknownNameError: there is none; the nearest name is given.
        InputError: a switch, which sends nothing of its own.
    """
    note = ""
    try:
        node = find_node(fabric, name)
    except UnknownNameError:
        other = respelt(fabric, name)
        if not other:
            server, slash, _ = name.partition("/")
            if slash and server not in fabric.naming.server_of:
                find_node(fabric, server)  # says which server is nearest
            raise
        node, note = find_node(fabric, other), f"{name} is taken for {other}"
    kind = NodeKind(int(fabric.node_kind[node]))
    if kind in (NodeKind.SWITCH, NodeKind.SCALE_UP):
        gpus = fabric.gpus
        such = node_name(fabric, int(gpus[0])) if gpus.size else fabric.server_names[0]
        raise InputError(
            f"{name!r} is a {KIND[kind]} and ends no connection; allowed: a GPU, a host, an "
            f"adapter or a storage server, such as {such!r}"
        )
    return node, note


def find_ends(fabric: Fabric, source: str, target: str) -> Ends:
    """Read the names of both ends.

    Raises:
        InputError: a name that means nothing, a switch, or twice the same end.
    """
    a, note_a = endpoint(fabric, source)
    b, note_b = endpoint(fabric, target)
    if a == b:
        raise InputError(
            f"both ends are {node_name(fabric, a)}: nothing leaves it; name two different ones"
        )
    notes = tuple(note for note in (note_a, note_b) if note)
    return Ends(a, b, node_name(fabric, a), node_name(fabric, b), notes)
