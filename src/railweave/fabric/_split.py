"""Ports of one switch: how many links a port carries, and how ports are split into down and up."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from railweave.errors import SizingError
from railweave.units import format_bits_rate

__all__ = ["PortSplit", "SwitchShape", "divisors", "fixed_split", "nearest_uplinks", "split_ports"]

#: part of the radix that may stay unused when that brings the ratio nearer to its target
UNUSED_SHARE = 8
#: two ratios nearer than this are the same
TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class SwitchShape:
    """What sizing needs of a switch.

    ``breakouts`` are ``(links from one port, speed of each in bit/s)``; the port unsplit is always
    allowed. ``max_links`` bounds the logical ports of the whole switch. ``fast_ports`` are a
    second, faster kind of port, as management switches have for their uplinks.
    """

    name: str
    ports: int
    speed_bps: float
    breakouts: tuple[tuple[int, float], ...] = ()
    max_links: int | None = None
    power_w: float = 0.0
    latency_s: float = 0.0
    fast_ports: int = 0
    fast_bps: float = 0.0

    @property
    def links_limit(self) -> int:
        """Most logical ports the switch can have."""
        widest = max([1, *(ways for ways, _ in self.breakouts)])
        return self.max_links if self.max_links is not None else self.ports * widest

    def ways(self, link_bps: float) -> int:
        """Return how many links of this speed one port carries; 0 where the port is too slow."""
        fitting = [ways for ways, bps in self.breakouts if bps >= link_bps * (1 - TOLERANCE)]
        if self.speed_bps >= link_bps * (1 - TOLERANCE):
            fitting.append(1)
        return max(fitting, default=0)

    def links(self, link_bps: float, spare_ports: int = 0) -> int:
        """Return how many links of this speed all its ports carry, less spares."""
        ways = self.ways(link_bps)
        if not ways:
            return self.fast_ports if self.fast_bps >= link_bps * (1 - TOLERANCE) else 0
        return max(0, min((self.ports - spare_ports) * ways, self.links_limit))

    @property
    def top_bps(self) -> float:
        """Speed of its fastest kind of port."""
        return max(self.speed_bps, self.fast_bps if self.fast_ports else 0.0)


@dataclass(frozen=True, slots=True)
class PortSplit:
    """Ports of one switch as they are provisioned.

    ``…_links`` are logical ports (after breakout), ``…_ports`` the physical ones behind them.
    """

    down_links: int
    up_links: int
    down_ports: int
    up_ports: int
    down_ways: int
    up_ways: int
    down_bps: float
    up_bps: float
    spare_ports: int
    target: float

    @property
    def achieved(self) -> float:
        """Provisioned down : up bandwidth; infinite without uplinks."""
        up = self.up_links * self.up_bps
        return self.down_links * self.down_bps / up if up else math.inf

    @property
    def exact(self) -> bool:
        """Whether the target is met to one part in ten thousand."""
        return abs(self.achieved - self.target) <= 1e-4 * self.target

    def physical_port(self, logical: int) -> tuple[int, int]:
        """Return (physical port, lane), both from 1, of a logical port number from 1."""
        if logical <= self.down_links:
            port, lane = divmod(logical - 1, self.down_ways)
            return port + 1, lane + 1
        if logical <= self.down_links + self.up_links:
            port, lane = divmod(logical - 1 - self.down_links, self.up_ways)
            return self.down_ports + port + 1, lane + 1
        port, lane = divmod(logical - 1 - self.down_links - self.up_links, self.down_ways)
        return self.down_ports + self.up_ports + port + 1, lane + 1


def divisors(number: int) -> list[int]:
    """Return all divisors of a positive number, ascending."""
    small = [k for k in range(1, math.isqrt(number) + 1) if number % k == 0]
    return small + [number // k for k in reversed(small) if k * k != number]


def _ways(shape: SwitchShape, link_bps: float, path: str) -> int:
    ways = shape.ways(link_bps)
    if not ways:
        raise SizingError(
            f"links of {format_bits_rate(link_bps)} do not fit the ports of {shape.name}",
            path=path,
            allowed=f"at most {format_bits_rate(shape.top_bps)}",
            nearest=format_bits_rate(shape.top_bps),
        )
    return ways


def _with_fast_uplinks(
    shape: SwitchShape, down_bps: float, up_bps: float, ratio: float, *, spare: int, path: str
) -> PortSplit | None:
    """Split a switch whose second kind of port takes the uplinks; None where it has none such."""
    if (
        not shape.fast_ports
        or up_bps > shape.fast_bps * (1 + TOLERANCE)
        or up_bps <= shape.speed_bps
    ):
        return None
    ways = _ways(shape, down_bps, f"{path}.speed")
    down_links = min((shape.ports - spare) * ways, shape.links_limit)
    up_links = min(shape.fast_ports, nearest_uplinks(down_links * down_bps, up_bps, ratio))
    return PortSplit(
        down_links=down_links,
        up_links=up_links,
        down_ports=shape.ports - spare,
        up_ports=up_links,
        down_ways=ways,
        up_ways=1,
        down_bps=down_bps,
        up_bps=up_bps,
        spare_ports=spare,
        target=ratio,
    )


def split_ports(
    shape: SwitchShape,
    down_bps: float,
    up_bps: float,
    ratio: float,
    *,
    spare: int = 0,
    path: str = "",
) -> PortSplit:
    """Split a switch's ports into down and up as near to ``ratio`` (down : up bandwidth) as can be.

    Every split is tried that leaves at most ``max(2, radix // 8)`` ports unused besides the
    ``spare`` physical ones; the nearest wins, then the one that uses more ports, then the one with
    more uplinks.

    Raises:
        SizingError: a link is faster than the port, or there are too few ports.
    """
    fast = _with_fast_uplinks(shape, down_bps, up_bps, ratio, spare=spare, path=path)
    if fast is not None:
        return fast
    down_ways = _ways(shape, down_bps, f"{path}.speed")
    up_ways = _ways(shape, up_bps, f"{path}.uplink_speed")
    usable = shape.ports - spare
    if usable < 2:
        raise SizingError(
            f"{shape.name} has {shape.ports} ports, of which {spare} are kept free: "
            "none are left for a link down and one up",
            path=f"{path}.spare_ports" if spare else f"{path}.switch",
        )
    slack = min(max(2, shape.ports // UNUSED_SHARE), usable - 2)
    used = np.arange(usable - slack, usable + 1)[:, None]
    down = np.arange(1, usable)[None, :]
    up = used - down
    limit = shape.links_limit
    up_links = np.minimum(up * up_ways, limit - 1)
    down_links = np.minimum(down * down_ways, limit - up_links)
    valid = (up >= 1) & (down_links >= 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        achieved = np.where(valid, down_links * down_bps / (up_links * up_bps), np.inf)
    error = np.round(np.abs(achieved - ratio) / ratio, 9)
    order = np.lexsort((achieved.ravel(), -np.broadcast_to(used, up.shape).ravel(), error.ravel()))
    best = np.unravel_index(order[0], up.shape)
    return PortSplit(
        down_links=int(down_links[best]),
        up_links=int(up_links[best]),
        down_ports=int(down[0, best[1]]),
        up_ports=int(up[best]),
        down_ways=down_ways,
        up_ways=up_ways,
        down_bps=down_bps,
        up_bps=up_bps,
        spare_ports=spare,
        target=ratio,
    )


def nearest_uplinks(down_bps: float, link_bps: float, ratio: float) -> int:
    """Return the number (≥ 1) of uplinks that brings down : up nearest to ``ratio``."""
    low = max(1, math.floor(down_bps / (ratio * link_bps)))
    error = [abs(down_bps / (n * link_bps) - ratio) for n in (low, low + 1)]
    return low if error[0] <= error[1] + TOLERANCE * ratio else low + 1


def fixed_split(
    shape: SwitchShape,
    down_links: int,
    down_bps: float,
    up_bps: float,
    ratio: float,
    *,
    spare: int = 0,
    path: str = "",
) -> PortSplit:
    """Give a switch with a fixed number of down links the uplinks nearest to ``ratio``.

    Raises:
        SizingError: the down links alone need more ports than there are.
    """
    fast = _with_fast_uplinks(shape, down_bps, up_bps, ratio, spare=spare, path=path)
    if fast is not None and down_links <= fast.down_links:
        up_links = min(shape.fast_ports, nearest_uplinks(down_links * down_bps, up_bps, ratio))
        ports = -(-down_links // fast.down_ways)
        return replace(
            fast, down_links=down_links, down_ports=ports, up_links=up_links, up_ports=up_links
        )
    down_ways = _ways(shape, down_bps, f"{path}.speed")
    up_ways = _ways(shape, up_bps, f"{path}.uplink_speed")
    down_ports = -(-down_links // down_ways)
    room = (shape.ports - spare - down_ports) * up_ways
    room = min(room, shape.links_limit - down_links)
    if room < 1:
        most = max(0, (shape.ports - spare - 1) * down_ways)
        raise SizingError(
            f"{down_links} links of {format_bits_rate(down_bps)} to servers of one rack or unit "
            f"leave no port of {shape.name} ({shape.ports} ports, {spare} kept free) for an uplink",
            path=f"{path}.switch",
            allowed=f"at most {most} such links",
        )
    up_links = min(nearest_uplinks(down_links * down_bps, up_bps, ratio), room)
    return PortSplit(
        down_links=down_links,
        up_links=up_links,
        down_ports=down_ports,
        up_ports=-(-up_links // up_ways),
        down_ways=down_ways,
        up_ways=up_ways,
        down_bps=down_bps,
        up_bps=up_bps,
        spare_ports=spare,
        target=ratio,
    )
