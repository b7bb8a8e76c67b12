"""Lesson of the architecture lab: a shared plane is harmless at one load, harmful at another."""

from __future__ import annotations

from typing import Final

from railweave.catalog import default_catalog
from railweave.design import parse_design
from railweave.engine.flow import simulate_flow
from railweave.engine.metrics import label_metrics
from railweave.experiments._bench import percent, series
from railweave.experiments._model import Chart, Experiment, Outcome
from railweave.fabric.build import build_fabric
from railweave.fabric.planes import compile_planes
from railweave.workload.jobs import design_workload

__all__ = ["SHARED_PLANE", "shared_plane"]

_DESIGN: Final = """
railweave: 1
name: shared-plane
cluster:
  servers: {{model: hgx-h100-8gpu-roce, count: 4}}
  storage_servers: {{count: 4, ports: 2, speed: {speed}}}
planes:
  backend:
    transport: rocev2
    topology: rail-optimized
    switch: {{radix: 64, speed: 400 Gb/s, power: 600 W}}
    speed: 400 Gb/s
  frontend:
    transport: ethernet
    topology: star
    switch: {{radix: 64, speed: 100 Gb/s, power: 300 W}}
    speed: 100 Gb/s
  storage: {storage}
jobs:
  - {{name: gradients, collective: all-reduce, size: 512 MiB, algorithm: ring, iterations: 4}}
storage_traffic:
  - {{name: dataset, ingest: {ingest}, duration: 12 ms}}
"""
_SHARED: Final = ("400 Gb/s", "{shares: backend}")
_OWN: Final = (
    "200 Gb/s",
    "{transport: ethernet, topology: star, "
    "switch: {radix: 64, speed: 200 Gb/s, power: 300 W}, speed: 200 Gb/s}",
)
_GBPS: Final = 1e9
#: a part so much longer counts as none, and one so much longer as harm
_HARMLESS, _HARMFUL = 0.02, 0.2


def _training_s(ingest_gbps: float, *, shared: bool) -> float:
    """Return how long four all-reduces take beside servers that read their dataset."""
    speed, storage = _SHARED if shared else _OWN
    text = _DESIGN.format(speed=speed, storage=storage, ingest=f"{ingest_gbps:g} Gb/s")
    document = parse_design(text)
    built = build_fabric(document.design, default_catalog())
    work = design_workload(built, document.design, default_catalog())
    routing = compile_planes(document, built, seed=document.design.seed)
    result = simulate_flow(built.fabric, work.traffic, routing)
    ends = [m.finish_s for m in label_metrics(result) if m.label.startswith("gradients")]
    return max(ends)


def shared_plane(light_gbps: float = 5.0, heavy_gbps: float = 100.0) -> Outcome:
    """Measure a training job's communication with storage on its plane, at several loads.

    Args:
        light_gbps: what each server reads at the low load, Gb/s.
        heavy_gbps: at the high load.
    """
    between = (light_gbps * heavy_gbps) ** 0.5
    loads = sorted({light_gbps, between, heavy_gbps})
    own = {load: _training_s(load, shared=False) for load in (light_gbps, heavy_gbps)}
    shared = {load: _training_s(load, shared=True) for load in loads}
    alone = own[heavy_gbps]
    values = {
        "light_ingest_bps": light_gbps * _GBPS,
        "heavy_ingest_bps": heavy_gbps * _GBPS,
        "own_plane_light_s": own[light_gbps],
        "own_plane_heavy_s": alone,
        "shared_light_s": shared[light_gbps],
        "shared_heavy_s": shared[heavy_gbps],
        "light_longer_share": shared[light_gbps] / own[light_gbps] - 1,
        "heavy_longer_share": shared[heavy_gbps] / alone - 1,
    }
    chart = Chart(
        "time-over-load",
        series(
            [
                ("storage on the plane", loads, [1e3 * shared[load] for load in loads]),
                (
                    "storage on its own",
                    [light_gbps, heavy_gbps],
                    [1e3 * own[light_gbps], 1e3 * alone],
                ),
            ]
        ),
        "read by each server [Gb/s]",
        "time of the all-reduces [ms]",
    )
    good = (
        values["light_longer_share"] < _HARMLESS
        and values["heavy_longer_share"] > _HARMFUL
        and abs(own[light_gbps] / alone - 1) < _HARMLESS
    )
    return Outcome(
        values,
        (chart,),
        good,
        f"With a plane of its own, storage changes nothing for the job, whatever is read. On the "
        f"job's plane, {light_gbps:g} Gb/s a server lengthen its all-reduces by "
        f"{percent(values['light_longer_share'])}, {heavy_gbps:g} Gb/s by "
        f"{percent(values['heavy_longer_share'])}.",
    )


SHARED_PLANE: Final = Experiment(
    "lesson-shared-plane",
    "Storage on the training job's plane, at two loads",
    "Sharing a plane is harmless at one load, where the job takes less than 2 % longer, and "
    "harmful at another, where it takes over 20 % longer.",
    {
        "cluster": "4 servers of 8 GPUs, 400 Gb/s a GPU, rails; 4 storage servers of 2 ports",
        "job": "four ring all-reduces of 512 MiB over all 32 GPUs",
        "storage": "each server reads 5 to 100 Gb/s; on the job's plane, or on its own",
        "engine": "flow",
    },
    shared_plane,
)
