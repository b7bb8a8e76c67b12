"""Lab 1's drawing: the stations of a design's map at their places, and what travels on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from railweave.studio.labs._architecture_journey import motion
from railweave.studio.labs._architecture_map import OUTSIDE, PLANES, Bundle, Station, SystemMap
from railweave.studio.scene import Scene, SceneGroup, SceneLink, SceneNode
from railweave.units import format_bits_rate

if TYPE_CHECKING:
    from railweave.transport.planes.journeys import PlaneJourney

__all__ = ["ALL", "map_scene", "shared_link"]

#: the plane control's value for all of them
ALL: Final = "all"
_KINDS: Final = {
    "users": "users",
    "server": "server",
    "gpu": "gpu",
    "scale-up": "switch",
    "nic": "nic",
    "storage": "storage",
    "service": "management",
    "other": "host",
}
_TIER_KINDS: Final = {"leaf": "leaf", "spine": "spine", "core": "core", "switch": "switch"}

# Places are (depth, lane): depth runs from the users (0) to the back-end's top tier, lane across.
# On a wide view depth runs to the right, on a narrow one downwards.
_SERVER_DEPTH: Final = 4.1
#: network → (depth and lane of its first tier, step to the next)
_NETWORKS: Final = {
    "frontend": ((2.2, 1.35), (-1.25, 0.0)),
    "storage": ((2.2, 0.45), (-1.25, -0.25)),
    "management": ((2.2, 2.6), (-1.25, 0.2)),
    "backend": ((6.3, 1.35), (1.55, 0.0)),
}
_NICS: Final = {
    "frontend": (3.45, 1.35),
    "storage": (3.45, 0.6),
    "management": (3.45, 2.4),
    "backend": (4.75, 1.35),
}
#: where services and other hosts of a network stand, one after the other
_BESIDE: Final = {
    "frontend": ((0.8, 1.9), (1.5, 1.9), (0.0, 1.9), (0.0, 2.3), (0.7, 2.3)),
    "storage": ((0.0, 0.8), (0.0, 0.4), (0.0, 0.0)),
    "management": ((1.4, 3.2), (2.3, 3.2), (0.6, 3.2), (3.1, 3.2), (-0.2, 3.2)),
    "backend": ((6.3, 0.5), (7.85, 0.5), (6.3, 2.2), (7.85, 2.2), (9.4, 0.5), (9.4, 2.2)),
}
#: where storage servers stand, by the network that they are on
_STORES: Final = {"frontend": (0.8, 0.5), "storage": (0.8, 0.8), "backend": (6.3, 2.7)}


def map_scene(
    system: SystemMap,
    title: str,
    *,
    plane: str = ALL,
    tall: bool = False,
    journey: PlaneJourney | None = None,
) -> Scene:
    """Draw a map.

    Args:
        system: the design's map.
        title: of the drawing.
        plane: the one whose colours stand out; all where it is ``"all"``.
        tall: for a view that is higher than wide.
        journey: what travels.
    """
    places = dict(_places(system))
    shown = None if plane == ALL else plane
    flights, steps, end_s = motion(journey) if journey else ((), (), 0.0)
    return Scene(
        nodes=tuple(_node(system, one, places[one.id], shown, tall) for one in _drawn(system)),
        links=tuple(_links(system, shown)),
        groups=tuple(_groups(system)),
        flights=flights,
        duration_s=end_s,
        steps=steps,
        title=title,
        description=_description(system),
        note=" ".join(system.absent),
    )


def _drawn(system: SystemMap) -> Iterator[Station]:
    yield from system.stations.values()


def shared_link(bundle: Bundle, plane: str) -> str:
    """Return the id of the line that shows a plane's traffic on another's cables."""
    return f"{bundle.id} ({plane})"


# ---------------------------------------------------------------- places


def _places(system: SystemMap) -> Iterator[tuple[str, tuple[float, float]]]:
    beside = {plane: iter(spots) for plane, spots in _BESIDE.items()}
    servers = [one for one in system.stations.values() if one.what == "server"]
    for network in system.carrier.values():
        (depth, lane), (step, aside) = _NETWORKS[network]
        tiers = system.switches(network)
        for number, one in enumerate(tiers):
            # Three tiers stand closer: the middle one a little lower, so that names have room.
            low = 0.15 if len(tiers) > 2 and number == 1 and not aside else 0.0
            yield one.id, (depth + step * number, lane + aside * number + low)
    for number, one in enumerate(servers):
        yield one.id, (_SERVER_DEPTH, 1.95 + 0.45 * number)
    for one in system.stations.values():
        if one.what == "nic":
            yield one.id, _NICS[one.plane]
        elif one.what == "gpu":
            yield one.id, (_SERVER_DEPTH, 1.0)
        elif one.what == "scale-up":
            yield one.id, (_SERVER_DEPTH, 0.4)
        elif one.what == "users":
            (depth, lane), (step, aside) = _NETWORKS[one.plane]
            number = max(0, len(system.switches(one.plane)) - 1)
            yield one.id, (depth + step * number - 0.75, lane + aside * number)
        elif one.what == "storage":
            yield one.id, _STORES.get(one.plane, (0.8, 0.5))
        elif one.what in ("service", "other"):
            yield one.id, next(beside[one.plane or "backend"], (0.0, 3.2))


# ---------------------------------------------------------------- nodes


def _node(
    system: SystemMap, one: Station, place: tuple[float, float], shown: str | None, tall: bool
) -> SceneNode:
    depth, lane = place
    x, y = (lane, depth) if tall else (depth, lane)
    kind = _TIER_KINDS[one.tier] if one.what == "switch" else _KINDS[one.what]
    return SceneNode(
        one.id,
        x,
        y,
        kind,
        _label(one),
        _detail(system, one),
        _role(system, one, shown),
        _group(one),
        max(1, one.count),
    )


def _label(one: Station) -> str:
    """Return what stands beside it; it names the plane, which no colour does alone."""
    return "BMCs" if one.id == "management-nic" else one.label


def _detail(system: SystemMap, one: Station) -> str:
    many = f"{one.count:,} {one.label}" if one.count else one.label
    where = f" of the {PLANES[one.plane]} network" if one.what in ("service", "other") else ""
    shared = system.sharing(one.plane) if one.what in ("switch", "nic") else ()
    also = f", shared by {' and '.join(PLANES[p] for p in shared)}" if shared else ""
    return f"{many}{where}{also}. {one.note}".strip()


def _role(system: SystemMap, one: Station, shown: str | None) -> str:
    """Return the palette's key of a station: of its plane, neutral where another is shown."""
    role = "storage" if one.what == "storage" else one.plane
    if shown is None or not role:
        return role
    carrier = system.carrier.get(shown, shown)
    belongs = {shown} if one.what == "storage" else {carrier}
    if one.what == "storage":
        return role if shown in ("storage", one.plane) else ""
    return role if one.plane in belongs else ""


def _group(one: Station) -> str:
    if one.what in ("server", "gpu", "scale-up", "nic"):
        return "servers"
    return f"net-{one.plane}" if one.what == "switch" else ""


def _groups(system: SystemMap) -> Iterator[SceneGroup]:
    servers = sum(s.count for s in system.stations.values() if s.what == "server")
    yield SceneGroup("servers", "GPU servers", count=servers, fixed=True)
    for network in dict.fromkeys(system.carrier.values()):
        switches = sum(s.count for s in system.switches(network))
        label = " + ".join(PLANES[one] for one in (network, *system.sharing(network)))
        yield SceneGroup(f"net-{network}", label, count=switches, fixed=True)


# ---------------------------------------------------------------- links


def _links(system: SystemMap, shown: str | None) -> Iterator[SceneLink]:
    for bundle in system.bundles:
        carrier = system.carrier.get(shown, shown) if shown else None
        plain = shown is not None and bundle.plane != carrier
        storage = bundle.lower == "storage-server" and shown in (None, "storage", bundle.plane)
        role = "" if plain else "storage" if storage else bundle.plane
        yield SceneLink(
            bundle.id,
            bundle.lower,
            bundle.upper,
            role,
            bundle.links,
            _short(system, bundle),
            detail=_bundle_detail(system, bundle),
        )
        if not bundle.plane or bundle.lower == "storage-server":
            continue
        for plane in system.sharing(bundle.plane):
            if shown in (None, plane, bundle.plane) and _carries(system, bundle):
                # The other way round, so that the arc passes on the side without names.
                yield SceneLink(
                    shared_link(bundle, plane),
                    bundle.upper,
                    bundle.lower,
                    plane,
                    style="curve",
                    detail=f"{PLANES[plane]} traffic on the same {bundle.links:,} links as "
                    f"{PLANES[bundle.plane]}'s",
                )
    yield from _dashed(system, shown)


def _short(system: SystemMap, bundle: Bundle) -> str:
    """Return what stands beside a bundle: number and speed, as short as one says it."""
    if not bundle.plane or system.stations[bundle.lower].what in ("service", "other"):
        return ""
    speeds = " or ".join(f"{rate / 1e9:g}G" for rate in bundle.speeds_bps)
    return f"{bundle.links:,}×{speeds}"


def _carries(system: SystemMap, bundle: Bundle) -> bool:
    """Say whether every plane of a network uses a bundle: those of services and hosts, not."""
    return system.stations[bundle.lower].what in ("nic", "switch")


def _dashed(system: SystemMap, shown: str | None) -> Iterator[SceneLink]:
    """Draw what the fabric has no cable for."""
    users = system.stations.get(OUTSIDE)
    if users is not None and (switches := system.switches(users.plane)):
        role = "frontend" if shown in (None, "frontend", users.plane) else ""
        yield SceneLink(f"{OUTSIDE} – {switches[-1].id}", OUTSIDE, switches[-1].id, role,
                        style="dashed", detail=users.note)  # fmt: skip
    for one in system.stations.values():
        if one.what != "service" or one.count:
            continue
        hosts = [s for s in system.stations.values() if s.what == "other" and s.plane == one.plane]
        ends = [*hosts, *system.switches(one.plane)]
        if ends:
            role = one.plane if shown in (None, one.plane) else ""
            yield SceneLink(f"{one.id} – {ends[0].id}", one.id, ends[0].id, role,
                            style="dashed", detail=one.note)  # fmt: skip


def _bundle_detail(system: SystemMap, bundle: Bundle) -> str:
    ends = " to ".join(system.stations[end].label for end in (bundle.lower, bundle.upper))
    where = f"{bundle.place} links" if bundle.plane else f"{bundle.place} links inside servers"
    total = format_bits_rate(bundle.capacity_bps)
    return f"{ends}: {bundle.rate}, {where}, {total} in all, one way"


def _description(system: SystemMap) -> str:
    """Say in words what the map shows."""
    networks = []
    for network in dict.fromkeys(system.carrier.values()):
        switches = ", ".join(f"{s.count:,} {s.label}" for s in system.switches(network))
        shared = system.sharing(network)
        also = f", shared by {' and '.join(PLANES[p] for p in shared)}" if shared else ""
        networks.append(f"{switches}{also}")
    inside = ", ".join(
        f"{s.count:,} {s.label}" for s in system.stations.values() if s.what in ("server", "gpu")
    )
    outside: Sequence[str] = [
        f"{s.count:,} {s.label}" for s in system.stations.values() if s.what == "storage"
    ]
    return f"{'; '.join([inside, *outside, *networks])}. {' '.join(system.absent)}".strip()
