"""A fabric's drawing: few boxes that open, nothing lost, ids that can be failed."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import railweave
from railweave.api import BuiltDesign
from railweave.fabric import Fabric, PlaneId
from railweave.fabric.names import find_duplex
from railweave.studio.fabric_scene import MOST_IN_FULL, fabric_scene, fail_name, whole_scene
from railweave.studio.scene import Scene

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.yaml"))


@cache
def built(name: str) -> BuiltDesign:
    return railweave.load(EXAMPLES / f"{name}.yaml").build()


def planes(fabric: Fabric) -> list[PlaneId]:
    return [plane for plane in PlaneId if fabric.switches(plane).size]


def cables(fabric: Fabric, plane: PlaneId) -> int:
    switched = np.isin(fabric.link_src, fabric.switches(plane)) | np.isin(
        fabric.link_dst, fabric.switches(plane)
    )
    return int(switched[::2].sum())


def switches_in(scene: Scene) -> int:
    return sum(n.count for n in scene.nodes if n.kind in ("leaf", "spine", "core", "switch"))


@pytest.mark.parametrize("name", NAMES)
def test_collapsed_is_small_and_holds_every_cable(name):
    fabric = built(name).fabric
    for plane in planes(fabric):
        scene = fabric_scene(fabric, plane)
        assert len(scene.nodes) <= 80
        assert sum(link.count for link in scene.links) == cables(fabric, plane)
        assert switches_in(scene) == len(fabric.switches(plane))
        assert scene.document() == fabric_scene(fabric, plane).document()


@pytest.mark.parametrize("name", ["superpod-h100-4su", "juniper-16-leaf", "superpod-b200-4su"])
def test_opening_a_group_conserves_the_counts(name):
    fabric = built(name).fabric
    for plane in planes(fabric):
        closed = fabric_scene(fabric, plane)
        for group in closed.groups:
            opened = fabric_scene(fabric, plane, expanded=frozenset({group.id}))
            after = {one.id: one for one in opened.groups}
            if group.collapsed:
                assert not after[group.id].collapsed
                assert {n.count for n in opened.nodes if n.group == group.id} == {1}
                assert after[group.id].count == group.count
            assert sum(link.count for link in opened.links) == cables(fabric, plane)
            assert switches_in(opened) == switches_in(closed)
            assert opened.description == closed.description


def test_a_plane_of_few_devices_is_drawn_in_full():
    fabric = built("two-servers-4-gpus").fabric
    scene = fabric_scene(fabric)
    assert len(scene.nodes) <= MOST_IN_FULL
    assert all(node.count == 1 for node in scene.nodes)
    assert all(group.fixed for group in scene.groups)


@pytest.mark.parametrize("name", NAMES)
def test_ids_of_single_things_can_be_failed(name):
    design = built(name)
    fabric = design.fabric
    for plane in planes(fabric):
        scene = fabric_scene(fabric, plane, expanded=frozenset({"pod-1", "tier-2", "hosts"}))
        singles = [fail_name(node.id) for node in scene.nodes if node.count == 1]
        assert None not in singles
        assert None not in [fail_name(link.id) for link in scene.links if link.count == 1]
        assert {fail_name(node.id) for node in scene.nodes if node.count > 1} <= {None}
        assert {fail_name(link.id) for link in scene.links if link.count > 1} <= {None}
        some = singles[:: max(1, len(singles) // 5)]
        some += [link.id for link in scene.links if link.count == 1][:5]
        for item in some:
            assert design.fail([item]).failed == (item,)


def test_a_cable_that_is_taken_out_is_the_one_that_was_clicked():
    design = built("juniper-16-leaf")
    before = fabric_scene(design.fabric)
    cable = next(link for link in before.links if "spine" in link.target)
    after = fabric_scene(design.fail([cable.id]).fabric)
    assert [link.id for link in after.links if link.state == "down"] == [cable.id]
    assert "out" in next(link.detail for link in after.links if link.id == cable.id)
    assert "1 of them out" in after.description


def test_a_device_that_is_out_is_down_with_all_its_cables():
    design = built("juniper-16-leaf")
    scene = fabric_scene(design.fail(["spine-2"]).fabric)
    assert [node.id for node in scene.nodes if node.state == "down"] == ["spine-2"]
    down = [link for link in scene.links if link.state == "down"]
    assert {link.target for link in down} == {"spine-2"}
    assert len(down) == sum(link.target == "spine-2" for link in scene.links)


def test_a_bundle_says_how_many_are_out():
    design = built("superpod-h100-4su").fail(["spine-1"])
    scene = fabric_scene(design.fabric)
    partly = [link for link in scene.links if link.role == "fault"]
    assert partly
    assert all("of" in link.label and link.state == "" for link in partly)


def test_load_is_the_busier_way_and_the_busiest_cable():
    fabric = built("superpod-h100-4su").fabric
    load = np.full(fabric.n_links, np.nan)
    cable = find_duplex(fabric, "leaf-1:port-1")
    load[2 * cable] = 0.2
    load[2 * cable + 1] = 0.95
    known = [link for link in fabric_scene(fabric, load=load).links if link.load == link.load]
    assert [link.load for link in known] == [0.95]
    assert known[0].state == "hot"
    assert "95%" in known[0].detail


def test_a_server_with_ports_in_several_pods_stands_in_each():
    fabric = built("superpod-b200-16su").fabric
    scene = fabric_scene(fabric, expanded=frozenset({"pod-1", "pod-2"}))
    names = Counter(fail_name(node.id) for node in scene.nodes if node.kind == "server")
    assert names["node001"] == 2


@pytest.mark.parametrize("name", ["superpod-h100-4su", "two-servers-4-gpus", "ring-of-switches"])
def test_the_whole_scene_has_every_port_and_cable(name):
    fabric = built(name).fabric
    scene = whole_scene(fabric)
    assert len(scene.links) == cables(fabric, PlaneId.BACKEND)
    assert switches_in(scene) == len(fabric.switches(PlaneId.BACKEND))
    assert sum(node.kind == "nic" for node in scene.nodes) == len(fabric.nics(PlaneId.BACKEND))
    places = Counter((node.x, node.y) for node in scene.nodes)
    assert max(places.values()) == 1


def test_the_whole_scene_shows_what_is_down():
    design = built("superpod-h100-4su").fail(["leaf-1", "leaf-9:port-1"])
    scene = whole_scene(design.fabric)
    assert {node.id for node in scene.nodes if node.state == "down"} >= {"leaf-1"}
    down = [link.id for link in scene.links if link.state == "down"]
    assert len(down) == 1 + sum("leaf-1" in (link.source, link.target) for link in scene.links)
