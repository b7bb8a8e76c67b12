"""Journeys through random designs: whole, contiguous, timed as their parts say, never a crash."""

from __future__ import annotations

import math
from io import StringIO
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from ruamel.yaml import YAML

import railweave
from railweave.errors import RailweaveError
from railweave.fabric import NodeKind, find_node
from railweave.transport.planes import describe_planes
from railweave.transport.planes.effects import study_journey
from railweave.transport.planes.journeys import JourneyKind, plane_journey
from railweave.transport.planes.system_map import system_map
from random_designs import designs


def text_of(design: dict[str, Any]) -> str:
    out = StringIO()
    yaml = YAML(typ="safe", pure=True)
    yaml.dump(design, out)
    return out.getvalue()


@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.generate),
)
@given(designs())
def test_journeys_of_random_designs(design: dict[str, Any]) -> None:
    try:
        built = railweave.parse(text_of(design)).build()
        built.workload()
    except RailweaveError:
        return
    system, routing = system_map(built), built.routing()
    for sheet in describe_planes(built, system=system):
        assert bool(sheet.network) == (sheet.plane in system.carrier)
        assert all(one.role for one in sheet.components)
    for kind in JourneyKind:
        way = plane_journey(built, kind, system=system, routing=routing)
        assert way.sentence
        if not way.hops:
            continue
        assert sum(way.parts.values()) == pytest.approx(way.time_s)
        assert way.hops[-1].target == way.ends[1]
        for a, b in zip(way.hops, way.hops[1:], strict=False):
            assert (a.target, a.end_s) == (b.source, b.start_s)
        for hop in way.hops:
            assert hop.protocol
            assert all(part >= 0 for part in hop.parts.values())
            switch = built.fabric.node_kind[find_node(built.fabric, hop.target)] == NodeKind.SWITCH
            assert switch or not hop.switching_s or "scale-up" in hop.target
        study = study_journey(built, way, system=system, routing=routing)
        assert study.stated
        for one in study.hops:
            # Sharing elsewhere can change when a link slows; it cannot make time vanish.
            assert one.half > 0.5
            assert one.lost > 0.5
        for effect in study.measured:
            assert effect.problem or math.isfinite(effect.slowdown)
            if not effect.problem and not effect.shared:
                assert effect.slowdown == pytest.approx(1.0, abs=1e-6)
