"""What the checks of meaning look at: the design, its file, and facts of the parts it names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from railweave.design._facts import (
    ServerFacts,
    SwitchFacts,
    known_names,
    server_facts,
    switch_facts,
)
from railweave.design.models import (
    Design,
    InlineSwitch,
    Plane,
    PlaneName,
    ServerGroup,
    SpecModel,
    TierSwitches,
    Transport,
)
from railweave.errors import Problem
from railweave.formats.validation import list_names, nearest
from railweave.formats.yaml_source import PathStep, YamlDocument
from railweave.units import format_bits_rate

if TYPE_CHECKING:
    from railweave.catalog import Catalog

__all__ = ["Context"]

Path_ = tuple[PathStep, ...]


@dataclass(frozen=True, slots=True)
class Context:
    """A design that is valid field by field, with its file and catalog."""

    design: Design
    document: YamlDocument
    catalog: Catalog
    folder: Path

    # ---- problems

    def problem(
        self, path: Sequence[PathStep], message: str, *, allowed: str = "", nearest: str = ""
    ) -> Problem:
        """Make a problem at a field, or at its nearest parent that is written."""
        return self.document.problem(path, message, allowed=allowed, nearest=nearest)

    def repeated(self, names: Sequence[tuple[str, Path_]], what: str) -> Iterator[Problem]:
        """Report every name that an earlier entry of a list has already."""
        first: dict[str, int] = {}
        for name, path in names:
            if name in first:
                yield self.problem(
                    path,
                    f"the name {name!r} is taken by another {what} (line {first[name]})",
                    allowed=f"a name of its own for every {what}",
                )
            else:
                first[name] = self.document.position(path)[0]

    def unknown(self, kind: str, name: str, path: Path_) -> Iterator[Problem]:
        """Report a name that the catalog does not have."""
        names = known_names(self.catalog, kind)
        if name not in names:
            yield self.problem(
                path,
                f"the catalog has no {kind} {name!r}",
                allowed=list_names(names),
                nearest=nearest(name, names),
            )

    def missing_file(self, name: str, path: Path_, what: str) -> Iterator[Problem]:
        """Report a file named in the design that is not there."""
        wanted = self.folder / name
        if wanted.is_file():
            return
        folder = wanted.parent
        beside = (
            [str(Path(name).with_name(e.name)) for e in folder.iterdir()] if folder.is_dir() else []
        )
        yield self.problem(
            path,
            f"there is no file {name!r}",
            allowed=f"a {what}, named relative to the design",
            nearest=nearest(name, beside),
        )

    @staticmethod
    def rate(value_bps: float) -> str:
        """Write a rate as one writes it in a design."""
        return format_bits_rate(value_bps)

    @staticmethod
    def stated(model: SpecModel) -> set[str]:
        """Return the fields that say something other than their default."""
        return {
            name
            for name, field in type(model).model_fields.items()
            if field.is_required()
            or getattr(model, name) != field.get_default(call_default_factory=True)
        }

    # ---- cluster

    def group_path(self, number: int, *rest: PathStep) -> Path_:
        """Return the path of a server group, which may be written without a list."""
        listed = self.document.has(("cluster", "servers", number))
        return ("cluster", "servers", *((number,) if listed else ()), *rest)

    def server(self, group: ServerGroup, *, as_built: bool = False) -> ServerFacts | None:
        """Return a group's facts, its overrides applied unless ``as_built``; None if unknown."""
        facts = server_facts(self.catalog, group)
        if facts is None or as_built:
            return facts
        return facts.with_overrides(group.nics, group.nic_speed)

    def counts(self) -> tuple[int, ...] | None:
        """Return the number of servers in each group, None where it cannot be known."""
        cluster = self.design.cluster
        counted, wanted = [], cluster.gpus
        facts = [self.server(group) for group in cluster.servers]
        if any(fact is None for fact in facts):
            return None
        gpus = [fact.gpus for fact in facts if fact is not None]
        known = sum(g.count * n for g, n in zip(cluster.servers, gpus, strict=True) if g.count)
        for group, per_server in zip(cluster.servers, gpus, strict=True):
            if group.count is not None:
                counted.append(group.count)
            elif wanted is None or (wanted - known) % per_server or wanted <= known:
                return None
            else:
                counted.append((wanted - known) // per_server)
        return tuple(counted)

    def total_servers(self) -> int | None:
        """Return the number of servers, None where it cannot be known."""
        counts = self.counts()
        return None if counts is None else sum(counts)

    def total_gpus(self) -> int | None:
        """Return the number of GPUs, None where it cannot be known."""
        counts = self.counts()
        if counts is None:
            return None
        total = 0
        for count, group in zip(counts, self.design.cluster.servers, strict=True):
            facts = self.server(group)
            total += count * (facts.gpus if facts else 0)
        return total

    # ---- planes

    def planes(self) -> Iterator[tuple[PlaneName, Plane]]:
        """Yield the planes that are written."""
        for name in PlaneName:
            plane = self.plane(name)
            if plane is not None:
                yield name, plane

    def plane(self, name: PlaneName) -> Plane | None:
        """Return a plane by its name, None where it is not written."""
        plane: Plane | None = getattr(self.design.planes, name.value)
        return plane

    def own_planes(self) -> Iterator[tuple[PlaneName, Plane]]:
        """Yield the planes with a network of their own."""
        for name, plane in self.planes():
            if plane.shares is None:
                yield name, plane

    def transport(self, plane: Plane) -> Transport | None:
        """Return the transport of the network that a plane's traffic runs on."""
        if plane.shares is not None:
            carrier = self.plane(plane.shares)
            return None if carrier is None else carrier.transport
        return plane.transport

    def switch_fields(
        self, name: PlaneName, plane: Plane
    ) -> Iterator[tuple[str, str | InlineSwitch, Path_]]:
        """Yield tier, switch and path of each switch a plane names; tier ``""`` means all tiers."""
        switch, path = plane.switch, ("planes", name.value, "switch")
        if isinstance(switch, TierSwitches):
            for tier in ("leaf", "spine", "core"):
                choice = getattr(switch, tier)
                if choice is not None:
                    yield tier, choice, (*path, tier)
        elif switch is not None:
            yield "", switch, path

    def switch(self, choice: str | InlineSwitch) -> SwitchFacts | None:
        """Return what is known of a switch, None where the catalog has it not."""
        return switch_facts(self.catalog, choice)

    def names_of_switches(self, transport: Transport) -> list[str]:
        """Return the catalog's switches which carry a transport."""
        return [s.name for s in self.catalog.switches() if transport.value in s.transports]

    def leaf_switch(self, name: PlaneName, plane: Plane) -> SwitchFacts | None:
        """Return what is known of a plane's leaf switch."""
        for tier, choice, _ in self.switch_fields(name, plane):
            if tier in ("", "leaf"):
                return self.switch(choice)
        return None
