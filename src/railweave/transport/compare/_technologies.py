"""The stated side of the comparison: ``data/technologies.yaml``, every fact with its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from railweave.design.models import Transport
from railweave.formats.validation import field_error, list_names, nearest, validate
from railweave.formats.yaml_source import parse_yaml
from railweave.provenance import Certainty, Source

__all__ = [
    "CLASS_WORDS",
    "Cell",
    "Criterion",
    "HostFacts",
    "Row",
    "Technology",
    "TechnologyFacts",
    "TechnologyText",
    "WorkloadKind",
    "technology_facts",
]

WorkloadKind: TypeAlias = Literal["training", "inference", "mixed"]

#: what a class of 0 to 4 is called
CLASS_WORDS: Final = ("poor", "weak", "fair", "good", "best")


class Technology(StrEnum):
    """What is held against each other, in the order of the columns."""

    TCP = "tcp"
    ROCEV2 = "rocev2"
    INFINIBAND = "infiniband"
    ADAPTIVE = "adaptive"  #: RDMA over Ethernet with load-aware packets (Spectrum-X, UEC class)

    @property
    def label(self) -> str:
        """Its name as shown."""
        return technology_facts().technologies[self].title


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TechnologyText(_Record):
    """One technology: its transport, what it is, and its stack from the library to the link.

    ``stack`` holds pairs of layer and what fills it; ``where`` says for each whether it lives in
    the host's software, the NIC or the fabric.
    """

    title: str
    transport: Transport
    means: str
    stack: tuple[tuple[str, str], ...]
    where: tuple[Literal["host", "nic", "fabric"], ...]

    @model_validator(mode="after")
    def _one_place_a_layer(self) -> TechnologyText:
        if len(self.stack) != len(self.where):
            raise field_error("there is not one place for each layer", at=("where",))
        return self


class _Stated(_Record):
    source: str
    certainty: Certainty
    note: str = ""


class _Cell(_Stated):
    text: str
    rank: Annotated[int, Field(ge=0, le=4)] | None = Field(None, alias="class")


class _Number(_Stated):
    value: Annotated[float, Field(ge=0)]


class _Row(_Record):
    key: str
    title: str
    criterion: str = ""
    cells: dict[Technology, _Cell]


class _Criterion(_Record):
    title: str
    meaning: str
    measured: bool = False
    weights: dict[WorkloadKind, Annotated[float, Field(ge=0, le=10)]]


class _Host(_Record):
    send_cycles_per_byte: dict[Technology, _Number]
    receive_cycles_per_byte: dict[Technology, _Number]
    cycles_per_transfer: dict[Technology, _Number]
    stack_latency_us: dict[Technology, _Number]


class _Machine(_Record):
    cores_per_socket: _Number
    clock_ghz: _Number
    core_share: _Number
    chunk_kib: _Number


class _File(_Record):
    sources: dict[str, str]
    technologies: dict[Technology, TechnologyText]
    host: _Host
    machine: _Machine
    rows: tuple[_Row, ...]
    familiarity: dict[str, dict[Technology, Annotated[int, Field(ge=0, le=4)]]]
    criteria: dict[str, _Criterion]

    @model_validator(mode="after")
    def _is_whole(self) -> _File:
        for number, row in enumerate(self.rows):
            at = ("rows", number)
            if set(row.cells) != set(Technology):
                raise field_error("a technology is missing", allowed="all four", at=(*at, "cells"))
            if row.criterion and row.criterion not in self.criteria:
                raise field_error(
                    f"{row.criterion!r} is no criterion",
                    allowed=list_names(self.criteria),
                    nearest=nearest(row.criterion, self.criteria),
                    at=(*at, "criterion"),
                )
            for technology, cell in row.cells.items():
                if cell.source not in self.sources:
                    raise field_error(
                        f"{cell.source!r} is not among this file's sources",
                        allowed=list_names(self.sources),
                        nearest=nearest(cell.source, self.sources),
                        at=(*at, "cells", technology.value, "source"),
                    )
                if (cell.rank is None) == bool(row.criterion):
                    raise field_error(
                        "a class goes with a criterion",
                        allowed="both, or neither",
                        at=(*at, "cells", technology.value),
                    )
        return self


# ---------------------------------------------------------------- what the rest sees


@dataclass(frozen=True, slots=True)
class Cell:
    """What is stated of one technology in one row; ``rank`` is its class of 0 to 4, if scored."""

    text: str
    source: Source
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the comparison; ``criterion`` is what its classes enter, "" for none."""

    key: str
    title: str
    cells: Mapping[Technology, Cell]
    criterion: str = ""


@dataclass(frozen=True, slots=True)
class Criterion:
    """What is weighed: its name, how its score of 0 to 1 comes about, default weights."""

    key: str
    title: str
    meaning: str
    measured: bool
    weights: Mapping[WorkloadKind, float]


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What a host pays for a technology, each with its source.

    Cycles a byte at sender and receiver, cycles for each transfer of a chunk (both ends), and the
    software's latency of one message in seconds: both ends together, one way.
    """

    send_cycles_per_byte: float
    receive_cycles_per_byte: float
    cycles_per_transfer: float
    stack_latency_s: float
    sources: Mapping[str, tuple[Source, str]]


@dataclass(frozen=True, slots=True)
class Machine:
    """What is assumed of a server's processors, each with its source."""

    cores_per_socket: int
    clock_hz: float
    core_share: float
    chunk_bytes: int
    sources: Mapping[str, tuple[Source, str]]


@dataclass(frozen=True)
class TechnologyFacts:
    """All that is stated."""

    technologies: Mapping[Technology, TechnologyText]
    host: Mapping[Technology, HostFacts]
    machine: Machine
    rows: tuple[Row, ...]
    familiarity: Mapping[str, Mapping[Technology, int]]
    criteria: Mapping[str, Criterion]


def _host(data: _File, technology: Technology) -> HostFacts:
    found = {name: getattr(data.host, name)[technology] for name in _Host.model_fields}
    return HostFacts(
        send_cycles_per_byte=found["send_cycles_per_byte"].value,
        receive_cycles_per_byte=found["receive_cycles_per_byte"].value,
        cycles_per_transfer=found["cycles_per_transfer"].value,
        stack_latency_s=found["stack_latency_us"].value * 1e-6,
        sources={name: _sourced(data, fact) for name, fact in found.items()},
    )


def _sourced(data: _File, fact: _Stated) -> tuple[Source, str]:
    return Source(data.sources[fact.source], fact.certainty), fact.note


@cache
def technology_facts() -> TechnologyFacts:
    """Return what is stated of the technologies.

    Raises:
        DesignError: the packaged file is wrong.
    """
    text = (resources.files("railweave.transport") / "data" / "technologies.yaml").read_text(
        "utf-8"
    )
    data = validate(_File, parse_yaml(text, "transport/technologies.yaml"))
    machine = {name: getattr(data.machine, name) for name in _Machine.model_fields}
    return TechnologyFacts(
        technologies=data.technologies,
        host={technology: _host(data, technology) for technology in Technology},
        machine=Machine(
            cores_per_socket=int(data.machine.cores_per_socket.value),
            clock_hz=data.machine.clock_ghz.value * 1e9,
            core_share=data.machine.core_share.value,
            chunk_bytes=int(data.machine.chunk_kib.value) * 1024,
            sources={name: _sourced(data, fact) for name, fact in machine.items()},
        ),
        rows=tuple(
            Row(
                row.key,
                row.title,
                {t: Cell(c.text, _sourced(data, c)[0], c.rank) for t, c in row.cells.items()},
                row.criterion,
            )
            for row in data.rows
        ),
        familiarity=data.familiarity,
        criteria={
            key: Criterion(key, one.title, one.meaning, one.measured, one.weights)
            for key, one in data.criteria.items()
        },
    )
