"""The space of valid training plans: degrees that fit the model, the GPUs and the batch.

What is valid, and why:

* tensor divides the heads, the KV heads or a multiple of them, the FFN widths, and the scale-up
  domain: a tensor group leaves no server (no NVL72 rack);
* pipeline is at most the layers, which need not be even; with interleaving, stages × chunks divide
  the layers, or the layers with embedding and head counted as one each, and the micro-batches fill
  whole rounds of stages (Narayanan et al., 2021);
* context cuts the sequence into 2 pieces a rank (zigzag, so that causal attention is even);
* expert divides the experts and the data-parallel ranks;
* tensor × context × pipeline × data are the GPUs, and data × micro-batch divides the batch;
* ZeRO needs ranks to shard over, sequence parallelism tensor ranks that divide a rank's tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from railweave.catalog import ModelShape
from railweave.errors import InputError
from railweave.formats.validation import list_names, nearest
from railweave.predict._training_types import Precision, Recompute, TrainingPlan
from railweave.workload.groups import Degrees

__all__ = [
    "COLUMNS",
    "PlanSpace",
    "PlanTable",
    "column_text",
    "objections",
    "parse_fixed",
    "plan_values",
    "valid_plans",
]

I64: TypeAlias = npt.NDArray[np.int64]

#: what a plan chooses, as ``--fix`` names it
COLUMNS: Final = (
    "tensor",
    "context",
    "pipeline",
    "data",
    "expert",
    "micro-batch",
    "interleave",
    "zero",
    "recompute",
    "sequence-parallel",
)
_RECOMPUTE: Final = (Recompute.NONE, Recompute.SELECTIVE, Recompute.FULL)
_SWITCH: Final = {"off": 0, "no": 0, "false": 0, "on": 1, "yes": 1, "true": 1}


@dataclass(frozen=True, slots=True)
class PlanSpace:
    """What plans are looked for.

    Args:
        shape: of the model.
        gpus: GPUs of the job.
        domain_gpus: GPUs of one scale-up domain (of one server, where it has none).
        batch: sequences of a step.
        sequence: tokens of a sequence.
        precision: of the layers' matrix products.
        fixed: values that are given, by the names of :data:`COLUMNS`; recompute as 0 (none), 1
            (selective), 2 (full), sequence-parallel as 0 or 1.
    """

    shape: ModelShape
    gpus: int
    domain_gpus: int
    batch: int
    sequence: int
    precision: Precision = Precision.BF16
    fixed: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def tokens_per_step(self) -> int:
        """Tokens of a step."""
        return self.batch * self.sequence

    def free(self) -> PlanSpace:
        """Return the same space with nothing fixed."""
        return replace(self, fixed=MappingProxyType({}))


@dataclass(frozen=True, eq=False)
class PlanTable:
    """Valid plans, one row each; ``values`` is (N, 10), columns as in :data:`COLUMNS`."""

    space: PlanSpace
    values: I64

    def __len__(self) -> int:
        return len(self.values)

    def column(self, name: str) -> I64:
        """Return one column, (N,)."""
        found: I64 = self.values[:, COLUMNS.index(name)]
        return found

    def take(self, rows: npt.NDArray[np.bool_] | I64) -> PlanTable:
        """Return some of the rows."""
        return PlanTable(self.space, self.values[rows])

    @cached_property
    def micro_batches(self) -> I64:
        """Micro-batches of a replica, (N,)."""
        count: I64 = self.space.batch // (self.column("data") * self.column("micro-batch"))
        return count

    def plan(self, row: int) -> TrainingPlan:
        """Return a row as a plan."""
        t, c, p, d, e, micro, chunks, zero, recompute, split = self.values[row].tolist()
        return TrainingPlan(
            shape=self.space.shape,
            degrees=Degrees(tensor=t, data=d, pipeline=p, expert=e, context=c),
            micro_batch=micro,
            micro_batches=int(self.micro_batches[row]),
            sequence=self.space.sequence,
            zero=zero,
            sequence_parallel=bool(split),
            interleave=chunks,
            recompute=_RECOMPUTE[recompute],
            precision=self.space.precision,
        )


def plan_values(plan: TrainingPlan) -> dict[str, int]:
    """Return a plan's values by the names of :data:`COLUMNS`."""
    degrees = plan.degrees
    values = (
        degrees.tensor,
        degrees.context,
        degrees.pipeline,
        degrees.data,
        degrees.expert,
        plan.micro_batch,
        plan.interleave,
        plan.zero,
        _RECOMPUTE.index(plan.recompute),
        int(plan.sequence_parallel),
    )
    return dict(zip(COLUMNS, values, strict=True))


def column_text(name: str, value: int) -> str:
    """Return a value as it is written: ``recompute full``, ``tensor 8``."""
    if name == "recompute":
        return f"{name} {_RECOMPUTE[value].value}"
    if name == "sequence-parallel":
        return f"{name} {'on' if value else 'off'}"
    return f"{name} {value}"


def parse_fixed(text: str, where: str = "--fix") -> dict[str, int]:
    """Read ``tensor=8,pipeline=4,recompute=full`` into values by name.

    Raises:
        InputError: a name that is unknown or twice there, or a value that cannot be read.
    """
    found: dict[str, int] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, sign, value = (piece.strip() for piece in part.partition("="))
        if name not in COLUMNS or not sign:
            hint = nearest(name, COLUMNS)
            raise InputError(
                f"{where}: {part!r} is not NAME=VALUE; allowed names: {list_names(COLUMNS)}"
                + (f"; did you mean {hint!r}?" if hint and hint != name else "")
            )
        if name in found:
            raise InputError(f"{where}: {name} stands there twice; give it once")
        found[name] = _read_value(name, value, where)
    if not found:
        raise InputError(f"{where}: nothing is named; such as tensor=8,pipeline=4")
    return found


def _read_value(name: str, value: str, where: str) -> int:
    if name == "recompute":
        names = [item.value for item in _RECOMPUTE]
        if value in names:
            return names.index(value)
        allowed = list_names(names)
    elif name == "sequence-parallel":
        if value.lower() in _SWITCH:
            return _SWITCH[value.lower()]
        allowed = "on, off"
    else:
        least = 0 if name == "zero" else 1
        if value.isdigit() and int(value) >= least:
            return int(value)
        allowed = "0, 1, 2, 3" if name == "zero" else "a whole number of 1 or more"
    raise InputError(f"{where}: {name}={value} cannot be read; allowed: {allowed}")


# ---------------------------------------------------------------- what is valid


def _divisors(number: int) -> list[int]:
    return [value for value in range(1, number + 1) if number % value == 0]


def _tensor_fits(shape: ModelShape, tensor: int) -> bool:
    widths = [shape.ffn, shape.expert_ffn or shape.ffn]
    kv = shape.kv_heads
    return (
        shape.heads % tensor == 0
        and (kv % tensor == 0 or tensor % kv == 0)
        and all(width % tensor == 0 for width in widths)
    )


def _tensor_degrees(space: PlanSpace) -> list[int]:
    """Return tensor degrees that fit model and domain."""
    domain = min(space.domain_gpus, space.gpus)
    return [t for t in _divisors(domain) if space.gpus % t == 0 and _tensor_fits(space.shape, t)]


def _chunks(space: PlanSpace, pipeline: int, micro_batches: int) -> list[int]:
    """Return the interleaving that a pipeline can have: 1 is always possible."""
    if pipeline == 1 or micro_batches % pipeline:
        return [1]
    layers = space.shape.layers
    most = (layers + 2) // pipeline  # embedding and head may have chunks of their own
    return [
        v
        for v in range(1, most + 1)
        if v == 1 or any((layers + extra) % (pipeline * v) == 0 for extra in (0, 2))
    ]


def _wanted(space: PlanSpace, name: str, values: list[int]) -> list[int]:
    fixed = space.fixed.get(name)
    return values if fixed is None else [value for value in values if value == fixed]


def _shapes(space: PlanSpace) -> Iterator[tuple[int, int, int, int]]:
    """Yield (tensor, context, pipeline, data) whose product is the GPUs."""
    pieces = space.sequence // 2 if space.sequence % 2 == 0 else 1
    for t in _wanted(space, "tensor", _tensor_degrees(space)):
        rest = space.gpus // t
        cuts = [c for c in _divisors(rest) if c == 1 or pieces % c == 0]
        for c in _wanted(space, "context", cuts):
            stages = [p for p in _divisors(rest // c) if p <= space.shape.layers]
            for p in _wanted(space, "pipeline", stages):
                d = rest // (c * p)
                if space.batch % d == 0 and d == space.fixed.get("data", d):
                    yield t, c, p, d


def _blocks(space: PlanSpace) -> Iterator[I64]:
    """Yield rows by (tensor, context, pipeline, data): everything else varies within."""
    shape = space.shape
    experts = _divisors(shape.experts)
    recompute = _wanted(space, "recompute", list(range(len(_RECOMPUTE))))
    for t, c, p, d in _shapes(space):
        even = t > 1 and space.sequence // c % t == 0
        split = _wanted(space, "sequence-parallel", [0, 1] if even else [0])
        zero = _wanted(space, "zero", [0, 1, 2, 3] if d * c > 1 else [0])
        over = _wanted(space, "expert", [e for e in experts if d % e == 0])
        batches = [
            (micro, v)
            for micro in _wanted(space, "micro-batch", _divisors(space.batch // d))
            for v in _wanted(space, "interleave", _chunks(space, p, space.batch // (d * micro)))
        ]
        rows = [
            (t, c, p, d, e, micro, v, z, r, s)
            for e, (micro, v), z, r, s in product(over, batches, zero, recompute, split)
        ]
        if rows:
            yield np.array(rows, dtype=np.int64)


def valid_plans(space: PlanSpace) -> PlanTable:
    """Return every valid plan of a space, whether or not it fits the memory.

    Raises:
        InputError: GPUs, batch or sequence below 1.
    """
    _check_space(space)
    blocks = list(_blocks(space))
    empty = np.zeros((0, len(COLUMNS)), dtype=np.int64)
    return PlanTable(space, np.concatenate(blocks) if blocks else empty)


def _check_space(space: PlanSpace) -> None:
    for name, value in (
        ("gpus", space.gpus),
        ("batch", space.batch),
        ("sequence", space.sequence),
    ):
        if value < 1:
            raise InputError(f"{name}: {value} is not allowed; give 1 or more")
    unknown = [name for name in space.fixed if name not in COLUMNS]
    if unknown:
        raise InputError(
            f"fixed: {unknown[0]!r} is nothing that a plan chooses; allowed: {list_names(COLUMNS)}"
        )


# ---------------------------------------------------------------- why something is not valid


def _why_not(space: PlanSpace, name: str, value: int) -> str:  # noqa: PLR0911 - one line a reason
    """Say why a value of one column cannot be, whatever the others are; "" where it can."""
    shape, gpus = space.shape, space.gpus
    if name in ("tensor", "context", "pipeline", "data") and value > gpus:
        return f"exceeds the {gpus:,} GPUs"
    if name in ("tensor", "context", "pipeline", "data") and gpus % value:
        return f"does not divide the {gpus:,} GPUs"
    if name == "tensor":
        return _why_not_tensor(space, value)
    if name == "pipeline" and value > shape.layers:
        return f"more stages than the model's {shape.layers} layers"
    if name == "context" and space.sequence % (2 * value):
        return f"does not cut the {space.sequence:,} tokens into 2 pieces a rank"
    if name == "data" and space.batch % value:
        return f"does not divide the batch of {space.batch:,} sequences"
    if name == "expert" and shape.experts % value:
        have = f"{shape.experts} experts" if shape.experts > 1 else "model, which has no experts"
        return f"does not divide the {have}"
    if name == "micro-batch" and space.batch % value:
        return f"does not divide the batch of {space.batch:,} sequences"
    if name == "zero" and value > 3:
        return "is no ZeRO stage"
    return ""


def _why_not_tensor(space: PlanSpace, value: int) -> str:
    shape, domain = space.shape, min(space.domain_gpus, space.gpus)
    if value > domain:
        return f"exceeds the scale-up domain of {domain} GPUs"
    if shape.heads % value:
        return f"does not divide the {shape.heads} heads"
    if domain % value:
        return f"does not divide the scale-up domain of {domain} GPUs"
    if not _tensor_fits(shape, value):
        return f"does not divide the {shape.kv_heads} KV heads or the FFN width"
    return ""


def objections(space: PlanSpace) -> tuple[str, ...]:
    """Say what is wrong with what is fixed, with what would be allowed; empty where plans exist.

    Each value is looked at alone first; where all could be, they are looked at together.
    """
    fixed = space.fixed
    found = []
    everything: PlanTable | None = None
    for name, value in fixed.items():
        reason = _why_not(space, name, value)
        if reason:
            everything = everything or valid_plans(space.free())
            allowed = sorted(set(everything.column(name).tolist()))
            texts = [column_text(name, item).removeprefix(f"{name} ") for item in allowed]
            found.append(
                f"{column_text(name, value)} {reason}; allowed: {list_names(texts) or 'none'}"
            )
    if found or len(valid_plans(space)):
        return tuple(found)
    return (_together(space),)


def _together(space: PlanSpace) -> str:
    """Say why values that could be alone cannot be together."""
    degrees = {
        name: space.fixed[name]
        for name in ("tensor", "context", "pipeline", "data")
        if name in space.fixed
    }
    total = int(np.prod(list(degrees.values()), dtype=np.int64)) if degrees else 1
    text = " × ".join(column_text(name, value) for name, value in degrees.items())
    if len(degrees) == 4 and total != space.gpus:
        return f"{text} = {total:,}, not the {space.gpus:,} GPUs"
    if total > space.gpus:
        return f"{text} = {total:,} exceeds the {space.gpus:,} GPUs"
    if space.gpus % total:
        return f"{text} = {total:,} does not divide the {space.gpus:,} GPUs"
    said = ", ".join(column_text(name, value) for name, value in space.fixed.items())
    return (
        f"no plan has {said or 'what is asked'} with {space.gpus:,} GPUs and a batch of "
        f"{space.batch:,} sequences: data × micro-batch must divide the batch, expert the data "
        "ranks, and interleaving needs micro-batches in whole rounds of stages"
    )
