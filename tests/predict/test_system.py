from pathlib import Path

import numpy as np
import pytest

import railweave
from railweave.errors import InputError
from railweave.predict.system import CollectiveSystem, system_of

EXAMPLES = Path(__file__).parents[2] / "examples"

DESIGN = """
railweave: 1
name: small
cluster: {{servers: {{{server}, count: 4}}}}
planes:
  backend: {{transport: {transport}, topology: rail-optimized}}
"""


def built(server="model: dgx-h100", transport="infiniband"):
    return railweave.parse(DESIGN.format(server=server, transport=transport)).build()


def test_a_superpod_is_domains_of_eight_with_a_nic_each():
    system = system_of(railweave.load(EXAMPLES / "superpod-h100-1su.yaml").build())
    assert (system.domains, system.ranks_per_domain, system.ranks) == (31, 8, 248)
    assert (system.generation, system.scale_up, system.scale_up_Bps) == ("hopper", "nvlink", 450e9)
    assert (system.network, system.nics_per_domain, system.nic_Bps) == ("infiniband", 8, 50e9)
    assert system.multicast
    assert not system.in_network
    assert system.network_Bps == 400e9
    assert "31 × 8 hopper GPUs" in system.describe()


@pytest.mark.parametrize(
    ("server", "transport", "expected"),
    [
        ("model: dgx-h100", "rocev2", ("hopper", "nvlink", "rocev2", 8, 50e9, True)),
        ("model: dgx-a100", "infiniband", ("ampere", "nvlink", "infiniband", 8, 25e9, False)),
        ("model: p5-h100-efa", "tcp", ("hopper", "nvlink", "efa", 32, 12.5e9, True)),
    ],
)
def test_generation_network_and_nics_come_from_the_catalog(server, transport, expected):
    system = system_of(built(server, transport))
    found = (
        system.generation,
        system.scale_up,
        system.network,
        system.nics_per_domain,
        system.nic_Bps,
        system.multicast,
    )
    assert found == expected


def test_ranks_of_one_server_have_no_network():
    design = built()
    system = system_of(design, design.fabric.gpus[:8])
    assert (system.domains, system.network, system.network_Bps) == (1, "none", 0.0)


def test_one_rank_a_server_uses_one_nic():
    design = built()
    system = system_of(design, design.fabric.gpus[::8])
    assert (system.domains, system.ranks_per_domain, system.nics_per_domain) == (4, 1, 1)
    assert not system.multicast


def test_uneven_domains_keep_the_number_of_ranks():
    design = built()
    system = system_of(design, design.fabric.gpus[:13])
    assert (system.domains, system.ranks_per_domain, system.ranks) == (2, 8, 13)


def test_a_server_without_scale_up_is_pcie():
    text = "inline: {gpus: 4, gpu: h100, nics: 2, nic_speed: 200 Gb/s}"
    system = system_of(built(text, "rocev2"))
    assert (system.scale_up, system.multicast, system.nics_per_domain) == ("pcie", False, 2)


def test_sharp_needs_infiniband_with_it():
    assert system_of(built(), in_network=True).in_network
    with pytest.raises(InputError, match="needs an InfiniBand plane"):
        system_of(built(transport="rocev2"), in_network=True)
    design = built()
    with pytest.raises(InputError, match="joins two domains"):
        system_of(design, design.fabric.gpus[:8], in_network=True)


def test_ranks_on_two_generations_are_refused():
    text = """
railweave: 1
name: mixed
cluster:
  servers:
    - {model: dgx-h100, count: 2, name: a, nic_speed: 200 Gb/s}
    - {model: dgx-a100, count: 2, name: b}
planes: {backend: {transport: infiniband, topology: leaf-spine}}
"""
    design = railweave.parse(text).build()
    with pytest.raises(InputError, match="one server group"):
        system_of(design)
    assert system_of(design, design.fabric.gpus[16:]).generation == "ampere"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"domains": 0}, "domains"),
        ({"ranks_per_domain": 0}, "domains"),
        ({"scale_up_Bps": 0.0}, "scale-up bandwidth"),
        ({"network": "none"}, "need a network"),
        ({"nics_per_domain": 0}, "need a network"),
    ],
)
def test_impossible_systems_say_what_is_wrong(change, message):
    good = {
        "generation": "hopper",
        "domains": 2,
        "ranks_per_domain": 8,
        "scale_up": "nvlink",
        "scale_up_Bps": 450e9,
        "network": "infiniband",
        "nics_per_domain": 8,
        "nic_Bps": 50e9,
    }
    assert CollectiveSystem(**good).ranks == 16
    with pytest.raises(InputError, match=message):
        CollectiveSystem(**{**good, **change})


def test_placement_is_by_gpu_node_and_order_does_not_matter():
    design = built()
    nodes = np.array(design.fabric.gpus)
    assert system_of(design, nodes[::-1]) == system_of(design, nodes)
