"""A sender with selective repeat keeps within what its receiver keeps before its turn."""

from __future__ import annotations

import numpy as np
import pytest

from railweave.design.models import CongestionSpec, RoutingScheme, RoutingSpec
from railweave.engine.packet import simulate_packet
from railweave.engine.packet_settings import default_settings
from railweave.fabric import PlaneId
from railweave.fabric.routing import RoutingSet, compile_routing
from railweave.fabric.small import Cable, small_fabric
from railweave.workload import TrafficBuilder


@pytest.mark.parametrize("reorder", [1_000, 4_096, 20_000])
def test_nothing_is_dropped_for_being_far_ahead(reorder):
    """One of two ways is 40 times slower: packets over the other are far ahead of their turn."""
    hosts = [Cable(0, 2, 100e9), Cable(1, 3, 100e9)]
    ways = [Cable(a, b, 100e9 if b == 4 else 2.5e9) for b in (4, 5) for a in (2, 3)]
    fabric = small_fabric("two-ways", 2, (1, 1, 2, 2), hosts + ways)
    routing = RoutingSet.of(
        compile_routing(fabric, PlaneId.BACKEND, RoutingSpec(scheme=RoutingScheme.SPRAY))
    )
    builder = TrafficBuilder()
    builder.plain(0, 1, 60e6, label="message")
    spec = CongestionSpec.model_validate(
        {"scheme": "pfc", "selective_repeat": True, "reorder_packets": reorder}
    )
    settings = default_settings(fabric, routing, spec)
    result = simulate_packet(fabric, builder.build(), routing, settings=settings)
    assert result.finished
    assert result.record.ledger["dropped_packets_out_of_order"].sum() == 0
    assert result.record.flow_counters["timeouts"].sum() == 0
    # blind: both ways carry the same, so the slow one's half takes as long as all of it
    at_slow_pace = 60e6 / 2 * 8 / 2.5e9
    if reorder > 4_096:
        assert result.makespan_s == pytest.approx(at_slow_pace, rel=0.1)
    assert np.isfinite(result.task_finish_s).all()
