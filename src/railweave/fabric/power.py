"""Power by rack and plane, the cable bill, and what the hall can take.

Servers draw their rated maximum, modules in their own cages included. A catalog switch draws its
base power plus every module in its ports; a switch described in the design its stated power, which
includes its modules. Cables are the catalog's cheapest that reach.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from railweave.catalog import Cable, Catalog, CatalogError, default_catalog, pick_cable
from railweave.design.models import Facility
from railweave.fabric._arrays import Fabric, LinkLayer, NodeKind, PlaneId
from railweave.findings import Finding, Severity
from railweave.provenance import Assumption, Certainty
from railweave.units import format_bits_rate, format_si

__all__ = [
    "AIR_COOLED_RACK_W",
    "LINK_CLASSES",
    "CableLine",
    "PlanePower",
    "PowerReport",
    "RackPower",
    "ServerDraw",
    "cable_bill",
    "length_class",
    "power_report",
]

F64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

#: beyond this, air alone is hard put to cool one rack
AIR_COOLED_RACK_W: Final = 40_000.0
AIR_COOLING: Final = Assumption(
    "air cooling",
    f"air cools a rack up to about {AIR_COOLED_RACK_W / 1e3:g} kW (common practice: 40 to 45 kW)",
    Certainty.ASSUMED,
)
#: lengths cables are sold in; longer ones count by full 50 m
_LENGTHS_M: Final = (0.5, 1, 1.5, 2, 2.5, 3, 4, 5, 7, 10, 15, 20, 25, 30, 40, 50, 70, 100)
#: layer → key of ``cables`` and ``links`` in a summary
LINK_CLASSES: Final[Mapping[LinkLayer, str]] = {
    LinkLayer.HOST_LEAF: "host-leaf",
    LinkLayer.LEAF_SPINE: "leaf-spine",
    LinkLayer.SPINE_CORE: "spine-core",
    LinkLayer.OTHER: "switch-switch",
}


@dataclass(frozen=True, slots=True)
class ServerDraw:
    """Consecutive servers that are alike: how many, what each draws and how it is cooled."""

    name: str
    count: int
    power_w: float
    cooling: str = "air"


@dataclass(frozen=True, slots=True)
class CableLine:
    """A line of the cable bill; ``power_w`` is of one cable, both ends. No ``part``: none fits."""

    plane: str
    between: str
    part: str
    kind: str
    speed_bps: float
    links_per_cable: int
    length_m: float
    count: int
    power_w: float

    def to_json(self) -> dict[str, object]:
        """Return plain data for JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class PlanePower:
    """Power of one plane: its switches and the modules in their ports."""

    plane: str
    switches_w: float
    optics_w: float


@dataclass(frozen=True, slots=True)
class RackPower:
    """Power of one rack by what draws it."""

    rack: int
    servers_w: float
    switches_w: float
    optics_w: float

    @property
    def total_w(self) -> float:
        """All of it."""
        return self.servers_w + self.switches_w + self.optics_w


@dataclass(frozen=True, slots=True)
class PowerReport:
    """Power of the hall, by plane and by rack, and the cable bill."""

    servers_w: float
    planes: tuple[PlanePower, ...]
    racks: tuple[RackPower, ...]
    cables: tuple[CableLine, ...]
    findings: tuple[Finding, ...]
    assumptions: tuple[Assumption, ...]

    @property
    def switches_w(self) -> float:
        """Power of all switches, without modules."""
        return sum(plane.switches_w for plane in self.planes)

    @property
    def optics_w(self) -> float:
        """Power of the modules in switch ports."""
        return sum(plane.optics_w for plane in self.planes)

    @property
    def total_w(self) -> float:
        """Power of everything."""
        return self.servers_w + self.switches_w + self.optics_w

    @property
    def worst_rack(self) -> RackPower | None:
        """The rack that draws most."""
        return max(self.racks, key=lambda rack: rack.total_w, default=None)

    def to_json(self) -> dict[str, object]:
        """Return plain data for JSON; racks by their worst only."""
        worst = self.worst_rack
        return {
            "total_w": self.total_w,
            "servers_w": self.servers_w,
            "switches_w": self.switches_w,
            "optics_w": self.optics_w,
            "planes": {
                p.plane: {"switches_w": p.switches_w, "optics_w": p.optics_w} for p in self.planes
            },
            "racks": len(self.racks),
            "worst_rack": {"rack": worst.rack, "power_w": worst.total_w} if worst else None,
            "cables": [line.to_json() for line in self.cables],
        }


def length_class(length_m: float) -> float:
    """Return the length a cable is sold in: the shortest that reaches, in metres."""
    for length in _LENGTHS_M:
        if length_m <= length + 1e-9:
            return float(length)
    return float(-(-length_m // 50) * 50)


def power_report(
    fabric: Fabric,
    servers: Sequence[ServerDraw],
    facility: Facility,
    *,
    catalog: Catalog | None = None,
    inline_switch_w: Mapping[str, float] | None = None,
) -> PowerReport:
    """Return power, cables and findings of a whole fabric.

    Args:
        fabric: the fabric; links that are down draw as if they were up.
        servers: draws in server-number order; together as many as there are servers.
        facility: limits of racks and hall, and how it is cooled.
        catalog: where switches and cables are looked up.
        inline_switch_w: stated power of switches that are no catalog parts, by name.
    """
    catalog = catalog or default_catalog()
    stated = inline_switch_w or {}
    lines, end_w = _cables(fabric, catalog)
    switch_w, bare, unknown, liquid = _switches(fabric, catalog, stated)
    optics_w = np.where(bare, 0.0, end_w)
    server_w = np.repeat([draw.power_w for draw in servers], [draw.count for draw in servers])
    racks = _racks(fabric, server_w, switch_w, optics_w)
    planes = []
    for plane in PlaneId:
        mine = (fabric.node_kind == NodeKind.SWITCH) & (fabric.node_plane == plane)
        if mine.any():
            planes.append(
                PlanePower(
                    plane.name.lower(), float(switch_w[mine].sum()), float(optics_w[mine].sum())
                )
            )
    report = PowerReport(
        servers_w=float(server_w.sum()),
        planes=tuple(planes),
        racks=racks,
        cables=lines,
        findings=(),
        assumptions=(
            Assumption("server power", "rated maximum, modules in the server's cages included"),
            Assumption("switch power", "base power plus the modules in its ports"),
            AIR_COOLING,
        ),
    )
    findings = (
        *_limits(report, facility),
        *_cooling(report, servers, liquid, facility),
        *_gaps(unknown, lines),
    )
    return PowerReport(report.servers_w, report.planes, racks, lines, findings, report.assumptions)


def cable_bill(fabric: Fabric, *, catalog: Catalog | None = None) -> tuple[CableLine, ...]:
    """Return the cables of a fabric by plane, place, part and length class."""
    return _cables(fabric, catalog or default_catalog())[0]


def _cables(fabric: Fabric, catalog: Catalog) -> tuple[tuple[CableLine, ...], F64]:
    """Return the cable bill, and the power of the module ends at each node, shape (N,)."""
    duplex = np.flatnonzero(np.isin(fabric.link_layer[::2], [int(x) for x in LINK_CLASSES]))
    cable = fabric.duplex_cable[duplex].astype(np.int64)
    # A duplex without a cable number is a cable of its own.
    cable = np.where(cable >= 0, cable, int(cable.max(initial=-1)) + 1 + np.arange(len(duplex)))
    _, first, inverse, links = np.unique(
        cable, return_index=True, return_inverse=True, return_counts=True
    )
    head = duplex[first]
    length = np.round(fabric.link_length_m[2 * head], 3)
    columns = np.stack(
        (
            fabric.link_plane[2 * head],
            fabric.link_layer[2 * head],
            fabric.link_capacity_bps[2 * head],
            length,
            links,
        ),
        axis=1,
    )
    kinds, kind_of, counts = np.unique(columns, axis=0, return_inverse=True, return_counts=True)
    link_w = np.zeros(len(kinds))
    lines: dict[tuple[object, ...], CableLine] = {}
    for i, (plane, layer, speed, metres, per_cable) in enumerate(kinds.tolist()):
        part = _pick(catalog, speed, metres, int(per_cable))
        link_w[i] = part.power_w / per_cable if part else 0.0
        line = CableLine(
            plane=PlaneId(int(plane)).name.lower(),
            between=LINK_CLASSES[LinkLayer(int(layer))],
            part=part.name if part else "",
            kind=part.kind if part else "",
            speed_bps=speed,
            links_per_cable=int(per_cable),
            length_m=length_class(metres),
            count=int(counts[i]),
            power_w=2 * part.power_w if part else 0.0,
        )
        key = (plane, layer, line.part, speed, per_cable, line.length_m)
        before = lines[key].count if key in lines else 0
        lines[key] = _counted(line, before + line.count)
    end_w = np.zeros(fabric.n_nodes)
    of_link = link_w[kind_of.reshape(-1)][inverse.reshape(-1)]
    np.add.at(end_w, fabric.link_src[2 * duplex], of_link)
    np.add.at(end_w, fabric.link_dst[2 * duplex], of_link)
    return tuple(lines.values()), end_w


def _counted(line: CableLine, count: int) -> CableLine:
    """Return a line with another count."""
    from dataclasses import replace

    return replace(line, count=count)


def _pick(catalog: Catalog, speed_bps: float, length_m: float, links: int) -> Cable | None:
    """Return the catalog's cable; single ones where it has none with so many links; or None."""
    for number in dict.fromkeys((links, 1)):
        try:
            return pick_cable(speed_bps, length_m, links=number, catalog=catalog)
        except CatalogError:
            continue
    return None


def _switches(
    fabric: Fabric, catalog: Catalog, stated: Mapping[str, float]
) -> tuple[F64, Bool, tuple[str, ...], tuple[str, ...]]:
    """Return power (N,), whether it includes the modules (N,), unknown and liquid-cooled models."""
    power = np.zeros(fabric.n_nodes)
    includes = np.ones(fabric.n_nodes, dtype=np.bool_)
    known: dict[str, tuple[float, bool]] = {}
    unknown: set[str] = set()
    liquid: set[str] = set()
    for node in np.flatnonzero(fabric.node_kind == NodeKind.SWITCH).tolist():
        name = fabric.switch_models.get(node, "")
        if name not in known:
            if name in stated:
                known[name] = (stated[name], True)
            else:
                try:
                    part = catalog.switch(name)
                except CatalogError:
                    unknown.add(name or "(no model)")
                    known[name] = (0.0, True)
                else:
                    known[name] = (part.power_base_w, False)
                    liquid |= {name} if part.cooling == "liquid" else set()
        power[node], includes[node] = known[name]
    includes |= fabric.node_kind != NodeKind.SWITCH
    return power, includes, tuple(sorted(unknown)), tuple(sorted(liquid))


def _racks(fabric: Fabric, server_w: F64, switch_w: F64, optics_w: F64) -> tuple[RackPower, ...]:
    """Sum power by rack; racks are those of hosts and switches."""
    size = int(fabric.node_rack.max(initial=-1)) + 1
    placed = fabric.node_rack >= 0
    servers = np.zeros(size)
    # A server stands where the first of its nodes does.
    inside = np.flatnonzero(placed & (fabric.node_server >= 0))
    numbers, first = np.unique(fabric.node_server[inside], return_index=True)
    drawn = numbers < len(server_w)
    np.add.at(servers, fabric.node_rack[inside[first[drawn]]], server_w[numbers[drawn]])
    switches = np.bincount(fabric.node_rack[placed], weights=switch_w[placed], minlength=size)
    optics = np.bincount(fabric.node_rack[placed], weights=optics_w[placed], minlength=size)
    used = np.unique(fabric.node_rack[placed])
    return tuple(
        RackPower(int(r), float(servers[r]), float(switches[r]), float(optics[r])) for r in used
    )


def _limits(report: PowerReport, facility: Facility) -> list[Finding]:
    """Hold racks and hall against what they may draw."""
    found = []
    over = [rack for rack in report.racks if rack.total_w > facility.rack_power * (1 + 1e-9)]
    worst = report.worst_rack
    if over and worst:
        found.append(
            Finding(
                "rack-power-exceeded",
                Severity.ERROR,
                "facility.rack_power",
                f"{len(over)} of {len(report.racks)} racks draw more than "
                f"{format_si(facility.rack_power, 'W')}; rack {worst.rack + 1} draws "
                f"{format_si(worst.total_w, 'W')}",
                evidence=f"servers {format_si(worst.servers_w, 'W')}, switches "
                f"{format_si(worst.switches_w, 'W')}, modules {format_si(worst.optics_w, 'W')}",
                fix="fewer servers in a rack (cluster.servers_per_rack), or a higher rack_power",
            )
        )
    if facility.power is not None and report.total_w > facility.power * (1 + 1e-9):
        found.append(
            Finding(
                "hall-power-exceeded",
                Severity.ERROR,
                "facility.power",
                f"all draws {format_si(report.total_w, 'W')}, the hall gives "
                f"{format_si(facility.power, 'W')}",
                evidence=f"servers {format_si(report.servers_w, 'W')}, switches "
                f"{format_si(report.switches_w, 'W')}, modules {format_si(report.optics_w, 'W')}",
                fix="fewer servers, or a larger power budget",
            )
        )
    return found


def _cooling(
    report: PowerReport,
    servers: Sequence[ServerDraw],
    liquid_switches: Sequence[str],
    facility: Facility,
) -> list[Finding]:
    """Hold what stands in an air-cooled hall against what air can do."""
    if facility.cooling != "air":
        return []
    wet = [draw.name for draw in servers if draw.cooling == "liquid"]
    found = [
        Finding(
            "liquid-cooling-needed",
            Severity.ERROR,
            "facility.cooling",
            f"{name} is built for liquid cooling only, the hall is cooled by air",
            evidence="the catalog gives its cooling as liquid",
            fix="set facility.cooling: liquid, or choose an air-cooled model",
        )
        for name in dict.fromkeys((*wet, *liquid_switches))
    ]
    hot = [rack for rack in report.racks if rack.total_w > AIR_COOLED_RACK_W]
    worst = report.worst_rack
    if hot and worst:
        found.append(
            Finding(
                "air-cooled-rack-hot",
                Severity.WARNING,
                "facility.cooling",
                f"{len(hot)} racks draw more than air cools well; rack {worst.rack + 1} draws "
                f"{format_si(worst.total_w, 'W')}",
                evidence=f"{AIR_COOLING.statement} [{AIR_COOLING.certainty.value}]",
                fix="fewer servers in a rack, or liquid cooling",
            )
        )
    return found


def _gaps(unknown: Sequence[str], lines: Sequence[CableLine]) -> list[Finding]:
    """Say what the sums leave out."""
    found = [
        Finding(
            "power-unknown",
            Severity.WARNING,
            f"switch {name}",
            "its power is not known and counts as 0",
            fix="name a catalog switch, or state its power in the design",
        )
        for name in unknown
    ]
    found += [
        Finding(
            "no-cable-in-catalog",
            Severity.WARNING,
            f"planes.{line.plane}",
            f"the catalog has no {format_bits_rate(line.speed_bps)} cable of {line.length_m:g} m "
            f"for {line.count} {line.between} cables; their power counts as 0",
            fix="add one in a catalog file of your own, or shorten the rows",
        )
        for line in lines
        if not line.part
    ]
    return found
