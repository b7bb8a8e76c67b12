"""Forwarding tables from outside: which port each switch uses for each destination.

Two text formats are read and written:

* railweave's own CSV with the header ``switch,destination,port``: a switch name, the name of an
  endpoint's adapter, and the switch's port number (from 1). ``#`` starts a comment.
* OpenSM's dump of unicast tables, as ``opensm-lfts.dump`` and ``dump_fts`` write it: one block
  a switch, one line a LID. Switches and destinations are matched by their node description.

Which of the two a file is, is seen from its first line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from railweave.errors import DesignError, InputError, Problem
from railweave.fabric._arrays import Fabric, LinkLayer, NodeKind
from railweave.fabric.names import node_name

if TYPE_CHECKING:
    from railweave.fabric.routing import Routing

__all__ = [
    "ForwardingTable",
    "export_table",
    "port_owners",
    "read_table",
    "write_csv",
    "write_opensm",
]

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

_HEADER = "switch,destination,port"
_BLOCK = re.compile(
    r"^Unicast lids \[.*?\] of switch .*?guid 0x(?P<guid>[0-9a-fA-F]+) "
    r"\('?(?P<name>[^']*?)'?\):\s*$"
)
_LINE = re.compile(
    r"^0x(?P<lid>[0-9a-fA-F]+) +(?P<port>\d+) +[#:] +\(?(?P<type>[A-Za-z ]+?) portguid "
    r"0x(?P<guid>[0-9a-fA-F]+): '(?P<name>.*)'\)?\s*$"
)
_NOISE = re.compile(r"^(\s*Lid\s+Out|\s*Port\s+Info|\d+ (valid )?lids dumped|\s*$)")
_UNKNOWN = re.compile(r"^0x[0-9a-fA-F]+ +\d+ +[#:]")


@dataclass(frozen=True, eq=False)
class ForwardingTable:
    """Entries of all switches: at ``switch``, traffic for ``destination`` leaves on ``link``.

    Node numbers and directed link numbers of one fabric, shape (E,); at most one entry for each
    switch and destination.
    """

    switch: I32
    destination: I32
    link: I32

    def rows(self, n_nodes: int) -> tuple[I64, I32, I32]:
        """Return the entries in CSR form by switch, destinations rising within each."""
        order = np.lexsort((self.destination, self.switch))
        ptr = np.searchsorted(self.switch[order], np.arange(n_nodes + 1)).astype(np.int64)
        return ptr, self.destination[order], self.link[order]


class _Reader:
    """Collects entries and every problem of one file."""

    def __init__(self, fabric: Fabric, file: str, names: Mapping[str, int]) -> None:
        self.fabric = fabric
        self.file = file
        self.names = names
        self.problems: list[Problem] = []
        self.entries: dict[tuple[int, int], int] = {}
        out = np.flatnonzero(fabric.link_src_port > 0)
        self.port_link = {
            (node, port): link
            for node, port, link in zip(
                fabric.link_src[out].tolist(),
                fabric.link_src_port[out].tolist(),
                out.tolist(),
                strict=True,
            )
        }

    def fail(self, line: int, message: str, allowed: str = "", nearest: str = "") -> None:
        if len(self.problems) < 20:
            self.problems.append(Problem("", message, self.file, line, 1, allowed, nearest))

    def node(self, line: int, name: str, *, switch: bool) -> int | None:
        node = self.names.get(name)
        if node is not None and (self.fabric.node_kind[node] == NodeKind.SWITCH) == switch:
            return node
        import difflib

        what = "a switch" if switch else "an endpoint's adapter"
        kinds = [
            n
            for n, i in self.names.items()
            if (self.fabric.node_kind[i] == NodeKind.SWITCH) == switch
        ]
        near = difflib.get_close_matches(name, kinds, n=1)
        example = kinds[0] if kinds else "none"
        self.fail(
            line,
            f"{name!r} is not {what} of this fabric",
            f"names such as {example}",
            "".join(near),
        )
        return None

    def add(self, line: int, switch: int, destination: int, port: int) -> None:
        link = self.port_link.get((switch, port))
        if link is None:
            last = max((p for n, p in self.port_link if n == switch), default=0)
            self.fail(
                line, f"port {port} of this switch has no link", f"connected ports up to {last}"
            )
        elif self.entries.setdefault((switch, destination), link) != link:
            self.fail(
                line, "a second, different entry for this switch and destination", "one entry"
            )

    def table(self) -> ForwardingTable:
        if self.problems:
            raise DesignError(self.problems)
        if not self.entries:
            raise InputError(f"{self.file}: holds no forwarding entry; expected '{_HEADER}' rows")
        keys = np.array(list(self.entries), dtype=np.int32).reshape(-1, 2)
        links = np.fromiter(self.entries.values(), dtype=np.int32, count=len(self.entries))
        return ForwardingTable(keys[:, 0].copy(), keys[:, 1].copy(), links)


def port_owners(fabric: Fabric) -> dict[str, int]:
    """Name every switch and every endpoint with a port on one: name → node number."""
    network = fabric.link_layer >= LinkLayer.HOST_LEAF
    nodes = np.unique(np.concatenate((fabric.link_src[network], fabric.link_dst[network])))
    return {node_name(fabric, node): node for node in nodes.tolist()}


def read_table(
    path: str | Path, fabric: Fabric, names: Mapping[str, int] | None = None
) -> ForwardingTable:
    """Read a forwarding-table file of either format.

    Args:
        path: the file.
        fabric: whose switches and ports the file speaks of.
        names: name → node number of its switches and endpoints' adapters; None takes the names
            that railweave gives them.

    Raises:
        InputError: the file cannot be read or holds nothing.
        DesignError: every line that is wrong, with its number.
    """
    file = str(path)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: forwarding table cannot be read ({error})") from None
    reader = _Reader(fabric, file, port_owners(fabric) if names is None else names)
    lines = text.splitlines()
    head = next((line for line in lines if line.strip() and not line.startswith("#")), "")
    if head.startswith("Unicast lids"):
        _read_opensm(reader, lines)
    elif head.replace(" ", "").lower() == _HEADER:
        _read_csv(reader, lines)
    else:
        raise InputError(
            f"{file}:1:1: not a forwarding table; allowed: a CSV file that starts with "
            f"'{_HEADER}', or OpenSM's dump, which starts with 'Unicast lids'"
        )
    return reader.table()


def _read_csv(reader: _Reader, lines: list[str]) -> None:
    started = False
    for number, line in enumerate(lines, start=1):
        text = line.split("#", 1)[0].strip()
        if not text:
            continue
        if not started:
            started = True
            continue
        cells = [cell.strip() for cell in text.split(",")]
        if len(cells) != 3 or not cells[2].isdigit():
            reader.fail(number, f"{text!r} is not an entry", "switch,destination,port number")
            continue
        switch = reader.node(number, cells[0], switch=True)
        destination = reader.node(number, cells[1], switch=False)
        if switch is not None and destination is not None:
            reader.add(number, switch, destination, int(cells[2]))


def _read_opensm(reader: _Reader, lines: list[str]) -> None:
    switch: int | None = None
    for number, line in enumerate(lines, start=1):
        block = _BLOCK.match(line)
        if block:
            switch = reader.node(number, block["name"], switch=True)
            continue
        if _NOISE.match(line):
            continue
        entry = _LINE.match(line)
        if entry is None:
            if not _UNKNOWN.match(line):  # a LID of an unknown node is no fault of the file
                reader.fail(number, f"{line[:60]!r} is not a line of an OpenSM dump")
            continue
        if switch is None or entry["type"].strip() != "Channel Adapter":
            continue
        destination = reader.node(number, entry["name"], switch=False)
        if destination is not None:
            reader.add(number, switch, destination, int(entry["port"]))


def export_table(routing: Routing) -> ForwardingTable:
    """Work out the table that a plane's destination routing stands for.

    One source on every leaf sends to every endpoint; what the switches on the way did are their
    entries. Entries no such path uses are left out.

    Raises:
        InputError: the scheme's choice does not follow from the destination alone.
    """
    if routing.scheme.value not in ("destination", "table"):
        raise InputError(
            f"planes.{routing.plane.name.lower()}.routing.scheme: {routing.scheme.value!r} has no "
            "forwarding table; allowed: destination, table"
        )
    at = routing.addresses
    ends = np.unique(at.node)
    parts: list[npt.NDArray[np.int64]] = []
    for leaf in np.unique(at.leaf).tolist():
        own = np.unique(at.node[at.leaf == leaf])
        # A second source gives the entries for the first one itself.
        for source, wanted in ((own[0], ends), (own[-1], own[:1])):
            targets = wanted[wanted != source].astype(np.int32)
            sources = np.full(len(targets), source, dtype=np.int32)
            paths = routing.paths(sources, targets)
            to = np.repeat(targets[paths.message], np.diff(paths.ptr))
            node = routing.fabric.link_src[paths.link]
            keep = routing.fabric.node_kind[node] == NodeKind.SWITCH
            parts.append(np.stack((node, to, paths.link), axis=1)[keep].astype(np.int64))
    rows = np.unique(np.concatenate(parts), axis=0)
    first = np.ones(len(rows), dtype=bool)
    first[1:] = np.any(rows[1:, :2] != rows[:-1, :2], axis=1)
    switch, destination, link = np.ascontiguousarray(rows[first].T, dtype=np.int32)
    return ForwardingTable(switch, destination, link)


def _entries(
    table: ForwardingTable, fabric: Fabric, names: Mapping[str, int] | None
) -> list[tuple[str, str, int]]:
    """Return (switch, destination, port), in order of the node numbers."""
    given = port_owners(fabric) if names is None else names
    text = {node: name for name, node in given.items()}
    order = np.lexsort((table.destination, table.switch))
    return [
        (
            text[int(table.switch[k])],
            text[int(table.destination[k])],
            int(fabric.link_src_port[table.link[k]]),
        )
        for k in order.tolist()
    ]


def write_csv(
    table: ForwardingTable, fabric: Fabric, names: Mapping[str, int] | None = None
) -> str:
    """Return the table as railweave's CSV text."""
    rows = (",".join(map(str, row)) for row in _entries(table, fabric, names))
    return "\n".join((_HEADER, *rows)) + "\n"


def write_opensm(
    table: ForwardingTable, fabric: Fabric, names: Mapping[str, int] | None = None
) -> str:
    """Return the table in the form of OpenSM's ``opensm-lfts.dump``.

    LIDs and GUIDs are made up: endpoints count from 1 in node order, switches follow.
    """
    names = port_owners(fabric) if names is None else names
    ends = np.unique(table.destination)
    lid = {int(node): k + 1 for k, node in enumerate(ends)}
    switches = np.unique(table.switch)
    lid.update({int(node): len(ends) + k + 1 for k, node in enumerate(switches)})
    top = len(ends) + len(switches)
    guid = "{:016x}".format
    lines: list[str] = []
    current = ""
    for switch, destination, port in _entries(table, fabric, names):
        if switch != current:
            if current:
                lines.append(f"{top} lids dumped")
            current, node = switch, names[switch]
            lines.append(
                f"Unicast lids [0-{top}] of switch Lid {lid[node]} "
                f"guid 0x{guid((2 << 40) + node)} ('{switch}'):"
            )
        end = names[destination]
        lines.append(
            f"0x{lid[end]:04x} {port:03d} # Channel Adapter "
            f"portguid 0x{guid((1 << 40) + end)}: '{destination}'"
        )
    lines.append(f"{top} lids dumped")
    return "\n".join(lines) + "\n"
