"""What is stated of planes, parts and protocols: ``data/planes.yaml``, read once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from railweave.formats.validation import field_error, validate
from railweave.formats.yaml_source import parse_yaml

__all__ = ["Application", "PlaneFacts", "PlaneRole", "Stack", "plane_facts"]

Text = Annotated[str, StringConstraints(min_length=1)]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PlaneRole(_Record):
    """What a plane carries, whom lateness hurts, and what its design looks at first."""

    carries: Text
    late: Text
    priority: Text
    source: Text


class Stack(_Record):
    """The headers below the application, the outermost first."""

    layers: Annotated[tuple[Text, ...], Field(min_length=1)]
    source: Text


class Application(_Record):
    """What speaks on a kind of journey; ``open`` says what the design leaves open.

    ``rdma`` is empty where the application speaks TCP on every network.
    """

    tcp: Text
    rdma: str = ""
    inside: Text
    open: str = ""
    source: Text
    also: str = ""


class PlaneFacts(_Record):
    """The whole file."""

    sources: Mapping[str, Text]
    planes: Mapping[str, PlaneRole]
    roles: Mapping[str, Text]
    stacks: Mapping[str, Stack]
    applications: Mapping[str, Application]
    dma: Mapping[str, Text]

    @model_validator(mode="after")
    def _check_sources(self) -> PlaneFacts:
        for group in ("planes", "stacks", "applications"):
            for name, fact in getattr(self, group).items():
                for key in (fact.source, getattr(fact, "also", "")):
                    if key and key not in self.sources:
                        raise field_error(
                            f"no source is called {key!r}",
                            allowed=", ".join(self.sources),
                            at=(group, name, "source"),
                        )
        return self


@cache
def plane_facts() -> PlaneFacts:
    """Return what railweave states of planes."""
    name = "planes.yaml"
    text = (resources.files("railweave.transport") / "data" / name).read_text("utf-8")
    return validate(PlaneFacts, parse_yaml(text, f"transport/{name}"))
