"""Random designs through the whole of railweave: nothing breaks, and what must hold does.

Load → build → summary → checks → routes → traffic → analytic and flow engine. What cannot be done
is answered by a :class:`RailweaveError` that says what would be allowed.
"""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from ruamel.yaml import YAML

import railweave
from railweave.api import BuiltDesign
from railweave.design.models import Topology
from railweave.engine import Result, simulate
from railweave.errors import RailweaveError
from railweave.fabric import LinkLayer
from railweave.fabric.ports import ports_used_twice
from railweave.fabric.routing import PathStatus
from railweave.workload import Traffic
from random_designs import designs

TIERS = {"leaf": 1, "spine": 2, "core": 3}
LAYERS = {
    "host-leaf": LinkLayer.HOST_LEAF,
    "leaf-spine": LinkLayer.LEAF_SPINE,
    "spine-core": LinkLayer.SPINE_CORE,
}
#: more streams than this take too long for a test
MANY_STREAMS = 3_000
#: what the closed form may be above the truth: it adds the longest latency once to the time of the
#: slowest stream, which may be another one
CLOSED_FORM = 0.01


def text_of(design: dict[str, Any]) -> str:
    out = StringIO()
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.dump(design, out)
    return out.getvalue()


def built_or_refused(design: dict[str, Any]) -> BuiltDesign | None:
    """Build a design; None where railweave refuses it with a sentence that helps."""
    try:
        return railweave.parse(text_of(design)).build()
    except RailweaveError as error:
        lines = str(error).splitlines()
        assert lines
        for line in lines:
            assert ": " in line, f"names no field: {line}"
            assert len(line) > 40 and line == line.strip(), line  # noqa: PT018
        event("refused")
        return None


def traffic_or_refused(built: BuiltDesign) -> Traffic | None:
    """Return what is sent; None where an algorithm cannot use its job's placement."""
    refused = ""
    try:
        return built.workload().traffic
    except RailweaveError as error:
        refused = str(error)
    assert refused.startswith("job job")
    assert "allowed: " in refused
    return None


def counts_are_those_of_the_plan(built: BuiltDesign) -> None:
    fabric = built.fabric
    for plane, plan in built.built.plans.items():
        for name, tier in TIERS.items():
            assert len(fabric.switches(plane, tier)) == plan.counts.switches.get(name, 0)
        for name, layer in LAYERS.items():
            found = np.count_nonzero((fabric.link_layer == layer) & (fabric.link_plane == plane))
            assert found == 2 * plan.counts.links.get(name, 0)


def ports_are_enough(built: BuiltDesign) -> None:
    """Every port carries one link, and no switch has more than its ports and breakouts give."""
    fabric = built.fabric
    assert ports_used_twice(fabric) == []
    for plane, plan in built.built.plans.items():
        for name, shape in plan.switches.items():
            for switch in fabric.switches(plane, TIERS[name]):
                mine = (fabric.link_src == switch) & (fabric.link_src_port > 0)
                speeds, links = np.unique(fabric.link_capacity_bps[mine], return_counts=True)
                ways = np.array([shape.ways(bps) for bps in speeds], dtype=int)
                split = ways > 0
                assert np.sum(-(-links[split] // ways[split])) <= shape.ports
                assert np.sum(links[~split]) <= shape.fast_ports
                assert links.sum() <= shape.links_limit + shape.fast_ports


def summary_is_sound(built: BuiltDesign) -> None:
    summary = built.summary()
    json.dumps(summary.to_json())
    for plane in summary.planes:
        assert plane.capacity.bisection_bps <= plane.capacity.host_bps / 2 * (1 + 1e-9)
        assert 0 < plane.capacity.effective_host_bps < plane.capacity.host_bps


def is_connected(built: BuiltDesign) -> bool:
    """Tell whether a network joins all servers in every plane: rails apart or no NICs do not."""
    groups = built.design.cluster.servers
    attached = all(group.inline is None or group.inline.frontend_nics for group in groups)
    return attached and built.design.planes.backend.topology is not Topology.RAIL_ONLY


def bytes_are_conserved(result: Result) -> None:
    assert result.finished
    arrived = result.bytes_delivered + result.bytes_dropped + result.bytes_in_flight
    assert result.bytes_sent == pytest.approx(arrived, rel=1e-9)


def times_are_possible(built: BuiltDesign, flow: Result, analytic: Result) -> None:
    """No link carries more than it can, and nothing is faster than alone or the closed form."""
    capacity = built.fabric.usable_bps / 8
    used = flow.link_bytes > 0
    busiest = np.max(flow.link_bytes[used] / capacity[used], initial=0.0)
    assert flow.makespan_s >= busiest * (1 - 1e-9)
    assert np.min(flow.stream_slowdown, initial=1.0) >= 1 - 1e-6
    if not built.design.stragglers:  # whose delays the closed form adds to the slowest link's time
        assert flow.makespan_s >= analytic.makespan_s * (1 - CLOSED_FORM)
    assert np.allclose(flow.link_bytes, analytic.link_bytes, rtol=1e-6, atol=1.0)
    assert flow.bytes_sent == pytest.approx(analytic.bytes_sent)


@settings(
    max_examples=300,
    phases=[Phase.explicit, Phase.generate],  # shrinking such designs takes minutes
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(designs())
def test_random_designs_go_through(design):
    built = built_or_refused(design)
    if built is None:
        return
    ports_are_enough(built)
    counts_are_those_of_the_plan(built)
    summary_is_sound(built)
    assert all(finding.id and finding.message for finding in built.check())
    traffic = traffic_or_refused(built)
    if traffic is None:
        return
    routing = built.routing()
    if traffic.n_streams > MANY_STREAMS:
        event("too many streams")
        return
    event("simulated" if traffic.n_streams else "no traffic")
    flow = simulate(built.fabric, traffic, routing, "flow", allow_unroutable=True)
    again = simulate(built.fabric, traffic, routing, "flow", allow_unroutable=True)
    analytic = simulate(built.fabric, traffic, routing, "analytic", allow_unroutable=True)
    assert np.array_equal(flow.task_finish_s, again.task_finish_s, equal_nan=True)
    assert np.array_equal(flow.link_bytes, again.link_bytes)
    bytes_are_conserved(flow)
    bytes_are_conserved(analytic)
    assert flow.paths is not None
    if is_connected(built):
        assert np.all(flow.paths.status == PathStatus.OK)
        assert flow.unroutable_streams == 0
    if flow.unroutable_streams == 0:
        times_are_possible(built, flow, analytic)
