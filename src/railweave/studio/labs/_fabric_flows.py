"""How flows spread over the uplinks in lab 5: hashed as the design says, beside an even spread."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from railweave.design.models import Collective, RoutingScheme
from railweave.engine.flow import simulate_flow
from railweave.engine.metrics import Spread, uplink_collisions, uplink_spread
from railweave.errors import RailweaveError
from railweave.fabric import Fabric, PlaneId
from railweave.fabric.routing import Paths, PathStatus, Routing, RoutingSet
from railweave.report.page_table import PageTable
from railweave.report.spread import SpreadCurve, path_curves
from railweave.studio.designs import built_design
from railweave.studio.lab import Number
from railweave.studio.labs._fabric_failed import known_failures
from railweave.studio.labs._fabric_state import PATTERNS, State, design_text
from railweave.units import format_bytes, format_seconds, format_si, parse_bytes
from railweave.workload import Traffic
from railweave.workload.flow_patterns import MOST_ALL_TO_ALL, FlowPattern, pattern_flows

if TYPE_CHECKING:
    from railweave.api import BuiltDesign

__all__ = ["FlowsView", "Timed", "collective_times", "flows_of", "flows_view", "link_loads"]

F64 = npt.NDArray[np.float64]
#: flows up to which the times are simulated
MOST_SIMULATED: Final = 20_000
#: GPUs up to which the flow engine, and any engine, times a collective
MOST_FLOW_ENGINE: Final = 2048
MOST_COLLECTIVE: Final = 16_384


@dataclass(frozen=True)
class FlowsView:
    """The distribution of one pattern's flows: curves, numbers, sentences.

    ``timed`` says whether how long they take is simulated.
    """

    curves: tuple[SpreadCurve, ...]
    numbers: tuple[Number, ...]
    sentences: tuple[str, ...]
    timed: bool


@dataclass(frozen=True)
class Timed:
    """An all-reduce with and without what is out: the engine, its table, whether each could run."""

    engine: str
    table: PageTable
    before: bool
    after: bool


@dataclass(frozen=True, eq=False)
class _Routed:
    """A pattern's flows on the paths that the design's routing gives them."""

    fabric: Fabric
    traffic: Traffic
    routing: Routing
    paths: Paths

    @property
    def flow_bytes(self) -> F64:
        size: F64 = self.traffic.stream_bytes[self.paths.message] * self.paths.share
        return size


def _routed(built: BuiltDesign, state: State, scheme: RoutingScheme | None = None) -> _Routed:
    pattern = FlowPattern(state.pattern)
    traffic = pattern_flows(built.fabric, pattern, parse_bytes(state.size), seed=state.seed)
    routing = built.routing(scheme).planes[PlaneId.BACKEND]
    connection = traffic.stream_connection
    paths = routing.paths(
        traffic.src,
        traffic.dst,
        connection=0 if connection is None else connection,
        size_bytes=traffic.stream_bytes,
    )
    return _Routed(built.fabric, traffic, routing, paths)


def link_loads(built: BuiltDesign, state: State) -> F64:
    """Return (L,) the load of each directed link over that of the fullest of the back-end.

    Loads are bytes over capacity: the time for which a link is busy. Links of no network are NaN.
    """
    routed = _routed(built, state)
    fabric, paths = routed.fabric, routed.paths
    flow = np.repeat(np.arange(paths.n_flows), np.diff(paths.ptr))
    size = routed.flow_bytes[flow]
    if paths.weight is not None:
        size = size * paths.weight
    carried = np.bincount(paths.link, weights=size, minlength=fabric.n_links)
    busy: F64 = carried / fabric.link_capacity_bps
    outside = (fabric.link_plane == PlaneId.BACKEND) & fabric.link_up
    most = float(busy[outside].max(initial=0.0))
    return np.where(outside, busy / most if most else 0.0, np.nan)


def flows_view(built: BuiltDesign, state: State) -> FlowsView:
    """Route the pattern's flows as the design hashes them, and sprayed evenly, and compare."""
    hashed, ideal = _routed(built, state), _routed(built, state, RoutingScheme.SPRAY)
    curves = []
    for name, one in (("evenly sprayed", ideal), (f"{hashed.routing.scheme.value}", hashed)):
        curves += [
            replace(curve, label=name) for curve in path_curves(one.fabric, one.traffic, one.paths)
        ]
    spread = uplink_spread(hashed.fabric, hashed.paths, flow_bytes=hashed.flow_bytes)
    clash = uplink_collisions(hashed.fabric, hashed.paths)
    numbers = [_count("flows", "Flows on uplinks", spread.flows)]
    if spread.switches:
        numbers += [
            _ratio("hash_spread", "Busiest / mean uplink, worst leaf", spread.worst_ratio),
            _ratio("hash_spread_mean", "The same, mean of the leaves", spread.mean_ratio),
            Number("idle_share", "Idle uplinks", f"{spread.idle_share:.1%}", spread.idle_share),
            _count("collisions", "Collisions", clash.count),
            _ratio("hash_fairness", "Evenness (Jain)", spread.fairness),
        ]
    times = _times(hashed, ideal)
    if times is not None:
        took, even = times
        numbers += [
            Number("makespan", f"Time, {hashed.routing.scheme.value}", format_seconds(took), took),
            Number("ideal_time", "Time, evenly sprayed", format_seconds(even), even),
        ]
    said = _sentences(hashed, spread, numbers, len(built.fabric.gpus))
    return FlowsView(tuple(curves), tuple(numbers), tuple(said), times is not None)


def _sentences(routed: _Routed, spread: Spread, numbers: list[Number], gpus: int) -> list[str]:
    found = {number.key: number.value for number in numbers}
    paths, traffic = routed.paths, routed.traffic
    said = [
        f"{PATTERNS[traffic.labels[0]]}: {paths.n_flows:,} flows, {spread.flows:,} of them over an "
        "uplink of a leaf."
    ]
    part = len(np.unique(np.concatenate((traffic.src, traffic.dst))))
    if part < gpus:
        said.append(
            f"{part:,} of the {gpus:,} GPUs take part, at equal distances: an all-to-all of more "
            f"than {MOST_ALL_TO_ALL} has too many flows to show."
        )
    lost = int(np.sum(paths.status != PathStatus.OK))
    if lost:
        said.append(f"{lost:,} flows have no way left, and are not counted.")
    if not spread.switches:
        return [*said, "No flow leaves its leaf, so there is nothing to spread."]
    said.append(_spread_sentence(spread, int(found["collisions"])))
    if "makespan" in found and found["ideal_time"] > 0:
        factor = found["makespan"] / found["ideal_time"]
        said.append(
            f"All flows together take {factor:.2f} times as long as evenly sprayed packets would."
        )
    elif paths.n_flows > MOST_SIMULATED:
        said.append(f"How long more than {MOST_SIMULATED:,} flows take is not simulated here.")
    return said


def _spread_sentence(spread: Spread, clash: int) -> str:
    flows, uplinks = spread.flows / spread.switches, spread.links / spread.switches
    few = f"A sending leaf has {flows:.3g} flows over {uplinks:.3g} uplinks on average"
    if spread.worst_ratio < 1.005:
        return f"{few}; the uplinks of every leaf carry the same."
    text = f"{few}; the busiest uplink carries {spread.worst_ratio:.2f} times the mean of its leaf"
    if not clash:
        return f"{text}, and no flow shares an uplink while another is idle."
    return (
        f"{text} while {spread.idle_share:.0%} of the uplinks carry nothing: {clash:,} flows share "
        "although an uplink of their leaf is idle."
    )


def _times(hashed: _Routed, ideal: _Routed) -> tuple[float, float] | None:
    """Return how long all flows take, as routed and evenly sprayed; None where not simulated."""
    if hashed.paths.n_flows > MOST_SIMULATED or np.any(hashed.paths.status != PathStatus.OK):
        return None
    try:
        took, even = (
            simulate_flow(one.fabric, one.traffic, RoutingSet.of(one.routing)).makespan_s
            for one in (hashed, ideal)
        )
    except RailweaveError:
        return None
    return took, even


def _count(key: str, label: str, value: int) -> Number:
    return Number(key, label, f"{value:,}", float(value))


def _ratio(key: str, label: str, value: float) -> Number:
    return Number(key, label, f"{value:.2f}", value)


def flows_of(state: State) -> FlowsView | str:
    """Return the distribution of a state's flows, or a sentence on why there is none."""
    try:
        whole = built_design(design_text(state))
        out, _ = known_failures(whole, state.out)
        return flows_view(whole.fail(out), state)
    except RailweaveError as error:
        return str(error)


def collective_times(state: State) -> Timed | str:
    """Return an all-reduce's time before and after what is out, by the flow engine where quick."""
    try:
        whole = built_design(design_text(state))
        out, _ = known_failures(whole, state.out)
        gpus = len(whole.fabric.gpus)
        if gpus > MOST_COLLECTIVE:
            return f"Collectives of more than {MOST_COLLECTIVE:,} GPUs are not timed here."
        engine = "flow" if gpus <= MOST_FLOW_ENGINE else "analytic"
        size = parse_bytes(state.size)
        cells = [_time_of(one, size, engine) for one in (whole, whole.fail(out))]
    except RailweaveError as error:
        return str(error)
    title = f"All-reduce of {format_bytes(size)} by all GPUs, {engine} engine"
    rows = tuple(
        (when, *(cell or ("cannot run", why)))
        for when, (cell, why) in zip(("before", "after"), cells, strict=True)
    )
    table = PageTable("collective", title, ("", "time", "busbw"), rows)
    before, after = (cell is not None for cell, _ in cells)
    return Timed(engine, table, before, after)


def _time_of(
    built: BuiltDesign, size_bytes: int, engine: str
) -> tuple[tuple[str, str] | None, str]:
    """Return an all-reduce's time and bus bandwidth as text, or why it cannot run."""
    try:
        job = built.collective(Collective.ALL_REDUCE, size_bytes, engine=engine)
    except RailweaveError as error:
        return None, str(error).partition(";")[0]
    return (format_seconds(job.time_s), format_si(job.busbw_Bps, "B/s")), ""
