"""Lab 5 without its page: from the controls to everything that is shown, by the public API."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from railweave.errors import DesignError, Problem, RailweaveError, SizingError
from railweave.fabric import Fabric, PlaneId
from railweave.fabric.capacity import rack_capacities, switch_capacities
from railweave.fabric.summary import BuildSummary, build_summary
from railweave.report.main_job import pod_name
from railweave.report.page_table import PageTable
from railweave.report.page_table import ratio as ratio_text
from railweave.studio.designs import built_design
from railweave.studio.fabric_scene import fabric_scene, unknown_groups
from railweave.studio.lab import Number, Reproduce, TraceRow, sentence
from railweave.studio.labs._fabric_failed import known_failures
from railweave.studio.labs._fabric_flows import link_loads
from railweave.studio.labs._fabric_path import PathView, path_view
from railweave.studio.labs._fabric_python import reproduce
from railweave.studio.labs._fabric_state import State, design_text
from railweave.studio.scene import Scene
from railweave.units import counted, format_bits_rate, format_si

if TYPE_CHECKING:
    from railweave.api import BuiltDesign
    from railweave.fabric.capacity import TierCapacity
    from railweave.fabric.failures import WhatIf

__all__ = ["ALL", "BIG_GPUS", "Part", "Refusal", "View", "study"]

F64 = npt.NDArray[np.float64]

#: the canvas's states in words
_STATES: Final = {
    "": "up",
    "down": "out",
    "hot": "up, busiest",
    "marked": "up, on the path",
    "paused": "up",
    "slow": "up",
}
#: stands for every group in ``State.open``
ALL: Final = "all"
#: GPUs from which building takes so long that it is said
BIG_GPUS: Final = 4096
#: devices and cables up to which a fabric is drawn in full at once
MOST_DRAWN: Final = 12_000
FILE: Final = "fabric.yaml"
#: the control that writes a field of the back-end, or of the cluster
CONTROLS: Final = {
    "counts.spine": "Spines",
    "switch": "Switch",
    "topology": "Topology",
    "tiers": "Tiers",
    "planes": "Parallel planes",
    "uplink_speed": "Uplink speed",
    "speed": "NIC speed",
    "oversubscription": "Oversubscription",
    "oversubscription.leaf": "Oversubscription of a leaf",
    "oversubscription.spine": "Oversubscription of a spine",
    "zone": "Servers a zone",
    "top_of_rack": "One leaf a rack",
    "routing": "Routing",
    "routing.scheme": "Routing",
    "routing.queue_pairs": "Queue pairs",
    "cluster.racks": "Racks",
    "cluster.servers_per_rack": "Servers a rack",
}
#: the input that takes the value proposed for a field
FIXES: Final = {
    "counts.spine": "spines",
    "topology": "topology",
    "tiers": "tiers",
    "planes": "planes",
    "uplink_speed": "uplink_speed",
    "zone": "zone",
    "routing.scheme": "routing",
    "cluster.racks": "racks",
}


@dataclass(frozen=True, slots=True)
class Part:
    """A device, a cable or a bundle of what is drawn: a row of the table under the drawing."""

    id: str
    name: str
    kind: str
    ends: str
    state: str
    detail: str


@dataclass(frozen=True)
class Refusal:
    """Why the controls describe nothing that can be built, in a sentence.

    ``fix`` is the (field of the state, its nearest value that is said to work), where it is known.
    """

    sentence: str
    fix: tuple[str, object] | None = None


@dataclass(frozen=True)
class View:
    """Everything that the lab shows of one state, without its flows.

    ``unknown`` are sentences on names of the address that this fabric does not have.
    """

    text: str
    gpus: int
    out: tuple[str, ...]
    numbers: tuple[Number, ...]
    sentences: tuple[str, ...]
    tables: tuple[PageTable, ...]
    scene: Scene
    parts: tuple[Part, ...]
    cost: PageTable | None
    path: PathView
    trace: tuple[TraceRow, ...]
    reproduce: Reproduce
    assumptions: tuple[str, ...]
    note: str
    unknown: tuple[str, ...]


def study(state: State) -> View | Refusal:
    """Build what the controls say and return it in numbers, words and a drawing.

    What cannot be built is answered by a `Refusal`; nothing is raised for it.
    """
    try:
        return _study(state)
    except DesignError as error:
        said = " ".join(sentence(_said(problem)) for problem in error.problems)
        return Refusal(said, _fix(error.problems[0]))
    except SizingError as error:
        return Refusal(sentence(_said(error.problem)), _fix(error.problem))
    except RailweaveError as error:
        return Refusal(sentence(str(error)))


def _said(problem: Problem) -> str:
    """Write a problem with the control that it is of, instead of a line of a file."""
    control = CONTROLS.get(problem.path.removeprefix("planes.backend."))
    path = f"{control} ({problem.path})" if control else problem.path
    return str(replace(problem, path=path, file="", line=0))


def _fix(problem: Problem) -> tuple[str, object] | None:
    """Return the control and the value that the problem proposes."""
    field = FIXES.get(problem.path.removeprefix("planes.backend."))
    if field is None or not problem.nearest:
        return None
    whole = isinstance(getattr(State(), field), int)
    if whole and not problem.nearest.isdigit():
        return None
    return field, int(problem.nearest) if whole else problem.nearest


def _study(state: State) -> View:
    text = design_text(state)
    whole = built_design(text)
    out, gone = known_failures(whole, state.out)
    state = replace(state, out=out)
    built = whole.fail(out)
    summary = build_summary(built.built, built.design, built.document.catalog, domains=False)
    cost = whole.what_if(state.out) if state.out else None
    path = path_view(built, state)
    load = link_loads(built, state) if state.loads else None
    scene, note = _scene(built.fabric, state, path, load, pod_name(summary.backend))
    counts = summary.backend.counts
    strange = unknown_groups([one for one in state.open if one != ALL], built.fabric)
    return View(
        text=text,
        gpus=counts.gpus,
        out=out,
        numbers=_numbers(built, summary, cost),
        sentences=tuple(_sentences(built, summary, cost)),
        tables=_tables(summary),
        scene=scene,
        parts=_parts(scene),
        cost=cost_table(cost) if cost else None,
        path=path,
        trace=path.trace,
        reproduce=reproduce(FILE, state.out, path, power=summary.power is not None),
        assumptions=tuple(
            f"{one.subject}: {one.statement} ({one.certainty.value})" for one in summary.assumptions
        ),
        note=" ".join(part for part in (gone, note) if part),
        unknown=tuple(sentence(part) for part in (gone, strange, *path.unknown) if part),
    )


# ---------------------------------------------------------------- the drawing


def _scene(
    fabric: Fabric, state: State, path: PathView, load: F64 | None, pod: str
) -> tuple[Scene, str]:
    """Draw the back-end, with the groups opened that are asked for."""
    wanted = frozenset(state.open)
    note = ""
    if ALL in wanted:
        closed = fabric_scene(fabric)
        size = sum(group.count for group in closed.groups) + fabric.n_links // 2
        wanted = frozenset(group.id for group in closed.groups)
        if size > MOST_DRAWN:
            wanted, note = (
                frozenset(),
                (
                    f"All groups together have {size:,} devices and cables, more than the "
                    f"{MOST_DRAWN:,} that are drawn at once; open the groups one by one."
                ),
            )
    scene = fabric_scene(
        fabric,
        expanded=wanted,
        load=load,
        marked=path.duplex,
        pod_name=pod,
        title=f"back-end of {fabric.name}",
    )
    return scene, note


def _parts(scene: Scene) -> tuple[Part, ...]:
    """Return what is drawn as rows: devices from the top down, then links."""
    order = {kind: n for n, kind in enumerate(("core", "spine", "switch", "leaf"))}
    nodes = sorted(scene.nodes, key=lambda node: order.get(node.kind, 9))
    label = {node.id: node.label for node in scene.nodes}
    rows = [
        Part(
            node.id,
            node.label,
            node.kind if node.count == 1 else f"{node.count:,} × {node.kind}",
            "",
            _STATES[node.state],
            node.detail,
        )
        for node in nodes
    ]
    rows += [
        Part(
            link.id,
            link.id,
            "link" if link.count == 1 else f"{link.count:,} links",
            f"{label[link.source]} – {label[link.target]}",
            "partly out" if link.role == "fault" else _STATES[link.state],
            link.detail,
        )
        for link in scene.links
    ]
    return tuple(rows)


# ---------------------------------------------------------------- numbers


def _numbers(built: BuiltDesign, summary: BuildSummary, cost: WhatIf | None) -> tuple[Number, ...]:
    """Return the tiles: the same numbers as ``railweave build --json``."""
    plane = summary.backend
    counts, capacity = plane.counts, plane.capacity
    found = [_count("gpus", "GPUs", counts.gpus), _count("servers", "Servers", counts.servers)]
    keys = {"leaf": "leaves", "spine": "spines", "core": "cores", "switch": "switches"}
    for tier, count in counts.switches:
        found.append(_count(keys[tier], keys[tier].capitalize(), count))
    found.append(_count("cables", "Cables", sum(n for _, n in plane.cables)))
    found += _capacity_numbers(built, summary, out=cost is not None)
    found.append(_rate("bisection", "Bisection", capacity.bisection_bps))
    share = capacity.bisection.fraction
    if np.isfinite(share):
        found.append(Number("bisection_share", "Of full bisection", f"{share:.1%}", share))
    paths = capacity.ecmp_paths
    found.append(Number("ecmp_paths", "Equal-cost paths", f"{paths:,.0f}", float(paths)))
    if summary.power is not None:
        power_w = summary.power.total_w
        found.append(Number("power", "Power", format_si(power_w, "W"), power_w))
    if cost is not None:
        found.append(
            Number("bisection_left", "Bisection left", f"{cost.bisection_left:.1%}",
                   cost.bisection_left)
        )  # fmt: skip
        found.append(_count("gpus_cut_off", "GPUs cut off", cost.gpus_cut_off))
    return tuple(found)


def _capacity_numbers(built: BuiltDesign, summary: BuildSummary, *, out: bool) -> list[Number]:
    """Return what leads upwards: by leaf, in all, and out of a rack."""
    plane = summary.backend
    leaf = plane.capacity.plane.tier("leaf")
    found = _ratio_numbers(built, leaf, out=out)
    ways = next((tier for tier in plane.paths.tiers if tier.tier == "leaf"), None)
    if ways is not None and leaf is not None:
        found.append(_count("ecmp_spines", "Spines a leaf can choose", ways.min_neighbours))
        found.append(_count("uplinks", "Uplinks of a leaf", ways.min_uplinks))
        switches = switch_capacities(built.fabric, PlaneId.BACKEND)
        at = np.array(switches.tier) == "leaf"
        least = float(switches.up_bps[at].min(initial=np.inf)) if at.any() else 0.0
        found.append(_rate("leaf_uplink", "Uplink of a leaf", least))
        found.append(_rate("uplink_capacity", "Uplinks of all leaves", leaf.populated_up_bps))
    frame = built.routing().planes[PlaneId.BACKEND].frame
    racks = rack_capacities(built.fabric, PlaneId.BACKEND, frame)
    if racks:
        leaving = min(rack.leaving_bps for rack in racks)
        found.append(_rate("rack_uplink", "Uplink of a rack", leaving))
    return found


def _ratio_numbers(built: BuiltDesign, leaf: TierCapacity | None, *, out: bool) -> list[Number]:
    """Return the leaves' oversubscription as built; with parts out, first the worst leaf's."""
    value = None if leaf is None else leaf.oversubscription
    if value is None:
        return []
    text = ratio_text(value)
    if not out:
        return [Number("oversubscription", "Oversubscription", text, value)]
    found = [Number("oversubscription:built", "Oversubscription, as built", text, value)]
    worst = _worst_leaf(built)
    if worst is not None:
        shown = ratio_text(worst) if np.isfinite(worst) else "no way up"
        found.insert(0, Number("oversubscription", "Oversubscription, worst leaf", shown, worst))
    return found


def _worst_leaf(built: BuiltDesign) -> float | None:
    """Return down / up of the leaf with the least way up for its hosts, by the links that are up.

    Infinite where nothing leads up; None where no leaf has a host left.
    """
    switches = switch_capacities(built.fabric, PlaneId.BACKEND)
    busy = (np.array(switches.tier) == "leaf") & (switches.down_bps > 0)
    return float(switches.oversubscription[busy].max()) if busy.any() else None


def _count(key: str, label: str, value: int) -> Number:
    return Number(key, label, f"{value:,}", float(value))


def _rate(key: str, label: str, value_bps: float) -> Number:
    return Number(key, label, format_bits_rate(value_bps), value_bps)


# ---------------------------------------------------------------- words and tables


def _sentences(built: BuiltDesign, summary: BuildSummary, cost: WhatIf | None) -> Iterable[str]:
    """Say what the numbers mean."""
    plane = summary.backend
    counts = plane.counts
    switches = ", ".join(f"{n:,} {_plural(tier, n)}" for tier, n in counts.switches)
    yield f"{counts.servers:,} servers with {counts.gpus:,} GPUs on {switches}."
    leaf = plane.capacity.plane.tier("leaf")
    yield _ratio_sentence(built, leaf.oversubscription if leaf else None, out=cost is not None)
    if cost is not None:
        text = cost.describe()
        yield text[0].upper() + text[1:] + "."
    yield from (f"{finding.message}." for finding in built.built.findings if finding.message)
    steps = [
        f"{step.topology} to {step.max_gpus:,} GPUs{'' if step.enough else ' (too few)'}"
        for step in plane.growth
    ]
    if steps:
        yield f"With these switches the back-end goes: {'; '.join(steps)}."


def _ratio_sentence(built: BuiltDesign, planned: float | None, *, out: bool) -> str:
    """Say how much of what a leaf takes in it can send up, of the links that are up."""
    if planned is None:
        return "One tier: no link is shared on the way between two hosts."
    value = _worst_leaf(built) if out else planned
    if value is None:
        return "No leaf has a host left."
    if not np.isfinite(value):
        return f"A leaf has hosts and no way up left (as built {ratio_text(planned)})."
    which = "With these parts out the leaf that is worst off" if out else "A leaf"
    ratio = f"{ratio_text(value)}; as built {ratio_text(planned)}" if out else ratio_text(value)
    if value <= 1:
        return (
            f"{which} sends up as much as it takes in ({ratio}); flows can still meet "
            "on one uplink while another is idle, as the distribution below shows."
        )
    whose = "the leaf that is worst off" if out else "a leaf"
    return (
        f"{'With these parts out, when' if out else 'When'} all hosts of {whose} send upwards at "
        f"once, each gets {1 / value:.0%} of its speed ({ratio})."
    )


def _plural(tier: str, count: int) -> str:
    if count == 1:
        return tier
    return {"leaf": "leaves", "switch": "switches"}.get(tier, f"{tier}s")


def _tables(summary: BuildSummary) -> tuple[PageTable, ...]:
    from railweave.report.tables import capacity_tables, cuts_table, path_table

    tables = (*capacity_tables(summary), cuts_table(summary), path_table(summary))
    return tuple(table for table in tables if table.rows)


def cost_table(cost: WhatIf) -> PageTable:
    """Return a plane before and after a failure."""
    a, b = cost.before, cost.after
    rows = [
        ("links up", f"{a.links_up:,}", f"{b.links_up:,}"),
        ("host links with a way", format_bits_rate(a.host_bps), format_bits_rate(b.host_bps)),
    ]
    after = {tier: (down, up) for tier, down, up in b.tiers}
    for tier, _, up in a.tiers:
        if up:
            now = after.get(tier, (0.0, 0.0))[1]
            rows.append((f"up from the {_plural(tier, 2)}", format_bits_rate(up),
                         format_bits_rate(now)))  # fmt: skip
    rows += [
        ("bisection", format_bits_rate(a.bisection_bps),
         f"{format_bits_rate(b.bisection_bps)} ({cost.bisection_left:.1%})"),
        ("its worst halving", a.bisection_cut, b.bisection_cut),
        ("equal-cost paths", f"{a.ecmp_paths:,.0f}", f"{b.ecmp_paths:,.0f}"),
        ("diameter, links", f"{a.diameter}", f"{b.diameter}"),
        ("GPUs cut off", f"{a.gpus_cut_off:,}", f"{b.gpus_cut_off:,}"),
        ("servers cut off", f"{a.servers_cut_off:,}", f"{b.servers_cut_off:,}"),
    ]  # fmt: skip
    links = counted(cost.links_down, "link", "links")
    title = f"{links} and {counted(cost.switches_down, 'switch', 'switches')} out"
    return PageTable("cost", title, ("", "before", "after"), tuple(rows))
