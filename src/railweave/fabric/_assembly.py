"""Putting a `Fabric` together: blocks of nodes and of links, joined into arrays at the end."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from railweave.fabric._arrays import Fabric, LinkLayer, NodeKind

__all__ = ["VELOCITY_M_PER_S", "Assembly", "Ints", "RackDistance", "group_cables"]

Ints = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]
OneOrMany = int | Ints

#: two thirds of the speed of light, as in glass and copper
VELOCITY_M_PER_S = 1.98e8

_NODE_TYPES = {
    "kind": np.uint8,
    "tier": np.int8,
    "plane": np.int8,
    "subplane": np.int8,
    "pod": np.int32,
    "rail": np.int32,
    "server": np.int32,
    "rack": np.int32,
    "index": np.int32,
}


@dataclass
class Assembly:
    """Blocks of nodes and duplex links that grow while a fabric is built.

    Links are added as duplex ones from end A (nearer the endpoints) to end B.
    """

    blocks: list[dict[str, Ints]] = field(default_factory=list)
    latencies: list[Numbers] = field(default_factory=list)
    links: list[dict[str, npt.NDArray[np.generic]]] = field(default_factory=list)
    count: int = 0

    def nodes(
        self,
        kind: NodeKind,
        n: int,
        *,
        tier: int = 0,
        plane: int = -1,
        subplane: int = 0,
        pod: OneOrMany = -1,
        rail: OneOrMany = -1,
        server: OneOrMany = -1,
        rack: OneOrMany = -1,
        index: OneOrMany | None = None,
        latency_s: float | Numbers = 0.0,
    ) -> int:
        """Add ``n`` nodes and return the number of the first."""
        values: dict[str, OneOrMany] = {
            "kind": int(kind),
            "tier": tier,
            "plane": plane,
            "subplane": subplane,
            "pod": pod,
            "rail": rail,
            "server": server,
            "rack": rack,
            "index": np.arange(n) if index is None else index,
        }
        self.blocks.append({key: np.broadcast_to(value, n) for key, value in values.items()})
        self.latencies.append(np.broadcast_to(latency_s, n).astype(np.float64))
        first = self.count
        self.count += n
        return first

    def duplex(
        self,
        a: Ints,
        b: Ints,
        capacity_bps: float | Numbers,
        layer: LinkLayer,
        *,
        plane: int = -1,
        efficiency: float | Numbers = 1.0,
        port_a: OneOrMany = 0,
        port_b: OneOrMany = 0,
        cable: Ints | None = None,
        length_m: float | Numbers = 0.0,
    ) -> None:
        """Add duplex links; length NaN is worked out from the racks, ``cable`` counts from 0."""
        n = len(a)
        self.links.append(
            {
                "a": np.asarray(a, dtype=np.int32),
                "b": np.asarray(b, dtype=np.int32),
                "capacity": np.broadcast_to(np.asarray(capacity_bps, dtype=np.float64), n),
                "efficiency": np.broadcast_to(np.asarray(efficiency, dtype=np.float64), n),
                "layer": np.broadcast_to(np.uint8(layer), n),
                "plane": np.broadcast_to(np.int8(plane), n),
                "port_a": np.broadcast_to(np.asarray(port_a, dtype=np.int32), n),
                "port_b": np.broadcast_to(np.asarray(port_b, dtype=np.int32), n),
                "cable": np.full(n, -1, np.int32) if cable is None else cable.astype(np.int32),
                "length": np.broadcast_to(np.asarray(length_m, dtype=np.float64), n),
            }
        )

    def column(self, name: str) -> npt.NDArray[np.int32]:
        """Return one attribute of all nodes so far, shape (N,)."""
        return np.concatenate([block[name] for block in self.blocks]).astype(np.int32)

    def finish(
        self,
        name: str,
        *,
        rack: Ints,
        distance_m: RackDistance,
        server_names: tuple[str, ...],
        switch_names: dict[int, str],
        switch_models: dict[int, str],
    ) -> Fabric:
        """Join the blocks; ``rack`` (N,) replaces the racks given with the blocks."""
        node = {
            key: np.concatenate([block[key] for block in self.blocks]).astype(dtype)
            for key, dtype in _NODE_TYPES.items()
        }
        latency = np.concatenate(self.latencies)
        link = {key: np.concatenate([part[key] for part in self.links]) for key in self.links[0]}
        a, b = link["a"], link["b"]
        length = link["length"].astype(np.float64)
        unknown = np.isnan(length)
        length[unknown] = distance_m.between(rack[a[unknown]], rack[b[unknown]])
        cable = self._cable_numbers()
        delay = np.empty(2 * len(a))
        delay[0::2] = length / VELOCITY_M_PER_S + latency[b]
        delay[1::2] = length / VELOCITY_M_PER_S + latency[a]
        return Fabric(
            name=name,
            node_kind=node["kind"],
            node_tier=node["tier"],
            node_plane=node["plane"],
            node_subplane=node["subplane"],
            node_pod=node["pod"],
            node_rail=node["rail"],
            node_server=node["server"],
            node_rack=rack.astype(np.int32),
            node_index=node["index"],
            link_src=_interleave(a, b),
            link_dst=_interleave(b, a),
            link_capacity_bps=np.repeat(link["capacity"], 2),
            link_efficiency=np.repeat(link["efficiency"], 2),
            link_delay_s=delay,
            link_layer=np.repeat(link["layer"], 2),
            link_plane=np.repeat(link["plane"], 2),
            link_length_m=np.repeat(length, 2),
            link_src_port=_interleave(link["port_a"], link["port_b"]),
            link_dst_port=_interleave(link["port_b"], link["port_a"]),
            link_up=np.ones(2 * len(a), dtype=np.bool_),
            duplex_cable=cable,
            server_names=server_names,
            switch_names=switch_names,
            switch_models=switch_models,
        )

    def _cable_numbers(self) -> npt.NDArray[np.int32]:
        """Renumber the cables of all blocks from 0 on; −1 stays."""
        parts, start = [], 0
        for part in self.links:
            own = part["cable"].astype(np.int32)
            parts.append(np.where(own >= 0, own + start, -1))
            start += int(own.max(initial=-1)) + 1
        return np.concatenate(parts).astype(np.int32)


@dataclass(frozen=True, eq=False)
class RackDistance:
    """Where racks stand: row and column of each, and the pitches of the hall."""

    row: Numbers
    column: Numbers
    rack_pitch_m: float
    row_pitch_m: float
    slack_m: float

    def between(self, a: Ints, b: Ints) -> Numbers:
        """Return cable lengths: along the row, across rows, and slack; slack alone in a rack."""
        across = np.abs(self.row[a] - self.row[b]) * self.row_pitch_m
        along = np.abs(self.column[a] - self.column[b]) * self.rack_pitch_m
        length: Numbers = along + across + self.slack_m
        return length


def _interleave(
    even: npt.NDArray[np.generic], odd: npt.NDArray[np.generic]
) -> npt.NDArray[np.int32]:
    both = np.empty(2 * len(even), dtype=np.int32)
    both[0::2], both[1::2] = even, odd
    return both


def group_cables(key: Ints, links_per_cable: int) -> Ints:
    """Number cables from 0: runs of equal keys, each cut into cables of so many links.

    Links with the same key must stand together; what is left over in a run has a cable of its own.
    """
    n = len(key)
    if not n:
        return np.empty(0, dtype=np.int64)
    position = np.arange(n)
    starts = np.concatenate(([True], key[1:] != key[:-1]))
    first = np.maximum.accumulate(np.where(starts, position, 0))
    begins = (position - first) % links_per_cable == 0
    numbers: Ints = np.cumsum(begins) - 1
    return numbers
