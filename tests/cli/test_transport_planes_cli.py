"""``railweave transport planes`` and ``journey`` say what Python says."""

from __future__ import annotations

import json

import pytest

import railweave
from railweave.cli.transport_planes import KindName
from railweave.transport.planes import describe_planes
from railweave.transport.planes.effects import study_journey
from railweave.transport.planes.journeys import JourneyKind, plane_journey

DESIGN = "examples/star-64-gpus.yaml"


def same(document: object) -> object:
    return json.loads(json.dumps(document))


def test_kinds_are_those_of_python():
    assert [kind.value for kind in KindName] == [kind.value for kind in JourneyKind]


def test_planes_are_pythons(cli):
    outcome = cli("transport", "planes", DESIGN, "--json")
    assert outcome.code == 0, outcome.err
    built = railweave.load(DESIGN).build()
    wanted = {
        "name": "star-64-gpus",
        "planes": [one.to_json() for one in describe_planes(built)],
    }
    assert json.loads(outcome.out) == same(wanted)


@pytest.mark.parametrize("kind", ["gradient", "checkpoint", "request"])
def test_a_journey_is_pythons(cli, kind):
    outcome = cli("transport", "journey", kind, "--design", DESIGN, "--json")
    assert outcome.code == 0, outcome.err
    built = railweave.load(DESIGN).build()
    study = study_journey(built, plane_journey(built, JourneyKind(kind)))
    found = json.loads(outcome.out)
    assert found == same(study.to_json())
    assert found["time_s"] == pytest.approx(sum(found["parts_s"].values()))


def test_ends_failures_and_what_is_left_out(cli):
    outcome = cli(
        *("transport", "journey", "gradient", "--design", DESIGN, "--quick", "--json"),
        *("--from", "node002/gpu1", "--to", "node007/gpu1", "--fail", "node002/nic1"),
    )
    found = json.loads(outcome.out)
    assert (found["from"], found["to"]) == ("node002/gpu1", "node007/gpu1")
    assert "node002/nic1" not in [hop["target"] for hop in found["hops"]]
    assert found["breaks"]["measured"] == found["breaks"]["hops"] == []
    assert found["breaks"]["stated"]


def test_planes_and_journeys_that_are_not_there(cli):
    design = "examples/hpn-pod-15k.yaml"
    text = cli("transport", "planes", design)
    assert "The design does not describe it." in text.out
    outcome = cli("transport", "journey", "dataset", "--design", design)
    assert outcome.code == 0
    assert "nothing of this kind travels here" in outcome.out
    assert "Hop by hop" not in outcome.out


def test_bad_ends_are_answered_in_a_sentence(cli):
    outcome = cli("transport", "journey", "gradient", "--design", DESIGN, "--to", "node09/gpu0")
    assert outcome.code == 2
    assert "did you mean" in outcome.err
    outcome = cli("transport", "journey", "dataset", "--design", DESIGN, "--from", "node001")
    assert "needs a storage server" in outcome.err


@pytest.mark.parametrize("command", ["planes", "journey"])
def test_help_has_an_example(cli, command):
    outcome = cli("transport", command, "--help")
    assert outcome.code == 0
    assert f"Example: railweave transport {command}" in outcome.out
