"""What the explanation of a capture consists of."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from railweave.findings import Finding
from railweave.formats.pcap import CaptureFormat, Interface
from railweave.transport.capture._pairs import Pairing
from railweave.transport.capture._totals import Fault

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "CaptureStudy",
    "ClassUse",
    "KindSeen",
    "MessageSeen",
    "OperationSeen",
    "QueuePairSeen",
    "Step",
]


@dataclass(frozen=True, slots=True)
class KindSeen:
    """Packets of one kind: how many, and their bytes on the wire."""

    name: str
    packets: int
    wire_bytes: int


@dataclass(frozen=True, slots=True)
class OperationSeen:
    """Messages of one operation; ``payload_bytes`` are those of the packets that were seen."""

    name: str
    messages: int
    payload_bytes: int


@dataclass(frozen=True, slots=True)
class ClassUse:
    """In which class packets of one role travel: packets by DSCP, and by priority of a VLAN tag."""

    role: str
    dscp: dict[int, int]
    vlan_priority: dict[int, int]


@dataclass(frozen=True, slots=True)
class Step:
    """What passed in one step of time; ``marked`` are packets with ECN's CE."""

    begin_s: float
    packets: int
    wire_bytes: int
    rdma_bytes: int
    marked: int


@dataclass(frozen=True, slots=True)
class QueuePairSeen:
    """What was seen going to one queue pair: one direction of a connection, at one interface.

    ``number`` counts from 0; ``place`` names the interface where a capture has several.
    ``reverse`` is the number of the other direction, None where it was not seen or cannot be known
    (``pairing`` says which). ``source_qp`` is None where it is not known. ``kind`` is the carrier;
    ``service`` RC, UC, UD or XRC. ``mtu_bytes`` is 0 where no message of several packets was seen.
    ``dscp`` is that of the first data packet, -1 where there was none; ``source_port`` that of the
    first packet.

    Of PSNs (requests and read responses): ``gaps`` and the ``missing`` PSNs in them, those of which
    came ``late``, packets seen ``again`` (``repeated`` of them are copies: the same bytes within
    100 µs), and ``restarts``: jumps too far to be gaps. ``retries`` is how often the requester
    began anew since it last got on, up to the end of the capture, the first time at ``stuck_ns``
    (-1: never). ``naks`` are by reason. ``cnps`` are congestion notifications *to* this queue pair:
    its owner is told to slow down.
    """

    number: int
    interface: int
    place: str
    kind: str
    service: str
    vlan: int
    source: str
    target: str
    source_qp: int | None
    target_qp: int
    reverse: int | None
    pairing: Pairing
    packets: int
    wire_bytes: int
    payload_bytes: int
    first_ns: int
    last_ns: int
    mtu_bytes: int
    dscp: int
    source_port: int
    operations: dict[str, int]
    acknowledgements: int
    gaps: int
    missing: int
    late: int
    again: int
    repeated: int
    restarts: int
    retries: int
    stuck_ns: int
    naks: dict[str, int]
    rnr: int
    cnps: int
    marked: int
    markable: int
    not_markable: int
    icrc_right: int
    icrc_wrong: int
    icrc_unchecked: int

    @property
    def duration_s(self) -> float:
        """Time from the first packet to the last."""
        return (self.last_ns - self.first_ns) / 1e9

    @property
    def rate_bps(self) -> float:
        """Payload over that time, 0 where there is only one packet."""
        return 8 * self.payload_bytes / self.duration_s if self.last_ns > self.first_ns else 0.0

    @property
    def unfilled(self) -> int:
        """PSNs that were never seen."""
        return max(0, self.missing - self.late)

    @property
    def title(self) -> str:
        """``10.0.0.1 qp 0x11 → 10.0.0.2 qp 0x12``."""
        own = "?" if self.source_qp is None else f"0x{self.source_qp:x}"
        return f"{self.source} qp {own} → {self.target} qp 0x{self.target_qp:x}"

    @property
    def named(self) -> str:
        """The title, and the place where a capture has several."""
        return f"{self.title} at {self.place}" if self.place else self.title


@dataclass(frozen=True, slots=True)
class MessageSeen:
    """One message; a read has the bytes of its response, and lasts until the response's end.

    ``packet`` is the number of its first packet in the file, from 1; ``psn`` of that packet.
    ``bytes`` are those seen, of an atomic the eight that it works on; ``declared_bytes`` what its
    RETH says, None where it has none. ``again`` are packets seen again; ``complete`` is whether no
    packet of it is missing in the capture, which does not say that the peer took it. ``answer``
    says that: ``acknowledged``, ``refused: …`` with the reason of the NAK, ``receiver not ready``
    where an RNR NAK was the last word, ``none`` where none was seen, empty where that cannot be
    known (other direction not captured or not known, or no reliable connection).
    """

    flow: int
    operation: str
    packet: int
    psn: int
    bytes: int
    declared_bytes: int | None
    packets: int
    again: int
    begin_ns: int
    end_ns: int
    complete: bool
    answer: str = ""

    @property
    def duration_s(self) -> float:
        """Time from the first packet to the last one."""
        return (self.end_ns - self.begin_ns) / 1e9


@dataclass(frozen=True)
class CaptureStudy:
    """The explanation of a capture.

    ``cut_packets`` are those of which less was kept than was on the wire. ``icrc_right``,
    ``icrc_wrong`` and ``icrc_unchecked`` count RDMA packets, ``icrc_zero`` those wrong ones that
    are all zeros. ``refusals`` (NAKs), ``wrong_icrc`` and ``notifications`` (CNPs) name the first
    of each. ``messages`` are the first ones, at most as many as was asked for; ``operations``
    counts all. ``peak_bps`` is the most RDMA payload of all directions and interfaces over any
    ``peak_s``, a time that holds at least 64 packets at the mean rate; both are 0 where the capture
    is too short for that. ``notes`` are sentences about the file and about what was not looked at.
    """

    path: str
    format: CaptureFormat
    interfaces: tuple[Interface, ...]
    packets: int
    captured_bytes: int
    wire_bytes: int
    cut_packets: int
    first_ns: int
    last_ns: int
    kinds: tuple[KindSeen, ...]
    icrc_right: int
    icrc_wrong: int
    icrc_unchecked: int
    icrc_zero: int
    queue_pairs: tuple[QueuePairSeen, ...]
    operations: tuple[OperationSeen, ...]
    messages: tuple[MessageSeen, ...]
    classes: tuple[ClassUse, ...]
    steps: tuple[Step, ...]
    step_s: float
    peak_bps: float
    peak_s: float
    refusals: tuple[Fault, ...]
    wrong_icrc: tuple[Fault, ...]
    notifications: tuple[Fault, ...]
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def duration_s(self) -> float:
        """Time from the first packet to the last."""
        return (self.last_ns - self.first_ns) / 1e9

    @property
    def rdma_packets(self) -> int:
        """Packets of RDMA that were looked into."""
        return self.icrc_right + self.icrc_wrong + self.icrc_unchecked

    @property
    def rdma_bytes(self) -> int:
        """Payload of all queue pairs."""
        return sum(pair.payload_bytes for pair in self.queue_pairs)

    def reverse_of(self, pair: QueuePairSeen) -> QueuePairSeen | None:
        """Return the other direction of a connection, None where it is not known."""
        if pair.reverse is None:
            return None
        pairs = self.queue_pairs
        if pair.reverse < len(pairs) and pairs[pair.reverse].number == pair.reverse:
            return pairs[pair.reverse]
        return next((other for other in pairs if other.number == pair.reverse), None)

    def queue_pair_frame(self) -> pl.DataFrame:
        """Return the queue pairs as a Polars frame, a row a direction; NAKs are added up."""
        import polars as pl

        names = [f.name for f in fields(QueuePairSeen) if f.name not in {"operations", "naks"}]
        texts = {"place", "kind", "service", "source", "target", "pairing"}
        frame = pl.DataFrame(
            {name: [getattr(pair, name) for pair in self.queue_pairs] for name in names},
            schema={name: pl.String if name in texts else pl.Int64 for name in names},
        )
        naks = pl.Series("naks", [sum(p.naks.values()) for p in self.queue_pairs], pl.Int64)
        rates = pl.Series("rate_bps", [p.rate_bps for p in self.queue_pairs], pl.Float64)
        return frame.with_columns(naks, rates)

    def message_frame(self) -> pl.DataFrame:
        """Return the messages as a Polars frame, in the order of their begins."""
        import polars as pl

        kinds = {"operation": pl.String, "complete": pl.Boolean, "answer": pl.String}
        names = [f.name for f in fields(MessageSeen)]
        return pl.DataFrame(
            {name: [getattr(message, name) for message in self.messages] for name in names},
            schema={name: kinds.get(name, pl.Int64) for name in names},
        ).with_columns(duration_s=(pl.col("end_ns") - pl.col("begin_ns")) / 1e9)

    def to_json(self, most_messages: int = 1000) -> dict[str, Any]:
        """Return it as one JSON document, with at most so many messages."""
        document = {
            f.name: getattr(self, f.name)
            for f in fields(self)
            if f.name not in {"messages", "queue_pairs", "path", "format"}
        }
        document = {name: _plain(value) for name, value in document.items()}
        pairs = [
            {**asdict(pair), "rate_bps": pair.rate_bps, "duration_s": pair.duration_s}
            for pair in self.queue_pairs
        ]
        shown = self.messages[:most_messages]
        return {
            "path": self.path,
            "format": self.format.value,
            "duration_s": self.duration_s,
            "rdma_packets": self.rdma_packets,
            "rdma_bytes": self.rdma_bytes,
            **document,
            "queue_pairs": pairs,
            "messages": [{**asdict(m), "duration_s": m.duration_s} for m in shown],
        }


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return value
