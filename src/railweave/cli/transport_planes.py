"""``railweave transport planes`` and ``journey``: what each plane is for, and ways through it."""

from __future__ import annotations

import textwrap
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from railweave.cli._options import DesignFile, Fail, Json
from railweave.cli._output import print_json, print_table, print_text

if TYPE_CHECKING:
    from railweave.transport.planes import PlaneSheet
    from railweave.transport.planes.effects import JourneyStudy

__all__ = ["register"]

_WIDTH: Final = 80


class KindName(StrEnum):
    """The kinds of :mod:`railweave.transport.planes.journeys`, without loading it at the start."""

    GRADIENT = "gradient"
    TENSOR = "tensor"
    EXPERT = "expert"
    CHECKPOINT = "checkpoint"
    DATASET = "dataset"
    REQUEST = "request"
    MANAGEMENT = "management"


def _tell_planes(sheets: tuple[PlaneSheet, ...]) -> None:
    from railweave.report.plane_journeys import component_table, plane_table
    from railweave.transport.planes.system_map import PLANES
    from railweave.units import format_bytes

    print_table(plane_table(sheets))
    for one in sheets:
        print_text("")
        print_text(f"{PLANES[one.plane].capitalize()} plane", style="bold")
        words = [f"Carries {one.role.carries}. When it is late, it hurts {one.role.late}.",
                 f"First in its design: {one.role.priority}", *one.here]  # fmt: skip
        if not one.network:
            words.append("The design does not describe it.")
        sent = [f"{part.name} {format_bytes(part.size_bytes)}" for part in one.traffic]
        if sent:
            inside = ", what stays within servers included" if one.plane == "backend" else ""
            words.append(f"The design sends for it{inside}: {', '.join(sent)}.")
        for word in words:
            print_text(textwrap.fill(word, _WIDTH))
        if one.components:
            print_table(component_table(one))


def _tell_journey(study: JourneyStudy, *, measured: bool) -> None:
    from railweave.report import plane_journeys as tables
    from railweave.transport.planes.journeys import JOURNEYS

    journey = study.journey
    print_text(JOURNEYS[journey.kind], style="bold")
    print_text(textwrap.fill(journey.sentence, _WIDTH))
    if journey.why:
        print_text(textwrap.fill(f"Between these ends: {journey.why}.", _WIDTH))
    for note in journey.notes:
        print_text(textwrap.fill(note, _WIDTH))
    if not journey.hops:
        return
    shown = [tables.way_table(journey), tables.protocol_table(journey), tables.time_table(journey),
             tables.stated_table(study.stated)]  # fmt: skip
    if measured:
        shown += [tables.hop_effect_table(journey, study.hops, study.exchange),
                  tables.measured_table(study.measured)]  # fmt: skip
    for table in (*shown, tables.basis_table(journey)):
        print_text("")
        print_table(table)


def register(group: typer.Typer) -> None:
    """Add the commands to the group."""

    @group.command()
    def planes(design: DesignFile, json: Json = False) -> None:
        """The four planes: what each carries, its parts and roles, and what comes first in it.

        Example: railweave transport planes cluster.yaml
        """
        from railweave.api import load
        from railweave.transport.planes import describe_planes

        built = load(design).build()
        sheets = describe_planes(built)
        if json:
            print_json({"name": built.design.name, "planes": [one.to_json() for one in sheets]})
            return
        _tell_planes(sheets)

    @group.command()
    def journey(  # noqa: PLR0917 - the options of a command
        kind: Annotated[KindName, typer.Argument(metavar="KIND", help="What travels.")],
        design: Annotated[Path, typer.Option("--design", help="Through this design's fabric.")],
        source: Annotated[
            str,
            typer.Option("--from", metavar="NODE", help="Where it begins; default: as jobs send."),
        ] = "",
        target: Annotated[
            str, typer.Option("--to", metavar="NODE", help="Where it ends; default: as jobs send.")
        ] = "",
        fail: Fail = None,
        quick: Annotated[
            bool, typer.Option("--quick", help="Leave out what the flow engine measures.")
        ] = False,
        json: Json = False,
    ) -> None:
        """One packet hop by hop: interfaces, protocols, parts of its time, and what breaks.

        Example: railweave transport journey gradient --design cluster.yaml --to node031/gpu3
        """
        from railweave.api import load
        from railweave.cli._progress import progress
        from railweave.transport.planes.effects import study_journey
        from railweave.transport.planes.journeys import JourneyKind, plane_journey

        built = load(design).build().fail(fail or ())
        way = plane_journey(built, JourneyKind(kind.value), source=source, target=target)
        with progress(quiet=json) as step:
            study = study_journey(built, way, measure=not quick, progress=step)
        if json:
            print_json(study.to_json())
            return
        _tell_journey(study, measured=not quick)
