"""Choosing the cable for a link."""

from __future__ import annotations

from railweave.catalog._errors import CatalogError
from railweave.catalog._load import Catalog, default_catalog
from railweave.catalog._parts import Cable, CableKind
from railweave.units import format_bits_rate

__all__ = ["pick_cable"]


def pick_cable(
    speed_bps: float,
    length_m: float,
    *,
    prefer: CableKind | None = None,
    links: int = 1,
    announced: bool = False,
    catalog: Catalog | None = None,
) -> Cable:
    """Choose the cheapest cable of a speed whose reach suffices; of equals the one drawing less.

    Args:
        speed_bps: speed of one link.
        length_m: length to bridge, in metres.
        prefer: a kind to take where one of it reaches, whatever it costs.
        links: links in one cable; 2 asks for twin-port.
        announced: whether parts that are only announced may be chosen.
        catalog: where to choose from; :func:`default_catalog` when not given.

    Raises:
        CatalogError: no cable of this speed, or none that reaches; it names the nearest.
    """
    cables = [
        cable
        for cable in (catalog or default_catalog()).cables()
        if cable.links == links and (announced or cable.status == "shipping")
    ]
    same_speed = [cable for cable in cables if cable.speed_bps == speed_bps]
    wanted = format_bits_rate(speed_bps)
    left_out = "" if announced else "; parts that are only announced are left out"
    if not same_speed:
        speeds = sorted({cable.speed_bps for cable in cables})
        near = min(speeds, key=lambda speed: abs(speed - speed_bps), default=0.0)
        raise CatalogError(
            f"the catalog has no cable of {wanted} with {links} link(s){left_out}",
            path="speed",
            allowed=", ".join(map(format_bits_rate, speeds)),
            nearest=format_bits_rate(near) if speeds else "",
        )
    reaching = [cable for cable in same_speed if cable.reach_m >= length_m]
    if not reaching:
        longest = max(same_speed, key=lambda cable: (cable.reach_m, -cable.relative_cost))
        raise CatalogError(
            f"no cable of {wanted} bridges {length_m:g} m",
            path="length",
            allowed=f"at most {longest.reach_m:g} m",
            nearest=longest.name,
        )
    preferred = [cable for cable in reaching if cable.kind == prefer]
    return min(
        preferred or reaching,
        key=lambda cable: (cable.relative_cost, cable.power_w, cable.reach_m, cable.name),
    )
