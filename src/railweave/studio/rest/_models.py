"""Requests and responses of the API, field by field."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from railweave.design.models import RoutingScheme

__all__ = [
    "BuildRequest",
    "CheckAnswer",
    "CheckRequest",
    "CongestJob",
    "DesignJob",
    "ErrorAnswer",
    "ErrorBody",
    "Example",
    "FindingModel",
    "Health",
    "JobList",
    "JobModel",
    "JobRequest",
    "PartialJob",
    "PartialRun",
    "ProblemModel",
    "Version",
]


class _Request(BaseModel):
    """Unknown fields and wrong types are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")


DesignText: TypeAlias = Annotated[
    str,
    Field(
        min_length=1,
        max_length=1_000_000,
        description="The design file's text (YAML). It may name no other files.",
        examples=[
            "railweave: 1\nname: two servers\ncluster:\n"
            "  servers: {count: 2, inline: {gpus: 4, nics: 4, nic_speed: 100 Gb/s}}\n"
            "planes:\n  backend: {transport: rocev2, topology: leaf-spine}\n"
        ],
    ),
]
Parts: TypeAlias = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=200)]],
    Field(
        max_length=500,
        description="Devices and ports to take out first: spine-3, leaf-1:port-12, node001/nic0.",
        examples=[["spine-1"]],
    ),
]
FaultTexts: TypeAlias = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=200)]],
    Field(
        max_length=100,
        description="Packet engine: what goes wrong at a time, as in "
        "'link leaf-1:port-33 down at 100us for 50us'.",
    ),
]
Seed: TypeAlias = Annotated[int, Field(ge=0, le=2**63 - 1)]
#: A quantity with its unit, as in a design file.
Quantity: TypeAlias = Annotated[str, Field(min_length=1, max_length=60)]


class CheckRequest(_Request):
    """A design to check."""

    design: DesignText
    fail: Parts = []


class BuildRequest(_Request):
    """A design to build."""

    design: DesignText
    fail: Parts = []
    monte_carlo: Annotated[
        int, Field(ge=0, le=1000, description="Also fail so many random parts, many times.")
    ] = 0
    draws: Annotated[int, Field(ge=1, le=1000, description="Draws of monte_carlo.")] = 100


class DesignJob(_Request):
    """The design's jobs, simulated: ``run`` also tries failures, ``simulate`` does not."""

    kind: Literal["run", "simulate"]
    design: DesignText
    engine: Annotated[
        Literal["analytic", "flow", "packet"],
        Field(description="Closed forms, max-min fair flows, or packet by packet."),
    ] = "flow"
    routing: Annotated[
        RoutingScheme | None,
        Field(strict=False, description="Used on the back-end instead of the design's scheme."),
    ] = None
    seed: Annotated[Seed | None, Field(description="Instead of the design's.")] = None
    tolerance: Annotated[
        float,
        Field(ge=0, le=0.2, description="Flow engine: completions this close are taken together."),
    ] = 0.0
    fail: Parts = []
    fault: FaultTexts = []


class CongestJob(_Request):
    """One congested switch on a time axis; the options of ``railweave congest``."""

    kind: Literal["congest"]
    senders: Annotated[int, Field(ge=1, le=1024)] = 1
    sender_speed: Quantity = "120 Gb/s"
    egress_speed: Quantity = "100 Gb/s"
    buffer: Quantity = "16 MB"
    ecn: Annotated[
        Quantity | None, Field(description="40% of the buffer, 6.4MB, 5%..20% or off.")
    ] = None
    pmax: Annotated[float, Field(gt=0, le=1)] = 1.0
    pfc: Annotated[Quantity | None, Field(description="80% of the buffer, 12.8MB or off.")] = None
    profile: Annotated[Quantity | None, Field(description="The senders' congestion control.")] = (
        None
    )
    compare: Annotated[Quantity | None, Field(description="Another profile, beside it.")] = None
    size: Annotated[
        Quantity | None, Field(description="Each sender sends so much; not with duration.")
    ] = None
    duration: Annotated[Quantity | None, Field(description="Default 20 ms.")] = None
    cable: Quantity = "5 m"
    mtu: Quantity = "4096 B"
    seed: Seed = 0


JobRequest: TypeAlias = Annotated[DesignJob | CongestJob, Field(discriminator="kind")]


class FindingModel(_Answer):
    """A statement about the design, with its evidence and its remedy."""

    id: str
    severity: Literal["error", "warning", "info"]
    path: str
    message: str
    evidence: str
    fix: str


class ProblemModel(_Answer):
    """One thing wrong: in the design at a line and column (0: not known), or in the request."""

    path: str
    line: int
    column: int
    message: str
    allowed: str = ""
    nearest: str = ""


class CheckAnswer(_Answer):
    """``valid`` tells whether the design can be built at all; its problems if not."""

    valid: bool
    findings: list[FindingModel]
    problems: list[ProblemModel]


class ErrorKind(StrEnum):
    """What kind of error it is; the status says the same more coarsely."""

    REQUEST = "request"
    DESIGN = "design"
    INPUT = "input"
    LIMIT = "limit"
    TOKEN = "token"
    ORIGIN = "origin"
    UNKNOWN = "unknown"
    METHOD = "method"
    STATE = "state"
    TYPE = "type"
    BUSY = "busy"
    FAILED = "failed"
    INTERNAL = "internal"


class ErrorBody(_Answer):
    """What went wrong, in a sentence."""

    kind: ErrorKind
    message: str
    problems: list[ProblemModel] = []


class ErrorAnswer(_Answer):
    """The one shape of every error."""

    error: ErrorBody


class PartialJob(_Answer):
    """A job of the design, while a design is simulated."""

    name: str
    tasks: Annotated[int, Field(ge=0, description="Steps of its traffic that have an end each.")]
    tasks_done: Annotated[int, Field(ge=0)]
    time_s: float | None = Field(description="Of one iteration, as in the result; null: goes on.")
    algbw_Bps: float | None = Field(description="Bytes/s; null for all but collectives.")  # noqa: N815
    busbw_Bps: float | None = Field(description="Bytes/s; null for all but collectives.")  # noqa: N815


class PartialRun(_Answer):
    """What is known of a ``run`` or ``simulate`` before its end."""

    simulated_s: float | None = Field(
        description="Simulated time reached; null: the engine has no clock."
    )
    delivered: Annotated[float, Field(ge=0, le=1, description="Part of all bytes.")]
    events: Annotated[int, Field(ge=0)]
    tasks: Annotated[int, Field(ge=0)]
    tasks_done: Annotated[int, Field(ge=0)]
    jobs: list[PartialJob]
    what_ifs: list[dict[str, Any]] = Field(
        description="Failures tried so far, as in the result; of ``run`` only."
    )


class JobModel(_Answer):
    """A job as it stands. Times are seconds since 1970."""

    id: str
    kind: str
    state: Literal["queued", "running", "done", "failed", "cancelled"]
    progress: Annotated[float, Field(ge=0, le=1)]
    step: str
    queued_at_s: float
    started_at_s: float | None
    ended_at_s: float | None
    reused: bool = Field(description="The answer was there already: nothing was computed.")
    error: ErrorBody | None = None
    partial: PartialRun | list[dict[str, Any]] | None = Field(
        None,
        description="What is known so far, while it runs: of a design's run, or (a list) the "
        "cases of ``congest`` that are done, as in its result.",
    )


class JobList(_Answer):
    """Jobs, oldest first."""

    jobs: list[JobModel]


class Health(_Answer):
    """The server answers."""

    status: Literal["ok"]


class Version(_Answer):
    """Versions of railweave and of this API."""

    railweave: str
    api: Literal["v1"]


class Example(_Answer):
    """A design to start from."""

    name: str
    summary: str
    design: str
