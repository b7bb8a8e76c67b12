"""Several jobs on one fabric: what each takes alone and together, and which links they meet on.

Each job keeps its GPUs in both runs and goes through the same engine; alone, nothing else is sent.
A job is slowed only while others run: ``overlap`` says how much of its time that is, and jobs that
are to be compared should have iterations enough to run side by side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from railweave.design import LoadedDesign
from railweave.design.models import Design, PlacementName, RoutingScheme
from railweave.engine.choice import EngineChoice
from railweave.engine.metrics import label_metrics
from railweave.engine.result import Result
from railweave.errors import InputError
from railweave.fabric import Fabric, LinkLayer
from railweave.fabric.build import BuiltFabric
from railweave.fabric.names import port_name
from railweave.fabric.routing import RoutingSet
from railweave.predict.clock import step_clock
from railweave.provenance import Assumption
from railweave.workload import JobPlan, Workload, byte_shares, bytes_by_plane, design_workload

__all__ = [
    "COMPARED",
    "Interference",
    "JobInterference",
    "SharedLink",
    "compare_placements",
    "interference",
]

F64 = npt.NDArray[np.float64]
Progress = Callable[[str, float], None]

#: rules that :func:`compare_placements` tries
COMPARED: Final = (PlacementName.PACKED, PlacementName.FRAGMENTS, PlacementName.OPTIMIZED)
_FEWEST: Final = 2
#: links that a result names
_MOST_LINKS: Final = 64


class Built(Protocol):
    """What is needed of a built design (:class:`railweave.api.BuiltDesign` is one)."""

    @property
    def design(self) -> Design:
        """The design."""
        ...

    @property
    def document(self) -> LoadedDesign:
        """The design as read, with its catalog."""
        ...

    @property
    def fabric(self) -> Fabric:
        """The fabric with all planes."""
        ...

    @property
    def built(self) -> BuiltFabric:
        """The fabric with what its nodes are."""
        ...

    def routing(self, scheme: RoutingScheme | None = None, seed: int | None = None) -> RoutingSet:
        """Compile the routing of every plane."""
        ...


@dataclass(frozen=True, slots=True)
class JobInterference:
    """One job: time of an iteration alone and together with all else, in seconds.

    ``overlap`` is the part of its time together in which another job ran too. ``share_crossing`` is
    the part of its bytes that crosses a spine or core. ``shared_links`` counts the network links
    (one way) that it has in common with other jobs.
    """

    name: str
    ranks: int
    alone_s: float
    together_s: float
    overlap: float
    share_crossing: float
    shared_links: int

    @property
    def slowdown(self) -> float:
        """Time together over time alone."""
        return self.together_s / self.alone_s if self.alone_s > 0 else math.nan


@dataclass(frozen=True, slots=True)
class SharedLink:
    """A network link, one way, that two jobs or more use.

    ``loads`` is for each of the ``jobs`` the mean share of the link's capacity it takes while it
    runs alone. Where they add up to more than 1 the link cannot serve all at their pace.
    """

    source: str
    destination: str
    jobs: tuple[str, ...]
    loads: tuple[float, ...]

    @property
    def asked(self) -> float:
        """Share of the link's capacity that the jobs ask for together."""
        return sum(self.loads)


@dataclass(frozen=True, eq=False)
class Interference:
    """What several jobs do to each other under one placement.

    ``placement`` is the rule all jobs were placed by, None as each states itself. ``links`` are the
    shared ones asked for most (at most 64), ``shared_links`` counts all of them and
    ``contended_links`` those asked for more than they have. ``others`` is the traffic besides jobs
    that ran with them.
    """

    placement: PlacementName | None
    engine: str
    jobs: tuple[JobInterference, ...]
    links: tuple[SharedLink, ...]
    shared_links: int
    contended_links: int
    makespan_s: float
    others: tuple[str, ...]
    assumptions: tuple[Assumption, ...]

    @property
    def worst(self) -> JobInterference:
        """The job that is slowed most."""
        return max(self.jobs, key=lambda job: job.slowdown)


def _silent(step: str, part: float) -> None:
    """Report progress to nobody."""


def interference(
    built: Built,
    *,
    rule: PlacementName | None = None,
    choice: EngineChoice | None = None,
    routing: RoutingSet | None = None,
    seed: int | None = None,
    progress: Progress = _silent,
) -> Interference:
    """Run each job of a design alone and all of them together, background and storage included.

    Args:
        built: a built design.
        rule: place every job by it, those with a list of GPUs excepted; None: as they state.
        choice: the engine; default: flow.
        routing: default: the design's own.
        seed: of placement and hashing; default: the design's.
        progress: called with what is being done and the part done, 0 to 1.

    Raises:
        InputError: fewer than two jobs, or the analytic engine, which knows no other traffic.
    """
    choice = choice or EngineChoice()
    design = _placed_by(built.design, rule, seed)
    if choice.name == "analytic":
        raise InputError(
            "interference: the analytic engine knows each job alone; allowed: flow, packet"
        )
    if len(design.jobs) < _FEWEST:
        raise InputError(
            f"interference: it takes two jobs, and the design has {len(design.jobs)}; add to jobs"
        )
    fabric, catalog = built.fabric, built.document.catalog
    routes = routing or built.routing(seed=seed)
    progress("place", 0.0)
    clock = step_clock(built.built, design, catalog)
    workload = design_workload(built.built, design, catalog, clock=clock)
    steps = len(workload.jobs) + 1
    alone = []
    for number, plan in enumerate(workload.jobs):
        progress(f"{plan.name} alone", number / steps)
        alone.append(choice.simulate(fabric, plan.traffic, routes))
    progress("together", (steps - 1) / steps)
    together = choice.simulate(fabric, workload.traffic, routes)
    progress("together", 1.0)
    return _compared(fabric, workload, alone, together, rule)


def compare_placements(
    built: Built,
    rules: Sequence[PlacementName | None] = (None, *COMPARED),
    *,
    choice: EngineChoice | None = None,
    routing: RoutingSet | None = None,
    seed: int | None = None,
    progress: Progress = _silent,
) -> tuple[Interference, ...]:
    """Return the interference of a design's jobs under each of some placement rules.

    None is how the jobs state it themselves; rules that would give the same are left out.

    Raises:
        InputError: as :func:`interference`.
    """
    stated = {
        job.placement for job in built.design.jobs if isinstance(job.placement, PlacementName)
    }
    if None in rules:
        same = stated if len(stated) == 1 else set() if stated else set(PlacementName)
        rules = [rule for rule in rules if rule is None or rule not in same]
    routes = routing or built.routing(seed=seed)
    found = []
    for number, rule in enumerate(rules):

        def part(
            step: str, done: float, n: int = number, name: str = rule or "as designed"
        ) -> None:
            progress(f"{name}: {step}", (n + done) / len(rules))

        found.append(
            interference(built, rule=rule, choice=choice, routing=routes, seed=seed, progress=part)
        )
    return tuple(found)


def _placed_by(design: Design, rule: PlacementName | None, seed: int | None) -> Design:
    """Return the design with its jobs placed by a rule, and another seed."""
    jobs = tuple(
        job
        if rule is None or isinstance(job.placement, tuple)
        else job.model_copy(update={"placement": rule})
        for job in design.jobs
    )
    more = {} if seed is None else {"seed": seed}
    return design.model_copy(update={"jobs": jobs, **more})


def _span(result: Result, plan: JobPlan) -> tuple[float, float]:
    """Return when a job began and ended; a training step may compute before it sends."""
    mine = [m for m in label_metrics(result) if m.label.partition("/")[0] == plan.name]
    if not mine:
        return math.nan, math.nan
    begun = plan.job.start if plan.step is not None else min(m.start_s for m in mine)
    return begun, max(m.finish_s for m in mine)


def _compared(
    fabric: Fabric,
    workload: Workload,
    alone: Sequence[Result],
    together: Result,
    rule: PlacementName | None,
) -> Interference:
    plans = workload.jobs
    network = fabric.link_layer >= LinkLayer.HOST_LEAF
    sent = np.stack([result.link_bytes for result in alone]) * network
    shared = np.count_nonzero(sent > 0, axis=0) >= _FEWEST
    before = [_span(result, plan) for result, plan in zip(alone, plans, strict=True)]
    spans = [_span(together, plan) for plan in plans]
    room = np.array([end - start for start, end in before])[:, None] * fabric.usable_bps / 8
    loads: F64 = np.divide(sent, room, out=np.zeros_like(sent), where=room > 0)
    jobs = tuple(
        JobInterference(
            plan.name,
            len(plan.nodes),
            (before[i][1] - before[i][0]) / plan.job.iterations,
            (spans[i][1] - spans[i][0]) / plan.job.iterations,
            _overlap(spans, i),
            _crossing(fabric, plan),
            int(np.count_nonzero(shared & (sent[i] > 0))),
        )
        for i, plan in enumerate(plans)
    )
    names = {plan.name for plan in plans}
    others = [part.name for part in bytes_by_plane(workload.traffic) if part.name not in names]
    asked = loads.sum(axis=0)
    said = dict.fromkeys((*workload.assumptions, *together.assumptions))
    return Interference(
        rule,
        together.engine,
        jobs,
        _links(fabric, plans, shared, loads),
        int(shared.sum()),
        int(np.count_nonzero(shared & (asked > 1 + 1e-9))),
        together.makespan_s,
        tuple(dict.fromkeys(others)),
        tuple(said),
    )


def _overlap(spans: Sequence[tuple[float, float]], mine: int) -> float:
    """Return the part of a span in which any of the others was under way."""
    start, end = spans[mine]
    cut = sorted(
        (max(a, start), min(b, end)) for i, (a, b) in enumerate(spans) if i != mine and b > a
    )
    covered, reached = 0.0, start
    for a, b in cut:
        covered += max(0.0, b - max(a, reached))
        reached = max(reached, b)
    return covered / (end - start) if end > start else math.nan


def _crossing(fabric: Fabric, plan: JobPlan) -> float:
    traffic = plan.traffic
    shares = byte_shares(fabric, traffic.src, traffic.dst, traffic.stream_bytes, rail_aware=False)
    return (shares.spine_bytes + shares.core_bytes) / (shares.total_bytes or 1.0)


def _links(
    fabric: Fabric, plans: Sequence[JobPlan], shared: npt.NDArray[np.bool_], loads: F64
) -> tuple[SharedLink, ...]:
    links = np.flatnonzero(shared)
    links = links[np.argsort(-loads[:, links].sum(axis=0), kind="stable")][:_MOST_LINKS]
    found = []
    for link in links.tolist():
        users = np.flatnonzero(loads[:, link] > 0).tolist()
        found.append(
            SharedLink(
                port_name(fabric, link),
                port_name(fabric, link, head=True),
                tuple(plans[i].name for i in users),
                tuple(float(loads[i, link]) for i in users),
            )
        )
    return tuple(found)
