"""What breaks along a journey when a hop is congested, lost or shared.

Two kinds of answers. :func:`stated_effects` follow from the design: who shares a network, where it
is oversubscribed, what has no second way. :func:`measured_effects` and :func:`hop_effects` come
from the flow engine: the exchange that the journey is part of, alone and beside its neighbours, as
the planes are and with the other arrangement of the plane in question; and with each hop at half
its speed, or gone.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from railweave.design.models import Plane, PlaneName
from railweave.engine.flow import simulate_flow
from railweave.engine.metrics import label_metrics
from railweave.errors import EngineError, InputError, RailweaveError
from railweave.fabric import Fabric, NodeKind, PlaneId, build_fabric
from railweave.fabric.planes import compile_planes
from railweave.transport.planes._ends import GPU_KINDS, JourneyKind
from railweave.transport.planes._exchanges import (
    USERS,
    Exchange,
    crowd,
    exchange_of,
    neighbour,
    neighbours_of,
)
from railweave.transport.planes._stated import StatedEffect, stated_effects
from railweave.transport.planes.journeys import PlaneHop, PlaneJourney
from railweave.transport.planes.system_map import PLANES, SystemMap
from railweave.units import format_bytes
from railweave.workload import Traffic, merge_traffic

if TYPE_CHECKING:
    from railweave.api import BuiltDesign
    from railweave.fabric.routing import RoutingSet

__all__ = [
    "HopEffect",
    "JourneyStudy",
    "MeasuredEffect",
    "StatedEffect",
    "hop_effects",
    "measured_effects",
    "stated_effects",
    "study_journey",
]

Progress = Callable[[str, float], None]

#: a neighbour's traffic lasts so many times as long as the exchange alone
_LONGER: Final = 1.5
#: neighbours in words, where their traffic could not be made
_SAID: Final = {
    "checkpoint": "servers that write a checkpoint",
    "dataset": "servers that read a dataset",
    USERS: "users",
}
#: part of its speed that a congested hop has left for the exchange
HALF: Final = 0.5


@dataclass(frozen=True, slots=True)
class MeasuredEffect:
    """An exchange alone and beside something else, through the flow engine.

    ``arrangement`` is "as designed", or the change that was tried. ``shared`` says whether the two
    are on one network there. Times are NaN where ``problem`` says why they were not measured.
    """

    exchange: str
    neighbour: str
    arrangement: str
    shared: bool
    alone_s: float
    together_s: float
    problem: str = ""

    @property
    def slowdown(self) -> float:
        """Time together over time alone."""
        return self.together_s / self.alone_s if self.alone_s > 0 else math.nan

    def to_json(self) -> dict[str, Any]:
        """Return it as a document."""
        return {**dataclasses.asdict(self), "slowdown": self.slowdown}


@dataclass(frozen=True, slots=True)
class HopEffect:
    """What the exchange takes with one hop at half its speed, and with its link gone.

    ``lost_s`` is infinite where nothing reaches its end any more, NaN where it was not tried.
    """

    number: int
    alone_s: float
    half_s: float
    lost_s: float

    @property
    def half(self) -> float:
        """Slowdown of the exchange with the hop at half its speed."""
        return self.half_s / self.alone_s

    @property
    def lost(self) -> float:
        """Slowdown of the exchange without the link; infinite where it is cut off."""
        return self.lost_s / self.alone_s

    def to_json(self) -> dict[str, Any]:
        """Return it as a document; a link without which there is no way has no ``lost_s``."""
        cut = math.isinf(self.lost_s)
        return {
            "number": self.number,
            "alone_s": self.alone_s,
            "half_s": self.half_s,
            "half_slowdown": self.half,
            "cut_off": cut,
            "lost_s": None if cut else self.lost_s,
            "lost_slowdown": None if cut else self.lost,
        }


def _silent(step: str, part: float) -> None:
    """Report progress to nobody."""


# ---------------------------------------------------------------- what the flow engine says


def _time_s(fabric: Fabric, traffic: Traffic, routing: RoutingSet, label: str) -> float:
    """Return how long all under a label takes."""
    result = simulate_flow(fabric, traffic, routing)
    mine = [one for one in label_metrics(result) if one.label.partition("/")[0] == label]
    return max(one.finish_s for one in mine) - min(one.start_s for one in mine)


def hop_effects(
    built: BuiltDesign,
    journey: PlaneJourney,
    *,
    routing: RoutingSet | None = None,
    progress: Progress = _silent,
) -> tuple[HopEffect, ...]:
    """Run the journey's exchange with each hop at half its speed, and with each link gone.

    Half the speed is what steady other traffic on that link would leave it. Without a link, the
    routing finds other ways where there are any.
    """
    if not journey.hops:
        return ()
    routing = routing or built.routing()
    fabric = built.fabric
    exchange = exchange_of(built, journey.kind, journey.ends)
    alone = _time_s(fabric, exchange.traffic, routing, "exchange")
    found = []
    for number, hop in enumerate(journey.hops):
        progress(f"hop {hop.number} of {len(journey.hops)}", number / len(journey.hops))
        capacity = fabric.link_capacity_bps.copy()
        capacity[hop.link] *= HALF
        slow = replace(fabric, link_capacity_bps=capacity)
        half = _time_s(slow, exchange.traffic, routing, "exchange")
        found.append(HopEffect(hop.number, alone, half, _without(fabric, hop, exchange, routing)))
    progress("hops", 1.0)
    return tuple(found)


def _without(fabric: Fabric, hop: PlaneHop, exchange: Exchange, routing: RoutingSet) -> float:
    up = fabric.link_up.copy()
    up[[hop.link, hop.link ^ 1]] = False
    try:
        return _time_s(replace(fabric, link_up=up), exchange.traffic, routing, "exchange")
    except EngineError:
        return math.inf


def measured_effects(
    built: BuiltDesign,
    journey: PlaneJourney,
    *,
    routing: RoutingSet | None = None,
    progress: Progress = _silent,
) -> tuple[MeasuredEffect, ...]:
    """Run the journey's exchange alone and beside each neighbour, and under the other arrangement.

    A neighbour lasts longer than the exchange alone. The other arrangement is the same design with
    storage (or management) on another plane's network where it has one of its own, or on one of its
    own where it shares; what cannot be built is said.
    """
    if not journey.hops:
        return ()
    routing = routing or built.routing()
    names = neighbours_of(built, journey.kind)
    steps = len(names) + 2.0
    found = []
    progress("the exchange alone", 0.0)
    bench = _Bench.of(built, journey, routing)
    for number, name in enumerate(names):
        progress(f"beside {name}", (number + 1) / steps)
        found.append(bench.beside(name, "as designed"))
    progress("everybody at once", (len(names) + 1) / steps)
    if journey.kind not in (JourneyKind.CHECKPOINT, JourneyKind.DATASET):
        found += list(bench.everybody())
    progress("the other arrangement", (len(names) + 1.5) / steps)
    found += list(_otherwise(built, journey, names))
    progress("done", 1.0)
    return tuple(found)


@dataclass(frozen=True, eq=False)
class _Bench:
    """A built design, the exchange on it, and its time alone."""

    built: BuiltDesign
    journey: PlaneJourney
    routing: RoutingSet
    exchange: Exchange
    alone_s: float

    @classmethod
    def of(cls, built: BuiltDesign, journey: PlaneJourney, routing: RoutingSet) -> _Bench:
        """Run the exchange alone."""
        exchange = exchange_of(built, journey.kind, journey.ends)
        alone = _time_s(built.fabric, exchange.traffic, routing, "exchange")
        return cls(built, journey, routing, exchange, alone)

    def _network(self, name: str) -> PlaneId:
        plane = {USERS: "FRONTEND", JourneyKind.GRADIENT.value: "BACKEND"}.get(name, "STORAGE")
        return self.built.built.network[PlaneId[plane]]

    def _own_network(self) -> PlaneId:
        return self.built.built.network[PlaneId[self.journey.plane.upper()]]

    def beside(self, name: str, arrangement: str) -> MeasuredEffect:
        """Run the exchange beside a neighbour."""
        fabric, span = self.built.fabric, _LONGER * self.alone_s
        other = neighbour(self.built, name, span_s=span)
        if name != USERS:
            took = _time_s(fabric, other.traffic, self.routing, "neighbour")
            scale = max(1.0, span / took)
            other = neighbour(self.built, name, scale=scale, span_s=span)
        both = merge_traffic((self.exchange.traffic, other.traffic))
        together = _time_s(fabric, both, self.routing, "exchange")
        shared = any(hop.port for hop in self.journey.hops) and (
            self._network(name) is self._own_network()
        )
        return MeasuredEffect(
            self.exchange.what, other.what, arrangement, shared, self.alone_s, together
        )

    def everybody(self) -> Iterator[MeasuredEffect]:
        """Run one message between the ends beside everybody else's."""
        if not any(hop.port for hop in self.journey.hops) or len(self.built.built.nodes.host) < 3:
            return
        alone, crowded = crowd(self.built, self.journey.kind, self.journey.ends)
        size = format_bytes(float(alone.stream_bytes[0]))
        fabric = self.built.fabric
        first = _time_s(fabric, alone, self.routing, "message")
        result = simulate_flow(fabric, crowded, self.routing)
        times = result.task_finish_s - result.task_start_s
        who = "GPU" if self.journey.kind in GPU_KINDS else "server"
        said = f"{len(times) - 1:,} {who}s that send {size} each to half the servers further on"
        yield MeasuredEffect(f"one message of {size} between the ends", said, "as designed", True,
                             first, float(times[0]))  # fmt: skip


def _otherwise(
    built: BuiltDesign, journey: PlaneJourney, names: tuple[str, ...]
) -> Iterator[MeasuredEffect]:
    """Run it with the plane in question arranged the other way, beside what comes or goes."""
    change = _other_arrangement(built, journey.kind)
    if change is None or not any(hop.port for hop in journey.hops):
        return
    plane, spec, said = change
    stores = tuple(n for n in names if n in ("checkpoint", "dataset"))
    beside = {
        JourneyKind.REQUEST: stores[:1],
        JourneyKind.MANAGEMENT: (*stores[:1], USERS) if USERS in names else stores[:1],
    }.get(journey.kind, stores if journey.kind in GPU_KINDS else (USERS,))
    beside = tuple(name for name in beside if name in names)
    if not beside:
        return
    try:
        other = _rebuilt(built, plane, spec)
        routing = compile_planes(other.document, other.built, seed=other.design.seed)
        bench = _Bench.of(other, journey, routing)
        for name in beside:
            yield bench.beside(name, said)
    except RailweaveError as error:
        text = str(error).partition("\n")[0]
        shared, unknown = spec.shares is not None, math.nan
        yield MeasuredEffect(
            "the same exchange", _SAID[beside[0]], said, shared, unknown, unknown, text
        )


def _other_arrangement(built: BuiltDesign, kind: JourneyKind) -> tuple[str, Plane, str] | None:
    """Return a plane, how it could be instead, and that in words; None where there is nothing."""
    network = built.built.network
    stores = bool(np.any(built.fabric.node_kind == NodeKind.STORAGE))
    plane = PlaneId.MANAGEMENT if kind is JourneyKind.MANAGEMENT else PlaneId.STORAGE
    wanted = PlaneId.BACKEND if kind in GPU_KINDS else PlaneId.FRONTEND
    if plane not in network or wanted not in network or (plane is PlaneId.STORAGE and not stores):
        return None
    name = plane.name.lower()
    if network[plane] is wanted:
        slow = {"speed": "1 Gb/s"} if plane is PlaneId.MANAGEMENT else {}
        own = Plane.model_validate({"transport": "tcp", "topology": "leaf-spine", **slow})
        return name, own, f"{name} on a network of its own"
    shared = Plane(shares=PlaneName[wanted.name])
    return name, shared, f"{name} on the {PLANES[wanted.name.lower()]} network"


def _rebuilt(built: BuiltDesign, plane: str, spec: Plane) -> BuiltDesign:
    """Build the design anew with one plane changed.

    Raises:
        InputError: parts have failed: they may not be there in the other one.
        SizingError: it cannot be built.
    """
    if built.failed:
        raise InputError("parts have failed, which may not be there in another arrangement")
    planes = built.design.planes.model_copy(update={plane: spec})
    design = built.design.model_copy(update={"planes": planes})
    document = replace(built.document, design=design)
    return replace(
        built,
        document=document,
        built=build_fabric(design, document.catalog, document.folder),
    )


# ---------------------------------------------------------------- all of it


@dataclass(frozen=True, eq=False)
class JourneyStudy:
    """A journey with what breaks along it; without the measured part where that was left out.

    ``exchange`` says in words what was run for ``hops`` and ``measured``.
    """

    journey: PlaneJourney
    stated: tuple[StatedEffect, ...]
    exchange: str = ""
    hops: tuple[HopEffect, ...] = ()
    measured: tuple[MeasuredEffect, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return it as a document."""
        return {
            **self.journey.to_json(),
            "breaks": {
                "stated": [dataclasses.asdict(one) for one in self.stated],
                "exchange": self.exchange,
                "hops": [one.to_json() for one in self.hops],
                "measured": [one.to_json() for one in self.measured],
                "engine": "flow",
            },
        }


def study_journey(
    built: BuiltDesign,
    journey: PlaneJourney,
    *,
    system: SystemMap | None = None,
    routing: RoutingSet | None = None,
    measure: bool = True,
    progress: Progress = _silent,
) -> JourneyStudy:
    """Return a journey with what breaks along it.

    Args:
        built: the design, built.
        journey: through this design.
        system, routing: of the design, where they have been made already.
        measure: whether to ask the flow engine too, which takes a second or several.
        progress: called with what is being done and the part done, 0 to 1.

    Raises:
        EngineError: the flow engine cannot go on.
    """
    stated = stated_effects(built, journey, system=system)
    if not measure or not journey.hops:
        return JourneyStudy(journey, stated)
    routing = routing or built.routing()
    exchange = exchange_of(built, journey.kind, journey.ends).what
    hops = hop_effects(
        built, journey, routing=routing, progress=lambda step, part: progress(step, part / 2)
    )
    measured = measured_effects(
        built, journey, routing=routing, progress=lambda step, part: progress(step, 0.5 + part / 2)
    )
    return JourneyStudy(journey, stated, exchange, hops, measured)
