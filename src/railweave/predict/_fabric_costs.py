"""Costs of a training step's groups on a fabric, by the flow engine with all of a kind at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from railweave.design.models import Algorithm, Collective
from railweave.engine.flow import simulate_flow
from railweave.errors import InputError
from railweave.fabric import Fabric, LinkLayer
from railweave.fabric.routing import Routing, RoutingSet
from railweave.predict._cost_types import (
    MESSAGE_S,
    NETWORK_LATENCY_S,
    OPERATIONS,
    SCALE_UP_LATENCY_S,
    SCALE_UP_SHARE,
    CommunicationCosts,
    GroupCost,
    TimeCurve,
)
from railweave.predict._training_types import PlaceShares
from railweave.provenance import Assumption, Certainty
from railweave.workload import (
    CollectiveOptions,
    Communicator,
    Degrees,
    GroupKind,
    TrafficBuilder,
    append_collective,
    message_reach,
    parallel_groups,
)

__all__ = ["costs_on_fabric"]

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]

#: sizes at which the engine is asked: one where latency rules, one where bandwidth does
_SMALL: Final = float(1 << 16)
_LARGE: Final = float(1 << 30)
_FEW: Final = 16
#: how far rates may lag behind exact max-min fairness: the slowest group's time hardly changes
_TOLERANCE: Final = 0.01
#: rings beyond share links by their average rates, which is exact enough at 1 GiB
_EXACT_MESSAGES: Final = 100_000


def costs_on_fabric(
    fabric: Fabric,
    routing: Routing | RoutingSet,
    degrees: Degrees,
    nodes: npt.ArrayLike | None = None,
    *,
    queue_pairs: int = 1,
    scale_up_share: float = SCALE_UP_SHARE,
) -> CommunicationCosts:
    """Return what the groups' collectives take on a fabric, with its state (failures included).

    For every kind of group all its groups run at once, so that rails, uplinks and hash collisions
    are shared as they are in a step; the slowest group's time counts, as the others wait for it.
    Groups within one scale-up domain have no link in common: one of each different kind runs.

    Args:
        fabric: where the GPUs are, as it stands.
        routing: of the back-end.
        degrees: of the job.
        nodes: the GPU node of each rank; None takes the first GPUs in order.
        queue_pairs: of each connection.
        scale_up_share: share of the scale-up links' rate that collectives reach.

    Raises:
        InputError: fewer GPUs than ranks.
        EngineError: ranks that cannot reach each other.
    """
    ranks = degrees.ranks
    placed = fabric.gpus[:ranks] if nodes is None else np.asarray(nodes, dtype=np.int32)
    if len(placed) != ranks:
        raise InputError(
            f"training costs: {len(placed)} GPUs for {ranks} ranks; give one for each, or degrees "
            f"whose product is at most {len(placed)}"
        )
    work = _Bench(_usable(fabric, scale_up_share), routing, placed, queue_pairs)
    groups: dict[GroupKind, GroupCost] = {}
    for kind, table in parallel_groups(degrees).items():
        if table.shape[1] < 2:
            continue
        if kind == "expert-data" and degrees.expert == 1:
            groups[kind] = replace(groups["data"], kind=kind)
        else:
            groups[kind] = work.cost(kind, table)
    return CommunicationCosts(
        degrees,
        groups,
        "the flow engine on the fabric, all groups of a kind at once",
        (
            Assumption(
                "links",
                "network messages carry their headers and share links max-min fairly; scale-up "
                f"links at {scale_up_share:g} of their rate; rings in rank order, a channel a "
                "rail; the slowest group of a kind counts; a message takes no less than "
                f"{SCALE_UP_LATENCY_S * 1e6:g} us in a scale-up domain and "
                f"{NETWORK_LATENCY_S * 1e6:g} us between them",
                Certainty.ESTIMATED,
            ),
        ),
    )


def _usable(fabric: Fabric, share: float) -> Fabric:
    """Return the fabric with its scale-up links at a share of their rate."""
    inside = fabric.link_layer == LinkLayer.SCALE_UP
    rate = np.where(inside, fabric.link_capacity_bps * share, fabric.link_capacity_bps)
    return replace(fabric, link_capacity_bps=rate)


@dataclass(frozen=True, eq=False)
class _Bench:
    """Runs groups of one kind at once on a fabric."""

    fabric: Fabric
    routing: Routing | RoutingSet
    nodes: I32
    queue_pairs: int

    def cost(self, kind: GroupKind, table: I64) -> GroupCost:
        """Return the cost of a kind from runs at two sizes."""
        places, inside = self._places(kind, table)
        rows = self._different(table) if inside else table
        members = table.shape[1]
        op = {"pipeline": Collective.SEND_RECV, "expert": Collective.ALL_TO_ALL}.get(
            kind, Collective.ALL_REDUCE
        )
        # latency does not depend on the others: a few groups tell it
        few = rows[:: max(len(rows) // _FEW, 1)][:_FEW]
        small, large = self._run(kind, op, few, _SMALL), self._run(kind, op, rows, _LARGE)
        times = float(small.max()), float(large.max())
        # the engine knows cables and switches; the library's part of a hop comes on top
        missing = max(self._latency_s(kind, table) - times[0], 0.0)
        times = times[0] + missing, times[1] + missing
        curves = {}
        for wanted in OPERATIONS[kind]:
            # a ring gathers or scatters in half the rounds of an all-reduce
            half = 0.5 if op is Collective.ALL_REDUCE and wanted is not op else 1.0
            curves[wanted] = TimeCurve((_SMALL, _LARGE), (times[0] * half, times[1] * half))
        how = f"flow engine, {len(rows)} groups at once"
        hops = tuple((large / times[1]).tolist()) if kind == "pipeline" else ()
        return GroupCost(kind, members, curves, places, how, hops)

    def _latency_s(self, kind: GroupKind, table: I64) -> float:
        """Return the library's latency of the slowest group: messages one after the other."""
        n = int(table.shape[1])
        src, dst = self.nodes[table[:, :-1].ravel()], self.nodes[table[:, 1:].ravel()]
        reach = message_reach(self.fabric, src, dst).reshape(len(table), -1)
        between_most = int((reach > 0).sum(axis=1).max())
        if kind in {"pipeline", "expert"}:
            first = NETWORK_LATENCY_S if between_most else SCALE_UP_LATENCY_S
            return first + MESSAGE_S * (n - 1) * (kind == "expert")
        inside = n - 1 - between_most
        return 2 * (inside * SCALE_UP_LATENCY_S + between_most * NETWORK_LATENCY_S)

    def _places(self, kind: GroupKind, table: I64) -> tuple[PlaceShares, bool]:
        """Return how far the kind's bytes go, and whether all stay in scale-up domains."""
        n = table.shape[1]
        if kind == "expert":
            turn = (np.arange(n)[:, None] + np.arange(1, n)).ravel() % n
            src, dst = np.repeat(table, n - 1, axis=1), table[:, turn]
        elif kind == "pipeline":
            src, dst = table[:, :-1], table[:, 1:]
        else:
            src, dst = table, np.roll(table, -1, axis=1)
        reach = message_reach(self.fabric, self.nodes[src.ravel()], self.nodes[dst.ravel()])
        shares = np.bincount(reach, minlength=4) / reach.size
        return PlaceShares(*(float(share) for share in shares)), bool((reach == 0).all())

    def _different(self, table: I64) -> I64:
        """Return one group for each different slowest scale-up link of its members."""
        fabric = self.fabric
        out = np.full(fabric.n_nodes, np.inf)
        inside = fabric.link_layer == LinkLayer.SCALE_UP
        np.minimum.at(out, fabric.link_src[inside], fabric.link_capacity_bps[inside])
        np.minimum.at(out, fabric.link_dst[inside], fabric.link_capacity_bps[inside])
        slowest = out[self.nodes[table]].min(axis=1)
        _, first = np.unique(slowest, return_index=True)
        return table[first]

    def _run(self, kind: GroupKind, op: Collective, table: I64, size: float) -> F64:
        """Return when the last is over, (1,); of the pipeline by hop, the slower way, (P − 1,)."""
        builder = TrafficBuilder()
        if kind == "pipeline":
            ends = self.nodes[table[:, :-1].ravel()], self.nodes[table[:, 1:].ravel()]
            src, dst = np.concatenate(ends), np.concatenate(ends[::-1])
            builder.plain(src, dst, size, label=kind, queue_pairs=self.queue_pairs)
        else:
            comm = Communicator.from_fabric(self.fabric, self.nodes)
            options = CollectiveOptions(queue_pairs=self.queue_pairs)
            direct = op is Collective.ALL_TO_ALL
            for ranks in table:
                append_collective(
                    builder,
                    comm.subset(ranks),
                    op,
                    size,
                    algorithm=Algorithm.DIRECT if direct else Algorithm.RING,
                    options=options,
                    label=kind,
                )
        traffic = builder.build(check=False)
        result = simulate_flow(
            self.fabric,
            traffic,
            self.routing,
            tolerance=_TOLERANCE,
            exact_messages=_EXACT_MESSAGES,
        )
        if kind != "pipeline":
            return np.array([result.makespan_s])
        by_hop: F64 = result.stream_finish_s.reshape(2, len(table), -1).max(axis=(0, 1))
        return by_hop
