"""Curves of a collective over sizes and ranks, by closed forms and by the flow engine."""

from __future__ import annotations

import numpy as np
import pytest

from railweave.design.models import Algorithm, Collective
from railweave.engine.analytic import collective_time
from railweave.errors import InputError
from railweave.report.curves import CURVE_SIZES, Wires, rank_curve, size_curve

AR = Collective.ALL_REDUCE
WIRES = Wires(100e9, 5e-6)


def test_sizes_are_those_of_the_closed_form():
    curve = size_curve(AR, None, 8, WIRES)
    assert curve.algorithm is Algorithm.RING
    assert curve.size_bytes.tolist() == list(CURVE_SIZES)
    assert len(CURVE_SIZES) == 25
    for k in (0, 12, 24):
        form = collective_time(AR, None, 8, CURVE_SIZES[k], 100e9, 5e-6)
        assert curve.time_s[k] == form.time_s
        assert curve.busbw_Bps[k] == pytest.approx(form.busbw_Bps)
        assert curve.algbw_Bps[k] == pytest.approx(form.algbw_Bps)
        assert curve.lower_bound_s[k] == form.lower_bound_s
    assert (np.diff(curve.busbw_Bps) > 0).all()
    assert curve.busbw_Bps[-1] == pytest.approx(12.5e9, rel=0.001)


@pytest.mark.parametrize("algorithm", [Algorithm.RING, Algorithm.HALVING_DOUBLING])
def test_engines_agree_where_nothing_is_shared(algorithm):
    sizes = (1_000, 1_000_000, 256_000_000)
    flow = size_curve(AR, algorithm, 8, WIRES, sizes, engine="flow")
    form = size_curve(AR, algorithm, 8, WIRES, sizes)
    assert flow.time_s == pytest.approx(form.time_s, rel=1e-6)
    assert (flow.engine, form.engine) == ("flow", "analytic")
    assert flow.assumptions != form.assumptions


def test_a_tree_wins_small_sizes_and_a_ring_large_ones():
    ring, tree = (size_curve(AR, a, 16, WIRES) for a in (Algorithm.RING, Algorithm.TREE))
    assert tree.time_s[0] < ring.time_s[0]
    assert tree.time_s[-1] > ring.time_s[-1]


def test_ranks():
    curve = rank_curve(AR, None, (2, 4, 8), WIRES, 256_000_000, engine="flow")
    assert curve.ranks.tolist() == [2, 4, 8]
    assert curve.time_s == pytest.approx(rank_curve(AR, None, (2, 4, 8), WIRES, 256_000_000).time_s)
    assert (np.diff(curve.time_s) > 0).all()


def test_servers_and_their_speed_count():
    apart = Wires(100e9, ranks_per_server=4, inside_bandwidth_bps=1e12)
    for engine in ("analytic", "flow"):
        inside = size_curve(AR, Algorithm.HIERARCHICAL, 8, apart, (64_000_000,), engine=engine)
        flat = size_curve(AR, Algorithm.RING, 8, Wires(100e9), (64_000_000,), engine=engine)
        assert inside.time_s[0] < flat.time_s[0]


def test_refusals():
    with pytest.raises(InputError, match="ranks: 6 do not fill servers of 4"):
        size_curve(AR, None, 6, Wires(1e9, ranks_per_server=4))
    with pytest.raises(InputError, match="draws no curves; allowed: analytic, flow"):
        size_curve(AR, None, 6, WIRES, engine="packet")
    with pytest.raises(InputError, match="direct cannot do all-reduce"):
        size_curve(AR, Algorithm.DIRECT, 6, WIRES)
