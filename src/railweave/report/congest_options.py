"""A congested switch as people ask for it: options as text, thresholds as parts of the buffer.

Command line and REST API read the same options; ``name`` says how an option is called there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from railweave.errors import InputError

if TYPE_CHECKING:
    from railweave.engine.congest import CongestCase
    from railweave.qos import EcnThresholds

__all__ = [
    "ECN",
    "GRID_ECN",
    "GRID_PFC",
    "GRID_PROFILES",
    "PFC",
    "PROFILE",
    "Asked",
    "base_case",
    "option",
    "with_thresholds",
]

#: thresholds and profile where none are asked for, and those of a sweep
ECN: Final = "40%"
PFC: Final = "80%"
PROFILE: Final = "dcqcn-firmware"
GRID_ECN: Final = "5%,20%,40%,60%"
GRID_PFC: Final = "20%,50%,80%"
GRID_PROFILES: Final = "dcqcn-firmware,dcqcn-paper,dcqcn-simulator"


def option(name: str) -> str:
    """Return what an option is called on the command line."""
    return f"--{name}"


class Asked(NamedTuple):
    """What the options ask for, thresholds in bytes.

    ``lowered`` is the text of PFC's where headroom lowered them.
    """

    base: CongestCase
    ecn: list[EcnThresholds | None]
    pfc: list[int | None]
    profiles: list[str]
    lowered: str


def _several(option: str, text: str, sweep: bool) -> list[str]:
    """Split a list by commas; without a sweep there is one value.

    Raises:
        InputError: several values without a sweep, or none.
    """
    values = [value.strip() for value in text.split(",") if value.strip()]
    if not values:
        raise InputError(f"{option}: nothing is named; leave it out for the default")
    if len(values) > 1 and not sweep:
        # Only the command line has sweeps.
        need = (
            " need --sweep; name one, or add --sweep" if option.startswith("--") else "; name one"
        )
        raise InputError(f"{option} {text}: several values{need}")
    return list(dict.fromkeys(values))


def base_case(  # noqa: PLR0917 - as many as the case has
    senders: int,
    speeds: tuple[str, str],
    buffer: str,
    size: str | None,
    duration: str | None,
    cable: str,
    mtu: str,
    seed: int,
    name: Callable[[str], str] = option,
) -> CongestCase:
    """Return the case without thresholds; ``speeds`` are a sender's and the egress'.

    Raises:
        InputError: a value that cannot be read or cannot be.
    """
    from railweave.engine.congest import DEFAULT_DURATION_S, CongestCase
    from railweave.units import parse_bps, parse_bytes, parse_metres, parse_seconds

    if size is not None and duration is not None:
        raise InputError(
            f"{name('size')} and {name('duration')}: a run ends by one of them; leave the other out"
        )
    return CongestCase(
        senders=senders,
        sender_bps=parse_bps(speeds[0]),
        egress_bps=parse_bps(speeds[1]),
        buffer_bytes=int(parse_bytes(buffer)),
        ecn=None,
        pfc_bytes=None,
        profile="none",
        size_bytes=None if size is None else parse_bytes(size),
        duration_s=DEFAULT_DURATION_S if duration is None else parse_seconds(duration),
        cable_m=parse_metres(cable),
        mtu_bytes=int(parse_bytes(f"{mtu} B" if mtu.strip().isdigit() else mtu)),
        seed=seed,
    )


def with_thresholds(
    base: CongestCase,
    *,
    ecn: str | None,
    pmax: float,
    pfc: str | None,
    profile: str | None,
    sweep: bool,
    name: Callable[[str], str] = option,
) -> Asked:
    """Read the thresholds and profiles; a PFC threshold by default is what headroom allows.

    Raises:
        InputError: one that cannot be read, or several without a sweep.
    """
    from railweave.engine.congest_thresholds import fitting_pfc_bytes, marking, threshold_bytes

    buffer = base.buffer_bytes
    marks = _several(name("ecn"), ecn or (GRID_ECN if sweep else ECN), sweep)
    pauses = _several(name("pfc"), pfc or (GRID_PFC if sweep else PFC), sweep)
    profiles = _several(name("profile"), profile or (GRID_PROFILES if sweep else PROFILE), sweep)
    limits = [
        None if text == "off" else threshold_bytes(name("pfc"), text, buffer) for text in pauses
    ]
    lowered = ""
    if pfc is None:
        fitting = [fitting_pfc_bytes(base, limit) for limit in limits if limit is not None]
        lowered = "" if fitting == limits else ",".join(pauses)
        limits = list(dict.fromkeys(fitting))
    read = [marking(name("ecn"), text, pmax, buffer) for text in marks]
    return Asked(base, read, limits, profiles, lowered)
