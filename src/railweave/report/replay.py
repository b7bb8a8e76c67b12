"""A replay told: what was run, what came out beside what was measured, and its tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from railweave.design.models import Algorithm, Collective, PlacementName, RoutingScheme
from railweave.findings import Finding
from railweave.predict.replayed import LIBRARY_ASSUMPTION, library_times
from railweave.provenance import Assumption
from railweave.report.page_table import DASH, PageTable, known
from railweave.units import format_bytes, format_seconds
from railweave.workload.replay import ReplayPlan, plan_replay
from railweave.workload.replay_times import OperationTotal, ReplayTimes, replay_times

if TYPE_CHECKING:
    from collections.abc import Mapping

    from railweave.api import BuiltDesign
    from railweave.engine.result import Result
    from railweave.formats.execution_trace import RankTrace

__all__ = ["ReplayStudy", "study_replay"]


def _silent(step: str, fraction: float) -> None:
    """Report progress to nobody."""


@dataclass(frozen=True, eq=False)
class ReplayStudy:
    """A replay: its plan, the engine's result, its times and the library's, by kind of operation.

    ``library_s`` is the modelled time of one operation by (operation, size, ranks); see
    :func:`railweave.predict.replayed.library_times`. ``gpus`` are GPU numbers by rank.
    """

    plan: ReplayPlan
    result: Result
    times: ReplayTimes
    library_s: dict[tuple[str, float, int], float]
    gpus: tuple[int, ...]
    placement: str

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What does not match, was guessed or left out."""
        return (*self.plan.findings, *self.result.findings)

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What the replay rests on."""
        notes = (*self.plan.assumptions, LIBRARY_ASSUMPTION, *self.result.assumptions)
        return tuple(dict.fromkeys(notes))

    def facts(self) -> tuple[tuple[str, str], ...]:
        """Return the headline figures, name and value."""
        times, plan = self.times, self.plan
        span = known(times.measured_s, format_seconds)
        traced = known(times.traced_s, format_seconds)
        return (
            ("traces", f"of {plan.traced_ranks:,} of {plan.ranks:,} ranks"),
            ("measured", span if span != DASH else "no times of the whole in the traces"),
            ("as traced", f"{traced} (these dependencies with the measured times)"),
            (f"replayed ({self.result.engine})", format_seconds(times.replayed_s)),
            ("compute in it", format_seconds(times.compute_s)),
            ("sent by all", format_bytes(plan.traffic.total_bytes)),
        )

    def tables(self, top: int) -> tuple[PageTable, ...]:
        """Return the tables: by kind of operation, and so many single ones, farthest off first."""
        return (self._by_operation(), *([_farthest(self.times, top)] if top else []))

    def to_json(self, top: int) -> dict[str, Any]:
        """Return all of it for JSON, with so many single operations."""
        times = dataclasses.replace(self.times, operations=self.times.operations[:top])
        document = dataclasses.asdict(times)
        for total, entry in zip(times.by_operation, document["by_operation"], strict=True):
            entry["library_s"] = self._library(total)
        return {
            "source": self.plan.source,
            "engine": self.result.engine,
            "placement": self.placement,
            "ranks": self.plan.ranks,
            "traced_ranks": self.plan.traced_ranks,
            "gpus": list(self.gpus),
            "operation_count": len(self.times.operations),
            **document,
            "findings": [dataclasses.asdict(finding) for finding in self.findings],
            "assumptions": [dataclasses.asdict(note) for note in self.assumptions],
        }

    def _library(self, total: OperationTotal) -> float:
        return self.library_s[total.op, total.size_bytes, total.ranks] * total.count

    def _by_operation(self) -> PageTable:
        rows = tuple(
            (
                total.op,
                format_bytes(total.size_bytes),
                f"{total.ranks:,}",
                f"{total.count:,}",
                known(total.measured_s, format_seconds),
                known(self._library(total), format_seconds),
                known(total.replayed_s, format_seconds),
                known(total.ratio, _ratio),
                known(total.measured_busbw_Bps, _rate),
                known(total.replayed_busbw_Bps, _rate),
            )
            for total in self.times.by_operation
        )
        header = (
            "operation",
            "size",
            "ranks",
            "count",
            "measured",
            "library",
            "replayed",
            "ratio",
            "busbw measured",
            "busbw replayed",
        )
        note = (
            "Sums of times; library: the collective model, each alone; ratio: replayed / measured; "
            "busbw in GB/s."
        )
        return PageTable(
            "replay-operations",
            "By operation",
            header,
            rows,
            (note,),
            optional=("busbw measured", "busbw replayed"),
        )


def study_replay(
    built: BuiltDesign,
    traces: Sequence[RankTrace],
    *,
    engine: str = "flow",
    placement: PlacementName | Sequence[int] = PlacementName.PACKED,
    algorithms: Mapping[Collective, Algorithm] | None = None,
    routing: RoutingScheme | None = None,
    seed: int | None = None,
    progress: Callable[[str, float], None] = _silent,
) -> ReplayStudy:
    """Replay the traces of a run on a built design's fabric.

    Args:
        built: the design; its failures (``built.fail(…)``) count, its own traffic does not.
        traces: of one run, as :func:`railweave.formats.traces.read_traces` gives them.
        engine: ``"analytic"``, ``"flow"`` or ``"packet"``.
        placement: rule, or the GPU number of every rank.
        algorithms: instead of each operation's default.
        routing: scheme of the back-end, instead of the design's.
        seed: of placement, routing and engine, instead of the design's.
        progress: called with a step and the fraction done.

    Raises:
        InputError: traces that cannot be replayed there; see
            :func:`railweave.workload.replay.plan_replay`.
        EngineError: the simulation cannot go on.
    """
    from railweave.engine.choice import EngineChoice

    chosen = built.design.seed if seed is None else seed
    progress("placing", 0.0)
    plan = plan_replay(
        traces,
        built.fabric,
        placement=placement,
        algorithms=algorithms,
        queue_pairs=built.design.planes.backend.routing.queue_pairs,
        seed=chosen,
    )
    settings = built.packet_settings() if engine == "packet" else None
    result = EngineChoice(engine, settings=settings, seed=chosen).simulate(
        built.fabric,
        plan.traffic,
        built.routing(routing, chosen),
        lambda part: progress("simulating", 0.1 + 0.9 * part),
    )
    number = {node: i for i, node in enumerate(built.fabric.gpus.tolist())}
    return ReplayStudy(
        plan=plan,
        result=result,
        times=replay_times(plan, result.task_finish_s, result.makespan_s),
        library_s=library_times(built, plan),
        gpus=tuple(number[node] for node in plan.nodes.tolist()),
        placement=placement.value if isinstance(placement, PlacementName) else "list",
    )


def _ratio(value: float) -> str:
    return f"{value:.3g}×"


def _rate(value: float) -> str:
    return f"{value / 1e9:.4g}"


def _farthest(times: ReplayTimes, top: int) -> PageTable:

    rows = tuple(
        (
            time.op,
            format_bytes(time.size_bytes),
            f"{time.ranks:,}",
            format_seconds(time.start_s),
            known(time.measured_s, format_seconds),
            known(time.longest_s, format_seconds),
            format_seconds(time.replayed_s),
            time.where,
        )
        for time in times.operations[:top]
    )
    header = ("operation", "size", "ranks", "at", "measured", "longest", "replayed", "in")
    return PageTable(
        "replay-farthest",
        "Farthest from what was measured",
        header,
        rows,
        ("At: start in the replay; measured and longest: shortest and longest time of any rank.",),
        optional=("longest", "at"),
        text_columns=("in",),
    )
