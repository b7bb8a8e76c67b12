"""What ``railweave packet decode`` prints, in 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from railweave.cli._output import print_json, print_table, print_text
from railweave.report.page_table import DASH, PageTable

if TYPE_CHECKING:
    from railweave.findings import Finding
    from railweave.transport.capture import CaptureStudy, MessageSeen, PacketLine, PickedPacket
    from railweave.transport.codec import Frame, Layer

__all__ = ["show_list", "show_packet", "show_study"]

_WIDTH: Final = 80
_BARS: Final = "▁▂▃▄▅▆▇█"
_BAR_STEPS: Final = 60
_A_LINE: Final = 16
_MOST_SHOWN_BYTES: Final = 256
_NAME: Final = 13
_FCS: Final = 4
#: how a message's answer stands in the table; a refusal is a NAK
_ANSWERS: Final = {"acknowledged": "ACK", "none": "none", "receiver not ready": "RNR"}


def _fill(text: str, first: str = "", later: str = "") -> str:
    return textwrap.fill(
        text, _WIDTH, initial_indent=first, subsequent_indent=later, break_long_words=True
    )


def _fact(name: str, value: str) -> None:
    print_text(_fill(value, f"  {name:<{_NAME}} ", " " * (_NAME + 3)))


def show_study(study: CaptureStudy, most: int) -> None:
    """Print the explanation of a capture."""
    from railweave.units import format_bytes, format_seconds

    head = (
        f"{study.path}: {study.format.value}, {study.packets:,} packets, "
        f"{format_bytes(study.wire_bytes)} in {format_seconds(study.duration_s)}"
    )
    print_text(_fill(head), style="bold")
    for name, value in _facts(study):
        _fact(name, value)
    if study.queue_pairs:
        print_text("")
        print_table(_pair_table(study, most))
    if study.operations:
        print_text("")
        print_table(_message_table(study, most))
    print_text("")
    _tell_findings(study.findings)
    for note in study.notes:
        print_text(_fill(f"note: {note}", "", "  "), style="dim")


def _facts(study: CaptureStudy) -> Iterator[tuple[str, str]]:
    from railweave.units import format_bytes

    named = [i.name for i in study.interfaces if i.name]
    if len(study.interfaces) > 1 or named:
        yield "interfaces", f"{len(study.interfaces):,}: {', '.join(named[:8]) or 'not named'}"
    yield (
        "packets",
        ", ".join(f"{k.name} {k.packets:,} ({format_bytes(k.wire_bytes)})" for k in study.kinds),
    )
    if not study.rdma_packets:
        return
    yield "throughput", _throughput(study)
    yield (
        "ICRC",
        f"{study.icrc_right:,} right, {study.icrc_wrong:,} wrong, {study.icrc_unchecked:,} not "
        "captured whole",
    )
    mtus = sorted({p.mtu_bytes for p in study.queue_pairs if p.mtu_bytes})
    if mtus:
        yield "path MTU", ", ".join(f"{mtu:,} B" for mtu in mtus[:6])
    classes = [
        f"{use.role} {', '.join(f'DSCP {value}' for value in list(use.dscp)[:4])}"
        + "".join(f", priority {value}" for value in list(use.vlan_priority)[:4])
        for use in study.classes
        if use.dscp
    ]
    if classes:
        yield "classes", "; ".join(classes)
    marked = sum(p.marked for p in study.queue_pairs)
    told = sum(p.cnps for p in study.queue_pairs)
    yield "congestion", f"packets marked by ECN {marked:,}, CNPs {told:,}"


def _throughput(study: CaptureStudy) -> str:
    from railweave.units import format_bits_rate, format_seconds

    if study.duration_s <= 0:
        return "all at one time"
    steps = study.steps
    together = -(-len(steps) // _BAR_STEPS)
    sums = [
        sum(step.rdma_bytes for step in steps[i : i + together])
        for i in range(0, len(steps), together)
    ]
    highest, total = max(sums), sum(sums)
    text = f"mean {format_bits_rate(8 * total / study.duration_s)} of RDMA payload"
    if len({p.interface for p in study.queue_pairs}) > 1:
        text += " (all interfaces added up)"
    if study.peak_bps:
        most = format_bits_rate(study.peak_bps)
        text += f", most {most} over {format_seconds(study.peak_s)}"
    if not highest or len(sums) < 2:
        return text
    bars = "".join(_BARS[value * (len(_BARS) - 1) // highest] for value in sums)
    return f"{text}; a bar is {format_seconds(together * study.step_s)}: {bars}"


def _pair_table(study: CaptureStudy, most: int) -> PageTable:
    from railweave.units import format_bits_rate, format_bytes

    pairs = sorted(study.queue_pairs, key=lambda p: (-p.packets, p.number))[:most]
    several = any(p.place for p in pairs)
    rows = tuple(
        (
            str(p.number),
            p.title,
            *((p.place,) if several else ()),
            p.service,
            f"{p.packets:,}",
            format_bytes(p.payload_bytes) if p.payload_bytes else DASH,
            format_bits_rate(p.rate_bps) if p.rate_bps else DASH,
            _count(p.again),
            _count(p.unfilled),
            _count(sum(p.naks.values()) + p.rnr),
            _count(p.cnps),
        )
        for p in pairs
    )
    notes = ["again: seen again; gone: PSNs never seen; NAK: RNR too; one direction a line."]
    if len(pairs) < len(study.queue_pairs):
        notes.append(
            f"{len(study.queue_pairs) - len(pairs):,} further ones with fewer packets: --limit, "
            "--json or --qp show them."
        )
    place = ("at",) if several else ()
    counts = ("packets", "payload", "rate", "again", "gone", "NAK", "CNP")
    return PageTable(
        id="queue-pairs",
        title="Queue pairs",
        header=("#", "from → to", *place, "kind", *counts),
        rows=rows,
        notes=tuple(notes),
        optional=("rate", "kind"),
        text_columns=("from → to", "at", "kind"),
    )


def _count(number: int) -> str:
    return f"{number:,}" if number else DASH


def _message_table(study: CaptureStudy, most: int) -> PageTable:
    from railweave.transport.capture import time_digits
    from railweave.units import format_bytes, format_seconds

    digits = time_digits(study.interfaces)

    def row(message: MessageSeen) -> tuple[str, ...]:
        return (
            f"{(message.begin_ns - study.first_ns) / 1e9:.{digits}f}",
            str(message.flow),
            message.operation,
            format_bytes(message.bytes) if message.bytes else "0 B",
            format_seconds(message.duration_s) if message.duration_s else DASH,
            f"{message.packets:,}",
            _count(message.again),
            "yes" if message.complete else "no",
            _ANSWERS.get(message.answer, "NAK") if message.answer else DASH,
        )

    names = {operation.name for operation in study.operations}
    totals = ", ".join(
        f"{o.messages:,} {o.name}"
        for o in study.operations
        if o.name != "read-response" or "read" not in names
    )
    shown = study.messages[:most]
    more = len(study.messages) - len(shown)
    notes = ["all seen: each packet is in the capture; answer: what the responder said of it."]
    if more > 0:
        notes.append(f"{more:,} further ones: --limit or --json show them.")
    return PageTable(
        id="messages",
        title=f"Messages: {totals}",
        header=(
            "begin (s)",
            "#",
            "operation",
            "bytes",
            "took",
            "packets",
            "again",
            "all seen",
            "answer",
        ),
        rows=tuple(map(row, shown)),
        notes=tuple(notes),
        text_columns=("operation", "all seen", "answer"),
        optional=("took",),
    )


def _tell_findings(findings: Sequence[Finding]) -> None:
    from railweave.findings import Severity

    for finding in findings:
        print_text(f"{finding.severity.value} {finding.id}", style="bold")
        print_text(_fill(finding.message, "  ", "  "))
        for name, value in (("evidence", finding.evidence), ("fix", finding.fix)):
            if value:
                print_text(_fill(f"{name}: {value}", "  ", "    "))
    counts = [(s.value, sum(f.severity is s for f in findings)) for s in Severity]
    print_text(
        ", ".join(f"{n} {word}{'' if n == 1 or word == 'info' else 's'}" for word, n in counts)
    )


def show_list(file: Path, start: int, most: int, qp: int | None, *, json: bool) -> None:
    """Print packets, one a line."""
    from railweave.transport.capture import list_packets

    lines = list_packets(file, start=start, qp=qp)
    if json:
        print_json([asdict(line) for line in islice(lines, most)])
        return
    shown = 0
    for line in islice(lines, most):
        _tell_line(line)
        shown += 1
    more = next(lines, None)
    if more is not None:
        print_text(f"From packet {more.number:,} on there are more: --start {more.number} goes on.")
    elif not shown:
        print_text("No packet is listed.")


def _tell_line(line: PacketLine) -> None:
    ends = f"{line.source} → {line.target} " if line.source else ""
    width = 11 if line.time_digits <= 6 else line.time_digits + 3
    time = f"{line.time_s:>{width}.{line.time_digits}f}"
    text = f"{line.number:>7} {time} {ends}{line.info or line.kind}"
    if line.captured_bytes < line.wire_bytes:
        text += f", {line.captured_bytes:,} of {line.wire_bytes:,} bytes kept"
    print_text(_fill(text, "", " " * (width + 9)))


def show_packet(file: Path, number: int, *, json: bool) -> None:
    """Print one packet, header by header with its bytes."""
    from railweave.transport.capture import packet_at
    from railweave.transport.codec import decode

    picked = packet_at(file, number)
    packet = picked.packet
    frame = decode(packet.data, link=packet.link_type, fcs=picked.interface.fcs_bytes == _FCS)
    if json:
        print_json(_frame_json(frame, number, picked))
        return
    kept = len(packet.data)
    cut = f", {kept:,} of them kept" if kept < packet.original_bytes else ""
    head = f"packet {number:,} of {file}: {packet.original_bytes:,} bytes{cut}, "
    head += f"{picked.since_s:.9f} s after the first"
    print_text(_fill(head), style="bold")
    for name, said in (("interface", picked.interface.name), ("comment", packet.comment)):
        if said:
            print_text(_fill(f"{name}: {said}", "", "  "))
    for layer in frame.layers:
        _tell_layer(layer, packet.data)
    if frame.icrc is not None and frame.icrc.ok:
        print_text("The ICRC is right.")
    for problem in frame.problems:
        print_text(_fill(f"problem: {problem}", "", "  "))


def _tell_layer(layer: Layer, data: bytes) -> None:
    size = layer.end - layer.start
    print_text("")
    last = f" to {layer.end - 1}" if size > 1 else ""
    print_text(f"{layer.name}: {size:,} bytes, {layer.start}{last}", style="bold")
    shown = data[layer.start : layer.end][:_MOST_SHOWN_BYTES]
    for at in range(0, len(shown), _A_LINE):
        print_text(f"  {layer.start + at:04x}  {shown[at : at + _A_LINE].hex(' ')}")
    if size > len(shown):
        print_text(f"        … and {size - len(shown):,} bytes more")
    for field in layer.fields:
        value = f"{field.text}  {field.meaning}" if field.meaning else field.text
        lead = f"    {field.name:<22} "
        print_text(_fill(value, lead, " " * 27))


def _frame_json(frame: Frame, number: int, picked: PickedPacket) -> dict[str, Any]:
    def layer_json(layer: Layer) -> dict[str, Any]:
        fields = [
            {**asdict(f), "value": f.value.hex() if isinstance(f.value, bytes) else f.value}
            for f in layer.fields
        ]
        return {"name": layer.name, "start": layer.start, "end": layer.end, "fields": fields}

    icrc = frame.icrc
    return {
        "packet": number,
        "time_s": picked.since_s,
        "wire_bytes": picked.packet.original_bytes,
        "interface": picked.interface.name,
        "comment": picked.packet.comment,
        "data": frame.data.hex(),
        "layers": [layer_json(layer) for layer in frame.layers],
        "icrc": icrc and {"found": icrc.found, "expected": icrc.expected, "ok": icrc.ok},
        "problems": list(frame.problems),
    }
