"""What a design says of the traffic: jobs, background and storage traffic, slow GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import Field, model_validator

from railweave.design._network import PlaneName
from railweave.design._values import (
    Duration,
    Few,
    Fraction,
    Name,
    NonNegative,
    Positive,
    Size,
    Some,
    SpecModel,
    Speed,
    Text,
    choose,
    is_list,
    is_number,
    is_text,
)
from railweave.formats.quantity import Seconds


class Collective(StrEnum):
    """Collective operations."""

    ALL_REDUCE = "all-reduce"
    ALL_GATHER = "all-gather"
    REDUCE_SCATTER = "reduce-scatter"
    BROADCAST = "broadcast"
    REDUCE = "reduce"
    ALL_TO_ALL = "all-to-all"
    SEND_RECV = "send-recv"


class Algorithm(StrEnum):
    """Collective algorithms; ``rail-aligned`` and ``direct`` are for all-to-all."""

    RING = "ring"
    TREE = "tree"
    HALVING_DOUBLING = "halving-doubling"
    HIERARCHICAL = "hierarchical"
    DIRECT = "direct"
    RAIL_ALIGNED = "rail-aligned"


_PIECES: Final = (Algorithm.RING, Algorithm.HALVING_DOUBLING, Algorithm.HIERARCHICAL)

#: operation → algorithms that can do it, the default first
ALGORITHMS: Final[Mapping[Collective, tuple[Algorithm, ...]]] = MappingProxyType(
    {
        Collective.ALL_REDUCE: (
            Algorithm.RING,
            Algorithm.TREE,
            Algorithm.HALVING_DOUBLING,
            Algorithm.HIERARCHICAL,
        ),
        Collective.ALL_GATHER: _PIECES,
        Collective.REDUCE_SCATTER: _PIECES,
        Collective.BROADCAST: (Algorithm.RING, Algorithm.TREE),
        Collective.REDUCE: (Algorithm.RING, Algorithm.TREE),
        Collective.ALL_TO_ALL: (Algorithm.DIRECT, Algorithm.RAIL_ALIGNED),
        Collective.SEND_RECV: (Algorithm.DIRECT,),
    }
)


class PlacementName(StrEnum):
    """How ranks are laid on GPUs."""

    PACKED = "packed"
    SPREAD = "spread"
    RAIL_ALIGNED = "rail-aligned"
    RANDOM = "random"
    FRAGMENTS = "fragments"
    OPTIMIZED = "optimized"


class Recompute(StrEnum):
    """What the backward pass computes anew instead of keeping it."""

    NONE = "none"
    SELECTIVE = "selective"
    FULL = "full"


class Precision(StrEnum):
    """Arithmetic of the layers' matrix products; everything else stays BF16 and FP32."""

    BF16 = "bf16"
    FP8 = "fp8"


class Parallelism(SpecModel):
    """Degrees of a training job; their product is the number of GPUs it uses."""

    data: Positive | None = Field(None, description="Default: what the GPUs leave.")
    tensor: Positive = Field(1, description="Ranks that share each layer.")
    pipeline: Positive = Field(1, description="Stages the layers are cut into.")
    expert: Positive = Field(1, description="Taken out of the data-parallel ranks.")
    context: Positive = Field(1, description="Ranks that share each sequence.")


class Job(SpecModel):
    """A job: one collective (``collective``), or a training step of a model (``model``)."""

    name: Name = Field(description="Name of the job, once in a design.")
    collective: Collective | None = Field(None, description="The operation.")
    size: Size | None = Field(
        None, description="Bytes of the operation a rank, as nccl-tests counts them."
    )
    algorithm: Algorithm | None = Field(
        None, description="Default: direct for all-to-all and send-recv, ring elsewhere."
    )
    channels: Few | None = Field(None, description="Default: one for each rail.")
    iterations: Some = Field(1, description="How often it runs, one after the other.")
    model: Text | None = Field(None, description="Catalog name of the model that is trained.")
    parallelism: Parallelism | None = Field(None, description="Degrees (with model).")
    micro_batches: Some = Field(1, description="Micro-batches a step (with model).")
    micro_batch: Some = Field(1, description="Sequences in a micro-batch (with model).")
    sequence: Positive | None = Field(
        None, description="Tokens of a sequence; default: the model's (with model)."
    )
    zero: Annotated[int, Field(ge=0, le=3, strict=True)] = Field(
        0,
        description="ZeRO stage: shards optimiser states (1), gradients (2), weights (3)"
        " (with model).",
    )
    interleave: Few = Field(1, description="Chunks of layers on each pipeline rank (with model).")
    sequence_parallel: bool = Field(
        True, description="Norms and dropout split over the tensor ranks (with model)."
    )
    precision: Precision = Field(
        Precision.BF16, description="Arithmetic of the layers' matrix products (with model)."
    )
    recompute: Recompute = Field(
        Recompute.SELECTIVE,
        description="What the backward pass computes, and sends, anew (with model).",
    )
    ranks: Annotated[
        Literal["all"] | Positive,
        choose(
            "all, or a number of GPUs",
            (lambda value: value == "all", Literal["all"]),
            (is_number, Positive),
        ),
    ] = Field("all", description="GPUs it uses; default: those that placement lists, else all.")
    placement: Annotated[
        PlacementName | tuple[NonNegative, ...],
        choose(
            "packed, spread, rail-aligned, random, fragments, optimized, or the list of the ranks' "
            "GPU numbers",
            (is_text, PlacementName),
            (is_list, tuple[NonNegative, ...]),
            (lambda value: isinstance(value, PlacementName), PlacementName),
        ),
    ] = Field(PlacementName.PACKED, description="A rule, or the GPU number of every rank.")
    start: Seconds = Field(0.0, description="When it starts.")
    tenant: Name | None = Field(None, description="Whose job it is.")

    @model_validator(mode="before")
    @classmethod
    def _ranks_of_listed_gpus(cls, data: Any) -> Any:  # noqa: ANN401 - as written, of any shape
        """Take as many ranks as GPUs are listed, where nothing else is said."""
        if isinstance(data, dict) and "ranks" not in data:
            listed = data.get("placement")
            if isinstance(listed, list | tuple) and listed:
                return {**data, "ranks": len(listed)}
        return data


SizeNames: TypeAlias = Literal["web-search", "data-mining"]


class BackgroundTraffic(SpecModel):
    """General-purpose traffic: many short flows with heavy-tailed sizes."""

    name: Name = Field(description="Name of this traffic, once in a design.")
    plane: PlaneName = Field(PlaneName.FRONTEND, description="Where it runs.")
    load: Fraction = Field(description="Share of the hosts' link capacity offered.")
    sizes: Annotated[
        SizeNames | Size,
        choose(
            "web-search, data-mining, or one size such as '64 KiB'",
            (lambda value: isinstance(value, str) and not value[:1].isdigit(), SizeNames),
            (is_text, Size),
        ),
    ] = Field("web-search", description="Size distribution, or one size.")
    duration: Duration = Field(description="How long flows keep arriving.")
    start: Seconds = Field(0.0, description="When the first may arrive.")


class StorageTraffic(SpecModel):
    """Dataset ingest and checkpoint writes between servers and storage servers."""

    name: Name = Field(description="Name of this traffic, once in a design.")
    ingest: Speed | None = Field(None, description="Dataset bytes each server reads, as a rate.")
    checkpoint_size: Size | None = Field(None, description="Checkpoint size, whole cluster.")
    checkpoint_period: Duration = Field(1800.0, description="Time between two checkpoints.")
    start: Seconds = Field(0.0, description="When the first burst starts.")
    duration: Duration = Field(1.0, description="How long ingest lasts in the simulation.")


class Straggler(SpecModel):
    """A slow GPU: it waits before each message it sends."""

    gpu: NonNegative = Field(description="GPU number, counted over the cluster.")
    delay: Seconds = Field(description="Wait before each message.")
