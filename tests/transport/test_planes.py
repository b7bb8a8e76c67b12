"""Planes: parts and roles, who shares a network, and what the design does for each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import railweave
from railweave.api import BuiltDesign
from railweave.design.models import CongestionSpec, Transport
from railweave.errors import InputError
from railweave.fabric import PlaneId
from railweave.fabric.summary import build_summary
from railweave.formats.validation import validate
from railweave.formats.yaml_source import parse_yaml
from railweave.qos import classes_of
from railweave.transport.planes import _facts, describe_planes, traffic_class
from railweave.transport.planes._facts import PlaneFacts, plane_facts
from railweave.transport.planes.journeys import JourneyKind
from railweave.transport.planes.system_map import PLANES, system_map
from railweave.workload import bytes_by_plane

EXAMPLES = Path(__file__).parents[2] / "examples"

OWN = """
railweave: 1
name: own
cluster:
  servers: {count: 4, inline: {gpus: 4, nics: 2, nic_speed: 100 Gb/s, scale_up_bandwidth: 1 Tb/s}}
  storage_servers: {count: 2}
planes:
  backend: {transport: rocev2, topology: leaf-spine, switch: {radix: 8, speed: 100 Gb/s},
            oversubscription: 3}
  frontend: {transport: tcp, topology: leaf-spine, switch: {radix: 16, speed: 200 Gb/s}}
  storage: {transport: rocev2, topology: star, switch: {radix: 32, speed: 200 Gb/s},
            encryption: macsec}
  management: {shares: frontend}
services:
  - {kind: scheduler, plane: frontend}
"""


def built(name: str) -> BuiltDesign:
    text = OWN if name == "own" else (EXAMPLES / f"{name}.yaml").read_text("utf-8")
    return railweave.parse(text, files=False).build()


def test_every_fact_has_a_source_and_every_journey_an_application() -> None:
    facts = plane_facts()
    assert set(facts.planes) == set(PLANES)
    assert set(facts.applications) == {kind.value for kind in JourneyKind}
    for transport in Transport:
        assert facts.stacks[transport.value].layers
    text = (Path(_facts.__file__).parents[1] / "data" / "planes.yaml").read_text("utf-8")
    document = parse_yaml(text.replace("source: nvlink", "source: nobody"), "x.yaml")
    with pytest.raises(InputError, match="no source is called 'nobody'"):
        validate(PlaneFacts, document)


@pytest.mark.parametrize("name", ["own", "llama3-70b-training", "superpod-h100-1su"])
def test_parts_are_counted_as_the_summary_counts_them(name: str) -> None:
    here = built(name)
    summary = build_summary(here.built, here.design, here.document.catalog, domains=False,
                            availability=False)  # fmt: skip
    sheets = {one.plane: one for one in describe_planes(here)}
    assert list(sheets) == list(PLANES)
    for plane in summary.planes:
        sheet = sheets[plane.plane]
        counts = {one.id: one.count for one in sheet.components}
        for tier, count in plane.counts.switches:
            assert counts[f"{plane.plane}-{tier}"] == count
        assert counts[f"{plane.plane}-nic"] == plane.counts.nics
        assert dict(sheet.ratios) == {
            tier.tier: tier.oversubscription
            for tier in plane.capacity.tiers
            if tier.oversubscription is not None
        }
        assert sheet.transport == plane.transport
        assert sheet.topology == plane.topology
        for one in sheet.components:
            assert one.role
            assert bool(one.first) == bool(one.count)


def test_sharing_is_said_on_both_sides() -> None:
    sheets = {one.plane: one for one in describe_planes(built("own"))}
    assert sheets["management"].network == "frontend"
    assert sheets["management"].sharing == ("frontend",)
    assert sheets["frontend"].sharing == ("management",)
    assert any("planes.management.shares" in said for said in sheets["management"].here)
    assert any("no way in of its own" in said for said in sheets["management"].here)
    assert any("load of management" in said for said in sheets["frontend"].here)
    assert sheets["storage"].sharing == ()
    assert sheets["storage"].encryption == ("macsec",)
    assert any("One switch carries all of it" in said for said in sheets["storage"].here)
    assert {one.id for one in sheets["frontend"].components} >= {"users", "scheduler"}


def test_what_the_design_does_for_the_back_end() -> None:
    here = {one.plane: one for one in describe_planes(built("own"))}["backend"]
    assert any("3:1 at the leaf" in said and "33%" in said for said in here.here)
    assert any("2 GPUs share an adapter" in said for said in here.here)
    whole = describe_planes(built("superpod-h100-1su"))[0]
    assert "No tier has less capacity upwards than downwards." in whole.here
    assert "Every GPU has an adapter of its own, or more than one." in whole.here


def test_traffic_is_that_of_the_workload() -> None:
    here = built("llama3-70b-training")
    sheets = {one.plane: one for one in describe_planes(here)}
    sent = bytes_by_plane(here.workload().traffic)
    assert [one for sheet in sheets.values() for one in sheet.traffic] == list(sent)
    assert [one.name for one in sheets["frontend"].beside] == ["dataset"]
    assert [one.name for one in sheets["storage"].beside] == ["users"]
    assert describe_planes(here, traffic=False)[0].traffic == ()


def test_classes_are_those_of_the_switches() -> None:
    here = built("own")
    found = traffic_class(here, PlaneId.BACKEND)
    classes = classes_of(CongestionSpec(), Transport.ROCEV2)
    assert (found.priority, found.lossless) == (classes.priority(26), classes.is_lossless(26))
    assert traffic_class(here, PlaneId.FRONTEND).describe().endswith("switches may drop")
    credits = traffic_class(built("superpod-h100-1su"), PlaneId.BACKEND)
    assert credits.priority is None
    assert credits.describe() == "one class, lossless by link-level credits"


def test_a_plane_that_is_not_there_is_said_to_be_so() -> None:
    sheets = {one.plane: one for one in describe_planes(built("hpn-pod-15k"), traffic=False)}
    assert sheets["storage"].network == ""
    assert sheets["storage"].components == ()
    document = sheets["storage"].to_json()
    assert document["described"] is False
    assert document["carries"] == "datasets in, checkpoints out"


def test_the_map_gives_every_node_a_station() -> None:
    here = built("own")
    system = system_map(here)
    assert (system.station_of >= 0).all()
    assert sum(one.count for one in system.stations.values()) == here.fabric.n_nodes
    assert np.unique(system.station_of).size <= len(system.stations)
