"""From what was gathered of a capture to what is told of it."""

from __future__ import annotations

import ipaddress
import math
from collections import defaultdict, deque
from itertools import accumulate

from railweave.formats.pcap import CaptureReader
from railweave.transport.capture._answers import answers_to
from railweave.transport.capture._columns import IcrcState, Kind
from railweave.transport.capture._flows import MOST_FLOWS, NAK_REASONS, FlowKey
from railweave.transport.capture._messages import MessageColumns
from railweave.transport.capture._opcodes import OPERATION_NAMES, SERVICE_NAMES
from railweave.transport.capture._pairs import Pairing
from railweave.transport.capture._totals import CLASS_ROLES, Totals
from railweave.transport.capture._types import (
    CaptureStudy,
    ClassUse,
    KindSeen,
    MessageSeen,
    OperationSeen,
    QueuePairSeen,
    Step,
)
from railweave.transport.capture._watch import Watch

__all__ = ["address_text", "capture_study"]

_NUMBER = (1 << 24) - 1
_PLAIN = (
    "packets", "wire_bytes", "payload_bytes", "first_ns", "last_ns", "acknowledgements", "rnr",
    "cnps", "marked", "markable", "not_markable", "icrc_right", "icrc_wrong", "icrc_unchecked",
)  # fmt: skip
#: an atomic works on eight bytes, which stand in its headers
_ATOMICS, _ATOMIC_BYTES = {OPERATION_NAMES.index(name) for name in ("cas", "faa")}, 8
#: packets at the mean rate in the time over which a peak is told: one more or less is 1.6 %
_PEAK_PACKETS = 64
_READ, _RESPONSE = OPERATION_NAMES.index("read"), OPERATION_NAMES.index("read-response")


def address_text(kind: int, upper: int, lower: int) -> str:
    """Return an address as people write it: IPv4, IPv6 or GID, or a LID."""
    if kind == Kind.ROCEV2:
        return str(ipaddress.IPv4Address(lower))
    if kind == Kind.INFINIBAND:
        return f"LID {lower}"
    address = ipaddress.IPv6Address(upper << 64 | lower)
    return str(address.ipv4_mapped or address)


def capture_study(reader: CaptureReader, watch: Watch) -> CaptureStudy:
    """Return the explanation of a capture that was read to its end, without findings."""
    totals = watch.totals
    names = tuple(interface.name for interface in reader.interfaces)
    pairs = queue_pairs(watch, names)
    columns = watch.messages.finish(watch.sequences.strays)
    answers = answers_to(columns, pairs, watch.answers, watch.sequences)
    steps = _steps(totals)
    peak_bps, peak_s = _peak(pairs, steps, totals)
    return CaptureStudy(
        path=str(reader.path),
        format=reader.format,
        interfaces=tuple(reader.interfaces),
        packets=totals.packets,
        captured_bytes=totals.captured_bytes,
        wire_bytes=totals.wire_bytes,
        cut_packets=totals.cut,
        first_ns=max(0, totals.first_ns),
        last_ns=max(0, totals.last_ns),
        kinds=tuple(
            KindSeen(kind.text, int(totals.kinds[kind]), int(totals.kind_bytes[kind]))
            for kind in Kind
            if totals.kinds[kind]
        ),
        icrc_right=int(totals.icrc[IcrcState.RIGHT]),
        icrc_wrong=int(totals.icrc[IcrcState.WRONG]),
        icrc_unchecked=int(totals.icrc[IcrcState.UNCHECKED]),
        icrc_zero=totals.zero_icrc,
        queue_pairs=pairs,
        operations=tuple(
            OperationSeen(name, int(count), int(size))
            for name, count, size in zip(
                OPERATION_NAMES, watch.messages.counts, watch.messages.payload, strict=True
            )
            if count
        ),
        messages=messages_of(columns, pairs, answers),
        classes=_classes(totals),
        steps=steps,
        step_s=totals.timeline.width_ns / 1e9,
        peak_bps=peak_bps,
        peak_s=peak_s,
        refusals=tuple(sorted(totals.refusals, key=lambda fault: fault.number)),
        wrong_icrc=tuple(totals.wrong_icrc),
        notifications=tuple(totals.notifications),
        notes=(*reader.notes, *_notes(watch)),
    )


def queue_pairs(watch: Watch, interfaces: tuple[str, ...]) -> tuple[QueuePairSeen, ...]:
    """Return what was seen going to each queue pair, at each of the named interfaces."""
    joined = watch.pairs.settle()
    sums, state, keys = watch.flows.sums, watch.sequences.state, watch.flows.keys
    plain = {name: sums[name][: len(keys)].tolist() for name in _PLAIN}
    of_psn = {
        name: (state[name][0::2] + state[name][1::2]).tolist()
        for name in ("gaps", "missing", "late", "again", "repeated", "restarts")
    }
    found = []
    for number, key in enumerate(keys):
        reverse, pairing = joined.get(number, (None, Pairing.UNKNOWN))
        kind, interface, vlan = key[0] & 0xFF, key[0] >> 8 & 0xFFFF, key[0] >> 24
        service, naks = int(sums["service"][number]), sums["naks"][number].tolist()
        operations = sums["operations"][number].tolist()
        found.append(
            QueuePairSeen(
                number=number,
                interface=interface,
                place=_place(interface, interfaces),
                kind=Kind(kind).text,
                service=SERVICE_NAMES.get(service, "unknown" if service >= 0 else "CNP only"),
                vlan=vlan,
                source=address_text(kind, key[1], key[2]),
                target=address_text(kind, key[3], key[4]),
                source_qp=_source_qp(key, keys, reverse),
                target_qp=key[5] & _NUMBER,
                reverse=reverse,
                pairing=pairing,
                mtu_bytes=int(sums["mtu"][number]),
                dscp=int(sums["class"][number]),
                source_port=int(sums["port"][number]),
                operations={
                    name: n for name, n in zip(OPERATION_NAMES, operations, strict=True) if n
                },
                naks={reason: n for reason, n in zip(NAK_REASONS, naks, strict=True) if n},
                **{name: values[number] for name, values in plain.items()},
                **{name: values[number] for name, values in of_psn.items()},
                **{name: int(state[name][2 * number]) for name in ("retries", "stuck_ns")},
            )
        )
    return tuple(found)


def _place(interface: int, names: tuple[str, ...]) -> str:
    if len(names) < 2:
        return ""
    return names[interface] or f"interface {interface}"


def _source_qp(key: FlowKey, keys: list[FlowKey], reverse: int | None) -> int | None:
    stated = (key[5] >> 24) - 2
    if stated >= 0:
        return stated
    return None if reverse is None else keys[reverse][5] & _NUMBER


def messages_of(
    columns: MessageColumns, pairs: tuple[QueuePairSeen, ...], replies: list[str]
) -> tuple[MessageSeen, ...]:
    """Return the messages; a read and its response become one where both are known.

    ``replies`` says of each row what answered it.
    """
    whole = columns.whole.tolist()
    rows = list(
        zip(
            columns.stream.tolist(), columns.operation.tolist(), columns.number.tolist(),
            columns.psn.tolist(), columns.payload.tolist(), columns.declared.tolist(),
            columns.packets.tolist(), columns.again.tolist(), columns.begin_ns.tolist(),
            columns.end_ns.tolist(), whole, strict=True,
        )
    )  # fmt: skip
    responses: dict[tuple[int, int], deque[int]] = defaultdict(deque)
    for i, row in enumerate(rows):
        reverse = pairs[row[0] >> 1].reverse
        if row[1] == _RESPONSE and reverse is not None:
            responses[reverse, row[3]].append(i)
    used: set[int] = set()
    answers: dict[int, int] = {}
    for i, row in enumerate(rows):
        waiting = responses.get((row[0] >> 1, row[3])) if row[1] == _READ else None
        while waiting and rows[waiting[0]][8] < row[8]:
            waiting.popleft()
        if waiting:
            answers[i] = waiting.popleft()
            used.add(answers[i])
    found = []
    for i, row in enumerate(rows):
        if i in used:
            continue
        stream, operation, number, psn, size, declared, packets, again, begin, end, complete = row
        if i in answers:
            answer = rows[answers[i]]
            size, packets, again = answer[4], packets + answer[6], again + answer[7]
            end, complete = max(end, answer[9]), complete and answer[10]
        elif operation == _READ:
            size, complete = 0, False
        elif operation in _ATOMICS:
            size = _ATOMIC_BYTES
        found.append(
            MessageSeen(
                flow=stream >> 1,
                operation=OPERATION_NAMES[operation],
                packet=number,
                psn=psn,
                bytes=size,
                declared_bytes=None if declared < 0 else declared,
                packets=packets,
                again=again,
                begin_ns=begin,
                end_ns=end,
                complete=complete,
                answer=replies[i],
            )
        )
    return tuple(found)


def _classes(totals: Totals) -> tuple[ClassUse, ...]:
    found = []
    for row, role in enumerate(CLASS_ROLES):
        dscp, priority = totals.dscp[row].tolist(), totals.priority[row].tolist()
        found.append(
            ClassUse(
                role,
                {value: n for value, n in enumerate(dscp) if n},
                {value: n for value, n in enumerate(priority[:-1]) if n},
            )
        )
    return tuple(found)


def _steps(totals: Totals) -> tuple[Step, ...]:
    line = totals.timeline
    used = int((totals.last_ns - line.begin_ns) // line.width_ns) + 1 if totals.packets else 0
    return tuple(
        Step(i * line.width_ns / 1e9, *column)
        for i, column in enumerate(line.sums.T[:used].tolist())
    )


def _peak(
    pairs: tuple[QueuePairSeen, ...], steps: tuple[Step, ...], totals: Totals
) -> tuple[float, float]:
    """Return the most payload a second over some steps together, and their time.

    Whole packets fall into steps: in short ones a packet more is a rate that no link has.
    """
    packets = sum(p.packets - p.acknowledgements - p.cnps for p in pairs)
    span_ns, width_ns = totals.last_ns - totals.first_ns, totals.timeline.width_ns
    if not packets or not span_ns:
        return 0.0, 0.0
    together = max(1, math.ceil(_PEAK_PACKETS * span_ns / packets / width_ns))
    if 2 * together > len(steps):
        return 0.0, 0.0
    moved = [0, *accumulate(step.rdma_bytes for step in steps)]
    most = max(after - before for before, after in zip(moved, moved[together:], strict=False))
    seconds = together * width_ns / 1e9
    return 8 * most / seconds, seconds


def _notes(watch: Watch) -> list[str]:
    """Return sentences about what was not looked at."""
    notes, totals, messages = [], watch.totals, watch.messages
    if watch.flows.beyond:
        notes.append(
            f"{watch.flows.beyond:,} packets go to further queue pairs than the {MOST_FLOWS:,} "
            "that are told apart; they are counted only"
        )
    if int(messages.counts.sum()) > messages.kept:
        notes.append(
            f"{int(messages.counts.sum()):,} messages were seen, the first {messages.kept:,} that "
            "ended are kept one by one"
        )
    if watch.sequences.strays.beyond:
        notes.append(
            f"{watch.sequences.strays.beyond:,} packets that came late or again are not set "
            "against their messages"
        )
    if totals.unknown_opcodes:
        notes.append(
            f"{totals.unknown_opcodes:,} RDMA packets have an opcode that is not known here; they "
            "are counted only"
        )
    if totals.kinds[Kind.MALFORMED]:
        notes.append(
            f"{int(totals.kinds[Kind.MALFORMED]):,} packets call themselves RDMA, but their "
            "lengths contradict each other; they are counted only"
        )
    if totals.kinds[Kind.TCP]:
        notes.append("TCP is counted; its retransmissions and losses are not looked at")
    return notes
