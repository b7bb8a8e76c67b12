"""What can be observed of a design, by name. Rooms are imported only when an observer needs them.

Each observer takes a design as plain data and returns something that compares. All of them look
through the product's own interface, so that a field counts only where a user can see it.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from ruamel.yaml import YAML

from railweave.design import LoadedDesign, parse_design
from railweave.errors import DesignError, InputError
from railweave.fabric import PlaneId

FILES = Path(__file__).parent / "files"


class NotConnected(Exception):  # noqa: N818 - a state, not a fault
    """The room that an observer needs is not there."""


def room(name: str, *wanted: str) -> ModuleType:
    """Import a room of railweave that has these names."""
    try:
        module = importlib.import_module(f"railweave.{name}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("railweave"):
            raise NotConnected(name) from None
        raise
    for attribute in wanted:
        if not hasattr(module, attribute):
            raise NotConnected(f"{name}.{attribute}")
    return module


def text_of(design: dict[str, Any]) -> str:
    """Write a design as YAML."""
    from io import StringIO

    out = StringIO()
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.dump(design, out)
    return out.getvalue()


def load(design: dict[str, Any]) -> LoadedDesign:
    """Load a design whose files stand in ``files``."""
    return _load(text_of(design))


@cache
def _load(text: str) -> LoadedDesign:
    return parse_design(text, "design.yaml", FILES)


@cache
def _built(text: str) -> Any:
    """Build with the product's own interface, graph files beside the design."""
    loaded = _load(text)
    build = room("fabric.build", "build_fabric").build_fabric
    whole = build(loaded.design, loaded.catalog, folder=loaded.folder)
    return room("api", "BuiltDesign").BuiltDesign(loaded, whole)


def built(design: dict[str, Any]) -> Any:
    """Build a design's fabric."""
    return _built(text_of(design)).built


def whole(design: dict[str, Any]) -> Any:
    """Return the built design with everything it can do."""
    return _built(text_of(design))


# ---------------------------------------------------------------- observers


def accepts(design: dict[str, Any]) -> Any:
    """Whether the loader takes it, or what it answers."""
    try:
        load(design)
    except DesignError as error:
        return str(error)
    return "accepted"


def builds(design: dict[str, Any]) -> Any:
    """Whether it can be built: its counts, or the reason why not."""
    try:
        return counts(design)
    except InputError as error:
        return str(error)


def counts(design: dict[str, Any]) -> Any:
    """Nodes by kind, plane and tier."""
    fabric = built(design).fabric
    columns = np.stack((fabric.node_kind, fabric.node_plane, fabric.node_tier))
    found, number = np.unique(columns, axis=1, return_counts=True)
    return found.T.tolist(), number.tolist()


def racks(design: dict[str, Any]) -> Any:
    """Rack of every node."""
    return built(design).fabric.node_rack.tolist()


def names(design: dict[str, Any]) -> Any:
    """Names of the servers."""
    return built(design).fabric.server_names


def links(design: dict[str, Any]) -> Any:
    """Both ends, speed, delay and plane of every link."""
    fabric = built(design).fabric
    return tuple(
        getattr(fabric, name).tolist()
        for name in (
            "link_src",
            "link_dst",
            "link_capacity_bps",
            "link_delay_s",
            "link_plane",
            "link_layer",
        )
    )


def lengths(design: dict[str, Any]) -> Any:
    """Length of every link."""
    return np.nan_to_num(built(design).fabric.link_length_m).tolist()


def cables(design: dict[str, Any]) -> Any:
    """Which links share a cable."""
    return built(design).fabric.duplex_cable.tolist()


def capacity(design: dict[str, Any]) -> Any:
    """What the plan sets aside, down and up, by plane."""
    plans = built(design).plans
    return [(plane, plan.provisions) for plane, plan in sorted(plans.items())]


def power(design: dict[str, Any]) -> Any:
    """Power of servers, switches and modules."""
    report = room("assess.power", "design_power").design_power(load(design), built(design))
    return report.servers_w, report.switches_w, report.optics_w


def findings(design: dict[str, Any]) -> Any:
    """What the checks say, without positions (those move with any edit)."""
    found = room("assess", "run_checks").run_checks(load(design), built(design))
    return [(f.id, f.severity, f.message, f.evidence, f.fix) for f in found]


def _workload(design: dict[str, Any]) -> Any:
    room("workload.jobs", "design_workload")
    return whole(design).workload()


def traffic(design: dict[str, Any]) -> Any:
    """Ends, sizes, rounds and start of all that is sent."""
    sent = _workload(design).traffic
    return tuple(
        getattr(sent, name).tolist()
        for name in ("src", "dst", "chunk_bytes", "chunk_delay_s", "task_rounds", "task_start_s")
    )


def labels(design: dict[str, Any]) -> Any:
    """Labels of the tasks."""
    return _workload(design).traffic.labels


def time(design: dict[str, Any]) -> Any:
    """When each task ends, by the flow engine."""
    room("fabric.planes", "compile_planes")
    result = whole(design).simulate()
    return np.nan_to_num(result.task_finish_s).tolist()


def _record(design: dict[str, Any]) -> Any:
    room("fabric.planes", "compile_planes")
    room("fabric.summary", "build_summary")
    room("report.main_job", "run_design")
    return whole(design).run(what_ifs=False)


def storage(design: dict[str, Any]) -> Any:
    """What the record says of storage traffic: write time and step time lost."""
    record = _record(design)
    if not hasattr(record, "storage"):
        raise NotConnected("report.record.RunRecord.storage")
    return record.storage


def report(design: dict[str, Any]) -> Any:
    """The text of the report."""
    html = room("report.html", "render_html")
    return html.render_html(_record(design))


def packets(design: dict[str, Any]) -> Any:
    """Return when the packet engine ends each task."""
    times = whole(design).simulate("packet").task_finish_s
    return times.tolist()


def qos(design: dict[str, Any]) -> Any:
    """What the packet engine is given of the back-end: settings by switch model, and of a NIC."""
    lossless = room("fabric.lossless", "plane_qos")
    loaded, fabric = load(design), built(design).fabric
    made = lossless.plane_qos(fabric, loaded.design, loaded.catalog, PlaneId.BACKEND)
    seen = []
    for switch in made.switches.values():
        fields = {field.name: getattr(switch, field.name) for field in dataclasses.fields(switch)}
        for policy in ("ecn", "headroom_bytes", "pfc_response_s"):
            del fields[policy]
        fields["assumptions"] = ()
        marks = [switch.ecn(priority, 400e9) for priority in range(8)]
        room_of = [switch.headroom_bytes(400e9, length) for length in (5.0, 40.0)]
        seen.append((fields, marks, room_of, switch.pfc_response_s(400e9)))
    return seen, made.nic(400e9, 5.0)


OBSERVERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    function.__name__: function
    for function in (
        accepts,
        builds,
        cables,
        capacity,
        counts,
        findings,
        labels,
        lengths,
        links,
        names,
        power,
        packets,
        qos,
        racks,
        report,
        storage,
        time,
        traffic,
    )
}
