"""kubectl reads the node labels and Kueue objects that railweave writes; no cluster is asked."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import railweave
from railweave.deploy import kueue_objects, node_labels, scheduler_view

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="not installed: kubectl"),
]


def read_back(path):
    """Return the objects as kubectl understood them, by kind and name."""
    done = subprocess.run(
        ["kubectl", "label", "--local", "-f", str(path), "seen=yes", "-o", "json"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    found, decoder, at = {}, json.JSONDecoder(), 0
    while at < len(done.stdout.rstrip()):
        one, at = decoder.raw_decode(done.stdout, at)
        at += len(done.stdout[at:]) - len(done.stdout[at:].lstrip())
        assert one["metadata"]["labels"].pop("seen") == "yes"
        found[one["kind"], one["metadata"]["name"]] = one
    return found


@pytest.mark.parametrize("name", ["superpod-h100-2su", "juniper-16-leaf"])
def test_kubectl_reads_what_is_written(tmp_path, name):
    view = scheduler_view(railweave.load(ROOT / f"examples/{name}.yaml").build().fabric)
    (tmp_path / "nodes.yaml").write_text(node_labels(view), encoding="utf-8")
    nodes = read_back(tmp_path / "nodes.yaml")
    assert list(nodes) == [("Node", server) for server in view.servers]
    unit_of = {server: unit.name for unit in view.units for server in unit.servers}
    for (_, server), node in nodes.items():
        labels = node["metadata"]["labels"]
        assert labels["cloud.provider.com/topology-rack"] == unit_of[server]
        assert labels["cloud.provider.com/topology-block"] == view.root
    (tmp_path / "kueue.yaml").write_text(kueue_objects(view), encoding="utf-8")
    kueue = read_back(tmp_path / "kueue.yaml")
    assert list(kueue) == [("Topology", name), ("ResourceFlavor", name)]
    assert kueue["ResourceFlavor", name]["spec"]["topologyName"] == name
