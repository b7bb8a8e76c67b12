"""A whole model's training step on a network: what each kind of parallel group sends, and where.

The bytes are those of :func:`railweave.workload.training.step_volume`, the ranks are numbered as in
:mod:`railweave.workload.groups`. Time is the matter of ``railweave plan``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from railweave.catalog import Catalog, Gpu, default_catalog
from railweave.design.models import Collective, Recompute
from railweave.engine.result import Explanation
from railweave.errors import InputError
from railweave.fabric import Fabric
from railweave.predict.clock import step_of_plan
from railweave.predict.memory import memory_use
from railweave.predict.plan import NearestPlan, nearest_plans
from railweave.predict.plan_cluster import cluster_of_design, gpu_of_ranks
from railweave.predict.plan_space import PlanSpace, plan_values
from railweave.predict.step import MemoryUse, TrainingPlan, plan_problems
from railweave.predict.training_costs import (
    NETWORK_SHARE,
    SCALE_UP_SHARE,
    ClusterLinks,
    CommunicationCosts,
    costs_of_links,
)
from railweave.provenance import Assumption
from railweave.report._pattern_words_model import explain_groups, interpret_model
from railweave.report.patterns import network_words, shares_of_matrix
from railweave.workload import ByteShares, Degrees, Traffic, TrafficBuilder, byte_shares
from railweave.workload.groups import GroupKind
from railweave.workload.patterns import PatternCase, pattern_network
from railweave.workload.placement import place
from railweave.workload.step_messages import GroupMessages, group_operations, step_messages
from railweave.workload.training import TrainingStep

if TYPE_CHECKING:
    from railweave.api import BuiltDesign

__all__ = [
    "GroupTraffic",
    "ModelCase",
    "ModelRefused",
    "ModelStudy",
    "model_messages",
    "model_plan",
    "model_step",
    "nearest_models",
    "study_model",
]

F64: TypeAlias = npt.NDArray[np.float64]
I32: TypeAlias = npt.NDArray[np.int32]

_ASSUMPTIONS: Final = (
    Assumption(
        "bytes",
        "one step's messages from rank to rank: rings in rank order for tensor, context and "
        "gradients, neighbour stages, all to all for experts; hand-overs inside servers, where a "
        "ring leaves by the NIC of another GPU, are not counted",
    ),
    Assumption("precision", "activations and gradients are sent in 2 bytes (BF16)"),
    Assumption(
        "sequence parallelism",
        "sends what an all-reduce would; that its inputs are gathered once more in the backward "
        "pass, as railweave plan counts it, is left out",
    ),
    Assumption("experts", "tokens are routed to experts uniformly"),
    Assumption("time", "not looked at here; railweave plan plays the schedule"),
)


@dataclass(frozen=True, slots=True)
class ModelCase:
    """A model, how it is trained in parallel, and where.

    ``on`` says how many GPUs there are, their placement and, where no design gives it, the network;
    what a :class:`PatternCase` sends is not looked at. ``data`` None is what the other degrees
    leave. ``micro_batches`` are of one replica in a step, of ``micro_batch`` sequences each.
    ``sequence`` None is the model's. ``gpu`` is whose memory the plan has to fit where no design
    says it.
    """

    model: str = "llama3-8b"
    on: PatternCase = field(default_factory=PatternCase)
    tensor: int = 1
    context: int = 1
    pipeline: int = 1
    expert: int = 1
    data: int | None = None
    micro_batch: int = 1
    micro_batches: int = 8
    sequence: int | None = None
    interleave: int = 1
    zero: int = 1
    recompute: Recompute = Recompute.SELECTIVE
    sequence_parallel: bool = True
    gpu: str = "h100"


class ModelRefused(InputError):  # noqa: N818 - said as a sentence, like every InputError
    """Degrees that cannot be; ``nearest`` are the plans that would do, the nearest first."""

    def __init__(self, reasons: tuple[str, ...], nearest: tuple[NearestPlan, ...]) -> None:
        lines = [*reasons]
        if nearest:
            lines += ["nearest that would:", *(f"  {plan.describe()}" for plan in nearest)]
        super().__init__("\n".join(lines))
        self.reasons = reasons
        self.nearest = nearest


@dataclass(frozen=True, slots=True)
class GroupTraffic:
    """What the groups of one kind send in a step.

    There are ``groups`` of ``members`` ranks. ``bytes_sent_per_gpu`` is of the GPU that sends most
    to them; ``share`` is their part of all bytes of the step, and ``share_server`` to
    ``share_core`` are parts of their own bytes by the farthest place they pass.
    """

    kind: GroupKind
    operations: tuple[Collective, ...]
    groups: int
    members: int
    bytes_sent_per_gpu: float
    total_bytes: float
    share: float
    share_server: float
    share_leaf: float
    share_spine: float
    share_core: float

    @property
    def crossing_bytes(self) -> float:
        """Bytes that cross a spine or a core."""
        return self.total_bytes * (self.share_spine + self.share_core)


@dataclass(frozen=True, eq=False)
class ModelStudy:
    """What a step of a model sends on a network.

    ``groups`` are those that send anything, most bytes first, and ``messages`` what they send.
    ``matrix_bytes[i, j]`` is what rank i sends rank j in all of them, (n, n). ``memory`` is None
    where the GPU is not known.
    """

    case: ModelCase
    plan: TrainingPlan
    network: str
    fabric: Fabric
    nodes: I32
    groups: tuple[GroupTraffic, ...]
    messages: Mapping[GroupKind, GroupMessages]
    matrix_bytes: F64
    bytes_sent_per_gpu: float
    total_bytes: float
    share_server: float
    share_leaf: float
    share_spine: float
    share_core: float
    gpu: str
    memory: MemoryUse | None
    interpretation: tuple[str, ...] = ()
    explanations: tuple[Explanation, ...] = ()
    assumptions: tuple[Assumption, ...] = _ASSUMPTIONS

    @property
    def title(self) -> str:
        """The model, as a heading."""
        return f"{self.case.model}: {self.plan.describe()}"

    @property
    def largest(self) -> GroupTraffic | None:
        """The groups that send most; None where nothing is sent."""
        return self.groups[0] if self.groups else None

    def only(self, kind: GroupKind) -> ModelStudy:
        """Return the same with no more than the groups of one kind."""
        matrix = self.messages[kind].matrix_bytes(len(self.nodes))
        shares = shares_of_matrix(self.fabric, self.nodes, matrix)
        return replace(
            self,
            groups=tuple(group for group in self.groups if group.kind == kind),
            messages={kind: self.messages[kind]},
            matrix_bytes=matrix,
            bytes_sent_per_gpu=float(matrix.sum(axis=1).max()),
            total_bytes=float(matrix.sum()),
            share_server=shares[0],
            share_leaf=shares[1],
            share_spine=shares[2],
            share_core=shares[3],
        )

    def to_json(self) -> dict[str, object]:
        """Return the study as plain data, arrays as lists; without the fabric."""
        out: dict[str, object] = {
            "case": asdict(self.case),
            "network": self.network,
            "degrees": asdict(self.plan.degrees),
            "plan": self.plan.describe(),
            "groups": [asdict(group) for group in self.groups],
            "largest": self.largest.kind if self.largest else None,
        }
        for name in _JSON_NUMBERS:
            out[name] = getattr(self, name)
        out["memory"] = _memory_json(self.memory, self.gpu)
        out["matrix_bytes"] = self.matrix_bytes.tolist()
        out["interpretation"] = list(self.interpretation)
        out["explanations"] = [asdict(item) for item in self.explanations]
        out["assumptions"] = [asdict(item) for item in self.assumptions]
        return out


_JSON_NUMBERS: Final = (
    "bytes_sent_per_gpu",
    "total_bytes",
    "share_server",
    "share_leaf",
    "share_spine",
    "share_core",
)


def _memory_json(memory: MemoryUse | None, gpu: str) -> dict[str, Any] | None:
    if memory is None:
        return None
    return {
        "gpu": gpu,
        "total_bytes": memory.total_bytes,
        "usable_bytes": memory.usable_bytes,
        "fits": memory.fits,
    }


def study_model(case: ModelCase, built: BuiltDesign | None = None) -> ModelStudy:
    """Say what a step of a model sends on a network, by kind of group.

    Args:
        case: the model, its degrees, and where it runs.
        built: run it on this design's fabric; the case's own network is then not looked at.

    Raises:
        ModelRefused: degrees that cannot be, with the nearest that would do.
        InputError: a model that does not exist, or more GPUs than the design has.
    """
    plan = _checked(case, built)
    if built is None:
        fabric, seed = pattern_network(case.on).fabric, 0
    else:
        fabric, seed = built.fabric, built.design.seed
    step = step_of_plan(plan)
    messages = step_messages(step)
    sends = model_messages(messages)
    nodes = place(fabric, case.on.gpus, case.on.placement, seed=seed, sends=sends)
    n = len(nodes)
    matrix = sum((one.matrix_bytes(n) for one in messages.values()), start=np.zeros((n, n)))
    total = float(matrix.sum())
    groups = tuple(
        _group(step, sent, byte_shares(
            fabric, nodes[sent.src], nodes[sent.dst], sent.size_bytes, rail_aware=False
        ), total, n)
        for sent in messages.values()
    )  # fmt: skip
    shares = shares_of_matrix(fabric, nodes, matrix)
    gpu = _gpu(case, built, nodes)
    study = ModelStudy(
        case=case,
        plan=plan,
        network=network_words(case.on, nodes, fabric, built),
        fabric=fabric,
        nodes=nodes,
        groups=tuple(sorted(groups, key=lambda group: -group.total_bytes)),
        messages=messages,
        matrix_bytes=matrix,
        bytes_sent_per_gpu=float(matrix.sum(axis=1).max()),
        total_bytes=total,
        share_server=shares[0],
        share_leaf=shares[1],
        share_spine=shares[2],
        share_core=shares[3],
        gpu=gpu.name if gpu else "",
        memory=memory_use(plan, gpu) if gpu else None,
    )
    return replace(
        study,
        interpretation=interpret_model(study),
        explanations=explain_groups(study, step),
    )


def _group(
    step: TrainingStep, sent: GroupMessages, shares: ByteShares, total_bytes: float, ranks: int
) -> GroupTraffic:
    own = shares.total_bytes or 1.0
    return GroupTraffic(
        kind=sent.kind,
        operations=group_operations(step, sent.kind),
        groups=sent.groups,
        members=sent.members,
        bytes_sent_per_gpu=float(sent.sent_bytes(ranks).max()),
        total_bytes=sent.total_bytes,
        share=sent.total_bytes / (total_bytes or 1.0),
        share_server=shares.server_bytes / own,
        share_leaf=shares.leaf_bytes / own,
        share_spine=shares.spine_bytes / own,
        share_core=shares.core_bytes / own,
    )


def model_messages(messages: Mapping[GroupKind, GroupMessages]) -> Callable[[I32], Traffic]:
    """Return what ``optimized`` placement asks for: the messages between given GPU nodes."""

    def sends(nodes: I32) -> Traffic:
        builder = TrafficBuilder()
        for kind, sent in messages.items():
            some = sent.size_bytes > 0
            ends = nodes[sent.src[some]], nodes[sent.dst[some]]
            builder.plain(*ends, sent.size_bytes[some], label=f"model/{kind}")
        return builder.build()

    return sends


def _gpu(case: ModelCase, built: BuiltDesign | None, nodes: I32) -> Gpu | None:
    if built is None:
        return default_catalog().gpu(case.gpu)
    try:
        return gpu_of_ranks(built, nodes)
    except InputError:
        return None  # servers whose GPU the catalog does not have


# ---------------------------------------------------------------- degrees


def _catalog(built: BuiltDesign | None) -> Catalog:
    return default_catalog() if built is None else built.document.catalog


def model_plan(case: ModelCase, built: BuiltDesign | None = None) -> TrainingPlan:
    """Return the case as a training plan, whether or not it can be.

    Raises:
        InputError: a model that does not exist.
    """
    model_ranks = max(case.tensor * case.context * case.pipeline, 1)
    data = case.data or max(case.on.gpus // model_ranks, 1)
    return TrainingPlan(
        shape=_catalog(built).model(case.model),
        degrees=Degrees(case.tensor, data, case.pipeline, case.expert, case.context),
        micro_batch=case.micro_batch,
        micro_batches=case.micro_batches,
        sequence=case.sequence,
        zero=case.zero,
        sequence_parallel=case.sequence_parallel and case.tensor > 1,
        interleave=case.interleave,
        recompute=case.recompute,
    )


def model_step(case: ModelCase, built: BuiltDesign | None = None) -> TrainingStep:
    """Return the step of a case.

    Raises:
        InputError: as :func:`study_model`.
    """
    return step_of_plan(_checked(case, built))


def _checked(case: ModelCase, built: BuiltDesign | None) -> TrainingPlan:
    """Return the plan of a case that can be; else say why not and what would."""
    plan = model_plan(case, built)
    gpus, degrees = case.on.gpus, plan.degrees
    found = plan_problems(plan, gpus=gpus)
    if any(value < 1 for name, value in plan_values(plan).items() if name in _DEGREES):
        raise ModelRefused(tuple(map(str, found)), ())  # what is nearest to that is 1
    problems = [str(problem) for problem in found]
    if degrees.ranks < gpus:  # the data ranks are not what they seem
        problems = [str(problem) for problem in found if problem.field not in ("data", "expert")]
        problems.insert(0, _uneven(case, degrees))
    if problems:
        raise ModelRefused(tuple(problems), nearest_models(case, built))
    return plan


def _uneven(case: ModelCase, degrees: Degrees) -> str:
    """Say that the degrees leave GPUs over."""
    context = f" × context {degrees.context}" if degrees.context > 1 else ""
    product = f"tensor {degrees.tensor}{context} × pipeline {degrees.pipeline}"
    if case.data:
        return f"{product} × data {degrees.data} = {degrees.ranks}, not the {case.on.gpus} GPUs"
    inner = degrees.ranks // degrees.data
    return f"{product} = {inner} does not divide the {case.on.gpus} GPUs"


def nearest_models(
    case: ModelCase, built: BuiltDesign | None = None, *, count: int = 3
) -> tuple[NearestPlan, ...]:
    """Return the plans nearest to a case that are valid and fit the memory, the nearest first.

    None where the design's GPU is not known. Costs are by closed form, of packed ranks.
    """
    plan = model_plan(case, built)
    on = case.on
    if built is None:
        gpu, domain = default_catalog().gpu(case.gpu), on.gpus_per_server
        links = ClusterLinks(
            domain,
            on.scale_up_bps / 8 * SCALE_UP_SHARE,
            on.link_bps / 8 * NETWORK_SHARE,
        )

        def costs(degrees: Degrees) -> CommunicationCosts:
            return costs_of_links(degrees, links)
    else:
        try:
            cluster = cluster_of_design(built, on.gpus)
        except InputError:
            return ()
        gpu, domain, costs = cluster.gpu, cluster.domain_gpus, cluster.quick
    most = max(on.gpus // max(case.tensor * case.context * case.pipeline, 1), 1)
    replicas = max(number for number in range(1, most + 1) if on.gpus % number == 0)
    space = PlanSpace(
        shape=plan.shape,
        gpus=on.gpus,
        domain_gpus=domain if domain > 1 else on.gpus,  # GPUs alone: a group may span servers
        batch=max(case.micro_batch * case.micro_batches, 1) * replicas,
        sequence=plan.tokens_of_sequence,
        fixed=_fixed(case, plan),
    )
    return nearest_plans(space, gpu, costs, count=count)


def _fixed(case: ModelCase, plan: TrainingPlan) -> dict[str, int]:
    """Return what of a plan is to be changed as little as possible."""
    values = plan_values(plan)
    if case.data is None:
        del values["data"]
    if plan.degrees.tensor == 1:  # nothing to choose there
        del values["sequence-parallel"]
    if plan.degrees.replicas == 1:
        del values["zero"]
    return values


_DEGREES: Final = ("tensor", "context", "pipeline", "data", "expert", "micro-batch", "interleave")
