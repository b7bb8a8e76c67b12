"""Graphs from files: any switches and links, as YAML, JSON (node-link) or GraphML.

YAML::

    switches: [{name: s1, model: sn5600}, {name: s2, tier: 2}]
    links:
      - {a: "node001:nic0", b: s1, speed: 400 Gb/s}
      - {a: node002, b: s1}          # the server's next NIC without a link
      - {a: s1, b: s2, speed: 800 Gb/s, count: 4, length: 30 m}

An end is a switch or a server of the design. In JSON and GraphML nodes have ``id`` and edges
``source`` and ``target``, with the same further fields; a node that is no server or NIC of one is
a switch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from railweave.errors import DesignError, MissingProgramError, Problem
from railweave.formats.quantity import Metres, RateBps
from railweave.formats.validation import nearest, validate
from railweave.formats.yaml_source import YamlDocument, parse_yaml, read_yaml

__all__ = ["Graph", "GraphEnd", "GraphLink", "GraphSwitch", "read_graph"]

_END = re.compile(r"(?P<server>[^:/]+)(?:[:/]nic-?(?P<nic>\d+))?")
MOST_LINKS = 4_000_000


def _above_zero(value: float) -> float:
    if value <= 0:
        raise ValueError("must be more than 0")
    return value


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class GraphSwitch(_Strict):
    """A switch of a graph."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=64)]
    tier: Annotated[int, Field(ge=1, le=3)] | None = None
    model: str | None = None


class GraphLink(_Strict):
    """Links between two ends; ``count`` of them in parallel."""

    a: Annotated[str, Field(min_length=1, max_length=200)]
    b: Annotated[str, Field(min_length=1, max_length=200)]
    speed: Annotated[RateBps, AfterValidator(_above_zero)] | None = None
    count: Annotated[int, Field(ge=1, le=10_000)] = 1
    length: Metres | None = None


class _GraphFile(_Strict):
    switches: tuple[GraphSwitch, ...]
    links: tuple[GraphLink, ...]


@dataclass(frozen=True, slots=True)
class GraphEnd:
    """One end of a link: a switch (number in the graph) or a server, with its NIC where said."""

    switch: int = -1
    server: int = -1
    nic: int | None = None


@dataclass(frozen=True, slots=True)
class Graph:
    """Switches, and links with their ends resolved; server ends stand first."""

    switches: tuple[GraphSwitch, ...]
    links: tuple[tuple[GraphEnd, GraphEnd, GraphLink], ...]


def read_graph(path: Path, server_names: Sequence[str]) -> Graph:
    """Read a graph file; the form follows from the name: .yaml, .yml, .json or .graphml.

    Raises:
        DesignError: problems in the file, each at its position.
        MissingProgramError: GraphML without networkx (``pip install 'railweave[graph]'``).
    """
    suffix = path.suffix.lower()
    if suffix == ".graphml":
        document = _document(_read_graphml(path), path, server_names)
    elif suffix == ".json":
        source = read_yaml(path)  # JSON is YAML, so positions and limits hold for it too
        form = source.data if isinstance(source.data, dict) else {}
        document = (
            source if "switches" in form else _document(_node_link(source), path, server_names)
        )
    else:
        document = read_yaml(path)
    return _resolve(validate(_GraphFile, document), document, server_names)


# ---------------------------------------------------------------- other people's forms


def _read_graphml(path: Path) -> dict[str, Any]:
    try:
        networkx = import_module("networkx")
    except ImportError:
        raise MissingProgramError(
            f"{path}: GraphML is read with networkx, which is not installed; "
            "pip install 'railweave[graph]', or write the graph as YAML"
        ) from None
    from xml.etree.ElementTree import ParseError

    try:
        graph = networkx.read_graphml(path)
    except OSError as error:
        raise _bad(path, f"the file cannot be read ({error.strerror or error})") from None
    except (ParseError, networkx.NetworkXError, ValueError, KeyError, TypeError) as error:
        raise _bad(path, f"this is not sound GraphML ({error})") from None
    return {
        "nodes": [{**data, "id": str(node)} for node, data in graph.nodes(data=True)],
        "links": [
            {**data, "source": str(a), "target": str(b)} for a, b, data in graph.edges(data=True)
        ],
    }


def _node_link(source: YamlDocument) -> dict[str, Any]:
    data = source.data
    edges = data.get("links", data.get("edges")) if isinstance(data, dict) else None
    nodes = data.get("nodes") if isinstance(data, dict) else None
    if not isinstance(nodes, list) or not isinstance(edges, list):
        problem = source.problem(
            (),
            "this is no node-link graph",
            allowed="an object with 'nodes' and 'links' (or 'edges')",
        )
        raise DesignError([problem])
    for kind, items, needs in (("nodes", nodes, ("id",)), ("links", edges, ("source", "target"))):
        for number, item in enumerate(items):
            if not isinstance(item, dict) or any(need not in item for need in needs):
                raise DesignError([source.problem((kind, number), f"needs {' and '.join(needs)}")])
    return {"nodes": nodes, "links": edges}


def _document(data: Mapping[str, Any], path: Path, server_names: Sequence[str]) -> YamlDocument:
    """Write a node-link graph in our own form, so that one set of checks serves all."""
    servers = _ServerNames(server_names)
    switches = [
        {"name": str(node["id"]), **_kept(node, ("tier", "model"))}
        for node in data["nodes"]
        if _end(str(node["id"]), {}, servers) is None
    ]
    links = [
        {
            "a": str(edge["source"]),
            "b": str(edge["target"]),
            **_kept(edge, ("speed", "count", "length")),
        }
        for edge in data["links"]
    ]
    return parse_yaml(json.dumps({"switches": switches, "links": links}, indent=0), str(path))


def _kept(item: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: item[name] for name in names if item.get(name) is not None}


def _bad(path: Path, message: str) -> DesignError:
    return DesignError([Problem("", message, file=str(path))])


# ---------------------------------------------------------------- names


class _ServerNames:
    """Servers by name, however many zeros the number has."""

    def __init__(self, names: Sequence[str]) -> None:
        self.exact = {name: number for number, name in enumerate(names)}
        self.loose = {_loose(name): number for number, name in enumerate(names)}

    def number(self, name: str) -> int | None:
        """Return a server's number, None where it is none."""
        found = self.exact.get(name)
        return self.loose.get(_loose(name)) if found is None else found


def _loose(name: str) -> str:
    return re.sub(r"0*(\d+)$", r"\1", name)


def _resolve(file: _GraphFile, document: YamlDocument, server_names: Sequence[str]) -> Graph:
    servers = _ServerNames(server_names)
    problems: list[Problem] = []
    numbers: dict[str, int] = {}
    for number, switch in enumerate(file.switches):
        if switch.name in numbers or servers.number(switch.name) is not None:
            what = "switch" if switch.name in numbers else "server"
            problems.append(
                document.problem(
                    ("switches", number, "name"), f"there is already a {what} {switch.name!r}"
                )
            )
        numbers.setdefault(switch.name, number)
    links, total = [], 0
    for number, link in enumerate(file.links):
        total += link.count
        ends = []
        for side, name in (("a", link.a), ("b", link.b)):
            end = _end(name, numbers, servers)
            if end is None:
                near = nearest(name.split(":")[0], [*numbers, *server_names[:2000]])
                problems.append(
                    document.problem(
                        ("links", number, side),
                        f"there is no switch or server {name!r}",
                        allowed="a switch here, a server ('node001') or a NIC ('node001:nic0')",
                        nearest=near,
                    )
                )
            else:
                ends.append(end)
        if len(ends) == 2:
            problems += _odd_link(ends, link, document, number)
            ends.sort(key=lambda end: end.server < 0)
            links.append((ends[0], ends[1], link))
    if total > MOST_LINKS:
        problems.append(
            document.problem(("links",), f"{total:,} links are too many", allowed="4,000,000")
        )
    if problems:
        raise DesignError(problems)
    return Graph(file.switches, tuple(links))


def _end(name: str, switches: Mapping[str, int], servers: _ServerNames) -> GraphEnd | None:
    if name in switches:
        return GraphEnd(switch=switches[name])
    match = _END.fullmatch(name)
    server = servers.number(match["server"]) if match else None
    if match is None or server is None:
        return None
    return GraphEnd(server=server, nic=int(match["nic"]) if match["nic"] is not None else None)


def _odd_link(
    ends: Sequence[GraphEnd], link: GraphLink, document: YamlDocument, number: int
) -> list[Problem]:
    a, b = ends
    if a.server >= 0 and b.server >= 0:
        return [
            document.problem(
                ("links", number), "a link joins two servers", allowed="a switch at one end"
            )
        ]
    if a.switch >= 0 and a.switch == b.switch:
        return [document.problem(("links", number), f"a link joins {link.a!r} to itself")]
    return []
