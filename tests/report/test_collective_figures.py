"""Figures and tables of a predicted collective."""

from __future__ import annotations

import math

import pytest

from railweave.design.models import Collective
from railweave.formats.nccl_tests import NcclTestRow
from railweave.predict.collective import choose
from railweave.predict.network_part import MeasuredNetwork
from railweave.predict.system import CollectiveSystem
from railweave.report.collective_figures import draw_busbw, draw_options
from railweave.report.collective_tables import (
    Prediction,
    option_table,
    size_table,
    unusable_lines,
)

SYSTEM = CollectiveSystem("hopper", 4, 8, "nvlink", 450e9, "infiniband", 8, 50e9)
SIZES = [1 << power for power in range(16, 34, 2)]


@pytest.fixture(scope="module")
def prediction():
    calls = []

    def choose_at(size):
        calls.append(size)
        return choose(SYSTEM, Collective.ALL_REDUCE, size)

    found = Prediction.over(choose_at, SIZES, MeasuredNetwork(choose_at(SIZES[0]).network, ()))
    assert len(calls[1:]) == len(set(calls))  # each size once
    return found


def test_busbw_has_band_line_picks_and_measurements(prediction):
    row = NcclTestRow("all-reduce", 32, 1 << 30, 6e-3, 1.8e11, 3.4e11, in_place=False)
    figure = draw_busbw(prediction.choices, [row])
    names = [trace.name for trace in figure.data]
    picks = list(dict.fromkeys(choice.best.name for choice in prediction.choices))
    assert names == ["band of healthy clusters", "predicted", *picks, "measured"]
    assert list(figure.data[1].y) == [c.busbw_Bps / 1e9 for c in prediction.choices]
    assert sum(len(trace.x) for trace in figure.data[2:-1]) == len(SIZES)
    assert list(figure.data[-1].y) == [340.0]
    assert figure.layout.xaxis.ticktext[0] == "64 KiB"


def test_every_usable_option_has_a_curve(prediction):
    figure = draw_options(prediction.choices)
    usable = {o.name for o in prediction.first.options if o.usable}
    assert {trace.name for trace in figure.data} == {"picked", *usable}
    assert figure.data[0].name == "picked"
    assert list(figure.data[0].y) == [choice.time_s for choice in prediction.choices]


def test_options_stand_by_time(prediction):
    for choice in prediction.choices:
        rows = option_table(choice).rows
        times = {option.name: option.time_s for option in choice.options if option.usable}
        assert [row[0] for row in rows] == sorted(times, key=times.__getitem__)
    assert len(size_table(prediction.choices).rows) == len(SIZES)
    assert all(math.isfinite(choice.busbw_low_Bps) for choice in prediction.choices)


def test_lines_name_ranges_and_what_is_missing(prediction):
    lines = prediction.range_lines()
    assert lines[0].startswith("NCCL picks up to ")
    assert any(line.startswith("quickest by this model") for line in lines)
    out = unusable_lines(prediction.first)
    assert [line for line in out if "PAT" in line]
    assert not [line for line in out if "Ring" in line]


def test_one_size_is_drawn(prediction):
    figure = draw_busbw(prediction.choices[:1])
    assert list(figure.layout.xaxis.ticktext) == ["64 KiB"]
