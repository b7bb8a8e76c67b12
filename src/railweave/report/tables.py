"""Tables of a build: counts, capacity, cuts, paths, failure domains, power and cables."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from railweave.fabric.summary import BuildSummary, PlaneSummary
from railweave.report.page_table import DASH, PageTable, ratio
from railweave.units import counted, format_bits_rate, format_si

__all__ = [
    "cable_table",
    "capacity_tables",
    "counts_table",
    "cuts_table",
    "domains_table",
    "path_table",
    "plane_tables",
    "power_table",
]

_TIERS = ("leaf", "spine", "core", "switch")
_PLACES = ("host-leaf", "leaf-spine", "spine-core", "switch-switch")


def plane_tables(summary: BuildSummary) -> tuple[PageTable, ...]:
    """Return the tables of a build that say something about it, in reading order."""
    tables = (
        counts_table(summary),
        *capacity_tables(summary),
        cuts_table(summary),
        path_table(summary),
        domains_table(summary),
        power_table(summary),
        cable_table(summary),
    )
    return tuple(table for table in tables if table.rows)


def counts_table(summary: BuildSummary) -> PageTable:
    """Return what there is, one column a plane."""
    rows: list[tuple[str, tuple[str, ...]]] = []

    def add(name: str, value: Callable[[PlaneSummary], object]) -> None:
        cells = tuple(_cell(value(plane)) for plane in summary.planes)
        if any(cell != DASH for cell in cells):
            rows.append((name, cells))

    add("topology", lambda plane: plane.topology)
    add("transport", lambda plane: plane.transport)
    add("NICs", lambda plane: plane.counts.nics)
    add("storage servers", lambda plane: plane.counts.storage_servers)
    add("other hosts", lambda plane: plane.counts.extra_hosts)
    for tier in _TIERS:
        add(_plural(tier), partial(_switches, tier))
    for place in _PLACES:
        add(f"{place} cables", partial(_cables, place))
        add(f"{place} links", partial(_other_links, place))
    add("host capacity", lambda plane: format_bits_rate(plane.capacity.host_bps))
    add("payload of it", lambda plane: format_bits_rate(plane.capacity.effective_host_bps))
    add("bisection, one way", lambda plane: format_bits_rate(plane.capacity.bisection_bps))
    add("equal-cost paths", lambda plane: plane.capacity.ecmp_paths)
    add("diameter, links", lambda plane: plane.paths.diameter)
    counts = summary.backend.counts
    return PageTable(
        "counts",
        f"{summary.name}: {counted(counts.servers, 'server')}, {counted(counts.gpus, 'GPU')}",
        ("", *(plane.plane for plane in summary.planes)),
        tuple((name, *cells) for name, cells in rows),
        tuple(_count_notes(summary)),
    )


def _cell(value: object) -> str:
    if isinstance(value, int | float):
        return f"{value:,.0f}" if value else DASH
    return str(value)


def _plural(tier: str) -> str:
    return {"leaf": "leaves", "switch": "switches"}.get(tier, f"{tier}s")


def _switches(tier: str, plane: PlaneSummary) -> int:
    return dict(plane.counts.switches).get(tier, 0)


def _cables(place: str, plane: PlaneSummary) -> int:
    return dict(plane.cables).get(place, 0)


def _other_links(place: str, plane: PlaneSummary) -> int:
    """Return the links of a place where they are not as many as its cables."""
    number = dict(plane.links).get(place, 0)
    return 0 if number == _cables(place, plane) else number


def _count_notes(summary: BuildSummary) -> list[str]:
    notes = [f"{plane} shares the network of {carrier}." for plane, carrier in summary.shares]
    steps = [
        f"{step.topology} to {step.max_gpus:,} GPUs{'' if step.enough else ' (too few)'}"
        for step in summary.backend.growth
    ]
    if steps:
        notes.append(f"With these switches the back-end goes: {'; '.join(steps)}.")
    if any(plane.counts.extra_hosts or plane.counts.storage_servers for plane in summary.planes):
        notes.append(
            "Host capacity counts all ports of hosts, also those of storage servers and of other "
            "hosts (such as UFM)."
        )
    return notes


def capacity_tables(summary: BuildSummary) -> tuple[PageTable, ...]:
    """Return the capacity by tier of every plane."""
    return tuple(_capacity_table(plane) for plane in summary.planes if plane.capacity.tiers)


def _capacity_table(plane: PlaneSummary) -> PageTable:
    rows = tuple(
        (
            tier.tier,
            format_bits_rate(tier.down_bps),
            format_bits_rate(tier.up_bps) if tier.up_bps else DASH,
            ratio(tier.target),
            ratio(tier.oversubscription),
            ratio(tier.oversubscription_populated),
            format_bits_rate(tier.effective_down_bps),
        )
        for tier in plane.capacity.tiers
    )
    return PageTable(
        f"capacity-{plane.plane}",
        f"Capacity of the {plane.plane} by tier",
        ("tier", "down", "up", "target", "achieved", "populated", "payload down"),
        rows,
        _capacity_notes(plane),
        ("payload down", "populated"),
    )


def _capacity_notes(plane: PlaneSummary) -> tuple[str, ...]:
    """Say why leaves without spines have no way up; a star keeps no ports for one."""
    if [tier for tier, _ in plane.counts.switches] != ["leaf"] or plane.topology == "star":
        return ()
    return ("No spines are built: ports kept for uplinks are free, and no ratio is achieved.",)


def cuts_table(summary: BuildSummary) -> PageTable:
    """Return the halvings that count on the back-end, the worst marked; the others as a note."""
    found = summary.backend.capacity.bisection
    rows: tuple[tuple[str, ...], ...] = tuple(
        (
            f"{cut.name} (worst)" if cut.name == found.cut else cut.name,
            format_bits_rate(cut.bps),
            format_bits_rate(cut.full_bps),
            f"{cut.bps / cut.full_bps:.1%}" if cut.full_bps else DASH,
        )
        for cut in found.cuts
        if cut.counted
    )
    notes = ["Exact maximum flow, one direction; the worst of these halvings is the bisection."]
    if len(found.by_subplane) > 1:
        parts = ", ".join(
            f"{'ABCDEFGH'[i % 8]} {format_bits_rate(bps)}"
            for i, bps in enumerate(found.by_subplane)
        )
        notes.append(f"By parallel plane: {parts}.")
    uneven = [cut for cut in found.cuts if cut.counted and cut.as_half_bps != cut.bps]
    if uneven and found.bps:
        parts = ", ".join(f"{c.name} {format_bits_rate(c.as_half_bps)}" for c in uneven)
        notes.append(f"Uneven sides count as what their share is for half of the hosts: {parts}.")
    said = dict.fromkeys(cut.note for cut in found.cuts if not cut.counted)
    for note in said:
        left_out = [c for c in found.cuts if not c.counted and c.note == note]
        names = ", ".join(f"{cut.name} ({format_bits_rate(cut.bps)})" for cut in left_out)
        notes.append(f"Not counted: {names}; {note}." if note else f"Not counted: {names}.")
    if any(cut.name == found.cut and cut.note for cut in found.cuts):
        notes.append(
            "The fabric is in more pieces than when it is whole: what the halvings carry stays "
            "within the pieces."
        )
    header = ("halving", "carries", "hosts offer", "share")
    return PageTable("cuts", "Bisection of the backend", header, rows, tuple(notes))


def path_table(summary: BuildSummary) -> PageTable:
    """Return the ways up from each tier of every plane."""
    rows = tuple(
        (
            plane.plane,
            tier.tier,
            _span(tier.min_uplinks, tier.max_uplinks),
            _span(tier.min_neighbours, tier.max_neighbours),
        )
        for plane in summary.planes
        for tier in plane.paths.tiers
    )
    notes = []
    for plane in summary.planes:
        hops = [
            f"{pairs:,} at {hops}" if hops >= 0 else f"{pairs:,} with no path"
            for hops, pairs in plane.paths.hop_histogram
        ]
        if hops:
            notes.append(
                f"{plane.plane}: pairs of leaves by links between them: {', '.join(hops)}."
            )
    return PageTable(
        "paths",
        "Paths upwards",
        ("plane", "tier", "links up of a switch", "to switches"),
        rows,
        tuple(notes),
        (),
        ("tier",),
    )


def _span(least: int, most: int) -> str:
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def domains_table(summary: BuildSummary) -> PageTable:
    """Return the worst that one dead part of each kind costs the back-end."""
    left = summary.backend.capacity.bisection_bps > 0
    rows = tuple(
        (
            domain.kind,
            f"{domain.of:,}",
            f"{domain.servers_cut_off:,}",
            f"{domain.gpus_cut_off:,}",
            f"{domain.host_share_lost:.1%}",
            f"{domain.bisection_share_lost:.1%}" if left else DASH,
        )
        for domain in summary.backend.domains
    )
    notes = ["The worst part of each kind, on the backend; off means without their own NIC."]
    if any(domain.kind == "switch-rack" for domain in summary.backend.domains):
        notes.append("A rack has servers in it; a switch-rack holds switches only.")
    chance = summary.availability
    if chance is not None:
        asked = "" if chance.objective is None else f", asked {chance.objective:.4%}"
        notes.append(
            f"A server's connection is whole {chance.whole:.4%} of the time{asked}: "
            f"{chance.downtime_s_per_year / 3600:.3g} h a year it is not."
        )
    return PageTable(
        "domains",
        "Failure domains",
        ("one dead", "there are", "servers off", "GPUs off", "hosts lost", "bisection lost"),
        rows,
        tuple(notes),
    )


def power_table(summary: BuildSummary) -> PageTable:
    """Return the power of servers, and of each plane's switches and modules."""
    power = summary.power
    if power is None:
        return PageTable("power", "Power", (), ())
    rows = [("servers", format_si(power.servers_w, "W"), DASH, format_si(power.servers_w, "W"))]
    rows += [
        (
            plane.plane,
            format_si(plane.switches_w, "W"),
            format_si(plane.optics_w, "W"),
            format_si(plane.switches_w + plane.optics_w, "W"),
        )
        for plane in power.planes
    ]
    total = ("total", "", format_si(power.optics_w, "W"), format_si(power.total_w, "W"))
    worst = power.worst_rack
    notes = (
        ()
        if worst is None
        else (f"{len(power.racks):,} racks; the fullest draws {format_si(worst.total_w, 'W')}.",)
    )
    return PageTable(
        "power", "Power", ("what", "devices", "modules", "together"), (*rows, total), notes
    )


def cable_table(summary: BuildSummary) -> PageTable:
    """Return the cable bill: the chosen part of every length."""
    if summary.power is None:
        return PageTable("cables", "Cables and optics", (), ())
    rows = tuple(
        (
            line.plane,
            line.between,
            line.part or "none fits",
            line.kind,
            format_bits_rate(line.speed_bps),
            f"{line.length_m:g} m",
            f"{line.count:,}",
            f"{line.power_w:g} W",
        )
        for line in summary.power.cables
    )
    return PageTable(
        "cables",
        "Cables and optics",
        ("plane", "between", "part", "kind", "speed", "length", "cables", "power each"),
        rows,
        ("The catalog's cheapest part that reaches; power is of one cable, both ends.",),
        ("power each", "kind", "speed"),
        ("between", "part", "kind"),
    )
