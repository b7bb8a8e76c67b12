"""A journey as a JSON document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from railweave.transport.journey._tcp import TcpRun

if TYPE_CHECKING:
    from railweave.transport.journey import PacketJourney
    from railweave.transport.journey._hops import JourneyHop, JourneyWay

__all__ = ["MOST_LISTED", "journey_document", "shown_packet"]

_END: Final = ("source", "target")
#: packets that a document lists one by one; more are counted
MOST_LISTED: Final = 512


def _hop(hop: JourneyHop) -> dict[str, Any]:
    return {
        "from": hop.source,
        "to": hop.target,
        "medium": hop.medium,
        "port": hop.port,
        "port_in": hop.port_in,
        "device": hop.device,
        "rate_bps": hop.rate_bps,
        "propagation_s": hop.propagation_s,
        "device_s": hop.latency_s,
        "cut_through": hop.cut_through,
        "choices": hop.choices,
        "rewritten": hop.rewritten,
        "source_mac": hop.source_mac,
        "target_mac": hop.target_mac,
        "ttl": hop.ttl,
    }


def _way(way: JourneyWay) -> dict[str, Any]:
    return {
        "stages": way.stages(),
        "source_ip": way.source_ip,
        "target_ip": way.target_ip,
        "source_port": way.source_port,
        "target_port": way.target_port,
        "source_lid": way.source_lid,
        "target_lid": way.target_lid,
        "hash": way.hash_text,
        "bridged": way.bridged,
        "latency_s": way.latency_s,
        "hops": [_hop(hop) for hop in way.hops],
    }


def _packet(journey: PacketJourney, number: int) -> dict[str, Any]:
    times = journey.times
    direction = int(times.direction[number])
    hops = journey.ways[direction].hops
    marked, lost = int(times.marked_at[number]), int(times.lost_at[number])
    return {
        "number": number,
        "direction": ("there", "back")[direction],
        "name": journey.packet_name(number),
        "psn": journey.packets[number].bth.psn if journey.packets else None,
        "payload_bytes": int(journey.payload_bytes[number]),
        "wire_bytes": int(times.wire_bytes[number]),
        "sent_s": float(times.sent_s[number]),
        "landed_s": float(times.landed_s[number]),
        "marked_at": hops[marked].port if marked >= 0 else None,
        "lost_at": hops[lost].port if lost >= 0 else None,
    }


def shown_packet(journey: PacketJourney) -> int:
    """Return the packet whose hops are shown: the first with payload, else the first; −1: none."""
    if not len(journey.times):
        return -1
    mine = np.flatnonzero(
        (journey.times.direction == journey.data_direction) & (journey.payload_bytes > 0)
    )
    return int(mine[0]) if mine.size else 0


def journey_document(journey: PacketJourney, packet: int | None = None) -> dict[str, Any]:
    """Return the journey as a document; at most 512 packets are listed one by one.

    Args:
        journey: what to write down.
        packet: whose hops; None is the first with payload.

    Raises:
        InputError: no such packet.
    """
    shown = shown_packet(journey) if packet is None else packet
    listed = 0 if journey.inside else min(len(journey.times), MOST_LISTED)
    return {
        **_what(journey),
        "there": _way(journey.ways[0]),
        "back": _way(journey.ways[1]),
        **_totals(journey),
        "congestion": _congestion(journey),
        "shown_packet": shown,
        "hop_times": _hop_times(journey, shown) if shown >= 0 else [],
        "completions": _completions(journey),
        "events": [
            {
                "time_s": event.time_s,
                "end": _END[event.host],
                "actor": event.actor.value,
                "part": event.part.value,
                "step": event.phase.value,
                "what": event.what,
                "packet": event.packet,
            }
            for event in journey.events
        ],
        "packet_list": [_packet(journey, number) for number in range(listed)],
        "notes": list(journey.notes),
    }


def _what(journey: PacketJourney) -> dict[str, Any]:
    case, operation = journey.case, journey.case.operation
    return {
        "title": journey.title,
        "operation": operation.operation.value,
        "fault": operation.fault.value,
        "size_bytes": operation.size_bytes,
        "mtu_bytes": case.mtu_bytes,
        "plane": case.plane.name.lower(),
        "transport": journey.transport.value,
        "ip_version": case.ip_version,
        "source": journey.ends.source_name,
        "target": journey.ends.target_name,
        "queue_pairs": list(journey.queue_pairs),
        "inside": journey.inside,
    }


def _totals(journey: PacketJourney) -> dict[str, Any]:
    times = journey.times
    return {
        "posted_s": journey.posted_s,
        "delivered_s": journey.delivered_s,
        "completed_s": journey.completed_s,
        "packets": 0 if journey.inside else len(times),
        "wire_bytes": [int(times.wire_bytes[times.direction == d].sum()) for d in (0, 1)],
        "marked": int(np.sum(times.marked_at >= 0)),
        "lost": int(np.sum(times.lost_at >= 0)),
    }


def _congestion(journey: PacketJourney) -> dict[str, Any] | None:
    there = journey.congestion
    if there is None:
        return None
    return {
        "port": there.name,
        "queue_bytes": there.queue_bytes,
        "kmin_bytes": there.thresholds.kmin_bytes,
        "kmax_bytes": there.thresholds.kmax_bytes,
        "pmax": there.thresholds.pmax,
        "probability": there.probability,
    }


def _hop_times(journey: PacketJourney, packet: int) -> list[dict[str, Any]]:
    return [
        {
            "from": time.hop.source,
            "to": time.hop.target,
            "begin_s": time.begin_s,
            "queueing_s": time.queueing_s,
            "behind_own_s": time.behind_own_s,
            "serialisation_s": time.serialisation_s,
            "propagation_s": time.propagation_s,
            "device_s": time.device_s,
            "total_s": time.total_s,
        }
        for time in journey.hop_times(packet)
    ]


def _completions(journey: PacketJourney) -> list[dict[str, Any]]:
    run = journey.run
    if run is None or isinstance(run, TcpRun):
        return []
    return [
        {
            "time_s": done.time_s,
            "end": _END[done.host],
            "status": done.status.name,
            "opcode": done.opcode.value,
            "bytes": done.byte_length,
        }
        for done in run.completions
    ]
