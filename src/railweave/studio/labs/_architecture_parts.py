"""Lab 1's component inspector: what a part is, its ports, catalog facts, what its loss costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from railweave.catalog import Breakout, CatalogError, ServerNics, yaml_name
from railweave.fabric import LinkLayer, NodeKind, PlaneId
from railweave.fabric.domains import FailureDomain, failure_domains
from railweave.fabric.names import node_name
from railweave.report.page_table import DASH, PageTable
from railweave.studio.designs import built_design
from railweave.studio.labs._architecture_map import (
    OUTSIDE,
    PLANES,
    Bundle,
    Station,
    SystemMap,
    map_of,
)
from railweave.studio.labs._architecture_planes import summary_of
from railweave.transport.planes import role_of
from railweave.units import format_bits_rate, format_bytes, format_seconds, format_si

if TYPE_CHECKING:
    from railweave.api import BuiltDesign
    from railweave.catalog import Part

__all__ = ["PartView", "failure_of", "part_view"]

#: field practice: what is lost with a part, and what keeps the loss small
_CONTROL: Final = {
    "nic": "A server's path is gone or slow. Spare adapters help where their use has been tested.",
    "leaf": "All its ports are cut off. Rails and dual attachment keep servers reachable.",
    "spine": "Capacity is lost, hosts stay reachable. More spines, and tested convergence, help.",
    "core": "Capacity between pods is lost, hosts stay reachable.",
    "switch": "Its hosts are cut off, and others have less capacity.",
}
_PLAIN: Final = {
    "gpu": "The rank on it stops, and every job with that rank waits or restarts: collectives "
    "need all ranks. This is not simulated here.",
    "scale-up": "GPUs of the domain lose their fast links to each other; jobs that count on them "
    "stop. This is not simulated here.",
    "users": "Users are not part of the fabric.",
    "service": "Its service is gone until another instance takes over; jobs that run go on.",
    "other": "Whatever runs on it is gone; the network loses nothing but its ports.",
}
_LOSS: Final = (
    "network",
    "GPUs cut off from it",
    "servers cut off from it",
    "host capacity lost",
    "bisection lost",
)
#: fields of catalog parts that are not facts
_NO_FACTS: Final = frozenset(
    ("name", "title", "vendor", "status", "source", "certainty", "facts", "note", "like")
)


@dataclass(frozen=True)
class PartView:
    """A component's (or bundle's) inspector: its id, title, sentences and tables."""

    id: str
    title: str
    sentences: tuple[str, ...]
    tables: tuple[PageTable, ...]


def part_view(text: str, name: str) -> PartView:
    """Describe a station of the map, or a bundle of links; unknown names give an empty view."""
    system = map_of(text)
    if name in system.stations:
        return _station(text, system, system.stations[name])
    for bundle in system.bundles:
        if name == bundle.id or name.startswith(f"{bundle.id} ("):
            return _bundle(text, system, bundle)
    if name.startswith(f"{OUTSIDE} – ") or " – " in name:
        one = system.stations.get(name.partition(" – ")[0])
        if one is not None:
            return PartView(name, f"Way of {one.label}", (one.note,), ())
    return PartView(
        "", "", (f"There is no component {name!r} in this design.",) if name else (), ()
    )


def _station(text: str, system: SystemMap, one: Station) -> PartView:
    built = built_design(text)
    words = [role_of(one)]
    if one.count:
        first = node_name(built.fabric, one.nodes[0])
        last = node_name(built.fabric, one.nodes[-1])
        named = f": {first}" if one.count == 1 else f": {first} to {last}"
        words.append(f"There {'is' if one.count == 1 else 'are'} {one.count:,}{named}.")
    if one.note:
        words.append(one.note)
    tables = [_ports(built, system, one), *_facts(built, one)]
    power = _power(text, one)
    if power:
        words.append(power)
    title = one.label if one.what != "server" else f"GPU server: {one.label}"
    return PartView(
        one.id, title[0].upper() + title[1:], tuple(words), tuple(t for t in tables if t.rows)
    )


def _bundle(text: str, system: SystemMap, bundle: Bundle) -> PartView:
    ends = [system.stations[end] for end in (bundle.lower, bundle.upper)]
    shared = system.sharing(bundle.plane) if bundle.plane else ()
    words = [
        f"{bundle.links:,} {bundle.place} links, {bundle.rate}, "
        f"{format_bits_rate(bundle.capacity_bps)} in all, one way."
    ]
    if shared and all(end.what in ("nic", "switch") for end in ends):
        words.append(
            f"{' and '.join(PLANES[p] for p in shared).capitalize()} traffic takes the same links."
        )
    if not bundle.plane:
        words.append("Inside servers: these links belong to no plane.")
    tables = []
    power = summary_of(text).power
    if power is not None and bundle.plane:
        lines = [one for one in power.cables
                 if one.plane == bundle.plane and one.between == bundle.place]  # fmt: skip
        rows = tuple(
            (one.part or "none fits", one.kind, format_bits_rate(one.speed_bps),
             f"{one.length_m:g} m", f"{one.count:,}")
            for one in lines
        )  # fmt: skip
        tables.append(PageTable(
            "part-cables", f"Cables of all {bundle.place} links of this network",
            ("part", "kind", "speed", "length", "cables"), rows,
            ("The catalog's cheapest part that reaches.",),
        ))  # fmt: skip
    title = " – ".join(end.label for end in ends)
    return PartView(bundle.id, title[0].upper() + title[1:], tuple(words), tuple(tables))


# ---------------------------------------------------------------- ports


def _ports(built: BuiltDesign, system: SystemMap, one: Station) -> PageTable:
    """Return the links of one of these, by what they lead to."""
    rows = []
    if one.what == "server":
        rows += list(_server_ports(built, system, one))
    nodes = np.array(one.nodes, dtype=np.int64)
    for bundle in (*system.bundles, *system.inner):
        if one.id not in (bundle.lower, bundle.upper) or not nodes.size:
            continue
        far = bundle.upper if bundle.lower == one.id else bundle.lower
        if one.what == "server" and system.stations[far].what == "nic":
            continue
        each = _degrees(built, system, one, far, bundle)
        least, most = int(each.min()), int(each.max())
        number = f"{least:,}" if least == most else f"{least:,} to {most:,}"
        speeds = " or ".join(format_bits_rate(speed) for speed in bundle.speeds_bps)
        plane = PLANES[bundle.plane] if bundle.plane else "inside the server"
        rows.append((plane, system.stations[far].label, number, speeds))
    header = ("plane", "to", "links of each", "speed")
    return PageTable("ports", "Ports by plane", header, tuple(rows))


def _degrees(
    built: BuiltDesign, system: SystemMap, one: Station, far: str, bundle: Bundle
) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Count the links of every device of a station into another one."""
    fabric, numbers = built.fabric, {name: i for i, name in enumerate(system.stations)}
    a, b = fabric.link_src[::2], fabric.link_dst[::2]
    here, there = numbers[one.id], numbers[far]
    plane = PlaneId[bundle.plane.upper()] if bundle.plane else -1
    in_plane = (fabric.link_plane[::2] == plane) if bundle.plane else (
        fabric.link_layer[::2] <= LinkLayer.PCIE
    )  # fmt: skip
    out = (system.station_of[a] == here) & (system.station_of[b] == there) & in_plane
    back = (system.station_of[b] == here) & (system.station_of[a] == there) & in_plane
    ends = np.concatenate((a[out], b[back]))
    return np.bincount(ends, minlength=fabric.n_nodes)[list(one.nodes)].astype(np.int64)


def _server_ports(built: BuiltDesign, system: SystemMap, one: Station) -> Iterator[tuple[str, ...]]:
    """Yield a server's links into each network, by its adapters."""
    fabric = built.fabric
    servers = fabric.node_server[list(one.nodes)]
    for bundle in system.bundles:
        near = system.stations[bundle.lower]
        if near.what != "nic" or not bundle.plane:
            continue
        here = (fabric.link_plane[::2] == PlaneId[bundle.plane.upper()]) & (
            fabric.node_kind[fabric.link_src[::2]] == NodeKind.NIC
        )
        owner = fabric.node_server[fabric.link_src[::2][here]]
        each = np.bincount(owner, minlength=int(servers.max()) + 1)[servers]
        if not each.any():
            continue
        number = f"{each.min():,}" if each.min() == each.max() else f"{each.min()} to {each.max()}"
        speed = np.unique(fabric.link_capacity_bps[::2][here][np.isin(owner, servers)])
        shared = "".join(f" + {PLANES[p]}" for p in system.sharing(bundle.plane))
        yield (
            PLANES[bundle.plane] + shared,
            system.stations[bundle.upper].label,
            number,
            " or ".join(format_bits_rate(float(rate)) for rate in speed),
        )


# ---------------------------------------------------------------- catalog facts


def _facts(built: BuiltDesign, one: Station) -> Iterator[PageTable]:
    """Yield a table for each catalog part among these; what the design describes has none."""
    found = list(_catalog_parts(built, one))
    for part in found:
        rows = list(_fact_rows(part))
        sources = list(dict.fromkeys(row[3] for row in rows))
        numbered = tuple((*row[:3], f"[{sources.index(row[3]) + 1}]") for row in rows)
        notes = [f"[{number}] {source}." for number, source in enumerate(sources, 1)]
        notes += [f"{part.note}."] if part.note else []
        notes += ["Announced, not shipping yet."] if part.status == "announced" else []
        yield PageTable(
            f"facts-{part.name}",
            f"Catalog: {part.title} ({part.vendor})",
            ("fact", "value", "certainty", "source"),
            numbered,
            tuple(notes),
        )
    stated = _stated(built, one)
    if not found and stated:
        yield PageTable("stated", "As the design describes it", ("field", "value"), stated)


def _catalog_parts(built: BuiltDesign, one: Station) -> Iterator[Part]:
    catalog = built.document.catalog
    groups = built.design.cluster.servers
    chosen = [groups[one.group]] if one.group >= 0 else list(groups)
    models = [catalog.server(group.model) for group in chosen if group.model]
    models = list({model.name: model for model in models}.values())
    if one.what == "server":
        yield from models
    elif one.what in ("gpu", "scale-up"):
        names = [m.gpu for m in models if m.gpu]
        names += [group.inline.gpu for group in chosen if group.inline]
        for name in dict.fromkeys(names):
            yield catalog.gpu(name)
    elif one.what == "nic":
        names = [m.nics[one.plane].nic for m in models if one.plane in m.nics]
        for name in dict.fromkeys(names):
            yield catalog.nic(name)
    elif one.what == "switch":
        for name in sorted({built.fabric.switch_models.get(node, "") for node in one.nodes}):
            try:
                yield catalog.switch(name)
            except CatalogError:  # described in the design
                continue


def _stated(built: BuiltDesign, one: Station) -> tuple[tuple[str, str], ...]:
    """Return what the design itself says of a part that the catalog has not."""
    if one.what == "switch":
        plan = built.built.plans.get(PlaneId[one.plane.upper()])
        shape = plan.switches.get(one.tier) if plan else None
        if shape is not None:
            return (
                ("ports", f"{shape.ports:,}"),
                ("speed of a port", format_bits_rate(shape.speed_bps)),
                ("power", format_si(shape.power_w, "W")),
                ("latency", format_seconds(shape.latency_s)),
            )
    if one.what == "server":
        groups = built.design.cluster.servers
        inline = groups[max(0, one.group)].inline
        if inline is not None:
            return tuple(
                (name.replace("_", " "), _value(_UNIT.get(name, name), value))
                for name, value in inline.model_dump().items()
                if value is not None
            )
    if one.what == "storage" and built.design.cluster.storage_servers is not None:
        stored = built.design.cluster.storage_servers.model_dump()
        return tuple(
            (name.replace("_", " "), _value(_UNIT.get(name, name), value))
            for name, value in stored.items()
            if value is not None
        )
    return ()


#: fields of a design that hold a rate or a power under a name without its unit
_UNIT: Final = {
    "scale_up_bandwidth": "x_bps",
    "nic_speed": "x_bps",
    "pcie_bandwidth": "x_bps",
    "frontend_speed": "x_bps",
    "speed": "x_bps",
    "write_bandwidth": "x_bps",
    "read_bandwidth": "x_bps",
    "power": "x_w",
}


def _fact_rows(part: Part) -> Iterator[tuple[str, str, str, str]]:
    for field in type(part).model_fields:
        value = getattr(part, field)
        if field in _NO_FACTS or value is None or value in ((), {}, ""):
            continue
        items = value.items() if isinstance(value, dict) else [("", value)]
        for key, inner in items:
            path = f"{field}.{key}" if key else field
            source = part.provenance(path)
            note = part.facts.get(yaml_name(path)) or part.facts.get(path)
            said = source.title + (f" ({note.note})" if note is not None and note.note else "")
            name = yaml_name(field).replace("_", " ") + (f", {key}" if key else "")
            yield name, _value(field, inner), source.certainty.value, said


#: ending of a field's name → how its value is written
_WRITE: Final[Mapping[str, Callable[[float], str]]] = {
    "_Bps": lambda value: format_si(value, "B/s"),
    "_flops": lambda value: format_si(value, "FLOP/s"),
    "_bps": format_bits_rate,
    "_bytes": format_bytes,
    "_w": lambda value: format_si(value, "W"),
    "_s": format_seconds,
    "_m": lambda value: f"{value:g} m",
}


def _value(field: str, value: object) -> str:
    """Write a fact with its unit, which the name of its field ends in."""
    if isinstance(value, tuple):
        return ", ".join(_value("", one) for one in value)
    if isinstance(value, Breakout):
        return f"{value.ways} × {format_bits_rate(value.speed_bps)}"
    if isinstance(value, ServerNics):
        return f"{value.count} × {format_bits_rate(value.speed_bps)}, {value.nic}"
    if isinstance(value, int | float):
        write = next((how for ending, how in _WRITE.items() if field.endswith(ending)), None)
        if write is not None:
            return write(float(value))
        return f"{value:,}" if isinstance(value, int) else f"{value:,g}"
    return str(value)


def _power(text: str, one: Station) -> str:
    """Say what these draw, where it is known."""
    power = summary_of(text).power
    if power is None or one.what not in ("server", "switch"):
        return ""
    if one.what == "server":
        alone = sum(s.what == "server" for s in map_of(text).stations.values()) == 1
        return (f"The servers draw {format_si(power.servers_w, 'W')} at most, all "
                f"{'' if alone else 'groups '}together.")  # fmt: skip
    drawn = next(p for p in power.planes if p.plane == one.plane)
    return (
        f"The switches of the {PLANES[one.plane]} network draw {format_si(drawn.switches_w, 'W')} "
        f"and the modules in their ports {format_si(drawn.optics_w, 'W')}."
    )


# ---------------------------------------------------------------- failure


@lru_cache(maxsize=32)
def _domains(text: str, network: str) -> tuple[FailureDomain, ...]:
    return failure_domains(built_design(text).fabric, PlaneId[network.upper()])


def failure_of(text: str, name: str) -> PageTable:
    """Say what stops if one of a station's parts fails: measured where the fabric tells."""
    system = map_of(text)
    one = system.stations.get(name)
    title = "What stops if one fails"
    header = _LOSS
    if one is None:
        note = "A cable's loss is tried in lab 5, where links can be taken out one by one."
        return PageTable("failure", title, header, (), (note,) if name else ())
    if one.what == "server":
        rows, note = tuple(_server_loss(text, system, one)), (
            "Its GPUs stop with it: every job with a rank there waits or restarts."
        )  # fmt: skip
        return PageTable("failure", title, header, rows, (note,))
    if one.what == "storage":
        lost = f"{1 / one.count:.1%}" if one.count else DASH
        note = (f"With one of {one.count:,} gone, {lost} of the storage servers' ports and "
                "bandwidth is; whether data is lost depends on copies, which the design does not "
                "describe.")  # fmt: skip
        return PageTable("failure", title, header, (), (note,))
    kind = one.tier if one.what == "switch" else one.what
    if kind in _PLAIN:
        return PageTable("failure", title, header, (), (_PLAIN[kind],))
    found = next((d for d in _domains(text, one.plane) if d.kind == kind), None)
    if found is None:
        return PageTable("failure", title, header, (), (_CONTROL[kind],))
    row = (
        PLANES[one.plane],
        f"{found.gpus_cut_off:,}",
        f"{found.servers_cut_off:,}",
        f"{found.host_share_lost:.1%}",
        f"{found.bisection_share_lost:.1%}",
    )
    shared = system.sharing(one.plane)
    notes = [f"The worst of {found.of:,}. {_CONTROL[kind]}"]
    if shared:
        notes.append(f"It takes {' and '.join(PLANES[p] for p in shared)} traffic down as well.")
    return PageTable("failure", title, header, (row,), tuple(notes))


def _server_loss(text: str, system: SystemMap, one: Station) -> Iterator[tuple[str, ...]]:
    """Yield what one server takes with it in each network."""
    from railweave.fabric.failures import parse_failures, what_if

    fabric = built_design(text).fabric
    failure = parse_failures(fabric, (node_name(fabric, one.nodes[0]),))
    for network in dict.fromkeys(system.carrier.values()):
        cost = what_if(fabric, failure, PlaneId[network.upper()])
        before, after = cost.before, cost.after
        yield (
            PLANES[network],
            f"{cost.gpus_cut_off:,}",
            f"{after.servers_cut_off - before.servers_cut_off:,}",
            f"{1 - after.host_bps / before.host_bps:.1%}" if before.host_bps else DASH,
            f"{1 - cost.bisection_left:.1%}",
        )
