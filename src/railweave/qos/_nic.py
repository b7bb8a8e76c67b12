"""`NicQos`: all that the packet engine needs of a network adapter's port."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from railweave.design.models import CongestionName, CongestionProfile, CongestionSpec, Transport
from railweave.qos._algorithms import Dcqcn, algorithm
from railweave.qos._headroom import DEFAULT_MTU_BYTES
from railweave.qos._policies import REFERENCE_CABLE_M, PauseResponse
from railweave.qos._switch import scheme_of

__all__ = ["NicQos", "Retry", "nic_qos"]

#: profiles that take what they react to from every ACK
_EVERY_ACK: Final = frozenset(
    {
        CongestionProfile.HPCC,
        CongestionProfile.TIMELY,
        CongestionProfile.SWIFT,
        CongestionProfile.NSCC,
    }
)
#: least time between two notifications of a queue pair where the profile says nothing
_CNP_DEFAULT_S: Final = 4e-6
_RECEIVE_BUFFER_BYTES: Final = 2 << 20
_ROCE_PRIORITY, _CNP_PRIORITY = 3, 6
_TIMEOUT_UNIT_S: Final = 4.096e-6
#: how far a packet may be overtaken before it counts as lost, with selective repeat (assumed)
_REORDER_PACKETS: Final = 128
#: 7 retries without a receive request mean for ever (InfiniBand specification, RNR retry count)
RNR_FOR_EVER: Final = 7


@dataclass(frozen=True, slots=True)
class Retry:
    """Retry arithmetic of a reliable connection, as verbs count it.

    The timer is 4.096 µs × 2^``timeout``; after ``retries`` of it in a row, a message has failed.
    ``rnr_retries`` of 7 wait for ever.
    """

    timeout: int
    retries: int
    rnr_timer_s: float
    rnr_retries: int

    @property
    def timer_s(self) -> float:
        """Time without an ACK after which the sender repeats."""
        return float(_TIMEOUT_UNIT_S * 2**self.timeout)

    @property
    def gives_up_s(self) -> float:
        """Least time from the last ACK to a failed message."""
        return (self.retries + 1) * self.timer_s


@dataclass(frozen=True, slots=True)
class NicQos:
    """Buffers, priorities and transport habits of an adapter's port.

    The port asks for a pause when its receive buffer holds more than ``rx_xoff_bytes`` and ends it
    below ``rx_xon_bytes``; ``pfc_response_s(speed_bps)`` is how long it still sends when paused
    itself, None: as long as the headroom rule of its switch takes for granted. ``profile`` names
    the parameter set of its congestion control, as :func:`railweave.qos.algorithm` knows it. With
    ``selective_repeat`` a packet counts as lost when ``reorder_packets`` later ones have overtaken
    it; without, as soon as one has.
    """

    rx_buffer_bytes: int
    rx_xoff_bytes: int
    rx_xon_bytes: int
    pfc_response_s: PauseResponse | None
    profile: str
    cnp_interval_s: float
    cnp_priority: int
    data_priority: int
    ack_priority: int
    ack_every: int
    retry: Retry
    selective_repeat: bool
    reorder_packets: int
    ignores_cnp: bool
    sends_cnp: bool


def nic_qos(
    congestion: CongestionSpec | None = None,
    transport: Transport = Transport.ROCEV2,
    *,
    speed_bps: float,
    cable_m: float = REFERENCE_CABLE_M,
    mtu_bytes: int = DEFAULT_MTU_BYTES,
) -> NicQos:
    """Make the settings of an adapter's port.

    The receive buffer keeps free what may arrive after a pause, by the rule of the mlx5 driver
    (from memory): (301 + 2.16 · length in m) · speed in Gb/s + 2.72 · MTU bytes. Buffer sizes are
    not published: 2 MiB are assumed, more where the rule needs it.

    Args:
        congestion: what the design says of the plane; None takes every default.
        transport: of the plane.
        speed_bps: of the port.
        cable_m: length of its cable.
        mtu_bytes: largest IP packet.
    """
    spec = congestion or CongestionSpec()
    scheme = scheme_of(spec, transport)
    profile = spec.profile or next(iter(scheme.profiles), None)
    tcp, roce = transport is Transport.TCP, transport is Transport.ROCEV2
    kept = pause_reserve_bytes(speed_bps, cable_m, mtu_bytes)
    buffer = spec.receive_buffer or max(_RECEIVE_BUFFER_BYTES, kept + 8 * mtu_bytes)
    xoff = max(mtu_bytes, buffer - kept)
    selective = spec.selective_repeat
    if selective is None:
        selective = tcp or scheme is CongestionName.NSCC
    reorder = spec.reorder_packets
    if reorder is None:
        reorder = _REORDER_PACKETS if selective else 0
    ack_every = spec.ack_every or (2 if tcp else 1 if profile in _EVERY_ACK else 16)
    return NicQos(
        rx_buffer_bytes=buffer,
        rx_xoff_bytes=xoff,
        rx_xon_bytes=max(0, xoff - mtu_bytes),
        pfc_response_s=None,
        profile="none" if profile is None else profile.value,
        cnp_interval_s=spec.cnp_interval or _cnp_interval(profile, speed_bps),
        cnp_priority=_CNP_PRIORITY if roce else 0,
        data_priority=_ROCE_PRIORITY if roce else 0,
        ack_priority=_ROCE_PRIORITY if roce else 0,
        ack_every=ack_every,
        retry=Retry(spec.timeout, spec.retries, spec.rnr_timer, spec.rnr_retries),
        selective_repeat=selective,
        reorder_packets=reorder,
        ignores_cnp=False,
        sends_cnp=scheme.notifies,
    )


def _cnp_interval(profile: CongestionProfile | None, speed_bps: float) -> float:
    """Return the interval that goes with a parameter set."""
    control = None if profile is None else algorithm(profile.value, speed_bps)
    return control.cnp_interval_s if isinstance(control, Dcqcn) else _CNP_DEFAULT_S


def pause_reserve_bytes(speed_bps: float, cable_m: float, mtu_bytes: int) -> int:
    """Return what an adapter keeps free above its pause threshold."""
    return int((301 + 2.16 * cable_m) * speed_bps / 1e9 + 2.72 * mtu_bytes)
