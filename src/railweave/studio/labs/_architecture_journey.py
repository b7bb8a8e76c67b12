"""Lab 1's journeys: a view on :mod:`railweave.transport.planes.journeys`, kept for all pages."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from railweave.errors import InputError
from railweave.report.page_table import PageTable
from railweave.report.plane_journeys import (
    basis_table,
    journey_trace,
    measured_table,
    protocol_table,
    stated_table,
    time_table,
    way_table,
)
from railweave.studio.designs import built_design, routing_of
from railweave.studio.lab import TraceRow
from railweave.studio.labs._architecture_map import map_of
from railweave.studio.scene import Flight
from railweave.transport.planes.effects import JourneyStudy, stated_effects, study_journey
from railweave.transport.planes.journeys import (
    JOURNEYS as KINDS,
)
from railweave.transport.planes.journeys import (
    JourneyKind,
    PlaneJourney,
    plane_journey,
    suggested_ends,
)

__all__ = [
    "BETWEEN",
    "JOURNEYS",
    "PlaneJourney",
    "ends_of",
    "ends_problem",
    "journey_of",
    "measured_tables",
    "motion",
    "quick_tables",
    "study_of",
    "trace_rows",
]

#: what can travel → what the reader sees
JOURNEYS: Final[Mapping[str, str]] = {kind.value: title for kind, title in KINDS.items()}
#: what stands between the two names of a journey's ends in the page's address
BETWEEN: Final = ">"


def ends_of(text: str, key: str, chosen: str) -> dict[str, str]:
    """Return the ends that can be chosen for a journey, by what the address says of them."""
    way = journey_of(text, key, "")
    first = " to ".join(way.ends) if way.ends[0] else ""
    found = {"": f"as the design suggests: {first}" if first else "as the design suggests"}
    for said, source, target in suggested_ends(
        built_design(text), JourneyKind(key), system=map_of(text)
    ):
        if (source, target) != way.ends:
            found[f"{source}{BETWEEN}{target}"] = f"{said}: {source} to {target}"
    if chosen not in found:
        found[chosen] = chosen.replace(BETWEEN, " to ")
    return found


def ends_problem(text: str, key: str, ends: str) -> str:
    """Say why there is no journey between two ends; "" where there can be one."""
    try:
        _journey(text, key, ends)
    except InputError as error:
        return f"ends: {error}; the design's own are used"
    return ""


def journey_of(text: str, key: str, ends: str = "") -> PlaneJourney:
    """Follow one packet through a design's fabric; ends that cannot be are left to the design.

    Args:
        text: of the design.
        key: of :data:`JOURNEYS`.
        ends: names of source and target with :data:`BETWEEN` between them; "" leaves them to the
            design.
    """
    try:
        return _journey(text, key, ends)
    except InputError:
        return _journey(text, key, "")


@lru_cache(maxsize=64)
def _journey(text: str, key: str, ends: str) -> PlaneJourney:
    source, _, target = ends.partition(BETWEEN)
    return plane_journey(
        built_design(text),
        JourneyKind(key),
        source=source,
        target=target,
        system=map_of(text),
        routing=routing_of(text),
    )


@lru_cache(maxsize=32)
def study_of(text: str, key: str, ends: str = "") -> JourneyStudy:
    """Return a journey with what breaks along it, measured; takes a second or several."""
    return study_journey(
        built_design(text),
        journey_of(text, key, ends),
        system=map_of(text),
        routing=routing_of(text),
    )


def quick_tables(text: str, journey: PlaneJourney) -> tuple[PageTable, ...]:
    """Return a journey's tables without what is measured: way, protocols, times, breaks, basis."""
    if not journey.hops:
        return ()
    stated = stated_effects(built_design(text), journey, system=map_of(text))
    return (
        way_table(journey),
        protocol_table(journey),
        time_table(journey),
        stated_table(stated),
        basis_table(journey),
    )


def measured_tables(text: str, key: str, ends: str) -> tuple[PageTable, ...]:
    """Return the times with what each hop's loss costs beside them, and the neighbours."""
    study = study_of(text, key, ends)
    if not study.journey.hops:
        return ()
    return time_table(study.journey, study.hops, study.exchange), measured_table(study.measured)


def trace_rows(journey: PlaneJourney) -> tuple[TraceRow, ...]:
    """Return when the packet leaves each device, and its arrival."""
    return tuple(TraceRow(*row) for row in journey_trace(journey))


def motion(
    journey: PlaneJourney,
) -> tuple[tuple[Flight, ...], tuple[tuple[float, str], ...], float]:
    """Return what moves on the map, the steps, and the end."""
    flights = tuple(
        Flight(
            hop.start_s,
            hop.end_s,
            hop.source_part,
            hop.target_part,
            "data",
            bytes=hop.size_bytes,
            role=journey.plane,
        )
        for hop in journey.hops
        if hop.source_part != hop.target_part
    )
    steps = tuple((time_s, f"{where}: {what}") for time_s, where, what in journey_trace(journey))
    return flights, steps, journey.time_s
