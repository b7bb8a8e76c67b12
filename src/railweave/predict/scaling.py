"""How a step scales with the GPUs, and what the network costs it there, by network and by failure.

*Weak* scaling gives every GPU the same work: the batch grows with the GPUs. *Strong* scaling keeps
the batch. A plan keeps its tensor, context, pipeline and expert degrees and takes more data ranks,
unless another plan is clearly quicker there, or that one does not divide the batch or fit.

**Share lost to the network** = 1 − step without network / step, where groups that leave a scale-up
domain communicate in no time: what the step would gain from the best possible network. Waiting for
communication inside a domain is no part of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from railweave.catalog import Gpu
from railweave.design.models import TierRatios, Topology
from railweave.errors import InputError, RailweaveError
from railweave.predict._training_types import StepEstimate, TrainingPlan
from railweave.predict.memory import memory_use
from railweave.predict.plan import search_plans
from railweave.predict.plan_space import PlanSpace
from railweave.predict.step import estimate_step, plan_problems
from railweave.predict.training_costs import CommunicationCosts
from railweave.workload.groups import Degrees

if TYPE_CHECKING:
    from railweave.api import BuiltDesign

__all__ = [
    "CostsAt",
    "NetworkCase",
    "ScalingCurve",
    "ScalingMode",
    "ScalingPoint",
    "compare_networks",
    "network_case",
    "oversubscribed",
    "require_ratio",
    "resized",
    "scale_plan",
    "scaling_counts",
    "scaling_curve",
    "without_network",
]

ScalingMode: TypeAlias = Literal["weak", "strong"]
#: costs of communication on a cluster of so many GPUs for given degrees
CostsAt: TypeAlias = Callable[[int, Degrees], CommunicationCosts]
Progress: TypeAlias = Callable[[str, float], None]

_DOUBLINGS: Final = 3
#: by how much another plan must be quicker to take the place of the scaled one
_CLEARLY: Final = 0.01
#: share of a group's bytes that stay in a domain, from which on all do
_WHOLE: Final = 1 - 1e-9


def _silent(step: str, fraction: float) -> None:
    """Report progress to nobody."""


def without_network(costs: CommunicationCosts) -> CommunicationCosts:
    """Return costs where groups that leave a scale-up domain communicate in no time."""
    inside = {kind: group for kind, group in costs.groups.items() if group.places.server >= _WHOLE}
    return replace(costs, groups=inside, source=f"{costs.source}; no time between domains")


@dataclass(frozen=True, eq=False)
class NetworkCase:
    """A step on one network. ``free_s`` is its time where the network takes none."""

    name: str
    estimate: StepEstimate
    free_s: float

    @property
    def step_s(self) -> float:
        """Time of the step."""
        return self.estimate.step_s

    @property
    def lost_share(self) -> float:
        """Share of the step lost to the network."""
        return max(1.0 - self.free_s / self.estimate.step_s, 0.0)


def network_case(
    name: str,
    plan: TrainingPlan,
    gpu: Gpu,
    costs: CommunicationCosts,
    *,
    skew: float = 1.0,
    input_s: float = 0.0,
) -> NetworkCase:
    """Return a step with its costs, and how long it would take without a network.

    ``skew`` and ``input_s`` are those of :func:`railweave.predict.step.estimate_step`.
    """
    free = estimate_step(plan, gpu, without_network(costs), skew=skew, input_s=input_s)
    step = estimate_step(plan, gpu, costs, skew=skew, input_s=input_s)
    return NetworkCase(name, step, free.step_s)


def compare_networks(
    plan: TrainingPlan,
    gpu: Gpu,
    networks: Mapping[str, CommunicationCosts],
) -> tuple[NetworkCase, ...]:
    """Return the same step on several networks, in their order."""
    return tuple(network_case(name, plan, gpu, costs) for name, costs in networks.items())


# ---------------------------------------------------------------- over GPU counts


@dataclass(frozen=True, eq=False)
class ScalingPoint:
    """A step on so many GPUs; ``kept`` where the plan kept its degrees but for the data ranks."""

    gpus: int
    case: NetworkCase
    kept: bool

    @property
    def estimate(self) -> StepEstimate:
        """What the step takes."""
        return self.case.estimate

    @property
    def tokens_per_gpu_s(self) -> float:
        """Tokens a second and GPU."""
        return self.estimate.tokens_per_s / self.gpus


@dataclass(frozen=True, eq=False)
class ScalingCurve:
    """Points over GPU counts.

    ``skipped`` are counts that no plan was found for, with the reason; ``by_closed_forms`` those
    for which there is no fabric.
    """

    mode: ScalingMode
    points: tuple[ScalingPoint, ...]
    skipped: tuple[tuple[int, str], ...] = ()
    by_closed_forms: tuple[tuple[int, str], ...] = ()

    def efficiency(self, point: ScalingPoint) -> float:
        """Return tokens a GPU and second over those of the first point."""
        return point.tokens_per_gpu_s / self.points[0].tokens_per_gpu_s


def scaling_counts(gpus: int, domain_gpus: int, *, most: int | None = None) -> tuple[int, ...]:
    """Return GPU counts round a number: halvings and doublings that are whole domains."""
    domain = min(domain_gpus, gpus)
    halves = [gpus // 2**step // domain * domain for step in range(_DOUBLINGS, 0, -1)]
    counts = [*halves, *(gpus * 2**step for step in range(_DOUBLINGS + 1))]
    most = most or counts[-1]
    return tuple(sorted({n for n in counts if n >= 1 and n <= max(most, gpus)}))


def scale_plan(plan: TrainingPlan, gpus: int, batch: int) -> TrainingPlan | None:
    """Return the plan with other data ranks for so many GPUs and sequences; None where not whole.

    ZeRO goes where one data rank is left.
    """
    degrees = plan.degrees
    model = degrees.tensor * degrees.context * degrees.pipeline
    data = gpus // model
    if data < 1 or gpus % model or data % degrees.expert or batch % (data * plan.micro_batch):
        return None
    scaled = replace(
        plan,
        degrees=replace(degrees, data=data),
        micro_batches=batch // (data * plan.micro_batch),
        zero=plan.zero if data * degrees.context > 1 else 0,
    )
    return None if plan_problems(scaled) else scaled


def _batch_at(plan: TrainingPlan, gpus: int, mode: ScalingMode) -> int | None:
    """Return the sequences of a step on so many GPUs; None where they are not whole."""
    if mode == "strong":
        return plan.sequences_per_step
    batch, rest = divmod(plan.sequences_per_step * gpus, plan.ranks)
    return batch if not rest and batch else None


def scaling_curve(
    plan: TrainingPlan,
    gpu: Gpu,
    counts: Sequence[int],
    costs_at: CostsAt,
    domain_gpus: int,
    *,
    exact_at: CostsAt | None = None,
    mode: ScalingMode = "weak",
    fixed: Mapping[str, int] = MappingProxyType({}),
    skew: float = 1.0,
    input_s: float = 0.0,
    progress: Progress = _silent,
) -> ScalingCurve:
    """Return a step over GPU counts, with the share lost to the network at each.

    Args:
        plan: which is scaled.
        gpu: of every rank.
        counts: GPU counts, each once, in any order.
        costs_at: communication for a count and degrees.
        domain_gpus: GPUs of a scale-up domain.
        exact_at: the same by a fabric, for the plan that was found; where there is none for a
            count, ``costs_at`` is used.
        mode: ``"weak"`` keeps the batch a GPU, ``"strong"`` the batch.
        fixed: what other plans must have too; see :class:`railweave.predict.plan_space.PlanSpace`.
            Data ranks follow from the count.
        skew: load of the most loaded expert rank over the mean.
        input_s: what loading a step's samples takes, at every count.
        progress: called with a step and the fraction done.

    Raises:
        InputError: an unknown mode, a count below 1, or none that a plan was found for.
    """
    if mode not in ("weak", "strong"):
        raise InputError(f"scaling: {mode!r} is not known; allowed: weak, strong")
    if any(count < 1 for count in counts):
        raise InputError("scaling: GPU counts must be 1 or more")
    others = {name: value for name, value in fixed.items() if name != "data"}
    scale = _Scale(plan, gpu, costs_at, exact_at, domain_gpus, mode, others, skew, input_s)
    points, skipped = [], []
    for number, gpus in enumerate(sorted(set(counts))):
        progress("scaling", number / len(counts))
        try:
            points.append(scale.point(gpus))
        except RailweaveError as error:
            skipped.append((gpus, str(error).partition("\n")[0]))
    if not points:
        reasons = "; ".join(f"{gpus:,} GPUs: {reason}" for gpus, reason in skipped)
        raise InputError(f"scaling: no count has a plan ({reasons}); name others")
    return ScalingCurve(mode, tuple(points), tuple(skipped), tuple(scale.without_fabric.items()))


@dataclass(frozen=True, eq=False)
class _Scale:
    """What a curve is drawn for."""

    plan: TrainingPlan
    gpu: Gpu
    costs_at: CostsAt
    exact_at: CostsAt | None
    domain_gpus: int
    mode: ScalingMode
    fixed: Mapping[str, int]
    skew: float
    input_s: float
    without_fabric: dict[int, str] = field(default_factory=dict)

    def point(self, gpus: int) -> ScalingPoint:
        """Return the plan with its degrees, or the quickest where that is clearly quicker."""
        plan = self.plan
        batch = _batch_at(plan, gpus, self.mode)
        if batch is None:
            raise InputError(
                f"{plan.sequences_per_step:,} sequences on {plan.ranks:,} GPUs are not whole there"
            )
        kept = scale_plan(plan, gpus, batch)
        if kept is not None and not memory_use(kept, self.gpu).fits:
            kept = None
        try:
            found = self._quickest(gpus, batch)
        except RailweaveError:
            if kept is None:
                raise
            return ScalingPoint(gpus, self._case(gpus, kept), True)
        other = self._case(gpus, found.plan)
        if kept is not None:
            mine = self._case(gpus, kept)
            if mine.step_s <= other.step_s * (1 + _CLEARLY):
                return ScalingPoint(gpus, mine, True)
        return ScalingPoint(gpus, other, False)

    def _quickest(self, gpus: int, batch: int) -> StepEstimate:
        plan = self.plan
        space = PlanSpace(
            plan.shape,
            gpus,
            self.domain_gpus,
            batch,
            plan.tokens_of_sequence,
            plan.precision,
            self.fixed,
        )
        costs_of = partial(self.costs_at, gpus)
        return search_plans(space, self.gpu, costs_of, top=1, skew=self.skew).best

    def _case(self, gpus: int, plan: TrainingPlan) -> NetworkCase:
        costs = self._costs(gpus, plan.degrees)
        name = f"{gpus:,} GPUs"
        return network_case(name, plan, self.gpu, costs, skew=self.skew, input_s=self.input_s)

    def _costs(self, gpus: int, degrees: Degrees) -> CommunicationCosts:
        if self.exact_at is not None and gpus not in self.without_fabric:
            try:
                return self.exact_at(gpus, degrees)
            except RailweaveError as error:
                self.without_fabric[gpus] = str(error).partition("\n")[0]
        return self.costs_at(gpus, degrees)


# ---------------------------------------------------------------- other networks


def require_ratio(ratio: float) -> None:
    """Refuse an oversubscription that cannot be.

    Raises:
        InputError: below 1, or no number.
    """
    if not 1 <= ratio < math.inf:
        raise InputError(f"oversubscription: {ratio:g} is not allowed; give 1 or more")


def oversubscribed(built: BuiltDesign, ratio: float) -> BuiltDesign:
    """Return the design built again with another oversubscription of the back-end's leaves.

    Raises:
        SizingError: it cannot be built so.
        InputError: a ratio below 1, or a topology without spines.
    """
    require_ratio(ratio)
    spec = built.design.planes.backend
    if spec.topology in (Topology.STAR, Topology.GRAPH, Topology.RAIL_ONLY):
        raise InputError(
            f"oversubscription: a back-end of topology {spec.topology.value} has no leaves with "
            "uplinks to take away; allowed: one with leaves and spines"
        )
    tiers = spec.oversubscription
    wanted = tiers.model_copy(update={"leaf": ratio}) if isinstance(tiers, TierRatios) else ratio
    backend = spec.model_copy(
        update={"oversubscription": wanted, "counts": None, "min_spines": None}
    )
    return _rebuilt(built, {"planes": built.design.planes.model_copy(update={"backend": backend})})


def resized(built: BuiltDesign, gpus: int) -> BuiltDesign:
    """Return the design's back-end built again with as many servers as so many GPUs need.

    Other planes, storage servers and everything that is sent are left out.

    Raises:
        SizingError: it cannot be built so.
        InputError: servers of several kinds, or GPUs that are not whole servers.
    """
    cluster = built.design.cluster
    if len(cluster.servers) != 1:
        raise InputError("a cluster with servers of several kinds cannot be resized; give one kind")
    per_server = int(built.built.nodes.gpu_count[0])
    if gpus % per_server:
        raise InputError(
            f"{gpus:,} GPUs are not whole servers of {per_server}; give a multiple of {per_server}"
        )
    group = cluster.servers[0].model_copy(update={"count": gpus // per_server})
    alone = {"gpus": None, "racks": None, "storage_servers": None}
    backend = built.design.planes.backend.model_copy(update={"counts": None})
    nothing = dict.fromkeys(("frontend", "storage", "management"))
    quiet = ("jobs", "background", "storage_traffic", "services", "tenants", "stragglers")
    return _rebuilt(
        built,
        {
            "cluster": cluster.model_copy(update={"servers": (group,), **alone}),
            "planes": built.design.planes.model_copy(update={"backend": backend, **nothing}),
            **dict.fromkeys(quiet, ()),
        },
    )


def _rebuilt(built: BuiltDesign, update: Mapping[str, object]) -> BuiltDesign:
    from railweave.fabric.build import build_fabric

    document = replace(built.document, design=built.design.model_copy(update=dict(update)))
    fabric = build_fabric(document.design, document.catalog, document.folder)
    return replace(built, document=document, built=fabric, failed=())
