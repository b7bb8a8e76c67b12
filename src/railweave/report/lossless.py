"""Tables of PFC headroom and ECN thresholds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from railweave.report.page_table import DASH, PageTable
from railweave.units import format_bytes, format_si

if TYPE_CHECKING:
    from railweave.fabric.lossless import HeadroomReport, HeadroomRow, SwitchRoom
    from railweave.qos import Headroom

__all__ = ["lossless_tables", "term_table"]

#: more kinds of ports than this are cut down to the shortest and longest cables
_MOST_ROWS = 20


def lossless_tables(report: HeadroomReport) -> tuple[PageTable, ...]:
    """Return thresholds, terms of the rule and room in the buffer; none without lossless ports."""
    if not report.rows:
        return ()
    rows, notes = report.rows, tuple[str, ...]()
    if len(rows) > _MOST_ROWS:
        rows = _ends(rows)
        notes = (f"Shortest and longest cables only; --json has all {len(report.rows)} rows.",)
    return (_thresholds(rows, notes), _terms(rows), _rooms(report.rooms))


def _ends(rows: tuple[HeadroomRow, ...]) -> tuple[HeadroomRow, ...]:
    """Keep the shortest and the longest cable of every kind of port."""
    kinds: dict[tuple[str, str, float], list[HeadroomRow]] = {}
    for row in rows:
        kinds.setdefault((_place(row), row.model, row.headroom.speed_bps), []).append(row)
    ends = [(kind[0], kind[-1]) if len(kind) > 1 else (kind[0],) for kind in kinds.values()]
    return tuple(row for pair in ends for row in pair)


def term_table(rule: Headroom) -> PageTable:
    """Return one headroom, term by term."""
    rows = [(name, f"{size:,.0f}", how) for name, size, how in rule.terms() if size]
    rows += [
        ("xon", f"{rule.xon_bytes:,}", "reserved beside it"),
        ("size", f"{rule.size_bytes:,}", "xoff and xon; one MTU more at eight lanes"),
        ("xon offset", f"{rule.xon_offset_bytes:,}", "resumes that far below the threshold"),
    ]
    return PageTable(
        "headroom-terms",
        f"Headroom of {rule.asic} at {_rate(rule.speed_bps)}b/s and {rule.cable_m:g} m",
        ("term", "bytes", "how"),
        tuple(rows),
        _sources((rule,)),
        (),
        ("how",),
    )


def _rate(speed_bps: float) -> str:
    return format_si(speed_bps, "").strip()


def _place(row: HeadroomRow | SwitchRoom) -> str:
    return f"{row.plane} {row.tier}".strip() or row.model


def _thresholds(rows: tuple[HeadroomRow, ...], notes: tuple[str, ...]) -> PageTable:
    cells = []
    for row in rows:
        marks = row.ecn
        kmin, kmax = (marks.kmin_bytes, marks.kmax_bytes) if marks else (0, 0)
        cells.append(
            (
                _place(row),
                row.model,
                _rate(row.headroom.speed_bps),
                f"{row.headroom.cable_m:.4g} m",
                f"{row.ports}",
                f"{row.set_bytes:,}",
                f"{kmin / 1e3:,.0f} kB" if marks else DASH,
                f"{kmax / 1e3:,.0f} kB" if marks else DASH,
                f"{marks.pmax:.0%}" if marks else DASH,
                f"{row.switches}",
            )
        )
    return PageTable(
        "headroom",
        "Headroom of a lossless class, and ECN thresholds",
        (
            "port of",
            "switch",
            "b/s",
            "cable",
            "ports",
            "headroom",
            "Kmin",
            "Kmax",
            "Pmax",
            "switches",
        ),
        tuple(cells),
        ("ports: on the switch that has most of them; headroom in bytes.", *notes),
        ("switches", "switch", "Pmax"),
        ("switch",),
    )


def _terms(rows: tuple[HeadroomRow, ...]) -> PageTable:
    rules = {(r.headroom.asic, r.headroom.speed_bps, r.headroom.cable_m): r.headroom for r in rows}
    cells = tuple(
        (
            rule.asic,
            _rate(rule.speed_bps),
            f"{rule.cable_m:.4g} m",
            f"{rule.cable_bytes:,.0f}",
            f"{rule.peer_response_bytes:,.0f}",
            f"{rule.pipeline_bytes:,.0f}",
            f"{rule.propagation_bytes:,.0f}",
            f"{rule.cell_factor:.4g}",
            f"{rule.xoff_bytes:,}",
            f"{rule.xon_bytes:,}",
        )
        for rule in rules.values()
    )
    mtu = rows[0].headroom.mtu_bytes
    return PageTable(
        "headroom-rule",
        "The rule, in bytes",
        (
            "ASIC",
            "b/s",
            "length",
            "cable",
            "response",
            "pipeline",
            "sum",
            "factor",
            "xoff",
            "xon",
        ),
        cells,
        (
            f"sum: MTU {mtu:,} + cable + 819 (MAC and PHY) + response + pipeline;"
            " xoff: 1,024 + sum × factor, up to 1,024 B.",
            *_sources(rules.values()),
        ),
        ("xon", "pipeline"),
    )


def _sources(rules: Iterable[Headroom]) -> tuple[str, ...]:
    """Return where the figures come from, and what is to be said of them."""
    said: dict[str, None] = {}
    for rule in rules:
        said[f"{rule.asic}: {rule.source.title} ({rule.certainty.value})."] = None
        for note in rule.notes:
            said[f"{rule.asic}: {note}."] = None
    return tuple(said)


def _rooms(rooms: tuple[SwitchRoom, ...]) -> PageTable:
    cells = tuple(
        (
            _place(room),
            room.model,
            f"{room.ports} × {room.classes}",
            format_bytes(room.buffer_bytes),
            format_si(room.headroom_bytes, "B", 3),
            format_si(room.reserved_bytes, "B", 3),
            format_si(room.shared_bytes, "B", 3) if room.shared_bytes > 0 else "does not fit",
            format_si(room.pause_at_bytes, "B", 3) if room.shared_bytes > 0 else DASH,
        )
        for room in rooms
    )
    return PageTable(
        "headroom-room",
        "Room in the buffer",
        ("room of", "switch", "ports", "buffer", "headroom", "reserved", "shared", "pauses at"),
        cells,
        (
            "Of the switch with the most to set aside. ports: × lossless classes; pauses at: one"
            " class of one port, when no other holds anything.",
        ),
        ("reserved", "switch"),
        ("switch",),
    )
