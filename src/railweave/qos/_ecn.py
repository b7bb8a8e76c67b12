"""ECN marking thresholds: those used in the field, and a rule by which they follow from the switch.

A switch marks no packet while its egress queue is below Kmin, all above Kmax, and between them
with a probability that grows from 0 to Pmax (RED).

The rule:

- Kmin is what the line carries in one round trip, so that marks come when a queue stands and not
  at every burst. It is above the least that DCTCP needs for full use (speed · RTT / 7, SIGCOMM
  2010).
- Kmax is four times that, the ratio of the set that simulators use.
- Kmax stays where ECN acts before PFC even if every port is congested at once: with n ports that
  hold Kmax each, the pause threshold of a priority group is α · (shared − n · Kmax), so
  Kmax ≤ α · shared / (1 + n · α) (the argument of the DCQCN paper, section 4, SIGCOMM 2015).
  Where this lowers Kmax, Kmin becomes a quarter of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from railweave.errors import InputError
from railweave.formats.validation import list_names, nearest
from railweave.provenance import Certainty, Source
from railweave.units import format_bits_rate

__all__ = [
    "DEFAULT_RTT_S",
    "ECN_PROFILES",
    "RULE_SOURCE",
    "EcnProfile",
    "EcnThresholds",
    "ecn_ceiling_bytes",
    "ecn_profile",
    "ecn_rule",
]

#: round trip without queues, for the rule: a few hops, cables and adapters; assumed
DEFAULT_RTT_S: Final = 8e-6
RULE_SOURCE: Final = Source(
    "railweave's rule: one round trip, ratio of the simulator set, below the pause threshold",
    Certainty.ESTIMATED,
)
_RATIO: Final = 4
_PMAX: Final = 0.2
_FRAME: Final = 1518
KB: Final = 1000
MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class EcnThresholds:
    """Thresholds of one egress queue.

    ``weight`` is that of the newest sample in the averaged queue (0 < weight < 1); 0 stands for
    the queue as it is.
    """

    kmin_bytes: int
    kmax_bytes: int
    pmax: float
    weight: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.kmin_bytes <= self.kmax_bytes:
            raise InputError(
                f"ECN thresholds of {self.kmin_bytes:,} B and {self.kmax_bytes:,} B;"
                " allowed: 0 ≤ kmin ≤ kmax"
            )
        if not 0 < self.pmax <= 1 or not 0 <= self.weight < 1:
            raise InputError(
                f"ECN with pmax {self.pmax:g} and weight {self.weight:g}; allowed: pmax above 0"
                " up to 1, weight from 0 to below 1"
            )

    def probability(self, queue_bytes: float) -> float:
        """Return the probability with which a packet is marked at this queue length."""
        if queue_bytes <= self.kmin_bytes:
            return 0.0
        if queue_bytes > self.kmax_bytes:
            return 1.0
        span = self.kmax_bytes - self.kmin_bytes
        return self.pmax * (queue_bytes - self.kmin_bytes) / span


@dataclass(frozen=True, slots=True)
class EcnProfile:
    """Thresholds under a name.

    Exactly one of three is given: ``fixed``, ``by_speed`` (speed in b/s), or ``fill``: kmin and
    kmax as shares of the queue length at which PFC fires, with ``pmax``.
    """

    name: str
    source: Source
    fixed: EcnThresholds | None = None
    by_speed: Mapping[int, EcnThresholds] | None = None
    fill: tuple[float, float] | None = None
    pmax: float = 1.0

    def at(self, speed_bps: float, full_bytes: float) -> EcnThresholds:
        """Return the thresholds of a port.

        Args:
            speed_bps: of the port.
            full_bytes: queue length at which PFC fires, or at which a lossy queue drops.

        Raises:
            InputError: the profile has no thresholds for this speed.
        """
        if self.fixed is not None:
            return self.fixed
        if self.fill is not None:
            low, high = self.fill
            return EcnThresholds(int(low * full_bytes), int(high * full_bytes), self.pmax)
        known = self.by_speed or {}
        if speed_bps not in known:
            raise InputError(
                f"the ECN profile {self.name!r} has no thresholds for"
                f" {format_bits_rate(speed_bps)}; allowed: "
                + list_names(format_bits_rate(speed) for speed in known)
                + "; take another profile, {kmin, kmax, pmax}, or rule"
            )
        return known[int(speed_bps)]


def _simulator() -> EcnProfile:
    """Return the set of the common simulators: kmin and kmax in KB by speed."""
    table = {100: (400, 1600), 400: (800, 3200)}
    return EcnProfile(
        "simulator",
        Source("common simulator configuration: 400/1600 KB at 100G, 800/3200 KB at 400G"),
        by_speed={
            gbps * 10**9: EcnThresholds(low * KB, high * KB, 0.2)
            for gbps, (low, high) in table.items()
        },
    )


ECN_PROFILES: Final[dict[str, EcnProfile]] = {
    profile.name: profile
    for profile in (
        EcnProfile(
            "cumulus",
            Source("Cumulus Linux, RoCE defaults"),
            fixed=EcnThresholds(150 * KB, 1500 * KB, 1.0),
        ),
        EcnProfile(
            "cisco",
            Source("Cisco guide for AI networks", Certainty.ESTIMATED),
            fixed=EcnThresholds(150 * KB, 3000 * KB, 0.07),
        ),
        EcnProfile(
            "sonic",
            Source("SONiC QoS template, WRED profile AZURE_LOSSLESS"),
            fixed=EcnThresholds(MIB, 2 * MIB, 0.05),
        ),
        EcnProfile(
            "tomahawk5",
            Source("published Tomahawk 5 configuration"),
            fixed=EcnThresholds(128 << 10, 256 << 10, 0.05),
        ),
        EcnProfile(
            "juniper",
            Source(
                "Juniper AI data centre design, 55 % and 90 % of fill; full taken as the queue at"
                " which PFC fires",
                Certainty.ESTIMATED,
            ),
            fill=(0.55, 0.90),
        ),
        EcnProfile(
            "paper",
            Source("DCQCN (SIGCOMM 2015), at 40G", Certainty.ESTIMATED),
            fixed=EcnThresholds(5 * KB, 200 * KB, 0.01),
        ),
        _simulator(),
    )
}


def ecn_profile(name: str) -> EcnProfile:
    """Return a profile by name.

    Raises:
        InputError: there is none of this name.
    """
    if name not in ECN_PROFILES:
        near = nearest(name, ECN_PROFILES)
        raise InputError(
            f"there is no ECN profile {name!r}; allowed: {list_names(ECN_PROFILES)}"
            + (f"; did you mean {near!r}?" if near else "")
        )
    return ECN_PROFILES[name]


def ecn_ceiling_bytes(shared_bytes: float, alpha: float, ports: int) -> float:
    """Return the highest Kmax at which ECN acts before PFC with every port congested at once.

    Args:
        shared_bytes: shared pool, reserved room and headroom taken off.
        alpha: dynamic threshold of the lossless priority groups.
        ports: ports of the switch.
    """
    return max(0.0, alpha * shared_bytes / (1 + ports * alpha))


def ecn_rule(
    speed_bps: float, ceiling_bytes: float, *, rtt_s: float = DEFAULT_RTT_S
) -> EcnThresholds:
    """Choose the thresholds of a port from its speed, the round trip and the pause threshold.

    Args:
        speed_bps: of the port.
        ceiling_bytes: highest Kmax, as of :func:`ecn_ceiling_bytes`.
        rtt_s: round trip without queues.
    """
    kmin = max(2 * _FRAME, int(speed_bps * rtt_s / 8))
    kmax = _RATIO * kmin
    if kmax > ceiling_bytes:
        kmax = max(_RATIO * 2 * _FRAME, int(ceiling_bytes))
        kmin = kmax // _RATIO
    return EcnThresholds(kmin, kmax, _PMAX)
