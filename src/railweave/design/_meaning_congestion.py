"""Checks of what a design says of congestion: every setting means something in its scheme."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from railweave.design._context import Context
from railweave.design._meaning_network import CONGESTION_OF
from railweave.design.defaults import default_congestion
from railweave.design.models import (
    CongestionName,
    CongestionSpec,
    EcnSpec,
    Transport,
)
from railweave.errors import Problem
from railweave.formats.validation import list_names, nearest

__all__ = ["congestion_means_something"]

_PFC: Final = tuple(name for name in CongestionName if name.pfc)
_LOSSY_ROCE: Final = tuple(s for s in CONGESTION_OF[Transport.ROCEV2] if not s.pfc)
_MARKED: Final = tuple(name for name in CongestionName if name.marks)
_NOTIFIES: Final = tuple(name for name in CongestionName if name.notifies)
#: fields by the schemes in which they do something
_ONLY_IN: Final[dict[str, tuple[CongestionName, ...]]] = {
    **dict.fromkeys(("headroom", "pfc_threshold", "xon_offset", "watchdog"), _PFC),
    **dict.fromkeys(("ecn", "rtt"), _MARKED),
    "trimming": _LOSSY_ROCE,
    "cnp_interval": _NOTIFIES,
}
_RDMA_ONLY: Final = ("timeout", "retries", "rnr_timer", "rnr_retries")


def congestion_means_something(context: Context) -> Iterator[Problem]:
    """Every setting of congestion has an effect under the plane's scheme and transport."""
    for name, plane in context.own_planes():
        spec, transport = plane.congestion, plane.transport or Transport.TCP
        if spec is None:
            continue
        scheme = spec.scheme or default_congestion(transport)
        if scheme not in CONGESTION_OF[transport]:
            continue  # that is said already
        path = ("planes", name.value, "congestion")
        for field, reason, allowed in _strangers(context, spec, scheme, transport):
            yield context.problem((*path, field), f"{field!r} {reason}", allowed=allowed)
        yield from _profile(context, spec, scheme, path)
        yield from _values(context, spec, path)


def _strangers(
    context: Context, spec: CongestionSpec, scheme: CongestionName, transport: Transport
) -> Iterator[tuple[str, str, str]]:
    """Yield stated fields that do nothing here: field, why, and what would be right."""
    stated = context.stated(spec)
    for field, schemes in _ONLY_IN.items():
        if field in stated and scheme not in schemes:
            here = [s.value for s in schemes if s in CONGESTION_OF[transport]]
            allowed = f"with {list_names(here)}" if here else f"nothing on {transport.value}"
            yield field, f"means nothing under {scheme.value}", allowed
    for field in _RDMA_ONLY:
        if field in stated and transport is Transport.TCP:
            yield field, "is of RDMA connections; TCP has its own timers", "on rocev2, infiniband"
    if "classes" in stated and transport is not Transport.ROCEV2:
        yield "classes", f"means nothing on {transport.value}", "on rocev2"
    if "rtt" in stated and scheme.marks and spec.ecn != "rule":
        yield "rtt", "is what ecn: rule starts from, and ecn says otherwise", "with ecn: rule"
    selective = spec.selective_repeat
    if selective is None:
        selective = transport is Transport.TCP or scheme is CongestionName.NSCC
    if spec.reorder_packets and not selective:
        yield "reorder_packets", "does nothing without selective repeat", "selective_repeat: true"


def _profile(
    context: Context, spec: CongestionSpec, scheme: CongestionName, path: tuple[str, ...]
) -> Iterator[Problem]:
    profiles = scheme.profiles
    if spec.profile is None or spec.profile in profiles:
        return
    names = [profile.value for profile in profiles]
    yield context.problem(
        (*path, "profile"),
        f"{spec.profile.value!r} is no parameter set of {scheme.value}",
        allowed=list_names(names) or "none: the senders have no congestion control",
        nearest=names[0] if len(names) == 1 else nearest(spec.profile, names),
    )


def _values(context: Context, spec: CongestionSpec, path: tuple[str, ...]) -> Iterator[Problem]:
    if isinstance(spec.ecn, EcnSpec) and spec.ecn.kmin > spec.ecn.kmax:
        yield context.problem(
            (*path, "ecn", "kmin"),
            f"kmin of {spec.ecn.kmin:,} B is above kmax of {spec.ecn.kmax:,} B",
            allowed="at most kmax",
            nearest=f"{spec.ecn.kmax} B",
        )
