"""Names of nodes: what is offered where one is written wrongly."""

from __future__ import annotations

from pathlib import Path

import pytest

import railweave
from railweave.fabric import Fabric
from railweave.fabric.names import UnknownNameError, find_node, respelt

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def fabric() -> Fabric:
    return railweave.load(EXAMPLES / "superpod-h100-1su.yaml").build().fabric


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("node1", "node001"),
        ("node01/gpu0", "node001/gpu0"),
        ("node01/gpu9", "node001/gpu0"),
        ("node001/gpu9", "node001/gpu0"),
        ("laef-1", "leaf-1"),
    ],
)
def test_the_nearest_name_is_offered_and_exists(fabric, name, near):
    with pytest.raises(UnknownNameError, match=f"did you mean {near!r}"):
        find_node(fabric, name)
    find_node(fabric, near)


def test_a_number_in_another_width_is_understood(fabric):
    assert respelt(fabric, "node1/nic3") == "node001/nic3"
    assert respelt(fabric, "node0031") == "node031"
    assert respelt(fabric, "node32") == ""
    assert respelt(fabric, "node001") == ""
