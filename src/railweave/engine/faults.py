"""Faults over time: what goes wrong while the packet engine runs, one small record a kind.

Devices and ports are named as ``--fail`` names them (``spine-1``, ``leaf-1:port-12``,
``node001/gpu3``, ``node001/nic0``); ``gpu-5`` and ``nic-5`` are the fifth GPU and the fifth
back-end NIC of the fabric. A fault holds from ``at_s`` to ``until_s``; without them it has been
there since before the run, and stays. :func:`railweave.engine.fault_text.parse_fault` reads
the command line's form, which ``str(fault)`` gives back.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from railweave.errors import InputError
from railweave.fabric import Fabric, LinkLayer, NodeKind, PlaneId
from railweave.fabric.names import UnknownNameError, find_duplex, find_node, find_port
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
    "check_fault",
    "find_device",
    "pipe_links",
    "port_links",
]

I64 = npt.NDArray[np.int64]
Interval = tuple[float, float]

#: from the loss of a link until distant switches have routed around it: worst outage measured with
#: real BGP routers that see their link go down (silent failures take seconds without BFD)
CONVERGENCE_S = 0.125

_ENDS = (NodeKind.GPU, NodeKind.HOST, NodeKind.STORAGE, NodeKind.EXTRA)
_NUMBERED = re.compile(r"(gpu|nic)-(\d+)")
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
class Fault:
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

    def _what(self) -> str:
        """Say what happens, without the times."""
        raise NotImplementedError

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


# ---------------------------------------------------------------- what the names mean


def find_device(fabric: Fabric, name: str, kinds: Iterable[NodeKind] = tuple(NodeKind)) -> int:
    """Return the node of a name, which must be of one of these kinds.

    Raises:
        InputError: there is none, or it is of another kind.
    """
    try:
        node = find_node(fabric, name)
    except UnknownNameError:
        match = _NUMBERED.fullmatch(name)
        if match is None:
            raise
        nodes = fabric.gpus if match[1] == "gpu" else fabric.nics(PlaneId.BACKEND)
        if not 1 <= int(match[2]) <= len(nodes):
            raise UnknownNameError(
                f"there is no {name!r} in this fabric; allowed: {match[1]}-1 to "
                f"{match[1]}-{len(nodes)}, or names such as node001/{match[1]}0"
            ) from None
        node = int(nodes[int(match[2]) - 1])
    is_of, kinds = NodeKind(int(fabric.node_kind[node])), tuple(kinds)
    if is_of not in kinds:
        allowed = ", ".join(_words(kind) for kind in kinds)
        raise InputError(f"{name!r} is a {_words(is_of)}; allowed: {allowed}")
    return node


def _words(kind: NodeKind) -> str:
    if kind in (NodeKind.GPU, NodeKind.NIC):
        return kind.name
    return kind.name.lower().replace("_", "-")


def port_links(fabric: Fabric, port: str) -> tuple[int, int]:
    """Return the directed links out of a port and into it.

    Raises:
        InputError: no such port, or the cable there is out already.
    """
    duplex = find_duplex(fabric, port)
    if not fabric.link_up[2 * duplex]:
        raise InputError(f"the link at {port} is out already; allowed: a link that is up")
    node, number = find_port(fabric, port)
    out = 2 * duplex
    here = fabric.link_src[out] == node and fabric.link_src_port[out] == number
    return (out, out + 1) if here else (out + 1, out)


#: fields with names, and what they may name; ports apart
_NAMES: dict[type[Fault], tuple[str, tuple[NodeKind, ...]]] = {
    SwitchReboot: ("device", (NodeKind.SWITCH,)),
    EcnOff: ("device", (NodeKind.SWITCH,)),
    WrongDscpMap: ("device", (NodeKind.SWITCH,)),
    MtuMismatch: ("device", (NodeKind.SWITCH,)),
    CnpWrongQueue: ("device", (NodeKind.SWITCH, NodeKind.NIC)),
    StuckReceiver: ("receiver", (*_ENDS, NodeKind.NIC)),
    SlowReceiver: ("receiver", (*_ENDS, NodeKind.NIC)),
    ReceiverNotReady: ("receiver", _ENDS),
    StragglerGpu: ("gpu", _ENDS),
    NicIgnoresCnp: ("nic", (NodeKind.NIC, *_ENDS[1:])),
    NicSendsNoCnp: ("nic", (NodeKind.NIC, *_ENDS[1:])),
}


def check_fault(fault: Fault, fabric: Fabric) -> int:
    """Return the node that a fault names, or the directed link out of the port it names.

    Raises:
        InputError: the fabric has no such device or port, or it is of the wrong kind.
    """
    try:
        if type(fault) in _NAMES:
            field, kinds = _NAMES[type(fault)]
            return find_device(fabric, getattr(fault, field), kinds)
        port: str = getattr(fault, "port")  # noqa: B009 - all others name a port
        return port_links(fabric, port)[0]
    except InputError as error:
        raise InputError(f"fault {str(fault)!r}: {error}") from None


def receiver_links(fabric: Fabric, node: int) -> I64:
    """Return the links from a NIC into memory: of one GPU or host, or of all behind one NIC."""
    from_nic = fabric.node_kind[fabric.link_src] == NodeKind.NIC
    inside = (fabric.link_layer == LinkLayer.PCIE) & from_nic
    return np.flatnonzero(inside & ((fabric.link_dst == node) | (fabric.link_src == node)))


def pipe_links(fabric: Fabric, faults: Iterable[Fault]) -> frozenset[int]:
    """Return the links into memory that a fault will hold up, whatever their speed.

    Raises:
        InputError: a name that the fabric does not have.
    """
    found: set[int] = set()
    for fault in faults:
        if isinstance(fault, StuckReceiver | SlowReceiver):
            found.update(receiver_links(fabric, check_fault(fault, fabric)).tolist())
    return frozenset(found)
