"""The spread of traffic over equal uplinks: the curves, their figure, and the guide's numbers."""

import re
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import railweave
from railweave.engine.metrics import label_metrics, uplink_spread
from railweave.report.spread import draw_spread, path_curves, spread_curves

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "mice-and-elephants.yaml"
GUIDE = ROOT / "docs" / "guide" / "mice-and-elephants.md"
MICE = "background:\n"
#: rows of the guide's table: name there → routing of the same design
REMEDIES = {
    "ecmp": "{scheme: ecmp, hash: crc32}",
    "e-ecmp, 4 queue pairs": "{scheme: e-ecmp, queue_pairs: 4}",
    "e-ecmp, 16 queue pairs": "{scheme: e-ecmp, queue_pairs: 16}",
    "flowlet, 8 flowlets": "{scheme: flowlet, flowlets: 8}",
    "static": "{scheme: static}",
    "adaptive": "{scheme: adaptive}",
    "spray": "{scheme: spray}",
}
DEAD_UPLINK = {f"{name}, one uplink dead": name for name in ("static", "adaptive", "spray")}


@cache
def run_example():
    built = railweave.load(EXAMPLE).build()
    return built.fabric, built.simulate()


@cache
def ring_alone(name, seed=0):
    """Run the example's ring without its mice; return (fullest uplink / mean, time in s)."""
    routing = REMEDIES[DEAD_UPLINK.get(name, name)]
    text = EXAMPLE.read_text(encoding="utf-8").split(MICE)[0]
    text = text.replace(REMEDIES["ecmp"], routing) + f"seed: {seed}\n"
    built = railweave.parse(text).build().fail(["leaf-1:port-9"] if name in DEAD_UPLINK else [])
    result = built.simulate()
    (curve,) = spread_curves(built.fabric, result)
    return curve.worst, result.makespan_s


def test_curves_of_paths_are_those_of_the_run():
    fabric, result = run_example()
    by_run = spread_curves(fabric, result)
    by_paths = path_curves(fabric, result.traffic, result.paths)
    assert [c.label for c in by_run] == [c.label for c in by_paths]
    for one, other in zip(by_run, by_paths, strict=True):
        np.testing.assert_array_equal(one.relative_load, other.relative_load)


def figures_in_guide():
    rows = re.findall(r"^\| ([^|]+?) +\| ([\d.]+) +\| ([\d.]+) ms +\|", GUIDE.read_text(), re.M)
    return {name: (float(worst), float(ms)) for name, worst, ms in rows}


def test_mice_even_out_where_elephants_collide():
    fabric, result = run_example()
    elephants, mice = spread_curves(fabric, result)
    assert (elephants.label, mice.label) == ("elephants", "mice")
    assert elephants.flows == 128
    assert mice.flows > 100_000
    assert elephants.worst >= 3
    assert elephants.idle_share > 0.25
    assert mice.worst < 1.3
    assert mice.relative_load[0] > 0.7
    # The ring had the fabric to itself: the mice begin after its end.
    ends = {m.label.split("#")[0].split("/")[0]: m for m in label_metrics(result)}
    assert ends["elephants"].finish_s < ends["mice"].start_s


@pytest.mark.parametrize("seed", range(1, 6))
def test_elephants_collide_with_every_seed(seed):
    worst, _ = ring_alone("ecmp", seed)
    assert worst >= 3


def test_curve_is_the_load_over_the_mean_of_its_leaf():
    fabric, result = run_example()
    traffic, paths = result.traffic, result.paths
    size = traffic.stream_bytes[paths.message] * paths.share
    for curve in spread_curves(fabric, result):
        labels = [k for k, text in enumerate(traffic.labels) if text.startswith(curve.label)]
        select = np.isin(traffic.task_label[traffic.stream_task], labels)
        other = uplink_spread(fabric, paths, select=select, flow_bytes=size)
        assert curve.flows == other.flows
        assert len(curve.relative_load) == other.links
        np.testing.assert_allclose(curve.worst, other.worst_ratio)
        np.testing.assert_allclose(curve.idle_share, other.idle_share)
        np.testing.assert_allclose(curve.relative_load.mean(), 1.0)
        assert np.all(np.diff(curve.relative_load) >= 0)


def test_spraying_is_flat():
    worst, _ = ring_alone("spray")
    assert worst == pytest.approx(1.0)


def test_traffic_under_one_leaf_has_no_curve():
    text = EXAMPLE.read_text(encoding="utf-8").split(MICE)[0]
    built = railweave.parse(text.replace("count: 16", "count: 1")).build()
    assert spread_curves(built.fabric, built.simulate()) == ()


def test_figure_shows_each_curve_to_its_fullest_uplink():
    fabric, result = run_example()
    curves = spread_curves(fabric, result)
    figure = draw_spread(curves)
    assert len(figure.data) == len(curves)
    for trace, curve in zip(figure.data, curves, strict=True):
        assert trace.name.startswith(f"{curve.label}: {curve.flows:,} flows")
        assert trace.x[0] == 0
        assert trace.x[-1] == 100
        assert trace.y[-1] == curve.worst
    assert len(draw_spread(()).data) == 0


def test_remedies_stand_in_this_order():
    found = {name: ring_alone(name) for name in (*REMEDIES, *DEAD_UPLINK)}
    worst = {name: pair[0] for name, pair in found.items()}
    time = {name: pair[1] for name, pair in found.items()}
    order = ["ecmp", "e-ecmp, 4 queue pairs", "e-ecmp, 16 queue pairs", "adaptive"]
    for before, after in pairwise(order):
        assert worst[before] > worst[after]
        assert time[before] > time[after]
    for even in ("static", "adaptive", "spray"):
        assert worst[even] == pytest.approx(1.0)
        assert time[even] == pytest.approx(time["spray"], rel=1e-6)
    assert time["e-ecmp, 16 queue pairs"] < time["flowlet, 8 flowlets"] < time["ecmp"]
    # 8 flows on 7 uplinks: whole flows must share, packets need not.
    static, adaptive, spray = (time[name] for name in DEAD_UPLINK)
    assert spray < static / 1.5
    assert adaptive == pytest.approx(static, rel=1e-3)
    assert worst["spray, one uplink dead"] == pytest.approx(8 / 7)


def test_guide_states_what_the_engine_measures():
    stated = figures_in_guide()
    assert list(stated) == [*REMEDIES, *DEAD_UPLINK]
    for name, (worst, ms) in stated.items():
        measured = ring_alone(name)
        assert worst == pytest.approx(measured[0], abs=0.005)
        assert ms == pytest.approx(measured[1] * 1e3, abs=0.005)


def test_guide_states_the_figure():
    text = GUIDE.read_text(encoding="utf-8")
    for curve in spread_curves(*run_example()):
        cells = r"([\d,]+) +\| ([\d.]+) MB +\| ([\d.]+)"
        row = re.search(rf"^\| {curve.label} +\| {cells} +\|", text, re.M)
        assert int(row[1].replace(",", "")) == curve.flows
        assert float(row[2]) == pytest.approx(curve.bytes_per_flow / 1e6, rel=0.01)
        assert float(row[3]) == pytest.approx(curve.worst, abs=0.005)


def test_mice_are_as_even_as_their_number_and_tail_allow():
    fabric, result = run_example()
    _, mice = spread_curves(fabric, result)
    traffic = result.traffic
    mouse = [k for k, text in enumerate(traffic.labels) if text.startswith("mice")]
    size = traffic.stream_bytes[np.isin(traffic.task_label[traffic.stream_task], mouse)]
    tail = np.mean(size**2) / np.mean(size) ** 2
    step = np.sqrt(tail / (mice.flows / len(mice.relative_load)))
    assert tail == pytest.approx(6.4, abs=0.1)
    assert np.std(mice.relative_load) == pytest.approx(step, rel=0.2)
