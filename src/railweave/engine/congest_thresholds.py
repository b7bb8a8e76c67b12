"""Thresholds of a congested switch: read from text, and when a queue gets to them by itself."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from railweave.engine.congest import CongestCase, most_pfc_bytes
from railweave.errors import InputError
from railweave.qos import EcnThresholds
from railweave.units import format_bytes, parse_bytes

__all__ = ["Unanswered", "fitting_pfc_bytes", "marking", "threshold_bytes", "unanswered"]


def threshold_bytes(what: str, text: str, buffer_bytes: int) -> int:
    """Read a size, or a part of the buffer such as ``40%``.

    Args:
        what: its name, for errors.
        text: as a user writes it.
        buffer_bytes: of the switch.

    Raises:
        InputError: it is neither, or above the buffer.
    """
    text = text.strip()
    allowed = (
        f"allowed: 1% to 100% of the buffer, a size up to {format_bytes(buffer_bytes)}, or off"
    )
    if text.endswith("%"):
        try:
            size = float(text[:-1]) / 100 * buffer_bytes
        except ValueError:
            raise InputError(f"{what} {text}: not a number before %; {allowed}") from None
    elif text[:1].isdigit() or text[:1] == ".":
        size = float(parse_bytes(text))
    else:
        raise InputError(f"{what} {text}: neither a percentage nor a size; {allowed}")
    if not 1 <= size <= buffer_bytes:
        raise InputError(f"{what} {text}: out of range; {allowed}")
    return round(size)


def marking(what: str, text: str, pmax: float, buffer_bytes: int) -> EcnThresholds | None:
    """Read one ECN threshold, two as ``5%..20%`` (Kmin to Kmax), or ``off`` (None).

    Args:
        what: its name, for errors.
        text: as a user writes it.
        pmax: probability of a mark just below Kmax.
        buffer_bytes: of the switch.

    Raises:
        InputError: it is none of them.
    """
    if text.strip() == "off":
        return None
    low, _, high = text.partition("..")
    kmin = threshold_bytes(what, low, buffer_bytes)
    return EcnThresholds(kmin, threshold_bytes(what, high, buffer_bytes) if high else kmin, pmax)


def fitting_pfc_bytes(case: CongestCase, wanted_bytes: int) -> int:
    """Return a PFC threshold, lowered to what the ports' headroom leaves of the buffer."""
    return min(wanted_bytes, most_pfc_bytes(replace(case, pfc_bytes=None)))


@dataclass(frozen=True, slots=True)
class Unanswered:
    """When the queue of senders that never slow down reaches each length, in s from the start.

    ``ecn_s`` is when marks begin (Kmin), ``pfc_s`` when pauses would, ``full_s`` when the buffer is
    full. Infinity: never, since the egress takes all or there is no such threshold. The queue grows
    by ``excess_bps`` all the time, so that each is 8 · threshold / excess. Cables, the switch's
    latency and the length of a packet, which are left out, make it later by a microsecond or two.
    """

    excess_bps: float
    ecn_s: float
    pfc_s: float
    full_s: float


def unanswered(case: CongestCase) -> Unanswered:
    """Return the closed forms of a queue to which nobody reacts."""
    excess = case.excess_bps

    def after(size_bytes: float | None) -> float:
        return math.inf if size_bytes is None or excess <= 0 else 8 * size_bytes / excess

    return Unanswered(
        excess_bps=excess,
        ecn_s=after(None if case.ecn is None else case.ecn.kmin_bytes),
        pfc_s=after(case.pfc_bytes),
        full_s=after(case.buffer_bytes),
    )
