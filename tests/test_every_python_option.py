"""Every parameter of the public functions below has an effect that can be seen.

The functions are those a user of the Python interface calls to build, route and simulate; their
parameters are found by introspection, and one without an entry fails.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import railweave
from python_option_effects import SPEED_ONLY, effects
from python_option_views import built, routed
from railweave.api import BuiltDesign
from railweave.engine import simulate
from railweave.engine.analytic import collective_time, simulate_analytic
from railweave.engine.flow import FlowRun, simulate_flow
from railweave.engine.packet import PacketRun, simulate_packet
from railweave.fabric import PlaneId
from railweave.fabric.routing import RoutingSet, compile_routing
from railweave.fabric.summary import build_summary
from railweave.runs import InProcessExecutor, ProcessPool
from railweave.workload import CollectiveOptions, collective_traffic, collective_volume, place

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "load": railweave.load,
    "parse": railweave.parse,
    "BuiltDesign.fail": BuiltDesign.fail,
    "BuiltDesign.what_if": BuiltDesign.what_if,
    "BuiltDesign.monte_carlo": BuiltDesign.monte_carlo,
    "BuiltDesign.routing": BuiltDesign.routing,
    "BuiltDesign.workload": BuiltDesign.workload,
    "BuiltDesign.simulate": BuiltDesign.simulate,
    "BuiltDesign.collective": BuiltDesign.collective,
    "BuiltDesign.library_choice": BuiltDesign.library_choice,
    "BuiltDesign.plan": BuiltDesign.plan,
    "BuiltDesign.packet_journey": BuiltDesign.packet_journey,
    "BuiltDesign.run": BuiltDesign.run,
    "build_summary": build_summary,
    "compile_routing": compile_routing,
    "CollectiveOptions": CollectiveOptions,
    "collective_traffic": collective_traffic,
    "collective_volume": collective_volume,
    "collective_time": collective_time,
    "place": place,
    "simulate": simulate,
    "simulate_flow": simulate_flow,
    "simulate_analytic": simulate_analytic,
    "simulate_packet": simulate_packet,
    "PacketRun": PacketRun,
    "PacketRun.advance": PacketRun.advance,
    "FlowRun": FlowRun,
    "FlowRun.advance": FlowRun.advance,
    "InProcessExecutor.run": InProcessExecutor.run,
    "ProcessPool": ProcessPool,
    "ProcessPool.run": ProcessPool.run,
}


def keys() -> list[str]:
    return [
        f"{name}.{parameter}"
        for name, function in FUNCTIONS.items()
        for parameter in inspect.signature(function).parameters
        if parameter != "self"
    ]


KEYS = keys()


def test_no_entry_is_left_over():
    assert sorted((set(effects()) | SPEED_ONLY) - set(KEYS)) == []
    assert len(KEYS) == len(set(KEYS))


@pytest.mark.parametrize("key", [key for key in KEYS if key not in SPEED_ONLY])
def test_parameter_has_an_effect(key):
    assert key in effects(), f"{key} has no entry: what does it do?"
    effect = effects()[key]
    assert effect.holds(effect.before(), effect.after())


def test_threads_change_no_result():
    assert routed(threads=1) == routed(threads=2)
    assert RoutingSet.of(compile_routing(built().fabric, PlaneId.BACKEND, threads=1)).planes
