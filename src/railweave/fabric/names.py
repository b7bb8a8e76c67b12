"""Names of nodes and ports, made on demand and found again.

``node001`` is a server's host, ``node001/gpu0`` and ``node001/nic0`` what is in it,
``node001/frontend-nic0`` a NIC of another plane, ``node001/scale-up`` its scale-up domain (named
after the domain's first server). Switches are ``leaf-1``, ``spine-1``, ``core-1``; those of other
planes carry the plane's name (``frontend-leaf-1``) and those of parallel planes ``p1-``, ``p2-``
(``p2-leaf-3``). A port is ``leaf-1:port-12``; ports of NICs are ``node001/nic0:port-1``.
"""

from __future__ import annotations

import difflib
import re
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from railweave.errors import InputError
from railweave.fabric._arrays import TIER_NAMES, NodeKind, PlaneId

if TYPE_CHECKING:
    from railweave.fabric._arrays import Fabric

__all__ = [
    "Naming",
    "UnknownNameError",
    "duplex_name",
    "find_duplex",
    "find_node",
    "find_port",
    "node_name",
    "port_name",
    "respelt",
]

_TIERS = {name: tier for tier, name in TIER_NAMES.items()}
_SWITCH = re.compile(
    r"(?:(?P<plane>[a-z]+)-)?(?:p(?P<sub>\d+)-)?(?P<tier>leaf|spine|core|switch)-(?P<number>\d+)"
)
_PART = re.compile(r"(?:(?P<plane>[a-z]+)-)?(?P<kind>gpu|nic)(?P<number>\d+)")
_PORT = re.compile(r"port-(\d+)")


#: names compared in search of the nearest
_MOST_COMPARED = 2_000


class UnknownNameError(InputError):
    """No node, port or link of this name; the text gives the nearest."""


class Naming:
    """Look-up tables of one fabric; made once, kept by the fabric."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric

    @cached_property
    def server_of(self) -> dict[str, int]:
        """Server number by name."""
        return {name: number for number, name in enumerate(self.fabric.server_names)}

    @cached_property
    def hosts(self) -> dict[int, int]:
        """HOST node by server number."""
        return self._by_server(NodeKind.HOST)

    @cached_property
    def given(self) -> dict[str, int]:
        """Node by the name a graph file or the design gave it."""
        return {name: node for node, name in self.fabric.switch_names.items()}

    @cached_property
    def divided(self) -> frozenset[int]:
        """Planes with more than one parallel plane."""
        fabric = self.fabric
        return frozenset(np.unique(fabric.node_plane[fabric.node_subplane > 0]).tolist())

    @cached_property
    def first_gpu(self) -> dict[int, int]:
        """First GPU node by server."""
        return self._by_server(NodeKind.GPU)

    @cached_property
    def first_nic(self) -> dict[tuple[int, int], int]:
        """First NIC node by plane and server."""
        found: dict[tuple[int, int], int] = {}
        for plane in PlaneId:
            nics = self.fabric.nics(plane)
            servers, first = np.unique(self.fabric.node_server[nics], return_index=True)
            found.update(
                {
                    (int(plane), server): int(nics[at])
                    for server, at in zip(servers.tolist(), first, strict=True)
                }
            )
        return found

    def _by_server(self, kind: NodeKind) -> dict[int, int]:
        nodes = np.flatnonzero(self.fabric.node_kind == kind)
        servers, first = np.unique(self.fabric.node_server[nodes], return_index=True)
        return dict(zip(servers.tolist(), nodes[first].tolist(), strict=True))


def node_name(fabric: Fabric, node: int) -> str:
    """Return a node's name."""
    if node in fabric.switch_names:
        return fabric.switch_names[node]
    kind = NodeKind(int(fabric.node_kind[node]))
    if kind is NodeKind.SWITCH:
        return _switch_name(fabric, node)
    server, naming = int(fabric.node_server[node]), fabric.naming
    if server < 0 or server >= len(fabric.server_names):
        return f"{kind.name.lower()}-{int(fabric.node_index[node]) + 1}"
    return fabric.server_names[server] + _part(naming, node, kind, server)


def _part(naming: Naming, node: int, kind: NodeKind, server: int) -> str:
    if kind is NodeKind.HOST:
        return ""
    if kind is NodeKind.GPU:
        return f"/gpu{node - naming.first_gpu[server]}"
    if kind is NodeKind.SCALE_UP:
        return "/scale-up"
    plane = int(naming.fabric.node_plane[node])
    return f"/{_prefix(plane)}nic{node - naming.first_nic[plane, server]}"


def _prefix(plane: int) -> str:
    return "" if plane in (-1, PlaneId.BACKEND) else f"{PlaneId(plane).name.lower()}-"


def _switch_name(fabric: Fabric, node: int) -> str:
    plane, tier = int(fabric.node_plane[node]), int(fabric.node_tier[node])
    sub = f"p{int(fabric.node_subplane[node]) + 1}-" if plane in fabric.naming.divided else ""
    number = int(fabric.node_index[node]) + 1
    return f"{_prefix(plane)}{sub}{TIER_NAMES.get(tier, 'switch')}-{number}"


def port_name(fabric: Fabric, link: int, *, head: bool = False) -> str:
    """Return the port at which a directed link leaves its source, or enters its ``head``."""
    node = fabric.link_dst[link] if head else fabric.link_src[link]
    port = fabric.link_dst_port[link] if head else fabric.link_src_port[link]
    return f"{node_name(fabric, int(node))}:port-{int(port)}"


def duplex_name(fabric: Fabric, duplex: int) -> str:
    """Return a name of a duplex link that :func:`find_duplex` finds: a switch's port, if any.

    Links inside a server have no ports; they are named by their two ends.
    """
    link = 2 * duplex
    if not fabric.link_src_port[link]:
        ends = (fabric.link_src[link], fabric.link_dst[link])
        return " – ".join(node_name(fabric, int(end)) for end in ends)
    at_switch = fabric.node_kind[fabric.link_src[link]] == NodeKind.SWITCH
    return port_name(fabric, link, head=not at_switch)


def find_node(fabric: Fabric, name: str) -> int:
    """Return the node of a name.

    Raises:
        UnknownNameError: there is none; the nearest name is given.
    """
    naming = fabric.naming
    if name in naming.given:
        return naming.given[name]
    server, _, part = name.partition("/")
    if server in naming.server_of:
        number = naming.server_of[server]
        node = _in_server(fabric, number, part) if part else naming.hosts.get(number)
    else:
        node = _find_switch(fabric, name)
    if node is None:
        raise _unknown(fabric, name)
    return node


def _in_server(fabric: Fabric, server: int, part: str) -> int | None:
    naming = fabric.naming
    if part == "scale-up":
        kind = fabric.node_kind == NodeKind.SCALE_UP
        hubs = np.flatnonzero(kind & (fabric.node_server <= server))
        return int(hubs[np.argmax(fabric.node_server[hubs])]) if hubs.size else None
    match = _PART.fullmatch(part)
    if match is None:
        return None
    number = int(match["number"])
    if match["kind"] == "gpu":
        first = naming.first_gpu.get(server)
        kind = NodeKind.GPU
    else:
        plane = (match["plane"] or "backend").upper()
        if plane not in PlaneId.__members__:
            return None
        first = naming.first_nic.get((int(PlaneId[plane]), server))
        kind = NodeKind.NIC
    if first is None or first + number >= fabric.n_nodes:
        return None
    node = first + number
    same = fabric.node_server[node] == server and fabric.node_kind[node] == kind
    return node if same and fabric.node_plane[node] == fabric.node_plane[first] else None


def _find_switch(fabric: Fabric, name: str) -> int | None:
    match = _SWITCH.fullmatch(name)
    if match is None:
        return None
    plane = (match["plane"] or "backend").upper()
    if plane not in PlaneId.__members__:
        return None
    chosen = (
        (fabric.node_kind == NodeKind.SWITCH)
        & (fabric.node_plane == PlaneId[plane])
        & (fabric.node_tier == _TIERS.get(match["tier"], -1))
        & (fabric.node_index == int(match["number"]) - 1)
    )
    divided = int(PlaneId[plane]) in fabric.naming.divided
    if divided != (match["sub"] is not None):
        return None
    if match["sub"] is not None:
        chosen &= fabric.node_subplane == int(match["sub"]) - 1
    nodes = np.flatnonzero(chosen)
    return int(nodes[0]) if nodes.size == 1 else None


def _unknown(fabric: Fabric, name: str) -> UnknownNameError:
    spelt = respelt(fabric, name) or name
    server, slash, _ = spelt.partition("/")
    known: list[str]
    match = _SWITCH.fullmatch(name)
    if match is not None and match["tier"] != "switch":
        last = _last_alike(fabric, name, int(match["number"]))
        if last is not None:
            return UnknownNameError(f"there is no {name!r} in this fabric; the last is {last!r}")
    if slash and server in fabric.naming.server_of:
        inside = np.flatnonzero(fabric.node_server == fabric.naming.server_of[server])
        known = [node_name(fabric, int(node)) for node in inside]
    elif spelt != name:
        known = [spelt]
    else:
        switches = np.flatnonzero(fabric.node_kind == NodeKind.SWITCH)
        known = [node_name(fabric, int(node)) for node in switches[:_MOST_COMPARED]]
        known += [*fabric.naming.given, *fabric.server_names[:_MOST_COMPARED]]
    near = _nearest(spelt, known)
    hint = f"; did you mean {near!r}?" if near else ""
    return UnknownNameError(
        f"there is no {name!r} in this fabric{hint} (such as {', '.join(_examples(fabric))})"
    )


def _nearest(name: str, known: list[str]) -> str:
    """Return the likest name."""
    likeness = difflib.SequenceMatcher(b=name)
    best, score = "", -1.0
    for candidate in known:
        likeness.set_seq1(candidate)
        if likeness.real_quick_ratio() > score and likeness.ratio() > score:
            best, score = candidate, likeness.ratio()
    return best


def respelt(fabric: Fabric, name: str) -> str:
    """Return a name with its server's number in the width that this fabric writes, or "".

    ``node1/gpu0`` is ``node001/gpu0`` written short.
    """
    server, slash, part = name.partition("/")
    numbered = re.fullmatch(r"(.*?)0*(\d+)", server)
    if numbered is None or server in fabric.naming.server_of:
        return ""
    for width in range(1, 9):
        padded = f"{numbered[1]}{int(numbered[2]):0{width}d}"
        known = padded in fabric.naming.server_of or padded in fabric.naming.given
        if padded != server and known:
            return f"{padded}{slash}{part}"
    return ""


def _last_alike(fabric: Fabric, name: str, number: int) -> str | None:
    """Return the last switch whose name differs from this one in its number only."""
    stem = name[: -len(str(number))]
    first = _find_switch(fabric, f"{stem}1")
    if first is None:
        return None
    alike = (
        (fabric.node_kind == NodeKind.SWITCH)
        & (fabric.node_plane == fabric.node_plane[first])
        & (fabric.node_subplane == fabric.node_subplane[first])
        & (fabric.node_tier == fabric.node_tier[first])
    )
    return node_name(fabric, int(np.flatnonzero(alike)[-1]))


def _examples(fabric: Fabric) -> list[str]:
    found = []
    for kind in (NodeKind.SWITCH, NodeKind.HOST, NodeKind.NIC):
        nodes = np.flatnonzero(fabric.node_kind == kind)
        if nodes.size:
            found.append(node_name(fabric, int(nodes[0])))
    return found


def find_port(fabric: Fabric, name: str) -> tuple[int, int]:
    """Return (node, port number) of ``leaf-1:port-12``; the port need not be cabled.

    Raises:
        UnknownNameError: no such node, or not the name of a port.
    """
    device, colon, port = name.rpartition(":")
    match = _PORT.fullmatch(port)
    if not colon or match is None:
        raise UnknownNameError(f"{name!r} is not a port; write one such as 'leaf-1:port-12'")
    return find_node(fabric, device), int(match[1])


def find_duplex(fabric: Fabric, name: str) -> int:
    """Return the number of the duplex link at a port.

    Raises:
        UnknownNameError: no such port, or nothing is cabled there; the ports that are in use are
            given.
    """
    node, port = find_port(fabric, name)
    here = np.flatnonzero((fabric.link_src == node) & (fabric.link_src_port > 0))
    links = here[fabric.link_src_port[here] == port]
    if not links.size:
        used = np.unique(fabric.link_src_port[here])
        device = name.rpartition(":")[0]
        near = int(used[np.argmin(np.abs(used - port))]) if used.size else 0
        hint = f"; the nearest in use is '{device}:port-{near}'" if near else ""
        raise UnknownNameError(
            f"nothing is cabled at {name!r}: {device} has links at ports "
            f"{_ranges(used.tolist())}{hint}"
        )
    return int(links[0]) // 2


def _ranges(numbers: list[int]) -> str:
    """Write ascending numbers as ranges: ``1–4, 9``."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(f"{a}–{b}" if a != b else str(a) for a, b in parts) or "none"
