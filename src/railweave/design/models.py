"""The declarative design: what one YAML file may say, field by field.

Every model is frozen and refuses unknown fields. Quantities are strings with units in the file
and plain SI numbers here. A default of None means "worked out from the rest"; the resolved value
is shown by ``railweave build --show-defaults``. Field descriptions feed the JSON Schema.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Field

from railweave.design._cluster import (
    Cluster,
    InlineServer,
    ServerGroup,
    StorageServers,
)
from railweave.design._congestion import (
    CongestionName,
    CongestionProfile,
    CongestionSpec,
    EcnSpec,
    WatchdogSpec,
)
from railweave.design._network import (
    HashField,
    HashFunction,
    InlineSwitch,
    LinksPerCable,
    Plane,
    PlaneName,
    Planes,
    RoutingScheme,
    RoutingSpec,
    Spraying,
    TierCounts,
    TierPorts,
    TierRatios,
    TierSwitches,
    Topology,
    Transport,
)
from railweave.design._security import Security
from railweave.design._values import (
    Few,
    Fraction,
    Name,
    NonNegative,
    Positive,
    Power,
    Seed,
    SpecModel,
    Text,
    not_empty,
)
from railweave.design._work import (
    ALGORITHMS,
    Algorithm,
    BackgroundTraffic,
    Collective,
    Job,
    Parallelism,
    PlacementName,
    Precision,
    Recompute,
    StorageTraffic,
    Straggler,
)
from railweave.formats.quantity import Metres

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "BackgroundTraffic",
    "Cluster",
    "Collective",
    "CongestionName",
    "CongestionProfile",
    "CongestionSpec",
    "Design",
    "EcnSpec",
    "Facility",
    "HashField",
    "HashFunction",
    "InlineServer",
    "InlineSwitch",
    "Job",
    "LinksPerCable",
    "Objectives",
    "Parallelism",
    "PlacementName",
    "Plane",
    "PlaneName",
    "Planes",
    "Precision",
    "Recompute",
    "RoutingScheme",
    "RoutingSpec",
    "Security",
    "ServerGroup",
    "Service",
    "ServiceKind",
    "Software",
    "SpecModel",
    "Spraying",
    "StorageServers",
    "StorageTraffic",
    "Straggler",
    "Tenant",
    "TierCounts",
    "TierPorts",
    "TierRatios",
    "TierSwitches",
    "Topology",
    "Transport",
    "WatchdogSpec",
]

Version: TypeAlias = Annotated[str, Field(min_length=1, max_length=100, strict=True)]


class Facility(SpecModel):
    """Where it stands: decides cable lengths, power and cooling findings."""

    rack_power: Power = Field(40_000.0, description="Power one rack may draw.")
    cooling: Literal["air", "liquid"] = Field("air", description="What takes the heat away.")
    racks_per_row: Positive = Field(16, description="Racks standing side by side.")
    rack_pitch: Metres = Field(0.6, description="Distance between neighbouring racks.")
    row_pitch: Metres = Field(3.0, description="Distance between neighbouring rows.")
    cable_slack: Metres = Field(3.0, description="Vertical runs and slack of one cable.")
    power: Power | None = Field(None, description="Power budget of the whole hall.")


class Tenant(SpecModel):
    """Somebody with jobs on the cluster."""

    name: Name = Field(description="Name that jobs refer to.")
    planes: Annotated[tuple[PlaneName, ...], AfterValidator(not_empty)] = Field(
        (PlaneName.BACKEND,), description="Planes this tenant's traffic uses."
    )


class Objectives(SpecModel):
    """What must hold when parts fail."""

    survive_switches: NonNegative = Field(0, description="Switches that may fail at once.")
    survive_links: NonNegative = Field(0, description="Links that may fail at once.")
    min_bandwidth: Fraction = Field(
        0.0, description="Share of the bisection that must remain after those failures."
    )
    availability: Fraction | None = Field(None, description="Of a server's back-end connection.")


class Software(SpecModel):
    """Versions as they will be installed."""

    firmware: Version | None = Field(None, description="Of the NICs.")
    driver: Version | None = Field(None, description="Of the GPUs.")
    nccl: Version | None = Field(None, description="Collective library, such as 2.27.3.")
    nos: Version | None = Field(None, description="Operating system of the switches.")


class ServiceKind(StrEnum):
    """Cluster services."""

    SCHEDULER = "scheduler"
    MONITORING = "monitoring"
    SUBNET_MANAGER = "subnet-manager"


class Service(SpecModel):
    """A cluster service and the plane it lives on."""

    kind: ServiceKind = Field(description="Which service it is.")
    plane: PlaneName = Field(PlaneName.MANAGEMENT, description="Plane it answers on.")
    instances: Few = Field(1, description="Copies that can take over from each other.")


class Design(SpecModel):
    """One design: cluster, planes, jobs and surroundings."""

    railweave: Literal[1] = Field(description="Version of this format.")
    name: str = Field(min_length=1, max_length=100, strict=True, description="Shown everywhere.")
    description: str = Field("", max_length=10_000, description="Shown at the head of the report.")
    seed: Seed = Field(0, description="Seed of every random choice.")
    catalog: tuple[Text, ...] = Field((), description="Own catalog files, relative to the design.")
    cluster: Cluster = Field(description="Servers and racks.")
    planes: Planes = Field(description="The network planes.")
    jobs: tuple[Job, ...] = Field((), description="Collectives and training steps to run.")
    background: tuple[BackgroundTraffic, ...] = Field((), description="General traffic.")
    storage_traffic: tuple[StorageTraffic, ...] = Field((), description="Ingest, checkpoints.")
    stragglers: tuple[Straggler, ...] = Field((), description="Slow GPUs.")
    facility: Facility = Field(Facility(), description="Racks, power, rows.")
    tenants: tuple[Tenant, ...] = Field((), description="Who shares the cluster.")
    objectives: Objectives = Field(Objectives(), description="What must hold under failures.")
    software: Software = Field(Software(), description="Versions as installed.")
    services: tuple[Service, ...] = Field((), description="Cluster services.")
    security: Security = Field(Security(), description="Who may reach what.")
