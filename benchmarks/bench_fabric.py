"""Building a large fabric with its routes, and resolving many paths.

Run with ``pytest benchmarks/bench_fabric.py``. The bounds are those the project promises for a
machine with two cores; each runs in a process of its own where memory is measured.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from designs import built
from railweave.design.models import RoutingScheme, RoutingSpec
from railweave.fabric import PlaneId
from railweave.fabric.routing import compile_routing

BUILD = """
import time, json
began = time.perf_counter()
from designs import built, peak_mib
from railweave.fabric import PlaneId
from railweave.fabric.routing import compile_routing
imported = time.perf_counter()
fabric = built(8192).fabric
routing = compile_routing(fabric, PlaneId.BACKEND)
routing.table
print(json.dumps({"import_s": imported - began, "s": time.perf_counter() - imported,
    "mib": peak_mib(), "gpus": len(fabric.gpus),
    "tiers": [len(fabric.switches(PlaneId.BACKEND, k)) for k in (1, 2, 3)]}))
"""


def test_65536_gpus_three_tiers_with_routes(benchmark):
    import json

    def build():
        run = subprocess.run(
            [sys.executable, "-c", BUILD],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parent,
        )
        return json.loads(run.stdout)

    found = benchmark.pedantic(build, rounds=1)
    benchmark.extra_info.update(found)
    assert found["gpus"] == 65_536
    assert all(found["tiers"])
    assert found["s"] <= 3.0
    assert found["mib"] <= 2048


@pytest.mark.parametrize("servers", [127, 8192])
@pytest.mark.parametrize("scheme", ["ecmp", "destination", "static"])
def test_a_million_paths(benchmark, servers, scheme):
    fabric = built(servers).fabric
    routing = compile_routing(fabric, PlaneId.BACKEND, RoutingSpec(scheme=RoutingScheme(scheme)))
    rng = np.random.default_rng(1)
    src, dst = rng.choice(fabric.gpus, 1_000_000), rng.choice(fabric.gpus, 1_000_000)
    routing.paths(src[:10], dst[:10])
    paths = benchmark.pedantic(routing.paths, (src, dst), rounds=3, warmup_rounds=1)
    assert not paths.status.any()
    assert benchmark.stats.stats.min <= 1.0
