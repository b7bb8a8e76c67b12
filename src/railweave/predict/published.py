"""Published nccl-tests results: the data that the collective model is fitted to and held against.

:func:`published_points` reads ``data/published.yaml``, where every table has its source and its
certainty, and says whether it is fitted to, kept aside, or left out and why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from railweave.catalog import ScaleUp
from railweave.design.models import Collective
from railweave.formats.quantity import BytesPerSecond, RateBps
from railweave.formats.validation import field_error, list_names, nearest, validate
from railweave.formats.yaml_source import parse_yaml
from railweave.predict._nccl_names import NcclAlgorithm
from railweave.predict.system import CollectiveSystem, Generation, NetworkClass
from railweave.provenance import Certainty, Source
from railweave.workload import bus_factor

__all__ = ["MeasuredPoint", "Use", "published_points", "published_systems", "table_size"]

Use: TypeAlias = Literal["fit", "check", "excluded"]

_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True, slots=True)
class MeasuredPoint:
    """One measured time of one operation and size on one system.

    ``system_id`` names the cluster it was measured on: what is left out together. ``algorithm`` is
    what the run forced, None where the library chose. ``gate`` marks a vendor's acceptance figure.
    """

    system_id: str
    system: CollectiveSystem
    op: Collective
    size_bytes: int
    time_s: float
    algorithm: NcclAlgorithm | None = None
    use: Use = "fit"
    source: Source = field(default_factory=lambda: Source("user", Certainty.CONFIRMED))
    gate: bool = False
    title: str = ""

    @property
    def busbw_Bps(self) -> float:  # noqa: N802 - byte/s
        """Bus bandwidth as nccl-tests defines it, byte/s."""
        factor = bus_factor(self.op, self.system.ranks)
        return factor * self.size_bytes / self.time_s


class _System(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str
    generation: Generation
    domains: int
    ranks_per_domain: int
    scale_up: ScaleUp
    scale_up_rate: BytesPerSecond
    multicast: bool = False
    network: NetworkClass = "none"
    nics_per_domain: int = 0
    nic_rate: RateBps = 0.0
    in_network: bool = False

    def system(self) -> CollectiveSystem:
        """Return it as the model sees it."""
        return CollectiveSystem(
            generation=self.generation,
            domains=self.domains,
            ranks_per_domain=self.ranks_per_domain,
            scale_up=self.scale_up,
            scale_up_Bps=self.scale_up_rate,
            network=self.network,
            nics_per_domain=self.nics_per_domain,
            nic_Bps=self.nic_rate / 8,
            in_network=self.in_network,
            multicast=self.multicast,
        )


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    system: str
    op: Collective
    source: str
    certainty: Certainty
    use: Use
    algorithm: NcclAlgorithm | None = None
    gate: bool = False
    note: str = ""
    times_us: dict[str, float] = Field(default={})
    busbw: dict[str, float] = Field(default={})


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    sources: dict[str, str]
    systems: dict[str, _System]
    tables: tuple[_Table, ...]

    @model_validator(mode="after")
    def _check_names(self) -> _File:
        for number, table in enumerate(self.tables):
            for field_name, known in (("system", self.systems), ("source", self.sources)):
                name = getattr(table, field_name)
                if name not in known:
                    raise field_error(
                        f"{name!r} is not among this file's {field_name}s",
                        allowed=list_names(known),
                        nearest=nearest(name, known),
                        at=("tables", number, field_name),
                    )
        return self


def table_size(text: str) -> int:
    """Return the bytes of a size as nccl-tests writes it: ``64K``, ``1G``.

    Raises:
        ValueError: it is not one.
    """
    unit = text[-1:] if text[-1:] in _UNITS else ""
    return int(text.removesuffix(unit) if unit else text) * _UNITS[unit]


@cache
def _file() -> _File:
    text = (resources.files("railweave.predict") / "data" / "published.yaml").read_text("utf-8")
    return validate(_File, parse_yaml(text, "predict/published.yaml"))


def published_systems() -> Mapping[str, CollectiveSystem]:
    """Return the systems of the published tables by name."""
    return {name: entry.system() for name, entry in _file().systems.items()}


def published_points(*uses: Use) -> tuple[MeasuredPoint, ...]:
    """Return the published points of these uses; of ``fit`` and ``check`` where none is named."""
    wanted = uses or ("fit", "check")
    data = _file()
    systems = published_systems()
    points: list[MeasuredPoint] = []
    for table in data.tables:
        if table.use not in wanted:
            continue
        system = systems[table.system]
        factor = bus_factor(table.op, system.ranks)
        common: dict[str, Any] = {
            "system_id": table.system,
            "system": system,
            "op": table.op,
            "algorithm": table.algorithm,
            "use": table.use,
            "source": Source(data.sources[table.source], table.certainty),
            "gate": table.gate,
            "title": data.systems[table.system].title,
        }
        for text, time_us in table.times_us.items():
            points.append(
                MeasuredPoint(size_bytes=table_size(text), time_s=time_us * 1e-6, **common)
            )
        for text, busbw in table.busbw.items():
            size = table_size(text)
            points.append(
                MeasuredPoint(size_bytes=size, time_s=factor * size / (busbw * 1e9), **common)
            )
    return tuple(points)
