"""The size that is planned is the size that is built."""

from pathlib import Path

import pytest

import railweave
from railweave.fabric import LinkLayer
from railweave.fabric.planned import planned_hosts, planned_size

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    "name",
    [
        "hpn-pod-15k",
        "juniper-16-leaf",
        "star-64-gpus",
        "superpod-b200-16su",
        "superpod-h100-4su",
        "two-servers-4-gpus",
    ],
)
def test_links_and_gpus_are_those_of_the_fabric(name):
    loaded = railweave.load(EXAMPLES / f"{name}.yaml")
    planned = planned_size(loaded.design, loaded.document.catalog)
    built = loaded.build()
    directed = int((built.fabric.link_layer >= LinkLayer.HOST_LEAF).sum())
    assert planned.links == directed // 2
    assert planned.gpus == built.built.nodes.gpu_count.sum()
    hosts = planned_hosts(loaded.design, loaded.document.catalog)
    assert (hosts.gpus, hosts.hosts, hosts.links) == (planned.gpus, planned.hosts, 0)
    assert planned.hosts >= len(built.built.nodes.gpu_count)


def test_a_graph_file_says_itself_how_large_it_is():
    loaded = railweave.load(EXAMPLES / "ring-of-switches.yaml")
    assert planned_size(loaded.design, loaded.document.catalog).links == 0
