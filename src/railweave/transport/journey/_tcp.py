"""The same bytes over plain TCP, to compare: handshake, segments, acknowledgements."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from railweave.transport.journey._clock import PacketTimes, Passage, WayClock, times_of
from railweave.transport.journey._wire import Congestion, Marks
from railweave.transport.verbs._types import Actor, Part, Phase, VerbsEvent

__all__ = ["TcpRun", "TcpSegment", "run_tcp"]

#: segments that may be on their way before the first acknowledgement (RFC 6928)
INITIAL_WINDOW: Final = 10
#: full segments after which a receiver acknowledges (RFC 9293, 3.8.6.3)
ACK_EVERY: Final = 2
#: initial sequence numbers; real ones are drawn anew for each connection
FIRST_SEQUENCE: Final = (1_000_000, 2_000_000)
#: options of a SYN beside the timestamps: segment size, window scale
SYN_BYTES: Final = 8
#: by which windows are shifted: 16 MiB can be on their way
WINDOW_SHIFT: Final = 8
#: what asks for a READ: an address, a key, a length, as in RDMA's header
REQUEST_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class TcpSegment:
    """One segment; ``offset`` is the place of its payload in the stream of its direction."""

    direction: int
    sequence: int
    acknowledgment: int
    flags: tuple[str, ...]
    offset: int
    payload_bytes: int
    passage: Passage
    wire_bytes: int
    marked_at: int

    def options(self, segment_bytes: int) -> bytes:
        """Return the options beside the timestamps: those of a SYN, else none."""
        if "SYN" not in self.flags:
            return b""
        return b"\x02\x04" + segment_bytes.to_bytes(2, "big") + bytes((1, 3, 3, WINDOW_SHIFT))

    @property
    def name(self) -> str:
        """What people call it: ``SYN``, ``data 8,948 B``, ``ACK``."""
        if "SYN" in self.flags:
            return "SYN-ACK" if "ACK" in self.flags else "SYN"
        return f"data {self.payload_bytes:,} B" if self.payload_bytes else "ACK"


@dataclass(frozen=True, eq=False)
class TcpRun:
    """All segments in the order in which they were sent, and the trace."""

    segments: tuple[TcpSegment, ...]
    events: tuple[VerbsEvent, ...]
    established_s: float
    delivered_s: float
    acknowledged_s: float

    def times(self, hops: tuple[int, int]) -> PacketTimes:
        """Return the times of all segments as arrays; ``hops`` are those of both ways."""
        return times_of(
            [
                (s.direction, s.wire_bytes, s.passage, s.marked_at, -1, s.payload_bytes > 0)
                for s in self.segments
            ],
            hops,
        )


@dataclass
class _Connection:
    """State of a connection that sends ``total`` bytes in one direction."""

    clocks: tuple[WayClock, WayClock]
    overhead: int
    segment_bytes: int
    congestion: Congestion | None
    ecn: bool
    marks: Marks
    segments: list[TcpSegment] = field(default_factory=list)
    sent: list[int] = field(default_factory=lambda: [0, 0])
    received: list[int] = field(default_factory=lambda: [0, 0])

    def send(
        self, direction: int, now_s: float, flags: tuple[str, ...], payload: int = 0
    ) -> TcpSegment:
        syn = "SYN" in flags
        size = self.overhead + payload + SYN_BYTES * syn
        passage = self.clocks[direction].send(size, now_s, memory=payload > 0)
        there, marked = self.congestion, -1
        if (
            self.ecn
            and payload
            and there is not None
            and there.direction == direction
            and self.marks.unit() < there.probability
        ):
            marked = there.place
        mine, other = direction, 1 - direction
        segment = TcpSegment(
            direction,
            FIRST_SEQUENCE[mine] + (0 if syn else 1 + self.sent[mine]),
            FIRST_SEQUENCE[other] + 1 + self.received[other] if "ACK" in flags else 0,
            flags,
            self.sent[mine],
            payload,
            passage,
            size,
            marked,
        )
        self.sent[mine] += payload
        self.segments.append(segment)
        return segment


def run_tcp(
    clocks: tuple[WayClock, WayClock],
    *,
    size_bytes: int,
    segment_bytes: int,
    overhead_bytes: int,
    read: bool,
    congestion: Congestion | None,
    ecn: bool,
    seed: int,
) -> TcpRun:
    """Open a connection and move bytes over it.

    Slow start from ten segments, an acknowledgement for every second segment and for the last;
    no loss, and marks are echoed but slow nobody down.

    Args:
        clocks: of the way there and the way back.
        size_bytes: of the stream.
        segment_bytes: payload of a full segment.
        overhead_bytes: what each segment adds on the wire.
        read: the target sends, after a request of 16 bytes; else the source does.
        congestion: a queue of others.
        ecn: whether marks are negotiated: the plane's switches mark.
        seed: of the marks.
    """
    link = _Connection(clocks, overhead_bytes, segment_bytes, congestion, ecn, Marks(seed))
    first = ("SYN", "ECE", "CWR") if ecn else ("SYN",)
    second = ("SYN", "ACK", "ECE") if ecn else ("SYN", "ACK")
    syn = link.send(0, 0.0, first)
    answer = link.send(1, syn.passage.at_nic_s, second)
    opened = answer.passage.at_nic_s
    ack = link.send(0, opened, ("ACK",))
    begin, sender = opened, 0
    if read:
        request = link.send(0, opened, ("PSH", "ACK"), REQUEST_BYTES)
        link.received[0] = REQUEST_BYTES
        begin, sender = request.passage.enter_s[-1], 1
    data = len(link.segments)
    delivered, acknowledged = _stream(link, sender, begin, size_bytes)
    events = _events(link, (ack.passage.at_nic_s, opened, begin), sender, data, size_bytes)
    last = len(link.segments) - 1
    end = (
        VerbsEvent(
            delivered, 1 - sender, Actor.LIBRARY, Part.MEMORY, Phase.COMPLETE,
            "kernel copies the last bytes to the application: recv() returns",
        ),
        VerbsEvent(
            acknowledged, sender, Actor.LIBRARY, Part.QUEUE_PAIR, Phase.COMPLETE,
            "the last acknowledgement frees the send buffer; TCP tells no application of it", last,
        ),
    )  # fmt: skip
    return TcpRun(tuple(link.segments), (*events, *end), opened, delivered, acknowledged)


def _stream(link: _Connection, sender: int, begin_s: float, total: int) -> tuple[float, float]:
    """Send the stream by its window; return when all was delivered, and acknowledged."""
    receiver = 1 - sender
    window = INITIAL_WINDOW * link.segment_bytes
    acknowledged, unanswered = 0, 0
    delivered_s = acknowledged_s = begin_s
    start = link.sent[sender]
    arrivals: list[tuple[float, int, str, int, bool]] = []
    count = 0

    def fill(now_s: float) -> None:
        nonlocal count
        while (gone := link.sent[sender] - start) < total:
            size = min(link.segment_bytes, total - gone)
            if gone + size - acknowledged > window:
                return
            flags = ("PSH", "ACK") if gone + size == total else ("ACK",)
            sent = link.send(sender, now_s, flags, size)
            count += 1
            at = sent.passage.enter_s[-1]
            heapq.heappush(arrivals, (at, count, "data", size, sent.marked_at >= 0))

    fill(begin_s)
    while arrivals:
        now_s, _, what, size, marked = heapq.heappop(arrivals)
        if what == "data":
            link.received[sender] += size
            unanswered += 1
            delivered_s = now_s
            got = link.received[sender] - start
            if unanswered < ACK_EVERY and got < total and not marked:
                continue
            unanswered = 0
            sent = link.send(receiver, now_s, ("ACK", "ECE") if marked else ("ACK",))
            count += 1
            heapq.heappush(arrivals, (sent.passage.at_nic_s, count, "ack", got, False))
        else:
            window += size - acknowledged
            acknowledged, acknowledged_s = size, now_s
            fill(now_s)
    return delivered_s, acknowledged_s


def _events(
    link: _Connection,
    times: tuple[float, float, float],
    sender: int,
    data: int,
    total: int,
) -> Iterator[VerbsEvent]:
    """Tell the trace up to the last segment."""
    _, opened, begin = times
    library = Actor.LIBRARY
    yield VerbsEvent(
        0.0, 0, Actor.APPLICATION, Part.MEMORY, Phase.REGISTER,
        "nothing to register: the kernel copies between the application's memory and its own",
    )  # fmt: skip
    for number, what in enumerate(
        (
            "connect(): SYN leaves, with the first sequence number",
            "listening socket answers SYN-ACK",
            "ACK: the connection is established",
        )
    ):
        at = link.segments[number]
        yield VerbsEvent(
            at.passage.enter_s[0], at.direction, library, Part.QUEUE_PAIR, Phase.CONNECT,
            what, number,
        )  # fmt: skip
    if sender:
        yield VerbsEvent(
            opened, 0, Actor.APPLICATION, Part.APPLICATION, Phase.POST,
            f"asks for {total:,} B by a request of its own: TCP has no READ", data - 1,
        )  # fmt: skip
    yield VerbsEvent(
        begin, sender, Actor.APPLICATION, Part.APPLICATION, Phase.POST,
        f"send(): {total:,} B are copied to the socket's buffer",
    )  # fmt: skip
    for number in range(data, len(link.segments)):
        segment = link.segments[number]
        what = segment.name
        if segment.payload_bytes:
            what = f"{what} of the stream, from byte {segment.offset:,}"
        elif "ECE" in segment.flags:
            what = f"{what} with ECE: a mark is echoed"
        yield VerbsEvent(
            segment.passage.enter_s[0], segment.direction, library,
            Part.NIC, Phase.TRANSPORT, what, number,
        )  # fmt: skip
