"""How far a pattern's or a model's bytes go under each rule that places ranks on GPUs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from railweave.design.models import PlacementName
from railweave.errors import InputError
from railweave.fabric import Fabric
from railweave.report.patterns_model import ModelCase, model_messages, model_step
from railweave.workload import ByteShares, Communicator, byte_shares
from railweave.workload._traffic import Traffic
from railweave.workload.patterns import (
    PatternCase,
    Strategy,
    pattern_network,
    pattern_traffic,
)
from railweave.workload.placement import place
from railweave.workload.step_messages import step_messages

if TYPE_CHECKING:
    from railweave.api import BuiltDesign

__all__ = ["PlacementShares", "placement_json", "placement_shares"]

I32: TypeAlias = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class PlacementShares:
    """How far the bytes of a step go under one rule; ``problem`` says why it cannot be."""

    placement: PlacementName
    shares: ByteShares
    servers: int
    problem: str = ""

    def share(self, place: str) -> float:
        """Return the part of all bytes that goes as far as ``server``, ``leaf``, …"""
        part: float = getattr(self.shares, f"{place}_bytes")
        return part / (self.shares.total_bytes or 1.0)

    @property
    def crossing(self) -> float:
        """Part of the bytes that crosses a spine or a core."""
        return self.share("spine") + self.share("core")


def placement_shares(
    case: PatternCase | ModelCase,
    built: BuiltDesign | None = None,
    rules: Sequence[PlacementName] = tuple(PlacementName),
) -> tuple[PlacementShares, ...]:
    """Place the ranks by each rule and add up how far their bytes go, as the studies count it.

    ``random`` and ``fragments`` are drawn with the design's seed. The placement of the case is not
    looked at.

    Raises:
        InputError: more GPUs than there are, or degrees that cannot be.
    """
    on = case.on if isinstance(case, ModelCase) else case
    if built is None:
        fabric, seed = pattern_network(on).fabric, 0
    else:
        fabric, seed = built.fabric, built.design.seed
    sends, times = _sends(case, fabric, built)
    place(fabric, on.gpus)  # refuses more GPUs than there are
    return tuple(
        _placed(fabric, on.gpus, rule, seed=seed, sends=sends, times=times) for rule in rules
    )


def _sends(
    case: PatternCase | ModelCase, fabric: Fabric, built: BuiltDesign | None
) -> tuple[Callable[[I32], Traffic], int]:
    """Return what is sent from given nodes, and how often a step does that."""
    if isinstance(case, ModelCase):
        return model_messages(step_messages(model_step(case, built))), 1
    once = 1 if case.strategy is not Strategy.PIPELINE else None

    def sends(nodes: I32) -> Traffic:
        return pattern_traffic(case, Communicator.from_fabric(fabric, nodes), exchanges=once)

    return sends, 1 if once is None else case.exchanges


def _placed(
    fabric: Fabric,
    ranks: int,
    rule: PlacementName,
    *,
    seed: int,
    sends: Callable[[I32], Traffic],
    times: int,
) -> PlacementShares:
    try:
        nodes = place(fabric, ranks, rule, seed=seed, sends=sends)
        traffic = sends(nodes)
    except InputError as error:  # an algorithm that cannot do this placement
        return PlacementShares(rule, ByteShares(0.0, 0.0, 0.0, 0.0), 0, str(error))
    found = byte_shares(
        fabric, traffic.src, traffic.dst, traffic.stream_bytes * times, rail_aware=False
    )
    return PlacementShares(rule, found, len(np.unique(fabric.node_server[nodes])))


def placement_json(found: Sequence[PlacementShares]) -> list[dict[str, Any]]:
    """Return the rules as plain data."""
    return [
        {
            "placement": one.placement.value,
            "servers": one.servers,
            "total_bytes": one.shares.total_bytes,
            "share_server": one.share("server"),
            "share_leaf": one.share("leaf"),
            "share_spine": one.share("spine"),
            "share_core": one.share("core"),
            "problem": one.problem,
        }
        for one in found
    ]
