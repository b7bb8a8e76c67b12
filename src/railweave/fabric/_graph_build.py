"""Wiring of a plane whose topology is a graph from a file."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from railweave.errors import SizingError
from railweave.fabric._arrays import LinkLayer, NodeKind
from railweave.fabric._assembly import Assembly, Ints
from railweave.fabric._graph import Graph
from railweave.fabric._plane_input import PlaneInput
from railweave.fabric._servers import ServerNodes
from railweave.fabric._split import SwitchShape
from railweave.units import format_bits_rate

__all__ = ["GraphWires", "add_graph", "graph_tiers", "wire_graph"]


@dataclass(frozen=True, slots=True)
class GraphWires:
    """Duplex links of a graph, parallel ones one by one.

    ``a`` is (server, NIC) where ``a_switch`` is −1. Lengths are NaN where they follow from racks.
    """

    a_switch: list[int]
    a_server: list[int]
    a_nic: list[int]
    b_switch: list[int]
    a_port: list[int]
    b_port: list[int]
    speed_bps: list[float]
    length_m: list[float]
    layer: list[int]


def graph_tiers(graph: Graph) -> list[int]:
    """Return each switch's tier: what the file says, else its distance from the servers.

    All are −1 (unknown) where a link joins two switches of the same distance, or where it is more
    than three: then the graph is not made of tiers.
    """
    given = [switch.tier for switch in graph.switches]
    beside: list[list[int]] = [[] for _ in graph.switches]
    distance = [0] * len(graph.switches)
    for a, b, _ in graph.links:
        if a.switch < 0:
            distance[b.switch] = 1
        else:
            beside[a.switch].append(b.switch)
            beside[b.switch].append(a.switch)
    queue = deque(i for i, far in enumerate(distance) if far)
    while queue:
        here = queue.popleft()
        for there in beside[here]:
            if not distance[there]:
                distance[there] = distance[here] + 1
                queue.append(there)
    tiers = [tier or distance[i] for i, tier in enumerate(given)]
    level = any(tiers[i] == tiers[j] for i, near in enumerate(beside) for j in near)
    return [-1] * len(tiers) if level or not all(1 <= t <= 3 for t in tiers) else tiers


def wire_graph(
    graph: Graph, given: PlaneInput, nics_of: Callable[[int], int], shapes: list[SwitchShape]
) -> GraphWires:
    """Give every link of a graph its ports and its speed.

    Args:
        graph: switches and links.
        given: the plane; its speeds are the defaults.
        nics_of: number of NICs of a server.
        shapes: switch of each graph switch, for port counts.

    Raises:
        SizingError: a switch has more links than ports, or a NIC is not there.
    """
    tiers = graph_tiers(graph)
    ports = [0] * len(graph.switches)
    nic_ports: dict[tuple[int, int], int] = {}
    next_nic: dict[int, int] = {}
    wires = GraphWires([], [], [], [], [], [], [], [], [])
    for a, b, link in graph.links:
        for _ in range(link.count):
            if a.switch < 0:
                number = nics_of(a.server)
                nic = a.nic
                if nic is None:
                    nic = next_nic.get(a.server, 0) % max(1, number)
                    next_nic[a.server] = nic + 1
                if nic >= number:
                    raise SizingError(
                        f"the graph links nic{nic} of a server with {number} NICs in this plane",
                        path=f"{given.path}.graph",
                        allowed=f"nic0 to nic{number - 1}",
                    )
                nic_ports[a.server, nic] = nic_ports.get((a.server, nic), 0) + 1
                a_port, layer = nic_ports[a.server, nic], LinkLayer.HOST_LEAF
                speed = link.speed or max(given.host_bps)
            else:
                nic = -1
                ports[a.switch] += 1
                a_port = ports[a.switch]
                layer = _layer(tiers[a.switch], tiers[b.switch])
                both = shapes[a.switch].top_bps, shapes[b.switch].top_bps
                speed = link.speed or given.spec.uplink_speed or min(both)
            ports[b.switch] += 1
            # end A is the one nearer the endpoints
            low, high, low_port, high_port = a.switch, b.switch, a_port, ports[b.switch]
            if a.switch >= 0 and tiers[a.switch] > tiers[b.switch]:
                low, high, low_port, high_port = high, low, high_port, low_port
            wires.a_switch.append(low)
            wires.b_switch.append(high)
            wires.a_server.append(a.server)
            wires.a_nic.append(nic)
            wires.a_port.append(low_port)
            wires.b_port.append(high_port)
            wires.speed_bps.append(speed)
            wires.length_m.append(np.nan if link.length is None else link.length)
            wires.layer.append(int(layer))
    _check(graph, given, shapes, wires, ports)
    return wires


def add_graph(
    assembly: Assembly,
    graph: Graph,
    given: PlaneInput,
    nodes: ServerNodes,
    shapes: list[SwitchShape],
) -> Ints:
    """Add a graph's switches and links; return the node of each of its switches.

    Raises:
        SizingError: as :func:`wire_graph`.
    """
    count, nic_first = nodes.nic_count[given.plane], nodes.nic_first[given.plane]
    wires = wire_graph(graph, given, lambda server: int(count[server]), shapes)
    tiers = np.array(graph_tiers(graph), dtype=np.int64)
    switch = np.empty(len(tiers), dtype=np.int64)
    for tier in np.unique(tiers):
        own = np.flatnonzero(tiers == tier)
        first = assembly.nodes(
            NodeKind.SWITCH,
            len(own),
            tier=int(tier),
            plane=given.plane,
            latency_s=np.array([shapes[number].latency_s for number in own]),
        )
        switch[own] = first + np.arange(len(own))
    low, server = np.array(wires.a_switch), np.array(wires.a_server)
    a = np.where(low < 0, nic_first[server] + np.array(wires.a_nic), switch[low])
    b, layer = switch[np.array(wires.b_switch)], np.array(wires.layer)
    for kind in np.unique(layer):
        own = np.flatnonzero(layer == kind)
        assembly.duplex(
            a[own],
            b[own],
            np.array(wires.speed_bps)[own],
            LinkLayer(int(kind)),
            plane=given.plane,
            port_a=np.array(wires.a_port)[own],
            port_b=np.array(wires.b_port)[own],
            cable=np.arange(len(own)),
            length_m=np.array(wires.length_m)[own],
        )
    return switch


def _layer(a: int, b: int) -> LinkLayer:
    pair = {a, b}
    if pair == {1, 2}:
        return LinkLayer.LEAF_SPINE
    return LinkLayer.SPINE_CORE if pair == {2, 3} else LinkLayer.OTHER


def _check(
    graph: Graph,
    given: PlaneInput,
    shapes: list[SwitchShape],
    wires: GraphWires,
    ports: list[int],
) -> None:
    """Hold every switch to its ports: each link takes its share of one."""
    taken = [0.0] * len(ports)
    for low, high, speed in zip(wires.a_switch, wires.b_switch, wires.speed_bps, strict=True):
        for switch in (low, high):
            if switch < 0:
                continue
            ways = shapes[switch].ways(speed)
            if not ways and speed > shapes[switch].fast_bps * (1 + 1e-9):
                has = format_bits_rate(shapes[switch].top_bps)
                raise SizingError(
                    f"switch {graph.switches[switch].name!r} has a link of "
                    f"{format_bits_rate(speed)}, but {shapes[switch].name} has ports of {has}",
                    path=f"{given.path}.graph",
                    allowed="a lower speed, or another model",
                )
            taken[switch] += 1 / max(1, ways)
    for number, need in enumerate(taken):
        shape = shapes[number]
        room = shape.ports + shape.fast_ports
        if need > room + 1e-6 or ports[number] > max(shape.links_limit, room):
            raise SizingError(
                f"switch {graph.switches[number].name!r} has {ports[number]} links, which need "
                f"{int(np.ceil(need - 1e-6))} ports; {shape.name} has {room}",
                path=f"{given.path}.graph",
                allowed="fewer links, or a model with more ports",
            )
