"""Published tables of reference designs, from inputs without any switch or cable count."""

from __future__ import annotations

import pytest

from railweave.design import parse_design
from railweave.fabric import PlaneId, build_fabric
from railweave.fabric.plan import Counts

TEXT = """railweave: 1
name: reference
cluster: {{servers: {{model: {server}, count: {count}}}}}
planes: {{backend: {{topology: rail-optimized, {plane}}}}}
"""


def counts(server: str, count: int, plane: str) -> Counts:
    loaded = parse_design(TEXT.format(server=server, count=count, plane=plane))
    return build_fabric(loaded.design, loaded.catalog).plans[PlaneId.BACKEND].counts


@pytest.mark.parametrize(
    ("units", "leaf", "spine", "core"),
    [(1, 8, 4, 0), (2, 16, 10, 0), (3, 24, 20, 0), (5, 40, 20, 0), (7, 56, 80, 28)],
)
def test_dgx_a100_radix_40(units: int, leaf: int, spine: int, core: int) -> None:
    plane = "transport: infiniband, switch: {radix: 40, speed: 200 Gb/s}, scalable_unit: 20"
    found = counts("dgx-a100", 20 * units, plane)
    assert found.switches == {"leaf": leaf, "spine": spine} | ({"core": core} if core else {})
    assert set(found.links.values()) == {160 * units}


@pytest.mark.parametrize(
    ("nodes", "leaf", "spine", "cables"),
    [
        (72, 8, 4, 576),
        (144, 16, 8, 1152),
        (288, 32, 18, 2304),
        (576, 64, 36, 4608),
        (1296, 144, 72, 10368),
    ],
)
def test_dgx_b300_radix_144(nodes: int, leaf: int, spine: int, cables: int) -> None:
    found = counts("dgx-b300", nodes, "transport: infiniband, switch: q3400, scalable_unit: 72")
    assert found.switches == {"leaf": leaf, "spine": spine}
    assert found.cables == {"host-leaf": cables, "leaf-spine": cables}


@pytest.mark.parametrize(
    ("units", "leaf", "spine", "cables"),
    [
        (1, 16, 8, 512),
        (2, 32, 16, 1024),
        (4, 64, 32, 2048),
        (8, 128, 64, 4096),
        (16, 256, 128, 8192),
    ],
)
def test_dgx_b300_two_planes(units: int, leaf: int, spine: int, cables: int) -> None:
    """Each 800G NIC is one twin-port cable to two planes; so are two 400G uplinks of a cage."""
    plane = (
        "transport: rocev2, switch: sn5600, planes: 2, scalable_unit: 64, "
        "uplink_speed: 400 Gb/s, links_per_cable: {host-leaf: 2, leaf-spine: 2}"
    )
    found = counts("dgx-b300", 64 * units, plane)
    assert found.switches == {"leaf": leaf, "spine": spine}
    assert found.cables == {"host-leaf": cables, "leaf-spine": cables}
    assert found.links == {"host-leaf": 2 * cables, "leaf-spine": 2 * cables}


def test_uplinks_break_out_where_that_saves_a_tier() -> None:
    plane = "transport: rocev2, switch: sn5600, planes: 2, scalable_unit: 64"
    assert counts("dgx-b300", 512, plane).links["leaf-spine"] == 128 * 32  # whole 800G ports
    assert counts("dgx-b300", 1024, plane).switches == {"leaf": 256, "spine": 128}
    whole = counts("dgx-b300", 1024, f"{plane}, uplink_speed: 800 Gb/s")
    assert "core" in whole.switches


def test_rails_keep_to_their_spine_group_in_three_tiers() -> None:
    """Traffic that keeps to its rail needs no core."""
    plane = "transport: infiniband, switch: {radix: 8, speed: 400 Gb/s}, scalable_unit: 4"
    loaded = parse_design(TEXT.format(server="dgx-b200", count=16, plane=plane))
    built = build_fabric(loaded.design, loaded.catalog)
    fabric = built.fabric
    leaves = fabric.switches(PlaneId.BACKEND, 1)
    pods = {
        rail: set(fabric.node_pod[leaves[fabric.node_rail[leaves] == rail]].tolist())
        for rail in range(8)
    }
    assert built.plans[PlaneId.BACKEND].counts.switches["core"] > 0
    assert all(len(found) == 1 for found in pods.values())
