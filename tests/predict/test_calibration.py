import json
import math
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType, SimpleNamespace

import numpy as np
import pytest
from collective_systems import system

from railweave.design.models import Collective
from railweave.errors import DesignError, InputError
from railweave.predict._calibration_fit import Prepared
from railweave.predict.calibration import (
    PARAMETERS,
    Calibration,
    calibrate_with,
    calibration_json,
    calibration_yaml,
    default_calibration,
    fit,
    leave_one_system_out,
    measured_points,
    parse_calibration,
    prior_calibration,
    validate,
    validation_band,
)
from railweave.predict.collective import choose, collective_time_s
from railweave.predict.published import published_points, published_systems

AR = Collective.ALL_REDUCE
MIB, GIB = 1 << 20, 1 << 30

#: the acceptance rows: system → size → bus bandwidth, GB/s
ACCEPTANCE = {
    "h100-node": {MIB: 64.2, 16 * MIB: 237, 128 * MIB: 396, GIB: 442, 16 * GIB: 483},
    "h100-ib-12-sharp": {
        512 * MIB: 356,
        GIB: 366,
        2 * GIB: 381,
        4 * GIB: 383,
        8 * GIB: 387,
    },
    "gb200-nvl72": {512 * MIB: 586, GIB: 681, 2 * GIB: 758, 4 * GIB: 839, 8 * GIB: 835},
    "gb200-20-racks": {
        512 * MIB: 151,
        GIB: 219,
        2 * GIB: 287,
        4 * GIB: 346,
        8 * GIB: 381,
        16 * GIB: 406,
    },
    "a100-roce-2": {GIB: 184.9, 2 * GIB: 187.2, 4 * GIB: 188.4, 8 * GIB: 189.6},
    "mi300x-roce-2": {GIB: 350, 4 * GIB: 355, 16 * GIB: 358},
    "a100-4": {MIB: 17.1, 16 * MIB: 93.9, 128 * MIB: 88.2, GIB: 94.2, 16 * GIB: 91.7},
}
ROWS = [(name, size, value) for name, row in ACCEPTANCE.items() for size, value in row.items()]


def error(name, size, value):
    return choose(published_systems()[name], AR, size).busbw_Bps / 1e9 / value - 1


@pytest.mark.parametrize(("name", "size", "value"), ROWS)
def test_acceptance_rows_hold(name, size, value):
    limit = 0.15 if size >= 256 * MIB else 0.35
    assert abs(error(name, size, value)) <= limit


def test_large_acceptance_rows_hold_in_the_mean():
    large = [abs(error(*row)) for row in ROWS if row[1] >= 256 * MIB]
    assert np.mean(large) <= 0.07


def test_small_message_latency_is_within_two_fifths():
    time_s = collective_time_s(published_systems()["h100-node"], AR, 8)
    assert time_s == pytest.approx(12.9e-6, rel=0.4)


@pytest.mark.parametrize(
    ("name", "gate"),
    [("h100-node", 460), ("a100-node", 228), ("a100-roce-2", 185), ("h100-ib-2", 440)],
)
def test_healthy_systems_pass_the_vendors_gates(name, gate):
    assert error(name, 8 * GIB, gate) == pytest.approx(0, abs=0.15)


def test_all_published_rows_are_near_in_the_mean():
    table = validate()
    assert table.mean_error("large") <= 0.07
    assert table.mean_error("middle") <= 0.35
    assert table.mean_error("latency") <= 0.40
    assert table.rows[0].predicted_busbw_Bps == pytest.approx(
        table.rows[0].point.busbw_Bps * (1 + table.rows[0].error)
    )
    assert {row.apart for row in table.rows} == {True, False}
    assert len(table.of("large", apart=True)) < len(table.of("large"))
    assert math.isnan(replace(table, rows=()).mean_error("large"))
    assert table.worst_error("large") >= table.mean_error("large")


@pytest.mark.parametrize(
    ("size", "band"),
    [
        (8, "latency"),
        (64 << 10, "between"),
        (MIB, "middle"),
        (64 * MIB, "middle"),
        (128 * MIB, "between"),
        (256 * MIB, "large"),
    ],
)
def test_bands(size, band):
    assert validation_band(size) == band


# ---------------------------------------------------------------- parameters


def test_there_are_at_most_a_quarter_as_many_parameters_as_points():
    points = published_points("fit")
    assert 4 * len(PARAMETERS) <= len(points)
    assert default_calibration().points == len(points)


def test_no_parameter_belongs_to_a_system():
    scopes = {spec.scope for spec in PARAMETERS}
    assert scopes <= {
        "library",
        *("ampere", "hopper", "blackwell", "cdna", "cdna3", "cdna4"),
        *("infiniband", "rocev2", "efa", "tcp"),
    }
    assert not scopes & set(published_systems())


def test_parameters_are_within_their_bounds():
    carried = default_calibration()
    for spec in PARAMETERS:
        assert spec.low <= spec.prior <= spec.high
        assert spec.low <= carried.values[spec.name] <= spec.high
        assert spec.meaning


def test_the_carried_calibration_is_what_the_fit_finds():
    """A fit from the carried values stays where it is: they are its optimum."""
    carried = default_calibration()
    points = published_points("fit")
    again = fit(points, start=None)
    assert dict(again.spread) == pytest.approx(dict(carried.spread), rel=0.02)
    one = Prepared(points).predict(carried)
    other = Prepared(points).predict(again)
    assert np.abs(one / other - 1).max() < 0.01


def test_a_fit_recovers_the_parameters_that_made_the_points():
    truth = Calibration(
        "truth",
        MappingProxyType({**prior_calibration().values, "nic_share/rocev2": 0.8}),
    )
    where = system(2, network="rocev2", nics_per_domain=4)
    points = [
        replace(point, time_s=collective_time_s(where, point.op, size, calibration=truth))
        for size in (GIB, 4 * GIB, 16 * GIB)
        for point in measured_points(
            where,
            [row("all-gather", size, 1.0, ranks=16)],
        )
    ]
    found = fit(points)
    assert found.values["nic_share/rocev2"] == pytest.approx(0.8, rel=0.02)
    assert found.informed["nic_share/rocev2"] == 3
    assert found.values["nic_share/efa"] == prior_calibration().values["nic_share/efa"]
    assert found.informed["nic_share/efa"] == 0


def test_leaving_a_system_out_still_predicts_it():
    hopper = [
        point
        for point in published_points("fit")
        if point.system.generation == "hopper" and point.system.network in ("none", "infiniband")
    ]
    (left,) = leave_one_system_out(hopper, systems=["h100-ib-2"])
    assert left.system_id == "h100-ib-2"
    assert 0 < left.mean_error <= 0.25
    assert left.mean_large_error <= 0.15 <= left.worst_error + 0.15
    assert left.points == sum(point.system_id == "h100-ib-2" for point in hopper)


# ---------------------------------------------------------------- a user's own tables


def row(op, size, time_s, *, ranks=16, in_place=False):
    return SimpleNamespace(op=op, ranks=ranks, size_bytes=size, time_s=time_s, in_place=in_place)


def test_rows_become_points():
    rows = [
        row("all-reduce", GIB, 5e-3),
        row("all-reduce", GIB, 4e-3, in_place=True),
        row("all-reduce", 0, 4e-3),
        row("gather", GIB, 4e-3),
        row(None, GIB, 4e-3),
        row("all-gather", MIB, 0.0),
        row("all-gather", MIB, 1e-4, ranks=None),
    ]
    points = measured_points(system(2), rows, source="run.log")
    assert [(point.op.value, point.size_bytes) for point in points] == [
        ("all-reduce", GIB),
        ("all-gather", MIB),
    ]
    assert points[0].source.title == "run.log"
    with pytest.raises(InputError, match="measured with 8 ranks, but the system has 16"):
        measured_points(system(2), [row("all-reduce", GIB, 5e-3, ranks=8)])


def test_own_points_move_the_prediction_towards_them():
    where = system(4)
    before = collective_time_s(where, AR, 4 * GIB)
    slower = 1.3 * before
    points = measured_points(
        where,
        [row("all-reduce", size, 1.3 * collective_time_s(where, AR, size), ranks=32)
         for size in (GIB, 2 * GIB, 4 * GIB, 8 * GIB)],
    )  # fmt: skip
    own = calibrate_with(points)
    after = collective_time_s(where, AR, 4 * GIB, calibration=own)
    assert before < after <= slower * 1.02
    assert abs(after / slower - 1) < 0.1
    # what they say nothing about stays
    carried = default_calibration()
    assert own.values["nic_share/rocev2"] == carried.values["nic_share/rocev2"]
    assert own.spread["rocev2/large"] == carried.spread["rocev2/large"]
    assert own.points == 4


def test_nothing_to_fit_to_is_refused():
    with pytest.raises(InputError, match="no usable row"):
        calibrate_with([])
    with pytest.raises(InputError, match="no point"):
        fit([])


# ---------------------------------------------------------------- documents


@pytest.mark.parametrize("write", [calibration_yaml, calibration_json])
def test_a_calibration_without_a_spread_goes_round(write):
    first = prior_calibration()
    assert not first.spread
    assert parse_calibration(write(first)).spread == first.spread


@pytest.mark.parametrize("write", [calibration_yaml, calibration_json])
def test_documents_go_round(write):
    carried = default_calibration()
    again = parse_calibration(write(carried))
    assert dict(again.values) == pytest.approx(dict(carried.values), rel=1e-5)
    assert dict(again.informed) == dict(carried.informed)
    assert dict(again.spread) == pytest.approx(dict(carried.spread), rel=1e-3)
    assert (again.name, again.points, again.systems) == (
        carried.name,
        carried.points,
        carried.systems,
    )
    assert write(again) == write(parse_calibration(write(again)))


def document(**changes):
    return json.dumps({**json.loads(calibration_json(prior_calibration())), **changes})


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (document(kind="something"), DesignError, "kind"),
        (document(version=2), DesignError, "version"),
        (document(parameters={}), InputError, "missing"),
        (document(more=1), DesignError, "more"),
        (document(parameters={"nic_share/efa": {"value": -1}}), DesignError, "nic_share/efa"),
        ("[1, 2", DesignError, "<calibration>"),
        ("!!python/object:os.system {}", DesignError, "<calibration>"),
    ],
)
def test_wrong_documents_say_where_and_what(text, kind, message):
    with pytest.raises(kind, match=message):
        parse_calibration(text)


def test_unknown_and_negative_parameters_are_refused():
    values = dict(prior_calibration().values)
    with pytest.raises(InputError, match="no parameter"):
        Calibration("x", {**values, "luck": 1.0})
    with pytest.raises(InputError, match="not allowed"):
        Calibration("x", {**values, "ring_plateau": -1.0})
    with pytest.raises(InputError, match="missing"):
        Calibration("x", {})


def test_the_document_lists_every_parameter_with_its_value():
    text = (Path(__file__).parents[2] / "docs/model/collective-model.md").read_text("utf-8")
    carried = default_calibration()
    for spec in PARAMETERS:
        value = carried.values[spec.name]
        assert f"| `{spec.name}` | {value:.3g} |" in text
    assert f"{len(PARAMETERS)} parameters, {carried.points} fitted points" in text
