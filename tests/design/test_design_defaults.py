"""The whole design with its defaults is a design again, and the same one."""

from __future__ import annotations

import re

import pytest
from _samples import EVERYTHING, SUPERPOD

from railweave.design import parse_design, resolved, resolved_yaml, worked_out


@pytest.mark.parametrize("text", [SUPERPOD, EVERYTHING], ids=["superpod", "everything"])
def test_it_reads_back_as_the_same_design(text: str) -> None:
    loaded = parse_design(text)
    again = parse_design(resolved_yaml(loaded))
    assert again.design == loaded.design
    assert resolved(again) == resolved(loaded)


def test_defaults_and_worked_out_values_are_shown_with_units() -> None:
    text = resolved_yaml(parse_design(SUPERPOD), {"planes.backend.mtu": "4 KiB"})
    text = re.sub(" +#", " #", text)
    assert "rack_power: 40 kW" in text
    assert "nic_speed: null # worked out: 400 Gb/s" in text
    assert "congestion: null # worked out: credits" in text
    assert "worked out: 1016" in text
    assert "worked out: 4 KiB" in text


def test_fields_without_meaning_are_left_out() -> None:
    data = resolved(parse_design(SUPERPOD))
    assert set(data["planes"]["storage"]) == {
        "shares",
        "isolation",
        "encryption",
        "encryption_required",
    }
    assert "parallelism" not in data["jobs"][0]


def test_worked_out_values_of_a_training_job() -> None:
    found = worked_out(parse_design(EVERYTHING))
    assert found["jobs[1].parallelism.data"] == "12"
    assert found["cluster.servers[1].count"] == "8"
    assert found["planes.frontend.congestion"] == "cubic"
    assert found["planes.backend.congestion.scheme"] == "pfc+dcqcn"
