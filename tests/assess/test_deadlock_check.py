"""The check of cyclic buffer dependency: where it speaks, what it says, where it is silent."""

from __future__ import annotations

from pathlib import Path

import pytest

from railweave.assess import CheckContext
from railweave.assess._deadlock import DEADLOCK_CHECKS
from railweave.assess.checks import CHECKS
from railweave.design import load_design
from railweave.fabric.build import build_fabric
from railweave.findings import Finding, Severity

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
SERVER = "{count: 5, inline: {gpus: 1, nics: 1, nic_speed: 400 Gb/s, scale_up_bandwidth: 3.6 Tb/s}}"
RING = [(1, 2), (2, 3), (3, 4), (4, 5), (5, 1)]
TREE = [(1, 2), (2, 3), (2, 4), (4, 5)]


def graph(cables) -> str:
    lines = ["switches:", *(f"  - {{name: s{k}}}" for k in range(1, 6)), "links:"]
    lines += [f"  - {{a: node{k}, b: s{k}}}" for k in range(1, 6)]
    lines += [f"  - {{a: s{a}, b: s{b}, speed: 400 Gb/s}}" for a, b in cables]
    return "\n".join(lines) + "\n"


def findings(tmp_path, backend: str, wiring: str = "", table: str = "") -> list[Finding]:
    (tmp_path / "g.yaml").write_text(wiring)
    (tmp_path / "t.csv").write_text(table)
    file = tmp_path / "d.yaml"
    file.write_text(
        "railweave: 1\nname: checked\ncluster:\n  servers: " + SERVER + "\nplanes:\n"
        f"  backend: {{{backend}, switch: {{radix: 8, speed: 400 Gb/s}}}}\n"
    )
    loaded = load_design(file)
    context = CheckContext(loaded, build_fabric(loaded.design, loaded.catalog, tmp_path))
    return [finding for check in DEADLOCK_CHECKS for finding in check(context)]


def test_it_is_among_the_checks():
    assert set(DEADLOCK_CHECKS) <= set(CHECKS)


@pytest.mark.parametrize(
    ("transport", "way_out"),
    [("rocev2", "second lossless priority"), ("infiniband", "second virtual lane")],
)
def test_a_lossless_ring_is_an_error_that_names_the_ports(tmp_path, transport, way_out):
    plane = f"transport: {transport}, topology: graph, graph: g.yaml"
    (found,) = findings(tmp_path, plane, graph(RING))
    assert found.severity is Severity.ERROR
    assert found.id == "cyclic-buffer-dependency"
    assert ":6:" in found.path
    assert all(found.message.count(f"s{k}:port-") == 2 for k in range(1, 6))
    start = "5 links wait for each other in a circle: s1:port-2 → s2:port-2, s2:port-3 → s3:port-2"
    assert start in found.message
    assert "at s2 by traffic to " in found.evidence
    assert way_out in found.fix


def test_a_ring_that_drops_is_remarked_upon(tmp_path):
    plane = "transport: rocev2, topology: graph, graph: g.yaml, congestion: dcqcn"
    (found,) = findings(tmp_path, plane, graph(RING))
    assert found.severity is Severity.INFO
    assert "with PFC it could: 5 links" in found.message


def test_tcp_is_never_lossless(tmp_path):
    assert not findings(tmp_path, "transport: tcp, topology: graph, graph: g.yaml", graph(RING))


def test_an_untiered_tree_is_said_to_be_free(tmp_path):
    plane = "transport: rocev2, topology: graph, graph: g.yaml"
    (found,) = findings(tmp_path, plane, graph(TREE))
    assert (found.id, found.severity) == ("deadlock-free", Severity.INFO)
    # s2 passes on between three others: two turns for each link that comes in; s4 between two.
    assert "8 waits among 8 links" in found.evidence


@pytest.mark.parametrize("transport", ["rocev2", "infiniband"])
def test_tiers_need_no_word(tmp_path, transport):
    plane = f"transport: {transport}, topology: leaf-spine, min_spines: 2"
    assert not findings(tmp_path, plane)


def test_the_table_of_a_file_is_followed(tmp_path):
    """One way round the ring for all: each link waits for the next."""
    plane = (
        "transport: infiniband, topology: graph, graph: g.yaml,"
        " routing: {scheme: table, table: t.csv}"
    )
    rows = ["switch,destination,port"]
    # Port 1 is the server; port 2 of s1 and port 3 of the others lead on.
    for s in range(1, 6):
        onward = 2 if s == 1 else 3
        rows += [f"s{s},node{d:03d}/nic0,{1 if d == s else onward}" for d in range(1, 6)]
    (found,) = findings(tmp_path, plane, graph(RING), "\n".join(rows))
    assert found.severity is Severity.ERROR
    assert "by table" in found.evidence
    # Without what crosses s4 the circle is open.
    rows = [row for row in rows if not row.startswith("s4") or ",1" in row]
    (found,) = findings(tmp_path, plane, graph(RING), "\n".join(rows))
    assert found.id == "deadlock-free"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_no_example_can_deadlock(path):
    loaded = load_design(path)
    context = CheckContext(loaded, build_fabric(loaded.design, loaded.catalog, path.parent))
    found = [finding for check in DEADLOCK_CHECKS for finding in check(context)]
    assert not [finding for finding in found if finding.severity is Severity.ERROR]
    assert bool(found) == (path.stem == "ring-of-switches")
