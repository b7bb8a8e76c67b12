"""What ``railweave packet journey`` prints for people."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

import numpy as np

from railweave.cli._output import print_table, print_text
from railweave.report.page_table import DASH, PageTable, known
from railweave.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from railweave.transport.journey import PacketJourney
    from railweave.transport.verbs._types import VerbsEvent

__all__ = ["tell_capture", "tell_journey"]

_WIDTH: Final = 80
_ENDS: Final = ("source", "target")
_PROTOCOL: Final = {"rocev2": "RoCEv2", "infiniband": "InfiniBand", "tcp": "TCP"}


def tell_journey(journey: PacketJourney, packet: int | None, events: int) -> None:
    """Print a journey: ways, trace in steps, the hops of one packet, what each hop rewrites.

    Args:
        journey: what to print.
        packet: whose hops; None is the first with payload.
        events: most steps of a phase to print.
    """
    print_text(journey.title, style="bold")
    for name, value in _facts(journey):
        lines = textwrap.wrap(value, _WIDTH - 18, break_on_hyphens=False) or [""]
        print_text(f"  {name:<15} {lines[0]}")
        for line in lines[1:]:
            print_text(" " * 18 + line)
    _tell_events(journey, events)
    if len(journey.times):
        number = _shown(journey) if packet is None else packet
        print_text("")
        print_table(_hop_table(journey, number))
        if not journey.inside:
            print_text("")
            print_table(_header_table(journey, number))
    print_text("")
    for note in journey.notes:
        text = textwrap.fill(f"- {note}", _WIDTH, subsequent_indent="  ")
        print_text(text, style="dim")


def _shown(journey: PacketJourney) -> int:
    from railweave.transport.journey._document import shown_packet

    return shown_packet(journey)


def _facts(journey: PacketJourney) -> list[tuple[str, str]]:
    case, operation = journey.case, journey.case.operation
    plane = case.plane.name.lower()
    if journey.inside:
        return [
            ("plane", f"{plane}, but the ends share a server or scale-up domain: no packets"),
            ("way", journey.ways[journey.data_direction].stages()),
            ("delivered", format_seconds(journey.delivered_s)),
        ]
    kind = _PROTOCOL[journey.transport.value]
    over = "" if journey.transport.value == "infiniband" else f" over IPv{case.ip_version}"
    full = "a segment" if journey.transport.value == "tcp" else "path MTU"
    found = [("plane", f"{plane}: {kind}{over}, {full} {case.mtu_bytes:,} B")]
    if journey.transport.value == "tcp":
        found.append(("ports", f"{journey.ways[0].source_port} → {journey.ways[0].target_port}"))
    else:
        pairs = " → ".join(f"{number:#x}" for number in journey.queue_pairs)
        found.append(("queue pairs", f"{pairs} ({operation.service.name})"))
    for name, way in zip(("there", "back"), journey.ways, strict=True):
        found.append((name, way.stages()))
        if way.hash_text:
            found.append(("  hashed", way.hash_text))
        if way.source_lid:
            found.append(("  LIDs", f"{way.source_lid} → {way.target_lid}"))
    times = journey.times
    for direction, name in enumerate(("there", "back")):
        mine = times.direction == direction
        wire = format_bytes(float(times.wire_bytes[mine].sum()))
        found.append((f"packets {name}", f"{int(mine.sum()):,}, {wire} on the wire"))
    marked, lost = int(np.sum(times.marked_at >= 0)), int(np.sum(times.lost_at >= 0))
    if journey.congestion is not None:
        there = journey.congestion
        found.append(
            (
                "congested",
                f"{there.name}: {format_bytes(there.queue_bytes)} stand there (Kmin "
                f"{format_bytes(there.thresholds.kmin_bytes)}, Kmax "
                f"{format_bytes(there.thresholds.kmax_bytes)}, Pmax {there.thresholds.pmax:g}): "
                f"{_packets(marked)} marked",
            )
        )
    if lost:
        found.append(("lost", _packets(lost)))
    found += [
        ("first packet", f"ready at {known(journey.posted_s, format_seconds)}"),
        ("delivered", f"last byte in memory at {known(journey.delivered_s, format_seconds)}"),
        ("completed", f"the posting end knows at {known(journey.completed_s, format_seconds)}"),
    ]
    return found


def _packets(count: int) -> str:
    return f"{count:,} packet{'' if count == 1 else 's'}"


def _tell_events(journey: PacketJourney, most: int) -> None:
    phase = None
    mine: list[VerbsEvent] = []
    groups: list[tuple[str, list[VerbsEvent]]] = []
    for event in journey.events:
        if event.phase is not phase:
            phase, mine = event.phase, []
            groups.append((event.phase.value, mine))
        mine.append(event)
    for name, group in groups:
        print_text("")
        print_text(name, style="bold")
        first = group if len(group) <= most else group[: -(-most // 2)]
        last = [] if len(group) <= most else group[len(group) - most // 2 :]
        for event in first:
            _tell_event(event)
        if len(group) > most:
            left = len(group) - len(first) - len(last)
            print_text(f"{'…':>10}  {left:,} more steps (--events)")
        for event in last:
            _tell_event(event)


def _tell_event(event: VerbsEvent) -> None:
    packet = "" if event.packet is None else f" [{event.packet}]"
    head = f"{format_seconds(event.time_s):>10}  {_ENDS[event.host]} {event.actor.value:<11} "
    lines = textwrap.wrap(event.what + packet, _WIDTH - len(head), break_on_hyphens=False)
    print_text(head + (lines[0] if lines else ""))
    for line in lines[1:]:
        print_text(" " * len(head) + line)


def _hop_table(journey: PacketJourney, number: int) -> PageTable:
    hops = journey.hop_times(number)
    rows: list[tuple[str, ...]] = []

    def part(value: float) -> str:
        return format_seconds(value) if value else DASH

    for time in hops:
        switch = time.hop.is_switch
        rows.append(
            (
                time.hop.target,
                time.hop.medium,
                part(time.serialisation_s),
                part(time.propagation_s),
                part(time.device_s if switch else 0.0),
                part(0.0 if switch else time.device_s),
                part(time.queueing_s),
                part(time.behind_own_s),
                part(time.total_s),
            )
        )
    sums = [
        sum(time.serialisation_s for time in hops),
        sum(time.propagation_s for time in hops),
        sum(time.device_s for time in hops if time.hop.is_switch),
        sum(time.device_s for time in hops if not time.hop.is_switch),
        sum(time.queueing_s for time in hops),
        sum(time.behind_own_s for time in hops),
        sum(time.total_s for time in hops),
    ]
    rows.append(("all", "", *map(part, sums)))
    name = journey.packet_name(number)
    wire = int(journey.times.wire_bytes[number])
    lost = int(journey.times.lost_at[number])
    notes = ["Serialisation: until the device behind goes on; all of it at the last one."]
    if not sum(time.queueing_s for time in hops):
        notes.append("Queueing: none, no other traffic is there.")
    if lost >= 0:
        notes.append(f"Lost on the link from {hops[-1].hop.port}.")
    return PageTable(
        "hops",
        f"Hops of packet {number}: {name}, {wire:,} B on the wire",
        ("to", "over", "serialise", "propagate", "switch", "NIC", "queue", "own queue", "all"),
        tuple(rows),
        tuple(notes),
        optional=("own queue", "over"),
        text_columns=("over",),
    )


def _header_table(journey: PacketJourney, number: int) -> PageTable:
    direction = int(journey.times.direction[number])
    way = journey.ways[direction]
    marked = int(journey.times.marked_at[number])
    infiniband = journey.transport.value == "infiniband"
    rows: list[tuple[str, ...]] = []
    lost = int(journey.times.lost_at[number])
    for place in way.network:
        if 0 <= lost < place:
            break
        hop = way.hops[place]
        ce = 0 <= marked <= place
        if infiniband:
            lids = f"{way.source_lid} → {way.target_lid}"
            rows.append((hop.port, lids, "0", "1" if ce else "0", str(hop.choices)))
        else:
            rows.append(
                (
                    hop.port,
                    hop.source_mac,
                    hop.target_mac,
                    str(hop.ttl),
                    _ecn(journey, number, ce),
                    str(hop.choices),
                )
            )
    header: tuple[str, ...] = ("link from", "LIDs", "VL", "FECN", "choices")
    if not infiniband:
        header = ("link from", "source MAC", "target MAC", "TTL", "ECN", "choices")
    ends = f"{way.source_ip} → {way.target_ip}" if way.source_ip else ""
    return PageTable(
        "headers",
        f"Headers of packet {number} on each link",
        header,
        tuple(rows),
        (f"IP {ends}, from end to end.",) if ends else (),
        optional=("choices",),
        text_columns=("source MAC", "target MAC", "LIDs"),
    )


def _ecn(journey: PacketJourney, number: int, ce: bool) -> str:
    if ce:
        return "CE"
    name = journey.packet_name(number)
    plain = not journey.marks or name == "CNP"
    if journey.transport.value == "tcp":
        plain = plain or not journey.payload_bytes[number]
    return "–" if plain else "ECT(0)"


def tell_capture(count: int, ports: tuple[str, ...], name: str) -> None:
    """Say what was written."""
    where = ports[0] if len(ports) == 1 else f"{len(ports)} interfaces, {', '.join(ports)}"
    print_text(f"{_packets(count)} at {where} written to {name}")
