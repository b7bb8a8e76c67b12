"""What is asked of the comparison of technologies, and what is answered."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, TypeVar

from railweave.design.models import ALGORITHMS, Algorithm, Collective
from railweave.errors import InputError
from railweave.formats.validation import list_names, nearest
from railweave.transport.compare._technologies import Technology, WorkloadKind, technology_facts
from railweave.units import parse_bytes

__all__ = [
    "CollectiveTime",
    "CompareCase",
    "Comparison",
    "Exclusion",
    "Flip",
    "Measured",
    "Measurements",
    "MixPart",
    "Need",
    "Requirements",
    "Score",
    "Term",
    "case_for",
    "mix_text",
    "parse_mix",
]

Need: TypeAlias = Literal["any", "preferred", "required"]

#: what a requirement counts at least where it is preferred, 0 to 10
PREFERRED_WEIGHT: Final = 3.0
#: … and where it is required; what cannot meet it is out besides
REQUIRED_WEIGHT: Final = 5.0
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class MixPart:
    """One collective of the mix: operation, bytes as nccl-tests counts them, share of the score."""

    operation: Collective
    size_bytes: int
    share: float = 1.0
    algorithm: Algorithm | None = None

    def __post_init__(self) -> None:
        if self.size_bytes < 1:
            raise InputError(f"a collective of {self.size_bytes} B; allowed: 1 B or more")
        if not (math.isfinite(self.share) and self.share > 0):
            raise InputError(f"a share of {self.share!r} in the mix; allowed: above 0")
        able = ALGORITHMS[self.operation]
        if self.algorithm is not None and self.algorithm not in able:
            raise InputError(
                f"{self.algorithm.value} cannot do {self.operation.value}; "
                f"allowed: {list_names(a.value for a in able)}"
            )


@dataclass(frozen=True, slots=True)
class CompareCase:
    """What is measured on the cluster, beside the cluster itself.

    Args:
        mix: large collectives, each with its share.
        small: the small one.
        ranks: GPUs that take part; None takes all, at most :data:`MOST_RANKS` of a large cluster.
        queue_pairs: of a connection on RoCEv2, where that column is not the design's own.
        loss: chance of a packet to be lost on the lossy cable.
        cores: of one server; None takes its sockets times a stated number.
        quick: fewer ranks and packets.
    """

    mix: tuple[MixPart, ...]
    small: MixPart
    ranks: int | None = None
    queue_pairs: int = 1
    loss: float = 1e-3
    cores: int | None = None
    quick: bool = False

    def __post_init__(self) -> None:
        if not self.mix:
            raise InputError("the mix is empty; allowed: one collective or more")
        for name, least, most in (("queue_pairs", 1, 1024), ("ranks", 2, 10_000_000),
                                  ("cores", 1, 100_000)):  # fmt: skip
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                raise InputError(f"{name} is {value}; allowed: {least}…{most}")
        if not 0 < self.loss < 1:
            raise InputError(f"loss is {self.loss!r}; allowed: above 0 and below 1")

    def to_json(self) -> dict[str, Any]:
        """Return plain data for JSON and for keys."""
        return {
            **asdict(self),
            "mix": [_part_json(part) for part in self.mix],
            "small": _part_json(self.small),
        }


def _part_json(part: MixPart) -> dict[str, Any]:
    return {
        "operation": part.operation.value,
        "size_bytes": part.size_bytes,
        "share": part.share,
        "algorithm": part.algorithm.value if part.algorithm else None,
    }


#: large and small collectives by workload, where nothing else is asked for (assumed: buckets of
#: gradients; experts' tokens and activations of a few requests; both)
_MIX: Final[dict[WorkloadKind, tuple[MixPart, ...]]] = {
    "training": (
        MixPart(Collective.ALL_REDUCE, 256 * _MIB, 0.7),
        MixPart(Collective.ALL_TO_ALL, 64 * _MIB, 0.3),
    ),
    "inference": (MixPart(Collective.ALL_TO_ALL, 4 * _MIB, 1.0),),
    "mixed": (
        MixPart(Collective.ALL_REDUCE, 128 * _MIB, 0.5),
        MixPart(Collective.ALL_TO_ALL, 16 * _MIB, 0.5),
    ),
}
SMALL: Final = MixPart(Collective.ALL_REDUCE, 64 << 10, 1.0, Algorithm.TREE)


def case_for(workload: WorkloadKind, **more: Any) -> CompareCase:  # noqa: ANN401 - its fields
    """Return what is measured for a workload; ``more`` are fields of :class:`CompareCase`."""
    return CompareCase(**{"mix": _MIX[workload], "small": SMALL, **more})


def parse_mix(text: str) -> tuple[MixPart, ...]:
    """Read collectives of a mix: ``all-reduce:256MiB:0.7,all-to-all:64MiB:0.3``.

    A share that is left out is 1; shares count by their sum, and where they are given and do not
    add up to 1 the measurements say so. An algorithm may follow the operation: ``all-reduce/tree``.

    Raises:
        InputError: an operation, size or share that cannot be.
    """
    parts = []
    for entry in text.split(","):
        named, *rest = (piece.strip() for piece in entry.split(":"))
        operation, _, algorithm = named.partition("/")
        if not rest or len(rest) > 2:
            raise InputError(
                f"mix: {entry.strip()!r} is not read; allowed: operation:size or "
                "operation:size:share, such as all-reduce:256MiB:0.7"
            )
        try:
            share = float(rest[1]) if len(rest) > 1 else 1.0
        except ValueError:
            raise InputError(f"mix: {rest[1]!r} is no share; allowed: a number above 0") from None
        size = parse_bytes(rest[0])
        parts.append(
            MixPart(
                _named(Collective, operation),
                size,
                share,
                _named(Algorithm, algorithm) if algorithm else None,
            )
        )
    return tuple(parts)


Name = TypeVar("Name", bound=StrEnum)


def _named(kind: type[Name], text: str) -> Name:
    names = [one.value for one in kind]
    if text not in names:
        near = nearest(text, names)
        raise InputError(
            f"mix: {text!r} is not known; allowed: {list_names(names)}"
            + (f"; did you mean {near!r}?" if near else "")
        )
    return kind(text)


def mix_text(mix: Iterable[MixPart]) -> str:
    """Write a mix as :func:`parse_mix` reads it."""
    return ",".join(
        part.operation.value
        + (f"/{part.algorithm.value}" if part.algorithm else "")
        + f":{part.size_bytes}B:{part.share:g}"
        for part in mix
    )


# ---------------------------------------------------------------- measured


@dataclass(frozen=True, slots=True)
class CollectiveTime:
    """One collective on one technology.

    ``network_s`` is the flow engine's, that of ``simulate`` on the exchanged design. ``host_s`` is
    what the processors of the busiest server take to move the bytes; 0 for the small collective,
    whose ``time_s`` is the engine's with the software's latency before every message between
    servers. Of large ones ``time_s`` is the larger of the two. ``failed_s`` is the same time
    without the failed uplink, None where there is none to fail or, ``cut_off``, where some GPUs
    have no way left without it.
    """

    operation: str
    size_bytes: int
    share: float
    algorithm: str
    network_s: float
    host_s: float
    time_s: float
    failed_s: float | None = None
    cut_off: bool = False

    @property
    def failed_share(self) -> float | None:
        """Return what the failed uplink leaves of the speed; None where there is none to fail."""
        if self.cut_off:
            return 0.0
        return None if self.failed_s is None else min(1.0, self.time_s / self.failed_s)


@dataclass(frozen=True, slots=True)
class Measured:
    """One technology on the cluster, by the engines.

    ``…_ratio`` are times over those of a message alone, of the incast over that of all its bytes
    through the receiver's port. ``short_ratio`` is the permutation's with a short burst: how
    senders start, which is not scored. What had not ended counts as ended with the run, and
    ``unfinished`` says how many messages those were. ``loss_share`` is the goodput left behind a
    lossy cable. ``message_s`` is ``message_network_s``, the packet engine's, and the software's
    time at both ends. ``ran`` says transport, routing and congestion.
    """

    technology: Technology
    own: bool
    ran: str
    large: tuple[CollectiveTime, ...]
    small: CollectiveTime
    message_network_s: float
    message_s: float
    permutation_ratio: float
    short_ratio: float
    incast_ratio: float
    bystander_ratio: float
    dropped_bytes: float
    marks: int
    pauses: int
    unfinished: int
    loss_share: float
    cores_needed: float
    switches_w: float
    nics_w: float
    library_busbw_Bps: float | None = None  # noqa: N815 - byte/s
    notes: tuple[str, ...] = ()

    @property
    def failed_share(self) -> float | None:
        """Return what the failed uplink leaves of the large collectives' speed, by their shares."""
        known = [(one.share, left) for one in self.large if (left := one.failed_share) is not None]
        total = sum(share for share, _ in known)
        return sum(share * left for share, left in known) / total if known else None

    @property
    def power_w(self) -> float:
        """Switches and adapters."""
        return self.switches_w + self.nics_w


@dataclass(frozen=True)
class Measurements:
    """All four on one cluster: what was measured, on what, and what it rests on.

    ``speaks`` holds what the adapters of the servers speak; empty where that is not known.
    ``makers`` counts the catalog's makers of switches and of adapters of each technology.
    """

    design: str
    gpus: int
    ranks: int
    servers: int
    host_bps: float
    case: Mapping[str, Any]
    cores: int
    flows: int
    failed: str
    lossy: str
    measured: Mapping[Technology, Measured]
    speaks: tuple[str, ...]
    unable: Mapping[str, tuple[str, ...]]
    makers: Mapping[Technology, tuple[int, int]]
    assumptions: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """Return plain data for JSON; :meth:`of` reads it back."""
        data = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {
            **data,
            "case": dict(self.case),
            "measured": {t.value: _measured_json(one) for t, one in self.measured.items()},
            "speaks": list(self.speaks),
            "unable": {name: list(parts) for name, parts in self.unable.items()},
            "makers": {t.value: list(counts) for t, counts in self.makers.items()},
            "assumptions": list(self.assumptions),
        }

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Measurements:
        """Return what :meth:`document` wrote."""
        data = dict(document)
        data["measured"] = {
            Technology(name): _measured_of(one) for name, one in data["measured"].items()
        }
        data["speaks"] = tuple(data["speaks"])
        data["unable"] = {name: tuple(parts) for name, parts in data["unable"].items()}
        data["makers"] = {
            Technology(name): (int(counts[0]), int(counts[1]))
            for name, counts in data["makers"].items()
        }
        data["assumptions"] = tuple(data["assumptions"])
        return cls(**data)


def _measured_json(one: Measured) -> dict[str, Any]:
    return {**asdict(one), "technology": one.technology.value, "notes": list(one.notes)}


def _measured_of(data: Mapping[str, Any]) -> Measured:
    return Measured(
        **{
            **data,
            "technology": Technology(data["technology"]),
            "large": tuple(CollectiveTime(**one) for one in data["large"]),
            "small": CollectiveTime(**data["small"]),
            "notes": tuple(data["notes"]),
        }
    )


# ---------------------------------------------------------------- asked


@dataclass(frozen=True)
class Requirements:
    """What the choice must meet, and what counts how much.

    Args:
        workload: ``training``, ``inference`` or ``mixed``: sets the default weights.
        team: what the network team knows: ``ethernet``, ``infiniband``, ``both``, ``neither``.
        vendors: whether parts must come from more than one maker.
        automation: whether Ethernet automation is there already.
        tenancy: whether tenants share the back-end.
        encryption: ``any``, ``preferred``, ``required``, or ``tls``: nothing else is accepted.
        reach: ``hall``, ``campus``, or ``routed``: over IP between sites.
        budget: ``low``, ``medium`` or ``high``.
        max_power_w: of switches and adapters of the back-end; None bounds nothing.
        weights: criterion → weight of 0 to 10, in place of what follows from the rest.
    """

    workload: WorkloadKind = "training"
    team: Literal["ethernet", "infiniband", "both", "neither"] = "ethernet"
    vendors: Need = "any"
    automation: bool = False
    tenancy: Need = "any"
    encryption: Literal["any", "preferred", "required", "tls"] = "any"
    reach: Literal["hall", "campus", "routed"] = "hall"
    budget: Literal["low", "medium", "high"] = "medium"
    max_power_w: float | None = None
    weights: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        facts = technology_facts()
        for name, allowed in _ALLOWED.items():
            if getattr(self, name) not in allowed:
                near = nearest(getattr(self, name), allowed)
                raise InputError(
                    f"{name}: {getattr(self, name)!r} is not known; allowed: "
                    f"{list_names(allowed)}" + (f"; did you mean {near!r}?" if near else "")
                )
        for name, weight in self.weights.items():
            if name not in facts.criteria:
                near = nearest(name, facts.criteria)
                raise InputError(
                    f"weight: {name!r} is no criterion; allowed: {list_names(facts.criteria)}"
                    + (f"; did you mean {near!r}?" if near else "")
                )
            if not 0 <= weight <= 10:  # NaN is neither
                raise InputError(f"weight of {name}: {weight!r}; allowed: 0 to 10")
        power = self.max_power_w
        if power is not None and not 0 < power < math.inf:
            raise InputError(f"max_power_w is {power!r}; allowed: above 0")


_ALLOWED: Final[dict[str, tuple[str, ...]]] = {
    "workload": ("training", "inference", "mixed"),
    "team": ("ethernet", "infiniband", "both", "neither"),
    "vendors": ("any", "preferred", "required"),
    "tenancy": ("any", "preferred", "required"),
    "encryption": ("any", "preferred", "required", "tls"),
    "reach": ("hall", "campus", "routed"),
    "budget": ("low", "medium", "high"),
}


# ---------------------------------------------------------------- answered


@dataclass(frozen=True, slots=True)
class Score:
    """Score of one technology in one criterion, 0 to 1, and the arithmetic it comes from."""

    criterion: str
    value: float
    arithmetic: str


@dataclass(frozen=True, slots=True)
class Term:
    """Weight of a criterion, and why it is so."""

    criterion: str
    weight: float
    reason: str


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A technology that cannot be taken, and the requirement that says so."""

    technology: Technology
    reason: str


@dataclass(frozen=True, slots=True)
class Flip:
    """Where the answer turns when one weight alone moves from what it is.

    At the weight ``at`` the ``winner`` so far and ``to`` have the same score; beyond it, further
    from ``now``, ``to`` is ahead. ``within`` says whether it can be set (0 to 10).
    """

    criterion: str
    now: float
    at: float
    winner: Technology
    to: Technology

    @property
    def within(self) -> bool:
        """Whether a weight of 0 to 10 reaches beyond it."""
        return self.at < 10 if self.at >= self.now else self.at > 0


@dataclass(frozen=True)
class Comparison:
    """The four held against each other.

    ``totals`` are weighted means of the scores, of 0 to 1. ``ranking`` are those not excluded, the
    best first. ``reasons`` say why, ``benchmarks`` what to measure before ordering, the most
    telling first.
    """

    requirements: Requirements
    measurements: Measurements
    weights: tuple[Term, ...]
    scores: Mapping[Technology, tuple[Score, ...]]
    totals: Mapping[Technology, float]
    excluded: tuple[Exclusion, ...]
    ranking: tuple[Technology, ...]
    flips: tuple[Flip, ...]
    reasons: tuple[str, ...]
    benchmarks: tuple[str, ...]

    @property
    def winner(self) -> Technology | None:
        """The best of those that can be taken; None where none can."""
        return self.ranking[0] if self.ranking else None
