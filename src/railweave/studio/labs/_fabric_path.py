"""The path of one message in lab 5: hop by hop in words, and marked on the drawing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railweave.errors import InputError
from railweave.fabric import Fabric, NodeKind, PlaneId, find_node, node_name
from railweave.fabric.routing import PathStatus
from railweave.fabric.trace import Hop, TracedFlow, trace_path
from railweave.report.page_table import DASH, PageTable
from railweave.studio.lab import TraceRow, sentence
from railweave.units import counted, format_bits_rate, format_seconds

if TYPE_CHECKING:
    from railweave.api import BuiltDesign
    from railweave.studio.labs._fabric_state import State

__all__ = ["PathView", "path_view", "two_gpus"]

_WHY = {
    PathStatus.UNREACHABLE: "no way is left between the two",
    PathStatus.NO_ENTRY: "a forwarding table has no entry for it",
    PathStatus.LOOP: "it would go round in circles",
    PathStatus.NO_NIC: "an end has no NIC in this plane",
}


@dataclass(frozen=True)
class PathView:
    """A traced path: its ends, a table of its hops, what was hashed, the links that it takes.

    ``unknown`` says which ends cannot be any, as the address or the visitor gave them.
    """

    source: str
    target: str
    sentence: str
    table: PageTable | None
    hashed: tuple[str, ...]
    trace: tuple[TraceRow, ...]
    links: frozenset[int]
    unknown: tuple[str, ...] = ()

    @property
    def duplex(self) -> frozenset[int]:
        """The duplex links that the path takes."""
        return frozenset(link // 2 for link in self.links)

    def python(self) -> list[str]:
        """Return the lines that trace the same path."""
        if not self.links:
            return []
        return [
            "",
            "from railweave.fabric import find_node",
            "from railweave.fabric.trace import trace_path",
            "",
            f'names = "{self.source}", "{self.target}"',
            "ends = [find_node(built.fabric, name) for name in names]",
            "for flow in trace_path(routing, *ends):",
            "    print(flow.hash_input, *flow.hops, sep='\\n')",
        ]


def two_gpus(fabric: Fabric) -> tuple[str, str]:
    """Return the first GPU, and the last one whose way is longest from it: of the last server."""
    gpus = fabric.gpus
    last = gpus[fabric.node_server[gpus] == fabric.node_server[gpus[-1]]][0]
    return node_name(fabric, int(gpus[0])), node_name(fabric, int(last))


def path_view(built: BuiltDesign, state: State) -> PathView:
    """Trace the path between the two GPUs that the controls name."""
    fabric = built.fabric
    first, last = two_gpus(fabric)
    source, target = state.source or first, state.target or last
    nothing = PathView(source, target, "", None, (), (), frozenset())
    ends, wrong = [], []
    for which, name in (("From GPU (source)", source), ("To GPU (target)", target)):
        try:
            ends.append(_gpu(fabric, name))
        except InputError as error:
            wrong.append(sentence(f"{which}: {error}"))
    if wrong:
        return replace(nothing, sentence=" ".join(wrong), unknown=tuple(wrong))
    if ends[0] == ends[1]:
        return replace(nothing, sentence="Both ends are the same GPU: nothing is sent.")
    routing = built.routing().planes[PlaneId.BACKEND]
    flows = trace_path(routing, *ends)
    good = [flow for flow in flows if flow.status is PathStatus.OK and flow.hops]
    if not good:
        why = _WHY.get(flows[0].status, "there is no way")
        return replace(nothing, sentence=f"{source} cannot send to {target}: {why}.")
    links = frozenset(hop.link for flow in good for hop in flow.hops)
    return PathView(
        source,
        target,
        _sentence(source, target, good),
        _table(good),
        _hashed(good, same=routing.spec.seeds == "equal"),
        tuple(_trace(good)),
        links,
    )


def _hashed(flows: list[TracedFlow], *, same: bool) -> tuple[str, ...]:
    """Write what the switches hash of each flow."""
    seed = "one seed for all switches" if same else "a seed of each switch's own"
    found = (flow.hash_input for flow in flows if flow.hash_input is not None)
    return tuple(f"{one.describe()} with {seed}" for one in found)


def _gpu(fabric: Fabric, name: str) -> int:
    """Return the GPU of a name; for a server, its first.

    Raises:
        InputError: it is no GPU and no server.
    """
    node = find_node(fabric, name)
    if fabric.node_kind[node] == NodeKind.HOST:
        gpus = np.flatnonzero(
            (fabric.node_kind == NodeKind.GPU) & (fabric.node_server == fabric.node_server[node])
        )
        if gpus.size:
            return int(gpus[0])
    if fabric.node_kind[node] != NodeKind.GPU:
        raise InputError(f"{name} is no GPU; a path goes from one GPU to another, such as "
                         f"{' or '.join(two_gpus(fabric))}")  # fmt: skip
    return node


def _sentence(source: str, target: str, flows: list[TracedFlow]) -> str:
    first = flows[0]
    ways = 1
    for hop in first.hops:
        ways *= hop.choices
    sprayed = any(hop.weight < 1 for hop in first.hops)
    text = (
        f"{source} to {target}: {counted(len(flows), 'flow')}, "
        f"{_longest(first)} links, {format_seconds(first.delay_s)} without queues."
    )
    if sprayed:
        return text + " Its packets take all of the equal links shown."
    if ways > 1:
        return text + f" It could have taken {ways:,} ways and takes one, as long as it lives."
    return text + " There is no other shortest way."


def _longest(flow: TracedFlow) -> int:
    """Return the links of one way; of a sprayed flow each step counts once."""
    steps = sum(hop.weight for hop in flow.hops)
    return round(steps)


def _table(flows: list[TracedFlow]) -> PageTable:
    rows = []
    for number, flow in enumerate(flows, 1):
        for hop in flow.hops:
            rows.append((f"{number}", *_cells(hop)))
    header = ("flow", "from", "port", "to", "port there", "speed", "delay", "choices", "share")
    drop = [
        column
        for column, name in enumerate(header)
        if (name == "flow" and len(flows) == 1)
        or (name == "share" and all(row[column] == "100%" for row in rows))
    ]
    keep = [column for column in range(len(header)) if column not in drop]
    return PageTable(
        "path",
        "Hop by hop",
        tuple(header[column] for column in keep),
        tuple(tuple(row[column] for column in keep) for row in rows),
    )


def _cells(hop: Hop) -> tuple[str, ...]:
    return (
        hop.source,
        hop.port.rpartition(":")[2] or DASH,
        hop.target,
        hop.port_in.rpartition(":")[2] or DASH,
        format_bits_rate(hop.capacity_bps),
        format_seconds(hop.delay_s),
        f"1 of {hop.choices:,}" if hop.choices > 1 else DASH,
        f"{hop.weight:.3g}" if hop.weight < 1 else "100%",
    )


def _trace(flows: list[TracedFlow]) -> list[TraceRow]:
    """Return when the first bit of each flow leaves and reaches each node."""
    rows = []
    for number, flow in enumerate(flows, 1):
        name = f"flow {number}: " if len(flows) > 1 else ""
        if any(hop.weight < 1 for hop in flow.hops):
            continue
        time_s = 0.0
        for hop in flow.hops:
            by = f" by {hop.port}" if hop.port else ""
            chosen = f", one of {hop.choices:,} equal links" if hop.choices > 1 else ""
            rows.append(TraceRow(time_s, hop.source, f"{name}leaves{by} for {hop.target}{chosen}"))
            time_s += hop.delay_s
        rows.append(TraceRow(time_s, flow.hops[-1].target, f"{name}arrives"))
    return rows
