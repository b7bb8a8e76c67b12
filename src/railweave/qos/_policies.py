"""Thresholds as functions of a port: plain values that compare, print and pickle."""

from __future__ import annotations

from dataclasses import dataclass

from railweave.qos._asics import Asic
from railweave.qos._ecn import EcnProfile, EcnThresholds, ecn_ceiling_bytes, ecn_rule
from railweave.qos._headroom import headroom, peer_response_bytes

__all__ = ["EcnOfPort", "HeadroomOfPort", "PauseResponse", "PortCounts"]

#: length taken where thresholds of a switch are asked for without its cables
REFERENCE_CABLE_M = 40.0


@dataclass(frozen=True, slots=True)
class PortCounts:
    """How many ports of a speed a switch has when all of them run at it."""

    by_speed: tuple[tuple[float, int], ...]

    def __call__(self, speed_bps: float) -> int:
        """Return the ports at this speed; at one it does not list, what its capacity gives."""
        for speed, count in self.by_speed:
            if speed == speed_bps:
                return count
        capacity = max((speed * count for speed, count in self.by_speed), default=speed_bps)
        return max(1, int(capacity // speed_bps))


@dataclass(frozen=True, slots=True)
class HeadroomOfPort:
    """Headroom in bytes of one lossless priority group by speed and length of its port.

    ``fixed_bytes`` replaces the rule. Without a lossless class (``asic`` None) it is 0. A speed
    that the rule does not list takes the response of the next faster one.
    """

    asic: Asic | None
    mtu_bytes: int
    fixed_bytes: int | None = None

    def __call__(self, speed_bps: float, length_m: float) -> int:
        """Return the headroom of a port."""
        if self.asic is None:
            return 0
        if self.fixed_bytes is not None:
            return self.fixed_bytes
        rule = headroom(speed_bps, length_m, self.asic, self.mtu_bytes, any_speed=True)
        return rule.xoff_bytes


@dataclass(frozen=True, slots=True)
class PauseResponse:
    """Seconds from the arrival of a pause to the last bit still sent, by speed of the port."""

    asic: Asic | None

    def __call__(self, speed_bps: float) -> float:
        """Return the response time of a port; 0 where there is no PFC."""
        if self.asic is None or speed_bps <= 0:
            return 0.0
        return peer_response_bytes(self.asic, speed_bps) * 8 / speed_bps


@dataclass(frozen=True, slots=True)
class EcnOfPort:
    """ECN thresholds of an egress queue by priority and speed of its port.

    ``marked`` are the priorities that are marked at all. ``choice`` are thresholds as they are, a
    profile, or None for the rule. ``groups`` lossless priority groups a port take
    ``reserved_bytes`` and their headroom out of ``buffer_bytes``; ``alpha`` (or
    ``threshold_bytes``) is where they pause, or where a queue drops without PFC.
    """

    marked: tuple[int, ...]
    choice: EcnThresholds | EcnProfile | None
    rtt_s: float
    buffer_bytes: float
    reserved_bytes: int
    groups: int
    alpha: float
    threshold_bytes: int | None
    headroom: HeadroomOfPort
    ports: PortCounts

    def __call__(self, priority: int, speed_bps: float) -> EcnThresholds | None:
        """Return the thresholds of a queue; None where its packets are not marked.

        Raises:
            InputError: the profile has no thresholds for this speed.
        """
        if priority not in self.marked:
            return None
        if isinstance(self.choice, EcnThresholds):
            return self.choice
        if self.choice is not None:
            return self.choice.at(speed_bps, self.full_bytes(speed_bps))
        return ecn_rule(speed_bps, self.ceiling_bytes(speed_bps), rtt_s=self.rtt_s)

    def shared_bytes(self, speed_bps: float) -> float:
        """Return the shared pool with all ports at this speed, on cables of 40 m."""
        each = self.reserved_bytes + self.headroom(speed_bps, REFERENCE_CABLE_M)
        return max(0.0, self.buffer_bytes - self.ports(speed_bps) * self.groups * each)

    def full_bytes(self, speed_bps: float) -> float:
        """Return the shortest queue at which PFC fires (or packets drop): all from one port."""
        if self.threshold_bytes is not None:
            return float(self.threshold_bytes)
        return ecn_ceiling_bytes(self.shared_bytes(speed_bps), self.alpha, 1)

    def ceiling_bytes(self, speed_bps: float) -> float:
        """Return the highest Kmax that is below it even with every port congested at once."""
        if self.threshold_bytes is not None:
            return float(self.threshold_bytes)
        ports = self.ports(speed_bps)
        return ecn_ceiling_bytes(self.shared_bytes(speed_bps), self.alpha, ports)
