"""What is at fault in a capture, as findings.

Errors say that something went wrong on the wire, warnings that something looks wrong or that the
capture misleads, infos what limits or explains the rest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Final

from railweave.findings import Finding, Severity
from railweave.transport.capture._types import CaptureStudy, ClassUse, QueuePairSeen

__all__ = ["CNP_DSCP", "ROCE_DSCP", "capture_findings"]

#: classes by convention: RoCE in priority 3, CNPs in queue 6
ROCE_DSCP: Final = 26
CNP_DSCP: Final = 48
_SEQUENCE: Final = "PSN sequence error"
_NAMED: Final = 3
#: of a flow's packets, when nearly each is seen twice, the capture sees them twice
_TWICE: Final = 0.45
#: copies for each NAK beyond which a capture sees twice; a NAK alone repeats what was on its way
_A_NAK: Final = 100
#: times that a requester began anew without getting on, from which its peer is silent
_SILENT: Final = 2
#: of all ICRCs, when nearly all are wrong, they are not those of the wire
_NEARLY_ALL: Final = 0.9
Pairs = tuple[QueuePairSeen, ...]


def _n(count: int, noun: str, several: str = "") -> str:
    """Return ``1 packet``, ``2 packets``."""
    return f"{count:,} {noun if count == 1 else several or noun + 's'}"


def _named(pairs: Iterable[QueuePairSeen], text: Callable[[QueuePairSeen], str]) -> str:
    """Return the first queue pairs with a text each, and how many more there are."""
    all_of = list(pairs)
    shown = "; ".join(f"{pair.named}: {text(pair)}" for pair in all_of[:_NAMED])
    more = len(all_of) - _NAMED
    return f"{shown}; and {_n(more, 'more queue pair')}" if more > 0 else shown


def _backs(study: CaptureStudy) -> Callable[[QueuePairSeen], Pairs]:
    """Return a function that gives the flows that may be the other direction of one."""
    by_hosts: dict[tuple[str, str], list[QueuePairSeen]] = defaultdict(list)
    for pair in study.queue_pairs:
        by_hosts[pair.source, pair.target].append(pair)

    def backs(pair: QueuePairSeen) -> Pairs:
        others = by_hosts.get((pair.target, pair.source), [])
        reverse = study.reverse_of(pair)
        if reverse is None:
            return tuple(p for p in others if p.reverse is None)
        return tuple(p for p in others if p.target_qp == reverse.target_qp)

    return backs


def _twice(study: CaptureStudy) -> set[int]:
    """Return queue pairs of which the capture sees nearly each packet twice."""
    backs, found = _backs(study), set()
    for pair in study.queue_pairs:
        data = pair.packets - pair.acknowledgements - pair.cnps
        if pair.repeated > _TWICE * data > 0:
            refused = sum(p.rnr + p.naks.get(_SEQUENCE, 0) for p in backs(pair))
            if pair.repeated > _A_NAK * refused:
                found.add(pair.number)
    return found


def _sent_again(pair: QueuePairSeen, twice: set[int]) -> int:
    """Return the packets that were sent again; copies are none where the capture sees twice."""
    return pair.again - (pair.repeated if pair.number in twice else 0)


def _waited(study: CaptureStudy) -> set[int]:
    """Return queue pairs that sent again because their receiver was not ready, and for no loss."""
    found = set()
    for pair in study.queue_pairs:
        back = study.reverse_of(pair)
        if back is None or not back.rnr or back.naks.get(_SEQUENCE):
            continue
        if pair.again and not pair.missing:
            found.add(pair.number)
    return found


def _lost_where(again: list[QueuePairSeen]) -> str:
    """Say on which side of the capture packets were lost, or between which of its places."""
    ways: dict[tuple[str, str, int], list[QueuePairSeen]] = defaultdict(list)
    for pair in sorted(again, key=lambda p: p.first_ns):
        ways[pair.source, pair.target, pair.target_qp].append(pair)
    for pairs in ways.values():
        for here, there in pairwise(pairs):
            if there.missing and not here.missing:
                return f"{_n(there.missing, 'PSN')} lost between {here.place} and {there.place}"
    missing = sum(p.missing for p in again)
    if missing:
        return f"{_n(missing, 'PSN')} missing here, so the loss was before this point"
    return (
        "no PSN was missing here, so packets or their acknowledgements were lost behind this point"
    )


def _once(pairs: Iterable[QueuePairSeen], count: Callable[[QueuePairSeen], int]) -> int:
    """Add up over senders; what several interfaces saw of one counts once, where most was seen."""
    most: dict[tuple[str, str, int], int] = defaultdict(int)
    for pair in pairs:
        way = (pair.source, pair.target, pair.target_qp)
        most[way] = max(most[way], count(pair))
    return sum(most.values())


def _loss(study: CaptureStudy) -> Iterator[Finding]:
    waited, twice = _waited(study), _twice(study)
    again = [p for p in study.queue_pairs if _sent_again(p, twice) > 0 and p.number not in waited]
    refused = [p for p in study.queue_pairs if p.naks.get(_SEQUENCE)]
    if not again and not refused:
        return
    count = _once(again, lambda p: _sent_again(p, twice))
    naks = _once(refused, lambda p: p.naks[_SEQUENCE])
    evidence = (
        _named(again, lambda p: f"{_sent_again(p, twice):,} again, {p.missing:,} missing"),
        _named(refused, lambda p: f"{_n(p.naks[_SEQUENCE], 'NAK')} came"),
    )
    yield Finding(
        "packet-loss-seen",
        Severity.ERROR,
        study.path,
        f"{_n(count, 'packet')} sent again, {_n(naks, 'NAK')} for a PSN sequence error: "
        f"{_lost_where(again)}",
        "; ".join(text for text in evidence if text),
        "find where the packets are dropped: discards at switches and adapters, PFC for their "
        "class on every hop, cables with errors",
    )


def _silent(study: CaptureStudy) -> Iterator[Finding]:
    backs = _backs(study)
    silent = [
        p
        for p in study.queue_pairs
        if p.service in {"RC", "XRC"}
        and p.retries >= _SILENT
        and not any(back.last_ns >= p.stuck_ns for back in backs(p))
    ]
    if not silent:
        return
    heard: dict[str, int] = defaultdict(int)
    for pair in study.queue_pairs:
        heard[pair.source] = max(heard[pair.source], pair.last_ns)
    senders = len({(p.source, p.target, p.target_qp) for p in silent})  # at whatever interfaces
    alive = [p for p in silent if heard[p.target] >= p.stuck_ns]
    before = [p for p in silent if p not in alive and backs(p)]
    if alive:
        why = (
            "the host still sends to others, so its queue pair is gone or in the wrong state, or "
            "the path between these two is lost"
        )
    elif before:
        why = "it had answered before, then it died or the path to it or back was lost"
    else:
        why = (
            "nothing of it is in the capture: it is dead or the path to it or back is lost, for "
            "with answers that only were not captured the sender would have got on"
        )
    yield Finding(
        "peer-silent",
        Severity.ERROR,
        study.path,
        f"{_n(senders, 'sender')} began anew up to {max(p.retries for p in silent):,} times "
        f"and got no answer to the end of the capture: {why}",
        _named(silent, lambda p: f"{_n(p.retries, 'retry', 'retries')} in {_since(p)}"),
        "see whether the peer and its port are up, its queue pair is ready to receive with this "
        "number, and routes and filters (UDP 4791) let packets through both ways; the sender "
        "ends with the status retry exceeded",
    )


def _since(pair: QueuePairSeen) -> str:
    from railweave.units import format_seconds

    return format_seconds((pair.last_ns - pair.stuck_ns) / 1e9)


def _order(study: CaptureStudy) -> Iterator[Finding]:
    numbers = _twice(study)
    twice = [p for p in study.queue_pairs if p.number in numbers]
    if twice:
        yield Finding(
            "capture-sees-twice",
            Severity.WARNING,
            study.path,
            "nearly every packet is there twice, the same bytes within 100 us: the capture sees "
            "it at two places",
            _named(twice, lambda p: f"{p.repeated:,} of {p.packets:,} packets again"),
            "capture at one port or mirror one direction, or give each place an interface of its "
            "own (pcapng)",
        )
    late = [p for p in study.queue_pairs if p.late and not p.again and not p.naks.get(_SEQUENCE)]
    if late:
        yield Finding(
            "packets-out-of-order",
            Severity.INFO,
            study.path,
            f"{_n(sum(p.late for p in late), 'packet')} came late and none again, as where "
            "adaptive routing or packet spraying sends packets along several paths",
            _named(late, lambda p: f"{p.late:,} late"),
            "adapters must put packets in order there; where no such routing is meant, look for it",
        )
    unfilled = [p for p in study.queue_pairs if p.unfilled]
    if unfilled:
        yield Finding(
            "capture-incomplete",
            Severity.WARNING,
            study.path,
            f"{_n(sum(p.unfilled for p in unfilled), 'PSN')} never seen: where the connection "
            "went on, the capture missed them, not the receiver",
            _named(unfilled, lambda p: f"{p.unfilled:,} of {p.packets + p.unfilled:,}"),
            "capture with more buffer, a shorter snap length, or in hardware",
        )


_REMEDY: Final = {
    "invalid request": (
        "an invalid request is a SEND longer than the posted receive, a WRITE or READ longer than "
        "the responder takes, an operation that its queue pair does not allow, too many READs at "
        "a time, or an atomic whose address is no multiple of eight: compare what was sent with "
        "what was posted and agreed"
    ),
    "remote access error": (
        "compare the request's address, length and rkey (decode the packet before it) with what "
        "the responder registered and allows"
    ),
}
_OTHER_REMEDY: Final = "see the responder's log and the state of its queue pair and adapter"


def _time(since_ns: int) -> str:
    """Return seconds with six digits, or nine where six do not tell it."""
    return f"{since_ns / 1e9:.{6 if since_ns % 1000 == 0 else 9}f}"


def _refusals(study: CaptureStudy) -> Iterator[Finding]:
    fatal: dict[str, int] = defaultdict(int)
    for pair in study.queue_pairs:
        for reason, count in pair.naks.items():
            if reason != _SEQUENCE:
                fatal[reason] += count
    first = "; ".join(
        f"packet {fault.number:,} at {_time(fault.time_ns - study.first_ns)} s: {fault.what}"
        for fault in [f for f in study.refusals if any(f.what.endswith(r) for r in fatal)][:_NAMED]
    )
    if fatal:
        said = ", ".join(f"{count:,} × {reason}" for reason, count in fatal.items())
        yield Finding(
            "qp-error",
            Severity.ERROR,
            study.path,
            f"responders refused requests for good ({said}): the queue pair goes to its error "
            "state and its other work is flushed",
            first,
            "; ".join(dict.fromkeys(_REMEDY.get(reason, _OTHER_REMEDY) for reason in fatal)),
        )
    waiting = [p for p in study.queue_pairs if p.rnr]
    if waiting:
        numbers = _waited(study)
        again = sum(p.again for p in study.queue_pairs if p.number in numbers)
        resent = f"; {_n(again, 'packet')} sent again for it" if again else ""
        yield Finding(
            "rnr",
            Severity.WARNING,
            study.path,
            f"{_n(sum(p.rnr for p in waiting), 'time')} a receiver was not ready: it had posted no "
            f"receive for a message{resent}",
            _named(waiting, lambda p: f"{_n(p.rnr, 'RNR NAK')} came"),
            "post more receives before the sender starts; see what keeps the receiver's host busy",
        )


def _icrc(study: CaptureStudy) -> Iterator[Finding]:
    checked = study.icrc_right + study.icrc_wrong
    if study.icrc_wrong > _NEARLY_ALL * checked:
        zero = " (nearly all are zero)" if study.icrc_zero > _NEARLY_ALL * study.icrc_wrong else ""
        yield Finding(
            "icrc-not-of-the-wire",
            Severity.WARNING,
            study.path,
            f"{study.icrc_wrong:,} of {_n(checked, 'ICRC')} wrong{zero}: the capture was taken "
            "where the adapter has not filled it in yet, or something rewrote the packets",
            "; ".join(f"packet {f.number:,}: {f.what}" for f in study.wrong_icrc[:_NAMED]),
            "capture on the wire or at a switch's mirror port to judge the ICRC",
        )
    elif study.icrc_wrong:
        bad = [p for p in study.queue_pairs if p.icrc_wrong]
        yield Finding(
            "wrong-icrc",
            Severity.ERROR,
            study.path,
            f"{study.icrc_wrong:,} of {_n(checked, 'ICRC')} wrong: changed on the way; a receiver "
            "drops such packets without a word",
            "; ".join(f"packet {f.number:,}: {f.what}" for f in study.wrong_icrc[:_NAMED])
            + f"; {_named(bad, lambda p: f'{p.icrc_wrong:,} wrong')}",
            "look for a device that rewrites packets (tunnel, NAT, load balancer), or for memory "
            "or a cable that corrupts them, on the path of these queue pairs",
        )
    if study.icrc_unchecked:
        yield Finding(
            "capture-cut-short",
            Severity.INFO,
            study.path,
            f"of {_n(study.icrc_unchecked, 'RDMA packet')} only the beginning was kept, so the "
            "ICRC cannot be checked there",
            f"{study.cut_packets:,} of {study.packets:,} packets are cut",
            "capture whole packets (tcpdump -s 0) to check the ICRC",
        )


def _told(pair: QueuePairSeen, study: CaptureStudy, by_hosts: dict[tuple[str, str], Pairs]) -> bool:
    """Whether a congestion notification for a direction was seen, or could not have been."""
    back = by_hosts.get((pair.target, pair.source), ())
    reverse = study.reverse_of(pair)
    if reverse is not None:
        back = tuple(p for p in back if p.target_qp == reverse.target_qp)
    return not back or any(p.cnps for p in back)


def _congestion(study: CaptureStudy) -> Iterator[Finding]:
    grouped: dict[tuple[str, str], list[QueuePairSeen]] = defaultdict(list)
    for pair in study.queue_pairs:
        grouped[pair.source, pair.target].append(pair)
    by_hosts = {hosts: tuple(pairs) for hosts, pairs in grouped.items()}
    silent = [p for p in study.queue_pairs if p.marked and not _told(p, study, by_hosts)]
    if silent:
        yield Finding(
            "ecn-marked-without-cnp",
            Severity.WARNING,
            study.path,
            f"{_n(sum(p.marked for p in silent), 'packet')} marked by ECN, and the sender was "
            "never told (no CNP)",
            _named(silent, lambda p: f"{p.marked:,} of {p.packets:,} marked"),
            "switch congestion notification on at the receiver (np side) and see that CNPs are "
            "not lost; behind a marking switch only a capture at the receiver shows both",
        )
    told = [p for p in study.queue_pairs if p.cnps]
    if told:
        yield Finding(
            "congestion-notified",
            Severity.INFO,
            study.path,
            f"{_n(sum(p.cnps for p in told), 'congestion notification packet')} to "
            f"{_n(len({p.target for p in told}), 'host')}, to slow down",
            _named(told, lambda p: f"{_n(p.cnps, 'CNP')} to {p.target}"),
        )
    pauses = [kind for kind in study.kinds if kind.name.startswith("PFC")]
    if pauses:
        yield Finding(
            "pause-frames-seen",
            Severity.INFO,
            study.path,
            f"{_n(pauses[0].packets, 'pause frame')} (PFC or global) captured",
        )
    unmarked = [p for p in study.queue_pairs if p.not_markable]
    if unmarked:
        yield Finding(
            "not-ecn-capable",
            Severity.WARNING,
            study.path,
            f"{_n(sum(p.not_markable for p in unmarked), 'RDMA data packet')} not ECN-capable: no "
            "switch marks them, and ECN never slows their sender",
            _named(unmarked, lambda p: f"{p.not_markable:,} of {p.packets:,}"),
            "let the adapter set ECT on RoCE (traffic class of the queue pair, ECN on for its "
            "priority)",
        )


def _share(use: ClassUse) -> str:
    total = sum(use.dscp.values())
    largest = sorted(use.dscp.items(), key=lambda item: (-item[1], item[0]))[:_NAMED]
    return ", ".join(f"DSCP {value} {count / total:.0%}" for value, count in largest)


def _classes(study: CaptureStudy) -> Iterator[Finding]:
    data, _, notices, tcp = study.classes
    best_effort = data.dscp.get(0, 0)
    if best_effort:
        yield Finding(
            "roce-in-best-effort",
            Severity.WARNING,
            study.path,
            f"{_n(best_effort, 'RDMA data packet')} with DSCP 0: switches that trust DSCP put them "
            "into the best-effort class, which drops",
            _share(data),
            f"set the RoCE traffic class; by convention DSCP {ROCE_DSCP}, priority 3",
        )
    others = {value: n for value, n in data.dscp.items() if value not in {0, ROCE_DSCP}}
    if others:
        yield Finding(
            "roce-class-not-usual",
            Severity.INFO,
            study.path,
            f"RDMA data travels in another class than the usual DSCP {ROCE_DSCP}",
            _share(data),
            "see that every switch maps this DSCP to the lossless class",
        )
    unusual = sum(n for value, n in notices.dscp.items() if value != CNP_DSCP)
    if unusual:
        shared = sorted(set(notices.dscp) & set(data.dscp))
        behind = (
            f"; DSCP {', '.join(map(str, shared))} is also that of the data, behind which they wait"
            if shared
            else ""
        )
        yield Finding(
            "cnp-class",
            Severity.WARNING,
            study.path,
            f"{_n(unusual, 'CNP')} not in the usual DSCP {CNP_DSCP}{behind}",
            _share(notices),
            f"give CNPs DSCP {CNP_DSCP} and a strict queue of their own (queue 6)",
        )
    lossless = {value for value in data.dscp if value}
    mixed = sum(n for value, n in tcp.dscp.items() if value in lossless)
    if mixed:
        yield Finding(
            "tcp-in-roce-class",
            Severity.WARNING,
            study.path,
            f"{_n(mixed, 'TCP packet')} in a DSCP of RDMA data: such packets fill the lossless "
            "class and make it pause",
            f"TCP: {_share(tcp)}; RDMA: {_share(data)}",
            "give TCP another DSCP, or clear it where hosts may not choose it",
        )


def _limits(study: CaptureStudy) -> Iterator[Finding]:
    hosts = {(p.source, p.target) for p in study.queue_pairs}
    lonely = [
        p
        for p in study.queue_pairs
        if p.service in {"RC", "XRC"} and (p.target, p.source) not in hosts
    ]
    if lonely:
        yield Finding(
            "one-way-capture",
            Severity.INFO,
            study.path,
            f"of {_n(len(lonely), 'connection')} only one direction was captured: what the other "
            "says (acknowledgements, NAKs, CNPs) is not known",
            _named(lonely, lambda p: _n(p.packets, "packet")),
            "capture both directions of the port",
        )
    jumps = [p for p in study.queue_pairs if p.restarts]
    if jumps:
        yield Finding(
            "psn-jumps",
            Severity.INFO,
            study.path,
            f"{_n(sum(p.restarts for p in jumps), 'jump')} of the PSN too far for a gap: another "
            "connection with the same queue pair number, or a long break in the capture",
            _named(jumps, lambda p: _n(p.restarts, "jump")),
        )


def capture_findings(study: CaptureStudy) -> list[Finding]:
    """Return what is at fault in a capture, gravest first."""
    found = [
        finding
        for check in (_loss, _silent, _order, _refusals, _icrc, _congestion, _classes, _limits)
        for finding in check(study)
    ]
    order = list(Severity)
    return sorted(found, key=lambda finding: order.index(finding.severity))
