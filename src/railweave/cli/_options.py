"""Options that several commands share, declared once."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from railweave.design.models import RoutingScheme

__all__ = [
    "DesignFile",
    "Engine",
    "EngineName",
    "Fail",
    "Json",
    "Routing",
    "Seed",
    "Strict",
    "Tolerance",
]


class EngineName(StrEnum):
    """Engines, from the quickest to the most exact."""

    ANALYTIC = "analytic"
    FLOW = "flow"


DesignFile = Annotated[Path, typer.Argument(metavar="DESIGN", help="Design file (YAML).")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
Fail = Annotated[
    list[str] | None,
    typer.Option(
        "--fail",
        metavar="DEVICE[:PORT]",
        help="Take this out first; may be repeated: spine-3, leaf-1:port-12, node001/nic0.",
    ),
]
Seed = Annotated[int | None, typer.Option("--seed", min=0, help="Seed; default: the design's.")]
Strict = Annotated[bool, typer.Option("--strict", help="Warnings too end with exit code 1.")]
Engine = Annotated[
    EngineName,
    typer.Option("--engine", help="Closed forms without sharing, or max-min fair flows."),
]
Routing = Annotated[
    RoutingScheme | None,
    typer.Option("--routing", help="Use this scheme on the back-end instead of the design's."),
]
Tolerance = Annotated[
    float,
    typer.Option(
        "--tolerance",
        min=0.0,
        max=0.2,
        help="Relative error allowed in completion times (flow engine); 0 is exact.",
    ),
]
