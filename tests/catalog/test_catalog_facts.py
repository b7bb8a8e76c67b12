"""Right values, and a source for every one of them."""

from pathlib import Path

import pytest
from pydantic import BaseModel

import railweave.catalog as catalog_room
from railweave.catalog import CatalogError, Part, default_catalog, yaml_name
from railweave.formats.yaml_source import read_yaml
from railweave.provenance import Certainty

CATALOG = default_catalog()
PARTS = CATALOG.parts()


def numbers(model, path=()):
    """Yield the dotted path of every number in a part."""
    for name in type(model).model_fields:
        yield from _numbers(getattr(model, name), (*path, yaml_name(name)))


def _numbers(value, path):
    if isinstance(value, BaseModel):
        yield from numbers(value, path)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _numbers(inner, (*path, key))
    elif isinstance(value, tuple):
        for position, inner in enumerate(value):
            yield from _numbers(inner, (*path, str(position)))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield ".".join(path)


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_every_number_has_a_source_in_words(part):
    found = [name for name in numbers(part) if not name.startswith("facts")]
    assert found
    for name in found:
        source = part.provenance(name)
        assert " " in source.title, f"{part.name}.{name} has no source"
        assert isinstance(source.certainty, Certainty)


def test_provenance_of_single_facts():
    switch = CATALOG.switch("sn4700")
    assert switch.provenance("ports").certainty is Certainty.CONFIRMED
    assert switch.provenance("power_w") == switch.provenance("power")
    assert switch.provenance("power").certainty is Certainty.ESTIMATED
    assert "SONiC" in switch.provenance("cell_bytes").title
    server = CATALOG.server("dgx-h100")
    assert server.provenance("nics.backend.count").certainty is Certainty.CONFIRMED
    assert server.provenance("nics.storage.count").certainty is Certainty.ESTIMATED
    with pytest.raises(CatalogError, match="did you mean 'power'"):
        switch.provenance("pwoer")


def test_names_are_unique_within_a_kind_and_shown_in_order():
    for parts in (CATALOG.servers(), CATALOG.switches(), CATALOG.cables()):
        names = [part.name for part in parts]
        assert names == sorted(set(names))
    assert all(isinstance(part, Part) for part in PARTS)


@pytest.mark.parametrize(
    ("name", "gpus", "links", "scale_up_gB"),
    [
        ("dgx-a100", (8, 8), (8, 200e9), 300),
        ("dgx-h100", (8, 8), (8, 400e9), 450),
        ("dgx-h200", (8, 8), (8, 400e9), 450),
        ("dgx-b200", (8, 8), (8, 400e9), 900),
        ("dgx-b300", (8, 8), (8, 800e9), 900),
        ("hgx-h100-4gpu", (4, 4), (4, 400e9), 450),
        ("hgx-h100-8gpu-2x200g", (8, 8), (16, 200e9), 450),
        ("gb200-nvl72-tray", (4, 72), (4, 400e9), 900),
        ("gb300-nvl72-tray", (4, 72), (4, 800e9), 900),
        ("mi300x-8gpu", (8, 8), (8, 400e9), 448),
        ("grand-teton-h100", (8, 8), (8, 400e9), 450),
        ("p5-h100-efa", (8, 8), (32, 100e9), 450),
    ],
)
def test_servers(name, gpus, links, scale_up_gB):
    server = CATALOG.server(name)
    backend = server.nics["backend"]
    assert (server.gpu_count, server.scale_up_domain_gpus) == gpus
    assert (backend.count, backend.speed_bps) == links
    assert server.scale_up_bps == scale_up_gB * 8e9
    assert CATALOG.gpu(server.gpu).scale_up_bps == server.scale_up_bps
    assert server.servers_per_domain == gpus[1] // gpus[0]


def test_dgx_h100_has_twin_port_cages():
    backend = CATALOG.server("dgx-h100").nics["backend"]
    assert (backend.cages, backend.links_per_cage) == (4, 2)


def test_a_server_without_gpus():
    server = CATALOG.server("cpu-2s")
    assert (server.gpu, server.gpu_count, server.servers_per_domain) == (None, 0, 1)


@pytest.mark.parametrize(
    ("name", "ports", "speed_g", "cages", "tb_s"),
    [
        ("qm8700", 40, 200, 40, 8.0),
        ("qm9700", 64, 400, 32, 25.6),
        ("q3400", 144, 800, 72, 115.2),
        ("sn2201", 48, 1, 48, 0.448),
        ("sn3700", 32, 200, 32, 6.4),
        ("sn4600", 64, 200, 64, 12.8),
        ("sn4700", 32, 400, 32, 12.8),
        ("sn5600", 64, 800, 64, 51.2),
        ("wedge400", 32, 200, 32, 12.8),
        ("arista-7060x6-64pe", 64, 800, 64, 51.2),
        ("arista-7816r4", 576, 800, 576, 460.8),
        ("cisco-n9364e-sg2", 64, 800, 64, 51.2),
        ("juniper-qfx5240-64od", 64, 800, 64, 51.2),
        ("dell-z9864f", 64, 800, 64, 51.2),
        ("hpn-tor-51t", 128, 400, 128, 51.2),
    ],
)
def test_switches(name, ports, speed_g, cages, tb_s):
    switch = CATALOG.switch(name)
    assert (switch.ports, switch.port_speed_bps, switch.cages) == (ports, speed_g * 1e9, cages)
    assert switch.capacity_bps == pytest.approx(tb_s * 1e12)
    assert switch.ports_at(switch.port_speed_bps) == ports
    assert switch.power_base_w <= switch.power_w


def test_breakouts_are_bounded_by_the_asic():
    switch = CATALOG.switch("sn5600")
    assert [switch.ports_at(speed * 1e9) for speed in (800, 400, 200, 100, 3)] == [
        64,
        128,
        256,
        256,
        0,
    ]
    assert switch.breakout_for(400e9).ways == 2
    assert CATALOG.switch("qm9700").ports_per_cage == 2
    assert CATALOG.switch("hpn-tor-51t").ports_at(200e9) == 256


@pytest.mark.parametrize(("name", "cell"), [("sn4700", 144), ("sn5600", 192), ("sn2700", 96)])
def test_cells(name, cell):
    assert CATALOG.switch(name).cell_bytes == cell


def test_an_adapter_is_not_starved_by_its_slot():
    for nic in CATALOG.nics():
        if nic.name != "bf3-2x400g":
            assert nic.pcie_bps >= nic.total_speed_bps, nic.name


def test_servers_ask_no_more_of_an_adapter_than_it_has():
    for server in CATALOG.servers():
        for links in server.nics.values():
            nic = CATALOG.nic(links.nic)
            assert links.speed_bps <= nic.port_speed_bps, server.name


@pytest.mark.parametrize(
    ("name", "billions", "active"),
    [
        ("llama2-7b", 6.74, None),
        ("llama2-70b", 68.98, None),
        ("llama3-8b", 8.03, None),
        ("llama3-70b", 70.55, None),
        ("llama3-405b", 405.85, None),
        ("gpt3-175b", 174.6, None),
        ("mt-nlg-530b", 529.6, None),
        ("mixtral-8x7b", 46.70, 12.88),
        ("deepseek-v3", 671.0, 37.55),
    ],
)
def test_parameters_follow_from_the_shape(name, billions, active):
    model = CATALOG.model(name)
    assert model.parameters / 1e9 == pytest.approx(billions, rel=1e-3)
    assert model.active_parameters / 1e9 == pytest.approx(active or billions, rel=1e-3)


def test_announced_parts_are_marked():
    announced = {part.name for part in PARTS if part.status == "announced"}
    assert {"q3450-cpo", "arista-7060xe7-64ps", "lpo-dr4-400g", "cpo-dr4-800g"} <= announced
    assert not {"dgx-h100", "qm9700", "dr4-400g"} & announced


DATA = sorted((Path(catalog_room.__file__).parent / "data").glob("*.yaml"))


@pytest.mark.parametrize("path", DATA, ids=lambda path: path.name)
def test_every_source_is_cited(path):
    data = read_yaml(path).data
    cited = {
        note.get("source")
        for section, parts in data.items()
        if section != "sources"
        for part in parts.values()
        for note in (part, *part.get("facts", {}).values())
    }
    assert cited - {None} == set(data["sources"])
