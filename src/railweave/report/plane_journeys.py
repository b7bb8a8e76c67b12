"""Tables of :mod:`railweave.transport.planes` and of the journeys through them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from typing import Final

from railweave.report.page_table import DASH, PageTable, known, ratio
from railweave.transport.planes import PlaneSheet
from railweave.transport.planes.effects import (
    HopEffect,
    MeasuredEffect,
    StatedEffect,
)
from railweave.transport.planes.journeys import PART_NAMES, PlaneHop, PlaneJourney
from railweave.transport.planes.system_map import PLANES
from railweave.units import format_bits_rate, format_bytes, format_seconds

__all__ = [
    "basis_table",
    "component_table",
    "hop_effect_table",
    "journey_trace",
    "measured_table",
    "parts_sentence",
    "plane_table",
    "protocol_table",
    "stated_table",
    "time_table",
    "way_table",
]

_PART_SAID = {"nic": "adapter"}


def _time(value_s: float) -> str:
    return format_seconds(value_s) if value_s else DASH


def _times(value: float) -> str:
    return f"{value:.3g}×"


# ---------------------------------------------------------------- planes


def plane_table(sheets: Sequence[PlaneSheet]) -> PageTable:
    """Return one row for each plane: what it carries, on which network, and what comes first."""
    rows = []
    for one in sheets:
        if not one.network:
            rows.append((PLANES[one.plane], one.role.carries, "not described", DASH, DASH, DASH))
            continue
        own = "its own" if one.network == one.plane else f"the {PLANES[one.network]}'s"
        shared = f", with {' and '.join(PLANES[p] for p in one.sharing)}" if one.sharing else ""
        over = ", ".join(f"{ratio(value)} {tier}" for tier, value in one.ratios)
        said = one.traffic_class.describe() if one.traffic_class else DASH
        rows.append((
            PLANES[one.plane],
            one.role.carries,
            f"{own}{shared}",
            f"{one.transport}, {one.topology}",
            said,
            over or DASH,
        ))  # fmt: skip
    header = ("plane", "carries", "network", "transport, topology", "class", "down : up")
    return PageTable(
        "planes", "The four planes", header, tuple(rows),
        optional=("class", "down : up"), text_columns=header,
    )  # fmt: skip


def component_table(sheet: PlaneSheet) -> PageTable:
    """Return a plane's parts with their roles."""
    rows = tuple(
        (one.label, f"{one.count:,}" if one.count else DASH, one.role, _named(one.first, one.last),
         one.model or DASH)
        for one in sheet.components
    )  # fmt: skip
    header = ("component", "count", "role", "names", "model")
    return PageTable(
        f"components-{sheet.plane}", "Components", header, rows,
        optional=("model", "names"), text_columns=("component", "role", "names", "model"),
    )  # fmt: skip


def _named(first: str, last: str) -> str:
    return f"{first} to {last}" if first != last else first or DASH


# ---------------------------------------------------------------- a journey


_WAY: Final = ("", "from", "to", "over", "speed", "equal links")
_TIMES: Final = ("serialisation", "propagation", "switching", "adapter", "there at")
_EFFECTS: Final = ("at half speed", "lost")


def _way_row(hop: PlaneHop) -> tuple[str, ...]:
    return (
        f"{hop.number}",
        hop.port or hop.source,
        hop.port_in or hop.target,
        hop.place,
        format_bits_rate(hop.capacity_bps),
        f"{hop.choices:,}" if hop.choices > 1 else DASH,
    )


def _time_row(hop: PlaneHop) -> tuple[str, ...]:
    return (*(_time(hop.parts[name]) for name in PART_NAMES), format_seconds(hop.end_s))


def _effect_row(effect: HopEffect) -> tuple[str, ...]:
    lost = "cut off" if math.isinf(effect.lost_s) else known(effect.lost, _times)
    return (_times(effect.half), lost)


def _effect_note(exchange: str) -> str:
    return (
        f"At half speed and lost: time of {exchange} over its time alone, with this hop at half "
        "its speed, and without its link, by the flow engine. 1× says that something else binds."
    )


def way_table(journey: PlaneJourney) -> PageTable:
    """Return the interfaces and links of a journey."""
    rows = tuple(_way_row(hop) for hop in journey.hops)
    return PageTable(
        "way", "Hop by hop", _WAY, rows,
        optional=("equal links", "over"), text_columns=("from", "to", "over"),
    )  # fmt: skip


def protocol_table(journey: PlaneJourney) -> PageTable:
    """Return what is spoken, hops that speak the same together."""
    rows: list[tuple[str, str]] = []
    for protocol, hops in groupby(journey.hops, key=lambda hop: hop.protocol):
        numbers = [hop.number for hop in hops]
        last = f" to {numbers[-1]}" if len(numbers) > 1 else ""
        rows.append((f"{numbers[0]}{last}", protocol))
    return PageTable(
        "protocols", "What is spoken", ("hops", "headers, and what runs over them"), tuple(rows),
        text_columns=("headers, and what runs over them",),
    )  # fmt: skip


def time_table(
    journey: PlaneJourney, effects: Sequence[HopEffect] = (), exchange: str = ""
) -> PageTable:
    """Return the parts of each hop's time, and when its end may go on with the packet.

    With ``effects`` what an exchange takes with the hop slowed or gone stands beside them.
    """
    by_number = {one.number: one for one in effects}
    rows = tuple(
        (
            f"{hop.number}",
            hop.target,
            *_time_row(hop),
            *(_effect_row(by_number[hop.number]) if hop.number in by_number else ()),
        )
        for hop in journey.hops
    )
    notes = (parts_sentence(journey),) if journey.hops else ()
    return PageTable(
        "times", "Time, part by part", ("", "to", *_TIMES, *(_EFFECTS if effects else ())), rows,
        (*notes, _effect_note(exchange)) if effects else notes, text_columns=("to",),
    )  # fmt: skip


def hop_effect_table(
    journey: PlaneJourney, effects: Sequence[HopEffect], exchange: str
) -> PageTable:
    """Return what the exchange takes with each hop at half its speed, and without its link."""
    rows = tuple(
        (f"{one.number}", f"{hop.port or hop.source} to {hop.port_in or hop.target}",
         *_effect_row(one))
        for hop, one in zip(journey.hops, effects, strict=True)
    )  # fmt: skip
    notes = (_effect_note(exchange),)
    return PageTable(
        "hop-effects", "Each hop congested or lost, measured", ("", "link", *_EFFECTS), rows,
        notes, text_columns=("link",),
    )  # fmt: skip


def parts_sentence(journey: PlaneJourney) -> str:
    """Say what the parts of a journey's time add up to."""
    parts = journey.parts
    said = ", ".join(
        f"{_PART_SAID.get(name, name)} {format_seconds(parts[name])}"
        for name in PART_NAMES
        if parts[name]
    )
    return f"{format_seconds(journey.time_s)} in all: {said}."


def journey_trace(journey: PlaneJourney) -> tuple[tuple[float, str, str], ...]:
    """Return when the packet leaves each device, and its arrival: time in s, where, what."""
    rows = [(hop.start_s, hop.source, _says(hop)) for hop in journey.hops]
    if journey.hops:
        last = journey.hops[-1]
        rows.append((last.end_s, last.target, "arrives"))
    return tuple(rows)


def _says(hop: PlaneHop) -> str:
    by = f" by {hop.port.rpartition(':')[2]}" if hop.port else ""
    equal = f", one of {hop.choices:,} equal links" if hop.choices > 1 else ""
    speed = format_bits_rate(hop.capacity_bps)
    return f"to {hop.target}{by}, {hop.place} at {speed}{equal}; {hop.protocol}"


def stated_table(effects: Sequence[StatedEffect]) -> PageTable:
    """Return what breaks by what the design says."""
    rows = tuple((one.cause, one.where, one.effect) for one in effects)
    header = ("cause", "where", "what comes of it")
    return PageTable("breaks", "What breaks, by the design", header, rows, text_columns=header)


def measured_table(effects: Sequence[MeasuredEffect]) -> PageTable:
    """Return what the flow engine says of neighbours and of the other arrangement."""
    rows = tuple(
        (
            one.neighbour,
            "shared" if one.shared else "apart",
            one.arrangement,
            known(one.alone_s, format_seconds),
            known(one.together_s, format_seconds),
            "not measured" if one.problem else known(one.slowdown, _times),
        )
        for one in effects
    )
    exchanges = list(dict.fromkeys(one.exchange for one in effects if not one.problem))
    notes = [f"Alone and together are the times of: {'; '.join(exchanges)}."] if exchanges else []
    notes += [f"{one.arrangement}: {one.problem}" for one in effects if one.problem]
    if rows:
        notes.append("Flow engine: links are shared by max-min fair rates. Neighbours last longer "
                     "than the exchange alone.")  # fmt: skip
    else:
        notes.append("The design has nothing that could be its neighbour.")
    header = ("beside it", "network", "arrangement", "alone", "together", "slowdown")
    return PageTable(
        "neighbours", "Alone and beside others, measured", header, rows, tuple(notes),
        text_columns=("beside it", "network", "arrangement"),
    )  # fmt: skip


def basis_table(journey: PlaneJourney) -> PageTable:
    """Return where the times of a journey come from, and what is left out."""
    rows = tuple((one.subject, one.statement, one.certainty.value) for one in journey.basis)
    notes = [f"One packet: {format_bytes(journey.packet_bytes)}."] if journey.hops else []
    notes += [f"Protocols: {source}." for source in journey.sources]
    header = ("part", "where it comes from", "certainty")
    return PageTable(
        "basis", "Where the times come from", header, rows, tuple(notes), text_columns=header
    )
