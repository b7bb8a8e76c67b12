"""Writer of ibsim net files: an InfiniBand subnet that ibsim simulates and OpenSM manages.

The format is that of ibsim's own examples: a header ``Switch 40 "leaf-1"`` or ``Hca 1 "node001"``
a node, a line ``[1] "peer"[1]`` a port. The speed stands in the comment behind it, as
ibnetdiscover writes it, and is read from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from railweave.errors import InputError

__all__ = ["IbNode", "IbPort", "write_ibnet"]

#: rate of four lanes → name. ibsim 0.10 knows no faster ones and takes an unknown name for SDR.
_SPEEDS: Final = ((10e9, "SDR"), (20e9, "DDR"), (40e9, "QDR"), (56e9, "FDR"), (100e9, "EDR"))
_FASTEST: Final = (200e9, "HDR")
_MOST_PORTS: Final = 254


@dataclass(frozen=True, slots=True)
class IbPort:
    """A connected port: its number (from 1), the node and port at the other end, the link rate."""

    number: int
    peer: str
    peer_port: int
    speed_bps: float


@dataclass(frozen=True, slots=True)
class IbNode:
    """A switch or a channel adapter. ``n_ports`` counts free ports too."""

    name: str
    is_switch: bool
    n_ports: int
    ports: tuple[IbPort, ...]


def write_ibnet(nodes: Sequence[IbNode]) -> str:
    """Return the net file of a subnet, in the order of the nodes.

    ibsim knows speeds up to HDR (200 Gb/s on four lanes): faster links are written as HDR, others
    as the fastest known speed that is not faster. Routing does not look at it, bandwidth as the
    subnet manager reports it does.

    Raises:
        InputError: a name twice or one that cannot be written; a port twice, or beyond its node's;
            a link of which the other end is missing or says otherwise.
    """
    _check(nodes)
    lines: list[str] = []
    for node in nodes:
        lines.append(f'{"Switch" if node.is_switch else "Hca"}\t{node.n_ports} "{node.name}"')
        for port in sorted(node.ports, key=lambda p: p.number):
            lines.append(
                f'[{port.number}]\t"{port.peer}"[{port.peer_port}]'
                f'\t# lid 0 lmc 0 "{port.peer}" lid 0 4x{_speed_name(port.speed_bps)}'
            )
        lines.append("")
    return "\n".join(lines)


def _speed_name(speed_bps: float) -> str:
    below = [name for rate, name in (*_SPEEDS, _FASTEST) if rate <= speed_bps]
    return below[-1] if below else _SPEEDS[0][1]


def _check(nodes: Sequence[IbNode]) -> None:
    ends: dict[tuple[str, int], tuple[str, int]] = {}
    names: set[str] = set()
    for node in nodes:
        if node.name in names:
            raise InputError(f"ibsim net file: node {node.name!r} stands there twice; rename one")
        names.add(node.name)
        if not node.name or any(c in '"#\n' or not c.isprintable() for c in node.name):
            raise InputError(
                f'ibsim net file: node name {node.name!r}; allowed: printable text without " or #'
            )
        if not 1 <= node.n_ports <= _MOST_PORTS:
            raise InputError(
                f"ibsim net file: node {node.name!r} has {node.n_ports} ports; "
                f"allowed: 1 to {_MOST_PORTS}"
            )
        for port in node.ports:
            here = (node.name, port.number)
            if not 1 <= port.number <= node.n_ports:
                raise InputError(
                    f"ibsim net file: {_text(here)} does not exist; allowed: 1 to {node.n_ports}"
                )
            if here in ends:
                raise InputError(f"ibsim net file: {_text(here)} is connected twice; allowed: once")
            ends[here] = (port.peer, port.peer_port)
    for here, there in ends.items():
        back = ends.get(there)
        if back != here:
            says = "nothing" if back is None else _text(back)
            raise InputError(
                f"ibsim net file: {_text(here)} leads to {_text(there)}, which leads to {says}; "
                "allowed: links that both ends name alike"
            )


def _text(end: tuple[str, int]) -> str:
    return f"port {end[1]} of {end[0]!r}"
