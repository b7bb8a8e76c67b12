"""What a design check looks at, and how it speaks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railweave.design import LoadedDesign
from railweave.design.defaults import default_congestion, default_scheme
from railweave.design.models import (
    Collective,
    CongestionName,
    Design,
    InlineSwitch,
    Job,
    Plane,
    PlaneName,
    RoutingScheme,
    Transport,
)
from railweave.fabric import Fabric, LinkLayer, PlaneId
from railweave.fabric.build import BuiltFabric
from railweave.fabric.plan import PlanePlan
from railweave.findings import Finding, Severity

if TYPE_CHECKING:
    from railweave.catalog import Catalog, Switch

__all__ = ["CheckContext"]

_FIELD_PATH = re.compile(r"[a-z_]+(\.[a-z_-]+|\[\d+\])*")


@dataclass(frozen=True, eq=False)
class CheckContext:
    """A design and the fabric built from it."""

    loaded: LoadedDesign
    built: BuiltFabric

    @property
    def design(self) -> Design:
        """The design."""
        return self.loaded.design

    @property
    def catalog(self) -> Catalog:
        """The catalog its names refer to."""
        return self.loaded.catalog

    @property
    def fabric(self) -> Fabric:
        """The fabric with all planes."""
        return self.built.fabric

    # ---- speaking

    def error(self, id: str, path: str, message: str, evidence: str = "", fix: str = "") -> Finding:
        """Make an error at a field of the design."""
        return Finding(id, Severity.ERROR, self.loaded.where(path), message, evidence, fix)

    def warning(
        self, id: str, path: str, message: str, evidence: str = "", fix: str = ""
    ) -> Finding:
        """Make a warning at a field of the design."""
        return Finding(id, Severity.WARNING, self.loaded.where(path), message, evidence, fix)

    def info(self, id: str, path: str, message: str, evidence: str = "", fix: str = "") -> Finding:
        """Make a remark at a field of the design."""
        return Finding(id, Severity.INFO, self.loaded.where(path), message, evidence, fix)

    def placed(self, finding: Finding) -> Finding:
        """Give a finding that names a field of the design that field's place in the file."""
        head = finding.path.split(".")[0].split("[")[0]
        if head in Design.model_fields and _FIELD_PATH.fullmatch(finding.path):
            return replace(finding, path=self.loaded.where(finding.path))
        return finding

    # ---- planes

    def networks(self) -> Iterator[tuple[PlaneName, Plane, PlanePlan | None]]:
        """Yield each plane with a network of its own, and its plan (None for a graph)."""
        for name in PlaneName:
            plane = self.plane(name)
            if plane is not None and plane.shares is None:
                yield name, plane, self.built.plans.get(PlaneId[name.name])

    def plane(self, name: PlaneName) -> Plane | None:
        """Return a plane as written, None where the design has it not."""
        plane: Plane | None = getattr(self.design.planes, name.value)
        return plane

    def carrier(self, name: PlaneName) -> PlaneName | None:
        """Return the plane whose network carries a plane, None where there is no such plane."""
        plane = self.plane(name)
        return None if plane is None else plane.shares or name

    def transport(self, plane: Plane) -> Transport:
        """Return the transport of a plane with a network of its own."""
        return plane.transport or Transport.TCP

    def congestion(self, plane: Plane) -> CongestionName:
        """Return a plane's congestion scheme."""
        named = None if plane.congestion is None else plane.congestion.scheme
        return named or default_congestion(self.transport(plane))

    def scheme(self, plane: Plane) -> RoutingScheme:
        """Return a plane's routing scheme."""
        return plane.routing.scheme or default_scheme(self.transport(plane))

    def switches(self, name: PlaneName) -> int:
        """Return the number of switches of a plane's network."""
        return len(self.fabric.switches(PlaneId[name.name]))

    def tier_sizes(self, name: PlaneName) -> dict[str, int]:
        """Return the number of leaves, spines and cores of a plane's network."""
        tiers = {"leaf": 1, "spine": 2, "core": 3}
        plane = PlaneId[name.name]
        sizes = {tier: len(self.fabric.switches(plane, n)) for tier, n in tiers.items()}
        return {tier: size for tier, size in sizes.items() if size}

    def leaves_of_servers(self, name: PlaneName) -> dict[int, int]:
        """Return, by server, how many switches of a plane it is linked to."""
        fabric, plane = self.fabric, PlaneId[name.name]
        links = np.flatnonzero(
            (fabric.link_plane == plane) & (fabric.link_layer == LinkLayer.HOST_LEAF)
        )[::2]
        server = fabric.node_server[fabric.link_src[links]]
        pairs = np.unique(
            np.stack((server[server >= 0], fabric.link_dst[links][server >= 0])), axis=1
        )
        servers, leaves = np.unique(pairs[0], return_counts=True)
        return dict(zip(servers.tolist(), leaves.tolist(), strict=True))

    def catalog_switches(self, plane: Plane) -> Iterator[tuple[str, Switch]]:
        """Yield field and part of each switch that a plane names from the catalog."""
        choice = plane.switch
        if isinstance(choice, str):
            yield "switch", self.catalog.switch(choice)
        elif choice is not None and not isinstance(choice, InlineSwitch):
            for tier in ("leaf", "spine", "core"):
                named = getattr(choice, tier)
                if isinstance(named, str):
                    yield f"switch.{tier}", self.catalog.switch(named)

    # ---- jobs

    def all_to_all_jobs(self) -> list[Job]:
        """Return the jobs in which everybody sends to everybody."""
        return [
            job
            for job in self.design.jobs
            if job.collective is Collective.ALL_TO_ALL
            or (job.parallelism is not None and job.parallelism.expert > 1)
        ]
