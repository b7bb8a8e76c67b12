"""The collapsed drawing: few boxes, nothing lost, planes told apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import railweave
from railweave.fabric import Fabric, PlaneId
from railweave.report.drawing import draw_topology, drawing_width
from railweave.report.topology import TopologyView, collapse, tier_plural

ROOT = Path(__file__).parents[2]
DRAWN = (
    "two-servers-4-gpus",
    "star-64-gpus",
    "juniper-16-leaf",
    "superpod-h100-4su",
    "superpod-b200-16su",
    "meta-llama3-24k",
    "hpn-pod-15k",
)


@pytest.fixture(scope="module", params=DRAWN)
def drawn(request) -> tuple[str, Fabric, TopologyView]:
    fabric = railweave.load(ROOT / "examples" / f"{request.param}.yaml").build().fabric
    return request.param, fabric, collapse(fabric, pod_name="unit")


def test_few_boxes_hold_every_device(drawn):
    _, fabric, view = drawn
    assert len(view.nodes) <= 80
    assert len(view.edges) <= 260
    for tier in (1, 2, 3):
        boxes = sum(node.count for node in view.nodes if node.tier == tier)
        assert boxes == len(fabric.switches(PlaneId.BACKEND, tier))
        assert dict(view.totals).get(tier, 0) == boxes
    servers = len(np.unique(fabric.node_server[fabric.node_server >= 0]))
    assert dict(view.totals)[0] == servers


def test_bundles_hold_every_link(drawn):
    _, fabric, view = drawn
    switch_links = (fabric.link_plane[::2] == PlaneId.BACKEND) & (fabric.link_layer[::2] >= 2)
    assert sum(edge.links for edge in view.edges) == int(switch_links.sum())
    capacity = fabric.link_capacity_bps[::2][switch_links].sum()
    assert sum(edge.capacity_bps for edge in view.edges) == pytest.approx(capacity)
    assert all(edge.down_links == 0 for edge in view.edges)


def test_boxes_of_a_tier_do_not_overlap(drawn):
    _, _, view = drawn
    figure = draw_topology(view)
    width = max(drawing_width(view), 320)
    for trace in figure.data:
        if trace.mode and trace.mode.startswith("markers") and trace.name:
            places = np.sort(np.array(trace.x, dtype=float))
            assert np.diff(places).min(initial=1.0) * width >= 10


def test_parallel_planes_are_told_apart():
    fabric = railweave.load(ROOT / "examples/hpn-pod-15k.yaml").build().fabric
    view = collapse(fabric, pod_name="segment")
    assert {node.subplane for node in view.nodes if node.tier > 0} == {0, 1}
    names = [trace.name for trace in draw_topology(view).data]
    assert "plane A" in names
    assert "plane B" in names
    box = {node.key: node for node in view.nodes}
    for edge in view.edges:
        planes = {box[edge.lower].subplane, box[edge.upper].subplane} - {-1}
        assert len(planes) == 1
    assert any("segment 3" in node.detail and "plane B" in node.detail for node in view.nodes)


def test_links_that_are_out_are_red_and_counted():
    built = railweave.load(ROOT / "examples/juniper-16-leaf.yaml").build().fail(["spine-2"])
    view = collapse(built.fabric)
    assert sum(edge.down_links for edge in view.edges) == 16
    assert "links out" in [trace.name for trace in draw_topology(view).data]


def test_pods_beyond_the_drawing_are_counted():
    design = (ROOT / "examples/superpod-h100-4su.yaml").read_text()
    text = design.replace("count: 127", "count: 640").replace(
        "scalable_unit: 32", "scalable_unit: 32"
    )
    view = collapse(railweave.parse(text).build().fabric, pod_name="unit")
    pods = {node.pod for node in view.nodes if node.pod >= 0}
    assert len(pods) <= 16
    hidden = 0 if not view.note else int(view.note.split()[0])
    fabric = railweave.parse(text).build().fabric
    leaves = fabric.switches(PlaneId.BACKEND, 1)
    assert len(pods) + hidden == len(np.unique(fabric.node_pod[leaves]))


@pytest.mark.parametrize(
    ("tier", "count", "text"),
    [(1, 1, "1 leaf"), (1, 32, "32 leaves"), (2, 16, "16 spines"), (0, 1200, "1,200 servers")],
)
def test_words_for_numbers(tier, count, text):
    assert tier_plural(tier, count) == text
