"""The page on graph files: three forms of one graph, and all the fields there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from railweave.errors import DesignError
from railweave.fabric._graph import Graph, GraphLink, GraphSwitch, read_graph

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "graph-file.md").read_text("utf-8")
SERVERS = ("node001", "node002")


def block(language: str, start: str) -> str:
    found = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (text,) = [text for text in found if text.startswith(start)]
    return text


def read(folder: Path, name: str, text: str) -> Graph:
    path = folder / name
    path.write_text(text, "utf-8")
    return read_graph(path, SERVERS)


def test_the_page_has_every_field():
    rows = re.findall(r"^\| (`.*?`) \|", PAGE, re.MULTILINE)
    told = re.findall(r"`(\w+)`", " ".join(rows))
    assert told == [*GraphSwitch.model_fields, *GraphLink.model_fields]


def test_yaml_and_json_mean_the_same(tmp_path):
    ours = read(tmp_path, "g.yaml", block("yaml", "switches"))
    theirs = read(tmp_path, "g.json", block("json", "{"))
    assert ours == theirs
    (first, _, link), *_ = ours.links
    assert (first.server, first.nic, link.speed) == (0, 0, 400e9)
    assert ours.links[2][2].length == 30.0


def test_graphml_means_the_same(tmp_path):
    pytest.importorskip("networkx")
    text = block("xml", "<graphml")
    graph = read(tmp_path, "g.graphml", text)
    assert [switch.name for switch in graph.switches] == ["s1", "s2"]
    assert [(link.speed, link.count) for *_, link in graph.links] == [
        (400e9, 1),
        (None, 8),
        (800e9, 4),
    ]
    text = text.replace('id="node001"', 'id="node001:nic0"').replace(
        'source="node001"', 'source="node001:nic0"'
    )
    assert read(tmp_path, "nic.graphml", text).links[0][0].nic == 0


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("{a: node001, b: node002}", "a link joins two servers"),
        ("{a: s1, b: s1}", "to itself"),
        ("{a: node001, b: s1, latency: 1 us}", "latency"),
    ],
)
def test_what_is_not_supported_is_refused(tmp_path, link, expected):
    with pytest.raises(DesignError, match=expected):
        read(tmp_path, "g.yaml", f"switches: [{{name: s1}}]\nlinks:\n  - {link}\n")
