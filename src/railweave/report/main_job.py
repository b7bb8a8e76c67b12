"""The main job: a built design, checked and simulated, as one `RunRecord`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import railweave
from railweave.design import resolved_yaml
from railweave.fabric import PlaneId
from railweave.fabric.capacity import rack_capacities, switch_capacities
from railweave.fabric.routing import RoutingSet
from railweave.fabric.wire import Framing, encryption_bytes, encryption_on
from railweave.provenance import Assumption
from railweave.report.outcomes import (
    completion_stats,
    heat_maps,
    job_outcomes,
    simulate_workload,
    spread_outcomes,
    storage_outcomes,
    what_if_outcomes,
)
from railweave.report.partial import Partial
from railweave.report.predicted import forecast
from railweave.report.record import CompletionStats, RunRecord, WhatIfOutcome
from railweave.report.spread import spread_curves
from railweave.report.stated import stated_tables
from railweave.report.topology import collapse

if TYPE_CHECKING:
    import polars as pl

    from railweave.api import BuiltDesign
    from railweave.design.models import RoutingScheme
    from railweave.engine.choice import EngineChoice
    from railweave.engine.result import Result
    from railweave.fabric import Fabric
    from railweave.fabric.summary import PlaneSummary

__all__ = ["pod_name", "run_design"]

#: what the field calls a pod of these topologies
_POD_NAMES = {"rail-optimized": "SU", "multi-zone": "zone", "dual-plane-dual-tor": "segment"}


def run_design(
    built: BuiltDesign,
    *,
    choice: EngineChoice,
    routing: RoutingScheme | None,
    seed: int | None,
    what_ifs: bool,
    progress: Callable[[str, float], None],
    known: Callable[[dict[str, Any]], None] | None = None,
) -> RunRecord:
    """Do the main job on a built design; see :meth:`railweave.api.BuiltDesign.run`."""
    progress("summary", 0.05)
    summary = built.summary()
    progress("check", 0.12)
    findings = built.check()
    progress("route", 0.15)
    routes = built.routing(routing, seed)
    workload = built.workload(seed)
    partial = Partial(workload, known) if known is not None else None
    progress("simulate", 0.2)
    simulated = simulate_workload(
        built.fabric,
        workload,
        routes,
        choice=choice,
        progress=progress,
        span=(0.2, 0.5),
        watch=partial.watch if partial else None,
    )
    result = simulated.result
    if partial:
        partial.simulated(result)
    faults = choice.settings.faults if choice.settings else ()
    outcomes: tuple[WhatIfOutcome, ...] = ()
    if what_ifs and not faults:  # a fault may aim at the very part that a what-if takes out
        outcomes = what_if_outcomes(
            built.fabric,
            simulated,
            routes,
            choice=choice,
            progress=progress,
            known=partial.without if partial else None,
        )
    progress("predict", 0.91)
    jobs = job_outcomes(built.fabric, simulated, routes)
    training, collectives = forecast(
        built,
        workload,
        routes,
        {job.name: job.busbw_Bps for job in jobs},
        routing=routing,
        seed=seed,
    )
    assumptions = dict.fromkeys(
        (
            *workload.assumptions,
            *result.assumptions,
            *_encryption(built, routes),
            *summary.assumptions,
        )
    )
    completions = completion_stats(result)
    return RunRecord(
        name=built.design.name,
        description=built.design.description,
        design_file=built.document.file,
        design_yaml=resolved_yaml(built.document),
        stated=stated_tables(built.design),
        design_sha256=built.document.document.sha256,
        version=railweave.__version__,
        engine=choice.name,
        seed=built.design.seed if seed is None else seed,
        command=_command(built, choice, routing, seed),
        summary=summary,
        topology=collapse(built.fabric, pod_name=pod_name(summary.backend)),
        findings=(*findings, *result.findings),
        jobs=jobs,
        completions=completions,
        spreads=spread_outcomes(built.fabric, result),
        curves=spread_curves(built.fabric, result),
        storage=storage_outcomes(built.design, result),
        heat=heat_maps(built.fabric, result),
        what_ifs=outcomes,
        training=training,
        collectives=collectives,
        makespan_s=result.makespan_s,
        bytes_sent=result.bytes_sent,
        bytes_delivered=result.bytes_delivered,
        bytes_dropped=result.bytes_dropped,
        bytes_in_flight=result.bytes_in_flight,
        events=result.events,
        assumptions=tuple(assumptions),
        explanations=result.explain(),
        tables=(
            ("tasks", result.frame()),
            ("links", _link_frame(built.fabric, result)),
            ("completions", _completion_frame(completions)),
            ("switches", _switch_frame(built.fabric, routes)),
            ("racks", _rack_frame(built.fabric, routes)),
        ),
    )


def pod_name(plane: PlaneSummary) -> str:
    """Return what the field calls a pod here; with three tiers a pod holds several units."""
    if len(plane.counts.switches) > 2 and plane.topology == "rail-optimized":
        return "pod"
    return _POD_NAMES.get(plane.topology, "pod")


def _encryption(built: BuiltDesign, routes: RoutingSet) -> tuple[Assumption, ...]:
    """Say what encryption adds to each packet, where a plane is encrypted, and what is left out."""
    frames = routes.frames()
    added = [
        f"{plane.name.lower()} {' and '.join(kinds)} {encryption_bytes(frames[int(plane)])}"
        for plane in sorted(built.built.network)
        if (kinds := encryption_on(built.design.planes, built.built.network, plane))
    ]
    if not added:
        return ()
    return (
        Assumption(
            "encryption",
            f"its bytes are counted ({'; '.join(added)}); its delay, key exchange and what it "
            "hides from ECMP hashes are not modelled",
        ),
    )


def _command(
    built: BuiltDesign,
    choice: EngineChoice,
    routing: RoutingScheme | None,
    seed: int | None,
) -> str:
    """Return the command line that makes the same record."""
    words = ["railweave run", built.document.file, f"--engine {choice.name}"]
    words += [f"--routing {routing.value}"] if routing else []
    words += [f"--seed {seed}"] if seed is not None else []
    words += [f"--tolerance {choice.tolerance:g}"] if choice.tolerance else []
    words += [f"--fail {item}" for item in built.failed]
    faults = choice.settings.faults if choice.settings else ()
    words += [f"--fault '{fault}'" for fault in faults]
    return " ".join(words)


def _link_frame(fabric: Fabric, result: Result) -> pl.DataFrame:
    """Return one row a network link and direction: its ends, load and utilisation."""
    import numpy as np
    import polars as pl

    from railweave.fabric import LinkLayer, PlaneId
    from railweave.fabric.names import port_name

    links = np.flatnonzero(fabric.link_layer >= LinkLayer.HOST_LEAF)
    return pl.DataFrame(
        {
            "source": [port_name(fabric, int(link)) for link in links],
            "destination": [port_name(fabric, int(link), head=True) for link in links],
            "plane": [PlaneId(p).name.lower() for p in fabric.link_plane[links]],
            "layer": [LinkLayer(layer).name.lower() for layer in fabric.link_layer[links]],
            "up": fabric.link_up[links],
            "capacity_bps": fabric.link_capacity_bps[links],
            "length_m": fabric.link_length_m[links],
            "wire_bytes": result.link_bytes[links],
            "utilisation": result.link_utilisation[links],
            "peak": result.link_peak[links],
        }
    )


def _completion_frame(completions: Sequence[CompletionStats]) -> pl.DataFrame:
    """Return one row a kind of traffic: percentiles of completion time and of slowdown."""
    import polars as pl

    schema = {field.name: None for field in dataclasses.fields(CompletionStats)}
    rows = [dataclasses.asdict(stats) for stats in completions]
    return pl.DataFrame(rows) if rows else pl.DataFrame(schema=schema)


def _networks(routes: RoutingSet) -> list[tuple[PlaneId, Framing]]:
    """Return every plane with a network of its own and how its packets are framed."""
    return sorted(
        {int(r.plane): (r.plane, r.frame) for r in routes.planes.values()}.values(),
        key=lambda network: int(network[0]),
    )


def _switch_frame(fabric: Fabric, routes: RoutingSet) -> pl.DataFrame:
    """Return one row a switch: its live links and rates, nominal and of payload."""
    import polars as pl

    from railweave.fabric.names import node_name

    parts = []
    for plane, frame in _networks(routes):
        found = switch_capacities(fabric, plane, frame)
        parts.append(
            pl.DataFrame(
                {
                    "switch": [node_name(fabric, int(node)) for node in found.node],
                    "plane": [plane.name.lower()] * len(found.node),
                    "tier": list(found.tier),
                    "down_links": found.down_links,
                    "up_links": found.up_links,
                    "down_bps": found.down_bps,
                    "up_bps": found.up_bps,
                    "effective_down_bps": found.down_bps * found.efficiency,
                    "effective_up_bps": found.up_bps * found.efficiency,
                    "oversubscription": found.oversubscription,
                }
            )
        )
    return pl.concat(parts)


def _rack_frame(fabric: Fabric, routes: RoutingSet) -> pl.DataFrame:
    """Return one row a rack and plane: what its servers can send, and what can leave the rack."""
    import polars as pl

    rows = [
        {"plane": plane.name.lower(), **dataclasses.asdict(rack)}
        for plane, frame in _networks(routes)
        for rack in rack_capacities(fabric, plane, frame)
    ]
    return pl.DataFrame(rows, infer_schema_length=None)
