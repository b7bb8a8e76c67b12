"""Lab 1's plane inspector: role, network in numbers, who shares it, traffic, findings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from railweave.design.models import Plane, Transport
from railweave.fabric import PlaneId
from railweave.fabric.availability import Availability, server_availability
from railweave.fabric.summary import BuildSummary, PlaneSummary, build_summary
from railweave.fabric.wire import encryption_on
from railweave.qos import scheme_of
from railweave.report.page_table import DASH, PageTable, ratio
from railweave.studio.designs import built_design, open_design
from railweave.studio.lab import Number
from railweave.studio.labs._architecture_map import PLANES, map_of
from railweave.studio.labs._architecture_scene import ALL
from railweave.transport.planes import PlaneSheet, describe_planes
from railweave.units import format_bits_rate, format_bytes, format_si

if TYPE_CHECKING:
    from railweave.findings import Finding
    from railweave.workload import PlaneBytes

__all__ = [
    "PlaneView",
    "findings_of",
    "plane_findings",
    "plane_view",
    "sheets_of",
    "summary_of",
    "traffic_table",
]

_ISOLATION: Final = {
    "none": "nothing keeps tenants apart",
    "vlan": "VLANs",
    "vrf": "VRFs",
    "vxlan-evpn": "VXLAN with EVPN",
    "pkey": "partition keys",
}
_TIERS: Final = {"leaf": "leaves", "spine": "spines", "core": "cores", "switch": "switches"}


@dataclass(frozen=True)
class PlaneView:
    """A plane's inspector: title, sentences, tables, tiles; for ``"all"`` of the whole design."""

    plane: str
    title: str
    sentences: tuple[str, ...]
    tables: tuple[PageTable, ...]
    numbers: tuple[Number, ...]


@lru_cache(maxsize=8)
def summary_of(text: str) -> BuildSummary:
    """Return a design's summary as ``railweave build`` has it, without what takes longest.

    That is failure domains, worked out for one component at a time, and availability.
    """
    built = built_design(text)
    return build_summary(
        built.built, built.design, built.document.catalog, domains=False, availability=False
    )


@lru_cache(maxsize=8)
def _availability_of(text: str) -> Availability | None:
    built = built_design(text)
    return server_availability(built.fabric, objective=built.design.objectives.availability)


@lru_cache(maxsize=8)
def findings_of(text: str) -> tuple[Finding, ...]:
    """Return what ``railweave check`` finds."""
    return built_design(text).check()


def plane_view(text: str, plane: str) -> PlaneView:
    """Describe one plane of a design, or all of them."""
    summary = summary_of(text)
    if plane == ALL:
        return _whole(text, summary)
    system = map_of(text)
    carrier = system.carrier.get(plane)
    title, sheet = f"{PLANES[plane].capitalize()} plane", sheets_of(text)[plane]
    if carrier is None:
        why = next((s for s in system.absent if PLANES[plane] in s), "")
        return PlaneView(plane, title, (*_role(sheet), why), (), ())
    facts = next(one for one in summary.planes if one.plane == carrier)
    return PlaneView(
        plane,
        title,
        (*_role(sheet), *sheet.here),
        (PageTable("plane", "As built", ("", title), tuple(_rows(text, plane, facts))),
         _tier_table(facts)),
        tuple(_numbers(facts)),
    )  # fmt: skip


# ---------------------------------------------------------------- words


@lru_cache(maxsize=8)
def sheets_of(text: str) -> dict[str, PlaneSheet]:
    """Return what ``railweave transport planes`` has of each plane, without the traffic."""
    sheets = describe_planes(built_design(text), system=map_of(text), traffic=False)
    return {sheet.plane: sheet for sheet in sheets}


def _role(sheet: PlaneSheet) -> tuple[str, ...]:
    """Say what a plane carries, whom lateness hurts, and what its design looks at first."""
    return (
        f"Carries {sheet.role.carries}.",
        f"When it is late, it hurts {sheet.role.late}.",
        f"First in its design: {sheet.role.priority}",
    )


# ---------------------------------------------------------------- tables


def _rows(text: str, plane: str, facts: PlaneSummary) -> Iterator[tuple[str, str]]:
    built, system = built_design(text), map_of(text)
    carrier = system.carrier[plane]
    own: Plane = getattr(built.design.planes, plane)
    net: Plane = getattr(built.design.planes, carrier)
    transport = Transport(facts.transport)
    yield "network", PLANES[carrier] if carrier != plane else "its own"
    yield "transport", facts.transport
    yield "topology", facts.topology
    kind = sheets_of(text)[plane].traffic_class
    yield "priority", kind.describe() if kind else DASH
    yield "congestion control", scheme_of(net.congestion, transport).value
    for tier, count in facts.counts.switches:
        yield _TIERS[tier], f"{count:,}"
    yield "NICs", f"{facts.counts.nics:,}"
    if facts.counts.storage_servers:
        yield "storage servers", f"{facts.counts.storage_servers:,}"
    if facts.counts.extra_hosts:
        yield "other hosts", f"{facts.counts.extra_hosts:,}"
    for bundle in system.bundles:
        if bundle.plane == carrier:
            ends = " – ".join(system.stations[e].label for e in (bundle.lower, bundle.upper))
            yield ends, bundle.rate
    for place, count in facts.cables:
        yield f"{place} cables", f"{count:,}"
    yield "host capacity", format_bits_rate(facts.capacity.host_bps)
    yield "payload of it", format_bits_rate(facts.capacity.effective_host_bps)
    yield "bisection, one way", format_bits_rate(facts.capacity.bisection_bps)
    yield "equal-cost paths", f"{facts.capacity.ecmp_paths:,.0f}"
    yield "diameter", f"{facts.paths.diameter} links"
    yield "isolation", _ISOLATION[own.isolation]
    network = built.built.network
    coded = encryption_on(built.design.planes, network, PlaneId[plane.upper()])
    wanted = " (the design requires it)" if own.encryption_required else ""
    yield "encryption", (", ".join(coded) or "none") + wanted
    power = summary_of(text).power
    drawn = next((p for p in power.planes if p.plane == carrier), None) if power else None
    if drawn is not None:
        yield "power of its switches", format_si(drawn.switches_w + drawn.optics_w, "W")


def _tier_table(facts: PlaneSummary) -> PageTable:
    rows = tuple(
        (
            tier.tier,
            format_bits_rate(tier.down_bps),
            format_bits_rate(tier.up_bps) if tier.up_bps else DASH,
            ratio(tier.oversubscription),
            ratio(tier.target),
        )
        for tier in facts.capacity.tiers
    )
    header = ("tier", "down", "up", "down : up", "asked")
    return PageTable("tiers", "Capacity by tier", header, rows)


def _numbers(facts: PlaneSummary) -> Iterator[Number]:
    counts, capacity = facts.counts, facts.capacity
    yield _count("nics", "NICs", counts.nics)
    for tier, number in counts.switches:
        key = _TIERS[tier]
        yield _count(key, key.capitalize(), number)
    yield _count("cables", "Cables", sum(number for _, number in facts.cables))
    yield _rate("host_bandwidth", "Host capacity", capacity.host_bps)
    yield _rate("bisection", "Bisection", capacity.bisection_bps)
    leaf = next((t for t in capacity.tiers if t.oversubscription is not None), None)
    if leaf is not None and leaf.oversubscription is not None:
        text = ratio(leaf.oversubscription)
        yield Number("oversubscription", f"Oversubscription, {leaf.tier}", text,
                     leaf.oversubscription)  # fmt: skip
    paths = capacity.ecmp_paths
    yield Number("ecmp_paths", "Equal-cost paths", f"{paths:,.0f}", paths)
    yield _count("diameter", "Diameter", facts.paths.diameter, " links")


def _count(key: str, label: str, value: int, unit: str = "") -> Number:
    return Number(key, label, f"{value:,}{unit}", float(value))


def _rate(key: str, label: str, value_bps: float) -> Number:
    return Number(key, label, format_bits_rate(value_bps), value_bps)


def _whole(text: str, summary: BuildSummary) -> PlaneView:
    """Describe the whole design: a row for each plane, and totals as tiles."""
    system, counts = map_of(text), summary.backend.counts
    by_name = {one.plane: one for one in summary.planes}
    rows = []
    for plane, name in PLANES.items():
        carrier = system.carrier.get(plane)
        if carrier is None:
            rows.append((name, "not described", DASH, DASH, DASH, DASH))
            continue
        one = by_name[carrier]
        switches = sum(number for _, number in one.counts.switches)
        rows.append((
            name,
            "its own" if carrier == plane else f"shares the {PLANES[carrier]}'s",
            f"{one.transport}, {one.topology}",
            f"{switches:,}",
            format_bits_rate(one.capacity.host_bps),
            format_bits_rate(one.capacity.bisection_bps),
        ))  # fmt: skip
    header = ("plane", "network", "transport, topology", "switches", "host capacity", "bisection")
    switches = sum(n for one in summary.planes for _, n in one.counts.switches)
    cables = sum(n for one in summary.planes for _, n in one.cables)
    numbers = [
        _count("planes", "Planes", len(system.carrier)),
        _count("servers", "GPU servers", counts.servers),
        _count("gpus", "GPUs", counts.gpus),
        _count("switches", "Switches", switches),
        _count("cables", "Cables", cables),
    ]
    if summary.power is not None:
        power = summary.power.total_w
        numbers.append(Number("power", "Power", f"{power / 1e3:,.1f} kW", power))
    availability = _availability_of(text)
    if availability is not None:
        whole = availability.whole
        numbers.append(Number("availability", "Availability", f"{whole:.4%}", whole))
    shared = [
        f"{PLANES[plane].capitalize()} traffic shares the {PLANES[carrier]} network."
        for plane, carrier in summary.shares
    ]
    said = (f"{len(system.carrier)} planes on {len(summary.planes)} networks.", *shared)
    table = PageTable("planes", "The planes side by side", header, tuple(rows))
    return PlaneView(ALL, "The whole design", (*said, *system.absent), (table,), tuple(numbers))


# ---------------------------------------------------------------- traffic and findings


@lru_cache(maxsize=8)
def _bytes_of(text: str) -> tuple[PlaneBytes, ...]:
    from railweave.workload import bytes_by_plane

    return bytes_by_plane(built_design(text).workload().traffic)


def traffic_table(text: str, plane: str) -> PageTable:
    """Return what the design's jobs and other traffic send, as traffic of a plane or of all."""
    system, design = map_of(text), built_design(text).design
    carrier = system.carrier.get(plane)
    shown = [
        part for part in _bytes_of(text)
        if plane == ALL or system.carrier.get(part.plane.name.lower()) == carrier
    ]  # fmt: skip
    kinds = {job.name: "job" for job in design.jobs}
    kinds |= {one.name: "background" for one in design.background}
    kinds |= {one.name: "storage" for one in design.storage_traffic}
    rows = tuple(
        (
            part.name,
            kinds.get(part.name, ""),
            PLANES[part.plane.name.lower()],
            format_bytes(part.size_bytes),
            f"{part.streams:,}",
        )
        for part in shown
    )
    notes = ["Payload in the simulated time, what stays inside servers included."]
    if not rows:
        notes = ["None of the design's jobs, background or storage entries sends anything here."]
    header = ("what", "kind", "traffic of", "sends", "streams")
    return PageTable("traffic", "Traffic of the design", header, rows, tuple(notes))


def plane_findings(text: str, plane: str) -> PageTable:
    """Return the findings of ``railweave check`` that concern a plane, or all.

    A finding concerns a plane if it stands at the plane's lines of the design, or if it names it.
    """
    chosen = [one for one in findings_of(text) if plane == ALL or _concerns(text, one, plane)]
    rows = tuple((one.severity.value, one.id, one.message, one.fix or DASH) for one in chosen)
    notes = () if rows else ("railweave check finds nothing to say of it.",)
    return PageTable(
        "findings",
        f"Findings ({len(rows)})",
        ("severity", "finding", "message", "fix"),
        rows,
        notes,
    )


def _concerns(text: str, finding: Finding, plane: str) -> bool:
    carrier = map_of(text).carrier.get(plane, plane)
    named = re.compile(rf"\b({plane}|{carrier}|{PLANES[plane]}|{PLANES[carrier]})\b")
    if named.search(finding.message):
        return True
    stands = re.fullmatch(r".*:(\d+):\d+", finding.path)
    if stands is None:
        return bool(re.match(rf"planes\.({plane}|{carrier})\b", finding.path))
    line = int(stands[1])
    return any(first <= line < end for first, end in _lines(text, {plane, carrier}))


def _lines(text: str, planes: set[str]) -> Iterator[tuple[int, int]]:
    """Yield the first line and the one after the last of each plane's text."""
    document = open_design(text).document
    places = [document.position(("planes", name))[0] for name in PLANES
              if getattr(document.design.planes, name) is not None]  # fmt: skip
    tops = [document.position((name,))[0] for name in type(document.design).model_fields]
    for name in planes:
        if getattr(document.design.planes, name) is not None:
            first = document.position(("planes", name))[0]
            later = [line for line in (*places, *tops) if line > first]
            yield first, min(later, default=1 << 30)
