"""Faults over time: what goes wrong while the packet engine runs, one small record a kind.

Devices and ports are named as ``--fail`` names them (``spine-1``, ``leaf-1:port-12``,
``node001/gpu3``, ``node001/nic0``); ``gpu-5`` and ``nic-5`` are the fifth GPU and the fifth
back-end NIC of the fabric. A fault holds from ``at_s`` to ``until_s``; without them it has been
there since before the run, and stays. :func:`railweave.engine.fault_text.parse_fault` reads
the command line's form, which ``str(fault)`` gives back.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

from railweave.errors import InputError
from railweave.qos import classes_named

__all__ = [
    "CONVERGENCE_S",
    "BitErrors",
    "CnpWrongQueue",
    "EcnOff",
    "Fault",
    "LinkDown",
    "LinkFlap",
    "LinkSlow",
    "MtuMismatch",
    "NicIgnoresCnp",
    "NicSendsNoCnp",
    "Outage",
    "PfcOff",
    "ReceiverNotReady",
    "SlowReceiver",
    "StragglerGpu",
    "StuckReceiver",
    "SwitchReboot",
    "WrongDscpMap",
    "time_text",
]

Interval = tuple[float, float]

#: from the loss of a link until distant switches have routed around it: worst outage measured with
#: real BGP routers that see their link go down (silent failures take seconds without BFD)
CONVERGENCE_S = 0.125

_PRIORITIES = 8


def _need(ok: bool, fault: Fault, what: str, allowed: str) -> None:
    if not ok:
        raise InputError(f"{type(fault).__name__}: {what}; allowed: {allowed}")


def time_text(seconds: float) -> str:
    """Write a time so that reading it gives the same number again."""
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "us"), (1e9, "ns")):
        text = f"{seconds * factor:.6g}"
        if seconds * factor >= 1 and float(text) / factor == seconds:
            return f"{text}{unit}"
    return f"{seconds!r}s"


@dataclass(frozen=True, kw_only=True)
class Fault(ABC):
    """Something wrong from ``at_s`` to ``until_s``, in seconds of simulated time.

    ``until_s`` of None is for good; ``at_s`` of 0 is since before the run: routes, where a link
    or a switch is out, have converged already.

    Raises:
        InputError: times that cannot be.
    """

    at_s: float = 0.0
    until_s: float | None = None

    def __post_init__(self) -> None:
        _need(
            0 <= self.at_s < math.inf, self, f"at_s is {self.at_s!r}", "a time of 0 or more, in s"
        )
        end = self.until_s
        _need(
            end is None or self.at_s < end < math.inf,
            self,
            f"until_s is {end!r}, at_s {self.at_s!r}",
            "a time after at_s, or None for good",
        )

    def intervals(self) -> tuple[Interval, ...]:
        """Return the times between which it is in force."""
        return ((self.at_s, math.inf if self.until_s is None else self.until_s),)

    @abstractmethod
    def _what(self) -> str:
        """Say what happens, without the times."""

    def __str__(self) -> str:
        at = f" at {time_text(self.at_s)}" if self.at_s else ""
        until = "" if self.until_s is None else f" until {time_text(self.until_s)}"
        return self._what() + at + until


@dataclass(frozen=True, kw_only=True)
class Outage(Fault):
    """A fault that routes go around.

    A switch that loses a link upwards spreads at once over those it has left, where its routing is
    by equal-cost sets; all others go around it ``convergence_s`` later. A link that comes back
    carries traffic again ``convergence_s`` after that. With forwarding tables (InfiniBand) nothing
    changes before ``convergence_s``: that is the subnet manager's time, often seconds.
    """

    convergence_s: float = CONVERGENCE_S

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        ok = 0 <= self.convergence_s < math.inf
        _need(ok, self, f"convergence_s is {self.convergence_s!r}", "a time of 0 or more, in s")

    def __str__(self) -> str:
        own = self.convergence_s != CONVERGENCE_S
        return Fault.__str__(self) + (
            f" convergence {time_text(self.convergence_s)}" if own else ""
        )


@dataclass(frozen=True)
class LinkDown(Outage):
    """The cable at a port carries nothing, either way."""

    port: str

    def _what(self) -> str:
        return f"link {self.port} down"


@dataclass(frozen=True)
class LinkFlap(Outage):
    """The cable at a port goes down and up ``times`` times.

    Each period begins down and stays so for ``down_share`` of it. ``until_s`` ends it early.
    """

    port: str
    period_s: float
    times: int
    down_share: float = 0.5

    def __post_init__(self) -> None:
        Outage.__post_init__(self)
        ok = 0 < self.period_s < math.inf
        _need(ok, self, f"period_s is {self.period_s!r}", "a time above 0, in s")
        _need(1 <= self.times <= 100_000, self, f"times is {self.times!r}", "1 to 100,000")
        ok = 0 < self.down_share < 1
        _need(ok, self, f"down_share is {self.down_share!r}", "more than 0 and less than 1")

    def intervals(self) -> tuple[Interval, ...]:
        """Return the times between which the cable is down."""
        end = math.inf if self.until_s is None else self.until_s
        down = self.period_s * self.down_share
        starts = (self.at_s + k * self.period_s for k in range(self.times))
        return tuple((s, min(s + down, end)) for s in starts if s < end)

    def _what(self) -> str:
        share = f" down {self.down_share!r}" if self.down_share != 0.5 else ""
        return f"link {self.port} flaps {time_text(self.period_s)} {self.times} times{share}"


@dataclass(frozen=True)
class SwitchReboot(Outage):
    """A switch loses all that waits in it, and its links are down until it is back."""

    device: str

    def _what(self) -> str:
        return f"switch {self.device} reboot"


@dataclass(frozen=True)
class LinkSlow(Fault):
    """The cable at a port runs at a part of its speed, both ways; routes do not heed it."""

    port: str
    factor: float

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        _need(0 < self.factor <= 1, self, f"factor is {self.factor!r}", "more than 0, at most 1")

    def _what(self) -> str:
        return f"link {self.port} slow {self.factor!r}"


@dataclass(frozen=True)
class BitErrors(Fault):
    """Packets over the cable at a port are lost at random: bit errors that FEC leaves.

    Exactly one is given: ``loss``, the chance of a packet; or ``ber``, the residual bit error rate
    after FEC, from which the chance follows by :meth:`loss_of`. ``way`` is ``in`` (what arrives at
    the port), ``out`` or ``both``.
    """

    port: str
    loss: float | None = None
    ber: float | None = None
    way: Literal["in", "out", "both"] = "both"

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        given = [v for v in (self.loss, self.ber) if v is not None]
        _need(len(given) == 1, self, f"loss {self.loss!r}, ber {self.ber!r}", "one of the two")
        _need(0 <= given[0] <= 1, self, f"a chance of {given[0]!r}", "0 to 1")
        _need(self.way in ("in", "out", "both"), self, f"way {self.way!r}", "in, out, both")

    def loss_of(self, packet_bytes: float) -> float:
        """Return the chance that a packet of so many wire bytes is lost.

        With ``ber``: 1 − (1 − ber)^bits, errors being independent. What FEC leaves comes in bursts
        of a codeword, so this is the highest loss that a bit error rate can mean.
        """
        if self.loss is not None or self.ber is None:
            return float(self.loss or 0.0)
        if self.ber == 1:
            return 1.0
        return -math.expm1(8 * packet_bytes * math.log1p(-self.ber))

    def _what(self) -> str:
        how = f"loss {self.loss!r}" if self.loss is not None else f"ber {self.ber!r}"
        return f"link {self.port} {how}" + ("" if self.way == "both" else f" {self.way}")


@dataclass(frozen=True)
class EcnOff(Fault):
    """A switch marks no packets."""

    device: str

    def _what(self) -> str:
        return f"ecn {self.device} off"


@dataclass(frozen=True)
class PfcOff(Fault):
    """PFC is off on one port: it asks for no pauses, and those asked of it have no effect."""

    port: str

    def _what(self) -> str:
        return f"pfc {self.port} off"


@dataclass(frozen=True)
class WrongDscpMap(Fault):
    """A switch maps DSCPs to priorities as other traffic classes do (``sonic-default``).

    Only the map is wrong: which priorities are lossless, marked and strict there stays as it is.
    """

    device: str
    classes: str

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        classes_named(self.classes)

    def _what(self) -> str:
        return f"dscp {self.device} {self.classes}"


@dataclass(frozen=True)
class MtuMismatch(Fault):
    """A switch drops IP packets of more than ``mtu_bytes``."""

    device: str
    mtu_bytes: int

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        ok = 68 <= self.mtu_bytes <= 65_535  # RFC 791: what every IP module must forward
        _need(ok, self, f"mtu_bytes is {self.mtu_bytes!r}", "68 to 65,535")

    def _what(self) -> str:
        return f"mtu {self.device} {self.mtu_bytes}"


@dataclass(frozen=True)
class CnpWrongQueue(Fault):
    """Congestion notifications go in the wrong priority.

    A NIC sends its own in ``priority``; a switch serves those of all from there.
    """

    device: str
    priority: int

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        ok = 0 <= self.priority < _PRIORITIES
        _need(ok, self, f"priority is {self.priority!r}", "0 to 7")

    def _what(self) -> str:
        return f"cnp {self.device} priority {self.priority}"


@dataclass(frozen=True)
class StuckReceiver(Fault):
    """A GPU, or all behind a NIC, takes nothing more out of the NIC's buffer: a pause storm."""

    receiver: str

    def _what(self) -> str:
        return f"receiver {self.receiver} stuck"


@dataclass(frozen=True)
class SlowReceiver(Fault):
    """The way from a NIC into memory runs at a part of its speed (PCIe at half its lanes)."""

    receiver: str
    factor: float

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        _need(0 < self.factor <= 1, self, f"factor is {self.factor!r}", "more than 0, at most 1")

    def _what(self) -> str:
        return f"receiver {self.receiver} slow {self.factor!r}"


@dataclass(frozen=True)
class ReceiverNotReady(Fault):
    """A GPU posts no receives: what comes for it is answered by RNR NAKs."""

    receiver: str

    def _what(self) -> str:
        return f"receiver {self.receiver} not-ready"


@dataclass(frozen=True)
class StragglerGpu(Fault):
    """A GPU is late by ``delay_s`` with every chunk that it sends."""

    gpu: str
    delay_s: float

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        ok = 0 < self.delay_s < math.inf
        _need(ok, self, f"delay_s is {self.delay_s!r}", "a time above 0, in s")

    def _what(self) -> str:
        return f"gpu {self.gpu} straggles {time_text(self.delay_s)}"


@dataclass(frozen=True)
class NicIgnoresCnp(Fault):
    """A NIC does not slow down when it is told of congestion (reaction point off)."""

    nic: str

    def _what(self) -> str:
        return f"nic {self.nic} ignores-cnp"


@dataclass(frozen=True)
class NicSendsNoCnp(Fault):
    """A NIC tells nobody of marked packets (notification point off)."""

    nic: str

    def _what(self) -> str:
        return f"nic {self.nic} sends-no-cnp"
