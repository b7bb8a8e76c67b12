"""Stragglers in the closed forms: never too quick, and too long by no more than is stated."""

from __future__ import annotations

import pytest

from railweave.design import parse_design
from railweave.engine import simulate
from railweave.fabric.build import build_fabric
from railweave.fabric.planes import compile_planes
from railweave.workload.jobs import design_workload

DESIGN = """
railweave: 1
name: slow-gpu
cluster: {servers: {model: hgx-h100-8gpu-roce, count: 8}}
planes: {backend: {transport: rocev2, topology: rail-optimized}}
stragglers: [{gpu: 3, delay: 100 us}]
jobs: [{name: sum, collective: all-reduce, size: 256 MiB, algorithm: ALGORITHM}]
"""


@pytest.mark.parametrize(("algorithm", "most"), [("ring", 1.001), ("tree", 1.2)])
def test_a_straggler_costs_what_the_assumptions_say(algorithm, most):
    loaded = parse_design(DESIGN.replace("ALGORITHM", algorithm))
    built = build_fabric(loaded.design, loaded.catalog)
    work = design_workload(built, loaded.design, loaded.catalog).traffic
    routing = compile_planes(loaded, built, seed=loaded.design.seed)
    closed, flow = (
        simulate(built.fabric, work, routing, engine).makespan_s for engine in ("analytic", "flow")
    )
    assert 0.995 <= closed / flow <= most
