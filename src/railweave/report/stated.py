"""What the design states beside its sizes: planes, tenants, services, software, security, aims."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railweave.report.page_table import DASH, PageTable
from railweave.units import counted, format_seconds, format_si

if TYPE_CHECKING:
    from railweave.design.models import Design, Plane

__all__ = ["stated_tables"]


def stated_tables(design: Design) -> tuple[PageTable, ...]:
    """Return the tables of what the design states; empty ones are left out."""
    tables = (_plane_table(design), _people_table(design), _place_table(design))
    return tuple(table for table in tables if table.rows)


def _plane_table(design: Design) -> PageTable:
    """Return the settings of every plane, one column each."""
    found = [
        (name, plane)
        for name in ("backend", "frontend", "storage", "management")
        if (plane := getattr(design.planes, name)) is not None
    ]
    fields = {
        "network": lambda plane: f"of {plane.shares.value}" if plane.shares else "its own",
        "routing": lambda plane: _own(plane, plane.routing.scheme),
        "hash, seeds": lambda plane: _own(plane, f"{plane.routing.hash}, {plane.routing.seeds}"),
        "queue pairs": lambda plane: _own(plane, plane.routing.queue_pairs),
        "congestion": lambda plane: _own(plane, plane.congestion and plane.congestion.scheme),
        "MTU": lambda plane: _own(plane, f"{plane.mtu:g} B" if plane.mtu else None),
        "isolation": lambda plane: plane.isolation,
        "encryption": _encryption,
    }
    rows = tuple((name, *(show(plane) for _, plane in found)) for name, show in fields.items())
    return PageTable(
        "stated-planes",
        "Planes as stated",
        ("", *(name for name, _ in found)),
        rows,
        ("The word default stands for what railweave chose; the file below has the values.",),
    )


def _own(plane: Plane, value: object) -> str:
    if plane.shares is not None:
        return DASH
    return "default" if value is None else str(getattr(value, "value", value))


def _encryption(plane: Plane) -> str:
    need = {True: "required", False: "not required", None: "need not stated"}
    return f"{plane.encryption}, {need[plane.encryption_required]}"


def _people_table(design: Design) -> PageTable:
    """Return tenants, services, software and security."""
    rows = []
    for tenant in design.tenants:
        jobs = [job.name for job in design.jobs if job.tenant == tenant.name]
        planes = ", ".join(plane.value for plane in tenant.planes)
        rows.append(("tenant", tenant.name, f"on {planes}; jobs: {', '.join(jobs) or 'none'}"))
    for service in design.services:
        copies = counted(service.instances, "instance")
        rows.append(("service", service.kind.value, f"on {service.plane.value}, {copies}"))
    software = design.software
    for name in ("firmware", "driver", "nccl", "nos"):
        value = getattr(software, name)
        if value:
            rows.append(("software", name, value))
    for name in type(design.security).model_fields:
        value = getattr(design.security, name)
        if value is not None:
            shown = value if isinstance(value, str) else ", ".join(value) or "nowhere"
            rows.append(("security", name.replace("_", " "), shown))
    for straggler in design.stragglers:
        wait = format_seconds(straggler.delay)
        rows.append(("straggler", f"GPU {straggler.gpu}", f"waits {wait} before each message"))
    return PageTable(
        "stated-people",
        "Tenants, services, software, security",
        ("what", "name", "stated"),
        tuple(rows),
        (),
        (),
        ("name", "stated"),
    )


def _place_table(design: Design) -> PageTable:
    """Return the hall and what must hold in it."""
    hall, aims = design.facility, design.objectives
    rows = [
        ("rack power", format_si(hall.rack_power, "W")),
        ("cooling", hall.cooling),
        ("racks in a row", f"{hall.racks_per_row}"),
        ("rack and row pitch", f"{hall.rack_pitch:g} m, {hall.row_pitch:g} m"),
        ("slack of a cable", f"{hall.cable_slack:g} m"),
        ("power of the hall", format_si(hall.power, "W") if hall.power else "not limited"),
        ("must survive", f"{aims.survive_switches} switches, {aims.survive_links} links"),
        ("bisection left then", f"at least {aims.min_bandwidth:.0%}"),
        (
            "availability of a server",
            f"{aims.availability:.4%}" if aims.availability is not None else "not asked",
        ),
    ]
    return PageTable(
        "stated-place", "Hall and aims", ("what", "stated"), tuple(rows), (), (), ("stated",)
    )
