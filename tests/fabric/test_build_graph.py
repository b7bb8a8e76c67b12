"""Planes whose graph comes from a file."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from railweave.catalog import default_catalog
from railweave.design.models import Design
from railweave.errors import InputError, MissingProgramError
from railweave.fabric import BuiltFabric, PlaneId, build_fabric, find_node
from railweave.fabric.ports import ports_used_twice

G8 = {"gpus": 8, "nics": 8, "nic_speed": "400 Gb/s", "scale_up_bandwidth": "450 GB/s"}
RADIX_16 = {"radix": 16, "speed": "400 Gb/s"}

GRAPH = """\
switches:
  - {name: s1}
  - {name: s2}
  - {name: top, tier: 2}
links:
  - {a: "node01:nic3", b: s1}
  - {a: node1, b: s1, speed: 200 Gb/s}
  - {a: s2, b: node002}
  - {a: top, b: s1, count: 2, length: 30 m}
  - {a: s2, b: top, count: 2}
"""


def graph(tmp_path: Path, text: str, name: str = "g.yaml") -> BuiltFabric:
    (tmp_path / name).write_text(text)
    design = {
        "railweave": 1,
        "name": "t",
        "cluster": {"servers": {"inline": G8, "count": 2}},
        "planes": {
            "backend": {
                "transport": "rocev2",
                "topology": "graph",
                "graph": name,
                "switch": RADIX_16,
            }
        },
    }
    return build_fabric(Design.model_validate(design), default_catalog(), tmp_path)


def test_graph_from_yaml(tmp_path):
    built = graph(tmp_path, GRAPH)
    fabric, counts = built.fabric, built.plans[PlaneId.BACKEND].counts
    assert counts.switches == {"leaf": 2, "spine": 1}
    assert counts.links == {"host-leaf": 3, "leaf-spine": 4}
    top, s1 = find_node(fabric, "top"), find_node(fabric, "s1")
    link = np.flatnonzero((fabric.link_src == s1) & (fabric.link_dst == top))
    assert list(fabric.link_length_m[link]) == [30, 30]
    assert set(link % 2) == {0}  # end A is the lower tier
    nic = find_node(fabric, "node001/nic3")
    assert fabric.link_dst[(fabric.link_src == nic) & (fabric.link_plane == 0)] == [s1]
    nic = find_node(fabric, "node001/nic0")
    assert fabric.link_capacity_bps[(fabric.link_src == nic) & (fabric.link_plane == 0)] == [200e9]
    assert ports_used_twice(fabric) == []


def test_graph_that_is_not_made_of_tiers(tmp_path):
    ring = """\
switches: [{name: a}, {name: b}, {name: c}]
links: [{a: node001, b: a}, {a: node002, b: b}, {a: a, b: b}, {a: b, b: c}, {a: c, b: a}]
"""
    built = graph(tmp_path, ring)
    switches = built.fabric.switches(PlaneId.BACKEND)
    assert set(built.fabric.node_tier[switches]) == {-1}
    assert built.plans[PlaneId.BACKEND].counts.links == {"host-leaf": 2, "switch-switch": 3}


NODE_LINK = """{"nodes": [{"id": "a"}, {"id": "b", "tier": 2}, {"id": "node001"}],
 "links": [{"source": "node001", "target": "a", "speed": "100 Gb/s"},
           {"source": "a", "target": "b"}]}"""


def test_graph_from_node_link_json(tmp_path):
    built = graph(tmp_path, NODE_LINK, "g.json")
    assert built.plans[PlaneId.BACKEND].counts.switches == {"leaf": 1, "spine": 1}
    own = graph(
        tmp_path, '{"switches": [{"name": "x"}], "links": [{"a": "node001", "b": "x"}]}', "h.json"
    )
    assert own.plans[PlaneId.BACKEND].counts.switches == {"leaf": 1}


def test_graph_from_graphml(tmp_path):
    networkx = pytest.importorskip("networkx")
    graphml = networkx.Graph()
    graphml.add_node("b", tier=2)
    graphml.add_edge("node001", "a", speed="100 Gb/s")
    graphml.add_edge("a", "b", count=3)
    networkx.write_graphml(graphml, tmp_path / "source.graphml")
    built = graph(tmp_path, (tmp_path / "source.graphml").read_text(), "g.graphml")
    assert built.plans[PlaneId.BACKEND].counts.links == {"host-leaf": 1, "leaf-spine": 3}


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        (
            GRAPH.replace("b: s1}", "b: s9}"),
            "g.yaml",
            "g.yaml:6:24: links[0].b: there is no switch",
        ),
        (GRAPH.replace("name: s2", "name: s1"), "g.yaml", "there is already a switch 's1'"),
        (GRAPH.replace("name: s2", "name: node1"), "g.yaml", "there is already a server 'node1'"),
        (GRAPH.replace("node002", "node003"), "g.yaml", "did you mean 'node002'"),
        (GRAPH.replace("a: top, b: s1", "a: s1, b: s1"), "g.yaml", "joins 's1' to itself"),
        (
            GRAPH.replace("a: s2, b: node002", "a: node001, b: node002"),
            "g.yaml",
            "joins two servers",
        ),
        (GRAPH.replace("200 Gb/s", "200"), "g.yaml", "g.yaml:7"),
        (GRAPH.replace("count: 2, length", "count: 20, length"), "g.yaml", "has 16"),
        (GRAPH.replace("nic3", "nic8"), "g.yaml", "a server with 8 NICs"),
        (GRAPH.replace("200 Gb/s", "800 Gb/s"), "g.yaml", "has ports of 400 Gb/s"),
        ("[1, 2]", "g.json", "node-link graph"),
        ('{"nodes": [1], "links": []}', "g.json", "needs id"),
        ("<graphml", "g.graphml", "not sound GraphML"),
    ],
)
def test_bad_graphs_say_where(tmp_path, text, name, expected):
    with pytest.raises(InputError) as caught:
        graph(tmp_path, text, name)
    assert expected in str(caught.value)


def test_graphml_without_networkx_is_a_friendly_error(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(MissingProgramError, match=r"railweave\[graph\]"):
        graph(tmp_path, "<graphml/>", "g.graphml")
