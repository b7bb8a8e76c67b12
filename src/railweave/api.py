"""The Python interface: ``railweave.load("design.yaml").build().simulate().frame()``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from railweave.design import LoadedDesign as Document
from railweave.design import load_design, parse_design
from railweave.fabric import Fabric

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from railweave.design.models import (
        Algorithm,
        Collective,
        Design,
        PlacementName,
        RoutingScheme,
    )
    from railweave.engine.choice import EngineChoice
    from railweave.engine.packet_settings import PacketSettings
    from railweave.engine.result import Result
    from railweave.fabric.build import BuiltFabric
    from railweave.fabric.failures import MonteCarlo, WhatIf
    from railweave.fabric.lossless import HeadroomReport
    from railweave.fabric.routing import RoutingSet
    from railweave.fabric.summary import BuildSummary
    from railweave.findings import Finding
    from railweave.predict.collective import CollectiveChoice
    from railweave.predict.plan_study import PlanStudy
    from railweave.report.record import JobOutcome, RunRecord
    from railweave.transport.journey import PacketJourney
    from railweave.transport.verbs.operation import Operation
    from railweave.workload.jobs import StepClock, Workload

__all__ = ["BuiltDesign", "LoadedDesign", "load", "parse"]


def load(path: str | Path) -> LoadedDesign:
    """Read a design file.

    Raises:
        DesignError: every problem of the file, each at its line and column.
    """
    return LoadedDesign(load_design(path))


def parse(text: str, file: str = "<design>", *, files: bool = True) -> LoadedDesign:
    """Read a design from text.

    Args:
        text: the YAML.
        file: what errors call it.
        files: whether it may name files, which are looked for in the working directory; a text
            that comes from strangers may not.

    Raises:
        DesignError: every problem of the text, each at its line and column.
    """
    return LoadedDesign(parse_design(text, file, "." if files else None))


def _silent(step: str, fraction: float) -> None:
    """Report progress to nobody."""


@dataclass(frozen=True)
class LoadedDesign:
    """A design that is valid: what it says, and where it says it."""

    document: Document

    @property
    def design(self) -> Design:
        """The design itself."""
        return self.document.design

    def with_defaults(self) -> str:
        """Return the whole design as YAML, every default filled in."""
        from railweave.design import resolved_yaml

        return resolved_yaml(self.document)

    def build(self) -> BuiltDesign:
        """Size and build every plane.

        Raises:
            SizingError: a plane cannot be built as asked; it names the field and where it stands.
        """
        from railweave.errors import SizingError
        from railweave.fabric.build import build_fabric

        document = self.document
        try:
            built = build_fabric(self.design, document.catalog, document.folder)
        except SizingError as error:
            line, column = document.position(error.problem.path)
            raise error.located(document.file, line, column) from None
        return BuiltDesign(document, built)


@dataclass(frozen=True, eq=False)
class BuiltDesign:
    """A design and its fabric, whole or with parts out (``failed``)."""

    document: Document
    built: BuiltFabric
    failed: tuple[str, ...] = ()

    @property
    def design(self) -> Design:
        """The design it was built from."""
        return self.document.design

    @property
    def fabric(self) -> Fabric:
        """The arrays of all planes."""
        return self.built.fabric

    def summary(self) -> BuildSummary:
        """Return the fabric in numbers, as its links now stand."""
        from railweave.fabric.summary import build_summary

        return build_summary(self.built, self.design, self.document.catalog)

    def fail(self, items: Iterable[str]) -> BuiltDesign:
        """Return the same with devices and ports out: ``spine-3``, ``leaf-1:port-12``.

        Raises:
            InputError: a name that means nothing here.
        """
        from railweave.fabric.failures import parse_failures

        failure = parse_failures(self.fabric, items)
        if not failure.items:
            return self
        fabric = failure.apply(self.fabric)
        return replace(
            self, built=replace(self.built, fabric=fabric), failed=(*self.failed, *failure.items)
        )

    def what_if(self, items: Iterable[str]) -> WhatIf:
        """Return the back-end before and after a failure."""
        from railweave.fabric.failures import parse_failures, what_if

        return what_if(self.fabric, parse_failures(self.fabric, items))

    def monte_carlo(self, failures: int, draws: int = 100) -> MonteCarlo:
        """Take random parts of the back-end out, many times; the seed is the design's."""
        from railweave.fabric.failures import monte_carlo

        return monte_carlo(self.fabric, failures=failures, draws=draws, seed=self.design.seed)

    def check(self) -> tuple[Finding, ...]:
        """Return the findings of building, of every design check, and of what has failed."""
        from railweave.assess import run_checks

        return (*run_checks(self.document, self.built), *self._failure_findings())

    def _failure_findings(self) -> tuple[Finding, ...]:
        """Say what the failed parts cost, held against the design's objectives."""
        if not self.failed:
            return ()
        import numpy as np

        from railweave.fabric.failures import parse_failures, what_if
        from railweave.findings import Finding, Severity

        whole = replace(self.fabric, link_up=np.ones_like(self.fabric.link_up))
        cost = what_if(whole, parse_failures(whole, self.failed))
        wanted = self.design.objectives.min_bandwidth
        grave = cost.after.servers_cut_off > 0 or cost.bisection_left < wanted
        some = cost.gpus_cut_off > 0 or cost.bisection_left < 1
        severity = Severity.ERROR if grave else Severity.WARNING if some else Severity.INFO
        return (
            Finding(
                "parts-failed",
                severity,
                ", ".join(self.failed),
                cost.describe(),
                f"objectives.min_bandwidth asks for {wanted:.0%} of the bisection",
                "restore them, or design for their loss" if some else "",
            ),
        )

    def headroom(self) -> HeadroomReport:
        """Return headroom and ECN thresholds of every kind of lossless port, and whether they fit.

        Planes without a lossless class have no rows.
        """
        from railweave.fabric.lossless import headroom_report

        planes = tuple(sorted(set(self.built.network.values())))
        return headroom_report(self.fabric, self.design, self.document.catalog, planes)

    def routing(self, scheme: RoutingScheme | None = None, seed: int | None = None) -> RoutingSet:
        """Compile the routing of every plane; ``scheme`` replaces the back-end's."""
        from railweave.fabric.planes import compile_planes

        return compile_planes(
            self.document,
            self.built,
            scheme=scheme,
            seed=self.design.seed if seed is None else seed,
        )

    def workload(self, seed: int | None = None) -> Workload:
        """Place the jobs and return everything that is sent."""
        from railweave.workload.jobs import design_workload

        design = self.design if seed is None else self.design.model_copy(update={"seed": seed})
        return design_workload(self.built, design, self.document.catalog, clock=self._step_clock())

    def _step_clock(self) -> StepClock | None:
        """Return what gives training steps their arithmetic's time; None where none is trained."""
        if not any(job.model for job in self.design.jobs):
            return None
        from railweave.predict.clock import step_clock

        return step_clock(self.built, self.design, self.document.catalog)

    def simulate(
        self,
        engine: str = "flow",
        *,
        routing: RoutingScheme | None = None,
        seed: int | None = None,
        tolerance: float = 0.0,
        settings: PacketSettings | None = None,
    ) -> Result:
        """Simulate all of the design's traffic and return the engine's result.

        Args:
            engine: ``"analytic"``, ``"flow"`` or ``"packet"``.
            routing: used on the back-end instead of the design's scheme.
            seed: instead of the design's.
            tolerance: of the flow engine; see :func:`railweave.engine.flow.simulate_flow`.
            settings: of the packet engine; the design's own (:meth:`packet_settings`) where left
                out.

        Raises:
            EngineError: the simulation cannot go on.
        """
        choice = self._choice(engine, seed, tolerance, settings)
        return choice.simulate(
            self.fabric, self.workload(seed).traffic, self.routing(routing, seed)
        )

    def packet_settings(self) -> PacketSettings:
        """Return what the packet engine is told of this design's switches and adapters.

        Other settings follow from it: ``dataclasses.replace(settings, faults=(…,))``.
        """
        from railweave.engine.packet_settings import design_settings

        return design_settings(self.built, self.design, self.document.catalog)

    def _choice(
        self, engine: str, seed: int | None, tolerance: float, settings: PacketSettings | None
    ) -> EngineChoice:
        from railweave.engine.choice import EngineChoice

        if engine == "packet":
            settings = settings or self.packet_settings()
        return EngineChoice(engine, tolerance, settings, self.design.seed if seed is None else seed)

    def collective(
        self,
        operation: Collective,
        size_bytes: int,
        *,
        ranks: int | None = None,
        algorithm: Algorithm | None = None,
        placement: PlacementName | None = None,
        engine: str = "flow",
    ) -> JobOutcome:
        """Run one collective alone on this fabric, in place of the design's own traffic.

        Args:
            operation: the collective.
            size_bytes: its size as nccl-tests counts it.
            ranks: GPUs that take part; all where left out.
            algorithm: the operation's default where left out.
            placement: packed where left out.
            engine: ``"analytic"``, ``"flow"`` or ``"packet"``.

        Raises:
            InputError: more ranks than GPUs, or an algorithm that cannot do the operation.
        """
        from railweave.report.outcomes import job_outcomes, simulate_workload

        only = self.with_collective(
            operation, size_bytes, ranks=ranks, algorithm=algorithm, placement=placement
        )
        routing = only.routing()
        simulated = simulate_workload(
            only.fabric,
            only.workload(),
            routing,
            choice=self._choice(engine, None, 0.0, None),
            progress=_silent,
            span=(0.0, 1.0),
        )
        return job_outcomes(only.fabric, simulated, routing)[0]

    def with_collective(
        self,
        operation: Collective,
        size_bytes: int,
        *,
        ranks: int | None = None,
        algorithm: Algorithm | None = None,
        placement: PlacementName | None = None,
    ) -> BuiltDesign:
        """Return the same fabric with one collective in place of the design's own traffic.

        The arguments are those of :meth:`collective`; what cannot be is refused when the workload
        is asked for.
        """
        from railweave.design.models import Job, PlacementName

        job = Job(name="collective", collective=operation, algorithm=algorithm).model_copy(
            update={
                "size": size_bytes,
                "ranks": "all" if ranks is None else ranks,
                "placement": placement or PlacementName.PACKED,
            }
        )
        alone = self.design.model_copy(
            update={"jobs": (job,), "background": (), "storage_traffic": ()}
        )
        return replace(self, document=replace(self.document, design=alone))

    def placed(self) -> tuple[npt.NDArray[np.int32], ...]:
        """Return the GPU node of every rank, (ranks,), for each job of the design.

        Raises:
            InputError: more ranks than GPUs.
        """
        from railweave.workload.jobs import job_sends, place_jobs

        sends = job_sends(self.fabric, self.design, self.document.catalog)
        nodes, _ = place_jobs(self.design.jobs, self.fabric, self.design.seed, sends)
        return tuple(nodes)

    def library_choice(
        self,
        operation: Collective,
        size_bytes: int,
        *,
        ranks: int | None = None,
        placement: PlacementName | None = None,
        engine: str = "flow",
    ) -> CollectiveChoice:
        """Return what a collective library picks on this fabric, and the busbw to expect of it.

        Args:
            operation, size_bytes, ranks, placement: as in :meth:`collective`.
            engine: which measures what the fabric leaves of the line rate; see
                :func:`railweave.predict.network_part.measure_network`.

        Raises:
            InputError: more ranks than GPUs, fewer than 2, or GPUs of several generations.
            EngineError: ranks that cannot reach each other.
        """
        from railweave.predict.collective import choose
        from railweave.predict.network_part import network_part
        from railweave.predict.system import system_of

        only = self.with_collective(operation, size_bytes, ranks=ranks, placement=placement)
        (nodes,) = only.placed()
        part = network_part(self, nodes, engine=engine)
        return choose(system_of(self, nodes), operation, size_bytes, network=part)

    def plan(
        self,
        model: str,
        *,
        gpus: int | None = None,
        batch: int | None = None,
        fixed: Mapping[str, int] | None = None,
        placement: PlacementName | None = None,
    ) -> PlanStudy:
        """Search the ways to train a model here and estimate the best ones on this fabric.

        For scaling, other networks, prices and the rest of what ``railweave plan`` answers call
        :func:`railweave.predict.plan_study.study_plan` itself.

        Args:
            model: catalog name.
            gpus: of the job; all where left out.
            batch: sequences of a step; about 4 Mi tokens where left out.
            fixed: values that are given, such as ``{"tensor": 8}``; see
                :class:`railweave.predict.plan_space.PlanSpace`.
            placement: packed where left out.

        Raises:
            InputError: no such model, more GPUs than there are, or no plan that is valid and fits;
                the text names the nearest that would.
        """
        from railweave.design.models import PlacementName
        from railweave.predict.plan_cluster import cluster_of_design
        from railweave.predict.plan_study import PlanQuestion, study_plan

        cluster = cluster_of_design(self, gpus, placement=placement or PlacementName.PACKED)
        shape = self.document.catalog.model(model)
        return study_plan(PlanQuestion(shape, batch=batch, fixed=fixed or {}), cluster)

    def packet_journey(
        self, source: str, target: str, operation: Operation | None = None, size_bytes: int = 65536
    ) -> PacketJourney:
        """Follow one RDMA operation packet by packet over the back-end, hop by hop.

        For faults, other planes, congestion on the way and the like call
        :func:`railweave.transport.journey.packet_journey` itself.

        Args:
            source: who posts it, such as ``node001/gpu0``.
            target: the other end.
            operation: an RDMA WRITE where left out.
            size_bytes: of the message; 8 for atomics.

        Raises:
            InputError: names that mean nothing, or a size that cannot be.
        """
        from railweave.transport.journey import JourneyCase, packet_journey
        from railweave.transport.verbs.operation import Operation, OperationCase

        what = OperationCase(operation or Operation.WRITE, size_bytes)
        return packet_journey(JourneyCase(what, source, target), self)

    def run(
        self,
        *,
        engine: str = "flow",
        routing: RoutingScheme | None = None,
        seed: int | None = None,
        tolerance: float = 0.0,
        settings: PacketSettings | None = None,
        what_ifs: bool = True,
        progress: Callable[[str, float], None] = _silent,
        known: Callable[[dict[str, Any]], None] | None = None,
    ) -> RunRecord:
        """Do the main job: check, simulate, try failures, and return the record of it.

        Args:
            engine, routing, seed, tolerance, settings: as in :meth:`simulate`.
            what_ifs: whether to try failures.
            progress: called with what is being done and the part done, 0 to 1.
            known: called with what is known so far, as a document that grows; see
                :mod:`railweave.report.partial`.

        Raises:
            EngineError: the simulation cannot go on.
        """
        from railweave.report.main_job import run_design

        return run_design(
            self,
            choice=self._choice(engine, seed, tolerance, settings),
            routing=routing,
            seed=seed,
            what_ifs=what_ifs,
            progress=progress,
            known=known,
        )
