"""Options that several commands share, declared once."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from railweave.design.models import RoutingScheme
from railweave.errors import InputError

if TYPE_CHECKING:
    from railweave.api import BuiltDesign
    from railweave.engine.packet_settings import PacketSettings

__all__ = [
    "DesignFile",
    "Engine",
    "EngineName",
    "Fail",
    "Faults",
    "Json",
    "Routing",
    "Seed",
    "Strict",
    "Tolerance",
    "check_tolerance",
    "settings_with",
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
Faults = Annotated[
    list[str] | None,
    typer.Option(
        "--fault",
        metavar="TEXT",
        help="Packet engine: what goes wrong at a time; may be repeated: 'link leaf-1:port-33 down "
        "at 100us for 50us', 'ecn leaf-2 off', 'receiver gpu-5 stuck at 1ms'.",
    ),
]
Seed = Annotated[int | None, typer.Option("--seed", min=0, help="Seed; default: the design's.")]
Strict = Annotated[bool, typer.Option("--strict", help="Warnings too end with exit code 1.")]
Engine = Annotated[
    EngineName,
    typer.Option(
        "--engine",
        help="Closed forms, each job without other traffic; max-min fair flows; or packet by "
        "packet.",
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


def settings_with(
    built: BuiltDesign, engine: EngineName, faults: list[str] | None
) -> PacketSettings | None:
    """Return the packet engine's settings with these faults; None where there are none.

    Raises:
        InputError: faults for another engine, or one that means nothing here.
    """
    if not faults:
        return None
    if engine is not EngineName.PACKET:
        raise InputError(
            f"--fault speaks of the packet engine, and --engine {engine.value} knows no time at "
            "which something breaks; add --engine packet, or take parts out with --fail"
        )
    from railweave.engine.fault_text import parse_fault

    found = tuple(parse_fault(text, built.fabric) for text in faults)
    return replace(built.packet_settings(), faults=found)


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
