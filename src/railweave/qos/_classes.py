"""Traffic classes: which packets are lossless, which queue each takes, and who is served first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from railweave.errors import InputError
from railweave.findings import Finding, Severity
from railweave.formats.validation import list_names, nearest
from railweave.provenance import Certainty, Source

__all__ = [
    "CLASSES",
    "CNP_DSCP",
    "LOSSY_CLASSES",
    "ROCE_DSCP",
    "TrafficClasses",
    "class_findings",
    "classes_named",
]

ROCE_DSCP: Final = 26
CNP_DSCP: Final = 48
PRIORITIES: Final = 8
DSCPS: Final = 64


@dataclass(frozen=True, slots=True)
class TrafficClasses:
    """What a device does with the DSCP of a packet.

    ``dscp_priority`` gives the priority of each of the 64 DSCPs, ``priority_queue`` the egress
    queue of each of the 8 priorities. ``lossless`` are priorities under PFC. Queues in ``strict``
    are served before all others, the highest number first; the others share by DWRR in proportion
    to ``weights``.
    """

    name: str
    dscp_priority: tuple[int, ...]
    priority_queue: tuple[int, ...]
    lossless: tuple[int, ...]
    strict: tuple[int, ...]
    weights: tuple[int, ...]
    source: Source

    def __post_init__(self) -> None:
        sizes = (len(self.dscp_priority), len(self.priority_queue), len(self.weights))
        numbers = (*self.dscp_priority, *self.priority_queue, *self.lossless, *self.strict)
        if sizes != (DSCPS, PRIORITIES, PRIORITIES):
            raise InputError(
                f"traffic classes {self.name!r} map {sizes[0]} DSCPs, {sizes[1]} priorities and"
                f" {sizes[2]} weights; allowed: {DSCPS}, {PRIORITIES} and {PRIORITIES}"
            )
        if any(not 0 <= number < PRIORITIES for number in numbers):
            raise InputError(f"traffic classes {self.name!r}: allowed are priorities 0 to 7")
        if any(weight < 1 for weight in self.weights):
            raise InputError(f"traffic classes {self.name!r}: a DWRR weight is 1 or more")

    def priority(self, dscp: int) -> int:
        """Return the priority of a packet by its DSCP."""
        return self.dscp_priority[dscp]

    def queue(self, dscp: int) -> int:
        """Return the egress queue of a packet by its DSCP."""
        return self.priority_queue[self.dscp_priority[dscp]]

    def is_lossless(self, dscp: int) -> bool:
        """Tell whether PFC guards packets of this DSCP."""
        return self.dscp_priority[dscp] in self.lossless


def _dscps(default: int, **other: int) -> tuple[int, ...]:
    """Map all DSCPs to one priority but those named: ``_26=3``."""
    given = {int(name[1:]): priority for name, priority in other.items()}
    return tuple(given.get(dscp, default) for dscp in range(DSCPS))


_EACH: Final = tuple(range(PRIORITIES))
#: RoCE in priority 3, CNPs in strict queue 6, everything else in 0
ROCE: Final = TrafficClasses(
    "roce",
    _dscps(0, _26=3, _48=6),
    _EACH,
    lossless=(3,),
    strict=(6,),
    weights=(50, 1, 1, 50, 1, 1, 1, 1),
    source=Source("Cumulus, Juniper and Cisco guides for RoCE: DSCP 26 and 48, half the rest each"),
)
#: every DSCP by its upper three bits, as switches map by default: 26 falls into 3 all the same
CLASS_SELECTOR: Final = TrafficClasses(
    "class-selector",
    tuple(dscp // 8 for dscp in range(DSCPS)),
    _EACH,
    lossless=(3,),
    strict=(6, 7),
    weights=(1,) * PRIORITIES,
    source=Source("RFC 2474, class selector code points", Certainty.ESTIMATED),
)
#: DSCP 3 and 4 are lossless, 26 is not: RoCE traffic marked as usual has no PFC here
SONIC: Final = TrafficClasses(
    "sonic-default",
    _dscps(1, _3=3, _4=4, _5=2, _8=0, _46=5, _48=6),
    _EACH,
    lossless=(3, 4),
    strict=(),
    weights=(14, 14, 14, 15, 15, 14, 14, 14),
    source=Source("SONiC QoS template, map AZURE"),
)
CLASSES: Final[dict[str, TrafficClasses]] = {c.name: c for c in (ROCE, CLASS_SELECTOR, SONIC)}
#: no lossless class: TCP, or RoCE without PFC
LOSSY_CLASSES: Final = TrafficClasses(
    "lossy", ROCE.dscp_priority, _EACH, (), ROCE.strict, ROCE.weights, ROCE.source
)


def classes_named(name: str) -> TrafficClasses:
    """Return traffic classes by name.

    Raises:
        InputError: there are none of this name.
    """
    if name not in CLASSES:
        near = nearest(name, CLASSES)
        raise InputError(
            f"there are no traffic classes {name!r}; allowed: {list_names(CLASSES)}"
            + (f"; did you mean {near!r}?" if near else "")
        )
    return CLASSES[name]


def class_findings(classes: TrafficClasses, path: str, *, pfc: bool) -> Iterator[Finding]:
    """Say where RoCE and its notifications fall into the wrong class.

    Args:
        classes: of the switches.
        path: the field that chose them.
        pfc: whether RoCE is meant to be lossless.
    """
    priority, queue = classes.priority(ROCE_DSCP), classes.queue(CNP_DSCP)
    if pfc and not classes.is_lossless(ROCE_DSCP):
        lossless = [d for d in range(DSCPS) if classes.is_lossless(d)]
        yield Finding(
            "roce-in-lossy-class",
            Severity.WARNING,
            path,
            f"DSCP {ROCE_DSCP}, which hosts mark RoCE with, falls into priority {priority}, which"
            " has no PFC: bursts drop packets though PFC is configured",
            f"classes {classes.name}: lossless are DSCP {', '.join(map(str, lossless))}",
            f"map DSCP {ROCE_DSCP} to a lossless priority (classes: roce), at every hop",
        )
    if queue not in classes.strict:
        strict = ", ".join(map(str, classes.strict)) or "none"
        yield Finding(
            "cnp-not-strict",
            Severity.INFO,
            path,
            f"congestion notifications (DSCP {CNP_DSCP}) wait in queue {queue} behind other"
            " traffic: senders hear of congestion late",
            f"classes {classes.name}: strict queues {strict}",
            "serve their queue strictly (classes: roce)",
        )
