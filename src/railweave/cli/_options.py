"""Options that several commands share, declared once."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from railweave.design.models import RoutingScheme
from railweave.errors import InputError

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
    "check_tolerance",
]


class EngineName(StrEnum):
    """Engines, from the quickest to the most exact."""

    ANALYTIC = "analytic"
    FLOW = "flow"
    PACKET = "packet"


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
    typer.Option(
        "--engine",
        help="Closed forms, each job without other traffic; max-min fair flows; or packet by packet.",
    ),
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
        help="Flow engine: completions within this share of the time passed are taken together; "
        "0 is exact. A window, no bound: errors up to 1.1 % were measured at 0.01.",
    ),
]


def check_tolerance(engine: EngineName, tolerance: float) -> None:
    """Refuse a tolerance where it would do nothing.

    Raises:
        InputError: another engine than the flow engine with a tolerance.
    """
    if tolerance and engine is not EngineName.FLOW:
        raise InputError(
            f"--tolerance speaks of the flow engine, and --engine {engine.value} has none; "
            "leave one of the two out"
        )
