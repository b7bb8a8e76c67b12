"""What each kind of group sends in a step: operations, sizes and bytes, by the textbook."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from railweave.design.models import Collective
from railweave.predict._step_parts import StepParts
from railweave.predict._training_types import F64, GroupCommunication, TrainingPlan
from railweave.predict.transformer import ELEMENT_BYTES
from railweave.workload import bus_factor
from railweave.workload.groups import GroupKind

__all__ = ["communications"]


def communications(
    parts: StepParts, exposed: Mapping[GroupKind, float]
) -> tuple[GroupCommunication, ...]:
    """Return the communication of a rank on the stage with most layers.

    ``exposed``: seconds of the step for which that rank waits, by kind; shared out among the
    purposes of a kind by their time. Only what can be hidden is: gathering inputs again is.
    """
    found = [item for item in _all(parts) if item.members > 1 and item.count > 0]
    out = []
    for item in found:
        kind = [other for other in found if other.kind == item.kind and not _beside(other)]
        total = sum(other.time_s for other in kind)
        share = 0.0 if _beside(item) or not total else item.time_s / total
        wait = min(exposed.get(item.kind, 0.0) * share, item.time_s)
        out.append(replace(item, exposed_s=wait, places=parts.costs.places(item.kind)))
    return tuple(out)


def _beside(item: GroupCommunication) -> bool:
    return item.purpose == "inputs again"


def _item(
    parts: StepParts,
    kind: GroupKind,
    purpose: str,
    op: Collective,
    *,
    members: int,
    size: float,
    count: float,
) -> GroupCommunication:
    return GroupCommunication(
        kind=kind,
        purpose=purpose,
        op=op,
        members=members,
        size_bytes=size,
        count=count,
        bytes_sent=bus_factor(op, members) * size * count,
        time_s=parts.costs.time_s(kind, op, size) * count,
        exposed_s=0.0,
    )


def _busiest(parts: StepParts) -> int:
    return int(np.argmax(parts.parts.by_rank(parts.parts.layers)))


def _all(parts: StepParts) -> Iterator[GroupCommunication]:
    yield from _tensor(parts)
    yield from _context(parts)
    yield from _pipeline(parts)
    yield from _expert(parts)
    yield from _data(parts)


def _tensor(parts: StepParts) -> Iterator[GroupCommunication]:
    plan, t = parts.plan, parts.plan.degrees.tensor
    layers = float(parts.parts.by_rank(parts.parts.layers)[_busiest(parts)])
    passes = (2 + parts.again) * layers * plan.micro_batches
    kinds = (
        (Collective.ALL_GATHER, Collective.REDUCE_SCATTER)
        if plan.sequence_parallel
        else (Collective.ALL_REDUCE,)
    )
    for op in kinds:
        yield _item(
            parts, "tensor", "layers", op, members=t, size=parts.activation, count=2 * passes
        )
    if plan.sequence_parallel:
        yield _item(
            parts,
            "tensor",
            "inputs again",
            Collective.ALL_GATHER,
            members=t,
            size=parts.activation,
            count=2 * layers * plan.micro_batches,
        )


def _context(parts: StepParts) -> Iterator[GroupCommunication]:
    plan, c = parts.plan, parts.plan.degrees.context
    layers = float(parts.parts.by_rank(parts.parts.layers)[_busiest(parts)])
    each, size = layers * plan.micro_batches, parts.keys_and_values
    gathers = (2 + parts.again) * each
    yield _item(
        parts,
        "context",
        "keys and values",
        Collective.ALL_GATHER,
        members=c,
        size=size,
        count=gathers,
    )
    yield _item(
        parts,
        "context",
        "their gradients",
        Collective.REDUCE_SCATTER,
        members=c,
        size=size,
        count=each,
    )


def hand_overs(plan: TrainingPlan, rank: int) -> int:
    """Return how often a pipeline rank sends to a neighbour in a step, both ways."""
    p, v, m = plan.degrees.pipeline, plan.interleave, plan.micro_batches
    if p == 1:
        return 0
    return m * (2 * v - (rank == 0) - (rank == p - 1))


def _pipeline(parts: StepParts) -> Iterator[GroupCommunication]:
    plan = parts.plan
    most = max(hand_overs(plan, rank) for rank in range(plan.degrees.pipeline))
    yield _item(
        parts,
        "pipeline",
        "activations and gradients",
        Collective.SEND_RECV,
        members=plan.degrees.pipeline,
        size=parts.hand_over,
        count=most,
    )


def _expert(parts: StepParts) -> Iterator[GroupCommunication]:
    plan = parts.plan
    sparse = float(parts.parts.by_rank(parts.parts.sparse).max())
    yield _item(
        parts,
        "expert",
        "dispatch and combine",
        Collective.ALL_TO_ALL,
        members=plan.degrees.expert,
        size=parts.routed * parts.skew,
        count=2 * (2 + parts.again) * sparse * plan.micro_batches,
    )


def _data(parts: StepParts) -> Iterator[GroupCommunication]:
    plan, degrees, stage = parts.plan, parts.plan.degrees, _busiest(parts)
    rounds = plan.micro_batches if plan.zero >= 2 else 1
    gathers = {0: 0, 1: 1, 2: 1, 3: 2 * plan.micro_batches}[plan.zero]
    reduce = Collective.REDUCE_SCATTER if plan.zero else Collective.ALL_REDUCE
    layers = max(float(parts.parts.by_rank(parts.parts.layers)[stage]), 1.0)
    kinds: tuple[tuple[GroupKind, F64, int], ...] = (
        ("data", parts.dense_held, degrees.replicas),
        ("expert-data", parts.expert_held, degrees.replicas // degrees.expert),
    )
    for kind, held, members in kinds:
        weights = float(parts.parts.by_rank(held)[stage]) / layers
        if weights <= 0:
            continue
        for purpose, op, each, count in (
            ("gradients", reduce, plan.gradient_bytes, rounds),
            ("weights", Collective.ALL_GATHER, ELEMENT_BYTES, gathers),
        ):
            yield _item(
                parts,
                kind,
                purpose,
                op,
                members=members,
                size=each * weights,
                count=count * layers,
            )
