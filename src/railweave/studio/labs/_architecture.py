"""Lab 1, the pure part: what is chosen → the map or a plane's fabric, and the inspectors."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from railweave.errors import InputError
from railweave.fabric import PlaneId, find_node
from railweave.fabric.names import find_duplex
from railweave.formats.validation import list_names, nearest
from railweave.report.page_table import DASH, PageTable
from railweave.studio.designs import built_design
from railweave.studio.fabric_scene import fabric_scene, unknown_groups
from railweave.studio.lab import Number, Reproduce
from railweave.studio.labs._architecture_journey import (
    BETWEEN,
    JOURNEYS,
    PlaneJourney,
    ends_of,
    ends_problem,
    journey_of,
    measured_tables,
    quick_tables,
)
from railweave.studio.labs._architecture_map import PLANES, SystemMap, map_of
from railweave.studio.labs._architecture_parts import PartView, failure_of, part_view
from railweave.studio.labs._architecture_planes import (
    PlaneView,
    plane_findings,
    plane_view,
    traffic_table,
)
from railweave.studio.labs._architecture_scene import ALL, map_scene
from railweave.studio.scene import Scene
from railweave.units import format_seconds

__all__ = [
    "BIG_GPUS",
    "NOTHING",
    "PICTURES",
    "PLANE_CHOICES",
    "Deep",
    "Inspection",
    "Picture",
    "Row",
    "State",
    "chosen_with",
    "inspect",
    "look_along",
    "look_deeper",
    "part_in_fabric",
    "picture",
    "shown_part",
    "usable",
]

#: the plane control
PLANE_CHOICES: Final[Mapping[str, str]] = {
    ALL: "all planes",
    **PLANES,
}
#: what the canvas shows
PICTURES: Final[Mapping[str, str]] = {"map": "The map", "fabric": "This plane's fabric"}
#: the journey control's value for no journey
NOTHING: Final = "none"
#: GPUs from which findings and failure domains take so long that they wait to be asked for
BIG_GPUS: Final = 40_000
#: GPUs from which what breaks along a journey takes so long that it waits to be asked for
LONG_GPUS: Final = 10_000


@dataclass(frozen=True)
class State:
    """The lab's inputs.

    ``part`` is the id of a station or bundle; "" is the first server. ``ends`` are the names of a
    journey's source and target, as ``node001/gpu0>node002/gpu0``; "" leaves them to the design.
    """

    plane: str = "backend"
    part: str = ""
    journey: str = "gradient"
    ends: str = ""
    picture: str = "map"
    open: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """A component, as a row of the table beside the map."""

    id: str
    label: str
    plane: str
    count: str


@dataclass(frozen=True)
class Picture:
    """What the canvas shows, the components, and the journey.

    ``tables`` are the journey's without what is measured, ``ends`` what can be chosen for its ends.
    ``unknown`` are sentences on names of the address that this design does not have.
    """

    scene: Scene
    rows: tuple[Row, ...]
    journey: PlaneJourney | None
    tables: tuple[PageTable, ...]
    ends: Mapping[str, str]
    part: str
    big: bool
    long: bool
    sentences: tuple[str, ...]
    unknown: tuple[str, ...]


@dataclass(frozen=True)
class Inspection:
    """The inspectors of the plane and the component, without what takes long."""

    plane: PlaneView
    part: PartView
    numbers: tuple[Number, ...]
    reproduce: Reproduce


@dataclass(frozen=True)
class Deep:
    """What takes long on large designs: traffic, findings, what a failure costs."""

    traffic: PageTable
    findings: PageTable
    failure: PageTable


def usable(state: State) -> tuple[State, tuple[str, ...]]:
    """Return the inputs with what cannot be replaced by the defaults, and a sentence on each."""
    said, default = [], State()
    values = {"plane": PLANE_CHOICES, "picture": PICTURES, "journey": {NOTHING: "", **JOURNEYS}}
    chosen = {}
    for name, allowed in values.items():
        value = getattr(state, name)
        if value not in allowed:
            said.append(f"{name}={value[:40]}: allowed: {', '.join(allowed)}; the default is used")
            value = getattr(default, name)
        chosen[name] = value
    return State(part=state.part, open=state.open, ends=state.ends, **chosen), tuple(said)


def shown_part(system: SystemMap, part: str) -> str:
    """Return the component that is inspected: the chosen one, or the first server group."""
    if part:
        return part
    return next(one.id for one in system.stations.values() if one.what == "server")


def chosen_with(text: str, state: State, part: str) -> str:
    """Return the plane that is shown once a component is selected.

    One that belongs to another network brings that network's plane with it; where all planes are
    shown, they stay.
    """
    system = map_of(text)
    if state.plane == ALL:
        return ALL
    for plane in PLANES:
        if part.endswith(f" ({plane})"):
            return plane
    bundle = next((one for one in system.bundles if one.id == part), None)
    ends = part.partition(" – ")
    one = system.stations.get(part) or system.stations.get(ends[0])
    network = bundle.plane if bundle is not None else one.plane if one is not None else ""
    if one is not None and one.what == "storage" and "storage" in system.carrier:
        return "storage"
    if not network or system.carrier.get(state.plane) == network:
        return state.plane
    return network


def picture(text: str, state: State, tall: bool) -> Picture:
    """Draw the map, or the chosen plane's fabric.

    Args:
        text: of the design.
        state: what is chosen.
        tall: whether there is more room downwards than across.
    """
    system, built = map_of(text), built_design(text)
    going, ends = state.journey != NOTHING, {"": "as the design suggests"}
    journey = journey_of(text, state.journey, state.ends) if going else None
    carrier = system.carrier.get(state.plane)
    unknown = _unknown_part(text, state.part)
    if going:
        said = ends_problem(text, state.journey, state.ends)
        unknown += [said] if said else []
        ends = ends_of(text, state.journey, "" if said else state.ends)
    if state.picture == "fabric" and carrier is not None:
        said = unknown_groups(state.open, built.fabric, PlaneId[carrier.upper()])
        unknown += [said] if said else []
        mine = journey is not None and journey.network == carrier
        scene = fabric_scene(
            built.fabric,
            PlaneId[carrier.upper()],
            expanded=frozenset(state.open),
            marked=journey.duplex if mine and journey else (),
            title=f"{PLANES[carrier]} network of {built.design.name}",
        )
    else:
        scene = map_scene(
            system,
            f"Map of {built.design.name}",
            plane=state.plane,
            tall=tall,
            journey=journey if journey is not None and journey.hops else None,
        )
    return Picture(
        scene,
        tuple(_rows(system)),
        journey,
        quick_tables(text, journey) if journey is not None else (),
        ends,
        shown_part(system, state.part),
        len(built.fabric.gpus) > BIG_GPUS,
        len(built.fabric.gpus) > LONG_GPUS,
        _sentences(system),
        tuple(unknown),
    )


def _unknown_part(text: str, part: str) -> list[str]:
    """Say that a design has no such component, where it has none."""
    if not part or part_view(text, part).title:
        return []
    system = map_of(text)
    near = nearest(part, system.stations)
    hint = f"; did you mean {near!r}?" if near else ""
    return [
        f"part: {part[:40]!r} is no component here; allowed: {list_names(system.stations)}{hint}"
    ]


def _rows(system: SystemMap) -> list[Row]:
    rows = []
    for one in system.stations.values():
        shared = system.sharing(one.plane) if one.what in ("nic", "switch") else ()
        plane = PLANES.get(one.plane, DASH) + "".join(f" + {PLANES[p]}" for p in shared)
        if one.what == "storage" and "storage" in system.carrier:
            plane = PLANES["storage"]
        rows.append(Row(one.id, one.label, plane, f"{one.count:,}" if one.count else DASH))
    return rows


def _sentences(system: SystemMap) -> tuple[str, ...]:
    networks = len(set(system.carrier.values()))
    planes = len(system.carrier)
    said = [
        f"{planes} plane{'s' if planes > 1 else ''} on {networks} "
        f"network{'s' if networks > 1 else ''}."
    ]
    said += [
        f"{PLANES[plane].capitalize()} traffic shares the {PLANES[carrier]} network: one set of "
        "switches and cables, so the load of one is a matter for the other."
        for plane, carrier in system.carrier.items()
        if plane != carrier
    ]
    return (*said, *system.absent)


def inspect(text: str, state: State, design_name: str = "design.yaml") -> Inspection:
    """Describe a plane, a component and a journey of a design, whose file has this name."""
    ends = state.ends
    way = journey_of(text, state.journey, ends) if state.journey != NOTHING else None
    view = plane_view(text, state.plane)
    numbers = view.numbers
    if way is not None and way.hops:
        numbers = (
            *numbers,
            Number("journey_time", "Journey of a packet", format_seconds(way.time_s), way.time_s),
        )
    given = ends if way is not None and tuple(ends.split(BETWEEN)) == way.ends else ""
    how = _reproduce(text, state.plane, way, given, design_name)
    shown = shown_part(map_of(text), state.part)
    return Inspection(view, part_view(text, shown), numbers, how)


def look_deeper(text: str, plane: str, part: str) -> Deep:
    """Work out traffic, findings and what the loss of a component costs."""
    shown = shown_part(map_of(text), part)
    return Deep(traffic_table(text, plane), plane_findings(text, plane), failure_of(text, shown))


def look_along(text: str, journey: str, ends: str) -> tuple[PageTable, ...]:
    """Measure what breaks along a journey: its hops anew, and its neighbours."""
    return measured_tables(text, journey, ends) if journey != NOTHING else ()


def part_in_fabric(text: str, name: str) -> str:
    """Return the station or bundle of the map that a device or cable of a fabric drawing is of.

    "" where it is of none.
    """
    system, fabric = map_of(text), built_design(text).fabric

    def station(one: str) -> str:
        return system.at(find_node(fabric, one.partition("@")[0].partition(" +")[0]))

    try:
        if " – " in name:
            ends = [station(one) for one in name.split(" – ")]
        elif ":" in name:
            duplex = find_duplex(fabric, name)
            nodes = fabric.link_src[2 * duplex], fabric.link_dst[2 * duplex]
            ends = [system.at(int(node)) for node in nodes]
        else:
            return station(name)
    except InputError:
        return ""
    return next((one.id for one in system.bundles if {one.lower, one.upper} == set(ends)), "")


def _reproduce(
    text: str, plane: str, way: PlaneJourney | None, ends: str, design_name: str
) -> Reproduce:
    """Return the command and the Python that give the same numbers."""
    system = map_of(text)
    carrier = system.carrier.get(plane)
    file = shlex.quote(design_name)
    command = [
        f"railweave build {file} --json",
        f"railweave check {file}",
        f"railweave transport planes {file}",
    ]
    code = [
        "import railweave",
        "from railweave.workload import bytes_by_plane",
        "",
        f"built = railweave.load({design_name!r}).build()",
        "summary = built.summary()",
    ]
    if carrier is None:
        code.append("print(summary.to_json())")
    else:
        code += [
            f'plane = next(one for one in summary.planes if one.plane == "{carrier}")',
            "print(plane.to_json())",
        ]
    code += ["print(*bytes_by_plane(built.workload().traffic), sep='\\n')"]
    if way is not None and way.hops:
        source, _, target = ends.partition(BETWEEN)
        given = f" --from {source} --to {target}" if ends else ""
        command.append(f"railweave transport journey {way.kind.value} --design {file}{given}")
        named = f", source={source!r}, target={target!r}" if ends else ""
        code += [
            "",
            "from railweave.transport.planes.effects import study_journey",
            "from railweave.transport.planes.journeys import JourneyKind, plane_journey",
            "",
            f"way = plane_journey(built, JourneyKind({way.kind.value!r}){named})",
            "print(way.to_json())",
            "print(study_journey(built, way).to_json()['breaks'])",
        ]
    return Reproduce("\n".join(command), "\n".join(code))
